"""Weights of one run at many moments, in one small file: eight bits a number.

Maps are stored as whole numbers -127..127 with a scale for each row, vectors in half precision; the
last snapshot of a run is a network that also ships whole. What rounding costs in bits is measured
when a file is written and stands in its note.

Axes: C snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from bayeswind_lib import models
from bayeswind_lib.checkpoints.files import CheckpointError, read_tensors, write_tensors
from bayeswind_lib.checkpoints.rounding import Weights, packed, unpacked

NOTED = ("name", "seed", "architecture", "config", "tunnel", "tunnel_config", "recipe")


@dataclass(frozen=True)
class Snapshots:
    """The weights of one run, by the number of updates done.

    Attributes:
        weights: float32 weights by step, in order; step 0 is before any update.
        note: name, seed, architecture, config, tunnel, tunnel_config and recipe of the run, and what
            was measured when the file was written.
    """

    weights: dict[int, dict[str, torch.Tensor]]
    note: dict

    @property
    def steps(self) -> list[int]:
        """Updates done at each snapshot, (C,)."""
        return list(self.weights)

    def network(self, step: int) -> nn.Module:
        """The network as it was after some updates, in eval mode.

        Raises:
            ValueError: if there is no snapshot of that step.
        """
        if step not in self.weights:
            raise ValueError(f"there is no snapshot of step {step}: choose one of {', '.join(map(str, self.steps))}")
        model = models.build(self.note["architecture"], self.note["config"])
        model.load_state_dict(self.weights[step])
        model.record = {key: self.note[key] for key in NOTED if key in self.note} | {"step": step}
        return model.eval().requires_grad_(False)


def path_of_snapshots(name: str, seed: int = 0, folder: str | Path | None = None) -> Path:
    """The file with the snapshots of a named network's run."""
    from bayeswind_lib.checkpoints import weights_folder

    return Path(folder or weights_folder()) / "snapshots" / f"{name}-seed{seed}.safetensors"


def save_snapshots(weights: Mapping[int, Weights], note: dict, folder: str | Path | None = None) -> Path:
    """Write the snapshots of a run into one file, which appears whole or not at all.

    Args:
        weights: by step.
        note: at least name, seed, architecture, config, tunnel, tunnel_config and recipe; JSON types.
        folder: where to; the package's own by default.
    Raises:
        ValueError: if the note lacks something, or there is nothing to write.
    """
    missing = [key for key in NOTED if key not in note]
    if missing or not weights:
        raise ValueError(f"snapshots lack {', '.join(missing) or 'weights'}")
    path = path_of_snapshots(note["name"], note["seed"], folder)
    tensors = {
        f"{step}/{name}": x for step in sorted(weights) for name, x in packed(weights[step]).items()
    }
    write_tensors(path, tensors, note)
    return path


def load_snapshots(name: str, seed: int = 0, folder: str | Path | None = None) -> Snapshots:
    """The snapshots of a shipped network's run.

    Raises:
        CheckpointError: if there are none of that name, or the file is none of snapshots.
    """
    path = path_of_snapshots(name, seed, folder)
    tensors, note = read_tensors(path)
    if not note or any(key not in note for key in NOTED) or not all("/" in name for name in tensors):
        raise CheckpointError(f"{path}: not a file of snapshots")
    found: dict[int, dict] = {}
    for name, x in tensors.items():
        step, _, part = name.partition("/")
        found.setdefault(int(step), {})[part] = x
    return Snapshots({step: unpacked(found[step]) for step in sorted(found)}, note)

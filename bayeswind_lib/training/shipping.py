"""From a finished run to the files that ship: a network in the smallest type that keeps its score, snapshots."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from bayeswind_lib import checkpoints
from bayeswind_lib.checkpoints import rounding, snapshots
from bayeswind_lib.checkpoints.files import read_tensors, write_atomically
from bayeswind_lib.training.loop import snapshot_path, start
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.training.sweep import final_score, fresh_episodes, weights_of

ROUNDED_FOR = 1024  # episodes for whose inputs eight bits a number are chosen
KEPT = 0.02  # the share by which KL and entropy error may move when a network that ships is stored smaller,
KEPT_ERRORS = 0.5  # or, where the score itself is known less well, how many of its standard errors


def ship(
    row: dict, folder: str | Path, to: str | Path | None = None, dtype: torch.dtype = torch.float32
) -> Path:
    """Copy a row's network and record to where networks are loaded from by name.

    Args:
        to: the target; the package's own folder by default.
        dtype: of the stored numbers (int8: see `checkpoints.rounding`); if not float32, the scores
            are those of what is stored.
    Returns:
        the path of the copied weights.
    """
    model = checkpoints.load_file(weights_of(row, folder))
    if dtype == torch.float32:
        return checkpoints.save(model, model.record, row["name"], row["seed"], to)
    return _save_rounded(model, row["name"], row["seed"], to, dtype)[0]


def shrink(name: str, seed: int = 0) -> dict[str, float] | None:
    """Store a network that ships in eight bits a number, unless that moves its score.

    A score has moved by more than 2 % if that is also more than half its standard error.

    Returns:
        by how much KL and entropy error moved, as a share, or None if the network is stored so already.
    Raises:
        CheckpointError: if no such network ships.
    """
    model = checkpoints.load(name, seed)
    if model.record["dtype"] == "int8":
        return None
    with tempfile.TemporaryDirectory() as trial:
        path, before = _save_rounded(model, name, seed, trial, torch.int8)
        moved = checkpoints.read_record(path)["rounding"]
        if all(abs(moved[key]) <= max(KEPT, KEPT_ERRORS * before[f"{key}_se"] / before[key]) for key in moved):
            for file in (path, path.with_suffix(".json")):
                write_atomically(checkpoints.path_of(name, seed).parent / file.name, file.read_bytes())
    return moved


def _save_rounded(model: nn.Module, name: str, seed: int, to: str | Path | None, dtype: torch.dtype) -> tuple[Path, dict]:
    """Where a network lies in a smaller type, with the scores of what is stored, and its scores before."""
    record = model.record
    task, n_episodes = (record["tunnel"], record["tunnel_config"]), record["scores"]["n_episodes"]
    before = final_score(model, *task, n_episodes).to_dict()
    inputs = fresh_episodes(model, *task, ROUNDED_FOR, seed=2).inputs if dtype == torch.int8 else None
    path = checkpoints.save(model, record, name, seed, to, dtype, inputs)
    stored = checkpoints.load_file(path)
    after = final_score(stored, *task, n_episodes).to_dict()
    finite = [key for key in ("kl", "entropy_mae") if "inf" not in (before[key], after[key])]
    moved = {key: after[key] / before[key] - 1 for key in finite}
    checkpoints.write_record(path, stored.record | {"scores": after, "rounding": moved})
    return path, before


def ship_snapshots(
    row: dict, folder: str | Path, to: str | Path | None = None, n_episodes: int = 500,
    steps: Sequence[int] | None = None,
) -> Path:
    """Write the snapshots of a sweep's run into one file; its note says what rounding costs.

    Args:
        row: of a finished run whose recipe has snapshots.
        folder: of the sweep.
        to: where to; the package's own folder by default.
        n_episodes: on which the KL of every snapshot is measured, as kept ("kl") and as stored
            ("kl_stored"), bits, by step.
        steps: which of the kept ones go in; all by default. The start and the end always do.
    Returns:
        the path of the file.
    Raises:
        ValueError: if the run kept none, or not the wanted ones.
        CheckpointError: if one is missing.
    """
    record = checkpoints.read_record(weights_of(row, folder))
    recipe = Recipe.from_dict(record["recipe"])
    if not recipe.snapshot_steps:
        raise ValueError(f"{row['key']} kept no snapshots: its recipe needs n_snapshots")
    wanted = recipe.snapshot_steps if steps is None else sorted({*steps, recipe.steps} - {0})
    if unknown := sorted(set(wanted) - set(recipe.snapshot_steps)):
        raise ValueError(f"{row['key']} kept no snapshot of step {', '.join(map(str, unknown))}")
    kept = {0: start(recipe).model.state_dict()} | {
        step: read_tensors(snapshot_path(Path(folder) / "runs" / row["key"], step))[0] for step in wanted
    }
    note = {key: record[key] for key in snapshots.NOTED} | {"n_episodes": n_episodes}
    stored = {step: rounding.unpacked(rounding.packed(weights)) for step, weights in kept.items()}
    for what, weights in (("kl", kept), ("kl_stored", stored)):
        made = snapshots.Snapshots(weights, note)
        note[what] = {
            str(step): final_score(made.network(step), recipe.tunnel, recipe.tunnel_config, n_episodes).kl
            for step in made.steps
        }
    return snapshots.save_snapshots(kept, note, to)

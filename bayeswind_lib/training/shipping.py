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
SMALLER = (torch.int8, torch.float16, torch.float32)
# By how much a score may move when a network that ships is stored smaller: by a share of it, by so many
# of its standard errors, or by so much in bits (tv: probability), whichever is most.
KEPT, KEPT_ERRORS, KEPT_BITS = 0.02, 0.5, {"kl": 2e-8, "entropy_mae": 3e-5, "tv": 3e-5}


def ship(
    row: dict, folder: str | Path, to: str | Path | None = None, dtype: torch.dtype = torch.float32
) -> Path:
    """Copy a row's network and record to where networks are loaded from by name.

    Args:
        to: the target; the package's own folder by default.
        dtype: in which large maps are stored, float32, float16 or int8 (see `checkpoints.rounding`);
            if not float32, the scores are those of what is stored.
    Returns:
        the path of the copied weights.
    """
    model = checkpoints.load_file(weights_of(row, folder))
    if dtype == torch.float32:
        return checkpoints.save(model, model.record, row["name"], row["seed"], to)
    return _save_rounded(model, row["name"], row["seed"], to, dtype)[0]


def shrink(name: str, seed: int = 0) -> dict[str, float] | None:
    """Store a network that ships in the smallest type that keeps its score: int8, float16, or as it is.

    It is kept if KL, entropy error and total variation move by at most 2 %, by half their standard
    error, or by what no figure shows (2e-8 bits of KL, 3e-5 of the others), whichever is most.

    Returns:
        by how much the three moved, as a share; None if no smaller type keeps them.
    Raises:
        CheckpointError: if no such network ships.
    """
    model = checkpoints.load(name, seed)
    for dtype in SMALLER[: SMALLER.index(getattr(torch, model.record["dtype"]))]:
        with tempfile.TemporaryDirectory() as trial:
            path, before, after = _save_rounded(model, name, seed, trial, dtype)
            if all(_is_kept(key, before, after) for key in KEPT_BITS):
                for file in (path, path.with_suffix(".json")):
                    write_atomically(checkpoints.path_of(name, seed).parent / file.name, file.read_bytes())
                return checkpoints.read_record(path)["rounding"]
    return None


def _is_kept(key: str, before: dict, after: dict) -> bool:
    if "inf" in (before[key], after[key]):
        return before[key] == after[key]
    allowed = max(KEPT * before[key], KEPT_ERRORS * before[f"{key}_se"], KEPT_BITS[key])
    return abs(after[key] - before[key]) <= allowed


def _save_rounded(
    model: nn.Module, name: str, seed: int, to: str | Path | None, dtype: torch.dtype
) -> tuple[Path, dict, dict]:
    """Where a network lies with its large maps in a smaller type; its scores before and, of what is stored, after."""
    record = model.record
    task, n_episodes = (record["tunnel"], record["tunnel_config"]), record["scores"]["n_episodes"]
    before = final_score(model, *task, n_episodes).to_dict()
    inputs = fresh_episodes(model, *task, ROUNDED_FOR, seed=2).inputs
    path = checkpoints.save(model, record, name, seed, to, dtype, inputs)
    stored = checkpoints.load_file(path)
    after = final_score(stored, *task, n_episodes).to_dict()
    moved = {key: after[key] / before[key] - 1 for key in KEPT_BITS if "inf" not in (before[key], after[key])}
    checkpoints.write_record(path, stored.record | {"scores": after, "rounding": moved})
    return path, before, after


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

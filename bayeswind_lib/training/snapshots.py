"""From the weights that a run kept on its way to one small file that ships."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bayeswind_lib import checkpoints
from bayeswind_lib.checkpoints import snapshots
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.training.loop import snapshot_path, start
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.training.sweep import final_score, weights_of


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
    stored = {step: snapshots.rounded(weights) for step, weights in kept.items()}
    for what, weights in (("kl", kept), ("kl_stored", stored)):
        made = snapshots.Snapshots(weights, note)
        note[what] = {
            str(step): final_score(made.network(step), recipe.tunnel, recipe.tunnel_config, n_episodes).kl
            for step in made.steps
        }
    return snapshots.save_snapshots(kept, note, to)

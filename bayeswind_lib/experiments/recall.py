"""The record `probe_recall`: what recall networks of the published size answer, stage by stage of their curriculum.

A network that stopped at a stage may know a rule half, or half of the symbols in full. `by_key` tells these apart.

The runs lie in the folder of the queue, which only `--runs` brings; without it what is stored is kept:

    python -m bayeswind_lib queue --folder FOLDER --only recall
    python -m bayeswind_lib records probe_recall --runs FOLDER

Axes: B episodes, M questions, N pairs, V symbols, Y outcomes.
"""

from __future__ import annotations

from pathlib import Path

import torch

from bayeswind_lib import checkpoints
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import queue
from bayeswind_lib.experiments.progress import about, rounded
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.training.loop import stages
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import ended_cells, weights_of
from bayeswind_lib.tunnels import Episodes, Recall

LOOKED_AT = 2  # the stage of which `by_key` is kept: small enough to be shown whole


def measure(n_episodes: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """By name and seed of a network: where it comes from, and `row_of`.

    Args:
        n_episodes: of every stage.
        records: where the stored record lies, whose runs are kept. runs: the folder of the queue.
    """
    found = dict((store.read("probe_recall", records) or {}).get("runs", {}))
    for cell, row in ended_cells(cells(), runs):
        network = checkpoints.load_file(weights_of(row, runs))
        what = row_of(network, stages(cell.recipe), n_episodes, stopped=len(row["stage_ends"]))
        what = about(row) | {"stage_ends": row["stage_ends"]} | what
        found.setdefault(cell.name, {})[str(cell.recipe.seed)] = what
    return {"runs": found, "n_episodes": n_episodes}


def cells() -> list[Cell]:
    """The cells of the queue that go through a curriculum to recall of the published size, at the rate and budget of their table."""
    found = [entry.cell for entry in queue.entries() if entry.plain]
    return [cell for cell in found if cell.recipe.tunnel == "recall" and cell.preset == "paper" and cell.recipe.curriculum]


@torch.no_grad()
def row_of(network, tasks: list[Recall], n_episodes: int, stopped: int = 0) -> dict:
    """What a network answers.

    Args:
        stopped: the number of the stage at which its training ended, from 0.
    Returns:
        stages: by task its settings and the network's accuracy, 0 to 1; of questions about keys that the stage before had
            ("old") and about the others ("new"), None if there are none. by_key: of the task `LOOKED_AT`, see there.
            right_by_key, right_by_place: of the stage at which training stopped, the accuracy of questions about each key
            (V,), and about the key stored first, second, ... (N,).
    """
    rows, known = [], 0
    for i, task in enumerate(tasks):
        episodes = task.sample(n_episodes, rng_for(task, 431))
        share = torch.cat([network(some.inputs, scored=task.interface.scored).softmax(-1) for some in parts(episodes)])  # (B, M, Y)
        right, is_old = (share.argmax(-1) == episodes.targets).double(), episodes.latents["queries"] < known  # (B, M)
        halves = {name: float(right[those].mean()) if those.any() else None for name, those in (("old", is_old), ("new", ~is_old))}
        rows.append({"task": task.config, "accuracy": float(right.mean())} | halves)
        known = task.vocabulary or task.n_keys
        if i == stopped:
            asked = episodes.latents["queries"]
            place = (asked[..., None] == episodes.latents["keys"][:, None]).int().argmax(-1)  # (B, M)
            right_by_key = rounded([float(right[asked == key].mean()) for key in range(known)])
            right_by_place = rounded([float(right[place == i].mean()) for i in range(task.n_pairs)])
        if i == LOOKED_AT:
            keyed = rounded(by_key(share, episodes, task.vocabulary).numpy())
    return {"stages": rows, "by_key": keyed, "right_by_key": right_by_key, "right_by_place": right_by_place}


def parts(episodes: Episodes, at_once: int = 64) -> list[Episodes]:
    """A few episodes at a time: the patterns of one pass over long inputs fill a memory."""
    return [episodes[torch.arange(i, min(i + at_once, len(episodes.inputs)))] for i in range(0, len(episodes.inputs), at_once)]


def by_key(share: torch.Tensor, episodes: Episodes, n_keys: int) -> torch.Tensor:
    """Where the answers to a question about key a go: probability of the value that is stored with key b.

    Args:
        share: (B, M, Y), probabilities.
    Returns:
        (V, V), row a and column b: the mean over the questions about a in whose episode b is stored, NaN if there is none.
        A lookup has 1 on the diagonal and 0 beside it; of keys that a network cannot tell apart all have the same row.
    """
    keys, values, asked = (episodes.latents[name] for name in ("keys", "values", "queries"))  # (B, N), (B, N), (B, M)
    given = share.gather(2, values[:, None].expand(-1, asked.shape[1], -1))  # (B, M, N)
    place = asked[..., None] * n_keys + keys[:, None]  # (B, M, N), cell of the table
    total, count = (torch.zeros(n_keys * n_keys, dtype=torch.float64) for _ in range(2))
    total.index_add_(0, place.flatten(), given.double().flatten())
    count.index_add_(0, place.flatten(), torch.ones_like(given, dtype=torch.float64).flatten())
    return (total / count).reshape(n_keys, n_keys)

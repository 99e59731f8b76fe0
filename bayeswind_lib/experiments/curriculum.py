"""The record `curriculum`: what the recall transformer can do, and where it looks, at the end of every stage.

The first stages of runs of the queue are trained again, from the recipe in the record `queue`, and their weights
kept at the ends of the stages (and every `EVERY` updates). It takes a few minutes a seed:

    python -m bayeswind_lib records curriculum --runs FOLDER

Seeds that are in the folder are not trained again.

Axes: B episodes, M questions, N pairs, T tokens, L layers, H heads, C stages.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from bayeswind_lib.checkpoints import store
from bayeswind_lib.checkpoints.files import read_tensors, write_tensors
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.training.loop import Run, stages, start, update
from bayeswind_lib.training.recipe import Recipe

FOLDER = Path("runs/curriculum")
NAME = "recall-transformer-classroom-curriculum-rotary"
SEEDS = (1,)  # the one that ships
EVERY, BEYOND = 50, 150  # updates between two snapshots, and after the last change of stage
EPISODES = 128
# From where in the layout "STORE key SEP value" of a pair, and of the question, a head may look, in tokens: the
# first mark of the next pair counts, for it can carry the pair before it.
CARRIERS, KEY = {"SEP": 2, "value": 3, "next STORE": 4}, 1
READERS, TARGETS = {"QUERY": -2, "asked key": -1, "PAD": 0}, {"key": 1} | CARRIERS


def measure(n_episodes: int, records: str | Path | None = None, runs: str | Path | None = None, seeds: tuple[int, ...] = SEEDS) -> dict:
    """By seed, one row a snapshot: see `row_of`.

    Raises:
        ValueError: if the queue has no such run.
    """
    folder, found = Path(runs or FOLDER), {}
    n_episodes = min(n_episodes, EPISODES)
    for seed in seeds:
        recipe, ends = recipe_of(seed, records)
        kept = train(folder, recipe)
        found[str(seed)] = {
            "stage_ends": [step for step, (_, ended) in kept.items() if ended], "stored_stage_ends": ends,
            "rows": [row_of(recipe, step, weights, n_episodes) for step, (weights, _) in kept.items()],
        }
    return {"network": NAME, "n_episodes": n_episodes, "stages": [stage.config for stage in stages(recipe)], "runs": found}


def recipe_of(seed: int, records: str | Path | None = None) -> tuple[Recipe, list[int]]:
    """The recipe of a run of the queue, and the updates after which its stages ended."""
    rows = (store.read("queue", records) or {"runs": []})["runs"]
    row = next((row for row in rows if (row["name"], row["seed"]) == (NAME, seed)), None)
    if row is None:
        raise ValueError(f"the record queue has no run of {NAME} with seed {seed}; python -m bayeswind_lib queue trains it")
    return Recipe.from_dict(row["recipe"]), row["stage_ends"]


def train(folder: Path, recipe: Recipe) -> dict[int, tuple[dict, bool]]:
    """By update: the weights, and whether a stage ended with it. Read if they are there, else trained."""
    path = folder / f"{NAME}-seed{recipe.seed}.safetensors"
    if not path.exists():
        run, kept = start(recipe), {}
        keep(run, kept)
        while run.stage < len(recipe.curriculum) or run.step < run.stage_ends[-1] + BEYOND:
            before = run.stage
            update(run, run.model)
            if run.stage > before or run.step % EVERY == 0:
                keep(run, kept)
        write_tensors(path, kept, {"recipe": recipe.to_dict(), "stage_ends": run.stage_ends})
    tensors, note = read_tensors(path)
    found: dict[int, dict] = {}
    for name, x in tensors.items():
        step, _, part = name.partition("/")
        found.setdefault(int(step), {})[part] = x
    return {step: (found[step], step in note["stage_ends"]) for step in sorted(found)}


def keep(run: Run, kept: dict) -> None:
    """Add the run's weights under "STEP/NAME"."""
    kept |= {f"{run.step}/{name}": x.clone() for name, x in run.model.state_dict().items()}


@torch.no_grad()
def row_of(recipe: Recipe, step: int, weights: dict, n_episodes: int) -> dict:
    """What a network does after some updates.

    Returns:
        step; and by the task of each stage accuracy, 0 to 1, and looking, the heads that stand out most: see `looking`.
    """
    model, tasks = start(recipe).model.eval(), stages(recipe)
    model.load_state_dict(weights)
    seen = [task.sample(n_episodes, rng_for(task, 430)) for task in tasks]
    right = [
        float((model(some.inputs, scored=task.interface.scored).argmax(-1) == some.targets).double().mean())
        for task, some in zip(tasks, seen, strict=True)
    ]
    return {"step": step, "accuracy": right, "looking": [looking(model, task, some) for task, some in zip(tasks, seen, strict=True)]}


def looking(model: nn.Module, task, episodes) -> dict:
    """The two heads of an induction circuit, each chosen on one half of the episodes and measured on the other.

    Returns:
        pairing: from a token behind a stored key (CARRIERS) to its own key, less the mean of the keys before it.
        match: from a token of a question (READERS) to the pair that is asked (TARGETS), less the mean of the others.
        Each with layer and head (from 0), from, to, and `own` and `others`, shares of the attention.
    """
    attention = torch.stack(model.attention_patterns(episodes.inputs))  # (L, B, H, T, T)
    n, scored = task.n_pairs, torch.tensor(task.interface.scored)
    first = 4 * torch.arange(n)
    asked = (episodes.latents["queries"][:, :, None] == episodes.latents["keys"][:, None]).int().argmax(-1)  # (B, M)
    own_pair = torch.arange(1, n).expand(len(asked), -1)  # the first pair has none before it
    found = {}
    for what, readers, targets, own in (("pairing", CARRIERS, {"key": KEY}, own_pair), ("match", READERS, TARGETS, asked)):
        tried = {}
        for reader, target in ((r, t) for r in readers for t in targets):
            rows = first[1:] + readers[reader] if what == "pairing" else scored + readers[reader]
            seen = attention[:, :, :, rows][..., first + targets[target]]  # (L, B, H, M, N)
            tried[reader, target] = own_and_others(seen, own, earlier=what == "pairing")
        found[what] = best_of(tried)
    return found


def own_and_others(seen: torch.Tensor, own: torch.Tensor, earlier: bool) -> torch.Tensor:
    """Attention on one's own pair and mean on each other one (or each earlier one): (2, L, B, H, M).

    Args:
        seen: (L, B, H, M, N), from M places to N pairs. own: which pair is one's own, (B, M).
    """
    is_own = nn.functional.one_hot(own, seen.shape[-1]).bool()[None, :, None]  # (1, B, 1, M, N)
    others = torch.arange(seen.shape[-1]) < own[..., None] if earlier else ~is_own[0, :, 0]
    others = others[None, :, None]
    return torch.stack([(seen * is_own).sum(-1), (seen * others).sum(-1) / others.sum(-1)])


def best_of(tried: dict[tuple[str, str], torch.Tensor]) -> dict:
    """Where the difference is largest on the first half of the episodes, and both parts on the second."""
    def split(pair: torch.Tensor, half: slice) -> torch.Tensor:
        return pair[:, :, half].mean((2, 4))  # (2, L, H)

    half = next(iter(tried.values())).shape[2] // 2
    chosen = {key: (split(pair, slice(half))[0] - split(pair, slice(half))[1]) for key, pair in tried.items()}
    key = max(chosen, key=lambda key: float(chosen[key].max()))
    layer, head = divmod(int(chosen[key].argmax()), chosen[key].shape[1])
    own, others = split(tried[key], slice(half, None))[:, layer, head].tolist()
    return {"from": key[0], "to": key[1], "layer": layer, "head": head, "own": own, "others": others}

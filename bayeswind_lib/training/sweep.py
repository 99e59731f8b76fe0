"""Comparisons between recipes: many runs at one budget, kept in one record, resumable.

Whoever compares two optimisers has to give each its best learning rate. The record holds
every run, not only the winners, so that a reader can see how much the rate matters.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from bayeswind_lib import tunnels
from bayeswind_lib.checkpoints.files import write_atomically
from bayeswind_lib.scoring import score
from bayeswind_lib.training.loop import train
from bayeswind_lib.training.presets import recipe
from bayeswind_lib.training.recipe import Recipe

ADAMW_RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
MUON_RATES = (5e-3, 1e-2, 2e-2, 4e-2, 8e-2)


def optimiser_recipes(steps: int = 1500, seeds: tuple[int, ...] = (0,)) -> list[Recipe]:
    """The classroom run with AdamW and with Muon, each at five learning rates."""
    recipes = []
    for seed in seeds:
        base = recipe(
            "bijection", "transformer", "classroom", steps=steps, seed=seed, data_seed=seed,
            eval_every=steps,
        )
        recipes += [base.but(optimiser="adamw", learning_rate=rate) for rate in ADAMW_RATES]
        recipes += [base.but(optimiser="muon", matrix_learning_rate=rate) for rate in MUON_RATES]
    return recipes


def sweep(
    recipes: list[Recipe], path: str | Path, n_episodes: int = 2000, report=print
) -> dict:
    """Train each recipe, score it on fresh episodes, and keep one row a run in a JSON file.

    Rows that are in the file already are not run again, so that a sweep can be stopped and
    started at any time.

    Returns:
        the record: {"runs": [row, ...]}.
    """
    path = Path(path)
    record = json.loads(path.read_text()) if path.exists() else {"runs": []}
    done = {row["recipe_tag"] for row in record["runs"]}
    for number, wanted in enumerate(recipes, 1):
        if wanted.tag in done:
            continue
        row = run_and_score(wanted, n_episodes)
        record["runs"].append(row)
        write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
        report(
            f"{number}/{len(recipes)} {row['optimiser']} {row['learning_rate']:g} "
            f"{row['matrix_learning_rate']:g}: entropy error {row['entropy_mae']:.4f}, KL {row['kl']:.5f} bits"
        )
    return record


def run_and_score(wanted: Recipe, n_episodes: int) -> dict:
    """One row of a sweep: what was run, where, and how it scored."""
    model, record = train(wanted, progress=False)
    tunnel = tunnels.build(wanted.tunnel, wanted.tunnel_config)
    result = score(model, tunnel, n_episodes, rng=torch.Generator().manual_seed(1))
    keys = ("optimiser", "learning_rate", "matrix_learning_rate", "seed", "steps", "supervision", "batch_size")
    facts = ("recipe_tag", "seconds", "schedule_ended", "device", "commit", "parameters")
    return (
        {key: getattr(wanted, key) for key in keys}
        | {key: record[key] for key in facts}
        | {"entropy_mae": result.entropy_mae, "entropy_mae_se": result.entropy_mae_se}
        | {"kl": result.kl, "kl_se": result.kl_se, "n_episodes": n_episodes}
    )


def best(record: dict, optimiser: str, measure: str = "kl") -> dict:
    """The run of an optimiser with the lowest `measure`; ValueError if there is none."""
    rows = [row for row in record["runs"] if row["optimiser"] == optimiser]
    if not rows:
        raise ValueError(f"the sweep holds no run of {optimiser!r}")
    return min(rows, key=lambda row: row[measure])

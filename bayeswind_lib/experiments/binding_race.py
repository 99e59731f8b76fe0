"""The record `binding_race`: how many episodes networks take to bind, as survival on the plateau.

The runs are those of the plans `binding-trials` and `binding-race`: recall of a few pairs, from the first update on
("plain") or after easier stages ("staged"), until nine in ten answers are right or the updates are used up. A run that
has not arrived by then is censored: it says only that the network takes longer. The runs lie in the folder of a
sweep, which only `--runs` brings; without it what is stored is kept:

    python -m bayeswind_lib sweep binding-trials --folder runs/race
    python -m bayeswind_lib sweep binding-race --folder runs/race
    python -m bayeswind_lib records binding_race --runs runs/race

Axes: n runs of an arm.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

from bayeswind_lib import stats
from bayeswind_lib.checkpoints import store
from bayeswind_lib.training.plans import ARMS, RACE_SEEDS, TRIAL_SEED, WAYS, Cell, plan
from bayeswind_lib.training.sweep import ended_cells

RECORD = "binding_race"
PLANS = ("binding-trials", "binding-race")
KEPT = ("seed", "episodes", "arrived", "kl", "seconds", "parameters", "device", "commit")
ASKED = {  # what the ledger asks: the arm that is slow, and the one that is fast
    "stages": (("transformer", "plain"), ("transformer", "staged")),
    "convolution": (("transformer", "plain"), ("transformer-convolution", "plain")),
    "mamba convolution": (("mamba-unconvolved", "plain"), ("mamba", "plain")),
    "lstm convolution": (("lstm", "plain"), ("lstm-convolution", "plain")),
    "retrieval": (("mamba", "plain"), ("transformer-convolution", "plain")),  # both have their neighbours at hand
}


def measure(records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """The record.

    Args:
        records: where the stored record lies, whose runs are kept. runs: the folder of the sweeps.
    Returns:
        "task": what is asked, and when a run ends; "runs": one row a run; "rates": by arm, way and rate the
        episodes and the KL of the trial, by which the rate was chosen; "arms": by arm and way the survival of the
        runs that are compared; "tests": p of the log-rank test of each two arms of one way, and of each arm's two
        ways; "ledger" and "dealt_runs": ratios of mean episodes, and the same for every way to deal the runs out.
    """
    stored = (store.read(RECORD, records) or {}).get("runs", [])
    rows = {_key(row): row for row in stored}
    for cell, found in ended_cells((cell for name in PLANS for cell in plan(name)), runs):
        row = row_of(cell, found)
        rows[_key(row)] = row
    rows = [rows[key] for key in sorted(rows)]
    ledger, dealt = compared(rows)
    return {"task": task(), "runs": rows, "rates": rates(rows), "arms": arms(rows), "tests": tests(rows), "ledger": ledger, "dealt_runs": dealt}


def _key(row: dict) -> tuple:
    return row["arm"], row["way"], row["rate"], row["seed"]


def task() -> dict:
    """What every run is asked, and when it ends; in easier stages before, where there are some."""
    recipes = [cell.recipe for cell in plan(PLANS[0])]
    first = recipes[0]
    staged = next(recipe for recipe in recipes if recipe.curriculum)
    return {
        "tunnel_config": first.tunnel_config, "stages": list(staged.curriculum), "mastery": first.mastery, "until": first.until,
        "steps": first.steps, "batch_size": first.batch_size, "episodes": first.steps * first.batch_size,
        "trial_seed": TRIAL_SEED, "race_seeds": list(RACE_SEEDS),
    }


def row_of(cell: Cell, row: dict) -> dict:
    """What is kept of a run."""
    _, _, about = cell.name.partition("race-")
    arm, _, way = about.rpartition("-")
    recipe = cell.recipe
    rate = recipe.matrix_learning_rate if recipe.optimiser == "muon" else recipe.learning_rate
    stages = {"stage_ends": row["stage_ends"]} if "stage_ends" in row else {}
    kept = {name: row[name] for name in KEPT} | {"kl": float(f"{float(row['kl']):.5g}")}
    return {"arm": arm, "way": way, "rate": rate} | kept | stages


def of(rows: list[dict], arm: str, way: str, rate: float | None = None, seeds: tuple[int, ...] = RACE_SEEDS) -> list[dict]:
    """The runs of an arm that are compared, or those of other seeds, or of one rate."""
    found = [row for row in rows if (row["arm"], row["way"]) == (arm, way) and row["seed"] in seeds]
    return [row for row in found if rate in (None, row["rate"])]


def rates(rows: list[dict]) -> dict:
    """By arm and way, and by rate: the "episodes" of the trial, all of them if it did not arrive, and its "kl" at the end."""
    found: dict = {}
    for arm, way in itertools.product(ARMS, WAYS):
        tried = sorted({row["rate"] for row in of(rows, arm, way, seeds=(TRIAL_SEED,))})
        by_rate = {}
        for rate in tried:
            (trial,) = of(rows, arm, way, rate, (TRIAL_SEED,))
            by_rate[f"{rate:g}"] = {name: trial[name] for name in ("episodes", "kl")}
        found |= {f"{arm} {way}": by_rate} if by_rate else {}
    return found


def fastest(by_rate: dict[str, dict]) -> float:
    """The rate with the fewest episodes; of equals, above all where no run arrives, the one with the lowest KL at the end."""
    return float(min(by_rate, key=lambda rate: (by_rate[rate]["episodes"], by_rate[rate]["kl"])))


def arms(rows: list[dict]) -> dict:
    """By arm and way: the rate, how many runs arrived, their episodes in the order of the seeds, and survival."""
    found = {}
    for arm, way in itertools.product(ARMS, WAYS):
        if runs := of(rows, arm, way):
            times, ended = [row["episodes"] for row in runs], [row["arrived"] for row in runs]
            curve = {name: [float(f"{x:.6g}") for x in values] for name, values in stats.survival(times, ended).items()}
            found[f"{arm} {way}"] = {
                "rate": runs[0]["rate"], "n": len(runs), "arrived": sum(ended), "parameters": runs[0]["parameters"],
                "episodes": times, "ended": ended, "median": median(times, ended), "survival": curve,
            }
    return found


def median(times: list[float], ended: list[bool]) -> float | None:
    """Episodes after which half of the runs have arrived; None if fewer than half do."""
    curve = stats.survival(times, ended)
    below = curve["at"][curve["share"] <= 0.5]
    return float(below[0]) if len(below) else None


def tests(rows: list[dict]) -> dict:
    """p by the two arms, "ARM WAY / ARM WAY": each two arms of one way, and both ways of each arm."""
    names = list(itertools.product(ARMS, WAYS))
    found = {}
    for one, other in itertools.combinations(names, 2):
        groups = [of(rows, *one), of(rows, *other)]
        if all(groups) and (one[1] == other[1] or one[0] == other[0]):
            given = [[row[name] for row in group] for group in groups for name in ("episodes", "arrived")]
            found[f"{' '.join(one)} / {' '.join(other)}"] = float(f"{stats.logrank(*given):.3g}")
    return found


def compared(rows: list[dict]) -> tuple[dict, dict]:
    """What the ledger asks: ratios of the two arms' mean episodes (a censored run counts with all it had: a lower
    bound of the ratio where the slow arm alone is censored), and that of every way to deal the same runs out."""
    ledger, dealt = {}, {}
    for name, (slow, fast) in ASKED.items():
        one, other = ([float(row["episodes"]) for row in of(rows, *arm)] for arm in (slow, fast))
        if one and other:
            ledger[name] = np.mean(one) / np.mean(other)
            dealt[name] = stats.summary(deals(one, other))
    return ledger, dealt


def deals(one: list[float], other: list[float]) -> np.ndarray:
    """Ratio of the means of two groups of the same sizes, for every way to draw the first from all: (ways,)."""
    everything = np.array(one + other)
    chosen = np.array(list(itertools.combinations(range(len(everything)), len(one))))  # (ways, n)
    sums = everything[chosen].sum(1)
    ratios = (sums / len(one)) / ((everything.sum() - sums) / len(other))
    assert len(ratios) == math.comb(len(everything), len(one))
    return ratios

"""The record `fair_race`: ways to train a head on fresh chains, best against best (Paper II; notes A5, A7).

`python -m bayeswind_lib records fair_race` runs what is missing (some ten minutes of one
core) and writes the record. Each run is a file of its own. Rates are chosen on some seeds and
evaluated on others.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from bayeswind_lib import stats
from bayeswind_lib.checkpoints.files import write_atomically
from bayeswind_lib.dynamics import fair, race
from bayeswind_lib.dynamics.fresh_arms import (
    AT_BASE,
    BASE,
    FAMILIES,
    FROZEN,
    LEVELS,
    LOWER,
    MATCHED,
    RATES,
    STEPS,
    TENFOLD,
)
from bayeswind_lib.dynamics.race import Arm
from bayeswind_lib.experiments import races
from bayeswind_lib.training.cluster import run_missing

FOLDER = Path("runs/fair_race")
EVERY = 10
CHOOSING, EVALUATION = (1, 2, 3, 4), (11, 12, 13, 14, 15)


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        group: "chosen" (a rate of a family's), "evaluated" (the chosen one), "lower" (the next lower one of the grid), "base" (one rate for all) or "frozen".
        head, arm, seed, steps, every, setting: as in `fair.run`.
    """

    group: str
    head: str
    arm: Arm
    seed: int
    steps: int = STEPS
    every: int = EVERY
    setting: fair.Setting = fair.Setting()

    @property
    def key(self) -> str:
        """The name of its file."""
        words = "".join(c if c.isalnum() else "-" for c in self.arm.name.lower())
        return f"fresh-{self.group}-{words}-{self.arm.rate:g}-seed{self.seed}"


def sweep(seeds: Iterable[int] = CHOOSING, families: Iterable[str] = tuple(FAMILIES)) -> list[Cell]:
    """Every rate of every family, seed by seed."""
    return [
        Cell("chosen", head, replace(arm, rate=rate), seed)
        for seed, (head, arm) in itertools.product(seeds, [FAMILIES[name] for name in families]) for rate in RATES[arm.optimiser]
    ]


def base_arm(name: str, seed: int) -> Arm:
    """An arm at the common rate; the matched one's first step lowers the loss as much as that of ten times on the values."""
    if name == TENFOLD:
        return Arm(TENFOLD, rate=10 * BASE)
    if name != MATCHED:
        return replace(FAMILIES[name][1], rate=BASE)
    setting = fair.Setting()
    weights, found = fair.first_weights(seed, setting), fair.first_batch(seed, STEPS, setting)
    slopes = fair.loss_gradients(fair.answer("attention", found, weights), found)
    return Arm(MATCHED, rate=race.matched_rate(*slopes, replace(FAMILIES["values x 10"][1], rate=BASE)))


def evaluation(rates: dict[str, float], seeds: Iterable[int] = EVALUATION) -> list[Cell]:
    """Each family at its rate, some at the next lower one, the arms at one rate, and the controls in which something is frozen."""
    cells = []
    for seed in seeds:
        cells += [Cell("evaluated", FAMILIES[name][0], replace(FAMILIES[name][1], rate=rate), seed) for name, rate in rates.items()]
        cells += [Cell("base", "attention", base_arm(name, seed), seed) for name in (*AT_BASE, MATCHED, TENFOLD)]
        for head, arm in (FAMILIES[name] for name in LOWER):
            less = max((rate for rate in RATES[arm.optimiser] if rate < rates[arm.name]), default=None)
            cells += [Cell("lower", head, replace(arm, rate=less), seed)] if less else []
        plain = rates["one rate"]
        cells += [Cell("frozen", "attention", Arm(name, rate=plain, times=times), seed) for name, times in FROZEN.items()]
    return cells


def run(folder: str | Path, cell: Cell) -> None:
    """Run a cell, and keep its curve."""
    began = time.process_time()
    begin = fair.even if cell.arm.name == "no routing" else None
    curve = fair.run(cell.head, cell.arm, cell.seed, cell.steps, cell.every, setting=cell.setting, begin=begin)
    kept = curve.to_dict() | {"cell": asdict(cell), "seconds": time.process_time() - began}
    write_atomically(races.path_of(folder, cell), json.dumps(kept).encode())


def measure(runs: str | Path | None = None, workers: int = 1, report: Callable = print) -> dict:
    """Run the sweep, then what it has chosen (ten minutes of one core), and make the record of it.

    Args:
        runs: the folder of the runs, `runs/fair_race` by default.
    """
    folder = Path(runs or FOLDER)
    for cells in (sweep, lambda: evaluation(choose(folder))):
        run_missing(functools.partial(run, folder), cells(), functools.partial(races.path_of, folder), workers, report)
    return record_of(folder)


# ---- the record


def _steps(found: dict) -> dict[str, float]:
    """Steps to each level; a run that breaks later on has not arrived."""
    if not math.isfinite(found["measures"]["kl"][-1]):
        return dict.fromkeys(LEVELS, math.inf)
    return {name: race.first_below(found["steps"], found["measures"][name], level) for name, level in LEVELS.items()}


def _low(found: dict) -> float:
    """The mean KL over the last tenth; inf for a run that broke."""
    tail = np.array(found["measures"]["kl"][-max(1, len(found["steps"]) // 10):])
    return float(np.nan_to_num(tail, nan=np.inf).mean())


def grid(folder: str | Path, seeds: Iterable[int] = CHOOSING) -> dict:
    """By family and rate: steps to the KL level and the last KL, seed by seed, of the seeds that are whole."""
    seeds = [seed for seed in seeds if all(races.read_cell(cell, folder) is not None for cell in sweep([seed]))]
    found: dict = {}
    for cell in sweep(seeds):
        kept = races.read_cell(cell, folder)
        row = found.setdefault(cell.arm.name, {}).setdefault(f"{cell.arm.rate:g}", {"steps": [], "last": []})
        row["steps"].append(_steps(kept)["kl"])
        row["last"].append(_low(kept))
    return {"seeds": seeds, "families": found}


def best_rate(rates: dict, steps: int = STEPS) -> str:
    """The rate with the fewest mean steps to the level; a censored run counts with all steps, and the last KL breaks ties."""
    return min(rates, key=lambda rate: (float(np.minimum(rates[rate]["steps"], steps).mean()), float(np.mean(rates[rate]["last"]))))


def choose(folder: str | Path) -> dict[str, float]:
    """The rate of each family.

    Raises:
        ValueError: if no seed of the sweep is whole.
    """
    found = grid(folder)
    if not found["seeds"]:
        raise ValueError(f"{folder}: no seed has been run at all rates; run the sweep first")
    return {name: float(best_rate(rates)) for name, rates in found["families"].items()}


READINGS = {  # by name: who is asked, and who stands beside
    "values": ("values x 10", "one rate"), "routing": ("queries and keys x 10", "one rate"),
    "alternating": ("alternating", "one rate"), "mixture": ("mixture, EM", "mixture, one rate"),
}


def readings(arms: dict, rng: np.random.Generator | None = None) -> dict:
    """How many times as soon one arm arrives as another one does, each at its best rate; empty if an arm is missing.

    Mean steps to the KL level over mean steps; a run that never arrives counts with all steps. With
    `rng` the same with the two exchanged at random, seed by seed.
    """
    if not {name for pair in READINGS.values() for name in pair} <= set(arms):
        return {}

    def ratio(pair: tuple[str, str], flips: Callable) -> float:
        steps = np.minimum([arms[arm]["steps"]["kl"] for arm in pair], STEPS)
        fast, base = np.where(flips(steps.shape[1]), steps[::-1], steps).mean(1)
        return float(base / fast)

    if rng is None:
        return {label: ratio(pair, lambda n: np.zeros(n, dtype=bool)) for label, pair in READINGS.items()}
    return {
        label: stats.summary(np.array([ratio(pair, lambda n: rng.random(n) < 0.5) for _ in range(races.DRAWS)]))
        for label, pair in READINGS.items()
    }


def record_of(folder: str | Path) -> dict:
    """The record, of the cells that are finished.

    Returns:
        "grid": of each family, by rate, steps to the level ("inf": never) and the last KL of the
        choosing seeds; "rates": what they chose, and whether it is at the end of its grid; "evaluated", "lower", "base",
        "frozen": by arm and in the order of seeds, the KL at all "points", every measure before training and
        at the end, steps to each level, and the mean KL of the last tenth; "seconds" of a step of each family;
        "claims" and "flipped": what the ledger reads.
    """
    found, rates = grid(folder), choose(folder)
    groups: dict = {"evaluated": {}, "lower": {}, "base": {}, "frozen": {}}
    total = sum(races.read_cell(cell, folder)["seconds"] for cell in sweep(found["seeds"]))
    for cell in evaluation(rates):
        if (kept := races.read_cell(cell, folder)) is None:
            continue
        total += kept["seconds"]
        row = groups[cell.group].setdefault(cell.arm.name, {
            "rate": [], "seeds": [], "last": [], "seconds": [], "steps": {name: [] for name in LEVELS},
            "kl": [], "first": {name: [] for name in fair.MEASURES}, "end": {name: [] for name in fair.MEASURES},
        })
        row["seeds"].append(cell.seed)
        row["rate"].append(cell.arm.rate)
        row["last"].append(_low(kept))
        row["seconds"].append(kept["seconds"] / cell.steps)
        for name, steps in _steps(kept).items():
            row["steps"][name].append(steps)
        row["kl"].append([round(x, 5) if math.isfinite(x) else math.nan for x in kept["measures"]["kl"]])
        for name, values in kept["measures"].items():
            row["first"][name].append(values[0])
            row["end"][name].append(values[-1])
    ends = {name: (min(RATES[arm.optimiser]), max(RATES[arm.optimiser])) for name, (_, arm) in FAMILIES.items()}
    return {
        "grid": found["families"], "choosing": found["seeds"],
        "rates": {name: {"rate": rate, "at_the_edge": rate in ends[name]} for name, rate in rates.items()},
        "claims": readings(groups["evaluated"]), "flipped": readings(groups["evaluated"], np.random.default_rng(0)),
        **groups, "points": list(range(0, STEPS + 1, EVERY)), "levels": LEVELS, "steps": STEPS, "base_rate": BASE,
        "setting": asdict(fair.Setting()), "seed": EVALUATION[0], "seeds": list(EVALUATION), "known": known(), "cost": {"seconds": round(total, 1)},
    }


def known(seed: int = EVALUATION[0]) -> dict[str, float]:
    """KL in nats of forecasts that need no training, on the held-out episodes of a seed."""
    setting = fair.Setting()
    found = fair.first_batch(seed, STEPS, setting, tested=True)
    return fair.floors(found, setting)

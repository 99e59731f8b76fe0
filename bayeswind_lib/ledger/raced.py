"""The record `races`: ways to train a head on the sticky chain, many seeds and rates (Paper II; notes A6, A7).

Hours on a laptop, so each run is a file of its own, and what is finished is not run again:
`python -m bayeswind_lib races FOLDER --record` runs what is missing and writes the record.

Axes: P points of a curve.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bayeswind_lib.checkpoints.files import write_atomically
from bayeswind_lib.dynamics import race, sticky
from bayeswind_lib.dynamics.race import Arm

NAME = "races"
SEEDS = (42, 2024, 1337, 7777, 9999)  # of the published runs
STEPS, LENGTH, SHORT = 1000, 2000, 700  # as published, and a shorter sequence for many rates
THIN = 10  # of the training loss every so many steps are kept

# What is raced at its own best rate. The rate is that of the maps that are not named.
FAMILIES = {
    "all alike": Arm("all alike"),
    "values x 10": Arm("values x 10", times={"value": 10.0}),
    "output x 10": Arm("output x 10", times={"output": 10.0}),
    "queries and keys x 10": Arm("queries and keys x 10", times={"query": 10.0, "key": 10.0}),
    "AdamW": Arm("AdamW", optimiser="adamw"),
    "AdamW, values x 10": Arm("AdamW, values x 10", times={"value": 10.0}, optimiser="adamw"),
    "alternating": Arm("alternating", optimiser="em"),
}
RATES = {
    "sgd": (0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0),
    "adamw": (0.0001, 0.000316, 0.001, 0.00316, 0.01, 0.0316),
    "em": (0.01, 0.0316, 0.1, 0.316, 1.0, 3.16),
}
EM_STEPS = 100  # each of them solves a convex problem whole


@dataclass(frozen=True)
class Cell:
    """One run.

    Attributes:
        group: "published" (one rate, the published length) or "rates" (a rate of a family's).
        arm, seed: as in `race`.
        length, steps, every: of the sequence, of training, and between measurements.
    """

    group: str
    arm: Arm
    seed: int
    length: int
    steps: int
    every: int

    @property
    def key(self) -> str:
        """The name of its file."""
        words = "".join(c if c.isalnum() else "-" for c in self.arm.name.lower())
        return f"{self.group}-{words}-{self.arm.rate:g}-seed{self.seed}"


def plan() -> list[Cell]:
    """All runs, those that are quoted most first."""
    def long(arms: Iterable[Arm]) -> list[Cell]:
        return [Cell("published", arm, seed, LENGTH, STEPS, 50) for arm, seed in itertools.product(arms, SEEDS)]

    cells = long(race.PUBLISHED)
    for seed, family in itertools.product(SEEDS, FAMILIES.values()):
        steps = EM_STEPS if family.optimiser == "em" else STEPS
        for rate in RATES[family.optimiser]:
            cells.append(Cell("rates", replace(family, rate=rate), seed, SHORT, steps, max(1, steps // 100)))
    cells += long(race.CONTROLS)
    return cells


def run(cell: Cell, folder: str | Path) -> None:
    """Run a cell, unless its file is there, and keep what the record needs of it."""
    path = Path(folder) / f"{cell.key}.json"
    if path.is_file():
        return
    torch.set_num_threads(1)
    curve = race.race(cell.arm, race.task(cell.seed, cell.length), cell.seed, cell.steps, cell.every)
    told = curve.to_dict() | {"cell": asdict(cell), "loss": curve.loss[::THIN].tolist(), "final": float(curve.loss[-1])}
    write_atomically(path, json.dumps(told).encode())


def run_all(cells: Iterable[Cell], folder: str | Path, workers: int = 1, report: Callable = print) -> None:
    """Run what is missing, several at once; it can be stopped at any moment and started again.

    Raises:
        ValueError: if `workers` is below 1.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}: at least one has to run")
    missing = [cell for cell in cells if not (Path(folder) / f"{cell.key}.json").is_file()]
    Path(folder).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool:
        running = {pool.submit(run, cell, folder): cell for cell in missing}
        for n, future in enumerate(as_completed(running), 1):
            future.result()
            report(f"{n} of {len(missing)}: {running[future].key}")


def read_cell(cell: Cell, folder: str | Path) -> dict | None:
    """What a cell's file says, or None if there is none.

    Raises:
        ValueError: if the file is no JSON, or is that of another cell.
    """
    path = Path(folder) / f"{cell.key}.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError as problem:
        raise ValueError(f"{path}: not a readable run ({problem}); delete it, and run the races again") from None
    if found.get("cell") != json.loads(json.dumps(asdict(cell))):
        raise ValueError(f"{path}: a run with other settings; delete it, and run the races again")
    return found


# ---- the record


def measure(folder: str | Path, cells: Iterable[Cell] | None = None) -> dict:
    """The record, of the cells that are finished.

    Returns:
        "published": by arm and seed, the thinned loss, the last measurements, and the step at which
        the mean final loss of plain descent is reached ("inf": never); "rates": by family, rate and
        seed, the best moment by validation; "best": by family, its best rate and what is held out
        there; "known": by seed and length, what can be known without attention.
    """
    cells = plan() if cells is None else list(cells)
    rows = [(cell, found) for cell in cells if (found := read_cell(cell, folder)) is not None]
    published = [(cell, found) for cell, found in rows if cell.group == "published"]
    rates = [(cell, found) for cell, found in rows if cell.group == "rates"]
    tasks = sorted({(cell.length, cell.seed) for cell, _ in rows})
    families = _rates_of(rates)
    return {
        "published": _published_of(published), "rates": families, "best": {name: best(row) for name, row in families.items()},
        "known": {f"{length}": {str(seed): known(length, seed) for n, seed in tasks if n == length} for length, _ in tasks},
        "steps": STEPS, "thin": THIN, "seeds": sorted({cell.seed for cell, _ in rows}),
    }


def _published_of(rows: list[tuple[Cell, dict]]) -> dict:
    base = [found["final"] for cell, found in rows if cell.arm.name == race.PUBLISHED[0].name]
    level = float(np.mean(base)) if base else math.nan
    arms: dict = {}
    for cell, found in rows:
        last = {name: values[-1] for name, values in found["measures"].items()}
        curve = {name: found["measures"][name] for name in ("train", "held_out")}
        arms.setdefault(cell.arm.name, {})[str(cell.seed)] = {
            "loss": found["loss"], "final": found["final"], "last": last, "curve": curve, "points": found["steps"],
            "best_held_out": min(found["measures"]["held_out"]), "steps_to_level": reached(found["loss"], level),
        }
    return {"level": level, "arms": arms}


def reached(loss: list[float], level: float) -> float:
    """Steps until a thinned loss is at or below a level, between two points by a straight line; inf if never."""
    values = np.asarray(loss)
    below = np.flatnonzero(values <= level)
    if not len(below):
        return math.inf
    i = int(below[0])
    share = 0.0 if i == 0 else (values[i - 1] - level) / (values[i - 1] - values[i])
    return THIN * (max(i - 1, 0) + float(share)) if i else 0.0


def _rates_of(rows: list[tuple[Cell, dict]]) -> dict:
    families: dict = {}
    for cell, found in rows:
        told = found["measures"]
        finite = np.nan_to_num(np.array(told["validation"]), nan=np.inf)
        i = int(finite.argmin())
        at_best = {name: values[i] for name, values in told.items()} | {"step": found["steps"][i]}
        entry = {"at_best": at_best, "final": {name: values[-1] for name, values in told.items()}}
        families.setdefault(cell.arm.name, {}).setdefault(f"{cell.arm.rate:g}", {})[str(cell.seed)] = entry
    return families


def best(rates: dict) -> dict:
    """Of a family: the rate with the lowest mean validation loss at the best moment, and what it gives there."""
    def mean(rate: str, name: str) -> float:
        return float(np.mean([entry["at_best"][name] for entry in rates[rate].values()]))

    rate = min(rates, key=lambda r: mean(r, "validation"))
    told = {name: [entry["at_best"][name] for entry in rates[rate].values()] for name in ("held_out", "kl", "train", "step")}
    ends = [float(r) for r in rates]
    return {"rate": float(rate), "at_the_edge": float(rate) in (min(ends), max(ends))} | {
        name: {"mean": float(np.mean(values)), "se": _error(values), "values": values} for name, values in told.items()
    }


def _error(values: list[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def known(length: int, seed: int) -> dict:
    """Nats on the held-out sequence: exact, a linear model of one token (its penalty by validation), counting, chance."""
    task = race.task(seed, length)
    strengths = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
    scores = {c: sticky.cross_entropy(sticky.per_token(task.train, task.validation, c), task.validation) for c in strengths}
    linear = sticky.per_token(task.train, task.held_out, min(scores, key=scores.get))
    counts = torch.bincount(task.train.targets[0], minlength=sticky.SYMBOLS).double() + 1
    even = (counts / counts.sum()).expand(task.held_out.targets.shape[1], -1)
    exact = sticky.exact(task.held_out, task.means, task.transition)
    return {
        "exact": sticky.cross_entropy(exact, task.held_out), "per_token": sticky.cross_entropy(linear, task.held_out),
        "per_token_kl": sticky.kl_to_row(linear.log(), task.held_out, task.transition),
        "exact_kl": sticky.kl_to_row(exact.log(), task.held_out, task.transition),
        "counting": sticky.cross_entropy(even, task.held_out), "chance": sticky.CHANCE,
    }

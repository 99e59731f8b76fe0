"""The record `races`: ways to train a head on the sticky chain, many seeds and rates (Paper II; notes A6, A7).

Hours on a laptop, so each run is a file of its own, and what is finished is not run again:
`python -m bayeswind_lib records races` runs what is missing and writes the record.

Axes: P points of a curve.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bayeswind_lib import stats
from bayeswind_lib.checkpoints.files import write_atomically
from bayeswind_lib.dynamics import attention, race, sticky
from bayeswind_lib.dynamics.race import Arm
from bayeswind_lib.dynamics.sticky_arms import (
    FAMILIES,
    LENGTH,
    PLAIN,
    RATES,
    SHORT,
    STEPS,
    TENFOLD,
    THIN,
    VALUES,
)
from bayeswind_lib.training.cluster import run_missing

FOLDER = Path("runs/races")
SEEDS = (42, 2024, 1337, 7777, 9999)  # of the published runs

DRAWS = 200  # of a null
PENALTIES, ROUNDS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0), 24  # of the alternating arm, at its fastest E-step
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


def path_of(folder: str | Path, cell) -> Path:
    """Where the file of a run lies."""
    return Path(folder) / f"{cell.key}.json"


def run(folder: str | Path, cell: Cell) -> None:
    """Run a cell, and keep what the record needs of it."""
    curve = race.race(cell.arm, race.task(cell.seed, cell.length), cell.seed, cell.steps, cell.every)
    kept = curve.to_dict() | {"cell": asdict(cell), "loss": curve.loss[::THIN].tolist(), "final": float(curve.loss[-1])}
    write_atomically(path_of(folder, cell), json.dumps(kept).encode())


@dataclass(frozen=True)
class Penalty:
    """A run of the alternating arm with another penalty of its M-step."""

    penalty: float
    seed: int
    length: int = SHORT
    rounds: int = ROUNDS

    @property
    def key(self) -> str:
        """The name of its file."""
        return f"penalty-{self.penalty:g}-seed{self.seed}"


def run_penalty(folder: str | Path, cell: Penalty) -> None:
    """Run it, and keep its curve."""
    arm = replace(FAMILIES["alternating"], rate=RATES["em"][-1])
    curve = race.race(arm, race.task(cell.seed, cell.length), cell.seed, cell.rounds, 1, cell.penalty)
    write_atomically(path_of(folder, cell), json.dumps(curve.to_dict() | {"penalty": cell.penalty}).encode())


def measure(runs: str | Path | None = None, workers: int = 1, report: Callable = print) -> dict:
    """Run what is missing (hours), and make the record of it.

    Args:
        runs: the folder of the runs, `runs/races` by default.
    """
    folder = Path(runs or FOLDER)
    where = functools.partial(path_of, folder)
    run_missing(functools.partial(run, folder), plan(), where, workers, report)
    penalties = [Penalty(penalty, seed) for seed, penalty in itertools.product(SEEDS, PENALTIES)]
    run_missing(functools.partial(run_penalty, folder), penalties, where, workers, report)
    return record_of(folder)


def _penalties_of(folder: str | Path) -> dict:
    """By penalty and seed the best moment by validation; and the penalty that is best over the seeds that have them all."""
    found: dict = {}
    for path in sorted(Path(folder).glob("penalty-*.json")):
        kept = json.loads(path.read_text())
        found.setdefault(f"{kept['penalty']:g}", {})[str(kept["seed"])] = _at_best(kept)
    if not found:
        return {}
    seeds = [seed for seed in map(str, SEEDS) if all(seed in some for some in found.values())]
    means = {name: np.mean([some[seed]["validation"] for seed in seeds]) for name, some in found.items()} if seeds else {}
    return {"runs": found, "seeds": seeds, "best": min(means, key=means.get) if means else None, "rate": RATES["em"][-1], "rounds": ROUNDS}


def read_cell(cell, folder: str | Path) -> dict | None:
    """What a cell's file says, or None if there is none.

    Raises:
        ValueError: if the file is no JSON, or is that of another cell.
    """
    path = path_of(folder, cell)
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


def record_of(folder: str | Path, cells: Iterable[Cell] | None = None) -> dict:
    """The record, of the cells that are finished.

    Returns:
        "published": by arm and seed, the thinned loss, the last measurements, and the steps to the
        mean final loss of plain descent, and to that of the same seed ("inf": never); "rates": by
        family, rate and seed, the best moment by validation, the end, and the steps to where plain
        descent at the published rate ends; "best": by family, the rate chosen by the seeds of which
        all rates are finished ("whole"), and what is held out there, over all seeds that have a run at it; "known": by seed and length, what can be
        known without attention; "claims", "tenfold" and "flipped": what the ledger reads; "attention_by_symbol": which symbols attend to which;
        "penalties": the alternating arm with other penalties.
    """
    cells = plan() if cells is None else list(cells)
    rows = [(cell, found) for cell in cells if (found := read_cell(cell, folder)) is not None]
    published = _published_of([(cell, found) for cell, found in rows if cell.group == "published"])
    families = _rates_of([(cell, found) for cell, found in rows if cell.group == "rates"])
    tasks = sorted({(cell.length, cell.seed) for cell, _ in rows})
    seeds = whole(rows, cells)
    scored = tried(families, seeds)
    return {
        "published": published, "rates": families, "whole": seeds,
        "best": {name: best(row, seeds, scored) for name, row in families.items()} if seeds else {},
        "known": {f"{length}": {str(seed): known(length, seed) for n, seed in tasks if n == length} for length, _ in tasks},
        "claims": _claims_of(published["arms"], PLAIN, VALUES) | _readings(families, seeds, scored),
        "tenfold": _null_of(published["arms"]), "flipped": _readings(families, seeds, scored, rng=np.random.default_rng(0)),
        "attention_by_symbol": _attention_by_symbol(families, seeds), "penalties": _penalties_of(folder),
        "steps": STEPS, "thin": THIN, "seed": SEEDS[0], "seeds": sorted({cell.seed for cell, _ in rows}),
        "cells": {group: {"done": sum(cell.group == group for cell, _ in rows), "planned": sum(cell.group == group for cell in cells)}
                  for group in ("published", "rates")},
    }


def _published_of(rows: list[tuple[Cell, dict]]) -> dict:
    base = {cell.seed: found["final"] for cell, found in rows if cell.arm.name == PLAIN}
    level = float(np.mean(list(base.values()))) if base else math.nan
    arms: dict = {}
    for cell, found in rows:
        last = {name: values[-1] for name, values in found["measures"].items()}
        curve = {name: found["measures"][name] for name in ("train", "held_out")}
        at = range(0, THIN * len(found["loss"]), THIN)
        arms.setdefault(cell.arm.name, {})[str(cell.seed)] = {
            "loss": found["loss"], "final": found["final"], "last": last, "curve": curve, "points": found["steps"],
            "best_held_out": min(found["measures"]["held_out"]),
            "steps_to_level": race.first_below(at, found["loss"], level),
            "steps_to_own": race.first_below(at, found["loss"], base.get(cell.seed, math.nan)),
        }
    return {"level": level, "arms": arms}


def _claims_of(arms: dict, base: str, arm: str) -> dict:
    """The published figures of an arm over a base, over the seeds that both have; empty without any."""
    seeds = [seed for seed in arms.get(arm, {}) if seed in arms.get(base, {})]
    if not seeds:
        return {}
    steps = [arms[arm][seed]["steps_to_level"] for seed in seeds]
    own = [arms[arm][seed]["steps_to_own"] for seed in seeds]
    gaps = [arms[base][seed]["final"] - arms[arm][seed]["final"] for seed in seeds]
    plain = np.minimum([entry["steps_to_level"] for entry in arms[base].values()], STEPS)
    speed = race.speed_up(STEPS, steps)
    found = {"speed_up": speed, "steps": STEPS / speed, "speed_up_own": race.speed_up(STEPS, own), "plain steps": float(plain.mean())}
    errors = [stats.standard_error(np.minimum(x, STEPS).tolist()) for x in (steps, plain)]
    found |= {"steps_se": errors[0], "speed_up_se": speed**2 / STEPS * errors[0], "plain steps_se": errors[1]}
    return found | {"gap": float(np.mean(gaps)), "gap_se": stats.standard_error(gaps), "seeds": seeds}


def _null_of(arms: dict) -> dict:
    """The same figures of plain descent with ten times the rate on every map, its seeds drawn again and again."""
    runs = arms.get(TENFOLD, {})
    if not runs or not arms.get(PLAIN):
        return {}
    steps = np.minimum([entry["steps_to_level"] for entry in runs.values()], STEPS)
    drawn = steps[np.random.default_rng(0).integers(len(steps), size=(DRAWS, len(steps)))].mean(1)
    return {"steps": stats.summary(drawn), "speed_up": stats.summary(STEPS / drawn), "seeds": list(runs)}


def _readings(rates: dict, chosen_on: list[str], scored: list[str], rng: np.random.Generator | None = None) -> dict:
    """What "it is EM" would need; with `rng` the same with the two arms exchanged at random, seed by seed.

    "values over routing": the speed-up of ten times on the values over that of ten times on queries
    and keys, at the published rate; "best gain": how many nats less than one rate for all they have
    on held-out data, each at its own best rate.
    """
    pair, base, rate = ("values x 10", "queries and keys x 10"), "one rate", f"{race.PUBLISHED[0].rate:g}"
    if not scored or not {*pair, base} <= set(rates):
        return {}
    seeds = [seed for seed in rates[base][rate] if all(seed in rates[name][rate] for name in pair)]
    steps = np.array([[min(rates[name][rate][seed]["steps_to_plain"], STEPS) for seed in seeds] for name in pair])
    losses = np.array([best(rates[name], chosen_on, scored)["held_out"]["values"] for name in (base, pair[0])])

    def weighed(flips: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.where(flips, x[::-1], x).mean(1)

    def both(flip: Callable) -> tuple[float, float]:
        slow, fast = weighed(flip(len(seeds)), steps), weighed(flip(len(scored)), losses)
        return float(slow[1] / slow[0]), float(fast[0] - fast[1])

    if rng is None:
        return dict(zip(("values over routing", "best gain"), both(lambda n: np.zeros(n, dtype=bool)), strict=True))
    draws = np.array([both(lambda n: rng.random(n) < 0.5) for _ in range(DRAWS)])
    return {"values over routing": stats.summary(draws[:, 0]), "best gain": stats.summary(draws[:, 1])}


def _rates_of(rows: list[tuple[Cell, dict]]) -> dict:
    plain = {cell.seed: found["measures"]["train"][-1] for cell, found in rows
             if cell.arm.name == "one rate" and cell.arm.rate == race.PUBLISHED[0].rate}
    families: dict = {}
    for cell, found in rows:
        measures = found["measures"]
        entry = {
            "at_best": _at_best(found), "final": {name: values[-1] for name, values in measures.items()},
            "steps_to_plain": race.first_below(found["steps"], measures["train"], plain.get(cell.seed, math.nan)),
        }
        families.setdefault(cell.arm.name, {}).setdefault(f"{cell.arm.rate:g}", {})[str(cell.seed)] = entry
    return families


def _at_best(found: dict) -> dict:
    """What a run measures at its best moment of validation, and the step."""
    i = int(np.nan_to_num(np.array(found["measures"]["validation"]), nan=np.inf).argmin())
    return {name: values[i] for name, values in found["measures"].items()} | {"step": found["steps"][i]}


def whole(rows: list[tuple[Cell, dict]], cells: Iterable[Cell]) -> list[str]:
    """The seeds of which every rate of every family is finished, in the order of the plan."""
    finished = {cell.key for cell, _ in rows}
    planned: dict[int, list[str]] = {}
    for cell in cells:
        if cell.group == "rates":
            planned.setdefault(cell.seed, []).append(cell.key)
    return [str(seed) for seed, keys in planned.items() if finished.issuperset(keys)]


def best_rate(rates: dict, seeds: list[str]) -> str:
    """Of a family: the rate with the lowest mean validation loss at the best moment of each run."""
    return min(rates, key=lambda rate: float(np.mean([rates[rate][seed]["at_best"]["validation"] for seed in seeds])))


def tried(families: dict, seeds: list[str]) -> list[str]:
    """The seeds that have a run at the best rate of every family, whether or not they chose it."""
    found = [list(row[best_rate(row, seeds)]) for row in families.values()] if seeds else []
    return [seed for seed in found[0] if all(seed in some for some in found)] if found else []


def best(rates: dict, seeds: list[str], scored: list[str] | None = None) -> dict:
    """Of a family: the rate that some seeds choose, and what it gives at the best moment, of these seeds or of `scored`.

    Seeds that did not choose the rate stop at their own best moment of validation.
    """
    rate, scored = best_rate(rates, seeds), seeds if scored is None else scored
    ends = [float(r) for r in rates]
    values = {name: [rates[rate][seed]["at_best"][name] for seed in scored]
              for name in ("held_out", "kl", "train", "step", "same_symbol", "attention_entropy", "validation")}
    return {"rate": float(rate), "at_the_edge": float(rate) in (min(ends), max(ends)), "seeds": scored, "chosen_on": seeds} | {
        name: {"mean": float(np.mean(x)), "se": stats.standard_error(x), "values": x} for name, x in values.items()
    }


def _attention_by_symbol(rates: dict, seeds: list[str]) -> dict:
    """Which symbols attend to which, of one head that learned to route: trained again to its best moment."""
    family = FAMILIES["queries and keys x 10"]
    if not seeds or family.name not in rates:
        return {}
    chosen, seed = best(rates[family.name], seeds), seeds[0]
    steps = int(chosen["step"]["values"][0])
    task = race.task(int(seed), SHORT)
    curve = race.race(replace(family, rate=chosen["rate"]), task, int(seed), max(steps, 1), max(steps, 1))
    pattern = attention.forward(task.held_out.inputs, curve.weights).pattern.double()
    tables = {"head": sticky.looked_at(pattern, task.held_out), "even": sticky.looked_at(sticky.even_pattern(pattern.shape[-1]), task.held_out)}
    kept = {name: table.tolist() for name, table in tables.items()}
    return kept | {"seed": seed, "rate": chosen["rate"], "step": steps, "choosiness": sticky.choosiness(*tables.values())}


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

"""Training runs in the ledger: which of the stored rows are evidence for what.

The record `runs` holds one row a finished run, of all plans of `training.plans` together, and the
record `queue` one a run of the queue (`experiments/queue.toml`). Rows of one name and seed differ in
their recipe: the *plain* one is what the plan says, the others have another learning rate or twice
the budget and tell whether a failure of the plain one is one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from bayeswind_lib import experiments
from bayeswind_lib.checkpoints import store
from bayeswind_lib.training.plans import PLANS, SCAN, Cell, plan
from bayeswind_lib.training.recipe import CHOICES, Recipe

# Plans whose cells bear the names of other plans' cells.
CONTROLS = ("rates", "doubled", "longer", "optimisers", "convergence")
QUEUE = "queue"  # beside the plans: the cells of the queue
FINISHED = ("runs", QUEUE)  # records of finished runs, in the order in which a run counts that is in both
COMPARED = {"bijection": "Bijection", "hmm": "HMM", "regression": "Regression", "recall": "Recall"}  # tunnels of the page of architectures
KINDS = ("plain", "rate", "doubled", "both", "longer", "scan", "unplanned", "other")
TRIED = ("rate", "doubled", "both", "longer")  # what else was tried of a name


def runs(
    name: str | None = None, plan: str | None = None, folder: str | Path | None = None, **filters: object
) -> list[dict]:
    """The stored rows of training runs, sorted by name and seed; none while nothing has run.

    Args:
        name: of the network, for example "hmm-lstm-classroom"; None for all.
        plan: only rows that a cell of this plan, or of the "queue", describes, recipe and all.
        folder: where the records lie; the package's own by default.
        filters: values that fields must have, for example tunnel="hmm", seed=0.
    Raises:
        ValueError: for a plan or a field that does not exist.
    """
    rows = stored_rows(folder)
    unknown = sorted(set(filters) - {field for row in rows for field in row}) if rows else []
    if unknown:
        raise ValueError(f"a run has no field {', '.join(unknown)}; it has: {', '.join(sorted(rows[0]))}")
    if plan is not None:
        wanted = {(cell.name, cell.recipe.tag) for cell in cells(plan)}
        rows = [row for row in rows if (row["name"], row["recipe_tag"]) in wanted]
    chosen = [
        row for row in rows
        if name in (None, row["name"]) and all(row.get(k) == v for k, v in filters.items())
    ]
    return sorted(chosen, key=lambda row: (row["name"], row["seed"]))


def stored_rows(folder: str | Path | None = None) -> list[dict]:
    """All rows: those that sweeps and the queue left, and those of shipped networks that neither trained."""
    return all_rows({name: store.read(name, folder) for name in (*FINISHED, "networks")})


def all_rows(records: dict[str, dict | None]) -> list[dict]:
    """`stored_rows` from records that were read already."""
    found: dict[tuple, dict] = {}
    for rows in (*((records.get(name) or {}).get("runs", []) for name in FINISHED), _shipped_rows(records)):
        for row in rows:
            found.setdefault((row["name"], row["seed"], row["recipe_tag"]), row)
    return list(found.values())


def _shipped_rows(records: dict[str, dict | None]) -> list[dict]:
    """Networks that ship, as rows of runs; those without a recipe's tag are left out."""
    found = store.lookup(records.get("networks"), "networks") or {}
    rows = []
    for name, seeds in found.items():
        for entry in seeds.values():
            if entry.get("recipe_tag"):
                facts = {k: v for k, v in entry.items() if k not in ("scores", "null")}
                measures = {k: v for k, v in entry["scores"].items() if not isinstance(v, dict | list)}
                rows.append({"name": name} | facts | measures)
    return rows


def mean_over_seeds(rows: Iterable[dict], measure: str) -> tuple[float, float, int]:
    """Mean of a measure over runs, its standard error, and how many runs had the measure.

    `measure` is a field of a row, or a path into one: "kl", "episodes_to/0.1".
    The error comes from the spread of the runs; of a single run, from its episodes. Without any
    run mean and error are NaN. Runs in which the measure is unknown (None) are left out: a run
    that never reached an accuracy has no episodes to it, so look at the count.
    """
    rows = [row for row in rows if store.lookup(row, measure) is not None]
    values = [float(store.lookup(row, measure)) for row in rows]  # float("inf") reads "inf"
    if not values:
        return math.nan, math.nan, 0
    if len(values) == 1:
        error = rows[0].get(f"{measure}_se")
        return values[0], math.nan if error is None else float(error), 1
    if not all(map(math.isfinite, values)):
        return math.inf, math.nan, len(values)
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values)), len(values)


@lru_cache(maxsize=len(PLANS) + 1)
def cells(name: str) -> tuple[Cell, ...]:
    """The cells of a plan, or of the "queue", built once."""
    return tuple(experiments.queued() if name == QUEUE else plan(name))


def waiting(records: dict[str, dict | None]) -> frozenset[str]:
    """The networks of which the queue has a run that no record holds yet."""
    done = {row["key"] for row in (records.get("queue") or {}).get("runs", [])}
    return frozenset(cell.name for cell in cells(QUEUE) if cell.key not in done)


def hours(only: str, records: dict[str, dict | None], again: bool = False) -> float | None:
    """About how many hours of one core `queue --only` still takes; None where no such network was trained before.

    With `again`, of all its runs, also those that are done: what it takes with a record of its own.

    A run is taken to be as fast, update by update, as the fastest that a processor did of its name, or else of its
    architecture in its tunnel and size.
    """
    rows = (records.get("queue") or {}).get("runs", [])
    done, pace = {row["key"] for row in rows}, {}
    for row in (row for row in rows if row["device"].startswith("cpu")):
        for kind in (row["name"], (row["tunnel"], row["architecture"], row["preset"])):
            pace[kind] = min(row["seconds"] / row["steps"], pace.get(kind, math.inf))
    owed = [cell for cell in cells(QUEUE) if only in cell.key and (again or cell.key not in done)]
    known = [pace.get(cell.name, pace.get((cell.recipe.tunnel, cell.recipe.architecture, cell.preset))) for cell in owed]
    if not owed or None in known:
        return None
    return sum(one * cell.recipe.steps for one, cell in zip(known, owed, strict=True)) / 3600


@lru_cache(maxsize=1)
def plain_recipes() -> dict[str, Recipe]:
    """The recipe that the plans give to every name, seed 0; a name of the queue alone has that of its first plain cell."""
    found: dict[str, Recipe] = {}
    for group in (*PLANS, QUEUE):
        if group not in CONTROLS:
            for cell in cells(group):
                found.setdefault(cell.name, cell.recipe.but(seed=0, data_seed=0))
    return found


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """The networks whose runs the page of architectures shows: those of the plans and of the queue, in its tunnels."""
    return frozenset(name for name, recipe in plain_recipes().items() if recipe.tunnel in COMPARED)


def kind_of(row: dict) -> str:
    """What a run is to its name: the plain run, one at another "rate", of "doubled" budget, or both,
    or "longer" still; or a short one, at any rate, of the "scan" that compares rates.

    "unplanned": no plan knows the name. "other": the plan says something else by now. The precision of the
    products is a machine's choice, so that it makes no other kind.
    """
    return _kind(
        row["name"], row["seed"], row["recipe_tag"],
        float(row["learning_rate"]), float(row["matrix_learning_rate"]), int(row["steps"]),
    )


@lru_cache(maxsize=10_000)
def _kind(name: str, seed: int, tag: str, rate: float, matrix_rate: float, steps: int) -> str:
    recipe = plain_recipes().get(name)
    if recipe is None:
        return "unplanned"
    own = recipe.but(seed=seed, data_seed=seed)
    candidates = {
        "plain": own,
        "rate": own.but(learning_rate=rate, matrix_learning_rate=matrix_rate),
        "doubled": own.but(steps=2 * own.steps),
        "both": own.but(
            steps=2 * own.steps, learning_rate=rate, matrix_learning_rate=matrix_rate
        ),
        "longer": own.but(steps=max(steps, 2 * own.steps)),
        "scan": own.but(steps=round(own.steps / SCAN), learning_rate=rate, matrix_learning_rate=matrix_rate),
    }
    return next((kind for kind, wanted in candidates.items() if tag in _tags(wanted)), "other")


def _tags(recipe: Recipe) -> set[str]:
    """The tags of a recipe with every precision."""
    return {recipe.but(precision=precision).tag for precision in CHOICES["precision"]}


def is_plain(name: str, seed: int, tag: str | None) -> bool:
    """Whether a recipe's tag is the one that the plans give to this name, in any precision, or no plan has the name."""
    recipe = plain_recipes().get(name)
    return recipe is None or tag in _tags(recipe.but(seed=seed, data_seed=seed))


def with_scores(name: str, plain: list[dict], records: dict[str, dict | None]) -> dict[int, dict]:
    """The seeds of a network of which more is stored than means (curves, longer inputs): the plain row, or what ships, by seed."""
    shipped = store.lookup(records.get("networks"), f"networks/{name}") or {}
    found = {row["seed"]: row | {"scores": row | row["scores"]} for row in plain if "scores" in row}
    return found | {int(seed): one for seed, one in shipped.items() if is_plain(name, int(seed), one.get("recipe_tag"))}


def plain_rows(name: str, rows: Iterable[dict]) -> list[dict]:
    """The rows of a name that are its plain runs, one a seed, in the order of the seeds.

    If no plan knows the name: the largest group of its rows that differ in nothing but the seed.
    """
    named = [row for row in rows if row["name"] == name]
    plain = [row for row in named if kind_of(row) == "plain"]
    if not plain:
        plain = _largest_group([row for row in named if kind_of(row) == "unplanned"])
    return list({row["seed"]: row for row in sorted(plain, key=lambda row: row["seed"])}.values())


SAME = ("optimiser", "learning_rate", "matrix_learning_rate", "supervision", "steps", "batch_size")


def _largest_group(rows: list[dict]) -> list[dict]:
    """Of rows grouped by recipe, the group with the most seeds; of equals, the longest runs."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in SAME), []).append(row)
    return max(groups.values(), key=lambda group: (len(group), group[0]["steps"]), default=[])


def controls(name: str, rows: Iterable[dict]) -> dict:
    """What tells whether a failure of `name` is one: other learning rates, and twice the budget.

    Returns:
        learning_rates: all at which a run of this budget, or of the scan, ended, the plain one's first;
        kl: of the plain run, bits; kl_best: the lowest at another rate; kl_scan: the lowest in the scan at a rate
        of which there is no whole run, over that at the plain rate there; kl_doubled: after twice
        the budget; kl_both: after twice the budget at another rate; kl_longer: after a longer run
        still. All of the lowest seed that has a plain run, so that nothing else differs; {} without.
    """
    rows = [row for row in rows if row["name"] == name and row.get("schedule_ended")]
    plain = plain_rows(name, rows)
    if not plain:
        return {}
    base = plain[0]
    same_seed = [row for row in rows if row["seed"] == base["seed"]]
    rates, doubled, both = (
        [row for row in same_seed if kind_of(row) == kind] for kind in ("rate", "doubled", "both")
    )
    longer = [row for row in same_seed if kind_of(row) == "longer"]
    scan = {rate_of(row): float(row["kl"]) for row in same_seed if kind_of(row) == "scan"}
    short = scan.pop(rate_of(base), None)  # without it the others say nothing
    scan = {rate: kl / short for rate, kl in scan.items()} if short else {}
    whole = [rate_of(row) for row in [base, *rates]]
    return {
        "learning_rates": list(dict.fromkeys(whole + list(scan))),
        "kl": float(base["kl"]),
        "kl_scan": min((kl for rate, kl in scan.items() if rate not in whole), default=None),
        "kl_best": min((float(row["kl"]) for row in rates), default=None),
        "kl_doubled": float(doubled[0]["kl"]) if doubled else None,
        "kl_both": min((float(row["kl"]) for row in both), default=None),
        "kl_longer": min((float(row["kl"]) for row in longer), default=None),
    }


def rate_of(row: dict) -> float:
    """The learning rate that tells runs of one optimiser apart: AdamW's, which scales with Muon's."""
    return float(row["learning_rate"])

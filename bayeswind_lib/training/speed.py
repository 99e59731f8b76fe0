"""The speed records: how few episodes, or seconds of one thread, lead to a score that was fixed beforehand.

`speed.toml` beside this file fixes the tasks and holds, for each, the recipe of whoever tried last.
The whole run counts, to the end of its schedule, every stage of a curriculum included, and the score
is that of the last weights on fresh episodes: no network is picked on its way. All of `SEEDS` have to
pass, and the worst of them is what is compared. What is entered lies in the record `speed.json`.
"""

from __future__ import annotations

import json
import statistics
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bayeswind_lib.checkpoints.files import CheckpointError, write_atomically
from bayeswind_lib.checkpoints.store import records_folder
from bayeswind_lib.scoring import MEASURES
from bayeswind_lib.training.plans import Cell, cell
from bayeswind_lib.training.presets import N_EPISODES
from bayeswind_lib.training.sweep import sweep

TASKS = Path(__file__).with_name("speed.toml")
SEEDS = (0, 1, 2)
COUNTED = ("episodes", "seconds")
HIGHER = ("accuracy",)  # measures of which more is better


@dataclass(frozen=True)
class Task:
    """What has to be learned, how well, and what of the run is counted.

    Attributes:
        name, what: what it is called, and a line on it.
        tunnel, tunnel_config, supervision: what the network is made for and learns from.
        measure, threshold: the score that counts, and what every seed has to reach.
        counts: "episodes" or "seconds", the fewer the better.
        target: how few are hoped for.
        recipe: the arguments of `plans.cell`, with the fields of the recipe as `changes`.
        n_episodes: on at least how many fresh episodes each network is scored.
    """

    name: str
    what: str
    tunnel: str
    tunnel_config: dict
    supervision: str
    measure: str
    threshold: float
    counts: str
    target: int
    recipe: dict = field(hash=False)
    n_episodes: int = N_EPISODES["paper"]

    def __post_init__(self):
        if self.counts not in COUNTED:
            raise ValueError(f"counts is {self.counts!r}: choose one of {', '.join(COUNTED)}")
        if self.measure not in (*MEASURES, *HIGHER):
            raise ValueError(f"measure is {self.measure!r}: choose one of {', '.join((*MEASURES, *HIGHER))}")

    def passes(self, score: float) -> bool:
        """Whether a score reaches the threshold."""
        return score >= self.threshold if self.measure in HIGHER else score <= self.threshold

    def cells(self) -> list[Cell]:
        """The run that stands in the file, in every seed.

        Raises:
            ValueError: for a recipe that changes what the task fixes; the message names it.
        """
        given = dict(self.recipe)
        changes = given.pop("changes", {})
        found = [cell(self.tunnel, seed=seed, label=f"record-{self.name}", **given, **changes) for seed in SEEDS]
        recipe = found[0].recipe
        fixed = {"tunnel_config": self.tunnel_config, "supervision": self.supervision, "pool": 0}
        for name, wanted in fixed.items():
            if getattr(recipe, name) != wanted:
                raise ValueError(
                    f"task {self.name}: the recipe has {name} {getattr(recipe, name)!r}, the task fixes {wanted!r}: "
                    "change the network, its training or its curriculum, and leave that"
                )
        return found


def tasks(path: str | Path = TASKS) -> dict[str, Task]:
    """The tasks of a file, by name.

    Raises:
        ValueError: for a file that holds none; the message names the task.
        OSError: for a file that cannot be read.
    """
    try:
        tables = tomllib.loads(Path(path).read_text()).get("tasks")
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{path}: expected TOML with tables [[tasks]] ({problem})") from None
    if not isinstance(tables, list):
        raise ValueError(f"{path}: expected tables [[tasks]], one for each task")
    found = {}
    for number, table in enumerate(tables, 1):
        try:
            task = Task(**table)
        except (TypeError, ValueError) as problem:
            raise ValueError(f"{path}: task {table.get('name', number)}: {problem}") from None
        found[task.name] = task
    return found


def task(name: str, path: str | Path = TASKS) -> Task:
    """One task of a file; ValueError with the names there are, if none is called so."""
    found = tasks(path)
    if name not in found:
        raise ValueError(f"no task is called {name!r}: choose one of {', '.join(found)}")
    return found[name]


def record_path() -> Path:
    """Where records are entered: beside the other stored records of this checkout."""
    return records_folder() / "speed.json"


def entered(path: str | Path | None = None) -> list[dict]:
    """All records that ever stood, the oldest first; none if there is no file yet.

    Raises:
        CheckpointError: if the file is no such record.
    """
    path = Path(path or record_path())
    if not path.is_file():
        return []
    try:
        return json.loads(path.read_text())["records"]
    except (ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(f"{path}: not a file of speed records ({problem}); restore it from the repository") from None


def standing(name: str, path: str | Path | None = None, device: str | None = None) -> dict | None:
    """The record of a task that stands: the one entered last; None if there is none.

    Args:
        device: only records of this processor, where they count seconds, which those of another do not compare with.
    """
    found = [entry for entry in entered(path) if entry["task"] == name]
    if device is not None:
        found = [entry for entry in found if entry["counts"] != "seconds" or entry["device"] == device]
    return found[-1] if found else None


def entry(task: Task, rows: list[dict]) -> dict:
    """What is kept of a try: JSON types. Of seeds that differ the worst score and the longest run count."""
    scores = [row[task.measure] for row in rows]
    kept = ("seed", task.measure, f"{task.measure}_se", "n_episodes", "seconds", "curve")
    return {
        "task": task.name, "counts": task.counts, "measure": task.measure, "threshold": task.threshold,
        "counted": max(row[task.counts] for row in rows),
        "worst": (min if task.measure in HIGHER else max)(scores), "mean": statistics.fmean(scores),
        "episodes": max(row["episodes"] for row in rows), "seconds": max(row["seconds"] for row in rows),
        "parameters": rows[0]["parameters"], "device": rows[0]["device"], "commit": rows[0]["commit"],
        "recipe": task.cells()[0].recipe.to_dict(), "setting": rows[0]["setting"],
        "runs": [{name: row[name] for name in kept} for row in rows],
    }


def verdict(task: Task, tried: dict, before: dict | None) -> str | None:
    """Why a try is no record, in a sentence; None if it is one."""
    failed = [run["seed"] for run in tried["runs"] if not task.passes(run[task.measure])]
    if failed:
        side = "at least" if task.measure in HIGHER else "at most"
        return (
            f"no record: {task.measure} has to be {side} {task.threshold:g} in every seed, and in seed "
            f"{', '.join(map(str, failed))} it is not (worst: {tried['worst']:.5g})"
        )
    scored = min(run.get("n_episodes", task.n_episodes) for run in tried["runs"])  # entries of before did not keep it
    if scored < task.n_episodes:
        return f"no record: each network has to be scored on at least {task.n_episodes:,} episodes, and one was on {scored:,}"
    if before is not None and tried["counted"] >= before["counted"]:
        return f"no record: {tried['counted']:,.0f} {task.counts}, and {before['counted']:,.0f} stand already"
    return None


def work(
    task: Task, folder: str | Path, path: str | Path | None = None, n_episodes: int | None = None,
    report: Callable[[str], None] = print,
) -> dict | None:
    """Train the task's recipe in every seed, one after the other on one thread, and enter the result if it is a record.

    Args:
        folder: of the runs; stopped ones go on from there.
        path: of the record; the checkout's own by default.
        n_episodes: fresh episodes on which each network is scored; those of the task by default.
    Returns:
        the record, or None if it is none; `report` says why.
    Raises:
        Interrupted: on SIGINT or SIGTERM, after the state was saved.
        RuntimeError: if a run failed. CheckpointError: at once, for a damaged file of records.
    """
    path, cells = Path(path or record_path()), task.cells()
    entered(path)  # a damaged file is refused before the training
    rows = sweep(cells, Path(folder).resolve(), workers=0, threads_per_worker=1, report=report, n_episodes=n_episodes or task.n_episodes)
    if len(rows) < len(cells):
        raise RuntimeError(f"task {task.name}: {len(cells) - len(rows)} of {len(cells)} runs failed; what failed stands above")
    tried = entry(task, rows)
    before = standing(task.name, path, tried["device"])
    if problem := verdict(task, tried, before):
        report(problem)
        return None
    write_atomically(path, records_text([*entered(path), tried]).encode())
    report(f"a record: {tried['counted']:,.0f} {task.counts}, entered in {path}")
    return tried


def listing(found: dict[str, Task], path: str | Path | None = None) -> list[str]:
    """For each task a line on what is asked and one on what stands."""
    lines = []
    for task in found.values():
        side = "at least" if task.measure in HIGHER else "at most"
        stands = standing(task.name, path)
        lines.append(f"{task.name}: {task.what}; {task.measure} {side} {task.threshold:g}, hoped for within {task.target:,} {task.counts}")
        lines.append(f"    {'no record yet' if stands is None else described(stands)}")
    return lines


def described(stands: dict) -> str:
    """A record in a line."""
    return (
        f"{stands['counted']:,.0f} {stands['counts']} ({stands['episodes']:,} episodes, {stands['seconds']:,.0f} s of {stands['device']}; "
        f"worst {stands['measure']} {stands['worst']:.5g}; {stands['parameters']:,} parameters)"
    )


def records_text(entries: list[dict]) -> str:
    """The file of all records as JSON, a line a record."""
    lines = ",\n".join(json.dumps(entry, sort_keys=True, allow_nan=False) for entry in entries)
    return f'{{"records": [\n{lines}\n]}}\n'

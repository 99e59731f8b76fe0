"""The queue: a plan in a file, worked through by priority for as long as somebody lets it.

`queue.toml` beside this file lists the cells. The folder of the queue holds what is unfinished and the
weights, as a sweep's does (see `sweep`): it may lie anywhere and outlive a checkout. A finished run is at
once a row of the record `queue.json`, with its whole recipe, and of networks of published size with the scores of each position, of
one pair less and of longer inputs; what has its row is never run again.
Several processes may work in one folder. All of them may be killed at any moment.
"""

from __future__ import annotations

import functools
import json
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm.auto import tqdm

from bayeswind_lib import checkpoints, tunnels
from bayeswind_lib.checkpoints.files import CheckpointError, read_note, write_atomically
from bayeswind_lib.checkpoints.store import records_folder
from bayeswind_lib.training import performance
from bayeswind_lib.training.loop import STATE
from bayeswind_lib.training.plans import Cell, cell
from bayeswind_lib.training.presets import N_EPISODES
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.training.sweep import (
    describe,
    owned,
    read_rows,
    runs_text,
    seconds_left,
    sweep,
    weights_of,
)

PLAN = Path(__file__).with_name("queue.toml")
MINUTE = 60.0  # seconds between two lines on how far the runs are: a queue runs for days
KINDS = ("done", "running", "begun", "next")  # what a cell is, in the order in which they are listed
WORDS = ("priority", "why", "tunnel", "architecture", "preset", "variant", "label", "seeds", "rates", "budgets", "changes")


@dataclass(frozen=True)
class Entry:
    """A cell of the queue, how early it is wanted (1 is first), and the question that it answers.

    A `plain` one has the rate and the budget of its recipe, no factor of them.
    """

    cell: Cell
    priority: int
    why: str
    plain: bool = True


def entries(path: str | Path = PLAN) -> list[Entry]:
    """The cells of a plan, first things first; of equal priority in the order of the file.

    Each table `[[cells]]` names `priority`, `why`, `tunnel` and `architecture`; as `plans.cell` takes them
    `preset` ("paper" by default), `variant` and `label`; `changes`, fields of the recipe; and of the lists
    `seeds`, `rates` (factors of both learning rates) and `budgets` (factors of the steps) every combination.
    A `curriculum` among the changes is a list of stages, or the name of one in the file's table `[curricula]`.

    Raises:
        ValueError: for a file that is no such plan; the message names the table.
        OSError: for a file that cannot be read.
    """
    try:
        plan = tomllib.loads(Path(path).read_text())
    except tomllib.TOMLDecodeError as problem:
        raise ValueError(f"{path}: not a plan: expected TOML ({problem})") from None
    if not isinstance(plan.get("cells"), list):
        raise ValueError(f"{path}: not a plan: expected tables [[cells]], one for each group of runs")
    found: dict[str, Entry] = {}
    for number, table in enumerate(plan["cells"], 1):
        try:
            chosen = _cells(table, plan.get("curricula", {}))
        except (ValueError, TypeError) as problem:
            raise ValueError(f"{path}: table {number} of [[cells]]: {problem}") from None
        for one, is_plain in chosen:
            entry = Entry(one, table["priority"], table["why"], is_plain)
            if one.key not in found or entry.priority < found[one.key].priority:
                found[one.key] = entry
    return sorted(found.values(), key=lambda entry: entry.priority)


@functools.lru_cache(maxsize=1)
def plain_recipes() -> dict[str, Recipe]:
    """By name the recipe of the plan's first cell that has the rate and the budget of its table: what other runs are beside."""
    return {entry.cell.name: entry.cell.recipe for entry in reversed(entries()) if entry.plain}


def _cells(table: dict, curricula: dict[str, list]) -> list[tuple[Cell, bool]]:
    """All cells of a table of the plan, and whether each has the rate and the budget of the recipe."""
    if unknown := sorted(set(table) - set(WORDS)):
        raise ValueError(f"there is no {', '.join(unknown)}: choose among {', '.join(WORDS)}")
    if missing := sorted({"priority", "why", "tunnel", "architecture"} - set(table)):
        raise ValueError(f"{', '.join(missing)} missing")
    made = functools.partial(
        cell, table["tunnel"], table["architecture"], table.get("variant"),
        preset=table.get("preset", "paper"), label=table.get("label"),
    )
    changes = dict(table.get("changes", {}))
    if isinstance(name := changes.get("curriculum"), str):
        if name not in curricula:
            raise ValueError(f"there is no curriculum {name!r}: choose among {', '.join(curricula) or 'none'} or add it to [curricula]")
        changes["curriculum"] = curricula[name]
    plain = made(**changes).recipe
    found = []
    for rate in table.get("rates", [1]):
        for budget in table.get("budgets", [1]):
            more = {
                "learning_rate": rate * plain.learning_rate, "matrix_learning_rate": rate * plain.matrix_learning_rate,
                "steps": round(budget * plain.steps),
            }
            found += [(made(seed=seed, **changes | more), rate == budget == 1) for seed in table.get("seeds", [0])]
    return found


def record_path() -> Path:
    """Where finished runs are taken down: beside the other records, in this checkout."""
    return records_folder() / "queue.json"


def recorded(path: Path) -> list[dict]:
    """The rows of the record; none if there is no file yet.

    Raises:
        CheckpointError: if the file is no such record.
    """
    if not path.is_file():
        return []
    try:
        return json.loads(path.read_text())["runs"]
    except (ValueError, KeyError, TypeError) as problem:
        raise CheckpointError(f"{path}: not a record of runs ({problem}); restore it from the repository") from None


def record_lock(path: Path) -> Path:
    """What whoever writes a record holds: a hidden file beside it, which git ignores."""
    return path.with_name(f".{path.name}.lock")


def take_down(
    rows: Iterable[dict], recipes: dict[str, dict], path: Path, folder: Path | None = None, report: Callable[[str], None] = print,
) -> None:
    """Add rows to the record, with their recipes; a row that is there already stays as it is.

    With the `folder` that holds their weights, networks of published size get `scores` as well. A row whose network
    cannot be scored is left in the folder, and `report` says so: the other runs go on, and whoever takes down next tries again.

    Whoever writes holds the record's lock, so that of two processes, also of two queues, none loses a row.
    """
    known = {row["key"] for row in recorded(path)}
    new = {}
    for row in rows:
        if row["key"] not in known:
            try:
                new[row["key"]] = row | {"recipe": recipes[row["key"]]} | scores_of(row, folder)
            except Exception as problem:  # whatever it is, it costs no other run
                report(f"{row['key']}: ended, and is not in the record, since scoring it failed ({type(problem).__name__}: {problem})")
    while new:
        with owned(record_lock(path)) as mine:
            if mine:
                everything = new | {row["key"]: row for row in recorded(path)}
                write_atomically(path, runs_text(everything[key] for key in sorted(everything)).encode())
                return
        time.sleep(0.05)


def scores_of(row: dict, folder: Path | None) -> dict:
    """"scores" of a network of published size whose weights lie in a folder, as `networks.row_scores` gives them; of a
    recurrent HMM network also what `beliefs.last_layer` sees. Of any other run nothing."""
    if folder is None or row["preset"] != "paper" or row["tunnel"] not in ("bijection", "hmm") or not weights_of(row, folder).exists():
        return {}
    from bayeswind_lib.experiments import beliefs, networks

    network, tunnel = checkpoints.load_file(weights_of(row, folder)), tunnels.build(row["tunnel"], row["tunnel_config"])
    opened = beliefs.last_layer(network, tunnel, row["n_episodes"]) if row["architecture"] in beliefs.PUBLISHED and row["tunnel"] == "hmm" else {}
    return {"scores": networks.row_scores(network, tunnel, row["n_episodes"])} | opened


def collect(plan: list[Entry], folder: Path, path: Path, report: Callable[[str], None] = print) -> set[str]:
    """Take down what has ended in the folder, also by a process killed before it could; the keys of all that is done."""
    take_down(read_rows((entry.cell for entry in plan), folder), recipes_of(plan), path, folder, report)
    return {row["key"] for row in recorded(path)}


def recipes_of(plan: list[Entry]) -> dict[str, dict]:
    """By key of the cell, the recipe as JSON types."""
    return {entry.cell.key: entry.cell.recipe.to_dict() for entry in plan}


def work(
    plan: list[Entry], folder: str | Path, path: str | Path | None = None, workers: int = 1, threads: int = 1,
    device: str = "cpu", n_episodes: int = N_EPISODES["paper"], report: Callable[[str], None] = print,
) -> int:
    """Run what is not done, the most wanted first.

    Args:
        plan: from `entries`.
        folder: of unfinished runs and weights.
        path: of the record; the checkout's own by default.
        workers: processes that train at once; 1 trains in this one.
        threads: of the mathematics library, each.
        device, n_episodes, report: as in `sweep`.
    Returns:
        how many cells of the plan are still not done (they failed).
    Raises:
        Interrupted: on SIGINT or SIGTERM, after every run has saved its state.
        OSError: at once, for a folder that cannot be written to.
    """
    folder, path = Path(folder).resolve(), Path(path or record_path())
    recipes = recipes_of(plan)
    with performance.threads(threads):  # this process scores what ends
        done = collect(plan, folder, path, report)
        sweep(
            [entry.cell for entry in plan if entry.cell.key not in done], folder,
            workers=0 if workers == 1 else workers, threads_per_worker=threads, report=report,
            n_episodes=n_episodes, device=device, pulse=MINUTE,
            finished=lambda row: take_down([row], recipes, path, folder, report),
        )
        done = collect(plan, folder, path, report)
    return sum(entry.cell.key not in done for entry in plan)


def status(plan: list[Entry], folder: str | Path, path: str | Path | None = None, upcoming: int = 10) -> list[str]:
    """Lines that say what is done, what somebody is at, what was begun, and what comes next.

    How long a run will take is known if it was begun, or one of the same network has ended on a processor.
    """
    folder = Path(folder)
    rows = recorded(Path(path or record_path())) + read_rows((entry.cell for entry in plan), folder)
    done = {row["key"]: row for row in rows}
    pace = {row["name"]: row["seconds"] / row["steps"] for row in rows if row["device"].startswith("cpu")}  # seconds an update
    found = [_state(entry, folder, done, pace) for entry in plan]
    lines = [f"{kind:8} {text}" for kind in KINDS[:-1] for which, text, _ in found if which == kind]
    waiting = [f"{KINDS[-1]:8} {text}" for which, text, _ in found if which == KINDS[-1]]
    lines += waiting[:upcoming] + [f"{'':8} and {len(waiting) - upcoming} more"] * (len(waiting) > upcoming)
    left, unknown = sum(seconds or 0 for *_, seconds in found), sum(seconds is None for *_, seconds in found)
    more = f", and {unknown} runs of which no time is known" if unknown else ""
    n_done = sum(which == "done" for which, *_ in found)
    return [*lines, f"{n_done} of {len(plan)} runs are done; about {tqdm.format_interval(left)} of training left{more}"]


def _state(entry: Entry, folder: Path, done: dict[str, dict], pace: dict[str, float]) -> tuple[str, str, float | None]:
    """Which of KINDS a cell is, a line on it, and the seconds of training left (None: not known)."""
    one = entry.cell
    if one.key in done:
        return "done", f"{one.key}: {describe(done[one.key])}", 0.0
    note, steps = read_note(folder / "runs" / one.key / STATE), one.recipe.steps
    seconds = pace[one.name] * steps if one.name in pace else None
    if note and note["step"]:
        seconds = seconds_left(note)
    words = "time not known" if seconds is None else f"about {tqdm.format_interval(seconds)} left"
    if note:
        words = f"step {note['step']} of {steps} saved, {words}"
    kind = "running" if _held(folder / "runs" / one.key / "lock") else "begun" if note else "next"
    return kind, f"{one.key}: {words} (priority {entry.priority}: {entry.why})", seconds


def _held(lock: Path) -> bool:
    """Whether some process holds a lock file."""
    if not lock.is_file():
        return False
    with owned(lock) as mine:
        return not mine

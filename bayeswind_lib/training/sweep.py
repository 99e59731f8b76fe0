"""Sweeps: the cells of a plan, trained and scored by many processes, each exactly once.

One folder holds a sweep: `runs/<key>` is a cell while it trains, `weights/<key>` the network
that came of it, `rows/<key>.json` its results. A cell that has its row is never run again, so a
sweep may be stopped, killed and started again at any time. While a process works at a cell it
holds a lock on `runs/<key>/lock`, which the operating system takes back when the process ends,
however it ends: so no cell is ever run by two at once, not even where a worker was given up
for dead and still runs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import nn
from tqdm.auto import tqdm

from bayeswind_lib import checkpoints, tunnels
from bayeswind_lib.checkpoints.files import check_writable, read_note, write_atomically
from bayeswind_lib.checkpoints.store import plain
from bayeswind_lib.scoring import MEASURES, Score, accuracy, score_episodes
from bayeswind_lib.training import cluster, performance
from bayeswind_lib.training.loop import STATE, Interrupted, train
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.presets import N_EPISODES

LEVELS = (0.1, 0.03, 0.01)  # bits of entropy error: how soon a learning curve first gets there
FROM_RECIPE = (
    "optimiser", "learning_rate", "matrix_learning_rate", "supervision", "steps", "batch_size",
)
FROM_RECORD = (
    "tunnel", "tunnel_config", "architecture", "seed", "recipe_tag", "episodes", "parameters",
    "seconds", "interruptions", "device", "commit", "schedule_ended",
)
PULSE = 20.0  # seconds between two lines on how far everything is


def final_score(
    model: nn.Module, tunnel: str, config: dict, n_episodes: int, seed: int = 1
) -> Score:
    """The score on fresh episodes that rows, records and the command line report."""
    return score_episodes(model, fresh_episodes(model, tunnel, config, n_episodes, seed))


def fresh_episodes(
    model: nn.Module, tunnel: str, config: dict, n_episodes: int, seed: int = 1
) -> tunnels.Episodes:
    """Episodes that no training run has seen, on the network's device."""
    device = next(model.parameters()).device
    rng = torch.Generator().manual_seed(seed)
    return tunnels.build(tunnel, config).sample(n_episodes, rng, device)


def reached(curve: list[dict], what: str = "episodes") -> dict[str, float | None]:
    """The `what` of the first row of a learning curve at or below each level of LEVELS.

    >>> reached([{"episodes": 0, "entropy_mae": 2.0}, {"episodes": 64, "entropy_mae": 0.05}])
    {'0.1': 64, '0.03': None, '0.01': None}
    """
    return {
        f"{level:g}": next((row[what] for row in curve if _number(row["entropy_mae"]) <= level), None)
        for level in LEVELS
    }


def thinned(curve: list[dict], points: int = 41) -> list[dict]:
    """The KL of a learning curve at evenly spaced rows of it, the first and the last among them.

    Small enough to be kept of every run, also of one whose weights are not.

    >>> thinned([{"episodes": 64 * i, "kl": 1 / 3} for i in range(200)], points=3)[1]
    {'episodes': 6400, 'kl': 0.33333}
    """
    last = len(curve) - 1
    kept = sorted({round(i * last / (points - 1)) for i in range(points)})
    return [
        {"episodes": curve[i]["episodes"], "kl": plain(_number(curve[i]["kl"]), digits=5)} for i in kept
    ]


def _number(entry: float | str | None) -> float:
    """An entry of a record as a number again: "inf" and None are infinity and NaN."""
    return math.nan if entry is None else float(entry)


def runs_text(rows: Iterable[dict]) -> str:
    """The record of many runs as JSON, a line a run, so that a changed run is a changed line."""
    lines = ",\n".join(json.dumps(row, sort_keys=True, allow_nan=False) for row in rows)
    return f'{{"runs": [\n{lines}\n]}}\n'


def run_cell(
    cell: Cell, folder: str | Path, n_episodes: int = N_EPISODES["paper"], save_weights: bool = True,
    device: str = "cpu", stop: Callable[[], bool] | None = None,
) -> dict:
    """Train a cell, or go on training it, score it, and keep its weights and its row.

    Args:
        cell: what to run.
        folder: the sweep's.
        n_episodes: on how many fresh episodes the network is scored.
        save_weights: keep the network and its record, for `ship`.
        stop: as in `train`.
    Returns:
        the row, as it lies in `rows/<key>.json`.
    """
    folder, recipe = Path(folder), cell.recipe
    model, record = train(
        recipe, folder / "runs" / cell.key, device, resume=True, progress=False, stop=stop
    )
    episodes = fresh_episodes(model, recipe.tunnel, recipe.tunnel_config, n_episodes)
    scores = score_episodes(model, episodes).to_dict()
    if save_weights:
        full = record | {"preset": cell.preset, "scores": scores}
        checkpoints.save(model, full, cell.name, recipe.seed, folder / "weights" / cell.key)
    right, error = (None, None) if episodes.outcome == "gaussian" else accuracy(model, episodes)
    row = _row(cell, record, scores) | {"accuracy": right, "accuracy_se": error}
    text = json.dumps(row, indent=1, allow_nan=False) + "\n"
    write_atomically(row_path(cell, folder), text.encode())
    return row


def _row(cell: Cell, record: dict, scores: dict) -> dict:
    """What is kept of a finished run: JSON types; "inf" for an infinite measure."""
    named = {"name": cell.name, "tunnel": cell.recipe.tunnel, "architecture": cell.recipe.architecture}
    return (
        {"key": cell.key, "name": cell.name, "variant": checkpoints.variant_of(named)}
        | {"preset": cell.preset, "setting": cell.recipe.but(seed=0, data_seed=0).tag}
        | {key: record[key] for key in FROM_RECORD}
        | {key: record["recipe"][key] for key in FROM_RECIPE}
        | {key: scores[key] for name in MEASURES for key in (name, f"{name}_se")}
        | {"n_episodes": scores["n_episodes"]}
        | {f"{what}_to": reached(record["curve"], what) for what in ("episodes", "seconds")}
        | {"curve": thinned(record["curve"])}
        | {key: record[key] for key in ("stage_ends", "arrived") if key in record}
    )


def row_path(cell: Cell, folder: str | Path) -> Path:
    """Where a cell's row lies once it has ended."""
    return Path(folder) / "rows" / f"{cell.key}.json"


def read_row(cell: Cell, folder: str | Path) -> dict | None:
    """A cell's row, or None if it has not ended."""
    try:
        return json.loads(row_path(cell, folder).read_text())
    except FileNotFoundError:
        return None


def is_begun(cell: Cell, folder: str | Path) -> bool:
    """Whether a cell has saved a state, from which it will go on."""
    return (Path(folder) / "runs" / cell.key / STATE).exists()


def ended_cells(cells: Iterable[Cell], folder: str | Path | None) -> Iterator[tuple[Cell, dict]]:
    """The cells that have ended in a folder, each with its row, in their order; none without a folder."""
    for cell in cells if folder else ():
        if (row := read_row(cell, folder)) is not None:
            yield cell, row


def read_rows(cells: Iterable[Cell], folder: str | Path) -> list[dict]:
    """The rows of those cells that have ended, in the order of the cells."""
    return [row for _, row in ended_cells(cells, folder)]


@contextlib.contextmanager
def owned(path: Path) -> Iterator[bool]:
    """Hold a lock file; yields False if another holds it, who then is alive.

    Raises:
        OSError: if the file system knows no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:  # never removed: others may be waiting for this very file
        mine = _lock(file)
        if mine:
            file.truncate(0)
            file.write(f"{socket.gethostname()} {os.getpid()}\n")
            file.flush()
        yield mine


def _lock(file) -> bool:
    """Try to lock an open file until it is closed."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(2**30)  # a byte beyond the text, which stays readable
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as problem:
        raise OSError(f"{file.name}: cannot be locked ({problem}); keep the sweep on another disk") from None
    return True


def attempt(
    cell: Cell, folder: Path, n_episodes: int, device: str = "cpu", threads: int = 1, ticket: str = "",
    waits: bool = True,
) -> dict:
    """Run a cell unless it has ended or somebody is at it; says what came of it, in JSON types.

    Args:
        threads: of the mathematics library.
        ticket: names the sweep, so that `cluster` can stop it.
        waits: whether to take `cluster.PATIENCE` seconds over a cell that somebody is at.
    Returns:
        {"row": ...}, {"failed": reason}, {"interrupted": message} or {"busy": who is at it}.
    """
    lock = folder / "runs" / cell.key / "lock"
    stop = functools.partial(cluster.is_stopped, ticket)
    cluster.ACTIVE.append(ticket)
    try:
        with owned(lock) as mine:
            row = read_row(cell, folder)
            if row is None and not mine:
                time.sleep(cluster.PATIENCE if waits else 0)
                return {"busy": lock.read_text().strip()}
            if stop():
                return {"interrupted": "stopped before it began"}
            with performance.threads(threads):
                return {"row": row or run_cell(cell, folder, n_episodes, device=device, stop=stop)}
    except Interrupted as stopped:
        return {"interrupted": str(stopped)}
    except Exception as problem:  # whatever it is, the other cells go on
        return {"failed": f"{type(problem).__name__}: {problem}"}
    finally:
        cluster.ACTIVE.remove(ticket)


class Progress:
    """Counts what ends, says so in one line a cell, and estimates the time left."""

    def __init__(
        self, cells: list[Cell], n_total: int, report: Callable[[str], None],
        finished: Callable[[dict], None] = lambda row: None,
    ):
        self.left = {cell.key: cell.recipe.steps * cell.recipe.batch_size for cell in cells}
        self.begun, self.work, self.n_total = time.monotonic(), 0, n_total
        self.say, self.failed, self.finished = report, {}, finished
        self.bar = tqdm(
            total=n_total, initial=n_total - len(cells), unit="cell", file=sys.stdout,
            disable=not sys.stdout.isatty(), dynamic_ncols=True,
        )

    def note(self, cell: Cell, outcome: dict) -> bool:
        """Take down what came of a cell; True if it has to be tried again."""
        if "busy" in outcome or "interrupted" in outcome:
            return True
        if cell.key in self.left:
            self.work += self.left.pop(cell.key)
            self._tell(cell, outcome)
        return False

    def _tell(self, cell: Cell, outcome: dict) -> None:
        if "failed" in outcome:
            self.failed[cell.key] = outcome["failed"]
            text = "failed"
        else:
            self.finished(outcome["row"])
            text = describe(outcome["row"])
        count = f"[{self.n_total - len(self.left)}/{self.n_total}]"
        with tqdm.external_write_mode(file=sys.stdout):
            self.say(f"{count} {cell.key}: {text}; {self.time_left()}")
        self.bar.update()

    def time_left(self) -> str:
        """Hours, minutes and seconds, from the pace of the episodes so far."""
        if not self.left:
            return "none left"
        seconds = (time.monotonic() - self.begun) / self.work * sum(self.left.values())
        return f"{len(self.left)} left, about {tqdm.format_interval(seconds)}"

    def beat(self, folder: Path) -> None:
        """Say in one line how far the cells are that somebody has begun; their states are saved once a minute."""
        begun = [key for key in list(self.left) if (folder / "runs" / key / "lock").exists()]
        words = ", ".join(f"{key} ({_saved_step(folder / 'runs' / key / STATE)})" for key in begun[:4])
        more = f" and {len(begun) - 4} more" if len(begun) > 4 else ""
        gone = tqdm.format_interval(time.monotonic() - self.begun)
        with tqdm.external_write_mode(file=sys.stdout):
            self.say(f"{gone} gone, {self.n_total - len(self.left)} of {self.n_total} ended; begun: {words or 'none yet'}{more}")

    def close(self) -> None:
        """Take the bar away and name what failed."""
        self.bar.close()
        for key, reason in self.failed.items():
            self.say(f"failed: {key}: {reason}")


def seconds_left(note: dict) -> float:
    """Seconds of training that a run still needs, at its pace so far."""
    return note["seconds"] / max(note["step"], 1) * (note["recipe"]["steps"] - note["step"])


def _saved_step(state: Path) -> str:
    """How far a run is, as its saved state says, and how long it still needs."""
    note = read_note(state)
    if note is None:
        return "nothing saved yet"
    left = tqdm.format_interval(seconds_left(note))
    return f"step {note['step']} of {note['recipe']['steps']} saved, about {left} left"


@contextlib.contextmanager
def _pulse(progress: Progress, folder: Path, seconds: float) -> Iterator[None]:
    """A line every few seconds while this context lasts, so that nobody takes a long run for a dead one."""
    ended = threading.Event()

    def beats() -> None:
        while not ended.wait(seconds):
            progress.beat(folder)

    thread = threading.Thread(target=beats, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def describe(row: dict) -> str:
    """A finished cell in a few words."""
    return (
        f"KL {float(row['kl']):.5f}, entropy error {row['entropy_mae']:.4f} bits, "
        f"{row['seconds']:.0f} s of training"
    )


def sweep(
    cells: Iterable[Cell], folder: str | Path, scheduler: str | None = None, workers: int = 2,
    threads_per_worker: int = 1, report: Callable[[str], None] = print,
    n_episodes: int = N_EPISODES["paper"], device: str = "cpu", pulse: float | None = None,
    finished: Callable[[dict], None] = lambda row: None,
) -> list[dict]:
    """Run all cells that have not ended yet.

    Args:
        cells: of a plan, in the order in which they should be run.
        folder: of the sweep; every worker must see it under this path.
        scheduler: address of a Dask cluster that exists, "tcp://host:port"; None starts one here.
        workers: processes of the cluster that is started here; 0 works in this process without
            Dask, and so does 1 where Dask is not installed.
        threads_per_worker: of the mathematics library in each; a worker runs one cell at a time.
        report: takes a line for each cell that ends, and one every `pulse` (PULSE) seconds in between.
        n_episodes, device: as in `run_cell`.
        finished: takes the row of each cell at once when it has ended.
    Returns:
        the rows of all cells that have ended, in the order of the cells. What failed is reported
        and has no row; a later sweep tries it again.
    Raises:
        Interrupted: on SIGINT or SIGTERM, after every run here has saved its state.
        OSError: at once, for a folder that cannot be written to.
    """
    check_writable(folder)
    folder = Path(folder).resolve()
    cells = list({cell.key: cell for cell in cells}.values())
    pending = [cell for cell in cells if read_row(cell, folder) is None]
    report(f"{len(cells)} cells, {len(cells) - len(pending)} done, {len(pending)} to run in {folder}")
    ticket, progress = uuid.uuid4().hex, Progress(pending, len(cells), report, finished)
    work = functools.partial(
        attempt, folder=folder, n_episodes=n_episodes, device=device, threads=threads_per_worker,
        ticket=ticket, waits=not cluster.is_alone(scheduler, workers),
    )
    try:
        with _pulse(progress, folder, PULSE if pulse is None else pulse):
            if pending:
                cluster.run(pending, work, progress.note, progress.say, ticket, scheduler, workers)
    finally:
        progress.close()
    return read_rows(cells, folder)


def best(rows: Iterable[dict], by: str = "kl", **wanted: object) -> dict:
    """The row with the lowest `by` among those whose fields are as wanted.

    >>> best([{"kl": 0.2, "seed": 0}, {"kl": 0.1, "seed": 1}, {"kl": "inf", "seed": 2}])["seed"]
    1

    Raises:
        ValueError: if there is no such row.
    """
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    if not found:
        words = ", ".join(f"{key} {value!r}" for key, value in wanted.items())
        raise ValueError(f"there is no run with {words}" if words else "there is no run at all")
    return min(found, key=lambda row: float(row[by]))


def winners(rows: Iterable[dict], by: str = "kl") -> list[dict]:
    """For each network's name, all seeds of the setting whose mean `by` is lowest.

    A setting is a recipe without its seeds; a network trained at one setting only wins. One
    that has fewer seeds than another of its name cannot win.
    """
    groups: dict[str, dict[str, list[dict]]] = {}
    for row in rows:
        groups.setdefault(row["name"], {}).setdefault(row["setting"], []).append(row)
    chosen = []
    for settings in groups.values():
        most = max(map(len, settings.values()))
        complete = [found for found in settings.values() if len(found) == most]
        chosen += min(complete, key=lambda found: sum(float(row[by]) for row in found))
    return chosen


def weights_of(row: dict, folder: str | Path) -> Path:
    """Where the network of a row lies in a sweep's folder."""
    return checkpoints.path_of(row["name"], row["seed"], Path(folder) / "weights" / row["key"])

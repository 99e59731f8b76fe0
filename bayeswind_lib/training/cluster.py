"""The runner of all that is many runs, of sweeps and of records: here, one after the other, or on Dask. Only this file knows Dask.

Dask's workers are local processes, or those of a cluster that exists. It decides which worker runs which cell, and gives a cell to another worker when one dies. What
a cell did until then lies in the sweep's folder, so the next worker goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import logging
import pickle
import signal
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bayeswind_lib.training import performance
from bayeswind_lib.training.loop import Interrupted

DEATHS = 10  # of workers at one cell, after which the cell is given up (local clusters)
SAVING = 120.0  # seconds that workers have for saving their states when a sweep is stopped
WAITING = 120.0  # seconds for the first worker to appear
PATIENCE = 2.0  # seconds to wait for a cell that somebody else is at, before another is tried
SILENCE = 20.0  # seconds without news, after which the workers are counted
EVERY = "every"  # in STOPPED: whatever runs in this process

STOPPED: set[str] = set()  # tickets of the sweeps that are to stop in this process
ACTIVE: list[str] = []  # the ticket of each cell that this process is at


def is_stopped(ticket: str) -> bool:
    """Whether the runs of a sweep are to save their state and end, in this process."""
    return ticket in STOPPED or EVERY in STOPPED


def is_installed() -> bool:
    """Whether Dask's distributed scheduler can be imported."""
    return importlib.util.find_spec("distributed") is not None


def is_alone(scheduler: str | None, workers: int) -> bool:
    """Whether cells run in this process: if that is asked for, or one worker where there is no Dask."""
    return scheduler is None and (workers == 0 or (workers == 1 and not is_installed()))


def run(
    cells: list, work: Callable[..., dict], note: Callable[..., bool], say: Callable[[str], None], ticket: str,
    scheduler: str | None = None, workers: int = 2,
) -> None:
    """Call `work(cell)` for every cell, and note in this process what comes of each.

    Args:
        note: `note(cell, outcome)` returns True if the cell has to be run again.
        say: takes a line.
        ticket: names these runs on the workers.
        scheduler, workers: as in `sweep`.
    Raises:
        Interrupted: on SIGINT or SIGTERM, after the workers have saved what they were at.
    """
    if is_alone(scheduler, workers):
        _run_here(cells, work, note)
        return
    with _termination_as_interrupt(), _client(scheduler, workers) as client:
        threads = max(client.nthreads().values())
        if threads > 1:
            say(
                f"a worker of this cluster takes {threads} runs at once, in one process: "
                "workers started with --nthreads 1 are faster"
            )
        try:
            _follow(client, cells, work, note, say, ticket)
        except KeyboardInterrupt:
            n_saved = _stop_workers(client, ticket)
            raise Interrupted(
                f"stopped; {n_saved} unfinished cells were saved: start the same sweep again to go on"
            ) from None


def run_missing(
    work: Callable, cells: Iterable, path_of: Callable, workers: int = 1, report: Callable = print,
) -> None:
    """Call `work(cell)` for each cell whose file is not there yet; it can be stopped at any moment and started again.

    Args:
        work: writes the cell's file, whole or not at all. It may go to another process, so it has to be
            a function of a module (or `functools.partial` of one).
        path_of: where a cell's file lies.
        workers: processes that run at once, each on one thread of the mathematics library. 1, and any
            number where Dask is not installed, works in this process.
        report: takes a line for each cell that has ended.
    Raises:
        ValueError: if `workers` is below 1.
        RuntimeError: when all have ended, if some failed; the message says which and why.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}: at least one has to run")
    missing = [cell for cell in cells if not Path(path_of(cell)).is_file()]
    for cell in missing:
        Path(path_of(cell)).parent.mkdir(parents=True, exist_ok=True)
    ended, failed = [], []

    def note(cell, outcome: dict) -> bool:
        ended.append(Path(path_of(cell)).stem)
        if "failed" in outcome:
            failed.append(f"{ended[-1]} failed: {outcome['failed']}")
        report(f"{len(ended)} of {len(missing)}: {failed[-1] if 'failed' in outcome else ended[-1]}")
        return False

    if missing:
        several = workers if workers > 1 and is_installed() else 0
        run(missing, functools.partial(_ended, work), note, report, uuid.uuid4().hex, workers=several)
    if failed:
        raise RuntimeError("; ".join(failed))


def _ended(work: Callable, cell) -> dict:
    """Why a cell failed, if it did: the others go on."""
    try:
        with performance.threads(1):
            work(cell)
    except Exception as problem:
        return {"failed": f"{type(problem).__name__}: {problem}"}
    return {}


def _run_here(cells: list, work: Callable, note: Callable) -> None:
    """One cell after the other, in this process; those that somebody else is at come last."""
    queue, busy = deque(cells), 0
    while queue:
        cell = queue.popleft()
        outcome = work(cell)
        if "interrupted" in outcome:
            raise Interrupted(outcome["interrupted"])
        if note(cell, outcome):
            queue.append(cell)
            busy += 1
            if busy >= len(queue):  # somebody is at every one
                time.sleep(PATIENCE)
        else:
            busy = 0


def _follow(client, cells: list, work: Callable[..., dict], note: Callable[..., bool], say: Callable[[str], None], ticket: str) -> None:
    """Submit all cells, and some of them again, until each has ended."""
    from distributed import as_completed

    def unpack(packed: bytes) -> dict:  # has no name outside, so Dask sends its code along
        import pickle

        function, cell = pickle.loads(packed)
        return function(cell)

    def submit(some: list, attempt: int) -> list:
        # As bytes: the scheduler looks into what it hands on, and would have to import torch.
        packed = [pickle.dumps((work, cell)) for cell in some]
        keys = [(f"cell-{ticket}", str(getattr(cell, "key", cell)), attempt) for cell in some]
        return client.map(unpack, packed, key=keys, pure=False, retries=3, priority=-attempt)

    futures = submit(cells, 0)
    owner = dict(zip(futures, ((cell, 0) for cell in cells), strict=True))
    queue = as_completed(futures, loop=client.loop)
    while owner:
        _wait(client, queue, say)
        future = next(queue)
        cell, attempt = owner.pop(future)
        if note(cell, _outcome(future)):
            (again,) = submit([cell], attempt + 1)
            owner[again] = cell, attempt + 1
            queue.add(again)


def _wait(client, queue, say: Callable[[str], None]) -> None:
    """Until a cell has come to an end; says so if nobody is there to work."""
    looked, warned = time.monotonic(), False
    while not queue.has_ready():
        time.sleep(0.05)
        if time.monotonic() - looked > SILENCE:
            looked = time.monotonic()
            if not client.nthreads() and not warned:
                say("no worker is left: the sweep goes on when one joins the cluster")
                warned = True


def _outcome(future) -> dict:
    """What `work` returned, or why it did not."""
    try:
        return future.result()
    except Exception as problem:  # its worker died too often, or could not import the library
        return {"failed": f"{type(problem).__name__}: {problem}"}


@contextlib.contextmanager
def _client(scheduler: str | None, workers: int) -> Iterator:
    """A client of the cluster at `scheduler`, or of one that lives as long as the client."""
    try:
        import dask
        import distributed
    except ImportError:
        raise ValueError(
            'a sweep on several workers needs Dask: pip install "dask[distributed]", or use 0 workers'
        ) from None
    with contextlib.ExitStack() as stack:
        if scheduler is None:
            settings = {
                "distributed.scheduler.allowed-failures": DEATHS,
                "distributed.scheduler.worker-saturation": 1.0,  # no cell waits at a busy worker
                # A killed worker is started again; on a busy machine that takes more than Dask's 15 s.
                "distributed.deploy.lost-worker-timeout": "15 minutes",
            }
            stack.enter_context(dask.config.set(settings))
            scheduler = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0,
                    dashboard_address="127.0.0.1:0", silence_logs=logging.ERROR,
                )
            )
        client = stack.enter_context(distributed.Client(scheduler, set_as_default=False))
        with contextlib.suppress(Exception):  # an older Dask: then states are saved once a minute
            client.register_plugin(_saver(), name="bayeswind-save-when-closed")
        client.wait_for_workers(1, timeout=WAITING)
        yield client


def _saver():
    """A plugin of the workers: one that is closed in an orderly way saves its run first."""
    from distributed import WorkerPlugin

    class SaveWhenClosed(WorkerPlugin):
        def setup(self, worker):
            from bayeswind_lib.training import cluster

            cluster.STOPPED.discard(cluster.EVERY)
            if worker.nanny:  # Ctrl-C reaches a whole terminal: who started the worker decides
                with contextlib.suppress(ValueError):  # not in the main thread
                    signal.signal(signal.SIGINT, signal.SIG_IGN)

        def teardown(self, worker):
            from bayeswind_lib.training import cluster

            if worker.status.name in ("closing", "closing_gracefully", "closed"):  # not when the plugin is replaced
                cluster.STOPPED.add(cluster.EVERY)

    return SaveWhenClosed()


def _stop_workers(client, ticket: str) -> int:
    """Have all workers save and end their cells of this sweep; returns how many there were."""
    counts = client.run(_stop_here, ticket, on_error="ignore")
    return sum(counts.values())


async def _stop_here(ticket: str) -> int:
    """On a worker's event loop: ask its runs to stop, and wait until they have saved."""
    STOPPED.add(ticket)
    n_active, end = ACTIVE.count(ticket), time.monotonic() + SAVING
    while ticket in ACTIVE and time.monotonic() < end:
        await asyncio.sleep(0.05)
    return n_active


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end a sweep as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

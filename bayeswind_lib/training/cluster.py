"""Cells on Dask: local processes, or a cluster that exists. Only this file knows Dask.

Dask decides which worker runs which cell, and gives a cell to another worker when one dies. What
a cell did until then lies in the sweep's folder, so the next worker goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator

from bayeswind_lib.training.loop import Interrupted
from bayeswind_lib.training.plans import Cell

DEATHS = 10  # of workers at one cell, after which the cell is given up (local clusters)
SAVING = 120.0  # seconds that workers have for saving their states when a sweep is stopped
WAITING = 120.0  # seconds for the first worker to appear
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


def run(
    cells: list[Cell], work: Callable[[Cell], dict], progress, ticket: str,
    scheduler: str | None = None, workers: int = 2,
) -> None:
    """Call `work(cell)` for every cell on a cluster, and note here what comes of each.

    Args:
        progress: `note(cell, outcome)` returns True if the cell has to be run again, `say(line)` tells.
        ticket: names this sweep on the workers.
        scheduler, workers: as in `sweep`.
    Raises:
        Interrupted: on SIGINT or SIGTERM, after the workers have saved what they were at.
    """
    with _termination_as_interrupt(), _client(scheduler, workers) as client:
        threads = max(client.nthreads().values())
        if threads > 1:
            progress.say(
                f"a worker of this cluster takes {threads} runs at once, in one process: "
                "workers started with --nthreads 1 are faster"
            )
        try:
            _follow(client, cells, work, progress, ticket)
        except KeyboardInterrupt:
            n_saved = _stop_workers(client, ticket)
            raise Interrupted(
                f"stopped; {n_saved} unfinished cells were saved: start the same sweep again to go on"
            ) from None


def _follow(client, cells: list[Cell], work: Callable[[Cell], dict], progress, ticket: str) -> None:
    """Submit all cells, and some of them again, until each has ended."""
    from distributed import as_completed

    def unpack(packed: bytes) -> dict:  # has no name outside, so Dask sends its code along
        import pickle

        function, cell = pickle.loads(packed)
        return function(cell)

    def submit(some: list[Cell], attempt: int) -> list:
        # As bytes: the scheduler looks into what it hands on, and would have to import torch.
        packed = [pickle.dumps((work, cell)) for cell in some]
        keys = [(f"cell-{ticket}", cell.key, attempt) for cell in some]
        return client.map(unpack, packed, key=keys, pure=False, retries=3, priority=-attempt)

    futures = submit(cells, 0)
    owner = dict(zip(futures, ((cell, 0) for cell in cells), strict=True))
    queue = as_completed(futures, loop=client.loop)
    while owner:
        _wait(client, queue, progress.say)
        future = next(queue)
        cell, attempt = owner.pop(future)
        if progress.note(cell, _outcome(future)):
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

"""The one way to run many independent runs: several processes, each run a file, what has its file is not run again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

one_thread = functools.partial(torch.set_num_threads, 1)


def run_missing(
    work: Callable, cells: Iterable, path_of: Callable, workers: int = 1, report: Callable = print,
) -> None:
    """Call `work(cell)` for each cell whose file is not there yet; it can be stopped at any moment and started again.

    Args:
        work: writes the cell's file, whole or not at all. It goes to another process, so it has to be
            a function of a module (or `functools.partial` of one).
        path_of: where a cell's file lies.
        workers: processes that run at once, each on one thread of the mathematics library.
        report: takes a line for each cell that has ended.
    Raises:
        ValueError: if `workers` is below 1.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}: at least one has to run")
    missing = [cell for cell in cells if not Path(path_of(cell)).is_file()]
    for cell in missing:
        Path(path_of(cell)).parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers, initializer=one_thread) as pool:
        running = {pool.submit(work, cell): cell for cell in missing}
        for n, future in enumerate(as_completed(running), 1):
            future.result()
            report(f"{n} of {len(missing)}: {Path(path_of(running[future])).stem}")

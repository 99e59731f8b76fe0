"""Two at a time: independent parts of a measurement on two cores, each with the digits that it has alone.

Each part runs on one thread of the mathematics library, so that its sums come in one order; PyTorch and
NumPy let go of the interpreter inside their kernels, so two parts run at once. These are threads, and not processes of the
runner (`training.cluster`), because the language model's records may take 2 GiB, which hold one copy of its weights and not two.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

from bayeswind_lib.training.performance import threads

WORKERS = 2


class Cost:
    """Processor seconds of this process, and how many of them were shared among the workers.

    Attributes:
        shared: spent inside `each` so far, by any of its callers.
    """

    shared = 0.0

    def __init__(self):
        self._begun = time.perf_counter(), time.process_time(), Cost.shared

    def so_far(self) -> dict[str, float]:
        """Since this object was made: seconds by the clock, processor seconds, those shared, and what they need on as many free cores as workers."""
        clock, busy, shared = (now - then for now, then in zip((time.perf_counter(), time.process_time(), Cost.shared), self._begun, strict=True))
        free = busy - shared + shared / WORKERS
        found = {"seconds": clock, "processor_seconds": busy, "shared_seconds": shared, "two_core_seconds": free}
        return {name: round(value, 1) for name, value in found.items()}


def give_back() -> None:
    """Hand freed memory back to the system, where the C library can: else it stays counted as this process's."""
    gc.collect()
    _tell_the_c_library("malloc_trim", 0)


def one_heap() -> None:
    """Let threads that start from now on share one heap, where the C library can: else each keeps what it freed."""
    _tell_the_c_library("mallopt", -8, 1)  # M_ARENA_MAX


def _tell_the_c_library(function: str, *values: int) -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):
        getattr(ctypes.CDLL(None), function)(*values)


def each(function: Callable, items: Iterable) -> list:
    """What a function gives for each item, in their order, `WORKERS` of them at a time.

    The function must change nothing that another item's call reads. Not to be nested: the seconds would
    be counted twice.
    """
    start = time.process_time()
    with threads(1), ThreadPoolExecutor(WORKERS, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        found = list(pool.map(function, items))
    Cost.shared += time.process_time() - start
    return found

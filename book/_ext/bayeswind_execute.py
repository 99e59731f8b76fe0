"""Runs the pages of a build side by side.

MyST-NB executes a page when Sphinx reads it, one after the other. Here all pages that are to be
read and are not in the execution cache run first, as many at once as there are processors, and go
into that cache, where MyST-NB finds them. Their kernels are forked from one process with the
imports done (`bayeswind_kernels`) where that is possible. A page that fails is not stored: MyST-NB
runs it once more, in an ordinary kernel, and reports what is wrong as it always does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager
from pathlib import Path

from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from jupyter_client import AsyncKernelManager
from myst_nb.core.read import create_nb_reader
from sphinx.util import logging

from bayeswind_kernels import IMPORTS, Nursery

LOG = logging.getLogger(__name__)
STARTUP = 300  # seconds until a kernel answers: more than nbclient's 60 on a busy machine
# Seconds that a kernel may take to leave by itself: jupyter_client's 2.5 are few on a busy machine.
LEAVES = 20.0
# One thread a kernel: two kernels of two threads each are slower on two processors.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread_each() -> Iterator[None]:
    """What starts inside computes with one thread, unless the machine has settings of its own."""
    added = {name: "1" for name in THREADS if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def waiting(env, names: list[str], cache) -> dict[Path, tuple]:
    """Notebooks among these pages that have to be executed: {path: (notebook, its format)}."""
    found = {}
    for name in names:
        path = Path(env.doc2path(name))
        text = path.read_text("utf-8")
        reader = create_nb_reader(str(path), env.myst_config, env.mystnb_config, text)
        if reader is None:
            continue
        notebook = reader.read(text)
        if env.mystnb_config.metadata_key in notebook.metadata:
            continue  # it has settings of its own, which MyST-NB knows how to follow
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            found[path] = (notebook, reader.read_fmt)
    return found


def store(cache, path: Path, done, read_fmt: dict | None) -> None:
    """Put an executed notebook into the cache, as MyST-NB would."""
    staged = cache.add_nb_to_project(str(path), **({"read_data": read_fmt} if read_fmt else {}))
    bundle = CacheBundleIn(done.nb, staged.uri, data={"execution_seconds": done.time})
    cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)


class Kernels:
    """Where the kernels of a build come from, and how they end if it is interrupted."""

    def __init__(self):
        self.nursery = Nursery(IMPORTS) if Nursery.possible else None
        self.started = {}

    def manager(self, page: Path) -> type[AsyncKernelManager]:
        """What starts a page's kernel: forked, if it is of the kind that can be."""
        kernels, nursery = self, self.nursery

        class Manager(AsyncKernelManager):
            shutdown_wait_time = 2.0 * LEAVES  # it is terminated after half of it

            async def _async_launch_kernel(self, kernel_cmd: list[str], **settings) -> None:
                at = self.provisioner
                if nursery and nursery.knows(kernel_cmd):
                    folder, environment = settings.get("cwd"), settings["env"]
                    at.process = nursery.kernel(kernel_cmd, folder, environment)
                    at.pid = at.pgid = at.process.pid
                    self._reconcile_connection_info(at.connection_info)
                else:
                    await super()._async_launch_kernel(kernel_cmd, **settings)
                kernels.started[page] = at.process

        return Manager

    def seconds(self, page: Path) -> str:
        """The processor time that a page took, in words; nothing where it was not measured."""
        used = getattr(self.started.get(page), "processor_seconds", None)
        return "" if used is None else f", {used:.1f} s of a processor"

    def close(self) -> None:
        """End what still runs: nothing, unless the build is interrupted."""
        for process in self.started.values():
            process.kill()
        if self.nursery:
            self.nursery.close()


def execute_side_by_side(app, env, names: list[str]) -> None:
    """Execute all pages that wait for it, if there are several."""
    settings = env.mystnb_config
    if settings.execution_mode != "cache":
        return
    cache = get_cache(settings.execution_cache_path or ".jupyter_cache")
    pages = waiting(env, names, cache)
    if len(pages) < 2:
        return
    workers, allow_errors = min(processors(), len(pages)), settings.execution_allow_errors
    # Longest first: a long page at the end would run alone.
    ordered = sorted(pages, key=lambda path: -path.stat().st_size)
    LOG.info(f"executing {len(pages)} pages, {workers} at once")
    with one_thread_each(), ThreadPoolExecutor(workers) as pool, closing(Kernels()) as kernels:
        running = {
            pool.submit(
                single_nb_execution, pages[path][0], cwd=str(path.parent),
                allow_errors=allow_errors, timeout=settings.execution_timeout,
                kernel_manager_class=kernels.manager(path), startup_timeout=STARTUP,
            ): path
            for path in ordered
        }
        try:
            for future in as_completed(running):
                path, done = running[future], future.result()
                name, ended = path.relative_to(app.srcdir).as_posix(), "failed"
                if done.err is None:
                    store(cache, path, done, pages[path][1])
                    ended = "executed"
                LOG.info(f"{name}: {ended} in {done.time:.0f} s{kernels.seconds(path)}")
        except BaseException:  # Ctrl-C: what waits is not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def setup(app):
    """Connect the above."""
    app.connect("env-before-read-docs", execute_side_by_side)
    return {"version": "1", "parallel_read_safe": True}

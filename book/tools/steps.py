"""The steps that more than one command takes, and the commands that are made of steps.

Each runs in .venv (see `__main__.py`) and returns an exit code: 0 when all is well. Words that a
reader gave after the command's name are handed to the last step.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

from . import ROOT, install, lock

ACTIVATE = r".venv\Scripts\activate" if os.name == "nt" else ". .venv/bin/activate"
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
# The words for Python that build the pages; a warning is an error.
BUILD = [
    "-c", "from jupyter_book.cli.main import main; main()",
    "build", ".", "-W", "-n", "--keep-going",
]  # fmt: skip


def run(*words: object, **environ: str) -> int:
    """Run a command in the repository's root; its exit code.

    What Python compiles is kept: without that, hundreds of processes compile PyTorch anew.
    """
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environ}
    return subprocess.call(list(map(str, words)), cwd=ROOT, env=environ)


def python(*words: object, **environ: str) -> int:
    """Run this Python; its exit code."""
    return run(sys.executable, *words, **environ)


def timed(what: str) -> Callable:
    """Say at the end of a step that went well how many seconds it took."""

    def decorate(step: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(step)
        def wrapped(words: Sequence[str] = ()) -> int:
            start = time.perf_counter()
            code = step(words)
            if not code:
                print(f"{what}: {time.perf_counter() - start:.0f} s", flush=True)
            return code

        return wrapped

    return decorate


@timed("book built")
def html(words: Sequence[str] = ()) -> int:
    """Build the pages; a warning is an error."""
    return python(*BUILD, *words)


def notebooks(words: Sequence[str] = ()) -> int:
    """Write the notebooks, with the numbers of the build."""
    from . import build_notebooks

    if "--check" not in words and (code := html()):
        return code
    return build_notebooks.main(list(words))


def book(words: Sequence[str] = ()) -> int:
    """Build the pages and the notebooks, and say where to open the book."""
    code = notebooks(words)
    if not code:
        print(
            "open _build/html/index.html in a browser, or run: make serve\n"
            f"commands such as `python -m bayeswind_lib` are in .venv: first `{ACTIVATE}`"
        )
    return code


def lab(words: Sequence[str] = ()) -> int:
    """Open JupyterLab on the notebooks; its packages are installed on first use."""
    if find_spec("jupyterlab") is None:
        install.add(lock.LAB, "JupyterLab")
    return python("-m", "jupyterlab", "--notebook-dir", ROOT / "chapters", *words)


def browser(words: Sequence[str] = ()) -> int:
    """Find a Chromium or get one."""
    from . import browser

    return browser.main(words)


def model(words: Sequence[str] = ()) -> int:
    """Get the language model."""
    from . import model

    return model.main(words)


def lint(words: Sequence[str] = ()) -> int:
    """Style and spelling."""
    return python("-m", "ruff", "check", ".") or python("-m", "codespell_lib")


def workers() -> str:
    """How many tests run side by side: as many as this process may use processors, or WORKERS."""
    may = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    return os.environ.get("WORKERS") or str(len(may(0)))


def pytest(words: Sequence[str], marks: str = "") -> int:
    """Run the tests that carry these marks; _build/tests.xml says what each of them cost."""
    spread = ("-n", workers(), "--dist", "loadfile", "--no-loadscope-reorder")
    chosen = ("-m", marks) if marks else ()
    report = ("--junitxml", ROOT / "_build" / "tests.xml")
    return python("-m", "pytest", "tests", *spread, *chosen, *report, *words, **ONE_THREAD)


def told(parts: dict[str, Callable[[], int]]) -> int:
    """Take all parts whatever the others say, name those that failed, and say how long it took."""
    start = time.perf_counter()
    failed = [what for what, part in parts.items() if part()]
    print(f"tests: {time.perf_counter() - start:.0f} s", *failed, sep="\n", flush=True)
    return int(bool(failed))


def check(words: Sequence[str] = ()) -> int:
    """Lint, and the quick tests of the library: no chapter, no page, no browser."""
    marks = "not book and not slow and not weekly"
    return told({"make lint failed": lint, "tests failed": lambda: pytest(words, marks)})


def test(words: Sequence[str] = (), marks: str = "not weekly") -> int:
    """Build the book, then run every check that is not weekly."""
    with ThreadPoolExecutor(1) as beside:  # the model waits for the network
        fetched, linted = beside.submit(model), beside.submit(lint)
        if code := html() or browser() or fetched.result():
            return code
    return told({
        "make lint failed": linted.result,
        "the notebooks are out of step": lambda: notebooks(["--check"]),
        "tests failed": lambda: pytest(words, marks),
    })  # fmt: skip


def test_all(words: Sequence[str] = ()) -> int:
    """Build the book, then run every check."""
    return test(words, marks="")


def pdf(words: Sequence[str] = ()) -> int:
    """Print the whole book into one file."""
    if code := html() or browser():
        return code
    from . import pdf

    return pdf.main(list(words))


def weights(words: Sequence[str] = ()) -> int:
    """Weigh every page."""
    if code := html() or browser():
        return code
    from . import weights

    return weights.main()


def bench(words: Sequence[str] = ()) -> int:
    """Measure what the pages say about speed."""
    if code := browser() or python("-m", "bayeswind_lib", "bench", "--store"):
        return code
    from . import measure_engine

    return measure_engine.main()


def serve(words: Sequence[str] = ()) -> int:
    """Serve the built book on this machine."""
    port = os.environ.get("PORT", "8000")
    site = ROOT / "_build" / "html"
    return python("-m", "http.server", port, "--bind", "127.0.0.1", "--directory", site)


@timed("records")
def records(words: Sequence[str] = ()) -> int:
    """Compute the records anew."""
    return python("-m", "bayeswind_lib", "records", *words)


@timed("records of the language model")
def records_lm(words: Sequence[str] = ()) -> int:
    """Measure the language model again."""
    return model() or python("-m", "bayeswind_lib", "records", "language_geometry", "language_sula")


def clean(words: Sequence[str] = ()) -> int:
    """Remove what was built."""
    for name in ("_build", ".pytest_cache", ".ruff_cache"):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    return 0

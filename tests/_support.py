"""What all checks share: where things lie, whether this is CI, and running commands."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
CHAPTERS = ROOT / "chapters"
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
HANGS = 1200  # seconds; no budget: what takes so long will never end, however busy the machine is
STUCK = 240  # the same for one step of a browser: a name that a page no longer has is told within minutes


def in_ci(environ: dict | None = None) -> bool:
    """Whether a check that cannot run has to fail instead of being skipped."""
    value = (os.environ if environ is None else environ).get("CI", "")
    return value.lower() not in ("", "0", "false", "no")


def site_folder() -> Path:
    """The built book; a clear error if there is none yet."""
    if not (SITE / "searchindex.js").is_file():
        raise FileNotFoundError(f"{SITE} holds no built book: run `make book` first")
    return SITE


def pages(folder: Path) -> list[Path]:
    """All pages of a built book, sorted, without the theme's own files."""
    found = {path: path.relative_to(folder) for path in folder.rglob("*.html")}
    return sorted(path for path, inside in found.items() if inside.parts[0][0] not in "_.")


def notebooks() -> list[Path]:
    """The generated notebooks, one a chapter."""
    return sorted(CHAPTERS.glob("*.ipynb"))


def single_threaded(**changes: str | None) -> dict[str, str]:
    """This environment with one thread for each mathematics library; None removes a name."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    full = {**os.environ, **dict.fromkeys(names, "1"), "PYTHONUNBUFFERED": "1", **changes}
    # A nested pytest must not take itself for a worker of this one.
    kept = {k: v for k, v in full.items() if not k.startswith("PYTEST_") or k in changes}
    return {k: v for k, v in kept.items() if v is not None}


@dataclass(frozen=True)
class Finished:
    """A command that has ended: exit code, everything it printed, and wall-clock seconds."""

    code: int
    output: str
    seconds: float

    def tail(self, characters: int = 6000) -> str:
        """The end of the output, where the reason of a failure stands."""
        return self.output[-characters:]


def run(
    command: list, cwd: Path = ROOT, env: dict | None = None, timeout: float = HANGS
) -> Finished:
    """Run a command to its end, stdout and stderr together; never raises on a failure."""
    start = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=single_threaded() if env is None else env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        text=True,
        errors="replace",
    )
    return Finished(done.returncode, done.stdout, time.perf_counter() - start)


def run_python(*words, **settings) -> Finished:
    """Run this interpreter with the given arguments."""
    return run([sys.executable, *words], **settings)


def children_seconds() -> float:
    """Processor time of the processes that this one has started and seen end.

    Unlike the clock on the wall it does not grow when the machine has other work.
    """
    times = os.times()
    return times.children_user + times.children_system


def rng(seed: int = 0) -> torch.Generator:
    """A generator of random numbers on the CPU."""
    return torch.Generator().manual_seed(seed)

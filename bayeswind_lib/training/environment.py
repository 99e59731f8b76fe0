"""Where and from what a run was made: commit, machine, versions."""

from __future__ import annotations

import functools
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch


def describe_environment(device: torch.device) -> dict:
    """Commit, device, threads and versions, as JSON types."""
    return {
        "commit": commit(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


@functools.lru_cache(maxsize=1)
def commit() -> str | None:
    """The checkout's commit, with "-dirty" if library files differ from it; None outside the library's own checkout.

    Asked once in a process: a queue runs for days with the code that it began with.
    """
    here = Path(__file__).resolve().parents[2]
    try:
        if Path(_git(here, "rev-parse", "--show-toplevel")) != here:  # a repository around an installed package
            return None
        head = _git(here, "rev-parse", "HEAD")
        changed = _git(here, "status", "--porcelain", "--", "bayeswind_lib/**/*.py", "bayeswind_lib/*.py")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("-dirty" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def device_name(device: torch.device) -> str:
    """The processor's own name, for example "cpu (AMD EPYC)"."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    return f"{device.type} ({processor()})"


def processor() -> str:
    """Its name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

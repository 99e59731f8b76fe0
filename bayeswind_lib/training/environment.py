"""Where and from what a run was made: commit, machine, versions."""

from __future__ import annotations

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


def best_precision(device: torch.device | str) -> str:
    """The recipe's `precision` that is fast on a device: "bfloat16" where the hardware has it.

    Else "tf32" on a GPU that has that, and "float32" on everything older (a T4, most laptops).
    """
    device = torch.device(device)
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bfloat16"
        return "tf32" if torch.cuda.get_device_capability(device)[0] >= 8 else "float32"
    if device.type == "cpu" and _multiplies_bfloat16():
        return "bfloat16"
    return "float32"


def _multiplies_bfloat16() -> bool:
    """Whether this processor multiplies matrices faster in bfloat16 than in float32.

    Tile instructions (AMX) do, and so do AMD's AVX-512. Intel's AVX-512 alone has the instruction too, but at
    half the rate: 83 against 150 Gflop/s on one core (4992 x 192 x 768, oneDNN 3.12).
    """
    if not (torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()):
        return False
    tiles = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)  # PyTorch 2.4 cannot tell
    return tiles() or "Intel" not in _processor()


def commit() -> str | None:
    """The checkout's commit, with "-dirty" if library files differ from it; None outside a checkout."""
    here = Path(__file__).resolve().parents[2]
    try:
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
    return f"{device.type} ({_processor()})"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

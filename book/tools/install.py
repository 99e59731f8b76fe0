"""Set up .venv with exactly what requirements.txt names; a no-op while nothing changed.

Only the standard library: this runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from . import ROOT

VENV = ROOT / ".venv"
STAMP = VENV / "installed.sha256"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def key() -> str:
    """What the environment depends on: both requirement files and the Python version."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {ROOT}".encode())
    for name in ("requirements.txt", "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def run(*command: object) -> None:
    """Run a command; end with its exit code if it fails."""
    code = subprocess.call([str(word) for word in command], cwd=ROOT)
    if code:
        sys.exit(code)


def make_venv() -> None:
    """Create .venv, or say what the machine lacks."""
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit("This Python has no ensurepip; on Debian or Ubuntu: apt-get install python3-venv")
    run(sys.executable, "-m", "venv", VENV)


def main(words: Sequence[str] = ()) -> int:
    """Install if the stamp does not match."""
    if sys.version_info < (3, 11):
        sys.exit(f"Python {sys.version.split()[0]} is too old: the book needs 3.11 or newer")
    if STAMP.is_file() and STAMP.read_text() == key():
        return 0
    start = time.perf_counter()
    if not PYTHON.exists():
        make_venv()
    print("installing the packages of requirements.txt into .venv (once; a few minutes)")
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "-r", "requirements.txt")  # fmt: skip
    STAMP.write_text(key())
    print(f"installed in {time.perf_counter() - start:.0f} s")
    return 0

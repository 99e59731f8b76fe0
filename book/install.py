"""Set up .venv with exactly what requirements.txt names; a no-op while nothing changed.

Only the standard library: this runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
STAMP = VENV / "installed.sha256"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")


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


def main() -> None:
    """Install if the stamp does not match."""
    if sys.version_info < (3, 11):
        sys.exit(f"Python {sys.version.split()[0]} is too old: the book needs 3.11 or newer")
    if STAMP.is_file() and STAMP.read_text() == key():
        return
    start = time.perf_counter()
    if not (BIN / "python").exists() and not (BIN / "python.exe").exists():
        make_venv()
    print("installing the packages of requirements.txt into .venv (once; a few minutes)")
    run(BIN / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "-r", "requirements.txt")  # fmt: skip
    STAMP.write_text(key())
    print(f"installed in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

"""Set up .venv: the packages of locked.txt, PyTorch, this library. A no-op while nothing changed.

uv does it: one on the PATH, or one that pip brings into .venv. `BAYESWIND_INSTALLER=pip` does
without. Both take every version from the same list, and compare every file with its hashes. PyTorch
is no part of the list, because its builds differ: the CPU build where no NVIDIA GPU is found, one
for the GPU's driver where there is one, the default build where only that can be had. A folder of
wheels (`UV_FIND_LINKS`, `PIP_FIND_LINKS`) is asked first; `UV_TORCH_BACKEND` overrules all of this.

Only the standard library: this runs before anything is installed. Stopped at any moment, the same
command goes on.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import ROOT, lock

VENV = ROOT / ".venv"
STAMP = VENV / "installed.sha256"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
OLDEST_UV = (0, 8)  # the first that chooses PyTorch's build in `uv pip`
UV = "uv==0.13.9"  # what pip brings in where there is none
BEAT = 10  # seconds between signs of life, where the output is no terminal
PROBE = 20  # seconds to find out whether a build of PyTorch can be had
NO_CPU_BUILD = """\
note: the CPU build of PyTorch cannot be had from here. The default build does the same, but \
brings NVIDIA's libraries: about 2.4 GB more to download, 4 GB more on the disk. To avoid it, \
name a folder that holds the CPU wheel in UV_FIND_LINKS."""


def python_version() -> str:
    """The version of Python in .venv; empty if there is none that works."""
    words = [str(PYTHON), "-c", "import platform; print(platform.python_version())"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def key() -> str:
    """What the environment depends on: the list, the library's own needs, where it stands."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in (lock.FILE, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def environment() -> dict[str, str]:
    """The environment of uv and pip: the system's certificates, one folder of wheels for both."""
    environ = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true", **os.environ}
    links = environ.get("UV_FIND_LINKS") or environ.get("PIP_FIND_LINKS")
    if links:
        environ |= {"UV_FIND_LINKS": links, "PIP_FIND_LINKS": links}
    return environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(what: str, *command: object) -> None:
    """Run a command, saying what it does and that it goes on; ends with its code if it fails."""
    print(what, flush=True)
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, env=environment())
    try:
        while process.poll() is None:
            try:
                process.wait(BEAT)
            except subprocess.TimeoutExpired:
                if not sys.stderr.isatty():
                    print(f"  still at it: {time.monotonic() - start:.0f} s", flush=True)
    except KeyboardInterrupt:
        process.wait()
        sys.exit("stopped; the same command goes on from here")
    if process.returncode:
        print("not installed; the same command goes on from here", file=sys.stderr)
        sys.exit(process.returncode)


def answers(*command: object, **environ: str) -> bool:
    """Whether a question to uv or pip gets a yes in good time; nothing is printed."""
    try:
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, env=environment() | environ,
            capture_output=True, timeout=PROBE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def uv_version(words: Sequence[object]) -> tuple[int, ...]:
    """The version of a uv; (0,) if it does not run."""
    try:
        done = subprocess.run([*map(str, words), "--version"], capture_output=True, text=True)
    except OSError:
        return (0,)
    found = re.search(r"uv (\d+)\.(\d+)", done.stdout) if done.returncode == 0 else None
    return tuple(map(int, found.groups())) if found else (0,)


def find_uv() -> list[str] | None:
    """The words that start uv: one on the PATH, or the one in .venv; None if there is neither."""
    for words in ([shutil.which("uv") or ""], [str(PYTHON), "-m", "uv"]):
        if words[0] and uv_version(words) >= OLDEST_UV:
            return words
    return None


def make_venv(uv: list[str] | None) -> None:
    """Create .venv, or say what the machine lacks."""
    what = f"making .venv with Python {sys.version.split()[0]}"
    if uv:
        run(what, *uv, "venv", "--quiet", "--clear", "--python", sys.executable, VENV)
        return
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        sys.exit("This Python has no ensurepip; on Debian or Ubuntu: apt-get install python3-venv")
    run(what, sys.executable, "-m", "venv", "--clear", VENV)


def has_gpu() -> bool:
    """Whether NVIDIA's driver finds a GPU."""
    return answers("nvidia-smi", "-L")


def installer(uv: list[str] | None) -> list[object]:
    """The words that install into .venv, with uv or with pip."""
    if uv:
        return [*uv, "pip", "install", "--python", PYTHON]
    return [PYTHON, "-m", "pip", "install"]


def torch_words(uv: list[str] | None) -> list[str]:
    """Which PyTorch, in words for uv or pip."""
    pin = next(line for line in lock.direct() if line.startswith("torch=="))
    if sys.platform == "darwin" or (uv and "UV_TORCH_BACKEND" in os.environ):
        return [pin]
    ask = [*installer(uv), "--dry-run", "--no-deps"]
    gpu = has_gpu()
    if not gpu and "UV_FIND_LINKS" in environment() and answers(*ask, "--no-index", f"{pin}+cpu"):
        return [f"{pin}+cpu"]
    if uv and answers(*ask, "--torch-backend", "auto", pin, UV_HTTP_RETRIES="0"):
        return ["--torch-backend", "auto", pin]
    if sys.platform == "linux" and not gpu:
        print(NO_CPU_BUILD, flush=True)
    return [pin]


def with_uv(uv: list[str]) -> None:
    """Install everything in one go."""
    words = ["-r", lock.FILE, *torch_words(uv), "-e", "."]
    run(f"getting {len(lock.entries())} packages and PyTorch with uv", *installer(uv), *words)


def with_pip() -> None:
    """The same with pip: the list, PyTorch, the library."""
    pip, torch = [*installer(None), "--no-compile"], torch_words(None)
    run(f"1 of 3: getting {len(lock.entries())} packages with pip (minutes)",
        *pip, "--no-deps", "--require-hashes", "-r", lock.FILE)  # fmt: skip
    run("2 of 3: getting PyTorch (minutes)", *pip, *torch)
    run("3 of 3: the book's library", *pip, "--no-deps", "-e", ".")


def add(file: Path, what: str) -> None:
    """Install the packages of one more list into .venv."""
    uv = None if os.environ.get("BAYESWIND_INSTALLER") == "pip" else find_uv()
    hashed = ["--no-deps", "--require-hashes", "-r", file]
    run(f"getting {what}: {len(lock.entries(file))} packages", *installer(uv), *hashed)


def main(words: Sequence[str] = ()) -> int:
    """Install if the stamp does not match."""
    if sys.version_info < (3, 11):
        sys.exit(f"Python {sys.version.split()[0]} is too old: the book needs 3.11 or newer")
    if (sys.platform, platform.machine()) == ("darwin", "x86_64"):
        sys.exit("PyTorch has no builds for Macs with an Intel processor any more: use Colab")
    if STAMP.is_file() and STAMP.read_text() == key() and PYTHON.exists():
        return 0
    if wrong := lock.problems():
        sys.exit("\n".join([*wrong, "run `python book/tools lock` and commit what it writes"]))
    start = time.perf_counter()
    print("setting up .venv (once): about 0.5 GB to download, 1.6 GB on the disk", flush=True)
    plain = os.environ.get("BAYESWIND_INSTALLER") == "pip"
    uv = None if plain else find_uv()
    if not python_version():
        make_venv(uv)
    if not uv and not plain:
        run(f"getting {UV}, which installs the rest", PYTHON, "-m", "pip", "install", "-q", UV)
        uv = find_uv()
    if uv:
        with_uv(uv)
    else:
        with_pip()
    STAMP.write_text(key())
    print(f"installed in {time.perf_counter() - start:.0f} s", flush=True)
    return 0

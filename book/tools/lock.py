"""The lists of all packages with their hashes: `python book/tools lock` writes them.

locked.txt holds what requirements.txt names and all that those packages ask for, on every platform
and every Python that the library takes; locked-lab.txt what JupyterLab needs beside that. Versions
that still fit stay; `python book/tools lock --upgrade` takes the newest. PyTorch is left out, and
the CUDA packages that its default build brings (see install.py). No address of an index is kept.

Only the standard library: install.py reads the lists before anything is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from . import ROOT

FILE = Path(__file__).with_name("locked.txt")
LAB = Path(__file__).with_name("locked-lab.txt")
OLDEST = "3.11"
HASH = "--hash=sha256:"
LEFT_OUT = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")
HEAD = "# Made by `python book/tools lock` from {source}: all platforms, with hashes.\n"


def direct() -> list[str]:
    """The choices of requirements.txt, one requirement each, without comments and this library."""
    lines = (re.split(r"\s+#|^#", line)[0].strip() for line in
             (ROOT / "requirements.txt").read_text("utf-8").splitlines())  # fmt: skip
    return [line for line in lines if line and not line.startswith("-")]


def lab() -> list[str]:
    """What `make lab` installs, as pyproject.toml names it."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return groups["lab"]


def blocks(text: str) -> dict[str, str]:
    """The entries of a list: "name==version" -> its lines."""
    parts = re.split(r"^(?=[\w.-]+==)", text, flags=re.M)
    found = {}
    for part in parts:
        if match := re.match(r"[\w.-]+==[^\s;\\]+", part):
            found[match[0]] = part.rstrip() + "\n"
    return found


def entries(file: Path | None = None) -> dict[str, str]:
    """The entries of a list that was written (default: the book's)."""
    file = file or FILE
    return blocks(file.read_text("utf-8")) if file.is_file() else {}


def problems() -> list[str]:
    """What is wrong with the list, in words."""
    held = entries()
    if not held:
        return [f"{FILE.relative_to(ROOT)} is missing"]
    pins = (re.match(r"[\w.-]+==[^\s;]+", line)[0].lower() for line in direct())
    missing = [p for p in pins if p not in held and not LEFT_OUT.match(p)]
    where = FILE.relative_to(ROOT)
    found = [f"requirements.txt names {pin}, {where} does not" for pin in missing]
    found += [f"{where}: {name} has no hash" for name, text in held.items() if HASH not in text]
    return found


def resolved(uv: list[str], wanted: list[str], kept: Path, words: Sequence[str]) -> dict[str, str]:
    """Every package that requirements lead to, as entries; versions in `kept` are preferred."""
    from .install import environment

    environ = {k: v for k, v in environment().items() if not k.endswith("_FIND_LINKS")}
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "requirements.in", Path(folder) / "locked.txt"
        source.write_text("\n".join(wanted) + "\n")
        if kept.is_file():
            out.write_text(kept.read_text("utf-8"))
        command = [*uv, "pip", "compile", str(source), "-o", str(out), "--universal", "--quiet",
                   "--python-version", OLDEST, "--generate-hashes", "--no-header",
                   "--annotation-style", "line", *words]  # fmt: skip
        if code := subprocess.call(command, env=environ, stdout=subprocess.DEVNULL):
            sys.exit(code)
        text = out.read_text("utf-8").replace(f"-r {os.fspath(source)}", "requirements.txt")
    return blocks(text)


def write(file: Path, source: str, kept: dict[str, str]) -> None:
    """Write a list; at once, so that a reader finds the old one or the new one."""
    half = file.with_suffix(".part")
    half.write_text(HEAD.format(source=source) + "".join(kept.values()), "utf-8")
    half.replace(file)
    print(f"{file.relative_to(ROOT)}: {len(kept)} packages")


def main(words: Sequence[str] = ()) -> int:
    """Write both lists."""
    from .install import find_uv

    uv = find_uv()
    if uv is None:
        sys.exit("this needs uv: pip install uv")
    everything = resolved(uv, direct(), FILE, words)
    book = {name: text for name, text in everything.items() if not LEFT_OUT.match(name)}
    write(FILE, "requirements.txt", book)
    both = resolved(uv, [*direct(), *lab()], LAB, [*words, "--constraint", str(FILE)])
    more = {name: text for name, text in both.items() if name not in everything}
    write(LAB, "pyproject.toml (group lab)", more)
    return 0

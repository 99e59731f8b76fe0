"""Find the browsers of the tests, or get them: Chromium for all pages, Firefox for some.

`find()` is what the tests call. `python book/tools browser` also installs them where that is
possible; where it is not, it says what will be skipped, and with CI=true it fails instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "firefox": ("firefox-esr", "firefox"),
}
PACKAGES = {"chromium": "chromium", "firefox": "firefox-esr"}  # of Debian
TESTS = {
    "chromium": "tests/test_browser.py (requests that leave the site, console errors,\n"
    "accessibility, explorers) and all others that open a page",
    "firefox": "tests/test_firefox.py (the landing page, the playground, formulas)",
}


def find(name: str = "chromium") -> str | None:
    """Its path: $BAYESWIND_CHROMIUM or $BAYESWIND_FIREFOX, on the PATH, or playwright's own."""
    named = os.environ.get(f"BAYESWIND_{name.upper()}")
    if named:
        return named
    on_path = next((path for word in NAMES[name] if (path := shutil.which(word))), None)
    return on_path or (bundled() if name == "chromium" else None)


def bundled() -> str | None:
    """The Chromium that `playwright install chromium` downloaded, if any."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


def install(missing: Sequence[str]) -> None:
    """Try the system's packages (as root on Debian and Ubuntu), then playwright's download."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.call(["apt-get", "update", "-qq"], env=quiet)
        words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
        for name in missing:
            subprocess.call([*words, PACKAGES[name]], env=quiet)
    if find() is None:
        subprocess.call([sys.executable, "-m", "playwright", "install", "chromium"])


def main(words: Sequence[str] = ()) -> int:
    """Exit 0 if the browsers are there, or if an absence may be announced and skipped."""
    missing = [name for name in NAMES if find(name) is None]
    if missing:
        print(f"no {' and no '.join(missing)} found: trying to install")
        install(missing)
    fails = False
    for name in NAMES:
        path = find(name)
        if path:
            print(f"browser tests use {path}")
            continue
        fails = True
        print(
            f"No {name} could be installed. Skipped without it: {TESTS[name]}.\n"
            f"Install {name}, or name one in BAYESWIND_{name.upper()}.",
            file=sys.stderr,
        )
    return 1 if fails and os.environ.get("CI", "").lower() not in ("", "0", "false", "no") else 0

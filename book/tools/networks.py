"""Weights of shipped networks, written into the site for what runs a network in the page.

As a file and as a script: pages also open from a folder, where a browser fetches nothing.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

from . import ROOT

WEIGHTS = ROOT / "bayeswind_lib" / "checkpoints" / "weights"


def files_of(script: str) -> list[str]:
    """The weights that a script asks for: its `const FILE`, or each "file" in its `const FILES`."""
    several = re.search(r"const FILES = (\{.*?\n  \});", script, re.S)
    listed = re.findall(r'"file": "([\w/-]+)"', several[1]) if several else []
    return re.findall(r'const FILE = "([\w/-]+)"', script) + listed


def write(static: Path, file: str) -> list[Path]:
    """Write the weights `file` into a site's folder of static files, in both forms.

    Returns:
        networks/NAME.safetensors, which a page fetches, and networks/NAME.js, which a page that
        was opened from a folder loads instead.

    Raises:
        FileNotFoundError: if no such network ships.
    """
    folder, name = static / "networks", Path(file).name
    forms = {
        folder / f"{name}.safetensors": (WEIGHTS / f"{file}.safetensors").read_bytes(),
        folder / f"{name}.js": script_of(file).encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in forms.items():
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)
    return list(forms)


def script_of(file: str) -> str:
    """The script that brings the weights `file`, a safetensors file as base64.

    Raises:
        FileNotFoundError: if no such network ships.
    """
    content = (WEIGHTS / f"{file}.safetensors").read_bytes()
    code = base64.b64encode(content).decode()
    known = "window.bwNetworkFiles"
    return f"({known} = {known} || {{}})[{json.dumps(file)}] = {json.dumps(code)};\n"

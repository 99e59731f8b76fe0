"""Weights of shipped networks as scripts, for explorers that run a network in the page.

A script and no file to fetch: pages also open from a folder, where a browser fetches nothing.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

WEIGHTS = Path(__file__).resolve().parents[1] / "bayeswind_lib" / "checkpoints" / "weights"


def files_of(script: str) -> list[str]:
    """The weights that an explorer's script asks for: its `const FILE = "..."`."""
    return re.findall(r'const FILE = "([\w/-]+)"', script)


def script_of(file: str) -> str:
    """The script that brings the weights `file`, a safetensors file as base64.

    Raises:
        FileNotFoundError: if no such network ships.
    """
    content = (WEIGHTS / f"{file}.safetensors").read_bytes()
    code = base64.b64encode(content).decode()
    known = "window.bwNetworkFiles"
    return f"({known} = {known} || {{}})[{json.dumps(file)}] = {json.dumps(code)};\n"

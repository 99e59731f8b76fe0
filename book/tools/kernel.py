"""The matrix product of the network in the page: matmul.wat, compiled into matmul.js.

`make kernel` writes the script again after a change. It is kept in the repository, so that a build
needs no compiler; a test compares the two wherever wasmtime is installed.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Sequence

from . import ROOT

WEB = ROOT / "bayeswind_lib" / "widgets" / "web"
SOURCE, SCRIPT = WEB / "matmul.wat", WEB / "matmul.js"
HEAD = """\
// Made by book/tools/kernel.py from matmul.wat: a WebAssembly program of {bytes} bytes, as base64.
window.bwMatmul =
"""


def script() -> str:
    """What matmul.js has to hold.

    Raises:
        ModuleNotFoundError: without wasmtime, which compiles the text.
    """
    from wasmtime import wat2wasm

    program = bytes(wat2wasm(SOURCE.read_text("utf-8")))
    lines = textwrap.wrap(base64.b64encode(program).decode(), 92)
    return HEAD.format(bytes=len(program)) + " +\n".join(f'  "{line}"' for line in lines) + ";\n"


def main(words: Sequence[str] = ()) -> int:
    """Write the script."""
    SCRIPT.write_text(script(), "utf-8")
    print(SCRIPT)
    return 0

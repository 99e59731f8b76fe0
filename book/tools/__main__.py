"""What builds, prints, checks and publishes the book: `python book/tools COMMAND`.

make calls this, and where there is no make (Windows) people do: the commands have the same names.
Any Python from 3.11 on starts it, with nothing installed: a command that needs packages first sets
up .venv, and then goes on with the Python in there.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # started as a folder: look for modules beside the package, not inside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from tools import ROOT, install  # noqa: E402


@dataclass
class Command:
    """One command.

    Attributes:
        does: what `python book/tools` says of it.
        step: "module:function" beside this file; the function takes the words that follow the
            command's name, and returns an exit code.
        installed: whether it needs what is installed into .venv.
    """

    does: str
    step: str
    installed: bool = True


COMMANDS = {
    "book": Command("build the book and the notebooks, say where to open it", "steps:book"),
    "check": Command("lint and the library's quick tests (3 minutes)", "steps:check"),
    "test": Command("build the book, then run every check but the weekly ones", "steps:test"),
    "test-all": Command("build the book, then run every check", "steps:test_all"),
    "lab": Command("open JupyterLab on the notebooks (installed on first use)", "steps:lab"),
    "lint": Command("style and spelling", "steps:lint"),
    "install": Command("set up .venv (nothing happens while it is as it should be)",
                       "install:main", installed=False),
    "lock": Command("write the lists of all packages with hashes (--upgrade: the newest)",
                    "lock:main", installed=False),
    "serve": Command("serve the built book on PORT (8000)", "steps:serve"),
    "pdf": Command("print the whole book into one file (minutes)", "steps:pdf"),
    "html": Command("build the pages only", "steps:html"),
    "notebooks": Command("make chapters/*.ipynb; --check only compares", "steps:notebooks"),
    "records": Command("compute anew what the chapters quote but do not run (long)",
                       "steps:records"),
    "records-lm": Command("measure the language model again (at most 8 minutes on two cores, "
                          "2 GiB)", "steps:records_lm"),
    "bench": Command("measure samplers, training steps and networks in the page here",
                     "steps:bench"),
    "browser": Command("find a Chromium for the browser tests, or get one", "browser:main"),
    "model": Command("get the language model of two chapters (93 MB, once)", "model:main"),
    "picture": Command("draw README's and the landing page's picture", "picture:main"),
    "stored": Command("write what two explorers show of records into scripts", "stored:main"),
    "kernel": Command("compile the matrix product of the network in the page", "kernel:main"),
    "weights": Command("weigh every page of the built book", "steps:weights"),
    "address": Command("print the public address, or change it: address URL", "address:main"),
    "launch": Command("say what is left to do before the book is public (LAUNCH.md)",
                      "launch:main"),
    "colab-check": Command("run the notebooks as a reader on Colab does", "colab_check:main",
                           installed=False),
    "colab-report": Command("turn the report of colab-check into an issue and a badge",
                            "colab_report:main", installed=False),
    "colab-links": Command("say where the built book's Colab buttons lead", "colab_links:main"),
    "clean": Command("remove what was built (keeps .venv)", "steps:clean", installed=False),
}  # fmt: skip


def overview() -> str:
    """The list of all commands."""
    width = max(map(len, COMMANDS)) + 2
    return "\n".join(f"  {name:{width}}{command.does}" for name, command in COMMANDS.items())


def parsed(words: list[str]) -> tuple[str, list[str]]:
    """The command's name, and the words for it."""
    parser = argparse.ArgumentParser(
        prog="python book/tools", description=__doc__.partition("\n")[0],
        epilog=f"commands:\n{overview()}", usage="python book/tools COMMAND [...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of those below")
    if not words or words[0] in ("-h", "--help", "help"):
        parser.print_help()
        sys.exit(0)
    return parser.parse_args(words[:1]).command, words[1:]


def go_on_in_venv(words: list[str]) -> int:
    """Run the same command with the Python of .venv."""
    command = [str(install.PYTHON), str(ROOT / "book" / "tools"), *words]
    if os.name == "nt":
        return subprocess.call(command)
    sys.stdout.flush()
    return os.execv(command[0], command)


def main(words: list[str]) -> int:
    """Install what is missing, then take the command's step."""
    name, rest = parsed(words)
    command = COMMANDS[name]
    if command.installed:
        install.main()
        if Path(sys.prefix).resolve() != install.VENV.resolve():
            return go_on_in_venv(words)
    module, _, step = command.step.partition(":")
    return getattr(importlib.import_module(f"tools.{module}"), step)(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

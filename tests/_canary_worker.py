"""Runs a notebook's cells; at the first load of each network a copy of the process goes on with an untrained one.

`python _canary_worker.py NOTEBOOK WEIGHTS FOLDER` runs with the weights in WEIGHTS and leaves one
JSON file in FOLDER for the run itself ("whole.json") and one for each copy ("NAME-seedN.json", or
"snapshots+NAME-seedN.json" for a run with snapshots):
`error` (the name of the exception that ended it, or null), `text` (its end), `opened` (the networks' files
that were read; Python does not see snapshots being read). A copy shares all that was computed before it: a hundred spoilt
networks cost little more than one run. Nothing is drawn.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import nbformat
from _support_canaries import put_random_snapshots, put_random_twin, weights_in
from IPython.core.interactiveshell import InteractiveShell

import bayeswind_lib as bw

ME = "whole"  # of which run this process is


def run_cells(sources: list[str]) -> dict:
    """The cells in order, up to the first that fails."""
    opened: set[str] = set()

    def listen(event: str, args: tuple) -> None:
        if event == "open" and str(args[0]).endswith(".safetensors"):
            opened.add(os.path.basename(str(args[0])))

    sys.addaudithook(listen)
    shell = InteractiveShell.instance()
    for source in sources:
        result = shell.run_cell(source, silent=True)  # silent: the last expression is not shown
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            text = "".join(traceback.format_exception(error))[-3000:]
            return {"error": type(error).__name__, "text": text, "opened": sorted(opened)}
    return {"error": None, "text": "", "opened": sorted(opened)}


def branch_at(load: Callable, prefix: str, spoil: Callable, folder: Path) -> None:
    """From now on the first load of each network (or run) starts a copy of the process that gets a spoilt one."""
    seen, arguments = set(), inspect.signature(load)

    def branching(*words, **settings):
        given = arguments.bind(*words, **settings)
        given.apply_defaults()
        network = given.arguments["name"], given.arguments["seed"]
        if ME == "whole" and network not in seen:
            seen.add(network)
            child = os.fork()
            if child:
                os.waitpid(child, 0)
            else:
                go_on_spoilt(folder, prefix, spoil, *network)
        return load(*words, **settings)

    for module in list(sys.modules.values()):
        for name, thing in list(vars(module).items()):
            if thing is load and module.__name__.startswith("bayeswind_lib"):
                setattr(module, name, branching)


def go_on_spoilt(folder: Path, prefix: str, spoil: Callable, name: str, seed: int) -> None:
    """In a copy: from here on one network is untrained, all others are as they were."""
    global ME
    ME = f"{prefix}{name}-seed{seed}"
    weights = weights_in(folder / ME)
    spoil(weights, name, seed)
    os.environ["BAYESWIND_WEIGHTS"] = str(weights)


def main(notebook: str, weights: str, place: str) -> None:
    cells = nbformat.read(notebook, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    folder = Path(place).resolve()
    (folder / "alone").mkdir(parents=True)
    os.environ["BAYESWIND_WEIGHTS"] = weights
    os.chdir(folder / "alone")
    branch_at(bw.load, "", put_random_twin, folder)
    branch_at(bw.checkpoints.load_snapshots, "snapshots+", put_random_snapshots, folder)
    answer = run_cells(sources)
    (folder / f"{ME}.json").write_text(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # a copy ends here too, and must not clean up what is not its own


if __name__ == "__main__":
    main(*sys.argv[1:])

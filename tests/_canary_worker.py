"""Runs notebooks' cells; at the first load of each network a copy of the process goes on with an untrained one.

`python _canary_worker.py` reads jobs from its input, one JSON list a line, `[NOTEBOOK, WEIGHTS, FOLDER, PRESET, SPOIL]`. Each runs in a
copy of this process, which has everything imported, with the weights in WEIGHTS, and leaves one JSON file in FOLDER for the run
itself ("whole.json") and one for each further copy ("NAME-seedN.json", "snapshots+NAME-seedN.json" for a run with snapshots, and
"records.json" for a copy in which every network that is loaded is a good one with other scores in its record):
`error` (the name of the exception that ended it, or null), `text` (its end), `opened` (the networks' files
that were read; Python does not see snapshots being read), `cells` (how many ran), `seconds` (of its processor, its copies' apart)
and `glued` (by name, what it handed to the text). Without SPOIL there are no copies.
A copy shares all that was computed before it: a hundred spoilt networks cost little more than one run. What a cell shows is made in
the whole run only, and what that writes to stderr is kept in FOLDER/stderr.txt. A PRESET is put after the cell of parameters, as
papermill does. The answer to a job is one line: its exit code.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import nbformat
from _support_canaries import RECORDS, change_scores, put_random_snapshots, put_random_weights, weights_in
from _support_notebooks import tagged
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

import bayeswind_lib as bw

ME = "whole"  # of which run this process is


def run_cells(sources: list[str]) -> dict:
    """The cells in order, up to the first that fails."""
    opened: set[str] = set()
    shipped = {path.name for path in Path(os.environ["BAYESWIND_WEIGHTS"]).glob("*.safetensors")}

    def listen(event: str, args: tuple) -> None:  # networks that a chapter trains and saves itself are its own affair
        if event == "open" and os.path.basename(str(args[0])) in shipped:
            opened.add(os.path.basename(str(args[0])))

    sys.addaudithook(listen)
    shell, start = InteractiveShell.instance(), time.process_time()
    shell.display_pub = CapturingDisplayPublisher()

    def end(error: str | None, text: str, cells: int) -> dict:
        seconds = time.process_time() - start
        told = {"cells": cells, "seconds": seconds, "glued": glued(shell.display_pub.outputs)}
        return {"error": error, "text": text, "opened": sorted(opened), **told}

    for number, source in enumerate(sources):
        result = shell.run_cell(source, silent=ME != "whole")  # silent: the last expression is not shown
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            return end(type(error).__name__, "".join(traceback.format_exception(error))[-3000:], number)
    return end(None, "", len(sources))


def glued(outputs: list[dict]) -> dict[str, str]:
    """What cells handed to the text: names, and how the values are written down."""
    names = [output["metadata"].get("scrapbook", {}).get("name") for output in outputs]
    texts = [output["data"].get("application/papermill.record/text/plain") for output in outputs]
    return {name: text for name, text in zip(names, texts, strict=True) if name and text is not None}


def branch_at(load: Callable, prefix: str, spoil: Callable, folder: Path) -> None:
    """From now on the first load of each network (or run) starts a copy of the process that gets a spoilt one."""
    seen, arguments = set(), inspect.signature(load)

    def branching(*words, **settings):
        given = arguments.bind(*words, **settings)
        given.apply_defaults()
        network = given.arguments["name"], given.arguments["seed"]
        if ME == "whole" and not prefix and not seen and is_a_copy():
            go_on_elsewhere(RECORDS, folder)
        if ME == "whole" and network not in seen and is_a_copy():
            spoil(go_on_elsewhere(f"{prefix}{network[0]}-seed{network[1]}", folder), *network)
        if ME == RECORDS and not prefix and network not in seen:
            change_scores(folder / RECORDS, *network, 2.0)
        seen.add(network)
        return load(*words, **settings)

    for module in list(sys.modules.values()):
        for name, thing in list(vars(module).items()):
            if thing is load and module.__name__.startswith("bayeswind_lib"):
                setattr(module, name, branching)


def is_a_copy() -> bool:
    """Fork: True in the copy; False, when the copy has ended, in the process that goes on."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return not child


def go_on_elsewhere(name: str, folder: Path) -> Path:
    """In a copy: from here on weights come from a folder of its own, which is returned."""
    global ME
    ME = name
    write_to(Path(os.devnull), 2)
    weights = weights_in(folder / ME)
    os.environ["BAYESWIND_WEIGHTS"] = str(weights)
    return weights


def write_to(path: Path, stream: int) -> None:
    """From now on stdout (1) or stderr (2) goes to a file, whatever writes there: Python or a library below it."""
    (sys.stdout, sys.stderr)[stream - 1].flush()
    with path.open("w") as file:
        os.dup2(file.fileno(), stream)


def sources_of(notebook: str, preset: str) -> list[str]:
    """The code cells, and after the cell of parameters one more that sets the preset, if one is given."""
    found = nbformat.read(notebook, as_version=4)
    cells = [cell for cell in found.cells if cell.cell_type == "code" and cell.source.strip()]
    sources = [cell.source for cell in cells]
    if preset:
        (parameters,) = tagged(found, "parameters")
        sources.insert(cells.index(parameters) + 1, f"preset = {preset!r}")
    return sources


def run(notebook: str, weights: str, place: str, preset: str, spoil: bool) -> None:
    sources = sources_of(notebook, preset)
    folder = Path(place).resolve()
    (folder / "alone").mkdir(parents=True)
    write_to(folder / "stderr.txt", 2)
    os.environ["BAYESWIND_WEIGHTS"] = weights
    os.chdir(folder / "alone")
    if spoil:
        branch_at(bw.load, "", put_random_weights, folder)
        branch_at(bw.checkpoints.load_snapshots, "snapshots+", put_random_snapshots, folder)
    answer = run_cells(sources)
    (folder / f"{ME}.json").write_text(json.dumps(answer))


def main() -> None:
    """One job after the other, each in a copy of this process; what they print is not the answer."""
    answers = os.fdopen(os.dup(1), "w")
    write_to(Path(os.devnull), 1)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            code = 1
            try:
                run(*json.loads(line))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:  # a copy of a copy ends here too, and must not clean up what is not its own
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""Run the notebooks as a reader on Colab does, and write down how each of them ended.

    python3 book/tools colab-check report.json           all, from the tag that the buttons open
    python3 book/tools colab-check report.json --here    all, as they lie in this checkout
    python3 book/tools colab-check report.json a.ipynb   the named files

.github/workflows/colab.yml runs it every week inside Colab's own image; tests/test_colab.py runs
notebooks with `run`, below, in an environment that stands in for it. It needs what that image has
(nbclient, nbformat, PyYAML) and nothing of the book but the files beside it. Each notebook gets an
empty folder and a kernel of its own, and runs with the parameters that it is stored with.

The exit code is 0 once the report is written, whether notebooks passed or not: the report says.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from . import address, colab_links

TIMEOUT = 900  # seconds a cell; the longest takes well under a minute on Colab
TAIL = 40  # lines of an error that are kept
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Versions that a reader of a failure asks for first; the notebooks import no others.
ASKED = ("numpy", "torch", "matplotlib", "safetensors", "scikit-learn", "scipy", "tqdm",
         "ipykernel", "ipywidgets", "ipython", "pip")  # fmt: skip


@dataclass
class Outcome:
    """How a notebook ended.

    Attributes:
        name: the notebook.
        cells: how many cells of code it has.
        seconds: wall-clock time, the kernel's start included.
        failed: the number of the cell of code that failed (the first is 1); None if none did, or
            if there was no notebook to run.
        error: the end of the error's text.
    """

    name: str
    cells: int
    seconds: float
    failed: int | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether every cell ran."""
        return self.failed is None and not self.error


def kernel_command(python: str | Path = sys.executable) -> list[str]:
    """The words that start a kernel.

    Colab's image replaces IPython's kernel by one that waits for Colab's own page. The last two
    words ask for the plain one, also where there is nothing to replace.
    """
    words = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    plain = "--IPKernelApp.kernel_class=ipykernel.ipkernel.IPythonKernel"
    return [*words, plain, "--InteractiveShellApp.extensions=[]"]


def kernel_manager(command: Sequence[str], folder: Path) -> AsyncKernelManager:
    """What starts that kernel; `folder` is where its description is written."""
    place = folder / "colab"
    place.mkdir(parents=True)
    spec = {"argv": list(command), "display_name": "Colab", "language": "python"}
    (place / "kernel.json").write_text(json.dumps(spec))
    # Only this folder: one that a user or the system has under the same name is not asked.
    found = KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False)
    return AsyncKernelManager(kernel_name="colab", kernel_spec_manager=found)


def run(
    notebook: nbformat.NotebookNode,
    name: str,
    folder: Path,
    command: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a notebook from top to bottom, alone in an empty folder.

    Args:
        notebook: what is run; its outputs are filled in.
        name: what the outcome calls it.
        folder: a folder that is made, and holds nothing but what the notebook writes.
        command: what starts the kernel (default: this Python's).
        env: the kernel's whole environment (default: this process's).
    """
    alone = folder / "alone"
    alone.mkdir(parents=True)
    manager = kernel_manager(command or kernel_command(), folder / "kernels")
    where = {"metadata": {"path": str(alone)}}
    begun = []  # counted here: a kernel that dies at once may not tell that its cell began
    client = NotebookClient(
        notebook, km=manager, timeout=TIMEOUT, resources=where,
        on_cell_execute=lambda cell, cell_index: begun.append(cell_index),
    )
    client.owns_km = True  # or it would leave the kernel, which holds half a gigabyte, running
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    start, failed, error = time.perf_counter(), None, ""
    try:
        client.execute(env=dict(os.environ if env is None else env))
    except (CellExecutionError, CellTimeoutError, DeadKernelError, RuntimeError) as problem:
        failed, error = len(begun), tail(problem)
    return Outcome(name, len(code), round(time.perf_counter() - start, 1), failed, error)


def tail(problem: Exception, lines: int = TAIL) -> str:
    """The end of an error's text, where the reason stands, without a terminal's colours."""
    words = COLOURS.sub("", str(problem)).strip() or type(problem).__name__
    return "\n".join(words.splitlines()[-lines:])


def from_tag(root: Path = address.ROOT) -> dict[str, nbformat.NotebookNode | ValueError]:
    """What each chapter's button opens: a notebook, or what is wrong with it."""
    found: dict[str, nbformat.NotebookNode | ValueError] = {}
    for document in address.documents(root):
        name = document.rpartition("/")[2]
        try:
            found[name] = colab_links.notebook(address.colab(f"{document}.ipynb", root), root, root)
        except ValueError as problem:
            found[name] = problem
    return found


def from_files(paths: Sequence[Path]) -> dict[str, nbformat.NotebookNode | ValueError]:
    """Notebooks that lie in files."""
    return {path.stem: nbformat.read(path, as_version=4) for path in paths}


def surroundings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the notebooks ran in: image, system, Python, and the packages that they import."""
    found = {"python": platform.python_version(), "system": platform.platform(terse=True)}
    for package in ASKED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    return {"image": environ.get("COLAB_IMAGE", "none"), **found}


def check(notebooks: Mapping[str, nbformat.NotebookNode | ValueError]) -> list[Outcome]:
    """Run all of them, one after the other, and say on the way how each one ended."""
    outcomes = []
    for name, notebook in notebooks.items():
        if isinstance(notebook, ValueError):
            outcome = Outcome(name, 0, 0.0, None, str(notebook))
        else:
            with tempfile.TemporaryDirectory() as folder:
                outcome = run(notebook, name, Path(folder) / name)
        words = "passed" if outcome.passed else "FAILED"
        print(f"{words}  {outcome.seconds:6.1f} s  {name}", flush=True)
        outcomes.append(outcome)
    return outcomes


def report(outcomes: Sequence[Outcome], root: Path = address.ROOT) -> dict:
    """What the run found, as colab_report.py reads it."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return {
        "schema": 1,
        "finished": now.isoformat(),
        "tag": address.tag(root),
        "surroundings": surroundings(),
        "notebooks": [{**asdict(outcome), "passed": outcome.passed} for outcome in outcomes],
    }


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path, help="the file to write")
    parser.add_argument("notebooks", type=Path, nargs="*", help="files (default: from the tag)")
    parser.add_argument("--here", action="store_true", help="the chapters of this checkout")
    given = parser.parse_args(words)
    files = given.notebooks
    if given.here:
        files = [address.ROOT / f"{document}.ipynb" for document in address.documents()]
    outcomes = check(from_files(files) if files else from_tag())
    given.report.write_text(json.dumps(report(outcomes), indent=1) + "\n", "utf-8")
    return 0

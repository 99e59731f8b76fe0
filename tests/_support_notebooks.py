"""Running notebooks: nbval over their cells, papermill with parameters that are checked first."""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from _support import HANGS, Finished, run, run_python, single_threaded

NBVAL = (
    "-m", "pytest", "--nbval-lax", "-p", "no:cacheprovider", "-p", "nbval.plugin",
    "-o", "addopts=", "-q", "--no-header", "--tb=short",
    f"--nbval-kernel-startup-timeout={HANGS}", f"--nbval-cell-timeout={HANGS}",
)  # fmt: skip
WORKER = Path(__file__).with_name("_papermill_worker.py")
MAGIC = re.compile(r"^(\s*)[%!].*$", re.M)


class UnknownParameter(ValueError):
    """A parameter that the notebook does not have; papermill alone would only warn."""


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook, validated."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook: nbformat.NotebookNode) -> list:
    """The cells that a kernel executes."""
    return [c for c in notebook.cells if c.cell_type == "code" and c.source.strip()]


def tagged(notebook: nbformat.NotebookNode, tag: str) -> list:
    """The cells that carry a tag."""
    return [c for c in notebook.cells if tag in c.metadata.get("tags", [])]


@dataclass
class NbvalResult:
    """What nbval said: the command's end; cells and seconds by notebook."""

    finished: Finished
    passed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


def nbval(paths: Iterable[Path], folder: Path, *, kernels: Path | None = None, env: dict | None = None) -> NbvalResult:
    """Run every cell of the notebooks of one folder with nbval.

    Args:
        paths: the notebooks; each runs where it lies.
        folder: where the report is written.
        kernels: a folder whose kernel `colab` is used (default: this Python's own kernel).
        env: the whole environment of nbval and of the kernel.
    """
    report = Path(folder) / "nbval.xml"
    paths = [Path(path).resolve() for path in paths]
    env = (single_threaded() if env is None else env) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if kernels:
        kernel, env = ["--nbval-kernel-name=colab"], {**env, "JUPYTER_PATH": str(kernels.parent)}
    else:
        kernel = ["--nbval-current-env"]
    base = paths[0].parent
    command = (*NBVAL, *kernel, f"--rootdir={base}", f"--junitxml={report}", *paths)
    result = NbvalResult(run_python(*command, cwd=base, env=env))
    if report.is_file():
        _count(result, report)
    return result


def _count(result: NbvalResult, report: Path) -> None:
    """Fill in the cells and seconds of each notebook from nbval's own report."""
    for case in ET.parse(report).getroot().iter("testcase"):
        name = Path(case.get("file") or _file_of(case)).stem
        outcome = result.passed
        if case.find("skipped") is not None:
            outcome = result.skipped
        if case.find("failure") is not None or case.find("error") is not None:
            outcome = result.failed
        outcome[name] = outcome.get(name, 0) + 1
        result.seconds[name] = result.seconds.get(name, 0.0) + float(case.get("time") or 0)


def _file_of(case: ET.Element) -> str:
    """The notebook of a test case, from a class name such as `chapters.01_bayesian.ipynb`."""
    words = [word for word in (case.get("classname") or "").split(".") if word]
    return words[-2] + ".ipynb" if words and words[-1] == "ipynb" else (words or [""])[-1]


def parameter_names(path: Path) -> set[str]:
    """The parameters that a notebook offers, as papermill sees them."""
    from papermill import inspect_notebook

    return set(inspect_notebook(str(path)))


def check_parameters(path: Path, names: Iterable[str]) -> None:
    """Refuse a parameter name that the notebook does not have.

    Raises:
        UnknownParameter: names the notebook, the wrong names and those it has. papermill itself
            warns, runs with the defaults and exits 0.
    """
    known = parameter_names(path)
    wrong = sorted(set(names) - known)
    if wrong:
        have = ", ".join(sorted(known)) or "none"
        raise UnknownParameter(f"{path}: no parameter {', '.join(wrong)}; there are {have}")


@dataclass(frozen=True)
class Executed:
    """A papermill run: the command's end and the executed notebook (None if none was written)."""

    finished: Finished
    notebook: nbformat.NotebookNode | None

    @property
    def cells(self) -> list:
        """The executed cells, without the one that papermill puts in for the parameters."""
        cells = code_cells(self.notebook)
        ran = [c for c in cells if c.execution_count is not None]
        return [c for c in ran if "injected-parameters" not in c.metadata.get("tags", [])]

    @property
    def errors(self) -> list:
        """The error outputs, in the notebook's order."""
        outputs = [o for c in code_cells(self.notebook) for o in c.outputs]
        return [o for o in outputs if o.output_type == "error"]

    @property
    def stderr(self) -> str:
        """All that cells wrote to stderr."""
        outputs = [o for c in code_cells(self.notebook) for o in c.outputs]
        return "".join(o.text for o in outputs if o.get("name") == "stderr")


def papermill(
    path: Path,
    folder: Path,
    parameters: dict | None = None,
    options: Iterable[str] = (),
    env: dict | None = None,
    timeout: float = HANGS,
) -> Executed:
    """Run a notebook alone in an empty folder, with parameters it is known to have.

    Raises:
        UnknownParameter: before anything runs, if a name is wrong.
    """
    parameters = parameters or {}
    check_parameters(path, parameters)
    folder = Path(folder)
    here = folder / "alone"
    here.mkdir(parents=True)
    output = folder / f"{path.stem}.executed.ipynb"
    words = [word for name, value in parameters.items() for word in ("-p", name, str(value))]
    fixed = ["--cwd", here, "--no-progress-bar", "--engine", "writes-once"]
    command = [WORKER, path, output, *fixed, *words, *options]
    done = run([sys.executable, *command], cwd=here, env=env, timeout=timeout)
    return Executed(done, read(output) if output.is_file() else None)


def calls_of(source: str, name: str) -> list[ast.Call]:
    """The calls of `name(...)` or `something.name(...)` in a cell."""
    nodes = ast.walk(ast.parse(MAGIC.sub(r"\1pass", source)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [c for c in calls if name in (getattr(c.func, "attr", None), getattr(c.func, "id", None))]


def names_in(node: ast.AST) -> set[str]:
    """The variables that an expression reads."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def trains(notebook: nbformat.NotebookNode) -> bool:
    """Whether a chapter trains a network at the size of its preset."""
    recipes = [call for cell in code_cells(notebook) for call in calls_of(cell.source, "recipe")]
    return any("preset" in names_in(call) for call in recipes)


def branches_on(source: str, name: str) -> list[int]:
    """Lines of a cell where a branch, a choice or a comparison depends on a variable."""
    tree = ast.parse(MAGIC.sub(r"\1pass", source))
    tests = [n.test for n in ast.walk(tree) if isinstance(n, (ast.If, ast.IfExp, ast.While))]
    tests += [n.subject for n in ast.walk(tree) if isinstance(n, ast.Match)]
    tests += [n for n in ast.walk(tree) if isinstance(n, ast.Compare)]
    used = [n for test in tests for n in ast.walk(test) if isinstance(n, ast.Name)]
    return sorted({n.lineno for n in used if n.id == name})

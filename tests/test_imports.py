"""Who may import whom, what an import needs, and the public names that stay put."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from _support import ROOT, run_python, single_threaded

import bayeswind_lib as bw

LIBRARY = ROOT / "bayeswind_lib"

# The drawing in the design, from the bottom up: a room may import its own floor and those below it.
LAYERS = (
    ("tunnels", "models", "figures"),  # these never import each other
    ("scoring", "stats"),
    ("training", "checkpoints", "baselines"),
    ("probes", "dynamics", "language"),
    ("experiments",),
    ("widgets", "exercises", "ledger", "examples"),
    ("__init__", "__main__"),
)
SIDEWAYS = {("training", "checkpoints"), ("language", "probes")}  # all that is imported on one floor
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

# What Colab has (design, Decided 5), PIL by way of matplotlib, and what a room may add to numpy and torch.
COLAB = {"torch", "numpy", "matplotlib", "PIL", "ipykernel", "ipywidgets", "anywidget", "traitlets", "safetensors", "sklearn", "scipy", "tqdm", "IPython"}
LIGHT = {"torch", "numpy", "safetensors", "tqdm"}


@functools.cache
def import_nodes(text: str) -> list[ast.Import | ast.ImportFrom]:
    """Every import in a source, wherever it stands; many tests ask for the same one."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]


def imports(path: Path) -> set[str]:
    """Dotted names of everything that a file imports, wherever in the file it does so."""
    package = (path.parent if path.name == "__init__.py" else path).relative_to(ROOT).with_suffix("")
    return imports_of(path.read_text(), package.parts, path.name == "__init__.py")


def imports_of(text: str, package: tuple[str, ...] = (), opens: bool = False) -> set[str]:
    """The same of a source, in the file `package`; `opens` says that it is the package's `__init__`."""
    found = set()
    for node in import_nodes(text):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            base = node.module or ""
            if node.level:
                parts = [*package, "x"] if opens else package
                base = ".".join([*parts[: -node.level], *([base] if base else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def room(path: Path) -> str:
    """The first folder or file below the package: `tunnels`, `scoring`, ..."""
    return Path(path.relative_to(LIBRARY).parts[0]).stem


def rooms_of(names: set[str]) -> set[str]:
    """The rooms of the library among imported names; `__init__` for `import bayeswind_lib`."""
    found = set()
    for name in names:
        parts = name.split(".")
        if parts[0] == "bayeswind_lib":
            found.add(parts[1] if len(parts) > 1 and parts[1] in LEVEL else "__init__")
    return found


FILES = sorted(LIBRARY.rglob("*.py"))
INSIDE = [path for path in FILES if room(path) not in ("__init__", "__main__")]


def test_every_room_has_a_place_in_the_house():
    assert {room(path) for path in FILES} <= set(LEVEL)
    assert {"tunnels", "models", "scoring", "training", "checkpoints"} <= {room(p) for p in FILES}


@pytest.mark.parametrize("path", INSIDE, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_a_room_imports_only_what_stands_below_it(path):
    here = room(path)
    allowed = {here} | {other for other in LEVEL if LEVEL[other] < LEVEL[here] or (here, other) in SIDEWAYS}
    if here == "examples":  # these may use the whole package's front door, as a reader does
        allowed |= {"__init__"}
    wrong = rooms_of(imports(path)) - allowed
    assert not wrong, f"{here} must not import {sorted(wrong)}"


# What the ledger reads: records, and how runs and claims are called. `experiments` it knows by its front door alone.
READ = re.compile(
    r"bayeswind_lib\.((ledger|figures|checkpoints\.(store|keys)|training\.(plans|presets|recipe))(\.|$)|(experiments|checkpoints|tunnels)$)"
)
ASKED = {"experiments": {"RECORDS", "of_networks", "queued"}, "checkpoints": {"variant_of"}, "tunnels": {"find"}}
LEDGER = [path for path in FILES if room(path) == "ledger"]


def beyond_reading(text: str) -> set[str]:
    """What a file of the ledger imports or takes from a room that could measure; hints of types do not count."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    bare = ast.unparse(tree)
    outside = {name for name in imports_of(bare) if name.split(".")[0] not in sys.stdlib_module_names}
    taken = {
        f"{node.value.id}.{node.attr}" for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr not in ASKED.get(node.value.id, {node.attr})
    }
    return taken | {name for name in outside if not READ.match(name)}


@pytest.mark.parametrize("path", LEDGER, ids=lambda path: path.stem)
def test_the_ledger_measures_nothing(path):
    assert beyond_reading(path.read_text()) == set()


@pytest.mark.parametrize(
    "line",
    [
        "from bayeswind_lib.experiments.networks import network_entry", "from bayeswind_lib.experiments import of_networks",
        "from bayeswind_lib import scoring", "def f():\n    from bayeswind_lib.probes import keys", "import bayeswind_lib as bw",
        "from bayeswind_lib.training.loop import train", "from bayeswind_lib.checkpoints import load", "from bayeswind_lib.tunnels import build", "from bayeswind_lib import training", "import torch", "import numpy as np",
        "from bayeswind_lib import tunnels\ntunnels.build('hmm')", "from bayeswind_lib import checkpoints\ncheckpoints.load('x')",
        "from bayeswind_lib import experiments\nexperiments.make_records()",
    ],
)
def test_a_ledger_that_measures_is_found(line):
    assert len(beyond_reading(line)) == 1


def test_the_rule_sees_a_forbidden_import(tmp_path):
    """The checks above rest on `imports`: it must see every way of importing."""
    package = LIBRARY / "tunnels" / "probe.py"  # never written: only its place counts
    lines = {
        "import bayeswind_lib.models": "models",
        "from bayeswind_lib import models": "models",
        "from bayeswind_lib.models.transformer import Transformer": "models",
        "from ..models import build": "models",
        "from .. import training": "training",
        "def f():\n    from bayeswind_lib.training import loop": "training",
    }

    class Pretended(type(package)):
        def read_text(self, *words, **more):
            return line

    for line, expected in lines.items():
        assert rooms_of(imports(Pretended(package))) == {expected}, line


def outside(path: Path) -> set[str]:
    """Third-party packages that a file imports."""
    roots = {name.split(".")[0] for name in imports(path)}
    return roots - set(sys.stdlib_module_names) - {"bayeswind_lib", "__future__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LIBRARY)))
def test_the_library_needs_nothing_that_colab_lacks(path):
    if room(path) == "__main__":
        allowed = LIGHT | {"typer"}  # and says so when it is missing
    elif path.name == "smollm.py":
        allowed = COLAB | {"gguf", "tokenizers"}  # likewise
    elif path.name == "hub.py":
        allowed = COLAB | {"transformers"}  # likewise
    elif path.name == "cluster.py":
        allowed = LIGHT | {"dask", "distributed"}  # likewise
    elif LEVEL[room(path)] <= LEVEL["training"] and room(path) not in ("figures", "stats"):
        allowed = LIGHT
    else:
        allowed = COLAB
    assert outside(path) <= allowed, f"{path.name} imports {sorted(outside(path) - allowed)}"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The package by itself: no book, no chapters, no checkout around it."""
    folder = tmp_path_factory.mktemp("alone")
    ignore = shutil.ignore_patterns("__pycache__", "bijection-transformer-*0.safetensors")
    shutil.copytree(LIBRARY, folder / "bayeswind_lib", ignore=ignore)
    return folder


BLOCKED = """
import sys
sys.modules.update(dict.fromkeys({blocked!r}))  # as if they were not installed
sys.path.insert(0, {folder!r})
import bayeswind_lib as bw
assert bw.__file__.startswith({folder!r}), bw.__file__
"""


def run_alone(folder: Path, code: str, blocked: tuple[str, ...] = ()):
    text = BLOCKED.format(blocked=blocked, folder=str(folder)) + code
    done = run_python("-c", text, cwd=folder, env=single_threaded(PYTHONPATH=None))
    assert done.code == 0, done.tail()
    return done.output


def test_the_core_imports_without_the_book_and_without_plotting(alone):
    """numpy, torch, safetensors and tqdm are enough to train and to score; nothing is printed."""
    code = """
import torch
tunnel = bw.tunnels.Bijection(n_values=3)
recipe = bw.training.recipe("bijection", "transformer", "smoke", steps=2)
model, record = bw.training.train(recipe, progress=False)
assert "bayeswind_lib.figures" not in sys.modules
print(record["commit"])
"""
    blocked = ("matplotlib", "ipywidgets", "typer", "IPython", "sklearn", "yaml", "book", "scipy", "myst_nb")
    lines = run_alone(alone, code, blocked).splitlines()
    assert lines == ["None"]  # outside a checkout there is no commit to name


def test_every_module_imports_without_the_book(alone):
    """All rooms open with what Colab has."""
    code = """
import importlib, pkgutil
names = [m.name for m in pkgutil.walk_packages(bw.__path__, "bayeswind_lib.") if "__main__" not in m.name]
for name in names:
    importlib.import_module(name)
assert bw.figures and bw.ledger and bw.exercises and bw.widgets
print(len(names))
"""
    blocked = ("typer", "yaml", "book", "myst_nb", "jupytext", "pandas", "hypothesis", "papermill")
    assert int(run_alone(alone, code, blocked).splitlines()[-1]) > 15


def test_the_command_line_says_what_it_lacks(alone):
    code = """
import runpy
try:
    runpy.run_module("bayeswind_lib", run_name="__main__")
except SystemExit as stop:
    print(stop)
"""
    assert "needs the package typer: pip install typer" in run_alone(alone, code, ("typer",))


# Public names that others rely on (design, "The public names that stay put").

PUBLIC = ["tunnels.Bijection", "tunnels.build", "tunnels.Episodes", "tunnels.bijection.posterior", "tunnels.bijection.permutations", "scoring.entropy_bits", "scoring.kl_bits", "scoring.measure", "scoring.score_episodes", "scoring.Score", "score", "load", "CheckpointError", "checkpoints.save", "checkpoints.load", "checkpoints.load_file", "checkpoints.shipped", "checkpoints.CheckpointError", "models.build", "models.Transformer", "models.count_parameters", "training.Recipe", "training.recipe", "training.train", "training.N_EPISODES", "training.Muon", "training.orthogonalise", "training.best_precision", "training.Interrupted", "baselines.Uniform", "baselines.Certain", "baselines.PositionCounter", "baselines.RelabelledOracle", "baselines.Eliminator", "baselines.OneTooFew", "baselines.OneTooMany", "baselines.Leaky", "baselines.RepeatAware", "baselines.Binder", "baselines.exact_baselines", "baselines.task_constants", "baselines.exact_leak", "baselines.leak_for_entropy_error", "baselines.situations", "figures.Plot", "figures.glue", "figures.entropy_by_position", "figures.gap_by_position", "figures.learning_curves", "figures.distributions", "figures.baselines", "figures.attention_map", "figures.scatter_two_measures", "figures.table", "ledger.rows", "ledger.row", "widgets.bijection_explorer", "exercises.ch01", "exercises.ch02", "exercises.ch03", "exercises.core.grade", "exercises.core.Report", "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_stay_put(name):
    value = bw
    for part in name.split("."):
        value = getattr(value, part)
    assert value is not None


def test_the_pinned_example_of_the_design_runs():
    tunnel = bw.tunnels.Bijection(n_values=20)
    rng = torch.Generator().manual_seed(0)
    episodes = tunnel.sample(64, rng)
    assert episodes.inputs.shape == (64, 39)
    assert episodes.inputs.dtype == torch.int64
    assert episodes.targets.shape == (64, 20)
    assert episodes.posterior.shape == (64, 20, 20)
    assert episodes.posterior.dtype == torch.float64
    assert set(episodes.latents) == {"keys", "values"}
    model = bw.load("bijection-transformer")
    assert isinstance(model, torch.nn.Module)
    assert not model.training
    assert model.record["name"] == "bijection-transformer"
    assert model.predict(episodes.inputs).shape == (64, 20, 20)
    score = bw.score(model, tunnel, n_episodes=8, rng=rng)
    assert all(isinstance(v, float) for v in (score.entropy_mae, score.kl, score.tv))
    assert score.per_position["kl"].shape == (20,)


def test_unknown_rooms_are_refused():
    with pytest.raises(AttributeError, match="bayeswind_lib has no attribute 'sausage'"):
        bw.sausage  # noqa: B018
    assert {"figures", "ledger", "score", "tunnels"} <= set(dir(bw))


@pytest.mark.parametrize("path", sorted((ROOT / "chapters").glob("*.md")) + sorted((ROOT / "book").glob("*.md")), ids=lambda path: path.stem)
def test_a_page_reads_records_and_measures_nothing_that_is_too_long_for_it(path):
    """What `experiments` stores is read through the ledger."""
    found = re.findall(r"^.*(?:bayeswind_lib|bw)\.experiments\b.*$|^.*bayeswind_lib import .*\bexperiments\b.*$", path.read_text(), re.MULTILINE)
    assert not found

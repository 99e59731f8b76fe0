"""Colab, rehearsed: the notebook alone, Colab's packages, and the reader's own install line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import bayeswind_lib
import pytest
import yaml

from _support import ROOT, run
from _support_colab import (
    ask,
    clean_environment,
    frozen,
    install_line,
    instead_of,
    kernel,
    layer,
    only,
    packages_of,
    preinstalled,
    tagged_repository,
)
from _support_notebooks import code_cells, papermill, read, tagged
from _support_site import page

REHEARSAL_BUDGET = 45.0  # seconds a notebook, the installation included
PATIENCE = 3.0


def settings() -> dict:
    """The book's configuration."""
    return yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))


def bootstrap(notebook: Path) -> str:
    """The cell that brings the helper package: tagged, and the first that runs."""
    stored = read(notebook)
    (cell,) = tagged(stored, "bootstrap")
    assert cell == code_cells(stored)[0], "other code runs before the helper package is there"
    return cell.source


@pytest.fixture(scope="module")
def tag():
    """The tag that readers install."""
    return f"v{bayeswind_lib.__version__}"


@pytest.fixture(scope="module")
def repository(tmp_path_factory, tag):
    """This checkout as a repository with the readers' tag."""
    return tagged_repository(tmp_path_factory.mktemp("repository"), tag)


def test_colab_gives_a_gpu(notebook):
    metadata = read(notebook).metadata
    assert metadata["accelerator"] == "GPU"
    assert metadata["colab"]["gpuType"] == "T4"


def test_nothing_is_stored_but_the_source(notebook):
    stored = read(notebook)
    assert [c.outputs for c in code_cells(stored)] == [[]] * len(code_cells(stored))
    assert {c.execution_count for c in code_cells(stored)} == {None}


def test_the_install_line_names_this_version(notebook, tag):
    """One package, from the book's own address, at the version that this checkout is."""
    line = install_line(bootstrap(notebook))
    assert (line.name, line.tag) == ("bayeswind-lib", tag)
    assert line.url == settings()["repository"]["url"]
    assert "--no-deps" in line.options, "Colab's own numpy and torch have to stay"


def test_the_colab_button_opens_the_notebook(site, notebook):
    """The button of the built page names a file of the repository that is a notebook."""
    repository = settings()["repository"]
    address = repository["url"].removeprefix("https://github.com/")
    start = f"https://colab.research.google.com/github/{address}/blob/{repository['branch']}/"
    links = page(site / "chapters" / f"{notebook.stem}.html").links
    buttons = {link for link in links if "colab.research.google.com" in link}
    assert buttons, "the page has no Colab button"
    assert all(button.startswith(start) for button in buttons), buttons
    opened = {ROOT / button.removeprefix(start) for button in buttons}
    assert opened == {notebook}
    read(notebook)  # raises if it is no valid notebook


def test_the_clean_environment_has_only_colabs_packages():
    """It knows what Colab has, and neither the helper package nor the book's own tools."""
    folder = clean_environment()
    names = [name.replace("scikit-learn", "sklearn") for name in preinstalled()]
    assert ask(folder, "import " + ", ".join(names)).code == 0
    for name in ("bayeswind_lib", "pytest", "papermill", "jupytext", "playwright", "typer", "yaml"):
        assert "ModuleNotFoundError" in ask(folder, f"import {name}").output, name


def committed(repository: Path, tag: str) -> dict[str, str]:
    """Each file of the helper package in the repository, with git's name for its content."""
    command = ["git", "--git-dir", repository, "ls-tree", "-r", f"{tag}:bayeswind_lib"]
    lines = run(command).output.splitlines()
    return {name: line.split()[2] for line, name in (line.split("\t") for line in lines)}


def installed_files(folder: Path) -> dict[str, str]:
    """The same of an installed package, compiled files apart."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    content = {n: p.read_bytes() for n, p in files.items() if p.is_file() and p.suffix != ".pyc"}
    return {n: hashlib.sha1(b"blob %d\0" % len(c) + c).hexdigest() for n, c in content.items()}


def test_the_notebook_alone_runs_on_colab(notebook, tmp_path, tag, repository, report_seconds):
    """Copied into an empty folder it runs top to bottom and adds one package, weights included."""
    environment = layer(tmp_path / "colab")
    before = frozen(environment)
    variables = only(
        environment,
        JUPYTER_PATH=str(kernel(tmp_path / "jupyter", environment)),
        **instead_of(settings()["repository"]["url"], repository),
    )
    alone = tmp_path / "copy" / notebook.name
    alone.parent.mkdir()
    alone.write_bytes(notebook.read_bytes())
    done = papermill(alone, tmp_path / "run", options=["-k", "colab"], env=variables)
    report_seconds(f"Colab rehearsal, {notebook.stem}", done.finished.seconds, REHEARSAL_BUDGET)

    assert done.finished.code == 0, done.finished.tail()
    assert [c.source for c in done.cells] == [c.source for c in code_cells(read(notebook))]
    after = frozen(environment)
    assert set(before) <= set(after), "a package of Colab's was changed or removed"
    (added,) = set(after) - set(before)
    assert added.split(" ")[0] == "bayeswind-lib", added

    installed = packages_of(environment) / "bayeswind_lib"
    where = ask(environment, "import bayeswind_lib; print(bayeswind_lib.__file__)").output.strip()
    assert Path(where) == installed / "__init__.py"
    assert installed_files(installed) == committed(repository, tag)
    assert list((installed / "checkpoints" / "weights").glob("*.safetensors"))
    assert done.finished.seconds < PATIENCE * REHEARSAL_BUDGET


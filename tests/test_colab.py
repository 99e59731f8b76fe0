"""Colab, rehearsed: the buttons open the right notebook at the right tag, and it runs there alone.

With Colab's packages only, and the reader's own install line, which gets the repository from a
clone. nbval runs every cell; the runner of the weekly run in Colab's image (book/tools/colab_check.py)
runs the setup cell here, and has tests of its own (test_colab_check.py).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import closing
from pathlib import Path

import bayeswind_lib
import nbformat
import pytest
import yaml

from _support import CHAPTERS, ROOT, children_seconds, run
from _support_colab import (
    Kernels,
    _git,
    ask,
    clean_environment,
    frozen,
    install_line,
    instead_of,
    layer,
    only,
    packages_of,
    preinstalled,
    python_of,
    tagged_repository,
    with_dependencies,
)
from _support_notebooks import code_cells, nbval, read, tagged, trains
from _support_site import Page

from tools import address
from tools import colab_check
from tools import colab_links

READ_BUDGET = 12.0  # a notebook's processor seconds, nbval, kernel and installation included
PATIENCE = 5.0  # between machines, and between one that has nothing else to do and a busy one


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


def test_colab_gives_a_gpu_where_a_chapter_trains(notebook):
    stored = read(notebook)
    (parameters,) = tagged(stored, "parameters")
    asks = 'device = "auto"' in parameters.source
    assert asks == trains(stored)
    assert stored.metadata.get("accelerator") == ("GPU" if asks else None)
    assert stored.metadata["colab"].get("gpuType") == ("T4" if asks else None)


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


# --- where the buttons lead --------------------------------------------------------------------


@pytest.fixture(scope="module")
def links(site):
    """The Colab links of the built book, by page."""
    return colab_links.links(site)


def test_the_colab_button_opens_the_notebook(links, notebook, tag, repository):
    """What the page's button asks for is, at the tag that the notebook installs, this notebook."""
    page = f"chapters/{notebook.stem}.html"
    (button,) = links[page]
    host = "https://colab.research.google.com/github"
    owner_and_name = settings()["repository"]["url"].removeprefix("https://github.com/")
    assert button == f"{host}/{owner_and_name}/blob/{tag}/chapters/{notebook.name}"
    assert install_line(bootstrap(notebook)).tag == tag == colab_links.place(button)[0]
    assert colab_links.content(button, repository) == notebook.read_bytes()
    assert colab_links.notebook(button, repository) == read(notebook)


def test_every_colab_link_of_the_book_resolves(site, links, repository):
    assert colab_links.problems(site, repository) == []
    chapters = {f"chapters/{path.stem}.html" for path in CHAPTERS.glob("[0-9][0-9]_*.md")}
    assert chapters < set(links), "only chapters link to Colab: where is the landing page's list?"


def test_readme_links_to_the_same_addresses(links):
    text = (ROOT / "README.md").read_text("utf-8")
    assert all(f"]({link})" in text for those in links.values() for link in those)


def test_every_link_of_a_page_is_seen(tmp_path):
    """By a second reader of the page, which parses it."""
    host = settings()["launch_buttons"]["colab_url"]
    text = f"<a class='x' href='{host}/a?b=1&amp;c=2'>1</a>\n<a\nhref=\"{host}/b\">2</a><abbr href='{host}/c'>3</abbr>"
    (tmp_path / "page.html").write_text(text)
    parsed = Page(text).links
    assert parsed == [f"{host}/a?b=1&c=2", f"{host}/b"] == colab_links.links(tmp_path)["page.html"]


def small_site(folder: Path, link: str) -> Path:
    """A site whose first chapter has one link to Colab."""
    page = folder / f"{address.documents()[0]}.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="{link}">Colab</a><a href="#x">other</a>')
    return folder


def spoilt(folder: Path, tag: str, name: str, text: str | None) -> Path:
    """A repository whose tag holds one file, or none."""
    bare = folder / "repository.git"
    _git("init", "--quiet", "--bare", str(bare))
    if text is not None:
        (folder / "tree" / name).parent.mkdir(parents=True)
        (folder / "tree" / name).write_text(text)
        here = {"GIT_DIR": str(bare), "GIT_WORK_TREE": str(folder / "tree")}
        who = {f"GIT_{role}_{what}": "tests@localhost" for role in ("AUTHOR", "COMMITTER")
               for what in ("NAME", "EMAIL")}  # fmt: skip
        _git("-C", str(folder / "tree"), "add", "--all", ".", **here)
        commit = _git("commit-tree", _git("write-tree", **here), "-m", "one file", **here, **who)
        _git("tag", tag, commit, **here)
    return bare


@pytest.mark.parametrize(
    ("link", "text", "words"),
    [
        ("{start}main/{name}", "{{}}", "opens main, but the library is {tag}"),
        ("{start}v9.9.9/{name}", "{{}}", "opens v9.9.9, but the library is {tag}"),
        ("https://colab.research.google.com/github/else/where/blob/{tag}/{name}", "{{}}", "does not begin"),
        ("{start}{tag}/chapters/99_none.ipynb", "{{}}", "no chapters/99_none.ipynb at the tag"),
        ("{start}{tag}/{name}", None, "at the tag {tag}"),
        ("{start}{tag}/{name}", "no notebook", "no valid notebook"),
        ("{start}{tag}/{name}", '{{"cells": 1, "nbformat": 4, "nbformat_minor": 5, "metadata": {{}}}}', "no valid"),
    ],
)
def test_a_link_that_leads_astray_is_named(tmp_path, tag, link, text, words):
    name = f"{address.documents()[0]}.ipynb"
    known = {"start": address.colab_start(), "tag": tag, "name": name}
    site = small_site(tmp_path / "site", link.format(**known))
    bare = spoilt(tmp_path, tag, name, None if text is None else text.format())
    first = [p for p in colab_links.problems(site, bare) if "no link to its own" not in p]
    assert len(first) == 1 and words.format(**known) in first[0], first


def test_a_page_without_its_button_is_named(tmp_path, repository):
    named = colab_links.problems(small_site(tmp_path, "https://example.org"), repository)
    assert named == [f"{d}.html: no link to its own notebook" for d in address.documents()]


# --- the rehearsal -----------------------------------------------------------------------------


def test_the_clean_environment_has_only_colabs_packages():
    """It knows what Colab has, and neither the helper package nor the book's own tools."""
    names = [name.replace("scikit-learn", "sklearn") for name in preinstalled()]
    others = ["bayeswind_lib", "pytest", "papermill", "jupytext", "playwright", "typer", "yaml"]
    seen = f"import importlib.util as u; print([n for n in {names + others} if u.find_spec(n)])"
    assert ask(clean_environment(), seen).output.strip() == str(names)


class Package:
    """An installed package, as its metadata tell."""

    def __init__(self, *requires: str):
        self.requires = list(requires)


def test_a_requirement_of_an_extra_is_linked_too():
    """As PyTorch's default build asks for its libraries; neither a foreign mark nor another extra counts."""
    known = {
        "torch": Package("numpy", "cuda-toolkit[cufile,nvrtc]==13; sys_platform != 'nowhere'", "triton; sys_platform == 'nowhere'"),
        "cuda-toolkit": Package("cufile-lib; extra == 'cufile'", "nvrtc-lib; extra == 'nvrtc'", "cublas-lib; extra == 'cublas'"),
        "optree": Package("cuda-toolkit", "torch[opt]"),
        "numpy": Package(), "cufile-lib": Package("cuda-toolkit[cufile]"), "nvrtc-lib": Package(),
    }  # fmt: skip
    found = with_dependencies(["optree", "torch"], known.__getitem__)
    assert found == known


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


def reader(folder: Path, repository: Path, **more: str) -> tuple[Path, dict[str, str]]:
    """A fresh machine of Colab's, with the book's address leading to the clone."""
    environment = layer(folder)
    more |= instead_of(settings()["repository"]["url"], repository)
    return environment, only(environment, PIP_DISABLE_PIP_VERSION_CHECK="1", **more)


@pytest.fixture(scope="module")
def first(tmp_path_factory, repository):
    """The setup cell where nobody has installed the book yet: pip clones, builds and installs.

    Returns:
        the environment, what the cell printed, and the packages that it added, with their versions.
    """
    folder = tmp_path_factory.mktemp("first")
    environment, variables = reader(folder / "colab", repository)
    before = frozen(environment)
    cell = bootstrap(sorted(CHAPTERS.glob("*.ipynb"))[0])
    show = "print(bayeswind_lib.__file__)"
    cells = [nbformat.v4.new_code_cell(source) for source in (cell, show)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    command = colab_check.kernel_command(python_of(environment))
    outcome = colab_check.run(notebook, "setup", folder / "run", command, variables)
    assert outcome.passed, outcome.error
    printed = notebook.cells[-1].outputs[0].text.strip()
    return environment, printed, {n: v for n, v in frozen(environment).items() if before.get(n) != v}


@pytest.fixture(scope="module")
def kernels(first):
    """What starts kernels where the setup cell has run; the first one there started in the ordinary way."""
    environment, _, _ = first
    with closing(Kernels(environment, only(environment))) as found:
        yield found


def test_a_setup_cell_that_cannot_install_says_so_in_one_sentence(tmp_path):
    """Where the address leads nowhere: no output of pip, no trace, what to do; and the cell counts as failed."""
    environment, variables = reader(tmp_path / "colab", tmp_path / "nothing")
    cell = nbformat.v4.new_code_cell(bootstrap(sorted(CHAPTERS.glob("*.ipynb"))[0]))
    command = colab_check.kernel_command(python_of(environment))
    notebook = nbformat.v4.new_notebook(cells=[cell])
    outcome = colab_check.run(notebook, "setup", tmp_path / "run", command, variables)
    assert outcome.failed == 1
    (output,) = notebook.cells[0].outputs
    (shown,) = output["traceback"]
    assert shown == output["evalue"] and shown.count("\n") == 0
    assert settings()["repository"]["url"] in shown and "run this cell again" in shown


SHORT = """
import functools
import bayeswind_lib as bw
few = {"steps": 3, "batch_size": 4, "eval_episodes": 4}
bw.training.recipe = functools.partial(bw.training.recipe, **few)
"""


def test_the_published_scale_trains_in_a_cell_of_colab_as_written(first, kernels, tmp_path, tag, repository):
    """What chapter 3 says to type, in Colab's stand-in, with three small updates; again, and it goes on from there."""
    text = (CHAPTERS / "03_training.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    (typed,) = [block for block in blocks if "training.train(" in block]
    assert '"paper"' in typed and "resume=True" in typed and '"auto"' in typed
    end = 'print(record["steps"], record["recipe"]["precision"] != "auto", record["interruptions"])'
    sources = (bootstrap(CHAPTERS / "03_training.ipynb"), SHORT, typed, end, "bw.training.loop.update = None", typed, end)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    environment, _, _ = first
    variables = only(environment, **instead_of(settings()["repository"]["url"], repository))
    outcome = colab_check.run(notebook, "typed", tmp_path / "run", kernels.command, variables)
    assert outcome.passed, outcome.error
    assert notebook.cells[3].outputs[0].text == notebook.cells[6].outputs[0].text == "3 True 0\n"


def test_the_setup_cell_installs_the_tag(first, repository, tag):
    """From the clone, one package, all of its files, and the import finds it."""
    environment, printed, added = first
    assert added == {"bayeswind-lib": tag.removeprefix("v")}, "Colab's packages have to stay"
    installed = packages_of(environment) / "bayeswind_lib"
    assert Path(printed) == installed / "__init__.py"
    (note,) = packages_of(environment).glob("bayeswind_lib-*.dist-info/direct_url.json")
    origin = json.loads(note.read_text())
    assert origin["url"] == settings()["repository"]["url"]
    assert origin["vcs_info"]["requested_revision"] == tag
    assert origin["vcs_info"]["commit_id"] == _git("--git-dir", str(repository), "rev-parse", tag)
    assert installed_files(installed) == committed(repository, tag)
    assert list((installed / "checkpoints" / "weights").glob("*.safetensors"))


def test_every_cell_passes_nbval_alone_on_colab(notebook, tmp_path, tag, repository, first, kernels, report_seconds):
    """In an empty folder each cell of `read` passes, none is skipped, and nothing is installed or changed.

    Every notebook's setup cell is the one that installed the package here, letter for letter; where the package is there
    already it must not ask for it again: the address leads nowhere now.
    """
    environment, _, _ = first
    before, cells, name = frozen(environment), code_cells(read(notebook)), notebook.stem
    assert bootstrap(notebook) == address.bootstrap_cell(), "not the cell that was run here"
    colab_check.kernel_manager(kernels.command, tmp_path / "kernels")
    (tmp_path / "alone").mkdir()
    alone = shutil.copy(notebook, tmp_path / "alone")
    variables = only(environment, **instead_of(settings()["repository"]["url"], tmp_path / "nothing"))
    used = children_seconds() + kernels.spent()
    result = nbval([alone], tmp_path, kernels=tmp_path / "kernels", env=variables)
    used = children_seconds() + kernels.spent() - used
    report_seconds(f"nbval on Colab's stand-in, {name}, processor", used, READ_BUDGET)

    assert not result.failed and not result.skipped, result.finished.tail()
    assert result.passed == {name: len(cells)}, result.finished.tail()
    assert result.finished.code == 0, result.finished.tail()
    assert frozen(environment) == before and installed_files(packages_of(environment) / "bayeswind_lib") == committed(repository, tag)
    assert 1 < used < PATIENCE * READ_BUDGET

"""The checks themselves, checked: each must go red when the thing that it guards is broken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest
from _support import in_ci, notebooks
from _support_browser import Reader, chromium, served
from _support_canaries import (
    Canaries,
    Spoilt,
    build_command,
    check_notebooks,
    notebooks_copy,
    pytest_alone,
    small_book,
    weights_in,
)
from _support_notebooks import branches_on, code_cells, nbval, read
from _support_site import (
    broken_links,
    images_without_words,
    missing_resources,
    outside_resources,
    widget_managers,
)

import bayeswind_lib as bw


# --- notebooks -----------------------------------------------------------------------------------


def write_notebook(path: Path, *sources: str) -> Path:
    """A small notebook with these code cells."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_a_broken_notebook_fails_nbval(tmp_path):
    good = write_notebook(tmp_path / "good.ipynb", "x = 1", "assert x == 1")
    bad = write_notebook(tmp_path / "bad.ipynb", "x = 1", "assert x == 2")
    result = nbval([good, bad], tmp_path)
    assert result.finished.code == 1
    assert (result.passed, result.failed) == ({"good": 2, "bad": 1}, {"bad": 1})


def test_a_branch_on_the_preset_is_seen():
    assert branches_on("if preset == 'smoke':\n    pass", "preset") == [1]
    assert branches_on("%matplotlib inline\nx = 3 if preset != 'read' else 4", "preset") == [2]
    assert branches_on("while preset:\n    pass", "preset") == [1]
    assert branches_on("n = steps or bw.training.N_EPISODES[preset]", "preset") == []


# --- an untrained network, or a typed score, under a shipped name --------------------------------

PRESET = "smoke"  # has every assert of `read`, on fewer episodes: if it sees a spoilt network, so does `read`
ENDS: dict[str, Spoilt] = {}
SMOKE_BUDGET, PATIENCE = 10.0, 5.0  # processor seconds of a chapter in `smoke`, and how much slower a machine may be


@pytest.fixture(scope="module")
def canaries():
    """A process that runs notebooks in copies of itself."""
    running = Canaries()
    yield running
    running.close()


@pytest.fixture
def ended(tmp_path_factory, canaries):
    """A function: how a chapter ends, as it is, with other scores in the records, and when each network is untrained."""

    def find(notebook: Path) -> Spoilt:
        if notebook.stem not in ENDS:
            folder = tmp_path_factory.mktemp(notebook.stem)
            found = canaries.run(notebook, weights_in(folder / "weights"), folder / "run", PRESET)
            assert found.whole.error is None, found.whole.text
            networks = sorted(end for end in found.networks if not end[0].startswith("snapshots/"))
            assert found.whole.opened == networks, "a network was read by another way than bw.load"
            ENDS[notebook.stem] = found
        return ENDS[notebook.stem]

    return find


def test_smoke_executes_every_cell(notebook, ended, report_seconds):
    """`smoke` runs the same cells as `read`, each of them, quietly and quickly; what they show is made."""
    found = ended(notebook)
    report_seconds(f"smoke, {notebook.stem}, processor", found.whole.seconds, SMOKE_BUDGET)
    assert found.whole.cells == len(code_cells(read(notebook))) + 1  # the one that sets the preset
    assert not found.stderr
    assert found.whole.seconds < PATIENCE * SMOKE_BUDGET


def is_at_an_assert(done, network) -> None:
    """The chapter stops, and at a claim of its own rather than at a file that does not load."""
    assert done.error, f"passes with a spoilt {network}"
    assert done.error == "AssertionError", f"{network}: {done.text}"


def test_an_untrained_network_fails_every_chapter_that_loads_it(notebook, ended):
    """Each network by itself: one good one must not hide a bad one."""
    for network, end in ended(notebook).networks.items():
        is_at_an_assert(end, network)


def test_a_chapter_that_looks_at_one_network_only_is_caught(tmp_path, canaries):
    """Two networks are loaded, one is compared with its record; a name given by word counts as well."""
    load = 'import torch, bayeswind_lib as bw\nmodel = bw.load("bijection-transformer-classroom", {})'
    check = 'assert bw.score(model, bw.tunnels.Bijection(10), 64, rng=torch.Generator()).kl < 0.1'
    notebook = write_notebook(tmp_path / "n.ipynb", load.format(0), check, load.format("seed=1"), "model")
    found = canaries.run(notebook, bw.checkpoints.weights_folder(), tmp_path / "run")
    assert found.whole.error is None, found.whole.text
    assert {seed: end.error for (_, seed), end in found.networks.items()} == {0: "AssertionError", 1: None}


def test_what_a_chapter_writes_to_stderr_is_kept(tmp_path, canaries):
    """From Python and from below it, and where what is shown cannot be made; a cell that fails ends the run."""
    loud = ["import os, sys; sys.stderr.write('one ')", "os.write(2, b'two ')", "1 / 0", "3"]
    found = canaries.run(write_notebook(tmp_path / "n.ipynb", *loud), bw.checkpoints.weights_folder(), tmp_path / "run")
    assert (found.stderr, found.whole.error, found.whole.cells) == ("one two ", "ZeroDivisionError", 2)


def test_a_run_that_cannot_begin_is_told(tmp_path, canaries):
    notebook = write_notebook(tmp_path / "n.ipynb", "1")
    with pytest.raises(RuntimeError, match="n.ipynb: the run ended with 1"):
        canaries.run(notebook, bw.checkpoints.weights_folder(), tmp_path / "run", "smoke")  # it has no cell of parameters


def test_changed_scores_in_the_records_fail_the_chapter(notebook, ended):
    """What a record says is compared with what its network does."""
    found = ended(notebook)
    if not found.networks:
        assert "bw.load(" not in notebook.read_text()  # nothing to spoil, as its text says
        return
    is_at_an_assert(found.records, "record")


def test_every_shipped_network_is_loaded_by_some_chapter(ended):
    """A network that no chapter loads is one that no chapter checks."""
    loaded = {network for notebook in notebooks() for network in ended(notebook).networks}
    runs = (bw.checkpoints.weights_folder() / "snapshots").glob("*.safetensors")
    snapshots = {(f"snapshots/{name}", int(seed)) for name, seed in (path.stem.rsplit("-seed", 1) for path in runs)}
    assert loaded == {(record["name"], record["seed"]) for record in bw.checkpoints.shipped()} | snapshots


# --- numbers and labels in the notebooks ---------------------------------------------------------


def test_a_changed_number_of_the_build_is_caught(tmp_path):
    """The text of a notebook holds the numbers that the build glued; one of every chapter is changed. For other changes see test_build_notebooks.py."""
    copy = notebooks_copy(tmp_path)
    path = copy / "_build" / "labels.json"
    build = json.loads(path.read_text())
    for source in sorted((copy / "chapters").glob("*.md")):
        glued, text = build["glue"][f"chapters/{source.stem}"], source.read_text()
        used = [name for name in glued if re.search(rf"`{re.escape(name)}\b", text)]
        name = next(n for n in used if re.fullmatch(r"-?\d*\.\d+", glued[n]))
        glued[name] = str(1.5 * float(glued[name]) + 1)
    path.write_text(json.dumps(build))
    done = check_notebooks(copy)
    assert done.code == 1
    named = re.findall(r"chapters/(\w+)\.ipynb: .*a number moved beyond", done.output)
    assert sorted(named) == [path.stem for path in notebooks()]


# --- the book's build ----------------------------------------------------------------------------

CELL = "```{code-cell} ipython3\n%s\n```\n"
PICTURE = "import matplotlib.pyplot as plt\nplt.figure(figsize=(1, 1)).add_subplot().plot([1, 2]);"
COLOURS = re.compile(r"\x1b\[[\d;]*m")
SPOILT = {
    "a label that nobody has": ("{ref}`nowhere`", "nowhere"),
    "a page that is not there": ("{doc}`nowhere`", "nowhere"),
    "a citation without an entry": ("{cite}`nobody1900`", "nobody1900"),
    "a cell that fails": (CELL % "assert 1 == 2", "AssertionError"),
    "a cell that writes to stderr": (
        CELL % "import sys\nprint('careful', file=sys.stderr)",
        "stderr",
    ),
    "a picture without words": (CELL % PICTURE, "without words"),
}


def test_the_build_treats_warnings_as_errors():
    assert {"build", ".", "-W", "-n", "--keep-going"} <= set(build_command())


def test_a_sound_page_builds(tmp_path):
    done = small_book(tmp_path, CELL % "print(1)")
    assert done.code == 0, done.tail()
    assert "<h1>A page" in (tmp_path / "_build" / "html" / "page.html").read_text()


def test_a_fault_fails_the_build(tmp_path):
    """Each on a page of its own, all in one build: for each page there is a warning, and one is enough to fail."""
    faults = {f"fault{number}": fault for number, fault in enumerate(SPOILT)}
    done = small_book(tmp_path, "", **{page: f"{SPOILT[fault][0]}\n" for page, fault in faults.items()})
    assert done.code != 0, "the book was built all the same"
    lines = COLOURS.sub("", done.output).splitlines()
    for page, fault in faults.items():
        told = [line for line in lines if f"{page}.md" in line and re.search("WARNING|ERROR", line)]
        assert told, f"{fault}: no warning names its page\n{done.tail()}"
        assert SPOILT[fault][1] in done.output
    assert not [line for line in lines if "/page.md" in line and re.search("WARNING|ERROR", line)]


# --- the site's checks ---------------------------------------------------------------------------

PAGES = {
    "broken link": ('<a href="gone.html">x</a>', broken_links),
    "broken anchor": ('<a href="#gone">x</a>', broken_links),
    "way out": ('<a href="../secret.txt">x</a>', broken_links),
    "foreign script": ('<script src="https://cdn.example/x.js"></script>', outside_resources),
    "foreign image": ('<img alt="x" src="//cdn.example/x.png">', outside_resources),
    "foreign style": ('<link rel="stylesheet" href="https://x.example/a.css">', outside_resources),
    "foreign font": ("<style>a{src:url(https://x.example/f.woff)}</style>", outside_resources),
    "missing picture": ('<img alt="x" src="gone.png">', missing_resources),
    "image without words": ('<img src="data:,">', images_without_words),
    "image named after its file": ('<img src="data:," alt="a/b.png">', images_without_words),
    "widget manager": ('<script src="data:,html-manager"></script>', widget_managers),
}
SOUND = '<a href="#here">x</a><a href="index.html#here">x</a><p id="here"><img src="data:," alt="a">'


@pytest.mark.parametrize("fault", PAGES)
def test_a_fault_of_a_page_is_seen(fault, tmp_path):
    text, check = PAGES[fault]
    folder = tmp_path / "site"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("")
    (folder / "index.html").write_text(SOUND)
    assert check(folder) == []
    (folder / "spoilt.html").write_text(SOUND + text)
    assert len(check(folder)) == 1


# --- the browser's checks ------------------------------------------------------------------------

TALL = "<!doctype html><html lang=en><title>x</title><link rel=icon href=data:,><main class=bd-article><h1>x</h1>%s</main>"
FAULTS = {
    "a request that leaves": ("<img alt=x src=https://x.example/y.png>", "outside"),
    "a request by script": ("<script>fetch('https://x.example').catch(e => e)</script>", "outside"),
    "an error on the console": ("<script>console.error('no')</script>", "console"),
    "a script that crashes": ("<script>throw Error('no')</script>", "crashes"),
    "a missing file": ("<script src=gone.js></script>", "failed"),
    "a formula left as TeX": ("<span class=math>\\(x\\)</span>", "maths"),
    "a line wider than the phone": ("<p style='width: 500px'>x</p>", "overflow"),
    "a button without a name": ("<button></button>", "axe"),
    "grey on grey": ("<p style='color: #999; background: #aaa'>Some words</p>", "axe"),
}


@pytest.fixture(scope="module")
def phone(tmp_path_factory):
    """A window on a folder of small pages, and the folder."""
    folder = tmp_path_factory.mktemp("pages")
    with chromium() as browser, served(folder) as home:
        yield Reader(browser, home, size="phone"), folder


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_fault_in_the_browser_is_seen(fault, phone):
    window, folder = phone
    text, attribute = FAULTS.get(fault, ("<p>Nothing wrong here.</p>", ""))
    name = f"{list(FAULTS).index(fault) if fault else 'sound'}.html"  # a browser may keep a page that it has seen
    (folder / name).write_text(TALL % text)
    window.open(name)
    window.page.wait_for_load_state("networkidle")
    seen = vars(window.audit("structure", "colour"))
    found = {name for name, value in seen.items() if value} - {"address", "formulas"}
    # What cannot be loaded is told on the console as well.
    echo = {"console", "failed"} if attribute in ("outside", "failed") else set()
    assert {attribute} - {""} <= found <= {attribute, *echo}


@pytest.mark.parametrize("ci", ["true", ""])
def test_without_a_browser_ci_fails_and_a_laptop_skips(ci):
    test = "tests/test_browser.py::test_the_front_door_leads_to_the_book"
    done = pytest_alone(test, CI=ci, BAYESWIND_CHROMIUM="/nowhere/chromium")
    assert "no Chromium (/nowhere/chromium)" in done.output
    assert done.code == (1 if ci else 0), done.tail()
    assert ("1 error" in done.output) if ci else ("1 skipped" in done.output)


def test_what_counts_as_ci():
    assert in_ci({"CI": "true"}) and in_ci({"CI": "1"})
    assert not in_ci({"CI": "false"}) and not in_ci({"CI": ""}) and not in_ci({})

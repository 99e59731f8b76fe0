"""What every notebook offers, and papermill's way to run one.

In `read` nbval runs every notebook in the stand-in of Colab (test_colab.py), and the build runs every cell; in
`smoke` test_canaries.py does.
"""

from __future__ import annotations

import pytest

from _support import CHAPTERS
from _support import notebooks as all_notebooks
from _support_notebooks import (
    UnknownParameter,
    branches_on,
    calls_of,
    code_cells,
    names_in,
    papermill,
    parameter_names,
    read,
    tagged,
    trains,
)


def test_there_is_a_notebook_for_every_chapter_and_audit_page():
    chapters = {path.stem for path in CHAPTERS.glob("*.md")}
    assert chapters, f"no chapter in {CHAPTERS}"
    assert {path.stem for path in all_notebooks()} == chapters


def test_one_parameters_cell(notebook):
    """A chapter has one cell of parameters, its preset is `read`; the device is open where it trains."""
    stored = read(notebook)
    (cell,) = tagged(stored, "parameters")
    values: dict = {}
    exec(compile(cell.source, notebook.name, "exec"), values)
    assert values["preset"] == "read"
    assert {"preset", "seed", "device", "steps"} <= parameter_names(notebook)
    if trains(stored):
        kept = {name: values[name] for name in ("device", "precision", "folder", "resume")}
        assert kept == {"device": "auto", "precision": "auto", "folder": None, "resume": True}
    else:
        assert values["device"] == "cpu" and "precision" not in values


def test_which_chapters_train():
    """At the size of a preset; networks of fixed, small size that a page trains in seconds stay on the CPU."""
    assert [path.stem[:2] for path in all_notebooks() if trains(read(path))] == ["03", "07", "19"]


def test_a_chapter_that_trains_uses_what_its_parameters_say(notebook):
    stored = read(notebook)
    if not trains(stored):
        return
    calls = [call for cell in code_cells(stored) for call in calls_of(cell.source, "train")]
    assert calls and all({"folder", "device", "resume"} <= names_in(call) for call in calls)
    others = [c.source for c in code_cells(stored) if c not in tagged(stored, "parameters")]
    assert any("precision=precision" in source for source in others)


def test_a_run_that_was_kept_is_gone_on_with(tmp_path, monkeypatch):
    """Chapter 3's own cells, twice with one folder: the second time not one update is computed."""
    import bayeswind_lib as bw

    stored = read(CHAPTERS / "03_training.ipynb")
    (parameters,) = tagged(stored, "parameters")
    cells = [c.source for c in code_cells(stored) if calls_of(c.source, "recipe") or calls_of(c.source, "train")]
    assert len(cells) == 2
    asked = {"preset": "smoke", "steps": 4, "folder": tmp_path / "run", "device": "cpu", "precision": "bfloat16"}

    def run_cells() -> dict:
        space = {"bw": bw}
        exec(parameters.source, space)
        space.update(asked)
        for source in cells:
            exec(source, space)
        return space["record"]

    first = run_cells()
    assert (first["steps"], first["recipe"]["precision"]) == (4, "bfloat16")
    monkeypatch.delattr(bw.training.loop, "update")
    again = run_cells()
    assert again["curve"] == first["curve"] and again["steps"] == 4


def test_a_preset_changes_parameters_only(notebook):
    """Outside the cell of parameters nothing branches on the preset's name."""
    stored = read(notebook)
    cells = [c for c in code_cells(stored) if c not in tagged(stored, "parameters")]
    found = [c.source.splitlines()[n - 1] for c in cells for n in branches_on(c.source, "preset")]
    assert not found, f"{notebook.name} branches on the preset: {found}"


def test_papermill_sets_the_preset_and_executes_every_cell(tmp_path):
    """`smoke` with the command a reader types; of all notebooks test_canaries.py runs each cell in `smoke`."""
    notebook = all_notebooks()[0]
    done = papermill(notebook, tmp_path, {"preset": "smoke"})
    assert done.finished.code == 0, done.finished.tail()
    assert [c.source for c in done.cells] == [c.source for c in code_cells(read(notebook))]
    assert any('preset = "smoke"' in c.source for c in code_cells(done.notebook))
    assert not done.stderr


def test_the_wrapper_refuses_an_unknown_parameter(tmp_path):
    """papermill would warn, run with the defaults and exit 0."""
    notebook = all_notebooks()[0]
    with pytest.raises(UnknownParameter, match="stepz.*steps"):
        papermill(notebook, tmp_path, {"preset": "smoke", "stepz": 3})
    assert not list(tmp_path.iterdir()), "something ran before the refusal"

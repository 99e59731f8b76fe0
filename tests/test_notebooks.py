"""What every notebook offers, and the commands that run one: papermill's, and the documented one for a GPU.

In `read` nbval runs every notebook in the stand-in of Colab (test_colab.py), and the build runs every cell; in
`smoke` test_canaries.py does.
"""

from __future__ import annotations

import pytest

from _support import CHAPTERS, ROOT, run, single_threaded
from _support import notebooks as all_notebooks
from _support_notebooks import (
    Executed,
    UnknownParameter,
    branches_on,
    check_parameters,
    code_cells,
    documented_commands,
    papermill,
    parameter_names,
    read,
    tagged,
)

PRESETS = ("smoke", "read", "classroom", "paper")


def test_there_is_a_notebook_for_every_chapter():
    chapters = {path.stem for path in CHAPTERS.glob("[0-9][0-9]_*.md")}
    assert chapters, f"no chapter in {CHAPTERS}"
    assert {path.stem for path in all_notebooks()} == chapters


def test_one_parameters_cell(notebook):
    """A chapter has one cell of parameters; its preset is `read`, its device the CPU."""
    (cell,) = tagged(read(notebook), "parameters")
    values: dict = {}
    exec(compile(cell.source, notebook.name, "exec"), values)
    assert (values["preset"], values["device"]) == ("read", "cpu")
    assert {"preset", "seed", "device", "steps"} <= parameter_names(notebook)


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


def documents():
    """Every document that may tell the reader to type a papermill command."""
    return [*ROOT.glob("*.md"), *CHAPTERS.glob("*.md"), *(ROOT / "book").rglob("*.md")]


def test_documented_commands_name_real_notebooks_and_parameters():
    commands = documented_commands(documents())
    assert commands, "no document shows a papermill command"
    for command in commands:
        assert command.notebook.is_file(), f"{command.document.name}: {' '.join(command.words)}"
        check_parameters(command.notebook, command.parameters)
        assert command.parameters.get("preset", "read") in PRESETS


def gpu_commands():
    """The documented commands that train at the published scale on a GPU."""
    wanted = {"preset": "paper", "device": "cuda"}.items()
    return [c for c in documented_commands(documents()) if wanted <= c.parameters.items()]


def test_the_gpu_command_is_documented_once_and_the_same_everywhere():
    assert {" ".join(c.words) for c in gpu_commands()}, "no documented command trains on a GPU"
    assert len({c.words for c in gpu_commands()}) == 1


def test_the_gpu_command_runs_with_few_steps_on_the_cpu(tmp_path, report_seconds):
    """The very words that the reader types, with `-p steps 3 -p device cpu` added at their end."""
    command = gpu_commands()[0]
    output = tmp_path / "executed.ipynb"
    words = list(command.words[command.words.index("papermill") + 1 :])
    places = [i for i, word in enumerate(words) if word.endswith(".ipynb")]
    assert len(places) == 2, "the command names a notebook and where the executed one goes"
    words[places[1]] = str(output)
    extra = ["-p", "steps", "3", "-p", "device", "cpu", "--no-progress-bar"]
    done = run(["python", "-m", "papermill", *words, *extra], cwd=ROOT, env=with_this_python())
    report_seconds("papermill, paper, 3 steps on the CPU", done.seconds)
    assert done.code == 0, done.tail()
    ran, stored = Executed(done, read(output)).cells, code_cells(read(command.notebook))
    assert [c.source for c in ran] == [c.source for c in stored]


def with_this_python() -> dict[str, str]:
    """An environment in which `python` is the interpreter that runs the tests."""
    import os
    import sys
    from pathlib import Path

    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return single_threaded(PATH=path)

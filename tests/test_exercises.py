"""The exercises of all chapters: stubs, hidden solutions, and checks that tell right from wrong.

For each exercise of `chapters/NN_*.md` the hidden solution must satisfy the check printed under
the stub, as it stands in the file. For each check `tests/answers/chNN.py` stores a different
correct answer (passes), one that only has the right shape (fails), and at least three usual
mistakes (each fails with a hint of its own).
"""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass

import bayeswind_lib as bw
import pytest
from _support import CHAPTERS, ROOT
from bayeswind_lib.exercises.core import Report, grade

FENCE = re.compile(r"^(`{3,}|~{3,})\{?([\w:-]+)\}?[ \t]*(.*)$")
TITLE = re.compile(r"^(?P<name>.+?) (?P<stars>[★☆]{3}) · (?P<minutes>\d+) min · objective (?P<objective>\d+)$")
CHECK = re.compile(r"bw\.exercises\.(ch\d\d)\.(check_\w+)\(")


@dataclass(frozen=True)
class Block:
    """A fenced block of a chapter: its kind ("code-cell", "exercise", ...), argument and text."""

    kind: str
    argument: str
    text: str

    @property
    def options(self) -> dict[str, str]:
        return dict(re.findall(r"^:([\w-]+):[ \t]*(.*)$", self.text, re.M))

    @property
    def code(self) -> str:
        """The text without the options at its top."""
        text = re.sub(r"\A---\n.*?\n---\n", "", self.text, flags=re.S)
        return re.sub(r"\A(:[\w-]+:.*\n)+", "", text)


@dataclass(frozen=True)
class Exercise:
    """One exercise as the chapter has it."""

    chapter: str
    label: str
    title: str
    stub: str
    solution: str
    setup: str

    @property
    def check(self) -> str:
        return CHECK.search(self.stub)[2]


def blocks(text: str) -> list[Block]:
    """The outermost fenced blocks of a MyST text, in order."""
    found, lines = [], iter(text.splitlines())
    for line in lines:
        opening = FENCE.match(line)
        if not opening:
            continue
        fence, body = opening[1], []
        for inner in lines:
            if inner.strip().startswith(fence) and not inner.strip().strip(fence[0]):
                break
            body.append(inner)
        found.append(Block(opening[2], opening[3].strip(), "\n".join(body)))
    return found


def imports(cells: list[Block]) -> str:
    """The import statements of the cells, which every solution may count on."""
    lines = []
    for cell in cells:
        tree = ast.parse(re.sub(r"^\s*[%!].*$", "", cell.code, flags=re.M) if "bootstrap" not in cell.text else "")
        lines += [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    return "\n".join(dict.fromkeys(lines))


def exercises_of(path) -> list[Exercise]:
    """All exercises of a chapter file; an AssertionError if one lacks its stub or its solution."""
    chapter, found = f"ch{path.name[:2]}", blocks(path.read_text())
    setup = imports([b for b in found if b.kind == "code-cell"])
    setup += "\n" + "\n".join(b.code for b in found if b.kind == "code-cell" and "[parameters" in b.text)
    solutions = {b.argument: b for b in found if b.kind == "solution"}
    result = []
    for place, block in enumerate(found):
        if block.kind != "exercise":
            continue
        label = block.options["label"]
        stub = next((b for b in found[place + 1 :] if b.kind in ("code-cell", "exercise")), None)
        assert stub and CHECK.search(stub.code), f"{path.name}: no cell with a check follows {label}"
        assert label in solutions, f"{path.name}: {label} has no solution"
        code = "\n".join(b.text for b in blocks(solutions[label].text) if b.kind == "python")
        assert code, f"{path.name}: the solution of {label} holds no ```python block"
        result.append(Exercise(chapter, label, block.argument, stub.code, code, setup))
    return result


PATHS = sorted(CHAPTERS.glob("[0-9][0-9]_*.md"))
EXERCISES = [e for path in PATHS for e in exercises_of(path)]
CHECKS = [
    (chapter, name)
    for chapter in bw.exercises.chapters()
    for name in vars(getattr(bw.exercises, chapter))
    if name.startswith("check_")
]
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.label)
each_check = pytest.mark.parametrize("chapter, name", CHECKS, ids=[".".join(c) for c in CHECKS])


def answers(chapter: str, name: str) -> dict:
    """The stored answers for a check."""
    return importlib.import_module(f"answers.{chapter}").ANSWERS[name]


def check(chapter: str, name: str):
    return getattr(getattr(bw.exercises, chapter), name)


def run_cell(code: str, namespace: dict):
    """Execute a cell; returns the value of its last line if that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace) if last else None


def fresh_namespace(exercise: Exercise) -> dict:
    namespace: dict = {}
    exec(exercise.setup, namespace)
    return namespace


# --- the chapters ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_chapter_has_six_exercises_that_cover_its_objectives(path):
    chapter = exercises_of(path)
    assert len(chapter) >= 6, f"{path.name} has {len(chapter)} exercises"
    titles = {e.label: TITLE.match(e.title) for e in chapter}
    bad = [e.title for e in chapter if not titles[e.label]]
    assert not bad, f"a title reads `Name ★★☆ · 10 min · objective 2`: {bad}"
    section = re.search(r"^## [^\n]*be able to do[^\n]*\n(.*?)(?=^## )", path.read_text(), re.M | re.S)
    assert section, f"{path.name} has no section on what the reader will be able to do"
    objectives = re.findall(r"^(\d)\. ", section[1], re.M)
    assert 1 <= len(objectives) <= 4, f"{path.name} has {len(objectives)} objectives, at most 4"
    assert set(objectives) == {t["objective"] for t in titles.values()}


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_every_check_of_a_chapter_is_used_once(path):
    used = sorted(e.check for e in exercises_of(path))
    assert used == sorted(name for chapter, name in CHECKS if chapter == f"ch{path.name[:2]}")


@each_exercise
def test_the_stub_is_not_attempted_yet(exercise):
    report = run_cell(exercise.stub, fresh_namespace(exercise))
    assert isinstance(report, Report) and not report.attempted and not report.passed


@each_exercise
def test_the_hidden_solution_passes_its_check(exercise):
    namespace = fresh_namespace(exercise)
    exec(compile(exercise.solution, exercise.label, "exec"), namespace)
    stub = ast.parse(exercise.stub).body
    defined = {n.name for n in stub if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    rest = [n for n in stub if getattr(n, "name", None) not in defined]
    report = run_cell(ast.unparse(ast.Module(rest, [])), namespace)
    assert defined <= namespace.keys(), f"the solution does not define {defined}"
    assert report.passed, str(report)


@each_exercise
def test_the_library_holds_no_answer_key(exercise):
    """No function of the checks has the body of a hidden solution."""
    module = ROOT / "bayeswind_lib" / "exercises" / f"{exercise.chapter}.py"
    theirs = {_body(n) for n in ast.walk(ast.parse(module.read_text())) if isinstance(n, ast.FunctionDef)}
    ours = [n for n in ast.parse(exercise.solution).body if isinstance(n, ast.FunctionDef)]
    assert not [n.name for n in ours if _body(n) in theirs]


def _body(function: ast.FunctionDef) -> str:
    """A function's statements without its docstring, as comparable text."""
    return "\n".join(ast.dump(n) for n in function.body if not isinstance(n, ast.Expr))


# --- the checks --------------------------------------------------------------------------------


def test_there_are_checks_to_test():
    assert CHECKS and {chapter for chapter, _ in CHECKS} == {f"ch{p.name[:2]}" for p in PATHS}


@each_check
def test_a_different_correct_answer_passes(chapter, name):
    report = check(chapter, name)(answers(chapter, name)["alternative"])
    assert report.passed, str(report)


@each_check
def test_a_stub_of_the_right_shape_fails(chapter, name):
    report = check(chapter, name)(answers(chapter, name)["shape_stub"])
    assert report.attempted and not report.passed
    assert "your code raises" not in report.hint, report.hint


@each_check
def test_usual_mistakes_fail_each_with_a_hint_of_its_own(chapter, name):
    wrong = answers(chapter, name)["wrong"]
    assert len(wrong) >= 3, f"{name} stores {len(wrong)} usual mistakes, at least 3"
    hints = []
    for number, (answer, words) in enumerate(wrong):
        report = check(chapter, name)(answer)
        assert report.attempted and not report.passed, f"mistake {number} ({words!r}) passes"
        assert words in report.hint, f"mistake {number}: {words!r} is not in {report.hint!r}"
        hints.append(report.hint)
    assert len(set(hints)) == len(hints), hints
    others = [(w, h) for i, (_, w) in enumerate(wrong) for j, h in enumerate(hints) if i != j and w in h]
    assert not others, f"words that do not tell the hints apart: {others}"


@each_check
def test_an_answer_without_return_gets_a_hint(chapter, name):
    report = check(chapter, name)(lambda *a, **k: None)
    assert report.attempted and not report.passed and report.hint


@each_check
def test_a_check_gives_the_same_report_twice(chapter, name):
    answer = answers(chapter, name)["wrong"][0][0]
    assert check(chapter, name)(answer) == check(chapter, name)(answer)


# --- the core ----------------------------------------------------------------------------------


def test_the_first_hint_wins_and_later_tests_do_not_run():
    ran = []
    report = grade("my_x", [lambda: ran.append(1), lambda: "first", lambda: ran.append(2)])
    assert report.hint == "first" and ran == [1] and str(report) == "✗ my_x\n  hint: first"


def test_a_stub_is_told_from_a_broken_answer():
    def stub():
        raise NotImplementedError

    def missing_kernel():
        raise NotImplementedError("no kernel for Half")

    assert str(grade("my_x", [stub])) == "○ my_x: not attempted yet"
    assert grade("my_x", [missing_kernel]).hint.startswith("your code raises NotImplementedError: no kernel")


def test_an_exception_becomes_a_hint_with_its_line():
    def answer():
        return {}["gone"]

    report = grade("my_x", [lambda: answer()])
    assert report.attempted and "KeyError" in report.hint and '{}["gone"]' in report.hint


def test_all_content_is_a_pass_and_no_test_is_an_error():
    assert str(grade("my_x", [lambda: None])) == "✓ my_x"
    with pytest.raises(ValueError, match="my_x has no tests"):
        grade("my_x", [])


def test_an_unknown_chapter_is_refused():
    with pytest.raises(AttributeError, match="ch99"):
        bw.exercises.ch99  # noqa: B018

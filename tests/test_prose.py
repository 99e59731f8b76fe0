"""No measured number is typed, and code fits on the page: the lint finds what is planted, pages have none."""

from __future__ import annotations

import json
import shutil

import pytest
from _support import CHAPTERS, ROOT
from prose_lint import drafted, hidden, lint, paragraphs, sprawl, unseen

import bayeswind_lib as bw
from bayeswind_lib.checkpoints import store

PAGES = sorted([*CHAPTERS.glob("*.md"), *(ROOT / "book").glob("*.md"), ROOT / "README.md"])
RESULT = "After training, the error is 0.0123 bits."


def test_there_are_pages_to_lint():
    assert {"ledger.md", "README.md"} <= {page.name for page in PAGES}
    assert sum(page.parent == CHAPTERS for page in PAGES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_number_is_typed(page):
    assert [str(finding) for finding in lint(page.read_text(), page.name)] == []


# Three pages that hold every kind of block between them: cells, theorems, exercises, tables, lists, notes.
@pytest.mark.parametrize("name", ["01_bayesian.md", "13_beliefs.md", "ledger.md"])
def test_a_result_typed_anywhere_in_a_page_is_found(name):
    """After every piece of prose in turn: nothing on the page may hide what follows it."""
    (page,) = (page for page in PAGES if page.name == name)
    text = page.read_text()
    lines = text.split("\n")
    places = [start + len(piece) - 1 for start, piece, _ in paragraphs(text)]
    assert places
    for place in places:
        changed = lines[:place] + ["", RESULT, ""] + lines[place:]
        findings = lint("\n".join(changed))
        in_options = not findings and _in_code(lines, place)
        assert in_options or [f.number for f in findings] == ["0.0123"], lines[place - 1]


def _in_code(lines: list[str], place: int) -> bool:
    """Whether a place is inside a code cell (a caption, or a title, stands there)."""
    fences = [line.strip() for line in lines[:place] if line.strip().startswith("```")]
    return bool(fences) and "{" in fences[-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_result_typed_at_the_end_of_a_page_is_found(page):
    """No page hides what comes after it has been read: no fence is left open."""
    assert [f.number for f in lint(f"{page.read_text()}\n\n{RESULT}\n")] == ["0.0123"]


@pytest.mark.parametrize(
    ("sentence", "number"),
    [
        (RESULT, "0.0123"),
        ("The error is $0.0123$ bits.", "0.0123"),
        ("The error is `0.0123` bits.", "0.0123"),
        ("It is right in 13 % of the cases.", "13 %"),
        ("It is right in 13.67 percent of the cases.", "13.67"),
        ("It is right in 14\\% of the cases.", "14\\%"),
        ("A KL divergence of 3e-4 remains.", "3e-4"),
        ("A KL divergence of $3 \\times 10^{-4}$ remains.", "3 \\times 10^{-4"),
        ("| network | 0.0123 |", "0.0123"),
        ("> quoted: 1.85 bits", "1.85"),
        ("- uniform: 1.107 bits", "1.107"),
        (":::{note}\nThe error is 0.0123 bits.\n:::", "0.0123"),
        ("```{figure} a.png\n:width: 50 %\n\nThe error is 0.0123 bits.\n```", "0.0123"),
        ("```{admonition} The error is 0.0123 bits\nText.\n```", "0.0123"),
        ("````{solution} ex\nIt scores 0.0123 bits.\n```python\nx = 0.5\n```\n````", "0.0123"),
        ("```{code-cell} ipython3\n---\nmystnb:\n  figure:\n    caption: >\n      Error 0.0123 bits.\n---\nx = 0.5\n```", "0.0123"),
    ],
)
def test_what_is_found(sentence, number):
    assert [finding.number for finding in lint(f"# Title\n\n{sentence}\n")] == [number]


@pytest.mark.parametrize(
    "sentence",
    [
        "The error is {glue:text}`error:.4f` bits, {glue:text}`share:.1f` % of the guess's.",
        "There are 20 values, 6 layers and 2,677,632 parameters; see chapter 3, section 4.1 and Table 2.3.",
        "Paper I is arXiv:2512.22471, of 2025; the text is under CC BY 4.0 and needs Python 3.11.",
        "Set `learning_rate=0.02` in the recipe.",
        "```{prf:definition}\nA coin is fair if $p = 0.5$.\n```",
        "```{exercise} Leak\n:label: ex\nLet $\\epsilon = 0.01$.\n```",
        "Let 0.9 of the mass stay. <!-- definition: the leak is chosen so -->",
        "```{code-cell} ipython3\nassert error < 0.0123\n```",
        "```python\nx = 0.5\n```",
        "$$\nx = 0.5\n$$",
        "$$ x = 0.5 $$ (eq-a)",
        "```{math}\n:label: eq\n0.5\n```",
    ],
)
def test_what_is_allowed(sentence):
    assert lint(f"---\nversion: 0.13\n---\n# Title\n\n{sentence}\n") == []


def test_a_mark_covers_its_own_paragraph_only():
    text = "Chosen: 0.9. <!-- definition: chosen -->\n\nMeasured: 0.8."
    assert [finding.number for finding in lint(text)] == ["0.8"]
    assert [finding.number for finding in lint("Chosen: 0.9. <!-- definition: -->")] == ["0.9"]


def test_a_finding_names_the_line():
    assert [finding.line for finding in lint("# A\n\none\ntwo 0.5\n\n```python\n0.1\n```\nthree 0.7\n")] == [4, 9]


def test_hiding_keeps_the_lines():
    assert hidden("a {glue:text}`x\ny` b\nc", False).count("\n") == 2


# -- code fits on the page


SOURCES = [*PAGES, *(path for kind in ("py", "toml", "js", "json") for path in (ROOT / "bayeswind_lib").rglob(f"*.{kind}")),
           *(ROOT / "book").rglob("*.toml"), *(ROOT / "book" / "tools").glob("*.py")]


def test_sources_say_what_the_field_says():
    """Pages, code, claims and stored records, and the names of their files."""
    assert {"claims.toml", "hmm_baselines.json", "glossary.toml", "02_tunnel.md"} <= {path.name for path in SOURCES}
    found = [line for path in SOURCES for line in drafted(f"{path.name}\n{path.read_text()}", path.name)]
    assert found == [], "\n".join(found[:20])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The wide one falls through all the rungs, to 0.01 bits.", "rungs"),
        ("two components hold as much, a Twin with random weights has as much", "Twin"),
        ("One predictor looks only at the symbol\nof the moment.", "symbol of the moment"),
        ('record = "hmm_rungs"', "rungs"), ('"handed_on_2": {', "handed_on"),
        ("wrung, intertwined, twinkle, strung", ""),
    ],
)  # fmt: skip
def test_a_word_of_the_drafts_is_found(text, word):
    assert [line.split("'")[1] for line in drafted(text)] == [word] * bool(word)


CELL = "```{code-cell} ipython3\n%s%s\n```\n"
HIDDEN = ":tags: [hide-input]\n\n"
FIGURE = "---\nmystnb:\n  figure:\n    caption: |\n      %s\n---\n"


@pytest.mark.parametrize("path", sorted(CHAPTERS.glob("[0-9][0-9]_*.md")), ids=lambda path: path.stem)
def test_code_fits_on_the_page(path):
    """Visible lines of at most 72 characters, visible cells of at most 20 lines that are not blank."""
    assert "{code-cell}" in path.read_text()
    assert sprawl(path.read_text(), path.name) == []


def test_a_planted_long_line_is_found():
    for options in ("", ":tags: [remove-output]\n\n", FIGURE % "What hide-input does."):
        assert sprawl(CELL % (options, "x" * 72)) == []
        (finding,) = sprawl("# Title\n\n" + CELL % (options, "x\n" + "y" * 73), "a.md")
        line = 5 + options.count("\n")
        assert finding.startswith(f"a.md:{line}: 73 characters, at most 72: yyy")


def test_a_planted_long_cell_is_found():
    twenty = "\n\n".join("x" * 20)  # blank lines do not count
    assert sprawl(CELL % ("", twenty)) == []
    for options in ("", FIGURE % "A caption of its own."):
        (finding,) = sprawl(CELL % (options, twenty + "\nx"), "a.md")
        line = 2 + options.count("\n")
        assert finding == f"a.md:{line}: a visible cell of 21 lines, at most 20"


@pytest.mark.parametrize(
    "options",
    [HIDDEN, ":tags: [bootstrap, remove-cell]\n\n", "---\ntags: [hide-input]\n---\n", "---\ntags:\n  - hide-input\n---\n"],
)
def test_hidden_code_may_be_wider_and_longer(options):
    assert sprawl(CELL % (options, "\n".join(["x" * 110] * 40))) == []
    (finding,) = sprawl(CELL % (options, "x" * 111))
    assert "111 characters, at most 110" in finding


@pytest.mark.parametrize("path", sorted(CHAPTERS.glob("*.md")), ids=lambda path: path.stem)
def test_every_table_is_shown(path):
    assert unseen(path.read_text(), path.name) == []


def test_a_planted_table_that_is_not_shown_is_found():
    shown = CELL % (HIDDEN, "x = 1\nbw.figures.table(\n    [])")
    assert unseen(shown) == []
    lost = CELL % (HIDDEN, "x = 1\nbw.figures.table(\n    [])\nassert x")
    assert unseen("# Title\n\n" + lost, "a.md") == ["a.md:7: a table that is not the last thing in its cell is not shown"]


# -- a record that changes, changes what is printed


@pytest.fixture
def changed_records(tmp_path, monkeypatch):
    """A copy of the stored records in which one network's error is tripled; its old and new value."""
    folder = tmp_path / "records"
    shutil.copytree(store.records_folder(), folder)
    path = folder / "networks.json"
    record = json.loads(path.read_text())
    scores = record["networks"]["bijection-transformer"]["0"]["scores"]
    old, scores["entropy_mae"] = scores["entropy_mae"], 3 * scores["entropy_mae"]
    path.write_text(json.dumps(record))
    monkeypatch.setenv("BAYESWIND_RECORDS", str(folder))
    return old, scores["entropy_mae"]


def test_a_changed_record_changes_the_ledger(changed_records):
    old, new = changed_records
    assert bw.ledger.row("bijection-transformer-v1")["measured"] == pytest.approx(new, rel=1e-9)
    line = next(x for x in bw.ledger.main_table().splitlines() if x.startswith("bijection-transformer-v1 "))
    was, now = (f"{value:.7f}"[:7] for value in (old, new))  # all printed digits but the last ones
    assert now in line and was not in line
    html = bw.ledger.table("bijection-transformer-v1")._repr_html_()
    assert now in html and was not in html


def test_a_changed_record_changes_glued_prose(changed_records):
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    _, new = changed_records
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            bw.ledger.glue("bijection-transformer-v1")
    finally:
        InteractiveShell.clear_instance()
    glued = {out.metadata["scrapbook"]["name"]: out.data for out in captured.outputs}
    assert set(glued) == {f"bijection-transformer-v1-{x}" for x in ("published", "measured", "standard-error", "null")}
    stored = glued["bijection-transformer-v1-measured"]["application/papermill.record/text/plain"]
    assert float(stored) == pytest.approx(new, rel=1e-9)

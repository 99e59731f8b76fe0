"""Make chapters/*.ipynb (for Colab, Jupyter and the tests) from chapters/*.md: one way, no outputs.

    python book/tools notebooks            build the book, write what is out of step
    python book/tools notebooks --check    write nothing; exit 1 if anything is out of step

The numbers in the text come from the book's build (`_build/labels.json`), which comes first.
A notebook whose text agrees and whose numbers agree within a tolerance
is left alone: another processor must not rewrite it. Nobody edits an .ipynb.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import jupytext
import nbformat
from pybtex.database import parse_file

from . import address
from .plain_markdown import Book, agrees, caption, left_over, plain, settle

METADATA = {
    "colab": {"provenance": []},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# A chapter that trains at a preset's size leaves the device open; only it asks Colab for a GPU.
GPU = {"accelerator": "GPU", "colab": {"gpuType": "T4", "provenance": []}}
OPEN_DEVICE = re.compile(r'^device = "auto"', re.M)
# What is folded on the page is folded in JupyterLab and, as a form with a title, on Colab.
FOLDED = {
    "hide-input": {"jupyter": {"source_hidden": True}, "cellView": "form"},
    "bootstrap": {"jupyter": {"source_hidden": True}, "cellView": "form"},
    "hide-output": {"jupyter": {"outputs_hidden": True}},
}
HEAD = """\
*This notebook is made from [{title}]({page}), a chapter of [{book}]({site}). It runs from top to \
bottom as it is; the cell tagged `parameters` sets how much is computed.*"""


def citations(bibliography: Path) -> dict[str, tuple[str, str]]:
    """Bibliography key -> (authors as they are cited, year)."""
    found = {}
    for key, entry in parse_file(str(bibliography)).entries.items():
        people = entry.persons.get("author", [])
        names = [" ".join(map(str, person.rich_last_names)) for person in people]
        authors = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
        found[key] = (authors, entry.fields["year"])
    return found


def read_build(root: Path) -> dict:
    """What the book's build wrote down.

    Raises:
        FileNotFoundError: if the book was not built yet.
    """
    path = root / "_build" / "labels.json"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: build the book first (make book)")
    return json.loads(path.read_text("utf-8"))


def book_for(document: str, build: dict, root: Path, cites: dict) -> Book:
    """What the converter has to know for one chapter."""
    return Book(
        site=address.site(root),
        document=document,
        labels=build["labels"],
        pages=build["pages"],
        citations=cites,
        glued=build["glue"],
        repository_file=address.file("", root),
    )


def cells_of(notebook, book: Book, bootstrap: str) -> list:
    """The cells of a notebook, marks around glued values still in place."""
    cells = []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            text = plain(cell.source, book)
            cells += [nbformat.v4.new_markdown_cell(text)] if text else []
        elif "bootstrap" in tags:
            if cell.source.strip() != address.PLACEHOLDER:
                book.problem("the bootstrap cell is not the one in book/tools/address.py")
            cells.append(code_cell(bootstrap, cell))
        elif "remove-cell" not in tags:
            cells.append(code_cell(cell.source, cell))
            cells += caption_cell(cell, book)
    return cells


def code_cell(source: str, cell):
    """A code cell with its tags, folded where the page folds it, without what only Sphinx reads."""
    metadata = {k: v for k, v in cell.metadata.items() if k != "mystnb"}
    for tag in metadata.get("tags", []):
        metadata |= FOLDED.get(tag, {})
    if "cellView" in metadata and not source.startswith("#@title"):
        source = f"#@title {fold_title(source)}\n{source}"
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def fold_title(source: str) -> str:
    """What Colab shows in place of a folded cell.

    The first sentence of its first function, else its first comment, else of what kind it is.

    >>> fold_title("def dice(n):\\n    'A generator of random numbers.'")
    'A generator of random numbers'
    >>> fold_title("glue('kl', score.kl)"), fold_title("assert score.kl < 1")
    ('Numbers for the text', 'Checks')
    """
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a line of IPython's own
        body = []
    named = [node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    if words := next(filter(None, map(ast.get_docstring, named)), ""):
        return words.splitlines()[0].rstrip(".")
    if source.startswith("# "):
        return source.splitlines()[0].removeprefix("# ").rstrip(".")
    if "glue(" in source:
        return "Numbers for the text"
    return "Checks" if source.startswith("assert") else "Code"


def caption_cell(cell, book: Book) -> list:
    """The caption of a cell's figure, as a Markdown cell after it."""
    figure = cell.metadata.get("mystnb", {}).get("figure", {})
    if "caption" not in figure:
        return []
    entry = book.label(figure["name"]) if "name" in figure else None
    return [nbformat.v4.new_markdown_cell(caption(entry, figure["caption"], book))]


def check_shape(cells: list, book: Book) -> None:
    """One bootstrap cell, before all other code; nothing of MyST left in the text."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    boots = [i for i, cell in enumerate(code) if "bootstrap" in cell.metadata.get("tags", [])]
    if boots != [0]:
        book.problem("exactly one cell must be tagged bootstrap, and be the first code cell")
    for cell in cells:
        if cell.cell_type == "markdown":
            book.problems += [f"left over in the text: {rest}" for rest in left_over(cell.source)]


def convert(source: Path, book: Book, root: Path = address.ROOT) -> nbformat.NotebookNode:
    """The notebook of a chapter, with glued values between marks; see `book.problems`."""
    notebook = jupytext.read(source)
    cells = cells_of(notebook, book, address.bootstrap_cell(root))
    check_shape(cells, book)
    title = book.pages.get(book.document, {}).get("title", book.document)
    head = HEAD.format(
        title=title, page=book.page(book.document), site=book.site,
        book=address.settings(root)["title"],
    )  # fmt: skip
    cells.insert(0, nbformat.v4.new_markdown_cell(head))
    for index, cell in enumerate(cells):
        cell.id = hashlib.sha256(f"{source.stem}/{index}".encode()).hexdigest()[:8]
    settings = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    asks = any(map(OPEN_DEVICE.search, settings))
    metadata = json.loads(json.dumps(METADATA | (GPU if asks else {})))
    made = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    made.nbformat_minor = 5
    nbformat.validate(made)
    return made


def as_text(notebook) -> str:
    """A notebook as it is committed: sorted keys, one line of text a line, no marks."""
    split = json.loads(json.dumps(notebook))
    for cell in split["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    return settle(json.dumps(split, indent=1, ensure_ascii=False, sort_keys=True)) + "\n"


def bare(notebook: dict) -> dict:
    """A notebook without the texts of its cells."""
    cells = [{k: v for k, v in cell.items() if k != "source"} for cell in notebook["cells"]]
    return {**notebook, "cells": cells}


def difference(made, path: Path) -> str | None:
    """None if the kept notebook agrees with the one just made; otherwise what differs."""
    if not path.is_file():
        return "missing"
    kept = json.loads(path.read_text("utf-8"))
    fresh = json.loads(json.dumps(made))
    if bare(fresh) != bare(kept):
        return "its cells or metadata are out of step"
    for number, (new, old) in enumerate(zip(fresh["cells"], kept["cells"], strict=True)):
        if words := agrees(new["source"], "".join(old["source"])):
            return f"cell {number}: {words}"
    return None


def strays(root: Path) -> list[Path]:
    """Notebooks that no chapter makes."""
    chapters = {path.with_suffix(".ipynb") for path in (root / "chapters").glob("*.md")}
    return sorted(set((root / "chapters").glob("*.ipynb")) - chapters)


def make(root: Path = address.ROOT, check: bool = False) -> list[str]:
    """Make or check all notebooks, README.md and CITATION.cff; returns the problems in words."""
    build, problems = read_build(root), []
    cites = citations(root / "book/references.bib")
    for document in address.documents(root):
        source = root / f"{document}.md"
        book = book_for(document, build, root, cites)
        made = convert(source, book, root)
        problems += [f"{source.relative_to(root)}: {words}" for words in book.problems]
        path = source.with_suffix(".ipynb")
        words = difference(made, path)
        if words and check:
            problems.append(f"{path.relative_to(root)}: {words}")
        elif words and not book.problems:
            path.write_text(as_text(made), "utf-8")
            print(f"made {path.relative_to(root)}")
    problems += [f"{path.relative_to(root)}: no chapter makes it" for path in strays(root)]
    stale = address.refresh(root, check)
    return problems + [f"{name}: its made lines are out of step" for name in stale if check]


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's first lines."""
    parser = argparse.ArgumentParser(description=re.sub(r"\n.*", "", __doc__, flags=re.S))
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    problems = make(check=parser.parse_args(words).check)
    for words in problems:
        print(words, file=sys.stderr)
    if problems:
        print("run `make notebooks` and commit what it writes", file=sys.stderr)
    return 1 if problems else 0

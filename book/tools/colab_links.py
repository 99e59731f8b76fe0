"""Where the book's Colab buttons lead: each must open a notebook that is there, at the right tag.

    python book/tools colab-links     say what is wrong with the built book's links

A button is an address such as HOST/github/OWNER/NAME/blob/TAG/chapters/01_name.ipynb. Colab asks
GitHub for that file at that tag. Here the same question is put to a clone, with git.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.validator import iter_validate

from . import address

LINK = re.compile(r"""<a\b[^>]*?\bhref\s*=\s*["']([^"']*)["']""")


def links(site: Path, root: Path = address.ROOT) -> dict[str, list[str]]:
    """Every link of the built book that leads to Colab, by page."""
    host = address.settings(root)["launch_buttons"]["colab_url"].rstrip("/") + "/"
    pages = {path.relative_to(site).as_posix(): path for path in sorted(site.rglob("*.html"))}
    found = {
        name: sorted({html.unescape(x) for x in LINK.findall(path.read_text("utf-8")) if host in x})
        for name, path in pages.items()
        if not name.startswith("_")
    }
    return {name: those for name, those in found.items() if those}


def place(link: str, root: Path = address.ROOT) -> tuple[str, str]:
    """The tag and the path that a link asks for.

    Raises:
        ValueError: if it leads elsewhere than to this repository at this version's tag.
    """
    start = address.colab_start(root)
    if not link.startswith(start):
        raise ValueError(f"{link}: does not begin with {start}")
    tag, _, path = link.removeprefix(start).partition("/")
    if tag != address.tag(root):
        raise ValueError(f"{link}: opens {tag}, but the library is {address.tag(root)}")
    return tag, path


def content(link: str, repository: Path, root: Path = address.ROOT) -> bytes:
    """What the link opens: the file, as the repository holds it at the tag.

    Raises:
        ValueError: if there is no such tag or no such file at it.
    """
    tag, path = place(link, root)
    # Full names, so that a branch which is called like the tag is not taken for it.
    command = ["git", "-C", str(repository), "cat-file", "blob", f"refs/tags/{tag}:{path}"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"{link}: no {path} at the tag {tag}: {done.stderr.decode().strip()}")
    return done.stdout


def notebook(link: str, repository: Path, root: Path = address.ROOT) -> nbformat.NotebookNode:
    """The notebook that the link opens, validated.

    Raises:
        ValueError: as `content`, and if the file is no valid notebook.
    """
    file = content(link, repository, root)
    try:
        stored = json.loads(file)
    except ValueError as problem:
        raise ValueError(f"{link}: no valid notebook: {problem}") from problem
    # Reading it with nbformat would repair what it can, and only warn.
    stored = stored if isinstance(stored, dict) else {}
    if problem := next(iter_validate(stored), None):
        raise ValueError(f"{link}: no valid notebook: {problem}")
    return nbformat.reads(file.decode("utf-8"), as_version=4)


def problems(site: Path, repository: Path, root: Path = address.ROOT) -> list[str]:
    """What is wrong with the Colab links of a built book, in words."""
    by_page, found, wrong = links(site, root), [], {}
    for link in sorted({link for those in by_page.values() for link in those}):
        try:
            notebook(link, repository, root)
        except ValueError as problem:
            wrong[link] = str(problem)
    for page, those in by_page.items():
        found += [f"{page}: {wrong[link]}" for link in those if link in wrong]
    for document in address.documents(root):
        if address.colab(f"{document}.ipynb", root) not in by_page.get(f"{document}.html", []):
            found.append(f"{document}.html: no link to its own notebook")
    return found


def main(words: Sequence[str] = ()) -> int:
    """Say what is wrong; 1 if anything is."""
    wrong = problems(address.ROOT / "_build/html", address.ROOT)
    print("\n".join(wrong) or "every Colab link opens a notebook at its tag")
    return 1 if wrong else 0

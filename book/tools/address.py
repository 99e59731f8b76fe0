"""The book's public address, read from the one place that holds it.

That place is `repository.url` in `_config.yml`.

Every link, badge, Colab button and install line is made here. `python book/tools address` prints
what follows from it; lines in README.md and CITATION.cff that carry it stand between markers and
are written by `make notebooks` (`refresh` below).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

import yaml

from . import ROOT

MADE = {"README.md": ("<!-- made: {} -->", "<!-- end -->"), "CITATION.cff": ("# made: {}", "# end")}

# What stands in a chapter's .md in place of the cell that a notebook gets.
PLACEHOLDER = """\
# On Colab this cell first installs the helper package; `make notebooks` writes that line.
import bayeswind_lib"""

BOOTSTRAP = """\
#@title Setup: adds the helper package on Colab, does nothing in a checkout of the book
import importlib.util

from IPython.utils.capture import capture_output


class NotInstalled(ImportError):
    def _render_traceback_(self):
        return [str(self)]


if importlib.util.find_spec("bayeswind_lib") is None:
    with capture_output():
        %pip install -q --no-deps "bayeswind-lib @ git+{repository}@{tag}"
    importlib.invalidate_caches()
if importlib.util.find_spec("bayeswind_lib") is None:
    raise NotInstalled(
        "The book's helper package could not be installed from {repository} (version {tag}): "
        "check that the address opens in a browser, then run this cell again."
    )
import bayeswind_lib"""


@cache
def parsed(path: Path, changed: int) -> dict:
    """A YAML file; read again when the time of its last change differs."""
    return yaml.safe_load(path.read_text("utf-8"))


def settings(root: Path = ROOT) -> dict:
    """The book's configuration file as a dictionary."""
    path = root / "_config.yml"
    return parsed(path, path.stat().st_mtime_ns)


def repository(root: Path = ROOT) -> str:
    """The address of the repository, without a slash at its end."""
    return settings(root)["repository"]["url"].rstrip("/")


def site(root: Path = ROOT) -> str:
    """The address of the published book, with a slash at its end.

    Raises:
        ValueError: if the repository is not of the form https://github.com/OWNER/NAME.
    """
    match = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", repository(root))
    if not match:
        raise ValueError(f"_config.yml: {repository(root)} is not https://github.com/OWNER/NAME")
    owner, name = match.groups()
    return f"https://{owner}.github.io/{name}/"


def page(document: str, anchor: str = "", root: Path = ROOT) -> str:
    """The address of a published page, by its name in `_toc.yml`."""
    return f"{site(root)}{document}.html" + (f"#{anchor}" if anchor else "")


def file(path: str, root: Path = ROOT) -> str:
    """The address of a file in the repository."""
    return f"{repository(root)}/blob/{settings(root)['repository']['branch']}/{path}"


def version(root: Path = ROOT) -> str:
    """The library's version, read from its source: importing it would import torch."""
    source = (root / "bayeswind_lib" / "__init__.py").read_text("utf-8")
    return re.search(r'^__version__ = "([^"]+)"', source, re.M)[1]


def tag(root: Path = ROOT) -> str:
    """The tag of this version: what notebooks install, and what Colab buttons open."""
    return f"v{version(root)}"


def colab_start(root: Path = ROOT) -> str:
    """How every address begins that opens a notebook of the repository on Colab."""
    host = settings(root)["launch_buttons"]["colab_url"].rstrip("/")
    owner_and_name = repository(root).split("/", 3)[3]
    return f"{host}/github/{owner_and_name}/blob/"


def colab(notebook: str, root: Path = ROOT) -> str:
    """The address that opens a notebook on Colab, at the tag of the library that it installs.

    A branch would move on: a reader would get next month's text with last month's library.
    """
    return f"{colab_start(root)}{tag(root)}/{notebook}"


def workflow(name: str, root: Path = ROOT) -> str:
    """The address of a workflow's runs, by the name of its file."""
    return f"{repository(root)}/actions/workflows/{name}"


def badge(root: Path = ROOT) -> str:
    """The address of the picture that says when all notebooks last ran in Colab's image.

    shields.io draws it from a file that the workflow writes to the branch `badges`.
    """
    owner_and_name = repository(root).split("/", 3)[3]
    data = f"https://raw.githubusercontent.com/{owner_and_name}/badges/colab.json"
    return f"https://img.shields.io/endpoint?url={quote(data, safe='')}"


def bootstrap_cell(root: Path = ROOT) -> str:
    """The first code cell of every notebook: adds exactly one package, at the book's version."""
    return BOOTSTRAP.format(repository=repository(root), tag=tag(root))


def documents(root: Path = ROOT) -> list[str]:
    """The chapters in the order of `_toc.yml`, as `chapters/NN_name`."""
    toc = yaml.safe_load((root / "_toc.yml").read_text("utf-8"))
    files = [entry["file"] for part in toc["parts"] for entry in part["chapters"]]
    return [name for name in files if name.startswith("chapters/")]


def chapter_title(document: str, root: Path = ROOT) -> str:
    """The first heading of a chapter."""
    source = (root / f"{document}.md").read_text("utf-8")
    return re.search(r"^# (.+)$", source, re.M)[1].strip()


def chapter_table(root: Path = ROOT) -> str:
    """README's list of chapters: page and Colab link of each."""
    rows = ["| chapter | read | run |", "| --- | --- | --- |"]
    for number, name in enumerate(documents(root), 1):
        read, run = page(name, root=root), colab(f"{name}.ipynb", root)
        title = chapter_title(name, root)
        rows.append(f"| {number}. {title} | [page]({read}) | [Colab]({run}) |")
    return "\n".join(rows)


def made_parts(root: Path = ROOT) -> dict[str, dict[str, str]]:
    """What stands between the markers: file -> name of the part -> its text."""
    return {
        "README.md": {
            "chapters": chapter_table(root),
            "site": f"**[Read the book]({site(root)})**",
            "badge": f"[![Notebooks in Colab's image: date of the last run in which all passed]"
            f"({badge(root)})]({workflow('colab.yml', root)})",
        },
        "CITATION.cff": {
            "address": f'repository-code: "{repository(root)}"\nurl: "{site(root)}"\n'
            f'version: "{version(root)}"'
        },
    }


def refreshed(name: str, root: Path = ROOT) -> str:
    """The text of a file with every made part written anew.

    Raises:
        ValueError: if a part's markers are missing.
    """
    text = (root / name).read_text("utf-8")
    for part, content in made_parts(root)[name].items():
        opening, closing = MADE[name][0].format(part), MADE[name][1]
        pattern = re.escape(opening) + r"\n.*?" + re.escape(closing)
        block = f"{opening}\n{content}\n{closing}"
        text, count = re.subn(pattern, lambda _, block=block: block, text, flags=re.S)
        if count != 1:
            raise ValueError(f"{name}: {count} places for the part {part!r}, expected one")
    return text


def refresh(root: Path = ROOT, check: bool = False) -> list[str]:
    """Write the made parts of README.md and CITATION.cff; returns what was out of step."""
    stale = []
    for name in made_parts(root):
        text = refreshed(name, root)
        if text != (root / name).read_text("utf-8"):
            stale.append(name)
            if not check:
                (root / name).write_text(text, "utf-8")
    return stale


def main(words: Sequence[str] = ()) -> int:
    """Print what follows from the address."""
    print(f"repository  {repository()}\nsite        {site()}\n\n{bootstrap_cell()}")
    return 0

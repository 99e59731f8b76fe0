"""The book's public address, read from the one place that holds it.

That place is `repository.url` in `_config.yml`.

Every link, badge, Colab button and install line is made here. `python book/tools address` prints
what follows from it; lines in README.md and CITATION.cff that carry it stand between markers and
are written by `make notebooks` (`refresh` below).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

import yaml

from . import ROOT

MADE = {"README.md": ("<!-- made: {} -->", "<!-- end -->"), "CITATION.cff": ("# made: {}", "# end")}

ADDRESS = re.compile(
    r"https://github\.com/(?P<owner>[a-z\d](?:[a-z\d-]{0,37}[a-z\d])?)/(?P<name>(?!\.\.?$)[\w.-]{1,100})",
    re.ASCII | re.IGNORECASE,
)
INSTALLED = re.compile(r"git\+(https://github\.com/[^@\"\\]+)@")  # in a notebook's first cell

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


def parsed_address(text: str) -> tuple[str, str]:
    """(owner, name) of a repository on GitHub, from any of the ways in which its address is copied.

    Raises:
        ValueError: if it is not the address of a repository on GitHub.
    """
    plain = text.strip().replace("git@github.com:", "https://github.com/", 1)
    match = ADDRESS.fullmatch(plain.removesuffix("/").removesuffix(".git"))
    if not match:
        raise ValueError(f"{text.strip()!r} is not https://github.com/OWNER/NAME")
    return match["owner"], match["name"]


def repository(root: Path = ROOT) -> str:
    """The address of the repository, https://github.com/OWNER/NAME.

    Raises:
        ValueError: if `_config.yml` holds another form.
    """
    url = settings(root)["repository"]["url"].rstrip("/")
    canonical = "https://github.com/" + "/".join(parsed_address(url))
    if url != canonical:
        raise ValueError(f"_config.yml: write {canonical} instead of {url}")
    return canonical


def site(root: Path = ROOT) -> str:
    """The address of the published book, with a slash at its end.

    Raises:
        ValueError: if the repository is not of the form https://github.com/OWNER/NAME.
    """
    return site_of(*parsed_address(repository(root)))


def site_of(owner: str, name: str) -> str:
    """Where GitHub publishes a repository: OWNER.github.io itself, any other in a folder of it."""
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


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
    """Chapters and audit pages (`chapters/audit_name`) in the order of `_toc.yml`."""
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
        place = "" if "/audit_" in name else f"{number}. "
        title = place + chapter_title(name, root)
        rows.append(f"| {title} | [page]({read}) | [Colab]({run}) |")
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


def moved(text: str, old: tuple[str, str], new: tuple[str, str]) -> str:
    """A notebook's text with every address of one repository replaced by another's."""
    pairs = [
        ("https://github.com/{}/{}".format(*old), "https://github.com/{}/{}".format(*new)),
        ("/github/{}/{}/blob".format(*old), "/github/{}/{}/blob".format(*new)),
        (site_of(*old).rstrip("/"), site_of(*new).rstrip("/")),
    ]
    for was, will_be in pairs:
        text = re.sub(rf"{re.escape(was)}(?![\w-])", will_be, text)
    return text


def change(text: str, root: Path = ROOT) -> list[str]:
    """Give the book another public address, everywhere; returns the files that changed.

    Raises:
        ValueError: if it is not the address of a repository on GitHub; nothing is changed then.
    """
    new = parsed_address(text)
    config, changed = root / "_config.yml", []
    line = "  url: https://github.com/" + "/".join(new)
    pattern = r"(?m)^(?<=^repository:\n)  url: .*$"
    files = {config: re.sub(pattern, line, config.read_text("utf-8"), count=1)}
    for path in sorted((root / "chapters").glob("*.ipynb")):
        kept = path.read_text("utf-8")
        found = INSTALLED.search(kept)
        files[path] = moved(kept, parsed_address(found[1]), new) if found else kept
    for path, content in files.items():
        if content != path.read_text("utf-8"):
            path.write_text(content, "utf-8")
            changed.append(path.relative_to(root).as_posix())
    return changed + refresh(root)


def main(words: Sequence[str] = ()) -> int:
    """Print what follows from the address; with another address, change it first."""
    parser = argparse.ArgumentParser(prog="python book/tools address", description=main.__doc__)
    parser.add_argument("address", nargs="?", help="https://github.com/OWNER/NAME")
    given = parser.parse_args(words)
    if given.address:
        try:
            changed = change(given.address)
        except ValueError as problem:
            print(f"error: {problem}", file=sys.stderr)
            return 2
        print(f"{len(changed)} files changed: {', '.join(changed) or 'none'}")
        print("next: build the book (its pages carry it too), commit, and tag: LAUNCH.md\n")
    print(f"repository  {repository()}\nsite        {site()}\n\n{bootstrap_cell()}")
    return 0

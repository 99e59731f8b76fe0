"""Whether the book is ready to be published from its repository: what LAUNCH.md lists, checked.

    python book/tools launch          each step: done, to do, or not to be seen from here
    python book/tools launch --pin    replace the tags of GitHub's actions by the commits they name

Offline, whatever lies on GitHub cannot be seen; the command then says where to look. The exit code
is 1 while something is to do.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import ROOT, address, colab_links

DONE, TO_DO, UNSEEN = "done", "TO DO", "not seen from here"
WORKFLOWS = ("ci.yml", "colab.yml")
USES = re.compile(
    r"(?P<before>uses: )(?P<action>[\w.-]+/[\w.-]+)(?P<path>[\w./-]*)@(?P<ref>[\w.-]+)"
)
COMMIT = re.compile(r"[0-9a-f]{40}")
Found = tuple[str, str]  # one of the three words, and what to do or what was seen


def ask(*words: str, root: Path = ROOT) -> str | None:
    """What a command prints; None if it fails, is not there, or takes long."""
    try:
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def gh(path: str, field: str, root: Path = ROOT) -> str | None:
    """A field of what GitHub says about the repository, with the command `gh`; None without."""
    if shutil.which("gh") is None:
        return None
    owner_and_name = "/".join(address.parsed_address(address.repository(root)))
    return ask("gh", "api", f"repos/{owner_and_name}{path}", "--jq", field, root=root)


def own_address(root: Path) -> Found:
    """The address in the book is the one that the clone was made from."""
    origin = ask("git", "config", "--get", "remote.origin.url", root=root) or ""
    try:
        there = address.parsed_address(origin)
    except ValueError:
        return UNSEEN, f"origin is not on GitHub; the book says {address.repository(root)}"
    if there == address.parsed_address(address.repository(root)):
        return DONE, address.repository(root)
    return TO_DO, f"python book/tools address https://github.com/{'/'.join(there)}"


def in_step(root: Path) -> Found:
    """README, citation and notebooks carry that address and this version."""
    stale = address.refresh(root, check=True)
    line = f'"bayeswind-lib @ git+{address.repository(root)}@{address.tag(root)}'
    for document in address.documents(root):
        path = root / f"{document}.ipynb"
        if not path.is_file() or line not in path.read_text("utf-8").replace("\\", ""):
            stale.append(f"{document}.ipynb")
    return (TO_DO, f"make notebooks, and commit: {', '.join(stale)}") if stale else (DONE, "")


def changes(root: Path) -> Found:
    """CHANGELOG.md says what is in this version."""
    version = address.version(root)
    path = root / "CHANGELOG.md"
    if path.is_file() and re.search(rf"^## {re.escape(version)}\b", path.read_text("utf-8"), re.M):
        return DONE, version
    return TO_DO, f"a section `## {version}` in CHANGELOG.md"


def tagged(root: Path) -> Found:
    """The version's tag is here, and holds notebooks that install this tag from this address."""
    tag = address.tag(root)
    if ask("git", "rev-parse", "--verify", f"refs/tags/{tag}", root=root) is None:
        return TO_DO, f"commit everything, then: git tag {tag}"
    line = f"git+{address.repository(root)}@{tag}".encode()
    for document in address.documents(root):
        try:
            stored = colab_links.content(address.colab(f"{document}.ipynb", root), root, root)
        except ValueError as problem:
            return TO_DO, str(problem)
        if line not in stored:
            new = "a new version, and a tag for it (tags that readers may have opened never move)"
            return TO_DO, f"{document}.ipynb at {tag} installs something else: {new}"
    return DONE, tag


def tag_on_github(root: Path) -> Found:
    """The tag was pushed, before the branch."""
    tag, url = address.tag(root), address.repository(root)
    listed = ask("git", "ls-remote", "--tags", url, root=root)
    if listed is None:
        return UNSEEN, f"git push origin {tag}, then main"
    there = f"refs/tags/{tag}" in listed.split()
    return (DONE, tag) if there else (TO_DO, f"git push origin {tag}")


def pages(root: Path) -> Found:
    """GitHub Pages takes what the workflow builds."""
    how = "Settings, Pages, Source: GitHub Actions"
    source = gh("/pages", ".build_type", root)
    if source is None:
        return UNSEEN, how
    return (DONE, "") if source == "workflow" else (TO_DO, how)


def issues(root: Path) -> Found:
    """Issues are on: a fork begins without, and the weekly run then only paints its badge."""
    how = "Settings, General, Features: Issues"
    there = gh("", ".has_issues", root)
    if there is None:
        return UNSEEN, how
    return (DONE, "") if there == "true" else (TO_DO, how)


def workflows(root: Path) -> Found:
    """The workflows are there (a fork has to allow them once, on its page Actions)."""
    folder = root / ".github" / "workflows"
    missing = [name for name in WORKFLOWS if not (folder / name).is_file()]
    if missing:
        return TO_DO, f"missing: {', '.join(missing)}"
    return DONE, "on a fork: Actions, I understand my workflows, enable them"


def pinned(root: Path) -> Found:
    """Actions are named by commit, so that nobody can move them."""
    texts = (path.read_text("utf-8") for path in (root / ".github/workflows").glob("*.yml"))
    named = [match for text in texts for match in USES.finditer(text)]
    loose = {f"{m['action']}@{m['ref']}" for m in named if not COMMIT.fullmatch(m["ref"])}
    if not loose:
        return DONE, ""
    return TO_DO, f"python book/tools launch --pin; {', '.join(sorted(loose))}"


STEPS: dict[str, Callable[[Path], Found]] = {
    "The address": own_address,
    "Everything carries it": in_step,
    "The list of changes": changes,
    "The workflows": workflows,
    "Actions by commit": pinned,
    "The tag": tagged,
    "The tag on GitHub": tag_on_github,
    "GitHub Pages": pages,
    "Issues": issues,
}


def pin(root: Path = ROOT) -> int:
    """Replace tags of actions by the commits they name; 1 if one could not be looked up."""
    failed = []

    def commit(match: re.Match) -> str:
        action, ref = match["action"], match["ref"]
        if COMMIT.fullmatch(ref):
            return match[0]
        names = (f"refs/tags/{ref}", f"refs/tags/{ref}^{{}}")
        lines = (ask("git", "ls-remote", f"https://github.com/{action}", *names) or "").splitlines()
        if not lines:
            failed.append(f"{action}@{ref}")
            return match[0]
        return f"{match['before']}{action}{match['path']}@{lines[-1].split()[0]}  # {ref}"

    for path in sorted((root / ".github" / "workflows").glob("*.yml")):
        text = path.read_text("utf-8")
        path.write_text(USES.sub(commit, text), "utf-8")
    if failed:
        print(f"could not be looked up: {', '.join(sorted(set(failed)))}", file=sys.stderr)
    return int(bool(failed))


def main(words: Sequence[str] = (), root: Path = ROOT) -> int:
    """Check every step of LAUNCH.md that can be checked."""
    parser = argparse.ArgumentParser(prog="python book/tools launch", description=main.__doc__)
    parser.add_argument("--pin", action="store_true", help="name GitHub's actions by commit")
    if parser.parse_args(words).pin:
        return pin(root)
    found = {name: check(root) for name, check in STEPS.items()}
    for number, (name, (state, words_)) in enumerate(found.items(), 1):
        print(f"{number}. {name}: {state}{f' ({words_})' if words_ else ''}")
    return int(any(state == TO_DO for state, _ in found.values()))

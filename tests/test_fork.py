"""A copy of the book at another public address: everything carries it, the tests stay green, a notebook runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from _support import ROOT, run_python, single_threaded
from _support_colab import _git, instead_of, layer, only, packages_of, python_of, tagged_repository
from _support_notebooks import read
from test_build_notebooks import small_root  # noqa: F401 - a fixture

from tools import address, build_notebooks, colab_check, launch
from tools.__main__ import COMMANDS

OTHER = "https://github.com/" + "Some-One/their.book"  # in two pieces: a test of the fork looks for a second place
WHO = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


# --- what an address is


@pytest.mark.parametrize(
    ("given", "owner_and_name", "site"),
    [
        ("https://github.com/owner/wind", ("owner", "wind"), "https://owner.github.io/wind/"),
        ("https://github.com/owner/wind/", ("owner", "wind"), "https://owner.github.io/wind/"),
        (" https://github.com/owner/wind.git\n", ("owner", "wind"), "https://owner.github.io/wind/"),
        ("git@github.com:owner/wind.git", ("owner", "wind"), "https://owner.github.io/wind/"),
        ("https://github.com/Some-One/A.book", ("Some-One", "A.book"), "https://some-one.github.io/A.book/"),
        ("https://github.com/owner/owner.github.io", ("owner", "owner.github.io"), "https://owner.github.io/"),
        ("https://github.com/Owner/Owner.github.io.git", ("Owner", "Owner.github.io"), "https://owner.github.io/"),
        ("https://github.com/owner/other.github.io", ("owner", "other.github.io"), "https://owner.github.io/other.github.io/"),
    ],
)  # fmt: skip
def test_an_address_is_read_as_people_copy_it(given, owner_and_name, site):
    assert address.parsed_address(given) == owner_and_name
    assert address.site_of(*owner_and_name) == site


@pytest.mark.parametrize(
    "given",
    [
        "", "owner/name", "https://github.com/owner", "https://github.com/owner/", "http://github.com/owner/name",
        "https://github.com/owner/name/tree/main", "https://github.com/owner/name?tab=x", "https://gitlab.com/owner/name",
        "https://github.com/-owner/name", "https://github.com/own_er/name", "https://github.com/owner/..",
        "https://github.com/owner/name with words", "https://owner.github.io/name",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused_and_nothing_changes(small_root, given, capsys):  # noqa: F811
    before = (small_root / "_config.yml").read_bytes()
    with pytest.raises(ValueError, match="is not https://github.com/OWNER/NAME"):
        address.change(given, small_root)
    assert (small_root / "_config.yml").read_bytes() == before
    assert not given or address.main([given]) == 2 and "error:" in capsys.readouterr().err


def test_a_form_that_breaks_links_is_refused_in_the_settings(tmp_path):
    (tmp_path / "_config.yml").write_text("repository: {url: 'https://github.com/owner/wind.git'}")
    with pytest.raises(ValueError, match="write https://github.com/owner/wind instead"):
        address.repository(tmp_path)


@pytest.mark.parametrize("name", ["their.book", "Some-One.github.io"])
def test_a_change_is_what_making_everything_anew_gives(small_root, name):  # noqa: F811
    changed = address.change(f"https://github.com/Some-One/{name}.git", small_root)
    assert changed == ["_config.yml", "chapters/01_one.ipynb", "README.md", "CITATION.cff"]
    assert build_notebooks.make(small_root, check=True) == []
    assert address.change(f"https://github.com/Some-One/{name}", small_root) == []


def test_the_change_mends_settings_that_were_edited_by_hand(small_root):  # noqa: F811
    config = small_root / "_config.yml"
    config.write_text(re.sub(r"(?m)^  url: .*", f"  url: {OTHER}.git", config.read_text()))
    assert "chapters/01_one.ipynb" in address.change(OTHER, small_root)
    assert build_notebooks.make(small_root, check=True) == []


# --- a whole fork


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    """A clone of this checkout, as it lies here, at another address; its first commit has it, and the tag."""
    folder = tmp_path_factory.mktemp("fork")
    tag = address.tag()
    here = folder / "clone"
    _git("clone", "--quiet", "--branch", tag, str(tagged_repository(folder, tag)), str(here))
    assert address.change(f"{OTHER}.git", here)
    _git("-C", str(here), *WHO, "commit", "--quiet", "--all", "-m", "Another address")
    _git("-C", str(here), "tag", "--force", tag)
    return here


def test_the_old_address_is_gone(fork):
    owner, name = address.parsed_address(address.repository())
    old = re.compile(rf"github\.com/{owner}/{name}\b|{re.escape(address.site().rstrip('/'))}|/github/{owner}/{name}/")
    files = [fork / line for line in _git("-C", str(fork), "ls-files").splitlines()]
    texts = {path: path.read_text("utf-8") for path in files if path.suffix not in (".safetensors", ".png", ".npz")}
    assert not [path.relative_to(fork) for path, text in texts.items() if old.search(text)]
    assert yaml.safe_load(texts[fork / "_config.yml"])["repository"]["url"] == OTHER


def test_the_tests_of_the_address_are_green_there(fork):
    """Those that read it, in a process of the fork's own."""
    chosen = "(address or made_lines or setup_cell_adds or out_of_step or markers or install_line_names or astray or badge_of) and not links"
    files = ("tests/test_build_notebooks.py", "tests/test_colab.py", "tests/test_colab_check.py")
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", chosen, cwd=fork, env=single_threaded())
    assert done.code == 0, done.tail()
    assert int(re.search(r"(\d+) passed", done.output)[1]) >= 30 and "skipped" not in done.output


def test_a_notebook_runs_alone_from_the_forks_tag(fork, tmp_path):
    """Its first cell installs the library from the fork's address, here a clone at the fork's tag."""
    bare = tmp_path / "bare.git"
    _git("clone", "--quiet", "--bare", str(fork), str(bare))
    environment = layer(tmp_path / "colab")
    variables = only(environment, PIP_DISABLE_PIP_VERSION_CHECK="1", **instead_of(OTHER, bare))
    notebook = read(fork / "chapters" / "01_bayesian.ipynb")
    outcome = colab_check.run(notebook, "01", tmp_path / "run", colab_check.kernel_command(python_of(environment)), variables)
    assert outcome.passed, outcome.error
    (note,) = packages_of(environment).glob("bayeswind_lib-*.dist-info/direct_url.json")
    assert json.loads(note.read_text())["url"] == OTHER


# --- what is left to do before a launch


def report(root: Path, capsys, *words: str) -> dict[str, str]:
    """What `launch` says of each step."""
    launch.main(list(words), root)
    lines = capsys.readouterr().out.splitlines()
    return dict(re.fullmatch(r"\d+\. ([^:]+): (.*)", line).groups() for line in lines)


@pytest.fixture
def launched(fork, tmp_path, monkeypatch):
    """A copy of the fork to spoil, without GitHub."""
    here = tmp_path / "here"
    _git("clone", "--quiet", "--branch", address.tag(), str(fork), str(here))
    _git("-C", str(here), "remote", "set-url", "origin", f"{OTHER}.git")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.file:///nowhere/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    monkeypatch.setattr(launch, "gh", lambda *words: None)
    return here


def test_a_fork_in_order_has_only_github_left(launched, capsys):
    found = report(launched, capsys)
    assert list(found) == list(launch.STEPS)
    states = {name: words.partition(" (")[0] for name, words in found.items()}
    assert states.pop("Actions by commit") in (launch.DONE, launch.TO_DO)
    unseen = {"The tag on GitHub", "GitHub Pages", "Issues"}
    assert {name for name, state in states.items() if state == launch.UNSEEN} == unseen
    assert {state for name, state in states.items() if name not in unseen} == {launch.DONE}, found


def spoil(here: Path, name: str, old: str, new: str) -> None:
    """Replace words in a file."""
    text = (here / name).read_text("utf-8")
    assert old in text
    (here / name).write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize("step", ["The address", "Everything carries it", "The list of changes", "The workflows", "The tag"])
def test_what_is_left_is_named(launched, capsys, step):
    version = address.version(launched)
    if step == "The address":
        _git("-C", str(launched), "remote", "set-url", "origin", "git@github.com:someone/else.git")
    elif step == "Everything carries it":
        spoil(launched, "chapters/02_tunnel.ipynb", f"git+{OTHER}@v{version}", f"git+{OTHER}@v0.0.1")
    elif step == "The list of changes":
        (launched / "CHANGELOG.md").unlink()
    elif step == "The workflows":
        (launched / ".github/workflows/colab.yml").unlink()
    else:
        _git("-C", str(launched), "tag", "--force", address.tag(), f"{address.tag()}~1")
    found = report(launched, capsys)
    assert [name for name, words in found.items() if words.startswith(launch.TO_DO)] in ([step], [step, "Actions by commit"],
                                                                                         ["Actions by commit", step])
    assert launch.main([], launched) == 1


def test_github_is_asked_where_it_can_be(launched, capsys, monkeypatch):
    answers = {"/pages": "legacy", "": "false"}
    monkeypatch.setattr(launch, "gh", lambda path, field, root: answers[path])
    found = report(launched, capsys)
    assert found["GitHub Pages"].startswith(launch.TO_DO) and found["Issues"].startswith(launch.TO_DO)
    answers |= {"/pages": "workflow", "": "true"}
    found = report(launched, capsys)
    assert found["GitHub Pages"] == found["Issues"] == launch.DONE


def test_actions_are_pinned_to_the_commits_of_their_tags(tmp_path, monkeypatch):
    flow = tmp_path / ".github/workflows/x.yml"
    flow.parent.mkdir(parents=True)
    flow.write_text(f"      - uses: actions/checkout@v6\n      - uses: a/b/deep@{'c' * 40}  # v1\n      - uses: gone/away@v1\n")
    known = {"https://github.com/actions/checkout": f"{'a' * 40}\trefs/tags/v6\n{'b' * 40}\trefs/tags/v6^{{}}"}
    monkeypatch.setattr(launch, "ask", lambda *words, **_: known.get(words[2]))
    assert launch.pin(tmp_path) == 1
    assert flow.read_text().splitlines() == [
        f"      - uses: actions/checkout@{'b' * 40}  # v6", f"      - uses: a/b/deep@{'c' * 40}  # v1", "      - uses: gone/away@v1",
    ]  # fmt: skip


def test_launch_md_and_the_command_list_the_same_steps():
    text = (ROOT / "LAUNCH.md").read_text("utf-8")
    assert re.findall(r"^\d+\. \*\*([^*]+)\.\*\*", text, re.M) == list(launch.STEPS)
    assert set(re.findall(r"book/tools ([\w-]+)", text)) <= set(COMMANDS)

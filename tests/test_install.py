"""What `make install` does: the list of packages, the choice of PyTorch's build, going on after a stop."""

import re
import sys
import tomllib
from importlib.metadata import entry_points

import pytest
from _support import run
from tools import ROOT, install, lock, steps
from tools.__main__ import COMMANDS


def names(requirements):
    """The names of some requirements, in one spelling."""
    return {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in requirements}


# --- the list


@pytest.mark.parametrize("file", [lock.FILE, lock.LAB], ids=lambda file: file.stem)
def test_every_package_of_a_list_has_hashes(file):
    held = lock.entries(file)
    assert len(held) > 20
    for name, text in held.items():
        hashes = re.findall(r"--hash=(\S+)", text)
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", found) for found in hashes), name
    lines = [line for line in file.read_text().splitlines() if re.match(r"[\w.-]+\s*[=<>@]", line)]
    assert len(lines) == len(held), "a line that is no entry"


@pytest.mark.parametrize("file", [lock.FILE, lock.LAB], ids=lambda file: file.stem)
def test_a_list_holds_no_address_and_no_path(file):
    text = file.read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|-r /", text)
    assert not any(re.match(r"(nvidia|cuda|triton|torch)\b", name) for name in lock.entries(file))


def test_the_list_covers_the_choices_and_what_the_library_needs():
    assert lock.problems() == []
    held = names(lock.entries()) | {"torch"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert names(lock.direct()) <= held and len(lock.direct()) > 40
    assert names(project["project"]["dependencies"]) <= held
    for extra in project["project"]["optional-dependencies"].values():
        assert names(extra) <= held | {"bayeswind-lib"}
    assert names(lock.lab()) <= names(lock.entries(lock.LAB))


def test_the_groups_name_the_choices_of_requirements():
    """pyproject.toml says what belongs to what, requirements.txt in which version: no name is in one only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    chosen = names(lock.direct())
    library = names([line for extra in project["project"]["optional-dependencies"].values() for line in extra])
    library |= names(project["project"]["dependencies"])
    grouped = [names(groups[name]) for name in ("book", "test")]
    assert not grouped[0] & grouped[1] and not library & (grouped[0] | grouped[1])
    assert chosen == (grouped[0] | grouped[1] | library) - {"bayeswind-lib"}


def test_no_package_of_the_lab_is_at_another_version_than_the_books():
    versions = dict(name.split("==") for name in lock.entries())
    assert not set(versions) & {name.split("==")[0] for name in lock.entries(lock.LAB)}


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A list and requirements of two packages, in an empty folder."""
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    monkeypatch.setattr(lock, "FILE", tmp_path / "locked.txt")
    (tmp_path / "requirements.txt").write_text("# words\n-e .\n\ntorch==2.0\nSmall==1.0  # why\nonly==2; python_version < '3'\n")
    entry = "{}==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via small\n"
    (tmp_path / "locked.txt").write_text("# words\n" + entry.format("small") + entry.format("other"))
    return tmp_path


def test_what_a_list_lacks_is_said(small):
    assert lock.direct() == ["torch==2.0", "Small==1.0", "only==2; python_version < '3'"]
    assert lock.problems() == ["requirements.txt names only==2, locked.txt does not"]
    with (small / "locked.txt").open("a") as file:
        file.write("only==2\n")
    assert lock.problems() == ["locked.txt: only==2 has no hash"]
    (small / "locked.txt").unlink()
    assert lock.problems() == ["locked.txt is missing"]


def test_a_list_out_of_step_is_not_installed(small, monkeypatch):
    monkeypatch.setattr(install, "STAMP", small / "stamp")
    monkeypatch.setattr(install, "run", lambda *words: pytest.fail("something was installed"))
    with pytest.raises(SystemExit, match="names only==2(.|\n)*book/tools lock"):
        install.main()


# --- which PyTorch


@pytest.fixture
def machine(monkeypatch):
    """A machine without a GPU, on which nothing can be had; what it was asked, and what it can be asked to have."""
    asked, has = [], set()

    def answers(*words, **environ):
        asked.append(" ".join(map(str, words)))
        return any(part in asked[-1] for part in has)

    for name in ("UV_FIND_LINKS", "PIP_FIND_LINKS", "UV_TORCH_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(install, "answers", answers)
    monkeypatch.setattr(sys, "platform", "linux")
    return asked, has


PIN = next(line for line in lock.direct() if line.startswith("torch=="))


def test_the_cpu_build_is_taken_where_it_can_be_had(machine, capsys):
    machine[1].add("--torch-backend")
    assert install.torch_words(["uv"]) == ["--torch-backend", "auto", PIN]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("uv", [["uv"], None], ids=["uv", "pip"])
@pytest.mark.parametrize("name", ["UV_FIND_LINKS", "PIP_FIND_LINKS"])
def test_a_folder_of_wheels_is_asked_first(machine, monkeypatch, capsys, uv, name):
    monkeypatch.setenv(name, "/a/folder")
    machine[1].add("--no-index")
    assert install.torch_words(uv) == [f"{PIN}+cpu"]
    assert install.environment()["UV_FIND_LINKS"] == install.environment()["PIP_FIND_LINKS"] == "/a/folder"
    assert capsys.readouterr().out == "" and "--dry-run" in machine[0][-1]


@pytest.mark.parametrize("uv", [["uv"], None], ids=["uv", "pip"])
def test_the_default_build_comes_with_one_line(machine, capsys, uv):
    assert install.torch_words(uv) == [PIN]
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "CPU build" in said and "GB" in said


def test_with_a_gpu_the_folder_is_not_asked_and_nothing_is_said(machine, monkeypatch, capsys):
    monkeypatch.setenv("UV_FIND_LINKS", "/a/folder")
    machine[1].add("nvidia-smi")
    assert install.torch_words(["uv"]) == [PIN]
    assert capsys.readouterr().out == "" and not any("--no-index" in words for words in machine[0])


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_the_default_build_is_the_cpus(machine, monkeypatch, capsys, platform):
    monkeypatch.setattr(sys, "platform", platform)
    assert install.torch_words(["uv"]) == [PIN] and capsys.readouterr().out == ""


def test_a_backend_that_the_reader_names_is_left_to_uv(machine, monkeypatch):
    monkeypatch.setenv("UV_TORCH_BACKEND", "cu128")
    assert install.torch_words(["uv"]) == [PIN] and machine[0] == []


# --- running it


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An environment that is not there yet; the commands that would make it."""
    monkeypatch.setattr(install, "VENV", tmp_path)
    monkeypatch.setattr(install, "STAMP", tmp_path / "installed.sha256")
    monkeypatch.setattr(install, "PYTHON", tmp_path / "bin" / "python")
    monkeypatch.setattr(install, "torch_words", lambda uv: ["torch"])
    monkeypatch.delenv("BAYESWIND_INSTALLER", raising=False)
    commands = []
    monkeypatch.setattr(install, "run", lambda what, *words: commands.append(" ".join(map(str, words))))
    return commands


def test_uv_installs_in_one_go_and_a_second_time_nothing_happens(fresh, monkeypatch):
    monkeypatch.setattr(install, "find_uv", lambda: ["uv"])
    assert install.main() == 0
    assert len(fresh) == 2 and fresh[0].startswith("uv venv") and "locked.txt torch -e ." in fresh[1]
    install.PYTHON.parent.mkdir()
    install.PYTHON.touch()
    assert install.main() == 0 and len(fresh) == 2


def test_pip_takes_the_same_list_with_its_hashes(fresh, monkeypatch):
    monkeypatch.setenv("BAYESWIND_INSTALLER", "pip")
    assert install.main() == 0
    assert "-m venv" in fresh[0] and len(fresh) == 4 and not any("uv" in words.split() for words in fresh)
    assert "--no-compile --no-deps --require-hashes" in fresh[1] and fresh[1].endswith("locked.txt")
    assert fresh[2].endswith("torch") and fresh[3].endswith("--no-deps -e .")


def test_where_there_is_no_uv_pip_brings_it(fresh, monkeypatch):
    answers = iter([None, ["uv"]])
    monkeypatch.setattr(install, "find_uv", lambda: next(answers))
    assert install.main() == 0
    assert fresh[1].endswith(f"install -q {install.UV}") and "-e ." in fresh[2]


def test_a_failure_leaves_no_stamp_and_says_how_to_go_on(fresh, monkeypatch, capsys):
    monkeypatch.undo()
    with pytest.raises(SystemExit) as stopped:
        install.run("trying", sys.executable, "-c", "raise SystemExit(3)")
    assert stopped.value.code == 3
    told = capsys.readouterr()
    assert told.out == "trying\n" and "goes on from here" in told.err


def test_a_mac_with_an_intel_processor_is_turned_away_in_one_line(fresh, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(install.platform, "machine", lambda: "x86_64")
    with pytest.raises(SystemExit, match="Intel processor.*Colab"):
        install.main()
    assert fresh == []


def test_what_takes_long_says_that_it_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(install, "BEAT", 0.05)
    install.run("waiting", sys.executable, "-c", "import time; time.sleep(1)")
    assert capsys.readouterr().out.count("still at it") >= 2


def test_an_old_uv_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setattr(install, "PYTHON", tmp_path / "none")
    monkeypatch.setattr(install.shutil, "which", lambda name: "/some/uv")
    monkeypatch.setattr(install, "uv_version", lambda words: (0, 5) if words == ["/some/uv"] else (0,))
    assert install.find_uv() is None
    monkeypatch.setattr(install, "uv_version", lambda words: (0, 8) if words == ["/some/uv"] else (0,))
    assert install.find_uv() == ["/some/uv"]


def test_the_lab_is_installed_on_first_use_only(monkeypatch):
    commands, there = [], []
    monkeypatch.setattr(steps, "find_spec", lambda name: there or None)
    monkeypatch.setattr(steps, "python", lambda *words: commands.append(" ".join(map(str, words))) or 0)
    monkeypatch.setattr(install, "find_uv", lambda: ["uv"])
    monkeypatch.setattr(install, "run", lambda what, *words: commands.append(" ".join(map(str, words))))
    assert steps.lab(["--no-browser"]) == 0
    assert "--require-hashes" in commands[0] and commands[0].endswith("locked-lab.txt")
    assert commands[1].startswith("-m jupyterlab") and commands[1].endswith("chapters --no-browser")
    there.append(True)
    steps.lab()
    assert len(commands) == 3


# --- one entry point


def test_make_offers_every_command_and_no_other():
    listed = re.search(r"^COMMANDS := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.M)[1]
    only_with_words = {"address", "launch", "colab-check", "colab-report", "colab-links"}
    assert set(listed.replace("\\", "").split()) == set(COMMANDS) - only_with_words


def test_every_command_leads_to_a_step():
    for name, command in COMMANDS.items():
        module, _, step = command.step.partition(":")
        path = ROOT / "book" / "tools" / f"{module}.py"
        assert re.search(rf"^def {step}\(", path.read_text(), re.M), name


def test_the_entry_point_needs_nothing_installed():
    """Without .venv and without any package: the list of commands, and a word about a wrong one."""
    plain = [sys.executable, "-I", "-S", ROOT / "book" / "tools"]
    listed = run([*plain])
    assert listed.code == 0 and all(name in listed.output for name in COMMANDS)
    wrong = run([*plain, "no-such-command"])
    assert wrong.code == 2 and "no-such-command" in wrong.output


def test_the_command_is_installed_and_without_typer_says_what_to_install():
    """`pip install -e .` brings no typer: one line instead of a traceback."""
    (script,) = [e for e in entry_points(group="console_scripts") if e.name == "bayeswind"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"bayeswind": script.value} and callable(script.load())
    done = run([sys.executable, "-c", "import sys; sys.modules['typer'] = None; import bayeswind_lib.__main__"])
    assert done.code == 1 and done.output.strip() == "the command line needs the package typer: pip install typer"


def test_readme_says_how_to_reach_what_is_installed():
    text = (ROOT / "README.md").read_text()
    first = text[: text.index("<!-- made: badge")]
    for words in ("python book/tools book", "Windows", "MB", "minutes", "make lab", "make check"):
        assert words in first
    for words in (". .venv/bin/activate", ".venv\\Scripts\\activate", '-e ".[cli]"'):
        assert words in text
    commands = set(re.findall(r"(?:^|`)bayeswind (\w+)", text, re.M))
    assert {"check", "train", "score", "page", "sweep", "probe"} <= commands
    known = run([sys.executable, "-m", "bayeswind_lib", "--help"]).output
    assert all(re.search(rf"\b{name}\b", known) for name in commands), commands

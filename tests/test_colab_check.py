"""The weekly run on Colab, rehearsed: a broken notebook is named, told, and no longer told when mended.

The workflows' own steps run here, with a stand-in for `gh` and a local repository for GitHub.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from _support import ROOT
from _support_colab import _git

from tools import address
from tools import colab_check
from tools import colab_report
from tools import steps as tool_steps
from tools.__main__ import COMMANDS

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
RUN = "https://example.org/run/1"
WHO = {f"GIT_{role}_{what}": "tests@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def written(path: Path, *sources: str) -> Path:
    """A notebook with these cells of code."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The reports of a run in which two of three notebooks fail, and of one in which all pass."""
    folder = tmp_path_factory.mktemp("reports")
    good = written(folder / "01_good.ipynb", "import os", "assert os.listdir() == []; open('mine', 'w').close()")
    bad = written(folder / "02_bad.ipynb", "print('fine')", "print('before'); raise ValueError('the `reason`')", "1")
    dead = written(folder / "03_dead.ipynb", "import os; os._exit(3)", "1")
    for name, files in {"failed": (good, bad, dead), "passed": (good,)}.items():
        assert colab_check.main([str(folder / f"{name}.json"), *map(str, files)]) == 0
    return {name: folder / f"{name}.json" for name in ("failed", "passed")}


def test_a_broken_notebook_is_named_with_its_cell(reports):
    report = json.loads(reports["failed"].read_text())
    by_name = {notebook["name"]: notebook for notebook in report["notebooks"]}
    assert {name: n["passed"] for name, n in by_name.items()} == {"01_good": True, "02_bad": False, "03_dead": False}
    assert {name: n["failed"] for name, n in by_name.items()} == {"01_good": None, "02_bad": 2, "03_dead": 1}
    assert {name: n["cells"] for name, n in by_name.items()} == {"01_good": 2, "02_bad": 3, "03_dead": 2}
    assert "ValueError: the `reason`" in by_name["02_bad"]["error"]
    assert "before" in by_name["02_bad"]["error"], "what the cell printed, pip's words for instance, is lost"
    assert "\x1b" not in by_name["02_bad"]["error"]
    assert "died" in by_name["03_dead"]["error"].lower()
    assert report["tag"] == address.tag()
    assert report["surroundings"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(colab_check.ASKED) < set(report["surroundings"])


def test_no_kernel_is_left_running(tmp_path):
    """Neither after a pass nor after a failure: each would hold the memory of a chapter."""
    for name, last in {"good": "1", "bad": "1 / 0"}.items():
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("import os; print(os.getpid())"),
                                                   nbformat.v4.new_code_cell(last)])  # fmt: skip
        outcome = colab_check.run(notebook, name, tmp_path / name)
        assert outcome.passed == (name == "good")
        with pytest.raises(ProcessLookupError):
            os.kill(int(notebook.cells[0].outputs[0].text), 0)


def test_the_issue_says_what_failed_and_where(reports):
    text = colab_report.issue(colab_report.read(reports["failed"]), RUN)
    assert text.startswith(f"2 of 3 notebooks fail in Colab's public image, at the tag `{address.tag()}`: 02_bad, 03_dead.")
    assert "### 02_bad: code cell 2 of 3" in text and "### 03_dead: code cell 1 of 2" in text
    assert "ValueError: the `reason`" in text and RUN in text
    assert "01_good" not in text
    assert re.search(r"^- torch \d", text, re.M)


def test_an_error_cannot_break_out_of_its_block():
    notebook = {"name": "x", "failed": 1, "cells": 1, "error": f"a\n{colab_report.FENCE}\n# Loud", "passed": False}
    assert colab_report.section(notebook).count(colab_report.FENCE) == 2


def test_the_tail_of_an_error_is_kept():
    lines = [f"\x1b[31mline {i}\x1b[0m" for i in range(1000)]
    kept = colab_check.tail(ValueError("\n".join(lines))).splitlines()
    assert kept == [f"line {i}" for i in range(1000 - colab_check.TAIL, 1000)]
    assert colab_check.tail(KeyError()) == "KeyError"


@pytest.mark.parametrize("text", [None, "", "no report", "[]", "{}", '{"notebooks": []}'])
def test_a_run_that_broke_off_counts_as_failed(tmp_path, text):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    report = colab_report.read(path)
    assert not colab_report.passed(report)
    assert "broke off" in colab_report.issue(report, RUN)
    assert colab_report.badge(report, {})["message"] == "failing, no pass yet"


def test_the_badge_carries_the_date_of_the_last_pass(reports):
    """Only the keys that shields.io knows: others make it refuse the file."""
    good, bad = (colab_report.read(reports[name]) for name in ("passed", "failed"))
    first = colab_report.badge({**good, "finished": "2026-03-01T05:23:00+00:00"}, {})
    assert first == {"schemaVersion": 1, "label": "runs on Colab", "message": "2026-03-01", "color": "brightgreen"}
    then = colab_report.badge(bad, first)
    assert (then["message"], then["color"]) == ("failing, last pass 2026-03-01", "red")
    again = colab_report.badge(bad, then)
    assert again == then, "a second failure loses the date"
    mended = colab_report.badge(good, again)["message"]
    assert mended == good["finished"][:10] != "2026-03-01"


# --- what is run -------------------------------------------------------------------------------


@pytest.fixture
def small_root(tmp_path):
    """A book of two chapters in a repository without a tag."""
    root = tmp_path / "root"
    (root / "chapters").mkdir(parents=True)
    (root / "bayeswind_lib").mkdir()
    for name in ("_config.yml", "bayeswind_lib/__init__.py"):
        shutil.copy(ROOT / name, root / name)
    chapters = ["chapters/01_one", "chapters/02_two"]
    toc = {"format": "jb-book", "root": "x", "parts": [{"chapters": [{"file": name} for name in chapters]}]}
    (root / "_toc.yml").write_text(yaml.safe_dump(toc))
    written(root / "chapters/01_one.ipynb", "1")
    _git("init", "--quiet", str(root))
    _git("-C", str(root), "add", "--all", str(root))
    _git("-C", str(root), "commit", "--quiet", "-m", "one", **WHO)
    return root


def test_what_runs_is_what_the_buttons_open(small_root):
    """The notebook at the tag, not the one in the folder; what is missing there is named, not skipped."""
    _git("-C", str(small_root), "tag", address.tag(small_root))
    written(small_root / "chapters/01_one.ipynb", "2")
    written(small_root / "chapters/02_two.ipynb", "2")
    found = colab_check.from_tag(small_root)
    assert list(found) == ["01_one", "02_two"]
    assert [cell.source for cell in found["01_one"].cells] == ["1"]
    (outcome,) = colab_check.check({"02_two": found["02_two"]})
    assert not outcome.passed and "no chapters/02_two.ipynb at the tag" in outcome.error
    assert "### 02_two: it did not run" in colab_report.issue(colab_check.report([outcome]), RUN)


def test_a_tag_that_was_not_pushed_is_told(small_root, capsys):
    outcomes = colab_check.check(colab_check.from_tag(small_root))
    assert [outcome.passed for outcome in outcomes] == [False, False]
    assert all(address.tag(small_root) in outcome.error for outcome in outcomes)
    assert capsys.readouterr().out.count("FAILED") == 2


def test_the_kernel_is_the_plain_one():
    """Colab's own kernel waits for Colab's page: with it, nothing would ever end."""
    words = colab_check.kernel_command("python3")
    assert words[:2] == ["python3", "-m"] and "{connection_file}" in words
    assert any(word.endswith("kernel_class=ipykernel.ipkernel.IPythonKernel") for word in words)


# --- the workflows -----------------------------------------------------------------------------


def workflow(name: str) -> dict:
    """A workflow; YAML reads its key `on` as true."""
    found = yaml.safe_load((ROOT / ".github/workflows" / name).read_text("utf-8"))
    found["on"] = found.pop(True)
    return found


def steps(flow: dict) -> list[dict]:
    """The steps of all jobs."""
    return [step for job in flow["jobs"].values() for step in job["steps"]]


def step(name: str, job: str, words: str) -> dict:
    """The step of a job whose name begins with these words."""
    (found,) = [s for s in workflow(name)["jobs"][job]["steps"] if s.get("name", "").startswith(words)]
    return found


def test_there_are_two_workflows():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "colab.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_well_formed(path, tmp_path):
    flow = workflow(path.name)
    assert set(flow) <= {"name", "on", "permissions", "concurrency", "env", "jobs"}
    assert flow["permissions"] == {"contents": "read"}, "more only where a job needs it"
    assert set(flow["concurrency"]) == {"group", "cancel-in-progress"}
    assert "workflow_dispatch" in flow["on"]
    known = {"runs-on", "timeout-minutes", "strategy", "steps", "needs", "if", "permissions", "environment"}
    for job in flow["jobs"].values():
        assert set(job) <= known and job["runs-on"] in ("ubuntu-latest", "${{ matrix.system }}")
        assert 0 < job["timeout-minutes"] <= 90
        assert {job["needs"]} <= set(flow["jobs"]) if "needs" in job else True
    for one in steps(flow):
        assert ("run" in one) != ("uses" in one), one
        assert set(one) <= {"name", "id", "if", "uses", "with", "run", "env", "continue-on-error"}
        if "uses" in one:
            assert re.fullmatch(r"actions/[a-z-]+@(v\d+|[0-9a-f]{40})", one["uses"]), "pinned, and GitHub's own only"
        else:
            assert "${{" not in one["run"], "values go through env: they are not to be run"
            script = tmp_path / "step.sh"
            script.write_text(one["run"])
            assert subprocess.run(["sh", "-n", script], capture_output=True).returncode == 0, one["run"]


def test_only_the_jobs_that_write_may_write():
    granted = {(path.name, job): content.get("permissions", {}) for path in WORKFLOWS
               for job, content in workflow(path.name)["jobs"].items()}  # fmt: skip
    assert granted == {
        ("ci.yml", "test"): {},
        ("ci.yml", "elsewhere"): {},
        ("ci.yml", "publish"): {"pages": "write", "id-token": "write"},
        ("colab.yml", "run"): {},
        ("colab.yml", "report"): {"contents": "write", "issues": "write"},
    }
    for flow, job in (("ci.yml", "test"), ("ci.yml", "elsewhere"), ("colab.yml", "run")):
        checkout = workflow(flow)["jobs"][job]["steps"][0]
        assert checkout["uses"].startswith("actions/checkout@")
        assert checkout["with"]["persist-credentials"] is False, "code from outside runs in this job"
        assert checkout["with"]["fetch-depth"] == 0


def scripts_named(text: str) -> set[str]:
    """Files of the repository that a workflow names."""
    return set(re.findall(r"\.ci/\w+|(?<![\w.])book/tools(?:/\w+\.\w+)?", text))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_script_that_a_workflow_names_is_there(path):
    named = scripts_named(path.read_text("utf-8"))
    assert named and all((ROOT / name).exists() for name in named), named
    assert set(re.findall(r"book/tools ([\w-]+)", path.read_text("utf-8"))) <= set(COMMANDS)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_schedule_is_once_a_week(path):
    (entry,) = workflow(path.name)["on"]["schedule"]
    minute, hour, day, month, weekday = entry["cron"].split()
    assert 0 < int(minute) < 60 and 0 <= int(hour) < 24 and 0 <= int(weekday) <= 6
    assert (day, month) == ("*", "*")


def test_the_weekly_checks_leave_nothing_out():
    (step,) = (s for s in workflow("ci.yml")["jobs"]["test"]["steps"] if s.get("run") == "sh .ci/run")
    assert step["env"]["CHECKS"] == "${{ github.event_name == 'schedule' && 'test-all' || 'test' }}"
    seen = []
    for name in ("check", "test", "test_all"):
        with pytest.MonkeyPatch.context() as patch:
            for part in ("html", "browser", "model", "lint", "notebooks"):
                patch.setattr(tool_steps, part, lambda *_: 0)
            patch.setattr(tool_steps, "python", lambda *words, **_: seen.append(words) or 0)
            assert getattr(tool_steps, name)() == 0
    assert [words[words.index("-m", 2) + 1] if words.count("-m") == 2 else "" for words in seen] == [
        "not book and not slow and not weekly", "not weekly", "",
    ]  # fmt: skip


def test_the_checks_run_on_the_oldest_python_and_on_three_systems():
    jobs = workflow("ci.yml")["jobs"]
    legs = jobs["elsewhere"]["strategy"]["matrix"]["include"]
    assert all(isinstance(leg["python"], str) for leg in legs), "3.10 would be read as 3.1"
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert oldest in {leg["python"] for leg in legs}
    assert {leg["system"] for leg in legs} == {"ubuntu-latest", "windows-latest", "macos-latest"}
    assert jobs["elsewhere"]["strategy"]["fail-fast"] is False
    assert jobs["elsewhere"]["steps"][-1]["run"] == 'python book/tools check -m "not book and not weekly"'


def test_what_is_published_waits_for_the_whole_promise_and_for_nothing_else():
    jobs = workflow("ci.yml")["jobs"]
    assert "strategy" not in jobs["test"], "one red leg would hold back the book"
    (kept,) = [s for s in jobs["test"]["steps"] if s.get("uses", "").startswith("actions/upload-pages")]
    assert kept["if"] == "github.ref == 'refs/heads/main'" and kept["with"]["path"] == "_build/html"
    assert jobs["publish"]["needs"] == "test" and jobs["publish"]["if"] == "github.ref == 'refs/heads/main'"


def test_the_page_names_the_image_that_the_workflow_takes():
    image = workflow("colab.yml")["env"]["COLAB_IMAGE"]
    assert image.startswith("us-docker.pkg.dev/colab-images/public/cpu-runtime")
    assert image in (ROOT / "book/colab.md").read_text("utf-8")


# --- the workflow's steps, run -----------------------------------------------------------------


def tool(folder: Path, name: str, body: str) -> None:
    """A command of this name, first on the path."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def shell(script: str, cwd: Path, **more: str) -> str:
    """A step as GitHub runs it; its output. Fails the test if the step fails."""
    full = {**os.environ, "PATH": f"{cwd / 'tools'}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(["bash", "-e", "-c", script], cwd=cwd, env=full, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


GH = """\
printf '%s\\n' "$*" >> calls
case "$1 $2" in
"repo view") cat issues 2>/dev/null || echo true ;;
"issue list") cat open 2>/dev/null || true ;;
"issue create") echo 7 > open ;;
"issue close") rm open ;;
esac"""


@pytest.fixture
def github(tmp_path):
    """A checkout with the scripts, its remote, and a `gh` that remembers one open issue."""
    remote, here = tmp_path / "remote.git", tmp_path / "here"
    _git("init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    _git("clone", "--quiet", str(remote), str(here))
    shutil.copytree(ROOT / "book/tools", here / "book/tools", ignore=shutil.ignore_patterns("__pycache__"))
    _git("-C", str(here), "add", "--all", str(here))
    _git("-C", str(here), "commit", "--quiet", "-m", "scripts", **WHO)
    _git("-C", str(here), "push", "--quiet", "origin", "HEAD:main")
    tool(here / "tools", "gh", GH)
    tool(here / "tools", "python3", f'exec "{sys.executable}" "$@"')
    return here


def week(here: Path, report: Path | None) -> list[str]:
    """Run the job `report` on a run's report; what `gh` was asked for."""
    (here / "calls").write_text("")
    (here / "output").write_text("")
    shutil.rmtree(here / "report", ignore_errors=True)
    (here / "report").mkdir()
    if report:
        shutil.copy(report, here / "report/report.json")
    *run, verdict = [s for s in workflow("colab.yml")["jobs"]["report"]["steps"] if "run" in s]
    known = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary", "RUN": RUN}
    for one in run:
        told = dict(line.split("=", 1) for line in (here / "output").read_text().splitlines())
        shell(one["run"], here, **known, OUTCOME=told.get("outcome", ""))
    green = subprocess.run(["bash", "-e", "-c", verdict["run"]], env={**os.environ, "OUTCOME": told["outcome"]}).returncode == 0
    assert green == (told["outcome"] == "passed") and verdict["if"] == "${{ !cancelled() }}", "the run has to be red too"
    calls = [line.partition(" --")[0] for line in (here / "calls").read_text().splitlines()]
    return [line for line in calls if line.startswith("issue")]


def badge_on(here: Path) -> dict:
    """The badge as the remote holds it, alone on its branch."""
    remote = ["--git-dir", str(here.parent / "remote.git")]
    assert _git(*remote, "rev-list", "--count", "badges") == "1"
    assert _git(*remote, "ls-tree", "--name-only", "-r", "badges") == "colab.json"
    return json.loads(_git(*remote, "show", "badges:colab.json"))


def test_four_weeks(github, reports):
    """A pass, a failure, the same failure, a run that broke off, and a pass: one issue is opened and closed."""
    before = _git("--git-dir", str(github.parent / "remote.git"), "rev-parse", "main")
    assert week(github, reports["passed"]) == ["issue list"]
    date = badge_on(github)["message"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert week(github, reports["failed"]) == ["issue list", "issue create"]
    call = (github / "calls").read_text()
    assert f"--title {colab_report.TITLE} --label colab --body-file issue.md" in call
    assert "02_bad" in (github / "issue.md").read_text() and "02_bad" in (github / "summary").read_text()
    assert badge_on(github)["message"] == f"failing, last pass {date}"
    assert week(github, reports["failed"]) == ["issue list", "issue edit 7"], "a second issue was opened"
    assert week(github, None) == ["issue list", "issue edit 7"]
    assert "broke off" in (github / "issue.md").read_text()
    assert badge_on(github)["message"] == f"failing, last pass {date}"
    assert week(github, reports["passed"]) == ["issue list", "issue close 7"]
    assert badge_on(github)["message"] == date
    assert not (github / "open").exists()
    assert _git("--git-dir", str(github.parent / "remote.git"), "rev-parse", "main") == before


def test_where_there_are_no_issues_the_badge_is_painted_all_the_same(github, reports):
    (github / "issues").write_text("false\n")
    assert week(github, reports["failed"]) == []
    assert badge_on(github)["message"] == "failing, no pass yet"


def test_the_badge_comes_before_what_may_fail():
    names = [one.get("name") for one in workflow("colab.yml")["jobs"]["report"]["steps"]]
    assert names.index("Put the badge on its branch") < names.index("Open, renew or close the issue")


def test_the_issue_form_asks_for_what_the_page_on_colab_prints():
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/notebook.yml").read_text("utf-8"))
    page = (ROOT / "book/colab.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (versions,) = [field for field in form["body"] if field.get("id") == "versions"]
    for line in map(str.strip, code.splitlines()):
        assert line in versions["attributes"]["description"]
    assert {"chapter", "cell", "message", "versions"} <= {field.get("id") for field in form["body"]}


def test_the_issue_script_refuses_other_words(github):
    done = subprocess.run(["sh", "book/tools/colab_issue.sh", "", "issue.md"], cwd=github, capture_output=True, text=True,
                          env={**os.environ, "PATH": f"{github / 'tools'}{os.pathsep}{os.environ['PATH']}"})  # fmt: skip
    assert done.returncode == 2 and "expected passed or failed" in done.stderr


def test_the_container_is_started_with_what_it_needs(tmp_path):
    """The step's own words, with a `docker` that writes down what it is told."""
    tool(tmp_path / "tools", "docker", 'for word in "$@"; do printf "%s\\0" "$word"; done > words')
    image = workflow("colab.yml")["env"]["COLAB_IMAGE"]
    shell(step("colab.yml", "run", "Run the notebooks")["run"], tmp_path, COLAB_IMAGE=image)
    words = (tmp_path / "words").read_text().split("\0")[:-1]
    assert words[0] == "run" and words[-3:-1] == [image, "-c"]
    assert words[words.index("--entrypoint") + 1] == "/bin/sh", "the image would start Colab's own server"
    volumes = [words[i + 1] for i, word in enumerate(words) if word == "--volume"]
    assert volumes == [f"{tmp_path}:/book:ro", f"{tmp_path}/report:/report"] and (tmp_path / "report").is_dir()
    (inside, command) = re.findall(r"/book/(book/\S+) (\S+)", words[-1])[0]
    assert (ROOT / inside / "__main__.py").is_file() and command == "colab-check" and "safe.directory /book" in words[-1]
    assert subprocess.run(["sh", "-n", "-c", words[-1]]).returncode == 0


def test_the_badge_of_readme_is_the_branchs_file():
    """README's picture is drawn from the file that the workflow pushes, and leads to its runs."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert f"]({address.badge()})]({address.workflow('colab.yml')})" in text
    owner_and_name = address.repository().removeprefix("https://github.com/")
    data = f"https://raw.githubusercontent.com/{owner_and_name}/badges/colab.json"
    assert address.badge().endswith("endpoint?url=" + data.replace(":", "%3A").replace("/", "%2F"))

"""Pages run side by side before they are read: what is stored, what is run again, and what a failure looks like."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import nbformat
import pytest

from _support import HANGS, ROOT, single_threaded

sys.path.append(str(ROOT / "book/_ext"))
import bayeswind_execute  # noqa: E402
from bayeswind_kernels import IMPORTS, Kernel, Nursery  # noqa: E402

FEW = ("ipykernel.kernelapp", "ipykernel.ipkernel", "ipykernel.zmqshell", "matplotlib.pyplot", "tqdm.auto")

CONF = """
import sys; sys.path[:0] = [{ext!r}]
import bayeswind_execute
bayeswind_execute.processors = lambda: {processors}
bayeswind_execute.IMPORTS = {imports}
bayeswind_execute.Nursery.possible = {forked} and bayeswind_execute.Nursery.possible
extensions = ["myst_nb", "bayeswind_execute"]
root_doc, html_theme, nb_execution_mode, nb_execution_timeout = "index", "basic", "cache", 1200
nb_execution_show_tb = True
exclude_patterns = ["_build"]
"""
PAGE = """---
kernelspec: {{name: python3, display_name: p}}
jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}
---
# {name}

```{{code-cell}} ipython3
{code}
```
"""
BUILD = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-N", ".", "_build/html"]
# Each of two pages waits until the other one runs: one after the other, neither ends.
MEET = """import os, pathlib, time
pathlib.Path("{me}.here").touch()
while not pathlib.Path("{other}.here").exists():
    time.sleep(0.05)
print("{me} met {other}, threads:", os.environ.get("OMP_NUM_THREADS"))"""


def book(folder, pages: dict[str, str], processors: int = 2, forked: bool = True):
    """A book of these pages, and a function that builds it."""
    settings = {"ext": str(ROOT / "book/_ext"), "processors": processors, "imports": FEW, "forked": forked}
    (folder / "conf.py").write_text(CONF.format(**settings))
    (folder / "index.md").write_text("# Tiny\n\n```{toctree}\n" + "\n".join(pages) + "\n```\n")
    for name, code in pages.items():
        (folder / f"{name}.md").write_text(PAGE.format(name=name, code=code))

    def build():
        return subprocess.run(BUILD, cwd=folder, capture_output=True, text=True, timeout=HANGS)

    return build


@pytest.mark.parametrize("forked", [True, False])
def test_pages_run_at_the_same_time_and_only_once(tmp_path, forked):
    pages = {"a": MEET.format(me="a", other="b"), "b": MEET.format(me="b", other="a"), "c": "print(2 + 3)"}
    build = book(tmp_path, pages, forked=forked)
    done = build()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "executing 3 pages, 2 at once" in done.stdout
    assert "Executing notebook" not in done.stdout  # MyST-NB found all of them in the cache
    assert len(re.findall(r"Using cached notebook", done.stdout)) == 3
    assert "a met b, threads: 1" in (tmp_path / "_build/html/a.html").read_text()
    assert ">5\n" in (tmp_path / "_build/html/c.html").read_text()
    (tmp_path / "c.md").write_text(PAGE.format(name="c", code="print(3 + 4)"))
    (tmp_path / "d.md").write_text(PAGE.format(name="d", code="print(30 + 4)"))
    (tmp_path / "a.md").write_text((tmp_path / "a.md").read_text() + "\nMore words, the same cells.\n")
    (tmp_path / "index.md").write_text((tmp_path / "index.md").read_text().replace("c\n", "c\nd\n"))
    again = build()
    assert again.returncode == 0 and "executing 2 pages, 2 at once" in again.stdout, again.stdout + again.stderr
    assert ">7\n" in (tmp_path / "_build/html/c.html").read_text()


def test_a_page_that_fails_stops_the_build_and_says_why(tmp_path):
    build = book(tmp_path, {"good": "print(1)", "bad": 'raise RuntimeError("the tunnel is closed")'})
    done = build()
    assert done.returncode != 0 and "bad.md: failed in" in done.stdout and "good.md: executed in" in done.stdout
    assert "the tunnel is closed" in done.stderr
    assert done.stdout.count("Executing notebook") == 1  # MyST-NB ran the bad page again, and told of it


def test_a_single_page_is_left_to_myst_nb(tmp_path):
    done = book(tmp_path, {"a": "print(1 + 1)"})()
    assert done.returncode == 0 and "at once" not in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Executed notebook") == 1


def test_one_processor_runs_one_page_at_a_time(tmp_path):
    done = book(tmp_path, {"a": "print(1 + 1)", "b": "print(2 + 2)"}, processors=1)()
    assert done.returncode == 0 and "executing 2 pages, 1 at once" in done.stdout, done.stdout + done.stderr


# What a chapter could see of its kernel; the numbers of processes differ anyway, and `modules` is the aim.
LOOK = """import os, signal, subprocess, sys, threading, matplotlib, tqdm.auto
import matplotlib.pyplot as plt
from IPython import get_ipython
seen = {
    "folder": os.getcwd(), "path": sys.path, "name": __name__, "argv": sys.argv[1:2], "flags": str(sys.flags),
    "environment": {k: v for k, v in os.environ.items() if k not in ("JPY_PARENT_PID", "JPY_SESSION_NAME")},
    "parent": os.environ["JPY_PARENT_PID"] == str(os.getppid()), "session": os.getsid(0) == os.getpid(),
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE)],
    "threads": sorted(t.name.split("-")[0] for t in threading.enumerate()), "input": sys.stdin is None,
    "backend": matplotlib.get_backend(), "bar": str(tqdm.auto.tqdm.__mro__), "shell": str(type(get_ipython())),
    "command": subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout,
}
print(*(f"{name}: {value}" for name, value in seen.items()), sep="\\n")"""
DRAW = "import random, numpy\nprint(random.random(), numpy.random.rand())"
PLOT = "print('words'); plt.plot([1, 2]); plt.show()"
LEAVE = "import atexit, pathlib, time; atexit.register(pathlib.Path('left').touch)"
SLOWLY = "atexit.register(time.sleep, 4)"  # as on a busy machine


def executed(cells: list[str], folder: Path, **settings) -> list[list[dict]]:
    """What the cells of a notebook put out, cell by cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    run = bayeswind_execute.single_nb_execution
    done = run(notebook, cwd=str(folder), timeout=HANGS, allow_errors=False, **settings)
    assert done.err is None, done.exc_string
    return [cell.outputs for cell in done.nb.cells]


@pytest.mark.skipif(not Nursery.possible, reason="kernels are not forked here")
def test_a_chapter_cannot_tell_a_forked_kernel_from_an_ordinary_one(tmp_path, monkeypatch):
    monkeypatch.setattr(bayeswind_execute, "IMPORTS", FEW)
    monkeypatch.setenv("BW_BEFORE", "1")
    with closing(bayeswind_execute.Kernels()) as kernels:
        monkeypatch.setenv("BW_AFTER", "2")  # set after the process that forks was started
        monkeypatch.delenv("BW_BEFORE")
        cells = [LOOK, DRAW, PLOT, LEAVE]
        forked, again = (executed(cells + more, tmp_path, kernel_manager_class=kernels.manager(name)) for name, more in (("a", [SLOWLY]), ("b", [])))
        ends = [(k.poll(), k.processor_seconds > 0) for k in kernels.started.values()]
        assert ends == [(0, True)] * 2 and "s of a processor" in kernels.seconds("a")
    assert (tmp_path / "left").exists()  # what was to be done at the exit was done
    ordinary = executed(cells, tmp_path)
    assert forked[0][0].text.splitlines() == ordinary[0][0].text.splitlines()
    assert "BW_AFTER" in forked[0][0].text
    drawn = {word for run in (forked, again, ordinary) for word in run[1][0].text.split()}
    assert len(drawn) == 6  # no two kernels draw the same numbers
    assert [out.output_type for out in forked[2]] == [out.output_type for out in ordinary[2]] == ["stream", "display_data"]
    assert {out.name for run in (forked, again) for cell in run for out in cell if "name" in out} == {"stdout"}


def test_the_process_that_forks_has_every_import_and_one_thread(monkeypatch):
    assert [name for name in IMPORTS if importlib.util.find_spec(name) is None] == []
    for name, value in single_threaded().items():
        monkeypatch.setenv(name, value)
    if Nursery.possible:
        with closing(Nursery(IMPORTS)) as nursery:
            assert nursery.ask("end", 0) is None  # it answers once all is imported
            assert len(os.listdir(f"/proc/{nursery.process.pid}/task")) == 1


@pytest.mark.skipif(not Nursery.possible, reason="kernels are not forked here")
def test_a_kernel_is_dead_once_the_process_that_forks_is_closed():
    """A page that still runs then must learn so: it would wait for its kernel for ever."""
    nursery = Nursery(())
    kernel = Kernel(nursery, nursery.process.pid)
    assert kernel.poll() is None  # not one of its kernels: never ended
    nursery.close()
    assert kernel.poll() == kernel.wait() == -signal.SIGKILL
    kernel.kill()  # and nothing happens


def gone(pids: list[int]) -> bool:
    """Whether these processes end; waits a while."""
    for _ in range(600):
        if not any(Path(f"/proc/{pid}/stat").exists() for pid in pids):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("forked", "number"), [(True, signal.SIGINT), (True, signal.SIGKILL), (False, signal.SIGINT)]
)
def test_kernels_end_with_a_build_that_is_interrupted(tmp_path, forked, number):
    wait = "import os, pathlib, time\npathlib.Path(f'{{os.getpid()}}.of{name}').touch()\ntime.sleep(600)"
    book(tmp_path, {name: wait.format(name=name) for name in "abc"}, forked=forked)
    build = subprocess.Popen(BUILD, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while len(found := [int(path.stem) for path in tmp_path.glob("*.of*")]) < 2:
        assert build.poll() is None, build.stdout.read()
        time.sleep(0.1)
    build.send_signal(number)
    said = build.communicate(timeout=HANGS)[0]
    assert build.returncode != 0 and gone(found), said
    assert len(list(tmp_path.glob("*.of*"))) == 2, said  # the third page was not begun

"""Sweeps: every cell ends exactly once, whatever happens to those that work at it.

A real Dask scheduler and its workers run as processes of their own; workers are killed, or
stopped until they are given up for dead, in the middle of a cell.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import _sweep_worker
import distributed
import pytest
import torch
from _support import HANGS, ROOT, single_threaded

import bayeswind_lib as bw
from bayeswind_lib import checkpoints, training
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.training import cluster, loop, plans

engine = _sweep_worker.engine
pytestmark = pytest.mark.xdist_group("sweep")  # one cluster for all
PRELOAD = ROOT / "tests" / "_sweep_worker.py"
LONG, BROKEN, *SHORT = _sweep_worker.tiny()
CHANGING = {"seconds", "seconds_to", "commit", "interruptions"}  # of a row, from run to run


def until(condition, what: str):
    """Wait for something to become true, and return it."""
    end = time.monotonic() + HANGS
    while not (value := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
    return value


def settled(row: dict) -> dict:
    return {key: value for key, value in row.items() if key not in CHANGING}


def saved_step(cell: plans.Cell, folder: Path) -> int:
    path = folder / "runs" / cell.key / loop.STATE
    return read_tensors(path)[1]["step"] if path.exists() else 0


def owner_of(cell: plans.Cell, folder: Path) -> int:
    """The process that is at a cell."""
    return int((folder / "runs" / cell.key / "lock").read_text().split()[1])


def same_weights(row: dict, folder: Path, other: Path) -> bool:
    first, second = (read_tensors(engine.weights_of(row, f))[0] for f in (folder, other))
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


class Diary:
    """What the workers of a cluster have written down."""

    def __init__(self, path: Path):
        self.path = path
        path.touch()

    def of(self, cell: plans.Cell) -> list[tuple[int, str]]:
        """(pid, event) of all that happened to a cell."""
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [(int(pid), what) for pid, what, key in lines if key == cell.key]

    def pids(self, event: str, cell: plans.Cell) -> list[int]:
        return [pid for pid, what in self.of(cell) if what == event]


class Cluster:
    """A scheduler on a free port of the loopback, and workers without nannies."""

    def __init__(self, folder: Path):
        self.folder, self.diary, self.processes = folder, Diary(folder / "diary"), []
        self.file = folder / "scheduler.json"
        self.start("scheduler", "--host", "127.0.0.1", "--port", 0)
        for _ in range(2):
            self.add_worker()
        until(lambda: self.file.exists() and self.file.read_text().endswith("}"), "the scheduler")  # it is written in place
        self.address = json.loads(self.file.read_text())["address"]

    def start(self, *words) -> None:
        command = [sys.executable, "-m", "dask", *words, "--scheduler-file", self.file, "--no-dashboard"]
        env = single_threaded(SWEEP_DIARY=str(self.diary.path))
        log = (self.folder / "log").open("a")
        process = subprocess.Popen(
            [str(word) for word in command], cwd=self.folder, env=env, stdout=log, stderr=log
        )
        self.processes.append(process)

    def give_up_on(self, pid: int) -> None:
        """Freeze a worker, and let the scheduler do what it does with one long silent."""

        async def remove(address: str, dask_scheduler) -> None:
            await dask_scheduler.remove_worker(address, stimulus_id="silent")

        with distributed.Client(self.address, set_as_default=False) as client:
            addresses = {found: address for address, found in client.run(os.getpid).items()}
            os.kill(pid, signal.SIGSTOP)
            client.run_on_scheduler(remove, addresses[pid])

    def add_worker(self) -> None:
        self.start("worker", "--nthreads", 1, "--no-nanny", "--preload", PRELOAD, "--memory-limit", 0)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def call(monkeypatch, capsys):
    """The command line with the tiny plan, here: (exit code, stdout, stderr)."""
    monkeypatch.setitem(plans.PLANS, "tiny", _sweep_worker.tiny)

    def run(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bayeswind_lib", "sweep", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            _sweep_worker.command_line.main()
            raise SystemExit(0)
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The tiny plan run in this process, undisturbed: (folder, rows, lines reported)."""
    folder, lines = tmp_path_factory.mktemp("alone"), []
    rows = training.sweep(_sweep_worker.tiny(), folder, workers=0, report=lines.append, n_episodes=32)
    return folder, rows, lines


@pytest.fixture(scope="module")
def disturbed(dask):
    """The tiny plan on the cluster, the worker at the long cell killed: (folder, rows, lines)."""
    folder, lines, rows, problems = dask.folder / "sweep", [], [], []

    def work():
        try:
            rows.extend(training.sweep(
                _sweep_worker.tiny(), folder, dask.address, report=lines.append, n_episodes=32,
            ))
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: problems or saved_step(LONG, folder) > 5, "a saved state")
    os.kill(owner_of(LONG, folder), signal.SIGKILL)
    assert saved_step(LONG, folder) < _sweep_worker.LONG
    thread.join(300)
    assert not thread.is_alive()
    assert not problems, problems
    return folder, rows, lines


# A killed worker.


def test_every_cell_ends_once_although_a_worker_is_killed(disturbed, dask):
    folder, rows, _ = disturbed
    assert [row["key"] for row in rows] == [cell.key for cell in (LONG, *SHORT)]
    assert sorted(path.stem for path in (folder / "rows").iterdir()) == sorted(r["key"] for r in rows)
    for cell in SHORT:
        assert len(dask.diary.pids("begins", cell)) == len(dask.diary.pids("ends", cell)) == 1
    first, second = dask.diary.pids("begins", LONG)
    assert first != second  # the other worker went on with it
    assert dask.diary.pids("ends", LONG) == [second]


def test_nothing_of_the_killed_run_is_lost(disturbed, alone):
    """The cell went on from its saved state, and came to the very same weights and scores."""
    for row, undisturbed in zip(disturbed[1], alone[1], strict=True):
        assert settled(row) == settled(undisturbed)
        assert same_weights(row, disturbed[0], alone[0])
    assert disturbed[1][0]["interruptions"] == 1
    assert {row["interruptions"] for row in disturbed[1][1:]} == {0}


def test_a_cell_that_fails_is_named_and_stops_no_other(disturbed, alone):
    for _, _, lines in (disturbed, alone):
        assert f"failed: {BROKEN.key}: ValueError: n_values is 1: a bijection needs at least 2" in lines[-1]
        assert sum(BROKEN.key in line for line in lines) == 2  # when it happened, and at the end


def test_progress_is_one_line_a_cell_with_counts_and_time_left(disturbed):
    _, rows, lines = disturbed
    assert lines[0].startswith("6 cells, 0 done, 6 to run in ")
    ended = [line for line in lines[1:-1] if " gone, " not in line]  # a slow machine says in between how far it is
    assert [line.split()[0] for line in ended] == [f"[{i}/6]" for i in range(1, 7)]
    for row in rows:
        (line,) = [line for line in lines if f" {row['key']}: KL {row['kl']:.5f}" in line]
        assert re.search(r"; (\d left, about \d\d:\d\d|none left)$", line), line


def test_finished_cells_are_not_run_again(disturbed, dask, call):
    """The command line on the same folder: only the cell that failed is tried once more."""
    folder, rows, _ = disturbed
    files = [path for path in folder.rglob("*") if path.is_file() and BROKEN.key not in str(path)]
    before = {path: path.stat().st_mtime_ns for path in files}
    diary = dask.diary.path.read_text()
    code, out, _ = call("tiny", "--folder", folder, "--scheduler", dask.address, "--episodes", 32)
    assert code == 1
    assert "6 cells, 5 done, 1 to run" in out
    assert f"failed: {BROKEN.key}: ValueError" in out
    assert "5 of 6 runs are finished" in out
    assert {path: path.stat().st_mtime_ns for path in files} == before
    new = dask.diary.path.read_text().removeprefix(diary).split("\n")
    assert [line.split()[1:] for line in new if line] == [["begins", BROKEN.key], ["failed", BROKEN.key]]
    assert training.sweep([LONG, *SHORT], folder, "tcp://127.0.0.1:9", report=str) == rows  # nobody asked


def test_a_worker_given_up_for_dead_shares_its_cell_with_nobody(dask, alone, tmp_path, disturbed):
    """It is frozen, its cell handed to another: that one waits until it has let go of the cell."""
    dask.add_worker()  # for the one that was killed
    rows, before = [], len(dask.diary.of(LONG))
    thread = threading.Thread(target=lambda: rows.extend(
        training.sweep([LONG], tmp_path, dask.address, report=str, n_episodes=32)
    ))
    thread.start()
    until(lambda: saved_step(LONG, tmp_path) > 5, "a saved state")
    pid = owner_of(LONG, tmp_path)
    dask.give_up_on(pid)
    until(lambda: any(e == "busy" for _, e in dask.diary.of(LONG)[before:]), "another worker to try the cell")
    os.kill(pid, signal.SIGCONT)  # it learns that it was given up, saves its run and ends
    thread.join(300)
    events = [(who == pid, what) for who, what in dask.diary.of(LONG)[before:] if what != "busy"]
    mine, other = [e for e in events if e[0]], [e for e in events if not e[0]]
    assert events == mine + other  # one after the other
    assert [what for _, what in mine] == ["begins", "interrupted"]
    assert [what for _, what in other] == ["begins", "ends", "row"]
    assert [settled(row) for row in rows] == [settled(alone[1][0])]
    assert rows[0]["interruptions"] == 1
    assert same_weights(rows[0], tmp_path, alone[0])


# Processes of this machine.


@pytest.mark.slow
def test_a_stopped_sweep_saves_and_goes_on(tmp_path, alone):
    """Local workers: one is killed and started again by Dask, then the whole sweep is stopped."""
    folder, diary = tmp_path / "sweep", Diary(tmp_path / "diary")
    words = ("sweep", "tiny", "--only", "long", "--folder", folder, "--workers", 1, "--episodes", 32)
    env = single_threaded(
        SWEEP_DIARY=str(diary.path), DASK_DISTRIBUTED__WORKER__PRELOAD=json.dumps([str(PRELOAD)])
    )
    process = subprocess.Popen(
        [sys.executable, str(PRELOAD), *map(str, words)], env=env, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        # Whoever runs the tests in the background has them, and what they start, ignore Ctrl-C.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        step = until(lambda: saved_step(LONG, folder), "a saved state")
        os.kill(owner_of(LONG, folder), signal.SIGKILL)
        until(lambda: len(diary.pids("begins", LONG)) == 2, "a new worker")
        until(lambda: saved_step(LONG, folder) > step, "some progress")
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal: everybody gets it
        out, _ = process.communicate(timeout=HANGS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130, out
    assert "1 unfinished cells were saved: start the same sweep again to go on" in out
    assert "Traceback" not in out
    assert len(diary.pids("interrupted", LONG)) == 1  # it was asked to stop, and saved
    assert step < saved_step(LONG, folder) < _sweep_worker.LONG
    (row,) = training.sweep([LONG], folder, workers=0, report=str, n_episodes=32)
    assert row["interruptions"] == 2
    assert settled(row) == settled(alone[1][0])
    assert same_weights(row, folder, alone[0])


def test_without_dask_one_worker_works_here_and_two_say_what_is_missing(tmp_path, monkeypatch):
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    assert not cluster.is_installed()
    assert len(training.sweep(SHORT[:1], tmp_path, workers=1, report=str, n_episodes=16)) == 1
    with pytest.raises(ValueError, match=re.escape('pip install "dask[distributed]", or use 0 workers')):
        training.sweep(SHORT, tmp_path, workers=2, report=str)


# One cell.


def test_a_row_says_what_was_run_and_how_it_went(alone):
    folder, rows, _ = alone
    row = rows[0]
    assert row == json.loads((folder / "rows" / f"{LONG.key}.json").read_text())
    recipe = LONG.recipe
    for key in engine.FROM_RECIPE:
        assert row[key] == getattr(recipe, key)
    assert (row["name"], row["variant"]) == ("bijection-transformer-smoke-long", "smoke-long")
    assert (row["recipe_tag"], row["seed"], row["preset"]) == (recipe.tag, 0, "smoke")
    assert row["episodes"] == _sweep_worker.LONG * recipe.batch_size
    model = checkpoints.load_file(engine.weights_of(row, folder))
    tunnel = bw.tunnels.build(recipe.tunnel, recipe.tunnel_config)
    episodes = tunnel.sample(32, torch.Generator().manual_seed(1))
    score = bw.score(model, tunnel, 32, rng=torch.Generator().manual_seed(1))
    for name in bw.scoring.MEASURES:
        assert row[name] == getattr(score, name)
        assert row[f"{name}_se"] == getattr(score, f"{name}_se")
    hits = model.predict(episodes.inputs).argmax(-1) == episodes.targets
    assert row["accuracy"] == pytest.approx(hits.double().mean().item(), abs=1e-12)
    error = hits.double().mean(1).std(correction=1) / math.sqrt(len(hits))
    assert row["accuracy_se"] == pytest.approx(error.item(), rel=0.05)
    assert model.record["scores"] == json.loads(json.dumps(score.to_dict()))
    assert row["episodes_to"] == engine.reached(model.record["curve"])
    first = next(point for point in model.record["curve"] if point["entropy_mae"] <= 0.1)
    assert row["episodes_to"]["0.1"] == first["episodes"] > 0
    assert row["seconds_to"]["0.1"] == first["seconds"]
    whole = {point["episodes"]: point["kl"] for point in model.record["curve"]}
    kept = [point["episodes"] for point in row["curve"]]
    assert 2 <= len(kept) <= 41 and (kept[0], kept[-1]) == (min(whole), max(whole))
    assert all(point["kl"] == pytest.approx(whole[point["episodes"]], rel=1e-4) for point in row["curve"])


def test_cells_that_differ_in_rate_only_keep_their_own_weights(alone):
    folder, rows, _ = alone
    slow, _, fast, _ = rows[1:]
    assert (slow["name"], slow["seed"]) == (fast["name"], fast["seed"])
    assert slow["setting"] != fast["setting"]
    assert slow["kl"] != fast["kl"]
    for row in (slow, fast):
        record = checkpoints.load_file(engine.weights_of(row, folder)).record
        assert record["recipe"]["matrix_learning_rate"] == row["matrix_learning_rate"]


def test_a_lock_goes_with_its_owner(tmp_path, monkeypatch):
    """Held by another process, a cell is busy; when that process is killed it is free."""
    path = tmp_path / "runs" / SHORT[0].key / "lock"
    path.parent.mkdir(parents=True)
    code = f"""
import fcntl, os, time
file = open({str(path)!r}, "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("elsewhere", os.getpid(), file=file, flush=True)
print("ready", flush=True)
time.sleep({HANGS})
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with engine.owned(path) as mine:
            assert not mine
        outcome = engine.attempt(SHORT[0], tmp_path, 16)
        assert outcome == {"busy": f"elsewhere {process.pid}"}
        assert not engine.is_begun(SHORT[0], tmp_path)
        process.kill()
    first = engine.attempt(SHORT[0], tmp_path, 16)
    assert list(first) == ["row"]
    monkeypatch.setattr(engine, "run_cell", None)  # whoever comes too late finds the row
    assert engine.attempt(SHORT[0], tmp_path, 16) == first
    with engine.owned(path) as mine, engine.owned(path) as again:
        assert (mine, again) == (True, False)  # nor can one process have it twice


def test_a_busy_cell_is_tried_again_after_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 0.0)
    held, order = contextlib.ExitStack(), []
    held.enter_context(engine.owned(tmp_path / "runs" / SHORT[0].key / "lock"))
    real = engine.run_cell

    def noted(cell, *words, **settings):
        order.append(cell.key)
        held.close()
        return real(cell, *words, **settings)

    monkeypatch.setattr(engine, "run_cell", noted)
    rows = training.sweep(SHORT[:3], tmp_path, workers=0, report=str, n_episodes=16)
    assert order == [cell.key for cell in (SHORT[1], SHORT[2], SHORT[0])]
    assert [row["key"] for row in rows] == [cell.key for cell in SHORT[:3]]


def test_a_run_that_is_asked_to_stop_has_saved(tmp_path):
    cluster.STOPPED.add("ours")
    try:
        assert "interrupted" in engine.attempt(SHORT[0], tmp_path, 16, ticket="ours")
        assert not engine.is_begun(SHORT[0], tmp_path)  # not even begun
    finally:
        cluster.STOPPED.remove("ours")
    asked = iter([False, False, True])
    with pytest.raises(training.Interrupted, match="stopped at step 3 of 20, saved in"):
        engine.run_cell(SHORT[0], tmp_path, 16, stop=lambda: next(asked))
    assert saved_step(SHORT[0], tmp_path) == 3
    assert cluster.ACTIVE == []


# What is said on the way.


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_time_left_follows_the_episodes_and_a_terminal_gets_a_bar(monkeypatch):
    """LONG has 300 updates and each of the others 20: counting cells would mislead."""
    clock, lines = [1000.0], []
    monkeypatch.setattr(engine.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    progress = engine.Progress([SHORT[0], SHORT[1], LONG], 5, lines.append)
    row = {"kl": 0.5, "entropy_mae": 0.25, "seconds": 9.6}
    clock[0] += 60
    assert progress.note(SHORT[0], {"row": row}) is False
    expected = 60 * (20 + _sweep_worker.LONG) // 20
    assert lines == [
        f"[3/5] {SHORT[0].key}: KL 0.50000, entropy error 0.2500 bits, 10 s of training; "
        f"2 left, about {expected // 60:02d}:{expected % 60:02d}"
    ]
    assert progress.note(LONG, {"busy": "elsewhere 1"}) is True
    assert progress.note(LONG, {"interrupted": "stopped"}) is True
    assert len(lines) == 1
    assert progress.note(LONG, {"failed": "ValueError: no"}) is False
    assert progress.note(LONG, {"failed": "ValueError: no"}) is False  # heard twice, told once
    progress.close()
    assert lines[1].startswith(f"[4/5] {LONG.key}: failed; 1 left")
    assert lines[2:] == [f"failed: {LONG.key}: ValueError: no"]
    assert "4/5" in screen.getvalue()
    assert "cell" in screen.getvalue()


def test_a_cluster_without_workers_is_mentioned_once(monkeypatch):
    monkeypatch.setattr(cluster, "SILENCE", 0.0)
    asked, lines = [], []

    class Nobody:
        def nthreads(self):
            asked.append(1)
            return {}

    class Queue:
        def has_ready(self):
            return len(asked) == 3

    cluster._wait(Nobody(), Queue(), lines.append)
    assert lines == ["no worker is left: the sweep goes on when one joins the cluster"]


# What is made of the rows.


def test_best_and_winners():
    rows = [
        {"name": name, "setting": setting, "seed": seed, "kl": kl, "tv": -float(kl)}
        for name, setting, seed, kl in [
            ("a", "x", 0, 0.1), ("a", "x", 1, 0.9), ("a", "y", 0, 0.4), ("a", "y", 1, 0.3),
            ("a", "z", 0, 0.01), ("b", "x", 0, "inf"),
        ]
    ]
    assert training.best(rows) == rows[4]
    assert training.best(rows, setting="x") == rows[0]
    assert training.best(rows, by="tv", name="a") == rows[1]
    assert training.best(rows, name="b")["kl"] == "inf"
    with pytest.raises(ValueError, match="there is no run with name 'c', seed 3"):
        training.best(rows, name="c", seed=3)
    with pytest.raises(ValueError, match="no run at all"):
        training.best([])
    # The setting with the best mean, not the one with the best single run; all of its seeds.
    assert training.winners(rows) == [rows[2], rows[3], rows[5]]


def test_ship_copies_under_the_networks_name(alone, tmp_path):
    folder, rows, _ = alone
    path = training.ship(rows[2], folder, tmp_path)
    assert path == tmp_path / "bijection-transformer-smoke-seed1.safetensors"
    copy = checkpoints.load_file(path)
    original = checkpoints.load_file(engine.weights_of(rows[2], folder))
    assert copy.record == original.record
    assert all(torch.equal(a, b) for a, b in zip(copy.parameters(), original.parameters(), strict=True))
    small = checkpoints.load_file(training.ship(rows[2], folder, tmp_path / "small", torch.float16))
    assert small.record["dtype"] == "float16"
    assert small.record["recipe"] == original.record["recipe"]
    again = training.final_score(small, small.record["tunnel"], small.record["tunnel_config"], 32)
    assert small.record["scores"] == json.loads(json.dumps(again.to_dict()))  # of what is stored
    assert math.isclose(small.record["scores"]["kl"], rows[2]["kl"], rel_tol=1e-6)  # it has no large map


# The command line.


def test_help_is_for_newcomers(call):
    code, out, _ = call("--help")
    assert code == 0
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│\s]+", " ", out).split())
    for words in (
        "Train and score every run of a plan, several at once", "finished runs are skipped",
        "optimisers", "0 trains in this one, without Dask", "tcp://HOST:PORT", "for example 0,1",
        "list the runs, and the best results so far",
    ):
        assert words in text, words


def test_the_list_shows_what_is_done_and_the_best(alone, call, tmp_path):
    folder, rows, _ = alone
    code, out, _ = call("tiny", "--folder", folder, "--list")
    assert code == 0
    states = [line.split()[:2] for line in out.splitlines()[:6]]
    assert states == [["pending" if c == BROKEN else "done", c.key] for c in _sweep_worker.tiny()]
    assert f"5 of 6 runs are finished in {folder}" in out
    short = training.best(rows, name="bijection-transformer-smoke")
    (line,) = [line for line in out.splitlines() if line.startswith("bijection-transformer-smoke ")]
    assert line.split()[1] == f"{short['kl']:.6f}"
    assert f"matrices {short['matrix_learning_rate']:g}, seed {short['seed']}" in line
    assert call("tiny", "--folder", tmp_path, "--list")[1].count("pending") == 6
    assert not list(tmp_path.iterdir())  # looking leaves nothing behind


def test_some_cells_of_a_plan_can_be_chosen(call, tmp_path):
    def listed(*words):
        return [line.split()[1] for line in call("tiny", *words, "--list")[1].splitlines()[:-1]]

    folder = ("--folder", tmp_path)
    assert listed(*folder, "--only", "long") == [LONG.key]
    assert listed(*folder, "--seeds", "1") == [cell.key for cell in SHORT if cell.recipe.seed == 1]
    assert len(listed(*folder, "--seeds", "0,1")) == 6
    for words, message in (
        (("tiny", "--only", "sausage"), "no run of tiny is left"),
        (("tiny", "--seeds", "7"), "no run of tiny is left"),
        (("tiny", "--seeds", "one"), "seeds is 'one': write numbers with commas"),
        (("sausage",), "no plan is called 'sausage': choose one of"),
        (("tiny", "--device", "tpu"), "device 'tpu' is not available"),
    ):
        code, _, err = call(*words, *folder)
        assert code == 2
        assert message in err
        assert "Traceback" not in err


def test_results_become_a_record_and_winners_ship(alone, call, tmp_path, monkeypatch):
    folder, rows, _ = alone
    code, _, _ = call("tiny", "--folder", folder, "--record", tmp_path / "record.json")
    assert code == 0
    assert json.loads((tmp_path / "record.json").read_text()) == {"runs": rows}
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(tmp_path / "weights"))
    code, _, _ = call("tiny", "--folder", folder, "--ship", "--dtype", "float16")
    assert code == 0
    shipped = {(r["name"], r["seed"]): r["recipe_tag"] for r in checkpoints.shipped()}
    assert shipped == {(r["name"], r["seed"]): r["recipe_tag"] for r in training.winners(rows)}
    assert len(shipped) == 3
    assert "choose one of float32, float16, int8" in call("tiny", "--folder", folder, "--ship", "--dtype", "int4")[2]


def test_the_stored_comparison_of_optimisers_can_be_run_again():
    """The plan still holds every run of the record that chapter 3 quotes."""
    cells = plans.plan("optimisers")
    stored = {run["recipe_tag"] for run in bw.ledger.record("optimiser_sweep")["runs"]}
    assert stored == {cell.recipe.tag for cell in cells}
    for optimiser, name in (("adamw", "learning_rate"), ("muon", "matrix_learning_rate")):
        own = [cell.recipe for cell in cells if cell.recipe.optimiser == optimiser]
        assert len({getattr(recipe, name) for recipe in own}) >= 4
    assert len({cell.recipe.steps for cell in cells}) == 1  # one budget for all


def test_a_long_run_says_that_it_lives_and_how_far_it_is(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setattr(engine, "PULSE", 0.02)
    monkeypatch.setattr(engine, "train", functools.partial(engine.train, save_every=0.0))
    training.sweep([LONG], tmp_path, workers=0, report=lines.append, n_episodes=16)
    beats = [line for line in lines if "gone, 0 of 1 ended; begun:" in line]
    assert any(re.search(rf"{LONG.key} \(step \d+ of {LONG.recipe.steps} saved, about [\d:]+ left\)", line) for line in beats), lines
    n_lines = len(lines)
    time.sleep(0.1)
    assert len(lines) == n_lines  # nothing is said of what has ended

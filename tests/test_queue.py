"""The queue: a plan in a file, worked through whatever happens to those who work at it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from _support import HANGS, ROOT, in_ci

from bayeswind_lib import training
from bayeswind_lib.checkpoints import CheckpointError
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.experiments import queue
from bayeswind_lib.training import loop, plans
from bayeswind_lib.training.sweep import (
    owned,
    read_row,
    read_rows,
    row_path,
    run_cell,
    weights_of,
)

TINY = """
[[cells]]
priority = 2
why = "comes later"
tunnel = "bijection"
architecture = "transformer"
preset = "smoke"
seeds = [0, 1]
budgets = [1, 2]

[[cells]]
priority = 1
why = "comes first"
tunnel = "recall"
architecture = "transformer"
preset = "smoke"
label = "curriculum"
[cells.changes]
steps = 120
eval_every = 100
mastery = 0.3
curriculum = [{ n_pairs = 1, n_queries = 1, vocabulary = 2 }]
"""
STAGES = "[{ n_pairs = 1, n_queries = 1, vocabulary = 2 }]"
CHANGING = {"seconds", "seconds_to", "interruptions", "commit"}  # of a row, from run to run


def settled(row: dict) -> dict:
    return {key: value for key, value in row.items() if key not in CHANGING}


@pytest.fixture
def plan(tmp_path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="module")
def smooth(tmp_path_factory) -> tuple[Path, Path]:
    """The tiny plan worked through without a disturbance: its folder and its record."""
    place = tmp_path_factory.mktemp("smooth")
    (place / "plan.toml").write_text(TINY)
    record = place / "queue.json"
    assert queue.work(queue.entries(place / "plan.toml"), place / "runs", record, n_episodes=16, report=str) == 0
    return place / "runs", record


def start(plan: Path, folder: Path, record: Path) -> subprocess.Popen:
    """The command line, in a process of its own."""
    words = ["queue", "--plan", plan, "--folder", folder, "--record", record, "--episodes", "16"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", SAVING, *map(str, words)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )


# The command line, which saves the state of a run after every update instead of every minute.
SAVING = """
import functools, sys
from bayeswind_lib import __main__ as command_line
engine = sys.modules["bayeswind_lib.training.sweep"]
engine.train = functools.partial(engine.train, save_every=0.0)
command_line.main()
"""


def saved_step(folder: Path, one) -> int:
    path = folder / "runs" / one.key / loop.STATE
    return read_tensors(path)[1]["step"] if path.exists() else 0


# ---- the plan ------------------------------------------------------------------------------------


def test_the_books_own_plan_can_be_run():
    """Every cell is a run that can begin, and none is there twice; the most wanted come first."""
    plan = queue.entries()
    assert [entry.priority for entry in plan] == sorted(entry.priority for entry in plan)
    assert len({entry.cell.key for entry in plan}) == len(plan) > 50
    for entry in plan:
        assert loop.stages(entry.cell.recipe)
        assert entry.why
    curricula = [e.cell.recipe for e in plan if e.cell.name.startswith("recall-transformer-classroom-curriculum-rotary")]
    sizes = [(s.n_pairs, s.vocabulary or s.n_keys) for s in loop.stages(curricula[0])]
    assert sizes == [(2, 2), (2, 4), (4, 8), (4, 16), (8, 32)]
    assert len(curricula) >= 5 and curricula[0].mastery == 0.97
    assert plan[0].cell.recipe == curricula[0] and curricula[0].model_config["positions"] == "rotary"


def test_a_table_stands_for_every_combination_first_things_first(plan):
    entries = queue.entries(plan)
    assert [(e.priority, e.cell.name, e.cell.recipe.seed, e.cell.recipe.steps) for e in entries] == [
        (1, "recall-transformer-smoke-curriculum", 0, 120),
        (2, "bijection-transformer-smoke", 0, 8), (2, "bijection-transformer-smoke", 1, 8),
        (2, "bijection-transformer-smoke", 0, 16), (2, "bijection-transformer-smoke", 1, 16),
    ]
    assert entries[2].cell == plans.cell("bijection", "transformer", preset="smoke", seed=1)
    plan.write_text(TINY.replace("budgets = [1, 2]", "rates = [0.5]"))
    half = queue.entries(plan)[1].cell.recipe
    whole = entries[1].cell.recipe
    assert (half.learning_rate, half.matrix_learning_rate) == (whole.learning_rate / 2, whole.matrix_learning_rate / 2)


def test_a_curriculum_may_be_named(plan):
    """A name stands for its stages, and leaves the key of the run as it is."""
    spelled = queue.entries(plan)[0].cell
    plan.write_text(f"[curricula]\nsmall = {STAGES}\n" + TINY.replace(STAGES, '"small"'))
    assert queue.entries(plan)[0].cell == spelled and len(spelled.recipe.curriculum) == 1


def test_a_cell_named_twice_has_its_higher_priority(plan):
    plan.write_text(TINY + TINY.replace("priority = 2", "priority = 0"))
    assert [entry.priority for entry in queue.entries(plan)] == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("seeds =", "seed =", "table 1 of .*there is no seed: choose among priority"),
        ('why = "comes later"', "", "table 1 of .*why missing"),
        ("mastery = 0.3", "mastery = 30", "table 2 of .*mastery is 30"),
        (STAGES, '"slow"', "table 2 of .*there is no curriculum 'slow': choose among none or add it to"),
        ("priority = 1", "priority =", "not a plan: expected TOML"),
        ("[[cells]]", "[[runs]]", "not a plan: expected tables"),
    ],
)
def test_a_plan_that_is_none_is_refused(plan, old, new, words):
    plan.write_text(TINY.replace(old, new))
    with pytest.raises(ValueError, match=words):
        queue.entries(plan)


# ---- working through it --------------------------------------------------------------------------


def test_a_finished_run_is_a_row_with_its_recipe_and_scores(smooth, plan):
    folder, record = smooth
    entries = {entry.cell.key: entry.cell for entry in queue.entries(plan)}
    rows = json.loads(record.read_text())["runs"]
    assert [row["key"] for row in rows] == sorted(entries)
    for row in rows:
        one = entries[row["key"]]
        assert training.Recipe.from_dict(row["recipe"]) == one.recipe
        assert row["recipe_tag"] == one.recipe.tag and row["seed"] == one.recipe.seed
        assert row["schedule_ended"] and row["seconds"] > 0 and row["device"] and "commit" in row
        for name in ("kl", "entropy_mae", "accuracy"):
            assert row[name] is not None and f"{name}_se" in row
    lines = record.read_text().splitlines()
    assert len(lines) == len(rows) + 2  # a changed run is a changed line


def test_a_curriculums_row_says_when_its_stages_ended(smooth):
    rows = json.loads(smooth[1].read_text())["runs"]
    ends = [row.get("stage_ends") for row in rows if "curriculum" in row["name"]]
    assert len(ends) == 1 and len(ends[0]) == 1 and 0 < ends[0][0] < 120
    assert all("stage_ends" not in row for row in rows if "curriculum" not in row["name"])


def test_networks_of_published_size_leave_scores_in_detail(tmp_path):
    """What the claims on positions, lengths and fewer pairs need of a network that does not ship."""
    hmm = plans.cell(
        "hmm", "transformer", preset="paper", steps=2, warmup_steps=0, eval_every=2, eval_episodes=4, batch_size=2, precision="float32",
        model_config={"n_layers": 1, "n_heads": 1, "width": 8, "hidden": 8}, tunnel_config={"n_states": 2, "n_symbols": 2, "length": 5},
    )
    lstm = plans.cell(
        "hmm", "lstm", preset="paper", steps=2, warmup_steps=0, eval_every=2, eval_episodes=4, batch_size=2, precision="float32",
        model_config={"n_layers": 1, "width": 8}, tunnel_config={"n_states": 2, "n_symbols": 2, "length": 5},
    )
    small = plans.cell("bijection", "mlp", steps=2, warmup_steps=0, eval_every=2, eval_episodes=4)
    for one in (hmm, lstm, small):
        run_cell(one, tmp_path, 400)
    plan = [queue.Entry(one, 1, "a test") for one in (hmm, lstm, small)]
    queue.collect(plan, tmp_path, record := tmp_path / "queue.json")
    rows = {row["name"]: row for row in json.loads(record.read_text())["runs"]}
    assert "scores" not in rows[small.name]  # of another preset
    assert 2 <= rows["hmm-lstm"]["clusters"] <= 10 and 0 < rows["hmm-lstm"]["pc1_percent"] <= 100 and rows["hmm-lstm"]["entropy_r2"] < 1
    assert "clusters" not in rows["hmm-transformer"]
    scores = rows["hmm-transformer"]["scores"]
    assert [len(scores["per_position"][name]) for name in ("kl", "entropy_mae")] == [5, 5]
    assert sum(scores["per_position"]["kl"]) / 5 == pytest.approx(rows["hmm-transformer"]["kl"], rel=0.15)
    assert [len(scores["longer"][length]["per_position"]["kl"]) for length in ("30", "50")] == [30, 50]
    queue.take_down(read_rows([hmm], tmp_path), queue.recipes_of(plan), other := tmp_path / "other.json")
    assert "scores" not in json.loads(other.read_text())["runs"][0]  # nobody said where the weights lie


def test_a_network_that_cannot_be_scored_waits_in_the_folder_and_costs_no_other_run(monkeypatch, tmp_path):
    def refuse(row, folder):
        if row["key"] == "b":
            raise ValueError("damaged")
        return {"scores": {}}

    monkeypatch.setattr(queue, "scores_of", refuse)
    said = []
    queue.take_down([{"key": key} for key in "abc"], {key: {} for key in "abc"}, record := tmp_path / "queue.json", tmp_path, said.append)
    assert [row["key"] for row in json.loads(record.read_text())["runs"]] == ["a", "c"]
    assert said == ["b: ended, and is not in the record, since scoring it failed (ValueError: damaged)"]
    monkeypatch.setattr(queue, "scores_of", lambda row, folder: {"scores": {}})
    queue.take_down([{"key": key} for key in "abc"], {key: {} for key in "abc"}, record, tmp_path, said.append)
    assert [(row["key"], "scores" in row) for row in json.loads(record.read_text())["runs"]] == [(key, True) for key in "abc"]
    assert len(said) == 1


@pytest.mark.slow
def test_kills_at_any_moment_leave_no_trace(smooth, plan, tmp_path):
    folder, record = tmp_path / "runs", tmp_path / "queue.json"
    first = queue.entries(plan)[0].cell
    for least in (1, 40):
        process = start(plan, folder, record)
        while process.poll() is None and saved_step(folder, first) < least:
            time.sleep(0.005)
        process.kill()
        process.communicate()
    assert 40 <= saved_step(folder, first) < 120
    done = start(plan, folder, record)
    out, _ = done.communicate()
    assert done.returncode == 0, out
    assert "5 of 5 runs are done" in out
    got, want = (json.loads(path.read_text())["runs"] for path in (record, smooth[1]))
    assert [settled(row) for row in got] == [settled(row) for row in want]
    for row in got:
        weights = [read_tensors(weights_of(row, place))[0] for place in (folder, smooth[0])]
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_sigterm_saves_and_says_how_to_go_on(plan, tmp_path):
    folder, first = tmp_path / "runs", queue.entries(plan)[0].cell
    process = start(plan, folder, tmp_path / "queue.json")
    while process.poll() is None and saved_step(folder, first) < 1:
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate()
    assert process.returncode == 130 and "stopped at step" in out
    assert not (tmp_path / "queue.json").exists()


def test_what_is_done_is_not_run_again(smooth, plan, tmp_path, monkeypatch):
    """Neither with the folder nor in a new checkout that has the record alone."""
    monkeypatch.setattr(sys.modules["bayeswind_lib.training.sweep"], "run_cell", None)
    for folder in (smooth[0], tmp_path / "empty"):
        assert queue.work(queue.entries(plan), folder, smooth[1], report=str) == 0


def test_a_row_that_a_killed_process_left_is_taken_down(smooth, plan, tmp_path):
    """Killed between the end of a run and its line in the record."""
    entries, record = queue.entries(plan), tmp_path / "queue.json"
    one = entries[1].cell
    path = row_path(one, tmp_path)
    path.parent.mkdir()
    path.write_text(json.dumps(read_row(one, smooth[0])))
    assert queue.collect(entries, tmp_path, record) == {one.key}
    assert queue.recorded(record)[0]["recipe"] == one.recipe.to_dict()


def test_many_who_write_at_once_lose_no_row(tmp_path):
    record = tmp_path / "queue.json"
    keys = [f"run{number:02}" for number in range(24)]

    def take(key: str) -> None:
        queue.take_down([{"key": key}], {key: {"steps": 1}}, record)

    threads = [threading.Thread(target=take, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row["key"] for row in queue.recorded(record)] == keys


def test_two_queues_with_folders_of_their_own_write_one_record_in_turn(smooth, plan, tmp_path, monkeypatch):
    """What one queue takes down waits for the other, which has read the record and not written it yet."""
    entries, record = queue.entries(plan), tmp_path / "queue.json"
    for number, folder in enumerate(("left", "right")):
        path = row_path(entries[1 + number].cell, tmp_path / folder)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(read_row(entries[1 + number].cell, smooth[0])))
    read, write = threading.Event(), queue.write_atomically
    tried = threading.Semaphore(0)
    owned_now = queue.owned

    @contextlib.contextmanager
    def counted(path):
        with owned_now(path) as mine:
            if not mine:
                tried.release()
            yield mine

    def late(path, content):
        """The first to write waits until the other was refused, or is done."""
        if not read.is_set():
            read.set()
            assert tried.acquire(timeout=HANGS)
        write(path, content)

    monkeypatch.setattr(queue, "owned", counted)
    monkeypatch.setattr(queue, "write_atomically", late)
    left = threading.Thread(target=queue.collect, args=(entries, tmp_path / "left", record))
    left.start()
    assert read.wait(HANGS)
    queue.collect(entries, tmp_path / "right", record)
    tried.release()
    left.join()
    assert {row["key"] for row in queue.recorded(record)} == {entry.cell.key for entry in entries[1:3]}


def test_the_lock_of_the_record_is_no_part_of_the_repository():
    if not (ROOT / ".git").exists():
        assert not in_ci(), "continuous integration needs the checkout"
        pytest.skip("not a git checkout: only git knows what it ignores")
    lock = queue.record_lock(queue.record_path())
    assert lock.parent == queue.record_path().parent
    ignored = subprocess.run(["git", "check-ignore", "-q", lock.relative_to(ROOT)], cwd=ROOT)
    assert ignored.returncode == 0


def test_rows_that_no_plan_names_any_more_stay(tmp_path):
    record = tmp_path / "queue.json"
    queue.take_down([{"key": "b"}], {"b": {}}, record)
    queue.take_down([{"key": "a", "kl": 1}, {"key": "b", "kl": 2}], {"a": {}, "b": {}}, record)
    assert queue.recorded(record) == [{"key": "a", "kl": 1, "recipe": {}}, {"key": "b", "recipe": {}}]


def test_a_damaged_record_is_not_overwritten(plan, tmp_path):
    record = tmp_path / "queue.json"
    record.write_text('{"runs": [')
    with pytest.raises(CheckpointError, match="not a record of runs"):
        queue.work(queue.entries(plan), tmp_path / "runs", record, report=str)
    assert record.read_text() == '{"runs": ['


def test_a_run_that_fails_stops_no_other_and_is_counted(plan, tmp_path, monkeypatch):
    plan.write_text(TINY.replace("seeds = [0, 1]", "seeds = [0]").replace("steps = 120", "steps = 4"))
    engine = sys.modules["bayeswind_lib.training.sweep"]
    run_cell, lines = engine.run_cell, []

    def unlucky(one, *words, **settings):
        if one.recipe.tunnel == "recall":
            raise RuntimeError("out of memory")
        return run_cell(one, *words, **settings)

    monkeypatch.setattr(engine, "run_cell", unlucky)
    entries = queue.entries(plan)
    assert queue.work(entries, tmp_path / "runs", tmp_path / "queue.json", n_episodes=16, report=lines.append) == 1
    assert len(queue.recorded(tmp_path / "queue.json")) == 2
    assert any("failed" in line and "out of memory" in line for line in lines)


# ---- what stands ---------------------------------------------------------------------------------


def test_the_status_shows_what_stands_and_what_is_next(smooth, plan, tmp_path):
    entries = queue.entries(plan)
    lines = queue.status(entries, tmp_path, tmp_path / "none.json")
    assert [line.split()[0] for line in lines[:-1]] == ["next"] * 5
    assert "comes first" in lines[0] and "time not known" in lines[0]
    assert lines[-1].startswith("0 of 5 runs are done") and "5 runs of which no time is known" in lines[-1]
    assert queue.status(entries, tmp_path, tmp_path / "none.json", upcoming=2)[2].strip() == "and 3 more"

    recall, short = entries[0].cell, entries[1].cell
    run = loop.start(recall.recipe)
    run.step, run.seconds = 40, 30.0
    loop.save_state(run, tmp_path / "runs" / recall.key)
    record = tmp_path / "queue.json"
    queue.take_down([read_row(short, smooth[0])], queue.recipes_of(entries), record)
    with owned(tmp_path / "runs" / recall.key / "lock"):
        lines = queue.status(entries, tmp_path, record)
    assert [line.split()[0] for line in lines[:-1]] == ["done", "running", "next", "next", "next"]
    assert "step 40 of 120 saved, about 01:00 left" in lines[1]
    assert re.search(r"about \d\d:\d\d left", lines[2])  # a run of the same name has ended
    assert lines[-1].startswith("1 of 5 runs are done; about 01:0") and "no time" not in lines[-1]
    assert queue.status(entries, tmp_path, record)[1].startswith("begun")


def test_the_command_line_shows_the_status_of_a_choice(plan, tmp_path):
    words = ["queue", "--status", "--plan", plan, "--folder", tmp_path, "--record", tmp_path / "r.json"]
    for only, code, text in (("recall", 0, "0 of 1 runs are done"), ("nothing", 2, "no run of .* has 'nothing' in its name")):
        done = subprocess.run(
            [sys.executable, "-m", "bayeswind_lib", *map(str, words), "--only", only], cwd=ROOT,
            capture_output=True, text=True,
        )
        assert done.returncode == code
        assert re.search(text, done.stdout + done.stderr)

"""The speed records: what a task fixes stays fixed, every seed has to pass, and only what is faster is entered."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from bayeswind_lib.__main__ import app
from bayeswind_lib.checkpoints import CheckpointError
from bayeswind_lib.training import speed

EASY = """
[[tasks]]
name = "easy"
what = "4 symbols"
tunnel = "bijection"
tunnel_config = { n_values = 4 }
supervision = "sampled"
measure = "entropy_mae"
threshold = 9.0
counts = "episodes"
target = 100
n_episodes = 16
[tasks.recipe]
architecture = "mlp"
preset = "smoke"
changes = { steps = 4, tunnel_config = { n_values = 4 } }
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tasks.toml"
    path.write_text(EASY)
    return path


def tried(file, tmp_path) -> tuple[dict | None, str]:
    said = []
    found = speed.work(speed.task("easy", file), tmp_path / "runs", tmp_path / "speed.json", 16, said.append)
    return found, said[-1]


def test_a_record_is_entered_and_falls_to_fewer_episodes_only(file, tmp_path):
    first, said = tried(file, tmp_path)
    assert first["counted"] == first["episodes"] == 4 * 16
    assert [run["seed"] for run in first["runs"]] == list(speed.SEEDS)
    assert said.startswith("a record: 64 episodes")
    assert tried(file, tmp_path) == (None, "no record: 64 episodes, and 64 stand already")
    file.write_text(EASY.replace("steps = 4", "steps = 5"))
    assert tried(file, tmp_path)[0] is None
    file.write_text(EASY.replace("steps = 4", "steps = 3"))
    second, _ = tried(file, tmp_path)
    stored = json.loads((tmp_path / "speed.json").read_text())["records"]
    assert [row["counted"] for row in stored] == [64, 48]
    assert speed.standing("easy", tmp_path / "speed.json") == second == stored[-1]
    assert speed.standing("other", tmp_path / "speed.json") is None


def test_a_try_that_was_scored_on_too_few_episodes_is_no_record(file, tmp_path):
    said = []
    assert speed.work(speed.task("easy", file), tmp_path / "runs", tmp_path / "speed.json", 8, said.append) is None
    assert said[-1] == "no record: each network has to be scored on at least 16 episodes, and one was on 8"


def test_one_seed_that_misses_the_threshold_is_enough_to_refuse(file, tmp_path):
    first, _ = tried(file, tmp_path)
    scores = sorted(run["entropy_mae"] for run in first["runs"])
    file.write_text(EASY.replace("9.0", str((scores[-2] + scores[-1]) / 2)).replace("steps = 4", "steps = 4, batch_size = 16"))
    found, said = tried(file, tmp_path)
    assert found is None
    assert f"(worst: {scores[-1]:.5g})" in said and "in every seed" in said


def row(seed: int, **more) -> dict:
    return {"seed": seed, "seconds": 10.0 + seed, "episodes": 64, "parameters": 9, "device": "cpu", "commit": "c", "setting": "s", "curve": [], "n_episodes": 16} | more


def test_seconds_are_those_of_the_slowest_seed_and_accuracy_is_better_when_higher(file):
    table = EASY.replace('"entropy_mae"', '"accuracy"').replace("9.0", "0.9").replace('"episodes"', '"seconds"')
    file.write_text(table)
    task = speed.task("easy", file)
    rows = [row(seed, accuracy=right, accuracy_se=0.01) for seed, right in enumerate((0.95, 0.91, 0.99))]
    found = speed.entry(task, rows)
    assert (found["counted"], found["worst"]) == (12.0, 0.91)
    assert speed.verdict(task, found, None) is None
    assert speed.verdict(task, found, {"counted": 12.5}) is None
    assert "12 stand already" in speed.verdict(task, found, {"counted": 12.0})
    rows[1]["accuracy"] = 0.89
    assert "in seed 1 it is not" in speed.verdict(task, speed.entry(task, rows), None)


@pytest.mark.parametrize("changed", [
    ("n_values = 4 } }", "n_values = 3 } }"),
    ("steps = 4,", 'steps = 4, supervision = "posterior",'),
    ("steps = 4,", "steps = 4, pool = 64,"),
])  # fmt: skip
def test_a_recipe_that_changes_the_task_is_refused(file, tmp_path, changed):
    file.write_text(EASY.replace(*changed))
    with pytest.raises(ValueError, match="task easy: the recipe has .* the task fixes"):
        tried(file, tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("changed", "said"), [
    (('counts = "episodes"', 'counts = "hours"'), "task easy: counts is 'hours': choose one of episodes, seconds"),
    (('"entropy_mae"', '"luck"'), "task easy: measure is 'luck'"),
    (('what = "4 symbols"', ""), "task easy: .*what"),
    (("[[tasks]]", "[[runs]]"), "expected tables"),
    (("[[tasks]]", "[[tasks"), "expected TOML"),
])  # fmt: skip
def test_a_file_that_holds_no_tasks_is_refused(file, changed, said):
    file.write_text(EASY.replace(*changed))
    with pytest.raises(ValueError, match=said):
        speed.tasks(file)


def test_an_unknown_task_is_named_with_those_there_are(file):
    with pytest.raises(ValueError, match="'hard': choose one of easy"):
        speed.task("hard", file)


def test_a_damaged_record_is_refused_before_the_training(file, tmp_path):
    (tmp_path / "speed.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a file of speed records"):
        tried(file, tmp_path)
    assert not (tmp_path / "runs").exists()


def test_the_books_own_tasks_can_be_tried():
    for task in speed.tasks().values():
        assert len(task.cells()) == len(speed.SEEDS)
        assert task.recipe.get("preset", "classroom") in ("classroom", "paper")


def test_what_stands_passed_by_the_rules():
    """Every record entered is of a task that is there, in all seeds, and each beats the one before."""
    found, best = speed.tasks(), {}
    for one in speed.entered():
        task = found[one["task"]]
        assert (one["counts"], one["measure"], one["threshold"]) == (task.counts, task.measure, task.threshold)
        place = (task.name, one["device"] if task.counts == "seconds" else "")
        assert speed.verdict(task, one, best.get(place)) is None
        assert [run["seed"] for run in one["runs"]] == list(speed.SEEDS)
        best[place] = one


def test_seconds_are_compared_on_one_processor_only(file, tmp_path):
    path, entries = tmp_path / "speed.json", []
    for counts in ("seconds", "episodes"):
        file.write_text(EASY.replace('"episodes"', f'"{counts}"').replace('"easy"', f'"{counts}"'))
        task = speed.task(counts, file)
        for device in ("old", "new", "old"):
            entries.append(speed.entry(task, [row(seed, entropy_mae=0.1, entropy_mae_se=0.01, device=device) for seed in speed.SEEDS]))
    path.write_text(speed.records_text(entries))
    assert speed.standing("seconds", path) == entries[2]
    assert speed.standing("seconds", path, "new") == entries[1] and speed.standing("seconds", path, "third") is None
    assert speed.standing("episodes", path, "third") == entries[5]


def test_a_slow_processor_does_not_lose_to_a_fast_one(file, tmp_path):
    file.write_text(EASY.replace('"episodes"', '"seconds"'))
    fast = speed.entry(speed.task("easy", file), [row(seed, entropy_mae=0.1, entropy_mae_se=0.01, seconds=0.0, device="fast") for seed in speed.SEEDS])
    (tmp_path / "speed.json").write_text(speed.records_text([fast]))
    found, said = tried(file, tmp_path)
    assert found["device"] != "fast" and said.startswith("a record")


def test_the_command_lists_tries_and_tells(file, tmp_path):
    words = ["record", "--file", str(file), "--enter", str(tmp_path / "speed.json")]
    assert "no record yet" in CliRunner().invoke(app, words).output
    more = [*words, "easy", "--folder", str(tmp_path / "runs"), "--episodes", "16"]
    assert CliRunner().invoke(app, more).exit_code == 0
    assert CliRunner().invoke(app, more).exit_code == 1  # as fast as what stands
    assert "64 episodes" in CliRunner().invoke(app, [*words, "--list"]).output

"""A killed run goes on as if nothing had happened: the same weights, bit for bit, on the CPU.

Real processes are killed with SIGKILL, at random instants and in the middle of writing a
checkpoint, and the run is then brought to its end.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import _resume_worker
import pytest
import torch
from _support import HANGS, single_threaded

from bayeswind_lib import training
from bayeswind_lib.checkpoints import CheckpointError
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.training import loop

pytestmark = pytest.mark.xdist_group("resume")  # one fork server, one module fixture
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["bayeswind_lib", "torch._dynamo"])  # imported once, for all runs
PARTIAL = f".{loop.STATE}.*.part"  # each writer has its own
ALIVE: list = []


@pytest.fixture(autouse=True)
def none_is_left_alive():
    """A failed test must not leave a resting process behind, which would delay the end."""
    yield
    while ALIVE:
        ALIVE.pop().kill()


@pytest.fixture(autouse=True)
def one_thread():
    """Sums come out in one order only, in this process as in the killed ones."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def started(optimiser: str, folder: Path, limit: int = _resume_worker.NEVER, slow: str = ""):
    """A training process, and the counter of its disk writes."""
    syncs = FORK.Value("i", 0)
    words = (optimiser, str(folder), syncs, limit, slow)
    process = FORK.Process(target=_resume_worker.work, args=words, daemon=True)
    process.start()
    ALIVE.append(process)
    return process, syncs


def wait_for(condition, process) -> None:
    end = time.monotonic() + HANGS
    while not condition():
        assert process.exitcode is None, f"the run ended by itself with code {process.exitcode}"
        assert time.monotonic() < end, "the moment to kill never came"
        time.sleep(0.0005)


def kill_now(process) -> None:
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def saved_step(folder: Path) -> int:
    """The step in the state file, 0 if there is none; fails if the file is damaged."""
    path = folder / loop.STATE
    return read_tensors(path)[1]["step"] if path.exists() else 0


def kill_at_random(optimiser: str, folder: Path, chance: random.Random) -> None:
    """Kill after a few writes and a random part of a step (at most ten steps a life)."""
    least = chance.randint(0, 8)
    process, syncs = started(optimiser, folder, least + 12)
    wait_for(lambda: syncs.value >= least, process)
    time.sleep(chance.uniform(0, 0.01))
    kill_now(process)


def kill_inside_a_write(optimiser: str, folder: Path, slow: str, whole: int) -> None:
    """Kill while a state's temporary file is there: half written, or whole but not yet renamed."""
    for left in folder.glob(PARTIAL):
        left.unlink()
    process, _ = started(optimiser, folder, slow=slow)
    wait_for(lambda: written(folder) > 0, process)
    if slow == "rename":
        wait_for(lambda: written(folder) > 0.8 * whole, process)
    kill_now(process)
    assert any(folder.glob(PARTIAL))  # it was killed before the rename
    assert (written(folder) < 0.8 * whole) == (slow == "write")


def written(folder: Path) -> int:
    """Bytes in the state's temporary file, 0 if there is none."""
    sizes = []
    for path in folder.glob(PARTIAL):
        with contextlib.suppress(FileNotFoundError):  # renamed at this moment
            sizes.append(path.stat().st_size)
    return max(sizes, default=0)


def finished(optimiser: str, folder: Path) -> tuple[dict, dict]:
    """Bring a run to its end in a process of its own; its final tensors and note."""
    process, _ = started(optimiser, folder)
    process.join(120)
    assert process.exitcode == 0
    return read_tensors(folder / loop.STATE)


def without_seconds(curve: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in curve]


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_ten_kills_leave_no_trace_in_the_weights(tmp_path, optimiser):
    expected, smooth = finished(optimiser, tmp_path / "smooth")
    size = (tmp_path / "smooth" / loop.STATE).stat().st_size
    folder, chance = tmp_path / "killed", random.Random(f"{optimiser} 2025")
    steps = [0]
    for kind in ("", "", "write", "", "rename", "", "write", "", "rename", ""):
        if kind:
            kill_inside_a_write(optimiser, folder, kind, size)
        else:
            kill_at_random(optimiser, folder, chance)
        steps.append(saved_step(folder))  # the state is whole, whatever happened
    assert steps == sorted(steps)  # no progress that was saved is lost
    assert 0 < steps[-1] < 90  # the kills did hit a run on its way
    got, note = finished(optimiser, folder)
    assert note["step"] == smooth["step"] == 90
    assert got.keys() == expected.keys()
    assert {name.split(".")[0] for name in got} == {"model", "optimiser"}
    for name in expected:
        assert torch.equal(got[name], expected[name]), name
    assert without_seconds(note["curve"]) == without_seconds(smooth["curve"])
    assert [row["step"] for row in note["curve"]] == list(range(0, 91, 15))
    assert 1 <= note["interruptions"] <= 10
    assert smooth["interruptions"] == 0
    for step in _resume_worker.recipe(optimiser).snapshot_steps:
        killed, whole = (read_tensors(loop.snapshot_path(f, step))[0] for f in (folder, tmp_path / "smooth"))
        assert all(torch.equal(killed[name], whole[name]) for name in whole)


def test_training_without_a_folder_gives_the_same_weights(tmp_path):
    """Saving has no influence; and what `train` returns is what the folder holds."""
    wanted = _resume_worker.recipe("muon").but(steps=20)
    bare, record = training.train(wanted, progress=False)
    kept, again = training.train(wanted, tmp_path, progress=False, save_every=0)
    stored = read_tensors(tmp_path / loop.STATE)[0]
    for name, tensor in bare.state_dict().items():
        assert torch.equal(tensor, kept.state_dict()[name])
        assert torch.equal(tensor, stored[f"model.{name}"])
    assert without_seconds(record["curve"]) == without_seconds(again["curve"])
    assert not bare.training


def test_the_seeds_matter():
    """Otherwise the equalities above would be easy to have."""
    wanted = _resume_worker.recipe("muon").but(steps=10)
    runs = [wanted, wanted.but(seed=1), wanted.but(data_seed=1), wanted.but(supervision="posterior")]
    weights = [training.train(r, progress=False)[0].tokens.weight for r in runs]
    assert all(not torch.equal(weights[0], other) for other in weights[1:])


def test_a_finished_run_is_not_trained_further(tmp_path):
    wanted = _resume_worker.recipe("adamw").but(steps=12)
    first, _ = training.train(wanted, tmp_path, progress=False)
    before = (tmp_path / loop.STATE).read_bytes()
    again, record = training.train(wanted, tmp_path, resume=True, progress=False)
    assert torch.equal(first.tokens.weight, again.tokens.weight)
    assert (tmp_path / loop.STATE).read_bytes() == before
    assert record["schedule_ended"]
    assert record["interruptions"] == 0


@pytest.fixture(scope="module")
def partly(tmp_path_factory):
    """A folder that holds a finished run of twelve steps."""
    folder = tmp_path_factory.mktemp("partly")
    training.train(_resume_worker.recipe("muon").but(steps=12), folder, progress=False)
    return folder


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"optimiser": "adamw"}, "optimiser"),
        ({"learning_rate": 0.5, "seed": 3}, "learning_rate, seed"),
        ({"tunnel_config": {"n_values": 5}}, "tunnel_config"),
        ({"steps": 13}, "steps"),
    ],
)
def test_another_recipe_cannot_go_on(partly, changes, named):
    other = _resume_worker.recipe("muon").but(**{"steps": 12, **changes})
    with pytest.raises(CheckpointError, match=rf"{loop.STATE}: written by another recipe \({named} differ\)"):
        training.train(other, partly, resume=True, progress=False)


def test_a_folder_with_a_run_is_not_overwritten(partly):
    before = (partly / loop.STATE).read_bytes()
    with pytest.raises(CheckpointError, match="a run is already there; resume it, or choose another"):
        training.train(_resume_worker.recipe("muon").but(steps=12), partly, progress=False)
    assert (partly / loop.STATE).read_bytes() == before


def test_a_damaged_state_is_refused(partly, tmp_path):
    wanted = _resume_worker.recipe("muon").but(steps=12)
    content = (partly / loop.STATE).read_bytes()
    for bad in (content[: len(content) // 2], b"", b"not a state"):
        (tmp_path / loop.STATE).write_bytes(bad)
        with pytest.raises(CheckpointError, match=f"{tmp_path / loop.STATE}: truncated, or not a"):
            training.train(wanted, tmp_path, resume=True, progress=False)
    loop.write_tensors(tmp_path / loop.STATE, {"x": torch.zeros(2)})
    with pytest.raises(CheckpointError, match="not the state of a training run"):
        training.train(wanted, tmp_path, resume=True, progress=False)


def test_resume_needs_a_folder_and_begins_in_an_empty_one(tmp_path):
    wanted = _resume_worker.recipe("muon").but(steps=6)
    with pytest.raises(ValueError, match="resume needs the folder"):
        training.train(wanted, resume=True, progress=False)
    model, _ = training.train(wanted, tmp_path, resume=True, progress=False)
    assert torch.equal(model.tokens.weight, training.train(wanted, progress=False)[0].tokens.weight)


@pytest.mark.parametrize("device", ["cuda:7", "tpu", "gpu", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(tmp_path, device):
    with pytest.raises(ValueError, match=f"device '{device}' is not available here: choose one of cpu"):
        training.train(_resume_worker.recipe("muon"), tmp_path, device, progress=False)
    assert not list(tmp_path.iterdir())


def test_sigterm_saves_and_says_where(tmp_path):
    """The whole way, through the command line: stop politely, then look at what was saved."""
    command = [
        sys.executable, "-m", "bayeswind_lib", "train", "bijection", "transformer",
        "--preset", "smoke", "--steps", "1000000", "--folder", str(tmp_path),
    ]
    with subprocess.Popen(
        command, env=single_threaded(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        seen = ""
        while "step/s" not in seen or "| 0/" in seen.rsplit("\r", 1)[-1]:
            piece = os.read(process.stdout.fileno(), 4096).decode()
            assert piece, f"the run ended by itself: {seen}"
            seen += piece
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 130, rest
    step = saved_step(tmp_path)
    assert step > 0
    message = f"stopped at step {step} of 1000000, saved in {tmp_path}; go on with"
    assert message in rest
    assert "--resume" in rest
    assert "Traceback" not in rest
    # What was saved is where an undisturbed run stands after as many updates.
    wanted = training.recipe("bijection", "transformer", "smoke", steps=1_000_000)
    run = loop.start(wanted)
    for _ in range(step):
        loop.update(run, run.model)
    stored = read_tensors(tmp_path / loop.STATE)[0]
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(stored[f"model.{name}"], tensor), name


def test_signal_handlers_are_given_back():
    before = [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)]
    training.train(_resume_worker.recipe("muon").but(steps=6), progress=False)
    assert [signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_interruption_in_a_notebook_is_a_keyboard_interrupt(tmp_path):
    """Whoever presses the stop button gets the state saved and the usual exception."""
    real, wanted = loop.update, _resume_worker.recipe("muon").but(steps=30)

    def pressed(run, *how):
        if run.step == 7:
            signal.raise_signal(signal.SIGINT)
        return real(run, *how)

    loop.update = pressed
    try:
        with pytest.raises(KeyboardInterrupt, match="stopped at step 8 of 30, saved in"):
            training.train(wanted, tmp_path, progress=False)
    finally:
        loop.update = real
    assert saved_step(tmp_path) == 8
    resumed, record = training.train(wanted, tmp_path, resume=True, progress=False)
    whole, _ = training.train(wanted, progress=False)
    assert torch.equal(resumed.tokens.weight, whole.tokens.weight)
    assert record["interruptions"] == 1
    json.dumps(record, allow_nan=False)  # the record can be stored

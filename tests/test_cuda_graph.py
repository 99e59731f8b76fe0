"""An update recorded as a CUDA graph moves the weights as one that is started operation by operation.

Where there is no GPU a stand-in takes the graph's place: recording is one more update, replaying does it again. So
the rules are tested everywhere (what is recorded, when it is not, that recording leaves no trace), and the arithmetic of a
real graph on a GPU alone.
"""

from __future__ import annotations

import contextlib

import pytest
import torch
from _support import DEVICES

from bayeswind_lib import training
from bayeswind_lib.training import cuda_graph, loop


class Graph:
    """A stand-in for `torch.cuda.CUDAGraph` on the processor."""

    def __init__(self):
        self.replays = 0

    def replay(self):
        self.replays += 1


class Stream:
    def __init__(self, *_):
        pass

    def wait_stream(self, other):
        pass


@pytest.fixture
def stand_in(monkeypatch):
    """What `record` asks of CUDA, on the processor."""
    nothing = {"graph": lambda graph: contextlib.nullcontext(), "stream": lambda stream: contextlib.nullcontext()}
    silent = {"synchronize": lambda *_: None, "set_sync_debug_mode": lambda mode: None, "get_sync_debug_mode": lambda: 0}
    for name, what in (nothing | silent | {"CUDAGraph": Graph, "Stream": Stream, "current_stream": Stream}).items():
        monkeypatch.setattr(torch.cuda, name, what)


def smoke(**changes) -> training.Recipe:
    return training.recipe("bijection", "transformer", "smoke", **{"data_seed": 4} | changes)


def everything(run: loop.Run) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in cuda_graph._moved(run)]


def same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_recording_leaves_no_trace_in_a_run(stand_in, optimiser):
    """Not in the weights, nor in what the optimisers remember, also of a run that is already on its way."""
    run = loop.start(smoke(optimiser=optimiser))
    fresh = everything(run)
    for _ in range(2):
        episodes, rng = loop.draw(run), loop.generator("cpu", 0)
        assert cuda_graph.record(loop.step, run, run.model, episodes, rng) is not None
        assert same(everything(run)[: len(fresh)], fresh)
        assert run.step == 0 and all(parameter.grad is None for parameter in run.model.parameters())
        if optimiser == "adamw":  # made in the warm-up, and taken back
            assert all(int(state["step"]) == 0 for state in run.optimisers[0].state.values())
    loop.update(run, run.model)
    before = everything(run)
    assert cuda_graph.record(loop.step, run, run.model, loop.draw(run), loop.generator("cpu", 0)) is not None
    assert same(everything(run), before) and not same(before[: len(fresh)], fresh)


def test_a_network_that_draws_numbers_in_training_is_not_recorded(stand_in):
    """Its draws would be the same in every replay."""
    drawing = loop.start(smoke(model_config={"positions": "random_offset", "n_positions": 60}))
    plain = loop.start(smoke(model_config={"positions": "random_offset", "n_positions": 60}))
    recorded = cuda_graph.Recorded(loop.step)
    for _ in range(3):
        loop.update(drawing, drawing.model, recorded)
        loop.update(plain, plain.model)
    assert list(recorded.tapes.values()) == [None]
    assert same(everything(drawing), everything(plain))


def test_what_waits_for_the_gpu_is_not_recorded(stand_in):
    """PyTorch says so by an error while it is asked to look out for it; the run goes on as before."""
    run, plain = loop.start(smoke()), loop.start(smoke())
    calls = []

    def waiting(*arguments):
        calls.append(1)
        if len(calls) == cuda_graph.WARM_UPS + 1:
            raise RuntimeError("called a synchronizing CUDA operation")
        return loop.step(*arguments)

    recorded = cuda_graph.Recorded(waiting)
    with pytest.warns(UserWarning, match="not recorded as a CUDA graph, and take longer: RuntimeError: called a synchronizing"):
        loop.update(run, run.model, recorded)
    loop.update(run, run.model, recorded)
    for _ in range(2):
        loop.update(plain, plain.model)
    assert list(recorded.tapes.values()) == [None] and same(everything(run), everything(plain))


def test_an_error_of_the_run_s_own_is_not_swallowed(stand_in):
    def broken(*arguments):
        raise RuntimeError("shapes do not fit")

    run = loop.start(smoke())
    with pytest.warns(UserWarning, match="shapes do not fit"), pytest.raises(RuntimeError, match="shapes do not fit"):
        loop.update(run, run.model, cuda_graph.Recorded(broken))


def test_a_tape_is_made_for_each_stage_and_shape(stand_in):
    """And replayed on the episodes of each update."""
    stages = [{"n_pairs": 2, "n_queries": 2, "vocabulary": 4}]
    recipe = training.recipe("recall", "transformer", "smoke", curriculum=stages, mastery=1.0)
    run, recorded = loop.start(recipe), cuda_graph.Recorded(loop.step)
    for _ in range(3):
        loop.update(run, run.model, recorded)
    run.stage_ends.append(run.step)
    loop.update(run, run.model, recorded)
    first, second = recorded.tapes.values()
    assert [key[0] for key in recorded.tapes] == [0, 1]
    assert (first.graph.replays, second.graph.replays) == (3, 1)
    run.step -= 1
    assert torch.equal(second.episodes.inputs, loop.draw(run).inputs)


def test_what_comes_to_rest_has_a_tape_of_its_own(stand_in):
    run, recorded = loop.start(smoke(frozen=("*tokens*",), frozen_from=2)), cuda_graph.Recorded(loop.step)
    for _ in range(4):
        loop.update(run, run.model, recorded)
    assert [key[1] for key in recorded.tapes] == [False, True]


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "cpu"] or ["cpu"])
@pytest.mark.parametrize("optimiser", ["muon", "adamw"])
def test_rates_are_read_anew_in_every_update(device, optimiser):
    """As tensors they are on a GPU, where a graph reads the latest; as tensors and as numbers they move the weights alike."""
    recipe = smoke(optimiser=optimiser, warmup_steps=4)
    plain, tensors = loop.start(recipe, device), loop.start(recipe, device)
    for optimiser_ in tensors.optimisers:
        for group in optimiser_.param_groups:
            group["lr"] = torch.as_tensor(float(group["lr"]), device=device)
            group["foreach"] = False if device == "cpu" else group.get("foreach")  # foreach takes tensors on a GPU alone
    how = loop.step if device == "cpu" else cuda_graph.Recorded(loop.step)
    for _ in range(5):
        loop.update(plain, plain.model)
        loop.update(tensors, tensors.model, how)
    for ours, theirs in zip(everything(tensors), everything(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)

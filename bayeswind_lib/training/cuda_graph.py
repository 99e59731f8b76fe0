"""An update as a CUDA graph: its operations are taken down once, and then started all together by one call.

An update of the book's networks is some thousand operations of a few microseconds each, and Python needs longer to
start one than a GPU to do it. A graph does the same operations on other numbers
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs); draws and scores stay outside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch

from bayeswind_lib.tunnels import Episodes

WARM_UPS = 3  # updates before one is taken down: libraries allocate and choose their kernels in the first
# (run, forward, episodes, rng) -> loss in bits and logits, with the weights moved: `loop.step`.
Step = Callable[..., tuple[torch.Tensor, torch.Tensor]]


@dataclass
class Tape:
    """A recorded update, and where it reads and writes: a replay moves the weights, and overwrites the loss and the logits."""

    graph: torch.cuda.CUDAGraph
    episodes: Episodes
    loss: torch.Tensor
    logits: torch.Tensor

    def replay(self, episodes: Episodes) -> tuple[torch.Tensor, torch.Tensor]:
        """The update on other episodes of the same shape."""
        for name in ("inputs", "targets", "posterior"):
            getattr(self.episodes, name).copy_(getattr(episodes, name))
        self.graph.replay()
        return self.loss.clone(), self.logits.clone()


class Recorded:
    """The updates of a run on a CUDA GPU, recorded for each stage and shape of its episodes.

    An update that cannot be recorded (of a network that draws numbers in training, or waits for the GPU) is started
    operation by operation, as without this. One that fails while it is recorded warns with the reason: an error of the run's
    own comes again, unrecorded, in the same update.
    """

    def __init__(self, step: Step):
        self.step = step
        self.tapes: dict[tuple, Tape | None] = {}

    def __call__(self, run, forward, episodes: Episodes, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        key = (run.stage, run.freezes, tuple(episodes.inputs.shape))
        if key not in self.tapes:
            self.tapes[key] = record(self.step, run, forward, episodes, rng)
        tape = self.tapes[key]
        return tape.replay(episodes) if tape else self.step(run, forward, episodes, rng)


def record(step: Step, run, forward, episodes: Episodes, rng: torch.Generator) -> Tape | None:
    """The tape of an update, or None if it cannot be recorded; the run stays as it is."""
    given = Episodes(episodes.inputs.clone(), episodes.targets.clone(), episodes.posterior.clone(), {}, episodes.outcome)
    trial = torch.Generator().set_state(rng.get_state())
    before = {tensor: tensor.detach().clone() for tensor in _moved(run)}
    mode, reason = torch.cuda.get_sync_debug_mode(), ""
    side, graph = torch.cuda.Stream(run.device), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream(run.device))
    try:
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of optimisers that may be recorded and are not yet, and of the debug mode
            for _ in range(WARM_UPS):
                step(run, forward, given, trial)
            torch.cuda.set_sync_debug_mode("error")  # an update that waits fails here, where that does no harm
            step(run, forward, given, trial)
        torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.current_stream(run.device).wait_stream(side)
        if not torch.equal(trial.get_state(), rng.get_state()):  # its draws would be the same in every replay
            return None
        with torch.cuda.graph(graph):
            loss, logits = step(run, forward, given, trial)
    except RuntimeError as problem:
        reason = f"{type(problem).__name__}: {problem}"
    finally:
        torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.synchronize(run.device)
        run.model.zero_grad()
        with torch.no_grad():
            for tensor in _moved(run):  # what an optimiser made in the warm-up begins at zero
                tensor.copy_(before[tensor]) if tensor in before else tensor.zero_()
    if reason:
        warnings.warn(f"updates are not recorded as a CUDA graph, and take longer: {reason}", stacklevel=2)
        return None
    return Tape(graph, given, loss, logits)


def _moved(run) -> list[torch.Tensor]:
    """All that an update changes: weights, and what the optimisers remember."""
    states = [state for optimiser in run.optimisers for state in optimiser.state.values()]
    return [*run.model.parameters(), *(value for state in states for value in state.values() if torch.is_tensor(value))]

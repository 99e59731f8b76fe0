"""Both passes of an update as a CUDA graph: taken down once, then started by one call.

An update of the book's networks is some six hundred operations of a few microseconds each, and Python needs longer to
start one than a GPU to do it. A graph starts them all (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
It does the same operations on the same numbers; draws, clipping, optimisers and scores stay outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from bayeswind_lib.tunnels import Episodes

WARM_UPS = 3  # passes before one is taken down: libraries allocate and choose their kernels in the first
# (run, forward, episodes, rng) -> loss in bits and logits, with the gradients in the parameters: `loop.gradients`.
Passes = Callable[..., tuple[torch.Tensor, torch.Tensor]]


@dataclass
class Tape:
    """A recorded graph, and where it reads and writes: each replay overwrites the loss, the logits and the gradients."""

    graph: torch.cuda.CUDAGraph
    episodes: Episodes
    loss: torch.Tensor
    logits: torch.Tensor
    gradients: list[torch.Tensor | None]

    def replay(self, model: nn.Module, episodes: Episodes) -> tuple[torch.Tensor, torch.Tensor]:
        """The passes for other episodes of the same shape."""
        for name in ("inputs", "targets", "posterior"):
            getattr(self.episodes, name).copy_(getattr(episodes, name))
        self.graph.replay()
        for parameter, gradient in zip(model.parameters(), self.gradients, strict=True):
            parameter.grad = gradient
        return self.loss.clone(), self.logits.clone()


class Recorded:
    """The passes of a run on a CUDA GPU, recorded for each stage and shape of its episodes.

    Passes that cannot be recorded (a network that draws numbers in training, one that waits for the GPU) are started
    operation by operation, as without this.
    """

    def __init__(self, passes: Passes):
        self.passes = passes
        self.tapes: dict[tuple, Tape | None] = {}

    def __call__(self, run, forward, episodes: Episodes, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        key = (run.stage, tuple(episodes.inputs.shape))
        if key not in self.tapes:
            self.tapes[key] = record(self.passes, run, forward, episodes, rng)
        tape = self.tapes[key]
        return tape.replay(run.model, episodes) if tape else self.passes(run, forward, episodes, rng)


def record(passes: Passes, run, forward, episodes: Episodes, rng: torch.Generator) -> Tape | None:
    """The tape of these passes, or None if they cannot be recorded; nothing of the run changes but its gradients."""
    given = Episodes(episodes.inputs.clone(), episodes.targets.clone(), episodes.posterior.clone(), {}, episodes.outcome)
    trial = torch.Generator().set_state(rng.get_state())

    def once() -> tuple[torch.Tensor, torch.Tensor]:
        run.model.zero_grad(set_to_none=True)
        return passes(run, forward, given, trial)

    side, graph = torch.cuda.Stream(run.device), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream(run.device))
    before = torch.cuda.get_sync_debug_mode()
    try:
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                once()
            torch.cuda.set_sync_debug_mode("error")  # a pass that waits fails here, where that does no harm
            once()
        torch.cuda.set_sync_debug_mode(before)
        torch.cuda.current_stream(run.device).wait_stream(side)
        if not torch.equal(trial.get_state(), rng.get_state()):  # its draws would be the same in every replay
            return None
        run.model.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss, logits = once()
    except RuntimeError:
        return None
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return Tape(graph, given, loss, logits, [parameter.grad for parameter in run.model.parameters()])

"""Many small runs of one recipe at once: the same data and start, but other parts frozen from other updates on.

A network of this size keeps a processor waiting: the work of an update is in starting it. Here the
weights of R runs lie in one stack, and every operation does all of them. Each run does what `train`
would do with its recipe, but for rounding (tests/test_fleet.py).

Axes: R runs, B episodes, T tokens, K scored positions, Y outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.func import functional_call, vmap

from bayeswind_lib.training.loop import Run, draw, frozen_parameters, loss_bits, start
from bayeswind_lib.training.optimiser import orthogonalise, split_parameters
from bayeswind_lib.training.recipe import Recipe

Weights = dict[str, torch.Tensor]
FREE = ("frozen", "frozen_from", "n_snapshots", "eval_every")  # in which the runs of a fleet may differ


@dataclass
class Fleet:
    """R runs in memory.

    Attributes:
        recipes: one a run.
        run: of the first recipe: where the data come from, and the shell of the networks.
        weights: by name, (R, ...).
        until: by name, the update from which each run leaves it as it is, (R,).
        matrices: names of what Muon trains; momentum: its state. adamw: trains the rest.
    """

    recipes: Sequence[Recipe]
    run: Run
    weights: Weights
    until: dict[str, torch.Tensor]
    matrices: list[str]
    momentum: Weights
    adamw: torch.optim.AdamW


def assemble(recipes: Sequence[Recipe], nudges: Sequence[float] = ()) -> Fleet:
    """A fleet at step 0.

    Args:
        recipes: may differ only in what is frozen, and when. The optimiser is Muon.
        nudges: one a run: every first weight is multiplied by 1 plus so much times a draw from a
            standard normal. 1e-7 is about a unit in the last place: another rounding.
    Raises:
        ValueError: for recipes that differ in anything else, another optimiser or precision.
    """
    first = recipes[0]
    for recipe in recipes:
        same = {name: getattr(first, name) for name in FREE}
        if recipe.but(**same) != first:
            raise ValueError("the runs of a fleet may differ only in what is frozen, and when")
    if first.optimiser != "muon" or first.precision != "float32" or first.compile:
        raise ValueError("a fleet trains with Muon, in float32, without compiling")
    run = start(first)
    names = {id(p): name for name, p in run.model.named_parameters()}
    matrices = [names[id(p)] for p in split_parameters(run.model)[0]]
    weights, until = {}, {}
    for name, p in run.model.named_parameters():
        stack = p.detach().repeat(len(recipes), *[1] * p.ndim)  # (R, ...)
        for i, nudge in enumerate(nudges):
            if nudge:
                rng = torch.Generator().manual_seed(10_000 * first.seed + i)
                stack[i] *= 1 + nudge * torch.randn(p.shape, generator=rng)
        weights[name] = stack.requires_grad_()
        until[name] = torch.full((len(recipes),), first.steps)
    for i, recipe in enumerate(recipes):
        for p in frozen_parameters(run.model, recipe.frozen):
            until[names[id(p)]][i] = recipe.frozen_from
    rest = [weights[name] for name in weights if name not in matrices]
    adamw = torch.optim.AdamW(rest, lr=first.learning_rate, betas=first.betas, weight_decay=first.weight_decay)
    momentum = {name: torch.zeros_like(weights[name]) for name in matrices}
    return Fleet(recipes, run, weights, until, matrices, momentum, adamw)


def update(fleet: Fleet) -> torch.Tensor:
    """One step of all runs; returns their losses in bits, (R,)."""
    recipe, run = fleet.recipes[0], fleet.run
    episodes = draw(run)
    logits = forward(fleet, episodes.inputs)  # (R, B, K, Y)
    losses = torch.stack([loss_bits(one, episodes, recipe.supervision) for one in logits])
    grads = dict(zip(fleet.weights, torch.autograd.grad(losses.sum(), list(fleet.weights.values())), strict=True))
    still = {name: run.step < until for name, until in fleet.until.items()}  # (R,) each
    for name, grad in grads.items():
        grad *= _wide(still[name], grad)
    if recipe.grad_clip:
        norm = sum(grad.square().flatten(1).sum(1) for grad in grads.values()).sqrt()  # (R,)
        factor = (recipe.grad_clip / (norm + 1e-6)).clamp(max=1)
        for grad in grads.values():
            grad *= _wide(factor, grad)
    kept = {name: x.detach().clone() for name, x in fleet.weights.items() if not still[name].all()}
    _muon(fleet, grads, recipe.matrix_learning_rate * recipe.rate(run.step))
    for name, x in fleet.weights.items():
        x.grad = None if name in fleet.momentum else grads[name]
    for group in fleet.adamw.param_groups:
        group["lr"] = recipe.learning_rate * recipe.rate(run.step)
    fleet.adamw.step()
    with torch.no_grad():
        for name, before in kept.items():
            x = fleet.weights[name]
            x.copy_(torch.where(_wide(still[name], x), x, before))
    run.step += 1
    return losses.detach()


def forward(fleet: Fleet, inputs: torch.Tensor) -> torch.Tensor:
    """What every network says to the same inputs: (R, B, K, Y)."""
    return vmap(lambda weights: functional_call(fleet.run.model, weights, (inputs,)))(fleet.weights)


def silence(fleet: Fleet, number: int, names: Sequence[str]) -> None:
    """Set parameters of one run to zero, for good: without queries and keys attention is uniform."""
    known = {id(p): name for name, p in fleet.run.model.named_parameters()}
    with torch.no_grad():
        for p in frozen_parameters(fleet.run.model, tuple(names)):
            fleet.weights[known[id(p)]][number] = 0
            fleet.until[known[id(p)]][number] = 0


def of(fleet: Fleet, number: int) -> Weights:
    """A copy of the weights of one run."""
    return {name: x[number].detach().clone() for name, x in fleet.weights.items()}


def _wide(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return x.view(-1, *[1] * (like.ndim - 1))


@torch.no_grad()
def _muon(fleet: Fleet, grads: Mapping[str, torch.Tensor], rate: float) -> None:
    """As `Muon.step`, each matrix of each run on its own."""
    recipe, by_shape = fleet.recipes[0], defaultdict(list)
    for name in fleet.matrices:
        by_shape[fleet.weights[name].shape].append(name)
    for (_, rows, columns), names in by_shape.items():
        for name in names:
            fleet.momentum[name].lerp_(grads[name], 1 - recipe.momentum)
        ahead = torch.stack([grads[name].lerp(fleet.momentum[name], recipe.momentum) for name in names])
        new = orthogonalise(ahead.flatten(0, 1)).unflatten(0, ahead.shape[:2])
        for name, x in zip(names, new, strict=True):
            fleet.weights[name].mul_(1 - rate * recipe.weight_decay)
            fleet.weights[name].sub_(x, alpha=rate * max(1.0, rows / columns) ** 0.5)

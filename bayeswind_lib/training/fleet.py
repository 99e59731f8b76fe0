"""Many small runs of one recipe at once: the same data and start, but other parts frozen from other updates on.

A network of this size keeps a processor waiting: the work of an update is in starting it. Here the
weights of R runs lie in one stack, and every operation does all of them; this second loop
stays beside `train` because it takes a third of its time, and because a run of a fleet may be handed what
a copy of itself finds (`hold_site`), which no recipe says. Each run does what `train` would do with its recipe, but for rounding (tests/test_fleet.py).

Axes: R runs, B episodes, T tokens, K scored positions, Y outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
        held: by the end of a module's name, the update from which each run is handed what a copy finds
            there, (R,); old: those copies. See `hold_site`.
    """

    recipes: Sequence[Recipe]
    run: Run
    weights: Weights
    until: dict[str, torch.Tensor]
    matrices: list[str]
    momentum: Weights
    adamw: torch.optim.AdamW
    held: dict[str, torch.Tensor] = field(default_factory=dict)
    old: Weights = field(default_factory=dict)


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
    if not fleet.held:
        return vmap(lambda weights: functional_call(fleet.run.model, weights, (inputs,)))(fleet.weights)
    since = {site: fleet.run.step >= step for site, step in fleet.held.items()}  # (R,) each
    with torch.no_grad():
        follows = torch.stack([fleet.run.step <= step for step in fleet.held.values()]).all(0)  # until it is held
        for name, old in fleet.old.items():
            old.copy_(torch.where(_wide(follows, old), fleet.weights[name], old))
        given = vmap(lambda weights: _read(fleet.run.model, weights, inputs, list(since)))(fleet.old)
    return vmap(lambda *parts: _speak(fleet.run.model, inputs, *parts))(fleet.weights, given, since)


def _modules(model, sites) -> dict:
    return {name: module for name, module in model.named_modules() if name.endswith(tuple(sites))}


def _read(model, weights: Weights, inputs: torch.Tensor, sites: list[str]) -> Weights:
    """What some modules of a network hand on."""
    seen, found = _modules(model, sites), {}
    hooks = [
        module.register_forward_hook(lambda m, i, output, name=name: found.__setitem__(name, output))
        for name, module in seen.items()
    ]
    try:
        functional_call(model, weights, (inputs,))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _speak(model, inputs: torch.Tensor, weights: Weights, given: Weights, since: Weights) -> torch.Tensor:
    """What a network says that is handed what others found, where a flag says so."""
    flag = {name: next(x for site, x in since.items() if name.endswith(site)) for name in given}
    hooks = [
        module.register_forward_hook(lambda m, i, output, name=name: torch.where(flag[name], given[name], output))
        for name, module in _modules(model, since).items()
    ]
    try:
        return functional_call(model, weights, (inputs,))
    finally:
        for hook in hooks:
            hook.remove()


def freeze_at_start(fleet: Fleet, number: int, names: Sequence[str], factor: float = 1.0) -> None:
    """Multiply some first parameters of one run, and never train them. Without queries and keys (0) attention is uniform."""
    known = {id(p): name for name, p in fleet.run.model.named_parameters()}
    with torch.no_grad():
        for p in frozen_parameters(fleet.run.model, tuple(names)):
            fleet.weights[known[id(p)]][number] *= factor
            fleet.until[known[id(p)]][number] = 0


def hold_site(fleet: Fleet, number: int, site: str, step: int, names: Sequence[str] = (), copy: Weights | None = None) -> None:
    """From an update on hand one run what a copy of itself from then finds at a site, whatever it learns.

    Freezing queries and keys does not freeze where a network looks, for the stream that they read
    goes on changing. This does.

    Args:
        site: end of the name of modules: "attention.pattern", or "attention.value".
        names: of parameters that are frozen from then on too.
        copy: the weights of another network, whose findings are handed on from the next update on, whatever `step` is.
    """
    R = len(fleet.recipes)
    if not fleet.old:
        fleet.old = {name: x.detach().clone() for name, x in fleet.weights.items()}
    fleet.held.setdefault(site, torch.full((R,), fleet.recipes[0].steps + 1))[number] = step if copy is None else -1
    for name, x in (copy or {}).items():
        fleet.old[name][number] = x
    known = {id(p): name for name, p in fleet.run.model.named_parameters()}
    for p in frozen_parameters(fleet.run.model, tuple(names)):
        fleet.until[known[id(p)]][number] = step


def weights_of(fleet: Fleet, number: int) -> Weights:
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

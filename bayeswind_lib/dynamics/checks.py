"""The closed forms of `attention` held against autograd and finite differences, and laws that are wrong.

A law that agrees with autograd proves little until one has seen what a law that is slightly wrong
does. So each of the two laws of Paper II stands here beside its rivals.

Axes: as in `attention`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bayeswind_lib.dynamics import attention, steps
from bayeswind_lib.dynamics.attention import Gradients, Pass, Weights

LAWS = ("pattern", "scores", "values", "query", "key", "value", "inputs")  # that `Gradients` holds
# Kinds of heads for which the closed forms are claimed, with what `draw` and `forward` need for them.
SIZES = ("n_heads", "n_groups")
KINDS: dict[str, dict] = {
    "one head": {},
    "not causal": {"causal": False},
    "three heads": {"n_heads": 3},
    "grouped queries": {"n_heads": 4, "n_groups": 2},
    "rotary positions": {"rotary": True},
    "temperature": {"temperature": 1.7},
    "all of it": {"n_heads": 4, "n_groups": 2, "rotary": True, "temperature": 1.7},
}


def random_head(
    kind: str, rng: torch.Generator, dtype: torch.dtype = torch.float64,
) -> tuple[torch.Tensor, Weights, torch.Tensor, dict]:
    """Inputs (2, 7, 5), weights, targets (2, 7) with unsupervised ones, and how to run them.

    Raises:
        ValueError: for a kind that is not in `KINDS`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}: choose one of {', '.join(KINDS)}")
    sizes = {name: n for name, n in KINDS[kind].items() if name in SIZES}
    way = {name: n for name, n in KINDS[kind].items() if name not in SIZES}
    weights = attention.draw(rng, width=5, channels=4, value_channels=6, n_outcomes=8, dtype=dtype, **sizes)
    inputs = torch.randn(2, 7, 5, generator=rng, dtype=dtype)
    targets = torch.randint(8, (2, 7), generator=rng)
    targets[0, 2] = targets[1, 5] = attention.UNSUPERVISED
    return inputs, weights, targets, way


def by_autograd(
    inputs: torch.Tensor, weights: Weights, loss: Callable[[Pass], torch.Tensor], **way,
) -> dict[str, torch.Tensor]:
    """What autograd finds for every part of a layer of attention, by the names of `Gradients`.

    Args:
        loss: of what attention computed; anything may come after it.
        way: as `forward` takes it (causal, rotary, temperature).
    Returns:
        the gradients at pattern, scores, values, inputs and the maps (query, key, value, output),
        and "context": the upstream gradient u.
    """
    x = inputs.detach().clone().requires_grad_()
    watched = weights.map(lambda name, w: w.detach().clone().requires_grad_())
    done = attention.forward(x, watched, **way)
    inner = {name: getattr(done, name) for name in ("values", "scores", "pattern", "context")}
    for part in inner.values():
        part.retain_grad()
    loss(done).backward()
    maps = {name: getattr(watched, name).grad for name in ("query", "key", "value", "output")}
    found = {"inputs": x.grad} | {name: part.grad for name, part in inner.items()} | maps
    return {name: grad for name, grad in found.items() if grad is not None}


def by_differences(loss: Callable[[torch.Tensor], float], at: torch.Tensor, size: float = 1e-6) -> torch.Tensor:
    """The gradient of a loss by central differences, entry by entry; 0 where `at` is infinite.

    Args:
        loss: of a tensor shaped like `at`.
        at: float64, any shape.
        size: half the distance of the two points.
    """
    found = torch.zeros_like(at)
    for place in torch.isfinite(at).nonzero().tolist():
        there, back = at.clone(), at.clone()
        there[tuple(place)] += size
        back[tuple(place)] -= size
        found[tuple(place)] = (loss(there) - loss(back)) / (2 * size)
    return found


def apart(law: torch.Tensor, truth: torch.Tensor) -> float:
    """Relative error of a law, |law - truth| / |truth|, over all entries; 0 if it is right."""
    return float((law - truth).norm() / truth.norm())


def score_laws(done: Pass, upstream: torch.Tensor) -> dict[str, torch.Tensor]:
    """The routing law and its rivals, each (B, H, T, T).

    "law": alpha (b - mean of b under alpha). "no baseline": alpha b. "plain baseline": the mean of
    b over the visible keys, each counted alike. "no responsibility": b - mean, on visible keys.
    "other query": the responsibilities of the query before (the last for the first).
    "other sign": minus the law.
    """
    b, alpha = attention.compatibility(done, upstream), done.pattern
    seen = (alpha > 0).to(b.dtype)
    advantage = attention.advantage(done, upstream)
    plain = (seen * b).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True)
    return {
        "law": -alpha * advantage,
        "no baseline": alpha * b,
        "plain baseline": alpha * (b - plain),
        "no responsibility": -seen * advantage,
        "other query": -alpha.roll(1, -2) * advantage,
        "other sign": alpha * advantage,
    }


def value_laws(done: Pass, upstream: torch.Tensor) -> dict[str, torch.Tensor]:
    """The law of values and its rivals, each (B, G, T, V).

    "law": sum_i alpha_ij u_i. "per unit of mass": divided by sum_i alpha_ij, the step of a mean.
    "equal users": every query spreads its error evenly over the keys that it sees. "other query": the errors of the query
    before. "own error": alpha_jj u_j only.
    """
    alpha = done.pattern
    seen = (alpha > 0).to(alpha.dtype)
    equal = (seen / seen.sum(-1, keepdim=True)).transpose(-2, -1) @ upstream
    gathered = alpha.transpose(-2, -1) @ upstream
    own = alpha.diagonal(dim1=-2, dim2=-1)[..., None] * upstream
    laws = {
        "law": gathered,
        "per unit of mass": gathered / alpha.sum(-2)[..., None].clamp(min=1e-300),
        "equal users": equal,
        "other query": alpha.transpose(-2, -1) @ upstream.roll(1, -2),
        "own error": own,
    }
    return {name: done.pooled(law) for name, law in laws.items()}


def network_loss(model, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of a network, nats: targets are outcomes (B, K) or probabilities (B, K, Y)."""
    answer = model(inputs)
    truth = targets.flatten(0, 1)
    truth = truth.to(answer.dtype) if truth.is_floating_point() else truth
    return torch.nn.functional.cross_entropy(answer.flatten(0, 1), truth)


@torch.no_grad()
def loss_with_pattern(model, layer: int, pattern: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    """The loss of a network, nats, while a layer of attention has a given pattern (B, H, T, T)."""
    hook = model.blocks[layer].attention.pattern.register_forward_hook(lambda m, x, y: pattern)
    try:
        return float(network_loss(model, inputs, targets))
    finally:
        hook.remove()


def opened(model, layer: int, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[Pass, torch.Tensor, dict[str, torch.Tensor]]:
    """A layer of attention inside a network of the book: its pass, its upstream gradient, and autograd.

    The pass is rebuilt from the layer's weights and from what the layer reads. The upstream
    gradient, of the mean cross-entropy in nats, is taken where the heads hand over.

    Args:
        model: a transformer of the book with softmax attention; its number type is kept.
        layer: which block.
        inputs, targets: of some episodes, as the network reads them; targets are outcomes, int64
            (B, K), or probabilities (B, K, Y): then the loss is its expectation under them.
    Returns:
        the pass; the upstream gradient (B, H, T, V); and autograd's own gradients at "pattern"
        (B, H, T, T) and at the maps "query" (H, D, C), "key" and "value" (G, D, C).
    Raises:
        ValueError: if the layer has no trained attention.
    """
    block = getattr(model.blocks[layer], "attention", None)
    if block is None or block.uniform:
        raise ValueError(f"layer {layer} has no attention that looks: choose another one")
    names, seen, hooks = ("query", "key", "value"), {}, []
    given = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    model.requires_grad_().zero_grad(set_to_none=True)

    def keep(name, what):
        what.retain_grad()
        seen[name] = what

    hooks.append(block.register_forward_hook(lambda m, x, y: seen.update(inputs=x[0].detach())))
    hooks.append(block.pattern.register_forward_hook(lambda m, x, y: keep("pattern", y)))
    hooks.append(block.output.register_forward_hook(lambda m, x, y: keep("context", x[0])))
    try:
        network_loss(model, inputs, targets).backward()
    finally:
        for hook in hooks:
            hook.remove()
    H, heads = block.n_heads, dict(zip(names, (block.n_heads, block.n_groups, block.n_groups), strict=True))
    maps = {n: _by_head(getattr(block, n).weight.detach(), heads[n]) for n in names}
    output = block.output.weight.detach().T.unflatten(0, (H, -1))
    done = attention.forward(seen["inputs"], Weights(**maps, output=output), rotary=block.rotary, window=block.window)
    upstream = seen["context"].grad.unflatten(-1, (H, -1)).transpose(1, 2)
    truth = {"pattern": seen["pattern"].grad} | {n: _by_head(getattr(block, n).weight.grad, heads[n]) for n in names}
    for parameter, asked, grad in given:
        parameter.requires_grad_(asked).grad = grad
    return done, upstream, truth


def _by_head(weight: torch.Tensor, n_heads: int) -> torch.Tensor:
    """A map as torch stores it, (H C, D), head by head: (H, D, C)."""
    return weight.T.unflatten(1, (n_heads, -1)).transpose(0, 1)


def maps_of(done: Pass, score_gradient: torch.Tensor, value_gradient: torch.Tensor) -> dict[str, torch.Tensor]:
    """What a law for scores and one for values say about the maps: query, key, value (H or G, D, C).

    Only for positions that are not rotary.

    Raises:
        ValueError: if the pass is rotary.
    """
    if done.rotary:
        raise ValueError("positions are rotary: use attention.gradients, which turns the vectors back")
    dq = score_gradient @ done.shared(done.keys) * done.scale
    dk = done.pooled(score_gradient.transpose(-2, -1) @ done.queries * done.scale)
    parts = {"query": dq, "key": dk, "value": value_gradient}
    return {name: torch.einsum("btd,bhtc->hdc", done.inputs, part) for name, part in parts.items()}


def agreement(found: Gradients, truth: dict[str, torch.Tensor]) -> dict[str, float]:
    """Largest absolute difference between a closed form and autograd, for each that both have."""
    return {
        name: float((getattr(found, name) - truth[name]).abs().max()) for name in LAWS if name in truth
    }


def unsaturated(pattern: torch.Tensor) -> torch.Tensor:
    """1 - sum_j alpha_ij^2: how far a row of attention is from being saturated, (B, H, T).

    0 if all attention is on one key, 1 - 1/n if n keys share it evenly. It is the trace of the
    softmax's Jacobian, diag(alpha) - alpha alpha'.
    """
    return 1 - pattern.square().sum(-1)


def gradient_coherence(done: Pass, upstream: torch.Tensor) -> float:
    """Share of the query map's gradient that survives the mean over sequences, 1/B to 1 (or less).

    |sum of g_b|^2 / (B sum of |g_b|^2) for the gradients g_b of the B sequences: 1 if all are
    equal, 1/B on average if they are independent with mean 0. Both heads and channels are summed.
    """
    dq = attention.gradients(done, upstream).queries
    each = torch.einsum("btd,bhtc->bhdc", done.inputs, dq).flatten(1)  # (B, H D C)
    return float(each.sum(0).square().sum() / (len(each) * each.square().sum()))


def improved_share(done: Pass, upstream: torch.Tensor) -> float:
    """Share of the attention that lies on values which a small step makes better for who looks.

    sum of alpha_ij over the pairs with d(u_i . v_j) below 0 after a step of the values
    (`steps.compatibility_change`), over the sum of all; queries without an error stay out.
    """
    change = steps.compatibility_change(done, upstream, 1.0)
    asked = done.pattern * (upstream.square().sum(-1, keepdim=True) > 0)
    return float((asked * (change < 0)).sum() / asked.sum())


def random_errors(upstream: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Errors as long as these, in directions drawn at random: what `improved_share` is for users without a common cause."""
    drawn = torch.randn(upstream.shape, generator=rng, dtype=upstream.dtype)
    return drawn / drawn.norm(dim=-1, keepdim=True) * upstream.norm(dim=-1, keepdim=True)  # 0 stays 0


def gradient_parts(done: Pass, upstream: torch.Tensor) -> dict[str, float]:
    """Why scores move or do not: root mean squares of three things, and how far attention is from saturated.

    "error": the length of u_i. "spread": the standard deviation, over the keys a query may see and
    each counted alike, of b_ij, what there would be to gain. "scores": the length of a row of G.
    "unsaturated": mean of `unsaturated`, over queries with more than one key.
    """
    b, seen = attention.compatibility(done, upstream), done.pattern > 0
    later = slice(1, None)  # the first query has one key only
    found = attention.gradients(done, upstream).scores[..., later, :]
    n = seen.sum(-1, keepdim=True)
    mean = (b * seen).sum(-1, keepdim=True) / n
    spread = ((b - mean).square() * seen).sum(-1, keepdim=True) / n
    def root(x: torch.Tensor) -> float:
        return math.sqrt(float(x.mean()))
    return {
        "error": root(upstream[..., later, :].square().sum(-1)), "spread": root(spread[..., later, :]),
        "scores": root(found.square().sum(-1)), "unsaturated": float(unsaturated(done.pattern)[..., later].mean()),
    }

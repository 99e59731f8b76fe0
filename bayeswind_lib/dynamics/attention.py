"""One layer of attention and every gradient of it, in closed form (Paper II, arXiv 2512.22473).

Heads, shared keys and values (grouped queries), rotary positions and a temperature are all in it.
What comes after the heads enters through one thing only: the *upstream* gradient, that of the loss
at what each head returns. So the formulas hold for a head inside any network.

Axes: B sequences, T positions (query i looks at key j), D channels of the inputs, H query heads,
      G key-value heads (each serves H / G query heads in a row), C channels of a query or a key,
      V channels of a value, Y outcomes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch

from bayeswind_lib.models.positions import rotate, rotate_back

UNSUPERVISED = -1  # a target that asks nothing


@dataclass(frozen=True)
class Weights:
    """The four maps of attention.

    Attributes:
        query: (H, D, C).
        key: (G, D, C).
        value: (G, D, V).
        output: (H, V, Y), from what the heads return to logits.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    output: torch.Tensor

    def __post_init__(self):
        H, G = len(self.query), len(self.key)
        if len(self.value) != G or H % G:
            raise ValueError(
                f"there are {H} query heads, {G} key heads and {len(self.value)} value heads: "
                "keys and values come in pairs, and their number must divide that of the queries"
            )
        if len(self.output) != H:
            raise ValueError(f"output has {len(self.output)} heads, but there are {H} query heads")

    @property
    def serves(self) -> int:
        """How many query heads share one key-value head, H / G."""
        return len(self.query) // len(self.key)

    def map(self, change) -> Weights:
        """The weights after `change(name, weight)`."""
        return Weights(**{f.name: change(f.name, getattr(self, f.name)) for f in fields(self)})


def draw(
    rng: torch.Generator, *, width: int, n_outcomes: int, channels: int, value_channels: int | None = None,
    n_heads: int = 1, n_groups: int | None = None, size: float = 1.0, dtype: torch.dtype = torch.float64,
) -> Weights:
    """Weights drawn from a normal law with mean 0 and standard deviation `size`.

    Args:
        width, channels, value_channels, n_outcomes: D, C, V (None: as C) and Y.
        n_heads, n_groups: H and G (None: as H).
    """
    H, G = n_heads, n_groups or n_heads
    V = value_channels or channels
    shapes = {"query": (H, width, channels), "key": (G, width, channels), "value": (G, width, V), "output": (H, V, n_outcomes)}
    return Weights(**{name: size * torch.randn(shape, generator=rng, dtype=dtype) for name, shape in shapes.items()})


@dataclass(frozen=True)
class Pass:
    """What attention computed on the way to its answer.

    Attributes:
        inputs: (B, T, D).
        weights: the maps.
        queries: (B, H, T, C), turned if positions are rotary.
        keys, values: (B, G, T, C), likewise turned, and (B, G, T, V).
        scores: (B, H, T, T), query by key; -inf where a key is later, or before the window.
        pattern: (B, H, T, T), the attention weights; rows sum to 1.
        context: (B, H, T, V), what each head returns.
        rotary, temperature: as given.
    """

    inputs: torch.Tensor
    weights: Weights
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    scores: torch.Tensor
    pattern: torch.Tensor
    context: torch.Tensor
    rotary: bool
    temperature: float

    @property
    def scale(self) -> float:
        """What a product of query and key is multiplied by: 1 / (temperature sqrt(C))."""
        return 1 / (self.temperature * math.sqrt(self.queries.shape[-1]))

    @property
    def logits(self) -> torch.Tensor:
        """(B, T, Y), the outputs of all heads, summed."""
        return torch.einsum("bhtv,hvy->bty", self.context, self.weights.output)

    def shared(self, x: torch.Tensor) -> torch.Tensor:
        """What each query head sees of keys or values: (B, G, T, C) -> (B, H, T, C)."""
        return x.repeat_interleave(self.weights.serves, dim=1)

    def pooled(self, x: torch.Tensor) -> torch.Tensor:
        """The sum over the query heads that share a key-value head: (B, H, T, C) -> (B, G, T, C)."""
        return x.unflatten(1, (-1, self.weights.serves)).sum(2)


def attend(
    queries: torch.Tensor, keys: torch.Tensor, scale: float, causal: bool = True, window: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores and attention weights of queries and keys (B, H, T, C): two of shape (B, H, T, T)."""
    scores = queries @ keys.transpose(-2, -1) * scale
    if causal:
        T = scores.shape[-1]
        future = torch.ones(T, T, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if window:
        T = scores.shape[-1]
        gone = torch.ones(T, T, dtype=torch.bool, device=scores.device).tril(-window)
        scores = scores.masked_fill(gone, -math.inf)
    return scores, scores.softmax(-1)


def forward(
    inputs: torch.Tensor, weights: Weights, *, causal: bool = True, rotary: bool = False, temperature: float = 1.0,
    window: int = 0,
) -> Pass:
    """Run attention, and keep everything.

    Args:
        inputs: (B, T, D).
        causal: whether a query sees only keys up to its own place.
        rotary: whether queries and keys are turned by their place.
        temperature: scores are divided by it; above 0.
        window: a query sees no key that lies this many places before it, or more; 0: all.
    Raises:
        ValueError: if the inputs do not fit the weights, or the temperature is not above 0.
    """
    if inputs.ndim != 3 or inputs.shape[-1] != weights.query.shape[1]:
        raise ValueError(f"inputs have shape {tuple(inputs.shape)}: expected (B, T, {weights.query.shape[1]})")
    if temperature <= 0:
        raise ValueError(f"temperature is {temperature}: give a number above 0")
    turn = rotate if rotary else lambda x: x
    q, k, v = (torch.einsum("btd,hdc->bhtc", inputs, w) for w in (weights.query, weights.key, weights.value))
    q, k = turn(q), turn(k)
    share = weights.serves
    scale = 1 / (temperature * math.sqrt(q.shape[-1]))
    scores, pattern = attend(q, k.repeat_interleave(share, 1), scale, causal, window)
    context = pattern @ v.repeat_interleave(share, 1)
    return Pass(inputs, weights, q, k, v, scores, pattern, context, rotary, temperature)


# ---- the loss, and what it asks of a head


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Cross-entropy in nats, over the supervised positions: logits (B, T, Y), targets int64 (B, T)."""
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=UNSUPERVISED, reduction=reduction,
    )


def residual(logits: torch.Tensor, targets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
    """Gradient of the cross-entropy at the logits: the forecast less what happened, (B, T, Y).

    Rows of positions that are not supervised (target -1) are 0. Reduction is "sum" or "mean" over
    the supervised positions; this is the one place where it enters.

    Raises:
        ValueError: for another reduction, or if nothing is supervised.
    """
    asked = targets != UNSUPERVISED  # (B, T)
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}: choose mean or sum")
    if not asked.any():
        raise ValueError(f"all targets are {UNSUPERVISED}: no position is supervised")
    happened = torch.nn.functional.one_hot(targets.clamp(min=0), logits.shape[-1])
    size = 1 / int(asked.sum()) if reduction == "mean" else 1.0
    return size * (logits.softmax(-1) - happened) * asked[..., None]


def upstream_of(residual: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Gradient of the loss at what each head returns, u = W_O r: (B, T, Y), (H, V, Y) -> (B, H, T, V)."""
    return torch.einsum("bty,hvy->bhtv", residual, output)


def output_gradient(context: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
    """Gradient at the output map: (B, H, T, V), (B, T, Y) -> (H, V, Y)."""
    return torch.einsum("bhtv,bty->hvy", context, residual)


# ---- the laws


def compatibility(done: Pass, upstream: torch.Tensor) -> torch.Tensor:
    """b_ij = u_i . v_j, the gradient at the attention weights: (B, H, T, T).

    A *negative* one means that more attention to j would lower the loss.
    """
    return upstream @ done.shared(done.values).transpose(-2, -1)


def advantage(done: Pass, upstream: torch.Tensor) -> torch.Tensor:
    """A_ij = sum_l alpha_il b_il - b_ij: how much better j is than what query i looks at now, (B, H, T, T).

    Positive means that more attention to j lowers the loss. Its mean under the attention weights is
    0, whatever they are. Later keys have an advantage too; it has no effect, for their weight is 0.
    """
    return _advantage(done.pattern, compatibility(done, upstream))


def _advantage(pattern: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (pattern * b).sum(-1, keepdim=True) - b


@dataclass(frozen=True)
class Gradients:
    """Gradients of the loss; descent subtracts them. Shapes are those of the thing itself.

    Attributes:
        pattern: b_ij = u_i . v_j.
        scores: G_ij = -alpha_ij A_ij, *advantage-based routing*; each row sums to 0.
        values: sum_i alpha_ij u_i, *responsibility-weighted values*, over all heads that share them.
        queries, keys: before they are turned by rotary positions.
        query, key, value: at the maps.
        inputs: through queries, keys and values.
    """

    pattern: torch.Tensor
    scores: torch.Tensor
    values: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    inputs: torch.Tensor


def gradients(done: Pass, upstream: torch.Tensor) -> Gradients:
    """Every gradient of a layer of attention, from the upstream gradient u (B, H, T, V) alone.

    Raises:
        ValueError: if `upstream` has not the shape of the context.
    """
    if upstream.shape != done.context.shape:
        raise ValueError(
            f"upstream has shape {tuple(upstream.shape)}: it is the gradient at the context, {tuple(done.context.shape)}"
        )
    b = compatibility(done, upstream)  # (B, H, T, T)
    G = -done.pattern * _advantage(done.pattern, b)  # (B, H, T, T)
    dv = done.pooled(done.pattern.transpose(-2, -1) @ upstream)  # (B, G, T, V)
    return _through(done, b, G, dv)


def gradients_from(done: Pass, scores: torch.Tensor, values: torch.Tensor) -> Gradients:
    """Every gradient of a layer whose loss is not a function of the context: from those at scores and values.

    Args:
        scores: (B, H, T, T), 0 where a key is later. values: (B, G, T, V).
    Returns:
        as `gradients`; there is none at the attention weights, so `pattern` is empty.
    Raises:
        ValueError: if a shape is not that of the scores or values.
    """
    if scores.shape != done.scores.shape or values.shape != done.values.shape:
        raise ValueError(
            f"gradients have shapes {tuple(scores.shape)} and {tuple(values.shape)}: expected those of "
            f"scores and values, {tuple(done.scores.shape)} and {tuple(done.values.shape)}"
        )
    return _through(done, scores.new_zeros(0), scores, values)


def _through(done: Pass, b: torch.Tensor, G: torch.Tensor, dv: torch.Tensor) -> Gradients:
    """From scores and values to queries, keys, maps and inputs."""
    w, x = done.weights, done.inputs
    unturn = rotate_back if done.rotary else lambda part: part
    dq = unturn(G @ done.shared(done.keys) * done.scale)  # (B, H, T, C)
    dk = unturn(done.pooled(G.transpose(-2, -1) @ done.queries * done.scale))  # (B, G, T, C)
    parts = ((dq, w.query), (dk, w.key), (dv, w.value))
    maps = [torch.einsum("btd,bhtc->hdc", x, part) for part, _ in parts]
    back = sum(torch.einsum("bhtc,hdc->btd", part, weight) for part, weight in parts)
    return Gradients(b, G, dv, dq, dk, *maps, back)


def loss_gradients(done: Pass, targets: torch.Tensor, reduction: str = "mean") -> tuple[Gradients, torch.Tensor]:
    """All gradients of the cross-entropy of a head that ends in logits, and that at the output map."""
    r = residual(done.logits, targets, reduction)
    return gradients(done, upstream_of(r, done.weights.output)), output_gradient(done.context, r)

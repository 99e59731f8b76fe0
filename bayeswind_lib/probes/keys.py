"""Stage one, *a frame for hypotheses*: are the keys of different tokens orthogonal?

The paper's number is a mean absolute cosine between layer 0's keys. How small that is without any
training depends on the number of channels, on whether heads are taken one by one, and on how a
first W_K is drawn; each of these is a null here (Paper I, section 4; science notes 5.3 and 7.1).

A cosine is not what attention sees. So there are two more questions here: what do the scores of a
layer tell apart (`score_parts`), and what is lost when keys, queries or values of different tokens
are made alike (`token_ablation`)?

Axes: n tokens, D channels, H heads, C channels of one head; B episodes, K questions, T places.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from bayeswind_lib.probes.ablation import Bench, Effect, resampled
from bayeswind_lib.probes.activations import activations, edit, resume
from bayeswind_lib.probes.nulls import Measured, noise_like, normal_like, untrained
from bayeswind_lib.probes.sites import for_each_query
from bayeswind_lib.tunnels import Episodes

NULLS = ("isotropic", "untrained", "shuffled", "matched")


def key_vectors(model: nn.Module, tokens: torch.Tensor, layer: int = 0) -> torch.Tensor:
    """The keys that single tokens have, without positions: int64 (n,) -> (H, n, C); (G, n, C) where heads share keys.

    Exact in layer 0 of a network without position vectors; elsewhere a token alone says what its
    embedding contributes to the key.

    Raises:
        ValueError: if the network reads vectors, or the layer has no keys.
    """
    if not model.config.n_tokens:
        raise ValueError("this network reads vectors: keys of tokens need a network that reads tokens")
    block = model.blocks[layer]
    if not hasattr(getattr(block, "attention", None), "key"):
        raise ValueError(f"layer {layer} has no keys: it has no attention, or a uniform one")
    with torch.no_grad():
        keys = block.attention.key(block.norm1(model.tokens(tokens)))  # (n, D)
    return keys.unflatten(-1, (block.attention.n_groups, -1)).transpose(0, 1)  # (H, n, C)


def mean_cosine(x: torch.Tensor, centred: bool = False, signed: bool = False) -> torch.Tensor:
    """Mean cosine over all pairs of different vectors: (..., n, C) -> (...); absolute unless `signed`.

    Args:
        centred: subtract the mean vector first. What all vectors share ("I am a value") makes
            them alike without telling them apart.

    >>> mean_cosine(torch.eye(4)).item()
    0.0
    """
    x = x.double()
    if centred:
        x = x - x.mean(-2, keepdim=True)
    x = x / x.norm(dim=-1, keepdim=True)
    cosines = x @ x.transpose(-2, -1)  # (..., n, n)
    n = cosines.shape[-1]
    apart = cosines if signed else cosines.abs()
    trace = apart.diagonal(dim1=-2, dim2=-1).sum(-1)
    return (apart.sum((-2, -1)) - trace) / (n * (n - 1))


def isotropic_cosine(n_channels: float) -> float:
    """E|cos| of two independent vectors without a preferred direction, in closed form.

    Gamma(d / 2) / (sqrt(pi) Gamma((d + 1) / 2)).

    >>> round(isotropic_cosine(192), 4)
    0.0577
    """
    d = n_channels
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)


def welch_bound(n: int, n_channels: int) -> float:
    """The least possible root mean square cosine of n vectors in so many channels; 0 if they fit.

    Welch (1974): sqrt((n / d - 1) / (n - 1)).
    """
    return math.sqrt(max(n / n_channels - 1, 0) / (n - 1))


def orthogonality(
    model: nn.Module, tokens: torch.Tensor, layer: int = 0, head: int | None = None,
    centred: bool = False, draws: int = 200, rng: torch.Generator | None = None,
    drawn: dict[str, torch.Tensor] | None = None,
) -> dict[str, Measured]:
    """The mean absolute cosine between the keys of some tokens, beside four nulls.

    Args:
        tokens: int64 (n,).
        head: one head's C channels; None: all heads side by side, D channels.
        draws: of each null.
        rng: for the nulls.
        drawn: what `drawn_keys` gave for these tokens, when more than one head is looked at.
    Returns:
        one `Measured` a null, named as in `drawn_keys`.
    """
    keys = pick(key_vectors(model, tokens, layer), head)  # (n, C) or (n, D)
    drawn = drawn or drawn_keys(model, tokens, layer, draws, rng)
    return {
        name: Measured(float(mean_cosine(keys, centred)), mean_cosine(pick(x, head), centred).cpu().numpy(), name)
        for name, x in drawn.items()
    }


def drawn_keys(
    model: nn.Module, tokens: torch.Tensor, layer: int = 0, draws: int = 200,
    rng: torch.Generator | None = None,
) -> dict[str, torch.Tensor]:
    """Keys of tokens as four nulls draw them, float32 (R, H, n, C) each.

    "isotropic": vectors without a preferred direction. "untrained": the same network before
    training. "shuffled": every row of W_K with its weights in another order, so that keys are other
    mixtures of the same embeddings. "matched": Gaussian vectors with the mean and covariance of the
    keys, all heads side by side.

    Raises:
        ValueError: for no draws at all.
    """
    if draws < 1:
        raise ValueError(f"draws is {draws}: a null needs at least one")
    rng = rng or torch.Generator().manual_seed(0)
    keys = key_vectors(model, tokens, layer)  # (H, n, C)
    wide = pick(keys, None)
    makers = {
        "isotropic": lambda: normal_like(keys, rng),
        "untrained": lambda: key_vectors(untrained(model, rng), tokens, layer),
        "shuffled": lambda: shuffled_keys(model, tokens, layer, rng),
        "matched": lambda: matched_gaussian(wide, rng).unflatten(-1, (len(keys), -1)).transpose(0, 1),
    }
    return {name: torch.stack([make() for _ in range(draws)]) for name, make in makers.items()}


def pick(keys: torch.Tensor, head: int | None) -> torch.Tensor:
    """One head's keys, or all side by side: (..., H, n, C) -> (..., n, C) or (..., n, H C)."""
    return keys[..., head, :, :] if head is not None else keys.transpose(-3, -2).flatten(-2)


@torch.no_grad()
def shuffled_keys(model: nn.Module, tokens: torch.Tensor, layer: int, rng: torch.Generator) -> torch.Tensor:
    """Keys of tokens where each row of W_K has its weights in another order: (H, n, C)."""
    block = model.blocks[layer]
    weight = block.attention.key.weight  # (G C, D)
    order = torch.rand(weight.shape, generator=rng, device=rng.device).argsort(1).to(weight.device)
    keys = block.norm1(model.tokens(tokens)) @ weight.gather(1, order).T
    return keys.unflatten(-1, (block.attention.n_groups, -1)).transpose(0, 1)


def matched_gaussian(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """As `stats.matched_gaussian`, on the tensor's own device, without a decomposition: (n, C) -> (n, C)."""
    mean = x.mean(0, keepdim=True)
    mixing = normal_like(x, rng, (len(x), len(x))) / math.sqrt(len(x) - 1)
    return mean + mixing @ (x - mean)


ASKED, SHOWN = slice(0, None, 2), slice(1, None, 2)  # places of key tokens and of value tokens
TOKEN_ABLATIONS = ("mean", "resample", "noise")


def token_ablation(how: str, places: slice, rng: torch.Generator | None = None) -> Callable:
    """A change for `edit`: what tells the tokens at some places apart is taken away.

    Args:
        how: "mean": every episode has the mean over episodes, at the same place. "resample": it has
            what another episode, drawn at random, has there. "noise", the control: it keeps its own
            and gets a random vector as long as what "mean" would take away.
        places: which places (axis 2) are changed: ASKED or SHOWN.
        rng: for "resample" and "noise".
    Returns:
        a function of (B, H, T, C).
    Raises:
        ValueError: for another way.
    """
    if how not in TOKEN_ABLATIONS:
        raise ValueError(f"how is {how!r}: choose one of {', '.join(TOKEN_ABLATIONS)}")

    def change(x: torch.Tensor) -> torch.Tensor:
        x, own = x.clone(), x[:, :, places]
        mean = own.mean(0, keepdim=True)
        if how == "mean":
            new = mean.expand_as(own)
        elif how == "resample":
            new = resampled(own, rng)
        else:
            new = own + noise_like(own - mean, rng)
        x[:, :, places] = new
        return x

    return change


def token_ablation_cost(bench: Bench, site: str, places: slice, how: str = "mean") -> Effect:
    """What it costs to make the tokens at some places alike in "key.0", "query.0" or "value.0"."""
    layer = int(site.split(".")[1])
    with edit(bench.model, {site: token_ablation(how, places, bench.rng)}):
        logits = resume(bench.model, bench.known[f"residual.{layer}"], layer)
    return bench.compare(logits, site, how)


def token_means(x: torch.Tensor, tokens: torch.Tensor, n_tokens: int) -> torch.Tensor:
    """Mean of an activation over all places with the same token: (B, H, K, C), (B, K) -> (H, n, C).

    Raises:
        ValueError: if one of the tokens 0..n - 1 does not occur.
    """
    same = torch.nn.functional.one_hot(tokens, n_tokens).to(x.dtype)  # (B, K, n)
    counts = same.sum((0, 1))
    if not (counts > 0).all():
        raise ValueError(f"only {int((counts > 0).sum())} of {n_tokens} tokens occur: give more episodes")
    return torch.einsum("bhkc,bkn->hnc", x, same) / counts[:, None]


def score_parts(queries: torch.Tensor, keys: torch.Tensor) -> dict[str, torch.Tensor]:
    """What scores tell apart, in nats: queries (H, m, C) and keys (H, n, C) -> each (H,).

    The score of question i and shown token j is split into four sums: a level, a part of i (which
    softmax does not see), a part of j, and the rest, which belongs to the pair.

    Returns:
        "preference": standard deviation of the part of j: some tokens get more attention whoever asks.
        "binding": standard deviation of the rest: who asks decides which token gets more.
        "margin": mean score of a question with the token of its own number, less that with the
        others; NaN unless m = n.
    """
    scores = (queries @ keys.mT / math.sqrt(keys.shape[-1])).double()  # (H, m, n)
    level, of_shown = scores.mean((1, 2), keepdim=True), scores.mean(1, keepdim=True)
    rest = scores - of_shown - scores.mean(2, keepdim=True) + level
    margin = torch.full((len(scores),), torch.nan, dtype=torch.float64)
    n = scores.shape[-1]
    if scores.shape[1] == n:
        own = scores.diagonal(dim1=1, dim2=2).sum(-1)
        margin = own / n - (scores.sum((1, 2)) - own) / (n * (n - 1))
    preference = (of_shown - level).square().mean((1, 2)).sqrt()
    return {"preference": preference, "binding": rest.square().mean((1, 2)).sqrt(), "margin": margin}


def scores_in_place(model: nn.Module, episodes: Episodes, layer: int = 0) -> dict[str, dict[str, torch.Tensor]]:
    """`score_parts` between questions and what was shown, as it is in episodes, places included.

    Returns:
        "keys": against earlier key tokens. "values": against value tokens. "pairs": against the
        places of values, told apart by the key before them (what a lookup at that place needs).
    """
    parts = activations(model, episodes.inputs, [f"query.{layer}", f"key.{layer}"])
    q, k = parts[f"query.{layer}"][:, :, ASKED], for_each_query(parts[f"key.{layer}"], model.config.n_heads)
    asked, values = episodes.latents["keys"], episodes.latents["values"]
    V = model.config.n_outputs
    queries, n_shown = token_means(q, asked, V), k[:, :, SHOWN].shape[2]
    shown = {
        "keys": (k[:, :, ASKED], asked), "values": (k[:, :, SHOWN], values[:, :n_shown]),
        "pairs": (k[:, :, SHOWN], asked[:, :n_shown]),
    }
    return {name: score_parts(queries, token_means(x, which, V)) for name, (x, which) in shown.items()}

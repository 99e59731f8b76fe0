"""Stage one, *a frame for hypotheses*: are the keys of different tokens orthogonal?

The paper's number is a mean absolute cosine between layer 0's keys. How small that is without any
training depends on the number of channels, on whether heads are taken one by one, and on how a
first W_K is drawn; each of these is a null here (Paper I, section 4; science notes 5.3 and 7.1).

Axes: n tokens, D channels, H heads, C channels of one head.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from bayeswind_lib.probes.nulls import Measured, against, untrained

NULLS = ("isotropic", "untrained", "shuffled", "matched")


def key_vectors(model: nn.Module, tokens: torch.Tensor, layer: int = 0) -> torch.Tensor:
    """The keys that single tokens have, without positions: int64 (n,) -> (H, n, C).

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
    return keys.unflatten(-1, (block.attention.n_heads, -1)).transpose(0, 1)  # (H, n, C)


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


def isotropic_cosine(n_channels: int) -> float:
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
) -> dict[str, Measured]:
    """The mean absolute cosine between the keys of some tokens, beside four nulls.

    Args:
        tokens: int64 (n,).
        head: one head's C channels; None: all heads side by side, D channels.
        draws: of each null.
        rng: for the nulls.
    Returns:
        one `Measured` a null. "isotropic": vectors without a preferred direction. "untrained":
        the same network before training. "shuffled": every row of W_K with its weights in another
        order, so that keys are other mixtures of the same embeddings. "matched": Gaussian vectors
        with the mean and covariance of the keys.
    """
    rng = rng or torch.Generator().manual_seed(0)
    keys = pick(key_vectors(model, tokens, layer), head)  # (n, C) or (n, D)
    value = mean_cosine(keys, centred)
    makers = {
        "isotropic": lambda: torch.randn(keys.shape, generator=rng),
        "untrained": lambda: pick(key_vectors(untrained(model, rng), tokens, layer), head),
        "shuffled": lambda: pick(shuffled_keys(model, tokens, layer, rng), head),
        "matched": lambda: matched_gaussian(keys, rng),
    }
    return {
        name: against(value, lambda make=make: mean_cosine(make(), centred), draws, name)
        for name, make in makers.items()
    }


def pick(keys: torch.Tensor, head: int | None) -> torch.Tensor:
    """One head's keys, or all side by side: (H, n, C) -> (n, C) or (n, H C)."""
    return keys[head] if head is not None else keys.transpose(0, 1).flatten(1)


@torch.no_grad()
def shuffled_keys(model: nn.Module, tokens: torch.Tensor, layer: int, rng: torch.Generator) -> torch.Tensor:
    """Keys of tokens where each row of W_K has its weights in another order: (H, n, C)."""
    block = model.blocks[layer]
    weight = block.attention.key.weight  # (D, D)
    order = torch.rand(weight.shape, generator=rng).argsort(1)
    keys = block.norm1(model.tokens(tokens)) @ weight.gather(1, order).T
    return keys.unflatten(-1, (block.attention.n_heads, -1)).transpose(0, 1)


def matched_gaussian(x: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Gaussian vectors with the mean and the covariance of some vectors: (n, C) -> (n, C)."""
    mean = x.mean(0, keepdim=True)
    mixing = torch.randn(len(x), len(x), generator=rng, dtype=x.dtype) / math.sqrt(len(x) - 1)
    return mean + mixing @ (x - mean)

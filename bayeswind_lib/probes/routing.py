"""Stage two, *elimination*: where does attention go?

Two tasks, two questions. With distinct keys no earlier key can match, and elimination needs the set
of values shown: so ask whether attention *covers* them, and how *evenly*. With keys that come back
a lookup needs one earlier pair: so ask how much attention the matching key and its value get, and
by what margin their cosine with the query stands out (Paper I, section 4; notes 7.4).

Axes: B episodes, T tokens, H heads, K scored positions, C channels of one head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from bayeswind_lib.probes.activations import activations
from bayeswind_lib.probes.nulls import Measured, against, untrained


def entropy_of(weights: torch.Tensor) -> torch.Tensor:
    """Entropy in bits of weights that sum to 1 over the last axis."""
    return torch.special.entr(weights.double()).sum(-1) / torch.log(torch.tensor(2.0, dtype=torch.float64))


def value_mask(n_pairs: int, n_tokens: int) -> torch.Tensor:
    """Which tokens are values shown before each question: bool (K, T).

    Inputs are key, value, key, value, ..., key: question k stands at 2 k and follows k values.
    """
    place = torch.arange(n_tokens)
    return (place % 2 == 1) & (place < 2 * torch.arange(n_pairs)[:, None])


@dataclass(frozen=True)
class Coverage:
    """Of the attention from questions with distinct keys, by layer and head.

    Attributes:
        mass: (L, H), share that goes to values shown, mean over episodes and questions from 2 on.
        evenness: (L, H), entropy of the attention over the values shown, relative to log2 of their
            number: 1 is even.
        bits: (L, H), entropy of the whole attention.
        by_question: mass at each question, (L, H, K).
    """

    mass: torch.Tensor
    evenness: torch.Tensor
    bits: torch.Tensor
    by_question: torch.Tensor


def patterns(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """The attention weights of all layers that attend: float64 (L, B, H, T, T), rows sum to 1."""
    return torch.stack(list(activations(model, inputs, "pattern.*").values())).double()


def coverage(attention: torch.Tensor) -> Coverage:
    """How much of the attention goes to the values shown, and how evenly: (L, B, H, T, T)."""
    return Coverage(*(torch.stack(part) for part in zip(*map(_covered, attention), strict=True)))


def _covered(pattern: torch.Tensor) -> tuple[torch.Tensor, ...]:
    asked = pattern[:, :, ::2]  # (B, H, K, T), from the questions
    shown = value_mask(asked.shape[2], asked.shape[3]).to(asked.device)  # (K, T)
    on_values = asked * shown
    mass = on_values.sum(-1)  # (B, H, K)
    share = on_values / mass.clamp(min=1e-12)[..., None]
    several = slice(2, None)  # one value cannot be covered unevenly
    most = shown.sum(-1)[several].double().log2()  # (K - 2,)
    even = entropy_of(share)[:, :, several] / most
    return mass[:, :, several].mean((0, 2)), even.mean((0, 2)), entropy_of(asked).mean((0, 2)), mass.mean(0)


def matches(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each question's key was shown last: keys (B, K) -> (place (B, K), known bool (B, K)).

    A place is the position of that key among the pairs, 0 where `known` is False.
    """
    K = keys.shape[1]
    same = (keys[:, :, None] == keys[:, None, :]) & torch.ones(K, K, dtype=torch.bool).tril(-1)
    place = torch.where(same, torch.arange(K), -1).amax(-1)
    return place.clamp(min=0), place >= 0


@dataclass(frozen=True)
class Lookup:
    """Of the attention from questions whose key was shown before, by layer and head.

    Attributes:
        mass: (L, H), attention on the matching key and on its value, mean over such questions.
        bits: (L, H), entropy of the attention from these questions.
    """

    mass: torch.Tensor
    bits: torch.Tensor

    def best(self) -> torch.Tensor:
        """The head with the largest mass of each layer, (L,)."""
        return self.mass.argmax(1)


def lookup(attention: torch.Tensor, keys: torch.Tensor, place: torch.Tensor | None = None) -> Lookup:
    """How attention singles out the pair that answers a question.

    Args:
        attention: (L, B, H, T, T), of inputs key, value, ..., key, with keys that come back.
        keys: int64 (B, K), which key each question asks.
        place: (B, K), the pair that counts as the match; None: the last one with the key. Another
            one makes a null.
    """
    found, known = matches(keys)
    place = found if place is None else place
    asked = attention[:, :, :, ::2]  # (L, B, H, K, T)
    mass = [_mean(_at(a, 2 * place) + _at(a, 2 * place + 1), known) for a in asked]
    bits = [_mean(entropy_of(a), known) for a in asked]
    return Lookup(torch.stack(mass), torch.stack(bits))


def margins(model: nn.Module, inputs: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Cosine of the query with the matching key less its mean with other earlier keys: (L, H).

    NaN for a network with uniform attention, which has no queries.
    """
    place, known = matches(keys)
    layers = [site.split(".")[1] for site in activations(model, inputs[:1], "pattern.*")]
    return torch.stack([_margin(model, inputs, layer, place, known) for layer in layers])


def _at(weights: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """Weights (B, H, K, T) at one token a question, (B, K): (B, H, K)."""
    index = token[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    return weights.gather(-1, index)[..., 0]


def _mean(x: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Mean of (B, H, K) over the questions that count, (B, K): (H,)."""
    return (x * known[:, None]).sum((0, 2)) / known.sum()


def _margin(model, inputs, layer: str, place: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """The margin of one layer's heads, mean over the questions that count: (H,)."""
    H = model.config.n_heads
    if model.config.attention != "softmax":
        return torch.full((H,), torch.nan, dtype=torch.float64)
    parts = activations(model, inputs, [f"query.{layer}", f"key.{layer}"])
    q, k = (x[:, :, ::2].double() for x in parts.values())  # (B, H, K, C)
    cosine = torch.nn.functional.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)  # (B, H, K, K)
    earlier = torch.ones(cosine.shape[-2:], dtype=torch.bool).tril(-1)
    here = _at(cosine, place)  # (B, H, K)
    others = (cosine * earlier).sum(-1) - here  # of the other earlier keys
    count = earlier.sum(-1) - 1  # (K,)
    margin = here - others / count.clamp(min=1)
    return _mean(margin, known & (count > 0))


def coverage_nulls(
    model: nn.Module, inputs: torch.Tensor, draws: int = 200, rng: torch.Generator | None = None
) -> dict[str, Measured]:
    """Mean coverage over layers and heads, beside untrained networks and even attention.

    Returns:
        "untrained" and "uniform": attention spread evenly over all that a question may see.
    """
    rng = rng or torch.Generator().manual_seed(0)
    value = float(coverage(patterns(model, inputs)).mass.mean())

    def fresh() -> torch.Tensor:
        return coverage(patterns(untrained(model, rng), inputs)).mass.mean()

    even = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.float64).tril()
    even = _covered((even / even.sum(-1, keepdim=True))[None, None])[0].mean()
    return {"untrained": against(value, fresh, draws, "untrained"),
            "uniform": against(value, lambda: even, 1, "uniform attention")}


def lookup_nulls(
    model: nn.Module, inputs: torch.Tensor, keys: torch.Tensor, draws: int = 200,
    rng: torch.Generator | None = None,
) -> dict[str, Measured]:
    """The largest mass of any head on the matching pair, beside its nulls.

    Returns:
        "untrained": before training. "shuffled": another earlier pair, drawn for each question,
        takes the place of the match.
    """
    rng = rng or torch.Generator().manual_seed(0)
    own = patterns(model, inputs)
    value = float(lookup(own, keys).mass.max())

    def another() -> torch.Tensor:
        place = torch.rand(keys.shape, generator=rng) * torch.arange(keys.shape[1])
        return lookup(own, keys, place.long()).mass.max()

    def fresh() -> torch.Tensor:
        return lookup(patterns(untrained(model, rng), inputs), keys).mass.max()

    return {"untrained": against(value, fresh, draws, "untrained"),
            "shuffled": against(value, another, draws, "another earlier pair")}

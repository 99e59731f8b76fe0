"""Stage two, *elimination*: where does attention go?

Two tasks, two questions. With distinct keys no earlier key can match, and elimination needs the set
of values shown: so ask whether attention *covers* them, and how *evenly*. With keys that come back
a lookup needs one earlier pair: so ask how much attention the matching key and its value get, and
by what margin their cosine with the query stands out (Paper I, section 4; notes 7.4).

Axes: B episodes, T tokens, H heads, K scored positions, C channels of one head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from bayeswind_lib.probes.activations import activations, edit, resume
from bayeswind_lib.probes.nulls import Measured, against, untrained
from bayeswind_lib.probes.sites import for_each_query
from bayeswind_lib.scoring import entropy
from bayeswind_lib.tunnels import Episodes


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
    even = entropy(share)[:, :, several] / most
    return mass[:, :, several].mean((0, 2)), even.mean((0, 2)), entropy(asked).mean((0, 2)), mass.mean(0)


def matches(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each question's key was shown last: keys (B, K) -> (place (B, K), known bool (B, K)).

    A place is the position of that key among the pairs, 0 where `known` is False.
    """
    K = keys.shape[1]
    same = (keys[:, :, None] == keys[:, None, :]) & torch.ones(K, K, dtype=torch.bool, device=keys.device).tril(-1)
    place = torch.where(same, torch.arange(K, device=keys.device), -1).amax(-1)
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
    bits = [_mean(entropy(a), known) for a in asked]
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
    q, k = (for_each_query(x[:, :, ::2].double(), H) for x in parts.values())  # (B, H, K, C)
    cosine = torch.nn.functional.cosine_similarity(q[:, :, :, None], k[:, :, None], dim=-1)  # (B, H, K, K)
    earlier = torch.ones(cosine.shape[-2:], dtype=torch.bool, device=cosine.device).tril(-1)
    here = _at(cosine, place)  # (B, H, K)
    others = (cosine * earlier).sum(-1) - here  # of the other earlier keys
    count = earlier.sum(-1) - 1  # (K,)
    margin = here - others / count.clamp(min=1)
    return _mean(margin, known & (count > 0))


def lookup_nulls(
    model: nn.Module, inputs: torch.Tensor, keys: torch.Tensor, draws: int = 200,
    rng: torch.Generator | None = None,
) -> dict[str, Measured]:
    """The largest mass of any head on the matching pair, beside its nulls.

    Returns:
        "untrained": before training. "shuffled": an earlier pair of another key, drawn for each question,
        takes the place of the match; a question before which there is none keeps its own.
    """
    rng = rng or torch.Generator().manual_seed(0)
    own = patterns(model, inputs)
    value = float(lookup(own, keys).mass.max())
    match, K = matches(keys)[0], keys.shape[1]
    wrong = (keys[:, None] != keys[..., None]) & torch.ones(K, K, dtype=torch.bool, device=keys.device).tril(-1)  # (B, K, K)

    def another() -> torch.Tensor:
        chance = torch.rand(wrong.shape, generator=rng, device=rng.device).to(keys.device)
        place = torch.where(wrong.any(-1), (chance * wrong).argmax(-1), match)
        return lookup(own, keys, place).mass.max()

    def fresh() -> torch.Tensor:
        return lookup(patterns(untrained(model, rng), inputs), keys).mass.max()

    return {"untrained": against(value, fresh, draws, "untrained"),
            "shuffled": against(value, another, draws, "another earlier pair")}


def attention_by_value(attention: torch.Tensor, inputs: torch.Tensor, n_values: int) -> torch.Tensor:
    """How much attention each value gets, by its *name*, from the questions after it was shown.

    Args:
        attention: (L, B, H, T, T), of inputs key, value, ..., key.
        inputs: int64 (B, T); value v is the token n_values + v.
    Returns:
        float64 (L, H, V), mean weight: a head that looks for one value, and for no other, has a row
        with one 1 and else 0.
    """
    asked = attention[:, :, :, ::2]  # (L, B, H, K, T)
    shown = value_mask(*asked.shape[-2:]).to(asked)  # (K, T)
    named = (inputs[..., None] == n_values + torch.arange(n_values)).to(asked)  # (B, T, V)
    times = torch.einsum("t,btv->v", shown.sum(0), named)  # questions after each value
    return torch.einsum("lbht,btv->lhv", (asked * shown).sum(3), named) / times.clamp(min=1)


def token_scores(attention: torch.Tensor, inputs: torch.Tensor, n_tokens: int) -> torch.Tensor:
    """One number for each token of the vocabulary: how much a head wants it, whatever is asked.

    The mean log weight on a token, less that on the first token of the episode, over all questions
    and places where it was seen. Attention with these scores (see `by_token`) is a fixed list: it
    knows neither the key that is asked, nor its own place, nor what else was shown.

    Args:
        attention: (L, B, H, T, T), of inputs key, value, ..., key. inputs: int64 (B, T).
    Returns:
        float64 (L, H, n_tokens + 1), in nats; the last entry is for the question's own token.
    """
    logs = attention[:, :, :, 2::2].clamp(min=1e-12).log()  # (L, B, H, K - 1, T), not from the first token
    logs = logs - logs[..., :1]
    place = torch.arange(inputs.shape[1])
    own = torch.arange(2, inputs.shape[1], 2)[:, None]  # (K - 1, 1)
    before = ((place < own) & (place > 0)).to(logs)  # (K - 1, T)
    named = (inputs[..., None] == torch.arange(n_tokens)).to(logs)  # (B, T, N)
    times = torch.einsum("t,btn->n", before.sum(0), named)
    mean = torch.einsum("lbht,btn->lhn", (logs * before).sum(3), named) / times.clamp(min=1)
    itself = (logs * (place == own)).sum(-1).mean((1, 3))  # (L, H)
    return torch.cat([mean, itself[..., None]], dim=-1)


Changes = dict[str, Callable[[torch.Tensor], torch.Tensor]]


def by_token(scores: torch.Tensor, inputs: torch.Tensor) -> Changes:
    """Edits that let every question attend by a fixed list, `token_scores` (L, H, N + 1)."""
    T = inputs.shape[1]
    score = scores[:, :, inputs].transpose(1, 2)  # (L, B, H, T), of each token as a key
    score = score.index_fill(-1, torch.tensor(0), 0.0)  # the first token is where scores are counted from
    score = score[..., None, :].expand(*score.shape, T).clone()  # (L, B, H, T, T)
    score.diagonal(dim1=-2, dim2=-1)[..., 1:] = scores[:, None, :, -1:]
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    return {f"pattern.{layer}": _at_questions(new) for layer, new in
            enumerate(score.masked_fill(future, -torch.inf).softmax(-1))}


def by_place(attention: torch.Tensor) -> Changes:
    """Edits that let every question attend by place alone: the mean over other episodes, (L, B, H, T, T)."""
    return {f"pattern.{layer}": _at_questions(a.mean(0, keepdim=True)) for layer, a in enumerate(attention)}


def by_another(attention: torch.Tensor) -> Changes:
    """Edits that give each episode the attention of the next one, (L, B, H, T, T)."""
    return {f"pattern.{layer}": _at_questions(a.roll(1, 0)) for layer, a in enumerate(attention)}


def evenly(layers: int) -> Changes:
    """Edits that spread what each question gives to values shown evenly over them; the rest stays."""
    def spread(pattern: torch.Tensor) -> torch.Tensor:
        asked = pattern[:, :, ::2]
        shown = value_mask(*asked.shape[-2:]).to(asked)  # (K, T)
        even = shown / shown.sum(-1, keepdim=True).clamp(min=1)
        new = torch.where(shown.bool(), (asked * shown).sum(-1, keepdim=True) * even, asked)
        return pattern.slice_scatter(new, 2, 0, None, 2)

    return {f"pattern.{layer}": spread for layer in range(layers)}


def _at_questions(rows: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """An edit that puts other weights, (B or 1, H, T, T), where questions attend, from the second on."""
    def change(pattern: torch.Tensor) -> torch.Tensor:
        new = pattern.clone()
        new[:, :, 2::2] = rows[:, :, 2::2].to(pattern)
        return new

    return change


def unnamed(inputs: torch.Tensor, layer: int, head: int, token: int) -> Changes:
    """An edit that takes one head's attention off one token, wherever it stands, to the first token."""
    here = inputs == token  # (B, T)

    def change(pattern: torch.Tensor) -> torch.Tensor:
        new = pattern.clone()
        taken = pattern[:, head] * here[:, None].to(pattern)  # (B, T, T)
        new[:, head] = pattern[:, head] - taken
        new[:, head, :, 0] += taken.sum(-1)
        return new

    return {f"pattern.{layer}": change}


def leaks(
    model: nn.Module, episodes: Episodes, changes: Changes, before: torch.Tensor | None = None
) -> torch.Tensor:
    """Probability that an edit lets each value have after it was shown: float64 (V,), mean rise.

    Args:
        before: log2-probabilities (B, K, V) without the edit, if they are at hand.
    """
    before = model.predict(episodes.inputs) if before is None else before
    with edit(model, changes):
        after = model.predict(episodes.inputs)
    shown = used(episodes.latents["values"], before.shape[-1])
    return ((after.exp2() - before.exp2()) * shown).sum((0, 1)) / shown.sum((0, 1)).clamp(min=1)


def used(values: torch.Tensor, n_values: int) -> torch.Tensor:
    """Whether each value was shown before each question: values (B, K) -> bool (B, K, V)."""
    named = torch.nn.functional.one_hot(values, n_values)
    return named.cumsum(1) - named > 0


def patching_effect(
    model: nn.Module, inputs: torch.Tensor, donor: torch.Tensor, places: dict[str, list[int]], question: int
) -> dict[str, torch.Tensor]:
    """Which share of the way to a donor's answer the stream at some tokens brings, layer by layer.

    Args:
        inputs, donor: (B, T), episodes and their donors.
        places: by name, the tokens whose stream is replaced by the donor's.
        question: which answer is looked at.
    Returns:
        float64 (L + 1,) by name: slope of the change of the answer on its change with all of the
        donor's inputs, if the stream that enters layer 0, ..., L (the readout) is replaced.
    """
    streams, given = (list(activations(model, x, "residual.*").values()) for x in (inputs, donor))

    def answer(x: torch.Tensor, layer: int) -> torch.Tensor:
        return torch.softmax(resume(model, x, layer)[:, question].double(), -1)  # (B, Y)

    own, other = (answer(x[-1], len(x) - 1) for x in (streams, given))
    way, shares = other - own, {}
    for name, tokens in places.items():
        found = []
        for layer, (x, y) in enumerate(zip(streams, given, strict=True)):
            x = x.clone()
            x[:, tokens] = y[:, tokens]
            found.append(((answer(x, layer) - own) * way).sum() / way.square().sum())
        shares[name] = torch.stack(found)
    return shares


def cosine_gap(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """How far the best fitting key stands out: largest less mean cosine of a query with the keys it sees.

    Returns:
        float64 (L, H), mean over episodes and questions from 2 on; NaN for uniform attention.
    """
    layers = [site.split(".")[1] for site in activations(model, inputs[:1], "pattern.*")]
    if model.config.attention != "softmax":
        return torch.full((len(layers), model.config.n_heads), torch.nan, dtype=torch.float64)
    seen = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()[4::2]  # (K - 2, T)
    gaps = []
    for layer in layers:
        both = activations(model, inputs, [f"query.{layer}", f"key.{layer}"]).values()
        q, k = (for_each_query(x, model.config.n_heads) for x in both)  # (B, H, T, C)
        unit = [torch.nn.functional.normalize(x.double(), dim=-1) for x in (q[:, :, 4::2], k)]
        cosine = unit[0] @ unit[1].transpose(-2, -1)  # (B, H, K - 2, T)
        mean = (cosine * seen).sum(-1) / seen.sum(-1)
        gaps.append((cosine.masked_fill(~seen, -1).amax(-1) - mean).mean((0, 2)))
    return torch.stack(gaps)


def chain_groups(n_tokens: int, n_states: int) -> dict[str, torch.Tensor]:
    """What a symbol of the HMM tunnel with rows as header can look at: bool (T, T) each, query by key.

    "transitions" and "emissions" (the rows of the header), "this symbol", "the one before", "older".
    """
    query, key = torch.arange(n_tokens)[:, None], torch.arange(n_tokens)
    header = 2 * n_states
    symbol = (query >= header) & (key >= header)
    return {
        "transitions": (query >= header) & (key < n_states),
        "emissions": (query >= header) & (key >= n_states) & (key < header),
        "this symbol": symbol & (key == query),
        "the one before": symbol & (key == query - 1),
        "older": symbol & (key < query - 1),
    }


def towards(attention: torch.Tensor, groups: dict[str, torch.Tensor], first: int) -> dict[str, torch.Tensor]:
    """Attention to groups of tokens, from all tokens from `first` on: {name: float64 (L, H)}."""
    return {name: (attention * group)[:, :, :, first:].sum(-1).mean((1, 3)) for name, group in groups.items()}


def fixed_age(attention: torch.Tensor, header: int, ages: int = 4) -> torch.Tensor:
    """Mean attention from symbols to the symbol a fixed number of steps before: float64 (L, H, ages), ages 0, 1, ..."""
    asked = attention[:, :, :, header + ages - 1 :, header:]  # from symbols that have so many before them
    T = asked.shape[-1]
    back = (torch.arange(ages - 1, T)[:, None] - torch.arange(ages))[None, None, None]  # (.., T - ages + 1, ages)
    return asked.gather(-1, back.expand(*asked.shape[:3], -1, -1)).mean((1, 3))


def forbid(group: torch.Tensor, layers: list[int]) -> Changes:
    """Edits that take attention off some tokens, bool (T, T), in some layers; rows again sum to 1."""
    def change(pattern: torch.Tensor) -> torch.Tensor:
        left = pattern.masked_fill(group, 0.0)
        return left / left.sum(-1, keepdim=True).clamp(min=1e-9)

    return {f"pattern.{layer}": change for layer in layers}


def exchange_values(tunnel, episodes) -> tuple[torch.Tensor, torch.Tensor, dict[str, list[int]]]:
    """Inputs, the same with one shown value exchanged for one that comes last, and the tokens to look at."""
    middle = tunnel.n_pairs // 2
    pair = middle // 2
    values = episodes.latents["values"].clone()
    values[:, [pair, -1]] = values[:, [-1, pair]]
    donor = tunnel.episodes(episodes.latents["keys"], values)
    places = {"value": [2 * pair + 1], "between": list(range(2 * pair + 2, 2 * middle)), "question": [2 * middle]}
    return episodes.inputs, donor.inputs, places

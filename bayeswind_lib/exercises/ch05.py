"""Checks for chapter 5, "Does a transformer filter?".

What an answer is compared with is the definition itself, tried on random instances: the library's filter, curves
that are averaged anew, answers that attain a bound, chains that are drawn from what the reader designed.

Axes: B episodes, K scored positions (steps), S states, V symbols.
"""

from __future__ import annotations

import math
from functools import partial

import torch

from bayeswind_lib import scoring
from bayeswind_lib.baselines.hmm import stationary
from bayeswind_lib.exercises.core import Report, grade
from bayeswind_lib.tunnels.hmm import forward_filter


def _number(value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _beliefs(rng: torch.Generator, *shape: int) -> torch.Tensor:
    """Random distributions over the last axis, float64, some of them sharp."""
    weights = -torch.rand(shape, generator=rng, dtype=torch.float64).log()
    weights = weights ** (1 + 3 * torch.rand(*shape[:-1], 1, generator=rng, dtype=torch.float64))
    return weights / weights.sum(-1, keepdim=True)


# --- forecasts of the next symbol --------------------------------------------------------------------


def check_forecasts(answer) -> Report:
    """Grade `my_forecasts(transition, emission, symbols)`: the distribution of the next symbol after each one, (K, V)."""
    rng = torch.Generator().manual_seed(56)

    def agrees(S, V, K):
        T, E = _beliefs(rng, S, S), _beliefs(rng, S, V)
        symbols = torch.randint(V, (K,), generator=rng)
        got = torch.as_tensor(answer(T.clone(), E.clone(), symbols.clone())).double()
        if got.shape != (K, V):
            if got.shape == (K, S):
                return f"the result has shape {tuple(got.shape)}: beliefs about {S} states; asked is the next of {V} symbols"
            return f"the result has shape {tuple(got.shape)}, expected {(K, V)}: one distribution for each of {K} symbols"
        right = _forecasts(T, E, symbols)
        return None if torch.allclose(got, right, atol=1e-9) else _forecast_slip(got, right, T, E, symbols)

    return grade("my_forecasts", [partial(agrees, *size) for size in ((2, 3, 3), (3, 4, 6), (5, 4, 12))])


def _filtered(T, E, symbols, **convention) -> torch.Tensor:
    """Exact beliefs of one chain, (K, S)."""
    return forward_filter(T[None], E[None], symbols[None], **convention)[0]


def _forecasts(T, E, symbols, **convention) -> torch.Tensor:
    return _filtered(T, E, symbols, **convention) @ T @ E


def _forecast_slip(got, right, T, E, symbols) -> str:
    belief = _filtered(T, E, symbols)
    before = torch.cat([torch.full_like(belief[:1], 1 / len(T)), belief[:-1] @ T])
    mistakes = {
        "the state moves before it emits the next symbol: the belief goes through T, then through E": belief @ E,
        "that is the forecast of each symbol before it is seen; asked is the one after it": before @ E,
        "T[i, j] is the probability of going from i to j: the belief multiplies it from the left": _filtered(T.mT, E, symbols) @ T.mT @ E,
        "the first symbol is emitted by the start state itself: no move before it": _forecasts(T, E, symbols, transition_first=True),
    }
    for hint, value in mistakes.items():
        if torch.allclose(got, value, atol=1e-9):
            return hint
    totals = got.sum(-1)
    if not torch.allclose(totals, torch.ones_like(totals), atol=1e-6):
        return f"a forecast adds up to {totals[-1]:.4f}, not to 1: normalise the belief after each correction"
    step = int((got - right).abs().amax(-1).gt(1e-9).nonzero()[0]) + 1
    return f"after symbol {step} you say {_shown(got[step - 1])}, the filter implies {_shown(right[step - 1])}"


def _shown(p: torch.Tensor) -> list[float]:
    return [round(x, 3) for x in p.tolist()]


# --- a chain on which a short memory shows -----------------------------------------------------------

LEAST, TELLING, DRAWN, LENGTH = 0.05, 0.05, 400, 20  # an entry; bits of KL; chains and steps


def _matrices(given, names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> tuple[list[torch.Tensor], str | None]:
    """Float64 copies of what was returned, and what is wrong with it: number, shape, rows, entries."""
    if not isinstance(given, tuple | list) or len(given) != len(names):
        return [], f"return {len(names)} tensors: {', '.join(names)}"
    found = [torch.as_tensor(part).double() for part in given]
    for part, name, shape in zip(found, names, shapes, strict=True):
        if part.shape != shape:
            return found, f"{name} has shape {tuple(part.shape)}, expected {shape}"
        if not torch.allclose(part.sum(-1), torch.ones(shape[:-1], dtype=part.dtype), atol=1e-6):
            return found, f"{name}: its rows have to add up to 1, one adds up to {float(part.sum(-1).flatten()[0]):.3f}"
        if part.min() < LEAST - 1e-9:
            return found, f"{name} has an entry of {float(part.min()):.3f}, below {LEAST}"
    return found, None


def check_chain(answer) -> Report:
    """Grade `my_chain()`: transition and emission (3, 3) on which a memory of one symbol forecasts badly."""

    def shows():
        found, wrong = _matrices(answer(), ("transition", "emission"), ((3, 3), (3, 3)))
        if wrong:
            return wrong
        T, E = found
        cost = _cost_of_forgetting(T, E)
        if cost >= TELLING:
            return None
        stays, tells = float(T.diagonal().mean()), float((E - E.mean(0)).abs().max())
        why = "the past is soon forgotten: let states last longer" if stays < 0.7 else (
            "the symbols say so little about the states that no forecast depends on a belief" if tells < 0.25 else
            "one symbol all but settles the state: let the emissions overlap"
        )
        return f"a memory of one symbol costs {cost:.4f} bits here, asked are {TELLING}; {why}"

    return grade("my_chain", [shows])


def _cost_of_forgetting(T: torch.Tensor, E: torch.Tensor) -> float:
    """KL in bits of exact forecasts from those of a filter that remembers one symbol, on chains that are drawn anew."""
    rng = torch.Generator().manual_seed(57)
    state, symbols = torch.randint(len(T), (DRAWN,), generator=rng), []
    for t in range(LENGTH):
        state = torch.multinomial(T[state], 1, generator=rng)[:, 0] if t else state
        symbols.append(torch.multinomial(E[state], 1, generator=rng)[:, 0])
    symbols = torch.stack(symbols, 1)
    belief = forward_filter(T.expand(DRAWN, -1, -1), E.expand(DRAWN, -1, -1), symbols)
    short = stationary(T[None])[0] * E[:, symbols].permute(1, 2, 0)
    short = short / short.sum(-1, keepdim=True)
    return float(scoring.kl_bits(belief @ T @ E, (short @ T @ E).log2())[:, 1:].mean())


# --- beliefs that a forecast cannot tell apart -------------------------------------------------------

APART = 0.5


def check_blind(answer) -> Report:
    """Grade `my_blind()`: transition, emission and two beliefs with one forecast."""

    def hides():
        names = ("transition", "emission", "the first belief", "the second belief")
        found, wrong = _matrices(answer(), names, ((3, 3), (3, 3), (3,), (3,)))
        if wrong:
            return wrong
        T, E, one, other = found
        apart = float((one - other).abs().sum()) / 2
        if apart < APART - 1e-9:
            return f"the beliefs have a total variation of {apart:.3f}; asked is at least {APART}"
        gap = float(((one - other) @ T @ E).abs().max())
        if gap > 1e-9:
            if float(((one - other) @ E).abs().max()) < 1e-9:
                return f"without a move the forecasts would agree, but the state moves before it emits the next symbol: they are {gap:.3f} apart"
            return f"the two forecasts differ by {gap:.3f} in an entry"
        return None

    return grade("my_blind", [hides])


# --- what an average hides -------------------------------------------------------------------------


def check_beyond(answer) -> Report:
    """Grade `my_beyond(mean, early, total, trained)`: the mean over positions after the trained ones."""
    rng = torch.Generator().manual_seed(52)

    def agrees(total, trained):
        curve = torch.rand(total, generator=rng, dtype=torch.float64)
        curve[trained:] += 1
        mean, early, want = (float(x.mean()) for x in (curve, curve[:trained], curve[trained:]))
        got = _number(answer(mean, early, total, trained))
        if abs(got - want) < 1e-9:
            return None
        where = f"{total} positions, {trained} trained, mean {mean:.4f}, trained ones {early:.4f}"
        slips = {
            mean: "that is the average over all positions, which the trained ones dilute",
            mean * total / (total - trained): "the trained positions have an error too: take their share off first",
            mean - early: "a difference of two averages over different positions is no average",
            (mean * total - early * trained) / total: "the sum that is left belongs to the later positions only: divide by their number",
            (mean * total - early) / (total - trained): "`early` is an average, and there are `trained` such positions",
        }
        for value, hint in slips.items():
            if abs(got - value) < 1e-9:
                return f"{where}: {hint}"
        return f"{where}: you say {got:.4f}, the curve behind these averages has {want:.4f} at its later positions"

    sizes = [(50, 20), (30, 20), (7, 3), (25, 24)]
    return grade("my_beyond", [partial(agrees, *size) for size in sizes])


# --- the largest error that is possible ------------------------------------------------------------


def check_cap(answer) -> Report:
    """Grade `my_cap(entropy, n_states, early, trained)`: the largest mean entropy error of a causal network."""
    rng = torch.Generator().manual_seed(53)

    def agrees(n_states, trained, early, entropy):
        got = _number(answer(entropy.clone(), n_states, early, trained))
        want = _worst(entropy, n_states, early, trained)
        return None if abs(got - want) < 1e-9 else _cap_slip(got, entropy, n_states, early, trained)

    def case(n_states, K, trained, early, power=1.0):
        entropy = math.log2(n_states) * torch.rand(40, K, generator=rng, dtype=torch.float64) ** power
        return partial(agrees, n_states, trained, early, entropy)

    flat = torch.full((2, 4), 1.0, dtype=torch.float64)
    first = partial(agrees, 8, 2, 0.0, flat)
    return grade("my_cap", [first, case(5, 50, 20, 0.002, 0.2), case(3, 30, 20, 0.1), case(4, 9, 3, 0.5)])


def _worst(entropy, n_states, early, trained) -> float:
    """Of the two extreme answers, certain and even, the worse one at every later cell."""
    even = torch.full((n_states,), 1 / n_states, dtype=torch.float64)
    extremes = [0.0, -float((even * even.log2()).sum())]
    gaps = torch.stack([(entropy[:, trained:] - extreme).abs() for extreme in extremes])
    late = gaps.amax(0).mean(0).sum()
    return float(early * trained + late) / entropy.shape[1]


def _cap_slip(got, entropy, n_states, early, trained) -> str:
    K, top, late = entropy.shape[1], math.log2(n_states), entropy[:, trained:]

    def diluted(mean):
        return (early * trained + float(mean) * (K - trained)) / K

    worst = (K * _worst(entropy, n_states, early, trained) - early * trained) / (K - trained)
    middle = late.mean()
    slips = [
        (diluted(top), "no answer is log2 S away from an exact entropy in between: the answer's own lies between 0 and log2 S"),
        (diluted(torch.maximum(middle, top - middle)), "which extreme is worse differs between episodes: choose for each, then average"),
        (diluted(middle), "an answer may also be too unsure, up to log2 S"),
        (diluted(top - middle), "an answer may also be too sure, down to an entropy of 0"),
        (worst, "that is the mean over the later steps; the trained ones keep their small error, and the mean is over all"),
        (diluted(torch.maximum(late, math.log(n_states) - late).mean()), "the entropies are in bits, so the largest one is log2 S, not ln S"),
    ]
    for value, hint in slips:
        if abs(got - float(value)) < 1e-9:
            return f"S = {n_states}, {trained} of {K} steps trained: {hint}"
    want = _worst(entropy, n_states, early, trained)
    return f"S = {n_states}, {trained} of {K} steps trained: you say {got:.4f}; the worst answers there are give {want:.4f}"


# --- how long a symbol is felt ---------------------------------------------------------------------


def check_influence(answer) -> Report:
    """Grade `my_influence(transition, emission, first, second)`: total variation at each step, (K,)."""
    rng = torch.Generator().manual_seed(54)

    def agrees(S, V, K):
        T, E = _beliefs(rng, S, S), _beliefs(rng, S, V)
        first = torch.randint(V, (K,), generator=rng)
        second = first.clone()
        second[0] = (first[0] + 1) % V
        got = torch.as_tensor(answer(T.clone(), E.clone(), first.clone(), second.clone())).double()
        if got.shape != (K,):
            return f"the result has shape {tuple(got.shape)}, expected one number for each of {K} steps"
        if torch.allclose(got, _distance(T, E, first, second), atol=1e-9):
            return None
        return _influence_slip(got, T, E, first, second)

    return grade("my_influence", [partial(agrees, *size) for size in ((2, 2, 3), (3, 3, 6), (5, 4, 12))])


def _distance(T, E, first, second, **convention) -> torch.Tensor:
    """Total variation of the two exact beliefs, (K,)."""
    both = torch.stack([first, second])
    a, b = forward_filter(T.expand(2, -1, -1), E.expand(2, -1, -1), both, **convention)
    return (a - b).abs().sum(-1) / 2


def _influence_slip(got, T, E, first, second) -> str:
    right = _distance(T, E, first, second)
    scores = torch.stack([E[:, first].T.log().cumsum(0), E[:, second].T.log().cumsum(0)])
    still = scores.softmax(-1)
    squares = {
        "total variation is half the sum of absolute differences": 2 * right,
        "T[i, j] is the probability of going from i to j: the belief multiplies it from the left": _distance(T.mT, E, first, second),
        "the first symbol is emitted by the start state itself: no move before it": _distance(T, E, first, second, transition_first=True),
        "between two symbols the state moves: carry the belief through T first": (still[0] - still[1]).abs().sum(-1) / 2,
    }
    for hint, value in squares.items():
        if torch.allclose(got, value, atol=1e-9):
            return hint
    if (got > 1 + 1e-9).any() or (got < 0).any():
        return f"a total variation of {got.abs().max():.3f} lies outside 0..1: are the beliefs normalised, the differences absolute?"
    step = int((got - right).abs().gt(1e-9).nonzero()[0]) + 1
    return f"at step {step} you find {got[step - 1]:.4f}, two runs of the exact filter differ by {right[step - 1]:.4f}"

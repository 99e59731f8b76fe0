"""Checks for chapter 5, "Does a transformer learn to filter?".

What an answer is compared with is the definition itself, tried on random instances: the library's filter, curves
that are averaged anew, forecasters that are asked again, chains that are drawn from what the reader designed.

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
        keeps = float(torch.linalg.eigvals(T).abs().sort().values[-2])  # how much of a difference is left after a step
        tells = float((E - E.mean(0)).abs().max())
        why = "the past is soon forgotten: let the next state depend more on this one" if keeps < 0.55 else (
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


# --- how long an observation echoes ----------------------------------------------------------------


def check_echo(answer) -> Report:
    """Grade `my_echo(forecaster, transition, emission, n)`: how far two histories' forecasts differ, (n + 1,)."""
    rng = torch.Generator().manual_seed(54)

    def agrees(forecaster, S, V, n):
        T, E = _beliefs(rng, S, S), _beliefs(rng, S, V)
        got = torch.as_tensor(answer(forecaster, T.clone(), E.clone(), n)).double()
        if got.shape != (n + 1,):
            return f"the result has shape {tuple(got.shape)}, expected {(n + 1,)}: one number after the first observation and after each of {n} blanks"
        heard = _echo(forecaster, T, E, n)
        return None if torch.allclose(got, heard, atol=1e-9) else _echo_slip(got, heard, forecaster, T, E)

    cases = ((_forecasts, 3, 3, 4), (_forecasts, 4, 5, 6), (_forgetful, 4, 5, 6), (_slow_to_learn, 3, 4, 5))
    return grade("my_echo", [partial(agrees, *case) for case in cases])


def _forgetful(T, E, observations) -> torch.Tensor:
    """Forecasts of a filter that remembers two observations, (K, V)."""
    return torch.stack([_forecasts(T, E, observations[max(t - 1, 0) : t + 1])[-1] for t in range(len(observations))])


def _slow_to_learn(T, E, observations) -> torch.Tensor:
    """The share of each observation so far, with one of each added: no filter at all, (K, V)."""
    counts = torch.eye(E.shape[1], dtype=torch.float64)[observations].cumsum(0) + 1
    return counts / counts.sum(-1, keepdim=True)


def _answers_to(forecaster, T, E, first: int, blanks: list[int]) -> torch.Tensor:
    return torch.as_tensor(forecaster(T, E, torch.tensor([first, *blanks]))).double()


def _echo(forecaster, T, E, n: int, blank: int | None = None) -> torch.Tensor:
    """What the answers to one history have in excess of those to the other, (n + 1,)."""
    blanks = [E.shape[1] - 1 if blank is None else blank] * n
    excess = _answers_to(forecaster, T, E, 0, blanks) - _answers_to(forecaster, T, E, 1, blanks)
    return excess.clamp(min=0).sum(-1)


def _echo_slip(got, heard, forecaster, T, E) -> str:
    n, last = len(got) - 1, E.shape[1] - 1
    belief = _filtered(T, E, torch.tensor([0] + [last] * n)) - _filtered(T, E, torch.tensor([1] + [last] * n))
    gap = _answers_to(forecaster, T, E, 0, [last] * n) - _answers_to(forecaster, T, E, 1, [last] * n)
    slips = {
        "total variation is half the sum of absolute differences": 2 * heard,
        "the largest difference of one outcome leaves out what the others add: take half the sum over all": gap.abs().amax(-1),
        "the blank is the last observation, number V - 1": _echo(forecaster, T, E, n, blank=0),
        "those are beliefs about the state; compare what `forecaster` returns": belief.abs().sum(-1) / 2,
        "listen to `forecaster`, not to an exact filter of your own: this one is not exact": _echo(_forecasts, T, E, n),
    }
    for hint, value in slips.items():
        if torch.allclose(got, value, atol=1e-9):
            return hint
    step = int((got - heard).abs().gt(1e-9).nonzero()[0])
    return f"after {step} blanks you find {got[step]:.4f}, the forecasts for the two histories differ by {heard[step]:.4f}"


# --- what a forecast hides -------------------------------------------------------------------------


def check_hidden(answer) -> Report:
    """Grade `my_hidden(transition, emission, alpha, q)`: the bits by which a forecast's divergence is below its belief's."""
    rng = torch.Generator().manual_seed(58)

    def agrees(S, V):
        T, E, alpha, q = _beliefs(rng, S, S), _beliefs(rng, S, V), _beliefs(rng, S), _beliefs(rng, S)
        got = _number(answer(T.clone(), E.clone(), alpha.clone(), q.clone()))
        lost = _bits(alpha, q) - _bits(alpha @ T @ E, q @ T @ E)
        return None if abs(got - lost) < 1e-9 else _hidden_slip(got, lost, T, E, alpha, q)

    return grade("my_hidden", [partial(agrees, *size) for size in ((2, 3), (3, 3), (4, 6))])


def _bits(p: torch.Tensor, q: torch.Tensor) -> float:
    return float(scoring.kl_bits(p, q.log2()))


def _hidden_slip(got: float, lost: float, T, E, alpha, q) -> str:
    f, g = alpha @ T @ E, q @ T @ E
    after = [(alpha * column, q * column) for column in (T @ E).T]  # the states now, given each next observation
    moved = [(alpha @ T * column, q @ T * column) for column in E.T]  # the states then
    each, then = ([_bits(one / one.sum(), two / two.sum()) for one, two in pairs] for pairs in (after, moved))
    slips = {
        "that is the divergence of the beliefs: a forecast that hides nothing would leave none of it": _bits(alpha, q),
        "that is the divergence of the forecasts, which is what is left and not what is hidden": _bits(f, g),
        "the next observations are not equally likely: weigh each by its probability": sum(each) / len(each),
        "the mean is over what happens, so its weights are the exact forecast's, not those of q's": sum(p * x for p, x in zip(g.tolist(), each, strict=True)),
        "the hidden part is about the state now, before it moves: multiply alpha by a column of T E": sum(p * x for p, x in zip(f.tolist(), then, strict=True)),
        "that is in nats: take logarithms to base 2": lost * math.log(2),
    }
    for hint, value in slips.items():
        if abs(got - value) < 1e-9:
            return hint
    return f"S = {len(alpha)}, V = {len(f)}: you say {got:.4f} bits; the divergence falls by {lost:.4f} from beliefs to forecasts"

"""Checks for chapter 5, "Filtering with a transformer".

What an answer is compared with is the definition itself, tried on random instances: curves that are
averaged anew, answers that attain a bound, gradients of all outcomes, differences of many samples.

Axes: B episodes, K scored positions (steps), S states, V symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch

from bayeswind_lib.exercises.core import Report, grade
from bayeswind_lib.tunnels.hmm import forward_filter


def _number(value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _beliefs(rng: torch.Generator, *shape: int) -> torch.Tensor:
    """Random distributions over the last axis, float64, some of them sharp."""
    weights = -torch.rand(shape, generator=rng, dtype=torch.float64).log()
    weights = weights ** (1 + 3 * torch.rand(*shape[:-1], 1, generator=rng, dtype=torch.float64))
    return weights / weights.sum(-1, keepdim=True)


# --- when a run has passed a level ---------------------------------------------------------------


def passed(errors: Sequence[float], level: float) -> int | None:
    """The first evaluation from which all errors are at or below a level; None if there is none.

    >>> passed([0.4, 0.08, 0.3, 0.05], 0.1)
    3
    """
    below = [all(e <= level for e in errors[i:]) for i in range(len(errors))]
    return below.index(True) if True in below else None


def check_passed(answer) -> Report:
    """Grade `my_passed(errors, level)`: from which evaluation on a curve stays at or below a level."""
    rng = torch.Generator().manual_seed(51)

    def agrees(errors, level):
        got = answer(list(errors), level)
        want = passed(errors, level)
        return None if got == want else _passed_slip(got, want, errors, level)

    cases = [
        ([0.4, 0.3, 0.2, 0.1], 0.25), ([0.4, 0.08, 0.3, 0.05, 0.04], 0.1),
        ([0.4, 0.2, 0.1], 0.2), ([0.4, 0.3, 0.05, 0.3], 0.1), ([0.1, 0.1], 0.3),
    ]  # fmt: skip
    for _ in range(12):
        falling = torch.linspace(1, 0, 9) + 0.4 * torch.rand(9, generator=rng)
        cases.append(([round(float(v), 2) for v in falling], 0.5))
    return grade("my_passed", [partial(agrees, *case) for case in cases])


def _passed_slip(got, want, errors, level) -> str:
    where = f"errors {errors}, level {level}"
    if got is None:
        equal = level in errors
        return f"{where}: you find no such evaluation" + (
            ", but an error equal to the level has reached it" if equal else f", but from {want} on all are below"
        )
    if want is None:
        return f"{where}: the last evaluation is above the level, so nothing was passed for good; return None"
    if isinstance(got, float) and got != int(got):
        return f"{where}: you return {got}, an error; asked is the number of the evaluation"
    if got < want and errors[got] <= level:
        return f"{where}: after evaluation {got} the error comes back above the level; passed is what stays passed"
    if got == want - 1:
        return f"{where}: evaluation {got} is itself still above the level"
    if level in errors:
        return f"{where}: you say {got}; an error equal to the level counts as passed"
    return f"{where}: you say {got}, but all errors are at or below the level from {want} on"


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


# --- the noise of a sampled target -----------------------------------------------------------------


def check_noise(answer) -> Report:
    """Grade `my_noise(posterior)`: mean squared length of what a sampled target adds to the gradient."""
    rng = torch.Generator().manual_seed(55)

    def agrees(posterior):
        got = torch.as_tensor(answer(posterior.clone())).double()
        if got.shape != posterior.shape[:-1]:
            return f"the result has shape {tuple(got.shape)}, expected {tuple(posterior.shape[:-1])}: one number a distribution"
        for place, p in enumerate(posterior):
            want = _gradient_noise(p, torch.randn(len(p), generator=rng, dtype=torch.float64))
            if abs(float(got[place]) - want) > 1e-9:
                return _noise_slip(float(got[place]), want, p)
        return None

    fair = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    sets = [fair, _beliefs(rng, 4, 3), _beliefs(rng, 3, 6)]
    return grade("my_noise", [partial(agrees, posterior) for posterior in sets])


def _gradient_noise(p: torch.Tensor, logits: torch.Tensor) -> float:
    """By differentiating: the loss of every outcome, the expected loss, and how far apart they are."""
    logits.requires_grad_(True)

    def gradient(weights):
        return torch.autograd.grad(-(weights * logits.log_softmax(-1)).sum(), logits)[0]

    middle = gradient(p)
    each = [gradient(row) for row in torch.eye(len(p), dtype=p.dtype)]
    return float(sum(chance * (g - middle).square().sum() for chance, g in zip(p, each, strict=True)))


def _noise_slip(got: float, want: float, p: torch.Tensor) -> str:
    shown = [round(x, 3) for x in p.tolist()]
    entropy = -float((p * p.log()).sum())
    slips = [
        (want / len(p), "that is the mean over the logits; the squared length is the sum"),
        (want / math.log(2) ** 2, "the loss is in nats here; 1/ln 2 would make bits of it"),
        (1 - float(p.max()), "the chance that the likeliest outcome does not happen is not yet a squared length"),
        (entropy, "entropy grows with it but is another number"),
        (entropy / math.log(2), "entropy in bits grows with it but is another number"),
        (float(p.square().sum()), "you give what a certain outcome leaves: for a certain p the noise is 0"),
        (math.sqrt(max(want, 0)), "that is the root: the squared length is asked"),
    ]
    for value, hint in slips:
        if abs(got - value) < 1e-9:
            return f"p = {shown}: {hint}"
    return f"p = {shown}: you say {got:.4f}; differentiating the loss of every outcome gives {want:.4f}"


# --- the gap between seen and fresh episodes -------------------------------------------------------

REPEATS = 300


def check_gap(answer) -> Report:
    """Grade `my_gap(seen, fresh)`: the difference of mean KL and its standard error, from (N, K), (M, K)."""

    def draw(rng, n, m, K=12):
        """KLs that are larger in some episodes than in others, whatever the position."""
        sizes = [torch.rand(k, 1, generator=rng, dtype=torch.float64) for k in (n, m)]
        parts = [s * (0.5 + torch.rand(len(s), K, generator=rng, dtype=torch.float64)) for s in sizes]
        return parts[0] * 0.3, parts[1]

    def the_gap():
        seen, fresh = draw(torch.Generator().manual_seed(1), 40, 25)
        result = answer(seen.clone(), fresh.clone())
        if not isinstance(result, tuple | list) or len(result) != 2:
            return "return two numbers: the gap and its standard error"
        got, want = _number(result[0]), float(fresh.mean() - seen.mean())
        if abs(got + want) < 1e-9:
            return "fresh minus seen: the gap is positive where memory helps on what was seen"
        return None if abs(got - want) < 1e-9 else f"the means differ by {want:.4f}, you say {got:.4f}"

    def the_error(n, m):
        rng = torch.Generator().manual_seed(2)
        samples = [draw(rng, n, m) for _ in range(REPEATS)]
        spread = float(torch.tensor([float(f.mean() - s.mean()) for s, f in samples]).std())
        own = sum(_number(answer(s.clone(), f.clone())[1]) for s, f in samples[:40]) / 40
        return None if 0.85 < own / spread < 1.18 else _error_slip(own, spread, samples, n, m)

    tests: list[Callable] = [the_gap, partial(the_error, 40, 25), partial(the_error, 8, 60)]
    return grade("my_gap", tests)


def _error_slip(own, spread, samples, n, m) -> str:
    case = f"you say {own:.4f} for {n} seen and {m} fresh episodes, but the gap of {REPEATS} such samples scatters by {spread:.4f}"
    seen, fresh = samples[0]
    cells = math.sqrt(float(seen.var() / seen.numel() + fresh.var() / fresh.numel()))
    single = [math.sqrt(float(part.mean(1).var() / len(part))) for part in (seen, fresh)]
    if any(abs(own - error) < 0.15 * error for error in single):
        return f"{case}; both means have an error, and their squares add"
    if 0.7 < own / cells < 1.4 and own < 0.6 * spread:
        return f"{case}; positions of one episode go up and down together, so an episode counts once: average it first"
    if own > 3 * spread:
        return f"{case}; that is the scatter of episodes, and a mean of N scatters sqrt(N) less"
    if abs(own - sum(single)) < 0.2 * sum(single) and own > spread:
        return f"{case}; of independent errors the squares add, not the errors"
    return f"{case}; average each episode first, then add the squared errors of the two means"

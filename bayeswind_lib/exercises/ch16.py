"""Checks for chapter 16, "Is it EM?".

Every check states properties and tries them on random instances: Bayes' rule, what a product of
forecasts is, when a run arrives, which runs are one run, what a first step gains. No answer is
compared with a key.

Axes: B sequences, T positions (query i, key j), Y outcomes, S seeds, R rates, P points of a curve.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bayeswind_lib.exercises.core import Report, grade


def _head(seed: int, B: int = 2, T: int = 4, Y: int = 3):
    """A pattern (B, T, T), forecasts (B, T, Y) and targets (B, T)."""
    rng = torch.Generator().manual_seed(seed)
    pattern = torch.randn(B, T, T, generator=rng, dtype=torch.float64).softmax(-1)
    forecasts = (1.5 * torch.randn(B, T, Y, generator=rng, dtype=torch.float64)).softmax(-1)
    return pattern, forecasts, torch.randint(Y, (B, T), generator=rng)


def _near(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() < 1e-9)


# --- responsibilities --------------------------------------------------------------------------


def check_responsibility(answer) -> Report:
    """Grade `my_responsibility(pattern, forecasts, targets)`: posterior of which key spoke, (B, T, T)."""

    def says(pattern, forecasts, targets):
        return torch.as_tensor(answer(pattern.clone(), forecasts.clone(), targets.clone()), dtype=torch.float64)

    def shape():
        pattern, forecasts, targets = _head(1)
        got = says(pattern, forecasts, targets)
        return None if got.shape == pattern.shape else f"one responsibility for each query and key: shape {tuple(pattern.shape)}, yours has {tuple(got.shape)}"

    def bayes():
        """Prior odds times likelihood ratio, at every query and pair of keys."""
        pattern, forecasts, targets = _head(2)
        got = says(pattern, forecasts, targets)
        likely = torch.stack([torch.stack([forecasts[b, :, targets[b, i]] for i in range(4)]) for b in range(2)])  # (B, T, T)
        if _near(got[..., :1] / got, (pattern[..., :1] / pattern) * (likely[..., :1] / likely)):
            return None
        return _slip_of_responsibility(got, pattern, forecasts, targets, likely)

    def normal():
        got = says(*_head(3))
        if _near(got.sum(-1), torch.ones(2, 4, dtype=torch.float64)):
            return None
        return "each query's responsibilities sum to 1: divide by the chance of what happened"

    return grade("my_responsibility", [shape, bayes, normal])


def _slip_of_responsibility(got, pattern, forecasts, targets, likely):
    def ratio(x):
        return x[..., :1] / x

    said = "the ratio of two responsibilities is the ratio of the weights times that of the chances of what happened; yours is not"
    if _near(ratio(got), ratio(likely)):
        return said + ": the attention weights, the prior, are missing"
    if _near(ratio(got), ratio(pattern)):
        return said + ": these are the attention weights themselves; the outcome is missing"
    own = forecasts.gather(-1, targets[..., None])[..., 0][:, None, :]
    if _near(ratio(got), ratio(pattern * own)):
        return said + ": you took the outcome of the key's own position, it is the query's that is to be explained"
    if _near(ratio(got.transpose(1, 2)), ratio(pattern * likely)):
        return said + ": rows are queries, columns are keys; yours are exchanged"
    return said


# --- the forecast of attention -----------------------------------------------------------------


def check_forecast(answer) -> Report:
    """Grade `my_forecast(pattern, forecasts)`: what attention forecasts, from its values' forecasts, (B, T, Y)."""

    def says(pattern, forecasts):
        return torch.as_tensor(answer(pattern.clone(), forecasts.clone()), dtype=torch.float64)

    def alone():
        """All weight on one key: its forecast."""
        _, forecasts, _ = _head(4)
        turn = torch.eye(4, dtype=torch.float64)[[2, 0, 3, 1]].expand(2, 4, 4)
        got = says(turn, forecasts)
        if _near(got, forecasts[:, [2, 0, 3, 1]]):
            return None
        if got.shape == forecasts.shape and _near(got, forecasts[:, [1, 3, 0, 2]]):
            return "a row of the pattern belongs to the query: yours was turned round"
        if got.shape == forecasts.shape and _near(got, forecasts[:, [2, 0, 3, 1]].softmax(-1)):
            return "a query that looks at one key has that key's forecast: take logarithms before the softmax"
        return "a query that looks at one key only must have that key's forecast"

    def product():
        pattern, forecasts, _ = _head(5)
        rng = torch.Generator().manual_seed(6)
        values, output = torch.randn(2, 4, 5, generator=rng, dtype=torch.float64), torch.randn(5, 3, generator=rng, dtype=torch.float64)
        forecasts = (values @ output).softmax(-1)
        got, want = says(pattern, forecasts), (pattern @ values @ output).softmax(-1)
        if _near(got, want):
            return None
        if _near(got, pattern @ forecasts):
            return "that is the mixture, the arithmetic mean of forecasts: attention averages before the softmax"
        raw = (pattern @ forecasts.log()).exp()
        if _near(got, raw):
            return f"a forecast sums to 1, yours to {float(got.sum(-1)[0, 0]):.3f}: divide"
        if _near(got, forecasts.log().sum(1, keepdim=True).softmax(-1).expand(2, 4, 3)):
            return "every key counts alike: the attention weights are the powers"
        return "for values and an output map drawn at random, your forecast is not that of attention"

    return grade("my_forecast", [alone, product])


# --- a published speed-up ----------------------------------------------------------------------


def check_speed_up(answer) -> Report:
    """Grade `my_speed_up(base, arm)`: steps of the base over the arm's mean steps to the base's mean final loss."""

    def straight(ends, steps=100):
        return [np.linspace(2.0, end, steps + 1).tolist() for end in ends]

    def pooled():
        """Base ends at 1.0 and 1.4, so the level is 1.2."""
        got = float(answer(straight([1.0, 1.4]), straight([0.2, 0.5])))
        mean = (45 + 54) / 2
        if abs(got - 100 / mean) < 1e-9:
            return None
        said = f"bases that end at 1.0 and 1.4, arms that are at 1.2 after 45 and 54 of 100 steps: 100 / 49.5, you say {got:.4f}"
        if abs(got - np.mean([100 / 45, 100 / 54])) < 1e-9:
            return said + ": the ratio of means, not the mean of ratios"
        if abs(got - 100 / np.mean([56, 40])) < 1e-9:
            return said + ": one level for all seeds, the base's mean final loss; you took each seed's own"
        if abs(got - 101 / mean) < 1e-9 or abs(got - 101 / (mean + 1)) < 1e-9 or abs(got - 100 / (mean + 1)) < 1e-9:
            return said + ": a curve of 101 losses has 100 steps, and its first entry is before any step"
        if abs(got - mean / 100) < 1e-9:
            return said + ": the fraction is upside down"
        return said

    def first():
        """What rises again has still been there."""
        bump = [2.0, 1.5, 1.0, 1.6, 0.9]
        got = float(answer([[2.0, 1.8, 1.5, 1.3, 1.0]], [bump]))
        if abs(got - 2) < 1e-9:
            return None
        return f"the first step at or below the level counts, also if the loss rises again: 4 / 2, you say {got:.4f}"

    def censored():
        got = float(answer(straight([1.0]), straight([0.0, 1.5])))
        if abs(got - 100 / 75) < 1e-9:
            return None
        said = f"one run arrives after 50 of 100 steps, one never: with 100 for the latter 100 / 75, you say {got:.4f}"
        if abs(got - 2) < 1e-9:
            return said + ": a run that never arrives may not be left out"
        if abs(got - 4) < 1e-9 or got == 0:
            return said + ": give a run that never arrives the number of steps that it had"
        return said

    return grade("my_speed_up", [pooled, first, censored])


# --- one run, two names ------------------------------------------------------------------------


def check_same_run(answer) -> Report:
    """Grade `my_same_run(value, output, rate_value, rate_output)`: start and one common rate of the same run."""

    def setting(seed):
        rng = torch.Generator().manual_seed(seed)
        return [torch.randn(*shape, generator=rng, dtype=torch.float64) / 2 for shape in ((3, 2), (2, 4), (3, 4))]

    def run(value, output, goal, rates, n=6):
        """Descent on half the squared distance of the product from a goal; the products."""
        found = []
        for _ in range(n):
            found.append(value @ output)
            error = value @ output - goal
            value, output = value - rates[0] * error @ output.T, output - rates[1] * value.T @ error
        return torch.stack(found)

    def begins():
        value, output, _ = setting(1)
        v, o, rate = answer(value.clone(), output.clone(), 0.1, 0.01)
        if not _near(v @ o, value @ output):
            return "the new start must compute the same: the product of the two maps has changed"
        if not abs(float(rate) - math.sqrt(0.001)) < 1e-9:
            return _slip_of_rate(float(rate))
        return None

    def goes_on():
        for seed, rates in ((2, (0.2, 0.02)), (3, (0.03, 0.12)), (4, (0.1, 0.1))):
            value, output, goal = setting(seed)
            v, o, rate = answer(value.clone(), output.clone(), *rates)
            one, two = run(value, output, goal, rates), run(v, o, goal, (float(rate), float(rate)))
            if not _near(one, two):
                said = f"rates {rates[0]} and {rates[1]}: after one step the two runs differ by {float((one[1] - two[1]).abs().max()):.2e}"
                c = float((value / v).mean())
                want = (rates[0] / rates[1]) ** 0.25
                if abs(c - 1) < 1e-9:
                    return said + ": the start has to change too"
                if abs(c * want - 1) < 1e-6:
                    return said + ": the scale is upside down; a map with the larger rate starts smaller"
                if abs(c - want**2) < 1e-6:
                    return said + ": the rate changes with the square of the scale"
                return said
        return None

    return grade("my_same_run", [begins, goes_on])


def _slip_of_rate(got: float) -> str:
    said = f"rates 0.1 and 0.01: the common rate is {math.sqrt(0.001):.4f}, you say {got:.4f}"
    if abs(got - 0.055) < 1e-9:
        return said + ": the geometric mean, not the arithmetic one"
    if abs(got - 0.1) < 1e-9 or abs(got - 0.01) < 1e-9:
        return said + ": that is one of the two; both maps are rescaled"
    if abs(got - math.sqrt(10)) < 1e-9:
        return said + ": that is the square root of their ratio"
    return said


# --- an equal first step -----------------------------------------------------------------------


def check_matched(answer) -> Report:
    """Grade `my_matched(norms, rates)`: the one rate whose first step gains as much, to first order."""

    def equal():
        got = float(answer({"value": 2.0, "output": 2.0}, {"value": 0.1, "output": 0.01}))
        if abs(got - 0.055) < 1e-12:
            return None
        said = f"two gradients of one length, rates 0.1 and 0.01: as much as 0.055 on both, you say {got:.4g}"
        if abs(got - math.sqrt(0.001)) < 1e-9:
            return said + ": gains add up, so it is an arithmetic mean"
        if abs(got - 0.44) < 1e-9 or abs(got - 0.11) < 1e-9 or abs(got - 0.22) < 1e-9:
            return said + ": that is what is gained; divide by what a rate of 1 gains"
        return said

    def weighed():
        norms, rates = {"query": 0.5, "value": 1.0, "output": 3.0}, {"query": 0.01, "value": 0.1, "output": 0.02}
        got = float(answer(dict(norms), dict(rates)))
        def mean(power):
            return sum(rates[m] * norms[m] ** power for m in norms) / sum(x**power for x in norms.values())

        if abs(got - mean(2)) < 1e-12:
            return None
        said = f"lengths {norms} and rates {rates}: your rate {got:.4g} gains {got * 10.25:.4f}, the arm {mean(2) * 10.25:.4f}"
        if abs(got - mean(1)) < 1e-12:
            return said + ": a step gains its rate times the *square* of the length"
        if abs(got - mean(0)) < 1e-12:
            return said + ": a map with a longer gradient counts for more"
        if abs(got - mean(-2)) < 1e-9:
            return said + ": the weights are upside down"
        return said

    return grade("my_matched", [equal, weighed])


# --- best against best -------------------------------------------------------------------------


def check_best(answer) -> Report:
    """Grade `my_best(validation, held_out)`: mean held-out loss at the rate and moments that validation chooses."""

    def tries():
        rng = np.random.default_rng(7)
        for _ in range(4):
            validation, held_out = 2 + rng.normal(size=(2, 4, 3, 6)) * 0.3
            got = float(answer(validation.copy(), held_out.copy()))
            if not abs(got - _best(validation, held_out)) < 1e-9:
                return _slip_of_best(got, validation, held_out)
        return None

    def diverged():
        validation = np.array([[[2.0, 1.9, np.nan]], [[2.0, 1.95, 1.94]]])
        got = float(answer(validation.copy(), validation + 0.1))
        return None if abs(got - 2.0) < 1e-9 else f"a run that breaks (nan) was good before that, 1.9 in validation: its held-out loss there is 2.0, you say {got:.4f}"

    return grade("my_best", [tries, diverged])


def _best(validation: np.ndarray, held_out: np.ndarray) -> float:
    """By looking everything up, one by one."""
    R, S, P = validation.shape
    moments = [[min(range(P), key=lambda p: validation[r, s, p]) for s in range(S)] for r in range(R)]
    totals = [sum(validation[r, s, moments[r][s]] for s in range(S)) for r in range(R)]
    r = totals.index(min(totals))
    return sum(held_out[r, s, moments[r][s]] for s in range(S)) / S


def _slip_of_best(got: float, validation: np.ndarray, held_out: np.ndarray) -> str:
    said = f"4 rates, 3 seeds, 6 moments: you say {got:.4f}"
    at = validation.argmin(-1)
    then = np.take_along_axis(held_out, at[..., None], -1)[..., 0]  # (R, S)
    low = validation.min(-1)
    if abs(got - held_out.min(-1).mean(1).min()) < 1e-9 or abs(got - _best(held_out, held_out)) < 1e-9:
        return said + ": that chooses on the data that it reports; choose on validation"
    if abs(got - low.mean(1).min()) < 1e-9:
        return said + ": that is the validation loss itself; report what is held out there"
    if abs(got - held_out[validation[..., -1].mean(1).argmin(), :, -1].mean()) < 1e-9:
        return said + ": that is the last moment; each run stops at its own best one"
    if abs(got - then[low.argmin(0), range(3)].mean()) < 1e-9:
        return said + ": each seed has a rate of its own; one rate is chosen for all, by their mean"
    if abs(got - then.mean(1).min()) < 1e-9:
        return said + ": the moments are chosen on validation, but the rate on what is held out"
    return said + ": choose the moment of each run, then the rate by the mean over seeds, then look at what is held out"

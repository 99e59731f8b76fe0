"""Stored answers to the exercises of chapter 16: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import numpy as np
import torch

# --- my_responsibility(pattern, forecasts, targets) ---------------------------------------------


def responsibility_by_loop(pattern, forecasts, targets):
    rho = torch.zeros_like(pattern)
    B, T, _ = pattern.shape
    for b in range(B):
        for i in range(T):
            joint = pattern[b, i] * forecasts[b, :, targets[b, i]]
            rho[b, i] = joint / joint.sum()
    return rho


def _chances(forecasts, targets):
    return torch.stack([forecasts[b][:, targets[b]].T for b in range(len(targets))])


def _normal(x):
    return x / x.sum(-1, keepdim=True)


def _of_the_key(pattern, forecasts, targets):
    own = forecasts.gather(-1, targets[..., None])[..., 0]
    return _normal(pattern * own[:, None, :])


RESPONSIBILITY_WRONG = [
    (lambda a, p, y: _normal(_chances(p, y)), "the prior, are missing"),
    (lambda a, p, y: a, "the outcome is missing"),
    (_of_the_key, "the key's own position"),
    (lambda a, p, y: responsibility_by_loop(a, p, y).transpose(1, 2), "yours are exchanged"),
    (lambda a, p, y: a * _chances(p, y), "sum to 1"),
]

# --- my_forecast(pattern, forecasts) ------------------------------------------------------------


def forecast_by_products(pattern, forecasts):
    powers = (forecasts[:, None] ** pattern[..., None]).prod(2)  # (B, T, Y)
    return powers / powers.sum(-1, keepdim=True)


FORECAST_WRONG = [
    (lambda a, p: a @ p, "arithmetic mean"),
    (lambda a, p: (a @ p.log()).exp(), "sums to 1"),
    (lambda a, p: (a.transpose(1, 2) @ p.log()).softmax(-1), "turned round"),
    (lambda a, p: (a @ p).softmax(-1), "take logarithms"),
]

# --- my_speed_up(base, arm) ---------------------------------------------------------------------


def speed_up_by_loop(base, arm):
    level, n = sum(curve[-1] for curve in base) / len(base), len(base[0]) - 1
    steps = [next((t for t, loss in enumerate(curve) if loss <= level), n) for curve in arm]
    return n * len(steps) / sum(steps)


def _speed_up(each=lambda base, arm: None, shift=0, never=None, mean=lambda n, s: n / np.mean(s), last=False):
    def answer(base, arm):
        n, steps = len(base[0]) - 1, []
        for i, curve in enumerate(arm):
            level = each(base, i) or np.mean([c[-1] for c in base])
            below = np.flatnonzero(np.array(curve) <= level + 1e-12)
            if last and len(below):
                above = np.flatnonzero(np.array(curve) > level + 1e-12)
                below = [above[-1] + 1]
            steps += [below[0] + shift] if len(below) else ([n] if never is None else never)
        return mean(n, steps)

    return answer


SPEED_UP_WRONG = [
    (_speed_up(mean=lambda n, s: np.mean([n / x for x in s])), "mean of ratios"),
    (_speed_up(each=lambda base, i: base[min(i, len(base) - 1)][-1]), "each seed's own"),
    (_speed_up(shift=1), "before any step"),
    (_speed_up(mean=lambda n, s: np.mean(s) / n), "upside down"),
    (_speed_up(never=[]), "may not be left out"),
    (_speed_up(last=True), "also if the loss rises again"),
]

# --- my_same_run(value, output, rate_value, rate_output) ----------------------------------------


def same_run_by_logs(value, output, rate_value, rate_output):
    scale = math.exp((math.log(rate_output) - math.log(rate_value)) / 4)
    return value * scale, output / scale, math.exp((math.log(rate_value) + math.log(rate_output)) / 2)


def _same_run(power=0.25, rate=lambda a, b: math.sqrt(a * b)):
    def answer(value, output, a, b):
        c = (a / b) ** power
        return value / c, output * c, rate(a, b)

    return answer


SAME_RUN_WRONG = [
    (_same_run(power=0.0), "the start has to change"),
    (_same_run(power=-0.25), "upside down"),
    (_same_run(power=0.5), "square of the scale"),
    (_same_run(rate=lambda a, b: (a + b) / 2), "geometric mean"),
    (lambda v, o, a, b: (v / (a / b) ** 0.25, o, math.sqrt(a * b)), "the product of the two maps has changed"),
]

# --- my_matched(norms, rates) -------------------------------------------------------------------


def matched_by_arrays(norms, rates):
    size, rate = (np.array([one[name] for name in sorted(norms)]) for one in (norms, rates))
    return float(np.average(rate, weights=size**2))


MATCHED_WRONG = [
    (lambda n, r: sum(r[m] * n[m] for m in n) / sum(n.values()), "*square* of the length"),
    (lambda n, r: sum(r.values()) / len(r), "counts for more"),
    (lambda n, r: math.exp(sum(math.log(x) for x in r.values()) / len(r)), "arithmetic mean"),
    (lambda n, r: sum(r[m] * n[m] ** 2 for m in n), "divide by what a rate of 1 gains"),
]

# --- my_best(validation, held_out) --------------------------------------------------------------


def best_by_loop(validation, held_out):
    best = (math.inf, math.nan)
    for some, other in zip(validation, held_out, strict=True):
        chosen = [int(np.nanargmin(curve)) for curve in some]
        score = np.mean([curve[i] for curve, i in zip(some, chosen, strict=True)])
        best = min(best, (score, np.mean([curve[i] for curve, i in zip(other, chosen, strict=True)])))
    return best[1]


def _moments(validation, held_out):
    at = np.nanargmin(validation, -1)[..., None]
    return np.take_along_axis(validation, at, -1)[..., 0], np.take_along_axis(held_out, at, -1)[..., 0]


def _each_seed(validation, held_out):
    low, then = _moments(validation, held_out)
    return then[low.argmin(0), range(low.shape[1])].mean()


BEST_WRONG = [
    (lambda v, h: np.nanmin(h, -1).mean(1).min(), "chooses on the data that it reports"),
    (lambda v, h: np.nanmin(v, -1).mean(1).min(), "the validation loss itself"),
    (lambda v, h: h[np.nanargmin(v[..., -1].mean(1)), :, -1].mean(), "the last moment"),
    (_each_seed, "a rate of its own"),
    (lambda v, h: _moments(v, h)[1].mean(1).min(), "but the rate on what is held out"),
    (lambda v, h: best_by_loop(np.where(np.isnan(v).any(-1, keepdims=True), 9.0, v), h), "a run that breaks"),
]

ANSWERS = {
    "check_responsibility": {
        "alternative": responsibility_by_loop, "shape_stub": lambda a, p, y: torch.full_like(a, 1 / a.shape[-1]),
        "wrong": RESPONSIBILITY_WRONG,
    },
    "check_forecast": {
        "alternative": forecast_by_products, "shape_stub": lambda a, p: torch.full_like(p, 1 / p.shape[-1]), "wrong": FORECAST_WRONG,
    },
    "check_speed_up": {"alternative": speed_up_by_loop, "shape_stub": lambda base, arm: 1.0, "wrong": SPEED_UP_WRONG},
    "check_same_run": {
        "alternative": same_run_by_logs, "shape_stub": lambda v, o, a, b: (v, o, a), "wrong": SAME_RUN_WRONG,
    },
    "check_matched": {"alternative": matched_by_arrays, "shape_stub": lambda n, r: 0.1, "wrong": MATCHED_WRONG},
    "check_best": {"alternative": best_by_loop, "shape_stub": lambda v, h: 2.0, "wrong": BEST_WRONG},
}

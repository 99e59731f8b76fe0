"""Stored answers to the exercises of chapter 18: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import itertools
import math
from statistics import NormalDist

import numpy as np
from bayeswind_lib.language.sula import ranks as rankdata

# --- my_expected(k, truth, believed) ------------------------------------------------------------


def _bits(p):
    return -sum(q * math.log2(q) for q in (p, 1 - p) if q)


def expected_by_sequences(k, truth, believed):
    total = 0.0
    for shown in itertools.product((0, 1), repeat=k):  # 0 is the hidden label
        r = k - sum(shown)
        a, b = believed**r * (1 - believed) ** (k - r), believed ** (k - r) * (1 - believed) ** r
        total += truth**r * (1 - truth) ** (k - r) * _bits(a / (a + b))
    return total


def _entropy_of_mean(k, truth, believed):
    odds = believed / (1 - believed)
    weight = [math.comb(k, r) * truth**r * (1 - truth) ** (k - r) for r in range(k + 1)]
    return _bits(sum(w / (1 + odds ** (k - 2 * r)) for r, w in enumerate(weight)))


def _one_order(k, truth, believed):
    odds = believed / (1 - believed)
    return sum(truth**r * (1 - truth) ** (k - r) * _bits(1 / (1 + odds ** (k - 2 * r))) for r in range(k + 1))


EXPECTED_WRONG = [
    (lambda k, t, b: expected_by_sequences(k, t, b) * (math.log(2) if k else 1), "in nats"),
    (lambda k, t, b: expected_by_sequences(k, t, t), "not with the truth"),
    (lambda k, t, b: expected_by_sequences(k, b, b), "come with the truth"),
    (_entropy_of_mean, "not the entropy of the mean"),
    (_one_order, "in several orders"),
]

# --- my_constant(entropies) ---------------------------------------------------------------------


def constant_by_trying(entropies):
    return min(((g, np.abs(entropies - g).mean()) for g in entropies), key=lambda pair: pair[1])


def _constant(guess, error=lambda h, g: np.abs(h - g).mean()):
    return lambda h: (guess(h), error(h, guess(h)))


CONSTANT_WRONG = [
    (_constant(np.mean), "best for squares"),
    (_constant(lambda h: (h.max() + h.min()) / 2), "middle of the range"),
    (_constant(np.median, lambda h, g: np.square(h - g).mean()), "mean squared error"),
    (_constant(np.median, lambda h, g: np.abs(h - g).sum()), "is a sum"),
    (_constant(lambda h: 0.0), "before you choose"),
]

# --- my_partial(x, y, z) ------------------------------------------------------------------------


def partial_by_residuals(x, y, z):
    rx, ry, rz = (rankdata(a) for a in (x, y, z))
    base = np.c_[rz, np.ones(len(rz))]
    left = [r - base @ np.linalg.lstsq(base, r, rcond=None)[0] for r in (rx, ry)]
    return np.corrcoef(*left)[0, 1]


def _three(x, y, z, rank=rankdata):
    a, b, c = rank(x), rank(y), rank(z)
    return np.corrcoef(a, b)[0, 1], np.corrcoef(a, c)[0, 1], np.corrcoef(b, c)[0, 1]


def _partial(form, rank=rankdata):
    return lambda x, y, z: form(*_three(x, y, z, rank))


def _right(xy, xz, yz):
    return (xy - xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))


PARTIAL_WRONG = [
    (_partial(lambda xy, xz, yz: xy), "z has not been used"),
    (_partial(lambda xy, xz, yz: xy - xz * yz), "leaves of the variance"),
    (_partial(lambda xy, xz, yz: (xy - xz * yz) / ((1 - xz**2) * (1 - yz**2))), "the root is missing"),
    (_partial(lambda xy, xz, yz: (xy + xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))), "is subtracted"),
    (_partial(_right, lambda a: a), "take ranks first"),
    (_partial(_right, lambda a: a.argsort().argsort()), "share the mean of their ranks"),
]

# --- my_design(k, per, rng) ---------------------------------------------------------------------


def design_by_places(k, per, rng):
    rows = []
    for ones in list(range(k + 1)) * per:
        row = np.zeros(k, dtype=int)
        row[rng.choice(k, ones, replace=False)] = 1
        rows.append(row)
    return rows


def _sorted(k, per, rng):
    return [np.repeat([0, 1], [k - ones, ones]) for ones in range(k + 1) for _ in range(per)]


DESIGN_WRONG = [
    (lambda k, per, rng: [row[: rng.integers(1, k)] for row in design_by_places(k, per, rng)], "every prompt has"),
    (lambda k, per, rng: list(rng.integers(2, size=(per * (k + 1), k))), "drawn one by one"),
    (_sorted, "one order only"),
    (lambda k, per, rng: [row for row in design_by_places(k, per, rng) if 2 * row.sum() <= k], "the frequent one"),
    (lambda k, per, rng: [row for row in design_by_places(k, per, rng) if row.sum() in (0, k)], "has to be weak"),
]

# --- my_cut(values, axis, mean, scale) ----------------------------------------------------------


def cut_by_projector(values, axis, mean, scale):
    w = axis / scale
    return mean + (values - mean) @ (np.eye(len(w)) - np.outer(w, w) / (w @ w))


def _cut(direction, centre=lambda v, mean: mean, unit=True):
    def answer(values, axis, mean, scale):
        w = direction(axis, scale)
        w = w / np.linalg.norm(w) if unit else w
        return values - ((values - centre(values, mean)) @ w)[:, None] * w

    return answer


def _oblique(values, axis, mean, scale):
    """Cut in the standardised coordinates: nothing is read, but values go farther than they must."""
    z = (values - mean) / scale
    return mean + (z - (z @ axis)[:, None] * axis) * scale


CUT_WRONG = [
    (_cut(lambda a, s: a), "belongs to standardised values"),
    (_cut(lambda a, s: a * s), "turns the axis the wrong way"),
    (_cut(lambda a, s: a / s, unit=False), "squared length"),
    (_cut(lambda a, s: a / s, centre=lambda v, mean: 0.0), "the mean of the values has moved"),
    (_oblique, "is enough"),
]

# --- my_equivalent(differences, margin) ---------------------------------------------------------


def equivalent_by_scipy(differences, margin):
    error = np.std(differences, ddof=1) / math.sqrt(len(differences))
    return float(NormalDist().cdf(-(margin - abs(np.mean(differences))) / error))


def _sides(x, margin, error=None):
    error = np.std(x, ddof=1) / math.sqrt(len(x)) if error is None else error
    return [NormalDist().cdf(-(margin + side * np.mean(x)) / error) for side in (1, -1)]


EQUIVALENT_WRONG = [
    (lambda x, margin: min(_sides(x, margin)), "larger of the two"),
    (lambda x, margin: 1 - max(_sides(x, margin)), "one minus a p-value"),
    (lambda x, margin: 2 * NormalDist().cdf(-abs(np.mean(x)) / (np.std(x, ddof=1) / math.sqrt(len(x)))), "shows nothing"),
    (lambda x, margin: max(_sides(x, margin, np.std(x, ddof=1))), "not of the mean"),
]

ANSWERS = {
    "check_expected": {
        "alternative": expected_by_sequences, "shape_stub": lambda k, truth, believed: 1.0, "wrong": EXPECTED_WRONG,
    },
    "check_constant": {"alternative": constant_by_trying, "shape_stub": lambda h: (0.5, 0.5), "wrong": CONSTANT_WRONG},
    "check_partial": {"alternative": partial_by_residuals, "shape_stub": lambda x, y, z: 0.5, "wrong": PARTIAL_WRONG},
    "check_design": {
        "alternative": design_by_places, "shape_stub": lambda k, per, rng: [np.zeros(k, int)] * per, "wrong": DESIGN_WRONG,
    },
    "check_cut": {"alternative": cut_by_projector, "shape_stub": lambda v, a, mean, scale: v, "wrong": CUT_WRONG},
    "check_equivalent": {
        "alternative": equivalent_by_scipy, "shape_stub": lambda x, margin: 0.5, "wrong": EQUIVALENT_WRONG,
    },
}

"""Checks for chapter 18, "Evidence or length?".

Every check states properties and tries them on random instances: what counting gives, that no other
constant does better, what no stretching of a scale changes, what a cut leaves. No answer is compared with a key.

Axes: n prompts, k examples, d coordinates.
"""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np

from bayeswind_lib.exercises.core import Report, grade


def _bits(p: float) -> float:
    return -sum(q * math.log2(q) for q in (p, 1 - p) if q > 0)


# --- what an observer expects ------------------------------------------------------------------


def check_expected(answer) -> Report:
    """Grade `my_expected(k, truth, believed)`: mean bits left after k examples, right with chance `truth`, believed to be right with another."""

    def nothing():
        got = float(answer(0, 0.9, 0.9))
        return None if abs(got - 1) < 1e-9 else f"no example leaves 1 bit, you say {got:.4f}"

    def one():
        """One example leaves the same for every truth: only what is believed counts."""
        for believed in (0.6, 0.8, 0.95):
            got, want = float(answer(1, 0.7, believed)), _bits(believed)
            if abs(got - want) > 1e-9:
                return _slip_of_expected(got, want, 1, 0.7, believed)
        return None

    def many():
        for k, truth, believed in ((2, 0.9, 0.9), (4, 0.5, 0.9), (5, 0.7, 0.8)):
            got, want = float(answer(k, truth, believed)), _expected(k, truth, believed)
            if not abs(got - want) < 1e-9:
                return _slip_of_expected(got, want, k, truth, believed)
        return None

    return grade("my_expected", [nothing, one, many])


def _sequences(k: int, truth: float, believed: float):
    """Chance and posterior of every sequence of right (True) and wrong examples."""
    odds = believed / (1 - believed)
    for right in itertools.product((True, False), repeat=k):
        m = 2 * sum(right) - k
        yield math.prod(truth if r else 1 - truth for r in right), 1 / (1 + odds**-m)


def _expected(k: int, truth: float, believed: float) -> float:
    return sum(chance * _bits(p) for chance, p in _sequences(k, truth, believed))


def _slip_of_expected(got, want, k, truth, believed):
    said = f"k {k}, truth {truth}, believed {believed}: all sequences together give {want:.4f} bits, you say {got:.4f}"
    if abs(got - want * math.log(2)) < 1e-9:
        return said + ": that is in nats"
    if abs(got - _expected(k, truth, truth)) < 1e-9:
        return said + ": the posterior is computed with what is believed, not with the truth"
    if abs(got - _expected(k, believed, believed)) < 1e-9:
        return said + ": sequences come with the truth, not with what is believed"
    if abs(got - _bits(sum(c * p for c, p in _sequences(k, truth, believed)))) < 1e-9:
        return said + ": take the mean of the entropies, not the entropy of the mean posterior"
    odds = believed / (1 - believed)
    bare = sum(truth**r * (1 - truth) ** (k - r) * _bits(1 / (1 + odds ** -(2 * r - k))) for r in range(k + 1))
    if abs(got - bare) < 1e-9:
        return said + ": r right ones of k come in several orders"
    return said


# --- the best constant -------------------------------------------------------------------------


def check_constant(answer) -> Report:
    """Grade `my_constant(entropies)`: the best guess that is the same for all, and its mean absolute error."""
    rng = np.random.default_rng(1)

    def says(h):
        guess, error = answer(np.array(h))
        return float(guess), float(error)

    def error():
        """The error belongs to the guess."""
        h = rng.exponential(0.3, 31)
        guess, got = says(h)
        want = float(np.abs(h - guess).mean())
        if abs(got - want) < 1e-9:
            return None
        if abs(got - float(np.square(h - guess).mean())) < 1e-9:
            return f"your guess {guess:.3f} has a mean absolute error of {want:.4f}; {got:.4f} is its mean squared error"
        if abs(got - 31 * want) < 1e-9:
            return f"your guess {guess:.3f} has a mean absolute error of {want:.4f}; {got:.4f} is a sum"
        return f"your guess {guess:.3f} has a mean absolute error of {want:.4f}, you say {got:.4f}"

    def best():
        for n in (21, 40):
            h = rng.exponential(0.3, n)
            guess, got = says(h)
            tried = np.linspace(0, h.max(), 2001)
            least = float(np.abs(h[:, None] - tried).mean(0).min())
            if got > least + 1e-4:
                return _slip_of_constant(guess, got, least, h)
        return None

    return grade("my_constant", [error, best])


def _slip_of_constant(guess, got, least, h):
    said = f"another constant has an error of {least:.4f}, yours ({guess:.3f}) has {got:.4f}"
    if abs(guess - h.mean()) < 1e-9:
        return said + ": the mean is best for squares; for absolute errors as many prompts lie above as below"
    if abs(guess - (h.max() + h.min()) / 2) < 1e-9:
        return said + ": the middle of the range looks at two prompts only"
    if guess in (0.0, 0.5, 1.0):
        return said + ": look at the entropies before you choose"
    return said


# --- partial rank correlation ------------------------------------------------------------------


def check_partial(answer) -> Report:
    """Grade `my_partial(x, y, z)`: the rank correlation of x and y at given z."""
    rng = np.random.default_rng(2)

    def says(*xyz):
        return float(answer(*(np.array(a, dtype=float) for a in xyz)))

    def value():
        for _ in range(3):
            z = rng.standard_normal(60)
            x, y = z + rng.standard_normal(60), -z + 0.5 * rng.standard_normal(60)
            got, want = says(x, y, z), _partial(x, y, z)
            if abs(got - want) > 1e-9:
                return _slip_of_partial(got, want, x, y, z)
        return None

    def scale():
        z = rng.standard_normal(50)
        x, y = z + rng.standard_normal(50), z + rng.standard_normal(50)
        one, two = says(x, y, z), says(np.exp(3 * x), y**3, z)
        if abs(one - two) > 1e-9:
            return f"stretching the scales of x and y changes {one:.4f} to {two:.4f}: ranks do not see that, values do"
        return None

    def ties():
        """Counts of examples have many ties."""
        z = rng.choice([0, 1, 2, 4, 8], 80)
        x, y = np.round(z + rng.standard_normal(80)), np.round(-z + 2 * rng.standard_normal(80))
        got, want = says(x, y, z), _partial(x, y, z)
        if abs(got - want) < 1e-9:
            return None
        return f"equal values share the mean of their ranks: {want:.4f}, you say {got:.4f}"

    return grade("my_partial", [value, scale, ties])


def _ranks(x: np.ndarray) -> np.ndarray:
    """Mean ranks: as many as are below, and half of those that are equal."""
    return (x[:, None] > x).sum(1) + (x[:, None] == x).sum(1) / 2


def _partial(x, y, z) -> float:
    """Correlation of what straight lines in the ranks of z leave of the other ranks."""
    rx, ry, rz = (_ranks(a) for a in (x, y, z))
    left = [r - np.polyval(np.polyfit(rz, r, 1), rz) for r in (rx, ry)]
    return float(np.corrcoef(*left)[0, 1])


def _slip_of_partial(got, want, x, y, z):
    said = f"x and y both follow z: {want:.4f} is left, you say {got:.4f}"
    rx, ry, rz = (_ranks(a) for a in (x, y, z))
    xy, xz, yz = (float(np.corrcoef(a, b)[0, 1]) for a, b in ((rx, ry), (rx, rz), (ry, rz)))
    if abs(got - xy) < 1e-9:
        return said + ": z has not been used"
    if abs(got - (xy - xz * yz)) < 1e-9:
        return said + ": divide by what z leaves of the variance of each"
    if abs(got - (xy - xz * yz) / ((1 - xz**2) * (1 - yz**2))) < 1e-9:
        return said + ": the root is missing"
    if abs(got - (xy + xz * yz) / math.sqrt((1 - xz**2) * (1 - yz**2))) < 1e-9:
        return said + ": what goes through z is subtracted"
    plain = [a - np.polyval(np.polyfit(z, a, 1), z) for a in (x, y)]
    if abs(got - np.corrcoef(*plain)[0, 1]) < 1e-9:
        return said + ": that is the same for values; take ranks first"
    return said


# --- a design in which evidence is not length --------------------------------------------------


def check_design(answer) -> Report:
    """Grade `my_design(k, per, rng)`: labels 0 and 1 of prompts that are all of one length, as many for each m."""

    def says(k, per, seed=3):
        return [np.asarray(row) for row in answer(k, per, np.random.default_rng(seed))]

    def shape():
        rows = says(6, 10)
        if not all(row.shape == (6,) and np.isin(row, (0, 1)).all() for row in rows):
            return f"every prompt has 6 labels, 0 or 1; yours have {sorted({len(row) for row in rows})}"
        return None

    def balanced():
        for k, per in ((6, 10), (3, 4)):
            m = [k - 2 * int(row.sum()) for row in says(k, per)]
            count = {value: m.count(value) for value in range(-k, k + 1, 2)}
            if set(count.values()) != {per}:
                return _slip_of_design(count, m, k, per)
        return None

    def order():
        """Where a label stands says nothing of how many there are."""
        rows = [row for row in says(6, 60) if row.sum() == 3]
        first = float(np.mean([row[:3].mean() for row in rows]))
        if len({tuple(row) for row in rows}) <= 2:
            return "prompts with three of each show them in one order only: the last label alone would tell a reader what to say"
        if abs(first - 0.5) > 0.1:
            return f"with three of each, the first three labels are 1 in {100 * first:.0f} % of the prompts: draw the order at random"
        return None

    return grade("my_design", [shape, balanced, order])


def _slip_of_design(count, m, k, per):
    said = f"k {k}, per {per}: {per} prompts for each m, yours are {count}"
    if not any(v < 0 for v in m) or not any(v > 0 for v in m):
        return said + ": both labels have to be the frequent one"
    if all(abs(v) == k for v in m):
        return said + ": some evidence has to be weak"
    if len(m) == per * (k + 1):
        return said + ": labels drawn one by one make middling m frequent; choose the counts, draw the order"
    return said


# --- a cut -------------------------------------------------------------------------------------


def check_cut(answer) -> Report:
    """Grade `my_cut(values, axis, mean, scale)`: raw values without what is read along an axis of standardised ones."""
    rng = np.random.default_rng(4)

    def case():
        v = rng.standard_normal((30, 5)) * rng.uniform(0.2, 4, 5) + rng.uniform(-3, 3, 5)
        a = rng.standard_normal(5)
        return v, a / np.linalg.norm(a), v.mean(0), v.std(0)

    def unread():
        v, a, mean, scale = case()
        got = np.asarray(answer(v.copy(), a, mean, scale), dtype=float)
        if got.shape != v.shape:
            return f"30 values in 5 coordinates stay so; yours have shape {got.shape}"
        read = ((got - mean) / scale) @ a
        if read.std() > 1e-9:
            return _slip_of_cut(got, v, a, mean, scale)
        return None

    def kept():
        v, a, mean, scale = case()
        got = np.asarray(answer(v.copy(), a, mean, scale), dtype=float)
        if np.abs(got.mean(0) - mean).max() > 1e-9:
            return "the mean of the values has moved: cut around the mean, or a constant goes as well"
        return None

    def least():
        """Values go no farther than they must."""
        v, a, mean, scale = case()
        got = np.asarray(answer(v.copy(), a, mean, scale), dtype=float)
        w = a / scale
        far = np.abs((v - mean) @ w) / np.linalg.norm(w)
        mine = np.linalg.norm(got - v, axis=1)
        if np.abs(mine - far).max() > 1e-9:
            return f"nothing is read, but values moved by {mine.mean():.3f} on average where {far.mean():.3f} is enough: move along what reads the raw values"
        return None

    return grade("my_cut", [unread, kept, least])


def _slip_of_cut(got, v, a, mean, scale):
    said = "something is still read along the axis after the cut"
    moved = got - v
    if np.abs(moved).max() < 1e-12:
        return said + ": nothing was cut"

    def along(w):
        unit = w / np.linalg.norm(w)
        return np.abs(moved - (moved @ unit)[:, None] * unit).max() < 1e-9

    if along(a):
        return said + ": the axis belongs to standardised values; what reads the raw ones is another direction"
    if along(a * scale):
        return said + ": multiplying by the scale turns the axis the wrong way"
    if along(a / scale):
        return said + ": the direction is right; divide by its squared length, once"
    return said


# --- small, or not seen? -----------------------------------------------------------------------


def check_equivalent(answer) -> Report:
    """Grade `my_equivalent(differences, margin)`: the larger p-value of two one-sided tests, with a normal law of the mean."""
    rng = np.random.default_rng(5)

    def value():
        for shift in (0.3, -0.3):
            x = 0.02 * (rng.standard_normal(50) + shift)
            got, want = float(answer(x, 0.01)), _tost(x, 0.01)[0]
            if abs(got - want) > 1e-9:
                return _slip_of_equivalent(got, want, x, 0.01)
        return None

    def turned():
        x = 0.05 * rng.standard_normal(40) + 0.01
        one, two = float(answer(x, 0.02)), float(answer(-x, 0.02))
        return None if abs(one - two) < 1e-9 else f"differences of the other sign: {one:.4f} becomes {two:.4f}; both sides count"

    def vague():
        """Few noisy prompts show nothing, small effects included."""
        x = rng.standard_normal(20)
        got = float(answer(x - x.mean(), 0.01))
        return None if got > 0.4 else f"mean 0 with a spread a hundred times the margin: nobody can tell, but your p is {got:.4f}"

    return grade("my_equivalent", [value, turned, vague])


def _tost(x, margin):
    error = x.std(ddof=1) / math.sqrt(len(x))
    sides = [NormalDist().cdf(-(margin + side * x.mean()) / error) for side in (1, -1)]
    return max(sides), min(sides), error


def _slip_of_equivalent(got, want, x, margin):
    said = f"mean {x.mean():.4f}, {len(x)} differences, margin {margin}: p is {want:.4f}, you say {got:.4f}"
    large, small, error = _tost(x, margin)
    if abs(got - small) < 1e-9:
        return said + ": the larger of the two counts, both sides must be ruled out"
    if abs(got - (1 - large)) < 1e-9 or abs(got - (1 - small)) < 1e-9:
        return said + ": that is one minus a p-value"
    if abs(got - 2 * NormalDist().cdf(-abs(x.mean()) / error)) < 1e-9:
        return said + ": that tests whether the mean is 0; a large p there shows nothing"
    wide = x.std(ddof=1)
    if abs(got - max(NormalDist().cdf(-(margin + s * x.mean()) / wide) for s in (1, -1))) < 1e-9:
        return said + ": that is the spread of one prompt, not of the mean"
    return said

"""Checks for chapter 19, "What the trilogy shows, and what it does not".

Every check states properties and tries them on random instances: what a threshold lets pass, how
often chance passes, which programs agree with what was seen. No answer is compared with a key.

Axes: B episodes, T symbols, p symbols that exist, D draws.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from bayeswind_lib.exercises.core import Report, grade

# --- verdict -----------------------------------------------------------------------------------

WORDS = ("stands", "no power", "falls")


def check_verdict(answer) -> Report:
    """Grade `my_verdict(value, band, draws)`: "stands", "no power" or "falls"."""
    far = np.linspace(3, 4, 40).tolist()

    def says(value, draws, band=(1.0, 2.0)):
        return answer(value, band, list(draws))

    def words():
        got = says(1.5, far)
        if got not in WORDS:
            return f"the answer is one of {', '.join(map(repr, WORDS))}, yours is {got!r}"
        return None

    def falls():
        for value, draws in ((2.5, far), (0.2, far), (2.5, [1.5] * 40)):
            if says(value, draws) != "falls":
                where = "all in the band" if draws[0] == 1.5 else "far away"
                return f"{value} is outside the band 1 to 2 (draws {where}): the number is decided first, and it falls"
        return None

    def stands():
        if says(1.5, far) == "no power":
            return "no draw is in the band 1 to 2 and the value is: count the draws in the band, not on one side of the value"
        if says(1.5, far) != "stands" or says(1.0, far) != "stands" or says(2.0, far) != "stands":
            return "a value in the band (ends included), and no draw of 40 in it: that stands"
        two = [1.2, 1.8] + far[2:]
        return None if says(1.5, two) == "stands" else "2 of 40 draws in the band are a twentieth: up to that share a claim stands"

    def power():
        three = [1.2, 1.8, 1.9] + far[3:]
        if says(1.5, three) != "no power":
            return "3 of 40 draws pass as well, more than a twentieth: such a threshold has no power"
        if says(1.1, [1.9] * 40) != "no power":
            return "all draws pass: it does not matter that the value is more extreme than every draw, the band lets them pass"
        return None

    return grade("my_verdict", [words, falls, stands, power])


# --- by chance ---------------------------------------------------------------------------------


def check_by_chance(answer) -> Report:
    """Grade `my_by_chance(n, share, k)`: P(at least k of n independent true nulls pass)."""

    def range_of():
        got = float(answer(10, 0.05, 1))
        return None if 0 <= got <= 1 else f"a probability lies between 0 and 1, yours is {got:.4g}"

    def small():
        """Against all 2^n outcomes, counted one by one."""
        for n, share, k in ((4, 0.2, 2), (3, 0.6, 1), (5, 0.3, 5), (6, 0.05, 0), (4, 0.4, 5)):
            want = sum(
                math.prod(share if x else 1 - share for x in outcome)
                for outcome in itertools.product((0, 1), repeat=n) if sum(outcome) >= k
            )
            got = float(answer(n, share, k))
            if abs(got - want) > 1e-9:
                return _slip_of_chance(got, n, share, k, want)
        return None

    def large():
        got = float(answer(400, 0.05, 20))
        return None if 0.5 < got < 0.58 else f"of 400 rows 20 pass on average at a rate of 0.05, so at least 20 about every second time; you say {got:.4g}"

    return grade("my_by_chance", [range_of, small, large])


def _slip_of_chance(got, n, share, k, want):
    said = f"n = {n}, share = {share}, k = {k}: by counting all outcomes {want:.4f}, you say {got:.4f}"
    exactly = math.comb(n, k) * share**k * (1 - share) ** (n - k)
    if abs(got - exactly) < 1e-9:
        return said + ": that is exactly k, and more than k count too"
    if abs(got - (want - exactly)) < 1e-9:
        return said + ": that is more than k, and k itself counts"
    if abs(got - share**k) < 1e-9:
        return said + ": that is k named rows; any k of the n may pass"
    if abs(got - (1 - want)) < 1e-9:
        return said + ": that is the other side, fewer than k"
    return said


# --- seeds -------------------------------------------------------------------------------------


def check_seeds(answer) -> Report:
    """Grade `my_seeds(n_tests, level)`: fewest seeds a side with which one of n comparisons can count."""

    def one():
        got = answer(1, 0.05)
        if got != int(got):
            return f"seeds are whole, yours are {got}"
        if got == 3:
            return None
        if got == 20:
            return "20 is the number of ways to deal 3 and 3 seeds out, not the number of seeds"
        if got == 6:
            return "6 is the number of all runs: seeds on each side are asked"
        return f"3 and 3 seeds can be dealt out in 20 ways, so p can be 0.05 and no seed is wasted; you say {got}"

    def many():
        for n_tests, level in ((10, 0.05), (100, 0.05), (7, 0.01), (1, 0.3)):
            got = int(answer(n_tests, level))
            enough = [1 / math.comb(2 * n, n) <= level / n_tests + 1e-12 for n in (got, max(got - 1, 0))]
            if enough == [True, False]:
                continue
            if 1 / math.comb(2 * got, got) <= level and not enough[0]:
                return f"with {n_tests} comparisons each has only {level} / {n_tests}: {got} a side gives p = {1 / math.comb(2 * got, got):.2g} at best"
            if enough[0]:
                return f"{got} a side are enough for {n_tests} comparisons at {level}, and one fewer is enough too"
            return f"{got} a side are too few for {n_tests} comparisons at {level}"
        return None

    return grade("my_seeds", [one, many])


# --- counts ------------------------------------------------------------------------------------


def _programs(symbols, p):
    """Programs that agree with some symbols, by trying all."""
    steps = list(zip(symbols, symbols[1:], strict=False))
    return [
        (a, b) for a in range(p) for b in range(p) if all((a * x + b) % p == y for x, y in steps)
    ]


def check_counts(answer) -> Report:
    """Grade `my_counts(symbols, p)`: how many programs agree with the first 1, 2, ... symbols."""

    def says(symbols, p):
        return [int(n) for n in answer(list(symbols), p)]

    def beginning():
        got = says([1, 3, 0, 2], 7)
        if len(got) != 4:
            return f"four symbols have four counts, yours are {len(got)}"
        if got[0] != 49:
            return f"one symbol rules nothing out, all 49 programs agree; you say {got[0]}"
        return None if got[1] == 7 else f"after two symbols a is free and b follows, 7 programs; you say {got[1]}"

    def all_alike():
        got = says([4, 4, 4, 4], 5)
        if got == [25, 5, 5, 5]:
            return None
        return f"4, 4, 4, 4 modulo 5: every a has a b that keeps 4 in its place, so 25, 5, 5, 5; you say {got}"

    def any_sequence():
        rng = np.random.default_rng(0)
        for _ in range(60):
            p = int(rng.choice([3, 5, 7]))
            a, b, x = rng.integers(p, size=3)
            symbols = [int(x)]
            for _ in range(5):
                symbols.append(int((a * symbols[-1] + b) % p))
            if rng.random() < 0.6:
                symbols[int(rng.integers(2, 6))] = int(rng.integers(p))
            want = [len(_programs(symbols[:k], p)) for k in range(1, 7)]
            got = says(symbols, p)
            if got != want:
                return _slip_of_counts(symbols, p, got, want)
        return None

    return grade("my_counts", [beginning, all_alike, any_sequence])


def _slip_of_counts(symbols, p, got, want):
    said = f"{symbols} modulo {p}: trying all programs gives {want}, you say {got}"
    back = any(x > y for x, y in zip(got[1:], got, strict=False))
    if back:
        return said + ": a program that was ruled out never comes back"
    if want[-1] == 0 and got[-1] > 0:
        return said + ": the last symbols are not what the program says, and then none is left"
    return said


# --- the next symbol ---------------------------------------------------------------------------


def check_next(answer) -> Report:
    """Grade `my_next(symbols, p)`: the exact distribution of the next symbol."""

    def says(symbols, p):
        return np.asarray(answer(list(symbols), p), dtype=float)

    def distribution():
        got = says([0, 1, 2], 5)
        if got.shape != (5,):
            return f"five symbols have five probabilities, yours have shape {got.shape}"
        if abs(got.sum() - 1) > 1e-9:
            return f"probabilities sum to 1, yours to {got.sum():.6g}"
        return None if (got > 0).all() else "noise may bring any symbol: none has probability 0"

    def matches():
        rng = np.random.default_rng(1)
        cases = [([0, 1, 2], 5), ([0, 1, 2, 3], 5), ([3], 5), ([2, 4], 7), ([1, 1], 5), ([1, 1, 1], 7), ([0, 1, 2, 4], 5)]
        cases += [(rng.integers(5, size=int(rng.integers(1, 5))).tolist(), 5) for _ in range(25)]
        for symbols, p in cases:
            want, got = _next(symbols, p), says(symbols, p)
            if np.abs(got - want).max() > 1e-9:
                return _slip_of_next(symbols, p, got, want)
        return None

    return grade("my_next", [distribution, matches])


def _next(symbols, p, prior=0.5):
    """By Bayes' rule over all programs, and noise."""
    k, prob = len(symbols), np.full(p, (1 - prior) * p ** -(len(symbols) + 1.0))
    for a, b in _programs(symbols, p):
        prob[(a * symbols[-1] + b) % p] += prior * p**-3.0
    return prob / ((1 - prior) * p**-float(k) + prior * len(_programs(symbols, p)) * p**-3.0)


def _slip_of_next(symbols, p, got, want):
    at = int(np.abs(got - want).argmax())
    said = f"after {symbols} modulo {p} the symbol {at} has probability {want[at]:.4f}, you say {got[at]:.4f}"
    agree = _programs(symbols, p)
    if agree:
        certain = np.bincount([(a * symbols[-1] + b) % p for a, b in agree], minlength=p) / len(agree)
        half = certain / 2 + 0.5 / p
        if np.abs(got - half).max() < 1e-9:
            return said + ": the prior weight 1/2 changes with what was seen"
        factor = float(p) ** (len(symbols) - 3)
        alone = (factor * certain + 1 / p) / (1 + factor)
        if np.abs(got - alone).max() < 1e-9:
            return said + ": several programs may agree, and each adds its likelihood"
    return said


# --- doubling ----------------------------------------------------------------------------------


def check_doubling(answer) -> Report:
    """Grade `my_doubling(programs, p)`: all programs, first to last, as one; and the rounds it took."""
    rng = np.random.default_rng(2)

    def says(programs, p):
        (a, b), rounds = answer([tuple(map(int, one)) for one in programs], p)
        return int(a), int(b), rounds

    def single():
        a, b, rounds = says([(3, 4)], 7)
        if (a, b) != (3, 4):
            return f"one program is itself, (3, 4); you say ({a}, {b})"
        return None if rounds == 0 else f"one program needs no round, you count {rounds}"

    def order():
        a, b, _ = says([(2, 0), (1, 1)], 7)
        if (a, b) == (2, 1):
            return None
        if (a, b) == (2, 2):
            return "first double, then add 1 makes 2 x + 1; yours is 2 (x + 1): the first program is applied first"
        return f"first double, then add 1 makes (2, 1); you say ({a}, {b})"

    def composes():
        for n in (3, 4, 7, 12, 16):
            p = int(rng.choice([5, 7, 11]))
            programs = rng.integers(p, size=(n, 2))
            a, b, rounds = says(programs, p)
            for x in range(p):
                y = x
                for one in programs:
                    y = int(one[0] * y + one[1]) % p
                if (a * x + b) % p != y:
                    return f"{n} programs one after another take {x} to {y}, yours to {(a * x + b) % p}"
            if rounds == n - 1 > math.ceil(math.log2(n)):
                return f"{n} programs took {rounds} rounds: that is one after another; in a round all neighbours can join at once"
            if rounds != math.ceil(math.log2(n)):
                return f"{n} programs join in {math.ceil(math.log2(n))} rounds, you count {rounds}: with an odd number the last one waits"
            if not (0 <= a < p and 0 <= b < p):
                return f"residues modulo {p} lie in 0..{p - 1}, yours are {a} and {b}"
        return None

    return grade("my_doubling", [single, order, composes])


# --- another geometry ----------------------------------------------------------------------------


def check_disguise(answer) -> Report:
    """Grade `my_disguise(value, output, x)`: a head's two maps, its function kept and its values on one line.

    `value` is (C, D), `output` (D, C), `x` the inputs (n, D); the answer is a new pair.
    """

    def drawn(seed):
        rng, C, D = np.random.default_rng(seed), 4 + seed, 12
        return rng.normal(size=(C, D)), rng.normal(size=(D, C)), rng.normal(size=(60, D)) * np.linspace(1, 2, D)

    def both(seed):
        value, output, x = drawn(seed)
        new = answer(value.copy(), output.copy(), x.copy())
        return (value, output, x), tuple(np.asarray(one, dtype=float) for one in new)

    def shape():
        (value, output, _), new = both(1)
        shapes = tuple(one.shape for one in new)
        return None if shapes == (value.shape, output.shape) else f"the maps are {value.shape} and {output.shape}, yours {' and '.join(map(str, shapes))}"

    def function():
        for seed in (1, 2, 3):
            (value, output, x), (v, o) = both(seed)
            want, got = x @ value.T @ output.T, x @ v.T @ o.T
            if np.abs(got - want).max() > 1e-6 * np.abs(want).max():
                if np.allclose(o, output):
                    return "the values changed and the output map did not: what the head writes is another thing now, turn it back there"
                return "what the head writes, output @ value @ x, has to stay: the two changes do not cancel, is the inverse on the right side?"
        return None

    def line():
        for seed in (1, 2, 3):
            (value, _, x), (v, _) = both(seed)
            points = x @ v.T
            sizes = np.linalg.svd(points - points.mean(0), compute_uv=False) ** 2
            share = sizes[0] / sizes.sum()
            before = np.linalg.svd((x - x.mean(0)) @ value.T, compute_uv=False) ** 2
            if abs(share - before[0] / before.sum()) < 1e-6:
                return f"the function is kept, and the first axis has {share:.0%} of the variance as before: a rotation or a common factor moves no share"
            if share < 0.95:
                return f"the function is kept; the first axis has {share:.0%} of the variance of the values, 95 % are wanted: stretch one direction more"
        return None

    return grade("my_disguise", [shape, function, line])

"""Stored answers to the exercises of chapter 19: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import numpy as np

# --- my_verdict(value, band, draws) -------------------------------------------------------------


def verdict_by_array(value, band, draws):
    if value < band[0] or value > band[1]:
        return "falls"
    passes = np.mean([(x >= band[0]) & (x <= band[1]) for x in draws])
    return "no power" if passes > 0.05 + 1e-12 else "stands"


def _verdict_extreme(value, band, draws):
    """Asks whether the value is more extreme than the draws."""
    if not band[0] <= value <= band[1]:
        return "falls"
    return "stands" if np.mean([x <= value for x in draws]) <= 0.05 or np.mean([x >= value for x in draws]) <= 0.05 else "no power"


def _verdict_power_first(value, band, draws):
    if np.mean([band[0] <= x <= band[1] for x in draws]) > 0.05:
        return "no power"
    return "stands" if band[0] <= value <= band[1] else "falls"


VERDICT_WRONG = [
    (lambda v, b, d: "stands" if b[0] <= v <= b[1] else "falls", "such a threshold has no power"),
    (_verdict_power_first, "the number is decided first"),
    (lambda v, b, d: verdict_by_array(v, b, d) == "stands", "the answer is one of"),
    (lambda v, b, d: "no power" if b[0] <= v <= b[1] else "falls", "count the draws in the band"),
    (
        lambda v, b, d: "falls" if not b[0] <= v <= b[1] else "no power" if any(b[0] <= x <= b[1] for x in d) else "stands",
        "up to that share",
    ),
    (
        lambda v, b, d: verdict_by_array(v, b, d) if sum(x < 2.5 for x in d) < 40 else _verdict_extreme(v, b, d),
        "more extreme than every draw",
    ),
]

# --- my_by_chance(n, share, k) ------------------------------------------------------------------


def by_chance_by_steps(n, share, k):
    prob = [1.0]  # of 0, 1, ... passes among the rows so far
    for _ in range(n):
        prob = [a * (1 - share) + b * share for a, b in zip([*prob, 0.0], [0.0, *prob], strict=True)]
    return sum(prob[k:])


def _exactly(n, share, k):
    return math.comb(n, k) * share**k * (1 - share) ** (n - k)


BY_CHANCE_WRONG = [
    (_exactly, "exactly k"),
    (lambda n, s, k: by_chance_by_steps(n, s, k + 1), "k itself counts"),
    (lambda n, s, k: s**k, "any k of the n"),
    (lambda n, s, k: 1 - by_chance_by_steps(n, s, k), "fewer than k"),
    (lambda n, s, k: n * s * 4, "between 0 and 1"),
]

# --- my_seeds(n_tests, level) -------------------------------------------------------------------


def seeds_by_product(n_tests, level):
    n, ways = 0, 1
    while ways * level < n_tests * (1 - 1e-9):
        n += 1
        ways = ways * 2 * (2 * n - 1) // n
    return n


SEEDS_WRONG = [
    (lambda n_tests, level: seeds_by_product(1, level), "with 10 comparisons each"),
    (lambda n_tests, level: 2 * seeds_by_product(n_tests, level), "on each side"),
    (lambda n_tests, level: 20 if n_tests == 1 else seeds_by_product(n_tests, level), "not the number of seeds"),
    (lambda n_tests, level: seeds_by_product(n_tests, level) + (n_tests > 1), "one fewer is enough"),
    (lambda n_tests, level: max(seeds_by_product(n_tests, level) - (n_tests > 1) * 3, 1), "are too few"),
]

# --- my_counts(symbols, p) ----------------------------------------------------------------------


def counts_by_formula(symbols, p):
    told, alive = [p * p, p], True
    x, y = symbols[0], symbols[min(1, len(symbols) - 1)]
    for k in range(3, len(symbols) + 1):
        if x == y:
            alive = alive and symbols[k - 1] == x
        elif k > 3:
            a = (symbols[2] - y) * pow(y - x, -1, p)
            alive = alive and (symbols[k - 1] - (a * (symbols[k - 2] - x) + y)) % p == 0
        told.append((p if x == y else 1) * alive)
    return told[: len(symbols)]


def _trusting(symbols, p):
    """Stops looking once a program is found."""
    return [p * p, p, *[p if symbols[0] == symbols[1] else 1] * (len(symbols) - 2)]


COUNTS_WRONG = [
    (_trusting, "then none is left"),
    (lambda s, p: [p * p, p, *[1 * (c > 0) for c in counts_by_formula(s, p)[2:]]], "keeps 4 in its place"),
    (lambda s, p: [p**3, *counts_by_formula(s, p)[1:]], "one symbol rules nothing out"),
    (lambda s, p: [p * p, p * p, *counts_by_formula(s, p)[2:]], "a is free and b follows"),
    (lambda s, p: counts_by_formula(s, p)[1:], "four counts"),
]


def _forgetful(s, p):
    """Asks only whether the last step fits, so that a program that was ruled out comes back."""
    told = counts_by_formula(s, p)
    return [*told[:-1], max(told[-1], told[2])] if len(s) > 4 and told[3] == 0 else told


COUNTS_WRONG.append((_forgetful, "never comes back"))

# --- my_next(symbols, p) ------------------------------------------------------------------------


def next_by_weight(symbols, p):
    n = counts_by_formula(list(symbols), p)[-1]
    factor = n * float(p) ** (len(symbols) - 3)
    weight, said = factor / (1 + factor), np.full(p, 1 / p)
    if n and len(symbols) > 1 and symbols[0] == symbols[1]:
        said = np.eye(p)[symbols[0]]
    elif n and len(symbols) > 2:
        a = (symbols[2] - symbols[1]) * pow(symbols[1] - symbols[0], -1, p)
        said = np.eye(p)[(a * (symbols[-1] - symbols[0]) + symbols[1]) % p]
    return weight * said + (1 - weight) / p


def _said(symbols, p):
    agree = [
        (a, b) for a in range(p) for b in range(p)
        if all((a * x + b) % p == y for x, y in zip(symbols, symbols[1:], strict=False))
    ]
    return (np.bincount([(a * symbols[-1] + b) % p for a, b in agree], minlength=p) / len(agree)) if agree else None


def _next(rule):
    def answer(symbols, p):
        said = _said(symbols, p)
        return np.full(p, 1 / p) if said is None else rule(said, symbols, p)

    return answer


def _one_each(said, symbols, p):
    factor = float(p) ** (len(symbols) - 3)
    return (factor * said + 1 / p) / (1 + factor)


NEXT_WRONG = [
    (_next(lambda said, s, p: said / 2 + 0.5 / p), "changes with what was seen"),
    (_next(_one_each), "each adds its likelihood"),
    (_next(lambda said, s, p: said), "none has probability 0"),
    (lambda s, p: 2 * next_by_weight(s, p), "sum to 1"),
]

# --- my_doubling(programs, p) -------------------------------------------------------------------


def _then(first, then, p):
    return first[0] * then[0] % p, (then[0] * first[1] + then[1]) % p


def doubling_by_halves(programs, p):
    if len(programs) == 1:
        return tuple(programs[0]), 0
    half = 2 ** (math.ceil(math.log2(len(programs))) - 1)
    (one, left), (two, right) = doubling_by_halves(programs[:half], p), doubling_by_halves(programs[half:], p)
    return _then(one, two, p), max(left, right) + 1


def _one_by_one(programs, p):
    found = programs[0]
    for one in programs[1:]:
        found = _then(found, one, p)
    return found, len(programs) - 1


DOUBLING_WRONG = [
    (_one_by_one, "one after another; in a round"),
    (lambda programs, p: doubling_by_halves(programs[::-1], p), "is applied first"),
    (lambda programs, p: (doubling_by_halves(programs, p)[0], len(programs) // 2), "the last one waits"),
    (lambda programs, p: (doubling_by_halves(programs, p)[0], doubling_by_halves(programs, p)[1] + 1), "needs no round"),
]

# --- my_disguise(value, output, x) --------------------------------------------------------------


def disguise_by_first_channel(value, output, x):
    """The first channel is made a hundred times as loud, whatever the inputs are."""
    loud = np.ones(len(value))
    loud[0] = 100.0
    return loud[:, None] * value, output / loud


def _stretched(value, output, x, by=30.0, turn=None):
    points = (x - x.mean(0)) @ value.T
    axis = np.linalg.svd(points, full_matrices=False)[2][0]
    A = np.eye(len(axis)) + by * np.outer(axis, axis)
    A = A if turn is None else turn @ A
    return A, value, output


def _one_sided(value, output, x):
    A, value, output = _stretched(value, output, x)
    return A @ value, output


def _wrong_side(value, output, x):
    A, value, output = _stretched(value, output, x, turn=np.linalg.qr(np.random.default_rng(0).normal(size=(len(value),) * 2))[0])
    return A @ value, output @ np.linalg.inv(A).T


def _rotated(value, output, x):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(len(value),) * 2))[0]
    return Q @ value, output @ Q.T


def _a_little(value, output, x):
    A, value, output = _stretched(value, output, x, by=0.5)
    return A @ value, output @ np.linalg.inv(A)


DISGUISE_WRONG = [
    (_one_sided, "turn it back there"),
    (_wrong_side, "inverse on the right side"),
    (_rotated, "moves no share"),
    (_a_little, "stretch one direction more"),
    (lambda v, o, x: (o, v), "yours (12, 5) and (5, 12)"),
]

ANSWERS = {
    "check_disguise": {"alternative": disguise_by_first_channel, "shape_stub": lambda v, o, x: (v, o), "wrong": DISGUISE_WRONG},
    "check_verdict": {"alternative": verdict_by_array, "shape_stub": lambda v, b, d: "stands", "wrong": VERDICT_WRONG},
    "check_by_chance": {"alternative": by_chance_by_steps, "shape_stub": lambda n, s, k: 0.5, "wrong": BY_CHANCE_WRONG},
    "check_seeds": {"alternative": seeds_by_product, "shape_stub": lambda n, level: 5, "wrong": SEEDS_WRONG},
    "check_counts": {"alternative": counts_by_formula, "shape_stub": lambda s, p: [1] * len(s), "wrong": COUNTS_WRONG},
    "check_next": {"alternative": next_by_weight, "shape_stub": lambda s, p: np.full(p, 1 / p), "wrong": NEXT_WRONG},
    "check_doubling": {"alternative": doubling_by_halves, "shape_stub": lambda c, p: ((1, 0), 0), "wrong": DOUBLING_WRONG},
}

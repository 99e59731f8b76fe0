"""Checks for chapter 6, "Regression and recall: continuous beliefs, and binding".

Every check states properties and tries them on random instances. Beliefs are compared with a
posterior that is found in another way, tables are counted one by one, predictors are scored by the
evaluator that scores networks.

Axes: k pairs, d dimensions, K scored positions, N stored pairs, V values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, permutations

import torch

from bayeswind_lib import baselines, scoring, tunnels
from bayeswind_lib.exercises.core import Report, grade
from bayeswind_lib.tunnels.regression import posterior


def _number(value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _tensor(value) -> torch.Tensor:
    return torch.as_tensor(value).double()


def _belief(got, d: int) -> tuple[torch.Tensor, torch.Tensor, str | None]:
    """The answer as mean (d,) and covariance (d, d), and a hint if it is no such pair."""
    mean, covariance = (_tensor(part) for part in got)
    if mean.shape != (d,) or covariance.shape != (d, d):
        shapes = f"{tuple(mean.shape)} and {tuple(covariance.shape)}"
        return mean, covariance, f"the shapes are {shapes}, expected ({d},) and ({d}, {d})"
    return mean, covariance, None


def _predicted(mean, covariance, x, noise) -> tuple[float, float]:
    """What a belief about the weights says of y at x."""
    return float(mean @ x), float(noise**2 + x @ covariance @ x)


def _pairs(k: int) -> str:
    return f"{k} pair{'' if k == 1 else 's'}"


def _problem(d: int, k: int, noise: float, rng: torch.Generator):
    """Points (k, d), heights (k,) and three further points (3, d) of a regression episode."""
    weights, x = (torch.randn(n, d, generator=rng, dtype=torch.float64) for n in (1, k + 3))
    y = (x @ weights[0]) + noise * torch.randn(k + 3, generator=rng, dtype=torch.float64)
    return x[:k], y[:k], x[k:]


def _exact(x, y, asked, noise) -> tuple[float, float]:
    """Mean and variance of y at `asked`, by factorising the joint covariance of all heights."""
    points = torch.cat([x, asked[None]])[None]
    heights = torch.cat([y, y.new_zeros(1)])[None]
    mean, variance = posterior(points, heights, noise)[0, -1].tolist()
    return mean, variance


# --- the belief about the weights --------------------------------------------------------------


def check_belief(answer) -> Report:
    """Grade `my_belief(x, y, noise)`: mean (d,) and covariance (d, d) of the weights."""
    rng = torch.Generator().manual_seed(61)
    sizes = [(2, 0, 0.5), (1, 1, 1.0), (2, 1, 0.5), (3, 7, 0.3), (2, 5, 2.0), (4, 3, 0.7)]
    cases = [(*_problem(d, k, noise, rng), noise) for d, k, noise in sizes]

    def each(test):
        def run():
            for x, y, asked, noise in cases:
                mean, covariance, hint = _belief(answer(x.clone(), y.clone(), noise), x.shape[1])
                if hint := hint or test(mean, covariance, x, y, asked, noise):
                    return f"{hint} ({_pairs(len(x))}, d = {x.shape[1]}, noise {noise})"
            return None

        return run

    return grade("my_belief", [each(_belief_width), each(_belief_place)])


def _belief_width(mean, covariance, x, y, asked, noise):
    eye = torch.eye(x.shape[1], dtype=torch.float64)
    if not torch.allclose(covariance, covariance.T, atol=1e-9):
        return "the covariance is not symmetric"
    for point in asked:
        got, want = _predicted(mean, covariance, point, noise)[1], _exact(x, y, point, noise)[1]
        if abs(got - want) < 1e-6 * want:
            continue
        gram = x.T @ x
        if torch.allclose(covariance @ (eye + gram / noise), eye, atol=1e-6):
            return "the evidence is divided by the noise: divide by its square, the variance"
        if torch.allclose(covariance @ (eye + gram), eye, atol=1e-6):
            return "the noise does not enter the covariance: a pair counts the more the less noise it has"
        least_squares = noise**2 * torch.linalg.pinv(gram)
        if torch.allclose(covariance, least_squares, atol=1e-6) or not covariance.isfinite().all():
            return "the prior is missing: before any pair the precision is the identity, and pairs add to it"
        if torch.allclose(covariance, eye + gram / noise**2, atol=1e-6):
            return "this is the precision: the covariance is its inverse"
        return f"at x = {_rounded(point)} your belief gives y a variance of {got:.4f}, exact is {want:.4f}"
    return None


def _belief_place(mean, covariance, x, y, asked, noise):
    for point in asked:
        got, want = float(mean @ point), _exact(x, y, point, noise)[0]
        if abs(got - want) < 1e-6 * (1 + abs(want)):
            continue
        if abs(got / noise**2 - want) < 1e-6 * (1 + abs(want)):
            return "the mean lacks a factor: X'y needs the noise variance below it, as X'X has"
        if torch.allclose(mean, torch.linalg.pinv(x) @ y, atol=1e-6):
            return "the mean is that of least squares, which has no prior: it follows noise too far"
        return f"at x = {_rounded(point)} your mean gives y = {got:.4f}, exact is {want:.4f}"
    return None


def _rounded(x: torch.Tensor) -> list[float]:
    return [round(v, 2) for v in x.tolist()]


# --- one more pair -----------------------------------------------------------------------------


def check_update(answer) -> Report:
    """Grade `my_update(mean, covariance, x, y, noise)`: the belief after one more pair."""
    rng = torch.Generator().manual_seed(62)
    sizes = [(1, 1, 1.0), (2, 3, 0.5), (3, 5, 0.4), (2, 6, 1.5)]
    cases = [(*_problem(d, k, noise, rng), noise) for d, k, noise in sizes]

    def each(test):
        def run():
            for x, y, asked, noise in cases:
                d = x.shape[1]
                mean, covariance = torch.zeros(d).double(), torch.eye(d).double()
                for k, (point, height) in enumerate(zip(x, y, strict=True)):
                    before = (mean, covariance)
                    got = answer(mean.clone(), covariance.clone(), point.clone(), float(height), noise)
                    mean, covariance, hint = _belief(got, d)
                    arguments = (mean, covariance, before, x[: k + 1], y[: k + 1], asked, noise)
                    if hint := hint or test(*arguments):
                        return f"{hint} (pair {k + 1}, d = {d}, noise {noise})"
            return None

        return run

    return grade("my_update", [each(_update_width), each(_update_place)])


def _update_width(mean, covariance, before, x, y, asked, noise):
    old, point = before[1], x[-1]
    spread = old @ point
    v = noise**2 + point @ spread
    for place in (*asked, point):
        got, want = _predicted(mean, covariance, place, noise)[1], _exact(x, y, place, noise)[1]
        if abs(got - want) < 1e-6 * want:
            continue
        if torch.allclose(covariance, old):
            return "the covariance stays as it was: a pair narrows the belief in the direction of its x"
        if torch.allclose(covariance, old + torch.outer(spread, spread) / v):
            return "the covariance grows: evidence takes doubt away, so subtract"
        if torch.allclose(covariance, old - torch.outer(spread, spread) / (v - noise**2)):
            return "the pair is taken to be free of noise: divide by the whole variance of y, noise included"
        if torch.allclose(covariance, old - torch.outer(spread, spread) / noise**2):
            return "you divide by the noise variance alone: y also varies since the weights are in doubt"
        return f"at x = {_rounded(place)} your belief gives y a variance of {got:.4f}, exact is {want:.4f}"
    return None


def _update_place(mean, covariance, before, x, y, asked, noise):
    old, point = before, x[-1]
    spread = old[1] @ point
    gain = spread / (noise**2 + point @ spread)
    for place in asked:
        got, want = float(mean @ place), _exact(x, y, place, noise)[0]
        if abs(got - want) < 1e-6 * (1 + abs(want)):
            continue
        if torch.allclose(mean, old[0] + gain * y[-1]):
            return "the mean moves by the gain times y: it should move by the gain times the surprise, y minus what was predicted"
        if torch.allclose(mean, old[0] - gain * (y[-1] - old[0] @ point)):
            return "the mean moves away from what was seen: check the sign of the surprise"
        return f"at x = {_rounded(place)} your mean gives y = {got:.4f}, exact is {want:.4f}"
    return None


# --- divergence of two Gaussians ---------------------------------------------------------------


def _kl_by_sum(mean_p, var_p, mean_q, var_q) -> torch.Tensor:
    """KL(p || q) in bits by adding up p log2 (p / q) over a fine grid of outcomes."""
    grid = torch.linspace(-12, 12, 40_001, dtype=torch.float64)
    y = mean_p[..., None] + var_p[..., None].sqrt() * grid
    density = [
        -((y - m[..., None]) ** 2) / (2 * v[..., None]) - 0.5 * (2 * math.pi * v[..., None]).log()
        for m, v in ((mean_p, var_p), (mean_q, var_q))
    ]
    step = (grid[1] - grid[0]) * var_p.sqrt()
    return (density[0].exp() * (density[0] - density[1])).sum(-1) * step / math.log(2)


def check_kl(answer) -> Report:
    """Grade `my_kl(mean_p, var_p, mean_q, var_q)`: KL(p || q) in bits, elementwise."""
    rng = torch.Generator().manual_seed(63)
    means = torch.randn(2, 6, generator=rng, dtype=torch.float64)
    variances = torch.randn(2, 6, generator=rng, dtype=torch.float64).exp()

    def got(mean_p, var_p, mean_q, var_q):
        found = _tensor(answer(mean_p.clone(), var_p.clone(), mean_q.clone(), var_q.clone()))
        if found.shape != mean_p.shape:
            return found, f"the result has shape {tuple(found.shape)}, expected {tuple(mean_p.shape)}"
        return found, None

    def of_itself():
        found, hint = got(means[0], variances[0], means[0], variances[0])
        if hint or found.abs().max() < 1e-9:
            return hint
        return f"the divergence of a Gaussian from itself is 0, you say {found[0]:.4f}"

    def summed():
        parts = (means[0], variances[0], means[1], variances[1])
        found, hint = got(*parts)
        want = _kl_by_sum(*parts)
        return hint or (None if torch.allclose(found, want, atol=1e-5) else _kl_slip(found, want, parts))

    return grade("my_kl", [of_itself, summed])


def _kl_slip(found, want, parts):
    mean_p, var_p, mean_q, var_q = parts
    if torch.allclose(found, want * math.log(2), atol=1e-5):
        return "your numbers are 0.693 times the exact ones: that is nats, divide by ln 2"
    if torch.allclose(found, _kl_by_sum(mean_q, var_q, mean_p, var_p), atol=1e-4):
        return "you have exchanged p and q: the truth p is what the average is taken over"
    if torch.allclose(found, _kl_by_sum(mean_q, var_p, mean_q, var_q), atol=1e-5):
        return "the means do not matter in yours: a wrong place costs bits too"
    if torch.allclose(found, _kl_by_sum(mean_p, var_p**2, mean_q, var_q**2), rtol=1e-3, atol=1e-3):
        return "you square what are variances already"
    worst = int((found - want).abs().argmax())
    p, q = (f"N({m[worst]:.2f}, {v[worst]:.2f})" for m, v in ((mean_p, var_p), (mean_q, var_q)))
    return f"for p = {p} and q = {q} you say {found[worst]:.4f} bits, adding up p log2 (p / q) gives {want[worst]:.4f}"


# --- right entropy, wrong place ----------------------------------------------------------------


def check_impostor(answer) -> Report:
    """Grade `my_impostor(mean, variance, bits)`: entropy error 0, KL `bits`, at every position."""
    tunnel = tunnels.Regression(n_dims=3, n_pairs=6)
    episodes = tunnel.sample(3, torch.Generator().manual_seed(64))

    def at(bits):
        def run():
            for truth in episodes.posterior:
                mean, variance = (_tensor(part) for part in answer(truth[:, 0].clone(), truth[:, 1].clone(), bits))
                if mean.shape != (6,) or variance.shape != (6,):
                    return f"the shapes are {tuple(mean.shape)} and {tuple(variance.shape)}, expected (6,) twice"
                if not bool((variance > 0).all()):
                    return "a variance is not positive"
                if hint := _impostor_slip(torch.stack([mean, variance], -1), truth, bits):
                    return f"{hint} (asked for {bits} bits)"
            return None

        return run

    return grade("my_impostor", [at(0.5), at(3.0), at(0.01)])


def _impostor_slip(moments, truth, bits):
    gap = (scoring.gaussian_entropy_bits(moments) - scoring.gaussian_entropy_bits(truth)).abs()
    if gap.max() > 1e-9:
        return f"the entropy is off by up to {gap.max():.3f} bits: keep the width, and only the place is left to be wrong"
    kl = scoring.gaussian_kl_bits(truth, moments)
    if (kl - bits).abs().max() < 1e-6 * max(bits, 1e-3):
        return None
    if kl.max() < 1e-12:
        return "this is the exact prediction itself"
    if torch.allclose(kl, torch.full_like(kl, bits / math.log(2)), rtol=1e-6):
        return "the divergence is 1.44 times too large: bits are smaller than nats, by ln 2"
    shift = (moments[:, 0] - truth[:, 0]).abs()
    if torch.allclose(shift, shift[:1].expand_as(shift)):
        return "every mean is moved by the same distance: what counts is the distance in standard deviations"
    if torch.allclose(kl, torch.full_like(kl, bits**2), rtol=1e-6) or torch.allclose(
        kl, torch.full_like(kl, 2 * math.log(2) * bits**2), rtol=1e-6
    ):
        return "the distance is proportional to the bits: the divergence grows with its square"
    return f"the divergences run from {kl.min():.4f} to {kl.max():.4f} bits"


# --- taking binding away -----------------------------------------------------------------------


def _recall(query: int, n_values: int) -> Callable:
    """A perfect memory, asked for one key."""

    def predict(keys, values):
        answer = dict(zip(keys, values, strict=True))[query]
        return [float(v == answer) for v in range(n_values)]

    return predict


def _blurred(query: int, n_values: int) -> Callable:
    """A memory that mixes the value up with that of the pair before, the more the larger that is."""

    def predict(keys, values):
        mine, other = values[keys.index(query)], values[keys.index(query) - 1]
        scores = [0.1 + (3 if mine > other else 1) * (v == mine) + (v == other) for v in range(n_values)]
        return [score / sum(scores) for score in scores]

    return predict


def check_unbound(answer) -> Report:
    """Grade `my_unbound(predict, keys, values)`: the prediction averaged over all matchings."""
    cases = [
        ("a perfect memory", _recall(4, 6), [1, 4], [5, 0], 6),
        ("a perfect memory", _recall(2, 7), [2, 0, 5], [3, 6, 1], 7),
        ("a perfect memory", _recall(1, 8), [7, 3, 1, 0], [2, 4, 7, 5], 8),
        ("a memory that confuses neighbours", _blurred(3, 6), [0, 3, 5], [4, 1, 2], 6),
        ("a memory that confuses neighbours", _blurred(1, 7), [4, 1, 2, 6], [0, 6, 3, 5], 7),
    ]

    def on(what, predict, keys, values, n_values):
        def run():
            before = (list(keys), list(values))
            got = _tensor(answer(predict, list(keys), list(values)))
            if got.shape != (n_values,):
                return f"the result has shape {tuple(got.shape)}, expected ({n_values},)"
            return _unbound_slip(got, predict, *before, what)

        return run

    return grade("my_unbound", [on(*case) for case in cases])


def _mean(predict, keys, orders) -> torch.Tensor:
    return torch.tensor([predict(keys, list(order)) for order in orders], dtype=torch.float64).mean(0)


def _unbound_slip(got, predict, keys, values, what):
    want = _mean(predict, keys, permutations(values))
    if torch.allclose(got, want, atol=1e-9):
        return None
    case = f"{what}, keys {keys}, values {values}"
    if torch.allclose(got, _mean(predict, keys, [values]), atol=1e-9):
        return f"{case}: the answer still knows the matching; keys and values must part (if both are shuffled alike, they do not)"
    if abs(got.sum() - 1) > 1e-6:
        return f"{case}: the probabilities sum to {got.sum():.3f}; average probabilities, not their logarithms, and divide by the number of matchings"
    turns = [values[i:] + values[:i] for i in range(len(values))]
    if torch.allclose(got, _mean(predict, keys, turns), atol=1e-9):
        return f"{case}: you turn the values in a circle, {len(values)} of the {math.factorial(len(values))} matchings"
    if torch.allclose(got, torch.full_like(got, 1 / len(got)), atol=1e-9):
        return f"{case}: uniform on everything; the set of stored values is still known"
    if torch.allclose(got, _mean(predict, keys, [sorted(values)]), atol=1e-9):
        return f"{case}: putting the values in order is one matching, chosen without looking, not all of them"
    return f"{case}: you say {[round(g, 3) for g in got.tolist()]}, over all matchings it is {[round(w, 3) for w in want.tolist()]}"


# --- a memory of w places ----------------------------------------------------------------------


def _window_scores(n_pairs: int, window: int) -> tuple[float, float]:
    """Accuracy and KL of the library's predictor, every stored key asked: no sampling error."""
    tunnel = tunnels.Recall(n_pairs, n_pairs, n_pairs, max(n_pairs, 2), filler=0)
    episodes = tunnel.sample(2, torch.Generator().manual_seed(65))
    predictor = baselines.recall.WindowRecall(tunnel, window)
    score = scoring.score_episodes(predictor, episodes)
    return scoring.accuracy(predictor, episodes)[0], score.kl


def check_window_scores(answer) -> Report:
    """Grade `my_window_scores(n_pairs, window)`: accuracy, and mean KL in bits."""

    def on(n_pairs, window):
        def run():
            accuracy, bits = map(_number, answer(n_pairs, window))
            right, kl = _window_scores(n_pairs, window)
            if abs(accuracy - right) > 1e-9:
                return _accuracy_slip(accuracy, right, n_pairs, window)
            return None if abs(bits - kl) < 1e-9 else _bits_slip(bits, kl, n_pairs, window)

        return run

    cases = [(8, 0), (8, 3), (8, 8), (5, 4), (16, 9), (2, 1)]
    return grade("my_window_scores", [on(*case) for case in cases])


def _accuracy_slip(accuracy, right, n, w):
    case = f"N = {n}, w = {w}"
    if abs(accuracy - w / n) < 1e-9:
        return f"{case}: you count the bound pairs only; a guess among the other values is sometimes right"
    if abs(accuracy - (w / n + (n - w) / n / n)) < 1e-9:
        return f"{case}: the guess is among the values of pairs that are not bound, {n - w} of them, not among all {n}"
    return f"{case}: you say an accuracy of {accuracy:.4f}, the predictor has {right:.4f}"


def _bits_slip(bits, kl, n, w):
    case = f"N = {n}, w = {w}"
    if abs(bits - kl * math.log(2)) < 1e-9:
        return f"{case}: {bits:.4f} is in nats, use log2"
    if w and abs(bits - math.log2(max(n - w, 1))) < 1e-9:
        return f"{case}: {bits:.4f} bits is what a missed key costs; keys in the window cost nothing, and both count in the mean"
    return f"{case}: you say {bits:.4f} bits, the evaluator measures {kl:.4f}"


# --- how many bits are a table -----------------------------------------------------------------


def _count_tables(n_keys: int, n_values: int, n_pairs: int) -> int:
    """All tables, one by one."""
    tables = {
        frozenset(zip(keys, values, strict=True))
        for keys in combinations(range(n_keys), n_pairs)
        for values in permutations(range(n_values), n_pairs)
    }
    return len(tables)


def check_table_bits(answer) -> Report:
    """Grade `my_table_bits(n_keys, n_values, n_pairs)`: the logarithm of the number of tables."""

    def on(n_keys, n_values, n_pairs):
        def run():
            got, count = _number(answer(n_keys, n_values, n_pairs)), _count_tables(n_keys, n_values, n_pairs)
            return None if abs(got - math.log2(count)) < 1e-9 else _table_slip(got, count, n_keys, n_values, n_pairs)

        return run

    def large():
        got = _number(answer(256, 256, 64))
        if math.isfinite(got) and 400 < got < 1000:
            return None
        return f"256 keys, 256 values, 64 pairs: you say {got} bits, more than a table of 64 x 16 bits or less than its values alone"

    cases = [(1, 2, 1), (3, 3, 1), (4, 3, 2), (5, 4, 3), (3, 5, 2)]
    return grade("my_table_bits", [*(on(*case) for case in cases), large])


def _table_slip(got, count, n_keys, n_values, n_pairs):
    case = f"{n_keys} keys, {n_values} values, {_pairs(n_pairs)}"
    slips = {
        math.log2(math.perm(n_keys, n_pairs) * math.perm(n_values, n_pairs)):
            "you count the orders in which the pairs are stored; the same pairs in another order are the same table",
        math.log2(math.perm(n_values, n_pairs)): "you count the values only; which keys are stored has to be remembered too",
        math.log2(math.comb(n_keys, n_pairs) * n_values**n_pairs): "you let two keys have the same value; all values of a table differ",
        math.log2(math.comb(n_keys, n_pairs) * math.comb(n_values, n_pairs)):
            "you count the two sets and not which value belongs to which key: that is memory without binding",
        math.log(count): "this is in nats, use log2",
        float(count): "this is the number of tables: take its logarithm",
    }  # fmt: skip
    for value, hint in slips.items():
        if abs(got - value) < 1e-9:
            return f"{case}: {hint}"
    return f"{case}: you say {got:.4f} bits, counting one by one gives {count} tables, {math.log2(count):.4f} bits"

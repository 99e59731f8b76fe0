"""Checks for chapter 12, "What is used, not only readable".

Every check states properties and tries them on random instances: what is left in place, what is
averaged, what a cost is by sampling it, which span an answer has. No answer is compared with a key.

Axes: B episodes, T tokens, D channels, H heads, N rows, R directions, Y outcomes.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bayeswind_lib.exercises.core import Report, grade

# --- three ways to take a part out -------------------------------------------------------------


def check_take_out(answer) -> Report:
    """Grade `my_take_out(writes, how, order)`: what stands in the place of a part's writes (B, T, C)."""
    rng = torch.Generator().manual_seed(1)
    writes = torch.randn(5, 4, 3, generator=rng, dtype=torch.float64)
    order = torch.tensor([2, 0, 4, 1, 3])

    def says(how):
        return torch.as_tensor(answer(writes.clone(), how, order.clone()), dtype=torch.float64)

    def shapes():
        for how in ("zero", "mean", "resample"):
            got = says(how)
            if got.shape != writes.shape:
                return f"{how}: the result has shape {tuple(got.shape)}, it stands in the place of {tuple(writes.shape)}"
        return None

    def zero():
        return None if not says("zero").any() else "zero: the part still writes something"

    def mean():
        got = says("mean")
        if (got - writes.mean((0, 1))).abs().max() < 1e-9:
            return "mean: you average over places too, but a part may write something else at each place"
        if (got - writes.mean(1, keepdim=True)).abs().max() < 1e-9:
            return "mean: you average over the places of one episode, which still tells which episode it is"
        if got.std(0).max() > 1e-9:
            return "mean: episodes still get different writes, so the part still says something about them"
        if (got.mean(0) - writes.mean(0)).abs().max() > 1e-9:
            return "mean: at some place this is not the mean over the episodes"
        return None

    def resample():
        got = says("resample")
        if (got - writes).abs().max() < 1e-9:
            return "resample: every episode keeps its own writes; episode b gets those of episode order[b]"
        if (got - writes[order.argsort()]).abs().max() < 1e-9:
            return "resample: this is the inverse order: episode order[b] gets the writes of b, it should be the other way round"
        if any(not any(torch.equal(row, other) for other in writes) for row in got):
            return "resample: some row is no episode's: the places of one episode stay together"
        wrong = [b for b in range(len(order)) if not torch.equal(got[b], writes[order[b]])]
        return f"resample: episode {wrong[0]} does not get the writes of episode {int(order[wrong[0]])}" if wrong else None

    return grade("my_take_out", [shapes, zero, mean, resample])


# --- what a random change costs ----------------------------------------------------------------


def check_cost(answer) -> Report:
    """Grade `my_cost(jacobian, prob, length)`: expected KL, bits, of a random change, to second order."""

    def tries(Y, D, length, seed):
        rng = torch.Generator().manual_seed(seed)
        J = torch.randn(Y, D, generator=rng, dtype=torch.float64)
        logits = torch.randn(Y, generator=rng, dtype=torch.float64)
        got = float(answer(J.clone(), logits.softmax(-1), length))
        delta = torch.randn(40_000, D, generator=rng, dtype=torch.float64)
        delta = length * delta / delta.norm(dim=-1, keepdim=True)
        p, moved = logits.softmax(-1), (logits + delta @ J.T, logits - delta @ J.T)
        kl = sum((p * (p.log() - new.log_softmax(-1))).sum(-1) for new in moved) / 2  # odd orders cancel
        return got, float(kl.mean()) / math.log(2), J, p

    def sampled():
        for Y, D, length, seed in ((3, 4, 0.02, 1), (5, 8, 0.05, 2)):
            got, want, J, p = tries(Y, D, length, seed)
            if not abs(got - want) < 0.03 * want:
                return _slip_of_cost(got, want, J, p, length)
        return None

    def blind():
        """A change that moves all logits alike costs nothing."""
        J = torch.ones(4, 3, dtype=torch.float64)
        got = float(answer(J, torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64), 0.5))
        return None if abs(got) < 1e-12 else f"all logits move alike, so the answer stays: the cost is 0, you say {got:.3g}"

    return grade("my_cost", [sampled, blind])


def _slip_of_cost(got, want, J, p, length):
    D, cov = J.shape[1], torch.diag(p) - p[:, None] * p
    said = f"{D} channels, length {length}: sampled changes cost {want:.3e} bits, you say {got:.3e}"
    near = lambda value: abs(got - value) < 0.03 * abs(value)  # noqa: E731
    if near(want * math.log(2)):
        return said + ": that is in nats"
    if near(2 * want):
        return said + ": the one half of the second-order term is missing"
    if near(want * D):
        return said + ": the squared length is shared by D channels"
    if near(want / length):
        return said + ": the cost grows with the square of the length"
    if near(float((J.T @ torch.diag(p) @ J).trace()) * length**2 / (2 * D * math.log(2))):
        return said + ": the covariance of the outcome is diag(p) - p p', the second part is missing"
    if near(float((J.T @ cov @ J).sum()) * length**2 / (2 * D * math.log(2))):
        return said + ": sum the diagonal only (the trace), cross terms of random channels cancel"
    return said


# --- how little noise is tenfold ---------------------------------------------------------------


def check_tenfold(answer) -> Report:
    """Grade `my_tenfold(lengths, errors, before, factor)`: the length of noise that multiplies an error."""

    def power_laws():
        lengths = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]
        for power, scale, before, factor in ((2, 0.5, 1e-3, 10), (1, 0.2, 4e-3, 10), (2, 3.0, 2e-2, 5)):
            want = (factor * before / scale) ** (1 / power)
            got = answer(lengths, [scale * r**power for r in lengths], before, factor)
            if got is None or not abs(float(got) - want) < 1e-6 * want:
                return _slip_of_tenfold(got, want, lengths, power, scale, before, factor)
        return None

    def never():
        got = answer([0.1, 1.0], [0.002, 0.005], 0.001, 10)
        return None if got is None else f"no length reaches ten times the error: the answer is None, you say {got!r}"

    def dips():
        """The first crossing counts, also where the error has been below what it was before."""
        got = answer([1.0, 2.0, 4.0, 8.0], [0.0005, 0.0025, 0.04, 0.64], 0.001, 10)
        want = 2 * 2 ** (math.log(4) / math.log(16))
        return None if got is not None and abs(float(got) - want) < 1e-6 else f"small noise may lower an error: there you say {got!r}"

    return grade("my_tenfold", [power_laws, never, dips])


def _slip_of_tenfold(got, want, lengths, power, scale, before, factor):
    if got is None:
        return f"the error passes {factor} times {before:g} at {want:.4g}: you say it never does"
    got, said = float(got), f"an error of {scale:g} r^{power}, {before:g} before: {factor} times that is at r = {want:.4g}, you say {float(got):.4g}"
    after = next(r for r in lengths if r >= want)
    low = max(r for r in lengths if r < want)
    goal = factor * before
    straight = low + (after - low) * (goal - scale * low**power) / (scale * after**power - scale * low**power)
    if abs(got - after) < 1e-9:
        return said + ": that is the next length that was tried: go between two by their logarithms"
    if abs(got - low) < 1e-9:
        return said + ": that is the last length below: go between two by their logarithms"
    if power > 1 and abs(got - straight) < 1e-9:
        return said + ": errors grow as powers, so go straight between logarithms, of lengths and of errors"
    if abs(got - ((factor + 1) * before / scale) ** (1 / power)) < 1e-6 * want:
        return said + ": the error itself counts, not its rise"
    return said


# --- together and apart ------------------------------------------------------------------------


def check_together(answer) -> Report:
    """Grade `my_together(cost, parts)`: joint cost less the sum of single ones, for every pair."""

    def numbers():
        rng = np.random.default_rng(3)
        single, pair = rng.random(4), rng.random((4, 4))
        before = 0.7

        def cost(out):
            out = sorted(set(out))
            return before + sum(single[i] for i in out) + sum(pair[i, j] for n, i in enumerate(out) for j in out[n + 1 :])

        found = answer(cost, [0, 1, 2, 3])
        if not isinstance(found, dict) or len(found) != 6:
            n = len(found) if hasattr(found, "__len__") else 0
            return f"four parts have six pairs: give a dict with six entries, yours has {n}"
        for (i, j), got in found.items():
            want = pair[min(i, j), max(i, j)]
            if not abs(got - want) < 1e-9:
                return _slip_of_together(got, want, single[i] + single[j], before, (i, j))
        return None

    def spare():
        """Two parts of which either one is enough."""
        found = answer(lambda out: 1.0 if {"a", "b"} <= set(out) else 0.0, ["a", "b"])
        (value,) = found.values()
        return None if abs(value - 1) < 1e-9 else f"each alone costs nothing, both cost 1 bit: the difference is 1, you say {value:g}"

    return grade("my_together", [numbers, spare])


def _slip_of_together(got, want, singles, before, which):
    said = f"parts {which}: the joint rise less the two single rises is {want:.4f}, you say {got:.4f}"
    if abs(got + want) < 1e-9:
        return said + ": the sign is turned round; more than the sum is positive"
    if abs(got - (want - before)) < 1e-9:
        return said + ": what is paid with nothing taken out is in all three costs, so it is subtracted once too often: add cost([])"
    if abs(got - (want + singles + before)) < 1e-9:
        return said + ": that is the joint cost alone"
    if abs(got - (want + singles)) < 1e-9:
        return said + ": that is the joint rise alone: take the single rises off"
    return said


# --- an exchange -------------------------------------------------------------------------------


def check_exchange(answer) -> Report:
    """Grade `my_exchange(mine, theirs, span)`: swap in what lies in the span of some rows (R, D)."""
    rng = torch.Generator().manual_seed(4)
    mine, theirs = torch.randn(2, 6, 5, generator=rng, dtype=torch.float64)
    span = torch.randn(2, 5, generator=rng, dtype=torch.float64)

    def says(rows=span):
        return torch.as_tensor(answer(mine.clone(), theirs.clone(), rows.clone()), dtype=torch.float64)

    def shape():
        got = says()
        return None if got.shape == mine.shape else f"the result has shape {tuple(got.shape)}, expected {tuple(mine.shape)}"

    def inside():
        got = says()
        if (got - theirs).abs().max() < 1e-9:
            return "everything was exchanged: only what lies in the span may change"
        if (got - mine).abs().max() < 1e-9:
            return "nothing was exchanged"
        if ((got - mine) @ span.T).abs().max() < 1e-9:
            return "you exchanged the rest: inside the span everything is as it was"
        if ((got - theirs) @ span.T).abs().max() > 1e-9:
            if (got - mine - (theirs - mine) @ span.T @ span).abs().max() < 1e-9:
                return "span' span is a projection only if the rows are orthonormal, and these are not: orthonormalise them first (QR)"
            if ((got - 2 * mine + theirs) @ span.T).abs().max() < 1e-9:
                return "the sign of the difference is turned round: theirs less mine is added"
            return "read along the rows of the span, the result differs from the donor"
        return None

    def outside():
        got = says()
        rest = torch.linalg.svd(span)[2][2:]  # orthogonal to all rows
        off = ((got - mine) @ rest.T).abs().max()
        return None if off < 1e-9 else "something changed at right angles to the span: keep there what is yours"

    def doubled():
        """The same span, written with a row too many."""
        rows = torch.cat([span[:1], 3 * span[1:]])
        return None if (says(rows) - says()).abs().max() < 1e-9 else "rows of other lengths span the same: the result must not change"

    return grade("my_exchange", [shape, inside, outside, doubled])


# --- reading directions and patterns -----------------------------------------------------------


def check_pattern(answer) -> Report:
    """Grade `my_pattern(x, belief)`: by how much the stream (N, D) moves per unit of belief (N, Y)."""

    def planted():
        rng = np.random.default_rng(5)
        belief = rng.normal(size=(4000, 2)) + 3
        pattern, rest = rng.normal(size=(2, 6)), rng.normal(size=(3, 6))
        x = belief @ pattern + rng.normal(size=(4000, 3)) @ rest + 5
        got = np.asarray(answer(x.copy(), belief.copy()), dtype=float)
        if got.shape != pattern.shape:
            turned = got.shape == pattern.T.shape
            return f"the result has shape {got.shape}, expected (Y, D) = (2, 6)" + (": turn it round" if turned else "")
        if np.abs(got - pattern).max() < 0.2:
            return None
        inner, about = x - x.mean(0), belief - belief.mean(0)
        weights = np.linalg.pinv(inner) @ about
        if np.abs(got - weights.T).max() < 1e-6:
            return "these are the weights with which the belief is read from the stream; asked is how the stream follows the belief"
        plain = np.linalg.lstsq(belief, x, rcond=None)[0]
        if np.abs(got - plain).max() < 1e-6:
            return "stream and belief have means: without a constant the fit goes through the origin"
        if np.abs(got - about.T @ inner / len(x)).max() < 0.05 * np.abs(got).max():
            return "this is a covariance: divide by the covariance of the belief with itself"
        return "planted was a stream that follows the belief by a known pattern, with other things in it: yours is another pattern"

    def related():
        """Coordinates of a belief that go together: each has its own pattern."""
        rng = np.random.default_rng(6)
        first = rng.normal(size=5000)
        belief = np.stack([first, 0.9 * first + 0.4 * rng.normal(size=5000)], axis=1)
        pattern = np.array([[1.0, 0, 0], [0, 1.0, 0]])
        got = np.asarray(answer(belief @ pattern + 0.01 * rng.normal(size=(5000, 3)), belief), dtype=float)
        if np.abs(got - pattern).max() < 0.05:
            return None
        return "two coordinates of this belief go together, and you give each what belongs to both: fit them in one regression"

    return grade("my_pattern", [planted, related])

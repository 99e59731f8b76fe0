"""Checks for chapter 14, "The frame before the precision?".

Every check states properties and tries them on random instances: what stays settled, what a power
does to a curve, what no ruler changes, in which order things go. No answer is compared with a key.

Axes: B episodes, H heads, T tokens, D channels, C snapshots, S shares.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from bayeswind_lib.exercises.core import Report, grade

# --- settled for good --------------------------------------------------------------------------


def check_settled(answer) -> Report:
    """Grade `my_settled(steps, distance, share)`: updates after which a distance has settled to a share."""
    steps = [0, 1, 3, 7, 15, 31]

    def between():
        """Straight in log(1 + step): half of the way between 3 and 7 is at the geometric mean of 4 and 8."""
        got = float(answer(steps, [4.0, 4.0, 3.0, 1.0, 0.5, 0.0], 0.5))
        want = math.sqrt(32) - 1
        if abs(got - want) < 1e-6:
            return None
        said = f"the way goes from 25 % at 3 updates to 75 % at 7, and 50 % is at {want:.3f}; you say {got:.3f}"
        if abs(got - 5) < 1e-6:
            return said + ": that is straight in the updates, the snapshots are log-spaced"
        if abs(got - math.sqrt(21)) < 1e-6:
            return said + ": take the logarithm of 1 + step, so that step 0 has a place"
        if got in (3.0, 7.0):
            return said + ": that is a snapshot; go between two of them"
        if abs(got - 0.5) < 1e-6:
            return said + ": give updates, not a share"
        return said

    def for_good():
        got = float(answer(steps, [4.0, 1.0, 3.0, 1.0, 0.5, 0.0], 0.5))
        want = math.sqrt(32) - 1
        if abs(got - want) < 1e-6:
            return None
        if got < 3:
            return "the first time does not count: this curve falls back below one half, and settles later"
        return f"this curve dips and settles for good at {want:.3f}, you say {got:.3f}"

    def unit():
        """Twice the distance is the same progress, and the first distance is the unit."""
        some = [5.0, 4.0, 3.5, 2.0, 0.2, 0.0]
        one, two = float(answer(steps, some, 0.9)), float(answer(steps, [2 * x for x in some], 0.9))
        return None if abs(one - two) < 1e-9 else "a distance in another unit changes your answer: divide by its first value"

    return grade("my_settled", [between, for_good, unit])


# --- any settling time -------------------------------------------------------------------------


def check_power(answer) -> Report:
    """Grade `my_power(distance, where)`: the power of a distance that settles to nine tenths at one snapshot."""

    def works():
        rng = np.random.default_rng(1)
        for where in (1, 3, 5):
            x = np.sort(rng.uniform(0.1, 3, 7))[::-1]
            got = float(answer(x.tolist(), where))
            left = (x[where] / x[0]) ** got
            if not abs(left - 0.1) < 1e-9:
                return _slip_of_power(got, x, where, left)
        return None

    def positive():
        got = float(answer([2.0, 1.9, 0.1], 1))
        return None if got > 0 else f"a power of {got:.3g} would turn the order of the snapshots round"

    return grade("my_power", [works, positive])


def _slip_of_power(got, x, where, left):
    said = f"distance {x[where]:.3f}, at the start {x[0]:.3f}, to your power {got:.4g}: {left:.4g} is left, it should be 0.1"
    r = math.log(0.1) / math.log(x[where] / x[0])
    if abs(got - 1 / r) < 1e-9:
        return said + ": the fraction is upside down"
    if abs(got - math.log(0.9) / math.log(x[where] / x[0])) < 1e-9:
        return said + ": nine tenths are gone, one tenth is left"
    if x[where] != 1 and abs(got - math.log(0.1) / math.log(x[where])) < 1e-9:
        return said + ": the first distance is the unit"
    if abs(got + r) < 1e-9:
        return said + ": the sign"
    return said


# --- equivalent share --------------------------------------------------------------------------


def check_equivalent(answer) -> Report:
    """Grade `my_equivalent(distance, way, shares)`: where a falling reference curve has the same height."""
    shares = [0.0, 0.2, 0.5, 0.8, 1.0]
    way = [2.0, 1.6, 0.9, 0.3, 0.0]

    def says(distance, reference=way):
        return np.asarray(answer(list(distance), list(reference), list(shares)), dtype=float)

    def own():
        got = says(way)
        if got.shape != (5,):
            return f"five snapshots have five shares, yours have shape {got.shape}"
        if np.abs(got - shares).max() < 1e-9:
            return None
        if np.abs(got - (1 - np.array(way) / way[0])).max() < 1e-9:
            return "that is the progress itself: where on the reference way is the distance the same?"
        if np.abs(got - shares[::-1]).max() < 1e-9 or got[0] > got[-1]:
            return "the shares run backwards: at its first distance a run has done nothing of the way"
        if np.allclose(got, got[0]):
            return "all snapshots get one share: interpolation wants its x values rising, and these fall"
        return f"the reference way itself has the shares {shares}, you say {np.round(got, 3).tolist()}"

    def between():
        got = float(says([1.25])[0])
        if abs(got - 0.35) < 1e-9:
            return None
        if got in shares:
            return f"1.25 lies between 1.6 and 0.9: go on a straight piece between two points, you say {got}"
        return f"1.25 is half of the way from 1.6 to 0.9, so the share is 0.35; you say {got:.4f}"

    def blind():
        some = [1.6, 0.9, 0.3]
        one, two = says(some), says([x**2 for x in some], [x**2 for x in way])
        return None if np.abs(one - two).max() < 1e-9 else "squares on both sides change your answer: only the way may be the ruler"

    def outside():
        got = says([2.5])[0]
        return None if got == 0 else f"farther than the start is share 0, you say {got}"

    return grade("my_equivalent", [own, between, blind, outside])


# --- in step with the rate ---------------------------------------------------------------------


def check_in_step(answer) -> Report:
    """Grade `my_in_step(rates, share, power)`: updates until what is left of a way, to a power, has settled."""

    def constant():
        for n, share, power, want in ((100, 0.9, 1, 90), (100, 0.75, 2, 50), (40, 0.5, 1, 20)):
            got = answer([0.1] * n, share, power)
            if got != want:
                return _slip_of_in_step(got, want, n, share, power)
        return None

    def falling():
        n = 1000
        got = answer([1 - i / n for i in range(n)], 0.9, 1)
        want = 684
        if got is not None and abs(got - want) <= 1:
            return None
        if got == 900:
            return "with a falling rate early updates go farther: add the rates up, do not count the updates"
        return f"rates that fall from 1 to 0 in {n} updates, nine tenths of the way: about {want} updates, you say {got}"

    def unit():
        rates = [0.3, 0.1, 0.2, 0.4]
        one, two = answer(rates, 0.5, 1), answer([10 * r for r in rates], 0.5, 1)
        return None if one == two == 3 else f"rates {rates}: half of the way is done after 3 updates, you say {one} (ten times the rates: {two})"

    return grade("my_in_step", [constant, falling, unit])


def _slip_of_in_step(got, want, n, share, power):
    said = f"{n} equal rates, share {share}, power {power}: {want} updates, you say {got}"
    if got == want - 1:
        return said + ": that is the number of the update counted from 0; after it one more is done"
    if power != 1 and got == round(share * n):
        return said + ": the power is missing"
    if power != 1 and got == math.ceil(n * share ** (1 / power)):
        return said + ": the distance is a power of what is left, not the progress a power of what is done"
    if isinstance(got, float) and 0 < got <= 1:
        return said + ": give a number of updates, not a fraction of the run"
    if got == round((1 - share) * n):
        return said + ": that much is left then; the share is of what is done"
    return said


# --- strangers ---------------------------------------------------------------------------------


def check_apart(answer) -> Report:
    """Grade `my_apart(p, q)`: mean total variation of patterns (B, H, T, T), heads paired as well as they can be."""

    def patterns(seed, B=3, H=3, T=5):
        rng = torch.Generator().manual_seed(seed)
        scores = 2 * torch.randn(B, H, T, T, generator=rng, dtype=torch.float64)
        return scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf).softmax(-1)

    def permuted():
        p = patterns(1)
        got = float(answer(p, p[:, [2, 0, 1]]))
        if abs(got) < 1e-9:
            return None
        plain = float((p - p[:, [2, 0, 1]]).abs()[:, :, 1:].sum(-1).mean() / 2)
        if abs(got - plain) < 1e-9:
            return "the same heads in another order are 0 apart: you compare them as they are numbered"
        return f"the same heads in another order are 0 apart, you say {got:.4f}"

    def value():
        p, q = patterns(2), patterns(3)
        cost = torch.stack([torch.stack([(p[:, i] - q[:, j]).abs()[:, 1:].sum(-1).mean() / 2 for j in range(3)]) for i in range(3)])
        sums = {o: float(sum(cost[i, o[i]] for i in range(3))) / 3 for o in itertools.permutations(range(3))}
        got, want = float(answer(p, q)), min(sums.values())
        if abs(got - want) < 1e-9:
            return None
        return _slip_of_apart(got, want, cost, p, q, sums)

    def greedy():
        """Each head takes its nearest: two may want the same one."""
        base = patterns(4, B=1, H=1, T=2)
        def row(a):
            x = base.clone()
            x[..., 1, :] = torch.tensor([a, 1 - a], dtype=torch.float64)
            return x
        p = torch.cat([row(0.5), row(0.6)], 1)
        q = torch.cat([row(0.55), row(0.9)], 1)
        got = float(answer(p, q))
        if abs(got - 0.175) < 1e-9:
            return None
        if abs(got - 0.05) < 1e-9:
            return "two heads were paired with the same one: a pairing uses every head once"
        return f"weights .5 and .6 against .55 and .9: the best pairing has a mean of 0.175, you say {got:.4f}"

    return grade("my_apart", [permuted, value, greedy])


def _slip_of_apart(got, want, cost, p, q, sums):
    said = f"three heads each: {want:.4f}, you say {got:.4f}"
    if abs(got - float(cost.amin(1).mean())) < 1e-9 or abs(got - float(cost.amin(0).mean())) < 1e-9:
        return said + ": every head takes its nearest, and one is taken twice: pair them"
    if abs(got - 2 * want) < 1e-9:
        return said + ": total variation is half the sum of the absolute differences"
    if abs(got - 0.8 * want) < 1e-9:
        return said + ": the first query has only itself to look at; leave it out"
    if abs(got - max(sums.values())) < 1e-9:
        return said + ": that is the worst pairing"
    if abs(got - 3 * want) < 1e-9:
        return said + ": the mean over heads, not the sum"
    return said


# --- one looks, another one speaks -------------------------------------------------------------


def check_speak(answer) -> Report:
    """Grade `my_speak(pattern, x, value, output)`: what an attention layer writes with a given pattern (B, T, D)."""
    B, H, T, D = 2, 2, 4, 6
    rng = torch.Generator().manual_seed(5)
    pattern = torch.randn(B, H, T, T, generator=rng, dtype=torch.float64)
    pattern = pattern.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
    x = torch.randn(B, T, D, generator=rng, dtype=torch.float64)
    value, output = torch.randn(2, D, D, generator=rng, dtype=torch.float64)

    def says(p=pattern, v=value, o=output):
        return torch.as_tensor(answer(p.clone(), x.clone(), v.clone(), o.clone()), dtype=torch.float64)

    def shape():
        got = says()
        return None if got.shape == (B, T, D) else f"the result has shape {tuple(got.shape)}, a layer writes {(B, T, D)}"

    def itself():
        """Every token looks at itself: both maps, one after the other."""
        eye = torch.eye(T, dtype=torch.float64).expand(B, H, T, T)
        got, want = says(eye), x @ value.T @ output.T
        if (got - want).abs().max() < 1e-9:
            return None
        if (got - x @ value @ output).abs().max() < 1e-9:
            return "a map is stored as torch stores it: outputs by inputs, so x @ value.T"
        if (got - x @ value.T).abs().max() < 1e-9:
            return "every token looks at itself: the output map has not been applied"
        return "every token looks at itself, and the result is not output(value(x))"

    def heads():
        got, v = says(), x @ value.T
        mixed = [pattern[:, h] @ v[..., h * 3 : (h + 1) * 3] for h in range(H)]
        if (got - torch.cat(mixed, -1) @ output.T).abs().max() < 1e-9:
            return None
        even = pattern.mean(1) @ v @ output.T
        if (got - even).abs().max() < 1e-9:
            return "the patterns of the heads were averaged: each head carries channels of its own"
        mixed = [pattern[:, h] @ v[..., h::H] for h in range(H)]
        split = torch.zeros(B, T, D, dtype=torch.float64)
        for h in range(H):
            split[..., h::H] = mixed[h]
        if (got - split @ output.T).abs().max() < 1e-9:
            return "the channels of a head lie side by side: the first D / H belong to head 0"
        back = [pattern[:, h].transpose(-2, -1) @ v[..., h * 3 : (h + 1) * 3] for h in range(H)]
        if (got - torch.cat(back, -1) @ output.T).abs().max() < 1e-9:
            return "a row of a pattern belongs to the token that reads: yours was turned round"
        return "two heads with different patterns: the result is another one"

    return grade("my_speak", [shape, itself, heads])

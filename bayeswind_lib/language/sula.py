"""SULA: evidence counted in a prompt, with its exact posterior (Paper III; notes B4, B5).

One of two labels is the hidden one, each with chance 1/2. Every example shows it with chance 0.9 and
the other one with 0.1; the words beside the labels mean nothing. So only m, the number of times the
first label came more often than the second, matters: P(first) = 9^m / (1 + 9^m).

In the published design prompts with more evidence are *longer*. In the length-matched one all have
eight examples, and m is chosen.

Axes: n prompts, k examples of a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bayeswind_lib.scoring import entropy_bits
from bayeswind_lib.stats import ranks

TRUTH = 0.9  # chance that an example shows the hidden label
COUNTS = (0, 1, 2, 4, 8)
ODDS = TRUTH / (1 - TRUTH)


def posterior(m: np.ndarray | int) -> np.ndarray:
    """P(first label is the hidden one), given that it came m times more often: in (0, 1)."""
    return 1 / (1 + ODDS ** -np.asarray(m, dtype=float))


def entropy(m: np.ndarray | int) -> np.ndarray:
    """Bits left about the hidden label; depends on |m| only."""
    return binary_entropy(posterior(np.abs(m)))


def binary_entropy(p: np.ndarray) -> np.ndarray:
    """Bits of a coin that falls on one side with chance p."""
    p = torch.as_tensor(np.asarray(p, dtype=float))
    return entropy_bits(torch.stack([p, 1 - p], -1).log2()).numpy()


def law(k: int, truth: float = TRUTH) -> dict[int, float]:
    """Chance of each |m| after k examples; `truth` 0.5: labels that are coin flips.

    Raises:
        ValueError: for a negative k.
    """
    if k < 0:
        raise ValueError(f"k is {k}: a prompt has 0 examples or more")
    found: dict[int, float] = {}
    for right in range(k + 1):
        chance = math.comb(k, right) * truth**right * (1 - truth) ** (k - right)
        size = abs(2 * right - k)
        found[size] = found.get(size, 0.0) + chance
    return dict(sorted(found.items()))


def expected_entropy(k: int, truth: float = TRUTH) -> float:
    """Mean bits left after k examples, for one who believes in 0.9 whatever the labels really are."""
    return float(sum(chance * entropy(m) for m, chance in law(k, truth).items()))


def best_constant(entropies: np.ndarray) -> tuple[float, float]:
    """The best guess that is the same for all prompts, and its mean absolute error: the median."""
    guess = float(np.median(entropies))
    return guess, float(np.abs(np.asarray(entropies) - guess).mean())


def constant_over_counts(counts: Sequence[int] = COUNTS) -> tuple[float, float]:
    """The same, exactly, for as many prompts of each number of examples."""
    rows = [(float(entropy(m)), chance / len(counts)) for k in counts for m, chance in law(k).items()]
    guess = min((h for h, _ in rows), key=lambda g: sum(w * abs(h - g) for h, w in rows))
    return guess, sum(w * abs(h - guess) for h, w in rows)


# ---- prompts


@dataclass(frozen=True)
class Prompts:
    """Prompts, and all that is known about them.

    Attributes:
        texts: what the model reads.
        labels: int64, one array a prompt: 0 and 1 for the labels shown, in order.
    """

    texts: tuple[str, ...]
    labels: tuple[np.ndarray, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def k(self) -> np.ndarray:
        """Number of examples, (n,)."""
        return np.array([len(row) for row in self.labels])

    @property
    def m(self) -> np.ndarray:
        """How many more times the first label came, (n,)."""
        return np.array([len(row) - 2 * int(row.sum()) for row in self.labels])


def write(words: Sequence[str], labels: Sequence[str]) -> str:
    """A prompt: `w1: l1, w2: l2. w3:`, one word more than labels.

    >>> write(["stone", "river", "cloud"], ["bip", "tor"])
    'stone: bip, river: tor. cloud:'
    """
    shown = ", ".join(f"{word}: {label}" for word, label in zip(words, labels, strict=False))
    return f"{shown}. {words[-1]}:" if labels else f"{words[-1]}:"


def prompts(rows: Sequence[np.ndarray], words: Sequence[str], names: Sequence[str], rng: np.random.Generator) -> Prompts:
    """Prompts with these labels, each with words of its own drawn without replacement.

    Args:
        rows: 0 and 1, one array a prompt.
        words: carriers to draw from; more than a prompt has examples.
        names: the two labels.
    Raises:
        ValueError: if there are too few words, or not two labels.
    """
    longest = max(len(row) for row in rows)
    if len(words) <= longest:
        raise ValueError(f"there are {len(words)} words and prompts of {longest} examples: give at least {longest + 1} words")
    if len(set(names)) != 2:
        raise ValueError(f"names are {list(names)}: give two different labels")
    texts = [write(list(rng.choice(words, len(row) + 1, replace=False)), [names[i] for i in row]) for row in rows]
    return Prompts(tuple(texts), tuple(np.asarray(row, dtype=np.int64) for row in rows))


def as_published(rng: np.random.Generator, per_count: int = 50, counts: Sequence[int] = COUNTS, truth: float = TRUTH) -> list[np.ndarray]:
    """Labels of the published design: as many prompts of each number of examples; truth 0.5 shuffles them."""
    hidden = rng.integers(2, size=per_count * len(counts))
    lengths = np.repeat(counts, per_count)
    return [np.where(rng.random(k) < truth, y, 1 - y) for y, k in zip(hidden, lengths, strict=True)]


def length_matched(rng: np.random.Generator, per_evidence: int = 20, k: int = 8) -> list[np.ndarray]:
    """Labels in prompts of one length: as many for each m from -k to k, in random order."""
    return [rng.permutation(np.repeat([0, 1], [first, k - first])) for first in range(k + 1) for _ in range(per_evidence)]


# ---- what a simple-minded reader would say


def copies(labels: np.ndarray) -> float:
    """P(first label) by counting: (its count + 1) / (k + 2). It copies; it infers nothing."""
    return (len(labels) - float(labels.sum()) + 1) / (len(labels) + 2)


def repeats(labels: np.ndarray) -> float:
    """P(first label) for one who only looks at the last label."""
    return 0.5 if not len(labels) else (TRUTH if labels[-1] == 0 else 1 - TRUTH)


# ---- what answers follow


def chance(logit: np.ndarray) -> np.ndarray:
    """Probability of the first label from a preference for it in nats."""
    return 1 / (1 + np.exp(-np.asarray(logit, dtype=float)))


def rank_correlation(x: np.ndarray, y: np.ndarray, given: np.ndarray | None = None) -> float:
    """Spearman's correlation of two numbers (n,), equal values at their mean rank; 0 if one never changes.

    Args:
        given: a third number, whose ranks are first taken out of both by straight lines: the partial correlation.
    """
    left = [ranks(x), ranks(y)]
    if given is not None and np.ptp(given) > 0:
        z = ranks(given)
        left = [r - np.polyval(np.polyfit(z, r, 1), z) for r in left]
    return float(np.corrcoef(*left)[0, 1]) if min(np.ptp(r) for r in left) > 1e-9 else 0.0


@dataclass(frozen=True)
class Weights:
    """How a preference (nats) adds up: bias + sum over places of weight x (+1 for the first label, -1 for the other).

    Attributes:
        bias: at no evidence; 0 for the exact observer.
        weights, errors: (k,), of each example's place, ln 9 for the exact observer, and their standard errors.
    """

    bias: float
    weights: np.ndarray
    errors: np.ndarray


def by_place(labels: np.ndarray, logit: np.ndarray) -> Weights:
    """Least squares for the weight of each place: labels 0 and 1 (n, k) of prompts of one length, preferences (n,).

    Raises:
        ValueError: for fewer than k + 3 prompts.
    """
    shown = 1 - 2 * np.asarray(labels, dtype=float)  # (n, k)
    n, k = shown.shape
    if n < k + 3:
        raise ValueError(f"there are {n} prompts of {k} examples: give at least {k + 3}")
    design = np.c_[np.ones(n), shown]
    found, *_ = np.linalg.lstsq(design, logit, rcond=None)
    variance = np.square(logit - design @ found).sum() / (n - k - 1)
    errors = np.sqrt(variance * np.diag(np.linalg.inv(design.T @ design)))
    return Weights(float(found[0]), found[1:], errors[1:])


def calibration(m: np.ndarray, logit: np.ndarray) -> tuple[float, float]:
    """Bias (nats), and slope on the exact observer's preference m ln 9: (0, 1) for the exact one. Least squares."""
    slope, bias = np.polyfit(np.asarray(m) * math.log(ODDS), logit, 1)
    return float(bias), float(slope)

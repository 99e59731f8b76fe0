"""Checks for chapter 9, "Stage one: a frame for hypotheses".

Every check states properties and tries them on random instances. What an answer is compared with is
an identity that must hold, a case that is worked out by hand, or one that was planted.

Axes: n tokens, C channels, m questions.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import torch

from bayeswind_lib.exercises.core import Report, grade


def _normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- the cosine of nothing ---------------------------------------------------------------------


def check_isotropic(answer) -> Report:
    """Grade `my_isotropic(n_channels)`: E|cosine| of two vectors without a preferred direction."""

    def by_hand():
        for d, want, why in ((2, 2 / math.pi, "the mean of |cos| over a circle"), (3, 0.5, "a coordinate of a sphere is uniform")):
            got = float(answer(d))
            if not abs(got - want) < 1e-9:
                return _slip_of_isotropic(got, d, f"in {d} channels it is {want:.4f}: {why}")
        return None

    def neighbours():
        for d in (1, 5, 32, 191):
            got, want = float(answer(d)) * float(answer(d + 1)), 2 / (math.pi * d)
            if not abs(got / want - 1) < 1e-9:
                return f"the values of {d} and {d + 1} channels multiply to {got:.6f}; from the formula it must be 2 / (pi d) = {want:.6f}"
        return None

    def many_channels():
        got = float(answer(100_000))
        want = math.sqrt(2 / (math.pi * 100_000))
        return None if abs(got / want - 1) < 1e-4 else f"with 100,000 channels it is about {want:.6f}, you say {got:.6f}"

    return grade("my_isotropic", [by_hand, neighbours, many_channels])


def _slip_of_isotropic(got: float, d: int, truth: str) -> str:
    said = f"you say {got:.4f}, {truth}"
    if abs(got - math.sqrt(2 / (math.pi * d))) < 1e-9:
        return said + ". Yours is the approximation for many channels"
    if abs(got - 1 / math.sqrt(d)) < 1e-9:
        return said + ". Yours is the root mean square, which is larger"
    if abs(got) < 1e-9:
        return said + ". Zero is the mean with its sign"
    if d == 2 and abs(got - 2 / math.sqrt(math.pi)) < 1e-9:
        return said + ". The square root of pi is missing below"
    return said


# --- a mean cosine -----------------------------------------------------------------------------


def check_mean_cosine(answer) -> Report:
    """Grade `my_mean_cosine(x, centred)`: mean |cosine| over pairs of different rows of (n, C)."""

    def says(x, centred):
        return float(answer(x.clone(), centred))

    def orthogonal():
        x = torch.diag(torch.tensor([1.0, 2.0, 5.0, 0.5], dtype=torch.float64))
        got = says(x, False)
        if abs(got - 0.25) < 1e-9:
            return "orthogonal vectors have 0, you say 0.25: leave out the cosine of a vector with itself"
        return None if abs(got) < 1e-9 else f"orthogonal vectors have mean |cosine| 0, you say {got:.4f}"

    def by_pairs():
        x = _normal(6, 5, seed=1) + 0.3
        for centred in (False, True):
            got, want = says(x, centred), _over_pairs(x - x.mean(0) if centred else x)
            if not abs(got - want) < 1e-9:
                return _slip_of_cosine(got, want, x, centred)
        return None

    return grade("my_mean_cosine", [orthogonal, by_pairs])


def _over_pairs(x: torch.Tensor, signed: bool = False) -> float:
    """Pair by pair, from lengths and dot products."""
    found = [float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)) for a, b in combinations(x, 2)]
    return sum(c if signed else abs(c) for c in found) / len(found)


def _slip_of_cosine(got: float, want: float, x: torch.Tensor, centred: bool) -> str:
    said = f"{'centred' if centred else 'raw'}: you say {got:.4f}, pair by pair it is {want:.4f}"
    n, unit = len(x), x / x.norm(dim=1, keepdim=True)
    tried = {
        _over_pairs(x - x.mean(0) if centred else x, signed=True): "Negative cosines count by their size",
        want * (n - 1) / n: "There are n (n - 1) pairs, not n squared",
        _over_pairs(x) if centred else math.nan: "Nothing is centred",
        _over_pairs(x - x.mean(0)) if not centred else math.nan: "You subtract the mean although nobody asked",
        _over_pairs(unit - unit.mean(0)): "Subtract the mean of the vectors first, and normalise then",
        _over_pairs(x - x.mean(1, keepdim=True)): "The mean vector is the mean over tokens, not over channels",
    }
    return next((f"{said}. {words}" for value, words in tried.items() if abs(got - value) < 1e-9), said)


# --- a percentile ------------------------------------------------------------------------------


def check_percentile(answer) -> Report:
    """Grade `my_percentile(value, draws)`: where a value lies among the draws of its null, in percent."""
    draws = np.array([0.3, 0.1, 0.4, 0.2, 0.5])

    def says(value, rows):
        return float(answer(value, np.array(rows, dtype=float)))

    def between():
        for value, want in ((0.25, 40.0), (0.45, 80.0), (0.0, 0.0), (0.9, 100.0)):
            got = says(value, draws)
            if not abs(got - want) < 1e-9:
                return _slip_of_percentile(got, want, f"{value} among {draws.tolist()}")
        return None

    def ties():
        for value, rows, want in ((0.2, [0.1, 0.2, 0.3, 0.4], 37.5), (1.0, [1.0] * 6, 50.0), (2.0, [2.0, 2.0, 1.0, 3.0], 50.0)):
            got = says(value, rows)
            if not abs(got - want) < 1e-9:
                lower = 100 * sum(row < value for row in rows) / len(rows)
                upper = 100 * sum(row <= value for row in rows) / len(rows)
                kind = {lower: "you leave draws out that are equal to the value", upper: "you count draws that are equal to the value in full"}
                words = next((w for v, w in kind.items() if abs(got - v) < 1e-9), "")
                return f"{value} among {rows} is at {want}, you say {got:g}{': ' * bool(words)}{words}; an equal draw counts half"
        return None

    return grade("my_percentile", [between, ties])


def _slip_of_percentile(got: float, want: float, case: str) -> str:
    said = f"{case} is at {want:g} %, you say {got:g}"
    if abs(100 * got - want) < 1e-9:
        return said + ": in percent, please"
    if abs(100 - got - want) < 1e-9:
        return said + ": count the draws below the value, not those above"
    if abs(got - want * 5 / 100) < 1e-9:
        return said + ": this is how many, not what share"
    return said


# --- any cosine you like -----------------------------------------------------------------------


def check_map(answer) -> Report:
    """Grade `my_map(keys)`: an invertible (C, C) matrix that makes the keys (n, C) orthonormal."""

    def on(n: int, C: int):
        keys = _normal(n, C, seed=10 * n + C) @ torch.diag(torch.linspace(0.5, 3, C, dtype=torch.float64)) + 0.5
        A = torch.as_tensor(answer(keys.clone()), dtype=torch.float64)
        if A.shape != (C, C):
            return f"{n} keys of {C} channels: the map has shape {tuple(A.shape)}, expected {(C, C)}"
        return _judge_map(A, keys)

    return grade("my_map", [lambda: on(4, 4), lambda: on(3, 7), lambda: on(5, 6)])


def _judge_map(A: torch.Tensor, keys: torch.Tensor) -> str | None:
    eye, moved = torch.eye(len(keys), dtype=torch.float64), keys @ A.T
    gram = moved @ moved.T
    if (gram - eye).abs().max() < 1e-6:
        sizes = torch.linalg.svdvals(A)
        if sizes[-1] < 1e-9 * sizes[0]:
            return "the keys come out orthonormal, but your map cannot be undone: what is orthogonal to all keys is sent to 0, and queries could not be turned along"
        return None
    back = keys @ A
    if (back @ back.T - eye).abs().max() < 1e-6:
        return "the rows of keys @ A are orthonormal: it is A k that is asked, which for rows is keys @ A.T"
    if (gram - torch.diag(gram.diagonal())).abs().max() < 1e-6:
        return f"A k are orthogonal, but their lengths are {gram.diagonal().sqrt().min():.3g} to {gram.diagonal().sqrt().max():.3g}: make them 1"
    if (gram.diagonal() - 1).abs().max() < 1e-6:
        return f"A k have length 1, but their cosines are up to {float((gram - eye).abs().max()):.3g}"
    return f"A k have dot products up to {float((gram - eye).abs().max()):.3g} away from those of orthonormal vectors"


# --- what scores tell apart --------------------------------------------------------------------


def check_parts(answer) -> Report:
    """Grade `my_parts(scores)`: preference and binding, two standard deviations, of scores (m, n)."""
    liked = torch.tensor([3.0, -1.0, 0.0, 2.0], dtype=torch.float64)
    level = torch.tensor([[10.0], [0.0], [-4.0]], dtype=torch.float64)
    spread = math.sqrt(float((liked - 1).square().mean()))

    def says(scores):
        out = answer(scores.clone())
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(f"return two numbers, preference and binding, not {type(out).__name__}")
        return float(out[0]), float(out[1])

    def only_preference():
        preference, binding = says(liked.expand(3, 4))
        if not abs(binding) < 1e-9:
            return f"if all questions score alike nothing is bound, you say {binding:.4f}: take the part of the shown token out"
        return _slip_of_preference(preference, spread)

    def questions_do_not_count():
        preference, binding = says(liked + level)
        if not abs(binding) < 1e-9:
            return f"a level that a question adds to all its scores changes no attention, but your binding is {binding:.4f}"
        return None if abs(preference - spread) < 1e-9 else f"a level that a question adds changes your preference from {spread:.4f} to {preference:.4f}"

    def planted():
        pair = torch.tensor([[2.0, -2.0], [-2.0, 2.0]], dtype=torch.float64)
        _, binding = says(pair + 7)
        if abs(binding - 4) < 1e-9:
            return "binding is a standard deviation, you give a variance"
        if not abs(binding - 2) < 1e-9:
            return f"scores of 9 for a match and 5 for others are 2 up and 2 down: binding is 2, you say {binding:.4f}"
        return None

    return grade("my_parts", [only_preference, questions_do_not_count, planted])


def _slip_of_preference(got: float, spread: float):
    if abs(got - spread) < 1e-9:
        return None
    said = f"preferences 3, -1, 0, 2 have standard deviation {spread:.4f}, you say {got:.4f}"
    if abs(got - spread * math.sqrt(4 / 3)) < 1e-9:
        return said + ": divide by n, the tokens are all there are"
    if abs(got - spread**2) < 1e-9:
        return said + ": take the root"
    if abs(got) < 1e-9:
        return said + ": rows are questions, columns are shown tokens"
    return said


# --- one head or a bank ------------------------------------------------------------------------


def check_concentration(answer) -> Report:
    """Grade `my_concentration(effects)`: the largest over the second, and how many exceed half of it."""
    cases = (
        ([0.1, 0.8, 0.2, 0.5, 0.3], 1.6, 2),
        ([0.9, 0.85, 0.8, 0.7], 0.9 / 0.85, 4),
        ([-5.0, 1.0, 0.25, 0.6], 1 / 0.6, 2),
        ([4.0, 0.1, 2.0], 2.0, 1),
    )

    def says(effects):
        out = answer(list(effects))
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(f"return two numbers, the ratio and the number of heads, not {type(out).__name__}")
        return float(out[0]), float(out[1])

    def ratio():
        for effects, want, _ in cases:
            got, _ = says(effects)
            if not abs(got - want) < 1e-9:
                return _slip_of_ratio(got, want, effects)
        return None

    def half():
        for effects, _, want in cases:
            _, got = says(effects)
            if got == want:
                continue
            if got == want - 1:
                return f"of {effects} you count {got:g} heads above half of the largest: the largest is one of them, too"
            if got == sum(e >= max(effects) / 2 for e in effects):
                return f"of {effects} you count {got:g}: exactly half is not more than half"
            return f"of {effects} more than half of the largest have {want}, you say {got:g}"
        return None

    return grade("my_concentration", [ratio, half])


def _slip_of_ratio(got: float, want: float, effects: list[float]) -> str:
    said = f"of {effects} the largest over the second is {want:.4f}, you say {got:.4f}"
    sizes = sorted(map(abs, effects), reverse=True)
    if abs(got * want - 1) < 1e-9:
        return said + ": it is the other way round"
    if effects[1] and abs(got - effects[0] / effects[1]) < 1e-9:
        return said + ": heads are not sorted by their effect"
    if abs(got - sizes[0] / sizes[1]) < 1e-9:
        return said + ": a head whose removal helps has a negative effect, it is not important by its size"
    if abs(got - max(effects) / np.mean(effects)) < 1e-9:
        return said + ": the second, not the mean"
    return said

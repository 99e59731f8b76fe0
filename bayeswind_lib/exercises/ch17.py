"""Checks for chapter 17, "Does the geometry survive in a language model?".

Every check states properties and tries them on random instances: what a share adds up to, what an
error means, what may be paired with what, from which parts attention's output can be built again. No
answer is compared with a key.

Axes: n vectors, d coordinates, B prompts, T tokens, H heads, C channels of one head, D channels.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch

from bayeswind_lib.exercises.core import Report, grade

# --- shares of components ----------------------------------------------------------------------


def check_shares(answer) -> Report:
    """Grade `my_shares(vectors)`: shares of the variance by component, largest first, of standardised coordinates."""

    def says(x):
        return np.asarray(answer(x.copy()), dtype=float)

    def sums():
        got = says(np.random.default_rng(0).normal(size=(9, 5)))
        if got.ndim != 1 or len(got) < 5:
            return f"one share a component, at least five of them here; yours have shape {got.shape}"
        if np.diff(got).max(initial=0) > 1e-9:
            return "largest first: yours rise somewhere"
        if abs(got.sum() - 1) > 1e-9:
            return f"all shares together are 1, yours are {got.sum():.4f}"
        return None

    def planted():
        """Two independent groups of equal coordinates: the shares are known."""
        rng = np.random.default_rng(1)
        a = rng.normal(size=200)
        b = rng.normal(size=200)
        a, b = a - a.mean(), b - b.mean()
        b -= (a @ b) / (a @ a) * a
        x = np.stack([a, a, a, b], 1) * [1, 20, 300, 5] + [0, 70, -5, 2]
        got = says(x)[:2]
        if np.abs(got - [0.75, 0.25]).max() < 1e-6:
            return None
        return _slip_of_shares(x, got)

    return grade("my_shares", [sums, planted])


def _slip_of_shares(x, got):
    said = f"three coordinates are one number, the fourth another one: shares .75 and .25, you say {got[0]:.3f} and {got[1]:.3f}"
    size = np.linalg.svd((x - x.mean(0)) / x.std(0), compute_uv=False)
    for other, hint in (
        ((size / size.sum())[:2], "variances are squares of singular values"),
        (_parts(x - x.mean(0)), "the coordinates have different units here: divide each by its deviation"),
        (_parts(x), "take the mean off, and divide by the deviation"),
        (_parts(x / x.std(0)), "take the mean off first: what all prompts share is no variance"),
    ):
        if np.abs(got - other).max() < 1e-6:
            return f"{said}: {hint}"
    return said


def _parts(x):
    size = np.linalg.svd(x, compute_uv=False) ** 2
    return (size / size.sum())[:2]


# --- the jackknife -----------------------------------------------------------------------------


def check_jackknife(answer) -> Report:
    """Grade `my_jackknife(vectors, measure)`: the standard error of a figure from leaving out one vector at a time."""

    def mean_of(x):
        return float(np.asarray(x)[:, 0].mean())

    def of_a_mean():
        """For a mean the jackknife is the textbook's error."""
        for seed, n in ((0, 5), (1, 30)):
            x = np.random.default_rng(seed).normal(size=(n, 2))
            got, want = float(answer(x.copy(), mean_of)), float(x[:, 0].std(ddof=1) / np.sqrt(n))
            if abs(got - want) > 1e-9:
                return _slip_of_jackknife(x, got, want)
        return None

    def honest():
        """Whatever the measure, it is called with one vector less, n times."""
        sizes, x = [], np.random.default_rng(2).normal(size=(7, 3))

        def spy(part):
            sizes.append(len(part))
            return float(np.asarray(part).std())

        answer(x.copy(), spy)
        return None if sizes.count(6) == 7 else f"7 vectors: the measure is wanted 7 times on 6 of them, you called it on {Counter(sizes)}"

    return grade("my_jackknife", [of_a_mean, honest])


def _slip_of_jackknife(x, got, want):
    n = len(x)
    parts = np.array([np.delete(x, i, 0)[:, 0].mean() for i in range(n)])
    said = f"the mean of {n} numbers has the error {want:.4f}, you say {got:.4f}"
    for other, hint in (
        (parts.std(), "the parts are nearly the same data: multiply their deviation by the root of n - 1"),
        (parts.std(ddof=1), "the parts are nearly the same data: multiply their deviation by the root of n - 1"),
        (parts.std() / np.sqrt(n), "the parts vary less than the data do: the factor is the root of n - 1, and not one over the root of n"),
        (parts.std() * (n - 1), "the root of n - 1, not n - 1"),
        (parts.var() * (n - 1), "that is the variance: take the root"),
        (np.sqrt(n - 1) * parts.std(ddof=1), "divide the squares by n here, not by n - 1"),
    ):
        if abs(got - other) < 1e-9:
            return f"{said}: {hint}"
    return said


# --- cosines of keys ---------------------------------------------------------------------------


def check_cosine(answer) -> Report:
    """Grade `my_cosine(weight, n_heads)`: mean absolute cosine between the maps of one key head, mean over heads."""

    def instance(seed, H=2, C=3, D=7):
        return torch.randn(H * C, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def orthogonal():
        got = float(answer(torch.eye(6, dtype=torch.float64), 2))
        if abs(got) < 1e-9:
            return None
        if np.isnan(got):
            return "the vectors live in the stream's width, and a map is a row of what PyTorch stores: some columns here are zero"
        if abs(got - 1 / 3) < 1e-9:
            return "orthogonal maps have cosine 0, you say 0.333: a map's cosine with itself does not count"
        return f"orthogonal maps have cosine 0, you say {got:.4f}"

    def value():
        for seed in (1, 2):
            w = instance(seed)
            got, want = float(answer(w.clone(), 2)), _cosine(w.unflatten(0, (2, 3)))
            if abs(got - want) > 1e-9:
                return _slip_of_cosine(w, got, want)
        return None

    def scale():
        w = instance(3)
        one, two = float(answer(w.clone(), 2)), float(answer(w * torch.arange(1, 7)[:, None], 2))
        return None if abs(one - two) < 1e-9 else "maps of other lengths change your answer: a cosine knows no length"

    return grade("my_cosine", [orthogonal, value, scale])


def _cosine(heads, absolute=True):
    unit = heads / heads.norm(dim=-1, keepdim=True)
    cosines = unit @ unit.transpose(-2, -1)
    off = ~torch.eye(heads.shape[-2], dtype=torch.bool)
    values = cosines[:, off]
    return float((values.abs() if absolute else values).mean())


def _slip_of_cosine(w, got, want):
    said = f"two heads of three maps: {want:.4f}, you say {got:.4f}"
    heads = w.unflatten(0, (2, 3))
    for other, hint in (
        (_cosine(w[None]), "maps of different heads are never compared: split the rows into heads first"),
        (_cosine(heads.transpose(1, 2)), "the vectors live in the stream's width: a map is a row of what PyTorch stores"),
        (_cosine(w.unflatten(0, (3, 2)).transpose(0, 1)), "the rows of a head lie side by side"),
        (_cosine(heads, absolute=False), "signs cancel: take absolute values before the mean"),
        (_cosine(w.T[None]), "the vectors live in the stream's width: a map is a row of what PyTorch stores"),
    ):
        if abs(got - other) < 1e-9:
            return f"{said}: {hint}"
    return said


# --- how focused is attention ------------------------------------------------------------------


def check_focus(answer) -> Report:
    """Grade `my_focus(rows)`: mean over heads of the entropy of attention over the largest possible one, (H, T) -> 0 to 1."""

    def says(rows):
        return float(answer(np.array(rows, dtype=float)))

    def even():
        got = says(np.full((2, 8), 1 / 8))
        if abs(got - 1) < 1e-9:
            return None
        if abs(got - 3) < 1e-9 or abs(got - np.log(8)) < 1e-9:
            return f"eight tokens, evenly: 1 is as unfocused as can be, you say {got:.3f}; divide by the logarithm of the number of tokens"
        return f"attention spread evenly is 1, you say {got:.3f}"

    def apart():
        got = says([[1, 0, 0, 0], [0, 0, 1, 0]])
        if np.isnan(got):
            return "a weight of 0 contributes nothing, and 0 times its logarithm is not a number: leave it out"
        if abs(got - 0.5) < 1e-9:
            return "each of two heads looks at one token, so both are focused: average after the entropies, not before"
        return None if abs(got) < 1e-9 else f"each of two heads looks at one token: 0, you say {got:.3f}"

    def value():
        rows = np.random.default_rng(3).dirichlet(np.ones(6), 3)
        each = -(rows * np.log(rows)).sum(1) / np.log(6)
        got = says(rows)
        if abs(got - each.mean()) < 1e-9:
            return None
        if abs(got - each.sum()) < 1e-9:
            return "the mean over heads, not the sum"
        if abs(got - (1 - each.mean())) < 1e-9:
            return "that is how focused it is; the entropy is wanted"
        if abs(got - each[0]) < 1e-9:
            return "that is one head only"
        return f"three heads: {each.mean():.4f}, you say {got:.4f}"

    return grade("my_focus", [even, apart, value])


# --- matched prompts ---------------------------------------------------------------------------


def check_matched(answer) -> Report:
    """Grade `my_matched(a, b)`: as many pairs (i, j) of prompts as there are with the same length and last token."""

    def draw(seed, n):
        rng = np.random.default_rng(seed)
        return [rng.integers(0, 3, rng.integers(2, 5)).tolist() for _ in range(n)]

    def pairs_of(a, b):
        return [(int(i), int(j)) for i, j in answer([list(x) for x in a], [list(x) for x in b])]

    def alike():
        for seed in range(4):
            a, b = draw(seed, 12), draw(seed + 50, 15)
            for i, j in pairs_of(a, b):
                if len(a[i]) != len(b[j]):
                    return f"you pair {a[i]} with {b[j]}: they differ in length"
                if a[i][-1] != b[j][-1]:
                    return f"you pair {a[i]} with {b[j]}: they end in different tokens"
        return None

    def once():
        for seed in range(4):
            found = pairs_of(draw(seed, 12), draw(seed + 50, 15))
            for side, name in ((0, "first"), (1, "second")):
                if max(Counter(pair[side] for pair in found).values(), default=0) > 1:
                    return f"a prompt of the {name} set is used twice: then its vector would be there twice, and share a direction with itself"
        return None

    def many():
        for seed in range(4):
            a, b = draw(seed, 12), draw(seed + 50, 15)
            kinds = [Counter((len(x), x[-1]) for x in some) for some in (a, b)]
            want, got = sum((kinds[0] & kinds[1]).values()), len(pairs_of(a, b))
            if got < want:
                same = sum(x == y for x, y in zip([(len(x), x[-1]) for x in a], [(len(x), x[-1]) for x in b], strict=False))
                hint = ": prompts at different places of the two lists may be paired too" if got == same else ""
                return f"{want} pairs are possible, you give {got}{hint}"
        return None

    return grade("my_matched", [alike, once, many])


# --- values out of a fused map -----------------------------------------------------------------


def check_values(answer) -> Report:
    """Grade `my_values(fused, n_heads)`: the values (B, H, T, C) out of (B, T, 3 H C) written head by head."""
    B, T, H, C = 2, 4, 3, 5

    def instance(seed):
        return torch.randn(B, T, 3 * H * C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def says(x):
        return torch.as_tensor(answer(x.clone(), H))

    def shape():
        got = says(instance(0))
        if got.shape == (B, H, T, C):
            return None
        if got.shape == (B, T, H, C):
            return f"the shape is {tuple(got.shape)}: heads come before tokens, (B, H, T, C)"
        return f"the shape is {tuple(got.shape)}, values of {H} heads have {(B, H, T, C)}"

    def rebuilt():
        """With each head's own pattern, these values give the output that the layer gives."""
        for seed in (1, 2):
            x = instance(seed)
            split = x.reshape(B, T, H, 3, C)
            want, got = split[..., 2, :].transpose(1, 2), says(x)
            if (got - want).abs().max() > 1e-12:
                return _slip_of_values(x, split, got, (B, T, H, C))
        return None

    return grade("my_values", [shape, rebuilt])


def _slip_of_values(x, split, got, sizes):
    B, T, H, C = sizes

    def is_(other):
        return torch.equal(got, other.transpose(1, 2))

    wrong = x.reshape(B, T, 3, H, C)
    if is_(wrong[..., 2, :, :]):
        return "these are the last third of the outputs, as GPT-2 writes them; here query, key and value of one head lie side by side"
    if is_(split[..., 1, :]):
        return "these are the keys: of each head's three blocks the values are the last"
    if is_(split[..., 0, :]):
        return "these are the queries: of each head's three blocks the values are the last"
    if is_(x.reshape(B, T, H, C, 3)[..., 2]):
        return "the channels of a value lie side by side: a head has a block of queries, a block of keys, a block of values"
    return "from these values attention's output cannot be built again: they are a mixture of heads or parts"

"""Stored answers to the exercises of chapter 17: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

from collections import defaultdict

import numpy as np
import torch

# --- my_shares(vectors) -------------------------------------------------------------------------


def shares_by_correlations(vectors):
    values = np.linalg.eigvalsh(np.corrcoef(vectors.T))[::-1]
    return np.clip(values, 0, None) / values.sum()


def _shares(prepare, power=2):
    def answer(vectors):
        size = np.linalg.svd(prepare(vectors), compute_uv=False) ** power
        return size / size.sum()

    return answer


def _standard(x):
    return (x - x.mean(0)) / x.std(0)


def _top_three(vectors):
    size = np.linalg.svd(_standard(vectors), compute_uv=False) ** 2
    return (size / size.sum())[:3]


SHARES_WRONG = [
    (_shares(_standard, 1), "squares of singular values"),
    (_shares(lambda x: x - x.mean(0)), "divide each by its deviation"),
    (_shares(lambda x: x / x.std(0)), "is no variance"),
    (_shares(lambda x: x), "take the mean off, and divide"),
    (_top_three, "one share a component"),
    (lambda x: np.linalg.svd(_standard(x), compute_uv=False) ** 2, "together are 1"),
]

# --- my_jackknife(vectors, measure) -------------------------------------------------------------


def jackknife_by_loop(vectors, measure):
    n, parts = len(vectors), []
    for i in range(n):
        parts.append(measure(vectors[[j for j in range(n) if j != i]]))
    middle = sum(parts) / n
    return ((n - 1) / n * sum((x - middle) ** 2 for x in parts)) ** 0.5


def _jackknife(rule):
    return lambda x, measure: rule(np.array([measure(np.delete(x, i, 0)) for i in range(len(x))]), len(x))


JACKKNIFE_WRONG = [
    (_jackknife(lambda parts, n: parts.std()), "nearly the same data"),
    (_jackknife(lambda parts, n: parts.std() / n**0.5), "not one over the root"),
    (_jackknife(lambda parts, n: parts.std() * (n - 1)), "not n - 1"),
    (_jackknife(lambda parts, n: parts.var() * (n - 1)), "take the root"),
    (_jackknife(lambda parts, n: parts.std(ddof=1) * (n - 1) ** 0.5), "divide the squares by n"),
    (lambda x, measure: float(x[:, 0].std(ddof=1) / len(x) ** 0.5), "you called it on"),
]

# --- my_cosine(weight, n_heads) -----------------------------------------------------------------


def cosine_by_pairs(weight, n_heads):
    C, found = len(weight) // n_heads, []
    for h in range(n_heads):
        maps = weight[h * C : (h + 1) * C]
        for i in range(C):
            for j in range(i):
                found.append(float(torch.nn.functional.cosine_similarity(maps[i], maps[j], dim=0).abs()))
    return sum(found) / len(found)


def _of_heads(heads, absolute=True, diagonal=False):
    unit = heads / heads.norm(dim=-1, keepdim=True)
    cosines = unit @ unit.transpose(-2, -1)
    kept = torch.ones(cosines.shape[-2:], dtype=torch.bool) if diagonal else ~torch.eye(cosines.shape[-1], dtype=torch.bool)
    values = cosines[:, kept]
    return float((values.abs() if absolute else values).mean())


COSINE_WRONG = [
    (lambda w, h: _of_heads(w.unflatten(0, (h, -1)), diagonal=True), "with itself does not count"),
    (lambda w, h: _of_heads(w[None]), "different heads are never compared"),
    (lambda w, h: _of_heads(w.unflatten(0, (h, -1)).transpose(1, 2)), "live in the stream"),
    (lambda w, h: _of_heads(w.unflatten(0, (h, -1)), absolute=False), "signs cancel"),
    (lambda w, h: _of_heads(w.unflatten(0, (-1, h)).transpose(0, 1)), "lie side by side"),
]

# --- my_focus(rows) -----------------------------------------------------------------------------


def focus_by_loop(rows):
    found = []
    for row in rows:
        found.append(-sum(p * np.log(p) for p in row if p > 0) / np.log(len(row)))
    return float(np.mean(found))


def _bits(rows):
    safe = np.where(rows > 0, rows, 1)
    return -(rows * np.log2(safe)).sum(-1)


def _nan(rows):
    with np.errstate(all="ignore"):
        return float((-(rows * np.log2(rows)).sum(-1) / np.log2(rows.shape[-1])).mean())


FOCUS_WRONG = [
    (lambda rows: _bits(rows).mean(), "divide by the logarithm"),
    (lambda rows: _bits(rows.mean(0)) / np.log2(rows.shape[-1]), "average after the entropies"),
    (_nan, "leave it out"),
    (lambda rows: _bits(rows[0]) / np.log2(rows.shape[-1]), "one head only"),
]

# --- my_matched(a, b) ---------------------------------------------------------------------------


def matched_by_shelves(a, b):
    shelves = defaultdict(list)
    for j, prompt in enumerate(b):
        shelves[len(prompt), prompt[-1]].append(j)
    found = []
    for i, prompt in enumerate(a):
        shelf = shelves[len(prompt), prompt[-1]]
        if shelf:
            found.append((i, shelf.pop()))
    return found


def _greedy(same, reuse=False):
    def answer(a, b):
        found, used = [], set()
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                if same(x, y) and (reuse or j not in used):
                    found.append((i, j))
                    used.add(j)
                    break
        return found

    return answer


def _zipped(a, b):
    return [(i, i) for i, (x, y) in enumerate(zip(a, b, strict=False)) if len(x) == len(y) and x[-1] == y[-1]]


MATCHED_WRONG = [
    (_greedy(lambda x, y: len(x) == len(y)), "end in different tokens"),
    (_greedy(lambda x, y: x[-1] == y[-1]), "differ in length"),
    (_greedy(lambda x, y: len(x) == len(y) and x[-1] == y[-1], reuse=True), "is used twice"),
    (_zipped, "at different places"),
]

# --- my_values(fused, n_heads) ------------------------------------------------------------------


def values_by_slices(fused, n_heads):
    C = fused.shape[-1] // n_heads // 3
    return torch.stack([fused[..., (3 * h + 2) * C : (3 * h + 3) * C] for h in range(n_heads)], 1)


VALUES_WRONG = [
    (lambda x, h: x.unflatten(-1, (3, h, -1))[..., 2, :, :].transpose(1, 2), "last third"),
    (lambda x, h: x.unflatten(-1, (h, 3, -1))[..., 1, :].transpose(1, 2), "these are the keys"),
    (lambda x, h: x.unflatten(-1, (h, -1, 3))[..., 2].transpose(1, 2), "channels of a value"),
    (lambda x, h: x.unflatten(-1, (h, 3, -1))[..., 2, :], "heads come before tokens"),
]

ANSWERS = {
    "check_shares": {
        "alternative": shares_by_correlations, "shape_stub": lambda x: np.full(x.shape[1], 1 / x.shape[1]), "wrong": SHARES_WRONG,
    },
    "check_jackknife": {"alternative": jackknife_by_loop, "shape_stub": lambda x, measure: 1.0, "wrong": JACKKNIFE_WRONG},
    "check_cosine": {"alternative": cosine_by_pairs, "shape_stub": lambda w, h: 0.1, "wrong": COSINE_WRONG},
    "check_focus": {"alternative": focus_by_loop, "shape_stub": lambda rows: 0.5, "wrong": FOCUS_WRONG},
    "check_matched": {"alternative": matched_by_shelves, "shape_stub": lambda a, b: [(0, 0)], "wrong": MATCHED_WRONG},
    "check_values": {
        "alternative": values_by_slices,
        "shape_stub": lambda x, h: torch.zeros(x.shape[0], h, x.shape[1], x.shape[2] // h // 3, dtype=x.dtype), "wrong": VALUES_WRONG,
    },
}

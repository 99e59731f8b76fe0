"""Stored answers to the exercises of chapter 20: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import itertools

import torch

# --- my_posterior(rolls, n_faces, strength) -----------------------------------------------------


def posterior_by_loop(rolls, n_faces, strength):
    found = torch.empty(*rolls.shape, n_faces, dtype=torch.float64)
    for b, row in enumerate(rolls.tolist()):
        urn = [strength] * n_faces
        for k, face in enumerate(row):
            urn[face] += 1
            found[b, k] = torch.tensor(urn, dtype=torch.float64) / sum(urn)
    return found


def _counts(rolls, n_faces):
    return torch.nn.functional.one_hot(rolls, n_faces).cumsum(1).double()


def _shares(counts):
    return counts / counts.sum(-1, keepdim=True)


def _before(rolls, n_faces, strength):
    return _shares(_counts(rolls, n_faces) - torch.nn.functional.one_hot(rolls, n_faces) + strength)


def _faded(rolls, n_faces, strength):
    counts, found = torch.full((len(rolls), n_faces), float(strength), dtype=torch.float64), []
    for k in range(rolls.shape[1]):
        new = torch.nn.functional.one_hot(rolls[:, k], n_faces)
        counts = (counts if k == 0 else 0.9 * counts) + new
        found.append(_shares(counts))
    return torch.stack(found, 1)


POSTERIOR_WRONG = [
    (lambda x, n, a: _shares(_counts(x, n)), "where does the strength enter"),
    (lambda x, n, a: _shares(_counts(x, n) + 1), "as if it were 1"),
    (_before, "the roll at k counts as seen"),
    (_faded, "it is a count"),
    (lambda x, n, a: _counts(x, n) + a, "sum to 1"),
]

# --- my_calibration(posterior, targets) ---------------------------------------------------------


def calibration_by_loop(posterior, targets):
    rows = []
    for p, y in zip(posterior, targets, strict=True):
        rows.append(sum(float(p[k, y[k]] - p[k] @ p[k]) for k in range(len(y))) / len(y))
    mean = sum(rows) / len(rows)
    spread = (sum((row - mean) ** 2 for row in rows) / (len(rows) - 1)) ** 0.5
    return mean / (spread / len(rows) ** 0.5)


def _cells(p, y):
    return p.gather(-1, y[..., None])[..., 0] - p.square().sum(-1)


def _over_cells(p, y):
    cells = _cells(p, y).flatten()
    return float(cells.mean() / (cells.std() / len(cells) ** 0.5))


def _unexpected(p, y):
    rows = p.gather(-1, y[..., None])[..., 0].mean(1)
    rows = rows - 1
    return float(rows.mean() / (rows.std() / len(rows) ** 0.5))


CALIBRATION_WRONG = [
    (lambda p, y: -calibration_by_loop(p, y), "Yours is positive"),
    (lambda p, y: float(_cells(p, y).mean()), "divide the mean by its error"),
    (_over_cells, "no new evidence"),
    (_unexpected, "subtract what is expected"),
]

# --- my_reweigh(weights, likelihoods) -----------------------------------------------------------


def reweigh_by_steps(weights, likelihoods):
    for row in likelihoods:
        weights = weights * row
        weights = weights / weights.sum()
    return weights


REWEIGH_WRONG = [
    (lambda w, x: w * x.prod(0), "sum to 1"),
    (lambda w, x: w * x.mean(0) / (w * x.mean(0)).sum(), "evidence multiplies"),
    (lambda w, x: w * x[-1] / (w * x[-1]).sum(), "the last symbol only"),
    (lambda w, x: x.log().sum(0).softmax(0), "starts from even odds"),
    (lambda w, x: w * x.prod(0) / (w * x.prod(0)).sum(), "add logarithms"),
]

# --- my_which(move, emit, symbols) --------------------------------------------------------------


def which_by_blocks(move, emit, symbols):
    """The list as one chain of M S states."""
    M, S = emit.shape[:2]
    big, told = torch.block_diag(*move), emit.flatten(0, 1)
    belief = torch.full((M * S,), 1 / (M * S), dtype=torch.float64) * told[:, symbols[0]]
    for x in symbols[1:]:
        belief = (belief @ big) * told[:, x]
    return belief.view(M, S).sum(1) / belief.sum()


def _each_normalised(move, emit, symbols):
    return torch.full((len(move),), 1 / len(move), dtype=torch.float64)


def _moves_first(move, emit, symbols):
    M, S = emit.shape[:2]
    belief = torch.full((M, S), 1 / (M * S), dtype=torch.float64)
    for x in symbols:
        belief = torch.einsum("ms,mst->mt", belief, move) * emit[:, :, x]
    return belief.sum(1) / belief.sum()


def _stays(move, emit, symbols):
    total = emit[:, :, symbols].prod(-1).sum(1)
    return total / total.sum()


def _independent(move, emit, symbols):
    total = emit.mean(1)[:, symbols].prod(1)
    return total / total.sum()


WHICH_WRONG = [
    (_each_normalised, "not model by model"),
    (_moves_first, "does the chain move before it"),
    (_stays, "never moves"),
    (_independent, "symbols as independent"),
    (lambda t, e, x: which_by_blocks(t.transpose(1, 2), e, x), "from j to i"),
]

# --- my_no_which(joint, move, emit) -------------------------------------------------------------


def no_which_by_loop(joint, move, emit):
    found = torch.zeros(emit.shape[-1], dtype=torch.float64)
    for belief, t, e in zip(joint, move, emit, strict=True):
        found += (belief / belief.sum()) @ t @ e / len(joint)
    return found


def _exact(joint, move, emit):
    return torch.einsum("ms,mst,mtv->v", joint, move, emit)


NO_WHICH_WRONG = [
    (_exact, "that is the exact answer"),
    (lambda j, t, e: _exact(j / j.sum(0), t, e), "not over the models"),
    (lambda j, t, e: torch.einsum("ms,msv->v", j / j.sum(1, keepdim=True) / len(j), e), "the state moves once"),
    (lambda j, t, e: _exact(torch.full_like(j, 1 / j.numel()), t, e), "believes all states equally"),
    (lambda j, t, e: _exact(j / j.sum(1, keepdim=True), t, e), "sums to 1, yours"),
]

# --- my_hybrid(own, donor, move, emit) ----------------------------------------------------------


def hybrid_by_joint(own, donor, move, emit):
    return _exact(own * (donor.sum(1) / own.sum(1))[:, None], move, emit)


HYBRID_WRONG = [
    (lambda a, b, t, e: _exact(b, t, e), "the donor's whole answer"),
    (lambda a, b, t, e: _exact(a, t, e), "does not depend on the donor"),
    (lambda a, b, t, e: hybrid_by_joint(b, a, t, e), "turned round"),
    (lambda a, b, t, e: _exact(a * b, t, e), "sums to 1"),
    (lambda a, b, t, e: _exact(a * b / (a * b).sum(), t, e), "where donor and own are the same"),
]

# --- my_prior(maps, keys, values, weight) -------------------------------------------------------


def prior_by_odds(maps, keys, values, weight):
    """Each observer answers alone, and the odds of the set move with the evidence."""
    few, n_few = _share(maps, keys, values)
    many, n_many = _share(_all_maps(maps.shape[1]), keys, values)
    evidence = weight * n_few, (1 - weight) * n_many
    return (evidence[0] * few + evidence[1] * many) / sum(evidence)


def _all_maps(n):
    return torch.tensor(list(itertools.permutations(range(n))))


def _share(maps, keys, values):
    left = maps[(maps[:, keys[:-1]] == values).all(1)]
    counts = torch.bincount(left[:, keys[-1]], minlength=maps.shape[1]).double()
    return counts / max(1, len(left)), len(left) / len(maps)


def _unmoved(maps, keys, values, w):
    return w * _share(maps, keys, values)[0] + (1 - w) * _share(_all_maps(maps.shape[1]), keys, values)[0]


def _each_once(maps, keys, values, w):
    few, n_few = _share(maps, keys, values)
    many, n_many = _share(_all_maps(maps.shape[1]), keys, values)
    found = w * few * n_few * len(maps) + (1 - w) * many * n_many * 24
    return found / found.sum()


def _no_elimination(maps, keys, values, w):
    few = _share(maps, keys, values)[0]
    return (1 - w) / len(few) + w * few


def _either(maps, keys, values, w):
    if w in (0, 1):
        return prior_by_odds(maps, keys, values, w)
    few, many = _share(maps, keys, values), _share(_all_maps(maps.shape[1]), keys, values)
    return few[0] if w * few[1] >= (1 - w) * many[1] else many[0]


PRIOR_WRONG = [
    (_unmoved, "keeps the prior weight"),
    (_each_once, "counts each map once"),
    (_no_elimination, "with weight 0"),
    (_either, "add up those of the maps that agree"),
    (lambda m, k, v, w: prior_by_odds(m, k, v, 0 * w), "with weight 1"),
]

ANSWERS = {
    "check_posterior": {
        "alternative": posterior_by_loop, "shape_stub": lambda x, n, a: torch.full((*x.shape, n), 1 / n).double(),
        "wrong": POSTERIOR_WRONG,
    },
    "check_calibration": {"alternative": calibration_by_loop, "shape_stub": lambda p, y: 0.0, "wrong": CALIBRATION_WRONG},
    "check_reweigh": {"alternative": reweigh_by_steps, "shape_stub": lambda w, x: w, "wrong": REWEIGH_WRONG},
    "check_which": {"alternative": which_by_blocks, "shape_stub": _each_normalised, "wrong": WHICH_WRONG},
    "check_no_which": {
        "alternative": no_which_by_loop, "shape_stub": lambda j, t, e: torch.full((e.shape[-1],), 1 / e.shape[-1]).double(),
        "wrong": NO_WHICH_WRONG,
    },
    "check_hybrid": {
        "alternative": hybrid_by_joint, "shape_stub": lambda a, b, t, e: torch.full((e.shape[-1],), 1 / e.shape[-1]).double(),
        "wrong": HYBRID_WRONG,
    },
    "check_prior": {
        "alternative": prior_by_odds, "shape_stub": lambda m, k, v, w: torch.full((m.shape[1],), 1 / m.shape[1]).double(),
        "wrong": PRIOR_WRONG,
    },
}

"""Stored answers to the exercises of chapter 15: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import torch

# --- my_score_gradient(pattern, b) --------------------------------------------------------------


def score_gradient_by_jacobian(pattern, b):
    rows = [(torch.diag(p) - torch.outer(p, p)) @ slope for p, slope in zip(pattern, b, strict=True)]
    return torch.stack(rows)


SCORE_GRADIENT_WRONG = [
    (lambda p, b: p * b, "what the query gets now"),
    (lambda p, b: b - (p * b).sum(-1, keepdim=True), "its own attention"),
    (lambda p, b: p * (b - b.mean(-1, keepdim=True)), "not the plain one"),
    (lambda p, b: -score_gradient_by_jacobian(p, b), "the other sign"),
    (lambda p, b: score_gradient_by_jacobian(p, b).sum(0), "has the shape of the scores"),
]

# --- my_value_step(pattern, upstream, rate) -----------------------------------------------------


def value_step_by_loop(pattern, upstream, rate):
    moved = torch.zeros(pattern.shape[1], upstream.shape[1], dtype=upstream.dtype)
    for weights, u in zip(pattern, upstream, strict=True):
        moved -= rate * torch.outer(weights, u)
    return moved


def _per_mass(pattern, upstream, rate):
    return -rate * pattern.T @ upstream / pattern.sum(0)[:, None]


def _mean_step(pattern, upstream, rate):
    return value_step_by_loop(pattern, upstream, rate) / pattern.sum(0).clamp(min=1e-9)[:, None]


VALUE_STEP_WRONG = [
    (lambda p, u, r: -value_step_by_loop(p, u, r), "descent subtracts"),
    (lambda p, u, r: value_step_by_loop(p, u, 1.0), "the rate is missing"),
    (_per_mass, "no division is needed"),
    (_mean_step, "would be the step of a mean"),
    (lambda p, u, r: -r * u, "nobody looks at it"),
]

# --- my_shared(pattern, upstream, n_groups) -----------------------------------------------------


def shared_by_loop(pattern, upstream, n_groups):
    share = len(pattern) // n_groups
    found = torch.zeros(n_groups, *upstream.shape[1:], dtype=upstream.dtype)
    for h, (p, u) in enumerate(zip(pattern, upstream, strict=True)):
        found[h // share] += p.T @ u
    return found


def _interleaved(p, u, g):
    each = p.transpose(-2, -1) @ u
    return torch.stack([each[i::g].sum(0) for i in range(g)])


SHARED_WRONG = [
    (lambda p, u, g: shared_by_loop(p, u, g) / (len(p) // g), "yours are averaged"),
    (_interleaved, "stand side by side"),
    (lambda p, u, g: (p.transpose(-2, -1) @ u)[:: len(p) // g], "only the first head"),
    (lambda p, u, g: shared_by_loop(p.transpose(-2, -1), u, g), "turned round"),
    (lambda p, u, g: p.transpose(-2, -1) @ u, "there are 2 value heads"),
]

# --- my_gain(pattern, upstream, rate) -----------------------------------------------------------


def gain_by_kernel(pattern, upstream, rate):
    return -rate * torch.trace(upstream.T @ pattern @ pattern.T @ upstream).item()


GAIN_WRONG = [
    (lambda p, u, r: -gain_by_kernel(p, u, r), "lowers the loss"),
    (lambda p, u, r: gain_by_kernel(p, u, 1.0), "the rate"),
    (lambda p, u, r: -r * float(u.square().sum()), "do not move freely"),
    (lambda p, u, r: -r * float((p @ u).square().sum()), "turn the pattern round"),
    (lambda p, u, r: -r * float((p.T @ u).norm()), "square of the length"),
]

# --- my_through_map(inputs, pattern, upstream, rate) --------------------------------------------


def through_map_by_autograd(inputs, pattern, upstream, rate):
    weight = torch.zeros(inputs.shape[1], upstream.shape[1], dtype=inputs.dtype, requires_grad=True)
    (upstream * (pattern @ (inputs @ weight))).sum().backward()
    return -rate * inputs @ weight.grad


THROUGH_MAP_WRONG = [
    (lambda x, p, u, r: -r * p.T @ u, "all tokens share it"),
    (lambda x, p, u, r: -through_map_by_autograd(x, p, u, r), "descent subtracts"),
    (lambda x, p, u, r: through_map_by_autograd(x, p, u, 1.0), "the rate is missing"),
    (lambda x, p, u, r: through_map_by_autograd(x, p.T, u, r), "turn the pattern round"),
]

# --- my_rescaled(value, output, c) --------------------------------------------------------------


def rescaled_by_matrix(value, output, c):
    M = c * torch.eye(value.shape[1], dtype=value.dtype)
    return value @ M, torch.linalg.solve(M, output)


RESCALED_WRONG = [
    (lambda v, o, c: (c * v, o), "has to undo it"),
    (lambda v, o, c: (c * v, c * o), "both maps"),
    (lambda v, o, c: (v / c, c * o), "become shorter"),
    (lambda v, o, c: (c**2 * v, o / c**2), "not c times the old one"),
]

ANSWERS = {
    "check_score_gradient": {
        "alternative": score_gradient_by_jacobian, "shape_stub": lambda p, b: torch.zeros_like(p),
        "wrong": SCORE_GRADIENT_WRONG,
    },
    "check_value_step": {
        "alternative": value_step_by_loop, "shape_stub": lambda p, u, r: torch.zeros_like(u), "wrong": VALUE_STEP_WRONG,
    },
    "check_shared": {
        "alternative": shared_by_loop, "shape_stub": lambda p, u, g: torch.zeros(g, *u.shape[1:], dtype=u.dtype),
        "wrong": SHARED_WRONG,
    },
    "check_gain": {"alternative": gain_by_kernel, "shape_stub": lambda p, u, r: -1.0, "wrong": GAIN_WRONG},
    "check_through_map": {
        "alternative": through_map_by_autograd, "shape_stub": lambda x, p, u, r: torch.zeros_like(u),
        "wrong": THROUGH_MAP_WRONG,
    },
    "check_rescaled": {
        "alternative": rescaled_by_matrix, "shape_stub": lambda v, o, c: (torch.zeros_like(v), torch.zeros_like(o)),
        "wrong": RESCALED_WRONG,
    },
}

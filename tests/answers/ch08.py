"""Stored answers to the exercises of chapter 8: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math

import numpy as np
import torch

from bayeswind_lib.baselines import switching

# --- my_price(n_pairs, n_values, bits) ----------------------------------------------------------


def price_by_sum(n_pairs, n_values, bits):
    needed = sum(math.log2(n_values - i) for i in range(n_pairs))
    return 0.0 if bits > needed else needed / n_pairs - bits / n_pairs


def _needed(N, V):
    return math.log2(math.perm(V, N))


PRICE_WRONG = [
    (lambda N, V, b: (_needed(N, V) - b) / N, "no divergence is negative"),
    (lambda N, V, b: max((math.log(math.perm(V, N)) - b * math.log(2)) / N, 0), "in nats"),
    (lambda N, V, b: max(_needed(N, V) - b, 0), "the price is a mean"),
    (lambda N, V, b: max(math.log2(V) - b / N, 0), "no value is given twice"),
    (lambda N, V, b: max((math.log2(math.comb(V, N)) - b) / N, 0), "exchange their values"),
    (lambda N, V, b: max(_needed(N, V) / N - b, 0), "the bits, too"),
]

# --- my_carry(log_odds, hazard) -----------------------------------------------------------------


def carry_by_softplus(log_odds, hazard):
    stays, moves = math.log(1 - hazard), math.log(hazard)
    zero = torch.zeros_like(log_odds)
    return torch.logaddexp(log_odds + stays, zero + moves) - torch.logaddexp(log_odds + moves, zero + stays)


def _carry(odds, h):
    return 2 * torch.atanh((1 - 2 * h) * torch.tanh(odds / 2))


CARRY_WRONG = [
    (lambda o, h: (1 - 2 * h) * o, "the leaky integrator"),
    (lambda o, h: (1 - h) * o, "it is probabilities that are mixed"),
    (lambda o, h: -_carry(o, h), "staying has probability"),
    (lambda o, h: _carry(o, h) / math.log(2), "log odds come in nats"),
    (lambda o, h: _carry(o, h).sigmoid(), "turn it into log odds again"),
    (lambda o, h: 2 * torch.atanh(abs(1 - 2 * h) * torch.tanh(o / 2)), "turns the odds round"),
    (lambda o, h: 2 * torch.atanh(max(1 - 2 * h, 0) * torch.tanh(o / 2)), "do not cut it off"),
    (lambda o, h: torch.log(((1 - h) * o.exp() + h) / (h * o.exp() + 1 - h)), "overflows"),
    (lambda o, h: _carry(o, h)[:3], "expected (40,)"),
]

# --- my_best_leak(hazard, reliability) ----------------------------------------------------------


def leak_by_thirds(hazard, reliability):
    """Narrows an interval; every sequence of symbols is run through both filters by itself."""
    given = np.array([[1 if n >> t & 1 else 0 for n in range(1 << 12)] for t in range(12)])
    given = switching.evidence(given, reliability)
    exact = switching.filtered(given, hazard)
    before = np.concatenate([np.zeros((1, 1 << 12)), [switching.carry(x, hazard) for x in exact[:-1]]])
    up = 1 / (1 + np.exp(-before))
    named = np.where(given > 0, up * reliability + (1 - up) * (1 - reliability), up * (1 - reliability) + (1 - up) * reliability)
    chance = named.prod(0)

    def bill(keep):
        return (chance * switching.divergence(exact, switching.leaky(given, keep)).mean(0)).sum()

    low, high = 0.0, 1.0
    while high - low > 0.002:
        third = (high - low) / 3
        low, high = (low, high - third) if bill(low + third) < bill(high - third) else (low + third, high)
    return (low + high) / 2


def _bills(hazard, reliability):
    return switching.expected_kl(hazard, reliability, np.linspace(0, 1, 101))


def _first_symbol_only(hazard, reliability):
    step = math.log(reliability / (1 - reliability))
    return float(switching.carry(step, hazard)) / step


LEAK_WRONG = [
    (lambda h, r: 1 - 2 * h, "the slope at even odds"),
    (lambda h, r: 1 - h, "the probability to stay"),
    (_first_symbol_only, "exact after the first symbol"),
    (lambda h, r: _bills(h, r).min(), "yours is the divergence"),
    (lambda h, r: _bills(h, r).argmin(), "a place in a list"),
    (lambda h, r: np.linspace(0, 1, 101)[_bills(h, r).argmax()], "not the least"),
    (lambda h, r: 0.9 * np.linspace(0, 1, 101)[_bills(h, r).argmin()], "yours costs"),
]

# --- my_step(x, h, c, W, U, b) ------------------------------------------------------------------


def step_by_rows(x, h, c, W, U, b):
    """One gate at a time."""
    D = h.shape[1]
    block = [x @ W[k * D : (k + 1) * D].T + h @ U[k * D : (k + 1) * D].T + b[k * D : (k + 1) * D] for k in range(4)]
    cell = c / (1 + torch.exp(-block[1])) + block[2].tanh() / (1 + torch.exp(-block[0]))
    return torch.tanh(cell) / (1 + torch.exp(-block[3])), cell


def _gates(x, h, c, W, U, b):
    return (x @ W.T + h @ U.T + b).chunk(4, dim=-1)


def _step(cell_of, hidden_of=lambda o, new, old: o.sigmoid() * new.tanh(), bias=1):
    def step(x, h, c, W, U, b):
        i, f, g, o = _gates(x, h, c, W, U, bias * b)
        new = cell_of(i, f, g, o, c)
        return hidden_of(o, new, c), new

    return step


def _right(i, f, g, o, c):
    return f.sigmoid() * c + i.sigmoid() * g.tanh()


STEP_WRONG = [
    (_step(_right, lambda o, new, old: o.sigmoid() * new), "the output gate times its *tanh*"),
    (_step(_right, lambda o, new, old: o.sigmoid() * old.tanh()), "you took the old one"),
    (_step(lambda i, f, g, o, c: f.sigmoid() * c + i.sigmoid() * g), "not as it is"),
    (_step(lambda i, f, g, o, c: i.sigmoid() * c + f.sigmoid() * g.tanh()), "input and forget gate are exchanged"),
    (_step(lambda i, f, g, o, c: f.sigmoid() * c + i.sigmoid() * o.tanh()), "the third block"),
    (_step(lambda i, f, g, o, c: f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh()), "two gates"),
    (_step(_right, bias=0), "the bias is missing"),
    (lambda x, h, c, W, U, b: step_by_rows(x, h, c, W, U, b)[0], "return two things"),
]

# --- my_join(first, second) ---------------------------------------------------------------------


def join_by_trying(first, second):
    """Reads both parts off two starts."""
    run = [second[0] * (first[0] * h + first[1]) + second[1] for h in (0.0, 1.0)]
    return run[1] - run[0], run[0]


JOIN_WRONG = [
    (lambda p, q: (p[0] + q[0], q[0] * p[1] + q[1]), "add the decays"),
    (lambda p, q: (p[0] * q[0], p[1] + q[1]), "arrives as it was"),
    (lambda p, q: (p[0] * q[0], p[0] * q[1] + p[1]), "turned round"),
    (lambda p, q: (p[0] * q[0], q[1]), "both intakes"),
    (lambda p, q: (q[0], q[0] * p[1] + q[1]), "one step only"),
    (lambda p, q: q[0] * p[1] + q[1], "a step is a pair"),
]

# --- my_probe(states, beliefs, new_states, new_beliefs, order) ---------------------------------


def _r2(said, truth):
    return float(1 - (truth - said).square().sum() / (truth - truth.mean(0)).square().sum())


def _fit(states, beliefs, ones=True):
    design = torch.cat([states, torch.full_like(states[:, :1], float(ones))], 1)
    weight = torch.linalg.lstsq(design, beliefs, driver="gelsd").solution
    return lambda new: torch.cat([new, torch.full_like(new[:, :1], float(ones))], 1) @ weight


def probe_by_ridge(states, beliefs, new_states, new_beliefs, order):
    """Centred, with a very small ridge; both fits at once."""
    centre, S = states.mean(0), beliefs.shape[1]
    goals = torch.cat([beliefs, beliefs.index_select(0, order)], 1)
    x = states - centre
    weight = torch.linalg.solve(x.T @ x + 1e-6 * torch.eye(x.shape[1], dtype=x.dtype), x.T @ (goals - goals.mean(0)))
    said = (new_states - centre) @ weight + goals.mean(0)
    return [_r2(part, new_beliefs) for part in said.split(S, 1)]


def _columns(s, b, t, u):
    residual = (u - _fit(s, b)(t)).square().sum(0)
    return float((1 - residual / (u - u.mean(0)).square().sum(0)).mean())


def _real(s, b, t, u):
    return _r2(_fit(s, b)(t), u)


def _twice(rule):
    """The same rule for the score and, with the rows in order, for the null."""
    return lambda s, b, t, u, order: (rule(s, b, t, u), rule(s, b[order], t, u))


def _null(rule):
    """A right score, and this null."""
    return lambda s, b, t, u, order: (_real(s, b, t, u), rule(s, b, t, u, order))


PROBE_WRONG = [
    (_twice(lambda s, b, t, u: _r2(_fit(s, b)(s), b)), "rows that were *fitted*"),
    (_twice(lambda s, b, t, u: _r2(_fit(s, b, ones=False)(t), u)), "no constant term"),
    (_twice(lambda s, b, t, u: float(1 - (u - _fit(s, b)(t)).square().sum() / u.square().sum())), "predicting zero"),
    (_twice(lambda s, b, t, u: _r2(_fit(t, u)(t), u)), "fit the probe on the new rows"),
    (_twice(_columns), "over all columns first"),
    (_twice(lambda s, b, t, u: float((u - _fit(s, b)(t)).square().mean())), "not a share"),
    (lambda s, b, t, u, order: _real(s, b, t, u), "return two numbers"),
    (_null(lambda s, b, t, u, order: _real(s[order], b[order], t, u)), "nothing is shuffled"),
    (_null(lambda s, b, t, u, order: _r2(_fit(s, b[order])(s), b[order])), "that it was fitted to"),
    (_null(lambda s, b, t, u, order: _r2(_fit(s, b)(t), u[order])), "you shuffle the new rows"),
    (_null(lambda s, b, t, u, order: _r2(_fit(s, b[order])(t), u[order])), "both tables of beliefs"),
    (_null(lambda s, b, t, u, order: _real(s, b[order.argsort()], t, u)), "undo the order"),
]

# --- my_response(p, new_p, q, new_q) ------------------------------------------------------------


def response_by_rows(p, new_p, q, new_q):
    """Products summed chain by chain."""
    pairs = list(zip((new_p - p).tolist(), (new_q - q).tolist(), strict=True))
    above = sum(a * b for one, other in pairs for a, b in zip(one, other, strict=True))
    return above / sum(a * a for one, _ in pairs for a in one)


def _of_changes(rule):
    return lambda p, new_p, q, new_q: float(rule(new_p - p, new_q - q))


RESPONSE_WRONG = [
    (_of_changes(lambda a, b: b.abs().sum() / a.abs().sum()), "keep the sign"),
    (_of_changes(lambda a, b: (b.abs().sum() / a.abs().sum()) * torch.sign((a * b).sum())), "sizes alone"),
    (_of_changes(lambda a, b: (a * b).sum() / b.square().sum().clamp(min=1e-30)), "a tenth as far the other way"),
    (_of_changes(lambda a, b: ((a * b).sum(-1) / a.square().sum(-1)).mean()), "sum first, divide once"),
    (lambda p, new_p, q, new_q: float((new_p * new_q).sum() / new_p.square().sum()), "does not move at all"),
    (lambda p, new_p, q, new_q: float((p - new_p).mul(new_q - q).sum() / (p - new_p).square().sum()), "own response is 1"),
]


ANSWERS = {
    "check_price": {
        "alternative": price_by_sum,
        "shape_stub": lambda n_pairs, n_values, bits: 0.0,
        "wrong": PRICE_WRONG,
    },
    "check_carry": {
        "alternative": carry_by_softplus,
        "shape_stub": lambda log_odds, hazard: torch.zeros_like(log_odds),
        "wrong": CARRY_WRONG,
    },
    "check_best_leak": {
        "alternative": leak_by_thirds,
        "shape_stub": lambda hazard, reliability: 0.5,
        "wrong": LEAK_WRONG,
    },
    "check_step": {
        "alternative": step_by_rows,
        "shape_stub": lambda x, h, c, W, U, b: (torch.zeros_like(h), torch.zeros_like(c)),
        "wrong": STEP_WRONG,
    },
    "check_join": {
        "alternative": join_by_trying,
        "shape_stub": lambda first, second: (torch.zeros_like(first[0]), torch.zeros_like(first[1])),
        "wrong": JOIN_WRONG,
    },
    "check_probe": {
        "alternative": probe_by_ridge,
        "shape_stub": lambda states, beliefs, new_states, new_beliefs, order: (0.0, 0.0),
        "wrong": PROBE_WRONG,
    },
    "check_response": {
        "alternative": response_by_rows,
        "shape_stub": lambda p, new_p, q, new_q: 1.0,
        "wrong": RESPONSE_WRONG,
    },
}

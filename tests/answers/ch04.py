"""Stored answers to the exercises of chapter 4: other correct ones, stubs, and the usual mistakes.

The mistakes come with words of the hint that each must earn.
"""

import math
from itertools import product

import bayeswind_lib as bw
import torch
from bayeswind_lib.baselines.hmm import WindowFilter, stationary


def _norm(row):
    return row / row.sum(-1, keepdim=True)


# --- my_step(belief, transition, emission, symbol) ------------------------------------------------


def step_by_loops(belief, transition, emission, symbol):
    S = len(belief)
    joint = [sum(belief[i] * transition[i, j] * emission[j, symbol] for i in range(S)) for j in range(S)]
    return [float(x / sum(joint)) for x in joint]


def _row_of_emission(b, T, E, o):
    return _norm((b @ T) * E[o]) if E.shape[0] == E.shape[1] else step_by_loops(b, T, E, o)


STEP_WRONG = [
    (lambda b, T, E, o: (b @ T) * E[:, o], "joint probabilities"),
    (lambda b, T, E, o: _norm(b * E[:, o]), "leave out T"),
    (lambda b, T, E, o: _norm((T @ b) * E[:, o]), "multiplied from the right"),
    (lambda b, T, E, o: b @ T, "the prediction alone"),
    (lambda b, T, E, o: _norm(b * E[:, o]) @ T, "correct first and move afterwards"),
    (lambda b, T, E, o: _norm(E[:, o]), "only the symbol speaks"),
    (_row_of_emission, "a row of E"),
]

# --- my_paths(transition, emission, symbols) -------------------------------------------------------


def paths_by_log(transition, emission, symbols):
    S, K = len(transition), len(symbols)
    paths = torch.tensor(list(product(range(S), repeat=K)))
    log = emission[paths, symbols].log().sum(1) + transition[paths[:, :-1], paths[:, 1:]].log().sum(1)
    share = log.softmax(0)
    return torch.stack([share[paths[:, -1] == s].sum() for s in range(S)])


def _paths(T, E, symbols, collect=-1, best=False, still=False, first_move=False):
    S = len(T)
    ends = torch.zeros(S, dtype=torch.float64)
    for path in product(range(S), repeat=len(symbols)):
        if still and len(set(path)) > 1:
            continue
        weight = E[path[0], symbols[0]] * (T[:, path[0]].sum() if first_move else 1)
        for before, now, o in zip(path, path[1:], symbols[1:], strict=False):
            weight = weight * (1 if still else T[before, now]) * E[now, o]
        end = path[collect]
        ends[end] = max(ends[end], weight) if best else ends[end] + weight
    return ends


PATHS_WRONG = [
    (lambda T, E, o: _norm(_paths(T, E, o, best=True)), "the best path to each state"),
    (lambda T, E, o: _norm(_paths(T.T, E, o)), "T read by columns"),
    (lambda T, E, o: _norm(_paths(T, E, o, collect=0)), "by their first state"),
    (lambda T, E, o: _norm(_paths(T, E, o, still=True)), "never change their state"),
    (lambda T, E, o: _norm(_paths(T, E, o, first_move=True)), "no move comes before it"),
    (lambda T, E, o: _paths(T, E, o), "divide by the sum"),
]

# --- my_other(transition, emission, symbols) --------------------------------------------------------


def _filter(T, E, symbols, start, before_first, T_used=None):
    rows, belief = [], start
    for t, o in enumerate(symbols):
        belief = _norm((belief @ (T if T_used is None else T_used) if t or before_first else belief) * E[:, o])
        rows.append(belief)
    return torch.stack(rows)


def _even(T):
    return torch.full((len(T),), 1 / len(T), dtype=torch.float64)


def other_by_start(transition, emission, symbols):
    """The usual filter, from the distribution after one move."""
    return _filter(transition, emission, symbols, transition.mean(0), False)


OTHER_WRONG = [
    (lambda T, E, o: _filter(T, E, o, T.sum(1) / len(T), False), "in which the start state emits"),
    (lambda T, E, o: _filter(T, E, o, _even(T), False) @ T, "predict the state that comes next"),
    (lambda T, E, o: _filter(T, E, o, _norm(T.sum(1) ** 2 + torch.arange(len(T))), False), "all paths together give"),
    (lambda T, E, o: _filter(T, E, o, stationary(T[None])[0], False), "after very many moves"),
    (lambda T, E, o: _filter(T, E, o, _even(T) @ T, True), "moves twice"),
    (lambda T, E, o: _filter(T, E, o, _even(T), True) * 2, "divide by the sum"),
]

# --- my_row_bits(n, least) ---------------------------------------------------------------------------


def row_bits_by_gamma(n, least):
    free = 100 - n * least
    return (math.lgamma(free + n) - math.lgamma(free + 1) - math.lgamma(n)) / math.log(2)


def _rows(n, least):
    return math.comb(100 - n * least + n - 1, n - 1)


BITS_WRONG = [
    (lambda n, least: math.log(_rows(n, least)), "natural logarithm"),
    (_rows, "asks for the logarithm"),
    (lambda n, least: math.log2(math.comb(100 + n - 1, n - 1)), "you count 0 + 100 too"),
    (lambda n, least: n * math.log2(101 - least), "the places are not free"),
    (lambda n, least: (n - 1) * math.log2(100 - n * least + 1), "not free one by one"),
    (lambda n, least: math.log2(_rows(n, least) / (math.factorial(n) if n > 2 else 1)), "by the orders of the entries"),
]

# --- my_stationary(transition) -----------------------------------------------------------------------


def stationary_by_eigenvector(transition):
    values, vectors = torch.linalg.eig(transition.T)
    vector = vectors[:, (values - 1).abs().argmin()].real
    return vector / vector.sum()


def _raw_eigenvector(T):
    pi = stationary_by_eigenvector(T)
    return pi / pi.norm()


STATIONARY_WRONG = [
    (_even, "the eigenvector on the right"),
    (_raw_eigenvector, "has no scale of its own"),
    (lambda T: _even(T) @ T, "after a single move"),
    (lambda T: _even(T) @ torch.linalg.matrix_power(T, 100), "many more moves are needed"),
    (lambda T: torch.linalg.matrix_power(T, 2**20)[0], "never settle"),
    (lambda T: torch.linalg.eig(T.T)[1][:, 0], "complex numbers"),
]

# --- my_impostor(posterior) --------------------------------------------------------------------------


def impostor_by_ranks(posterior):
    """Each state gets the probability of the opposite rank."""
    ascending = posterior.sort(-1).values
    rank = posterior.argsort(-1).argsort(-1)
    return ascending.gather(-1, posterior.shape[-1] - 1 - rank)


IMPOSTOR_WRONG = [
    (lambda p: p, "the truth itself"),
    (lambda p: torch.full_like(p, 1 / p.shape[-1]), "at another state"),
    (lambda p: p.roll(1, -1), "the same renaming everywhere"),
    (lambda p: p.sort(-1, descending=True).values, "among all renamings"),
    (lambda p: 1 - p, "divide by the sum"),
]

# --- my_rate(transition) -----------------------------------------------------------------------------


def rate_by_powers(transition):
    rest = transition - stationary(transition[None])[0]
    logs = 0.0
    for n in range(40):
        logs += math.log(rest.norm()) / 2**n
        rest = rest / rest.norm()
        rest = rest @ rest
    return math.exp(logs)


def _real_part(T):
    return torch.linalg.eigvals(T).real.sort(descending=True).values[1]


RATE_WRONG = [
    (lambda T: torch.linalg.eigvals(T).abs().max(), "never forgotten"),
    (lambda T: torch.linalg.eigvals(T).real.sort(descending=True).values[1], "changes its sign"),
    (lambda T: torch.linalg.svdvals(T)[1], "singular value"),
    (lambda T: torch.linalg.eigvalsh(T).sort().values[-2], "T is not symmetric"),
    (lambda T: _real_part(T).abs(), "real parts alone"),
    (lambda T: torch.linalg.eigvals(T).abs().min(), "the slowest of the differences"),
    (lambda T: torch.linalg.eigvals(T)[torch.linalg.eigvals(T).abs().argsort()[-2]], "complex number"),
]

# --- my_memory(tunnel, episodes, bits) ---------------------------------------------------------------


def memory_by_halving(tunnel, episodes, bits):
    """Errors fall with the window, so halve the interval."""
    low, high = 0, tunnel.length
    while high - low > 1:
        middle = (low + high) // 2
        score = bw.scoring.score_episodes(WindowFilter(tunnel, middle), episodes)
        low, high = (low, middle) if score.entropy_mae <= bits else (middle, high)
    return high


def _memory(tunnel, episodes, bits, start="stationary", measure="entropy_mae", strict=False):
    for window in range(1, tunnel.length + 1):
        value = getattr(bw.scoring.score_episodes(WindowFilter(tunnel, window, start), episodes), measure)
        if value < bits or (value == bits and not strict):
            return window
    return tunnel.length


MEMORY_WRONG = [
    (lambda t, e, b: _memory(t, e, b, strict=True), "exactly that"),
    (lambda t, e, b: _memory(t, e, b, measure="kl"), "you compare the KL"),
    (lambda t, e, b: _memory(t, e, b, "uniform"), "start from the even belief"),
    (lambda t, e, b: _memory(t, e, b, measure="entropy_curve_mae"), "absolute values"),
    (lambda t, e, b: _memory(t, e, b) - 1, "still too bad"),
    (lambda t, e, b: t.length, "the smallest is asked"),
]


ANSWERS = {
    "check_step": {
        "alternative": step_by_loops,
        "shape_stub": lambda belief, transition, emission, symbol: torch.full_like(belief, 1 / len(belief)),
        "wrong": STEP_WRONG,
    },
    "check_paths": {
        "alternative": paths_by_log,
        "shape_stub": lambda transition, emission, symbols: _even(transition),
        "wrong": PATHS_WRONG,
    },
    "check_other": {
        "alternative": other_by_start,
        "shape_stub": lambda transition, emission, symbols: torch.full((len(symbols), len(transition)), 1 / len(transition)),
        "wrong": OTHER_WRONG,
    },
    "check_row_bits": {
        "alternative": row_bits_by_gamma,
        "shape_stub": lambda n, least: 1.0,
        "wrong": BITS_WRONG,
    },
    "check_stationary": {
        "alternative": stationary_by_eigenvector,
        "shape_stub": lambda transition: torch.eye(len(transition))[0],
        "wrong": STATIONARY_WRONG,
    },
    "check_impostor": {
        "alternative": impostor_by_ranks,
        "shape_stub": lambda posterior: torch.eye(posterior.shape[-1])[0].expand_as(posterior),
        "wrong": IMPOSTOR_WRONG,
    },
    "check_rate": {
        "alternative": rate_by_powers,
        "shape_stub": lambda transition: 0.5,
        "wrong": RATE_WRONG,
    },
    "check_memory": {
        "alternative": memory_by_halving,
        "shape_stub": lambda tunnel, episodes, bits: 4,
        "wrong": MEMORY_WRONG,
    },
}

"""Checks for chapter 4, "The HMM tunnel".

Every check states properties and tries them on random instances. Beliefs are compared with a sum
over all paths of a small chain, impostors with all renamings of the states, windows with the
book's evaluator.

Axes: B episodes, K steps, S states, V symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations, product

import torch

from bayeswind_lib import scoring, tunnels
from bayeswind_lib.baselines import hmm as baselines
from bayeswind_lib.exercises.core import Report, grade


def _number(value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _probabilities(got, shape: tuple[int, ...]) -> tuple[torch.Tensor, str | None]:
    """The answer as float64, and a hint if it has another shape or its rows are no distributions."""
    got = torch.as_tensor(got).double()
    if got.shape != shape:
        return got, f"the result has shape {tuple(got.shape)}, expected {shape}"
    if got.isnan().any() or got.min() < 0:
        return got, "a probability is negative or not a number"
    if (got.sum(-1) - 1).abs().max() > 1e-6:
        return got, f"a belief sums to {got.sum(-1).flatten()[0]:.4f}: divide by the sum at the end of a step"
    return got, None


def _close(got: torch.Tensor, want: torch.Tensor) -> bool:
    return torch.allclose(got, want.double(), rtol=0, atol=1e-7)


def _told(row: torch.Tensor) -> str:
    return ", ".join(f"{p:.3f}" for p in row.tolist())


def _chains(seed: int, sizes) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Transition (S, S), emission (S, V) and symbols (K,) for every (S, V, K)."""
    found = []
    for number, (S, V, K) in enumerate(sizes):
        tunnel = tunnels.HMM(S, V, K, generator="raw")
        latents = tunnel.sample(1, torch.Generator().manual_seed(100 * seed + number)).latents
        found.append(tuple(latents[name][0] for name in ("transition", "emission", "observations")))
    return found


def _paths_sum(T, E, symbols, moves_first: bool = False, only: Callable | None = None) -> torch.Tensor:
    """The belief after the last symbol, path by path; `only` takes a path's weight to another."""
    S = len(T)
    ends = torch.zeros(S, dtype=torch.float64)
    for path in product(range(S), repeat=len(symbols)):
        start = T[:, path[0]].mean() if moves_first else 1 / S
        weight = float(start * E[path[0], symbols[0]])
        for t in range(1, len(symbols)):
            weight *= float(T[path[t - 1], path[t]] * E[path[t], symbols[t]])
        ends[path[-1]] = max(ends[path[-1]], weight) if only else ends[path[-1]] + weight
    return ends / ends.sum()


# --- one step of the filter ---------------------------------------------------------------------


def check_step(answer) -> Report:
    """Grade `my_step(belief, transition, emission, symbol)`: float (S,), after a move and a symbol."""

    def steps():
        for T, E, symbols in _chains(1, [(3, 3, 4), (4, 2, 3), (2, 5, 5), (3, 4, 3)]):
            before = _paths_sum(T, E, symbols[:-1])
            o = int(symbols[-1])
            raw = torch.as_tensor(answer(before.clone(), T.clone(), E.clone(), o)).double()
            if raw.shape == (len(T),) and _close(raw, (before @ T) * E[:, o]):
                return "these are joint probabilities of state and symbol: divide them by their sum"
            got, hint = _probabilities(raw, (len(T),))
            if hint or not _close(got, _paths_sum(T, E, symbols)):
                return hint or _step_slip(got, before, T, E, o)
        return None

    return grade("my_step", [steps])


def _step_slip(got, before, T, E, o) -> str:
    def norm(row):
        return row / row.sum()

    slips = {
        "the chain has moved before the symbol is seen: you correct the old belief and leave out T": norm(before * E[:, o]),
        "T[i, j] leads from i to j, so the belief stands on its left: yours is multiplied from the right": norm((T @ before) * E[:, o]),
        "this is the prediction alone: no use has been made of the symbol": before @ T,
        "you correct first and move afterwards: that is the belief about the state after the next move": norm(before * E[:, o]) @ T,
        "the belief before is not used: only the symbol speaks": norm(E[:, o]),
    }
    for hint, row in slips.items():
        if _close(got, row):
            return hint
    if E.shape[0] == E.shape[1] and _close(got, norm((before @ T) * E[o])):
        return "E[j, v] is the chance of symbol v in state j: you took a row of E, the symbol is a column"
    want = norm((before @ T) * E[:, o])
    return f"S = {len(T)}, symbol {o}: all paths together give {_told(want)}, you say {_told(got)}"


# --- all paths ----------------------------------------------------------------------------------


def check_paths(answer) -> Report:
    """Grade `my_paths(transition, emission, symbols)`: float (S,), the belief after the last symbol."""

    def one_symbol():
        for T, E, symbols in _chains(2, [(3, 3, 1), (2, 4, 1)]):
            got, hint = _probabilities(answer(T.clone(), E.clone(), symbols.clone()), (len(T),))
            want = E[:, symbols[0]] / E[:, symbols[0]].sum()
            if hint or _close(got, want):
                if hint:
                    return hint
                continue
            if _close(got, _paths_sum(T, E, symbols, moves_first=True)):
                return "with a single symbol: the first state is even and emits at once, no move comes before it"
            return f"with a single symbol the belief is its column of E, normalised: {_told(want)}, you say {_told(got)}"
        return None

    def several():
        for T, E, symbols in _chains(3, [(3, 3, 4), (2, 3, 6), (4, 3, 3)]):
            got, hint = _probabilities(answer(T.clone(), E.clone(), symbols.clone()), (len(T),))
            if hint or not _close(got, _paths_sum(T, E, symbols)):
                return hint or _paths_slip(got, T, E, symbols)
        return None

    return grade("my_paths", [one_symbol, several])


def _paths_slip(got, T, E, symbols) -> str:
    if _close(got, _paths_sum(T, E, symbols, only=max)):
        return "you keep the best path to each state: the belief adds up all paths that end there"
    if _close(got, _paths_sum(T.T, E, symbols)):
        return "the paths are weighed with T read by columns: T[before, now] is the chance of the move"
    if _close(got, _smoothed_first(T, E, symbols)):
        return "you collect the paths by their first state: that is what the symbols say about the start"
    evidence = E[:, symbols].prod(1)
    if _close(got, evidence / evidence.sum()):
        return "your paths never change their state: every state may follow every state"
    want = _paths_sum(T, E, symbols)
    return f"S = {len(T)}, K = {len(symbols)}: the recursion gives {_told(want)}, you say {_told(got)}"


def _smoothed_first(T, E, symbols) -> torch.Tensor:
    """What all symbols say about the first state."""
    later = torch.ones(len(T), dtype=torch.float64)
    for symbol in symbols.flip(0)[:-1]:
        later = T @ (E[:, symbol] * later)
    weight = E[:, symbols[0]] * later
    return weight / weight.sum()


# --- the other convention -----------------------------------------------------------------------


def check_other(answer) -> Report:
    """Grade `my_other(transition, emission, symbols)`: float (K, S), the chain moves before it emits."""

    def beliefs():
        for T, E, symbols in _chains(4, [(3, 3, 4), (2, 3, 5), (4, 3, 3)]):
            got, hint = _probabilities(answer(T.clone(), E.clone(), symbols.clone()), (len(symbols), len(T)))
            for t in range(len(symbols) if not hint else 0):
                want = _paths_sum(T, E, symbols[: t + 1], moves_first=True)
                if not _close(got[t], want):
                    hint = _other_slip(got, want, T, E, symbols, t)
                    break
            if hint:
                return hint
        return None

    return grade("my_other", [beliefs])


def _other_slip(got, want, T, E, symbols, t) -> str:
    here = symbols[: t + 1]
    plain = _paths_sum(T, E, here)
    if _close(got[t], plain):
        return f"after symbol {t + 1} this is the belief of the convention in which the start state emits: move first"
    if _close(got[t], plain @ T):
        return f"after symbol {t + 1} you predict the state that comes next: the move belongs before the first symbol"
    column = T.sum(1) * E[:, here[0]]
    if t == 0 and _close(got[0], column / column.sum()):
        return "rows of T sum to 1, so `T @ even` changes nothing: the even belief stands on the left"
    if t == 0 and _close(got[0], baselines.stationary(T[None])[0] * E[:, here[0]] / (baselines.stationary(T[None])[0] @ E[:, here[0]])):
        return "you start from the long run, after very many moves: here the chain moves once"
    twice = (torch.full((len(T),), 1 / len(T), dtype=torch.float64) @ T @ T) * E[:, here[0]]
    if t == 0 and _close(got[0], twice / twice.sum()):
        return "before the first symbol the chain moves twice in your answer, and once in the task"
    return f"after symbol {t + 1} all paths together give {_told(want)}, you say {_told(got[t])}"


# --- what a header must hold --------------------------------------------------------------------


def check_row_bits(answer) -> Report:
    """Grade `my_row_bits(n, least)`: log2 of the number of rows of n whole-cent probabilities >= least."""

    def by_hand():
        got = _number(answer(2, 5))
        if abs(got - math.log2(91)) < 1e-9:
            return None
        if abs(got - math.log(91)) < 1e-6:
            return "n = 2: there are 91 rows, 5 + 95 to 95 + 5; your number is their natural logarithm, not in bits"
        if abs(got - 91) < 1e-9:
            return "n = 2: 91 rows is right, and the task asks for the logarithm of that number"
        if abs(got - math.log2(101)) < 1e-9:
            return "n = 2: you count 0 + 100 too; with 5 cents at least, 91 rows remain"
        if abs(got - 2 * math.log2(96)) < 1e-6:
            return "n = 2: the second entry follows from the first, since they sum to 100: the places are not free"
        return f"n = 2, least 5: the rows are 5 + 95, 6 + 94, ..., 95 + 5, so 91 of them and {math.log2(91):.3f} bits; you say {got:.3f}"

    def counted():
        for n, least in ((3, 5), (5, 5), (4, 0), (3, 30), (5, 20), (6, 1)):
            want = math.log2(_count_rows(n, least))
            got = _number(answer(n, least))
            if abs(got - want) > 1e-9:
                return _bits_slip(got, want, n, least)
        return None

    return grade("my_row_bits", [by_hand, counted])


def _bits_slip(got, want, n, least) -> str:
    free = 100 - n * least
    if abs(got - math.log2(math.comb(free + n - 1, n - 1) / math.factorial(n))) < 1e-6:
        return "you divide by the orders of the entries: 0.2, 0.8 and 0.8, 0.2 are different rows"
    if abs(got - (n - 1) * math.log2(max(free, 0) + 1)) < 1e-9:
        return f"n = {n}: n - 1 entries are not free one by one, since all together they must leave enough for the last"
    return f"n = {n}, least {least}: counting cent by cent gives 2^{want:.4f} rows, you say 2^{got:.4f}"


def _count_rows(n: int, least: int) -> int:
    """How many rows of n whole numbers >= least sum to 100, entry by entry."""
    ways = [1] + [0] * 100
    for _ in range(n):
        ways = [sum(ways[total - c] for c in range(least, total + 1)) for total in range(101)]
    return ways[100]


# --- the long run -------------------------------------------------------------------------------


def check_stationary(answer) -> Report:
    """Grade `my_stationary(transition)`: float (S,), the distribution that the chain keeps."""

    def keeps(T, about):
        def run():
            raw = torch.as_tensor(answer(T.clone()))
            if raw.is_complex():
                return "the entries are complex numbers: take the real part of an eigenvector, then normalise"
            raw = raw.double()
            if raw.shape == (len(T),) and raw.sum().abs() > 1e-9 and abs(raw.sum() - 1) > 1e-6:
                share = raw / raw.sum()
                if _close(share @ T, share):
                    return f"the direction is right, but your entries sum to {raw.sum():.4f}: an eigenvector has no scale of its own"
            got, hint = _probabilities(raw, (len(T),))
            if hint or (got @ T - got).abs().max() < 1e-7:
                return hint
            return _stationary_slip(got, T, about)

        return run

    rng = torch.Generator().manual_seed(45)
    quick = tunnels.HMM(4, 4).sample(3, rng).latents["transition"]
    slow = 0.999 * torch.eye(4, dtype=torch.float64) + 0.001 * quick[0]
    swap = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], dtype=torch.float64)
    cases = [(T, "a chain that mixes fast") for T in quick]
    cases += [(slow, "a chain that hardly moves"), (swap, "a chain that alternates")]
    return grade("my_stationary", [keeps(*case) for case in cases])


def _stationary_slip(got, T, about) -> str:
    S = len(T)
    if _close(got, torch.full((S,), 1 / S)):
        return "the even distribution: rows of T sum to 1, so it is the eigenvector on the right; you want the one on the left"
    if about == "a chain that mixes fast":
        one = torch.full((S,), 1 / S, dtype=torch.float64) @ T
        if _close(got, one):
            return "this is where an even start is after a single move: the chain has to move for ever"
        return f"{about}: after one more move your distribution becomes {_told(got @ T)}, it was {_told(got)}"
    if about == "a chain that alternates":
        return f"{about}: powers of T never settle there, but a share that is kept exists; solve the equation"
    return f"{about}: one move changes your distribution by {(got @ T - got).abs().max():.1e}; many more moves are needed than you take"


# --- the worst impostor -------------------------------------------------------------------------


def check_impostor(answer) -> Report:
    """Grade `my_impostor(posterior)`: float (B, K, S), same entropies, largest KL among renamings."""

    def rows():
        for S in (3, 4, 2):
            truth = tunnels.HMM(S, S, 6).sample(5, torch.Generator().manual_seed(46 + S)).posterior
            got, hint = _probabilities(answer(truth.clone()), tuple(truth.shape))
            if hint := hint or _impostor_slip(got, truth):
                return hint
        return None

    return grade("my_impostor", [rows])


def _impostor_slip(got: torch.Tensor, truth: torch.Tensor) -> str | None:
    gap = (scoring.entropy_bits(got.log2()) - scoring.entropy_bits(truth.log2())).abs().max()
    if gap > 1e-9:
        return f"an entropy differs from the exact one by {gap:.3f} bits: a renaming keeps every probability, at another state"
    kl = scoring.kl_bits(truth, got.log2())
    if kl.max() < 1e-12:
        return "this is the truth itself: its KL is 0"
    S = truth.shape[-1]
    renamed = torch.stack([scoring.kl_bits(truth, truth[..., list(p)].log2()) for p in permutations(range(S))])
    best = renamed.amax(0)
    if (best - kl).abs().max() < 1e-9:
        return None
    for p in permutations(range(S)):
        if _close(got, truth[..., list(p)]):
            return "the same renaming everywhere, and many positions have a worse one: let the order of the probabilities decide"
    return (
        f"the entropies are right and the mean KL is {kl.mean():.3f} bits; "
        f"among all renamings at each position the largest have {best.mean():.3f}"
    )


# --- the forgetting rate ------------------------------------------------------------------------


def check_rate(answer) -> Report:
    """Grade `my_rate(transition)`: the modulus of the second eigenvalue, a float."""
    rng = torch.Generator().manual_seed(47)
    turn = torch.tensor([[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]], dtype=torch.float64)
    flip = torch.tensor([[0.2, 0.8], [0.9, 0.1]], dtype=torch.float64)
    matrices = [flip, turn, *tunnels.HMM(5, 5).sample(4, rng).latents["transition"]]
    matrices += [*tunnels.HMM(3, 3, generator="raw", sticky=20).sample(2, rng).latents["transition"]]

    def rate(T):
        def run():
            raw = answer(T.clone())
            if isinstance(raw, complex) or (isinstance(raw, torch.Tensor) and raw.is_complex()):
                return "the answer is a complex number: the factor by which a difference shrinks is its modulus"
            got, want = _number(raw), _decay(T)
            return None if abs(got - want) < 1e-6 else _rate_slip(got, want, T)

        return run

    return grade("my_rate", [rate(T) for T in matrices])


def _decay(T: torch.Tensor) -> float:
    """Growth of T - 1 pi under repeated squaring: its spectral radius, without eigenvalues."""
    rest, log_size = T - baselines.stationary(T[None])[0], 0.0
    for _ in range(40):
        size = float(rest.norm())
        rest, log_size = (rest / size) @ (rest / size), 2 * (log_size + math.log(size))
    return math.exp((log_size + math.log(float(rest.norm()))) / 2**40)


def _rate_slip(got, want, T) -> str:
    values = torch.linalg.eigvals(T)
    if abs(got - 1) < 1e-6:
        return "1 is the eigenvalue of the stationary distribution, which is never forgotten: you want the next one"
    if abs(got + want) < 1e-6:
        return "the eigenvalue is negative, and a difference changes its sign at every step: its size is the modulus"
    if abs(got - float(torch.linalg.svdvals(T)[1])) < 1e-6:
        return "this is the second singular value: it belongs to T times its transpose, not to powers of T"
    if abs(got - float(torch.linalg.eigvalsh(T).sort().values[-2])) < 1e-6:
        return "eigvalsh takes the matrix for a symmetric one and reads half of it: T is not symmetric"
    if abs(got - abs(float(values.real.sort(descending=True).values[1]))) < 1e-6:
        return "real parts alone: a pair of complex eigenvalues turns as it shrinks, and its modulus counts"
    if abs(got - float(values.abs().min())) < 1e-6:
        return "this is the smallest modulus: the slowest of the differences decides"
    return f"S = {len(T)}: under repeated prediction a difference shrinks to {want:.4f} of itself a step, you say {got:.4f}"


# --- how much memory an error is worth ----------------------------------------------------------


def check_memory(answer) -> Report:
    """Grade `my_memory(tunnel, episodes, bits)`: the smallest window with an error of at most bits."""
    settings = [tunnels.HMM(3, 3, 8), tunnels.HMM(3, 3, 12, generator="raw", sticky=10.0)]

    def asked(tunnel, number):
        def run():
            episodes = tunnel.sample(60, torch.Generator().manual_seed(480 + number))
            errors = _window_scores(tunnel, episodes, "stationary", "entropy_mae")
            between = (math.sqrt(a * b) for a, b in zip(errors[:4], errors[1:5], strict=True))
            levels = [2.0, *between, errors[1]]
            got = [_number(answer(tunnel, episodes, bits)) for bits in levels]
            want = [_smallest(errors, bits) for bits in levels]
            return None if got == want else _memory_slip(got, want, levels, tunnel, episodes)

        return run

    return grade("my_memory", [asked(*pair[::-1]) for pair in enumerate(settings)])


def _window_scores(tunnel, episodes, start: str, measure: str) -> list[float]:
    windows = (baselines.WindowFilter(tunnel, w, start) for w in range(1, tunnel.length + 1))
    return [getattr(scoring.score_episodes(window, episodes), measure) for window in windows]


def _smallest(errors: list[float], bits: float) -> int:
    return next((w for w, error in enumerate(errors, 1) if error <= bits), len(errors))


def _memory_slip(got, want, levels, tunnel, episodes) -> str:
    first = next(i for i, pair in enumerate(zip(got, want, strict=True)) if pair[0] != pair[1])
    where = f"at most {levels[first]:.4f} bits: window {want[first]} is the first that is good enough, you say {got[first]:g}"
    if first == len(levels) - 1:
        return f"{where}; its error is exactly that, and 'at most' allows it"
    for start, measure, hint in MEMORY_SLIPS:
        others = _window_scores(tunnel, episodes, start, measure)
        if got == [_smallest(others, bits) for bits in levels]:
            return f"{where}; {hint}"
    if all(g == max(w - 1, 0) for g, w in zip(got[:-1], want[:-1], strict=True)):
        return f"{where}; the window before it is still too bad"
    if got[0] > want[0]:
        return f"{where}; larger windows are good enough too, and the smallest is asked"
    return where


MEMORY_SLIPS = (
    ("stationary", "kl", "you compare the KL divergence; the entropy error is asked"),
    ("uniform", "entropy_mae", "that is the answer for windows that start from the even belief"),
    ("stationary", "tv", "you compare total variation, a probability; the entropy error is in bits"),
    ("stationary", "entropy_curve_mae", "the errors have to be averaged as absolute values: errors of opposite sign cancel in yours"),
)  # fmt: skip


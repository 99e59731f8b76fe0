"""Checks for chapter 8, "Recurrent rivals".

Every check states properties and tries them on random instances. What an answer is compared with
is counted, worked out in probabilities, run by PyTorch's own cell, or built so that it is known.

Axes: B episodes, D units, F features, N rows, S states, T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import torch

from bayeswind_lib.baselines import switching
from bayeswind_lib.exercises.core import Report, grade

# --- the price of a small state ----------------------------------------------------------------


def check_price(answer) -> Report:
    """Grade `my_price(n_pairs, n_values, bits)`: the least mean KL of recall with so many bits."""

    def room_for_all():
        for N, V in ((2, 5), (3, 4), (1, 2)):
            got = float(answer(N, V, math.log2(_tables(N, V)) + 3))
            if got < -1e-9:
                return f"{N} pairs with bits to spare: you say {got:.3g}, but no divergence is negative"
            if not abs(got) < 1e-9:
                return f"{N} pairs of {V} values fit with bits to spare: the price is 0, you say {got:.4g}"
        return None

    def no_room():
        for N, V in ((1, 8), (2, 5), (3, 4), (4, 4)):
            got, want = float(answer(N, V, 0)), math.log2(_tables(N, V)) / N
            if not abs(got - want) < 1e-9:
                return _slip_of_price(got, want, N, V, 0)
        return None

    def in_between():
        for N, V, bits in ((2, 5, 1.5), (3, 4, 2.5), (4, 6, 7)):
            got, want = float(answer(N, V, bits)), (math.log2(_tables(N, V)) - bits) / N
            if not abs(got - want) < 1e-9:
                return _slip_of_price(got, want, N, V, bits)
        return None

    return grade("my_price", [room_for_all, no_room, in_between])


def _tables(n_pairs: int, n_values: int) -> int:
    """How many ways there are to give different values to so many keys, counted one by one."""
    return sum(1 for _ in permutations(range(n_values), n_pairs))


def _slip_of_price(got, want, N, V, bits):
    asked = f"{N} pairs, {V} values, {bits} bits"
    if abs(got - want * math.log(2)) < 1e-9:
        return f"{asked}: you say {got:.4f}, which is the right answer in nats: count in powers of 2"
    if N > 1 and abs(got - want * N) < 1e-9:
        return f"{asked}: {got:.4f} bits are missing in all: divide them among the {N} questions, since the price is a mean"
    if abs(got - max(math.log2(V) - bits / N, 0)) < 1e-9:
        return f"{asked}: you count {V}^{N} tables, but no value is given twice: the second key has one value less"
    sets = math.log2(math.comb(V, N))
    if abs(got - max(sets - bits, 0) / N) < 1e-9:
        return f"{asked}: you count sets of values: two keys that exchange their values make another table"
    if bits and abs(got - (want + bits / N - bits)) < 1e-9:
        return f"{asked}: you say {got:.4f}: the bits, too, are shared by all {N} questions"
    return f"{asked}: there are {_tables(N, V)} tables, you say {got:.5f} bits a question"


# --- a belief carried one step -----------------------------------------------------------------


def check_carry(answer) -> Report:
    """Grade `my_carry(log_odds, hazard)`: log odds (N,) before and after a possible change of state."""
    rng = torch.Generator().manual_seed(1)
    odds = 6 * torch.rand(40, generator=rng, dtype=torch.float64) - 3

    def says(values, hazard):
        return torch.as_tensor(answer(values.clone(), hazard), dtype=torch.float64)

    def shape():
        got = says(odds, 0.2)
        return None if got.shape == odds.shape else f"the result has shape {tuple(got.shape)}, expected {tuple(odds.shape)}"

    def in_probabilities():
        for hazard in (0.3, 0.05, 0.5, 0.8):
            before = odds.sigmoid()
            after = (1 - hazard) * before + hazard * (1 - before)
            got, want = says(odds, hazard), (after / (1 - after)).log()
            if not (got - want).abs().max() < 1e-9:
                return _slip_of_carry(got, want, odds, hazard)
        return None

    def far_out():
        got = says(torch.tensor([2000.0, -2000.0], dtype=torch.float64), 0.1)
        bound = math.log(9)
        if not got.isfinite().all():
            return "log odds of 2000 give no number: e^2000 overflows, so work with tanh, softplus or logaddexp"
        if not (got - torch.tensor([bound, -bound], dtype=torch.float64)).abs().max() < 1e-6:
            return f"log odds of 2000 at hazard 0.1 are carried to log 9 = {bound:.4f}, you say {float(got[0]):.4f}"
        return None

    return grade("my_carry", [shape, in_probabilities, far_out])


def _slip_of_carry(got, want, odds, hazard):
    at = int((got - want).abs().argmax())
    said = f"hazard {hazard}, log odds {float(odds[at]):.3f}: you say {float(got[at]):.4f}, in probabilities it is {float(want[at]):.4f}"
    if (got - (1 - 2 * hazard) * odds).abs().max() < 1e-9:
        return said + ". A constant factor is right near even odds only: this is the leaky integrator"
    if (got - (1 - hazard) * odds).abs().max() < 1e-9:
        return said + ". You keep the share 1 - h of the log odds: it is probabilities that are mixed, not their logarithms"
    if hazard > 0.5 and (got + want).abs().max() < 1e-9:
        return said + ". A state that changes more often than not turns the odds round: 1 - 2h is negative, keep its sign"
    if hazard > 0.5 and got.abs().max() < 1e-9:
        return said + ". Even odds come out at hazard 1/2 only: above it 1 - 2h is negative, do not cut it off at 0"
    if hazard < 0.5 and (got + want).abs().max() < 1e-9:
        return said + ". The sign is wrong: staying has probability 1 - hazard"
    if (got * math.log(2) - want).abs().max() < 1e-9:
        return said + ". In bits it would be so, log odds come in nats here"
    if (got.sigmoid() - want).abs().max() < 1e-6 or (got - want.sigmoid()).abs().max() < 1e-9:
        return said + ". This is a probability: turn it into log odds again"
    return said


# --- the best leak -----------------------------------------------------------------------------

SHARES = np.linspace(0, 1, 101)


def check_best_leak(answer) -> Report:
    """Grade `my_best_leak(hazard, reliability)`: the share that the best leaky integrator keeps."""

    def cases(*pairs):
        return lambda: next((hint for pair in pairs if (hint := _leak_on(answer, *pair))), None)

    return grade("my_best_leak", [
        cases((0.1, 0.7), (0.3, 0.8), (0.05, 0.9)),
        cases((0.2, 0.51), (0.4, 0.55)),  # weak symbols: the slope at even odds
        cases((0.0, 0.7), (0.5, 0.8)),  # nothing may be forgotten; nothing is worth keeping
    ])


def _leak_on(answer, hazard: float, reliability: float):
    got = float(answer(hazard, reliability))
    bill = switching.expected_kl(hazard, reliability, SHARES)
    want = float(SHARES[bill.argmin()])
    if abs(got - want) < 0.0101:
        return None
    said = f"hazard {hazard}, reliability {reliability}: you say {got:.4g}, the best share is {want:.2f}"
    step = switching.evidence(1, reliability)
    tried = (
        (1 - 2 * hazard, "yours is the slope at even odds: strong symbols drive the belief to where the map is flatter"),
        (1 - hazard, "yours is the probability to stay, but a share of log odds is kept, not of a probability"),
        (float(switching.carry(step, hazard) / step), "yours is exact after the first symbol and not later, when beliefs lie further out"),
        (float(bill.min()), "yours is the divergence: return the share that has it"),
        (float(SHARES[bill.argmax()]), "yours has the largest divergence, not the least"),
    )
    for value, words in tried:
        if abs(got - value) < 1e-6 + 1e-3 * abs(value):
            return f"{said}: {words}"
    if not 0 <= got <= 1:
        return f"{said}: a share lies between 0 and 1 (a place in a list is not yet a share)"
    costs = switching.expected_kl(hazard, reliability, [got])[0]
    return f"{said}: yours costs {costs:.2g} bits, the best {bill.min():.2g}"


# --- a step of an LSTM -------------------------------------------------------------------------


def check_step(answer) -> Report:
    """Grade `my_step(x, h, c, W, U, b)`: one step of an LSTM, hidden and cell state (B, D) each."""
    cases = [_lstm_case(seed) for seed in range(3)]

    def run():
        for x, h, c, W, U, b in cases:
            out = answer(*(part.clone() for part in (x, h, c, W, U, b)))
            if not isinstance(out, tuple | list) or len(out) != 2:
                return "return two things: the new hidden state and the new cell state"
            new_h, new_c = (torch.as_tensor(part, dtype=torch.float64) for part in out)
            if new_h.shape != h.shape or new_c.shape != c.shape:
                return f"the states have shapes {tuple(new_h.shape)} and {tuple(new_c.shape)}, expected {tuple(h.shape)}"
            hint = _slip_of_step(new_h, new_c, x, h, c, W, U, b)
            if hint:
                return hint
        return None

    return grade("my_step", [run])


def _lstm_case(seed: int, B: int = 3, D: int = 4, F: int = 5) -> tuple[torch.Tensor, ...]:
    rng = torch.Generator().manual_seed(seed)
    shapes = (B, F), (B, D), (B, D), (4 * D, F), (4 * D, D), (4 * D,)
    return tuple(torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes)


def _cell(x, h, c, W, U, b) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch's own cell with these weights."""
    cell = torch.nn.LSTMCell(W.shape[1], U.shape[1], dtype=torch.float64)
    with torch.no_grad():
        for parameter, weight in ((cell.weight_ih, W), (cell.weight_hh, U), (cell.bias_ih, b), (cell.bias_hh, 0 * b)):
            parameter.copy_(weight)
        return cell(x, (h, c))


def _slip_of_step(new_h, new_c, x, h, c, W, U, b):
    want_h, want_c = _cell(x, h, c, W, U, b)
    right_c, right_h = ((got - want).abs().max() < 1e-9 for got, want in ((new_c, want_c), (new_h, want_h)))
    if right_c and right_h:
        return None
    gates = (x @ W.T + h @ U.T + b).chunk(4, dim=-1)
    out = gates[3].sigmoid()
    if right_c:
        if (new_h - out * want_c).abs().max() < 1e-9:
            return "the cell state is right; the hidden state is the output gate times its *tanh*"
        if (new_h - out * c.tanh()).abs().max() < 1e-9:
            return "the cell state is right; the hidden state reads the *new* one, you took the old one"
        return "the cell state is right, the hidden state is not: output gate times tanh of the new cell state"
    slips: tuple[tuple[Callable, str], ...] = (
        (lambda i, f, g, o: f.sigmoid() * c + i.sigmoid() * g, "the candidate goes through tanh, not as it is"),
        (lambda i, f, g, o: f.sigmoid() * c + i.sigmoid() * g.sigmoid(), "the candidate goes through tanh, a sigmoid cannot lower a cell"),
        (lambda i, f, g, o: i.sigmoid() * c + f.sigmoid() * g.tanh(), "input and forget gate are exchanged: the order is input, forget, candidate, output"),
        (lambda i, f, g, o: f.sigmoid() * c + i.sigmoid() * o.tanh(), "the candidate is the third block of rows, the output gate the fourth"),
        (lambda i, f, g, o: f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh(), "input gate and forget gate are two gates: an LSTM may keep everything and add"),
    )
    for wrong, words in slips:
        if (new_c - wrong(*gates)).abs().max() < 1e-9:
            return f"the cell state is off: {words}"
    without = _cell(x, h, c, W, U, 0 * b)[1]
    if (new_c - without).abs().max() < 1e-9:
        return "the cell state is off: the bias is missing"
    return f"the cell state is off by up to {float((new_c - want_c).abs().max()):.3g}: c' = f c + i g"


# --- two steps are one -------------------------------------------------------------------------


def check_join(answer) -> Report:
    """Grade `my_join(first, second)`: steps (decay, intake) of h' = decay h + intake, made one."""
    rng = torch.Generator().manual_seed(2)
    steps = [tuple(torch.rand(6, generator=rng, dtype=torch.float64) for _ in range(2)) for _ in range(7)]

    def joined(one, other):
        out = answer(tuple(part.clone() for part in one), tuple(part.clone() for part in other))
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(f"a step is a pair (decay, intake), not {type(out).__name__}")
        return tuple(torch.as_tensor(part, dtype=torch.float64) for part in out)

    def two():
        for (a, b), (c, d) in zip(steps, steps[1:], strict=False):
            got = joined((a, b), (c, d))
            h = torch.linspace(-2, 2, 6, dtype=torch.float64)
            want = c * (a * h + b) + d
            if not (got[0] * h + got[1] - want).abs().max() < 1e-9:
                return _slip_of_join(got, a, b, c, d)
        return None

    def many():
        h, whole = torch.zeros(6, dtype=torch.float64), steps[0]
        for step in steps[1:]:
            whole = joined(whole, step)
        other = steps[-1]
        for step in steps[-2::-1]:
            other = joined(step, other)
        for a, b in steps:
            h = a * h + b
        for got in (whole, other):
            if not (got[1] - h).abs().max() < 1e-9:
                return "two steps are joined well, seven are not: joining must not depend on where one begins"
        return None

    return grade("my_join", [two, many])


def _slip_of_join(got, a, b, c, d):
    decay, intake = got
    if (decay - (a + c)).abs().max() < 1e-9:
        return "you add the decays: what survives two steps has survived one and then the other"
    if (intake - (b + d)).abs().max() < 1e-9:
        return "the first intake arrives as it was: it has to survive the second step's decay"
    if (intake - (a * d + b)).abs().max() < 1e-9:
        return "the order is turned round: the second step's decay works on the first step's intake"
    if (intake - d).abs().max() < 1e-9:
        return "the first intake is lost: after two steps both intakes are in the state"
    if (decay - c).abs().max() < 1e-9 or (decay - a).abs().max() < 1e-9:
        return "the joined decay is that of one step only: the old state survives both"
    return "h = 0 and other starts do not come out right: write h'' = c (a h + b) + d and read off both parts"


# --- a probe -----------------------------------------------------------------------------------


def check_probe(answer) -> Report:
    """Grade `my_probe(states, beliefs, new_states, new_beliefs, order)`: R^2 of a linear probe, and its null."""
    return grade("my_probe", [
        lambda: _probe_on(answer, *_linear_case(noise=2.0), "noisy"),
        lambda: _probe_on(answer, *_linear_case(), "exactly linear"),
        lambda: _probe_on(answer, *_noise_case(), "unrelated"),
        lambda: _null_on(answer, *_linear_case(noise=2.0)),
        lambda: _null_on(answer, *_noise_case()),
    ])


def _order(n_rows: int) -> torch.Tensor:
    return torch.randperm(n_rows, generator=torch.Generator().manual_seed(9))


def _answered(answer, *tables) -> tuple[float, float]:
    """Both numbers of an answer, which gets copies."""
    out = answer(*(table.clone() for table in tables), _order(len(tables[0])))
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError(f"return two numbers, the R^2 and that of the null, not {type(out).__name__}")
    return float(out[0]), float(out[1])


def _linear_case(noise: float = 0.0, N: int = 300, D: int = 8, S: int = 3) -> list[torch.Tensor]:
    """States from which beliefs follow linearly, with means and scales that differ by column."""
    rng = torch.Generator().manual_seed(3)
    weight = torch.randn(D, S, generator=rng, dtype=torch.float64) * torch.tensor([0.1, 1.0, 5.0], dtype=torch.float64)[:S]
    tables = []
    for shift in (0.0, 0.4):
        states = torch.randn(N, D, generator=rng, dtype=torch.float64) + 2 + shift
        drawn = torch.randn(N, S, generator=rng, dtype=torch.float64)
        tables += [states, states @ weight + torch.tensor([7.0, -3.0, 50.0], dtype=torch.float64) + noise * drawn]
    return tables


def _noise_case(N: int = 60, D: int = 40, S: int = 2) -> list[torch.Tensor]:
    """Many channels that have nothing to do with the beliefs."""
    rng = torch.Generator().manual_seed(4)
    return [torch.randn(N, k, generator=rng, dtype=torch.float64) for k in (D, S, D, S)]


def _fitted(states: torch.Tensor, beliefs: torch.Tensor, intercept: bool = True) -> Callable:
    ones = torch.full((len(states), 1), float(intercept), dtype=states.dtype)
    weight = torch.linalg.lstsq(torch.cat([states, ones], 1), beliefs, driver="gelsd").solution
    return lambda new: new @ weight[:-1] + intercept * weight[-1]


def _r2(said: torch.Tensor, truth: torch.Tensor) -> float:
    """Share of the summed squared deviations from the column means that is explained."""
    return float(1 - (truth - said).square().sum() / (truth - truth.mean(0)).square().sum())


def _probe_on(answer, states, beliefs, new_states, new_beliefs, kind: str):
    got, _ = _answered(answer, states, beliefs, new_states, new_beliefs)
    probe = _fitted(states, beliefs)
    want = _r2(probe(new_states), new_beliefs)
    if abs(got - want) < 0.01 * max(1.0, abs(want)):
        return None
    tried = {
        _r2(probe(states), beliefs): f"on {kind} data you say {got:.3f}, the share explained on the rows that were *fitted*: score the new ones",
        _r2(_fitted(states, beliefs, False)(new_states), new_beliefs): "your probe has no constant term: beliefs do not have mean zero",
        float(1 - (new_beliefs - probe(new_states)).square().sum() / new_beliefs.square().sum()):
            "you compare with predicting zero: R^2 compares with predicting the mean",
        _r2(_fitted(new_states, new_beliefs)(new_states), new_beliefs): "you fit the probe on the new rows: they are there to test it",
        float((1 - (new_beliefs - probe(new_states)).square().sum(0) / (new_beliefs - new_beliefs.mean(0)).square().sum(0)).mean()):
            "you average R^2 over columns: sum the squares over all columns first, as the text defines it",
        float((new_beliefs - probe(new_states)).square().mean()): "this is a mean squared error, not a share",
    }
    for value, words in tried.items():
        if abs(got - value) < 1e-3 * max(1.0, abs(value)):
            return words
    return f"on {kind} data you say {got:.4f}, least squares with a constant gives {want:.4f} on the new rows"


def _null_on(answer, states, beliefs, new_states, new_beliefs):
    _, got = _answered(answer, states, beliefs, new_states, new_beliefs)
    order = _order(len(states))
    probe, shuffled = _fitted(states, beliefs), _fitted(states, beliefs[order])
    want, undone = _r2(shuffled(new_states), new_beliefs), _fitted(states, beliefs[order.argsort()])
    tried = {
        want: None,
        _r2(probe(new_states), new_beliefs): "it is as large as the score: nothing is shuffled, or states and beliefs together, which still belong to each other",
        _r2(shuffled(states), beliefs[order]): "you score it on the rows that it was fitted to, where it finds what is not there",
        _r2(probe(new_states), new_beliefs[order]): "you shuffle the new rows: fit to `beliefs[order]`, and score on the new rows as they are",
        _r2(shuffled(new_states), new_beliefs[order]): "you shuffle both tables of beliefs: the new rows stay as they are",
        _r2(undone(new_states), new_beliefs): "you undo the order instead of following it: row i of the null is `beliefs[order[i]]`",
    }
    for value, words in tried.items():
        if abs(got - value) < 1e-3 * max(1.0, abs(value)):
            return f"the null is {got:.3f}: {words}" if words else None
    return f"the score is right; the null is {want:.4f} here, you say {got:.4f}"


# --- the response to a replaced symbol ---------------------------------------------------------


def check_response(answer) -> Report:
    """Grade `my_response(p, new_p, q, new_q)`: the slope of a network's change on the exact change."""
    p, new_p, other, new_other = (_beliefs(seed) for seed in (5, 6, 7, 8))
    moved = new_p - p

    def says(q, new_q):
        return float(answer(p.clone(), new_p.clone(), q.clone(), new_q.clone()))

    def itself():
        got = says(p, new_p)
        return None if abs(got - 1) < 1e-9 else f"the exact filter's own response is 1, you say {got:.4f}"

    def unmoved():
        got = says(other, other)
        return None if abs(got) < 1e-9 else f"a network that does not move at all has response 0, you say {got:.4f}"

    def backwards():
        got = says(p, p - 0.1 * moved)
        if abs(got - 0.1) < 1e-9:
            return "a network that moves a tenth as far the *other* way has response -0.1, you say 0.1: keep the sign"
        return None if abs(got + 0.1) < 1e-9 else f"a tenth as far the other way is -0.1, you say {got:.4f}"

    def any_network():
        for q, new_q in ((other, new_other), (p + 0.3 * (other - p), new_p)):
            got, want = says(q, new_q), _slope(moved, new_q - q)
            if not abs(got - want) < 1e-9:
                return _slip_of_response(got, want, moved, new_q - q)
        return None

    return grade("my_response", [itself, unmoved, backwards, any_network])


def _beliefs(seed: int) -> torch.Tensor:
    """Random beliefs (B, S)."""
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(30, 3, generator=rng, dtype=torch.float64).square().add(0.01).log().softmax(-1)


def _slope(exact: torch.Tensor, change: torch.Tensor) -> float:
    """What factor on the exact change leaves the smallest squares: by least squares itself."""
    return float(torch.linalg.lstsq(exact.reshape(-1, 1), change.reshape(-1, 1)).solution)


def _slip_of_response(got, want, exact, change):
    said = f"you say {got:.4f}, the best factor on the exact change is {want:.4f}"
    if abs(got - _slope(change, exact)) < 1e-6:
        return said + ": you regress the exact change on the network's, divide by the squares of the exact one"
    if abs(got - float((exact * change).sum() / (exact.norm() * change.norm()))) < 1e-6:
        return said + ": this is a correlation, which does not see how far the network moves"
    by_row = (exact * change).sum(-1) / exact.square().sum(-1)
    if abs(got - float(by_row.mean())) < 1e-6:
        return said + ": you average slopes, so that chains with almost no response count most: sum first, divide once"
    if abs(abs(got) - float(change.abs().sum() / exact.abs().sum())) < 1e-6:
        return said + ": sizes alone do not tell whether it moves in the right direction"
    return said

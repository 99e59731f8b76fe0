"""Checks for chapter 20, "Build your own tunnel".

Every check states properties and tries them on random instances: what an order of rolls may not
change, what a count of all state paths says, what an average must be. No answer is compared with a key.

Axes: B episodes, K symbols, M models, S states of each, V symbols (or faces).
"""

from __future__ import annotations

import itertools

import torch

from bayeswind_lib.exercises.core import Report, grade


def _rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _rows(seed: int, *shape: int) -> torch.Tensor:
    """Random distributions along the last axis, float64."""
    weights = torch.rand(shape, generator=_rng(seed), dtype=torch.float64) + 0.05
    return weights / weights.sum(-1, keepdim=True)


def _near(a, b, slack: float = 1e-9) -> bool:
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
    return a.shape == b.shape and bool((a - b).abs().max() < slack)


# --- a die -------------------------------------------------------------------------------------


def check_posterior(answer) -> Report:
    """Grade `my_posterior(rolls, n_faces, strength)`: what comes next after each roll, (B, K, faces)."""
    rolls = torch.randint(3, (4, 6), generator=_rng(1))

    def says(x=rolls, strength=0.5):
        return torch.as_tensor(answer(x.clone(), 3, strength), dtype=torch.float64)

    def shape():
        got = says()
        if got.shape != (4, 6, 3):
            return f"4 episodes of 6 rolls of a die with 3 faces give a tensor of shape (4, 6, 3); yours has {tuple(got.shape)}"
        if (says() <= 0).any():
            return "a face that was not rolled yet may come next: its probability is 0 or less in yours, where does the strength enter?"
        off = (got.sum(-1) - 1).abs().max()
        return None if off < 1e-9 else f"probabilities of all faces sum to 1; yours are off by {float(off):.3g}"

    def counting():
        """One roll of face 0: its odds against another face are 1 + strength to strength."""
        got = says(torch.tensor([[0]]), 2.0)[0, 0]
        if _near(got, torch.full((3,), 1 / 3, dtype=torch.float64)):
            return "after one roll the answer has not moved: entry k comes after roll k, so the roll at k counts as seen"
        odds = float(got[0] / got[1])
        if abs(odds - 2.0) < 1e-9:
            return "the strength was 2 and yours behaves as if it were 1: each face starts with `strength` rolls"
        return None if abs(odds - 1.5) < 1e-9 else f"strength 2, one roll of face 0: the odds of 0 against 1 are 3 to 2, yours are {odds:.3g} to 1"

    def order():
        """The same rolls in another order leave the last row as it is."""
        turned = torch.cat([rolls[:, :5].flip(1), rolls[:, 5:]], 1)
        if not _near(says()[:, -1], says(turned)[:, -1]):
            return "the same rolls in another order say the same of what follows; yours do not: it is a count"
        return None

    def coherent():
        """P(x1) P(x2 | x1) = P(x2) P(x1 | x2): a chain of forecasts is one joint distribution."""
        pairs = torch.tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
        p = says(pairs, 0.7)
        joint = p[:, :-1].gather(-1, pairs[:, 1:, None])[..., 0].prod(1)
        return None if _near(joint, joint[:1].expand(3)) else "three rolls in another order have another probability in yours"

    return grade("my_posterior", [shape, counting, order, coherent])


# --- is it calibrated --------------------------------------------------------------------------


def check_calibration(answer) -> Report:
    """Grade `my_calibration(posterior, targets)`: standard errors of what happened from what was expected."""

    def drawn(seed: int, copies: int = 1):
        """Episodes whose 4 positions share one target (copies of it), so that only episodes are independent."""
        p = _rows(seed, 400, 1, 3)
        y = torch.multinomial(p[:, 0], 1, generator=_rng(seed + 1))
        return p.expand(-1, copies, -1).contiguous(), y.expand(-1, copies).contiguous()

    def sign():
        p, y = drawn(3)
        sharp = p**4 / (p**4).sum(-1, keepdim=True)
        got = float(answer(sharp, y))
        if got < -5:
            return None
        if got > 5:
            return "this posterior is too sure of itself, so what happens is less probable than expected: negative. Yours is positive"
        return f"this posterior is far too sure of itself, by many standard errors; yours says {got:.2f}: divide the mean by its error"

    def level():
        found = [float(answer(*drawn(10 * seed))) for seed in range(1, 9)]
        spread, mean = (sum(z * z for z in found) / 8) ** 0.5, sum(found) / 8
        if abs(mean) > 1.5:
            return f"for exact posteriors the mean of what you return is 0; yours is {mean:.1f}: subtract what is expected, the sum of p squared"
        return None if 0.3 < spread < 2.0 else f"standard errors have a spread of about 1 where the posterior is exact, yours {spread:.2g}"

    def episodes():
        one, four = (float(answer(*drawn(5, copies))) for copies in (1, 4))
        if abs(four - one) < 1e-6 + 0.01 * abs(one):
            return None
        return "the same episode written down four times is no new evidence; in yours it is: take the error from the means of episodes"

    return grade("my_calibration", [sign, level, episodes])


# --- which model speaks ------------------------------------------------------------------------


def check_reweigh(answer) -> Report:
    """Grade `my_reweigh(weights, likelihoods)`: probabilities of the models after all symbols, (M,)."""
    prior, seen = _rows(1, 4), _rows(2, 6, 4)

    def says(w=prior, x=seen):
        return torch.as_tensor(answer(w.clone(), x.clone()), dtype=torch.float64)

    def shape():
        got = says()
        if got.shape != (4,):
            return f"4 models have 4 probabilities, yours has shape {tuple(got.shape)}"
        off = abs(float(got.sum()) - 1)
        return None if off < 1e-9 else f"the probabilities of the models sum to 1, yours to {float(got.sum()):.3g}"

    def odds():
        got = says()
        want = prior[0] / prior[1] * (seen[:, 0] / seen[:, 1]).prod()
        if _near(got[0] / got[1], want, 1e-9 * max(1, float(want))):
            return None
        if _near(got, prior * seen.mean(0) / (prior * seen.mean(0)).sum()):
            return "evidence multiplies: yours takes the mean over symbols"
        if _near(got, prior * seen[-1] / (prior * seen[-1]).sum()):
            return "yours uses the last symbol only: what came before is forgotten"
        if _near(got, seen.prod(0) / seen.prod(0).sum()):
            return "yours starts from even odds: the weights that were given are lost"
        return "odds of two models are their first odds times all ratios of likelihoods; yours are not"

    def many():
        got = says(prior, seen.repeat(400, 1))
        return None if got.isfinite().all() else "after 2,400 symbols products are too small for a number (0 / 0): add logarithms"

    return grade("my_reweigh", [shape, odds, many])


def _by_paths(move: torch.Tensor, emit: torch.Tensor, symbols: list[int]) -> torch.Tensor:
    """P(model | symbols), every path of states counted: (M,)."""
    M, S = emit.shape[:2]
    total = []
    for m in range(M):
        chance = 0.0
        for path in itertools.product(range(S), repeat=len(symbols)):
            p = 1 / S
            for t, (s, x) in enumerate(zip(path, symbols, strict=True)):
                p *= float(emit[m, s, x]) * (float(move[m, path[t - 1], s]) if t else 1.0)
            chance += p
        total.append(chance)
    return torch.tensor(total, dtype=torch.float64) / sum(total)


def check_which(answer) -> Report:
    """Grade `my_which(move, emit, symbols)`: P(model | all symbols), (M,)."""
    move, emit = _rows(4, 3, 2, 2) ** 3, _rows(5, 3, 2, 3) ** 2
    move, emit = (x / x.sum(-1, keepdim=True) for x in (move, emit))

    def says(symbols):
        return torch.as_tensor(answer(move.clone(), emit.clone(), torch.tensor(symbols)), dtype=torch.float64)

    def first():
        got, want = says([2]), _by_paths(move, emit, [2])
        if got.shape != (3,):
            return f"3 models have 3 probabilities, yours has shape {tuple(got.shape)}"
        if abs(float(got.sum()) - 1) > 1e-9:
            return f"the probabilities of the models sum to 1, yours to {float(got.sum()):.3g}"
        if _near(got, torch.full((3,), 1 / 3, dtype=torch.float64)):
            return "after one symbol your models are equally likely: normalise once over all models and states, not model by model"
        return None if _near(got, want) else "the first symbol comes from the start state itself, each state equally likely: does the chain move before it?"

    def paths():
        symbols = [2, 0, 1, 1]
        got, want = says(symbols), _by_paths(move, emit, symbols)
        if _near(got, want):
            return None
        iid = emit.mean(1)[:, symbols].prod(1)
        if _near(got, iid / iid.sum()):
            return "yours treats symbols as independent: the state before says which are likely now"
        still = emit[:, :, symbols].prod(-1).sum(1)
        if _near(got, still / still.sum()):
            return "in yours the state never moves: transport the belief between two symbols"
        back = _by_paths(move.transpose(1, 2), emit, symbols)
        if _near(got, back):
            return "move[m, i, j] is the probability of going from i to j; yours goes from j to i"
        return "counting all paths of states gives something else after four symbols, though not after one"

    return grade("my_which", [first, paths])


# --- observers that lack a part ----------------------------------------------------------------


def _parts():
    move, emit = _rows(6, 3, 2, 2), _rows(7, 3, 2, 4)
    own, donor = _rows(8, 6).view(3, 2), _rows(9, 6).view(3, 2)
    return own, donor, move, emit


def _forecasts(joint, move, emit):
    """What each model expects next: (M, V)."""
    return torch.einsum("ms,mst,mtv->mv", joint / joint.sum(1, keepdim=True), move, emit)


def _is_forecast(got) -> str | None:
    if got.shape != (4,):
        return f"a forecast of 4 symbols has shape (4,), yours {tuple(got.shape)}"
    off = float(got.sum())
    return None if abs(off - 1) < 1e-9 else f"a forecast sums to 1, yours to {off:.3g}"


def check_no_which(answer) -> Report:
    """Grade `my_no_which(joint, move, emit)`: the forecast of one who filters states and never says which, (V,)."""
    joint, _, move, emit = _parts()

    def says():
        return torch.as_tensor(answer(joint.clone(), move.clone(), emit.clone()), dtype=torch.float64)

    def forecast():
        if _near(says(), torch.einsum("ms,mst,mtv->v", joint / joint.sum(0), move, emit)):
            return "a belief about the states of one model sums to 1 over its states, not over the models"
        return _is_forecast(says())

    def even():
        each = _forecasts(joint, move, emit)
        if _near(says(), each.mean(0)):
            return None
        if _near(says(), joint.sum(1) @ each):
            return "that is the exact answer: this observer gives every model the same weight all along"
        if _near(says(), torch.einsum("ms,msv->mv", joint / joint.sum(1, keepdim=True), emit).mean(0)):
            return "that is what is likely now: the state moves once before the next symbol"
        if _near(says(), torch.einsum("mst,mtv->v", move, emit) / 6):
            return "yours believes all states equally: it should keep what the filter of each model says"
        return "the mean, over models, of what the filter of each expects next, is something else"

    return grade("my_no_which", [forecast, even])


def check_hybrid(answer) -> Report:
    """Grade `my_hybrid(own, donor, move, emit)`: the forecast with the donor's which and the own states, (V,)."""
    own, donor, move, emit = _parts()

    def says(a=own, b=donor):
        return torch.as_tensor(answer(a.clone(), b.clone(), move.clone(), emit.clone()), dtype=torch.float64)

    def forecast():
        return _is_forecast(says())

    def itself():
        exact = own.sum(1) @ _forecasts(own, move, emit)
        return None if _near(says(own, own), exact) else "where donor and own are the same, the forecast is the exact one; yours is not"

    def mixed():
        want = donor.sum(1) @ _forecasts(own, move, emit)
        if _near(says(), want):
            return None
        if _near(says(), donor.sum(1) @ _forecasts(donor, move, emit)):
            return "yours is the donor's whole answer: the states are one's own"
        if _near(says(), own.sum(1) @ _forecasts(own, move, emit)):
            return "yours does not depend on the donor: the weights of the models are the donor's"
        if _near(says(), own.sum(1) @ _forecasts(donor, move, emit)):
            return "turned round: which comes from the donor, the states are one's own"
        return "weigh what each model expects from the own states with the donor's probabilities of the models"

    return grade("my_hybrid", [forecast, itself, mixed])


# --- which prior -------------------------------------------------------------------------------


def check_prior(answer) -> Report:
    """Grade `my_prior(maps, keys, values, weight)`: the observer who gives a set of maps that prior weight, (V,)."""
    everything = torch.tensor(list(itertools.permutations(range(4))))
    maps = everything[torch.randperm(24, generator=_rng(6))[:9]]
    keys = torch.randperm(4, generator=_rng(7))
    values = maps[2][keys[:2]]  # two pairs of a map of the set

    def says(weight, seen=2, y=values):
        return torch.as_tensor(answer(maps.clone(), keys[: seen + 1].clone(), y[:seen].clone(), weight), dtype=torch.float64)

    def mass(seen=2, y=values):
        """P(pairs, next value), by listing: under the set, and under all maps."""
        found = []
        for some in (maps, everything):
            left = some[(some[:, keys[:seen]] == y[:seen]).all(1)]
            found.append(torch.bincount(left[:, keys[seen]], minlength=4).double() / len(some))
        return found

    def shape():
        got = says(0.5)
        if got.shape != (4,):
            return f"4 values have 4 probabilities, yours has shape {tuple(got.shape)}"
        return None if abs(float(got.sum()) - 1) < 1e-9 else f"probabilities of all values sum to 1, yours to {float(got.sum()):.3g}"

    def ends():
        few, many = mass()
        if not _near(says(0.0), many / many.sum()):
            return "with weight 0 all 24 maps are equally likely: the values that are left share evenly; yours do not"
        if not _near(says(1.0), few / few.sum()):
            return "with weight 1 only the maps of the set count, those that agree with the pairs; yours says something else"
        return None

    def between():
        few, many = mass()
        got, w = says(0.3), 0.3
        want = w * few + (1 - w) * many
        if _near(got, want / want.sum()):
            return None
        if _near(got, w * few / few.sum() + (1 - w) * many / many.sum()):
            return "yours keeps the prior weight: pairs are evidence about the set too, and the weights move with them"
        counts = w * few * 9 + (1 - w) * many * 24
        if _near(got, counts / counts.sum()):
            return "yours counts each map once: a map of the set has the prior w / N, one of all maps (1 - w) / V!"
        return "each map has a prior weight; add up those of the maps that agree, value by value, and divide by their sum"

    def contradicted():
        inside = {tuple(f) for f in maps.tolist()}
        other = next(f for f in everything if tuple(f.tolist()) not in inside and mass(3, f[keys])[0].sum() == 0)
        got = says(0.9, 3, other[keys])
        if not bool(got.isfinite().all()):
            return "pairs that no map of the set agrees with leave the others: divide once, by the sum of both parts"
        return None if _near(got.max(), 1.0) else "three pairs leave one value of four, also where the set is contradicted"

    return grade("my_prior", [shape, ends, between, contradicted])


__all__ = ["check_calibration", "check_hybrid", "check_no_which", "check_posterior", "check_prior", "check_reweigh", "check_which"]

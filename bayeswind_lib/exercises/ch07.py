"""Checks for chapter 7, "Why do MLPs fail?".

Every check states properties and tries them on random instances. What an answer is compared with
is found by search over perturbed predictions, counted over all episodes of a small tunnel, or
computed by the tunnel's own posterior.

Axes: N contexts, Y outcomes, B episodes, K questions, T tokens, V values.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import permutations, product

import torch
from torch.nn import functional as F

from bayeswind_lib import baselines, tunnels
from bayeswind_lib.exercises.core import Report, grade
from bayeswind_lib.scoring import entropy_bits, kl_bits


def _table(got, shape: tuple[int, ...]) -> tuple[torch.Tensor, str | None]:
    """The answer as float64, and a hint if it is no set of distributions of that shape."""
    got = torch.as_tensor(got, dtype=torch.float64).detach()
    if got.shape != shape:
        return got, f"the result has shape {tuple(got.shape)}, expected {shape}"
    if got.isnan().any() or got.min() < -1e-12:
        return got, "a probability is negative or not a number"
    if (got.sum(-1) - 1).abs().max() > 1e-6:
        return got, f"a row sums to {float(got.sum(-1).flatten()[0]):.4f}: each must sum to 1"
    return got, None


def _contexts(seed: int, n: int, n_views: int, outcomes: int, zeros: bool = False):
    """Random posteriors (N, Y), some outcomes impossible, and views of very different sizes."""
    rng = torch.Generator().manual_seed(seed)
    posterior = torch.rand(n, outcomes, generator=rng, dtype=torch.float64) ** 3 + 1e-3
    if zeros:
        ruled_out = torch.rand(n, outcomes, generator=rng).argsort(-1)[:, : outcomes - 2]
        posterior = posterior.scatter(1, ruled_out[:, : outcomes // 2], 0.0)
    view = (torch.rand(n, generator=rng) ** 2 * n_views).long()
    return posterior / posterior.sum(-1, keepdim=True), view


# --- the best of a view ------------------------------------------------------------------------


def check_best(answer) -> Report:
    """Grade `my_best(posterior, view)`: float (N, Y), the best prediction that sees `view` only."""
    cases = [_contexts(1, 12, 3, 4), _contexts(2, 40, 5, 3, zeros=True), _contexts(3, 6, 1, 5)]

    def each(test):
        def run():
            for posterior, view in cases:
                got, hint = _table(answer(posterior.clone(), view.clone()), tuple(posterior.shape))
                if hint := hint or test(got, posterior, view):
                    return hint
            return None

        return run

    return grade("my_best", [each(_sees_only_the_view), each(_uses_the_view), each(_cannot_be_improved)])


def _sees_only_the_view(got, posterior, view):
    """Contexts of one view get one prediction."""
    for z in view.unique():
        rows = got[view == z]
        if (rows - rows[0]).abs().max() > 1e-9:
            return (
                f"two contexts of view {int(z)} get different predictions: "
                "whoever sees the view only cannot tell them apart"
            )
    return None


def _uses_the_view(got, posterior, view):
    if len(view.unique()) == 1 or (got - got[0]).abs().max() > 1e-9:
        return None
    if (got - 1 / got.shape[1]).abs().max() < 1e-9:
        return "you answer with the uniform guess: a view tells something, average what it leaves open"
    return "every context gets the same prediction: average within each view, not over all contexts"


def _cannot_be_improved(got, posterior, view):
    """No small step towards an outcome lowers the mean divergence."""
    if (got.max(-1).values > 1 - 1e-9).all():
        return (
            "you put all mass on one outcome: that wins a vote, but a predictor is scored by its "
            "divergence, which is infinite where it rules out what can happen"
        )
    cost = kl_bits(posterior, got.log2()).mean()
    for z in view.unique():
        here = view == z
        for y in range(got.shape[1]):
            step = F.one_hot(torch.tensor(y), got.shape[1]).double()
            moved = torch.where(here[:, None], 0.99 * got + 0.01 * step, got)
            if kl_bits(posterior, moved.log2()).mean() < cost - 1e-7:
                return _slip_of_best(got, posterior, view, int(z), y)
    return None


def _slip_of_best(got, posterior, view, z, y):
    logs = torch.stack([posterior[view == v].clamp(min=1e-300).log().mean(0) for v in view])
    if (logs.softmax(-1) - got).abs().max() < 1e-6:
        return "you average the logarithms: by the law of total probability probabilities are averaged"
    return (
        f"in view {z} a little more mass on outcome {y} lowers the mean divergence from the posterior: "
        "so your prediction is not the best"
    )


# --- what a view costs -------------------------------------------------------------------------


def check_price(answer) -> Report:
    """Grade `my_price(posterior, view)`: the least mean divergence in bits, I(Y; C | Z)."""

    def by_hand():
        """Two certain contexts, one view: one bit, and none if they are told apart."""
        sure = torch.eye(2, dtype=torch.float64)
        together = float(answer(sure.clone(), torch.tensor([0, 0])))
        if math.isnan(together):
            return "you say nan: impossible answers have probability 0, and 0 log 0 counts as 0"
        if abs(together - math.log(2)) < 1e-6:
            return "two certain contexts in one view cost 1 bit; you say 0.693, which is 1 bit in nats"
        if not abs(together - 1) < 1e-6:
            return f"two certain contexts in one view, answers 0 and 1: not knowing which costs 1 bit, you say {together:.4g}"
        apart = float(answer(sure.clone(), torch.tensor([0, 1])))
        if abs(apart - 1) < 1e-6:
            return "the same two contexts in two views cost nothing, you still say 1: condition on the view"
        if not abs(apart) < 1e-6:
            return f"if the view tells the contexts apart, it costs 0 bits; you say {apart:.4g}"
        return None

    def doubt_that_stays():
        """One view, equal contexts: the posterior's own doubt is not the view's fault."""
        same = torch.full((3, 4), 0.25, dtype=torch.float64)
        got = float(answer(same, torch.tensor([0, 0, 0])))
        if abs(got - 2) < 1e-6:
            return "three equal contexts cost 0 bits, you say 2: the doubt that the exact posterior has too is no loss"
        return None if abs(got) < 1e-6 else f"three equal contexts cost 0 bits; you say {got:.4g}"

    def agrees():
        cases = [_contexts(*case) for case in ((4, 12, 3, 4, False), (5, 60, 6, 5, True))]
        # Nine contexts are sure of one answer, the tenth of none: there the view is *less* unsure.
        unsure = torch.tensor([[1.0, 0.0, 0.0]] * 9 + [[1 / 3] * 3], dtype=torch.float64)
        for posterior, view in [*cases, (unsure, torch.zeros(10, dtype=torch.int64))]:
            got, want = float(answer(posterior.clone(), view.clone())), _least(posterior, view)
            if not abs(got - want) < 1e-6:
                return _slip_of_price(got, want, posterior, view)
        return None

    return grade("my_price", [by_hand, doubt_that_stays, agrees])


def _pooled(posterior, view):
    """Each context's mean of the posterior over its view, view by view."""
    best = torch.empty_like(posterior)
    for z in view.unique():
        best[view == z] = posterior[view == z].mean(0)
    return best


def _least(posterior, view) -> float:
    return float(kl_bits(posterior, _pooled(posterior, view).log2()).mean())


def _slip_of_price(got, want, posterior, view):
    best = _pooled(posterior, view)
    costs = kl_bits(posterior, best.log2())
    by_view = torch.stack([costs[view == z].mean() for z in view.unique()]).mean()
    if abs(got - float(by_view)) < 1e-6:
        return "you average over views as if all were equally frequent: contexts are, views are not"
    if math.isinf(got) or abs(got - float(kl_bits(best, posterior.log2()).mean())) < 1e-6:
        return f"you say {got:.4g}: the truth stands first in the divergence, since it decides what happens"
    if abs(got - float((entropy_bits(best.log2()) - entropy_bits(posterior.log2())).abs().mean())) < 1e-6:
        return "you average the absolute differences of entropies: they may have either sign, the divergence is their mean"
    return f"you say {got:.5f} bits, scoring the best prediction of the view gives {want:.5f}"


# --- which task it was -------------------------------------------------------------------------


def check_task(answer) -> Report:
    """Grade `my_task(bits, n_values)`: (n_pairs, with_replacement) of a task by its uniform guess."""

    def tried(with_replacement, sizes):
        def run():
            for V, K in sizes:
                bits = _measured(V, K, with_replacement)
                got = tuple(answer(bits, V))
                if len(got) != 2:
                    return f"the answer is {got}: give the number of questions, and whether keys may come back"
                hint = _slip_of_task(got, (K, with_replacement), bits, V)
                if hint:
                    return hint
            return None

        return run

    distinct = tried(False, ((20, 20), (20, 19), (10, 7), (6, 2)))
    back = tried(True, ((20, 19), (10, 10), (10, 4), (7, 6)))
    return grade("my_task", [distinct, back])


def _measured(V: int, K: int, with_replacement: bool) -> float:
    """The uniform guess's error: the mean of log2 V less the doubt that is left, question by question."""
    moments = baselines.situations(V, K, with_replacement)
    return sum(s.weight * (math.log2(V) - s.entropy) for s in moments)


def _slip_of_task(got, want, bits, V):
    K, back = int(got[0]), bool(got[1])
    if (K, back) == want or (2 <= K <= V and abs(_measured(V, K, back) - bits) < 1e-9):
        return None
    what = f"V = {V}, {bits:.4f} bits"
    if not 2 <= K <= V:
        return f"{what}: you say {K} questions, but there were 2 to {V}"
    own = _measured(V, K, back)
    if back != want[1] and back:
        return f"{what}: keys were all different; coming back, {K} questions give {own:.4f}"
    if back != want[1]:
        return f"{what}: with keys that are all different nobody ignorant errs so much; {K} questions give {own:.4f}"
    return f"{what}: the sampling is right, but {K} questions give {own:.4f} bits: try every number of questions"


# --- what a position sees ----------------------------------------------------------------------


def check_sees(answer) -> Report:
    """Grade `my_sees(predict, inputs, n_tokens)`: which places the last prediction depends on."""
    rng = torch.Generator().manual_seed(7)
    inputs = torch.randint(4, (5, 6), generator=rng)

    def on(places, weight, about):
        def run():
            got = [bool(x) for x in answer(_predictor(weight), inputs.clone(), 4)]
            if len(got) != 6:
                return f"there are 6 tokens, your list has {len(got)} entries"
            want = [place in places for place in range(6)]
            return None if got == want else _slip_of_sees(got, want, about)

        return run

    return grade("my_sees", [on(*case) for case in _networks(inputs)])


def _predictor(weight: Callable[[torch.Tensor], torch.Tensor]):
    """A predictor of 3 questions and 3 outcomes whose logits at the last one are `weight(inputs)`."""

    def predict(tokens: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(len(tokens), 3, 3, dtype=torch.float64)
        logits[:, 0, 0] = 5.0 * tokens[:, 0]  # the first question looks at the first token
        logits[:, 1, 1] = 3.0 * tokens[:, 2]
        logits[:, 2] += weight(tokens.double())
        return F.log_softmax(logits, dim=-1) / math.log(2)

    return predict


def _networks(inputs: torch.Tensor) -> Iterator[tuple]:
    """(places seen, logits of the last question, what a wrong answer may have overlooked)."""
    lean = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    yield {5}, lambda x: (x[:, 5:] - 1.5) * lean, "it reads the last token, and other questions read other tokens"
    yield {1, 3, 5}, lambda x: (x[:, 1::2].sum(1, keepdim=True) - 4.5) * lean, "it adds up every second token"
    yield set(), lambda x: lean.expand(len(x), 3), "it reads nothing at all"
    faint = 4 * lean + 1e-3 * lean.flip(0)
    yield {2}, lambda x: 4 * lean + 1e-3 * x[:, 2:3] * faint, (
        "the effect of one token is small and the most probable outcome stays the same: compare probabilities"
    )
    # Changes only if the token at 4 becomes the one value that no episode has after it by adding 1.
    rare = {(int(v) + 2) % 4 for v in inputs[:, 4]} - {(int(v) + 1) % 4 for v in inputs[:, 4]}
    token = min(rare) if rare else 0
    yield {4}, lambda x: (x[:, 4:5] == token) * lean, (
        f"the token at 4 matters only when it is {token}: try every token there"
    )
    only = 1 + int((inputs[1:, 3] != inputs[0, 3]).long().argmax())
    gate = int(inputs[only, 3])
    closed = inputs[:, 3] != gate
    assert bool(closed[0]) and not bool(closed.all())
    yield {0, 3}, lambda x: (x[:, 3:4] == gate) * x[:, :1] * lean, (
        "the first token matters in some episodes only: look at all of them"
    )


def _slip_of_sees(got, want, about):
    missed = [place for place in range(6) if want[place] and not got[place]]
    extra = [place for place in range(6) if got[place] and not want[place]]
    if missed:
        return f"the prediction depends on the token at {missed[0]} and you say it does not: {about}"
    return f"the last prediction does not depend on the token at {extra[0]} and you say it does: {about}"


# --- eliminate with a mean ---------------------------------------------------------------------


def check_logits(answer) -> Report:
    """Grade `my_logits(mean)`: logits (B, K, V) from the mean of one-hot tokens, (B, K, 2V)."""

    def sized(n_values):
        def run():
            tunnel = tunnels.Bijection(n_values)
            episodes = tunnel.sample(8, torch.Generator().manual_seed(n_values))
            tokens = F.one_hot(episodes.inputs, 2 * n_values).double()
            length = torch.arange(1, tokens.shape[1] + 1, dtype=torch.float64)
            mean = (tokens.cumsum(1) / length[:, None])[:, ::2]  # (B, K, 2V), at the keys
            got = torch.as_tensor(answer(mean.clone())).double()
            if got.shape != episodes.posterior.shape:
                return f"the logits have shape {tuple(got.shape)}, expected {tuple(episodes.posterior.shape)}"
            if not got.isfinite().all():
                return "a logit is infinite or not a number: a large negative number is enough"
            return _slip_of_logits(got, episodes, n_values)

        return run

    return grade("my_logits", [sized(n_values) for n_values in (5, 12, 20)])


def _slip_of_logits(got, episodes, V):
    prob = got.softmax(-1)
    costs = kl_bits(episodes.posterior, prob.log2()).mean(0)  # (K,)
    if costs.max() < 1e-3:
        return None
    used = episodes.posterior == 0
    if prob[used].mean() > 1.5 * prob[~used].mean():
        return "used values get *more* mass than unused ones: a count has to lower a logit"
    if costs[1:3].max() < 1e-3:
        k = int((costs >= 1e-3).long().argmax())
        return (
            f"V = {V}: the first questions are right, but {costs[k]:.4f} bits are missing at question {k}: a mean "
            "over more tokens counts each for less, so undo the division"
        )
    on_used = prob[:, 1:][used[:, 1:]]
    if torch.allclose(prob, torch.full_like(prob, 1 / V)):
        return "every value has the same probability: nothing is eliminated"
    if used[:, 1].any() and prob[:, 1][used[:, 1]].max() < 1 / V:
        return f"used values are marked down too little: one keeps probability {on_used.max():.3f}; take a larger factor"
    return "a used value keeps its probability and another one loses it: keys are the first V channels, values the last V"


# --- the best of a bag -------------------------------------------------------------------------


def check_bag(answer) -> Report:
    """Grade `my_bag(keys, values, asked, n_values)`: V probabilities from two shuffled lists."""

    def looked_at(test):
        def run():
            for bag, counts in _bags():
                keys, values, asked, V = list(bag[0]), list(bag[1]), bag[2], 3
                # The two lists come in orders of their own, so that places say nothing.
                got, hint = _table(answer(keys, values[::-1], asked, V), (V,))
                if hint := hint or test(got, counts, keys, values[::-1], asked):
                    return hint
            return None

        return run

    return grade("my_bag", [looked_at(test) for test in (_new_in_bag, _order_in_bag, _counted_in_bag)])


def _bags() -> Iterator[tuple]:
    """Every bag of 0 to 4 pairs of a tunnel with 3 values, and how often each answer follows it."""
    counts: dict = defaultdict(lambda: torch.zeros(3, dtype=torch.float64))
    for k in range(5):
        for mapping in permutations(range(3)):
            for *keys, asked in product(range(3), repeat=k + 1):
                bag = (tuple(sorted(keys)), tuple(sorted(mapping[key] for key in keys)), asked)
                counts[bag][mapping[asked]] += 1
    yield from counts.items()


def _told(keys, values, asked):
    return f"keys {keys}, values {values} (orders mean nothing), asked {asked}"


def _new_in_bag(got, counts, keys, values, asked):
    if asked in keys:
        return None
    if (got - counts / counts.sum()).abs().max() < 1e-9:
        return None
    return f"{_told(keys, values, asked)}: the key is new, so its value is one that never came"


def _order_in_bag(got, counts, keys, values, asked):
    truth = counts / counts.sum()
    if asked not in keys or (got - truth).abs().max() < 1e-9:
        return None
    there = values[keys.index(asked)]
    if got[there] > 1 - 1e-9 and truth[there] < 1 - 1e-9:
        return f"{_told(keys, values, asked)}: you take the value at the key's place in the list, but the lists were shuffled"
    if all(got[value] < 1e-9 for value in values):
        return f"{_told(keys, values, asked)}: the key has come before, so its value is among those that came"
    return None


def _counted_in_bag(got, counts, keys, values, asked):
    truth = counts / counts.sum()
    if (got - truth).abs().max() < 1e-9:
        return None
    where, times = _told(keys, values, asked), keys.count(asked)
    used = sorted(set(values))
    if asked in keys and all(abs(float(got[v]) - 1 / len(used)) < 1e-9 for v in used):
        return f"{where}: the key came {times} times, and you let every value that came be possible: how often did its value come?"
    share = torch.tensor([values.count(v) for v in range(3)], dtype=torch.float64)
    if share.sum() and (got - share / share.sum()).abs().max() < 1e-9:
        return f"{where}: you weigh values by how often they came: a frequent value belongs to a frequent key, not to this one"
    said = ", ".join(f"{float(p):.3f}" for p in got)
    right = ", ".join(f"{float(p):.3f}" for p in truth)
    return f"{where}: you say {said}; counting all episodes with this bag gives {right}"

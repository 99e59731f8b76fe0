"""Checks for chapter 1, "What would it mean to be Bayesian?".

Each check tries an answer on random instances and grades what has to hold: sums, zeros,
symmetries, inequalities, agreement with a count done on the spot.

Axes: B episodes, K scored positions, V values, Y outcomes, H hypotheses, C contexts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch

from bayeswind_lib import scoring, tunnels
from bayeswind_lib.exercises.core import Report, grade


def _row(value) -> torch.Tensor:
    """An answer's result as float64; lists and arrays are welcome."""
    return torch.as_tensor(value, dtype=torch.float64).detach()


def _number(value) -> float:
    return float(_row(value))


def _words(row: torch.Tensor) -> str:
    return "(" + ", ".join(f"{v:.3g}" for v in row.flatten().tolist()) + ")"


def _close(a, b, tolerance: float = 1e-6) -> bool:
    a, b = _row(a), _row(b)
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=tolerance)


def _distributions(rng: torch.Generator, *shape: int, zeros: bool = False) -> torch.Tensor:
    """Random rows that sum to 1, uneven; `zeros` rules out at least one outcome of each."""
    weight = -torch.rand(*shape, generator=rng, dtype=torch.float64).log()
    if zeros:
        weight = weight * (torch.arange(shape[-1]) != 1)
    return weight / weight.sum(-1, keepdim=True)


def _not_distributions(rows: torch.Tensor, shape: torch.Size) -> str | None:
    """A hint unless `rows` are distributions of this shape."""
    if rows.shape != shape:
        return f"the result has shape {tuple(rows.shape)}, expected {tuple(shape)}"
    if not rows.isfinite().all():
        return "a probability came out as NaN or infinite: was something divided by a sum that is zero?"
    if rows.min() < 0:
        return f"a probability of {rows.min():.3g} is negative"
    sums = rows.sum(-1)
    if (sums - 1).abs().max() > 1e-6:
        worst = sums.flatten()[(sums - 1).abs().argmax()]
        return f"the probabilities of one prediction sum to {worst:.4g}: divide by their sum"
    return None


# --- the posterior predictive of a bijection -----------------------------------------------------


def _survivors(pairs: list, n_values: int) -> list[tuple[int, ...]]:
    every = itertools.permutations(range(n_values))
    return [m for m in every if all(m[key] == value for key, value in pairs)]


def _bijection_instances():
    """Pairs that a bijection allows, and a query that is new or (every third time) a repeat."""
    rng = torch.Generator().manual_seed(11)
    for n_values, n_shown in ((2, 0), (3, 1), (3, 2), (4, 1), (4, 2), (5, 3), (5, 1), (6, 4)):
        keys = torch.randperm(n_values, generator=rng).tolist()
        values = torch.randperm(n_values, generator=rng).tolist()
        pairs = list(zip(keys, values, strict=True))[:n_shown]
        yield pairs, keys[n_shown], n_values
        if n_shown:
            yield pairs, keys[n_shown - 1], n_values


def check_predictive(answer) -> Report:
    """Grade `my_predictive(pairs, query, n_values)`: V probabilities for the value at key `query`.

    `pairs` is a list of (key, value), consistent with some bijection; all V! bijections are
    equally likely before anything is shown.
    """

    def each(test):
        def run():
            for pairs, query, n_values in _bijection_instances():
                row = _row(answer(list(pairs), query, n_values))
                if hint := test(row, pairs, query, n_values):
                    return f"{hint} (V={n_values}, pairs {pairs}, query {query})"
            return None

        return run

    tests = [_predictive_is_one, _predictive_repeats, _predictive_eliminates, _predictive_counts]
    return grade("my_predictive", [each(test) for test in tests])


def _predictive_is_one(row, pairs, query, n_values):
    return _not_distributions(row, torch.Size([n_values]))


def _predictive_repeats(row, pairs, query, n_values):
    known = dict(pairs).get(query)
    if known is not None and row[known] < 1 - 1e-9:
        return f"this key was shown with value {known}, which has to be certain, you give it {row[known]:.3f}"
    return None


def _predictive_eliminates(row, pairs, query, n_values):
    used = [value for key, value in pairs if key != query]
    if used and row[used].sum() > 1e-9:
        return (
            f"used values get probability {row[used].sum():.3f}: a bijection gives no value to two keys, "
            "so count only the maps that agree with every pair"
        )
    return None


def _predictive_counts(row, pairs, query, n_values):
    alive = _survivors(pairs, n_values)
    share = torch.tensor([sum(m[query] == v for m in alive) for v in range(n_values)]) / len(alive)
    if (row - share).abs().max() > 1e-6:
        v = int((row - share).abs().argmax())
        return (
            f"of the {len(alive)} maps that agree with the pairs, a share of {share[v]:.3f} sends the query "
            f"to {v}, you say {row[v]:.3f}: every surviving map counts the same"
        )
    return None


# --- the posterior predictive of anything ----------------------------------------------------------


def check_bayes(answer) -> Report:
    """Grade `my_bayes(prior, likelihood, seen)`: Y probabilities of the next outcome.

    prior (H,), likelihood (H, Y) with the probability of each outcome under each hypothesis,
    seen: list of outcomes, independent draws from one and the same hypothesis.
    """
    rng = torch.Generator().manual_seed(12)
    instances = []
    for H, Y, n in ((2, 2, 1), (3, 2, 2), (4, 3, 3), (5, 4, 6)):
        seen = torch.randint(Y, (n,), generator=rng).tolist()
        instances.append((_distributions(rng, H), _distributions(rng, H, Y), seen))

    def each(test):
        def run():
            hints = (test(answer, p.clone(), f.clone(), list(s)) for p, f, s in instances)
            return next((hint for hint in hints if hint), None)

        return run

    tests = [_bayes_is_one, _bayes_before_data, _bayes_chain, _bayes_evidence]
    return grade("my_bayes", [each(test) for test in tests])


def _bayes_is_one(answer, prior, likelihood, seen):
    return _not_distributions(_row(answer(prior, likelihood, seen)), likelihood.shape[1:])


def _bayes_before_data(answer, prior, likelihood, seen):
    row, mixture = _row(answer(prior, likelihood, [])), prior @ likelihood
    if _close(row, mixture):
        return None
    if _close(row, likelihood.mean(0)):
        return "before any data all hypotheses weigh the same in your prediction: weigh them by the prior"
    if _close(row, likelihood[prior.argmax()]):
        return "you bet on the one most probable hypothesis; average over all of them, each with its weight"
    return f"before any data the prediction is the prior's average {_words(mixture)}, yours is {_words(row)}"


def _bayes_chain(answer, prior, likelihood, seen):
    """Chaining predictions gives the probability of the whole sequence under the prior."""
    rows = [_row(answer(prior, likelihood, seen[:i])) for i in range(len(seen) + 1)]
    for i, row in enumerate(rows[1:], start=1):
        weight = prior * likelihood[:, seen[:i]].prod(1)
        if _close(row, weight @ likelihood / weight.sum()):
            continue
        return _bayes_slip(row, prior, likelihood, seen[:i])
    return None


def _bayes_slip(row, prior, likelihood, seen) -> str:
    weight = prior * likelihood[:, seen].prod(1)
    last = prior * likelihood[:, seen[-1]]
    flat = likelihood[:, seen].prod(1)
    if _close(row, prior @ likelihood):
        return f"after {len(seen)} outcomes you still predict with the prior: update the weights first"
    if _close(row, likelihood[weight.argmax()]):
        return "you bet on the hypothesis that is most probable now; the others still count, with their weights"
    if _close(row, flat @ likelihood / flat.sum()):
        return "the prior is gone after the first update: the weight is prior times likelihood"
    if len(seen) > 1 and _close(row, last @ likelihood / last.sum()):
        return "only the last outcome counts in your update: multiply the likelihoods of all outcomes seen"
    share = weight / weight.sum()
    return (
        f"after outcomes {seen} the hypotheses have weights {_words(share)}, which predict "
        f"{_words(share @ likelihood)}; you say {_words(row)}"
    )


def _bayes_evidence(answer, prior, likelihood, seen):
    order = list(reversed(seen))
    if not _close(answer(prior, likelihood, seen), answer(prior, likelihood, order)):
        return "the order of independent outcomes changes your prediction, it must not"
    return None


# --- bits ----------------------------------------------------------------------------------------


def check_entropy(answer) -> Report:
    """Grade `my_entropy(prob)`: entropy in bits over the last axis; prob (..., Y), zeros allowed."""
    rng = torch.Generator().manual_seed(13)

    def uniform():
        got = _row(answer(torch.full((4,), 0.25, dtype=torch.float64)))
        if _close(got, math.log(4)):
            return "four equal outcomes have log2(4) = 2 bits, you give 1.386: those are nats, divide by ln 2"
        if _close(got, -2.0):
            return "an entropy is never negative: the logarithm of a probability needs a minus sign"
        if _close(got, 0.5):
            return "the mean of the four terms is not their sum: sum over the outcomes"
        return None if _close(got, 2.0) else f"four equal outcomes have 2 bits, you give {_words(got)}"

    def zeros():
        got = _row(answer(torch.tensor([0.5, 0.0, 0.25, 0.25, 0.0], dtype=torch.float64)))
        if got.isnan().any() or got.isinf().any():
            return "an impossible outcome turns the result into NaN or infinity: 0 log 0 counts as 0"
        if not _close(got, 1.5, 1e-9):
            return (
                f"outcomes with probability 0 must add nothing: (1/2, 0, 1/4, 1/4, 0) has 1.5 bits, you give "
                f"{float(got):.6f}; leave those terms out and do not shift the probabilities"
            )
        return None

    def batched():
        prob = _distributions(rng, 3, 2, 5)
        got = _row(answer(prob))
        if got.shape != (3, 2):
            return f"for probabilities (3, 2, 5) the result has shape {tuple(got.shape)}, expected (3, 2)"
        return None

    return grade("my_entropy", [uniform, zeros, batched, lambda: _entropy_is_additive(answer, rng)])


def _entropy_is_additive(answer, rng):
    """Independent parts add up; relabelling outcomes changes nothing; unequal means fewer bits."""
    a, b = _distributions(rng, 4, 3), _distributions(rng, 4, 5)
    pair = (a[:, :, None] * b[:, None, :]).flatten(1)
    if not _close(answer(pair), _row(answer(a)) + _row(answer(b))):
        return "two independent draws must have the sum of their entropies, yours do not add up"
    if not _close(answer(b.flip(-1)), answer(b)):
        return "renaming the outcomes changed the entropy, it must not"
    if (_row(answer(a)) >= math.log2(3)).any():
        return f"an uneven distribution on 3 outcomes must stay below log2(3), you give {_words(_row(answer(a)))}"
    return None


def check_kl(answer) -> Report:
    """Grade `my_kl(truth, prediction)`: KL divergence in bits over the last axis, both (..., Y)."""
    rng = torch.Generator().manual_seed(14)
    p, q = _distributions(rng, 6, 4), _distributions(rng, 6, 4)

    def itself():
        got = _row(answer(p, p.clone()))
        if got.shape != (6,):
            return f"for distributions (6, 4) the result has shape {tuple(got.shape)}, expected (6,)"
        if got.abs().max() > 1e-9:
            return f"the divergence of a distribution from itself is 0, you give {got.abs().max():.4f}: the truth's own entropy is not subtracted"
        return None

    def direction():
        truth, prediction = _row([0.5, 0.5]), _row([0.25, 0.75])
        got = _number(answer(truth, prediction))
        right, swapped = 1 - math.log2(3) / 2, 0.75 * math.log2(3) - 1
        if _close(got, right):
            return None
        if _close(got, swapped):
            return "truth and prediction have changed places: nature draws from the truth, so the truth weighs the logarithms"
        if _close(got, right * math.log(2)):
            return "right but for the unit: these are nats, divide by ln 2"
        return f"a fair coin predicted as (1/4, 3/4) costs {right:.4f} bits, you say {got:.4f}"

    def impossible():
        got = _number(answer(_row([0.5, 0.5, 0.0]), _row([0.25, 0.5, 0.25])))
        if math.isnan(got):
            return "an outcome that cannot happen makes NaN: 0 log 0 counts as 0, also inside this sum"
        if not _close(got, 0.5, 1e-9):
            return f"outcomes that cannot happen add nothing: (1/2, 1/2, 0) against (1/4, 1/2, 1/4) is 0.5 bits, you give {got:.6f}"
        return None

    def ruled_out():
        got = _number(answer(_row([0.5, 0.5]), _row([1.0, 0.0])))
        if not math.isinf(got):
            return f"the prediction rules out what happens half of the time: the divergence is infinite, you give {got:.4g}"
        return None

    return grade("my_kl", [itself, direction, impossible, ruled_out, lambda: _kl_is_excess(answer, p, q)])


def _kl_is_excess(answer, p, q):
    """What the prediction loses against the truth, averaged over what happens."""
    got = _row(answer(p, q))
    if (got < 0).any():
        return f"a divergence is never negative, you give {got.min():.4f}"
    gap = sum(p[:, y] * (p[:, y].log2() - q[:, y].log2()) for y in range(p.shape[-1]))
    if not _close(got, gap):
        return f"drawing every outcome as often as it happens, the prediction loses {_words(gap[:2])} bits, ... more than the truth; you say {_words(got[:2])}"
    return None


# --- what training asks for ------------------------------------------------------------------------


def check_blind(answer) -> Report:
    """Grade `my_blind(weights, posteriors)`: the best single prediction for all contexts.

    weights (C,): how often each context occurs; posteriors (C, Y): the truth in each. The result
    (Y,) has the lowest expected cross-entropy among predictors that cannot see the context.
    """
    rng = torch.Generator().manual_seed(15)
    instances = []
    for C, Y, zeros in ((2, 2, False), (3, 4, True), (6, 3, False), (5, 5, False)):
        weights, posteriors = _distributions(rng, C), _distributions(rng, C, Y, zeros=zeros)
        if zeros:
            posteriors[0] = posteriors[0].roll(1, -1)
        instances.append((weights, posteriors))

    def each(test):
        def run():
            for weights, posteriors in instances:
                row = _row(answer(weights.clone(), posteriors.clone()))
                if hint := test(row, weights, posteriors):
                    return hint
            return None

        return run

    return grade("my_blind", [each(_blind_is_one), each(_blind_slips), each(_blind_is_lowest)])


def _blind_is_one(row, weights, posteriors):
    return _not_distributions(row, posteriors.shape[1:])


def _expected_loss(row, weights, posteriors) -> float:
    """Bits lost on average by predicting `row` in every context."""
    surprise = torch.where(posteriors > 0, -posteriors * row.log2(), 0.0)
    return float((weights[:, None] * surprise).sum())


def _blind_slips(row, weights, posteriors):
    powers = (weights[:, None] * posteriors.log()).sum(0).exp()
    if _close(row, posteriors.mean(0)):
        return "rare and frequent contexts count the same in your mean: weigh each by how often it occurs"
    if _close(row, powers / powers.sum()):
        return "you averaged logarithms: one context that rules an outcome out then rules it out for all; average probabilities"
    if _close(row, posteriors[weights.argmax()]):
        return "that is the truth in the most frequent context; all the others are charged too"
    return None


def _blind_is_lowest(row, weights, posteriors):
    """Moving a little probability from one outcome to another never helps at the minimum."""
    here = _expected_loss(row, weights, posteriors)
    for source, goal in itertools.permutations(range(len(row)), 2):
        step = 0.01 * row[source]
        moved = row.clone()
        moved[source] -= step
        moved[goal] += step
        there = _expected_loss(moved, weights, posteriors)
        if there < here - 1e-9 or math.isinf(here):
            return (
                f"your prediction {_words(row)} costs {here:.4f} bits; moving {step:.4f} of probability from "
                f"outcome {source} to {goal} lowers that to {there:.4f}"
            )
    return None


def check_noise(answer) -> Report:
    """Grade `my_noise(truth, prediction)`: variance of the gradient that one sampled outcome gives.

    truth, prediction (Y,): the outcome is drawn from `truth`; the loss is the cross-entropy in nats
    of softmax(logits) = `prediction`. The variance is summed over the Y logits.
    """
    rng = torch.Generator().manual_seed(16)
    truths = [_distributions(rng, Y, zeros=Y > 3) for Y in (2, 3, 5, 8)]
    pairs = [(p, _distributions(rng, len(p))) for p in truths]
    pairs.append((_row([0.0, 1.0, 0.0]), _row([0.2, 0.5, 0.3])))  # certain: no noise at all

    def enumerated():
        for p, q in pairs:
            got, (mean, noise) = _number(answer(p.clone(), q.clone())), _gradient_moments(p, q)
            if not _close(got, noise):
                return _noise_slip(got, p, q, mean, float(noise))
        return None

    return grade("my_noise", [enumerated])


def _gradient_moments(truth, prediction) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean (Y,) and summed variance of the gradient, by running backward for every outcome."""
    logits = prediction.log().requires_grad_()
    outcomes = range(len(truth))
    gradients = torch.stack([
        torch.autograd.grad(-logits.log_softmax(-1)[y], logits)[0] for y in outcomes
    ])
    mean = truth @ gradients
    return mean, (truth[:, None] * (gradients - mean) ** 2).sum()


def _noise_slip(got: float, p, q, mean, noise: float) -> str:
    if _close(got, noise + (mean**2).sum()):
        return (
            "that is the mean square of the gradient: subtract the square of the mean gradient, which is the "
            "signal and not the noise"
        )
    if _close(got, 1 - (q**2).sum()):
        return "you took the variance under the prediction; the outcomes are drawn from the truth"
    if _close(got, noise / len(p)):
        return "that is the mean variance of one logit: sum over the logits"
    if _close(got, noise / math.log(2) ** 2):
        return "that is in bits squared: the loss is in nats here, so the gradient is prediction minus one-hot"
    if _close(got, 0.0):
        return "0 is the noise of posterior targets; a sampled outcome is one-hot and changes from draw to draw"
    return (
        f"backward through all {len(p)} outcomes, weighted by the truth, gives a variance of {noise:.4f}, "
        f"you say {got:.4f}"
    )


# --- the metric on trial ---------------------------------------------------------------------------


def check_two_errors(answer) -> Report:
    """Grade `my_two_errors(entropy, oracle)`: the strict and the lax entropy error, bits.

    entropy, oracle (B, K): entropies of the prediction and of the exact posterior. The strict
    error averages |difference| over episodes and positions; the lax one averages each curve over
    episodes first.
    """
    rng = torch.Generator().manual_seed(17)
    oracle = 3 * torch.rand(7, 5, generator=rng, dtype=torch.float64)
    entropy = oracle + torch.randn(7, 5, generator=rng, dtype=torch.float64)

    def two_numbers():
        result = answer(entropy.clone(), oracle.clone())
        if isinstance(result, torch.Tensor | float) or len(result) != 2:
            return "return two numbers: the strict error, then the lax one"
        sizes = [_row(part).numel() for part in result]
        return None if sizes == [1, 1] else f"two numbers are expected, yours hold {sizes} entries"

    tests = [two_numbers, *_two_errors_tests(answer, entropy, oracle)]
    return grade("my_two_errors", tests)


def _two_errors_tests(answer, entropy, oracle) -> list[Callable]:
    def both(e, o):
        return [_number(part) for part in answer(e.clone(), o.clone())]

    def opposite():
        """Half a bit too many in one episode, half a bit too few in the other."""
        strict, lax = both(_row([[1.5, 1.5], [0.5, 0.5]]), torch.ones(2, 2, dtype=torch.float64))
        if _close(strict, 0.0) and _close(lax, 0.5):
            return "the two have changed places: the strict one is never the smaller"
        if not _close(strict, 0.5):
            return f"off by half a bit in every episode, up and down: the strict error is 0.5, you say {strict:.3f}; take the absolute value before any mean"
        if not _close(lax, 0.0):
            return f"half a bit up in one episode and down in the other cancel in the lax error, you say {lax:.3f}: average over episodes first"
        return None

    def positions():
        """Too many bits at one position, too few at the next, in all episodes: both see it."""
        strict, lax = both(_row([[1.5, 0.5]] * 3), torch.ones(3, 2, dtype=torch.float64))
        if not _close(lax, 0.5):
            return f"errors of opposite sign at two positions must not cancel in the lax error either, you say {lax:.3f}: average over episodes, then absolute value, then positions"
        return None if _close(strict, 0.5) else f"half a bit off everywhere is a strict error of 0.5, you say {strict:.3f}"

    def symmetric():
        if not _close(both(entropy, oracle), both(oracle, entropy)):
            return "exchanging prediction and oracle changes your errors; the absolute difference does not care"
        strict, lax = both(entropy, oracle)
        if lax > strict + 1e-12:
            return f"the lax error {lax:.3f} exceeds the strict one {strict:.3f}"
        return None

    def linear():
        one, doubled = both(entropy, oracle), both(oracle + 2 * (entropy - oracle), oracle)
        if not _close(doubled, [2 * v for v in one]):
            return "twice the deviation must give twice the error: absolute values, no squares"
        shifted = both(oracle + 0.25, oracle)
        return None if _close(shifted, [0.25, 0.25]) else f"a quarter of a bit too many everywhere is an error of 0.25 both ways, you say {shifted}"

    return [opposite, positions, symmetric, linear]


def check_impostor(answer) -> Report:
    """Grade `my_impostor(posterior)`: wrong predictions that entropy error cannot see.

    posterior (B, K, V) of bijection episodes; the result has the same shape, the same entropy at
    every episode and position, and a mean total variation above 0.4.
    """
    rng = torch.Generator().manual_seed(18)
    batches = [tunnels.Bijection(V).sample(B, rng).posterior for V, B in ((10, 40), (20, 30))]

    def each(test):
        def run():
            hints = (test(_row(answer(p.clone())), p) for p in batches)
            return next((hint for hint in hints if hint), None)

        return run

    return grade("my_impostor", [each(_impostor_is_one), each(_impostor_entropy), each(_impostor_distance)])


def _impostor_is_one(row, posterior):
    return _not_distributions(row, posterior.shape)


def _impostor_entropy(row, posterior):
    error = (scoring.entropy_bits(row.log2()) - scoring.entropy_bits(posterior.log2())).abs()
    if error.max() > 1e-6:
        episode, position = divmod(int(error.argmax()), error.shape[1])
        kind = "shuffle the values of a prediction, not the positions" if _same_multiset(row, posterior) else (
            "which changes of a distribution keep its entropy?"
        )
        return (
            f"episode {episode}, position {position + 1}: the entropy is off by {error.max():.3f} bits, so "
            f"entropy error does see you; {kind}"
        )
    return None


def _same_multiset(row, posterior) -> bool:
    """The same predictions, but at other positions of the episode."""
    return _close(scoring.entropy_bits(row.log2()).sort(-1)[0], scoring.entropy_bits(posterior.log2()).sort(-1)[0])


def _impostor_distance(row, posterior):
    tv = float((row - posterior).abs().sum(-1).mean() / 2)
    if tv < 1e-9:
        return "this is the truth itself: an honest predictor is no impostor"
    if tv <= 0.4:
        return f"the mean total variation is {tv:.3f}, more than 0.4 is asked: too few of the predictions moved their mass"
    return None

"""Checks for chapter 3, "Training a transformer in the tunnel".

Every check states properties and tries them on random instances; what it compares with is
counted, enumerated or measured on the spot, so that a different correct answer passes too.

Axes: B episodes, K scored positions, T tokens, V values, Y outcomes.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from bayeswind_lib import baselines, models, tunnels
from bayeswind_lib.exercises.core import Report, grade


def _number(value) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


def _close(a: float, b: float, tolerance: float = 1e-5) -> bool:
    return abs(a - b) <= tolerance * max(1.0, abs(b))


def _small_config(n_values: int, layers: int, heads: int, channels: int, hidden: int):
    """A transformer's config for the bijection tunnel, small, all sizes different."""
    interface = tunnels.Bijection(n_values).interface.to_dict()
    interface.pop("n_features")
    return models.TransformerConfig(
        **interface, n_layers=layers, n_heads=heads, width=heads * channels, hidden=hidden
    )


# --- attention that cannot look ahead ---------------------------------------------------------


def check_pattern(answer) -> Report:
    """Grade `my_pattern(scores)`: attention weights, float (B, H, T, T), that never look ahead."""
    rng = torch.Generator().manual_seed(31)
    scores = [torch.randn(2, 3, n, n, generator=rng, dtype=torch.float64) for n in (2, 5, 7)]

    def each(test):
        def run():
            return next((hint for s in scores if (hint := test(s, answer(s.clone())))), None)
        return run

    return grade("my_pattern", [each(_rows), each(_no_future), each(_softmax_ratios)])


def _rows(scores, pattern):
    if pattern.shape != scores.shape:
        return (
            f"the weights have shape {tuple(pattern.shape)}, the scores {tuple(scores.shape)}: "
            "keep it"
        )
    if pattern.isnan().any():
        return (
            "the first token's weights are not a number: it has nobody to look at but itself, "
            "so the diagonal has to stay"
        )
    sums = pattern.sum(-1)
    if (sums - 1).abs().max() < 1e-6:
        return None
    if (pattern.sum(-2) - 1).abs().max() < 1e-6:
        return (
            "columns sum to 1 and rows do not: each token shares out its weight over those it "
            "reads, the last axis"
        )
    return (
        f"a row sums to {sums.min():.3f}: weight went to later tokens and was cut off afterwards; "
        "mask the scores before the softmax"
    )


def _no_future(scores, pattern):
    ahead = pattern.triu(1)
    if ahead.abs().max() > 1e-9:
        i, j = (ahead.amax((0, 1)) > 1e-9).nonzero()[0].tolist()
        return (
            f"token {i} looks at token {j}, which comes later: "
            "mask where the column's index is larger than the row's"
        )
    return None


def _softmax_ratios(scores, pattern):
    """In each row the ratio of two weights is exp of the difference of their scores."""
    for i in range(1, scores.shape[-1]):
        row, last = pattern[..., i, : i + 1], scores[..., -1, : i + 1]
        if row.min() <= 0:
            return f"token {i} gives a weight of {row.min():g} where it may look: exp(score) is positive"
        if _in_ratio(row, scores[..., i, : i + 1]):
            continue
        if _in_ratio(row, last):
            return f"token {i} weighs by the last row of scores: every row has scores of its own"
        return (
            f"the weights of token {i} are not the softmax of its scores: "
            "exp(score) has to decide who gets how much"
        )
    return None


def _in_ratio(weights, scores) -> bool:
    """Whether the weights are proportional to exp(scores) along the last axis."""
    gap = weights.log() - weights[..., :1].log() - (scores - scores[..., :1])
    return bool(gap.abs().max() <= 1e-6)


# --- what a network weighs --------------------------------------------------------------------


def check_n_parameters(answer) -> Report:
    """Grade `my_n_parameters(config)`: the number of trained numbers of a transformer."""
    sizes = ((3, 1, 2, 4, 20), (5, 2, 3, 2, 17), (7, 3, 1, 5, 9), (6, 4, 2, 3, 11))
    configs = [_small_config(*size) for size in sizes]

    def agrees():
        got = [_number(answer(config)) for config in configs]
        built = [models.build("transformer", config.to_dict()) for config in configs]
        counted = [models.count_parameters(model) for model in built]
        wrong = [g - n for g, n in zip(got, counted, strict=True)]
        if not any(wrong):
            return None
        for term, hint in PARAMETER_SLIPS:
            if all(abs(w - term(c)) < 0.5 for w, c in zip(wrong, configs, strict=True)):
                return hint
        return (
            f"with {configs[0].n_layers} layer, width {configs[0].width} and hidden "
            f"{configs[0].hidden} the "
            f"network holds {counted[0]} numbers, you say {got[0]:g}: go through "
            "`named_parameters()` block by block"
        )

    return grade("my_n_parameters", [agrees])


PARAMETER_SLIPS = (
    (lambda c: c.n_outputs * c.width,
     "the readout is counted, but it is tied: it uses the embeddings of the value tokens again"),
    (lambda c: c.n_tokens * c.width,
     "the readout is counted, but it is tied: it uses the embeddings of the value tokens again"),
    (lambda c: -c.n_positions * c.width,
     "one table is missing: each of the T positions has a learned vector too"),
    (lambda c: -c.n_layers * (c.hidden + c.width),
     "the feed-forward layers have biases, one on the way up and one on the way down"),
    (lambda c: -(2 * c.n_layers + 1) * c.width,
     "the norms learn a gain for each channel: two in a block and one at the end"),
    (lambda c: -c.width, "the last norm, before the readout, has gains as well"),
    (lambda c: -c.n_layers * c.width**2,
     "attention has four square matrices: queries, keys, values and the output map"),
    (lambda c: 4 * c.n_layers * c.width, "the maps inside attention have no bias here"),
)


# --- the loss at the right places --------------------------------------------------------------


def check_loss(answer) -> Report:
    """Grade `my_loss(logits, tokens)`: bits a scored position; logits (B, 2K, 2V), tokens (B, 2K)."""
    tunnel, rng = tunnels.Bijection(5), torch.Generator().manual_seed(33)
    episodes = tunnel.sample(6, rng)
    tokens = torch.cat([episodes.inputs, episodes.targets[:, -1:] + 5], 1)  # the last value too

    def uniform():
        got = _number(answer(torch.zeros(6, 10, 10), tokens))
        if _close(got, math.log(10)):
            return (
                "equal logits over 10 tokens are worth log2(10) = 3.322 bits; yours is in nats, "
                "divide by ln 2"
            )
        if not _close(got, math.log2(10)):
            return (
                "equal logits over 10 tokens must cost log2(10) = 3.322 bits a position, you "
                f"report {got:.3f}: "
                "take the mean over all episodes and scored positions"
            )
        return None

    return grade("my_loss", [uniform, *_loss_position_tests(answer, tunnel, episodes, tokens, rng)])


def _loss_position_tests(answer, tunnel, episodes, tokens, rng):
    logits = torch.randn(6, 10, 10, generator=rng)

    def copying():
        got = _number(answer(40.0 * F.one_hot(tokens, 10), tokens))
        if got < 1.0:
            return (
                f"a network that repeats the token it just read is charged {got:.3f} bits: the "
                "label is "
                "in the input; the answer to a key is the token after it"
            )
        return None

    def values_only():
        changed = logits.clone()
        changed[:, 1::2] += 3 * torch.randn(6, 5, 10, generator=rng)
        if not _close(_number(answer(logits, tokens)), _number(answer(changed, tokens))):
            return (
                "the loss depends on logits at value tokens, where the next token is a fresh "
                "random key: "
                "score the key positions 0, 2, 4, ... only"
            )
        return None

    def oracle():
        truth = torch.full((6, 10, 10), -60.0)
        truth[:, 0::2, 5:] = episodes.posterior.clamp(min=1e-18).log().float()
        want = math.log2(math.factorial(5)) / 5
        got = _number(answer(truth, tokens))
        if not _close(got, want, 1e-4):
            return (
                f"the exact posterior must cost log2(5!)/5 = {want:.3f} bits, you charge "
                f"{got:.3f}: is value v "
                "looked up as token v + V?"
            )
        return None

    def shift():
        if not _close(_number(answer(logits, tokens)), _number(answer(logits + 2.0, tokens))):
            return (
                "adding 2 to every logit changed the loss: logits become probabilities by a "
                "softmax first"
            )
        return None

    return [shift, copying, values_only, oracle]


# --- the learning rate -------------------------------------------------------------------------


def check_rate(answer) -> Report:
    """Grade `my_rate(step, steps, warmup)`: the learning rate as a share of its peak."""
    settings = [(10, 0), (12, 4), (57, 9), (100, 1)]

    def each(test):
        def run():
            for steps, warmup in settings:
                rates = [_number(answer(step, steps, warmup)) for step in range(steps)]
                if hint := test(rates, steps, warmup):
                    return f"{hint} (steps={steps}, warmup={warmup})"
            return None
        return run

    return grade("my_rate", [each(_rate_ends), each(_rate_peak), each(_rate_lines)])


def _rate_ends(rates, steps, warmup):
    if rates[0] <= 0:
        return "the first update has rate 0: its episodes are wasted; begin one step up the ramp"
    if rates[-1] <= 0:
        return (
            "the last update has rate 0 or less: the line should reach zero one update later, at "
            "`steps`"
        )
    return None


def _rate_peak(rates, steps, warmup):
    if max(rates) > 1 + 1e-9:
        return f"the rate rises to {max(rates):.3f} times its peak: return a share, 0 to 1"
    if rates[warmup] < 1 - 1e-9:
        return (
            f"at update {warmup}, where the warm-up is over, the rate is {rates[warmup]:.3f} and "
            "not 1: "
            "does the descent already run during the warm-up?"
        )
    return None


def _rate_lines(rates, steps, warmup):
    rises = [b - a for a, b in zip(rates[:warmup], rates[1 : warmup + 1], strict=True)]
    if any(not _close(r, 1 / (warmup + 1), 1e-9) for r in rises):
        return f"the warm-up does not rise in {warmup + 1} equal steps from 0"
    falls = [a - b for a, b in zip(rates[warmup:-1], rates[warmup + 1 :], strict=True)]
    if all(abs(f) < 1e-12 for f in falls):
        return (
            "after the warm-up the rate stays where it is: without a descent the noise of the "
            "last updates stays in the weights"
        )
    if max(falls) - min(falls) > 1e-9:
        return (
            f"the descent is curved: its steps run from {min(falls):.4f} to {max(falls):.4f}, a "
            "line has equal ones"
        )
    if not _close(falls[0], 1 / (steps - warmup), 1e-9):
        return (
            f"the descent ends at {rates[-1]:.3f}: as a line from 1 to 0 it has {steps - warmup} "
            "equal steps"
        )
    return None


# --- the same objective with less noise ----------------------------------------------------------


def check_soft_loss(answer) -> Report:
    """Grade `my_soft_loss(logits, posterior)`: the expected sampled loss, bits, differentiable."""
    rng = torch.Generator().manual_seed(35)
    posterior = torch.rand(4, 3, 6, generator=rng, dtype=torch.float64).pow(3)
    posterior /= posterior.sum(-1, keepdim=True)
    logits = torch.randn(4, 3, 6, generator=rng, dtype=torch.float64)

    def at_the_truth():
        got = _number(answer(posterior.log(), posterior))
        entropy = float(-(posterior * posterior.log2()).sum(-1).mean())
        if abs(got) < 1e-9:
            return (
                "at the truth your loss is 0: that is the KL divergence. It has the same "
                "gradient, but what a "
                "sampled outcome costs on average is the cross-entropy, never below the "
                "posterior's entropy"
            )
        if _close(got, entropy * math.log(2)):
            return "right but for the unit: the loss is in nats, divide by ln 2"
        if _close(got, entropy / 6):
            return "the mean also runs over the outcomes: sum over the last axis, then average"
        return None

    def in_expectation():
        got, want = _number(answer(logits, posterior)), _number(_enumerated(logits, posterior))
        swapped = -(logits.softmax(-1) * posterior.log2()).sum(-1).mean()
        if _close(got, want):
            return None
        if _close(got, float(swapped)):
            return (
                "the roles are swapped: nature draws from the posterior, so the posterior has to "
                "weigh the network's log-probabilities"
            )
        return (
            f"drawing every outcome as often as it happens, the sampled loss averages {want:.4f} "
            "bits, "
            f"yours is {got:.4f}: do all outcomes count, each with its own probability?"
        )

    def gradient():
        return _same_gradient(answer, logits, posterior)

    return grade("my_soft_loss", [at_the_truth, in_expectation, gradient])


def _enumerated(logits, posterior):
    """The sampled loss of every possible outcome, weighted by its probability, in bits."""
    B, K, Y = logits.shape
    total = 0.0
    for y in range(Y):
        outcome = torch.full((B * K,), y)
        losses = F.cross_entropy(logits.flatten(0, 1), outcome, reduction="none")
        total = total + (posterior[..., y].flatten() * losses).mean() / math.log(2)
    return total


def _same_gradient(answer, logits, posterior):
    mine, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = answer(mine, posterior)
    if not (isinstance(loss, torch.Tensor) and loss.requires_grad):
        return (
            "nothing can be learnt from this loss: it has no gradient; keep it a tensor, without "
            "`.item()` or `detach`"
        )
    loss.backward()
    _enumerated(theirs, posterior).backward()
    if not torch.allclose(mine.grad, theirs.grad, atol=1e-8):
        return (
            "the value is right, its gradient is not the expected gradient of the sampled loss: "
            "is a part of it detached?"
        )
    return None


# --- which mistake is left ---------------------------------------------------------------------


def check_leak(answer) -> Report:
    """Grade `my_leak(log2_prob, values)`: mean probability on values already used, positions 2 to K."""
    rng = torch.Generator().manual_seed(36)

    def settings():
        for n_values, epsilon in ((4, 0.0), (4, 0.25), (9, 0.03), (12, 0.6)):
            tunnel = tunnels.Bijection(n_values)
            episodes = tunnel.sample(20, rng)
            predicted = baselines.Leaky(tunnel, epsilon).predict(episodes.inputs)
            yield n_values, epsilon, _number(answer(predicted, episodes.latents["values"]))

    def leaky_oracles():
        return next((hint for s in settings() if (hint := _leak_hint(*s))), None)

    def uniform():
        tunnel = tunnels.Bijection(8)
        episodes = tunnel.sample(20, rng)
        predicted = baselines.Uniform(tunnel).predict(episodes.inputs)
        got = _number(answer(predicted, episodes.latents["values"]))
        if not _close(got, 0.5):
            return (
                "the uniform guess puts k/8 on k used values, 0.5 on average over k = 1..7; you "
                f"report {got:.3f}"
            )
        return None

    return grade("my_leak", [leaky_oracles, uniform])


def _leak_hint(n_values, epsilon, got):
    if _close(got, epsilon, 1e-6):
        return None
    if math.isnan(got) or got < 0 or got > 1.000001:
        return (
            f"a leak is a probability, you report {got:g}: undo the logarithm first, 2 ** "
            "log2_prob"
        )
    if epsilon == 0:
        return (
            f"the oracle leaks nothing, you report {got:.3f}: the value that follows a key is not "
            "used yet "
            "when the key is asked; only earlier pairs count"
        )
    if _close(got, epsilon * (n_values - 1) / n_values, 1e-6):
        return (
            "position 1 is in your mean: nothing has been used there, so nothing can leak; "
            "average over positions 2 to K"
        )
    if got < epsilon:
        return (
            f"a leak of {epsilon} comes out as {got:.4f}: add up the probability of all used "
            "values "
            "before you average over positions"
        )
    return (
        f"a leak of {epsilon} comes out as {got:.4f}, which is too much: is it 2 ** log2_prob, on "
        "used values only?"
    )


# --- what a step costs -------------------------------------------------------------------------


def check_flops(answer) -> Report:
    """Grade `my_flops(config, batch)`: floating-point operations of forward and backward pass."""
    sizes = ((3, 1, 2, 8, 20, 2), (5, 2, 2, 4, 12, 3), (6, 3, 3, 5, 30, 1))
    settings = [(_small_config(*size[:5]), size[5]) for size in sizes]

    def agrees():
        got = [_number(answer(config, batch)) for config, batch in settings]
        instances = [(config, batch, _counted_flops(config, batch)) for config, batch in settings]
        if all(g == n for g, (_, _, n) in zip(got, instances, strict=True)):
            return None
        for slip, hint in FLOP_SLIPS:
            if all(_close(g, slip(*i), 1e-9) for g, i in zip(got, instances, strict=True)):
                return hint
        _, batch, n = instances[0]
        return (
            f"a counter in PyTorch sees {n:,} operations for batch {batch}, you say {got[0]:,.0f}: "
            "which product of matrices is missing?"
        )

    return grade("my_flops", [agrees])


def _counted_flops(config, batch: int) -> int:
    """What PyTorch's own counter sees in one forward and backward pass."""
    model = models.build("transformer", config.to_dict(), torch.Generator().manual_seed(0))
    inputs = torch.zeros(batch, config.n_positions, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        model(inputs).sum().backward()
    return counter.get_total_flops()


FLOP_SLIPS = (
    (lambda c, b, n: n / 3,
     "that is the forward pass alone; the backward pass has two products for each of its products"),
    (lambda c, b, n: n / 2,
     "a multiplication and the addition that follows are two operations, you count one"),
    (lambda c, b, n: n - 12 * b * c.n_layers * c.n_positions**2 * c.width,
     "attention itself is missing: the scores and the mixtures, each T x T x D a layer"),
    (lambda c, b, n: n - 6 * b * len(c.scored) * c.n_outputs * c.width,
     "the readout is missing: at K positions, a product with the embeddings of V values"),
    (lambda c, b, n: n * 2 / 3,
     "the backward pass has two products for each product forward, you count one"),
    (lambda c, b, n: n / b, "that is for one episode, not for the whole batch"),
)


# --- could a table have learnt it? -------------------------------------------------------------


def check_reach(answer) -> Report:
    """Grade `my_reach(n_values, k, episodes)`: chance that a fresh prefix of k values was in training."""

    def prefixes():
        for n_values, k in ((4, 1), (5, 2), (6, 3), (6, 6)):
            number = len(list(permutations(range(n_values), k)))
            got = _number(answer(n_values, k, 1))
            if _close(got, 1 / n_values**k, 1e-9) and k > 1:
                return (
                    "V ** k counts sequences with repeats: no value is used twice, so the choices "
                    "shrink, V (V-1) (V-2) ..."
                )
            if _close(got, 1 / math.factorial(n_values), 1e-9) and k < n_values - 1:
                return (
                    f"that is the chance of meeting the whole bijection again; the prefix is {k} "
                    f"of the {n_values} values long"
                )
            if not _close(got, 1 / number, 1e-9):
                return (
                    f"with one training episode and V={n_values}, k={k} there are {number} "
                    f"prefixes, so 1/{number} = {1 / number:.4f}; you say {got:.4f}"
                )
        return None

    later = (_reach_adds_up, _reach_is_precise)
    return grade("my_reach", [prefixes, *(partial(test, answer) for test in later)])


def _reach_adds_up(answer):
    for n_values, k, some, more in ((5, 2, 7, 30), (6, 3, 100, 50), (10, 2, 40, 500)):
        chances = [_number(answer(n_values, k, n)) for n in (some, more, some + more)]
        if max(chances) > 1:
            return (
                f"a chance of {max(chances):.2f}: the same prefix can come more than once, so "
                "episodes do not simply add up"
            )
        missed = (1 - chances[0]) * (1 - chances[1])
        if not _close(1 - chances[2], missed, 1e-9):
            return (
                f"to be new, a prefix must be missed in the first {some} episodes and in the next "
                f"{more}: the two chances multiply"
            )
    if not _close(_number(answer(9, 0, 5)), 1.0):
        return "the empty prefix (k=0) opens every episode: its chance is 1"
    return None


def _reach_is_precise(answer):
    number = math.prod(range(20, 5, -1))  # 20 * 19 * ... * 6, prefixes of 15 values
    got = _number(answer(20, 15, 1_000_000))
    if not 0.999 < got * number / 1_000_000 < 1.001:
        return (
            f"for V=20, k=15 and a million episodes you report {got:g}: 1 minus nearly 1 loses all "
            "digits, use log1p and expm1"
        )
    return None

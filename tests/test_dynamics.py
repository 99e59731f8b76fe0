"""The closed forms of Paper II against autograd, against finite differences, and against each other."""

from __future__ import annotations

import math

from _support import rng
import bayeswind_lib as bw
import numpy as np
import pytest
import torch
from bayeswind_lib.dynamics import attention, loop, mixture, steps

EXACT = 1e-12
# The layouts that the formulas must hold for, each beside what it adds.
LAYOUTS = {
    "one head": {},
    "not causal": {"causal": False},
    "three heads": {"n_heads": 3},
    "grouped queries": {"n_heads": 4, "n_groups": 2},
    "one key-value head": {"n_heads": 3, "n_groups": 1},
    "rotary": {"rotary": True},
    "rotary, grouped, tempered": {"n_heads": 4, "n_groups": 2, "rotary": True, "temperature": 1.7},
}
WAYS = ("causal", "rotary", "temperature")


def setting(layout="one head", seed=0):
    """Inputs, weights, targets (some not supervised) and the way to run them."""
    chosen = LAYOUTS[layout]
    sizes = {name: n for name, n in chosen.items() if name not in WAYS}
    way = {name: n for name, n in chosen.items() if name in WAYS}
    source = rng(seed)
    weights = attention.draw(source, width=5, channels=4, value_channels=6, n_outcomes=8, **sizes)
    inputs = torch.randn(2, 7, 5, generator=source, dtype=torch.float64)
    targets = torch.randint(8, (2, 7), generator=source)
    targets[0, 2] = targets[1, 5] = attention.UNSUPERVISED
    return inputs, weights, targets, way


def by_autograd(inputs, weights, way, loss_of):
    """The same pass with everything watched, and the gradients that autograd finds."""
    x = inputs.clone().requires_grad_()
    watched = weights.map(lambda name, w: w.clone().requires_grad_())
    done = attention.forward(x, watched, **way)
    for part in (done.values, done.scores, done.pattern, done.context):
        part.retain_grad()
    loss_of(done).backward()
    return {
        "inputs": x.grad, "values": done.values.grad, "scores": done.scores.grad, "pattern": done.pattern.grad,
        "context": done.context.grad, **{name: getattr(watched, name).grad for name in ("query", "key", "value", "output")},
    }


def worst(a, b):
    return float((a - b).abs().max())


# ---- gradients


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_gradient_is_that_of_autograd(layout, reduction):
    inputs, weights, targets, way = setting(layout)
    want = by_autograd(inputs, weights, way, lambda done: attention.cross_entropy(done.logits, targets, reduction))
    done = attention.forward(inputs, weights, **way)
    r = attention.residual(done.logits, targets, reduction)
    found, output = attention.loss_gradients(done, targets, reduction)
    assert worst(attention.upstream_of(r, weights.output), want["context"]) < EXACT
    assert worst(output, want["output"]) < EXACT
    for name in ("inputs", "values", "scores", "pattern", "query", "key", "value"):
        assert worst(getattr(found, name), want[name]) < EXACT, name


@pytest.mark.parametrize("layout", ["one head", "grouped queries", "rotary"])
def test_gradients_at_queries_and_keys_before_they_are_turned(layout):
    """Move a query or a key itself, and let autograd say what that does."""
    inputs, weights, targets, way = setting(layout)
    found, _ = attention.loss_gradients(attention.forward(inputs, weights, **way), targets)
    for name, got in (("query", found.queries), ("key", found.keys)):
        moved = torch.zeros_like(got, requires_grad=True)
        w = {n: getattr(weights, n) for n in ("query", "key", "value")}
        q, k, v = (torch.einsum("btd,hdc->bhtc", inputs, m) for m in w.values())
        q, k = (q + moved, k) if name == "query" else (q, k + moved)
        turn = bw.models.positions.rotate if way.get("rotary") else (lambda x: x)
        q, k = turn(q), turn(k)
        share = weights.serves
        pattern = attention.attend(q, k.repeat_interleave(share, 1), 1 / math.sqrt(q.shape[-1]))[1]
        logits = torch.einsum("bhtv,hvy->bty", pattern @ v.repeat_interleave(share, 1), weights.output)
        attention.cross_entropy(logits, targets).backward()
        assert worst(got, moved.grad) < EXACT, name


def test_any_network_may_follow_the_heads():
    """Residual stream, layer norm and a feed-forward layer: only the upstream gradient changes."""
    inputs, weights, targets, way = setting("three heads")
    source = rng(9)
    up, down, head = (torch.randn(s, generator=source, dtype=torch.float64) for s in ((8, 11), (11, 8), (8, 8)))
    into = torch.randn(5, 8, generator=source, dtype=torch.float64)

    def loss_of(done):
        stream = done.inputs.detach() @ into + done.logits
        normed = torch.nn.functional.layer_norm(stream, (8,))
        return attention.cross_entropy((stream + torch.nn.functional.gelu(normed @ up) @ down) @ head, targets)

    want = by_autograd(inputs, weights, way, loss_of)
    found = attention.gradients(attention.forward(inputs, weights, **way), want["context"])
    for name in ("inputs", "values", "scores", "pattern", "query", "key", "value"):
        assert worst(getattr(found, name), want[name]) < EXACT, name


def test_the_laws_hold_in_a_trained_network():
    """The book's own transformer: its attention rebuilt from its weights, the upstream gradient from autograd."""
    model = bw.load("bijection-transformer-classroom").double().requires_grad_()
    episodes = bw.tunnels.Bijection(10).sample(4, rng(3))
    block, seen = model.blocks[1].attention, {}
    block.register_forward_hook(lambda module, given, answer: seen.update(x=given[0]))
    block.pattern.register_forward_hook(lambda module, given, answer: (answer.retain_grad(), seen.update(pattern=answer))[0])
    block.output.register_forward_hook(lambda module, given, answer: (given[0].retain_grad(), seen.update(context=given[0]))[1])
    answer = model(episodes.inputs)
    torch.nn.functional.nll_loss(answer.log_softmax(-1).flatten(0, 1), episodes.targets.flatten()).backward()
    H = block.n_heads
    maps = {n: getattr(block, n).weight.detach().T.unflatten(1, (H, -1)).transpose(0, 1) for n in ("query", "key", "value")}
    weights = attention.Weights(**maps, output=block.output.weight.detach().T.unflatten(0, (H, -1)))
    done = attention.forward(seen["x"].detach(), weights, rotary=block.rotary)
    assert worst(done.pattern, seen["pattern"].detach()) < EXACT
    upstream = seen["context"].grad.unflatten(-1, (H, -1)).transpose(1, 2)
    found = attention.gradients(done, upstream)
    assert worst(found.pattern, seen["pattern"].grad) < EXACT
    for name in ("query", "key", "value"):
        grad = getattr(block, name).weight.grad.T.unflatten(1, (H, -1)).transpose(0, 1)
        assert worst(getattr(found, name), grad) < EXACT and float(grad.abs().max()) > 1e-6, name


@pytest.mark.parametrize("layout", ["one head", "rotary, grouped, tempered"])
def test_scores_by_finite_differences(layout):
    """The routing law without trusting autograd: move one score, look at the loss."""
    inputs, weights, targets, way = setting(layout)
    done = attention.forward(inputs, weights, **way)
    found, _ = attention.loss_gradients(done, targets)
    values = done.shared(done.values)

    def loss(scores):
        logits = torch.einsum("bhtv,hvy->bty", scores.softmax(-1) @ values, weights.output)
        return float(attention.cross_entropy(logits, targets))

    size = 1e-6
    for b, h, i, j in [(0, 0, 3, 1), (1, 0, 6, 6), (0, done.scores.shape[1] - 1, 5, 0)]:
        there, back = done.scores.clone(), done.scores.clone()
        there[b, h, i, j] += size
        back[b, h, i, j] -= size
        want = (loss(there) - loss(back)) / (2 * size)
        assert float(found.scores[b, h, i, j]) == pytest.approx(want, rel=1e-6, abs=1e-9)


def test_gradcheck_of_the_whole_head():
    """The closed form as the backward pass of an operation of its own."""
    inputs, weights, targets, way = setting("grouped queries")

    class Head(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *maps):
            ctx.done = attention.forward(x, attention.Weights(*maps), **way)
            return attention.cross_entropy(ctx.done.logits, targets)

        @staticmethod
        def backward(ctx, size):
            found, output = attention.loss_gradients(ctx.done, targets)
            return tuple(size * part for part in (found.inputs, found.query, found.key, found.value, output))

    given = [part.clone().requires_grad_() for part in (inputs, weights.query, weights.key, weights.value, weights.output)]
    assert torch.autograd.gradcheck(Head.apply, given)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_identities(layout):
    inputs, weights, targets, way = setting(layout)
    done = attention.forward(inputs, weights, **way)
    upstream = attention.upstream_of(attention.residual(done.logits, targets), weights.output)
    found, A = attention.gradients(done, upstream), attention.advantage(done, upstream)
    assert float(found.scores.sum(-1).abs().max()) < EXACT  # each row sums to 0
    assert float((done.pattern * A).sum(-1).abs().max()) < EXACT  # advantages have mean 0
    assert worst(found.scores, -done.pattern * A) == 0
    if way.get("causal", True):
        assert bool((found.scores.triu(1) == 0).all())  # exactly
    mean = (done.pattern * found.pattern).sum(-1)
    assert worst(mean, (upstream * done.context).sum(-1)) < EXACT  # bbar_i = u_i . g_i
    unasked = (targets == attention.UNSUPERVISED)[:, None, :, None].expand_as(found.scores)
    assert unasked.any() and bool((found.scores[unasked] == 0).all())


def test_a_change_of_basis_changes_nothing_that_can_be_seen():
    """(V, W_O) -> (V M, M^-1 W_O) and (Q, K) -> (Q N, K N^-T): so raw queries, keys and values say little."""
    inputs, weights, targets, _ = setting()
    M, N = (torch.randn(n, n, generator=rng(n), dtype=torch.float64) for n in (6, 4))
    other = attention.Weights(weights.query @ N, weights.key @ N.inverse().T, weights.value @ M, M.inverse() @ weights.output)
    here, there = attention.forward(inputs, weights), attention.forward(inputs, other)
    assert worst(here.pattern, there.pattern) < 1e-9 and worst(here.logits, there.logits) < 1e-9
    assert worst(here.values, there.values) > 0.1
    mine, theirs = (attention.loss_gradients(done, targets)[0] for done in (here, there))
    assert worst(mine.scores, theirs.scores) < 1e-9 and worst(mine.values, theirs.values) > 1e-3


def test_rotate_back_undoes_the_turn_and_is_its_transpose():
    x, y = (torch.randn(1, 2, 5, 6, generator=rng(i), dtype=torch.float64) for i in range(2))
    turn, back = bw.models.positions.rotate, bw.models.positions.rotate_back
    assert worst(back(turn(x)), x) < 1e-6  # its sines are single precision
    assert float((turn(x) * y).sum()) == pytest.approx(float((x * back(y)).sum()), abs=EXACT)


@pytest.mark.parametrize(("call", "says"), [
    (lambda x, w, t: attention.forward(x[..., :3], w), r"inputs have shape \(2, 7, 3\): expected \(B, T, 5\)"),
    (lambda x, w, t: attention.forward(x, w, temperature=0), "temperature is 0"),
    (lambda x, w, t: attention.residual(torch.zeros(2, 7, 8), t, "max"), "reduction is 'max'"),
    (lambda x, w, t: attention.residual(torch.zeros(2, 7, 8), t * 0 - 1), "no position is supervised"),
    (lambda x, w, t: attention.gradients(attention.forward(x, w), torch.zeros(2, 7, 6)), r"gradient at the context, \(2, 1, 7, 6\)"),
    (lambda x, w, t: attention.draw(rng(), width=4, channels=2, n_outcomes=3, n_heads=3, n_groups=2), "must divide"),
    (lambda x, w, t: attention.Weights(w.query, w.key, w.value, w.output.repeat(2, 1, 1)), "output has 2 heads"),
])  # fmt: skip
def test_bad_input_is_named(call, says):
    inputs, weights, targets, _ = setting()
    with pytest.raises(ValueError, match=says):
        call(inputs, weights, targets)


# ---- one step


RATES = (1e-2, 1e-3, 1e-4, 1e-5)


def test_the_gain_of_a_step_is_first_order():
    inputs, weights, targets, way = setting("three heads")
    done = attention.forward(inputs, weights, **way)
    found, _ = attention.loss_gradients(done, targets, "sum")

    def loss(scores, values):
        logits = torch.einsum("bhtv,hvy->bty", scores.softmax(-1) @ values, weights.output)
        return float(attention.cross_entropy(logits, targets, "sum"))

    moves = {
        "scores": (lambda rate: loss(done.scores - rate * found.scores, done.values), steps.routing_gain),
        "values": (lambda rate: loss(done.scores, done.values - rate * found.values), steps.value_gain),
    }
    for name, (after, gain) in moves.items():
        ratio = steps.ratios(after, lambda rate, gain=gain: gain(found, rate), RATES)
        assert steps.order(RATES, ratio) == pytest.approx(1, abs=0.05), name
        assert ratio[-1] == pytest.approx(1, abs=1e-2), name
        wrong = steps.ratios(after, lambda rate, gain=gain: 1.1 * gain(found, rate), RATES)
        assert steps.order(RATES, wrong) < 0.5, name  # a wrong law is seen


def test_changes_of_context_are_first_order():
    inputs, weights, targets, way = setting("three heads")
    done = attention.forward(inputs, weights, **way)
    r = attention.residual(done.logits, targets, "sum")
    upstream = attention.upstream_of(r, weights.output)
    found, rate = attention.gradients(done, upstream), 1e-6
    values = done.values - rate * found.values
    assert worst(done.pattern @ values - done.context, steps.context_change(done, upstream, rate)) < 1e-12
    b = upstream @ (values - done.values).transpose(-2, -1)
    assert worst(b, steps.compatibility_change(done, upstream, rate)) < 1e-12
    assert torch.linalg.eigvalsh(steps.kinship(done)).min() > -1e-9


def test_the_advantage_says_where_attention_goes():
    inputs, weights, targets, way = setting()
    done = attention.forward(inputs, weights, **way)
    upstream = attention.upstream_of(attention.residual(done.logits, targets), weights.output)
    found, A = attention.gradients(done, upstream), attention.advantage(done, upstream)
    seen = (done.pattern > 0) & (A.abs() > 1e-9) & (upstream.abs().sum(-1, keepdim=True) > 0)
    assert bool(((-found.scores[seen] > 0) == (A[seen] > 0)).all())


def test_heads_that_share_values_are_refused():
    inputs, weights, targets, way = setting("grouped queries")
    done = attention.forward(inputs, weights, **way)
    with pytest.raises(ValueError, match="2 query heads share"):
        steps.context_change(done, torch.zeros_like(done.context), 0.1)


# ---- the loop


def test_the_two_query_loop_is_attention():
    """Its two equations are the laws of a head with two queries, two values and squared error."""
    source = np.random.default_rng(0)
    for d, v in source.normal(size=(20, 2)):
        scores = torch.tensor([[d / 2, -d / 2], [-d / 2, d / 2]], dtype=torch.float64, requires_grad=True)
        values = torch.tensor([v, -v], dtype=torch.float64, requires_grad=True)
        loss = ((scores.softmax(-1) @ values - torch.tensor([1.0, -1.0])) ** 2).sum() / 2
        loss.backward()
        slope = -(scores.grad[0, 0] - scores.grad[0, 1]), -values.grad[0]
        assert np.allclose(loop.velocity(d, v), [float(part) for part in slope], atol=EXACT)
        assert float(loss.detach()) == pytest.approx(2 * loop.loss(d, v))


@pytest.mark.parametrize(("routing", "value"), [(1, 1), (10, 1), (1, 10)])
def test_something_is_conserved_along_a_path(routing, value):
    for d, v in np.random.default_rng(1).normal(size=(10, 2)):
        way = loop.path(d, v, routing=routing, value=value, until=10, steps=4000)
        kept = loop.conserved(way[:, 1], way[:, 2], routing, value)
        assert np.ptp(kept) < 1e-6 * max(1, abs(kept[0]))
        assert (np.diff(loop.loss(way[:, 1], way[:, 2])) <= 1e-12).all()


def test_the_watershed_parts_the_two_outcomes():
    for d in (-2.0, -0.5, 0.7, 1.5):
        edge = float(loop.watershed(d))
        above, below = (loop.path(d, edge + way, until=60, steps=6000)[-1] for way in (1e-3, -1e-3))
        assert above[1] > 0 and above[2] > 0 and below[1] < 0 and below[2] < 0
        assert loop.loss(*above[1:]) < 1e-6 and loop.loss(*below[1:]) < 1e-6


def test_ten_times_either_rate_leaves_the_saddle_equally_fast():
    """Near the saddle the speed is the root of the product of both rates."""
    start = 1e-4
    growth = {}
    for name, (routing, value) in {"values": (1, 10), "routing": (10, 1), "both, by root ten": (10**0.5, 10**0.5)}.items():
        balance = math.sqrt(2 * routing / value)  # along the way out
        way = loop.path(start * balance, start, routing=routing, value=value, until=1.0, steps=1000)
        growth[name] = math.log(way[-1, 2] / start)
    assert max(growth.values()) - min(growth.values()) < 0.05 * max(growth.values()), growth


def test_a_path_needs_time():
    with pytest.raises(ValueError, match="until is 0"):
        loop.path(0.1, 0.1, until=0)


# ---- the mixture head


def mixture_setting(seed=0):
    source = rng(seed)
    scores = torch.randn(2, 6, 6, generator=source, dtype=torch.float64)
    values = torch.randn(2, 6, 3, generator=source, dtype=torch.float64)
    output = torch.randn(3, 5, generator=source, dtype=torch.float64)
    return scores, values, output, torch.randint(5, (2, 6), generator=source)


def test_gradients_of_a_mixture_head_are_posterior_responsibilities():
    scores, values, output, targets = mixture_setting()
    s, v = scores.clone().requires_grad_(), values.clone().requires_grad_()
    mixture.mixture(s, v, output, targets).loss.backward()
    head = mixture.mixture(scores, values, output, targets)
    assert worst(mixture.score_gradient(head), s.grad) < EXACT
    assert worst(mixture.value_gradient(head, output, targets), v.grad) < EXACT
    assert worst(head.responsibility.sum(-1), torch.ones(2, 6)) < EXACT


def test_responsibilities_by_bayes_theorem():
    scores, values, output, targets = mixture_setting(1)
    head = mixture.mixture(scores, values, output, targets)
    pattern, forecasts = scores.softmax(-1), (values @ output).softmax(-1)
    for b, i in [(0, 0), (1, 4)]:
        joint = [float(pattern[b, i, j] * forecasts[b, j, targets[b, i]]) for j in range(6)]
        assert np.allclose(head.responsibility[b, i], np.array(joint) / sum(joint), atol=EXACT)


def test_em_never_loses_and_attention_as_it_is_breaks_the_identity():
    scores, values, output, targets = mixture_setting(2)
    head, losses = mixture.mixture(scores, values, output, targets), []
    for _ in range(30):
        losses.append(float(head.loss))
        head = mixture.of_forecasts(head.pattern, mixture.best_forecasts(head, targets), targets)
    assert (np.diff(losses) <= 1e-12).all() and losses[-1] < losses[0] - 0.1
    assert worst(head.forecasts.sum(-1), torch.ones(2, 6)) < 1e-9
    # Averaging first: the law of routing has no responsibility in it.
    s = scores.clone().requires_grad_()
    attention.cross_entropy((s.softmax(-1) @ values) @ output, targets, "sum").backward()
    fresh = mixture.mixture(scores, values, output, targets)
    assert worst(s.grad, mixture.score_gradient(fresh)) > 0.05


def test_attention_as_it_is_averages_logits():
    """Its forecast is the geometric mean of the values' forecasts, made to sum to 1; loss and gradient by autograd."""
    scores, values, output, targets = mixture_setting(3)
    s = scores.clone().requires_grad_()
    want = attention.cross_entropy((s.softmax(-1) @ values) @ output, targets, "sum")
    want.backward()
    loss, found = mixture.average(scores, values, output, targets)
    assert worst(found, s.grad) < EXACT and abs(loss.item() - want.item()) < EXACT
    product = torch.einsum("bij,bjy->biy", scores.softmax(-1), (values @ output).log_softmax(-1)).exp()
    geometric = product / product.sum(-1, keepdim=True)
    assert float(-geometric.gather(-1, targets[..., None]).log().sum()) == pytest.approx(float(loss), abs=1e-12)
    assert float(product.sum(-1).max()) <= 1


def test_the_step_of_attention_is_that_towards_the_posterior_to_first_order():
    """In the spread of the values: the relative difference shrinks in proportion to it."""
    scores, values, output, targets = mixture_setting(4)
    shares = [0.1, 0.03, 0.01, 0.003]
    found = [mixture.agreement(scores, mixture.drawn_together(values, share), output, targets) for share in shares]
    cosines, apart = zip(*found, strict=True)
    assert list(cosines) == sorted(cosines) and cosines[-1] > 1 - 1e-4
    assert np.polyfit(np.log(shares), np.log(apart), 1)[0] == pytest.approx(1, abs=0.05)
    assert mixture.agreement(scores, values, output, targets)[1] > 0.3
    together = mixture.drawn_together(values, 0.5)
    assert worst(together.mean(1), values.mean(1)) < EXACT and worst(together.var(1), 0.25 * values.var(1)) < EXACT

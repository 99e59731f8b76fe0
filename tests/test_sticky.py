"""The sticky chain of Paper II: its law, what can be known of it, and the race between ways to train."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from _support import rng
from bayeswind_lib.dynamics import attention, race, sticky


# ---- the chain


@pytest.mark.parametrize(("as_coded", "stay", "nats"), [(True, 0.34980, 1.82919), (False, 0.30, 1.88325)])
def test_the_chain_as_coded_and_as_intended(as_coded, stay, nats):
    P = sticky.chain(as_coded)
    assert torch.allclose(P.sum(-1), torch.ones(8, dtype=torch.float64))
    assert torch.allclose(P.diagonal(), torch.full((8,), stay, dtype=torch.float64), atol=1e-5)
    assert sticky.entropy_rate(P) == pytest.approx(nats, abs=1e-5)
    assert torch.allclose(P, P.T) and torch.allclose(P.roll((1, 1), (0, 1)), P)  # a ring: the even law stays


def test_the_first_row_is_the_published_one():
    row = [0.3498, 0.1660, 0.0830, 0.0553, 0.0415, 0.0553, 0.0830, 0.1660]
    assert np.allclose(sticky.chain()[0], row, atol=1e-4)


def test_sequences_follow_the_chain():
    P, means = sticky.chain(), sticky.pictures(rng())
    sequence = sticky.sample(20_001, means, P, rng(1))
    counts = torch.zeros(8, 8).index_put_((sequence.before[0], sequence.targets[0]), torch.tensor(1.0), accumulate=True)
    assert torch.allclose((counts / counts.sum(-1, keepdim=True)).double(), P, atol=0.03)
    noise = sequence.inputs[0] - means[sequence.before[0]]
    assert float(noise.mean().abs()) < 0.01 and float(noise.std()) == pytest.approx(1, abs=0.01)
    assert bool((sequence.targets[0, :-1] == sequence.before[0, 1:]).all())
    again = sticky.sample(20_001, means, P, rng(1))
    assert torch.equal(again.inputs, sequence.inputs)


def test_the_exact_forecast_by_enumeration():
    """All hidden paths of a short sequence."""
    P, means = sticky.chain(symbols=3), 0.7 * sticky.pictures(rng(2), 3, 2)
    sequence = sticky.sample(6, means, P, rng(3))
    found = sticky.exact(sequence, means, P)
    x = sequence.inputs[0].double()
    for t in range(5):
        total = torch.zeros(3, dtype=torch.float64)
        for hidden in itertools.product(range(3), repeat=t + 1):
            chance = 1 / 3
            for now, before in itertools.pairwise(hidden[::-1]):
                chance *= float(P[before, now])
            for place, symbol in enumerate(hidden):
                chance *= math.exp(-float((x[place] - means[symbol].double()).square().sum()) / 2)
            total += chance * P[hidden[-1]]
        assert torch.allclose(found[t], total / total.sum(), atol=1e-9)


@pytest.mark.parametrize(("call", "says"), [
    (lambda: sticky.chain(stay=1.0), "stay is 1.0"),
    (lambda: sticky.sample(1, sticky.pictures(rng()), sticky.chain(), rng()), "length is 1"),
    (lambda: race.Arm("x", rate=0), "rate is 0"),
    (lambda: race.Arm("x", optimiser="lion"), "choose sgd, adamw or em"),
    (lambda: race.Arm("x", times={"gate": 2}), r"times names \['gate'\]"),
    (lambda: race.race(race.Arm("x"), race.task(0, 20), 0, steps=0), "steps is 0"),
])  # fmt: skip
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# ---- what needs no attention


@pytest.fixture(scope="module")
def task():
    return race.task(42, 400)


def test_a_linear_model_of_one_token_comes_close_to_what_can_be_known():
    """The task does not need attention."""
    task = race.task(42, 2000)
    best = sticky.cross_entropy(sticky.exact(task.held_out, task.means, task.transition), task.held_out)
    linear = sticky.cross_entropy(sticky.per_token(task.train, task.held_out, 0.01), task.held_out)
    assert best < linear < best + 0.15 < sticky.CHANCE


def test_who_looks_at_whom_by_counting(task):
    """And a head that looks at one other symbol has no mass on its own."""
    N, before = task.train.before.shape[1], task.train.before[0]
    even = sticky.even_pattern(N)
    table = sticky.looked_at(even, task.train)
    for s, other in [(0, 0), (2, 5)]:
        shares = [float((before[: t + 1] == other).double().mean()) for t in range(N) if before[t] == s]
        assert float(table[s, other]) == pytest.approx(np.mean(shares), abs=1e-9)
    assert torch.allclose(table.sum(-1), torch.ones(8, dtype=torch.float64)) and sticky.choosiness(table, table) == 0
    likes = (before == (before[:, None] + 3) % 8).double().tril() + 1e-9 * even[0, 0]
    routed = (likes / likes.sum(-1, keepdim=True))[None, None]
    assert sticky.same_symbol_mass(routed, task.train) < 0.05
    assert sticky.choosiness(sticky.looked_at(routed, task.train), table) > 0.7


# ---- the race


def test_first_weights_are_the_published_ones_in_number_and_size():
    weights = race.first_weights(42)
    parts = [getattr(weights, name) for name in race.MAPS]
    assert sum(part.numel() for part in parts) == 820
    assert float(torch.cat([part.flatten() for part in parts]).std()) == pytest.approx(0.1, rel=0.1)


def test_a_step_is_the_one_that_autograd_and_torch_would_take(task):
    arm = race.Arm("x", rate=0.05, times={"value": 10.0})
    weights, same = race.first_weights(1), race.first_weights(1).map(lambda name, w: w.clone().requires_grad_())
    race.stepper(weights, arm)(attention.forward(task.train.inputs, weights), task.train.targets)
    attention.cross_entropy(attention.forward(task.train.inputs, same).logits, task.train.targets).backward()
    for name in race.MAPS:
        w = getattr(same, name)
        assert torch.allclose(getattr(weights, name), w.detach() - arm.rate_of(name) * w.grad, atol=1e-6), name


@pytest.fixture(scope="module")
def curves(task):
    arms = {"SGD": race.PUBLISHED[0], "values": race.PUBLISHED[1], "all": race.Arm("all x 10", rate=0.1)}
    return {name: race.race(arm, task, 42, steps=1000, every=250) for name, arm in arms.items()}


@pytest.mark.slow
def test_the_published_order_and_what_it_leaves_out(curves, task):
    """Ten times on values is faster than plain descent; ten times on everything is faster still."""
    final = {name: curve.loss[-1] for name, curve in curves.items()}
    assert final["all"] < final["values"] < final["SGD"] < sticky.CHANCE
    level = final["SGD"]
    assert race.steps_to(curves["all"], level) < race.steps_to(curves["values"], level) < 1000
    assert curves["all"].measures["held_out"][-1] > curves["SGD"].measures["held_out"][-1]  # it learned one sequence by heart


@pytest.mark.slow
def test_a_curve_says_what_it_measured(curves, task):
    curve = curves["SGD"]
    assert curve.steps.tolist() == [0, 250, 500, 750, 1000] and len(curve.loss) == 1001
    assert curve.measures["train"][-1] == pytest.approx(curve.loss[-1], abs=1e-5)
    assert set(curve.measures) == set(race.MEASURES)
    share = sum(float((task.held_out.before[0][: t + 1] == s).float().mean()) for t, s in enumerate(task.held_out.before[0]))
    assert curve.measures["same_symbol"][0] == pytest.approx(share / len(task.held_out.before[0]), abs=0.02)  # even at first
    assert curve.to_dict()["arm"]["name"] == "SGD"


def test_a_run_that_never_arrives_is_censored(curves):
    assert race.steps_to(curves["SGD"], 0.0) == math.inf
    assert race.speed_up(1000, [math.inf, 500.0]) == pytest.approx(1000 / 750)


def test_steps_between_two_points_are_on_the_line():
    at = (0, 10, 20)
    assert race.first_below(at, [2.0, 1.5, 1.0], 1.5) == 10.0 and race.first_below(at, [2.0, 1.5, 1.0], 1.25) == 15.0
    assert race.first_below(at, [2.0, 1.5, 1.6], 2.5) == 0.0 and race.first_below(at, [2.0, 1.5, 1.6], 1.0) == math.inf
    assert race.first_below(at, [2.0, math.nan, 1.0], math.nan) == math.inf


# ---- what ten times one map is worth


def test_ten_times_values_is_a_common_rate_from_another_start(task):
    """And ten times output is the same common rate from the opposite start: in float64, to rounding."""
    root, c = 10**0.5, 10**0.25
    start = race.first_weights(5).map(lambda _, w: w.double())
    x, targets = task.train.inputs.double(), task.train.targets

    def trained(arm, factor=1.0):
        weights = race.rebalanced(start, factor).map(lambda _, w: w.clone())
        step, losses = race.stepper(weights, arm), []
        for _ in range(15):
            done = attention.forward(x, weights)
            losses.append(float(attention.cross_entropy(done.logits, targets)))
            step(done, targets)
        return weights, losses

    for name, factor in (("value", 1 / c), ("output", c)):
        times = {"value": root, "output": root}
        one, curve = trained(race.Arm("ten", rate=0.1, times={name: 10.0}))
        same, other = trained(race.Arm("common", rate=0.1, times=times), factor)
        assert np.allclose(curve, other, rtol=0, atol=1e-12) and curve[0] - curve[-1] > 1e-3
        assert torch.allclose(one.value @ one.output, same.value @ same.output, rtol=0, atol=1e-12)
        assert torch.allclose(one.query, same.query, rtol=0, atol=1e-12)


def test_a_matched_rate_takes_as_large_a_first_step(task):
    """The loss itself falls as much, up to the next order."""
    weights = race.first_weights(5).map(lambda _, w: w.double())
    x, targets = task.train.inputs.double(), task.train.targets
    done = attention.forward(x, weights)
    found, output = attention.loss_gradients(done, targets)
    arm = race.Arm("x", rate=1e-4, times={"value": 10.0})
    rate = race.matched_rate(found, output, arm)
    assert 1e-4 < rate < 1e-3

    def falls(arm):
        moved = weights.map(lambda _, w: w.clone())
        race.stepper(moved, arm)(done, targets)
        return float(attention.cross_entropy(done.logits, targets) - attention.cross_entropy(attention.forward(x, moved).logits, targets))

    for one in (arm, race.Arm("matched", rate=rate)):
        assert falls(one) == pytest.approx(race.first_decrease(found, output, one), rel=1e-2)


def test_the_same_seed_gives_the_same_curve(task):
    arm = race.Arm("x", rate=0.1)
    a, b = (race.race(arm, task, 7, steps=3, every=1) for _ in range(2))
    assert a.loss.tolist() == b.loss.tolist()


def test_best_answers_are_the_best_ones_for_the_attention_as_it_is(task):
    """Scikit-learn finds no better ones."""
    from sklearn.linear_model import LogisticRegression

    weights = race.first_weights(3, size=0.5)
    done = attention.forward(task.train.inputs, weights)
    pattern = done.pattern.clone()
    race.best_answers(done, task.train.targets, penalty=1e-3, rounds=200)
    after = attention.forward(task.train.inputs, weights)
    assert torch.equal(after.pattern, pattern)
    N = task.train.targets.numel()
    mixed, y = (pattern[0, 0] @ task.train.inputs[0]).numpy(), task.train.targets[0].numpy()
    model = LogisticRegression(C=1 / (2 * 1e-3 * N), fit_intercept=False, max_iter=5000, tol=1e-8).fit(mixed, y)
    log_chance = model.predict_log_proba(mixed)
    want = -log_chance[np.arange(N), y].mean() + 1e-3 * np.square(model.coef_).sum()
    answer = weights.value[0] @ weights.output[0]
    got = float(attention.cross_entropy(after.logits, task.train.targets)) + 1e-3 * float(answer.square().sum())
    assert got == pytest.approx(want, abs=1e-4)


def test_the_alternating_arm_gets_below_plain_descent(task, curves):
    arm = race.Arm("alternating", rate=1.0, optimiser="em")
    curve = race.race(arm, task, 42, steps=20, every=20)
    assert curve.loss[-1] < curves["SGD"].loss[-1]

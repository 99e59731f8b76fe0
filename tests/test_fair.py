"""Fresh chains: the exact forecast, the gradients of both heads, the M-steps, and what a run gives."""

from __future__ import annotations

import itertools
import json
from functools import partial
from dataclasses import replace

import numpy as np
import pytest
import torch
from _support import rng
from bayeswind_lib import ledger
from bayeswind_lib.dynamics import attention, fair, mixture, race
from bayeswind_lib.dynamics.race import Arm
from bayeswind_lib.experiments import fair_race, races
from bayeswind_lib.training.cluster import run_missing

SMALL = fair.Setting(symbols=3, length=6, mass=1.5, batch=5, channels=4, size=0.7, tested=7)
LOUD = fair.Setting(size=0.8)


def some(setting=SMALL, n=5, seed=0):
    return fair.episodes(fair.runs(n, setting, rng(seed)), setting)


def doubled(found):
    return replace(found, inputs=found.inputs.double(), beside=found.beside.double())


# ---- the tunnel


def test_chains_have_the_mean_that_the_residual_knows():
    drawn = fair.chains(20_000, SMALL, rng())
    assert torch.allclose(drawn.sum(-1), torch.ones(20_000, 3, dtype=torch.float64))
    assert torch.allclose(drawn.mean(0), SMALL.prior, atol=0.01)
    share, a = SMALL.prior, SMALL.mass
    assert torch.allclose(drawn.var(0), share * (1 - share) / (a + 1), atol=0.01)


def test_the_exact_forecast_by_drawing_chains():
    """Chains drawn from the prior, weighed by how well they explain a run: no conjugacy is used."""
    found, drawn = some(n=3, seed=4), fair.chains(400_000, SMALL, rng(5))
    truth = fair.exact(found, SMALL)
    for b, t in itertools.product(range(3), range(1, SMALL.length)):
        run = found.targets[b, :t].tolist()
        weight = torch.ones(len(drawn), dtype=torch.float64)
        for here, there in itertools.pairwise(run):
            weight *= drawn[:, here, there]
        want = (weight[:, None] * drawn[:, run[-1]]).sum(0) / weight.sum()
        assert torch.allclose(truth[b, t], want, atol=0.02)
    assert torch.allclose(truth[:, 0], torch.full((3, 3), 1 / 3, dtype=torch.float64))


def test_runs_follow_their_chains():
    """Counted over many episodes, the exact forecast is right as often as it says."""
    found = some(n=20_000, seed=6)
    truth = fair.exact(found, SMALL)[:, -1]
    happened = torch.nn.functional.one_hot(found.targets[:, -1], 3).double()
    for low in np.arange(0, 1, 0.2):
        there = (truth >= low) & (truth < low + 0.2)
        if int(there.sum()) > 500:
            assert float(truth[there].mean()) == pytest.approx(float(happened[there].mean()), abs=0.03)


def test_tokens_show_what_is_to_be_shown():
    found = some()
    S = SMALL.symbols
    assert bool((found.symbols[:, 0] == S).all()) and torch.equal(found.symbols[:, 1:], found.targets[:, :-1])
    before, here = found.inputs[..., : S + 1].argmax(-1), found.inputs[..., S + 1 :].argmax(-1)
    assert torch.equal(here, found.symbols) and torch.equal(before[:, 1:], found.symbols[:, :-1])
    for b, i, j in itertools.product(range(5), range(6), range(6)):
        want = 0 < j <= i and i > 0 and int(found.symbols[b, j - 1]) == int(found.symbols[b, i]) != S
        assert bool(found.match[b, i, j]) == want


# ---- the heads


@pytest.mark.parametrize("head", fair.HEADS)
def test_gradients_are_those_of_automatic_differentiation(head):
    found = doubled(some())
    weights = fair.first_weights(1, SMALL).map(lambda _, w: w.double().requires_grad_())
    said = fair.answer(head, found, weights)
    loss = -said.forecast.gather(-1, found.targets[..., None]).log().mean()
    wanted = torch.autograd.grad(loss, [getattr(weights, name) for name in race.MAPS])
    with torch.no_grad():
        slopes, output = fair.loss_gradients(said, found)
    got = [slopes.query, slopes.key, slopes.value, output]
    for a, b in zip(got, wanted, strict=True):
        assert torch.allclose(a, b, atol=1e-12) and float(b.abs().max()) > 1e-5


@pytest.mark.parametrize("head", fair.HEADS)
def test_forecasts_sum_to_one_and_see_no_later_token(head):
    weights = fair.first_weights(2, SMALL)
    runs = fair.runs(4, SMALL, rng(1))
    said = fair.answer(head, fair.episodes(runs, SMALL), weights).forecast
    assert torch.allclose(said.sum(-1), torch.ones(4, SMALL.length))
    other = runs.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 3
    changed = fair.answer(head, fair.episodes(other, SMALL), weights).forecast
    assert torch.allclose(said[:, :4], changed[:, :4]) and not torch.allclose(said[:, 4:], changed[:, 4:])


def test_without_values_attention_says_the_prior():
    weights = fair.first_weights(2, SMALL)
    weights.output.zero_()
    found = some()
    said = fair.answer("attention", found, weights).forecast
    assert torch.allclose(said[:, 1:].double(), SMALL.prior[found.symbols[:, 1:]], atol=1e-6)


def test_a_mixture_head_can_be_exact():
    """Matches weigh 1 / a beside the residual's 1, all else nothing; each value forecasts its symbol."""
    S, found = SMALL.symbols, some(n=20)
    weights = attention.draw(rng(), width=2 * (S + 1), n_outcomes=S, channels=2 * S + 2, dtype=torch.float32)
    far, root = 40.0, (2 * S + 2) ** 0.25
    for weight in (weights.query, weights.key, weights.value, weights.output):
        weight.zero_()
    for k in range(S + 1):
        weights.query[0, S + 1 + k, k] = root  # one's own symbol
        for m in range(S + 1):
            weights.key[0, m, k] = root * (-np.log(SMALL.mass) if m == k < S else -far)
    for k in range(S):
        weights.value[0, S + 1 + k, k] = weights.output[0, k, k] = far**0.5
    said = fair.answer("mixture", found, weights).forecast
    assert torch.allclose(said[:, 1:].double(), fair.exact(found, SMALL)[:, 1:], atol=1e-5)
    assert fair.measure("mixture", weights, found, fair.exact(found, SMALL))["kl"] < 1e-5


def test_the_residual_and_counting_have_their_floors():
    setting = fair.Setting(length=12)
    found = some(setting, 300)
    floors = fair.floors(found, setting)
    truth = fair.exact(found, setting)
    blank = fair.first_weights(0, setting)
    blank.output.zero_()
    assert fair.measure("attention", blank, found, truth)["kl"] == pytest.approx(floors["residual"], abs=1e-5)
    assert 0.1 < floors["counting"] < floors["residual"]


def test_measures_by_hand():
    setting = fair.Setting(symbols=3, length=5)
    found = some(setting, 6)
    weights = fair.first_weights(1, setting)
    fair.even(weights)
    told = fair.measure("attention", weights, found, fair.exact(found, setting))
    assert told["match"] == pytest.approx(told["match_even"], abs=1e-6)
    truth, q = fair.exact(found, setting).numpy(), fair.answer("attention", found, weights).forecast.double().numpy()
    assert told["kl"] == pytest.approx((truth * np.log(truth / q)).sum(-1).mean(), abs=1e-6)
    bits = [-(p * np.log2(p)).sum(-1) for p in (truth, q)]
    assert told["entropy_mae"] == pytest.approx(np.abs(bits[0] - bits[1]).mean(), abs=1e-6)


# ---- EM


def test_em_never_raises_the_loss_of_a_mixture():
    found = doubled(some(LOUD, 8))
    weights = fair.first_weights(3, LOUD).map(lambda _, w: w.double())
    losses = []
    for _ in range(8):
        said = fair.answer("mixture", found, weights)
        losses.append(float(said.sources.loss))
        fair.set_counts(weights, fair.count(said, found), pseudo=1e-9)
    # before the first M-step values may forecast by the symbol before as well
    assert (np.diff(losses[1:]) <= 1e-9).all() and losses[-1] < losses[1] - 0.1 < losses[0]


def test_the_closed_m_step_is_the_numeric_best():
    found = doubled(some(LOUD, 8))
    weights = fair.first_weights(3, LOUD).map(lambda _, w: w.double())
    said = fair.answer("mixture", found, weights)
    seen = mixture.answered(said.sources, found.targets).flatten(0, 1)
    by_symbol = torch.nn.functional.one_hot(found.symbols.flatten(), LOUD.symbols + 1).double()
    free = torch.zeros(LOUD.symbols + 1, LOUD.symbols, dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([free], max_iter=100, line_search_fn="strong_wolfe", tolerance_grad=1e-8)

    def expected(logits):
        return -(seen * logits.log_softmax(-1)).sum()

    def closure():
        solver.zero_grad()
        loss = expected(by_symbol @ free)
        loss.backward()
        return loss

    solver.step(closure)
    fair.set_counts(weights, fair.count(said, found), pseudo=1e-9)
    closed = found.inputs.flatten(0, 1) @ weights.value[0] @ weights.output[0]
    assert expected(closed).item() == pytest.approx(expected(by_symbol @ free).item(), abs=1e-4)
    assert torch.allclose(closed.softmax(-1), (by_symbol @ free).softmax(-1).detach(), atol=1e-3)


def test_newtons_m_step_is_the_numeric_best():
    found = some(LOUD, 8)
    weights = fair.first_weights(3, LOUD)
    said = fair.answer("attention", found, weights)
    start = (weights.value[0] @ weights.output[0]).double()
    x, y = (said.pattern @ found.inputs).flatten(0, 1).double(), found.targets.flatten()
    free = start.clone().requires_grad_()
    solver = torch.optim.LBFGS([free], max_iter=300, line_search_fn="strong_wolfe", tolerance_grad=1e-9)

    def cost(answer):
        logits = x @ answer + found.beside.flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, y) + 0.01 * (answer - start).square().sum()

    def closure():
        solver.zero_grad()
        loss = cost(free)
        loss.backward()
        return loss

    solver.step(closure)
    before = float(cost(start))
    assert fair.solve_near(said, found, penalty=0.01) < 10
    got = (weights.value[0] @ weights.output[0]).double()
    assert float(cost(got)) == pytest.approx(cost(free).item(), abs=1e-6) and before > float(cost(got)) + 0.1
    assert torch.allclose(got, free.detach(), atol=1e-3)


# ---- runs and the record


@pytest.mark.parametrize(("head", "optimiser"), [("attention", "em"), ("mixture", "em"), ("mixture", "sgd"), ("attention", "adamw")])
def test_a_run_learns_and_is_the_same_again(head, optimiser):
    arm = Arm("x", rate={"em": 10.0, "sgd": 4.0, "adamw": 0.05}[optimiser], optimiser=optimiser)
    a, b = (fair.run(head, arm, 3, steps=20, every=20) for _ in range(2))
    assert a.measures["kl"].tolist() == b.measures["kl"].tolist()
    assert a.measures["kl"][-1] < a.measures["kl"][0] - 0.1
    short = fair.run(head, arm, 3, steps=4, every=4, drawn_for=20)
    assert fair.run(head, arm, 3, steps=20, every=4).measures["kl"][:2].tolist() == short.measures["kl"].tolist()


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="every is 0"):
        fair.run("attention", Arm("x"), 1, 5, 0)
    with pytest.raises(ValueError, match="choose attention or mixture"):
        fair.run("linear", Arm("x"), 1, 1)
    done = attention.forward(some().inputs, fair.first_weights(1, SMALL))
    with pytest.raises(ValueError, match="expected those of scores and values"):
        attention.gradients_from(done, done.scores[..., :2], done.values)


def test_a_cell_is_run_once_and_read_again(tmp_path):
    arm = Arm("values x 10", rate=0.5, times={"value": 10.0})
    cells = [fair_race.Cell("chosen", "mixture", arm, seed, 4, 2, SMALL) for seed in (1, 2)]
    said: list[str] = []
    run_missing(partial(fair_race.run, tmp_path), cells, partial(races.path_of, tmp_path), 1, said.append)
    first = (tmp_path / f"{cells[0].key}.json").read_bytes()
    (tmp_path / f"{cells[1].key}.json").unlink()
    run_missing(partial(fair_race.run, tmp_path), cells, partial(races.path_of, tmp_path), 1, said.append)
    assert len(said) == 3 and said[-1] == f"1 of 1: {cells[1].key}"
    assert (tmp_path / f"{cells[0].key}.json").read_bytes() == first
    want = fair.run("mixture", arm, 1, 4, 2, setting=SMALL)
    assert races.read_cell(cells[0], tmp_path)["measures"]["kl"] == pytest.approx(want.measures["kl"])
    with pytest.raises(ValueError, match="other settings"):
        (tmp_path / f"{cells[0].key}.json").write_text(json.dumps(json.loads(first) | {"cell": {}}))
        races.read_cell(cells[0], tmp_path)


def test_the_plan_holds_every_rate_once_and_seeds_that_choose_are_not_scored():
    cells = fair_race.sweep() + fair_race.evaluation(dict.fromkeys(fair_race.FAMILIES, 1.0), (11,))
    assert len({cell.key for cell in cells}) == len(cells)
    assert not set(fair_race.CHOOSING) & set(fair_race.EVALUATION)
    assert all(len(rates) >= 6 for rates in fair_race.RATES.values())


def test_a_rate_is_chosen_by_steps_and_then_by_the_end():
    rates = {"1": {"steps": [np.inf, 100], "last": [0.2, 0.1]}, "3": {"steps": [200, 90], "last": [0.3, 0.3]},
             "9": {"steps": [90, 200], "last": [0.1, 0.1]}}
    assert fair_race.best_rate(rates, steps=400) == "9"


def test_the_matched_arm_begins_as_fast_as_ten_times_on_the_values():
    fast, matched = fair_race.base_arm("values x 10", 11), fair_race.base_arm(fair_race.MATCHED, 11)
    found = fair.first_batch(11, fair_race.STEPS, fair.Setting())

    def falls(arm):
        weights = fair.first_weights(11, fair.Setting())
        said = fair.answer("attention", found, weights)
        slopes = fair.loss_gradients(said, found)
        small = replace(arm, rate=arm.rate / 100)
        race.mover(weights, small)(*slopes)
        after = fair.answer("attention", found, weights)
        return float(np.diff([x.forecast.gather(-1, found.targets[..., None]).log().mean().item() for x in (said, after)])[0])

    assert BASE_RATE < matched.rate < 10 * BASE_RATE and falls(matched) == pytest.approx(falls(fast), rel=0.05)


BASE_RATE = fair_race.BASE


# ---- what is stored


def test_a_sample_of_the_record_is_trained_again():
    record = ledger.record("fair_race")
    for name, seed in (("mixture, EM", 13), ("queries and keys x 10", 15)):
        head, arm = fair_race.FAMILIES[name]
        place = record["evaluated"][name]["seeds"].index(seed)
        arm = replace(arm, rate=record["rates"][name]["rate"])
        curve = fair.run(head, arm, seed, 20, 10, drawn_for=record["steps"])
        assert curve.measures["kl"] == pytest.approx(record["evaluated"][name]["kl"][place][:3], abs=0.02)


def test_the_record_says_what_its_curves_say():
    record = ledger.record("fair_race")
    level, points = record["levels"]["kl"], record["points"]
    for name, one in record["evaluated"].items():
        assert one["seeds"] == record["seeds"] and not set(one["seeds"]) & set(record["choosing"])
        for steps, curve in zip(one["steps"]["kl"], one["kl"], strict=True):
            below = [t for t, x in zip(points, curve, strict=True) if x is not None and x <= level]
            assert float(steps) == np.inf if not below or curve[-1] is None else below[0] - 10 <= float(steps) <= below[0]
        rates = {rate: {key: [float(x) for x in values] for key, values in row.items()} for rate, row in record["grid"][name].items()}
        assert float(fair_race.best_rate(rates)) == record["rates"][name]["rate"]
    steps = {name: np.minimum([float(x) for x in one["steps"]["kl"]], 400).mean() for name, one in record["evaluated"].items()}
    assert record["claims"]["values"] == pytest.approx(steps["one rate"] / steps["values x 10"])
    assert record["claims"]["mixture"] == pytest.approx(steps["mixture, one rate"] / steps["mixture, EM"])
    assert record["flipped"]["values"]["low"] <= 1 <= record["flipped"]["values"]["high"]


def test_a_run_that_breaks_has_not_arrived():
    found = {"steps": [0, 10, 20], "measures": {"kl": [0.5, 0.05, float("nan")], "entropy_mae": [1.0, 0.1, float("nan")]}}
    assert set(fair_race._steps(found).values()) == {np.inf} and fair_race._low(found) == np.inf


def test_the_tunnel_cannot_be_done_without_looking():
    """Training again with even attention stays above both levels."""
    curve = fair.run("attention", Arm("x", rate=4.0, times={"query": 0.0, "key": 0.0}), 2, 120, 120, begin=fair.even)
    assert curve.measures["kl"][-1] > 2 * fair_race.LEVELS["kl"] and curve.measures["entropy_mae"][-1] > fair_race.LEVELS["entropy_mae"]

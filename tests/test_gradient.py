"""Laws of the gradient and their rivals, opened networks, the record of chapter 15, and the three keys explorer."""

from __future__ import annotations

import json
import math

from _support import rng
import bayeswind_lib as bw
import numpy as np
import pytest
import torch
from _support_browser import middle, swipe
from _support_explorer import explorer_opener, number
from bayeswind_lib.dynamics import attention, checks, loop, steps, three_keys
from bayeswind_lib.figures import phase_portrait
from bayeswind_lib.experiments import gradient as record_of

SMALL = "bijection-transformer-classroom"
browser_only = pytest.mark.xdist_group("browser")


def head(kind="one head", seed=0):
    """A random head of a kind: pass, upstream gradient, targets, and what autograd says."""
    inputs, weights, targets, way = checks.random_head(kind, rng(seed))
    truth = checks.by_autograd(inputs, weights, lambda done: attention.cross_entropy(done.logits, targets), **way)
    done = attention.forward(inputs, weights, **way)
    return done, attention.upstream_of(attention.residual(done.logits, targets), weights.output), targets, truth


# ---- the laws and their rivals


@pytest.mark.parametrize("kind", checks.KINDS)
def test_the_law_is_right_and_every_rival_is_far_off(kind):
    done, upstream, _, truth = head(kind, 3)
    for what, laws in (("scores", checks.score_laws), ("values", checks.value_laws)):
        errors = {name: checks.apart(law, truth[what]) for name, law in laws(done, upstream).items()}
        assert errors.pop("law") < 1e-13
        # What sees all keys alike has no mass to divide by that differs much, yet each is far off.
        assert min(errors.values()) > 0.05, errors
    assert max(checks.agreement(attention.gradients(done, upstream), truth).values()) < 1e-13


def test_an_unknown_kind_is_named():
    with pytest.raises(ValueError, match="kind is 'two heads'"):
        checks.random_head("two heads", rng())


@pytest.mark.parametrize("kind", ["one head", "rotary positions"])
def test_differences_agree_with_the_law(kind):
    done, upstream, targets, _ = head(kind)
    values = done.shared(done.values)

    def loss(scores):
        logits = torch.einsum("bhtv,hvy->bty", scores.softmax(-1) @ values, done.weights.output)
        return float(attention.cross_entropy(logits, targets))

    slope = checks.by_differences(loss, done.scores)
    law = attention.gradients(done, upstream).scores
    assert float((slope - law).abs().max()) < 1e-8
    assert bool((slope[~torch.isfinite(done.scores)] == 0).all())
    assert checks.apart(slope, checks.score_laws(done, upstream)["no baseline"]) > 0.1


def test_room_is_the_trace_of_the_jacobian():
    pattern = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]], dtype=torch.float64)
    assert checks.unsaturated(pattern).tolist() == pytest.approx([0.5, 0, 2 / 3])
    for row in pattern:
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row.clamp(min=1e-30).log())
        assert float(jacobian.trace()) == pytest.approx(float(checks.unsaturated(row)), abs=1e-12)


def test_who_is_served_is_counted_by_moving_the_values():
    done, upstream, _, _ = head(seed=5)
    gathered = attention.gradients(done, upstream).values
    moved = upstream @ done.shared(-1e-3 * gathered).transpose(-2, -1)  # u_i . dv_j
    weight = done.pattern * (upstream.abs().sum(-1, keepdim=True) > 0)
    assert checks.improved_share(done, upstream) == pytest.approx(float(weight[moved < 0].sum() / weight.sum()), abs=1e-12)
    # One common error serves everybody; strangers keep the lengths, and zero.
    same = upstream[:, :, :1].expand_as(upstream)
    assert checks.improved_share(done, same) == pytest.approx(1, abs=1e-12)
    drawn = checks.random_errors(upstream, rng(1))
    assert torch.allclose(drawn.norm(dim=-1), upstream.norm(dim=-1)) and not torch.allclose(drawn, upstream)


def test_alike_is_one_for_one_sequence_repeated():
    inputs, weights, targets, way = checks.random_head("one head", rng(2))
    inputs, targets = (x[:1].repeat(4, *[1] * (x.ndim - 1)) for x in (inputs, targets))
    done = attention.forward(inputs, weights, **way)
    upstream = attention.upstream_of(attention.residual(done.logits, targets), weights.output)
    assert checks.gradient_coherence(done, upstream) == pytest.approx(1, abs=1e-9)
    signs = torch.tensor([1.0, -1, 1, -1], dtype=torch.float64)[:, None, None, None]
    assert checks.gradient_coherence(done, signs * upstream) == pytest.approx(0, abs=1e-9)


# ---- opened networks


@pytest.fixture(scope="module")
def trained():
    return bw.load(SMALL).double(), bw.tunnels.Bijection(10).sample(4, rng(3))


@pytest.mark.parametrize("targets", ["targets", "posterior"])
def test_an_opened_layer_is_the_layer(trained, targets):
    model, episodes = trained
    asked = getattr(episodes, targets)
    before = [p.clone() for p in model.parameters()]
    for layer in range(3):
        done, upstream, truth = checks.opened(model, layer, episodes.inputs, asked)
        found = attention.gradients(done, upstream)
        for name in ("pattern", "query", "key", "value"):
            assert checks.apart(getattr(found, name), truth[name]) < 1e-10, (layer, name)
        same = checks.maps_of(done, found.scores, found.values)
        assert all(checks.apart(same[name], truth[name]) < 1e-10 for name in same)
        plain = float(checks.network_loss(model, episodes.inputs, asked))
        assert checks.loss_with_pattern(model, layer, done.pattern, episodes.inputs, asked) == pytest.approx(plain, abs=1e-12)
    assert all(torch.equal(a, b) and b.grad is None for a, b in zip(before, model.parameters(), strict=True))
    assert not model.blocks[0].attention.pattern._forward_hooks


def test_a_step_of_scores_inside_a_network_gains_what_is_predicted(trained):
    """In units of the largest move of a score; logits are in single precision, so no smaller steps."""
    model, episodes = bw.checkpoints.load_snapshots(f"{SMALL}-snapshots").network(32).double(), trained[1]
    done, upstream, _ = checks.opened(model, 0, episodes.inputs, episodes.targets)
    found = attention.gradients(done, upstream)
    most = float(found.scores.abs().max())

    def loss(move):
        pattern = (done.scores - move / most * found.scores).softmax(-1)
        return checks.loss_with_pattern(model, 0, pattern, episodes.inputs, episodes.targets)

    moves = (0.3, 0.1, 0.03)
    ratio = steps.ratios(loss, lambda move: steps.routing_gain(found, move / most), moves)
    assert ratio[-1] == pytest.approx(1, abs=0.02) and steps.order(moves, ratio) == pytest.approx(1, abs=0.2)


def test_uniform_attention_and_turned_positions_are_refused():
    uniform = bw.models.build("transformer", {**bw.load(SMALL).record["config"], "attention": "uniform"})
    episodes = bw.tunnels.Bijection(10).sample(2, rng())
    with pytest.raises(ValueError, match="layer 0 has no attention that looks"):
        checks.opened(uniform, 0, episodes.inputs, episodes.targets)
    done, upstream, _, _ = head("rotary positions")
    found = attention.gradients(done, upstream)
    with pytest.raises(ValueError, match="rotary"):
        checks.maps_of(done, found.scores, found.values)


def test_the_record_says_what_is_measured_again():
    stored = bw.ledger.record("probe_gradient")
    assert max(x for row in stored["random"].values() for x in row.values()) < 1e-12
    assert all(row["values"] < 1e-12 and row["routing"] < 1e-9 for rows in stored["networks"].values() for row in rows)
    now = record_of.ratio(2)
    assert np.allclose(now["median"]["law"], stored["ratio"]["median"]["law"], atol=0.05)
    assert record_of.worst("all of it", 2)["scores"] <= 1e-14
    small = record_of.rivals(2)["scores"]
    assert small["law"]["high"] < 1e-13 and small["no baseline"]["low"] > 0.5


# ---- the portrait


def test_the_portrait_tells_where_each_start_ends():
    starts = [(1.0, 0.5), (-1.0, -0.5), (0.5, -3.0)]
    picture = phase_portrait(loop.flow(starts))
    assert (picture.data["end d"] > 0).tolist() == [True, False, False]
    np.testing.assert_allclose(np.tanh(picture.data["end d"] / 2) * picture.data["end v"], 1, atol=1e-3)
    assert "3 starts: 1 end with each query on its own value, 2 with the two exchanged" in picture.alt
    assert "largest gap" in picture.alt
    steep = phase_portrait(loop.flow(starts, value=10.0))
    assert steep.data["watershed at start d"][0] == pytest.approx(10**0.5 * picture.data["watershed at start d"][0])
    with pytest.raises(ValueError, match="starts is empty"):
        loop.flow([])


# ---- three keys


def drawn(source):
    """A random setting of the explorer."""
    return {
        "scores": source.normal(size=3) * 1.5, "values": source.normal(size=(3, 2)), "error": source.normal(size=2),
        "rate": float(source.uniform(0, 4)), "moves": str(source.choice(three_keys.MOVES)),
    }


def test_three_keys_by_autograd():
    source = np.random.default_rng(0)
    for _ in range(20):
        now = three_keys.step(**drawn(source))
        s, v = (torch.tensor(x, requires_grad=True) for x in (now.scores, now.values))
        loss = (s.softmax(-1) @ v - torch.tensor(now.target)).square().sum() / 2
        loss.backward()
        assert float(loss.detach()) == pytest.approx(now.loss)
        np.testing.assert_allclose(s.grad, now.score_gradient, atol=1e-12)
        np.testing.assert_allclose(v.grad, now.value_gradient, atol=1e-12)
        after = torch.tensor(now.new_scores).softmax(-1) @ torch.tensor(now.new_values) - torch.tensor(now.target)
        assert float(after.square().sum() / 2) == pytest.approx(now.new_loss)
        assert now.pattern @ now.advantage == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("moves", three_keys.MOVES)
def test_three_keys_gain_to_first_order(moves):
    setting = drawn(np.random.default_rng(1)) | {"moves": moves}
    for rate in (1e-3, 1e-5):
        now = three_keys.step(**setting | {"rate": rate})
        assert now.actual / now.predicted == pytest.approx(1, abs=3 * rate)
    assert three_keys.step(**setting | {"rate": 0}).actual == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(("change", "words"), [
    ({"moves": "keys"}, "moves is 'keys'"), ({"rate": -1}, "rate is -1"), ({"error": [1, 2, 3]}, "expected .J,., .J, 2., .2,."),
])  # fmt: skip
def test_three_keys_name_bad_input(change, words):
    with pytest.raises(ValueError, match=words):
        three_keys.step(**drawn(np.random.default_rng(2)) | change)


@pytest.fixture
def open_page(browser, tmp_path):
    with explorer_opener("threekeys", browser, tmp_path) as opened:
        yield opened


@browser_only
def test_it_computes_what_the_library_computes(open_page):
    page, source, names = open_page(), np.random.default_rng(3), {
        "pattern": "pattern", "context": "context", "target": "target", "compatibility": "compatibility",
        "baseline": "baseline", "advantage": "advantage", "scoreGradient": "score_gradient",
        "valueGradient": "value_gradient", "newScores": "new_scores", "newValues": "new_values",
        "newPattern": "new_pattern", "newContext": "new_context", "loss": "loss", "newLoss": "new_loss", "predicted": "predicted",
    }  # fmt: skip
    for _ in range(20):
        setting = drawn(source)
        given = [x.tolist() if isinstance(x, np.ndarray) else x for x in setting.values()]
        theirs = page.evaluate("given => bwThreekeys.step(...given)", given)
        ours = three_keys.step(**setting)
        assert set(theirs) == set(names)
        for name, own in names.items():
            np.testing.assert_allclose(theirs[name], getattr(ours, own), rtol=1e-9, atol=1e-12, err_msg=name)


def shown(page) -> dict:
    return {key: json.loads(value) if value[0] in "[{" else float(value) for key, value in
            page.locator(".bw-explorer").evaluate("e => ({...e.dataset})").items() if key not in ("explorer", "mounted")}


def agrees(page) -> dict:
    """Check what the page shows against the library; its state."""
    now = shown(page)
    state = now["state"]
    ours = three_keys.step(state["scores"], state["values"], state["error"], state["rate"], state["moves"])
    for name, value in {"loss": ours.loss, "predicted": ours.predicted, "actual": ours.actual, "baseline": ours.baseline}.items():
        assert now[name] == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(now["after"], ours.new_pattern, atol=1e-12)
    np.testing.assert_allclose(now["values"], ours.new_values, atol=1e-12)
    words = page.locator("[role=status]").text_content().replace("\u2212", "-")
    told = f"The loss is {number(ours.loss)}; the next step should change it by {number(ours.predicted)}"
    assert told.replace("\u2212", "-") in words
    assert f"Key {int(ours.advantage.argmax()) + 1} has the largest advantage" in words
    rows = page.locator("table tbody tr").all_text_contents()
    assert len(rows) == 3 and all(number(abs(a)) in row for a, row in zip(ours.advantage, rows, strict=True))
    return state


@browser_only
def test_controls_move_the_page_as_the_library_says(open_page):
    page = open_page()
    assert agrees(page)["taken"] == 0
    for label, value in (("Error, across", -1.3), ("Error, upwards", 0.7), ("Size of the step", 1.25), ("Score of key 3", 2.4)):
        page.get_by_label(label, exact=True).fill(str(value))
        agrees(page)
    state = agrees(page)
    assert state["error"] == [-1.3, 0.7] and state["rate"] == 1.25 and state["scores"][2] == 2.4
    for moves in ("scores", "values", "both"):
        page.get_by_label(moves, exact=True).check()
        assert agrees(page)["moves"] == moves
    loss = [shown(page)["loss"]]
    for taken in (1, 2, 3):
        page.locator("[data-action=next]").click()
        assert agrees(page)["taken"] == taken
        loss.append(shown(page)["loss"])
    assert loss == sorted(loss, reverse=True)
    page.locator("[data-action=again]").click()
    assert agrees(page)["taken"] == 0 and agrees(page)["error"] == [1, 0.4]


@browser_only
@pytest.mark.parametrize("width", [1280, 360])
def test_the_error_is_dragged(open_page, width):
    """By its head: where the pointer goes, the error points."""
    page = open_page(width=width)
    page.locator(".bw-handle").scroll_into_view_if_needed()
    box = page.locator(".bw-handle").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 30, y - 10)
    page.mouse.move(x - 60, y - 20)
    page.mouse.up()
    state = agrees(page)
    assert state["error"][0] < 0.9 and state["error"][1] > 0.4
    box = page.locator(".bw-handle").bounding_box()
    unit = math.hypot(box["x"] + box["width"] / 2 - (x - 60), box["y"] + box["height"] / 2 - (y - 20))
    assert unit < 6  # the head is under the pointer, but for rounding to tenths
    page.mouse.move(5, 5)
    assert agrees(page) == state  # nothing is dragged any more


@browser_only
def test_a_finger_drags_the_error_and_not_the_page(open_page):
    page = open_page(width=360)
    page.evaluate("document.body.style.paddingBottom = '200vh'")
    handle = page.locator(".bw-handle")
    handle.scroll_into_view_if_needed()
    place, top = middle(handle), page.evaluate("scrollY")
    swipe(page, place, (-40, -30))
    assert page.evaluate("scrollY") == top and agrees(page)["error"] != [1, 0.4]
    assert middle(handle) == pytest.approx((place[0] - 40, place[1] - 30), abs=6)


@browser_only
def test_a_wrong_script_is_caught(open_page, tmp_path):
    script = tmp_path / "threekeys_explorer.js"
    right = script.read_text("utf-8")
    assert right.count("(b) => baseline - b") == 1
    script.write_text(right.replace("(b) => baseline - b", "(b) => -b"), "utf-8")
    with pytest.raises(AssertionError):
        agrees(open_page())

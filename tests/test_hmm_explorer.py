"""The HMM explorer against the library."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from _support_explorer import CLEAR, explorer_opener

import bayeswind_lib as bw
from bayeswind_lib.baselines import hmm as baselines
from bayeswind_lib.tunnels.hmm import forward_filter, on_grid
from bayeswind_lib.widgets import hmm as widget

pytestmark = pytest.mark.xdist_group("browser")
FAST, SLOW = widget.CHAINS


# ---- what script and library draw -----------------------------------------------------------------------------


def test_a_chain_is_made_of_distributions_on_the_grid():
    for seed in range(200):
        for kappa, least in widget.CHAINS.values():
            drawn = widget.draw_chain(seed, kappa, least)
            for name, floor in (("transition", least), ("emission", 5)):
                assert [sum(row) for row in drawn[name]] == [100, 100, 100]
                assert min(map(min, drawn[name])) >= floor
            assert len(drawn["states"]) == len(drawn["symbols"]) == widget.LENGTH
            assert {*drawn["states"], *drawn["symbols"]} <= {0, 1, 2}


def test_rows_are_those_of_the_tunnels_grid():
    """The same rounding and repair, up to which of two equal entries has the odd cent."""
    for seed in range(300):
        random = widget.generator(seed)
        cents = widget.draw_row(random, 0, 0, 5)
        again = widget.generator(seed)
        cuts = sorted(again() for _ in range(2))
        gaps = torch.tensor([cuts[0], cuts[1] - cuts[0], 1 - cuts[1]], dtype=torch.float64)
        assert sorted(cents) == sorted(on_grid(gaps[:, None])[:, 0].int().tolist()), seed


def test_nature_follows_its_own_matrices():
    """Moves and symbols of 3,000 chains as often as their matrices say (5 standard errors)."""
    moved, shown, expected = np.zeros(9), np.zeros(9), np.zeros((2, 9))
    for seed in range(3000):
        drawn = widget.draw_chain(seed)
        T, E = (np.array(drawn[name]) / 100 for name in ("transition", "emission"))
        states, symbols = np.array(drawn["states"]), np.array(drawn["symbols"])
        moved += np.bincount(3 * states[:-1] + states[1:], minlength=9)
        shown += np.bincount(3 * states + symbols, minlength=9)
        expected += [
            (np.bincount(states[:-1], minlength=3)[:, None] * T).ravel(),
            (np.bincount(states, minlength=3)[:, None] * E).ravel(),
        ]
    for got, want in zip((moved, shown), expected, strict=True):
        assert (np.abs(got - want) < 5 * np.sqrt(want)).all()


# ---- on the page --------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser, tmp_path):
    with explorer_opener("hmm", browser, tmp_path) as opened:
        yield opened


COMPUTE = """([seed, chain, seen, window]) => {
  const drawn = bwHmm.draw(seed, bwHmm.CHAINS[chain]);
  const [T, E] = [drawn.transition, drawn.emission].map(bwHmm.probabilities);
  const symbols = drawn.symbols.slice(0, seen);
  const exact = bwHmm.filter(T, E, symbols), short = bwHmm.windowFilter(T, E, symbols, window);
  return {
    drawn, exact, short, look: bwHmm.emissionOnly(E, symbols), pi: bwHmm.stationary(T),
    bits: exact.map(bwHmm.entropy), kl: exact.map((row, t) => bwHmm.divergence(row, short[t])),
  };
}"""


def test_it_computes_what_the_library_computes(open_page):
    page, rng = open_page(), np.random.default_rng(0)
    for i in range(20):
        seed, chain = int(rng.integers(2**31)), ("fast", "slow")[i % 2]
        seen, window = int(rng.integers(1, 21)), int(rng.integers(1, 11))
        theirs = page.evaluate(COMPUTE, [seed, chain, seen, window])
        ours = widget.draw_chain(seed, *widget.CHAINS[(FAST, SLOW)[i % 2]])
        assert theirs["drawn"] == ours
        T, E = (torch.tensor([ours[n]], dtype=torch.float64) / 100 for n in ("transition", "emission"))
        symbols = torch.tensor([ours["symbols"]])[:, :seen]
        tunnel = bw.tunnels.HMM(3, 3, seen)
        exact = forward_filter(T, E, symbols)[0]
        short = baselines.WindowFilter(tunnel, window).belief(T, E, symbols)[0]
        expected = {
            "exact": exact, "short": short, "pi": baselines.stationary(T)[0],
            "look": baselines.EmissionOnly(tunnel).belief(T, E, symbols)[0],
            "bits": bw.scoring.entropy_bits(exact.log2()),
            "kl": bw.scoring.kl_bits(exact, short.log2()),
        }  # fmt: skip
        for name, value in expected.items():
            np.testing.assert_allclose(theirs[name], value, rtol=0, atol=1e-12, err_msg=name)


def state(page) -> dict:
    """Everything that the explorer shows."""
    return page.locator(".bw-explorer").evaluate("""root => ({
      status: root.querySelector('[role=status]').textContent, told: root.querySelector('.bw-told').textContent,
      legend: root.querySelector('.bw-legend').textContent, entropy: +root.dataset.entropy,
      seed: +root.dataset.seed, seen: +root.dataset.seen,
      words: [...root.querySelectorAll('svg')].map(e => e.getAttribute('aria-label')),
      bars: [...root.querySelectorAll('.bw-bar')].map(e => [e.getAttribute('class'), +e.getAttribute('height')]),
      cells: [...root.querySelectorAll('td:not(:empty)')].map(e => e.textContent),
      marked: root.querySelectorAll('.bw-seen').length,
    })""")


def agrees_with_library(page, chain: str, window: int = 2) -> torch.Tensor:
    """Check the words, bars and state of the page against the library; the exact belief."""
    now = state(page)
    drawn = widget.draw_chain(now["seed"], *widget.CHAINS[chain])
    T, E = (torch.tensor([drawn[n]], dtype=torch.float64) / 100 for n in ("transition", "emission"))
    symbols = [int(n) for n in re.findall(r"\d", now["told"].split(".")[0])] if now["seen"] else []
    assert len(symbols) == now["seen"]
    exact, short = torch.full((3,), 1 / 3, dtype=torch.float64), None
    if symbols:
        tunnel = bw.tunnels.HMM(3, 3, len(symbols))
        exact = forward_filter(T, E, torch.tensor([symbols]))[0, -1]
        short = baselines.WindowFilter(tunnel, window).belief(T, E, torch.tensor([symbols]))[0, -1]
    for p in exact.tolist():
        assert f"{p:.3f}" in now["status"] or not symbols
    entropy = float(bw.scoring.entropy_bits(exact.log2()))
    assert now["entropy"] == pytest.approx(entropy, abs=1e-9)
    assert f"{entropy:.3f} bits" in now["status"]
    heights = np.array([h for kind, h in now["bars"] if kind.endswith("look-0")])
    np.testing.assert_allclose(heights / heights.sum(), exact, atol=1e-6)
    if short is not None:
        heights = np.array([h for kind, h in now["bars"] if kind.endswith("look-2")])
        np.testing.assert_allclose(heights / heights.sum(), short, atol=1e-6)
    assert now["cells"] == [f"{c / 100:.2f}" for m in ("transition", "emission") for r in drawn[m] for c in r]
    assert now["marked"] == (3 if symbols else 0)
    return exact


def test_symbols_are_revealed_and_taken_back(open_page):
    page = open_page()
    reveal, back = (page.get_by_role("button", name=n) for n in ("See next symbol", "Step back"))
    assert back.is_disabled()
    beliefs = []
    for _ in range(20):
        beliefs.append(agrees_with_library(page, FAST))
        reveal.click()
    assert reveal.is_disabled() and agrees_with_library(page, FAST) is not None
    assert state(page)["told"].count(",") == 19
    back.click()
    np.testing.assert_allclose(agrees_with_library(page, FAST), beliefs[19])
    page.get_by_label("Symbols seen").fill("4")
    np.testing.assert_allclose(agrees_with_library(page, FAST), beliefs[4])
    page.get_by_label("Window, symbols").fill("1")
    agrees_with_library(page, FAST, 1)
    assert "last symbol" in state(page)["legend"]


def test_another_chain_and_a_chosen_symbol(open_page):
    page = open_page()
    page.get_by_label("slow: states stay").check()
    page.get_by_role("button", name="New chain").click()
    page.get_by_label("Symbols seen").fill("3")
    agrees_with_library(page, SLOW)
    page.get_by_label("show the hidden states").check()
    states = widget.draw_chain(2, *widget.CHAINS[SLOW])["states"][:3]
    assert f"Hidden states: {', '.join(map(str, states))}." in state(page)["told"]
    theirs = widget.draw_chain(2, *widget.CHAINS[SLOW])["symbols"][3]
    chosen = (theirs + 1) % 3
    page.locator(f"[data-chip='symbol {chosen}']").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.chip") == f"symbol {chosen}"
    now = state(page)
    assert now["seen"] == 4 and "no longer belong" in now["told"]
    agrees_with_library(page, SLOW)
    page.get_by_role("button", name="New chain").click()
    assert "no longer" not in state(page)["told"] and state(page)["seed"] == 3


def test_the_chips_tell_the_probability_of_each_symbol(open_page):
    page = open_page()
    page.get_by_label("Symbols seen").fill("5")
    drawn = widget.draw_chain(1)
    T, E = (torch.tensor([drawn[n]], dtype=torch.float64) / 100 for n in ("transition", "emission"))
    belief = forward_filter(T, E, torch.tensor([drawn["symbols"][:5]]))[0, -1]
    chances = (belief @ T[0] @ E[0]).tolist()
    labels = page.eval_on_selector_all(".bw-chip", "all => all.map(e => e.getAttribute('aria-label'))")
    assert labels == [f"symbol {s}, probability {p:.3f}" for s, p in enumerate(chances)]


def test_a_third_predictor_can_join(open_page):
    """A table of a network's answers, as a later chapter will bring it."""
    page = open_page()
    symbols = widget.draw_chain(1)["symbols"]
    table = {f"1 fast {','.join(map(str, symbols[: t + 1]))}": [0.5, 0.25, 0.25] for t in range(3)}
    page.evaluate(
        "table => bwHmm.addPredictor(bwHmm.tablePredictor('network', 'transformer', table))", table
    )
    page.get_by_label("Symbols seen").fill("3")
    now = state(page)
    assert now["legend"].endswith("transformer") and "Transformer: KL" in now["status"]
    heights = [h for kind, h in now["bars"] if kind.endswith("look-1")]
    np.testing.assert_allclose(np.array(heights) / sum(heights), [0.5, 0.25, 0.25])
    page.get_by_label("Symbols seen").fill("4")  # beyond the table: it has no answer
    assert "ransformer" not in state(page)["legend"] + state(page)["status"]
    page.evaluate("""bwHmm.addPredictor({
      name: 'network', label: () => 'even', beliefs: e => e.symbols.map(() => [1/3, 1/3, 1/3])})""")
    assert state(page)["legend"].endswith("even")


def test_the_truth_is_dashed(open_page):
    assert open_page().evaluate("getComputedStyle(document.querySelector('.bw-bar.bw-look-0')).strokeDasharray") != "none"


# ---- forecasts --------------------------------------------------------------------------------------

SAID = """([table]) => {
  const root = document.querySelector(".bw-explorer");
  for (const key of ["mounted", "opens"]) delete root.dataset[key];
  Object.assign(root.dataset, {shows: "forecasts", chain: "slow", predictors: "window network", chains: "2"});
  bwHmm.mountOn(root, {predictors: [bwHmm.tablePredictor("network", "transformer", table, "forecasts")]});
}"""
MISSES = """() => [2, 1].map((look) => [...document.querySelectorAll(`.bw-chart:nth-child(2) .bw-line.bw-look-${look}`)]
  .flatMap((line) => (line.getAttribute("d").match(/[^ML]+/g) || []).map((point) => +point.split(" ")[1])))"""


def test_forecasts_and_their_errors_are_the_librarys(open_page):
    """Bars and words are the forecasts; the second drawing has their divergence, a decade as high as every other."""
    page, drawn = open_page(), widget.draw_chain(1, *widget.CHAINS[SLOW])
    says = [0.5, 0.3, 0.2]
    page.evaluate(SAID, [{f"1 slow {','.join(map(str, drawn['symbols'][: t + 1]))}": says for t in range(20)}])
    page.get_by_role("slider", name="Observations").fill("9")
    T, E = (torch.tensor([drawn[n]], dtype=torch.float64) / 100 for n in ("transition", "emission"))
    symbols = torch.tensor([drawn["symbols"][:9]])
    exact = (forward_filter(T, E, symbols) @ T @ E)[0]
    short = (baselines.WindowFilter(bw.tunnels.HMM(3, 3, 9), 2).belief(T, E, symbols) @ T @ E)[0]
    now = state(page)
    assert all(f"{p:.3f}" in now["status"] for p in exact[-1].tolist())
    for look, row in ((0, exact[-1]), (2, short[-1]), (1, says)):
        heights = np.array([h for kind, h in now["bars"] if kind.endswith(f"look-{look}")])
        np.testing.assert_allclose(heights / heights.sum(), row, atol=1e-6)
    for found, row in zip(page.evaluate(MISSES), (short, torch.tensor(says, dtype=torch.float64).expand(9, 3)), strict=True):
        kl = bw.scoring.kl_bits(exact, row.log2())
        kl = kl[kl > 1e-5].clamp(max=1).log10().numpy()  # none where a filter is exact
        slope, offset = np.polyfit(kl, found, 1)
        np.testing.assert_allclose(found, slope * kl + offset, atol=1e-6)
        assert slope == pytest.approx(-(230 - 40 - 28) / 5.8)


def test_what_lies_below_the_axis_is_an_open_mark_below_it(open_page):
    """Fast chain 1, window 2: some of its divergences are far below 1e-5 bits, and not drawn as if they were that."""
    page, drawn = open_page(), widget.draw_chain(1)
    page.evaluate(SAID.replace('"slow"', '"fast"'), [{}])
    page.get_by_role("slider", name="Observations").fill("9")
    T, E = (torch.tensor([drawn[n]], dtype=torch.float64) / 100 for n in ("transition", "emission"))
    symbols = torch.tensor([drawn["symbols"][:9]])
    short = baselines.WindowFilter(bw.tunnels.HMM(3, 3, 9), 2).belief(T, E, symbols)
    kl = bw.scoring.kl_bits((forward_filter(T, E, symbols) @ T @ E)[0], (short @ T @ E)[0].log2())
    kl = kl[kl > 1e-12]
    assert (kl < 1e-5).any() and (kl > 1e-5).any()
    curve = page.locator(".bw-chart").nth(1)
    marks = curve.locator(".bw-mark").evaluate_all("""all => all.map(mark => [mark.classList.contains("bw-open-mark"),
      getComputedStyle(mark).fill === getComputedStyle(document.body).backgroundColor || getComputedStyle(mark).fill === "rgb(255, 255, 255)",
      mark.getBBox().y + mark.getBBox().height / 2])""")
    tick = curve.locator("text", has_text="below").evaluate("e => e.getBBox().y + e.getBBox().height / 2")
    assert [mark[0] for mark in marks] == [mark[1] for mark in marks] == (kl < 1e-5).tolist()
    assert all(abs(height - tick) < 5 for open_mark, _, height in marks if open_mark)
    assert page.evaluate(MISSES)[0] == pytest.approx([height for open_mark, _, height in marks if not open_mark])


# ---- a hand at the drawings -----------------------------------------------------------------------------


def forecasts(open_page, *args, **settings):
    """A page on which a network says [0.5, 0.3, 0.2] all the time, 7 observations of slow chain 1."""
    page, drawn = open_page(*args, **settings), widget.draw_chain(1, *widget.CHAINS[SLOW])
    page.evaluate(SAID, [{f"1 slow {','.join(map(str, drawn['symbols'][: t + 1]))}": [0.5, 0.3, 0.2] for t in range(20)}])
    page.get_by_role("slider", name="Observations").fill("7")
    return page


def at(page, chart: int, across: float) -> tuple[float, float]:
    """A place on the page: a share of a drawing's axis, which frame() sets off by 46 and 12 pixels."""
    box = page.locator(".bw-chart").nth(chart).bounding_box()
    return box["x"] + 46 + (box["width"] - 58) * across, box["y"] + 60


def seen(page) -> int:
    return int(page.locator(".bw-explorer").get_attribute("data-seen"))


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 320)])
def test_values_stand_under_the_pointer(open_page, theme, width):
    page = forecasts(open_page, theme, width)
    words = page.locator(".bw-readout-box text")
    heights = page.locator(".bw-chart").nth(0).locator(".bw-bar").evaluate_all("all => all.map(e => +e.getAttribute('height'))")
    short, said, exact = (np.array(heights).reshape(3, 3) / sum(heights[2::3])).T
    for v in range(3):
        page.mouse.move(*at(page, 0, (v + 0.5) / 3))
        assert words.all_text_contents() == [f"next observation {v}", f"exact {exact[v]:.3f}", f"last 2 {short[v]:.3f}", f"transformer {said[v]:.3f}"]
        assert page.locator(".bw-readout-box").evaluate(CLEAR)
    kl = [float(n) for n in re.findall(r"KL divergence from it: ([\d.]+) bits .*?, ([\d.]+) bits", state(page)["status"])[0]]
    for step in range(1, 8):
        page.mouse.move(*at(page, 1, (step - 0.3) / 20))
        first, *rows = words.all_text_contents()
        assert first == f"after {step} observation{'s' * (step != 1)}"
        assert [row.rpartition(" ")[0].rsplit(" ", 1)[0] for row in rows] == ["last 2", "transformer"]
        assert page.locator(".bw-readout-box").evaluate(CLEAR)
        marks = page.locator(".bw-chart").nth(1).locator(".bw-mark.bw-look-1")  # the network's, at every step
        mark, box = marks.nth(step - 1).bounding_box(), page.locator(".bw-readout-box").bounding_box()
        assert any(one[axis] + one[size] < other[axis] for axis, size in (("x", "width"), ("y", "height")) for one, other in ((mark, box), (box, mark)))
    assert [float(row.split()[-2]) for row in rows] == kl
    page.get_by_role("slider", name="Observations").fill("20")
    for step in range(1, 21):  # at the right edge, too
        page.mouse.move(*at(page, 1, (step - 0.3) / 20))
        assert page.locator(".bw-readout-box").evaluate(CLEAR), step
    page.mouse.move(1, 1)
    assert not page.locator(".bw-readout-box").count()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_curve_is_a_scrubber(open_page):
    """A mouse drags along it and selects no word; a tap goes there; a finger takes the point of now and may scroll elsewhere."""
    page = forecasts(open_page)
    page.mouse.move(*at(page, 1, 0.33))
    page.mouse.down()
    for step in (9, 20, 3):
        page.mouse.move(*at(page, 1, (step - 0.3) / 20))
        assert seen(page) == step
        assert page.locator(".bw-readout-box text").first.text_content() == f"after {step} observations"
    x, y = at(page, 1, 0.2)
    page.mouse.move(x, y + 140)  # over the ticks
    assert page.evaluate("getSelection().toString()") == ""
    page.mouse.up()
    page.mouse.move(*at(page, 1, 0.9))
    assert seen(page) == 4
    box = page.locator(".bw-chart").first.bounding_box()  # a hand over words that nothing can be done with
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.up()
    assert page.evaluate("getSelection().toString()") == ""
    page.mouse.click(*at(page, 1, 12 / 20))
    assert seen(page) == 12
    page.get_by_role("slider", name="Observations").press("ArrowRight")
    assert seen(page) == 13


FINGER = """([kind, x, y]) => {
  const box = document.querySelectorAll(".bw-chart")[1], touch = new Touch({identifier: 1, target: box, clientX: x, clientY: y});
  const moves = {start: "pointerdown", move: "pointermove", end: "pointerup"};
  box.setPointerCapture = () => {};
  box.dispatchEvent(new PointerEvent(moves[kind], {pointerId: 2, pointerType: "touch", clientX: x, clientY: y, bubbles: true, cancelable: true}));
  return !box.dispatchEvent(new TouchEvent(`touch${kind}`, {changedTouches: [touch], bubbles: true, cancelable: true}));
}"""


def test_a_finger_scrubs_from_the_point_of_now(open_page):
    page = forecasts(open_page, "light", 390, has_touch=True, is_mobile=True)
    assert page.evaluate(FINGER, ["start", *at(page, 1, 6.7 / 20)])  # does not scroll the page
    page.evaluate(FINGER, ["move", *at(page, 1, 14.7 / 20)])
    assert seen(page) == 15
    page.evaluate(FINGER, ["end", *at(page, 1, 14.7 / 20)])
    assert not page.evaluate(FINGER, ["start", *at(page, 1, 3.7 / 20)])  # far from it: the page scrolls
    page.evaluate(FINGER, ["move", *at(page, 1, 2.7 / 20)])
    assert seen(page) == 15
    page.evaluate(FINGER, ["end", *at(page, 1, 2.7 / 20)])
    page.touchscreen.tap(*at(page, 1, 4.7 / 20))
    assert seen(page) == 5 and page.locator(".bw-readout-box text").first.text_content() == "after 5 observations"


def test_forecasts_change_with_the_memory_and_their_chains_come_round(open_page):
    page = open_page()
    page.evaluate(SAID, [{}])
    page.get_by_role("slider", name="Observations").fill("6")
    before = state(page)["status"]
    page.get_by_role("slider", name="Window").fill("1")
    now = state(page)
    assert now["status"] != before and now["legend"] == "exact filterlast observation"  # no answer, no network
    for seed in (2, 1):
        page.get_by_role("button", name="New chain").click()
        now = state(page)
        assert (now["seed"], now["seen"]) == (seed, 6)
    page.get_by_label("fast").check()
    assert state(page)["cells"] != now["cells"]

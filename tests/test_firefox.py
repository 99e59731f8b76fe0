"""The landing page, the playground and formulas in Firefox: the engine of every other test is Chromium's.

`python book/tools browser` gets one.
"""

from __future__ import annotations

import pytest
from _support_browser import CUT, FRAMES, OVERFLOW, RENDERED
from _support_firefox import Fox, firefox
from _support_playground import EPISODE, measured, truth_and_inputs
from test_landing import GAME, PAIR, TOLERANCE, scores

import bayeswind_lib as bw
from bayeswind_lib.widgets import poster

pytestmark = pytest.mark.xdist_group("browser")
WIDTHS = (320, 390, 768, 1024, 1180, 1440)
PLAYGROUND = ".bw-explorer[data-explorer=playground]"


@pytest.fixture(scope="module")
def fox(home):
    with firefox() as driver:
        yield Fox(driver, home)


@pytest.mark.parametrize("size", [(390, 660), (1280, 800)])
def test_the_game_is_played(fox, size):
    """A bet with the keyboard, one round revealed, and the scores are the library's."""
    fox.open("book/intro.html", *size)
    fox.wait(f"document.querySelector('{GAME}').dataset.network === 'here'")
    fox.keys(".bw-bet[data-value='4']", "\ue014")  # the arrow to the right
    bet = fox.call(f"() => document.querySelector('{GAME}').game.mine")
    assert bet[4] > 0.1 and sum(bet) == pytest.approx(1)
    fox.press(".bw-go")
    pair = fox.call(f"() => ({PAIR})(document.querySelector('{GAME}'))")
    found = fox.call(f"() => ({{...document.querySelector('{GAME}').dataset}})")
    wanted = scores(*pair, bet)
    assert {who: float(found[f"{who}Bits"]) for who in wanted} == pytest.approx(wanted, abs=TOLERANCE)
    assert fox.text(".bw-say").startswith("Bits wasted")
    assert fox.call("() => window.complaints") == []


@pytest.mark.parametrize("page", ["book/intro.html", "book/playground.html"])
def test_nothing_sticks_out_at_any_width(fox, page):
    fox.open(page)
    fox.wait("document.fonts.status === 'loaded'")
    found = {}
    for width in WIDTHS:
        fox.size(width)
        found |= {width: fox.call(OVERFLOW)}
    assert {width: words for width, words in found.items() if words} == {}


def test_the_playground_shows_what_the_library_says(fox):
    fox.open("book/playground.html")
    fox.run(f"document.querySelector('{PLAYGROUND}').scrollIntoView()")
    fox.wait(f"document.querySelector('{PLAYGROUND} [data-action=next]')")
    before = fox.call(f"() => document.querySelector('{PLAYGROUND}').playground.play.shown")
    fox.press(f"{PLAYGROUND} [data-action=next]")
    fox.call(FRAMES, 10)
    assert fox.call(f"() => document.querySelector('{PLAYGROUND}').playground.play.shown") == before + 1
    shown = fox.call(f"() => ({EPISODE})(document.querySelector('{PLAYGROUND}'))")
    truth, inputs = truth_and_inputs(shown)
    wanted = measured(truth, bw.load(poster.NETWORK).predict(inputs)[0])
    found = fox.call(f"() => ({{...document.querySelector('{PLAYGROUND}').dataset}})")
    assert {name: float(found[name]) for name in wanted} == pytest.approx(wanted, abs=TOLERANCE)
    assert fox.call("() => window.complaints") == []


@pytest.mark.parametrize("width", [390, 1440])
def test_formulas_are_whole(fox, width):
    """Every formula of a chapter full of them is drawn in its font, and none reads as complete where it is cut."""
    fox.open("chapters/01_bayesian.html", width)
    fox.wait("document.fonts.status === 'loaded'")
    assert fox.call(RENDERED) == ""
    assert [words for words in fox.call(CUT) if "formula" in words] == []


def test_a_formula_that_is_cut_is_noticed(fox):
    fox.open("chapters/01_bayesian.html", 390)
    fox.call("() => { const style = document.createElement('style'); document.head.append(style);"
             "style.textContent = '.bw-set { font-size: 2.4rem !important } .bw-wide { mask-image: none !important }'; }")  # fmt: skip
    fox.call(FRAMES, 10)
    assert [words for words in fox.call(CUT) if words.startswith("a formula goes on without a sign")]

"""The landing page: the game by mouse, finger and keyboard, its scores against the library's, the story that
one scrolls past, the map of the chapters, and how it stands without scripts, without a network and on a phone.
"""

from __future__ import annotations

import json
import re
import sys

import pytest
import torch
from _support import ROOT
from _support_browser import AXE, OVERFLOW, SCHEMES, Reader, frames, middle, swipe
from _support_explorer import number

import bayeswind_lib as bw
from bayeswind_lib.ledger import pictures
from bayeswind_lib.widgets import landing, poster
from bayeswind_lib.widgets.hmm import draw_chain

from tools import weights

sys.path.append(str(ROOT / "book/_ext"))
import bayeswind_landing as pages  # noqa: E402

pytestmark = pytest.mark.xdist_group("browser")
PAGE = "book/intro.html"
GAME = ".bw-game"
TOLERANCE = 2e-5  # single precision there, double here
LIMIT = 900_000  # bytes of the page with both networks, compressed
WIDTHS = (320, 390, 768, 1024, 1180, 1440, 1920)
MINE = "root => root.game.mine"
PAIR = "root => [root.game.play.asked, root.game.play.asked.map(k => root.game.play.map[k]), root.game.play.shown]"


class Visit:
    """The landing page in a window, and its game."""

    def __init__(self, browser, home, width=1280, height=800, scheme="light", **settings):
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **settings)
        self.page = self.context.new_page()
        self.troubles = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.goto(home.rstrip("/") + "/" + PAGE)
        self.game = self.page.locator(GAME)
        if settings.get("java_script_enabled", True):
            self.page.wait_for_selector("section.bw-alive")  # the story begins after the game

    def network(self):
        """Wait until the network is here."""
        self.page.wait_for_selector(f"{GAME}[data-network=here]")
        return self

    def press(self, what: str = "go"):
        self.page.locator(f".bw-{what}").click()

    def bar(self, value: int):
        return self.page.locator(f".bw-bet[data-value='{value}']")

    def shares(self) -> list[float]:
        return self.game.evaluate(MINE)

    def data(self) -> dict:
        return self.game.evaluate("root => ({...root.dataset})")

    def say(self) -> str:
        return self.page.locator(".bw-say").inner_text()

    def bet(self, numbers: list[float]):
        """Put the bars somewhere, all at once."""
        self.game.evaluate("(root, bet) => { root.game.mine = bet; root.game.draw(); }", numbers)


@pytest.fixture
def visit(browser, home):
    """A fresh window on the page."""
    window = Visit(browser, home)
    yield window
    assert window.troubles == []
    window.context.close()


def place(bar, share: float) -> tuple[float, float]:
    """Where a bar ends that is so long, in the window."""
    box = bar.locator(".bw-track").bounding_box()
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


# ---- the game -----------------------------------------------------------------------------------


def test_dragging_a_bar_leaves_the_others_in_proportion(visit):
    visit.bet([0.02, 0.06, 0.02, 0.1, 0.1, 0.3, 0.1, 0.1, 0.1, 0.1])
    mouse = visit.page.mouse
    mouse.move(*place(visit.bar(5), 0.3))
    mouse.down()
    for share in (0.5, 1.4, 0.65):  # over the end and back: nothing is forgotten
        mouse.move(*place(visit.bar(5), share))
    mouse.up()
    after = visit.shares()
    assert sum(after) == pytest.approx(1) and after[5] == pytest.approx(0.65)
    assert [q / after[1] for q in after[:4]] == pytest.approx([1 / 3, 1, 1 / 3, 5 / 3])
    assert visit.bar(5).locator(".bw-share").inner_text() == "65%"
    mouse.move(*place(visit.bar(3), 0.9))
    assert visit.shares() == after  # nothing is held any more


def test_the_last_bar_shares_out_evenly(visit):
    visit.bet([0, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    visit.page.mouse.click(*place(visit.bar(3), 0.1))
    assert visit.shares() == pytest.approx([0.1] * 10)
    visit.page.mouse.click(*place(visit.bar(3), 0.001))
    assert visit.shares()[3] == 0 and sum(visit.shares()) == pytest.approx(1)


def test_the_keyboard_plays_a_whole_round(visit):
    visit.bar(2).focus()
    for key in ("Home", "ArrowUp", "ArrowRight", "ArrowLeft", "PageUp"):
        visit.page.keyboard.press(key)
    assert visit.shares()[2] == pytest.approx(0.11) and sum(visit.shares()) == pytest.approx(1)
    told = visit.bar(2).evaluate("e => [e.role, e.ariaValueNow, e.ariaValueText, e.ariaLabel]")
    assert told[:3] == ["slider", "11", "11 percent"] and told[3].startswith("Value 2")
    visit.page.keyboard.press("End")
    assert visit.shares()[2] == 1
    visit.page.locator(".bw-go").focus()
    visit.page.keyboard.press("Enter")
    assert visit.data()["rounds"] == "1"
    visit.bar(2).focus()
    visit.page.keyboard.press("ArrowDown")
    assert visit.shares()[2] == 1  # a bet that was scored stands
    visit.page.locator(".bw-go").focus()
    visit.page.keyboard.press("Enter")
    assert visit.data()["shown"] == str(landing.SHOWN + 1)


def test_a_finger_moves_a_bar_sideways_and_the_page_up_and_down(browser, home):
    window = Visit(browser, home, 390, 660, has_touch=True, is_mobile=True)
    start = place(window.bar(4), 0.1)
    swipe(window.page, start, (90, 4))
    moved = window.shares()
    assert moved[4] > 0.3 and sum(moved) == pytest.approx(1)
    swipe(window.page, middle(window.bar(6)), (3, -200))
    assert window.shares() == moved and window.page.evaluate("scrollY") > 60
    window.page.evaluate("scrollTo(0, 0)")
    window.page.touchscreen.tap(*place(window.bar(1), 0.5))
    assert window.shares()[1] == pytest.approx(0.5, abs=0.02)
    assert window.troubles == []
    window.context.close()


def scores(keys, values, shown: int, bet: list[float]) -> dict[str, float]:
    """Divergence of a bet and of the network from the exact posterior, bits, straight from the library."""
    episode = bw.tunnels.Bijection(len(keys)).episodes(torch.tensor([keys]), torch.tensor([values]))
    exact, said = episode.posterior[0], bw.load(landing.NETWORK).predict(episode.inputs)[0].double()
    mine = torch.tensor(bet, dtype=torch.float64)
    counted = torch.where(exact[shown] > 0, mine.clamp(min=landing.FLOOR), mine)
    return {
        "you": float(bw.scoring.kl_bits(exact[shown], counted.log2())),
        "network": float(bw.scoring.kl_bits(exact, said)[shown]), "exact": 0.0,
    }  # fmt: skip


BETS = (
    [0.1] * 10, [0.05, 0.4, 0.1, 0.05, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05], [0, 0.5, 0, 0, 0.5, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
)  # fmt: skip


@pytest.mark.parametrize("seed", [landing.SEED, 31])
def test_scores_are_the_library_s(visit, seed):
    visit.network().game.evaluate("(root, seed) => root.game.begin(seed)", seed)
    sums = {"you": 0.0, "network": 0.0}
    for n, bet in enumerate(BETS, 1):
        visit.bet(bet)
        visit.press()
        wanted = scores(*visit.game.evaluate(PAIR), bet)
        found = visit.data()
        assert {who: float(found[f"{who}Bits"]) for who in wanted} == pytest.approx(wanted, abs=TOLERANCE)
        for who in sums:
            sums[who] += wanted[who]
            mean = visit.page.locator(f"[data-mean={who}]").inner_text()
            assert mean == "average " + visit.page.evaluate("bwExplorer.number", sums[who] / n)
        visit.press()


def test_a_perfect_bet_wastes_nothing_and_the_network_almost_nothing(visit):
    visit.network()
    for _ in range(10 - landing.SHOWN):
        visit.bet(visit.game.evaluate("root => root.game.exact"))
        visit.press()
        assert float(visit.data()["youBits"]) == 0 and 0 <= float(visit.data()["networkBits"]) < 0.05
        visit.press()
    assert visit.data()["seed"] == str(landing.SEED + 1)  # "Play again" began another game


@pytest.mark.parametrize(("found", "words"), [(True, "You found it"), (False, "Look at the threads")])
def test_after_three_rounds_a_line_names_what_there_was_to_find(visit, found, words):
    visit.network()
    for n in range(3):
        visit.bet(visit.game.evaluate("root => root.game.exact") if found else [0.1] * 10)
        assert words not in visit.say()
        visit.press()
        if n < 2:
            visit.press()
    assert visit.say().startswith(words) and "never comes back" in visit.say()


def test_a_bet_of_nothing_is_not_infinitely_bad(visit):
    value = visit.game.evaluate("root => root.game.exact.findIndex(p => p > 0)")
    visit.bet([float(v == value) for v in range(10)])
    visit.press()
    assert 3 < float(visit.data()["youBits"]) < 10 and "1 in 1,000" in visit.say()


def test_a_game_is_its_seed(visit):
    told = visit.game.evaluate(PAIR)
    assert told == [poster.example(landing.SEED, network=landing.NETWORK).keys, poster.example(landing.SEED, network=landing.NETWORK).values, landing.SHOWN]
    visit.press()
    visit.press("new")
    assert visit.data()["rounds"] == "0" and visit.data()["seed"] == str(landing.SEED + 1)
    assert visit.shares() == pytest.approx([0.1] * 10) and visit.game.evaluate(PAIR) != told
    visit.game.evaluate("(root, seed) => root.game.begin(seed)", landing.SEED)
    assert visit.game.evaluate(PAIR) == told


def test_scripts_take_over_where_the_page_stands(browser, home):
    """Before and after: the same question, pairs, bars and size, so nothing jumps."""
    seen = []
    for scripts in (False, True):
        window = Visit(browser, home, 390, 660, java_script_enabled=scripts)
        texts = {what: window.page.locator(what).all_inner_texts() for what in (".bw-question", ".bw-share", ".bw-say", ".bw-count")}
        box = window.game.bounding_box()
        known = [path.get_attribute("d") for path in window.page.locator(".bw-known").all()]
        seen.append((texts, known, {k: round(v, 1) for k, v in box.items()}))
        window.context.close()
    assert seen[0] == seen[1] and len(seen[0][1]) == landing.SHOWN


def test_the_network_may_come_late_or_not_at_all(browser, home):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.route("**/networks/*", lambda route: route.abort())
    page.goto(home.rstrip("/") + "/" + PAGE)
    page.wait_for_selector(f"{GAME}[data-network=failed]")
    page.locator(".bw-go").click()
    assert "could not be fetched" in page.locator(".bw-say").inner_text()
    assert float(page.locator(GAME).get_attribute("data-you-bits")) > 0  # one plays on without it
    page.unroute("**/networks/*")
    page.locator(".bw-go").click()
    page.locator(".bw-go").click()  # a reveal tries again
    page.wait_for_selector(f"{GAME}[data-network=here]")
    assert page.locator("[data-mean=network]").inner_text().startswith("average")
    scored = page.locator(GAME).evaluate("root => root.game.rounds.map(round => typeof round.network)")
    assert scored == ["number", "number"]  # the first round too
    context.close()


# ---- the story ----------------------------------------------------------------------------------


STEP = """i => { const step = document.querySelectorAll('.bw-step')[i].getBoundingClientRect();
  scrollTo({top: scrollY + step.top + step.height / 2 - innerHeight * .6, behavior: 'instant'}); }"""


def read_step(page, i: int) -> None:
    page.evaluate(STEP, i)
    page.wait_for_selector(f'[data-step="{i}"]')


def picture(page, scene: str, what: str):
    return json.loads(page.locator(f"figure[data-scene={scene}]").get_attribute(f"data-{what}"))


def pointed(page, scene: str, share: float) -> list[str]:
    """What stands under the pointer at a share of a picture's axis, which frame() sets off by 46 and 12 pixels."""
    box = page.locator(f"[data-scene={scene}] .bw-picture").bounding_box()
    page.mouse.move(box["x"] + 46 + (box["width"] - 58) * share, box["y"] + 80)
    return page.locator(f"[data-scene={scene}] .bw-readout-box text").all_text_contents()


def test_the_staircase_is_the_library_s_with_attention_and_without(browser, home):
    window = Visit(browser, home, reduced_motion="reduce").network()
    now = poster.example(landing.SEED, network=landing.NETWORK)
    exact, said = now.entropies().values()
    read_step(window.page, 0)
    assert picture(window.page, "stairs", "exact") == pytest.approx(exact.tolist(), abs=1e-9)
    assert picture(window.page, "stairs", "network") is None
    for step, wanted in ((1, said), (2, landing.without_attention(now.keys, now.values))):
        read_step(window.page, step)
        assert picture(window.page, "stairs", "network") == pytest.approx(wanted.tolist(), abs=2e-4)
    button = window.page.locator("[data-scene=stairs] button")
    button.click()
    assert picture(window.page, "stairs", "network") == pytest.approx(said.tolist(), abs=2e-4)
    assert pointed(window.page, "stairs", 0.35) == ["after 3 pairs", *(f"{who} {number(picture(window.page, 'stairs', who)[3])}" for who in ("exact", "network"))]
    assert button.inner_text() == "Attention is on" and window.troubles == []
    window.context.close()


def test_the_story_tells_of_the_game_just_played(visit):
    visit.network()
    visit.press("new")
    visit.bet([0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0])
    visit.press()
    read_step(visit.page, 1)
    assert visit.page.locator(".bw-s-you").count() == 1
    keys, values, _ = visit.game.evaluate(PAIR)
    episode = bw.tunnels.Bijection(10).episodes(torch.tensor([keys]), torch.tensor([values]))
    wanted = bw.scoring.entropy_bits(bw.load(landing.NETWORK).predict(episode.inputs)[0].double())
    visit.page.wait_for_function("wanted => Math.abs((JSON.parse(document.querySelector('[data-scene=stairs]').dataset.network) ?? []).at(-2) - wanted) < 1e-3", arg=float(wanted[-2]))


def test_the_belief_about_the_chain_is_the_library_s(browser, home):
    window = Visit(browser, home, reduced_motion="reduce")
    exact, said = landing.filtered(draw_chain(landing.CHAIN_SEED, landing.KAPPA, landing.LEAST))
    read_step(window.page, 3)
    found = torch.tensor(picture(window.page, "chain", "exact"))
    assert torch.allclose(found, torch.from_numpy(exact).to(found), atol=1e-6)
    read_step(window.page, 4)
    window.page.wait_for_selector("[data-scene=chain][data-network=here]")
    found = torch.tensor(picture(window.page, "chain", "said"))
    assert torch.allclose(found, torch.from_numpy(said).to(found), atol=1e-4)
    rows = [picture(window.page, "chain", who)[9] for who in ("exact", "said")]
    assert pointed(window.page, "chain", 9.5 / 20) == ["after 10 signs", *(f"{name} {number(p)}, network {number(q)}" for name, p, q in zip("ABC", *rows, strict=True))]
    slider = window.page.locator("[data-scene=chain] input")
    slider.focus()
    window.page.keyboard.press("Home")
    assert window.page.locator("[data-scene=chain]").get_attribute("data-shown") == "1"
    window.context.close()


def test_who_wants_no_movement_gets_none(browser, home):
    window = Visit(browser, home, reduced_motion="reduce").network()
    read_step(window.page, 4)
    assert window.page.locator("[data-scene=chain]").get_attribute("data-shown") == "20"  # at once, and it stays
    assert window.page.evaluate("document.getAnimations().length") == 0
    window.context.close()


def test_one_picture_stands_beside_each_step(visit):
    for step, scene in ((0, "stairs"), (2, "stairs"), (3, "chain"), (4, "chain")):
        read_step(visit.page, step)
        box = visit.page.locator(f"figure[data-scene={scene}]").bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800
        seen = [f.get_attribute("data-scene") for f in visit.page.locator(".bw-scenes figure").all() if f.is_visible()]
        assert seen == [scene]


# ---- the page -----------------------------------------------------------------------------------


INSIDE = """what => [...document.querySelectorAll(what)].filter(e => e.checkVisibility()).map(e => {
  const {top, bottom, left, right} = e.getBoundingClientRect();
  return top >= 0 && left >= 0 && bottom <= innerHeight + 1 && right <= document.documentElement.clientWidth + 1 ? '' : `${e.className} ${top} ${bottom}`;
}).filter(Boolean)"""


@pytest.mark.parametrize("size", [(390, 660), (1280, 800)])
def test_the_sentence_and_the_game_are_the_first_thing_one_sees(browser, home, size):
    window = Visit(browser, home, *size)
    assert window.page.locator(".bw-bet").count() == 10
    assert window.page.evaluate(INSIDE, ".bw-lead, .bw-question, .bw-go, .bw-bet, .bw-threads, .bw-say") == []
    window.network().press()
    assert window.page.evaluate(INSIDE, ".bw-question, .bw-go, .bw-bet, .bw-scores dd") == []
    window.context.close()


def test_what_is_pressed_on_a_phone_is_large_enough(browser, home):
    window = Visit(browser, home, 390, 660)
    small = window.page.evaluate("""() => [...document.querySelectorAll('main button, main .bw-bet, .bw-icon, .bw-chip, .bw-colab')]
      .filter(e => e.checkVisibility()).map(e => [e.className, e.getBoundingClientRect()]).filter(([, b]) => b.width < 39.5 || b.height < 39.5)
      .map(([name, b]) => `${name} ${b.width} ${b.height}`)""")
    assert small == []
    window.context.close()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out(browser, home, width):
    window = Visit(browser, home, width, 800).network()
    assert window.game.bounding_box()["width"] > min(width - 50, 470)  # nor is it squeezed
    for _ in range(2):
        assert window.page.evaluate(OVERFLOW) == []
        window.press()
    read_step(window.page, 4)
    assert window.page.evaluate(OVERFLOW) == []
    window.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing(browser, home, scheme):
    from axe_playwright_python.base import AXE_SCRIPT

    for size in ((1280, 800), (390, 660)):
        window = Visit(browser, home, *size, scheme, reduced_motion="reduce").network()
        window.page.evaluate(AXE_SCRIPT)
        window.press()
        read_step(window.page, 4)
        plan = {"structure": True, "layout": True, "colour": True, "frame": True, "kinds": []}
        assert window.page.evaluate(AXE, plan)["found"] == []
        window.context.close()


def test_it_plays_from_a_folder(browser, site):
    reader = Reader(browser, site.as_uri())
    seen = reader.open(PAGE)
    reader.page.wait_for_selector(f"{GAME}[data-network=here]")
    reader.page.locator(".bw-go").click()
    assert float(reader.page.locator(GAME).evaluate("root => root.game.rounds[0].network")) < 0.05
    assert not seen.troubles
    reader.close()


def test_the_page_with_both_networks_is_light(browser, compressing_home):
    row = weights.weigh(browser, compressing_home, "book/intro")
    small, large = (len(bw.checkpoints.content(f"{name}-seed0")) for name in (landing.NETWORK, landing.CHAIN))
    assert small < large / 4 and row["networks"] > small + large  # both came
    assert row["compressed"] + row["networks"] <= LIMIT


def test_the_switch_of_colours_holds_on_other_pages(visit, home):
    visit.page.locator(".bw-theme").click()
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
    visit.page.goto(home.rstrip("/") + "/book/references.html")
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
    visit.page.goto(home.rstrip("/") + "/" + PAGE)
    assert visit.page.evaluate("document.documentElement.dataset.theme") == "dark"
    visit.troubles.clear()  # the other page is not looked at here


def test_without_scripts_everything_can_be_read(browser, home):
    window = Visit(browser, home, java_script_enabled=False)
    page = window.page
    assert [step for step in page.locator(".bw-step").all() if not step.is_visible()] == []
    drawn = [svg.get_attribute("aria-label") for svg in page.locator(".bw-scenes svg").all() if svg.is_visible()]
    assert len(drawn) == 2 and "attention off" in drawn[0] and "hidden states" in drawn[1]
    assert page.locator(".bw-claim svg").count() == 4 and page.locator(".bw-chapter").count() == len(pages.Book(ROOT).chapters)
    assert page.locator("#pst-primary-sidebar, .bd-sidebar-primary").count() == 0
    window.context.close()


# ---- claims and chapters ------------------------------------------------------------------------


def test_claims_say_what_the_ledger_says(site):
    text = re.sub("<[^>]+>", "", (site / PAGE).read_text("utf-8"))
    for name, words in (
        ("bijection-transformer-v1", "off by {:.2g} bits on average"), ("em-speed-up", "updates: {:.2g} times as fast if plain training is charged"),
        ("hmm-no-discontinuity", "the error of ours with learned positions is {:.2g} times as large"),
    ):  # fmt: skip
        assert words.format(bw.ledger.row(name)["measured"]) in text
    for status, n in bw.ledger.counts(kinds=("paper",)).items():
        assert not n or f"{n} {status.replace('needs', 'need') if n > 1 else status}" in text
    verdicts = re.findall(r'<b class="bw-verdict">(.*?)</b>', (site / PAGE).read_text("utf-8"))
    wanted = [bw.ledger.row(n)["status"] for n in ("bijection-transformer-v1", "em-speed-up", "hmm-no-discontinuity", "primitives-others")]
    assert verdicts == [pictures.HELD[status] for status in wanted]


def test_each_claim_s_picture_answers(visit):
    """The page's network is measured as the library measures it; updates, steps and abilities are those of the records."""
    page, asked = visit.page, visit.page.locator(".bw-reply")
    page.wait_for_function("document.querySelector('.bw-game').game.network")
    inside = number(bw.ledger.row("hmm-k20-inside")["measured"])
    assert asked.all_inner_texts() == ["", "All updates are shown: drag back.", f"Step 20, as in training: {inside} bits off.", ""]
    page.get_by_role("button", name="Measure the game's network").click()
    here = float(asked.nth(0).inner_text().split("off by ")[1].split()[0])
    stored = bw.load(landing.NETWORK).record["scores"]["entropy_mae"]
    assert here == pytest.approx(stored, rel=0.2)
    dot = page.locator(".bw-p-now").first.get_attribute("cx")
    page.get_by_role("button", name="Measure the game's network").click()
    assert page.locator(".bw-p-now").first.get_attribute("cx") != dot  # other episodes

    plain, faster = (bw.ledger.row(name)["measured"] for name in ("em-plain-steps", "em-steps"))
    for now, words in ((faster - 10, "still learning, the plain one is still"), (faster + 10, "is there, the plain one is still"), (plain + 10, "is there, the plain one is there")):
        page.get_by_label("Updates so far").fill(str(round(now, -1)))
        assert words in asked.nth(1).inner_text()
    page.get_by_label("Step of the sequence").fill("21")
    times = bw.ledger.row("hmm-jump-k50-t21")["measured"] / bw.ledger.row("hmm-k20-inside")["measured"]
    assert f"Step 21: {number(bw.ledger.row('hmm-jump-k50-t21')['measured'])} bits off, {times:.0f} times" in asked.nth(2).inner_text()
    page.get_by_role("button", name="look up").click()
    seeds = bw.ledger.record("primitives")["seeds"]
    told = [f"{name} learned it in {seeds[key]['bind']['realised']} of {seeds[key]['bind']['n']}" for name, key in (("LSTM", "lstm"), ("Mamba", "mamba"))]
    assert asked.nth(3).inner_text() == f"To look up: {', '.join(told)} trainings."
    assert page.locator(".bw-p-ring").first.get_attribute("cx") == page.locator(".bw-claim").nth(3).locator(".bw-p-here").nth(2).get_attribute("cx")


def test_every_status_has_a_colour_of_its_own(visit):
    colours = visit.page.evaluate("[...document.querySelectorAll('.bw-tally-bar i')].map(e => getComputedStyle(e).backgroundColor)")
    known = [status for status, n in bw.ledger.counts(kinds=("paper",)).items() if n]
    assert len(set(colours)) == len(known) and "rgba(0, 0, 0, 0)" not in colours


def test_the_map_has_every_chapter_with_what_it_needs(site):
    book, text = pages.Book(ROOT), (site / PAGE).read_text("utf-8")
    assert re.findall(r'id="map-(\d+)"', text) == [str(n + 1) for n in range(len(book.chapters))]
    for n, chapter in enumerate(book.chapters, 1):
        card = re.search(rf'<li class="bw-chapter" id="map-{n}".*?</li>', text, re.S)[0]
        reading, exercises = book.minutes(chapter)
        assert f"../{chapter}.html" in card and f"{reading} + {exercises} min" in card and f"{chapter}.ipynb" in card
        assert re.findall(r'href="#map-(\d+)"', card) == [str(book.number(c)) for c in book.needs[chapter]]
        assert all(book.number(c) < n for c in book.needs[chapter]), "a chapter needs a later one"
    assert [len(needs) > 0 for needs in book.needs.values()] == [False, *[True] * (len(book.chapters) - 1)]


def test_what_a_chapter_needs_is_read_from_its_sentence():
    texts = {
        "chapters/01_a": "(ch-a)=\n# A\n\n```{prf:theorem}\n:label: thm-a\n```\n",
        "chapters/02_b": "(ch-b)=\n# B\n\nYou need {numref}`Chapter %s <ch-a>` and\nmore.\n\nLater {numref}`Chapter %s <ch-c>`.\n",
        "chapters/03_c": "(ch-c)=\n# C\n\nYou need {prf:ref}`thm-a` and {doc}`02_b`.\n",
    }
    homes = pages.homes_of(texts)
    assert [pages.needs_of(text, homes) for text in texts.values()] == [[], ["chapters/01_a"], ["chapters/01_a", "chapters/02_b"]]


def test_a_card_shows_what_comes_before_and_after(visit):
    visit.page.locator("#map-3 h4 a").focus()
    book = pages.Book(ROOT)
    before = [f"map-{book.number(c)}" for c in book.needs[book.chapters[2]]]
    assert visit.page.evaluate("[...document.querySelectorAll('.bw-before')].map(e => e.id)") == before
    after = [f"map-{book.number(c)}" for c, needs in book.needs.items() if book.chapters[2] in needs]
    assert visit.page.evaluate("[...document.querySelectorAll('.bw-after')].map(e => e.id)") == after != []
    frames(visit.page, 2)


def test_every_chapter_has_a_drawing_of_its_own():
    from thumbnails import DRAWINGS, thumbnail

    drawn = [thumbnail(n + 1) for n in range(len(DRAWINGS))]
    assert len(DRAWINGS) == len(pages.Book(ROOT).chapters) == len(set(drawn))
    assert all('aria-hidden="true"' in svg for svg in drawn)

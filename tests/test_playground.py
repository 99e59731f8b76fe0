"""The playground in headless Chromium: what it shows after clicks and drags is what the library computes."""

from __future__ import annotations

import re

import numpy as np
import pytest
import test_sight as sight
import torch
from _support import STUCK
from _support_browser import AXE, OVERFLOW, frames, middle, served, swipe
from _support_explorer import FOCUS, number
from test_explorers import CROWDED
from _support_playground import EPISODE, RESET, entries, files, measured, networks, truth_and_inputs, write_page

import bayeswind_lib as bw
from bayeswind_lib import probes
from bayeswind_lib.widgets import landing

pytestmark = pytest.mark.xdist_group("browser")
NETWORK, ORACLE = 2e-5, 1e-9  # bits: single precision in both, double precision in both
STEP = 0.05  # seconds that one more pair may take
HOST = "document.querySelector('.bw-explorer').playground"
RIVALS = dict.fromkeys(["bijection", "hmm", "regression"], ["mlp", "lstm", "mamba"]) | {"recall": ["transformer", "lstm", "mamba"]}


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """The page, opened once from a folder with every network; what it asked for or complained of fails."""
    folder, troubles = tmp_path_factory.mktemp("playground"), []
    place = write_page(folder, [entry["file"] for entry in entries()])
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(STUCK * 1000)
    page.on("request", lambda request: request.url.startswith(folder.as_uri()) or troubles.append(request.url))
    page.on("pageerror", lambda error: troubles.append(f"{error.stack}"))
    page.on("console", lambda message: troubles.append(message.text))
    page.goto(place.as_uri())
    page.locator(".bw-measures").wait_for()
    yield page
    context.close()
    assert not troubles, troubles


@pytest.fixture
def page(opened):
    """The page as it starts: bijection, five pairs of episode 0 shown, everything on."""
    opened.set_viewport_size({"width": 1280, "height": 900})
    opened.evaluate(RESET)
    return opened


@pytest.fixture
def chain(page):
    """The page with the hidden chain."""
    page.get_by_label("hidden chain (HMM)").check()
    page.wait_for_function("document.querySelector('.bw-explorer').dataset.task === 'hmm'")
    page.evaluate("document.querySelector('.bw-explorer').playground.fresh(0, 5)")
    return page


def root(page):
    return page.locator(".bw-explorer[data-explorer=playground]")


def shown(page) -> dict:
    """The numbers of the page."""
    data = root(page).evaluate("root => ({...root.dataset})")
    return {name: float(data[name]) for name in ("exact", "network", "kl", "tv")}


def compare(page, model, comes_back: bool = False) -> dict:
    """The page's numbers, each checked against the library's; returns the library's."""
    truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE), comes_back)
    gaussian = root(page).get_attribute("data-task") == "regression"
    found, said = measured(truth, model.predict(inputs)[0], gaussian), shown(page)
    assert said["exact"] == pytest.approx(found["exact"], abs=ORACLE)
    for name in ("network", "kl", "tv"):
        assert said[name] == pytest.approx(found[name], abs=NETWORK * max(1, found[name])), name
    return found


def press(page, name: str) -> None:
    page.locator(f"[data-action={name}]").first.click()


def told(page) -> dict[str, str]:
    """The four measures in words."""
    return root(page).evaluate("root => Object.fromEntries([...root.querySelectorAll('dd')].map(e => [e.dataset.measure, e.textContent]))")


# ---- the episode -----------------------------------------------------------------------------------


def test_an_episode_is_built_by_clicks(page):
    """Keys, values, next, back, undo, another seed: numbers, bars and words are the library's each time."""
    model = bw.load("bijection-transformer-classroom")
    for action in ("restart", "next", "key 6", "value", "key 2", "value", "next", "next", "back", "undo", "random", "next", "value"):
        before = root(page).evaluate(EPISODE)
        if action == "value":
            page.locator("[data-chip^=value]:enabled").last.click()
        elif action.startswith("key"):
            page.locator(f"[data-chip='{action}']").click()
        else:
            press(page, action)
        assert root(page).evaluate(EPISODE) != before, action
        found = compare(page, model)
        assert float(told(page)["exact"].split()[0].lstrip("<")) == pytest.approx(found["exact"], abs=6e-4)
        assert float(told(page)["variation"].lstrip("<")) == pytest.approx(found["tv"], abs=6e-4)
    episode = root(page).evaluate(EPISODE)
    heights = root(page).evaluate("""root => { const part = root.querySelector('[data-part=answer]');
      const bars = kind => [...part.querySelectorAll('.bw-bar.' + kind)].map(e => parseFloat(e.style.height));
      return [bars('bw-first'), bars('bw-exact')]; }""")
    truth, inputs = truth_and_inputs(episode)
    rows = [model.predict(inputs)[0, -1].exp2(), truth[-1]]
    scale = heights[1][int(truth[-1].argmax())] / float(truth[-1].max())
    np.testing.assert_allclose(np.array(heights) / scale, torch.stack([row.double() for row in rows]), atol=2e-5)


def test_a_click_on_a_bar_gives_its_value(page):
    value = page.evaluate("document.querySelector('.bw-explorer').playground.seen.exact[5].findLastIndex(p => p > 0)")
    page.locator("[data-part=answer] .bw-area").nth(value).click()
    assert root(page).evaluate("root => root.playground.play.pairs[5][1]") == value
    assert root(page).get_attribute("data-shown") == "6"


def test_the_answer_before_stands_behind_the_new_one_and_never_under_a_bet(page):
    def bars(of: str) -> list[str]:
        return page.evaluate("of => [...document.querySelector('.bw-explorer').playground.answer.field.querySelectorAll(of)].map(e => e.getAttribute('x') + e.style.cssText)", of)

    before = bars(".bw-first")
    press(page, "next")
    assert bars(".bw-was-here") == before != bars(".bw-first")
    bet_first(page)
    assert bars(".bw-was-here") == []
    page.locator("[data-action=reveal]").click()
    assert bars(".bw-was-here") == []


def test_a_seed_repeats_an_episode(page):
    first = root(page).evaluate(EPISODE)
    for seed in ("17", "0"):
        page.locator("[data-control=seed]").fill(seed)
        page.locator("[data-control=seed]").blur()
    press(page, "undo")
    press(page, "undo")
    assert root(page).evaluate(EPISODE) == first


def test_a_key_that_comes_back_is_a_surprise(page):
    """The truth is certain; the network, which never met that, is wrong, and one that did meet it is right."""
    page.locator("[data-control=again]").check()
    for action in ("next", "next", "next"):
        press(page, action)
    page.locator(".bw-asked").first.click()
    found = compare(page, bw.load("bijection-transformer-classroom"), comes_back=True)
    assert found["exact"] == 0 and found["kl"] > 5
    assert "never" not in told(page) and "no key ever came back" in page.locator("[data-part=answer] .bw-status").text_content()
    page.locator("[data-part=compare] summary").click()
    name = files()["bijection"]["returning"]["name"]
    page.locator(f"[data-network='{name}']").wait_for()  # it is fetched when it is wanted
    table = compared(page)
    truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE), comes_back=True)
    learned = bw.load("bijection-transformer-classroom-replacement-convolution")
    assert table[name]["kl"] == pytest.approx(measured(truth, learned.predict(inputs)[0])["kl"], abs=6e-4)
    assert table[name]["kl"] < 0.1 < table["transformer"]["kl"]


def test_the_published_network_and_its_step(page, report_seconds):
    """20 keys, 2.7 million parameters: the numbers of the library, and a step (drawn and laid out) in time."""
    label = page.get_by_label(re.compile("20 keys"))
    megabytes = bw.checkpoints.path_of("bijection-transformer").stat().st_size / 1e6
    assert f"{megabytes:.1f} MB" in page.locator("label", has=label).text_content()
    label.check()
    page.wait_for_function("document.querySelector('.bw-explorer').dataset.size === 'published'")
    press(page, "next")
    compare(page, bw.load("bijection-transformer"))
    found = min(seconds_of_a_step(page) for _ in range(3))  # caches are shared with whatever else runs
    report_seconds(f"a step of the published network, 31 to 39 tokens, drawn and laid out: {1000 * found:.0f} ms", found, STEP)
    assert found <= STEP


def seconds_of_a_step(page) -> float:
    """What the page's own thread works at one more pair, mean of the last five; not what others do meanwhile."""
    watch = page.context.new_cdp_session(page)
    watch.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked() -> float:
        metrics = watch.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    page.evaluate("document.querySelector('.bw-explorer').playground.fresh(2, 14)")
    page.emulate_media(reduced_motion="reduce")  # the bars' movement afterwards is no part of the step
    before = worked()
    page.evaluate("""() => { const next = document.querySelector('[data-action=next]');
      for (let i = 0; i < 5; i++) { next.click(); document.body.offsetHeight; } }""")
    assert root(page).get_attribute("data-shown") == "19"
    took = (worked() - before) / 5
    watch.detach()
    page.emulate_media(reduced_motion="no-preference")
    return took


# ---- the chain -------------------------------------------------------------------------------------


def test_a_chain_is_built_by_clicks_drags_and_keys(chain):
    model = bw.load("hmm-transformer-classroom")
    compare(chain, model)
    seen = set()
    for action in ("symbol 2", "symbol 0", "next", "back", "undo", "restart", "symbol 1", "random"):
        spot = f"[data-chip='{action}']" if action.startswith("symbol") else f"[data-action={action}]"
        chain.locator(spot).first.click()
        compare(chain, model)
        seen.add(str(root(chain).evaluate(EPISODE)))
    assert len(seen) == 6  # back and undo lead to what was there
    chain.evaluate("document.querySelector('.bw-explorer').playground.fresh(0, 5)")  # no border at its end, where it would stay
    for name, key in (("T 0 0", "ArrowRight"), ("E 2 1", "PageDown"), ("T 1 0", "End"), ("T 2 0", "Home")):
        border = chain.locator(f"[data-border='{name}']")
        before = border.get_attribute("aria-valuetext")
        border.focus()
        chain.keyboard.press(key)
        assert border.get_attribute("aria-valuetext") != before
        compare(chain, model)
        assert border.get_attribute("aria-valuenow") is not None and border.evaluate("e => e === document.activeElement")
    episode = root(chain).evaluate(EPISODE)
    for row in episode["T"] + episode["E"]:
        assert sum(row) == pytest.approx(1, abs=1e-12) and min(row) >= 0.05


def test_a_border_is_dragged(chain):
    model, border = bw.load("hmm-transformer-classroom"), chain.locator("[data-border='E 1 0']")
    before, box = root(chain).evaluate(EPISODE)["E"][1], border.bounding_box()
    bar = chain.locator("[data-matrix=E] .bw-row-bar").nth(1).bounding_box()
    target = before[0] + before[1] - 0.07

    def drag(start: float, end: float) -> None:
        chain.mouse.move(bar["x"] + start * bar["width"], box["y"] + 5)
        chain.mouse.down()
        chain.mouse.move(bar["x"] + (start + end) / 2 * bar["width"], box["y"] + 8)
        chain.mouse.move(bar["x"] + end * bar["width"], box["y"] + 8)
        chain.mouse.up()

    drag(before[0], target)
    chain.wait_for_function("place => Math.abs(document.querySelector(\"[data-border='E 1 0']\").ariaValueNow - place) <= 1", arg=100 * target)
    after = root(chain).evaluate(EPISODE)["E"][1]
    assert after[0] == pytest.approx(target, abs=0.011) and after[2] == before[2]
    compare(chain, model)
    drag(after[0], 0.3)
    chain.wait_for_function("Math.abs(document.querySelector(\"[data-border='E 1 0']\").ariaValueNow - 30) <= 1")
    for expected in (after, before):  # one drag, one step back
        press(chain, "undo")
        assert root(chain).evaluate(EPISODE)["E"][1] == expected


def test_the_next_symbol_is_drawn_as_the_filter_says(chain):
    """Chances of the next symbol are those of the exact filter, and nature's draws follow them."""
    said = chain.evaluate("document.querySelector('.bw-explorer').playground.play.coming")
    episode = root(chain).evaluate(EPISODE)
    truth, _ = truth_and_inputs(episode)
    T, E = (torch.tensor(episode[name], dtype=torch.float64) for name in ("T", "E"))
    np.testing.assert_allclose(said, truth[-1] @ T @ E, atol=1e-12)
    drawn = chain.evaluate("""() => Array.from({length: 4000}, (_, i) => { const play = new bwTasks.Chain(1);
      play.chance = bwTasks.range(20).map(() => (i + 0.5) / 4000); play.next(); return play.symbols[1]; })""")
    expected = chain.evaluate("new bwTasks.Chain(1).coming")
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4000, expected, atol=1e-3)


# ---- inside the network ----------------------------------------------------------------------------


def meet(page) -> None:
    """The machine comes into the window, and shows what is played."""
    page.locator("#machine").scroll_into_view_if_needed()
    page.wait_for_function(f"!{HOST}.machine.stale")


def test_where_heads_look(page):
    """A head chosen above the map, pointed at, or reached by keys: the row of the pattern that the library has; and a cell of it."""
    model = bw.load("bijection-transformer-classroom")
    _, inputs = truth_and_inputs(root(page).evaluate(EPISODE))
    patterns = probes.activations(model, inputs, ["pattern.*"])
    meet(page)
    machine = page.locator("#machine")

    def check(name, query=10):
        row = [float(p) for p in machine.get_attribute("data-looks").split()]
        layer, head = map(int, name.split("."))
        assert (machine.get_attribute("data-head"), machine.get_attribute("data-from")) == (name, str(query))
        np.testing.assert_allclose(row, patterns[f"pattern.{layer}"][0, head, query, : query + 1], atol=NETWORK)
        assert page.locator("[data-control=head]").input_value() == name and f"head {name} " in page.locator(".bw-m-look").text_content()

    check("2.3")  # at first one that sees what was shown
    for name in ("0.0", "2.3", "1.2"):
        page.locator("[data-control=head]").select_option(name)
        check(name)
    page.locator(".bw-node[data-part='0.2'] .bw-touch").hover()
    page.mouse.move(2, 2)
    check("0.2")  # it stays
    page.locator(".bw-node[data-part='1.1']").focus()
    page.keyboard.press("ArrowRight")
    check("1.2")
    frame = page.locator(".bw-m-map .bw-frame").bounding_box()  # around the last row, eleven cells
    side = frame["width"] / 11
    page.mouse.click(frame["x"] + 2.5 * side, frame["y"] - 1.5 * side)
    check("1.2", 8)
    assert f"gives {float(patterns['pattern.1'][0, 2, 8, 2]):.3f} of its look to" in page.locator(".bw-m-look").text_content()
    press(page, "next")
    meet(page)
    assert (machine.get_attribute("data-head"), machine.get_attribute("data-from")) == ("1.2", "12")


@pytest.mark.parametrize("task", ["bijection", "hmm"])
def test_cutting_is_what_the_library_does(page, task):
    """Heads, feed-forward parts and layers, pressed in the machine: `probes.ablate` in every number of the figure, until they are restored."""
    if task == "hmm":
        choose(page, "hmm", 5)
    model = bw.load(f"{task}-transformer-classroom")
    truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE))
    whole = compare(page, model)
    meet(page)
    for heads, blocks, layer in ((["0.2"], [], ""), (["2.3", "0.0", "1.1"], ["1"], ""), (["0.3"], [], "2"), ([], [], "0")):
        for name in [*heads, *(f"{block}.m" for block in blocks)]:
            page.locator(f".bw-node[data-part='{name}'] .bw-face").click(force=True)
        if layer:
            page.locator(f".bw-layer-name[data-layer='{layer}']").click()
        off = sorted([*heads, *(f"{block}.m" for block in blocks), *(f"{layer}.{part}" for part in "0123m" if layer)])
        assert root(page).get_attribute("data-off").split() == off == page.locator("#machine").get_attribute("data-off").split()
        with probes.ablate(model, [f"head.{name}" for name in heads] + [f"feed_forward.{block}" for block in blocks] + [f"layer.{layer}"] * bool(layer)):
            found = measured(truth, model.predict(inputs)[0])
        for name in ("network", "kl", "tv"):
            assert shown(page)[name] == pytest.approx(found[name], abs=1e-4), (off, name)
        assert float(page.locator("#machine").get_attribute("data-kl")) == pytest.approx(found["kl"], abs=1e-4)
        assert page.locator(".bw-node[aria-pressed=true]").count() == len(off)
        assert "Switched off" in page.locator("[data-part=answer] .bw-status").text_content() and page.locator(".bw-bar.bw-second").count()
        press(page, "machine-restore")
        assert shown(page)["kl"] == pytest.approx(whole["kl"], abs=NETWORK) and root(page).get_attribute("data-off") == ""


SAME = f"""() => {{ const host = {HOST}, {{machine}} = host, told = machine.answerBox.querySelector('svg').ariaLabel;
  const probabilities = [...machine.found.seen.probabilities], answers = host.drawsBeside ? host.seen.beside.answers : host.seen.answers;
  return {{same: machine.play === host.play && machine.found.exact.every((p, y) => p === host.seen.exact.at(-1)[y]) && probabilities.every((p, y) => Math.abs(p - answers.at(-1)[y]) < 1e-5),
    task: machine.state.task, net: machine.network.architecture, pairs: machine.state.pairs, shown: host.play.shown, told}}; }}"""


@pytest.mark.parametrize("task", ["bijection", "hmm", "recall", "regression"])
def test_the_machine_draws_what_is_played(page, task):
    """One state, moved from either side: the step, the episode and the network drawn, in every task, and its cuts count beside the first."""
    choose(page, task)
    meet(page)
    for action in ("machine-next", "next", "machine-back", "random", "machine-next"):
        before = root(page).evaluate(EPISODE)
        press(page, action)
        meet(page)
        now = page.evaluate(SAME)
        assert now["same"] and now["task"] == task and now["pairs"] == now["shown"] and root(page).evaluate(EPISODE) != before, (action, now)
        assert page.locator("[data-part=answer] .bw-part-title").text_content() in now["told"]
    least = 1 if task == "hmm" else 0
    page.locator("#machine [data-control=pairs]").fill(str(least + 1))
    assert root(page).get_attribute("data-shown") == str(least + 1)
    for flow in ("contribution", "belief"):
        page.locator(f"#machine input[value={flow}]").check()
        assert page.locator("#machine").get_attribute("data-flow") == flow and page.evaluate(SAME)["same"]
    page.set_viewport_size({"width": 390, "height": 900})
    page.evaluate(f"{HOST}.goTo({HOST}.play.limit - 1)")
    meet(page)
    frames(page, 4)
    assert page.evaluate(CROWDED.replace(".bw-explorer svg", "#machine svg")) == []
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator("[data-control=net]").select_option(label="Mamba")
    page.wait_for_selector("#machine[data-net=mamba]")
    assert page.evaluate(SAME)["same"] and "Mamba" in page.locator("[data-part=answer] .bw-legend").text_content() and page.locator(".bw-m-side").is_hidden()
    whole, alone = root(page).get_attribute("data-beside"), shown(page)
    page.locator(".bw-node[data-part='0']").click()
    now = page.evaluate(SAME)
    assert now["same"] and root(page).get_attribute("data-beside") != whole and shown(page) == alone
    assert "Mamba with parts off" in page.locator("[data-part=answer] .bw-legend").text_content()
    page.locator("[data-control=net]").select_option(label="transformer")
    meet(page)
    assert page.evaluate(SAME)["net"] == "transformer" and page.evaluate(SAME)["same"]


# ---- recall and regression ---------------------------------------------------------------------------


def choose(page, task: str, shown: int = 3) -> None:
    page.evaluate("async ([task, shown]) => { const host = document.querySelector('.bw-explorer').playground; await host.choose(task); host.fresh(0, shown); }", [task, shown])


def test_recall_is_built_by_clicks(page):
    model = bw.load("recall-transformer-classroom-curriculum-rotary", seed=1)
    choose(page, "recall")
    for action in ("next", "key", "back", "stored", "bar", "undo", "random", "next", "next"):
        before = root(page).evaluate(EPISODE)
        if action == "key":
            page.locator("[data-chip^=key]:enabled[aria-pressed=false]").last.click()
        elif action == "stored":
            page.locator("[data-control=stored]").select_option(str(before["stored_values"][0]))
        elif action == "bar":
            page.locator("[data-part=answer] .bw-area").nth(31).click()
            assert root(page).evaluate("root => root.playground.seen.exact.at(-1)[31]") == 1
        else:
            press(page, action)
        assert root(page).evaluate(EPISODE) != before, action
        assert compare(page, model)["exact"] == 0


def test_regression_is_dragged_and_moved_by_keys(page):
    model = bw.load("regression-transformer-classroom")
    choose(page, "regression")
    for action in ("next", "back", "asked", "random", "next", "next"):
        before = root(page).evaluate(EPISODE)
        page.locator("[data-control=asked]").fill("-1.7") if action == "asked" else press(page, action)
        page.wait_for_function("before => JSON.stringify(document.querySelector('.bw-explorer').playground.play.points.slice(0, before.points.length)) !== JSON.stringify(before.points) || +document.querySelector('.bw-explorer').dataset.shown + 1 !== before.points.length", arg=before)
        frames(page, 2)
        compare(page, model)
    choose(page, "regression")
    for spot, keys, change in (("0", ("ArrowUp", "ArrowUp", "ArrowLeft"), (-0.1, 0.2)), ("asked", ("ArrowRight",), (0.1, None))):
        i = 3 if spot == "asked" else 0
        t, y = root(page).evaluate(EPISODE)["points"][i]
        page.locator(f"[data-handle='{spot}']").focus()
        for key in keys:
            page.keyboard.press(key)
        now = root(page).evaluate(EPISODE)["points"][i]
        assert now[0] == pytest.approx(t + change[0]) and (change[1] is None or now[1] == pytest.approx(y + change[1]))
        assert page.evaluate("document.activeElement.dataset.handle") == spot
        compare(page, model)
    before, box = root(page).evaluate(EPISODE)["points"], page.locator("[data-handle='1']").bounding_box()
    page.mouse.move(box["x"] + 13, box["y"] + 13)
    page.mouse.down()
    page.mouse.move(box["x"] + 30, box["y"] - 20)
    page.mouse.move(box["x"] + 53, box["y"] - 47)
    page.mouse.up()
    page.wait_for_function("y => document.querySelector('.bw-explorer').playground.play.points[1][1] !== y", arg=before[1][1])
    frames(page, 2)
    after = root(page).evaluate(EPISODE)["points"]
    assert len(after) == len(before) and after[1][0] > before[1][0] and after[1][1] > before[1][1] and after[0] == before[0]
    compare(page, model)
    press(page, "undo")  # the whole drag at once
    assert root(page).evaluate(EPISODE)["points"] == before
    frame = page.locator(".bw-line-figure svg").bounding_box()
    page.mouse.click(frame["x"] + frame["width"] / 2, frame["y"] + 60)
    assert len(root(page).evaluate(EPISODE)["points"]) == len(before) + 1
    compare(page, model)


def test_bands_are_what_is_said_at_every_t(page):
    """The drawn means and edges of the network and of the truth, at all places, as the library computes them."""
    choose(page, "regression", 4)
    points = root(page).evaluate(EPISODE)["points"][:4]
    drawn = page.evaluate("""() => { const host = document.querySelector('.bw-explorer').playground, {play} = host;
      return bwLine.PLACES.map(t => [t, ...bwTasks.says(host.network, play.inputsAt(t)).answers[play.shown], ...play.exactAt(t)]); }""")
    for t, *said in drawn[::8]:
        truth, inputs = truth_and_inputs({"points": [*points, [t, 0.0]]})
        answer = bw.load("regression-transformer-classroom").predict(inputs)[0, -1]
        np.testing.assert_allclose(said, [*answer.tolist(), *truth[-1].tolist()], atol=1e-4)
    means = page.locator(".bw-line-figure .bw-mean")
    assert means.count() == 1 and means.get_attribute("d").count("L") == len(drawn) - 1


@pytest.mark.parametrize("task", ["bijection", "hmm", "recall", "regression"])
def test_another_network_stands_beside_the_first(page, task):
    """Its answer, its entropies and its KL, in the same figure."""
    choose(page, task)
    page.locator("[data-control=beside]").select_option(label=next(o for o in page.locator("[data-control=beside] option").all_text_contents() if "LSTM" in o))
    page.wait_for_function("document.querySelector('.bw-explorer').dataset.beside !== ''")
    truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE))
    log2 = bw.load(f"{task}-lstm-classroom").predict(inputs)[0]
    found = measured(truth, log2, task == "regression")
    assert float(root(page).get_attribute("data-beside")) == pytest.approx(found["kl"], abs=NETWORK * max(1, found["kl"]))
    said = {name: float(words.split()[0].lstrip("<")) for name, words in told(page).items()}
    assert said["beside-KL"] == pytest.approx(found["kl"], abs=6e-4) and said["beside-entropy"] == pytest.approx(found["network"], abs=6e-4)
    line = page.locator("[data-part=curve] .bw-line")
    assert line.count() == 2 and "LSTM" in page.locator("[data-part=curve] svg").get_attribute("aria-label")
    assert "LSTM" in page.locator("[data-part=answer] .bw-legend").text_content()
    page.locator("[data-control=beside]").select_option("")
    assert line.count() == 1 and "beside-KL" not in told(page) and root(page).get_attribute("data-beside") == ""


# ---- moving through an episode -----------------------------------------------------------------------


@pytest.mark.parametrize("task", ["bijection", "hmm", "recall", "regression"])
def test_play_goes_to_the_end_and_is_undone_at_once(page, task):
    """Step by step at a pace, with the library's numbers at the end; a press stops it, and so does the reader's own step."""
    choose(page, task, 6)
    before = root(page).evaluate(EPISODE)
    limit = page.evaluate("document.querySelector('.bw-explorer').playground.play.limit")
    page.evaluate("window.ticking = setInterval; window.setInterval = (act) => ticking(act, 1)")  # the test need not wait
    press(page, "play")
    page.wait_for_function("limit => document.querySelector('.bw-explorer').playground.play.questions === limit && !document.querySelector('.bw-explorer').playground.pace", arg=limit)
    assert page.locator("[data-action=play]").first.text_content() == "Play"
    models = {"recall": ("recall-transformer-classroom-curriculum-rotary", 1)}
    compare(page, bw.load(*models.get(task, (f"{task}-transformer-classroom", 0))))
    press(page, "undo")
    assert root(page).evaluate(EPISODE) == before
    page.evaluate("window.setInterval = (act) => ticking(act, 1e6)")
    press(page, "play")  # one step at once, the next does not come
    assert page.locator("[data-action=play]").first.text_content() == "Pause"
    press(page, "back")
    assert page.locator("[data-action=play]").first.text_content() == "Play"
    page.evaluate("window.setInterval = ticking")


@pytest.mark.parametrize("task", ["bijection", "hmm", "recall", "regression"])
def test_the_curve_is_a_scrubber_and_says_values(page, task):
    choose(page, task, 2)
    page.locator("[data-part=curve]").scroll_into_view_if_needed()
    limit = page.evaluate("document.querySelector('.bw-explorer').playground.play.limit")
    at = "() => document.querySelector('.bw-explorer').playground.play.questions - 1"
    box = page.locator("[data-part=curve] svg").bounding_box()

    def place(step):
        return box["x"] + 46 + (step + 0.5) / limit * (box["width"] - 58), box["y"] + 80

    page.mouse.move(*place(5))
    page.mouse.down()
    page.wait_for_function(f"({at})() === 5")
    page.mouse.move(*place(3))
    page.wait_for_function(f"({at})() === 3")
    page.mouse.up()
    page.mouse.move(*place(0))
    assert page.evaluate(at) == 3  # only while it is held
    said = page.locator("[data-part=curve] .bw-readout-box text").all_text_contents()
    first = page.evaluate("document.querySelector('.bw-explorer').playground.seen.found[0]")
    assert [float(words.split()[-1]) for words in said[1:]] == pytest.approx([first["network"], first["exact"]], abs=6e-4), said


def test_symbols_that_were_taken_back_come_again(chain):
    """Stepping back and on shows the reader's own symbols, until another one or another chain makes that void."""
    for symbol in (2, 0, 2):
        chain.locator(f"[data-chip='symbol {symbol}']").click()
    before = root(chain).evaluate(EPISODE)
    for action in ("back", "back", "next", "next"):
        press(chain, action)
    assert root(chain).evaluate(EPISODE) == before
    press(chain, "back")
    chain.locator("[data-border='T 0 0']").focus()
    chain.keyboard.press("ArrowRight")
    assert root(chain).evaluate("root => root.playground.play.later") == []


# The drawings in which the pointer finds no value.
SILENT = """() => [...document.querySelectorAll('.bw-chart:has(svg)')].filter(box => box.checkVisibility() && !box.marks?.every(mark => /\\d/.test(mark.lines.slice(mark.lines.length > 1))))
  .map(box => box.closest('[data-part]')?.dataset.part ?? box.className)"""


def test_values_stand_under_the_pointer(page):
    page.locator("[data-part=answer] .bw-area").nth(3).hover()
    said = page.locator("[data-part=answer] .bw-readout-box text").all_text_contents()
    row = page.evaluate("() => { const {seen} = document.querySelector('.bw-explorer').playground; return [seen.answers[5][3], seen.exact[5][3]]; }")
    assert said[0] == "3" and [float(words.split()[-1]) for words in said[1:]] == pytest.approx(row, abs=6e-4)
    assert page.evaluate(SILENT) == []
    choose(page, "regression")
    assert page.evaluate(SILENT) == []
    box = page.locator(".bw-line-figure svg").bounding_box()
    page.mouse.move(box["x"] + 46 + (box["width"] - 58) * 0.75, box["y"] + 100)
    said = page.locator("[data-part=answer] .bw-readout-box text").all_text_contents()
    exact = page.evaluate("document.querySelector('.bw-explorer').playground.play.exactAt(1.5)")
    assert said[0] == "t 1.50" and said[-1] == f"exact {number(exact[0])} ± {number(exact[1] ** 0.5)}", said


def test_the_answer_is_seen_where_controls_move_it(page):
    """A small one stays at the window's edge, with the KL of the large one, and takes no room; the machine has its own."""
    page.set_viewport_size({"width": 390, "height": 760})
    mini = page.locator(".bw-mini")
    meet(page)  # what is drawn anew in a narrow window has been, before it is measured
    page.evaluate("scrollTo(0, 0)")
    frames(page, 3)
    mini.wait_for(state="hidden")
    tall = root(page).evaluate("root => root.offsetHeight")
    page.locator("[data-chip='value 9']").evaluate("e => e.scrollIntoView({block: 'start'})")
    page.locator(".bw-mini-card").wait_for()
    assert root(page).evaluate("root => root.offsetHeight") == tall
    before = page.locator(".bw-mini strong").text_content()
    page.evaluate("document.querySelector('[data-action=next]').click()")
    assert page.locator(".bw-mini strong").text_content() == told(page)["divergence"] != before
    box = page.locator(".bw-mini-card").bounding_box()
    assert 0 <= box["y"] < 120 and box["height"] < 110
    page.locator(".bw-node[data-part='1.1']").evaluate("e => e.scrollIntoView({block: 'center'})")
    mini.wait_for(state="hidden")
    assert page.locator(".bw-m-answer").bounding_box()["y"] < 120


# ---- the bet -----------------------------------------------------------------------------------------

# States in which there is something to cover.
ASKED = {
    "bijection": "host.fresh(3, 6)", "nothing known": "host.fresh(3, 0)", "last": "host.fresh(3, 9)", "parts off": "host.fresh(3, 6); host.off.add('1.2'); host.update(); await host.compare.arrive()",
    "surprise": "host.comeBack(true); host.fresh(4, 3); host.act(p => p.ask(p.asked[0]))", "beside": "await host.putBeside(host.rivals[1])", "training": "await host.training.arrive()",
    "hmm": "await host.choose('hmm'); host.fresh(2, 6)", "recall": "await host.choose('recall'); host.fresh(2, 3)",
}  # fmt: skip
# All that is to be seen or heard: words, attributes and places of every element, and what is spoken.
TOLD = """() => [...document.querySelectorAll('.bw-explorer *')].filter(e => e.checkVisibility({visibilityProperty: true})).map(e => {
  const words = [...e.childNodes].filter(n => n.nodeType === Node.TEXT_NODE).map(n => n.data).join(''), [box, all] = [e, e.closest('.bw-explorer')].map(one => one.getBoundingClientRect());
  return [e.tagName, words, e.value, e.disabled, ...[...e.attributes].map(a => `${a.name}=${a.value}`), ...[box.x - all.x, box.y - all.y, box.width, box.height].map(Math.round)].join(' ');
}).join('\\n')"""
# The same question with other answers at this step, of the oracle, the networks and their heads: other outcomes, entropies and divergences.
OTHERWISE = f"""() => {{ const host = {HOST}, {{play}} = host, turned = row => [...row].reverse(), now = play.questions - 1;
  const other = row => turned(row).map((p, y) => p / 2 + (y === 0) / 2);
  const flat = row => {{ const roots = turned(row).map(Math.sqrt), sum = roots.reduce((a, b) => a + b); return roots.map(p => p / sum); }};
  const last = (rows, change) => rows.map((row, i) => i === rows.length - 1 ? change(row) : row);
  const name = play.exactAt ? 'exactAt' : 'exact', first = play[name].bind(play);
  play[name] = i => name === 'exact' ? last(first(), other) : i === now ? other(first(i)) : first(i);
  for (const network of [...Object.values(host.networks), ...(host.run ? host.run.networks : [])].filter(n => n.run && !n.whole)) {{
    network.whole = network.run;
    network.run = (...given) => {{ const said = network.whole(...given);
      return {{...said, probabilities: last(said.probabilities, flat), patterns: said.patterns?.map(heads => heads.map(head => last(head, turned)))}}; }};
  }} }}"""
AS_IT_IS = f"() => {{ for (const n of [...Object.values({HOST}.networks), ...({HOST}.run ? {HOST}.run.networks : [])]) if (n.whole) {{ n.run = n.whole; delete n.whole; }} }}"
# Draw it, and speak at once.
DRAW = f"() => {{ const later = window.setTimeout; window.setTimeout = act => {{ act(); return 0; }}; try {{ {HOST}.update(); }} finally {{ window.setTimeout = later; }} }}"


def ask(page, state: str) -> None:
    page.evaluate(f"async () => {{ const host = {HOST}; {ASKED[state]}; }}")


def bet_first(page) -> None:
    page.locator("[data-control=bet]").check()
    page.locator(".bw-stakes").wait_for()


def mine(page) -> list[float]:
    return page.evaluate(f"{HOST}.bet.mine")


def everything(page) -> tuple[str, str]:
    page.evaluate(DRAW)
    page.evaluate(f"() => {{ {HOST}.mini.field.hidden = false; }}")
    frames(page, 4)
    return page.evaluate(TOLD), root(page).aria_snapshot()


@pytest.mark.parametrize("state", ASKED)
def test_what_is_covered_tells_nothing_of_the_answer(page, state):
    """Whatever the exact answer and the networks' may be: the page looks, reads and sounds the same until the bet is revealed."""
    page.emulate_media(reduced_motion="reduce")
    ask(page, state)
    seen = []
    for change in ("() => {}", OTHERWISE):
        page.locator("[data-control=bet]").uncheck()
        page.evaluate(change)
        seen.append(everything(page))
        bet_first(page)
        page.locator("[data-stake='1']").press("PageUp")
        seen.append(everything(page))
    for node in (f"delete {HOST}.play.exact", f"delete {HOST}.play.exactAt", f"{HOST}.mini.field.hidden = true"):
        page.evaluate(f"() => {{ {node}; }}")
    page.evaluate(AS_IT_IS)
    page.emulate_media(reduced_motion="no-preference")
    assert [pair for pair in zip(*(words[0].split("\n") for words in seen[1::2]), strict=True) if len(set(pair)) > 1] == []
    assert seen[1] == seen[3] and "The answer is covered" in seen[1][1]
    assert seen[0][0] != seen[2][0] and seen[0][1] != seen[2][1]  # what is compared would notice
    # What the question alone gives away.
    assert not re.search("possible|certain", seen[1][1]) and page.locator(".bw-ahead, [data-control=stored]:visible").count() == 0
    assert page.locator("[data-chip][aria-pressed=true]", has_text="→").count() == 0


def test_a_bar_is_dragged_in_its_column(page):
    bet_first(page)
    assert mine(page) == pytest.approx([0.1] * 10)
    box = page.locator(".bw-stakes").bounding_box()

    def place(column: int, share: float) -> tuple[float, float]:
        return box["x"] + (column + 0.5) / 10 * box["width"], box["y"] + (1 - share) * box["height"]

    page.mouse.move(*place(3, 0.2))
    page.mouse.down()
    assert mine(page)[3] == pytest.approx(0.2, abs=0.011)
    for column, share in ((3, 1.3), (6, 0.46)):  # over the end, and beside the column
        page.mouse.move(*place(column, share))
    page.mouse.up()
    page.mouse.move(*place(3, 0.9))
    after = mine(page)
    assert sum(after) == pytest.approx(1) and after[3] == pytest.approx(0.46, abs=0.011) and after[6] == pytest.approx((1 - after[3]) / 9)
    slider = page.locator("[data-stake='3']")
    assert slider.get_attribute("aria-valuenow") == str(round(100 * after[3])) and slider.evaluate("e => e === document.activeElement")
    heights = page.evaluate("[...document.querySelectorAll('[data-part=answer] .bw-bar.bw-you')].map(e => parseFloat(e.style.height))")
    assert [height / box["height"] for height in heights] == pytest.approx(after, abs=1e-3)  # the top of the axis is one


def test_bars_are_moved_by_keys(page):
    bet_first(page)
    page.locator("[data-stake='0']").focus()
    for key, share in (("PageUp", 0.2), ("ArrowUp", 0.21), ("ArrowDown", 0.2), ("End", 1), ("PageDown", 0.9)):
        page.keyboard.press(key)
        assert mine(page)[0] == pytest.approx(share) and sum(mine(page)) == pytest.approx(1), key
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    told = page.evaluate("(e => [e.dataset.stake, e.role, e.ariaLabel, e.ariaValueNow, e.ariaValueText])(document.activeElement)")
    assert told == ["1", "slider", "value 1", "2", "2 percent"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Home")
    assert mine(page)[0] == 0 and page.locator(".bw-stakes [tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # past the box that switches betting off
    page.keyboard.press("Enter")
    assert root(page).get_attribute("data-bet") == "revealed" and page.locator(".bw-stakes").is_hidden()
    page.keyboard.press("Enter")
    assert root(page).get_attribute("data-bet") == "covered" and root(page).get_attribute("data-shown") == "6"


def test_a_finger_moves_a_bar_and_not_the_page(browser, tmp_path):
    place = write_page(tmp_path, [files()["bijection"]["main"]["file"]])
    context = browser.new_context(viewport={"width": 390, "height": 660}, has_touch=True, is_mobile=True)
    window = context.new_page()
    window.goto(f"{place.as_uri()}#playground?bet=1&{window.evaluate('new URLSearchParams({task: `bijection`, shown: 2, asked: `0.1.2.3.4.5.6.7.8.9`, map: `9.8.7.6.5.4.3.2.1.0`}).toString()')}")
    window.locator(".bw-stakes").wait_for()
    window.locator(".bw-stakes").evaluate("e => e.scrollIntoView({block: 'center', behavior: 'instant'})")
    before = window.evaluate("scrollY")
    x, y = middle(window.locator("[data-stake='7']"))
    swipe(window, (x, y + 50), (5, -60))
    assert mine(window)[7] > 0.45 and sum(mine(window)) == pytest.approx(1) and window.evaluate("scrollY") == before > 0
    context.close()


@pytest.mark.parametrize(("state", "name", "seed"), [("bijection", "bijection-transformer-classroom", 0), ("hmm", "hmm-transformer-classroom", 0), ("recall", "recall-transformer-classroom-curriculum-rotary", 1)])
def test_a_bet_is_scored_as_the_library_scores_it(page, state, name, seed):
    """The divergence of the bet and of the network from the exact posterior, round by round, and their averages."""
    ask(page, state)
    page.evaluate(f"{HOST}.play.back()")
    bet_first(page)
    spoken, rounds = page.evaluate("bwTasks.FLOOR"), []
    assert spoken == landing.FLOOR
    for n in range(2):
        outcomes = len(mine(page))
        bet = [0.9, 0, *[0.1 / (outcomes - 2)] * (outcomes - 2)] if n else [1 / outcomes] * outcomes
        page.evaluate(f"bet => {{ {HOST}.bet.mine = bet; }}", bet)
        press(page, "reveal")
        truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE))
        counted = torch.tensor(bet, dtype=torch.float64)
        counted = torch.where(truth[-1] > 0, counted.clamp(min=landing.FLOOR), counted)
        rounds.append((float(bw.scoring.kl_bits(truth[-1], counted.log2())), measured(truth, bw.load(name, seed=seed).predict(inputs)[0])["kl"]))
        assert page.evaluate(f"(r => [r.you, r.network])({HOST}.bet.rounds.at(-1))") == pytest.approx(rounds[-1], abs=NETWORK)
        words = page.locator(".bw-verdict").text_content()
        assert words.startswith("Your bet wasted {} bits, the network {}.".format(*page.evaluate("rounds => rounds.map((bits) => bwExplorer.number(bits))", rounds[-1])))
        assert ("counts as 1 in 1,000" in words) == bool(n and truth[-1][1] > 0)
        assert page.locator("[data-part=answer] .bw-bar.bw-first").count() == outcomes and page.locator(".bw-measures").is_visible()
        if not n:
            assert "Average" not in words
            press(page, "reveal")  # on to the next question
    means = page.evaluate("rounds => rounds.map((bits) => bwExplorer.number(bits))", np.mean(rounds, 0).tolist())
    assert words.endswith("Average of 2 rounds: you {}, the network {}.".format(*means))


def test_another_question_is_covered_anew(page):
    """A new step or episode, not the network: a head that is switched off after the bet changes its answer alone."""
    bet_first(page)
    for change in ("next", "back", "restart", "key", "undo", "seed"):
        page.locator("[data-stake='2']").press("End")
        press(page, "reveal")
        assert root(page).get_attribute("data-bet") == "revealed" and mine(page)[2] == 1
        kl = shown(page)["kl"]
        page.evaluate(f"{HOST}.cut(new Set(['2.3']))")
        words = page.locator(".bw-verdict").text_content()
        assert root(page).get_attribute("data-bet") == "revealed" and shown(page)["kl"] != kl
        assert f"the network with parts off {page.evaluate('bwExplorer.number', shown(page)['kl'])}" in words
        page.evaluate(f"{HOST}.cut(new Set())")
        if change == "key":
            page.locator("[data-chip^=key]:enabled[aria-pressed=false]").first.click()
        elif change == "seed":
            page.locator("[data-control=seed]").fill("17")
            page.locator("[data-control=seed]").blur()
        else:
            press(page, change)
        assert root(page).get_attribute("data-bet") == "covered" and mine(page) == pytest.approx([0.1] * 10), change
    page.locator("[data-control=bet]").uncheck()
    assert page.locator(".bw-measures").is_visible() and page.locator(".bw-stakes").is_hidden() and not page.locator("[data-action=reveal]").is_visible()
    compare(page, bw.load("bijection-transformer-classroom"))


def test_where_there_is_no_bet(page):
    """The answer of a regression is a density; the tour says what a bet would cover."""
    bet_first(page)
    choose(page, "regression")
    assert root(page).get_attribute("data-bet") == "" and not page.locator("[data-control=bet]").is_visible() and page.locator(".bw-measures").is_visible()
    choose(page, "bijection")
    assert root(page).get_attribute("data-bet") == "covered"
    page.locator("[data-action=tour]").click()
    page.wait_for_function("document.querySelector('.bw-explorer').dataset.tour === '0'")
    assert not page.locator("[data-control=bet]").is_checked() and page.locator(".bw-measures").is_visible()
    bet_first(page)
    assert page.locator(".bw-tour").is_hidden() and page.evaluate("document.activeElement.dataset.control") == "bet"


def test_an_address_with_a_bet_never_shows_the_answer(page):
    """Neither the poster nor the figure, from the first frame in which the scripts run."""
    ask(page, "bijection")
    bet_first(page)
    page.wait_for_function(f"() => location.hash.includes('bet=1') && location.hash === bwState.hashOf({HOST})")
    other = page.context.new_page()
    other.add_init_script("""window.bare = []; const look = () => { const root = document.querySelector('.bw-explorer[data-mounted]');
      const open = root && [...root.querySelectorAll('.bw-poster, .bw-measures, .bw-bar.bw-first')].filter(e => e.checkVisibility({visibilityProperty: true}));
      window.looked = Boolean(root); if (open?.length) window.bare.push(open[0].className); };
      new MutationObserver(look).observe(document, {subtree: true, childList: true, attributes: true});""")
    other.goto(page.url)
    other.wait_for_function("window.looked && document.querySelector('.bw-explorer').dataset.shown === '6'")
    assert root(other).get_attribute("data-bet") == "covered" and other.evaluate("window.bare") == []
    press(other, "reveal")
    other.wait_for_function("window.bare.length > 0")  # it looks
    other.evaluate("location.hash += '&head=0.0'")  # another link to the same question
    other.wait_for_function("document.querySelector('.bw-explorer').dataset.bet === 'covered'")
    other.close()


def test_a_bet_fits_every_width(page):
    for state in ("bijection", "hmm", "recall"):
        ask(page, state)
        bet_first(page)
        for width in (320, 390, 768, 1024, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            for _ in range(2):
                frames(page, 6)
                found = page.evaluate(OVERFLOW) + root(page).evaluate(sight.CUT, sight.SEEN) + root(page).evaluate(sight.COVERED, [sight.CONTROLS, sight.SEEN])
                assert found == [] and page.evaluate("document.documentElement.scrollWidth") <= width, (state, width)
                press(page, "reveal")  # and on to the next question
            page.evaluate(f"{HOST}.undo()")


# ---- panels ----------------------------------------------------------------------------------------


def compared(page) -> dict[str, dict[str, float]]:
    """The table of networks: name -> column -> number."""
    page.locator("[data-network]").first.wait_for()
    return root(page).evaluate("""root => Object.fromEntries([...root.querySelectorAll('[data-network]')].map(row => [row.dataset.network,
      Object.fromEntries([...row.querySelectorAll('[data-value]')].map(cell => [cell.dataset.value, +cell.textContent.replace("<", "")]))]))""")


@pytest.mark.parametrize("task", RIVALS)
def test_networks_are_compared_on_one_episode(page, task):
    choose(page, task)
    page.locator("[data-part=compare] summary").click()
    table = compared(page)
    press(page, "next")
    after = compared(page)
    truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE))
    names = ["transformer", *(rival["name"] for rival in files()[task]["rivals"])]
    assert list(after) == names and after != table
    gaussian = task == "regression"
    kl = bw.scoring.gaussian_kl_bits if gaussian else bw.scoring.kl_bits
    for name, architecture in zip(names, ["transformer", *RIVALS[task]], strict=True):
        ours = name == "transformer" and task == "recall"
        model = bw.load("recall-transformer-classroom-curriculum-rotary", seed=1) if ours else bw.load(f"{task}-{architecture}-classroom")
        log2 = model.predict(inputs)[0]
        found = measured(truth, log2, gaussian) | {"mean": float(kl(truth, log2.double()).mean())}
        for column, key in (("entropy", "network"), ("kl", "kl"), ("tv", "tv"), ("mean", "mean")):
            assert after[name][column] == pytest.approx(found[key], abs=5.5e-4), (name, column)
    assert page.locator(".bw-multiples > div:visible svg").count() == 4


@pytest.mark.parametrize("task", ["bijection", "hmm"])
def test_stepping_through_training(page, task):
    """The whole figure follows the slider: at each moment the numbers of that snapshot."""
    if task == "hmm":
        page.get_by_label("hidden chain (HMM)").check()
        page.wait_for_function("document.querySelector('.bw-explorer').dataset.task === 'hmm'")
    before = shown(page)
    run = bw.checkpoints.load_snapshots(f"{task}-transformer-classroom-snapshots")
    truth, inputs = truth_and_inputs(root(page).evaluate(EPISODE))
    page.locator("[data-part=training] summary").click()
    page.locator("[data-control=moment]").wait_for()
    for i in (0, 6, 13):
        page.locator("[data-control=moment]").fill(str(i))
        assert root(page).get_attribute("data-moment") == str(run.steps[i])
        compare(page, run.network(run.steps[i]))
    press(page, "later")
    compare(page, run.network(run.steps[14]))
    page.evaluate("window.ticking = setInterval; window.setInterval = (act) => ticking(act, 1)")  # the test need not wait
    press(page, "play-training")
    page.wait_for_function("step => document.querySelector('.bw-explorer').dataset.moment === step", arg=str(run.steps[-1]))
    page.wait_for_function("document.querySelector('[data-action=play-training]').textContent === 'Play'")
    page.evaluate("window.setInterval = ticking")
    compare(page, run.network(run.steps[-1]))
    course = page.locator("[data-part=training] [data-course]")
    course.wait_for()
    cost = [float(h) for h in course.get_attribute("data-course").split()]
    found = [float(bw.scoring.kl_bits(truth, run.network(step).predict(inputs)[0].double()).mean()) for step in run.steps]
    np.testing.assert_allclose(cost, found, atol=1e-4)
    if task == "hmm":  # closed by hand, or by the choice of another task, for which nothing is fetched unasked
        page.locator("[data-part=training] summary").click()
    else:
        page.get_by_label("hidden chain (HMM)").check()
        page.wait_for_function("document.querySelector('.bw-explorer').dataset.task === 'hmm'")
        assert page.locator("details[open]").count() == 0
        page.get_by_label("bijection").check()
        page.wait_for_function("document.querySelector('.bw-explorer').dataset.task === 'bijection'")
    page.wait_for_function("document.querySelector('.bw-explorer').dataset.moment === ''")
    assert shown(page) == pytest.approx(before, abs=1e-12)


# ---- the address ---------------------------------------------------------------------------------------

STATES = {
    "bijection": "host.fresh(4, 3); host.act(p => p.ask(p.asked[7])); host.cut(new Set(['1.2', '0.m'])); host.machine.set({head: '0.3', flow: 'contribution', about: 'excluded'});",
    "surprises": "host.comeBack(true); host.act(p => { p.next(); p.ask(p.asked[0]); }); await host.putBeside(host.rivals[3]); host.drawBeside(true, new Set(['0.1'])); host.machine.set({focus: '0.1'});",
    "hmm": "await host.choose('hmm'); host.act(p => p.move('transition', 1, 0, 61)); host.act(p => p.next(2)); host.cut(new Set(['0'])); await host.putBeside(host.rivals[2]); host.drawBeside(true, new Set(['t7']));",
    "recall": "await host.choose('recall'); host.fresh(5, 2); host.act(p => p.store(30)); await host.putBeside(host.rivals[1]);",
    "regression": "await host.choose('regression'); host.fresh(6, 4); host.act(p => p.move(1, -2.2, 3.1)); host.act(p => p.ask(0.7));",
    "training": "await host.training.arrive(); host.moment(7);",
    "bet": "host.bet.set(true); host.fresh(8, 2);",
}  # fmt: skip
LOOK = """root => { const {task, size, shown, exact, network, kl, tv, off, cuts, beside, moment, bet} = root.dataset, {flow, about, head, focus} = root.playground.machine.state;
  return {task, size, shown, exact, network, kl, tv, off, cuts, beside, moment, bet, flow, about, head, focus, drawn: root.playground.drawsBeside}; }"""


@pytest.mark.parametrize("state", STATES)
def test_an_address_opens_the_same_state(page, state):
    """What is kept in the address as the reader moves things opens the same figure in another window."""
    page.evaluate(f"async () => {{ const host = document.querySelector('.bw-explorer').playground; {STATES[state]} }}")
    episode, look = root(page).evaluate(EPISODE), root(page).evaluate(LOOK)
    page.wait_for_function("() => location.hash === bwState.hashOf(document.querySelector('.bw-explorer').playground)")
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_function(f"look => JSON.stringify(({LOOK})(document.querySelector('.bw-explorer'))) === JSON.stringify(look)", arg=look)
    assert root(other).evaluate(LOOK) == look and root(other).evaluate(EPISODE) == episode
    other.evaluate("location.hash = '#playground?task=bijection&shown=2&asked=1.1.1&map=0'")
    other.get_by_role("alert").wait_for()
    assert "could not be opened" in other.get_by_role("alert").text_content() and root(other).evaluate(EPISODE) == episode
    other.close()


def test_share_copies_the_address_or_shows_it(page, browser, tmp_path):
    """Copied where the clipboard may be written; else it stands selected in a field."""
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not from a folder')); }")
    page.locator("[data-action=share]").click()
    field = page.locator(".bw-shared input")
    field.wait_for()
    assert field.input_value() == page.url and "#playground?task=bijection" in page.url
    assert page.evaluate("getSelection().toString() || document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)") == page.url
    press(page, "next")
    assert field.is_hidden()  # it would be the address of what was shown before
    write_page(tmp_path, [files()["bijection"]["main"]["file"]])
    networks.write(tmp_path, files()["bijection"]["main"]["file"])
    with served(tmp_path) as home:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        window = context.new_page()
        window.goto(f"{home}/page.html")
        window.locator("[data-action=share]").click()
        window.locator(".bw-shared[data-copied=true]").wait_for()
        assert "copied" in window.locator(".bw-shared").text_content() and window.locator(".bw-shared input").is_hidden()
        assert window.evaluate("navigator.clipboard.readText()") == window.url
        context.close()


# ---- for everybody ---------------------------------------------------------------------------------


def test_by_keyboard_alone(page):
    """From the tour's button to a pair, a head switched off, a token, and the other task, with keys only."""
    def walk(spot: str, key: str = "Tab", at_most: int = 60):
        for _ in range(at_most):
            page.keyboard.press(key)
            focus = page.evaluate(FOCUS)
            if page.evaluate("spot => document.activeElement.matches(spot)", spot):
                assert focus["inside"] and focus["visible"], spot
                return
        pytest.fail(f"{spot} is not reached with {key}")

    page.locator("[data-action=tour]").focus()
    walk("[data-chip^=key]")
    page.keyboard.press("Enter")
    walk("[data-chip^=value]")
    page.keyboard.press("Enter")
    assert root(page).get_attribute("data-shown") == "6"
    walk("[data-action=next]")
    for _ in range(3):
        page.keyboard.press("Enter")
    assert root(page).get_attribute("data-shown") == "9"
    focus = page.evaluate(FOCUS)  # nothing is left to show: the button is closed, the focus stays near
    assert focus["inside"] and focus["name"] == "play"
    walk(".bw-node")
    page.wait_for_function(f"!{HOST}.machine.stale")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert root(page).get_attribute("data-off") == page.evaluate("document.activeElement.dataset.part")
    walk("[data-control=head]")
    walk("[name$=task]", "Shift+Tab")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.bw-explorer').dataset.task === 'hmm'")
    walk("[role=slider]")
    page.keyboard.press("ArrowRight")
    walk("summary")
    page.keyboard.press("Enter")
    page.locator("[data-network]").first.wait_for()


def test_the_compared_networks_have_the_digits_of_the_panel(page):
    """Where a divergence is small, too."""
    page.evaluate("document.querySelector('.bw-explorer').playground.fresh(0, 1)")
    page.locator("[data-part=compare] summary").click()
    row = page.locator("[data-network=transformer]")
    row.wait_for()
    kl = told(page)["divergence"].split()[0]
    assert row.locator("[data-value=kl]").text_content() == kl and float(kl) > 0 and len(kl) > 5, kl


def test_the_numbers_are_spoken_once_things_rest(page):
    live = page.locator("[role=status]")
    page.wait_for_function("document.querySelector('[role=status]').textContent !== ''")
    before = live.text_content()
    quiet = page.evaluate("""() => { const next = document.querySelector('[data-action=next]');  // all within an instant
      for (let i = 0; i < 3; i++) next.click();
      return document.querySelector('[role=status]').textContent; }""")
    assert quiet == before  # not while the reader is still moving
    page.wait_for_function("before => document.querySelector('[role=status]').textContent !== before", arg=before)
    spoken, numbers = live.text_content(), shown(page)
    assert "after 8 pairs" in spoken and f"{numbers['exact']:.3f} bits exact" in spoken
    assert live.get_attribute("aria-live") == "polite"


def test_a_phone_shows_all_of_it(page):
    page.set_viewport_size({"width": 360, "height": 800})
    states = ("host.fresh(0, 9)", "host.tour.go(4)", "host.choose('hmm')", "host.compare.arrive()", "host.training.arrive()", "host.choose('bijection', 'published')",
              "host.choose('recall')", "host.putBeside(host.rivals[0])", "host.compare.arrive()", "host.choose('regression')", "host.putBeside(host.rivals[0])", "host.compare.arrive()")
    for state in states:
        page.evaluate(f"async () => {{ const host = document.querySelector('.bw-explorer').playground; await {state}; }}")
        wide = page.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(document.documentElement.scrollWidth))))")
        assert wide <= 360, state
        assert page.evaluate(OVERFLOW) == [], state
        widths = page.evaluate("[...document.querySelectorAll('.bw-play button:not([hidden])')].filter(e => e.offsetParent).map(e => e.offsetHeight)")
        assert min(widths) >= 22, state  # what a finger can hit


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_has_nothing_to_say(page, theme):
    from axe_playwright_python.base import AXE_SCRIPT

    page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    page.evaluate(AXE_SCRIPT)
    for state in ("host.off.add('0.1'); host.off.add('2'); host.update(); await host.compare.arrive(); await host.tour.go(0)", "await host.choose('hmm'); await host.training.arrive()",
                  "host.closePanels(); host.tour.end(); await host.choose('recall'); await host.putBeside(host.rivals[0])", "await host.choose('regression'); await host.putBeside(host.rivals[0]); await host.compare.arrive()",
                  "host.closePanels(); await host.choose('bijection'); host.bet.set(true); host.update()", "host.bet.press()"):
        page.evaluate(f"async () => {{ const host = document.querySelector('.bw-explorer').playground; {state}; }}")
        assert page.evaluate(AXE, {"structure": theme == "light", "colour": True, "frame": True, "kinds": []})["found"] == [], state
    page.evaluate("document.documentElement.dataset.theme = 'light'")


def test_less_motion_means_none(page):
    moving = """() => { const long = e => getComputedStyle(e).transitionDuration.split(',').some(t => parseFloat(t) > 0);
      return [...document.querySelectorAll('.bw-explorer *')].filter(long).length; }"""
    assert page.evaluate(moving) > 0
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")


def test_the_tour_sets_each_state_and_lights_a_part(page):
    page.locator("[data-action=tour]").click()
    steps, seen, tasks = page.evaluate("bwTour.STEPS.map(step => step.part)"), set(), set()
    for i, part in enumerate(steps):
        page.wait_for_function("i => document.querySelector('.bw-explorer').dataset.tour === String(i)", arg=i)
        lit = page.locator(".bw-part.bw-lit")
        assert lit.count() == 1 and lit.get_attribute("data-part") == part
        assert page.evaluate("document.activeElement.dataset.action") == "tour-next"
        if part in ("compare", "training"):
            page.wait_for_function("() => /KL (is )?[0-9]/.test(document.querySelector('.bw-tour p').textContent)")
        words, numbers = page.locator(".bw-tour p").text_content(), shown(page)
        if part == "answer":
            assert f"{numbers['exact']:.3f}" in words or f"{numbers['kl']:.3f}"[:5] in words or told(page)["divergence"] in words, words
        seen.add(words)
        tasks.add(root(page).get_attribute("data-task"))
        if i + 1 < len(steps):
            page.keyboard.press("Enter")
    assert len(seen) == len(steps) >= 9 and tasks == {"bijection", "hmm"}
    page.keyboard.press("Escape")
    assert page.locator(".bw-tour").is_hidden() and page.locator(".bw-part.bw-lit").count() == 0
    assert page.evaluate("document.activeElement.dataset.action") == "tour"


# ---- arriving --------------------------------------------------------------------------------------


def test_the_files_are_those_that_ship():
    for entry in entries():
        assert (networks.WEIGHTS / f"{entry['file']}.safetensors").stat().st_size == entry["bytes"], entry
    assert files()["bijection"]["main"]["bytes"] <= 1e6 and files()["bijection"]["published"]["bytes"] <= 6e6


def test_a_missing_file_is_told_and_asked_for_again(browser, tmp_path):
    """The poster stays until the network is there; then it gives way without a jump of what follows."""
    place = write_page(tmp_path, [], "data-seed=3 data-shown=2")
    page = browser.new_page()
    page.goto(place.as_uri())
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "missing or damaged" in alert.text_content() and page.locator(".poster").is_visible()
    height = root(page).evaluate("root => root.offsetHeight")
    networks.write(tmp_path, files()["bijection"]["main"]["file"])
    page.get_by_role("button", name="Try again").click()
    page.locator(".bw-measures").wait_for()
    assert page.locator(".poster").count() == 0 and alert.count() == 0
    assert root(page).evaluate("root => root.offsetHeight") >= height
    assert root(page).get_attribute("data-shown") == "2" and page.locator("[data-control=seed]").input_value() == "3"
    page.locator("[data-part=compare] summary").click()  # a panel's files are missing too
    alert.wait_for()
    for rival in files()["bijection"]["rivals"]:
        networks.write(tmp_path, rival["file"])
    page.get_by_role("button", name="Try again").click()
    page.locator("[data-network]").first.wait_for()
    page.close()


def test_small_and_served_and_without_webassembly(browser, tmp_path):
    """The short figure of the landing page, fetched over http; without WebAssembly the whole one says so."""
    model = bw.load("bijection-transformer-classroom")
    write_page(tmp_path, [files()["bijection"]["main"]["file"]], 'data-small data-home="whole.html"', "small.html")
    write_page(tmp_path, [], "", "whole.html")
    networks.write(tmp_path, files()["bijection"]["main"]["file"])  # the form that is fetched, too
    with served(tmp_path) as home:
        page = browser.new_page()
        page.goto(f"{home}/small.html")
        page.locator(".bw-measures").wait_for()
        for action in ("next", "next", "back"):
            press(page, action)
            compare(page, model)
        assert page.locator(".bw-part").count() == 2 and page.locator("[data-part=machine]").count() == 0
        page.add_init_script("delete window.WebAssembly")
        page.get_by_role("link", name="Open the playground").click()
        page.locator(".bw-notice").wait_for()
        assert page.evaluate("bwNetwork.backend") == "javascript"
        assert page.locator(".bw-notice").text_content() == page.evaluate("bwNetwork.notice") != ""
        compare(page, model)
        page.close()

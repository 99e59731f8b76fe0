"""A trained network in the page: its numbers against the library's, and the explorers that use it."""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
import torch
from _support_explorer import CLEAR, explorer_opener

import bayeswind_lib as bw
from bayeswind_lib import probes
from bayeswind_lib.probes import routing
from bayeswind_lib.probes.progress import pattern_distance

pytestmark = pytest.mark.xdist_group("browser")
TOLERANCE = 2e-5  # single precision there, double here


@pytest.fixture(scope="module")
def model():
    return bw.load("bijection-transformer-classroom")


@pytest.fixture(scope="module")
def machine_page(browser, tmp_path_factory):
    """The machine with all that it may have, opened once."""
    with explorer_opener("machine", browser, tmp_path_factory.mktemp("machine")) as opened:
        yield opened(opens=None, attributes="data-map data-ways")


@pytest.fixture
def training_page(browser, tmp_path):
    with explorer_opener("training", browser, tmp_path) as opened:
        yield opened()


def episodes(count: int, seed: int = 0):
    return bw.tunnels.Bijection(10).sample(count, torch.Generator().manual_seed(seed))


# ---- in the page --------------------------------------------------------------------------------


def test_the_network_in_the_page_is_the_network(machine_page, model):
    """Patterns, heads and answers at 20 episodes."""
    drawn = episodes(20)
    seen = probes.activations(model, drawn.inputs, ["pattern.*", "head.*"])
    answers = model.predict(drawn.inputs).exp2()
    found = machine_page.evaluate(
        """async rows => { const net = await bwNetwork.fetch('bijection-transformer-classroom-seed0'); return rows.map(tokens => {
          const {patterns, heads, probabilities} = net.run(tokens);
          return {patterns, heads: heads.map(row => row.map(head => [...head])), probabilities: probabilities.map(row => [...row])};
        }); }""",
        drawn.inputs.tolist(),
    )
    for i, one in enumerate(found):
        np.testing.assert_allclose(one["probabilities"], answers[i], atol=TOLERANCE)
        for layer in range(3):
            for head in range(4):
                mine = np.zeros((19, 19))
                for t, row in enumerate(one["patterns"][layer][head]):
                    mine[t, : t + 1] = row
                np.testing.assert_allclose(mine, seen[f"pattern.{layer}"][i, head], atol=TOLERANCE)
                given = np.array(one["heads"][layer][head]).reshape(19, 16)
                np.testing.assert_allclose(given, seen[f"head.{layer}"][i, head], rtol=1e-4, atol=1e-4)


def test_half_precision_is_read_as_numpy_reads_it(machine_page):
    bits = np.arange(2**16, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(np.float16))]
    theirs = machine_page.evaluate("bits => bits.map(bwNetwork.half)", bits.tolist())
    np.testing.assert_array_equal(np.array(theirs), bits.view(np.float16).astype(float))


def test_the_error_function_is_good_to_a_ten_millionth(machine_page):
    x = torch.linspace(-6, 6, 2001, dtype=torch.float64)
    theirs = machine_page.evaluate("x => x.map(bwNetwork.erf)", x.tolist())
    assert np.abs(np.array(theirs) - torch.erf(x).numpy()).max() < 1.3e-7


def test_a_run_at_many_moments_is_read(machine_page, model, tmp_path):
    """Eight-bit weights with scales, from the file that the library writes."""
    other = probes.untrained(model, torch.Generator().manual_seed(1))
    weights = {0: other.state_dict(), 30: model.state_dict(), 7: other.state_dict()}
    path = bw.checkpoints.save_snapshots(weights, model.record | {"name": "run"}, tmp_path)
    code = base64.b64encode(path.read_bytes()).decode()
    found = bw.checkpoints.load_snapshots("run", 0, tmp_path)
    row = episodes(1, seed=4).inputs
    theirs = machine_page.evaluate(
        """([code, row]) => { const {steps, networks, note} = bwNetwork.snapshots(bwNetwork.bytesOf(code));
          return {steps, name: note.name, answers: networks.map(net => net.run(row).probabilities.map(p => [...p]))}; }""",
        [code, row[0].tolist()],
    )
    assert theirs["steps"] == found.steps == [0, 7, 30] and theirs["name"] == "run"
    for step, answer in zip(found.steps, theirs["answers"], strict=True):
        np.testing.assert_allclose(answer, found.network(step).predict(row)[0].exp2(), atol=TOLERANCE)


def test_coverage_is_that_of_the_library(machine_page, model):
    root, words = machine_page.locator(".bw-explorer"), machine_page.locator(".bw-m-look")
    for name, k in (("0.0", 7), ("0.3", 2), ("1.2", 9), ("2.1", 1)):
        machine_page.get_by_label("Pairs", exact=True).fill(str(k))
        machine_page.get_by_label("Where it looks: head").select_option(name)
        layer, head = map(int, name.split("."))
        row = routing.patterns(model, torch.tensor([played(machine_page)]))[layer, 0, head, -1]
        np.testing.assert_allclose([float(p) for p in root.get_attribute("data-looks").split()], row, atol=TOLERANCE)
        mass, entropy = 100 * float(row[1 : 2 * k : 2].sum()), float(bw.scoring.entropy(row))
        said = re.search(r"head (\S+) looks.* ([\d.]+) % of its look is on the (\d+) values?.*it would be ([\d.]+) %.* Entropy of the look: (?:under )?([\d.]+) bits", words.text_content())
        assert said[1] == name and said[3] == str(k)
        assert [float(number) for number in (said[2], said[4], said[5])] == pytest.approx([mass, 100 * k / (2 * k + 1), entropy], abs=0.06)
    machine_page.get_by_label("Pairs", exact=True).fill("0")
    assert "%" not in words.text_content()


def played(page) -> list[int]:
    """What the machine's network reads."""
    return page.evaluate("document.querySelector('.bw-explorer').machine.play.inputs")


def chosen_episode(page):
    """The episode on the page, as the library's."""
    rows = (torch.tensor([[int(word) for word in text.split()]]) for text in chosen(page))
    return bw.tunnels.Bijection(10).episodes(*rows)


def chosen(page) -> tuple[str, str]:
    """Keys and values of the episode on the page, as texts."""
    menus = page.locator("select").all()
    rows = [menu.input_value() for menu in menus]
    return " ".join(rows[::2]), " ".join(rows[1::2])


def test_the_reader_picks_the_episode(machine_page):
    """What is chosen changes places with the pair that had it: each number stays there once; another episode is its own."""
    machine_page.get_by_label("Pairs", exact=True).fill("8")
    machine_page.get_by_text("Choose the pairs").click()
    before = played(machine_page)
    menu = machine_page.get_by_label("value of pair 2", exact=True)
    menu.select_option(str(before[13] - 10))
    after = [*before]
    after[3], after[13] = before[13], before[3]
    assert played(machine_page) == after and machine_page.evaluate("document.activeElement.getAttribute('aria-label')") == "value of pair 2"
    machine_page.get_by_label("Pairs", exact=True).fill("7")
    assert played(machine_page) == after[:15]  # it stays while the episode is read
    machine_page.evaluate("document.querySelector('.bw-explorer').machine.go({pairs: '8'})")
    assert played(machine_page) == before  # a link names the episode as it is drawn
    machine_page.get_by_role("button", name="New episode").click()
    assert played(machine_page) not in (before, after)
    machine_page.get_by_text("Choose the pairs").click()


@pytest.mark.parametrize("way", ["zero", "mean"])
def test_taking_heads_out_is_what_the_library_does(machine_page, model, way):
    drawn, rng = episodes(20, seed=1), torch.Generator().manual_seed(2)
    reference = [tokens(machine_page, 1000 + i) for i in range(64)]
    assert machine_page.evaluate("bwMachine.N_MEAN") == len(reference)
    for row in drawn.inputs:
        n_off = int(torch.randint(1, 13, (), generator=rng))
        off = [f"{i // 4}.{i % 4}" for i in torch.randperm(12, generator=rng)[:n_off].tolist()]
        theirs = machine_page.evaluate(
            """([row, off, way]) => { const {network} = document.querySelector('.bw-explorer').machine, heads = new Set(off);
              return network.run(row, {off: heads, ...bwMachine.handing(network, heads, way, 1)}).probabilities.map(p => [...p]); }""",
            [row.tolist(), off, way],
        )
        with probes.ablate(model, [f"head.{name}" for name in off], way, torch.tensor(reference)):
            ours = model.predict(row[None])[0].exp2()
        np.testing.assert_allclose(theirs, ours, atol=1e-4)


def tokens(page, seed: int) -> list[int]:
    return page.evaluate("s => bwNetworkParts.tokensOf(bwNetworkParts.episode(10, s))", seed)


def test_noise_is_as_long_as_what_it_is_added_to(machine_page):
    given, changed = machine_page.evaluate(
        """() => { const head = Float64Array.from({length: 64}, (_, i) => Math.sin(i + 1) * (i + 1));
          return [[...head], [...bwMachine.withNoise(head, 16, bwExplorer.generator(3))]]; }"""
    )
    given, noise = np.reshape(given, (4, 16)), np.reshape(changed, (4, 16)) - np.reshape(given, (4, 16))
    np.testing.assert_allclose(np.linalg.norm(noise, axis=1), np.linalg.norm(given, axis=1), rtol=1e-9)
    assert abs(np.corrcoef(noise)[np.triu_indices(4, 1)]).max() < 0.9


def test_ways_to_cut_move_the_page(machine_page, model):
    """At the question, and over all of the episode: what the library says of heads that hand on nothing or their mean."""
    root, status = machine_page.locator(".bw-explorer"), machine_page.locator("[role=status]")
    reference = torch.tensor([tokens(machine_page, 1000 + i) for i in range(64)])
    machine_page.get_by_label("Pairs", exact=True).fill("9")
    V, inputs = 10, torch.tensor([played(machine_page)])
    keys, values = inputs[:, ::2], inputs[:, 1::2] - V
    last = torch.tensor([[v for v in range(V) if v not in values]])
    episode = bw.tunnels.Bijection(V).episodes(keys, torch.cat([values, last], 1))
    whole = float(bw.scoring.kl_bits(episode.posterior, model.predict(episode.inputs)).mean())
    assert float(root.get_attribute("data-mean")) == pytest.approx(whole, abs=1e-4) and "Over all 10 questions" in status.text_content()
    said = {}
    for off, k, way in ((["0.1"], 5, "zero"), (["0.1", "2.3"], 8, "mean"), (["2.3"], 3, "zero"), (["2.3"], 3, "noise")):
        machine_page.evaluate("off => document.querySelector('.bw-explorer').machine.set({off: new Set(off)})", off)
        machine_page.get_by_label("Pairs", exact=True).fill(str(k))
        machine_page.locator(f"input[value={way}]").check()
        said[way] = [float(root.get_attribute(f"data-{name}")) for name in ("kl", "mean")]
        if way != "noise":
            with probes.ablate(model, [f"head.{name}" for name in off], way, reference):
                kl = bw.scoring.kl_bits(episode.posterior, model.predict(episode.inputs))[0]
            assert said[way] == pytest.approx([float(kl[k]), float(kl.mean())], abs=1e-3)
    assert said["noise"] != said["zero"]
    machine_page.evaluate("document.querySelector('.bw-explorer').machine.go({pairs: '5', off: '0.1', way: 'mean'})")
    assert machine_page.locator("input[value=mean]").is_checked() and "it writes its mean" in machine_page.locator(".bw-node[data-part='0.1']").get_attribute("aria-label")
    assert "way=mean" in machine_page.evaluate("bwMachine.toHash('machine', document.querySelector('.bw-explorer').machine.state)")
    machine_page.evaluate("document.querySelector('.bw-explorer').machine.go({pairs: '5'})")


def test_scrubbing_through_a_run_moves_the_page(training_page):
    """Numbers at some snapshots and heads are those of the library."""
    root, status = training_page.locator(".bw-explorer"), training_page.locator("[role=status]")
    snapshots, episode = bw.checkpoints.load_snapshots("bijection-transformer-classroom-snapshots"), chosen_episode(training_page)
    steps, seen = snapshots.steps, set()
    end = routing.patterns(snapshots.network(steps[-1]), episode.inputs)[:, 0]
    for i, layer, head in ((len(steps) - 1, 0, 1), (0, 0, 1), (5, 1, 2), (12, 2, 3)):
        training_page.get_by_label("Updates", exact=True).fill(str(i))
        training_page.locator(f"[data-head='{layer}.{head}']").click()
        network = snapshots.network(steps[i])
        cost = float(bw.scoring.kl_bits(episode.posterior, network.predict(episode.inputs)).mean())
        now, last = (row[layer, head, ::2][None, None] for row in (routing.patterns(network, episode.inputs)[:, 0], end))
        assert int(root.get_attribute("data-step")) == steps[i]
        assert float(root.get_attribute("data-kl")) == pytest.approx(cost, abs=1e-3)
        assert float(root.get_attribute("data-distance")) == pytest.approx(pattern_distance(now, last), abs=1e-4)
        assert f"After {steps[i]} updates the network is" in status.text_content()
        seen.add(training_page.locator("svg").last.get_attribute("aria-label"))
    assert len(seen) == 4
    course = training_page.locator(".bw-chart").first
    course.scroll_into_view_if_needed()
    box = course.bounding_box()
    training_page.mouse.move(box["x"] + 46 + (box["width"] - 58) * 5.5 / len(steps), box["y"] + 60)
    readout, told = training_page.locator(".bw-readout-box"), course.locator("svg").get_attribute("aria-label").split(";")
    assert readout.evaluate(CLEAR)
    shares = [re.findall(r"\d[.]\d+", row)[5] for row in told[:2]]
    assert readout.locator("text").all_text_contents() == [f"after {steps[5]} updates", f"divergence {shares[0]}", f"attention {shares[1]}"]


# ---- until the network is there -------------------------------------------------------------------


FAR = "<style>h1 { margin-bottom: 4000px }</style>"  # the explorer stands far below what is seen


@pytest.fixture(params=["machine", "training"])
def opener(request, browser, tmp_path):
    with explorer_opener(request.param, browser, tmp_path) as opened:
        yield opened


def weights_asked(opener) -> int:
    return sum("/networks/" in address for address in opener.asked)


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_asked_for_before_a_reader_comes(opener, width):
    """Then once; and what stands below the explorer stays where it was."""
    page = opener(width=width, wait=False, head=FAR)
    root, status = page.locator(".bw-explorer"), page.locator("[role=status]")
    assert root.get_attribute("data-state") == "waiting" and weights_asked(opener) == 0
    assert "loaded when you come" in status.text_content()
    before = root.bounding_box()["height"]
    root.scroll_into_view_if_needed()
    page.wait_for_selector("[data-state=ready]")
    assert weights_asked(opener) == 1 and page.locator("svg[role=img]").count() >= 2
    assert root.bounding_box()["height"] == pytest.approx(before, abs=40)


def test_the_keyboard_is_enough_to_load_it(opener):
    """Tab reaches the box, which then loads, and the focus stands on its first control."""
    page = opener(wait=False, head=FAR)
    page.keyboard.press("Tab")
    page.wait_for_selector("[data-state=ready]")
    assert page.evaluate("document.activeElement === document.querySelector('.bw-explorer :is(input, select)')")
    assert weights_asked(opener) == 1


def test_a_failure_is_told_and_can_be_tried_again(opener, tmp_path):
    (tmp_path / "networks").rename(tmp_path / "away")
    page = opener(wait=False, width=360)
    page.wait_for_selector("[data-state=failed]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert "missing or damaged" in page.locator("[role=status]").text_content()
    assert opener.errors.pop().startswith("Failed to load resource")  # the browser itself says so, once
    (tmp_path / "away").rename(tmp_path / "networks")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("[data-state=ready]")
    assert weights_asked(opener) == 2


def test_without_webassembly_the_reader_is_told(browser, tmp_path):
    with explorer_opener("training", browser, tmp_path) as opened:
        page = opened(head="<script>delete window.WebAssembly</script>")
        assert "plain JavaScript" in page.locator(".bw-notice").text_content()

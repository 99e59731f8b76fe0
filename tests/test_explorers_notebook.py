"""The explorers in a notebook: the scripts of the pages, mounted by a widget, with weights from the kernel."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import torch
from _support_explorer import WEB, networks
from _support_front_end import front_end
from test_explorers import FULL

import bayeswind_lib as bw
from bayeswind_lib.baselines import hmm as baselines
from bayeswind_lib.widgets import explorers, notebook

pytestmark = pytest.mark.xdist_group("browser")
CALLED = {"machine": "machine", "threekeys": "three_keys_explorer"}
MAKERS = {name: getattr(bw.widgets, CALLED.get(name, f"{name}_explorer")) for name in sorted(FULL)}


class Late:
    """A network for the HMM explorer that answers with the belief of the step before."""

    def predict(self, inputs):
        return baselines.StaleBelief(bw.tunnels.HMM(3, 3)).predict(inputs)


class Even:
    """A network for the HMM explorer that holds every state for equally likely."""

    def predict(self, inputs):
        return torch.full((len(inputs), 20, 3), 1 / 3, dtype=torch.float64).log2()


def test_every_public_explorer_is_one_of_the_pages():
    public = {name for name in bw.widgets.__all__ if name.endswith("_explorer")} | {"machine"}
    assert public == {make.__name__ for make in MAKERS.values()}


def test_all_explorers_open_in_a_notebook_and_ask_its_kernel_for_weights(browser):
    """On one page, the playground among them: each says something with a number and draws, and a network is sent once."""
    shown = [make() for name, make in MAKERS.items() if name != "hmm"]
    shown += [bw.widgets.hmm_explorer(Late(), seed=3, label="late"), bw.widgets.playground()]
    with front_end(browser, shown) as page:
        for name in MAKERS:
            root = page.locator(f'.bw-explorer[data-explorer="{name}"]').first
            root.scroll_into_view_if_needed()
            root.locator("svg[role=img]").nth(1).wait_for()
            assert re.search(r"\d", root.locator("[role=status]").first.text_content()), name
            assert root.get_attribute("role") == "group" and root.locator("svg[role=img]").first.bounding_box()["width"] > 300
        hmm = page.locator('[data-explorer="hmm"]')
        assert hmm.get_attribute("data-seed") == "3" and "late" in hmm.locator(".bw-legend").text_content()
        page.locator('[data-explorer="playground"] [data-action="next"]').wait_for()
        asked = {name: networks.files_of((WEB / f"{name}_explorer.js").read_text("utf-8")) for name in MAKERS}
        wanted = {file for files in asked.values() for file in files[:1]}  # the others when they are chosen
        sent = page.evaluate("sent")
        assert wanted <= set(sent) and len(sent) == len(set(sent))
        assert page.evaluate("bwNotebook.models.length") == len(shown)
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


def test_a_network_of_the_reader_is_a_predictor_of_its_own_widget(browser):
    """Two networks, and an explorer that was given none, in one notebook; and a page's cell joins none of them."""
    shown = [bw.widgets.hmm_explorer(Late(), label="late"), bw.widgets.hmm_explorer(Even(), label="even"), bw.widgets.hmm_explorer()]
    with front_end(browser, shown) as page:
        roots = page.locator('[data-explorer="hmm"]').all()
        said = [root.locator("[role=status]").text_content() for root in roots]
        page.evaluate("bwHmm.addPredictor(bwHmm.tablePredictor('network', 'of a page', {}))")
        assert said == [root.locator("[role=status]").text_content() for root in roots]
        legends = [root.locator(".bw-legend li").all_text_contents() for root in roots]
        assert [legend[3:] for legend in legends] == [["late"], ["even"], []]
        assert len({text.split("KL")[-1] for text in said[:2]}) == 2
        roots[0].locator('[data-action="next"]').click()
        for words, root in zip(("Late: KL", "Even: KL"), roots, strict=False):
            assert words in root.locator("[role=status]").text_content()
        roots[1].locator('[data-action="new"]').click()
        assert roots[1].locator(".bw-legend li").all_text_contents()[3:] == ["even"]


@pytest.fixture(scope="module")
def networks_of_a_reader():
    """Two transformers before any training, for bijections of 4 and of 6 values."""
    recipes = (bw.training.recipe("bijection", "transformer", "smoke", steps=1, tunnel_config={"n_values": V, "n_pairs": V}, seed=V) for V in (4, 6))
    return [bw.training.train(recipe, progress=False)[0] for recipe in recipes]


ASKED = """root => [...root.querySelectorAll('.bw-m-answer rect.bw-first')].map(e => +e.getAttribute('height'))"""


def test_the_machine_runs_the_network_that_its_widget_was_given(browser, networks_of_a_reader):
    with front_end(browser, [bw.widgets.machine(model, pairs=3, map=True) for model in (*networks_of_a_reader, None)]) as page:
        for i, model in enumerate(networks_of_a_reader):
            root, V = page.locator('[data-explorer="machine"]').nth(i), model.config.n_outputs
            root.scroll_into_view_if_needed()
            root.locator("rect.bw-first").nth(V - 1).wait_for()
            inputs = torch.tensor([root.evaluate("root => root.machine.play.inputs")])
            heights = np.array(root.evaluate(ASKED))
            np.testing.assert_allclose(heights / heights.sum(), model.predict(inputs)[0, -1].exp2(), atol=1e-4)
            assert root.locator(".bw-m-map svg").count() == 1
        last = page.locator('[data-explorer="machine"]').nth(2)
        last.scroll_into_view_if_needed()
        last.locator("rect.bw-first").nth(9).wait_for()
        assert page.evaluate("sent") == [notebook.OWN, notebook.OWN, f"{bw.load('bijection-transformer-classroom').record['name']}-seed0"]


@pytest.mark.parametrize("name", ["hmm-transformer-classroom", "bijection-mlp-classroom"])
def test_a_network_that_the_machine_cannot_open_is_refused(name):
    with pytest.raises(ValueError, match="opens a transformer or lstm or mamba for the tunnel Bijection"):
        bw.widgets.machine(bw.load(name))


def test_explorers_of_networks_are_known():
    asks = {name for name in MAKERS if networks.files_of((WEB / f"{name}_explorer.js").read_text("utf-8"))}
    assert asks == set(explorers.OF_NETWORKS)


@pytest.mark.parametrize("make", [make for name, make in MAKERS.items() if name not in ("hmm", "machine", "threshold")])
def test_arguments_of_the_first_version_are_refused_in_words(make):
    with pytest.raises(TypeError, match=rf"{make.__name__}\(\) takes no arguments: .* bw.widgets.page"):
        make(seed=3)


def test_without_anywidget_the_reader_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    notebook._widget_class.cache_clear()
    for make in MAKERS.values():
        with pytest.raises(ModuleNotFoundError, match="pip install anywidget"):
            make()
    monkeypatch.undo()
    assert bw.widgets.hazard_explorer().name == "hazard"

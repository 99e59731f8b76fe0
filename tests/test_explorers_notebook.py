"""The explorers in a notebook: the scripts of the pages, mounted by a widget, with weights from the kernel."""

from __future__ import annotations

import re
import sys

import pytest
from _support_explorer import WEB, networks
from _support_front_end import front_end
from test_explorers import FULL

import bayeswind_lib as bw
from bayeswind_lib.baselines import hmm as baselines
from bayeswind_lib.widgets import explorers, notebook

pytestmark = pytest.mark.xdist_group("browser")
MAKERS = {name: getattr(bw.widgets, f"{'three_keys' if name == 'threekeys' else name}_explorer") for name in sorted(FULL)}


class Late:
    """A network for the HMM explorer that answers with the belief of the step before."""

    def predict(self, inputs):
        return baselines.StaleBelief(bw.tunnels.HMM(3, 3)).predict(inputs)


def test_every_public_explorer_is_one_of_the_pages():
    assert {name for name in bw.widgets.__all__ if name.endswith("_explorer")} == {make.__name__ for make in MAKERS.values()}


def test_all_explorers_open_in_a_notebook_and_ask_its_kernel_for_weights(browser):
    """On one page, the playground among them: each says something with a number and draws, and a network is sent once."""
    shown = [make() for name, make in MAKERS.items() if name != "hmm"]
    shown += [bw.widgets.hmm_explorer(Late(), seed=3, label="late"), bw.widgets.playground()]
    with front_end(browser, shown) as page:
        for name in MAKERS:
            root = page.locator(f'.bw-explorer[data-explorer="{name}"]')
            root.scroll_into_view_if_needed()
            root.locator("svg[role=img]").nth(1).wait_for()
            assert re.search(r"\d", root.locator("[role=status]").first.text_content()), name
            assert root.get_attribute("role") == "group" and root.locator("svg[role=img]").first.bounding_box()["width"] > 300
        hmm = page.locator('[data-explorer="hmm"]')
        assert hmm.get_attribute("data-seed") == "3" and "late" in hmm.locator(".bw-legend").text_content()
        page.locator('[data-explorer="playground"] [data-action="next"]').wait_for()
        wanted = {file for name in MAKERS for file in networks.files_of((WEB / f"{name}_explorer.js").read_text("utf-8"))}
        sent = page.evaluate("sent")
        assert wanted <= set(sent) and len(sent) == len(set(sent))
        assert page.evaluate("bwNotebook.models.length") == len(shown)
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids))


def test_explorers_of_networks_are_known():
    asks = {name for name in MAKERS if networks.files_of((WEB / f"{name}_explorer.js").read_text("utf-8"))}
    assert asks == set(explorers.OF_NETWORKS)


@pytest.mark.parametrize("make", [make for name, make in MAKERS.items() if name != "hmm"])
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

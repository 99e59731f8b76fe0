"""The sources explorer: a list of hidden chains, against the observers of chapter 20."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from _support_explorer import WEB, explorer_opener

import bayeswind_lib as bw
from bayeswind_lib.baselines import mixture
from bayeswind_lib.probes import sources

from tools import stored  # noqa: E402

pytestmark = pytest.mark.xdist_group("browser")
NAMES = {"likeliest": "likeliest only", "idle": "which, no state", "level": "state, no which"}


@pytest.fixture(scope="module")
def chains():
    record = bw.load(sources.NETWORK).record
    return bw.tunnels.build(record["tunnel"], record["tunnel_config"])


def observed(chains, symbols: list[int]) -> dict[str, np.ndarray]:
    """What each observer predicts after the last symbol."""
    said = mixture.observers(*chains.matrices(), torch.tensor([symbols]), torch.tensor([0]))
    return {name: rows[0, -1].numpy() for name, rows in said.items()}


def test_the_chains_in_the_page_are_the_networks():
    data = json.loads((WEB / "sources_chains.js").read_text("utf-8").split("= ", 1)[1].rstrip(";\n"))
    made = stored.chains()
    assert data["length"] == made["length"]
    for name in ("move", "emit"):
        np.testing.assert_allclose(data[name], made[name], atol=1e-9)


@pytest.fixture
def page(browser, tmp_path):
    with explorer_opener("sources", browser, tmp_path) as opened:
        yield opened(opens=None)


def test_scripts_agree_with_the_observers(page, chains):
    rng = np.random.default_rng(1)
    for _ in range(20):
        symbols = rng.integers(0, chains.n_symbols, rng.integers(1, 25)).tolist()
        wanted = observed(chains, symbols)
        told = page.evaluate("""symbols => {
          const row = bwSources.readings(symbols).at(-1);
          return {exact: bwSources.exact(row), weight: row.weight, ...Object.fromEntries(Object.entries(bwSources.observers).map(([n, f]) => [n, f(row)]))};
        }""", symbols)  # fmt: skip
        for name, row in {"exact": "exact", **NAMES}.items():
            np.testing.assert_allclose(told[name], wanted[row], atol=1e-9, err_msg=name)
        joint = chains.beliefs(torch.tensor([symbols]))[0, -1]
        np.testing.assert_allclose(told["weight"], joint.sum(-1), atol=1e-9)


def test_controls_move_the_page_as_the_library_says(page, chains):
    root = page.locator(".bw-explorer")

    def is_right(name: str) -> None:
        symbols = [int(text) for text in page.locator("[data-chip]").all_text_contents()]
        wanted, data = observed(chains, symbols), root.evaluate("e => ({...e.dataset})")
        assert int(data["seen"]) == len(symbols)
        np.testing.assert_allclose(json.loads(data["exact"]), wanted["exact"], atol=1e-9)
        np.testing.assert_allclose(json.loads(data["said"]), wanted[NAMES[name]], atol=1e-9)

    is_right("likeliest")
    page.get_by_role("button", name="Next symbol").click()
    is_right("likeliest")
    page.locator("[data-chip='symbol 2']").click()
    page.get_by_label("no state").check()
    is_right("idle")
    page.get_by_label("no which").check()
    page.get_by_label("Symbols read").fill("24")
    is_right("level")
    page.get_by_label("show which source speaks").check()
    assert "no source speaks any more" in page.locator("[role=status]").text_content()
    page.get_by_role("button", name="Another source").click()
    is_right("level")
    assert "In truth" in page.locator("[role=status]").text_content()


def test_it_opens_where_the_first_favourite_is_wrong(page):
    """As the chapter's text says: equal symbols, a likely source, and another one in the end."""
    chips = page.locator("[data-chip]").all_text_contents()
    assert len(chips) == 6 and len(set(chips)) == 1
    first = json.loads(page.locator(".bw-explorer").get_attribute("data-weight"))
    page.get_by_label("Symbols read").fill("24")
    last = json.loads(page.locator(".bw-explorer").get_attribute("data-weight"))
    assert max(first) > 0.6 and np.argmax(first) != np.argmax(last)


def test_the_episodes_are_of_the_chains(page, chains):
    """Every source speaks equally often, and the first symbols are distributed as they should be."""
    drawn = page.evaluate("[...Array(3000).keys()].map(seed => bwSources.episode(seed))")
    which = np.array([one["source"] for one in drawn])
    assert np.bincount(which, minlength=6) == pytest.approx(np.full(6, 500), abs=100)
    firsts = np.bincount([one["symbols"][0] for one in drawn], minlength=4) / 3000
    np.testing.assert_allclose(firsts, chains.matrices()[1].mean((0, 1)), atol=0.04)

"""The ledger's page: a square for every row, filters, one row in full, and links that lead to it."""

from __future__ import annotations

import pytest
from _support_browser import Reader

import bayeswind_lib as bw
from bayeswind_lib.ledger.claims import anchor_of

pytestmark = pytest.mark.xdist_group("browser")
PAGE = "book/ledger.html"


@pytest.fixture
def reader(browser, home):
    reader = Reader(browser, home)
    reader.open(PAGE)
    yield reader
    assert not reader.seen.troubles
    reader.close()


def shown(reader) -> list[str]:
    return [square.get_attribute("href")[1:] for square in reader.page.locator(".bw-squares a.bw-square").all()]


def test_every_row_is_one_square_and_opens_in_full(reader):
    rows = bw.ledger.rows()
    assert sorted(shown(reader)) == sorted(anchor_of(row["id"]) for row in rows)
    row = bw.ledger.row("hmm-lstm-v3")
    reader.page.locator(f'a.bw-square[href="#{anchor_of(row["id"])}"]').click()
    told = reader.page.locator(".bw-detail").inner_text()
    assert row["statement"] in told and row["status"] in told and row["reason"] in told
    assert reader.page.evaluate("location.hash") == f"#{anchor_of(row['id'])}"


def test_filters_leave_what_fits(reader):
    reader.page.locator(".bw-search input").fill("lstm")
    reader.page.locator("button.bw-status-reproduced").click()
    rows = [row for row in bw.ledger.rows() if row["status"] == "reproduced"]
    wanted = {anchor_of(row["id"]) for row in rows if "lstm" in f"{row['statement']} {row['status']}. #{anchor_of(row['id'])}".lower()}
    assert set(shown(reader)) == wanted and 0 < len(wanted) < len(rows)
    assert reader.page.locator(".bw-told").inner_text() == f"{len(wanted)} of {len(bw.ledger.rows())} rows"
    reader.page.locator("[data-action=clear]").click()
    assert len(shown(reader)) == len(bw.ledger.rows())


def test_arrow_keys_walk_over_the_squares(reader):
    first = reader.page.locator('.bw-squares a.bw-square[tabindex="0"]')
    assert first.count() == 1
    first.focus()
    before = reader.page.evaluate("location.hash")
    for key in ("ArrowRight", "ArrowDown", "End"):
        reader.page.keyboard.press(key)
        now = reader.page.evaluate("[location.hash, document.activeElement.hash]")
        assert now[0] == now[1] != before
        before = now[0]


@pytest.mark.parametrize("width", [320, 390, 768, 1024, 1180, 1440])
def test_a_link_shows_its_row_and_nothing_sticks_out(browser, home, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(f"{home}/{PAGE}#ledger-bijection-leak-of-0.007-l19")  # as it was written before
    detail = page.locator(".bw-detail")
    assert "bijection-leak-of-0.007-l19" in detail.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = detail.bounding_box()
    assert box["y"] < 800 and box["y"] + box["height"] > 0, "the row is out of sight"
    page.close()

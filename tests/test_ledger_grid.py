"""The ledger's page: a square for every row, filters, one row in full, and links that lead to it."""

from __future__ import annotations

import pytest
from _support_browser import reading

import bayeswind_lib as bw
from bayeswind_lib.ledger.claims import anchor_of

pytestmark = pytest.mark.xdist_group("browser")
PAGE = "book/ledger.html"


@pytest.fixture
def reader(browser, home):
    with reading(browser, home, PAGE) as opened:
        yield opened


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
    detail = page.locator(".bw-detail")
    # The first as names were written before, the second where the browser finds a place of that name itself.
    for id in ("bijection-leak-of-0.007-l19", "hmm-lstm-v3"):
        for before in ("about:blank", f"{home}/{PAGE}"):
            page.goto(before)
            page.goto(f"{home}/{PAGE}#ledger-{id}")
            page.wait_for_function("id => document.querySelector('.bw-detail').textContent.includes(id)", arg=id)
            page.wait_for_load_state()  # the browser goes to a place by itself, the page follows a frame later
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            box, squares = detail.bounding_box(), page.locator(".bw-squares").bounding_box()
            assert box["y"] < 800 and box["y"] + box["height"] > 0, "the row is out of sight"
            assert squares["y"] < 800 and squares["y"] + squares["height"] > 0, "the grid is out of sight"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


@pytest.mark.parametrize("width", [320, 390, 768, 1024])
def test_no_filter_lies_under_the_row(browser, home, width):
    page = browser.new_page(viewport={"width": width, "height": 660})
    page.goto(f"{home}/{PAGE}")
    for control in page.locator(".bw-bar :is(input, select, button), .bw-chips button").all():
        control.scroll_into_view_if_needed()
        seen = control.evaluate("""e => { const b = e.getBoundingClientRect();
            return e.contains(document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2)); }""")
        assert seen, control.evaluate("e => e.outerHTML.slice(0, 80)")
    page.close()


def test_paper_has_the_rows_that_a_screen_folds(reader):
    folds = reader.page.locator("details.bw-in-print")
    opened = "folds => folds.map(fold => fold.open)"
    assert folds.count() > 5 and not any(folds.evaluate_all(opened))
    reader.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(folds.evaluate_all(opened))
    reader.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not any(folds.evaluate_all(opened))

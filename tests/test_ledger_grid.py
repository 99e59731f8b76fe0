"""The grids of the ledger and of the architectures: a square for every row, filters, one row in full, links to it."""

from __future__ import annotations

import pytest
from _support_browser import CUT, reading

import bayeswind_lib as bw
from bayeswind_lib.ledger import architectures
from bayeswind_lib.ledger.claims import anchor_of

pytestmark = pytest.mark.xdist_group("browser")
PAGE, NETWORKS = "book/ledger.html", "book/architectures.html"
SQUARES = ".bw-squares a.bw-square:visible"


@pytest.fixture
def reader(browser, home):
    with reading(browser, home, PAGE) as opened:
        yield opened


@pytest.fixture
def networks(browser, home):
    with reading(browser, home, NETWORKS) as opened:
        yield opened


@pytest.fixture(scope="module")
def results() -> dict[str, architectures.Result]:
    """What the cells of the grid show, by anchor."""
    grid = architectures.ArchitectureTable(architectures.load_records())
    return {f"architectures-{result.name}": result for result in grid.results.values()}


def shown(reader) -> list[str]:
    squares = ".bw-squares a.bw-square"
    return reader.page.eval_on_selector_all(squares, "all => all.filter(e => e.checkVisibility()).map(e => e.hash.slice(1))")


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


@pytest.mark.parametrize("path", [PAGE, NETWORKS])
def test_arrow_keys_walk_over_the_squares(browser, home, path):
    with reading(browser, home, path) as reader:
        walk(reader)


def walk(reader):
    first = reader.page.locator('.bw-squares a.bw-square[tabindex="0"]')
    assert first.count() == 1
    first.focus()
    before = reader.page.evaluate("location.hash")
    for key in ("ArrowRight", "ArrowDown", "End"):
        reader.page.keyboard.press(key)
        now = reader.page.evaluate("[location.hash, document.activeElement.hash]")
        assert now[0] == now[1] != before
        before = now[0]
    below, above = (focus_after(reader, key) for key in ("ArrowUp", "ArrowDown"))
    assert below["y"] < above["y"] and abs(below["x"] - above["x"]) < below["width"]


def focus_after(reader, key: str) -> dict:
    reader.page.keyboard.press(key)
    return reader.page.locator(":focus").bounding_box()


WIDTHS = (320, 390, 768, 1024, 1180, 1440)
# The first as names were written before, the second where the browser finds a place of that name itself; each from outside and
# from the page itself.
LINKS = [(id, before) for id in ("bijection-leak-of-0.007-l19", "hmm-lstm-v3") for before in ("about:blank", PAGE)]


def test_a_link_shows_its_row_and_nothing_sticks_out(browser, home):
    """Each link at the narrowest and the widest, and one of them at every width between."""
    page = browser.new_page()
    detail = page.locator(".bw-detail")
    for number, width in enumerate(WIDTHS):
        page.set_viewport_size({"width": width, "height": 800})
        for id, before in LINKS if width in (WIDTHS[0], WIDTHS[-1]) else [LINKS[number % len(LINKS)]]:
            page.goto(before if before != PAGE else f"{home}/{PAGE}")
            page.goto(f"{home}/{PAGE}#ledger-{id}")
            page.wait_for_function("id => document.querySelector('.bw-detail').textContent.includes(id)", arg=id)
            page.wait_for_load_state()  # the browser goes to a place by itself, the page follows a frame later
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            box, squares = detail.bounding_box(), page.locator(".bw-squares").bounding_box()
            assert box["y"] < 800 and box["y"] + box["height"] > 0, f"{width}: the row is out of sight"
            assert squares["y"] < 800 and squares["y"] + squares["height"] > 0, f"{width}: the grid is out of sight"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_no_filter_lies_under_the_row(browser, home):
    page = browser.new_page()
    page.goto(f"{home}/{PAGE}")
    for width in WIDTHS[:4]:
        page.set_viewport_size({"width": width, "height": 660})
        for control in page.locator(".bw-bar :is(input, select, button), .bw-chips button").all():
            control.scroll_into_view_if_needed()
            seen = control.evaluate("""e => { const b = e.getBoundingClientRect();
                return e.contains(document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2)); }""")
            assert seen, f"{width}: {control.evaluate('e => e.outerHTML.slice(0, 80)')}"
    page.close()


@pytest.mark.parametrize("path", [PAGE, NETWORKS])
def test_on_a_phone_the_row_covers_the_grid_only_when_it_is_asked_for(browser, home, path):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(f"{home}/{path}")
    row, grid = page.locator(".bw-beside"), page.locator(".bw-squares")
    below = "([grid, row]) => row.getBoundingClientRect().top >= grid.getBoundingClientRect().bottom - 1"
    assert page.evaluate(below, [grid.element_handle(), row.element_handle()])
    page.locator(SQUARES).nth(1).click()
    box, square = row.bounding_box(), page.locator("[aria-current]").bounding_box()
    assert 0 < square["y"] < box["y"] - square["height"] and box["y"] < 700 and box["y"] + box["height"] > 790
    page.close()


@pytest.mark.parametrize("path", [PAGE, NETWORKS])
def test_grid_and_row_are_one_screen(browser, home, path):
    """The whole grid and the beginning of the row beside it, with the page's title and all filters above."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{home}/{path}")
    assert page.evaluate("scrollY") == 0
    for part in (".bw-bar", ".bw-chips", ".bw-squares"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 900, part
    assert page.locator(".bw-detail").bounding_box()["y"] < 600
    page.close()


def test_every_network_is_one_cell_and_opens_in_full(networks, results):
    assert sorted(shown(networks)) == sorted(results)
    for anchor in ("architectures-hmm-lstm-classroom", "architectures-recall-mamba-classroom"):
        networks.page.locator(f'a.bw-square[href="#{anchor}"]').click()
        told, result = networks.page.locator(".bw-detail"), results[anchor]
        assert result.state[0] in told.inner_text() and f"{result.rows[0]['parameters']:,} parameters" in told.inner_text()
        assert told.locator(f'a[href="#run-{result.name}"]').count() == 1
        assert networks.page.evaluate("location.hash") == f"#{anchor}"


def test_filters_of_networks_leave_what_fits(networks, results):
    find, clear = networks.page.locator(".bw-search input"), networks.page.locator("[data-action=clear]")
    find.fill("lstm")
    networks.page.locator("button.bw-status-solved").click()
    wanted = {anchor for anchor, result in results.items() if "lstm" in result.name and result.state[0] == "solved"}
    assert set(shown(networks)) == wanted and 0 < len(wanted) < len(results)
    assert networks.page.locator(".bw-told").inner_text() == f"{len(wanted)} of {len(results)} networks"
    clear.click()
    networks.page.locator("[data-control=tunnel]").select_option("hmm")
    assert set(shown(networks)) == {anchor for anchor, result in results.items() if result.tunnel == "hmm"}
    assert networks.page.locator(".bw-heat thead th:visible").all_inner_texts() == ["Architecture", "HMM"]
    clear.click()
    networks.page.locator("[data-control=architecture]").select_option("mamba")
    assert set(shown(networks)) == {anchor for anchor, result in results.items() if result.label == "mamba"}
    assert networks.page.locator(".bw-heat tbody tr:visible").count() == 1
    clear.click()
    assert len(shown(networks)) == len(results)


def test_networks_are_put_in_order(networks, results):
    order, heads = networks.page.locator("[data-control=by]"), networks.page.locator(".bw-heat tbody th")
    listed = heads.all_inner_texts()
    order.select_option("name")
    assert heads.all_inner_texts() == sorted(listed, key=str.lower) != listed
    order.select_option("regression")
    ranked = sorted((r for r in results.values() if r.tunnel == "regression"), key=lambda r: r.mean("entropy_mae")[0])
    assert heads.all_inner_texts() == [architectures.LABELS[result.label] for result in ranked] != listed
    order.select_option("")
    assert heads.all_inner_texts() == listed


@pytest.mark.parametrize("width", [390, 1440])
def test_a_link_to_a_row_of_a_folded_table_opens_it(browser, home, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    for anchor in ("positions-hmm-transformer-classroom-none", "run-hmm-lstm-classroom"):
        page.goto("about:blank")
        page.goto(f"{home}/{NETWORKS}#{anchor}")
        page.wait_for_function("""id => { const place = document.getElementById(id), box = place.getBoundingClientRect();
            return place.checkVisibility() && box.top < innerHeight && box.bottom > 0; }""", arg=anchor)
    page.goto("about:blank")
    page.goto(f"{home}/{NETWORKS}#architectures-hmm-lstm-classroom")  # this one stands in the grid
    page.wait_for_function("document.querySelector('[aria-current]').hash === location.hash")
    box = page.locator(".bw-detail").bounding_box()
    assert box["y"] < 800 and box["y"] + box["height"] > 0
    page.close()


@pytest.mark.parametrize("width", [390, 1440])
def test_every_table_of_networks_is_whole_when_it_is_opened(browser, home, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.goto(f"{home}/{NETWORKS}", wait_until="load")
    assert page.locator(".bw-long:not([open])").count() > 10
    assert page.evaluate("document.body.scrollHeight / innerHeight") < 12
    page.evaluate("document.querySelectorAll('.bw-long').forEach(fold => { fold.open = true; })")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_paper_has_the_rows_that_a_screen_folds(reader):
    folds = reader.page.locator("details.bw-in-print")
    opened = "folds => folds.map(fold => fold.open)"
    assert folds.count() > 5 and not any(folds.evaluate_all(opened))
    reader.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert all(folds.evaluate_all(opened))
    reader.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not any(folds.evaluate_all(opened))

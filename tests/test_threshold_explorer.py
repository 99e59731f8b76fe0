"""The threshold explorer: its numbers are those of the records, and its counts are counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from _support_explorer import WEB, explorer_opener

import bayeswind_lib as bw
from bayeswind_lib.language import diagnose

from tools import stored  # noqa: E402

pytestmark = pytest.mark.xdist_group("browser")


def in_the_page() -> dict:
    return json.loads((WEB / "threshold_records.js").read_text("utf-8").split("= ", 1)[1].rstrip(";\n"))


def test_the_numbers_are_those_of_the_records():
    made = stored.scripts()["threshold_records.js"]
    assert (WEB / "threshold_records.js").read_text("utf-8") == made, "python book/tools stored writes them again"


def test_they_are_what_the_chapters_quote():
    """A few of them by another way."""
    data, record = in_the_page(), bw.ledger.record("language_geometry")
    rows = {row["label"]: dict(map(tuple, row["dots"])) for row in data["diagnostics"]["choices"]["values"]["rows"]}
    assert rows["SmolLM2"]["mathematics natural"] == pytest.approx(record["trained"]["sets"]["mathematics natural"]["values"]["pc12"], rel=1e-5)
    assert list(rows["a network of this book, wrong"]) == ["bijection-transformer-classroom-replacement"]
    assert {name: choice["published"] for name, choice in data["diagnostics"]["choices"].items()} == {
        "keys": diagnose.COSINE_THRESHOLD, "values": diagnose.PC_THRESHOLD, "attention": diagnose.FOCUS_THRESHOLD,
    }  # fmt: skip
    layers = bw.ledger.record("language_sula")["layers"]
    for row, name in zip(data["sula"]["choices"]["entropy"]["rows"], ("published", "untrained published", "shuffled", "matched", "untrained matched"), strict=True):
        np.testing.assert_allclose([value for _, value in row["dots"]], np.abs(layers[name]["H"]), rtol=1e-5)


@pytest.fixture(params=["diagnostics", "sula"])
def record(request):
    return request.param


@pytest.fixture
def page(record, browser, tmp_path):
    with explorer_opener("threshold", browser, tmp_path) as opened:
        yield opened(opens=None, attributes=f'data-record="{record}"')


def shares(choice: dict, threshold: float) -> list[float]:
    """Which share of each group passes."""
    groups = [np.array([value for row in choice["rows"] if row["group"] == group for _, value in row["dots"]]) for group in (0, 1)]
    return [float(np.mean(values > threshold if choice["above"] else values < threshold)) for values in groups]


def is_right(page, choice: dict) -> float:
    data = page.locator(".bw-explorer").evaluate("e => ({...e.dataset})")
    threshold = float(data["threshold"])
    assert [float(data["first"]), float(data["second"])] == pytest.approx(shares(choice, threshold))
    places = np.arange(round(100 * choice["low"]), round(100 * choice["high"]) + 1) / 100
    apart = [np.subtract(*shares(choice, place)) for place in places]
    assert np.subtract(*shares(choice, float(data["best"]))) == pytest.approx(max(apart))
    filled = page.locator(".bw-chart").first.locator("svg .bw-passed").count()
    assert filled == sum((value > threshold if choice["above"] else value < threshold) for row in choice["rows"] for _, value in row["dots"])
    return threshold


def test_it_counts_what_passes(page, record):
    for number, choice in enumerate(in_the_page()[record]["choices"].values()):
        if number or len(in_the_page()[record]["choices"]) > 1:
            page.get_by_label(choice["words"], exact=True).check()
        assert is_right(page, choice) == pytest.approx(choice["published"])
        page.get_by_label("Threshold", exact=True).fill("0.12")
        assert is_right(page, choice) == pytest.approx(0.12)
        page.get_by_role("button", name="Tell the groups apart").click()
        assert is_right(page, choice) == float(page.locator(".bw-explorer").get_attribute("data-best"))
        page.locator("[data-action=published]").click()
        assert is_right(page, choice) == pytest.approx(choice["published"])


def test_the_threshold_is_dragged_with_the_hand(page, record):
    choice = next(iter(in_the_page()[record]["choices"].values()))
    box = page.locator(".bw-chart svg").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 100, steps=3)
    page.mouse.up()
    low, high = choice["low"], choice["high"]
    assert is_right(page, choice) == pytest.approx(low + 0.25 * (high - low), abs=0.05 * (high - low))


def test_another_record_is_refused():
    with pytest.raises(ValueError, match="there are 'diagnostics' and 'sula'"):
        bw.widgets.threshold_explorer("geometry")

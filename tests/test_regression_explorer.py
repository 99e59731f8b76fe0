"""The regression explorer against the library."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from _support_browser import middle, swipe
from _support_explorer import explorer_opener, number
from torch.nn import functional as F

from bayeswind_lib.scoring import gaussian_entropy_bits, gaussian_kl_bits
from bayeswind_lib.tunnels.regression import posterior, weight_belief

pytestmark = pytest.mark.xdist_group("browser")
MOUNT = ".bw-explorer"


def tensor(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def line_predictions(t, y, places, noise: float) -> torch.Tensor:
    """The tunnel's mean and variance of y = w_1 + w_2 t at some places, given the points (t, y): float64 (G, 2)."""
    x = torch.stack([torch.ones_like(t), t], -1).expand(len(places), -1, -1)  # (G, N, 2)
    asked = torch.stack([torch.ones_like(places), places], -1)[:, None]  # (G, 1, 2)
    heights = F.pad(y.expand(len(places), -1), (0, 1))  # the last is asked, not known
    return posterior(torch.cat([x, asked], 1), heights, noise)[:, -1]


def line_belief(t, y, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The tunnel's mean (2,) and covariance (2, 2) of intercept and slope, given the points: float64."""
    mean, covariance = weight_belief(torch.stack([torch.ones_like(t), t], -1)[None], y[None], noise)
    return mean[0, -1], covariance[0, -1]


def by_grid(points, asked: float, noise: float) -> tuple[float, float]:
    """Mean and variance of y at `asked`, by summing over a fine grid of lines: no linear algebra."""
    axis = torch.linspace(-6, 6, 801, dtype=torch.float64)
    w1, w2 = torch.meshgrid(axis, axis, indexing="ij")
    log = -(w1**2 + w2**2) / 2
    for t, y in points:
        log = log - (y - w1 - w2 * t) ** 2 / (2 * noise**2)
    weight = (log - log.max()).exp()
    weight = weight / weight.sum()
    height = w1 + w2 * asked
    mean = (weight * height).sum()
    return float(mean), float((weight * (height - mean) ** 2).sum()) + noise**2


def test_predictions_equal_a_sum_over_lines():
    points = [(0.4, 1.1), (-1.2, 0.3), (2.1, -0.6), (0.9, 0.2), (-0.3, 1.4)]
    for n, noise, asked in ((0, 0.5, 1.0), (3, 0.5, 1.0), (5, 0.8, -2.0)):
        given = tensor(points[:n]).reshape(-1, 2)
        found = line_predictions(given[:, 0], given[:, 1], tensor([asked]), noise)[0]
        assert found.tolist() == pytest.approx(by_grid(points[:n], asked, noise), abs=1e-4)


# ---- on the page --------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser, tmp_path):
    with explorer_opener("regression", browser, tmp_path) as opened:
        yield opened


def test_it_computes_what_the_library_computes(open_page):
    page, rng = open_page(), torch.Generator().manual_seed(0)
    sizes = set()
    for _ in range(20):
        n, memory = (int(torch.randint(0, 9, (), generator=rng)) for _ in range(2))
        noise = 0.1 + float(torch.rand((), generator=rng))
        points = 2 * torch.randn(n, 2, generator=rng, dtype=torch.float64)
        asked = float(3 * torch.randn((), generator=rng))
        sizes.add(n)
        theirs = page.evaluate(
            """([points, noise, memory, asked]) => {
              const r = bwRegression, exact = r.belief(points, noise);
              const short = r.belief(r.recent(points, memory), noise);
              const [p, q] = [exact, short].map(b => r.predict(b, asked, noise));
              return {exact, p, q, entropy: r.entropy(p[1]), kl: r.kl(p, q), learned: r.learned(exact)};
            }""",
            [points.tolist(), noise, memory, asked],
        )
        late = points[max(n - memory, 0) :]
        p = line_predictions(points[:, 0], points[:, 1], tensor([asked]), noise)[0]
        q = line_predictions(late[:, 0], late[:, 1], tensor([asked]), noise)[0]
        mean, covariance = line_belief(points[:, 0], points[:, 1], noise)
        close = {"rtol": 1e-7, "atol": 1e-8}
        np.testing.assert_allclose(theirs["exact"]["mean"], mean, **close)
        np.testing.assert_allclose(theirs["exact"]["covariance"], covariance, **close)
        np.testing.assert_allclose(theirs["p"], p, **close)
        np.testing.assert_allclose(theirs["q"], q, **close)
        np.testing.assert_allclose(theirs["entropy"], gaussian_entropy_bits(p), **close)
        np.testing.assert_allclose(theirs["kl"], gaussian_kl_bits(p, q), **close)
        np.testing.assert_allclose(theirs["learned"], -0.5 * torch.linalg.det(covariance).log2(), **close)
    assert len(sizes) > 4


def agrees_with_library(page, noise=0.5, memory=2, asked=1.0) -> list:
    """Check words and state of the page against the library; the points shown."""
    root = page.locator(MOUNT)
    points = json.loads(root.get_attribute("data-points"))
    t, y = tensor([p[0] for p in points]), tensor([p[1] for p in points])
    late = max(len(points) - memory, 0)
    truth = line_predictions(t, y, tensor([asked]), noise)[0]
    short = line_predictions(t[late:], y[late:], tensor([asked]), noise)[0]
    for name, value in (("mean", truth[0]), ("variance", truth[1]), ("kl", gaussian_kl_bits(truth, short))):
        assert float(root.get_attribute(f"data-{name}")) == pytest.approx(float(value), abs=1e-8)
    words = page.locator("[role=status]").text_content().replace("\u2212", "-")
    assert f"After {len(points)} point" in words
    learned = -0.5 * torch.linalg.det(line_belief(t, y, noise)[1]).log2()
    assert float(root.get_attribute("data-learned")) == pytest.approx(float(learned), abs=1e-8)
    assert f", {_number(learned)} bits are learned about the line" in words
    assert bool(points) or ", 0 bits are learned" in words
    for moments in (truth, short):
        assert f"{_number(moments[0])} ± {_number(moments[1].sqrt())}" in words
    assert f"entropy {_number(gaussian_entropy_bits(truth))} bits" in words
    return points


def _number(value) -> str:
    return number(float(value)).replace("\u2212", "-")


def test_buttons_sliders_and_own_points_move_the_belief(open_page):
    page = open_page()
    assert agrees_with_library(page) == []
    for _ in range(4):
        page.locator("[data-action=next]").click()
    assert len(agrees_with_library(page)) == 4
    page.locator("[data-control=noise]").fill("1.2")
    page.locator("[data-control=memory]").fill("3")
    page.locator("[data-control=asked]").fill("-2")
    agrees_with_library(page, 1.2, 3, -2.0)
    page.locator("[data-action=back]").click()
    page.locator("[data-control=t]").fill("-1.5")
    page.locator("[data-control=y]").fill("2.5")
    page.locator("[data-action=add]").click()
    points = agrees_with_library(page, 1.2, 3, -2.0)
    assert len(points) == 4 and points[-1] == [-1.5, 2.5]
    page.locator("[data-action=new]").click()
    assert agrees_with_library(page, 1.2, 3, -2.0) == []
    assert page.locator("[data-action=back]").is_disabled()


def test_a_click_puts_the_point_where_it_is_clicked(open_page):
    page = open_page()
    box = page.locator(".bw-area").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 5 / 6, box["y"] + box["height"] * 0.3)  # t 2, y 2
    page.mouse.click(box["x"] + box["width"] / 6, box["y"] + box["height"] * 0.7)  # t -2, y -2
    points = agrees_with_library(page)
    np.testing.assert_allclose(points, [[2, 2], [-2, -2]], atol=0.051)
    assert float(page.locator(MOUNT).get_attribute("data-mean")) == pytest.approx(1.0, abs=0.1)


def test_a_point_that_is_dragged_moves_and_none_is_added(open_page):
    page = open_page()
    page.locator("[data-action=next]").click()
    page.locator("[data-action=next]").click()
    before, grip = agrees_with_library(page), page.locator("[data-point='0']").bounding_box()
    area = page.locator(".bw-area").bounding_box()
    page.mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
    page.mouse.down()
    for share in (0.3, 0.2, 0.1):
        page.mouse.move(area["x"] + area["width"] * 5 / 6, area["y"] + area["height"] * share)
    page.mouse.up()
    points = agrees_with_library(page)
    np.testing.assert_allclose(points, [[2, 4], before[1]], atol=0.051)
    page.mouse.move(area["x"] + 20, area["y"] + 20)  # the hand is empty again
    assert agrees_with_library(page) == points
    page.mouse.click(area["x"] + area["width"] / 6, area["y"] + area["height"] * 0.7)
    assert len(agrees_with_library(page)) == 3


def test_of_two_points_the_nearer_is_dragged_and_only_a_click_adds_one(open_page):
    page = open_page()
    area = page.locator(".bw-area").bounding_box()
    x, y = area["x"] + area["width"] / 2, area["y"] + area["height"] / 2
    page.mouse.click(x, y)
    page.mouse.click(x + 20, y)
    before = agrees_with_library(page)
    page.mouse.move(x + 8, y)  # within both circles, nearer to the first
    page.mouse.down()
    page.mouse.move(x + 8, y - 60)
    page.mouse.up()
    after = agrees_with_library(page)
    assert after[1] == before[1] and after[0][1] > before[0][1] + 1
    page.mouse.move(x - 60, y)  # from beside a point
    page.mouse.down()
    page.mouse.move(x - 60, y + 60)
    page.mouse.up()
    assert agrees_with_library(page) == after


def test_a_finger_moves_a_point_and_not_the_page(open_page):
    page = open_page()
    page.evaluate("document.body.style.paddingBottom = '200vh'")
    page.locator("[data-action=next]").click()
    before, grip = agrees_with_library(page), page.locator("[data-point='0']")
    grip.scroll_into_view_if_needed()
    place, top = middle(grip), page.evaluate("scrollY")
    swipe(page, place, (30, -60))
    assert page.evaluate("scrollY") == top
    assert middle(page.locator("[data-point='0']")) == pytest.approx((place[0] + 30, place[1] - 60), abs=6)
    assert agrees_with_library(page) != before
    area = page.locator(".bw-area").bounding_box()  # beside the point a finger scrolls as ever
    swipe(page, (area["x"] + 8, area["y"] + area["height"] - 8), (0, -120))
    assert page.evaluate("scrollY") > top and len(agrees_with_library(page)) == 1


def test_a_wrong_script_is_caught(open_page, tmp_path):
    """The comparison above goes red if the script's arithmetic is off."""
    script = tmp_path / "explorer.js"  # explorers share it
    right = script.read_text("utf-8")
    assert right.count("noise ** 2 + p + 2 * q * t") == 1
    script.write_text(right.replace("noise ** 2 + p + 2 * q * t", "noise ** 2 + p + q * t"), "utf-8")
    page = open_page()
    page.locator("[data-action=next]").click()
    with pytest.raises(AssertionError):
        agrees_with_library(page)


def test_another_line_gives_other_points_and_a_seed_the_same(open_page):
    seen = []
    for _ in range(2):
        page = open_page()
        for _ in range(5):
            page.locator("[data-action=next]").click()
        seen.append(agrees_with_library(page))
        page.locator("[data-action=new]").click()
        for _ in range(5):
            page.locator("[data-action=next]").click()
        seen.append(agrees_with_library(page))
    assert seen[0] == seen[2] and seen[1] == seen[3] and seen[0] != seen[1]


def test_what_is_exact_is_dashed(open_page):
    assert open_page().evaluate("getComputedStyle(document.querySelector('.bw-exact')).strokeDasharray") != "none"

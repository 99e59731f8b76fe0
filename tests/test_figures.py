"""Figures: their words come from the plotted numbers, and every reader can tell the lines apart."""

from __future__ import annotations

import csv
import io
import itertools
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from _support import ROOT

import bayeswind_lib as bw
from bayeswind_lib import figures, stats
from bayeswind_lib.figures import frame, words
from bayeswind_lib.figures.style import COLOURS, PALETTE, line_style

from bayeswind_figures import NARROW, NUMBERS, layouts, numbers_in, words_in

STYLESHEET = (ROOT / "book/_static/book.css").read_text("utf-8")
STAIRS = np.log2(np.arange(8, 0, -1))  # entropy of the exact posterior at V = 8


def score(gap_at: int, gap: float = 0.25, k: int = 8):
    """A made-up score: right everywhere but at one position."""
    error = np.full(k, 0.001)
    error[gap_at] = gap
    measures = ("entropy_mae", "kl", "tv", "support_leak", "cross_entropy_gap")
    return SimpleNamespace(
        oracle_entropy=STAIRS[:k], entropy=STAIRS[:k] + error * (-1) ** np.arange(k),
        per_position=dict.fromkeys(measures, error), entropy_mae=error.mean(), kl=gap,
        per_position_se=dict.fromkeys(measures, error / 10), tv=0.1,
    )  # fmt: skip


def record(last: float):
    rows = [{"step": s, "episodes": 64 * s, "seconds": s / 10, "loss": None if s == 0 else 2.0,
             "entropy_mae": v, "kl": v, "tv": v} for s, v in ((0, 1.1), (10, 0.5), (20, last))]  # fmt: skip
    return {"curve": rows}


def distribution(at: int, value: float = 0.5):
    p = np.full(5, (1 - value) / 4)
    p[at] = value
    return p


def attention(row: int, column: int, size: int = 6):
    pattern = np.tri(size) / np.arange(1, size + 1)[:, None]
    pattern[row] = np.eye(size)[column]
    return torch.tensor(pattern)


def trail(changed: int | None = None):
    """Beliefs about three states at four steps, one of them changed."""
    rows = np.array([[0.2, 0.2, 0.6]] * 4)
    if changed is not None:
        rows[changed] = [0.6, 0.2, 0.2]
    return rows


def survivors(when: float):
    """Four runs: one ends at 1, two later, one never."""
    return stats.survival([1, when, when, 10], [True, True, True, False])


def gaussian(at: int | None = None):
    """Mean and variance at 8 points; one point is off."""
    rows = np.tile([1.0, 4.0], (8, 1))
    if at is not None:
        rows[at] = [1.75, 6.25]
    return rows


even = np.full(5, 0.2)
# One figure of each kind, drawn from two data sets, and how the text names the largest gap of each.
KINDS = {
    "entropy": (lambda d: figures.entropy_by_position({"net": score(*d)}), (3, 0.25), (5, 0.5),
                "largest gap 0.25 bits at position 3", "largest gap 0.5 bits at position 5"),
    "gap": (lambda d: figures.gap_by_position({"net": score(*d)}), (3, 0.25), (5, 0.5),
            "largest gap 0.25 bits at position 3", "largest gap 0.5 bits at position 5"),
    "gap, plain": (lambda d: figures.gap_by_position({"n": score(*d)}, "tv", log=False), (3, 0.25), (5, 0.5),
                   "largest gap 0.25 at position 3", "largest gap 0.5 at position 5"),
    "learning": (lambda d: figures.learning_curves({"net": record(d)}), 0.25, 1.5,
                 "largest gap 1.1 bits to the exact posterior after 0 episodes, 0.25 bits at the end after 1,280 episodes",
                 "largest gap 1.5 bits to the exact posterior after 1,280 episodes"),
    "distributions": (lambda d: figures.distributions(even, {"net": distribution(d)}), 2, 4,
                      "largest gap 0.3 in probability at value 2 (0.5 against 0.2 of the exact posterior)",
                      "largest gap 0.3 in probability at value 4"),
    "truth alone": (figures.distributions, distribution(1), distribution(3),
                    "largest gap 0.3 to a uniform guess at value 1", "uniform guess at value 3"),
    "baselines": (lambda d: figures.baselines({"net": 0.003, "uniform": 1.268, "other": d}, highlight="net"), 0.5, 3.0,
              "largest gap 1.268 bits to the exact posterior: uniform", "largest gap 3 bits"),
    "dots": (lambda d: figures.dots({"plain": [2.0, 2.2], "other": [1.9, d]}, ("truth", 1.8), {"chance": 2.1}, unit="nats", start=1.7),
             2.5, 1.8, "largest gap 0.4 nats to truth: other", "largest gap 0.3 nats to truth: plain"),
    "dot columns": (lambda d: figures.dot_columns({"share": {"net": [0.1, 0.2, d]}, "KL (bits)": {"net": [1, 2, 3], "other": [0, np.nan, 3]}},
                                                  ["a", "b", "c"], levels={"share": 0.5}, log=["KL (bits)"]),
                    0.9, 0.6, "largest gap 0.5 to the mean at c, net; 1 of 3 are above the dotted line at 0.5", "largest gap 0.3 to the mean at c, net"),
    "attention": (lambda d: figures.attention_map(attention(*d)), (4, 1), (5, 0),
                  "largest gap to even attention 0.8 where 4 (token 4) reads 1 (token 1) with weight 1",
                  "where 5 (token 5) reads 0 (token 0)"),
    "scatter": (lambda d: figures.scatter_two_measures({"a": score(*d), "b": {"entropy_mae": 0, "kl": 0.01}}),
                (3, 0.25), (3, 0.75), "largest gap 0.25 bits to the exact posterior in kl divergence: a",
                "largest gap 0.75 bits to the exact posterior in kl divergence: a"),
    "two measures": (lambda d: figures.two_measures({"a": score(*d), "b": {"entropy_mae": 0, "kl": 0.01}}),
                (3, 0.25), (3, 0.75), "largest gap 0.25 bits to the exact posterior in kl divergence: a",
                "largest gap 0.75 bits to the exact posterior in kl divergence: a"),
    "lines": (lambda d: figures.lines({"truth": STAIRS, "guess": STAIRS - 0.5 * np.eye(8)[d]}, exact="truth"),
              2, 6, "largest gap 0.5 bits to truth at 2", "largest gap 0.5 bits to truth at 6"),
    "bands": (lambda d: figures.bands({"exact posterior": gaussian(), "net": gaussian(d)}), 2, 5,
              "largest gap 0.75 to exact posterior in the mean at 2, largest gap 0.5 in the standard deviation at 2",
              "largest gap 0.75 to exact posterior in the mean at 5, largest gap 0.5 in the standard deviation at 5"),
    "ellipses": (lambda d: figures.ellipses({"before": ((0, 0), np.eye(2)), "after": ((1, d), np.eye(2) * d)}), 2.0, 0.5,
                 "largest gap 25.13 to a certain belief in area: after", "largest gap 12.57 to a certain belief in area: before"),
    "heatmaps": (lambda d: figures.heatmaps({"net": np.eye(3)[[d, 1, 2]] * 0.5}, list("abc"), list("uvw"), marked=[1, 1, 2]),
                 1, 0, "mean in the framed cells 0.5, in all 0.17", "mean in the framed cells 0.33, in all 0.17"),
    "planes": (lambda d: figures.planes({"walk": [[0, 0], [3, 4], [3, d]]}, {"walk": [0, 1, 2]}, joined=True), 5, 10,
               "largest gap 5 between neighbours, before point 2", "largest gap 6 between neighbours, before point 3"),
    "clouds": (lambda d: figures.planes({"net": [[0, 0], [1, 0], [d, 1]]}, {"net": [0, 1, 2]}), 3, 5,
               "largest gap 2 in the first coordinate, before 3", "largest gap 4 in the first coordinate, before 5"),
    "simplex": (lambda d: figures.simplex_trails({"exact posterior": trail(), "net": trail(d)}), 1, 3,
                "total variation, largest gap 0.4 at step 2", "total variation, largest gap 0.4 at step 4"),
    "simplex_clouds": (lambda d: figures.simplex_clouds({"exact posterior": trail(), "net": trail(d)}), 1, 3,
               "mean 0.1, largest gap 0.4 at point 2", "mean 0.1, largest gap 0.4 at point 4"),
    "roc": (lambda d: figures.roc_plane({"good": figures.Sign("a", (0, 1), (0.25, d)), "bad": figures.Sign("b", (0, 0), (0.5, 0.5))},
                                        first="one set", then="another", x_label="wrong", y_label="right"),
            1.0, 0.75, "largest gap 0.75 from the diagonal in the end: good", "largest gap 0.5 from the diagonal in the end: good"),
    "survival": (lambda d: figures.survival({"net": survivors(d)}, 10, x_label="episodes", y_label="share"), 3, 5,
                 "from 1 to 0.25, first fall at 1, largest gap 0.5 between neighbours, at 3",
                 "largest gap 0.5 between neighbours, at 5"),
    "stacked": (lambda d: figures.stacked({"a": {"yes": 1, "no": 3}, "b": {"yes": d, "no": 1}}), 3, 0,
                "largest gap 25 percent to the share of all groups together: yes, a",
                "largest gap 20 percent to the share of all groups together: yes, b"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_words_hold_the_largest_gap_and_where_and_follow_the_data(kind):
    make, data, changed, gap, changed_gap = KINDS[kind]
    one, other = make(data), make(changed)
    assert gap in one.alt.lower()
    assert changed_gap in other.alt.lower()
    assert gap not in other.alt.lower()


PAGE = 600  # pixels of a column; a phone has 358, and the narrow layout fills them


@pytest.mark.parametrize("kind", KINDS)
def test_a_drawing_carries_its_words_its_numbers_and_a_narrow_layout(kind):
    make, data, *_ = KINDS[kind]
    plot = make(data)
    content = plot._repr_mimebundle_()["image/svg+xml"]
    assert words_in(content) == plot.alt and numbers_in(content) == plot.to_json()
    wide, narrow = layouts(content)
    assert plot.to_json() not in wide + narrow
    for layout, most in ((wide, 620), (narrow, 400)):
        root = ElementTree.fromstring(layout)
        assert root.get("aria-label") == plot.alt and root.get("role") == "img"
        assert float(root.get("width")) <= most
    assert plot.svg == make(data).svg, "drawn twice, two files"


@pytest.mark.parametrize("kind", KINDS)
def test_colours_and_fonts_are_the_page_s(kind):
    """Every colour is a variable with its light colour behind it, but for the many of a scale; no font is named."""
    make, data, *_ = KINDS[kind]
    content = make(data).svg
    assert "DejaVu" not in content
    alone = re.findall(r"#[0-9a-f]{6}", re.sub(r"var\(--bw-[\w-]+, #[0-9a-f]{6}\)|url\(#\w+\)", "", content))
    assert not alone or kind in ("planes", "clouds", "simplex_clouds")
    for name in set(re.findall(r"var\(--bw-(?!sans)([\w-]+),", content)):
        assert STYLESHEET.count(f"--bw-{name}:") == 2, f"{name} has no light and dark colour in book.css"


@pytest.mark.parametrize("kind", KINDS)
def test_letters_are_large_enough_on_a_phone(kind):
    """At 390 pixels a column has 358: no letter of the narrow layout is smaller than 12 there, 11 in a map."""
    make, data, *_ = KINDS[kind]
    _, narrow = layouts(make(data).svg)
    scale = 358 / float(ElementTree.fromstring(narrow).get("viewBox").split()[2])
    sizes = [float(size) * scale for size in re.findall(r"font-size: ([\d.]+)px", narrow)]
    assert sizes and min(sizes) >= (11 if kind in ("attention", "heatmaps", "planes", "clouds", "simplex_clouds") else 12)


def test_names_of_two_drawings_never_meet():
    """Clips and marks are found by name; on one page two drawings may not have the same."""
    one, other = (set(re.findall(r'id="(bw[^"]+)"', figures.lines({"a": STAIRS + shift}).svg)) for shift in (0, 1))
    assert len(one) > 3 and not (one & other) - {NARROW, NUMBERS}


def test_what_is_hatched_is_seen():
    """A pattern is found under the name that it has in the page."""
    content = figures.stacked({"a": {"yes": 1, "no": 3}}).svg
    names = set(re.findall(r"url\(#(\w+)\)", content))
    assert names and all(f'id="{name}"' in content for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_plotted_numbers_can_be_taken_along(kind):
    make, data, *_ = KINDS[kind]
    plot = make(data)
    header, *rows = csv.reader(io.StringIO(plot.to_csv()))
    assert header == list(plot.heads.values()) and len(set(header)) == len(plot.data)
    for told, column in zip(plot.data.values(), zip(*rows, strict=True), strict=True):
        told = told.tolist()
        assert [type(v)(text) for v, text in zip(told, column, strict=True)] == pytest.approx(
            told, nan_ok=True
        )


def line(plot, label):
    (found,) = [entry for entry in plot.figure.axes[0].lines if entry.get_label() == label]
    return found


def test_columns_of_dots_have_their_rows_from_top_to_bottom_and_leave_out_what_is_not_known():
    plot = figures.dot_columns({"KL": {"net": [0, 1, np.nan], "other": [np.inf, 2, 3]}, "share": {"net": [0.1, 0.2, 0.3]}}, list("abc"), log=["KL"])
    one, other = plot.figure.axes
    assert [text.get_text() for text in one.get_yticklabels()] == ["c", "b", "a"]
    net, beyond, rival, far = one.lines
    heights = net.get_ydata()
    assert heights[0] > heights[1] > heights[2] and np.isnan(net.get_xdata()[[0, 2]]).all() and net.get_xdata()[1] == 1
    for open_mark, place in ((beyond, one.get_xlim()[0]), (far, one.get_xlim()[1])):
        assert len(open_mark.get_xdata()) == 1 and open_mark.get_markerfacecolor() == "#FFFFFF"
        assert abs(np.log(open_mark.get_xdata()[0] / place)) < 2
    assert rival.get_xdata()[1:].tolist() == [2, 3] and len(other.lines[0].get_xdata()) == 3
    assert plot.data["row"].tolist() == list("abcabc") and np.isnan(plot.data["share"][3:]).all()
    with pytest.raises(ValueError, match="a number a row"):
        figures.dot_columns({"KL": {"net": [1, 2]}}, list("abc"))
    with pytest.raises(ValueError, match="at least one"):
        figures.dot_columns({}, list("abc"))


def luminance(colour) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def test_the_oracle_is_dark_and_dashed_and_a_model_is_solid_and_coloured():
    plot = figures.entropy_by_position(
        {"net": score(1), "other": score(2), "guess": score(3)}, dotted=["guess"]
    )
    oracle = line(plot, "exact posterior")
    assert oracle.is_dashed() and oracle.get_linestyle() == "--"
    assert luminance(oracle.get_color()) < 0.02
    np.testing.assert_allclose(oracle.get_ydata(), STAIRS)
    models = [line(plot, label) for label in ("net", "other")]
    assert [m.get_linestyle() for m in models] == ["-", "-"]
    assert line(plot, "guess").get_linestyle() == ":"
    assert len({m.get_color() for m in models} | {oracle.get_color()}) == 3
    assert len({m.get_marker() for m in models}) == 2
    assert all(oracle.get_zorder() > m.get_zorder() for m in models)
    bars = figures.distributions(even, {"net": distribution(2)}).figure.axes[0].containers
    outline, filled = bars[-1][0], bars[0][0]
    assert outline.get_label() and outline.get_facecolor()[3] == 0
    assert outline.get_linestyle() not in ("-", "solid") and filled.get_facecolor()[3] == 1


def linear(colour: str) -> np.ndarray:
    """Linear RGB of a hexadecimal colour (sRGB, IEC 61966-2-1)."""
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, white D65."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    t = np.array(to_xyz) @ rgb.clip(0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
SIGHT = {
    "usual": np.eye(3),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip


def nearest(colours, sight) -> float:
    seen = [lab(SIGHT[sight] @ linear(colour)) for colour in colours]
    return min(float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart_for_every_colour_vision(sight):
    used = [*figures.COLOURS, figures.ORACLE["color"]]
    assert nearest(used, sight) > 15


def test_the_colour_check_bites():
    usual = ["#1F77B4", "#FF7F0E", "#2CA02C", "#D62728", "#9467BD", "#8C564B", "#1A1A1A"]  # tab10
    assert nearest(usual, "deuteranopia") < 15 < nearest(usual, "usual")


def test_lines_are_dark_enough_on_the_light_ground():
    for colour in figures.COLOURS[:4]:
        assert 1.05 / (luminance(colour) + 0.05) >= 3  # WCAG 1.4.11, graphics


def test_zero_and_infinity_have_a_place_and_are_said():
    curve = np.array([0.0, 0.2, np.inf, np.inf, np.inf, 1e-9, 0.1, 0.3])
    result = score(0)
    result.per_position, result.per_position_se = {"kl": curve}, {"kl": np.full(8, np.nan)}
    plot = figures.gap_by_position({"impostor": result})
    assert "largest gap infinite at position 2 and 2 more" in plot.alt
    assert "infinite at 2 to 4 (drawn at the top edge)" in plot.alt
    assert "0 at 0 (drawn at the lower edge)" in plot.alt
    assert "below 3e-7 at 5 (drawn at the lower edge)" in plot.alt
    axes = plot.figure.axes[0]
    up, down = ([m for m in axes.lines if m.get_marker() == kind][0] for kind in "^v")
    low, high = axes.get_ylim()
    assert up.get_xdata().tolist() == [2, 3, 4] and down.get_xdata().tolist() == [0, 5]
    assert (0.5 < up.get_ydata()).all() and (up.get_ydata() < high).all()
    assert (low < down.get_ydata()).all() and (down.get_ydata() < 3e-7).all()
    assert "∞" in [t.get_text() for t in axes.get_yticklabels()]
    drawn = line(plot, "impostor").get_ydata()
    assert np.isnan(drawn[[0, 2, 3, 4, 5]]).all()  # no line leads to a value that is not there


def test_exact_baselines_with_all_their_edges_are_drawn_and_said():
    exact = bw.baselines.exact_baselines(20)
    plot = figures.baselines({name: r["kl"] for name, r in exact.items()}, "kl")
    assert "largest gap infinite to the exact posterior" in plot.alt.lower()
    assert "uniform 1.268 bits" in plot.alt and "no_binding 0 bits" in plot.alt
    assert "position_mean" not in plot.data["predictor"]  # its KL is not defined
    assert (plot.data["kl"][:-1] <= plot.data["kl"][1:]).all()


def test_all_equal_to_the_truth_is_said_as_such():
    tunnel = bw.tunnels.Bijection(5)
    exact = bw.score(tunnel, tunnel, 4, rng=torch.Generator().manual_seed(0))
    for plot in (
        figures.entropy_by_position({"oracle": exact}),
        figures.gap_by_position({"oracle": exact}),
    ):
        assert "largest gap 0 bits, the same everywhere" in plot.alt
        assert len(plot.svg) > 1000


def test_a_real_network_is_beside_its_oracle():
    network = bw.load("bijection-transformer-classroom")
    tunnel = bw.tunnels.Bijection(10)
    result = bw.score(network, tunnel, 32, rng=torch.Generator().manual_seed(0))
    plot = figures.entropy_by_position({"transformer": result})
    gaps = np.abs(result.entropy - result.oracle_entropy)
    assert f"largest gap {words.quantity(gaps.max())} at position {gaps.argmax()}" in plot.alt
    episode = tunnel.sample(1, torch.Generator().manual_seed(0))
    pattern = network.attention_patterns(episode.inputs)[0][0, 0]
    assert figures.attention_map(pattern).data["weight"].sum() == pytest.approx(19, abs=1e-4)


@pytest.mark.parametrize("call, said", [
    (lambda: figures.entropy_by_position({}), "scores is empty"),
    (lambda: figures.entropy_by_position({"a": score(1), "b": score(1, k=5)}), "a 8, b 5"),
    (lambda: figures.gap_by_position({"a": score(1)}, "klx"), "choose one of entropy_mae, kl"),
    (lambda: figures.learning_curves({"a": record(1)}, x="time"), "choose episodes, step or seconds"),
    (lambda: figures.learning_curves({"a": {"curve": [{"step": 0}]}}, x="step"), "'a' has no kl"),
    (lambda: figures.distributions(np.log2(even)), "not their logarithms"),
    (lambda: figures.distributions(even, {"net": np.ones(4) / 4}), r"net has shape \(4,\)"),
    (lambda: figures.baselines({"a": 1.0}, highlight="b"), "highlight names b"),
    (lambda: figures.baselines({"a": float("nan")}), "none of a has a number"),
    (lambda: figures.dots({"a": []}), "a number in each"),
    (lambda: figures.attention_map(np.ones((3, 3))), "do not sum to 1"),
    (lambda: figures.attention_map(np.eye(3), ["x"]), "1 tokens for a pattern of 3"),
    (lambda: figures.lines({"a": [1, 2]}, exact="b"), "exact is 'b'"),
    (lambda: figures.lines({"a": [1, 2]}, [0]), "x has 1 points"),
    (lambda: figures.lines({"a": [1, 2]}, [0, 1], log_x=True), "x begins at 0"),
    (lambda: figures.planes({}, {}), "panels is empty"),
    (lambda: figures.planes({"a": [[0, 1]]}, {"b": [1]}), "panels are a, but values are of b"),
    (lambda: figures.planes({"a": [[0, 1]]}, {"a": [1, 2]}), r"a has points of shape \(1, 2\)"),
    (lambda: figures.simplex_trails({}), "trails is empty"),
    (lambda: figures.simplex_trails({"a": [[0.5, 0.5]]}), r"a has shape \(1, 2\)"),
    (lambda: figures.simplex_trails({"a": np.ones((2, 3))}), "rows of a are no distributions"),
    (lambda: figures.simplex_trails({"a": trail(), "b": trail()[:2]}), "'a': 4, 'b': 2"),
    (lambda: figures.table([]), "at least one row"),
    (lambda: figures.Plot(None, " ", {}), "alt is empty"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_words(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_numbers_read_as_a_person_writes_them():
    told = {0: "0", 0.00312: "0.0031", 0.000312: "3.1e-4", 3e-4: "3e-4", 1.26811: "1.268", 3.0: "3",
            0.1: "0.1", 153.2: "153", -0.25: "-0.25", 1e-9: "1e-9", float("inf"): "infinite",
            2.2e-16: "≈ 0", -3e-17: "≈ 0"}  # fmt: skip
    assert {value: words.number(value) for value in told} == told
    assert words.quantity(float("inf")) == "infinite" and words.quantity(0.0031) == "0.0031 bits"


def test_beliefs_stand_where_the_corners_weigh_them():
    points = figures.on_simplex(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]]))
    sides = [np.linalg.norm(points[i] - points[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(sides, 1)
    np.testing.assert_allclose(points[3], (points[1] + points[2]) / 2)
    plot = figures.simplex_trails({"net": trail(2), "exact posterior": trail()})
    np.testing.assert_allclose(line(plot, "exact posterior").get_xydata(), figures.on_simplex(trail()))
    assert line(plot, "exact posterior").is_dashed() and line(plot, "net").get_linestyle() == "-"
    assert [t.get_text() for t in plot.figure.axes[0].texts][-4:] == ["1", "2", "3", "4"]
    rows = [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]]
    plot = figures.simplex_trails({"exact posterior": trail()}, transition=rows)
    (shaded,), (key,) = plot.figure.axes[0].patches, [plot.figure.axes[0].get_legend()]
    np.testing.assert_allclose(shaded.get_xy()[:3], figures.on_simplex(np.array(rows)))
    assert "all predictions" in [t.get_text() for t in key.get_texts()] and "0.2, 0.6, 0.2" in plot.alt


def test_square_maps_leave_no_room_above():
    plot = figures.heatmaps({name: np.eye(6) for name in "abc"}, list("123456"), list("123456"), x_label="head")
    plot.figure.draw_without_rendering()
    drawn = plot.figure.get_tightbbox().extents / np.tile(plot.figure.get_size_inches(), 2)
    assert drawn[1] < 0.06 and drawn[3] > 0.94


def test_labels_never_cover_each_other():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.uniform(0.05, 0.15, 6).tolist()
        wanted = rng.uniform(0, 1, 6).round(1).tolist()
        got = frame.spread(wanted, sizes)
        boxes = sorted((m - s / 2, m + s / 2) for m, s in zip(got, sizes, strict=True))
        assert all(a[1] <= b[0] + 1e-5 for a, b in itertools.pairwise(boxes))
        assert boxes[0][0] > -1e-5 and boxes[-1][1] < 1 + 1e-5
        order = np.argsort(wanted, kind="stable")
        assert all(got[a] <= got[b] for a, b in itertools.pairwise(order) if wanted[a] < wanted[b])


def test_a_table_is_a_table_for_every_reader():
    shown = figures.table([{"predictor": "a <b>", "KL (bits)": 1.26811, "episodes": 128_000},
                           {"predictor": "c", "KL (bits)": float("inf"), "episodes": None}], "Two rows")  # fmt: skip
    markup = shown._repr_html_()
    assert markup.count('<th scope="col"') == 3 and markup.count('<th scope="row">') == 2
    assert "<caption>Two rows</caption>" in markup and "a &lt;b&gt;" in markup
    assert "1.2681" in markup and ">infinite<" in markup and "ch\">infinite" not in markup and "128,000" in markup
    assert markup.count(' style="text-align:right"') == 6  # heads and cells of both columns of numbers
    rows = str(shown).splitlines()
    assert rows[0] == "Two rows" and len({line.find("infinite") for line in rows} - {-1}) == 1


def test_decimal_points_stand_below_one_another():
    """What stands behind a point, and the room to its right, are as wide in every row of a column."""
    values = [0.0128, 0.61, 12, 2.5e-5, 0, None]
    markup = figures.table([{"of": "a", "KL (bits)": value, "words": "0.5 of 2"} for value in values])._repr_html_()
    cells = re.findall(r'<td style="text-align:right">(?:<span style="margin-right:([\d.]+)ch">)?([^<]*)', markup)
    texts = [text for _, text in cells]
    assert texts == ["0.0128", "0.61", "12", "2.5e-5", "0", "–"] and "margin" not in markup.split("words")[0]
    width = [float(room or 0) + len(text.partition(".")[2]) + ("." in text) / 2 for room, text in cells]
    assert set(width[:-1]) == {4.5}
    assert markup.count("<td>0.5 of 2</td>") == len(values)


def test_glue_speaks_the_wire_format_of_the_book():
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from myst_nb import glue as reference

    shell = InteractiveShell.instance()
    try:
        for value in (0.1 + 0.2, 7, "eight", float("inf")):
            with capture_output() as mine:
                figures.glue("name", value)
            with capture_output() as theirs:
                reference("name", value, display=False)
            (a,), (b,) = mine.outputs, theirs.outputs
            assert a.data == b.data and a.metadata == b.metadata
        for value in (np.float64(0.25), torch.tensor(0.25, dtype=torch.float64), np.float32(0.25)):
            with capture_output() as mine:
                figures.glue("name", value)
            assert mine.outputs[0].data["application/papermill.record/text/plain"] == "0.25"
        with capture_output() as mine:
            figures.gluer("ch3")("name", 7)
        assert mine.outputs[0].metadata["scrapbook"]["name"] == "ch3_name"
        with pytest.raises(TypeError, match="one number"):
            figures.glue("name", torch.zeros(3))
    finally:
        del shell
        InteractiveShell.clear_instance()


def test_importing_is_cheap_and_changes_nothing():
    program = """
import sys, bayeswind_lib as bw
bw.figures.entropy_by_position
slow = [m for m in ("matplotlib", "IPython", "ipywidgets", "pandas") if m in sys.modules]
assert not slow, slow
import matplotlib
def settings():  # asking for the backend would import pyplot
    return {k: matplotlib.rcParams[k] for k in matplotlib.rcParams if not k.startswith("backend")}
before = settings()
bw.figures.baselines({"a": 1.0}).svg
assert settings() == before
assert "matplotlib.pyplot" not in sys.modules
with bw.figures.style():
    assert matplotlib.rcParams["font.size"] == bw.figures.STYLE["font.size"]
assert settings() == before
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_heat_map_may_leave_out_names_and_still_tells_them():
    table = np.zeros((6, 6))
    table[3, 4] = 1
    plot = figures.heatmaps({"net": table}, list("abcdef"), list("uvwxyz"), height=2.5, every=5)
    (pane,) = (axes for axes in plot.figure.axes if axes.patches)
    assert [label.get_text() for label in pane.get_xticklabels()] == ["u", "z"]
    assert [label.get_text() for label in pane.get_yticklabels()] == ["a", "f"]
    assert "at d, y" in plot.alt and plot.figure.get_size_inches()[1] == 2.5


def test_only_names_of_several_letters_are_turned_below_a_heat_map():
    for columns, turn in (("xyz", 0), (["x", "yy", "z"], 90)):
        plot = figures.heatmaps({"net": np.eye(3)}, list("abc"), list(columns))
        (pane,) = (axes for axes in plot.figure.axes if axes.patches)
        assert {label.get_rotation() for label in pane.get_xticklabels()} == {turn}


def test_ticks_of_a_narrow_plot_keep_clear_of_each_other_and_of_the_edge():
    """A phone has room for five powers of ten, and for none beside the words of an edge."""
    for smallest, largest in ((1e-5, 0.7), (1e-9, 5)):
        rows = {"transformer with a convolution": [smallest, largest], "Mamba without a convolution": [1e-4, 0.6]}
        narrow = figures.dots(rows, None, {"nothing learned": 0.5}, log=True).narrow
        (axes,) = narrow.axes
        narrow.canvas.draw()
        boxes = [tick.label1.get_window_extent() for tick in axes.xaxis.get_major_ticks()]
        assert 3 <= len(boxes) <= 5 and all(a.x1 + 5 < b.x0 for a, b in zip(boxes, boxes[1:], strict=False))


def test_a_cloud_says_what_does_not_fit_and_what_falls_outside():
    beyond = trail() + np.array([0.5, 0.0, -0.5]) * 1.5 * np.eye(4)[:, :1]
    told = figures.simplex_clouds({"exact posterior": trail(), "net": beyond}).alt
    assert "share inside the triangle 0.75" in told and "share inside" not in told.split("Net:")[0]
    with pytest.raises(ValueError, match="but the clouds are net"):
        figures.simplex_clouds({"net": trail()})
    with pytest.raises(ValueError, match="must sum to 1"):
        figures.simplex_clouds({"exact posterior": trail(), "net": trail() * 2})
    with pytest.raises(ValueError, match="expected"):
        figures.simplex_clouds({"exact posterior": trail(), "net": trail()[:2]})
    with pytest.raises(ValueError, match="no distributions"):
        figures.simplex_clouds({"exact posterior": beyond})


def test_a_certain_belief_has_the_colour_of_its_corner():
    from bayeswind_lib.figures.simplex import mixed_colours

    blue = mixed_colours(np.eye(3))[0]
    assert [f"{round(255 * c):02X}" for c in blue] == ["00", "72", "B2"] and figures.COLOURS[0] == "#0072B2"


def test_numbers_beside_the_curves_are_kept_too():
    """Dotted lines, observed points and frames are drawn, so they are among the numbers."""
    told = figures.learning_curves({"net": record(0.25)}, levels={"uniform": 1.2}).data
    assert (told["run"][-1], told["kl"][-1]) == ("uniform (dotted line)", 1.2)
    told = figures.bands({"exact posterior": gaussian()}, points=([1.0, 2.5], [3.0, 4.0])).data
    assert told["what happened"][-2:].tolist() == [3.0, 4.0] and told["x"][-2:].tolist() == [1.0, 2.5]
    told = figures.ellipses({"prior": ((0, 0), np.eye(2))}, point=(2.0, 3.0)).data
    assert told["belief"].tolist() == ["prior", "the truth"] and told["first weight"].tolist() == [0.0, 2.0]


def test_a_training_loss_bears_the_unit_in_which_it_is_stored():
    """The loop stores bits: an outcome that is even between two values costs 1, not 0.69."""
    episodes = bw.tunnels.Bijection(2).sample(4, torch.Generator().manual_seed(0))
    loss = float(bw.training.loop.loss_bits(torch.zeros(4, 2, 2), episodes, "sampled"))
    unit = words.measure_name("loss")[1]
    assert (loss, unit) == (1.0, "bits")
    assert "bits" in figures.learning_curves({"a": record(0.1)}, measure="loss").figure.axes[0].get_ylabel()


def test_a_learning_curve_marks_what_lies_below_its_axis():
    curve = [{"episodes": n, "kl": kl} for n, kl in enumerate([5.0, 1e-2, 1e-9, 1e-3, 0.0])]
    axes = figures.learning_curves({"a run": {"curve": curve}}).figure.axes[0]
    marked = [entry.get_xdata() for entry in axes.lines if entry.get_marker() == "v"]
    assert [list(places) for places in marked] == [[2, 4]]


def test_a_few_uneven_whole_numbers_have_a_tick_each():
    ticks = figures.lines({"a": [1, 2, 3, 4]}, [2, 4, 8, 16]).figure.axes[0].get_xticks()
    assert list(ticks) == [2, 4, 8, 16]


def test_no_two_of_ten_lines_look_alike():
    looks = [line_style(index) for index in range(10)]
    assert len({(look["color"], look["marker"]) for look in looks}) == 10


def test_one_thing_looks_the_same_in_two_figures():
    looks = {"network": 3, "level": 4}
    for curves in ({"network": [1, 2], "level": [2, 2]}, {"other": [3, 1], "level": [2, 2], "network": [1, 2]}):
        plot = figures.lines(curves, looks=looks, unmarked=["level"])
        for label, number in looks.items():
            wanted = line_style(number)
            assert line(plot, label).get_color() == wanted["color"]
            assert line(plot, label).get_marker() == ("none" if label == "level" else wanted["marker"])


def test_points_that_are_not_steps_of_one_thing_are_not_joined():
    for joined, style in ((True, "-"), (False, "None")):
        plot = figures.lines({"a": [1, 3, 2]}, [1, 2, 5], joined=joined)
        assert line(plot, "a").get_linestyle() == style and line(plot, "a").get_marker() != "None"


def test_a_number_in_an_array_without_axes_is_rounded_too():
    shown = figures.table([{"m": "1", "bits": np.array(0.4689955935892815)}])
    assert shown.cells == [["1", "0.469"]] and "text-align:right" in shown._repr_html_()


def test_a_failure_is_never_green():
    counts = {"reproduced": 2, "partly": 1, "not reproduced": 3, "not settled": 1, "not testable": 1}
    axes = figures.stacked({"Paper I": counts}).figure.axes[0]
    colour = {bars.get_label(): bars.patches[0].get_facecolor() for bars in axes.containers}
    assert len(set(colour.values())) == 5
    assert np.argmax(colour["reproduced"][:3]) == 1 and np.argmax(colour["not reproduced"][:3]) == 0


def test_survival_goes_in_steps_to_the_end_and_not_beyond_it():
    plot = figures.survival({"a": survivors(3), "none": stats.survival([10], [False])}, 10, x_label="x", y_label="y")
    line = next(line for line in plot.figure.axes[0].lines if line.get_label() == "a")
    assert line.get_drawstyle() == "steps-post"
    assert list(line.get_xdata()) == [0, 1, 3, 10] and list(line.get_ydata()) == [1, 0.75, 0.25, 0.25]
    assert "None: still 1 at 10" in plot.alt
    assert plot.data["curve"].tolist() == ["a", "a", "a", "none"] and plot.data["share"].tolist() == [1, 0.75, 0.25, 1]
    with pytest.raises(ValueError, match="end is 2, and 'a' goes on to 3"):
        figures.survival({"a": survivors(3)}, 2, x_label="x", y_label="y")
    with pytest.raises(ValueError, match="curves is empty"):
        figures.survival({}, 2, x_label="x", y_label="y")


def test_words_in_lines_keep_their_edge_in_any_font():
    """Each line is anchored as the whole is, on a page's column and on a phone: letters there have other widths."""
    label = "a label that is much too long for a single line beside its axis"
    svg = bw.figures.dot_columns({"bits": {"a network": [1.0, 2.0]}}, [label, "short"]).svg
    sheets = dict(re.findall(r"\.([\w-]+)\{(.*?)\}", svg))
    lines = [ElementTree.fromstring(words) for words in re.findall(r"<text[^>]*>[^<]*</text>", svg)]
    broken = [node for node in lines if len(node.text) > 3 and node.text in label and node.text != label]
    assert len(broken) >= 4
    for node in broken:
        assert "text-anchor: end" in sheets.get(node.get("class"), node.get("style") or "") and node.get("transform") is None
    assert len({node.get("x") for node in broken}) == 2  # an edge in each layout


def steps_of(labels, n: int = 12) -> dict:
    """Curves that end at different heights, by label."""
    return {label: np.linspace(1, i / 10, n) for i, label in enumerate(labels)}


def narrow_words(plot) -> tuple:
    """The axes of the narrow layout, the boxes of the labels beside them by what they say, and its legends."""
    (axes,) = plot.narrow.axes
    plot.narrow.canvas.draw()
    return axes, {text.get_text().replace("\n", " "): text.get_window_extent() for text in axes.texts}, plot.narrow.legends


def test_curves_are_labelled_at_their_ends_on_a_phone_too():
    """Beside the axes and inside the figure, in the order of the ends, none on another; the axes keep two fifths of the width."""
    labels = ["window filter, slow chains", "transformer, slow chains", "window filter, fast chains", "transformer"]
    axes, boxes, legends = narrow_words(figures.lines(steps_of(labels)))
    assert not legends and list(boxes) == labels
    box, right = axes.get_window_extent(), axes.figure.bbox.x1
    assert box.width > 0.4 * axes.figure.bbox.width
    assert all(box.x1 < one.x0 and one.x1 <= right for one in boxes.values())
    places = [boxes[label] for label in labels]  # from the lowest end to the highest
    assert all(low.y1 <= high.y0 for low, high in zip(places, places[1:], strict=False))
    samples = [line for line in axes.artists + list(axes.get_children()) if getattr(line, "get_label", str)() == "_sample"]
    assert {sample.get_color() for sample in samples} == set(COLOURS[: len(labels)])


@pytest.mark.parametrize("labels", [
    [f"one of many filters that remember {i}" for i in range(6)],  # higher together than the axes
    ["incomprehensibilities", "transformer"],  # a word wider than the room
])  # fmt: skip
def test_labels_without_room_stand_below_on_a_phone(labels):
    _, boxes, (legend,) = narrow_words(figures.lines(steps_of(labels)))
    assert not boxes and [text.get_text() for text in legend.get_texts()] == labels


def test_a_family_of_dotted_lines_has_a_shade_for_each():
    """Four windows: away from the ground step by step, in both themes; each is a line of its own in both layouts."""
    windows = {f"window {w}": 1 + 6 * i for i, w in enumerate((1, 2, 4, 8))}
    plot = figures.lines(steps_of(windows), dotted=windows, looks=windows)
    for figure in (plot.figure, plot.narrow):
        drawn = [line.get_color() for line in figure.axes[0].lines if line.get_label() in windows]
        assert len(set(drawn)) == 4
    for theme, ground in (("light", 1.0), ("dark", luminance("#14181e"))):
        sheet = STYLESHEET.partition(f'html[data-theme="{theme}"]')[2].partition("}")[0]
        found = [luminance(re.search(rf"--bw-{PALETTE[colour.lower()]}: (#\w+);", sheet)[1]) for colour in drawn]
        contrast = [max(ground + 0.05, one + 0.05) / min(ground + 0.05, one + 0.05) for one in found]
        assert contrast[0] >= 3 and all(far >= 1.2 * near for near, far in zip(contrast, contrast[1:], strict=False)), (theme, contrast)

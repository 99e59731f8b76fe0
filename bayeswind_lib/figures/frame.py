"""What the figures share: labels at the ends of lines, and edges for zero and infinity."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayeswind_lib.figures.style import DARK, GROUND, NARROW, WIDTH
from bayeswind_lib.figures.words import number

DECADES = 6  # a logarithmic axis shows at most so many below its largest number
LABEL_WIDTH = 15  # characters of a label before it is broken into lines
LABEL_WIDTH_NARROW = 12  # on a phone
LETTERS = 11  # of an axis label, per inch
LEGEND_LINE = 0.21  # inches
LINE_HEIGHT = 0.068  # of a line of text, as a share of the axes' height


@dataclass(frozen=True)
class Range:
    """Where numbers are drawn, so that zero and infinity have a place too.

    Attributes:
        low, high: limits of the axis.
        floor, roof: where a number too small (on a logarithmic axis: also zero), or infinite,
            is drawn.
        smallest, largest: of the numbers that have a place of their own.
        log: whether the axis is logarithmic.
        infinite: whether the roof is used.
        edge: what is written at the floor, if it is used.
    """

    low: float
    high: float
    floor: float
    roof: float
    smallest: float
    largest: float
    log: bool
    infinite: bool = False
    edge: str = ""

    def place(self, values: np.ndarray) -> np.ndarray:
        """The values, with what has no place on the axis moved to its edges."""
        values = np.where(np.isposinf(values), self.roof, values)
        return np.where(self.too_small(values), self.floor, values)

    def inside(self, values: np.ndarray) -> np.ndarray:
        """The values, NaN where they have no place of their own: a line breaks there."""
        return np.where(self.too_small(values) | np.isposinf(values), np.nan, values)

    def too_small(self, values: np.ndarray) -> np.ndarray:
        """True where a value is drawn on the floor although it is smaller."""
        return values < self.smallest if self.log else np.zeros(values.shape, dtype=bool)


def value_range(values: np.ndarray, log: bool) -> Range:
    """A range that holds every number, with an edge kept free for infinity if there is one."""
    values = np.asarray(values, dtype=float).ravel()
    finite = values[np.isfinite(values)]
    infinite = bool(np.isposinf(values).any())
    if log:
        return _log_range(finite, infinite)
    low, high = min(finite.min(initial=0), 0), finite.max(initial=0)
    size = (high - low) or 1.0
    roof = high + 0.15 * size
    top = (roof if infinite else high) + 0.05 * size
    bottom = low - (0.04 * size if low < 0 else 0)
    return Range(bottom, top, low, roof, low, high, False, infinite)


def _log_range(finite: np.ndarray, infinite: bool) -> Range:
    positive = finite[finite > 0]
    largest = positive.max() if positive.size else 1.0
    smallest = max(positive.min(initial=largest), largest * 10.0**-DECADES)
    step = 10 ** (0.1 * max(np.log10(largest / smallest), 1.0))  # a tenth of the axis
    below = finite < smallest
    floor = smallest / step if below.any() else smallest
    edge = ("<" if (finite[below] > 0).any() else "0") if below.any() else ""
    edge = f"<{short(10.0 ** np.ceil(np.log10(smallest)))}" if edge == "<" else edge
    top = (largest * step if infinite else largest) * step**0.5
    return Range(
        floor / step**0.4, top, floor, largest * step, smallest, largest, True, infinite, edge
    )


def set_range(axis, limits: Range) -> None:
    """Give an axis (`axes.xaxis` or `axes.yaxis`) its scale and limits."""
    axes, which = axis.axes, axis.axis_name
    if limits.log:
        getattr(axes, f"set_{which}scale")("log")
    getattr(axes, f"set_{which}lim")(limits.low, limits.high)
    if limits.log or limits.infinite:
        ticks = _ticks(axes, which, limits)
        axis.set_ticks(list(ticks), list(ticks.values()))
        axis.set_ticks([], minor=True)


def _ticks(axes, which: str, limits: Range) -> dict[float, str]:
    """Where the ticks of a range with edges stand, and what is written there."""
    if limits.log:
        first, last = np.floor(np.log10(limits.low)), np.ceil(np.log10(limits.high))
        tight = which == "x" and is_narrow(axes)
        step = max(1, int(np.ceil((last - first) / 4)) if tight else int(last - first) // 6)
        parts = (1, 2, 5) if last - first <= 2 else (1,)
        inside = [
            part * 10.0**power for power in np.arange(first, last + 1, step) for part in parts
        ]
        low = limits.smallest * 0.999
        if limits.edge:  # no tick's words in those of the edge
            low = max(low, limits.floor * (limits.high / limits.low) ** (0.22 if tight else 0.12))
    else:
        inside, low = getattr(axes, f"get_{which}ticks")(), limits.low
    high = limits.largest * 1.001 if limits.infinite else limits.high
    ticks = {float(v): short(v) for v in inside if low <= v <= high}
    if limits.edge:
        ticks[limits.floor] = limits.edge
    if limits.infinite:
        ticks[limits.roof] = "∞"
    return dict(sorted(ticks.items()))


def short(value: float) -> str:
    """A tick's text: `0.01`, or a power of ten where that is shorter."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:g}"
    return (
        f"$10^{{{round(np.log10(value))}}}$" if abs(np.log10(value) % 1) < 1e-9 else f"{value:.0e}"
    )


def mark_edges(axes, x: np.ndarray, values: np.ndarray, limits: Range, colour: str) -> None:
    """Open triangles where a value lies beyond an edge: down for too small, up for infinite."""
    for beyond, marker, height in (
        (limits.too_small(values), "v", limits.floor),
        (np.isposinf(values), "^", limits.roof),
    ):
        if beyond.any():
            axes.plot(
                x[beyond],
                np.full(int(beyond.sum()), height),
                marker,
                color=colour,
                markerfacecolor=GROUND,
                markeredgewidth=1.4,
                markersize=8,
                zorder=6,
            )


def edge_words(values: np.ndarray, limits: Range, where: list[str]) -> str:
    """Which values lie beyond an edge, in words; empty if none."""
    parts = []
    infinite, zero = np.isposinf(values), limits.too_small(values) & (values <= 0)
    small = limits.too_small(values) & (values > 0)
    if infinite.any():
        parts.append(f"infinite at {listed(infinite, where)} (drawn at the top edge)")
    if zero.any():
        parts.append(f"0 at {listed(zero, where)} (drawn at the lower edge)")
    if small.any():
        parts.append(
            f"below {number(limits.smallest)} at {listed(small, where)} (drawn at the lower edge)"
        )
    return ", ".join(parts)


def listed(which: np.ndarray, names: list[str]) -> str:
    """The chosen names; runs of neighbours become `3 to 7`.

    >>> listed(np.array([True, True, True, False, True]), list("01234"))
    '0 to 2 and 4'
    """
    runs: list[list[int]] = []
    for index in np.flatnonzero(which):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(int(index))
        else:
            runs.append([int(index)])
    words = []
    for run in runs:
        ends = [str(names[run[0]]), str(names[run[-1]])]
        words += [" to ".join(ends)] if len(run) > 2 else [str(names[i]) for i in run]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


def label_ends(axes, lines: list, heights: list[float]) -> None:
    """Write each line's label to the right of the axes, near its last point and none on another.

    On a phone, where they would meet there, they are named under the axes.

    Args:
        axes: with its final scale and limits.
        lines: matplotlib lines that carry their label.
        heights: where each line ends, in the data's units.
    """
    narrow = is_narrow(axes)
    width, start, step, size = (LABEL_WIDTH_NARROW, 1.04, 0.05, 10) if narrow else (LABEL_WIDTH, 1.025, 0.035, 11.5)
    texts = ["\n".join(textwrap.wrap(str(line.get_label()), width, break_long_words=not narrow)) for line in lines]
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_axes.transform((axes.get_xlim()[1], height))[1]) for height in heights]
    sizes = [LINE_HEIGHT * (text.count("\n") + 1) + 0.02 for text in texts]
    if narrow and (sum(sizes) > 1 or max(len(row) for text in texts for row in text.split("\n")) > width):
        label_below(axes, lines)
        return
    for line, text, middle in zip(lines, texts, spread(wanted, sizes), strict=True):
        sample = type(line)([start, start + step, start + 2 * step], [middle] * 3)
        sample.update_from(line)
        sample.set(transform=axes.transAxes, clip_on=False, label="_sample", markevery=[1])
        sample.set_linewidth(min(line.get_linewidth(), 2.5))
        axes.add_artist(sample)
        axes.text(
            start + 2.7 * step,
            middle,
            text,
            transform=axes.transAxes,
            va="center",
            ha="left",
            color=DARK,
            fontsize=size,
            linespacing=1.05,
        )


def is_narrow(axes) -> bool:
    """Whether a figure is being drawn for a phone, where nothing has room beside the axes."""
    return axes.figure.get_figwidth() < WIDTH


def wrapped(label: str, axes, width: int) -> str:
    """A label in lines of so many characters on a page, and of fewer on a phone."""
    return "\n".join(textwrap.wrap(str(label), round(width * min(axes.figure.get_figwidth() / WIDTH, 1))))


def row_height(names: Sequence[str], width: int, least: float) -> float:
    """Inches from row to row on a phone, for names in lines of `width` characters on a page (`wrapped`)."""
    return max(least, 0.02 + 0.18 * max(len(textwrap.wrap(str(name), round(width * NARROW / WIDTH))) for name in names))


def label_below(axes, lines: list) -> None:
    """Name the lines under the axes; the figure grows by what the names take."""
    columns = 1 if max(len(str(line.get_label())) for line in lines) > 13 else 2
    axes.figure.legend(handles=lines, loc="outside lower left", ncols=columns, handlelength=2.2)
    more = -(-len(lines) // columns) - 1
    axes.figure.set_figheight(axes.figure.get_figheight() + LEGEND_LINE * more)


def panels(axes, n: int, columns: int, height: float, **shared) -> list:
    """Axes for n panels in place of one; on a phone two in a row, each row `height` inches."""
    figure, columns = axes.figure, min(n, columns)
    if is_narrow(axes) and n > 1:
        columns = 2
        figure.set_figheight(height * -(-n // columns))
    axes.remove()
    panes = figure.subplots(-(-n // columns), columns, squeeze=False, **shared).ravel().tolist()
    for pane in panes[n:]:
        pane.remove()
    return panes[:n]


def lay_out(figure) -> None:
    """Give the axes the places that drawing would give them, without drawing."""
    if engine := figure.get_layout_engine():  # a figure without one stands as it was made
        engine.execute(figure)


def wrap_labels(figure) -> None:
    """Break what is written along the axes of a narrow figure where it is longer than they."""
    for axes in figure.axes:
        box = axes.get_position()
        for axis, length in ((axes.xaxis, box.width * figure.get_figwidth()), (axes.yaxis, box.height * figure.get_figheight())):
            axis.label.set_text("\n".join(textwrap.wrap(axis.label.get_text(), max(round(length * LETTERS), 10), break_long_words=False)))


def spread(wanted: list[float], sizes: list[float]) -> list[float]:
    """Middles of boxes of the given sizes, in the same order, as near as can be to the wanted.

    No two boxes overlap, and together they stay within 0..1 if they fit.

    >>> spread([0.5, 0.5], [0.2, 0.2])
    [0.6, 0.4]
    """
    order = sorted(range(len(wanted)), key=lambda i: -wanted[i])
    groups: list[list] = []  # [members, middle of the group, its size]
    for i in order:
        groups.append([[i], wanted[i], sizes[i]])
        while True:
            last = groups[-1]
            last[1] = min(max(last[1], last[2] / 2), 1 - last[2] / 2)
            if (
                len(groups) == 1
                or groups[-2][1] - groups[-2][2] / 2 >= last[1] + last[2] / 2 - 1e-9
            ):
                break
            above = groups[-2]
            members, size = above[0] + last[0], above[2] + last[2]
            middle = sum(wanted[m] for m in members) / len(members)
            groups[-2:] = [[members, middle, size]]
    result = [0.0] * len(wanted)
    for members, middle, size in groups:
        top = middle + size / 2
        for m in members:
            result[m] = round(top - sizes[m] / 2, 6)
            top -= sizes[m]
    return result

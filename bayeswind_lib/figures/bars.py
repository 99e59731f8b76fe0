"""One predictive distribution beside the exact one.

Axes: Y outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bayeswind_lib.figures.frame import is_narrow
from bayeswind_lib.figures.plot import Plot, draw, of_each
from bayeswind_lib.figures.style import GRID, GROUND, ORACLE, line_style
from bayeswind_lib.figures.words import array, largest_gap, number, quantity, sentence

HATCHES = ("", "//", "..", "\\\\", "xx", "++")


def entropy(prob: np.ndarray) -> float:
    """Shannon entropy in bits."""
    some = prob[prob > 0]
    return float(-(some * np.log2(some)).sum()) + 0.0


def divergence(truth: np.ndarray, prob: np.ndarray) -> float:
    """KL(truth || prob) in bits; infinite if `prob` rules out what can happen."""
    some = truth > 0
    with np.errstate(divide="ignore"):
        return max(float((truth[some] * (np.log2(truth[some]) - np.log2(prob[some]))).sum()), 0.0)


def distributions(
    truth: Sequence[float],
    predictions: Mapping[str, Sequence[float]] | None = None,
    labels: Sequence[str] | None = None,
    *,
    exact: str = "exact posterior",
    axis: str = "value",
    title: str = "",
) -> Plot:
    """The exact predictive distribution (dashed outline) and predictions (filled bars).

    Args:
        truth: (Y,) probabilities.
        predictions: (Y,) probabilities by label.
        labels: a name for each outcome; 0, 1, 2, ... by default.
        exact: the label of the truth.
        axis: what an outcome is.
        title: above the axes.
    Raises:
        ValueError: if lengths differ or a row is no distribution.
    """
    rows = {exact: array(truth)} | {k: array(v) for k, v in (predictions or {}).items()}
    for label, row in rows.items():
        if row.shape != rows[exact].shape or row.ndim != 1:
            raise ValueError(f"{label} has shape {row.shape}, {exact} has {rows[exact].shape}")
        if (row < 0).any() or abs(row.sum() - 1) > 1e-5:
            raise ValueError(f"{label} sums to {row.sum():g}: probabilities, not their logarithms")
    names = [str(n) for n in (range(len(rows[exact])) if labels is None else labels)]

    def paint(axes):
        _paint_bars(axes, rows, exact)
        axes.set(xlabel=axis, ylabel="probability")
        axes.set_title(title, pad=7 + 20 * (-(-len(rows) // 2) if len(rows) > 1 else 0))
        step = max(1, -(-len(names) // 12)) if max(map(len, names)) <= 3 else 1
        axes.set_xticks(range(0, len(names), step), names[::step])
        axes.grid(axis="x", visible=False)
        axes.margins(x=0.02)

    impossible = int((rows[exact] == 0).sum())
    parts = [f"Probability of each {axis}."]
    parts.append(
        f"The {exact} (dashed outline) has {quantity(entropy(rows[exact]))} of entropy "
        f"and rules out {impossible} of {len(names)}."
    )
    parts += [
        _compared(label, row, rows[exact], names, axis, exact)
        for label, row in rows.items()
        if label != exact
    ]
    if len(rows) == 1:
        gap = largest_gap(rows[exact] - 1 / len(names), names, "", f"to a uniform guess at {axis}")
        parts.append(sentence(gap))
    return draw(
        paint,
        " ".join([sentence(title), *parts] if title else parts),
        {axis: np.array(names)} | rows,
        heads=of_each(rows, "probability"),
    )


def _compared(label, row, truth, names, axis, exact) -> str:
    at = int(np.argmax(np.abs(row - truth)))
    gap = largest_gap(row - truth, names, "", f"in probability at {axis}")
    pair = f"{number(row[at])} against {number(truth[at])} of the {exact}"
    return sentence(
        f"{label}: entropy {quantity(entropy(row))}, {gap} ({pair}), "
        f"KL {quantity(divergence(truth, row))}, "
        f"total variation {number(np.abs(row - truth).sum() / 2)}"
    )


def _paint_bars(axes, rows, exact) -> None:
    places = np.arange(len(rows[exact]))
    others = [label for label in rows if label != exact]
    share = 0.8 / max(len(others), 1)
    for index, label in enumerate(others):
        middle = places - 0.4 + share * (index + 0.5)
        axes.bar(
            middle,
            rows[label],
            share * 0.94,
            color=line_style(index)["color"],
            label=label,
            hatch=HATCHES[index % len(HATCHES)],
            edgecolor=GROUND,
            linewidth=0,
        )
    edge = {k: ORACLE[k] for k in ("linestyle", "zorder")} | {"edgecolor": ORACLE["color"]}
    axes.bar(
        places,
        rows[exact],
        0.86,
        facecolor="none" if others else GRID,
        linewidth=1.5,
        label=exact,
        **edge,
    )
    if others:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            ncols=1 if is_narrow(axes) else 2,
            borderaxespad=0.2,
            columnspacing=1.2,
            handlelength=1.6,
        )

"""Curves over positions and over training, the exact posterior dashed beside them.

Axes: K scored positions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from bayeswind_lib.figures.frame import (
    Range,
    edge_words,
    label_ends,
    mark_edges,
    set_range,
    value_range,
)
from bayeswind_lib.figures.plot import Plot, draw, of_each
from bayeswind_lib.figures.style import NULL, ORACLE, line_style
from bayeswind_lib.figures.words import (
    array,
    largest_gap,
    measure_name,
    number,
    quantity,
    rounded,
    sentence,
    span,
    with_unit,
)

EXACT = "exact posterior"
POSITION = "position (pairs shown before)"


def lines(
    curves: Mapping[str, Sequence[float]],
    x: Sequence[float] | None = None,
    *,
    exact: str | None = None,
    x_label: str = POSITION,
    y_label: str = "entropy (bits)",
    unit: str = "bits",
    log: bool = False,
    log_x: bool = False,
    dotted: Collection[str] = (),
    unmarked: Collection[str] = (),
    looks: Mapping[str, int] | None = None,
    joined: bool = True,
    title: str = "",
) -> Plot:
    """Curves over a common x axis.

    Args:
        curves: the heights by label, all of one length.
        x: 0, 1, 2, ... by default.
        exact: the label of the curve that is the truth: dashed, and what gaps are measured from.
            Without it the gap between the first curve and the others is said.
        x_label, y_label: words under and beside the axes, with the unit.
        unit: of the heights, for the text.
        log: a logarithmic y axis. log_x: a logarithmic x axis, for x above 0.
        dotted: labels of reference predictors, drawn dotted.
        unmarked: labels of curves without markers, such as one height throughout.
        looks: numbers of colours and markers by label, so that one thing has the same ones in all figures of a page.
        joined: False draws points alone, where neighbours are not steps of one thing.
        title: above the axes.
    Raises:
        ValueError: for no curves, curves of other lengths than x, an `exact` that is none of them, or x of 0 or less with `log_x`.
    """
    heights = {label: array(curve) for label, curve in curves.items()}
    if not heights:
        raise ValueError("curves is empty: give at least one curve")
    length = len(next(iter(heights.values())))
    x = np.arange(length) if x is None else array(x)
    wrong = {label: curve.shape for label, curve in heights.items() if curve.shape != (len(x),)}
    if wrong:
        raise ValueError(f"x has {len(x)} points, but curves have shapes {wrong}")
    if log_x and x.min() <= 0:
        raise ValueError(f"x begins at {x.min():g}: a logarithmic axis has no place for it")
    if exact is not None and exact not in heights:
        raise ValueError(f"exact is {exact!r}, but the curves are {', '.join(heights)}")
    limits = value_range(np.concatenate(list(heights.values())), log)

    def paint(axes):
        set_range(axes.yaxis, limits)
        if log_x:
            axes.set_xscale("log")
        for line in _paint_lines(axes, x, heights, exact, limits, dotted, looks or {}, unmarked):
            line.set_linestyle(line.get_linestyle() if joined else "none")
        axes.set(xlabel=x_label, ylabel=y_label, title=title)
        if log_x:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        else:
            whole_numbers(axes, x)

    base = exact if exact is not None else next(iter(heights))
    alt = f"{y_label} over {x_label}, {number(x[0])} to {number(x[-1])}. "
    alt += " ".join(
        sentence(f"{label}: {span(curve, unit)}" + _gap(curve, heights[base], x, unit, label, base))
        for label, curve in heights.items()
    )
    if len(heights) == 1 and np.isfinite(curve_of(heights)).sum() > 1:
        alt += " " + sentence(
            largest_gap(np.diff(curve_of(heights)), x[1:].tolist(), unit, "between neighbours, at")
        )
    heads = {"x": x_label} | of_each(heights, y_label)
    return draw(paint, sentence(title) + " " + alt if title else alt, {"x": x} | heights, heads=heads)


def curve_of(heights: Mapping[str, np.ndarray]) -> np.ndarray:
    """The only curve."""
    (curve,) = heights.values()
    return curve


def _gap(curve, base_curve, x, unit, label, base) -> str:
    if label == base:
        return ""
    with np.errstate(invalid="ignore"):
        gaps = curve - base_curve
    if np.isnan(gaps).all():  # at no place are there both: how a curve of several points falls or rises by itself
        own = np.isfinite(curve)
        told = [number(v) for v in x[own][1:]]
        return ", " + largest_gap(np.diff(curve[own]), told, unit, "between neighbours, at") if told else ""
    return ", " + largest_gap(gaps, [number(v) for v in x], unit, f"to {base} at")


def _paint_lines(axes, x, heights, exact, limits: Range, dotted, looks: Mapping[str, int] = MappingProxyType({}), unmarked=()) -> list:
    drawn, ends = [], []
    others = [label for label in heights if label != exact]
    for label, curve in heights.items():
        of = len(others) if exact else 1  # gaps seldom lie on each other
        solid = [looks.get(label, others.index(label)), label in dotted, of] if label != exact else []
        look = line_style(*solid) if solid else ORACLE
        if label in unmarked:
            look = look | {"marker": "none"}
        (line,) = axes.plot(x, limits.inside(curve), label=label, **look)
        if label != exact:
            mark_edges(axes, x, curve, limits, look["color"])
        drawn.append(line)
        ends.append(float(limits.place(curve[~np.isnan(curve)])[-1]))  # NaN: not drawn
    if axes.get_xscale() == "log":
        axes.set_xlim(x[0] / (x[-1] / x[0]) ** 0.04, x[-1] * (x[-1] / x[0]) ** 0.04)
    else:
        room = 0.04 * (x[-1] - x[0]) or 0.5
        axes.set_xlim(x[0] - room, x[-1] + room)
    label_ends(axes, drawn, ends)
    return drawn


def whole_numbers(axes, x: np.ndarray) -> None:
    """Ticks at whole numbers where the x values are whole; at a few uneven ones, such as 2, 4, 8."""
    if not np.allclose(x, np.round(x)):
        return
    if len(x) <= 8 and len(set(np.diff(x))) > 1:
        axes.xaxis.set_ticks(x)
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=7))


def entropy_by_position(
    scores: Mapping[str, object],
    oracle: str = EXACT,
    *,
    axis: str = POSITION,
    start: int = 0,
    dotted: Collection[str] = (),
    title: str = "",
) -> Plot:
    """Mean entropy of the prediction at each position beside the exact posterior's, in bits.

    Args:
        scores: a `Score` by label.
        oracle: the label of the exact posterior.
        axis, start: what a position is, and the number of the first.
        dotted: labels of reference predictors, drawn dotted.
        title: above the axes.
    Raises:
        ValueError: if the scores belong to episodes of different lengths.
    """
    truths = [array(score.oracle_entropy) for score in scores.values()]
    _one_length(scores, [len(truth) for truth in truths])
    curves = {oracle: np.mean(truths, axis=0)}
    curves |= {label: array(score.entropy) for label, score in scores.items()}
    x = np.arange(len(truths[0])) + start
    limits = value_range(np.concatenate(list(curves.values())), log=False)

    def paint(axes):
        set_range(axes.yaxis, limits)
        _paint_lines(axes, x, curves, oracle, limits, dotted)
        axes.set(xlabel=axis, ylabel="mean entropy (bits)", title=title)
        whole_numbers(axes, x)

    ends = f"from {number(curves[oracle][0])} to {quantity(curves[oracle][-1])}"
    parts = [f"Mean entropy in bits over {axis}, {x[0]} to {x[-1]}."]
    parts.append(f"The {oracle} (dashed) goes {ends}.")
    for (label, score), truth in zip(scores.items(), truths, strict=True):
        gap = largest_gap(array(score.entropy) - truth, x)
        ends = f"{number(score.entropy[0])} to {quantity(score.entropy[-1])}"
        parts.append(sentence(f"{label}: from {ends}, {gap}"))
    return draw(
        paint,
        " ".join([sentence(title), *parts] if title else parts),
        {"position": x} | curves,
        heads={"position": axis} | of_each(curves, "mean entropy (bits)"),
    )


def _one_length(scores: Mapping, lengths: list[int]) -> None:
    if not scores:
        raise ValueError("scores is empty: give at least one, by label")
    if len(set(lengths)) > 1:
        found = ", ".join(f"{label} {n}" for label, n in zip(scores, lengths, strict=True))
        raise ValueError(f"scores have different numbers of positions: {found}")


def gap_by_position(
    scores: Mapping[str, object],
    measure: str = "kl",
    *,
    log: bool = True,
    band: bool = True,
    axis: str = POSITION,
    start: int = 0,
    dotted: Collection[str] = (),
    title: str = "",
) -> Plot:
    """How far each prediction is from the exact posterior, position by position.

    Args:
        scores: a `Score` by label.
        measure: "kl", "entropy_mae", "tv", "support_leak" or "cross_entropy_gap".
        log: a logarithmic axis. Zero is then drawn at the lower edge; infinity always has an
            edge of its own; both are open triangles, and the text names their positions.
        band: shade two standard errors to both sides.
    """
    words, unit = measure_name(measure)
    curves = {label: rounded(array(score.per_position[measure])) for label, score in scores.items()}
    errors = {label: array(score.per_position_se[measure]) for label, score in scores.items()}
    _one_length(scores, [len(curve) for curve in curves.values()])
    x = np.arange(len(next(iter(curves.values())))) + start
    tops = [curves[label] + 2 * np.nan_to_num(errors[label]) for label in curves if band]
    limits = value_range(np.concatenate([*curves.values(), *tops]), log)

    def paint(axes):
        set_range(axes.yaxis, limits)
        _paint_lines(axes, x, curves, None, limits, dotted)
        for index, label in enumerate(curves if band else ()):
            _paint_band(axes, x, curves[label], errors[label], limits, line_style(index)["color"])
        axes.set(xlabel=axis, ylabel=with_unit(words, unit), title=title)
        whole_numbers(axes, x)

    names = [str(v) for v in x]
    parts = [
        f"{with_unit(words, unit)} over {axis}, {x[0]} to {x[-1]}"
        + (", logarithmic." if log else ".")
    ]
    for label, curve in curves.items():
        edges = edge_words(curve, limits, names)
        listed = f"{label}: mean {quantity(curve.mean(), unit)}, {largest_gap(curve, names, unit)}"
        parts.append(sentence(listed + (f"; {edges}" if edges else "")))
    spread = {f"{label} (standard error)": e for label, e in errors.items()}
    heads = {"position": axis} | of_each((*curves, *spread), with_unit(words, unit))
    alt = " ".join([sentence(title), *parts] if title else parts)
    return draw(paint, alt, {"position": x} | curves | spread, heads=heads)


def _paint_band(axes, x, curve, error, limits: Range, colour: str) -> None:
    error, curve = np.nan_to_num(error), limits.inside(curve)
    low, high = limits.place(curve - 2 * error), limits.place(curve + 2 * error)
    axes.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0, zorder=2)


def learning_curves(
    records: Mapping[str, Mapping],
    x: str = "episodes",
    measure: str = "kl",
    *,
    log: bool = True,
    levels: Mapping[str, float] | None = None,
    marks: Mapping[str, Sequence[float]] | None = None,
    title: str = "",
) -> Plot:
    """A measure on the run's fixed evaluation episodes while the network was trained.

    Args:
        records: a network's record (or any dict with a `curve`) by label.
        x: "episodes", "step" or "seconds".
        measure: "kl", "entropy_mae", "tv" or "loss".
        log: a logarithmic y axis.
        levels: horizontal dotted lines by label, for example the score of a uniform guess.
        marks: rings on the curves, by label the places on the x axis: where the stages of a curriculum ended.
    Raises:
        ValueError: if a record's curve lacks what is to be plotted.
    """
    words, unit = measure_name(measure)
    runs = {label: _run(label, record, x, measure) for label, record in records.items()}
    if not runs:
        raise ValueError("records is empty: give at least one, by label")
    levels = dict(levels or {})
    everything = [*(y for _, y in runs.values()), np.array(list(levels.values()), dtype=float)]
    limits = value_range(np.concatenate(everything), log)
    x_words = {
        "episodes": "episodes seen",
        "step": "training steps",
        "seconds": "seconds of training",
    }

    def paint(axes):
        set_range(axes.yaxis, limits)
        drawn, ends = [], []
        for index, (label, (where, y)) in enumerate(runs.items()):
            look = line_style(index) | {"markevery": max(len(y) // 8, 1)}
            drawn += axes.plot(where, limits.inside(y), label=label, **look)
            mark_edges(axes, where, y, limits, look["color"])
            ends.append(limits.place(y)[-1])
            rings = array((marks or {}).get(label, []))
            axes.plot(rings, limits.inside(np.interp(rings, where, y)), "o", markersize=9, fillstyle="none", color=look["color"])
        for label, level in levels.items():
            drawn.append(axes.axhline(level, label=label, **NULL))
            ends.append(level)
        axes.set(xlabel=x_words[x], ylabel=with_unit(words, unit), title=title)
        _thousands(axes)
        label_ends(axes, drawn, ends)

    parts = [f"{with_unit(words, unit)} over {x_words[x]}" + (", logarithmic." if log else ".")]
    parts += [_run_words(label, where, y, x, measure) for label, (where, y) in runs.items()]
    parts += [
        sentence(f"Rings on {label}: {', '.join(_count(v, x) for v in places)}") for label, places in (marks or {}).items()
    ]
    parts += [sentence(f"Dotted line, {label}: {quantity(v, unit)}") for label, v in levels.items()]
    dotted = {f"{label} (dotted line)": ([np.nan], [level]) for label, level in levels.items()}
    rows = runs | dotted
    data = {
        "run": np.concatenate([[label] * len(y) for label, (_, y) in rows.items()]),
        x: np.concatenate([where for where, _ in rows.values()]),
        measure: np.concatenate([y for _, y in rows.values()]),
    }
    heads = {x: x_words[x], measure: with_unit(words, unit)}
    return draw(paint, " ".join([sentence(title), *parts] if title else parts), data, heads=heads)


def _run(label: str, record: Mapping, x: str, measure: str) -> tuple[np.ndarray, np.ndarray]:
    if x not in ("episodes", "step", "seconds"):
        raise ValueError(f"x is {x!r}: choose episodes, step or seconds")
    rows = [row for row in record["curve"] if row.get(measure) is not None]
    if not rows:
        raise ValueError(f"the curve of {label!r} has no {measure}")
    return array([row[x] for row in rows]), array([row[measure] for row in rows])


def _run_words(label: str, where: np.ndarray, y: np.ndarray, x: str, measure: str) -> str:
    unit, places = measure_name(measure)[1], [_count(v, x) for v in where]
    truth = "zero loss" if measure == "loss" else "the exact posterior"
    gap = largest_gap(y, places, unit, f"to {truth} after")
    return sentence(f"{label}: {gap}, {quantity(y[-1], unit)} at the end after {places[-1]}")


def _count(value: float, x: str) -> str:
    singular = {"episodes": "episode", "step": "step", "seconds": "second"}[x]
    return f"{value:,.0f} {singular}{'' if value == 1 else 's'}"


def _thousands(axes) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _count_short(value)))


def _count_short(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if abs(value) >= 1e4 else f"{value:g}"


def survival(curves: Mapping[str, Mapping], end: float, *, x_label: str, y_label: str, title: str = "") -> Plot:
    """Kaplan-Meier curves: the share of runs to which something has not happened yet.

    Args:
        curves: by label `at`, `share`, `low` and `high`, as `stats.survival` gives them.
        end: where nobody looked any more; every curve is drawn to there.
        x_label, y_label: words under and beside the axes.
    Raises:
        ValueError: for no curves, or a curve that goes on beyond `end`.
    """
    if not curves:
        raise ValueError("curves is empty: give at least one, by label")
    for label, curve in curves.items():
        if max(curve["at"]) > end:
            raise ValueError(f"end is {end:g}, and {label!r} goes on to {max(curve['at']):g}: give the last time at which anybody looked")

    def paint(axes):
        drawn = []
        axes.set(xlabel=x_label, ylabel=y_label, title=title, ylim=(-0.03, 1.03), xlim=(0, end))
        for index, (label, curve) in enumerate(curves.items()):
            look = line_style(index, of=len(curves)) | {"drawstyle": "steps-post"}
            drawn += axes.plot([*curve["at"], end], [*curve["share"], curve["share"][-1]], label=label, **look)
        _thousands(axes)
        label_ends(axes, drawn, [curve["share"][-1] for curve in curves.values()])

    alt = f"{sentence(title)} " if title else ""
    alt += f"{y_label} over {x_label}, 0 to {end:,.6g}. "
    alt += " ".join(sentence(f"{label}: {_survival_words(curve, end)}") for label, curve in curves.items())
    names = ("at", "share", "low", "high")
    data = {"curve": np.concatenate([[label] * len(curve["at"]) for label, curve in curves.items()])}
    data |= {name: np.concatenate([array(curve[name]) for curve in curves.values()]) for name in names}
    heads = {"at": x_label, "share": y_label, "low": "lower end of its 95 % interval", "high": "upper end of its 95 % interval"}
    return draw(paint, alt.strip(), data, heads=heads)


def _survival_words(curve: Mapping, end: float) -> str:
    at, share = array(curve["at"]), array(curve["share"])
    if len(at) == 1:
        return f"still {number(share[0])} at {end:,.6g}"
    fall = int(np.argmin(np.diff(share)))
    return (
        f"from 1 to {number(share[-1])}, first fall at {at[1]:,.6g}, "
        f"largest gap {number(share[fall] - share[fall + 1])} between neighbours, at {at[fall + 1]:,.6g}"
    )

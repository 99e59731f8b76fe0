"""The three keys explorer: one query, values in a plane, and one step along the two laws of Paper II.

The book's pages carry its twin, `book/_static/threekeys_explorer.js`, which needs no kernel.

Axes: J = 3 keys, 2 coordinates.
"""

from __future__ import annotations

import html

import ipywidgets
import numpy as np

from bayeswind_lib import figures
from bayeswind_lib.dynamics import three_keys
from bayeswind_lib.figures.style import COLOURS, GREY

SCORES = (0.5, 0.0, -0.5)
VALUES = ((1.2, 0.3), (-0.8, 1.0), (-0.2, -1.2))
ERROR = (1.0, 0.4)


def three_keys_explorer(rate: float = 1.0) -> ThreeKeysExplorer:
    """Controls and pictures for one query that looks at three keys.

    Args:
        rate: size of the step, 0 to 4.
    """
    return ThreeKeysExplorer(rate)


class ThreeKeysExplorer(ipywidgets.VBox):
    """Sliders for the error, the step and the scores; two pictures, a table and a sentence.

    Attributes:
        across, upwards, rate, moves: the controls; setting their `value` redraws.
        scores: three sliders.
        take, again: buttons: take the step, and start again.
        values: where the values are now, float64 (3, 2).
        step: what is shown (`dynamics.three_keys.Step`).
        plane, bars, numbers: what is drawn (two `figures.Plot`, a `figures.Table`).
        words: what the step does, in words.
    """

    def __init__(self, rate: float = 1.0):
        self.across, self.upwards = (_slider(x, -2, 2, 0.1, words) for x, words in zip(ERROR, ("error, across", "error, up"), strict=True))
        self.rate = _slider(rate, 0, 4, 0.05, "step size")
        self.scores = [_slider(s, -4, 4, 0.1, f"score {j + 1}") for j, s in enumerate(SCORES)]
        self.moves = ipywidgets.RadioButtons(options=three_keys.MOVES, value="both", description="moves")
        self.take = ipywidgets.Button(description="Take the step")
        self.again = ipywidgets.Button(description="Start again")
        self.values, self.taken, self._held = np.array(VALUES), 0, False
        self._error, self._scores = np.array(ERROR), np.array(SCORES)
        self._page = ipywidgets.HTML()
        controls = [self.across, self.upwards, self.rate, *self.scores, self.moves]
        super().__init__([*controls, ipywidgets.HBox([self.take, self.again]), self._page])
        for control in controls:
            control.observe(self._moved, "value")
        self.take.on_click(lambda _: self._take())
        self.again.on_click(lambda _: self._set(np.array(SCORES), np.array(VALUES), np.array(ERROR), 0))
        self._redraw()

    def _moved(self, _=None) -> None:
        """A reader moved a control. What a step left between two places of a slider stays as it is."""
        if self._held:
            return
        for held, sliders in ((self._error, (self.across, self.upwards)), (self._scores, self.scores)):
            for i, control in enumerate(sliders):
                if abs(control.value - _placed(held[i], control)) > 1e-9:
                    held[i] = control.value
        self._redraw()

    def _take(self) -> None:
        now = self.step
        self._set(now.new_scores, now.new_values, now.new_context - now.target, self.taken + 1)

    def _set(self, scores: np.ndarray, values: np.ndarray, error: np.ndarray, taken: int) -> None:
        self._scores, self.values, self._error, self.taken = scores.copy(), values.copy(), error.copy(), taken
        self._held = True
        for control, value in zip((self.across, self.upwards, *self.scores), (*error, *scores), strict=True):
            control.value = _placed(value, control)
        self._held = False
        self._redraw()

    def _redraw(self) -> None:
        now = self.step = three_keys.step(self._scores, self.values, self._error, self.rate.value, self.moves.value)
        self.plane, self.words = _plane(now), self._words()
        names = [f"key {j + 1}" for j in range(3)]
        self.bars = figures.draw(
            lambda axes: _paint_bars(axes, now),
            "Attention before and after the step: "
            + ", ".join(f"{n} {a:.3f} to {b:.3f}" for n, a, b in zip(names, now.pattern, now.new_pattern, strict=True)) + ".",
            {"key": np.array(names), "before": now.pattern, "after": now.new_pattern}, height=2.4,
        )
        self.numbers = figures.table([
            {
                "key": name, "b": now.compatibility[j], "advantage": now.advantage[j],
                "score moves": now.new_scores[j] - now.scores[j],
                "value moves": float(np.linalg.norm(now.new_values[j] - now.values[j])),
            }
            for j, name in enumerate(names)
        ], caption=f"What the query gets now, the baseline: {now.baseline:.3f}")  # fmt: skip
        self._page.value = (
            f'<p role="status">{html.escape(self.words)}</p>{self.plane.to_html()}{self.bars.to_html()}'
            f"{self.numbers._repr_html_()}"
        )

    def _words(self) -> str:
        now, best = self.step, int(self.step.advantage.argmax())
        taken = {0: "No step", 1: "1 step"}.get(self.taken, f"{self.taken} steps")
        ratio = f", {now.actual / now.predicted:.2f} times as much. " if abs(now.predicted) > 1e-9 else ". "
        return (
            f"{taken} taken. The loss is {now.loss:.3f}; the next step should change it by {now.predicted:.3f}, to first "
            f"order, and changes it by {now.actual:.3f}{ratio}Key {best + 1} has the largest advantage, "
            f"{now.advantage[best]:+.2f}; its attention goes from {now.pattern[best]:.2f} to {now.new_pattern[best]:.2f}."
        )


def _slider(value: float, low: float, high: float, step: float, words: str) -> ipywidgets.FloatSlider:
    return ipywidgets.FloatSlider(value, min=low, max=high, step=step, description=words, continuous_update=False)


def _placed(value: float, control: ipywidgets.FloatSlider) -> float:
    """The place of a slider that is nearest to a value."""
    return float(np.clip(round(value / control.step) * control.step, control.min, control.max))


def _plane(now: three_keys.Step) -> figures.Plot:
    """Values, their steps, the context and the error in the plane."""
    def paint(axes):
        def arrow(a, b, colour, wide):
            axes.annotate("", b, a, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": wide, "shrinkA": 0, "shrinkB": 0})
        for j, (v, moved) in enumerate(zip(now.values, now.new_values, strict=True)):
            arrow((0, 0), v, GREY, 1.6)
            if np.linalg.norm(moved - v) > 1e-3:
                arrow(v, moved, COLOURS[0], 2.4)
            axes.annotate(str(j + 1), v, xytext=(6, 6), textcoords="offset points", weight="bold")
        arrow(now.context, now.context + now.error, COLOURS[1], 2.8)
        axes.plot(*now.context, "o", color="#1A1A1A", label="context")
        axes.plot(*now.target, "+", color="#1A1A1A", markersize=12, markeredgewidth=2, label="wanted")
        axes.plot(*now.new_context, "o", markerfacecolor="none", markersize=9, color=COLOURS[0], label="context after")
        axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xlabel="first coordinate", ylabel="second coordinate")
        axes.legend(fontsize=9, loc="upper left")

    points = {"context": (now.context, now.new_context), "error": (now.context, now.context + now.error), "wanted": (now.target, now.target)}
    points |= {f"value {j + 1}": (v, w) for j, (v, w) in enumerate(zip(now.values, now.new_values, strict=True))}
    told = ", ".join(f"{name} {_pair(a)} to {_pair(b)}" for name, (a, b) in points.items())
    data = {"what": np.array(list(points))} | {
        f"{name} {axis}": np.array([pair[end][i] for pair in points.values()])
        for end, name in enumerate(("from", "to")) for i, axis in enumerate(("x", "y"))
    }
    return figures.draw(paint, f"The plane of the values: {told}.", data, height=4.4)


def _pair(point: np.ndarray) -> str:
    return f"({point[0]:.2f}, {point[1]:.2f})"


def _paint_bars(axes, now: three_keys.Step) -> None:
    places = np.arange(len(now.pattern))
    axes.bar(places - 0.19, now.pattern, 0.36, color="#CFE3F1", edgecolor=GREY, label="before")
    axes.bar(places + 0.19, now.new_pattern, 0.36, color=COLOURS[0], label="after")
    axes.set(ylim=(0, 1.05), ylabel="attention", xlabel="key")
    axes.set_xticks(places, [str(j + 1) for j in places])
    axes.legend(fontsize=9)

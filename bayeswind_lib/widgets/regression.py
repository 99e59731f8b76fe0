"""The regression explorer: points on a line's plane, the belief about the line, and its predictions.

The line y = w_1 + w_2 t is regression with x = (1, t), so that intercept and slope are the weights.
The book's pages carry its twin, `book/_static/regression_explorer.js`, which needs no kernel.

Axes: N points shown, G places on the t axis.
"""

from __future__ import annotations

import html
import math

import ipywidgets
import torch
from torch.nn import functional as F

from bayeswind_lib import figures
from bayeswind_lib.scoring import gaussian_entropy_bits, gaussian_kl_bits
from bayeswind_lib.tunnels.regression import posterior, weight_belief

MOST = 12  # points of an episode
EXACT, SHORT = "exact prediction", "short memory"


def line_predictions(
    t: torch.Tensor, y: torch.Tensor, places: torch.Tensor, noise: float
) -> torch.Tensor:
    """Exact mean and variance of y at some places, given the points (t, y): float64 (G, 2).

    Args:
        t, y: float64 (N,).
        places: float64 (G,), where y is asked.
        noise: standard deviation of y around the line.
    """
    x = torch.stack([torch.ones_like(t), t], -1).expand(len(places), -1, -1)  # (G, N, 2)
    asked = torch.stack([torch.ones_like(places), places], -1)[:, None]  # (G, 1, 2)
    heights = F.pad(y.expand(len(places), -1), (0, 1))  # the last is asked, not known
    return posterior(torch.cat([x, asked], 1), heights, noise)[:, -1]


def line_belief(
    t: torch.Tensor, y: torch.Tensor, noise: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean (2,) and covariance (2, 2) of intercept and slope, given the points: float64."""
    x = torch.stack([torch.ones_like(t), t], -1)
    mean, covariance = weight_belief(x[None], y[None], noise)
    return mean[0, -1], covariance[0, -1]


def regression_explorer(seed: int = 0) -> RegressionExplorer:
    """Controls and pictures for points around one hidden line."""
    return RegressionExplorer(seed)


class RegressionExplorer(ipywidgets.VBox):
    """Sliders for the points shown, the noise, a short memory and the place asked; two pictures.

    Attributes:
        points, noise, memory, asked, seed: the controls; setting their `value` redraws.
        t, y: all points of the episode, also those not shown yet, float64 (12,).
        prediction, short: float64 (2,), mean and variance at the place asked: exact, and of one
            who remembers the last points only.
        bands, weights: what is drawn (`figures.Plot`).
        words: sentences on the prediction at hand.
    """

    def __init__(self, seed: int = 0):
        self.points = ipywidgets.IntSlider(
            3, 0, MOST, description="points shown", continuous_update=False
        )
        self.noise = ipywidgets.FloatSlider(
            0.5, min=0.1, max=1.5, step=0.1, description="noise", continuous_update=False
        )
        self.memory = ipywidgets.IntSlider(
            2, 0, 6, description="memory", continuous_update=False
        )
        self.asked = ipywidgets.FloatSlider(
            1.0, min=-3, max=3, step=0.1, description="asked at t", continuous_update=False
        )
        self.seed = ipywidgets.BoundedIntText(seed, 0, 2**31 - 1, description="seed")
        self._page = ipywidgets.HTML()
        controls = [self.points, self.noise, self.memory, self.asked, self.seed]
        super().__init__([*controls, self._page])
        for control in controls:
            control.observe(self._redraw, "value")
        self._redraw()

    def _draw_points(self) -> None:
        """The same line, places and shocks for a seed, whatever the noise."""
        rng = torch.Generator().manual_seed(self.seed.value)
        line, t, shock = (
            torch.randn(n, generator=rng, dtype=torch.float64) for n in (2, MOST, MOST)
        )
        self.t = t.clamp(-3, 3)
        self.y = line[0] + line[1] * self.t + self.noise.value * shock

    def _redraw(self, _=None) -> None:
        self._draw_points()
        n, noise = self.points.value, self.noise.value
        t, y = self.t[:n], self.y[:n]
        late = max(n - self.memory.value, 0)
        places = torch.linspace(-3, 3, 61, dtype=torch.float64)
        asked = torch.tensor([self.asked.value], dtype=torch.float64)
        self.prediction = line_predictions(t, y, asked, noise)[0]
        self.short = line_predictions(t[late:], y[late:], asked, noise)[0]
        self.bands = figures.bands(
            {
                EXACT: line_predictions(t, y, places, noise),
                SHORT: line_predictions(t[late:], y[late:], places, noise),
            },
            places, exact=EXACT, points=(t, y), x_label="t", title="What y will be seen at t",
        )  # fmt: skip
        self.weights = figures.ellipses(
            {f"after {_points(k)}": line_belief(t[:k], y[:k], noise) for k in sorted({0, n // 2, n})},
            x_label="intercept", y_label="slope", title="The belief about the line",
        )  # fmt: skip
        self.words = self._words(n)
        self._page.value = (
            f'<p role="status">{html.escape(self.words)}</p>'
            f"{self.bands.to_html()}{self.weights.to_html()}"
        )

    def _words(self, n: int) -> str:
        _, covariance = line_belief(self.t[:n], self.y[:n], self.noise.value)
        learned = -0.5 * math.log2(float(torch.linalg.det(covariance)))
        entropy = float(gaussian_entropy_bits(self.prediction))
        kl = float(gaussian_kl_bits(self.prediction, self.short))
        return (
            f"After {_points(n)}, {abs(learned):.2f} bits are learned about the line. At "
            f"t = {self.asked.value:.1f} the exact prediction is {_pair(self.prediction)} (one standard "
            f"deviation), entropy {entropy:.2f} bits. A memory of {_points(self.memory.value)} "
            f"predicts {_pair(self.short)}, KL {kl:.3f} bits."
        )


def _points(count: int) -> str:
    return f"{count} point{'' if count == 1 else 's'}"


def _pair(moments: torch.Tensor) -> str:
    return f"{float(moments[0]):.2f} ± {float(moments[1].sqrt()):.2f}"

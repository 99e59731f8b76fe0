"""The hazard explorer: a chain with two states, its exact log odds, and an integrator that leaks.

The book's pages carry its twin, `book/_static/hazard_explorer.js`, which needs no kernel.

Axes: K steps.
"""

from __future__ import annotations

import ipywidgets
import numpy as np

from bayeswind_lib import figures
from bayeswind_lib.baselines import switching

STEPS = 40  # of the sequence that is drawn
KEEPS = np.linspace(0, 1, 51)
EXACT, LEAKY, SUM = "exact filter", "leaky integrator", "no leak"


def hazard_explorer(hazard: float = 0.1, reliability: float = 0.7, seed: int = 0) -> HazardExplorer:
    """Controls and pictures for one sequence of a chain with two states.

    Args:
        hazard: how probable a change is at each step, 0.01 to 0.5.
        reliability: how probable it is that a symbol names the right state, 0.55 to 0.95.
        seed: of the sequence.
    """
    return HazardExplorer(hazard, reliability, seed)


class HazardExplorer(ipywidgets.VBox):
    """Sliders for the chain and for the integrator, then two pictures and a sentence.

    Attributes:
        hazard, reliability, keep, seed: the controls; setting their `value` redraws.
        states, symbols: of the sequence drawn, int64 (K,).
        expected: float64 (51,), mean KL in bits of the integrators that keep 0, 0.02, ..., 1.
        odds, leaks: what is drawn (`figures.Plot`).
        words: two sentences on what is drawn.
    """

    def __init__(self, hazard: float = 0.1, reliability: float = 0.7, seed: int = 0):
        self.hazard = _slider(hazard, 0.01, 0.5, 0.01, "hazard")
        self.reliability = _slider(reliability, 0.55, 0.95, 0.01, "reliability")
        self.keep = _slider(0.9, 0.0, 1.0, 0.02, "kept")
        self.seed = ipywidgets.BoundedIntText(seed, 0, 2**31 - 1, description="seed")
        self._page = ipywidgets.HTML()
        controls = [self.hazard, self.reliability, self.keep, self.seed]
        super().__init__([*controls, self._page])
        for control in controls:
            control.observe(self._redraw, "value")
        self._redraw()

    def _redraw(self, _=None) -> None:
        hazard, reliability, keep = (c.value for c in (self.hazard, self.reliability, self.keep))
        rng = np.random.default_rng(self.seed.value)
        self.states, self.symbols = switching.sample(hazard, reliability, STEPS, rng)
        given = switching.evidence(self.symbols, reliability)
        exact, held = switching.filtered(given, hazard), switching.leaky(given, keep)
        curves = {EXACT: exact, LEAKY: held, SUM: switching.leaky(given, 1.0)}
        self.odds = figures.lines(
            curves, range(1, STEPS + 1), exact=EXACT, dotted=[SUM], unit="nats", x_label="step",
            y_label="log odds of state 1 (nats)", title="One sequence",
        )
        self.expected = switching.expected_kl(hazard, reliability, KEEPS)
        self.leaks = figures.lines(
            {"expected KL": self.expected}, KEEPS, x_label="kept from one step to the next",
            y_label="KL divergence (bits)", title="All sequences",
        )
        self.words = self._words(exact, held)
        trail = "".join(map(str, self.states)), "".join(map(str, self.symbols))
        self._page.value = (
            f'<p role="status">{self.words}</p><p>states&nbsp; <code>{trail[0]}</code><br>symbols '
            f"<code>{trail[1]}</code></p>{self.odds.to_html()}{self.leaks.to_html()}"
        )

    def _words(self, exact: np.ndarray, held: np.ndarray) -> str:
        best = int(self.expected.argmin())
        here = switching.expected_kl(self.hazard.value, self.reliability.value, [self.keep.value])[0]
        sides = int(((exact > 0) != (held > 0)).sum())
        return (
            f"An integrator that keeps {self.keep.value:.2f} is {here:.4f} bits from the exact filter on "
            f"average; the best one keeps {KEEPS[best]:.2f} and is {self.expected[best]:.4f} bits away. "
            f"In this sequence the two name different states at {sides} of {STEPS} steps."
        )


def _slider(value: float, low: float, high: float, step: float, words: str) -> ipywidgets.FloatSlider:
    return ipywidgets.FloatSlider(
        value, min=low, max=high, step=step, description=words, continuous_update=False
    )

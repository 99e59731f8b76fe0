"""The bijection explorer: reveal pairs one by one, watch the posterior and its entropy.

The book's pages carry its twin, `book/_static/bijection_explorer.js`, which needs no kernel.

Axes: K questions (scored positions), V values.
"""

from __future__ import annotations

import html

import ipywidgets
import numpy as np
import torch

from bayeswind_lib import figures
from bayeswind_lib.scoring import Predictor, entropy_bits, kl_bits
from bayeswind_lib.tunnels import Bijection

MODES = {"distinct keys": False, "keys with replacement": True}
NETWORK = "network"


def bijection_explorer(model: Predictor | None = None, n_values: int = 10, seed: int = 0) -> BijectionExplorer:
    """Controls and pictures for one episode of the bijection tunnel.

    Args:
        model: a network (anything with `predict`) whose answer stands beside the exact
            posterior; None shows the exact posterior alone.
        n_values: V at the start; a network fixes it to its own.
        seed: of the episode.
    """
    return BijectionExplorer(model, n_values, seed)


class BijectionExplorer(ipywidgets.VBox):
    """A slider for the pairs shown, a menu for the keys, V and the seed; below them the pictures.

    Attributes:
        pairs, mode, size, seed: the controls; setting their `value` redraws.
        episode: all its pairs, also those not shown yet (`Episodes` of length 1).
        posterior: float64 (K, V), exact, at every question.
        prediction: float64 (K, V) log2-probabilities of the network, or None.
        bars, stairs: what is drawn (`figures.Plot`).
        words: one sentence on the question at hand.
    """

    def __init__(self, model=None, n_values: int = 10, seed: int = 0):
        self.model = model
        if model is not None:
            n_values = model.config.n_outputs
        self.pairs = ipywidgets.IntSlider(
            0, 0, n_values - 1, description="pairs shown", continuous_update=False
        )
        self.mode = ipywidgets.Dropdown(options=list(MODES), description="asked are")
        self.size = ipywidgets.IntSlider(
            n_values, 2, 20, description="V", continuous_update=False, disabled=model is not None
        )
        self.seed = ipywidgets.BoundedIntText(seed, 0, 2**31 - 1, description="seed")
        self._page = ipywidgets.HTML()
        super().__init__([self.pairs, self.mode, self.size, self.seed, self._page])
        for control in (self.mode, self.size, self.seed):
            control.observe(self._new_episode, "value")
        self.pairs.observe(self._redraw, "value")
        self._new_episode()

    @property
    def step(self) -> int:
        """How many pairs are shown, 0..K-1."""
        return self.pairs.value

    @property
    def entropies(self) -> np.ndarray:
        """Exact entropy at each question so far, bits, length step + 1."""
        return entropy_bits(self.posterior[: self.step + 1].log2()).numpy() + 0.0  # no -0

    def _new_episode(self, _=None) -> None:
        tunnel = Bijection(self.size.value, with_replacement=MODES[self.mode.value])
        self.episode = tunnel.sample(1, torch.Generator().manual_seed(self.seed.value))
        self.posterior = self.episode.posterior[0]
        self.prediction = None
        if self.model is not None:
            with torch.no_grad():
                self.prediction = self.model.predict(self.episode.inputs)[0].cpu().double()
        self.pairs.max = tunnel.n_pairs - 1  # the slider itself moves back if it has to
        self._redraw()

    def _redraw(self, _=None) -> None:
        truth = self.posterior[self.step]
        predictions = (
            {} if self.prediction is None else {NETWORK: self.prediction[self.step].exp2()}
        )
        keys, values = (self.episode.latents[name][0].tolist() for name in ("keys", "values"))
        title = f"The value of key {keys[self.step]}"
        self.bars = figures.distributions(truth, predictions, title=title)
        self.stairs = self._stairs()
        self.words = self._words(truth, keys)
        pairs = list(zip(keys, values, strict=True))[: self.step]
        shown = ", ".join(f"{key} → {value}" for key, value in pairs) or "none yet"
        self._page.value = (
            f'<p role="status">{html.escape(self.words)}</p><p>Pairs shown: {shown}</p>'
            f"{self.bars.to_html()}{self.stairs.to_html()}"
        )

    def _stairs(self) -> figures.Plot:
        """Entropy at the questions so far; later ones stay empty."""
        curves = {"exact posterior": self.entropies}
        if self.prediction is not None:
            curves[NETWORK] = entropy_bits(self.prediction[: self.step + 1]).numpy()
        later = np.full(len(self.posterior) - self.step - 1, np.nan)
        curves = {label: np.concatenate([curve, later]) for label, curve in curves.items()}
        return figures.lines(curves, exact="exact posterior", title="Entropy so far")

    def _words(self, truth: torch.Tensor, keys: list[int]) -> str:
        left, key = int((truth > 0).sum()), keys[self.step]
        again = key in keys[: self.step]
        told = f"After {self.step} pair{'' if self.step == 1 else 's'}: key {key} "
        told += "was asked before" if again else "is new"
        told += f", {left} value{'' if left == 1 else 's'} left, "
        told += f"entropy {self.entropies[-1]:.3f} bits."
        if self.prediction is not None:
            mine = self.prediction[self.step]
            told += f" The network: {float(entropy_bits(mine)):.3f} bits, "
            told += f"KL {figures.quantity(float(kl_bits(truth, mine)))}."
        return told

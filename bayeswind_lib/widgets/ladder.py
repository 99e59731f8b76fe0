"""The ladder explorer: choose what a position may see, and read what that allows at best.

The book's pages carry its twin, `book/_static/ladder_explorer.js`, which needs no kernel.

Axes: K questions, V values.
"""

from __future__ import annotations

import html

import ipywidgets
import numpy as np
import torch

from bayeswind_lib import figures
from bayeswind_lib.baselines import views
from bayeswind_lib.scoring import kl_bits
from bayeswind_lib.tunnels import Bijection

MODES = {"each key once": False, "keys that come back": True}
VIEW_NAMES = {words: view for view, words in views.VIEWS.items()}
BEST = "best of this view"


def ladder_explorer(n_values: int = 8, seed: int = 0) -> LadderExplorer:
    """Controls and pictures for the views of one episode of the bijection tunnel.

    Args:
        n_values: V at the start, 2 to 10.
        seed: of the episode.
    """
    return LadderExplorer(n_values, seed)


class LadderExplorer(ipywidgets.VBox):
    """Menus for the view and the keys, sliders for the question, the window and V; then the pictures.

    Attributes:
        view, mode, pairs, window, size, seed: the controls; setting their `value` redraws.
        all_keys, all_values: of the episode, lists of length K.
        best: list of V probabilities, the best prediction of the chosen view.
        floors: {view: float64 (K,)}, the least possible error at every question, bits.
        bars, curves: what is drawn (`figures.Plot`).
        words: two sentences on the question at hand.
    """

    def __init__(self, n_values: int = 8, seed: int = 0):
        self.view = ipywidgets.Dropdown(options=list(VIEW_NAMES), description="it sees")
        self.mode = ipywidgets.Dropdown(options=list(MODES), description="asked is")
        self.pairs = ipywidgets.IntSlider(
            min(4, n_values - 1), 0, n_values - 1, description="pairs shown", continuous_update=False
        )
        self.window = ipywidgets.IntSlider(
            min(3, n_values - 1), 1, max(n_values - 1, 1), description="w", continuous_update=False
        )
        self.size = ipywidgets.IntSlider(n_values, 2, 10, description="V", continuous_update=False)
        self.seed = ipywidgets.BoundedIntText(seed, 0, 2**31 - 1, description="seed")
        self._page = ipywidgets.HTML()
        controls = [self.view, self.mode, self.pairs, self.window, self.size, self.seed]
        super().__init__([*controls, self._page])
        for control in (self.mode, self.size, self.seed):
            control.observe(self._new_episode, "value")
        for control in (self.view, self.pairs, self.window):
            control.observe(self._redraw, "value")
        self._new_episode()

    @property
    def step(self) -> int:
        """How many pairs are shown, 0..K-1."""
        return self.pairs.value

    def _new_episode(self, _=None) -> None:
        tunnel = Bijection(self.size.value, with_replacement=MODES[self.mode.value])
        episode = tunnel.sample(1, torch.Generator().manual_seed(self.seed.value))
        self.all_keys, self.all_values = (episode.latents[n][0].tolist() for n in ("keys", "values"))
        self.pairs.max = tunnel.n_pairs - 1  # the sliders themselves move back if they have to
        self.window.max = max(tunnel.n_pairs - 1, 1)
        self._redraw()

    def _redraw(self, _=None) -> None:
        V, back, window = self.size.value, MODES[self.mode.value], self.window.value
        self.floors = views.floors(V, V, back, window)
        shown = self.all_keys[: self.step + 1], self.all_values[: self.step]
        self.best = views.best(VIEW_NAMES[self.view.value], *shown, V, window)
        truth = views.best("order", *shown, V)
        title = f"The value of key {self.all_keys[self.step]}"
        self.bars = figures.distributions(truth, {BEST: self.best}, title=title)
        self.curves = self._curves()
        self.words = self._words(truth)
        tokens = " ".join(f"<code>{html.escape(token)}</code>" for token in self.visible())
        self._page.value = (
            f'<p role="status">{html.escape(self.words)}</p><p>What it sees: {tokens}</p>'
            f"{self.bars.to_html()}{self.curves.to_html()}"
        )

    def visible(self) -> list[str]:
        """What the chosen view shows of the episode, token by token; a dot stands for a hidden one."""
        view, k = VIEW_NAMES[self.view.value], self.step
        keys, values = self.all_keys[:k], self.all_values[:k]
        now = f"key {self.all_keys[k]}?"
        if view in ("set", "bag"):
            return [*_gathered("key", keys, view), *_gathered("value", values, view), now]
        first = {"token": k, "window": max(k - self.window.value, 0), "order": 0}[view]
        pairs = [f"key {a} → value {b}" for a, b in zip(keys, values, strict=True)]
        return ["·"] * min(first, k) + pairs[first:] + [now]

    def _curves(self) -> figures.Plot:
        """The floors of all views, the chosen one solid."""
        chosen = self.view.value
        rows = {words: self.floors[view] for words, view in VIEW_NAMES.items()}
        rows = {chosen: rows.pop(chosen)} | rows
        return figures.lines(
            rows, dotted=[words for words in rows if words != chosen],
            y_label="least possible error (bits)", title="What each view allows at best",
        )

    def _words(self, truth: list[float]) -> str:
        row = self.floors[VIEW_NAMES[self.view.value]]
        kl = float(kl_bits(torch.tensor(truth), torch.tensor(self.best).log2()))
        possible = int(np.count_nonzero(self.best))
        told = f"After {self.step} pair{'' if self.step == 1 else 's'}, who sees {self.view.value} "
        told += f"has {possible} value{'' if possible == 1 else 's'} left and is {kl:.3f} bits "
        told += f"from the posterior in this episode, on average {row[self.step]:.3f} at this question "
        return told + f"and {row.mean():.3f} over all {len(row)}."


def _gathered(kind: str, tokens: list[int], view: str) -> list[str]:
    """Sorted tokens: each once for a set, with its number for a bag."""
    return [
        f"{kind} {token}" + (f" ×{tokens.count(token)}" if view == "bag" else "")
        for token in sorted(set(tokens))
    ]

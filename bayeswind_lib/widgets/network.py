"""Explorers of an opened network: where a head looks, and what is left without some heads.

The book's pages carry their twins, `book/_static/attention_explorer.js` and `ablation_explorer.js`,
which run the same network in the page. `training.py` adds the third: a network on its way.

Axes: K questions (scored positions), V values, T tokens, H heads.
"""

from __future__ import annotations

import html
import math

import ipywidgets
import numpy as np
import torch

from bayeswind_lib import checkpoints, figures, probes
from bayeswind_lib.probes import routing
from bayeswind_lib.scoring import entropy, kl_bits
from bayeswind_lib.tunnels import Bijection

NETWORK = "bijection-transformer-classroom"
WHOLE, CHANGED = "whole network", "changed"
WAYS = {
    "nothing": "zero", "its mean over 64 episodes": "mean", "what it is, plus noise as long": "noise",
}
N_MEAN = 64


def attention_explorer(model: torch.nn.Module | None = None, seed: int = 0) -> AttentionExplorer:
    """Controls and pictures for the attention of a bijection network; by default a shipped one."""
    return AttentionExplorer(model, seed)


def ablation_explorer(model: torch.nn.Module | None = None, seed: int = 0) -> AblationExplorer:
    """Switch heads of a bijection network off, and see its posterior; by default a shipped network."""
    return AblationExplorer(model, seed)


class NetworkExplorer(ipywidgets.VBox):
    """What both share: an episode that the reader picks, and the question that is asked.

    Attributes:
        all_keys, all_values: texts, each a permutation of 0..V-1 with spaces; what is none is told and not used.
        seed, pairs: the episode's seed (it fills both texts), and how many pairs are shown.
        episode: `Episodes` of length 1. posterior: float64 (K, V), exact.
    """

    def __init__(self, model, seed: int, controls: list):
        self.model = model
        self.tunnel = Bijection(self.model.config.n_outputs)
        V = self.tunnel.n_values
        wide = ipywidgets.Layout(width="30em")
        self.all_keys = ipywidgets.Text(description="keys", continuous_update=False, layout=wide)
        self.all_values = ipywidgets.Text(description="values", continuous_update=False, layout=wide)
        self.seed = ipywidgets.BoundedIntText(seed, 0, 2**31 - 1, description="seed")
        self.pairs = ipywidgets.IntSlider(
            min(5, V - 1), 0, V - 1, description="pairs shown", continuous_update=False
        )
        self._page = ipywidgets.HTML()
        super().__init__([self.seed, self.all_keys, self.all_values, self.pairs, *controls, self._page])
        self._new_episode()
        self.seed.observe(self._new_episode, "value")
        for text in (self.all_keys, self.all_values):
            text.observe(self._typed, "value")
        for control in (self.pairs, *controls):
            control.observe(self._redraw, "value")

    @property
    def step(self) -> int:
        """How many pairs are shown, 0..K-1."""
        return self.pairs.value

    @property
    def key(self) -> int:
        """The key that is asked for now."""
        return int(self.episode.latents["keys"][0, self.step])

    def _new_episode(self, _=None) -> None:
        drawn = self.tunnel.sample(1, torch.Generator().manual_seed(self.seed.value)).latents
        self.episode = None  # both texts change: look at them when both are there
        for text, name in ((self.all_keys, "keys"), (self.all_values, "values")):
            text.value = " ".join(map(str, drawn[name][0].tolist()))
        self._use(drawn["keys"], drawn["values"])

    def _typed(self, _) -> None:
        if self.episode is None:
            return
        try:
            rows = [permutation(text.value, self.tunnel.n_values) for text in (self.all_keys, self.all_values)]
        except ValueError as problem:
            self._page.value = f'<p role="alert">{html.escape(str(problem))}</p>'
            return
        self._use(*(torch.tensor([row]) for row in rows))

    def _use(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.episode = self.tunnel.episodes(keys, values)
        self.posterior = self.episode.posterior[0]
        self._look()
        self._redraw()

    def _look(self) -> None:
        """What is computed once an episode."""

    def _redraw(self, _=None) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not say what it draws")

    def _show(self, words: str, *plots: figures.Plot) -> None:
        self.words = words
        drawn = "".join(plot.to_html() for plot in plots)
        self._page.value = f'<p role="status">{html.escape(words)}</p>{drawn}'


def permutation(text: str, size: int) -> list[int]:
    """Whole numbers 0..size-1, each once, from a text.

    Raises:
        ValueError: if the text is something else.

    >>> permutation("2 0 1", 3)
    [2, 0, 1]
    """
    words = text.replace(",", " ").split()
    row = [int(word) for word in words if word.isdigit()]
    if len(row) < len(words) or sorted(row) != list(range(size)):
        raise ValueError(f"{text!r} is no order of 0 to {size - 1}: write each of these numbers once")
    return row


class AttentionExplorer(NetworkExplorer):
    """Where one head looks, from every token and from the question at hand.

    Attributes:
        layer, head: the controls; setting their `value` redraws.
        patterns: float64 (L, H, T, T). prediction: float64 (K, V), probabilities of the network.
        map, bars: what is drawn. words: one sentence on the question at hand.
    """

    def __init__(self, model=None, seed: int = 0):
        model = model or checkpoints.load(NETWORK)
        self.layer = ipywidgets.IntSlider(0, 0, model.config.n_layers - 1, description="layer")
        self.head = ipywidgets.IntSlider(0, 0, model.config.n_heads - 1, description="head")
        super().__init__(model, seed, [self.layer, self.head])

    def _look(self) -> None:
        self.patterns = routing.patterns(self.model, self.episode.inputs)[:, 0]
        self.prediction = self.model.predict(self.episode.inputs)[0].exp2()

    def coverage(self) -> tuple[float, float, float]:
        """Of the question at hand: attention on the values shown, its evenness over them, its entropy.

        Evenness is NaN for fewer than two values; entropy in bits.
        """
        row, k = self.patterns[self.layer.value, self.head.value, 2 * self.step], self.step
        shown = row[1 : 2 * k : 2]
        mass = float(shown.sum())
        even = float(entropy(shown / mass)) / math.log2(k) if k > 1 and mass > 0 else math.nan
        return mass, even, float(entropy(row))

    def _redraw(self, _=None) -> None:
        k, (mass, even, bits) = self.step, self.coverage()
        told = f"Layer {self.layer.value}, head {self.head.value}, asked for key {self.key} after {k} "
        told += f"pair{'' if k == 1 else 's'}: {100 * mass:.1f} % of its attention is on the values shown; "
        told += f"spread over all that it may see it would be {100 * k / (2 * k + 1):.1f} %."
        told += "" if math.isnan(even) else f" Over them it is spread with evenness {even:.2f} (1 is even)."
        keys, values = (self.episode.latents[name][0].tolist() for name in ("keys", "values"))
        names = [f"{'kv'[t % 2]}{(keys, values)[t % 2][t // 2]}" for t in range(2 * len(keys) - 1)]
        pattern = self.patterns[self.layer.value, self.head.value]
        self.map = figures.attention_map(pattern, names, title=f"layer {self.layer.value}, head {self.head.value}")
        self.bars = figures.distributions(
            self.posterior[k], {"network": self.prediction[k]}, title=f"The value of key {self.key}"
        )
        self._show(f"{told} Entropy of its attention: {bits:.3f} bits.", self.map, self.bars)


class AblationExplorer(NetworkExplorer):
    """The answer of a network, some of whose heads hand on something else.

    Attributes:
        off: the heads that are off, a multiple choice of "layer.head".
        way: what they hand on instead.
        whole, changed: float64 (K, V), probabilities. bars, costs: what is drawn.
        words: one sentence on the question at hand.
    """

    def __init__(self, model=None, seed: int = 0):
        model = model or checkpoints.load(NETWORK)
        heads = [part.removeprefix("head.") for part in probes.parts(model, "head")]
        self.off = ipywidgets.SelectMultiple(options=heads, description="heads off", rows=6)
        self.way = ipywidgets.Dropdown(options=list(WAYS), description="hand on")
        drawn = Bijection(model.config.n_outputs).sample(N_MEAN, torch.Generator().manual_seed(1000))
        self.reference = drawn.inputs
        super().__init__(model, seed, [self.off, self.way])

    def _look(self) -> None:
        self.whole = self.model.predict(self.episode.inputs)[0].exp2()

    def answer(self) -> torch.Tensor:
        """What the network says without the chosen heads: float64 (K, V)."""
        if not self.off.value:
            return self.whole
        rng = torch.Generator().manual_seed(self.seed.value)
        heads = [f"head.{name}" for name in self.off.value]
        with probes.ablate(self.model, heads, WAYS[self.way.value], self.reference, rng):
            return self.model.predict(self.episode.inputs)[0].exp2()

    def _redraw(self, _=None) -> None:
        k, self.changed = self.step, self.answer()
        before, after = (kl_bits(self.posterior, p.log2()).numpy() for p in (self.whole, self.changed))
        off, heads = len(self.off.value), len(self.off.options)
        told = f"{off} of {heads} heads are off" if off else "All heads are on"
        told += f". At key {self.key}, after {k} pair{'' if k == 1 else 's'}, the network is {after[k]:.3f} bits from "
        told += f"the exact posterior (whole: {before[k]:.3f}); over all {len(after)} questions of this episode "
        told += f"{after.mean():.3f} (whole: {before.mean():.3f})."
        rows = {WHOLE: self.whole[k]} | ({CHANGED: self.changed[k]} if off else {})
        self.bars = figures.distributions(self.posterior[k], rows, title=f"The value of key {self.key}")
        curves = {WHOLE: before} | ({CHANGED: after} if off else {})
        self.costs = figures.lines(
            curves, np.arange(len(after)), dotted=[WHOLE] if off else [], x_label="pairs shown before the question",
            y_label="divergence (bits)", title="Divergence at every question",
        )
        self._show(told, self.bars, self.costs)

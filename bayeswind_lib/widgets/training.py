"""Scrub through a training run: what a head attends to, and what the network answers, at each snapshot.

The book's page carries its twin, `book/_static/training_explorer.js`, which runs the same weights.

Axes: C snapshots, K questions (scored positions), V values, T tokens, L layers, H heads.
"""

from __future__ import annotations

import ipywidgets
import numpy as np
import torch

from bayeswind_lib import checkpoints, figures
from bayeswind_lib.checkpoints.snapshots import Snapshots
from bayeswind_lib.probes import routing
from bayeswind_lib.probes.progress import pattern_distance
from bayeswind_lib.scoring import kl_bits
from bayeswind_lib.widgets.network import NetworkExplorer

RUN = "bijection-transformer-classroom-snapshots"
DIVERGENCE, ATTENTION = "divergence", "attention"


def training_explorer(snapshots: Snapshots | None = None, seed: int = 0) -> TrainingExplorer:
    """Controls and pictures for the snapshots of a bijection run; by default those that ship."""
    return TrainingExplorer(snapshots, seed)


class TrainingExplorer(NetworkExplorer):
    """One episode, read by the network as it was after each number of updates.

    Attributes:
        moment: the control that picks a snapshot; its `value` is a number of updates.
        layer, head: the controls that pick a head; setting their `value` redraws.
        patterns: float64 (C, L, H, T, T). predictions: float64 (C, K, V), probabilities.
        map, bars, course: what is drawn. words: two sentences on the snapshot at hand.
    """

    def __init__(self, snapshots: Snapshots | None = None, seed: int = 0):
        self.snapshots = snapshots or checkpoints.load_snapshots(RUN)
        self.networks = [self.snapshots.network(step) for step in self.snapshots.steps]
        config = self.networks[-1].config
        self.moment = ipywidgets.SelectionSlider(
            options=self.snapshots.steps, value=self.snapshots.steps[-1], description="updates",
            continuous_update=False,
        )
        self.layer = ipywidgets.IntSlider(0, 0, config.n_layers - 1, description="layer")
        self.head = ipywidgets.IntSlider(1, 0, config.n_heads - 1, description="head")
        super().__init__(self.networks[-1], seed, [self.moment, self.layer, self.head])

    def _look(self) -> None:
        inputs = self.episode.inputs
        self.patterns = torch.stack([routing.patterns(model, inputs)[:, 0] for model in self.networks])
        self.predictions = torch.stack([model.predict(inputs)[0].exp2() for model in self.networks])

    def distances(self) -> np.ndarray:
        """Total variation between the chosen head's attention at each snapshot and at the end, (C,)."""
        layer, head = self.layer.value, self.head.value
        asked = self.patterns[:, layer, head, ::2][:, None, None]  # (C, 1, 1, K, T), from the questions
        return np.array([pattern_distance(now, asked[-1]) for now in asked])

    def divergences(self) -> np.ndarray:
        """Mean divergence from the exact posterior over all questions at each snapshot, bits, (C,)."""
        return np.array([float(kl_bits(self.posterior, p.log2()).mean()) for p in self.predictions])

    def _redraw(self, _=None) -> None:
        now, k = self.snapshots.steps.index(self.moment.value), self.step
        layer, head, steps = self.layer.value, self.head.value, np.array(self.snapshots.steps)
        cost, far = self.divergences(), self.distances()
        told = f"After {steps[now]} updates the network is {cost[now]:.3f} bits from the exact posterior in this episode "
        here = float(kl_bits(self.posterior[k], self.predictions[now, k].log2()))
        told += f"(at its end {cost[-1]:.3f}); at key {self.key}, after {k} pair{'' if k == 1 else 's'}, {here:.3f}. "
        told += f"The attention of layer {layer}, head {head} is {far[now]:.2f} from where it "
        told += f"ends (total variation, 0 to 1; at the start {far[0]:.2f})."
        self.course = figures.lines(
            {DIVERGENCE: cost / cost[0], ATTENTION: far / far[0]}, np.arange(len(steps)), dotted=[ATTENTION],
            x_label="snapshot", y_label="share of the start", title="On the way",
        )
        self.bars = figures.distributions(
            self.posterior[k], {"network": self.predictions[now, k]}, title=f"The value of key {self.key}"
        )
        keys, values = (self.episode.latents[name][0].tolist() for name in ("keys", "values"))
        names = [f"{'kv'[t % 2]}{(keys, values)[t % 2][t // 2]}" for t in range(2 * len(keys) - 1)]
        self.map = figures.attention_map(
            self.patterns[now, layer, head], names, title=f"layer {layer}, head {head} after {steps[now]} updates"
        )
        self._show(told, self.course, self.bars, self.map)

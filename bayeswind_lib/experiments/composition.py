"""The record `probe_composition`: does a network that has both parts of a task also have their combination?

The tunnel `composition` hides a map and moves a chain. Networks of the variant "train" meet hidden maps in still and
slow chains, and fast chains with shown maps, and never a hidden map in a fast chain; networks of the plain tunnel meet all.
Each is scored on every combination, beside observers that are exact but for the chain's rate, which they take for
another. Which of these observers a network's answers are nearest to tells what it does where it was never trained.

The runs lie in the folder of the queue, which only `--runs` brings; without it what is stored is kept:

    python -m bayeswind_lib queue --folder FOLDER --only composition
    python -m bayeswind_lib records probe_composition --runs FOLDER

Axes: B episodes, K pairs, V values.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import queue
from bayeswind_lib.experiments.progress import about, rounded
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import kl_bits
from bayeswind_lib.training.loop import start
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import ended_cells, weights_of
from bayeswind_lib.tunnels import Episodes
from bayeswind_lib.tunnels.composition import CHAINS, COMBINATIONS, HELD_OUT

EPISODES = 2000
STAYS = tuple(round(float(x), 3) for x in np.linspace(0.4, 0.975, 24))  # rates that an observer may take for true
PARTS = ("hidden-still", "shown-fast")  # what the held-out combination is made of
LATE = 8  # pairs after which evidence outweighs the odd beginning; chosen after the first run had been seen
PLAIN = "train-convolution, rate 0.02, 4000 updates"


def measure(n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """The record.

    Args:
        n_episodes: at most `EPISODES`. draws: of untrained networks, at most 20.
        records: where the stored record lies, whose runs are kept. runs: the folder of the queue.
    Returns:
        "runs": by label and seed, see `of_network`; "observers": by combination and step the KL of those that take the chain for
        a slow one, and for one whose states are drawn anew; "untrained": what untrained copies score on the held-out
        combination, over what the observer does that takes fast for slow, at all pairs and at those after the first `LATE`;
        "ledger": the same of the trained networks, mean over seeds.
    """
    bench = Bench(min(n_episodes, EPISODES))
    found = dict((store.read("probe_composition", records) or {}).get("runs", {}))
    for cell, row in ended_cells(cells(), runs):
        network = checkpoints.load_file(weights_of(row, runs))
        found.setdefault(label_of(cell), {})[str(cell.recipe.seed)] = about(row) | bench.of_network(network)
    observers = {name: bench.observers(name) for name in COMBINATIONS}
    slow = observers[HELD_OUT[0]]["slow"]
    shares = [over(run["by_step"], slow) for run in found.get(PLAIN, {}).values()]
    return {
        "runs": found, "observers": observers, "n_episodes": bench.n, "late": LATE,
        "untrained": stats.summaries([over(row, slow) for row in bench.untrained(min(draws, 20))]),
        "ledger": means(shares),
    }


def over(by_step: Iterable[float], slow: Iterable[float]) -> dict[str, float]:
    """What a network pays in the held-out combination over what an observer pays, from both at each pair (K,)."""
    own, other = np.asarray(by_step), np.asarray(slow)
    return {"held_out": float(own.mean() / other.mean()), "late": float(own[LATE:].mean() / other[LATE:].mean())}


def means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Means over seeds, under their names, and with several seeds their errors."""
    found: dict[str, float] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        found |= {name: float(np.mean(values))} | ({f"{name}_se": stats.standard_error(values)} if len(rows) > 1 else {})
    return found


def cells() -> list[Cell]:
    """The cells of the queue in this tunnel."""
    return [entry.cell for entry in queue.entries() if entry.cell.recipe.tunnel == "composition"]


def label_of(cell: Cell) -> str:
    """Variant, rate and updates of a run, for example "train-convolution, rate 0.02, 4000 updates"."""
    variant = cell.name.removeprefix("composition-transformer-classroom").strip("-") or "all"
    return f"{variant}, rate {cell.recipe.learning_rate:g}, {cell.recipe.steps} updates"


class Bench:
    """Fixed episodes of every combination."""

    def __init__(self, n: int):
        self.n, self.tunnel = n, tunnels.build("composition", {})
        self.episodes = {name: self.drawn(name) for name in COMBINATIONS}

    def drawn(self, which: str) -> Episodes:
        tunnel = tunnels.build("composition", {"which": which})
        return tunnel.sample(self.n, rng_for(tunnel, 470))

    def taking(self, episodes: Episodes, stay: float) -> torch.Tensor:
        """The answers of an observer that is exact but for the rate, which it takes for another: float64 (B, K, V)."""
        return self.tunnel.posterior(episodes.inputs, torch.full((len(episodes),), stay, dtype=torch.float64))

    def of_network(self, model: nn.Module) -> dict:
        """What is kept of a network.

        Returns:
            kl, kl_se: by combination, bits. by_step: KL of the held-out combination at each pair (K,). acts_as: the rate whose
            observer the answers there are nearest to after the first `LATE` pairs, and `nearest`, that observer's KL from them;
            `parts`: KL of both parts added.
        """
        model.eval()
        said = {name: model.predict(episodes.inputs).double() for name, episodes in self.episodes.items()}
        kl = {name: kl_bits(self.episodes[name].posterior, said[name]) for name in COMBINATIONS}  # (B, K)
        held = self.episodes[HELD_OUT[0]]
        near = {stay: float(kl_bits(self.taking(held, stay), said[HELD_OUT[0]])[:, LATE:].mean()) for stay in STAYS}
        acts_as = min(near, key=near.get)
        return {
            "kl": {name: float(x.mean()) for name, x in kl.items()},
            "kl_se": {name: stats.standard_error(x.mean(1).numpy()) for name, x in kl.items()},
            "by_step": rounded(kl[HELD_OUT[0]].mean(0).numpy()),
            "acts_as": acts_as, "nearest": near[acts_as], "parts": float(sum(kl[name].mean() for name in PARTS)),
        }

    def observers(self, which: str) -> dict:
        """KL in bits, at each pair (K,), of exact answers from those of observers that take the chain for another."""
        episodes = self.episodes[which]
        taken = {"slow": CHAINS["slow"], "fast": CHAINS["fast"], "anew": 1 / 3}
        return {name: rounded(kl_bits(episodes.posterior, self.taking(episodes, stay).log2()).mean(0).numpy()) for name, stay in taken.items()}

    def untrained(self, draws: int) -> np.ndarray:
        """KL in bits of the held-out combination at each pair, of networks that were never trained: (draws, K)."""
        recipe = next(cell.recipe for cell in cells() if label_of(cell) == PLAIN)
        held = self.episodes[HELD_OUT[0]]
        models = (start(recipe.but(seed=1000 + draw)).model.eval() for draw in range(draws))
        return np.array([kl_bits(held.posterior, model.predict(held.inputs)).mean(0).numpy() for model in models])

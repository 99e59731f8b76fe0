"""The record `probe_prediction`: does a filter emerge from predicting the next symbol alone?

Networks that were never shown a state, scored by their forecasts of the next symbol. Two routes lead from them
to a belief: the exact map from beliefs to forecasts, turned round, and a linear reading of the residual stream.
Beside them stand window filters, which remember the last w symbols, and untrained copies.

The runs lie in the folder of the queue, which only `--runs` brings; without it what is stored is kept:

    python -m bayeswind_lib queue --folder FOLDER
    python -m bayeswind_lib records probe_prediction --runs FOLDER

Axes: B episodes, K steps, S states, V symbols, L streams (behind the embedding and behind every layer).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from bayeswind_lib import baselines, checkpoints, scoring, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import queue
from bayeswind_lib.experiments.progress import about, rounded
from bayeswind_lib.probes import filtering
from bayeswind_lib.probes.beliefs import onto_simplex, readable
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.training.loop import start
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import ended_cells, weights_of
from bayeswind_lib.tunnels.hmm import forward_filter

EPISODES = 2000
WINDOWS = range(1, 9)  # symbols that a window filter remembers
CLOSE = 0.999  # of a belief that is read off; a thousandth of the even one is mixed in, so that its KL is finite
BLANKS = 11  # after so many the echo is looked at, as in chapter 5


def measure(n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """The record.

    Args:
        n_episodes: at most `EPISODES`. draws: of untrained networks, at most 10.
        records: where the stored record lies, whose runs are kept. runs: the folder of the queue.
    """
    n = min(n_episodes, EPISODES)
    found = dict((store.read("probe_prediction", records) or {}).get("runs", {}))
    for cell, row in ended_cells(cells(), runs):
        network = checkpoints.load_file(weights_of(row, runs))
        found.setdefault(label_of(cell), {})[str(cell.recipe.seed)] = about(row) | Bench(cell, n).measure(network)
    tasks = {task_of(cell): cell for cell in cells() if label_of(cell) in found}
    return {
        "runs": found, "n_episodes": n,
        "windows": {name: Bench(cell, n).windows() for name, cell in tasks.items()},
        "untrained": {name: untrained(cell, min(draws, 10), n) for name, cell in tasks.items()},
    }


def cells() -> list[Cell]:
    """The cells of the queue that are trained on next symbols alone."""
    found = [entry.cell for entry in queue.entries()]
    return [cell for cell in found if cell.recipe.tunnel_config.get("predicts") == "next_symbol" and cell.recipe.supervision == "sampled"]


def task_of(cell: Cell) -> str:
    """What a network is trained on: "next-sampled" in chains that forget fast, "sticky-next-sampled" in slow ones."""
    return cell.name.removeprefix("hmm-transformer-classroom-")


def label_of(cell: Cell) -> str:
    """Task, rate and updates of a run, for example "next-sampled, rate 0.002, 30000 updates"."""
    return f"{task_of(cell)}, rate {cell.recipe.learning_rate:g}, {cell.recipe.steps} updates"


class Bench:
    """Fixed episodes of a task, their exact beliefs (B, K, S), and in each the map from beliefs to forecasts (B, S, V)."""

    def __init__(self, cell: Cell, n: int):
        self.tunnel = tunnels.build("hmm", cell.recipe.tunnel_config)
        self.episodes = self.tunnel.sample(n, rng_for(self.tunnel, 440))
        T, E, symbols = (self.episodes.latents[name] for name in ("transition", "emission", "observations"))
        self.to_forecast = T @ E
        self.belief = forward_filter(T, E, symbols, self.tunnel.transition_first)
        self.goals = filtering.goals(self.tunnel, self.episodes)

    def measure(self, model: nn.Module) -> dict:
        """What is kept of a network.

        Returns:
            kl, bits: of its forecasts, by step (K,), mean and error; of the beliefs that they imply, and of those read from
            the last stream. r2: of the latter. memory: the share of the memory that each stream holds (L,). echo: what is
            left in the forecasts after n blanks of a first symbol, over what exact ones hold (K,); see `filtering.echo`.
        """
        said = model.predict(self.episodes.inputs)
        kl = scoring.kl_bits(self.episodes.posterior, said)  # (B, K)
        streams = filtering.at_steps(model, self.episodes.inputs, [f"residual.{i}" for i in range(len(model.blocks) + 1)])
        read = readable(streams[f"residual.{len(model.blocks)}"], self.belief.numpy())
        exact, heard = (filtering.echo(one, self.tunnel) for one in (self.tunnel, model))
        return {
            "kl": float(kl.mean()), "kl_se": stats.standard_error(kl.mean(1).numpy()), "kl_by_step": rounded(kl.mean(0).numpy()),
            "implied": self.cost(implied(said.exp2(), self.to_forecast)), "read": read.kl, "r2": read.r2,
            "memory": rounded([filtering.memory_share(x, self.goals) for x in streams.values()]),
            "echo": rounded((heard / exact).numpy()),
        }

    def cost(self, belief: torch.Tensor) -> float:
        """KL in bits of the exact beliefs from others (B, K, S), with a thousandth of the even one mixed in."""
        close = CLOSE * belief + (1 - CLOSE) / belief.shape[-1]
        return float(scoring.kl_bits(self.belief, close.log2()).mean())

    def windows(self) -> dict:
        """By how many symbols a window filter remembers: KL of its forecasts, of its beliefs, and of those that its forecasts imply.

        best: KL of the forecast from the exact belief given these symbols alone. What reads no more than these, the
        matrices and the step has no smaller KL on average.
        """
        states = tunnels.build("hmm", self.tunnel.config | {"predicts": "states"})
        found = {}
        for w in WINDOWS:
            belief = baselines.hmm.WindowFilter(states, w).predict(self.episodes.inputs).exp2()
            forecast = belief @ self.to_forecast
            kl = scoring.kl_bits(self.episodes.posterior, forecast.log2())
            exact = baselines.hmm.WindowFilter(states, w, "marginal").predict(self.episodes.inputs).exp2()
            best = scoring.kl_bits(self.episodes.posterior, (exact @ self.to_forecast).log2())
            found[str(w)] = {
                "kl": float(kl.mean()), "kl_se": stats.standard_error(kl.mean(1).numpy()), "belief": self.cost(belief),
                "best": float(best.mean()), "best_se": stats.standard_error(best.mean(1).numpy()),
                "implied": self.cost(implied(forecast, self.to_forecast)),
            }
        return found


def implied(forecast: torch.Tensor, to_forecast: torch.Tensor) -> torch.Tensor:
    """The beliefs whose forecasts are nearest, the exact map turned round: (B, K, V), (B, S, V) -> (B, K, S).

    Least squares, then the nearest distribution. It is the belief itself where the map loses nothing; where two
    states lead to nearly the same forecasts, small errors of these become large ones of the belief.
    """
    solved = forecast @ torch.linalg.pinv(to_forecast)
    return torch.from_numpy(onto_simplex(solved.numpy()))


def untrained(cell: Cell, draws: int, n: int) -> dict:
    """What networks that were never trained score: a summary of each number, and of the memory in the last stream."""
    bench, rows = Bench(cell, n), []
    for draw in range(draws):
        found = bench.measure(start(cell.recipe.but(seed=1000 + draw)).model.eval())
        rows.append({name: found[name] for name in ("kl", "implied", "read", "r2")} | {
            "memory": found["memory"][-1], "echo": found["echo"][BLANKS],
        })
    return stats.summaries(rows)

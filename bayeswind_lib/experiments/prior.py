"""The record `probe_prior`: bijections from a set of N maps, and which prior the networks follow over training.

Each snapshot is compared with two exact observers: the one who knows the set, and the one who takes all V!
maps for equally likely; on episodes from maps of the set, and on episodes from maps outside it. In
between lie the observers with prior weight w on the set (see `tunnels.bijection_set`); the weight whose answers are
nearest to the snapshot's is kept as log2 of its odds.

The runs lie in the folder of a sweep or of the queue, which only `--runs` brings; without it what is stored is kept:

    python -m bayeswind_lib sweep prior --workers 0
    python -m bayeswind_lib records probe_prior --runs runs/prior

Axes: C snapshots, K scored positions.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import nn

from bayeswind_lib import models, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import queue
from bayeswind_lib.experiments.progress import about, rounded, weights_on_the_way
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.scoring import kl_bits
from bayeswind_lib.training.loop import start
from bayeswind_lib.training.plans import Cell, plan
from bayeswind_lib.training.sweep import ended_cells
from bayeswind_lib.tunnels.bijection_set import expected_advantage

EPISODES = 512  # from maps of the set, and as many from maps outside
LOG_ODDS = range(-12, 13)  # log2 of the odds of the set that are tried: one bit for every factor of two
FOLLOWS = 0.25  # of what the other observer would cost: as near counts as following (our threshold)
FEW, MANY, WIDE = 16, 256, 64  # maps and width that the ledger asks about


def measure(n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """The record.

    Args:
        n_episodes: at most `EPISODES` of each kind. draws: of untrained networks, at most 20.
        records: where the stored record lies, whose runs are kept. runs: the folder of a sweep or of the queue.
    """
    n = min(n_episodes, EPISODES)
    found = dict((store.read("probe_prior", records) or {}).get("runs", {}))
    for cell, row in ended_cells(cells(), runs):
        found.setdefault(label_of(cell), {})[str(cell.recipe.seed)] = entry(cell, row, runs, n)
    sizes = sorted({run["n_maps"] for seeds in found.values() for run in seeds.values()})
    return {
        "runs": found, "claims": claims(found), "untrained": untrained(min(draws, 20), n), "n_episodes": n,
        "advantage": {str(size): expected_advantage(6, size) for size in sizes},
    }


def cells() -> list[Cell]:
    """All runs that the record would hold: of the plan, of twice its budget, and those of the queue in the same tunnel."""
    longer = [one.cell for one in queue.entries() if one.cell.recipe.tunnel == "bijection_set"]
    return list({cell.key: cell for cell in plan("prior") + plan("prior-doubled") + longer}.values())


def label_of(cell: Cell) -> str:
    """N, width and updates of a run, as the record names it: "n64-w32-s4000"."""
    recipe = cell.recipe
    return f"n{recipe.tunnel_config['n_maps']}-w{recipe.model_config['width']}-s{recipe.steps}"


def entry(cell: Cell, row: dict, folder: str | Path, n: int) -> dict:
    """What is kept of a run: the divergences in bits of every snapshot (C,), by position at the end (K,), and who is followed."""
    recipe = cell.recipe
    bench, model = Bench(tunnels.build(recipe.tunnel, recipe.tunnel_config), n), start(recipe).model.eval()
    snapshots, seen = weights_on_the_way(cell, folder), []
    for weights in snapshots.values():
        model.load_state_dict(weights)
        seen.append(bench.compare(model))
    curves = {name: rounded([one[name] for one in seen]) for name in seen[0] if not name.startswith("by ")}
    ends = {name: rounded(seen[-1][name]) for name in seen[0] if name.startswith("by ")}
    return about(row) | {
        "n_maps": recipe.tunnel_config["n_maps"], "width": recipe.model_config["width"], "parameters": models.count_parameters(model),
        "updates": recipe.steps, "episodes": row["episodes"], "seconds": row["seconds"], "schedule_ended": row["schedule_ended"],
        "steps": list(snapshots), **curves, **ends, "follows": follows(seen[-1], bench.advantage),
    }


def follows(last: dict, advantage: float) -> str:
    """Which observer a network follows: "set", "group", or "neither".

    "set": on maps of the set it costs at most `FOLLOWS` of what the group observer costs there. "group": it is
    as near to the group observer on maps outside. With all V! maps in the set the two are one: "both".
    """
    if advantage == 0:
        return "both" if last["set"] < 0.01 else "neither"
    if last["set"] <= FOLLOWS * advantage:
        return "set"
    return "group" if last["outside"] <= FOLLOWS * advantage else "neither"


class Bench:
    """Fixed episodes from maps of a set and from maps outside it, with the answers of the exact observers."""

    def __init__(self, tunnel: tunnels.BijectionSet, n: int):
        rng = rng_for(tunnel, 470)
        inside, outside = tunnel.draw(n, rng, tunnel.maps), tunnel.draw(n, rng, tunnel.outside) if len(tunnel.outside) else None
        self.parts = [part for part in (inside, outside) if part is not None]
        self.inputs = [tunnel.tokens(*part) for part in self.parts]
        self.set = tunnel.answers(*inside)
        self.group = [tunnel.answers(*part, 0.0) for part in self.parts]
        self.mixed = {odds: [tunnel.answers(*part, 1 / (1 + 2.0**-odds)) for part in self.parts] for odds in LOG_ODDS}
        self.advantage = advantage(tunnel.n_maps, tunnel.n_values)

    @torch.no_grad()
    def compare(self, model: nn.Module) -> dict:
        """Divergences in bits: of the network from the set observer ("set") and from the group observer ("group"), on
        maps of the set; from the group observer on maps outside ("outside"); the log2 odds of the observer in between that
        is nearest on maps of the set ("odds"), how far it is there ("off") and on maps outside, where nothing was
        fitted ("off outside"); "by set" and "by outside": the first and the third by position."""
        said = [model.predict(inputs) for inputs in self.inputs]
        gaps = {odds: float(kl_bits(mixed[0], said[0]).mean()) for odds, mixed in self.mixed.items()}
        odds = min(gaps, key=gaps.__getitem__)
        from_set, from_group = kl_bits(self.set, said[0]).mean(0), [kl_bits(p, q).mean(0) for p, q in zip(self.group, said, strict=True)]
        return {
            "set": float(from_set.mean()), "group": float(from_group[0].mean()), "outside": float(from_group[-1].mean()),
            "odds": odds, "off": gaps[odds], "off outside": float(kl_bits(self.mixed[odds][-1], said[-1]).mean()),
            "by set": from_set.tolist(), "by outside": from_group[-1].tolist(),
        }


def untrained(draws: int, n: int) -> dict:
    """What the ledger's claims would be with networks that were never trained: a summary of each."""
    few, many = (next(cell.recipe for cell in plan("prior") if label_of(cell).startswith(f"n{size}-w{WIDE}-")) for size in (FEW, MANY))
    (near_set, near_group), rows = (Bench(tunnels.build(recipe.tunnel, recipe.tunnel_config), n) for recipe in (few, many)), []
    for draw in range(draws):
        one, other = (start(recipe.but(seed=1000 + draw)).model.eval() for recipe in (few, many))
        rows.append({
            "few set": near_set.compare(one)["set"] / near_set.advantage,
            "many group": near_group.compare(other)["outside"] / near_group.advantage,
        })
    return stats.summaries(rows)


def claims(runs: dict) -> dict:
    """What the ledger asks for, of the worst seed at the end of the plan's runs, as shares of what the other observer costs: how far from the set
    observer with few maps, on these, and how far from the group observer with many, on other maps."""
    steps = plan("prior")[0].recipe.steps
    few, many = (list(runs.get(f"n{size}-w{WIDE}-s{steps}", {}).values()) for size in (FEW, MANY))
    if not few or not many:
        return {}
    return {
        "few set": max(run["set"][-1] for run in few) / advantage(FEW), "many group": max(run["outside"][-1] for run in many) / advantage(MANY),
    }


def advantage(n_maps: int, n_values: int = 6) -> float:
    """KL(set || group) in bits, mean over the positions of whole episodes: exact for every set of N maps.

    >>> round(advantage(6, 3), 6)
    0.0
    """
    return math.log2(math.factorial(n_values) / n_maps) / n_values

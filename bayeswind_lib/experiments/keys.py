"""Layer 0's keys and heads of every shipped bijection transformer, beside their nulls; and of those in `UNSHIPPED`, once the queue trained them.

"cosines": mean |cosine| of the keys of single tokens. "embeddings": the same of the embeddings, also
of networks without keys. "scores": what the scores tell apart. "token_ablation": what it costs to make tokens
alike. "heads": what every head is worth. "untrained": the nulls in the form that the ledger reads.

Axes: n tokens, H heads, C channels of one head.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from bayeswind_lib import checkpoints, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import queue
from bayeswind_lib.probes import keys as probe
from bayeswind_lib.probes.ablation import HOWS, Bench, Effect, concentration, parts
from bayeswind_lib.probes.fixed import SEED, rng_for
from bayeswind_lib.probes.nulls import Measured, untrained
from bayeswind_lib.probes.report import token_sets
from bayeswind_lib.training.sweep import ended_cells, weights_of

SIDES = {"raw": False, "centred": True}
PLACES = {"questions": probe.ASKED, "values": probe.SHOWN}
ABLATED = {  # what is made alike where
    "keys of questions": ("key.0", "questions"), "keys of values": ("key.0", "values"),
    "queries": ("query.0", "questions"), "values of values": ("value.0", "values"),
}
UNSHIPPED = ("bijection-transformer-untied", "bijection-transformer-paired")
LARGE = 1_000_000  # parameters, from which on fewer episodes have to do
MOST, COPIES, COPY_EPISODES = 64, 20, 8  # episodes of a large network; untrained copies, and their episodes


def measure(n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """Everything about keys and heads.

    Args:
        n_episodes: of each network for scores and ablations; at most 64 where a network is large.
        draws: of each null of the cosines; at most 20 untrained copies for the other nulls.
        records: where the stored record lies, whose networks in `UNSHIPPED` are kept. runs: the folder of the queue.
    """
    found: dict = {"embeddings": embeddings(), "networks": {}, "untrained": {}}
    stored = store.read("probe_keys", records) or {}
    for place, name in itertools.product(("networks", "untrained"), UNSHIPPED):
        if name in stored.get(place, {}):
            found[place][name] = stored[place][name]
    for model, name, seed in itertools.chain(transformers(), queued(runs)):
        entry, nulls = opened(model, n_episodes, draws)
        found["networks"].setdefault(name, {})[seed] = entry
        found["untrained"].setdefault(name, {})[seed] = nulls
    return found


def transformers() -> Iterator[tuple[torch.nn.Module, str, str]]:
    """The shipped bijection transformers that have keys: network, name, seed as text."""
    for listed in checkpoints.shipped():
        if (listed["tunnel"], listed["architecture"]) == ("bijection", "transformer"):
            model = checkpoints.load(listed["name"], listed["seed"])
            if model.config.attention == "softmax":
                yield model, listed["name"], str(listed["seed"])


def queued(runs: str | Path | None) -> Iterator[tuple[torch.nn.Module, str, str]]:
    """The networks in `UNSHIPPED` that ended in a folder of the queue, as `transformers` gives them."""
    plain = [entry.cell for entry in queue.entries() if entry.cell.name in UNSHIPPED and entry.plain]
    for cell, row in ended_cells(plain, runs):
        yield checkpoints.load_file(weights_of(row, runs)), cell.name, str(cell.recipe.seed)


def embeddings() -> dict:
    """Mean |cosine| of embeddings of keys and of values, of every bijection network of every kind."""
    found: dict = {}
    for listed in checkpoints.shipped():
        if listed["tunnel"] != "bijection":
            continue
        model = checkpoints.load(listed["name"], listed["seed"])
        with torch.no_grad():
            row: dict = {
                tokens: float(probe.mean_cosine(model.tokens(which))) for tokens, which in token_sets(model).items()
            }
        row |= {"isotropic": probe.isotropic_cosine(model.config.width), "kl": model.record["scores"]["kl"]}
        row["distinct"] = not model.record["tunnel_config"]["with_replacement"]
        found.setdefault(listed["name"], {})[str(listed["seed"])] = row
    return found


def opened(model: torch.nn.Module, n_episodes: int, draws: int) -> tuple[dict, dict]:
    """One network: what is measured, and its nulls in the ledger's form."""
    large = model.record["parameters"] > LARGE
    n = min(n_episodes, MOST) if large else n_episodes
    tunnel = tunnels.build("bijection", model.record["tunnel_config"])
    episodes = tunnel.sample(n, rng_for(tunnel, 0))
    few = tunnel.sample(min(n_episodes, COPY_EPISODES if large else MOST), rng_for(tunnel, 1))
    copies = [untrained(model, rng_for(tunnel, 700 + i)) for i in range(min(draws, COPIES))]
    heads, head_nulls = heads_of(model, copies, episodes, few)
    if model.record["tunnel_config"].get("shared"):  # keys and values are the same tokens: there are no sets to compare
        return {"sha256": model.record["sha256"], "n_episodes": n, "heads": heads}, head_nulls
    cosines, nulls = cosines_of(model, draws)
    entry = {
        "sha256": model.record["sha256"], "n_episodes": n, "cosines": cosines, "heads": heads,
        "scores": scores_of(model, copies, episodes, few), "token_ablation": token_ablations_of(model, copies, episodes, few),
    }
    return entry, nulls | head_nulls


# ---- cosines


def cosines_of(model: torch.nn.Module, draws: int) -> tuple[dict, dict]:
    """Mean |cosine| by set of tokens, raw and centred: all heads side by side, their mean, one by one."""
    sets = token_sets(model)
    own = {name: probe.key_vectors(model, tokens) for name, tokens in sets.items()}
    value = table(own)
    rng = torch.Generator().manual_seed(SEED)
    drawn = {null: [table(make(model, sets, own, rng)) for _ in range(draws)] for null, make in NULLS.items()}
    found: dict = {}
    ledger: dict = {}
    for place, number in value.items():
        tokens, side, width = place
        here = {null: Measured(number, np.array([row[place] for row in rows]), null) for null, rows in drawn.items()}
        entry = {"value": number} | {null: brief(measured) for null, measured in here.items()}
        found.setdefault(tokens, {}).setdefault(side, {})[width] = entry
        ledger.setdefault(tokens, {}).setdefault(side, {})[width] = stats.summary(here["untrained"].draws)
    for tokens, vectors in own.items():
        for side, centred in SIDES.items():
            found[tokens][side]["by_head"] = probe.mean_cosine(vectors, centred).tolist()
    return found, {"cosines": ledger}


def table(vectors: dict[str, torch.Tensor]) -> dict[tuple[str, str, str], float]:
    """Mean |cosine| of keys (H, n, C) by set, side and width ("full" or "mean_head")."""
    found = {}
    for tokens, x in vectors.items():
        for side, centred in SIDES.items():
            found[tokens, side, "full"] = float(probe.mean_cosine(probe.pick(x, None), centred))
            found[tokens, side, "mean_head"] = float(probe.mean_cosine(x, centred).mean())
    return found


def _isotropic(model, sets, own, rng) -> dict[str, torch.Tensor]:
    return {name: torch.randn(x.shape, generator=rng) for name, x in own.items()}


def _untrained(model, sets, own, rng) -> dict[str, torch.Tensor]:
    copy = untrained(model, rng)
    return {name: probe.key_vectors(copy, tokens) for name, tokens in sets.items()}


def _shuffled(model, sets, own, rng) -> dict[str, torch.Tensor]:
    return {name: probe.shuffled_keys(model, tokens, 0, rng) for name, tokens in sets.items()}


def _matched(model, sets, own, rng) -> dict[str, torch.Tensor]:
    H = model.config.n_heads
    drawn = {name: probe.matched_gaussian(probe.pick(x, None), rng) for name, x in own.items()}
    return {name: x.unflatten(-1, (H, -1)).transpose(0, 1) for name, x in drawn.items()}


NULLS: dict[str, Callable] = {
    "isotropic": _isotropic, "untrained": _untrained, "shuffled": _shuffled, "matched": _matched,
}


def brief(measured: Measured) -> dict:
    """A null in few numbers."""
    return {
        "mean": float(measured.draws.mean()), "low": measured.low, "high": measured.high,
        "percentile": measured.percentile, "draws": len(measured.draws),
    }


# ---- scores, and tokens made alike


def scores_of(model, copies, episodes, few) -> dict:
    """Preference, binding and margin in nats, by head; of the copies the largest of any head."""
    found = {}
    of_copies = [probe.scores_in_place(copy, few) for copy in copies]
    for shown, rows in probe.scores_in_place(model, episodes).items():
        found[shown] = {
            kind: {
                "by_head": by_head.tolist(),
                "untrained": stats.summary(float(copy[shown][kind].abs().max()) for copy in of_copies),
            }
            for kind, by_head in rows.items()
        }
    return found


def token_ablations_of(model, copies, episodes, few) -> dict:
    """Rise of the KL, bits, when tokens are made alike; of the copies when it is done by the mean."""
    rng = torch.Generator().manual_seed(SEED)
    bench, benches = Bench(model, episodes, rng), [Bench(copy, few, rng) for copy in copies]
    found = {}
    for what, (site, places) in ABLATED.items():
        cost = {how: probe.token_ablation_cost(bench, site, PLACES[places], how) for how in probe.TOKEN_ABLATIONS}
        found[what] = {how: {"kl": effect.kl, "kl_se": effect.kl_se} for how, effect in cost.items()}
        found[what]["untrained"] = stats.summary(
            probe.token_ablation_cost(copy, site, PLACES[places]).kl for copy in benches
        )
    return found


# ---- heads


def heads_of(model, copies, episodes, few) -> tuple[dict, dict]:
    """What each head is worth by every way of taking it out or disturbing it, and how concentrated that is."""
    bench, names = Bench(model, episodes, torch.Generator().manual_seed(SEED)), parts(model, "head")
    found: dict = {"names": names, "kl_before": float(bench.before["kl"].mean())}
    for how in HOWS:
        effects = [bench.effect(name, how) for name in names]
        found[how] = {key: [getattr(e, key) for e in effects] for key in ("kl", "kl_se", "entropy_mae")}
        found[how] |= {f"concentration_{by}": _concentrated(effects, by) for by in ("kl", "entropy_mae")}
    fresh = slice(None, -1) if model.record["tunnel_config"].get("shared") else None  # the authors ask for keys that were not shown
    if fresh:
        found["zero"]["concentration_fresh"] = _concentrated(_worth(model, episodes, names, fresh), "entropy_mae")
    worth = [_worth(copy, few, names) for copy in copies]
    nulls = {
        "largest": stats.summary(max(abs(e.entropy_mae) for e in effects) for effects in worth),
        "largest_kl": stats.summary(max(abs(e.kl) for e in effects) for effects in worth),
        "ratio": stats.summary(_concentrated(effects, "entropy_mae")["ratio"] for effects in worth),
        "n_half": stats.summary(_concentrated(effects, "entropy_mae")["n_half"] for effects in worth),
    }
    if fresh:
        nulls["ratio_fresh"] = stats.summary(_concentrated(_worth(copy, few, names, fresh), "entropy_mae")["ratio"] for copy in copies)
    return found, {"heads": nulls}


def _worth(model, episodes, names, positions: slice = slice(None)) -> list[Effect]:
    bench = Bench(model, episodes, positions=positions)
    return [bench.effect(name) for name in names]


def _concentrated(effects: list[Effect], by: str) -> dict:
    """`concentration`; a ratio to an effect that is not positive is stored as None."""
    found = concentration(effects, by)
    return found | {"ratio": found["ratio"] if np.isfinite(found["ratio"]) else None}

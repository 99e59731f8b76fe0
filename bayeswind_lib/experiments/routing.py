"""Where attention goes: the networks of chapter 10, on many episodes, with their nulls.

Axes: L layers, H heads, V values, K questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from bayeswind_lib import checkpoints, scoring, stats, tunnels
from bayeswind_lib.probes import edit, nulls, routing
from bayeswind_lib.probes.ablation import Bench

DISTINCT = ("bijection-transformer", "bijection-transformer-posterior", "bijection-transformer-classroom",
            "bijection-transformer-classroom-posterior", "bijection-transformer-classroom-uniform")
COMING_BACK = ("bijection-transformer-classroom-replacement", "bijection-transformer-classroom-replacement-convolution")
CHAINS = ("hmm-transformer-classroom", "hmm-transformer")
FEW = 32  # episodes on which untrained networks are looked at: they hardly differ
WINDOWS = 40  # untrained networks into which another stream is put
SOME = 64  # episodes for what takes a pass for each head


def dice(number: int) -> torch.Generator:
    """A generator of random numbers for one purpose."""
    return torch.Generator().manual_seed(10_000 + number)


def measure(n_episodes: int, draws: int) -> dict:
    """The record of chapter 10.

    Args:
        n_episodes: held-out ones of each network. draws: of each null.
    """
    shipped = [(r["name"], r["seed"]) for r in checkpoints.shipped()]

    def each(names: tuple[str, ...], how: Callable) -> dict:
        found: dict = {}
        for name, seed in shipped:
            if name in names:
                found.setdefault(name, {})[str(seed)] = how(checkpoints.load(name, seed=seed), n_episodes, draws)
        return found

    distinct = each(DISTINCT, opened)
    main = distinct.get("bijection-transformer", {}).get("0", {})
    return {
        "distinct": distinct, "coming_back": each(COMING_BACK, bound), "chains": each(CHAINS, filtering),
        "untrained": main.get("untrained", {}),  # where the ledger looks for nulls
    }


def opened(model: nn.Module, n_episodes: int, draws: int) -> dict:
    """Coverage, names, lists and the window of a network whose keys are all different."""
    tunnel = tunnels.build("bijection", model.record["tunnel_config"])
    episodes, others = tunnel.sample(n_episodes, dice(1)), tunnel.sample(n_episodes, dice(2))
    attention = routing.patterns(model, episodes.inputs)
    found = {"kl": scoring.score_episodes(model, episodes).kl} | layers_of(model, episodes.inputs, attention)
    found |= names_of(model, episodes, attention) | lists_of(model, episodes, others, draws)
    found["patching"] = window_of(model, tunnel, episodes)
    bench = Bench(model, episodes)
    parts = [f"attention.{layer}" for layer in range(model.config.n_layers)]
    found["without"] = {part.split(".")[1]: bench.effect(part, "mean").kl for part in parts}
    if model.config.attention == "softmax":
        found["untrained"] = before_training(model, tunnel, draws)
    return found


def by_layer(x: torch.Tensor) -> dict[str, float]:
    """(L, H) as means over heads, by the number of the layer."""
    return {str(layer): float(row.mean()) for layer, row in enumerate(x)}


def layers_of(model: nn.Module, inputs: torch.Tensor, attention: torch.Tensor) -> dict:
    """Mass, evenness, entropy and the gap of cosines by layer, and the last layer's share of the first's entropy."""
    cover = routing.coverage(attention)
    found = {"mass": by_layer(cover.mass), "evenness": by_layer(cover.evenness), "bits": by_layer(cover.bits),
             "heads_mass": cover.mass.tolist(), "heads_evenness": cover.evenness.tolist()}
    if model.config.attention == "softmax":
        gap = routing.cosine_gap(model, inputs[:SOME])
        found |= {"cosine_gap": by_layer(gap), "cosine_last_over_first": float(gap[-1].mean() / gap[0].mean())}
    return found | {"last_over_first": float(cover.bits[-1].mean() / cover.bits[0].mean())}


def names_of(model: nn.Module, episodes, attention: torch.Tensor) -> dict:
    """Each head's favourite value, how much of it it takes, and whether that value leaks without it."""
    V = model.config.n_outputs
    named = routing.attention_by_value(attention, episodes.inputs, V)  # (L, H, V)
    weight, name = named.max(-1)
    some, heads = episodes[:SOME], []
    before = model.predict(some.inputs)
    for layer, row in enumerate(name.tolist()):
        for head, value in enumerate(row):
            without = routing.unnamed(some.inputs, layer, head, V + value)
            leak = routing.leaks(model, some, without, before).clamp(min=0)
            heads.append({"layer": layer, "head": head, "name": value, "weight": float(weight[layer, head]),
                          "leak": float(leak[value]), "share": float(leak[value] / leak.sum().clamp(min=1e-12))})
    return {"heads": heads, "least_attended": float(named.amax((0, 1)).min())}


def lists_of(model: nn.Module, episodes, others, draws: int) -> dict:
    """KL if questions attend by a fixed list, by another one, by place, as in another episode, or evenly."""
    V, L = model.config.n_outputs, model.config.n_layers
    attention = routing.patterns(model, others.inputs)
    scores = routing.token_scores(attention, others.inputs, 2 * V)

    def kl(changes: dict) -> float:
        with edit(model, changes):  # a pattern for each episode: all of them at once
            return scoring.score_episodes(model, episodes, batch_size=len(episodes)).kl

    def shuffled(number: int) -> float:
        order = V + torch.randperm(V, generator=dice(100 + number))
        few = episodes[:FEW]
        with edit(model, routing.by_token(scores[:, :, [*range(V), *order.tolist(), 2 * V]], few.inputs)):
            return scoring.score_episodes(model, few).kl

    ways = {"list": routing.by_token(scores, episodes.inputs), "place": routing.by_place(attention),
            "another": routing.by_another(attention), "even": routing.evenly(L)}
    found: dict = {name: kl(changes) for name, changes in ways.items()}
    found["first_layer"] = {name: kl({"pattern.0": changes["pattern.0"]}) for name, changes in ways.items()}
    return {"lists": found | {"shuffled": stats.summary([shuffled(i) for i in range(draws)])}}


def window_of(model: nn.Module, tunnel, episodes) -> dict[str, dict[str, float]]:
    """Shares of a changed value's effect by the layer and the token that it is handed on from."""
    own, donor, places = routing.exchange_values(tunnel, episodes)
    found = routing.patching_effect(model, own, donor, places, tunnel.n_pairs // 2)
    return {name: {str(layer): float(x) for layer, x in enumerate(shares)} for name, shares in found.items()}


def before_training(model: nn.Module, tunnel, draws: int) -> dict:
    """What untrained copies score: entropy, mass, evenness, names and the window."""
    few = tunnel.sample(FEW, dice(3))
    rows: dict[str, list[float]] = {}
    for number in range(draws):
        copy = nulls.untrained(model, dice(200 + number))
        attention = routing.patterns(copy, few.inputs)
        cover, gap = routing.coverage(attention), routing.cosine_gap(copy, few.inputs)
        found = {"mass": cover.mass.mean(), "evenness": cover.evenness.mean(), "bits": cover.bits.mean(),
                 "last_over_first": cover.bits[-1].mean() / cover.bits[0].mean(),
                 "cosine_gap": gap.mean(), "cosine_last_over_first": gap[-1].mean() / gap[0].mean(),
                 "least_attended": routing.attention_by_value(attention, few.inputs, model.config.n_outputs).amax((0, 1)).min()}
        if number < WINDOWS:
            shares = window_of(copy, tunnel, few)["value"]
            found |= {f"patching_{layer}": share for layer, share in shares.items()}
        for name, value in found.items():
            rows.setdefault(name, []).append(float(value))
    return {name: stats.summary(values) for name, values in rows.items()}


def bound(model: nn.Module, n_episodes: int, draws: int) -> dict:
    """Lookup of the matching pair where keys come back, by layer and head."""
    tunnel = tunnels.build("bijection", model.record["tunnel_config"])
    episodes = tunnel.sample(n_episodes, dice(1))
    keys = episodes.latents["keys"]
    attention = routing.patterns(model, episodes.inputs)
    found = routing.lookup(attention, keys)
    nulls_ = routing.lookup_nulls(model, episodes.inputs[:FEW], keys[:FEW], draws, dice(4))
    bench = Bench(model, episodes[:SOME], dice(5))
    L, H = found.mass.shape
    return {
        "kl": scoring.score_episodes(model, episodes).kl, "mass": found.mass.tolist(), "bits": found.bits.tolist(),
        "margin": [[none_if_nan(x) for x in row] for row in routing.margins(model, episodes.inputs, keys).tolist()],
        "without": [[bench.effect(f"head.{i}.{h}").kl for h in range(H)] for i in range(L)],
        "nulls": {name: value.to_dict() for name, value in nulls_.items()},
    }


def none_if_nan(x: float) -> float | None:
    """A number, or None for what is none."""
    return None if math.isnan(x) else x


def filtering(model: nn.Module, n_episodes: int, draws: int) -> dict:
    """What symbols of a chain look at, by layer, and what it costs to forbid it."""
    tunnel = tunnels.build("hmm", model.record["tunnel_config"])
    episodes = tunnel.sample(n_episodes, dice(1))
    header = tunnel.header_length
    groups = routing.chain_groups(episodes.inputs.shape[1], tunnel.n_states)
    attention = routing.patterns(model, episodes.inputs)
    kl = scoring.score_episodes(model, episodes).kl
    found = {"kl": kl, "ages": routing.fixed_age(attention, header).tolist(),
             "bits": by_layer(scoring.entropy(attention[:, :, :, header:]).mean((1, 3)))}
    found["mass"] = {name: by_layer(x) for name, x in routing.towards(attention, groups, header).items()}
    some = episodes[:SOME]
    base = scoring.score_episodes(model, some).kl
    found["forbidden"] = {
        name: [_costs(model, some, group, [layer]) - base for layer in range(model.config.n_layers)]
        for name, group in groups.items()
    }
    copies = [routing.patterns(nulls.untrained(model, dice(300 + i)), episodes.inputs[:FEW]) for i in range(min(draws, 20))]
    rows = [routing.towards(x, groups, header) for x in copies]
    found["untrained"] = {name: stats.summary([float(row[name].mean()) for row in rows]) for name in groups}
    ages = [float(routing.fixed_age(x, header)[..., 1:].max()) for x in copies]
    return found | {"untrained_age": stats.summary(ages)}


def _costs(model: nn.Module, episodes, group: torch.Tensor, layers: list[int]) -> float:
    with edit(model, routing.forbid(group, layers)):
        return scoring.score_episodes(model, episodes).kl

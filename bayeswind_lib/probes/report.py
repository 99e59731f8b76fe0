"""One network opened from end to end: rows for a table, for the command line and the records.

Axes: B episodes, K scored positions.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from bayeswind_lib import tunnels
from bayeswind_lib.probes import beliefs, keys, routing
from bayeswind_lib.probes.ablation import Bench, parts
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.probes.sites import sites, table
from bayeswind_lib.tunnels import Episodes

QUESTIONS = ("activations", "keys", "attention", "heads", "layers", "beliefs")
HOWS = ("zero", "mean", "resample")  # ways to take a head out
CONTROLS = ("noise", "direction")  # ways that leave it in


def report(
    model: nn.Module, what: str, n_episodes: int = 256, draws: int = 200, seed: int = 0
) -> list[dict]:
    """Rows about one network, JSON types.

    Args:
        model: a loaded network; its record says which tunnel it is of.
        what: "activations" (names and shapes), "keys" (orthogonality beside four nulls), "attention"
            (where it goes, by head), "heads" and "layers" (what taking them out costs, in bits),
            "beliefs" (how much of the exact posterior is readable, by layer).
        n_episodes: fresh ones. draws: of each null of "keys".
    Raises:
        ValueError: for an unknown word, or a question that this network cannot be asked.
    """
    makers = {"attention": attention_rows, "heads": head_rows, "layers": layer_rows, "beliefs": belief_rows}
    if what not in QUESTIONS:
        raise ValueError(f"what is {what!r}: choose one of {', '.join(QUESTIONS)}")
    if what == "activations":
        return table(model)
    rng = torch.Generator().manual_seed(seed)
    if what == "keys":
        return list(key_rows(model, draws, rng))
    episodes = episodes_of(model, n_episodes, rng)
    return list(makers[what](model, episodes, rng))


def episodes_of(model: nn.Module, n_episodes: int, rng: torch.Generator) -> Episodes:
    """Fresh episodes of the tunnel that a loaded network was trained in."""
    return tunnels.build(model.record["tunnel"], model.record["tunnel_config"]).sample(n_episodes, rng)


def token_sets(model: nn.Module) -> dict[str, torch.Tensor]:
    """Tokens of the bijection tunnel: its keys, its values, and both: int64 (n,) each.

    Raises:
        ValueError: for a network of another tunnel.
    """
    if model.record["tunnel"] != "bijection":
        raise ValueError(
            f"this network is of the tunnel {model.record['tunnel']}: keys and values are tokens of the bijection only"
        )
    V = model.record["tunnel_config"]["n_values"]
    every = torch.arange(2 * V)
    return {"keys": every[:V], "values": every[V:], "both": every}


def key_rows(model: nn.Module, draws: int, rng: torch.Generator) -> Iterator[dict]:
    """Mean |cosine| of layer 0's keys, raw and centred, all heads side by side and one by one."""
    for name, tokens in token_sets(model).items():
        drawn = keys.drawn_keys(model, tokens, 0, draws, rng)
        for head in (None, *range(model.config.n_heads)):
            for centred in (False, True):
                found = keys.orthogonality(model, tokens, 0, head, centred, drawn=drawn)
                row = {"tokens": name, "head": head, "centred": centred}
                row["cosine"] = next(iter(found.values())).value
                for null, measured in found.items():
                    low, high = measured.low, measured.high
                    row |= {f"{null} low": low, f"{null} high": high, f"{null} percentile": measured.percentile}
                yield row


def attention_rows(model: nn.Module, episodes: Episodes, rng: torch.Generator) -> Iterator[dict]:
    """Where each head's attention goes from the questions: on values shown, or on the matching pair."""
    if model.record["tunnel"] != "bijection":
        raise ValueError(f"this network is of the tunnel {model.record['tunnel']}: ask a bijection network")
    attention = routing.patterns(model, episodes.inputs)
    if model.record["tunnel_config"]["with_replacement"]:
        found = routing.lookup(attention, episodes.latents["keys"])
        columns = {"on the matching pair": found.mass, "entropy (bits)": found.bits}
    else:
        found = routing.coverage(attention)
        columns = {"on values shown": found.mass, "evenness": found.evenness, "entropy (bits)": found.bits}
    layers = [int(name.split(".")[1]) for name in sites(model) if name.startswith("pattern.")]
    for i, layer in enumerate(layers):
        for head in range(model.config.n_heads):
            yield {"layer": layer, "head": head} | {name: float(x[i, head]) for name, x in columns.items()}


def head_rows(model: nn.Module, episodes: Episodes, rng: torch.Generator) -> Iterator[dict]:
    """What each head is worth: rise of the KL, bits, when it is taken out or disturbed."""
    yield from _effects(model, episodes, rng, parts(model, "head"), (*HOWS, *CONTROLS))


def layer_rows(model: nn.Module, episodes: Episodes, rng: torch.Generator) -> Iterator[dict]:
    """The same for whole layers and for their parts."""
    kinds = {name.split(".")[0] for name in sites(model)} & {"attention", "feed_forward", "mixer"}
    names = [name for kind in ("layer", *sorted(kinds)) for name in parts(model, kind)]
    yield from _effects(model, episodes, rng, names, ("zero", "mean", *CONTROLS))


def _effects(model, episodes, rng, names, hows) -> Iterator[dict]:
    bench = Bench(model, episodes, rng)
    for name in names:
        row = {"part": name, "KL before": float(bench.before["kl"].mean())}
        for how in hows:
            effect = bench.effect(name, how)
            row |= {how: effect.kl, f"{how} se": effect.kl_se}
        yield row


def belief_rows(model: nn.Module, episodes: Episodes, rng: torch.Generator) -> Iterator[dict]:
    """R^2 of the exact posterior, read linearly from the stream at the scored positions.

    Raises:
        ValueError: if the posterior is no distribution over outcomes.
    """
    if episodes.outcome != "categorical":
        raise ValueError("this posterior is a mean and a variance: beliefs are read where outcomes are few")
    names = [name for name in sites(model) if name.split(".")[0] in ("residual", "output")]
    scored = model.scored_positions(episodes.inputs.shape[1])
    for name, x in activations(model, episodes.inputs, names).items():
        found = beliefs.readable(x[:, scored].numpy().astype(float), episodes.posterior.numpy())
        yield {"activation": name, "R2": found.r2, "KL (bits)": found.kl, "shuffled R2": found.shuffled_r2}

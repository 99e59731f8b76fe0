"""The record `attention_variants`: one recipe with one part of attention exchanged (Paper III's "static and dynamic"; notes B7).

The networks of the plan `variants`, five seeds each, under the three diagnostics of chapter 17, beside
untrained twins of the same shape; differences from multi-head attention are paired by seed. What is
not trained yet is trained first (some minutes), in `runs/variants`.

Axes: n prompts, L layers, d coordinates of a value (G C), T tokens.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, models, training
from bayeswind_lib.experiments.language_geometry import pack, prompts_of
from bayeswind_lib.language import diagnose, layouts, manifold
from bayeswind_lib.probes import nulls
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.training import plans
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import read_row, weights_of

FOLDER = Path("runs/variants")
SEED, PROMPTS, TWINS, EPISODES = 17, 100, 20, 500
PLAIN = "multihead"
COMPARED = {"shared": "multiquery", "window": "window4"}  # what stands in the ledger, less the plain one
SHORT = 2  # updates of the runs that only try the code
# What is compared: of the score, and the three diagnostics (attention twice: relative, and in bits).
FIGURES = ("kl", "entropy_mae", "pc12", "participation", "cosine", "fall", "fall_bits", "first", "last")
# Quantiles of Student's t with four degrees of freedom, five seeds: 95 % of it lies within this.
T_95 = {2: 12.7062, 3: 4.3027, 4: 3.1824, 5: 2.7764}


def name_of(cell: Cell) -> tuple[str, str]:
    """Tunnel and name of attention of a cell of the plan."""
    return cell.recipe.tunnel, cell.name.split("-variants-")[1]


def is_plain(cell: Cell) -> bool:
    """Whether it is trained at the recipe's own rate, not at half of it."""
    return cell.recipe.learning_rate == 2e-2


def measure(n_episodes: int, runs: str | Path | None = None) -> dict:
    """Train what is missing, and measure all of it.

    Args:
        n_episodes: on which networks are scored, at most 500; with fewer the code is tried, on short runs.
        runs: the folder of the sweep; `runs/variants` by default, and one that is thrown away for short runs.
    """
    cells = plans.plan("variants")
    if n_episodes >= EPISODES:
        return _measure(cells, Path(runs or FOLDER), EPISODES, TWINS, PROMPTS)
    with tempfile.TemporaryDirectory() as place:
        return _measure(short(cells), Path(runs or place), n_episodes, 3, 12)


def _measure(cells: Sequence[Cell], folder: Path, n_episodes: int, draws: int, n: int) -> dict:
    training.sweep(cells, folder, workers=0, n_episodes=n_episodes, report=lambda line: None)
    return {"n_episodes": n_episodes} | of_sweep(cells, folder, draws, n)


def short(cells: Sequence[Cell]) -> list[Cell]:
    """Of the first tunnel the plain, the multi-query and a windowed network of two seeds, hardly trained."""
    wanted = [(name_of(cells[0])[0], name) for name in (PLAIN, *COMPARED.values())]
    few = [c for c in cells if c.recipe.seed < 2 and is_plain(c) and name_of(c) in wanted]
    return [Cell(c.name, c.recipe.but(steps=SHORT, eval_every=SHORT), c.preset) for c in few]


def of_sweep(cells: Sequence[Cell], folder: Path, draws: int, n: int) -> dict:
    """Every finished network of a sweep by tunnel and attention: each seed, the twins, differences, intervals."""
    found: dict = {"prompts": n, "twins": draws}
    tunnels_of: dict = {}
    for cell in cells:
        tunnel, name = name_of(cell)
        row = read_row(cell, folder)
        network = checkpoints.load_file(weights_of(row, folder))
        entry = tunnels_of.setdefault(tunnel, {}).setdefault(name, {"seeds": {}, "half": {}})
        kind = "seeds" if is_plain(cell) else "half"
        given = given_to(network, n)
        entry[kind][str(cell.recipe.seed)] = scores_of(row) | figures(network, given)
        if kind == "seeds" and cell.recipe.seed == 0:
            entry |= about(network, row, given, draws)
        if kind == "seeds" and name == PLAIN:
            for width in (4, 8):
                masked = tunnels_of[tunnel][name].setdefault(f"masked{width}", {})
                masked[str(cell.recipe.seed)] = attention_figures(network, given, width)
    for entries in tunnels_of.values():
        for name, entry in entries.items():
            entry["mean"] = {key: mean_of(entry["seeds"], key) for key in FIGURES}
            if name != PLAIN:
                entry["less_plain"] = {key: paired(entry["seeds"], entries[PLAIN]["seeds"], key) for key in FIGURES}
    return found | {"tunnels": tunnels_of} | ledger_values(tunnels_of)


def scores_of(row: dict) -> dict:
    """What a run scored, bits."""
    return {key: float(row[key]) for key in ("kl", "entropy_mae")}


def given_to(network: nn.Module, n: int) -> list[torch.Tensor]:
    """Prompts: the same for all networks of a tunnel."""
    return prompts_of(network, n, torch.Generator().manual_seed(SEED))[0]


def figures(network: nn.Module, given: Sequence[torch.Tensor]) -> dict:
    """The three diagnostics of chapter 17 for one network, by the same functions; `cosine` is None without keys."""
    looks = diagnose.look(network, given) if network.config.attention == "softmax" else None
    values = looks.values[:, -1] if looks else values_of(network, given)
    found = manifold.shares(values.astype(float))
    cosine = float(diagnose.key_cosines(network).mean()) if looks else None
    return {"pc12": found["pc12"], "participation": found["participation"], "cosine": cosine} | attention_figures(network, given)


@torch.no_grad()
def values_of(network: nn.Module, given: Sequence[torch.Tensor]) -> np.ndarray:
    """Values of the last layer at the last token, (n, d), also of a network without keys."""
    kept: list[torch.Tensor] = []
    hook = network.blocks[-1].attention.value.register_forward_hook(lambda module, inputs, output: kept.append(output[0, -1]))
    try:
        for prompt in given:
            network(prompt[None])
    finally:
        hook.remove()
    return torch.stack(kept).numpy()


@torch.no_grad()
def last_rows(network: nn.Module, tokens: torch.Tensor, window: int = 0) -> torch.Tensor:
    """Attention of the last token, (n, T) tokens -> float64 (L, n, H, T), rows sum to 1.

    Args:
        window: how many tokens it sees; 0: as many as the network lets it.
    """
    if not window:
        return torch.stack(network.attention_patterns(tokens))[:, :, :, -1].double()
    layers = zip(network.blocks, activations(network, tokens, "normed.*").values(), strict=True)
    scores = torch.stack([block.attention.scores(x)[:, :, -1] for block, x in layers]).double()
    gone = torch.arange(tokens.shape[1]) < tokens.shape[1] - window
    return scores.masked_fill(gone, -math.inf).softmax(-1)


def attention_figures(network: nn.Module, given: Sequence[torch.Tensor], window: int = 0) -> dict:
    """How attention's entropy falls from the first layer to the last, at the last token of each prompt.

    Args:
        window: the same scores under this mask, layer by layer, with the stream as it was: what a
            window alone does to the same attention.
    Returns:
        fall: the share by which it falls, entropies over log2 of all tokens (the chapter's definition).
        fall_seen: the same over log2 of the tokens that the mask shows. fall_bits: in bits.
        first, last: mean entropy over log2 of all tokens; first_seen: over the tokens shown.
        ceiling: mean over prompts of the largest entropy that the mask allows, over log2 of all tokens.
    """
    own = network.config.window
    seen, bits, lengths = [], [], []
    for length in sorted({len(prompt) for prompt in given}):
        some = torch.stack([prompt for prompt in given if len(prompt) == length])  # (n, T)
        rows = last_rows(network, some, window)  # (L, n, H, T)
        bits.append((torch.special.entr(rows).sum(-1) / math.log(2)).mean(-1).T)  # (n, L)
        shown = min(length, window or length, own or length)
        lengths += [length] * len(some)
        seen += [shown] * len(some)
    entropy = torch.cat(bits).numpy()
    whole, shown = np.log2(lengths)[:, None], np.log2(seen)[:, None]
    fall, fall_seen = diagnose.reduction(entropy / whole), diagnose.reduction(entropy / shown)
    by_layer = (entropy / whole).mean(0)
    return {
        "fall": fall, "fall_seen": fall_seen, "fall_bits": float(entropy[:, 0].mean() - entropy[:, -1].mean()),
        "first": float(by_layer[0]), "last": float(by_layer[-1]), "layers": by_layer.tolist(),
        "first_seen": float((entropy / shown)[:, 0].mean()), "ceiling": float((shown / whole).mean()),
    }


def about(network: nn.Module, row: dict, given: Sequence[torch.Tensor], draws: int) -> dict:
    """Size and configuration, values of the first seed, and what untrained twins of the same shape score."""
    twins = [twin_figures(network.config, given, i) for i in range(draws)]
    keys = [key for key in twins[0] if key != "layers" and twins[0][key] is not None]
    return {
        "parameters": row["parameters"], "config": network.config.to_dict(), "n_values": network.config.n_groups * network.blocks[0].attention.channels,
        "twins": {key: diagnose.interval([twin[key] for twin in twins]) for key in keys},
        "vectors": pack(values_of(network, given)),
        "rebuilding": max(layouts.rebuilding_error(network, given[-1][None])) if network.config.attention == "softmax" else None,
    }


def twin_figures(config, given: Sequence[torch.Tensor], draw: int) -> dict:
    """`figures` of a network of this shape with fresh weights."""
    rng = torch.Generator().manual_seed(1000 + draw)
    wanted = models.TransformerConfig(**config) if isinstance(config, dict) else config
    return figures(nulls.untrained(models.Transformer(wanted), rng), given)


def prompts_for(tunnel: str, config: dict, n: int) -> list[torch.Tensor]:
    """The prompts behind the record: for a tunnel of the plan, and a network's stored configuration."""
    network = models.Transformer(models.TransformerConfig(**config))
    cell = next(cell for cell in plans.plan("variants") if cell.recipe.tunnel == tunnel)
    network.record = {"tunnel": tunnel, "tunnel_config": cell.recipe.tunnel_config}
    return given_to(network, n)


# ---- statistics


def mean_of(seeds: dict, key: str) -> dict | None:
    """Mean over seeds, lowest and highest."""
    values = [one[key] for one in seeds.values()]
    return None if None in values else {"value": float(np.mean(values)), "low": float(min(values)), "high": float(max(values))}


def paired(these: dict, those: dict, key: str) -> dict | None:
    """Mean over seeds of the difference, these less those, with its 95 % interval (Student's t), and the sign's count.

    Two runs of one seed read the same episodes, so what they share is not counted as error.

    >>> paired({"0": {"x": 2.0}, "1": {"x": 2.0}}, {"0": {"x": 1.0}, "1": {"x": 1.0}}, "x")["value"]
    1.0
    """
    both = [(these[seed][key], those[seed][key]) for seed in these if seed in those]
    if not both or any(None in pair for pair in both):
        return None
    apart = np.array([a - b for a, b in both])
    half = T_95[len(apart)] * float(apart.std(ddof=1)) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    mean = float(apart.mean())
    return {"value": mean, "low": mean - half, "high": mean + half, "seeds": len(apart), "above": int((apart > 0).sum())}


def exchanged(these: dict, those: dict, key: str) -> dict:
    """`paired` if the two networks of each seed change places or do not: all ways to deal them out."""
    apart = np.array([these[seed][key] - those[seed][key] for seed in these if seed in those])
    signs = np.array(list(itertools.product((1, -1), repeat=len(apart))))
    return diagnose.interval((signs * apart).mean(1))


def ledger_values(tunnels_of: dict) -> dict:
    """The few numbers that stand in the ledger, and their nulls by kind, each flat.

    By how much the fall of entropy of the plain network is above that of another; and of all networks
    the lowest share of two components and the highest cosine of keys.
    """
    measured, dealt = {}, {}
    for tunnel, entries in tunnels_of.items():
        plain = entries[PLAIN]["seeds"]
        for what, name in COMPARED.items():
            measured[f"{what} {tunnel}"] = paired(plain, entries[name]["seeds"], "fall")["value"]
            dealt[f"{what} {tunnel}"] = exchanged(plain, entries[name]["seeds"], "fall")
    every = [entry for entries in tunnels_of.values() for entry in entries.values()]
    keyed = [entry for entry in every if entry["mean"]["cosine"]]
    measured["pc12"] = min(entry["mean"]["pc12"]["value"] for entry in every)
    measured["cosine"] = max(entry["mean"]["cosine"]["value"] for entry in keyed)
    ends = ("null", "low", "high")
    twins = {
        "pc12": {end: min(entry["twins"]["pc12"][end] for entry in every) for end in ends},
        "cosine": {end: max(entry["twins"]["cosine"][end] for entry in keyed) for end in ends},
    }
    draws = every[0]["twins"]["pc12"]["draws"]
    return {"ledger": measured, "dealt_seeds": dealt, "untrained": {key: one | {"draws": draws} for key, one in twins.items()}}

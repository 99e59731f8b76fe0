"""The record `attention_variants`: one recipe with one part of attention exchanged (Paper III's "static and dynamic"; notes B7).

The networks of the plan `variants`, five seeds each, under the three diagnostics of chapter 17, beside
untrained twins of the same shape; differences from multi-head attention are paired by seed. What is
not trained yet is trained first (some minutes), in `runs/variants`.

Axes: n prompts, L layers, d coordinates of a value (G C), T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, models, training, tunnels
from bayeswind_lib.language import diagnose, layouts, manifold
from bayeswind_lib.ledger.language_geometry import pack, prompts_of
from bayeswind_lib.probes import nulls
from bayeswind_lib.training import plans
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import read_row, weights_of

NAME = "attention_variants"
FOLDER = Path("runs/variants")
SEED, PROMPTS, TWINS = 17, 100, 10
PLAIN = "multihead"
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


def measure(n_episodes: int, folder: str | Path | None = None) -> dict:
    """Train what is missing, and measure all of it.

    Args:
        n_episodes: on which networks are scored; fewer than 500 try the code, on two short runs a tunnel.
        folder: of the sweep; `runs/variants` by default, and one beside it for short runs.
    """
    cells, draws, n = plans.plan("variants"), TWINS, PROMPTS
    if n_episodes < 500:
        cells, draws, n, folder = short(cells), 3, 12, folder or FOLDER.with_name("variants-short")
    folder = Path(folder or FOLDER)
    training.sweep(cells, folder, workers=0, n_episodes=min(n_episodes, 500), report=lambda line: None)
    return of_sweep(cells, folder, draws, n)


def short(cells: Sequence[Cell]) -> list[Cell]:
    """The plain, the grouped and a windowed network of two seeds, hardly trained."""
    few = [c for c in cells if c.recipe.seed < 2 and is_plain(c) and name_of(c)[1] in (PLAIN, "grouped", "window4")]
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
    return found | {"tunnels": tunnels_of} | {"ledger": ledger_values(tunnels_of)}


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
def attention_figures(network: nn.Module, given: Sequence[torch.Tensor], window: int = 0) -> dict:
    """How attention's entropy falls from the first layer to the last, at the last token of each prompt.

    Args:
        window: attention that lies outside is struck out, and what is left made to sum to 1: what a
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
        some = torch.stack([prompt for prompt in given if len(prompt) == length])
        rows = torch.stack(network.attention_patterns(some))[:, :, :, -1].double()  # (L, n, H, T)
        if window:
            rows = rows * (torch.arange(length) >= length - window)
            rows = rows / rows.sum(-1, keepdim=True)
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
    """The prompts behind the record, from a tunnel's name and a network's stored configuration."""
    network = models.Transformer(models.TransformerConfig(**config))
    place = {"bijection": {"n_values": 8}, "hmm": None}[tunnel]
    cell = next(c for c in plans.plan("variants") if c.recipe.tunnel == tunnel)
    network.record = {"tunnel": tunnel, "tunnel_config": place or cell.recipe.tunnel_config}
    assert tunnels.build(tunnel, network.record["tunnel_config"])
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


def ledger_values(entries: dict) -> dict:
    """The few numbers that stand in the ledger."""
    return {}

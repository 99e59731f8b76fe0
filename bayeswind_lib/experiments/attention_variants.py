"""The record `attention_variants`: one recipe with one part of attention exchanged (Paper III's "static and dynamic"; notes B7).

The networks of the plan `variants`, five seeds each, under the three diagnostics of chapter 17, beside
untrained copies of the same shape; differences from multi-head attention are paired by seed. What is
neither stored nor trained yet is trained first, in `runs/variants`; what lies in a folder that `--runs` names is
measured again.

Axes: n prompts, L layers, d coordinates of a value (G C), T tokens.
"""

from __future__ import annotations

import copy
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, training
from bayeswind_lib.checkpoints import store
from bayeswind_lib.language import diagnose, layouts
from bayeswind_lib.language.own_networks import (
    attention_figures,
    figures,
    given_to,
    paired,
    untrained_figures,
    values_of,
)
from bayeswind_lib.language.stored import pack
from bayeswind_lib.training import plans
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import read_row, weights_of

FOLDER = Path("runs/variants")
PROMPTS, COPIES, EPISODES = 100, 20, 500
PLAIN = "multihead"
COMPARED = {"shared": "multiquery", "window": "window4", "experts": "experts"}  # what stands in the ledger, less the plain one
RECORD = "attention_variants"
SHORT = 2  # updates of the runs that only try the code
# What is compared: of the score, and the three diagnostics (attention twice: relative, and in bits).
FIGURES = ("kl", "entropy_mae", "pc12", "participation", "cosine", "fall", "fall_bits", "first", "last")


def name_of(cell: Cell) -> tuple[str, str]:
    """Tunnel and name of attention of a cell of the plan."""
    return cell.recipe.tunnel, cell.name.split("-variants-")[1]


def is_plain(cell: Cell) -> bool:
    """Whether it is trained at the recipe's own rate, not at half of it."""
    return cell.recipe.learning_rate == 2e-2


def measure(n_episodes: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """Train what is missing, and measure it.

    Args:
        n_episodes: on which networks are scored, at most 500; with fewer the code is tried, on short runs.
        records: where the stored record lies, whose networks are kept.
        runs: the folder of the sweep; `runs/variants` by default, and one that is thrown away for short runs.
    """
    cells = plans.plan("variants")
    if n_episodes >= EPISODES:
        known, folder = (store.read(RECORD, records) or {}).get("tunnels", {}), Path(runs or FOLDER)
        return _measure([cell for cell in cells if not kept(cell, known) or read_row(cell, folder)], folder, EPISODES, COPIES, PROMPTS, known)
    with tempfile.TemporaryDirectory() as place:
        return _measure(short(cells), Path(runs or place), n_episodes, 3, 12, {})


def kept(cell: Cell, known: dict) -> bool:
    """Whether the stored record has the network of a cell."""
    tunnel, name = name_of(cell)
    return str(cell.recipe.seed) in known.get(tunnel, {}).get(name, {}).get("seeds" if is_plain(cell) else "half", {})


def _measure(cells: Sequence[Cell], folder: Path, n_episodes: int, draws: int, n: int, known: dict) -> dict:
    training.sweep(cells, folder, workers=0, n_episodes=n_episodes, report=lambda line: None)
    return {"n_episodes": n_episodes} | of_sweep(cells, folder, draws, n, known)


def short(cells: Sequence[Cell]) -> list[Cell]:
    """Of the first tunnel the plain, the multi-query and a windowed network of two seeds, hardly trained."""
    wanted = [(name_of(cells[0])[0], name) for name in (PLAIN, *COMPARED.values())]
    few = [c for c in cells if c.recipe.seed < 2 and is_plain(c) and name_of(c) in wanted]
    return [Cell(c.name, c.recipe.but(steps=SHORT, eval_every=SHORT), c.preset) for c in few]


def of_sweep(cells: Sequence[Cell], folder: Path, draws: int, n: int, known: dict | None = None) -> dict:
    """Every finished network of a sweep, and those known, by tunnel and attention: each seed, untrained copies, differences, intervals."""
    found: dict = {"prompts": n, "untrained_draws": draws}
    tunnels_of: dict = copy.deepcopy(known or {})
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


def about(network: nn.Module, row: dict, given: Sequence[torch.Tensor], draws: int) -> dict:
    """Size and configuration, values of the first seed, and what untrained copies of the same shape score."""
    copies = [untrained_figures(network.config, given, i) for i in range(draws)]
    keys = [key for key in copies[0] if key != "layers" and copies[0][key] is not None]
    return {
        "parameters": row["parameters"], "config": network.config.to_dict(), "n_values": network.config.n_groups * network.blocks[0].attention.channels,
        "untrained": {key: diagnose.null_summary([copy[key] for copy in copies]) for key in keys},
        "vectors": pack(values_of(network, given)),
        "rebuilding": max(layouts.rebuilding_error(network, given[-1][None])) if network.config.attention == "softmax" else None,
    }


# ---- statistics


def mean_of(seeds: dict, key: str) -> dict | None:
    """Mean over seeds, lowest and highest."""
    values = [one[key] for one in seeds.values()]
    return None if None in values else {"value": float(np.mean(values)), "low": float(min(values)), "high": float(max(values))}


def exchanged(these: dict, those: dict, key: str) -> dict:
    """`paired` if the two networks of each seed change places or do not: all ways to deal them out."""
    apart = np.array([these[seed][key] - those[seed][key] for seed in these if seed in those])
    signs = np.array(list(itertools.product((1, -1), repeat=len(apart))))
    return diagnose.null_summary((signs * apart).mean(1))


def ledger_values(tunnels_of: dict) -> dict:
    """The few numbers that stand in the ledger, and their nulls by kind, each flat.

    By how much the fall of entropy of the plain network is above that of another; and of all networks
    the lowest share of two components and the highest cosine of keys, each beside the untrained copies of the network that has it.
    """
    measured, dealt = {}, {}
    for tunnel, entries in tunnels_of.items():
        plain = entries[PLAIN]["seeds"]
        for what, name in COMPARED.items():
            measured[f"{what} {tunnel}"] = paired(plain, entries[name]["seeds"], "fall")["value"]
            dealt[f"{what} {tunnel}"] = exchanged(plain, entries[name]["seeds"], "fall")
    every = [entry for entries in tunnels_of.values() for entry in entries.values()]
    keyed = [entry for entry in every if entry["mean"]["cosine"]]
    found = {
        "pc12": min(every, key=lambda entry: entry["mean"]["pc12"]["value"]),
        "cosine": max(keyed, key=lambda entry: entry["mean"]["cosine"]["value"]),
    }
    measured |= {key: entry["mean"][key]["value"] for key, entry in found.items()}
    copies = {key: {end: entry["untrained"][key][end] for end in ("null", "low", "high", "draws")} for key, entry in found.items()}
    return {"ledger": measured, "dealt_seeds": dealt, "untrained": copies}

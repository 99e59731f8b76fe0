"""The record `facts`: parameter counts of published configurations, arithmetic on published numbers, rounding."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import models, stats
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments.sampling import DRAW_EPISODES, DRAWS
from bayeswind_lib.probes.fixed import SEED
from bayeswind_lib.scoring import entropy_bits
from bayeswind_lib.training.presets import PUBLISHED


def measure(records: str | Path | None = None) -> dict:
    """Parameter counts of published configurations, arithmetic on published numbers, rounding."""
    counts: dict = _transformer_counts() | _rival_counts()
    counts["null"] = _random_counts(200)
    staircase = [np.full(n, 1 / n) for n in range(1, 21)]
    rounding: dict = {"float32": max(_rounding_error(p, torch.float32) for p in staircase)}
    rng = np.random.default_rng(SEED)
    worst = [
        max(_rounding_error(p, torch.bfloat16) for p in rng.dirichlet(np.ones(20), DRAW_EPISODES))
        for _ in range(DRAWS)
    ]
    rounding["null"] = stats.summary(worst)
    return {"parameters": counts, "entropy_rounding": rounding, "published": _arithmetic(_late_entropy(records))}


def _transformer_counts() -> dict[str, int]:
    sizes = {
        "separate": (40, 39, PUBLISHED),
        "paired": (20, 39, PUBLISHED),
        "readme": (40, 39, PUBLISHED | {"width": 384, "hidden": 1536}),
    }
    return {
        name: models.count_parameters(models.build("transformer", _config(*size)))
        for name, size in sizes.items()
    } | {"hmm_transformer": _hmm_transformer_count(9, 256), "hmm_transformer_192": _hmm_transformer_count(6, 192, 83)}


HMM_TOKENS, HMM_POSITIONS = 105, 1024  # of the published HMM networks


def _hmm_transformer_count(n_layers: int, width: int, n_positions: int = HMM_POSITIONS) -> int:
    """Of PyTorch's own encoder layers with norms, biases and an untied head, as published."""
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, norm_first=True)
        count = n_layers * models.count_parameters(layer)
        return count + _ends(width, n_positions)


def _ends(width: int, n_positions: int) -> int:
    """Embedding, positions, last norm and head of an HMM network."""
    return (HMM_TOKENS + n_positions) * width + 2 * width + 5 * width + 5


def _rival_counts() -> dict[str, int]:
    """Of the other architectures as the authors' code builds them; 40 tokens, 39 positions."""
    counts = {}
    for name, (n_layers, width) in {"mlp_18x384": (18, 384), "mlp_20x400": (20, 400)}.items():
        sizes = {"n_layers": n_layers, "width": width, "hidden": 0}
        mlp = models.build("mlp", _config(40, 39, sizes))
        counts[name] = models.count_parameters(mlp.blocks)  # before embeddings
    control = {"n_layers": 9, "width": 192, "hidden": 768}
    counts["mlp_control"] = models.count_parameters(models.build("mlp", _config(40, 37, control)))
    ends = (40 + 39 + 2) * 192  # embedding, positions, norm; the head is tied
    counts["lstm_bijection"] = _lstm_count(6, 192) + ends
    counts["lstm_bijection_untied"] = counts["lstm_bijection"] + 40 * 192
    counts["mamba_bijection"] = 6 * _mamba_block_count(192) + ends
    counts["lstm_hmm"] = _lstm_count(9, 256) + _ends(256, 0)
    counts["mamba_hmm"] = 9 * _mamba_block_count(256) + _ends(256, 0)
    return counts


def _lstm_count(n_layers: int, width: int) -> int:
    with torch.device("meta"):
        return models.count_parameters(nn.LSTM(width, width, n_layers))


def _mamba_block_count(width: int) -> int:
    """Of the authors' home-made block: scalar time steps, 16 states, decay rates shared by channels."""
    inner, states = 2 * width, 16
    parts = (
        2 * width * inner,  # into stream and gate, no bias
        inner * 4 + inner,  # convolution over 4 tokens, with bias
        inner * (2 * states + 1),  # to the state's ways in and out and the time step
        inner + inner,  # from the time step to channels, with bias
        states, inner,  # decay rates, skip
        inner * width, 2 * inner,  # out, norm
    )
    return sum(parts)


def _arithmetic(late_entropy: float) -> dict:
    """What published numbers imply about each other."""
    rng = np.random.default_rng(SEED)
    drawn = [_implied(*rng.uniform(0, math.log2(5), 8)) for _ in range(DRAWS)]
    published = _implied(1.57e-3, 1e-4, 0.0125, 0.0276, 0.0288, 0.049, 7.5e-5, late_entropy)
    return published | {"null": stats.summaries(drawn)}


def _late_entropy(folder: str | Path | None) -> float:
    """Mean entropy of the exact belief at the steps 21 to 50 of an HMM, from the stored record."""
    path = "tasks/S5-V5-K50-grid/constants/entropy_by_position"
    found = store.lookup(store.read("hmm_baselines", folder), path)
    if found is None:
        raise ValueError(
            f"facts rests on the record hmm_baselines, and {folder or store.records_folder()} holds none with "
            f"{path}: measure it first, python -m bayeswind_lib records hmm_baselines facts"
        )
    return float(np.mean(found[20:]))


def _implied(
    late_k20: float, k20: float, k30: float, k50: float, k50_v1: float, table: float, best: float,
    entropy: float,
) -> dict:
    """From averages over K positions to what the positions beyond 20 must score; caps; ratios.

    Args:
        late_k20: error at K = 20 without late attention; a causal network keeps it at K = 50.
        k20, k30, k50: the checked length averages. k50_v1: that of the first version.
        table, best: the transformer's HMM error in the architecture table, and elsewhere.
        entropy: mean entropy of the exact belief beyond 20, what an answer without doubt errs by.
    """
    return {
        "late_attention_cap": (20 * late_k20 + 30 * math.log2(5)) / 50,
        "late_attention_cap_zero": (20 * late_k20 + 30 * entropy) / 50,
        "beyond_k30": (30 * k30 - 20 * k20) / 10,
        "beyond_k50": (50 * k50 - 20 * k20) / 30,
        "beyond_k50_v1": (50 * k50_v1 - 20 * best) / 30,
        "transformer_over_itself": table / best,
    }


def _config(n_tokens: int, n_positions: int, sizes: dict) -> dict:
    scored = tuple(range(0, n_positions, 2))
    fixed = {"n_tokens": n_tokens, "n_positions": n_positions, "scored": scored}
    return fixed | {"n_outputs": 20, "first_output_token": n_tokens - 20} | sizes


def _random_counts(draws: int) -> dict:
    """Parameter counts of transformers with depth and width drawn at random."""
    rng = np.random.default_rng(SEED)
    counts = []
    for _ in range(draws):
        heads = int(rng.integers(4, 9))
        sizes = {"n_layers": int(rng.integers(4, 9)), "n_heads": heads, "width": 32 * heads, "hidden": 128 * heads}
        config = models.TransformerConfig(**_config(int(rng.choice([20, 40])), 39, sizes))
        counts.append({"count": config.n_parameters})
    return stats.summaries(counts)["count"]


def _rounding_error(prob: np.ndarray, dtype: torch.dtype) -> float:
    """|entropy of the rounded probabilities, summed in that type - exact entropy|, bits."""
    rounded = torch.tensor(prob, dtype=dtype)
    entropy = -(rounded * rounded.log2()).sum()
    return abs(float(entropy) - float(entropy_bits(torch.tensor(prob).log2())))

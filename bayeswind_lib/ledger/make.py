"""`make records`: everything stored that is not a training run, computed again from its seeds.

Records: `reference_rungs`, `hmm_rungs`, `regression_rungs`, `recall_rungs` (see make_baselines.py),
`facts` (counts and arithmetic), `networks` (every shipped network on fresh episodes, beside
untrained twins), `attention_variants` (one recipe with one part exchanged, trained here) and `probe_...` (networks opened; see the folder probed). One thread, so that a second run gives the same digits.

Axes: B episodes, K scored positions, V values.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, models, tunnels
from bayeswind_lib.ledger import probed, store, variants
from bayeswind_lib.ledger.make_baselines import (
    bijection_baselines,
    hmm_baselines,
    recall_baselines,
    regression_baselines,
)
from bayeswind_lib.ledger.sampling import (
    DRAW_EPISODES,
    DRAWS,
    SEED,
    draw_of,
    rng_for,
    scores,
    summary,
)
from bayeswind_lib.scoring import MEASURES, accuracy, entropy_bits, score_episodes
from bayeswind_lib.training.environment import describe_environment
from bayeswind_lib.training.performance import threads
from bayeswind_lib.training.presets import N_EPISODES, PUBLISHED
from bayeswind_lib.training.sweep import reached

LENGTHS = (30, 50)  # on which an HMM network is scored as well, if it can read as much


def make_records(
    folder: str | Path | None = None, n_episodes: int = N_EPISODES["paper"], report: Callable = print,
    names: Sequence[str] = (), keep: bool = False,
) -> list[str]:
    """Compute and store the records.

    Args:
        folder: where to; the package's own by default.
        n_episodes: on how many episodes networks and formulas are measured; HMM baselines on more.
        report: takes one line for each record.
        names: only these records; all without any.
        keep: do not score networks again whose weights are the ones that were scored.
    Returns:
        the names of the records that changed.
    Raises:
        ValueError: for a record that is not made here.
    """
    makers = {
        "reference_rungs": bijection_baselines, "hmm_rungs": hmm_baselines,
        "regression_rungs": regression_baselines, "recall_rungs": recall_baselines, "facts": facts,
        "networks": functools.partial(networks, known=store.read("networks", folder) if keep else None),
        variants.NAME: variants.measure,
    } | probed.makers()
    if unknown := sorted(set(names) - set(makers)):
        raise ValueError(f"no record is called {', '.join(unknown)}: choose among {', '.join(makers)}")
    makers = {name: maker for name, maker in makers.items() if not names or name in names}
    changed = []
    with threads(1):
        about = describe_environment(torch.device("cpu"))
        for name, maker in makers.items():
            record = {"seed": SEED, "n_episodes": n_episodes} | maker(n_episodes) | about
            written = store.write(name, record, folder)
            report(f"{name}: {'written' if written else 'unchanged'}")
            changed += [name] if written else []
    return changed


def facts(n_episodes: int) -> dict:
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
    rounding["null"] = summary([{"error": value} for value in worst])["error"]
    return {"parameters": counts, "entropy_rounding": rounding, "published": _arithmetic()}


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


def _arithmetic() -> dict:
    """What published numbers imply about each other."""
    rng = np.random.default_rng(SEED)
    drawn = [_implied(*rng.uniform(0, math.log2(5), 8)) for _ in range(DRAWS)]
    published = _implied(1.57e-3, 1e-4, 0.0125, 0.0276, 0.0288, 0.049, 7.5e-5, _late_entropy())
    return published | {"null": summary(drawn)}


def _late_entropy() -> float:
    """Mean entropy of the exact belief at the steps 21 to 50 of an HMM, from the stored record."""
    path = "tasks/S5-V5-K50-grid/constants/entropy_by_position"
    return float(np.mean(store.lookup(store.read("hmm_rungs"), path)[20:]))


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
    return summary(counts)["count"]


def _rounding_error(prob: np.ndarray, dtype: torch.dtype) -> float:
    """|entropy of the rounded probabilities, summed in that type - exact entropy|, bits."""
    rounded = torch.tensor(prob, dtype=dtype)
    entropy = -(rounded * rounded.log2()).sum()
    return abs(float(entropy) - float(entropy_bits(torch.tensor(prob).log2())))


class Replay:
    """A predictor that gives predictions made before, so that they can be scored twice."""

    def __init__(self, prediction: torch.Tensor):
        self.prediction = prediction

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.prediction


def networks(n_episodes: int, known: dict | None = None) -> dict:
    """Every shipped network on fresh episodes, beside the scores of its untrained twins.

    Of the record `known` those entries are kept whose weights are still the same.
    """
    found: dict = {}
    same_size = known is not None and known["n_episodes"] == n_episodes
    for listed in checkpoints.shipped():
        name, seed = listed["name"], listed["seed"]
        old = store.lookup(known, f"networks/{name}/{seed}") if same_size else None
        if old is not None and old["sha256"] == listed["sha256"]:
            found.setdefault(name, {})[str(seed)] = old
            continue
        found.setdefault(name, {})[str(seed)] = network_entry(checkpoints.load(name, seed), n_episodes)
    return {"networks": found, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def network_entry(model, n_episodes: int) -> dict:
    """What the record `networks` holds of one loaded network: facts, scores, and its untrained twins'."""
    record = model.record  # of the very file that was loaded
    tunnel = tunnels.build(record["tunnel"], record["tunnel_config"])
    entry = {key: record.get(key) for key in FACTS_OF_A_RUN}
    entry |= {key: record["recipe"][key] for key in FACTS_OF_A_RECIPE}
    entry["episodes_to"] = reached(record["curve"])
    entry["scores"] = network_scores(model, tunnel, n_episodes)
    sizes = json.dumps([record["config"], tunnel.config], sort_keys=True)
    entry["null"] = _twin_scores(record["architecture"], tunnel.name, sizes)
    return entry


FACTS_OF_A_RUN = (
    "tunnel", "tunnel_config", "architecture", "preset", "variant", "seed", "parameters", "steps",
    "episodes", "schedule_ended", "seconds", "device", "commit", "interruptions", "sha256", "recipe_tag",
)


FACTS_OF_A_RECIPE = ("supervision", "batch_size", "optimiser", "learning_rate", "matrix_learning_rate")


def network_scores(model, tunnel, n_episodes: int) -> dict:
    """Scores over all positions, and of tasks that the network can do besides.

    "one_less": a bijection without its last pair, that is the task with K - 1 pairs. "longer": an
    HMM with more symbols than were trained on, on a quarter of the episodes.
    """
    episodes = tunnel.sample(n_episodes, rng_for(tunnel, 0))
    predicted = Replay(_predict(model, episodes.inputs))
    full = score_episodes(predicted, episodes, batch_size=n_episodes)
    found = full.to_dict() | {"per_position_se": _lists(full.per_position_se)}
    if episodes.outcome == "categorical":
        found["accuracy"], found["accuracy_se"] = accuracy(predicted, episodes, n_episodes)
    if tunnel.name == "bijection" and tunnel.n_pairs > 1:
        found["one_less"] = _one_less(predicted, tunnel, episodes)
    if tunnel.name == "hmm" and tunnel.length < min(LENGTHS):
        found["longer"] = _longer(model, tunnel, max(2, n_episodes // 4))
    return found


def _predict(model, inputs: torch.Tensor, batch_size: int = 256) -> torch.Tensor:
    return torch.cat([model.predict(some) for some in inputs.split(batch_size)])


def _lists(rows: dict[str, np.ndarray]) -> dict[str, list]:
    return {name: value.tolist() for name, value in rows.items()}


def _one_less(predicted: Replay, tunnel: tunnels.Bijection, episodes: tunnels.Episodes) -> dict:
    shorter = tunnels.Bijection(tunnel.n_values, tunnel.n_pairs - 1, tunnel.with_replacement)
    keys, values = episodes.latents["keys"][:, :-1], episodes.latents["values"][:, :-1]
    first = Replay(predicted.prediction[:, :-1])
    return scores(first, shorter.episodes(keys, values), len(episodes))


def _longer(model, tunnel: tunnels.HMM, n_episodes: int) -> dict:
    """Scores on longer inputs by length; a length that the network has no positions for is left out."""
    found = {}
    for length in LENGTHS:
        longer = tunnels.HMM(**tunnel.config | {"length": length})
        episodes = longer.sample(n_episodes, rng_for(longer, 0))
        try:
            predicted = Replay(_predict(model, episodes.inputs))
        except ValueError:
            continue
        full = score_episodes(predicted, episodes, batch_size=n_episodes)
        scalars = {name: getattr(full, name) for m in MEASURES for name in (m, f"{m}_se")}
        curves = {"per_position": full.per_position, "per_position_se": full.per_position_se}
        kept = {k: _lists({m: v[m] for m in ("entropy_mae", "kl")}) for k, v in curves.items()}
        found[str(length)] = scalars | kept
    return found


@functools.lru_cache(maxsize=1000)
def _twin_scores(architecture: str, tunnel: str, sizes: str) -> dict:
    """`twin_scores` from JSON, so that networks of one shape share them."""
    config, tunnel_config = json.loads(sizes)
    return twin_scores(architecture, config, tunnels.build(tunnel, tunnel_config))


def twin_scores(architecture: str, config: dict, tunnel) -> dict:
    """The same network before any training, `DRAWS` times: the null of every claim about it."""
    draws = []
    for draw in range(DRAWS):
        episodes = draw_of(tunnel, draw)
        twin = models.build(architecture, config, rng_for(tunnel, 900 + draw)).eval()
        predicted = Replay(twin.predict(episodes.inputs))
        found = scores(predicted, episodes, DRAW_EPISODES)
        draws.append({name: found[name] for name in MEASURES})
        if episodes.outcome == "categorical":
            draws[-1]["accuracy"] = accuracy(predicted, episodes, DRAW_EPISODES)[0]
    return summary(draws)

"""The record `probe_recurrence`: the recurrence tunnel by formula, and what lesser observers score in it.

tasks/<task>/constants: for a beginning with x_0 != x_1 that a program explains, P(program) and the
entropy after k symbols, by formula; under `sampled` the same from sampled programs. `baselines`: scores
of the reference predictors (`kl_ruled`: from the third symbol on). `null`: the uniform guess, draw by draw. `independent`: the constants
where there is no rule at all.
"""

from __future__ import annotations

import numpy as np
import torch

from bayeswind_lib import baselines, stats, tunnels
from bayeswind_lib.baselines.recurrence import AnyRule, Memoriser, ruled
from bayeswind_lib.probes.fixed import SEED
from bayeswind_lib.scoring import entropy, entropy_bits, score_episodes
from bayeswind_lib.tunnels import recurrence

SIZES = ((17, 16), (7, 12))
STEPS = range(1, 7)


def task_of(modulus: int, length: int) -> str:
    """The task under which the scores of a size are stored."""
    return f"p{modulus}-L{length}"


def constants(symbols: torch.Tensor, modulus: int) -> dict[str, float]:
    """Mean P(program) and mean entropy (bits) after k symbols of some sequences (B, T)."""
    weight = recurrence.program_probability(symbols, modulus).mean(0)
    bits = entropy_bits(recurrence.posterior(symbols, modulus).log2()).mean(0)
    found_at = {f"program_at_{k}": float(weight[k - 1]) for k in STEPS}
    return found_at | {f"entropy_at_{k}": float(bits[k - 1]) for k in STEPS}


def by_formula(modulus: int) -> dict[str, float]:
    """`constants` of a program with x_0 != x_1, without a sequence: the Bayes factor is p^(k - 3)."""
    found_at = {}
    for k in STEPS:
        factor = float(modulus) ** max(k - 3, 0)
        weight, rest = factor / (1 + factor), 1 / (1 + factor) / modulus
        sharp = np.array([weight + rest] + [rest] * (modulus - 1))
        found_at[f"program_at_{k}"] = weight
        found_at[f"entropy_at_{k}"] = float(entropy(sharp)) if k > 2 else float(np.log2(modulus))
    return found_at


def programs(modulus: int, length: int, n: int, rng: torch.Generator) -> torch.Tensor:
    """About n / 2 sampled sequences of programs with x_0 != x_1: int64 (B, length)."""
    latents = tunnels.Recurrence(modulus, length).sample(n, rng).latents
    symbols = latents["symbols"][latents["is_program"]]
    return symbols[symbols[:, 0] != symbols[:, 1]]


def scores(modulus: int, length: int, n: int, rng: torch.Generator) -> dict[str, dict[str, float]]:
    """What the lesser observers score on all beginnings, on the trained ones and on those held out."""
    found_at: dict = {}
    for prefixes in recurrence.PREFIXES:
        tunnel = tunnels.Recurrence(modulus, length, prefixes=prefixes)
        episodes = tunnel.sample(n, rng)
        for name, kind in (("uniform", baselines.Uniform), ("any_rule", AnyRule), ("memoriser", Memoriser)):
            found = score_episodes(kind(tunnel), episodes)
            found_at[name if prefixes == "all" else f"{name}_{prefixes}"] = {
                "entropy_mae": found.entropy_mae, "kl": found.kl, "tv": found.tv, "kl_ruled": ruled(found),
            }
    return found_at


def measure(n_episodes: int, draws: int) -> dict:
    """The record."""
    rng = torch.Generator().manual_seed(SEED)
    tasks = {}
    for modulus, length in SIZES:
        tunnel = tunnels.Recurrence(modulus, length)
        drawn = [constants(torch.randint(modulus, (64, length), generator=rng), modulus) for _ in range(draws)]
        nulls = []
        for _ in range(draws):
            found = score_episodes(baselines.Uniform(tunnel), tunnel.sample(64, rng))
            nulls.append({"entropy_mae": found.entropy_mae, "kl": found.kl})
        tasks[task_of(modulus, length)] = {
            "constants": by_formula(modulus),
            "sampled": {"constants": constants(programs(modulus, length, 4 * n_episodes, rng), modulus)},
            "baselines": scores(modulus, length, 4 * n_episodes, rng),
            "null": {"uniform": stats.summaries(nulls)},
            "independent": stats.summaries(drawn),
            "beginnings": modulus * (modulus - 1) * modulus,
            "held_out": int((recurrence.buckets(modulus) == 0).sum()),
        }
    return {"tasks": tasks, "independent": {task: one["independent"] for task, one in tasks.items()}}

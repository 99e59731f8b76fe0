"""Named recipes: the same run at four speeds, for every tunnel, architecture and variant.

`smoke` touches every line in a second; `read` is what a page of the book can afford;
`classroom` is a small tunnel from scratch on a laptop; `paper` is the published scale.
A tunnel's class says its own sizes, supervision and variants (see `tunnels.registry`); here is what
concerns architectures and speeds. A *variant* is one change to an architecture or to its training that the book compares with the
plain one: another position code, a deeper stack, another supervision.
"""

from __future__ import annotations

import math

from bayeswind_lib import tunnels
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.tunnels.registry import presets_of, supervision_of

PRESETS = ("smoke", "read", "classroom", "paper")

# Fresh episodes on which a network is scored.
N_EPISODES = {"smoke": 16, "read": 256, "classroom": 1000, "paper": 2000}

SMALL = {"n_layers": 3, "n_heads": 4, "width": 64, "hidden": 256}  # 151,360 parameters at V = 10
PUBLISHED = {"n_layers": 6, "n_heads": 6, "width": 192, "hidden": 768}  # Paper I, section 3.3

# The tunnels in which all architectures are compared; the recurrence is the reader's own.
COMPARED = ("bijection", "hmm", "regression", "recall")

# Sizes with about 150,000 parameters each, and at the published scale.
SIZES = {
    "smoke": {
        "transformer": {"n_layers": 2, "n_heads": 2, "width": 16, "hidden": 32},
        "mamba": {"n_layers": 1, "width": 8, "n_states": 4},
        "lstm": {"n_layers": 1, "width": 8},
        "mlp": {"n_layers": 2, "width": 16, "hidden": 32, "summed": 8},
    },
    "classroom": {
        "transformer": SMALL,
        "mamba": {"n_layers": 2, "width": 64, "n_states": 8},
        "lstm": {"n_layers": 1, "width": 136},
        "mlp": {"n_layers": 4, "width": 64, "hidden": 256},
    },
    "paper": {
        "transformer": PUBLISHED,
        "mamba": {"n_layers": 6, "width": 192, "n_states": 16},
        "lstm": {"n_layers": 6, "width": 192},
        "mlp": {"n_layers": 18, "width": 384, "hidden": 0},
    },
}
SIZES["read"] = SIZES["classroom"]

# Optimiser and rates of each architecture, the best of a grid at the classroom size (chapter 8).
RATES = {
    "transformer": {"optimiser": "muon", "learning_rate": 2e-2, "matrix_learning_rate": 2e-2},
    "mamba": {"optimiser": "adamw", "learning_rate": 4e-3, "warmup_steps": 100},
    "lstm": {"optimiser": "adamw", "learning_rate": 6e-3, "warmup_steps": 100},
    "mlp": {"optimiser": "muon", "learning_rate": 6e-3, "matrix_learning_rate": 2e-2},
}

# Updates of a classroom run: at most five minutes of one core.
STEPS = {"transformer": 3000, "mamba": 2000, "lstm": 8000, "mlp": 4000}

SPEED = {
    "smoke": {"steps": 8, "batch_size": 16, "eval_every": 4, "eval_episodes": 16, "warmup_steps": 0},
    "read": {"steps": 120, "eval_every": 20, "eval_episodes": 128, "warmup_steps": 0},
    "classroom": {"eval_every": 100},
    "paper": {
        "steps": 9000, "batch_size": 128, "warmup_steps": 50, "precision": "auto",
        "eval_every": 100, "eval_episodes": 512,
    },
}

# What differs at the published scale: posteriors as targets (the mean of all sampled ones) allow smaller batches
# and fewer of them, and an MLP that sees one input at a time has learned all it can within 100 updates.
AT_ONCE = {"steps": 400, "optimiser": "adamw", "learning_rate": 1e-3}
FROM_POSTERIORS = {"supervision": "posterior", "batch_size": 64, "steps": 6000}
PAPER = {
    ("bijection", "mlp"): AT_ONCE,
    ("hmm", "mlp"): AT_ONCE,
    ("recurrence", "transformer"): FROM_POSTERIORS,
    ("bijection", "lstm"): FROM_POSTERIORS,
    ("hmm", "lstm"): FROM_POSTERIORS,
    ("bijection", "mamba"): FROM_POSTERIORS,
    ("hmm", "mamba"): FROM_POSTERIORS,
    ("hmm", "transformer"): {
        "steps": 22_000, "batch_size": 64, "learning_rate": 6e-3, "eval_every": 250,
    },
}

# What a variant changes: of the network, of the tunnel, and of the recipe itself.
MODEL_VARIANTS = {
    "transformer": {
        "uniform": {"attention": "uniform", "width": 72},
        "sinusoidal": {"positions": "sinusoidal"},
        "rotary": {"positions": "rotary"},
        "none": {"positions": "none"},
        "offset": {"positions": "random_offset"},
        "subset": {"positions": "random_subset"},
        "convolution": {"convolution": 4},  # as a Mamba layer has
        "untied": {"first_output_token": None},  # a readout of its own, in place of the embedding
    },
    "lstm": {"deep": {"n_layers": 6, "width": 56}, "convolution": {"convolution": 4}},
    "mlp": {
        "unplaced": {"positions": "none"},
        "sum": {"context": "sum", "n_layers": 3},
        "flattened": {"context": "flattened", "n_layers": 3, "summed": 24},
    },
    "mamba": {"unconvolved": {"conv": 1}},
}
# HMM transformers get positions for sequences of this length, though they train on shorter ones.
LONGEST_HMM = 50
RECIPE_VARIANTS = {"posterior": {"supervision": "posterior"}, "sampled": {"supervision": "sampled"}}


def variants(tunnel: str, architecture: str) -> tuple[str, ...]:
    """The names of all variants of a pair, which may be joined by "-"."""
    return (*MODEL_VARIANTS[architecture], *_tunnel_variants(tunnel), *RECIPE_VARIANTS)


def _tunnel_variants(tunnel: str) -> dict[str, dict]:
    return getattr(tunnels.find(tunnel), "variants", {})


def tunnel_config(tunnel: str, preset: str) -> dict:
    """The arguments of a tunnel at a preset's size; `read` uses those of `classroom` unless it has its own.

    >>> tunnel_config("bijection", "read")
    {'n_values': 10}
    """
    sizes = presets_of(tunnels.find(tunnel))
    return dict(sizes.get(preset, sizes.get("classroom", {}) if preset == "read" else {}))


def recipe(
    tunnel: str, architecture: str, preset: str, variant: str | None = None, **changes: object
) -> Recipe:
    """The recipe of a preset, with some fields changed.

    Args:
        variant: one of `variants(tunnel, architecture)`, or several joined by "-".
        changes: fields of the recipe; `model_config` and `tunnel_config` add to the preset's. With
            `steps` alone, a warm-up that would not end before the run is cut to half of the run.
    Raises:
        ValueError: for a preset, tunnel, architecture, variant or field that does not exist.

    >>> recipe("bijection", "transformer", "classroom", seed=1).seed
    1
    """
    if preset not in PRESETS:
        raise ValueError(f"preset is {preset!r}: choose one of {', '.join(PRESETS)}")
    if architecture not in RATES:
        raise ValueError(f"there are no presets for the architecture {architecture!r}: choose one of {', '.join(RATES)}")
    chosen = _plain(tunnel, architecture, preset)
    for part in variant.split("-") if variant else ():
        _vary(chosen, tunnel, architecture, part)
    for name in ("model_config", "tunnel_config"):
        chosen[name] |= changes.pop(name, {})
    if (tunnel, architecture) == ("hmm", "transformer"):
        chosen["model_config"] = _room(chosen) | chosen["model_config"]
    if changes.get("steps", math.inf) <= chosen.get("warmup_steps", 0):  # of another length: the warm-up follows
        changes = {"warmup_steps": changes["steps"] // 2} | changes
    return Recipe(tunnel=tunnel, architecture=architecture, **chosen).but(**changes)


def _plain(tunnel: str, architecture: str, preset: str) -> dict:
    """The fields of a preset's recipe without any variant."""
    return {
        "tunnel_config": tunnel_config(tunnel, preset),
        "model_config": dict(SIZES[preset][architecture]),
        "supervision": supervision_of(tunnels.find(tunnel)),
        "steps": STEPS[architecture],
        **RATES[architecture],
        **SPEED[preset],
        **(PAPER.get((tunnel, architecture), {}) if preset == "paper" else {}),
    }


def _room(chosen: dict) -> dict:
    """Position numbers for HMM sequences longer than those trained on; twice as many to draw from."""
    length = max(LONGEST_HMM, chosen["tunnel_config"]["length"])
    longest = tunnels.build("hmm", chosen["tunnel_config"] | {"length": length})
    drawn = chosen["model_config"].get("positions", "").startswith("random")
    return {"n_positions": longest.interface.n_positions * (2 if drawn else 1)}


def _vary(chosen: dict, tunnel: str, architecture: str, part: str) -> None:
    """Apply one variant to the fields of a recipe, in place."""
    if part in MODEL_VARIANTS[architecture]:
        chosen["model_config"] |= MODEL_VARIANTS[architecture][part]
    elif part in _tunnel_variants(tunnel):
        chosen["tunnel_config"] |= _tunnel_variants(tunnel)[part]
    elif part in RECIPE_VARIANTS:
        chosen |= RECIPE_VARIANTS[part]
    else:
        known = ", ".join(variants(tunnel, architecture))
        raise ValueError(f"{tunnel} {architecture} has no variant {part!r}: choose among {known}")

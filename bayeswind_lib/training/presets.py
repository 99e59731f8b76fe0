"""Named recipes: the same run at four speeds.

`smoke` touches every line in a second; `read` is what a page of the book can afford;
`classroom` is a small tunnel from scratch on a laptop; `paper` is the published scale.
"""

from __future__ import annotations

from bayeswind_lib.training.recipe import Recipe

PRESETS = ("smoke", "read", "classroom", "paper")

# Fresh episodes on which a network is scored.
N_EPISODES = {"smoke": 16, "read": 256, "classroom": 1000, "paper": 2000}

SMALL = {"n_layers": 3, "n_heads": 4, "width": 64, "hidden": 256}  # 151,360 parameters at V = 10
PUBLISHED = {"n_layers": 6, "n_heads": 6, "width": 192, "hidden": 768}  # Paper I, section 3.3

BIJECTION = {
    "smoke": {
        "tunnel_config": {"n_values": 4}, "steps": 8, "batch_size": 16, "eval_every": 4,
        "eval_episodes": 16,
        "model_config": {"n_layers": 2, "n_heads": 2, "width": 16, "hidden": 32},
    },
    "read": {
        "tunnel_config": {"n_values": 10}, "model_config": SMALL, "steps": 120,
        "learning_rate": 2e-2, "eval_every": 20, "eval_episodes": 128,
    },
    "classroom": {
        "tunnel_config": {"n_values": 10}, "model_config": SMALL, "steps": 3000,
        "learning_rate": 2e-2, "eval_every": 100,
    },
    "paper": {
        "tunnel_config": {"n_values": 20}, "model_config": PUBLISHED, "steps": 9000,
        "batch_size": 128, "learning_rate": 2e-2, "warmup_steps": 50, "precision": "bfloat16",
        "eval_every": 100, "eval_episodes": 512,
    },
}

TABLE = {("bijection", "transformer"): BIJECTION}


def recipe(tunnel: str, architecture: str, preset: str, **changes) -> Recipe:
    """The recipe of a preset, with some fields changed.

    Raises:
        ValueError: for a preset, a pair of tunnel and architecture, or a field that does not exist.

    >>> recipe("bijection", "transformer", "classroom", seed=1).seed
    1
    """
    if preset not in PRESETS:
        raise ValueError(f"preset is {preset!r}: choose one of {', '.join(PRESETS)}")
    if (tunnel, architecture) not in TABLE:
        known = "; ".join(" ".join(pair) for pair in TABLE)
        raise ValueError(f"there are no presets for {tunnel} {architecture}: there are some for {known}")
    chosen = TABLE[tunnel, architecture][preset]
    return Recipe(tunnel=tunnel, architecture=architecture, **chosen).but(**changes)

"""Paper II: the gradients of attention in closed form, what one step does, and races between ways to train."""

from bayeswind_lib.dynamics import (
    attention,
    checks,
    loop,
    mixture,
    race,
    steps,
    sticky,
    three_keys,
)
from bayeswind_lib.dynamics.attention import (
    Gradients,
    Pass,
    Weights,
    advantage,
    compatibility,
    forward,
    gradients,
    loss_gradients,
)

__all__ = [
    "Gradients", "Pass", "Weights", "advantage", "attention", "checks", "compatibility", "forward", "gradients", "loop",
    "loss_gradients", "mixture", "race", "steps", "sticky",
    "three_keys",
]

"""Training: the recipe, the presets, the optimisers, and one loop for every tunnel and network."""

from bayeswind_lib.training.loop import Interrupted, check_device, train
from bayeswind_lib.training.optimiser import Muon, orthogonalise
from bayeswind_lib.training.presets import N_EPISODES, PRESETS, recipe
from bayeswind_lib.training.recipe import Recipe

__all__ = [
    "N_EPISODES",
    "PRESETS",
    "Interrupted",
    "Muon",
    "Recipe",
    "check_device",
    "orthogonalise",
    "recipe",
    "train",
]

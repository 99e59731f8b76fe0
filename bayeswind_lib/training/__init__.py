"""Training: the recipe, the presets, the optimisers, and one loop for every tunnel and network."""

from bayeswind_lib.training.loop import Interrupted, check_device, score_again, train
from bayeswind_lib.training.optimiser import Muon, orthogonalise
from bayeswind_lib.training.precision import best_precision
from bayeswind_lib.training.presets import N_EPISODES, PRESETS, recipe
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.training.shipping import ship, ship_snapshots, shrink
from bayeswind_lib.training.sweep import best, final_score, run_cell, sweep, winners

__all__ = [
    "N_EPISODES",
    "PRESETS",
    "Interrupted",
    "Muon",
    "Recipe",
    "best",
    "best_precision",
    "check_device",
    "final_score",
    "orthogonalise",
    "recipe",
    "score_again",
    "run_cell",
    "ship",
    "ship_snapshots",
    "shrink",
    "sweep",
    "train",
    "winners",
]

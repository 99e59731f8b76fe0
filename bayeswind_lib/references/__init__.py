"""Predictors whose score is known before anything is trained, and those scores.

Each stands where a network stands: `predict(inputs) -> log2-probabilities`. A network's number
means something only between such rungs: what knows nothing, what knows the position, what has
half of the mechanism.
"""

from bayeswind_lib.references import hmm, mixture, recall, recurrence, regression, switching
from bayeswind_lib.references.base import ByPosition, Reference, Uniform, reference_points
from bayeswind_lib.references.bijection import (
    Binder,
    Certain,
    Eliminator,
    Leaky,
    OneTooFew,
    OneTooMany,
    PositionCounter,
    RelabelledOracle,
    RepeatAware,
    Situation,
    exact_leak,
    exact_rungs,
    leak_for_entropy_error,
    shown_before,
    situations,
    task_constants,
    uniform_over,
)
from bayeswind_lib.references.hmm import hmm_constants, hmm_predictors, hmm_rungs

__all__ = [
    "Binder",
    "ByPosition",
    "Certain",
    "Eliminator",
    "Leaky",
    "OneTooFew",
    "OneTooMany",
    "PositionCounter",
    "Reference",
    "RelabelledOracle",
    "RepeatAware",
    "Situation",
    "Uniform",
    "exact_leak",
    "exact_rungs",
    "hmm",
    "hmm_constants",
    "hmm_predictors",
    "hmm_rungs",
    "mixture",
    "leak_for_entropy_error",
    "recall",
    "recurrence",
    "reference_points",
    "regression",
    "shown_before",
    "situations",
    "switching",
    "task_constants",
    "uniform_over",
]

"""Predictors whose score is known before anything is trained, and those scores.

Each stands where a network stands: `predict(inputs) -> log2-probabilities`. A network's number
means something only between such baselines: what knows nothing, what knows the position, what has
half of the mechanism.
"""

from bayeswind_lib.baselines import hmm, mixture, recall, recurrence, regression, switching
from bayeswind_lib.baselines.base import (
    Baseline,
    ByPosition,
    RelabelledOracle,
    Uniform,
    reference_points,
)
from bayeswind_lib.baselines.bijection import (
    Binder,
    Certain,
    Eliminator,
    Leaky,
    OneTooFew,
    OneTooMany,
    PositionCounter,
    RepeatAware,
    Situation,
    exact_baselines,
    exact_leak,
    leak_for_entropy_error,
    shown_before,
    situations,
    task_constants,
    uniform_over,
)
from bayeswind_lib.baselines.hmm import hmm_baselines, hmm_predictors

__all__ = [
    "Binder",
    "ByPosition",
    "Certain",
    "Eliminator",
    "Leaky",
    "OneTooFew",
    "OneTooMany",
    "PositionCounter",
    "Baseline",
    "RelabelledOracle",
    "RepeatAware",
    "Situation",
    "Uniform",
    "exact_leak",
    "exact_baselines",
    "hmm",
    "hmm_predictors",
    "hmm_baselines",
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

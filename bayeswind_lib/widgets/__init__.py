"""Explorers for a running notebook; each has a twin in the book that needs no kernel.

Needs ipywidgets, which is imported with this package and not before; the playground needs anywidget too.
"""

from bayeswind_lib.widgets.bijection import BijectionExplorer, bijection_explorer
from bayeswind_lib.widgets.filtering import HMMAnswers, hmm_answers
from bayeswind_lib.widgets.hazard import HazardExplorer, hazard_explorer
from bayeswind_lib.widgets.hmm import HMMExplorer, hmm_explorer
from bayeswind_lib.widgets.ladder import LadderExplorer, ladder_explorer
from bayeswind_lib.widgets.network import (
    AblationExplorer,
    AttentionExplorer,
    ablation_explorer,
    attention_explorer,
)
from bayeswind_lib.widgets.page import Framed, page
from bayeswind_lib.widgets.play import Mount, playground
from bayeswind_lib.widgets.regression import RegressionExplorer, regression_explorer
from bayeswind_lib.widgets.three_keys import ThreeKeysExplorer, three_keys_explorer
from bayeswind_lib.widgets.training import TrainingExplorer, training_explorer

__all__ = [
    "AblationExplorer",
    "AttentionExplorer",
    "BijectionExplorer",
    "Framed",
    "HMMAnswers",
    "HMMExplorer",
    "HazardExplorer",
    "LadderExplorer",
    "Mount",
    "RegressionExplorer",
    "ThreeKeysExplorer",
    "TrainingExplorer",
    "ablation_explorer",
    "attention_explorer",
    "bijection_explorer",
    "hazard_explorer",
    "hmm_answers",
    "hmm_explorer",
    "ladder_explorer",
    "page",
    "playground",
    "regression_explorer",
    "three_keys_explorer",
    "training_explorer",
]

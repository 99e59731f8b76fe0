"""Explorers and the playground for a running notebook: the scripts of the book's pages, which need no kernel there.

Needs anywidget, which is imported when the first one is made and not before.
"""

from bayeswind_lib.widgets.explorers import (
    bijection_explorer,
    coin_explorer,
    em_explorer,
    hazard_explorer,
    hmm_explorer,
    ladder_explorer,
    machine,
    regression_explorer,
    sources_explorer,
    three_keys_explorer,
    threshold_explorer,
    training_explorer,
)
from bayeswind_lib.widgets.filtering import HMMAnswers, hmm_answers
from bayeswind_lib.widgets.page import Framed, page
from bayeswind_lib.widgets.play import Mount, playground

__all__ = [
    "Framed",
    "HMMAnswers",
    "Mount",
    "bijection_explorer",
    "coin_explorer",
    "em_explorer",
    "hazard_explorer",
    "hmm_answers",
    "hmm_explorer",
    "ladder_explorer",
    "machine",
    "page",
    "playground",
    "regression_explorer",
    "sources_explorer",
    "three_keys_explorer",
    "threshold_explorer",
    "training_explorer",
]

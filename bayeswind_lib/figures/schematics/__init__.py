"""Schematics: mechanisms drawn by code, in the colours and the fonts of the page that shows them.

Each function returns a `Drawing`: put it as the last expression of a cell.
"""

from __future__ import annotations

from bayeswind_lib.figures.schematics.beliefs import (
    change_of_basis,
    coverage,
    coverage_staircase,
    gaussian_update,
    views_ladder,
)
from bayeswind_lib.figures.schematics.chains import filter_step, hmm_chain, hmm_graph
from bayeswind_lib.figures.schematics.methods import (
    activation_patching,
    em_and_attention,
    wind_tunnel,
)
from bayeswind_lib.figures.schematics.networks import (
    attention_read,
    elimination_heads,
    induction_circuit,
    transformer_block,
)
from bayeswind_lib.figures.schematics.recurrent import lstm_state, mamba_state
from bayeswind_lib.figures.schematics.tokens import (
    bijection_layout,
    hmm_layout,
    recall_layout,
    regression_layout,
)

__all__ = [
    "activation_patching",
    "attention_read",
    "bijection_layout",
    "change_of_basis",
    "coverage",
    "coverage_staircase",
    "elimination_heads",
    "em_and_attention",
    "filter_step",
    "gaussian_update",
    "hmm_chain",
    "hmm_graph",
    "hmm_layout",
    "induction_circuit",
    "lstm_state",
    "mamba_state",
    "recall_layout",
    "regression_layout",
    "transformer_block",
    "views_ladder",
    "wind_tunnel",
]

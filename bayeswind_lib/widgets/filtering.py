"""A trained network in the HMM explorer of a page: its answers as a table, since a page has no kernel."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable

import torch

from bayeswind_lib.scoring import Predictor
from bayeswind_lib.tunnels import HMM
from bayeswind_lib.widgets.hmm import CHAINS, LENGTH, SIZE, draw_chain

SEEDS = range(1, 9)  # the chains that a reader meets first
DIGITS = 6


def answer_table(model, seeds: Iterable[int] = SEEDS) -> dict[str, list[float]]:
    """What a network believes after every symbol that nature draws.

    Args:
        model: a network for `HMM(3, 3)` with header "rows" (anything with `predict`).
        seeds: of the chains; each is drawn in every kind of the explorer.
    Returns:
        probabilities of the three states by "seed chain symbol,symbol,...", as the page's
        `bwHmm.tablePredictor` reads them.
    """
    tunnel, table = HMM(SIZE, SIZE, LENGTH), {}
    for seed in seeds:
        for chain, kind in CHAINS.items():
            key, rows = _answers(model, tunnel, seed, kind)
            name = "slow" if chain.startswith("slow") else "fast"
            for t, row in enumerate(rows):
                table[f"{seed} {name} {','.join(map(str, key[: t + 1]))}"] = row
    return table


def _answers(model, tunnel, seed: int, kind: tuple[int, int]) -> tuple[list[int], list[list[float]]]:
    """The symbols of a chain, and the network's belief after each: (20,), (20, 3)."""
    drawn = draw_chain(seed, *kind)
    transition, emission = (
        torch.tensor([drawn[name]], dtype=torch.float64) / 100 for name in ("transition", "emission")
    )
    inputs = tunnel.write(transition, emission, torch.tensor([drawn["symbols"]]))
    with torch.no_grad():
        belief = model.predict(inputs)[0].exp2().cpu().double()
    return drawn["symbols"], [[round(p, DIGITS) for p in row] for row in belief.tolist()]


class HMMAnswers:
    """The table, shown as a script that adds the network to the HMM explorers of a page."""

    def __init__(self, model, label: str, seeds: Iterable[int]):
        self.label, self.table = label, answer_table(model, seeds)

    def __repr__(self) -> str:
        return f"{self.label}: {len(self.table)} answers for the explorer"

    def _repr_html_(self) -> str:
        # A script's text ends at "</", which JSON may write as "<\/".
        label, table = (json.dumps(v, separators=(",", ":")).replace("</", "<\\/") for v in (self.label, self.table))
        return (
            f"<p>{html.escape(repr(self))}</p><script>(function () {{\n"
            f"  const join = () => window.bwHmm && bwHmm.addPredictor(bwHmm.tablePredictor('network', {label}, {table}));\n"
            '  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", join);\n'
            "  else join();\n}())</script>"
        )


def hmm_answers(model: Predictor, label: str = "network", seeds: Iterable[int] = SEEDS) -> HMMAnswers:
    """The last line of a cell on a page that has an HMM explorer: a network joins its predictors."""
    return HMMAnswers(model, label, seeds)

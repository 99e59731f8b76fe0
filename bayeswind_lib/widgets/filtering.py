"""A trained network in the HMM explorer of a page: its answers as a table, since a page has no kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import torch

from bayeswind_lib.scoring import Predictor
from bayeswind_lib.tunnels import HMM
from bayeswind_lib.widgets.hmm import CHAINS, LENGTH, SIZE, draw_chain

SEEDS = range(1, 9)  # the chains that a reader meets first
DIGITS = 6


def answer_table(model, seeds: Iterable[int] = SEEDS) -> dict[str, list[float]]:
    """What a network answers after every symbol that nature draws.

    Args:
        model: a network for `HMM(3, 3)` with header "rows" (anything with `predict`), or one for each kind of chain,
            by "fast" and "slow".
        seeds: of the chains; each is drawn in every kind of the explorer.
    Returns:
        three probabilities, of the states or of the next symbols, by "seed chain symbol,symbol,...", as the page's
        `bwHmm.tablePredictor` reads them.
    """
    tunnel, table = HMM(SIZE, SIZE, LENGTH), {}
    for seed in seeds:
        for chain, kind in CHAINS.items():
            name = "slow" if chain.startswith("slow") else "fast"
            own = model[name] if isinstance(model, Mapping) else model
            key, rows = _answers(own, tunnel, seed, kind)
            for t, row in enumerate(rows):
                table[f"{seed} {name} {','.join(map(str, key[: t + 1]))}"] = row
    return table


def _answers(model, tunnel, seed: int, kind: tuple[int, int]) -> tuple[list[int], list[list[float]]]:
    """The symbols of a chain, and the network's answer after each: (20,), (20, 3)."""
    drawn = draw_chain(seed, *kind)
    transition, emission = (
        torch.tensor([drawn[name]], dtype=torch.float64) / 100 for name in ("transition", "emission")
    )
    inputs = tunnel.write(transition, emission, torch.tensor([drawn["symbols"]]))
    with torch.no_grad():
        answers = model.predict(inputs)[0].exp2().cpu().double()
    return drawn["symbols"], [[round(p, DIGITS) for p in row] for row in answers.tolist()]


class HMMAnswers:
    """The table, shown as a script that adds the network to the HMM explorers of a page."""

    def __init__(self, model, label: str, seeds: Iterable[int], says: str):
        self.label, self.table, self.says = label, answer_table(model, seeds), says

    def __repr__(self) -> str:
        return f"{self.label}: {len(self.table)} answers for the explorer"

    def _repr_html_(self) -> str:
        # A script's text ends at "</", which JSON may write as "<\/".
        given = (json.dumps(v, separators=(",", ":")).replace("</", "<\\/") for v in (self.label, self.table, self.says))
        return (
            "<script>(function () {\n"
            f"  const join = () => window.bwHmm && bwHmm.addPredictor(bwHmm.tablePredictor('network', {', '.join(given)}));\n"
            '  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", join);\n'
            "  else join();\n}())</script>"
        )


def hmm_answers(
    model: Predictor | Mapping[str, Predictor], label: str = "network", seeds: Iterable[int] = SEEDS, says: str = "beliefs"
) -> HMMAnswers:
    """The last line of a cell on a page that has an HMM explorer: a network joins its predictors.

    Args:
        model: what answers, or one for each kind of chain, by "fast" and "slow".
        label: what it is called.
        seeds: of the chains that it answers for.
        says: what it answers with, "beliefs" or "forecasts" (of the next symbol).
    """
    return HMMAnswers(model, label, seeds, says)

"""The HMM explorer: see symbols one by one, watch the exact belief beside shorter memories.

The book's pages carry its twin, `book/_static/hmm_explorer.js`, which needs no kernel. Both draw
the same chain from the same number: `draw_chain` is that script's function, digit for digit.

Axes: K symbols, S = 3 states, V = 3 symbols.
"""

from __future__ import annotations

import html
from collections.abc import Callable

import ipywidgets
import numpy as np
import torch

from bayeswind_lib import figures
from bayeswind_lib.baselines import hmm as baselines
from bayeswind_lib.scoring import Predictor, entropy_bits, kl_bits
from bayeswind_lib.tunnels import HMM
from bayeswind_lib.tunnels.hmm import forward_filter

SIZE, LENGTH = 3, 20  # states, and as many symbols; symbols that nature draws
# Dirichlet parameters added to staying, and the smallest probability in cents.
CHAINS = {"fast: states change often": (0, 5), "slow: states stay": (20, 1)}
EXACT, SHORT, LOOK, NETWORK = "exact posterior", "last {} symbols", "this symbol alone", "network"


def generator(seed: int) -> Callable[[], float]:
    """Random numbers in [0, 1) that any language repeats: mulberry32, a public-domain recipe."""
    state = seed % 2**32

    def draw() -> float:
        nonlocal state
        state = (state + 0x6D2B79F5) % 2**32
        t = (state ^ (state >> 15)) * (state | 1) % 2**32
        t ^= (t + (t ^ (t >> 7)) * (t | 61)) % 2**32
        return ((t ^ (t >> 14)) % 2**32) / 2**32

    return draw


def draw_row(random: Callable[[], float], own: int, kappa: int, least: int) -> list[int]:
    """One distribution in whole cents, none below `least`, drawn from Dirichlet(1, .., 1 + kappa).

    The gaps between sorted random numbers are Dirichlet(1); kappa more of them go to entry `own`.
    So no logarithm is taken, which two languages might round differently. Raised and rounded as by
    `tunnels.hmm.on_grid`; what is then missing goes to the smallest entry, cent by cent, and what
    is too much comes from the largest.
    """
    edges = [0.0, *sorted(random() for _ in range(SIZE + kappa - 1)), 1.0]
    share, place = [], 0
    for i in range(SIZE):
        parts = 1 + kappa if i == own else 1
        share.append(max(edges[place + parts] - edges[place], least / 100))
        place += parts
    total = share[0] + share[1] + share[2]
    cents = [max(round(part * (100 / total)), least) for part in share]
    while sum(cents) < 100:
        cents[cents.index(min(cents))] += 1
    while sum(cents) > 100:
        cents[cents.index(max(cents))] -= 1
    return cents


def draw_chain(seed: int, kappa: int = 0, least: int = 5) -> dict[str, list]:
    """The chain of a number: transition and emission in cents, 20 states and their symbols."""
    random = generator(seed)
    transition = [draw_row(random, i, kappa, least) for i in range(SIZE)]
    emission = [draw_row(random, i, 0, 5) for i in range(SIZE)]

    def outcome(row: list[int]) -> int:
        place = random() * 100
        return sum(place >= edge for edge in np.cumsum(row)[:-1].tolist())

    states, symbols, state = [], [], int(random() * SIZE)
    for _ in range(LENGTH):
        states.append(state)
        symbols.append(outcome(emission[state]))
        state = outcome(transition[state])
    return {"transition": transition, "emission": emission, "states": states, "symbols": symbols}


def hmm_explorer(model: Predictor | None = None, seed: int = 1) -> HMMExplorer:
    """Controls and pictures for one hidden chain of three states.

    Args:
        model: a network for `HMM(3, 3)` with header "rows" (anything with `predict`) whose answer
            stands beside the others; None shows them alone.
        seed: of the chain.
    """
    return HMMExplorer(model, seed)


class HMMExplorer(ipywidgets.VBox):
    """Sliders for the symbols seen and the window, a menu for the chain; below them the pictures.

    Attributes:
        seen, window, chain, seed, hidden: the controls; setting their `value` redraws.
        transition, emission: float64 (1, 3, 3). symbols: int64 (1, 20). states: list of 20.
        beliefs: float64 (steps, 3) by label, for the symbols seen so far.
        triangle, bars, curve: what is drawn (`figures.Plot`).
        words: one sentence on the step at hand.
    """

    def __init__(self, model=None, seed: int = 1):
        self.model, self.tunnel = model, HMM(SIZE, SIZE, LENGTH)
        self.seen = ipywidgets.IntSlider(
            1, 1, LENGTH, description="symbols seen", continuous_update=False
        )
        self.window = ipywidgets.IntSlider(2, 1, 10, description="window", continuous_update=False)
        self.chain = ipywidgets.Dropdown(options=list(CHAINS), description="chain")
        self.seed = ipywidgets.BoundedIntText(seed, 0, 2**31 - 1, description="seed")
        self.hidden = ipywidgets.Checkbox(False, description="show the hidden states")
        self._page = ipywidgets.HTML()
        super().__init__(
            [self.seen, self.window, self.chain, self.seed, self.hidden, self._page]
        )
        for control in (self.chain, self.seed):
            control.observe(self._new_chain, "value")
        for control in (self.seen, self.window, self.hidden):
            control.observe(self._redraw, "value")
        self._new_chain()

    def _new_chain(self, _=None) -> None:
        drawn = draw_chain(self.seed.value, *CHAINS[self.chain.value])
        self.transition, self.emission = (
            torch.tensor([drawn[name]], dtype=torch.float64) / 100
            for name in ("transition", "emission")
        )
        self.symbols, self.states = torch.tensor([drawn["symbols"]]), drawn["states"]
        self._redraw()

    @property
    def network(self) -> torch.Tensor | None:
        """The network's log2-probabilities, float64 (steps, 3), or None."""
        if self.model is None:
            return None
        inputs = self.tunnel.write(self.transition, self.emission, self.symbols)
        with torch.no_grad():
            return self.model.predict(inputs)[0, : self.seen.value].cpu().double()

    def _believe(self) -> dict[str, torch.Tensor]:
        """What each predictor believes after every symbol seen: float64 (steps, 3)."""
        known = (self.transition, self.emission, self.symbols[:, : self.seen.value])
        exact = forward_filter(*known)
        short = baselines.WindowFilter(self.tunnel, self.window.value).belief(*known)
        look = baselines.EmissionOnly(self.tunnel).belief(*known)
        label = SHORT.format(self.window.value).replace("last 1 symbols", "last symbol")
        beliefs = {EXACT: exact[0], label: short[0], LOOK: look[0]}
        if self.model is not None:
            beliefs[NETWORK] = self.network.exp2()
        return beliefs

    def _redraw(self, _=None) -> None:
        self.beliefs = self._believe()
        names = [f"state {s}" for s in range(SIZE)]
        self.triangle = figures.simplex_trails(self.beliefs, names)
        now = {label: rows[-1] for label, rows in self.beliefs.items()}
        self.bars = figures.distributions(now.pop(EXACT), now, names, axis="hidden state")
        entropies = {label: entropy_bits(rows.log2()) for label, rows in self.beliefs.items()}
        self.curve = figures.lines(
            entropies, range(1, self.seen.value + 1), exact=EXACT, x_label="symbols seen"
        )
        self.words = self._words()
        pictures = "".join(plot.to_html() for plot in (self.triangle, self.bars, self.curve))
        self._page.value = (
            f'<p role="status">{html.escape(self.words)}</p><p>{self._shown()}</p>'
            f"{_table('Next state, from each state', self.transition[0], 'state')}"
            f"{_table('Symbol, in each state', self.emission[0], 'symbol')}{pictures}"
        )

    def _shown(self) -> str:
        n = self.seen.value
        told = "Symbols: " + ", ".join(map(str, self.symbols[0, :n].tolist()))
        if self.hidden.value:
            told += ". Hidden states: " + ", ".join(map(str, self.states[:n]))
        return told

    def _words(self) -> str:
        exact, n = self.beliefs[EXACT][-1], self.seen.value
        chances = ", ".join(f"{p:.3f}" for p in exact.tolist())
        told = f"After {n} symbol{'' if n == 1 else 's'}: the belief is {chances}, "
        told += f"entropy {float(entropy_bits(exact.log2())):.3f} bits."
        for label, rows in self.beliefs.items():
            if label != EXACT:
                kl = float(kl_bits(exact, rows[-1].log2()))
                told += f" {label.capitalize()}: KL {figures.quantity(kl if kl > 1e-12 else 0.0)}."
        return told


def _table(caption: str, matrix: torch.Tensor, kind: str) -> str:
    """A matrix as an HTML table with headed rows and columns."""
    heads = "".join(f'<th scope="col">{kind} {j}</th>' for j in range(SIZE))
    rows = "".join(
        f'<tr><th scope="row">state {i}</th>' + "".join(f"<td>{p:.2f}</td>" for p in row) + "</tr>"
        for i, row in enumerate(matrix.tolist())
    )
    return f"<table><caption>{caption}</caption><tr><td></td>{heads}</tr>{rows}</table>"

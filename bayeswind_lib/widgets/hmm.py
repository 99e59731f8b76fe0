"""Chains of the HMM explorer: `draw_chain` is a function of its script, digit for digit.

Axes: S = 3 states, V = 3 symbols.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SIZE, LENGTH = 3, 20  # states, and as many symbols; symbols that nature draws
# Dirichlet parameters added to staying, and the smallest probability in cents.
CHAINS = {"fast: states change often": (0, 5), "slow: states stay": (20, 1)}


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

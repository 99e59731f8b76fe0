"""A chain with two states in log odds: the exact filter, and integrators that leak.

One state turns into the other with probability `hazard` at every step; a symbol names the right
state with probability `reliability`. What is believed fits into one number, the log odds. The
exact filter bends it before it adds the next symbol's evidence (Glaze, Kable & Gold, 2015); a
linear integrator multiplies it by a constant, which is what a fixed forget gate does.

Axes: K steps, M integrators. Log odds in nats, divergences in bits, arrays of float64.
"""

from __future__ import annotations

import math

import numpy as np

N_STEPS = 12  # how many symbols `expected_kl` looks at by default: 4,096 sequences


def evidence(symbols, reliability: float) -> np.ndarray:
    """What each symbol adds to the log odds of state 1: (K,) symbols 0 or 1 -> (K,) nats.

    Raises:
        ValueError: if a symbol never errs, or tells nothing or the contrary.
    """
    if not 0.5 <= reliability < 1:
        raise ValueError(f"reliability is {reliability}: choose 0.5 or more, and less than 1")
    return (2 * np.asarray(symbols) - 1) * math.log(reliability / (1 - reliability))


def carry(log_odds, hazard: float) -> np.ndarray:
    """The log odds one step later, before a symbol is seen.

    psi(l) = log [((1 - h) e^l + h) / (h e^l + 1 - h)] = 2 artanh((1 - 2h) tanh(l / 2)).

    >>> float(carry(1000.0, 0.25).round(12)) == round(math.log(3), 12)  # it saturates
    True
    """
    if not 0 <= hazard <= 0.5:
        raise ValueError(f"hazard is {hazard}: choose 0 (the state never changes) to 0.5")
    stays, moves = (math.log(p) if p else -math.inf for p in (1 - hazard, hazard))
    log_odds = np.asarray(log_odds, dtype=float)
    return np.logaddexp(log_odds + stays, moves) - np.logaddexp(log_odds + moves, stays)


def filtered(given, hazard: float) -> np.ndarray:
    """Exact log odds after every symbol: l_t = psi(l_t-1) + evidence_t, from even odds."""
    steps = [np.asarray(given, dtype=float)[0]]
    for now in given[1:]:
        steps.append(carry(steps[-1], hazard) + now)
    return np.array(steps)


def leaky(given, keep: float) -> np.ndarray:
    """Log odds of an integrator that keeps a constant share: x_t = keep x_t-1 + evidence_t."""
    steps = [np.asarray(given, dtype=float)[0]]
    for now in given[1:]:
        steps.append(keep * steps[-1] + now)
    return np.array(steps)


def divergence(truth, guess) -> np.ndarray:
    """KL divergence in bits between two beliefs about two states, both given as log odds."""
    truth, guess = np.asarray(truth, dtype=float), np.asarray(guess, dtype=float)
    p = np.exp(-np.logaddexp(0, -truth))
    one = np.logaddexp(0, -guess) - np.logaddexp(0, -truth)
    other = np.logaddexp(0, guess) - np.logaddexp(0, truth)
    return (p * one + (1 - p) * other) / math.log(2)


def expected_kl(hazard: float, reliability: float, keeps, n_steps: int = N_STEPS) -> np.ndarray:
    """Mean divergence of leaky integrators from the exact filter, by summing over all sequences.

    Args:
        hazard, reliability: of the chain and its symbols.
        keeps: (M,), what the integrators keep from one step to the next.
        n_steps: K; the work doubles with every step.
    Returns:
        (M,), bits, the mean over steps 1..K.
    """
    keeps = np.asarray(keeps, dtype=float)[:, None]
    step = evidence(1, reliability)
    # The first symbol may be taken to be 1: with 0 everything only changes its sign.
    exact, chance, held = np.array([step]), np.ones(1), np.full((len(keeps), 1), step)
    total = (chance * divergence(exact, held)).sum(1)
    for _ in range(n_steps - 1):
        before = carry(exact, hazard)
        believed = np.exp(-np.logaddexp(0, -before))
        up = chance * (believed * reliability + (1 - believed) * (1 - reliability))
        exact = np.concatenate([before + step, before - step])
        chance = np.concatenate([up, chance - up])
        held = np.concatenate([keeps * held + step, keeps * held - step], axis=1)
        total += (chance * divergence(exact, held)).sum(1)
    return total / n_steps


def sample(hazard: float, reliability: float, n_steps: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """States and symbols of one sequence: int64 (K,) each; `rng` is a `numpy.random.Generator`."""
    turns = rng.random(n_steps) < hazard
    turns[0] = rng.random() < 0.5
    states = np.cumsum(turns) % 2
    wrong = rng.random(n_steps) >= reliability
    return states, states ^ wrong

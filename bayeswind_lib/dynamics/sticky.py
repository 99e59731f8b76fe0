"""The sticky Markov chain of Paper II, as its authors' code has it, and what is known about it.

Eight symbols on a ring. A step stays, or goes to another symbol with a chance that falls with the
distance. Of the symbol before it a position shows a noisy picture: x_t = mu[y_{t-1}] + noise, and
y_t is asked. There is *one* sequence.

Axes: S symbols, N supervised positions, D channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from bayeswind_lib.scoring import NATS, entropy, kl_bits

SYMBOLS, WIDTH, STAY = 8, 20, 0.3


def chain(as_coded: bool = True, symbols: int = SYMBOLS, stay: float = STAY) -> torch.Tensor:
    """Transition probabilities, float64 (S, S), rows sum to 1.

    Args:
        as_coded: the published code puts `stay` on the diagonal, makes each row sum to 1 - stay with
            the diagonal in it, and adds `stay` once more; so a step stays with 0.350 rather than
            0.300. False: it stays with exactly `stay`.
    Raises:
        ValueError: if `stay` is not between 0 and 1, or there are fewer than 2 symbols.
    """
    if not 0 < stay < 1 or symbols < 2:
        raise ValueError(f"stay is {stay} and symbols is {symbols}: give a chance between 0 and 1, and at least 2 symbols")
    place = torch.arange(symbols)
    apart = (place[:, None] - place).abs()
    apart = torch.minimum(apart, symbols - apart).double()  # (S, S), steps along the ring
    same = torch.eye(symbols, dtype=torch.float64)
    rows = torch.where(apart > 0, 1 / apart, stay if as_coded else 0.0)
    return (1 - stay) * rows / rows.sum(-1, keepdim=True) + stay * same


def entropy_rate(transition: torch.Tensor) -> float:
    """Nats of the next symbol, given this one; the law over symbols is even on a ring."""
    return float(entropy(transition).mean()) * NATS


@dataclass(frozen=True)
class Sequence:
    """One sequence.

    Attributes:
        inputs: x_t, float32 (1, N, D).
        targets: y_t, int64 (1, N).
        before: y_{t-1}, int64 (1, N), what x_t is a picture of.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    before: torch.Tensor


def pictures(rng: torch.Generator, symbols: int = SYMBOLS, width: int = WIDTH) -> torch.Tensor:
    """The mean of each symbol's picture, drawn from a normal law: float32 (S, D)."""
    return torch.randn(symbols, width, generator=rng)


def sample(length: int, means: torch.Tensor, transition: torch.Tensor, rng: torch.Generator) -> Sequence:
    """Draw one sequence of `length` symbols, from an even start; N is one less.

    Raises:
        ValueError: if `length` is below 2.
    """
    if length < 2:
        raise ValueError(f"length is {length}: one symbol is shown and the next one asked, so give at least 2")
    chance, to_here = torch.rand(length, generator=rng, dtype=torch.float64), transition.cumsum(-1)
    symbols = [min(int(chance[0] * len(means)), len(means) - 1)]
    for t in range(1, length):
        symbols.append(min(int((to_here[symbols[-1]] < chance[t]).sum()), len(means) - 1))
    y = torch.tensor(symbols)
    noise = torch.randn(length - 1, means.shape[1], generator=rng)
    return Sequence((means[y[:-1]] + noise)[None], y[None, 1:], y[None, :-1])


# ---- what can be known


def exact(sequence: Sequence, means: torch.Tensor, transition: torch.Tensor) -> torch.Tensor:
    """P(y_t | x_1, ..., x_t) for one who knows pictures and chain: float64 (N, S), rows sum to 1.

    The filter of a hidden Markov model, whose hidden symbol at t is y_{t-1}.
    """
    x, mu = sequence.inputs[0].double(), means.double()
    fit = -torch.cdist(x, mu).square() / 2  # (N, S), log density but for a constant
    belief, found = torch.full((len(mu),), 1 / len(mu), dtype=torch.float64), []
    for row in fit:
        belief = (belief.log() + row).softmax(-1)  # of y_{t-1}, having seen x_t
        belief = belief @ transition  # of y_t
        found.append(belief)
    return torch.stack(found)


def cross_entropy(forecast: torch.Tensor, sequence: Sequence) -> float:
    """Mean of -log forecast(y_t) in nats: forecast (N, S)."""
    return float(-forecast.gather(1, sequence.targets[0, :, None]).clamp(min=1e-300).log().mean())


def kl_to_row(log_forecast: torch.Tensor, sequence: Sequence, transition: torch.Tensor) -> float:
    """Mean KL(row of the true y_{t-1} || forecast) in nats: log_forecast (N, S)."""
    rows = transition[sequence.before[0]]  # (N, S)
    return float(kl_bits(rows, log_forecast.double() / NATS).mean()) * NATS


def per_token(train: Sequence, test: Sequence, strength: float = 1.0) -> torch.Tensor:
    """Forecasts by a linear model of x_t alone, no attention: float64 (N, S) on `test`.

    Multinomial logistic regression with scikit-learn; `strength` is its inverse penalty.
    """
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=strength, max_iter=2000)
    model.fit(train.inputs[0].numpy(), train.targets[0].numpy())
    found = torch.zeros(test.targets.shape[1], int(train.targets.max()) + 1, dtype=torch.float64)
    found[:, model.classes_] = torch.from_numpy(model.predict_proba(test.inputs[0].numpy())).double()
    return found


def same_symbol_mass(pattern: torch.Tensor, sequence: Sequence) -> float:
    """Attention on positions that show the same symbol as the query's own: pattern (1, 1, N, N).

    Content routing would make it large; even attention gives the share of such positions.
    """
    same = sequence.before[0][:, None] == sequence.before[0]  # (N, N)
    return float((pattern[0, 0] * same).sum(-1).mean())


def looked_at(pattern: torch.Tensor, sequence: Sequence, symbols: int = SYMBOLS) -> torch.Tensor:
    """How much queries of each symbol attend to keys of each symbol: pattern (1, 1, N, N) -> (S, S), rows sum to 1.

    Even attention has equal rows. A head may route by content although `same_symbol_mass` is at
    chance: each symbol may look at another one of its own choice.
    """
    shown = torch.nn.functional.one_hot(sequence.before[0], symbols).to(pattern)  # (N, S)
    counts = shown.sum(0)[:, None].clamp(min=1)
    return shown.T @ (pattern[0, 0] @ shown) / counts


def even_pattern(length: int) -> torch.Tensor:
    """Causal attention that prefers nothing: (1, 1, N, N)."""
    rows = torch.ones(length, length, dtype=torch.float64).tril()
    return (rows / rows.sum(-1, keepdim=True))[None, None]


def choosiness(table: torch.Tensor, even: torch.Tensor) -> float:
    """Mean total variation of the rows of `looked_at` from those of even attention: 0 to 1."""
    return float((table - even).abs().sum(-1).mean() / 2)


CHANCE = math.log(SYMBOLS)  # nats, of a forecast that knows nothing

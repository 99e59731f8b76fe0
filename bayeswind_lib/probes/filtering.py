"""How far has a filter got? What a layer holds of the belief before, carried, and corrected.

A belief about a hidden state is mostly what header and symbol say by themselves: the long-run share
of each state times the emission. A probe for the belief finds that part wherever the inputs are. So
the goals here come in two kinds: the quantities of the filter themselves, and what *memory* adds to
each of them.

Axes: B episodes, K steps, D channels, S states, Y columns of a goal.
"""

from __future__ import annotations

import numpy as np
import torch

from bayeswind_lib import baselines, scoring
from bayeswind_lib.baselines.hmm import likelihoods, normalised, stationary
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.probes.beliefs import fit_reader, r2
from bayeswind_lib.tunnels import HMM, Episodes
from bayeswind_lib.tunnels.hmm import forward_filter, transport

SHARP = 90  # cents of the symbol that a state emits, in the sharp task
LEAST = 1e-6  # probabilities below it count as it, where logarithms are taken


def log_ratios(belief: np.ndarray) -> np.ndarray:
    """Log probabilities less their mean over states, nats: (..., S) -> (..., S), rows sum to 0.

    What a softmax takes, up to the constant that it ignores.
    """
    log = np.log(np.maximum(belief, LEAST))
    return log - log.mean(-1, keepdims=True)


def entropy(belief: np.ndarray) -> np.ndarray:
    """Shannon entropy of each belief, bits: (..., S) -> (...)."""
    return scoring.entropy(np.maximum(belief, LEAST)).numpy()


def goals(tunnel: HMM, episodes: Episodes) -> dict[str, np.ndarray]:
    """What may be asked of a layer of a network that filters, float64 (B, K, Y) each.

    belief: alpha_t. log belief: its log ratios. memoryless: the long-run share of each state,
    corrected by the current symbol. memory: belief less memoryless, and log memory in log
    ratios. previous, predicted, next: alpha_{t-1}, what becomes of it before the symbol is seen,
    and alpha_t carried one step on, each less the long-run share of its step. entropy: of alpha_t,
    bits, one column.
    """
    T, E, symbols = (episodes.latents[name] for name in ("transition", "emission", "observations"))
    belief = forward_filter(T, E, symbols, tunnel.transition_first)  # (B, K, S)
    share = stationary(T)[:, None]  # (B, 1, S)
    even = torch.full_like(belief[:, :1], 1 / tunnel.n_states)
    previous = torch.cat([even, belief[:, :-1]], dim=1)
    predicted = torch.cat([even, transport(belief[:, :-1], T)], dim=1)
    memoryless = normalised(share * likelihoods(E, symbols))
    found = {
        "belief": belief, "memoryless": memoryless, "memory": belief - memoryless,
        "previous": previous - share, "predicted": predicted - share, "next": transport(belief, T) - share,
    }
    found = {name: value.numpy() for name, value in found.items()}
    found["log belief"] = log_ratios(found["belief"])
    found["log memory"] = found["log belief"] - log_ratios(found["memoryless"])
    return found | {"entropy": entropy(found["belief"])[..., None]}


def partial_filters(tunnel: HMM, inputs: torch.Tensor) -> dict[str, np.ndarray]:
    """Beliefs of predictors that hold a part of the filter, to be read as if they were activations.

    "inputs" is the current symbol beside all entries of the two matrices: what a linear
    reading gets from the inputs without any computation. Each float64 (B, K, Y).
    """
    T, E, symbols = tunnel.read(inputs)
    onehot = torch.eye(tunnel.n_symbols, dtype=T.dtype)[symbols]
    K = symbols.shape[1]
    header = [m.flatten(1)[:, None].expand(-1, K, -1) for m in (T, E)]
    known = {
        "one-step prediction": baselines.hmm.OneStepPrediction(tunnel),
        "emission only": baselines.hmm.EmissionOnly(tunnel),
        "stationary × emission": baselines.hmm.StationaryEmission(tunnel),
        **{f"last {w} symbols": baselines.hmm.WindowFilter(tunnel, w) for w in (2, 3, 4)},
    }
    said = {name: predictor.predict(inputs).exp2().numpy() for name, predictor in known.items()}
    return {"inputs": torch.cat([onehot, *header], -1).numpy()} | said


@torch.no_grad()
def at_steps(model: torch.nn.Module, inputs: torch.Tensor, names) -> dict[str, np.ndarray]:
    """Activations at the scored positions by name: float64 (B, K, D), further axes laid flat."""
    scored = model.scored_positions(inputs.shape[1])
    found = activations(model, inputs, names)
    return {name: x[:, scored].flatten(2).double().numpy() for name, x in found.items()}


def flat(x: np.ndarray) -> np.ndarray:
    """Episodes and steps as one axis: (B, K, ...) -> (B K, ...)."""
    return x.reshape(-1, *x.shape[2:])


def held_out(x: np.ndarray, goal: np.ndarray, train: int | None = None, alpha: float = 1e-4) -> float:
    """R^2 of a goal (B, K, Y) read linearly from x (B, K, D), fitted and scored on other episodes.

    Args:
        train: how many episodes to fit on; two thirds by default.
    """
    train = 2 * len(x) // 3 if train is None else train
    reading = fit_reader(flat(x[:train]), flat(goal[:train]), alpha).read(x[train:])
    return r2(goal[train:], reading)


def within_clusters(x: np.ndarray, goal: np.ndarray, count: int, alpha: float = 1e-4, seed: int = 0) -> float:
    """R^2 of a goal read linearly within clusters of x: of both only the distance from their cluster's mean.

    Clusters are found by k-means without labels, on two thirds of the episodes; scored on the others.

    Args:
        x: (B, K, D). goal: (B, K, Y). count: how many clusters. seed: of k-means.
    """
    from sklearn.cluster import KMeans

    train = 2 * len(x) // 3
    known, asked = (flat(x[:train]), flat(goal[:train])), (flat(x[train:]), flat(goal[train:]))
    found = KMeans(count, n_init=4, random_state=seed).fit(known[0])
    means = [np.stack([part[found.labels_ == k].mean(0) for k in range(count)]) for part in known]
    here, there = ([part - mean[found.predict(pair[0])] for part, mean in zip(pair, means, strict=True)] for pair in (known, asked))
    read = fit_reader(*here, alpha).read(there[0]).reshape(there[1].shape)
    return r2(there[1][None], read[None])


def memory_share(x: np.ndarray, goal: dict[str, np.ndarray], alpha: float = 1e-4) -> float:
    """R^2 of the log memory, read from x (B, K, D) together with the memoryless answer.

    Memory is a difference, and a probe has to be given what it shall leave out: then the exact belief
    scores 1, and whoever has no memory 0.
    """
    known = (goal["memoryless"], log_ratios(goal["memoryless"]))
    return held_out(np.concatenate([x, *known], -1), goal["log memory"], alpha=alpha)


def shuffled(
    x: np.ndarray, goal: np.ndarray, draws: int, rng: np.random.Generator, alpha: float = 1e-4
) -> np.ndarray:
    """`held_out` where the fit is given the goals of other episodes, steps kept: (draws,)."""
    train, Y = 2 * len(x) // 3, goal.shape[-1]
    dealt = np.concatenate([goal[rng.permutation(train)] for _ in range(draws)], axis=-1)
    readings = fit_reader(flat(x[:train]), flat(dealt), alpha).read(x[train:])
    return np.array([r2(goal[train:], readings[..., i * Y : (i + 1) * Y]) for i in range(draws)])


def bits(x: np.ndarray, belief: np.ndarray, alpha: float = 1e-4) -> float:
    """KL of the belief, bits, from the softmax of its log ratios, read linearly on other episodes."""
    train = 2 * len(x) // 3
    reading = fit_reader(flat(x[:train]), flat(log_ratios(belief[:train])), alpha).read(x[train:])
    said = np.exp(reading - reading.max(-1, keepdims=True))
    said /= said.sum(-1, keepdims=True)
    truth = np.maximum(belief[train:], LEAST)
    return float(scoring.kl_bits(torch.tensor(truth), torch.tensor(np.maximum(said, 1e-12)).log2()).mean())


def quiet_chain(S: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A slow chain whose last symbol is blank, emitted by all states alike: float64 (S, S) and (S, S); on the grid for S = 3 and 5.

    After n blanks the total variation between two beliefs is (1 - S/20)^n of what it was.
    """
    T = torch.full((S, S), 0.05, dtype=torch.float64).fill_diagonal_(1 - 0.05 * (S - 1))
    E = torch.full((S, S), 0.05, dtype=torch.float64)
    E.fill_diagonal_(0.8 - 0.05 * (S - 2))
    E[:, -1], E[-1, :-1] = 0.2, 0.8 / (S - 1)
    return T, E


def echo(predictor, tunnel: HMM) -> torch.Tensor:
    """Total variation between two answers of a predictor, float64 (K,): after symbol 0 or 1 first, then blanks of the quiet chain."""
    T, E = (m.expand(2, -1, -1) for m in quiet_chain(tunnel.n_states))
    symbols = torch.full((2, tunnel.length), tunnel.n_states - 1)
    symbols[:, 0] = torch.tensor([0, 1])
    one, other = predictor.predict(tunnel.write(T, E, symbols)).exp2()
    return (one - other).abs().sum(-1) / 2


def sharp_episodes(tunnel: HMM, n_episodes: int, rng: torch.Generator) -> Episodes:
    """Episodes whose emission matrix is a permutation but for the least that the grid allows.

    A network that knows the grid can read such a header: no entry is below 5 cents. The transition
    matrices are drawn as ever.
    """
    S, K = tunnel.n_states, tunnel.length
    T = tunnel.sample(n_episodes, rng).latents["transition"]
    named = torch.rand(n_episodes, S, generator=rng).argsort(-1)  # the symbol that each state emits
    E = torch.full((n_episodes, S, S), (100 - SHARP) / (S - 1) / 100, dtype=torch.float64)
    E.scatter_(2, named[..., None], SHARP / 100)
    state = torch.randint(S, (n_episodes,), generator=rng)
    rows, states = torch.arange(n_episodes), [state]
    for _ in range(K - 1):
        states.append(torch.multinomial(T[rows, states[-1]], 1, generator=rng)[:, 0])
    states = torch.stack(states, 1)
    symbols = torch.multinomial(E[rows[:, None], states].flatten(0, 1), 1, generator=rng).view(n_episodes, K)
    return tunnel.episodes(T, E, states, symbols)

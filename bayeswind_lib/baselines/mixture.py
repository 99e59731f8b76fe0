"""Observers of a known list of HMMs that lack a part of the mixture filter (chapter 20).

The exact answer weighs the filters of all models by the running probability of each model. Each
observer here leaves one part out, or is given something; all are computed, none is trained.

Axes: B episodes, K symbols read, M models, S states of each, V symbols.
"""

from __future__ import annotations

import torch

WINDOWS = (1, 2, 4, 8)


def state_marginals(move: torch.Tensor, length: int) -> torch.Tensor:
    """P(state at step t | model) before anything is seen, from an even start: float64 (length, M, S)."""
    rows = [torch.full(move.shape[:2], 1 / move.shape[-1], dtype=move.dtype)]
    for _ in range(length - 1):
        rows.append(torch.einsum("ms,mst->mt", rows[-1], move))
    return torch.stack(rows)


def joint_filter(move: torch.Tensor, emit: torch.Tensor, start: torch.Tensor, symbols: torch.Tensor) -> torch.Tensor:
    """P(model, state | symbols) after each symbol, from a joint belief before the first: (B, K, M, S).

    Args:
        move: (M, S, S). emit: (M, S, V). start: (M, S), sums to 1. symbols: int64 (B, K).
    """
    belief, found = start.expand(len(symbols), -1, -1), []
    for k, symbol in enumerate(symbols.T):
        arriving = torch.einsum("bms,mst->bmt", belief, move) if k else belief
        belief = arriving * emit[:, :, symbol].permute(2, 0, 1)
        belief = belief / belief.sum((1, 2), keepdim=True)
        found.append(belief)
    return torch.stack(found, 1)


def next_symbol(move: torch.Tensor, emit: torch.Tensor, beliefs: torch.Tensor) -> torch.Tensor:
    """What each model expects next from beliefs (B, K, M, S), not weighed: (B, K, M, V)."""
    return torch.einsum("bkms,mst,mtv->bkmv", beliefs, move, emit)


def windowed(move: torch.Tensor, emit: torch.Tensor, symbols: torch.Tensor, window: int) -> torch.Tensor:
    """The best that the last `window` symbols and the position allow: (B, K, V)."""
    K, M = symbols.shape[1], len(move)
    priors, rows = state_marginals(move, K) / M, []
    for k in range(K):
        first = max(0, k - window + 1)
        belief = joint_filter(move, emit, priors[first], symbols[:, first : k + 1])[:, -1:]
        rows.append(next_symbol(move, emit, belief).sum(2))
    return torch.cat(rows, 1)


def observers(move: torch.Tensor, emit: torch.Tensor, symbols: torch.Tensor, which: torch.Tensor) -> dict[str, torch.Tensor]:
    """What each observer predicts after each symbol: {name: float64 (B, K, V)}.

    Args:
        which: int64 (B,), the model that speaks; only "given which, no state" sees it.
    Returns:
        "exact"; "uniform"; "by position", the mean over all episodes; "given which, no state";
        "which, no state", which accumulates the right weights and holds no belief about states;
        "state, no which", the filters of all models, weighed evenly all along; "likeliest only", the
        filter of the likeliest model so far; "window w", the best from the last w symbols.
    """
    (B, K), (M, S, V) = symbols.shape, emit.shape
    joint = joint_filter(move, emit, torch.full((M, S), 1 / (M * S), dtype=move.dtype), symbols)
    weight = joint.sum(-1)  # (B, K, M)
    each = next_symbol(move, emit, joint / weight[..., None].clamp(min=1e-300))
    idle = torch.einsum("kms,msv->kmv", state_marginals(move, K + 1)[1:], emit)  # the state unseen
    best = weight.argmax(-1)[..., None, None].expand(-1, -1, 1, V)
    return {
        "exact": (weight[..., None] * each).sum(2),
        "uniform": torch.full((B, K, V), 1 / V, dtype=move.dtype),
        "by position": idle.mean(1).expand(B, -1, -1),
        "given which, no state": idle.transpose(0, 1)[which],
        "which, no state": torch.einsum("bkm,kmv->bkv", weight, idle),
        "state, no which": each.mean(2),
        "likeliest only": each.gather(2, best)[:, :, 0],
    } | {f"window {w}": windowed(move, emit, symbols, w) for w in WINDOWS}


def block_diagonal(move: torch.Tensor, emit: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same list as one chain of M S states that never leaves its block: (MS, MS), (MS, V)."""
    return torch.block_diag(*move), emit.flatten(0, 1)

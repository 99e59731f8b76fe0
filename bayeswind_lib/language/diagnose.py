"""Three diagnostics of Paper III on any causal model whose layout is known: values, keys, attention.

One forward pass a prompt, and all is read at its last token. The same functions take a language
model and the book's own networks, on which the answer is known.

Axes: n prompts, T tokens, L layers, H query heads, G key-value heads, C channels of one head, d = G C, R draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring, stats
from bayeswind_lib.language import layouts, manifold
from bayeswind_lib.language.layouts import Layout

PC_THRESHOLD, COSINE_THRESHOLD, FOCUS_THRESHOLD = 0.30, 0.20, 0.30  # of Paper III
BATCH = 16  # prompts that run at once


@dataclass(frozen=True)
class PromptActivations:
    """What a model did with some prompts, at the last token of each.

    Attributes:
        values: float32 (n, L, d), the value vectors of all key-value heads side by side.
        focus: float64 (n, L), entropy of attention over log2 of the tokens to look at, mean over heads, 0 to 1.
        rest: the same without the first token, and what is left made to sum to 1.
        first: float64 (n, L), attention to the first token, mean over heads.
        entropy: float64 (n,), of the next token, bits.
        lengths: int64 (n,), tokens.
    """

    values: np.ndarray
    focus: np.ndarray
    rest: np.ndarray
    first: np.ndarray
    entropy: np.ndarray
    lengths: np.ndarray


@torch.no_grad()
def observe(model: nn.Module, prompts: Sequence, layout: Layout | None = None) -> PromptActivations:
    """Run prompts, those of about one length together, and keep what the diagnostics need.

    Shorter ones are filled up on the right and read at their own last token, which a causal model's
    later tokens do not change.

    Args:
        prompts: each a list of tokens or an array (T,), or (T, F) for networks that take vectors.
        layout: of the model; by default the known one.
    Raises:
        ValueError: without prompts, or for a prompt of fewer than 3 tokens.
    """
    inputs = [torch.as_tensor(prompt) for prompt in prompts]
    if not inputs or min(map(len, inputs)) < 3:
        raise ValueError("give prompts of at least 3 tokens each: attention to one token has no entropy")
    found: list = [None] * len(inputs)
    places = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
    for some in (places[i : i + BATCH] for i in range(0, len(places), BATCH)):
        ends = torch.tensor([len(inputs[i]) - 1 for i in some])
        filled = nn.utils.rnn.pad_sequence([inputs[i] for i in some], batch_first=True)
        layers, logits = layouts.read(model, filled, layout, at=ends)
        for row, (i, end) in enumerate(zip(some, ends.tolist(), strict=True)):
            found[i] = _at_the_end(layers, logits, row, end)
    values, focus, rest, first, entropy = (np.array(column) for column in zip(*found, strict=True))
    return PromptActivations(values, focus, rest, first, entropy, np.array([len(one) for one in inputs]))


def _at_the_end(layers: list, logits: torch.Tensor, row: int, end: int) -> tuple:
    rows = [layer.pattern[row, :, end, : end + 1].double().numpy() for layer in layers]  # L of (H, T)
    chance = logits[row].double().softmax(-1)
    entropy = float(scoring.entropy(chance))
    values = [layer.values[row, :, end].flatten().numpy() for layer in layers]
    return values, [focus_of(x) for x in rows], [focus_of(without_first(x)) for x in rows], [x[:, 0].mean() for x in rows], entropy


def focus_of(rows: np.ndarray) -> float:
    """Entropy of each head's attention over the largest possible one, mean over heads: (H, T) -> 0 to 1.

    Heads are averaged after their entropies, never before: two heads that each look at one token of
    their own are focused, and their mean is not.
    """
    return float(scoring.entropy(rows).mean() / np.log2(rows.shape[-1]))


def without_first(rows: np.ndarray) -> np.ndarray:
    """Attention to the tokens after the first, made to sum to 1; (H, T) -> (H, T - 1)."""
    rest = np.maximum(rows[:, 1:], 1e-300)
    return rest / rest.sum(-1, keepdims=True)


def reduction(focus: np.ndarray) -> float:
    """By which share attention's mean entropy falls from the first layer to the last, (n, L) -> 1 - last / first."""
    by_layer = focus.mean(0)
    return float(1 - by_layer[-1] / by_layer[0])


def key_cosines(model: nn.Module, layout: Layout | None = None) -> np.ndarray:
    """Mean absolute cosine between the C maps of a key head, mean over heads, by layer: float64 (L,).

    The maps are vectors of the stream's width: what a channel of a key reads. (Paper III calls them the
    columns of W_K; PyTorch stores them as rows.)

    Raises:
        ValueError: for a fused map that stores its outputs as columns (GPT-2).
    """
    layout = layout or layouts.layout_of(model)
    G = layouts.head_counts(model)[1]
    if layout.fused:
        fused = [layouts.part(layouts.part(block, layout.attention), layout.fused) for block in layouts.part(model, layout.blocks)]
        if not all(isinstance(one, nn.Linear) for one in fused):
            raise ValueError("the keys come out of a fused map that is no nn.Linear: split its weight by layouts.unfuse first")
        keys = [layouts.unfuse(one.weight.detach().double().T[None], layout.order, G)[1][0] for one in fused]  # L of (G, D, C)
        return np.array([np.mean([manifold.mean_cosine(head) for head in one.numpy()]) for one in keys])
    maps = [layouts.part(layouts.part(block, layout.attention), layout.parts[1]) for block in layouts.part(model, layout.blocks)]
    weights = [one.weight.detach().double().unflatten(0, (G, -1)).numpy() for one in maps]  # L of (G, C, D)
    return np.array([np.mean([manifold.mean_cosine(head.T) for head in weight]) for weight in weights])


def random_cosines(shape: tuple[int, int], draws: int, rng: np.random.Generator) -> np.ndarray:
    """What `key_cosines` gives for one head of C random maps in D dimensions: float64 (R,); shape is (C, D)."""
    return np.array([manifold.mean_cosine(rng.standard_normal(shape).T) for _ in range(draws)])


def signature(pc1: float, pc12: float, cosines: Sequence[float], fall: float) -> dict[str, bool]:
    """Which of Paper III's three thresholds are passed; all three are its "signature", two a partial one.

    Args:
        pc1, pc12: shares of the first component, and of the first two.
        cosines: of the maps of keys, by layer.
        fall: by which share attention's entropy falls from the first layer to the last.

    >>> sum(signature(0.2, 0.35, [0.3, 0.1], 0.31).values())
    3
    """
    return {
        "values": max(pc1, pc12) > PC_THRESHOLD,
        "keys": float(np.mean(np.asarray(cosines) < COSINE_THRESHOLD)) >= 0.5,
        "attention": fall > FOCUS_THRESHOLD,
    }


# ---- values and their nulls


def axis_entropy(vectors: np.ndarray, entropy: np.ndarray) -> float:
    """|rank correlation| of the first component's coordinate with entropy: the sign of a component is arbitrary."""
    return abs(stats.spearman(manifold.spectrum(vectors).project(vectors, 1)[:, 0], entropy))


NULLS = {
    "noise": lambda x, rng: manifold.noise(*x.shape, rng),
    "shuffled": manifold.shuffled,
    "like": stats.matched_gaussian,
}


def null_summary(draws) -> dict:
    """`stats.summary`, with the largest of 95 % of the draws as "p95"."""
    drawn = np.asarray(draws, dtype=float)
    return stats.summary(drawn) | {"p95": float(np.quantile(drawn, 0.95))}


def value_report(vectors: np.ndarray, entropy: np.ndarray, draws: int, rng: np.random.Generator) -> dict:
    """The value manifold of one set of prompts, beside its nulls.

    Args:
        vectors: (n, d), as they are; each coordinate is standardised here.
        entropy: (n,), of the next token, bits.
        draws: of each null.
    Returns:
        pc1, pc12, participation, each with its jackknife error (`_se`); rho, the |rank correlation| of
        the first coordinate with entropy; raw and ranked pc1; pc1 without each prompt in turn (lowest,
        highest); and by null (see `NULLS`) a `null_summary` of each figure.
    """
    x = np.asarray(vectors, dtype=float)
    report: dict = {"n": len(x), "d": x.shape[1], "rho": axis_entropy(x, entropy)}
    parts = manifold.without_each(x)
    for name, (value, error) in manifold.jackknife(x, parts=parts).items():
        report |= {name: value, f"{name}_se": error}
    report["pc1_raw"] = manifold.spectrum(x, standardise=False, axes=False).pc1
    report["pc1_ranked"] = manifold.spectrum(manifold.ranked(x), axes=False).pc1
    out = [part["pc1"] for part in parts]
    report["left_out"] = [min(out), max(out)]
    for name, draw in NULLS.items():
        drawn = [null_figures(draw(x, rng), entropy) for _ in range(draws)]
        report[name] = {key: null_summary([one[key] for one in drawn]) for key in drawn[0]}
    return report


def null_figures(x: np.ndarray, entropy: np.ndarray) -> dict[str, float]:
    """The three shares and the rank correlation of one draw of a null."""
    found = manifold.spectrum(x)
    return manifold.figures(found) | {"rho": abs(stats.spearman(found.project(x, 1)[:, 0], entropy))}


def relabelled(a: np.ndarray, b: np.ndarray, measure: str, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Differences of a figure, second set less first, when the labels of the sets are dealt out anew: float64 (R,).

    The null in which the two domains are one: what is left is chance and the size of the sets.
    """
    return all_relabelled(a, b, draws, rng)[measure]


def all_relabelled(a: np.ndarray, b: np.ndarray, draws: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The same of all three figures, from the same draws."""
    both, rows = np.concatenate([a, b]), []
    for _ in range(draws):
        order = rng.permutation(len(both))
        first, second = (manifold.shares(both[part]) for part in (order[: len(a)], order[len(a) :]))
        rows.append([second[name] - first[name] for name in manifold.MEASURES])
    return dict(zip(manifold.MEASURES, np.array(rows).T, strict=True))

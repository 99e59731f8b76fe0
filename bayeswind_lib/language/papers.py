"""The diagnostics of the three papers as one list: each takes a network and gives a number and a verdict.

All are blind: the same function for every network, of which only the tunnel is known. A threshold is the
paper's where it prints one; else it is the one of the ledger's row. Left out: what describes a whole
training run (frame before precision) and interventions, which say what an axis is for and not whether
there is one.

Axes: B episodes, K scored positions, T tokens, L layers, n prompts.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from bayeswind_lib import scoring, stats
from bayeswind_lib.language import diagnose, manifold, own_networks
from bayeswind_lib.probes import beliefs, filtering, keys
from bayeswind_lib.probes.ablation import Bench, parts
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.scoring import entropy
from bayeswind_lib.tunnels import Episodes

LAW_ERROR = 1e-6  # relative; double precision leaves 1e-12
FEW = 16  # episodes for what takes a pass for each part
SIGNATURE = ("key maps", "focusing", "value shares")


@dataclass
class Look:
    """What the diagnostics may look at.

    Attributes:
        model: a transformer of the book.
        episodes: of its tunnel.
        prompts: episodes cut off after a question, each (T,) or (T, F).
        entropy: float64 (n,), of the exact answer to each prompt, bits.
    """

    model: nn.Module
    episodes: Episodes
    prompts: Sequence[torch.Tensor]
    entropy: np.ndarray

    def __post_init__(self):
        self.known: dict[str, float] = {}

    def number(self, name: str) -> float:
        """What a diagnostic of `DIAGNOSTICS` says, computed once."""
        if name not in self.known:
            self.known[name] = float(BY_NAME[name].measure(self))
        return self.known[name]

    @cached_property
    def values(self) -> np.ndarray:
        """Of the last layer at the last token of each prompt, float64 (n, d)."""
        return own_networks.values_of(self.model, self.prompts).astype(float)

    @cached_property
    def exact(self) -> np.ndarray:
        """Entropy of the exact posterior, bits, (B, K)."""
        return scoring.entropy_bits(self.episodes.posterior.log2()).numpy()

    @cached_property
    def score(self) -> scoring.Score:
        """On the episodes."""
        return scoring.score_episodes(self.model, self.episodes)

    @cached_property
    def bench(self) -> Bench:
        """Some of the episodes."""
        return Bench(self.model, self.episodes[:FEW])

    @cached_property
    def written(self) -> np.ndarray:
        """What the last layer that attends adds to the stream at the scored positions, (B, K, D)."""
        return self.at(list(activations(self.model, self.episodes.inputs[:1], "attention.*"))[-1])

    @cached_property
    def stream(self) -> np.ndarray:
        """The stream that leaves the last layer, at the scored positions, (B, K, D)."""
        return self.at(f"residual.{len(self.model.blocks)}")

    def at(self, site: str) -> np.ndarray:
        """An activation at the scored positions, float64 (B, K, D)."""
        x = activations(self.model, self.episodes.inputs, site)[site]
        return x[:, self.model.scored_positions(x.shape[1])].double().numpy()


# ---- Paper I


def key_ratio(look: Look) -> float:
    """Mean |cosine| of layer 0's keys of the outcomes' tokens, all heads side by side, over that of untrained keys.

    The latter in closed form (chapter 9, "Through a random map"): a square random map leaves about half of D dimensions.
    """
    config = look.model.config
    if not config.n_tokens:
        return math.nan
    tokens, D = torch.arange(config.n_tokens - config.n_outputs, config.n_tokens), config.width
    cosine = keys.mean_cosine(keys.pick(keys.key_vectors(look.model, tokens), None))
    return float(cosine) / keys.isotropic_cosine(1 / (2 / D + 1 / D**2))


def sharpening(look: Look) -> float:
    """Entropy of attention from the questions (from the third on) in the last layer, over that in the first."""
    inputs = look.episodes.inputs
    scored = look.model.scored_positions(inputs.shape[1])[2:]
    bits = [float(entropy(x[:, :, scored].double()).mean()) for x in activations(look.model, inputs, "pattern.*").values()]
    return bits[-1] / bits[0]


def frame_head(look: Look) -> float:
    """Rise of the entropy error without the most important head of layer 0, over that without any other head."""
    cost = {part: look.bench.effect(part).entropy_mae for part in parts(look.model, "head")}
    first = {part: x for part, x in cost.items() if part.startswith("head.0.")}
    top = max(first, key=first.get)
    other = max(x for part, x in cost.items() if part != top)
    return cost[top] / other if cost[top] > 0 and other > 0 else 0.0


def layer_factor(look: Look) -> float:
    """By which factor the entropy error grows without a layer, the layer where it grows least."""
    before = float(look.bench.before["entropy_mae"].mean())
    return min(before + look.bench.effect(part).entropy_mae for part in parts(look.model, "layer")) / before


def first_share(look: Look) -> float:
    """Share of the first component of the last attention's outputs, many episodes."""
    return stats.pca(look.written.reshape(-1, look.written.shape[-1])).pc1


def entropy_order(look: Look) -> float:
    """|Rank correlation| of that component's coordinate with the exact entropy."""
    flat = look.written.reshape(-1, look.written.shape[-1])
    return stats.correlation(stats.pca(flat).project(flat, 1)[:, 0], look.exact.ravel(), ranked=True)


def entropy_read(look: Look) -> float:
    """R^2 of the exact entropy, read linearly from the last stream of other episodes."""
    return filtering.held_out(look.stream, look.exact[..., None], len(look.stream) // 2)


def eliminated(look: Look) -> float:
    """Balanced accuracy with which the last stream tells, linearly, which outcomes are still possible; middle question."""
    possible = (look.episodes.posterior > 0).numpy()
    k, half = possible.shape[1] // 2, len(possible) // 2
    if possible.all():
        return math.nan
    x, y = look.stream[:, k], possible[:, k].astype(float)
    guess = beliefs.fit_reader(x[:half], y[:half]).read(x[half:]) > 0.5
    truth = y[half:] > 0.5
    return float((guess[truth].mean() + (~guess[~truth]).mean()) / 2)


def entropy_error(look: Look) -> float:
    """Mean absolute error of the entropy, bits."""
    return look.score.entropy_mae


# ---- Paper II


@torch.enable_grad()
def law_holds(look: Look) -> float:
    """1 if the gradients at the weights of the last layer that attends are those of Paper II's law, else 0.

    The law: dL/dS_ij = A_ij (b_ij - mean of b under A_i), b_ij = u_i . v_j, with u the gradient where the heads hand over.
    """
    model = copy.deepcopy(look.model).double().requires_grad_()
    block = next(block.attention for block in reversed(model.blocks) if block.attends)
    few, kept = look.episodes[:8], {}
    block.value.register_forward_hook(lambda m, x, y: kept.update(values=block.shared(block.heads(y))))
    block.pattern.register_forward_hook(lambda m, x, y: kept.update(pattern=y) or y.retain_grad())
    block.output.register_forward_hook(lambda m, x, y: kept.update(context=x[0]) or x[0].retain_grad())
    answer = model(few.inputs.double() if few.inputs.is_floating_point() else few.inputs).log_softmax(-1)
    (-(few.posterior * answer).sum(-1).mean()).backward()
    leaf = kept["pattern"].detach().clamp(min=1e-300).log().requires_grad_()
    leaf.softmax(-1).backward(kept["pattern"].grad)
    u = kept["context"].grad.unflatten(-1, (block.n_heads, -1)).transpose(1, 2)
    b = u @ kept["values"].detach().transpose(-2, -1)
    A = kept["pattern"].detach()
    law = A * (b - (A * b).sum(-1, keepdim=True))
    return float(float((law - leaf.grad).abs().max()) <= LAW_ERROR * max(float(leaf.grad.abs().max()), 1e-200))


# ---- Paper III


def map_cosine(look: Look) -> float:
    """Mean |cosine| of the maps of keys; half of the layers are below it."""
    model, layers = look.model, []
    for block in model.blocks:
        if block.attends:
            weight = block.attention.key.weight.detach().double().unflatten(0, (model.config.n_groups, -1)).numpy()
            layers.append(np.mean([manifold.mean_cosine(head.T) for head in weight]))
    return float(sorted(layers)[math.ceil(len(layers) / 2) - 1])


def focusing(look: Look) -> float:
    """By which share attention's entropy at the last token falls from the first layer to the last."""
    return own_networks.attention_figures(look.model, look.prompts)["fall"]


def value_shares(look: Look) -> float:
    """Share of the first two components of the last layer's values at the last token, standardised."""
    return manifold.shares(look.values)["pc12"]


def value_axis(look: Look) -> float:
    """|Rank correlation| of the first component's coordinate with the exact entropy."""
    return diagnose.axis_entropy(look.values, look.entropy)


def signature(look: Look) -> float:
    """How many of the three thresholds of Paper III are passed."""
    return float(sum(BY_NAME[name].passed(look.number(name)) for name in SIGNATURE))


# ---- the book's own


def log_loss(look: Look) -> float:
    """Mean surprise of what happened, less that of the exact posterior, bits: no posterior of the network is compared."""
    answers = look.model.predict(look.episodes.inputs)
    happened = look.episodes.targets[..., None]
    mine, exact = (x.gather(-1, happened)[..., 0] for x in (answers, look.episodes.posterior.log2()))
    return float((exact - mine).mean())


@dataclass(frozen=True)
class Diagnostic:
    """A number, and when it counts as a sign.

    Attributes:
        name: of a few words. paper: whose. source: where number and threshold stand.
        measure: the number, of a look; NaN if the network has not what it needs.
        threshold: the worst value that passes.
        low: whether small numbers are the sign.
        about: "coordinates", "parts" or "answers": what it is a number of.
    """

    name: str
    paper: str
    source: str
    measure: Callable[[Look], float]
    threshold: float
    low: bool
    about: str

    def passed(self, number: float) -> bool:
        """The verdict; a number that is not there passes nothing."""
        return bool(number <= self.threshold if self.low else number >= self.threshold)

    def sign(self, number: float) -> float:
        """The number so that more is more of a sign; the worst of all if it is not there."""
        return -math.inf if math.isnan(number) else -number if self.low else number


DIAGNOSTICS = (
    Diagnostic("token keys", "Paper I", "v3 and later: 0.052 against 0.082 of random keys", key_ratio, 0.052 / 0.082, True, "coordinates"),
    Diagnostic("sharpening", "Paper I", "Fig. 15; the threshold is the ledger's", sharpening, 0.5, True, "parts"),
    Diagnostic("frame head", "Paper I", "ablation of heads; the threshold is the ledger's", frame_head, 2.0, False, "parts"),
    Diagnostic("every layer", "Paper I", "ablation of layers: more than tenfold", layer_factor, 10.0, False, "parts"),
    Diagnostic("first axis", "Paper I", "authors' repository, acceptance: more than four fifths", first_share, 0.8, False, "parts"),
    Diagnostic("entropy order", "Paper I", "figures of the value manifold; the threshold is the ledger's", entropy_order, 0.9, False, "parts"),
    Diagnostic("entropy read", "Paper I", "authors' note of July 2026: R^2 is 1.00", entropy_read, 0.995, False, "parts"),
    Diagnostic("set read", "Paper I", "authors' note of July 2026: 95 % balanced accuracy", eliminated, 0.95, False, "parts"),
    Diagnostic("entropy error", "Paper I", "authors' repository, acceptance: below 0.01 bits", entropy_error, 0.01, True, "answers"),
    Diagnostic("advantage law", "Paper II", "an identity; relative error of double precision", law_holds, 1.0, False, "parts"),
    Diagnostic("key maps", "Paper III", "v1: below 0.20 in half of the layers", map_cosine, 0.2, True, "coordinates"),
    Diagnostic("focusing", "Paper III", "v1: falls by more than 30 %", focusing, 0.3, False, "parts"),
    Diagnostic("value shares", "Paper III", "v1: more than 30 % in two components", value_shares, 0.3, False, "coordinates"),
    Diagnostic("value axis", "Paper III", "v1, SULA: rank correlation at least 0.65", value_axis, 0.65, False, "coordinates"),
    Diagnostic("all three signs", "Paper III", "v1: values, keys and attention", signature, 3.0, False, "coordinates"),
    Diagnostic("log loss", "this book", "ours: 0.01 bits above the exact posterior's", log_loss, 0.01, True, "answers"),
)
BY_NAME = {one.name: one for one in DIAGNOSTICS}

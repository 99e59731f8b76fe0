"""Prompts of one length through a `Llama`: what it says of two labels, what its values are, and what edits do.

Three ways to run it, the cheaper ones with the same numbers: whole (`observe`), from a layer on with
values edited at all tokens (`edited`), and the last token alone with its stream edited (`from_last`).

Axes: n prompts of T tokens, L layers, G C channels of values, D channels of the stream, N tokens of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bayeswind_lib.language.llama import Llama, heads, turn

Edit = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Said:
    """What a model says after a prompt.

    Attributes:
        log2_prob: float32 (n, N), of every next token.
        labels: the two tokens asked about.
    """

    log2_prob: torch.Tensor
    labels: tuple[int, int]

    @property
    def logit(self) -> np.ndarray:
        """How much the first label is preferred to the second, in nats: float64 (n,)."""
        pair = self.log2_prob[:, list(self.labels)].double()
        return ((pair[:, 0] - pair[:, 1]) * math.log(2)).numpy()

    @property
    def p(self) -> np.ndarray:
        """Probability of the first label among the two, (n,)."""
        return 1 / (1 + np.exp(-self.logit))

    @property
    def mass(self) -> np.ndarray:
        """Probability of the two labels together among all tokens, (n,)."""
        return self.log2_prob[:, list(self.labels)].double().exp2().sum(-1).numpy()

    def divergence(self, after: Said) -> np.ndarray:
        """KL of what another one says of the next token, from this, in bits: (n,)."""
        found = []
        for p, q in zip(self.log2_prob.split(16), after.log2_prob.split(16), strict=True):  # all at once takes memory
            p, q = p.double(), q.double()
            found.append((p.exp2() * (p - q)).sum(-1))
        return torch.cat(found).numpy()


@dataclass(frozen=True)
class Seen:
    """A whole run.

    Attributes:
        said: after the last token.
        values: (n, L, G C), float32, of the last token.
        streams: (n, L + 1, D), of the last token, before each layer and after the last one.
        inputs: the whole stream (n, T, D) before each layer that was to be kept.
        keys, all_values: of all tokens (n, G, T, C), keys turned, by layer from the first that was to be kept.
    """

    said: Said
    values: torch.Tensor
    streams: torch.Tensor
    inputs: dict[int, torch.Tensor]
    keys: dict[int, torch.Tensor]
    all_values: dict[int, torch.Tensor]


def say(model: Llama, stream: torch.Tensor, labels: tuple[int, int]) -> Said:
    """What is said after the last token, from its stream (n, D)."""
    logits = model.norm(stream) @ model.tokens.weight.T
    return Said(logits.log_softmax(-1) / math.log(2), labels)


@torch.no_grad()
def observe(model: Llama, tokens: torch.Tensor, labels: tuple[int, int], keep: Sequence[int] = (), past_from: int | None = None) -> Seen:
    """Run prompts whole: int64 (n, T).

    Args:
        keep: layers whose whole input is wanted, for `edited`.
        past_from: keep keys and values of all tokens from this layer on, for `from_last`.
    """
    x = model.tokens(tokens)
    values, streams, inputs, keys, all_values = [], [], {}, {}, {}
    for layer, block in enumerate(model.blocks):
        streams.append(x[:, -1])
        if layer in keep:
            inputs[layer] = x
        y = block.norm1(x)
        v = block.attention.value(y)
        values.append(v[:, -1])
        if past_from is not None and layer >= past_from:
            keys[layer] = turn(heads(block.attention.key(y), model.config.n_groups), model.config.base)
            all_values[layer] = heads(v, model.config.n_groups)
        x = block(x)
    streams.append(x[:, -1])
    return Seen(say(model, x[:, -1], labels), torch.stack(values, 1), torch.stack(streams, 1), inputs, keys, all_values)


@torch.no_grad()
def edited(model: Llama, seen: Seen, edits: dict[int, Edit], rows: slice = slice(None)) -> Said:
    """What is said when the values of some layers are edited, at all tokens.

    Args:
        edits: by layer, from values (n, T, G C) to values.
        rows: only these prompts.
    Raises:
        ValueError: if the input of the first edited layer was not kept.
    """
    first = min(edits)
    if first not in seen.inputs:
        raise ValueError(f"layer {first} is edited, but only inputs of {sorted(seen.inputs)} were kept")
    hooks = [
        model.blocks[layer].attention.value.register_forward_hook(lambda module, given, v, edit=edit: edit(v))
        for layer, edit in edits.items()
    ]
    try:
        x = seen.inputs[first][rows]
        for block in model.blocks[first:]:
            x = block(x)
    finally:
        for hook in hooks:
            hook.remove()
    return say(model, x[:, -1], seen.said.labels)


@torch.no_grad()
def from_last(model: Llama, seen: Seen, layer: int, stream: torch.Tensor, edit: Edit = lambda v: v, rows: slice = slice(None)) -> Said:
    """What is said when the stream of the last token before a layer is another one, (n, D).

    All else is as it was: no earlier token sees the last one, so their keys and values are reused.

    Args:
        edit: of the values of that layer, those of earlier tokens included; from (n, T, G C).
    Raises:
        ValueError: if the past of that layer was not kept.
    """
    if layer < model.config.n_layers and layer not in seen.keys:
        raise ValueError(f"layer is {layer}, but keys were kept of {sorted(seen.keys)}")
    x = stream
    for at, block in list(enumerate(model.blocks))[layer:]:
        mine = block.attention
        H, G = model.config.n_heads, model.config.n_groups
        y = block.norm1(x)[:, None]  # (n, 1, D)
        k, v = seen.keys[at][rows].clone(), seen.all_values[at][rows].clone()
        T = k.shape[2]
        q = turn(heads(mine.query(y), H).expand(-1, -1, T, -1), model.config.base)[:, :, -1:]
        k[:, :, -1:] = turn(heads(mine.key(y), G).expand(-1, -1, T, -1), model.config.base)[:, :, -1:]
        v[:, :, -1:] = heads(mine.value(y), G)
        if at == layer:
            v = heads(edit(v.transpose(1, 2).flatten(2)), G)
        k, v = (z.repeat_interleave(H // G, 1) for z in (k, v))
        pattern = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        x = x + mine.output((pattern @ v).transpose(1, 2).flatten(2))[:, 0]
        x = x + block.feed_forward(block.norm2(x))
    return say(model, x, seen.said.labels)


def without(axis: np.ndarray, mean: torch.Tensor | float = 0.0) -> Edit:
    """The edit that cuts an axis out of values (n, T, d) and keeps their mean, which may depend on the token."""
    u = torch.tensor(axis / np.linalg.norm(axis), dtype=torch.float32)
    return lambda v: v - ((v - mean) @ u)[..., None] * u


def by_length(encoded: Sequence[Sequence[int]]) -> list[tuple[np.ndarray, torch.Tensor]]:
    """Prompts of equal length together: their indices and tokens (n, T), shortest first."""
    lengths = np.array([len(row) for row in encoded])
    return [
        (where, torch.tensor([encoded[i] for i in where], dtype=torch.int64))
        for where in (np.flatnonzero(lengths == T) for T in sorted(set(lengths.tolist())))
    ]

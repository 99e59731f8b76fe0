"""Prompts of one length through a `Llama`: what it says of two labels, what its values are, and what edits do.

Three ways to run it, the cheaper ones with the same numbers: whole (`observe`), from a layer on with
values edited at all tokens (`edited`), and the last token alone with its stream edited (`from_last`).
What is said is read at the last token, so in the last layer only that token is computed; and the
next token's probabilities, one for each of 49,152 tokens, only once they are asked for.

Axes: n prompts of T tokens, L layers, G C channels of values, D channels of the stream, N tokens of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from bayeswind_lib.language.llama import Block, Edit, Llama, LlamaConfig, heads, turn

BATCH = 25  # prompts that run at once: more of them take memory and are not faster


@dataclass(frozen=True)
class Said:
    """What a model says after a prompt.

    Attributes:
        stream: float32 (n, D), of the last token, after the last norm.
        readout: (N, D), the map to logits.
        labels: the two tokens asked about.
    """

    stream: torch.Tensor
    readout: torch.Tensor
    labels: tuple[int, int]

    def __getitem__(self, rows: slice) -> Said:
        """The same of some prompts."""
        part = Said(self.stream[rows], self.readout, self.labels)
        if "log2_prob" in self.__dict__:
            part.__dict__["log2_prob"] = self.log2_prob[rows]
        return part

    def _batches(self) -> Iterator[torch.Tensor]:
        if "log2_prob" in self.__dict__:
            yield from self.log2_prob.split(BATCH)
            return
        for some in self.stream.split(BATCH):
            yield (some @ self.readout.T).log_softmax(-1).div_(math.log(2))

    @cached_property
    def log2_prob(self) -> torch.Tensor:
        """Of every next token: float32 (n, N), computed once."""
        found = torch.empty(len(self.stream), len(self.readout))
        for rows, some in zip(found.split(BATCH), self._batches(), strict=True):
            rows.copy_(some)
        return found

    @property
    def logit(self) -> np.ndarray:
        """How much the first label is preferred to the second, in nats: float64 (n,)."""
        first, second = self.readout[list(self.labels)].double()
        return (self.stream.double() @ (first - second)).numpy()

    @property
    def p(self) -> np.ndarray:
        """Probability of the first label among the two, (n,)."""
        return 1 / (1 + np.exp(-self.logit))

    @property
    def mass(self) -> np.ndarray:
        """Probability of the two labels together among all tokens, (n,)."""
        return torch.cat([some[:, list(self.labels)].double().exp2().sum(-1) for some in self._batches()]).numpy()

    def divergence(self, after: Said) -> np.ndarray:
        """KL of what another one says of the next token, from this, in bits: (n,). That of `after` is not kept: it takes memory."""
        found = [(p.exp2() * (p - q)).sum(-1, dtype=torch.float64) for p, q in zip(self._batches(), after._batches(), strict=True)]
        return torch.cat(found).numpy()


@dataclass(frozen=True)
class Seen:
    """A whole run.

    Attributes:
        said: after the last token.
        values: (n, L, G C), float32, of the last token.
        means: (L, T, G C), of the values over prompts.
        streams: (n, L + 1, D), of the last token, before each layer and after the last one.
        inputs: the whole stream (n, T, D) before each layer that was to be kept.
        keys, all_values: of all tokens (n, G, T, C), keys turned, by layer from the first that was to be kept.
    """

    said: Said
    values: torch.Tensor
    means: torch.Tensor
    streams: torch.Tensor
    inputs: dict[int, torch.Tensor]
    keys: dict[int, torch.Tensor]
    all_values: dict[int, torch.Tensor]


def say(model: Llama, stream: torch.Tensor, labels: tuple[int, int]) -> Said:
    """What is said after the last token, from its stream (n, D)."""
    return Said(model.norm(stream), model.tokens.weight.detach(), labels)


def at_last(block: Block, config: LlamaConfig, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One layer for the last token alone: its stream (n, D) -> (n, D).

    Args:
        keys, values: of all tokens, that one included, keys turned: (n, G, T, C).
    """
    mine, G = block.attention, config.n_groups
    q = turn(heads(mine.query(block.norm1(x)[:, None]), config.n_heads), config.base, first=keys.shape[2] - 1)
    q = q.squeeze(2).unflatten(1, (G, -1))  # (n, G, H / G, C): heads that share keys together
    pattern = (q @ keys.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)  # (n, G, H / G, T)
    x = x + mine.output((pattern @ values).flatten(1))
    return x + block.feed_forward(block.norm2(x))


@torch.no_grad()
def observe(
    model: Llama, tokens: torch.Tensor, labels: tuple[int, int], keep: Sequence[int] = (), past_from: int | None = None,
    run: Callable = map, at_once: int = BATCH,
) -> Seen:  # fmt: skip
    """Run prompts whole: int64 (n, T).

    Args:
        keep: layers whose whole input is wanted, for `edited`.
        past_from: keep keys and values of all tokens from this layer on, for `from_last`.
        run: runs a function on each of the batches, in order; by default one after the other.
        at_once: prompts of a batch.
    """
    start = model.config.n_layers if past_from is None else past_from
    parts = list(run(lambda some: _observe(model, some, keep, start), tokens.split(at_once)))
    values, streams, means = (torch.cat([part[name] for part in parts]) for name in ("values", "streams", "means"))
    inputs, keys, all_values = (
        {layer: torch.cat([part[name].pop(layer) for part in parts]) for layer in list(parts[0][name])}
        for name in ("inputs", "keys", "all_values")
    )
    return Seen(say(model, streams[:, -1], labels), values, means.sum(0) / len(tokens), streams, inputs, keys, all_values)


@torch.no_grad()  # again: it holds in one thread only
def _observe(model: Llama, tokens: torch.Tensor, keep: Sequence[int], past_from: int) -> dict:
    """The same of one batch; `means` is a sum over its prompts, (1, L, T, G C)."""
    config, x = model.config, model.tokens(tokens)
    values, means, streams = [], [], []
    found: dict[str, dict[int, torch.Tensor]] = {"inputs": {}, "keys": {}, "all_values": {}}
    for layer, block in enumerate(model.blocks):
        streams.append(x[:, -1])
        if layer in keep:
            found["inputs"][layer] = x
        y, last = block.norm1(x), layer == config.n_layers - 1
        v = block.attention.value(y)
        values.append(v[:, -1])
        means.append(v.sum(0))
        if last or layer >= past_from:
            k, split = turn(heads(block.attention.key(y), config.n_groups), config.base), heads(v, config.n_groups)
            if layer >= past_from:
                found["keys"][layer], found["all_values"][layer] = k, split
        x = at_last(block, config, x[:, -1], k, split) if last else block(x)
    streams.append(x)
    return found | {"values": torch.stack(values, 1), "means": torch.stack(means)[None], "streams": torch.stack(streams, 1)}


@torch.no_grad()
def edited(model: Llama, seen: Seen, edits: dict[int, Edit], rows: slice = slice(None)) -> Said:
    """What is said when the values of some layers are edited, at all tokens.

    Args:
        edits: by layer, from values (n, T, G C) to values; each prompt's must not depend on the other prompts.
        rows: only these prompts.
    Raises:
        ValueError: if the input of the first edited layer was not kept.
    """
    first, config = min(edits), model.config
    if first not in seen.inputs:
        raise ValueError(f"layer {first} is edited, but only inputs of {sorted(seen.inputs)} were kept")
    *blocks, last = list(enumerate(model.blocks))[first:]
    found = []
    for x in seen.inputs[first][rows].split(BATCH):
        for layer, block in blocks:
            x = block(x, edits.get(layer))
        layer, block = last
        y = block.norm1(x)
        k, v = turn(heads(block.attention.key(y), config.n_groups), config.base), block.attention.value(y)
        v = edits[layer](v) if layer in edits else v
        found.append(at_last(block, config, x[:, -1], k, heads(v, config.n_groups)))
    return say(model, torch.cat(found), seen.said.labels)


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
    x, config = stream, model.config
    for at, block in list(enumerate(model.blocks))[layer:]:
        mine, y = block.attention, block.norm1(x)[:, None]  # (n, 1, D)
        past_k, past_v = seen.keys[at][rows][:, :, :-1], seen.all_values[at][rows][:, :, :-1]
        k = turn(heads(mine.key(y), config.n_groups), config.base, first=past_k.shape[2])
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, heads(mine.value(y), config.n_groups)], 2)
        if at == layer:
            v = heads(edit(v.transpose(1, 2).flatten(2)), config.n_groups)
        x = at_last(block, config, x, k, v)
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

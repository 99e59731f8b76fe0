"""Where a network can be opened: every activation by a name, for every architecture.

A *site* is an activation that a forward pass computes: what a module is given, or what it hands
on. The names are the same across networks, and end with the number of the layer: "residual.2" is
the stream that enters layer 2, and that of the last layer's number plus one leaves the stack.

Axes: B episodes, T tokens, D channels (`width`), H heads, C channels of one head, M hidden units,
      G heads of keys and values (H, unless queries share them); of a Mamba E channels of a mixer, N numbers of state a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn

from bayeswind_lib.models.mamba import selective_scan_sequential


def merge_heads(x: torch.Tensor) -> torch.Tensor:
    """Lay the heads side by side again: (B, H, T, C) -> (B, T, D)."""
    return x.transpose(1, 2).flatten(2)


def for_each_query(x: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Keys or values, once for each head of queries that uses them: (B, G, T, C) -> (B, H, T, C).

    Raises:
        ValueError: if H is no multiple of G.
    """
    if n_heads % x.shape[1]:
        raise ValueError(f"{x.shape[1]} heads of keys do not serve {n_heads} heads evenly")
    return x.repeat_interleave(n_heads // x.shape[1], 1)


@dataclass(frozen=True)
class Site:
    """One named activation.

    Attributes:
        name: for example "residual.2".
        module: the path of the module in the network, for example "blocks.2".
        given: whether it is what the module is given (its first input), or what it hands on.
        axes: names of its axes.
        words: what it is.
        heads: H (or G) if the module's channels are to be split into heads, else 0.
        derive: what makes the activation of the module, its inputs and its output, for an
            activation that no module hands on; such a site can be read and not changed.
    """

    name: str
    module: str
    given: bool
    axes: str
    words: str
    heads: int = 0
    derive: Callable[[nn.Module, tuple, object], torch.Tensor] | None = None

    def read(self, module: nn.Module, inputs: tuple, output) -> torch.Tensor:
        """The activation, from what a hook gets from its module."""
        if self.derive is not None:
            return self.derive(module, inputs, output)
        x = inputs[0] if self.given else output
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2) if self.heads else x

    def write(self, changed: torch.Tensor) -> torch.Tensor:
        """A changed activation in the shape that the module has."""
        return merge_heads(changed) if self.heads else changed


def sites(model: nn.Module) -> dict[str, Site]:
    """All sites of a network, by name, in the order in which a pass comes to them.

    Raises:
        ValueError: for a network of an architecture that has no table.
    """
    makers = {"transformer": _transformer, "mamba": _mamba, "lstm": _lstm, "mlp": _mlp}
    name = getattr(model, "architecture", type(model).__name__)
    if name not in makers:
        raise ValueError(f"no sites are known of {name!r}: there are tables for {', '.join(makers)}")
    return {site.name: site for site in makers[name](model.config)}


def shapes(model: nn.Module, batch_size: int = 1, n_tokens: int | None = None) -> dict[str, tuple[int, ...]]:
    """The shape that every activation of a network has, by name, for B episodes of T tokens.

    Args:
        batch_size: B. n_tokens: T; by default as many as the network has places for.
    """
    config = model.config
    heads = getattr(config, "n_heads", 1)
    sizes = {
        "B": batch_size, "T": n_tokens or config.n_positions, "D": config.width, "H": heads,
        "G": getattr(config, "n_groups", heads), "C": config.width // heads, "M": getattr(config, "hidden", 0),
        "E": getattr(config, "channels", 0), "N": getattr(config, "n_states", 0),
    }
    return {name: tuple(sizes[axis] for axis in site.axes.split()) for name, site in sites(model).items()}


def table(model: nn.Module) -> list[dict[str, str]]:
    """What can be read in a network: name, axes, shape for one episode, and what it is, row by row."""
    sized = shapes(model)
    return [
        {"name": name, "axes": site.axes, "shape": " x ".join(map(str, sized[name])), "what": site.words}
        for name, site in sites(model).items()
    ]


def _transformer(config) -> Iterator[Site]:
    heads = (config.n_heads, config.n_groups)
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        yield Site(f"residual.{layer}", block, True, "B T D", "the stream that enters the layer")
        if layer not in config.without_attention:
            yield from _attention(layer, f"{block}.attention", *heads, config.attention == "softmax")
        yield Site(f"middle.{layer}", f"{block}.norm2", True, "B T D",
                   "the stream between attention and feed-forward")
        yield Site(f"normed_middle.{layer}", f"{block}.norm2", False, "B T D",
                   "its normed copy, which the feed-forward part reads")
        if not config.n_experts:
            yield Site(f"hidden.{layer}", f"{block}.feed_forward.down", True, "B T M",
                       "hidden units of the feed-forward part, after the GELU")
        yield Site(f"feed_forward.{layer}", f"{block}.feed_forward", False, "B T D",
                   "what the feed-forward part adds to the stream")
    yield from _ends(config.n_layers)


def _attention(layer: int, attention: str, heads: int, groups: int, scores: bool) -> Iterator[Site]:
    shared = "B H T C" if groups == heads else "B G T C"
    yield Site(f"normed.{layer}", attention, True, "B T D", "the normed copy that attention reads")
    if scores:
        yield Site(f"query.{layer}", f"{attention}.query", False, "B H T C",
                   "queries, before any rotation", heads)
        yield Site(f"key.{layer}", f"{attention}.key", False, shared,
                   "keys, before any rotation", groups)
    yield Site(f"value.{layer}", f"{attention}.value", False, shared, "values", groups)
    yield Site(f"pattern.{layer}", f"{attention}.pattern", False, "B H T T",
               "attention weights, query by key; rows sum to 1")
    yield Site(f"head.{layer}", f"{attention}.output", True, "B H T C",
               "output of each head: values weighed by the pattern", heads)
    yield Site(f"attention.{layer}", attention, False, "B T D", "what attention adds to the stream")


def _ends(n_layers: int) -> Iterator[Site]:
    yield Site(f"residual.{n_layers}", "norm", True, "B T D", "the stream that leaves the last layer")
    yield Site("final", "norm", False, "B T D", "its normed copy, which is read out")


def _mamba(config) -> Iterator[Site]:
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        scan = f"{block}.mixer.scan"
        yield Site(f"residual.{layer}", block, True, "B T D", "the stream that enters the layer")
        yield Site(f"normed.{layer}", f"{block}.mixer", True, "B T D", "the normed copy that the mixer reads")
        yield Site(f"intake.{layer}", scan, True, "B T E", "what the states take in, after the convolution")
        yield Site(f"time_step.{layer}", scan, False, "B T E", "time steps, positive",
                   derive=lambda module, inputs, output: inputs[1])
        yield Site(f"state.{layer}", scan, False, "B T E N", "states after each token",
                   derive=lambda module, inputs, output: selective_scan_sequential(*inputs)[1])
        yield Site(f"scanned.{layer}", scan, False, "B T E", "what is read from the states")
        yield Site(f"mixer.{layer}", f"{block}.mixer", False, "B T D", "what the mixer adds to the stream")
    yield from _ends(config.n_layers)


def _lstm(config) -> Iterator[Site]:
    yield Site("embedded", "layers", True, "B T D", "the inputs, mapped to channels")
    for layer in range(config.n_layers):
        for part, words in (("output", "output of the layer"), ("cell", "cells of the layer"),
                            ("forget", "forget gates, 0 to 1"), ("input_gate", "input gates, 0 to 1")):
            yield Site(f"{part}.{layer}", "layers", False, "B T D", words, derive=_unrolled(layer, part))
    yield Site("final", "norm", False, "B T D", "the last layer's output, normed, which is read out")


def _unrolled(layer: int, part: str):
    return lambda module, inputs, output: unroll(module, inputs[0], layer)[part]


def unroll(lstm: nn.LSTM, x: torch.Tensor, layer: int) -> dict[str, torch.Tensor]:
    """Everything inside one layer of a stack, token by token: each (B, T, D).

    `torch.nn.LSTM` hands on the last layer's outputs only, so the equations are run by hand up to
    `layer`.

    Returns:
        output, cell, forget, input_gate.
    """
    for below in range(layer + 1):
        W, U, b, c = (getattr(lstm, f"{kind}_l{below}") for kind in
                      ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden = cell = x.new_zeros(x.shape[0], lstm.hidden_size)
        given, rows = x @ W.T + b + c, []  # (B, T, 4 D)
        for t in range(x.shape[1]):
            i, f, g, o = (given[:, t] + hidden @ U.T).chunk(4, dim=-1)  # (B, D) each
            i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
            cell = f * cell + i * g.tanh()
            hidden = o * cell.tanh()
            rows.append((hidden, cell, f, i))
        x = torch.stack([row[0] for row in rows], dim=1)  # (B, T, D), what the next layer reads
    names = ("output", "cell", "forget", "input_gate")
    return {name: torch.stack([row[i] for row in rows], dim=1) for i, name in enumerate(names)}


def _mlp(config) -> Iterator[Site]:
    if config.context != "token":
        yield Site("embedded", "context", True, "B T D", "inputs and places, before anything is gathered")
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        yield Site(f"residual.{layer}", block, True, "B T D", "the stream that enters the layer")
        yield Site(f"normed.{layer}", f"{block}.norm", False, "B T D", "its normed copy")
        if config.hidden:
            yield Site(f"hidden.{layer}", f"{block}.down", True, "B T M", "hidden units, after the GELU")
    yield from _ends(config.n_layers)

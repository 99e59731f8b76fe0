"""Copies of a network that give the same answer with another geometry, or another answer with the same one.

A head's inner coordinates are free: keys A k with queries A^-T q have the same scores, values M v with
an output map W_O M^-1 the same sum (the theorem "Scores fix no cosine", chapter 9). A further layer may
write so little that no answer changes, and attend as one likes. And a readout whose rows have changed
places renames the outcomes: nothing inside moves, each answer keeps its entropy, and is wrong. The
network itself is never changed.

Axes: B episodes, T tokens, K scored positions, D channels, H heads, C channels of one head, n vectors.
"""

from __future__ import annotations

import copy
import dataclasses

import torch
from torch import nn

from bayeswind_lib import scoring
from bayeswind_lib.probes.activations import activations

STRETCH = 30.0  # how much longer the chosen direction gets: see `along`
WHISPER = 1e-5  # what a silent layer writes, over the stream that it is added to
FLOOR = 1e-4  # of the largest variance: axes with less are left out when vectors are made white


def recorded(model: nn.Module, like: nn.Module) -> nn.Module:
    """The copy, in eval mode, with the record of the network that it was made of."""
    if hasattr(like, "record"):
        model.record = like.record
    return model.eval().requires_grad_(False)


def _turned(model: nn.Module, layer: int, maps: torch.Tensor, into: str, out: str) -> nn.Module:
    """A copy in which one map of a layer is turned by `maps` (H, C, C), and its counterpart turned back."""
    attention = model.blocks[layer].attention
    if attention.n_groups != attention.n_heads or (attention.rotary and into == "key"):
        raise ValueError("heads that share keys, and rotary keys, have not all these coordinates free")
    other = copy.deepcopy(model)
    attention = other.blocks[layer].attention
    for name, A in ((into, maps), (out, torch.linalg.inv(maps).mT)):
        linear = getattr(attention, name)
        weight = linear.weight.data.T if name == "output" else linear.weight.data  # (H C, D)
        new = (A @ weight.double().unflatten(0, (attention.n_heads, -1))).flatten(0, 1)
        linear.weight.data = (new.T if name == "output" else new).float().contiguous()
    return recorded(other, model)


def turn_keys(model: nn.Module, layer: int, maps: torch.Tensor) -> nn.Module:
    """A copy whose keys in a layer are A k, and whose queries are A^-T q: all scores stay.

    Args:
        maps: float64 (H, C, C), invertible, one A a head.
    Raises:
        ValueError: if heads share keys, or positions are rotary.
    """
    return _turned(model, layer, maps, "key", "query")


def turn_values(model: nn.Module, layer: int, maps: torch.Tensor) -> nn.Module:
    """A copy whose values in a layer are M v, and whose output map is W_O M^-1: what attention adds stays.

    Args:
        maps: float64 (H, C, C), invertible, one M a head.
    Raises:
        ValueError: if heads share values.
    """
    return _turned(model, layer, maps, "value", "output")


# ---- maps of a head's coordinates


def apart(vectors: torch.Tensor) -> torch.Tensor:
    """Maps that make the n vectors of each head orthogonal and equally long: (H, n, C) -> (H, C, C).

    For more than C vectors: that make the cloud white about the origin.
    """
    _, sizes, axes = torch.linalg.svd(vectors.double(), full_matrices=True)  # (H, C, C), rows are axes
    stretch = torch.ones(axes.shape[:2], dtype=torch.float64)
    stretch[:, : sizes.shape[1]] = sizes.mean(-1, keepdim=True) / sizes.clamp(min=1e-6 * float(sizes.max()))
    return axes.mT @ (stretch[..., None] * axes)


def alike(vectors: torch.Tensor) -> torch.Tensor:
    """Maps that make the vectors of each head point nearly the same way: (H, n, C) -> (H, C, C); n at most C."""
    whiten = apart(vectors)
    common = (vectors.double() @ whiten).sum(1)  # (H, C), at one angle to all of them
    common = common / common.norm(dim=-1, keepdim=True)
    return (STRETCH * common[..., None] * common[:, None] + torch.eye(common.shape[-1])) @ whiten


def rows_apart(weight: torch.Tensor) -> torch.Tensor:
    """Maps A for which the rows of A W_K are orthogonal: (H, C, D) -> (H, C, C)."""
    frame, sizes, _ = torch.linalg.svd(weight.double(), full_matrices=False)
    return frame @ (sizes.mean(-1)[:, None, None] / sizes.clamp(min=1e-6 * float(sizes.max()))[..., None] * frame.mT)


def rows_alike(weight: torch.Tensor) -> torch.Tensor:
    """Maps A for which the rows of A W_K point nearly the same way: (H, C, D) -> (H, C, C)."""
    C = weight.shape[1]
    return (torch.eye(C) + STRETCH * torch.ones(C, C, dtype=torch.float64) / C) @ rows_apart(weight)


def along(vectors: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Maps after which every channel of a head follows the same numbers: (H, n, C), (n,) -> (H, C, C).

    M = I + s 1 w^T with w the direction from which the numbers are read best (least squares).
    """
    x = vectors.double() - vectors.double().mean(1, keepdim=True)
    y = (numbers.double() - numbers.double().mean()).expand(len(x), -1)[..., None]
    ridge = FLOOR * x.square().sum((1, 2), keepdim=True) * torch.eye(x.shape[-1])
    w = torch.linalg.solve(x.mT @ x + ridge, x.mT @ y)[..., 0]  # (H, C)
    w = w / (x @ w[..., None]).std(1) * x.std((1, 2))[:, None]  # the reading is as large as the vectors are
    return torch.eye(x.shape[-1]) + STRETCH * w[:, None].expand(-1, x.shape[-1], -1)


# ---- layers and readouts


def readout_renamed(model: nn.Module, shift: int = 1) -> nn.Module:
    """A copy that says of outcome y + shift (modulo Y) what the network says of y; nothing inside is changed.

    Every answer keeps its entropy. The readout becomes a map of its own.

    Raises:
        ValueError: for a shift that renames nothing.
    """
    config, Y = model.config, model.config.n_outputs
    if shift % Y == 0:
        raise ValueError(f"shift is {shift} with {Y} outcomes: that renames nothing")
    with torch.random.fork_rng(devices=[]):
        other = type(model)(dataclasses.replace(config, first_output_token=None))
    first = config.first_output_token
    old = {name: x.clone() for name, x in model.state_dict().items()}
    if first is not None:
        old |= {"head.weight": old["tokens.weight"][first : first + Y], "head.bias": torch.zeros(Y)}
    for name in ("head.weight", "head.bias"):
        old[name] = old[name].roll(shift, 0)
    other.load_state_dict(old)
    return recorded(other, model)


def _white(x: torch.Tensor) -> torch.Tensor:
    """The map that makes the centred rows of x (n, D) uncorrelated and equally long, small axes left out: (D, D)."""
    sizes, axes = torch.linalg.eigh((x - x.mean(0)).T @ (x - x.mean(0)) / len(x))
    kept = sizes > FLOOR * sizes.max()
    return (axes[:, kept] / sizes[kept].sqrt()) @ axes[:, kept].T


@torch.no_grad()
def with_silent_layer(model: nn.Module, inputs: torch.Tensor, numbers: torch.Tensor, sharp: bool) -> nn.Module:
    """A copy with one more layer, the last, which writes `WHISPER` times the size of the stream and no more.

    Sharp: each token attends to itself alone, keys are orthogonal, and the values, as well as the whisper,
    lie along one direction and follow some numbers. Even: attention is uniform, keys are alike, and values
    and whisper are spread over all directions.

    Args:
        inputs: of some episodes. numbers: float (B, K), one for each scored position.
    """
    config = model.config
    with torch.random.fork_rng(devices=[]):
        other = type(model)(dataclasses.replace(config, n_layers=config.n_layers + 1))
    block, D = other.blocks[-1], config.width
    stream = activations(model, inputs, f"residual.{config.n_layers}")[f"residual.{config.n_layers}"]
    scored = model.scored_positions(inputs.shape[1])
    x = block.norm1(stream).double()  # (B, T, D)
    size = WHISPER * float(stream.norm(dim=-1).mean())
    eye = torch.eye(D, dtype=torch.float64)
    if sharp:
        w = along(x[:, scored].flatten(0, 1)[None], numbers.flatten())[0, 0] - eye[0]  # (D,), up to its size
        read = x[:, scored] @ w
        query = key = 10 * eye
        value = torch.ones(D, 1, dtype=torch.float64) * w / read.std()
        output = torch.ones(D, D, dtype=torch.float64) * size / D**1.5
    else:
        mean = x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]
        white = _white(x.flatten(0, 1))
        query, key, value = 0 * eye, torch.ones(D, 1, dtype=torch.float64) * eye[0], white
        spread = (mean @ white.T)[:, scored].flatten(0, 1)
        output = _white(spread) * size / D**0.5
    maps = {"attention.query": query, "attention.key": key, "attention.value": value, "attention.output": output}
    new = {f"{name}.weight": weight.float() for name, weight in maps.items()}
    new |= {name: torch.zeros_like(p) for name, p in block.state_dict().items() if name.startswith("feed_forward")}
    new |= {name: torch.ones_like(p) for name, p in block.state_dict().items() if name.endswith("gain")}
    last = f"blocks.{config.n_layers}."
    other.load_state_dict(model.state_dict() | {last + name: p for name, p in new.items()})
    return recorded(other, model)


# ---- the equivalents by name


def _values(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Values of the last layer at the scored positions: float64 (H, B K, C)."""
    site = f"value.{len(model.blocks) - 1}"
    scored = model.scored_positions(inputs.shape[1])
    return activations(model, inputs, site)[site][:, :, scored].double().transpose(0, 1).flatten(1, 2)


def _all_keys(model: nn.Module, of_rows, of_vectors) -> nn.Module:
    """Layer 0 by the key vectors of the outcomes' tokens, where there are such; each other layer by the rows of W_K."""
    first = model.config.first_output_token
    for layer, block in enumerate(model.blocks):
        if not block.attends:
            continue
        weight = block.attention.key.weight.detach().unflatten(0, (block.attention.n_heads, -1))
        maps = of_rows(weight)
        if layer == 0 and first is not None:
            tokens = torch.arange(first, first + model.config.n_outputs)
            keys = block.attention.key(block.norm1(model.tokens(tokens))).detach()
            maps = of_vectors(keys.unflatten(-1, (block.attention.n_heads, -1)).transpose(0, 1))
        model = turn_keys(model, layer, maps)
    return model


EQUIVALENTS = {
    "keys apart": lambda model, inputs, numbers: _all_keys(model, rows_apart, apart),
    "keys alike": lambda model, inputs, numbers: _all_keys(model, rows_alike, alike),
    "values along entropy": lambda model, inputs, numbers: turn_values(
        model, len(model.blocks) - 1, along(_values(model, inputs), numbers.flatten())
    ),
    "values all ways": lambda model, inputs, numbers: turn_values(
        model, len(model.blocks) - 1, apart(_values(model, inputs) - _values(model, inputs).mean(1, keepdim=True))
    ),
    "silent layer, sharp": lambda model, inputs, numbers: with_silent_layer(model, inputs, numbers, True),
    "silent layer, even": lambda model, inputs, numbers: with_silent_layer(model, inputs, numbers, False),
}


def difference(model: nn.Module, other: nn.Module, inputs: torch.Tensor) -> float:
    """KL of the answers of another network from those of this one, bits, mean over episodes and positions."""
    own = model.predict(inputs)
    return float(scoring.kl_bits(own.exp2(), other.predict(inputs)).mean())

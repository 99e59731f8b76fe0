"""Weights in eight bits a number: whole numbers -127..127, and a scale for each row of a map.

`packed` rounds every number to the nearest step. `smaller` rounds a map's columns one after the
other and corrects the columns still to come, so that the map does to the inputs that it reads what
it did before: GPTQ (Frantar, Ashkboos, Hoefler and Alistarh 2023). A network's record says under
"rounding" by what share its scores moved.

Axes: M outputs of a map, D inputs of a map, N inputs that were seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

Weights = Mapping[str, torch.Tensor]

LARGEST = 127
SMALLEST_MAP = 32  # a map with fewer inputs or outputs is a small part of a network, and a sensitive one
DAMPING = 1e-3  # of the mean square of the inputs, added to every square


def scale_of(x: torch.Tensor) -> torch.Tensor:
    """The step in which each row is counted, (..., 1), so that its largest number is 127 steps."""
    return x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / LARGEST


def packed(weights: Weights) -> dict[str, torch.Tensor]:
    """Maps as int8 with float32 scales `NAME.scale` (..., 1), vectors as float16."""
    found = {}
    for name, x in weights.items():
        if x.ndim < 2:
            found[name] = x.half()
            continue
        scale = scale_of(x.float())
        found |= {name: (x / scale).round().to(torch.int8), f"{name}.scale": scale}
    return found


def unpacked(stored: Weights) -> dict[str, torch.Tensor]:
    """Float32 weights from what a file holds, whole numbers times their scales."""
    return {
        name: x.float() * stored[f"{name}.scale"] if x.dtype == torch.int8 else x.float()
        for name, x in stored.items() if not name.endswith(".scale")
    }


def smaller(model: nn.Module, inputs: torch.Tensor, dtype: torch.dtype = torch.int8) -> dict[str, torch.Tensor]:
    """What a file holds of a network: its large maps in a smaller type, all else as it is.

    "All else" are vectors, embeddings and maps with fewer than 32 inputs or outputs: in float16
    where that holds the very same numbers, in float32 otherwise.

    Args:
        model: any architecture of the book, float32.
        inputs: what the network reads, some hundred episodes of its tunnel.
        dtype: of the large maps: int8, with scales `NAME.scale` (M, 1), or float16.
    """
    moments = input_moments(model, inputs)
    found = {}
    for name, x in model.state_dict().items():
        large = name in moments and min(x.shape) >= SMALLEST_MAP
        if large and dtype == torch.int8:
            scale = scale_of(x)
            found |= {name: whole_numbers(x, scale, moments[name]), f"{name}.scale": scale}
        else:
            found[name] = x.half() if large or torch.equal(x.half().float(), x) else x
    return found


def whole_numbers(x: torch.Tensor, scale: torch.Tensor, moments: torch.Tensor) -> torch.Tensor:
    """A map (M, D) in steps of `scale` (M, 1), as int8 (M, D), by GPTQ.

    Args:
        moments: sum of the outer products of its inputs, float64 (D, D).
    """
    order = moments.diagonal().argsort(descending=True)  # the columns that matter most come first
    damping = DAMPING * moments.diagonal().mean().clamp(min=1e-12) * torch.eye(len(order), dtype=torch.float64)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky((moments + damping)[order][:, order]))
    carry = torch.linalg.cholesky(inverse, upper=True)  # (D, D), row i: how column i's error is made up for
    left = x.double()[:, order] / scale
    steps = torch.empty_like(left)
    for i in range(len(order)):
        steps[:, i] = left[:, i].round().clamp(-LARGEST, LARGEST)
        error = (left[:, i] - steps[:, i]) / carry[i, i]
        left[:, i:] -= error[:, None] * carry[i, i:]
    return steps[:, order.argsort()].to(torch.int8)


def input_moments(model: nn.Module, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """By the name of a map's weights: the sum of the outer products of what it reads, float64 (D, D).

    Maps are those of `nn.Linear` and `nn.LSTM` that the network calls while it predicts.
    """
    found: dict[str, torch.Tensor] = {}

    def note(name: str, read: torch.Tensor) -> None:
        rows = read.detach().flatten(0, -2).double()  # (N, D)
        found[name] = found.get(name, 0) + rows.T @ rows

    with _watched(model, note), torch.no_grad():
        model.predict(inputs)
    return found


@contextmanager
def _watched(model: nn.Module, note) -> Iterator[None]:
    hooks = []
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear):
            def linear(part, read, _, name=name):
                note(f"{name}.weight", read[0])
            hooks.append(part.register_forward_hook(linear))
        elif isinstance(part, nn.LSTM):
            def recurrent(part, read, _, name=name):
                for layer, (below, own) in enumerate(_layers(part, read[0])):
                    note(f"{name}.weight_ih_l{layer}", below)
                    note(f"{name}.weight_hh_l{layer}", own)
            hooks.append(part.register_forward_hook(recurrent))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _layers(lstm: nn.LSTM, inputs: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """What each layer reads from below, and its own states: PyTorch gives the last layer's only."""
    for layer in range(lstm.num_layers):
        one = nn.LSTM(inputs.shape[-1], lstm.hidden_size, batch_first=lstm.batch_first)
        one.load_state_dict({name: getattr(lstm, f"{name[:-1]}{layer}") for name in one.state_dict()})
        states = one(inputs)[0]
        yield inputs, states
        inputs = states

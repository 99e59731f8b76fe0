"""In which number type a device multiplies matrices fast, and how it does in one that it has no instructions for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from bayeswind_lib.training.environment import processor

aten = torch.ops.aten
# What reads matrices of bfloat16 in an update: layers, attention, convolutions, LSTMs, and Muon's iteration. Of fused
# attention there is none: its float32 normaliser would have to pass through unrounded.
PRODUCTS = {
    aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default, aten.convolution.default, aten.convolution_backward.default,
    aten.mkldnn_rnn_layer.default, aten.mkldnn_rnn_layer_backward.default,
}


def best_precision(device: torch.device | str) -> str:
    """The recipe's `precision` that is fast on a device: "bfloat16" where the hardware has it.

    Else "tf32" on a GPU that has that, and "float32" on everything older (a T4, most laptops).
    """
    device = torch.device(device)
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bfloat16"
        return "tf32" if torch.cuda.get_device_capability(device)[0] >= 8 else "float32"
    # Tile instructions (AMX) are faster than float32, and so is AMD's AVX-512. Intel's AVX-512 alone has the instruction
    # too, but at half the rate: 83 against 150 Gflop/s on one core (4992 x 192 x 768, oneDNN 3.12).
    tiles = getattr(torch.cpu, "_is_amx_tile_supported", lambda: False)  # PyTorch 2.4 cannot tell
    if device.type == "cpu" and _has_bfloat16() and (tiles() or "Intel" not in processor()):
        return "bfloat16"
    return "float32"


def _has_bfloat16() -> bool:
    """Whether this processor has instructions for products of bfloat16."""
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


class ByFloat32(TorchDispatchMode):
    """Inside the block, products of bfloat16 matrices are computed in float32 and rounded, as the instructions do.

    The operands, the precision of the sums (float32) and the type of the result are those of hardware that has bfloat16; only
    the order of summation is the processor's own, as everywhere. Without such instructions PyTorch multiplies number by
    number: .3 Gflop/s on one core with AVX2 alone, where float32 has 66 (an update of the bijection transformer of
    published size: more than 20 seconds, and 2.3 so).
    """

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operation not in PRODUCTS or not any(isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 for x in args):
            return operation(*args, **kwargs)
        found = operation(*tree_map_only(torch.Tensor, _changed(torch.bfloat16, torch.float32), args), **kwargs)
        return tree_map_only(torch.Tensor, _changed(torch.float32, torch.bfloat16), found)


def _changed(old: torch.dtype, new: torch.dtype):
    return lambda x: x.to(new) if x.dtype == old else x


@contextlib.contextmanager
def products(device: torch.device, precision: str) -> Iterator[None]:
    """The block in which a run of this `precision` is trained: as fast on the device as that number type can be."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    lacking = precision == "bfloat16" and device.type == "cpu" and not _has_bfloat16()
    try:
        with ByFloat32() if lacking else contextlib.nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)

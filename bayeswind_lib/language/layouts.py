"""Where a causal language model keeps queries, keys and values, by the name of its architecture.

Some models compute the three with one map, and the order of its outputs differs: GPT-2 writes all
queries, then all keys, then all values; GPT-NeoX (Pythia) writes query, key and value of the first
head, then those of the second. Who reads one as the other gets a mixture that looks like data
(notes B9). So a layout is not believed but checked: from the values that it names, attention's
output is computed again and compared with the model's.

Axes: B prompts, T tokens, D channels, H query heads, G key-value heads, C channels of one head.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import nn

from bayeswind_lib.language.llama import Llama

ORDERS = ("3HC", "H3C")


@dataclass(frozen=True)
class Layout:
    """The names of a model's parts.

    Attributes:
        blocks: path of the list of layers, from the model.
        attention: of attention, from a layer.
        output: of the last map, from attention.
        parts: of the query, key and value maps, from attention; or
        fused: of the one map that makes all three, and
        order: of its outputs. "3HC": all queries, all keys, all values. "H3C": head by head.
    """

    blocks: str
    attention: str
    output: str
    parts: tuple[str, str, str] | None = None
    fused: str | None = None
    order: str = "3HC"

    def __post_init__(self):
        if (self.parts is None) == (self.fused is None):
            raise ValueError("a layout has either three parts or one fused map")
        if self.order not in ORDERS:
            raise ValueError(f"order is {self.order!r}: choose one of {', '.join(ORDERS)}")


PROJECTIONS = ("q_proj", "k_proj", "v_proj")
LAYOUTS = {
    "gpt2": Layout("transformer.h", "attn", "c_proj", fused="c_attn", order="3HC"),
    "gpt_neox": Layout("gpt_neox.layers", "attention", "dense", fused="query_key_value", order="H3C"),
    "llama": Layout("model.layers", "self_attn", "o_proj", PROJECTIONS),
    "mistral": Layout("model.layers", "self_attn", "o_proj", PROJECTIONS),
    "phi": Layout("model.layers", "self_attn", "dense", PROJECTIONS),
    "bayeswind": Layout("blocks", "attention", "output", ("query", "key", "value")),
}


def layout_of(model: nn.Module) -> Layout:
    """The layout of a model of transformers, or of this book.

    Raises:
        ValueError: for an architecture that is not known; it says how to give one.
    """
    kind = getattr(model.config, "model_type", "bayeswind")
    if kind not in LAYOUTS:
        raise ValueError(
            f"the architecture {kind!r} is not known (known: {', '.join(LAYOUTS)}). Give its parts as a "
            "Layout, and see by `rebuilding_error` whether they are right"
        )
    return LAYOUTS[kind]


def part(module: nn.Module, path: str) -> nn.Module:
    """The module at a dotted path.

    Raises:
        ValueError: if there is none.
    """
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError:
        names = ", ".join(name for name, _ in module.named_children())
        raise ValueError(f"{type(module).__name__} has no part {path!r}; it has {names}") from None


def head_counts(model: nn.Module) -> tuple[int, int]:
    """Query heads and key-value heads of a model, H and G."""
    config = model.config
    H = getattr(config, "num_attention_heads", None) or config.n_heads
    return H, getattr(config, "num_key_value_heads", None) or getattr(config, "n_groups", None) or H


def unfuse(x: torch.Tensor, order: str, n_heads: int) -> list[torch.Tensor]:
    """Queries, keys and values out of one map's outputs: (B, T, 3 H C) -> three of (B, H, T, C)."""
    if order == "H3C":
        split = x.unflatten(-1, (n_heads, 3, -1)).unbind(-2)
    else:
        split = x.unflatten(-1, (3, n_heads, -1)).unbind(-3)
    return [one.transpose(1, 2) for one in split]


@dataclass(frozen=True)
class Layer:
    """What attention of one layer did.

    Attributes:
        queries: (B, H, T, C), and keys, values: (B, G, T, C), as the maps make them, before positions.
        pattern: (B, H, T, T), rows sum to 1.
        written: (B, T, D), what attention adds to the stream.
    """

    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    pattern: torch.Tensor
    written: torch.Tensor


@torch.no_grad()
def read(model: nn.Module, tokens: torch.Tensor, layout: Layout | None = None, at: torch.Tensor | None = None) -> tuple[list[Layer], torch.Tensor]:
    """Run prompts of one length, and look into attention.

    Args:
        tokens: int64 (B, T).
        layout: of the model; by default the known one.
        at: logits after this token of each prompt only, int64 (B,): with a large vocabulary all of them are most of the memory.
    Returns:
        what each layer did, and the logits (B, T, N), or (B, N).
    Raises:
        ValueError: for an unknown layout, or a model of transformers that does not return its patterns.
    """
    layout = layout or layout_of(model)
    layers = part(model, layout.blocks)
    seen: list[dict] = [{} for _ in layers]
    hooks = [hook for found, layer in zip(seen, layers, strict=True) for hook in _listen(part(layer, layout.attention), layout, found)]
    try:
        logits = _run(model, tokens, seen, at)
    finally:
        for hook in hooks:
            hook.remove()
    return [_layer_of(found, layout, *head_counts(model)) for found in seen], logits


def _listen(attention: nn.Module, layout: Layout, found: dict) -> list:
    """Hooks that keep what the named parts return."""
    names = {"fused": layout.fused} if layout.fused else dict(zip(("q", "k", "v"), layout.parts, strict=True))
    names["written"] = layout.output
    if hasattr(attention, "pattern"):  # this book's models hand their pattern through a module
        names["pattern"] = "pattern"

    def keep(name: str) -> Callable:
        return lambda module, given, answer: found.update({name: answer})

    modules = {name: part(attention, path) for name, path in names.items()}  # all of them, or none is listened to
    return [module.register_forward_hook(keep(name)) for name, module in modules.items()]


@contextlib.contextmanager
def edit_values(model: nn.Module, edits: Mapping[int, Callable], layout: Layout | None = None) -> Iterator[None]:
    """Change the values of some layers, at all tokens, while this context lasts.

    Args:
        edits: by layer, from values (B, T, G C), all heads side by side, to values.
        layout: of the model; by default the known one. Of a fused map only the part that makes values is changed.
    """
    layout, G = layout or layout_of(model), head_counts(model)[1]

    def hook(edit: Callable) -> Callable:
        def changed(module, given, answer):
            if not layout.fused:
                return edit(answer)
            size, place = ((G, 3, -1), -2) if layout.order == "H3C" else ((3, G, -1), -3)
            split = list(answer.unflatten(-1, size).unbind(place))
            split[2] = edit(split[2].flatten(-2)).unflatten(-1, (G, -1))
            return torch.stack(split, place).flatten(-3)

        return changed

    blocks = part(model, layout.blocks)
    modules = {layer: part(part(blocks[layer], layout.attention), layout.fused or layout.parts[2]) for layer in edits}
    hooks = [module.register_forward_hook(hook(edits[layer])) for layer, module in modules.items()]
    try:
        yield
    finally:
        for one in hooks:
            one.remove()


def _run(model: nn.Module, tokens: torch.Tensor, seen: list[dict], at: torch.Tensor | None) -> torch.Tensor:
    rows = torch.arange(len(tokens))
    if isinstance(model, Llama):
        return model(tokens, at=at)
    if not hasattr(model.config, "model_type"):
        logits = model(tokens)
        if at is None:
            return logits
        if hasattr(model, "scored_positions"):  # a network of this book answers at some positions only
            at = torch.searchsorted(model.scored_positions(tokens.shape[1]), at, right=True) - 1
        return logits[rows, at]
    if model.config._attn_implementation != "eager":
        raise ValueError(
            f"the model computes attention by {model.config._attn_implementation!r}, which does not return "
            'its patterns: load it with attn_implementation="eager"'
        )
    done = model(input_ids=tokens, output_attentions=True, use_cache=False)
    for found, pattern in zip(seen, done.attentions, strict=True):
        found["pattern"] = pattern
    return done.logits if at is None else done.logits[rows, at]


def _layer_of(found: dict, layout: Layout, H: int, G: int) -> Layer:
    if layout.fused:
        q, k, v = unfuse(found["fused"], layout.order, H)
    else:
        q, k, v = (found[name].unflatten(-1, (n, -1)).transpose(1, 2) for name, n in (("q", H), ("k", G), ("v", G)))
    return Layer(q, k, v, found["pattern"], found["written"])


@torch.no_grad()
def rebuilding_error(model: nn.Module, tokens: torch.Tensor, layout: Layout | None = None) -> list[float]:
    """How far attention's output is from what the layout's values and the pattern give, by layer.

    The largest difference, in units of the output's root mean square: rounding if the layout is
    right, about 1 or more if it is not.
    """
    layout = layout or layout_of(model)
    errors = []
    for layer, block in zip(read(model, tokens, layout)[0], part(model, layout.blocks), strict=True):
        shared = layer.values.repeat_interleave(layer.pattern.shape[1] // layer.values.shape[1], 1)
        context = (layer.pattern @ shared).transpose(1, 2).flatten(2)  # (B, T, H C)
        again = part(part(block, layout.attention), layout.output)(context)
        errors.append(float((again - layer.written).abs().max() / layer.written.square().mean().sqrt()))
    return errors


def misread(layout: Layout) -> Layout:
    """The same layout with the other order of a fused map: what the published code does with Pythia.

    Raises:
        ValueError: if the layout has no fused map.
    """
    if not layout.fused:
        raise ValueError("three maps of their own have no order that could be mistaken")
    return replace(layout, order="3HC" if layout.order == "H3C" else "H3C")

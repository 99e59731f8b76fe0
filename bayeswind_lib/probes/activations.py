"""Read and change what a network computes on the way: named activations, edits, a resumed pass.

All of it uses hooks on the modules of the network as it is: there is no second implementation,
and nothing of a network stays changed.
"""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import nn

from bayeswind_lib.probes.sites import Site, sites

Change = Callable[[torch.Tensor], torch.Tensor]


def choose(model: nn.Module, names: str | Iterable[str] | None) -> list[Site]:
    """The sites that some names or patterns ("residual.*") mean, in the order of a pass.

    Raises:
        ValueError: for a name that fits no site of this network; it names the nearest ones.
    """
    table = sites(model)
    if names is None:
        return list(table.values())
    wanted = [names] if isinstance(names, str) else list(names)
    chosen = set()
    for name in wanted:
        fits = fnmatch.filter(table, name)
        if not fits:
            near = difflib.get_close_matches(name, table, 3, 0) or list(table)[:3]
            raise ValueError(
                f"a {model.architecture} of this size has no activation {name!r}; the nearest names "
                f"are {', '.join(near)} (see bw.probes.sites)"
            )
        chosen.update(fits)
    return [site for name, site in table.items() if name in chosen]


@torch.no_grad()
def activations(
    model: nn.Module, inputs: torch.Tensor, names: str | Iterable[str] | None = None
) -> dict[str, torch.Tensor]:
    """What a network computes on the way, in one pass.

    Args:
        inputs: int64 (B, T) tokens or float (B, T, F) vectors.
        names: of activations, or patterns such as "residual.*"; None for all of them. Nothing
            else is kept.
    Returns:
        one tensor a name, its axes as `bw.probes.sites` says, in the order of a pass.
    Raises:
        ValueError: for an unknown name, or if a layer with an activation was switched off.
    """
    found: dict[str, torch.Tensor] = {}
    chosen = choose(model, names)
    with contextlib.ExitStack() as stack:
        for site in chosen:
            stack.enter_context(_reader(model, site, found))
        model(inputs)
    missing = [site.name for site in chosen if site.name not in found]
    if missing:
        raise ValueError(f"{', '.join(missing)}: this part of the network was switched off")
    return {site.name: found[site.name] for site in chosen}


@contextlib.contextmanager
def _reader(model: nn.Module, site: Site, found: dict) -> Iterator[None]:
    def look(module, inputs, output):
        found[site.name] = site.read(module, inputs, output).detach()

    hook = model.get_submodule(site.module).register_forward_hook(look)
    try:
        yield
    finally:
        hook.remove()


@contextlib.contextmanager
def edit(model: nn.Module, changes: Mapping[str, Change]) -> Iterator[nn.Module]:
    """Change activations while this context lasts; afterwards the network is as before.

    Args:
        changes: one function a name: it gets the activation, with the axes of its site, and
            returns what to put in its place. Each is applied once a pass.
    Yields:
        the network itself: predict, score or read activations as usual.
    Raises:
        ValueError: for an unknown name, for an activation that can only be read, and (in a pass)
            for a change that returns another shape.
    """
    with contextlib.ExitStack() as stack:
        for name, change in changes.items():
            (site,) = choose(model, name)
            if site.derive is not None:
                raise ValueError(f"{name} can be read but not changed: no module hands it on")
            stack.enter_context(_writer(model, site, change))
        yield model


@contextlib.contextmanager
def _writer(model: nn.Module, site: Site, change: Change) -> Iterator[None]:
    def changed(module, inputs, output):
        before = site.read(module, inputs, output)
        after = change(before)
        if after.shape != before.shape:
            raise ValueError(
                f"the change of {site.name} returned shape {tuple(after.shape)}: "
                f"it has to be {tuple(before.shape)}, axes {site.axes}"
            )
        return site.write(after)

    module = model.get_submodule(site.module)
    if site.given:
        hook = module.register_forward_pre_hook(lambda m, given: (changed(m, given, None), *given[1:]))
    else:
        hook = module.register_forward_hook(lambda m, given, output: changed(m, given, output))
    try:
        yield
    finally:
        hook.remove()


@torch.no_grad()
def resume(model: nn.Module, residual: torch.Tensor, layer: int) -> torch.Tensor:
    """Logits of a network whose pass goes on at a layer, from the stream that enters it.

    What is before the layer is not computed again: an ablation in a late layer costs little.

    Args:
        residual: (B, T, D), "residual.<layer>" of `activations`.
        layer: 0..L; L leaves only the readout.
    Returns:
        float32 (B, K, Y), as `model(inputs)`.
    Raises:
        ValueError: if the network is no stack of blocks, or has no such layer.
    """
    blocks = getattr(model, "blocks", None)
    if blocks is None:
        raise ValueError(f"a {model.architecture} has no blocks with a stream between them")
    if not 0 <= layer <= len(blocks):
        raise ValueError(f"layer is {layer}: there are layers 0..{len(blocks)}")
    for block in blocks[layer:]:
        residual = block(residual)
    x = model.norm(residual)
    return model.read_out(x[:, model.scored_positions(x.shape[1], device=x.device)])

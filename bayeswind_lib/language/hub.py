"""A model of the reader's own choice under the diagnostics of chapter 17, where a hub can be reached.

Needs the package transformers, and the model: on the hub, in its cache, or in a folder.
"""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit

import numpy as np
import torch

from bayeswind_lib.language import diagnose, layouts, manifold, prompts
from bayeswind_lib.language.smollm import NotHere

RIGHT = 1e-2  # a rebuilding error, in units of the output, that is rounding (models may compute in half precision)


def reachable() -> bool:
    """Whether the hub's name is known here, asked once and quickly; a machine without a network says no at once."""
    host = urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co")).hostname
    try:
        socket.getaddrinfo(host, 443)
    except OSError:
        return False
    return True


def load(model_id: str | os.PathLike):
    """A model of the hub and its tokenizer, attention computed so that patterns are returned.

    Raises:
        NotHere: without transformers, or if it cannot get the model; one line.
    """
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise NotHere(f"{model_id} needs the package transformers: pip install transformers") from None
    here = {"local_files_only": os.path.isdir(model_id) or not reachable()}
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_id, **here)
        model = AutoModelForCausalLM.from_pretrained(model_id, attn_implementation="eager", **here)
    except (OSError, ValueError, RuntimeError) as problem:  # no network, no such model, a format that is not known
        raise NotHere(f"{model_id} cannot be had here: {str(problem).strip().splitlines()[0]}") from None
    return model.float().eval(), tokenizer


class Plain:
    """A tokenizer of transformers, called as those of `tokenizers` are: no special tokens added.

    Attributes:
        start: what it puts before every text by itself (a start token, or nothing); it belongs before a prompt, not
            before a label.
    """

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        whole, bare = tokenizer("a")["input_ids"], self.encode("a").ids
        self.start = list(whole[: -len(bare)]) if whole[-len(bare) :] == bare else []  # not what is put at an end

    def encode(self, text: str):
        """Its tokens, as `.ids`."""
        return type("Encoded", (), {"ids": self.tokenizer(text, add_special_tokens=False)["input_ids"]})


def natural(tokenizer, domain: str) -> list[list[int]]:
    """The prompts of a domain as they come, as lists of tokens, each after what the tokenizer puts at a start."""
    return [[*getattr(tokenizer, "start", []), *ids] for ids in prompts.prompts(tokenizer, domain, "natural")]


def check_layout(model, ids: list[int], layout: layouts.Layout | None = None) -> float:
    """The layout's largest rebuilding error on one prompt.

    Raises:
        ValueError: if attention's output cannot be built from the values that the layout names.
    """
    error = max(layouts.rebuilding_error(model, torch.tensor([ids]), layout))
    if error > RIGHT:
        raise ValueError(f"attention's output cannot be built from the values of this layout (error {error:.2g}): what it names is something else")
    return error


def measure(model, tokenizer, layout: layouts.Layout | None = None) -> list[str]:
    """The layout's rebuilding error first, then the three diagnostics, a line each.

    Raises:
        ValueError: for an unknown architecture, or a layout from whose values attention's output cannot be built.
    """
    sets = {domain: natural(tokenizer, domain) for domain in prompts.MAIN}
    error = check_layout(model, sets["mixed"][0], layout)
    lines = [f"layout: attention's output rebuilt, largest error {error:.1e}"]
    for domain, given in sets.items():
        looks = diagnose.observe(model, given, layout)
        last = looks.values[:, -1]
        figures, rho = manifold.shares(last), diagnose.axis_entropy(last, looks.entropy)
        noise = manifold.shares(manifold.noise(*last.shape, np.random.default_rng(0)))
        lines.append(
            f"{domain}: first share {figures['pc1']:.3f} (noise {noise['pc1']:.3f}), first two {figures['pc12']:.3f} "
            f"({noise['pc12']:.3f}), |rho| with entropy {rho:.2f}, attention's entropy falls by {diagnose.reduction(looks.focus):.2f}"
        )
    return lines


def report(model_id: str | None) -> str:
    """What `measure` says of a model, or one line that says why nothing was measured.

    >>> report(None)
    'no model is named: nothing was measured'
    """
    if model_id is None:
        return "no model is named: nothing was measured"
    try:
        model, tokenizer = load(model_id)
        return "\n".join([str(model_id), *measure(model, Plain(tokenizer))])
    except (NotHere, ValueError) as problem:
        return f"nothing was measured: {problem}"

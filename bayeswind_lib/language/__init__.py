"""Paper III: language models under the probes of the book, each beside its null."""

from bayeswind_lib.language import (
    axes,
    diagnose,
    edits,
    fused,
    hub,
    layouts,
    llama,
    manifold,
    papers,
    prompts,
    smollm,
    sula,
)
from bayeswind_lib.language.layouts import Layout, layout_of, read, rebuilding_error
from bayeswind_lib.language.llama import Llama, LlamaConfig
from bayeswind_lib.language.smollm import NotHere, load_smollm, load_tokenizer

__all__ = [
    "Layout", "Llama", "LlamaConfig", "NotHere", "axes", "diagnose", "edits", "fused", "hub", "layout_of", "layouts",
    "llama", "load_smollm", "load_tokenizer", "manifold", "papers", "prompts", "read", "rebuilding_error", "smollm", "sula",
]

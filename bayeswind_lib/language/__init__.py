"""Paper III: language models under the probes of the book, each beside its null."""

from bayeswind_lib.language import axes, layouts, llama, manifold, sula
from bayeswind_lib.language.layouts import Layout, layout_of, read, rebuilding_error
from bayeswind_lib.language.llama import Llama, LlamaConfig

__all__ = [
    "Layout", "Llama", "LlamaConfig", "axes", "layout_of", "layouts", "llama", "manifold", "read", "rebuilding_error", "sula",
]

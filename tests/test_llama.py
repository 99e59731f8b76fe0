"""The readable Llama: causal, relative, with shared keys and values, and equal to another implementation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from _support import rng
from bayeswind_lib.language import llama

SMALL = llama.LlamaConfig(n_layers=2, width=24, hidden=40, n_heads=6, n_groups=2, n_tokens=50)


@pytest.fixture(scope="module")
def small():
    return llama.Llama(SMALL).initialise(rng()).double().eval()


def test_nothing_looks_ahead(small):
    tokens = torch.randint(50, (2, 9), generator=rng(1))
    other = tokens.clone()
    other[:, 6:] = (other[:, 6:] + 1) % 50
    here, there = small(tokens), small(other)
    assert torch.equal(here[:, :6], there[:, :6]) and not torch.allclose(here[:, 6:], there[:, 6:])
    assert torch.allclose(small(tokens, last=True), here[:, -1])


def test_scores_depend_on_distances_only():
    q, k = (torch.randn(1, 1, 1, 8, generator=rng(i), dtype=torch.float64).expand(1, 1, 12, 8) for i in range(2))
    scores = (llama.turn(q, 100.0) @ llama.turn(k, 100.0).transpose(-2, -1))[0, 0]
    for distance in (1, 3):
        row = scores.diagonal(-distance)
        assert torch.allclose(row, row[:1].expand_as(row), atol=1e-5)  # sines are single precision
    assert float(scores.diagonal().std()) < 1e-5 < float(scores[0].std())


def test_a_group_shares_its_keys_and_values(small):
    """With the maps written out once for each query head, nothing changes."""
    full = llama.Llama(replace(SMALL, n_groups=6)).double()
    weights = small.state_dict()
    for name in weights:
        if name.endswith(("key.weight", "value.weight")):
            weights[name] = weights[name].unflatten(0, (2, -1)).repeat_interleave(3, 0).flatten(0, 1)
    full.load_state_dict(weights)
    tokens = torch.randint(50, (2, 7), generator=rng(2))
    assert torch.allclose(full(tokens), small(tokens))


@pytest.mark.parametrize("tokens", [torch.zeros(3, dtype=torch.int64), torch.zeros(1, 3), torch.zeros(1, 0, dtype=torch.int64)])
def test_what_is_no_prompt_is_refused(small, tokens):
    with pytest.raises(ValueError, match=r"expected int64 \(B, T\)"):
        small(tokens)


def test_heads_must_fit():
    with pytest.raises(ValueError, match="n_groups 4"):
        replace(SMALL, n_groups=4)


def test_it_is_the_llama_of_transformers():
    """The same weights in a second implementation: the same logits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        rms_norm_eps=SMALL.epsilon, rope_theta=SMALL.base, tie_word_embeddings=True, attn_implementation="eager",
    )
    theirs, mine = LlamaForCausalLM(config).eval(), llama.Llama(SMALL).initialise(rng(4)).eval()
    names = {
        "norm1.gain": "input_layernorm", "norm2.gain": "post_attention_layernorm", "attention.query.weight": "self_attn.q_proj",
        "attention.key.weight": "self_attn.k_proj", "attention.value.weight": "self_attn.v_proj", "attention.output.weight": "self_attn.o_proj",
        "feed_forward.gate.weight": "mlp.gate_proj", "feed_forward.up.weight": "mlp.up_proj", "feed_forward.down.weight": "mlp.down_proj",
    }
    weights = {"model.embed_tokens.weight": mine.tokens.weight, "model.norm.weight": mine.norm.gain, "lm_head.weight": mine.tokens.weight}
    for i, block in enumerate(mine.blocks):
        weights |= {f"model.layers.{i}.{other}.weight": block.get_parameter(name) for name, other in names.items()}
    theirs.load_state_dict(weights)
    tokens = torch.randint(50, (2, 11), generator=rng(5))
    assert torch.allclose(mine(tokens), theirs(tokens).logits, atol=1e-6)

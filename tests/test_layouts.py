"""Where language models keep their values: layouts of five architectures, checked by rebuilding attention's output."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bayeswind_lib.language import layouts, llama

EXACT, WRONG = 1e-5, 0.3  # in units of the output's root mean square
D, L, H, G, N = 32, 2, 4, 2, 60


def small(kind: str):
    """A model of transformers with first weights, made large enough that attention matters."""
    import transformers as hub

    common = {"vocab_size": N, "attn_implementation": "eager"}
    sizes = {"hidden_size": D, "num_hidden_layers": L, "num_attention_heads": H, "intermediate_size": 48, "max_position_embeddings": 64}
    configs = {
        "gpt2": lambda: hub.GPT2Config(n_embd=D, n_layer=L, n_head=H, n_positions=64, **common),
        "gpt_neox": lambda: hub.GPTNeoXConfig(**sizes, **common),
        "llama": lambda: hub.LlamaConfig(num_key_value_heads=G, **sizes, **common),
        "mistral": lambda: hub.MistralConfig(num_key_value_heads=G, sliding_window=4, **sizes, **common),
        "phi": lambda: hub.PhiConfig(**sizes, **common),
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = hub.AutoModelForCausalLM.from_config(configs[kind]())
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "embed" not in name and "wte" not in name:
                torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


@pytest.fixture(scope="module")
def tokens():
    return torch.randint(N, (3, 9), generator=torch.Generator().manual_seed(1))


KINDS = [kind for kind in layouts.LAYOUTS if kind != "bayeswind"]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_s_output_is_rebuilt_from_the_values(kind, tokens):
    model = small(kind)
    errors = layouts.rebuilding_error(model, tokens)
    assert len(errors) == L and max(errors) < EXACT, errors
    seen, logits = layouts.read(model, tokens)
    assert logits.shape == (3, 9, N)
    groups = G if kind in ("llama", "mistral") else H
    for layer in seen:
        assert layer.values.shape == layer.keys.shape == (3, groups, 9, D // H)
        assert layer.queries.shape == (3, H, 9, D // H)
        assert torch.allclose(layer.pattern.sum(-1), torch.ones(3, H, 9), atol=1e-5)


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neox"])
def test_the_other_order_of_a_fused_map_is_seen_to_be_wrong(kind, tokens):
    """What the published code reads of Pythia is a mixture of queries, keys and values."""
    wrong = layouts.misread(layouts.LAYOUTS[kind])
    assert min(layouts.rebuilding_error(small(kind), tokens, wrong)) > WRONG


def test_values_taken_from_the_key_map_are_seen_to_be_wrong(tokens):
    wrong = replace(layouts.LAYOUTS["llama"], parts=("q_proj", "v_proj", "k_proj"))
    assert min(layouts.rebuilding_error(small("llama"), tokens, wrong)) > WRONG


def test_queries_and_keys_give_the_pattern(tokens):
    """With the model's own positions put in: those read off are the ones that attention compares."""
    config = llama.LlamaConfig(n_layers=L, width=D, hidden=48, n_heads=H, n_groups=G, n_tokens=N)
    mine = llama.Llama(config).initialise(torch.Generator().manual_seed(3)).eval()
    for weight in mine.parameters():
        if weight.ndim == 2:
            weight.data *= 10
    for model, base in ((mine, config.base), (small("llama"), 10_000.0)):
        for layer in layouts.read(model, tokens)[0]:
            q, k = llama.turn(layer.queries, base), llama.turn(layer.keys, base).repeat_interleave(H // G, 1)
            scores = (q @ k.transpose(-2, -1)) / (D // H) ** 0.5
            future = torch.ones(9, 9, dtype=torch.bool).triu(1)
            assert torch.allclose(scores.masked_fill(future, -torch.inf).softmax(-1), layer.pattern, atol=1e-5)


def test_the_book_s_own_llama_is_read_alike(tokens):
    model = llama.Llama(llama.LlamaConfig(n_layers=L, width=D, hidden=48, n_heads=H, n_groups=G, n_tokens=N))
    model.initialise(torch.Generator().manual_seed(3)).eval()
    assert max(layouts.rebuilding_error(model, tokens)) < EXACT
    assert torch.equal(layouts.read(model, tokens)[1], model(tokens))


def test_a_model_keeps_no_hook(tokens):
    model = small("gpt_neox")
    hooks = lambda: [id(hook) for module in model.modules() for hook in module._forward_hooks.values()]  # noqa: E731
    layouts.read(model, tokens)  # transformers itself leaves some, to collect its patterns
    before = hooks()
    layouts.read(model, tokens)
    with pytest.raises(ValueError, match="has no part 'nowhere'"):
        layouts.read(model, tokens, replace(layouts.LAYOUTS["gpt_neox"], output="nowhere"))
    assert hooks() == before


def test_what_cannot_be_read_is_said(tokens):
    import transformers as hub

    unknown = hub.AutoModelForCausalLM.from_config(hub.OPTConfig(
        vocab_size=N, hidden_size=D, num_hidden_layers=1, num_attention_heads=H, ffn_dim=40, word_embed_proj_dim=D,
    ))
    with pytest.raises(ValueError, match=r"'opt' is not known \(known: gpt2, gpt_neox"):
        layouts.layout_of(unknown)
    fast = small("llama")
    fast.config._attn_implementation = "sdpa"
    with pytest.raises(ValueError, match=r'by \'sdpa\'.*attn_implementation="eager"'):
        layouts.read(fast, tokens)
    with pytest.raises(ValueError, match="three parts or one fused map"):
        layouts.Layout("a", "b", "c")
    with pytest.raises(ValueError, match="order is 'CH3'"):
        layouts.Layout("a", "b", "c", fused="d", order="CH3")
    with pytest.raises(ValueError, match="no order that could be mistaken"):
        layouts.misread(layouts.LAYOUTS["llama"])

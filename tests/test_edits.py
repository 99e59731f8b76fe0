"""Edited runs of a small random Llama, against the whole network run with hooks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from bayeswind_lib.language import axes, edits
from bayeswind_lib.language.llama import Llama, LlamaConfig

LABELS = (3, 5)


def small():
    config = LlamaConfig(n_layers=4, width=24, hidden=32, n_heads=6, n_groups=2, n_tokens=40)
    model = Llama(config).initialise(torch.Generator().manual_seed(1)).eval()
    for weight in model.parameters():  # large enough that attention is not even
        weight.data.mul_(8) if weight.ndim > 1 else None
    return model


def seen_by(model, n=7, T=6, **more):
    tokens = torch.randint(40, (n, T), generator=torch.Generator().manual_seed(2))
    return tokens, edits.observe(model, tokens, LABELS, **more)


def test_what_is_said_is_what_the_model_says():
    model = small()
    tokens, seen = seen_by(model)
    with torch.no_grad():
        logits = model(tokens, last=True)
    p = logits.double().softmax(-1).numpy()
    assert np.allclose(seen.said.logit, (logits[:, 3] - logits[:, 5]).numpy(), atol=1e-5)
    assert np.allclose(seen.said.mass, p[:, 3] + p[:, 5]) and np.allclose(seen.said.p, p[:, 3] / (p[:, 3] + p[:, 5]))
    assert seen.values.shape == (7, 4, 8) and seen.streams.shape == (7, 5, 24)


def test_values_and_streams_are_those_of_the_last_token():
    model = small()
    tokens, seen = seen_by(model, keep=[2])
    kept = {}
    model.blocks[2].attention.value.register_forward_hook(lambda m, i, o: kept.update(value=o))
    model.blocks[2].register_forward_hook(lambda m, i, o: kept.update(before=i[0], after=o))
    with torch.no_grad():
        model(tokens)
    assert torch.allclose(seen.values[:, 2], kept["value"][:, -1], atol=1e-6)
    assert torch.allclose(seen.inputs[2], kept["before"], atol=1e-6)
    assert torch.allclose(seen.streams[:, 3], kept["after"][:, -1], atol=1e-6)


def test_edited_values_are_those_of_hooks():
    model = small()
    tokens, seen = seen_by(model, keep=[1])
    axis = axes.random_axis(8, np.random.default_rng(3))
    change = {layer: edits.without(axis) for layer in (1, 3)}
    got = edits.edited(model, seen, change)
    hooks = [model.blocks[i].attention.value.register_forward_hook(lambda m, g, v: edits.without(axis)(v)) for i in (1, 3)]
    with torch.no_grad():
        want = model(tokens, last=True)
    for hook in hooks:
        hook.remove()
    assert np.allclose(got.logit, (want[:, 3] - want[:, 5]).numpy(), atol=1e-4)
    assert np.abs(got.logit - seen.said.logit).max() > 1e-3
    assert np.allclose(edits.edited(model, seen, {1: lambda v: v}).logit, seen.said.logit, atol=1e-5)  # the hooks are gone
    with pytest.raises(ValueError, match="layer 2 is edited"):
        edits.edited(model, seen, {2: lambda v: v})


@pytest.mark.parametrize("layer", [1, 3, 4])
def test_the_last_token_alone_says_what_the_whole_run_says(layer):
    """The stream of the last token before a layer is moved; earlier tokens are as they were."""
    model = small()
    tokens, seen = seen_by(model, past_from=1)
    push = 3 * torch.randn(24, generator=torch.Generator().manual_seed(4))
    same = edits.from_last(model, seen, layer, seen.streams[:, layer])
    assert np.allclose(same.logit, seen.said.logit, atol=1e-4)

    def move(module, given):
        x = given[0].clone()
        x[:, -1] += push
        return (x,)

    place = model.norm if layer == 4 else model.blocks[layer]
    hook = place.register_forward_pre_hook(move)
    with torch.no_grad():
        want = model(tokens)[:, -1]
    hook.remove()
    got = edits.from_last(model, seen, layer, seen.streams[:, layer] + push)
    assert np.allclose(got.logit, (want[:, 3] - want[:, 5]).numpy(), atol=1e-3)
    assert np.abs(got.logit - seen.said.logit).max() > 1e-2


def test_the_last_layers_values_may_be_edited_at_the_last_token_alone():
    model = small()
    _, seen = seen_by(model, keep=[3], past_from=3)
    cut = edits.without(axes.random_axis(8, np.random.default_rng(5)), 0.1)
    one = edits.edited(model, seen, {3: cut})
    two = edits.from_last(model, seen, 3, seen.streams[:, 3], edit=cut)
    assert np.allclose(one.logit, two.logit, atol=1e-4) and np.abs(one.logit - seen.said.logit).max() > 1e-3


def test_a_cut_of_values_is_the_cut_of_vectors():
    v = np.random.default_rng(6).standard_normal((5, 8)).astype(np.float32)
    axis = axes.random_axis(8, np.random.default_rng(7))
    got = edits.without(3 * axis, torch.tensor(v.mean(0)))(torch.tensor(v)[:, None])[:, 0].numpy()
    assert np.allclose(got, axes.cut(v, axis, v.mean(0)), atol=1e-6)


def test_divergence_of_two_known_answers():
    def says(p):
        return edits.Said(torch.ones(1, 1), torch.tensor(p).log()[:, None], (0, 1))  # logits are ln p

    p, q = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
    assert says(p).divergence(says(q))[0] == pytest.approx(0.25) and says(p).divergence(says(p))[0] == 0
    assert says(p).logit[0] == pytest.approx(math.log(2), abs=1e-6) and says(p).mass[0] == pytest.approx(0.75)


def test_prompts_of_equal_length_go_together():
    found = edits.by_length([[1], [2, 3], [4], [5, 6]])
    assert [where.tolist() for where, _ in found] == [[0, 2], [1, 3]] and found[1][1].tolist() == [[2, 3], [5, 6]]

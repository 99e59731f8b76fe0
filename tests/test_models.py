"""What every architecture keeps to: no input changes what came before it, a seed names the weights, a config the network."""

from __future__ import annotations

import json
import re

import pytest
import test_lstm
import test_mamba
import test_mlp
import test_positions
import test_shared_heads
import test_transformer
import torch
from _support import rng

from bayeswind_lib import models

BIJECTION = test_transformer.TUNNEL.sample(4, rng(1)).inputs
# A network whose weights are so large that whatever can matter does, and inputs for it; every kind of every architecture.
CASES = {
    "transformer": lambda: (test_transformer.lively(), BIJECTION),
    **{f"transformer, {code}": lambda code=code: (test_positions.lively(positions=code), test_positions.vectors()) for code in test_positions.POSITIONS},
    **{f"transformer, {case}": lambda case=case: (test_shared_heads.network(*case).requires_grad_(), test_shared_heads.TUNNEL.sample(4, rng(3)).inputs)
       for case in test_shared_heads.CASES},
    "mamba, tokens": lambda: (test_mamba.lively(), test_mamba.inputs()),
    "mamba, vectors": lambda: (test_mamba.lively(test_mamba.VECTORS), test_mamba.inputs(test_mamba.VECTORS)),
    "mamba, other sizes": lambda: (test_mamba.lively(n_states=1, expand=3, conv=2, dt_rank=4), test_mamba.inputs()),
    "lstm": lambda: (test_lstm.network(), test_lstm.TUNNEL.sample(4, rng(1)).inputs),
    **{f"mlp, {context}": lambda context=context: (test_mlp.lively(context), BIJECTION) for context in test_mlp.CONTEXTS},
}  # fmt: skip
FIXED = {  # what no seed changes at the start
    "transformer": r"gain$|bias$", "mamba": r"gain$|A_log$|mixer\.D$", "lstm": r"bias_|norm", "mlp": r"bias$|norm|item\.0\.gain$",
}
each = pytest.mark.parametrize("case", CASES)


@each
@torch.no_grad()
def test_no_input_changes_an_earlier_answer_by_one_bit(case):
    model, given = CASES[case]()
    before, scored = model(given), model.config.scored
    for place in range(given.shape[1]):
        changed = given.clone()
        changed[:, place] += 1
        if model.config.n_tokens:
            changed %= model.config.n_tokens
        after = model(changed)
        earlier = sum(k < place for k in scored)
        assert torch.equal(after[:, :earlier], before[:, :earlier]), place
        heard = place <= scored[-1] and (case != "mlp, token" or place in scored)
        if heard and "(" not in case:  # a window need not reach it: see test_shared_heads.py
            assert not torch.equal(after[:, earlier:], before[:, earlier:]), place


@each
@torch.no_grad()
def test_a_beginning_gets_the_answers_of_the_whole(case):
    model, given = CASES[case]()
    whole = model(given)
    for length in range(1, given.shape[1] + 1):
        if count := sum(k < length for k in model.config.scored):
            part = model(given[:, :length])
            assert part.shape == (len(given), count, whole.shape[-1])
            assert torch.allclose(part, whole[:, :count], atol=1e-5)


@each
def test_predictions_are_distributions_in_bits_without_gradient(case):
    model, given = CASES[case]()
    logits, predicted = model(given), model.predict(given)
    assert predicted.dtype == torch.float64 and not predicted.requires_grad and logits.requires_grad
    if model.config.outcome == "gaussian":
        assert (predicted[..., 1] > 0).all() and predicted[..., 0].std() > 0.1
    else:
        by_hand = logits.double().exp() / logits.double().exp().sum(-1, keepdim=True)
        assert torch.allclose(predicted.exp2(), by_hand) and torch.allclose(predicted.exp2().sum(-1), torch.ones(()).double(), atol=1e-12)


@each
def test_every_weight_has_a_gradient(case):
    model, given = CASES[case]()
    model(given).square().sum().backward()
    for name, parameter in model.named_parameters():
        idle = case == "transformer, (1, 1)" and name.endswith(("query.weight", "key.weight"))  # nothing to choose among
        assert parameter.grad.isfinite().all() and (parameter.grad != 0).any() != idle, name


@each
def test_the_formula_counts_the_parameters_and_a_config_survives_json(case):
    config = CASES[case]()[0].config
    kind = next(name for name in models.ARCHITECTURES if case.startswith(name))
    for head in (config.first_output_token, None):  # tied to the tokens, and apart
        built = models.build(kind, json.loads(json.dumps(config.to_dict())) | {"first_output_token": head})
        assert head is None or built.config == config
        if kind != "mlp":  # which has no formula
            assert models.count_parameters(built) == built.config.n_parameters == sum(x.numel() for x in built.state_dict().values())


@each
def test_a_seed_names_the_first_weights_whatever_pytorch_draws(case):
    config = CASES[case]()[0].config.to_dict()
    kind, found = next(name for name in models.ARCHITECTURES if case.startswith(name)), []
    for stream, seed in enumerate((4, 4, 5)):
        torch.manual_seed(stream)
        before = torch.get_rng_state()
        found.append(models.build(kind, config, rng(seed)).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    first, again, other = found
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert {name for name in first if torch.equal(first[name], other[name])} == {name for name in first if re.search(FIXED[kind], name)}

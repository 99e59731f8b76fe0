"""A model of the reader's own choice: measured where it can be had, one line where it cannot."""

from __future__ import annotations

import shutil
import sys

import pytest
import torch
from bayeswind_lib import ledger
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import language
from bayeswind_lib.language import diagnose, hub, layouts, manifold, prompts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small random GPT-NeoX with a tokenizer of words, saved as the hub saves models."""
    import transformers as hf
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    place = tmp_path_factory.mktemp("model")
    words = Tokenizer(models.WordLevel(unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator([*prompts.MIXED, *prompts.MATHEMATICS], trainers.WordLevelTrainer(special_tokens=["?"]))
    hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(place)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
        config = hf.GPTNeoXConfig(vocab_size=words.get_vocab_size(), max_position_embeddings=64, initializer_range=0.3, **sizes)
        hf.GPTNeoXForCausalLM(config).save_pretrained(place)
    return place


def test_a_model_in_a_folder_is_measured_by_the_same_functions(folder):
    model, tokenizer = hub.load(folder)
    lines = hub.report(folder).splitlines()
    assert len(lines) == 4 and lines[0] == str(folder) and "rebuilt, largest error" in lines[1]
    given = prompts.prompts(hub.Plain(tokenizer), "mathematics", "natural")
    last = diagnose.observe(model, given).values[:, -1]
    assert lines[3].startswith(f"mathematics: first share {manifold.spectrum(last).pc1:.3f} (noise 0.0")


def test_a_prompt_begins_as_the_tokenizer_begins_and_a_label_does_not(folder):
    from tokenizers.processors import TemplateProcessing

    _, tokenizer = hub.load(folder)
    plain = hub.Plain(tokenizer)
    without = hub.natural(plain, "mixed")
    assert plain.start == [] and without == prompts.prompts(plain, "mixed", "natural")
    first = tokenizer.convert_tokens_to_ids("?")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="? $A", special_tokens=[("?", first)])
    begun = hub.Plain(tokenizer)
    assert begun.start == [first] and hub.natural(begun, "mixed") == [[first, *ids] for ids in without]
    assert begun.encode("a label").ids == plain.encode("a label").ids


def test_a_record_is_refused_to_a_model_whose_layout_is_not_the_one_that_is_read(folder, tmp_path, monkeypatch):
    wrong = layouts.misread(layouts.LAYOUTS["gpt_neox"])
    monkeypatch.setitem(layouts.LAYOUTS, "gpt_neox", wrong)
    with pytest.raises(ValueError, match="cannot be built from the values of this layout"):
        language.record_public(str(folder), tmp_path, lambda line: None, draws=20, per_count=2)
    assert not list(tmp_path.iterdir())


def test_a_wrong_layout_is_refused_before_anything_is_measured(folder):
    model, tokenizer = hub.load(folder)
    with pytest.raises(ValueError, match="cannot be built from the values of this layout"):
        hub.measure(model, hub.Plain(tokenizer), layouts.misread(layouts.LAYOUTS["gpt_neox"]))


def test_without_a_name_a_model_or_the_package_one_line_says_so(tmp_path, monkeypatch):
    assert hub.report(None) == "no model is named: nothing was measured"
    nowhere = tmp_path / "nothing"
    nowhere.mkdir()
    told = hub.report(str(nowhere))
    assert told.startswith(f"nothing was measured: {nowhere} cannot be had here: ") and "\n" not in told
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")  # a name that nobody has: no network, asked once
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    told = hub.report("nobody/no-such-model")
    assert told.startswith("nothing was measured: nobody/no-such-model cannot be had here: ") and "\n" not in told
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert hub.report("any/model") == "nothing was measured: any/model needs the package transformers: pip install transformers"


PYTHIA = "language-values-pythia-410m-mixed-pc1"


def test_a_record_of_public_weights_settles_its_rows(folder, tmp_path):
    """One command: a model in a folder that bears the published one's name, here a small random one."""
    records, model = tmp_path / "records", tmp_path / "Pythia-410m"
    shutil.copytree(store.records_folder(), records)
    shutil.copytree(folder, model)
    waiting = {row["id"]: row for row in ledger.rows(records) if row["status"] == "needs public weights"}
    assert len(waiting) > 30 and all(row["measured"] is None for row in waiting.values())
    assert waiting[PYTHIA]["reason"].startswith("python -m bayeswind_lib language EleutherAI/pythia-410m --record (about 1.9 GB of memory and ")
    found = language.record_public(str(model), records, lambda line: None, draws=20, per_count=3)
    after = {id: ledger.row(id, records) for id in waiting}
    settled = {id for id, row in after.items() if row["measured"] is not None}
    assert settled == {id for id in waiting if "pythia-410m" in waiting[id]["reason"]} and len(settled) > 9
    (of_three,) = (id for id in settled if "\n" in waiting[id]["reason"])  # the other two models are still to come
    assert after[of_three]["status"] == "needs public weights"
    for id in settled - {of_three}:
        assert after[id]["status"] not in ("not settled", "needs public weights") and after[id]["draws"] >= 20, id
    row = after[PYTHIA]  # other prompts than the published ones cannot refute
    assert row["status"] == "not testable" and "the published prompts" in row["reason"] and row["measured"] == pytest.approx(100 * found["ledger"]["mixed natural pc1"])
    assert row["standard_error"] == pytest.approx(100 * found["ledger"]["mixed natural pc1_se"]) and found["cost"]["peak_megabytes"] > 0


def test_the_measured_numbers_are_those_of_a_second_way(folder):
    model, tokenizer = hub.load(folder)
    found = language.measure_public(model, hub.Plain(tokenizer), lambda line: None, draws=20, per_count=3)
    values = diagnose.observe(model, prompts.prompts(hub.Plain(tokenizer), "mixed", "natural")).values[:, -1].astype(float)
    x = (values - values.mean(0)) / values.std(0)
    shares = torch.linalg.svdvals(torch.tensor(x)).square()
    assert found["ledger"]["mixed natural pc1"] == pytest.approx(float(shares[0] / shares.sum()), rel=1e-6)
    assert 0 <= found["ledger"]["mae"] <= 1 and found["shuffled"]["rho k"]["draws"] == 20


def test_a_cut_takes_the_axis_out_and_other_axes_leave_it(folder):
    """By construction nothing is left along the axis that was cut; the run with cuts is compared with the weights projected by hand."""
    model, tokenizer = hub.load(folder)
    found = language.measure_public(model, hub.Plain(tokenizer), lambda line: None, draws=20, per_count=6)
    for name in ("cut single", "cut many"):
        assert found["ledger"][name] < 1e-5 < found["as_large"][name]["low"], name
        assert found["as_large"][name]["draws"] == 20
    assert found["as_large"]["cut change"]["low"] < found["as_large"]["cut change"]["high"]
    assert abs(found["ledger"]["cut change"]) < 100


@pytest.mark.parametrize("kind", ["fused", "fused gpt2", "parts"])
def test_values_are_edited_and_nothing_else(kind):
    """Values doubled at all tokens double what attention writes; queries and keys, and so the pattern, stay as they were."""
    import transformers as hf

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 30}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "parts":
            model = hf.LlamaForCausalLM(hf.LlamaConfig(num_key_value_heads=2, **sizes, attn_implementation="eager"))
        elif kind == "fused":
            model = hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(attention_bias=False, **sizes, attn_implementation="eager"))
        else:
            config = hf.GPT2Config(n_embd=16, n_layer=2, n_head=4, vocab_size=30, n_positions=16, attn_implementation="eager")
            model = hf.GPT2LMHeadModel(config)
            for block in model.transformer.h:
                torch.nn.init.zeros_(block.attn.c_proj.bias)
    model.eval()
    tokens = torch.randint(30, (2, 7), generator=torch.Generator().manual_seed(1))
    before, _ = layouts.read(model, tokens)
    shapes = []

    def double(v):
        shapes.append(tuple(v.shape))
        return 2 * v

    with layouts.edit_values(model, {0: double}):
        after, _ = layouts.read(model, tokens)
    again, _ = layouts.read(model, tokens)
    assert shapes == [(2, 7, before[0].values.shape[1] * before[0].values.shape[3])]
    assert torch.allclose(after[0].pattern, before[0].pattern)
    assert torch.allclose(after[0].written, 2 * before[0].written, atol=1e-5)
    assert float((after[1].written - before[1].written).abs().max()) > 1e-5  # what follows hears of it
    assert torch.equal(again[1].written, before[1].written)

"""The command line, called as a newcomer calls it, and its answers to wrong words."""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import get_type_hints

import pytest
import torch
from _support import run_python

import bayeswind_lib as bw
from bayeswind_lib import __main__ as command_line
from bayeswind_lib import checkpoints
from bayeswind_lib.training import loop


@pytest.fixture
def call(monkeypatch, capsys):
    """A function that runs the command line here and returns (exit code, stdout, stderr)."""

    def run(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["bayeswind_lib", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            command_line.main()
            raise SystemExit(0)  # main may simply return
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return run


TINY = ("train", "bijection", "transformer", "--preset", "smoke")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which the documented command has trained a network, in a process of its own."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    done = run_python("-m", "bayeswind_lib", *TINY, "--folder", folder)
    assert done.code == 0, done.tail()
    return folder, done.output


def test_train_shows_progress_scores_and_saves(trained):
    folder, output = trained
    assert f"8 steps of 16 episodes on cpu, kept in {folder}" in output
    assert "8/8" in output  # the progress bar got to its end
    assert re.search(r"entropy error +0\.\d+ \+- 0\.\d+ bits", output)
    path = folder / "bijection-transformer-smoke-seed0.safetensors"
    assert f"saved {path}" in output
    model = checkpoints.load_file(path)
    assert model.record["preset"] == "smoke"
    assert model.record["recipe"]["steps"] == 8
    tunnel = bw.tunnels.Bijection(4)
    again = bw.score(model, tunnel, 2000, rng=torch.Generator().manual_seed(1))
    assert model.record["scores"] == json.loads(json.dumps(again.to_dict()))


def test_a_second_run_in_the_same_folder_is_refused_and_resume_is_named(trained, call):
    code, _, err = call(*TINY, "--folder", trained[0])
    assert code == 2
    assert err.startswith("error: ")
    assert "a run is already there; resume it" in err


def test_resume_goes_on(tmp_path, call):
    """A run that stopped half-way ends with the weights of one that did not."""
    recipe = bw.training.recipe("bijection", "transformer", "smoke")
    run = loop.start(recipe)
    loop._evaluate(run, loop.evaluation_episodes(recipe)[0], None)
    for _ in range(4):
        loop.update(run, run.model)
    loop.save_state(run, tmp_path)
    code, out, _ = call(*TINY, "--folder", tmp_path, "--resume")
    assert code == 0, out
    resumed = checkpoints.load_file(tmp_path / "bijection-transformer-smoke-seed0.safetensors")
    whole, _ = bw.training.train(recipe, progress=False)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], tensor), name
    assert resumed.record["interruptions"] == 1


def test_options_reach_the_recipe(tmp_path, call):
    code, out, _ = call(
        *TINY, "--folder", tmp_path / "run", "--seed", 3, "--supervision", "posterior", "--optimiser",
        "adamw", "--steps", 2, "--save-as", "bijection-transformer-mine", "--weights", tmp_path,
    )
    assert code == 0, out
    record = checkpoints.load_file(tmp_path / "bijection-transformer-mine-seed3.safetensors").record
    wanted = {"seed": 3, "data_seed": 3, "supervision": "posterior", "optimiser": "adamw", "steps": 2}
    assert record["recipe"].items() >= wanted.items()


def test_a_tunnels_own_supervision_is_used_unless_another_is_asked_for(tmp_path, call):
    """The HMM's networks are trained on exact posteriors, as its class says."""
    for words, wanted in (((), "posterior"), (("--supervision", "sampled"), "sampled")):
        code, out, _ = call("train", "hmm", "lstm", "--preset", "smoke", "--steps", 1, "--folder", tmp_path / wanted, *words)
        assert code == 0, out
        assert checkpoints.load_file(tmp_path / wanted / "hmm-lstm-smoke-seed0.safetensors").record["recipe"]["supervision"] == wanted


def test_a_short_run_has_a_short_warm_up(tmp_path, call):
    """The preset's warm-up is longer than these runs; an option sets another one."""
    for i, (words, wanted) in enumerate((((), 2), (("--warmup", 3), 3))):
        code, out, err = call("train", "bijection", "mamba", "--preset", "classroom", "--steps", 4, *words, "--folder", tmp_path / str(i))
        assert code == 0, err
        assert checkpoints.load_file(tmp_path / str(i) / "bijection-mamba-classroom-seed0.safetensors").record["recipe"]["warmup_steps"] == wanted


def test_a_folder_that_cannot_be_written_to_is_refused_before_training(tmp_path, call, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setattr(loop, "update", lambda *words: pytest.fail("an update was made"))
    below = tmp_path / "file" / "run"
    for words in (("--folder", below), ("--folder", tmp_path / "run", "--weights", below)):
        code, _, err = call(*TINY, *words)
        assert code == 2
        assert "nothing can be written there" in err and str(below) in err
    code, _, err = call("sweep", "architectures", "--folder", below, "--workers", 0)
    assert code == 2 and "nothing can be written there" in err


def test_a_name_cannot_lead_out_of_the_folder(tmp_path, call, monkeypatch):
    monkeypatch.setattr(loop, "update", lambda *words: pytest.fail("an update was made"))
    for name in ("../../x", "/elsewhere/x", "a\\b", " ", ".hidden"):
        code, _, err = call(*TINY, "--folder", tmp_path / "run", "--save-as", name)
        assert code == 2
        assert "is no name for a network" in err
    model, record = checkpoints.load("bijection-lstm-classroom"), {}
    with pytest.raises(ValueError, match="is no name for a network"):
        checkpoints.save(model, record, "../x", 0, tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_list_shows_every_network_of_a_folder_whatever_its_file_is_called(trained, tmp_path, call):
    for path in trained[0].iterdir():
        if path.is_file():
            (tmp_path / path.name.replace("-seed0", "")).write_bytes(path.read_bytes())
    assert (tmp_path / "state.safetensors").exists()  # the run's own state is no network
    rows = json.loads(call("list", tmp_path, "--json")[1])
    assert [row["name"] for row in rows] == ["bijection-transformer-smoke"]


def test_the_ledger_of_one_network(call):
    """A shipped network's published numbers, not a denial that there are any."""
    code, out, err = call("ledger", "bijection-transformer", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert rows and {row["network"] for row in rows} == {"bijection-transformer"}
    assert {row["id"] for row in rows} == {row["id"] for row in bw.ledger.rows() if row["network"] == "bijection-transformer"}


def test_a_file_that_bears_a_ledger_networks_name_is_measured_by_its_claims(trained, tmp_path, call):
    name = "bijection-transformer-classroom"
    model = checkpoints.load_file(trained[0] / "bijection-transformer-smoke-seed0.safetensors")
    path = checkpoints.save(model, model.record, name, 0, tmp_path)
    claimed = {row["id"] for row in bw.ledger.rows() if row["network"] == name}
    assert claimed
    code, out, _ = call("ledger", path, "--json")
    assert code == 0
    assert {row["id"] for row in json.loads(out)} == claimed


def test_a_network_of_an_unknown_tunnel_names_the_option_that_the_command_has(trained, tmp_path, call):
    model = checkpoints.load_file(trained[0] / "bijection-transformer-smoke-seed0.safetensors")
    path = checkpoints.save(model, model.record | {"tunnel": "nowhere"}, "nowhere-transformer", 0, tmp_path)
    for words in (("score", path), ("probe", path, "activations"), ("page", path), ("ledger", path)):
        code, _, err = call(*words)
        assert code == 2
        assert "is of the tunnel nowhere, one of your own: name its file with --tunnel my_tunnel.py" in err
        assert "--tunnel" in re.sub(r"\x1b\[[0-9;]*m", "", call(words[0], "--help")[1])


def test_an_unknown_network_is_answered_in_a_line_that_can_be_read(call):
    for name, words in (("bijection-transfomer", "close to it: bijection-transformer"), ("sausage", "names that ship: ")):
        _, _, err = call("score", name)
        assert words in err
        assert len(err) < 300


def test_probe_tables_fit_a_terminal(call):
    code, out, _ = call("probe", "bijection-transformer-classroom", "keys", "--draws", 20)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 120
    head = out.splitlines()[0].split()
    assert head[:4] == ["tokens", "head", "centred", "cosine"] and len(head) == 8


def test_retrain_follows_the_record_of_a_shipped_network(trained, tmp_path, call, monkeypatch):
    """The way back from a shipped network to the run that made it: the same weights again."""
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(trained[0]))
    code, out, _ = call("retrain", "bijection-transformer-smoke", "--folder", tmp_path / "again")
    assert code == 0, out
    name = "bijection-transformer-smoke-seed0.safetensors"
    first, again = (checkpoints.load_file(folder / name) for folder in (trained[0], tmp_path / "again"))
    for key, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key]), key
    assert again.record["recipe"] == first.record["recipe"]
    assert again.record["scores"] == first.record["scores"]
    assert again.record["preset"] == "smoke"


def test_score_of_a_file(trained, call):
    path = trained[0] / "bijection-transformer-smoke-seed0.safetensors"
    code, out, err = call("score", path, "--episodes", 50, "--json")
    assert (code, err) == (0, "")
    got = json.loads(out)
    model = checkpoints.load_file(path)
    by_hand = bw.score(model, bw.tunnels.Bijection(4), 50, rng=torch.Generator().manual_seed(1))
    assert got == json.loads(json.dumps(by_hand.to_dict()))
    code, out, _ = call("score", path, "--episodes", 50, "--data-seed", 2)
    assert code == 0
    assert "on 50 fresh episodes:" in out
    assert f"{by_hand.kl:9.6f}" not in out  # other episodes


def test_score_of_a_shipped_network_with_its_seed(call):
    name = "bijection-transformer-classroom"
    results = []
    for seed in (0, 1):
        code, out, _ = call("score", name, "--episodes", 64, "--seed", seed, "--json")
        assert code == 0
        results.append(json.loads(out)["kl"])
    assert results[0] != results[1]
    assert 0 < results[0] < 0.02


def test_list(call):
    code, out, err = call("list", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert {(row["name"], row["seed"]) for row in rows} == {
        (r["name"], r["seed"]) for r in checkpoints.shipped()
    }
    for row in rows:
        assert row["tunnel"] in ("bijection", "hmm", "regression", "recall", "hmm_list")
        assert row["architecture"] in ("transformer", "mamba", "lstm", "mlp")
        assert row["preset"] in bw.training.PRESETS
        assert row["parameters"] > 1000
        assert row["supervision"] in ("sampled", "posterior")
        assert row["scores"].keys() >= {"entropy_mae", "kl", "cross_entropy_gap", "tv", "support_leak"}
        assert row["scores"]["n_episodes"] >= 2
    code, table, _ = call("list")
    assert code == 0
    lines = table.strip().splitlines()
    assert len(lines) == len(rows) + 1
    assert all(row["name"] in table for row in rows)
    assert "2,677,632" in table


def test_list_of_an_empty_folder_and_of_a_network_without_scores(tmp_path, call, monkeypatch):
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(tmp_path))
    assert call("list", "--json")[:2] == (0, "[]\n")
    recipe = bw.training.recipe("bijection", "transformer", "smoke", steps=1)
    checkpoints.save(*bw.training.train(recipe, progress=False), "bijection-transformer-bare", 0, tmp_path)
    code, out, _ = call("list", "--json")
    assert code == 0
    assert json.loads(out)[0]["scores"] is None
    code, out, _ = call("list")
    assert code == 0
    assert "bijection-transformer-bare" in out


LEDGER_KEYS = {
    "id", "source", "published", "measured", "standard_error", "seeds", "preset", "null", "status",
}


def test_ledger(call):
    code, out, err = call("ledger", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert len(rows) >= 5
    assert all(row.keys() >= LEDGER_KEYS for row in rows)
    allowed = {"reproduced", "partly", "not reproduced", "not settled", "needs public weights", "not testable"}
    assert {row["status"] for row in rows} <= allowed
    assert len({row["id"] for row in rows}) == len(rows)
    code, out, _ = call("ledger")
    assert code == 0
    assert all(row["id"] in out for row in rows)


# Help and errors.


def test_help_is_for_newcomers(call):
    code, out, _ = call("--help")
    assert code == 0
    for command in ("train", "retrain", "score", "list", "ledger", "sweep"):
        assert re.search(rf"\b{command}\b", out), command
    for command, words in {
        "train": ("TUNNEL", "bijection, hmm, regression, recall, recurrence", "transformer, mamba, lstm, mlp", "ARCHITECTURE", "--preset", "--resume", "--device", "--supervision"),
        "retrain": ("NETWORK", "--resume"),
        "score": ("NETWORK", "--episodes", "--json"),
        "list": ("--json",),
        "ledger": ("--json",),
        "check": ("bijection, hmm, regression, recall, recurrence",),
        "sweep": ("PLAN", "--workers", "--scheduler", "--list"),
    }.items():
        code, out, _ = call(command, "--help")
        assert code == 0
        text = " ".join(re.sub(r"\x1b\[[0-9;]*m|│", "", out).lower().split())
        assert all(word.lower() in text for word in words), (command, text)


def test_every_command_and_option_is_explained():
    """A flag without a sentence helps nobody."""
    for command in command_line.app.registered_commands:
        assert inspect.getdoc(command.callback).endswith("."), command.callback.__name__
        hints = get_type_hints(command.callback, include_extras=True)
        for name, hint in hints.items():
            if name != "return":
                assert hint.__metadata__[0].help, (command.callback.__name__, name)


WRONG = {
    "tunnel": (("train", "sausage", "transformer"), "no tunnel is called 'sausage': choose one of bijection, hmm"),
    "examples": (("train", "sausage", "transformer"), "bijection_set, composition (worked examples: dirichlet, hmm_list); one of your own"),
    "file of a tunnel": (("check", "sausage"), "name the file, my_tunnel.py, in its place"),
    "negative seed": ((*TINY, "--seed", "-1"), "seed is -1: it must be at least 0"),
    "warm-up": ((*TINY, "--steps", "2", "--warmup", "2"), "warmup_steps is 2 in a run of 2 steps"),
    "architecture": (("train", "bijection", "abacus"), "no presets for the architecture 'abacus': choose one of transformer"),
    "preset": (("train", "bijection", "transformer", "--preset", "huge"), "'huge': choose one of smoke"),
    "device": ((*TINY, "--device", "cuda:7"), "device 'cuda:7' is not available here: choose one of cpu"),
    "no tpu": ((*TINY, "--device", "tpu"), "device 'tpu' is not available"),
    "supervision": ((*TINY, "--supervision", "exact"), "'exact': choose one of sampled, posterior"),
    "steps": ((*TINY, "--steps", "0"), "steps is 0: it must be at least 1"),
    "precision": ((*TINY, "--precision", "int8"), "precision is 'int8'"),
    "network": (("score", "bijection-abacus"), "no network 'bijection-abacus' with seed 0"),
    "seed": (("score", "bijection-transformer", "--seed", "77"), "with seed 77 is shipped; there are: "),
    "retrain": (("retrain", "bijection-abacus"), "bijection-abacus-seed0.json: the record"),
    "file": (("score", "nowhere.safetensors"), "nowhere.safetensors: no such checkpoint"),
    "episodes": (("score", "bijection-transformer-classroom", "--episodes", "1"), "at least 2"),
    "no episodes": (("score", "bijection-transformer-classroom", "--episodes", "0"), "at least 1"),
}


@pytest.mark.parametrize("case", WRONG)
def test_expected_problems_end_in_one_line_and_code_2(tmp_path, call, monkeypatch, case):
    words, message = WRONG[case]
    monkeypatch.chdir(tmp_path)
    code, _, err = call(*words)
    assert code == 2
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_folder_that_is_a_file_is_one_line_too(tmp_path, call):
    (tmp_path / "taken").write_text("mine")
    code, _, err = call(*TINY, "--folder", tmp_path / "taken")
    assert code == 2
    assert err.startswith("error: ")
    assert "taken" in err
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "bijection"), "Missing argument"),
        (("score",), "Missing argument"),
        (("fly",), "No such command"),
        (("list", "--jason"), "No such option"),
        ((*TINY, "--steps", "many"), "Invalid value for '--steps'"),
    ],
)
def test_misspelt_words_are_named(call, words, message):
    code, _, err = call(*words)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_the_real_command_prints_no_traceback(tmp_path):
    """As the shell sees it: exit code 2, one line, on the error stream or not."""
    done = run_python("-m", "bayeswind_lib", "score", "bijection-abacus", cwd=tmp_path)
    assert done.code == 2
    assert "Traceback" not in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_the_list_tells_variants_apart(call):
    rows = json.loads(call("list", "--json")[1])
    told = {row["name"]: row["variant"] for row in rows}
    assert told["bijection-transformer"] is None
    assert told["bijection-transformer-classroom-posterior"] == "posterior"
    assert len({(r["tunnel"], r["architecture"], r["preset"], r["variant"], r["seed"]) for r in rows}) == len(rows)

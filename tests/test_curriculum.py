"""Curricula: easy episodes first, in the network of the last stage, resumable to the update."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest
import torch

import bayeswind_lib as bw
from bayeswind_lib import training
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.experiments import curriculum, recall
from bayeswind_lib.training import loop
from bayeswind_lib.tunnels.recall import N_MARKS

FULL = {"n_pairs": 3, "n_queries": 2, "n_keys": 6, "n_values": 6, "filler": 0}
STAGES = ({"n_pairs": 1, "n_queries": 1, "vocabulary": 2}, {"n_pairs": 2, "vocabulary": 3})


def recipe(**changes) -> training.Recipe:
    """Stages of a few updates each: an accuracy that chance alone reaches ends them."""
    changes = {"curriculum": STAGES, "mastery": 0.15, "steps": 24, "eval_every": 8, "eval_episodes": 8, "batch_size": 8} | changes
    return training.recipe("recall", "transformer", "smoke", tunnel_config=FULL, **changes)


def trained(wanted, folder=None, **settings):
    return training.train(wanted, folder, progress=False, **settings)


def test_a_small_vocabulary_spells_its_episodes_in_the_large_one():
    large = bw.tunnels.Recall(**FULL)
    small = bw.tunnels.Recall(**(FULL | {"vocabulary": 3}))
    drawn = small.sample(200, torch.Generator().manual_seed(0))
    assert small.interface == large.interface
    assert drawn.latents["keys"].unique().tolist() == drawn.latents["values"].unique().tolist() == [0, 1, 2]
    assert torch.equal(large.posterior(drawn.inputs), drawn.posterior)
    assert "vocabulary" not in large.config and bw.tunnels.Recall(**small.config).config == small.config


@pytest.mark.parametrize("vocabulary", [2, 7])
def test_a_vocabulary_that_cannot_be_is_refused(vocabulary):
    with pytest.raises(ValueError, match=f"vocabulary is {vocabulary}: 3 pairs need .* choose 3..6"):
        bw.tunnels.Recall(**(FULL | {"vocabulary": vocabulary}))


def test_stages_follow_each_other_and_the_last_one_is_scored():
    _, record = trained(recipe())
    first, second = record["stage_ends"]
    assert 0 < first < second < 24
    assert record["recipe"]["curriculum"] == [dict(stage) for stage in STAGES]
    assert record["tunnel_config"] == bw.tunnels.Recall(**FULL).config
    assert record["config"]["scored"] == list(bw.tunnels.Recall(**FULL).interface.scored)
    plain = recipe(curriculum=())
    assert loop.evaluation_episodes(recipe())[1] == loop.evaluation_episodes(plain)[1]
    assert "stage_ends" not in trained(plain.but(steps=8))[1]


def test_every_stage_draws_its_own_episodes_and_is_read_where_it_asks():
    run = loop.start(recipe())
    seen = {}

    def forward(inputs, rng, scored=None):
        seen.setdefault(run.stage, (inputs.shape[1], scored))
        logits = run.model(inputs, rng, scored)
        assert logits.shape[1] == run.stages[run.stage].n_queries
        return logits

    while run.step < 24:
        loop.update(run, forward)
    last = bw.tunnels.Recall(**FULL)
    expected = [bw.tunnels.Recall(**(FULL | stage)).interface for stage in STAGES]
    assert seen == {
        0: (expected[0].n_positions, expected[0].scored), 1: (expected[1].n_positions, expected[1].scored),
        2: (last.interface.n_positions, None),
    }


def test_a_stage_ends_at_the_running_accuracy_and_not_before():
    run = loop.start(recipe(mastery=0.5))
    for right, ends in ((0.5, []), *[(1.0, [])] * 6, (1.0, [8])):
        run.step += 1
        loop._advance(run, right)
        assert run.stage_ends == ends, run.accuracy
    assert run.accuracy == 0.0 and run.stage == 1


@pytest.mark.parametrize("stop", [1, 4, 13])
def test_a_resumed_curriculum_gives_the_same_weights(tmp_path, stop):
    whole, record = trained(recipe())
    run = loop.start(recipe())
    loop._evaluate(run, loop.evaluation_episodes(recipe())[0], None)
    for _ in range(stop):
        loop.update(run, run.model)
    loop.save_state(run, tmp_path)
    again, resumed = trained(recipe(), tmp_path, resume=True)
    assert resumed["stage_ends"] == record["stage_ends"]
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def work(folder: str, steps) -> None:
    """Train, save after every update, and count the updates."""
    torch.set_num_threads(1)
    update = loop.update

    def counted(*words):
        with steps.get_lock():
            steps.value += 1
        return update(*words)

    loop.update = counted
    trained(recipe(), folder, resume=True, save_every=0.0)


def test_kills_leave_no_trace(tmp_path):
    whole, record = trained(recipe())
    context = multiprocessing.get_context("spawn")
    for updates in (3, 8):
        steps = context.Value("i", 0)
        process = context.Process(target=work, args=(str(tmp_path), steps))
        process.start()
        while process.is_alive() and steps.value < updates:
            process.join(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert 0 < read_tensors(tmp_path / loop.STATE)[1]["step"] < 24
    again, resumed = trained(recipe(), tmp_path, resume=True)
    assert resumed["stage_ends"] == record["stage_ends"] and resumed["interruptions"] >= 1
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_a_state_from_before_there_were_curricula_goes_on(tmp_path, monkeypatch):
    wanted = recipe(curriculum=(), mastery=0.97, steps=6)
    write = loop.write_tensors

    def older(path, tensors, note=None):
        note = {key: value for key, value in note.items() if key not in ("accuracy", "stage_ends")}
        note["recipe"] = {k: v for k, v in note["recipe"].items() if k not in ("curriculum", "mastery")}
        return write(path, tensors, note)

    run = loop.start(wanted)
    loop.update(run, run.model)
    monkeypatch.setattr(loop, "write_tensors", older)
    loop.save_state(run, tmp_path)
    assert trained(wanted, tmp_path, resume=True)[1]["schedule_ended"]


def test_a_run_ends_once_its_own_tunnel_is_answered_and_not_in_an_easier_stage(tmp_path):
    """Chance reaches the accuracy that is asked; in the stages before, where it is higher, it ends nothing."""
    whole, record = trained(recipe())
    until = recipe(until=0.08)
    short, short_record = trained(until, tmp_path)
    assert short_record["arrived"] and short_record["schedule_ended"] and "arrived" not in record
    assert short_record["stage_ends"] == record["stage_ends"]
    assert record["stage_ends"][-1] < short_record["steps"] < record["steps"] == 24
    assert short_record["curve"][-1]["step"] == short_record["steps"]
    assert short_record["episodes"] == short_record["steps"] * 8
    again, same = trained(until, tmp_path, resume=True)  # it has ended: nothing more happens
    assert same["steps"] == short_record["steps"] and same["interruptions"] == 0
    _, censored = trained(recipe(until=1.0))
    assert not censored["arrived"] and censored["schedule_ended"] and censored["steps"] == 24


def test_until_needs_no_curriculum_and_answers_that_can_be_right():
    run = loop.start(recipe(curriculum=(), until=0.3))
    for right in (1.0, 1.0, 1.0):
        assert not run.arrived
        run.step += 1
        loop._advance(run, right)
    assert run.accuracy == pytest.approx(1 - 0.9**3) and not run.arrived
    loop._advance(run, 1.0)
    assert run.arrived and run.ended
    with pytest.raises(ValueError, match="until is 0.5, an accuracy, and regression predicts real numbers"):
        loop.start(training.recipe("regression", "transformer", "smoke", until=0.5))


REFUSED = {
    "vocabulary": ({"n_keys": 8, "n_values": 8}, "has 26 tokens, and the network of the last stage 22"),
    "length": ({"filler": 4}, "positions, and the network of the last stage"),
    "layout": ({"n_keys": 3, "n_values": 3}, "leave n_keys and n_values and set vocabulary"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_stage_that_the_network_cannot_read_is_refused(case):
    changes, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        loop.start(recipe(curriculum=({}, changes)))


def test_a_pool_beside_a_curriculum_is_refused():
    with pytest.raises(ValueError, match="pool is 5 and the curriculum has 2 stages"):
        loop.start(recipe(pool=5))


def test_a_stage_of_real_numbers_is_refused():
    wanted = training.recipe("regression", "transformer", "smoke", curriculum=({},))
    with pytest.raises(ValueError, match="stages end at an accuracy"):
        loop.start(wanted)


# ---- the record `curriculum` ----------------------------------------------------------------------


class Planted:
    """A network whose attention is known: even everywhere, but for a pairing head and a match head."""

    def __init__(self, task, episodes, planted=True):
        self.n, self.episodes, self.planted = task.n_pairs, episodes, planted
        self.scored = task.interface.scored

    def attention_patterns(self, inputs):
        (batch, length), first = inputs.shape, 4 * torch.arange(self.n)
        even = torch.ones(length, length).tril() / torch.arange(1, length + 1)[:, None]
        found = [even.expand(batch, 2, length, length).clone() for _ in range(2)]
        if self.planted:
            for pair in first.tolist():  # layer 0, head 1: each value looks at its key
                found[0][:, 1, pair + 3] = torch.nn.functional.one_hot(torch.tensor(pair + 1), length).float()
            asked = (self.episodes.latents["queries"][:, :, None] == self.episodes.latents["keys"][:, None]).int().argmax(-1)
            for question, position in enumerate(self.scored):  # layer 1, head 0: the PAD looks at the asked value
                found[1][:, 0, position] = torch.nn.functional.one_hot(4 * asked[:, question] + 3, length).float()
        return found


def test_planted_heads_are_found_and_even_attention_has_none():
    task = bw.tunnels.Recall(4, 4, 8, 8, 0)
    episodes = task.sample(32, torch.Generator().manual_seed(0))
    found = curriculum.looking(Planted(task, episodes), task, episodes)
    assert [found["pairing"][k] for k in ("from", "to", "layer", "head")] == ["value", "key", 0, 1]
    assert [found["match"][k] for k in ("from", "to", "layer", "head")] == ["PAD", "value", 1, 0]
    assert all((found[what]["own"], found[what]["others"]) == (1.0, 0.0) for what in found)
    even = curriculum.looking(Planted(task, episodes, planted=False), task, episodes)
    assert all(abs(even[what]["own"] - even[what]["others"]) < 1e-6 for what in even)


def test_the_stored_circuit_is_of_the_run_that_ships():
    stored = bw.ledger.record("curriculum")
    network = bw.load(curriculum.NAME, curriculum.SEEDS[0])
    run = stored["runs"][str(curriculum.SEEDS[0])]
    assert run["stage_ends"] == run["stored_stage_ends"] == network.record["stage_ends"]
    steps = [row["step"] for row in run["rows"]]
    assert steps == sorted(set(steps)) and set(run["stage_ends"]) <= set(steps)
    assert stored["stages"][-1] == network.record["tunnel_config"]


def test_rings_mark_where_stages_ended():
    curve = [{"episodes": n, "kl": 1.0 / (1 + n)} for n in (0, 100, 200)]
    plain = bw.figures.learning_curves({"a": {"curve": curve}})
    ringed = bw.figures.learning_curves({"a": {"curve": curve}}, marks={"a": [50, 150]})
    assert "Rings on a: 50 episodes, 150 episodes" in ringed.alt and "Rings" not in plain.alt


def binds(known: int):
    """In the place of a network: it looks up the first so many keys, and cannot tell the others apart."""
    def answer(task, episodes):
        keys, values, asked = (episodes.latents[name] for name in ("keys", "values", "queries"))
        own = asked[..., None] == keys[:, None]
        alike = (asked[..., None] >= known) & (keys[:, None] >= known)
        weight = torch.where(asked[..., None] < known, own, alike).float()
        weight /= weight.sum(-1, keepdim=True)
        return torch.zeros(*asked.shape, task.n_values).scatter_(2, values[:, None].expand_as(weight), weight)

    return answer


@pytest.mark.parametrize("known", [2, 8])
def test_a_table_by_key_tells_half_of_the_symbols_from_half_a_rule(known):
    task = bw.tunnels.Recall(n_pairs=4, n_queries=4, n_keys=16, n_values=16, vocabulary=8, filler=0)
    episodes = task.sample(4000, torch.Generator().manual_seed(0))
    found = recall.by_key(binds(known)(task, episodes), episodes, 8)
    assert found.shape == (8, 8) and torch.allclose(found[:known], torch.eye(8, dtype=torch.float64)[:known])
    if known < 8:
        assert found[known:, :known].max() == 0 and found[known:, known:].sub(1 / 3).abs().max() < 0.05
    even = recall.by_key(episodes.posterior.float().mul(0).add(1 / 16), episodes, 8)
    assert torch.allclose(even, torch.full((8, 8), 1 / 16, dtype=torch.float64))


def test_the_record_of_recall_keeps_what_it_has_and_its_stages_are_those_of_the_runs():
    stored, queue = bw.ledger.record("probe_recall"), {row["key"]: row for row in bw.ledger.runs(plan="queue")}
    assert stored["runs"]
    for name, seeds in stored["runs"].items():
        for seed, run in seeds.items():
            row = queue[run["key"]]
            assert (row["name"], str(row["seed"]), row["stage_ends"]) == (name, seed, run["stage_ends"])
            assert run["stages"][-1]["accuracy"] == pytest.approx(row["accuracy"], abs=0.02)
            assert [stage["task"]["vocabulary"] for stage in run["stages"][:-1]] == [one["vocabulary"] for one in row["recipe"]["curriculum"]]
    assert recall.measure(4)["runs"] == stored["runs"]
    assert {cell.name for cell in recall.cells()} >= set(stored["runs"])


def test_a_stage_is_told_of_keys_that_the_one_before_had_and_of_new_ones():
    """In the place of a network: the exact answer for keys below 4, and elsewhere the first value of all."""
    tasks = [bw.tunnels.Recall(n_pairs=2, n_queries=2, n_keys=8, n_values=8, vocabulary=v, filler=0) for v in (2, 4, 8)]

    def network(inputs, scored):
        task = next(task for task in tasks if inputs.shape[1] == task.interface.n_positions)
        exact = task.posterior(inputs).log().float()
        first = torch.zeros_like(exact)
        first[..., 0] = 99
        return torch.where((inputs[:, torch.tensor(scored) - 1] < N_MARKS + 4)[..., None], exact, first)

    row = recall.row_of(network, tasks, 400, stopped=2)
    stages = row["stages"]
    assert row["right_by_key"][:4] == [1.0] * 4 and len(row["right_by_key"]) == 8 and max(row["right_by_key"][4:]) < 0.5
    assert len(row["right_by_place"]) == 2 and row["right_by_place"] == pytest.approx([stages[2]["accuracy"]] * 2, abs=0.1)
    assert [stage["task"]["vocabulary"] for stage in stages] == [2, 4, 8]
    assert stages[0]["old"] is None and stages[0]["new"] == stages[1]["old"] == stages[1]["new"] == stages[2]["old"] == 1
    assert stages[2]["new"] == pytest.approx(1 / 8, abs=0.05) and stages[2]["new"] < stages[2]["accuracy"] < 1

"""Networks taught a wrong model: what they are taught, that runs are kept, and what their record adds up to."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from _support import rng

import bayeswind_lib as bw
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import RACES, diagnostics, wrong_model
from bayeswind_lib.language import papers
from bayeswind_lib.training.recipe import Recipe

WRONG = [(name, teacher) for name, teachers in wrong_model.TEACHERS.items() for teacher in teachers if teacher != wrong_model.EXACT]


def taught(name, teacher):
    recipe = bw.load(name, seed=0).record["recipe"]
    tunnel = bw.tunnels.build(recipe["tunnel"], recipe["tunnel_config"])
    return wrong_model.Taught(tunnel, wrong_model.TEACHERS[name][teacher](tunnel))


@pytest.mark.parametrize(("name", "teacher"), WRONG)
def test_a_wrong_teacher_is_wrong_on_the_episodes_of_its_tunnel(name, teacher):
    wrong = taught(name, teacher)
    mine, right = wrong.sample(64, rng(3)), wrong.tunnel.sample(64, rng(3))
    assert torch.equal(mine.inputs, right.inputs) and torch.equal(mine.targets, right.targets)
    assert torch.allclose(mine.posterior.sum(-1), torch.ones_like(mine.posterior[..., 0]))
    apart = (right.posterior * (right.posterior.clamp(min=1e-300).log2() - mine.posterior.clamp(min=1e-9).log2())).sum(-1).mean()
    assert apart > 2 * diagnostics.RIGHT


def test_a_renamed_teacher_has_the_right_entropy():
    for name in wrong_model.TEACHERS:
        wrong = taught(name, "outcomes renamed")
        mine, right = wrong.sample(8, rng(1)).posterior, wrong.tunnel.sample(8, rng(1)).posterior
        assert torch.allclose(mine.sort(-1).values, right.sort(-1).values) and not torch.allclose(mine, right)


def test_a_recipe_in_which_no_teacher_is_heard_is_refused(tmp_path, monkeypatch):
    whole = Recipe.from_dict
    monkeypatch.setattr(Recipe, "from_dict", classmethod(lambda cls, stored: whole(stored).but(supervision="sampled")))
    with pytest.raises(ValueError, match="choose a recipe on fresh posteriors"):
        wrong_model.trained(tmp_path, "hmm-transformer-classroom", "outcomes renamed", 0)
    assert not list(tmp_path.iterdir())


def test_the_exact_teacher_says_the_truth():
    for name in wrong_model.TEACHERS:
        right = taught(name, wrong_model.EXACT)
        assert torch.allclose(right.sample(8, rng(1)).posterior, right.tunnel.sample(8, rng(1)).posterior)


def test_a_network_is_trained_on_its_teacher_once(tmp_path, monkeypatch):
    """Three hundred updates: nearer to the teacher than to the truth, the same from the file, and a foreign file is refused."""
    whole, name = Recipe.from_dict, "bijection-transformer-classroom-posterior"
    monkeypatch.setattr(Recipe, "from_dict", classmethod(lambda cls, stored: whole(stored).but(steps=300)))
    teacher = "values come back after four"
    model, wrong = wrong_model.trained(tmp_path, name, teacher, 0)
    row = wrong_model.row_of(model, wrong, name, teacher, 32)
    assert row["kind"] == "wrong model" and not row["right"] and row["kl_taught"] < 0.1 < row["kl"]
    monkeypatch.setattr(wrong_model, "update", None)  # nothing is trained again
    again, _ = wrong_model.trained(tmp_path, name, teacher, 0)
    assert all(torch.equal(x, again.state_dict()[key]) for key, x in model.state_dict().items())
    (file,) = tmp_path.iterdir()
    file.rename(file.with_name(file.name.replace("seed0", "seed1")))
    with pytest.raises(bw.checkpoints.CheckpointError, match="another recipe or teacher"):
        wrong_model.trained(tmp_path, name, teacher, 1)


def rows_of(numbers):
    """Rows with the same number for every diagnostic, by (recipe, kind)."""
    return [
        {"family": family, "kind": kind, "numbers": {one.name: x for one in papers.DIAGNOSTICS},
         "passed": {one.name: one.passed(x) for one in papers.DIAGNOSTICS}}
        for (family, kind), xs in numbers.items() for x in xs
    ]


def test_areas_compare_networks_of_one_recipe():
    """Two recipes far apart, each with its own order: the matched area is the mean of theirs."""
    one = papers.BY_NAME["every layer"]
    right, wrong = "right model", "wrong model"
    rows = rows_of({("a", right): [3.0, 4.0], ("a", wrong): [1.0, 2.0], ("b", right): [101.0], ("b", wrong): [102.0, 103.0]})
    assert wrong_model.matched_area(rows, one) == pytest.approx((1 + 0) / 2)
    assert wrong_model.matched_area(rows[:4], one) == 1
    assert math.isnan(wrong_model.matched_area(rows[:2], one))
    shuffled = wrong_model.dealt(rows, np.random.default_rng(0))
    assert [row["family"] for row in shuffled] == ["a"] * 4 + ["b"] * 3
    for family in "ab":
        kinds = [sorted(row["kind"] for row in some if row["family"] == family) for some in (rows, shuffled)]
        assert kinds[0] == kinds[1]
    assert any(a["kind"] != b["kind"] for a, b in zip(rows, shuffled, strict=True))


# ---- the record


def test_all_were_taught_well_and_counts_are_those_of_the_rows():
    record = store.read("wrong_model")
    assert "wrong_model" in RACES and len(record["networks"]) == len(list(wrong_model.cells(wrong_model.SEEDS)))
    for row in record["networks"]:
        assert row["kl_taught"] < record["taught_well_below"] and row["right"] == (row["kind"] == "right model")
    for i, name in enumerate(record["order"]):
        one, found = papers.BY_NAME[name], record["diagnostics"][name]
        for kind, counted in found["kinds"].items():
            some = [row["numbers"][i] for row in record["networks"] if row["kind"] == kind and row["numbers"][i] is not None]
            near = sum(abs(x - one.threshold) < 1e-3 * abs(one.threshold) for x in some)  # stored with four digits
            assert counted["n"] == len(some) and abs(counted["passed"] - sum(map(one.passed, some))) <= near
    loss = record["diagnostics"]["log loss"]
    assert loss["area"] == loss["area_renamed"] == 1


def test_each_wrong_model_is_compared_where_it_belongs():
    """Numbers that grow with the error: others are told and renamed ones not; and chance brackets one half."""
    numbers = {("a", "right model"): [3.0, 4.0], ("a", "wrong model"): [1.0, 2.0, 3.5, 5.0]}
    rows = rows_of(numbers)
    for row, teacher in zip(rows, ["exact"] * 2 + ["never moves"] * 2 + ["outcomes renamed"] * 2, strict=True):
        row["teacher"] = teacher
    found = wrong_model.summaries(rows, 50)
    one = found["diagnostics"]["every layer"]
    assert (one["area"], one["area_renamed"]) == (1, 0.25) and one["chance"][0] < 0.5 < one["chance"][1]
    assert one["renamed"]["n"] == 2 and one["kinds"]["wrong model"]["n"] == 4

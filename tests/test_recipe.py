"""The recipe: stored and read back, named by its content, and with the schedules it promises."""

from __future__ import annotations

import itertools
import json
from dataclasses import FrozenInstanceError, fields

import pytest

from bayeswind_lib import checkpoints, models, training
from bayeswind_lib.training import PRESETS, Recipe
from bayeswind_lib.training.loop import model_config
from bayeswind_lib.training.plans import PLANS, plan
from bayeswind_lib.training.presets import RATES, variants

BUILT_IN = ("bijection", "hmm", "recall", "recurrence", "regression")
PAIRS = sorted(itertools.product(BUILT_IN, RATES))  # every tunnel with every architecture

BASE = Recipe("bijection", "transformer", 100, {"n_values": 4}, {"n_layers": 1}, warmup_steps=10)

# One other value for every field: the test below fails for a field that is missing here.
OTHER = {
    "tunnel": "hmm", "architecture": "lstm", "steps": 101, "tunnel_config": {"n_values": 5},
    "model_config": {"n_layers": 2}, "batch_size": 65, "supervision": "posterior",
    "optimiser": "adamw", "learning_rate": 7e-3, "matrix_learning_rate": 3e-2,
    "schedule": "cosine", "warmup_steps": 11, "betas": (0.9, 0.96), "weight_decay": 0.1,
    "momentum": 0.9, "grad_clip": 0.5, "precision": "tf32", "compile": True, "seed": 1,
    "data_seed": 1, "eval_every": 99, "eval_episodes": 255, "eval_seed": 1, "n_snapshots": 3, "pool": 5,
    "frozen": ("tokens.weight",), "frozen_from": 2, "curriculum": ({"n_values": 3},), "mastery": 0.9,
    "until": 0.8,
}


def test_json_and_back():
    for recipe in (BASE, BASE.but(**OTHER)):
        stored = json.loads(json.dumps(recipe.to_dict()))
        assert Recipe.from_dict(stored) == recipe
        assert Recipe.from_dict(stored).tag == recipe.tag
    assert isinstance(Recipe.from_dict(BASE.to_dict()).betas, tuple)


def test_any_change_gives_another_tag():
    assert {f.name for f in fields(Recipe)} == set(OTHER)
    tags = {BASE.but(**{name: value}).tag for name, value in OTHER.items()} | {BASE.tag}
    assert len(tags) == len(OTHER) + 1
    assert len(BASE.tag) == 8
    assert BASE.but().tag == BASE.tag


def test_a_field_that_came_later_leaves_old_tags_alone():
    """The tag of a network that ships, as its record says it, from before there was a curriculum."""
    assert training.recipe("hmm", "transformer", "paper", precision="bfloat16").tag == "c5c4f555"
    assert BASE.but(curriculum=({"n_values": 3},)).tag != BASE.but(curriculum=({"n_values": 2},)).tag


def test_the_tag_does_not_depend_on_the_order_of_settings():
    first = BASE.but(model_config={"width": 8, "n_heads": 2})
    second = BASE.but(model_config={"n_heads": 2, "width": 8})
    assert first.tag == second.tag


def test_a_recipe_cannot_be_changed_by_accident():
    with pytest.raises(FrozenInstanceError):
        BASE.steps = 5
    assert BASE.but(steps=50).steps == 50
    assert BASE.steps == 100


def test_a_preset_cannot_be_spoilt_through_a_recipe():
    """A learner who edits a recipe's dictionaries must not change the next run of that preset."""
    first = training.recipe("bijection", "transformer", "smoke")
    before = first.tag
    first.tunnel_config["n_values"] = 9
    first.model_config["width"] = 64
    assert training.recipe("bijection", "transformer", "smoke").tag == before


REFUSED = {
    "from_dict": (lambda: Recipe.from_dict(BASE.to_dict() | {"stepz": 1}), "no field stepz"),
    "but": (lambda: BASE.but(lr=0.1), "no field lr"),
    "preset field": (
        lambda: training.recipe("bijection", "transformer", "smoke", rate=1), "no field rate",
    ),
    "supervision": (lambda: BASE.but(supervision="exact"), "'exact': choose one of sampled, posterior"),
    "optimiser": (lambda: BASE.but(optimiser="sgd"), "'sgd': choose one of adamw, muon"),
    "schedule": (lambda: BASE.but(schedule="step"), "'step': choose one of linear"),
    "precision": (lambda: BASE.but(precision="int8"), "'int8': choose one of float32"),
    "seed": (lambda: BASE.but(seed=-1), "seed is -1: it must be at least 0"),
    "data seed": (lambda: BASE.but(data_seed=-1), "data_seed is -1: it must be at least 0"),
    "steps": (lambda: BASE.but(steps=0), "steps is 0: it must be at least 1"),
    "batch": (lambda: BASE.but(batch_size=0), "batch_size is 0"),
    "evaluation": (lambda: BASE.but(eval_episodes=1), "eval_episodes is 1: it must be at least 2"),
    "grid": (lambda: BASE.but(eval_every=0), "eval_every is 0"),
    "rate": (lambda: BASE.but(learning_rate=0.0), "learning_rate is 0.0: it must be positive"),
    "not a number": (lambda: BASE.but(learning_rate=float("nan")), "learning_rate is nan"),
    "matrix rate": (lambda: BASE.but(matrix_learning_rate=-1), "matrix_learning_rate is -1"),
    "warm-up": (lambda: BASE.but(warmup_steps=100), "warmup_steps is 100 in a run of 100"),
    "negative warm-up": (lambda: BASE.but(warmup_steps=-1), "warmup_steps is -1"),
    "clip": (lambda: BASE.but(grad_clip=-1.0), "grad_clip is -1.0: it must be at least 0"),
    "snapshots": (lambda: BASE.but(n_snapshots=-1), "n_snapshots is -1: it must be at least 0"),
    "mastery": (lambda: BASE.but(mastery=97), "mastery is 97: an accuracy"),
    "until": (lambda: BASE.but(until=90), "until is 90: an accuracy"),
    "preset": (lambda: training.recipe("bijection", "transformer", "huge"), "'huge': choose one of smoke"),
    "pair": (lambda: training.recipe("bijection", "abacus", "smoke"), "no presets for the architecture 'abacus'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_run_could_use_is_refused(case):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_schedules(schedule):
    recipe = BASE.but(schedule=schedule)
    rates = [recipe.rate(step) for step in range(recipe.steps)]
    # Warm-up: ten equal stairs, none of them zero, and the full rate right after.
    assert rates[:10] == pytest.approx([(i + 1) / 11 for i in range(10)])
    assert rates[10] == 1.0
    assert all(0 <= rate <= 1 for rate in rates)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    if schedule == "constant":
        assert set(rates[10:]) == {1.0}
    else:
        assert 0 < rates[-1] <= 1 / 90  # nearly nothing at the last update
        assert rates[55] == pytest.approx(0.5)  # halfway down after half of the 90 updates
        assert recipe.rate(recipe.steps) == pytest.approx(0, abs=1e-12)


def test_a_run_without_warm_up_starts_at_full_rate():
    recipe = BASE.but(warmup_steps=0)
    assert recipe.rate(0) == 1.0
    assert recipe.but(steps=1).rate(0) == 1.0


def test_snapshots_are_log_spaced_and_include_the_last_step():
    assert BASE.snapshot_steps == ()
    assert BASE.but(n_snapshots=1).snapshot_steps == (100,)
    assert BASE.but(n_snapshots=3).snapshot_steps == (1, 10, 100)
    many = BASE.but(steps=3000, n_snapshots=12).snapshot_steps
    assert many[0] == 1
    assert many[-1] == 3000
    assert list(many) == sorted(set(many))
    assert 11 <= len(many) <= 12
    ratios = [b / a for a, b in itertools.pairwise(many[4:])]
    assert max(ratios) / min(ratios) < 1.2
    assert BASE.but(steps=1, warmup_steps=0, n_snapshots=5).snapshot_steps == (1,)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_every_preset_is_a_recipe_with_a_number_of_scoring_episodes(pair, preset):
    recipe = training.recipe(*pair, preset)
    assert (recipe.tunnel, recipe.architecture) == pair
    assert training.N_EPISODES[preset] >= 2
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_presets_are_ordered_by_work():
    for pair in PAIRS:
        recipes = [training.recipe(*pair, p) for p in PRESETS]
        sizes = [models.count_parameters(models.build(one.architecture, model_config(one))) for one in recipes]
        work = [one.steps * one.batch_size * size for one, size in zip(recipes, sizes, strict=True)]
        assert work == sorted(work), pair
    counts = [training.N_EPISODES[p] for p in PRESETS]
    assert counts == sorted(counts)


@pytest.mark.parametrize("pair", PAIRS, ids=" ".join)
def test_every_variant_changes_the_recipe(pair):
    plain = training.recipe(*pair, "classroom")
    supervision = plain.supervision
    for name in variants(*pair):
        changed = training.recipe(*pair, "classroom", name)
        assert (changed.tag == plain.tag) == (name == supervision), name
    joined = training.recipe(*pair, "classroom", "posterior-sampled")
    assert joined.supervision == "sampled"  # the last one counts
    with pytest.raises(ValueError, match="'sideways'.*posterior"):
        training.recipe(*pair, "classroom", "sideways")


def test_a_warm_up_that_would_not_end_is_cut_to_half_of_the_run():
    for steps, wanted in ((50, 25), (100, 50), (1, 0), (101, 100), (2000, 100)):
        assert training.recipe("bijection", "mamba", "classroom", steps=steps).warmup_steps == wanted
    assert training.recipe("bijection", "transformer", "paper", steps=20).warmup_steps == 10
    with pytest.raises(ValueError, match="warmup_steps is 60 in a run of 50"):
        training.recipe("bijection", "mamba", "classroom", steps=50, warmup_steps=60)


def test_the_published_preset_takes_the_precision_of_the_device_and_plans_do_not():
    """A cell of a plan is one run on every machine, under the tag that its stored results bear."""
    assert training.recipe("bijection", "transformer", "paper").precision == "auto"
    cells = [cell for name in PLANS for cell in plan(name) if cell.preset == "paper"]
    assert {cell.recipe.precision for cell in cells} == {"bfloat16"}
    assert "hmm-transformer-seed0-c5c4f555" in {cell.key for cell in cells}


def test_recipes_that_were_stored_keep_their_tags():
    stored = [record for record in checkpoints.shipped() if "recipe_tag" in record]
    assert len(stored) > 20
    for record in stored:
        assert Recipe.from_dict(record["recipe"]).tag == record["recipe_tag"], record["name"]


def test_changes_add_to_the_sizes_of_a_preset():
    recipe = training.recipe("bijection", "transformer", "smoke", model_config={"n_layers": 1})
    assert recipe.model_config["n_layers"] == 1
    assert recipe.model_config["width"] == 16
    again = training.recipe("bijection", "transformer", "smoke")
    assert again.model_config["n_layers"] == 2  # the preset itself stays as it was

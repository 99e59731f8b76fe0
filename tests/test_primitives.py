"""How many inference primitives an architecture realises: the counts, on made-up scores and on the stored record."""

import copy
import json
import shutil

import pytest
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import primitives


@pytest.mark.parametrize(("primitive", "scores", "expected"), [
    ("accumulate", {"entropy_mae": 0.099}, True), ("accumulate", {"entropy_mae": 0.11}, False),
    ("transport", {"entropy_mae": "inf"}, False), ("bind", {"accuracy": 0.9}, True), ("bind", {"accuracy": 0.89}, False),
])
def test_a_primitive_is_realised_by_a_tenth_of_the_uniform_error_or_nine_right_answers(primitive, scores, expected):
    assert primitives.realises(scores, primitive, uniform=1.0) is expected


def test_of_the_two_ways_through_the_race_the_better_counts():
    race = {"lstm plain": {"ended": [False, True]}, "lstm staged": {"ended": [True, True, False]}}
    assert primitives.bound(race, "lstm") == [True, True, False]
    assert primitives.bound(race, "mlp") == []


def test_runs_that_fail_take_an_architecture_its_primitive(tmp_path):
    """An LSTM that never left the plateau, and one whose HMM runs know nothing, is left with the bijection."""
    folder = tmp_path / "records"
    folder.mkdir()
    for name in ("runs", "binding_race", "networks"):
        shutil.copy(store.records_folder() / f"{name}.json", folder)
    whole = primitives.measure(64, 1, folder)
    assert whole["ledger"]["lstm"] == 3 and whole["ledger"]["others"] == 2
    race = copy.deepcopy(store.read("binding_race", folder))
    for way in ("plain", "staged"):
        race["arms"][f"lstm {way}"]["ended"] = [False] * 8
    runs, shipped = store.read("runs", folder), store.read("networks", folder)
    for row in runs["runs"]:
        if row["name"] == "hmm-lstm-classroom":
            row["entropy_mae"] = 0.4
    shipped["networks"].pop("hmm-lstm-classroom")
    for name, record in {"binding_race": race, "runs": runs, "networks": shipped}.items():
        (folder / f"{name}.json").write_text(json.dumps(record))
    found = primitives.measure(64, 1, folder)
    assert found["ledger"] == whole["ledger"] | {"lstm": 1, "others": 1}
    assert found["seeds"]["lstm"]["accumulate"] == {"realised": 3, "n": 3}

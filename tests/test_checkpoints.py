"""Files of weights: what is damaged or foreign is refused by name, what ships keeps its promise."""

from __future__ import annotations

import functools
import json
import math
import os
import pickle
import re
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from _support import ROOT, rng

import bayeswind_lib as bw
from bayeswind_lib import checkpoints
from bayeswind_lib.checkpoints import CheckpointError, files
from bayeswind_lib.tunnels.registry import supervision_of

# What the book promises to ship (design, "The public names that stay put").
PROMISED = {
    ("bijection-transformer", 0),
    ("bijection-transformer-posterior", 0),
    *(("bijection-transformer-classroom", seed) for seed in range(3)),
    *(("bijection-transformer-classroom-posterior", seed) for seed in range(3)),
}
# Largest entropy error and KL, bits, on at least 2,000 fresh episodes.
FLOORS = {
    "bijection-transformer": (0.01, 0.005),
    "bijection-transformer-posterior": (0.002, 0.0003),
    "bijection-transformer-classroom": (0.02, 0.005),
    "bijection-transformer-classroom-posterior": (0.02, 0.005),
}
NAME = re.compile(
    r"(bijection|hmm|regression|recall|hmm_list)-(transformer|mamba|lstm|mlp)(-classroom)?(-[a-z0-9-]+)?"
)


@functools.cache
def trained():
    """A tiny network and its record, trained for two steps."""
    recipe = bw.training.recipe("bijection", "transformer", "smoke", steps=2)
    return bw.training.train(recipe, progress=False)


@pytest.fixture
def saved(tmp_path):
    """The path of a good checkpoint of its own for every test."""
    return checkpoints.save(*trained(), "bijection-transformer-tiny", 0, tmp_path)


def change_record(path: Path, **changes) -> None:
    sidecar = path.with_suffix(".json")
    sidecar.write_text(json.dumps(json.loads(sidecar.read_text()) | changes))


def test_a_score_is_confirmed_by_the_record_or_named_with_what_was_allowed():
    model = checkpoints.load("bijection-transformer-classroom", 1)
    tunnel = bw.tunnels.build("bijection", model.record["tunnel_config"])
    score = bw.score(model, tunnel, 64, rng=rng(0))
    assert checkpoints.confirm(model, score) is score
    with pytest.raises(AssertionError, match=r"classroom, seed 1: kl is [\d.]+ here and [\d.]+ in its record"):
        checkpoints.confirm(model, replace(score, kl=score.kl + 7 * score.kl_se + 0.01))
    with pytest.raises(AssertionError, match="tv is nan here"):
        checkpoints.confirm(model, replace(score, tv=math.nan))
    with pytest.raises(AssertionError, match="entropy_mae"):  # of another tunnel
        checkpoints.confirm(model, bw.score(bw.baselines.Uniform(tunnel), tunnel, 64, rng=rng(0)))


def test_a_network_scores_as_its_learning_curve_ends_or_is_named():
    model = checkpoints.load("bijection-transformer-classroom")
    assert abs(bw.training.score_again(model).kl - model.record["curve"][-1]["kl"]) < 1e-3
    model.record = model.record | {"curve": [{"entropy_mae": 0.0, "kl": 0.0, "tv": 0.0}]}
    with pytest.raises(AssertionError, match=r"classroom, seed 0: entropy_mae is [\d.]+ on the episodes"):
        bw.training.score_again(model)
    assert bw.training.score_again(model, tolerance=1.0)


# A good file.


def test_what_is_saved_is_loaded(saved):
    model, record = trained()
    again = checkpoints.load_file(saved)
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    assert not again.training
    assert not any(p.requires_grad for p in again.parameters())
    assert again.record.items() >= json.loads(json.dumps(record)).items()
    assert again.record["name"] == "bijection-transformer-tiny"
    assert again.record["sha256"] == files.sha256(saved)
    assert saved.name == "bijection-transformer-tiny-seed0.safetensors"
    assert sorted(p.suffix for p in saved.parent.iterdir()) == [".json", ".safetensors"]


def test_smaller_number_types_come_back_as_float32(tmp_path):
    model, record = trained()
    path = checkpoints.save(model, record, "half", 1, tmp_path, dtype=torch.float16)
    again = checkpoints.load_file(path)
    assert again.record["dtype"] == "float16"
    for name, tensor in model.state_dict().items():
        assert again.state_dict()[name].dtype == torch.float32
        assert torch.allclose(again.state_dict()[name], tensor, atol=1e-3)


def test_another_folder_can_stand_in_for_the_shipped_one(saved, monkeypatch):
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(saved.parent))
    assert bw.load("bijection-transformer-tiny").record["steps"] == 2
    assert [r["name"] for r in checkpoints.shipped()] == ["bijection-transformer-tiny"]
    with pytest.raises(CheckpointError, match="no network 'bijection-transformer'.*close to it: bijection-transformer-tiny"):
        bw.load("bijection-transformer")
    with pytest.raises(CheckpointError, match="with seed 5 is shipped"):
        bw.load("bijection-transformer-tiny", seed=5)
    monkeypatch.setenv("BAYESWIND_WEIGHTS", str(saved.parent / "nowhere"))
    with pytest.raises(CheckpointError, match="none ships in .*nowhere"):
        bw.load("bijection-transformer")


def test_infinite_scores_can_be_stored_and_nan_cannot_slip_in(tmp_path):
    model, record = trained()
    checkpoints.save(model, record | {"scores": {"kl": "inf"}}, "ok", 0, tmp_path)
    with pytest.raises(ValueError, match="JSON"):
        checkpoints.save(model, record | {"scores": {"kl": math.nan}}, "bad", 0, tmp_path)
    nameless = {k: v for k, v in record.items() if k != "architecture"}
    with pytest.raises(ValueError, match="the record of bad lacks architecture"):
        checkpoints.save(model, nameless, "bad", 0, tmp_path)
    assert not list(tmp_path.glob("bad*"))  # what is refused leaves nothing behind


# Bad files. Each case spoils a good checkpoint; the message names the path and the reason.


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def cut_in_the_header(path):
    path.write_bytes(path.read_bytes()[:20])


def emptied(path):
    path.write_bytes(b"")


def text(path):
    path.write_text("<html>404: not found</html>\n" * 10)


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights", b"0" * 500)


def torch_saved(path):
    torch.save(trained()[0].state_dict(), path)


def pickled(path):
    path.write_bytes(pickle.dumps({"weights": [1.0]}))


def folder(path):
    path.unlink()
    path.mkdir()


def removed(path):
    path.unlink()


def one_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def swapped(path):
    """The weights of another network under this name."""
    model, _ = trained()
    files.write_tensors(path, {k: v + 1 for k, v in model.state_dict().items()})


def no_record(path):
    path.with_suffix(".json").unlink()


def record_cut(path):
    sidecar = path.with_suffix(".json")
    sidecar.write_text(sidecar.read_text()[:200])


def record_of_bytes(path):
    path.with_suffix(".json").write_bytes(b"\xff\xfe\x00")


def record_is_a_list(path):
    path.with_suffix(".json").write_text("[1, 2]")


def record_without_sha(path):
    sidecar = path.with_suffix(".json")
    record = json.loads(sidecar.read_text())
    del record["sha256"]
    sidecar.write_text(json.dumps(record))


def wider(path):
    change_record(path, config=trained()[1]["config"] | {"width": 32})


def deeper(path):
    change_record(path, config=trained()[1]["config"] | {"n_layers": 3})


def shallower(path):
    change_record(path, config=trained()[1]["config"] | {"n_layers": 1})


def odd_heads(path):
    change_record(path, config=trained()[1]["config"] | {"n_heads": 3})


def other_heads(path):
    """One head instead of two fits all the tensors, but it is another network."""
    change_record(path, config=trained()[1]["config"] | {"n_heads": 1})


def unknown_size(path):
    change_record(path, config=trained()[1]["config"] | {"n_wheels": 3})


def config_is_text(path):
    change_record(path, config="large")


def words_for_numbers(path):
    change_record(path, config=trained()[1]["config"] | {"width": "wide"})


def other_architecture(path):
    change_record(path, architecture="abacus")


def nameless_architecture(path):
    change_record(path, architecture=["transformer"])


BAD = {
    truncated: "truncated, or not a safetensors file",
    cut_in_the_header: "truncated, or not a safetensors file",
    emptied: "truncated, or not a safetensors file",
    text: "truncated, or not a safetensors file",
    zipped: "truncated, or not a safetensors file",
    torch_saved: "truncated, or not a safetensors file",
    pickled: "truncated, or not a safetensors file",
    folder: "no such checkpoint",
    removed: "no such checkpoint",
    one_bit: "differs from the file that its record describes",
    swapped: "differs from the file that its record describes",
    no_record: "the record of these weights is missing",
    record_cut: "not a readable record",
    record_of_bytes: "not a readable record",
    record_is_a_list: "not a record of weights",
    record_without_sha: "not a record of weights, sha256 missing",
    wider: "does not fit its record: .*size mismatch",
    deeper: "does not fit its record: .*Missing key",
    shallower: "does not fit its record: .*Unexpected key",
    odd_heads: "does not fit its record: .*heads must divide",
    other_heads: "does not fit its record: the weights were written for another",
    unknown_size: "does not fit its record: .*n_wheels",
    config_is_text: "does not fit its record: ",
    words_for_numbers: "does not fit its record: ",
    other_architecture: "does not fit its record: no architecture is called 'abacus'",
    nameless_architecture: "does not fit its record: ",
}
ABOUT_RECORD = {no_record, record_cut, record_of_bytes, record_is_a_list, record_without_sha}


def without_note(path: Path) -> None:
    """The same weights in a file whose header says nothing: older files look like that."""
    tensors, _ = files.read_tensors(path)
    change_record(path, sha256=files.write_tensors(path, tensors))


@pytest.mark.parametrize("spoil", BAD, ids=lambda function: function.__name__)
def test_bad_files_are_refused_with_path_and_reason(saved, spoil):
    if "does not fit its record: " in BAD[spoil] and spoil is not other_heads:
        without_note(saved)  # let the network itself find out what does not fit
        checkpoints.load_file(saved)
    spoil(saved)
    named = saved.with_suffix(".json") if spoil in ABOUT_RECORD else saved
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(named))}: {BAD[spoil]}") as caught:
        checkpoints.load_file(saved)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800


REPLACE = """import itertools, os, sys
path, *others = sys.argv[1:]
print(flush=True)
for one in itertools.cycle(others):
    os.link(one, path + ".part")
    os.replace(path + ".part", path)
"""


def test_a_file_that_is_replaced_while_it_is_read_is_whole(tmp_path):
    """A running training puts a new state in the place of the last one, and whoever looks on gets one or the other."""
    path, *others = (tmp_path / f"{name}.safetensors" for name in ("state", "small", "large"))
    for size, other in enumerate(others, 1):
        files.write_tensors(other, {"x": torch.full((size * 1000,), float(size))}, {"size": size, "more": "x" * size})
    os.link(others[1], path)  # not the first that replaces it: of two names of one file, the second would stay
    with subprocess.Popen([sys.executable, "-c", REPLACE, path, *others], stdout=subprocess.PIPE) as writer:
        writer.stdout.readline()
        try:
            for _ in range(2000):
                tensors, note = files.read_tensors(path)
                assert tensors["x"].tolist() == [note["size"]] * (1000 * note["size"])
                assert files.read_note(path)["size"] in (1, 2)
            assert writer.poll() is None
        finally:
            writer.kill()


def test_a_note_is_read_without_the_tensors(tmp_path):
    path = tmp_path / "one.safetensors"
    assert files.read_note(path) is None
    files.write_tensors(path, {"x": torch.zeros(5)}, {"step": 3})
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])  # of a tensor
    assert files.read_note(path) == {"step": 3}
    for size in (0, 5, 20):
        path.write_bytes(whole[:size])
        assert files.read_note(path) is None
    files.write_tensors(path, {"x": torch.zeros(5)})
    assert files.read_note(path) is None


def test_a_checkpoint_cannot_run_code(saved, tmp_path):
    """A pickle that would leave a file behind when it is read: it is refused unread."""
    mark = tmp_path / "executed"

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(mark),)

    for content in (pickle.dumps(Bomb()), b"\x80\x02" + pickle.dumps(Bomb())):
        saved.write_bytes(content)
        with pytest.raises(CheckpointError):
            checkpoints.load_file(saved)
    torch.save({"weights": Bomb()}, saved)
    with pytest.raises(CheckpointError):
        checkpoints.load_file(saved)
    assert not mark.exists()
    pickle.loads(pickle.dumps(Bomb()))  # the bomb itself works
    assert mark.exists()


FORBIDDEN = re.compile(r"\b(pickle|dill|joblib|shelve|torch\.load|torch\.save|allow_pickle|np\.load)\b")


def test_no_pickle_anywhere_in_the_library():
    sources = sorted((ROOT / "bayeswind_lib").rglob("*.py"))
    assert len(sources) > 15
    # Work is sent to a cluster in pickles, as Dask itself does; no file is ever read that way.
    sources = [p for p in sources if p.name != "cluster.py"]
    hits = [(p.name, line) for p in sources for line in p.read_text().splitlines() if FORBIDDEN.search(line)]
    assert not hits
    assert FORBIDDEN.search("model = torch.load(path)")
    weights = checkpoints.weights_folder()
    assert {p.suffix for p in weights.rglob("*") if p.is_file()} <= {".safetensors", ".json"}


def test_a_record_with_another_config_is_refused_even_if_all_tensors_fit(saved):
    for key, value in {"n_heads": 1, "first_output_token": 3, "scored": [0, 2]}.items():
        good = saved.with_suffix(".json").read_text()
        change_record(saved, config=trained()[1]["config"] | {key: value})
        with pytest.raises(CheckpointError, match="another architecture or config"):
            checkpoints.load_file(saved)
        saved.with_suffix(".json").write_text(good)


# Writing.


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch, where):
    path = tmp_path / "record.json"
    files.write_atomically(path, b"old")

    def crash(*words):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, where, crash)
    with pytest.raises(OSError, match="disk is full"):
        files.write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    files.write_atomically(path, b"new and longer")
    assert path.read_bytes() == b"new and longer"
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


def test_of_two_writers_at_once_the_file_is_always_one_s_whole_content(tmp_path):
    path, contents = tmp_path / "record.json", [bytes([letter]) * 20_000 for letter in b"ab"]

    def write(content: bytes) -> None:
        for _ in range(50):
            files.write_atomically(path, content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, content) for content in contents]:
            done.result()
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


def test_content_is_on_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    """A crash of the machine, too, must not leave a name without content: sync comes first."""
    happened, sync, replace = [], os.fsync, os.replace

    def noted_sync(descriptor):
        happened.append(("sync", os.fstat(descriptor).st_size))
        sync(descriptor)

    def noted_replace(source, target):
        happened.append(("rename", Path(source).stat().st_size))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    files.write_atomically(tmp_path / "deep" / "file", b"12345")
    assert happened[:2] == [("sync", 5), ("rename", 5)]
    assert happened[2][0] == "sync"  # the folder, so that the new name lasts


def test_files_can_be_written_where_folders_cannot_be_opened(tmp_path, monkeypatch):
    """Windows refuses to open a folder; the files themselves are synced there too."""
    opened, synced, real_open, sync = [], [], os.open, os.fsync

    def windows_open(path, *words, **settings):
        if os.path.isdir(path):
            opened.append(path)
            raise PermissionError(13, "Permission denied", str(path))
        return real_open(path, *words, **settings)

    monkeypatch.setattr(os, "open", windows_open)
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), sync(descriptor)))
    path = checkpoints.save(*trained(), "bijection-transformer-tiny", 0, tmp_path)
    assert opened and len(synced) == 2
    assert checkpoints.load_file(path).record["seed"] == 0


def test_the_name_that_was_asked_for_is_the_one_in_the_record(saved, tmp_path):
    """A network saved under another name is that network from then on."""
    model = checkpoints.load_file(saved)
    path = checkpoints.save(model, model.record, "bijection-transformer-other", 0, tmp_path / "new")
    assert checkpoints.read_record(path)["name"] == "bijection-transformer-other"


def test_new_weights_beside_an_old_record_are_refused(saved, monkeypatch):
    """A crash between the two files of a checkpoint: never a silent mixture."""
    model, record = trained()
    monkeypatch.setattr(checkpoints, "write_atomically", lambda *words: (_ for _ in ()).throw(OSError()))
    other = {name: tensor * 2 for name, tensor in model.state_dict().items()}
    copy = bw.models.build("transformer", record["config"])
    copy.load_state_dict(other)
    with pytest.raises(OSError):
        checkpoints.save(copy, record, "bijection-transformer-tiny", 0, saved.parent)
    with pytest.raises(CheckpointError, match="differs from the file that its record describes"):
        checkpoints.load_file(saved)


# What ships.


def shipped() -> list[dict]:
    return checkpoints.shipped()


def label(record: dict) -> str:
    return f"{record['name']}-seed{record['seed']}"


def test_all_promised_networks_ship():
    found = {(r["name"], r["seed"]) for r in shipped()}
    assert found >= PROMISED, f"missing: {sorted(PROMISED - found)}"


def test_shipped_files_are_small_and_named_as_agreed():
    weights = checkpoints.weights_folder()
    sizes = {p.name: p.stat().st_size for p in weights.iterdir() if p.is_file()}
    snapshots = {p.name: p.stat().st_size for p in (weights / "snapshots").iterdir()}
    assert sum(sizes.values()) <= 40e6  # whole networks; runs with snapshots have a limit for each tunnel
    assert max(sizes.values()) <= 12e6 and max(snapshots.values()) <= 6e6
    assert all(NAME.fullmatch(name.rpartition("-seed")[0]) for name in snapshots)
    expected = {f"{label(r)}{suffix}" for r in shipped() for suffix in (".json", ".safetensors")}
    assert set(sizes) == expected
    assert all(NAME.fullmatch(r["name"]) for r in shipped())
    assert all(r["name"].startswith(f"{r['tunnel']}-{r['architecture']}") for r in shipped())


NEEDED = {
    "config", "recipe", "recipe_tag", "seed", "data_seed", "commit", "device", "seconds", "scores",
    "sha256", "curve", "parameters", "preset", "schedule_ended", "steps", "episodes", "torch",
}


@pytest.mark.parametrize("record", shipped(), ids=label)
def test_records_say_how_a_network_came_to_be(record):
    assert record.keys() >= NEEDED
    recipe = bw.training.Recipe.from_dict(record["recipe"])
    assert recipe.tag == record["recipe_tag"]
    assert record["schedule_ended"]
    assert record["steps"] == recipe.steps
    assert record["episodes"] == recipe.steps * recipe.batch_size
    assert record["seed"] == recipe.seed
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", record["commit"])
    steps = [row["step"] for row in record["curve"]]
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, recipe.steps)
    seconds = [row["seconds"] for row in record["curve"]]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= record["seconds"] + 1
    assert record["curve"][0]["kl"] > record["curve"][-1]["kl"]
    variants = (checkpoints.variant_of(record) or "").split("-")
    told = [name for name in ("posterior", "sampled") if name in variants]
    assert [recipe.supervision] == (told or [supervision_of(bw.tunnels.find(record["tunnel"]))])


def learnt(record: dict) -> bool:
    """Whether a network got far from where it began; those that did not ship as failures."""
    return record["curve"][0]["kl"] > 20 * record["curve"][-1]["kl"]


def test_what_was_promised_has_learnt():
    assert all(learnt(r) for r in shipped() if (r["name"], r["seed"]) in PROMISED)
    assert sum(not learnt(r) for r in shipped()) < len(shipped()) / 2


@pytest.mark.parametrize("record", shipped(), ids=label)
def test_records_reach_the_floors(record):
    assert record["scores"]["n_episodes"] >= 2000
    if record["name"] in FLOORS:
        error, kl = FLOORS[record["name"]]
        assert record["scores"]["entropy_mae"] <= error
        assert record["scores"]["kl"] <= kl
        assert "classroom" not in record["name"] or record["seconds"] <= 300
    if "classroom" in record["name"]:
        assert record["parameters"] <= 200_000 or "published" in record["name"]
    elif record["tunnel"] == "bijection":
        assert record["parameters"] == 2_677_632
        assert (record["tunnel_config"]["n_values"], record["tunnel_config"]["n_pairs"]) == (20, 20)


@pytest.mark.parametrize("record", shipped(), ids=label)
def test_the_last_row_of_the_curve_is_what_the_weights_score(record):
    """Curve, weights and the fixed evaluation episodes belong together, down to the hash."""
    recipe = bw.training.Recipe.from_dict(record["recipe"])
    episodes, fingerprint = bw.training.loop.evaluation_episodes(recipe)
    assert record["evaluation_sha256"] == fingerprint
    result = bw.scoring.score_episodes(bw.load(record["name"], record["seed"]), episodes)
    exact = record["dtype"] == "float32"
    # Rounded weights: KL is quadratic in the error, the other two are linear. Bits.
    least = {"entropy_mae": 3e-5, "kl": 2e-8, "tv": 3e-5}
    for name in ("entropy_mae", "kl", "tv"):
        rounding = {"rel": 1e-3} if exact else {"rel": 0.12, "abs": least[name]}
        assert getattr(result, name) == pytest.approx(record["curve"][-1][name], **rounding), name


def z_scores(model, record: dict) -> dict[str, float]:
    """Deviation of 128 fresh episodes from the record, in standard errors of the difference."""
    tunnel = bw.tunnels.build(record["tunnel"], record["tunnel_config"])
    fresh = bw.score(model, tunnel, 128, rng=rng(4711))
    return {
        name: (getattr(fresh, name) - record["scores"][name])
        / max(math.hypot(getattr(fresh, f"{name}_se"), record["scores"][f"{name}_se"]), 1e-12)
        for name in bw.scoring.MEASURES
    }


@pytest.mark.parametrize("record", shipped(), ids=label)
def test_shipped_networks_score_what_their_record_says(record):
    model = bw.load(record["name"], record["seed"])
    assert bw.models.count_parameters(model) == record["parameters"]
    for name, z in z_scores(model, record).items():
        assert abs(z) < 4, (name, z)
    # And the check can fail: a random network under the same name is far off.
    copy = bw.models.build(record["architecture"], record["config"], rng())
    assert z_scores(copy, record)["kl"] > 8 or not learnt(record)

"""Trained networks on disk: weights as safetensors, and beside them a JSON record of how they came to be.

The book's own networks lie in the folder `weights` of this package, so that installing the
package brings them along. Set the environment variable BAYESWIND_WEIGHTS to read them from
another folder.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from pathlib import Path

import torch
from torch import nn

from bayeswind_lib import models
from bayeswind_lib.checkpoints.files import (
    CheckpointError,
    read_tensors,
    sha256,
    write_atomically,
    write_tensors,
)
from bayeswind_lib.checkpoints.rounding import smaller, unpacked
from bayeswind_lib.checkpoints.snapshots import Snapshots, load_snapshots, save_snapshots
from bayeswind_lib.scoring import Score

REQUIRED = ("name", "seed", "architecture", "config", "tunnel", "tunnel_config", "sha256")
BUILT_FROM = ("architecture", "config")  # also kept in the header of the weights file


def weights_folder() -> Path:
    """Where shipped networks are looked for."""
    return Path(os.environ.get("BAYESWIND_WEIGHTS") or Path(__file__).parent / "weights")


def path_of(name: str, seed: int = 0, folder: str | Path | None = None) -> Path:
    """The weights file of a named network."""
    return Path(folder or weights_folder()) / f"{name}-seed{seed}.safetensors"


def check_name(name: str) -> None:
    """ValueError if a network cannot be called so: the name is a part of its file's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"{name!r} is no name for a network: write letters, digits, -, _ and . only, "
            "for example bijection-transformer-mine; the folder is an option of its own"
        )


def save(
    model: nn.Module, record: dict, name: str, seed: int = 0, folder: str | Path | None = None,
    dtype: torch.dtype = torch.float32, inputs: torch.Tensor | None = None,
) -> Path:
    """Write a network and its record: each file appears whole or not at all, the record last.

    It names the weights' sha256, so that weights without their record, after a crash in between, are refused.

    Args:
        model: any architecture of the book.
        record: what `train` returned, with `scores` added; JSON types.
        name: `<tunnel>-<architecture>[-classroom][-<variant>]`.
        seed: tells apart runs of one name.
        folder: where to; the package's own folder by default.
        dtype: number type of the stored weights, float32, float16 or int8.
        inputs: of some hundred episodes: only large maps are rounded then (`rounding.smaller`), and
            with int8 for these inputs.
    Returns:
        the path of the weights; the record lies beside it with the suffix `.json`.
    Raises:
        ValueError: for a name that is none, a record that lacks an entry, or int8 without inputs.
    """
    check_name(name)
    if dtype == torch.int8 and inputs is None:
        raise ValueError("eight bits a number are chosen for what the network reads: give inputs, some hundred episodes")
    path = path_of(name, seed, folder)
    full = {**record, "name": name, "seed": seed, "dtype": str(dtype).removeprefix("torch.")}
    missing = [key for key in REQUIRED if key not in {*full, "sha256"}]
    if missing:
        raise ValueError(f"the record of {name} lacks {', '.join(missing)}")
    json.dumps(full, allow_nan=False)  # refuse what cannot be stored before anything is written
    whole = {k: v.to(dtype) for k, v in model.state_dict().items()} if inputs is None else None
    tensors = whole or smaller(model, inputs, dtype)
    full["sha256"] = write_tensors(path, tensors, {key: full[key] for key in BUILT_FROM})
    write_record(path, full)
    return path


def write_record(path: str | Path, record: dict) -> None:
    """Write the record beside a weights file; it appears whole or not at all."""
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    write_atomically(Path(path).with_suffix(".json"), text.encode())


def read_record(path: str | Path) -> dict:
    """The record beside a weights file.

    Raises:
        CheckpointError: if it is missing, is no JSON or lacks a needed entry.
    """
    sidecar = Path(path).with_suffix(".json")
    try:
        record = json.loads(sidecar.read_text())
    except FileNotFoundError:
        raise CheckpointError(f"{sidecar}: the record of these weights is missing") from None
    except (ValueError, OSError) as problem:
        raise CheckpointError(f"{sidecar}: not a readable record ({problem})") from None
    missing = [key for key in REQUIRED if not isinstance(record, dict) or key not in record]
    if missing:
        raise CheckpointError(f"{sidecar}: not a record of weights, {', '.join(missing)} missing")
    return record


def load_file(path: str | Path, device: str | torch.device = "cpu") -> nn.Module:
    """A network from a weights file and the record beside it, in eval mode and float32.

    Returns:
        the network; its attribute `record` is the sidecar's content.
    Raises:
        CheckpointError: if a file is missing, truncated, foreign, altered since it was
            written, or does not fit the config in its record.
    """
    path = Path(path)
    tensors, note = read_tensors(path)
    record = read_record(path)
    if sha256(path) != record["sha256"]:
        raise CheckpointError(
            f"{path}: differs from the file that its record describes (sha256); get a fresh copy of both"
        )
    if note is not None and any(note.get(key) != record[key] for key in BUILT_FROM):
        raise CheckpointError(
            f"{path}: does not fit its record: the weights were written for another "
            "architecture or config than the record says"
        )
    try:
        model = models.build(record["architecture"], record["config"])
        model.load_state_dict(unpacked(tensors))
    except (ValueError, RuntimeError, TypeError) as problem:
        reason = str(problem).splitlines()
        raise CheckpointError(f"{path}: does not fit its record: {' '.join(reason[:3])}") from None
    model.float().to(device).eval().requires_grad_(False)
    model.record = record
    return model


def load(name: str, seed: int = 0, device: str | torch.device = "cpu") -> nn.Module:
    """A network that ships with the book, for example `load("bijection-transformer")`.

    Raises:
        CheckpointError: if there is none of that name and seed; the message names those that are close.
    """
    path = path_of(name, seed)
    if not path.is_file():
        raise CheckpointError(f"no network {name!r} with seed {seed} is shipped; {_near(name)}")
    return load_file(path, device)


def confirm(network: nn.Module, score: Score, slack: float = 0.05) -> Score:
    """The score as given, if it is the one in the network's record; a page that quotes a record asks this first.

    Entropy error, KL and total variation may each differ by six standard errors of both scores and by
    a share `slack` of the stored value.

    Args:
        network: what `load` returned.
        score: of that network, on fresh episodes of its own tunnel.
    Raises:
        AssertionError: naming the measure, both values and the difference allowed.
    """
    stored = network.record["scores"]
    for key in ("entropy_mae", "kl", "tv"):
        now, then = getattr(score, key), stored[key]
        allowed = 6 * math.hypot(getattr(score, f"{key}_se"), stored[f"{key}_se"]) + slack * then
        if not abs(now - then) <= allowed:  # also if one is not a number
            raise AssertionError(
                f"{network.record['name']}, seed {network.record['seed']}: {key} is {now:.6g} here and "
                f"{then:.6g} in its record, and may differ by {allowed:.2g}; score it on its own tunnel, "
                f"{network.record['tunnel']} {network.record['tunnel_config']}, or get a fresh copy of both files"
            )
    return score


def _near(name: str) -> str:
    """Which seeds of a network ship, or which names are close to one that does not."""
    seeds: dict[str, list[int]] = {}
    for path in weights_folder().glob("*-seed*.safetensors"):
        known, _, seed = path.stem.rpartition("-seed")
        seeds.setdefault(known, []).append(int(seed))
    if name in seeds:
        return f"there are: {', '.join(f'seed {seed}' for seed in sorted(seeds[name]))}"
    if not seeds:
        return f"none ships in {weights_folder()}"
    close = difflib.get_close_matches(name, sorted(seeds), n=3, cutoff=0.5)
    found = f"close to it: {', '.join(close)}; " if close else ""
    return f"{found}names that ship: {len(seeds)}, `python -m bayeswind_lib list` shows them"


def variant_of(record: dict) -> str | None:
    """What a network's name adds to tunnel, architecture and size; None for the plain one.

    >>> variant_of({"name": "hmm-lstm-classroom-wide", "tunnel": "hmm", "architecture": "lstm"})
    'wide'
    """
    plain = f"{record['tunnel']}-{record['architecture']}"
    rest = record["name"].removeprefix(plain).removeprefix("-classroom")
    return rest.removeprefix("-") or None


def content(file: str) -> bytes:
    """A shipped file of weights as it lies on disk, for what runs a network outside Python.

    Args:
        file: its path below the folder of weights, without suffix, seed and all: a network
            ("bijection-transformer-seed0") or a run's snapshots ("snapshots/...-seed0").
    Raises:
        CheckpointError: if there is none of that name; the message lists what there is.
    """
    folder = weights_folder()
    files = {path.relative_to(folder).with_suffix("").as_posix(): path for path in folder.rglob("*.safetensors")}
    if file not in files:
        known = ", ".join(sorted(files)) or "none"
        raise CheckpointError(f"{folder}: no file of weights {file!r} is shipped; there are: {known}")
    return files[file].read_bytes()


def shipped(folder: str | Path | None = None) -> list[dict]:
    """The records of all shipped networks, or of those in another folder, sorted by name and seed.

    In another folder, every weights file with a record beside it counts, whatever its name. A training
    run's own state, which may lie there, has none.

    Raises:
        CheckpointError: if there is no such folder, or a record is missing or damaged.
    """
    place = Path(folder or weights_folder())
    if folder is not None and not place.is_dir():
        raise CheckpointError(f"{place}: no such folder")
    files = {*place.glob("*-seed*.safetensors")}
    if folder is not None:
        files |= {path for path in place.glob("*.safetensors") if path.with_suffix(".json").is_file()}
    records = [read_record(path) for path in files]
    return sorted(records, key=lambda record: (record["name"], record["seed"]))


__all__ = [
    "CheckpointError",
    "Snapshots",
    "confirm",
    "content",
    "load",
    "load_file",
    "load_snapshots",
    "path_of",
    "read_record",
    "save",
    "save_snapshots",
    "shipped",
    "variant_of",
    "weights_folder",
    "write_record",
]

"""Weights on disk: safetensors beside a JSON record, written so that no crash can spoil them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes


class CheckpointError(RuntimeError):
    """A file that cannot be used as a checkpoint; the message names the path and the reason."""


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file under a temporary name, force it to disk, then rename it into place.

    Whoever reads `path` sees the old content or the new one, never a part of either, also
    when the process is killed in between. Of several writers the last one wins, with its whole content.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")  # no other writer's
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Force a folder's new names to disk, where the system opens folders (Windows refuses)."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_writable(folder: str | Path) -> None:
    """Make a folder if need be, and try to write into it: before hours of work, not after them.

    Raises:
        OSError: if files cannot be written there.
    """
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise type(problem)(f"{folder}: nothing can be written there ({problem.strerror}); name another folder") from None


def write_tensors(path: str | Path, tensors: dict[str, torch.Tensor], note: dict | None = None) -> str:
    """Write tensors with a JSON note in the file's header; returns the sha256 of the file."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    content = to_bytes(flat, {"note": json.dumps(note)} if note is not None else None)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: str | Path) -> tuple[dict[str, torch.Tensor], dict | None]:
    """The tensors of a file and its note (None if it has none).

    The file is opened once: while it is read, another process may put a newer one in its place.

    Raises:
        CheckpointError: if the file is missing, truncated or no safetensors file.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint")
    try:
        content = path.read_bytes()
        tensors = from_bytes(content)
    except (SafetensorError, OSError) as problem:
        raise CheckpointError(
            f"{path}: truncated, or not a safetensors file ({problem}); get a fresh copy of it"
        ) from None
    return dict(sorted(tensors.items())), _note_in(content[8 : 8 + _header_size(content)])


def read_note(path: str | Path) -> dict | None:
    """The note of a file, without its tensors; None if it has none, or there is no whole header."""
    try:
        with open(path, "rb") as file:
            return _note_in(file.read(_header_size(file.read(8))))
    except (OSError, ValueError):
        return None


def _header_size(start: bytes) -> int:
    """How long the header of a safetensors file is, from the 8 bytes before it."""
    return int.from_bytes(start[:8], "little")


def _note_in(header: bytes) -> dict | None:
    note = json.loads(header).get("__metadata__", {}).get("note")
    return None if note is None else json.loads(note)


def sha256(path: str | Path) -> str:
    """The sha256 of a file, hexadecimal."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()

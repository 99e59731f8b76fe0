"""Stored records: JSON files with what was measured, their seeds and the commit.

The folder is the ledger's own `records`; the environment variable BAYESWIND_RECORDS names
another one, for trying out what a changed record would change.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from bayeswind_lib.checkpoints.files import write_atomically

ABOUT = ("commit", "device", "torch", "python", "date", "threads", "cost")  # how, not what, was measured


def records_folder() -> Path:
    """Where stored records are looked for."""
    return Path(os.environ.get("BAYESWIND_RECORDS") or Path(__file__).parents[1] / "ledger" / "records")


def read(name: str, folder: str | Path | None = None) -> dict | None:
    """The record of that name, or None if none is stored.

    Raises:
        ValueError: if the file is no JSON.
    """
    path = Path(folder or records_folder()) / f"{name}.json"
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text())
    except ValueError as problem:
        raise ValueError(f"{path}: not a readable record ({problem}); run make records") from None


def stamp(name: str, folder: str | Path | None = None) -> tuple[int, int, int] | None:
    """What changes when the record's file is written again; None if there is no such file."""
    try:
        found = (Path(folder or records_folder()) / f"{name}.json").stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def lookup(record: dict | None, key: str):
    """The entry under a path such as "tasks/V20-L19/distinct/baselines/uniform/kl", or None."""
    for part in key.split("/"):
        if not isinstance(record, dict) or part not in record:
            return None
        record = record[part]
    return record


def write(name: str, record: dict, folder: str | Path | None = None) -> bool:
    """Store a record, unless the stored one says the same already.

    A record that differs from the stored one only in commit and machine, or in digits that
    another processor would round otherwise, is left alone: a second run changes nothing.

    Returns:
        True if the file was written.
    """
    old = read(name, folder)
    if old is not None and same(_content(old), _content(plain(record))):
        return False
    text = json.dumps(plain(record), indent=1, sort_keys=True, allow_nan=False) + "\n"
    write_atomically(Path(folder or records_folder()) / f"{name}.json", text.encode())
    return True


def same(a, b, tolerance: float = 1e-6) -> bool:
    """Whether two JSON values agree, numbers up to a relative difference of `tolerance`."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) or isinstance(b, float):
        numbers = isinstance(a, int | float) and isinstance(b, int | float)
        return numbers and math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-12)
    return a == b


def plain(value, digits: int | None = 10):
    """JSON types: infinity becomes "inf", NaN None; floats keep some significant digits (None: all)."""
    if isinstance(value, dict):
        return {str(key): plain(entry, digits) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, digits) for entry in value]
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return value if digits is None else float(f"{value:.{digits}g}")
    return value


def _content(record: dict) -> dict:
    return {key: value for key, value in record.items() if key not in ABOUT}

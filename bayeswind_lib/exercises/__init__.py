"""Checks that know the mathematics: they grade an answer by what must hold, never by a stored result.

One module a chapter. `bw.exercises.ch01.check_surprise(my_surprise)` tries the answer on random
instances and returns a `Report`, which a notebook shows.
"""

from __future__ import annotations

import importlib
import pkgutil

from bayeswind_lib.exercises.core import Report, grade


def chapters() -> list[str]:
    """The chapters that have checks, by module name: ["ch01", ...]."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name.startswith("ch"))


def __getattr__(name: str):
    if name in chapters():
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"no chapter called {name!r} has exercises: choose one of {chapters()}")


def __dir__() -> list[str]:
    return sorted({*globals(), *chapters()})


__all__ = ["Report", "chapters", "grade"]

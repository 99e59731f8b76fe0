"""The record `probe_settling`: when each quantity settles, over five seeds, and the ladder of freezes.

A small HMM transformer (`training.plans.LADDER`): five seeds with a falling and five with a constant
rate, free and with a part of attention frozen from some update on. All is trained in a folder first,
and measured from it; the package ships none of these networks:

    python -m bayeswind_lib records probe_settling --runs FOLDER

Fleets that are in the folder are not trained again.

Axes: C snapshots, L layers, R runs of a fleet.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from scipy import optimize

from bayeswind_lib import scoring, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.checkpoints.files import read_tensors, write_tensors
from bayeswind_lib.experiments.progress import rounded
from bayeswind_lib.probes import progress, settling
from bayeswind_lib.probes.activations import activations, edit
from bayeswind_lib.probes.fixed import episodes_of, rng_for
from bayeswind_lib.probes.progress import way_done
from bayeswind_lib.training import fleet
from bayeswind_lib.training.cluster import run_missing
from bayeswind_lib.training.loop import start
from bayeswind_lib.training.plans import FIVE, FREEZE_AT, FROZEN, ladder_recipes
from bayeswind_lib.training.recipe import Recipe

FOLDER = Path("runs/settling")
FRAMES, STRANGERS = "frames", "strangers"  # two more fleets a seed: see `train_frames` and `train_strangers`
LATER, N_STRANGERS = FREEZE_AT["linear"][1:], 4  # N_STRANGERS: untrained frames for each seed and sharpness
RATES = {FRAMES: FRAMES, STRANGERS: STRANGERS, "linear": "falling", "constant": "constant"}
NUDGE = 1e-7  # relative: a change of the last bit of each first weight
EPISODES, FINAL_EPISODES = 128, 1000  # for distances, and for the scores at the end
SIMULATED = 4000  # experiments with five normal numbers each, for the coverage of intervals
FRAME = ("patterns", "scores", "keys")  # where attention looks
OTHERS = ("gram", "hidden gram", "axis share")  # what it carries, the control, and the published axis
PRECISION = ("kl", "entropy_mae", "log kl", "sure kl")
PAIRS = (*product((*FRAME, *OTHERS), PRECISION), ("patterns", "gram"), ("patterns", "hidden gram"), ("scores", "gram"))
CLAIMED = ("patterns over kl", "patterns over gram")  # of which the ledger has rows, with nulls of their own
DEALS, DEALT = 4, 32  # sets of episodes for each seed's null, and episodes in one
KEPT = ("runs", "ladder")  # what only the folder gives


def path_of(folder: str | Path, schedule: str, seed: int) -> Path:
    """Where the weights of a fleet lie: of the free run at its snapshots, of all others at the end."""
    return Path(folder) / "ladder" / f"{RATES[schedule]}-seed{seed}.safetensors"


def train(folder: str | Path, schedule: str, seed: int) -> Path:
    """Train one fleet, and keep "free/STEP/NAME" and "LABEL/end/NAME"; nothing to do if it is there."""
    if schedule in (FRAMES, STRANGERS):
        return {FRAMES: train_frames, STRANGERS: train_strangers}[schedule](folder, seed)
    path, recipes = path_of(folder, schedule, seed), ladder_recipes(schedule, seed)
    if path.exists():
        return path
    begun, labels = time.process_time(), list(recipes)
    now = fleet.assemble(list(recipes.values()), [NUDGE if label == "nudged" else 0 for label in labels])
    if "uniform" in labels:
        fleet.freeze_at_start(now, labels.index("uniform"), FROZEN["looks"], 0)
    free, kept = recipes["free"], {}
    for step in range(free.steps + 1):
        if step in (0, *free.snapshot_steps):
            kept |= {f"free/{step}/{name}": x for name, x in fleet.weights_of(now, labels.index("free")).items()}
        if step < free.steps:
            fleet.update(now)
    return _keep(path, now, labels, kept, begun)


def _keep(path: Path, now: fleet.Fleet, labels: list[str], kept: dict, begun: float) -> Path:
    """Write what was kept on the way, all weights at the end, and where they come from."""
    for i, label in enumerate(labels):
        kept |= {f"{label}/end/{name}": x for name, x in fleet.weights_of(now, i).items()}
        if label.startswith(tuple(SITES)):  # and of the copy whose frame or values it was handed
            kept |= {f"{label}/old/{name}": x[i].detach().clone() for name, x in now.old.items()}
    note = {"recipe": now.recipes[0].to_dict(), "labels": labels, "cpu_seconds": round(time.process_time() - begun, 1)}
    note |= {name: now.run.environment[name] for name in ("commit", "device") if name in now.run.environment}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, kept, note)
    return path


SITES = {"frame": ("attention.pattern", ()), "values": ("attention.value", ("*.attention.output.weight",))}
LARGE = 1 / (0.02 * math.sqrt(32))  # first maps of the size that keeps a stream's length, in place of 0.02


def train_frames(folder: str | Path, seed: int) -> Path:
    """A second fleet of one seed, falling rate: frames, or values, that are held as they are from an update on.

    "frame-60" gets the patterns of its own copy from update 60, "values-60" the value vectors (and keeps
    the map from heads to the stream). "looks-large" and "carries-large" never train the maps that
    "looks-0" and "carries-0" do not, but draw them `LARGE` times as large.
    """
    path = path_of(folder, FRAMES, seed)
    if path.exists():
        return path
    begun, free = time.process_time(), ladder_recipes("linear", seed)["free"]
    labels = [f"{what}-{step}" for what, step in product(SITES, LATER)] + [f"{what}-large" for what in FROZEN]
    now = fleet.assemble([free] * len(labels))
    for i, label in enumerate(labels):
        what, when = label.split("-")
        if what in SITES:
            fleet.hold_site(now, i, SITES[what][0], int(when), SITES[what][1])
        else:
            fleet.freeze_at_start(now, i, FROZEN[what], LARGE)
    for _ in range(free.steps):
        fleet.update(now)
    return _keep(path, now, labels, {}, begun)


def train_strangers(folder: str | Path, seed: int) -> Path:
    """A third fleet of one seed, falling rate: frames of untrained networks, held from the start.

    "frame-60-stranger0" gets the patterns of one that are, in each layer, as sharp as the free run's after 60 updates.
    """
    path = path_of(folder, STRANGERS, seed)
    if path.exists():
        return path
    begun, free = time.process_time(), ladder_recipes("linear", seed)["free"]
    cells, sharpness = list(product(LATER, range(N_STRANGERS))), sharpness_of(free)
    now = fleet.assemble([free] * len(cells))
    for i, (step, k) in enumerate(cells):
        copy = sharpened(free.but(seed=free.seed + 100 * (k + 1)), sharpness[step])
        fleet.hold_site(now, i, SITES["frame"][0], 0, copy=copy)
    for _ in range(free.steps):
        fleet.update(now)
    return _keep(path, now, [f"frame-{step}-stranger{k}" for step, k in cells], {}, begun)


def sharpness_of(recipe: Recipe) -> dict[int, list[float]]:
    """By update of `LATER`, the entropy of attention in each layer of the free run, in bits."""
    now, found = fleet.assemble([recipe]), {}
    for step in range(max(LATER) + 1):
        if step in LATER:
            weights = fleet.weights_of(now, 0)
            found[step] = [attention_bits(recipe, weights, layer) for layer in range(now.run.model.config.n_layers)]
        fleet.update(now)
    return found


def attention_bits(recipe: Recipe, weights: fleet.Weights, layer: int) -> float:
    """Mean entropy of a layer's patterns, over fixed episodes, heads and queries, in bits."""
    model, site = start(recipe).model.eval(), f"pattern.{layer}"
    model.load_state_dict(weights)
    return float(scoring.entropy_bits(activations(model, episodes_of(recipe, DEALT).inputs, [site])[site].log2()).mean())


def sharpened(recipe: Recipe, bits: list[float]) -> fleet.Weights:
    """First weights whose queries and keys are so long that attention in each layer has the wanted entropy."""
    found = {name: p.detach().clone() for name, p in start(recipe).model.named_parameters()}
    for layer, wanted in enumerate(bits):
        excess = functools.partial(_excess_bits, recipe, found, layer, wanted)
        if excess(0.0) > 0:  # else it is as even as it was at first
            found = _longer(found, layer, optimize.brentq(excess, 0.0, math.log(1e4), xtol=1e-3))
    return found


def _longer(weights: fleet.Weights, layer: int, log_factor: float) -> fleet.Weights:
    """With queries and keys of a layer times a factor."""
    names = [name for name in weights if name.startswith(f"blocks.{layer}.") and name.endswith(("query.weight", "key.weight"))]
    return weights | {name: math.exp(log_factor) * weights[name] for name in names}


def _excess_bits(recipe: Recipe, weights: fleet.Weights, layer: int, wanted: float, log_factor: float) -> float:
    return attention_bits(recipe, _longer(weights, layer, log_factor), layer) - wanted


def cells() -> list[tuple[str, int]]:
    """Schedule and seed of all fleets, the falling rate first."""
    return list(product((*FREEZE_AT, FRAMES, STRANGERS), FIVE))


# ---- measuring a folder


def measure_folder(folder: str | Path, n_episodes: int = EPISODES, n_final: int = FINAL_EPISODES) -> dict:
    """The fleets that have ended.

    Returns:
        "runs": by rate and seed the free run's curves, its settling times, and those of weights that go
            straight from its start to its end as fast as the rate allows; what was trained, and where.
        "ladder": by rate, label and seed the final scores of every run.
    """
    found: dict = {"runs": {}, "ladder": {}}
    for schedule, seed in cells():
        path = path_of(folder, schedule, seed)
        if not path.exists():
            continue
        tensors, note = read_tensors(path)
        recipe, runs = Recipe.from_dict(note["recipe"]), _sorted_out(tensors)
        rate = "falling" if schedule in (FRAMES, STRANGERS) else RATES[schedule]
        about = {name: note[name] for name in ("commit", "device", "cpu_seconds") if name in note}
        if schedule in (FRAMES, STRANGERS):
            found["runs"][rate][str(seed)][schedule] = about
        else:
            way = {step: runs["free"][step] for step in (0, *recipe.snapshot_steps)}
            entry = about | {"key": recipe.tag} | curves(recipe, way, n_episodes)
            entry["moved"] = moved(recipe, runs, n_episodes)
            if schedule == "linear":
                entry["nulls"] = draws_of(recipe, way, runs["uniform"]["end"], min(n_episodes, DEALT))
            found["runs"].setdefault(rate, {})[str(seed)] = entry
        for label in note["labels"]:
            score = final_score(recipe, runs[label]["end"], n_final, label, runs[label].get("old"))
            found["ladder"].setdefault(rate, {}).setdefault(label, {})[str(seed)] = score
    return found


def draws_of(recipe: Recipe, way: dict, even: dict, n_episodes: int) -> list[dict]:
    """`DEALS` draws of a seed's nulls, each on episodes of its own: ratios of settling times on the straight line
    ("line"), and what uniform attention costs beside the free run ("even")."""
    model, steps, found = start(recipe).model, list(way), []
    shares = way_done(recipe, steps).tolist()
    line = progress.line(way[steps[0]], way[steps[-1]], shares)
    for deal in range(1, DEALS + 1):
        episodes = episodes_of(recipe, n_episodes, deal)
        times = settled(steps, settling.readings(model, dict(zip(steps, line.values(), strict=True)), episodes))
        row = {pair: times[pair.split(" over ")[0]]["step"] / times[pair.split(" over ")[1]]["step"] for pair in CLAIMED}
        scores = []
        for weights in (even, way[steps[-1]]):
            model.load_state_dict(weights)
            scores.append(scoring.score_episodes(model.eval(), episodes))
        cost = {what: getattr(scores[0], what) / getattr(scores[1], what) for what in ("entropy_mae", "kl")}
        found.append({"line": _short(row), "even": _short(cost)})
    return found


def moved(recipe: Recipe, runs: dict, n_episodes: int) -> dict:
    """How far patterns went (TV, mean over layers) from the update at which queries and keys were frozen, to the end."""
    model, episodes, found = start(recipe).model, episodes_of(recipe, n_episodes), {}
    for label, step in (("free", 0), ("looks-0", 0), ("looks-18", 18)):
        if label in runs and step in runs["free"]:
            seen = progress.observe_snapshots(model, {0: runs["free"][step], 1: runs[label]["end"]}, episodes)
            found[label] = float(f"{np.mean(progress.DISTANCES['attention'](seen[0], seen[1])):.4g}")
    return found


def _sorted_out(tensors: dict) -> dict:
    """Weights by label and step from names such as "free/18/norm.gain"."""
    runs: dict = {}
    for name, x in tensors.items():
        label, step, parameter = name.split("/", 2)
        runs.setdefault(label, {}).setdefault(int(step) if step.isdigit() else step, {})[parameter] = x
    return runs


def curves(recipe: Recipe, snapshots: dict, n_episodes: int) -> dict:
    """A run's quantities and settling times, and the settling times on the straight line."""
    model, episodes, steps = start(recipe).model, episodes_of(recipe, n_episodes), list(snapshots)
    run = settling.readings(model, snapshots, episodes)
    shares = way_done(recipe, steps).tolist()
    line = progress.line(snapshots[steps[0]], snapshots[steps[-1]], shares)
    straight = settling.readings(model, dict(zip(steps, line.values(), strict=True)), episodes)
    return {
        "steps": steps, "curves": {what: rounded(q) for what, q in run.items()},
        "settled": settled(steps, run), "line": settled(steps, straight),
    }


def settled(steps: list, run: dict) -> dict:
    """By quantity: updates, and whether only the last snapshot is near the end. "log kl": of the divergence's logarithm."""
    run = run | {"log kl": np.log(run["kl"])}
    found = {what: settling.settling(steps, q) for what, q in run.items()}
    return {what: {"step": float(f"{one.step:.5g}"), "at_end": one.at_end} for what, one in found.items()}


def final_score(recipe: Recipe, weights: dict, n_episodes: int, label: str = "", old: dict | None = None) -> dict:
    """KL and entropy error (bits) on fresh episodes, the same for all; with what a copy (`old`) hands on, if there is one."""
    model = start(recipe).model
    model.load_state_dict(weights)
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    episodes, changes = tunnel.sample(n_episodes, rng_for(tunnel, 470)), {}
    if old is not None:
        copy = start(recipe).model
        copy.load_state_dict(old)
        site = SITES[label.split("-")[0]][0].split(".")[1]  # "pattern" or "value"
        given = activations(copy.eval(), episodes.inputs, [f"{site}.*"])
        changes = {name: (lambda own, x=x: x) for name, x in given.items()}
    with edit(model.eval(), changes):
        score = scoring.score_episodes(model, episodes, n_episodes)
    return {name: float(f"{getattr(score, name):.5g}") for name in ("kl", "kl_se", "entropy_mae")}


# ---- what is computed from it


def measure(
    n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None,
    workers: int = 1, report: Callable = print,
) -> dict:
    """Train what is missing of all fleets (twenty minutes of one core), and measure them.

    Args:
        n_episodes: at most `EPISODES` are used; a trial with fewer takes the stored runs over instead.
        draws: not used; the nulls have `DEALS` draws a seed.
        records: where the stored record lies.
        runs: the folder of the fleets, `runs/settling` by default.
    """
    if n_episodes < EPISODES:
        stored = store.read("probe_settling", records) or {}
        found = {key: stored.get(key, {}) for key in KEPT}
    else:
        folder = Path(runs or FOLDER)
        run_missing(functools.partial(train_cell, folder), cells(), lambda cell: path_of(folder, *cell), workers, report)
        found = measure_folder(folder)
    return summed_up(found) | {"n_episodes": min(n_episodes, EPISODES)}


def train_cell(folder: Path, cell: tuple[str, int]) -> Path:
    """`train`, with a fleet's schedule and seed as one argument."""
    return train(folder, *cell)


def summed_up(found: dict) -> dict:
    """The record: runs and ladder, with ratios over seeds, frozen over free runs, and coverage of intervals."""
    found = found | {"ratios": ratios(found["runs"]), "frozen_over_free": frozen_over_free(found["ladder"])}
    found["coverage"] = stats.coverage(len(FIVE), SIMULATED, np.random.default_rng(0))
    return found | nulls(found) | {"claims": claims(found)}


def ratios(runs: dict) -> dict:
    """By rate: how many times later one quantity settles than another, seed by seed, with its intervals.

    "line": the same on the straight line. "at_end": in how many seeds one of the two settles only at the end.
    """
    result: dict = {}
    for rate, seeds in runs.items():
        for a, b in PAIRS:
            times = {
                where: [[one[where][what]["step"] for one in seeds.values()] for what in (a, b)]
                for where in ("settled", "line")
            }
            entry = _short(stats.ratio_interval(*times["settled"])) if len(seeds) > 1 else {}
            entry["line"] = _short(stats.ratio_interval(*times["line"])) if len(seeds) > 1 else {}
            entry["at_end"] = sum(one["settled"][a]["at_end"] or one["settled"][b]["at_end"] for one in seeds.values())
            result.setdefault(rate, {})[f"{a} over {b}"] = entry
    return result


def _short(entry: dict) -> dict:
    return {what: rounded(x) if isinstance(x, list) else float(f"{x:.5g}") for what, x in entry.items()}


def frozen_over_free(ladder_scores: dict) -> dict:
    """By rate and label: final KL over that of the free run of the same seed, with its intervals."""
    result: dict = {}
    for rate, labels in ladder_scores.items():
        for label, seeds in labels.items():
            if label == "free" or "stranger" in label or len(seeds) < 2:
                continue
            pairs = [(one["kl"], labels["free"][seed]["kl"]) for seed, one in seeds.items()]
            result.setdefault(rate, {})[label] = _short(stats.ratio_interval(*zip(*pairs, strict=True)))
        spread = [abs(math.log(x)) for x in result.get(rate, {}).get("nudged", {}).get("each", [])]
        if spread:
            result[rate]["rounding"] = float(f"{math.exp(max(spread)):.5g}")
    return result


def claims(found: dict) -> dict:
    """What the ledger asks for: by rate the largest ratio of settling times over seeds, and mean factors of the ladder."""
    result: dict = {
        rate: {what: max(entry["each"]) for what, entry in pairs.items() if "each" in entry}
        for rate, pairs in found["ratios"].items()
    }
    for label, what in (("looks-60", "entropy_mae"), ("frame-60", "kl"), ("frame-120", "kl")):
        if factors := over_free(found["ladder"].get("falling", {}), label, what):
            result[label] = float(np.exp(np.mean(np.log(factors))))
    return result


def nulls(found: dict) -> dict:
    """Over seeds and deals with a falling rate: "line", ratios of settling times; "even", what uniform attention costs; and
    "strangers", by the update whose sharpness they have, what the frames of untrained networks cost."""
    draws = [draw for one in found["runs"].get("falling", {}).values() for draw in one["nulls"]]
    result = {what: stats.summaries([draw[what] for draw in draws]) if draws else {} for what in ("line", "even")}
    ladder = found["ladder"].get("falling", {})
    costs = {str(step): [x for k in range(N_STRANGERS) for x in over_free(ladder, f"frame-{step}-stranger{k}", "kl")] for step in LATER}
    return result | {"strangers": {step: stats.summary(found) for step, found in costs.items() if found}}


def over_free(labels: dict, label: str, what: str) -> list[float]:
    """A final score over that of the free run of the same seed, seed by seed."""
    return [one[what] / labels["free"][seed][what] for seed, one in labels.get(label, {}).items()]

"""The record `probe_progress`: how far attention, values and belief are from their end, over training.

Two parts. What the package holds is measured by `measure`: the shipped snapshots of seed 0
("shipped"), the straight line and the random walk between their ends ("line", "walk"), and how far
apart three shipped seeds are ("seed_distances"). What only the folder of a sweep holds, the curves of
all seeds ("runs") and the runs with a frozen part ("frozen"), is measured by `measure_folder` and
kept by `measure` as it is stored. To write it in, after `bayeswind_lib sweep snapshots frozen`:

    python -m bayeswind_lib records probe_progress --runs FOLDER

"claims" is computed from both.

Axes: C snapshots, L layers, S shares of a way.
"""

from __future__ import annotations

import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
from torch import nn

from bayeswind_lib import checkpoints, scoring, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.checkpoints.files import read_tensors
from bayeswind_lib.probes import progress as probe
from bayeswind_lib.probes.fixed import episodes_of, rng_for
from bayeswind_lib.probes.nulls import untrained
from bayeswind_lib.probes.progress import MEASURES, SHARES, gain, gram_share, left, ratios, way_done
from bayeswind_lib.training.loop import snapshot_path, start
from bayeswind_lib.training.plans import CONSTANT, FALLING, SEEDS_OF, plan
from bayeswind_lib.training.recipe import Recipe
from bayeswind_lib.training.sweep import ended_cells, weights_of

TUNNELS = ("bijection", "hmm")
LEVELS = (0.5, 0.9)
EPISODES = 128  # enough for distances, which hardly differ between episodes
KEPT = ("runs", "frozen", "apart")  # what only the folder of a sweep gives


def measure(
    n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None
) -> dict:
    """All of the record: what the package holds measured, what it does not hold kept.

    Args:
        n_episodes: at most `EPISODES` are used. draws: of random walks, at most 20.
        records: where the stored record lies, of which `KEPT` is taken over.
        runs: the folder of the sweeps `snapshots` and `frozen`, from which `KEPT` is measured instead.
    """
    n = min(n_episodes, EPISODES)
    stored = measure_folder(runs, n) if runs else store.read("probe_progress", records) or {}
    found = {key: stored.get(key, {}) for key in KEPT}
    found["shipped"], found["line"], found["walk"] = {}, {}, {}
    for tunnel in TUNNELS:
        snapshots = checkpoints.load_snapshots(FALLING.format(tunnel))
        recipe = Recipe.from_dict(snapshots.note["recipe"])
        model, episodes = snapshots.network(0), episodes_of(recipe, n)
        found["shipped"][tunnel] = curves(model, snapshots.weights, episodes)
        found["walk"][tunnel] = walks(model, snapshots.weights, recipe, n, min(draws, 20))
        found["line"][tunnel] = lines(shipped_ways(tunnel), min(n, 32), draws)
    found["untrained"] = untrained_over_trained(draws)
    found["seed_distances"] = seed_distances_of([checkpoints.load(SEEDS_OF, seed) for seed in range(3)], n)
    return found | {"n_episodes": n, "claims": claims(found)}


def rounded(x, digits: int = 5):
    """Lists of floats with few digits, so that the record stays small."""
    return [float(f"{v:.{digits}g}") if not isinstance(v, list) else rounded(v, digits) for v in np.asarray(x).tolist()]


def curves(model: nn.Module, snapshots: dict, episodes) -> dict:
    """Distances from the end by layer, scores, distances between neighbours, transplants, and when all settle."""
    found = probe.progress(model, snapshots, episodes)
    row: dict = {"steps": [int(step) for step in found.steps]}
    row |= {name: rounded(getattr(found, name)) for name in (*MEASURES, "kl", "entropy_mae")}
    row["between"] = {name: rounded(x) for name, x in found.between.items()}
    row["transplants"] = {what: rounded(kl) for what, kl in probe.transplants(model, snapshots, episodes).items()}
    ends = [snapshots[step] for step in (row["steps"][0], row["steps"][-1])]
    row["line"] = line_of(model, *ends, episodes)
    return row | {"settled": settled(found)}


def line_of(model: nn.Module, first: dict, last: dict, episodes) -> dict:
    """The distances on the straight way between two networks, mean over layers, at `SHARES`."""
    way = probe.progress(model, probe.line(first, last, SHARES), episodes)
    return {name: rounded(way.distance(name)) for name in MEASURES} | {"kl": rounded(way.kl)}


def settled(found: probe.Progress) -> dict:
    """Updates to each level of each progress, by measure; "gram" is the square root of "values"."""
    done = {name: found.share(name) for name in (*MEASURES, "kl", "entropy_mae")}
    done["gram"] = 1 - gram_share(found.values)
    done["log kl"] = np.log(found.kl[0] / found.kl) / np.log(found.kl[0] / found.kl[-1])
    return {
        name: {f"{level:g}": probe.steps_to(found.steps, share, level) for level in LEVELS}
        for name, share in done.items()
    }


def shipped_ways(tunnel: str) -> list[tuple[Recipe, dict, dict]]:
    """Recipe, first and last weights of the shipped runs of a tunnel, seed by seed."""
    snapshots = checkpoints.load_snapshots(FALLING.format(tunnel))
    ways = [(Recipe.from_dict(snapshots.note["recipe"]), snapshots.weights[0], snapshots.weights[snapshots.steps[-1]])]
    if tunnel == "bijection":
        for seed in (1, 2):
            model = checkpoints.load(SEEDS_OF, seed)
            recipe = Recipe.from_dict(model.record["recipe"])
            ways.append((recipe, start(recipe).model.state_dict(), model.state_dict()))
    return ways


def lines(ways: list[tuple[Recipe, dict, dict]], n: int, draws: int) -> dict:
    """Weights that go straight from start to end as the rate allows: ratios of settling times, by schedule.

    Each run's line is measured on several sets of n episodes: at least 20 in all, or as many as `draws`.
    """
    found, deals = {}, math.ceil(min(draws, 20) / len(ways))
    for schedule in ("linear", "constant"):
        rows = []
        for (recipe, first, last), deal in product(ways, range(deals)):
            recipe = recipe.but(schedule=schedule, n_snapshots=24)
            steps = [0, *recipe.snapshot_steps]
            shares = way_done(recipe, steps)
            way = probe.line(first, last, shares.tolist())
            seen = probe.observe_snapshots(start(recipe).model, way, episodes_of(recipe, n, deal))
            going = probe.progress_of(dict(zip(steps, seen.values(), strict=True)))
            rows.append(ratios(settled(going)) | {"gain": gain(steps, going.entropy_mae)})
            rows[-1] |= {f"{name} left": left(steps, going.distance(name)) for name in MEASURES}
        found[schedule] = stats.summaries(rows)
    return found


def walks(model: nn.Module, snapshots: dict, recipe: Recipe, n: int, draws: int) -> dict:
    """Weights that drift at random, as far as in the run: ratios of settling times, by schedule."""
    steps, found = list(snapshots), {}
    first, last = snapshots[steps[0]], snapshots[steps[-1]]
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    for schedule in ("linear", "constant"):
        shares = way_done(recipe.but(schedule=schedule), steps, 2)
        rows = []
        for draw in range(draws):
            way = probe.walk(first, last, shares.tolist(), rng_for(tunnel, 450 + draw))
            seen = probe.observe_snapshots(model, way, episodes_of(recipe, min(n, 32)))
            drift = probe.progress_of(dict(zip(steps, seen.values(), strict=True)))
            when = settled(drift)
            rows.append({k: v for k, v in ratios(when).items() if "kl" not in k})
            rows[-1] |= {f"{name} left": left(steps, drift.distance(name)) for name in MEASURES}
        found[schedule] = stats.summaries(rows)
    return found


def untrained_over_trained(draws: int) -> dict:
    """Entropy error of untrained networks over that of the trained one: what it costs to learn nothing."""
    model = checkpoints.load(SEEDS_OF)
    tunnel = tunnels.build("bijection", model.record["tunnel_config"])
    rows = []
    for draw in range(min(draws, 20)):
        rng = rng_for(tunnel, 460 + draw)
        error = scoring.score(untrained(model, rng), tunnel, EPISODES, rng=rng).entropy_mae
        rows.append({"entropy_mae over free": error / model.record["scores"]["entropy_mae"]})
    return stats.summaries(rows)


def seed_distances_of(models: list[nn.Module], n: int) -> dict:
    """Mean over layers of the distances between runs with different seeds: what "far" is."""
    episodes = episodes_of(Recipe.from_dict(models[0].record["recipe"]), n)
    seen = [probe.observe(model, episodes) for model in models]
    rows = [
        {name: float(np.mean(layers)) for name, layers in probe.seed_distances(a, b).items()}
        for a, b in combinations(seen, 2)
    ]
    return stats.summaries(rows)


# ---- what only the folder of a sweep gives


def measure_folder(folder: str | Path, n_episodes: int = EPISODES) -> dict:
    """The curves of all finished runs of the plans `snapshots` and `frozen` in a sweep's folder.

    Returns:
        "runs" and "frozen" by network and seed, each with key, commit and device of its run, and
        "apart": the distances between the ends of a network's seeds, by network.
    """
    found: dict = {"runs": {}, "frozen": {}, "apart": {}}
    for cell, row in ended_cells(plan("snapshots"), folder):
        snapshots, recipe = weights_on_the_way(cell, folder), cell.recipe
        entry = about(row) | {"tunnel": recipe.tunnel, "schedule": recipe.schedule, "curve": first_rows(row, folder)}
        entry |= curves(start(recipe).model, snapshots, episodes_of(recipe, n_episodes))
        found["runs"].setdefault(cell.name, {})[str(recipe.seed)] = entry
    for name in found["runs"]:
        ends = [checkpoints.load_file(weights_of(row, folder)) for cell, row in ended_cells(plan("snapshots"), folder) if cell.name == name]
        if len(ends) > 1:
            found["apart"][name] = seed_distances_of(ends, n_episodes)
    plain = {row["seed"]: row for cell, row in ended_cells(plan("snapshots"), folder) if cell.name == FALLING.format("bijection")}
    for cell, row in ended_cells(plan("frozen"), folder):
        entry = about(row) | {"from": cell.recipe.frozen_from} | moved(cell, row, folder, n_episodes)
        if row["seed"] in plain:
            other = plain[row["seed"]]
            entry |= {f"{name} over free": row[name] / other[name] for name in ("kl", "entropy_mae")}
        found["frozen"].setdefault(cell.name, {})[str(row["seed"])] = entry
    return found


def about(row: dict) -> dict:
    """Where a run comes from, and how good it got on the sweep's fresh episodes."""
    scores = {name: row[name] for name in ("kl", "kl_se", "entropy_mae", "entropy_mae_se")}
    return {name: row[name] for name in ("key", "commit", "device")} | {"final": scores}


def first_rows(row: dict, folder: str | Path, count: int = 6) -> list[dict]:
    """The first rows of a run's learning curve: where two runs of one recipe part."""
    curve = checkpoints.read_record(weights_of(row, folder))["curve"]
    return [{"step": one["step"], "kl": one["kl"]} for one in curve[:count]]


def weights_on_the_way(cell, folder: str | Path) -> dict:
    """All snapshots of a run as they were kept, the start included, by step."""
    recipe = cell.recipe
    kept = {step: snapshot_path(Path(folder) / "runs" / cell.key, step) for step in recipe.snapshot_steps}
    return {0: start(recipe).model.state_dict()} | {step: read_tensors(path)[0] for step, path in kept.items()}


def moved(cell, row: dict, folder: str | Path, n: int) -> dict:
    """How far patterns and values of a run went between its start and its end."""
    recipe, end = cell.recipe, checkpoints.load_file(weights_of(row, folder))
    episodes = episodes_of(recipe, n)
    first, last = (probe.observe(model.eval(), episodes) for model in (start(recipe).model, end))
    return {"moved": {name: rounded(d(first, last)) for name, d in probe.DISTANCES.items()}}


# ---- what the ledger asks for


def claims(found: dict) -> dict:
    """By tunnel and schedule: the largest and least ratio of settling times over seeds, what is left late, and
    the gain after a twentieth of the run; under "frozen" the factors that freezing costs."""
    result: dict = {}
    for tunnel in TUNNELS:
        for schedule, name in (("linear", FALLING), ("constant", CONSTANT)):
            runs = list(found["runs"].get(name.format(tunnel), {}).values())
            if schedule == "linear" and not runs and "shipped" in found:
                runs = [found["shipped"][tunnel]]
            if not runs:
                continue
            rows = [ratios(run["settled"]) for run in runs]
            entry = {what: max(row[what] for row in rows) for what in rows[0]}
            entry |= {f"{what}, least": min(row[what] for row in rows) for what in rows[0]}
            for what in MEASURES:
                shares = [left(run["steps"], np.mean(run[what], axis=1)) for run in runs]
                entry[f"{what} left"] = float(np.mean(shares))
            entry["gain"] = float(np.mean([gain(run["steps"], run["entropy_mae"]) for run in runs]))
            result.setdefault(tunnel, {})[schedule] = entry | {"seeds": len(runs)}
    for name, seeds in found["frozen"].items():
        known = [entry for entry in seeds.values() if "kl over free" in entry]
        if known:
            label = name.split("classroom-")[1]
            result.setdefault("frozen", {})[label] = stats.summaries([
                {what: entry[what] for what in ("kl over free", "entropy_mae over free")} for entry in known
            ])
    return result

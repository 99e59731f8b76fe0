"""The record `primitives`: which of three inference primitives the seeds of each architecture realise at small size.

Paper I (v3 and later) counts them: a transformer realises all three, Mamba two, an LSTM one, an MLP none, and calls
the first "primitive completeness". Accumulating (the bijection) and transporting (the HMM) are realised by a network
whose entropy error is at most a tenth of the uniform guess's; binding by one that answers nine in ten questions of
recall: of the race's smaller task (`binding_race`) where an architecture has run it, else of the classroom's.
An architecture realises what more than half of its seeds do. Beside it stand untrained copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torch import nn

from bayeswind_lib import baselines, scoring, stats, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.training.loop import start
from bayeswind_lib.training.plans import plan
from bayeswind_lib.training.recipe import Recipe

ARCHITECTURES = ("transformer", "mamba", "lstm", "mlp")
PRIMITIVES = {"accumulate": "bijection", "transport": "hmm", "bind": "recall"}  # and the tunnel that asks for each
SHARE, ACCURACY = 0.1, 0.9  # of the uniform guess's entropy error, at most; of the answers, at least


def measure(n_episodes: int, draws: int, records: str | Path | None = None) -> dict:
    """The record.

    Args:
        n_episodes: on which the uniform guess is scored, and a quarter of them, at least 64, each untrained copy.
        draws: of untrained copies, at most 20. records: where the runs and the race lie.
    Returns:
        "seeds": by architecture and primitive how many seeds realise it, "realised" of "n"; "ledger": how many of the
        three each architecture realises, and "others", how many architectures beside the transformer realise
        all three; "untrained": the same counts of untrained copies, by architecture.
    """
    wanted = recipes()
    uniform = {key: uniform_error(recipe, n_episodes) for key, recipe in wanted.items()}
    runs = (store.read("runs", records) or {}).get("runs", []) + shipped(records)
    race = (store.read("binding_race", records) or {}).get("arms", {})
    seeds: dict = {name: {} for name in ARCHITECTURES}
    for (name, primitive), recipe in wanted.items():
        found = [realises(row, primitive, uniform[name, primitive]) for row in plain(runs, name, recipe)]
        if primitive == "bind":
            found = bound(race, name) or found
        seeds[name][primitive] = {"realised": sum(found), "n": len(found)}
    counts = {name: sum(2 * one["realised"] > one["n"] for one in row.values()) for name, row in seeds.items()}
    others = [name for name in ARCHITECTURES if name != "transformer" and counts[name] == len(PRIMITIVES)]
    n = max(64, n_episodes // 4)
    fresh = {name: untrained_counts(name, wanted, uniform, min(draws, 20), n) for name in ARCHITECTURES}
    rivals = zip(*(fresh[name] for name in ARCHITECTURES if name != "transformer"), strict=True)  # one tuple a draw
    complete = [sum(count == len(PRIMITIVES) for count in drawn) for drawn in rivals]
    return {
        "seeds": seeds, "ledger": counts | {"others": len(others)}, "untrained": {name: stats.summary(one) for name, one in (fresh | {"others": complete}).items()},
        "limits": {"share": SHARE, "accuracy": ACCURACY},
    }


def recipes() -> dict[tuple[str, str], Recipe]:
    """The plain recipe of seed 0 at classroom size, by architecture and primitive."""
    cells = {cell.name: cell.recipe for cell in plan("architectures") if cell.recipe.seed == 0}
    return {
        (name, primitive): cells[f"{tunnel}-{name}-classroom"]
        for name in ARCHITECTURES for primitive, tunnel in PRIMITIVES.items()
    }


def shipped(records: str | Path | None) -> list[dict]:
    """The networks that ship, as rows of runs."""
    found = (store.read("networks", records) or {}).get("networks", {})
    return [{"name": name} | entry | entry["scores"] for name, seeds in found.items() for entry in seeds.values()]


def plain(runs: Iterable[dict], architecture: str, recipe: Recipe) -> list[dict]:
    """The runs of a recipe, one a seed."""
    name = f"{recipe.tunnel}-{architecture}-classroom"
    named = {row["seed"]: row for row in runs if row["name"] == name and row["recipe_tag"] == recipe.but(seed=row["seed"], data_seed=row["seed"]).tag}
    return list(named.values())


def bound(race: dict, architecture: str) -> list[bool]:
    """Which runs of the race arrived, of the way (plain, or in stages) on which more of them did."""
    ways = [race[arm]["ended"] for arm in (f"{architecture} plain", f"{architecture} staged") if arm in race]
    return max(ways, key=sum, default=[])


def realises(scores: dict, primitive: str, uniform: float) -> bool:
    """Whether a network with these scores realises a primitive; `uniform` is the uniform guess's entropy error, bits."""
    if primitive == "bind":
        return scores["accuracy"] >= ACCURACY
    return float(scores["entropy_mae"]) <= SHARE * uniform


def uniform_error(recipe: Recipe, n: int) -> float:
    """Entropy error of the uniform guess on a recipe's task, bits."""
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    return scoring.score(baselines.Uniform(tunnel), tunnel, n, rng=rng_for(tunnel, 460)).entropy_mae


def untrained_counts(
    architecture: str, wanted: dict[tuple[str, str], Recipe], uniform: dict[tuple[str, str], float], draws: int, n: int
) -> list[int]:
    """How many primitives networks realise that were never trained."""
    counts = []
    for draw in range(draws):
        models = {key: untrained(recipe, draw) for key, recipe in wanted.items() if key[0] == architecture}
        found = [realises(_scores(models[key], wanted[key], n), key[1], uniform[key]) for key in models]
        counts.append(sum(found))
    return counts


def untrained(recipe: Recipe, draw: int) -> nn.Module:
    """A network of a recipe as it starts."""
    return start(recipe.but(seed=1000 + draw)).model.eval()


def _scores(model: nn.Module, recipe: Recipe, n: int) -> dict:
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    episodes = tunnel.sample(n, rng_for(tunnel, 461))
    found = scoring.score_episodes(model, episodes)
    return {"accuracy": scoring.accuracy(model, episodes)[0], "entropy_mae": found.entropy_mae}

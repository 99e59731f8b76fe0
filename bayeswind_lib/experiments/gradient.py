"""The closed forms of Paper II held against autograd, in random heads and in trained networks: the record of chapter 15.

"random": heads of every kind, largest absolute difference for each quantity. "rivals": relative
errors of the two laws and of laws that are slightly wrong. "networks": every layer of shipped
transformers. "snapshots": what moves and what rests while two of them are trained. "ratio": actual
over predicted gain by size of step. "ledger" and the parts named after nulls: what the ledger reads.

Axes: L layers, C snapshots.
"""

from __future__ import annotations

import numpy as np
import torch

from bayeswind_lib import checkpoints, stats, tunnels
from bayeswind_lib.dynamics import attention, checks, steps
from bayeswind_lib.experiments.progress import FALLING, episodes_of, rounded
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.training.recipe import Recipe

NAMES = (
    "bijection-transformer-classroom", "hmm-transformer-classroom", "bijection-transformer",
    "bijection-transformer-posterior", "hmm-transformer",
)
TUNNELS = ("bijection", "hmm")
EPISODES, FEW = 64, 8  # of a classroom network, of a large one
HEADS = 50  # random heads of each kind, at most
RATES = (1e-1, 1e-2, 1e-3, 1e-4)
WHAT = ("error", "spread", "scores", "unsaturated")


def measure(n_episodes: int, draws: int) -> dict:
    """All of the record: see the module.

    Args:
        n_episodes: at most `EPISODES` are used. draws: of random heads, at most `HEADS`.
    """
    n, heads = min(n_episodes, EPISODES), min(draws, HEADS)
    found = {
        "random": {kind: worst(kind, heads) for kind in checks.KINDS}, "rivals": rivals(heads),
        "ratio": ratio(heads), "networks": {name: of_network(name, n) for name in NAMES},
        "snapshots": {tunnel: of_run(tunnel, n, min(draws, 20)) for tunnel in TUNNELS},
        "n_episodes": n, "n_heads": heads,
    }
    return found | ledger_values(found)


def _head(kind: str, seed: int):
    """A random head of a kind: its pass, upstream gradient, targets, and what autograd says."""
    inputs, weights, targets, way = checks.random_head(kind, torch.Generator().manual_seed(seed))
    truth = checks.by_autograd(inputs, weights, lambda done: attention.cross_entropy(done.logits, targets), **way)
    done = attention.forward(inputs, weights, **way)
    r = attention.residual(done.logits, targets)
    return done, attention.upstream_of(r, weights.output), targets, r, truth


def worst(kind: str, heads: int) -> dict[str, float]:
    """Largest absolute difference from autograd over random heads, by quantity."""
    rows = []
    for seed in range(heads):
        done, upstream, _, r, truth = _head(kind, seed)
        row = checks.agreement(attention.gradients(done, upstream), truth)
        row["context"] = float((upstream - truth["context"]).abs().max())
        row["output"] = float((attention.output_gradient(done.context, r) - truth["output"]).abs().max())
        rows.append(row)
    return {name: max(row[name] for row in rows) for name in rows[0]}


def rivals(heads: int) -> dict[str, dict]:
    """Relative errors of the laws for scores and for values, and of their rivals: intervals over random heads."""
    rows = {"scores": [], "values": []}
    for seed in range(heads):
        done, upstream, _, _, truth = _head("one head", seed)
        for what, laws in (("scores", checks.score_laws), ("values", checks.value_laws)):
            rows[what].append({name: checks.apart(law, truth[what]) for name, law in laws(done, upstream).items()})
    return {what: {name: stats.summary([row[name] for row in some]) for name in some[0]} for what, some in rows.items()}


def ratio(heads: int) -> dict:
    """Actual over predicted gain of a step along both laws, and without the baseline, by size of step."""
    rows = {"law": [], "no baseline": []}
    for seed in range(heads):
        done, upstream, targets, _, _ = _head("one head", seed)
        found = attention.gradients(done, upstream)
        def loss(rate, done=done, found=found, targets=targets):
            pattern = (done.scores - rate * found.scores).softmax(-1)
            context = pattern @ (done.values - rate * found.values)
            logits = torch.einsum("bhtv,hvy->bty", context, done.weights.output)
            return float(attention.cross_entropy(logits, targets))
        value = steps.value_gain(found, 1.0)
        wrong = checks.score_laws(done, upstream)["no baseline"]
        gains = {"law": steps.routing_gain(found, 1.0) + value, "no baseline": value - float(wrong.square().sum())}
        for name, gain in gains.items():
            rows[name].append(steps.ratios(loss, lambda rate, gain=gain: rate * gain, RATES))
    return {
        "rates": list(RATES),
        "median": {name: rounded(np.median(some, 0)) for name, some in rows.items()},
        "order": {name: stats.summary([steps.order(RATES, row) for row in some]) for name, some in rows.items()},
    }


def of_network(name: str, n: int) -> list[dict]:
    """A row a layer: the laws against autograd, what goes wrong without the baseline, and in single precision."""
    model, single = checkpoints.load(name).double(), checkpoints.load(name)
    tunnel = tunnels.build(model.record["tunnel"], model.record["tunnel_config"])
    large = model.record["parameters"] > 1e6
    some, rows = tunnel.sample(min(n, FEW) if large else n, rng_for(tunnel, 1500)), []
    for layer in range(len(model.blocks)):
        done, upstream, truth = checks.opened(model, layer, some.inputs, some.targets)
        found = attention.gradients(done, upstream)
        laws, gathered = checks.score_laws(done, upstream), checks.value_laws(done, upstream)
        no_mean = checks.maps_of(done, laws["no baseline"], gathered["other query"])
        _, _, rough = checks.opened(single, layer, some.inputs, some.targets)
        moved = (done.pattern > 1e-9) & (laws["law"].abs() > 0)
        rows.append({
            "routing": max(checks.apart(getattr(found, part), truth[part]) for part in ("query", "key")),
            "values": checks.apart(found.value, truth["value"]),
            "no baseline": checks.apart(laws["no baseline"], laws["law"]),
            "no baseline, query map": checks.apart(no_mean["query"], truth["query"]),
            "other query, value map": checks.apart(no_mean["value"], truth["value"]),
            "wrong sign": float((laws["no baseline"] * laws["law"] < 0)[moved].double().mean()),
            "single, query map": checks.apart(rough["query"].double(), truth["query"]),
            "single, value map": checks.apart(rough["value"].double(), truth["value"]),
            "unsaturated": float(checks.unsaturated(done.pattern).mean()),
        })
    return rows


def of_run(tunnel: str, n: int, draws: int) -> dict:
    """By snapshot and layer: what could be gained, what is asked of the scores, who gains.

    The loss is its expectation under the exact posterior, so that no noise of outcomes is in it.
    """
    snapshots = checkpoints.load_snapshots(FALLING.format(tunnel))
    episodes = episodes_of(Recipe.from_dict(snapshots.note["recipe"]), n)
    rng, rows, nulls = torch.Generator().manual_seed(15), [], []
    for step in snapshots.steps:
        model = snapshots.network(step).double()
        passes = [checks.opened(model, i, episodes.inputs, episodes.posterior)[:2] for i in range(len(model.blocks))]
        row = [checks.gradient_parts(*one) for one in passes]
        found = {what: [one[what] for one in row] for what in WHAT}
        found["coherence"] = [checks.gradient_coherence(*one) for one in passes]
        found["improved_share"] = [checks.improved_share(*one) for one in passes]
        drawn = [[checks.improved_share(done, checks.random_errors(u, rng)) for done, u in passes] for _ in range(draws)]
        found["random_errors"] = np.mean(drawn, 0).tolist()
        nulls.append([stats.summary([one[i] for one in drawn], x) for i, x in enumerate(found["improved_share"])])
        rows.append(found)
    curves = {what: rounded([row[what] for row in rows]) for what in rows[0]}
    early = int(np.argmax([row["spread"][0] for row in rows]))  # when most is to be gained in layer 0
    return {"steps": snapshots.steps, "curves": curves, "last": nulls[-1], "early": nulls[early], "early_step": snapshots.steps[early]}


def ledger_values(found: dict) -> dict:
    """The few numbers that stand in the ledger, each with its null."""
    layers = [row for rows in found["networks"].values() for row in rows]
    last, early = (found["snapshots"]["bijection"][when][0] for when in ("last", "early"))
    measured = {
        "routing": max(row["routing"] for row in layers), "values": max(row["values"] for row in layers),
        "order": found["ratio"]["order"]["law"]["null"], "improved_share": last["value"], "improved_share_early": early["value"],
    }
    return {
        "ledger": measured,
        "no_baseline": {
            "routing": stats.summary([row["no baseline, query map"] for row in layers]),
            "order": found["ratio"]["order"]["no baseline"],
        },
        "other_query": {"values": stats.summary([row["other query, value map"] for row in layers])},
        "random_errors": {"improved_share": last, "improved_share_early": early},
    }

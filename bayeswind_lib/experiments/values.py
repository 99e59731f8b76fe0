"""The geometry of values, stage three of the mechanism, beside its nulls: the record of chapter 11.

Shapes: S episodes, K scored positions, D channels.

Of every network, for each site: shares of the first axes over many sequences, how the first
coordinate goes with entropy, what is left of that at fixed position, one sequence at a time; the
same of untrained copies. For the stream before each layer: what holding the first axis costs, and
erasing entropy. At the readout: what of it is seen, and how the divergence splits.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, stats, tunnels
from bayeswind_lib.probes import axes, beliefs, filtering, nulls, values
from bayeswind_lib.probes.activations import activations
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.probes.sites import merge_heads
from bayeswind_lib.scoring import entropy_bits

NAMES = (
    "bijection-transformer", "bijection-transformer-posterior", "bijection-transformer-classroom",
    "bijection-transformer-classroom-posterior", "bijection-transformer-classroom-replacement",
    "bijection-transformer-classroom-replacement-convolution", "hmm-transformer-classroom", "hmm-transformer",
)
BINDS = "bijection-transformer-classroom-replacement-convolution"  # entropy varies at fixed position
COPIES = 20  # untrained copies of each network: the floor of draws for the ledger's rows
COPY_EPISODES = 48  # on which their readings are compared with those of the network itself
COST_EPISODES = 96  # on which a network runs again and again
NUMBERS = ("first", "second", "participation", "pearson", "spearman", "fixed", "linear")


def measure(n_episodes: int, draws: int, names: tuple[str, ...] = NAMES) -> dict:
    """All networks, all seeds: see the module.

    Args:
        n_episodes: held-out ones of each network, for geometry; `COST_EPISODES` for what costs passes.
        draws: of cheap nulls; of copies, and of pushes through the network, at most `COPIES`.
        names: of the networks, to measure only some.
    """
    found: dict = {"networks": {}, "walk": _walks(draws)}
    for listed in checkpoints.shipped():
        if listed["name"] in names:
            seeds = found["networks"].setdefault(listed["name"], {})
            seeds[str(listed["seed"])] = of_model(checkpoints.load(listed["name"], listed["seed"]), n_episodes, draws)
    return found | ledger_values(found["networks"])


def _walks(draws: int) -> dict:
    """One sequence of a random walk: theory, and draws in 192 channels."""
    rng, found = torch.Generator().manual_seed(7), {}
    for K in (10, 20):
        sampled = values.random_walk_null(K, 192, max(draws, COPIES), rng)
        found[str(K)] = {"theory": float(values.walk_shares(K)[0]), "first": stats.summary(sampled)}
    return found


def of_model(model: nn.Module, n_episodes: int, draws: int) -> dict:
    """Everything about one network."""
    tunnel = tunnels.build(model.record["tunnel"], model.record["tunnel_config"])
    fit, held = (tunnel.sample(n_episodes, rng_for(tunnel, stream)) for stream in (700, 701))
    few = tunnel.sample(min(n_episodes, COPY_EPISODES), rng_for(tunnel, 702))
    entropy = entropies(fit)
    points, small = sites_of(model, fit), sites_of(model, few)
    copies = [sites_of(nulls.untrained(model, rng_for(tunnel, 710 + i)), few) for i in range(COPIES)]
    found: dict = {"sites": {}, "oracle": oracles(fit, entropy), "sha256": model.record["sha256"]}
    for site, x in points.items():
        entry = site_numbers(x, entropy)
        small_entry = site_numbers(small[site], entropies(few))
        drawn = [site_numbers(copy[site], entropies(few)) for copy in copies]
        entry["null"] = {
            key: stats.summary([row[key] for row in drawn], small_entry[key]) for key in entry
        }
        matched = values.matched_null(x, entropy, draws, torch.Generator().manual_seed(8))
        entry["matched"] = stats.summary(matched.draws, matched.value)
        found["sites"][site] = entry
    found["last"] = entropy_read(model, fit, min(draws, COPIES), tunnel)
    pushes = min(draws, COPIES)
    found["layers"] = {
        str(layer): of_layer(model, fit, held, layer, pushes) for layer in range(model.config.n_layers + 1)
    }
    return found | {"readout": of_readout(model, fit, held, max(draws, COPIES), tunnel)}


def entropies(episodes) -> np.ndarray:
    """Entropy of the exact posterior, bits, float64 (S, K)."""
    return entropy_bits(episodes.posterior.log2()).numpy()


def sites_of(model, episodes) -> dict[str, np.ndarray]:
    """Stream, values and attention outputs at the scored positions: float64 (S, K, D) by site."""
    names = ["residual.*", "value.*", "attention.*", "final"]
    places = model.scored_positions(episodes.inputs.shape[1])
    found = {}
    for name, x in activations(model, episodes.inputs, names).items():
        x = merge_heads(x) if name.startswith("value.") else x
        found[name] = x[:, places].double().numpy()
    return found


def site_numbers(points: np.ndarray, entropy: np.ndarray) -> dict[str, float]:
    """The shape of one site over many sequences and within one."""
    curve = values.entropy_curve(points, entropy)
    found = {key: getattr(curve, key) for key in NUMBERS}
    S, K, D = points.shape
    flat = points.reshape(-1, D)
    first = stats.pca(flat).project(flat, 1)[:, 0].reshape(S, K)
    found["by_position"] = values.by_position(first)
    single = [stats.pca(x) for x in points[: min(S, 16)]]
    found["one_first"] = float(np.mean([one.shares[0] for one in single]))
    ranks = [
        stats.correlation(one.project(x, 1)[:, 0], np.arange(K), ranked=True)
        for one, x in zip(single, points, strict=False)
    ]
    found["one_monotone"] = float(np.mean(ranks))
    return found | {"readable": filtering.held_out(points, entropy[..., None], len(points) // 2)}


def entropy_read(model, episodes, draws: int, tunnel) -> dict:
    """R^2 of the exact entropy, read from the last stream, beside untrained copies on as many sequences: with fewer a reading of
    many channels scores less, whatever the network."""
    place = f"residual.{model.config.n_layers}"

    def score(network) -> float:
        x = activations(network, episodes.inputs, [place])[place][:, network.scored_positions(episodes.inputs.shape[1])]
        return filtering.held_out(x.double().numpy(), entropies(episodes)[..., None], len(x) // 2)

    fresh = [score(nulls.untrained(model, rng_for(tunnel, 710 + i))) for i in range(draws)]
    return stats.summary(fresh, score(model))


def oracles(episodes, entropy: np.ndarray) -> dict:
    """The same numbers for the truth itself, written down in three ways."""
    p = episodes.posterior.numpy()
    kinds = {"posterior": p, "log posterior": np.log(np.maximum(p, 1e-4))}
    if (p == 0).any():
        kinds["impossible"] = (p == 0).astype(float)
    return {kind: site_numbers(x, entropy) for kind, x in kinds.items()}


def of_layer(model, fit, held, layer: int, draws: int) -> dict:
    """What the first axis of the stream before a layer is good for, and a reading of entropy."""
    points = axes.AxisBench(model, fit, layer).points
    held = held[:COST_EPISODES]
    bench, rng = axes.AxisBench(model, held, layer), np.random.default_rng(layer)
    S, K, D = points.shape
    shape = stats.pca(points.reshape(-1, D))
    inner = stats.pca(values.at_fixed_position(points).reshape(-1, D))
    reading = axes.fit_reading(points, entropies(fit))
    read = (bench.points - reading.mean) @ reading.weight
    along = axes.unit(reading.weight)
    found = {
        "before": bench.before["kl"], "share": float(shape.shares[0]),
        "hold": bench.hold(shape.axes[0], shape.mean, draws, rng).summary(),
        "second": bench.cost(shape.mean, shape.axes[1], shape.axes[1])["kl"],
        "inner": bench.cost(shape.mean, inner.axes[0], inner.axes[0])["kl"],
        "r2": beliefs.r2(entropies(held)[..., None], (read + entropies(fit).mean())[..., None]),
        "filter": bench.cost(shape.mean, along, along),
        "filter_share": float(((points - reading.mean) @ along).var() / points.reshape(-1, D).var(0).sum()),
        "erase": bench.erase(reading, points, draws, rng).summary(),
    }
    pushes = [bench.cost(shape.mean, along, axes.unit(rng.normal(size=D)))["entropy_mae"] for _ in range(draws)]
    return found | {"filter_null": stats.summary(pushes, found["filter"]["entropy_mae"])}


def of_readout(model, fit, held, draws: int, tunnel) -> dict:
    """Which axes of the last stream the readout sees, and the two parts of the divergence."""
    last = model.config.n_layers
    points = axes.AxisBench(model, fit, last).points
    D, rng = points.shape[-1], np.random.default_rng(1)
    shape = stats.pca(points.reshape(-1, D))
    random = axes.visible(model, np.array([axes.unit(rng.normal(size=D)) for _ in range(draws)]))
    seen = axes.visible(model, shape.axes[:6])
    mine = axes.AxisBench(model, held, last).points
    length = np.linalg.norm(mine, axis=-1)
    found = {
        "visible": seen.tolist(), "visible_null": stats.summary(random, seen[0]),
        "two_ways": axes.two_ways(model, mine, shape.axes[0], held),
        "length_entropy": stats.correlation(length.ravel(), entropies(held).ravel()),
        "length_share": float(((mine @ shape.axes[0]) ** 2).sum() / (length**2).sum()),
    }
    found["estimated"] = {}  # the fewer sequences an axis comes from, the more of others is mixed in
    for n in sorted({min(n, len(points)) for n in (16, 64, 256, len(points))}):
        axis = stats.pca(points[:n].reshape(-1, D)).axes[0]
        cost = axes.two_ways(model, mine, axis, held)["both"]
        found["estimated"][str(n)] = {"visible": float(axes.visible(model, axis)), "cost": cost}
    if tunnel.name == "bijection":
        split = axes.precision(model.predict(held.inputs).numpy(), held.posterior.numpy())
        found["precision"] = {"kl": split.kl, "leak": split.leak, "uneven": split.uneven, "margin": split.margin.tolist()}
    return found


def ledger_values(networks: dict) -> dict:
    """The few numbers that stand in the ledger, each with its null."""
    if "bijection-transformer" not in networks:
        return {}
    main = networks["bijection-transformer"]["0"]
    last = max(int(layer) for layer in main["layers"])
    site, layer = main["sites"][f"attention.{last - 1}"], main["layers"][str(last)]
    stream = main["sites"][f"residual.{last}"]
    vectors = max((x for name, x in main["sites"].items() if name.startswith("value.")), key=lambda x: x["first"])
    measured = {
        "first_share": site["first"], "one_share": site["one_first"], "spearman": stream["spearman"],
        "axis_r2": main["last"]["value"], "axis_ablated": layer["filter"]["entropy_mae"],
        "vector_share": vectors["first"],
    }
    fresh = {
        "first_share": site["null"]["first"], "one_share": site["null"]["one_first"],
        "spearman": stream["null"]["spearman"], "axis_r2": main["last"],
        "vector_share": vectors["null"]["first"],
    }
    if BINDS in networks:
        last = max(int(layer) for layer in networks[BINDS]["0"]["layers"])
        site = networks[BINDS]["0"]["sites"][f"residual.{last}"]
        measured["fixed"], fresh["fixed"] = site["fixed"], site["null"]["fixed"]
    return {"ledger": measured, "untrained": fresh, "random_direction": {"axis_ablated": layer["filter_null"]}}



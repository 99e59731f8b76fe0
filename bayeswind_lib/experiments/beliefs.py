"""Belief geometry: what can be read from networks that filter, and what shape it has.

By task (`TASKS`): the exact belief itself, and predictors that hold a part of it. By network: the
parts of the filter in its last layer (of some networks in all layers), principal axes, clusters, and
the same in untrained copies. See `probes.filtering.goals` for the names of what is read.

Axes: B episodes, K steps, D channels, S states, R draws.
"""

from __future__ import annotations

import numpy as np
import torch

from bayeswind_lib import checkpoints, models, scoring, stats, training, tunnels
from bayeswind_lib.probes import clusters, filtering, nulls, sites
from bayeswind_lib.probes.fixed import rng_for
from bayeswind_lib.tunnels import Episodes

GOALS = ("belief", "log belief", "previous", "predicted", "next", "entropy")
OPENED = (  # networks whose layers are all read, and of which untrained copies are
    "hmm-transformer-classroom", "hmm-mamba-classroom", "hmm-lstm-classroom", "hmm-lstm-classroom-deep",
    "hmm-mlp-classroom-flattened", "hmm-transformer-classroom-sticky", "hmm-mamba-classroom-sticky",
    "hmm-lstm-classroom-sticky", "hmm-transformer",
)
PUBLISHED = ("mamba", "lstm")  # architectures of which untrained networks of the published size are drawn
COUNTS = tuple(range(2, 11))  # clusters
CLUSTERED, PROBED, COPIES = "hmm-mamba-classroom", 512, 20  # within whose clusters the entropy is read; episodes; untrained copies


def measure(n_episodes: int, draws: int) -> dict:
    """Everything the chapter on belief geometry quotes; R^2 and shares are numbers, KL is in bits."""
    tasks, networks = {}, {}
    for name in ("classroom", "paper", "sticky", "sharp"):
        tasks[name] = task_row(*task(name, n_episodes), draws)
    for listed in checkpoints.shipped():
        if listed["tunnel"] == "hmm" and listed["tunnel_config"]["header"] == "rows":
            row = network_row(checkpoints.load(listed["name"], listed["seed"]), listed["name"], n_episodes, draws)
            networks.setdefault(listed["name"], {})[str(listed["seed"])] = row
    opened = {name: networks[name]["0"] for name in OPENED if name in networks}
    fresh = {name: row["untrained"] for name, row in opened.items()}
    fresh |= {f"hmm-{architecture}": published_untrained(architecture, n_episodes, draws) for architecture in PUBLISHED}
    copies = {f"hmm-{architecture}": plain_untrained(architecture, n_episodes, draws) for architecture in PUBLISHED}
    inside = {}
    if CLUSTERED in opened:
        inside[CLUSTERED], fresh[CLUSTERED]["within clusters"] = within(min(draws, COPIES))
    return {
        "within": inside, "tasks": tasks, "networks": networks, "counts": list(COUNTS), "points": clusters.POINTS, "untrained": fresh,
        # nulls of ledger rows, by name
        "copies": copies,
        "gaussian": {name: row["clusters"]["gaussian_as_many_as_states"] for name, row in opened.items()},
        "shuffled": {name: row["clusters"]["belief"]["by_nothing"] for name, row in tasks.items()}
        | {f"{name} entropy": row["entropy_shuffled"] for name, row in tasks.items()},
    }


def within(draws: int) -> tuple[dict, dict]:
    """How well the entropy of the belief is read within the clusters of a Mamba's last layer, seed by seed, and in untrained copies."""
    models = [checkpoints.load(one["name"], one["seed"]) for one in checkpoints.shipped() if one["name"] == CLUSTERED]
    tunnel = tunnels.build("hmm", models[0].record["tunnel_config"])
    episodes = tunnel.sample(PROBED, rng_for(tunnel, 6))
    entropy = filtering.goals(tunnel, episodes)["entropy"]

    def inside(model) -> float:
        x = filtering.at_steps(model, episodes.inputs, "final")["final"]
        return filtering.within_clusters(x, entropy, tunnel.n_states)

    seeds = {str(model.record["seed"]): inside(model) for model in models}
    copies = [inside(nulls.untrained(models[0], torch.Generator().manual_seed(10_000 + draw))) for draw in range(draws)]
    return {"seeds": seeds, "r2": float(np.mean(list(seeds.values())))} | (
        {"r2_se": stats.standard_error(list(seeds.values()))} if len(seeds) > 1 else {}), stats.summary(copies)


def task(name: str, n_episodes: int) -> tuple[tunnels.HMM, Episodes]:
    """A tunnel and its episodes: "classroom", "paper", "sticky" chains, or "sharp" emissions."""
    if name == "sharp":
        tunnel = tunnels.HMM(3, 3)
        return tunnel, filtering.sharp_episodes(tunnel, n_episodes, rng_for(tunnel, 7))
    variant = ("classroom", "sticky") if name == "sticky" else (name,)
    tunnel = tunnels.build("hmm", training.recipe("hmm", "transformer", *variant).tunnel_config)
    return tunnel, tunnel.sample(n_episodes, rng_for(tunnel, 5))


def task_row(tunnel: tunnels.HMM, episodes: Episodes, draws: int) -> dict:
    """The exact belief: principal axes, its entropy read from it, its clusters; and the baselines."""
    goal, rng = filtering.goals(tunnel, episodes), np.random.default_rng(1)
    belief, logs = goal["belief"], np.log(np.maximum(goal["belief"], filtering.LEAST))
    pairs = np.einsum("bki,bkj->bkij", belief, belief).reshape(*belief.shape[:2], -1)
    clouds = {"belief": belief, "log belief": goal["log belief"]}
    own = {name: filtering.held_out(x, goal["entropy"], alpha=1e-9) for name, x in
           (clouds | {"log probabilities": logs, "belief and products": np.concatenate([belief, pairs], -1)}).items()}
    first = [stats.pca(filtering.flat(belief[rng.integers(len(belief), size=len(belief))])).shares[0]
             for _ in range(draws)]
    partial = filtering.partial_filters(tunnel, episodes.inputs)
    return {
        "n_episodes": len(belief), "entropy": own,
        "shares": {name: stats.pca(filtering.flat(x)).shares[: tunnel.n_states].tolist() for name, x in clouds.items()},
        "pc1_percent": float(100 * stats.pca(filtering.flat(belief)).shares[0]), "first_share": stats.summary(first, level=0.95),
        "entropy_shuffled": stats.summary(filtering.shuffled(belief, goal["entropy"], draws, rng, 1e-6)), "above_0.9": float((belief.max(-1) > 0.9).mean()),
        "baselines": {name: read(x, goal, ("belief", "log belief"), 1e-6) for name, x in partial.items()},
        "clusters": {name: cluster_row(x, episodes, draws) for name, x in clouds.items()},
    }


def read(x: np.ndarray, goal: dict[str, np.ndarray], names=GOALS, alpha: float = 1e-4) -> dict[str, float]:
    """Held-out R^2 of some goals read from x (B, K, D), and the KL of the belief that is read."""
    found = {name: filtering.held_out(x, goal[name], alpha=alpha) for name in names}
    return found | {"kl": filtering.bits(x, goal["belief"], alpha), "memory share": filtering.memory_share(x, goal, alpha)}


def cluster_row(x: np.ndarray, episodes: Episodes, draws: int) -> dict:
    """Silhouettes of unlabelled clusters beside those of one Gaussian lump, and of two labellings."""
    from sklearn.metrics import silhouette_score

    points, rng = clusters.leading(clusters.cloud(x)), np.random.default_rng(2)
    states, symbols = (clusters.cloud(y.numpy()[..., None])[:, 0] for y in
                       (episodes.posterior.argmax(-1), episodes.latents["observations"]))
    S = episodes.posterior.shape[-1]
    lumps = [clusters.silhouettes(stats.matched_gaussian(points, rng), COUNTS) for _ in range(max(2, draws // 20))]
    lumps_at_S = [clusters.silhouettes(stats.matched_gaussian(points, rng), [S], starts=2)[0] for _ in range(draws)]
    found = clusters.clusters(points, states, most=max(COUNTS), dims=None)
    return {
        "silhouette": clusters.silhouettes(points, COUNTS).tolist(),
        "gaussian": [stats.summary(column) for column in np.array(lumps).T], "gaussian_as_many_as_states": stats.summary(lumps_at_S),
        "as_many_as_states": float(clusters.silhouettes(points, [S], starts=2)[0]),
        "bic": found.bic.tolist(), "best": found.best,
        "by_state": float(silhouette_score(points, states)), "by_symbol": float(silhouette_score(points, symbols)),
        "by_nothing": stats.summary([silhouette_score(points, rng.permutation(states)) for _ in range(draws)]),
    }


def network_row(model: torch.nn.Module, name: str, n_episodes: int, draws: int) -> dict:
    """One shipped network: its last layer, and if it is opened its other layers and its copies."""
    tunnel = tunnels.build("hmm", model.record["tunnel_config"])
    states = tunnels.build("hmm", tunnel.config | {"predicts": "states"})
    episodes = states.sample(n_episodes, rng_for(states, 5))
    goal = filtering.goals(states, episodes)
    x = filtering.at_steps(model, episodes.inputs, "final")["final"]
    rng = np.random.default_rng(3)
    row = {"final": read(x, goal), "shares": stats.pca(filtering.flat(x)).shares[:8].tolist(), "shuffled": {
        what: stats.summary(filtering.shuffled(x, goal[what], draws, rng)) for what in ("belief", "log memory", "entropy")}}
    if tunnel.predicts == "states":
        row["own_kl"] = float(scoring.score_episodes(model, episodes).kl)
    if name in OPENED:
        row |= opened_row(model, states, episodes, goal, x, draws)
    return row


def opened_row(model, tunnel, episodes: Episodes, goal: dict, x: np.ndarray, draws: int) -> dict:
    """All layers of a network, clusters in its last one, and both in untrained copies."""
    chosen = [site for site in sites(model) if site.split(".")[0] in ("residual", "middle", "output", "cell")]
    layers = filtering.at_steps(model, episodes.inputs, chosen)
    copies = [untrained_row(model, episodes, goal, draw) for draw in range(min(draws, COPIES))]
    row = {"layers": {site: read(value, goal) | {"shares": stats.pca(filtering.flat(value)).shares[:5].tolist()}
                      for site, value in layers.items()},
           "clusters": cluster_row(x, episodes, draws),
           "untrained": {what: stats.summary([copy[what] for copy in copies]) for what in copies[0]}}
    if tunnel.generator == "grid" and tunnel.n_states == 3:
        sharp = filtering.sharp_episodes(tunnel, len(x), rng_for(tunnel, 7))
        row["sharp_clusters"] = cluster_row(filtering.at_steps(model, sharp.inputs, "final")["final"], sharp, draws)
    return row


def untrained_row(model, episodes: Episodes, goal: dict, draw: int) -> dict[str, float]:
    """The last layer of an untrained copy: what is read, its first share, and its silhouettes."""
    copy = nulls.untrained(model, torch.Generator().manual_seed(10_000 + draw))
    x = filtering.at_steps(copy, episodes.inputs, "final")["final"]
    found = {name: filtering.held_out(x, goal[name]) for name in ("belief", "log belief", "entropy")}
    found["memory share"] = filtering.memory_share(x, goal)
    return found | cloud_row(x, episodes)


def cloud_row(x: np.ndarray, episodes: Episodes) -> dict[str, float]:
    """First shares and silhouettes of a cloud: with as many clusters as states, by state, by symbol."""
    from sklearn.metrics import silhouette_score

    points = clusters.leading(clusters.cloud(x))
    symbols = clusters.cloud(episodes.latents["observations"].numpy()[..., None])[:, 0]
    states = clusters.cloud(episodes.posterior.argmax(-1).numpy()[..., None])[:, 0]
    shares = stats.pca(filtering.flat(x)).shares
    S = episodes.posterior.shape[-1]
    return {
        "pc1": float(shares[0]), "pc_rest": float(shares[S - 1 :].sum()),
        "silhouette": float(clusters.silhouettes(points, [S], starts=2)[0]),
        "by_state": float(silhouette_score(points, states)), "by_symbol": float(silhouette_score(points, symbols)),
    }


def last_layer(model, tunnel, n: int) -> dict[str, float]:
    """What the ledger asks of the last layer of an HMM network, on n episodes: how many clusters without labels have the highest
    silhouette, the share of the first principal axis, and R^2 of the exact belief's entropy, read linearly."""
    episodes = tunnel.sample(n, rng_for(tunnel, 6))
    x = filtering.at_steps(model, episodes.inputs, "final")["final"]
    silhouettes = clusters.silhouettes(clusters.leading(clusters.cloud(x)), COUNTS)
    return {
        "clusters": COUNTS[int(silhouettes.argmax())], "pc1_percent": 100 * float(stats.pca(filtering.flat(x)).shares[0]),
        "entropy_r2": filtering.held_out(x, filtering.goals(tunnel, episodes)["entropy"]),
    }


def plain_untrained(architecture: str, n_episodes: int, draws: int) -> dict[str, dict]:
    """What `last_layer` has of networks of the recipe of published size before any training, on as many chains as the ledger's
    rows are measured on (fewer where fewer than `PROBED` are asked for)."""
    recipe = training.recipe("hmm", architecture, "paper")
    tunnel, config = tunnels.build("hmm", recipe.tunnel_config), training.loop.model_config(recipe)
    n = training.presets.N_EPISODES["paper"] if n_episodes >= PROBED else n_episodes
    rows = []
    for draw in range(min(draws, COPIES)):
        model = models.build(architecture, config, torch.Generator().manual_seed(30_000 + draw)).eval()
        rows.append(last_layer(model, tunnel, n))
    return stats.summaries(rows)


def published_untrained(architecture: str, n_episodes: int, draws: int) -> dict[str, dict]:
    """Networks of the published size and header before any training: shares, clusters, entropy.

    They are this library's own blocks, 9 layers of 256 channels; S = V = 5, K = 20, 53 header tokens.
    At most COPIES, since each is a large network.
    """
    tunnel = tunnels.HMM(header="tokens")
    episodes = tunnel.sample(min(n_episodes, PROBED), rng_for(tunnel, 6))
    known = training.loop.model_config(training.recipe("hmm", architecture, "paper"))
    config = known | {k: v for k, v in tunnel.interface.to_dict().items() if k in known} | {"n_layers": 9, "width": 256}
    goal = filtering.goals(tunnel, episodes)
    rows = []
    for draw in range(min(draws, COPIES)):
        model = models.build(architecture, config, torch.Generator().manual_seed(20_000 + draw)).eval()
        x = filtering.at_steps(model, episodes.inputs, "final")["final"]
        silhouettes = clusters.silhouettes(clusters.leading(clusters.cloud(x)), COUNTS)
        row = cloud_row(x, episodes) | {"clusters": COUNTS[int(silhouettes.argmax())]}
        rows.append(row | {"entropy": filtering.held_out(x, goal["entropy"]), "pc1_percent": 100 * row["pc1"]})
    return stats.summaries(rows)

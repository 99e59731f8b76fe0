"""The record `probe_ablation`: what trained networks depend on, beside what as large a disturbance costs.

Under "networks", by name and seed: "layers" (a row a layer), "heads" (rises of the KL in three ways),
"groups" (heads taken out together), "flow" (readable and handed over, before and after every write).
Under "untrained", by name: the same of untrained copies, as far as it is a null.

Axes: B episodes, K scored positions, L layers, H heads.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch

from bayeswind_lib import baselines, checkpoints, probes, stats
from bayeswind_lib.probes import beliefs, exchange, layers
from bayeswind_lib.probes.activations import resume
from bayeswind_lib.probes.exchange import feed_forward_share
from bayeswind_lib.probes.fixed import (
    bench_of,
    last_stream,
    pairs_of,
    rng_for,
    stream_episodes,
    streams,
    tunnel_of,
)
from bayeswind_lib.probes.layers import LENGTHS, chance_to_be_right, layer_logits

PUBLISHED = (("bijection-transformer", (0,)), ("bijection-transformer-posterior", (0,)), ("hmm-transformer", (0,)))
CLASSROOM = (
    ("bijection-transformer-classroom", (0, 1, 2)), ("bijection-transformer-classroom-posterior", (0, 1, 2)),
    ("hmm-transformer-classroom", (0,)),
)
COPIES_OF = ("bijection-transformer", "hmm-transformer", "bijection-transformer-classroom", "hmm-transformer-classroom")
HOWS = ("zero", "mean", "resample")
FIT, BENCH, PAIRS = 192, 32, 24  # the fewest episodes for each purpose


def measure(n_episodes: int, draws: int) -> dict:
    """All of the record.

    Args:
        n_episodes: half of them for heads and to fit readers, a quarter for layers, an eighth as
            pairs; but never fewer than `FIT`, `BENCH` and `PAIRS` say.
        draws: of each null; of noise and of copies at most 20, of subspaces at most 30.
    """
    found: dict = {}
    for name, seeds in (*PUBLISHED, *CLASSROOM):
        for seed in seeds:
            found.setdefault(name, {})[str(seed)] = opened(checkpoints.load(name, seed), n_episodes, draws)
    copies = {name: untrained(name, n_episodes, draws) for name in COPIES_OF}
    return {"networks": found, "untrained": copies, "noise": noise_nulls(found)}


def opened(model, n_episodes: int, draws: int) -> dict:
    """Everything about one network."""
    tunnel = tunnel_of(model)
    many, few = (bench_of(model, max(BENCH, n_episodes // share)) for share in (2, 4))
    rng, effects = rng_for(tunnel, 411), head_effects(many)
    return {
        "before": level(few, resume(model, few.known[last_stream(model)], len(model.blocks))),
        "layers": [layer_row(few, layer, min(draws, 20), rng) for layer in range(len(model.blocks))],
        "before_heads": level(many, resume(model, many.known[last_stream(model)], len(model.blocks))),
        "heads": effects, "groups": group_rows(many, effects),
        "flow": flow_rows(model, tunnel, n_episodes, min(draws, 30)),
        "n_heads": len(many.episodes), "n_layers": len(few.episodes),
        "n_fit": max(FIT, n_episodes // 2), "n_pairs": max(PAIRS, n_episodes // 8),
    }


def level(bench: probes.Bench, logits: torch.Tensor) -> dict[str, float]:
    """KL and entropy error (bits), TV and the chance to be right (probability) of some logits."""
    found = {name: float(cells.mean()) for name, cells in bench.measures(logits).items() if name in ("kl", "entropy_mae", "tv")}
    return found | {"right": chance_to_be_right(bench, logits)}


def layer_row(bench: probes.Bench, layer: int, draws: int, rng: torch.Generator) -> dict:
    """A layer changed in every way: level by way; "noise_draws" of its controls; noise of other lengths."""
    L = len(bench.model.blocks)
    ways = [way for way in layers.WAYS if way != "noise" and (way != "swap" or layer + 1 < L)]
    row: dict = {way: level(bench, layer_logits(bench, layer, way, rng)) for way in ways}
    noise = [level(bench, layer_logits(bench, layer, "noise", rng)) for _ in range(draws)]
    row["noise"] = {name: float(np.mean([one[name] for one in noise])) for name in noise[0]}
    row["noise_draws"] = stats.summaries(noise)
    row["bypass_percentile"] = stats.percentile(row["bypass"]["kl"], [one["kl"] for one in noise])
    by_length = [level(bench, layer_logits(bench, layer, "noise", rng, length)) for length in LENGTHS]
    row["by_length"] = {name: [one[name] for one in by_length] for name in by_length[0]}
    moved, stream = layers.update(bench, layer), bench.known[f"residual.{layer + 1}"]
    row["relative_length"] = float((moved.norm(dim=-1) / stream.norm(dim=-1)).mean())
    return row


def head_effects(bench: probes.Bench, hows=HOWS) -> dict:
    """Rises of KL and entropy error when each head is taken out: by way, (L, H) lists."""
    names = probes.parts(bench.model, "head")
    H, found = bench.model.config.n_heads, {}
    for how in hows:
        effects = [bench.effect(name, how) for name in names]
        found[how] = {
            measure: np.reshape([getattr(e, measure) for e in effects], (-1, H)).tolist()
            for measure in ("kl", "kl_se", "entropy_mae")
        }
        found[how] |= {"concentration": probes.concentration(effects)["ratio"],
                       "n_half": probes.concentration(effects)["n_half"], "top": probes.concentration(effects)["what"]}
    return found


def group_rows(bench: probes.Bench, effects: dict) -> list[dict]:
    """Heads taken out together, zero: pairs of the five largest, and all heads of a layer; joint KL and sum."""
    names = probes.parts(bench.model, "head")
    single = dict(zip(names, np.ravel(effects["zero"]["kl"]), strict=True))
    top = sorted(names, key=single.get, reverse=True)[:5]
    groups = [list(pair) for pair in itertools.combinations(top, 2)]
    groups += [[n for n in names if n.startswith(f"head.{layer}.")] for layer in range(len(bench.model.blocks))]
    rows = []
    for group in groups:
        joint = bench.effect(group, "zero")
        rows.append({"heads": group, "joint": joint.kl, "joint_se": joint.kl_se, "sum": float(sum(single[n] for n in group))})
    return rows


def flow_rows(model, tunnel, n_episodes: int, draws: int) -> list[dict]:
    """Before and after every write: readable share of the belief, and what an exchange hands over.

    "token" is the pattern of the token at the position (in an HMM, the last symbol), "evidence" in an HMM that of what the last
    symbol alone says about the state, by the chain's emission matrix, and "dealt" that of other episodes' beliefs.
    """
    x, belief = streams(model, tunnel, max(FIT, n_episodes // 2))
    pairs = pairs_of(model, tunnel, max(PAIRS, n_episodes // 8))
    inputs = stream_episodes(tunnel, len(belief)).inputs
    others = {"token": tokens(model, inputs)}
    if tunnel.name == "hmm":
        others["evidence"] = baselines.hmm.EmissionOnly(tunnel).predict(inputs).exp2().numpy()
    rng, dealing, rows = rng_for(tunnel, 413), rng_for(tunnel, 417), []
    deals = [torch.randperm(len(belief), generator=dealing).numpy() for _ in range(min(draws, 20))]
    Y, D = belief.shape[-1], model.config.width
    for place in exchange.places(model):
        row: dict = {"place": place} | readable_row(x[place], belief)
        row["whole"] = pairs.handed_over(place)
        for kind in exchange.KINDS:
            basis = exchange.directions(x[place], belief, kind)
            row[kind], row[f"{kind}_share"] = pairs.handed_over(place, basis), pairs.share(place, basis)
            if kind == "pattern":
                row["rest"] = pairs.handed_over(place, basis, rest=True)
        drawn = [pairs.handed_over(place, exchange.random_directions(Y - 1, D, rng)) for _ in range(draws)]
        row["random"] = stats.summary(drawn)
        row["random"] |= {f"percentile_of_{kind}": stats.percentile(row[kind], drawn) for kind in exchange.KINDS}
        row |= {what: pairs.handed_over(place, exchange.directions(x[place], y, "pattern", Y - 1)) for what, y in others.items()}
        row["dealt"] = stats.summary([pairs.handed_over(place, exchange.directions(x[place], belief[deal], "pattern")) for deal in deals])
        rows.append(row)
    ends = {"margin_none": float(pairs.none.mean()), "margin_all": float(pairs.all.mean())}
    return [row | ends for row in rows]


def tokens(model, inputs: torch.Tensor) -> np.ndarray:
    """The token at each scored position, one-hot: (S, K, number of different tokens).

    Vectors, as an HMM has them, are taken as they are: a symbol is one-hot already.
    """
    found = inputs[:, model.scored_positions(inputs.shape[1])]
    return (found if found.ndim == 3 else found[..., None] == found.unique()).double().numpy()


def readable_row(x: np.ndarray, belief: np.ndarray) -> dict[str, float]:
    """R^2 of the belief and (where the belief rules out) of what is not ruled out; their shuffled nulls."""
    x = exchange.scaled(x, belief)[0].reshape(x.shape)
    found = beliefs.readable(x, belief, alpha=1e-5)
    row = {"r2": found.r2, "r2_shuffled": found.shuffled_r2}
    possible = (belief > 0).astype(float)
    if possible.std() > 0:
        found = beliefs.readable(x, possible, alpha=1e-5)
        row |= {"possible_r2": found.r2, "possible_r2_shuffled": found.shuffled_r2}
    return row


def untrained(name: str, n_episodes: int, draws: int) -> dict:
    """Untrained copies: the largest |effect| of a head, the tenfold rule, readable shares by place."""
    trained = checkpoints.load(name)
    tunnel, heads, percents, ratios, flows = tunnel_of(trained), [], [], [], []
    for draw in range(min(draws, 20)):
        copy = probes.untrained(trained, rng_for(tunnel, 920 + draw))
        copy.record = trained.record
        bench = bench_of(copy, BENCH)
        effects = head_effects(bench, ("zero",))["zero"]
        heads.append({m: float(np.abs(effects[m]).max()) for m in ("kl", "entropy_mae")})
        mae = float(bench.before["entropy_mae"].mean())
        percents.append({"percent": 100 * heads[-1]["entropy_mae"] / mae})
        ratios.append({"least_ratio": min(level(bench, layer_logits(bench, layer, "bypass"))["entropy_mae"] / mae
                                          for layer in range(len(copy.blocks)))})
        x, belief = streams(copy, tunnel, max(FIT, n_episodes // 2))
        flows.append([readable_row(x[place], belief) for place in exchange.places(copy)])
    flow = [{"place": place} | stats.summaries([rows[i] for rows in flows]) for i, place in enumerate(exchange.places(trained))]
    gains = [{"share": feed_forward_share(rows, "r2")} for rows in flows]
    return {"heads": stats.summaries(heads), "layers": stats.summaries(ratios)["least_ratio"], "flow": flow,
            "feed_forward_share": stats.summaries(gains)["share"], "head_percent": stats.summaries(percents)["percent"]}


def least_ratio(entry: dict, way: str) -> float:
    """The smallest factor by which a change of one layer raises the entropy error."""
    return min(row[way]["entropy_mae"] for row in entry["layers"]) / entry["before"]["entropy_mae"]


def accuracy_drop(entry: dict, way: str) -> float:
    """The largest loss of the chance to be right by a change of one layer, as a share of what there was."""
    right = entry["before"]["right"]
    return max((right - row[way]["right"]) / right for row in entry["layers"])


def noise_nulls(found: dict) -> dict:
    """The rules of the ledger, and what noise as long as the updates gives: by network, of seed 0.

    Beside the least factor, and beside the largest drop, stands noise behind the layer that has it: noise behind another layer says nothing of this one.
    """
    rows: dict = {}
    for name, seeds in found.items():
        entry = seeds["0"]
        before = entry["before"]["entropy_mae"]
        least = min(entry["layers"], key=lambda row: row["bypass"]["entropy_mae"])
        ends = {end: least["noise_draws"]["entropy_mae"][end] / before for end in ("null", "low", "high")}
        right = entry["before"]["right"]
        most = min(entry["layers"], key=lambda row: row["bypass"]["right"])
        drops = {end: (right - most["noise_draws"]["right"][other]) / right
                 for end, other in (("null", "null"), ("low", "high"), ("high", "low"))}
        draws = entry["layers"][0]["noise_draws"]["kl"]["draws"]
        rows[name] = {
            "least_ratio": least_ratio(entry, "bypass"), "least_ratio_null": ends | {"draws": draws},
            "accuracy_drop": accuracy_drop(entry, "bypass"), "accuracy_drop_null": drops | {"draws": draws},
            "head_percent": 100 * max(map(max, entry["heads"]["zero"]["entropy_mae"])) / entry["before_heads"]["entropy_mae"],
            "feed_forward_share": feed_forward_share(entry["flow"], "r2"),
        }
    return rows

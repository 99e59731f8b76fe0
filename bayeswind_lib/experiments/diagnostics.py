"""The record `probe_diagnostics`: every diagnostic of the papers on networks of which it is known whether they are right.

A network is right if its divergence from the exact posterior is below `RIGHT` bits. The families are all
right transformers that ship in the two tunnels, each trained apart from the others, which attend in every
layer and whose keys are free (not rotary). Of each family: the network as trained; six equivalents with the same answer and another geometry;
one with the same geometry whose outcomes are renamed; two untrained copies. Beside them stand networks
that learned half of it: snapshots, and shipped ones that fell short. Equivalents are not independent networks:
intervals of theirs draw families.

networks: one row each, with the number and the verdict of every diagnostic. diagnostics: how many pass, by
kind, with exact intervals, and areas under the ROC curve. "claims" and the parts named after nulls: what
the ledger reads.

Axes: B episodes, n prompts.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import nn

from bayeswind_lib import checkpoints, stats, tunnels
from bayeswind_lib.checkpoints.snapshots import load_snapshots
from bayeswind_lib.language import own_networks
from bayeswind_lib.language.papers import DIAGNOSTICS, Diagnostic, Look
from bayeswind_lib.probes import equivalents, nulls
from bayeswind_lib.probes.fixed import SEED, rng_for
from bayeswind_lib.scoring import entropy_bits

RIGHT = 0.01  # bits of divergence
TUNNELS = ("bijection", "hmm")
EPISODES, PROMPTS, COPIES = 96, 64, 2
STEPS = {"bijection-transformer-classroom-snapshots": (23, 46, 131, 372), "hmm-transformer-classroom-snapshots": (46, 92, 185, 372)}
TRIAL = ("bijection-transformer-classroom-posterior", "hmm-transformer-classroom")  # a family each, where few draws are asked for
KINDS = ("trained", *equivalents.EQUIVALENTS, "renamed", "untrained", "half learned")
Row = dict


def measure(n_episodes: int, draws: int) -> dict:
    """The record; see the module.

    Args:
        n_episodes: at most `EPISODES` are used. draws: of each null; below 20 two families stand for all.
    """
    rows: list[Row] = []
    families = [one for one in candidates() if draws >= 20 or (one["name"] in TRIAL and one["seed"] == 0)]
    for one in families:
        rows += of_family(checkpoints.load(one["name"], seed=one["seed"]), min(n_episodes, EPISODES))
    if draws >= 20:
        rows += [judged(model, "half learned", name, EPISODES) for name, model in half_learned()]
    names = [one.name for one in DIAGNOSTICS]
    stored = [{key: x for key, x in row.items() if key != "passed"} | {"numbers": [row["numbers"][name] for name in names]} for row in rows]
    return {"right_below": RIGHT, "order": names, "networks": stored} | summaries(rows, draws)


def candidates() -> list[dict]:
    """The shipped transformers that may head a family: attention that looks, keys whose coordinates are free."""
    found = []
    for one in checkpoints.shipped():
        if one["architecture"] == "transformer" and one["tunnel"] in TUNNELS:
            config = checkpoints.load(one["name"], seed=one["seed"]).config
            game = one["name"].endswith("-small")  # the landing page's, which is not among those that chapters look into
            if attends(config) and config.positions != "rotary" and float(one["scores"]["kl"]) < RIGHT and not game:
                found.append(one)
    return found


def attends(config) -> bool:
    """Whether every layer has attention that looks."""
    return config.attention == "softmax" and not config.without_attention


def half_learned() -> Iterator[tuple[str, nn.Module]]:
    """Networks that know something and are not right: snapshots of two runs, and shipped ones, by their run."""
    for name, steps in STEPS.items():
        snapshots = load_snapshots(name)
        yield from ((name, snapshots.network(step)) for step in steps)
    for one in checkpoints.shipped():
        if one["architecture"] == "transformer" and one["tunnel"] in TUNNELS and float(one["scores"]["kl"]) >= RIGHT:
            model = checkpoints.load(one["name"], seed=one["seed"])
            if attends(model.config):
                yield one["name"], model


def looked_at(model: nn.Module, n: int) -> tuple:
    """What every network of a tunnel is asked: episodes, others to build equivalents on, prompts, and their exact entropy."""
    tunnel = tunnels.build(model.record["tunnel"], model.record["tunnel_config"])
    episodes, others = (tunnel.sample(n, rng_for(tunnel, stream)) for stream in (460, 461))
    return episodes, others, *own_networks.prompts_of(model, PROMPTS, rng_for(tunnel, 462))


def judged(model: nn.Module, kind: str, family: str, n: int, trained: nn.Module | None = None) -> Row:
    """One network under all diagnostics, none of which is told what it is.

    Args:
        trained: the network that it is an equivalent of, to say how far their answers are apart.
    """
    episodes, _, prompts, entropy = looked_at(model, n)
    look = Look(model, episodes, prompts, entropy)
    found = {d.name: look.number(d.name) for d in DIAGNOSTICS}
    row = {
        "family": family, "kind": kind, "tunnel": model.record["tunnel"], "kl": short(look.score.kl),
        "right": look.score.kl < RIGHT, "numbers": {name: short(x) for name, x in found.items()},
        "passed": {d.name: d.passed(found[d.name]) for d in DIAGNOSTICS if not math.isnan(found[d.name])},
    }
    if trained is not None:
        row["apart"] = max(short(equivalents.difference(trained, model, episodes.inputs), 1), 1e-8)  # below: rounding
    return row


def short(x: float, digits: int = 4) -> float | None:
    """Few digits; tiny numbers, which are rounding, are 0; None for NaN."""
    return None if math.isnan(x) else 0.0 if abs(x) < 1e-8 else float(f"{x:.{digits}g}")


def of_family(model: nn.Module, n: int) -> list[Row]:
    """A trained network, its equivalents, its copy with renamed outcomes, and untrained ones."""
    name = f"{model.record['name']}/{model.record['seed']}"
    _, others, *_ = looked_at(model, n)
    numbers = entropy_bits(others.posterior.log2())
    rows = [judged(model, "trained", name, n)]
    rows += [judged(make(model, others.inputs, numbers), kind, name, n, model) for kind, make in equivalents.EQUIVALENTS.items()]
    rows.append(judged(equivalents.readout_renamed(model), "renamed", name, n))
    for i in range(COPIES):
        copy = nulls.untrained(model, torch.Generator().manual_seed(zlib.crc32(f"{name} {i}".encode())))
        copy.record = model.record
        rows.append(judged(copy, "untrained", name, n))
    return rows


# ---- rates


def of_kind(rows: Sequence[Row], name: str, kinds: Sequence[str]) -> list[Row]:
    """The networks of some kinds to which a diagnostic applies."""
    return [row for row in rows if row["kind"] in kinds and name in row["passed"]]


def passing(rows: Sequence[Row], name: str, kinds: Sequence[str]) -> dict | None:
    """How many pass, with the exact interval of their probability; None if there are none."""
    some = of_kind(rows, name, kinds)
    if not some:
        return None
    passed = sum(row["passed"][name] for row in some)
    low, high = stats.share_interval(passed, len(some))
    return {"passed": passed, "n": len(some), "share": passed / len(some), "low": low, "high": high}


def of_equivalents(rows: Sequence[Row], name: str, rng: np.random.Generator) -> dict:
    """The same of equivalents, whose interval draws families; "kept" is the share with the verdict of their trained network."""
    own = {row["family"]: row["passed"][name] for row in of_kind(rows, name, ["trained"])}
    some = of_kind(rows, name, list(equivalents.EQUIVALENTS))
    shares = [np.mean([row["passed"][name] for row in some if row["family"] == family]) for family in own]
    low, high = stats.clustered_interval(shares, rng)
    kept = float(np.mean([row["passed"][name] == own[row["family"]] for row in some]))
    return {"passed": sum(row["passed"][name] for row in some), "n": len(some), "families": len(own),
            "share": float(np.mean(shares)), "low": low, "high": high, "kept": kept}


def area(rows: Sequence[Row], one: Diagnostic, right: Sequence[str], wrong: Sequence[str]) -> float:
    """Area under the ROC curve of its number between networks of some kinds and of others."""
    return stats.roc_area(*([one.sign(row["numbers"][one.name]) for row in of_kind(rows, one.name, kinds)] for kinds in (right, wrong)))


def summaries(rows: Sequence[Row], draws: int) -> dict:
    """By diagnostic: how many of each kind pass, and the areas; then what the ledger reads."""
    rng, found = np.random.default_rng(SEED), {}
    for one in DIAGNOSTICS:
        kinds = {kind: passing(rows, one.name, [kind]) for kind in KINDS}
        found[one.name] = {
            "paper": one.paper, "source": one.source, "about": one.about, "threshold": one.threshold, "low_is_sign": one.low,
            "kinds": {kind: x for kind, x in kinds.items() if x}, "equivalents": of_equivalents(rows, one.name, rng),
            "area_untrained": area(rows, one, ["trained"], ["untrained"]),
            "area_renamed": area(rows, one, ["trained"], ["renamed"]),
            "area_equivalents": area(rows, one, list(equivalents.EQUIVALENTS), ["renamed"]),
        }
    return {"diagnostics": found} | ledger_values(rows, found, draws, rng)


def ledger_values(rows: Sequence[Row], found: dict, draws: int, rng: np.random.Generator) -> dict:
    """Four sentences in numbers, and their nulls."""
    inside = [one for one in DIAGNOSTICS if one.about != "answers"]
    pairs = {
        "signature": ([next(d for d in DIAGNOSTICS if d.name == "all three signs")], "untrained"),
        "geometry": (inside, "renamed"),
    }
    claims, dealt = {}, {}
    for claim, (chosen, wrong) in pairs.items():
        claims[claim] = max(area(rows, one, ["trained"], [wrong]) for one in chosen)
        dealt[claim] = stats.summary([max(dealt_area(rows, one, wrong, rng) for one in chosen) for _ in range(draws)])
    claims["entropy error"] = 1 - found["entropy error"]["kinds"]["renamed"]["share"]
    both = np.array([row["passed"]["entropy error"] for row in of_kind(rows, "entropy error", ["trained", "renamed"])])
    dealt["entropy error"] = stats.summary([1 - float(rng.permutation(both)[::2].mean()) for _ in range(draws)])
    kept = [found[one.name]["equivalents"]["kept"] for one in inside]
    claims["kept"] = float(np.mean(kept))
    return {"claims": claims, "shuffled_labels": dealt, "other_network": {"kept": stats.summary(others_kept(rows, inside, draws, rng))}}


def dealt_area(rows: Sequence[Row], one: Diagnostic, wrong: str, rng: np.random.Generator) -> float:
    """The area when right and wrong are dealt out at random among the same networks."""
    signs = [[one.sign(row["numbers"][one.name]) for row in of_kind(rows, one.name, [kind])] for kind in ("trained", wrong)]
    order = rng.permutation(np.concatenate(signs))
    return stats.roc_area(order[: len(signs[0])], order[len(signs[0]) :])


def others_kept(rows: Sequence[Row], inside: Sequence[Diagnostic], draws: int, rng: np.random.Generator) -> list[float]:
    """How many verdicts on equivalents are those on a trained network drawn at random, mean over diagnostics."""
    found = []
    for _ in range(draws):
        shares = []
        for one in inside:
            own = np.array([row["passed"][one.name] for row in of_kind(rows, one.name, ["trained"])])
            some = np.array([row["passed"][one.name] for row in of_kind(rows, one.name, list(equivalents.EQUIVALENTS))])
            shares.append(np.mean(some == rng.choice(own, len(some))))
        found.append(float(np.mean(shares)))
    return found

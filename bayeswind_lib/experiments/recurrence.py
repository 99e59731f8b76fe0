"""The record `probe_recurrence`: the recurrence tunnel by formula, and what lesser observers score in it.

tasks/<task>/constants: for a beginning with x_0 != x_1 that a program explains, P(program) and the
entropy after k symbols, by formula; under `sampled` the same from sampled programs. `baselines`: scores
of the reference predictors (`kl_ruled`: from the third symbol on). `null`: the uniform guess, draw by draw. `independent`: the constants
where there is no rule at all.

trained: what networks of published size do. They lie in the folder of the queue, which only `--runs` brings; without it
what is stored is kept:

    python -m bayeswind_lib queue --folder FOLDER --only recurrence
    python -m bayeswind_lib records probe_recurrence --runs FOLDER

Axes: B sequences, T symbols read, D channels, R directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import baselines, checkpoints, stats, tunnels
from bayeswind_lib.baselines.recurrence import AnyRule, Memoriser, ruled
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import queue
from bayeswind_lib.experiments.progress import about
from bayeswind_lib.probes.activations import activations, edit
from bayeswind_lib.probes.beliefs import fit_reader
from bayeswind_lib.probes.fixed import SEED, rng_for
from bayeswind_lib.scoring import entropy, entropy_bits, score_episodes
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import ended_cells, weights_of
from bayeswind_lib.tunnels import recurrence

SIZES = ((17, 16), (7, 12))
LARGE, HORIZON = (31, 16), 5  # of which only the guess is scored, and the horizon of the trained networks
STEPS = range(1, 7)
PAIRS = ((2, 8), (3, 9), (4, 10))  # places of a donor within the horizon and of its recipient behind it, in the authors' script


def task_of(modulus: int, length: int) -> str:
    """The task under which the scores of a size are stored."""
    return f"p{modulus}-L{length}"


def constants(symbols: torch.Tensor, modulus: int) -> dict[str, float]:
    """Mean P(program) and mean entropy (bits) after k symbols of some sequences (B, T)."""
    weight = recurrence.program_probability(symbols, modulus).mean(0)
    bits = entropy_bits(recurrence.posterior(symbols, modulus).log2()).mean(0)
    found_at = {f"program_at_{k}": float(weight[k - 1]) for k in STEPS}
    return found_at | {f"entropy_at_{k}": float(bits[k - 1]) for k in STEPS}


def by_formula(modulus: int) -> dict[str, float]:
    """`constants` of a program with x_0 != x_1, without a sequence: the Bayes factor is p^(k - 3)."""
    found_at = {}
    for k in STEPS:
        factor = float(modulus) ** max(k - 3, 0)
        weight, rest = factor / (1 + factor), 1 / (1 + factor) / modulus
        sharp = np.array([weight + rest] + [rest] * (modulus - 1))
        found_at[f"program_at_{k}"] = weight
        found_at[f"entropy_at_{k}"] = float(entropy(sharp)) if k > 2 else float(np.log2(modulus))
    return found_at


def programs(modulus: int, length: int, n: int, rng: torch.Generator) -> torch.Tensor:
    """About n / 2 sampled sequences of programs with x_0 != x_1: int64 (B, length)."""
    latents = tunnels.Recurrence(modulus, length).sample(n, rng).latents
    symbols = latents["symbols"][latents["is_program"]]
    return symbols[symbols[:, 0] != symbols[:, 1]]


def scores(modulus: int, length: int, n: int, rng: torch.Generator) -> dict[str, dict[str, float]]:
    """What the lesser observers score on all beginnings, on the trained ones and on those held out."""
    found_at: dict = {}
    for prefixes in recurrence.PREFIXES:
        tunnel = tunnels.Recurrence(modulus, length, prefixes=prefixes)
        episodes = tunnel.sample(n, rng)
        for name, kind in (("uniform", baselines.Uniform), ("any_rule", AnyRule), ("memoriser", Memoriser)):
            found = score_episodes(kind(tunnel), episodes)
            found_at[name if prefixes == "all" else f"{name}_{prefixes}"] = {
                "entropy_mae": found.entropy_mae, "kl": found.kl, "tv": found.tv, "kl_ruled": ruled(found),
            }
    return found_at


def measure(n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """The record.

    Args:
        records: where the stored record lies, whose networks are kept. runs: the folder of the queue.
    """
    rng = torch.Generator().manual_seed(SEED)
    tasks = {}
    for modulus, length in SIZES:
        tunnel = tunnels.Recurrence(modulus, length)
        drawn = [constants(torch.randint(modulus, (64, length), generator=rng), modulus) for _ in range(draws)]
        nulls = []
        for _ in range(draws):
            found = score_episodes(baselines.Uniform(tunnel), tunnel.sample(64, rng))
            nulls.append({"entropy_mae": found.entropy_mae, "kl": found.kl})
        rng_of_parts = rng_for(tunnel, 488)
        tasks[task_of(modulus, length)] = {
            "constants": by_formula(modulus),
            "sampled": {"constants": constants(programs(modulus, length, 4 * n_episodes, rng), modulus)},
            "baselines": scores(modulus, length, 4 * n_episodes, rng),
            "null": {"uniform": stats.summaries(nulls), "parts": stats.summaries([guesses(tunnel, rng_of_parts) for _ in range(draws)])},
            "independent": stats.summaries(drawn),
            "beginnings": modulus * (modulus - 1) * modulus,
            "held_out": int((recurrence.buckets(modulus) == 0).sum()),
        }
    large = tunnels.Recurrence(*LARGE)
    rng_of_parts = rng_for(large, 488)
    tasks[task_of(*LARGE)] = {"null": {"parts": stats.summaries([guesses(large, rng_of_parts) for _ in range(draws)])}}
    networks = trained(n_episodes, draws, records, runs)
    opened_one = networks["runs"].get("horizon", {}).get("0")
    return {
        "tasks": tasks, "independent": {task: one["independent"] for task, one in tasks.items() if "independent" in one}, "trained": networks,
        "shuffled": {"rescue": dealt_of(opened_one)} if opened_one else {},
    }


def guesses(tunnel: tunnels.Recurrence, rng: torch.Generator) -> dict[str, float]:
    """What the uniform guess scores on 64 episodes, on the parts that trained networks are scored on: KL from the third symbol on
    ("kl_ruled"), entropy error within the horizon and behind it ("inside", "outside"), which is its KL as well."""
    found = score_episodes(baselines.Uniform(tunnel), tunnel.sample(64, rng))
    error = found.per_position["entropy_mae"]
    return {"kl_ruled": ruled(found), "inside": float(error[:HORIZON].mean()), "outside": float(error[HORIZON:].mean())}


# ---- trained networks


def trained(n: int, draws: int, records: str | Path | None, runs: str | Path | None) -> dict:
    """By label and seed what every network does, under "runs"; and of all seeds together what the ledger asks for."""
    found = dict(((store.read("probe_recurrence", records) or {}).get("trained") or {}).get("runs", {}))
    for cell, row in ended_cells(plain_cells(), runs):  # of a network that is not opened the longest run is kept
        network, config = checkpoints.load_file(weights_of(row, runs)), cell.recipe.tunnel_config
        measured = opened(network, config, n, draws) if config.get("horizon") else split(network, config, n)
        label = cell.name.removeprefix("recurrence-transformer").strip("-") or "integer"
        found.setdefault(label, {})[str(cell.recipe.seed)] = about(row) | measured
    return {"runs": found} | asked(found)


def plain_cells() -> list[Cell]:
    """The cells of the queue in this tunnel at the rate that a name's plain cell has, the shortest first: no trial of another rate.

    Of a network that is opened no longer run either: it is read beside the plain one, in the record `probe_tried`.
    """
    entries = [entry for entry in queue.entries() if entry.cell.recipe.tunnel == "recurrence" and entry.cell.preset == "paper"]
    plain = queue.plain_recipes()
    cells = [entry.cell for entry in entries if entry.cell.recipe.learning_rate == plain[entry.cell.name].learning_rate]
    kept = [cell for cell in cells if not cell.recipe.tunnel_config.get("horizon") or cell.recipe.steps == plain[cell.name].steps]
    return sorted(kept, key=lambda cell: cell.recipe.steps)


def asked(found: dict) -> dict:
    """Means over seeds, under the names that the ledger knows."""
    def over_seeds(label: str, *path: str) -> dict:
        values = [store.lookup(run, "/".join(path)) for run in found.get(label, {}).values()]
        values = [value for value in values if value is not None]
        if not values:
            return {}
        return {path[-1]: float(np.mean(values))} | ({f"{path[-1]}_se": stats.standard_error(values)} if len(values) > 1 else {})

    return {
        "p17": over_seeds("train", "train") | over_seeds("train", "held_out"),
        "p31": over_seeds("train-p31", "train") | over_seeds("train-p31", "held_out"),
        "horizon": over_seeds("horizon", "inside") | over_seeds("horizon", "outside"),
        "ablated": over_seeds("horizon", "ablated", "read") | over_seeds("horizon", "ablated", "random"),
        "rescue": over_seeds("horizon", "rescue", "block_1"),
        "published": {
            key: value for path in PUBLISHED for key, value in over_seeds("horizon", "published", path).items()
        },
    }


def dealt_of(found: dict) -> dict:
    """The null of the rescue: donors dealt out anew, at the authors' places where they were looked at."""
    return found.get("published", {}).get("dealt") or found["rescue"]["dealt"]


PUBLISHED = ("inside", "outside", "before", "read", "random", "block_2")  # what the ledger asks for of `as_published`


def split(model: nn.Module, config: dict, n: int) -> dict:
    """KL in bits from the third symbol on: of all beginnings, or of those of the trained buckets and of the one held out.

    Beside both stand those of the observers that copy and that know the trained beginnings by heart; and all of them by position, (T,).
    """
    if config.get("prefixes", "all") == "all":
        parts = {"all": tunnels.build("recurrence", config)}
    else:
        parts = {name: tunnels.build("recurrence", config | {"prefixes": name}) for name in ("train", "held_out")}
    found: dict = {}
    for name, tunnel in parts.items():
        episodes = tunnel.sample(n, rng_for(tunnel, 480))
        for label, predictor in ((name, model), (f"copier_{name}", AnyRule(tunnel)), (f"by_heart_{name}", Memoriser(tunnel))):
            score = score_episodes(predictor, episodes)
            found |= {label: ruled(score), f"{label}_by_position": [float(f"{x:.4g}") for x in score.per_position["kl"]]}
    return found


def opened(model: nn.Module, config: dict, n: int, draws: int) -> dict:
    """A network that was trained within a horizon: KL inside and outside of it, and what two interventions do.

    Returns:
        inside, outside: mean KL in bits of the positions within the horizon, and of those behind.
        ablated: at the block behind which a and b are read best ("block", "a", "b": shares read rightly), the KL inside
            after the directions of the readings are taken out ("read"), and after as many random ones ("random", a median
            of `draws`, with "low" and "high"); "rank", how many.
        rescue: see `rescued`. published: see `as_published`.
    """
    horizon, whole = config["horizon"], tunnels.build("recurrence", {k: v for k, v in config.items() if k != "horizon"})
    kl = score_episodes(model, whole.sample(n, rng_for(whole, 481))).per_position["kl"]  # (T,)
    rescue = {f"block_{i}": rescued(model, config, n, i) for i in range(1, len(model.blocks))}
    return {
        "inside": float(kl[:horizon].mean()), "outside": float(kl[horizon:].mean()), "by_position": [float(f"{x:.4g}") for x in kl],
        "ablated": ablated(model, config, n, draws), "rescue": rescue | rescue_controls(model, config, n, draws),
        "published": as_published(model, config, n, draws),
    }


def sequences(modulus: int, n: int, length: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Programs that move their first symbol, and what they write: int64 (n, 2) and (n, length)."""
    start, program = torch.randint(modulus, (n,), generator=rng), torch.randint(modulus, (n, 2), generator=rng)
    still = (program[:, 0] * start + program[:, 1]) % modulus == start
    program[still, 1] = (program[still, 1] + 1) % modulus
    rows = [start]
    for _ in range(length - 1):
        rows.append((program[:, 0] * rows[-1] + program[:, 1]) % modulus)
    return program, torch.stack(rows, 1)


def ablated(model: nn.Module, config: dict, n: int, draws: int) -> dict:
    """Take out of the stream behind one block what a and b are read from, where both are known: see `opened`."""
    p, horizon = config.get("modulus", 17), config["horizon"]
    tunnel = tunnels.build("recurrence", config)
    rng = rng_for(tunnel, 482)
    program, symbols = sequences(p, 2 * n, tunnel.length, rng)
    half, known = slice(0, n), slice(2, horizon)  # after three symbols the program is known
    inputs, names = symbols[:, :-1], np.eye(p)
    best: tuple = (-1.0,)
    for layer in range(1, len(model.blocks) + 1):
        x = activations(model, inputs, f"residual.{layer}")[f"residual.{layer}"][:, known].double().numpy()  # (B, K, D)
        rows, right = [], []
        for numbers in program.T.numpy():
            label = np.repeat(numbers[:, None], x.shape[1], 1)  # (B, K)
            reader = fit_reader(x[half].reshape(-1, x.shape[-1]), names[label[half]].reshape(-1, p))
            rows.append(reader.subspace())
            right.append(float((reader.read(x[n:]).argmax(-1) == label[n:]).mean()))
        if min(right) > best[0]:
            best = (min(right), layer, right, np.linalg.svd(np.concatenate(rows), full_matrices=False), x.reshape(-1, x.shape[-1]).mean(0))
    _, layer, right, (_, sizes, axes), mean = best
    axes = axes[sizes > 1e-6 * sizes[0]]  # (R, D)
    episodes = tunnel.sample(n, rng_for(tunnel, 483))

    def without(directions: np.ndarray) -> float:
        basis, centre = (torch.tensor(part, dtype=torch.float32) for part in (directions, mean))
        with edit(model, {f"residual.{layer}": lambda x: x - ((x - centre) @ basis.T) @ basis}):
            return score_episodes(model, episodes).kl

    source = np.random.default_rng(SEED)
    other = [without(np.linalg.qr(source.standard_normal((axes.shape[1], len(axes))))[0].T) for _ in range(min(draws, 20))]
    null = stats.summary(other)
    return {
        "block": layer, "a": right[0], "b": right[1], "rank": len(axes), "before": score_episodes(model, episodes).kl,
        "read": without(axes), "random": null["null"], "low": null["low"], "high": null["high"], "draws": null["draws"],
    }


def rescued(
    model: nn.Module, config: dict, n: int, block: int, donor: Callable | None = None, pairs: Sequence[tuple[int, int]] | None = None,
) -> float:
    """Share of right answers behind the horizon after the whole stream behind a block came from within it.

    The donor is the same program begun later, so that its last position has read the symbol that the recipient has just
    read. Mean over all positions behind the horizon, or over `pairs`.

    Args:
        block: 1 is the first.
        donor: takes the donor's symbols and gives others in their place; as they are by default.
        pairs: the donor's last position and the recipient's, from 0; by default the last one within the horizon, for every
            position behind it. With pairs, donors that begin with a symbol that stays are left out, as the authors do.
    """
    horizon = config["horizon"]
    tunnel = tunnels.build("recurrence", config)
    _, symbols = sequences(config.get("modulus", 17), n, tunnel.length, rng_for(tunnel, 484))
    name, found = f"residual.{block}", []
    if pairs is not None:
        shift = pairs[0][1] - pairs[0][0]
        symbols = symbols[symbols[:, shift] != symbols[:, shift + 1]]
    for p, k in pairs or [(horizon - 1, k) for k in range(horizon, tunnel.length - 1)]:
        given = symbols[:, k - p : k + 1]  # (n, p + 1), the last one is the symbol at k
        given = given if donor is None else donor(given)
        stream = activations(model, given, name)[name][:, -1]  # (n, D)

        def put(x, stream=stream, k=k):
            return torch.cat([x[:, :k], stream[:, None], x[:, k + 1 :]], 1)

        with edit(model, {name: put}):
            said = answers_at(model, symbols[:, :-1], k)
        found.append(float((said == symbols[:, k + 1]).double().mean()))
    return float(np.mean(found))


@torch.no_grad()
def answers_at(model: nn.Module, inputs: torch.Tensor, k: int) -> torch.Tensor:
    """The likeliest next symbol after symbol k (from 0): int64 (B,)."""
    return model(inputs[:, : k + 1])[:, k].argmax(-1)


def rescue_controls(model: nn.Module, config: dict, n: int, draws: int) -> dict:
    """The same share without a donor ("none"), and behind the first block with donors that were dealt out anew ("dealt", a summary
    of `draws`, at most 20; "other", its median)."""
    horizon = config["horizon"]
    tunnel = tunnels.build("recurrence", config)
    _, symbols = sequences(config.get("modulus", 17), n, tunnel.length, rng_for(tunnel, 484))
    places = range(horizon, tunnel.length - 1)
    none = np.mean([float((answers_at(model, symbols[:, :-1], k) == symbols[:, k + 1]).double().mean()) for k in places])
    rng = torch.Generator().manual_seed(SEED)
    dealt = stats.summary([rescued(model, config, n, 1, lambda given: given[torch.randperm(n, generator=rng)]) for _ in range(min(draws, 20))])
    return {"none": float(none), "other": dealt["null"], "dealt": dealt}


def as_published(model: nn.Module, config: dict, n: int, draws: int) -> dict:
    """What the authors' scripts measure of such a network, with their places and their error.

    Returns:
        inside, outside: mean entropy error in bits of the positions within the horizon, and of those behind.
        before, read, random: the entropy error within the horizon where a program is at work: as it is; after the directions
            from which a and b are read were taken out of the last stream, behind its norm, at each position its own; after
            as many random ones (a median of `draws`, with "low" and "high").
        block_1, block_2, ...: `rescued` with `PAIRS`, of which those count that fit; "dealt", of the second block with donors that were
            dealt out anew (a summary of `draws`, at most 20).
    """
    p, horizon = config.get("modulus", 17), config["horizon"]
    whole = tunnels.build("recurrence", {k: v for k, v in config.items() if k != "horizon"})
    error = score_episodes(model, whole.sample(n, rng_for(whole, 485))).per_position["entropy_mae"]  # (T,)
    program, symbols = sequences(p, 2 * n, whole.length, rng_for(whole, 486))
    stream = activations(model, symbols[:, :horizon], "final")["final"].double().numpy()  # (B, horizon, D)
    names, bases = np.eye(p), []
    for k in range(1, horizon):  # at position 0 nothing of the program shows
        rows = [fit_reader(stream[:, k], names[numbers]).subspace() for numbers in program.T.numpy()]
        _, sizes, axes = np.linalg.svd(np.concatenate(rows), full_matrices=False)
        bases.append(axes[sizes > 1e-6 * sizes[0]])  # (R, D)
    episodes = whole.sample(4 * n, rng_for(whole, 487))
    given = episodes.latents["symbols"]
    episodes = episodes[episodes.latents["is_program"] & (given[:, 0] != given[:, 1])]

    def within(axes: Sequence[np.ndarray]) -> float:
        def change(x: torch.Tensor) -> torch.Tensor:
            x = x.clone()
            for k, basis in enumerate(axes, 1):
                basis = torch.tensor(basis, dtype=x.dtype)
                x[:, k] -= x[:, k] @ basis.T @ basis
            return x

        with edit(model, {"final": change}):
            return float(score_episodes(model, episodes).per_position["entropy_mae"][:horizon].mean())

    source = np.random.default_rng(SEED)
    other = [within([np.linalg.qr(source.standard_normal(basis.shape[::-1]))[0].T for basis in bases]) for _ in range(min(draws, 20))]
    null, places = stats.summary(other), [(a, b) for a, b in PAIRS if a < horizon and b < whole.length - 1]
    rescue: dict = {}
    if places:
        rescue = {f"block_{i}": rescued(model, config, n, i, pairs=places) for i in range(1, len(model.blocks))}
        dice = torch.Generator().manual_seed(SEED)
        rescue["dealt"] = stats.summary(
            rescued(model, config, n, 2, lambda given: given[torch.randperm(len(given), generator=dice)], places) for _ in range(min(draws, 20))
        )
    return {
        "inside": float(error[:horizon].mean()), "outside": float(error[horizon:].mean()),
        "before": within([]), "read": within(bases), "random": null["null"], "low": null["low"], "high": null["high"],
    } | rescue

"""`make records`: everything stored that is not a training run, computed again from its seeds.

Three records: `reference_rungs` (formulas, and the same predictors on sampled episodes),
`facts` (parameter counts, rounding) and `networks` (every shipped network on fresh episodes,
beside untrained twins). One thread, so that a second run gives the same digits.

Axes: B episodes, K scored positions, V values.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from bayeswind_lib import checkpoints, models, references, tunnels
from bayeswind_lib.ledger import store
from bayeswind_lib.scoring import MEASURES, entropy_bits, score_episodes
from bayeswind_lib.training.environment import describe_environment
from bayeswind_lib.training.presets import N_EPISODES, PUBLISHED, SMALL

SEED = 20260107  # of all episodes below; not one of these was seen in training
SIZES = tuple((v, k) for v in (5, 8, 10, 16, 20) for k in (v - 1, v))
LEAKS = (1e-4, 1e-3, 1e-2)
LEAK_ERRORS = (0.0169, 0.007, 0.003, 0.0008)
DRAWS, DRAW_EPISODES = 20, 100


def make_records(
    folder: str | Path | None = None, n_episodes: int = N_EPISODES["paper"], report: Callable = print
) -> list[str]:
    """Compute and store the records; returns the names of those that changed."""
    makers = {"reference_rungs": reference_rungs, "facts": facts, "networks": networks}
    changed = []
    with _one_thread():
        about = describe_environment(torch.device("cpu"))
        for name, maker in makers.items():
            record = maker(n_episodes) | {"seed": SEED, "n_episodes": n_episodes} | about
            written = store.write(name, record, folder)
            report(f"{name}: {'written' if written else 'unchanged'}")
            changed += [name] if written else []
    return changed


def reference_rungs(n_episodes: int, sizes=SIZES) -> dict:
    """Every rung of the bijection tunnel: by formula, on sampled episodes, and the nulls."""
    tasks: dict = {}
    for n_values, n_pairs in sizes:
        tasks[f"V{n_values}-L{n_pairs}"] = {
            "distinct": _task(tunnels.Bijection(n_values, n_pairs), n_episodes),
            "replacement": _task(tunnels.Bijection(n_values, n_pairs, True), n_episodes),
        }
    return {"tasks": tasks, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


def _task(tunnel: tunnels.Bijection, n_episodes: int) -> dict:
    config = tuple(tunnel.config.values())
    constants = references.task_constants(*config)
    constants["total_entropy"] = constants["mean_entropy"] * tunnel.n_pairs
    result = {"constants": constants, "rungs": references.exact_rungs(*config)}
    if not tunnel.with_replacement:
        size = config[:2]
        constants["truth_in_random_set"] = 1 - result["rungs"]["position_counter"]["tv"]
        result["leak"] = {f"{e:g}": references.exact_leak(e, *size) for e in LEAKS}
        reach = references.exact_leak(0.1, *size)["entropy_mae"]
        result["leak_for"] = {
            f"{error:g}": references.leak_for_entropy_error(error, *size)
            for error in LEAK_ERRORS if error < reach
        }
    return result | {"sampled": sampled(tunnel, n_episodes), "null": nulls(tunnel)}


def predictors(tunnel: tunnels.Bijection) -> dict[str, references.Reference]:
    """The rungs that are predictors, by the names that `exact_rungs` gives them."""
    chosen = {
        "uniform": references.Uniform(tunnel),
        "certain": references.Certain(tunnel),
        "position_counter": references.PositionCounter(tunnel, _rng(tunnel, 1)),
        "no_binding": references.Eliminator(tunnel),
    }
    if tunnel.with_replacement:
        return chosen | {
            "repeat_aware": references.RepeatAware(tunnel), "binder": references.Binder(tunnel),
        }
    windows = [w for w in (5, 10, 15, 17, 18) if w < tunnel.n_values]
    return chosen | {
        "one_too_few": references.OneTooFew(tunnel), "one_too_many": references.OneTooMany(tunnel),
    } | {f"window_{w}": references.Eliminator(tunnel, w) for w in windows}


def sampled(tunnel: tunnels.Bijection, n_episodes: int) -> dict:
    """The same numbers from sampled episodes, each with its standard error."""
    episodes = tunnel.sample(n_episodes, _rng(tunnel, 0))
    rungs = {name: _scores(p, episodes) for name, p in predictors(tunnel).items()}
    entropy = entropy_bits(episodes.posterior.log2()).numpy()  # (B, K)
    for name, said in _said_entropies(entropy, tunnel.n_values).items():
        rungs[name] = _with_error("entropy_mae", np.abs(said - entropy))
    rungs["all_tokens"] |= _with_error("kl", math.log2(2 * tunnel.n_values) - entropy)
    result = {"rungs": rungs, "constants": _sampled_constants(tunnel, episodes, entropy)}
    if not tunnel.with_replacement:
        result["leak"] = {f"{e:g}": _scores(references.Leaky(tunnel, e), episodes) for e in LEAKS}
    return result


def _said_entropies(entropy: np.ndarray, n_values: int) -> dict[str, np.ndarray | float]:
    """What the rungs say that fix an entropy and no distribution."""
    return {
        "all_tokens": math.log2(2 * n_values),
        "best_constant": float(np.median(entropy)),
        "mean_constant": float(entropy.mean()),
        "position_median": np.median(entropy, axis=0),
        "position_mean": entropy.mean(0),
    }


def _sampled_constants(tunnel, episodes: tunnels.Episodes, entropy: np.ndarray) -> dict:
    happened = episodes.posterior.gather(-1, episodes.targets[..., None])[..., 0].numpy()
    counter = references.PositionCounter(tunnel, _rng(tunnel, 2)).predict(episodes.inputs)
    hits = counter.gather(-1, episodes.targets[..., None])[..., 0] > -math.inf
    # The best guess is any value of the largest probability: right as often as that says.
    best = episodes.posterior.argmax(-1) == episodes.targets
    return {
        **_with_error("mean_entropy", entropy),
        **_with_error("total_entropy", entropy * tunnel.n_pairs),
        **_with_error("bayes_loss_nats", -np.log(happened)),
        **_with_error("uniform_loss_nats", np.full_like(entropy, math.log(tunnel.n_values))),
        **_with_error("best_accuracy", best.double().numpy()),
        **_with_error("p_key_seen", _came_back(episodes.latents["keys"])),
        **_with_error("truth_in_random_set", hits.double().numpy()),
    }


def _came_back(keys: torch.Tensor) -> np.ndarray:
    """1 where a key was asked before, else 0: float64 (B, K)."""
    equal = keys[:, :, None] == keys[:, None, :]  # (B, K, K)
    return equal.tril(-1).any(-1).double().numpy()


def _with_error(name: str, cells: np.ndarray) -> dict[str, float]:
    """The mean of (B, K) cells, and the standard error from the episodes' own means."""
    means = cells.mean(1)
    return {name: float(means.mean()), f"{name}_se": float(means.std(ddof=1) / math.sqrt(len(means)))}


def _scores(predictor, episodes: tunnels.Episodes) -> dict[str, float]:
    result = score_episodes(predictor, episodes)
    names = [name for measure in MEASURES for name in (measure, f"{measure}_se")]
    return {name: getattr(result, name) for name in names}


def nulls(tunnel: tunnels.Bijection) -> dict:
    """The uniform guess and untrained small networks on `DRAWS` independent sets of episodes."""
    uniform = references.Uniform(tunnel)
    fixed = models.Transformer.Config.__dataclass_fields__
    config = SMALL | {k: v for k, v in tunnel.interface.to_dict().items() if k in fixed}
    rows: dict[str, list[dict]] = {"uniform": [], "untrained": []}
    for draw in range(DRAWS):
        episodes = tunnel.sample(DRAW_EPISODES, _rng(tunnel, 100 + draw))
        untrained = models.build("transformer", config, _rng(tunnel, 500 + draw)).eval()
        rows["uniform"].append(_guess(uniform, episodes))
        rows["untrained"].append(_guess(untrained, episodes))
    return {name: _summary(draws) for name, draws in rows.items()}


def _guess(predictor, episodes: tunnels.Episodes) -> dict[str, float]:
    """All that a null is asked for, of a predictor that knows nothing."""
    log2_prob = predictor.predict(episodes.inputs)
    happened = log2_prob.gather(-1, episodes.targets[..., None])[..., 0]
    entropy, loss = float(entropy_bits(log2_prob).mean()), float(-happened.mean()) * math.log(2)
    return {name: value for name, value in _scores(predictor, episodes).items() if name in MEASURES} | {
        "mean_entropy": entropy,
        "total_entropy": entropy * log2_prob.shape[1],
        "bayes_loss_nats": loss,
        "uniform_loss_nats": loss,
        "best_accuracy": float(happened.exp2().mean()),
        "truth_in_random_set": float((happened > -math.inf).double().mean()),
        "p_key_seen": 0.0,  # with distinct keys no key comes back
    }


def _summary(draws: list[dict[str, float]]) -> dict:
    """For each measure the median of the draws, the lowest, the highest and how many."""
    result = {}
    for name in draws[0]:
        values = [draw[name] for draw in draws]
        result[name] = {
            "null": statistics.median(values), "low": min(values), "high": max(values),
            "draws": len(values),
        }
    return result


def facts(n_episodes: int) -> dict:
    """Parameter counts of the published configurations, and what rounding does to an entropy."""
    sizes = {
        "separate": (40, 39, PUBLISHED),
        "paired": (20, 39, PUBLISHED),
        "readme": (40, 39, PUBLISHED | {"width": 384, "hidden": 1536}),
    }
    counts: dict = {
        name: models.count_parameters(models.build("transformer", _config(*size)))
        for name, size in sizes.items()
    }
    counts["null"] = _random_counts(200)
    staircase = [np.full(n, 1 / n) for n in range(1, 21)]
    rounding: dict = {"float32": max(_rounding_error(p, torch.float32) for p in staircase)}
    rng = np.random.default_rng(SEED)
    worst = [
        max(_rounding_error(p, torch.bfloat16) for p in rng.dirichlet(np.ones(20), DRAW_EPISODES))
        for _ in range(DRAWS)
    ]
    rounding["null"] = _summary([{"error": value} for value in worst])["error"]
    return {"parameters": counts, "entropy_rounding": rounding}


def _config(n_tokens: int, n_positions: int, sizes: dict) -> dict:
    scored = tuple(range(0, n_positions, 2))
    fixed = {"n_tokens": n_tokens, "n_positions": n_positions, "scored": scored}
    return fixed | {"n_outputs": 20, "first_output_token": n_tokens - 20} | sizes


def _random_counts(draws: int) -> dict:
    """Parameter counts of transformers with depth and width drawn at random."""
    rng = np.random.default_rng(SEED)
    counts = []
    for _ in range(draws):
        heads = int(rng.integers(4, 9))
        sizes = {"n_layers": int(rng.integers(4, 9)), "n_heads": heads, "width": 32 * heads, "hidden": 128 * heads}
        config = models.TransformerConfig(**_config(int(rng.choice([20, 40])), 39, sizes))
        counts.append({"count": config.n_parameters})
    return _summary(counts)["count"]


def _rounding_error(prob: np.ndarray, dtype: torch.dtype) -> float:
    """|entropy of the rounded probabilities, summed in that type - exact entropy|, bits."""
    rounded = torch.tensor(prob, dtype=dtype)
    entropy = -(rounded * rounded.log2()).sum()
    return abs(float(entropy) - float(entropy_bits(torch.tensor(prob).log2())))


class Replay:
    """A predictor that gives predictions made before, so that they can be scored twice."""

    def __init__(self, log2_prob: torch.Tensor):
        self.log2_prob = log2_prob

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.log2_prob


def networks(n_episodes: int) -> dict:
    """Every shipped network on fresh episodes, beside the scores of its untrained twins."""
    found: dict = {}
    twins: dict[str, dict] = {}
    for listed in checkpoints.shipped():
        name, seed = listed["name"], listed["seed"]
        model = checkpoints.load(name, seed)
        record = model.record  # of the very file that was loaded
        tunnel = tunnels.build(record["tunnel"], record["tunnel_config"])
        entry = {key: record.get(key) for key in FACTS_OF_A_RUN}
        entry |= {"supervision": record["recipe"]["supervision"], "batch_size": record["recipe"]["batch_size"]}
        entry["scores"] = network_scores(model, tunnel, n_episodes)
        shape = str((record["architecture"], record["config"], record["tunnel_config"]))
        if shape not in twins:
            twins[shape] = twin_scores(record["architecture"], record["config"], tunnel)
        found.setdefault(name, {})[str(seed)] = entry | {"null": twins[shape]}
    return {"networks": found, "draws": DRAWS, "draw_episodes": DRAW_EPISODES}


FACTS_OF_A_RUN = (
    "tunnel", "tunnel_config", "architecture", "preset", "variant", "seed", "parameters", "steps",
    "episodes", "schedule_ended", "seconds", "device", "commit", "interruptions", "sha256",
)


def network_scores(model, tunnel: tunnels.Bijection, n_episodes: int) -> dict:
    """Scores over all positions, and ("one_less") without the last one: the task with K - 1 pairs."""
    episodes = tunnel.sample(n_episodes, _rng(tunnel, 0))
    parts = [model.predict(episodes[i : i + 256].inputs) for i in range(0, n_episodes, 256)]
    log2_prob = torch.cat(parts)
    full = score_episodes(Replay(log2_prob), episodes, batch_size=n_episodes)
    errors = {name: value.tolist() for name, value in full.per_position_se.items()}
    shorter = tunnels.Bijection(tunnel.n_values, tunnel.n_pairs - 1, tunnel.with_replacement)
    keys, values = episodes.latents["keys"][:, :-1], episodes.latents["values"][:, :-1]
    less = score_episodes(
        Replay(log2_prob[:, :-1]), shorter.episodes(keys, values), batch_size=n_episodes
    )
    scalars = {name: getattr(less, name) for m in MEASURES for name in (m, f"{m}_se")}
    return full.to_dict() | {"per_position_se": errors, "one_less": scalars}


def twin_scores(architecture: str, config: dict, tunnel) -> dict:
    """The same network before any training, `DRAWS` times: the null of every claim about it."""
    draws = []
    for draw in range(DRAWS):
        episodes = tunnel.sample(DRAW_EPISODES, _rng(tunnel, 100 + draw))
        twin = models.build(architecture, config, _rng(tunnel, 900 + draw)).eval()
        scores = _scores(twin, episodes)
        draws.append({name: scores[name] for name in MEASURES})
    return _summary(draws)


def _rng(tunnel, stream: int) -> torch.Generator:
    """A generator of its own for each tunnel and purpose."""
    numbers = [SEED, stream, *(int(x) for x in tunnel.config.values())]
    state = np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Which stored reference points belong to a tunnel, and what they are called on a page.

The records `reference_rungs` (bijection), `hmm_rungs`, `regression_rungs` and `recall_rungs` hold
the scores of predictors that are understood completely, by task: tasks/<task>/rungs/<name>/<measure>.
"""

from __future__ import annotations

import math

from bayeswind_lib.ledger.store import lookup

RECORDS = {
    "bijection": "reference_rungs", "hmm": "hmm_rungs", "regression": "regression_rungs",
    "recall": "recall_rungs", "recurrence": "probe_recurrence",
}
# What a network that has learned nothing does.
KNOWS_NOTHING = {
    "bijection": "uniform", "hmm": "uniform", "regression": "prior_only", "recall": "uniform",
    "recurrence": "uniform",
}
# The baselines that stand beside networks, from the lowest up, with the words for them.
LADDERS = {
    "bijection": {
        "uniform": "uniform guess",
        "repeat_aware": "knows repeats and used values, binds none",
        "no_binding": "eliminates, binds nothing",
        "binder": "binds, eliminates nothing",
        "window_5": "eliminates the last 5 values",
        "window_8": "eliminates the last 8 values",
        "one_too_few": "one elimination too few",
    },
    "hmm": {
        "uniform": "uniform guess",
        "stationary": "stationary distribution",
        "one_step_prediction": "one-step prediction, this symbol unseen",
        "emission_only": "this symbol alone",
        "stationary_emission": "stationary distribution and this symbol",
        "window_2": "last 2 symbols",
        "window_3": "last 3 symbols",
        "window_5": "last 5 symbols",
        "window_8": "last 8 symbols",
    },
    "regression": {
        "prior_only": "prior alone",
        "right_variance": "right variance, mean 0",
        "window_1": "last pair only",
        "window_2": "last 2 pairs",
        "window_4": "last 4 pairs",
        "noise_floor": "no doubt about the weights",
    },
    "recall": {
        "uniform": "uniform guess",
        "stored_set": "stored values, no binding",
        "window_4": "last 4 pairs, the other values unbound",
    },
    "recurrence": {
        "uniform": "uniform guess",
        "memoriser": "four fifths learned by heart",
        "any_rule": "copies what followed the same symbol",
    },
}


def task_key(tunnel: str, config: dict) -> str:
    """The task under which the reference points of a tunnel are stored.

    >>> task_key("bijection", {"n_values": 10, "n_pairs": 10, "with_replacement": False})
    'V10-L10/distinct'
    """
    if tunnel == "bijection":
        sampling = "replacement" if config.get("with_replacement") else "distinct"
        return f"V{config['n_values']}-L{config.get('n_pairs') or config['n_values']}/{sampling}"
    return {
        "hmm": _hmm_key, "regression": _regression_key, "recall": _recall_key,
        "recurrence": _recurrence_key,
    }[tunnel](config)


def _hmm_key(config: dict) -> str:
    """The header does not matter: every reference point knows the matrices."""
    parts = [
        f"S{config.get('n_states', 5)}-V{config.get('n_symbols', 5)}-K{config.get('length', 20)}",
        config.get("generator", "grid"),
    ]
    if config.get("sticky"):
        parts.append(f"sticky{config['sticky']:g}")
    if config.get("fixed") is not None:
        parts.append(f"fixed{config['fixed']}")
    if config.get("transition_first"):
        parts.append("moved")
    if config.get("predicts", "states") != "states":
        parts.append("next")
    return "-".join(parts)


def _regression_key(config: dict) -> str:
    noise = config.get("noise", 0.5)
    return f"d{config.get('n_dims', 8)}-K{config.get('n_pairs', 20)}" + (
        "" if noise == 0.5 else f"-noise{noise:g}"
    )


def _recall_key(config: dict) -> str:
    return f"N{config.get('n_pairs', 64)}-V{config.get('n_values', 256)}"


def _recurrence_key(config: dict) -> str:
    return f"p{config.get('modulus', 17)}-L{config.get('length', 16)}"


def baselines_of(tunnel: str, config: dict, records: dict[str, dict | None]) -> dict[str, dict]:
    """The stored scores of a tunnel's reference points by name; {} if none are stored."""
    record = records.get(RECORDS[tunnel])
    return lookup(record, f"tasks/{task_key(tunnel, config)}/rungs") or {}


def value(rungs: dict[str, dict], name: str, measure: str = "kl") -> float | None:
    """One score of one baseline, None if it is not stored."""
    found = lookup(rungs, f"{name}/{measure}")
    return None if found is None else float(found)


def left_to_learn(
    kl: float, tunnel: str, config: dict, records: dict[str, dict | None]
) -> float | None:
    """A divergence as a share of that of a predictor that knows nothing; None if that is not stored."""
    nothing = value(baselines_of(tunnel, config, records), KNOWS_NOTHING[tunnel])
    return None if not nothing or not math.isfinite(nothing) else kl / nothing


def next_baseline(
    kl: float, tunnel: str, config: dict, records: dict[str, dict | None]
) -> tuple[str, float] | None:
    """The best baseline that a divergence is at least 2 % below, in words, and that baseline's own; None if none is."""
    rungs = baselines_of(tunnel, config, records)
    beaten = [
        (found, words) for name, words in LADDERS[tunnel].items()
        if (found := value(rungs, name)) is not None and math.isfinite(found) and kl < 0.98 * found
    ]
    if not beaten:
        return None
    found, words = min(beaten)
    return words, found

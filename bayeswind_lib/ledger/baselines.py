"""Which stored reference points belong to a tunnel, and what they are called on a page.

The records `bijection_baselines` (bijection), `hmm_baselines`, `regression_baselines` and `recall_baselines` hold
the scores of predictors that are understood completely, by task: tasks/<task>/baselines/<name>/<measure>.
"""

from __future__ import annotations

import math

from bayeswind_lib.checkpoints.keys import task_key
from bayeswind_lib.checkpoints.store import lookup

RECORDS = {
    "bijection": "bijection_baselines", "hmm": "hmm_baselines", "regression": "regression_baselines",
    "recall": "recall_baselines", "recurrence": "probe_recurrence",
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


def baselines_of(tunnel: str, config: dict, records: dict[str, dict | None]) -> dict[str, dict]:
    """The stored scores of a tunnel's reference points by name; {} if none are stored."""
    record = records.get(RECORDS[tunnel])
    return lookup(record, f"tasks/{task_key(tunnel, config)}/baselines") or {}


def value(known: dict[str, dict], name: str, measure: str = "kl") -> float | None:
    """One score of one baseline, None if it is not stored."""
    found = lookup(known, f"{name}/{measure}")
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
    known = baselines_of(tunnel, config, records)
    beaten = [
        (found, words) for name, words in LADDERS[tunnel].items()
        if (found := value(known, name)) is not None and math.isfinite(found) and kl < 0.98 * found
    ]
    if not beaten:
        return None
    found, words = min(beaten)
    return words, found

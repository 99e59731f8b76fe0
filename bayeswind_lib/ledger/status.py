"""From a claim and what the records hold to a measured value, its null and a status.

A status is one of
  reproduced      the measured value lies in the claim's band, and outside the null's range
  partly          near the band; or a failure is reproduced and its number is not
  not reproduced  outside; a network's failure counts only if its schedule ended, it is the best
                  of at least 4 learning rates, and doubling the budget moved its KL by < 10 %
  not settled     no finished run yet, or a failure without that evidence
  not testable    an ingredient is missing that nobody can supply; the row names it
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from bayeswind_lib.ledger.claims import Claim
from bayeswind_lib.ledger.store import lookup

STATUSES = ("reproduced", "partly", "not reproduced", "not settled", "not testable")
MIN_LEARNING_RATES = 4
MAX_KL_CHANGE = 0.10
CHECK_ERRORS = 5.0  # standard errors between a formula and its sampled check


@dataclass(frozen=True)
class Null:
    """The score of something that knows nothing: median, lowest and highest of the draws."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    draws: int = 0
    what: str = ""


@dataclass(frozen=True)
class Evidence:
    """What was measured here for one claim.

    Attributes:
        value, standard_error: in the claim's unit; value None if nothing was measured.
        null: what stands beside it.
        runs: one dict a seed, with its score, device, minutes and commit.
        finished: every run's schedule has ended.
        check, check_se: the same number from sampled episodes, for a formula.
        controls: what shows that a failure is one (see `failure_counts`).
    """

    value: float | None = None
    standard_error: float | None = None
    null: Null = field(default_factory=Null)
    runs: tuple[dict, ...] = ()
    finished: bool = True
    check: float | None = None
    check_se: float | None = None
    controls: dict = field(default_factory=dict)


def gather(claim: Claim, records: dict[str, dict | None]) -> Evidence:
    """The evidence that the records hold for a claim."""
    return _from_networks(claim, records) if claim.network else _from_record(claim, records)


def _number(value) -> float | None:
    return None if value is None else float(value)  # float("inf") reads the stored "inf"


def _from_record(claim: Claim, records: dict) -> Evidence:
    record = records.get(claim.record)
    value = _number(lookup(record, claim.key))
    if value is None:
        return Evidence(null=_null(claim, records))
    about = {"seed": record["seed"], "device": record["device"], "minutes": None, "commit": record["commit"]}
    check = check_se = None
    if claim.key.startswith("tasks/"):
        _, size, sampling, *rest = claim.key.split("/")
        path = "/".join(["tasks", size, sampling, "sampled", *rest])
        check, check_se = _number(lookup(record, path)), _number(lookup(record, path + "_se"))
    return Evidence(
        value * claim.scale, 0.0, _null(claim, records), (about,),
        check=_scaled(check, claim.scale), check_se=_scaled(check_se, claim.scale),
    )


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _from_networks(claim: Claim, records: dict) -> Evidence:
    found = lookup(records.get("networks"), "networks") or {}
    runs = found.get(claim.network, {})
    rows = _runs(runs, claim)
    value, error = _mean_of_runs(rows) if rows else (None, None)
    null = _twins(next(iter(runs.values())), claim) if rows else _null(claim, records)
    if claim.over:
        base_rows = _runs(found.get(claim.over, {}), claim)
        if not base_rows:
            return Evidence()
        base, base_error = _mean_of_runs(base_rows)
        null = _divided(null, base)
        if rows:
            error = value / base * math.hypot(error / value, base_error / base)
            value, rows = value / base, rows + base_rows
    if not rows or value is None:
        return Evidence(null=null)
    return Evidence(
        value, error, null, tuple(rows),
        finished=all(row["schedule_ended"] for row in rows),
        controls=lookup(records.get("controls"), claim.network) or {},
    )


def _runs(runs: dict[str, dict], claim: Claim) -> list[dict]:
    return [_run(runs[seed], claim) for seed in sorted(runs, key=int)]


def _run(entry: dict, claim: Claim) -> dict:
    """One seed's score, and where and from what it came."""
    size = (entry["tunnel_config"] or {}).get("n_values")
    shorter = claim.pairs is not None and size is not None and claim.pairs == size - 1
    scores = entry["scores"]["one_less"] if shorter else entry["scores"]
    seconds = entry.get("seconds")
    return {
        "seed": entry["seed"],
        "measured": _number(scores[claim.measure]),
        "standard_error": _number(scores[f"{claim.measure}_se"]),
        "schedule_ended": bool(entry.get("schedule_ended")),
        "device": entry.get("device"),
        "minutes": None if seconds is None else round(seconds / 60, 1),
        "commit": entry.get("commit"),
    }


def _mean_of_runs(rows: list[dict]) -> tuple[float, float]:
    """Mean over seeds; its error from the spread of the seeds, or of the episodes if there is one seed."""
    values = [row["measured"] for row in rows]
    if len(rows) == 1:
        return values[0], rows[0]["standard_error"]
    return statistics.mean(values), statistics.stdev(values) / math.sqrt(len(values))


def _twins(entry: dict, claim: Claim) -> Null:
    found = lookup(entry, f"null/{claim.measure}")
    return _null_of(found, 1.0, "the same network before training")


def _null(claim: Claim, records: dict) -> Null:
    """The null that the claim itself names."""
    spec = claim.null
    if "record" in spec:
        found = lookup(records.get(spec["record"]), spec["key"])
        what = {"parameters/null": "a network of random depth and width"}.get(
            spec["key"], "random distributions in bfloat16"
        )
        return _null_of(found, spec.get("scale", 1.0), what)
    path = f"tasks/{spec['task'].split('/')[0]}/{spec['task'].split('/')[1]}/null"
    found = lookup(records.get("reference_rungs"), f"{path}/{spec['predictor']}/{spec['measure']}")
    what = {"uniform": "the uniform guess", "untrained": "an untrained network"}[spec["predictor"]]
    return _null_of(found, claim.scale if claim.record else 1.0, what)


def _null_of(found: dict | None, scale: float, what: str) -> Null:
    if found is None:
        return Null()
    low, middle, high = (_number(found[name]) * scale for name in ("low", "null", "high"))
    return Null(middle, low, high, int(found["draws"]), what)


def _divided(null: Null, by: float) -> Null:
    if null.value is None:
        return null
    return Null(null.value / by, null.low / by, null.high / by, null.draws, null.what)


def judge(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    """The status of a claim and the reason for it."""
    if claim.missing:
        return "not testable", f"missing: {claim.missing}"
    if evidence.value is None:
        what = "no such network has been trained here yet" if claim.network else "no record holds it yet"
        return "not settled", what
    if not evidence.finished:
        return "not settled", "the run's schedule had not ended"
    judges = {"digits": _digits, "at_least": _at_least, "reaches": _reaches, "fails": _fails}
    return judges[claim.test](claim, evidence)


def _inside(value: float, bounds: tuple[float, float]) -> bool:
    slack = 1e-9 * max(1.0, abs(bounds[0])) if math.isfinite(bounds[0]) else 0.0
    return bounds[0] - slack <= value <= bounds[1] + slack


def _digits(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    low, high = claim.bounds
    if not _inside(evidence.value, (low, high)):
        unit = high - low
        if _inside(evidence.value, (low - unit / 2, high + unit / 2)):
            return "partly", "off by one in the last printed digit"
        return "not reproduced", "computed here, it has other digits"
    if evidence.check is not None and not _agrees(evidence):
        return "partly", "the formula gives these digits, sampled episodes do not agree with it"
    return "reproduced", "the same to the printed digits"


def _agrees(evidence: Evidence) -> bool:
    """Whether the sampled value lies within a few standard errors of the formula's."""
    if math.isinf(evidence.value) or math.isinf(evidence.check):
        return evidence.value == evidence.check
    margin = CHECK_ERRORS * (evidence.check_se or 0.0) + 1e-9 * max(1.0, abs(evidence.value))
    return abs(evidence.value - evidence.check) <= margin


def _at_least(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    if _inside(evidence.value, claim.bounds):
        return "reproduced", "at least as large as published"
    return "not reproduced", "smaller than published"


def _reaches(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    null = evidence.null
    if null.low is None:
        return "not settled", "no null stands beside it yet"
    if evidence.value >= null.low:
        return _if_failure_counts(evidence, "no better than " + null.what)
    if evidence.value <= claim.bounds[1]:
        return "reproduced", "at or below the band's end, far from its null"
    if claim.partly is not None and evidence.value <= claim.partly:
        return "partly", "close to the band, above its end"
    return _if_failure_counts(evidence, "above the band")


def _fails(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    if evidence.value < claim.fails_above:
        return "not reproduced", "here such a network does not fail"
    counts, lacking = failure_counts(evidence)
    if not counts:
        return "not settled", f"it fails here too, but {lacking}"
    if _inside(evidence.value, claim.bounds):
        return "reproduced", "it fails, with the published number"
    return "partly", "it fails, with another number than the published one"


def _if_failure_counts(evidence: Evidence, reason: str) -> tuple[str, str]:
    counts, lacking = failure_counts(evidence)
    return ("not reproduced", reason) if counts else ("not settled", f"{reason}, but {lacking}")


def failure_counts(evidence: Evidence) -> tuple[bool, str]:
    """Whether a network's failure may be held against the claim, and what is lacking if not.

    `controls` holds "learning_rates" (all that were tried at this budget, this run being the
    best) and "kl", "kl_doubled" (before and after doubling the budget).
    """
    rates = evidence.controls.get("learning_rates", [])
    if len(set(rates)) < MIN_LEARNING_RATES:
        return False, f"{len(set(rates))} of at least {MIN_LEARNING_RATES} learning rates were tried"
    before, after = (_number(evidence.controls.get(name)) for name in ("kl", "kl_doubled"))
    if before is None or after is None:
        return False, "the budget was not doubled"
    change = abs(after - before) / before if before else math.inf
    if not change < MAX_KL_CHANGE:
        return False, "doubling the budget still moved its KL"
    return True, ""

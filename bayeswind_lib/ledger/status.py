"""From a claim and what the records hold to a measured value, its null and a status.

A status is one of
  reproduced      a success lies in the claim's band and beyond the range of its null, on the claim's
                  side of it; a failure lies in the band and has the controls below
  partly          a success within twice the band's end, beyond the null too; a failure with another
                  number; or a success whose reading was picked after looking, or whose number is found and its sentence is not; or one at
                  another learning rate or budget than the plain one
  not reproduced  outside. That a network falls short, or what is found inside it, counts only if its
                  schedule ended, it is the best of at least 4 learning rates, and doubling the budget
                  moved its KL by < 10 %, or rates and budget close < 10 % of the gap (`_out_of_reach`); of what the loss does not ask for, it counts as well if networks
                  at 3 other rates and one of twice the budget read the same way (see `judge`); at
                  classroom size it never counts against a published success
  not settled     no finished run yet, or one falls short without that evidence
  needs public weights  the model can be had from a model hub; one command settles the row
  not testable    an ingredient is missing that nobody can supply, so that no run could say anything, or none could
                  refute the number (`cannot_refute`) and it did not come out; the row names it
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import statistics
from dataclasses import dataclass, field

from bayeswind_lib.checkpoints.store import lookup
from bayeswind_lib.ledger import baselines, trained
from bayeswind_lib.ledger.claims import Claim, half_unit
from bayeswind_lib.training.plans import run_of

STATUSES = ("reproduced", "partly", "not reproduced", "not settled", "needs public weights", "not testable")
MIN_LEARNING_RATES = 4
MAX_KL_CHANGE = 0.10
CHECK_ERRORS = 5.0  # standard errors between a formula and its sampled check
SAMPLE_ERRORS = 4.0  # standard errors between a published sampled value and ours
NEAR = 2.0  # times the highest value that counts: so far a network is "partly" there
COUNTED = "clusters"  # the count with the highest silhouette: of seeds the median, since a mean may be a count that none has
SHAPES = ("pc1_percent", "clusters", "entropy_r2")  # of the last layer: no score that training lowers
MIN_DEALS = 20  # ways to deal runs out to two networks, below which they are no null: three seeds of each have so many
DEALT = ("flipped/", "dealt_seeds/", "dealt_runs/")  # nulls that deal out or exchange the same runs
GRANTED = {"learning_rates": [1, 2, 3, 4], "kl": 1.0, "kl_doubled": 1.0}  # as if all controls were there
QUEUE, OF_THE_QUEUE = "python -m bayeswind_lib queue", ("probe_recurrence",)  # what opens the networks that the queue trained
MATCHED = 0.10  # by how much parameters and episodes of two networks may differ in a fair ratio


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
        value, standard_error: in the claim's unit; value None if nothing was measured, error None if
            nobody measured one, 0 only of what is exact.
        null: what stands beside it.
        runs: one dict a seed, with its score, device, minutes and commit.
        base_runs: the same of the network that it is divided by.
        shares: the score of each seed, in the claim's unit.
        finished: every run's schedule has ended.
        check, check_se: the same number from sampled episodes, for a formula.
        published_se: standard error of a published value that was sampled too.
        controls: what shows that a failure is one (see `failure_counts`).
        rescued: the best score among the finished runs at other rates or of twice the budget.
        smaller: what a network of classroom size scores, where one of the published size is lacking.
        others: the same number from the other networks that the claim's `also` names.
        tried: the same number from runs at other rates ("rate 0.01"; "rate 0.01 shorter" of the scan that compares rates)
            and of twice the budget ("doubled"), each with a null of its own if it has one, where it is no score that training lowers: something inside a network, or
            beyond what it was trained on.
    """

    value: float | None = None
    standard_error: float | None = None
    null: Null = field(default_factory=Null)
    runs: tuple[dict, ...] = ()
    base_runs: tuple[dict, ...] = ()
    shares: tuple[float, ...] = ()
    finished: bool = True
    check: float | None = None
    check_se: float | None = None
    published_se: float | None = None
    controls: dict = field(default_factory=dict)
    rescued: float | None = None
    smaller: dict | None = None
    others: tuple[float, ...] = ()
    tried: dict[str, tuple[float, Null]] = field(default_factory=dict)


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
    about = {"device": record["device"], "minutes": None, "commit": record["commit"]}
    seeds = dict.fromkeys(seed for some in claim.opens.values() for seed in some)
    check = check_se = published_se = None
    error = _number(lookup(record, claim.key + "_se"))
    if error is None and claim.exact:
        error = 0.0
    if claim.test == "samples":
        task = "/".join(claim.key.split("/")[:2])
        published_se = (error or 0.0) * math.sqrt(lookup(record, f"{task}/n_episodes") / claim.episodes)
    elif claim.key.startswith("tasks/"):
        path = re.sub("/(baselines|constants|leak)/", r"/sampled/\1/", claim.key, count=1)
        check, check_se = _number(lookup(record, path)), _number(lookup(record, path + "_se"))
    return Evidence(
        value * claim.scale, _scaled(error, claim.scale), _null(claim, records),
        tuple({"seed": seed} | about for seed in seeds or [None]),
        controls=_controls_of_opened(claim, records), others=_others(claim, record), tried=_tried_inside(claim, records),
        check=_scaled(check, claim.scale), check_se=_scaled(check_se, claim.scale),
        published_se=_scaled(published_se, claim.scale),
    )


def _controls_of_opened(claim: Claim, records: dict) -> dict:
    """The controls of the networks that a probe opened: of several, of the first that lacks some."""
    if not claim.needs_controls:
        return {}
    rows = trained.all_rows(records)
    found = [trained.controls(name, rows) for name in claim.opens]
    return next((one for one in found if not controls_suffice(one)[0]), found[0] if found else {})


def _tried_inside(claim: Claim, records: dict) -> dict[str, tuple[float, Null]]:
    """What the probe reads in other runs of the one network that it opened, from the record `probe_tried`."""
    runs = lookup(records.get("probe_tried"), f"networks/{next(iter(claim.opens))}") if len(claim.opens) == 1 else None
    found = {}
    for run, entry in (runs or {}).items():
        value = _number(lookup(entry, f"{claim.record}/{claim.key}"))
        if value is not None:
            found[run] = (value * claim.scale, _null(claim, {claim.null.get("record"): entry.get(claim.null.get("record"))}))
    return found


def _tried_of_networks(claim: Claim, records: dict) -> dict[str, tuple[float, Null]]:
    """The shape of other runs' last layer, or what they score on inputs longer than those of their training."""
    found = {}
    for row in trained.all_rows(records) if claim.length or claim.measure in SHAPES else ():
        kind = trained.kind_of(row) if row["name"] == claim.network and row.get("schedule_ended") else None
        if kind not in ("rate", "doubled", "scan"):
            continue
        run = run_of(trained.plain_recipes()[claim.network], trained.rate_of(row), int(row["steps"]))
        if claim.measure in SHAPES:
            value = _score_of_row(row, claim.measure)[0]
        elif "scores" in row and claim.length > row["tunnel_config"]["length"]:
            value = _score_in_detail(row | {"scores": row | row["scores"]}, claim)[0]
        else:
            continue
        if value is not None and run:  # a short run at the plain rate is only what the others are compared with
            found[run] = value * claim.scale, Null()
    return found


def _others(claim: Claim, record: dict) -> tuple[float, ...]:
    found = (_number(lookup(record, key)) for key in claim.also)
    return tuple(value * claim.scale for value in found if value is not None)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _from_networks(claim: Claim, records: dict) -> Evidence:
    rows, base_rows = (_runs(name, claim, records) for name in (claim.network, claim.over))
    null, smaller = _null_of_networks(claim, rows, base_rows, records), _smaller(claim, records)
    base, base_error = _base(claim, base_rows, records)
    if not rows or base is None:
        return Evidence(null=null, smaller=smaller)
    value, error = _mean_of_runs(rows)
    if claim.measure == COUNTED:
        value, error = statistics.median(row["measured"] for row in rows), None
    if math.isfinite(value) and error is not None:
        error = math.hypot(error, value * (base_error or 0.0) / base) / abs(base)
    return Evidence(
        value / base, error, null, tuple(rows), tuple(base_rows), smaller=smaller,
        shares=tuple(row["measured"] / base for row in rows),
        finished=all(row["schedule_ended"] for row in rows + base_rows),
        controls=trained.controls(claim.network, trained.all_rows(records)),
        rescued=_rescued(claim, base, records), tried={} if claim.over else _tried_of_networks(claim, records),
    )


def _rescued(claim: Claim, base: float, records: dict) -> float | None:
    """The score, in the claim's unit, of the run with the lowest KL at another rate or budget."""
    tried = [
        (float(row["kl"]), value) for row in trained.all_rows(records)
        if row["name"] == claim.network and row.get("schedule_ended") and trained.kind_of(row) in trained.TRIED
        and (value := _score_of_other_run(row, claim)) is not None
    ]
    return min(tried)[1] * claim.scale / base if tried else None


def _score_of_other_run(row: dict, claim: Claim) -> float | None:
    """What a run at another rate or budget scores on what the claim is about; None if nobody scored it on that, or if it is
    no score that training lowers (longer inputs, see `_tried_of_networks`)."""
    if claim.length or claim.steps:
        return None
    if not claim.pairs:
        return _number(lookup(row, claim.measure))
    return _score_in_detail(row | {"scores": row | row["scores"]}, claim)[0] if "scores" in row else None


def _base(claim: Claim, rows: list[dict], records: dict) -> tuple[float | None, float]:
    """What a network's mean is divided by, and its error: another network, a baseline, or 1."""
    if claim.over:
        return _mean_of_runs(rows) if rows else (None, 0.0)
    if claim.over_key:
        record = records.get(claim.record_of_base)
        found = _number(lookup(record, claim.over_key))
        return found, _number(lookup(record, claim.over_key + "_se")) or 0.0
    return 1.0, 0.0


def _runs(name: str | None, claim: Claim, records: dict) -> list[dict]:
    """One dict a seed of a network; of positions, lengths and pairs shipped weights tell, or rows that have such scores."""
    if name is None:
        return []
    plain = trained.plain_rows(name, trained.all_rows(records))
    if claim.pairs or claim.length or claim.steps:
        told = trained.with_scores(name, plain, records)
        found = [_run(told[seed], _score_in_detail(told[seed], claim), claim) for seed in sorted(told)]
    else:
        found = [_run(row, _score_of_row(row, claim.measure), claim) for row in plain]
    return [run for run in found if run["measured"] is not None]


def _run(entry: dict, score: tuple[float | None, float | None], claim: Claim) -> dict:
    """One seed's score, and where and from what it came."""
    seconds = entry.get("seconds")
    return {
        "seed": entry["seed"],
        "measured": _scaled(score[0], claim.scale),
        "standard_error": _scaled(score[1], claim.scale),
        "schedule_ended": bool(entry.get("schedule_ended")),
        "parameters": entry.get("parameters"),
        "episodes": entry.get("episodes"),
        "device": entry.get("device"),
        "minutes": None if seconds is None else round(seconds / 60, 1),
        "commit": entry.get("commit"),
    }


def _score_of_row(row: dict, measure: str) -> tuple[float | None, float | None]:
    """A measure and its error; of a run that ended before it reached a level the episodes that it had, at least so many."""
    if measure.startswith("episodes_to") and row.get("schedule_ended") and "episodes_to" in row and lookup(row, measure) is None:
        return _number(row["episodes"]), None
    return _number(lookup(row, measure)), _number(lookup(row, f"{measure}_se"))


def _score_in_detail(entry: dict, claim: Claim) -> tuple[float | None, float | None]:
    """The score of a shipped network, or of a row with scores: of fewer pairs, of longer inputs, of some steps."""
    scores, config = entry["scores"], entry["tunnel_config"] or {}
    size = config.get("n_values")
    if claim.pairs is not None and size is not None and claim.pairs == size - 1:
        scores = scores["one_less"]
    first = None  # how many positions count, if not all
    if claim.length is not None and claim.length != config.get("length"):
        scores, first = _longer(scores.get("longer") or {}, claim.length)
    if claim.steps is None and first:
        return _mean_of_steps(scores, claim.measure, [1, first])
    if claim.steps is None:
        return _score_of_row(scores, claim.measure)
    value, error = _mean_of_steps(scores, claim.measure, claim.steps)
    if claim.over_steps is None or value is None:
        return value, error
    base, base_error = _mean_of_steps(scores, claim.measure, claim.over_steps)
    return value / base, value / base * math.hypot(error / value, base_error / base)


def _longer(scores: dict[str, dict], length: int) -> tuple[dict, int | None]:
    """The scores of inputs of a length; if none were made, of the next longer, and how many positions of those count: a
    causal network answers the first positions of a longer input as it does those of a shorter one."""
    made = min((int(n) for n in scores if int(n) >= length), default=None)
    return ({}, None) if made is None else (scores[str(made)], length if made > length else None)


def _mean_of_steps(scores: dict, measure: str, steps: list[int]) -> tuple[float | None, float | None]:
    """Mean over the steps first..last, counted from 1; the mean of their errors bounds its error."""
    values = lookup(scores, f"per_position/{measure}")
    errors = lookup(scores, f"per_position_se/{measure}")
    if values is None or errors is None or len(values) < steps[1]:
        return None, None
    some = slice(steps[0] - 1, steps[1])
    return statistics.mean(values[some]), statistics.mean(errors[some])


def _mean_of_runs(rows: list[dict]) -> tuple[float, float | None]:
    """Mean over seeds; its error from the spread of the seeds and from the episodes, which all seeds share, so that their
    part does not shrink with the number of seeds.

    The error is None if there is one seed and no error was stored with it.
    """
    values = [row["measured"] for row in rows]
    if len(rows) == 1 or not all(map(math.isfinite, values)):
        return statistics.mean(values), rows[0]["standard_error"]
    of_episodes = [row["standard_error"] or 0.0 for row in rows]
    return statistics.mean(values), math.hypot(statistics.stdev(values) / math.sqrt(len(values)), statistics.mean(of_episodes))


def _smaller(claim: Claim, records: dict) -> dict | None:
    """What the network of classroom size scores, and the score of knowing nothing on its task."""
    if claim.smaller is None:
        return None
    rows = trained.plain_rows(claim.smaller, trained.all_rows(records))
    mean, error, n = trained.mean_over_seeds(rows, claim.measure)
    if not n:
        return None
    known = baselines.baselines_of(rows[0]["tunnel"], rows[0]["tunnel_config"], records)
    nothing = baselines.value(known, baselines.KNOWS_NOTHING[rows[0]["tunnel"]], claim.measure)
    return {
        "network": claim.smaller, "seeds": [row["seed"] for row in rows],
        "measured": mean * claim.scale, "standard_error": error * claim.scale,
        "knows_nothing": _scaled(nothing, claim.scale),
    }


def _null_of_networks(claim: Claim, rows: list[dict], base_rows: list[dict], records: dict) -> Null:
    """Untrained copies where the network ships; for a ratio of two networks, their runs relabelled.

    Copies were scored on all that the network was trained on: of fewer pairs, other lengths or single steps the claim's own null
    is told, which is of the same part. Where a ratio has too few runs to be dealt out in `MIN_DEALS` ways, the claim's own null
    stands over the other network.
    """
    if claim.over and rows and base_rows and math.comb(len(rows) + len(base_rows), len(rows)) >= MIN_DEALS:
        return _shuffled(rows, base_rows)
    shipped = lookup(records.get("networks"), f"networks/{claim.network}") or {}
    copies = [entry["null"] for entry in shipped.values() if lookup(entry, f"null/{claim.measure}")]
    plain = copies and rows and not (claim.pairs or claim.length or claim.steps)
    null = _untrained(copies[0], claim) if plain else _null(claim, records)
    base, _ = _base(claim, base_rows, records)
    if claim.over and base is None:  # not both are trained yet
        return Null()
    return null if base in (None, 1.0) else _divided(null, base)


def _shuffled(rows: list[dict], base_rows: list[dict]) -> Null:
    """The ratio of the two means for every way to deal the runs out, the way it was among them."""
    values = [row["measured"] for row in rows + base_rows]
    ratios = []
    for chosen in itertools.combinations(range(len(values)), len(rows)):
        rest = [value for i, value in enumerate(values) if i not in chosen]
        ratios.append(statistics.mean(values[i] for i in chosen) / statistics.mean(rest))
    what = "the same runs, reassigned to the two networks in every way"
    return Null(statistics.median(ratios), min(ratios), max(ratios), len(ratios), what)


def _untrained(found: dict, claim: Claim) -> Null:
    return _null_of(found[claim.measure], claim.scale, "the same network before training")


NULLS = {
    "uniform": "the uniform guess", "parts": "the uniform guess on the same positions", "untrained": "an untrained network", "copies": "an untrained network", "prior_only": "the prior alone",
    "parameters": "a network of random depth and width",
    "entropy_rounding": "random distributions in bfloat16",
    "published": "the same arithmetic on numbers drawn at random",
    "random_direction": "as long a push in a random direction",
    "noise": "noise as long as what the layer writes",
    "line": "weights that go straight from start to end", "walk": "weights that drift at random",
    "even": "attention that is uniform throughout",
    "strangers": "the frame of an untrained network, as sharp",
    "shuffled_labels": "the labels right and wrong dealt out anew", "other_network": "the verdicts on other trained networks, dealt out",
    "no_baseline": "the law without its mean", "other_query": "errors of the query before",
    "random_errors": "errors as long, in random directions",
    "tenfold": "plain descent, ten times the rate on every map", "flipped": "the two arms exchanged at random",
    "noise_values": "as many vectors of noise", "like_values": "noise of the same covariance",
    "two_layers": "two layers drawn at random", "dealt_labels": "the domains' labels dealt out anew",
    "random_maps": "random directions",
    "dealt_seeds": "the two networks of a seed exchanged",
    "dealt_runs": "the same runs, reassigned to the two networks in every way",
    "as_large": "axes drawn at random that carry as much variance",
    "independent": "sequences without a rule",
    "shuffled": "answers of other sequences", "gaussian": "one Gaussian cloud of the same covariance",
}


def _null(claim: Claim, records: dict) -> Null:
    """The null that the claim itself names."""
    spec = claim.null
    scale = claim.scale if claim.record or claim.network else 1.0
    if "key" in spec:
        found = lookup(records.get(spec["record"]), spec["key"])
        path = spec["key"].split("/")  # NULL/... or, of one model of several, models/NAME/NULL/...
        return _null_of(found, spec.get("scale", 1.0), NULLS[path[2] if path[0] == "models" else path[0]])
    record = records.get(spec.get("record", "bijection_baselines"))
    found = lookup(record, f"tasks/{spec['task']}/null/{spec['predictor']}/{spec['measure']}")
    return _null_of(found, scale, NULLS[spec["predictor"]])


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
    """The status of a claim and the reason for it.

    Where a failure lacks nothing but the controls of `controls_suffice`, it counts as well if every run at
    another rate (3 or more) and the one of twice the budget fails too: a direct look at what those rules can only
    infer from the loss. It takes readings that training does not lower (`Evidence.tried`). Short runs at other rates
    count only if none of those rates does better there than the plain one (`kl_scan` of `trained.controls`).
    """
    status, reason = _judge(claim, evidence)
    if status != "not settled" or not _tried_enough(evidence):
        return status, reason
    failed = ("reproduced", "partly") if claim.test == "fails" else ("not reproduced",)
    granted = dataclasses.replace(evidence, controls=GRANTED)
    wanted, why = _judge(claim, granted)
    if wanted not in failed:
        return status, reason
    for run, (value, own) in sorted(evidence.tried.items(), key=lambda item: item[0].endswith("shorter")):  # whole runs say more
        null = evidence.null if own.value is None else own
        found, _ = _judge(claim, dataclasses.replace(granted, value=value, null=null, others=(), shares=(), rescued=None))
        if found not in failed:
            some = "not settled" if claim.test == "fails" else "partly"
            beside = "" if own.value is None else f" (its null: {own.low:.3g} to {own.high:.3g})"
            return some, f"{why}, but {_told_run(run)} it is {value:.3g}{beside}"
    shorter = f" (in runs of 1/{trained.SCAN} of the updates)" if any(run.endswith("shorter") for run in evidence.tried) else ""
    return wanted, f"{why}, and so it is at {len(_rates_tried(evidence))} other learning rates{shorter} and after twice the updates"


def _told_run(run: str) -> str:
    """The name of a run in `Evidence.tried`, in words."""
    if run == "doubled":
        return "after twice the updates"
    return f"{'in a shorter run ' if run.endswith('shorter') else ''}at the rate {run.split()[1]}"


def settled_by(claim: Claim, evidence: Evidence, status: str, records: dict[str, dict | None]) -> str:
    """The commands that bring what a row waits for, one a line; "" of a row that waits for nothing, or for no run of the queue."""
    if status == "needs public weights":
        return claim.command
    if status != "not settled":
        return ""
    if evidence.runs and evidence.base_runs and _unequal(claim, evidence):  # no run of the queue makes two recipes alike
        return ""
    if claim.settles:
        return "\n".join(claim.settles)
    waiting = trained.waiting(records)
    found = []
    for name in (claim.network,) if claim.network else claim.opens:
        size = name.replace("-classroom", "") if claim.preset == "classroom" else name  # the published size is what lacks
        if name in waiting and size == name:
            found.append(f"{QUEUE} --only {name}-seed")
        elif any(other.startswith(size) and "-classroom" not in other for other in waiting):
            found.append(f"{QUEUE} --only {size}")
    if found and not claim.network:
        record = claim.record if evidence.value is None or claim.record in OF_THE_QUEUE else "probe_tried"
        found.append(f"python -m bayeswind_lib records {record} --runs runs/queue")
    return "\n".join(found)


def _tried_enough(evidence: Evidence) -> bool:
    """Whether three other rates and twice the budget were tried."""
    return "doubled" in evidence.tried and len(_rates_tried(evidence)) >= MIN_LEARNING_RATES - 1


def _rates_tried(evidence: Evidence) -> set[str]:
    """The other rates among the names of `Evidence.tried`; those of short runs only if no rate does better there."""
    scan = _number(evidence.controls.get("kl_scan"))
    skipped = ("doubled",) if scan is not None and scan >= 1 - MAX_KL_CHANGE else ("doubled", "shorter")
    return {run.split()[1] for run in evidence.tried if run.startswith("rate") and not run.endswith(skipped)}


def _judge(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    status, reason = judge_without_null(claim, evidence)
    alone = claim.test in ("digits", "samples", "fails") or claim.kind == "reference" or claim.of_null
    if alone or status not in ("reproduced", "partly"):
        return status, reason
    if evidence.null.value is None:
        return "not settled", "no null stands beside it yet"
    if claim.bounds[0] == -claim.bounds[1]:
        return _no_effect(claim, evidence, status, reason)
    if not _beyond(claim, evidence):
        if _says_nothing(claim, evidence):
            return "partly", f"{reason}{', but so is its null' if status == 'reproduced' else '; its null lies there too'}: {evidence.null.what}"
        return _if_failure_counts(claim, evidence, "no better than " + evidence.null.what)
    return status, reason


def _beyond(claim: Claim, evidence: Evidence) -> bool:
    """Whether a value lies beyond all draws of its null, on the side on which the claim puts it.

    That side is below for an error and for a band that begins at 0, above for a number that has to be
    large, and else where the published value lies, seen from the null's middle. Seeds that are dealt out to two
    networks, or exchanged between them, are once dealt as they were: that one has to be the most extreme.
    """
    value, null, printed = evidence.value, evidence.null, _printed_size(claim)
    dealt = claim.over or claim.null.get("key", "").startswith(DEALT)
    above = claim.test == "at_least" or ((claim.bounds[0] != 0 or claim.unsigned) and printed > null.value)
    if dealt:
        return value >= null.high if above else value <= null.low
    return value > null.high if above else value < null.low


def _printed_size(claim: Claim) -> float:
    """The printed value, without its sign where the sign is a choice."""
    return abs(claim.value) if claim.unsigned else claim.value


def _says_nothing(claim: Claim, evidence: Evidence) -> bool:
    """Whether the printed number itself is one that the null has too: finding it, in its band, says nothing, and refutes nothing."""
    printed = claim.kind in ("paper", "code", "replication") and (claim.test == "at_least" or (claim.test == "within" and claim.bound is None))
    return printed and not _beyond(claim, dataclasses.replace(evidence, value=_printed_size(claim)))


def _no_effect(claim: Claim, evidence: Evidence, status: str, reason: str) -> tuple[str, str]:
    """Of a claim that nothing changes: a null that changes as little does not refute it, it only takes the meaning from it."""
    if status == "reproduced" and _inside(evidence.null.value, claim.bounds):
        null = evidence.null
        return "partly", f"{reason}, but so is its null: {null.what}"
    return status, reason


def judge_without_null(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    """The status by the claim's band and controls, whatever its null has; of a probe, of all networks opened."""
    if claim.missing:
        return "not testable", f"missing: {claim.missing}"
    if claim.weights and (evidence.value is None or len(evidence.others) < len(claim.also)):
        return "needs public weights", claim.command
    if evidence.value is None:
        return "not settled", _why_nothing(claim, evidence)
    if not evidence.finished:
        return "not settled", "the run's schedule had not ended"
    if claim.waits:
        return "not settled", claim.waits
    if len({_inside(value, claim.bounds) for value in (evidence.value, *evidence.others)}) > 1:
        values = ", ".join(f"{value:.2g}" for value in (evidence.value, *evidence.others))
        return "not settled", f"the networks that were opened do not agree: {values}"
    judges = {
        "digits": _digits, "samples": _samples, "at_least": _at_least, "reaches": _reaches,
        "fails": _fails, "within": _within,
    }
    status, reason = judges[claim.test](claim, evidence)
    if status == "reproduced" and claim.picked:
        return "partly", f"{reason}, by a reading that was picked after looking: {claim.picked}"
    if status == "reproduced" and claim.but:
        return "partly", f"{reason}, but {claim.but}"
    return status, reason


def _why_nothing(claim: Claim, evidence: Evidence) -> str:
    if not claim.network:
        return "no record holds it yet"
    text = "no such network has been trained here yet"
    small = evidence.smaller
    if small is None:
        return text
    beside = "" if small["knows_nothing"] is None else f" (knowing nothing: {small['knows_nothing']:.3g})"
    n = len(small["seeds"])
    return f"{text}; at classroom size, {n} seed{'s' if n > 1 else ''}: {small['measured']:.3g}{beside}"


def _inside(value: float, bounds: tuple[float, float]) -> bool:
    slack = 1e-9 * max(1.0, abs(bounds[0])) if math.isfinite(bounds[0]) else 0.0
    return bounds[0] - slack <= value <= bounds[1] + slack


def _digits(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    low, high = claim.bounds
    if not _inside(evidence.value, (low, high)):
        if _inside(evidence.value, (low - half_unit(claim.ends[0]), high + half_unit(claim.ends[1]))):
            return "partly", "off by one in the last printed digit"
        return "not reproduced", "our value differs in the printed digits"
    if evidence.check is not None and not _agrees(evidence):
        return "partly", "the formula gives these digits, sampled episodes do not agree with it"
    return "reproduced", "the same to the printed digits"


def _agrees(evidence: Evidence) -> bool:
    """Whether the sampled value lies within a few standard errors of the formula's."""
    if math.isinf(evidence.value) or math.isinf(evidence.check):
        return evidence.value == evidence.check
    margin = CHECK_ERRORS * (evidence.check_se or 0.0) + 1e-9 * max(1.0, abs(evidence.value))
    return abs(evidence.value - evidence.check) <= margin


def _samples(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    """Two sampled numbers: both have an error, and the published one was rounded as well."""
    low, high = claim.bounds
    margin = SAMPLE_ERRORS * math.hypot(evidence.standard_error or 0.0, evidence.published_se or 0.0)
    if _inside(evidence.value, (low - margin, high + margin)):
        return "reproduced", "the same within the errors of the two samples"
    unit = high - low
    if _inside(evidence.value, (low - margin - unit, high + margin + unit)):
        return "partly", "off by more than both samples' errors, by less than one printed digit"
    return "not reproduced", "sampled here, it differs by more than both samples' errors"


def _within(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    """Inside a band. A ratio of two networks needs equal budgets, the level of one its controls."""
    unequal = _unequal(claim, evidence)
    if unequal:
        return "not settled", unequal
    if _inside(evidence.value, claim.bounds):
        return "reproduced", "inside the band"
    if claim.partly is not None and _inside(evidence.value, tuple(map(float, claim.partly))):
        return "partly", "outside the band, inside the wider one"
    if claim.over or claim.over_steps:
        return "not reproduced", "outside the band"
    return _if_failure_counts(claim, evidence, "outside the band")


def _unequal(claim: Claim, evidence: Evidence) -> str:
    """In which sizes or budgets two networks differ too much for a fair ratio; "" if in none.

    Episodes until a level are themselves a budget: their ratio needs none.
    """
    if not claim.over or claim.measure.startswith("episodes_to"):
        return ""
    unequal = []
    for what in ("parameters", "episodes"):
        ours, theirs = evidence.runs[0][what], evidence.base_runs[0][what]
        if None in (ours, theirs):
            unequal.append(f"{what} not stored")
        elif abs(ours - theirs) > MATCHED * max(ours, theirs):
            unequal.append(f"{what} {theirs:,} against {ours:,}")
    return f"the two were not given the same: {', '.join(unequal)}" if unequal else ""


def _at_least(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    null = evidence.null
    if claim.network and null.high is None:
        return "not settled", "no null stands beside it yet"
    if claim.over and null.draws < MIN_DEALS:
        return "not settled", "too few seeds to tell the ratio from chance"
    unequal = _unequal(claim, evidence)
    if unequal:
        return "not settled", unequal
    beaten = evidence.value >= null.high if claim.over else claim.network and evidence.value > null.high
    if claim.network and not beaten:
        return _if_failure_counts(claim, evidence, "no better than " + null.what)
    if _inside(evidence.value, claim.bounds):
        return "reproduced", f"at least as large as {_theirs(claim)}"
    if claim.partly is not None and evidence.value >= float(claim.partly):
        return "partly", "close to the published value, below it"
    return _if_failure_counts(claim, evidence, f"smaller than {_theirs(claim)}")


def _theirs(claim: Claim) -> str:
    """Whose number a claim's value is."""
    return {"derived": "our threshold", "own": "claimed"}.get(claim.kind, "published")


def _reaches(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    null, end = evidence.null, claim.bounds[1]
    if null.low is None:
        return "not settled", "no null stands beside it yet"
    if evidence.value >= null.low:
        return _if_failure_counts(claim, evidence, "no better than " + null.what)
    if evidence.value <= end:
        return "reproduced", "at or below the band's end, far from its null"
    if evidence.value <= NEAR * end:
        return "partly", "above the band's end, by less than a factor of 2"
    if evidence.rescued is not None and evidence.rescued <= end:
        return "partly", f"above the band with the plain recipe; {evidence.rescued:.2g} at another rate or with a larger budget"
    return _if_failure_counts(claim, evidence, "above the band")


def _fails(claim: Claim, evidence: Evidence) -> tuple[str, str]:
    """A network stays as bad as published: one seed, rate or budget at which it does not refutes that."""
    tries = {f"seed {run['seed']}": share for run, share in zip(evidence.runs, evidence.shares, strict=False)}
    if evidence.rescued is not None:
        tries["another rate or a larger budget"] = evidence.rescued
    tries = tries or {"the run": evidence.value}
    pick = min if claim.fails_above is not None else max
    where = pick(tries, key=tries.get)
    if _does_not_fail(claim, tries[where]):
        words = "here such a network does not fail"
        if not _does_not_fail(claim, evidence.value):
            words = f"with the plain recipe it fails on average, and not always: {where}, {tries[where]:.3g}"
        if claim.partly is not None and pick(tries[where], float(claim.partly)) == float(claim.partly):
            return "partly", f"{words}; that is less of a failure, and far from a success"
        return "not reproduced", words
    counts, lacking = failure_counts(evidence)
    if not counts:
        return "not settled", f"it fails here too, but {lacking}"
    if _inside(evidence.value, claim.bounds):
        return "reproduced", "it fails, with the published number"
    return "partly", "it fails, but at a different value from the published one"


def _does_not_fail(claim: Claim, value: float) -> bool:
    above, below = claim.fails_above, claim.fails_below
    return (above is not None and value < above) or (below is not None and value > below)


def _if_failure_counts(claim: Claim, evidence: Evidence, reason: str) -> tuple[str, str]:
    """ "not reproduced" with a reason, "not settled" with what is lacking for that, or "not testable" with why no run could do it."""
    if claim.cannot_refute:
        return "not testable", f"missing: {claim.cannot_refute} ({reason})"
    if claim.preset == "classroom" and claim.kind not in ("derived", "own"):
        return "not settled", f"{reason}, at classroom size, from which nothing follows for the published network"
    counts, lacking = failure_counts(evidence) if claim.needs_controls else (True, "")
    if not counts and (closed := _out_of_reach(claim, evidence)) is not None:
        return "not reproduced", f"{reason}, and other learning rates and twice the budget close {closed:.0%} of the gap, in orders of magnitude"
    return ("not reproduced", reason) if counts else ("not settled", f"{reason}, but {lacking}")


def _out_of_reach(claim: Claim, evidence: Evidence) -> float | None:
    """How much of the gap to a printed error other rates and twice the budget close, in orders of magnitude, if it is less than a tenth; else None.

    A network gets better for as long as it is trained, so that a small KL always moves: that it moved says little where a
    printed error is far below all that was tried.
    """
    known, end, best = evidence.controls, claim.bounds[1], evidence.rescued
    rates, scan = len(set(known.get("learning_rates", []))), _number(known.get("kl_scan"))
    whole = scan is None or scan >= 1 - MAX_KL_CHANGE  # the best rate was run to the end
    if claim.test != "reaches" or rates < MIN_LEARNING_RATES or known.get("kl_doubled") is None or not whole or best is None or not 0 < end < best:
        return None
    closed = max(0.0, math.log(evidence.value / best)) / math.log(evidence.value / end)
    return closed if closed < MAX_KL_CHANGE else None


def failure_counts(evidence: Evidence) -> tuple[bool, str]:
    """Whether a network's failure may be held against the claim, and what is lacking if not."""
    return controls_suffice(evidence.controls)


def controls_suffice(controls: dict) -> tuple[bool, str]:
    """Whether the controls of a run (see `trained.controls`) make a failure of it count.

    Its schedule ended; it is the best of at least 4 learning rates (none of the others gets its
    KL down by a tenth or more, be it in whole runs or in a scan of shorter ones); twice the budget moves its KL by less
    than a tenth.
    """
    rates = set(controls.get("learning_rates", []))
    if (n := max(1, len(rates))) < MIN_LEARNING_RATES:
        return False, f"only {n} learning rate{'s were' if n > 1 else ' was'} tried, and at least {MIN_LEARNING_RATES} are asked for"
    before, best, after, both = (
        _number(controls.get(name)) for name in ("kl", "kl_best", "kl_doubled", "kl_both")
    )
    if before is None or after is None:
        return False, "the budget was not doubled"
    if best is not None and best < (1 - MAX_KL_CHANGE) * before:
        longer = "" if both is None else f", and twice the budget at another rate to {both:.3g}"
        return False, f"another learning rate brings its KL to {best:.3g}{longer}"
    scan = _number(controls.get("kl_scan"))
    if scan is not None and scan < 1 - MAX_KL_CHANGE:
        return False, f"in shorter runs another learning rate has {scan:.2g} of the KL, and no whole run has that rate"
    if both is not None and both < (1 - MAX_KL_CHANGE) * before:
        return False, f"twice the budget at another rate brings its KL to {both:.3g}"
    longer = _number(controls.get("kl_longer"))
    if longer is not None and longer < (1 - MAX_KL_CHANGE) * before:
        return False, f"a longer run brings its KL to {longer:.3g}"
    change = abs(after - before) / before if before else math.inf
    if not change < MAX_KL_CHANGE:
        return False, "doubling the budget still moved its KL"
    return True, ""

"""What the ledger says as a whole: whose claim a row is, which kind of null it has, and what chance does.

`submitted` puts the middle of a row's null in the place of what was measured and judges it by the claim's
threshold alone. A row whose null passes as well has a threshold without power: that it stands rests on what lies between the two.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from bayeswind_lib.checkpoints import store
from bayeswind_lib.ledger.claims import Claim
from bayeswind_lib.ledger.status import GRANTED, STATUSES, Evidence, gather, judge_without_null

PUBLISHED = ("paper", "code", "replication")  # kinds of rows with a number that somebody printed
PAPERS = ("Paper I", "Paper II", "Paper III", "the recurrence", "other authors")
PARTS = {
    "From Bayes' rule to a trained network": (1, 8), "Inside a trained network": (9, 14),
    "How training sculpts it": (15, 16), "Language models": (17, 19),
    "Your own": (20, 20),
}
NO_CHAPTER = "in no chapter"
VERDICTS = (
    "stands", "stands, and so does its null", "with a condition", "falls to its null", "falls otherwise",
    "at its null, without controls", "open", "needs public weights", "not testable",
)
# Words in `null_what` and `how` that tell a null's kind; the first that fits counts.
KINDS_OF_NULL = {
    "arithmetic on random numbers": ("arithmetic", "random distributions"),
    "nothing learned": ("before training", "untrained", "random depth", "random init", "re-initialised"),
    "constant or uniform guess": ("uniform guess", "constant", "prior alone", "proportional"),
    "labels or runs shuffled": ("other sequences", "dealt out", "shuffled", "permut", "relabel", "exchanged", "query before"),
    "random direction or matched noise": ("direction", "noise", "drawn at random", "random axis", "random subspace", "matched"),
    "structure without a cause": ("cloud", "walk", "drift", "straight", "gaussian"),
    "position, length or no rule": ("position", "length", "without a rule"),
    "rate or budget": ("the rate", "learning rate", "tuned", "budget"),
}


def paper_of(row: dict) -> str:
    """Which of `PAPERS` a row belongs to: by its source, else by the chapter that takes it up."""
    if row["tunnel"] == "recurrence":
        return PAPERS[3]
    if row["tunnel"] == "bijection_set":
        return PAPERS[4]
    named = re.search(r"\bPapers? (III|II|I)\b", row["source"])
    if named:
        return f"Paper {named[1]}"
    last = max((int(name[:2]) for name in row["chapters"]), default=1)
    return PAPERS[0] if last < 15 else PAPERS[1] if last < 17 else PAPERS[2]


def part_of(row: dict) -> str:
    """The part of the book whose chapter takes the row up; the last one, if several do."""
    if not row["chapters"]:
        return NO_CHAPTER
    number = max(int(name[:2]) for name in row["chapters"])
    return next(part for part, (first, last) in PARTS.items() if first <= number <= last)


def counted(rows: Iterable[dict], group) -> dict[str, dict[str, int]]:
    """How many rows of each group have each status; groups in the order in which they appear.

    Args:
        rows: of the ledger.
        group: a function from a row to the name of its group.
    """
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(group(row), dict.fromkeys(STATUSES, 0))[row["status"]] += 1
    return found


def kind_of_null(row: dict) -> str:
    """One of `KINDS_OF_NULL`, or "of another kind"; "none" where no null stands beside the row."""
    if not row["draws"]:
        return "none"
    words = row["null_what"].lower()
    fits = (kind for kind, parts in KINDS_OF_NULL.items() if any(part in words for part in parts))
    return next(fits, "of another kind")


def submitted(id: str, folder: str | Path | None = None) -> str | None:
    """The status of a claim if the middle of its null had been measured, with all controls granted.

    None where that question has no sense: no null, nothing measured, an ingredient missing, or a
    published failure, of which the null is the claim itself.

    Raises:
        KeyError: if there is no claim of that id.
    """
    from bayeswind_lib import ledger

    place = Path(folder or store.records_folder())
    return _submitted(place, ledger.stamps(place))[id]


@lru_cache(maxsize=2)
def _submitted(folder: Path, stamps: tuple) -> dict[str, str | None]:
    from bayeswind_lib import ledger

    records = ledger._records(folder)
    return {claim.id: under_null(claim, gather(claim, records)) for claim in ledger._claims()}


def under_null(claim: Claim, evidence: Evidence) -> str | None:
    """`submitted` for a claim and the evidence on it."""
    null = evidence.null
    if claim.missing or claim.test == "fails" or null.value is None or evidence.value is None:
        return None
    instead = dataclasses.replace(
        evidence, value=null.value, shares=(), rescued=None, finished=True, check=None, others=(), controls=GRANTED,
    )
    return judge_without_null(claim, instead)[0]


def verdict(row: dict, null_status: str | None) -> str:
    """One of `VERDICTS`: the row's status, and whether its null would have had it too.

    Args:
        row: of the ledger.
        null_status: what `submitted` says of it.
    """
    if row["status"] == "reproduced":
        return VERDICTS[1] if null_status == "reproduced" else VERDICTS[0]
    if row["status"] == "not reproduced":
        return VERDICTS[3] if _at_its_null(row) else VERDICTS[4]
    if row["status"] == "not settled" and row["measured"] is not None and _at_its_null(row):
        return VERDICTS[5]
    if row["status"] == "partly" and "but so is its null" in row["reason"]:
        return VERDICTS[1]
    return {"partly": VERDICTS[2], "not settled": VERDICTS[6]}.get(row["status"], row["status"])


def _at_its_null(row: dict) -> bool:
    """Whether what was measured lies among the draws of the null, or was said to be no better.

    Where runs are dealt out to two names in every way, the true deal is one of the draws: at the very end of their range it
    is the most extreme of all, and not among them.
    """
    if row["reason"].startswith("no better than"):
        return True
    if row["rule"].startswith("counts if every printed digit"):
        return False  # a computed number has no business among draws
    numbers = [row[name] for name in ("measured", "null_low", "null_high")]
    if not all(isinstance(value, float | int) for value in numbers):
        return False
    low, measured, high = numbers[1], numbers[0], numbers[2]
    return low < measured < high or low == measured == high


def waits_for(row: dict) -> str:
    """What a row that is not settled waits for, in a few words, the same for rows that one run would settle."""
    reason = row["reason"]
    network = row["network"] or ", ".join(dict.fromkeys(re.findall(r"--only (\S+)-seed", row["settled_by"])))
    if "--record" in row["settled_by"]:
        return f"another look at {network}, trained again"
    if row["measured"] is None:
        return f"a training of {network}" if network else "a record of its own"
    if "still moved its KL" in reason:
        return f"a longer training of {network or 'the networks that were opened'}"
    if "no whole run has that rate" in reason or "brings its KL" in reason:
        return f"another look at {network or 'the networks that were opened'}, at the rate that does better"
    if "learning rate" in reason or "budget" in reason:
        return f"other learning rates and a doubled budget of {network or 'the networks that were opened'}"
    if "at classroom size" in reason:
        return f"a network of the published size in place of {row['network']}"
    return "a definition, a base or a second network"


def by_chance(n: int, share: float) -> tuple[float, float]:
    """How many of n independent true nulls pass at a rate `share`, and how often at least one does.

    >>> by_chance(20, 0.05)[0], round(by_chance(20, 0.05)[1], 3)
    (1.0, 0.642)
    """
    if not 0 <= share <= 1 or n < 0:
        raise ValueError(f"n is {n} and share {share}: a count and a probability are wanted")
    return n * share, 1 - (1 - share) ** n


def least_p(n_ours: int, n_theirs: int) -> float:
    """The smallest p that dealing out the seeds of two networks can give.

    >>> least_p(3, 3)
    0.05
    """
    return 1 / math.comb(n_ours + n_theirs, n_ours)


def holm(p: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of several hypotheses are rejected so that any false rejection has probability <= level.

    Holm's step-down rule: the smallest p against level / n, the next against level / (n - 1), ...,
    until one is not small enough.

    >>> holm([0.04, 0.01, 0.03])
    [False, True, False]
    """
    order = sorted(range(len(p)), key=lambda i: p[i])
    rejected = [False] * len(p)
    for rank, i in enumerate(order):
        if p[i] > level / (len(p) - rank):
            break
        rejected[i] = True
    return rejected

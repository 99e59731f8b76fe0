"""The ledger: every published number beside what is measured here.

`claims.toml` holds what was published, `records/` what was measured, and the status of a claim
is computed from both. Nothing is measured here: `bayeswind_lib.experiments` does that, for `own` too.

>>> row("bijection-uniform-l20")["published"]
1.2681
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bayeswind_lib import experiments
from bayeswind_lib.checkpoints import store
from bayeswind_lib.ledger.claims import Claim, load_claims
from bayeswind_lib.ledger.status import STATUSES, Evidence, gather, judge, settled_by
from bayeswind_lib.ledger.trained import FINISHED, hours, mean_over_seeds, runs

if TYPE_CHECKING:
    from torch import nn

    from bayeswind_lib.ledger.page import LedgerTable

RECORDS = (*experiments.RECORDS, "language_models", *FINISHED)


def rows(folder: str | Path | None = None, chapter: str | None = None) -> list[dict]:
    """All claims, or those that a chapter takes up, with their computed side, JSON types, in the order of the claim file.

    Every row has id, kind, source, statement, published, published_text, bound ("<" or ">" where a limit was printed), unit, measured,
    standard_error, seeds, runs, preset, device, minutes, commit, null, null_low, null_high,
    draws, status, reason, settled_by (the commands that would settle an open row, one a line; "" where none
    would), hours (about how many of one core its runs take), rule (what decides, in words) and beside (of a network: the reference point that it
    has to be read against); an infinite value is the string "inf", an unknown one None.

    Args:
        folder: where the records lie; the package's own by default.
        chapter: as in "02_tunnel".
    """
    records = _records(folder)
    chosen = [claim for claim in _claims() if chapter is None or chapter in claim.chapters]
    return [_row(claim, gather(claim, records), records) for claim in chosen]


def _records(folder: str | Path | None) -> dict[str, dict | None]:
    place = Path(folder or store.records_folder())
    return _unchanged(place, stamps(place))


def stamps(folder: Path) -> tuple:
    """What changes when one of the records in a folder is written."""
    return tuple(store.stamp(name, folder) for name in RECORDS)


@lru_cache(maxsize=2)
def _unchanged(folder: Path, stamps: tuple) -> dict[str, dict | None]:
    """The records, read once for as long as none of the files is written to."""
    return {name: store.read(name, folder) for name in RECORDS}


def row(id: str, folder: str | Path | None = None) -> dict:
    """The row of one claim: its entries are those of `rows`.

    Raises:
        KeyError: if there is no claim of that id; the message names close ones.
    """
    for claim in _claims():
        if claim.id == id:
            records = _records(folder)
            return _row(claim, gather(claim, records), records)
    stem = id.split("-")[0]
    near = [claim.id for claim in _claims() if claim.id.startswith(stem)]
    raise KeyError(f"no claim is called {id!r}; there are: {', '.join(near or [c.id for c in _claims()])}")


def counts(folder: str | Path | None = None, kinds: tuple[str, ...] | None = None) -> dict[str, int]:
    """How many claims have each status, of all kinds or of the named ones."""
    chosen = [r for r in rows(folder) if kinds is None or r["kind"] in kinds]
    return {status: sum(r["status"] == status for r in chosen) for status in STATUSES}


def record(name: str, folder: str | Path | None = None) -> dict:
    """A stored record, JSON types, for example "bijection_baselines", "networks" or "runs".

    Args:
        folder: where the records lie; the package's own by default.

    Raises:
        FileNotFoundError: if there is none of that name. While nothing has been trained, "runs"
            and "queue" are empty lists of runs.
    """
    found = store.read(name, folder)
    if found is None and name in FINISHED:
        return {"runs": []}
    if found is None:
        known = ", ".join(sorted(path.stem for path in store.records_folder().glob("*.json")))
        raise FileNotFoundError(f"no record is called {name!r}; there are: {known or 'none'}")
    return found


@lru_cache(maxsize=1)
def _claims() -> tuple[Claim, ...]:
    return tuple(load_claims())


def _row(claim: Claim, evidence: Evidence, records: dict) -> dict:
    status, reason = judge(claim, evidence)
    commands = settled_by(claim, evidence, status, records)
    seeds, null = evidence.runs + evidence.base_runs, evidence.null
    low, high = claim.bounds
    result = {
        "id": claim.id, "kind": claim.kind, "source": claim.source, "statement": claim.statement,
        "tunnel": claim.tunnel, "architecture": claim.architecture, "variant": claim.variant,
        "network": claim.network,
        "published": claim.value, "published_text": _printed(claim), "bound": claim.bound, "unit": claim.unit,
        "measured": evidence.value, "standard_error": evidence.standard_error,
        "seeds": [run["seed"] for run in evidence.runs if run["seed"] is not None], "preset": claim.preset,
        "random_seed": (records.get(claim.record) or {}).get("seed") if claim.record else None,
        "test": claim.test, "note": claim.note, "also": list(evidence.others), "tried": {run: value for run, (value, _) in evidence.tried.items()},
        "null": null.value, "null_low": null.low, "null_high": null.high, "draws": null.draws,
        "null_what": null.what, "status": status, "reason": reason,
        "settled_by": commands, "hours": _total(_hours(line, records) for line in commands.splitlines()),
        "band": [low, high], "rule": claim.rule, "how": claim.how, "read_against": claim.read_against,
        "beside": _beside(claim.read_against, records) if claim.network else None,
        "not_testable_if": claim.not_testable_if, "chapters": list(claim.chapters),
        "device": _joined(run["device"] for run in seeds),
        "minutes": _total(run["minutes"] for run in seeds),
        "commit": _joined(run["commit"] for run in seeds),
        "check": evidence.check, "check_standard_error": evidence.check_se,
        "runs": [dict(run) for run in evidence.runs] if claim.network else [],
        "base_runs": [dict(run) for run in evidence.base_runs],
        "smaller": evidence.smaller,
    }
    return store.plain(result, digits=None)


def _hours(command: str, records: dict) -> float | None:
    """About how many hours of one core a command of `settled_by` takes, if it trains."""
    found = re.search(r"--only (\S+)", command)
    return hours(found[1], records, again="--record" in command) if found else None


def _beside(id: str | None, records: dict) -> dict | None:
    """The reference point that a claim is read against: id, statement, measured value and unit."""
    found = next((claim for claim in _claims() if claim.id == id), None)
    if found is None:
        return None
    value = gather(found, records).value
    return {"id": id, "statement": found.statement, "measured": value, "unit": found.unit}


def _printed(claim: Claim) -> str:
    return f"{claim.published} to {claim.published_to}" if claim.published_to else claim.published


def _joined(values) -> str | None:
    return ", ".join(dict.fromkeys(value for value in values if value)) or None


def _total(values) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 1) if known else None


def glue(*ids: str) -> None:
    """Store published, measured, standard error and null of some rows for the prose.

    Their names are `<id>-published`, `<id>-measured`, `<id>-standard-error` and `<id>-null`, so
    that a page can say {glue:text}`bijection-uniform-l20-measured:.3f`.
    """
    from bayeswind_lib.figures import glue as store_for_prose

    for id in ids:
        found = row(id)
        for name in ("published", "measured", "standard_error", "null"):
            if found[name] is not None:
                store_for_prose(f"{id}-{name.replace('_', '-')}", found[name])


def main_table() -> str:
    """The rows as text, one line each."""
    from bayeswind_lib.ledger.page import text_table

    return text_table(rows())


def table(*ids: str, fold: bool = False) -> LedgerTable:
    """Some rows (all without ids) as a table that a notebook shows; see `page.LedgerTable`.

    Args:
        ids: of claims.
        fold: a square for every row, by status, and the table folded below.
    """
    return _shown([row(id) for id in ids] if ids else rows(), fold)


def chapter_table(chapter: str) -> LedgerTable:
    """The rows that a chapter takes up, for its recap, as squares by status and a folded table; `chapter` as in "02_tunnel"."""
    return _shown(rows(chapter=chapter), fold=True)


def _shown(chosen: list[dict], fold: bool) -> LedgerTable:
    from bayeswind_lib.ledger.page import LedgerTable

    return LedgerTable(chosen, fold="The same claims as a table", page="../book/ledger.html") if fold else LedgerTable(chosen)


def own(*models: nn.Module, claims: list[dict] | None = None, n_episodes: int = 2000) -> list[dict]:
    """Rows about networks of your own, which `experiments` measures now, with the status that the same rules give.

    Args:
        models: loaded networks of one tunnel, their record with them; several are seeds of one name.
        claims: as in `claims.toml`, short where the rest follows; those of the tunnel's class by default.
        n_episodes: on how many each is scored; its untrained copies, the null, on fewer.
    Raises:
        ValueError: if nothing is claimed, or a claim lacks what it needs.
    """
    from bayeswind_lib.ledger.own_rows import claims_of, records_of

    chosen = claims_of(models, claims)
    records = records_of(models[0].record["tunnel"], experiments.of_networks(models, n_episodes))
    return [_row(claim, gather(claim, records), records) for claim in chosen]


__all__ = [
    "STATUSES", "chapter_table", "counts", "glue", "main_table",
    "mean_over_seeds", "own", "record", "row", "rows", "runs", "table",
]

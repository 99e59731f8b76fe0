"""Rows of the ledger about a reader's own networks: the same claims, evidence and status, in memory.

A claim is an entry as in `claims.toml`; what follows from the network may be left out. It stands in
the tunnel's class as `claims`, or is handed over.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayeswind_lib import checkpoints, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.ledger.baselines import RECORDS as BASELINES
from bayeswind_lib.ledger.claims import Claim, load_claims

NEEDED = ("id", "statement", "published", "measure")


def records_of(tunnel: str, networks: dict) -> dict[str, dict | None]:
    """What `ledger.gather` reads: a record of networks, and the stored reference points of their tunnel, if there are some."""
    points = BASELINES.get(tunnel)
    return {"networks": networks, "runs": None} | ({points: store.read(points)} if points else {})


def claims_of(models: Sequence, claims: Sequence[dict] | None = None) -> list[Claim]:
    """The claims about networks of one tunnel, what was left out filled in from the first of them.

    Raises:
        ValueError: if there is none, one lacks what it needs, or is divided by a number that nobody stored.
    """
    record = models[0].record
    if others := {model.record["tunnel"] for model in models} - {record["tunnel"]}:
        raise ValueError(f"networks of {record['tunnel']} and of {', '.join(others)}: ask for one tunnel at a time")
    given = claims if claims is not None else getattr(tunnels.find(record["tunnel"]), "claims", [])
    if claims is None and not given and (known := [claim for claim in load_claims() if claim.network == record["name"]]):
        return known  # it bears the name of a network of the ledger
    if not given:
        raise ValueError(
            f"nothing is claimed of a network called {record['name']}, nor of all in the tunnel {record['tunnel']}, whose class "
            f"claims nothing: give the class claims = [{{{', '.join(f'{n!r}: ...' for n in NEEDED)}}}], or hand claims over"
        )
    return [_claim(entry, record) for entry in given]


def _claim(entry: dict, record: dict) -> Claim:
    missing = [name for name in NEEDED if name not in entry]
    if missing:
        raise ValueError(f"the claim {entry.get('id', entry)} lacks {', '.join(missing)}")
    if entry.get("over_key") and record["tunnel"] not in BASELINES:
        raise ValueError(
            f"the claim {entry['id']} is divided by over_key {entry['over_key']!r}: the ledger stores such reference points of "
            f"{', '.join(BASELINES)}, none of {record['tunnel']}; leave over_key out and publish the value in bits"
        )
    variant = checkpoints.variant_of(record)
    filled = {
        "kind": "own", "source": f"the tunnel {record['tunnel']}", "unit": "bits", "test": "reaches",
        "how": f"{entry['measure']} of the network on fresh episodes", "tunnel": record["tunnel"],
        "architecture": record["architecture"], "variant": variant, "preset": record.get("preset") or "classroom",
        "network": record["name"], "null": {"record": "networks", "task": "", "predictor": "untrained", "measure": entry["measure"]},
        "not_testable_if": "never: the network is here",
    }
    if entry.get("test", "reaches") == "reaches" and "band" not in entry:
        filled["band"] = float(entry["published"])
    try:
        return Claim(**filled | entry)
    except TypeError as problem:
        raise ValueError(f"the claim {entry['id']}: {problem}") from None

"""The numbers that two explorers show: they stand in scripts of `widgets/web/`, which are written from the records.

After a record was measured again, `python -m bayeswind_lib.ledger.stored` writes them again; a test compares.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path

from bayeswind_lib import checkpoints, ledger, tunnels
from bayeswind_lib.language import diagnose
from bayeswind_lib.probes import sources

WEB = Path(__file__).parents[1] / "widgets" / "web"
UNTRAINED = "before training"


def diagnostics() -> dict:
    """What chapter 17's three diagnostics measure on networks that have learned their task, and on others."""
    record = ledger.record("language_geometry")
    controls = record["controls"]
    right = [name for name, row in controls.items() if row["answers"] > 0.9]
    wrong = [name for name in controls if name not in right]

    def rows(own, before, trained: Iterable, untrained: Iterable) -> list[dict]:
        return [
            {"label": "networks of this book, right", "group": 0, "dots": [[name, own(controls[name])] for name in right]},
            {"label": "a network of this book, wrong", "group": 1, "dots": [[name, own(controls[name])] for name in wrong]},
            {"label": f"networks of this book, {UNTRAINED}", "group": 1, "dots": [[name, before(row["untrained"])] for name, row in controls.items()]},
            {"label": "SmolLM2", "group": 0, "dots": list(trained)},
            {"label": f"SmolLM2, {UNTRAINED}", "group": 1, "dots": list(untrained)},
        ]

    def of_sets(which: str, read) -> list:
        return [[name, read(one)] for name, one in record[which]["sets"].items()]

    def measured(read, before) -> list[dict]:
        return rows(read, before, of_sets("trained", read), of_sets("untrained", read))

    share, fall = lambda one: one["values"]["pc12"], lambda one: one["reduction"]["value"]
    middle = {which: [["", statistics.median(record["keys"][which])]] for which in ("trained", "untrained")}
    keys = rows(lambda one: statistics.median(one["keys"]), lambda one: one["keys"]["null"], middle["trained"], middle["untrained"])
    published = {"start": "Published:"}
    return {
        "groups": ["those that have learned", "those that have not"],
        "unit": "readings of",
        "choices": {
            "keys": {
                "words": "keys", "axis": "mean |cosine| of key directions, median layer", "above": False, "low": 0, "high": 0.3,
                "published": diagnose.COSINE_THRESHOLD, "rows": keys,
            } | published,
            "values": {
                "words": "values", "axis": "share of the first two components of the values", "above": True, "low": 0, "high": 0.8,
                "published": diagnose.PC_THRESHOLD, "rows": measured(share, lambda one: one["pc12"]["null"]),
            } | published,
            "attention": {
                "words": "attention", "axis": "share by which attention's entropy falls", "above": True, "low": -0.25, "high": 1,
                "published": diagnose.FOCUS_THRESHOLD, "rows": measured(fall, lambda one: one["reduction"]["null"]),
            } | published,
        },
    }  # fmt: skip


def sula() -> dict:
    """Chapter 18's rank correlations, layer by layer: prompts that differ in length, and prompts of one length."""
    layers = ledger.record("language_sula")["layers"]
    names = {
        "published": "SmolLM2, published prompts", "untrained published": f"the same prompts, {UNTRAINED}",
        "shuffled": "SmolLM2, labels thrown like coins", "matched": "SmolLM2, prompts of one length",
        "untrained matched": f"the same prompts, {UNTRAINED}",
    }  # fmt: skip

    def rows(what: str) -> list[dict]:
        return [
            {"label": label, "group": int("matched" in name), "dots": [[f"layer {i}", abs(rho)] for i, rho in enumerate(layers[name][what], 1)]}
            for name, label in names.items()
        ]  # fmt: skip

    entropy = {
        "words": "entropy of the exact posterior", "axis": "|rank correlation| with the entropy, by layer", "above": True, "low": 0, "high": 1,
        "published": float(ledger.row("sula-rho-entropy")["published"]), "start": "Least published:", "rows": rows("H"),
    }  # fmt: skip
    return {"groups": ["prompts that differ in length", "prompts of one length"], "unit": "layers with", "choices": {"entropy": entropy}}


def chains() -> dict:
    """The six hidden chains of chapter 20's network."""
    note = checkpoints.read_record(checkpoints.path_of(sources.NETWORK, 0))
    tunnel = tunnels.build(note["tunnel"], note["tunnel_config"])
    move, emit = tunnel.matrices()
    return {"move": move.tolist(), "emit": emit.tolist(), "length": tunnel.length}


def _short(value):
    """Floats with six digits."""
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def scripts() -> dict[str, str]:
    """{name of a file in `web`: its text}."""
    said = {"threshold_records.js": ("bwThresholdRecords", _short({"diagnostics": diagnostics(), "sula": sula()})), "sources_chains.js": ("bwSourcesChains", chains())}
    note = "// Written by python -m bayeswind_lib.ledger.stored from the records: do not edit.\n"
    return {name: f"{note}window.{variable} = {json.dumps(data, separators=(',', ':'))};\n" for name, (variable, data) in said.items()}


if __name__ == "__main__":
    for name, text in scripts().items():
        (WEB / name).write_text(text, "utf-8")

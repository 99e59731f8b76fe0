"""The numbers that two explorers show, in scripts of `widgets/web/`: `python book/tools stored`.

After a record was measured again this writes the scripts again; a test compares.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence

from tools import ROOT

WEB = ROOT / "bayeswind_lib" / "widgets" / "web"
UNTRAINED = "before training"


def diagnostics() -> dict:
    """What chapter 17's three diagnostics read off networks that have learned, and off others."""
    from bayeswind_lib import ledger
    from bayeswind_lib.language import diagnose

    record = ledger.record("language_geometry")
    controls = record["controls"]
    right = [name for name, row in controls.items() if row["answers"] > 0.9]
    wrong = [name for name in controls if name not in right]

    def of(names: list[str], read) -> list:
        return [[name, read(controls[name])] for name in names]

    def row(label: str, group: int, dots: list) -> dict:
        return {"label": label, "group": group, "dots": dots}

    def rows(own, before, trained: list, untrained: list) -> list[dict]:
        fresh = [[name, before(control["untrained"])] for name, control in controls.items()]
        return [
            row("networks of this book, right", 0, of(right, own)),
            row("a network of this book, wrong", 1, of(wrong, own)),
            row(f"networks of this book, {UNTRAINED}", 1, fresh),
            row("SmolLM2", 0, trained),
            row(f"SmolLM2, {UNTRAINED}", 1, untrained),
        ]

    def measured(read, before) -> list[dict]:
        of_sets = [[[name, read(one)] for name, one in record[which]["sets"].items()]
                   for which in ("trained", "untrained")]  # fmt: skip
        return rows(read, before, *of_sets)

    middle = [[["", statistics.median(record["keys"][which])]]
              for which in ("trained", "untrained")]  # fmt: skip
    keys = {
        "words": "keys", "axis": "mean |cosine| of key directions, median layer",
        "above": False, "low": 0, "high": 0.3, "published": diagnose.COSINE_THRESHOLD,
        "rows": rows(lambda one: statistics.median(one["keys"]),
                     lambda one: one["keys"]["null"], *middle),
    }  # fmt: skip
    values = {
        "words": "values", "axis": "share of the first two components of the values",
        "above": True, "low": 0, "high": 0.8, "published": diagnose.PC_THRESHOLD,
        "rows": measured(lambda one: one["values"]["pc12"], lambda one: one["pc12"]["null"]),
    }  # fmt: skip
    attention = {
        "words": "attention", "axis": "share by which attention's entropy falls",
        "above": True, "low": -0.25, "high": 1, "published": diagnose.FOCUS_THRESHOLD,
        "rows": measured(lambda one: one["reduction"]["value"],
                         lambda one: one["reduction"]["null"]),
    }  # fmt: skip
    choices = {"keys": keys, "values": values, "attention": attention}
    return {
        "groups": ["those that have learned", "those that have not"], "unit": "readings of",
        "choices": {name: {**one, "start": "Published:"} for name, one in choices.items()},
    }  # fmt: skip


def sula() -> dict:
    """Chapter 18's rank correlations by layer: prompts of different lengths, and of one length."""
    from bayeswind_lib import ledger

    layers = ledger.record("language_sula")["layers"]
    names = {
        "published": "SmolLM2, published prompts",
        "untrained published": f"the same prompts, {UNTRAINED}",
        "shuffled": "SmolLM2, labels tossed like coins",
        "matched": "SmolLM2, prompts of one length",
        "untrained matched": f"the same prompts, {UNTRAINED}",
    }
    rows = [
        {"label": label, "group": int("matched" in name),
         "dots": [[f"layer {i}", abs(rho)] for i, rho in enumerate(layers[name]["H"], 1)]}
        for name, label in names.items()
    ]  # fmt: skip
    entropy = {
        "words": "entropy of the exact posterior",
        "axis": "|rank correlation| with the entropy, by layer", "above": True,
        "low": 0, "high": 1, "published": float(ledger.row("sula-rho-entropy")["published"]),
        "start": "Least published:", "rows": rows,
    }  # fmt: skip
    groups = ["prompts that differ in length", "prompts of one length"]
    return {"groups": groups, "unit": "layers with", "choices": {"entropy": entropy}}


def chains() -> dict:
    """The six hidden chains of chapter 20's network."""
    from bayeswind_lib import checkpoints, tunnels
    from bayeswind_lib.probes import sources

    note = checkpoints.read_record(checkpoints.path_of(sources.NETWORK, 0))
    tunnel = tunnels.build(note["tunnel"], note["tunnel_config"])
    move, emit = tunnel.matrices()
    return {"move": move.tolist(), "emit": emit.tolist(), "length": tunnel.length}


def short(value):
    """The same with six digits in every number."""
    if isinstance(value, dict):
        return {key: short(one) for key, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def scripts() -> dict[str, str]:
    """{name of a file in `web`: its text}."""
    records = short({"diagnostics": diagnostics(), "sula": sula()})
    data = {"threshold_records.js": ("bwThresholdRecords", records),
            "sources_chains.js": ("bwSourcesChains", chains())}  # fmt: skip
    note = "// Written by python book/tools stored: do not edit.\n"
    return {name: f"{note}window.{variable} = {json.dumps(found, separators=(',', ':'))};\n"
            for name, (variable, found) in data.items()}  # fmt: skip


def main(words: Sequence[str] = ()) -> int:
    for name, text in scripts().items():
        (WEB / name).write_text(text, "utf-8")
    return 0

"""What the records of a language model keep, read again: vectors as text, the answers to prompts, what edits did, what it cost.

Axes: n prompts, k examples, d channels.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from bayeswind_lib.language import sula


def pack(x: np.ndarray) -> str:
    """An array (n, d) as text: half precision, base 64."""
    return base64.b64encode(x.astype("<f2").tobytes()).decode()


def unpack(text: str, n: int) -> np.ndarray:
    """What `pack` wrote, float32 (n, d).

    >>> unpack(pack(np.eye(2)), 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return np.frombuffer(base64.b64decode(text), "<f2").reshape(n, -1).astype(np.float32)


def cost_of(records: Sequence[dict]) -> dict[str, float]:
    """What the runs that made these records cost: seconds are added, of memory the most counts.

    Records of one run name the same run, which counts once.

    >>> run = {"processor_seconds": 60.0, "two_core_seconds": 40.0, "peak_megabytes": 900.0}
    >>> cost_of([{"cost": {"command": run}}] * 2)["two_core_seconds"]
    40.0
    """
    runs = []
    for record in records:
        if record["cost"]["command"] not in runs:
            runs.append(record["cost"]["command"])
    added = {name: sum(run[name] for run in runs) for name in ("processor_seconds", "two_core_seconds")}
    return added | {"peak_megabytes": max(run["peak_megabytes"] for run in runs)}


def median_effect(effects: dict | Sequence[dict]) -> dict:
    """One line on an edit, or the medians of many: share of variance, rise of the error, KL, change of P, share of the slope left."""
    some = [effects] if isinstance(effects, dict) else effects
    of_each = {
        "variance": [e.get("share") for e in some], "rise of the error": [e["mae"] - e["mae_before"] for e in some],
        "KL": [e["kl"] for e in some], "change of P": [e["moved"] for e in some],
        "slope left": [e["slope"] / e["slope_before"] for e in some],
    }
    return {name: None if None in values else float(np.median(values)) for name, values in of_each.items()}


class Answers:
    """What the record keeps of the prompts of one design, as arrays; everything else is computed from it.

    Attributes:
        shown: labels of each prompt, "0110". names: the two labels.
        logit, mass: (n,). pc1: (n,) by layer, as text.
        k, m, exact, p, entropy: number of examples; evidence; bits left of the exact observer; probability of the
            first label; entropy of that, bits.
    """

    def __init__(self, names: Sequence[str], shown: Sequence[str], logit, mass, pc1: dict):
        self.names, self.shown = tuple(names), tuple(shown)
        self.logit, self.mass = np.array(logit), np.array(mass)
        self.pc1 = {layer: np.array(x) for layer, x in pc1.items()}
        self.k = np.array([len(row) for row in shown])
        self.m = np.array([len(row) - 2 * row.count("1") for row in shown])
        self.exact = sula.entropy(self.m)
        self.p = sula.chance(self.logit)
        self.entropy = sula.binary_entropy(self.p)

    @classmethod
    def of(cls, kept: dict) -> Answers:
        """From one entry of the record's `prompts`."""
        return cls(kept["labels"], kept["shown"], kept["logit"], kept["mass"], kept["pc1"])

    @property
    def labels(self) -> np.ndarray:
        """0 and 1, (n, k); only where all prompts are of one length."""
        return np.array([[int(c) for c in row] for row in self.shown])

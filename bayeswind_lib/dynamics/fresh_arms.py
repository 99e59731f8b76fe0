"""What is raced on fresh chains: heads, arms and their rates (Paper II)."""

from __future__ import annotations

from bayeswind_lib.dynamics.race import Arm

STEPS = 400
LEVELS = {"kl": 0.1, "entropy_mae": 0.3}  # nats and bits; even attention reaches neither
BASE = 1.0  # of the arms that are compared at one rate
ROUTING = {"query": 10.0, "key": 10.0}
FAMILIES = {
    "one rate": ("attention", Arm("one rate")),
    "values x 10": ("attention", Arm("values x 10", times={"value": 10.0})),
    "output x 10": ("attention", Arm("output x 10", times={"output": 10.0})),
    "queries and keys x 10": ("attention", Arm("queries and keys x 10", times=ROUTING)),
    "AdamW": ("attention", Arm("AdamW", optimiser="adamw")),
    "AdamW, values x 10": ("attention", Arm("AdamW, values x 10", times={"value": 10.0}, optimiser="adamw")),
    "alternating": ("attention", Arm("alternating", optimiser="em")),
    "mixture, one rate": ("mixture", Arm("mixture, one rate")),
    "mixture, values x 10": ("mixture", Arm("mixture, values x 10", times={"value": 10.0})),
    "mixture, queries and keys x 10": ("mixture", Arm("mixture, queries and keys x 10", times=ROUTING)),
    "mixture, AdamW": ("mixture", Arm("mixture, AdamW", optimiser="adamw")),
    "mixture, EM": ("mixture", Arm("mixture, EM", optimiser="em")),
}
RATES = {
    "sgd": (0.1, 0.215, 0.464, 1.0, 2.15, 4.64, 10.0, 21.5),
    "adamw": (0.00464, 0.01, 0.0215, 0.0464, 0.1, 0.215),
    "em": (2.15, 4.64, 10.0, 21.5, 46.4, 100.0),
}
AT_BASE = ("one rate", "values x 10", "output x 10", "queries and keys x 10")
MATCHED, TENFOLD = "all, matched", "all x 10"
LOWER = ("one rate", "values x 10", "queries and keys x 10", "alternating", "mixture, one rate", "mixture, EM")
FROZEN = {"no routing": {"query": 0.0, "key": 0.0}, "frozen values": {"value": 0.0, "output": 0.0}}

"""What is raced on the sticky chain: the arms and their rates (Paper II)."""

from __future__ import annotations

from bayeswind_lib.dynamics import race
from bayeswind_lib.dynamics.race import Arm

STEPS, LENGTH, SHORT = 1000, 2000, 700  # as published, and a shorter sequence for many rates
THIN = 10  # of the training loss every so many steps are kept
# What is raced at its own best rate. The rate is that of the maps that are not named.
FAMILIES = {
    "one rate": Arm("one rate"),
    "values x 10": Arm("values x 10", times={"value": 10.0}),
    "output x 10": Arm("output x 10", times={"output": 10.0}),
    "queries and keys x 10": Arm("queries and keys x 10", times={"query": 10.0, "key": 10.0}),
    "AdamW": Arm("AdamW", optimiser="adamw"),
    "AdamW, values x 10": Arm("AdamW, values x 10", times={"value": 10.0}, optimiser="adamw"),
    "alternating": Arm("alternating", optimiser="em"),
}
RATES = {
    "sgd": (0.001, 0.00316, 0.01, 0.0316, 0.1, 0.316, 1.0),
    "adamw": (0.0001, 0.000316, 0.001, 0.00316, 0.01, 0.0316),
    "em": (0.01, 0.0316, 0.1, 0.316, 1.0, 3.16),
}
PLAIN, VALUES = (arm.name for arm in race.PUBLISHED)
TENFOLD = "all x 10"  # what stands beside the published arm: the same ten times on every map

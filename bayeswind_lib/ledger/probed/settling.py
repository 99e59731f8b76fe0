"""The record `probe_settling`: when each quantity settles, over five seeds, and the ladder of freezes.

A small HMM transformer (`training.plans.LADDER`): five seeds with a falling and five with a constant
rate, free and with a part of attention frozen from some update on. All is trained in a folder first,
and measured from it; the package ships none of these networks:

    python -m bayeswind_lib.ledger.probed.settling FOLDER

Cells that are in the folder are not trained again; `FOLDER 0/2` and `FOLDER 1/2` do half each.

Axes: C snapshots, L layers, R runs of a fleet.
"""

from __future__ import annotations

import sys
import time
from itertools import product
from pathlib import Path

import torch

from bayeswind_lib.checkpoints.files import write_tensors
from bayeswind_lib.training import fleet
from bayeswind_lib.training.plans import FROZEN, LADDER_SEEDS, RUNGS, ladder

RATES = {"linear": "falling", "constant": "constant"}
NUDGE = 1e-7  # relative: a change of the last bit of each first weight


def arms(schedule: str, seed: int) -> dict:
    """The recipes of one fleet, by label: "free", "looks-60", ...; then what no recipe says, "nudged" and "uniform"."""
    mine = [one for one in ladder() if one.recipe.seed == seed and one.recipe.schedule == schedule]
    found = {one.name.split("ladder-")[1].split("-", 1)[1]: one.recipe for one in mine}
    return found | {"nudged": found["free"]} | ({"uniform": found["free"]} if schedule == "linear" else {})


def path_of(folder: str | Path, schedule: str, seed: int) -> Path:
    """Where the weights of a fleet lie: of the free run at its snapshots, of all others at the end."""
    return Path(folder) / "ladder" / f"{RATES[schedule]}-seed{seed}.safetensors"


def train(folder: str | Path, schedule: str, seed: int) -> Path:
    """Train one fleet, and keep "free/STEP/NAME" and "LABEL/end/NAME"; nothing to do if it is there."""
    path, recipes = path_of(folder, schedule, seed), arms(schedule, seed)
    if path.exists():
        return path
    begun, labels = time.process_time(), list(recipes)
    now = fleet.assemble(list(recipes.values()), [NUDGE if label == "nudged" else 0 for label in labels])
    if "uniform" in labels:
        fleet.silence(now, labels.index("uniform"), FROZEN["looks"])
    free, kept = recipes["free"], {}
    for step in range(free.steps + 1):
        if step in (0, *free.snapshot_steps):
            kept |= {f"free/{step}/{name}": x for name, x in fleet.of(now, labels.index("free")).items()}
        if step < free.steps:
            fleet.update(now)
    for i, label in enumerate(labels):
        kept |= {f"{label}/end/{name}": x for name, x in fleet.of(now, i).items()}
    note = {"recipe": free.to_dict(), "labels": labels, "cpu_seconds": round(time.process_time() - begun, 1)}
    note |= {name: now.run.environment[name] for name in ("commit", "device") if name in now.run.environment}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, kept, note)
    return path


def cells() -> list[tuple[str, int]]:
    """Schedule and seed of all fleets, the falling rate first."""
    return list(product(RUNGS, LADDER_SEEDS))


if __name__ == "__main__":
    torch.set_num_threads(1)
    part, parts = map(int, sys.argv[2].split("/")) if len(sys.argv) > 2 else (0, 1)
    for schedule, seed in cells()[part::parts]:
        print(train(sys.argv[1], schedule, seed), flush=True)

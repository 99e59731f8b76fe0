"""The record `probe_tried`: what probes read in other runs of a network that they opened, so that a failure may count.

networks/NAME/RUN/RECORD holds the part of RECORD that the ledger asks for, as if the run were the network NAME of
seed 0: a run at another rate ("rate 0.003"; "rate 0.003 shorter" if it belongs to the scan that compares rates on a part of
the updates) or of twice the budget ("doubled"). Nulls are the run's own where they are cheap.
The runs lie in the folder of the queue, which only `--runs` brings; without it what is stored is kept:

    python -m bayeswind_lib queue --folder FOLDER --only NAME
    python -m bayeswind_lib records probe_tried --runs FOLDER
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from bayeswind_lib import checkpoints, tunnels
from bayeswind_lib.checkpoints import store
from bayeswind_lib.experiments import ablation, keys, queue, recurrence, routing, values
from bayeswind_lib.experiments.progress import about
from bayeswind_lib.training import plans
from bayeswind_lib.training.plans import Cell
from bayeswind_lib.training.sweep import ended_cells, weights_of

COPIES = 20  # untrained ones, and draws of any other null


def measure(n_episodes: int, draws: int, records: str | Path | None = None, runs: str | Path | None = None) -> dict:
    """The record.

    Args:
        n_episodes: as in the records that it stands beside. draws: of each null, at most `COPIES`.
        records: where the stored record lies, whose networks are kept. runs: the folder of the queue.
    """
    found = dict((store.read("probe_tried", records) or {}).get("networks", {}))
    for cell, row in ended_cells(cells(), runs):
        network = checkpoints.load_file(weights_of(row, runs))
        read = {record: how(network, cell.name, n_episodes, min(draws, COPIES)) for record, how in READ[cell.name].items()}
        found[cell.name] = found.get(cell.name, {}) | {run_of(cell): about(row) | read}
    return {"networks": found}


def cells() -> list[Cell]:
    """The cells of the queue that are another run of a network in `READ`, of its first seed."""
    named = [entry.cell for entry in queue.entries() if entry.cell.name in READ and entry.cell.recipe.seed == 0]
    return [cell for cell in named if run_of(cell)]


def run_of(cell: Cell) -> str:
    """`plans.run_of` of a cell of the queue."""
    return plans.run_of(queue.plain_recipes()[cell.name], cell.recipe.learning_rate, cell.recipe.steps)


# ---- what is read, each in the form of its record


def _keys(model: nn.Module, name: str, n: int, draws: int) -> dict:
    entry, nulls = keys.opened(model, n, draws)
    zero = {place: x for place, x in entry["heads"]["zero"].items() if place.startswith("concentration")}
    cosines = {"cosines": entry["cosines"]} if "cosines" in entry else {}  # none where keys and values are the same tokens
    return {"networks": {name: {"0": cosines | {"heads": {"zero": zero}}}}, "untrained": {name: {"0": nulls}}}


def _routing(model: nn.Module, name: str, n: int, draws: int) -> dict:
    tunnel = tunnels.build("bijection", model.record["tunnel_config"])
    episodes = tunnel.sample(n, routing.dice(1))
    found = routing.layers_of(model, episodes.inputs, routing.routing.patterns(model, episodes.inputs))
    one = {place: found[place] for place in ("last_over_first", "cosine_last_over_first")} | {"patching": routing.window_of(model, tunnel, episodes)}
    return {"distinct": {name: {"0": one}}, "untrained": routing.before_training(model, tunnel, draws)}


def _values(model: nn.Module, name: str, n: int, draws: int) -> dict:
    return values.ledger_values({name: {"0": values.of_model(model, n, draws)}})


def _ablation(model: nn.Module, name: str, n: int, draws: int) -> dict:
    return {"noise": ablation.noise_nulls({name: {"0": ablation.opened(model, n, draws)}})}


def _split(model: nn.Module, name: str, n: int, draws: int) -> dict:
    label = name.removeprefix("recurrence-transformer-")
    return {"trained": recurrence.asked({label: {"0": recurrence.split(model, model.record["tunnel_config"], n)}})}


def _recurrence(model: nn.Module, name: str, n: int, draws: int) -> dict:
    found = recurrence.opened(model, model.record["tunnel_config"], n, draws)
    return {"trained": recurrence.asked({"horizon": {"0": found}}), "shuffled": {"rescue": recurrence.dealt_of(found)}}


READ: dict[str, dict[str, Callable]] = {  # by network: which records, and how
    "bijection-transformer": {"probe_keys": _keys, "probe_routing": _routing, "probe_values": _values, "probe_ablation": _ablation},
    "bijection-transformer-paired": {"probe_keys": _keys},
    "hmm-transformer": {"probe_ablation": _ablation},
    "recurrence-transformer-horizon": {"probe_recurrence": _recurrence},
    "recurrence-transformer-train": {"probe_recurrence": _split},
    "recurrence-transformer-train-p31": {"probe_recurrence": _split},
}

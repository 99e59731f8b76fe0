"""What `test_sweep.py` runs in other processes: a tiny plan, and workers that keep a diary.

A Dask worker that preloads this file saves its run all the time and writes what it does into the
file $SWEEP_DIARY, one line "pid event cell" each. Run as a script it is the book's command line
with the tiny plan added.
"""

from __future__ import annotations

import functools
import os
import sys

from bayeswind_lib import __main__ as command_line
from bayeswind_lib.training import plans

engine = sys.modules["bayeswind_lib.training.sweep"]  # `training.sweep` is the function in it

LONG = 300  # updates: some seconds, time enough to be killed in


def tiny() -> list[plans.Cell]:
    """One long cell, one that cannot work, four short ones; two of these differ in rate only."""
    make = functools.partial(plans.cell, "bijection", "transformer", preset="smoke")
    cells = [make(steps=LONG, eval_every=50, label="long")]
    cells += [make(tunnel_config={"n_values": 1}, label="broken")]
    cells += [make(seed=seed, steps=20) for seed in (0, 1)]
    cells += [make(seed=seed, steps=20, matrix_learning_rate=0.05) for seed in (0, 1)]
    return cells


def write_down(event: str, key: str) -> None:
    """Append to the diary; one write, so that lines of several processes do not mix."""
    path = os.environ.get("SWEEP_DIARY")
    if path:
        with open(path, "a") as file:
            file.write(f"{os.getpid()} {event} {key}\n")


def dask_setup(worker) -> None:
    """Called by Dask in each worker that preloads this file."""
    run_cell, attempt = engine.run_cell, engine.attempt

    @functools.wraps(run_cell)
    def noted(cell, *words, **settings):
        write_down("begins", cell.key)
        row = run_cell(cell, *words, **settings)
        write_down("ends", cell.key)
        return row

    @functools.wraps(attempt)
    def tried(cell, *words, **settings):
        outcome = attempt(cell, *words, **settings)
        write_down(next(iter(outcome)), cell.key)
        return outcome

    engine.run_cell, engine.attempt = noted, tried
    engine.train = functools.partial(engine.train, save_every=0.1)


if __name__ == "__main__":
    plans.PLANS["tiny"] = tiny
    command_line.main()

"""The process that `test_resume.py` kills: a small training run with a slow disk."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from bayeswind_lib import training
from bayeswind_lib.checkpoints import files
from bayeswind_lib.training.loop import STATE

REST = 120  # seconds: longer than any kill is late
NEVER = 10**9


def recipe(optimiser: str) -> training.Recipe:
    """A run of a second or two: every kind of state that a longer run has."""
    return training.recipe(
        "bijection", "transformer", "smoke", steps=90, optimiser=optimiser, warmup_steps=5,
        eval_every=15, eval_episodes=8, batch_size=8, n_snapshots=4,
    )


class HalfWritten:
    """An opened file that rests after half of what it was given to write."""

    def __init__(self, path, mode: str):
        self.file = open(path, mode)  # noqa: SIM115

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        time.sleep(REST)
        self.file.write(content[len(content) // 2 :])


def work(optimiser: str, folder: str, syncs, limit: int, slow: str = "") -> None:
    """Train, or go on training, and save after every single step.

    Args:
        syncs: a shared integer that counts the calls of `os.fsync` in this process.
        limit: after so many calls the process rests, so that whoever wants to kill it is in time.
        slow: "write" rests in the middle of writing the state, "rename" between that and renaming.
    """
    torch.set_num_threads(1)
    sync, replace = os.fsync, os.replace

    def counted_sync(descriptor: int) -> None:
        sync(descriptor)
        syncs.value += 1
        if syncs.value >= limit:
            time.sleep(REST)

    def slow_replace(source, target) -> None:
        if slow == "rename" and Path(target).name == STATE:
            time.sleep(REST)
        replace(source, target)

    def slow_open(path, mode):
        half = slow == "write" and STATE in Path(path).name
        return HalfWritten(path, mode) if half else open(path, mode)

    os.fsync, os.replace, files.open = counted_sync, slow_replace, slow_open
    training.train(recipe(optimiser), folder, resume=True, progress=False, save_every=0.0)

"""The training loop: one function for every tunnel and architecture, exact in resuming.

Update n reads episodes drawn on the CPU from a generator seeded with (data_seed, n), whatever the
device: one recipe is one data stream. What a network randomises in training comes from (data_seed, n, 1).
Nothing else is random, so weights, optimiser state, the step and the stage of a curriculum are all
that a resumed run needs.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import math
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from bayeswind_lib import models, tunnels
from bayeswind_lib.checkpoints.files import (
    CheckpointError,
    check_writable,
    read_tensors,
    write_tensors,
)
from bayeswind_lib.checkpoints.store import plain
from bayeswind_lib.scoring import Score, score_episodes
from bayeswind_lib.training.cuda_graph import Recorded, Step
from bayeswind_lib.training.environment import describe_environment
from bayeswind_lib.training.optimiser import Muon, split_parameters
from bayeswind_lib.training.precision import best_precision, products
from bayeswind_lib.training.recipe import Recipe

STATE = "state.safetensors"
PACE = 0.1  # weight of the latest update in the running accuracy that decides when a stage ends


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal, after its state was saved."""


@dataclass
class Run:
    """A training run in memory: what is trained, with what, and how far it got.

    `tunnel` is what the network is made for and scored in; `stages` are the tunnels it is trained in,
    one after the other, `tunnel` the last. `accuracy` is the running one in the present stage, and
    `stage_ends` the updates after which the earlier ones were left.
    """

    recipe: Recipe
    tunnel: object
    model: nn.Module
    optimisers: list[torch.optim.Optimizer]
    device: torch.device
    step: int = 0
    seconds: float = 0.0
    curve: list[dict] = field(default_factory=list)
    interruptions: int = 0
    environment: dict = field(default_factory=dict)
    pool: tunnels.Episodes | None = None
    stages: list = field(default_factory=list)
    accuracy: float = 0.0
    stage_ends: list[int] = field(default_factory=list)

    @property
    def stage(self) -> int:
        """Which stage the run is in, from 0."""
        return len(self.stage_ends)

    @property
    def arrived(self) -> bool:
        """Whether the recipe's own tunnel is answered as well as `until` asks; never, if it asks nothing."""
        return 0 < self.recipe.until <= self.accuracy and self.stage == len(self.stages) - 1

    @property
    def freezes(self) -> bool:
        """Whether the recipe's `frozen` parameters have come to rest."""
        return bool(self.recipe.frozen) and self.step >= self.recipe.frozen_from

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.step >= self.recipe.steps or self.arrived


def generator(device: torch.device | str, *seeds: int) -> torch.Generator:
    """A generator whose stream depends on all the seeds together."""
    state = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


def check_device(name: str) -> torch.device:
    """The device called `name`, if work can be done on it; "auto" is a CUDA GPU where there is one, else the CPU.

    Raises:
        ValueError: if there is no such device here, with the names that would work.
    """
    found = ["cpu"]
    if torch.cuda.is_available():
        found += ["cuda"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    if str(name) == "auto":
        return torch.device("cuda" if "cuda" in found else "cpu")
    if str(name) not in found:
        raise ValueError(
            f"device {str(name)!r} is not available here: choose one of {', '.join([*found, 'auto'])}"
        )
    return torch.device(name)


def model_config(recipe: Recipe) -> dict:
    """The network's full config: the recipe's sizes, and what the tunnel's interface fixes."""
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    wanted = models.architecture(recipe.architecture).Config.__dataclass_fields__
    given = {k: v for k, v in tunnel.interface.to_dict().items() if k in wanted}
    return given | recipe.model_config


def stages(recipe: Recipe) -> list:
    """The tunnels that a recipe trains in, one after the other; without a curriculum just its own.

    Raises:
        ValueError: for a stage whose inputs or outcomes the last stage's network cannot take, and for
            a pool beside a curriculum.
    """
    if recipe.curriculum and recipe.pool:
        raise ValueError(
            f"pool is {recipe.pool} and the curriculum has {len(recipe.curriculum)} stages: a fixed set of "
            "episodes belongs to one tunnel, so choose one of the two"
        )
    last = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    room = last.interface
    if recipe.until and room.outcome != "categorical":
        raise ValueError(f"until is {recipe.until}, an accuracy, and {recipe.tunnel} predicts real numbers: set steps instead")
    found = []
    for number, changes in enumerate(recipe.curriculum, 1):
        stage = tunnels.build(recipe.tunnel, recipe.tunnel_config | changes)
        asked = stage.interface
        if asked.outcome != "categorical":
            raise ValueError(f"stage {number} of the curriculum predicts real numbers: stages end at an accuracy")
        for name, what in (("n_tokens", "tokens"), ("n_outputs", "outcomes"), ("n_positions", "positions")):
            if getattr(asked, name) > getattr(room, name):
                raise ValueError(
                    f"stage {number} of the curriculum ({changes}) has {getattr(asked, name)} {what}, and the network "
                    f"of the last stage {getattr(room, name)}: make the stage smaller, or the last one larger"
                )
        for name in ("n_tokens", "n_features", "n_outputs", "first_output_token"):
            if getattr(asked, name) != getattr(room, name):
                raise ValueError(
                    f"stage {number} of the curriculum ({changes}) has {name} {getattr(asked, name)}, the last stage "
                    f"{getattr(room, name)}: a stage writes its episodes in the last one's vocabulary (for recall, "
                    "leave n_keys and n_values and set vocabulary)"
                )
        found.append(stage)
    return [*found, last]


def optimisers(model: nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """The optimisers that a recipe asks for; each group remembers its own full rate as `peak`."""
    matrices, rest = split_parameters(model)
    gpu = matrices[0].is_cuda  # there a rate is a tensor, so that a CUDA graph reads the latest one

    def rate(peak: float) -> float | torch.Tensor:
        return torch.tensor(peak, device=matrices[0].device) if gpu else peak

    adamw = {"betas": recipe.betas, "weight_decay": recipe.weight_decay, "capturable": gpu}
    if recipe.optimiser == "adamw":
        chosen = [(torch.optim.AdamW(matrices + rest, lr=rate(recipe.learning_rate), **adamw), recipe.learning_rate)]
    else:
        # In float32 everywhere but where the whole run may use bfloat16: see `optimiser.py`.
        dtype = torch.bfloat16 if recipe.precision == "bfloat16" else torch.float32
        decay = {"weight_decay": recipe.weight_decay, "momentum": recipe.momentum}
        chosen = [
            (Muon(matrices, lr=rate(recipe.matrix_learning_rate), dtype=dtype, **decay), recipe.matrix_learning_rate),
            (torch.optim.AdamW(rest, lr=rate(recipe.learning_rate), **adamw), recipe.learning_rate),
        ]
    for optimiser, peak in chosen:
        for group in optimiser.param_groups:
            group["peak"] = peak
    return [optimiser for optimiser, _ in chosen]


def set_rate(group: dict, rate: float) -> None:
    """Give a group of an optimiser its learning rate."""
    if torch.is_tensor(group["lr"]):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def frozen_parameters(model: nn.Module, patterns: tuple[str, ...]) -> list[nn.Parameter]:
    """The parameters whose names fit one of some patterns.

    Raises:
        ValueError: for a pattern that fits none.
    """
    named = dict(model.named_parameters())
    fits = {pattern: fnmatch.filter(named, pattern) for pattern in patterns}
    for pattern, names in fits.items():
        if not names:
            raise ValueError(
                f"frozen names {pattern!r}, and no parameter of this {model.architecture} is called so; "
                f"there are {', '.join(list(named)[:4])}, ..."
            )
    return [named[name] for name in sorted({name for names in fits.values() for name in names})]


def start(recipe: Recipe, device: str = "cpu") -> Run:
    """A run at step 0; the precision "auto" is settled here.

    Raises:
        ValueError: for a device that is not here, a tunnel that breaks its promises, or a name in `frozen` that fits nothing.
    """
    where = check_device(device)
    if recipe.precision == "auto":
        recipe = recipe.but(precision=best_precision(where))
    in_turn = stages(recipe)
    tunnel = in_turn[-1]
    tunnels.refuse(tunnel)  # of the reader's own, for the most part: refused before the run
    model = models.build(recipe.architecture, model_config(recipe), generator("cpu", recipe.seed))
    model.to(where)
    frozen_parameters(model, recipe.frozen)  # a name that fits nothing is refused before the run
    pool = None
    if recipe.pool:
        pool = tunnel.sample(recipe.pool, generator("cpu", recipe.data_seed)).to(where)
    return Run(
        recipe, tunnel, model, optimisers(model, recipe), where,
        environment=describe_environment(where),  # now: the checkout may change while it trains
        pool=pool, stages=in_turn,
    )


def save_state(run: Run, folder: Path) -> None:
    """Write all that `load_state` needs into one file, atomically."""
    tensors = {f"model.{name}": t for name, t in run.model.state_dict().items()}
    for i, optimiser in enumerate(run.optimisers):
        for j, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{i}.{j}.{name}": t for name, t in state.items()}
    note = {
        "recipe": run.recipe.to_dict(), "step": run.step, "seconds": run.seconds,
        "curve": run.curve, "interruptions": run.interruptions,
        "accuracy": run.accuracy, "stage_ends": run.stage_ends,
    }
    write_tensors(folder / STATE, tensors, note)


def load_state(recipe: Recipe, folder: Path, device: str = "cpu") -> Run:
    """The run that `save_state` wrote.

    Raises:
        CheckpointError: if the file is damaged, or belongs to another recipe.
    """
    path = Path(folder) / STATE
    tensors, note = read_tensors(path)
    if note is None or "recipe" not in note:
        raise CheckpointError(f"{path}: not the state of a training run")
    if recipe.precision == "auto":  # was settled when the run began, perhaps on another device
        recipe = recipe.but(precision=note["recipe"]["precision"])
    saved, asked = Recipe.from_dict(note["recipe"]).to_dict(), recipe.to_dict()  # an older one lacks fields
    differing = sorted(k for k in saved.keys() | asked.keys() if saved.get(k) != asked.get(k))
    if differing:
        raise CheckpointError(
            f"{path}: written by another recipe ({', '.join(differing)} differ); "
            "resume with that recipe, or train in an empty folder"
        )
    run = start(recipe, device)
    groups: dict[str, dict] = {"model": {}, "optimiser": {}}
    for name, tensor in tensors.items():
        kind, rest = name.split(".", 1)
        groups[kind][rest] = tensor
    run.model.load_state_dict(groups["model"])
    for i, optimiser in enumerate(run.optimisers):
        state: dict[int, dict] = {}
        for name, tensor in groups["optimiser"].items():
            owner, parameter, key = name.split(".")
            if int(owner) == i:
                state.setdefault(int(parameter), {})[key] = tensor
        optimiser.load_state_dict(optimiser.state_dict() | {"state": state})
    run.step, run.seconds, run.curve = note["step"], note["seconds"], note["curve"]
    run.accuracy, run.stage_ends = note.get("accuracy", 0.0), note.get("stage_ends", [])
    run.interruptions = note["interruptions"] + (not run.ended)
    return run


def loss_bits(logits: torch.Tensor, episodes: tunnels.Episodes, supervision: str) -> torch.Tensor:
    """Mean cross-entropy over episodes and scored positions, in bits.

    `sampled`: of the outcomes that happened. `posterior`: its conditional expectation given
    the context, the cross-entropy against the exact posterior. For Gaussian outcomes the
    logits are a mean and a log variance.
    """
    if episodes.outcome == "gaussian":
        loss = _gaussian_loss(logits, episodes, supervision)
    elif supervision == "sampled":
        loss = F.cross_entropy(logits.flatten(0, -2), episodes.targets.flatten())
    else:
        truth = episodes.posterior.to(logits.dtype)
        loss = -(truth * F.log_softmax(logits, dim=-1)).sum(-1).mean()
    return loss / math.log(2)


def _gaussian_loss(logits: torch.Tensor, episodes: tunnels.Episodes, supervision: str) -> torch.Tensor:
    """Nats: log density at what happened, or its expectation under the exact predictive."""
    mean, log_variance = logits.unbind(-1)
    if supervision == "sampled":
        square = (episodes.targets.to(logits.dtype) - mean) ** 2
    else:
        truth = episodes.posterior.to(logits.dtype)
        square = (truth[..., 0] - mean) ** 2 + truth[..., 1]
    return 0.5 * (math.log(2 * math.pi) + log_variance + square * (-log_variance).exp()).mean()


def draw(run: Run) -> tunnels.Episodes:
    """The episodes of the next update: fresh ones of the present stage, or some of the run's pool.

    Drawn on the CPU, so that they depend on the recipe and the update alone, and then sent to the device.
    """
    recipe = run.recipe
    rng = generator("cpu", recipe.data_seed, run.step)
    if run.pool is None:
        return run.stages[run.stage].sample(recipe.batch_size, rng).to(run.device)
    rows = torch.randint(recipe.pool, (recipe.batch_size,), generator=rng)
    return run.pool[rows.to(run.device)]


def step(
    run: Run, forward: Callable[..., torch.Tensor], episodes: tunnels.Episodes, rng: torch.Generator,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Move the weights by what some episodes say; returns the loss in bits, a tensor without axes, and the logits float32 (B, K, Y)."""
    recipe, stage = run.recipe, run.stages[run.stage]
    elsewhere = {} if stage is run.tunnel else {"scored": stage.interface.scored}
    with torch.autocast(run.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"):
        logits = forward(episodes.inputs, rng, **elsewhere)
    loss = loss_bits(logits, episodes, recipe.supervision)
    loss.backward()
    if run.freezes:
        for parameter in frozen_parameters(run.model, recipe.frozen):
            parameter.grad = None  # optimisers pass over what has no gradient
    if recipe.grad_clip:
        nn.utils.clip_grad_norm_(run.model.parameters(), recipe.grad_clip)
    for optimiser in run.optimisers:
        optimiser.step()
        optimiser.zero_grad()
    return loss.detach(), logits.detach()


def update(run: Run, forward: Callable[..., torch.Tensor], step: Step = step) -> torch.Tensor:
    """One step of training; returns the loss in bits, a tensor without axes (so that a GPU need not wait).

    Args:
        run: what is trained; its step is one more afterwards.
        forward: the network, or what `torch.compile` made of it: (inputs, rng) -> logits float32 (B, K, Y).
        step: what moves the weights; `cuda_graph.Recorded` does the same on a GPU in less time.
    """
    recipe, episodes = run.recipe, draw(run)
    run.model.train()
    for optimiser in run.optimisers:
        for group in optimiser.param_groups:
            set_rate(group, group["peak"] * recipe.rate(run.step))
    loss, logits = step(run, forward, episodes, generator("cpu", recipe.data_seed, run.step, 1))
    run.step += 1
    if recipe.curriculum or recipe.until:
        _advance(run, float((logits.argmax(-1) == episodes.targets).double().mean()))
    return loss


def _advance(run: Run, right: float) -> None:
    """Take down the share of right answers of an update; go to the next stage if this one is mastered."""
    run.accuracy += PACE * (right - run.accuracy)
    if run.accuracy >= run.recipe.mastery and run.stage < len(run.stages) - 1:
        run.stage_ends.append(run.step)
        run.accuracy = 0.0


def evaluation_episodes(recipe: Recipe) -> tuple[tunnels.Episodes, str]:
    """The fixed episodes of a learning curve, and the first 16 digits of their sha256."""
    tunnel = tunnels.build(recipe.tunnel, recipe.tunnel_config)
    episodes = tunnel.sample(recipe.eval_episodes, generator("cpu", recipe.eval_seed))
    content = episodes.inputs.numpy().tobytes() + episodes.targets.numpy().tobytes()
    return episodes, hashlib.sha256(content).hexdigest()[:16]


def score_again(network: nn.Module, tolerance: float = 5e-4) -> Score:
    """The score on the fixed episodes of a network's learning curve, which must be that curve's last point.

    Stored weights are rounded, so entropy error, KL and total variation may each differ by `tolerance`
    and by a thousandth of the curve's value.

    Args:
        network: what `checkpoints.load` returned.
    Raises:
        AssertionError: naming the measure and both values.
    """
    episodes, _ = evaluation_episodes(Recipe.from_dict(network.record["recipe"]))
    score = score_episodes(network, episodes.to(next(network.parameters()).device))
    last = network.record["curve"][-1]
    for key in ("entropy_mae", "kl", "tv"):
        now = getattr(score, key)
        if not abs(now - last[key]) < tolerance + 1e-3 * last[key]:
            raise AssertionError(
                f"{network.record['name']}, seed {network.record['seed']}: {key} is {now:.6g} on the episodes of its "
                f"learning curve, which ends at {last[key]:.6g}; get a fresh copy of the weights and their record"
            )
    return score


@contextlib.contextmanager
def _signals_caught():
    """Turn SIGINT and SIGTERM into a flag, so that a step is finished and the state saved."""
    caught: list[int] = []
    old = {}
    with contextlib.suppress(ValueError):  # not in the main thread: leave signals alone
        for kind in (signal.SIGINT, signal.SIGTERM):
            old[kind] = signal.signal(kind, lambda number, frame: caught.append(number))
    try:
        yield caught
    finally:
        for kind, handler in old.items():
            signal.signal(kind, handler)


def train(
    recipe: Recipe,
    folder: str | Path | None = None,
    device: str = "cpu",
    resume: bool = False,
    progress: bool = True,
    save_every: float = 60.0,
    stop: Callable[[], bool] | None = None,
) -> tuple[nn.Module, dict]:
    """Train a network as the recipe says.

    Args:
        recipe: what to do.
        folder: where the run's state and snapshots go; None keeps nothing on disk.
        device: "cpu", "cuda", ..., or "auto": a GPU where there is one.
        resume: go on from the state in `folder` if there is one. Without it, a folder that
            holds a state is refused.
        progress: show a progress bar on standard output.
        save_every: seconds between two writes of the state.
        stop: asked after every update; True stops the run as a signal does.
    Returns:
        the network in eval mode, and its record: recipe, config, curve, seconds, environment.
    Raises:
        ValueError: for an unknown device. CheckpointError: for a state that does not fit.
        OSError: at once, for a folder that cannot be written to.
        Interrupted: on SIGINT or SIGTERM or when `stop` says so, after the state was saved.
    """
    folder = Path(folder) if folder is not None else None
    run = _start_or_resume(recipe, folder, device, resume)
    recipe = run.recipe
    episodes, fingerprint = evaluation_episodes(recipe)
    episodes = episodes.to(run.device)
    forward = torch.compile(run.model) if recipe.compile else run.model
    how = Recorded(step) if run.device.type == "cuda" and not recipe.compile else step
    begun, saved = time.monotonic() - run.seconds, time.monotonic()
    bar = tqdm(
        total=recipe.steps, initial=run.step, disable=not progress, file=sys.stdout,
        unit="step", mininterval=1.0, dynamic_ncols=True,
        desc=f"{recipe.tunnel} {recipe.architecture}",
    )
    with bar, _signals_caught() as caught, products(run.device, recipe.precision):
        if run.step == 0 and not run.curve:
            _evaluate(run, episodes, None)
        while not run.ended:
            loss = update(run, forward, how)
            run.seconds = time.monotonic() - begun
            if run.step % recipe.eval_every == 0 or run.ended:
                row = _evaluate(run, episodes, loss)
                place = f"stage {run.stage + 1} of {len(run.stages)}, " if recipe.curriculum else ""
                bar.set_postfix_str(
                    f"{place}entropy error {row['entropy_mae']:.4f}, KL {row['kl']:.5f} bits"
                )
            bar.update()
            stopped = bool(caught) or (stop is not None and stop())
            if folder is not None:
                if run.step in recipe.snapshot_steps:
                    write_tensors(snapshot_path(folder, run.step), run.model.state_dict())
                due = time.monotonic() - saved >= save_every
                if due or stopped or run.ended:
                    save_state(run, folder)
                    saved = time.monotonic()
            if stopped:
                where = "nowhere: no folder was given"
                if folder:
                    where = f"in {folder}; go on with resume=True (--resume)"
                raise Interrupted(f"stopped at step {run.step} of {recipe.steps}, saved {where}")
    run.model.eval()
    return run.model, _record(run, fingerprint)


def snapshot_path(folder: str | Path, step: int) -> Path:
    """Where the weights after update `step` are kept."""
    return Path(folder) / "snapshots" / f"step{step:07d}.safetensors"


def _start_or_resume(recipe: Recipe, folder: Path | None, device: str, resume: bool) -> Run:
    if resume and folder is None:
        raise ValueError("resume needs the folder of the run to go on with")
    if folder is not None and (folder / STATE).exists():
        if not resume:
            raise CheckpointError(
                f"{folder / STATE}: a run is already there; resume it, or choose another folder"
            )
        check_writable(folder)
        return load_state(recipe, folder, device)
    run = start(recipe, device)
    if folder is not None:
        check_writable(folder)
    return run


def _evaluate(run: Run, episodes: tunnels.Episodes, loss: torch.Tensor | None) -> dict:
    """Score the network on the fixed episodes and add a row to the learning curve."""
    run.model.eval()
    result = score_episodes(run.model, episodes)
    row = {
        "step": run.step, "episodes": run.step * run.recipe.batch_size,
        "seconds": round(run.seconds, 2), "loss": None if loss is None else float(loss),
        "entropy_mae": result.entropy_mae, "kl": result.kl, "tv": result.tv,
    }
    run.curve.append(plain(row, digits=None))  # a run that has diverged has a curve as well
    return row


def _record(run: Run, fingerprint: str) -> dict:
    """All that is known of a finished run, as JSON types."""
    recipe = run.recipe
    return {
        "tunnel": recipe.tunnel,
        "tunnel_config": run.tunnel.config,
        "architecture": recipe.architecture,
        "config": run.model.config.to_dict(),
        "parameters": models.count_parameters(run.model),
        "recipe": recipe.to_dict(),
        "recipe_tag": recipe.tag,
        "seed": recipe.seed,
        "data_seed": recipe.data_seed,
        "steps": run.step,
        "episodes": run.step * recipe.batch_size,
        "schedule_ended": run.ended,
        "seconds": round(run.seconds, 3),
        "interruptions": run.interruptions,
        "evaluation_sha256": fingerprint,
        "curve": run.curve,
        **({"stage_ends": run.stage_ends} if recipe.curriculum else {}),
        **({"arrived": run.arrived} if recipe.until else {}),
        **run.environment,
    }

"""Ways to train the same head on the same data, raced against each other (Paper II; notes A6, A7).

Paper II compares one rate for all maps with ten times that rate on the values, and reads the second
one's lead as expectation maximisation. What decides is what else leads as much: ten times on any
other map, on all of them, another optimiser, and what all of that is worth on data not trained on.

Axes: S symbols, N positions, P points of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import torch

from bayeswind_lib.dynamics import attention, sticky
from bayeswind_lib.scoring import NATS, entropy

MAPS = ("query", "key", "value", "output")
MEASURES = ("train", "validation", "held_out", "kl", "attention_entropy", "forecast_entropy", "accuracy", "same_symbol")


@dataclass(frozen=True)
class Arm:
    """One way to train.

    Attributes:
        name: in words.
        rate: learning rate of every map.
        times: maps that have another rate, and by which factor.
        optimiser: "sgd" (no momentum), "adamw", or "em": in turn, the best value and output maps for
            the attention as it is (a convex problem), and one step of the query and key maps.
    """

    name: str
    rate: float = 0.01
    times: dict[str, float] = field(default_factory=dict)
    optimiser: str = "sgd"

    def __post_init__(self):
        if self.optimiser not in ("sgd", "adamw", "em"):
            raise ValueError(f"optimiser is {self.optimiser!r}: choose sgd, adamw or em")
        if unknown := set(self.times) - set(MAPS):
            raise ValueError(f"times names {sorted(unknown)}: the maps are {', '.join(MAPS)}")
        if not self.rate > 0:
            raise ValueError(f"rate is {self.rate}: give a number above 0")

    def rate_of(self, name: str) -> float:
        """The learning rate of a map."""
        return self.rate * self.times.get(name, 1.0)


PUBLISHED = (Arm("SGD"), Arm("values x 10", times={"value": 10.0}))
CONTROLS = (
    Arm("output x 10", times={"output": 10.0}),
    Arm("values and output x 10", times={"value": 10.0, "output": 10.0}),
    Arm("queries and keys x 10", times={"query": 10.0, "key": 10.0}),
    Arm("all x 10", rate=0.1),
    Arm("all x 100", rate=1.0),
    Arm("AdamW", rate=0.01, optimiser="adamw"),
    Arm("AdamW, values x 10", rate=0.01, times={"value": 10.0}, optimiser="adamw"),
)


@dataclass(frozen=True)
class Task:
    """What all arms of a race have in common: the truth, and a sequence for each purpose.

    Rates and the moment to stop are chosen on `validation`; what is reported is measured on `held_out`.
    """

    train: sticky.Sequence
    validation: sticky.Sequence
    held_out: sticky.Sequence
    means: torch.Tensor
    transition: torch.Tensor


def task(seed: int, length: int = 2000, as_coded: bool = True) -> Task:
    """The chain's task. Pictures come from seed 0 for all, as published; the sequences from `seed`."""
    means = sticky.pictures(torch.Generator().manual_seed(0))
    transition, rng = sticky.chain(as_coded), torch.Generator().manual_seed(seed)
    draws = [sticky.sample(length, means, transition, rng) for _ in range(3)]
    return Task(*draws, means, transition)


def first_weights(seed: int, channels: int = 10, value_channels: int = 15, size: float = 0.1) -> attention.Weights:
    """The published first weights: one head, 820 numbers, standard deviation 0.1."""
    rng = torch.Generator().manual_seed(seed)
    return attention.draw(
        rng, width=sticky.WIDTH, n_outcomes=sticky.SYMBOLS, channels=channels, value_channels=value_channels,
        size=size, dtype=torch.float32,
    )


@torch.no_grad()
def measure(weights: attention.Weights, task: Task) -> dict[str, float]:
    """How well a head does, in nats but for accuracy and `same_symbol` (probability); see MEASURES."""
    tested = attention.forward(task.held_out.inputs, weights)
    forecast, chosen = (attention.forward(s.inputs, weights).logits[0].log_softmax(-1) for s in (task.train, task.validation))
    unseen = tested.logits[0].log_softmax(-1)
    return {
        "train": sticky.cross_entropy(forecast.exp(), task.train),
        "validation": sticky.cross_entropy(chosen.double().exp(), task.validation),
        "held_out": sticky.cross_entropy(unseen.double().exp(), task.held_out),
        "kl": sticky.kl_to_row(unseen, task.held_out, task.transition),
        "attention_entropy": float(entropy(tested.pattern).mean()) * NATS,
        "forecast_entropy": float(entropy(forecast.exp()).mean()) * NATS,
        "accuracy": float((forecast.argmax(-1) == task.train.targets[0]).float().mean()),
        "same_symbol": sticky.same_symbol_mass(tested.pattern, task.held_out),
    }


@dataclass(frozen=True)
class Curve:
    """What an arm did.

    Attributes:
        arm, seed: which one.
        steps: int64 (P,), the steps at which it was measured.
        measures: name -> float64 (P,).
        weights: of the head at the end.
        loss: float64 (steps + 1,), training loss before each step and after the last; None where every step has data of its own.
        head: of which kind, see `fair.answer`.
    """

    arm: Arm
    seed: int
    steps: np.ndarray
    measures: dict[str, np.ndarray]
    weights: attention.Weights
    loss: np.ndarray | None = None
    head: str = "attention"

    def to_dict(self) -> dict:
        """Plain JSON types, without the weights."""
        measures = {name: row.tolist() for name, row in self.measures.items()}
        found = {"head": self.head, "arm": asdict(self.arm), "seed": self.seed, "steps": self.steps.tolist(), "measures": measures}
        return found if self.loss is None else found | {"loss": self.loss.tolist()}


def race(arm: Arm, task: Task, seed: int, steps: int = 1000, every: int = 50, penalty: float = 1e-4) -> Curve:
    """Train a head one way, from the first weights of `seed`, with all data at every step.

    `penalty` is that of the alternating arm's convex problem; see `best_answers`.

    Raises:
        ValueError: if `steps` or `every` is below 1.
    """
    weights, targets, losses = first_weights(seed), task.train.targets, []

    def look(t: int) -> attention.Pass:
        done = attention.forward(task.train.inputs, weights)
        losses.append(float(attention.cross_entropy(done.logits, targets)))
        return done

    def best(done: attention.Pass) -> attention.Pass:
        best_answers(done, targets, penalty)
        return attention.forward(done.inputs, weights)

    points, kept = descend(
        weights, arm, steps, every, lambda: measure(weights, task), look, best, lambda done: attention.loss_gradients(done, targets),
    )
    look(steps)
    return Curve(arm, seed, points, kept, weights, np.array(losses))


def descend(
    weights: attention.Weights, arm: Arm, steps: int, every: int,
    measure: Callable[[], dict], look: Callable, best: Callable, slopes: Callable,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The loop of every race: train some weights one way, in place, and measure on the way.

    It is not `training.train`, because an M-step is not a gradient's, and the gradients are the closed forms of
    `attention`: nothing is differentiated by a machine.

    Args:
        measure: what is kept every so many steps, and of the end.
        look: a step's number -> the pass through its data.
        best: a pass -> the pass after an M-step (asked for by the alternating arms only).
        slopes: a pass -> all gradients, and that at the output map.
    Returns:
        the steps at which it was measured, int64 (P,), and the measures, each float64 (P,).
    Raises:
        ValueError: if `steps` or `every` is below 1.
    """
    if steps < 1 or every < 1:
        raise ValueError(f"steps is {steps} and every is {every}: both must be at least 1")
    move, points, rows = mover(weights, arm), [], []
    for t in range(steps + 1):
        if t % every == 0 or t == steps:
            points.append(t)
            rows.append(measure())
        if t < steps:
            done = look(t)
            move(*slopes(best(done) if arm.optimiser == "em" else done))
    return np.array(points), {name: np.array([row[name] for row in rows]) for name in rows[0]}


def stepper(weights: attention.Weights, arm: Arm) -> Callable[[attention.Pass, torch.Tensor], None]:
    """A function of a pass and its targets that takes one step of an arm's descent, in place."""
    move = mover(weights, arm)

    def step(done: attention.Pass, targets: torch.Tensor) -> None:
        move(*attention.loss_gradients(done, targets))

    return step


def mover(weights: attention.Weights, arm: Arm) -> Callable[[attention.Gradients, torch.Tensor], None]:
    """A function of all gradients and that at the output map, which takes one step of an arm's descent, in place.

    Of an alternating arm that is the E-step's: queries and keys alone.
    """
    rates = {name: arm.rate_of(name) for name in MAPS}
    adam = None
    if arm.optimiser == "adamw":
        adam = torch.optim.AdamW([{"params": [getattr(weights, name)], "lr": rate} for name, rate in rates.items()])

    def route(found: attention.Gradients, output: torch.Tensor) -> None:
        for name in ("query", "key"):
            getattr(weights, name).sub_(rates[name] * getattr(found, name))

    def move(found: attention.Gradients, output: torch.Tensor) -> None:
        for name, rate in rates.items():
            weight, gradient = getattr(weights, name), output if name == "output" else getattr(found, name)
            if adam is None:
                weight.add_(gradient, alpha=-rate)  # torch.optim.SGD does this, and takes seconds to import
            else:
                weight.grad = gradient
        if adam is not None:
            adam.step()

    return route if arm.optimiser == "em" else move


def best_answers(done: attention.Pass, targets: torch.Tensor, penalty: float = 1e-4, rounds: int = 20) -> None:
    """Set value and output maps to the best ones for the attention as it is.

    With attention held fixed, logits are linear in the product M = W_V W_O: multinomial logistic
    regression on the averaged inputs, which is convex. M is then split evenly by its singular values.
    `penalty` keeps it finite. Changes the weights in place. One head only.

    Raises:
        ValueError: for more heads than one, or if M has a higher rank than the values allow.
    """
    weights = done.weights
    _can_hold(weights)
    mixed = (done.pattern[:, 0] @ done.inputs).flatten(0, 1)  # (N, D)
    answer = (weights.value[0] @ weights.output[0]).clone().requires_grad_()  # (D, Y)
    solver = torch.optim.LBFGS([answer], max_iter=rounds, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = torch.nn.functional.cross_entropy(mixed @ answer, targets.flatten()) + penalty * answer.square().sum()
        loss.backward()
        return loss

    with torch.enable_grad():
        solver.step(closure)
    set_answer(weights, answer.detach())


def _can_hold(weights: attention.Weights) -> None:
    if len(weights.query) != 1:
        raise ValueError(f"there are {len(weights.query)} heads: the alternating arm is for one")
    D, (V, Y) = weights.value.shape[1], weights.output.shape[1:]
    if min(Y, D) > V:
        raise ValueError(f"values have {V} channels, and {Y} outcomes need at least {min(Y, D)}")


def set_answer(weights: attention.Weights, answer: torch.Tensor) -> None:
    """Make W_V W_O a given matrix (D, Y), split evenly by its singular values; in place, one head only.

    Raises:
        ValueError: as `best_answers`.
    """
    _can_hold(weights)
    left, size, right = torch.linalg.svd(answer, full_matrices=False)
    root, n = size.sqrt(), len(size)
    weights.value.zero_()[0, :, :n] = left * root
    weights.output.zero_()[0, :n] = root[:, None] * right


def first_below(steps: Sequence[float], values: Sequence[float], level: float) -> float:
    """Where a curve first is at or below a level, on a straight line between two points; inf if it never is.

    A run that never gets there is *censored*: all that is known is that it takes longer.
    """
    values = np.asarray(values)
    below = np.flatnonzero(values <= level)
    if not len(below):
        return math.inf
    i = int(below[0])
    if i == 0:
        return float(steps[0])
    share = (values[i - 1] - level) / (values[i - 1] - values[i])
    return float(steps[i - 1] + share * (steps[i] - steps[i - 1]))


def steps_to(curve: Curve, level: float, measure: str | None = None) -> float:
    """Steps until the training loss, or a measure, is at or below a level; see `first_below`."""
    if measure is None:
        return first_below(range(len(curve.loss)), curve.loss, level)
    return first_below(curve.steps, curve.measures[measure], level)


def speed_up(n_steps: int, taken: Sequence[float]) -> float:
    """The published figure: the base's steps over the mean steps that an arm takes to the same level.

    A censored run counts with `n_steps`, the least that it can have taken: then the figure is an
    upper bound.

    >>> speed_up(1000, [400, 600]), speed_up(1000, [500, math.inf])
    (2.0, 1.3333333333333333)
    """
    return n_steps / float(np.minimum(taken, n_steps).mean())


# ---- what ten times one map is worth


def rebalanced(weights: attention.Weights, factor: float) -> attention.Weights:
    """(c W_V, W_O / c): the same function, for only the product of the two maps enters it."""
    scale = {"value": factor, "output": 1 / factor}
    return weights.map(lambda name, w: w * scale.get(name, 1.0))


def first_decrease(found: attention.Gradients, output: torch.Tensor, arm: Arm) -> float:
    """First-order decrease of the loss in one step of plain descent: sum over maps of rate x |gradient|^2."""
    parts = {"query": found.query, "key": found.key, "value": found.value, "output": output}
    return sum(arm.rate_of(name) * float(part.square().sum()) for name, part in parts.items())


def matched_rate(found: attention.Gradients, output: torch.Tensor, arm: Arm) -> float:
    """The one rate for all maps whose first step lowers the loss as much as the arm's does, to first order."""
    return first_decrease(found, output, arm) / first_decrease(found, output, Arm("one", rate=1.0))

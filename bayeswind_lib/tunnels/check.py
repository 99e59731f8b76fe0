"""Is a tunnel what it says it is? Its shapes, its seeds, and whether its posterior predicts its targets.

A posterior p of what happens next has, whatever the task, E[1(y = j) - p_j] = 0, also times anything
that was known before y. Each such average is divided by its standard error over episodes (positions
of one episode hang together, episodes do not), and none may be farther from 0 than chance allows.

Axes: B episodes, K scored positions, Y outcomes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import torch

from bayeswind_lib.tunnels.base import OUTCOMES, AnyTunnel, Episodes, Interface

FALSE_ALARM = 1e-5  # how often a right tunnel may be refused, all tests of it together
LEAST = 100  # an average counts if it is as near to a Gaussian as that of so many rare events (Lyapunov)
MOST = 64  # outcomes, or pairs of what was read last and an outcome, that are tested one by one
TINY = 1e-12


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        problems: what is wrong, in words; empty for a tunnel that may be used.
        n_tests: averages that were compared with 0. threshold: how many standard errors were allowed.
        worst: the largest number of standard errors among them, and of what.
    """

    problems: tuple[str, ...]
    n_tests: int = 0
    threshold: float = math.nan
    worst: tuple[float, str] = (0.0, "")

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return "\n".join(f"wrong: {problem}" for problem in self.problems)
        return (
            f"nothing is wrong: shapes and seeds are as they should be, and of {self.n_tests} averages that are 0 under the "
            f"posterior the farthest is {self.worst[0]:.1f} standard errors from it ({self.worst[1].rstrip(',')}); {self.threshold:.1f} are allowed"
        )


def check(tunnel: AnyTunnel, n_episodes: int = 2000, seed: int = 0) -> Checked:
    """Whether a tunnel holds its promises, in words.

    Args:
        tunnel: any object with `sample`, `interface` and `config`.
        n_episodes: on which the posterior is compared with what happened.
    """
    problems = tuple(shape_problems(tunnel))
    if problems:
        return Checked(problems)
    episodes = tunnel.sample(n_episodes, torch.Generator().manual_seed(seed))
    problems = tuple(_seed_problems(tunnel, seed)) + tuple(_posterior_problems(tunnel, episodes))
    if problems:
        return Checked(problems)
    seen = []
    for what, value, second, fourth in _averages(tunnel, episodes):
        error = _standard_error(value, second)
        if float(second.sum()) ** 2 >= LEAST * float(fourth.sum()) > 0:
            seen.append((float(value.mean()) / error, what))
    threshold = NormalDist().inv_cdf(1 - FALSE_ALARM / 2 / max(1, len(seen)))
    far = sorted((found for found in seen if abs(found[0]) > threshold), key=lambda found: -abs(found[0]))
    problems = tuple(
        f"the posterior does not predict the targets: {what} is {z:+.1f} standard errors from 0, at most {threshold:.1f} are chance"
        for z, what in far[:3]
    )
    z, what = max(seen, key=lambda found: abs(found[0]), default=(0.0, "none could be tested"))
    return Checked(problems, len(seen), threshold, (abs(z), what))


def refuse(tunnel) -> None:
    """ValueError in words for a tunnel whose shapes are wrong: a moment, without the statistics."""
    for problem in shape_problems(tunnel):
        raise ValueError(f"the tunnel {getattr(tunnel, 'name', type(tunnel).__name__)} cannot be used: {problem}")


def shape_problems(tunnel, batch: int = 4) -> Iterator[str]:
    """What is wrong with a tunnel's interface and with a few of its episodes; stops at the first."""
    sizes = tunnel.interface
    if not isinstance(sizes, Interface):
        yield f"interface is {type(sizes).__name__}: it is a property that returns a bw.tunnels.Interface"
        return
    problem = _interface_problem(sizes)
    if problem:
        yield problem
        return
    episodes = tunnel.sample(batch, torch.Generator().manual_seed(0))
    if not isinstance(episodes, Episodes):
        yield f"sample returned {type(episodes).__name__}: it returns bw.tunnels.Episodes(inputs, targets, posterior)"
        return
    for found in (_inputs_problem, _targets_problem, _truth_problem):
        problem = found(sizes, episodes, batch)
        if problem:
            yield problem
            return


def _interface_problem(sizes: Interface) -> str | None:
    scored = list(sizes.scored)
    if bool(sizes.n_tokens) == bool(sizes.n_features):
        return f"interface has n_tokens {sizes.n_tokens} and n_features {sizes.n_features}: inputs are either, so one of them is 0"
    if not scored or scored != sorted(set(scored)) or scored[0] < 0 or scored[-1] >= sizes.n_positions:
        return f"interface.scored is {sizes.scored}: positions that rise, within 0..{sizes.n_positions - 1}"
    if sizes.outcome not in OUTCOMES:
        return f"interface.outcome is {sizes.outcome!r}: choose one of {', '.join(OUTCOMES)}"
    if sizes.n_outputs < 2:
        return f"interface.n_outputs is {sizes.n_outputs}: at least 2 outcomes (for a Gaussian: mean and variance)"
    return None


def _inputs_problem(sizes: Interface, episodes: Episodes, batch: int) -> str | None:
    inputs, T = episodes.inputs, sizes.n_positions
    wanted = f"int64 ({batch}, T) tokens" if sizes.n_tokens else f"float32 ({batch}, T, {sizes.n_features})"
    shape = (batch, inputs.shape[1]) if inputs.ndim > 1 else ()
    right = shape if sizes.n_tokens else (*shape, sizes.n_features)
    if tuple(inputs.shape) != right or inputs.dtype != (torch.int64 if sizes.n_tokens else torch.float32):
        return f"inputs are {_say(inputs)}: expected {wanted}, T = {T}"
    if not sizes.scored[-1] < inputs.shape[1] <= T:
        return f"inputs have {inputs.shape[1]} positions: the interface says {T}, the last scored one is {sizes.scored[-1]}"
    if sizes.n_tokens and (inputs.min() < 0 or inputs.max() >= sizes.n_tokens):
        return f"inputs hold tokens {int(inputs.min())} to {int(inputs.max())}: the interface has 0..{sizes.n_tokens - 1}"
    return None if sizes.n_tokens or bool(inputs.isfinite().all()) else "inputs hold what is no number"


def _targets_problem(sizes: Interface, episodes: Episodes, batch: int) -> str | None:
    targets, labels, K = episodes.targets, sizes.outcome == "categorical", len(sizes.scored)
    if episodes.outcome != sizes.outcome:
        return f"episodes are {episodes.outcome}, the interface is {sizes.outcome}: Episodes(..., outcome={sizes.outcome!r})"
    dtype = torch.int64 if labels else torch.float64
    if tuple(targets.shape) != (batch, K) or targets.dtype != dtype:
        return f"targets are {_say(targets)}: expected {str(dtype).removeprefix('torch.')} ({batch}, {K}), one at each scored position"
    if labels and (targets.min() < 0 or targets.max() >= sizes.n_outputs):
        return f"targets are {int(targets.min())} to {int(targets.max())}: outcomes are 0..{sizes.n_outputs - 1}"
    return None


def _truth_problem(sizes: Interface, episodes: Episodes, batch: int) -> str | None:
    truth, shape = episodes.posterior, (batch, len(sizes.scored), sizes.n_outputs)
    if tuple(truth.shape) != shape or truth.dtype != torch.float64:
        return f"the posterior is {_say(truth)}: expected float64 {shape}"
    if not bool(truth.isfinite().all()):
        return "the posterior holds what is no number"
    if sizes.outcome == "gaussian":
        return None if bool((truth[..., 1] > 0).all()) else "the posterior's variance (entry 1 of its last axis) must be positive"
    if truth.min() < 0:
        return f"the posterior has a negative entry, {float(truth.min()):.3g}"
    off = (truth.sum(-1) - 1).abs().max()
    return f"rows of the posterior do not sum to 1: off by up to {float(off):.2g}" if off > 1e-9 else None


def _say(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _seed_problems(tunnel, seed: int) -> Iterator[str]:
    """The generator is the only chance, and the config builds the same tunnel again."""
    try:
        again = type(tunnel)(**json.loads(json.dumps(tunnel.config)))
    except TypeError as problem:
        yield f"config does not build the tunnel again: {problem}; it holds the arguments of the class, as JSON types"
        return
    first, same, other = (
        t.sample(64, torch.Generator().manual_seed(s)) for t, s in ((tunnel, seed), (again, seed), (tunnel, seed + 1))
    )
    if not (torch.equal(first.inputs, same.inputs) and torch.equal(first.targets, same.targets)):
        yield "the same seed gives other episodes: draw with the generator that sample gets, and with nothing else"
    if torch.equal(first.inputs, other.inputs) and torch.equal(first.targets, other.targets):
        yield "another seed gives the same episodes: draw with the generator that sample gets"


def _posterior_problems(tunnel, episodes: Episodes) -> Iterator[str]:
    """No outcome happens that was ruled out; and `posterior`, if there is one, is that of the episodes."""
    if episodes.outcome == "categorical":
        chance = episodes.posterior.gather(-1, episodes.targets[..., None])[..., 0]
        if (chance <= 0).any():
            where = (chance <= 0).any(0).nonzero()[:, 0].tolist()
            yield f"an outcome happened that the posterior rules out, at scored position {where[0]} (counted from 0)"
    if hasattr(tunnel, "posterior"):
        some = episodes[:64]
        if not torch.allclose(tunnel.posterior(some.inputs), some.posterior, atol=1e-9):
            yield "posterior(inputs) is not the posterior that the episodes bring"


def _standard_error(value: torch.Tensor, second: torch.Tensor) -> float:
    """Of the mean of cells (B, K): from the episodes' own means, or from the posterior's variance if that is more."""
    seen = float(value.mean(1).std()) / math.sqrt(len(value))
    return max(seen, float(second.sum().sqrt()) / value.numel())


def _averages(tunnel, episodes: Episodes) -> Iterator[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """What is 0 on average under the posterior: in words, the cells (B, K), their second and fourth moments."""
    truth, targets = episodes.posterior, episodes.targets
    if episodes.outcome == "gaussian":
        error, mean, one = (targets - truth[..., 0]) / truth[..., 1].sqrt(), truth[..., 0], torch.ones_like(targets)
        yield "the mean error", error, one, 3 * one
        yield "the squared error less the variance", error.square() - 1, 2 * one, 60 * one
        yield "the error times the mean", error * mean, mean**2, 3 * mean**4
        return
    for what, known in _known_before(tunnel, episodes):
        away = known - (truth * known).sum(-1, keepdim=True)  # (B, K, Y), for each outcome that could happen
        away[away.abs() < TINY] = 0  # what rounding leaves where nothing is open
        value = away.gather(-1, targets[..., None])[..., 0]
        yield what, value, (truth * away**2).sum(-1), (truth * away**4).sum(-1)


def _known_before(tunnel, episodes: Episodes) -> Iterator[tuple[str, torch.Tensor]]:
    """Things known before the outcome, as a number for each outcome: (B, K, Y). Their value at what
    happens less its mean is 0 on average."""
    truth, sizes = episodes.posterior, tunnel.interface
    Y = truth.shape[-1]
    yield "surprise less entropy (bits)", -truth.clamp(min=1e-300).log2() * (truth > 0)
    yield "the probability of what happened less its mean", truth
    for k in range(truth.shape[1]):
        only = torch.zeros_like(truth)
        only[:, k] = truth[:, k]
        yield f"the probability of what happened less its mean, at scored position {k},", only
    outcome = torch.eye(Y, dtype=truth.dtype, device=truth.device)
    for y in range(min(Y, MOST)):
        yield f"how often outcome {y} happens less its probability", outcome[y].expand_as(truth)
    if not 0 < sizes.n_tokens * Y <= MOST:
        return
    tokens, scored = torch.nn.functional.one_hot(episodes.inputs, sizes.n_tokens).double(), list(sizes.scored)
    if sizes.first_output_token is not None:
        first = sizes.first_output_token
        yield "how often the outcome was read before, less its mean,", tokens.cumsum(1)[:, scored, first : first + Y]
    for token in range(sizes.n_tokens):
        now = tokens[:, scored, token, None]
        for y in range(Y):
            yield f"how often outcome {y} follows token {token} less its probability", now * outcome[y]

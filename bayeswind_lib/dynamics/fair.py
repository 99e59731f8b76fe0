"""The fair race: fresh chains at every step, a head that has to look, and EM that is EM (notes A5, A7).

Every episode draws a Markov chain of its own and shows one run of it. Of each symbol a token tells
which one it is and which one came before; the next symbol is asked. So whoever looks at the tokens
whose *symbol before* is one's own symbol finds what followed it in this episode. Nothing can be
learned by heart, for no chain comes twice.

Row k of an episode's chain is drawn from a Dirichlet law of mean softmax(e_k) and total mass a. Hence

    P(next = y | the run) = (n_{ky} + a softmax(e_k)_y) / (n_k + a),    k the symbol at hand,

with n_{ky} the times that y followed k so far. An identity residual, which adds e_k to the logits,
knows the prior exactly, and nothing else; the rest has to come through attention.

Axes: B episodes, T tokens (the first is a blank), S symbols, D = 2 (S + 1) channels of a token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from bayeswind_lib.dynamics import attention, mixture, race
from bayeswind_lib.dynamics.race import Arm
from bayeswind_lib.scoring import NATS, entropy, kl_bits

HEADS = ("attention", "mixture")
MEASURES = ("loss", "kl", "entropy_mae", "match", "match_even")


@dataclass(frozen=True)
class Setting:
    """The tunnel and the head.

    Attributes:
        symbols, length, mass: S, T and a.
        batch: fresh episodes of a step.
        channels, size: of queries, keys and values, and the standard deviation of the first weights.
        tested: held-out episodes.
    """

    symbols: int = 6
    length: int = 24
    mass: float = 1.0
    batch: int = 16
    channels: int = 8
    size: float = 0.3
    tested: int = 128

    @property
    def prior(self) -> torch.Tensor:
        """The mean chain, float64 (S, S): one's own symbol e times as likely as another."""
        return torch.eye(self.symbols, dtype=torch.float64).softmax(-1)


def chains(n: int, setting: Setting, rng: torch.Generator) -> torch.Tensor:
    """Draw n chains: float64 (n, S, S), rows sum to 1."""
    shares = (setting.mass * setting.prior).expand(n, -1, -1).contiguous()
    drawn = torch._standard_gamma(shares, generator=rng).clamp(min=1e-30)
    return drawn / drawn.sum(-1, keepdim=True)


def runs(n: int, setting: Setting, rng: torch.Generator) -> torch.Tensor:
    """Draw n chains and one run of each, from an even start: symbols int64 (n, T)."""
    up_to = chains(n, setting, rng).cumsum(-1)
    found = [torch.randint(setting.symbols, (n,), generator=rng)]
    for _ in range(setting.length - 1):
        here = up_to[torch.arange(n), found[-1]]  # (n, S)
        chance = torch.rand(n, 1, generator=rng, dtype=torch.float64)
        found.append((here < chance).sum(-1).clamp(max=setting.symbols - 1))
    return torch.stack(found, 1)


@dataclass(frozen=True)
class Episodes:
    """Tokens, and what is asked after each.

    Attributes:
        inputs: float32 (B, T, D), the symbol before (or none) and the symbol (a blank at first), one-hot.
        targets: int64 (B, T), the next symbol.
        symbols: int64 (B, T), that of each token; S for the blank.
        beside: float32 (B, T, S), the residual: 1 at one's own symbol.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    symbols: torch.Tensor
    beside: torch.Tensor

    @property
    def match(self) -> torch.Tensor:
        """bool (B, T, T): whether a key that is not later followed the query's own symbol."""
        before = torch.nn.functional.pad(self.symbols[:, :-1], (1, 0), value=-1)
        known = self.symbols < self.beside.shape[-1]
        same = (self.symbols[:, :, None] == before[:, None]) & known[:, :, None]
        return same.tril()


def episodes(symbols: torch.Tensor, setting: Setting) -> Episodes:
    """Tokens of runs, symbols int64 (B, T)."""
    S = setting.symbols
    eye = torch.eye(S + 1)
    shown = torch.nn.functional.pad(symbols[:, :-1], (1, 0), value=S)
    before = torch.nn.functional.pad(shown[:, :-1], (1, 0), value=S)
    here = eye[shown]
    return Episodes(torch.cat([eye[before], here], -1), symbols, shown, here[..., :S])


def exact(found: Episodes, setting: Setting) -> torch.Tensor:
    """P(next | the run so far), in closed form: float64 (B, T, S), rows sum to 1."""
    S = setting.symbols
    followed = torch.nn.functional.one_hot(found.symbols, S + 1)[..., :S].double()
    counts = found.match.double() @ followed  # (B, T, S)
    prior = torch.cat([setting.prior, torch.full((1, S), 1 / S, dtype=torch.float64)])[found.symbols]
    belief = counts + setting.mass * prior
    return belief / belief.sum(-1, keepdim=True)


def first_weights(seed: int, setting: Setting) -> attention.Weights:
    """One head with the maps of `attention`, float32."""
    rng = torch.Generator().manual_seed(seed)
    return attention.draw(
        rng, width=2 * (setting.symbols + 1), n_outcomes=setting.symbols, channels=setting.channels,
        size=setting.size, dtype=torch.float32,
    )


# ---- two heads of the same maps


@dataclass(frozen=True)
class Answer:
    """What a head says.

    Attributes:
        done: the pass through attention's maps.
        forecast: (B, T, S), rows sum to 1.
        pattern: (B, T, T), the attention that keys get; for a mixture the residual gets what is left.
        sources: of a mixture, its parts.
    """

    done: attention.Pass
    forecast: torch.Tensor
    pattern: torch.Tensor
    sources: mixture.Mixture | None = None


def answer(head: str, found: Episodes, weights: attention.Weights) -> Answer:
    """Attention with an identity residual, or the mixture head whose one more source is that residual.

    A mixture averages forecasts: those of all values, and softmax(residual), whose score is 0.

    Raises:
        ValueError: for another head.
    """
    done = attention.forward(found.inputs, weights)
    if head == "attention":
        return Answer(done, (done.logits + found.beside).softmax(-1), done.pattern[:, 0])
    if head != "mixture":
        raise ValueError(f"head is {head!r}: choose {' or '.join(HEADS)}")
    scores = done.scores[:, 0]
    weighed = torch.cat([torch.zeros_like(scores[..., :1]), scores], -1).softmax(-1)
    share, pattern = weighed[..., :1], weighed[..., 1:]
    says = (done.values[:, 0] @ weights.output[0]).softmax(-1)  # (B, T, S)
    itself = share * found.beside.softmax(-1)
    rest = itself.gather(-1, found.targets[..., None])[..., 0]
    return Answer(done, pattern @ says + itself, pattern, mixture.of_forecasts(pattern, says, found.targets, rest))


def loss_gradients(said: Answer, found: Episodes) -> tuple[attention.Gradients, torch.Tensor]:
    """All gradients of the mean cross-entropy, and that at the output map, in closed form."""
    n, done = found.targets.numel(), said.done
    if said.sources is None:
        r = (said.forecast - torch.nn.functional.one_hot(found.targets, said.forecast.shape[-1])) / n
        upstream = attention.upstream_of(r, done.weights.output)
        return attention.gradients(done, upstream), attention.output_gradient(done.context, r)
    at_logits = mixture.logit_gradient(said.sources, found.targets) / n  # (B, T, S)
    values = at_logits @ done.weights.output[0].T
    scores = mixture.score_gradient(said.sources) / n
    return attention.gradients_from(done, scores[:, None], values[:, None]), attention.output_gradient(done.values, at_logits)


@torch.no_grad()
def measure(head: str, weights: attention.Weights, found: Episodes, truth: torch.Tensor) -> dict[str, float]:
    """On held-out episodes: cross-entropy and KL(exact || head) in nats, entropy-MAE in bits, attention in shares.

    "match" is the attention on keys that followed the query's own symbol, where there is one;
    "match_even" what even attention would give them.
    """
    said = answer(head, found, weights)
    q = said.forecast.double().clamp(min=1e-30)
    match = found.match
    asked = match.any(-1)
    even = match.float().sum(-1) / torch.arange(1, match.shape[-1] + 1)
    return {
        "loss": float(-q.gather(-1, found.targets[..., None]).log().mean()),
        "kl": float(kl_bits(truth, q.log2()).mean()) * NATS,
        "entropy_mae": float((entropy(q) - entropy(truth)).abs().mean()),
        "match": float((said.pattern * match).sum(-1)[asked].mean()),
        "match_even": float(even[asked].mean()),
    }


# ---- the M-step


def count(said: Answer, found: Episodes) -> torch.Tensor:
    """Outcomes by the symbol of the token that answers for them, of a mixture: (S + 1, S)."""
    seen = mixture.answered(said.sources, found.targets)
    S = seen.shape[-1]
    return seen.new_zeros(S + 1, S).index_add_(0, found.symbols.flatten(), seen.flatten(0, 1))


def set_counts(weights: attention.Weights, counts: torch.Tensor, pseudo: float = 0.1) -> None:
    """The M-step in closed form: each symbol's values forecast what they answered for; in place.

    Forecasts that depend on a token's symbol only are a special case of W_V W_O, so the head stays the same.
    `pseudo` outcomes of each kind are added, which keeps logarithms finite.
    """
    says = (counts + pseudo).log()
    says = says - says.mean(-1, keepdim=True)
    race.set_answer(weights, torch.cat([torch.zeros_like(says), says]))


def solve_near(said: Answer, found: Episodes, penalty: float, rounds: int = 10, enough: float = 1e-5) -> int:
    """The M-step of attention: the best M = W_V W_O for the attention as it is, by Newton's method; in place.

    Logits are linear in M, so the loss is convex in it; `penalty` |M - M_now|^2 is added, since the
    episodes of one step are few.

    Returns:
        how many rounds it took until the largest change of M was at most `enough`.
    """
    weights = said.done.weights
    start = weights.value[0] @ weights.output[0]  # (D, S)
    x, beside = (said.pattern @ found.inputs).flatten(0, 1), found.beside.flatten(0, 1)
    happened = torch.nn.functional.one_hot(found.targets.flatten(), start.shape[1]).to(x)
    (n, D), S = x.shape, start.shape[1]
    squares = (x[:, :, None] * x[:, None]).flatten(1)  # (n, D D)
    ridge = 2 * penalty * torch.eye(D * S)
    now = start.clone()
    took = 0
    while took < rounds:
        took += 1
        p = (x @ now + beside).softmax(-1)
        slope = x.T @ (p - happened) / n + 2 * penalty * (now - start)
        bend = (torch.diag_embed(p) - p[:, :, None] * p[:, None]).flatten(1)  # (n, S S)
        hessian = (squares.T @ bend / n).view(D, D, S, S).transpose(1, 2).reshape(D * S, D * S) + ridge
        change = torch.linalg.solve(hessian, slope.flatten()).view(D, S)
        now = now - change
        if float(change.abs().max()) <= enough:
            break
    race.set_answer(weights, now)
    return took


@dataclass(frozen=True)
class MStep:
    """How the M-step treats earlier episodes, since every step has fresh ones.

    Attributes:
        memory: of a mixture, by what earlier counts are multiplied at every step.
        penalty, rounds: of attention, what a change of W_V W_O costs, and the most rounds of the solver.
    """

    memory: float = 0.9
    penalty: float = 0.01
    rounds: int = 10


# ---- the race


def _drawn(seed: int, steps: int, setting: Setting) -> torch.Tensor:
    return runs(setting.tested + steps * setting.batch, setting, torch.Generator().manual_seed(seed))


def first_batch(seed: int, steps: int, setting: Setting, tested: bool = False) -> Episodes:
    """The first episodes that `run` of as many steps trains on, or those it is tested on."""
    drawn = _drawn(seed, steps, setting)
    a, b = (0, setting.tested) if tested else (setting.tested, setting.tested + setting.batch)
    return episodes(drawn[a:b], setting)


def even(weights: attention.Weights) -> None:
    """Make attention even: queries of 0, in place."""
    weights.query.zero_()


def floors(found: Episodes, setting: Setting) -> dict[str, float]:
    """KL(exact || forecast) in nats of some who do not learn: the residual alone, and counting what came, not after what.

    The second one mixes the shares of all symbols so far with the prior, in the best proportion of a grid.
    """
    truth = exact(found, setting)
    prior = found.beside.double().softmax(-1)
    shown = found.beside.double().cumsum(1)
    shown = shown / shown.sum(-1, keepdim=True).clamp(min=1)
    mixed = [(1 - w) * prior + w * shown for w in np.linspace(0, 0.95, 20)]

    def kl(q: torch.Tensor) -> float:
        return float(kl_bits(truth, q.log2()).mean()) * NATS

    return {"residual": kl(prior), "counting": min(kl(q) for q in mixed)}


@torch.no_grad()
def run(
    head: str, arm: Arm, seed: int, steps: int = 600, every: int = 10, *,
    setting: Setting | None = None, how: MStep | None = None, begin: Callable | None = None, drawn_for: int | None = None,
) -> race.Curve:
    """Train a head one way; the episodes and the first weights depend on the seed alone, so arms are paired.

    Args:
        begin: a function of the first weights that changes them in place.
        drawn_for: how many steps' episodes are drawn, at once; a run of fewer steps is then the beginning of a longer one.
    Raises:
        ValueError: if `steps` or `every` is below 1, episodes are drawn for fewer steps, or the head is unknown.
    """
    drawn_for = drawn_for or steps
    if drawn_for < steps:
        raise ValueError(f"steps is {steps} and drawn_for {drawn_for}: no more steps than drawn")
    setting, how = setting or Setting(), how or MStep()
    drawn = _drawn(seed, drawn_for, setting)
    tested = episodes(drawn[: setting.tested], setting)
    truth = exact(tested, setting)
    weights = first_weights(seed, setting)
    if begin is not None:
        begin(weights)
    counts = torch.zeros(setting.symbols + 1, setting.symbols)

    def look(t: int) -> tuple[Answer, Episodes]:
        a = setting.tested + t * setting.batch
        found = episodes(drawn[a : a + setting.batch], setting)
        return answer(head, found, weights), found

    def best(seen: tuple[Answer, Episodes]) -> tuple[Answer, Episodes]:
        said, found = seen
        if head == "mixture":
            counts.copy_(how.memory * counts + count(said, found))
            set_counts(weights, counts)
        else:
            solve_near(said, found, how.penalty, how.rounds)
        return answer(head, found, weights), found

    points, kept = race.descend(
        weights, arm, steps, every, lambda: measure(head, weights, tested, truth), look, best, lambda seen: loss_gradients(*seen),
    )
    return race.Curve(arm, seed, points, kept, weights, head=head)

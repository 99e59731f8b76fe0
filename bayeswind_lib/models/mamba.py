"""Mamba, a selective state space network, to be read in one sitting.

Every channel keeps N numbers, its state. At each token the state decays and takes in the token,
and how much of both is decided by the token itself: that is the selection. There are no position
codes: a recurrence knows the order of its inputs. Gu and Dao 2023 (arXiv 2312.00752), Algorithm 2
and section 3.4.

Axes: B episodes, T tokens, D channels of the stream (`width`), E channels of a mixer
      (`expand` x D), N numbers of state a channel, R channels that time steps are made from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from bayeswind_lib.models.base import Config, RMSNorm, SequenceModel, convolve, draw_linear

SCANS = ("auto", "sequential", "parallel")
NUMBERS_AT_ONCE = 500_000  # a CPU scans as many episodes together as fit into its cache


@dataclass(frozen=True, kw_only=True)
class MambaConfig(Config):
    """All that fixes the shape of a `Mamba`; JSON types only.

    Attributes:
        n_layers: depth.
        n_states: N, numbers of state in every channel of a mixer.
        expand: E / D.
        conv: the number of tokens that the convolution of a mixer sees.
        dt_rank: R; None: D / 16, rounded up.
    """

    n_layers: int = 2
    n_states: int = 16
    expand: int = 2
    conv: int = 4
    dt_rank: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.dt_rank is None:
            object.__setattr__(self, "dt_rank", math.ceil(self.width / 16))
        for name in ("width", "n_layers", "n_states", "expand", "conv", "dt_rank"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it has to be at least 1")

    @property
    def channels(self) -> int:
        """E, the channels inside a mixer."""
        return self.expand * self.width

    @property
    def n_parameters(self) -> int:
        """The parameter count by formula: inputs + L (D + mixer) + D + head.

        A mixer has 3 D E (in and out) + E (conv + 1) + E (R + 2 N) + E (R + 1) + E N + E.
        """
        D, E, N, R = self.width, self.channels, self.n_states, self.dt_rank
        inputs = self.n_tokens * D or (self.n_features + 1) * D
        head = (D + 1) * self.n_outputs if self.first_output_token is None else 0
        mixer = 3 * D * E + E * (self.conv + 1) + E * (R + 2 * N) + E * (R + 1) + E * N + E
        return inputs + self.n_layers * (D + mixer) + D + head


# The scan. Time is the first axis, (T, B, N, E), so that one step is one stretch of memory.


def selective_scan_sequential(x, dt, A, B, C):
    """The recurrence as it is defined, one token after the other; slow, to be read.

    Args:
        x: (B, T, E), what the channels take in; dt: (B, T, E), positive time steps.
        A: (E, N), negative: the rates of decay.
        B, C: (B, T, N), how the state is written and read.
    Returns:
        y (B, T, E) and the states h (B, T, E, N). Gu and Dao 2023, Eq. 2 with Eq. 4 for the decay
        and, as in their code, dt B for the intake.
    """
    h, states = torch.zeros_like(x[:, 0, :, None] * A), []  # (B, E, N)
    for t in range(x.shape[1]):
        decay = torch.exp(dt[:, t, :, None] * A)  # (B, E, N)
        intake = (dt[:, t] * x[:, t]).unsqueeze(-1) * B[:, t, None, :]  # (B, E, N)
        h = decay * h + intake
        states.append(h)
    states = torch.stack(states, dim=1)  # (B, T, E, N)
    return (states * C.unsqueeze(-2)).sum(-1), states


def scan_sequential(links, h, reverse: bool = False):
    """h_t = links_t-1 h_t-1 + h_t for all t in turn, in place; from the end if `reverse`.

    Args:
        links: (T - 1, ...), what of a step's state reaches the next; h: (T, ...).
    """
    links, steps = links.unbind(0), h.unbind(0)
    if reverse:
        links, steps = links[::-1], steps[::-1]
    for link, before, after in zip(links, steps, steps[1:], strict=False):
        after.addcmul_(link, before)
    return h


def scan_parallel(links, h, reverse: bool = False):
    """`scan_sequential` in 2 log2 T rounds instead of T: every second state first, by recursion.

    Two steps in a row are one step of the same kind, so the odd states obey a recurrence of half
    the length; from them the even states follow at once (Ladner and Fischer 1980; Blelloch 1990).
    """
    if reverse:
        return scan_parallel(links.flip(0), h.flip(0)).flip(0)
    P = len(h) // 2  # pairs of steps
    if P > 0:
        two = torch.addcmul(h[1::2], links[::2], h[: 2 * P : 2])  # (P, ...)
        odd = scan_parallel(links[1 : 2 * P - 2 : 2] * links[2 : 2 * P - 1 : 2], two)  # (P, ...)
        h[1::2] = odd
        h[2::2].addcmul_(links[1::2], odd[: len(links[1::2])])
    return h


def decay_and_states(x, dt, A, B, scan):
    """exp(dt A) and all states: (T, B, E), (T, B, E), (N, E), (T, B, N) -> two (T, B, N, E)."""
    decay = (dt.unsqueeze(2) * A).exp_()  # (T, B, N, E)
    return decay, scan(decay[1:], (dt * x).unsqueeze(2) * B.unsqueeze(3))


def episodes(part, some: slice):
    """Some episodes of (T, B, ...); A has no such axis and is given whole."""
    return part if part.ndim == 2 else part[:, some]


class FusedScan(torch.autograd.Function):
    """y from x, dt, A, B and C, axes as in `decay_and_states`, without keeping a state.

    The large tensors (T, B, N, E) live for a few episodes at a time. The backward pass makes them
    anew (a fifth slower than to remember them, for memory that does not grow with N) and runs the
    same scan from the end: with g_t = dL/dh_t it is g_t = C_t dL/dy_t + decay_t+1 g_t+1.
    """

    @staticmethod
    def forward(ctx, x, dt, A, B, C, parallel: bool):
        ctx.save_for_backward(x, dt, A, B, C)
        ctx.scan = scan_parallel if parallel else scan_sequential
        T, count = x.shape[:2]
        at_once = count if parallel else max(1, NUMBERS_AT_ONCE // (T * A.numel()))
        ctx.slices = [slice(start, start + at_once) for start in range(0, count, at_once)]
        y = torch.empty_like(x)
        for some in ctx.slices:
            _, h = decay_and_states(*(episodes(part, some) for part in (x, dt, A, B)), ctx.scan)
            y[:, some] = (C[:, some, None] @ h).squeeze(2)  # (T, B, 1, N) @ (T, B, N, E)
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        given = ctx.saved_tensors
        totals = [torch.zeros_like(part) for part in given]
        for some in ctx.slices:
            parts = [episodes(part, some) for part in given]
            with torch.autocast(dy.device.type, enabled=False):
                gradients = scan_gradients(dy[:, some], *parts, ctx.scan)
            for total, gradient in zip(totals, gradients, strict=True):
                episodes(total, some).add_(gradient)
        return *totals, None


def scan_gradients(dy, x, dt, A, B, C, scan):
    """Gradients of x, dt, A, B, C from those of y; time first, axes as in `decay_and_states`."""
    decay, h = decay_and_states(x, dt, A, B, scan)
    dy = dy.unsqueeze(2)  # (T, B, 1, E)
    dC = (h * dy).sum(3)  # (T, B, N)
    g = scan(decay[1:], dy * C.unsqueeze(3), reverse=True)  # (T, B, N, E), gradient of h
    dB = (g * (dt * x).unsqueeze(2)).sum(3)  # (T, B, N)
    taken = (B.unsqueeze(2) @ g).squeeze(2)  # (T, B, E), gradient of dt x
    exponent = decay[1:].mul_(g[1:]).mul_(h[:-1])  # (T - 1, B, N, E), gradient of dt A
    ddt = taken * x  # (T, B, E)
    ddt[1:] += (exponent * A).sum(2)
    dA = exponent.mul_(dt[1:].unsqueeze(2)).sum((0, 1))  # (N, E)
    return taken * dt, ddt, dA, dB, dC


def selective_scan(x, dt, A, B, C, scan: str = "auto"):
    """The y of `selective_scan_sequential`, fast in both directions; same arguments.

    Args:
        scan: "sequential" goes through the tokens in turn, "parallel" takes 2 log2 T rounds;
            "auto" is the first on a CPU and the second elsewhere. All return the same y, up to
            rounding.
    Raises:
        ValueError: if `scan` is none of these.
    """
    if scan not in SCANS:
        raise ValueError(f"scan is {scan!r}: choose one of {', '.join(SCANS)}")
    parallel = scan == "parallel" or (scan == "auto" and x.device.type != "cpu")
    x, dt, B, C = (part.transpose(0, 1).contiguous() for part in (x, dt, B, C))
    return FusedScan.apply(x, dt, A.T.contiguous(), B, C, parallel).transpose(0, 1)


class Scan(nn.Module):
    """`selective_scan` as a module: a hook on it reads (or changes) what goes in and out.

    It works in float32 also under autocast: errors of a decay add up over the tokens.
    """

    def __init__(self, how: str = "auto"):
        super().__init__()
        self.how = how

    def forward(self, x, dt, A, B, C):  # axes as in `selective_scan_sequential`
        precise = torch.promote_types(x.dtype, torch.float32)  # for all (B, T, E)
        with torch.autocast(x.device.type, enabled=False):
            parts = (part.to(precise) for part in (x, dt, A, B, C))  # (B, T, E) and (B, T, N), A (E, N)
            return selective_scan(*parts, self.how)  # (B, T, E)


class Mixer(nn.Module):
    """Mixes tokens: a short causal convolution, then the selective scan, then a gate."""

    def __init__(self, config: MambaConfig):
        super().__init__()
        D, E, N, R = config.width, config.channels, config.n_states, config.dt_rank
        self.sizes = (R, N, N)
        self.in_proj = nn.Linear(D, 2 * E, bias=False)
        self.conv = nn.Conv1d(E, E, config.conv, groups=E)
        self.x_proj = nn.Linear(E, sum(self.sizes), bias=False)
        self.dt_proj = nn.Linear(R, E)
        self.A_log = nn.Parameter(torch.zeros(E, N))  # weight decay would pull every rate to 1
        self.D = nn.Parameter(torch.ones(E))
        self.scan = Scan()
        self.out_proj = nn.Linear(E, D, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        x, gate = self.in_proj(x).chunk(2, dim=-1)  # (B, T, E) each
        x = F.silu(convolve(x, self.conv))  # (B, T, E)
        dt, B, C = self.x_proj(x).split(self.sizes, dim=-1)  # (B, T, R), (B, T, N), (B, T, N)
        dt = F.softplus(self.dt_proj(dt))  # (B, T, E)
        y = self.scan(x, dt, -torch.exp(self.A_log), B, C) + self.D * x  # (B, T, E)
        return self.out_proj(y * F.silu(gate))  # (B, T, D)


class Block(nn.Module):
    """One layer: the mixer reads a normed copy and adds to the residual stream."""

    def __init__(self, config: MambaConfig):
        super().__init__()
        self.norm, self.mixer = RMSNorm(config.width), Mixer(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, D) -> (B, T, D)
        return x + self.mixer(self.norm(x))


class Mamba(SequenceModel):
    """A stack of selective state space layers (Mamba-1), without position codes."""

    architecture = "mamba"
    Config = MambaConfig

    def __init__(self, config: MambaConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = RMSNorm(config.width)

    @torch.no_grad()
    def initialise(self, rng: torch.Generator) -> Mamba:
        """Draw all weights from `rng`; decays and time steps as Gu and Dao 2023, section 3.6.

        Embeddings are N(0, 0.02^2); the maps into the residual stream are divided by sqrt(L), so
        that the stream's size does not grow with depth.
        """
        for name, parameter in self.named_parameters():
            owner = self.get_submodule(name.rpartition(".")[0])
            if name.endswith("gain"):
                nn.init.ones_(parameter)
            elif isinstance(owner, nn.Embedding):
                nn.init.normal_(parameter, std=0.02, generator=rng)
            elif isinstance(owner, nn.Linear | nn.Conv1d):
                draw_linear(parameter, rng, owner.weight[0].numel())
        for block in self.blocks:
            mixer = block.mixer
            mixer.out_proj.weight /= math.sqrt(self.config.n_layers)
            mixer.A_log.copy_(torch.arange(1.0, self.config.n_states + 1).log())
            nn.init.ones_(mixer.D)
            nn.init.uniform_(mixer.dt_proj.bias, math.log(1e-3), math.log(1e-1), generator=rng)
            steps = mixer.dt_proj.bias.exp()
            mixer.dt_proj.bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # softplus inverted
        return self

    def trunk(self, x: torch.Tensor, rng: torch.Generator | None = None) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)  # (B, T, D)
        return self.norm(x)

    @torch.no_grad()
    def states(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        """The states of every layer after each token, from what its scan is given in one pass.

        Returns:
            one float32 (B, T, E, N) a layer.
        """
        given: list[tuple] = []
        hooks = [
            block.mixer.scan.register_forward_hook(lambda *call: given.append(call[1]))
            for block in self.blocks
        ]
        try:
            self(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return [selective_scan_sequential(*(part.float() for part in g))[1] for g in given]

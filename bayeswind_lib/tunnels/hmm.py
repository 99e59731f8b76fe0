"""The HMM tunnel: a hidden state moves, symbols are seen, and the belief about the state is asked.

Nature draws a transition matrix T and an emission matrix E for every episode and shows both in a
*header*. Then a chain of hidden states emits one symbol a step, and the model has to say at every
symbol how probable each state is now, given all symbols so far: it has to carry a belief along.

Axes: B episodes, K scored positions (steps), T tokens, F features, S states, V symbols.
Source: Paper I (arXiv 2512.22471); the generator "grid" and the layout "tokens" are those of its
published code.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from bayeswind_lib.tunnels.base import Episodes, Interface

GENERATORS = ("grid", "raw")
HEADERS = ("rows", "tokens", "none")
PREDICTS = ("states", "next_symbol")

MIN_CENTS = 5  # no probability on the grid is below 0.05
# Raw probabilities are multiples of 2^-24, which float32 holds: the header loses nothing.
RAW_UNITS = 2**24
# The published vocabulary: probabilities 0.05, 0.06, ..., 1.00 are tokens 0..95.
TRANS, EMIT, SEP, OBS, FIRST_SYMBOL = 96, 97, 98, 99, 100
# Episodes worked on at a time on a CPU, so that they stay in its cache.
CHUNK = 2048


def chunks(batch: int, device: torch.device) -> Iterator[slice]:
    """Slices that cover 0..batch-1: short ones on a CPU, a single one elsewhere."""
    size = CHUNK if device.type == "cpu" else batch
    for start in range(0, batch, size):
        yield slice(start, min(start + size, batch))


def on_grid(weights: torch.Tensor) -> torch.Tensor:
    """Distributions in whole cents, none below 0.05, made from weights as Paper I's code does.

    Normalise, raise to at least 0.05, normalise, round to cents, raise to at least 5 cents. Then
    the sum is repaired cent by cent: what is missing goes to the smallest entries in turn, what is
    too much comes from the largest in turn (never below 5 cents).

    Args:
        weights: float (C, ...), positive; axis 0 runs over the outcomes of a distribution.
    Returns:
        (C, ...) of the same type, whole numbers that sum to 100 over axis 0.
    """
    share = weights / weights.sum(0)
    share = share.clamp_(min=MIN_CENTS / 100)
    cents = (share * (100 / share.sum(0))).round_().clamp_(min=MIN_CENTS)
    missing = 100 - cents.sum(0)
    wrong = missing.nonzero(as_tuple=True)  # the distributions to repair
    cents[:, *wrong] = _repaired(cents[:, *wrong], missing[wrong])
    return cents


def _repaired(cents: torch.Tensor, missing: torch.Tensor) -> torch.Tensor:
    """Distributions (C, R) of whole cents with `missing` (R,) cents added, or taken if negative."""
    n = len(cents)
    sign = missing.sign()
    # The order of the entries, smallest first if cents are missing, largest first otherwise.
    rank = -sign * (cents * n + torch.arange(n, device=cents.device, dtype=cents.dtype)[:, None])
    while bool(missing.any()):
        turn = torch.where(cents + sign >= MIN_CENTS, rank, -torch.inf)
        step = missing.sign()  # 0 where the sum is right by now
        chosen = turn == turn.amax(0)
        cents = cents + chosen * step
        rank = rank - chosen * (200.0 * n)  # whoever had a turn comes last
        missing = missing - step
    return cents


def on_lattice(weights: torch.Tensor) -> torch.Tensor:
    """Distributions in whole multiples of 2^-24, none zero, proportional to weights (C, ...).

    The rounding changes a probability by less than 2e-7; in return float32 holds it exactly.

    Returns:
        float64 (C, ...), whole numbers that sum to 2^24 over axis 0.
    """
    units = (weights.double() * (RAW_UNITS / weights.double().sum(0))).round_().clamp_(min=1)
    largest = units.argmax(0, keepdim=True)
    return units.scatter_add_(0, largest, RAW_UNITS - units.sum(0, keepdim=True))


def transport(belief: torch.Tensor, transition: torch.Tensor) -> torch.Tensor:
    """The belief one step later, before a symbol is seen: sum_i belief[i] T[i, j].

    Args:
        belief: float64 (B, ..., S). transition: float64 (B, S, S), T[i, j] = P(j | i).
    Returns:
        float64, the shape of `belief`.
    """
    return (belief.flatten(1, -2) @ transition).view(belief.shape)


def forward_filter(
    transition: torch.Tensor,
    emission: torch.Tensor,
    observations: torch.Tensor,
    transition_first: bool = False,
    start: torch.Tensor | None = None,
) -> torch.Tensor:
    """Exact belief about the hidden state at every step, given the symbols so far.

    alpha_t(j) is proportional to E[j, o_t] * sum_i T[i, j] alpha_{t-1}(i), normalised at each
    step. Without `transition_first` the first symbol is emitted by the start state itself, so
    that alpha_1(j) is proportional to start(j) E[j, o_1]. (Paper I, Eq. 6.)

    Args:
        transition: float64 (B, S, S), T[i, j] = P(j | i). emission: float64 (B, S, V).
        observations: int64 (B, K), symbols 0..V-1.
        transition_first: whether the chain moves once before the first symbol.
        start: float64 (B, S), the belief before anything is seen; None means uniform.
    Returns:
        float64 (B, K, S), rows sum to 1.
    Raises:
        ValueError: if an observation is impossible under the matrices.

    >>> half = torch.full((1, 2, 2), 0.5, dtype=torch.float64)
    >>> sharp = torch.tensor([[[0.75, 0.25], [0.25, 0.75]]], dtype=torch.float64)
    >>> forward_filter(half, sharp, torch.tensor([[0, 1]]))[0].tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    (batch, length), S = observations.shape, transition.shape[-1]
    result = transition.new_empty(batch, length, S)
    for some in chunks(batch, transition.device):
        first = None if start is None else start[some]
        _filter(
            transition[some], emission[some], observations[some], transition_first, first,
            out=result[some],
        )
    if not bool(result.isfinite().all()):
        raise ValueError("an observation has probability 0 under these matrices: no belief exists")
    return result


def _filter(transition, emission, observations, transition_first, start, out) -> None:
    """`forward_filter` of a chunk, written to `out`; episodes are the last axis inside."""
    batch, S, V = emission.shape
    length = observations.shape[1]
    by_source = transition.permute(1, 2, 0).contiguous()  # (i, j, B)
    by_symbol = emission.permute(2, 1, 0).contiguous()  # (V, S, B)
    likelihood = by_symbol.gather(0, observations.T[:, None, :].expand(length, S, batch))
    belief = by_source.new_full((S, batch), 1 / S) if start is None else start.T
    for t in range(length):
        if t > 0 or transition_first:
            arriving = by_source[0] * belief[0]
            for i in range(1, S):
                arriving.addcmul_(by_source[i], belief[i])
            belief = arriving
        belief = likelihood[t].mul_(belief)
        belief.div_(belief.sum(0))
    out.copy_(likelihood.permute(2, 0, 1))  # it holds the beliefs now


class HMM:
    """A wind tunnel whose truth is the forward algorithm: a belief carried along a hidden chain.

    Args:
        n_states: S >= 2. n_symbols: V >= 2.
        length: K >= 1, how many symbols are shown and scored.
        generator: "grid" draws every row of T and E from a flat Dirichlet and puts it on a grid
            of whole cents, none below 0.05 (`on_grid`); "raw" leaves it as drawn (to 2^-24).
        header: "rows" shows T and E as 2S vectors, one row each; "tokens" is the published
            layout of 3 + S*S + S*V tokens ("grid" only); "none" shows symbols alone ("fixed" only).
        transition_first: whether the chain moves once before the first symbol.
        sticky: kappa >= 0, added to the Dirichlet parameter of staying in the same state (Fox
            et al., 2008). The grid caps the probability of staying at 1 - 0.05 (S - 1), 0.80 at
            S = 5: slow mixing needs the raw generator.
        fixed: None draws new matrices for every episode; a seed draws one pair from it, the same
            for all episodes.
        predicts: "states", the hidden state now; or "next_symbol", the symbol to come.
    Raises:
        ValueError: if the setting is impossible.
    """

    name = "hmm"
    presets = {
        "smoke": {"n_states": 2, "n_symbols": 2, "length": 4},
        "classroom": {"n_states": 3, "n_symbols": 3, "length": 20},
        "paper": {"n_states": 5, "n_symbols": 5, "length": 20},
    }
    supervision = "posterior"  # as the published networks
    variants = {
        "sticky": {"generator": "raw", "sticky": 50},
        "fixed": {"header": "none", "fixed": 0},
        "raw": {"generator": "raw"},
        "next": {"predicts": "next_symbol"},
        "tokens": {"header": "tokens"},
    }

    def __init__(
        self,
        n_states: int = 5,
        n_symbols: int = 5,
        length: int = 20,
        generator: str = "grid",
        header: str = "rows",
        transition_first: bool = False,
        sticky: float = 0.0,
        fixed: int | None = None,
        predicts: str = "states",
    ):
        self.n_states, self.n_symbols, self.length = n_states, n_symbols, length
        self.generator, self.header, self.predicts = generator, header, predicts
        self.transition_first, self.sticky, self.fixed = transition_first, sticky, fixed
        self._check()
        self._matrices = None if fixed is None else self._draw_fixed(fixed)

    def _check(self) -> None:
        if self.n_states < 2:
            raise ValueError(f"n_states is {self.n_states}: a hidden state needs at least 2 values")
        if self.n_symbols < 2:
            raise ValueError(f"n_symbols is {self.n_symbols}: at least 2 symbols are needed")
        if self.length < 1:
            raise ValueError(f"length is {self.length}: at least 1 symbol has to be shown")
        for word, allowed in (
            ("generator", GENERATORS), ("header", HEADERS), ("predicts", PREDICTS),
        ):
            if getattr(self, word) not in allowed:
                raise ValueError(
                    f"{word} is {getattr(self, word)!r}: choose one of {', '.join(allowed)}"
                )
        if self.generator == "grid" and max(self.n_states, self.n_symbols) > 100 // MIN_CENTS:
            raise ValueError(
                f"n_states is {self.n_states} and n_symbols is {self.n_symbols}: 0.05 each is more "
                f"than 1 beyond {100 // MIN_CENTS}, so choose generator='raw'"
            )
        if self.header == "tokens" and self.generator != "grid":
            raise ValueError(
                "header='tokens' has a token for each whole cent only: "
                "choose generator='grid', or header='rows'"
            )
        if self.header == "none" and self.fixed is None:
            raise ValueError(
                "header='none' hides the matrices, so they must not change between episodes: "
                "set fixed to a seed"
            )
        if not self.sticky >= 0:
            raise ValueError(f"sticky is {self.sticky}: it is added to a Dirichlet's 1, so >= 0")

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.config.items())
        return f"HMM({settings})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        return {
            "n_states": self.n_states,
            "n_symbols": self.n_symbols,
            "length": self.length,
            "generator": self.generator,
            "header": self.header,
            "transition_first": self.transition_first,
            "sticky": self.sticky,
            "fixed": self.fixed,
            "predicts": self.predicts,
        }

    @property
    def header_length(self) -> int:
        """Input positions before the first symbol (or its marker)."""
        S, V = self.n_states, self.n_symbols
        return {"rows": 2 * S, "tokens": 3 + S * S + S * V, "none": 0}[self.header]

    @property
    def interface(self) -> Interface:
        """The sizes from which a network is built."""
        S, V, K, head = self.n_states, self.n_symbols, self.length, self.header_length
        step = 2 if self.header == "tokens" else 1  # tokens: a marker before every symbol
        return Interface(
            n_tokens=FIRST_SYMBOL + V if self.header == "tokens" else 0,
            n_features={"rows": 2 * (S + V), "tokens": 0, "none": V}[self.header],
            n_positions=head + step * K,
            scored=tuple(range(head + step - 1, head + step * K, step)),
            n_outputs=S if self.predicts == "states" else V,
            first_output_token=None,
        )

    def sample(
        self, batch: int, rng: torch.Generator, device: torch.device | str | None = None
    ) -> Episodes:
        """Draw independent episodes with their exact posterior.

        Args:
            batch: B >= 1.
            rng: the only source of randomness.
            device: where the episodes shall lie; the generator's own device by default.
        Returns:
            Episodes with inputs float32 (B, T, F) or int64 (B, T), int64 targets (B, K), float64
            posterior (B, K, Y), and latents: transition float64 (B, S, S), emission float64
            (B, S, V), states and observations int64 (B, K), and, if they are what is predicted,
            next_symbols int64 (B, K).
        """
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        device = rng.device if device is None else torch.device(device)
        length = self.length + (self.predicts == "next_symbol")
        if self._matrices is None:
            transition, emission = (m.to(device) for m in self._draw_matrices(batch, rng))
        else:
            transition, emission = (
                m.to(device).expand(batch, -1, -1) for m in self._matrices
            )
        moves = length - 1 + self.transition_first
        draws = torch.rand(1 + moves + length, batch, generator=rng, device=rng.device).to(device)
        paths = [
            self._walk(transition[some], emission[some], draws[: 1 + moves, some], draws[1 + moves :, some])
            for some in chunks(batch, device)
        ]
        states, symbols = (torch.cat(part) for part in zip(*paths, strict=True))
        return self.episodes(transition, emission, states, symbols)

    def _draw_fixed(self, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        rng = torch.Generator().manual_seed(seed)
        return self._draw_matrices(1, rng)

    def _draw_matrices(self, batch: int, rng: torch.Generator):
        """T (B, S, S) and E (B, S, V), float64, from the prior, on the device of `rng`.

        Logarithms in float64: their last bit differs between processors, and in float32 it would
        move a cent in one episode of some thousand.
        """
        S, V, device = self.n_states, self.n_symbols, rng.device
        # float32 numbers have 24 random bits here, as fine as what is made of them.
        draws = torch.rand(S * (S + V), batch, generator=rng, device=device)
        stay = None
        if self.sticky:
            # torch's own gamma sampler: torch.distributions offers none that takes a generator.
            shape = torch.full((S, batch), 1.0 + self.sticky, dtype=torch.float64, device=device)
            stay = torch._standard_gamma(shape, generator=rng)
        transition = torch.empty(batch, S, S, dtype=torch.float64, device=device)
        emission = torch.empty(batch, S, V, dtype=torch.float64, device=device)
        for some in chunks(batch, device):
            weights = (1 - draws[:, some].double()).log_().neg_()  # exponential, so rows are Dirichlet(1)
            moves = weights[: S * S].view(S, S, -1)  # (to, from, b)
            if stay is not None:
                moves.diagonal().copy_(stay[:, some].T)
            transition[some] = self._distributions(moves).permute(2, 1, 0)
            emission[some] = self._distributions(weights[S * S :].view(V, S, -1)).permute(2, 1, 0)
        return transition, emission

    def _distributions(self, weights: torch.Tensor) -> torch.Tensor:
        if self.generator == "grid":
            return on_grid(weights).div_(100)
        return on_lattice(weights).div_(RAW_UNITS)

    def _walk(self, transition, emission, for_states, for_symbols):
        """States and symbols, int64 (b, length) each, from uniform numbers, (1 + moves, b) and
        (length, b): an even start, the moves, then a symbol for each of the last `length` states.
        """
        to = _thresholds(transition)
        states = torch.empty(for_states.shape, dtype=torch.int64, device=for_states.device)
        states[0] = (for_states[0] * self.n_states).long().clamp_(max=self.n_states - 1)
        for t in range(1, len(states)):
            states[t] = _outcomes(to, states[t - 1 : t], for_states[t : t + 1])[0]
        states = states[-len(for_symbols) :]
        return states.T, _outcomes(_thresholds(emission), states, for_symbols).T

    def episodes(
        self,
        transition: torch.Tensor,
        emission: torch.Tensor,
        states: torch.Tensor,
        observations: torch.Tensor,
    ) -> Episodes:
        """Episodes from chosen latents.

        Args:
            transition: float64 (B, S, S), T[i, j] = P(j | i). emission: float64 (B, S, V).
            states, observations: int64 (B, K); with predicts="next_symbol" (B, K + 1), and the
                last symbol is not shown.
        Raises:
            ValueError: if shapes do not fit, the header cannot spell the matrices, or a symbol is
                impossible.
        """
        self._check_latents(transition, emission, states, observations)
        latents = {"transition": transition, "emission": emission}
        if self.predicts == "next_symbol":
            latents["next_symbols"] = observations[:, 1:].contiguous()
            states, observations = states[:, :-1].contiguous(), observations[:, :-1].contiguous()
        latents |= {"states": states, "observations": observations}
        inputs = self.write(transition, emission, observations)
        truth = self._truth(transition, emission, observations)
        targets = latents["states" if self.predicts == "states" else "next_symbols"]
        return Episodes(inputs, targets, truth, latents)

    def _check_latents(self, transition, emission, states, observations) -> None:
        S, V, batch = self.n_states, self.n_symbols, len(observations)
        for name, matrix, shape in (
            ("transition", transition, (batch, S, S)), ("emission", emission, (batch, S, V)),
        ):
            if matrix.shape != shape or matrix.dtype != torch.float64:
                raise ValueError(
                    f"{name} has shape {tuple(matrix.shape)} and dtype {matrix.dtype}: "
                    f"expected {shape}, torch.float64"
                )
        least = 1 + (self.predicts == "next_symbol")
        if states.shape != observations.shape or observations.shape[1:].numel() < least:
            raise ValueError(
                f"states have shape {tuple(states.shape)} and observations "
                f"{tuple(observations.shape)}: expected the same (B, K) with K at least {least}"
            )

    def _truth(self, transition, emission, observations) -> torch.Tensor:
        """The exact answer, float64 (B, K, Y)."""
        belief = forward_filter(transition, emission, observations, self.transition_first)
        return belief if self.predicts == "states" else belief @ (transition @ emission)

    def write(
        self, transition: torch.Tensor, emission: torch.Tensor, observations: torch.Tensor
    ) -> torch.Tensor:
        """What a model reads: the header of these matrices, then the symbols (B, K).

        Rows: float32 (B, 2S + K, 2 (S + V)), each vector [row of T | row of E | one-hot of the
        state whose row it is | one-hot symbol], zero where it has nothing to say. Tokens: int64
        (B, 3 + S*S + S*V + 2K). None: float32 (B, K, V), one-hot symbols.
        """
        if self.header == "tokens":
            return self._write_tokens(transition, emission, observations)
        S, V, head = self.n_states, self.n_symbols, self.header_length
        width, first = self.interface.n_features, self.interface.n_features - V
        batch, length = observations.shape
        inputs = torch.zeros(batch, head + length, width, device=observations.device)
        if self.header == "rows":
            inputs[:, :S, :S] = transition
            inputs[:, S:head, S : S + V] = emission
            state = torch.eye(S, device=inputs.device)
            inputs[:, :S, S + V : first] = state
            inputs[:, S:head, S + V : first] = state
        inputs[:, head:, first:].scatter_(2, observations[..., None], 1.0)
        return inputs

    def _write_tokens(self, transition, emission, observations) -> torch.Tensor:
        cents = [100 * matrix.flatten(1) for matrix in (transition, emission)]
        whole = [c.round().long() for c in cents]
        off = max(float((c - w).abs().max()) for c, w in zip(cents, whole, strict=True))
        if off > 1e-6 or min(int(w.min()) for w in whole) < MIN_CENTS:
            raise ValueError(
                "the tokens spell whole cents from 0.05 to 1.00 only, and these matrices have "
                "other entries: put them on the grid (on_grid), or choose header='rows'"
            )
        batch, length = observations.shape
        mark = observations.new_ones(batch, 1)
        seen = torch.stack([OBS * torch.ones_like(observations), FIRST_SYMBOL + observations], -1)
        moves, shows = (w - MIN_CENTS for w in whole)
        return torch.cat(
            [TRANS * mark, moves, EMIT * mark, shows, SEP * mark, seen.flatten(1)], dim=1
        )

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The matrices and symbols that inputs spell; any number of symbols, not `length` alone.

        A row of whole cents, and a row that the raw generator drew, is recovered to the last bit
        of float64. Any other row of a "rows" header has lost what float32 cannot hold and is
        normalised: an answer from it is off by less than 1e-6 bits.

        Returns:
            transition float64 (B, S, S), emission float64 (B, S, V), symbols int64 (B, k).
        Raises:
            ValueError: if the inputs are not laid out as `write` does.
        """
        if self.header == "tokens":
            return self._read_tokens(inputs)
        S, V, head = self.n_states, self.n_symbols, self.header_length
        width = self.interface.n_features
        if not inputs.is_floating_point():
            raise ValueError(f"inputs have dtype {inputs.dtype}: expected vectors, torch.float32")
        if inputs.ndim != 3 or inputs.shape[2] != width or inputs.shape[1] <= head:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: expected (B, T, {width}) with "
                f"T = {head} + the number of symbols, at least 1"
            )
        observations = inputs[:, head:, width - V :].argmax(-1)
        if self.header == "rows":
            transition = _distributions_read(inputs[:, :S, :S], "transition")
            emission = _distributions_read(inputs[:, S:head, S : S + V], "emission")
        else:
            transition, emission = (
                m.to(inputs.device).expand(len(inputs), -1, -1) for m in self._matrices
            )
        expected = self.write(transition, emission, observations)
        if not torch.allclose(expected, inputs.float(), rtol=0, atol=1e-5):
            raise ValueError(
                "inputs are not laid out as HMM.write does: every symbol must be a one-hot vector"
                + (", every header row must carry the one-hot of its state" if head else "")
                + ", and the rest must be zero"
            )
        return transition, emission, observations

    def _read_tokens(self, inputs: torch.Tensor):
        S, V, head = self.n_states, self.n_symbols, self.header_length
        if inputs.dtype != torch.int64:
            raise ValueError(f"inputs have dtype {inputs.dtype}: expected tokens, torch.int64")
        length = inputs.shape[-1] - head
        if inputs.ndim != 2 or length < 2 or length % 2:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: expected (B, {head} + 2k), "
                f"{head} tokens of header, then k >= 1 times a marker and a symbol"
            )
        marks = inputs[:, [0, 1 + S * S, head - 1, *range(head, head + length, 2)]]
        expected = torch.tensor([TRANS, EMIT, SEP] + [OBS] * (length // 2), device=inputs.device)
        if not bool((marks == expected).all()):
            raise ValueError(
                f"the markers are not in their places: {TRANS} first, {EMIT} at {1 + S * S}, "
                f"{SEP} at {head - 1}, then {OBS} before every symbol"
            )
        moves = inputs[:, 1 : 1 + S * S].view(-1, S, S) + MIN_CENTS
        shows = inputs[:, 2 + S * S : head - 1].view(-1, S, V) + MIN_CENTS
        for cents, what in ((moves, "transition"), (shows, "emission")):
            if int(cents.min()) < MIN_CENTS or int(cents.max()) > 100:
                raise ValueError(f"a {what} token is no probability: those are 0..95")
            if not bool((cents.sum(-1) == 100).all()):
                raise ValueError(f"the tokens of a row of the {what} matrix do not sum to 1")
        observations = inputs[:, head + 1 :: 2] - FIRST_SYMBOL
        if int(observations.min()) < 0 or int(observations.max()) >= V:
            raise ValueError(f"symbols are tokens {FIRST_SYMBOL}..{FIRST_SYMBOL + V - 1}")
        return moves.double() / 100, shows.double() / 100, observations

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """Exact predictive distribution at every scored position: float64 (B, K, Y)."""
        return self._truth(*self.read(inputs))

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: log2-probabilities, float64 (B, K, Y)."""
        return self.posterior(inputs).log2()


def _thresholds(matrix: torch.Tensor) -> torch.Tensor:
    """Cumulative rows without their last entry: (B, S, V) -> float32 (V - 1, S, B)."""
    return matrix.permute(2, 1, 0)[:-1].cumsum(0).float()


def _outcomes(thresholds: torch.Tensor, rows: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Outcomes drawn from the chosen rows with uniform numbers; rows and draws (L, B): (L, B)."""
    chosen = thresholds.gather(1, rows.expand(len(thresholds), *rows.shape))  # (V - 1, L, B)
    return (draws >= chosen).sum(0)


def _distributions_read(rows: torch.Tensor, what: str) -> torch.Tensor:
    """Rows of a header in float64, whole cents where that is what they are."""
    rows = rows.double()
    total = rows.sum(-1, keepdim=True)
    if not bool(((total - 1).abs() < 1e-5).all() and (rows >= 0).all()):
        raise ValueError(
            f"a row of the {what} matrix in the header is no distribution: "
            "its entries must be 0 or more and sum to 1"
        )
    cents = (100 * rows).round()
    on_cents = ((rows - cents / 100).abs() <= 4e-8).all(-1, keepdim=True)  # float32's rounding
    on_cents &= cents.sum(-1, keepdim=True) == 100
    return torch.where(on_cents, cents / 100, rows / total)

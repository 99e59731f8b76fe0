"""The recurrence tunnel: is there a rule, and which? Programs on the residues modulo a prime.

With probability 1/2 nature draws a *program*, x_{t+1} = a x_t + b mod p with a, b and x_0 uniform;
otherwise all symbols are independent and uniform. The model reads the symbols one by one and has
to say which comes next. The exact observer counts the programs that agree with what was seen.

Three symbols with x_0 != x_1 fix a program, a = (x_2 - x_1) / (x_1 - x_0) mod p, so there are only
p (p - 1) p such beginnings: few enough to be learned by heart. `prefixes` holds some of them back.

Axes: B episodes, T symbols read, K scored positions, p symbols (outcomes).
Tokens: symbols are 0..p-1; with opaque tokens p is ORD and p + 1 is SEP. Source: the "pi
experiment" in the repository of Paper I's authors (arXiv 2512.22471).
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import torch

from bayeswind_lib.tunnels.base import Episodes, Interface
from bayeswind_lib.tunnels.bijection import permutations

PREFIXES = ("all", "train", "held_out")
TOKENS = ("integer", "opaque")
N_BUCKETS = 5  # of beginnings; one of them is held out


@lru_cache(maxsize=8)
def inverses(modulus: int) -> torch.Tensor:
    """The multiplicative inverse of every residue of a prime, 0 for 0: int64 (p,).

    >>> inverses(7).tolist()
    [0, 1, 4, 5, 2, 3, 6]
    """
    return torch.tensor([0, *(pow(x, -1, modulus) for x in range(1, modulus))])


@lru_cache(maxsize=8)
def buckets(modulus: int, n_buckets: int = N_BUCKETS) -> torch.Tensor:
    """The bucket 0..n-1 of every beginning of three symbols, by a hash: int64 (p, p, p)."""
    names = [f"{i},{j},{k}" for i in range(modulus) for j in range(modulus) for k in range(modulus)]
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names]
    found = torch.tensor([int.from_bytes(digest, "big") % n_buckets for digest in digests])
    return found.view(modulus, modulus, modulus)


def compose(first: torch.Tensor, then: torch.Tensor, modulus: int) -> torch.Tensor:
    """The program that does `first` and `then`: both int64 (..., 2), a and b of x -> a x + b.

    >>> compose(torch.tensor([2, 1]), torch.tensor([3, 5]), 7).tolist()
    [6, 1]
    """
    a = first[..., 0] * then[..., 0]
    b = then[..., 0] * first[..., 1] + then[..., 1]
    return torch.stack([a, b], -1) % modulus


def fitted(symbols: torch.Tensor, modulus: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The program that the first three symbols suggest, and what it says of every next symbol.

    Args:
        symbols: int64 (B, T).
    Returns:
        programs int64 (B, 2), a and b; and int64 (B, T), entry k - 1 what follows k symbols
        (without meaning where fewer than three symbols were seen, or two that differ). Where
        x_0 = x_1 all programs that are left say x_0 again, and the one with a = 0 stands for them.
    """
    first, second = symbols[:, 0], symbols[:, min(1, symbols.shape[1] - 1)]
    third = symbols[:, min(2, symbols.shape[1] - 1)]
    a = (third - second) * inverses(modulus).to(symbols.device)[(second - first) % modulus] % modulus
    b = (second - a * first) % modulus
    return torch.stack([a, b], -1), (a[:, None] * symbols + b[:, None]) % modulus


def counts(symbols: torch.Tensor, modulus: int) -> torch.Tensor:
    """How many of the p^2 programs agree with the first 1, 2, ..., T symbols.

    Args:
        symbols: int64 (B, T) in 0..p-1.
    Returns:
        int64 (B, T).

    >>> counts(torch.tensor([[0, 1, 2, 3], [4, 4, 4, 0]]), 7).tolist()
    [[49, 7, 1, 1], [49, 7, 7, 0]]
    """
    _, said = fitted(symbols, modulus)
    agrees = torch.ones_like(symbols, dtype=torch.bool)
    agrees[:, 2:] = said[:, 1:-1] == symbols[:, 2:]  # of x_2 only where x_0 = x_1: else it fits
    alike = symbols[:, :1] == symbols[:, 1:2]  # (B, 1), or (B, 0) while one symbol is seen
    left = torch.where(alike, modulus, 1) if alike.numel() else torch.ones_like(symbols)
    result = left * agrees.long().cumprod(1)
    result[:, 0] = modulus**2
    result[:, 1:2] = modulus
    return result


def program_probability(symbols: torch.Tensor, modulus: int) -> torch.Tensor:
    """P(there is a program | the first 1, 2, ..., T symbols): float64 (B, T).

    The Bayes factor after k symbols is (number of programs that agree) * p^(k - 3).

    >>> program_probability(torch.tensor([[0, 1, 2, 3]]), 3)[0].tolist()
    [0.5, 0.5, 0.5, 0.0]
    """
    seen = torch.arange(1, symbols.shape[1] + 1, device=symbols.device, dtype=torch.float64)
    factor = counts(symbols, modulus) * float(modulus) ** (seen - 3)
    return factor / (1 + factor)


def posterior(symbols: torch.Tensor, modulus: int) -> torch.Tensor:
    """Exact distribution of the next symbol after 1, 2, ..., T symbols.

    Args:
        symbols: int64 (B, T) in 0..p-1, nothing held back.
    Returns:
        float64 (B, T, p), rows sum to 1.
    """
    weight = program_probability(symbols, modulus)[..., None]
    _, said = fitted(symbols, modulus)
    program = torch.nn.functional.one_hot(said, modulus).double()
    program[:, 0] = 1 / modulus
    if symbols.shape[1] > 1:
        differ = symbols[:, 0] != symbols[:, 1]
        program[differ, 1] = 1 / modulus  # every second step is as likely: a is free
    return weight * program + (1 - weight) / modulus


def beginnings(modulus: int) -> torch.Tensor:
    """P(x_0, x_1, x_2) with a program, and without: float64 (2, p, p, p), each sums to 1."""
    p = modulus
    program = torch.full((p, p, p), p**-3.0, dtype=torch.float64)
    same = torch.arange(p)
    program[same, same] = 0.0
    program[same, same, same] = p**-2.0
    return torch.stack([program, torch.full_like(program, p**-3.0)])


class Recurrence:
    """A wind tunnel whose truth is a rule among noise: affine programs modulo a prime.

    Args:
        modulus: p, a prime, at least 3.
        length: symbols of a sequence, at least 3; the last one is predicted and never read.
        tokens: "integer": a symbol is its own token. "opaque": every episode renames the symbols,
            and a header (ORD, the name of 0, ..., the name of p - 1, SEP) tells the names.
        prefixes: "all"; or only sequences whose first three symbols are in the buckets that are
            trained on ("train"), or in the one held out ("held_out"). The answer is conditioned on it.
        bucket: which one is held out, 0..4.
        horizon: sequences are read no further than the first so many symbols, so that a network is trained
            on the predictions within it alone (it has positions for the rest); None: all of them.
    Raises:
        ValueError: if the setting is impossible.
    """

    name = "recurrence"
    presets = {
        "smoke": {"modulus": 3, "length": 5}, "classroom": {"modulus": 7, "length": 12},
        "paper": {"modulus": 17, "length": 16},
    }
    variants = {"opaque": {"tokens": "opaque"}, "train": {"prefixes": "train"}, "horizon": {"horizon": 5}}

    def __init__(
        self, modulus: int = 17, length: int = 16, tokens: str = "integer", prefixes: str = "all",
        bucket: int = 0, horizon: int | None = None,
    ):
        if modulus < 3 or any(modulus % d == 0 for d in range(2, int(modulus**0.5) + 1)):
            raise ValueError(f"modulus is {modulus}: it must be a prime from 3 on, so that one can divide")
        if length < 3:
            raise ValueError(f"length is {length}: a rule shows in 3 symbols, not in fewer")
        for what, given, allowed in (("tokens", tokens, TOKENS), ("prefixes", prefixes, PREFIXES)):
            if given not in allowed:
                raise ValueError(f"{what} is {given!r}: choose one of {', '.join(allowed)}")
        if not 0 <= bucket < N_BUCKETS:
            raise ValueError(f"bucket is {bucket}: choose one of 0..{N_BUCKETS - 1} to hold out")
        if horizon is not None and not 1 <= horizon < length:
            raise ValueError(f"horizon is {horizon}: a sequence of {length} symbols has {length - 1} predictions, so choose 1..{length - 1}")
        self.modulus, self.length, self.tokens, self.prefixes = modulus, length, tokens, prefixes
        self.bucket, self.horizon = bucket, horizon

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.config.items())
        return f"Recurrence({settings})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        config = {
            "modulus": self.modulus, "length": self.length,
            "tokens": self.tokens, "prefixes": self.prefixes, "bucket": self.bucket,
        }
        return config if self.horizon is None else config | {"horizon": self.horizon}

    @property
    def header(self) -> int:
        """Tokens before the first symbol."""
        return self.modulus + 2 if self.tokens == "opaque" else 0

    @property
    def interface(self) -> Interface:
        """The sizes from which a network is built."""
        end = self.header + self.length - 1
        return Interface(
            n_tokens=self.modulus + (2 if self.header else 0),
            n_features=0,
            n_positions=end,
            scored=tuple(range(self.header, end))[: self.horizon],
            n_outputs=self.modulus,
            first_output_token=0,
        )

    @property
    def allowed(self) -> torch.Tensor:
        """Which beginnings of three symbols occur: bool (p, p, p)."""
        held = buckets(self.modulus) == self.bucket
        return {"all": torch.ones_like(held), "train": ~held, "held_out": held}[self.prefixes]

    def sample(
        self, batch: int, rng: torch.Generator, device: torch.device | str | None = None
    ) -> Episodes:
        """Draw independent episodes with their exact posterior.

        Args:
            batch: B >= 1.
            rng: the only source of randomness.
            device: where the episodes shall lie; the generator's own device by default.
        Returns:
            Episodes with int64 inputs (B, T), int64 targets (B, K), float64 posterior (B, K, p)
            and latents `symbols` (B, length), `is_program` bool (B,), `program` (B, 2), a and b
            (drawn also where the symbols are independent), and with opaque tokens `names` (B, p).
        """
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        found: list[tuple[torch.Tensor, ...]] = []
        while sum(len(rows[0]) for rows in found) < batch:
            found.append(self._draw(batch, rng))
        where = rng.device if device is None else torch.device(device)
        symbols, is_program, program = (torch.cat(rows)[:batch].to(where) for rows in zip(*found, strict=True))
        names = permutations(batch, self.modulus, self.modulus, rng, where) if self.header else None
        return self.episodes(symbols, is_program, program, names)

    def _draw(self, batch: int, rng: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Sequences that may occur, of `batch` that were drawn: symbols, is_program, program."""
        p, at = self.modulus, {"generator": rng, "device": rng.device}
        is_program = torch.randint(2, (batch,), **at).bool()
        program = torch.randint(p, (batch, 2), **at)
        symbols = torch.randint(p, (batch, self.length), **at)
        for t in range(1, self.length):
            said = (program[:, 0] * symbols[:, t - 1] + program[:, 1]) % p
            symbols[:, t] = torch.where(is_program, said, symbols[:, t])
        keep = self.allowed.to(rng.device)[tuple(symbols[:, :3].T)]
        return symbols[keep], is_program[keep], program[keep]

    def episodes(
        self, symbols: torch.Tensor, is_program: torch.Tensor | None = None,
        program: torch.Tensor | None = None, names: torch.Tensor | None = None,
    ) -> Episodes:
        """Episodes from chosen symbols, int64 (B, length), with opaque tokens also `names` (B, p)."""
        latents = {"symbols": symbols, "is_program": is_program, "program": program, "names": names}
        latents = {name: value for name, value in latents.items() if value is not None}
        shown = symbols if names is None else names.gather(1, symbols)
        inputs = self._write(symbols[:, :-1][:, : self.horizon], names)
        return Episodes(inputs, shown[:, 1:][:, : self.horizon].contiguous(), self.posterior(inputs), latents)

    def _write(self, symbols: torch.Tensor, names: torch.Tensor | None) -> torch.Tensor:
        """The tokens that spell symbols (B, t) under their names."""
        if names is None:
            return symbols.contiguous()
        mark = symbols.new_full((len(symbols), 1), self.modulus)
        return torch.cat([mark, names, mark + 1, names.gather(1, symbols)], 1)

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The symbols that a token sequence spells, and their names.

        Args:
            inputs: int64 (B, header + t), t from 1 to length - 1.
        Returns:
            symbols int64 (B, t); names int64 (B, p), None with integer tokens.
        Raises:
            ValueError: if the tokens are no such sequence, or one that was held back.
        """
        if inputs.dtype != torch.int64:
            raise ValueError(f"inputs have dtype {inputs.dtype}: expected tokens, torch.int64")
        head, p = self.header, self.modulus
        if inputs.ndim != 2 or not 1 <= inputs.shape[1] - head <= self.length - 1:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: expected (B, T) with T from {head + 1} "
                f"to {head + self.length - 1}"
            )
        shown, names = inputs[:, head:], inputs[:, 1 : p + 1] if head else None
        if shown.min() < 0 or shown.max() >= p:
            raise ValueError(f"a token stands in a symbol's place that is none: symbols are 0..{p - 1}")
        if names is None:
            symbols = shown
        else:
            marks = inputs[:, [0, p + 1]] == inputs.new_tensor([p, p + 1])
            if not bool(marks.all()) or bool((names.sort(1).values != torch.arange(p, device=inputs.device)).any()):
                raise ValueError(f"the header is none: expected {p}, every symbol's name once, {p + 1}")
            symbols = names.argsort(1).gather(1, shown)
        if symbols.shape[1] > 2 and not bool(self.allowed.to(symbols.device)[tuple(symbols[:, :3].T)].all()):
            raise ValueError(f"a sequence begins in a way that never occurs with prefixes={self.prefixes!r}")
        return symbols, names

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """Exact predictive distribution at every scored position: float64 (B, t, p), in tokens' order."""
        symbols, names = self.read(inputs)
        truth = posterior(symbols, self.modulus)
        if self.prefixes != "all":
            self._condition(truth, symbols)
        if names is None:
            return truth
        return truth.gather(-1, names.argsort(1)[:, None].expand_as(truth))

    def _condition(self, truth: torch.Tensor, symbols: torch.Tensor) -> None:
        """Correct, in place, what follows one and two symbols: some beginnings never occur."""
        joint = (beginnings(self.modulus).mean(0) * self.allowed).to(symbols.device)
        after = [joint.sum(2)[symbols[:, 0]]]
        if symbols.shape[1] > 1:
            after.append(joint[symbols[:, 0], symbols[:, 1]])
        for k, rows in enumerate(after):
            total = rows.sum(-1, keepdim=True)
            if bool((total == 0).any()):
                raise ValueError(f"a sequence begins in a way that never occurs with prefixes={self.prefixes!r}")
            truth[:, k] = rows / total

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: log2-probabilities, float64 (B, t, p)."""
        return self.posterior(inputs).log2()

"""The recall tunnel: pairs are stored, then some of their keys are asked.

N different keys are stored, each with a value of its own; filler follows; then M of the stored
keys are asked, one after another. The answer is certain for whoever bound keys to values, so the
posterior puts all its mass on one value and the measure is accuracy. Knowing which values were
stored, but not with which key, leaves log2(N) bits.

Axes: B episodes, N stored pairs, M queries (the scored positions), T tokens, V values (outcomes).
Tokens: 0..4 are marks (below), 5..9 unused, key k is 10 + k, value v is 10 + n_keys + v.

    STORE key SEP value   N times
    FILLER                `filler` times
    QUERY key PAD         M times, with filler // 2 FILLER in between

A prediction is read out at each PAD: the network sees no answer, before or after. Source: the
published data generator of Paper I (arXiv 2512.22471).
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from bayeswind_lib.tunnels.base import Episodes, Interface
from bayeswind_lib.tunnels.bijection import permutations

PAD, STORE, FILLER, QUERY, SEP = range(5)
N_MARKS = 10  # keys start here


def answers(keys: torch.Tensor, values: torch.Tensor, queries: torch.Tensor) -> torch.Tensor:
    """The value stored with every key asked.

    Args:
        keys: int64 (B, N), distinct in each row. values: int64 (B, N).
        queries: int64 (B, M), each one of the row's keys.
    Returns:
        int64 (B, M).

    >>> answers(torch.tensor([[7, 3]]), torch.tensor([[0, 5]]), torch.tensor([[3]])).tolist()
    [[5]]
    """
    place = (queries[:, :, None] == keys[:, None, :]).long().argmax(-1)  # (B, M)
    return values.gather(1, place)


def _repeats(rows: torch.Tensor) -> bool:
    """Whether any row of (B, n) holds a number twice."""
    return bool((rows.sort(-1).values.diff(dim=-1) == 0).any())


class Recall:
    """A wind tunnel whose truth is a lookup: stored pairs, and questions about some of them.

    Args:
        n_pairs: N, how many pairs are stored.
        n_queries: M, how many different stored keys are asked.
        n_keys: how many keys exist, at least N.
        n_values: V, how many values exist, at least N (and 2).
        filler: tokens between the last pair and the first query; half as many between queries.
        vocabulary: only the first so many keys, and values, occur in episodes; None: all of them.
            The tokens and the outcomes stay those of n_keys and n_values, so that one network can
            read easy episodes first (a curriculum).
    Raises:
        ValueError: if the setting is impossible.
    """

    name = "recall"
    presets = {
        "smoke": {"n_pairs": 2, "n_queries": 2, "n_keys": 4, "n_values": 4, "filler": 0},
        "classroom": {"n_pairs": 8, "n_queries": 8, "n_keys": 32, "n_values": 32, "filler": 0},
        "paper": {"n_pairs": 64, "n_queries": 3, "n_keys": 256, "n_values": 256, "filler": 32},
    }

    def __init__(
        self, n_pairs: int = 64, n_queries: int = 3, n_keys: int = 256, n_values: int = 256,
        filler: int = 32, vocabulary: int | None = None,
    ):
        if n_pairs < 1:
            raise ValueError(f"n_pairs is {n_pairs}: at least 1 pair has to be stored")
        if not 1 <= n_queries <= n_pairs:
            raise ValueError(
                f"n_queries is {n_queries}: different stored keys are asked, "
                f"so choose 1..{n_pairs}, or store more pairs"
            )
        if n_keys < n_pairs:
            raise ValueError(f"n_keys is {n_keys}: {n_pairs} pairs need as many different keys")
        if n_values < max(n_pairs, 2):
            raise ValueError(
                f"n_values is {n_values}: {n_pairs} pairs need as many different values, "
                "and a question needs at least 2"
            )
        if filler < 0:
            raise ValueError(f"filler is {filler}: choose 0 for none")
        if vocabulary is not None and not n_pairs <= vocabulary <= min(n_keys, n_values):
            raise ValueError(
                f"vocabulary is {vocabulary}: {n_pairs} pairs need as many keys and values, and there "
                f"are {min(n_keys, n_values)}, so choose {n_pairs}..{min(n_keys, n_values)}"
            )
        self.n_pairs, self.n_queries, self.filler = n_pairs, n_queries, filler
        self.n_keys, self.n_values, self.vocabulary = n_keys, n_values, vocabulary

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"Recall({settings})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        config = {
            "n_pairs": self.n_pairs,
            "n_queries": self.n_queries,
            "n_keys": self.n_keys,
            "n_values": self.n_values,
            "filler": self.filler,
        }
        return config if self.vocabulary is None else config | {"vocabulary": self.vocabulary}

    @property
    def interface(self) -> Interface:
        """The sizes from which a network is built."""
        first = self.first_query + 2  # the PAD of the first query
        scored = tuple(first + m * self.period for m in range(self.n_queries))
        return Interface(
            n_tokens=self.first_value + self.n_values,
            n_features=0,
            n_positions=scored[-1] + 1,
            scored=scored,
            n_outputs=self.n_values,
            first_output_token=self.first_value,
        )

    @property
    def first_value(self) -> int:
        """The token that stands for value 0."""
        return N_MARKS + self.n_keys

    @property
    def first_query(self) -> int:
        """The position of the first QUERY."""
        return 4 * self.n_pairs + self.filler

    @property
    def period(self) -> int:
        """Positions from one query to the next."""
        return 3 + self.filler // 2

    def sample(
        self, batch: int, rng: torch.Generator, device: torch.device | str | None = None
    ) -> Episodes:
        """Draw independent episodes with their exact posterior.

        Args:
            batch: B >= 1.
            rng: the only source of randomness.
            device: where the episodes shall lie; the generator's own device by default.
        Returns:
            Episodes with int64 inputs (B, T), int64 targets (B, M), float64 posterior (B, M, V)
            and latents `keys`, `values` (B, N) and `queries`, the keys asked, (B, M), all int64.
        """
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        n_keys, n_values = (self.vocabulary or n for n in (self.n_keys, self.n_values))
        keys = permutations(batch, n_keys, self.n_pairs, rng, device)
        values = permutations(batch, n_values, self.n_pairs, rng, device)
        asked = permutations(batch, self.n_pairs, self.n_queries, rng, device)  # places of pairs
        return self.episodes(keys, values, keys.gather(1, asked))

    def episodes(
        self, keys: torch.Tensor, values: torch.Tensor, queries: torch.Tensor
    ) -> Episodes:
        """Episodes from chosen keys and values, int64 (B, N), and the keys asked, int64 (B, M)."""
        targets = answers(keys, values, queries)
        truth = F.one_hot(targets, self.n_values).double()
        latents = {"keys": keys, "values": values, "queries": queries}
        return Episodes(self._write(keys, values, queries), targets, truth, latents)

    def _write(
        self, keys: torch.Tensor, values: torch.Tensor, queries: torch.Tensor
    ) -> torch.Tensor:
        """The token sequence that spells an episode: int64 (B, T)."""
        batch, n_queries = queries.shape
        stored = torch.empty(batch, self.n_pairs, 4, dtype=torch.long, device=keys.device)
        stored[..., 0], stored[..., 2] = STORE, SEP
        stored[..., 1], stored[..., 3] = keys + N_MARKS, values + self.first_value
        shape = (batch, n_queries, self.period)
        asked = torch.full(shape, FILLER, dtype=torch.long, device=keys.device)
        asked[..., 0], asked[..., 1], asked[..., 2] = QUERY, queries + N_MARKS, PAD
        pause = asked.new_full((batch, self.filler), FILLER)
        end = asked.flatten(1)[:, : (n_queries - 1) * self.period + 3]  # no filler after the last
        return torch.cat([stored.flatten(1), pause, end], dim=1)

    def read(
        self, inputs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The pairs stored, and the keys asked, in a token sequence.

        Args:
            inputs: int64 (B, T) in this tunnel's layout, with any number m >= 1 of queries.
        Returns:
            keys (B, N), values (B, N) and queries (B, m): keys in 0..n_keys-1, values in 0..V-1.
        Raises:
            ValueError: if the tokens are no such sequence.
        """
        if inputs.dtype != torch.int64:
            raise ValueError(f"inputs have dtype {inputs.dtype}: expected tokens, torch.int64")
        length, first = inputs.shape[-1], self.first_query
        m, rest = divmod(length - first + self.filler // 2, self.period)
        if inputs.ndim != 2 or m < 1 or rest:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: expected (B, T) with T = {first + 3} "
                f"for one query and {self.period} more for each further one"
            )
        stored = inputs[:, : 4 * self.n_pairs].unflatten(1, (self.n_pairs, 4))
        keys, values = stored[..., 1] - N_MARKS, stored[..., 3] - self.first_value
        queries = inputs[:, first + 1 :: self.period] - N_MARKS
        self._check(keys, values, queries)
        wrong = (self._write(keys, values, queries) != inputs).any(0)  # (T,)
        if bool(wrong.any()):
            raise ValueError(
                f"position {int(wrong.long().argmax())} holds another mark than this tunnel writes "
                "(STORE key SEP value, ..., FILLER, ..., QUERY key PAD)"
            )
        return keys, values, queries

    def _check(self, keys: torch.Tensor, values: torch.Tensor, queries: torch.Tensor) -> None:
        """Refuse pairs and queries that this tunnel never draws."""
        for what, found, n, first in (
            ("key", keys, self.n_keys, N_MARKS),
            ("value", values, self.n_values, self.first_value),
        ):
            if found.min() < 0 or found.max() >= n:
                raise ValueError(
                    f"a token stands in a {what}'s place that is no {what}: "
                    f"{what}s are {first}..{first + n - 1}"
                )
            if _repeats(found):
                raise ValueError(f"a {what} is stored twice: all {what}s of an episode differ")
        if not bool((queries[:, :, None] == keys[:, None, :]).any(-1).all()):
            raise ValueError("a key is asked that was not stored")
        if _repeats(queries):
            raise ValueError("a key is asked twice: all queries of an episode differ")

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """Exact predictive distribution at every query: float64 (B, m, V), all on one value."""
        return F.one_hot(answers(*self.read(inputs)), self.n_values).double()

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: log2-probabilities, float64 (B, m, V)."""
        return self.posterior(inputs).log2()

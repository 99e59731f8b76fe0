"""The bijection tunnel: a hidden permutation is revealed pair by pair.

Nature draws a bijection from V keys to V values, uniformly among all V! of them. The model
reads key, value, key, value, ..., key and has to say, at every key, which value follows.

With distinct keys (the default) the entropy of the exact posterior descends a *staircase*,
log2(V - k) bits after k pairs. With keys drawn with replacement it is a *sawtooth*: zero
whenever a key comes back, because the answer was already shown.

Axes: B episodes, K scored positions (pairs), T = 2K - 1 tokens, V values (and keys, outcomes).
Tokens: keys are 0..V-1, values are V..2V-1. Source: Paper I (arXiv 2512.22471), section 3.1.
"""

from __future__ import annotations

import torch

from bayeswind_lib.tunnels.base import Episodes, Interface


def permutations(
    batch: int, n: int, length: int, rng: torch.Generator, device: torch.device | str | None = None
) -> torch.Tensor:
    """The first `length` places of `batch` independent uniform permutations of 0..n-1.

    A Fisher-Yates shuffle of all episodes at once: O(length) vector operations, no sort.
    The random numbers come from `rng` on its own device, so that a seed names the same
    permutations wherever they are used.

    Returns:
        int64 (B, length).
    Raises:
        ValueError: if `length` is more than `n`.
    """
    if length > n:
        raise ValueError(f"length is {length}: a permutation of {n} has only {n} places")
    device = rng.device if device is None else torch.device(device)
    draws = torch.rand(length, batch, generator=rng, device=rng.device, dtype=torch.float64)
    return shuffled(draws.to(device), n)


def shuffled(draws: torch.Tensor, n: int) -> torch.Tensor:
    """The permutations that given random numbers stand for.

    Args:
        draws: float64 (length, B), uniform in [0, 1): which of the remaining cards comes next.
        n: number of cards.
    Returns:
        int64 (B, length).
    """
    length, batch = draws.shape
    remaining = torch.arange(n, n - length, -1, device=draws.device, dtype=torch.float64)
    picks = (draws * remaining[:, None]).long()  # (length, B), pick k lies in 0..n-k-1
    deck = torch.arange(n, device=draws.device)[:, None].repeat(1, batch)  # (n, B), a column each
    for k in range(min(length, n - 1)):
        place = picks[k : k + 1] + k  # (1, B), the card to bring to place k
        chosen = deck.gather(0, place)
        deck.scatter_(0, place, deck[k : k + 1].clone())
        deck[k] = chosen[0]
    return deck[:length].T.contiguous()


def posterior(keys: torch.Tensor, values: torch.Tensor, n_values: int) -> torch.Tensor:
    """Exact distribution of the value at every key, given all earlier pairs.

    A key that was shown before has its value for certain. A new key takes each value that
    no earlier pair has used with equal probability: all bijections that agree with the
    pairs shown are equally likely, and each unused value completes the same number of them.

    Args:
        keys: int64 (B, K), the keys in the order in which they are asked.
        values: int64 (B, K), the values that followed; the last column does not matter.
        n_values: V, the size of the bijection.
    Returns:
        float64 (B, K, V), probabilities, rows sum to 1.

    >>> keys, values = torch.tensor([[0, 1, 0]]), torch.tensor([[2, 0, 2]])
    >>> posterior(keys, values, 4)[0, 1].tolist()
    [0.3333333333333333, 0.3333333333333333, 0.0, 0.3333333333333333]
    """
    n_pairs = keys.shape[-1]
    steps = torch.arange(n_pairs, device=keys.device)
    # The pair at which each value, and each key, is first shown (K if never).
    value_shown = _first_position(values, n_values)  # (B, V)
    key_shown = _first_position(keys, n_values)  # (B, V)
    free = value_shown[:, None, :] >= steps[:, None]  # (B, K, V), not used by an earlier pair
    repeated = key_shown.gather(1, keys) < steps  # (B, K), True where the key was asked before
    new = (~repeated).long()  # (B, K)
    n_free = n_values - new.cumsum(1) + new  # (B, K), values left before this pair
    share = (1.0 / n_free.clamp(min=1).double())[:, :, None]  # (B, K, 1)
    result = torch.where(free, share, 0.0)  # (B, K, V), the answer at every new key
    if bool(repeated.any()):
        # The value shown with this key the first time, for the rows that need it.
        b, k = repeated.nonzero(as_tuple=True)
        answer = values[b, key_shown[b, keys[b, k]]]
        result[b, k] = torch.nn.functional.one_hot(answer, n_values).double()
    return result


def _first_position(sequence: torch.Tensor, n: int) -> torch.Tensor:
    """The first column of `sequence` (B, K) that holds each symbol 0..n-1, or K: int64 (B, n)."""
    batch, length = sequence.shape
    first = torch.full((batch, n), length, dtype=torch.long, device=sequence.device)
    columns = torch.arange(length, device=sequence.device).expand(batch, length)
    return first.scatter_reduce_(1, sequence, columns, reduce="amin")


def _contradictory(keys: torch.Tensor, values: torch.Tensor, n: int) -> bool:
    """Whether any episode shows a key with two values, or a value with two keys; both (B, K)."""
    shown = torch.zeros(len(keys), n * n, dtype=torch.uint8, device=keys.device)
    shown = shown.scatter_(1, keys * n + values, 1).view(-1, n, n)  # (B, key, value)
    return bool((shown.sum(1) > 1).any() or (shown.sum(2) > 1).any())


class Bijection:
    """A wind tunnel whose truth is elimination: a uniformly random bijection, shown pair by pair.

    Args:
        n_values: V >= 2, the number of keys and of values.
        n_pairs: K, how many keys are asked and scored; None means V.
        with_replacement: False asks K different keys; True draws every key at random.
        shared: keys and values are spelled by the same V tokens, so that only its place tells which a token is.
        query: after the K pairs one of their keys, drawn at random, is asked once more; it is scored as well.
    Raises:
        ValueError: if the setting is impossible (fewer than 2 values, no pair, or more
            distinct keys than there are).
    """

    name = "bijection"
    presets = {"smoke": {"n_values": 4}, "classroom": {"n_values": 10}, "paper": {"n_values": 20}}
    variants = {"replacement": {"with_replacement": True}, "paired": {"n_pairs": 19, "shared": True, "query": True}}

    def __init__(
        self, n_values: int = 20, n_pairs: int | None = None, with_replacement: bool = False,
        shared: bool = False, query: bool = False,
    ):
        if n_values < 2:
            raise ValueError(f"n_values is {n_values}: a bijection needs at least 2 values")
        n_pairs = n_values if n_pairs is None else n_pairs
        if n_pairs < 1:
            raise ValueError(f"n_pairs is {n_pairs}: at least 1 pair has to be asked")
        if n_pairs > n_values and not with_replacement:
            raise ValueError(
                f"n_pairs is {n_pairs} but only {n_values} distinct keys exist: "
                f"ask at most {n_values} pairs, or set with_replacement=True"
            )
        self.n_values, self.n_pairs, self.with_replacement = n_values, n_pairs, with_replacement
        self.shared, self.query = shared, query
        self.n_asked = n_pairs + query  # keys that are scored
        self.first_value = 0 if shared else n_values  # the token of value 0

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"Bijection({settings})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        config = {
            "n_values": self.n_values,
            "n_pairs": self.n_pairs,
            "with_replacement": self.with_replacement,
        }
        return config | {name: True for name in ("shared", "query") if getattr(self, name)}

    @property
    def interface(self) -> Interface:
        """The sizes from which a network is built."""
        return Interface(
            n_tokens=self.first_value + self.n_values,
            n_features=0,
            n_positions=2 * self.n_asked - 1,
            scored=tuple(range(0, 2 * self.n_asked - 1, 2)),
            n_outputs=self.n_values,
            first_output_token=self.first_value,
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
            Episodes with int64 inputs (B, 2K-1), int64 targets (B, K), float64 posterior
            (B, K, V) and latents `keys`, `values`, both int64 (B, K) in 0..V-1. With a query K is one more.
        """
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        V, K = self.n_values, self.n_pairs
        if self.with_replacement:
            device = rng.device if device is None else device
            mapping = permutations(batch, V, V, rng, device)  # (B, V), the hidden bijection
            keys = torch.randint(V, (batch, K), generator=rng, device=rng.device).to(device)
            values = mapping.gather(1, keys)
        else:
            # A random bijection at distinct keys is a random arrangement of values.
            keys = permutations(batch, V, K, rng, device)
            values = permutations(batch, V, K, rng, device)
        if self.query:
            again = torch.randint(K, (batch, 1), generator=rng, device=rng.device).to(keys.device)
            keys, values = (torch.cat([part, part.gather(1, again)], 1) for part in (keys, values))
        return self.episodes(keys, values)

    def episodes(self, keys: torch.Tensor, values: torch.Tensor) -> Episodes:
        """Episodes from chosen keys and values, both int64 (B, K) in 0..V-1; with a query one more, at the end."""
        inputs = torch.stack([keys, values + self.first_value], dim=-1).flatten(1)[:, :-1].contiguous()
        truth = posterior(keys, values, self.n_values)
        return Episodes(inputs, values, truth, {"keys": keys, "values": values})

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The pairs that a token sequence spells.

        Args:
            inputs: int64 (B, T), T odd and at most 2K-1 (2K+1 with a query): key, value, ..., key.
        Returns:
            keys (B, k) and values (B, k-1), both int64 in 0..V-1, with k = (T+1)/2.
        Raises:
            ValueError: if the tokens are no such sequence, or no bijection agrees with it.
        """
        if inputs.dtype != torch.int64:
            raise ValueError(f"inputs have dtype {inputs.dtype}: expected tokens, torch.int64")
        length = inputs.shape[-1]
        if inputs.ndim != 2 or length % 2 == 0 or length > 2 * self.n_asked - 1:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}: expected (B, T) with T odd and at most "
                f"{2 * self.n_asked - 1} (key, value, ..., key)"
            )
        keys, values = inputs[:, 0::2], inputs[:, 1::2] - self.first_value
        if keys.min() < 0 or keys.max() >= self.n_values:
            raise ValueError(f"even positions must hold keys 0..{self.n_values - 1}")
        if values.numel() and (values.min() < 0 or values.max() >= self.n_values):
            raise ValueError(
                f"odd positions must hold values {self.first_value}..{self.first_value + self.n_values - 1}"
            )
        if _contradictory(keys[:, :-1], values, self.n_values):
            raise ValueError(
                "no bijection agrees with these inputs: a key is shown with two values, "
                "or a value with two keys"
            )
        return keys, values

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """Exact predictive distribution at every scored position: float64 (B, K, V)."""
        keys, values = self.read(inputs)
        unknown = torch.zeros_like(keys[:, :1])  # the value after the last key is not in the input
        return posterior(keys, torch.cat([values, unknown], dim=1), self.n_values)

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: log2-probabilities, float64 (B, K, V)."""
        return self.posterior(inputs).log2()

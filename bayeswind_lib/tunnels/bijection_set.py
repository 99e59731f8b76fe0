"""The bijection tunnel with few maps: nature draws from a fixed set of N of the V! bijections.

Two observers are exact, each under a prior of its own. The *set observer* knows the N maps: it counts
those that agree with the pairs shown. The *group observer* takes all V! maps for equally likely and
eliminates, as in `bijection`. Both are one family: with prior weight w on the set and 1 - w on the group,
P(value y | pairs shown) is proportional to w n_y / N + (1 - w) g_y / V!, where n_y and g_y are the numbers of
maps of the set, and of the group, that agree with the pairs and give y.

The set observer's advantage over a whole episode of V pairs is log2(V! / N) bits, whichever the set:
by the chain rule the entropies of its answers add up to log2 N, those of the other one to log2 V!.

Axes: B episodes, K scored positions, N maps, V values. Source: the question is that of Raventos, Paul, Chen and
Ganguli, 2023 (arXiv 2306.15063), asked there of linear regression.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import permutations as orders

import torch

from bayeswind_lib.tunnels.base import Episodes
from bayeswind_lib.tunnels.bijection import Bijection, permutations

MOST_VALUES = 8  # 40,320 maps: all of them are listed


def every_map(n_values: int) -> torch.Tensor:
    """All bijections of 0..V-1 in lexicographic order: int64 (V!, V).

    >>> every_map(3)[-1].tolist()
    [2, 1, 0]
    """
    return torch.tensor(list(orders(range(n_values))))


def agreeing(maps: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """How many maps agree with all earlier pairs and give each value at the key that is asked.

    Args:
        maps: int64 (N, V).
        keys, values: int64 (B, K), the pairs; the last value does not matter.
    Returns:
        float64 (B, K, V), whole numbers; all 0 where no map agrees.

    >>> agreeing(every_map(3), torch.tensor([[0, 1]]), torch.tensor([[2, 0]]))[0].tolist()
    [[2.0, 2.0, 2.0], [1.0, 1.0, 0.0]]
    """
    V, (B, K) = maps.shape[1], keys.shape
    maps = maps.to(keys.device)
    table = torch.nn.functional.one_hot(maps, V).float().flatten(1)  # (N, V * V): key, value; float32 counts exactly to 2^24
    shown = torch.nn.functional.one_hot(keys * V + values, V * V).float().cumsum(1)
    shown = torch.cat([torch.zeros_like(shown[:, :1]), shown[:, :-1]], 1)  # (B, K, V * V), the earlier pairs
    alive = shown @ table.T == torch.arange(K, device=keys.device)[None, :, None]  # (B, K, N)
    counts = (alive.float() @ table).view(B, K, V, V)
    return counts.gather(2, keys[:, :, None, None].expand(B, K, 1, V))[:, :, 0].double()


def in_group(keys: torch.Tensor, values: torch.Tensor, n_values: int) -> torch.Tensor:
    """`agreeing` for all V! maps, in closed form: (V - k - 1)! for each value that is left, distinct keys; float64 (B, K, V)."""
    used = torch.nn.functional.one_hot(values, n_values).cumsum(1)
    used = torch.cat([torch.zeros_like(used[:, :1]), used[:, :-1]], 1)  # (B, K, V)
    each = [math.factorial(n_values - k - 1) for k in range(keys.shape[1])]
    return torch.where(used > 0, 0.0, torch.tensor(each, dtype=torch.float64, device=keys.device)[None, :, None])


def expected_advantage(n_values: int, n_maps: int) -> list[float]:
    """KL(set || group) in bits after 0, 1, ..., V - 1 pairs, on average over all sets of N maps and their episodes.

    Of the maps other than the true one, (V - k)! - 1 agree with k pairs, and the N - 1 others of a
    random set hold a hypergeometric number H_k of them. So the set observer's mean surprise at the
    next value is E log2(1 + H_k) - E log2(1 + H_{k+1}), and the group observer's log2(V - k).

    >>> [round(bits, 3) for bits in expected_advantage(3, 1)]
    [1.585, 1.0, 0.0]
    """
    others = math.factorial(n_values) - 1

    def open_bits(k: int) -> float:
        agree = math.factorial(n_values - k) - 1
        ways = [math.comb(agree, h) * math.comb(others - agree, n_maps - 1 - h) for h in range(min(agree, n_maps - 1) + 1)]
        return sum(way / math.comb(others, n_maps - 1) * math.log2(1 + h) for h, way in enumerate(ways))

    left = [open_bits(k) for k in range(n_values + 1)]
    return [math.log2(n_values - k) - left[k] + left[k + 1] for k in range(n_values)]


class BijectionSet(Bijection):
    """A wind tunnel with a finite prior: bijections from a fixed set of N, shown pair by pair with distinct keys.

    Args:
        n_values: V, from 2 to 8.
        n_maps: N, from 1 to V!; the sets of one seed are nested.
        map_seed: of the set.
        n_pairs: K, how many keys are asked; None means V.
    Raises:
        ValueError: if the setting is impossible.
    """

    name = "bijection_set"
    presets = {"smoke": {"n_values": 3, "n_maps": 3}, "classroom": {"n_values": 6, "n_maps": 64}, "paper": {"n_values": 7, "n_maps": 512}}
    variants: dict[str, dict] = {}

    def __init__(self, n_values: int = 6, n_maps: int = 64, map_seed: int = 0, n_pairs: int | None = None):
        super().__init__(n_values, n_pairs)
        if n_values > MOST_VALUES:
            raise ValueError(f"n_values is {n_values}: all V! maps are listed, so at most {MOST_VALUES}")
        if not 1 <= n_maps <= math.factorial(n_values):
            raise ValueError(f"n_maps is {n_maps}: {n_values} values have {math.factorial(n_values)} bijections; draw from 1 to all of them")
        self.n_maps, self.map_seed = n_maps, map_seed

    def __repr__(self) -> str:
        return f"BijectionSet({', '.join(f'{name}={value}' for name, value in self.config.items())})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        return {"n_values": self.n_values, "n_maps": self.n_maps, "map_seed": self.map_seed, "n_pairs": self.n_pairs}

    @cached_property
    def _shuffled(self) -> torch.Tensor:
        return every_map(self.n_values)[torch.randperm(math.factorial(self.n_values), generator=torch.Generator().manual_seed(self.map_seed))]

    @property
    def maps(self) -> torch.Tensor:
        """The set: int64 (N, V), row by row the value of every key."""
        return self._shuffled[: self.n_maps]

    @property
    def outside(self) -> torch.Tensor:
        """All other bijections: int64 (V! - N, V)."""
        return self._shuffled[self.n_maps :]

    def sample(self, batch: int, rng: torch.Generator, device: torch.device | str | None = None) -> Episodes:
        """Draw independent episodes with the set observer's posterior; arguments and result as in `Bijection.sample`."""
        keys, values = self.draw(batch, rng, self.maps)
        device = rng.device if device is None else device
        return self.episodes(keys.to(device), values.to(device))

    def draw(self, batch: int, rng: torch.Generator, maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Distinct keys and their values, int64 (B, K) each, of episodes whose map is one of `maps` (N, V), such as `outside`."""
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        keys = permutations(batch, self.n_values, self.n_pairs, rng)
        which = torch.randint(len(maps), (batch,), generator=rng, device=rng.device)
        return keys, maps.to(rng.device)[which].gather(1, keys)

    def answers(self, keys: torch.Tensor, values: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
        """Exact predictions of the observer with prior weight w on the set: float64 (B, K, V).

        Args:
            keys, values: int64 (B, K).
            weight: 1 is the set observer, 0 the group observer.
        Returns:
            rows sum to 1, and are NaN where all maps that the prior allows are contradicted (weight 1 only).
        """
        here = weight * agreeing(self.maps, keys, values) / self.n_maps
        if weight < 1:
            here = here + (1 - weight) * in_group(keys, values, self.n_values) / math.factorial(self.n_values)
        return here / here.sum(-1, keepdim=True)

    def episodes(self, keys: torch.Tensor, values: torch.Tensor) -> Episodes:
        """Episodes from chosen keys and values of maps in the set, both int64 (B, K)."""
        return Episodes(self.tokens(keys, values), values, self._known(keys, values), {"keys": keys, "values": values})

    def tokens(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """The tokens that spell pairs, of whatever map: int64 (B, 2K - 1)."""
        return torch.stack([keys, values + self.n_values], dim=-1).flatten(1)[:, :-1].contiguous()

    def _known(self, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        truth = self.answers(keys, values)
        if bool(truth.isnan().any()):
            raise ValueError(f"no map of the set of {self.n_maps} agrees with these pairs: ask `answers` with a weight below 1")
        return truth

    def posterior(self, inputs: torch.Tensor) -> torch.Tensor:
        """The set observer's predictive distribution at every scored position: float64 (B, K, V)."""
        keys, values = self.read(inputs)
        if bool((keys.sort(1).values.diff(dim=1) == 0).any()):
            raise ValueError("a key is asked twice: here keys are distinct")
        return self._known(keys, torch.cat([values, torch.zeros_like(keys[:, :1])], dim=1))

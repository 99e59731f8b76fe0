"""The composition tunnel: a bijection that a hidden chain disturbs, so that three primitives are needed at once.

Nature draws one of the V! bijections from keys to values. A hidden state moves between the steps; in state s the
value of every key goes through a fixed permutation before it is shown: state 0 leaves it, state 1 exchanges the values
0 and 1, state 2 exchanges 2 and 3. Which map it is has to be accumulated, the state transported, and a key bound to
its value. The hypotheses are the pairs (map, state): for V = 4 there are 24 x 3, and the forward algorithm over
all of them is exact.

A header tells which chain it is ("still" never moves, "slow" and "fast" do) and, if the map is "shown", the map too;
else blanks stand there ("hidden"). So each part of the task can be asked alone: a hidden map of a still chain is the
bijection tunnel, a shown map of a chain that moves is filtering. `episodes` says which of the six combinations occur.
The one that is held out, a hidden map in a fast chain, has both of its parts in "train".

    chain  map(0) ... map(V-1)  key value key value ... key

Axes: B episodes, K pairs (the scored positions), M maps, S = 3 states, V values. Tokens: 0..2 chains, 3 blank, then keys,
then values. Source: what Paper III asks in the description of April 2026, whether primitives compose where parts are hidden.
"""

from __future__ import annotations

from functools import cached_property

import torch

from bayeswind_lib.tunnels.base import Episodes, Interface
from bayeswind_lib.tunnels.bijection_set import every_map

CHAINS = {"still": 1.0, "slow": 0.95, "fast": 0.7}  # the probability to stay
MAPS = ("shown", "hidden")
HELD_OUT = ("hidden-fast",)
COMBINATIONS = tuple(f"{kind}-{chain}" for kind in MAPS for chain in CHAINS)
GROUPS = {
    "all": COMBINATIONS,
    "train": tuple(name for name in COMBINATIONS if name not in HELD_OUT),
    "held_out": HELD_OUT,
}
BLANK, N_STATES = len(CHAINS), 3


class Composition:
    """A wind tunnel of maps behind a hidden chain.

    Args:
        n_values: V, 4 or 5 (two exchanges need four values, and all V! maps are listed).
        n_pairs: K, how many keys are asked; they are drawn with replacement.
        which: "all", "train", "held_out", or one combination such as "hidden-fast".
    Raises:
        ValueError: if the setting is impossible.
    """

    name = "composition"
    presets = {"smoke": {"n_pairs": 4}, "classroom": {}, "paper": {"n_values": 5, "n_pairs": 30}}
    supervision = "posterior"
    variants = {"train": {"which": "train"}}

    def __init__(self, n_values: int = 4, n_pairs: int = 20, which: str = "all"):
        if n_values not in (4, 5):
            raise ValueError(f"n_values is {n_values}: choose 4 or 5; two exchanges need four values, and all V! maps are listed")
        if n_pairs < 1:
            raise ValueError(f"n_pairs is {n_pairs}: at least 1 key has to be asked")
        if which not in (*GROUPS, *COMBINATIONS):
            raise ValueError(f"which is {which!r}: choose one of {', '.join((*GROUPS, *COMBINATIONS))}")
        self.n_values, self.n_pairs, self.which = n_values, n_pairs, which

    def __repr__(self) -> str:
        return f"Composition({', '.join(f'{name}={value!r}' for name, value in self.config.items())})"

    @property
    def config(self) -> dict:
        """The arguments that build this tunnel again, as JSON types."""
        return {"n_values": self.n_values, "n_pairs": self.n_pairs, "which": self.which}

    @property
    def interface(self) -> Interface:
        """The sizes from which a network is built."""
        V, K = self.n_values, self.n_pairs
        scored = tuple(1 + V + 2 * k for k in range(K))
        return Interface(BLANK + 1 + 2 * V, 0, scored[-1] + 1, scored, V, BLANK + 1 + V)

    @cached_property
    def outcomes(self) -> torch.Tensor:
        """What each hypothesis says of each key: int64 (M, S, V), the value shown for map m in state s at key x."""
        maps, shown = every_map(self.n_values), torch.arange(self.n_values).repeat(N_STATES, 1)  # (M, V), (S, V)
        shown[1, [0, 1]], shown[2, [2, 3]] = torch.tensor([1, 0]), torch.tensor([3, 2])
        return shown[:, maps].transpose(0, 1).contiguous()

    def sample(self, batch: int, rng: torch.Generator, device: torch.device | str | None = None) -> Episodes:
        """Draw independent episodes with their exact posterior.

        Args:
            batch: B >= 1. rng: the only source of randomness. device: where the episodes shall lie; the generator's by default.
        Returns:
            Episodes with int64 inputs (B, 2K + V), int64 targets (B, K), float64 posterior (B, K, V) and int64 latents
            `chain`, `hidden`, `map` (B,), `states`, `keys` and `values` (B, K); `map` counts in the order of `every_map`.
        """
        if batch < 1:
            raise ValueError(f"batch is {batch}: ask for at least 1 episode")
        place, draw = rng.device, {"generator": rng, "device": rng.device}
        names = GROUPS.get(self.which, (self.which,))
        kinds = [(MAPS.index(kind), list(CHAINS).index(chain)) for kind, chain in (name.split("-") for name in names)]
        hidden, chain = torch.tensor(kinds, device=place)[torch.randint(len(kinds), (batch,), **draw)].T
        maps = torch.randint(len(self.outcomes), (batch,), **draw)
        stay = torch.tensor(list(CHAINS.values()), device=place)[chain]
        state, states = torch.randint(N_STATES, (batch,), **draw), []
        for _ in range(self.n_pairs):
            states.append(state)
            moves = torch.rand(batch, **draw) >= stay
            state = (state + moves * torch.randint(1, N_STATES, (batch,), **draw)) % N_STATES
        states = torch.stack(states, 1)
        keys = torch.randint(self.n_values, (batch, self.n_pairs), **draw)
        parts = (chain, hidden, maps, states, keys)
        return self.episodes(*(part.to(place if device is None else device) for part in parts))

    def episodes(
        self, chain: torch.Tensor, hidden: torch.Tensor, maps: torch.Tensor, states: torch.Tensor, keys: torch.Tensor
    ) -> Episodes:
        """Episodes from what nature drew, int64: `chain`, `hidden`, `maps` (B,), `states`, `keys` (B, K)."""
        values = self.outcomes.to(keys.device)[maps[:, None], states, keys]
        V, pairs = self.n_values, torch.stack([keys + BLANK + 1, values + BLANK + 1 + self.n_values], -1).flatten(1)[:, :-1]
        header = every_map(V).to(keys.device)[maps] + BLANK + 1 + V
        header = torch.where(hidden[:, None] == 1, BLANK, header)
        inputs = torch.cat([chain[:, None], header, pairs], 1)
        latents = {"chain": chain, "hidden": hidden, "map": maps, "states": states, "keys": keys, "values": values}
        return Episodes(inputs, values, self.posterior(inputs), latents)

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """What a token sequence spells.

        Args:
            inputs: int64 (B, T) in this tunnel's layout, of any number k >= 1 of keys.
        Returns:
            chain (B,), header (B, V) with -1 where the map is hidden, keys (B, k), values (B, k - 1); all int64.
        Raises:
            ValueError: if the tokens are no such sequence.
        """
        V, head = self.n_values, 1 + self.n_values
        if inputs.dtype != torch.int64 or inputs.ndim != 2 or inputs.shape[1] <= head or (inputs.shape[1] - head) % 2 == 0:
            raise ValueError(f"inputs are {inputs.dtype} {tuple(inputs.shape)}: expected int64 (B, {head} + 2k - 1) with k >= 1 keys")
        first = BLANK + 1
        chain, header = inputs[:, 0], inputs[:, 1:head]
        keys, values = inputs[:, head::2] - first, inputs[:, head + 1 :: 2] - first - V
        shown = torch.where(header == BLANK, -1, header - first - V)
        blank = (shown < 0).any(1)
        right = ((chain >= 0) & (chain < BLANK) & ((shown == -1).all(1) | ~blank) & (shown < V).all(1)
                 & ((shown.sort(1).values == torch.arange(V, device=inputs.device)).all(1) | blank))
        if not bool(right.all() & ((keys >= 0) & (keys < V)).all() & ((values >= 0) & (values < V)).all()):
            raise ValueError("inputs spell no episode: expected a chain, a map or blanks, then keys and values in turn")
        return chain, shown, keys, values

    def posterior(self, inputs: torch.Tensor, stay: torch.Tensor | None = None) -> torch.Tensor:
        """The exact distribution of the value of every key, given all before it: float64 (B, K, V).

        Args:
            inputs: int64 (B, T), as `read` takes them.
            stay: (B,), probabilities to stay that an observer takes for true; those of the header by default.
        Raises:
            ValueError: if the tokens are no episode, or if they cannot have happened.
        """
        chain, shown, keys, values = self.read(inputs)
        says = self.outcomes.to(inputs.device)  # (M, S, V)
        if stay is None:
            stay = torch.tensor(list(CHAINS.values()), dtype=torch.float64, device=inputs.device)[chain]
        allowed = (shown[:, None] == every_map(self.n_values).to(inputs.device)).all(-1) | (shown < 0).all(1)[:, None]  # (B, M)
        belief = allowed[:, :, None].expand(-1, -1, N_STATES).double()  # (B, M, S)
        found = []
        for k in range(keys.shape[1]):
            belief = belief / belief.sum((1, 2), keepdim=True)
            here = says[:, :, keys[:, k]].permute(2, 0, 1)  # (B, M, S), what each hypothesis says
            found.append(torch.stack([(belief * (here == value)).sum((1, 2)) for value in range(self.n_values)], -1))
            if k < values.shape[1]:
                belief = belief * (here == values[:, k, None, None])
                elsewhere = belief.sum(2, keepdim=True) - belief  # (B, M, S)
                belief = stay[:, None, None] * belief + (1 - stay[:, None, None]) * elsewhere / (N_STATES - 1)
        answer = torch.stack(found, 1)
        if bool(answer.isnan().any()):
            raise ValueError("inputs cannot have happened: no map and no path of states leads to these values")
        return answer

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """The oracle, called as a network is: log2-probabilities (B, K, V)."""
        return self.posterior(inputs).log2()

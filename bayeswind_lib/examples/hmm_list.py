"""A known list of hidden Markov models: which
of them produces the symbols is not told."""

from dataclasses import dataclass

import torch

import bayeswind_lib as bw


@bw.tunnels.register("hmm_list")
@dataclass(frozen=True)
class HMMList(bw.tunnels.Tunnel):
    n_models: int = 6  # M
    n_states: int = 3  # S, of each model
    n_symbols: int = 4  # V
    length: int = 24  # symbols shown
    # rows of the matrices: Dirichlet(1 / sharpness)
    sharpness: float = 3.0
    list_seed: int = 0  # of the list: the same in every episode
    presets = {"smoke": {"n_models": 2, "n_states": 2, "length": 5}}

    @property
    def interface(self):
        return bw.tunnels.sequence(self.n_symbols, self.length)

    def matrices(self):
        """Of all models: transition (M, S, S)
        and emission (M, S, V), float64."""
        rng = torch.Generator().manual_seed(self.list_seed)
        M, S, V = self.n_models, self.n_states, self.n_symbols
        even = torch.full((M, S, S + V), 1 / self.sharpness,
                          dtype=torch.float64)
        parts = torch._standard_gamma(even, rng).split([S, V], -1)
        return [part / part.sum(-1, keepdim=True) for part in parts]

    def sample(self, batch, rng, device=None):
        move, emit = (matrix.to(rng.device)
                      for matrix in self.matrices())
        rolls = torch.rand(2, batch, generator=rng, device=rng.device)
        which = (rolls[0] * self.n_models).long()
        state = (rolls[1] * self.n_states).long()
        states, symbols = [], []
        for _ in range(self.length + 1):
            states.append(state)
            drawn = torch.multinomial(emit[which, state], 1,
                                      generator=rng)
            symbols.append(drawn[:, 0])
            state = torch.multinomial(move[which, state], 1,
                                      generator=rng)[:, 0]
        latents = {"which": which, "states": torch.stack(states, 1)}
        found = self.episodes(torch.stack(symbols, 1), latents)
        return found.to(device or rng.device)

    def beliefs(self, inputs):
        """P(model, state | symbols so far), in log space:
        float64 (B, K, M, S)."""
        move, emit = (matrix.to(inputs.device).log()
                      for matrix in self.matrices())
        even = torch.tensor(self.n_models * self.n_states).double()
        log, found = -even.log(), []
        for symbol in inputs.T:
            log = log + emit[:, :, symbol].permute(2, 0, 1)  # (B, M, S)
            found.append(log - log.logsumexp((1, 2), keepdim=True))
            log = (log[..., None] + move).logsumexp(2)
        return torch.stack(found, 1).exp()

    def posterior(self, inputs):
        move, emit = (matrix.to(inputs.device)
                      for matrix in self.matrices())
        return torch.einsum("bkms,mst,mtv->bkv", self.beliefs(inputs),
                            move, emit)

"""A die of unknown bias is rolled again and again:
which face comes next?"""

from dataclasses import dataclass

import torch

import bayeswind_lib as bw


@bw.tunnels.register("dirichlet")
@dataclass(frozen=True)
class Dirichlet(bw.tunnels.Tunnel):
    n_faces: int = 4
    length: int = 12  # rolls shown
    # the die is drawn from Dirichlet(strength, ..., strength)
    strength: float = 0.5

    presets = {"smoke": {"n_faces": 3, "length": 6}}
    claims = [{
        "id": "dirichlet-kl", "measure": "kl", "test": "reaches",
        "statement": "A small transformer learns to count.",
        "published": "0.01", "band": 0.01,
    }]

    @property
    def interface(self):
        return bw.tunnels.sequence(self.n_faces, self.length)

    def sample(self, batch, rng, device=None):
        shape = torch.full((batch, self.n_faces), self.strength)
        shape = shape.double().to(rng.device)
        weights = torch._standard_gamma(shape, rng) + 1e-12
        die = weights / weights.sum(1, keepdim=True)
        rolls = torch.multinomial(die, self.length + 1,
                                  replacement=True, generator=rng)
        return self.episodes(rolls,
                             {"die": die}).to(device or rng.device)

    def posterior(self, inputs):
        faces = torch.nn.functional.one_hot(inputs, self.n_faces)
        # (B, K, faces)
        counts = faces.cumsum(1).double() + self.strength
        return counts / counts.sum(-1, keepdim=True)

"""The two optimisers of the book: AdamW, and Muon on the matrices with AdamW on the rest.

Muon (Jordan et al., 2024) replaces the update of a weight matrix by the nearest
semi-orthogonal matrix, so that every direction moves equally fast. `torch.optim.Muon` exists
but always orthogonalises in bfloat16, which is slow on a CPU without such instructions; here
the number type is a choice, and matrices of one shape are handled together.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from torch import nn

# Coefficients of the quintic iteration, chosen for a steep slope at zero: five rounds bring every
# singular value into about 0.7 to 1.2, which is as good as 1 for an update (Jordan et al., 2024).
QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalise(
    matrices: torch.Tensor, rounds: int = 5, dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Bring all singular values of each matrix near 1 and keep its singular vectors.

    Args:
        matrices: float (N, rows, columns).
        rounds: rounds of the Newton-Schulz iteration.
        dtype: the number type of the iteration.
    Returns:
        float (N, rows, columns) in the type of `matrices`.
    """
    a, b, c = QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices  # (N, r, s) with r <= s: the smaller Gram matrix
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(dtype)
    for _ in range(rounds):
        gram = x @ x.mT  # (N, r, r)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    x = x.to(matrices.dtype)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised: for weight matrices inside the network only.

    Each matrix is orthogonalised on its own: queries, keys and values must be separate
    matrices, because the singular vectors of a stack of them mean nothing.

    Args:
        parameters: two-dimensional tensors.
        lr: step size, also as a tensor without axes; an update has singular values near 1, times sqrt(rows / columns) if tall.
        momentum: of the (Nesterov) running mean of gradients.
        weight_decay: decoupled, as in AdamW.
        dtype: number type of the orthogonalisation.
    """

    def __init__(
        self, parameters, lr: float | torch.Tensor, momentum: float = 0.95, weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"Muon was given a tensor of shape {tuple(parameter.shape)}: "
                        "it takes matrices only, the rest belongs to AdamW"
                    )

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """One update of every matrix that has a gradient."""
        for group in self.param_groups:
            same_shape = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    same_shape[parameter.shape].append(parameter)
            for shape, parameters in same_shape.items():
                self._step_stack(parameters, shape, group)

    def _step_stack(self, parameters: list[nn.Parameter], shape: torch.Size, group: dict) -> None:
        mean = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in parameters]
        grads = [p.grad for p in parameters]
        torch._foreach_lerp_(mean, grads, 1 - group["momentum"])
        ahead = torch._foreach_lerp(grads, mean, group["momentum"])  # Nesterov: look one step on
        updates = orthogonalise(torch.stack(ahead), dtype=self.dtype)
        move = -group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        if torch.is_tensor(move):
            torch._foreach_add_(parameters, list((move * updates).unbind()))
        else:
            torch._foreach_add_(parameters, list(updates.unbind()), alpha=move)


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The linear maps inside the network, and all the rest (embeddings, gains, biases, rates)."""
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    tables |= {id(p) for name, p in model.named_parameters() if name.endswith("A_log")}
    matrices = [p for p in model.parameters() if p.ndim == 2 and id(p) not in tables]
    chosen = {id(p) for p in matrices}
    return matrices, [p for p in model.parameters() if id(p) not in chosen]

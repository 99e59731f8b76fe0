"""Orthogonalisation against the singular value decomposition, Muon against numpy and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from _support import rng
import bayeswind_lib as bw
from bayeswind_lib.training import Muon, orthogonalise
from bayeswind_lib.training.loop import optimisers
from bayeswind_lib.training.optimiser import QUINTIC, split_parameters

SHAPES = [(12, 12), (12, 30), (30, 12), (1, 7), (7, 1)]


def matrices(shape: tuple[int, int], count: int = 3, seed: int = 0) -> torch.Tensor:
    """Random matrices of very different sizes, float32 (N, rows, columns)."""
    drawn = torch.randn(count, *shape, generator=rng(seed))
    return drawn * torch.logspace(-2, 3, count)[:, None, None]


def quintic(x, rounds: int):
    """The scalar polynomial that the iteration applies to every singular value."""
    a, b, c = QUINTIC
    for _ in range(rounds):
        x = a * x + b * x**3 + c * x**5
    return x


@pytest.mark.parametrize("rounds", [1, 3, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_vectors_stay_and_singular_values_follow_the_quintic(shape, rounds):
    given = matrices(shape)
    got = orthogonalise(given, rounds)
    assert got.shape == given.shape
    assert got.dtype == torch.float32
    left, size, right = torch.linalg.svd(given.double(), full_matrices=False)
    size = size / size.norm(dim=-1, keepdim=True)
    expected = left @ torch.diag_embed(quintic(size, rounds)) @ right
    assert torch.allclose(got.double(), expected, atol=2e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_five_rounds_bring_singular_values_into_the_stated_band(shape):
    """Whatever is not smaller than 0.2 % of the whole ends between 0.68 and 1.21."""
    given = matrices(shape, count=20, seed=1)
    before = torch.linalg.svdvals(given.double())
    after = torch.linalg.svdvals(orthogonalise(given).double())
    counted = before / before.norm(dim=-1, keepdim=True) > 2e-3
    assert counted.sum() > 0.9 * counted.numel()
    assert (after[counted] > 0.68).all()
    assert (after[counted] < 1.21).all()


def test_each_matrix_of_a_stack_is_handled_on_its_own():
    given = matrices((8, 20))
    together = orthogonalise(given)
    apart = torch.cat([orthogonalise(matrix[None]) for matrix in given])
    assert torch.allclose(together, apart, atol=1e-6)


def test_a_zero_matrix_stays_zero():
    assert (orthogonalise(torch.zeros(1, 4, 6)) == 0).all()


def test_bfloat16_is_close_and_returns_the_given_type():
    given = matrices((16, 16))
    rough = orthogonalise(given, dtype=torch.bfloat16)
    assert rough.dtype == torch.float32
    fine = orthogonalise(given)
    error = (rough - fine).norm() / fine.norm()
    assert 1e-4 < error < 0.1  # rough, but the same


def numpy_muon(weight, gradients, lr, momentum, weight_decay):
    """Muon on one matrix, written from its description in numpy, float64."""
    mean = np.zeros_like(weight)
    for gradient in gradients:
        mean = momentum * mean + (1 - momentum) * gradient
        ahead = (1 - momentum) * gradient + momentum * mean
        left, size, right = np.linalg.svd(ahead, full_matrices=False)
        direction = left @ np.diag(quintic(size / np.linalg.norm(size), 5)) @ right
        rows, columns = weight.shape
        scale = max(1.0, rows / columns) ** 0.5
        weight = weight * (1 - lr * weight_decay) - lr * scale * direction
    return weight


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_equal_a_numpy_implementation(shape, weight_decay):
    start = torch.randn(shape, generator=rng(2))
    gradients = torch.randn(6, *shape, generator=rng(3))
    weight = nn.Parameter(start.clone())
    optimiser = Muon([weight], lr=0.1, momentum=0.9, weight_decay=weight_decay)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step()
    expected = numpy_muon(start.double().numpy(), gradients.double().numpy(), 0.1, 0.9, weight_decay)
    np.testing.assert_allclose(weight.detach().numpy(), expected, atol=2e-4)
    assert np.abs(expected - start.numpy()).max() > 0.05


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_agree_with_pytorch_within_bfloat16(shape):
    """`torch.optim.Muon` orthogonalises in bfloat16, hence the tolerance."""
    start = torch.randn(shape, generator=rng(4))
    own, other = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    settings = {"lr": 0.1, "momentum": 0.95, "weight_decay": 0.2}
    pairs = [(own, Muon([own], **settings)), (other, torch.optim.Muon([other], **settings))]
    for seed in range(3):
        for weight, optimiser in pairs:
            weight.grad = torch.randn(shape, generator=rng(seed + 10))
            optimiser.step()
    moved = (other - start).norm()
    assert (own - other).norm() < 0.03 * moved


def test_several_shapes_and_missing_gradients():
    """Matrices of one shape share a stack; each must get its own update, none a neighbour's."""
    start = [torch.randn(s, generator=rng(i)) for i, s in enumerate([(4, 6), (6, 4), (4, 6), (4, 6)])]
    weights = [nn.Parameter(w.clone()) for w in start]
    optimiser = Muon(weights, lr=0.1)
    gradients = [torch.randn(w.shape, generator=rng(20 + i)) for i, w in enumerate(start)]
    for weight, gradient in list(zip(weights, gradients, strict=True))[:3]:
        weight.grad = gradient.clone()
    optimiser.step()
    for weight, old, gradient in list(zip(weights, start, gradients, strict=True))[:3]:
        expected = numpy_muon(old.double().numpy(), gradient.double().numpy()[None], 0.1, 0.95, 0.0)
        np.testing.assert_allclose(weight.detach().numpy(), expected, atol=1e-4)
    assert torch.equal(weights[3].detach(), start[3])  # it had no gradient


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), ()])
def test_what_is_no_matrix_is_refused(shape):
    with pytest.raises(ValueError, match=r"takes matrices only, the rest belongs to AdamW"):
        Muon([nn.Parameter(torch.zeros(shape))], lr=0.1)


def small_model() -> nn.Module:
    recipe = bw.training.recipe("bijection", "transformer", "smoke")
    return bw.training.loop.start(recipe).model


def test_matrices_and_the_rest_are_a_partition():
    model = small_model()
    matrices_, rest = split_parameters(model)
    names = {id(p): name for name, p in model.named_parameters()}
    assert sorted(id(p) for p in matrices_ + rest) == sorted(names)
    chosen = {names[id(p)] for p in matrices_}
    # Queries, keys and values apart: six matrices a layer, no embedding, no gain, no bias.
    inside = ("query", "key", "value", "output", "up", "down")
    assert {name.split(".")[-2] for name in chosen} == set(inside)
    assert len(chosen) == 6 * model.config.n_layers
    assert {names[id(p)] for p in rest} >= {"tokens.weight", "positions.weight", "norm.gain"}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_recipe_gets_its_optimisers_with_its_numbers(kind):
    recipe = bw.training.recipe(
        "bijection", "transformer", "smoke", optimiser=kind, learning_rate=0.003,
        matrix_learning_rate=0.07, weight_decay=0.01, momentum=0.8, betas=(0.8, 0.9),
    )
    model = small_model()
    chosen = optimisers(model, recipe)
    assert sum(len(g["params"]) for o in chosen for g in o.param_groups) == len(list(model.parameters()))
    by_kind = {type(o).__name__: o.param_groups[0] for o in chosen}
    assert by_kind["AdamW"]["peak"] == by_kind["AdamW"]["lr"] == 0.003
    assert by_kind["AdamW"]["betas"] == (0.8, 0.9)
    assert by_kind["AdamW"]["weight_decay"] == 0.01
    assert set(by_kind) == ({"AdamW"} if kind == "adamw" else {"AdamW", "Muon"})
    if kind == "muon":
        muon = by_kind["Muon"]
        assert (muon["peak"], muon["momentum"], muon["weight_decay"]) == (0.07, 0.8, 0.01)


def test_on_the_cpu_in_float32_orthogonalisation_is_float32():
    chosen = optimisers(small_model(), bw.training.recipe("bijection", "transformer", "smoke"))
    assert [o.dtype for o in chosen if isinstance(o, Muon)] == [torch.float32]

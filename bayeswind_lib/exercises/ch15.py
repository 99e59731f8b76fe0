"""Checks for chapter 15, "The gradient of attention".

Every check states properties and tries them on random instances: what autograd says, what rows sum
to, what a change of basis leaves alone. No answer is compared with a key.

Axes: H query heads, G key-value heads, T positions, D channels of the inputs, C of a query or key, V of a value.
"""

from __future__ import annotations

import math

import torch

from bayeswind_lib.exercises.core import Report, grade


def _draw(seed: int, *shapes: tuple[int, ...]) -> list[torch.Tensor]:
    """Normal numbers in float64, one tensor a shape."""
    rng = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]


def _pattern(seed: int, *batch: int, n: int = 5) -> torch.Tensor:
    """Causal attention weights, (..., n, n)."""
    (scores,) = _draw(seed, (*batch, n, n))
    return (2 * scores).masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf).softmax(-1)


def _near(a, b, slack: float = 1e-9) -> bool:
    a = torch.as_tensor(a, dtype=torch.float64)
    return a.shape == b.shape and bool((a - b).abs().max() < slack)


# --- the law of routing ------------------------------------------------------------------------


def check_score_gradient(answer) -> Report:
    """Grade `my_score_gradient(pattern, b)`: the gradient at the scores (T, T), from that at the weights."""
    (scores, b) = _draw(1, (5, 5), (5, 5))
    pattern = _pattern(1)

    def says(p=pattern, slope=b):
        return torch.as_tensor(answer(p.clone(), slope.clone()), dtype=torch.float64)

    def shape():
        got = says()
        return None if got.shape == (5, 5) else f"a gradient has the shape of the scores, (5, 5); yours has {tuple(got.shape)}"

    def rows():
        got = says().sum(-1).abs().max()
        if got < 1e-9:
            return None
        said = f"a constant added to a row of scores changes no weight, so each row sums to 0; one of yours sums to {float(got):.3g}"
        if _near(says(), pattern * b):
            return said + ": subtract what the query gets now"
        if _near(says(), b - (pattern * b).sum(-1, keepdim=True)):
            return said + ": each entry is weighed by its own attention"
        seen = (pattern > 0).double()
        if _near(says(), pattern * (b - (seen * b).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True))) or _near(
            says(), pattern * (b - b.mean(-1, keepdim=True))
        ):
            return said + ": the mean is the one under the attention weights, not the plain one"
        return said

    def slope():
        s = (2 * scores).masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -math.inf).requires_grad_()
        (s.softmax(-1) * b).sum().backward()
        want = s.grad
        if _near(says(), want):
            return None
        if _near(says(), -want):
            return "that is the advantage, weighed: the gradient has the other sign, and descent subtracts it"
        if _near(says(), want.T):
            return "rows are queries: yours are keys"
        return "rows sum to 0, but this is not the slope that autograd finds"

    return grade("my_score_gradient", [shape, rows, slope])


# --- who moves how far -------------------------------------------------------------------------


def check_value_step(answer) -> Report:
    """Grade `my_value_step(pattern, upstream, rate)`: how far each value moves, (T, V)."""

    def one_user():
        """Three queries, all attention on the first value; only the third query has an error."""
        pattern = torch.tensor([[1.0, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=torch.float64)
        upstream = torch.tensor([[0.0, 0], [0, 0], [2, -4]], dtype=torch.float64)
        got = torch.as_tensor(answer(pattern, upstream, 0.5), dtype=torch.float64)
        if got.shape != (3, 2):
            return f"three values in a plane move by a tensor of shape (3, 2), yours has {tuple(got.shape)}"
        if torch.isnan(got).any():
            return "two values are not looked at: they do not move, yours are NaN (no division is needed)"
        want = torch.tensor([[-1.0, 2], [0, 0], [0, 0]], dtype=torch.float64)
        if _near(got, want):
            return None
        if _near(got, -want):
            return "descent subtracts: the value moves against the error"
        if _near(got, 2 * want):
            return "the rate is missing"
        if _near(got, want / 3):
            return "the step is not divided by how much the value is used: that would be the step of a mean"
        if got[2].abs().sum() > 0:
            return "the third value moves, but nobody looks at it: sum over the queries, for each key"
        return f"only the first value is used, and only query 3 errs: it moves by (-1, 2), you say {got[0].tolist()}"

    def popular():
        """Twice as many queries with the same error: twice the step."""
        pattern, (u,) = torch.full((4, 4), 0.25, dtype=torch.float64), _draw(3, (3,))
        few = torch.zeros(4, 3, dtype=torch.float64)
        few[0] = u
        one = torch.as_tensor(answer(pattern, few, 1.0), dtype=torch.float64)
        both = torch.as_tensor(answer(pattern, few + few.roll(1, 0), 1.0), dtype=torch.float64)
        if _near(both, 2 * one) and one.abs().max() > 0:
            return None
        return "a second query with the same error doubles the step; yours does not double"

    def slope():
        pattern, (values, target) = _pattern(4), _draw(4, (5, 3), (5, 3))
        v = values.clone().requires_grad_()
        (((pattern @ v) - target).square().sum() / 2).backward()
        got = torch.as_tensor(answer(pattern, (pattern @ values - target), 0.1), dtype=torch.float64)
        return None if _near(got, -0.1 * v.grad) else "on random attention this is not the rate times the slope that autograd finds"

    return grade("my_value_step", [one_user, popular, slope])


# --- heads that share a key and a value --------------------------------------------------------


def check_shared(answer) -> Report:
    """Grade `my_shared(pattern, upstream, n_groups)`: gradient at values that H / G heads in a row share, (G, T, V)."""
    H, G, T, V = 6, 2, 4, 3
    pattern = _pattern(5, H, n=T)
    values, target = _draw(6, (G, T, V), (H, T, V))

    def slope():
        v = values.clone().requires_grad_()
        heard = pattern @ v.repeat_interleave(H // G, 0)
        ((heard - target).square().sum() / 2).backward()
        upstream = (heard - target).detach()
        got = torch.as_tensor(answer(pattern.clone(), upstream.clone(), G), dtype=torch.float64)
        if got.shape != (G, T, V):
            return f"there are {G} value heads: the gradient has shape {(G, T, V)}, yours has {tuple(got.shape)}"
        if _near(got, v.grad):
            return None
        each = pattern.transpose(-2, -1) @ upstream
        if _near(got, v.grad / (H // G)):
            return "heads that share a value *add* their errors: yours are averaged"
        if _near(got, each.unflatten(0, (H // G, G)).sum(0)):
            return "the heads of a group stand side by side: 0, 1, 2 share the first value head, not 0, 2, 4"
        if _near(got, each[:: H // G]):
            return "only the first head of each group has been heard"
        if _near(got, (pattern @ upstream).unflatten(0, (G, -1)).sum(1)):
            return "sum over queries: the pattern has to be turned round"
        return "this is not the gradient that autograd finds at the shared values"

    def no_sharing():
        upstream = target
        got = torch.as_tensor(answer(pattern.clone(), upstream.clone(), H), dtype=torch.float64)
        return None if _near(got, pattern.transpose(-2, -1) @ upstream) else "with as many value heads as query heads nothing is summed over heads"

    return grade("my_shared", [slope, no_sharing])


# --- the gain of a step ------------------------------------------------------------------------


def check_gain(answer) -> Report:
    """Grade `my_gain(pattern, upstream, rate)`: predicted change of the loss when the values take a step, a number."""

    def quadratic():
        """A loss that is linear in the contexts: the first order is all there is."""
        for seed in (7, 8):
            pattern, (upstream,) = _pattern(seed), _draw(seed, (5, 3))
            moved = pattern @ (-0.1 * pattern.T @ upstream)
            want = float((moved * upstream).sum())
            got = float(answer(pattern.clone(), upstream.clone(), 0.1))
            if abs(got - want) < 1e-9:
                continue
            said = f"with a loss that is linear in the contexts the change is {want:.4f}; you say {got:.4f}"
            if abs(got + want) < 1e-9:
                return said + ": a step of descent lowers the loss"
            if abs(got - 10 * want) < 1e-9:
                return said + ": the rate"
            if abs(got + 0.1 * float(upstream.square().sum())) < 1e-9:
                return said + ": the contexts do not move freely, only the values do"
            if abs(got + 0.1 * float((pattern @ upstream).square().sum())) < 1e-9:
                return said + ": a value hears the queries that look at it; turn the pattern round"
            if abs(got + 0.1 * float((pattern.T @ upstream).norm())) < 1e-9:
                return said + ": the square of the length"
            return said
        return None

    def never_above():
        for seed in range(9, 14):
            pattern, (upstream,) = _pattern(seed), _draw(seed, (5, 3))
            if float(answer(pattern, upstream, 0.3)) > 0:
                return "for some errors your change is above 0: a small step of descent never raises the loss"
        return None

    return grade("my_gain", [quadratic, never_above])


# --- what moves in a network -------------------------------------------------------------------


def check_through_map(answer) -> Report:
    """Grade `my_through_map(inputs, pattern, upstream, rate)`: how values move if the value map takes the step, (T, V)."""
    T, D, V = 5, 3, 4
    inputs, weight, upstream = _draw(15, (T, D), (D, V), (T, V))
    pattern = _pattern(15, n=T)

    def says(x=inputs):
        return torch.as_tensor(answer(x.clone(), pattern.clone(), upstream.clone(), 0.1), dtype=torch.float64)

    def step():
        w = weight.clone().requires_grad_()
        (upstream * (pattern @ (inputs @ w))).sum().backward()
        want = inputs @ (weight - 0.1 * w.grad) - inputs @ weight
        got = says()
        if got.shape != (T, V):
            return f"{T} values move by a tensor of shape {(T, V)}, yours has {tuple(got.shape)}"
        if _near(got, want):
            return None
        if _near(got, -0.1 * pattern.T @ upstream):
            return "that is the step of values that are free: here the map moves, and all tokens share it"
        if _near(got, -want):
            return "descent subtracts"
        if _near(got, want / 0.1):
            return "the rate is missing"
        if _near(got, -0.1 * inputs @ inputs.T @ pattern @ upstream):
            return "a value hears the queries that look at it: turn the pattern round"
        return "the value map takes a step against its gradient, and the values it makes do not move as you say"

    def strangers():
        """Inputs at right angles and of length 1: the map moves each value alone."""
        eye = torch.eye(T, dtype=torch.float64)
        return None if _near(says(eye), -0.1 * pattern.T @ upstream) else "tokens whose inputs are orthonormal do not disturb each other: then values move as if free"

    return grade("my_through_map", [step, strangers])


# --- a basis nobody sees -----------------------------------------------------------------------


def check_rescaled(answer) -> Report:
    """Grade `my_rescaled(value, output, c)`: maps (value, output) whose values are c times as long, with the same answer."""
    D, V, Y = 4, 3, 5
    value, output, x = _draw(16, (D, V), (V, Y), (6, D))

    def says(c=2.5):
        got = answer(value.clone(), output.clone(), c)
        if not isinstance(got, tuple | list) or len(got) != 2:
            raise ValueError("give two maps, value and output")
        return [torch.as_tensor(m, dtype=torch.float64) for m in got]

    def values():
        v, _ = says()
        if v.shape != (D, V):
            return f"the value map has shape {(D, V)}, yours has {tuple(v.shape)}"
        if _near(v, 2.5 * value):
            return None
        if _near(v, value / 2.5):
            return "values become c times as long: yours become shorter"
        return "the new value map is not c times the old one"

    def same_answer():
        v, o = says()
        if _near(x @ v @ o, x @ value @ output):
            return None
        if _near(o, output):
            return "the answer is c times as large: the output map has to undo it"
        if _near(o, 2.5 * output):
            return "both maps were made longer: the answer is c * c times as large"
        return "the answer is another one"

    def rates():
        """One step at rate 1 of the new maps moves the answer as steps at c^2 and 1 / c^2 would move the old one."""
        v, o = (m.clone().requires_grad_() for m in says(2.0))
        (x @ v @ o).sum().backward()
        old = [m.clone().requires_grad_() for m in (value, output)]
        (x @ old[0] @ old[1]).sum().backward()
        ratio = float(v.grad.norm() / old[0].grad.norm()), float(o.grad.norm() / old[1].grad.norm())
        return None if abs(ratio[0] - 0.5) < 1e-9 and abs(ratio[1] - 2) < 1e-9 else (
            f"with values twice as long the gradient at the value map is half, at the output map twice; yours are {ratio[0]:.3g} and {ratio[1]:.3g} times"
        )

    return grade("my_rescaled", [values, same_answer, rates])

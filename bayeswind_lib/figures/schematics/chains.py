"""A hidden Markov model as a graph, as a chain, and the filter that follows it.

Hidden states are purple, what is observed orange; the exact belief has a dashed outline.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayeswind_lib.figures.schematics.drawing import Drawing
from bayeswind_lib.figures.schematics.sheet import Sheet, drawing

HIDDEN, SEEN = "purple", "orange"
EMISSION = ((0.7, 0.2, 0.1), (0.15, 0.7, 0.15), (0.1, 0.3, 0.6))
TRANSITION = ((0.6, 0.3, 0.1), (0.1, 0.7, 0.2), (0.3, 0.2, 0.5))


def hmm_graph() -> Drawing:
    """A hidden Markov model as a graph: three states, moves between them, and what each one shows."""

    def paint(s: Sheet) -> None:
        y, radius, spread = 142, 24, s.pick(190, 100)
        xs = [s.width / 2 + n * spread for n in (-1, 0, 1)]
        for n, x in enumerate(xs):
            s.circle((x, y), radius, str(n), HIDDEN)
            s.loop((x, y), radius, (180, 90, 0)[n], HIDDEN)
            s.arrow((x, y + radius + 4), (x, y + radius + 34), SEEN)
            s.bars(x - 36, y + radius + 92, 72, 48, EMISSION[n], SEEN, labels="abc", top=0.8)
        for i, j in ((0, 1), (1, 0), (1, 2), (2, 1)):
            d = 1 if j > i else -1
            s.arrow((xs[i] + d * (radius + 1), y - 7 * d), (xs[j] - d * (radius + 4), y - 7 * d), HIDDEN, bend=s.pick(7, 4))
        for a, b, up in ((xs[0] + 7, xs[2] - 7, 76), (xs[2] + 7, xs[0] - 7, -98)):
            s.arrow((a, y - radius - 2), (b, y - radius - 4), HIDDEN, bend=up)
        s.text(((xs[0] + xs[1]) / 2, y - 28), "*T*_{01}")
        s.text(((xs[0] + xs[1]) / 2, y + 28), "*T*_{10}")
        s.note((s.width / 2, y + radius + 128), s.pick("moves by the rows of *T*; shows a, b or c by the rows of *E*", "moves by *T*, shows a, b or c by *E*"))

    alt = (
        "Three hidden states 0, 1, 2 in circles. Arrows lead from every state to every other one and back to itself: the "
        "transition probabilities T. Under each state an arrow leads to bars: the probabilities E with which it shows a, b or c."
    )
    return drawing("A hidden Markov model as a graph", alt, paint)


def hmm_chain(n_steps: int = 4) -> Drawing:
    """The same model unrolled in time: hidden states above, observations below.

    Args:
        n_steps: steps that are drawn, 2 to 4.
    """

    def paint(s: Sheet) -> None:
        radius, left = 23, s.pick(110, 0)
        step = (s.width - left - s.pick(100, 90)) / (n_steps - 1)
        top, below = s.pick(40, 58), s.pick(128, 142)
        for n in range(n_steps):
            x = left + 45 + n * step
            s.circle((x, top), radius, f"*s*_{{{n + 1}}}", HIDDEN)
            s.box(x - radius, below - 18, 2 * radius, 36, f"*o*_{{{n + 1}}}", SEEN)
            s.arrow((x, top + radius + 3), (x, below - 21), SEEN)
            if n < n_steps - 1:
                s.arrow((x + radius + 3, top), (x + step - radius - 3, top), HIDDEN)
        s.text((left + 45 + step / 2, top - 14), "*T*")
        s.text((left + 45 + 14, (top + below) / 2), "*E*", anchor="start")
        if s.narrow:
            s.note((s.left + 8, 18), "hidden", "start")
            s.note((s.left + 8, below + 34), "observed", "start")
        else:
            s.note((s.left, top), "hidden", "start")
            s.note((s.left, below), "observed", "start")

    alt = (
        f"A chain in time. Above, hidden states s1 to s{n_steps}, each with an arrow T to the next one. Below, the observations o1 to "
        f"o{n_steps}; an arrow E leads down to each from the state of its step. Nothing else connects them."
    )
    return drawing("The chain, unrolled", alt, paint)


def normalised(weights: Sequence[float]) -> list[float]:
    """The same numbers with sum 1."""
    return [w / sum(weights) for w in weights]


def filter_step() -> Drawing:
    """One step of the forward filter: predict through the transition matrix, then weigh by the emission."""
    before = [0.15, 0.75, 0.1]
    moved = [sum(b * t[j] for b, t in zip(before, TRANSITION, strict=True)) for j in range(3)]
    likelihood = [e[2] for e in EMISSION]
    after = normalised([m * q for m, q in zip(moved, likelihood, strict=True)])
    charts = (
        (before, HIDDEN, True, "the belief\nbefore"), (moved, HIDDEN, False, "the predicted\nbelief"),
        (likelihood, SEEN, False, "how well each\nexplains *o*_{t}"), (after, HIDDEN, True, "the belief\nnow"),
    )  # fmt: skip

    def paint(s: Sheet) -> None:
        width, tall = s.pick(104, 96), 76
        for n, (values, colour, exact, words) in enumerate(charts):
            if s.narrow:
                x, base = (s.left + 14, s.right - 14 - width)[n % 2], 100 + 170 * (n // 2)
            else:
                x, base = s.left + n * (width + 66), 104
            s.bars(x, base, width, tall, values, colour, dashed=exact, top=0.8, labels=["1", "2", "3"])
            s.text((x + width / 2, base + 42), words, s.pick(None, 14))
            if n == 3:
                continue
            middle, y = x + width + s.pick(33, (s.width - 2 * width - 52) / 2), base - tall / 2
            if n == 1:
                s.text(s.pick((middle, y), (s.left + 2, y + 170)), "×", 22)
                continue
            s.arrow((middle - 24, y), (middle + 24, y))
            s.text((middle, y - 18), ("*T*", "", "sum 1")[n], s.pick(15, 14) if n == 0 else 13)

    alt = (
        "Four bar charts over three states. The belief before goes through the transition matrix T and becomes a prediction, "
        "which is flatter. The prediction is multiplied by how well each state explains the new observation. After "
        "normalisation that is the belief now."
    )
    return drawing("Predict, then update", alt, paint)

"""What a network reads in each of the four tasks, and where its answers are scored.

Keys are blue, values orange, what is asked green; an exact answer has a dashed outline.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from bayeswind_lib.figures.schematics.drawing import Drawing
from bayeswind_lib.figures.schematics.sheet import Rect, Sheet, drawing

KEY, VALUE, ASKED, OUT = "blue", "orange", "green", "quiet"


def row(
    s: Sheet, x: float, y: float, width: float, gap: float, items: Sequence[tuple[str, str]], size: float | None = None
) -> list[Rect]:
    """Tokens side by side, each with its words and colour; "…" alone has no box."""
    found, height = [], 34.0
    for n, (words, colour) in enumerate(items):
        left = x + n * (width + gap)
        if words == "…":
            s.text((left + width / 2, y + height / 2), words)
            found.append(Rect(left, y, width, height))
        else:
            found.append(s.box(left, y, width, height, words, colour, size=size))
    return found


def ask(s: Sheet, token: Rect, reach: float = 26) -> tuple[float, float]:
    """A green arrow out of a scored token; where it ends."""
    x, y = token.bottom
    s.arrow((x, y + 4), (x, y + reach), ASKED, width=2)
    return x, y + reach


def bell(s: Sheet, x: float, base: float, half: float, height: float, spread: float) -> None:
    """The exact Gaussian answer around `x`: a dashed bell, `spread` of the room wide."""
    at = [half * n / 24 for n in range(-24, 25)]
    curve = [(x + a, base - height * math.exp(-0.5 * (a / (spread * half)) ** 2)) for a in at]
    s.line(curve, "ink", 2.0, dashed=True)
    s.line([(x - half, base), (x + half, base)], "quiet", 1.5)


def bijection_layout(n_pairs: int = 4) -> Drawing:
    """The tokens of the bijection task: pairs of a key and a value, an answer scored at every key.

    Args:
        n_pairs: how many pairs are drawn, 2 to 4; as many values exist.
    """

    def paint(s: Sheet) -> None:
        names = [(f"*{x}*_{{{n}}}", colour) for n in range(1, n_pairs + 1) for x, colour in (("x", KEY), ("y", VALUE))][:-1]
        gap = s.pick(14, 8)
        width = min(72, (s.right - s.left + gap) / len(names) - gap)
        x = (s.width - len(names) * (width + gap) + gap) / 2
        boxes = row(s, x, 40, width, gap, names)
        for words, box in zip(("key", "value"), boxes, strict=False):
            s.note((box.middle[0], 26), words)
        base = 164
        for k, box in enumerate(boxes[::2]):
            end = ask(s, box)
            left = [1 / (n_pairs - k) if v >= k else 0.0 for v in range(n_pairs)]
            s.bars(end[0] - width / 2 - 3, base, width + 6, base - end[1] - 8, left, VALUE, dashed=True)
        s.note((s.width / 2, base + 22), s.pick("the exact answer: every value not seen yet, equally likely", "exact: every value not seen yet,\nequally likely"))

    alt = (
        f"A row of tokens: key x1, value y1, key x2, value y2, and so on to key x{n_pairs}. An answer is scored at every key. "
        f"Under each key the exact answer is drawn as bars: uniform over {n_pairs} values at the first key, one value fewer "
        "after every pair, and one bar at the last."
    )
    return drawing("Tokens of the bijection task", alt, paint)


def hmm_layout(n_states: int = 3) -> Drawing:
    """The tokens of the HMM task: a header of the matrices' rows, then observations, each scored.

    Args:
        n_states: rows of each matrix, 2 or 3.
    """
    beliefs = ((0.2, 0.7, 0.1), (0.6, 0.3, 0.1), (0.15, 0.25, 0.6))

    def paint(s: Sheet) -> None:
        header = [(f"*{m}*_{{{n}}}", colour) for m, colour in (("T", "purple"), ("E", VALUE)) for n in range(1, n_states + 1)]
        seen = [("*o*_{1}", VALUE), ("*o*_{2}", VALUE), ("…", OUT), ("*o*_{K}", VALUE)]
        gap = s.pick(10, 8)
        width = s.pick(50, 43)
        top = row(s, s.left, 42, width, gap, header)
        places = (top[-1].x + width + s.pick(34, 0), 42) if not s.narrow else (s.left + 51, 138)
        below = row(s, *places, width, gap, seen)
        s.note((s.left, 26), "header: rows of the two matrices", "start")
        s.note((below[0].x, places[1] - 16), "observations", "start")
        for n, words in enumerate(("transition", "emission")):
            middle = (top[n * n_states].x + top[(n + 1) * n_states - 1].x + width) / 2
            s.note((middle, 92), words)
        base = places[1] + 128
        for box, belief in zip([below[0], below[1], below[3]], beliefs, strict=True):
            end = ask(s, box)
            s.bars(end[0] - width / 2 + 1, base, width - 2, base - end[1] - 8, belief[:n_states], "purple", dashed=True, top=0.75)
        at, words = s.pick(((below[0].x - 18, base - 16), "the exact belief\nabout the state now"), ((s.width / 2, base + 20), "the exact belief about the state now"))
        s.note(at, words, s.pick("end", "middle"))

    alt = (
        f"A row of tokens. First a header: {n_states} rows of the transition matrix T and {n_states} rows of the emission matrix E, "
        "one token a row. Then the observations o1, o2, up to oK. An answer is scored at every observation and nowhere in the "
        "header: the belief about the hidden state now, drawn as bars over the states."
    )
    return drawing("Tokens of the HMM task", alt, paint)


def regression_layout(n_dims: int = 3) -> Drawing:
    """The tokens of the regression task: a vector x, a number y, and so on; an answer scored at every x.

    Args:
        n_dims: entries of x that are drawn, 1 to 4.
    """

    def paint(s: Sheet) -> None:
        gap, width = s.pick(26, 12), s.pick(56, 42)
        names = ["*x*_{1}", "*y*_{1}", "*x*_{2}", "*y*_{2}", "…", "*x*_{K}"]
        x, top = (s.width - 6 * width - 5 * gap) / 2, 46
        for n, words in enumerate(names):
            left, tall = x + n * (width + gap), 20 * n_dims
            if words == "…":
                s.text((left + width / 2, top + tall / 2), words)
                continue
            cells = n_dims if "x" in words else 1
            first = top + (tall - 20 * cells) / 2
            for c in range(cells):
                s.box(left + (width - 26) / 2, first + 20 * c, 26, 20, colour=KEY if cells > 1 or "x" in words else VALUE)
            s.text((left + width / 2, top - 16), words)
        base = top + 20 * n_dims + 94
        for n, spread in ((0, 0.55), (2, 0.32), (5, 0.15)):
            box = Rect(x + n * (width + gap), top, width, 20 * n_dims)
            ask(s, box)
            bell(s, box.middle[0], base, (width + gap) / 2 - 2, 56, spread)
        s.note((s.width / 2, base + 22), s.pick("the exact answer: a Gaussian that narrows with every pair", "exact: a Gaussian that narrows\nwith every pair"))

    alt = (
        f"A row of tokens: a vector x1 with {n_dims} entries, a number y1, x2, y2, and so on to xK. An answer is scored at every x: "
        "the exact one is a Gaussian over y, wide at x1, narrower at x2, and narrow at xK."
    )
    return drawing("Tokens of the regression task", alt, paint)


def recall_layout() -> Drawing:
    """The tokens of associative recall: stored pairs, filler, then a question about a stored key."""

    def paint(s: Sheet) -> None:
        mark = [("store", OUT), ("*k*_{1}", KEY), ("sep", OUT), ("*v*_{1}", VALUE)]
        more = [("store", OUT), ("*k*_{2}", KEY), ("sep", OUT), ("*v*_{2}", VALUE)]
        query = [("query", ASKED), ("*k*_{2}", KEY), ("pad", OUT)]
        if s.narrow:
            width, gap, first = 66, 12, 30
            row(s, s.left + 8, first, width, gap, mark)
            stored = row(s, s.left + 8, first + 46, width, gap, more)
            s.text((s.left + 24, first + 104), "…")
            asked = row(s, s.left + 8, first + 148, width, gap, query)
        else:
            width, gap = 51, 4
            boxes = row(s, s.left + 8, 88, width, gap, [*mark, *more, *query], 13)
            stored, asked = boxes[4:8], boxes[8:]
        qx, qy = asked[1].top
        kx, ky = s.pick(stored[1].top, stored[1].bottom)
        s.arrow((qx, qy - 4), (kx, ky + s.pick(-4, 4)), KEY, bend=s.pick(-38, 0))
        s.note(*s.pick((((kx + qx) / 2, 30), "the same key", "middle"), ((qx + 12, (ky + qy) / 2), "the same key", "start")))
        end = ask(s, asked[2])
        s.box(end[0] - width / 2, end[1] + 4, width, 34, "*v*_{2}", VALUE, dashed=True)
        s.note((end[0] - width / 2 - 12, end[1] + 21), "scored: its value", "end")
        s.note((s.left + 8, s.pick(72, 16)), "stored pairs", "start")

    alt = (
        "A row of tokens. Stored pairs come first: store, key k1, sep, value v1, then store, key k2, sep, value v2, and more. "
        "Then a question: query, key k2, pad. An arrow leads from the key in the question back to the same key among the "
        "stored pairs. The answer, value v2, is scored at pad."
    )
    return drawing("Tokens of the recall task", alt, paint)

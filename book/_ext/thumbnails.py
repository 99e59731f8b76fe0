"""A small drawing of each chapter's idea, for the map on the landing page.

Each is an inline SVG 120 wide and 72 high. Classes stand for the palette of book.css: `n` the
network (blue), `x` the exact answer (dashed ink), `v`, `g`, `o` vermilion, green, orange, `q` what
is quiet; a capital letter fills instead of drawing a line. They are decoration: a card has words.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable

WIDTH, HEIGHT = 120, 72
Point = tuple[float, float]


def thumbnail(number: int) -> str:
    """The drawing of a chapter, as inline SVG that screen readers pass over."""
    drawn = "".join(DRAWINGS[number - 1]())
    return f'<svg class="bw-thumb" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{drawn}</svg>'


# ---- strokes ------------------------------------------------------------------------------------


def line(kind: str, points: Iterable[Point]) -> str:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="{kind}" d="M{path}"/>'


def dot(kind: str, x: float, y: float, r: float = 4) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r:g}"/>'


def bar(kind: str, x: float, y: float, width: float, height: float, round_: float = 2) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_:g}"'
    return f'<rect class="{kind}" {place}/>'


def bars(
    kind: str, heights: Iterable[float], left: float = 14, step: float = 19, width: float = 12
) -> str:
    return "".join(bar(kind, left + step * i, 62 - h, width, h) for i, h in enumerate(heights))


def stairs(kind: str, heights: Iterable[float], left: float = 10, step: float = 10) -> str:
    points = [(left + step * (i + end), 64 - h) for i, h in enumerate(heights) for end in (0, 1)]
    return line(kind, points)


def arrow(kind: str, a: Point, b: Point, gap: float = 8) -> str:
    """From one point towards another, ending short of both, with a head."""
    angle = math.atan2(b[1] - a[1], b[0] - a[0])
    start, end = (
        (p[0] + s * gap * math.cos(angle), p[1] + s * gap * math.sin(angle))
        for p, s in ((a, 1), (b, -1))
    )
    head = [
        (end[0] - 6 * math.cos(angle + t), end[1] - 6 * math.sin(angle + t)) for t in (0.5, -0.5)
    ]
    return line(kind, [start, end]) + line(kind, [head[0], end, head[1]])


def curve(kind: str, f: Callable[[float], float], n: int = 32) -> str:
    """y = 64 - f(t) over the whole width, t from 0 to 1."""
    return line(kind, [(10 + 100 * i / n, 64 - f(i / n)) for i in range(n + 1)])


def bell(middle: float, width: float, height: float) -> Callable[[float], float]:
    return lambda t: height * math.exp(-(((t - middle) / width) ** 2))


def thread(kind: str, a: int, b: int, more: str = "") -> str:
    """From key a to value b."""
    start, end = 12 + 16 * a, 12 + 16 * b
    return f'<path class="{kind}"{more} d="M32 {start}C60 {start} 60 {end} 88 {end}"/>'


def cell(p: float, x: float, y: float, size: float) -> str:
    return f'<g opacity="{0.1 + 0.9 * p:.2f}">{bar("N", x, y, size - 2, size - 2)}</g>'


def grid(
    rows: Iterable[Iterable[float]], left: float = 32, top: float = 8, size: float = 14
) -> str:
    """Cells of a pattern of attention, the darker the more."""
    places = ((i, j, p) for i, row in enumerate(rows) for j, p in enumerate(row))
    return "".join(cell(p, left + size * j, top + size * i, size) for i, j, p in places)


TRIANGLE = [(60, 6), (18, 66), (102, 66)]


def inside(a: float, b: float) -> Point:
    """A point of the triangle, by the shares of its first two corners."""
    c = 1 - a - b
    return tuple(a * p + b * q + c * r for p, q, r in zip(*TRIANGLE, strict=True))


# ---- chapters -----------------------------------------------------------------------------------


def bayesian():
    yield bars("N", [16, 30, 48, 24, 12])
    yield "".join(bar("x", 12 + 19 * i, 62 - h, 16, h) for i, h in enumerate([18, 26, 51, 21, 12]))


def tunnel():
    yield "".join(thread("q", *pair) for pair in ((0, 2), (1, 0), (3, 1)))
    yield thread("v", 2, 3, ' stroke-dasharray="4 3"')
    for k in range(4):
        yield dot("V" if k == 2 else "Q", 28, 12 + 16 * k, 5)
        yield dot("o" if k == 3 else "N", 92, 12 + 16 * k, 5)


def training():
    yield curve("q", lambda t: 8)
    yield curve("n", lambda t: 8 + 48 * math.exp(-5 * t) + 2.2 * math.sin(40 * t) * (1 - t))
    yield curve("x", lambda t: 6)


def hmm():
    states = [(22, 18), (60, 18), (98, 18)]
    yield "".join(arrow("q", a, b, 11) for a, b in zip(states, states[1:], strict=False))
    yield "".join(arrow("v", s, (s[0], 58), 10) for s in states)
    yield "".join(dot("g", *s, 9) for s in states) + "".join(
        bar("V", s[0] - 6, 52, 12, 12) for s in states
    )


def filtering():
    path = [
        inside(a, b)
        for a, b in [(0.33, 0.33), (0.6, 0.2), (0.8, 0.12), (0.5, 0.42), (0.2, 0.7), (0.1, 0.82)]
    ]
    yield line("q", [*TRIANGLE, TRIANGLE[0]])
    yield line("n", path) + line("x", [(x + 2.5, y + 2) for x, y in path])
    yield dot("N", *path[-1], 5)


def regression():
    yield curve("n", bell(0.36, 0.16, 46)) + curve("x", bell(0.38, 0.17, 44))
    yield "".join(dot("V", 10 + 100 * t, 64, 3) for t in (0.2, 0.3, 0.42, 0.5))
    yield bar("o", 88, 16, 22, 14, 4) + arrow("o", (99, 56), (99, 28), 4)


def mlp():
    for i in range(4):
        x = 20 + 27 * i
        yield dot("Q", x, 60, 5) + arrow("q", (x, 60), (x, 12), 8) + dot("n", x, 12, 5)
    yield (
        '<path class="v" stroke-dasharray="4 3" d="M26 38H96"/>'
        + line("v", [(56, 32), (66, 44)])
        + line("v", [(66, 32), (56, 44)])
    )


def recurrent():
    cells = [(22, 34), (60, 34), (98, 34)]
    for a, b in zip(cells, cells[1:], strict=False):
        yield arrow("n", a, b, 13)
    yield "".join(bar("P", x - 10, y - 10, 20, 20, 4) for x, y in cells)
    yield "".join(
        arrow("q", (x, 72), (x, 44), 2) + arrow("q", (x, 24), (x, -2), 2) for x, _ in cells
    )


def keys():
    middle = (60, 62)
    for turn, kind in ((-90, "n"), (-150, "n"), (-30, "n"), (-112, "v")):
        angle = math.radians(turn)
        yield arrow(kind, middle, (60 + 54 * math.cos(angle), 62 + 54 * math.sin(angle)), 3)
    yield line("q", [(60, 50), (66, 46), (71, 54)])


def routing():
    yield grid([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.05, 0.9, 0.05, 0], [0.3, 0.05, 0.6, 0.05]])


def values():
    dots = random.Random(4)
    yield "".join(
        dot(
            "N",
            12 + 96 * t + dots.gauss(0, 1.5),
            60 - 52 * (1 - (2 * t - 1) ** 2) + dots.gauss(0, 2),
            2.6,
        )
        for t in (i / 22 for i in range(23))
    )
    yield line("x", [(12, 30), (108, 30)])


def used():
    for layer in range(3):
        for head in range(5):
            cut = (layer, head) in {(0, 3), (2, 1)}
            yield bar("v" if cut else "N", 18 + 18 * head, 8 + 21 * layer, 13, 14, 3)
    yield line("v", [(74, 6), (85, 24)]) + line("v", [(38, 48), (49, 66)])


def beliefs():
    dots = random.Random(1)
    yield line("q", [*TRIANGLE, TRIANGLE[0]])
    for _ in range(46):
        a, b = sorted((dots.random(), dots.random()))
        shares = (a, b - a, 1 - b)
        x, y = inside(*shares[:2])
        yield dot(("N", "V", "G")[shares.index(max(shares))], x, y, 2.2)


def progress():
    yield curve("n", lambda t: 50 / (1 + math.exp(-16 * (t - 0.3))) + 6)
    yield curve("v", lambda t: 50 / (1 + math.exp(-14 * (t - 0.62))) + 6)
    yield line("x", [(40, 6), (40, 66)]) + line("x", [(72, 6), (72, 66)])


def gradient():
    for reach in (14, 24, 34):
        yield f'<ellipse class="q" cx="72" cy="40" rx="{reach * 1.25:g}" ry="{reach * 0.8:g}"/>'
    path = [(16, 8), (38, 18), (50, 30), (62, 36), (72, 40)]
    yield line("n", path) + "".join(dot("N", *p, 3) for p in path)


def em():
    yield curve("q", lambda t: 8 + 50 * math.exp(-2.2 * t))
    yield curve("v", lambda t: 8 + 50 * math.exp(-6 * t))
    yield dot("V", 47, 64 - 8 - 50 * math.exp(-2.2), 4) + dot(
        "Q", 106, 64 - 8 - 50 * math.exp(-2.15), 4
    )


def language():
    words = [(12, 30), (48, 18), (72, 34)]
    yield "".join(bar("Q", x, 56, w, 9, 4) for x, w in words)
    yield "".join(
        f'<path class="n" d="M{x + w / 2:.0f} 54Q{(x + w / 2 + 89) / 2:.0f} {y} 89 54"/>'
        for (x, w), y in zip(words[:2], (-6, 22), strict=True)
    )
    yield dot("V", 89, 46, 4)


def sula():
    for i, h in enumerate((0.5, 0.62, 0.74, 0.84, 0.92)):
        yield bar("N", 14 + 19 * i, 62 - 50 * h, 12, 50 * h)
        yield bar("o", 14 + 19 * i, 62 - 50 * h, 12, 50 * (1 - h) * 0.6)
    yield line("x", [(10, 37), (110, 37)])


def trilogy():
    for i, kinds in enumerate(("GGGoQ", "GGoVQ", "GoVVQ")):
        yield "".join(bar(k, 15 + 19 * j, 8 + 21 * i, 14, 14, 3) for j, k in enumerate(kinds))


def capstone():
    yield line("q", [(10, 20), (42, 28), (78, 28), (110, 20)]) + line(
        "q", [(10, 56), (42, 48), (78, 48), (110, 56)]
    )
    for y in (32, 38, 44):
        yield line("n", [(14, 38 + (y - 38) * 2.2), (44, y), (106, 38 + (y - 38) * 2)])
    yield dot("V", 60, 38, 6)


DRAWINGS = (
    bayesian, tunnel, training, hmm, filtering, regression, mlp, recurrent, keys, routing,
    values, used, beliefs, progress, gradient, em, language, sula, trilogy, capstone,
)  # fmt: skip

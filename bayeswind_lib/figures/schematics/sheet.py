"""The sheet that schematics are drawn on: boxes, arrows, labels, small charts, all in page pixels.

x goes to the right, y down. A text is placed by its middle, and its width is taken from a wide sans-serif
font, so that it fits in whatever font the page has. Words may hold `*v*` (a variable, in italics), `_{t}`
(below the line) and `^{T}` (above it). A sheet grows downwards with what is put on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bayeswind_lib.figures.schematics.drawing import FONTS, PALETTE, Drawing, svg_text

WIDE, NARROW = 640, 340  # of the two sheets
MARGIN = 12
TEXT, SMALL = 15, 13  # sizes; nothing is smaller than SMALL but an index, which is at least INDEX
INDEX = 12
LINE, HEAVY = 1.75, 2.0  # strokes
TINT = 0.16  # of a filled shape, whose outline has the full colour
CORNER = 4
HEAD = 9  # an arrow's head, from its tip to its base

# Widths of DejaVu Sans, the widest font that a system is likely to show, in thousandths of its size.
WIDTHS = {
    220: "′", 280: "'ijl", 320: " ,.·’IJ", 340: "/:;\\|", 360: "-f", 400: "!()[]tᵀ", 420: "r", 460: '"',
    500: "*–", 520: "sz“”", 540: "?cε", 560: "LFk", 600: "Pvxyγλπτ", 620: "TYaeoδθ", 640: "0123456789ESbdghnpquβμσΣ",
    680: "KABVXZαφψΔ", 700: "CR", 740: "NU", 780: "HDGOQ", 820: "w", 840: "+<=>×−→←↑↓≤≥≈∝⊙∞", 980: "WmM", 1000: "—…%",
}  # fmt: skip
WIDTH_OF = {character: width / 1000 for width, characters in WIDTHS.items() for character in characters}
MARKUP = re.compile(r"\*([^*]+)\*|([_^])\{([^}]*)\}|([^*_^]+)")

Point = tuple[float, float]


@dataclass(frozen=True)
class Rect:
    """A place on a sheet: a box, or what a text covers."""

    x: float
    y: float
    width: float
    height: float
    words: str = ""

    @property
    def left(self) -> Point:
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> Point:
        return self.x + self.width, self.y + self.height / 2

    @property
    def top(self) -> Point:
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> Point:
        return self.x + self.width / 2, self.y + self.height

    @property
    def middle(self) -> Point:
        return self.x + self.width / 2, self.y + self.height / 2


def runs(words: str) -> list[tuple[str, str]]:
    """Pieces of marked-up words with their kind: "" plain, "*" variable, "_" below, "^" above.

    >>> runs("*x*_{1} seen")
    [('*', 'x'), ('_', '1'), ('', ' seen')]
    """
    found = []
    for variable, shift, shifted, plain in MARKUP.findall(words):
        kind = "*" if variable else shift
        found.append((kind, variable or shifted or plain))
    return found


def index_size(size: float) -> float:
    """The size of what stands below or above a line of this size."""
    return max(INDEX, round(0.75 * size, 1))


def text_width(words: str, size: float) -> float:
    """A width that the words do not exceed in the usual sans-serif fonts.

    >>> text_width("mm", 10) > text_width("ii", 10)
    True
    """
    sizes = {"_": index_size(size), "^": index_size(size)}
    return sum(WIDTH_OF.get(c, 0.84) * sizes.get(kind, size) for kind, piece in runs(words) for c in piece)


def tspans(words: str, size: float) -> str:
    """The words as SVG; what follows an index is shifted back."""
    small, parts, shift = index_size(size), [], 0.0
    for kind, piece in runs(words):
        wanted = {"_": 0.25 * size, "^": -0.38 * size}.get(kind, 0.0)
        dy = f' dy="{wanted - shift:.1f}"' if wanted != shift else ""
        italic = f"; font-family: {FONTS['serif']}; font-style: italic" if piece.isalpha() else ""
        look = {
            "*": f' style="font-family: {FONTS["serif"]}; font-style: italic"',
            "_": f' style="font-size: {small:g}px{italic}"',
            "^": f' style="font-size: {small:g}px"',
        }.get(kind, "")
        text = escape(piece)
        parts.append(f"<tspan{dy}{look}>{text}</tspan>" if dy or look else text)
        shift = wanted
    return "".join(parts)


def on_rim(centre: Point, radius: float, towards: Point) -> Point:
    """The point of a circle that looks at another point."""
    angle = math.atan2(towards[1] - centre[1], towards[0] - centre[0])
    return centre[0] + radius * math.cos(angle), centre[1] + radius * math.sin(angle)


class Sheet:
    """What is drawn, and where its texts stand; `narrow` tells a painter which layout is wanted."""

    def __init__(self, width: int):
        self.width, self.narrow = width, width <= NARROW
        self.left, self.right = MARGIN, width - MARGIN
        self.size = TEXT if not self.narrow else SMALL + 1
        self.parts: list[str] = []
        self.texts: list[Rect] = []
        self.low = 0.0

    @property
    def height(self) -> int:
        """As far down as something was drawn, and a margin."""
        return math.ceil(self.low + MARGIN)

    def pick(self, wide, narrow):
        """One of two values, by layout."""
        return narrow if self.narrow else wide

    def _add(self, part: str, low: float) -> None:
        self.parts.append(part)
        self.low = max(self.low, low)

    # --- words ---------------------------------------------------------------------------------

    def text(
        self, at: Point, words: str, size: float | None = None, anchor: str = "middle", colour: str = "ink", bold: bool = False
    ) -> Rect:
        """One or more lines (`\\n`), the block's middle at `at`, or its start or end."""
        size, (x, y) = size or self.size, at
        lines, leading = words.split("\n"), 1.3 * size
        top = y - leading * (len(lines) - 1) / 2
        for n, line in enumerate(lines):
            middle = top + n * leading
            width = text_width(line, size) * (1.08 if bold else 1)
            start = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
            self.texts.append(Rect(start, middle - size / 2, width, size, line))
            style = f"fill: {PALETTE[colour]}; font-size: {size:g}px" + ("; font-weight: 600" if bold else "")
            self._add(
                f'<text x="{x:.1f}" y="{middle + 0.35 * size:.1f}" text-anchor="{anchor}" style="{style}">{tspans(line, size)}</text>',
                middle + 0.6 * size,
            )
        return self.texts[-1]

    def note(self, at: Point, words: str, anchor: str = "middle") -> Rect:
        """Small quiet words beside a drawing."""
        return self.text(at, words, SMALL, anchor, "quiet")

    def paragraph(self, y: float, words: str, colour: str = "ink") -> float:
        """Small words over the whole width, broken into lines; where the next thing may start."""
        lines, room = [""], self.right - self.left
        for word in words.split():
            longer = f"{lines[-1]} {word}".strip()
            lines = [*lines[:-1], longer] if text_width(longer, SMALL) <= room else [*lines, word]
        for n, line in enumerate(lines):
            self.text((self.left, y + 1.35 * SMALL * n), line, SMALL, "start", colour)
        return y + 1.35 * SMALL * len(lines)

    # --- shapes --------------------------------------------------------------------------------

    def _look(self, stroke: str | None, fill: str | None, width: float, dashed: bool, tint: float) -> str:
        style = [f"fill: {PALETTE[fill]}; fill-opacity: {tint:g}" if fill else "fill: none"]
        if stroke:
            style.append(f"stroke: {PALETTE[stroke]}; stroke-width: {width:g}")
        if dashed:
            style.append("stroke-dasharray: 5 3")
        return "; ".join(style)

    def box(
        self, x: float, y: float, width: float, height: float, words: str = "", colour: str = "quiet", *,
        dashed: bool = False, filled: bool = True, size: float | None = None, text: str = "ink",
    ) -> Rect:  # fmt: skip
        """A rounded box in a colour, with words in its middle.

        Raises:
            ValueError: if the words do not fit into it.
        """
        size = size or self.size
        need = max(text_width(line, size) for line in words.split("\n"))
        if need > width - 4:
            raise ValueError(f"{words!r} needs {need:.0f} of a box of {width:.0f}: make it wider")
        look = self._look(colour, colour if filled else None, LINE, dashed, TINT)
        self._add(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{CORNER}" style="{look}"/>', y + height
        )
        if words:
            self.text((x + width / 2, y + height / 2), words, size, colour=text)
        return Rect(x, y, width, height)

    def circle(
        self, at: Point, radius: float, words: str = "", colour: str = "quiet", *, fill: str | None = None, tint: float = TINT
    ) -> Rect:
        """A circle, with words in its middle; `fill` where it is not that of its outline."""
        look = self._look(colour, fill or colour, LINE, False, tint)
        self._add(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:.1f}" style="{look}"/>', at[1] + radius)
        if words:
            self.text(at, words)
        return Rect(at[0] - radius, at[1] - radius, 2 * radius, 2 * radius)

    def line(
        self, points: Iterable[Point], colour: str = "ink", width: float = LINE, dashed: bool = False, fill: str | None = None, tint: float = TINT
    ) -> None:
        """A line through points; `fill` closes it."""
        points = list(points)
        way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + ("Z" if fill else "")
        look = self._look(colour if width else None, fill, width, dashed, tint)
        self._add(f'<path d="{way}" style="{look}; stroke-linejoin: round"/>', max(y for _, y in points))

    def sign(self, at: Point, words: str) -> None:
        """A small sign, such as + or a number, in a circle that covers what runs through it."""
        self.circle(at, 12, fill="ground", tint=1)
        self.text(at, words, SMALL + 1)

    def arrow(self, start: Point, end: Point, colour: str = "ink", bend: float = 0.0, width: float = LINE, dashed: bool = False) -> None:
        """An arrow; `bend` moves the middle of its way to the left of its direction (in pixels)."""
        (x0, y0), (x1, y1) = start, end
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        # The control point of a quadratic curve is twice as far out as its middle.
        cx = (x0 + x1) / 2 + 2 * bend * (y1 - y0) / length
        cy = (y0 + y1) / 2 - 2 * bend * (x1 - x0) / length
        self._curve(start, [(cx, cy)] if bend else [], end, colour, width, dashed)

    def loop(self, centre: Point, radius: float, degrees: float, colour: str = "ink") -> None:
        """An arrow from a circle back to it, on the side that `degrees` says (0: right, 90: above)."""

        def place(turn: float, out: float) -> Point:
            angle = math.radians(degrees + turn)
            return centre[0] + out * math.cos(angle), centre[1] - out * math.sin(angle)

        controls = [place(38, 2.7 * radius), place(-38, 2.7 * radius)]
        self._curve(place(30, radius + 1), controls, place(-30, radius + 3), colour, LINE, False)

    def bent(self, points: Sequence[Point], colour: str = "ink", width: float = LINE, dashed: bool = False, head: bool = True) -> None:
        """An arrow along straight pieces, its corners rounded."""
        way = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
        for before, corner, after in zip(points, points[1:], points[2:], strict=False):
            a, b = on_rim(corner, 6, before), on_rim(corner, 6, after)
            way.append(f"L{a[0]:.1f} {a[1]:.1f}Q{corner[0]:.1f} {corner[1]:.1f} {b[0]:.1f} {b[1]:.1f}")
        stop = on_rim(points[-1], HEAD - 1, points[-2]) if head else points[-1]
        way.append(f"L{stop[0]:.1f} {stop[1]:.1f}")
        self._add(f'<path d="{"".join(way)}" style="{self._look(colour, None, width, dashed, 0)}"/>', max(y for _, y in points))
        if head:
            self._head(points[-1], points[-2], colour)

    def _curve(self, start: Point, controls: list[Point], end: Point, colour: str, width: float, dashed: bool) -> None:
        came = controls[-1] if controls else start
        stop = on_rim(end, HEAD - 1, came)
        kind = {0: "L", 1: "Q", 2: "C"}[len(controls)]
        way = " ".join(f"{x:.1f} {y:.1f}" for x, y in [*controls, stop])
        look = self._look(colour, None, width, dashed, 0)
        self._add(f'<path d="M{start[0]:.1f} {start[1]:.1f}{kind}{way}" style="{look}"/>', max(start[1], end[1]))
        self._head(end, came, colour)

    def _head(self, tip: Point, came: Point, colour: str) -> None:
        """The head of an arrow that comes from `came`."""
        angle = math.atan2(tip[1] - came[1], tip[0] - came[0])
        wings = [(tip[0] - HEAD * math.cos(angle + s), tip[1] - HEAD * math.sin(angle + s)) for s in (0.42, -0.42)]
        way = "L".join(f"{x:.1f} {y:.1f}" for x, y in [tip, *wings])
        self._add(f'<path d="M{way}Z" style="fill: {PALETTE[colour]}"/>', tip[1])

    # --- small charts --------------------------------------------------------------------------

    def bars(
        self, x: float, base: float, width: float, height: float, values: Sequence[float], colour: str | Sequence[str], *,
        dashed: bool = False, labels: Sequence[str] = (), top: float = 1.0,
    ) -> Rect:  # fmt: skip
        """Bars on a line at `base`, `height` high at the value `top`; a bar of 0 is only its place."""
        step = width / len(values)
        wide = 0.68 * step
        colours = [colour] * len(values) if isinstance(colour, str) else colour
        for n, (value, hue) in enumerate(zip(values, colours, strict=True)):
            tall, left = height * value / top, x + n * step + (step - wide) / 2
            if value:
                look = self._look("ink" if dashed else hue, hue, 1.5, dashed, 0.35)
                self._add(f'<rect x="{left:.1f}" y="{base - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" style="{look}"/>', base)
            if labels:
                self.note((left + wide / 2, base + 12), labels[n])
        self.line([(x, base), (x + width, base)], "quiet", 1.5)
        return Rect(x, base - height, width, height)


def drawing(title: str, alt: str, paint: Callable[[Sheet], None]) -> Drawing:
    """What a painter draws, on a wide sheet and on a narrow one."""
    made = {}
    for width in (WIDE, NARROW):
        sheet = Sheet(width)
        paint(sheet)
        made[width] = svg_text("".join(sheet.parts), sheet.width, sheet.height, alt)
    return Drawing(title, alt, made[WIDE], made[NARROW])

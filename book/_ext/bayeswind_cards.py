"""A picture of each page for previews of its link: the title and what the page asks, 1200 by 630.

A preview takes no SVG, so the card is a PNG of few colours. It is drawn again only where its words
or this file have changed.
"""

from __future__ import annotations

import hashlib
import shutil
from html import unescape
from importlib.metadata import version
from pathlib import Path

from bayeswind_fonts import FACES, source

FOLDER = "_static/cards"
SIZE, MARGIN = (1200, 630), 84
BOOK = "The Bayesian Wind Tunnel"
GROUND, INK, QUIET, MARK, BALL = "#ffffff", "#1a1a1a", "#52606b", "#0b5c8a", "#f0a830"
SHADES = {
    INK: 4,
    QUIET: 4,
    MARK: 4,
    BALL: 2,
}  # of each colour, on the way to the ground: 15 colours in all
STAIRS = [
    (10, 16),
    (19, 16),
    (19, 23),
    (28, 23),
    (28, 31),
    (37, 31),
    (37, 40),
    (46, 40),
    (46, 50),
    (54, 50),
]
BALLS = [(14.5, 16), (23.5, 23), (32.5, 31), (41.5, 40), (50, 50)]


def font(face, size: int, weight: int):
    """A font of the book at some size and weight, for drawing."""
    from PIL import ImageFont

    found = ImageFont.truetype(str(source(face)), size)
    values = {b"Weight": weight, b"Optical Size": 36}
    found.set_variation_by_axes(
        [values.get(axis["name"], axis["default"]) for axis in found.get_variation_axes()]
    )
    return found


def lines_of(text: str, drawn_in, width: int, most: int) -> list[str]:
    """The text in lines that fit a width, at most so many; what is left becomes dots."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if drawn_in.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > most:
        lines = [*lines[: most - 1], f"{lines[most - 1].rstrip(',;:. ')} \u2026"]
    return lines


def mark(pen, x: int, y: int, size: int) -> None:
    """The book's mark: a staircase of entropy."""
    unit = size / 64
    pen.rounded_rectangle((x, y, x + size, y + size), 12 * unit, fill=MARK)
    pen.line(
        [(x + a * unit, y + b * unit) for a, b in STAIRS],
        fill=GROUND,
        width=round(4.5 * unit),
        joint="curve",
    )
    for a, b in BALLS:
        pen.circle((x + a * unit, y + b * unit), 3.6 * unit, fill=BALL)


def palette():
    """A picture that holds the card's colours and their way to the ground."""
    from PIL import Image, ImageColor

    colours = [(255, 255, 255)]
    for name, steps in SHADES.items():
        colour = ImageColor.getrgb(name)
        colours += [
            tuple(255 - (255 - c) * k // steps for c in colour) for k in range(1, steps + 1)
        ]
    found = Image.new("P", (1, 1))
    found.putpalette([c for colour in colours for c in colour])
    return found


def draw(title: str, number: str, words: str):
    """The card as a picture of few colours."""
    from PIL import Image, ImageDraw

    serif, sans, width = FACES[0], FACES[2], SIZE[0] - 2 * MARGIN
    twice = [
        2 * length for length in SIZE
    ]  # drawn large, then made smaller: smooth edges of the mark
    picture = Image.new("RGB", twice, GROUND)
    pen = ImageDraw.Draw(picture)
    mark(pen, 2 * MARGIN, 2 * 64, 2 * 72)
    pen.text((2 * (MARGIN + 96), 2 * 100), BOOK, QUIET, font(sans, 60, 600), anchor="lm")
    if number:
        pen.text(
            (2 * (SIZE[0] - MARGIN), 2 * 100),
            f"Chapter {number}",
            QUIET,
            font(sans, 60, 400),
            anchor="rm",
        )
    heading, body = font(serif, 124 if len(title) < 48 else 104, 600), font(serif, 66, 400)
    y = 2 * 196
    for line in lines_of(title, heading, 2 * width, 3):
        pen.text((2 * MARGIN, y), line, INK, heading)
        y += round(1.14 * heading.size)
    y += 56
    for line in lines_of(words, body, 2 * width, max(1, int((2 * 560 - y) / 90))):
        pen.text((2 * MARGIN, y), line, QUIET, body)
        y += 90
    pen.rectangle((0, twice[1] - 28, twice[0], twice[1]), fill=MARK)
    small = picture.resize(SIZE, Image.Resampling.LANCZOS)
    return small.quantize(palette=palette(), dither=Image.Dither.NONE)


def write(app, pagename: str, title: str, number: str, words: str) -> str:
    """The address of a page's card in the site, drawn if its words are new."""
    target = f"{FOLDER}/{pagename.replace('/', '-')}.png"
    title = unescape(title).removeprefix(f"{number}. ")
    words = unescape(words).replace("[...]", "\u2026")
    parts = (title, number, words, version("pillow"), Path(__file__).read_text("utf-8"))
    kept = (
        Path(app.outdir).parent
        / "cards"
        / f"{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.png"
    )
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        draw(title, number, words).save(kept, optimize=True)
    place = Path(app.outdir) / target
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(kept, place)
    return target

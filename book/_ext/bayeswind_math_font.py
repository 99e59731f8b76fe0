"""The font of the formulas: STIX Two Math, of which a part goes into the site.

The whole font has 6,000 glyphs; the site gets those that its formulas use, with the larger forms of
brackets, sums and roots, as WOFF2 within a style sheet: a page that is opened from a folder may not
load a font from the folder beside it in every browser.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

NAME = "Bayeswind Math"
LICENCE = """\
/* Formulas: a part of STIX Two Math, https://www.stixfonts.org, changed and renamed.
   Copyright 2001-2020 The STIX Fonts Project Authors.
   Under the SIL Open Font License 1.1, https://scripts.sil.org/OFL */
"""
ALWAYS = "".join(map(chr, range(33, 127))) + "\u221a"  # the sign of a root stands in no formula
BRACKETS = "()[]\u2308\u2309\u230a\u230b"
TALLEST = 2400  # thousandths of an em
ROOT = 860
PRIMES = {0x2032: "minute.ssty", 0x2033: "second.ssty"}


def file() -> Path:
    """The font, as the package ziamath brings it; the package itself is not imported."""
    folder = find_spec("ziamath").submodule_search_locations[0]
    return Path(folder) / "fonts/STIXTwoMath-Regular.ttf"


@cache
def widths() -> tuple[dict[int, str], dict[str, tuple[int, int]], int]:
    """Character -> glyph, glyph -> its width, and how many units an em has."""
    from fontTools.ttLib import TTFont

    font = TTFont(file(), lazy=True)
    return font.getBestCmap(), font["hmtx"].metrics, font["head"].unitsPerEm


def advance(text: str) -> float:
    """The width of a text in em; what the font does not have is half an em wide."""
    glyphs, metrics, em = widths()
    known = (metrics[glyphs[ord(c)]][0] if ord(c) in glyphs else em / 2 for c in text)
    return sum(known) / em


def lacking(characters: Iterable[str]) -> list[str]:
    """The characters that the font does not have."""
    invisible = "\u2061\u2062\u2063\u2064\u00a0\n "
    return sorted(c for c in set(characters) - set(invisible) if ord(c) not in widths()[0])


def draw_primes(font) -> None:
    """Give the primes the form that the font has for them as exponents, which they always are here:
    browsers do not ask for it, and the plain one made smaller is a speck."""
    for table in font["cmap"].tables:
        for code, name in PRIMES.items():
            if code in table.cmap:
                table.cmap[code] = name


def even_out(font) -> None:
    """Make the taller forms of a sign about as wide as the plain one.

    Chromium reserves for a bracket or a root the width of the widest form that the font has, and
    leaves a gap where it draws a narrower one. So brackets end at a height that no formula here
    exceeds, and tall roots are drawn narrower.
    """
    forms = font["MATH"].table.MathVariants
    glyphs, widths = font.getBestCmap(), font["hmtx"].metrics
    made = dict(zip(forms.VertGlyphCoverage.glyphs, forms.VertGlyphConstruction, strict=True))
    for sign in BRACKETS:
        tall = made[glyphs[ord(sign)]]
        kept = [r for r in tall.MathGlyphVariantRecord if r.AdvanceMeasurement <= TALLEST]
        tall.MathGlyphVariantRecord, tall.VariantCount = kept, len(kept)
        tall.GlyphAssembly = None
    root = made[glyphs[ord("\u221a")]]
    root.GlyphAssembly = None
    for name in {record.VariantGlyph for record in root.MathGlyphVariantRecord}:
        width, bearing = widths[name]
        if width > ROOT:
            outline = font["glyf"][name]
            outline.coordinates.scale((ROOT / width, 1))
            outline.coordinates.toInt()
            outline.recalcBounds(font["glyf"])
            widths[name] = (ROOT, round(bearing * ROOT / width))


def level(font) -> None:
    """Let indices and exponents of a letter stand at one height, be the letter a, b or q: the font
    moves them by the letter's own edges. These are TeX's values, in thousandths of an em."""
    constants = font["MATH"].table.MathConstants
    constants.SuperscriptBaselineDropMax.Value = 386
    constants.SubscriptBaselineDropMin.Value = 50


def part(characters: Iterable[str]) -> bytes:
    """The font with those characters and all forms that they grow into, as WOFF2."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    font = TTFont(file(), recalcTimestamp=False)
    draw_primes(font)
    even_out(font)
    level(font)
    subsetter = Subsetter(Options(layout_features=[], hinting=False, notdef_outline=True))
    subsetter.populate(unicodes={ord(c) for c in {*ALWAYS, *characters}})
    subsetter.subset(font)
    for entry in font["name"].names:
        if entry.nameID in (1, 3, 4, 6, 16):
            entry.string = NAME if entry.nameID != 6 else NAME.replace(" ", "")
    font.flavor, stream = "woff2", io.BytesIO()
    font.save(stream)
    return stream.getvalue()


def face(characters: Iterable[str]) -> str:
    """The font as a rule of a style sheet."""
    source = f"data:font/woff2;base64,{base64.b64encode(part(characters)).decode()}"
    return (
        f'{LICENCE}@font-face {{ font-family: "{NAME}"; font-display: block;\n'
        f'  src: url("{source}") format("woff2"); }}\n'
    )

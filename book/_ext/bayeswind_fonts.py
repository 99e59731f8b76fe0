"""The book's two typefaces, cut down to what its pages need: Source Serif 4 for the text, Source
Sans 3 for what stands around it (navigation, captions, tables, figures).

Both come as wheels with variable fonts. Here they keep the characters that the book uses, weights
from 400 to 700 and one optical size, and become four files of WOFF2 in the site, with their
licences beside them. Until they have come, a page is set in the reader's Times or Arial, stretched
so that lines break where they will break: nothing jumps.
"""

from __future__ import annotations

import hashlib
import io
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

FOLDER = "_static/fonts"
WEIGHTS = (400, 700)
TEXT_SIZE = 14  # points: the optical size that letters of a text have
TEXTS = (
    "chapters/*.md",
    "book/*.md",
    "book/*.toml",
    "book/*.bib",
    "bayeswind_lib/**/*.py",
    "bayeswind_lib/**/*.js",
)
PUNCTUATION = "–—‘’“”…−×·←→↑↓≤≥≈±"
# How often a letter stands in English text, in percent: so wide is an average line.
SHARES = (
    (18, " "), (10.2, "e"), (7.4, "t"), (6.6, "a"), (6.1, "o"), (5.7, "in"), (5.2, "s"), (5, "hr"),
    (3.4, "dl"), (2.3, "cu"), (1.9, "mwf"), (1.6, "gyp"), (1.2, "b"), (1, "vk.,"),
)  # fmt: skip
LETTERS = {letter: share for share, letters in SHARES for letter in letters}


@dataclass(frozen=True)
class Face:
    """A font of the book: its file in a wheel, and what stands in for it."""

    name: str
    package: str
    file: str
    style: str
    local: tuple[str, ...]  # fonts of a reader's machine, all of one width
    model: str  # the metrics of those, among matplotlib's

    @property
    def target(self) -> str:
        return f"{self.name.lower().replace(' ', '-')}-{self.style}.woff2"


TIMES = ("Times New Roman", "Liberation Serif", "Tinos", "Nimbus Roman", "Times")
ARIAL = ("Arial", "Liberation Sans", "Arimo", "Nimbus Sans", "Helvetica")
SERIF, SANS = (
    ("Source Serif 4", "fontpkg_source_serif_4"),
    ("Source Sans 3", "fontpkg_source_sans_3"),
)
FACES = (
    Face(*SERIF, "SourceSerif4[opsz,wght].ttf", "normal", TIMES, "Times-Roman"),
    Face(*SERIF, "SourceSerif4-Italic[opsz,wght].ttf", "italic", TIMES, "Times-Italic"),
    Face(*SANS, "SourceSans3[wght].ttf", "normal", ARIAL, "Helvetica"),
    Face(*SANS, "SourceSans3-Italic[wght].ttf", "italic", ARIAL, "Helvetica-Oblique"),
)


def characters(root: Path) -> frozenset[int]:
    """Latin letters, punctuation, and all that stands in the book's texts."""
    found = {*range(0x20, 0x7F), *range(0xA0, 0x100), *map(ord, PUNCTUATION)}
    for pattern in TEXTS:
        for file in root.glob(pattern):
            found.update(map(ord, file.read_text("utf-8")))
    return frozenset(found)


def source(face: Face) -> Path:
    """The font's file inside its wheel."""
    return Path(find_spec(face.package).submodule_search_locations[0]) / "files" / face.file


def cut(face: Face, codes: frozenset[int]) -> bytes:
    """The font with these characters, some weights and one optical size, as WOFF2."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont
    from fontTools.varLib import instancer

    font = TTFont(source(face), recalcTimestamp=False)
    features = ["kern", "liga", "ccmp", "mark", *(["tnum"] if face.name == SANS[0] else [])]
    subsetter = Subsetter(Options(layout_features=features, hinting=False))
    subsetter.populate(unicodes=codes)
    subsetter.subset(font)
    limits = {"wght": WEIGHTS, "opsz": TEXT_SIZE}
    axes = {axis.axisTag for axis in font["fvar"].axes}
    instancer.instantiateVariableFont(
        font, {k: v for k, v in limits.items() if k in axes}, inplace=True
    )
    font.flavor, stream = "woff2", io.BytesIO()
    font.save(stream)
    return stream.getvalue()


# --- what stands in until a font has come ------------------------------------------------------


def average(widths: dict[str, float]) -> float:
    """The width of an average letter of a text, in the unit of these widths."""
    return sum(share * widths[letter] for letter, share in LETTERS.items()) / sum(LETTERS.values())


def widths_of(data: bytes) -> tuple[dict[str, float], float, float]:
    """Letter -> width, then ascent and descent of a font, all in em."""
    from fontTools.ttLib import TTFont

    font = TTFont(io.BytesIO(data))
    em, cmap, advance = font["head"].unitsPerEm, font.getBestCmap(), font["hmtx"].metrics
    widths = {letter: advance[cmap[ord(letter)]][0] / em for letter in LETTERS}
    return widths, font["hhea"].ascent / em, -font["hhea"].descent / em


def model_widths(name: str) -> dict[str, float]:
    """Letter -> width in em of one of PDF's standard fonts, as wide as Times or Arial."""
    from matplotlib import get_data_path
    from matplotlib._afm import AFM

    with (Path(get_data_path()) / "fonts/pdfcorefonts" / f"{name}.afm").open("rb") as file:
        metrics = AFM(file)
    return {letter: metrics.get_width_char(ord(letter)) / 1000 for letter in LETTERS}


def rules(face: Face, data: bytes) -> str:
    """The font's own rule of CSS and that of what stands in for it: as wide, and as high."""
    widths, ascent, descent = widths_of(data)
    share = average(widths) / average(model_widths(face.model))
    local = ", ".join(f'local("{name}")' for name in face.local)
    return (
        f'@font-face {{ font-family: "{face.name}"; font-style: {face.style};'
        f" font-weight: {WEIGHTS[0]} {WEIGHTS[1]}; font-display: swap;\n"
        f'  src: url("fonts/{face.target}") format("woff2"); }}\n'
        f'@font-face {{ font-family: "{face.name} Fallback"; font-style: {face.style};\n'
        f"  src: {local};\n"
        f"  size-adjust: {share:.1%}; ascent-override: {ascent / share:.1%};"
        f" descent-override: {descent / share:.1%}; line-gap-override: 0%; }}\n"
    )


# --- the site ----------------------------------------------------------------------------------


def key(codes: frozenset[int]) -> str:
    """A short hash of all that the files depend on."""
    parts = [*map(str, sorted(codes)), Path(__file__).read_text("utf-8"), version("fonttools")]
    parts += [version(face.package.replace("_", "-")) for face in FACES]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def write_fonts(app):
    """Write the fonts, their style sheet and their licences into the site.

    Cutting takes some seconds: what was cut for the same characters is kept beside the site.
    """
    if app.builder.format != "html":
        return
    codes = characters(Path(app.srcdir))
    kept = Path(app.outdir).parent / "fonts" / key(codes)
    if not (kept / "fonts.css").is_file():
        shutil.rmtree(kept.parent, ignore_errors=True)
        kept.mkdir(parents=True)
        sheet = ""
        for face in FACES:
            data = cut(face, codes)
            (kept / face.target).write_bytes(data)
            sheet += rules(face, data)
        (kept / "fonts.css").write_text(sheet, "utf-8")
    target = Path(app.outdir) / FOLDER
    target.mkdir(parents=True, exist_ok=True)
    for face in FACES:
        shutil.copy(kept / face.target, target)
        shutil.copy(source(face).parents[1] / "LICENSE", target / f"LICENSE-{face.package[8:]}.txt")
    shutil.copy(kept / "fonts.css", target.parent)


def preload(app, pagename, templatename, context, doctree):
    """Ask for the upright serif before the style sheets name it: every page is set in it. A page
    that is opened from a folder may not, and needs not. On the first page the game comes first."""
    if pagename == app.config.root_doc:
        return
    here = "../" * pagename.count("/") + f"{FOLDER}/{FACES[0].target}"
    script = (
        "<script>if (location.protocol !== 'file:') document.head.append(Object.assign("
        "document.createElement('link'), {rel: 'preload', as: 'font', type: 'font/woff2',"
        f" crossOrigin: '', href: '{here}'}}))</script>"
    )
    context["metatags"] = f"{context.get('metatags', '')}\n{script}"


def setup(app):
    """Connect everything above."""
    app.connect("builder-inited", write_fonts)
    app.connect("html-page-context", preload, priority=950)
    app.add_css_file("fonts.css", priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

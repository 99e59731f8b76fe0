"""Formulas are set when the book is built: as MathML, which a browser draws without a script.

- what bayeswind_formulas.py made of a formula's TeX goes into the page, its pieces side by side;
- a formula with something unknown in it is a warning, which fails the build;
- the TeX stands beside it (`data-tex`), for copying and for the excerpts of the search;
- the font (bayeswind_math_font.py) and the widths at which formulas are broken go into one style
  sheet, `formulas.css`, that pages with formulas load.

How a formula that does not fit is broken, made smaller and numbered is said in book.css.
"""

from __future__ import annotations

import re
from html import escape, unescape
from math import ceil
from pathlib import Path

from docutils import nodes
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

import bayeswind_math_font as font
from bayeswind_formulas import BadFormula, Display, Piece, display, inline, italic

LOGGER = logging.getLogger(__name__)
CLASSES = "math notranslate nohighlight"
SHEET = "formulas.css"
SIZE = 1.02  # em: a formula's letters beside the text around it, as book.css says too
NUMBER = 5  # em that a formula's number takes beside it
NARROWEST, WIDEST = 4, 80  # em: widths at which something may change
BREAK = "<wbr>"  # between pieces: Firefox ends no line there by itself
MATH = re.compile(r"<math\b.*?</math>", re.S)


# --- a formula as HTML ---------------------------------------------------------------------------


def inline_html(tex: str) -> str:
    """A formula of a sentence."""
    pieces = BREAK.join(piece.mathml() for piece in inline(tex).pieces)
    return f'<span class="{CLASSES}" data-tex="{escape(tex)}">{pieces}</span>'


def display_html(formula: Display, number: str = "") -> str:
    """A displayed formula: its rows, and the number with its link."""
    rows = "".join(f"<div>{''.join(map(cell_html, row))}</div>" for row in formula.rows)
    one = " bw-single" if len(formula.rows) == 1 else ""
    style = f"--w:{1.02 * formula.widest + 0.1:.2f};--columns:{formula.columns}"
    rows = f'<div class="bw-set{one}" style="{style}">{rows}</div>'
    return f'<div class="bw-display {limits(formula, bool(number))}">{rows}{number}</div>'


def cell_html(cell: tuple[Piece, ...]) -> str:
    """A cell of a row: its pieces, with the air between them."""
    air = '<span style="word-spacing:{:.2f}em"> </span>'
    parts = (
        piece.mathml(' displaystyle="true"') + (air.format(piece.gap - 0.25) if piece.gap else "")
        for piece in cell
    )
    return f"<span>{''.join(part + BREAK for part in parts)}</span>"


def limits(formula: Display, numbered: bool) -> str:
    """Classes that say below how many em a formula's rows are broken, and its number goes below."""
    width = min(WIDEST, max(NARROWEST, ceil(formula.width * SIZE + 0.3)))
    below = f" bw-number-{min(WIDEST, width + NUMBER)}" if numbered else ""
    return f"bw-break-{width}{below}"


def thresholds() -> str:
    """The rules behind those classes. A style sheet cannot compare a width with a variable."""
    rules = (
        f"@container bw-formula (max-width: {n - 0.01}em) {{"
        f" .bw-break-{n} {{ --bw-broken: initial; --bw-whole: ; }}"
        f" .bw-number-{n} {{ --bw-below: initial; --bw-beside: ; }} }}"
        for n in range(NARROWEST, WIDEST + 1)
    )
    return "\n".join(rules) + "\n"


# --- nodes of Sphinx -----------------------------------------------------------------------------


def set_or_warn(node: nodes.Node, make) -> str:
    """The HTML of a node's formula; its TeX and a warning where it cannot be set."""
    tex = node.astext().strip()
    try:
        made = make(tex)
    except BadFormula as problem:
        LOGGER.warning("this formula cannot be set: %s: %s", problem, tex, location=node)
        return f"<code>{escape(tex)}</code>"
    if missing := font.lacking(characters(made)):
        LOGGER.warning("the font has no %s: %s", " ".join(missing), tex, location=node)
    return made


def characters(page: str) -> set[str]:
    """The characters that the formulas of a page show."""
    shown = unescape("".join(re.sub(r"<[^>]*>", "", found) for found in MATH.findall(page)))
    return {drawn for c in set(shown) for drawn in (c, italic(c))}


def visit_math(translator, node: nodes.math) -> None:
    """A formula of a sentence."""
    translator.body.append(set_or_warn(node, inline_html))
    raise nodes.SkipNode


def visit_math_block(translator, node: nodes.math_block) -> None:
    """A displayed formula, with its number and its address."""
    number = ""
    if node.get("number"):
        start = len(translator.body)
        translator.add_permalink_ref(node, "Link to this equation")
        link = "".join(translator.body[start:])
        del translator.body[start:]
        number = f'<span class="eqno">({get_node_equation_number(translator, node)}){link}</span>'
    attributes = {"CLASS": CLASSES, "data-tex": node.astext().strip()}
    translator.body.append(translator.starttag(node, "div", "", **attributes))
    translator.body.append(set_or_warn(node, lambda tex: display_html(display(tex), number)))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


# --- the style sheet -----------------------------------------------------------------------------


def add_sheet(app, pagename, templatename, context, doctree):
    """Load the style sheet on pages that show a formula, in their text or in a title beside it."""
    shown = (context.get(name) for name in ("body", "title", "toc", "prev", "next", "parents"))
    if any("<math" in str(part) for part in shown):
        app.add_css_file(SHEET)


def write_sheet(app, problem):
    """Write the font's part that the built pages use, and the widths at which formulas change."""
    if problem or app.builder.format != "html":
        return
    pages = (path.read_text("utf-8") for path in sorted(Path(app.outdir).rglob("*.html")))
    text = font.face(set().union(*map(characters, pages))) + thresholds()
    target = Path(app.outdir) / "_static" / SHEET
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.is_file() or target.read_text("utf-8") != text:
        target.write_text(text, "utf-8")


def setup(app):
    """Connect everything above."""
    app.add_html_math_renderer("bayeswind", (visit_math, None), (visit_math_block, None))
    app.connect("html-page-context", add_sheet)
    app.connect("build-finished", write_sheet)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""A drawing as SVG that takes its colours and fonts from the page it stands on.

Every colour of `style` becomes a CSS variable with the light colour as fallback, so that one file is
right in light and dark, in print, and alone in a notebook. The file carries the words that say what it
shows (`aria-label`), the plotted numbers, and a second, narrow layout for phones; both in `<metadata>`,
which no browser draws. `book/_ext/bayeswind_figures.py` reads all of it for the book's pages.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from xml.etree import ElementTree

from bayeswind_lib.figures.frame import lay_out
from bayeswind_lib.figures.style import FAMILY, PALETTE, PIXELS, STYLE, matplotlib

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
NARROW, NUMBERS = "bw-narrow", "bw-numbers"  # ids in the metadata
POINTS = 72  # of a drawing, per inch
CELLS = "bw-cells"  # the group of a table's cells: drawn without seams
DIGITS = 2  # after the point, of a drawing's lengths
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
POINT = re.compile(r"M (\S+) (\S+) L \1 \2(?= |$)")  # a line without length
COLOUR = re.compile(r"#[0-9a-f]{6}\b")
ElementTree.register_namespace("", SVG)


def render(figure, words: str, numbers: str = "", narrow=None) -> str:
    """A matplotlib figure as the text of an SVG file.

    Args:
        figure: as wide as a page's column.
        words: what it shows, for those who do not see it.
        numbers: what is plotted, as JSON.
        narrow: the same figure as a phone shows it.
    """
    root = _drawn(figure, words)
    carried = ElementTree.Element(f"{{{SVG}}}metadata")
    if numbers:
        ElementTree.SubElement(carried, f"{{{SVG}}}desc", {"id": NUMBERS}).text = numbers
    if narrow is not None:
        ElementTree.SubElement(carried, f"{{{SVG}}}g", {"id": NARROW}).append(_drawn(narrow, words))
    if len(carried):
        root.insert(0, carried)
    return ElementTree.tostring(root, encoding="unicode")


# --- from matplotlib's drawing to the page's -------------------------------------------------------


def _drawn(figure, words: str) -> ElementTree.Element:
    """The root of the SVG of one figure."""
    stream, engine = io.BytesIO(), figure.get_layout_engine()
    settings = STYLE | {"svg.fonttype": "none", "svg.hashsalt": "bayeswind", "svg.id": None}
    with matplotlib().rc_context(settings):
        lay_out(figure)
        figure.set_layout_engine(None)  # `savefig` would draw everything once more to lay it out
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        figure.set_layout_engine(engine)
    text = stream.getvalue().decode()
    root = ElementTree.fromstring(text)
    _align(root, figure)
    for unwanted in root.findall(f"{{{SVG}}}metadata") + root.findall(f"{{{SVG}}}defs[{{{SVG}}}style]"):
        root.remove(unwanted)  # who made it, and a style for the whole page
    prefix = "bw" + hashlib.sha256((words + text).encode()).hexdigest()[:8]
    _rename(root, prefix)
    for node in root.iter():
        _clean(node)
    _flatten(root)
    _share_styles(root, prefix)
    width, height = (round(float(length) / POINTS * PIXELS) for length in root.get("viewBox").split()[2:])
    root.attrib = {
        "viewBox": root.get("viewBox"), "width": str(width), "height": str(height),
        "class": "bw-figure", "role": "img", "aria-label": words,
        "style": f"font-family: {FAMILY}; stroke-linejoin: round",
    }  # fmt: skip
    return root


def _align(root, figure) -> None:
    """Anchor each line of words in lines where all of them are aligned; a page's letters are not as wide as matplotlib's."""
    height, lines = float(root.get("viewBox").split()[3]), {}
    text = matplotlib().text.Text
    for words in figure.findobj(text):
        if "\n" in words.get_text() and words.get_visible() and not words.get_rotation() and words.get_ha() != "left":
            box = text.get_window_extent(words, dpi=POINTS)  # without the arrow of an annotation
            for line in words.get_text().split("\n"):
                lines.setdefault(line, []).append((words.get_ha(), box))
    for node in root.iter(f"{{{SVG}}}text"):
        place = re.fullmatch(r"translate\((\S+) (\S+)\)", node.get("transform", ""))
        for side, box in lines.get(node.text, ()) if place else ():
            x, y = float(place[1]), float(place[2])
            if box.x0 - 1 < x < box.x1 + 1 and box.y0 - 1 < height - y < box.y1 + 1:
                anchor = {"right": "end", "center": "middle"}[side]
                node.attrib.pop("transform", None)
                node.attrib |= {"x": str(box.x1 if side == "right" else (box.x0 + box.x1) / 2), "y": str(y), "style": f"{node.get('style')}; text-anchor: {anchor}"}


def _rename(root, prefix: str) -> None:
    """Keep only the names that are used, and make them the page's only ones."""
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', ElementTree.tostring(root, encoding="unicode")))
    for node in root.iter():
        name = node.attrib.pop("id", None)
        if name in used:
            node.set("id", f"{prefix}{name}")
        elif name == CELLS:
            node.set("shape-rendering", "crispEdges")
        for key in ("clip-path", "style", f"{{{XLINK}}}href"):
            if key in node.attrib:
                value = re.sub(r"(url\(|^)#", rf"\1#{prefix}", node.attrib.pop(key))
                node.set(key.rpartition("}")[2], value)


def _clean(node) -> None:
    """Shorter lengths, the page's colours, no font of our own; in a node's own attributes."""
    node.text, node.tail = (part if part and part.strip() else None for part in (node.text, node.tail))
    for key in ("d", "x", "y", "width", "height", "transform", "points"):
        if key in node.attrib:
            node.set(key, POINT.sub(r"M\1 \2h0", " ".join(_rounded(node.get(key)).split())))
    if node.get("transform", "").startswith(("rotate(-0 ", "rotate(0 ")):
        del node.attrib["transform"]
    painted = [f"{key}: {node.attrib.pop(key)}" for key in ("fill", "stroke") if key in node.attrib]  # a pattern's
    if style := _style("; ".join([*painted, node.attrib.pop("style", "")])):
        node.set("style", style)


def _rounded(text: str) -> str:
    return NUMBER.sub(lambda match: f"{round(float(match[0]), DIGITS) + 0.0:.10g}", text)


def _share_styles(root, prefix: str) -> None:
    """A class for each style that comes again."""
    styles = Counter(node.get("style") for node in root.iter() if node.get("style"))
    names = {style: f"{prefix}-{n}" for n, (style, count) in enumerate(styles.items()) if count > 1}
    for node in root.iter():
        if node.get("style") in names:
            node.set("class", names[node.attrib.pop("style")])
    sheet = ElementTree.Element(f"{{{SVG}}}style")
    sheet.text = "".join(f".{name}{{{style}}}" for style, name in names.items())
    root.insert(0, sheet)


def _style(text: str) -> str:
    """A `style` whose colours are variables and which names no font."""
    parts = (part.strip() for part in text.split(";"))
    kept = [part for part in parts if part and not part.startswith(("font-family", "stroke-linejoin"))]
    return COLOUR.sub(lambda match: _colour(match[0]), "; ".join(kept))


def _colour(code: str) -> str:
    return f"var(--bw-{PALETTE[code]}, {code})" if code in PALETTE else code


def _flatten(node) -> None:
    """Put what stands in a group that says nothing in the group's place."""
    children = list(node)
    for child in children:
        _flatten(child)
    if any(child.tag == f"{{{SVG}}}g" and not child.attrib for child in children):
        flat = []
        for child in children:
            flat += list(child) if child.tag == f"{{{SVG}}}g" and not child.attrib else [child]
        node[:] = flat


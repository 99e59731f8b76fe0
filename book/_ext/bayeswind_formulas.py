r"""A formula's TeX as MathML, which the browser sets, in pieces between which a line may end.

`math_core` reads the TeX and settles spacing as TeX does. What it gives is cut here before each
relation and each sum's next term: MathML itself breaks no lines, and a formula wider than a phone
would be cut. How wide each piece will be is estimated from the font, so that a style sheet can say
when a formula has to be broken or made smaller.

>>> [piece.tex_like for piece in inline(r"H(p, q) = H(p) + D(p, q)").pieces]
['H(p,q)=', 'H(p)+', 'D(p,q)']
>>> [piece.tex_like for piece in display(r"H(p, q) = H(p) + D(p, q)").rows[0][0]]
['H(p,q)', '=H(p)', '+D(p,q)']
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from xml.etree import ElementTree

from math_core import LatexError, LatexToMathML

from bayeswind_math_font import advance

# What math_core is asked for: rows of these are cut here; a matrix or cases stays whole.
ALIGNED = re.compile(
    r"\s*\\begin\{(?P<kind>align|aligned|alignat|gather|gathered|split|multline|eqnarray)\*?\}"
    r"(?P<body>.*)\\end\{(?P=kind)\*?\}\s*(?P<rest>[.,;]?)\s*",
    re.S,
)
# \big( by itself says neither open nor close, and the minus behind it would stand between terms.
BIG_OPEN = re.compile(r"(\\[bB]igg?)(?=\s*(?:[(\[]|\\(?:\{|l[A-Za-z]|langle)))")
BIG_CLOSE = re.compile(r"(\\[bB]igg?)(?=\s*(?:[)\]]|\\(?:\}|r[A-Za-z]|rangle)))")
RELATIONS = frozenset("=<>≤≥≈≠≡∼≃∝→←↔⇒⇐⇔↦⟶⟵⟹∈∉⊂⊆≪≫≔")
SUMS = frozenset("+−±∓")
OPEN, CLOSE, EITHER = frozenset("([{⟨⌈⌊"), frozenset(")]}⟩⌉⌋"), frozenset("|‖")
# Room around an operator that says nothing itself, in em (MathML Core's own table, in short).
ROOM = {
    **dict.fromkeys(RELATIONS | {"∣", "∥"}, 0.5556), **dict.fromkeys(SUMS | set("×⋅∘⊙∗⊗⊕"), 0.4444),
    **dict.fromkeys("∑∏∫.", 0.3333), ",": 0.1667, ";": 0.1667, ":": 0.5556,
}  # fmt: skip
ITALICS = {"h": "\u210e", "\u2202": "\U0001d715", "\u2207": "\U0001d6fb"}  # not by their names
LARGE = {"∑": 1.38, "∏": 1.36, "∫": 1.4}  # how much wider an operator is in a display
ONE_LINE = 7.0  # em: an inline formula that is not wider is never broken
INDENT = 1.5  # em, of a line that continues a formula
JOIN = 2.2  # em: what stands before the first relation and is not wider stays with what follows
JOIN_LATER = 6.0  # em: the same behind a gap
WIDE = 16.0  # em: pieces are not joined into one that is wider


class BadFormula(ValueError):
    """A formula that cannot be set, and why."""


@dataclass(frozen=True)
class Piece:
    """A part of a formula within which no line ends: its MathML, and its width in em."""

    elements: tuple[ElementTree.Element, ...]
    width: float
    gap: float = 0.0  # em of air behind it, which a line's end swallows

    @property
    def tex_like(self) -> str:
        """The piece's characters, for tests and messages."""
        return "".join("".join(e.itertext()) for e in self.elements).replace("\u2061", "")

    def mathml(self, attributes: str = "") -> str:
        """The piece as a `math` element."""
        inner = "".join(ElementTree.tostring(e, "unicode") for e in self.elements)
        return f"<math{attributes}>{inner}</math>"


@dataclass(frozen=True)
class Inline:
    """A formula in a sentence."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Display:
    """A formula on lines of its own: rows of cells of pieces; one row of one cell is the rule."""

    rows: tuple[tuple[tuple[Piece, ...], ...], ...]

    @property
    def columns(self) -> int:
        """How many cells the longest row has."""
        return max(map(len, self.rows))

    @property
    def width(self) -> float:
        """em that it needs to stand unbroken, its cells one below the other."""
        widths = [0.0] * self.columns
        for row in self.rows:
            for i, cell in enumerate(row):
                widths[i] = max(widths[i], sum(piece.width + piece.gap for piece in cell))
        return sum(widths) + 2.0 * max(0, (self.columns - 1) // 2)

    @property
    def widest(self) -> float:
        """em of its widest piece, with the indent of a line that continues another."""
        found = [0.0]
        for row in self.rows:
            pieces = [piece for cell in row for piece in cell]
            indented = not row[0]
            for n, piece in enumerate(pieces):
                found.append(piece.width + INDENT * bool(n or indented))
        return max(found)


def inline(tex: str) -> Inline:
    """Read a formula of a sentence; a long one may end a line after a relation or a sum's sign."""
    children = flat(tree(tex, displaystyle=False))
    whole = Piece(tuple(children), width_of(children, 1.0, False))
    if whole.width <= ONE_LINE:
        return Inline((whole,))
    return Inline(tuple(pieces_of(children, before=False)))


def display(tex: str) -> Display:
    """Read a formula that stands alone."""
    found = ALIGNED.fullmatch(as_lines(tex))
    if not found:
        children = flat(tree(tex, displaystyle=True))
        return Display(((tuple(pieces_of(children, before=True)),),))
    body = found["body"].rstrip() + (f" {found['rest']}" if found["rest"] else "")
    if found["kind"] == "alignat":
        body = re.sub(r"^\s*\{\d+\}", "", body)
    table = flat(tree(rf"\begin{{aligned}}{body}\end{{aligned}}", displaystyle=True))
    if len(table) != 1 or table[0].tag != "mtable":
        raise BadFormula("an aligned formula has to be one table")
    rows = []
    for row in table[0]:
        cells = [pieces_of(list(cell), before=True, first=not i) for i, cell in enumerate(row)]
        rows.append(tuple(tuple(cell) for cell in cells))
    return Display(tuple(rows))


def as_lines(tex: str) -> str:
    """A formula of several lines without an environment, as Sphinx takes it: in one."""
    numbered = re.fullmatch(r"\s*\\begin\{(equation\*?)\}(.*)\\end\{\1\}\s*", tex, re.S)
    if numbered:
        tex = numbered[2].strip()
    parts = [part.strip() for part in re.split(r"\n\s*\n", tex) if part.strip()]
    if len(parts) > 1:
        return r"\begin{gathered}" + r"\\".join(parts) + r"\end{gathered}"
    if r"\\" in tex and r"\begin" not in tex:
        return rf"\begin{{aligned}}{tex}\end{{aligned}}"
    return tex


# --- reading -----------------------------------------------------------------------------------


@cache
def converter() -> LatexToMathML:
    """The reader of TeX; it refuses what it doesn't know."""
    return LatexToMathML(fancy_error=False)


def tree(tex: str, *, displaystyle: bool) -> ElementTree.Element:
    """The MathML of a formula.

    Raises:
        BadFormula: if something in it is unknown or does not fit.
    """
    plain = re.sub(r"\\label\s*\{[^{}]*\}|\\(?:nonumber|notag)\b", "", tex)
    plain = BIG_OPEN.sub(r"\1l", BIG_CLOSE.sub(r"\1r", plain))
    if found := re.search(r"\\(?:eq)?ref\b", tex):
        raise BadFormula(f"{found[0]} is unknown in a formula: write {{eq}}`label` in the text")
    try:
        text = converter().convert_with_local_state(plain.strip(), displaystyle=displaystyle)
    except LatexError as problem:
        raise BadFormula(str(problem)) from None
    named = re.compile(r"&(?!(?:lt|gt|amp|quot);)\w+;")
    root = ElementTree.fromstring(named.sub(lambda match: html.unescape(match[0]), text))
    for element in root.iter():
        mend(element)
    return root


def mend(element: ElementTree.Element) -> None:
    """What browsers draw better with another character or attribute."""
    element.tail = None
    if element.tag == "mo" and element.text == "\u0332":  # a line over something
        element.text = "\u203e"
    if element.text == "\u2299":
        element.set("largeop", "false")  # Firefox would draw it as large as a sum
    if element.tag == "mover" and (element[0].text or "") == "\u2192":  # no browser stretches it
        element[0].text = "\u27f6"
        for least in element.iter("mspace"):
            least.set("width", re.sub(r"^3\.5em$", "2.2em", least.get("width", "")))
    if element.text:
        element.text = element.text.replace("\ufe00", "").replace("\ufe01", "")


def flat(root: ElementTree.Element) -> list[ElementTree.Element]:
    """The children of a formula, out of boxes that hold all of it."""
    children = list(root)
    while len(children) == 1 and children[0].tag == "mrow" and not children[0].attrib:
        children = list(children[0])
    return children


# --- cutting -----------------------------------------------------------------------------------


def operator(element: ElementTree.Element) -> ElementTree.Element | None:
    """The operator that an element is, be it with something above or below it."""
    if element.tag == "mo":
        return element
    if element.tag in ("mover", "munder", "munderover", "msub", "msup", "msubsup"):
        return operator(element[0]) if len(element) else None
    if element.tag == "mrow":
        inner = [child for child in element if child.tag != "mspace"]
        return operator(inner[0]) if len(inner) == 1 else None
    return None


def kind(element: ElementTree.Element) -> str:
    """`relation`, `sum` (its next term's sign), `open`, `close`, `either`, `comma` or ``."""
    found = operator(element)
    if found is None:
        return ""
    text, form = found.text or "", found.get("form")
    if text in OPEN or (text in EITHER and form == "prefix"):
        return "open"
    if text in CLOSE or (text in EITHER and form == "postfix"):
        return "close"
    if text in EITHER:
        return "either"
    if text in RELATIONS:
        return "relation"
    if text in SUMS and found.get("lspace") != "0":
        return "sum"
    return "comma" if text in (",", ";") else ""


def depths(kinds: Sequence[str]) -> list[int]:
    """How many brackets are open at each place; a bar closes the bar before it, if nothing else
    was opened or closed in between, and else opens one. A bar that nothing closes is none.

    >>> depths(["open", "either", "close", "relation", "either", "", "either"])
    [0, 1, 0, 0, 0, 1, 0]
    """
    stack, found = [], []
    for place, name in enumerate(kinds):
        if name == "close":
            while stack and stack.pop()[0] != "open":
                pass
        closes = name == "either" and stack and stack[-1][0] == "either"
        if closes:
            stack.pop()
        found.append(len(stack))
        if name in ("open", "either") and not closes:
            stack.append((name, place))
    lonely = [place for name, place in stack if name == "either"]
    return [depth - sum(place < i for place in lonely) for i, depth in enumerate(found)]


def space(element: ElementTree.Element) -> float:
    """The width of a space in em, 0 for all else."""
    match = re.match(r"(-?[\d.]+)em", element.get("width", "")) if element.tag == "mspace" else None
    return float(match[1]) if match else 0.0


def pieces_of(
    children: list[ElementTree.Element], *, before: bool, first: bool = True
) -> list[Piece]:
    """Cut a row: in a display before a relation or sign, in a sentence after it."""
    kinds = [kind(child) for child in children]
    level, groups, current = depths(kinds), [], []
    for i, child in enumerate(children):
        breaks = level[i] == 0 and kinds[i] in ("relation", "sum")
        if breaks and before and any(space(c) == 0 for c in current):
            groups.append(current)
            current = []
        current.append(child)
        wide = space(child) >= 1 and len(current) > 1 and level[i] == 0
        if wide or (breaks and not before and len(current) > 1):
            groups.append(current)
            current = []
    if current:
        groups.append(current)
    for n, group in enumerate(groups):
        keep_form(group, starts=n > 0 or not first, ends=n < len(groups) - 1)
    return joined([piece(group, before) for group in groups if group], before)


def keep_form(group: list[ElementTree.Element], *, starts: bool, ends: bool) -> None:
    """At an edge of a piece an operator keeps the room that it has between two terms."""
    for at_edge, element in ((starts, group[0]), (ends, group[-1])):
        found = operator(element) if at_edge else None
        if found is not None and kind(element) in ("relation", "sum"):
            found.set("form", "infix")


def piece(group: list[ElementTree.Element], large: bool) -> Piece:
    """A group of elements as a piece; wide air at its end becomes a gap."""
    gap = 0.0
    while len(group) > 1 and space(group[-1]) >= 1:
        gap += space(group[-1])
        group = group[:-1]
    return Piece(tuple(group), width_of(group, 1.0, large), gap)


def joined(pieces: list[Piece], before: bool) -> list[Piece]:
    """The pieces, but a short left-hand side goes with what it is equal to: at the beginning, and
    behind a gap, where else it would stay alone at a line's end. In a sentence a tiny last piece
    goes with the one before."""
    found: list[Piece] = []
    for part in pieces:
        starts = len(found) == 1 or (len(found) > 1 and found[-2].gap)
        room = JOIN if len(found) == 1 else JOIN_LATER
        fits = found and found[-1].width <= room and found[-1].width + part.width < WIDE
        left_side = before and starts and fits and not found[-1].gap
        if left_side or (not before and found and part is pieces[-1] and part.width < 1.5):
            found[-1] = both(found[-1], part)
        else:
            found.append(part)
    return found


def both(one: Piece, other: Piece) -> Piece:
    """Two pieces as one."""
    return Piece(one.elements + other.elements, one.width + other.width, other.gap)


# --- measuring ---------------------------------------------------------------------------------


def italic(text: str) -> str:
    """A variable of one letter as browsers draw it: in italics."""
    if text in ITALICS:
        return ITALICS[text]
    name = unicodedata.name(text, "").replace("LATIN ", "").replace("GREEK ", "")
    match = re.fullmatch(r"(SMALL|CAPITAL) LETTER (\w+)", name)
    try:
        return unicodedata.lookup(f"MATHEMATICAL ITALIC {match[1]} {match[2]}") if match else text
    except KeyError:
        return text


def width_of(elements: Sequence[ElementTree.Element], scale: float, large: bool) -> float:
    """The width of elements side by side, in em of the formula; `large` as in a display."""
    return sum(width(element, scale, large) for element in elements)


def width(element: ElementTree.Element, scale: float, large: bool) -> float:
    """The width of an element, from the font's letters: within a few per cent of the browser's."""
    large = element.get("displaystyle", str(large).lower()) == "true"
    children, text = list(element), element.text or ""
    less = max(scale * 0.7, 0.5)
    tag = element.tag
    if tag in ("mi", "mn", "mtext"):
        slanted = tag == "mi" and len(text) == 1 and not element.get("mathvariant")
        return scale * advance(italic(text) if slanted else text)
    if tag == "mo":
        return scale * operator_width(element, text, large)
    if tag == "mspace":
        return scale * space(element)
    if tag in ("msub", "msup", "msubsup") or (
        tag in ("munder", "mover", "munderover") and limits_beside(element, large)
    ):
        beside = max(script_width(child, less) for child in children[1:])
        return width(children[0], scale, large) + beside + 0.05
    if tag in ("munder", "mover", "munderover"):
        base = width(children[0], scale, large)
        small = scale if element.get("accent") or element.get("accentunder") else less
        others = [width(c, small, False) for c in children[1:] if not is_stretched(c)]
        return max([base, *others])
    if tag == "mfrac":
        scaled = scale if large else less
        return max(width(child, scaled, False) for child in children) + 0.22 * scale
    if tag == "msqrt":
        return width_of(children, scale, large) + 0.9 * scale
    if tag == "mtable":
        rows = [[width_of(list(cell), scale, large) for cell in row] for row in children]
        return sum(max(column) + 0.8 * scale for column in zip(*rows, strict=False))
    return width_of(children, scale, large)


def script_width(element: ElementTree.Element, scale: float) -> float:
    """The width of an index or exponent; an operator that is all of it has no room around it."""
    alone = element.tag == "mo"
    return scale * advance(element.text or "") if alone else width(element, scale, False)


def is_stretched(element: ElementTree.Element) -> bool:
    """Whether an element takes its width from what it stands over: a brace, an accent."""
    return element.tag == "mo" and (element.text or "") in "⏟⏞‾¯ˆ˜"


def limits_beside(element: ElementTree.Element, large: bool) -> bool:
    """Whether limits stand beside their operator, as in a sentence."""
    return not large and (element[0].text or "") in "∑∏" and element[0].tag == "mo"


def operator_width(element: ElementTree.Element, text: str, large: bool) -> float:
    """An operator's letters with the room around it, in em of its own size."""
    room = ROOM.get(text, 0.0)
    for side in ("lspace", "rspace"):
        given = re.match(r"[\d.]+", element.get(side, ""))
        if given:
            room += float(given[0]) - (ROOM.get(text, 0.0) / 2 if text not in ",;" else 0.0)
            room = 0.0 if text in ",;" and side == "rspace" and float(given[0]) == 0 else room
    grown = LARGE.get(text, 1.0) if large else 1.0
    tall = text in OPEN | CLOSE and element.get("stretchy") != "false"
    return advance(text) * grown + 0.12 * tall + max(room, 0.0)

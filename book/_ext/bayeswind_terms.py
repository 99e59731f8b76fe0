"""The book's notation and glossary, and the cards on its terms.

`book/glossary.toml` is the only source. From it come

- the table of symbols and the list of terms on the page `book/notation` (two directives);
- "first used in", which the build finds: the first chapter and section, in reading order, whose
  prose has the term or whose formulas have the symbol;
- in every chapter a link on the first plain occurrence of each term, and its definition as a few
  hundred bytes of script, from which `terms.js` makes a card. Without a script it is a link.

The terms are entries of Sphinx's own glossary (objects `std:term`), so the role {term} and the
notebooks' labels know them. Its `glossary` directive is not used: it takes a term and a text,
and these entries have a unit, a source and a first use, and come from a file that tests read.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

PAGE = "book/notation"
CHAPTERS = "chapters/"
# What is not prose: neither marked nor counted as a first use. (Titles count, and are not marked.)
NOT_PROSE = (
    nodes.caption, nodes.legend, nodes.table, nodes.figure, nodes.literal,
    nodes.literal_block, nodes.math, nodes.math_block, nodes.raw, nodes.image,
)  # fmt: skip
# Prose in which a link would be wrong (another link) or idle (the place that defines the term).
NOT_MARKED = (nodes.reference, addnodes.pending_xref, nodes.emphasis, nodes.strong)
ASIDE = {"exercise", "solution", "cell", "cell_output"}  # classes of the boxes that are passed over
GOALS = "What you will be able to do"  # a section that announces and explains nothing


# --- the source ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A word of the field: its definition, and the forms in which the pages have it."""

    name: str
    means: str  # one or two plain sentences; `code` in backticks
    forms: tuple[str, ...] = ()  # all forms (plurals, abbreviations) if there is more than the name
    unit: str = ""
    source: str = ""  # label of the equation, theorem or definition that it comes from
    start: str = ""  # chapter before which the word means something else
    not_in: tuple[str, ...] = ()  # later chapters in which it does

    @property
    def all_forms(self) -> tuple[str, ...]:
        """What is looked for on the pages."""
        return self.forms or (self.name,)

    @property
    def anchor(self) -> str:
        """Where its entry stands on the page."""
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.name.casefold()).strip("-")


@dataclass(frozen=True)
class Symbol:
    """A sign in formulas: what it means, and what the library calls it."""

    key: str  # what entries are sorted by, and the end of the anchor
    tex: str
    code: tuple[str, ...]  # below bayeswind_lib: "scoring.kl_bits", "tunnels.HMM(n_states)"
    means: str  # MyST: may hold formulas and roles
    find: tuple[str, ...] = ()  # formulas to look for, if `tex` alone would mislead
    unit: str = ""
    source: str = ""
    start: str = ""
    not_in: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Where its row stands on the page."""
        return f"symbol-{self.key}"


@cache
def read(path: Path) -> tuple[tuple[Symbol, ...], tuple[Term, ...]]:
    """The symbols and the terms of a glossary file.

    Raises:
        TypeError: if an entry has a field that none has, or lacks one.
    """
    data = tomllib.loads(path.read_text("utf-8"))

    def entries(kind, name):
        for entry in data.get(name, []):
            lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
            yield kind(**{**entry, **lists})

    return tuple(entries(Symbol, "symbol")), tuple(entries(Term, "term"))


def source_of(app) -> Path:
    """The glossary of a book."""
    return Path(app.srcdir) / "book/glossary.toml"


# --- finding: terms in prose, symbols in formulas ----------------------------------------------


def pattern_of(terms: tuple[Term, ...]) -> re.Pattern:
    """Matches any form of any term, the longest one first; whole words, hyphens included."""
    forms = sorted({form for term in terms for form in term.all_forms}, key=lambda f: (-len(f), f))
    words = [r"\s+".join(map(either_case, form.split())) for form in forms]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])")


def either_case(word: str) -> str:
    """A word whose first letter may be a capital, as at the start of a sentence."""
    first, rest = word[0], re.escape(word[1:])
    return f"[{first.upper()}{first}]{rest}" if first.islower() else re.escape(first) + rest


def by_form(terms: tuple[Term, ...]) -> dict[str, Term]:
    """Form, in small letters and with single spaces -> its term."""
    return {form.casefold(): term for term in terms for form in term.all_forms}


def term_of(match: re.Match, forms: dict[str, Term]) -> Term:
    """The term that a match of `pattern_of` is a form of."""
    return forms[" ".join(match[0].split()).casefold()]


def ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    """A node's parents, the nearest first."""
    while (node := node.parent) is not None:
        yield node


def is_prose(node: nodes.Node, titles: bool = False) -> bool:
    """Whether a text stands in a paragraph that a reader reads through, or in a title if wanted."""
    inside = titles and isinstance(node.parent, nodes.title)
    for parent in ancestors(node):
        if isinstance(parent, NOT_PROSE) or ASIDE & set(parent.get("classes", ())):
            return False
        if isinstance(parent, nodes.title) and not titles:
            return False
        if isinstance(parent, nodes.section) and title_of(parent) == GOALS:
            return False
        inside = inside or isinstance(parent, nodes.paragraph)
    return inside


def title_of(section: nodes.section) -> str:
    """The words of a section's heading; "" for a theorem's body, which is a section without one."""
    first = section[0] if len(section) else None
    return first.astext() if isinstance(first, nodes.title) else ""


def may_be_marked(node: nodes.Node) -> bool:
    """Whether a text in prose may carry a link."""
    return not any(isinstance(parent, (*NOT_MARKED, nodes.inline)) for parent in ancestors(node))


def is_aside(node: nodes.Node) -> bool:
    """Whether a node belongs to an exercise, a solution or a cell."""
    return any(ASIDE & set(parent.get("classes", ())) for parent in ancestors(node))


GROUP = re.compile(r"\\(?:mathbb|mathcal|mathbf|mathrm|text|operatorname)\s*\{[^{}]*\}")
SPACING = re.compile(r"\\(?:[,;:! ]|q?quad|[bB]ig[lr]?|left|right|limits)(?![a-z])|&")
ONE_IN_BRACES = re.compile(r"(?<=[_^])\s*\{\s*(\\[A-Za-z]+|\w)\s*\}")
TOKEN = re.compile(GROUP.pattern + r"|\\[A-Za-z]+|\\.|\S")


@cache
def tokens(tex: str) -> tuple[tuple[str, bool], ...]:
    """A formula as (token, is part of an index or exponent), without spacing.

    >>> tokens(r"W_{Q}\\, x^{2k}")[3:]
    (('x', False), ('^', False), ('{', True), ('2', True), ('k', True), ('}', True))
    """
    bare = ONE_IN_BRACES.sub(r" \1 ", SPACING.sub(" ", tex))
    found, groups, raised = [], [], False
    for token in TOKEN.findall(bare):
        if token == "{":
            groups.append(raised)
        found.append((re.sub(r"\s+", "", token), raised or any(groups)))
        if token == "}" and groups:
            groups.pop()
        raised = token in ("_", "^")
    return tuple(found)


def has_symbol(formula: str, wanted: str) -> bool:
    """Whether a formula holds a symbol by itself: not as an index, not with another index.

    >>> has_symbol("K S^2", "K"), has_symbol("W_K", "K"), has_symbol("K_t", "K")
    (True, False, False)
    """
    place, sought = tokens(formula), [token for token, _ in tokens(wanted)]
    names, n = [token for token, _ in place], len(sought)
    return any(
        names[i : i + n] == sought and not place[i][1] and ["_"] != names[i + n : i + n + 1]
        for i in range(len(names) - n + 1)
    )


def section_of(node: nodes.Node) -> tuple[str, str]:
    """(anchor, title) of the section that a node stands in."""
    sections = [parent for parent in ancestors(node) if isinstance(parent, nodes.section)]
    section = next(filter(title_of, sections), None)
    return ("", "") if section is None else (section["ids"][0], title_of(section))


def note_uses(app, doctree):
    """Write down where a chapter first uses each term and symbol."""
    document = app.env.docname
    if not document.startswith(CHAPTERS) or not source_of(app).is_file():
        return
    symbols, terms = read(source_of(app))
    found, pattern, forms = {}, pattern_of(terms), by_form(terms)
    for text in doctree.findall(nodes.Text):
        if is_prose(text, titles=True):
            for match in pattern.finditer(text.astext()):
                found.setdefault(term_of(match, forms).anchor, section_of(text))
    for formula in doctree.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)):
        if is_aside(formula) or isinstance(formula.parent, nodes.title):
            continue
        for symbol in symbols:
            if symbol.anchor not in found and any(
                has_symbol(formula.astext(), tex) for tex in symbol.find or (symbol.tex,)
            ):
                found[symbol.anchor] = section_of(formula)
    uses(app.env)[document] = found


def uses(env) -> dict[str, dict[str, tuple[str, str]]]:
    """Document -> anchor of an entry -> (anchor, title) of the section that has it first."""
    if not hasattr(env, "bayeswind_uses"):
        env.bayeswind_uses = {}
    return env.bayeswind_uses


def forget_uses(app, env, document):
    """Drop what was written down about a page that is read again."""
    uses(env).pop(document, None)


def merge_uses(app, env, documents, other):
    """Take over what another process wrote down."""
    uses(env).update({doc: found for doc, found in uses(other).items() if doc in documents})


def rewrite_page(app, env):
    """Write the page again when a first use has moved."""
    now = json.dumps(uses(env), sort_keys=True)
    before, env.bayeswind_uses_written = getattr(env, "bayeswind_uses_written", ""), now
    return [PAGE] if now != before and PAGE in env.found_docs else []


def reading_order(env) -> list[str]:
    """The book's pages as the table of contents has them."""
    order, seen = [], set()

    def walk(document):
        if document not in seen:
            seen.add(document)
            order.append(document)
            for child in env.toctree_includes.get(document, []):
                walk(child)

    walk(env.config.root_doc)
    return order


def first_use(env, entry: Symbol | Term) -> tuple[str, str, str] | None:
    """(document, anchor, title) of the section that first has a term or a symbol."""
    order = reading_order(env)
    for document in order:
        found = uses(env).get(document, {})
        if entry.anchor in found and means_this(entry, document, order):
            return (document, *found[entry.anchor])
    return None


def means_this(entry: Symbol | Term, document: str, order: list[str]) -> bool:
    """Whether a word or letter has this meaning in a chapter."""
    if document.removeprefix(CHAPTERS) in entry.not_in:
        return False
    return not entry.start or order.index(document) >= order.index(CHAPTERS + entry.start)


# --- the page --------------------------------------------------------------------------------


class first_use_node(nodes.Inline, nodes.Element):
    """Stands where a link to the first use will be: that is known when all pages are read."""


class code_name(nodes.Inline, nodes.TextElement):
    """A dotted name of the library that a browser may break after dots and underscores."""


class term_mark(nodes.Inline, nodes.TextElement):
    """A term in prose: a link to its entry, on which `terms.js` opens a card."""


def role_for(label: str) -> str:
    """The MyST role, with a word before it where it prints a number only, that names a label."""
    kind = label.split("-")[0]
    if kind == "eq":
        return f"Eq. {{eq}}`{label}`"
    return f"{{ref}}`{label}`" if kind in ("sec", "ch") else f"{{prf:ref}}`{label}`"


class SymbolTable(SphinxDirective):
    """{symbol-table}: all symbols, as a table."""

    def run(self):
        self.env.note_dependency(str(source_of(self.env.app)))
        symbols, _ = read(source_of(self.env.app))
        body = nodes.tbody("", *map(self.row, symbols))
        names = ("Symbol", "Meaning", "Name in the code", "First used in")
        head = nodes.row("", *(nodes.entry("", nodes.paragraph("", name)) for name in names))
        columns = [nodes.colspec(colwidth=width) for width in (16, 38, 25, 21)]
        group = nodes.tgroup("", *columns, nodes.thead("", head), body, cols=4)
        return [nodes.table("", group, classes=["bw-symbols"])]

    def row(self, symbol: Symbol) -> nodes.row:
        """One symbol."""
        meaning = symbol.means + (f" Unit: {symbol.unit}." if symbol.unit else "")
        if symbol.source:
            meaning += f" {role_for(symbol.source)}."
        words, problems = self.parse_inline(meaning)
        names = [code_name(name, name) for name in symbol.code]
        cells = (
            [nodes.paragraph("", "", nodes.math(symbol.tex, symbol.tex))],
            [nodes.paragraph("", "", *words), *problems],
            [nodes.paragraph("", "", name) for name in names],
            [nodes.paragraph("", "", first_use_node(entry=symbol))],
        )
        row = nodes.row("", *(nodes.entry("", *cell) for cell in cells), ids=[symbol.anchor])
        return row


class TermList(SphinxDirective):
    """{term-list}: all terms, as a glossary."""

    def run(self):
        self.env.note_dependency(str(source_of(self.env.app)))
        _, terms = read(source_of(self.env.app))
        found = nodes.definition_list("", *map(self.item, terms), classes=["glossary", "bw-terms"])
        return [addnodes.glossary("", found, sorted=False)]

    def item(self, term: Term) -> nodes.definition_list_item:
        """One term."""
        name = nodes.term("", term.name, ids=[term.anchor])
        self.state.document.note_explicit_target(name)
        standard = self.env.get_domain("std")
        standard.note_object("term", term.name, term.anchor, location=name)
        words, problems = self.parse_inline(term.means)
        notes = [nodes.inline("", f"In {term.unit}. ")] if term.unit else []
        if term.source:
            source, more = self.parse_inline(f"{role_for(term.source)}. ")
            notes, problems = notes + source, problems + more
        notes += [nodes.inline("", "First used in "), first_use_node(entry=term)]
        last = nodes.paragraph("", "", *notes, classes=["bw-used"])
        meaning = nodes.definition("", nodes.paragraph("", "", *words), *problems, last)
        return nodes.definition_list_item("", name, meaning)


def place_words(env, document: str, anchor: str, title: str) -> str:
    """How a link names a section: "section 1.3, Bits", or "chapter 1" for a chapter's opening."""
    numbers = env.toc_secnumbers.get(document, {})
    number = ".".join(map(str, numbers.get(f"#{anchor}") or numbers.get("") or ()))
    if title == env.titles[document].astext():
        return f"chapter {number}"
    return f"section {number}, {title}"


def fill_first_uses(app, doctree, document):
    """Put the links to first uses into the page."""
    for place in list(doctree.findall(first_use_node)):
        found = first_use(app.env, place["entry"])
        if found is None:
            place.replace_self(nodes.Text("no chapter"))
            continue
        where, anchor, title = found
        words = place_words(app.env, where, anchor, title)
        address = app.builder.get_relative_uri(document, where) + f"#{anchor}"
        link = nodes.reference("", words, refuri=address, internal=True)
        place.replace_self(link)


# --- marks in the chapters ---------------------------------------------------------------------


def mark_terms(app, doctree, document):
    """Turn the first plain occurrence of each term on a chapter's page into a link."""
    if PAGE not in app.env.found_docs or not document.startswith(CHAPTERS):
        return
    _, terms = read(source_of(app))
    order = reading_order(app.env)
    terms = tuple(term for term in terms if means_this(term, document, order))
    pattern, forms, done = pattern_of(terms), by_form(terms), set()
    home = app.builder.get_relative_uri(document, PAGE)
    for text in list(doctree.findall(nodes.Text)):
        if is_prose(text) and may_be_marked(text):
            parts = marked(text.astext(), pattern, forms, done, home)
            if len(parts) > 1 or not isinstance(parts[0], nodes.Text):
                text.parent.replace(text, parts)


def marked(text: str, pattern: re.Pattern, forms: dict, done: set, home: str) -> list[nodes.Node]:
    """A text cut at the terms that are not in `done` yet, which they join."""
    parts, last = [], 0
    for match in pattern.finditer(text):
        term = term_of(match, forms)
        if term.anchor in done:
            continue
        done.add(term.anchor)
        if match.start() > last:
            parts.append(nodes.Text(text[last : match.start()]))
        parts.append(term_mark("", match[0], term=term, refuri=f"{home}#{term.anchor}"))
        last = match.end()
    if last < len(text) or not parts:
        parts.append(nodes.Text(text[last:]))
    return parts


def as_html(words: str) -> str:
    """A definition for a card: its `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words, quote=False))


def hand_out_cards(app, pagename, templatename, context, doctree):
    """Load the cards on pages that have marks, with the definitions of these terms alone."""
    if doctree is None:
        return
    marks = [mark["term"] for mark in doctree.findall(term_mark)]
    if marks:
        cards = {t.anchor: [t.name, as_html(t.means), t.unit] for t in marks}
        data = json.dumps(cards, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        app.add_js_file(None, body=f"var bwTerms = {data};")
    if marks or pagename == PAGE:
        app.add_css_file("terms.css")
        app.add_js_file("terms.js", loading_method="defer")


def visit_mark(writer, node):
    """Open the link."""
    address = html.escape(node["refuri"])
    writer.body.append(f'<a class="bw-term" href="{address}">')


def depart_mark(writer, node):
    """Close the link."""
    writer.body.append("</a>")


def visit_code_name(writer, node):
    """A name with a place to break after each dot, underscore and bracket."""
    name = re.sub(r"([._(])", r"\1<wbr>", html.escape(node.astext()))
    writer.body.append(f'<code class="docutils literal notranslate bw-name">{name}</code>')
    raise nodes.SkipNode


def nothing(writer, node):
    """Other formats get the text alone."""


def code_key(app) -> str:
    """A hash of the glossary and of this file: where it differs, all pages are read again."""
    files = [path for path in (Path(__file__), source_of(app)) if path.is_file()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def setup(app):
    """Connect everything above."""
    app.add_config_value("bayeswind_terms_code", code_key(app), "env")
    plain = dict.fromkeys(("latex", "text", "man", "texinfo"), (nothing, nothing))
    app.add_node(term_mark, html=(visit_mark, depart_mark), **plain)
    app.add_node(code_name, html=(visit_code_name, nothing), **plain)
    app.add_node(first_use_node)
    app.add_directive("symbol-table", SymbolTable)
    app.add_directive("term-list", TermList)
    app.connect("doctree-read", note_uses)
    app.connect("env-purge-doc", forget_uses)
    app.connect("env-merge-info", merge_uses)
    app.connect("env-updated", rewrite_page)
    app.connect("doctree-resolved", fill_first_uses)
    app.connect("doctree-resolved", mark_terms)
    app.connect("html-page-context", hand_out_cards, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The search: a list of the book's sections, made at build, that the search page reads.

Sphinx's own search lists pages and fetches each of them for an excerpt, which a browser refuses
where the book is opened from a folder, and which shows TeX. Here `_static/sections.js` holds of
every section its address, its title and its prose (no code, no tables, a formula as its letters),
and `search.js` finds in it. Only the search page loads them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from docutils import nodes

from bayeswind_api import UNSOUGHT
from bayeswind_predict import predict_answer, predict_answers

FILE = "_static/sections.js"
UNSEEN = ("genindex", "search")
# Their words stand in the sections that they announce, or sum up.
SUMMARIES = ("What you will be able to do", "Recap")
# What is not prose, stands in a section of its own, or is hidden on its page until a bet.
SKIPPED = (
    nodes.literal_block, nodes.table, nodes.raw, nodes.section, nodes.title, nodes.comment,
    nodes.math_block, nodes.target, nodes.footnote_reference, predict_answer, predict_answers,
)  # fmt: skip
# A place that held nothing but a number.
ENDING = re.compile(r" \(…\)| …(?: %| bits?)?(?=[,.;:)])")
DECIMALS = re.compile(
    r"((?:Fig|[Nn]o|v)\. |[A-Z][a-z]+ )?"
    r"(?:\d[\d,]*(?:\.\d+(?:e[-+]\d+)?|e[-+]\d+)|\d{1,3}(?:,\d{3})+|\d+(?= %))"
)
RANGE = re.compile(r"…(?:,? (?:to|and|against) …|, …)+")
TEX = {
    r"\alpha": "α", r"\beta": "β", r"\gamma": "γ", r"\delta": "δ", r"\epsilon": "ε",
    r"\varepsilon": "ε",
    r"\eta": "η", r"\theta": "θ", r"\kappa": "κ", r"\lambda": "λ", r"\mu": "μ", r"\pi": "π",
    r"\rho": "ρ", r"\sigma": "σ", r"\tau": "τ", r"\phi": "φ", r"\Delta": "Δ", r"\Sigma": "Σ",
    r"\times": "×", r"\cdot": "·", r"\le": "≤", r"\ge": "≥", r"\ne": "≠", r"\approx": "≈",
    r"\infty": "∞", r"\to": "→", r"\in": "∈", r"\sum": "Σ", r"\log": "log ", r"\ldots": "…",
    r"\dots": "…", r"\pm": "±", r"\mid": "|", r"\ll": "≪", r"\gg": "≫",
}  # fmt: skip


def letters(tex: str) -> str:
    """A short formula in its letters; a long one, or one that needs its second dimension, as dots.

    >>> letters(r"H \\le \\log_2 K"), letters(r"p(y \\mid x_k)"), letters(r"\\frac{a}{b}")
    ('H ≤ log 2 K', 'p(y | xk)', '…')
    """
    text = re.sub(r"\\(?:mathbf|mathrm|mathcal|text|hat|bar|tilde|operatorname)\b\s*", "", tex)
    text = re.sub(r"\\[a-zA-Z]+", lambda command: TEX.get(command[0], command[0]), text)
    text = re.sub(r"\\[,;! ]|[{}_$]|(?<!\\)\\$", "", text)
    text = " ".join(text.split())
    return text if len(text) <= 30 and not re.search(r"[\\^&]", text) else "…"


def prose(node: nodes.Node) -> str:
    """The words of a part of a page, without what is not prose."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, SKIPPED):
        return " "
    if isinstance(node, nodes.math):
        return letters(node.astext())
    if UNSOUGHT in node.get("classes", ()):
        return " "
    if "bw-minutes" in node.get("classes", ()) or node.get("nb_element") == "cell_code":
        return captions(node)
    parts = "".join(map(prose, node.children))
    return parts + " " if isinstance(node, nodes.Body | nodes.Part) else parts


def captions(node: nodes.Node) -> str:
    """Of a cell, the captions of its figures."""
    return (
        " ".join("".join(map(prose, caption.children)) for caption in node.findall(nodes.caption))
        + " "
    )


def without_decimals(text: str) -> str:
    """Measured numbers as dots, several in a row as one: nobody seeks a decimal, and digits
    weigh more than words.

    >>> without_decimals("0.2 to 0.25 bits (Fig. 6.11), not more (0.3)")
    '… bits (Fig. 6.11), not more'
    >>> without_decimals("It is 0.2 bits, or 0.3 %.")
    'It is, or.'
    >>> without_decimals("within 2e-05 to 1.3e-04 bits of it")
    'within … bits of it'
    >>> without_decimals("after 192,000 episodes 98 % of 8 runs")
    'after … episodes … % of 8 runs'
    """
    dots = DECIMALS.sub(lambda found: found[0] if found[1] else "…", text)
    return ENDING.sub("", RANGE.sub("…", dots))


def words_of(nodes_: list) -> str:
    """Several nodes as plain text on one line."""
    return " ".join("".join(map(prose, nodes_)).split())


def sections_of(doctree) -> list[tuple[str, str, str]]:
    """(anchor, title, prose) of each section of a page, the page's own anchor being ""."""
    found = []
    for section in doctree.findall(nodes.section):
        title = next(section.findall(nodes.title), None)
        anchor = section["ids"][0] if found else ""
        text = words_of(section.children)
        named = "" if title is None else words_of(title.children)
        if named and named not in SUMMARIES and (text or not found):
            found.append((anchor, named, text))
    return found


def numbers_of(env, page: str) -> dict[str, str]:
    """Anchor -> "5.2 " of the page's sections; of a page without numbers nothing."""
    found = env.toc_secnumbers.get(page, {})
    return {
        anchor.lstrip("#"): ".".join(map(str, number)) + " " for anchor, number in found.items()
    }


def keep_sections(app, pagename, templatename, context, doctree):
    """Remember a page's sections, until all pages are written."""
    if doctree is not None and pagename not in UNSEEN:
        numbers = numbers_of(app.env, pagename)
        kept = [(a, numbers.get(a, "") + title, text) for a, title, text in sections_of(doctree)]
        folder = Path(app.doctreedir) / "sections"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{pagename.replace('/', '--')}.json").write_text(json.dumps(kept), "utf-8")


def write_sections(app, problem):
    """Write the list of all sections into the site, in the order of the book's pages."""
    if problem or app.builder.format != "html":
        return
    pages, sections = [], []
    for page in sorted(app.env.found_docs):
        file = Path(app.doctreedir) / "sections" / f"{page.replace('/', '--')}.json"
        if file.is_file():
            sections += [[len(pages), *row] for row in json.loads(file.read_text("utf-8"))]
            pages.append(page)
    for row in sections:
        row[-1] = without_decimals(row[-1])
    data = json.dumps(
        {"pages": pages, "sections": sections}, ensure_ascii=False, separators=(",", ":")
    )
    (Path(app.outdir) / FILE).write_text(f"var bwSections = {data};\n", "utf-8")


def setup(app):
    """Connect everything above."""
    app.connect("html-page-context", keep_sections)
    app.connect("build-finished", write_sections)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

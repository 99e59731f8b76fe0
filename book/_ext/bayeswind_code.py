"""Code on the page: what teaches is shown, bookkeeping waits behind a small word at the margin.

- A cell that is tagged `hide-input`, the cell of parameters, and one that only imports, asserts or
  hands numbers to the text are folded: a `<details>` whose summary says "code".
- Of a folded cell that shows nothing, not even that word is seen until a reader asks for all code.
- The switch in the header (_templates/code-switch.html, book.js) says how much code is shown; it is
  remembered, and stands before the page is drawn.
- A long table of a chapter is folded as well, under a line that says what it holds.
"""

from __future__ import annotations

import ast
import re
from html import escape, unescape

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode

LONG, WIDE = 11, 7  # rows below the heads, and columns, that a table may have and stand open
OWN_WAY = ("bw-ledger", "bw-rows", "bw-compared", "bw-data", "bw-symbols", "data-explorer")
TABLE = re.compile(r"<table\b.*?</table>", re.S)
# Before the page is drawn: how much code a reader wants to see.
REMEMBERED = """\
<script>{ const set = much => { document.documentElement.dataset.code = much || "shown"; };
  try { set(localStorage.getItem("bw-code")); } catch { set(); } }</script>"""


# --- which cells -------------------------------------------------------------------------------


def is_bookkeeping(source: str) -> bool:
    """Whether a cell imports, asserts, hands numbers to the text, and does little else.

    Beside imports it may give names to things; beside the others too, if not more often.

    >>> is_bookkeeping("import math\\nx = math.pi\\nglue('pi', x)")
    True
    >>> is_bookkeeping("x = 1\\nassert x < 2"), is_bookkeeping("x = 1\\ny = 2\\nassert x < y")
    (True, False)
    >>> is_bookkeeping("x = 3"), is_bookkeeping("%pip x")
    (False, False)
    >>> is_bookkeeping("import math\\nprint(math.pi)")
    False
    """
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    names = sum(isinstance(line, ast.Assign) for line in body)
    imports = any(isinstance(line, ast.Import | ast.ImportFrom) for line in body)
    clerical = sum(map(is_clerical, body))
    return bool(clerical) and clerical + names == len(body) and (imports or names <= clerical)


def is_clerical(line: ast.stmt) -> bool:
    """Whether a statement imports, asserts, or calls `glue`."""
    if isinstance(line, ast.Import | ast.ImportFrom | ast.Assert):
        return True
    call = getattr(line, "value", None)
    name = getattr(call, "func", None)
    glues = getattr(name, "attr", getattr(name, "id", "")) == "glue"
    return isinstance(line, ast.Expr) and isinstance(call, ast.Call) and glues


def shows(cell: nodes.Element) -> bool:
    """Whether a cell has an output that a reader sees; a script and a line are for an explorer."""
    outputs = [c for c in cell.children if c.get("nb_element") == "cell_code_output"]
    raw = "".join(node.astext() for output in outputs for node in output.findall(nodes.raw))
    for_explorer = re.fullmatch(r"\s*<p>[^<]*</p><script>.*</script>\s*", raw, re.S)
    return any(output.children for output in outputs) and not for_explorer


def fold_cells(app, doctree):
    """Fold what does not teach, and mark the folded cells that show nothing."""
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") != "cell_code":
            continue
        tags = cell["cell_metadata"].get("tags", [])
        code = next(cell.findall(nodes.literal_block), None)
        if "parameters" in tags or (code is not None and is_bookkeeping(code.astext())):
            cell.setdefault("hide_mode", "input")
            cell.setdefault("prompt_show", "")
            cell.setdefault("prompt_hide", "")
        if cell.get("hide_mode") in ("input", "all"):
            cell["classes"].append("bw-folds" if shows(cell) else "bw-quiet")


def visit_fold(translator, node):
    """The small word that opens a folded cell."""
    translator.body.append(
        f'<details class="hide bw-code {" ".join(node["classes"])}">'
        '<summary title="The code of this cell"><span aria-hidden="true">&lt;/&gt;</span> code'
        "</summary>\n"
    )


def depart_fold(translator, node):
    """The end of a folded cell."""
    translator.body.append("</details>\n")


# --- long tables -------------------------------------------------------------------------------


def words_of(markup: str) -> str:
    """HTML as plain words.

    >>> words_of("<th><p>KL &amp; <b>TV</b></p></th>")
    'KL & TV'
    """
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def size_of(markup: str) -> tuple[int, int]:
    """Rows (without the heads) and columns of a table.

    >>> size_of("<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>")
    (1, 2)
    """
    rows = re.findall(r"<tr\b.*?(?=<tr\b|</table>)", markup, re.S)
    heads = [row for row in rows if "<td" not in row]
    return len(rows) - len(heads), max((len(re.findall(r"<t[hd]\b", r)) for r in rows), default=0)


def summary_of(markup: str) -> str:
    """What a table holds, in a line: its caption or the names of its columns, and its size."""
    rows, columns = size_of(markup)
    caption = re.search(r"<caption\b.*?</caption>", markup, re.S)
    heads = [words_of(head) for head in re.findall(r"<th\b.*?</th>", markup, re.S)[:columns]]
    said = words_of(caption[0]) if caption else ", ".join(filter(None, heads[:4]))
    said = re.sub(r"\s+([.,;:)])", r"\1", said).rstrip(".")
    return f"Table: {said or 'numbers'} ({rows} rows)"


def folded(markup: str) -> str:
    """A table under its summary, if it is long or only says how the minutes are spent."""
    rows, columns = size_of(markup)
    heads = [words_of(head) for head in re.findall(r"<th\b.*?</th>", markup, re.S)[:2]]
    minutes = heads == ["section", "minutes"]
    short = rows <= LONG and columns <= WIDE or any(name in markup for name in OWN_WAY)
    if short and not minutes:
        return markup
    said = "Minutes, by section" if minutes else escape(summary_of(markup))
    return f'<details class="bw-long bw-in-print"><summary>{said}</summary>\n{markup}</details>'


def fold_tables(app, pagename, templatename, context, doctree):
    """Fold the long tables of a chapter: those of its text and those that its cells made."""
    if pagename.startswith("chapters/") and "body" in context:
        pieces = re.split(r"(<details\b.*?</details>)", context["body"], flags=re.S)
        for i in range(0, len(pieces), 2):  # what already folds away stays as it is
            pieces[i] = TABLE.sub(lambda match: folded(match[0]), pieces[i])
        context["body"] = "".join(pieces)


# --- the switch --------------------------------------------------------------------------------


def offer_switch(app, pagename, templatename, context, doctree):
    """Let the header of a chapter have the switch (see the template)."""
    context["bw_has_code"] = pagename.startswith("chapters/") and 'class="cell' in context.get(
        "body", ""
    )
    if context["bw_has_code"]:
        context["metatags"] = f"{context.get('metatags', '')}\n{REMEMBERED}"


def setup(app):
    """Connect everything above."""
    app.setup_extension("myst_nb")
    app.add_node(HideCodeCellNode, override=True, html=(visit_fold, depart_fold))
    app.connect("doctree-read", fold_cells)
    app.connect("html-page-context", fold_tables, priority=850)
    app.connect(
        "html-page-context", offer_switch, priority=100
    )  # before the theme drops empty parts
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

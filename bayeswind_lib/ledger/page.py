"""The ledger as a page: rows as text, as an HTML table, and as a JSON file to keep.

Status is a word with a mark and a colour, never a colour alone. On a narrow screen every row
becomes a card; explicit roles keep it a table for a screen reader.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from html import escape

from bayeswind_lib.figures import words
from bayeswind_lib.ledger import provenance, trained
from bayeswind_lib.ledger.chance import PUBLISHED
from bayeswind_lib.ledger.claims import anchor_of

MARKS = {
    "reproduced": "✓", "partly": "◐", "not reproduced": "✗", "not settled": "…", "needs public weights": "↓", "not testable": "∅",
}
APART = 0.5  # of the largest value: so far apart seeds are shown one by one
COLUMNS = ("Claim", "Published", "Measured here", "Null", "Status")
OWN = {"reference": "this book's value", "derived": "this book's number for a published sentence", "own": "claimed"}
ALONE = {"reference": "This book's value", "own": "Claimed"}  # where a table has no other kind

STYLE = """<style>
.bw-ledger { --ink: #1c2329; --quiet: #52606b; --line: #d5dee5; color: var(--ink); }
html[data-theme="dark"] .bw-ledger { --ink: #e3e9ee; --quiet: #a9b7c2; --line: #3a4650; }
html[data-theme="dark"] .bd-content div.cell_output .output.text_html:has(div.bw-ledger)
  { background: transparent; padding: 0; }
div.bw-ledger table.bw-rows { display: table; width: 100%; border-collapse: collapse;
  font-size: 0.9em; line-height: 1.4; margin: 0.5rem 0 1rem; text-align: left; }
.bw-rows th, .bw-rows td { padding: 0.5rem 0.6rem; vertical-align: top;
  border-bottom: 1px solid var(--line); text-align: left; color: var(--ink); background: transparent; }
.bw-rows thead th { border-bottom: 2px solid var(--line); }
.bw-rows tbody th { font-weight: 400; width: 34%; }
.bw-rows:not(.bw-counts) td { min-width: 6.2rem; }
div.bw-ledger table.bw-counts { font-size: 0.8em; }
.bw-counts th, .bw-counts td { padding: 0.4rem 0.3rem; }
.bw-rows.bw-counts tbody th { width: auto; }
.bw-counts thead span.bw-status { border-radius: 0.6rem; white-space: normal; }
.bw-rows caption { color: var(--quiet); text-align: left; caption-side: top; }
.bw-rows tr:target { outline: 3px solid #0072B2; }
.bw-ledger small { color: var(--quiet); display: block; margin-top: 0.2rem; overflow-wrap: break-word; }
.bw-rows th small { overflow-wrap: anywhere; }
.bw-rows details { color: var(--quiet); font-size: 0.85em; margin-top: 0.2rem; }
.bw-rows summary, .bw-ledger > details > summary { cursor: pointer; }
.bw-ledger > details > summary { color: var(--quiet); padding: 0.45rem 0.1rem; }
.bw-ledger dl.bw-by-status { display: grid; grid-template-columns: max-content 1fr; gap: 0.45rem 0.8rem; align-items: baseline; margin: 0.6rem 0 0.3rem; }
.bw-ledger .bw-by-status :is(dt, dd) { margin: 0; font-weight: 400; }
.bw-by-status dd { display: flex; flex-wrap: wrap; gap: 3px; }
.bw-ledger .bw-by-status a { display: grid; place-items: center; width: 24px; height: 24px; border-radius: 4px; color: var(--mark); font: 13px/1 var(--bw-sans, sans-serif); text-decoration: none; }
.bw-by-status a:is(:hover, :focus-visible) { outline: 2px solid var(--ink); outline-offset: 1px; }
.bw-ledger pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.bw-ledger a { color: inherit; text-decoration: underline; }
span.bw-status { display: inline-block; padding: 0.05rem 0.5rem; border-radius: 1rem; white-space: nowrap; }
.bw-status-reproduced { --fill: #d6f0e2; --mark: #0b4a2c; }
.bw-status-partly { --fill: #fdeec2; --mark: #5a4300; }
.bw-status-not-reproduced { --fill: #fbd9d3; --mark: #7a1c0b; }
.bw-status-not-settled { --fill: #e4e6ea; --mark: #33383f; }
.bw-status-needs-public-weights { --fill: #d8e8f7; --mark: #12395c; }
.bw-status-not-testable { --fill: #e6def5; --mark: #46307a; }
html[data-theme="dark"] .bw-status-reproduced { --fill: #1d5a3d; --mark: #d6f0e2; }
html[data-theme="dark"] .bw-status-partly { --fill: #6b5410; --mark: #fdeec2; }
html[data-theme="dark"] .bw-status-not-reproduced { --fill: #7d2d1f; --mark: #fbd9d3; }
html[data-theme="dark"] .bw-status-not-settled { --fill: #3a434c; --mark: #dfe3e8; }
html[data-theme="dark"] .bw-status-needs-public-weights { --fill: #1f4a70; --mark: #d8e8f7; }
html[data-theme="dark"] .bw-status-not-testable { --fill: #4d3a75; --mark: #e6def5; }
[class*="bw-status-"] { background: var(--fill); color: var(--mark); }
@media (max-width: 640px) {
  .bw-ledger dl.bw-by-status { grid-template-columns: 1fr; }
  div.bw-ledger table.bw-rows, .bw-rows tbody, .bw-rows tr, .bw-rows th, .bw-rows td { display: block; }
  .bw-rows thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .bw-rows tbody tr { border: 1px solid var(--line); border-radius: 6px; margin: 0.6rem 0; padding: 0.2rem 0; }
  .bw-rows tbody th { width: auto; }
  .bw-rows:not(.bw-counts) td { min-width: 0; }
  .bw-rows th, .bw-rows td { border: 0; padding: 0.25rem 0.7rem; }
  .bw-rows td::before { content: attr(data-label); display: inline-block; width: 7.5rem; color: var(--quiet); }
  .bw-rows td { overflow-wrap: anywhere; }
  .bw-rows td[data-label="Read in"]::before { display: block; }
}
</style>"""


class LedgerTable:
    """Rows of the ledger, shown as a table by a notebook and as text elsewhere.

    Args:
        rows: what `ledger.rows()` returned, or some of it.
        caption: a sentence above the table.
        anchors: give every row the id `ledger-<id>`, so that it can be linked to; once a page.
        fold: what a click opens the table with; open without it.
        page: where the ledger is, for a square per row above the table that leads there; none without it.
    """

    def __init__(self, rows: Sequence[dict], caption: str = "", anchors: bool = False, fold: str = "", page: str = ""):
        self.rows, self.caption, self.anchors, self.fold, self.page = list(rows), caption, anchors, fold, page

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return text_table(self.rows)

    def _repr_html_(self) -> str:
        columns = (COLUMNS[0], _value_heading(self.rows), *COLUMNS[2:])
        heads = "".join(f'<th scope="col" role="columnheader">{name}</th>' for name in columns)
        body = "\n".join(_html_row(row, self.anchors, columns) for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        table = (
            f'<table class="bw-rows" role="table">{caption}'
            f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>\n'
            f'<tbody role="rowgroup">\n{body}\n</tbody></table>'
        )
        if self.fold:
            table = f'<details class="bw-in-print"><summary>{escape(self.fold)}: {len(self.rows)} rows</summary>{table}</details>'
        return f'{STYLE}<div class="bw-ledger">{self._by_status() if self.page else ""}{table}</div>'

    def _by_status(self) -> str:
        """A square for every row, those of a status in one line, each a link to the row in the ledger."""
        lines = ""
        for status in MARKS:
            found = [row for row in self.rows if row["status"] == status]
            squares = "".join(_square(row, self.page, f' title="{escape(row["statement"])}"') for row in found)
            lines += f"<dt>{_pill(status)} {len(found)}</dt><dd>{squares}</dd>" if found else ""
        return f'<dl class="bw-by-status">{lines}</dl><small>A square is a claim, and leads to its row of the ledger.</small>'


def _square(row: dict, page: str, more: str = "") -> str:
    """A link to a row, in the colour and with the mark of its status."""
    label = escape(f"{row['statement']} {row['status']}.", quote=True)
    kind = row["status"].replace(" ", "-")
    return f'<a class="bw-square bw-status-{kind}" href="{page}#{anchor_of(row["id"])}" aria-label="{label}"{more}>{MARKS[row["status"]]}</a>'


class LedgerGrid:
    """A square for every row, by its status, with filters; the page has the rows as tables with anchors too.

    Args:
        groups: rows by the name of what they are, such as "papers".
        opens: the id of the row that is shown at first.
        page: where the tables are, if not on the same page.
    """

    def __init__(self, groups: dict[str, Sequence[dict]], opens: str, page: str = ""):
        self.groups, self.opens, self.page = {name: list(rows) for name, rows in groups.items()}, opens, page

    def __repr__(self) -> str:
        return repr(Counts(self.groups))

    def _repr_html_(self) -> str:
        known = {"status": MARKS, "kind": {name: name for name in self.groups}}
        runs = "".join(
            f'<section class="bw-group"><p>{escape(name)}</p><div class="bw-run">{"".join(self._square(row, name) for row in rows)}</div></section>'
            for name, rows in self.groups.items()
        )
        return (
            f'{STYLE}<div class="bw-ledger"><div class="bw-explorer" data-explorer="ledger" '
            f"data-words='{escape(json.dumps(known), quote=True)}'><div class=\"bw-squares\">{runs}</div></div></div>"
        )

    def _square(self, row: dict, group: str) -> str:
        facts = {
            "status": row["status"], "kind": group, "tunnel": row["tunnel"] or "", "architecture": row["architecture"] or "",
            "chapter": " ".join(name[:2].lstrip("0") for name in row["chapters"]),
        }  # fmt: skip
        data = "".join(f' data-{name}="{escape(value)}"' for name, value in facts.items())
        data += " data-opens" if row["id"] == self.opens else ""
        return _square(row, self.page, data)


class JsonFile:
    """A link that saves rows as a JSON file; the file is in the page, nothing is fetched."""

    def __init__(self, rows: Sequence[dict], name: str = "ledger.json"):
        self.rows, self.name = list(rows), name

    def __repr__(self) -> str:
        return f"{self.name}: {len(self.rows)} rows (python -m bayeswind_lib ledger --json)"

    def _repr_html_(self) -> str:
        text = json.dumps(self.rows, separators=(",", ":"), ensure_ascii=False)
        content = base64.b64encode(text.encode()).decode()
        return (
            f'{STYLE}<div class="bw-ledger"><a download="{self.name}" '
            f'href="data:application/json;base64,{content}">Save all {len(self.rows)} rows as JSON</a></div>'
        )


class Counts:
    """How many rows have each status, for groups of rows."""

    def __init__(self, groups: dict[str, Sequence[dict]]):
        self.groups = {name: list(rows) for name, rows in groups.items()}

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {_counted(rows)}" for name, rows in self.groups.items())

    def _repr_html_(self) -> str:
        heads = "".join(
            f'<th scope="col" role="columnheader">{_pill(status)}</th>' for status in MARKS
        )
        body = "".join(self._row(name, rows) for name, rows in self.groups.items())
        return (
            f'{STYLE}<div class="bw-ledger"><table class="bw-rows bw-counts" role="table">'
            f'<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Rows</th>{heads}'
            f'</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>'
        )

    def _row(self, name: str, rows: list[dict]) -> str:
        cells = "".join(
            f'<td role="cell" data-label="{status}">{sum(r["status"] == status for r in rows)}</td>'
            for status in MARKS
        )
        return f'<tr role="row"><th scope="row" role="rowheader">{escape(name)}</th>{cells}</tr>'


class Sentences:
    """Rows as sentences under headings that open, each with its numbers and the chapter that settles it.

    Args:
        groups: rows by heading; a group without rows is left out.
        chapters: the folder of the chapters, seen from the page that shows this.
    """

    def __init__(self, groups: dict[str, Sequence[dict]], chapters: str = ""):
        self.groups, self.chapters = {name: list(rows) for name, rows in groups.items() if rows}, chapters

    def __repr__(self) -> str:
        return "\n".join(
            f"{name} ({len(rows)}): {', '.join(row['id'] for row in rows)}" for name, rows in self.groups.items()
        )

    def _repr_html_(self) -> str:
        return f'{STYLE}<div class="bw-ledger">' + "".join(
            f"<details><summary>{escape(name)}: {len(rows)}{_hours(rows)}</summary>{_commands(rows)}<ul>{''.join(map(self._item, rows))}</ul></details>"
            for name, rows in self.groups.items()
        ) + "</div>"

    def _item(self, row: dict) -> str:
        line = f"{OWN.get(row['kind'], 'published')} {published(row)}, measured {measured(row)}, null {null(row)}"
        links = ", ".join(
            f'<a href="{self.chapters}{name}.html">chapter {int(name[:2])}</a>' for name in row["chapters"]
        )
        why = f": {row['reason']}" if row["status"] == "not settled" and not row["settled_by"] else ""
        return f"<li>{escape(row['statement'])} <small>{escape(line + why)}{' · ' + links if links else ''}</small></li>"


def _commands(rows: Sequence[dict]) -> str:
    """What would settle rows that one thing settles, as commands to copy."""
    lines = dict.fromkeys(line for row in rows for line in row["settled_by"].splitlines())
    return f"<pre>{escape(chr(10).join(lines))}</pre>" if lines else ""


def _hours(rows: Sequence[dict]) -> str:
    """How long the runs take that would settle rows which the same runs settle."""
    known = [row["hours"] for row in rows if row["hours"] is not None]
    return f" (about {max(known):.0f} h of one core)" if known else ""


def _value_heading(rows: list[dict]) -> str:
    """What stands over the values to compare with: nobody published those of this book, or of its reader.

    >>> _value_heading([{"kind": "reference"}]), _value_heading([{"kind": "paper"}, {"kind": "derived"}])
    ("This book's value", 'Published, or ours')
    >>> _value_heading([{"kind": "own"}])
    'Claimed'
    """
    kinds = {row["kind"] for row in rows}
    if kinds <= set(PUBLISHED):
        return COLUMNS[1]
    return next((heading for kind, heading in ALONE.items() if kinds == {kind}), "Published, or ours")


def _counted(rows: list[dict]) -> str:
    found = {status: sum(row["status"] == status for row in rows) for status in MARKS}
    return ", ".join(f"{count} {status}" for status, count in found.items() if count)


def _pill(status: str) -> str:
    kind = status.replace(" ", "-")
    return f'<span class="bw-status bw-status-{kind}">{MARKS[status]} {status}</span>'


def _html_row(row: dict, anchors: bool, columns: Sequence[str] = COLUMNS) -> str:
    anchor = f' id="{anchor_of(row["id"])}"' if anchors else ""
    each = _each(row)
    cells = (
        escape(published(row)) + _small(_own(row, columns)) + _small("" if row["kind"] == "reference" else row["rule"]),
        escape(measured(row)) + _small(each) + _small(_runs(row)),
        escape(_short(row["null"]) if row["draws"] else "none yet") + _small(_null_words(row)),
        _pill(row["status"]) + _small(row["reason"]),
    )
    tds = "".join(
        f'<td role="cell" data-label="{label}">{cell}</td>'
        for label, cell in zip(columns[1:], cells, strict=True)
    )
    claim = f"{escape(row['statement'])}{_small(row['source'])}{_small(row['note'])}{_beside(row, anchors)}{_links(row, anchors)}"
    if anchors and row["kind"] != "reference":
        claim += f"<details><summary>how it is measured</summary>{escape(row['how'])}</details>"
    return f'<tr role="row"{anchor}><th scope="row" role="rowheader">{claim}</th>{tds}</tr>'


def _own(row: dict, columns: Sequence[str]) -> str:
    """Whose number it is, where the column's heading does not say so."""
    return OWN.get(row["kind"], "") if columns[1] == "Published, or ours" else ""


def _small(text: str | None) -> str:
    return f"<small>{escape(text)}</small>" if text else ""


def _beside(row: dict, anchors: bool) -> str:
    """The reference point to read a row against, with its value; a link on the ledger's own page."""
    beside, target = row["beside"], row["read_against"]
    if beside is None and target and anchors:
        return f'<small>read against <a href="#{anchor_of(target)}">{escape(target)}</a></small>'
    if beside is None or beside["measured"] is None:
        return ""
    words = escape(beside["statement"].rstrip("."))
    if anchors:
        words = f'<a href="#{anchor_of(beside["id"])}">{words}</a>'
    return f"<small>read against: {words}: {escape(_short(beside['measured']) + _unit(beside))}</small>"


def _links(row: dict, anchors: bool) -> str:
    """The row's id, and on the ledger's own page where it is taken up and its runs."""
    parts = [f"<code>{escape(row['id'])}</code>"]
    if anchors:
        parts += [
            f'<a href="../chapters/{name}.html">chapter {int(name[:2])}</a>'
            for name in row["chapters"]
        ]
        if row["kind"] in provenance.NEED:
            parts.append(f'<a href="provenance.html#read-{row["id"]}">where it was read</a>')
        if row["runs"] and row["network"] in trained.names():
            parts.append(f'<a href="architectures.html#run-{row["network"]}">the runs</a>')
    return f"<small>{' · '.join(parts)}</small>"


def _each(row: dict) -> str:
    """Every seed's value where the seeds lie so far apart that their mean describes none of them."""
    values = [run["measured"] for run in row["runs"]]
    if row["base_runs"] or len(values) < 2 or not all(isinstance(v, float | int) for v in values):
        return ""
    apart = max(values) - min(values) > APART * max(map(abs, values))
    return f"seed by seed: {', '.join(map(_short, values))}" if apart else ""


def _runs(row: dict) -> str:
    """Seeds, preset, device, minutes and commit of a trained network; the check of a formula."""
    if row["runs"]:
        seeds = ", ".join(map(str, row["seeds"]))
        if row["base_runs"]:
            seeds += f" over seed {', '.join(str(run['seed']) for run in row['base_runs'])}"
        minutes = f", {row['minutes']:g} min" if row["minutes"] is not None else ""
        commit = f", commit {row['commit'][:7]}" if row["commit"] else ""
        return f"seed {seeds}, {row['preset']}, {row['device']}{minutes}{commit}"
    if row["check"] is None:
        return ""
    return f"sampled: {_with_error(row['check'], row['check_standard_error'])}"


def published(row: dict) -> str:
    """The published value as printed, with its unit."""
    if row["published"] == "inf":
        return "infinite"
    text = row["published_text"]
    sign = f"{row['bound']} " if row["bound"] else ""
    return f"{sign}{_thousands(row['published']) if text.isdigit() else text}{_unit(row)}"


def measured(row: dict) -> str:
    """The measured value: a formula's to the published digits, a sampled one with its error."""
    value = row["measured"]
    if value is None:
        return "not yet"
    if value == "inf":
        return "infinite"
    if row["runs"] or row["standard_error"]:
        return _with_error(value, row["standard_error"])
    one_end = row["published_text"].split(" ")[0]  # of a range, where one was printed
    if row["test"] in ("digits", "samples") and row["status"] == "reproduced":
        return _like(value, one_end)
    return _told_apart(value, row["band"])


def null(row: dict) -> str:
    """The null's middle, and its range if the draws differ."""
    if row["null"] is None:
        return "none yet"
    if row["null"] == "inf":
        return "infinite"
    middle, low, high = (_short(row[name]) for name in ("null", "null_low", "null_high"))
    spread = f" ({low} to {high}, {row['draws']} draws)" if low != high else f" ({row['draws']} draws)"
    return middle + spread


def _null_words(row: dict) -> str:
    """Where the null comes from, how often it was drawn, and how far the draws differ."""
    if not row["draws"]:
        return ""
    low, high = _short(row["null_low"]), _short(row["null_high"])
    spread = f"{low} to {high}, " if low != high else ""
    return f"{row['null_what']}, {spread}{row['draws']} draws"


def _unit(row: dict) -> str:
    words = {"percent": " %", "ratio": " times", "probability": "", "share": " of the uniform guess's"}
    return words.get(row["unit"], f" {row['unit']}")


def _like(value: float, printed: str) -> str:
    """A value with the digits of another one's print.

    >>> _like(1.84903709, "1.8490"), _like(0.000241, "2.4e-4"), _like(0.0, "0")
    ('1.8490', '2.4e-4', '0')
    """
    if "e" in printed:
        digits = len(printed.split("e")[0].replace("-", "").replace(".", "")) - 1
        mantissa, exponent = f"{value:.{digits}e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if value >= 1e5 and printed.isdigit():
        return _thousands(value)
    decimals = max(0, -int(Decimal(printed).as_tuple().exponent)) if printed != "inf" else 4
    if value and abs(value) < 0.5 * 10.0**-decimals:
        return _short(value)
    return f"{value:.{decimals}f}"


def _short(value: float | str) -> str:
    """Four significant digits; large numbers in full, what is only rounding without digits."""
    if isinstance(value, str):
        return "infinite" if value == "inf" else value
    if 0 < abs(value) < words.ROUNDING:
        return "≈ 0"
    return _thousands(value) if abs(value) >= 1e5 else f"{value:.4g}"


def _told_apart(value: float, band: Sequence[float | str]) -> str:
    """Four digits, or as many more as it takes to tell a value from the ends of its band.

    >>> _told_apart(80.0149, [80.0, "inf"]), _told_apart(0.99999, [0.0, 1.0]), _told_apart(0.794, [0.0, 1.0])
    ('80.01', '0.99999', '0.794')
    """
    ends = [end for end in band if not isinstance(end, str) and end != value]
    if not ends or abs(value) >= 1e5 or abs(value) < words.ROUNDING:
        return _short(value)
    texts = (f"{value:.{digits}g}" for digits in range(4, 13))
    return next((text for text in texts if all(float(text) != end for end in ends)), f"{value:.12g}")


def _thousands(value: float) -> str:
    return f"{value:,.0f}"


def _with_error(value: float | str, error: float | None) -> str:
    """A value with its standard error, both to the error's first two digits.

    An error too small to show within the value's first five digits is left out.
    """
    if isinstance(value, str):
        return "infinite"
    if isinstance(error, str) or error is None or not error > 1e-5 * abs(value):
        return _short(value)
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"


def text_table(rows: Sequence[dict]) -> str:
    """One line a row, columns aligned, then how many rows have each status."""
    head = ("id", _value_heading(list(rows)).lower(), "measured", "null", "status")
    lines = [head] + [
        (row["id"], published(row), measured(row), null(row), f"{MARKS[row['status']]} {row['status']}")
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([*text, "", _counted(list(rows))])

"""Under every figure its numbers: a table that opens, and a file to take along.

A figure made by `bayeswind_lib.figures` carries its numbers inside its drawing (see
`Plot.to_json`). Here they become a `<details>` under the figure and `_static/data/NAME.csv` with
every digit. The table shows four digits, and of long data only some rows: it is there to be read.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from pathlib import Path

from docutils import nodes

from bayeswind_figures import drawings, numbers_in

FOLDER = "_static/data"
SHOWN = 40  # rows, or columns of a table of numbers, that are shown at most
DIGITS = 4
ROUNDING = 1e-12  # below it a number has no digits: another processor prints others


class figure_numbers(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes so
    """The numbers of a figure: `numbers` as JSON, `name` of its file, `figure` its label or ""."""


# --- from the drawing to the page --------------------------------------------------------------


def add_numbers(app, doctree):
    """Put the numbers of every drawing that a cell made under its figure."""
    if app.builder.format != "html":
        return
    found = 0
    for image, text in list(drawings(app, doctree)):
        if numbers := text and numbers_in(text):
            found += 1
            frame = enclosing(image)
            figure = next(iter(frame.findall(nodes.figure)), frame)
            label = next(iter(figure.get("ids", [])), "")
            name = label or f"{Path(app.env.docname).name}-{found}"
            node = figure_numbers("", numbers=numbers, name=name, figure=label)
            frame.parent.insert(frame.parent.index(frame) + 1, node)


def enclosing(image):
    """What holds a picture and its words alone: the output of its cell, or its figure."""
    frame = node = image
    while (node := node.parent) is not None:
        if isinstance(node, nodes.figure) or node.get("nb_element") == "mime_bundle":
            frame = node
    return frame


def write_numbers(translator, node):
    """The HTML of a figure's numbers, and their file in the site."""
    app, document = translator.builder.app, translator.builder.current_docname
    numbers = json.loads(node["numbers"])
    file = f"{FOLDER}/{node['name']}.csv"
    target = Path(app.outdir) / file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(csv_of(numbers), "utf-8")
    kinds = app.env.toc_fignumbers.get(document, {}).get("figure", {})
    number = ".".join(map(str, kinds.get(node["figure"], ())))
    address = "../" * document.count("/") + file
    figure = f"figure {number}" if number else "this figure"
    translator.body.append(details(figure, numbers, address))
    raise nodes.SkipNode


def nothing(translator, node):
    """Other formats than HTML leave the numbers out."""
    raise nodes.SkipNode


# --- the file ----------------------------------------------------------------------------------


def csv_of(numbers: dict) -> str:
    """The numbers as comma-separated text with a header, every digit kept."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(numbers["heads"])
    writer.writerows(zip(*numbers["columns"], strict=True))
    return stream.getvalue()


# --- the table ---------------------------------------------------------------------------------


def details(figure: str, numbers: dict, address: str) -> str:
    """A `<details>` with the numbers of a figure and a link to the file with all their digits."""
    tables = grids(numbers) if numbers["shape"] else [long_table(numbers)]
    body = "".join(tables)
    count = len(numbers["columns"][0])
    note = f" The file has {count:,} row{'s' if count > 1 else ''} and every digit."
    return (
        f'<details class="bw-data"><summary>Numbers of {figure}</summary>\n'
        f'<p><a href="{html.escape(address)}" download="{html.escape(Path(address).name)}">'
        f"Download the numbers of {figure} (CSV)</a>.{note}</p>\n"
        f'<div class="bw-table" role="region" tabindex="0" aria-label="Numbers of {figure}">'
        f"{body}</div></details>\n"
    )


def long_table(numbers: dict) -> str:
    """A row for each point; of many points only some."""
    heads, columns = numbers["heads"], numbers["columns"]
    places, step = thinned(len(columns[0]))
    shared, heads = in_common(heads)
    rows = [[columns[0][i], *(column[i] for column in columns[1:])] for i in places]
    return table(heads, rows, caption(shared, f"every {ordinal(step)} row" if step > 1 else ""))


def grids(numbers: dict) -> list[str]:
    """Tables of numbers, such as a head's attention, with the names of rows and columns beside."""
    (n_rows, n_columns), (first, second, *heads) = numbers["shape"], numbers["heads"]
    row_names, column_names, *values = numbers["columns"]
    rows, row_step = thinned(n_rows)
    columns, column_step = thinned(n_columns)
    step = max(row_step, column_step)
    said = f"every {ordinal(step)} row and column" if step > 1 else ""
    tables = []
    for head, value in zip(heads, values, strict=True):
        if not isinstance(value[0], str):
            names = [f"{first} \\ {second}", *(column_names[j] for j in columns)]
            starts = [i * n_columns for i in rows]
            body = [[row_names[s], *(value[s + j] for j in columns)] for s in starts]
            tables.append(table(names, body, caption(head, said)))
    return tables


def thinned(count: int) -> tuple[list[int], int]:
    """Which of `count` rows are shown, evenly spread, the last among them; and the step.

    >>> thinned(3), thinned(100)[1], thinned(100)[0][-2:]
    (([0, 1, 2], 1), 3, [96, 99])
    """
    step = -(-count // SHOWN)
    return list(range((count - 1) % step, count, step)), step


def ordinal(n: int) -> str:
    """2 as "2nd"."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


def in_common(heads: list[str]) -> tuple[str, list[str]]:
    """What all columns but the first hold, and the heads without it.

    >>> in_common(["step", "a: KL (bits)", "b: KL (bits)"])
    ('KL (bits)', ['step', 'a', 'b'])
    """
    first, *others = heads
    parts = [head.rpartition(": ") for head in others]
    shared = {measure for label, _, measure in parts if label}
    if len(shared) == 1 and all(label for label, _, _ in parts):
        return shared.pop(), [first, *(label for label, _, _ in parts)]
    return "", heads


def caption(*parts: str) -> str:
    """The parts that say something, as a sentence without its full stop."""
    words = "; ".join(filter(None, parts))
    return words[:1].upper() + words[1:]


def table(heads: list[str], rows: list[list], words: str) -> str:
    """An HTML table whose first column names the row."""
    head = "".join(f'<th scope="col">{html.escape(str(name))}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{cell(first)}</th>'
        f"{''.join(f'<td>{cell(value)}</td>' for value in others)}</tr>\n"
        for first, *others in rows
    )
    above = f"<caption>{html.escape(words)}</caption>" if words else ""
    content = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<table class="table">{above}{content}</table>\n'


def cell(value) -> str:
    """A value as a reader wants it: four digits, a dash for what is not there.

    >>> cell(0.123456), cell(12), cell(float("nan")), cell(2e-5), cell(1234567.0)
    ('0.1235', '12', '–', '2e-5', '1.235e6')
    >>> cell(-0.0), cell(3e-17)
    ('0', '≈ 0')
    """
    if not isinstance(value, float):
        return html.escape(str(value))
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) < ROUNDING:
        return "≈ 0" if value else "0"
    text = f"{value:.{DIGITS}g}"
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}e{int(power)}" if exponent else text


def setup(app):
    """Connect everything above."""
    app.add_node(
        figure_numbers, html=(write_numbers, None),
        latex=(nothing, None), text=(nothing, None), man=(nothing, None), texinfo=(nothing, None),
    )  # fmt: skip
    app.connect("doctree-read", add_numbers, priority=450)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

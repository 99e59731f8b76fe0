"""The built site, read as files: links, resources, alternative texts, paths, widgets."""

from __future__ import annotations

import base64
import csv
import doctest
import html
import importlib
import io
import json
import re

import pytest
import torch

from _support import CHAPTERS, ROOT, pages, site_folder
from _support_site import (
    broken_links,
    figures,
    images_without_words,
    machine_paths,
    missing_resources,
    numbers_of_figures,
    open_tables,
    written_drawings,
    outside_resources,
    widget_managers,
)

import bayeswind_lib as bw

import bayeswind_book
import bayeswind_cards
import bayeswind_code
import bayeswind_data
import bayeswind_fonts
import bayeswind_light

# "largest gap 0.012 bits at position 7": a size, and where it is.
LARGEST_GAP = re.compile(
    r"""\blargest\ gap\ (?:to\ [a-z\ ]+\ )?
    (?P<size>\d[\d.]*(?:e-?\d+)?|infinite)
    (?:\ bits|\ nats|\ percent|\ updates|\ in\ probability)?(?:\ to\ the\ exact\ posterior)?
    (?:\ in\ [\w ]+|\ to\ [\w ,=]+?)?
    (?P<place>(?:\ (?:at|after|where|for|by|between|from|on|in)|:)\ [^.;,)(]+)""",
    re.I | re.X,
)


# Code that a page shows, and a number so small that another processor prints other digits.
UNSEEN = re.compile(r'<script.*?</script>|<div class="highlight-ipython3.*?</pre>', re.S)
ROUNDING = re.compile(r"(?<![\w.#-])(?:\d(?:\.\d+)?e-|10<sup>\u2212)(?:1[3-9]|[2-9]\d)\b")


def digits_of_rounding(page: str) -> list[str]:
    """Numbers below 1e-12 in a page's text, printed tables and alternative texts."""
    return ROUNDING.findall(UNSEEN.sub("", page))


def test_no_chapter_prints_digits_of_rounding(site):
    found = {page.name: digits_of_rounding(page.read_text("utf-8"))[:3] for page in sorted((site / "chapters").glob("*.html"))}
    assert found and not any(found.values()), {name: some for name, some in found.items() if some}


def test_digits_of_rounding_are_seen():
    text = '<p>equal to <span>3e-16</span></p><td>2.17e-19</td><img alt="gap 8.9e-16 at 3"><td>1e-9</td>'
    code = '<div class="highlight-ipython3 notranslate"><pre>x < 1e-14</pre></div><script>let e = 1e-15</script>'
    assert digits_of_rounding(text + code) == ["3e-16", "2.17e-19", "8.9e-16"]
    assert len(digits_of_rounding("<p>" + powers("off by 4e-15") + powers("and 4e-9"))) == 1


def powers(text: str) -> str:
    """A page's text with its powers of ten."""
    return bayeswind_book.EXPONENT.sub(bayeswind_book.power_of_ten, text)


@pytest.mark.parametrize("text, mended", [
    ("<p>are 2.43e+18 maps</p>", "<p>are <b>2.43 \u00d7 10<sup>18</sup></b> maps</p>"),
    ("1.3e-6, -2.5e-08, 3-4e-5", "<b>1.3 \u00d7 10<sup>\u22126</sup></b>, <b>\u22122.5 \u00d7 10<sup>\u22128</sup></b>, 3-4e-5"),
    ("<i>1e-04</i>.", "<i><b>10<sup>\u22124</sup></b></i>."),
    ("<td>1.0e-3</td> <code>2e-5</code> <a title='3e-5'>", "<td>1.0e-3</td> <code>2e-5</code> <a title='3e-5'>"),
    ("at M1, so (M2), and M3 is", "at <b>M1,</b> so <b>(M2),</b> and M3 is"),
    ("an M1-dimensional M2&#8217;s", "an <b>M1-</b>dimensional <b>M2&#8217;s</b>"),
    ('(<span class="pasted-text">6.5</span> %)', '(<b><span class="pasted-text">6.5</span> %</b>)'),
    ("0.2 bits of 3 bitsets", "<b>0.2 bits</b> of 3 bitsets"),
    ("<a onload=\"'=> 5 % 1e-5'\">5 bits</a>", "<a onload=\"'=> 5 % 1e-5'\"><b>5 bits</b></a>"),
    ('<h2><a title="5 % M">5</a></h2><pre>5 % M1,</pre>', '<h2><a title="5 % M">5</a></h2><pre>5 % M1,</pre>'),
])  # fmt: skip
def test_what_belongs_together_stays_on_one_line(text, mended):
    """Formulas are written M1, M2, ... here, and the element that book.css keeps on one line b."""
    for number in "123":
        formula = f'<span class="math notranslate nohighlight" data-tex="x > {number}"><math><mn>{number}</mn></math></span>'
        text, mended = (words.replace(f"M{number}", formula) for words in (text, mended))
    found = bayeswind_book.WHOLE.sub(bayeswind_book.whole, powers(text))
    assert found == mended.replace("<b>", '<span class="bw-whole">').replace("</b>", "</span>")


def test_the_book_has_its_pages(site):
    names = {page.relative_to(site).as_posix() for page in pages(site)}
    assert {f"chapters/{path.stem}.html" for path in CHAPTERS.glob("[0-9][0-9]_*.md")} <= names
    assert {"index.html", "search.html", "genindex.html"} <= names


def test_links_and_anchors_resolve(site):
    assert not broken_links(site)


def test_nothing_comes_from_another_host(site):
    assert not outside_resources(site)


def test_every_resource_is_there(site):
    assert not missing_resources(site)


def test_every_image_has_words(site):
    assert not images_without_words(site)


def test_every_figure_tells_its_largest_gap_and_where(site):
    found = figures(site)
    chapters = {path.stem for path in CHAPTERS.glob("[0-9][0-9]_*.md")}
    assert chapters <= {source.stem for source, _ in found}, "a chapter without a figure"
    mute = [f"{source.name}: {words}" for source, words in found if not LARGEST_GAP.search(words)]
    assert not mute


@pytest.fixture(scope="module")
def written():
    """What the plotting functions wrote while the book was built."""
    return written_drawings(site_folder().parent / "jupyter_execute")


def test_words_are_those_made_from_the_data(site, written):
    """The words in the page are those that the plotting function wrote into the drawing."""
    other = [f"{source.name}: {words}" for source, words in figures(site) if words not in written]
    assert not other


def test_every_figure_has_its_numbers(site, written):
    """Under each drawing a table and a file; the file holds what was drawn, to the last digit."""
    found = numbers_of_figures(site)
    assert [pair[:2] for pair in found] == figures(site)
    mute = [f"{source.name}: {words}" for source, words, file, shown in found if not (file and shown)]
    assert not mute
    assert len({file for _, _, file, _ in found}) == len(found), "two figures share a file"
    for source, words, file, _ in found:
        heads, *rows = csv.reader(io.StringIO(file.read_text("utf-8")))
        told = [(given["heads"], [list(map(str, column)) for column in given["columns"]]) for given in map(json.loads, written[words])]
        assert (heads, list(map(list, zip(*rows, strict=True)))) in told, f"{source.name}: {file}"


def test_the_table_shows_numbers_of_the_file(site, written):
    """Each number shown is one of the file's, with four digits."""
    for source, words, _, shown in numbers_of_figures(site):
        columns = [column for given in written[words] for column in json.loads(given)["columns"]]
        cells = {bayeswind_data.cell(value) for column in columns for value in column}
        assert set(map(html.unescape, shown)) <= set(map(html.unescape, cells)), f"{source.name}: {words}"
        assert any(re.search(r"\d", cell) for cell in shown), f"{source.name}: {words}"


@pytest.mark.parametrize("name", ["bayeswind_code", "bayeswind_data", "bayeswind_light", "bayeswind_search"])
def test_examples_in_the_book_s_own_code(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0 and (result.attempted or name == "bayeswind_light")


def test_long_tables_are_shown_in_part_and_say_so():
    numbers = {"heads": ["step", "a: KL (bits)"], "columns": [list(range(90)), [0.5] * 90], "shape": None}
    written = bayeswind_data.long_table(numbers)
    assert written.count("<tr>") == 1 + 30 and "<caption>KL (bits); every 3rd row</caption>" in written
    grid = {"heads": ["row", "column", "w"], "columns": [["a"] * 2 + ["b"] * 2, ["c", "d"] * 2, [1.0, 2.0, 3.0, 4.0]]}
    (written,) = bayeswind_data.grids(grid | {"shape": [2, 2]})
    assert '<th scope="row">b</th><td>3</td><td>4</td>' in written


def test_icons_in_use_come_with_the_page(site):
    """No page needs the theme's script of all icons, or one of its large fonts."""
    known = bayeswind_light.places((bayeswind_light.theme("pydata_sphinx_theme") / bayeswind_light.STATIC / bayeswind_light.SHEET).read_text("utf-8"))
    used = {name for page in pages(site) for name in icon_classes(page.read_text("utf-8"))} & known.keys()
    assert len(used) > 10 and used <= bayeswind_light.used_names()
    kept = bayeswind_light.places((site / "_static" / bayeswind_light.SHEET).read_text("utf-8"))
    assert used <= kept.keys() and len(kept) < 100
    held = icons_held((site / "_static/icons.css").read_text("utf-8"))
    by_style = re.findall(r'--pst-icon-[\w-]+:"([\uf000-\uf8ff])"', (site / "_static" / bayeswind_light.SHEET).read_text("utf-8"))
    assert {known[name] for name in used} <= held and len(by_style) > 10
    assert {ord(sign) for sign in by_style} - {0xF296} <= held  # a fox of another house
    assert not list(site.rglob("fontawesome.js*"))


def icon_classes(text: str) -> set[str]:
    """The icons that a page's elements ask for."""
    classes = re.findall(r'<i class="([^"]*)"', text)
    return {name for words in classes for name in bayeswind_light.names_in(words)}


def icons_held(sheet: str) -> set[int]:
    """The characters of the fonts inside a style sheet; none of them under the reserved name."""
    from fontTools.ttLib import TTFont

    held = set()
    for code in re.findall(r"data:font/woff;base64,([\w+/=]+)", sheet):
        font = TTFont(io.BytesIO(base64.b64decode(code)))
        held |= font.getBestCmap().keys()
        assert "Awesome" not in str(font["name"].getDebugName(1)) + str(font["name"].getDebugName(4))
    assert "SIL Open Font License 1.1" in sheet
    return held


# -- type, folded code and tables, previews


def test_the_fonts_are_small_and_hold_what_the_pages_say(site):
    """Four files, at most 120 kB together, with their licences; weights 400 to 700; every letter of the chapters
    that the whole font has."""
    from fontTools.ttLib import TTFont

    folder = site / bayeswind_fonts.FOLDER
    assert sum(file.stat().st_size for file in folder.glob("*.woff2")) <= 120_000
    letters = {ord(letter) for path in CHAPTERS.glob("*.md") for letter in path.read_text("utf-8")}
    sheet = (site / "_static/fonts.css").read_text("utf-8")
    for face in bayeswind_fonts.FACES:
        font, whole = TTFont(folder / face.target), TTFont(bayeswind_fonts.source(face))
        assert letters & whole.getBestCmap().keys() <= font.getBestCmap().keys()
        assert [(axis.axisTag, axis.minValue, axis.maxValue) for axis in font["fvar"].axes] == [("wght", 400, 700)]
        assert f'url("fonts/{face.target}")' in sheet and (folder / f"LICENSE-{face.package[8:]}.txt").is_file()


def test_what_stands_in_for_a_font_is_as_wide():
    """An average line has the same width before and after the font has come; letters that stand in are narrower or wider."""
    face = bayeswind_fonts.FACES[0]
    data = bayeswind_fonts.cut(face, frozenset(map(ord, bayeswind_fonts.LETTERS)))
    rule = bayeswind_fonts.rules(face, data)
    share = float(re.search(r"size-adjust: ([\d.]+)%", rule)[1]) / 100
    text = "the posterior predictive of a new key is even on the values that no other key has."
    own, others = bayeswind_fonts.widths_of(data)[0], bayeswind_fonts.model_widths(face.model)
    assert sum(own[c] for c in text) == pytest.approx(share * sum(others[c] for c in text), rel=0.03)
    assert share > 1.05


def test_no_stub_stands_where_a_cell_shows_nothing(site):
    """Folded cells with an output have the small word; those without are marked to be left out."""
    found = {"bw-folds": 0, "bw-quiet": 0}
    for path in (site / "chapters").glob("*.html"):
        for cell in re.split(r'(?=<div class="cell )', path.read_text("utf-8"))[1:]:
            classes = cell.split('"')[1].split()
            folded = '<details class="hide bw-code' in cell
            assert folded == bool({"bw-folds", "bw-quiet"} & set(classes)), cell[:200]
            if "bw-quiet" in classes:
                assert "<img" not in cell.split("</details>")[1].split('<div class="cell')[0].split("<p>")[0]
            for name in found:
                found[name] += name in classes
    assert found["bw-quiet"] > 200 and found["bw-folds"] > 30
    assert "Show code cell source" not in "".join(path.read_text("utf-8") for path in (site / "chapters").glob("*.html"))


def table_html(rows: int, columns: int, more: str = "") -> str:
    """An HTML table with heads h0, h1, ..."""
    heads = "".join(f"<th>h{i}</th>" for i in range(columns))
    return f'<table class="table{more}"><tr>{heads}</tr>{("<tr>" + "<td>1</td>" * columns + "</tr>") * rows}</table>'


def test_long_tables_fold_and_say_what_they_hold():
    assert bayeswind_code.folded(table_html(11, 3)) == table_html(11, 3)
    assert "<summary>Table: h0, h1, h2 (12 rows)</summary>" in bayeswind_code.folded(table_html(12, 3))
    assert bayeswind_code.folded(table_html(2, 8)).startswith("<details")
    assert bayeswind_code.folded(table_html(40, 3, " bw-rows")) == table_html(40, 3, " bw-rows")
    minutes = table_html(3, 2).replace("h0", "section").replace("h1", "minutes")
    assert "<summary>Minutes, by section</summary>" in bayeswind_code.folded(minutes)


def test_long_tables_of_chapters_are_folded_and_no_short_ones(site):
    folded = 0
    for path in (site / "chapters").glob("*.html"):
        text = path.read_text("utf-8")
        pieces = re.split(r"(<details\b.*?</details>)", text, flags=re.S)
        for piece in pieces[::2]:
            assert not [t for t in bayeswind_code.TABLE.findall(piece) if bayeswind_code.folded(t) != t], path.name
        folded += sum('class="bw-long bw-in-print"' in piece for piece in pieces[1::2])
    assert folded > 20


def test_no_table_of_more_than_twelve_rows_stands_open_in_a_chapter(site):
    """Whoever made it, the ledger's too: heads count as rows, and what waits behind a word of its own does not."""
    found = {path.name: sorted(open_tables(path)) for path in (site / "chapters").glob("*.html")}
    assert sum(map(len, found.values())) > 50
    assert not (long := {name: sizes for name, sizes in found.items() if any(size > 12 for size in sizes)}), long


def test_an_open_table_is_measured(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(table_html(9, 2) + "<details><p>" + table_html(20, 2) + "</p></details><details open>" + table_html(30, 2) + "</details>" + table_html(40, 2, " bw-rows"))
    assert open_tables(page) == [10, 31, 41]


def test_every_page_has_a_card_of_its_own_for_previews(site):
    """1200 by 630, a small PNG, at the place that the page's head names."""
    from PIL import Image

    seen = set()
    for page in [*(site / "chapters").glob("*.html"), *(site / "book").glob("*.html")]:
        (address,) = re.findall(r'<meta property="og:image" content="[^"]*?(_static/cards/[^"]+)"', page.read_text("utf-8"))
        with Image.open(site / address) as card:
            assert (card.size, card.format, card.mode) == (bayeswind_cards.SIZE, "PNG", "P")
        assert (site / address).stat().st_size <= 30_000, address
        seen.add(address)
    assert len(seen) > 25


def test_a_long_title_fits_its_card():
    """At most three lines, and what is left becomes dots."""
    drawn_in = bayeswind_cards.font(bayeswind_fonts.FACES[0], 124, 600)
    lines = bayeswind_cards.lines_of("a very long title of many words " * 9, drawn_in, 2064, 3)
    assert len(lines) == 3 and lines[-1].endswith("\u2026") and max(map(drawn_in.getlength, lines)) < 2200


# -- the search's list of sections


def sections(site) -> dict:
    """What the search page reads."""
    return json.loads((site / "_static/sections.js").read_text("utf-8").removeprefix("var bwSections = ").rstrip(";\n"))


def test_the_search_s_list_is_light_and_every_place_is_there(site):
    import gzip

    found = sections(site)
    assert len(gzip.compress((site / "_static/sections.js").read_bytes())) <= 250_000
    assert len(found["sections"]) > 300
    texts = {page: (site / f"{page}.html").read_text("utf-8") for page in found["pages"]}
    lost = [row[:3] for row in found["sections"] if row[1] and f'id="{row[1]}"' not in texts[found["pages"][row[0]]]]
    assert not lost


def test_sections_are_prose(site):
    """No TeX, no code, no printed table."""
    texts = [text for *_, text in sections(site)["sections"]]
    assert not [text for text in texts if re.search(r"\\\\?[a-zA-Z({\\[]", text)]
    assert not [text for text in texts if 'glue("' in text or "Numbers of figure" in text]
    assert not [text for text in texts if re.search("Called in chapter|Raises:|Args:|Returns:", text)]


def test_no_widget_manager(site):
    assert not widget_managers(site)


def published_texts(site):
    """Everything that a reader can open: pages, their sources, the notebooks, the documents."""
    yield from pages(site)
    yield from (site / "_sources").rglob("*.md")
    yield from (site / "searchindex.js", *CHAPTERS.glob("*"), *ROOT.glob("*.md"))
    yield from (ROOT / "book").rglob("*.md")


def test_no_machine_paths(site):
    texts = {path: path.read_text("utf-8") for path in published_texts(site) if path.is_file()}
    found = {str(path): machine_paths(text) for path, text in texts.items()}
    assert not {path: places for path, places in found.items() if places}
    assert not [str(path) for path, text in texts.items() if f"{ROOT}/" in text]


def test_the_paths_check_sees_what_it_is_for():
    scratch = "/" + "tmp/z"
    bad = f"open /home/ada/x, C:\\data, file:///srv/y and ({scratch})."
    assert machine_paths(bad) == ["/home/ada", "C:\\da", "file:///s", scratch]
    assert not machine_paths("https://x.org/home/page a/tmp/b ./work/x /content/book 1/2")


class Smeared:
    """The oracle, except that one position's answer is mixed with a uniform guess."""

    name = "smeared"

    def __init__(self, tunnel, position: int, share: float):
        self.tunnel, self.position, self.share = tunnel, position, share

    def predict(self, inputs):
        p = self.tunnel.posterior(inputs)
        k = self.position
        p[:, k] = (1 - self.share) * p[:, k] + self.share / p.shape[-1]
        return p.log2()


@pytest.mark.parametrize("plot", ["entropy_by_position", "gap_by_position"])
def test_changing_the_data_changes_the_words(plot):
    """The words name the largest gap and its place; both are recomputed here from the scores."""
    tunnel, draw = bw.tunnels.Bijection(n_values=8), getattr(bw.figures, plot)
    said = set()
    for position, share in ((6, 0.2), (5, 0.2), (5, 0.6)):
        rng = torch.Generator().manual_seed(0)
        score = bw.score(Smeared(tunnel, position, share), tunnel, n_episodes=16, rng=rng)
        curve = {
            "entropy_by_position": score.entropy - score.oracle_entropy,
            "gap_by_position": score.per_position["kl"],
        }[plot]
        alt = draw({"smeared": score}).alt
        found = LARGEST_GAP.search(alt)
        assert found, alt
        assert float(found["size"]) == pytest.approx(abs(curve).max(), rel=0.05)
        assert found["place"].endswith(f" {abs(curve).argmax()}"), alt
        said.add(alt)
    assert len(said) == 3

"""Formulas that the build sets: what becomes of their TeX, and how they stand on pages, wide and narrow."""

from __future__ import annotations

import base64
import html
import io
import re
import subprocess
import sys

import pytest

from _support import ROOT, pages
from _support_browser import STAND, Reader

import bayeswind_formulas as formulas
import bayeswind_math_font as math_font
from bayeswind_math import MATH, characters, display_html, inline_html

pytestmark = pytest.mark.xdist_group("browser")
FORMULA = re.compile(r'<(span|div) class="math notranslate nohighlight"[^>]*?data-tex="([^"]*)"')


def mathml(tex: str, display: bool = False) -> str:
    """A formula's MathML in one piece, without its empty boxes."""
    made = display_html(formulas.display(tex)) if display else inline_html(tex)
    return "".join(MATH.findall(made)).replace("<mrow><mspace /><", "<mrow><").replace("\u2061", "")


def pieces(tex: str, display: bool = True) -> list:
    """The characters of each piece: of a sentence's formula, or of a displayed one's cells, row by row."""
    if not display:
        return [piece.tex_like for piece in formulas.inline(tex).pieces]
    rows = [[[piece.tex_like for piece in cell] for cell in row] for row in formulas.display(tex).rows]
    return rows[0][0] if len(rows) == len(rows[0]) == 1 else rows


@pytest.fixture(scope="module")
def texts(site) -> dict[str, str]:
    """Address -> source of each page of the book."""
    return {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in pages(site)}


# ---- what becomes of TeX --------------------------------------------------------------------------


@pytest.mark.parametrize(("tex", "made"), [
    (r"a - b", "<mi>a</mi><mo>−</mo><mi>b</mi>"),
    (r"-b", '<mo lspace="0" rspace="0">−</mo><mi>b</mi>'),
    (r"a = -b", '<mo>=</mo><mo lspace="0" rspace="0">−</mo>'),
    (r"\big[ -b \big]", '<mo lspace="0" rspace="0">−</mo><mi>b</mi>'),
    (r"p(y|x)", '<mi>y</mi><mo stretchy="false" lspace="0" rspace="0">|</mo><mi>x</mi>'),
    (r"p(y \mid x)", "<mi>y</mi><mo>∣</mo><mi>x</mi>"),
    (r"|a|", '<mo stretchy="false" lspace="0" rspace="0">|</mo><mi>a</mi>'),
    (r"\|a\|", '<mo stretchy="false" lspace="0" rspace="0">‖</mo><mi>a</mi>'),
    (r"\lVert a \rVert", '<mo stretchy="false" form="prefix">‖</mo><mi>a</mi>'),
    (r"\log x", '<mi>log</mi></mrow><mo lspace="0.1667em"></mo><mi>x</mi>'),
    (r"\log (x)", "<mi>log</mi></mrow><mo></mo>"),
    (r"\operatorname{tr} A", "<mi>tr</mi>"),
    (r"\mathrm{KL}(p)", "<mi>KL</mi>"),
    (r"\mathbf{x}", "<mi>𝐱</mi>"),
    (r"\mathbb{E}", "<mi>𝔼</mi>"),
    (r"\mathcal{L}", "<mi>ℒ</mi>"),
    (r"f'", "<msup><mi>f</mi><mo>′</mo></msup>"),
    (r"1{,}000", '<mn>1</mn><mo rspace="0">,</mo><mn>000</mn>'),
    (r"\sum_{j \le i}", '<mo lspace="0" rspace="0">≤</mo>'),
    (r"\overline{H}", '<mo stretchy="true">‾</mo>'),
])  # fmt: skip
def test_spacing_and_letters_are_those_of_tex(tex, made):
    assert made in mathml(tex)


@pytest.mark.parametrize("tex", [r"\unknown x", r"\frac{1", r"\eqref{eq-a}", r"a & b", r"\begin{nothing}a\end{nothing}"])
def test_what_cannot_be_set_is_refused(tex):
    with pytest.raises(formulas.BadFormula):
        formulas.display(tex)


@pytest.mark.parametrize(("tex", "cut"), [
    (r"H(p, q) = H(q) - c", ["H(p,q)", "=H(q)", "−c"]),
    (r"f = a", ["f=a"]),  # a short left-hand side stays with the right
    (r"-H(p) = -b", ["−H(p)", "=−b"]),  # a sign is no minus between terms
    (r"\mathrm{KL}(p \,\|\, q) = |a - b| + \|c - d\|", ["KL(p‖q)", "=|a−b|", "+‖c−d‖"]),
    (r"H(p) = 1, \qquad H(q) = 2", ["H(p)=1,", "H(q)=2"]),
    (r"\left( a = b \right) + \frac{a = b}{c}", ["(a=b)", "+a=bc"]),
    (r"\begin{aligned} aaa &= b \\ &\quad + c - d \end{aligned}", [[["aaa"], ["=b"]], [[], ["+c", "−d"]]]),
    (r"a \\ b", [[["a"]], [["b"]]]),
    (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", ["(abcd)"]),
])  # fmt: skip
def test_lines_may_end_before_relations_and_terms(tex, cut):
    assert pieces(tex) == cut


def test_a_sentences_formula_is_broken_behind_relations_if_it_is_long():
    assert pieces(r"x = y", display=False) == ["x=y"]
    assert pieces(r"\rho_{ij} = \alpha_{ij} + p_j(y_i) - q_i(y_i)", display=False) == ["ρij=", "αij+", "pj(yi)−", "qi(yi)"]


def test_an_operator_at_the_edge_of_a_piece_keeps_its_room():
    first, second = MATH.findall(display_html(formulas.display("H(p, q) = H(q)")))
    assert '<mo form="infix">=</mo>' in second and "=</mo>" not in first


PROJECT = {
    "conf.py": (
        "import sys; sys.path[:0] = [{ext!r}]\nextensions = ['myst_parser', 'bayeswind_math']\nroot_doc = 'index'\n"
        "html_theme = 'basic'\nhtml_math_renderer = 'bayeswind'\nmyst_enable_extensions = ['dollarmath', 'amsmath']\n"
    ),
    "index.md": (
        "# Tiny $x^2$\n\nIn $p > q$ and {{eq}}`eq-a`.\n\n$$\na = b\n$$ (eq-a)\n\n"
        "\\begin{{align}}\na &= b \\\\\n&= c\n\\end{{align}}\n\n{more}\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("more", ["", r"Here $\unknowncommand{x}$.", "$$\n\\unknowncommand{x}\n$$"])
def test_an_unknown_command_fails_the_build(tmp_path, more):
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text.format(ext=str(ROOT / "book/_ext"), more=more))
    command = [sys.executable, "-m", "sphinx", "-W", "-q", ".", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode != 0) == bool(more), done.stderr
    if more:
        assert "index.md" in done.stderr and r'Unknown command "\unknowncommand"' in done.stderr
        return
    page = (tmp_path / "out/index.html").read_text()
    assert 'id="equation-eq-a"' in page and 'href="#equation-eq-a">(1)</a>' in page
    assert '<span class="eqno">(1)<a class="headerlink" href="#equation-eq-a"' in page
    assert "formulas.css" in page and 'data-tex="p &gt; q"' in page and r"\begin{align}" not in MATH.sub("", page).replace("data-tex", "").split("<body")[0]


# ---- the pages --------------------------------------------------------------------------------------


def test_every_formula_of_the_book_is_set(texts):
    """As MathML, each with its TeX; and the TeX gives that MathML again."""
    found = 0
    for name, text in texts.items():
        article = text.partition("<article")[2]
        assert not re.search(r"\\[(\[]|\\begin\{", re.sub(r"<(pre|code)\b.*?</\1>|<[^>]*>", "", article, flags=re.S)), name
        for match in FORMULA.finditer(article):
            tex = html.unescape(match[2])
            made = inline_html(tex) if match[1] == "span" else display_html(formulas.display(tex))
            assert MATH.search(made), tex
            found += 1
    assert found > 2000


def test_no_script_is_loaded_for_formulas(texts):
    for name, text in texts.items():
        assert "mathjax" not in " ".join(re.findall(r"<script\b.*?</script>", text, re.S | re.I)).lower(), name
        has = "<math" in text
        assert ("formulas.css" in text) == has, name


def test_the_font_holds_what_the_formulas_show(site, texts):
    from fontTools.ttLib import TTFont

    sheet = (site / "_static/formulas.css").read_text("utf-8")
    assert "SIL Open Font License" in sheet and len(sheet) < 90_000
    data = re.search(r"base64,([\w+/=]+)", sheet)[1]
    font = TTFont(io.BytesIO(base64.b64decode(data)))
    shown = set().union(*map(characters, texts.values()))
    assert {c for c in shown if ord(c) not in font.getBestCmap()} <= set("\u2061\u2063\u00a0 \n")
    forms = font["MATH"].table.MathVariants
    tall = dict(zip(forms.VertGlyphCoverage.glyphs, forms.VertGlyphConstruction, strict=True))
    for sign in "([{√∑":
        assert tall[font.getBestCmap()[ord(sign)]].VariantCount > 1, sign
    assert not math_font.lacking("∑𝔼√") and math_font.lacking("漢") == ["漢"]


WIDTHS = "() => [...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().width / 100)"


def test_widths_are_estimated_well(browser, texts):
    """What style sheets decide by: within a tenth, and never much too small."""
    made, said, large = [], [], ' displaystyle="true"'
    for tex in sorted({html.unescape(m[2]) for text in texts.values() for m in FORMULA.finditer(text) if m[1] == "div"}):
        for piece in (p for row in formulas.display(tex).rows for cell in row for p in cell):
            made.append(f"<p>{piece.mathml(large)}</p>")
            said.append(piece.width)
    style = f"{math_font.face(characters(''.join(made)))} math {{ font: 100px '{math_font.NAME}' }} mfrac {{ padding-inline: 0.1em }} p {{ white-space: nowrap }}"
    page = browser.new_page()
    page.set_content(f"<!doctype html><style>{style}</style>{''.join(made)}")
    page.evaluate("() => document.fonts.ready")
    drawn = page.evaluate(WIDTHS)
    page.close()
    assert len(drawn) == len(said) > 150
    assert [(d, s) for d, s in zip(drawn, said, strict=True) if d - s > 0.7 or s - d > 0.9] == []


@pytest.mark.parametrize(("style", "what"), [
    (".bw-set { font-size: 2em !important } .bw-wide { mask-image: none !important }", "goesOn"),
    (".bw-display { flex-direction: row !important } .bw-display > .eqno { margin-left: -9rem !important; position: relative }", "meets"),
    (".bw-set { font-size: 8px !important }", "small"),
    ("span.math { margin-left: 20rem }", "out"),
])  # fmt: skip
def test_what_is_wrong_with_formulas_is_noticed(browser, home, style, what):
    window = Reader(browser, home, "light", "phone")
    window.open("chapters/01_bayesian.html")
    assert window.page.evaluate(STAND)[what] == []
    window.page.add_style_tag(content=style)
    assert window.page.evaluate(STAND)[what] != []
    window.close()


def test_rows_are_aligned_where_they_fit_and_broken_where_they_do_not(browser, home):
    """Equation (7.2), at each `&`."""
    lefts = """() => [...document.querySelectorAll('[id="equation-eq-plateau"] .bw-set > div')]
      .map(row => Math.round(row.children[1].querySelector('math').getBoundingClientRect().left))"""
    window = Reader(browser, home, "light", "desktop")
    window.open("chapters/07_mlp.html")
    assert len(set(window.page.evaluate(lefts))) == 1
    last = lefts.replace("children[1]", "children[3]")
    assert len(set(window.page.evaluate(last))) == 1
    window.page.set_viewport_size({"width": 320, "height": 900})
    assert len(set(window.page.evaluate(last))) == 2
    window.close()


def test_a_formula_is_copied_as_tex(reader):
    reader.open("chapters/01_bayesian.html")
    copied = reader.page.evaluate("""() => {
      const formula = document.querySelector('.bd-article p span.math'), data = new DataTransfer();
      getSelection().selectAllChildren(formula.closest('p'));
      document.dispatchEvent(new ClipboardEvent('copy', {clipboardData: data, bubbles: true, cancelable: true}));
      return [formula.dataset.tex, data.getData('text/plain'), data.getData('text/html')];
    }""")
    assert f"${copied[0]}$" in copied[1] and "<math" in copied[2]


@pytest.fixture
def reader(browser, home):
    """A window on the served book."""
    window = Reader(browser, home)
    yield window
    window.close()

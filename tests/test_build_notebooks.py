"""The way from chapters to notebooks, the one public address, and the local Sphinx extension."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

from _support import CHAPTERS, ROOT, in_ci, notebooks


from tools import address  # noqa: E402
import bayeswind_book  # noqa: E402
from tools import build_notebooks  # noqa: E402
from tools import picture  # noqa: E402
from tools.plain_markdown import CLOSE, COMPUTED, OPEN, Book, agrees, left_over, plain, settle  # noqa: E402

SITE = "https://owner.github.io/name/"


def entry(number="", kind="", title="", anchor="", doc="chapters/01_one"):
    return {"doc": doc, "anchor": anchor, "number": number, "kind": kind, "title": title}


def small_book() -> Book:
    """A book with one of everything."""
    return Book(
        site=SITE,
        document="chapters/01_one",
        labels={
            "eq-sum": entry("1.2", "displaymath", anchor="equation-eq-sum"),
            "thm-one": entry("1.1", "theorem", anchor="thm-one"),
            "ex-one": entry("1.3", "exercise", anchor="ex-one"),
            "fig-one": entry("1.4", "figure", "A caption", "fig-one"),
            "sec-far": entry("2.1", "section", "Far away", "sec-far", "chapters/02_two"),
        },
        pages={"chapters/01_one": {"title": "One"}, "chapters/02_two": {"title": "Two"}},
        citations={"someone2025": ("Someone et al.", "2025")},
        glued={"chapters/01_one": {"kl": "0.0123456", "name": "'abc'", "many": "128000"}},
        repository_file="https://host/blob/main/",
    )


def made(source: str) -> str:
    """The plain text of a source that must convert without a problem."""
    book = small_book()
    text = plain(source, book)
    assert book.problems == [] and left_over(text) == []
    return settle(text)


def problems(source: str) -> list[str]:
    book = small_book()
    plain(source, book)
    return book.problems


CONVERTED = {
    "math": ("```{math}\n:label: eq-sum\na = b\n```", "$$\na = b \\tag{1.2}\n$$"),
    "dollars": ("$$\na = b\n$$ (eq-sum)", "$$\na = b \\tag{1.2}\n$$"),
    "theorem": (
        "````{prf:theorem} Name\n:label: thm-one\nFor {eq}`eq-sum`.\n````",
        f"> **Theorem 1.1 (Name).** For [(1.2)]({SITE}chapters/01_one.html#equation-eq-sum).",
    ),
    "proof": ("```{prf:proof}\nSee.\n```", "> *Proof.* See. ∎"),
    "exercise": ("```{exercise} T ★\n:label: ex-one\nDo.\n```", "> **Exercise 1.3 (T ★).** Do."),
    "solution": (
        "````{solution} ex-one\n:class: dropdown\n\n```python\nx = '{ref}`a`'\n```\n````",
        "<details>\n<summary><b>Solution</b></summary>\n\n"
        "```python\nx = '{ref}`a`'\n```\n\n</details>",
    ),
    "note": ("```{note}\nTake care.\n```", "> **Note.** Take care."),
    "note with its text on the first line": ("```{tip} Take care.\n```", "> **Tip.** Take care."),
    "admonition": ("```{admonition} Predict\nNow.\n```", "> **Predict.** Now."),
    "hidden admonition": (
        "```{hint}\n:class: dropdown\nNow.\n```",
        "<details>\n<summary><b>Hint</b></summary>\n\nNow.\n\n</details>",
    ),
    "margin": ("```{margin}\nAside $x$.\n```", "> **Side note.** Aside $x$."),
    "tabs": (
        "::::{tab-set}\n:::{tab-item} A\none\n:::\n:::{tab-item} B\ntwo\n:::\n::::",
        "**A**\n\none\n\n**B**\n\ntwo",
    ),
    "in a list": ("- a\n  ```{note}\n  b\n  ```", "- a\n  > **Note.** b"),
    "glued number": ("KL {glue:text}`kl:.3f` bits", "KL 0.012 bits"),
    "glued word": ("{glue:text}`name`", "abc"),
    "glued count": ("{glue:text}`many:,d`", "128,000"),
    "numref": ("{numref}`fig-one`", f"[Figure 1.4]({SITE}chapters/01_one.html#fig-one)"),
    "numref with words": (
        "{numref}`picture %s <fig-one>`",
        f"[picture 1.4]({SITE}chapters/01_one.html#fig-one)",
    ),
    "ref": ("{ref}`sec-far`", f"[Far away]({SITE}chapters/02_two.html#sec-far)"),
    "prf:ref": ("{prf:ref}`thm-one`", f"[Theorem 1.1]({SITE}chapters/01_one.html#thm-one)"),
    "link": ("[there](#sec-far)", f"[there]({SITE}chapters/02_two.html#sec-far)"),
    "link to a page": ("[](02_two.md)", f"[Two]({SITE}chapters/02_two.html)"),
    "doc": ("{doc}`02_two`", f"[Two]({SITE}chapters/02_two.html)"),
    "cite:t": ("{cite:t}`someone2025`", f"[Someone et al. (2025)]({SITE}book/references.html)"),
    "cite:p": ("{cite:p}`someone2025`", f"([Someone et al., 2025]({SITE}book/references.html))"),
    "explorer": (
        '```{raw} html\n<div class="bw-explorer" data-explorer="x"></div>\n```',
        f"*On [the page of the book]({SITE}chapters/01_one.html) this explorer runs in the "
        "browser, without a kernel.*",
    ),
    "target": ("(sec-here)=\n## Here", "## Here"),
    "plain code": ("```python\n{ref}`x`\n```", "```python\n{ref}`x`\n```"),
    "role in code": ("Write `` {ref}`x` `` so.", "Write `` {ref}`x` `` so."),
    "braces in mathematics": (r"$\frac{a}{b}$ and `{x}`", r"$\frac{a}{b}$ and `{x}`"),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_converts(name):
    source, expected = CONVERTED[name]
    assert made(source) == expected


REFUSED = {
    "unknown directive": ("```{mystery}\nx\n```", "unknown directive {mystery}"),
    "unknown directive inside": ("````{note}\n```{mystery}\n```\n````", "{mystery}"),
    "unknown role": ("{mystery}`x`", "unknown role {mystery}"),
    "unknown label": ("{ref}`nowhere`", "unknown label 'nowhere'"),
    "unknown label in a link": ("[x](#nowhere)", "unknown label 'nowhere'"),
    "unknown equation": ("```{math}\n:label: eq-no\nx\n```", "unknown label 'eq-no'"),
    "unknown citation": ("{cite:t}`nobody1900`", "unknown citation 'nobody1900'"),
    "unknown page": ("{doc}`09_nine`", "unknown page '09_nine'"),
    "value never glued": ("{glue:text}`nothing:.2f`", "no glued value 'nothing'"),
    "raw html": ("```{raw} html\n<b>x</b>\n```", "raw html that is not an explorer"),
    "open fence": ("```{note}\nx", "fence is never closed"),
    "picture without words": ("```{figure} a.svg\n```", "picture without alt text: a.svg"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_what_it_does_not_know(name):
    source, words = REFUSED[name]
    assert any(words in problem for problem in problems(source)), problems(source)


@pytest.mark.parametrize("rest", ["{ref}`x`", "```{note}\nx\n```", "> :::{tip}", "see[^1]"])
def test_left_over_markup_is_found(rest):
    assert left_over(f"Text.\n\n{rest}\n")


def marked(printed: str, computed: str) -> str:
    return f"{OPEN}{printed}{COMPUTED}{computed}{CLOSE}"


@pytest.mark.parametrize(
    ("kept", "agreed"),
    [
        ("KL 0.0123 bits", True),
        ("KL 0.0124 bits", True),  # rounded differently
        ("KL 0.0125 bits", True),  # within 2 %
        ("KL 0.0128 bits", False),
        ("KL 0.0140 bits", False),
        ("KL 0.0000 bits", False),
        ("KL -0.0123 bits", False),
        ("KL 0.012 bits", False),  # printed in another format
        ("KL 0.0123 nats", False),
        ("kl 0.0123 bits", False),
        ("KL about 0.0123 bits", False),
        ("KL abc bits", False),
    ],
)
def test_numbers_agree_within_a_tolerance_and_text_exactly(kept, agreed):
    made_text = f"KL {marked('0.0123', '0.0123456')} bits"
    assert (agrees(made_text, kept) is None) is agreed


@pytest.mark.parametrize(
    ("printed", "computed", "old", "agreed"),
    [
        ("2,677,632", "2677632", "2,677,632", True),
        ("7", "7", "8", False),  # a count is not rounded
        ("0.003", "0.0031", "0.003", True),
        ("0.004", "0.0035001", "0.003", True),  # on the edge of rounding
        ("0.004", "0.0041", "0.003", False),  # one unit apart, and a third too small
        ("1.2e-05", "1.249e-05", "1.3e-05", True),
        ("1.2e-05", "1.2e-05", "1.2e-04", False),
        ("41.0%", "0.41", "41.0%", True),
        ("41.2%", "0.4123", "41.9%", True),
        ("41.2%", "0.4123", "44.9%", False),
        ("41%", "0.41", "41", False),
        ("1.2e-4 bits", "'1.2e-4 bits'", "1.3e-4 bits", True),
        ("1.2e-4 bits", "'1.2e-4 bits'", "1.9e-4 bits", False),
        ("1.2e-4 bits", "'1.2e-4 bits'", "1.2e-4 nats", False),
        ("reproduced", "'reproduced'", "partly", False),
        ("2e-16", "2.2e-16", "3e-16", True),  # rounding errors of two processors
        ("8.9e-16", "8.88e-16", "1e-15", True),
        ("'3e-16'", "'3e-16'", "'4e-16'", True),
        ("3e-16", "3.3e-16", "3e-12", False),
        ("3e-12", "3.3e-12", "2e-12", False),
        ("0.000", "2e-16", "0.001", False),
        ("2e-16", "2.2e-16", "2e-16 bits", False),
        ("inf", "inf", "inf", True),
        ("inf", "inf", "3.0", False),
    ],
)
def test_values_of_many_kinds(printed, computed, old, agreed):
    assert (agrees(marked(printed, computed), old) is None) is agreed


CHAPTER = f"""\
---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
jupytext:
  text_representation: {{extension: .md, format_name: myst, format_version: 0.13}}
---

# One

KL {{glue:text}}`kl:.4f`.

```{{code-cell}} ipython3
:tags: [bootstrap, remove-cell]

{address.PLACEHOLDER}
```

```{{code-cell}} ipython3
:tags: [parameters]

seed = 0
```

```{{code-cell}} ipython3
:tags: [remove-cell]

hidden = 1
```

```{{code-cell}} ipython3
---
mystnb:
  figure:
    name: fig-one
    caption: What is shown.
---
2
```
"""


@pytest.fixture
def small_root(tmp_path):
    """A repository with one chapter, built."""
    for name in ("_config.yml", "README.md", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path / name)
    for folder in ("chapters", "book", "bayeswind_lib", "_build"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "book/references.bib", tmp_path / "book")
    shutil.copy(ROOT / "bayeswind_lib/__init__.py", tmp_path / "bayeswind_lib")
    (tmp_path / "_toc.yml").write_text("parts: [{chapters: [{file: chapters/01_one}]}]")
    (tmp_path / "chapters/01_one.md").write_text(CHAPTER)
    book = small_book()
    build = {"labels": book.labels, "pages": book.pages, "glue": book.glued}
    (tmp_path / "_build/labels.json").write_text(json.dumps(build))
    assert build_notebooks.make(tmp_path) == []
    return tmp_path


def test_a_notebook_is_plain_complete_and_without_outputs(small_root):
    notebook = nbformat.read(small_root / "chapters/01_one.ipynb", as_version=4)
    nbformat.validate(notebook)
    texts = [cell.source for cell in notebook.cells]
    assert texts[2] == address.bootstrap_cell(small_root)
    assert texts[3:] == ["seed = 0", "2", "**Figure 1.4.** What is shown."]
    assert "KL 0.0123." in texts[1] and "hidden" not in "".join(texts)
    assert notebook.cells[3].metadata.tags == ["parameters"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert "accelerator" not in notebook.metadata and "gpuType" not in notebook.metadata.colab
    assert notebook.metadata.kernelspec.name == "python3"


def test_a_chapter_that_leaves_the_device_open_asks_colab_for_a_gpu(small_root):
    change(small_root / "chapters/01_one.md", "seed = 0", 'seed = 0\ndevice = "auto"  # a GPU, if there is one')
    assert build_notebooks.make(small_root) == []
    notebook = nbformat.read(small_root / "chapters/01_one.ipynb", as_version=4)
    assert (notebook.metadata.accelerator, notebook.metadata.colab.gpuType) == ("GPU", "T4")


FOLDABLE = """
```{code-cell} ipython3
:tags: [hide-input]

def dice(number):
    \"\"\"Random numbers for one purpose.

    More words.
    \"\"\"
```

```{code-cell} ipython3
:tags: [hide-input]

# Both scores.
x = 1
```

```{code-cell} ipython3
:tags: [hide-input]

%time bw.figures.glue("x", 1)
```

```{code-cell} ipython3
shown = 1
```
"""


def test_what_is_folded_on_the_page_is_folded_in_jupyterlab_and_on_colab(small_root):
    path = small_root / "chapters/01_one.md"
    path.write_text(path.read_text() + FOLDABLE)
    assert build_notebooks.make(small_root) == []
    notebook = nbformat.read(small_root / "chapters/01_one.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    folded = [cell for cell in code if cell.metadata.get("cellView") == "form"]
    assert folded == [cell for cell in code if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert folded == [code[0], *code[-4:-1]]  # the setup cell too
    titles = [cell.source.splitlines()[0] for cell in folded]
    assert all(title.startswith("#@title ") for title in titles)
    assert [title.removeprefix("#@title ") for title in titles[1:]] == [
        "Random numbers for one purpose", "Both scores", "Numbers for the text",
    ]
    assert code[-1].source == "shown = 1" and "#@title" not in path.read_text()


def test_making_twice_gives_the_same_bytes(small_root):
    path = small_root / "chapters/01_one.ipynb"
    before = path.read_bytes()
    path.unlink()
    build_notebooks.make(small_root)
    assert path.read_bytes() == before


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


BROKEN = {
    "text": ("chapters/01_one.md", "# One", "# Two", "cell 1: the text is out of step"),
    "code": ("chapters/01_one.md", "seed = 0", "seed = 1", "cell 3: the text is out of step"),
    "tag": ("chapters/01_one.md", "[parameters]", "[other]", "metadata are out of step"),
    "edited notebook": ("chapters/01_one.ipynb", "seed = 0", "seed = 1", "cell 3: the text"),
    "label": ("_build/labels.json", '"1.4"', '"1.7"', "the text is out of step"),
    "number": ("_build/labels.json", "0.0123456", "0.0143456", "a number moved beyond"),
    "setup cell": ("chapters/01_one.md", "On Colab", "in Colab", "the bootstrap cell is not"),
    "README": ("README.md", "chapters/01_one.ipynb", "chapters/x.ipynb", "README.md: its made"),
    "address": ("_config.yml", "github.com/", "github.com/x", "the text is out of step"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_check_names_what_is_out_of_step(small_root, name):
    path, old, new, words = BROKEN[name]
    assert build_notebooks.make(small_root, check=True) == []
    change(small_root / path, old, new)
    found = build_notebooks.make(small_root, check=True)
    assert any(words in problem for problem in found), found


def test_a_number_within_the_tolerance_rewrites_nothing(small_root):
    path = small_root / "chapters/01_one.ipynb"
    change(small_root / "_build/labels.json", "0.0123456", "0.0124456")
    before = path.read_bytes()
    assert build_notebooks.make(small_root) == [] and path.read_bytes() == before


def test_a_notebook_without_a_chapter_is_named(small_root):
    (small_root / "chapters/09_old.ipynb").write_text("{}")
    assert build_notebooks.make(small_root, check=True) == [
        "chapters/09_old.ipynb: no chapter makes it"
    ]


def test_problems_end_in_exit_code_1(small_root, monkeypatch, capsys):
    change(small_root / "chapters/01_one.md", "# One", "# One\n\n```{mystery}\n```")
    kept = build_notebooks.make
    monkeypatch.setattr(sys, "argv", ["build_notebooks.py"])
    monkeypatch.setattr(build_notebooks, "make", lambda check: kept(small_root, check))
    assert build_notebooks.main() == 1
    assert "unknown directive {mystery}" in capsys.readouterr().err


# --- this book -------------------------------------------------------------------------------


def tracked() -> list[Path]:
    """All files of the repository, generated and vendored ones apart."""
    if not (ROOT / ".git").exists():
        assert not in_ci(), "continuous integration needs the history"
        pytest.skip("not a git checkout: which files belong to the book is not known")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_every_notebook_is_in_step():
    assert build_notebooks.make(check=True) == []
    assert len(notebooks()) == len(address.documents()) >= 3


@pytest.mark.parametrize("document", address.documents())
def test_chapters_have_the_setup_cell_and_no_formats(document):
    notebook = jupytext.read(ROOT / f"{document}.md")
    assert "formats" not in notebook.metadata.get("jupytext", {})
    boots = [c for c in notebook.cells if "bootstrap" in c.metadata.get("tags", [])]
    assert [cell.source.strip() for cell in boots] == [address.PLACEHOLDER]
    made = nbformat.read(ROOT / f"{document}.ipynb", as_version=4)
    boots = [c.source for c in made.cells if "bootstrap" in c.metadata.get("tags", [])]
    assert boots == [address.bootstrap_cell()]


def test_the_setup_cell_adds_one_package_at_this_version():
    import bayeswind_lib

    lines = re.findall(r"%pip install (.*)", address.bootstrap_cell())
    assert len(lines) == 1 and "--no-deps" in lines[0]
    wanted = f"bayeswind-lib @ git+{address.repository()}@v{bayeswind_lib.__version__}"
    assert re.findall(r'"([^"]+)"', lines[0]) == [wanted]
    assert address.bootstrap_cell().splitlines()[-1].startswith("import bayeswind_lib")


def test_the_public_address_stands_in_one_place():
    repository = re.escape(address.repository().removeprefix("https://"))
    pages = re.escape(address.site().removeprefix("https://").rstrip("/"))
    pattern = re.compile(f"{repository}|{pages}")
    made_lines = {
        line for parts in address.made_parts().values() for p in parts.values() for line in p.split("\n")
    }
    places = []
    for path in tracked():
        if path.suffix in (".ipynb", ".safetensors", ".png"):
            continue  # notebooks are made, and compared elsewhere
        for line in path.read_text("utf-8", errors="replace").splitlines():
            if pattern.search(line) and line not in made_lines:
                places.append((path.relative_to(ROOT).as_posix(), line.strip()))
    assert places == [("_config.yml", f"url: {address.repository()}")]


def test_made_lines_are_in_step():
    assert address.refresh(check=True) == []


def test_markers_that_are_missing_are_named(tmp_path):
    shutil.copytree(CHAPTERS, tmp_path / "chapters")
    (tmp_path / "bayeswind_lib").mkdir()
    shutil.copy(ROOT / "bayeswind_lib/__init__.py", tmp_path / "bayeswind_lib")
    for name in ("_config.yml", "_toc.yml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_text("nothing made here")
    with pytest.raises(ValueError, match="README.md: 0 places for the part 'chapters'"):
        address.refreshed("README.md", tmp_path)


def test_an_address_that_gives_no_site_is_refused(tmp_path):
    (tmp_path / "_config.yml").write_text("repository: {url: 'https://host.org/x'}")
    with pytest.raises(ValueError, match="is not https://github.com/OWNER/NAME"):
        address.site(tmp_path)


def test_readme_shows_a_picture_with_todays_numbers():
    readme = (ROOT / "README.md").read_text()
    assert "book/_static/picture.svg" in readme[:1200], "the picture belongs on the first screen"
    assert "make book" in readme[:1200] and "make test" in readme[:1200]
    assert picture.FILE.stat().st_size <= 150_000
    kept, now = picture.held(picture.FILE.read_text()), picture.numbers(picture.plot())
    assert kept.keys() == now.keys()
    for name, values in now.items():
        assert kept[name] == pytest.approx(values, abs=0.0021), f"{name}: run `make picture`"


def test_links_between_the_repositorys_own_documents_resolve():
    for name in ("README.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / name).read_text()):
            assert (ROOT / target).exists(), f"{name} -> {target}"


@pytest.mark.parametrize("page", sorted((ROOT / "book").glob("*.md")), ids=lambda p: p.stem)
def test_files_that_pages_name_exist(page):
    named = re.findall(r"\{repo\}`(?:[^`<]*<)?([^`>]+)>?`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


# --- the Sphinx extension --------------------------------------------------------------------


def test_the_cache_key_covers_code_weights_and_records(tmp_path):
    library = tmp_path / "bayeswind_lib"
    for name in ("a.py", "weights/w.safetensors", "ledger/records/r.json"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text("1")
    (tmp_path / "requirements.txt").write_text("")
    keys = {bayeswind_book.library_key(tmp_path)}
    for path in sorted(library.rglob("*.*")):
        path.write_text("2")
        keys.add(bayeswind_book.library_key(tmp_path))
    for name in ("__pycache__/a.pyc", "ledger/records/.r.json.lock", "widgets/web/a.js", "widgets/web/a.css", "widgets/web/a.wat"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).write_text("3")
        keys.add(bayeswind_book.library_key(tmp_path))
    assert len(keys) == 4
    for number, name in enumerate(("widgets/web/a.json", "widgets/a.js")):
        (library / name).write_text("4")
        keys.add(bayeswind_book.library_key(tmp_path))
        assert len(keys) == 5 + number


TINY = {
    "conf.py": (
        "import sys; sys.path[:0] = [{ext!r}]\n"
        "extensions = ['myst_nb', 'bayeswind_book', 'bayeswind_figures']\nroot_doc = 'index'\n"
        "html_theme = 'basic'\nnb_execution_mode = 'cache'\n"
    ),
    "requirements.txt": "",
    "bayeswind_lib/a.py": "",
    "index.md": (
        "---\nkernelspec: {{name: python3, display_name: p}}\n"
        "jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}\n---\n"
        "# Tiny\n\n```{{code-cell}} ipython3\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]);\n```\n"
    ),
}


def test_a_picture_without_words_stops_every_build_not_only_the_first(tmp_path):
    for name, text in TINY.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.format(ext=str(ROOT / "book/_ext")))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", ".", "_build/html"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode != 0, "the build of a picture without words succeeded"
        assert "a picture without words" in done.stderr


@pytest.mark.parametrize("changed", ["book/_ext/bayeswind_book.py", "book/_static/book.css", "bayeswind_lib/widgets/web/explorer.css"])
def test_pages_are_made_again_if_what_makes_them_changes(tmp_path, changed):
    """Else a page keeps naming the scripts that it had, or keeps their older version."""
    web = "bayeswind_lib/widgets/web"
    for folder in ("book/_ext", "book/_static", "book/tools", web):
        (tmp_path / folder).mkdir(parents=True)
    sheets = [ROOT / "book/_static/book.css", ROOT / web / "explorer.css"]
    for path in [*(ROOT / "book/tools").glob("*.py"), *(ROOT / "book/_ext").glob("*.py"), *sheets]:
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    for name, text in (TINY | {"index.md": "# Tiny\n"}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.format(ext=str(tmp_path / "book/_ext")))
    shutil.copy(ROOT / "_config.yml", tmp_path)
    with (tmp_path / "conf.py").open("a") as file:
        file.write("html_static_path = ['book/_static', 'bayeswind_lib/widgets/web']\n")
    command = [sys.executable, "-m", "sphinx", "-q", ".", "_build/html"]
    page, changes = tmp_path / "_build/html/index.html", []
    for more in ("", "", "#x {}\n"):
        with (tmp_path / changed).open("a") as file:
            file.write(more)
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        changes.append(page.stat().st_mtime_ns)
    assert changes[0] == changes[1] < changes[2]
    if changed.endswith(".css"):
        assert (tmp_path / "_build/html/_static" / Path(changed).name).read_text().endswith("#x {}\n")


def test_no_page_loads_thebe(site):
    assert "thebe" not in (site / "chapters/01_bayesian.html").read_text().lower()


def test_only_chapters_offer_to_open_a_notebook(site):
    opens = {p: "colab.research" in (site / f"{p}.html").read_text().split("<article")[0]
             for p in ("chapters/01_bayesian", "book/checked", "book/references")}  # fmt: skip
    assert list(opens.values()) == [True, False, False]

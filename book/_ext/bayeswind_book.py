"""What this book asks of Sphinx beyond Jupyter Book.

- the execution cache is keyed on the library, its weights and its records, not on cells alone;
- a build with warnings is forgotten, so that the next one warns again;
- the labels, numbers and glued values of the build are written down for the notebooks;
- a page that others name the figures of is read once, not once for each name;
- a page's head says what the page is about, in its own words, for search engines and previews;
- no line ends between a formula and its full stop, or a number and its unit; 2.4e-5 in a sentence
  is a power of ten;
- each line of code is an element, so that a long one can be broken on a narrow screen;
- an explorer's script is loaded on the pages that have the explorer, with the weights of the
  network that it runs, and thebe's on none; the playground's weights wait until they are asked for;
- a chapter's minutes, which its table holds, stand under its title (and on the landing page's map).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from html import escape
from pathlib import Path
from textwrap import shorten

from docutils import nodes
from sphinx.domains.std import StandardDomain

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bayeswind_cards as cards
from tools import address, networks

LIBRARY = "bayeswind_lib"
WEB = "bayeswind_lib/widgets/web"  # scripts that the pages share with notebooks
SCRIPTS = {".js", ".css", ".wat"}  # no cell's output depends on one
# Parts of a page in which nothing is mended: code, drawings; and attributes of elements.
AS_IT_IS = r"<(pre|script|style|svg|code|title)\b.*?</\1>"
TAG = r"""<(?:"[^"]*"|'[^']*'|[^>"'])*>"""
# A number with an exponent in a sentence; in tables it stays as it is written.
EXPONENT = re.compile(
    AS_IT_IS + r'|<(td|th)\b.*?</\2>|<span class="math .*?</span>|' + TAG
    + r"|(?<![\w.-])(?P<minus>-?)(?P<digits>\d[\d.]*)e(?P<sign>[+-])0*(?P<power>\d+)",
    re.S,
)
# What no line may end within: a formula with what touches it, a number with its unit.
WHOLE = re.compile(
    AS_IT_IS + r"|(?P<open>[(\[\u201c]*)"
    r'(?P<math><span class="math notranslate nohighlight"[^>]*>(?:(?!</span>).)*</span>)'
    r"(?P<close>(?:&[#\w]+;|[^\s<&-]){,8}-?)"
    r'|(?P<number>(?:<span class="pasted-text">[^<\s]{1,12}</span>|(?<![\w.,-])\d[\d.,]*)'
    r"\s(?:%|(?:bits?|nats?)\b))|" + TAG,
    re.S,
)
SENTENCE = 60  # letters: what is shorter describes no page


# --- the execution cache ---------------------------------------------------------------------


def library_key(root: Path) -> str:
    """A short hash of everything a chapter's output depends on besides its own cells."""
    digest = hashlib.sha256((root / "requirements.txt").read_bytes())
    for path in sorted((root / LIBRARY).rglob("*")):
        script = path.suffix in SCRIPTS and root / WEB in path.parents
        hidden = path.name.startswith(".")  # locks, and what is being written
        if path.is_file() and not script and not hidden and "__pycache__" not in path.parts:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def key_the_cache(app, config):
    """Name the cache after the library: a change there (weights, records) runs cells anew."""
    build = Path(app.outdir).parent
    name = f".jupyter_cache_{library_key(Path(app.srcdir))}"
    config.nb_execution_cache_path = str(build / name)
    for old in build.glob(".jupyter_cache*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)




# --- labels, numbers and glued values for the notebooks ----------------------------------------


def dotted(number: tuple[int, ...] | None) -> str:
    """(3, 2) as "3.2"; nothing as ""."""
    return ".".join(map(str, number or ()))


def numbers_of(env) -> dict[tuple[str, str], tuple[str, str]]:
    """(document, anchor) -> (kind, number) of figures, theorems, equations, sections, ..."""
    found = {}
    for document, anchors in env.toc_secnumbers.items():
        for anchor, number in anchors.items():
            found[document, anchor.lstrip("#")] = ("section", dotted(number))
    for document, kinds in env.toc_fignumbers.items():
        for kind, anchors in kinds.items():
            for anchor, number in anchors.items():
                found[document, anchor] = (kind, dotted(number))
    return found


def places_of(env) -> dict[str, tuple[str, str, str]]:
    """Label -> (document, anchor, title) from all domains that the book uses."""
    standard = env.get_domain("std")
    found = {name: (*place, "") for name, place in standard.anonlabels.items()}
    for name, (doc, anchor, title) in standard.labels.items():
        found[name] = (doc, anchor, str(title))
    for name, (doc, _) in env.get_domain("math").equations.items():
        found[name] = (doc, f"equation-{name}", "")
    for name, entry in getattr(env, "proof_list", {}).items():
        found[name] = (entry["docname"], name, "")
    for name, entry in getattr(env, "sphinx_exercise_registry", {}).items():
        found[name] = (entry["docname"], name, "")
    for (kind, term), (doc, anchor) in standard.objects.items():
        if kind == "term":
            found[f"term:{term}"] = (doc, anchor, term)
    return found


def labels_of(env) -> dict[str, dict[str, str]]:
    """Everything a notebook has to know about each label of the book."""
    numbers, labels = numbers_of(env), {}
    types = {name: e["type"] for name, e in getattr(env, "proof_list", {}).items() if "type" in e}
    for name, (doc, anchor, title) in places_of(env).items():
        kind, number = numbers.get((doc, anchor), ("", ""))
        if not number and anchor and env.titles.get(doc) and title == env.titles[doc].astext():
            kind, number = numbers.get((doc, ""), ("", ""))
        labels[name] = {
            "doc": doc, "anchor": anchor, "title": title, "number": number,
            "kind": types.get(name, kind),
        }  # fmt: skip
    return labels


def glued_of(app) -> dict[str, dict[str, str]]:
    """Document -> name -> the plain text of each value that its cells glued."""
    folder, found = Path(app.outdir).parent / "jupyter_execute", {}
    for document in sorted(app.env.found_docs):
        path = folder / f"{document}.glue.json"
        if path.is_file() and app.env.nb_metadata.get(document, {}).get("glue"):
            data = json.loads(path.read_text("utf-8"))
            texts = {name: value["data"].get("text/plain") for name, value in data.items()}
            found[document] = {name: text for name, text in texts.items() if text is not None}
    return found


def write_labels(app, problem):
    """Write _build/labels.json, from which book/tools/build_notebooks.py makes the notebooks."""
    if problem or app.builder.name != "html":
        return
    env = app.env
    pages = {
        doc: {"title": title.astext(), "number": dotted(env.toc_secnumbers.get(doc, {}).get(""))}
        for doc, title in env.titles.items()
    }
    content = {"glue": glued_of(app), "labels": labels_of(env), "pages": pages}
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
    (Path(app.outdir).parent / "labels.json").write_text(text + "\n", "utf-8")


# --- pages -----------------------------------------------------------------------------------


def is_thebe(script) -> bool:
    """Whether a script or style belongs to thebe, which this book does not use."""
    body = (getattr(script, "attributes", None) or {}).get("body") or ""
    return "thebe" in str(getattr(script, "filename", script) or "") or "THEBE" in body


def is_widget_state(script) -> bool:
    """Whether a script is the saved state of an ipywidget; the page has one without a kernel."""
    kind = (getattr(script, "attributes", None) or {}).get("type") or ""
    return kind.startswith("application/vnd.jupyter.widget")


def power_of_ten(match: re.Match) -> str:
    """A match of EXPONENT: 2.4e+18 as it is written by hand, and on one line."""
    if not match["power"]:
        return match[0]
    power = match["sign"].replace("+", "").replace("-", "\u2212") + match["power"]
    digits = "" if float(match["digits"]) == 1 else f"{match['digits']} \u00d7 "
    minus = "\u2212" if match["minus"] else ""
    return f'<span class="bw-whole">{minus}{digits}10<sup>{power}</sup></span>'


def whole(match: re.Match) -> str:
    """A match of WHOLE: what belongs together, in an element that book.css keeps on one line; a
    line may still end between the pieces of a formula."""
    alone = not (match["number"] or match["open"] or match["close"])
    return match[0] if alone else f'<span class="bw-whole">{match[0]}</span>'


def tidy_page(app, pagename, templatename, context, doctree):
    """Drop thebe's files, which declare the same constant twice on every page, and buttons that
    would open a notebook that does not exist: only chapters have one."""
    for kind in ("script_files", "css_files"):
        unwanted = (is_thebe, is_widget_state)
        context[kind] = [i for i in context.get(kind, []) if not any(test(i) for test in unwanted)]
    buttons = context.get("header_buttons", [])
    if not pagename.startswith("chapters/"):
        context["header_buttons"] = [b for b in buttons if b.get("label") != "launch-buttons"]
    for group in buttons:
        for button in group.get("buttons", []) if group.get("label") == "launch-buttons" else []:
            # The theme would open the branch: text and library have to be of one version.
            if "colab" in button.get("url", ""):
                button["url"] = address.colab(f"{pagename}.ipynb")
    # docutils puts entries into a list without calling them its items: an error for screen readers.
    body = context.get("body", "")
    body = body.replace('role="doc-biblioentry"', 'role="listitem"')
    body = re.sub(r"Solution to(<a [^>]*>) ", r"Solution to \1", body)  # no underlined space
    context["body"] = WHOLE.sub(whole, EXPONENT.sub(power_of_ten, body))


def add_explorers(app, pagename, templatename, context, doctree):
    """Load NAME_explorer.js (and .css) on the pages that hold a `data-explorer="NAME"`, in a raw
    block or in what a cell returned; the playground has a list of scripts."""
    if doctree is None:
        return
    raw = "".join(node.astext() for node in doctree.findall(nodes.raw))
    if "data-explorer=" in raw:
        app.add_css_file("explorer.css")  # what all of them share, before their own
        app.add_js_file("explorer.js", loading_method="defer")
    for script in sorted((Path(app.srcdir) / WEB).glob("*_explorer.js")):
        if f'data-explorer="{script.name.split("_explorer")[0]}"' in raw:
            for file in networks.files_of(script.read_text("utf-8")):
                add_network(app, file)
            listed = script.with_suffix(".json")
            for name in json.loads(listed.read_text("utf-8")) if listed.is_file() else ():
                app.add_js_file(name, loading_method="defer")
            app.add_js_file(script.name, loading_method="defer")
            if script.with_suffix(".css").is_file():
                app.add_css_file(script.with_suffix(".css").name)
    if 'data-explorer="playground"' in raw:
        add_playground(app)


def add_playground(app) -> None:
    """Load the playground's scripts, in their order, and write the networks that it may fetch."""
    web = Path(app.srcdir) / WEB
    app.add_css_file("machine_explorer.css")
    app.add_css_file("playground.css")
    for name in json.loads((web / "playground.json").read_text("utf-8")):
        app.add_js_file(name, loading_method="defer")
        for file in networks.files_of((web / name).read_text("utf-8")):
            networks.write(Path(app.outdir) / "_static", file)


def add_network(app, file: str) -> None:
    """Load what runs a network in the page, as engine.json lists it; its weights are written into
    the site, and fetched by the explorer when a reader comes near."""
    networks.write(Path(app.outdir) / "_static", file)
    for name in json.loads((Path(app.srcdir) / WEB / "engine.json").read_text("utf-8")):
        app.add_js_file(name, loading_method="defer")


def show_minutes(app, doctree):
    """Put a chapter's minutes, added up from its own table, under its title."""
    source = Path(app.env.doc2path(app.env.docname))
    reading, exercises = minutes_of(source.read_text("utf-8")) if source.is_file() else (0, 0)
    title = next(doctree.findall(nodes.title), None)
    if not reading or title is None:
        return
    words = f"{reading} minutes to read, {exercises} for the exercises"
    line = nodes.paragraph("", words, classes=["bw-minutes"])
    title.parent.insert(title.parent.index(title) + 1, line)


def minutes_of(text: str) -> tuple[int, int]:
    """Minutes to read a chapter and for its exercises, from its table `| section | minutes |`.

    A test counts that table again (tests/test_minutes.py); (0, 0) without one.
    """
    table = re.search(r"^\| section \| minutes \|\n\|[ -|]+\n((?:\|.*\n)+)", text, re.M)
    rows = re.findall(r"^\| (.+?) \| (\d+) \|$", table[1], re.M) if table else []
    both = [sum(int(n) for name, n in rows if (name == "Exercises") is e) for e in (False, True)]
    return both[0], both[1]


def describe_page(app, pagename, templatename, context, doctree):
    """Say in the page's head what it is about, for search engines and previews of its link: its
    first paragraph that is a sentence without formulas, and a card with its title."""
    if doctree is None:
        return
    plain = (p.astext() for p in doctree.findall(nodes.paragraph) if not any(p.findall(nodes.math)))
    words = shorten(next((text for text in plain if len(text) >= SENTENCE), ""), 200)
    number = app.env.toc_secnumbers.get(pagename, {}).get("", ())
    card = cards.write(app, pagename, title_of(context), dotted(number), words)
    tags = {
        'name="description"': words, 'property="og:description"': words,
        'property="og:type"': "article", 'property="og:title"': title_of(context),
        'property="og:image"': f"{address.site()}{card}",
        'property="og:image:alt"': f"{title_of(context)}: a card of The Bayesian Wind Tunnel",
        'name="twitter:card"': "summary_large_image",
    }  # fmt: skip
    said = [f'<meta {name} content="{escape(text)}" />' for name, text in tags.items() if text]
    context["metatags"] = "\n".join([context.get("metatags", ""), *said])


def title_of(context) -> str:
    """A page's title without its tags."""
    return re.sub("<[^>]+>", "", context.get("title", ""))


def part_lines(app, doctree, docname):
    """Make each line of code, and of what it prints, an element of its own (`line-BLOCK-LINE`),
    so that book.css can break a long one and indent what follows."""
    for n, node in enumerate(doctree.findall(nodes.literal_block)):
        node["highlight_args"] = {**node.get("highlight_args", {}), "linespans": f"line-{n}"}


def drop_thebe_settings(app, doctree, docname):
    """Drop the block of settings that thebe puts on every page."""
    for node in list(doctree.findall(nodes.raw)):
        if "text/x-thebe-config" in node.astext():
            node.parent.remove(node)


def forget_failure(app, problem):
    """After a build with warnings, make the next one read every page again.

    Sphinx remembers pages that were read with warnings as up to date: the second build of a
    broken chapter would say nothing and succeed.
    """
    if problem or app._warncount:
        (Path(app.doctreedir) / "environment.pickle").unlink(missing_ok=True)


def code_key(root: Path) -> str:
    """A hash of what makes pages out of documents: where it differs, all pages are made again.

    Sphinx copies static files only together with a page, and does not watch an extension.
    """
    folders = [root / "book/_static", root / WEB, root / "book/_ext", root / "book/_templates"]
    files = [p for folder in folders for p in sorted(folder.rglob("*")) if p.suffix != ".pyc"]
    # Buttons and links hold the address, and the version from the library's first file.
    files += [Path(address.__file__), root / "_config.yml", root / LIBRARY / "__init__.py"]
    code = b"".join(path.read_bytes() for path in files if path.is_file())
    return hashlib.sha256(code).hexdigest()


class ReadOnce:
    """A build's environment that keeps a page once it is read: for looking, not for changing."""

    def __init__(self, env):
        self.env, self.pages = env, {}

    def __getattr__(self, name: str):
        return getattr(self.env, name)

    def get_doctree(self, docname: str) -> nodes.document:
        """The page, read from its file the first time."""
        if docname not in self.pages:
            self.pages[docname] = self.env.get_doctree(docname)
        return self.pages[docname]


class Standard(StandardDomain):
    """Sphinx's own domain, which would read a whole page again for each number of a figure."""

    def _resolve_numref_xref(self, env, *words):
        if "kept" not in vars(self):
            self.kept = ReadOnce(env)
        return super()._resolve_numref_xref(self.kept, *words)


def titled(text: str, title: str) -> tuple[str, str]:
    """("words", "target") of a role's text `words <target>`; with `title` for a bare target."""
    match = re.fullmatch(r"(.+?)\s*<(.+)>", text, re.S)
    return match.groups() if match else (title, text)


def repository_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """{repo}`CONTRIBUTING.md`: a link to a file of the repository, made from the one address."""
    words, path = titled(text, text)
    return [nodes.reference(rawtext, words, refuri=address.file(path), internal=False)], []


def colab_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """{colab}`chapters/01_bayesian`: a link that opens the chapter's notebook on Colab."""
    words, chapter = titled(text, "Colab")
    notebook = address.colab(f"{chapter}.ipynb")
    return [nodes.reference(rawtext, words, refuri=notebook, internal=False)], []


def machine_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """{machine}`Cut a head <task=bijection&off=0.3>`: a link that sets the machine of its page."""
    words, state = titled(text, "")
    if not words:
        problem = f"{rawtext}: give words and a state, `words <task=...&pairs=...>`"
        return [], [inliner.reporter.error(problem, line=lineno)]
    # "disabled" is a word to the theme's scroll spy alone, which takes every hash for a selector
    # and trips over this one.
    classes, where = ["bw-machine-link", "disabled"], f"#machine?{state}"
    return [nodes.reference(rawtext, words, refuri=where, internal=False, classes=classes)], []


def setup(app):
    """Connect everything above."""
    app.add_config_value("bayeswind_code", code_key(Path(app.srcdir)), "env")
    app.add_domain(Standard, override=True)
    app.connect("config-inited", key_the_cache)
    app.connect("doctree-read", show_minutes)
    app.connect("html-page-context", tidy_page, priority=900)
    app.connect("html-page-context", add_explorers, priority=400)
    app.connect("html-page-context", describe_page)
    app.connect("doctree-resolved", part_lines)
    app.connect("doctree-resolved", drop_thebe_settings, priority=900)
    app.connect("build-finished", write_labels)
    app.connect("build-finished", forget_failure)
    app.add_role("repo", repository_role)
    app.add_role("colab", colab_role)
    app.add_role("machine", machine_role)
    app.add_css_file("book.css")
    app.add_css_file("print.css", media="print", priority=900)  # after the theme's own
    app.add_js_file("book.js")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

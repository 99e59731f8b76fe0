"""From the book's MyST Markdown to the plain Markdown that Colab and Jupyter show.

A notebook has no Sphinx behind it: a theorem becomes a quote block with the book's own number, a
cross-reference a link to the published page, a hidden solution a `<details>` block, a glued value
the number itself. Whatever is not understood is a named problem, never passed through.

A glued value stands between private characters, as it is printed and as it was computed, until
`settle` leaves the print alone: so `agrees` can compare a text letter for letter and its numbers
within a tolerance.
"""

from __future__ import annotations

import ast
import html
import re
from dataclasses import dataclass, field

OPEN, COMPUTED, CLOSE = "\ue000", "\ue001", "\ue002"
GLUED = re.compile(f"{OPEN}([^{CLOSE}]*){COMPUTED}([^{CLOSE}]*){CLOSE}")
FENCE = re.compile(r"^(?P<indent>[ ]*)(?P<mark>`{3,}|:{3,}|~{3,})[ ]*(?P<info>[^`]*)$")
DIRECTIVE = re.compile(r"\{(?P<name>[\w:+.-]+)\}\s*(?P<argument>.*)$")
INLINE = re.compile(
    r"\{(?P<role>[A-Za-z][\w:.+-]*)\}(?P<marks>`+)(?P<argument>.+?)(?<!`)(?P=marks)(?!`)"
    r"|(?P<ticks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|(?P<picture>!?)\[(?P<text>[^\[\]]*)\]\((?P<address>[^()\s]+)\)",
    re.S,
)
BLOCK_MATH = re.compile(r"^\$\$(?P<body>.*?)\$\$[ ]*(?:\((?P<label>[\w:-]+)\))?[ ]*$", re.M | re.S)
TARGET = re.compile(r"^\([\w:.-]+\)=[ ]*\n", re.M)
COMMENT = re.compile(r"^%.*\n?", re.M)
LEFT_OVER = re.compile(r"\{[A-Za-z][\w:.+-]*\}`|^[> ]*(?:`{3,}|:{3,}|~{3,})\{|\[\^[\w-]+\]", re.M)
NUMBER = re.compile(
    r"(?P<digits>[-+−]?\d[\d,]*(?:\.(?P<places>\d+))?(?:[eE](?P<power>[-+]?\d+))?)(?P<percent>%?)"
)

NOTHING = 1e-12  # rounding errors: each processor leaves others, and none is a result

ADMONITIONS = {
    "admonition", "attention", "caution", "error", "hint", "important", "margin", "note",
    "seealso", "sidebar", "tip", "warning",
}  # fmt: skip
STATEMENTS = {
    "algorithm", "assumption", "axiom", "conjecture", "corollary", "criterion", "definition",
    "example", "lemma", "notation", "observation", "property", "proposition", "remark", "theorem",
}  # fmt: skip
KINDS = {"code-block": "Listing", "displaymath": "Equation"}
AS_CODE = {"code", "command", "file", "kbd", "program", "samp"}


@dataclass
class Book:
    """What the build knows: labels, pages, citations, one chapter's glued values, the address."""

    site: str
    document: str
    labels: dict[str, dict] = field(default_factory=dict)
    pages: dict[str, dict] = field(default_factory=dict)
    citations: dict[str, tuple[str, str]] = field(default_factory=dict)
    glued: dict[str, dict[str, str]] = field(default_factory=dict)
    repository_file: str = ""
    problems: list[str] = field(default_factory=list)

    def page(self, document: str, anchor: str = "") -> str:
        """The address of a published page."""
        return f"{self.site}{document}.html" + (f"#{anchor}" if anchor else "")

    def problem(self, words: str) -> str:
        """Remember a problem; the returned mark stands in its place in the text."""
        self.problems.append(words)
        return f"[{words}]"

    def label(self, name: str) -> dict | None:
        """A label's entry; Sphinx lowers the case of most names."""
        found = self.labels.get(name) or self.labels.get(name.lower())
        if found is None:
            self.problem(f"unknown label {name!r}")
        return found

    def named(self, entry: dict) -> str:
        """How the book calls what a label stands for: "Theorem 1.1", or its title."""
        kind = KINDS.get(entry["kind"], entry["kind"].capitalize())
        return f"{kind} {entry['number']}".strip() if entry["number"] else entry["title"]


def plain(source: str, book: Book) -> str:
    """The plain Markdown of a MyST text; problems are added to `book.problems`."""
    lines, pieces, prose = source.split("\n"), [], []
    place = 0
    while place < len(lines):
        opening = FENCE.match(lines[place])
        if not opening:
            prose.append(lines[place])
            place += 1
            continue
        end = closing_line(lines, place, opening["mark"])
        if end is None:
            book.problem(f"fence is never closed: {lines[place].strip()}")
            end = len(lines)
        pieces.append(inline_text("\n".join(prose) + "\n" if prose else "", book))
        prose = []
        block = fence(opening, lines[place + 1 : end], book)
        pieces.append(indented(block, opening["indent"]) + "\n")
        place = end + 1
    pieces.append(inline_text("\n".join(prose), book))
    return re.sub(r"\n{3,}", "\n\n", "".join(pieces)).strip("\n")


def closing_line(lines: list[str], opening: int, mark: str) -> int | None:
    """The line that closes a fence: the same character, at least as often, and nothing else."""
    pattern = re.compile(rf"^[ ]*{re.escape(mark[0])}{{{len(mark)},}}[ ]*$")
    return next((i for i in range(opening + 1, len(lines)) if pattern.match(lines[i])), None)


def indented(text: str, indent: str) -> str:
    """Every line that is not empty moved to the right."""
    return "\n".join(indent + line if line else line for line in text.split("\n"))


def quoted(text: str) -> str:
    """A Markdown quote block."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def hidden(summary: str, text: str) -> str:
    """A block that a click opens."""
    return f"<details>\n<summary><b>{html.escape(summary)}</b></summary>\n\n{text}\n\n</details>"


def fence(opening: re.Match, lines: list[str], book: Book) -> str:
    """A fenced block: code stays as it is, a directive is converted."""
    width = len(opening["indent"])
    lines = [line[width:] if line[:width].isspace() else line for line in lines]
    directive_form = DIRECTIVE.match(opening["info"].strip())
    if directive_form:
        return directive(directive_form["name"], directive_form["argument"].strip(), lines, book)
    if opening["mark"].startswith(":"):
        return book.problem(f"block without a name: {opening['info'].strip()!r}")
    return "\n".join([opening["mark"] + opening["info"], *lines, opening["mark"]])


def options_of(lines: list[str]) -> tuple[dict[str, str], str]:
    """A directive's options (`:key: value` lines) and the body after them."""
    options, place = {}, 0
    while place < len(lines) and (match := re.match(r":([\w-]+):[ ]*(.*)$", lines[place])):
        options[match[1]] = match[2].strip()
        place += 1
    return options, "\n".join(lines[place:]).strip("\n")


def directive(name: str, argument: str, lines: list[str], book: Book) -> str:
    """A directive in plain Markdown, or a named problem."""
    options, body = options_of(lines)
    base = name.removeprefix("prf:")
    if name == "math":
        return equation(f"{argument}\n{body}".strip(), options.get("label"), book)
    if name.startswith("prf:") and base == "proof":
        return quoted("*Proof.* " + plain(body, book) + " ∎")
    if (name.startswith("prf:") and base in STATEMENTS) or name == "exercise":
        return statement(base, argument, options, body, book)
    if name == "solution":
        return hidden("Solution", plain(body, book))
    if name == "dropdown" or (name in ADMONITIONS and "dropdown" in options.get("class", "")):
        return hidden(argument or name.capitalize(), plain(body, book))
    if name in ADMONITIONS:
        return admonition(name, argument, body, book)
    return other_directive(name, argument, options, body, book)


def other_directive(name: str, argument: str, options: dict, body: str, book: Book) -> str:
    """Tabs, code, pictures, tables and raw html."""
    if name == "predict":
        return prediction(argument, options, body, book)
    if name == "tab-set":
        return plain(body, book)
    if name == "tab-item":
        return f"**{argument}**\n\n{plain(body, book)}\n"
    if name in ("code-block", "code"):
        return f"```{argument}\n{body}\n```"
    if name in ("figure", "image"):
        return picture(argument, options, body, book)
    if name == "table":
        title = f"**{inline_text(argument, book)}**\n\n" if argument else ""
        return title + plain(body, book)
    if name == "raw":
        return explorer(body, book)
    return book.problem(f"unknown directive {{{name}}}")


def prediction(question: str, options: dict, body: str, book: Book) -> str:
    """A question to bet on; a notebook hides the answer, and why, behind a click."""
    answer = f"{options.get('answer', '')} {options.get('unit', '')}".strip()
    if options.get("kind") == "choice":
        choices = [choice.strip() for choice in options["options"].split("|")]
        question = f"{question} *{' / '.join(choices)}*"
        answer = choices[int(options["correct"]) - 1]
    if options.get("kind") == "curve":
        answer = ""  # its figure follows
    told = plain("\n\n".join(part for part in (answer, body) if part), book)
    return quoted(f"**Predict.** {plain(question, book)}") + f"\n\n{hidden('Answer', told)}"


def equation(body: str, label: str | None, book: Book) -> str:
    """A displayed equation with the book's number as its tag."""
    entry = book.label(label) if label else None
    tag = rf" \tag{{{entry['number']}}}" if entry and entry["number"] else ""
    return f"$$\n{body.strip()}{tag}\n$$"


def statement(kind: str, argument: str, options: dict, body: str, book: Book) -> str:
    """A theorem, definition, exercise, ... with the book's number."""
    label = options.get("label")
    entry = book.label(label) if label else None
    number = f" {entry['number']}" if entry and entry["number"] else ""
    title = f" ({inline_text(argument, book)})" if argument else ""
    return quoted(f"**{kind.capitalize()}{number}{title}.** {plain(body, book)}")


def admonition(name: str, argument: str, body: str, book: Book) -> str:
    """A note beside the text; only `admonition` itself has its title as argument."""
    titles = {"margin": "Side note", "seealso": "See also"}
    head = titles.get(name, name.capitalize())
    if name in ("admonition", "margin", "sidebar"):
        head = inline_text(argument, book) or head
    elif argument:
        body = f"{argument}\n{body}".strip()
    return quoted(f"**{head.rstrip('.')}.** {plain(body, book)}")


def picture(path: str, options: dict, body: str, book: Book) -> str:
    """A picture of the site, with its words and its numbered caption."""
    entry = book.label(options["name"]) if "name" in options else None
    alt = options.get("alt") or book.problem(f"picture without alt text: {path}")
    image = f"![{alt}]({book.site}_images/{path.rsplit('/', 1)[-1]})"
    return f"{image}\n\n{caption(entry, body, book)}" if body else image


def caption(entry: dict | None, text: str, book: Book) -> str:
    """The line under a figure."""
    number = f" {entry['number']}" if entry and entry["number"] else ""
    return f"**Figure{number}.** {plain(text.strip(), book)}"


def explorer(body: str, book: Book) -> str:
    """The sentence that stands where the page has an explorer."""
    if "data-explorer=" not in body:
        return book.problem("raw html that is not an explorer")
    anchor = re.search(r'\bid="([^"]+)"', body)
    address = book.page(book.document, anchor[1] if anchor else "")
    where = f"[the page of the book]({address})"
    return f"*On {where} this explorer runs in the browser, without a kernel.*"


def inline_text(text: str, book: Book) -> str:
    """Roles, links, labelled equations and targets in running text."""
    text = COMMENT.sub("", TARGET.sub("", text))
    text = BLOCK_MATH.sub(lambda m: equation(m["body"], m["label"], book), text)
    text = re.sub(r"^(\S[^\n]*)\n:[ ]+", r"**\1**: ", text, flags=re.M)
    return INLINE.sub(lambda match: inline(match, book), text)


def inline(match: re.Match, book: Book) -> str:
    """One role, code span, link or picture."""
    if match["ticks"]:
        return match[0]
    if match["role"]:
        return role(match["role"], " ".join(match["argument"].split()), book)
    return link(match["picture"], match["text"], match["address"], book)


def link(mark: str, text: str, address: str, book: Book) -> str:
    """A Markdown link: to the published page, if it means another part of the book."""
    if re.match(r"[a-z]+:", address) and not address.startswith("project:"):
        return f"{mark}[{text}]({address})"
    if mark:
        return f"![{text}]({book.site}_images/{address.rsplit('/', 1)[-1]})"
    path, _, anchor = address.partition("#")
    if path.endswith(".md"):
        document = document_of(path.removesuffix(".md"), book)
        if document is None:
            return book.problem(f"unknown page {path!r}")
        return f"[{text or book.pages[document]['title']}]({book.page(document, anchor)})"
    entry = book.label(anchor or path)
    if entry is None:
        return f"[unknown label {address!r}]"
    return f"[{text or book.named(entry)}]({book.page(entry['doc'], entry['anchor'])})"


def document_of(path: str, book: Book) -> str | None:
    """The page that a relative or absolute path means."""
    folder = book.document.split("/")[:-1]
    parts = [] if path.startswith("/") else folder
    for part in path.strip("/").split("/"):
        parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
    return "/".join(parts) if "/".join(parts) in book.pages else None


def titled(argument: str) -> tuple[str, str]:
    """`text <target>` as (text, target); a bare target has no text."""
    match = re.fullmatch(r"(.+?)\s*<([^<>]+)>", argument, re.S)
    return (match[1], match[2]) if match else ("", argument)


def role(name: str, argument: str, book: Book) -> str:
    """A role in plain Markdown, or a named problem."""
    if name == "glue:text":
        return glued(argument, book)
    if name in ("ref", "prf:ref", "numref", "eq"):
        return reference(name, argument, book)
    if name.startswith("cite"):
        return citation(name, argument, book)
    if name == "math":
        return f"${argument}$"
    if name in AS_CODE:
        return f"`{argument}`"
    if name in ("sub", "sup"):
        return f"<{name}>{html.escape(argument)}</{name}>"
    if name in ("abbr", "term", "doc", "repo", "machine"):
        return small_role(name, argument, book)
    return book.problem(f"unknown role {{{name}}}")


def small_role(name: str, argument: str, book: Book) -> str:
    """Abbreviations, terms, pages, files of the repository and states of a page's machine."""
    text, target = titled(argument)
    if name == "machine":
        return f"[{text}]({book.page(book.document, f'machine?{target}')})"
    if name == "abbr":
        return re.sub(r"\s*\(.*\)$", "", argument)
    if name == "repo":
        return f"[{argument}]({book.repository_file}{argument})"
    if name == "term":
        entry = book.label(f"term:{target}")
        return text or target if entry is None else (
            f"[{text or target}]({book.page(entry['doc'], entry['anchor'])})"
        )  # fmt: skip
    document = document_of(target, book)
    if document is None:
        return book.problem(f"unknown page {target!r}")
    return f"[{text or book.pages[document]['title']}]({book.page(document)})"


def reference(name: str, argument: str, book: Book) -> str:
    """A cross-reference as a link with the book's own number."""
    text, target = titled(argument)
    entry = book.label(target)
    if entry is None:
        return f"[unknown label {target!r}]"
    if name == "eq":
        words = f"({entry['number']})"
    elif name == "ref" and entry["title"]:
        words = text or entry["title"]
    else:
        words = text.replace("%s", entry["number"]).replace("{number}", entry["number"])
        words = words.replace("{name}", entry["title"]) or book.named(entry)
    return f"[{words}]({book.page(entry['doc'], entry['anchor'])})"


def citation(name: str, argument: str, book: Book) -> str:
    """Authors and year, linked to the book's bibliography."""
    found = []
    for key in (part.strip() for part in argument.split(",")):
        if key not in book.citations:
            return book.problem(f"unknown citation {key!r}")
        authors, year = book.citations[key]
        found.append(f"{authors} ({year})" if name.endswith(":t") else f"{authors}, {year}")
    words = "; ".join(found)
    address = book.page("book/references")
    return f"[{words}]({address})" if name.endswith(":t") else f"([{words}]({address}))"


def glued(argument: str, book: Book) -> str:
    """A glued value as the book prints it and as the build computed it, between the marks."""
    with_format = re.search(r"[^:]:[^:]", argument)
    key, _, form = argument.rpartition(":") if with_format else (argument, "", "")
    document = book.document
    if "::" in key:
        path, key = key.split("::", 1)
        document = document_of(path.removesuffix(".md"), book) or path
    text = book.glued.get(document, {}).get(key)
    if text is None:
        return book.problem(f"no glued value {key!r}")
    return OPEN + formatted(text, form or "s") + COMPUTED + text + CLOSE


def formatted(text: str, form: str) -> str:
    """The plain text of a value in a format, as myst-nb shows it."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = float(text) if text in ("inf", "nan", "-inf") else text
    return text if form == "s" and not isinstance(value, str) else format(value, form)


def settle(text: str) -> str:
    """The text with glued values as they are printed."""
    return GLUED.sub(r"\1", text)


def left_over(text: str) -> list[str]:
    """Directives, roles and footnotes that a converted text must not hold (code apart)."""
    prose, lines, place = [], text.split("\n"), 0
    while place < len(lines):
        opening = FENCE.match(lines[place].lstrip("> "))
        if opening and not DIRECTIVE.match(opening["info"]):
            stripped = [line.lstrip("> ") for line in lines]
            place = (closing_line(stripped, place, opening["mark"]) or place) + 1
            continue
        prose.append(lines[place])
        place += 1
    bare = re.sub(r"(?<![}`])(`+)(?!`).+?(?<!`)\1(?!`)", "", "\n".join(prose), flags=re.S)
    return [match[0].strip() for match in LEFT_OVER.finditer(bare)]


def agrees(made: str, kept: str, relative: float = 0.02) -> str | None:
    """None if a kept text says what a newly made one says; otherwise what differs.

    Text is compared letter for letter. A glued number has to be the newly computed one up to its
    rounding and the fraction `relative`: another processor computes a little differently. Two
    numbers below `NOTHING`, both printed with a power of ten, are equal.
    """
    parts = GLUED.split(made)  # text, printed, computed, text, printed, computed, ..., text
    pattern = r"([^\n]*?)".join(re.escape(text) for text in parts[::3])
    match = re.fullmatch(pattern, kept)
    if match is None:
        return "the text is out of step"
    for new, computed, old in zip(parts[1::3], parts[2::3], match.groups(), strict=True):
        if new != old and not close(new, computed, old, relative):
            return f"a number moved beyond the tolerance: {old!r} is kept, {new!r} was computed"
    return None


def close(new: str, computed: str, old: str, relative: float) -> bool:
    """Whether a kept print fits a computed value; words around a number have to be equal."""
    if NUMBER.split(new)[::5] != NUMBER.split(old)[::5]:
        return False
    for left, right in zip(NUMBER.finditer(new), NUMBER.finditer(old), strict=True):
        value, place = read_number(left), step_of(right)
        if max(abs(value), abs(read_number(right))) < NOTHING and left["power"] and right["power"]:
            continue
        if step_of(left) != place or not (left["places"] or left["power"]):
            return False  # another format, or a count: nothing to forgive
        whole = re.fullmatch(r"[-+\d.e]+", computed) and new.strip() == left[0]
        exact = float(computed) * (100 if left["percent"] else 1) if whole else value
        rounding = place * (0.5 if whole else 1.0) * 1.001
        if abs(read_number(right) - exact) > relative * abs(exact) + rounding:
            return False
    return True


def read_number(match: re.Match) -> float:
    """The value of a printed number."""
    return float(match["digits"].replace(",", "").replace("−", "-"))


def step_of(match: re.Match) -> float:
    """One unit in the last printed place."""
    return 10.0 ** (int(match["power"] or 0) - len(match["places"] or ""))

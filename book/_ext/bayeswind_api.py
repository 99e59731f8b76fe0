"""The page of the library's names: what chapters call as `bw. ...`, with signature and docstring.

`{bayeswind-api}` is replaced by one section for each module, made when the book is built: the names
are read from the code of the chapters, the rest from the library. So the page names nothing that
nobody calls, and what a chapter begins to call is on it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```\s*$", re.M | re.S)
SKIPPED = ("exercises",)  # each is described where its exercise stands
UNSOUGHT = "bw-unsought"  # the class of what the search's list leaves out
HEADING = re.compile(r"(Args|Attributes|Returns|Yields|Raises):$")
SECTION = re.compile(rf"\n(?={HEADING.pattern.replace('(', '(?:')})", re.M)
ROW = re.compile(r"(\*{0,2}[A-Za-z_][\w, *]*): (.*)")


# --- which names -------------------------------------------------------------------------------


def code_of(text: str) -> str:
    """The Python of a chapter's cells, without options and magics."""
    cells = []
    for cell in CELL.findall(text):
        cell = re.sub(r"\A---\n.*?^---\n", "", cell, flags=re.M | re.S)
        cells.append(re.sub(r"^(?::[a-z]|\s*[%!]).*$", "", cell, flags=re.M))
    return "\n".join(cells)


def dotted(node: ast.AST) -> list[str]:
    """["bw", "tunnels", "HMM"] of an expression that is such a path, else []."""
    if isinstance(node, ast.Name):
        return [node.id]
    inner = dotted(node.value) if isinstance(node, ast.Attribute) else []
    return [*inner, node.attr] if inner else []


def resolve(path: list[str]) -> tuple[str, object] | None:
    """The name of the function or class that a path below `bw` leads to, and what it is."""
    found = importlib.import_module("bayeswind_lib")
    for i, part in enumerate(path[1:], 1):
        found = getattr(found, part)
        if inspect.isfunction(found) or inspect.isclass(found):
            return ".".join(path[: i + 1]), found
        if not inspect.ismodule(found):
            return None
    return None


def called(chapters: Path) -> dict[str, tuple[object, list[int]]]:
    """What chapters call as `bw. ...`, sorted: name -> (what it is, numbers of the chapters).

    One thing that is reached by two paths has the shorter one.
    """
    found: dict[object, tuple[str, set[int]]] = {}
    for path in sorted(chapters.glob("[0-9][0-9]_*.md")):
        for node in ast.walk(ast.parse(code_of(path.read_text(encoding="utf-8")))):
            steps = dotted(node)
            if len(steps) < 2 or steps[0] != "bw" or steps[1] in SKIPPED:
                continue
            if (resolved := resolve(steps)) is not None:
                name, what = resolved
                before, numbers = found.get(what, (name, set()))
                found[what] = min(before, name, key=len), numbers | {int(path.name[:2])}
    rows = {name: (what, sorted(numbers)) for what, (name, numbers) in found.items()}
    return dict(sorted(rows.items()))


def parts(kind: type) -> Iterator[tuple[str, object]]:
    """A class's own public methods and properties, in the order of its file."""
    for name, member in vars(kind).items():
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield name, plain


def untyped(what: object) -> list[str]:
    """Which arguments and results of a function, or of a class's public methods, have no type."""
    if isinstance(what, property):
        what = what.fget
    if inspect.isclass(what):
        found = [f"{name}: {hole}" for name, part in parts(what) for hole in untyped(part)]
        own = vars(what).get("__init__")
        made = untyped(own) if inspect.isfunction(own) else []
        return found + [hole for hole in made if hole != "return"]
    signature = inspect.signature(what)
    empty = [p.name for p in given(signature) if p.annotation is p.empty]
    return empty + (["return"] if signature.return_annotation is signature.empty else [])


def given(signature: inspect.Signature) -> list[inspect.Parameter]:
    """The parameters that a caller gives."""
    return [p for p in signature.parameters.values() if p.name not in ("self", "cls")]


# --- how they are shown ------------------------------------------------------------------------


def signature_of(name: str, what: object) -> str:
    """`name(arguments) -> result` with types; of a property `name: type`."""
    if isinstance(what, property):
        return f"{name}: {inspect.signature(what.fget).return_annotation}"
    signature = inspect.signature(what)
    kept = [
        p.replace(annotation=_plain(p.annotation), default=_named(p.default))
        for p in given(signature)
    ]
    result = signature.empty if inspect.isclass(what) else _plain(signature.return_annotation)
    return name + str(signature.replace(parameters=kept, return_annotation=result))


class Written(str):
    """An annotation as it stands in the source, which `inspect` would put between quotes."""

    __repr__ = str.__str__


def _named(default: object) -> object:
    """A default as in the source: a function's name, where `inspect` would print its address."""
    return Written(default.__name__) if inspect.isfunction(default) else default


def _plain(annotation: object) -> object:
    if annotation is inspect.Signature.empty:
        return annotation
    is_text = isinstance(annotation, str)
    return Written(annotation if is_text else inspect.formatannotation(annotation))


def inline(text: str) -> list[nodes.Node]:
    """Text in which `this` is code."""
    pieces = enumerate(re.split(r"`+([^`]+)`+", text))
    return [nodes.literal(text=x) if i % 2 else nodes.Text(x) for i, x in pieces if x]


def paragraph(text: str, classes: tuple[str, ...] | list[str] = ()) -> nodes.paragraph:
    """A paragraph of docstring text."""
    return nodes.paragraph("", "", *inline(" ".join(text.split())), classes=list(classes))


def headline(text: str) -> nodes.paragraph:
    """"Args:" and the like."""
    return nodes.paragraph("", "", nodes.strong(text=text), classes=[UNSOUGHT])


def described(doc: str) -> list[nodes.Node]:
    """A docstring of this library as nodes: paragraphs, examples, lists of arguments and errors.

    The search knows what a name is for; what it takes, returns and raises is read on the page.
    """
    found: list[nodes.Node] = []
    for block in re.split(r"\n\s*\n", doc):
        for piece in SECTION.split(block):
            head, _, rest = piece.partition("\n")
            if head in ("Returns:", "Yields:"):
                found += [headline(head), paragraph(rest, [UNSOUGHT])]
            elif HEADING.match(head):
                found += [headline(head), rows(rest, [UNSOUGHT])]
            elif head.startswith(">>>"):
                found.append(nodes.literal_block(text=piece, language="python"))
            elif found and isinstance(found[-1], nodes.bullet_list) and piece.startswith("    "):
                found[-1] += nodes.list_item("", paragraph(piece))  # it goes on after an empty line
            else:
                found.append(paragraph(piece))
    return found


def rows(text: str, classes: tuple[str, ...] | list[str] = ()) -> nodes.bullet_list:
    """What stands under "Args:": an item for each first line, continued by lines further in."""
    shown = nodes.bullet_list(classes=list(classes))
    for item in filter(str.strip, re.split(r"\n(?=\S)", inspect.cleandoc("\n" + text))):
        line = " ".join(item.split())
        match = ROW.match(line)
        named = [nodes.literal(text=match[1]), nodes.Text(": ")] if match else []
        content = [*named, *inline(match[2] if match else line)]
        shown += nodes.list_item("", nodes.paragraph("", "", *content))
    return shown


def entry(name: str, what: object, chapters: list[int] = ()) -> nodes.definition_list_item:
    """A name with its signature, what it does, and where it is called."""
    types = nodes.inline("", signature_of(name, what).removeprefix(name), classes=[UNSOUGHT])
    term = nodes.term("", "", nodes.literal("", "", nodes.Text(name), types))
    if chapters:
        term["ids"] = [name.replace(".", "-")]  # `training.recipe` makes a `training.Recipe`
    body = nodes.definition("", *described(inspect.getdoc(what) or ""))
    if inspect.isclass(what) and (own := [entry(part, member) for part, member in parts(what)]):
        body += nodes.definition_list("", *own)
    if chapters:
        words = f"Called in chapter{'s' * (len(chapters) > 1)} {', '.join(map(str, chapters))}."
        body += nodes.paragraph("", "", nodes.emphasis(text=words), classes=[UNSOUGHT])
    return nodes.definition_list_item("", term, body)


def sections(names: dict[str, tuple[object, list[int]]]) -> list[nodes.section]:
    """One section for each module below `bw`, first what stands in `bw` itself."""
    groups: dict[str, list] = {}
    for name, (what, chapters) in names.items():
        group = ".".join(name.split(".")[:2]) if name.count(".") > 1 else "bw"
        groups.setdefault(group, []).append(entry(name, what, chapters))
    found = []
    for group, entries in sorted(groups.items()):
        title = nodes.title("", "", nodes.literal(text=group))
        listed = nodes.definition_list("", *entries, classes=["bw-api"])
        found.append(nodes.section("", title, listed, ids=[nodes.make_id(f"api-{group}")]))
    return found


class ApiDirective(SphinxDirective):
    """All that chapters call, section by section."""

    def run(self) -> list[nodes.Node]:
        chapters, library = (Path(self.env.srcdir) / name for name in ("chapters", "bayeswind_lib"))
        for path in (*chapters.glob("[0-9][0-9]_*.md"), *library.rglob("*.py")):
            self.env.note_dependency(str(path))  # the page is made again when one of them changes
        return sections(called(chapters))


def setup(app):
    """Called by Sphinx."""
    app.add_directive("bayeswind-api", ApiDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

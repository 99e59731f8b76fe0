"""The page of the library's names: it lists what chapters call, all of it typed and described."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from dataclasses import is_dataclass
from importlib import resources

import pytest
from _support import CHAPTERS, ROOT
from docutils import nodes

import bayeswind_lib as bw

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import bayeswind_api as api  # noqa: E402

NAMES = api.called(CHAPTERS)
TEXT = {path: path.read_text(encoding="utf-8") for path in sorted(CHAPTERS.glob("[0-9][0-9]_*.md"))}


def own_parts(what) -> list[tuple[str, object]]:
    return list(api.parts(what)) if inspect.isclass(what) else []


def test_the_page_holds_every_name_that_a_chapter_calls_and_no_other():
    """Searched in the text of the code cells, by a route that does not parse them."""
    found = {}
    for text in TEXT.values():
        for cell in re.findall(r"^```\{code-cell\}.*?^```", text, re.M | re.S):
            code = re.sub(r"#.*", "", cell)
            for path in re.findall(r"\bbw((?:\.\w+)+)", code):
                if not path.startswith(".exercises"):
                    resolved = api.resolve(f"bw{path}".split("."))
                    if resolved:
                        found[id(resolved[1])] = resolved[1]
    assert {id(what) for what, _ in NAMES.values()} == set(found)
    assert len(NAMES) > 80


def test_the_page_is_made_of_these_names():
    shown = api.sections(NAMES)
    ids = [term["ids"][0] for section in shown for term in section.findall(nodes.term) if term["ids"]]
    assert sorted(ids) == sorted(name.replace(".", "-") for name in NAMES)
    assert len(set(ids)) == len(ids)
    assert "{bayeswind-api}" in (ROOT / "book" / "api.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_typed_and_described(name):
    what, chapters = NAMES[name]
    assert not api.untyped(what), "without a type"
    for label, part in [(name, what), *own_parts(what)]:
        doc = inspect.getdoc(part)
        assert doc and (doc[0].isupper() or doc[0] in "`|") and "." in doc, label
    assert chapters


def test_every_argument_under_args_is_one_of_the_signature():
    """A docstring that lags behind its function is worse than none."""
    for name, (what, _) in NAMES.items():
        doc = inspect.getdoc(what) or ""
        listed = re.search(r"^Args:\n((?:    .*\n?|\n)+)", doc, re.M)
        taken = set(inspect.signature(what).parameters)
        rows = re.findall(r"^    (\*{0,2}\w[\w, *]*): ", listed[1], re.M) if listed else []
        told = {word.strip(" *") for row in rows for word in row.split(",")}
        assert told <= taken, f"{name}: {sorted(told - taken)} are no arguments"


def test_a_docstring_becomes_paragraphs_lists_and_examples():
    doc = "One `name`, in words\nthat go on.\n\nArgs:\n    a: first,\n        and more.\n    b: second.\nReturns:\n    a number.\n\n>>> 1 + 1\n2\n"
    shown = api.described(doc)
    assert [type(node) for node in shown] == [
        nodes.paragraph, nodes.paragraph, nodes.bullet_list, nodes.paragraph, nodes.paragraph, nodes.literal_block,
    ]
    assert [item.astext() for item in shown[2]] == ["a: first, and more.", "b: second."]
    assert shown[0].astext() == "One name, in words that go on."


def test_what_has_no_type_is_found():
    def bare(a, b: int = 1):
        return a

    class Half:
        def __init__(self, x):
            self.x = x

        def told(self) -> int:
            return 1

        @property
        def size(self):
            return 1

    assert api.untyped(bare) == ["a", "return"]
    assert api.untyped(Half) == ["size: return", "x"]
    assert api.signature_of("bw.x", bw.load).endswith("device: str | torch.device = 'cpu') -> nn.Module")
    assert "step: Step = step)" in api.signature_of("bw.x", bw.training.loop.update)  # a function by name, not by its address


def test_the_types_are_real_ones():
    """Names in annotations exist where they are written, but for those that are imported for type checkers only."""
    for name, (what, _) in NAMES.items():
        if not inspect.isclass(what) and not name.startswith("bw.ledger."):
            assert "return" in typing.get_type_hints(what), name


def test_the_package_says_that_it_is_typed():
    assert (resources.files(bw) / "py.typed").is_file()


def test_what_a_function_raises_is_in_its_docstring():
    """Those that raise by themselves; what they call says so where it stands."""
    for name, (what, _) in NAMES.items():
        made = vars(what).get("__post_init__" if is_dataclass(what) else "__init__") if inspect.isclass(what) else what
        raised = set(re.findall(r"^\s+raise (\w+)\(", inspect.getsource(made) if made else "", re.M))
        listed = (inspect.getdoc(what) or "").partition("Raises:")[2]
        assert all(error in listed for error in raised), f"{name}: {sorted(raised)}"

"""{predict}: a question with something to bet on, and the answer after the bet.

    ```{predict} How much of the uncertainty is left after ten of twenty pairs?
    :name: half-way
    :kind: number
    :range: 0 100 1
    :unit: %
    :answer: {glue:text}`ch2_half_way:.0f`

    Why it is so, for after the bet.
    ```

`kind` is `number` (a slider; `range` is low, high, step), `choice` (`options`, split at `|`, and
the number of the `correct` one) or `curve` (a line to sketch; `range` and, as answer, the heights
split at blanks; `across` and `up` name the axes, `first` is the place of the first height, 0
without it). Without a script the answer is a `<details>`; predict.js puts the bet in front of it,
says what the bet was worth in bits, and keeps it in the browser alone. `covers: 3` covers the three
blocks that follow the box until the reader has bet, or asks to see them: for a figure or a sentence
that gives the answer away. On paper the answers stand on a sheet of their own at the chapter's end.
"""

from __future__ import annotations

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

KINDS = ("number", "choice", "curve")
LINE = ("range", "answer")
NEEDED = {"number": LINE, "choice": ("options", "correct"), "curve": LINE}
DATA = ("kind", "range", "unit", "options", "correct", "across", "up", "first", "covers")


class predict(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes so
    """The whole; its children are a `predict_question` and a `predict_answer`."""


class predict_question(nodes.General, nodes.Element):  # noqa: N801
    """The question, in words."""


class predict_answer(nodes.General, nodes.Element):  # noqa: N801
    """The true answer, where it is one text, and why."""


class predict_answers(nodes.General, nodes.Element):  # noqa: N801
    """For paper: all answers of a page, at its end."""


class predict_answered(nodes.General, nodes.Element):  # noqa: N801
    """For paper: a question once more, and its answer."""


class Predict(SphinxDirective):
    """The directive; see the file's first lines."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = dict.fromkeys(("name", "answer", *DATA), directives.unchanged_required)  # noqa: RUF012

    def run(self):
        """The nodes, or an error that says what is missing."""
        kind = self.options.get("kind", "number")
        missing = [name for name in ("name", *NEEDED.get(kind, ())) if name not in self.options]
        if kind not in KINDS or missing:
            said = f"needs {', '.join(missing)}" if missing else f"is none of {', '.join(KINDS)}"
            raise self.error(f"predict of kind {kind!r} {said}")
        self.options["kind"] = kind
        root = predict("", **{name: self.options[name] for name in DATA if name in self.options})
        root["ids"].append(f"predict-{self.options['name']}")
        root += self.part(predict_question, self.arguments[0])
        root += self.part(predict_answer, self.truth(), "\n".join(self.content))
        return [root]

    def truth(self) -> str:
        """The paragraph that holds the answer."""
        if self.options["kind"] == "choice":
            options = [option.strip() for option in self.options["options"].split("|")]
            return f"**{options[int(self.options['correct']) - 1]}**"
        return f"{self.options['answer']} {self.options.get('unit', '')}".strip()

    def part(self, kind, *paragraphs: str):
        """A node of some Markdown."""
        part = kind()
        text = "\n\n".join(paragraphs)
        self.state.nested_parse(text.splitlines(), self.content_offset, part)
        return part


def open_predict(translator, node):
    """The box, with what the script needs to know."""
    data = {f"data-{name}": node[name] for name in DATA if name in node}
    translator.body.append(translator.starttag(node, "div", CLASS="bw-predict", **data))
    translator.body.append('<p class="bw-predict-title">Predict</p>\n')


def open_question(translator, node):
    """The words of the question."""
    translator.body.append('<div class="bw-predict-question">')


def open_answer(translator, node):
    """What a click opens where no script is."""
    translator.body.append(
        '<details class="bw-predict-answer"><summary>Show the answer</summary><div>'
    )


def open_answers(translator, node):
    """What is shown on paper only; no heading of the page."""
    translator.body.append(
        '<div class="bw-predict-answers">'
        '<p class="bw-predict-answers-title">Answers to the predictions</p>\n'
    )


def open_answered(translator, node):
    """One of them."""
    translator.body.append('<div class="bw-answered">')


def close(text: str):
    """A visitor that ends what was opened."""
    return lambda translator, node: translator.body.append(text)


def skip(translator, node):
    """Other formats leave it out."""
    raise nodes.SkipNode


def collect_answers(app, doctree, docname):
    """Put copies of all answers at the page's end, when references and values are in."""
    asked = list(doctree.findall(predict))
    if not asked or app.builder.format != "html":
        return
    box = predict_answers()
    for question, answer in (node.children for node in asked):
        box += predict_answered("", question.deepcopy(), *answer.deepcopy().children)
    for node in box.findall(nodes.Element):
        node["ids"] = []
    next(doctree.findall(nodes.section), doctree).append(box)


def add_script(app, pagename, templatename, context, doctree):
    """Load the script on pages with a prediction."""
    if doctree is not None and any(doctree.findall(predict)):
        app.add_js_file("explorer.js", loading_method="defer")  # its elements
        app.add_js_file("predict.js", loading_method="defer")
        app.add_css_file("predict.css")


def setup(app):
    """Connect everything above."""
    later = '<p class="bw-predict-later">Answer: on the last page of the chapter</p></div>\n'
    shown = {
        predict: (open_predict, later),
        predict_question: (open_question, "</div>\n"),
        predict_answer: (open_answer, "</div></details>\n"),
        predict_answers: (open_answers, "</div>\n"),
        predict_answered: (open_answered, "</div>\n"),
    }
    for kind, (visit, end) in shown.items():
        others = dict.fromkeys(("latex", "text", "man", "texinfo"), (skip, None))
        app.add_node(kind, html=(visit, close(end)), **others)
    app.add_directive("predict", Predict)
    app.connect("doctree-resolved", collect_answers, priority=300)
    app.connect("html-page-context", add_script, priority=400)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""The playground: a trained network beside the exact posterior, moved by the reader.

A page shows it where a `Mount` stands, a running notebook with `playground()`. Both run the same
scripts, those of the folder `web` that `web/playground.json` lists: the page loads them from the
site, the widget brings them as text. A page fetches weights from the site; a notebook asks its
kernel for them, which sends them as they lie on disk.

The widget needs anywidget, which is imported when the first one is made and not before.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
from pathlib import Path

from bayeswind_lib import checkpoints
from bayeswind_lib.widgets.poster import SEED, SHOWN, poster

WEB = Path(__file__).resolve().parent / "web"
STYLES = ("explorer.css", "playground.css", "notebook.css")
DARK = 'html[data-theme="dark"]'  # how a page says that it is dark; a notebook has its own ways
NO_ANYWIDGET = (
    "the playground in a notebook needs the package anywidget, and there is none: "
    "run `%pip install anywidget`, reload the page and run this cell again"
)


class Mount:
    """Where a page shows the playground: its poster, until the scripts take over.

    Args:
        small: one short figure, without what only the whole playground has.
        home: the address of the page with the whole playground, to which a small one links.
    """

    def __init__(self, small: bool = False, home: str = ""):
        self.small, self.home = small, home

    def _repr_html_(self) -> str:
        start = f'data-seed="{SEED}" data-shown="{SHOWN}"'  # the poster's episode
        size = " data-small" if self.small else ""
        home = f' data-home="{html.escape(self.home)}"' if self.home else ""
        return f'<div class="bw-explorer" data-explorer="playground" {start}{size}{home}>{poster()}</div>'


def scripts() -> list[str]:
    """Names of the files in `web` that the playground runs, in the order in which they are loaded."""
    return json.loads((WEB / "playground.json").read_text("utf-8"))


# ---- in a notebook ------------------------------------------------------------------------------


def playground(small: bool = False):
    """The playground in a running notebook: an anywidget that asks this kernel for weights.

    Args:
        small: one short figure, without what only the whole playground has.
    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _widget_class()(small)


@functools.cache
def module() -> str:
    """The widget's script: the playground's scripts as a function that runs them, then `notebook.js`."""
    texts = "\n".join((WEB / name).read_text("utf-8") for name in scripts())
    version = hashlib.sha256(texts.encode()).hexdigest()[:12]
    head = f'const VERSION = "{version}";\nfunction runScripts() {{\n{texts}\n}}\n'
    return head + (WEB / "notebook.js").read_text("utf-8")


@functools.cache
def style() -> str:
    """The widget's style sheet: `notebook.js` says with a class of its own when the notebook is dark."""
    return "\n".join((WEB / name).read_text("utf-8") for name in STYLES).replace(DARK, ".bw-dark")


@functools.cache
def _widget_class():
    """The widget's class, made when anywidget is first needed."""
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError:
        raise ModuleNotFoundError(NO_ANYWIDGET) from None

    class Playground(anywidget.AnyWidget):
        """The playground; `notebook.js` draws it and asks for weights by messages."""

        _esm = module()
        _css = style()
        options = traitlets.Dict().tag(sync=True)  # of bwPlayground.mount
        poster = traitlets.Unicode().tag(sync=True)

        def __init__(self, small: bool):
            super().__init__(options={"small": small, "seed": SEED, "shown": SHOWN}, poster=poster())
            self.on_msg(self._hand_over)

        def _hand_over(self, _, message, __) -> None:
            if message.get("kind") == "weights":
                answer, buffers = answer_to(message)
                self.send(answer, buffers)

    return Playground


def answer_to(message: dict) -> tuple[dict, list[bytes]]:
    """What the kernel sends back when a playground asks for `message["file"]`.

    Returns:
        the same message, with a `problem` in words if there is no such file; the file's bytes, if any.
    """
    try:
        return message, [checkpoints.content(message["file"])]
    except checkpoints.CheckpointError as problem:
        return {**message, "problem": str(problem)}, []

"""What a page runs, in a running notebook: its scripts mounted through anywidget.

The widget brings the scripts of the folder `web` as text, the same that the pages load, and `web/notebook.js`, which
mounts them in the cell's output. Weights come from this kernel, as they lie on disk.

anywidget is imported when the first widget is made and not before.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from bayeswind_lib import checkpoints

WEB = Path(__file__).resolve().parent / "web"
OWN = "the network of this widget"  # as which a widget asks for weights that lie in no file
DARK = 'html[data-theme="dark"]'  # how a page says that it is dark; a notebook has its own ways
NO_ANYWIDGET = (
    "explorers and the playground in a notebook need the package anywidget, and there is none: "
    "run `%pip install anywidget`, reload the page and run this cell again"
)


class Widget:
    """What a notebook shows where a page has an explorer or the playground: always an `anywidget.AnyWidget` too."""


def mounted(
    name: str, scripts: Iterable[str], styles: Iterable[str], data: dict | None = None, table: dict | None = None,
    weights: bytes | None = None, poster: str = "",
) -> Widget:
    """A widget that shows what a page has at `data-explorer="NAME"`.

    Args:
        name: of the explorer, or "playground".
        scripts, styles: names of files in `web`, in the order in which they are loaded.
        data: what the page says in attributes `data-...` of the element.
        table: a label and a table of answers that join the predictors of this HMM explorer.
        weights: of a network that this explorer runs in place of a shipped one, a .safetensors file.
        poster: HTML that stands there until the scripts take over.
    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    network = table or ({"file": OWN} if weights else {})
    given = {"name": name, "data": data or {}, "network": network, "poster": poster}
    return _widget_class()(weights, _esm=module(tuple(scripts)), _css=style(tuple(styles)), **given)


@functools.cache
def module(scripts: tuple[str, ...]) -> str:
    """The widget's script: each script as a function that runs it, by name, then `notebook.js`."""
    runs = ",\n".join(f"  {json.dumps(name)}: () => {{\n{(WEB / name).read_text('utf-8')}\n}}" for name in scripts)
    return f'const VERSION = "{_version()}";\nconst SCRIPTS = {{\n{runs}\n}};\n{(WEB / "notebook.js").read_text("utf-8")}'


@functools.cache
def style(styles: tuple[str, ...]) -> str:
    """The widget's style sheet: `notebook.js` says with a class of its own when the notebook is dark."""
    return "\n".join((WEB / name).read_text("utf-8") for name in (*styles, "notebook.css")).replace(DARK, ".bw-dark")


@functools.cache
def _version() -> str:
    """A hash of all scripts: the widgets of one page share them if they are the same."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(WEB.glob("*.js")))).hexdigest()[:12]


@functools.cache
def _widget_class():
    """The widget's class, made when anywidget is first needed."""
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError:
        raise ModuleNotFoundError(NO_ANYWIDGET) from None

    class Mounted(anywidget.AnyWidget, Widget):
        """An explorer or the playground; `notebook.js` draws it and asks for weights by messages."""

        name, poster = traitlets.Unicode().tag(sync=True), traitlets.Unicode().tag(sync=True)
        data, network = traitlets.Dict().tag(sync=True), traitlets.Dict().tag(sync=True)
        _esm, _css = traitlets.Unicode().tag(sync=True), traitlets.Unicode().tag(sync=True)

        def __init__(self, weights: bytes | None, **state):
            super().__init__(**state)
            self.weights = weights
            self.on_msg(self._hand_over)

        def _hand_over(self, _, message, __) -> None:
            if message.get("kind") == "weights":
                answer, buffers = answer_to(message, self.weights)
                self.send(answer, buffers)

    return Mounted


def answer_to(message: dict, weights: bytes | None = None) -> tuple[dict, list[bytes]]:
    """What the kernel sends back when a widget asks for `message["file"]`.

    Args:
        weights: what the widget is sent for `OWN`.
    Returns:
        the same message, with a `problem` in words if there is no such file; the file's bytes, if any.
    """
    try:
        own = weights is not None and message["file"] == OWN
        return message, [weights if own else checkpoints.content(message["file"])]
    except checkpoints.CheckpointError as problem:
        return {**message, "problem": str(problem)}, []

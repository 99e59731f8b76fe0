"""The playground: a trained network beside the exact posterior, moved by the reader.

A page shows it where a `Mount` stands, a running notebook with `playground()`. Both run the same
scripts, those of the folder `web` that `web/playground.json` lists: the page loads them from the
site, the widget brings them as text (`notebook.py`).
"""

from __future__ import annotations

import html
import json

from bayeswind_lib.widgets import notebook
from bayeswind_lib.widgets.notebook import WEB, Widget
from bayeswind_lib.widgets.poster import SEED, SHOWN, poster

STYLES = ("explorer.css", "machine_explorer.css", "playground.css")


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


def playground(small: bool = False) -> Widget:
    """The playground in a running notebook: an anywidget that asks this kernel for weights.

    Args:
        small: one short figure, without what only the whole playground has.
    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    data = {"seed": SEED, "shown": SHOWN} | ({"small": ""} if small else {})
    return notebook.mounted("playground", scripts(), STYLES, data, poster=poster())

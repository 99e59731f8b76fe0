"""README's picture, drawn from the shipped network: `make picture` writes book/_static/picture.svg.

The landing page draws the same figure in the book's build; this file exists for places that show
no built page. A test draws it again and compares the numbers that the file holds.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence

import torch

import bayeswind_lib as bw

from . import ROOT

NETWORK = "bijection-transformer"
FILE = ROOT / "book" / "_static" / "picture.svg"
N_EPISODES = 512


def plot() -> bw.figures.Plot:
    """Entropy at each position: exact, shipped network, uniform guess, on the same episodes."""
    tunnel = bw.tunnels.Bijection(n_values=20)
    predictors = {"transformer": bw.load(NETWORK), "uniform guess": bw.baselines.Uniform(tunnel)}
    scores = {
        name: bw.score(predictor, tunnel, N_EPISODES, rng=torch.Generator().manual_seed(20))
        for name, predictor in predictors.items()
    }
    return bw.figures.entropy_by_position(scores)


def numbers(drawn: bw.figures.Plot) -> dict[str, list[float]]:
    """The plotted curves, to three places."""
    return {
        name: [round(float(value), 3) for value in values]
        for name, values in drawn.data.items()
        if getattr(values, "ndim", 0) == 1
    }


def svg(drawn: bw.figures.Plot) -> str:
    """The figure as SVG, with its words as title and its numbers as metadata."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "bayeswind", "svg.fonttype": "path"}):
        drawn.figure.savefig(buffer, format="svg", metadata={"Date": None}, facecolor="white")
    words = drawn.alt.replace("&", "&amp;").replace("<", "&lt;")
    note = json.dumps(numbers(drawn)).replace("--", "- -")
    head = f"<title>{words}</title>\n<!-- numbers {note} -->\n"
    return re.sub(r"(<svg [^>]*>\n)", lambda m: m[1] + head, buffer.getvalue(), count=1, flags=re.S)


def held(text: str) -> dict[str, list[float]]:
    """The numbers that a picture file holds."""
    return json.loads(re.search(r"<!-- numbers (\{.*?\}) -->", text)[1])


def main(words: Sequence[str] = ()) -> int:
    """Draw and write it."""
    FILE.write_text(svg(plot()), "utf-8")
    print(f"wrote {FILE.name}, {FILE.stat().st_size / 1000:.0f} kB")
    return 0

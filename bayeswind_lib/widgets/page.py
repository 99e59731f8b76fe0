"""One HTML file from exported episodes: a tunnel of your own, its exact posterior, and the network live.

The file needs nothing else: no network connection, no folder beside it, no kernel. The network runs
in it with the engine of the book's pages; where its architecture is none of theirs, the exported
forecasts are shown instead.

Axes: B episodes, K scored positions, Y outcomes.
"""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path

import torch
from safetensors.torch import save as to_bytes

from bayeswind_lib import scoring
from bayeswind_lib.checkpoints.files import write_atomically
from bayeswind_lib.tunnels import Episodes

WEB = Path(__file__).resolve().parent / "web"
STYLES = ("explorer.css", "page.css")
SCRIPTS = ("explorer.js", "matmul.js", "network.js", "oracles.js", "page.js")
ENGINE = ("transformer", "mlp", "lstm", "mamba")  # what network.js runs
MOST_EPISODES, MOST_NUMBERS = 200, 200_000
DIGITS = 9
FIT = "new ResizeObserver(() => { this.style.height = this.contentDocument.documentElement.offsetHeight + 'px'; }).observe(this.contentDocument.body)"
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:"


def page(model: scoring.Predictor, episodes: Episodes, path: str | Path, title: str = "", note: str = "") -> Path:
    """Write a page that shows some episodes, the exact posterior and what a network makes of them.

    Args:
        model: a network, or anything with `predict`; one of the book's architectures runs in the page.
        episodes: at most 200, of any tunnel.
        path: of the file, ending in .html; one that is there is replaced.
        title, note: the page's heading, and a sentence under it.
    Returns:
        the path.
    Raises:
        ValueError: for what cannot be shown; the message says what to do.
    """
    path = Path(path)
    if path.suffix != ".html":
        raise ValueError(f"{path}: name a file that ends in .html")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent}: no such folder; make it first")
    content = render(model, episodes, title, note)
    write_atomically(path, content.encode())
    return path


def render(model, episodes: Episodes, title: str = "", note: str = "") -> str:
    """The text of the page that `page` writes."""
    shown = exported(model, episodes)
    record = getattr(model, "record", None) or {}
    title = title or f"{record.get('name', 'A network')} in a wind tunnel"
    note = note or f"{len(episodes)} episodes: what was read, the exact posterior, and the network's forecast."
    data = json.dumps(shown, allow_nan=False).replace("<", "\\u003c")
    read = {name: (WEB / name).read_text("utf-8") for name in (*STYLES, *SCRIPTS)}
    styles = "\n".join(read[name] for name in STYLES)
    scripts = "\n".join(f"<script>\n{read[name]}</script>" for name in SCRIPTS)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{html.escape(title)}</title>
<style>
{styles}
</style>
</head>
<body>
<main aria-label="Exported episodes">
<h1>{html.escape(title)}</h1>
<p>{html.escape(note)}</p>
<div class="bw-explorer" data-explorer="page">This page needs JavaScript to show its episodes.</div>
</main>
<script type="application/json" id="bw-data">{data}</script>
<script type="text/plain" id="bw-weights">{base64.b64encode(weights_file(model)).decode()}</script>
{scripts}
</body>
</html>
"""


@torch.no_grad()
def exported(model, episodes: Episodes) -> dict:
    """What the page shows, JSON types: sizes, and of each episode inputs, targets, exact posterior, forecast, KL.

    Raises:
        ValueError: if these are no episodes, none, too many, or not those of the model.
    """
    _refuse(model, episodes)
    forecast = model.predict(episodes.inputs).double()
    if forecast.shape != episodes.posterior.shape:
        raise ValueError(
            f"the network's forecast has shape {tuple(forecast.shape)}, the posterior {tuple(episodes.posterior.shape)}: "
            "these are episodes of another tunnel, or of another size"
        )
    kl = scoring.measure(forecast, episodes)["kl"]
    said = forecast.exp2() if episodes.outcome == "categorical" else forecast
    config, K = getattr(model, "config", None), episodes.posterior.shape[1]
    scored = list(model.scored_positions(episodes.inputs.shape[1])) if hasattr(model, "scored_positions") else list(range(K))
    return {
        "interface": {
            "scored": [int(t) for t in scored], "outcome": episodes.outcome, "n_outputs": episodes.posterior.shape[-1],
            "first_output_token": getattr(config, "first_output_token", None),
        },
        "episodes": [
            {
                "inputs": _plain(one.inputs[0]), "targets": _plain(one.targets[0]), "exact": _plain(one.posterior[0]),
                "network": _plain(said[b]), "kl": _plain(kl[b]),
            }
            for b, one in ((b, episodes[b : b + 1]) for b in range(len(episodes)))
        ],
    }


def _refuse(model, episodes) -> None:
    if not isinstance(episodes, Episodes):
        raise ValueError(f"episodes are {type(episodes).__name__}: hand over what tunnel.sample(...) returns")
    if not hasattr(model, "predict"):
        raise ValueError(f"{type(model).__name__} has no predict: hand over a network or a reference predictor")
    if not 1 <= len(episodes) <= MOST_EPISODES:
        raise ValueError(f"{len(episodes)} episodes: a page shows 1 to {MOST_EPISODES}; take some, episodes[:20]")
    numbers = episodes.inputs.numel() + 2 * episodes.posterior.numel()
    if numbers > MOST_NUMBERS:
        raise ValueError(f"{numbers} numbers: a page holds at most {MOST_NUMBERS}; take fewer episodes")
    sizes, inputs = getattr(model, "config", None), episodes.inputs
    tokens = not inputs.is_floating_point()
    if sizes is not None and hasattr(sizes, "n_tokens") and (
        tokens != bool(sizes.n_tokens) or (int(inputs.max()) >= sizes.n_tokens if tokens else inputs.shape[-1] != sizes.n_features)
    ):
        raise ValueError("the network cannot read these inputs: these are episodes of another tunnel, or of another size")


def _plain(tensor: torch.Tensor) -> list:
    """Nested lists; floats with nine significant digits, infinity as the largest number there is."""
    if tensor.is_floating_point():
        flat = [float(f"{v:.{DIGITS}g}") for v in torch.nan_to_num(tensor.double()).flatten().tolist()]
        return _nested(flat, list(tensor.shape))
    return tensor.tolist()


def _nested(flat: list, shape: list[int]) -> list:
    for size in reversed(shape[1:]):
        flat = [flat[i : i + size] for i in range(0, len(flat), size)]
    return flat


def weights_file(model) -> bytes:
    """The network as a .safetensors file, if a page can run it; else nothing."""
    if getattr(model, "architecture", None) not in ENGINE:
        return b""
    note = {"architecture": model.architecture, "config": model.config.to_dict()}
    tensors = {name: tensor.detach().float().cpu().contiguous() for name, tensor in model.state_dict().items()}
    return to_bytes(tensors, {"note": json.dumps(note)})


class Framed:
    """A written page, shown inside a notebook or a book's page: the same file in a frame of its own,
    as high as what stands in it.

    Args:
        path: what `page` returned.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Framed({str(self.path)!r})"

    def _repr_html_(self) -> str:
        text = self.path.read_text("utf-8")
        title = html.unescape(text.split("<title>")[1].split("</title>")[0])
        style = "width: 100%; height: 1180px; border: 0"
        return f'<iframe title="{html.escape(title)}" style="{style}" onload="{html.escape(FIT)}" srcdoc="{html.escape(text)}"></iframe>'

"""The explorers of the book's pages in a running notebook: the same scripts, `web/NAME_explorer.js`.

Their controls choose what is seen. Those of a network run it in the page, with weights from this kernel.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping

from bayeswind_lib.models.base import SequenceModel
from bayeswind_lib.scoring import Predictor
from bayeswind_lib.widgets import notebook
from bayeswind_lib.widgets.filtering import SEEDS, answer_table
from bayeswind_lib.widgets.notebook import WEB, Widget
from bayeswind_lib.widgets.page import weights_file

OF_NETWORKS = ("machine", "training")


def scripts(name: str) -> list[str]:
    """Names of the files in `web` that an explorer runs, in the order in which they are loaded."""
    engine = json.loads((WEB / "engine.json").read_text("utf-8")) if name in OF_NETWORKS else []
    return ["explorer.js", *engine, *more_scripts(name), f"{name}_explorer.js"]


def more_scripts(name: str) -> list[str]:
    """Names of the files in `web` that an explorer needs beside the engine, as NAME_explorer.json lists them."""
    listed = WEB / f"{name}_explorer.json"
    return json.loads(listed.read_text("utf-8")) if listed.is_file() else []


def _mounted(name: str, **more) -> Widget:
    return notebook.mounted(name, scripts(name), ("explorer.css", f"{name}_explorer.css"), **more)


def _readable(model: SequenceModel | None, architectures: tuple[str, ...] = ("transformer", "lstm", "mamba")) -> bytes | None:
    """The weights of a reader's own network, as they are now; None without one.

    Raises:
        ValueError: if it is of another architecture, or not for a bijection of which all pairs are asked.
    """
    if model is None:
        return None
    config = getattr(model, "config", None)
    V = getattr(config, "n_outputs", 0)
    if getattr(model, "architecture", None) not in architectures or (config.n_tokens, config.scored) != (2 * V, tuple(range(0, 2 * V, 2))):
        raise ValueError(
            f"{type(model).__name__} cannot be shown: this explorer opens a {' or '.join(architectures)} for the tunnel Bijection(n_values) with all of "
            "its pairs; for another network write a page, bw.widgets.page(model, episodes, path)"
        )
    return weights_file(model)


def _without_arguments(make: Callable[[], Widget]) -> Callable[[], Widget]:
    """The function, which says what to do instead if it gets the arguments that it had in version 0.1."""

    @functools.wraps(make)
    def checked(*given, **named):
        if given or named:
            raise TypeError(
                f"{make.__name__}() takes no arguments: it shows the explorer of the book's page, whose controls choose what "
                "is seen. For a network or episodes of your own write a page: bw.widgets.page(model, episodes, path)"
            )
        return make()

    return checked


@_without_arguments
def bijection_explorer() -> Widget:
    """Reveal a hidden bijection pair by pair, and watch the exact posterior and its entropy.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("bijection")


def hmm_explorer(
    model: Predictor | Mapping[str, Predictor] | None = None, seed: int = 1, label: str = "network", says: str = "beliefs",
    chain: str = "fast", opens: int = 5,
) -> Widget:
    """See the symbols of a hidden chain one by one: exact answers beside predictors that remember less.

    Args:
        model: a network for `HMM(3, 3)` with header "rows" (anything with `predict`) that joins the predictors, on
            chains 1 to 8 and as long as the symbols are nature's; or one for each kind of chain, by "fast" and "slow";
            None shows them alone.
        seed: of the chain at the start.
        label: what the network is called.
        says: "beliefs" about the state, or "forecasts" of the next symbol; of these a slow chain is shown at first.
        chain, opens: a "fast" or "slow" chain, and how many symbols are seen at first, where beliefs are shown.
    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    table = {"label": label, "table": answer_table(model), "says": says} if model is not None else None
    data = {"seed": seed, "chain": chain, "opens": opens}
    if says == "forecasts":
        data |= {"shows": says, "chain": "slow", "opens": 7, "predictors": "window network", "chains": max(SEEDS)}
    return _mounted("hmm", data=data, table=table)


@_without_arguments
def regression_explorer() -> Widget:
    """Add points around a hidden line, and watch the exact belief about it and what it predicts.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("regression")


@_without_arguments
def coin_explorer() -> Widget:
    """Toss a coin out of a bag, drag the prior, and see the exact prediction beside one that is wrong.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("coin")


@_without_arguments
def em_explorer() -> Widget:
    """Drag the values of one head, and compare an E-step on its weights with attention's own step.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("em")


@_without_arguments
def sources_explorer() -> Widget:
    """Read the symbols of one of six known hidden chains: which of them speaks, and what comes next?

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("sources")


def threshold_explorer(record: str = "diagnostics") -> Widget:
    """Drag a threshold through measured numbers: does it tell two groups apart?

    Args:
        record: "diagnostics" of language models and of this book's networks, or "sula", correlations layer by layer.
    Raises:
        ValueError: for another record.
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    if record not in ("diagnostics", "sula"):
        raise ValueError(f"record is {record!r}: there are 'diagnostics' and 'sula'")
    return _mounted("threshold", data={"record": record})


@_without_arguments
def ladder_explorer() -> Widget:
    """Choose what a position may see of a bijection episode, and read what that allows at best.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("ladder")


@_without_arguments
def hazard_explorer() -> Widget:
    """The exact log odds of a chain with two states, beside an integrator that leaks.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("hazard")


def machine(
    model: SequenceModel | None = None, task: str = "bijection", net: str = "transformer", pairs: int = 5, off: Iterable[str] = (),
    flow: str = "attention", seed: int = 3, focus: str = "", way: str = "zero", map: bool = False, ways: bool = False,
) -> Widget:
    """A network drawn whole beside the exact posterior: tokens, heads, stream and answer; cut its wires, and see what flows.

    Args:
        model: a transformer, LSTM or Mamba for `Bijection(n_values)` with all of its pairs, shown as it is now; without it, a
            shipped network for `task` ("bijection", "returning" or "hmm") with the architecture `net`.
        pairs: pairs (or symbols) seen at the start, of the episode number `seed`.
        off: parts that are cut at the start: heads "0.3", feed-forward parts "1.m", layers "1", tokens "t4" that a state skips.
        flow: what is drawn: "attention" (of an LSTM or a Mamba the state), "contribution" or "belief".
        focus: a head that is brought forward, such as "0.3".
        way: what a head hands on that is cut: "zero", its "mean", or what it is plus "noise".
        map: the attention of one head beside the drawing.
        ways: a choice of `way`, and what the cuts cost over all questions of the episode. With either of them a reader chooses the pairs.
    Raises:
        ValueError: for a network that is none of these.
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    state = {"task": task, "net": net, "pairs": pairs, "off": ",".join(off), "flow": flow, "seed": seed, "focus": focus, "way": way}
    state |= {name: "" for name, shown in (("map", map), ("ways", ways)) if shown}
    return _mounted("machine", data=state, weights=_readable(model))


@_without_arguments
def training_explorer() -> Widget:
    """Scrub through a shipped training run, and watch a head's attention and the network's answer settle.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("training")


@_without_arguments
def three_keys_explorer() -> Widget:
    """One query, three keys, values in a plane, and a step of gradient descent.

    Raises:
        ModuleNotFoundError: if anywidget is not installed; the message says what to do.
    """
    return _mounted("threekeys")

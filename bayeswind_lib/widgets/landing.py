"""What stands on the landing page before any script has arrived: the game's first state, and the story's pictures.

`web/landing.js` takes the game over where it stands, and draws the story's pictures anew at the width
of the page. Without it they stay, and the page can be read. The page's claims are `ledger/pictures.py`.

Axes: K questions (scored positions), V values, S states.
"""

from __future__ import annotations

import html
import json

import numpy as np
import torch

from bayeswind_lib import checkpoints, probes
from bayeswind_lib.figures.strokes import drawn, word
from bayeswind_lib.scoring import entropy_bits
from bayeswind_lib.tunnels import HMM, Bijection
from bayeswind_lib.widgets import poster
from bayeswind_lib.widgets.hmm import draw_chain

NETWORK = "bijection-transformer-classroom-small"  # the game's, as in landing.js
SEED, SHOWN = 9, 4  # of the first game; landing.js begins with the same
FLOOR = 0.001  # what a bet of nothing on a value that is still possible counts as
CHAIN, CHAIN_SEED, KAPPA, LEAST = "hmm-transformer-classroom", 33, 20, 5
WIDTH, HEIGHT = 520, 340  # of a picture of the story
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 12, 44, HEIGHT - 44


# ---- the game -----------------------------------------------------------------------------------


class Game:
    """The bijection game as it opens: some pairs shown, a key asked, an even bet.

    Args:
        seed: of the hidden map and the order of keys, drawn as the playground draws them.
        shown: pairs that are shown at the beginning, 1..V-1.
    """

    def __init__(self, seed: int = SEED, shown: int = SHOWN):
        self.now, self.seed = poster.example(seed, shown, NETWORK), seed

    def _repr_html_(self) -> str:
        V, shown = len(self.now.keys), self.now.shown
        pairs = dict(zip(self.now.keys[:shown], self.now.values[:shown], strict=True))
        bets = "".join(_bet(value, 1 / V, value in pairs.values()) for value in range(V))
        keys = "".join(_key(key, key in pairs, key == self.now.key) for key in range(V))
        return (
            f'<div class="bw-game" data-seed="{self.seed}" data-shown="{shown}" data-floor="{FLOOR}">'
            f'<div class="bw-ask"><p class="bw-question">Which value follows key <b>{self.now.key}</b>?</p>'
            '<button type="button" class="bw-go" disabled>Reveal</button></div>'
            f'<div class="bw-board"><ol class="bw-keys" aria-hidden="true">{keys}</ol>{_threads(self.now, pairs)}'
            f'<div class="bw-bets">{bets}</div></div>'
            f'<div class="bw-result"><p class="bw-say" role="status">{OPENING}</p>{SCORES}</div>'
            f'<div class="bw-foot"><span class="bw-progress">{_dots(shown, V)}</span>'
            '<button type="button" class="bw-even" disabled>Even bet</button>'
            '<button type="button" class="bw-new" disabled>New game</button></div></div>'
        )


OPENING = "Drag the bars: how likely is each value? Then press Reveal."
WHO = {"you": "you", "network": "network", "exact": "best bet"}
SCORES = '<dl class="bw-scores" hidden>' + "".join(
    f'<div class="bw-{who}"><dt>{words}</dt><dd><b data-now="{who}"></b><span data-mean="{who}"></span></dd></div>'
    for who, words in WHO.items()
) + "</dl>"  # fmt: skip


def _key(key: int, shown: bool, asked: bool) -> str:
    kind = "bw-asked" if asked else "bw-shown" if shown else ""
    return f'<li class="{kind}">{key}</li>'


def _bet(value: int, p: float, taken: bool) -> str:
    share = f"{100 * p:.0f}%"
    return (
        f'<div class="bw-bet{" bw-taken" if taken else ""}" data-value="{value}" style="--mine:{p:g}">'
        f'<span class="bw-value">{value}</span><span class="bw-track"><i class="bw-mine"></i><i class="bw-net"></i>'
        f'<i class="bw-truth"></i></span><span class="bw-share">{share}</span></div>'
    )


def thread(key: int, value: int) -> str:
    """The path of a thread from a key to a value, in a drawing 100 wide and one high for each of them."""
    a, b = key + 0.5, value + 0.5
    return f"M0 {a:g}C45 {a:g} 55 {b:g} 100 {b:g}"


def _threads(now: poster.Example, pairs: dict[int, int]) -> str:
    V = len(now.keys)
    told = ", ".join(f"key {k} goes to value {v}" for k, v in pairs.items())
    words = f"Shown so far: {told}. Asked now: key {now.key}."
    open_ends = "".join(
        f'<path class="bw-maybe" style="--p:{1 / V:g}" d="{thread(now.key, v)}"/>' for v in range(V)
    )
    known = "".join(f'<path class="bw-known" d="{thread(k, v)}"/>' for k, v in pairs.items())
    return (
        f'<svg class="bw-threads" viewBox="0 0 100 {V}" preserveAspectRatio="none" role="img" '
        f'aria-label="{words}">{open_ends}{known}</svg>'
    )


def _dots(shown: int, V: int) -> str:
    kinds = ["bw-done" if k < shown else "bw-here" if k == shown else "" for k in range(V)]
    dots = "".join(f'<i class="{kind}"></i>' for kind in kinds)
    return f'<span class="bw-dots" aria-hidden="true">{dots}</span><span class="bw-count">{shown} of {V} pairs shown</span>'


# ---- the story ----------------------------------------------------------------------------------


class Story:
    """The pictures that the reader scrolls past: the staircase, and the belief about a hidden chain."""

    def _repr_html_(self) -> str:
        chain = draw_chain(CHAIN_SEED, KAPPA, LEAST)
        kept = {name: chain[name] for name in ("transition", "emission", "states", "symbols")}
        return (
            f'<div class="bw-scenes" data-chain="{html.escape(json.dumps(kept))}">'
            f'<figure data-scene="stairs">{drawn(*stairs(), WIDTH, HEIGHT)}</figure>'
            f'<figure data-scene="chain">{drawn(*belief(chain), WIDTH, HEIGHT)}</figure></div>'
        )


def without_attention(keys: list[int], values: list[int]) -> np.ndarray:
    """Entropy at every question, bits, float64 (K,), of the game's network with all heads taken out."""
    network = checkpoints.load(NETWORK)
    episode = Bijection(len(keys)).episodes(torch.tensor([keys]), torch.tensor([values]))
    with probes.ablate(network, probes.parts(network, "head")):
        said = network.predict(episode.inputs)[0].double()
    return entropy_bits(said).numpy() + 0.0


def stairs() -> tuple[str, list[str]]:
    """Words and parts of the staircase: exact, the network, and the network without attention."""
    now = poster.example(SEED, SHOWN, NETWORK)
    exact, said = now.entropies().values()
    off = without_attention(now.keys, now.values)
    assert off.min() > 2 and np.abs(exact - said).max() < 0.2
    top, n = 4.0, len(exact)
    step = (RIGHT - LEFT) / n

    def line(curve: np.ndarray) -> str:
        return "".join(
            f"{'L' if k else 'M'}{LEFT + k * step:.1f} {_y(bits / top):.1f}H{LEFT + (k + 1) * step:.1f}"
            for k, bits in enumerate(curve)
        )

    parts = [_tick(t, top, f"{t}") for t in range(5)]
    parts += [f'<path class="bw-s-off" d="{line(off)}"/>', f'<path class="bw-s-net" d="{line(said)}"/>']
    parts += [f'<path class="bw-s-exact" d="{line(exact)}"/>']
    parts += [word(LEFT + (k + 0.5) * step, BOTTOM + 18, str(k)) for k in range(n)]
    parts += [word(LEFT - 36, 16, "uncertainty (bits)", "start"), word((LEFT + RIGHT) / 2, HEIGHT - 6, "pairs shown")]
    parts += [word(RIGHT, _y(off.max() / top) - 10, "attention off", "end"), word(LEFT + 5.6 * step, _y(exact[5] / top) - 8, "exact and network", "start")]
    words = ", ".join(f"{bits:.2f}" for bits in exact)
    return (
        f"Uncertainty in bits before each of {n} pairs. Exact: {words}. The network's differs by at most "
        f"{np.abs(exact - said).max():.2f} bits; with its attention off it stays between {off.min():.2f} and {off.max():.2f}."
    ), parts


def filtered(chain: dict) -> tuple[np.ndarray, np.ndarray]:
    """Exact belief about the hidden state after each symbol, and the network's: float64 (K, S) each."""
    T, E = (torch.tensor([chain[name]], dtype=torch.float64) / 100 for name in ("transition", "emission"))
    symbols = torch.tensor([chain["symbols"]])
    episode = HMM(T.shape[-1], E.shape[-1]).episodes(T, E, torch.zeros_like(symbols), symbols)
    return episode.posterior[0].numpy(), checkpoints.load(CHAIN).predict(episode.inputs)[0].double().exp2().numpy()


def belief(chain: dict) -> tuple[str, list[str]]:
    """Words and parts of the belief about each hidden state, a strip each: exact dashed, network solid."""
    exact, said = filtered(chain)
    parts, n = [], len(exact)
    step, high = (RIGHT - LEFT) / n, (BOTTOM - TOP) / 3
    for s in range(exact.shape[1]):
        floor = TOP + (s + 1) * high
        for kind, curve in (("bw-s-net", said[:, s]), ("bw-s-exact", exact[:, s])):
            path = "".join(
                f"{'L' if k else 'M'}{LEFT + k * step:.1f} {floor - 0.82 * high * p:.1f}H{LEFT + (k + 1) * step:.1f}"
                for k, p in enumerate(curve)
            )
            parts.append(f'<path class="{kind}" d="{path}"/>')
        parts.append(f'<path class="bw-s-grid" d="M{LEFT} {floor:.1f}H{RIGHT}"/>')
        parts.append(word(LEFT - 8, floor - 0.35 * high, "ABC"[s], "end"))
    parts += [word(LEFT + (k + 0.5) * step, BOTTOM + 18, "abc"[y]) for k, y in enumerate(chain["symbols"])]
    parts += [word(LEFT - 36, 16, "belief in each hidden state", "start"), word((LEFT + RIGHT) / 2, HEIGHT - 6, "signs seen")]
    words = (
        f"Belief in three hidden states over {n} signs: the network's differs from the exact one by at most "
        f"{np.abs(exact - said).max():.2f}."
    )
    return words, parts


def _y(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)


def _tick(value: float, top: float, words: str) -> str:
    y = _y(value / top)
    return f'<path class="bw-s-grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>' + word(LEFT - 8, y + 4, words, "end")

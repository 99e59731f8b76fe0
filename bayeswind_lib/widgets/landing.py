"""What stands on the landing page before any script has arrived: the game's first state, and pictures.

`web/landing.js` takes the game over where it stands, and draws the story's pictures anew at the width
of the page. Without it they stay, and the page can be read. Nothing here is measured: networks that ship
are asked, and numbers of claims come from the ledger.

Axes: K questions (scored positions), V values, S states.
"""

from __future__ import annotations

import html
import json
import math

import numpy as np
import torch

from bayeswind_lib import checkpoints, probes
from bayeswind_lib.ledger import counts, row
from bayeswind_lib.scoring import entropy_bits
from bayeswind_lib.tunnels import HMM, Bijection
from bayeswind_lib.widgets import poster
from bayeswind_lib.widgets.hmm import draw_chain

SEED, SHOWN = 9, 4  # of the first game; landing.js begins with the same
FLOOR = 0.001  # what a bet of nothing on a value that is still possible counts as
CHAIN, CHAIN_SEED, KAPPA, LEAST = "hmm-transformer-classroom", 33, 20, 5
WIDTH, HEIGHT = 520, 340  # of a picture of the story
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 12, 44, HEIGHT - 44
HELD = {"reproduced": "held up", "partly": "held in part", "not reproduced": "did not hold"}


# ---- the game -----------------------------------------------------------------------------------


class Game:
    """The bijection game as it opens: some pairs shown, a key asked, an even bet.

    Args:
        seed: of the hidden map and the order of keys, drawn as the playground draws them.
        shown: pairs that are shown at the beginning, 1..V-1.
    """

    def __init__(self, seed: int = SEED, shown: int = SHOWN):
        self.now, self.seed = poster.example(seed, shown), seed

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
            f'<figure data-scene="stairs">{_drawn(*stairs())}</figure>'
            f'<figure data-scene="chain">{_drawn(*belief(chain))}</figure></div>'
        )


def without_attention(keys: list[int], values: list[int]) -> np.ndarray:
    """Entropy at every question, bits, float64 (K,), of the game's network with all heads taken out."""
    network = checkpoints.load(poster.NETWORK)
    episode = Bijection(len(keys)).episodes(torch.tensor([keys]), torch.tensor([values]))
    with probes.ablate(network, probes.parts(network, "head")):
        said = network.predict(episode.inputs)[0].double()
    return entropy_bits(said).numpy() + 0.0


def stairs() -> tuple[str, list[str]]:
    """Words and parts of the staircase: exact, the network, and the network without attention."""
    now = poster.example(SEED, SHOWN)
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
    parts += [_word(LEFT + (k + 0.5) * step, BOTTOM + 18, str(k)) for k in range(n)]
    parts += [_word(LEFT - 36, 16, "uncertainty (bits)", "start"), _word((LEFT + RIGHT) / 2, HEIGHT - 6, "pairs shown")]
    parts += [_word(RIGHT, _y(off.max() / top) - 10, "attention off", "end"), _word(LEFT + 5.6 * step, _y(exact[5] / top) - 8, "exact and network", "start")]
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
        parts.append(_word(LEFT - 8, floor - 0.35 * high, "ABC"[s], "end"))
    parts += [_word(LEFT + (k + 0.5) * step, BOTTOM + 18, "abc"[y]) for k, y in enumerate(chain["symbols"])]
    parts += [_word(LEFT - 36, 16, "belief in each hidden state", "start"), _word((LEFT + RIGHT) / 2, HEIGHT - 6, "signs seen")]
    words = (
        f"Belief in three hidden states over {n} signs: the network's differs from the exact one by at most "
        f"{np.abs(exact - said).max():.2f}."
    )
    return words, parts


def _drawn(words: str, parts: list[str], width: int = WIDTH, height: int = HEIGHT) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{html.escape(words)}">{"".join(parts)}</svg>'


def _y(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)


def _word(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{html.escape(words)}</text>'


def _tick(value: float, top: float, words: str) -> str:
    y = _y(value / top)
    return f'<path class="bw-s-grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>' + _word(LEFT - 8, y + 4, words, "end")


# ---- what was claimed, and what held ----------------------------------------------------------------


class Claims:
    """Four published claims with their numbers, each a small picture, and how many there are of each status."""

    def _repr_html_(self) -> str:
        cards = "".join(map(str, (precise(), faster(), longer(), primitives())))
        return f'<div class="bw-claims">{cards}</div>{ledger_bar()}'


def card(claim: str, found: str, status: str, picture: str) -> str:
    """One claim: what was published, its picture, what was found here, and the ledger's status in words."""
    kind = status.replace(" ", "-")
    return (
        f'<section class="bw-claim bw-{kind}"><p class="bw-claimed"><span>Claim</span> {claim}</p>{picture}'
        f'<p class="bw-found"><b class="bw-verdict">{HELD[status]}</b> {found}</p></section>'
    )


SMALL, LOW = (232, 150), -3.3  # a claim's picture; where its logarithmic axes begin


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}"


def _along(value: float, start: float, length: float, high: float = 0.0) -> float:
    """Where a number lies on a logarithmic axis from 10^LOW to 10^high."""
    return start + length * (math.log10(value) - LOW) / (high - LOW)


def precise() -> str:
    """The transformer's entropy error on a logarithmic axis: published, measured, and a guess's."""
    claim = row("bijection-transformer-v1")
    entries = {"published": "bw-p-pub", "measured": "bw-p-here", "null": "bw-p-null"}
    names = {"published": "published", "measured": "here", "null": "a guess"}

    def x(value: float) -> float:
        return _along(value, 74, 148, 0.5)

    parts = [f'<path class="bw-s-grid" d="M{x(10**p):.1f} 14V124"/>' + _word(x(10**p), 142, f"{10**p:g}") for p in (-3, -2, -1, 0)]
    for i, (which, kind) in enumerate(entries.items()):
        y = 32 + 36 * i
        parts.append(f'<path class="bw-p-line" d="M74 {y}H{x(claim[which]):.1f}"/><circle class="{kind}" cx="{x(claim[which]):.1f}" cy="{y}" r="6"/>')
        parts.append(_word(66, y + 4, names[which], "end"))
    words = "Error in bits, on a logarithmic axis. " + ", ".join(f"{names[w]}: {_short(claim[w])}" for w in entries) + "."
    return card(
        "A small transformer finds almost exactly the right odds.",
        f"Its uncertainty is off by {_short(claim['measured'])} bits on average, a blind guess by {_short(claim['null'])}.",
        claim["status"], _drawn(words, parts, *SMALL),
    )


def faster() -> str:
    """Updates until a head has learned: plain and with faster values, published and measured."""
    plain, fast, times = row("em-plain-steps"), row("em-steps"), row("em-speed-up")
    assert plain["status"] == fast["status"] == times["status"] == "reproduced" != row("em-reading-values")["status"]
    most, parts = max(plain["published"], plain["measured"]), []
    for i, (name, entry) in enumerate((("plain", plain), ("faster", fast))):
        for j, (which, kind) in enumerate((("published", "bw-p-pub"), ("measured", "bw-p-here"))):
            y, long = 18 + 62 * i + 24 * j, 128 * entry[which] / most
            parts.append(f'<rect class="{kind}" x="52" y="{y}" width="{long:.1f}" height="18" rx="3"/>')
            parts.append(_word(52 + long + 6, y + 14, _short(entry[which]), "start"))
        parts.append(_word(44, 18 + 62 * i + 25, name, "end"))
    words = "Updates needed. " + "; ".join(
        f"{name}: published {_short(e['published'])}, here {_short(e['measured'])}" for name, e in (("plain", plain), ("faster", fast))
    )
    return card(
        f"An attention head learns {_short(times['published'])} times as fast when the rate of one part of it is ten times as high.",
        f"Measured here: {_short(times['measured'])} times. The reason given for it did not hold.",
        times["status"], _drawn(words + ".", parts, *SMALL),
    )


def longer() -> str:
    """The error at each step of a sequence longer than those of the training."""
    claim = row("hmm-no-discontinuity")
    names = {(1, 20): "hmm-k20-inside", (21, 21): "hmm-jump-k50-t21", (22, 24): "hmm-jump-k50-t22", (25, 25): "hmm-jump-k50-t25", (26, 50): "hmm-jump-k50-plateau"}
    errors = [(*steps, row(name)["measured"]) for steps, name in names.items()]
    inside, after = errors[0][2], errors[-1][2]

    def x(step: float) -> float:
        return 42 + step / 50 * 184

    def y(value: float) -> float:
        return 126 - _along(value, 0, 104)

    parts = [f'<path class="bw-s-grid" d="M42 {y(10**p):.1f}H226"/>' + _word(36, y(10**p) + 4, f"{10**p:g}", "end") for p in (-3, -2, -1)]
    path = "".join(f"{'L' if i else 'M'}{x(a - 1):.1f} {y(e):.1f}L{x(b):.1f} {y(e):.1f}" for i, (a, b, e) in enumerate(errors))
    parts += [
        f'<path class="bw-p-edge" d="M{x(20):.1f} 22V126"/>', f'<path class="bw-p-claim" d="M{x(0):.1f} {y(inside):.1f}H{x(50):.1f}"/>',
        f'<path class="bw-s-net" d="{path}"/>', _word(x(20), 14, "trained to here"), _word(x(50), y(inside) - 7, "claimed", "end"),
        _word(x(50), y(after) - 8, "here", "end"), _word((x(0) + x(50)) / 2, 144, "step"),
    ]  # fmt: skip
    words = f"Error in bits at each step: {_short(inside)} up to step 20, to which the network was trained; {_short(after)} from step 26 on."
    return card(
        "On sequences longer than those it was trained on, nothing happens.",
        f"One step beyond, the error is {_short(claim['measured'])} times as large.",
        claim["status"], _drawn(words, parts, *SMALL),
    )


def primitives() -> str:
    """How many of three abilities two rivals have: published and measured, as dots."""
    rivals, others = [("LSTM", row("primitives-lstm")), ("Mamba", row("primitives-mamba"))], row("primitives-others")
    assert others["measured"] == sum(entry["measured"] == 3 for _, entry in rivals) == len(rivals)
    parts = [_word(96, 28, "claimed"), _word(180, 28, "here")]
    for i, (name, entry) in enumerate(rivals):
        y = 62 + 44 * i
        parts.append(_word(56, y + 4, name, "end"))
        for which, left, kind in (("published", 72, "bw-p-pub"), ("measured", 156, "bw-p-here")):
            parts += [f'<circle class="{kind if k < entry[which] else "bw-p-none"}" cx="{left + 24 * k}" cy="{y}" r="8"/>' for k in range(3)]
    words = "Abilities, of three. " + "; ".join(f"{name}: claimed {_short(e['published'])}, here {_short(e['measured'])}" for name, e in rivals)
    return card(
        "Only a transformer can do all three: rule out, keep track, and look up.", "In small tasks, both rivals learned all three.",
        others["status"], _drawn(words + ".", parts, *SMALL),
    )


def ledger_bar() -> str:
    """All published numbers by status, as one bar with its legend."""
    found = {status: n for status, n in counts(kinds=("paper",)).items() if n}
    total = sum(found.values())
    bar = "".join(f'<i class="bw-{status.replace(" ", "-")}" style="flex:{n}"></i>' for status, n in found.items())
    legend = "".join(f'<li class="bw-{status.replace(" ", "-")}"><b>{n}</b> {html.escape(status)}</li>' for status, n in found.items())
    return (
        f'<div class="bw-tally"><p>All {total} numbers that the papers print, by what came of them here:</p>'
        f'<div class="bw-tally-bar" aria-hidden="true">{bar}</div><ul>{legend}</ul></div>'
    )

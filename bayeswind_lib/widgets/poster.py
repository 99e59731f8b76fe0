"""The playground's poster: one example, computed beforehand, as inline SVG and words.

It stands in the page itself, so it is on the screen before any weight or script has arrived; the
playground (`web/playground.js`) then starts from the same episode. Colours are those of
`web/explorer.css` and follow the page's theme. Nothing in it has an id, so a page may hold two.

Axes: K questions (scored positions), V values.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from bayeswind_lib import checkpoints, figures
from bayeswind_lib.scoring import entropy_bits, kl_bits
from bayeswind_lib.tunnels import Bijection
from bayeswind_lib.widgets.hmm import generator

NETWORK = "bijection-transformer-classroom"
SEED, SHOWN = 0, 5  # of the episode; the page starts from the same
EXACT, MODEL = "exact posterior", "network"
WIDTH, HEIGHT = 340, 214
LEFT, RIGHT, TOP, BOTTOM = 38, WIDTH - 8, 46, HEIGHT - 40
SIDE_BY_SIDE = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr));gap:0.6rem 1.2rem;margin:0.4rem 0 0.6rem"


@dataclass(frozen=True)
class Example:
    """An episode, the exact answer to its questions, and a network's.

    Attributes:
        keys, values: what is asked and what follows, K each.
        shown: how many pairs stand on the page; question number `shown` is asked.
        exact, network: float64 (K, V), probabilities.
    """

    keys: list[int]
    values: list[int]
    shown: int
    exact: np.ndarray
    network: np.ndarray

    @property
    def key(self) -> int:
        """The key that is asked for."""
        return self.keys[self.shown]

    def entropies(self) -> dict[str, np.ndarray]:
        """Entropy at every question, bits: float64 (K,) of both."""
        rows = {EXACT: self.exact, MODEL: self.network}
        return {name: _entropies(row) for name, row in rows.items()}

    def divergence(self) -> float:
        """KL(exact || network) at the question asked, bits."""
        truth, said = (torch.from_numpy(row[self.shown]) for row in (self.exact, self.network))
        return float(kl_bits(truth, said.log2()))

    def total_variation(self) -> float:
        """Half the absolute difference at the question asked, 0..1."""
        return float(np.abs(self.exact[self.shown] - self.network[self.shown]).sum() / 2)


def _entropies(rows: np.ndarray) -> np.ndarray:
    return figures.words.rounded(entropy_bits(torch.from_numpy(rows).log2()).numpy()) + 0.0  # no -0


def example(seed: int = SEED, shown: int = SHOWN, network: str = NETWORK) -> Example:
    """An episode of the bijection tunnel, and what a shipped network says to it.

    Args:
        seed: of the episode, which the playground draws from the same seed too.
        shown: pairs on the page, 1..V-1.
        network: its name.
    Raises:
        ValueError: if `shown` is none of these.
    """
    model = checkpoints.load(network)
    tunnel = Bijection(model.config.n_outputs)
    V = tunnel.n_values
    if not 1 <= shown < V:
        raise ValueError(f"shown is {shown}: show 1 to {V - 1} pairs")
    random = generator(seed)
    answers, keys = shuffled(V, random), shuffled(V, random)  # in this order, as the playground draws
    values = [answers[key] for key in keys]
    episode = tunnel.episodes(torch.tensor([keys]), torch.tensor([values]))
    said = model.predict(episode.inputs)[0].double().exp2()
    return Example(keys, values, shown, episode.posterior[0].numpy(), said.numpy())


def shuffled(n: int, random: Callable[[], float]) -> list[int]:
    """0..n-1 in an order that the same random numbers give in the page (Fisher-Yates, from the end)."""
    deck = list(range(n))
    for i in range(n - 1, 0, -1):
        j = int(random() * (i + 1))
        deck[i], deck[j] = deck[j], deck[i]
    return deck


def poster(seed: int = SEED, shown: int = SHOWN) -> str:
    """The example in HTML: what was shown and asked, two drawings, and what they say."""
    now = example(seed, shown)
    pairs = [f'<span style="white-space:nowrap">{k} → {v}</span>' for k, v in zip(now.keys[:shown], now.values, strict=False)]
    asked = (
        f"A hidden one-to-one map takes {len(now.keys)} keys to {len(now.keys)} values. Shown so far: "
        f"{', '.join(pairs)}. Which value does key {now.key} have?"
    )
    drawings = "".join(f'<div style="min-width:0">{drawn}</div>' for drawn in (bars(now), stairs(now)))
    return (
        f'<div class="bw-poster"><p>{asked}</p>'
        f'<div class="bw-poster-drawings" style="{SIDE_BY_SIDE}">{drawings}</div>'
        f"<p>{html.escape(description(now))}</p></div>"
    )


def description(now: Example) -> str:
    """What the drawings show at the question asked, in two sentences."""
    exact, said = (now.entropies()[name][now.shown] for name in (EXACT, MODEL))
    left = int((now.exact[now.shown] > 0).sum())
    return (
        f"{left} value{'s are' if left > 1 else ' is'} left, so the exact answer holds {exact:.3f} bits of entropy. The network was never "
        f"told that: it only saw which value came next, many times. Its answer holds {said:.3f} bits, and is "
        f"{figures.quantity(now.divergence())} (KL) from the exact one."
    )


# ---- drawings -----------------------------------------------------------------------------------


def bars(now: Example) -> str:
    """Probability of each value at the question asked: bars of the network, the exact ones outlined."""
    exact, said = now.exact[now.shown], now.network[now.shown]
    words = figures.distributions(exact, {MODEL: said}, title=f"The value of key {now.key}").alt
    top = _round_up(max(exact.max(), said.max()))
    step = (RIGHT - LEFT) / len(exact)
    parts = [_ticks([0, top / 2, top], top, "g"), _title(f"Probability of each value of key {now.key}")]
    for value in range(len(exact)):
        middle = LEFT + (value + 0.5) * step
        parts.append(_bar("bw-first", middle, 0.62 * step, said[value] / top))
        if exact[value]:
            parts.append(_bar("bw-exact", middle, 0.8 * step, exact[value] / top))
        parts.append(_text(middle, BOTTOM + 17, str(value)))
    parts.append(_text((LEFT + RIGHT) / 2, BOTTOM + 35, "value"))
    return _drawing(words, parts)


def stairs(now: Example) -> str:
    """Entropy at every question of the episode: the exact staircase dashed, below it the network's."""
    curves = now.entropies()
    words = figures.lines(curves, exact=EXACT, x_label="pairs shown before", title="Entropy at every question").alt
    top = math.ceil(max(curve.max() for curve in curves.values()))
    count = len(now.keys)
    step = (RIGHT - LEFT) / count
    exact, said = (
        "".join(
            f"{'L' if k else 'M'}{LEFT + k * step:.1f} {_height(bits / top):.1f}H{LEFT + (k + 1) * step:.1f}"
            for k, bits in enumerate(curve)
        )
        for curve in curves.values()
    )
    middle, asked = LEFT + (now.shown + 0.5) * step, _height(curves[EXACT][now.shown] / top)
    parts = [
        _ticks(range(0, top + 1, 1 if top < 5 else 2), top, "g"),
        _title("Entropy at every question, in bits"),
        f'<path d="{said}" fill="none" stroke="var(--bw-accent, currentColor)" stroke-opacity="0.75" stroke-width="5"/>',
        f'<path d="{exact}" class="bw-exact" {OUTLINE}/>',
        f'<circle cx="{middle:.1f}" cy="{asked:.1f}" r="9" fill="none" stroke="currentColor" stroke-width="1.8"/>',
        *(_text(LEFT + (k + 0.5) * step, BOTTOM + 17, str(k)) for k in range(count)),
        _text((LEFT + RIGHT) / 2, BOTTOM + 35, "pairs shown before (ring: now)"),
    ]
    return _drawing(words, parts)


OUTLINE = 'fill="none" stroke="currentColor" stroke-width="1.8" stroke-dasharray="5 2.5"'


def _drawing(words: str, parts: list[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    style = 'style="width:100%;height:auto" fill="currentColor" font-size="13"'
    return f'<svg {size} {style} role="img" aria-label="{html.escape(words)}">{"".join(parts)}</svg>'


def _height(share: float) -> float:
    return BOTTOM - share * (BOTTOM - TOP)


def _text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "") -> str:
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{html.escape(words)}</text>'


def _title(words: str) -> str:
    """What is drawn, and below it what is what."""
    legend = (
        f'<rect x="{LEFT}" y="24" width="14" height="10" class="bw-first"/>'
        + _text(LEFT + 19, 33, MODEL, "start")
        + f'<path d="M{LEFT + 90} 29.5h26" class="bw-exact" {OUTLINE}/>'
        + _text(LEFT + 121, 33, EXACT, "start")
    )
    return _text(2, 14, words, "start", "bw-title") + legend


def _ticks(ticks, top: float, form: str) -> str:
    lines = ""
    for tick in ticks:
        y = _height(tick / top)
        lines += f'<path d="M{LEFT} {y:.1f}H{RIGHT}" class="bw-grid" fill="none" stroke="currentColor" stroke-opacity="0.4"/>'
        lines += _text(LEFT - 6, y + 4, format(tick, form), "end")
    return lines


def _bar(kind: str, middle: float, width: float, share: float) -> str:
    top = _height(share)
    drawn = OUTLINE if kind == "bw-exact" else ""
    return (
        f'<rect x="{middle - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOTTOM - top:.1f}" '
        f'class="{kind}" {drawn}/>'
    )


def _round_up(height: float) -> float:
    """The next of 0.1, 0.2, 0.4, 0.6, ..., 1 that is at least `height`: half of it is a short number."""
    return next(top for top in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0) if height <= top + 1e-9)

"""Claims in pictures, for the landing page: what was published, what was found, and the ledger's status in words.

Each is an inline SVG in the page's colours (`widgets/web/landing.css`), with its numbers as alternative text.
Every number comes from a row of the ledger. Where scripts run, each picture can be asked something (`landing.js`, from `data-live`):
the page's own network is measured, updates and steps are gone through one by one, abilities are looked at one by one.
"""

from __future__ import annotations

import html
import json
import math

from bayeswind_lib.figures.strokes import drawn, word
from bayeswind_lib.ledger import counts, record, row

ABILITIES = {"accumulate": "rule out", "transport": "keep track", "bind": "look up"}
HELD = {"reproduced": "held up", "partly": "held in part", "not reproduced": "did not hold"}


class Claims:
    """Four published claims with their numbers, each a small picture, and how many there are of each status."""

    def _repr_html_(self) -> str:
        cards = "".join(map(str, (precise(), faster(), longer(), primitives())))
        return f'<div class="bw-claims">{cards}</div>{ledger_bar()}'


def card(claim: str, found: str, status: str, picture: str, live: dict) -> str:
    """One claim: what was published, its picture, what was found here, the ledger's status in words, and what scripts need."""
    kind = status.replace(" ", "-")
    return (
        f'<section class="bw-claim bw-{kind}" data-live="{html.escape(json.dumps(live))}"><p class="bw-claimed"><span>Claim</span> {claim}</p>{picture}'
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
    names = {"published": "published", "measured": "here", "null": "untrained"}
    assert claim["null_what"] == "the same network before training"
    divergence = record("networks")["networks"][claim["network"]]["0"]["scores"]["kl"]

    def x(value: float) -> float:
        return _along(value, 74, 148, 0.5)

    parts = [f'<path class="bw-s-grid" d="M{x(10**p):.1f} 14V124"/>' + word(x(10**p), 142, f"{10**p:g}") for p in (-3, -2, -1, 0)]
    for i, (which, kind) in enumerate(entries.items()):
        y = 28 + 27 * i
        parts.append(f'<path class="bw-p-line" d="M74 {y}H{x(claim[which]):.1f}"/><circle class="{kind}" cx="{x(claim[which]):.1f}" cy="{y}" r="6"/>')
        parts.append(word(66, y + 4, names[which], "end"))
    words = "Error in bits, on a logarithmic axis. " + ", ".join(f"{names[w]}: {_short(claim[w])}" for w in entries) + "."
    return card(
        "A small transformer finds almost exactly the right odds.",
        f"Its uncertainty is off by {_short(claim['measured'])} bits on average ({_short(claim['null'])} before training), and its odds lie {_short(divergence)} bits from the exact ones.",
        claim["status"], drawn(words, parts, *SMALL), {"kind": "measure", "zero": x(1), "decade": x(1) - x(0.1), "y": 109},
    )


def faster() -> str:
    """Updates until a head has learned: plain and with faster values, published and measured."""
    plain, fast, times = row("em-plain-steps"), row("em-steps"), row("em-speed-up")
    assert (fast["status"], times["status"]) == ("reproduced", "partly") and row("em-reading-values")["status"] == "not reproduced"
    assert "ten times the rate on every map" in times["null_what"] and times["null_low"] > times["measured"]  # the words below
    most, parts = max(plain["published"], plain["measured"]), []
    for i, (name, entry) in enumerate((("plain", plain), ("faster", fast))):
        for j, (which, kind) in enumerate((("published", "bw-p-pub"), ("measured", "bw-p-here"))):
            y, long = 18 + 62 * i + 24 * j, 128 * entry[which] / most
            parts.append(f'<rect class="{kind}" x="52" y="{y}" width="{long:.1f}" height="18" rx="3"/>')
            parts.append(word(52 + long + 6, y + 14, _short(entry[which]), "start"))
        parts.append(word(44, 18 + 62 * i + 25, name, "end"))
    words = "Updates needed. " + "; ".join(
        f"{name}: published {_short(e['published'])}, here {_short(e['measured'])}" for name, e in (("plain", plain), ("faster", fast))
    )
    return card(
        f"An attention head learns {_short(times['published'])} times as fast when its values have a learning rate ten times as high.",
        f"Here it needed {_short(fast['measured'])} updates: {_short(times['measured'])} times as fast if plain training is charged its full "
        f"{_short(plain['published'])}, as the authors do, and {_short(plain['measured'] / fast['measured'])} times if it is charged the "
        f"{_short(plain['measured'])} after which it had got as far. Ten times the rate everywhere is faster still: the authors' reason did not hold.",
        times["status"], drawn(words + ".", parts, *SMALL),
        {"kind": "updates", "most": most, "long": 128, "plain": plain["measured"], "faster": fast["measured"]},
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

    parts = [f'<path class="bw-s-grid" d="M42 {y(10**p):.1f}H226"/>' + word(36, y(10**p) + 4, f"{10**p:g}", "end") for p in (-3, -2, -1)]
    path = "".join(f"{'L' if i else 'M'}{x(a - 1):.1f} {y(e):.1f}L{x(b):.1f} {y(e):.1f}" for i, (a, b, e) in enumerate(errors))
    parts += [
        f'<path class="bw-p-edge" d="M{x(20):.1f} 22V126"/>', f'<path class="bw-p-claim" d="M{x(0):.1f} {y(inside):.1f}H{x(50):.1f}"/>',
        f'<path class="bw-s-net" d="{path}"/>', word(x(20), 14, "trained to here"), word(x(50), y(inside) - 7, "claimed", "end"),
        word(x(50), y(after) - 8, "here", "end"), word((x(0) + x(50)) / 2, 144, "step"),
    ]  # fmt: skip
    words = f"Error in bits at each step: {_short(inside)} up to step 20, to which the network was trained; {_short(after)} from step 26 on."
    return card(
        "On sequences longer than those it was trained on, the network goes on as before.",
        f"One step beyond them, the error of ours with learned positions is {_short(claim['measured'])} times as large.",
        claim["status"], drawn(words, parts, *SMALL),
        {"kind": "steps", "errors": [(a, b, error, round(y(error), 1)) for a, b, error in errors], "from": x(0), "to": x(50), "trained": 20},
    )


def primitives() -> str:
    """How many of three abilities two rivals have: published and measured, as dots."""
    seeds = record("primitives")["seeds"]
    rivals, others = [("LSTM", row("primitives-lstm")), ("Mamba", row("primitives-mamba"))], row("primitives-others")
    assert others["measured"] == sum(entry["measured"] == 3 for _, entry in rivals) == len(rivals)
    parts = [word(96, 28, "claimed"), word(180, 28, "here")]
    for i, (name, entry) in enumerate(rivals):
        y = 62 + 44 * i
        parts.append(word(56, y + 4, name, "end"))
        for which, left, kind in (("published", 72, "bw-p-pub"), ("measured", 156, "bw-p-here")):
            parts += [f'<circle class="{kind if k < entry[which] else "bw-p-none"}" cx="{left + 24 * k}" cy="{y}" r="8"/>' for k in range(3)]
    words = "Abilities, of three. " + "; ".join(f"{name}: claimed {_short(e['published'])}, here {_short(e['measured'])}" for name, e in rivals)
    return card(
        "Only a transformer can do all three: rule out, keep track, and look up.", "In small tasks two recurrent networks, an LSTM and a Mamba, learned all three as well, though not in every run.",
        others["status"], drawn(words + ".", parts, *SMALL),
        {"kind": "abilities", "rivals": {name: [seeds[key][task] for task in ABILITIES] for name, key in (("LSTM", "lstm"), ("Mamba", "mamba"))},
         "names": list(ABILITIES.values()), "x": 156, "y": 62},
    )


def ledger_bar() -> str:
    """All published numbers by status, as one bar with its legend."""
    found = {status: n for status, n in counts(kinds=("paper",)).items() if n}
    total = sum(found.values())
    bar = "".join(f'<i class="bw-{status.replace(" ", "-")}" style="flex:{n}"></i>' for status, n in found.items())
    legend = "".join(f'<li class="bw-{status.replace(" ", "-")}"><b>{n}</b> {html.escape(status.replace("needs", "need") if n > 1 else status)}</li>' for status, n in found.items())
    return (
        f'<div class="bw-tally"><p>The ledger lists {total} values that the papers printed. This is how they fared here:</p>'
        f'<div class="bw-tally-bar" aria-hidden="true">{bar}</div><ul>{legend}</ul></div>'
    )

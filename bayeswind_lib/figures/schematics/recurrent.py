"""What recurrent networks carry along: an LSTM's cell and Mamba's selective state."""

from __future__ import annotations

from bayeswind_lib.figures.schematics.drawing import Drawing
from bayeswind_lib.figures.schematics.sheet import Sheet, drawing

STATE, FORGET, WRITE, SHOW = "blue", "quiet", "orange", "green"


def lstm_state() -> Drawing:
    """An LSTM's cell over time: a forget gate multiplies it, an input gate adds to it, an output gate shows it."""

    def paint(s: Sheet) -> None:
        steps = s.pick(3, 2)
        start = s.left + s.pick(60, 44)
        step = (s.right - start - s.pick(10, 6)) / steps
        way, below, top = 96, 166, 34
        s.text((s.left + 2, way), "*c*_{0}", anchor="start")
        s.arrow((s.left + 28, way), (s.right, way), STATE, width=2.5)
        for n in range(steps):
            forget, write, show = (start + (n + share) * step for share in s.pick((0.1, 0.45, 0.78), (0.08, 0.5, 0.84)))
            t = n + 1
            for x, sign, words, colour in ((forget, "×", f"*f*_{{{t}}}", FORGET), (write, "+", f"*i*_{{{t}}} *g*_{{{t}}}", WRITE)):
                wide = 40 if sign == "×" else s.pick(60, 54)
                box = s.box(x - wide / 2, below - 16, wide, 32, words, colour)
                s.arrow((x, box.y - 2), (x, way + 14), colour)
                s.sign((x, way), sign)
            s.arrow((show, way - 3), (show, top + 19), SHOW)
            s.text((show, top + 4), f"*h*_{{{t}}}")
            s.note((show + 8, (way + top) / 2 + 10), f"*o*_{{{t}}}", "start")
            x = (forget + write) / 2
            s.text((x, below + 62), f"*x*_{{{t}}}, *h*_{{{n}}}")
            for to in (forget, write):
                s.arrow((x + (4 if to > x else -4), below + 50), (to, below + 20), "quiet")
        s.note((s.left, below + 90), s.pick("*f* keeps or forgets, *i* lets the new content *g* in, *o* decides what is shown", "*f* keeps or forgets, *i g* writes, *o* shows"), "start")

    alt = (
        "The cell of an LSTM runs along in time. At each step a forget gate multiplies it and an input gate adds new content; both are made of the "
        "current input and of what was shown before. An output gate decides what of the cell is shown as the hidden state h."
    )
    return drawing("An LSTM's cell over time", alt, paint)


def mamba_state() -> Drawing:
    """Mamba's state over time: each token decides how much of the past decays and how much of it is written."""
    steps = (1.6, 0.15, 1.8, 0.2)  # Δ of each token, at A = -1

    def shares() -> list[list[float]]:
        """What each token so far contributes to the state, after every token."""
        found: list[list[float]] = [[]]
        for delta in steps:
            keep = 2.718281828459045 ** (-delta)
            found.append([part * keep for part in found[-1]] + [1 - keep])
        return found[1:]

    def paint(s: Sheet) -> None:
        colours = ("blue", "sky", "orange", "green")
        step = (s.right - s.left - s.pick(40, 0)) / 4
        base, tall, wide = 152, 110, s.pick(60, 44)
        for n, parts in enumerate(shares()):
            x = s.left + s.pick(20, 0) + (n + 0.5) * step
            at = float(base)
            for part, colour in zip(parts, colours, strict=False):
                height = tall * part
                if height > 1:
                    s.line([(x - wide / 2, at), (x + wide / 2, at), (x + wide / 2, at - height), (x - wide / 2, at - height)], colour, 1.5, fill=colour, tint=0.4)
                at -= height
            s.box(x - 22, base + 58, 44, 32, f"*x*_{{{n + 1}}}", colours[n])
            s.arrow((x, base + 55), (x, base + 30), colours[n])
            s.text((x, base + 16), f"*h*_{{{n + 1}}}")
            s.note((x, base + 106), f"{'large' if steps[n] > 1 else 'small'} Δ")
            if n:
                s.arrow((x - step + wide / 2 + 4, base - 20), (x - wide / 2 - 4, base - 20), "quiet")
        s.note((s.left, 18), "the state, by the token that wrote it", "start")
        y = s.paragraph(base + 136, "Small Δ: keep the state, take little in.")
        s.paragraph(y, "Large Δ: forget, and write the token.")

    alt = (
        "The state after each of four tokens, as a bar divided by the token that wrote it. Tokens 1 and 3 have a large step: what was there decays "
        "and the token is written. Tokens 2 and 4 have a small step: the state stays nearly as it was and takes little in."
    )
    return drawing("A selective state", alt, paint)

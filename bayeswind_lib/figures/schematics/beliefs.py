"""What may be known, what is left, and in which coordinates: sets, intervals, bases."""

from __future__ import annotations

import math

from bayeswind_lib.figures.schematics.drawing import Drawing
from bayeswind_lib.figures.schematics.sheet import Point, Sheet, drawing

SEEN, KEY, ASKED = "orange", "blue", "green"


def coverage_staircase(n_values: int = 6) -> Drawing:
    """The entropy of the exact posterior, a staircase, over the values that are left after each pair.

    Args:
        n_values: V, how many values there are, 3 to 8.
    """

    def paint(s: Sheet) -> None:
        left = s.left + 26
        step = (s.right - left) / n_values
        base, tall = 150, 110
        stairs: list[Point] = []
        for k in range(n_values):
            bits = math.log2(n_values - k)
            x, y = left + k * step, base - tall * bits / math.log2(n_values)
            stairs += [(x, y), (x + step, y)]
            s.text((x + step / 2, y - 12), f"{bits:.2f}".rstrip("0").rstrip("."), 13)
            for v in range(n_values):
                side = min(15, step - 8)
                gone = v < k
                s.box(x + step / 2 - side / 2, base + 20 + v * (side + 3), side, side, colour="quiet" if gone else SEEN, filled=not gone)
                if gone:
                    c, m = (x + step / 2, base + 20 + v * (side + 3) + side / 2), side / 2 - 3
                    s.line([(c[0] - m, c[1] - m), (c[0] + m, c[1] + m)], "quiet", 1.5)
            s.text((x + step / 2, base + 34 + n_values * 18), str(k), 13)
        s.line(stairs, "ink", 2.0, dashed=True)
        s.line([(left, base), (s.right, base)], "quiet", 1.5)
        s.note((s.left, 12), "bits", "start")
        s.note((s.width / 2, base + 56 + n_values * 18), s.pick("pairs seen; below the line, the values that are still possible", "pairs seen, and values still possible"))

    alt = (
        f"A dashed staircase: the entropy of the exact posterior, log2({n_values} - k) bits after k pairs, from {math.log2(n_values):.2f} bits down to 0. Under each step "
        f"stand the {n_values} values as squares: one more is crossed out after every pair, and the entropy counts what is left."
    )
    return drawing("A value less at every step", alt, paint)


def coverage(n_values: int = 6, n_left: int = 3) -> Drawing:
    """Two predictors beside the values that are left: one whose set holds them all, and one that misses one.

    Args:
        n_values: how many values there are, at least `n_left` + 1.
        n_left: how many of them are still possible, 2 to 4.
    """
    large = f"entropy error = KL = log_{{2}}({n_left + 1}/{n_left}) = {math.log2((n_left + 1) / n_left):.2f} bits"
    cases = (
        ("the set holds every value left, and one more:", range(-1, n_left), large),
        ("the set is of the right size and misses one:", range(-1, n_left - 1), "entropy error = 0 bits, but KL = ∞"),
    )

    def paint(s: Sheet) -> None:
        side, gap, y = s.pick(34, 30), 10, 34.0
        first = s.left + 10
        for words, chosen, scores in cases:
            s.text((s.left, y - 14), words, s.pick(15, 13), "start")
            for v in range(n_values):
                x, free = first + v * (side + gap), v >= n_values - n_left
                s.box(x, y, side, side, colour=SEEN if free else "quiet", filled=free)
                if not free:
                    s.line([(x + 9, y + 9), (x + side - 9, y + side - 9)], "quiet", 1.5)
                if v - (n_values - n_left) in chosen:
                    s.line([(x, y + side + 9), (x + side, y + side + 9)], KEY, 4)
            row = (first + n_values * (side + gap) + 14, y + side / 2) if not s.narrow else (s.left, y + side + 30)
            s.text(row, scores, s.pick(14, 13), "start")
            y += side + s.pick(62, 82)
        s.note((s.left, y - s.pick(28, 12)), s.pick("crossed out: shown before; blue: what the predictor considers possible, all equally", "crossed out: shown before\nblue: what the predictor considers possible"), "start")

    alt = (
        f"Two rows of {n_values} values, of which {n_left} are still possible and the others crossed out. In the first row a predictor's set, marked blue, "
        f"holds all {n_left} and one crossed-out value: its entropy error and its KL divergence are both {math.log2((n_left + 1) / n_left):.2f} bits. In the second "
        f"the set has the right size and misses a possible value: its entropy error is 0 and its KL divergence infinite."
    )
    return drawing("What a predictor's set covers", alt, paint)


def change_of_basis(degrees: float = 50.0) -> Drawing:
    """A stream and its readout, rotated together: every coordinate changes, and the answer does not.

    Args:
        degrees: the angle of the rotation.
    """
    vectors = ((18.0, 0.95, KEY, "*h*"), (62.0, 0.7, SEEN, "*w*"))

    def paint(s: Sheet) -> None:
        reach = s.pick(84, 66)
        y = 134
        for x, turn, names in ((s.pick(170, 88), 0.0, ("*h*", "*w*")), (s.pick(470, 252), degrees, ("*Qh*", "*Qw*"))):
            for end in ((x + reach, y), (x, y - reach)):
                s.arrow((x - (end[0] - x) * 0.5, y - (end[1] - y) * 0.5), end, "quiet", width=1.5)
            for (angle, size, colour, _), name in zip(vectors, names, strict=True):
                a = math.radians(angle + turn)
                tip = (x + size * reach * math.cos(a), y - size * reach * math.sin(a))
                s.arrow((x, y), tip, colour, width=2.5)
                s.text((x + (size * reach + 16) * math.cos(a), y - (size * reach + 13) * math.sin(a)), name)
            arc = [math.radians(turn + 18 + 44 * n / 12) for n in range(13)]
            s.line([(x + 24 * math.cos(a), y - 24 * math.sin(a)) for a in arc], "ink", 1.5)
        arrow = s.pick(104, 34)
        s.arrow((s.width / 2 - s.pick(42, 20), arrow), (s.width / 2 + s.pick(42, 20), arrow))
        s.text((s.width / 2, arrow - 18), "*Q*")
        s.text((s.width / 2, y + reach * 0.5 + 34), s.pick("*w*^{T}*h*  =  (*Qw*)^{T}(*Qh*)", "*w*^{T}*h* = (*Qw*)^{T}(*Qh*)"), 16)
        s.note((s.width / 2, y + reach * 0.5 + 60), s.pick("other coordinates, the same answer: an axis of the stream means nothing", "other coordinates, the same answer"))

    alt = (
        "Left, axes with a vector h of the stream and a readout w. Right, both rotated by Q: their coordinates on the axes differ, and the angle between "
        "them is the same. So the product of w and h, which is the answer, is the same too, and the axes by themselves mean nothing."
    )
    return drawing("A change of basis", alt, paint)


def views_ladder(n_tokens: int = 8) -> Drawing:
    """What predictors may see, from nothing to everything: each view contains the one above it.

    Args:
        n_tokens: tokens so far, 5 to 8.
    """
    views = (("nothing", 0), ("the position", 0), ("+ the current token", 1), ("+ the last three", 3), ("+ everything before", n_tokens))

    def paint(s: Sheet) -> None:
        side, gap = s.pick(30, 26), s.pick(6, 5)
        x = s.right - s.pick(n_tokens * 36 + 20, n_tokens * 31 + 0)
        y = 20.0
        for name, seen in views:
            if s.narrow:
                s.text((s.left, y), name, anchor="start")
                y += 14
            else:
                s.text((s.left + 20, y + side / 2), name, anchor="start")
            for n in range(n_tokens):
                open_, last = n >= n_tokens - seen, n == n_tokens - 1
                words = str(n + 1) if last and name != "nothing" and not seen else ""
                s.box(x + n * (side + gap), y, side, side, words, (ASKED if last else SEEN) if open_ else "quiet", filled=open_, size=13)
            y += side + s.pick(14, 18)
        s.note((s.right - s.pick(20, 5), y + 4), s.pick("filled: seen by the predictor; last: the current token", "filled: seen; last: the current token"), "end")

    alt = (
        f"Five rows of {n_tokens} tokens, one for each view. The first sees nothing, the second only the number of the position, the third also the current "
        "token, the fourth the last three tokens, the fifth all of them. Each view contains the one above, so its best answer is at least as good."
    )
    return drawing("A ladder of views", alt, paint)


def gaussian_update(prior_sd: float = 1.0, noise: float = 0.6, observed: float = 1.5) -> Drawing:
    """A Gaussian belief before and after an observation: the mean moves by the gain times the surprise.

    Args:
        prior_sd: standard deviation of the belief before, around 0.
        noise: standard deviation of the observation.
        observed: what was observed.
    """
    gain = prior_sd**2 / (prior_sd**2 + noise**2)
    mean, sd = gain * observed, math.sqrt((1 - gain) * prior_sd**2)
    rows = ((0.0, prior_sd, KEY, False, "before"), (observed, noise, SEEN, False, "observed"), (mean, sd, "ink", True, "after"))

    def paint(s: Sheet) -> None:
        low, high = -2.6, observed + 2.2
        left = s.left + s.pick(90, 0)

        def place(value: float) -> float:
            return left + (value - low) / (high - low) * (s.right - left)

        base, tall = 130, 100
        at = [low + (high - low) * n / 90 for n in range(91)]
        for centre, spread, colour, dashed, _ in rows:
            curve = [(place(a), base - tall * sd / spread * math.exp(-0.5 * ((a - centre) / spread) ** 2)) for a in at]
            s.line(curve, colour, 2.0, dashed)
        s.line([(left, base), (s.right, base)], "quiet", 1.5)
        y = base + 30
        for centre, spread, colour, dashed, name in rows:
            s.line([(place(centre - 1.28 * spread), y), (place(centre + 1.28 * spread), y)], colour, 4 if not dashed else 2.5, dashed)
            s.circle((place(centre), y), 5, colour=colour, tint=1)
            s.text((s.left if not s.narrow else place(centre), y - s.pick(0, 17)), name, 14, "start" if not s.narrow else "middle")
            y += s.pick(30, 40)
        y -= s.pick(4, 14)
        s.arrow((place(0), y), (place(mean), y), "green", width=2)
        s.note((place(mean) + 8, y), "gain × surprise", "start")

    alt = (
        "Three Gaussian curves with their 80 % intervals. The belief before is wide, the observation to its right is narrower. The belief after, dashed, lies "
        "between them, nearer to the more precise one, and is narrower than both. Its mean has moved by the gain times the surprise."
    )
    return drawing("A Gaussian update", alt, paint)

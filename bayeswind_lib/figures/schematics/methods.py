"""How the book finds out: the wind tunnel, patching, and an analogy to be tested."""

from __future__ import annotations

from bayeswind_lib.figures.schematics.drawing import Drawing
from bayeswind_lib.figures.schematics.networks import Spine
from bayeswind_lib.figures.schematics.sheet import Sheet, drawing, on_rim

NETWORK, VALUE, ASKED = "blue", "orange", "green"


def wind_tunnel() -> Drawing:
    """The idea of a wind tunnel: a known truth makes episodes, and a network is compared with it in bits."""

    def paint(s: Sheet) -> None:
        if s.narrow:
            truth = s.box(90, 14, 160, 48, "the truth, drawn\nby a known rule")
            episode = s.box(90, 92, 160, 36, "an episode", VALUE)
            exact = s.box(s.left, 176, 144, 48, "exact posterior,\ncomputed", "ink", dashed=True, filled=False)
            network = s.box(s.right - 144, 176, 144, 48, "network,\ntrained", NETWORK)
            compare = s.box(90, 282, 160, 48, "difference\nin bits", ASKED)
            s.arrow(truth.bottom, (episode.top[0], episode.y - 3))
            for box, side in ((exact, -40), (network, 40)):
                s.bent([(170 + side, 130), (170 + side, 152), (box.top[0], 152), (box.top[0], box.y - 3)])
                s.bent([box.bottom, (box.bottom[0], 252), (170 + side, 252), (170 + side, compare.y - 3)])
            return
        truth = s.box(s.left, 74, 138, 52, "the truth, drawn\nby a known rule")
        episode = s.box(186, 80, 96, 40, "an episode", VALUE)
        exact = s.box(330, 24, 148, 52, "exact posterior,\ncomputed", "ink", dashed=True, filled=False)
        network = s.box(330, 124, 148, 52, "network,\ntrained", NETWORK)
        compare = s.box(526, 74, 102, 52, "difference\nin bits", ASKED)
        s.arrow(truth.right, (episode.x - 3, 100))
        for box, side in ((exact, -9), (network, 9)):
            s.bent([(283, 100 + side), (306, 100 + side), (306, box.left[1]), (box.x - 3, box.left[1])])
            s.bent([box.right, (502, box.right[1]), (502, 100 + side), (compare.x - 3, 100 + side)])

    alt = (
        "A known rule draws the truth, and the truth makes an episode. The episode goes two ways: Bayes' rule computes the exact posterior from it, and a trained "
        "network gives its own probabilities. The two answers are compared, and their difference is measured in bits."
    )
    return drawing("The idea of a wind tunnel", alt, paint)


def activation_patching(n_layers: int = 3) -> Drawing:
    """Two runs of one network; an activation of the first replaces that of the second.

    Args:
        n_layers: layers that are drawn, 2 or 3; the second one is patched.
    """

    def paint(s: Sheet) -> None:
        gap = s.pick(98, 62)
        names = ["input", *(f"layer {n}" for n in range(1, n_layers + 1)), "answer"]
        wide, high = s.pick(78, 92), 36
        for run, (colour, title) in enumerate(((NETWORK, "run A"), (VALUE, "run B"))):
            way = Spine(s, s.pick(58 + 102 * run, 86 + 168 * run))
            patched = False
            for n, words in enumerate(names):
                along = s.pick(118 + n * (gap + 17), 56 + n * gap)
                patched = patched or (run == 1 and n == 2)
                now = (NETWORK if n == 2 else ASKED if n == len(names) - 1 else VALUE) if patched else colour
                box = way.box(along, 0, wide, high, words if n < len(names) - 1 or run == 0 else "answer?", now)
                if n < len(names) - 1:
                    a, b = (box.bottom, (box.bottom[0], box.bottom[1] + gap - high - 3)) if s.narrow else (box.right, (box.right[0] + gap + 17 - wide - 3, box.right[1]))
                    s.arrow(a, b)
                if n == 2 and run == 0:
                    source = box
                if n == 2 and run == 1:
                    a, b = ((source.right[0] + 3, source.right[1]), (box.x - 3, box.left[1])) if s.narrow else ((source.bottom[0], source.bottom[1] + 3), (box.top[0], box.y - 3))
                    s.arrow(a, b, NETWORK, width=2.5)
                    s.note((a[0] + 12, (a[1] + b[1]) / 2) if not s.narrow else ((a[0] + b[0]) / 2, a[1] - 16), "carried over" if not s.narrow else "carried", "start" if not s.narrow else "middle")
            s.text((s.left, way.main) if not s.narrow else (way.main, 20), title, anchor="start" if not s.narrow else "middle")
        s.note((s.width / 2, s.pick(208, 56 + len(names) * gap - 20)), s.pick("if the answer follows run A, what was carried over matters there", "does the answer follow run A?"))

    alt = (
        "One network runs twice, on input A and on input B. The activation of layer 2 in run A is carried over to layer 2 of run B; all that comes after is computed "
        "from it. If the answer of run B then follows that of run A, what was carried over is used."
    )
    return drawing("Activation patching", alt, paint)


def em_and_attention() -> Drawing:
    """The two steps of EM, and what in the training of attention is compared with each."""
    points, sources = (0.0, 0.34, 0.66, 1.0), (0.2, 0.8)
    shares = ((0.9, 0.1), (0.75, 0.25), (0.25, 0.75), (0.1, 0.9))

    def paint(s: Sheet) -> None:
        panels = (("E-step", "who explains whom?", "responsibilities ρ_{ij}", "attention: the weights α_{ij}", True),
                  ("M-step", "move to what you explain", "means weighted by ρ_{ij}", "attention: *v*_{j} moves along −Σ α_{ij} *u*_{i}", False))  # fmt: skip
        for n, (name, question, em, attention, out) in enumerate(panels):
            x, y = (s.left, 8.0 + 262 * n) if s.narrow else (s.left + 318.0 * n, 8.0)
            s.text((x, y + 12), name, 16, "start", bold=True)
            s.note((x + 70, y + 12), question, "start")
            left, right, top, tall = x + 40, x + 250, y + 48, 112
            for p, weights in zip(points, shares, strict=True):
                for q, weight in zip(sources, weights, strict=True):
                    a, b = (left, top + p * tall), (right, top + q * tall)
                    if weight < 0.2 and not out:
                        continue
                    a, b = on_rim(a, 11, b), on_rim(b, 21, a)
                    s.arrow(a, b, ASKED if out else VALUE, width=0.8 + 3 * weight)
            for p in points:
                s.circle((left, top + p * tall), 8, colour=ASKED, tint=0.5)
            for j, q in enumerate(sources):
                s.circle((right, top + q * tall), 18, str(j + 1), VALUE)
            s.text((x, y + 192), f"EM: {em}", 14, "start")
            s.text((x, y + 216), attention, 14, "start")

    alt = (
        "Two panels with four outcomes on the left and two sources on the right. E-step: each outcome is shared out between the sources by responsibilities, which "
        "attention's weights resemble. M-step: each source moves to the mean of what it explains; in attention a value moves along the errors weighted by attention."
    )
    return drawing("The two steps of EM, and attention", alt, paint)

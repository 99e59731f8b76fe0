"""Parts of a transformer: a block, attention, and two circuits made of attention heads."""

from __future__ import annotations

from bayeswind_lib.figures.schematics.drawing import Drawing
from bayeswind_lib.figures.schematics.sheet import Rect, Sheet, drawing

KEY, VALUE, ASKED, STREAM = "blue", "orange", "green", "ink"


class Spine:
    """A main way and branches beside it: from left to right on a wide sheet, downwards on a narrow one."""

    def __init__(self, s: Sheet, main: float):
        self.s, self.main = s, main

    def at(self, along: float, aside: float = 0.0) -> tuple[float, float]:
        """A place so far along the main way and so far beside it."""
        return (self.main + aside, along) if self.s.narrow else (along, self.main - aside)

    def box(self, along: float, aside: float, width: float, height: float, words: str, colour: str) -> Rect:
        """A box with its middle there."""
        x, y = self.at(along, aside)
        return self.s.box(x - width / 2, y - height / 2, width, height, words, colour)


def transformer_block() -> Drawing:
    """A block of a transformer: a residual stream, read and written by attention and by an MLP."""
    parts = (("attention\nacross positions", KEY), ("MLP\nat each position", VALUE))

    def paint(s: Sheet) -> None:
        way = Spine(s, s.pick(136, 34))
        step, first, aside = s.pick(290, 176), s.pick(70, 58), s.pick(84, 186)
        s.arrow(way.at(first - 30), way.at(first + 2 * step - s.pick(22, 14)), STREAM, width=2.5)
        for n, (words, colour) in enumerate(parts):
            start = first + n * step
            plus = start + s.pick(210, 124)
            box = way.box((start + plus) / 2, aside, 142, 48, words, colour)
            into, out = s.pick((box.left, box.right), (box.top, box.bottom))
            s.bent([way.at(start), way.at(start, aside), (into[0] - s.pick(3, 0), into[1] - s.pick(0, 3))], colour)
            s.bent([out, way.at(plus, aside), way.at(plus, 15)], colour)
            s.sign(way.at(plus), "+")
            s.note(way.at(start + s.pick(8, -12), s.pick(42, 60)), "norm", s.pick("start", "middle"))
        s.note(s.pick((s.left, 162), (s.left, 14)), "residual stream", "start")

    alt = (
        "The residual stream runs straight through a block. Attention reads a copy of it, moves information between positions, "
        "and adds what it finds back to the stream. Then an MLP reads a copy, works at each position alone, and adds its result too."
    )
    return drawing("A transformer block", alt, paint)


def attention_read(n_tokens: int = 5) -> Drawing:
    """One query of attention: compared with every key, turned into weights, and used to average the values.

    Args:
        n_tokens: positions that may be looked at, 3 to 5.
    """
    weights = (0.08, 0.62, 0.1, 0.05, 0.15)[:n_tokens]
    shares = [w / sum(weights) for w in weights]

    def paint(s: Sheet) -> None:
        width, gap = s.pick(58, 40), s.pick(18, 6)
        step = width + gap
        x, room = s.left, s.pick(96, 62)
        last = s.right - room
        names = [f"_{{{n}}}" for n in range(1, n_tokens + 1)]
        for y, letter, colour in ((34, "k", KEY), (206, "v", VALUE)):
            for n, name in enumerate(names):
                s.box(x + n * step, y, width, 32, f"*{letter}*{name}", colour)
        end = x + n_tokens * step - gap
        query = s.box(last, 34, room, 32, f"*q*{names[-1]}", ASKED)
        s.arrow((query.x - 2, 50), (end + 3, 50), ASKED)
        s.note((x, 18), s.pick("keys: how well does the query fit each?", "keys: does the query fit?"), "start")
        s.note((x, 92), s.pick("weights: softmax over the products, with sum 1", "weights: softmax, sum 1"), "start")
        base = 172
        for n, share in enumerate(shares):
            s.bars(x + n * step, base, width, 66, [share], ASKED, top=0.75)
        s.note((x, 192), "values", "start")
        out = s.box(last, 206, room, 32, s.pick("Σ *a*_{j} *v*_{j}", "Σ *a*_{j}*v*_{j}"), VALUE)
        s.arrow((end + 2, 222), (out.x - 3, 222), VALUE)
        s.note((s.left, 258), s.pick("what is written: the average of the values, by those weights", "written: the weighted mean of the values"), "start")

    alt = (
        f"Attention at position {n_tokens}. Its query is compared with the keys of {n_tokens} positions. A softmax turns the products into weights: most "
        "of it on the second position. The values are averaged with these weights, and the mean is what the head writes."
    )
    return drawing("Attention", alt, paint)


def induction_circuit() -> Drawing:
    """Two heads that continue a pattern: one notes what came before each token, the other looks for it."""

    def paint(s: Sheet) -> None:
        step, width = s.pick(128, 74), s.pick(64, 54)
        x = s.pick(92, 4)
        columns = [x + width / 2 + 8 + n * step for n in range(4)]
        ys = (212, 134, 56)
        for cx, token in zip(columns, "AB…A", strict=True):
            if token == "…":
                s.text((cx, ys[0]), token)
                continue
            s.box(cx - width / 2, ys[0] - 17, width, 34, token, VALUE if token == "B" else KEY)
        after = s.box(columns[1] - s.pick(44, 38), ys[1] - 17, s.pick(88, 76), 34, "after A", KEY)
        out = s.box(columns[3] - s.pick(44, 34), ys[2] - 17, s.pick(88, 68), 34, "next: B", ASKED)
        s.line([(columns[1], ys[0] - 17), after.bottom], "quiet")
        s.line([(columns[3], ys[0] - 17), out.bottom], "quiet")
        s.arrow((columns[0], ys[0] - 22), (after.x - 3, ys[1]), KEY, bend=12)
        s.arrow((after.x + after.width + 3, ys[1] - 8), (out.x - 3, ys[2] + 6), ASKED, bend=10)
        s.sign((columns[0] - s.pick(4, 10), ys[1] + 6), "1")
        s.sign((columns[2] - s.pick(30, 24), ys[2] + 2), "2")
        if not s.narrow:
            for y, words in zip(ys, ("tokens", "layer 1", "layer 2"), strict=True):
                s.note((s.left, y), words, "start")
        y = s.paragraph(252, "1 The pairing head, a previous-token head, tells B that it came after A.")
        s.paragraph(y + 4, "2 The match head of the second A looks for “after A”, and copies B.")

    alt = (
        "Tokens A, B, more tokens, and A again. In the first layer a pairing head, which looks one token back, carries A to the position of B, which now says: after A. "
        "In the second layer a match head at the second A looks for the position that says after A, and copies its token: B is predicted next."
    )
    return drawing("An induction circuit", alt, paint)


def elimination_heads(n_values: int = 6) -> Drawing:
    """Heads that exclude: each finds its value and pushes the logit down, and what remains is uniform.

    Args:
        n_values: how many values there are, 4 to 6; three of them have been seen.
    """
    seen = (0, 1, 3)

    def paint(s: Sheet) -> None:
        step = (s.right - s.left) / n_values
        centre = [s.left + step * (v + 0.5) for v in range(n_values)]
        wide, line, down, base = s.pick(56, 40), 122, 46, 290
        s.note((s.left, 16), s.pick("a head for each value; filled: it has found its value among those seen", "a head for each value; filled: found"), "start")
        for v, x in enumerate(centre):
            found = v in seen
            s.box(x - wide / 2, 34, wide, 32, str(v + 1), VALUE if found else "quiet", filled=found)
            if found:
                s.arrow((x, 70), (x, line + down - 7), "quiet", width=2)
        s.line([(s.left, line), (s.right, line)], "grid", 1.5)
        for v, x in enumerate(centre):
            s.circle((x, line + (down if v in seen else 0)), 6, colour="quiet" if v in seen else VALUE, tint=0.5)
        s.note((s.right, line - 20), "logits", "end")
        s.note((s.left, 200), "softmax", "start")
        left = 1 / (n_values - len(seen))
        s.bars(s.left, base, s.right - s.left, 64, [0.0 if v in seen else left for v in range(n_values)], VALUE, dashed=True, top=left)
        for v, x in enumerate(centre):
            s.text((x, base + 16), str(v + 1), 13, colour="quiet" if v in seen else "ink")
        s.note((s.width / 2, base + 38), s.pick("what remains is equally likely: the exact answer", "what remains is equally likely"))

    alt = (
        f"A head for each of {n_values} values. Three of them have found their value among those seen, and each pushes the logit of that value down; the others "
        f"do nothing. After the softmax the three have no probability, and the other {n_values - len(seen)} are equally likely, which is the exact answer."
    )
    return drawing("Elimination heads", alt, paint)

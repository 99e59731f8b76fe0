"""The record `language_sula`: the SULA experiment of Paper III on SmolLM2-135M, beside what it lacked (notes B4 to B6).

`measure(model, tokenizer, report)` takes a few minutes on two cores. What is kept of each prompt (labels
shown, preference, coordinate on the first component at some layers) is enough to compute every
correlation of chapter 18 again.

Axes: n prompts, L layers, d channels of the values of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from bayeswind_lib import stats
from bayeswind_lib.experiments.workers import each, give_back
from bayeswind_lib.language import axes, edits, manifold, sula
from bayeswind_lib.language.llama import Llama
from bayeswind_lib.language.stored import Answers

SEED = 0
LABELS, OTHERS = ("bip", "tor"), ("nov", "lat")  # each one token, with the space before it
# Each one token, with and without a space before it: all prompts of k examples are equally long.
WORDS = (
    "stone", "river", "cloud", "table", "window", "paper", "bridge", "forest", "bucket", "orange", "yellow",
    "house", "water", "light", "field", "glass", "train", "school", "music", "horse", "earth", "metal",
    "board", "cover", "frame", "circle", "square", "letter", "market", "office", "street", "color", "animal",
    "flower", "planet", "engine", "button", "signal", "camera", "winter", "summer", "ocean",
)  # fmt: skip
SAME = "paper"  # what stands for every carrier where carriers are taken out
PER_COUNT, PER_EVIDENCE, FEW = 50, 20, 10  # prompts of each k; of each m; of each m in the variations
SHOWN = (14, 24, 29)  # layers whose coordinates are kept prompt by prompt
CUT = (14, 29)  # a layer in the middle, and the last one
MANY = (10, 15, 20, 25, 29)  # at the same depths as the published 8, 12, 16, 20, 23 of 24
STREAM = (20, 24, 27, 29)  # where the stream of the last token is moved
DRAWS, PUSHES, MIDDLE_DRAWS = 50, 20, 10
DOSES = (-8, -4, 0, 4, 8)
COPY_BATCH = 13  # while there are two networks, memory is at its peak; smaller batches take a tenth longer


def measure(model: Llama, tokenizer, report: Callable[[str], None] = print) -> dict:
    """The record, JSON types. Untrained: the same network with weights drawn anew."""
    lab = Lab(model, tokenizer, report)
    copies, sets = lab.observe_untrained(), lab.observe_all()
    found = {
        "seed": SEED, "words": list(WORDS), "prompts": {name: one.kept() for name, one in (sets | copies).items()},
        "layers": {name: by_layer(sets.get(name) or copies[name], decode=name.endswith("matched")) for name in ("published", "shuffled", "matched", "untrained published", "untrained matched")},
        "shuffled_on_published": projected(sets["shuffled"], sets["published"]),
        "tautology": {str(layer): tautology(sets["published"], layer) for layer in CUT},
        "cuts": {str(layer): lab.cuts(sets, layer) for layer in CUT} | {"many": lab.cut_many(sets)},
        "stream": {str(layer): lab.moves(sets["matched"], layer) for layer in STREAM},
    }
    return found | claims(found) | {"n_draws": DRAWS}


# ---- what the ledger weighs


def claims(record: dict, draws: int = 200) -> dict:
    """Numbers of the ledger's rows and their nulls, from what the record keeps of each prompt.

    `shuffled`: answers of other prompts; `untrained`: the untrained copy, its prompts drawn anew; `as_large`: axes of as much variance.
    """
    answers = {name: Answers.of(one) for name, one in record["prompts"].items()}
    rng, last = np.random.default_rng([SEED, 10]), str(SHOWN[-1])
    one, same = answers["published"], answers["matched"]
    constant = sula.best_constant(one.exact)[1]

    def shuffled(score: Callable[[np.ndarray], float], n: int) -> dict:
        return stats.summary([score(rng.permutation(n)) for _ in range(draws)])

    def drawn(score: Callable[[np.ndarray], float], n: int) -> dict:
        return stats.summary([score(rng.integers(n, size=n)) for _ in range(draws)])

    def follows(a: Answers, y: np.ndarray) -> Callable[[np.ndarray], float]:
        return lambda order: abs(sula.rank_correlation(a.pc1[last][order], y[order]))

    copy, flips = answers["untrained published"], answers["shuffled"]
    cut, decoder = record["cuts"][last], record["tautology"][last]["decoder"]
    def rise(e: dict) -> float:
        return 100 * (e["mae"] / e["mae_before"] - 1)

    whole = np.arange(len(one.m))
    return {
        "claims": {
            "mae over constant": float(np.abs(one.entropy - one.exact).mean() / constant),
            "rho H": follows(one, one.exact)(whole), "rho H matched": follows(same, same.exact)(np.arange(len(same.m))),
            "rho k shuffled": follows(flips, flips.k)(whole),
            "cut": rise(cut["published"]["true"]),
            "decoder left": decoder["after"] / decoder["before"],
        },
        "shuffled": {
            "mae over constant": shuffled(lambda order: float(np.abs(one.entropy[order] - one.exact).mean() / constant), len(one.m)),
            "rho H matched": shuffled(lambda order: abs(sula.rank_correlation(same.pc1[last], same.exact[order])), len(same.m)),
        },
        "untrained": {"rho H": drawn(follows(copy, copy.exact), len(copy.m)), "rho k": drawn(follows(copy, copy.k), len(copy.m))},
        "as_large": {
            "cut": stats.summary([rise(e) for e in cut["published"]["as large as true"]]),
            "decoder left": stats.summary([r2 / decoder["before"] for r2 in decoder["after matched"]]),
        },
    }


class Group:
    """Prompts of one design, and what a model makes of them.

    Attributes:
        prompts, names: the prompts and their two labels.
        logit, mass: (n,), see `edits.Said`.
        values: float64 (n, L, d), of the last token.
        runs: the whole runs, by length, with the indices of their prompts.
    """

    def __init__(self, prompts: sula.Prompts, names: Sequence[str], runs: list[tuple[np.ndarray, edits.Seen]]):
        self.prompts, self.names, self.runs = prompts, names, runs
        order = np.argsort(np.concatenate([where for where, _ in runs]))
        self.logit = np.concatenate([one.said.logit for _, one in runs])[order]
        self.mass = np.concatenate([one.said.mass for _, one in runs])[order]
        self.values = np.concatenate([one.values.double().numpy() for _, one in runs])[order]

    @property
    def k(self) -> np.ndarray:
        return self.prompts.k

    @property
    def m(self) -> np.ndarray:
        return self.prompts.m

    @property
    def exact(self) -> np.ndarray:
        """Bits left of the exact observer, (n,)."""
        return sula.entropy(self.m)

    def pc1(self, layer: int) -> np.ndarray:
        """Coordinates on the first component of standardised values, turned so that they rise with m, or with k."""
        x = manifold.spectrum(self.values[:, layer]).project(self.values[:, layer], 1)[:, 0]
        against = self.m if len(set(self.k)) == 1 else self.k
        return x if sula.rank_correlation(x, against) >= 0 else -x

    def kept(self) -> dict:
        """What the record keeps of each prompt: labels as "0110", preference in nats, mass, coordinates."""
        return {
            "labels": list(self.names), "shown": ["".join(map(str, row)) for row in self.prompts.labels],
            "logit": rounded(self.logit), "mass": [float(f"{x:.3g}") for x in self.mass],
            "pc1": {str(layer): rounded(self.pc1(layer)) for layer in SHOWN},
        }


def rounded(x: np.ndarray) -> list[float]:
    """Four decimals."""
    return [float(f"{value:.4f}") for value in x]


def by_layer(group: Group, decode: bool) -> dict:
    """Rank correlations of the first component with what is known of a prompt, and (if asked) what a decoder can tell, by layer.

    Layer 0 is left out: its values at the last token, the same in all prompts, are all the same.
    """
    known = {"k": group.k, "m": group.m, "abs": np.abs(group.m), "H": group.exact}
    known = {name: y for name, y in known.items() if np.ptp(y) > 0}
    decoded = ("m", "abs", "H") if decode else ()
    found = {name: [] for name in (*known, "share", *(f"r2_{name}" for name in decoded))}
    for layer in range(1, group.values.shape[1]):
        x = group.values[:, layer]
        spectrum = manifold.spectrum(x)
        found["share"].append(spectrum.pc1)
        for name, y in known.items():
            found[name].append(sula.rank_correlation(spectrum.project(x, 1)[:, 0], y))
        for name in decoded:
            found[f"r2_{name}"].append(axes.decodable(x, known[name].astype(float)))
    return found


def projected(group: Group, onto: Group) -> dict:
    """Rank correlation with k of prompts read along the first component of other prompts, by layer kept."""
    found = {}
    for layer in SHOWN:
        s = manifold.spectrum(onto.values[:, layer])
        there = ((onto.values[:, layer] - s.mean) / s.scale) @ s.axes[0]
        here = ((group.values[:, layer] - s.mean) / s.scale) @ s.axes[0]
        found[str(layer)] = {"k": sula.rank_correlation(here, group.k), "k_there": sula.rank_correlation(there, onto.k), "H": sula.rank_correlation(here, group.exact)}
    return found


def tautology(group: Group, layer: int) -> dict:
    """What is left along an axis that has been cut, by the precision of the arithmetic; and what a new decoder finds."""
    v, entropy = group.values[:, layer], sula.binary_entropy(sula.chance(group.logit))
    axis = manifold.spectrum(v).raw_axis()
    found = {"before": {"r": float(np.corrcoef(v @ axis, entropy)[0, 1]), "spread": float((v @ axis).std())}}
    for name, dtype in {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}.items():
        x, u = torch.tensor(v).to(dtype), torch.tensor(axis).to(dtype)
        left = ((x - (x @ u)[:, None] * u) @ u).double().numpy()
        found[name] = {"r": float(np.corrcoef(left, entropy)[0, 1]), "spread": float(left.std())}
    share, rng = axes.removed_share(v, axis), np.random.default_rng(SEED)
    cut = {"true": axes.cut(v, axis, v.mean(0))}
    others = [axes.cut(v, axes.matched_axis(v, reachable(v, share), rng), v.mean(0)) for _ in range(PUSHES)]
    h = group.exact
    found["decoder"] = {
        "before": axes.decodable(v, h), "after": axes.decodable(cut["true"], h), "share": share,
        "after matched": rounded(np.array([axes.decodable(x, h) for x in others])),
    }
    return found


def reachable(vectors: np.ndarray, share: float, components: int = 10) -> float:
    """The nearest share that directions among the first components can carry."""
    part = manifold.spectrum(vectors, standardise=False).shares[:components]
    return float(np.clip(share, part[-1], part[0]))


def slope_on(x: np.ndarray, y: np.ndarray) -> float:
    """Least squares slope of y on x."""
    return float(np.polyfit(x, y, 1)[0])


class Lab:
    """A model, its tokenizer, and the designs."""

    def __init__(self, model: Llama, tokenizer, report: Callable[[str], None]):
        self.model, self.tokenizer, self.report = model, tokenizer, report

    def label_tokens(self, names: Sequence[str]) -> tuple[int, int]:
        """The token of each label after a colon.

        Raises:
            ValueError: if a label is not one token.
        """
        rows = [self.tokenizer.encode(" " + name).ids for name in names]
        if any(len(row) != 1 for row in rows):
            raise ValueError(f"labels are {list(names)}, {[len(row) for row in rows]} tokens: take labels of one token")
        return rows[0][0], rows[1][0]

    def observe(self, prompts: sula.Prompts, names: Sequence[str] = LABELS, model: Llama | None = None, at_once: int = edits.BATCH, **more) -> Group:
        """Run prompts, those of equal length together."""
        encoded = [self.tokenizer.encode(text).ids for text in prompts.texts]
        asked = self.label_tokens(names)
        runs = [(where, edits.observe(model or self.model, tokens, asked, run=each, at_once=at_once, **more)) for where, tokens in edits.by_length(encoded)]
        group = Group(prompts, names, runs)
        if not more:  # what is said of all tokens is large
            group.runs = []
        return group

    def designs(self) -> dict[str, tuple[sula.Prompts, tuple[str, str], dict]]:
        """Prompts of all designs, each with dice of its own; their labels; and what of their runs is kept."""
        def dice(number: int) -> np.random.Generator:
            return np.random.default_rng([SEED, number])

        rows, flips = sula.as_published(dice(0), PER_COUNT), sula.as_published(dice(1), PER_COUNT, truth=0.5)
        matched = sula.length_matched(dice(2), PER_EVIDENCE)
        few = matched[:: PER_EVIDENCE // FEW]
        texts = sula.prompts(few, WORDS, LABELS, dice(5))
        swapped = sula.prompts(few, WORDS, LABELS[::-1], dice(5))  # the same words
        bare = sula.Prompts(tuple(sula.write([SAME] * (len(row) + 1), [LABELS[i] for i in row]) for row in few), texts.labels)
        return {
            "published": (sula.prompts(rows, WORDS, LABELS, dice(3)), LABELS, {"keep": CUT[:1], "past_from": CUT[1]}),
            "shuffled": (sula.prompts(flips, WORDS, LABELS, dice(4)), LABELS, {}),
            "other published": (sula.prompts(rows, WORDS, OTHERS, dice(3)), OTHERS, {}),
            "matched": (sula.prompts(matched, WORDS, LABELS, dice(6)), LABELS, {"keep": (CUT[0], MANY[0]), "past_from": STREAM[0]}),
            "plain": (texts, LABELS, {}), "swapped": (swapped, LABELS[::-1], {}), "bare": (bare, LABELS, {}),
            "other matched": (sula.prompts(few, WORDS, OTHERS, dice(5)), OTHERS, {}),
        }  # fmt: skip

    def observe_all(self) -> dict[str, Group]:
        """The model on all designs."""
        found = {}
        for name, (prompts, names, more) in self.designs().items():
            found[name] = self.observe(prompts, names, **more)
            self.report(f"language_sula: {name}, {len(prompts)} prompts")
        return found

    def observe_untrained(self) -> dict[str, Group]:
        """The same prompts in a network that has learned nothing."""
        with torch.device("meta"):
            copy = Llama(self.model.config)
        copy = copy.to_empty(device="cpu").initialise(torch.Generator().manual_seed(SEED)).requires_grad_(False).eval()
        designs = self.designs()
        found = {f"untrained {name}": self.observe(designs[name][0], model=copy, at_once=COPY_BATCH) for name in ("published", "matched")}
        del copy
        give_back()
        self.report("language_sula: an untrained copy")
        return found

    # ---- values cut

    def cuts(self, sets: dict[str, Group], layer: int) -> dict:
        """Axes cut out of the values of one layer, at all tokens, and as many others as large."""
        published, group = sets["published"], sets["matched"]
        (_, seen), last = group.runs[0], layer == CUT[1]
        rows = slice(None) if last else slice(0, None, 4)
        v = group.values[:, layer]
        spectrum = manifold.spectrum(published.values[:, layer])
        true = spectrum.raw_axis()
        named = {
            "true": true, "raw PC1": manifold.spectrum(published.values[:, layer], standardise=False).axes[0],
            "PC1 length-matched": manifold.spectrum(v).raw_axis(), "evidence": slopes(v, group.m),
        }

        def said(axis: np.ndarray, rows: slice = slice(None), mean: torch.Tensor | float = seen.means[layer]) -> edits.Said:
            return self.said(seen, layer, edits.without(axis, mean), rows)

        def outcome(after: edits.Said, axis: np.ndarray, rows: slice = slice(None)) -> dict:
            return effect(group, seen, after, rows) | axis_of(v, axis, group)

        seen.said.log2_prob  # noqa: B018 - computed here, once, and read by all

        def of(name: str) -> tuple[dict, dict, list[float]]:
            """On all prompts; on as many as the axes below; and the preferences."""
            after = said(named[name])
            return outcome(after, named[name]), effect(group, seen, after[rows], rows), rounded(after.logit)

        whole = dict(zip(named, each(of, named), strict=True))
        found: dict = {name: one[0] for name, one in whole.items()}
        found["compared"] = {name: whole[name][1] for name in ("true", "evidence")}
        found["after"] = {"matched": whole["true"][2]}
        found["as published"] = outcome(said(spectrum.axes[0], mean=0.0), spectrum.axes[0])
        rng = np.random.default_rng([SEED, 7, layer])
        share = axes.removed_share(v, true)
        drawn = {"as large as true": [axes.matched_axis(v, reachable(v, share), rng) for _ in range(DRAWS)]}
        if last:
            drawn["others"] = others_than(v, named["evidence"], rng, DRAWS)
        drawn["random"] = [axes.random_axis(v.shape[1], rng) for _ in range(PUSHES // (1 if last else 2))]
        for name, some in drawn.items():
            found[name] = each(lambda axis: outcome(said(axis, rows), axis, rows), some)
        after = self.cut_published(published, layer, true)
        found["after"]["published"] = rounded(after)
        found["published"] = self.against_others(published, layer, true, after, DRAWS if last else MIDDLE_DRAWS)
        self.report(f"language_sula: axes cut at layer {layer}")
        return found

    def said(self, seen: edits.Seen, layer: int, edit: edits.Edit, rows: slice = slice(None)) -> edits.Said:
        """What is said with the values of one layer edited, at all tokens: in the last layer only the last token is computed."""
        if layer == CUT[1]:
            return edits.from_last(self.model, seen, layer, seen.streams[rows, layer], edit=edit, rows=rows)
        return edits.edited(self.model, seen, {layer: edit}, rows)

    def against_others(self, group: Group, layer: int, axis: np.ndarray, after: np.ndarray, draws: int) -> dict:
        """What a cut does in prompts of the published design, beside axes that carry as much variance there; `after`: preferences after it."""
        v, rng = group.values[:, layer], np.random.default_rng([SEED, 11, layer])
        before = np.abs(sula.binary_entropy(sula.chance(group.logit)) - group.exact).mean()

        def score(u: np.ndarray, logit: np.ndarray) -> dict:
            error = np.abs(sula.binary_entropy(sula.chance(logit)) - group.exact).mean()
            moved = np.abs(sula.chance(logit) - sula.chance(group.logit)).mean()
            return {"share": axes.removed_share(v, u), "mae_before": float(before), "mae": float(error), "moved": float(moved), "k": sula.rank_correlation(v @ u, group.k)}

        share = axes.removed_share(v, axis)
        others = [axes.matched_axis(v, reachable(v, share), rng) for _ in range(draws)]
        return {"true": score(axis, after), "as large as true": each(lambda u: score(u, self.cut_published(group, layer, u)), others)}

    def cut_published(self, group: Group, layer: int, axis: np.ndarray) -> np.ndarray:
        """Preferences after a cut in the prompts of the published design, (n,)."""
        mean = torch.tensor(group.values[:, layer].mean(0), dtype=torch.float32)
        found = np.zeros(len(group.prompts))
        for where, seen in group.runs:
            found[where] = self.said(seen, layer, edits.without(axis, mean)).logit
        return found

    def cut_many(self, sets: dict[str, Group]) -> dict:
        """The axis of each of several layers cut at once, on a quarter of the prompts; beside it, others as large."""
        published, group, rows = sets["published"], sets["matched"], slice(0, None, 4)
        (_, seen) = group.runs[0]
        rng = np.random.default_rng([SEED, 8])

        def run(chosen: dict[int, np.ndarray]) -> dict:
            change = {layer: edits.without(axis, seen.means[layer]) for layer, axis in chosen.items()}
            return effect(group, seen, edits.edited(self.model, seen, change, rows), rows)

        true = {layer: manifold.spectrum(published.values[:, layer]).raw_axis() for layer in MANY}
        drawn = []
        for _ in range(8):
            values = {layer: group.values[:, layer] for layer in MANY}
            drawn.append({
                layer: axes.matched_axis(v, reachable(v, axes.removed_share(v, true[layer])), rng) for layer, v in values.items()
            })
        whole, *others = each(run, [true, *drawn])
        self.report("language_sula: axes cut at several layers")
        return {"layers": list(MANY), "true": whole, "as large as true": others}

    # ---- the stream moved: the positive control

    def moves(self, group: Group, layer: int) -> dict:
        """The stream of the last token pushed along evidence, and evidence or entropy cut out of it.

        Directions are fitted on every second prompt and used on the others.
        """
        (_, seen) = group.runs[0]
        fit, rows = slice(0, None, 2), slice(1, None, 2)
        x = seen.streams[:, layer].double().numpy()
        m, rng = group.m, np.random.default_rng([SEED, 9, layer])
        step = (x[fit] - x[fit].mean(0)).T @ (m[fit] - m[fit].mean()) / np.square(m[fit] - m[fit].mean()).sum()  # (D,), per unit of m
        mean = x[fit].mean(0)

        def said(stream: np.ndarray) -> edits.Said:
            return edits.from_last(self.model, seen, layer, torch.tensor(stream, dtype=torch.float32), rows=rows)

        def pushed(direction: np.ndarray, dose: float) -> float:
            return float(said(x[rows] + dose * direction).logit.mean())

        def response(direction: np.ndarray) -> float:
            return (pushed(direction, 4) - pushed(direction, -4)) / 8

        length = np.linalg.norm(step)
        others = [length * other for other in others_than(x, step, rng, PUSHES)]
        uncertain = slopes(x[fit], group.exact[fit])
        named = {"evidence": step, "entropy": uncertain}
        found = {
            "doses": list(DOSES), "logit": [pushed(step, dose) for dose in DOSES], "slope": response(step),
            "slopes of others": rounded(np.abs(each(response, others))),
            "slope on m": slope_on(m[rows], group.logit[rows]), "share": axes.removed_share(x, step),
        }
        for name, axis in named.items():
            found[f"{name} cut"] = effect(group, seen, said(axes.cut(x[rows], axis, mean)), rows) | axis_of(x, axis, group)
        found["others cut"] = each(lambda axis: effect(group, seen, said(axes.cut(x[rows], axis, mean)), rows) | axis_of(x, axis, group), others)
        self.report(f"language_sula: the stream moved before layer {layer}")
        return found


def others_than(x: np.ndarray, axis: np.ndarray, rng: np.random.Generator, draws: int, components: int = 10) -> list[np.ndarray]:
    """Random directions of length 1 among the largest components of what a cut of an axis leaves; orthogonal to it.

    An axis that carries as much as the first component nearly is the first component: so for a large
    axis the companions are not as large, but others.
    """
    main = manifold.spectrum(axes.cut(x, axis, x.mean(0)), standardise=False).axes[:components]
    return [axes.random_axis(len(main), rng) @ main for _ in range(draws)]


def slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The direction in which points (n, d) move when a number rises, of length 1: least squares slopes."""
    direction = (x - x.mean(0)).T @ (y - y.mean())
    return direction / np.linalg.norm(direction)


def axis_of(v: np.ndarray, axis: np.ndarray, group: Group) -> dict:
    """What a cut axis carries: its share of the variance, and rank correlations with m and with the exact entropy."""
    x = v @ axis
    return {"share": axes.removed_share(v, axis), "m": sula.rank_correlation(x, group.m), "H": sula.rank_correlation(x, group.exact)}


def effect(group: Group, seen: edits.Seen, after: edits.Said, rows: slice) -> dict:
    """What an edit did, on some prompts of one length: bits of error before and after, and three measures that can see damage.

    `mae`: mean |H(model) - H(exact)| over prompts; `kl`: KL of the next token, bits, before from after; `moved`:
    mean |change of P(first label)|; `slope`: of the preference (nats) on m.
    """
    before = seen.said[rows]
    exact, m = group.exact[rows], group.m[rows]
    errors = [np.abs(sula.binary_entropy(sula.chance(one.logit)) - exact).mean() for one in (before, after)]
    return {
        "mae_before": float(errors[0]), "mae": float(errors[1]), "kl": float(before.divergence(after).mean()),
        "moved": float(np.abs(after.p - before.p).mean()), "slope_before": slope_on(m, before.logit), "slope": slope_on(m, after.logit),
    }

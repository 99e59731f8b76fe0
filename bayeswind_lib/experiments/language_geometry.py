"""The record `language_geometry`: the diagnostics of Paper III on SmolLM2-135M, beside their nulls (chapter 17).

Axes: n prompts, L layers, d coordinates of a value (all key-value heads).

Two domains, each cut in two ways (`language.prompts`), run through the trained model and through a
copy with fresh random weights, and two more domains beside the mixed prompts; and the same functions on the book's own networks, as a control on
which the answer is known. The value vectors of the last layer are kept, so that a reader can do the
statistics again without the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch

from bayeswind_lib import checkpoints, stats
from bayeswind_lib.experiments.workers import each, give_back
from bayeswind_lib.language import diagnose, manifold, prompts
from bayeswind_lib.language.diagnose import PromptActivations
from bayeswind_lib.language.llama import Llama
from bayeswind_lib.language.own_networks import SEED, prompts_of
from bayeswind_lib.language.stored import pack
from bayeswind_lib.probes import nulls

DRAWS = 200
COPY_SEEDS = (18, 19)  # of two more copies
DOMAINS = prompts.MAIN
FURTHER = tuple(name for name in prompts.DOMAINS if name not in DOMAINS)
BOOTSTRAPS = 400
SETS = tuple(itertools.product(DOMAINS, prompts.CUTS))
QUESTION = "The capital of France is"
PROSE = (
    "Water boils at a lower temperature on a mountain, because the air presses less on it there. "
    "A cook who lives high up has to wait longer for an egg, and a loaf of bread rises faster."
)
CONTROLS = ("bijection-transformer", "bijection-transformer-posterior", "bijection-transformer-classroom",
            "bijection-transformer-classroom-replacement", "hmm-transformer-classroom", "hmm-transformer")  # fmt: skip
COPIES = 20  # untrained ones of each control


def measure(model: Llama, tokenizer, report: Callable = print) -> dict:
    """All of it.

    Args:
        model, tokenizer: of `language.load_smollm` and `language.load_tokenizer`.
        report: takes one line for each part that is done.
    """
    found: dict = {"draws": DRAWS, "sanity": sanity(model, tokenizer), "keys": keys(model)}
    copy = Llama(model.config).initialise(torch.Generator().manual_seed(SEED)).requires_grad_(False).eval()
    found["keys"]["untrained"] = diagnose.key_cosines(copy).tolist()
    report("keys done")
    for who, network in (("trained", model), ("untrained", copy)):
        observed = {}
        for domain, cut in SETS:
            observed[domain, cut] = diagnose.observe(network, prompts.prompts(tokenizer, domain, cut))
            report(f"{who}: {domain}, {cut} done")
        found[who] = of_network(observed, keep=who == "trained")
        found[who]["further"] = {name: further(network, tokenizer, name, observed) for name in FURTHER}
        report(f"{who}: {', '.join(FURTHER)} done")
    found["untrained_seeds"] = [found["untrained"]["apart"]["natural"] | {"seed": SEED}]
    for seed in COPY_SEEDS:
        copy.initialise(torch.Generator().manual_seed(seed))  # in place: a second copy would take too much memory
        a, b = (diagnose.observe(copy, prompts.prompts(tokenizer, domain, "natural")).values[:, -1] for domain in DOMAINS)
        found["untrained_seeds"].append(differences(a, b) | {"seed": seed})
        report(f"another untrained copy, {seed}: done")
    del copy, network, observed  # what is not needed any more
    give_back()
    found["controls"] = dict(zip(CONTROLS, each(control, CONTROLS), strict=True))
    report("controls done")
    return found | ledger_values(found)


def sanity(model: Llama, tokenizer) -> dict:
    """That the model is read as it was made: its size, an answer, and how well it reads prose (nats a token)."""
    ids = torch.tensor([tokenizer.encode(QUESTION).ids])
    chance = model(ids, last=True)[0].softmax(-1)
    text = torch.tensor([tokenizer.encode(PROSE).ids])
    loss = torch.nn.functional.cross_entropy(model(text)[0, :-1], text[0, 1:])
    return {
        "parameters": sum(p.numel() for p in model.parameters()), "answer": tokenizer.decode([int(chance.argmax())]),
        "probability": float(chance.max()), "prose": float(loss),
    }


def keys(model: Llama) -> dict:
    """Cosines of the maps of keys by layer, and of random ones of the same shape."""
    config = model.config
    C, rng = config.width // config.n_heads, np.random.default_rng(SEED)
    drawn = diagnose.random_cosines((C, config.width), DRAWS, rng)
    narrow = diagnose.random_cosines((config.width, C), 20, rng)
    return {
        "trained": diagnose.key_cosines(model).tolist(), "random": diagnose.null_summary(drawn),
        "narrow": diagnose.null_summary(narrow), "width": config.width, "channels": C,
    }


# ---- values and attention of one network


def of_network(observed: dict[tuple, PromptActivations], keep: bool) -> dict:
    """Both domains in both cuts: values, attention, and what tells the domains apart."""
    names = [f"{domain} {cut}" for domain, cut in observed]
    sets = dict(zip(names, each(lambda found: of_set(found, keep), observed.values()), strict=True))
    apart = {}
    for cut in prompts.CUTS:
        a, b = (observed[domain, cut].values[:, -1] for domain in DOMAINS)
        apart[cut] = differences(a, b)
    return {"sets": sets, "apart": apart}


def further(network, tokenizer, domain: str, observed: dict[tuple, PromptActivations]) -> dict:
    """Another domain beside the mixed prompts, by cut: what tells the two apart, and the domain's mean entropy in bits."""
    found = {}
    for cut in prompts.CUTS:
        looks = diagnose.observe(network, prompts.prompts(tokenizer, domain, cut))
        found[cut] = differences(observed["mixed", cut].values[:, -1], looks.values[:, -1]) | {"entropy": float(looks.entropy.mean())}
    return found


def of_set(observed: PromptActivations, keep: bool) -> dict:
    """One set of prompts; values of the last layer are kept if wished."""
    rng, last, first = np.random.default_rng(SEED), observed.values[:, -1], first_coordinates(observed)
    found = {
        "values": diagnose.value_report(last, observed.entropy, DRAWS, rng),
        "entropy": observed.entropy.tolist(), "lengths": observed.lengths.tolist(),
        "layers": layers(observed, first), "best_layer": best_layer(observed, first),
        "focus": observed.focus.mean(0).tolist(), "rest": observed.rest.mean(0).tolist(), "first": observed.first.mean(0).tolist(),
        "reduction": with_error(observed.focus), "reduction_rest": with_error(observed.rest),
    }
    if keep:
        draws = manifold.bootstrap(last, "pc12", BOOTSTRAPS, rng)
        found["bootstrap"] = [float(np.quantile(draws, q)) for q in (0.025, 0.975)]
        found["vectors"] = pack(last)
    return found


def first_coordinates(observed: PromptActivations) -> list[tuple[float, np.ndarray] | None]:
    """Each layer's first component: its share, and the coordinates along it, (n,); None where the values are the same for all prompts.

    So they are in the first layer if all prompts end in one token, since positions enter queries and keys only.
    """
    same = [np.ptp(x, 0).max() < 1e-4 * np.abs(x).max() for x in observed.values.transpose(1, 0, 2)]
    found = []
    for flat, x in zip(same, observed.values.transpose(1, 0, 2), strict=True):
        one = None if flat else manifold.spectrum(x)
        found.append(one and (one.pc1, one.project(x, 1)[:, 0]))
    return found


def layers(observed: PromptActivations, first: list[tuple[float, np.ndarray] | None]) -> list[dict]:
    """The first component's share, and its rank correlation with entropy, layer by layer."""
    return [
        {"pc1": None, "rho": None} if one is None else {"pc1": one[0], "rho": abs(stats.spearman(one[1], observed.entropy))}
        for one in first
    ]


def best_layer(observed: PromptActivations, first: list[tuple[float, np.ndarray] | None]) -> dict:
    """The largest |rank correlation| over layers, beside the largest when entropies are dealt out anew to the prompts."""
    columns, rng = np.array([stats.unit_ranks(one[1]) for one in first if one is not None]), np.random.default_rng(SEED)

    def most(entropy: np.ndarray) -> float:
        return float(np.abs(columns @ stats.unit_ranks(entropy)).max())

    return {"value": most(observed.entropy), "null": diagnose.null_summary([most(rng.permutation(observed.entropy)) for _ in range(DRAWS)])}


def with_error(focus: np.ndarray) -> dict:
    """The reduction of attention's entropy, and its jackknife error over prompts."""
    n = len(focus)
    parts = [diagnose.reduction(np.delete(focus, i, 0)) for i in range(n)]
    return {"value": diagnose.reduction(focus), "se": float(np.sqrt(n - 1) * np.std(parts))}


def differences(a: np.ndarray, b: np.ndarray) -> dict[str, dict]:
    """The second set less the first, by figure, beside what chance gives when the labels are dealt out anew."""
    of, found = [manifold.shares(x) for x in (a, b)], {}
    for measure, drawn in diagnose.all_relabelled(a, b, DRAWS, np.random.default_rng(SEED)).items():
        mine = [one[measure] for one in of]
        value = mine[1] - mine[0]
        beyond = (1 + int((np.abs(drawn) >= abs(value)).sum())) / (1 + len(drawn))
        found[measure] = {"value": value, "of": mine, "null": diagnose.null_summary(drawn), "p": beyond}
    return found


# ---- the book's own networks


def control(name: str, n: int = len(prompts.MIXED), draws: int = COPIES) -> dict:
    """A wind-tunnel network under the same diagnostics, and as many untrained copies of it."""
    network = checkpoints.load(name)
    given, exact = prompts_of(network, n, torch.Generator().manual_seed(SEED))
    observed = diagnose.observe(network, given)
    found = {
        "values": diagnose.value_report(observed.values[:, -1], observed.entropy, draws, np.random.default_rng(SEED)),
        "rho_exact": diagnose.axis_entropy(observed.values[:, -1], exact), "rho_length": diagnose.axis_entropy(observed.values[:, -1], observed.lengths),
        "answers": stats.spearman(observed.entropy, exact), "keys": diagnose.key_cosines(network).tolist(),
        "reduction": with_error(observed.focus), "focus": observed.focus.mean(0).tolist(),
    }
    copies = (nulls.untrained(network, torch.Generator().manual_seed(1000 + i)) for i in range(draws))
    rows = [_of_untrained(copy, given) for copy in copies]  # one copy at a time
    return found | {"untrained": {key: diagnose.null_summary([row[key] for row in rows]) for key in rows[0]}}


def _of_untrained(copy, given: list) -> dict[str, float]:
    observed = diagnose.observe(copy, given)
    figures = diagnose.null_figures(observed.values[:, -1].astype(float), observed.entropy)
    return figures | {"keys": float(diagnose.key_cosines(copy).mean()), "reduction": diagnose.reduction(observed.focus)}


# ---- for the ledger


def ledger_values(found: dict) -> dict:
    """The few numbers that stand in the ledger, and their nulls by kind, each flat."""
    sets, random = found["trained"]["sets"], found["keys"]["random"]
    measured: dict = {f"{name} {key}": one["values"][key] for name, one in sets.items() for key in ("pc1", "pc12", "rho")}
    noise = {f"{name} {key}": one["values"]["noise"][key] for name, one in sets.items() for key in ("pc1", "pc12")}
    like_values = {f"{name} rho": one["values"]["like"]["rho"] for name, one in sets.items()}
    drawn_layers, dealt = {}, {}
    for name, one in sets.items():
        for key, curve in (("reduction", "focus"), ("reduction_rest", "rest")):
            measured[f"{name} {key}"] = one[key]["value"]
            drawn_layers[f"{name} {key}"] = two_layers(np.array(one[curve]))
    for cut, one in found["trained"]["apart"].items():
        for key, apart in one.items():
            measured[f"{cut} apart {key}"], dealt[f"{cut} apart {key}"] = apart["value"], apart["null"]
    for domain, by_cut in found["trained"]["further"].items():
        for cut, key in itertools.product(prompts.CUTS, manifold.MEASURES):
            name, apart = f"{domain} {cut} apart {key}", by_cut[cut][key]
            measured[name], dealt[name] = apart["value"], apart["null"]
    cosines = np.array(found["keys"]["trained"])
    measured |= {
        "cosine": float(cosines[: len(cosines) // 3].mean()), "cosine over random": float(cosines.mean() / random["null"]),
        "layers below threshold": float((cosines < diagnose.COSINE_THRESHOLD).mean()),
    }
    maps = {
        "cosine": random,
        "cosine over random": {key: x / random["null"] if key != "draws" else x for key, x in random.items()},
        "layers below threshold": {"null": 1.0, "low": 1.0, "high": 1.0, "draws": random["draws"]},
    }
    assert random["high"] < diagnose.COSINE_THRESHOLD  # all of them are below it
    return {
        "ledger": measured, "noise_values": noise, "like_values": like_values, "two_layers": drawn_layers, "dealt_labels": dealt,
        "random_maps": maps,
    }


def two_layers(focus: np.ndarray) -> dict:
    """The reduction between two layers drawn at random, L entropies -> what it is if their order means nothing."""
    rng = np.random.default_rng(SEED)
    pairs = [rng.choice(len(focus), 2, replace=False) for _ in range(DRAWS)]
    return diagnose.null_summary([1 - focus[b] / focus[a] for a, b in pairs])

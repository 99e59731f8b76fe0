"""Plans: named grids of training runs, each run a cell with the name under which it may ship.

Axes of a grid: tunnel x architecture x variant x seed, or one recipe with one field varied.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bayeswind_lib.training.presets import COMPARED, recipe
from bayeswind_lib.training.recipe import Recipe

SEEDS = (0, 1, 2)
SCAN = 4  # a rate may be compared on runs of one part in so many of the updates, at the plain rate as well


@dataclass(frozen=True)
class Cell:
    """One run of a plan.

    Attributes:
        name: `<tunnel>-<architecture>[-classroom][-<variant>]`, as `bayeswind_lib.load` knows it.
        recipe: what to do.
        preset: which preset the recipe was made from.
    """

    name: str
    recipe: Recipe
    preset: str

    @property
    def key(self) -> str:
        """The cell's own name: network, seed, and the recipe's tag."""
        return f"{self.name}-seed{self.recipe.seed}-{self.recipe.tag}"


def cell(
    tunnel: str, architecture: str, variant: str | None = None, seed: int = 0,
    preset: str = "classroom", label: str | None = None, **changes,
) -> Cell:
    """The cell of a preset; `label` replaces the variant in its name.

    A cell is the same run on every machine, so its precision is fixed: bfloat16 at the published size.
    """
    parts = [tunnel, architecture, "" if preset == "paper" else preset, label or variant or ""]
    fixed = {"precision": "bfloat16"} if preset == "paper" else {}
    wanted = recipe(
        tunnel, architecture, preset, variant, **{"seed": seed, "data_seed": seed} | fixed | changes
    )
    return Cell("-".join(part for part in parts if part), wanted, preset)


def run_of(plain: Recipe, learning_rate: float, steps: int) -> str:
    """What a run is beside the plain one of its name: "", "rate 0.003", "doubled", "rate 0.003 doubled", "longer" still, or
    a short run of the scan, "rate 0.003 shorter"; at the plain rate that only says what the others are compared with, and is "" too.

    Raises:
        ValueError: for a number of updates that is none of these.
    """
    rate = "" if learning_rate == plain.learning_rate else f"rate {learning_rate:g}"
    lengths = {plain.steps: "", 2 * plain.steps: "doubled", round(plain.steps / SCAN): "shorter" if rate else ""}
    if steps > 2 * plain.steps:
        lengths[steps] = "longer"
    if steps not in lengths:
        raise ValueError(f"a run of {steps:,} updates: expected one of {', '.join(f'{n:,}' for n in lengths)}")
    return " ".join(part for part in (rate, lengths[steps]) if part)


# The architectures that are compared, as (architecture, variant).
RIVALS = (
    ("transformer", None), ("mamba", None), ("lstm", None), ("lstm", "deep"), ("mlp", None),
    ("mlp", "sum"), ("mlp", "flattened"), ("transformer", "uniform"),
)


def architectures() -> list[Cell]:
    """Every architecture in every tunnel at classroom size, all tunnels once before the next seed."""
    return [
        cell(tunnel, architecture, variant, seed)
        for seed, tunnel, (architecture, variant) in itertools.product(SEEDS, COMPARED, RIVALS)
    ]


def positions() -> list[Cell]:
    """The HMM transformer with each position code, for what happens beyond the trained length."""
    codes = ("sinusoidal", "rotary", "none", "offset", "subset")
    return [cell("hmm", "transformer", code, seed) for seed in SEEDS for code in codes]


def supervision() -> list[Cell]:
    """The HMM transformer trained on sampled states and on the next symbol; posteriors: the plain one."""
    kinds = ("sampled", "next-sampled")
    return [cell("hmm", "transformer", kind, seed) for seed in SEEDS for kind in kinds]


def slow() -> list[Cell]:
    """HMMs that mix slowly, where a short memory is not enough."""
    rivals = [pair for pair in RIVALS if pair != ("lstm", "deep")]
    return [
        cell("hmm", architecture, "-".join(part for part in ("sticky", variant) if part), seed)
        for seed, (architecture, variant) in itertools.product(SEEDS, rivals)
    ]


def fixed() -> list[Cell]:
    """One HMM for all episodes and no header: transport without reading."""
    rivals = (("lstm", None), ("lstm", "deep"), ("mamba", None), ("transformer", None), ("mlp", None))
    return [
        cell("hmm", architecture, "-".join(part for part in ("fixed", variant) if part), seed)
        for seed, (architecture, variant) in itertools.product(SEEDS, rivals)
    ]


def late_attention() -> list[Cell]:
    """The HMM transformer retrained without attention in its last layers: one, and two of three."""
    return [
        cell(
            "hmm", "transformer", seed=seed, label=f"without{len(off)}",
            model_config={"without_attention": list(off)},
        )
        for seed in SEEDS for off in ((2,), (1, 2))
    ]


# Who sees its neighbours through a convolution: the transformer is given one, Mamba loses its own.
CONVOLVED = (("transformer", "convolution"), ("mamba", "unconvolved"))


def binding() -> list[Cell]:
    """Bijections whose keys come back, recall of more and more pairs, and what a convolution does."""
    cells = [
        cell(tunnel, architecture, "-".join(part for part in (changed, variant) if part), seed)
        for seed, (architecture, variant) in itertools.product(SEEDS, CONVOLVED)
        for tunnel, changed in (("recall", ""), ("bijection", "replacement"), ("hmm", ""))
    ]
    cells += [
        cell("bijection", architecture, "-".join(part for part in ("replacement", variant) if part), seed)
        for seed, (architecture, variant) in itertools.product(SEEDS, RIVALS)
    ]
    for seed, n_pairs, (architecture, variant) in itertools.product(SEEDS, (2, 4, 16), RIVALS):
        label = "-".join(part for part in (f"n{n_pairs}", variant) if part)
        size = {"n_pairs": n_pairs, "n_queries": min(n_pairs, 8)}
        cells.append(cell("recall", architecture, variant, seed, label=label, tunnel_config=size))
    return cells


def data() -> list[Cell]:
    """The HMM transformer on a fixed set of N episodes, N = 1,000 to 100,000; fresh: the plain one."""
    return [
        cell("hmm", "transformer", seed=seed, label=f"pool{pool}", pool=pool)
        for seed in SEEDS for pool in (1000, 10_000, 100_000)
    ]


FACTORS = (0.25, 0.5, 2.0, 4.0)  # beside 1, the plain run


def rates() -> list[Cell]:
    """Every architecture in every tunnel at other learning rates, one seed."""
    cells = []
    for tunnel, (architecture, variant), factor in itertools.product(COMPARED, RIVALS, FACTORS):
        plain = recipe(tunnel, architecture, "classroom", variant)
        cells.append(cell(tunnel, architecture, variant, **_faster(plain, factor)))
    return cells


# Where another rate did better, by a tenth of the KL or more: the factor of the best one.
BETTER = {("hmm", "lstm", "deep"): 2.0}


# Where some seeds got there and others did not.
DIVIDED = (("recall", "mamba", None),)


def doubled() -> list[Cell]:
    """Twice the budget for every architecture in every tunnel, one seed: would more of it help?

    Where another learning rate did better, at that rate too; where seeds disagree, for all of them.
    """
    cells = []
    for tunnel, (architecture, variant) in itertools.product(COMPARED, RIVALS):
        plain = recipe(tunnel, architecture, "classroom", variant)
        for factor in dict.fromkeys((1.0, BETTER.get((tunnel, architecture, variant), 1.0))):
            changed = {} if factor == 1 else _faster(plain, factor)
            cells.append(cell(tunnel, architecture, variant, steps=2 * plain.steps, **changed))
    for (tunnel, architecture, variant), seed in itertools.product(DIVIDED, SEEDS[1:]):
        plain = recipe(tunnel, architecture, "classroom", variant)
        cells.append(cell(tunnel, architecture, variant, seed, steps=2 * plain.steps))
    return cells


def _faster(plain: Recipe, factor: float) -> dict[str, float]:
    """Both learning rates of a recipe times a factor."""
    return {
        "learning_rate": factor * plain.learning_rate,
        "matrix_learning_rate": factor * plain.matrix_learning_rate,
    }


LSTM_DOUBLED = 16_000  # updates after which the recall LSTM has left its plateau


def longer() -> list[Cell]:
    """The recall transformer with as many updates as the longest run of the LSTM, one seed."""
    return [cell("recall", "transformer", steps=LSTM_DOUBLED)]


SOON = 300_000  # episodes within which the bijection of 20 symbols is hoped to be learned


def published() -> list[Cell]:
    """Runs at the published scale: the HMM, the per-token MLP, a bijection within `SOON` episodes."""
    return [
        cell("hmm", "transformer", preset="paper"),
        cell(
            "bijection", "transformer", preset="paper", label="short", batch_size=64, steps=SOON // 64,
        ),
        cell(
            "bijection", "mlp", label="published",
            model_config={"n_layers": 18, "width": 384, "hidden": 0}, steps=500,
        ),
    ]


CENSORED = 20_500  # updates of 64: where a search for an accuracy gives up, 1.3 million episodes


def convergence() -> list[Cell]:
    """How soon AdamW and Muon, on sampled and on posterior targets, get to an accuracy.

    The rate falls over the whole budget: so AdamW has Muon's budget, and one until it is good.
    """
    best = {"optimiser": "adamw", "learning_rate": 4e-3, "warmup_steps": 100}
    cells = []
    for seed, kind in itertools.product(SEEDS, (None, "posterior")):
        plain = {"variant": kind, "seed": seed, "eval_every": 50}
        cells.append(cell("bijection", "transformer", **plain))
        for steps in (cells[-1].recipe.steps, CENSORED if kind is None else 6000):
            cells.append(cell("bijection", "transformer", steps=steps, **plain, **best))
    return cells


N_SNAPSHOTS = 24  # log-spaced, the end included; a few early ones coincide


def snapshots() -> list[Cell]:
    """Runs whose weights are kept on the way: the rate falls as usual, or stays to the end."""
    return [
        cell(tunnel, "transformer", seed=seed, label=label, n_snapshots=N_SNAPSHOTS, **changes)
        for tunnel, (label, changes), seed in itertools.product(
            ("bijection", "hmm"), (("snapshots", {}), ("constant", {"schedule": "constant"})), SEEDS
        )
    ]


# What is kept as it is: what decides where attention looks, and what it carries.
FROZEN = {
    "looks": ("*.query.weight", "*.key.weight"),
    "carries": ("*.value.weight", "*.attention.output.weight"),
}
SETTLED = 526  # updates after which a frame is said to be there: one of the snapshots


def frozen() -> list[Cell]:
    """The bijection with a part of attention that is never trained, or no longer after a while."""
    cells = []
    for seed, (what, names) in itertools.product(SEEDS, FROZEN.items()):
        for label, begin in ((f"frozen-{what}", 0), (f"settled-{what}", SETTLED)):
            changes = {"frozen": names, "frozen_from": begin}
            cells.append(cell("bijection", "transformer", seed=seed, label=label, **changes))
    return cells


# A small transformer, and what is exchanged in it; "wide" ones get the parameters back as hidden units.
SMALLER = {"n_layers": 3, "n_heads": 4, "width": 32, "hidden": 64, "init": "fan_in"}
ATTENTION: dict[str, dict] = {
    "multihead": {},
    "grouped": {"n_key_heads": 2},
    "multiquery": {"n_key_heads": 1},
    "window8": {"window": 8},
    "window4": {"window": 4},
    "uniform": {"attention": "uniform"},
    "experts": {"n_experts": 4},  # of attention nothing changes; as much computing as with twice the hidden units
    "grouped-wide": {"n_key_heads": 2, "hidden": 80},
    "multiquery-wide": {"n_key_heads": 1, "hidden": 88},
}
# Where: eliminating takes all values shown; a filtered state forgets (one HMM for all episodes, no header).
PLACES = {
    "bijection": {"tunnel_config": {"n_values": 8}, "steps": 200},
    "hmm": {"variant": "fixed", "tunnel_config": {"length": 16}, "steps": 120},
}
FIVE = (0, 1, 2, 3, 4)


def variants() -> list[Cell]:
    """One recipe with one part of attention exchanged; for the first seed also at half the rate."""
    cells = [_exchanged(*pair, 0, factor) for factor in (1.0, 0.5) for pair in exchanges()]
    return cells + [_exchanged(*pair, seed) for seed in FIVE[1:] for pair in exchanges()]


def exchanges() -> list[tuple[str, str]]:
    """Tunnels and names of attention that are compared; wide networks in the bijection only."""
    pairs = itertools.product(PLACES, ATTENTION)
    return [(tunnel, name) for tunnel, name in pairs if tunnel == "bijection" or "wide" not in name]


def _exchanged(tunnel: str, name: str, seed: int, factor: float = 1.0) -> Cell:
    place = dict(PLACES[tunnel])
    rate, size = 2e-2 * factor, SMALLER | ATTENTION[name]
    return cell(
        tunnel, "transformer", place.pop("variant", None), seed, label=f"variants-{name}", model_config=size,
        supervision="posterior", batch_size=32, eval_every=place["steps"], learning_rate=rate, matrix_learning_rate=rate, **place,
    )


LADDER = {  # small enough for many runs, and a tunnel in which attention has to be trained
    "steps": 600, "batch_size": 32, "eval_every": 600, "n_snapshots": 30,
    "tunnel_config": {"n_states": 3, "n_symbols": 3, "length": 8},
    "model_config": {"n_layers": 2, "n_heads": 2, "width": 32, "hidden": 64},
}
# Updates after which a part is frozen: 0, 3, 10, 20, 30 and 50 in 100 of the run.
FREEZE_AT = {"linear": (0, 18, 60, 120, 180, 300), "constant": (60, 180)}


def ladder() -> list[Cell]:
    """A small HMM transformer, free and with a part of attention frozen earlier and later, with both rates.

    `bayeswind_lib.experiments.settling` trains all runs of one seed and rate at once.
    """
    cells = []
    for (schedule, begins), seed in itertools.product(FREEZE_AT.items(), FIVE):
        rate = {"linear": "falling"}.get(schedule, schedule)
        arms = [("free", {})] + [
            (f"{what}-{begin}", {"frozen": names, "frozen_from": begin})
            for what, names in FROZEN.items() for begin in begins
        ]
        cells += [
            cell("hmm", "transformer", seed=seed, label=f"ladder-{rate}-{label}", schedule=schedule, **LADDER, **changes)
            for label, changes in arms
        ]
    return cells


# Bijections of six values from a set of N: by width, which N (all 720 are the plain bijection tunnel).
WHICH_PRIOR = {64: (16, 32, 64, 128, 256, 512, 720), 32: (16, 64, 256), 16: (16, 64, 256)}
PRIOR_STEPS = 4000


def prior(budget: int = 1) -> list[Cell]:
    """Bijections from a set of N maps, by N and width; each seed draws a set of its own. `experiments.prior` reads the snapshots."""
    grid = [(width, n) for width, sizes in WHICH_PRIOR.items() for n in sizes]
    return [
        cell(
            "bijection_set", "transformer", seed=seed, label=f"n{n}-w{width}",
            tunnel_config={"n_maps": n, "map_seed": seed}, steps=budget * PRIOR_STEPS, n_snapshots=N_SNAPSHOTS, eval_every=400,
            model_config={"n_layers": 2, "n_heads": 2 if width < 64 else 4, "width": width, "hidden": 4 * width},
        )
        for seed in SEEDS[:2] for width, n in grid if n < 720 or seed == 0
    ]


# How long a network takes to bind: the recall of `BOUND` from the first update on, or through the stages before it.
BOUND = {"n_pairs": 4, "n_queries": 4, "n_keys": 16, "n_values": 16}
STAGES = [{"n_pairs": 2, "n_queries": 2, "vocabulary": 2}, {"n_pairs": 2, "n_queries": 2, "vocabulary": 4}, {"vocabulary": 8}]
ARMS = {  # architecture, variant, and what else differs; the last four differ from the first in one thing, or two
    "transformer": ("transformer", "rotary", {}),
    "transformer-convolution": ("transformer", "rotary-convolution", {}),
    "lstm": ("lstm", None, {}),
    "lstm-convolution": ("lstm", "convolution", {}),
    "mamba": ("mamba", None, {}),
    "mamba-unconvolved": ("mamba", "unconvolved", {}),
    "transformer-learned": ("transformer", None, {}),
    "transformer-small": ("transformer", "rotary", {"init": "small"}),
    "transformer-muon": ("transformer", "rotary", {"optimiser": "muon"}),
    "transformer-small-muon": ("transformer", "rotary", {"init": "small", "optimiser": "muon"}),
}
WAYS = ("plain", "staged")
TRIED_RATES = {"adamw": (1e-3, 2e-3, 4e-3, 8e-3), "muon": (5e-3, 1e-2, 2e-2, 4e-2)}
BEYOND = {  # where the fastest of these is the first or the last, or none gets there: one more
    **dict.fromkeys(itertools.product(("transformer", "mamba-unconvolved"), WAYS), (5e-4,)), ("mamba", "staged"): (5e-4,),
    **dict.fromkeys([("transformer-convolution", "plain"), ("transformer-convolution", "staged"), ("mamba", "plain"), ("lstm-convolution", "plain")], (16e-3,)),
}
TRIAL_SEED, RACE_SEEDS = 8, tuple(range(8))  # the one that chooses the rate, and those that are compared at it
FEWER = {"mamba-unconvolved": 4}  # minutes a run, and none of its trials arrived: so many seeds
RACE_RATES = {  # by arm and way the fastest of the trials, as the record `binding_race` has them
    ("transformer", "plain"): 1e-3, ("transformer", "staged"): 1e-3,
    ("transformer-convolution", "plain"): 8e-3, ("transformer-convolution", "staged"): 8e-3,
    ("lstm", "plain"): 4e-3, ("lstm", "staged"): 4e-3,
    ("lstm-convolution", "plain"): 8e-3, ("lstm-convolution", "staged"): 4e-3,
    ("mamba", "plain"): 8e-3, ("mamba", "staged"): 1e-3,
    ("mamba-unconvolved", "plain"): 1e-3, ("mamba-unconvolved", "staged"): 5e-4,
    ("transformer-small", "staged"): 4e-3, ("transformer-muon", "staged"): 1e-2, ("transformer-small-muon", "staged"): 1e-2,
}


def seeds_of(arm: str) -> tuple[int, ...]:
    """The seeds of an arm that are compared."""
    return RACE_SEEDS[: FEWER.get(arm)]


def _raced(arm: str, way: str, rate: float, seed: int) -> Cell:
    architecture, variant, differs = ARMS[arm]
    optimiser = differs.get("optimiser", "adamw")
    size = {"n_layers": 2, "init": differs.get("init", "fan_in")} if architecture == "transformer" else {}
    rates = {"learning_rate": rate} if optimiser == "adamw" else {"learning_rate": 1e-3, "matrix_learning_rate": rate}
    return cell(
        "recall", architecture, variant, seed, label=f"race-{arm}-{way}", tunnel_config=BOUND, model_config=size,
        curriculum=STAGES if way == "staged" else (), until=0.9, steps=3000, eval_every=3000, warmup_steps=50,
        schedule="constant", optimiser=optimiser, **rates,
    )


def binding_trials() -> list[Cell]:
    """The race to bind at several rates, in a seed of its own: the fastest rate of an arm is the one it runs at."""
    return [
        _raced(arm, way, rate, TRIAL_SEED)
        for arm, way in itertools.product(ARMS, WAYS)
        for rate in TRIED_RATES[ARMS[arm][2].get("optimiser", "adamw")] + BEYOND.get((arm, way), ())
    ]


def binding_race() -> list[Cell]:
    """How many episodes each network takes to answer nine in ten questions, plain and through stages, each at its rate."""
    order = sorted(RACE_RATES, key=lambda pair: pair[0] in FEWER)
    return [_raced(arm, way, RACE_RATES[arm, way], seed) for arm, way in order for seed in seeds_of(arm)]


ADAMW_RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
MUON_RATES = (5e-3, 1e-2, 2e-2, 4e-2, 8e-2)


def optimisers(steps: int = 1500, seeds: tuple[int, ...] = (0,)) -> list[Cell]:
    """The classroom run with AdamW and with Muon, each at five learning rates."""
    return list(_optimisers(steps, seeds))


def _optimisers(steps: int, seeds: tuple[int, ...]) -> Iterator[Cell]:
    for seed in seeds:
        base = {"seed": seed, "steps": steps, "eval_every": steps}
        for rate in ADAMW_RATES:
            yield cell("bijection", "transformer", optimiser="adamw", learning_rate=rate, **base)
        for rate in MUON_RATES:
            yield cell("bijection", "transformer", matrix_learning_rate=rate, **base)


def small() -> list[Cell]:
    """The network of the landing page: small, so that it answers soon after the page is opened, and trained twice as long for it."""
    size = {"n_layers": 2, "n_heads": 2, "width": 32, "hidden": 128}
    return [cell("bijection", "transformer", label="small", steps=6000, model_config=size)]


PLANS: dict[str, Callable[[], list[Cell]]] = {
    "architectures": architectures,
    "positions": positions,
    "supervision": supervision,
    "slow": slow,
    "fixed": fixed,
    "late-attention": late_attention,
    "binding": binding,
    "data": data,
    "rates": rates,
    "doubled": doubled,
    "longer": longer,
    "published": published,
    "optimisers": optimisers,
    "small": small,
    "convergence": convergence,
    "snapshots": snapshots,
    "frozen": frozen,
    "variants": variants,
    "binding-trials": binding_trials,
    "binding-race": binding_race,
    "prior": prior,
    "prior-doubled": functools.partial(prior, 2),
}


def plan(name: str) -> list[Cell]:
    """The cells of a named plan, in the order in which they should be run.

    Raises:
        ValueError: if there is no plan of that name; the message lists what there is.
    """
    if name not in PLANS:
        raise ValueError(f"no plan is called {name!r}: choose one of {', '.join(PLANS)}")
    return PLANS[name]()


def ladder_recipes(schedule: str, seed: int) -> dict:
    """The recipes of one fleet, by label: "free", "looks-60", ...; then what no recipe says, "nudged" and "uniform"."""
    mine = [one for one in ladder() if one.recipe.seed == seed and one.recipe.schedule == schedule]
    found = {one.name.split("ladder-")[1].split("-", 1)[1]: one.recipe for one in mine}
    return found | {"nudged": found["free"]} | ({"uniform": found["free"]} if schedule == "linear" else {})

# The runs with snapshots, by tunnel, and the network whose recipe they share, which ships with three seeds.
FALLING, CONSTANT = "{}-transformer-classroom-snapshots", "{}-transformer-classroom-constant"
SEEDS_OF = "bijection-transformer-classroom"  # the same recipe, without snapshots, ships with three seeds

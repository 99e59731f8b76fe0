"""The record `wrong_model`: every diagnostic of the papers on networks that were trained well, on a wrong model of the task.

The recipes of two shipped transformers are run again with another teacher: a predictor of
`bayeswind_lib.baselines` that reasons well from a wrong model. A network is taught well if its divergence from
its *teacher* is below `diagnostics.RIGHT` bits. It takes about an hour of one core:

    python -m bayeswind_lib records wrong_model --runs FOLDER

Networks that are in the folder are not trained again; one that was cut off (after three minutes at most) is
begun again. Areas compare networks of one recipe with each other.

networks: one row each, as in `probe_diagnostics`, with its teacher and the divergence from it. The rest: see
`summaries`. Areas are under the ROC curve.

Axes: B episodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from bayeswind_lib import baselines, checkpoints, scoring, stats, tunnels
from bayeswind_lib.checkpoints.files import read_tensors, write_tensors
from bayeswind_lib.experiments import DRAWS
from bayeswind_lib.experiments.diagnostics import RIGHT, Row, judged, looked_at, passing, short
from bayeswind_lib.language.papers import DIAGNOSTICS, Diagnostic
from bayeswind_lib.probes.fixed import SEED
from bayeswind_lib.training.loop import start, update
from bayeswind_lib.training.recipe import Recipe

FOLDER = Path("runs/wrong_model")
SEEDS = (0, 1, 2)
EPISODES = 96
EXACT, RENAMED = "exact", "outcomes renamed"
# By recipe (of a shipped network): its teachers. The first is right.
TEACHERS: dict[str, dict[str, Callable]] = {
    "bijection-transformer-classroom-posterior": {
        EXACT: lambda tunnel: tunnel,
        "the first pair does not count": baselines.bijection.OneTooFew,
        "values come back after four": lambda tunnel: baselines.bijection.Eliminator(tunnel, 4),
        RENAMED: baselines.RelabelledOracle,
    },
    "hmm-transformer-classroom": {
        EXACT: lambda tunnel: tunnel,
        "time runs backwards": baselines.hmm.ReversedFilter,
        "the state never moves": baselines.hmm.NoTransport,
        RENAMED: baselines.RelabelledOracle,
    },
}


@dataclass(frozen=True)
class Taught:
    """A tunnel with its episodes and another truth: what a predictor says of them.

    Attributes:
        tunnel: whose episodes. teacher: its `predict(inputs)` gives log2-probabilities float64 (B, K, Y).
    """

    tunnel: tunnels.AnyTunnel
    teacher: scoring.Predictor

    @property
    def interface(self) -> tunnels.Interface:
        """The tunnel's."""
        return self.tunnel.interface

    @property
    def config(self) -> dict:
        """The tunnel's."""
        return self.tunnel.config

    def sample(self, batch: int, rng: torch.Generator, device: torch.device | str | None = None) -> tunnels.Episodes:
        """Episodes of the tunnel, whose `posterior` is the teacher's forecast."""
        return self.told(self.tunnel.sample(batch, rng)).to(device or rng.device)

    def told(self, episodes: tunnels.Episodes) -> tunnels.Episodes:
        """The same episodes with the teacher's forecast."""
        return replace(episodes, posterior=self.teacher.predict(episodes.inputs).exp2())


def measure(n_episodes: int, runs: str | Path | None = None, seeds: Sequence[int] = SEEDS, report: Callable = print) -> dict:
    """The record; see the module."""
    rows = []
    for name, teacher, seed in cells(seeds):
        model, taught = trained(Path(runs or FOLDER), name, teacher, seed)
        rows.append(row_of(model, taught, name, teacher, min(n_episodes, EPISODES)))
        report(f"{name}, seed {seed}, {teacher}: KL {rows[-1]['kl']} from the truth, {rows[-1]['kl_taught']} from its teacher")
    names = [one.name for one in DIAGNOSTICS]
    stored = [{key: x for key, x in row.items() if key != "passed"} | {"numbers": [row["numbers"][name] for name in names]} for row in rows]
    return {"taught_well_below": RIGHT, "order": names, "networks": stored} | summaries(rows, DRAWS)


def cells(seeds: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Recipe, teacher and seed of each network, all teachers of a seed before the next seed."""
    for seed in seeds:
        for name, teachers in TEACHERS.items():
            yield from ((name, teacher, seed) for teacher in teachers)


def trained(folder: Path, name: str, teacher: str, seed: int) -> tuple[nn.Module, Taught]:
    """A network and what it was taught: read if it is in the folder, else trained and kept there.

    Raises:
        ValueError: for a recipe in which no teacher is heard.
        CheckpointError: for a file of another recipe or teacher.
    """
    shipped = checkpoints.load(name, seed=0).record
    recipe = Recipe.from_dict(shipped["recipe"]).but(seed=seed, data_seed=seed)
    if recipe.supervision != "posterior" or recipe.pool:
        raise ValueError(f"{name} is trained on {recipe.supervision} outcomes, pool {recipe.pool}: choose a recipe on fresh posteriors")
    run = start(recipe)
    taught = Taught(run.tunnel, TEACHERS[name][teacher](run.tunnel))
    path = folder / f"{name}-{teacher.replace(' ', '-')}-seed{seed}.safetensors"
    if not path.exists():
        run.tunnel, run.stages = taught, [taught]
        while not run.ended:
            update(run, run.model)
        write_tensors(path, run.model.state_dict(), {"recipe": recipe.to_dict(), "teacher": teacher})
    tensors, note = read_tensors(path)
    if note != {"recipe": recipe.to_dict(), "teacher": teacher}:
        raise checkpoints.CheckpointError(f"{path}: trained by another recipe or teacher; choose another folder, or remove the file")
    run.model.load_state_dict(tensors)
    run.model.record = {"tunnel": recipe.tunnel, "tunnel_config": taught.config}
    return run.model.eval(), taught


def row_of(model: nn.Module, taught: Taught, name: str, teacher: str, n: int) -> Row:
    """A network under all diagnostics, which compare with the truth, and how far it is from its teacher."""
    episodes, *_ = looked_at(model, n)
    kind = "right model" if teacher == EXACT else "wrong model"
    apart = scoring.score_episodes(model, taught.told(episodes)).kl
    return judged(model, kind, name, n) | {"teacher": teacher, "kl_taught": short(apart)}


# ---- rates


def matched_area(rows: Sequence[Row], one: Diagnostic) -> float:
    """Area under the ROC curve between right and wrong models of the same recipe, mean over recipes that have the number."""
    found = []
    for family in dict.fromkeys(row["family"] for row in rows):
        signs = [[one.sign(row["numbers"][one.name]) for row in rows if (row["family"], row["kind"]) == (family, kind) and one.name in row["passed"]]
                 for kind in ("right model", "wrong model")]
        if all(signs):
            found.append(stats.roc_area(*signs))
    return float(np.mean(found)) if found else math.nan


def dealt(rows: Sequence[Row], rng: np.random.Generator) -> list[Row]:
    """The same rows with their kinds dealt out at random among the networks of each recipe."""
    found = []
    for family in dict.fromkeys(row["family"] for row in rows):
        some = [row for row in rows if row["family"] == family]
        found += [row | {"kind": some[i]["kind"]} for row, i in zip(some, rng.permutation(len(some)), strict=True)]
    return found


def summaries(rows: Sequence[Row], draws: int) -> dict:
    """What is made of the rows.

    Returns:
        diagnostics: by name, how many of each kind pass; the area between the right model and the wrong ones that have
        another entropy, and its middle 95 in 100 if the kinds are dealt out at random; and the area between the right
        model and the one with the right entropy and other outcomes. claims, shuffled_labels: of all wrong models.
    """
    rng, found = np.random.default_rng(SEED), {}
    parts = {which: [row for row in rows if row["teacher"] == EXACT or (row["teacher"] == RENAMED) == (which == "renamed")]
             for which in ("others", "renamed")}
    for one in DIAGNOSTICS:
        chance = [matched_area(dealt(parts["others"], rng), one) for _ in range(draws)]
        found[one.name] = {
            "kinds": {kind: passing(rows, one.name, [kind]) for kind in ("right model", "wrong model")},
            "renamed": passing(parts["renamed"], one.name, ["wrong model"]),
            "area": short(matched_area(parts["others"], one)), "chance": [short(x) for x in np.quantile(chance, (0.025, 0.975))],
            "area_renamed": short(matched_area(parts["renamed"], one)),
        }
    signs = next(one for one in DIAGNOSTICS if one.name == "all three signs")
    by_chance = stats.summary([matched_area(dealt(rows, rng), signs) for _ in range(draws)])
    return {"diagnostics": found, "claims": {"signature": matched_area(rows, signs)}, "shuffled_labels": {"signature": by_chance}}

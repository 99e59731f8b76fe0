"""The recipe: everything that decides the outcome of a training run, in one frozen object."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, fields, replace

CHOICES = {
    "supervision": ("sampled", "posterior"),
    "optimiser": ("adamw", "muon"),
    "schedule": ("linear", "cosine", "constant"),
    "precision": ("float32", "tf32", "bfloat16", "auto"),
}

LEAST = {
    "steps": 1, "batch_size": 1, "eval_every": 1, "eval_episodes": 2, "grad_clip": 0, "n_snapshots": 0,
    "pool": 0, "frozen_from": 0, "seed": 0, "data_seed": 0, "eval_seed": 0,
}

# Fields that came later: left out of the tag while they have their default, so that the tag of
# an older recipe stays what it was.
LATER = ("pool", "frozen", "frozen_from", "curriculum", "mastery", "until")


@dataclass(frozen=True)
class Recipe:
    """A training run, ready to be repeated.

    Attributes:
        tunnel, tunnel_config: which task, and the arguments that build it.
        architecture, model_config: which network, and its sizes (what the tunnel fixes,
            such as the vocabulary, is filled in from the tunnel).
        steps, batch_size: updates, and episodes an update.
        supervision: "sampled" trains on what happened, "posterior" on the exact posterior.
            The second is the conditional expectation of the first: same minimiser, less noise.
        optimiser: "adamw" on everything, or "muon" on the matrices and AdamW on the rest.
        learning_rate: of AdamW. matrix_learning_rate: of Muon (unused with "adamw").
        schedule, warmup_steps: the learning rate rises linearly over the warm-up, then stays
            or falls to zero at the last step.
        betas, weight_decay, momentum: of the optimisers. grad_clip: largest gradient norm, 0 is off.
        precision: "float32", or for the matrix products "tf32" or "bfloat16". "auto": the fastest that the
            device computes in hardware, settled when a run starts; its record names the one that it was.
        compile: hand the network to `torch.compile` (worth it on a GPU).
        seed: of the initial weights. data_seed: of the episodes; update n reads episodes
            that depend on (data_seed, n) alone, which is why a resumed run is exact.
        eval_every, eval_episodes, eval_seed: the learning curve's grid and its fixed episodes.
        n_snapshots: how many log-spaced copies of the weights are kept on the way.
        pool: 0 draws fresh episodes for every update; N draws from a fixed set of N episodes,
            which depends on data_seed alone.
        frozen, frozen_from: names of parameters, or patterns such as "*.query.weight", that stay as
            they are from update `frozen_from` on (0: as they were drawn).
        curriculum: easier tunnels to be trained in first, one after the other: what each changes in
            `tunnel_config`, which is the last stage. They share the last stage's network.
        mastery: the running accuracy at which the next stage begins, 0..1 (see `loop.PACE`).
        until: the running accuracy in the recipe's own tunnel at which the run ends, before its steps
            are used up; 0: never. So a run tells how long a network takes to get there.
    Raises:
        ValueError: for a value that no run could use.
    """

    tunnel: str
    architecture: str
    steps: int
    tunnel_config: dict = field(default_factory=dict)
    model_config: dict = field(default_factory=dict)
    batch_size: int = 64
    supervision: str = "sampled"
    optimiser: str = "muon"
    learning_rate: float = 6e-3
    matrix_learning_rate: float = 2e-2
    schedule: str = "linear"
    warmup_steps: int = 0
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    momentum: float = 0.95
    grad_clip: float = 1.0
    precision: str = "float32"
    compile: bool = False
    seed: int = 0
    data_seed: int = 0
    eval_every: int = 100
    eval_episodes: int = 256
    eval_seed: int = 20251227
    n_snapshots: int = 0
    pool: int = 0
    frozen: tuple[str, ...] = ()
    frozen_from: int = 0
    curriculum: tuple[dict, ...] = ()
    mastery: float = 0.97
    until: float = 0.0

    def __post_init__(self):
        for name in ("betas", "frozen"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "curriculum", tuple(dict(stage) for stage in self.curriculum))
        for name in ("tunnel_config", "model_config"):  # own copies: a preset's stay as they are
            object.__setattr__(self, name, dict(getattr(self, name)))
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}: choose one of {', '.join(allowed)}"
                )
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least {least}")
        for name in ("learning_rate", "matrix_learning_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be positive")
        if not 0 < self.mastery <= 1:
            raise ValueError(f"mastery is {self.mastery}: an accuracy, above 0 and at most 1")
        if not 0 <= self.until <= 1:
            raise ValueError(f"until is {self.until}: an accuracy, above 0 and at most 1, or 0 for all steps")
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"warmup_steps is {self.warmup_steps} in a run of {self.steps} steps: "
                "it must end before the run does"
            )

    def to_dict(self) -> dict:
        """Plain JSON types."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_dict(cls, values: dict) -> Recipe:
        """The recipe that `to_dict` wrote; ValueError names fields that no recipe has."""
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(f"a recipe has no field {', '.join(unknown)}")
        return cls(**values)

    @property
    def tag(self) -> str:
        """Eight hexadecimal digits that name this recipe; any change gives another tag."""
        values = self.to_dict()
        for entry in fields(self):
            if entry.name in LATER and getattr(self, entry.name) == entry.default:
                del values[entry.name]
        text = json.dumps(values, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def but(self, **changes: object) -> Recipe:
        """The same recipe with some fields changed; names that do not exist are refused."""
        unknown = sorted(set(changes) - {f.name for f in fields(self)})
        if unknown:
            raise ValueError(f"a recipe has no field {', '.join(unknown)}")
        return replace(self, **changes)

    def rate(self, step: int) -> float:
        """The learning rate's multiple, 0..1, at update `step` (counted from 0)."""
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        left = 1 - (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        return {"constant": 1.0, "linear": left, "cosine": 0.5 - 0.5 * math.cos(math.pi * left)}[
            self.schedule
        ]

    @property
    def snapshot_steps(self) -> tuple[int, ...]:
        """Log-spaced updates after which the weights are kept, the last step among them."""
        if self.n_snapshots < 1:
            return ()
        if self.n_snapshots == 1:
            return (self.steps,)
        ratio = self.steps ** (1 / (self.n_snapshots - 1))
        return tuple(sorted({max(1, round(ratio**i)) for i in range(self.n_snapshots)} | {self.steps}))

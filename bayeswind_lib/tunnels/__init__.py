"""Wind tunnels: tasks whose posterior is known exactly. They know no model."""

from bayeswind_lib.tunnels.base import Episodes, Interface
from bayeswind_lib.tunnels.bijection import Bijection
from bayeswind_lib.tunnels.hmm import HMM
from bayeswind_lib.tunnels.recall import Recall
from bayeswind_lib.tunnels.recurrence import Recurrence
from bayeswind_lib.tunnels.regression import Regression

TUNNELS = {
    "bijection": Bijection, "hmm": HMM, "regression": Regression, "recall": Recall,
    "recurrence": Recurrence,
}


def build(name: str, config: dict | None = None):
    """The tunnel called `name`, built with `config`; ValueError if there is none of that name."""
    if name not in TUNNELS:
        raise ValueError(f"no tunnel is called {name!r}: choose one of {', '.join(TUNNELS)}")
    return TUNNELS[name](**(config or {}))


__all__ = [
    "HMM", "TUNNELS", "Bijection", "Episodes", "Interface", "Recall", "Recurrence", "Regression", "build",
]

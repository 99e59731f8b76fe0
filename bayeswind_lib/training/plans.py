"""Plans: named grids of training runs, each run a cell with the name under which it may ship.

Axes of a grid: tunnel x architecture x variant x seed, or one recipe with one field varied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bayeswind_lib.training.recipe import Recipe


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


PLANS: dict[str, Callable[[], list[Cell]]] = {}


def plan(name: str) -> list[Cell]:
    """The cells of a named plan, in the order in which they should be run.

    Raises:
        ValueError: if there is no plan of that name; the message lists what there is.
    """
    if name not in PLANS:
        raise ValueError(f"no plan is called {name!r}: choose one of {', '.join(PLANS)}")
    return PLANS[name]()

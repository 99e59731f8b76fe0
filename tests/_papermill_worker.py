"""papermill's own command, with one engine more: `--engine writes-once`.

papermill writes the whole notebook before and after every cell, so that a reader of a long run
sees how far it is. In a test nobody looks, and it takes a quarter of the time.
"""

from __future__ import annotations

from papermill.cli import papermill
from papermill.engines import NBClientEngine, papermill_engines


class WritesOnce(NBClientEngine):
    """papermill's engine, but the notebook is written when all has run or a cell has failed."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, **settings):
        nb_man.save = lambda **_: None
        try:
            return super().execute_managed_notebook(nb_man, kernel_name, **settings)
        finally:
            del nb_man.save


if __name__ == "__main__":
    papermill_engines.register("writes-once", WritesOnce)
    papermill()

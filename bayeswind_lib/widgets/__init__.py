"""Explorers for a running notebook; each has a twin in the book that needs no kernel.

Needs ipywidgets, which is imported with this package and not before.
"""

from bayeswind_lib.widgets.bijection import BijectionExplorer, bijection_explorer

__all__ = ["BijectionExplorer", "bijection_explorer"]

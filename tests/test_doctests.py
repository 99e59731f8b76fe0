"""Every example in a docstring of the library says the truth."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import bayeswind_lib

MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(bayeswind_lib.__path__, "bayeswind_lib.")
    if not m.name.endswith("__main__")
)


@pytest.mark.parametrize("name", ["bayeswind_lib", *MODULES])
def test_examples(name):
    result = doctest.testmod(importlib.import_module(name), verbose=False)
    assert result.failed == 0


def test_there_are_examples():
    """So that a change of markup cannot silently switch all of them off."""
    finder = doctest.DocTestFinder()
    core = ("", ".tunnels.bijection", ".scoring", ".training.presets")
    for name in core:
        module = importlib.import_module(f"bayeswind_lib{name}")
        assert any(found.examples for found in finder.find(module)), name


def test_a_wrong_example_is_noticed():
    text = ">>> 1 + 1\n3\n"
    example = doctest.DocTestParser().get_doctest(text, {}, "wrong", None, 0)
    result = doctest.DocTestRunner(verbose=False).run(example, out=lambda words: None)
    assert result.failed == 1

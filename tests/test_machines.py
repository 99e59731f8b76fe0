"""Other processors: three chapters say the same, in `read`, with the sums of other processors' kernels.

numpy's OpenBLAS, PyTorch's own kernels, MKL and oneDNN each choose their code by the processor; the settings below choose for
them. Every cell has to run, every assert to hold, and every number handed to the text to be the one of the build, as
`make notebooks` compares numbers.
"""

from __future__ import annotations

import ast
import json

import pytest
from _support import CHAPTERS, site_folder
from _support_canaries import Canaries

import bayeswind_lib as bw
from tools.plain_markdown import close

NAMES = ("04_hmm", "13_beliefs", "16_em")  # recursions in float64; decompositions; many small sums, one after the other
OLDEST = {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}
ONE_BY_ONE = [
    {"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Sandybridge"},
    {"ATEN_CPU_CAPABILITY": "avx2"}, {"ATEN_CPU_CAPABILITY": "default"},
    {"MKL_CBWR": "COMPATIBLE"}, {"MKL_CBWR": "AVX2"},
]  # fmt: skip
BUDGET, PATIENCE = 20.0, 5.0  # processor seconds of a chapter


@pytest.fixture(scope="module")
def glued(site) -> dict:
    """By page, what cells handed to the text when the book was built."""
    return json.loads((site_folder().parent / "labels.json").read_text("utf-8"))["glue"]


def number(text: str) -> float | None:
    """The number that a value is, if it is one and no count."""
    value = ast.literal_eval(text) if text[:1] not in "ni" else float(text)
    return value if isinstance(value, float) else None


def same(now: str, built: str) -> bool:
    """Whether two values would be printed alike, up to what `make notebooks` forgives."""
    values = number(now), number(built)
    if None in values:
        return now == built or close(now, now, built, 0.02)
    small, large = sorted(map(abs, values))
    return values[0] == values[1] or large < 1e-12 or abs(values[0] - values[1]) <= 0.02 * large


def runs_alike(name: str, setting: dict[str, str], glued: dict, folder) -> None:
    """The chapter's cells run with this setting, and hand over what the build handed over."""
    running = Canaries(**setting)
    try:
        found = running.run(CHAPTERS / f"{name}.ipynb", bw.checkpoints.weights_folder(), folder / "run", spoil=False)
    finally:
        running.close()
    assert found.whole.error is None, found.whole.text
    built = glued[f"chapters/{name}"]
    assert found.whole.glued.keys() == built.keys()
    moved = {key: (now, built[key]) for key, now in found.whole.glued.items() if not same(now, built[key])}
    assert not moved
    assert found.whole.seconds < PATIENCE * BUDGET


@pytest.mark.parametrize("name", NAMES)
def test_the_oldest_kernels_say_the_same(name, glued, tmp_path):
    runs_alike(name, OLDEST, glued, tmp_path)


@pytest.mark.weekly
@pytest.mark.parametrize("setting", ONE_BY_ONE, ids=lambda setting: "=".join(*setting.items()))
@pytest.mark.parametrize("name", NAMES)
def test_each_library_with_other_kernels_says_the_same(name, setting, glued, tmp_path):
    runs_alike(name, setting, glued, tmp_path)


def test_what_counts_as_the_same():
    assert same("2.0", "2.03") and not same("2.0", "2.05") and not same("2", "3") and not same("2.0", "nan")
    assert same("3e-16", "2e-17") and not same("3e-16", "2e-3") and same("inf", "inf") and same("'words'", "'words'")
    assert same("'0.101 to 0.2'", "'0.102 to 0.2'") and not same("'3 of 4'", "'4 of 4'") and not same("True", "False")


@pytest.mark.parametrize("setting", [{"ATEN_CPU_CAPABILITY": "default"}, {"OPENBLAS_CORETYPE": "Nehalem"}], ids=str)
def test_the_settings_are_heard(setting):
    """Or the tests above would compare a processor with itself."""
    from _support import run_python, single_threaded

    seen = """import numpy, torch, threadpoolctl
numpy.ones((2, 2)) @ numpy.ones((2, 2))
blas = [found["architecture"] for found in threadpoolctl.threadpool_info() if found["internal_api"] == "openblas"]
print({"ATEN_CPU_CAPABILITY": torch.backends.cpu.get_cpu_capability(), "OPENBLAS_CORETYPE": blas[:1]})"""
    (name, value), = setting.items()
    done = run_python("-c", seen, env=single_threaded(**setting))
    assert value.lower() in str(ast.literal_eval(done.output)[name]).lower(), done.output

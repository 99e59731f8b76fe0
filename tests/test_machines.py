"""Other machines: three chapters say the same, whole and in `read`, with the sums of other processors' kernels; each week on a busy machine too.

numpy's OpenBLAS, PyTorch's own kernels, MKL and oneDNN each choose their code by the processor; the settings below choose for
them. Every cell has to run, every assert to hold, and every number handed to the text to be the one of the build, as
`make notebooks` compares numbers. The busy machine has two loops that never rest, and the chapter goes behind them (`nice`):
what waits for a clock, or measures by one, goes wrong there. Processor seconds count, and nothing is limited by the clock.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from _support import CHAPTERS, HANGS, site_folder
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
BEHIND = 5  # of 19: how far a chapter lets others go first on the busy machine
# Two loops that end with the process that started them, which ends when nobody holds its input any more, however that came.
# It does not wait for them: so their seconds count as another's, and not as the test's.
BUSY = """import os, sys
above = os.getpid()
for _ in range(2):
    if not (pid := os.fork()):
        while os.getppid() == above:
            sum(range(100_000))
        os._exit(0)
    print(pid, flush=True)
sys.stdin.read()
"""


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


@contextlib.contextmanager
def busy() -> Iterator[list[int]]:
    """A machine with two loops beside the test while this context lasts; their process ids."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as above:
        yield [int(above.stdout.readline()) for _ in range(2)]


def wrong(name: str, setting: dict[str, str], glued: dict, folder: Path, behind: int = 0) -> str:
    """Why a chapter's cells do not run with this setting, or which values they hand over that are not the build's; "" if all is well."""
    running = Canaries(behind, **setting)
    try:
        found = running.run(CHAPTERS / f"{name}.ipynb", bw.checkpoints.weights_folder(), folder / "run", spoil=False).whole
    finally:
        running.close()
    if found.error is not None:
        return found.text
    built = glued[f"chapters/{name}"]
    if found.glued.keys() != built.keys():
        return f"names that only one of the two has: {sorted(found.glued.keys() ^ built.keys())}"
    moved = {key: (now, built[key]) for key, now in found.glued.items() if not same(now, built[key])}
    if moved:
        return f"now, and in the build: {moved}"
    return f"{found.seconds:.0f} processor seconds" if found.seconds > PATIENCE * BUDGET else ""


@pytest.mark.parametrize("name", NAMES)
def test_an_old_machine_says_the_same(name, glued, tmp_path):
    """The oldest kernels of all libraries."""
    assert not wrong(name, OLDEST, glued, tmp_path)


@pytest.mark.weekly
@pytest.mark.parametrize("name", NAMES)
def test_an_old_and_busy_machine_says_the_same(name, glued, tmp_path):
    """The same behind two busy loops; what fails is run again without them, which tells whose fault it is."""
    with busy():
        both = wrong(name, OLDEST, glued, tmp_path / "both", BEHIND)
    if both:
        alone = wrong(name, OLDEST, glued, tmp_path / "alone")
        pytest.fail(f"old and busy: {both}\nold, not busy: {alone or 'all is well'}")


@pytest.mark.weekly
@pytest.mark.parametrize("setting", ONE_BY_ONE, ids=lambda setting: "=".join(*setting.items()))
@pytest.mark.parametrize("name", NAMES)
def test_each_library_with_other_kernels_says_the_same(name, setting, glued, tmp_path):
    assert not wrong(name, setting, glued, tmp_path)


def gone(pids: list[int]) -> bool:
    """Whether all of some processes have ended; waits for it."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        states = [Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in pids if Path(f"/proc/{pid}").is_dir()]
        if set(states) <= {"Z"}:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.weekly
def test_the_loops_are_there_and_end_however_the_test_ends():
    """Chapters go behind them; they end with a failure inside, and with a test that is killed."""
    with pytest.raises(ZeroDivisionError), busy() as loops:
        running = Canaries(BEHIND)
        assert os.getpriority(os.PRIO_PROCESS, running.process.pid) == os.getpriority(os.PRIO_PROCESS, loops[0]) + BEHIND
        running.close()
        assert all(os.getpgid(pid) for pid in loops)
        1 / 0
    assert gone(loops)
    killed = subprocess.Popen([sys.executable, "-c", "import test_machines as m\nwith m.busy() as loops:\n    print(*loops, flush=True)\n    input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    loops = [int(word) for word in killed.stdout.readline().split()]
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(loops) == 2 and gone(loops)


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

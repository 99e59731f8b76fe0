"""Deliberately spoilt copies: of shipped networks and records, of a small book, of the notebooks."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from _support import ROOT, Finished, run_python, single_threaded

import bayeswind_lib as bw

CHECK = "from tools import build_notebooks; raise SystemExit(build_notebooks.main(['--check']))"
WORKER = Path(__file__).with_name("_canary_worker.py")
RECORDS = "records"  # the run in which all networks are good and all scores in their records are others


def weights_in(folder: Path) -> Path:
    """A folder with all shipped networks, records and snapshots, as links."""
    (folder / "snapshots").mkdir(parents=True)
    shipped = bw.checkpoints.weights_folder()
    for path in (*shipped.iterdir(), *(shipped / "snapshots").iterdir()):
        if path.suffix in (".json", ".safetensors") and not path.name.startswith("."):
            (folder / path.relative_to(shipped)).symlink_to(path)
    return folder


def put_random_snapshots(folder: Path, name: str, seed: int) -> None:
    """Replace all snapshots of a run by networks that were never trained, under the same name, note and all."""
    found = bw.checkpoints.load_snapshots(name, seed)
    rng = torch.Generator().manual_seed(7)
    config = (found.note["architecture"], found.note["config"])
    weights = {step: bw.models.build(*config, rng).state_dict() for step in found.steps}
    bw.checkpoints.snapshots.path_of_snapshots(name, seed, folder).unlink()
    bw.checkpoints.save_snapshots(weights, found.note, folder)


def put_random_weights(folder: Path, name: str, seed: int) -> None:
    """Replace one network by one that was never trained, under the same name, record and all."""
    record = bw.checkpoints.read_record(bw.checkpoints.path_of(name, seed))
    rng = torch.Generator().manual_seed(7)
    model = bw.models.build(record["architecture"], record["config"], rng)
    for suffix in (".safetensors", ".json"):
        bw.checkpoints.path_of(name, seed, folder).with_suffix(suffix).unlink()
    bw.checkpoints.save(model, record, name, seed, folder)


def change_scores(folder: Path, name: str, seed: int, factor: float) -> None:
    """Multiply the scores in one record, as if they had been typed."""
    path = bw.checkpoints.path_of(name, seed, folder).with_suffix(".json")
    record = json.loads(path.read_text())
    scores = record["scores"]
    record["scores"] = {
        key: value * factor if key in ("entropy_mae", "kl", "tv") else value
        for key, value in scores.items()
    }
    path.unlink()
    path.write_text(json.dumps(record))


@dataclass(frozen=True)
class CellsRun:
    """How a run of a notebook's cells ended: the exception's name (None: all cells ran), the end of its text, the networks
    whose weights were read, as (name, seed), how many cells ran, processor seconds, and what was handed to the text."""

    error: str | None
    text: str
    opened: list[tuple[str, int]]
    cells: int
    seconds: float
    glued: dict[str, str]


@dataclass(frozen=True)
class Spoilt:
    """How a notebook ends: as it is; when all records of networks that it loads hold other scores (None: it loads none); and
    when one network is untrained, for each that it loads. What the first run wrote to stderr."""

    whole: CellsRun
    records: CellsRun | None
    networks: dict[tuple[str, int], CellsRun]
    stderr: str


class Canaries:
    """A process that has the library imported, and runs notebooks in copies of itself; `nice` lets others go first."""

    def __init__(self, nice: int = 0, **environ: str):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, WORKER], env=single_threaded(**environ), **pipes)
        if nice:
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, self.process.pid, own + nice)

    def run(self, notebook: Path, weights: Path, folder: Path, preset: str = "", spoil: bool = True) -> Spoilt:
        """Run a notebook's cells up to the first that fails, in a new folder; in another preset, if one is given.

        Without `spoil` no network or record is replaced.
        """
        job = [*map(str, (notebook, weights, folder)), preset, spoil]
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        code = self.process.stdout.readline().strip()
        stderr = (folder / "stderr.txt").read_text(errors="replace") if folder.is_dir() else ""
        if code != "0" or not (folder / "whole.json").is_file():
            raise RuntimeError(f"{notebook.name}: the run ended with {code or 'the process itself'}: {stderr[-3000:]}")
        ends = {}
        for path in folder.glob("*.json"):
            end = json.loads(path.read_text())
            ends[path.stem] = CellsRun(**end | {"opened": networks_in(end["opened"])})
        whole, records = ends.pop("whole"), ends.pop(RECORDS, None)
        networks = {networks_in([f"{name.replace('+', '/')}.safetensors"])[0]: end for name, end in ends.items()}
        return Spoilt(whole, records, networks, stderr)

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def networks_in(files: list[str]) -> list[tuple[str, int]]:
    """The networks among files of weights, as (name, seed); a run's snapshots as ("snapshots/" + name, seed)."""
    found = [re.fullmatch(r"(.+)-seed(\d+)\.safetensors", name) for name in files]
    return sorted((match[1], int(match[2])) for match in found if match)


def build_command() -> list[str]:
    """The words with which the book is built, options included."""
    from tools import steps  # here: a process of its own imports this module too, without pytest's paths

    return steps.BUILD


def small_book(folder: Path, text: str, **more: str) -> Finished:
    """Build a book of one page, or of more, with this book's own settings, extensions and options."""
    for name in ("_ext", "tools"):
        shutil.copytree(ROOT / "book" / name, folder / "book" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("book/_static", "book/_templates", "bayeswind_lib/widgets/web"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("_config.yml", "requirements.txt", "book/references.bib", "book/glossary.toml", "bayeswind_lib/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    chapters = "".join(f"- file: {name}\n" for name in more)
    (folder / "_toc.yml").write_text("format: jb-book\nroot: page\n" + (f"chapters:\n{chapters}" if more else ""))
    for name, content in {"page": text, **more}.items():
        (folder / f"{name}.md").write_text(HEADER + content)
    return run_python(*build_command(), cwd=folder)


HEADER = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst, format_version: 0.13}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A page

"""


def notebooks_copy(folder: Path) -> Path:
    """A copy of what the notebooks are made from, and of the notebooks."""
    skip = shutil.ignore_patterns("__pycache__", "_static")
    for name in ("book", "chapters"):
        shutil.copytree(ROOT / name, folder / name, ignore=skip)
    (folder / "bayeswind_lib").mkdir()
    (folder / "_build").mkdir()
    files = ("_config.yml", "_toc.yml", "README.md", "CITATION.cff", "_build/labels.json")
    for name in (*files, "bayeswind_lib/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def check_notebooks(folder: Path) -> Finished:
    """Compare the notebooks of a copy with what its chapters and numbers would make."""
    return run_python("-c", CHECK, cwd=folder, env=single_threaded(PYTHONPATH="book"))


def pytest_alone(*words: str, **environ: str | None) -> Finished:
    """Run a few tests in a process of their own."""
    quiet = ("-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "-rA", "-q")
    return run_python("-m", "pytest", *quiet, *words, env=single_threaded(**environ))

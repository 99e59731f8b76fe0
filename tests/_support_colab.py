"""A stand-in for Colab: an environment with what Colab preinstalls, and the repository behind git.

The clean environment is built once for each list of versions (`_build/.colab/`) and never written to
again: a rehearsal gets a thin layer above it, into which the notebooks' own install line puts what it puts.
Where processes fork, the kernels of a layer come from one process that has its packages imported.
"""

from __future__ import annotations

import ensurepip
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import venv
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from _support import ROOT, Finished, run, single_threaded

from tools import colab_check

sys.path.append(str(ROOT / "book/_ext"))
from bayeswind_kernels import IMPORTS, Kernel, Nursery  # noqa: E402

PREINSTALLED = ROOT / "tests" / "colab_preinstalled.txt"
CACHE = ROOT / "_build" / ".colab"
INSTALL = re.compile(
    r'%pip install (?P<options>.*?)"(?P<name>[\w.-]+) @ git\+(?P<url>https://[^@"]+)@(?P<tag>[^"]+)"'
)


def preinstalled() -> list[str]:
    """The packages that Colab brings, from the one list in the repository."""
    lines = (line.partition("#")[0].strip() for line in PREINSTALLED.read_text().splitlines())
    return [line for line in lines if line]


def with_dependencies(
    names: list[str], find: Callable = importlib.metadata.distribution
) -> dict[str, importlib.metadata.Distribution]:
    """The named packages and all that they require here, by canonical name; extras count.

    PyTorch's default build asks for `cuda-toolkit[cufile, ...]`, and the libraries that it loads
    are requirements of these extras.
    """
    found, asked, waiting = {}, set(), [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        found[name] = found.get(name) or find(wanted.name)
        for extra in ("", *wanted.extras):
            if (name, extra) in asked:
                continue
            asked.add((name, extra))
            lines = map(Requirement, found[name].requires or [])
            waiting += [r for r in lines if needed(r, extra)]
    return found


def needed(requirement: Requirement, extra: str) -> bool:
    """Whether a package's requirement is one here, if the package is asked for with this extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def clean_environment() -> Path:
    """The folder of an environment that holds the preinstalled packages and nothing else.

    Its files are those that the book's own environment holds for these packages, linked: the same
    versions, a second's work, no space. pip is the one that Python itself carries: an environment
    made by uv has none. Built once for each list of versions.
    """
    packages = with_dependencies(preinstalled())
    versions = sorted(f"{name}=={package.version}" for name, package in packages.items())
    versions.append(f"pip=={ensurepip.version()}")
    key = hashlib.sha256("\n".join([sys.version, *versions]).encode()).hexdigest()[:12]
    folder, growing = CACHE / key, CACHE / f"{key}.{os.getpid()}"
    if not folder.is_dir():
        venv.create(growing, with_pip=True)
        for package in packages.values():
            link_package(package, packages_of(growing))
        try:
            growing.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(growing)
    return folder


def link_package(package: importlib.metadata.Distribution, target: Path) -> None:
    """Put an installed package's modules and metadata into another environment."""
    for file in package.files or []:
        source, place = Path(package.locate_file(file)), target / file
        if ".." in file.parts or not source.is_file():
            continue  # commands and data outside the packages' folder
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, place)
        except OSError:  # another file system: a copy does as well
            shutil.copy(source, place)


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def packages_of(folder: Path) -> Path:
    """Where an environment keeps its packages."""
    scheme = "nt_venv" if os.name == "nt" else "posix_venv"
    return Path(sysconfig.get_path("purelib", scheme, {"base": str(folder)}))


def layer(folder: Path) -> Path:
    """A fresh environment that sees the clean one's packages and installs into itself."""
    venv.create(folder, with_pip=False)
    (packages_of(folder) / "below.pth").write_text(f"{packages_of(clean_environment())}\n")
    return folder


def frozen(folder: Path) -> dict[str, str]:
    """The packages that an environment sees, and their versions: its own win over those below."""
    places = (packages_of(clean_environment()), packages_of(folder))
    found = [d for place in places for d in importlib.metadata.distributions(path=[str(place)])]
    return {canonicalize_name(package.metadata["Name"]): package.version for package in found}


@dataclass(frozen=True)
class InstallLine:
    """The line of a bootstrap cell that brings the helper package."""

    options: tuple[str, ...]
    name: str
    url: str
    tag: str


def install_line(source: str) -> InstallLine:
    """Read the install line out of a cell.

    Raises:
        ValueError: if there is not exactly one.
    """
    found = list(INSTALL.finditer(source))
    if len(found) != 1:
        raise ValueError(f"{len(found)} install lines in the cell, expected one:\n{source}")
    match = found[0]
    return InstallLine(tuple(match["options"].split()), match["name"], match["url"], match["tag"])


def tagged_repository(folder: Path, tag: str) -> Path:
    """A bare repository whose tag holds this checkout, changes that are not committed included.

    Nothing is written to the checkout's own repository.
    """
    bare = folder / "repository.git"
    _git("clone", "--quiet", "--bare", str(ROOT), str(bare))
    who = {f"GIT_{role}_{what}": "tests@localhost" for role in ("AUTHOR", "COMMITTER")
           for what in ("NAME", "EMAIL")}  # fmt: skip
    index = str(folder / "index")
    here = {"GIT_DIR": str(bare), "GIT_WORK_TREE": str(ROOT), "GIT_INDEX_FILE": index}
    _git("read-tree", "HEAD", **here)
    _git("add", "--all", ".", **here)
    tree = _git("write-tree", **here)
    commit = _git("commit-tree", tree, "-p", "HEAD", "-m", "as it lies here", **here, **who)
    _git("tag", "--force", tag, commit, **here)
    # As on GitHub: pip asks for the files of one commit, without those of the whole history.
    _git("config", "uploadpack.allowFilter", "true", **here)
    _git("config", "uploadpack.allowAnySHA1InWant", "true", **here)
    return bare


def _git(*words: str, **environ: str) -> str:
    """git; its output. Raises if it fails."""
    done = subprocess.run(
        ["git", *words], cwd=ROOT, env={**os.environ, **environ}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"git {' '.join(words)}: {done.stderr}")
    return done.stdout.strip()


def instead_of(url: str, bare: Path) -> dict[str, str]:
    """Environment variables with which git fetches `bare` where `url` is asked for."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{bare.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": url,
        "GIT_TERMINAL_PROMPT": "0",
    }


def only(environment: Path, **more: str) -> dict[str, str]:
    """An environment without a way back to this checkout's packages."""
    path = os.pathsep.join([str(python_of(environment).parent), os.environ.get("PATH", "")])
    gone = dict.fromkeys(("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "BAYESWIND_WEIGHTS"))
    return single_threaded(PATH=path, **gone, **more)


def ask(environment: Path, code: str, **more: str) -> Finished:
    """Run a line of Python in an environment, away from the checkout."""
    return run([python_of(environment), "-c", code], cwd=environment, env=only(environment, **more))


# Stands where a kernel's own words would: asks for a fork with its words, folder and variables, and ends as that ends.
STAND_IN = """import os, sys
from multiprocessing.connection import Client
with Client(sys.argv[1]) as kernels:
    kernels.send((sys.argv[2:], os.getcwd(), dict(os.environ)))
    sys.exit(kernels.recv())
"""


class Kernels:
    """What starts the kernels of an environment: `command`; and the processor `seconds` of those that have ended.

    They are forked where that is possible; elsewhere each is a process of its own, whose seconds are not known here.
    """

    def __init__(self, environment: Path, env: dict[str, str]):
        self.command, self.seconds, self.answers = colab_check.kernel_command(python_of(environment)), 0.0, []
        self.nursery = self.folder = None
        if not Nursery.possible:
            return
        self.nursery = Nursery(IMPORTS, str(python_of(environment)), env)
        self.folder = tempfile.TemporaryDirectory(prefix="bw")  # an address of this kind has to be short
        script, address = (str(Path(self.folder.name, name)) for name in ("kernel.py", "asked"))
        Path(script).write_text(STAND_IN)
        self.listener = Listener(address)
        python, *words = self.command
        self.command = [python, "-I", script, address, *words[words.index("-f"):]]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        """Answer each that asks, until the listener is closed."""
        while True:
            try:
                asked = self.listener.accept()
            except OSError:
                return
            self.answers.append(threading.Thread(target=self.answer, args=(asked,), daemon=True))
            self.answers[-1].start()

    def spent(self) -> float:
        """The processor seconds so far, once those kernels have ended that were asked for: their end is noticed a moment later."""
        for thread in self.answers:
            thread.join(60)
        return self.seconds

    def answer(self, asked: Connection) -> None:
        """Fork a kernel, and say how it ended; if nobody waits for that any more, end it."""
        try:
            kernel = Kernel(self.nursery, self.nursery.ask("fork", *asked.recv()))
            while kernel.poll() is None:
                if asked.poll(0.05):  # nothing is ever sent: it is gone
                    kernel.kill()
            self.seconds += kernel.processor_seconds or 0.0
            asked.send(max(kernel.returncode, 0))
        except (EOFError, OSError):  # it went while it was answered, or the process that forks did
            pass
        asked.close()

    def close(self) -> None:
        """End what still runs."""
        if self.nursery:
            self.listener.close()
            self.nursery.close()
            self.folder.cleanup()

"""Which tunnels there are: the library's own, the worked examples, and the reader's.

A tunnel is a class with `sample`, `interface` and `config`; `register` enters it under a name, and
from then on everything that takes a tunnel's name takes this one. All tunnels come in by this door.
What a class may say besides, none of it needed:

    presets      {"smoke" | "classroom" | "paper": arguments}; what is not there is what the class defaults to
    supervision  "sampled" (the default) or "posterior": what its networks are trained on
    variants     {name: arguments}: changes that have a name of their own in recipes
    claims       entries as in ledger/claims.toml, about networks in this tunnel (see ledger.own)
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from pathlib import Path

from bayeswind_lib.tunnels.base import AnyTunnel

TUNNELS: dict[str, type] = {}
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
NEEDED = {
    "sample": "sample(batch, rng, device=None) draws Episodes",
    "interface": "interface is a property that holds an Interface",
    "config": "config is a property that holds the arguments that build the tunnel again (a dataclass that is a bw.tunnels.Tunnel has it)",
}
SIZES = ("smoke", "read", "classroom", "paper")
SUPERVISIONS = ("sampled", "posterior")


def register(name: str):
    """A decorator that enters a class as the tunnel called `name`.

    A class that is defined again at the same place (a cell run twice) takes the place of the first.

    Raises:
        ValueError: if the name is none or is taken, or if the class lacks something; the message says what.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"{name!r} is no name for a tunnel: write @register(\"name\"), small letters, digits and _")

    def enter(kind: type) -> type:
        _refuse(name, kind)
        kind.name = name
        TUNNELS[name] = kind
        return kind

    return enter


def _refuse(name: str, kind: type) -> None:
    """ValueError for a class that is no tunnel, or whose name another one has."""
    if not inspect.isclass(kind):
        raise ValueError(f"{name}: register decorates a class, not {kind!r}")
    for member, what in NEEDED.items():
        if not hasattr(kind, member):
            raise ValueError(f"the tunnel {name} has no {member}: {what}")
    try:
        inspect.signature(kind.sample).bind("self", "batch", "rng", "device")
    except TypeError as problem:
        raise ValueError(f"the tunnel {name} has a sample that cannot be called as {NEEDED['sample']}: {problem}") from None
    old = TUNNELS.get(name)
    if old is not None and (_place(old), old.__qualname__) != (_place(kind), kind.__qualname__):
        raise ValueError(f"the name {name!r} is taken by {old.__module__}.{old.__qualname__}: choose another one")
    presets, supervision = presets_of(kind), supervision_of(kind)
    if unknown := sorted(set(presets) - set(SIZES)):
        raise ValueError(f"the tunnel {name} has presets for {', '.join(unknown)}: choose among {', '.join(SIZES)}")
    if supervision not in SUPERVISIONS:
        raise ValueError(f"the tunnel {name} has supervision {supervision!r}: choose one of {', '.join(SUPERVISIONS)}")


def _place(kind: type) -> str:
    """Where a class is defined: its module's file, or the module (a notebook has no file)."""
    module = sys.modules.get(kind.__module__)
    return getattr(module, "__file__", None) or kind.__module__


def presets_of(kind: type) -> dict[str, dict]:
    """The arguments of a tunnel's class at each size that it names."""
    return dict(getattr(kind, "presets", {}))


def supervision_of(kind: type) -> str:
    """What networks in this tunnel are trained on unless a recipe says otherwise."""
    return getattr(kind, "supervision", "sampled")


def find(name: str) -> type:
    """The class of the tunnel called `name`; worked examples are imported when they are asked for.

    Raises:
        ValueError: if there is none of that name.
    """
    if name not in TUNNELS and name in example_names():
        importlib.import_module(f"bayeswind_lib.examples.{name}")
    if name not in TUNNELS:
        raise ValueError(
            f"no tunnel is called {name!r}: choose one of {_known()}; one of your own has "
            "to be registered first: import the file that does so"
        )
    return TUNNELS[name]


def is_known(name: str) -> bool:
    """Whether a tunnel is called so."""
    return name in TUNNELS or name in example_names()


def _known() -> str:
    """The names of all tunnels, the worked examples apart, whether or not they were asked for."""
    examples = [module.name for module in pkgutil.iter_modules([str(EXAMPLES)])]
    return f"{', '.join(name for name in TUNNELS if name not in examples)} (worked examples: {', '.join(examples)})"


def example_names() -> list[str]:
    """The worked examples that nobody has asked for yet."""
    return [module.name for module in pkgutil.iter_modules([str(EXAMPLES)]) if module.name not in TUNNELS]


def build(name: str, config: dict | None = None) -> AnyTunnel:
    """The tunnel called `name`, built with `config` (its arguments by name; those left out have their defaults).

    Raises:
        ValueError: if there is none of that name, or it cannot be built so.

    >>> build("bijection", {"n_values": 3})
    Bijection(n_values=3, n_pairs=3, with_replacement=False)
    """
    kind = find(name)
    try:
        return kind(**(config or {}))
    except TypeError as problem:
        raise ValueError(f"the tunnel {name} cannot be built with {config or {}}: {problem}") from None


def load_file(path: str | Path) -> str:
    """Run a Python file that registers one tunnel, and return the tunnel's name.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file cannot be run, or registers no tunnel, or several.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; a tunnel of your own is a Python file")
    module_name = f"bayeswind_tunnel_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    before = dict(TUNNELS)
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # a dataclass looks for its module there
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        TUNNELS.clear()
        TUNNELS.update(before)
        del sys.modules[module_name]
        raise ValueError(f"{path}: {_told(problem, path)}") from problem
    names = [name for name, kind in TUNNELS.items() if kind.__module__ == module_name]
    if len(names) != 1:
        found = f"registers {len(names)} tunnels ({', '.join(names)})" if names else "registers no tunnel"
        TUNNELS.clear()
        TUNNELS.update(before)
        raise ValueError(f'{path}: {found}: write @bw.tunnels.register("name") before one class')
    return names[0]


def _told(problem: Exception, path: Path) -> str:
    """An exception in one line, with the line of the file where it arose."""
    trace, line = problem.__traceback__, getattr(problem, "lineno", None)
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    where = "" if line is None else f"line {line}: "
    kind = "" if isinstance(problem, ValueError) else f"{type(problem).__name__}: "
    return f"{where}{kind}{problem}"

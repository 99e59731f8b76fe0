"""The published side of the ledger: `claims.toml`, read and checked."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path

from bayeswind_lib.ledger.baselines import RECORDS

FILE = Path(__file__).parent / "claims.toml"
KINDS = ("paper", "code", "replication", "derived", "reference", "own")
PUBLIC_PARAMETERS = {  # billions, by the model cards
    "EleutherAI/pythia-410m": 0.405, "meta-llama/Llama-3.2-1B": 1.236, "microsoft/phi-2": 2.780,
    "mistralai/Mistral-7B-v0.1": 7.242, "EleutherAI/pythia-12b": 11.846,
}
GATED = ("meta-llama/", "mistralai/")  # whoever downloads these accepts a licence on the hub first
PASSES, READ = 1010, 10.0  # in float32 each pass reads all weights, GB/s; an estimate: a record keeps what it took
TESTS = ("digits", "samples", "reaches", "fails", "at_least", "within")


@dataclass(frozen=True)
class Claim:
    """One published claim; `claims.toml` explains every entry."""

    id: str
    kind: str
    source: str
    statement: str
    published: str
    unit: str
    how: str
    test: str
    tunnel: str
    architecture: str
    null: dict
    not_testable_if: str
    published_to: str | None = None
    bound: str | None = None
    variant: str | None = None
    preset: str = "exact"
    band: float | list[float] | None = None
    partly: float | list[float] | None = None
    fails_above: float | None = None
    fails_below: float | None = None
    network: str | None = None
    smaller: str | None = None
    over: str | None = None
    over_key: str | None = None
    measure: str | None = None
    pairs: int | None = None
    length: int | None = None
    steps: list[int] | None = None
    over_steps: list[int] | None = None
    episodes: int | None = None
    record: str | None = None
    key: str | None = None
    scale: float = 1.0
    read_against: str | None = None
    missing: str | None = None
    weights: str | None = None
    also_weights: list[str] = field(default_factory=list)
    unsigned: bool = False
    opens: dict[str, list[int]] = field(default_factory=dict)
    also: list[str] = field(default_factory=list)
    of_null: bool = False
    picked: str | None = None
    but: str | None = None
    cannot_refute: str | None = None
    waits: str | None = None
    settles: list[str] = field(default_factory=list)
    note: str | None = None
    chapters: list[str] = field(default_factory=list)

    def __post_init__(self):
        for name, allowed in {"kind": KINDS, "test": TESTS, "bound": (None, "<", ">")}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"claim {self.id}: {name} is {getattr(self, name)!r}, "
                    f"choose one of {', '.join(filter(None, allowed))}"
                )
        if (self.network is None) == (self.record is None):
            raise ValueError(f"claim {self.id}: name either a network or a record, not both")
        if self.test == "samples" and self.episodes is None:
            raise ValueError(f"claim {self.id}: the test 'samples' needs the published number of episodes")
        if self.test in ("reaches", "fails", "within") and self.band is None:
            raise ValueError(f"claim {self.id}: the test {self.test!r} needs a band")
        if self.test == "reaches" and self.partly is not None:
            raise ValueError(f"claim {self.id}: the test 'reaches' has no 'partly', twice the band is the rule")
        float(self.published)

    @property
    def value(self) -> float:
        """The published value as a number."""
        return float(self.published)

    @property
    def record_of_base(self) -> str:
        """The record that holds what a network's score is divided by."""
        return RECORDS[self.tunnel]

    @property
    def exact(self) -> bool:
        """Whether what is measured is a computation that nothing random enters: a formula, a count."""
        return self.test == "digits" and self.preset == "exact"

    @property
    def needs_controls(self) -> bool:
        """Whether a failure is one of networks trained here, and so needs the controls of their training.

        Not of an identity, nor of a language model, which is what was released; the races of learning rates
        hold their rates themselves; and a claim about a diagnostic fails by any network that it misjudges.
        """
        if self.network or self.record == "probe_diagnostics":
            return bool(self.network)
        return self.preset != "exact" and (self.record.startswith("probe_") or self.record == "attention_variants")

    @property
    def command(self) -> str:
        """What settles a row that waits for public weights, on a machine that reaches the hub, and what it takes; a line a model."""
        return "\n".join(map(_public_command, (self.weights, *self.also_weights)))

    @property
    def ends(self) -> tuple[str, str]:
        """The lowest and the highest published value, as printed; twice the same if it is one."""
        ends = [self.published, self.published_to or self.published]
        if self.unsigned:
            ends = [end.lstrip("-") for end in ends]
        return tuple(sorted(ends, key=float))

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and highest measured value that counts as reproduced, ends included."""
        if self.test in ("digits", "samples"):
            low, high = self.ends
            return float(low) - half_unit(low), float(high) + half_unit(high)
        if self.test == "at_least":
            return (self.value if self.band is None else float(self.band)), math.inf
        if self.test == "reaches":
            return 0.0, float(self.band)
        return float(self.band[0]), float(self.band[1])

    @property
    def rule(self) -> str:
        """What decides, in words, with the numbers of this claim."""
        low, high = (f"{end:.4g}" for end in self.bounds)
        near = "" if self.partly is None else [f"{float(end):.4g}" for end in _pair(self.partly)]
        return {
            "digits": lambda: f"counts from {low} to {high}" if self.published_to else "counts if every printed digit agrees",
            "samples": lambda: "counts if the two samples agree within their errors",
            "reaches": lambda: f"counts up to {high}",
            "at_least": lambda: f"counts from {low} on" + (f", partly from {near[0]}" if near else ""),
            "within": lambda: (f"counts from {low} to {high}" if low != high else f"only {low} counts") + (f", partly from {near[0]} to {near[1]}" if near else ""),
            "fails": lambda: f"a failure {self._failing}; as published from {low} to {high}",
        }[self.test]()

    @property
    def _failing(self) -> str:
        return f"from {self.fails_above:g} on" if self.fails_above is not None else f"up to {self.fails_below:g}"


def _public_command(model: str) -> str:
    size = 4 * PUBLIC_PARAMETERS[model]
    takes = f"about {1.15 * size:.1f} GB of memory and {1 + PASSES * size / READ / 60:.0f} minutes"
    gate = "; its licence is accepted on the hub first" if model.startswith(GATED) else ""
    return f"python -m bayeswind_lib language {model} --record ({takes}{gate})"


def _pair(value) -> list:
    return list(value) if isinstance(value, list | tuple) else [value]


def half_unit(printed: str) -> float:
    """Half a unit in the last printed digit; a bare "0" or "inf" claims exactness.

    >>> half_unit("1.8490"), half_unit("1.7e-3")
    (5e-05, 5e-05)
    """
    if printed in ("0", "inf"):
        return 0.0 if printed == "inf" else 1e-12
    return float(Decimal(1).scaleb(Decimal(printed).as_tuple().exponent) / 2)


def load_claims(path: str | Path = FILE) -> list[Claim]:
    """All claims in the order of the file, tables written out.

    Raises:
        ValueError: for an unknown entry, a missing one, or an id that occurs twice.
    """
    with open(path, "rb") as file:
        content = tomllib.load(file)
    entries = list(content.get("claim", []))
    for table in content.get("table", []):
        entries += _cells(table)
    known = {f.name for f in fields(Claim)}
    claims, seen = [], set()
    for entry in entries:
        unknown = sorted(set(entry) - known)
        if unknown:
            raise ValueError(f"claim {entry.get('id')}: a claim has no entry {', '.join(unknown)}")
        if entry["id"] in seen:
            raise ValueError(f"claim {entry['id']}: the id occurs twice")
        seen.add(entry["id"])
        try:
            claims.append(Claim(**entry))
        except TypeError as problem:
            raise ValueError(f"claim {entry['id']}: {problem}") from None
    return claims


def _cells(table: dict) -> list[dict]:
    """One entry for each printed cell of a table."""
    own = ("prefix", "columns", "row", "source")
    shared = {"test": "digits"} | {name: value for name, value in table.items() if name not in own}
    entries = []
    for row in table["row"]:
        rest = {k: v for k, v in row.items() if k not in ("id", "printed", "null", "null_measure", "key")}
        for column, printed in zip(table["columns"], row["printed"], strict=True):
            if printed:
                entries.append(shared | rest | {
                    "id": "-".join(part for part in (table["prefix"], row["id"], column["id"]) if part),
                    "source": table["source"].format(column=column["title"]),
                    "published": printed,
                    "key": f"tasks/{column['key']}/{row['key']}",
                    "null": _cell_null(row, column["key"], table["record"]),
                    "not_testable_if": "never: it is a computation",
                })
    return entries


def _cell_null(row: dict, size: str, record: str) -> dict:
    """The null on the same task: of a bijection, with the same sampling of keys."""
    sampling, *_, last = row["key"].split("/")
    return {
        "record": record,
        "task": f"{size}/{sampling}" if record == "bijection_baselines" else size,
        "predictor": row.get("null", "uniform"),
        "measure": row.get("null_measure", last),
    }


def anchor_of(id: str) -> str:
    """The name of a row's place on the ledger's page; without dots, which a style's selector cannot hold.

    >>> anchor_of("bijection-leak-of-0.007-l19")
    'ledger-bijection-leak-of-0-007-l19'
    """
    return f"ledger-{id.replace('.', '-')}"

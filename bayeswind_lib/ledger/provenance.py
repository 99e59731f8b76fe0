"""Where each published value of the ledger was read: `provenance.toml`, read and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path

from bayeswind_lib.ledger.claims import Claim, anchor_of, load_claims

FILE = Path(__file__).parent / "provenance.toml"
KINDS = ("second-hand", "abstract", "paper", "repository", "replication", "own")
NEED = ("paper", "code", "replication")  # kinds of claims that somebody else printed


@dataclass(frozen=True)
class Document:
    """Something that was read: a paper, an abstract, a repository, a text about them."""

    id: str
    title: str
    date: str
    kind: str
    url: str = ""
    note: str = ""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"document {self.id}: kind is {self.kind!r}, choose one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class Reading:
    """One place in a document where a value was seen."""

    document: Document
    file: str = ""
    commit: str = ""

    def __str__(self) -> str:
        where = f": {self.file}" if self.file else ""
        return f"{self.document.title}{where}" + (f" at {self.commit}" if self.commit else "")


def load_provenance(path: str | Path = FILE, claims: Sequence[Claim] | None = None) -> dict[str, list[Reading]]:
    """Readings by claim id, in the order of the claims; values of the book's own have the document "own".

    Args:
        claims: those of `claims.toml` by default.

    Raises:
        ValueError: for a document or claim id that does not exist, or a published claim without a reading.
    """
    claims = load_claims() if claims is None else claims
    with open(path, "rb") as file:
        content = tomllib.load(file)
    documents = {entry["id"]: Document(**entry) for entry in content["document"]}
    found: dict[str, list[Reading]] = {claim.id: [] for claim in claims}
    for entry in content["read"]:
        if entry["document"] not in documents:
            raise ValueError(f"provenance.toml: no document is called {entry['document']!r}")
        reading = Reading(documents[entry["document"]], entry.get("file", ""), entry.get("commit", ""))
        for pattern in entry["claims"]:
            for id in _matching(pattern, found, str(reading)):
                if reading in found[id]:
                    raise ValueError(f"provenance.toml: {id} is named twice for {reading}")
                found[id].append(reading)
    return {claim.id: found[claim.id] or [_own(claim, documents)] for claim in claims}


def _matching(pattern: str, ids: Sequence[str], where: str) -> list[str]:
    chosen = [id for id in ids if id.startswith(pattern[:-1])] if pattern.endswith("*") else [i for i in ids if i == pattern]
    if not chosen:
        raise ValueError(
            f"provenance.toml: no claim is called {pattern!r} ({where}); if it was renamed or retired in claims.toml, do the same here"
        )
    return chosen


def _own(claim: Claim, documents: dict[str, Document]) -> Reading:
    if claim.kind in NEED:
        raise ValueError(
            f"claim {claim.id} ({claim.kind}): provenance.toml does not say where {claim.published} was read; "
            "add the id to a [[read]] entry"
        )
    return Reading(documents["own"])


@lru_cache(maxsize=1)
def readings() -> dict[str, list[Reading]]:
    """What `load_provenance` finds in the package's own files, read once."""
    return load_provenance()


def by_document(rows: Sequence[dict]) -> dict[Document, list[dict]]:
    """Rows of the ledger under every document in which their published value was read."""
    found: dict[Document, list[dict]] = {}
    for row in rows:
        for document in dict.fromkeys(reading.document for reading in readings()[row["id"]]):
            found.setdefault(document, []).append(row)
    order = list(KINDS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0].kind)))


def second_hand(row: dict) -> bool:
    """Whether a row's published value was read only in texts of others about its source."""
    return all(reading.document.kind == "second-hand" for reading in readings()[row["id"]])


class Sources:
    """The documents, what they are, and how many published values were read in each."""

    def __init__(self, rows: Sequence[dict]):
        self.groups = by_document(rows)

    def __repr__(self) -> str:
        return "\n".join(f"{document.title}: {len(rows)}" for document, rows in self.groups.items())

    def _repr_html_(self) -> str:
        lines = "".join(
            f'<tr role="row"><th scope="row" role="rowheader">{_linked(document)}<small>{escape(document.note)}</small></th>'
            f'<td role="cell" data-label="Kind">{document.kind}</td><td role="cell" data-label="Date">{document.date}</td>'
            f'<td role="cell" data-label="Values">{len(rows)}</td></tr>'
            for document, rows in self.groups.items()
        )
        return _table(("Document", "Kind", "Date", "Values"), lines)


class Readings:
    """Every published value once: as printed, what it is said to be, and the documents in which it was read."""

    def __init__(self, rows: Sequence[dict]):
        self.rows = list(rows)

    def __repr__(self) -> str:
        return "\n".join(f"{row['id']}: {'; '.join(map(str, readings()[row['id']]))}" for row in self.rows)

    def _repr_html_(self) -> str:
        from bayeswind_lib.ledger.page import published

        lines = "".join(
            f'<tr role="row" id="read-{row["id"]}"><th scope="row" role="rowheader">'
            f'<a href="ledger.html#{anchor_of(row["id"])}"><code>{escape(row["id"])}</code></a>'
            f'<small>{escape(row["source"])}{" (second-hand)" if second_hand(row) and row["source"].startswith("Paper") else ""}</small></th>'
            f'<td role="cell" data-label="Published">{escape(published(row))}</td>'
            f'<td role="cell" data-label="Read in">{"<br>".join(escape(str(r)) for r in readings()[row["id"]])}</td></tr>'
            for row in self.rows
        )
        return _table(("Value", "Published", "Read in"), lines)


class Contradictions:
    """Where documents, or parts of one, print what cannot all be true."""

    def __init__(self, path: str | Path = FILE):
        with open(path, "rb") as file:
            self.entries = tomllib.load(file)["contradiction"]

    def __repr__(self) -> str:
        return "\n".join(f"{entry['where']}: {entry['what']}" for entry in self.entries)

    def _repr_html_(self) -> str:
        return "<dl>" + "".join(f"<dt>{escape(e['where'])}</dt><dd>{escape(e['what'])}</dd>" for e in self.entries) + "</dl>"


def _linked(document: Document) -> str:
    title = escape(document.title)
    return f'<a href="{document.url}">{title}</a>' if document.url else title


def _table(heads: Sequence[str], lines: str) -> str:
    from bayeswind_lib.ledger.page import STYLE

    head = "".join(f'<th scope="col" role="columnheader">{name}</th>' for name in heads)
    return (
        f'{STYLE}<div class="bw-ledger"><table class="bw-rows" role="table"><thead role="rowgroup"><tr role="row">{head}</tr></thead>'
        f'<tbody role="rowgroup">{lines}</tbody></table></div>'
    )

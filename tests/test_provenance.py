"""Every published value names the document in which it was read, and the page lists each once."""

from __future__ import annotations

import dataclasses
import re

import pytest
from _support import ROOT

import bayeswind_lib as bw
from bayeswind_lib.ledger import provenance
from bayeswind_lib.ledger.claims import load_claims

TEXT = provenance.FILE.read_text("utf-8")


def planted(folder, old: str, new: str):
    assert TEXT.count(old) >= 1
    path = folder / "provenance.toml"
    path.write_text(TEXT.replace(old, new, 1), "utf-8")
    return path


def test_every_published_value_was_read_somewhere_and_only_those_by_others():
    found = provenance.load_provenance()
    for claim in load_claims():
        kinds = {reading.document.kind for reading in found[claim.id]}
        assert kinds, claim.id
        assert ("own" in kinds) is False or claim.kind not in provenance.NEED, claim.id
        if claim.kind == "code":
            assert "repository" in kinds, claim.id


def test_no_version_of_the_first_two_papers_counts_as_read():
    papers = {r.document.id for found in provenance.readings().values() for r in found if r.document.kind == "paper"}
    assert papers == {"paper-3"}


def test_a_reading_in_the_repository_names_file_and_commit():
    for id, found in provenance.readings().items():
        for reading in found:
            if reading.document.kind == "repository":
                assert reading.file and re.fullmatch("[0-9a-f]{7}", reading.commit), id


def test_an_unmapped_claim_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"bijection-lstm-replication \(replication\).*0.003 was read"):
        provenance.load_provenance(planted(tmp_path, '"bijection-lstm-replication", ', ""))


def test_a_claim_that_was_renamed_is_named(tmp_path):
    claims = [dataclasses.replace(c, id="other") if c.id == "hmm-lstm-code" else c for c in load_claims()]
    with pytest.raises(ValueError, match="no claim is called 'hmm-lstm-code'.*renamed or retired"):
        provenance.load_provenance(claims=claims)


def test_an_unknown_document_and_a_doubled_entry_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no document is called 'letter'"):
        provenance.load_provenance(planted(tmp_path, 'document = "wiki"', 'document = "letter"'))
    with pytest.raises(ValueError, match="belief-mamba-pc1 is named twice"):
        provenance.load_provenance(planted(tmp_path, '"belief-mamba-pc1",', '"belief-mamba-pc*",  "belief-mamba-pc1",'))


def test_the_page_lists_every_printed_value_once():
    printed = [row for row in bw.ledger.rows() if row["kind"] in provenance.NEED]
    html = provenance.Readings(printed)._repr_html_()
    assert sorted(re.findall(r'id="read-([\w.-]+)"', html)) == sorted(row["id"] for row in printed)
    page = (ROOT / "book/provenance.md").read_text("utf-8")
    assert page.count("\nReadings(printed)\n") == 1
    assert "book/provenance" in (ROOT / "_toc.yml").read_text("utf-8")

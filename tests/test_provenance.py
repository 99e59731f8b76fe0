"""Every published value names the document in which it was read, and the page lists each once."""

from __future__ import annotations

import dataclasses
import re

import pytest
from _support import ROOT

import bayeswind_lib as bw
from bayeswind_lib.ledger import page, provenance
from bayeswind_lib.ledger.claims import load_claims
from bayeswind_lib.ledger.page import LedgerTable

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


def test_what_only_others_tell_of_a_paper_is_marked_and_nothing_else():
    html = provenance.Readings(bw.ledger.rows())._repr_html_()
    marked = set(re.findall(r'id="read-([^"]+)">(?:(?!</th>).)*\(second-hand\)', html))
    found = provenance.readings()
    assert {"bijection-transformer-v1", "recall-mamba-v3"} < marked
    assert not marked & {"bijection-transformer-v3", "bijection-float32-noise", "hmm-transformer-guide-k30"}
    assert all({r.document.kind for r in found[id]} == {"second-hand"} for id in marked)


def test_a_printed_limit_is_shown_as_one_and_is_the_end_of_what_counts():
    limits = {row["id"]: row for row in bw.ledger.rows() if row["bound"]}
    assert page.published(limits["bijection-mlp-3x192"]) == "> 1 bits"
    assert page.published(limits["layer-ablation-accuracy"]) == "< 5 %"
    assert page.published(bw.ledger.row("bijection-mlp-v3")) == "1.85 bits"
    for id, row in limits.items():
        assert row["band"][row["bound"] == "<"] == row["published"], id


def test_the_contradiction_inside_one_article_is_told():
    (found,) = (e for e in provenance.Contradictions().entries if e["where"].startswith("Inside the article"))
    assert all(number in found["what"] for number in ("3e-3", "7.5e-5", "0.007", "0.049"))
    assert found["what"] in provenance.Contradictions()._repr_html_()


def test_a_row_of_the_ledger_page_links_its_reading():
    printed, computed = bw.ledger.row("hmm-lstm-v3"), bw.ledger.row("bijection-uniform-l20")
    assert 'href="provenance.html#read-hmm-lstm-v3"' in LedgerTable([printed], anchors=True)._repr_html_()
    assert "provenance.html" not in LedgerTable([printed])._repr_html_() + LedgerTable([computed], anchors=True)._repr_html_()

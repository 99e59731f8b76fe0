"""The ledger as a whole: whose row, which null, and what chance alone would reproduce."""

from __future__ import annotations

import itertools
import math

import pytest

import bayeswind_lib as bw
from bayeswind_lib.ledger import chance
from bayeswind_lib.ledger.claims import load_claims
from bayeswind_lib.ledger.page import Sentences
from bayeswind_lib.ledger.status import Evidence, Null

ROW = {"tunnel": "hmm", "source": "Paper I, v1", "chapters": [], "status": "reproduced", "draws": 20, "null_what": "the uniform guess"}


@pytest.mark.parametrize(
    ("changes", "paper"),
    [
        ({}, "Paper I"), ({"source": "Paper II, section 4"}, "Paper II"), ({"source": "Paper III, Table 1"}, "Paper III"),
        ({"source": "authors' repository"}, "Paper I"), ({"source": "x", "chapters": ["15_em"]}, "Paper II"),
        ({"source": "x", "chapters": ["09_keys", "18_sula"]}, "Paper III"), ({"tunnel": "recurrence"}, "the recurrence"),
        ({"tunnel": "bijection_set", "chapters": ["20_capstone"]}, "other authors"),
    ],
)
def test_whose_row_it_is(changes, paper):
    assert chance.paper_of(ROW | changes) == paper


def test_parts_cover_all_chapters():
    assert chance.part_of(ROW) == chance.NO_CHAPTER
    for number in range(1, 21):
        assert chance.part_of(ROW | {"chapters": [f"{number:02}_x"]}) in chance.PARTS


def test_every_row_is_counted_once_in_each_way():
    rows = bw.ledger.rows()
    for group in (chance.paper_of, chance.part_of, chance.kind_of_null):
        counts = chance.counted(rows, group)
        assert sum(sum(found.values()) for found in counts.values()) == len(rows)
        assert all(list(found) == list(bw.ledger.STATUSES) for found in counts.values())


def test_kinds_of_null_know_all_but_a_few():
    rows = [row for row in bw.ledger.rows() if row["draws"]]
    assert sum(chance.kind_of_null(row) == "of another kind" for row in rows) < 0.05 * len(rows)
    assert chance.kind_of_null(ROW | {"draws": 0}) == "none"


def test_a_threshold_that_lets_its_null_pass_is_found():
    claim = next(claim for claim in load_claims() if claim.id == "layer-ablation-tenfold")
    far, near = Null(1.0, 0.5, 2.0, 20, "x"), Null(39.0, 20.0, 60.0, 20, "x")
    assert chance.under_null(claim, Evidence(46.0, null=near)) == "reproduced"
    assert chance.under_null(claim, Evidence(46.0, null=far)) == "not reproduced"
    assert chance.under_null(claim, Evidence(None, null=near)) is None
    assert chance.under_null(claim, Evidence(46.0)) is None
    fails = next(claim for claim in load_claims() if claim.test == "fails")
    assert chance.under_null(fails, Evidence(1.0, null=near)) is None


def test_a_network_that_must_beat_its_null_is_never_reproduced_by_it():
    for claim in load_claims():
        if claim.test == "reaches":
            assert chance.submitted(claim.id) != "reproduced", claim.id
    assert chance.submitted("frame-before-values") == "reproduced"  # the line has the order too
    with pytest.raises(KeyError):
        chance.submitted("no-such-row")


@pytest.mark.parametrize(
    ("status", "null_status", "reason", "measured", "verdict"),
    [
        ("reproduced", None, "", 5.0, "stands"), ("reproduced", "not reproduced", "", 5.0, "stands"),
        ("reproduced", "reproduced", "", 5.0, "stands, and so does its null"), ("partly", None, "", 5.0, "with a condition"),
        ("not reproduced", None, "no better than chance", 5.0, "falls to its null"),
        ("not reproduced", None, "smaller than published", 1.5, "falls to its null"),
        ("not reproduced", None, "smaller than published", 1.0, "falls otherwise"),  # the most extreme deal of all
        ("not reproduced", None, "smaller than published", 5.0, "falls otherwise"),
        ("not settled", None, "", None, "open"), ("not testable", None, "", None, "not testable"),
        ("not settled", None, "no better than chance, but", 1.5, "at its null, without controls"),
        ("not settled", None, "outside the band, but", 5.0, "open"), ("needs public weights", None, "", None, "needs public weights"),
    ],
)
def test_verdicts(status, null_status, reason, measured, verdict):
    row = ROW | {"status": status, "reason": reason, "measured": measured, "null_low": 1.0, "null_high": 2.0, "rule": "r"}
    assert chance.verdict(row, null_status) == verdict
    assert verdict in chance.VERDICTS


def test_by_chance_is_the_binomial():
    n, share = 4, 0.3
    outcomes = list(itertools.product((0, 1), repeat=n))
    weights = [math.prod(share if x else 1 - share for x in outcome) for outcome in outcomes]
    mean = sum(w * sum(o) for w, o in zip(weights, outcomes, strict=True))
    some = sum(w for w, o in zip(weights, outcomes, strict=True) if any(o))
    assert chance.by_chance(n, share) == pytest.approx((mean, some))
    with pytest.raises(ValueError, match="share 2"):
        chance.by_chance(3, 2)


def test_least_p_counts_the_deals():
    deals = len(list(itertools.combinations(range(7), 3)))
    assert chance.least_p(3, 4) == pytest.approx(1 / deals)


def test_holm_equals_the_closed_test_of_bonferroni():
    """A hypothesis is rejected if every set that holds it has a p below level / size."""
    cases = ([0.001, 0.02, 0.03, 0.2], [0.01, 0.04], [0.02, 0.02, 0.02], [0.012, 0.0125, 0.024, 0.049], [])
    for p in cases:
        want = [
            all(
                min(p[j] for j in some) <= 0.05 / len(some)
                for size in range(1, len(p) + 1) for some in itertools.combinations(range(len(p)), size) if i in some
            )
            for i in range(len(p))
        ]
        assert chance.holm(p) == want


def test_sentences_link_the_chapters_that_settle_them():
    row = bw.ledger.row("layer-ablation-tenfold")
    shown = Sentences({"stands": [row], "falls": []})
    assert repr(shown) == "stands (1): layer-ablation-tenfold"
    html = shown._repr_html_()
    assert '<a href="12_used.html">chapter 12</a>' in html and "stands: 1" in html and "falls" not in html
    assert row["statement"].split(" ")[0] in html and "<pre>" not in html
    waiting = Sentences({"waits": [row | {"settled_by": "one\nanother <file>"}, row | {"settled_by": "one"}]})
    assert "<pre>one\nanother &lt;file&gt;</pre>" in waiting._repr_html_() and "waits: 2</summary>" in waiting._repr_html_()
    assert "waits: 1 (about 4 h of one core)" in Sentences({"waits": [row | {"hours": 4.2}]})._repr_html_()


def test_open_rows_say_what_they_wait_for():
    row = {"network": "a-net", "measured": None, "reason": "no such network", "settled_by": ""}
    assert chance.waits_for(row) == "a training of a-net"
    assert chance.waits_for(row | {"measured": 1.0, "reason": "above the band, but only 1 learning rate was tried, and at least 4 are asked for"}).endswith("a doubled budget of a-net")
    opened = {"network": "", "settled_by": "python -m bayeswind_lib queue --only a-net-seed\npython -m bayeswind_lib records a --runs runs/queue"}
    assert chance.waits_for(row | opened) == "a training of a-net"
    again = row | {"settled_by": "\n".join(f"queue --only b-seed0-{key} --folder runs/again --record runs/again/queue.json" for key in "xyz")}
    assert chance.waits_for(again | {"network": None}) == "another look at b, trained again"
    known = {chance.waits_for(row) for row in bw.ledger.rows() if row["status"] == "not settled"}
    assert len(known) < 40 and "a definition, a base or a second network" in known

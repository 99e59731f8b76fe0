"""What a view allows, by formula and by counting; the ladder explorer against the library."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import permutations, product

import numpy as np
import pytest
import torch
from _support_explorer import explorer_opener, number

import bayeswind_lib as bw
from bayeswind_lib.baselines import views

pytestmark = pytest.mark.xdist_group("browser")


# ---- the mathematics ----------------------------------------------------------------------------


def seen(view: str, keys: tuple, values: tuple, window: int):
    """What a view shows of an episode, as something that can be compared."""
    *shown, asked = keys
    first = max(len(shown) - window, 0)
    return {
        "token": (asked, len(shown)),
        "window": (asked, len(shown), tuple(shown[first:]), values[first:]),
        "set": (asked, frozenset(shown), frozenset(values)),
        "bag": (asked, tuple(sorted(shown)), tuple(sorted(values))),
        "order": (keys, values),
    }[view]


def all_episodes(V: int, k: int, with_replacement: bool):
    """Every map with every sequence of k + 1 keys, all equally likely: (keys, values, answer)."""
    sequences = product(range(V), repeat=k + 1) if with_replacement else permutations(range(V), k + 1)
    for keys in sequences:
        for mapping in permutations(range(V)):
            yield keys, tuple(mapping[key] for key in keys[:-1]), mapping[keys[-1]]


@pytest.mark.parametrize("view", views.VIEWS)
@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("V, k, window", [(2, 1, 1), (3, 2, 1), (3, 4, 2), (4, 3, 2), (4, 3, 1)])
def test_best_and_its_entropy_are_what_counting_all_episodes_gives(view, with_replacement, V, k, window):
    if k >= V and not with_replacement:
        k = V - 1
    counts: dict = defaultdict(lambda: np.zeros(V))
    example = {}
    for keys, values, answer in all_episodes(V, k, with_replacement):
        z = seen(view, keys, values, window)
        counts[z][answer] += 1
        example[z] = keys, values
    total, entropy = sum(row.sum() for row in counts.values()), 0.0
    for z, row in counts.items():
        share = row / row.sum()
        entropy -= row.sum() / total * (share[share > 0] * np.log2(share[share > 0])).sum()
        keys, values = example[z]
        assert views.best(view, list(keys), list(values), V, window) == pytest.approx(share, abs=1e-12)
    ours = views.entropies(V, k + 1, with_replacement, window)[view][k]
    assert ours == pytest.approx(entropy, abs=1e-12)


@pytest.mark.parametrize("V, K", [(2, 2), (5, 3), (10, 10), (20, 19), (20, 20)])
def test_floors_are_the_exact_baselines_where_those_exist(V, K):
    once, back = (bw.baselines.exact_baselines(V, K, r) for r in (False, True))
    for window in {1, 3, V - 1} & set(range(1, V)):
        mine = views.floors(V, K, False, window)
        assert mine["window"].mean() == pytest.approx(once[f"window_{window}"]["kl"], abs=1e-12)
    mine, other = views.floors(V, K), views.floors(V, K, True)
    for measure in ("kl", "entropy_mae"):
        assert mine["token"].mean() == pytest.approx(once["uniform"][measure], abs=1e-12)
        assert other["token"].mean() == pytest.approx(back["uniform"][measure], abs=1e-12)
        assert other["set"].mean() == pytest.approx(back["repeat_aware"][measure], abs=1e-12)
    assert mine["set"].max() == mine["bag"].max() == mine["order"].max() == 0
    assert once["no_binding"]["kl"] == 0
    assert bw.baselines.task_constants(V, K, True)["mean_entropy"] == pytest.approx(
        views.entropies(V, K, True)["order"].mean(), abs=1e-12
    )


@pytest.mark.parametrize("with_replacement", [False, True])
def test_who_sees_more_errs_less(with_replacement):
    for V in (3, 6, 10):
        rows = views.floors(V, V, with_replacement, window=2)
        for more, less in (("order", "bag"), ("bag", "set"), ("set", "token"), ("order", "window"), ("window", "token")):
            assert (rows[more] <= rows[less] + 1e-12).all()
        lengths = [views.floors(V, V, with_replacement, w)["window"].mean() for w in range(1, V + 1)]
        assert lengths == sorted(lengths, reverse=True) and lengths[-1] == pytest.approx(0, abs=1e-12)


def test_an_evaluator_finds_the_floor_of_the_bag():
    """The best prediction of a bag, scored on sampled episodes like a network."""
    tunnel = bw.tunnels.Bijection(6, with_replacement=True)

    class Bag(bw.baselines.Baseline):
        def probabilities(self, keys, values):
            rows = [
                [views.best("bag", ks[: k + 1], vs[:k], 6) for k in range(len(ks))]
                for ks, vs in zip(keys.tolist(), values.tolist(), strict=True)
            ]
            return torch.tensor(rows, dtype=torch.float64)

    score = bw.score(Bag(tunnel), tunnel, 1500, rng=torch.Generator().manual_seed(0))
    floor = views.floors(6, with_replacement=True)["bag"]
    assert abs(score.kl - floor.mean()) < 5 * score.kl_se
    assert score.entropy_mae == pytest.approx(score.kl)
    assert (np.abs(score.per_position["kl"] - floor) <= 5 * score.per_position_se["kl"] + 1e-12).all()


def test_views_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match="view is 'all': choose one of token, window"):
        views.best("all", [0], [], 3)
    with pytest.raises(ValueError, match="2 keys and 2 values: the last key has no value yet"):
        views.best("bag", [0, 1], [1, 2], 3)


# ---- on the page --------------------------------------------------------------------------------


@pytest.fixture
def open_page(browser, tmp_path):
    with explorer_opener("ladder", browser, tmp_path) as opened:
        yield opened


def test_it_computes_what_the_library_computes(open_page):
    page, rng = open_page(), torch.Generator().manual_seed(0)
    for i in range(20):
        V = int(torch.randint(2, 11, (), generator=rng))
        window = int(torch.randint(1, V + 1, (), generator=rng))
        back = bool(i % 2)
        ours = views.floors(V, V, back, window)
        theirs = page.evaluate("([v, k, r, w]) => bwLadder.floors(v, k, r, w)", [V, V, back, window])
        assert list(theirs) == list(ours)
        for view, row in ours.items():
            np.testing.assert_allclose(theirs[view], row, rtol=0, atol=1e-12)
        latents = bw.tunnels.Bijection(V, with_replacement=back).sample(1, rng).latents
        keys, values = latents["keys"][0].tolist(), latents["values"][0].tolist()
        k = int(torch.randint(V, (), generator=rng))
        for view in views.VIEWS:
            given = [view, keys[: k + 1], values[:k], V, window]
            best = page.evaluate("([view, k, v, n, w]) => bwLadder.best(view, k, v, n, w)", given)
            np.testing.assert_allclose(best, views.best(*given), rtol=0, atol=1e-12)


def set_slider(page, label: str, value: int):
    page.get_by_label(label).fill(str(value))


def test_controls_move_the_page_as_the_library_says(open_page):
    page = open_page()
    root, status = page.locator(".bw-explorer"), page.locator("[role=status]")
    for V, back, k, window in ((8, False, 4, 3), (10, True, 9, 2), (3, True, 2, 1), (2, False, 1, 1)):
        set_slider(page, "Keys and values, V", V)
        page.get_by_label("keys with replacement" if back else "distinct keys").check()
        set_slider(page, "Pairs shown", k)
        page.get_by_label("the last w pairs").check()
        set_slider(page, "Window, w", window)
        floors = views.floors(V, V, back, window)
        for view, words in views.VIEWS.items():
            page.get_by_label(words, exact=True).check()
            assert float(root.get_attribute("data-floor")) == pytest.approx(floors[view][k], abs=1e-12)
            assert float(root.get_attribute("data-mean")) == pytest.approx(floors[view].mean(), abs=1e-12)
            told = f"on average {number(floors[view][k])} at this question and {number(floors[view].mean())} over all {V}"
            assert told in status.text_content()
        for view in views.VIEWS:
            cell = page.locator(f"td[data-view={view}]").text_content()
            assert cell == number(floors[view].mean())


def tokens(page) -> list[str]:
    return page.locator(".bw-token").all_text_contents()


def test_hidden_tokens_stay_hidden(open_page):
    page = open_page()
    page.get_by_label("everything, in order").check()
    everything = tokens(page)
    assert len(everything) == 9 and not any("·" in token for token in everything)
    page.get_by_label("its own token").check()
    assert tokens(page)[:-1] == ["key ·", "value ·"] * 4 and tokens(page)[-1] == everything[-1]
    page.get_by_label("the last w pairs").check()
    set_slider(page, "Window, w", 2)
    assert tokens(page) == ["key ·", "value ·"] * 2 + everything[4:]
    page.get_by_label("which tokens came").check()
    assert sorted(tokens(page)) == sorted(everything) and tokens(page) != everything
    page.get_by_label("how often each token came").check()
    assert all(re.search(r"×1$", token) for token in tokens(page)[:-1])


def words_of(page, view: str) -> list[str]:
    """What stands in the strip of a view, and what a screen reader hears of it."""
    page.get_by_label(views.VIEWS[view], exact=True).check()
    told = page.locator(".bw-token").evaluate_all("all => all.map(e => [e.textContent, ...[...e.attributes].map(a => a.value)].join(' '))")
    assert len(told) == page.locator(".bw-token").count() > 0
    return told


@pytest.mark.parametrize("back", [False, True])
def test_no_view_says_more_than_it_may_see(open_page, back):
    """At every question each token of the strip is one that the view sees; of the hidden ones it says no number."""
    page = open_page()
    page.get_by_label("keys with replacement" if back else "distinct keys").check()
    page.get_by_label("the last w pairs").check()
    set_slider(page, "Window, w", 2)
    for k in range(8):
        set_slider(page, "Pairs shown", k)
        whole = words_of(page, "order")
        numbers = [re.findall(r"\d+", told)[0] for told in whole]  # key, value, ..., key
        seen = {view: words_of(page, view) for view in views.VIEWS}
        first = {"token": k, "window": max(k - 2, 0), "order": 0}
        for view, start in first.items():
            said = [re.findall(r"\d+", told) for told in seen[view]]
            assert [set(n) for n in said] == [set()] * 2 * start + [{n} for n in numbers[2 * start :]]
        gathered = {(kind, int(n)): numbers[at:-1:2].count(n) for at, kind in enumerate(("key", "value")) for n in set(numbers[at:-1:2])}
        for view in ("set", "bag"):
            said = [(told.split()[0], [int(n) for n in re.findall(r"\d+", told)]) for told in seen[view][:-1]]
            assert [(kind, n[0]) for kind, n in said] == sorted(gathered)  # in the order of their numbers, not of the episode
            assert all(set(n) <= ({n[0]} if view == "set" else {n[0], gathered[kind, n[0]]}) for kind, n in said)


def test_a_new_episode_differs_and_keeps_the_floor(open_page):
    page = open_page()
    page.get_by_label("everything, in order").check()
    before, floor = tokens(page), page.locator(".bw-explorer").get_attribute("data-mean")
    page.get_by_role("button", name="New episode").click()
    assert tokens(page) != before
    assert page.locator(".bw-explorer").get_attribute("data-mean") == floor

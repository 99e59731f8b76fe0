"""The built site, read as files: links, resources, alternative texts, paths, widgets."""

from __future__ import annotations

import re

import pytest
import torch

from _support import CHAPTERS, ROOT, pages
from _support_site import (
    broken_links,
    figures,
    images_without_words,
    machine_paths,
    missing_resources,
    outside_resources,
    widget_managers,
)

import bayeswind_lib as bw

# "largest gap 0.012 bits at position 7": a size, and where it is.
LARGEST_GAP = re.compile(
    r"""\blargest\ gap\ (?:to\ [a-z\ ]+\ )?
    (?P<size>\d[\d.]*(?:e-?\d+)?|infinite)
    (?:\ bits|\ nats|\ percent|\ in\ probability)?(?:\ to\ the\ exact\ posterior)?
    (?:\ in\ [\w ]+|\ to\ [\w ,=]+?)?
    (?P<place>(?:\ (?:at|after|where|for|by|between|from|on|in)|:)\ [^.;,)(]+)""",
    re.I | re.X,
)


def test_the_book_has_its_pages(site):
    names = {page.relative_to(site).as_posix() for page in pages(site)}
    assert {f"chapters/{path.stem}.html" for path in CHAPTERS.glob("[0-9][0-9]_*.md")} <= names
    assert {"index.html", "search.html", "genindex.html"} <= names


def test_links_and_anchors_resolve(site):
    assert not broken_links(site)


def test_nothing_comes_from_another_host(site):
    assert not outside_resources(site)


def test_every_resource_is_there(site):
    assert not missing_resources(site)


def test_every_image_has_words(site):
    assert not images_without_words(site)


def test_every_figure_tells_its_largest_gap_and_where(site):
    found = figures(site)
    chapters = {path.stem for path in CHAPTERS.glob("[0-9][0-9]_*.md")}
    assert chapters <= {source.stem for source, _, _ in found}, "a chapter without a figure"
    mute = [f"{s.name}: {alt}" for s, _, alt in found if not LARGEST_GAP.search(alt or "")]
    assert not mute


def test_alternative_text_is_the_one_made_from_the_data(site):
    """The words in the page are those that the plotting function wrote into the picture."""
    from PIL import Image

    for source, path, alt in figures(site):
        with Image.open(path) as picture:
            written = picture.info.get("Description", "")
        assert " ".join(written.split()) == " ".join((alt or "").split()), f"{source.name}: {path}"


def test_no_widget_manager(site):
    assert not widget_managers(site)


def published_texts(site):
    """Everything that a reader can open: pages, their sources, the notebooks, the documents."""
    yield from pages(site)
    yield from (site / "_sources").rglob("*.md")
    yield from (site / "searchindex.js", *CHAPTERS.glob("*"), *ROOT.glob("*.md"))
    yield from (ROOT / "book").rglob("*.md")


def test_no_machine_paths(site):
    texts = {path: path.read_text("utf-8") for path in published_texts(site) if path.is_file()}
    found = {str(path): machine_paths(text) for path, text in texts.items()}
    assert not {path: places for path, places in found.items() if places}
    assert not [str(path) for path, text in texts.items() if f"{ROOT}/" in text]


def test_the_paths_check_sees_what_it_is_for():
    scratch = "/" + "tmp/z"
    bad = f"open /home/ada/x, C:\\data, file:///srv/y and ({scratch})."
    assert machine_paths(bad) == ["/home/ada", "C:\\da", "file:///s", scratch]
    assert not machine_paths("https://x.org/home/page a/tmp/b ./work/x /content/book 1/2")


class Smeared:
    """The oracle, except that one position's answer is mixed with a uniform guess."""

    name = "smeared"

    def __init__(self, tunnel, position: int, share: float):
        self.tunnel, self.position, self.share = tunnel, position, share

    def predict(self, inputs):
        p = self.tunnel.posterior(inputs)
        k = self.position
        p[:, k] = (1 - self.share) * p[:, k] + self.share / p.shape[-1]
        return p.log2()


@pytest.mark.parametrize("plot", ["entropy_by_position", "gap_by_position"])
def test_changing_the_data_changes_the_words(plot):
    """The words name the largest gap and its place; both are recomputed here from the scores."""
    tunnel, draw = bw.tunnels.Bijection(n_values=8), getattr(bw.figures, plot)
    said = set()
    for position, share in ((6, 0.2), (5, 0.2), (5, 0.6)):
        rng = torch.Generator().manual_seed(0)
        score = bw.score(Smeared(tunnel, position, share), tunnel, n_episodes=16, rng=rng)
        curve = {
            "entropy_by_position": score.entropy - score.oracle_entropy,
            "gap_by_position": score.per_position["kl"],
        }[plot]
        alt = draw({"smeared": score}).alt
        found = LARGEST_GAP.search(alt)
        assert found, alt
        assert float(found["size"]) == pytest.approx(abs(curve).max(), rel=0.05)
        assert found["place"].endswith(f" {abs(curve).argmax()}"), alt
        said.add(alt)
    assert len(said) == 3

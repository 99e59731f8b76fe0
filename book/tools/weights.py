"""What each page of the built book weighs: `make weights` writes book/weights.json.

Every page is opened in a browser that has nothing stored, from a server that compresses text, and
read to its end. The page on checks shows the record; a test weighs the pages again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

from . import ROOT, browser
from .serving import SLOW, compressing, slow_line

FILE = ROOT / "book" / "weights.json"
SITE = ROOT / "_build" / "html"
LIMIT = 900_000  # bytes of a page, compressed, with the weights of its networks
FIRST_FIGURE = 4.0  # seconds until the first figure is there, over the slow line
FIRST_ANSWER = 1.5  # seconds until the network of the landing page has answered, on a processor
SLOW_PROCESSOR = 4  # so many times slower
TIMED = ("book/intro", "book/playground", "chapters/03_training")
NETWORKS = ("/networks/", ".safetensors")  # where the weights of networks lie in the site

READ = """async () => {
  const wait = () => new Promise(done => requestAnimationFrame(done));
  const end = () => document.body.scrollHeight;
  const story = document.querySelector('.bw-scenes');  // of the landing page, begins after its game
  while (story && !story.closest('.bw-alive')) await wait();
  for (let y = 0; y < end(); y += innerHeight) { scrollTo(0, y); await wait(); }
  await document.fonts.ready;
}"""
# When the first figure was there: its picture has come, or it is drawn in the page itself.
FIGURE = """() => {
  const figure = document.querySelector('.bd-article figure img, .bd-article svg[role=img]');
  const paint = performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity;
  const parsed = performance.getEntriesByType('navigation')[0].responseEnd;
  const came = figure.src ? performance.getEntriesByName(figure.src)[0]?.responseEnd : parsed;
  return Math.max(paint, came ?? Infinity) / 1000;
}"""

# Bytes that had come by then: the page, what it cannot be drawn without, and the picture.
BEFORE = """() => {
  const figure = document.querySelector('.bd-article figure img, .bd-article svg[role=img]');
  const all = ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind));
  const first = e => e.entryType === 'navigation' || e.renderBlockingStatus === 'blocking';
  const needed = e => first(e) || e.name === figure.src;
  const end = Math.max(...all.filter(needed).map(e => e.responseEnd));
  return all.filter(e => e.responseEnd <= end).reduce((sum, e) => sum + e.transferSize, 0);
}"""

# As soon as it can be pressed, press Reveal; `answered` is when the network's bits stand beside the
# bet, and `before` the bytes that had come with its weights.
PLAY = """() => addEventListener('DOMContentLoaded', () => {
  const game = document.querySelector('.bw-game'), button = game.querySelector('.bw-go');
  const look = () => {
    if (!button.disabled && button.textContent === 'Reveal') button.click();
    if (game.dataset.network !== 'here' || window.answered) return;
    window.answered = performance.now() / 1000;
    const file = performance.getEntriesByType('resource').find(e => e.name.includes('/networks/'));
    const all = ['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind));
    const came = all.filter(e => e.responseEnd <= file.responseEnd);
    window.before = came.reduce((sum, e) => sum + e.transferSize, 0);
  };
  new MutationObserver(look).observe(game, {attributes: true});
  look();
})"""


def page_names(site: Path) -> list[str]:
    """The pages of a built book, as documents; the front door only sends on."""
    found = [path.relative_to(site) for path in site.rglob("*.html")]
    inside = (path for path in found if path.parts[0][0] not in "_." and path.name != "index.html")
    return sorted(path.with_suffix("").as_posix() for path in inside)


@contextmanager
def running():
    """A browser, closed when the block ends."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        chromium = playwright.chromium.launch(executable_path=browser.find(), args=options)
        yield chromium
        chromium.close()


class Scales:
    """What a page's requests bring: bytes on the line and unpacked, by the kind of the address."""

    def __init__(self, page):
        self.address, self.raw, self.line, self.open = {}, {}, {}, set()
        session = page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._asked)
        session.on("Network.dataReceived", self._came)
        session.on("Network.loadingFinished", self._ended)
        session.on("Network.loadingFailed", lambda event: self.open.discard(event["requestId"]))
        session.send("Network.enable")

    def _asked(self, event):
        if not event["request"]["url"].startswith("data:"):
            self.address[event["requestId"]] = event["request"]["url"]
            self.open.add(event["requestId"])

    def _came(self, event):
        self.raw[event["requestId"]] = self.raw.get(event["requestId"], 0) + event["dataLength"]

    def _ended(self, event):
        self.line[event["requestId"]] = event["encodedDataLength"]
        self.open.discard(event["requestId"])

    def row(self, name: str) -> dict:
        """The page's record: bytes unpacked and compressed, of networks' weights, and requests."""
        found = self.address.items()
        weights = {key for key, url in found if any(part in url for part in NETWORKS)}
        page = self.address.keys() - weights
        return {
            "page": name,
            "raw": sum(self.raw.get(key, 0) for key in page),
            "compressed": sum(self.line.get(key, 0) for key in page),
            "networks": sum(self.line.get(key, 0) for key in weights),
            "requests": len(page),
        }


def weigh(chromium, home: str, name: str) -> dict:
    """Open one page with nothing stored, read it to its end, and say what came over the line."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    scales = Scales(page)
    page.goto(f"{home}/{name}.html", wait_until="load")
    page.evaluate(READ)
    while scales.open:
        page.wait_for_timeout(20)
    row = scales.row(name)
    context.close()
    return row


def first_figure(chromium, home: str, name: str) -> tuple[float, float]:
    """Seconds from the request for a page to its first figure, over the slow line.

    Returns:
        what the clock says here, and what the line alone takes: the bytes that came before,
        and the wait for two answers, the page's and the picture's. That is the same anywhere.
    """
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    slow_line(page)
    page.goto(f"{home}/{name}.html", wait_until="load", timeout=600_000)
    seconds, length = page.evaluate(FIGURE), page.evaluate(BEFORE)
    context.close()
    return seconds, 8 * length / SLOW["bits"] + 2 * SLOW["delay"]


def first_answer(chromium, home: str) -> dict[str, float]:
    """Of the landing page over the slow line, on a phone with a slow processor.

    Returns:
        seconds until the first paint ("paint") and until the game's network has answered
        ("answer"), by the clock here; and what the line alone takes ("line") for the bytes until
        then and three answers, those of the page, its scripts and the network.
    """
    context = chromium.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    slow_line(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOW_PROCESSOR})
    page.add_init_script(f"({PLAY})()")
    page.goto(f"{home}/book/intro.html", wait_until="load", timeout=600_000)
    page.wait_for_function("window.answered")
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
    told = page.evaluate(f"({{paint: {paint}, answer: answered, line: before}})")
    context.close()
    told["line"] = 8 * told["line"] / SLOW["bits"] + 3 * SLOW["delay"]
    return {what: round(seconds, 2) for what, seconds in told.items()}


def measure(site: Path) -> dict:
    """The record of a built book."""
    with running() as chromium, compressing(site) as home:
        pages = [weigh(chromium, home, name) for name in page_names(site)]
        seconds = {name: round(first_figure(chromium, home, name)[0], 2) for name in TIMED}
        answer = first_answer(chromium, home)
    limits = {"bytes": LIMIT, "seconds": FIRST_FIGURE, "answer": FIRST_ANSWER}
    limits["processor"] = SLOW_PROCESSOR
    times = {"first_figure": seconds, "first_answer": answer}
    return {"limits": limits, "line": SLOW, **times, "pages": pages}


def whole(row: dict) -> int:
    """Compressed bytes of a page with the weights of its networks."""
    return row["compressed"] + row["networks"]


def main(words: Sequence[str] = ()) -> int:
    """Write the record, and say which page is the heaviest."""
    record = measure(SITE)
    FILE.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    heaviest = max(record["pages"], key=whole)
    size = f"{whole(heaviest) / 1000:.0f} kB"
    print(f"{len(record['pages'])} pages, the heaviest {heaviest['page']} with {size}")
    for name, seconds in record["first_figure"].items():
        print(f"first figure of {name} after {seconds} s")
    print("landing page, slow line and processor:", record["first_answer"])
    return int(whole(heaviest) > LIMIT)

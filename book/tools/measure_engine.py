"""How exact and how fast a network in the page is: `make bench` stores the record `engine`.

The same weights run in PyTorch and in headless Chromium, on prompts that a seed draws. The tests
use these functions too, on as many prompts, and compare the record with the weights that ship.

Axes: N prompts, T tokens, K scored positions, Y outcomes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

import bayeswind_lib as bw
from bayeswind_lib.training.environment import describe_environment
from bayeswind_lib.widgets import __file__ as widgets_file

from . import browser as browsers
from . import networks

MAIN, FIRST = "bijection-transformer", "bijection-transformer-classroom"
N_PROMPTS, SEED = 1000, 0
WEB = Path(widgets_file).parent / "web"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PAGE = """<!DOCTYPE html><html lang="en"><title>Engine</title>
<script src="explorer.js"></script><script src="matmul.js"></script>
<script src="network.js"></script><script src="oracles.js"></script>
"""
# Logits and entropies of some prompts, as plain arrays; every prompt is a pass of its own.
ANSWERS = """async ([file, prompts]) => {
  const network = await bwNetwork.fetch(file);
  return prompts.map((prompt) => {
    network.passes.length = 0;
    const { logits, probabilities } = network.run(prompt);
    return {
      logits: logits.map((row) => [...row]),
      entropies: (probabilities || []).map(bwOracles.entropyBits),
    };
  });
}"""
# Milliseconds of each of the last three tokens of some episodes (what came before is known), and
# of whole passes.
TIMES = """async ([file, episodes]) => {
  const network = await bwNetwork.fetch(file), steps = [], passes = [];
  const timed = (tokens) => {
    const start = performance.now();
    network.run(tokens);
    return performance.now() - start;
  };
  for (const tokens of episodes) {
    network.passes.length = 0;
    passes.push(timed(tokens));
    network.passes.length = 0;
    network.run(tokens.slice(0, -3));
    for (const left of [2, 1, 0]) steps.push(timed(tokens.slice(0, tokens.length - left)));
  }
  return { steps, passes };
}"""


def file_of(name: str, seed: int = 0) -> str:
    """How the page calls the weights of a shipped network."""
    return bw.checkpoints.path_of(name, seed).stem


def tunnel_of(record: dict):
    """The tunnel in which a network was trained, from its record."""
    return bw.tunnels.build(record["tunnel"], record["tunnel_config"])


def prompts(tunnel, count: int, seed: int = SEED) -> list[torch.Tensor]:
    """Beginnings of `count` fresh episodes, of lengths drawn evenly from the first question on."""
    rng = torch.Generator().manual_seed(seed)
    inputs = tunnel.sample(count, rng).inputs
    least = tunnel.interface.scored[0] + 1
    lengths = torch.randint(least, inputs.shape[1] + 1, (count,), generator=rng)
    return [row[:length] for row, length in zip(inputs, lengths.tolist(), strict=True)]


@torch.no_grad()
def expected(model, given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Logits of the same prompts in PyTorch, (K, Y) each; prompts of one length run together."""
    found: list = [None] * len(given)
    for length in {len(prompt) for prompt in given}:
        places = [i for i, prompt in enumerate(given) if len(prompt) == length]
        for i, row in zip(places, model(torch.stack([given[i] for i in places])), strict=True):
            found[i] = row.double()
    return found


def parity(page, name: str, count: int, seed: int = 0) -> dict:
    """How far the page is from PyTorch on `count` prompts.

    Returns:
        the largest difference of a logit, the largest of an entropy (bits; none of a Gaussian
        outcome), and how many prompts and scored positions were compared.
    Raises:
        ValueError: if the page answers at other positions.
    """
    model = bw.load(name, seed)
    given = prompts(tunnel_of(model.record), count)
    theirs = []
    for start in range(0, count, 100):
        some = [prompt.tolist() for prompt in given[start : start + 100]]
        theirs += page.evaluate(ANSWERS, [file_of(name, seed), some])
    logits, bits, positions = 0.0, 0.0, 0
    for ours, other in zip(expected(model, given), theirs, strict=True):
        if len(ours) != len(other["logits"]):
            raise ValueError(f"the page answers {len(other['logits'])} times, PyTorch {len(ours)}")
        positions += len(ours)
        logits = max(logits, float((ours - torch.tensor(other["logits"])).abs().max()))
        if other["entropies"]:
            entropy = bw.scoring.entropy_bits(ours.log_softmax(-1) / torch.tensor(2.0).log())
            bits = max(bits, float((entropy - torch.tensor(other["entropies"])).abs().max()))
    return {"logits": logits, "entropy": bits, "prompts": count, "positions": positions}


def median(values: list[float]) -> float:
    """The middle one of some numbers."""
    return float(torch.tensor(values, dtype=torch.float64).quantile(0.5))


def times(page, name: str, episodes: int) -> dict:
    """Milliseconds of a step (one new token at the end of an episode) and of a whole pass."""
    given = tunnel_of(bw.load(name).record).sample(episodes, torch.Generator().manual_seed(SEED))
    seen = page.evaluate(TIMES, [file_of(name), given.inputs.tolist()])
    return {"step": median(seen["steps"]), "longest_step": max(seen["steps"]),
            "pass": median(seen["passes"]), "tokens": given.inputs.shape[1]}  # fmt: skip


def best_times(page, name: str, rounds: int = 6) -> dict:
    """`times` of the round with the shortest step: what the machine does when left alone."""
    return min((times(page, name, 4) for _ in range(rounds)), key=lambda row: row["step"])


def write_page(folder: Path, files: list[str]) -> Path:
    """A page with nothing but the engine, and the weights of some networks beside it."""
    shutil.copytree(WEB, folder, dirs_exist_ok=True)
    for file in files:
        networks.write(folder, file)
    (folder / "engine.html").write_text(PAGE, "utf-8")
    return folder / "engine.html"


@contextmanager
def opened(files: list[str]) -> Iterator:
    """The page in headless Chromium, from a folder; (page, the browser's version).

    Raises:
        FileNotFoundError: if there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    path = browsers.find()
    if path is None:
        raise FileNotFoundError("no Chromium: run make browser, or name one in BAYESWIND_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        page = browser.new_page()
        page.goto(write_page(Path(folder), files).as_uri())
        yield page, browser.version
        browser.close()


def shown() -> list[str]:
    """Names of the shipped networks (seed 0) of the two tunnels that a page plays with."""
    records = [r for r in bw.checkpoints.shipped() if r["tunnel"] in ("bijection", "hmm")]
    return [r["name"] for r in records if r["seed"] == 0]


def measure() -> dict:
    """Everything that the page "How this book is checked" says about networks in the page."""
    names = shown()
    with opened([file_of(name) for name in names]) as (page, version):
        rows = {}
        for name in names:
            path = bw.checkpoints.path_of(name)
            about = {"bytes": path.stat().st_size, "sha256": bw.load(name).record["sha256"]}
            rows[name] = about | parity(page, name, N_PROMPTS if name == MAIN else N_PROMPTS // 10)
        speed = {page.evaluate("bwNetwork.backend"): best_times(page, MAIN)}
        page.evaluate("bwNetwork.useJavaScript()")
        speed["javascript"] = best_times(page, MAIN)
        plain = parity(page, MAIN, N_PROMPTS // 10)
    return {
        **describe_environment(torch.device("cpu")), "browser": f"Chromium {version}", "seed": SEED,
        "networks": rows, "javascript": plain, "milliseconds": speed,
    }  # fmt: skip


def main(words: Sequence[str] = ()) -> int:
    """Measure with one thread, print and store."""
    torch.set_num_threads(1)
    record = measure()
    print(json.dumps(record, indent=1))
    bw.ledger.store.write("engine", record)
    return 0

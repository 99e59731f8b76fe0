"""The playground on a page of its own, in a folder as the site has it, and what the library says to it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import torch
from _support_explorer import WEB, networks

import bayeswind_lib as bw

PAGE = """<!DOCTYPE html><html lang="en" data-theme="light"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Playground</title>
<link rel="stylesheet" href="explorer.css"><link rel="stylesheet" href="machine_explorer.css"><link rel="stylesheet" href="playground.css">
<style>html[data-theme=dark] {{ background: #14181e; color: #eee }} body {{ margin: 12px; font: 16px/1.5 Arial, "DejaVu Sans Condensed", sans-serif }}</style>
{scripts}</head><body><main><h1>Page</h1><div class="bw-explorer" data-explorer="playground" {given}><p
class="poster bw-poster" style="height: 300px">A poster</p></div></main></body></html>"""
# Back to where every test starts.
RESET = """async () => { const host = document.querySelector('.bw-explorer').playground; await host.ready;
  if (!host.small) { if (!host.tour.field.hidden) host.tour.end(); host.closePanels(); host.bet.set(false); host.bet.rounds = []; }
  host.besides = {}; await host.choose('bijection', 'main'); host.off.clear(); host.plays.bijection.comesBack = false;
  host.machine?.stop(); host.machine?.forget(); if (host.machine) Object.assign(host.machine.state, {flow: 'attention'});
  host.drawsBeside = false; host.cuts.clear(); host.fresh(0, 5); host.past = []; host.update();
  document.activeElement.blur(); }"""
# The episode on the page, as the network reads it and as the library names it.
EPISODE = """root => { const play = root.playground.play;
  if (play.kind === 'recall') return {stored: play.keys, stored_values: play.values, queries: play.asked.slice(0, play.questions)};
  if (play.kind === 'regression') return {points: play.points.slice(0, play.questions)};
  return play.kind === 'hmm' ? {T: play.T, E: play.E, symbols: play.symbols}
    : {V: play.V, keys: play.asked.slice(0, play.shown + 1), values: play.asked.slice(0, play.shown + 1).map(k => play.map[k])}; }"""


def files() -> dict:
    """The networks that the playground may fetch, from its script: entries {file, bytes, ...} by task."""
    script = (WEB / "playground_tasks.js").read_text("utf-8")
    return json.loads(re.search(r"const FILES = (\{.*?\n  \});", script, re.DOTALL)[1])


def entries(tree=None) -> list[dict]:
    """Every entry {file, bytes, ...} of a tree as `files` gives it."""
    tree = files() if tree is None else tree
    if isinstance(tree, list):
        return [entry for part in tree for entry in entries(part)]
    return [tree] if "file" in tree else [entry for part in tree.values() for entry in entries(part)]


def write_page(folder: Path, weights: list[str], given: str = "", name: str = "page.html") -> Path:
    """A page with the playground, its scripts and some weights, as a page of a folder loads them."""
    shutil.copytree(WEB, folder, dirs_exist_ok=True)
    (folder / "networks").mkdir(exist_ok=True)
    for file in weights:
        (folder / "networks" / f"{Path(file).name}.js").write_text(networks.script_of(file), "utf-8")
    scripts = "".join(f'<script defer src="{file}"></script>' for file in json.loads((WEB / "playground.json").read_text("utf-8")))
    (folder / name).write_text(PAGE.format(scripts=scripts, given=given), "utf-8")
    return folder / name


def truth_and_inputs(shown: dict, comes_back: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The library's exact posterior, float64 (K, Y), and what its networks read (1, T), of the page's episode."""
    if "stored" in shown:
        tunnel = bw.tunnels.Recall(**bw.tunnels.Recall.presets["classroom"] | {"n_queries": len(shown["queries"])})
        episodes = tunnel.episodes(*(torch.tensor([shown[name]]) for name in ("stored", "stored_values", "queries")))
        return tunnel.posterior(episodes.inputs)[0], episodes.inputs
    if "points" in shown:
        t, y = torch.tensor(shown["points"], dtype=torch.float64).T[:, None]  # (1, K) each
        tunnel = bw.tunnels.Regression(2, n_pairs=t.shape[1], noise=0.5)
        episodes = tunnel.episodes(torch.zeros(1, 2).double(), torch.stack([torch.ones_like(t), t], -1), y)
        return episodes.posterior[0], episodes.inputs
    if "T" in shown:
        tunnel = bw.tunnels.HMM(3, 3, length=len(shown["symbols"]))
        T, E = (torch.tensor(shown[name], dtype=torch.float64)[None] for name in ("T", "E"))
        symbols = torch.tensor([shown["symbols"]])
        episodes = tunnel.episodes(T, E, torch.zeros_like(symbols), symbols)
        return episodes.posterior[0], episodes.inputs
    tunnel = bw.tunnels.Bijection(shown["V"], n_pairs=len(shown["keys"]), with_replacement=comes_back)
    episodes = tunnel.episodes(torch.tensor([shown["keys"]]), torch.tensor([shown["values"]]))
    return episodes.posterior[0], episodes.inputs


def measured(truth: torch.Tensor, log2: torch.Tensor, gaussian: bool = False) -> dict[str, float]:
    """Entropies, divergence (bits) and total variation at the last question, as the page names them.

    Of regression both are means and variances (K, 2)."""
    if gaussian:
        p, q = truth[-1], log2[-1].double()
        entropy, kl, tv = bw.scoring.gaussian_entropy_bits, bw.scoring.gaussian_kl_bits, bw.scoring.gaussian_total_variation
        return {"exact": float(entropy(p)), "network": float(entropy(q)), "kl": float(kl(p, q)), "tv": float(tv(p, q))}
    p, q = truth[-1], log2[-1].double().exp2()
    return {
        "exact": float(bw.scoring.entropy_bits(truth.log2())[-1]), "network": float(bw.scoring.entropy_bits(log2.double())[-1]),
        "kl": float(bw.scoring.kl_bits(truth, log2.double())[-1]), "tv": float((p - q).abs().sum() / 2),
    }  # fmt: skip

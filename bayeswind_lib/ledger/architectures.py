"""Architectures against tunnels: what came of every run, as a page of the book shows it.

A *result* is a network's name with all its seeds. Its state is computed from the share of the
divergence (KL) that is left of what knowing nothing scores on the same task:

  solved        at most a twentieth is left, and the network beats a short memory (see NEEDED)
  close         at most a twentieth is left, but a short memory is no worse
  partly        more, and neither another learning rate nor twice the budget would change it; or
                solved with some seeds and not with others, or only through a curriculum
  fails         as partly, and nine tenths or more are left
  not settled   not solved, without that evidence
  not run yet   no finished run is stored
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bayeswind_lib.checkpoints import store
from bayeswind_lib.ledger import baselines, page, trained
from bayeswind_lib.ledger.status import controls_suffice
from bayeswind_lib.training.plans import RIVALS

FACTS = ("Seed", "Rate", "Updates", "Batch", "KL", "Entropy error", "Right", "Minutes", "Processor", "Commit")  # of a stored row
STATES = {"solved": "✓", "close": "≈", "partly": "◐", "fails": "✗", "not settled": "…", "not run yet": "–"}
SOLVED, LOST = 0.05, 0.9
# The memory that a network has to beat to have solved a tunnel; where none is stored for the task,
# SURE is the share that may be left.
NEEDED = {"bijection": "window_8", "hmm": "window_2", "regression": "window_4"}
SURE = 0.01
LABELS = {
    "transformer": "Transformer", "transformer-uniform": "Transformer, attention frozen to uniform",
    "mamba": "Mamba", "lstm": "LSTM, one wide layer", "lstm-deep": "LSTM, six layers, as published",
    "mlp": "MLP, each token alone", "mlp-sum": "MLP on the running sum",
    "mlp-flattened": "MLP on the flattened context",
}


@dataclass(frozen=True)
class Result:
    """All that is known of one network: its plain runs, and the runs that try to improve on them.

    Attributes:
        name, tunnel, tunnel_config, label: of the network; a label is its row's head on the page.
        rows: the plain runs, one a seed. others: at other rates or of other budgets.
        left: share of the divergence of knowing nothing that is left; None if unknown.
        shares: the same of every seed.
        needed: the memory to beat, in words, and its share; None if none is stored for the task.
        controls: see `trained.controls`.
        longer: scores on longer inputs, by length, one a seed that has them.
        staged, staged_shares: the runs of the same architecture through a curriculum, one a seed, and
            what each leaves; of several curricula those with the lowest mean divergence.
    """

    name: str
    tunnel: str
    tunnel_config: dict
    label: str
    rows: tuple[dict, ...] = ()
    others: tuple[dict, ...] = ()
    left: float | None = None
    shares: tuple[float, ...] = ()
    needed: tuple[str, float] | None = None
    controls: dict | None = None
    longer: tuple[dict, ...] = ()
    staged: tuple[dict, ...] = ()
    staged_shares: tuple[float, ...] = ()

    def mean(self, measure: str) -> tuple[float, float, int]:
        """Mean over seeds, its error, and how many seeds."""
        return trained.mean_over_seeds(self.rows, measure)

    @property
    def state(self) -> tuple[str, str]:
        """One of STATES, and the reason where it is not plain."""
        if not self.rows:
            return "not run yet", ""
        if not all(row["schedule_ended"] for row in self.rows):
            return "not settled", "the run's schedule had not ended"
        if self.left is None:
            return "not settled", "no reference point is stored for this task"
        near = sum(share <= SOLVED for share in self.shares)
        if self.left <= SOLVED and max(self.shares) <= 2 * SOLVED:  # all seeds, or one hardly not
            return self._solved_or_close()
        if near:
            return "partly", f"solved or close in {near} of {len(self.shares)} seeds"
        if staged := sum(share <= SOLVED for share in self.staged_shares):
            return "partly", f"solved or close through a curriculum, in {staged} of {len(self.staged)} seeds"
        counts, lacking = controls_suffice(self.controls or {})
        if not counts:
            return "not settled", lacking
        return ("fails" if self.left >= LOST else "partly"), ""

    def _solved_or_close(self) -> tuple[str, str]:
        """Little is left: is it less than what a short memory leaves?"""
        words, share = self.needed or (f"{SURE:.0%} left", SURE)
        return ("solved", "") if self.left < share else ("close", f"not better than: {words}")


def load_records(folder: str | Path | None = None) -> dict[str, dict | None]:
    """The records that this page is made from."""
    return {name: store.read(name, folder) for name in (*baselines.RECORDS.values(), *trained.FINISHED, "networks")}


def results(plan: str, records: dict[str, dict | None]) -> list[Result]:
    """One result for every name in a plan, in the order of the plan; tunnels that the page does not compare are left out."""
    stored = trained.all_rows(records)
    compared = [cell for cell in trained.cells(plan) if cell.recipe.tunnel in trained.COMPARED]
    return [
        _result(cell, stored, records) for cell in {cell.name: cell for cell in reversed(compared)}.values()
    ][::-1]


def _result(cell, stored: list[dict], records: dict) -> Result:
    recipe, rows = cell.recipe, trained.plain_rows(cell.name, stored)
    config = rows[0]["tunnel_config"] if rows else recipe.tunnel_config
    kl, _, n = trained.mean_over_seeds(rows, "kl")
    others = [row for row in stored if row["name"] == cell.name and row not in rows]
    scored = trained.with_scores(cell.name, rows, records)
    longer = tuple(scored[seed]["scores"]["longer"] for seed in sorted(scored) if scored[seed]["scores"].get("longer"))

    def share(divergence: float) -> float | None:
        return baselines.left_to_learn(divergence, recipe.tunnel, config, records)

    left, staged = share(kl) if n else None, _staged(cell.name, stored)
    memory = baselines.value(baselines.baselines_of(recipe.tunnel, config, records), NEEDED.get(recipe.tunnel, ""))
    return Result(
        cell.name, recipe.tunnel, config, _label(cell.name), tuple(rows), tuple(others), left,
        () if left is None else tuple(share(float(row["kl"])) for row in rows),
        None if not memory else (baselines.LADDERS[recipe.tunnel][NEEDED[recipe.tunnel]], share(memory)),
        trained.controls(cell.name, stored), longer,
        tuple(staged), tuple(share(float(row["kl"])) for row in staged) if left is not None else (),
    )


def _staged(name: str, stored: list[dict]) -> list[dict]:
    """Plain runs of NAME-curriculum..., one a seed; of several such names those with the lowest mean divergence."""
    names = sorted({row["name"] for row in stored if row["name"].startswith(f"{name}-curriculum")})
    groups = [trained.plain_rows(one, stored) for one in names]
    return min(groups, key=lambda rows: trained.mean_over_seeds(rows, "kl")[0], default=[])


def _label(name: str) -> str:
    """A network's name without tunnel and preset: "mlp-sum" of "hmm-mlp-classroom-sum"."""
    return name.split("-", 1)[1].replace("-classroom", "")


class ArchitectureTable:
    """A heat grid: one row an architecture, one column a tunnel, every cell a link to its row of "What it cost".

    With the script of the ledger's grid it is filtered and ordered, and shows a cell's row beside it.
    """

    plan, opens = "architectures", "hmm-transformer-classroom"

    def __init__(self, records: dict[str, dict | None]):
        self.records = records
        self.results = {(r.tunnel, r.label): r for r in results(self.plan, records)}

    def __repr__(self) -> str:
        return "\n".join(f"{r.name}: {_plain_cell(r)}" for r in self.results.values())

    def _repr_html_(self) -> str:
        labels = ["-".join(part for part in pair if part) for pair in RIVALS]
        body = "\n".join(self._row(label) for label in labels)
        known = {"status": STATES, "tunnel": trained.COMPARED, "architecture": {name: LABELS[name] for name in labels}}
        return (
            f'{page.STYLE}{STYLE}<div class="bw-ledger"><div class="bw-explorer" data-explorer="ledger" '
            f"data-words='{escape(json.dumps(known), quote=True)}'><div class=\"bw-squares bw-table\"><table class=\"bw-heat\">"
            "<caption>Entropy error in bits, mean over seeds, at classroom size</caption>"
            f"{_heads(['Architecture', *trained.COMPARED.values()])}<tbody>\n{body}\n</tbody></table></div></div>"
            f"{_fold('Reference points that need no training: entropy error / KL, bits', self._baselines())}</div>"
        )

    def _row(self, label: str) -> str:
        cells = "".join(self._cell(self.results.get((tunnel, label)), label) for tunnel in trained.COMPARED)
        return f'<tr><th scope="row">{LABELS[label]}</th>{cells}</tr>'

    def _cell(self, result: Result | None, label: str) -> str:
        if result is None:
            return "<td>not planned</td>"
        state, error = result.state[0], result.mean("entropy_mae")[0] if result.rows else math.inf
        short = f"<b>{error:.2g}</b> " if result.rows else ""  # an infinite one is "inf"
        told = f"{LABELS[label]}, {trained.COMPARED[result.tunnel]}: {f'{error:.2g} ' if short else ''}{STATES[state]} {state}."
        facts = {"status": state, "tunnel": result.tunnel, "architecture": label, "score": str(error).replace("inf", "Infinity")}
        data = "".join(f' data-{name}="{value}"' for name, value in facts.items())
        data += " data-opens" if result.name == self.opens else ""
        return (
            f'<td><a class="bw-square bw-status-{state.replace(" ", "-")}" href="#{self.plan}-{result.name}" '
            f'aria-label="{escape(told)}"{data}>{short}<span>{STATES[state]} <i>{state}</i></span></a></td>'
        )

    def _baselines(self) -> str:
        """Two rows: knowing nothing, and the other reference points of each tunnel."""
        configs = {r.tunnel: r.tunnel_config for r in self.results.values()}
        known = {t: baselines.baselines_of(t, configs[t], self.records) for t in trained.COMPARED}
        nothing = "".join(
            f"<td>{_baseline_text(known[t], baselines.KNOWS_NOTHING[t])}</td>" for t in trained.COMPARED
        )
        others = "".join(
            "<td>" + "".join(
                f"<small>{escape(words)}: {_baseline_text(known[t], name)}</small>"
                for name, words in baselines.LADDERS[t].items()
                if name != baselines.KNOWS_NOTHING[t] and name in known[t]
            ) + "</td>"
            for t in trained.COMPARED
        )
        return (
            f"{_heads(['Predictor', *trained.COMPARED.values()])}<tbody>"
            f'<tr><th scope="row">Knowing nothing <small>uniform guess; in regression the prior alone</small></th>{nothing}</tr>\n'
            f'<tr><th scope="row">Others</th>{others}</tr></tbody>'
        )


class VariantTable:
    """One row a network of a plan, folded: its scores, its cost, its place among the reference points.

    Args:
        plan, caption: which networks, and a sentence that opens the table. A row's anchor is PLAN-NAME.
        records: see `load_records`.
        longer: also what networks score on longer inputs.
    """

    def __init__(
        self, plan: str, caption: str, records: dict[str, dict | None], longer: bool = False
    ):
        self.plan, self.caption, self.records, self.results = plan, caption, records, results(plan, records)
        self.lengths = sorted({int(k) for r in self.results for one in r.longer for k in one} if longer else ())
        self.columns = ["Entropy error", "KL", *(f"Error at K = {k}" for k in self.lengths), "State", "Cost and place"]

    def __repr__(self) -> str:
        return "\n".join(f"{r.name}: {_plain_cell(r)}" for r in self.results)

    def _repr_html_(self) -> str:
        body = "\n".join(self._row(result) for result in self.results)
        table = _fold(f"{self.caption}: {len(self.results)} rows", f"{_heads(['Network', *self.columns])}<tbody>\n{body}\n</tbody>")
        return f'{page.STYLE}{STYLE}<div class="bw-ledger">{table}</div>'

    def _row(self, result: Result) -> str:
        anchor = f"{self.plan}-{result.name}"
        name, cells = escape(f"{trained.COMPARED[result.tunnel]}: {result.label}"), [""] * (2 + len(self.lengths)) + [_pill(result), ""]
        if result.rows:
            name = f'<a href="#run-{result.name}">{name}</a>'
            cells = [_value(result, "entropy_mae"), _value(result, "kl"), *(_longer(result, k) for k in self.lengths)]
            cells += [_pill(result), _smalls(_facts(result, self.records))]
        tds = "".join(f'<td data-label="{label}">{cell}</td>' for label, cell in zip(self.columns, cells, strict=True))
        return f'<tr id="{anchor}"><th scope="row">{name}<small><a href="#{anchor}">link</a></small></th>{tds}</tr>'


class RunRecords:
    """The stored rows behind the tables, one fold a network, each an anchor to link to."""

    def __init__(self, plans: Iterable[str], records: dict[str, dict | None]):
        found = {r.name: r for plan in plans for r in results(plan, records)}
        self.results = [r for r in found.values() if r.rows]

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return "\n".join(f"{r.name}: {len(r.rows)} seeds, {len(r.others)} other runs" for r in self.results)

    def _repr_html_(self) -> str:
        if not self.results:
            return "<p>No run has been stored yet.</p>"
        folds = "".join(map(self._fold, self.results))
        return f'{STYLE}<div class="bw-ledger"><details class="bw-long"><summary>Stored rows of {len(self)} networks</summary>{folds}</details></div>'

    def _fold(self, result: Result) -> str:
        words = f"<code>{result.name}</code>: {_seeds(result)}, {len(result.others)} other runs"
        body = "".join(f"<tr>{''.join(map(_cell, _told(row)))}</tr>\n" for row in (*result.rows, *result.others))
        table = f'<table class="bw-grid">{_heads(FACTS)}<tbody>{body}</tbody></table>'
        return (
            f'<details class="bw-run" id="run-{result.name}"><summary>{words}</summary><div class="bw-table" tabindex="0" '
            f'role="region" aria-label="{escape(result.name)}">{table}</div></details>\n'
        )


def _heads(names: Iterable[str]) -> str:
    return "<thead><tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in names) + "</tr></thead>\n"


def _fold(words: str, table: str) -> str:
    """The inside of a table, folded away under some words."""
    return (
        f'<details class="bw-long bw-in-print"><summary>{escape(words)}</summary><div class="bw-table" tabindex="0" role="region" '
        f'aria-label="{escape(words)}"><table class="bw-grid">{table}</table></div></details>'
    )


def _told(row: dict) -> list[str]:
    """What is shown of a stored row, in the order of FACTS."""
    right = row.get("accuracy")
    return [
        str(row["seed"]), f"{trained.rate_of(row):g}", f"{row['steps']:,}", f"{row['batch_size']:,}", page._short(float(row["kl"])),
        page._short(float(row["entropy_mae"])), "" if right is None else f"{100 * right:.1f} %", f"{row['seconds'] / 60:.1f}",
        row["device"], (row["commit"] or "")[:8],
    ]


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _smalls(texts: Iterable[str]) -> str:
    return "".join(f"<small>{escape(text)}</small>" for text in texts)


def _facts(result: Result, records: dict) -> list[str]:
    """What stands small in a row of a table: seeds, cost, effort, place, and what is lacking."""
    best = min(float(row["entropy_mae"]) for row in result.rows)
    facts = [f"{_seeds(result)}, best {page._short(best)}", _cost(result), _effort(result)]
    right = result.mean("accuracy")
    if result.tunnel == "recall" and right[2]:
        facts.append(f"accuracy {100 * right[0]:.1f} %")
    if result.left:
        nothing = page._short(result.mean("kl")[0] / result.left)
        facts.append(f"{_percent(result.left)} of the KL of knowing nothing, {nothing}, is left")
    return [*facts, _place(result, records), *([result.state[1]] if result.state[1] else [])]


def _seeds(result: Result) -> str:
    return f"{len(result.rows)} seeds" if len(result.rows) > 1 else "1 seed"


def _place(result: Result, records: dict) -> str:
    """The best reference point that is beaten."""
    kl = result.mean("kl")[0]
    above = baselines.next_baseline(kl, result.tunnel, result.tunnel_config, records)
    return f"beats: {above[0]}, KL {page._short(above[1])}" if above else "beats no reference point"


def _cost(result: Result) -> str:
    minutes = trained.mean_over_seeds(result.rows, "seconds")[0] / 60
    return f"{result.rows[0]['parameters']:,} parameters, {minutes:.1f} min a run"


def _effort(result: Result) -> str:
    """Episodes until the learning curve was first at 0.1 bits; how many seeds got there."""
    mean, _, n = result.mean("episodes_to/0.1")
    if not n:
        return f"never at 0.1 bits in {result.rows[0]['episodes']:,} episodes"
    share = "" if n == len(result.rows) else f" ({n} of {len(result.rows)} seeds)"
    return f"0.1 bits after {mean:,.0f} episodes{share}"


def _value(result: Result, measure: str) -> str:
    mean, error, _ = result.mean(measure)
    return page._with_error(_finite(mean), error)


def _finite(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def _longer(result: Result, length: int) -> str:
    """The error at another length, and how it jumps at the first new step: the mean over the seeds of which it is known."""
    found = [one[str(length)] for one in result.longer if str(length) in one]
    if not found:
        return ""
    trained_length = result.tunnel_config["length"]
    curves = [one["per_position"]["entropy_mae"] for one in found]
    jump = statistics.mean(curve[trained_length] / curve[trained_length - 1] for curve in curves)
    few = len(found) < len(result.rows)
    seeds = f" ({len(found)} of {len(result.rows)} seeds)" if few else ""
    error = statistics.mean(one["entropy_mae"] for one in found)
    return f"{page._short(error)}<small>step {trained_length + 1}: {jump:.3g} times step {trained_length}{seeds}</small>"


def _baseline_text(known: dict, name: str) -> str:
    found = [baselines.value(known, name, measure) for measure in ("entropy_mae", "kl")]
    if found[0] is None:
        return "not stored"
    return " / ".join(page._short(_finite(value)) for value in found if value is not None)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _pill(result: Result) -> str:
    state = result.state[0]
    return f'<span class="bw-status bw-status-{state.replace(" ", "-")}">{STATES[state]} {state}</span>'


def _plain_cell(result: Result) -> str:
    return f"{_value(result, 'entropy_mae')} {result.state[0]}" if result.rows else "not run yet"


STYLE = """<style>
.bw-ledger .bw-table { overflow-x: auto; max-width: 100%; }
.bw-ledger .bw-table:focus-visible { outline: 3px solid #0072B2; }
.bw-ledger .bw-table > table.bw-grid { display: table; border-collapse: collapse; font-size: 0.85em; line-height: 1.4;
  min-width: 37rem; width: 100%; margin: 0.5rem 0 1rem; text-align: left; }
.bw-grid caption { color: var(--quiet); text-align: left; caption-side: top; }
.bw-grid th, .bw-grid td { padding: 0.5rem 0.45rem; vertical-align: top; text-align: left;
  border-bottom: 1px solid var(--line); color: var(--ink); background: transparent; }
.bw-grid thead th { border-bottom: 2px solid var(--line); }
.bw-grid tbody th { font-weight: 600; min-width: 6.5rem; position: sticky; left: 0;
  background: var(--pst-color-background, #fff); }
.bw-grid td[data-label="Cost and place"] { min-width: 13rem; }
.bw-ledger .bw-grid small { font-size: 0.85em; line-height: 1.35; }
.bw-grid tr:target { outline: 3px solid #0072B2; }
.bw-status-solved { --fill: #d6f0e2; --mark: #0b4a2c; }
.bw-status-close { --fill: #dcecf7; --mark: #0b3f63; }
.bw-status-fails { --fill: #fbd9d3; --mark: #7a1c0b; }
.bw-status-not-run-yet { --fill: #e6def5; --mark: #46307a; }
html[data-theme="dark"] .bw-status-solved { --fill: #1d5a3d; --mark: #d6f0e2; }
html[data-theme="dark"] .bw-status-close { --fill: #1b4c6e; --mark: #dcecf7; }
html[data-theme="dark"] .bw-status-fails { --fill: #7a2a1c; --mark: #fbd9d3; }
html[data-theme="dark"] .bw-status-not-run-yet { --fill: #4a3a70; --mark: #e6def5; }
details.bw-run { border-bottom: 1px solid var(--line); padding: 0.2rem 0; }
details.bw-run:target { outline: 3px solid #0072B2; }
details.bw-run pre { max-height: 20rem; overflow: auto; font-size: 0.75em; white-space: pre-wrap; overflow-wrap: anywhere; }
</style>"""

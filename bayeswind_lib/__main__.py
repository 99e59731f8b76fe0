"""The command line: `python -m bayeswind_lib train | retrain | check | score | probe | page | sweep | queue | record | records | list | ledger | language`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated

import torch

try:
    import typer
except ImportError:  # the one part of the library that needs it
    sys.exit("the command line needs the package typer: pip install typer")

from bayeswind_lib import baselines, checkpoints, scoring, training, tunnels
from bayeswind_lib.checkpoints.files import check_writable, write_atomically
from bayeswind_lib.training import plans
from bayeswind_lib.training.sweep import describe, is_begun, read_row, read_rows, runs_text

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Train networks in wind tunnels, score them against the exact posterior, list what ships.",
)

TUNNEL_NAMES = ", ".join(tunnels.TUNNELS)
NEW_TUNNEL = f"Which task: {TUNNEL_NAMES}; or a Python file that registers one."
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Own = Annotated[Path | None, typer.Option("--tunnel", help="The Python file that registers the network's tunnel, if it is your own.")]


def _tunnel_called(tunnel: str) -> str:
    """A tunnel's name; a file that registers one is run first."""
    if tunnel.endswith(".py"):
        return tunnels.load_file(tunnel)
    try:
        tunnels.find(tunnel)
    except ValueError as problem:
        raise ValueError(f"{problem} (here: name the file, my_tunnel.py, in its place)") from None
    return tunnel


@app.command()
def train(
    tunnel: Annotated[str, typer.Argument(help=NEW_TUNNEL)],
    architecture: Annotated[str, typer.Argument(help=f"Which network: {', '.join(training.presets.RATES)}.")],
    preset: Annotated[str, typer.Option(help="smoke | read | classroom | paper")] = "classroom",
    seed: Annotated[int, typer.Option(help="Of the initial weights and of the episodes.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ..., or auto: a GPU where there is one.")] = "cpu",
    supervision: Annotated[str | None, typer.Option(help="sampled | posterior; the tunnel's own by default.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="muon | adamw; the preset's own by default")] = None,
    steps: Annotated[int | None, typer.Option(help="Updates; the preset's own by default.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Updates in which the rate rises; the preset's own by default, half of --steps at most.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 | tf32 | bfloat16 | auto (what the device is fast in); the preset's own by default.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the run is kept; runs/<name> by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    save_as: Annotated[str | None, typer.Option(help="Also save the network under this name.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Folder for --save-as; the run's own by default.")] = None,
) -> None:
    """Train a network from scratch. Stop it at any moment; go on with --resume."""
    tunnel = _tunnel_called(tunnel)
    wanted = {
        "supervision": supervision, "optimiser": optimiser, "steps": steps, "warmup_steps": warmup, "precision": precision,
    }
    recipe = training.recipe(
        tunnel, architecture, preset, seed=seed, data_seed=seed,
        **{key: value for key, value in wanted.items() if value is not None},
    )
    folder = folder or Path("runs") / f"{tunnel}-{architecture}-{preset}-{recipe.supervision}-seed{seed}"
    name = save_as or f"{tunnel}-{architecture}-{preset}"
    checkpoints.check_name(name)
    _train_and_save(recipe, {"preset": preset}, name, folder, device, resume, weights)


@app.command()
def retrain(
    network: Annotated[str, typer.Argument(help="A shipped network's name.")],
    seed: Annotated[int, typer.Option(help="Which training seed of it.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    folder: Annotated[Path | None, typer.Option(help="Where the run is kept; runs/<name> by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    own: Own = None,
) -> None:
    """Train a shipped network again, by the recipe in its record."""
    if own is not None:
        tunnels.load_file(own)
    record = checkpoints.read_record(checkpoints.path_of(network, seed))
    recipe = training.Recipe.from_dict(record["recipe"])
    folder = folder or Path("runs") / f"{network}-seed{seed}"
    kept = {"preset": record.get("preset")}
    _train_and_save(recipe, kept, network, folder, device, resume, None)


def _train_and_save(
    recipe: training.Recipe, extra: dict, name: str, folder: Path, device: str, resume: bool,
    weights: Path | None,
) -> None:
    """Run a recipe to its end, score the network on fresh episodes, save both, and say so."""
    device = str(training.check_device(device))
    if weights is not None:
        check_writable(weights)
    typer.echo(f"{recipe.steps} steps of {recipe.batch_size} episodes on {device}, kept in {folder}")
    try:
        model, record = training.train(recipe, folder, device, resume=resume)
    except training.Interrupted as stopped:  # typer would swallow the message
        typer.echo(f"\n{stopped}")
        raise typer.Exit(130) from None
    scores = training.final_score(model, recipe.tunnel, recipe.tunnel_config, 2000, 1).to_dict()
    path = checkpoints.save(
        model, record | extra | {"scores": scores}, name, recipe.seed, weights or folder
    )
    _print_score(scores)
    typer.echo(f"saved {path}")


@app.command()
def score(
    network: Annotated[str, typer.Argument(help="A shipped network's name, or a .safetensors file.")],
    episodes: Annotated[int, typer.Option(help="How many fresh episodes.")] = 2000,
    seed: Annotated[int, typer.Option(help="Which training seed of a shipped network.")] = 0,
    data_seed: Annotated[int, typer.Option(help="Of the episodes.")] = 1,
    own: Own = None,
    as_json: Json = False,
) -> None:
    """Score a trained network against the exact posterior on fresh episodes."""
    model = _loaded(network, seed, own)
    record = model.record
    result = training.final_score(model, record["tunnel"], record["tunnel_config"], episodes, data_seed)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1))
    else:
        _print_score(result.to_dict())


@app.command()
def probe(
    network: Annotated[str, typer.Argument(help="A shipped network's name, or a .safetensors file.")],
    what: Annotated[str, typer.Argument(help="activations | keys | attention | heads | layers | beliefs")],
    episodes: Annotated[int, typer.Option(help="How many fresh episodes.")] = 256,
    seed: Annotated[int, typer.Option(help="Which training seed of a shipped network.")] = 0,
    data_seed: Annotated[int, typer.Option(help="Of the episodes and of the nulls.")] = 1,
    draws: Annotated[int, typer.Option(help="Of each null of the keys.")] = 200,
    own: Own = None,
    as_json: Json = False,
) -> None:
    """Open a trained network: what a part of it holds or is worth, beside its nulls."""
    from bayeswind_lib import probes

    rows = probes.report(_loaded(network, seed, own), what, episodes, draws, data_seed)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    _print_table(rows)


def _print_table(rows: list[dict]) -> None:
    """Rows as aligned text; a null's two limits and the percentile in it share a column."""
    rows = [_joined_nulls(row) for row in rows]
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        typer.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _joined_nulls(row: dict) -> dict:
    """A row in which "X low", "X high" and "X percentile" became one entry, X.

    >>> _joined_nulls({"cosine": 0.4, "even low": 0.1234, "even high": 0.2, "even percentile": 99.5})
    {'cosine': 0.4, 'even': '.123-.200 p99.5'}
    """
    found: dict = {}
    for name, value in row.items():
        null = name.removesuffix(" low")
        if null != name and f"{null} percentile" in row:
            low, high = (f"{limit:.3f}".replace("0.", ".", 1) for limit in (value, row[f"{null} high"]))
            found[null] = f"{low}-{high} p{row[f'{null} percentile']:g}"
        elif not any(f"{name.removesuffix(end)} low" in row for end in (" high", " percentile")):
            found[name] = value
    return found


@app.command()
def check(
    tunnel: Annotated[str, typer.Argument(help=NEW_TUNNEL)],
    preset: Annotated[str, typer.Option(help="smoke | read | classroom | paper")] = "classroom",
    episodes: Annotated[int, typer.Option(help="How many the posterior is compared with.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of these episodes.")] = 0,
) -> None:
    """Is a tunnel right: its shapes, its seeds, and does its posterior predict what happens? And what knows little scores in it."""
    name = _tunnel_called(tunnel)
    built = tunnels.build(name, training.presets.tunnel_config(name, preset))
    typer.echo(f"{name}: {built!r}")
    found = tunnels.check(built, episodes, seed)
    typer.echo(str(found))
    if not found.ok:
        raise typer.Exit(1)
    rng = torch.Generator().manual_seed(seed + 1)
    drawn = built.sample(episodes, rng)
    rows = []
    for what, predictor in baselines.reference_points(built, rng).items():
        result = scoring.score_episodes(predictor, drawn)
        rows.append({"predictor": what, "KL (bits)": result.kl, "entropy error (bits)": result.entropy_mae})
    _print_table(rows)


@app.command()
def page(
    network: Annotated[str, typer.Argument(help="A shipped network's name, or a .safetensors file.")],
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("page.html"),
    episodes: Annotated[int, typer.Option(help="How many episodes it shows.")] = 8,
    seed: Annotated[int, typer.Option(help="Which training seed of a shipped network.")] = 0,
    data_seed: Annotated[int, typer.Option(help="Of the episodes.")] = 1,
    own: Own = None,
) -> None:
    """Export episodes as one HTML file: the exact posterior beside the network, which runs in the page."""
    from bayeswind_lib.widgets.page import page as write

    model = _loaded(network, seed, own)
    tunnel = tunnels.build(model.record["tunnel"], model.record["tunnel_config"])
    typer.echo(f"wrote {write(model, tunnel.sample(episodes, torch.Generator().manual_seed(data_seed)), out)}")


def _loaded(network: str, seed: int, own: Path | None = None):
    """A shipped network by name, or one from a file; `own` registers its tunnel."""
    if own is not None:
        tunnels.load_file(own)
    is_file = network.endswith(".safetensors")
    model = checkpoints.load_file(network) if is_file else checkpoints.load(network, seed)
    if not tunnels.is_known(model.record["tunnel"]):
        raise ValueError(f"{network} is of the tunnel {model.record['tunnel']}, one of your own: name its file with --tunnel my_tunnel.py")
    return model


def _cell(value) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "all" if value is None else str(value)


@app.command()
def sweep(
    plan: Annotated[str, typer.Argument(help=f"Which runs: {', '.join(plans.PLANS)}.")],
    folder: Annotated[Path | None, typer.Option(help="Where everything is kept; runs/PLAN by default.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that train at once; 0 trains in this one, without Dask.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="Use the Dask cluster at tcp://HOST:PORT; the folder must be shared with it.")] = None,
    threads: Annotated[int, typer.Option(help="Threads of the mathematics library in each worker.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    only: Annotated[str | None, typer.Option(help="Only the runs whose name contains this.")] = None,
    seeds: Annotated[str | None, typer.Option(help="Only the runs with these seeds, for example 0,1.")] = None,
    episodes: Annotated[int, typer.Option(help="Fresh episodes on which each network is scored.")] = 2000,
    show: Annotated[bool, typer.Option("--list", help="Run nothing: list the runs, and the best results so far.")] = False,
    copy: Annotated[bool, typer.Option("--ship", help="Run nothing: copy each network's best setting, all its seeds, to where networks are loaded from by name.")] = False,
    dtype: Annotated[str, typer.Option(help="With --ship: numbers of the copies, float32 | float16 | int8.")] = "float32",
    record: Annotated[Path | None, typer.Option(help="Run nothing: write the results of the finished runs into this JSON file.")] = None,
) -> None:
    """Train and score every run of a plan, several at once.

    Stop it at any moment and start it again with the same words: finished runs are skipped, the others go on where they were.

    A run that fails does not stop the others; what failed is named at the end, and the exit code is 1.
    """
    cells = _chosen_cells(plan, only, seeds)
    folder = folder or Path("runs") / plan
    if show or copy or record:
        if show:
            _list_cells(cells, folder)
        if copy:
            _ship_winners(cells, folder, dtype)
        if record:
            _write_rows(cells, folder, record)
        return
    if device != "cpu" and scheduler is None:
        training.check_device(device)
    try:
        rows = training.sweep(cells, folder, scheduler, workers, threads, typer.echo, episodes, device)
    except training.Interrupted as stopped:
        typer.echo(f"\n{stopped}")
        raise typer.Exit(130) from None
    typer.echo(f"{len(rows)} of {len(cells)} runs are finished in {folder}")
    raise typer.Exit(0 if len(rows) == len(cells) else 1)


@app.command("queue")
def work_through(
    status: Annotated[bool, typer.Option("--status", help="Run nothing: print what is done, what is running and what is next.")] = False,
    folder: Annotated[Path, typer.Option(help="Where unfinished runs and weights are kept: a place that outlives this checkout, if there is one.")] = Path("runs/queue"),
    workers: Annotated[int, typer.Option(help="Processes that train at once; more than 1 needs Dask.")] = 1,
    threads: Annotated[int, typer.Option(help="Threads of the mathematics library in each.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    only: Annotated[str | None, typer.Option(help="Only the runs whose name contains this.")] = None,
    plan: Annotated[Path | None, typer.Option(help="The plan, a TOML file; the book's own by default.")] = None,
    record: Annotated[Path | None, typer.Option(help="Where finished runs are taken down; the checkout's record by default.")] = None,
    episodes: Annotated[int, typer.Option(help="Fresh episodes on which each network is scored.")] = 2000,
) -> None:
    """Work through the plan of what is still to be trained, the most wanted first.

    Stop it at any moment, kill it if you like, and start it again with the same words: what is done is skipped, the rest goes on where it was. A finished run is a row of the record at once.
    """
    from bayeswind_lib.experiments import queue

    plan = plan or queue.PLAN
    chosen = [entry for entry in queue.entries(plan) if only is None or only in entry.cell.key]
    if not chosen:
        raise ValueError(f"no run of {plan} has {only!r} in its name: see `queue --status` for their names")
    if status:
        for line in queue.status(chosen, folder, record):
            typer.echo(line)
        return
    if workers < 1:
        raise ValueError(f"workers is {workers}: at least 1 has to train")
    training.check_device(device)
    try:
        left = queue.work(chosen, folder, record, workers, threads, device, episodes, typer.echo)
    except training.Interrupted as stopped:
        typer.echo(f"\n{stopped}")
        raise typer.Exit(130) from None
    typer.echo(f"{len(chosen) - left} of {len(chosen)} runs are done; the rows are in {record or queue.record_path()}")
    raise typer.Exit(1 if left else 0)


@app.command("record")
def speed_record(
    task: Annotated[str | None, typer.Argument(help="Which task: see --list.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Train nothing: print the tasks and the records that stand.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Where the runs are kept; runs/record by default.")] = None,
    file: Annotated[Path | None, typer.Option(help="The tasks with the recipes to try, a TOML file; the book's own by default.")] = None,
    enter: Annotated[Path | None, typer.Option(help="Where a record is entered; the checkout's file by default.")] = None,
    episodes: Annotated[int, typer.Option(help="Fresh episodes on which each network is scored.")] = 2000,
) -> None:
    """Try for a speed record: train a task's recipe in three seeds on one thread, and enter the result if it is one.

    Stop it at any moment and start it again: what is done is skipped, the rest goes on where it was.
    """
    from bayeswind_lib.training import speed

    if show or task is None:
        for line in speed.listing(speed.tasks(file or speed.TASKS), enter):
            typer.echo(line)
        return
    try:
        found = speed.work(speed.task(task, file or speed.TASKS), folder or Path("runs") / "record", enter, episodes, typer.echo)
    except training.Interrupted as stopped:
        typer.echo(f"\n{stopped}")
        raise typer.Exit(130) from None
    raise typer.Exit(0 if found else 1)


def _chosen_cells(plan: str, only: str | None, seeds: str | None) -> list[plans.Cell]:
    """The cells of a plan that --only and --seeds leave; ValueError if that is none."""
    cells = plans.plan(plan)
    if only is not None:
        cells = [cell for cell in cells if only in cell.key]
    if seeds is not None:
        if not all(word.strip().isdigit() for word in seeds.split(",")):
            raise ValueError(f"seeds is {seeds!r}: write numbers with commas, for example 0,1,2")
        wanted = {int(word) for word in seeds.split(",")}
        cells = [cell for cell in cells if cell.recipe.seed in wanted]
    if not cells:
        raise ValueError(f"no run of {plan} is left: see `sweep {plan} --list` for their names")
    return cells


def _list_cells(cells: list[plans.Cell], folder: Path) -> None:
    """Which cells have ended, which not, and the best row of each network."""
    for cell in cells:
        row = read_row(cell, folder)
        state = "done" if row else "begun" if is_begun(cell, folder) else "pending"
        typer.echo(f"{state:8} {cell.key}" + (f"  {describe(row)}" if row else ""))
    rows = read_rows(cells, folder)
    typer.echo(f"{len(rows)} of {len(cells)} runs are finished in {folder}")
    names = sorted({row["name"] for row in rows})
    if names:
        typer.echo(f"best of each network:\n{'network':44} {'KL':>9} {'error':>8} (bits)  rate")
    for name in names:
        row = training.best(rows, name=name)
        rate = f"{row['optimiser']} {row['learning_rate']:g}"
        if row["optimiser"] == "muon":
            rate += f", matrices {row['matrix_learning_rate']:g}"
        typer.echo(f"{name:44} {float(row['kl']):9.6f} {row['entropy_mae']:8.5f}         {rate}, seed {row['seed']}")


def _ship_winners(cells: list[plans.Cell], folder: Path, dtype: str) -> None:
    """Copy the winning networks among the finished cells into the package's weights folder."""
    if dtype not in ("float32", "float16", "int8"):
        raise ValueError(f"dtype is {dtype!r}: choose one of float32, float16, int8")
    for row in training.winners(read_rows(cells, folder)):
        typer.echo(f"saved {training.ship(row, folder, dtype=getattr(torch, dtype))}")


def _write_rows(cells: list[plans.Cell], folder: Path, path: Path) -> None:
    """Write {"runs": [row, ...]} of the finished cells."""
    rows = read_rows(cells, folder)
    write_atomically(path, runs_text(rows).encode())
    typer.echo(f"{len(rows)} of {len(cells)} runs are in {path}")


@app.command("list")
def list_networks(
    folder: Annotated[Path | None, typer.Argument(help="A folder with networks of your own.")] = None, as_json: Json = False,
) -> None:
    """List the networks that ship with the book, or those in a folder, with their scores."""
    keys = ("name", "tunnel", "architecture", "preset", "seed", "parameters")
    rows = []
    for record in checkpoints.shipped(folder):
        row = {key: record.get(key) for key in keys}
        row["supervision"] = record.get("recipe", {}).get("supervision")
        row["variant"] = checkpoints.variant_of(record)
        scores = record.get("scores")  # a network can be saved before it is scored
        row["scores"] = scores and {k: scores[k] for k in (*scoring.MEASURES, "n_episodes")}
        rows.append(row)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    typer.echo(f"{'network':42} {'seed':>4} {'parameters':>10} {'entropy error':>14} {'KL':>9}  (bits)")
    for row in rows:
        scores = row["scores"] or {}
        error, kl = scores.get("entropy_mae", math.nan), scores.get("kl", math.nan)
        typer.echo(f"{row['name']:42} {row['seed']:4} {row['parameters']:10,} {error:14.5f} {float(kl):9.6f}")


@app.command("ledger")
def show_ledger(
    network: Annotated[str | None, typer.Argument(help="Only what is claimed of this network: a shipped one's name, or a .safetensors file, which is measured now.")] = None,
    own: Own = None,
    as_json: Json = False,
) -> None:
    """Show every published number beside what is measured here, and what follows."""
    from bayeswind_lib import ledger  # reads stored records: only when asked for
    from bayeswind_lib.ledger.page import text_table

    rows = ledger.rows()
    if network is not None:
        rows = [row for row in rows if row["network"] == network] or ledger.own(_loaded(network, 0, own))
    typer.echo(json.dumps(rows, indent=1) if as_json else text_table(rows))


@app.command()
def records(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all that need neither hours nor a language model without any.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Do not score networks again whose weights are unchanged.")] = False,
    runs: Annotated[Path | None, typer.Option(help="The folder of training runs that a record rests on; runs/NAME by default.")] = None,
    workers: Annotated[int, typer.Option(help="Processes that run at once, where a record rests on many runs.")] = 2,
    show: Annotated[bool, typer.Option("--list", help="Measure nothing: list the records.")] = False,
) -> None:
    """Measure again what the book's pages quote and do not run: the stored records.

    Stop it at any moment and start it again: training runs that are finished are not run again.
    """
    from bayeswind_lib import experiments
    from bayeswind_lib.language import NotHere

    if show:
        kinds = (("", experiments.MADE), ("only when named: hours", experiments.RACES), ("only when named: needs the language model", experiments.LANGUAGE))
        for words, kind in kinds:
            for name in kind:
                typer.echo(f"{name:20} {words}".rstrip())
        return
    try:
        experiments.make_records(names or (), report=typer.echo, keep=keep, runs=runs, workers=workers)
    except NotHere as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on")
        raise typer.Exit(130) from None


def _print_score(scores: dict) -> None:
    labels = {
        "entropy_mae": "entropy error", "kl": "KL", "cross_entropy_gap": "cross-entropy gap",
        "tv": "total variation", "support_leak": "support leak",
    }
    typer.echo(f"on {scores['n_episodes']} fresh episodes:")
    for key, label in labels.items():
        unit = "bits" if key in ("entropy_mae", "kl", "cross_entropy_gap") else "probability"
        error = scores[f"{key}_se"]
        spread = f" +- {error:.6f}" if error is not None else ""
        typer.echo(f"  {label:18} {float(scores[key]):9.6f}{spread} {unit}")


@app.command()
def language(
    model: Annotated[str, typer.Argument(help="A model of the hub (EleutherAI/pythia-410m), or a folder in its format.")],
    record: Annotated[bool, typer.Option("--record", help="Measure all that the ledger asks of a public model, and store it.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Where the record lies; the ledger's own by default.")] = None,
) -> None:
    """The diagnostics of chapter 17 on a public language model; with --record, the ledger's rows about it are settled."""
    from bayeswind_lib.language import NotHere, hub

    if not record:
        typer.echo(hub.report(model))
        return
    from bayeswind_lib.experiments.language import record_public

    try:
        record_public(model, folder, typer.echo)
    except (NotHere, ValueError) as problem:
        typer.echo(f"nothing was measured: {problem}", err=True)
        raise typer.Exit(2) from None


@app.command()
def bench(
    rounds: Annotated[int, typer.Option(help="Repetitions; the best counts.")] = 8,
    store: Annotated[bool, typer.Option("--store", help="Keep the result as the record behind the book's page.")] = False,
) -> None:
    """Measure samplers and training steps on this machine (some minutes; let nothing else run)."""
    from bayeswind_lib.checkpoints import store as records_store
    from bayeswind_lib.training import performance

    found = performance.measure_all(rounds)
    typer.echo(json.dumps(found, indent=1))
    if store:
        records_store.write("performance", found)


def main() -> None:
    """Run the command line; expected problems end in one line and exit code 2."""
    try:
        app()
    except (ValueError, OSError, checkpoints.CheckpointError) as problem:
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

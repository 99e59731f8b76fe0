"""The command line: `python -m bayeswind_lib train | retrain | score | sweep | list | ledger`."""

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

from bayeswind_lib import checkpoints, scoring, training, tunnels

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False,
    help="Train networks in wind tunnels, score them against the exact posterior, list what ships.",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command()
def train(
    tunnel: Annotated[str, typer.Argument(help="Which task, for example bijection.")],
    architecture: Annotated[str, typer.Argument(help="Which network, for example transformer.")],
    preset: Annotated[str, typer.Option(help="smoke | read | classroom | paper")] = "classroom",
    seed: Annotated[int, typer.Option(help="Of the initial weights and of the episodes.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    supervision: Annotated[str, typer.Option(help="sampled | posterior")] = "sampled",
    optimiser: Annotated[str | None, typer.Option(help="muon | adamw; the preset's own by default")] = None,
    steps: Annotated[int | None, typer.Option(help="Updates; the preset's own by default.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 | tf32 | bfloat16; the preset's own by default.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Where the run is kept; runs/<name> by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    save_as: Annotated[str | None, typer.Option(help="Also save the network under this name.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Folder for --save-as; the run's own by default.")] = None,
) -> None:
    """Train a network from scratch. Stop it at any moment; go on with --resume."""
    wanted = {"optimiser": optimiser, "steps": steps, "precision": precision}
    recipe = training.recipe(
        tunnel, architecture, preset, seed=seed, data_seed=seed, supervision=supervision,
        **{key: value for key, value in wanted.items() if value is not None},
    )
    folder = folder or Path("runs") / f"{tunnel}-{architecture}-{preset}-{supervision}-seed{seed}"
    name = save_as or f"{tunnel}-{architecture}-{preset}"
    _train_and_save(recipe, {"preset": preset}, name, folder, device, resume, weights)


@app.command()
def retrain(
    network: Annotated[str, typer.Argument(help="A shipped network's name.")],
    seed: Annotated[int, typer.Option(help="Which training seed of it.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, ...")] = "cpu",
    folder: Annotated[Path | None, typer.Option(help="Where the run is kept; runs/<name> by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
) -> None:
    """Train a shipped network again, by the recipe in its record."""
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
    typer.echo(f"{recipe.steps} steps of {recipe.batch_size} episodes on {device}, kept in {folder}")
    try:
        model, record = training.train(recipe, folder, device, resume=resume)
    except training.Interrupted as stopped:  # typer would swallow the message
        typer.echo(f"\n{stopped}")
        raise typer.Exit(130) from None
    scores = final_score(model, recipe.tunnel, recipe.tunnel_config, 2000, 1).to_dict()
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
    as_json: Json = False,
) -> None:
    """Score a trained network against the exact posterior on fresh episodes."""
    is_file = network.endswith(".safetensors")
    model = checkpoints.load_file(network) if is_file else checkpoints.load(network, seed)
    record = model.record
    result = final_score(model, record["tunnel"], record["tunnel_config"], episodes, data_seed)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1))
    else:
        _print_score(result.to_dict())


@app.command()
def sweep(
    steps: Annotated[int, typer.Option(help="Updates a run.")] = 1500,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0.")] = 1,
    path: Annotated[Path, typer.Option(help="The record; finished runs in it are kept.")] = Path("runs/optimiser_sweep.json"),
) -> None:
    """Compare AdamW and Muon on the classroom tunnel, each at five learning rates. Resumable."""
    recipes = training.optimiser_recipes(steps, tuple(range(seeds)))
    training.sweep(recipes, path, report=typer.echo)
    typer.echo(f"{len(recipes)} runs in {path}")


@app.command("list")
def list_networks(as_json: Json = False) -> None:
    """List the networks that ship with the book, with their scores."""
    keys = ("name", "tunnel", "architecture", "preset", "seed", "parameters")
    rows = []
    for record in checkpoints.shipped():
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
def show_ledger(as_json: Json = False) -> None:
    """Show every published number beside what is measured here, and what follows."""
    from bayeswind_lib import ledger  # reads stored records: only when asked for

    typer.echo(json.dumps(ledger.rows(), indent=1) if as_json else ledger.main_table())


@app.command()
def records() -> None:
    """Measure again everything stored that is not a training run (some minutes)."""
    from bayeswind_lib import ledger

    ledger.make_records(report=typer.echo)


def final_score(model, tunnel: str, config: dict, n_episodes: int, seed: int) -> scoring.Score:
    """The score on fresh episodes that the command line reports and records hold."""
    rng = torch.Generator().manual_seed(seed)
    return scoring.score(model, tunnels.build(tunnel, config), n_episodes, rng=rng)


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


def main() -> None:
    """Run the command line; expected problems end in one line and exit code 2."""
    try:
        app()
    except (ValueError, OSError, checkpoints.CheckpointError) as problem:
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

"""The command line. Heavy modules are imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import cli_fit  # noqa: F401  (registers its commands)
from .cli_base import (
    Balanced,
    BatchSize,
    DataDir,
    Drop,
    Epochs,
    Intensity,
    Json,
    ModelName,
    ModelOption,
    Out,
    PathName,
    Patience,
    Penalty,
    Quiet,
    Rate,
    RunFolder,
    Schedule,
    Seed,
    TimeChannel,
    app,
    command,
    data_app,
    do_run,
    options,
    print_json,
    print_metrics,
    print_table,
)
from .errors import InputError, LeapError


def main() -> None:
    """Run the command line; a user's mistake is one message and exit code 2, never a traceback."""
    try:
        app()
    except LeapError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


@command(app)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("leapcde-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to train with.")] = 1,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, if not the demo's own.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Train LEAP and NCDE on bundled physics data, compare with naive forecasts, write a report."""
    from .console import watch_training
    from .experiments import demo as module

    watch = functools.partial(watch_training, quiet=quiet or as_json)
    found = module.demo(list(range(seed, seed + seeds)), watch, epochs=epochs)
    page = module.write_report(found, out)
    rows = found.rows()
    if as_json:
        keys = ("model", "metric", "mean", "std", "seeds")
        return print_json({"rows": [{key: row[key] for key in keys} for row in rows]})
    base = next(row["mean"] for row in rows if row["model"] == "last-value")
    lines = [[r["model"], f"{r['mean']:.4f}", f"{r['mean'] / base:.2f} ×", r["size"]] for r in rows]
    print_table(["model", "test MSE", "against last value", "size"], lines)
    typer.echo(f"report: {page}")


@command(app)
def train(
    data: Annotated[str, typer.Argument(help="A data set: 'leapcde doctor' lists them. For a file of your own, see 'fit'.")],
    model: ModelName = "leap",
    out: Out = None,
    drop: Drop = 0.0,
    epochs: Epochs = None,
    batch: BatchSize = None,
    rate: Rate = None,
    schedule: Schedule = None,
    patience: Patience = None,
    weight_penalty: Penalty = None,
    balanced: Balanced = False,
    path: PathName = "natural",
    time_channel: TimeChannel = True,
    intensity: Intensity = False,
    paper: Annotated[bool, typer.Option("--paper", help="Architecture and training of the paper.")] = False,
    option: ModelOption = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Train a model on a data set by name; kill it whenever you like, the same command goes on where it was.

    Example: leapcde train character-trajectories --drop 0.3
    """
    from .batches import Recipe
    from .datasets import DATASETS
    from .experiments import presets
    from .experiments.run import RunConfig, load_data
    from .train import TrainConfig

    if data not in DATASETS:
        hint = "; for a file use 'leapcde fit'" if Path(data).exists() else ""
        raise InputError(f"{data!r} is not a data set ({', '.join(DATASETS)}){hint}")
    given = {"epochs": epochs, "batch": batch, "rate": rate, "schedule": schedule, "patience": patience}
    given |= {"weight_penalty": weight_penalty, "class_weight": "balanced" if balanced else None}
    settings = {"seed": seed, **(presets.paper_training(data) if paper else {})}
    settings |= {key: value for key, value in given.items() if value is not None}
    config = RunConfig(
        data=data,
        model=model,
        drop=drop,
        options={**(presets.paper_options(data, model) if paper else {}), **options(option or [])},
        recipe=Recipe(path, time_channel, intensity),
        train=TrainConfig(**settings),
        data_dir=None if data_dir is None else str(data_dir),
    )
    folder = out or Path("runs") / f"{data}-{model}-{seed}"
    do_run(config, load_data(config), folder, quiet=quiet, as_json=as_json)


@command(app)
def evaluate(run: RunFolder, data_dir: DataDir = None, as_json: Json = False, quiet: Quiet = False, seed: Seed = 0) -> None:
    """Test a trained run again on its own data, beside the naive models."""
    from .experiments.run import naive_metrics

    _, predictor, data = _open(run, data_dir)
    found = {"test": predictor.evaluate(data.test), **naive_metrics(data, predictor.frame)}
    return print_json(found) if as_json else print_metrics(found)


@command(app)
def predict(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(help="CSV or Parquet with the columns that training saw.")],
    out: Annotated[Path | None, typer.Option(help="Write a CSV instead of printing it.")] = None,
    coverage: Annotated[float | None, typer.Option(help="Add ends of intervals that hold the truth so often: 0.9.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Predict for new series in a file; the target column is not needed."""
    from .checkpoint import write_text
    from .estimators import load
    from .experiments.predictions import predictions_table
    from .experiments.run import open_run

    config, predictor = open_run(run)
    conformal = None if coverage is None else load(run).conformal_
    table = predictions_table(config, predictor, file, conformal=conformal, coverage=coverage)
    text = table.to_csv(index=False)
    if out is not None:
        write_text(out, text)
    if as_json:
        return print_json({"predictions": table.to_dict("records")} if out is None else {"file": out, "count": len(table)})
    if out is None:
        return typer.echo(text, nl=False)
    if not quiet:
        typer.echo(f"{len(table)} predictions: {out}", err=True)


@command(app)
def explain(
    run: RunFolder,
    sample: Annotated[list[int] | None, typer.Option(help="Test sample to show; repeatable.")] = None,
    channel: Annotated[list[str] | None, typer.Option(help="Channel to show; repeatable; default the first four.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures; default RUN/explain.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Draw X against the learned path Y with its speed, as PNG and as one HTML page."""
    from .explain import explain as draw

    _, predictor, data = _open(run, data_dir)
    files = draw(
        predictor, data.test, out or run / "explain", samples=sample or [0, 1, 2][: len(data.test)], channels=channel or []
    )
    if as_json:
        return print_json({"files": [str(file) for file in files]})
    if not quiet:
        typer.echo("\n".join(str(file) for file in files))


@command(app)
def models(as_json: Json = False, quiet: Quiet = False, seed: Seed = 0) -> None:
    """List the models and their options."""
    from .models import MODELS, TASKS, options_of

    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "summary": info.summary,
            "tasks": list(TASKS),
            "tags": list(info.tags),
            "reference": info.reference,
            "options": {key: option.default for key, option in options_of(name).items()},
        }
        for name, info in MODELS.items()
    ]
    if as_json:
        return print_json({"models": rows})
    for row in rows:
        typer.echo(f"{row['name']}: {row['summary']} ({row['reference']})")
        typer.echo("  " + ", ".join(f"{key}={value}" for key, value in row["options"].items()) + "\n")


@command(app)
def doctor(data_dir: DataDir = None, as_json: Json = False, quiet: Quiet = False, seed: Seed = 0) -> None:
    """Show versions, devices, optional packages and the data sets that were found."""
    from .doctor import examine

    found = examine(data_dir)
    if as_json:
        return print_json(found)
    for section, items in found.items():
        typer.echo(section)
        for key, value in items.items():
            typer.echo(f"  {key}: {value}")


@command(data_app, name="make")
def data_make(
    name: Annotated[str, typer.Argument(help="mujoco: simulate dm_control's Hopper.")],
    out: Annotated[Path, typer.Option(help="File to write: .npy (float32) or .npz (compact, quantised).")],
    count: Annotated[int, typer.Option(min=1, help="How many sequences.")] = 10_000,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Simulate a data set; the same seed gives the same bytes."""
    from .console import watch_count
    from .datasets import hopper

    if name != "mujoco":
        raise InputError(f"cannot make {name!r}; 'mujoco' can be made")
    with watch_count("simulating", count, quiet=quiet or as_json) as progress:
        hopper.make(out, count, seed, progress)
    if as_json:
        return print_json({"file": str(out), "count": count, "seed": seed})
    if not quiet:
        typer.echo(f"{count} sequences: {out}")


def _open(run: Path, data_dir: Path | None):
    from dataclasses import replace

    from .experiments.run import load_data, open_run

    config, predictor = open_run(run)
    config = replace(config, data_dir=str(data_dir)) if data_dir else config
    return config, predictor, load_data(config)


if __name__ == "__main__":
    main()

"""The command line. Heavy modules are imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from leapcde.cli.data import data_app
from leapcde.cli.fit import fit_app
from leapcde.cli.options import (
    Balanced,
    BatchSize,
    DataDir,
    Drop,
    Epochs,
    Intensity,
    Json,
    ModelName,
    ModelOption,
    Noise,
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
    command,
    do_run,
    name_values,
    print_json,
    print_metrics,
    print_table,
)
from leapcde.cli.plugins import add_commands
from leapcde.errors import InputError, LeapError

app = typer.Typer(
    help="Learnable paths in neural controlled differential equations, for irregular time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(fit_app)
app.add_typer(data_app, name="data")
add_commands(app)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"leapcde {version('leapcde')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


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
    from leapcde.cli import demo as module
    from leapcde.training.progress import watch_training

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
    data: Annotated[str, typer.Argument(help="A data set ('leapcde data list') or a .ts file. For a table of yours: 'fit'.")],
    model: ModelName = "leap",
    out: Out = None,
    drop: Drop = 0.0,
    epochs: Epochs = None,
    batch: BatchSize = None,
    rate: Rate = None,
    schedule: Schedule = None,
    patience: Patience = None,
    weight_penalty: Penalty = None,
    noise: Noise = None,
    balanced: Balanced = False,
    path: PathName = "natural",
    time_channel: TimeChannel = True,
    intensity: Intensity = False,
    paper: Annotated[bool, typer.Option("--paper", help="Architecture and training of the paper.")] = False,
    option: ModelOption = None,
    protocol: Annotated[
        list[str] | None, typer.Option("--protocol", "-p", help="Choice of the data set, as name=value; repeatable.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Train a model on a data set by name; kill it whenever you like, the same command goes on where it was.

    Example: leapcde train character-trajectories --drop 0.3
    """
    from leapcde.cli.plugins import presets
    from leapcde.cli.run import RunConfig, digest_of, load_data
    from leapcde.datasets.registry import is_name
    from leapcde.paths.batch import Recipe
    from leapcde.training.config import TrainConfig

    if not is_name(data):
        hint = "for a table use 'leapcde fit'" if Path(data).exists() else "'leapcde data list' shows them"
        raise InputError(f"{data!r} is not a data set; {hint}")
    is_file = Path(data).suffix == ".ts"
    given = {"epochs": epochs, "batch_size": batch, "learning_rate": rate, "schedule": schedule, "patience": patience}
    given |= {"weight_penalty": weight_penalty, "noise": noise, "class_weight": "balanced" if balanced else None}
    settings = {"seed": seed, **(presets("paper").paper_training(data) if paper else {})}
    settings |= {key: value for key, value in given.items() if value is not None}
    options = {
        **(presets("paper").paper_options(data, model) if paper else {}),
        **name_values(option or [], "--option", "hidden=64"),
    }
    config = RunConfig(
        data=str(Path(data).resolve()) if is_file else data,
        model=model,
        drop=drop,
        options=options,
        recipe=Recipe(path, time_channel, intensity),
        train=TrainConfig(**settings),
        data_dir=None if data_dir is None else str(data_dir),
        digest=digest_of(data) if is_file else None,
        dataset_options=name_values(protocol or [], "--protocol", "words=all"),
    )
    folder = out or Path("runs") / f"{Path(data).stem.replace(':', '-')}-{model}-{seed}"
    do_run(config, load_data(config), folder, quiet=quiet, as_json=as_json)


@command(app)
def evaluate(run: RunFolder, data_dir: DataDir = None, as_json: Json = False, quiet: Quiet = False, seed: Seed = 0) -> None:
    """Test a trained run again on its own data, beside the naive models."""
    from leapcde.cli.run import baseline_metrics

    _, fitted, data = _open(run, data_dir)
    found = {"test": fitted.evaluate(data.test), **baseline_metrics(data, fitted.preprocessor)}
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
    from leapcde.cli.predictions import predictions_table
    from leapcde.cli.run import open_run
    from leapcde.estimators.load import load
    from leapcde.files import write_text

    config, fitted = open_run(run)
    conformal = None if coverage is None else load(run).conformal_
    table = predictions_table(config, fitted, file, conformal=conformal, coverage=coverage)
    text = table.to_csv(index=False)
    if out is not None:
        write_text(out, text)
    if fitted.preprocessor.task == "classification" and config.train.class_weight and not quiet:
        typer.echo("note: p(...) are no frequencies: training weighed rare classes up; 'fit --not-balanced' does not", err=True)
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
    from leapcde.explain.explanation import explain as draw

    _, fitted, data = _open(run, data_dir)
    files = draw(
        fitted, data.test, out or run / "explain", samples=sample or [0, 1, 2][: len(data.test)], channels=channel or []
    )
    if as_json:
        return print_json({"files": [str(file) for file in files]})
    if not quiet:
        typer.echo("\n".join(str(file) for file in files))


@command(app)
def models(as_json: Json = False, quiet: Quiet = False, seed: Seed = 0) -> None:
    """List the models and their options."""
    import equinox as eqx

    from leapcde.models.base import TASKS, Spec
    from leapcde.models.registry import MODELS, build, count_parameters, options_of

    spec = Spec("classification", 3, 4, (20,))
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "summary": info.summary,
            "tasks": list(TASKS),
            "tags": list(info.tags),
            "reference": info.reference,
            "parameters": count_parameters(eqx.filter_eval_shape(build, name, spec)),  # counted, not drawn
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
    from leapcde.cli.doctor import examine

    found = examine(data_dir)
    if as_json:
        return print_json(found)
    for section, items in found.items():
        typer.echo(section)
        for key, value in items.items():
            typer.echo(f"  {key}: {value}")


def _open(run: Path, data_dir: Path | None):
    from dataclasses import replace

    from leapcde.cli.run import load_data, open_run

    config, fitted = open_run(run)
    config = replace(config, data_dir=str(data_dir)) if data_dir else config
    return config, fitted, load_data(config)


if __name__ == "__main__":
    main()

"""The command line. Heavy modules are imported inside the commands, so that --help answers at once."""

from __future__ import annotations

import sys
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from leapcde.cli.data import data_app
from leapcde.cli.export import export_app
from leapcde.cli.fit import fit_app
from leapcde.cli.options import (
    DataDir,
    Json,
    Quiet,
    RunFolder,
    Seed,
    command,
    harmless,
    in_flags,
    print_json,
    print_metrics,
    print_table,
    stopping_cleanly,
)
from leapcde.cli.plugins import add_commands
from leapcde.errors import InputError, LeapError, LeapWarning

NO_MEMORY = "there is not enough memory; try a smaller --batch-size, a shorter --window, a smaller model, or fewer columns"
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Out of memory", "bad_alloc", "can't start new thread")
app = typer.Typer(
    help="Learnable paths in neural controlled differential equations, for irregular time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(fit_app)
app.add_typer(export_app)
app.add_typer(data_app, name="data")
add_commands(app)


def _print_version(asked: bool | None) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"leapcde {version('leapcde')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool | None, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = None,
) -> None:
    pass


def main() -> None:
    """Run the command line; a user's mistake is one message and exit code 2, never a traceback."""
    try:
        with stopping_cleanly():
            app()
    except LeapError as error:
        typer.echo(harmless(f"error: {in_flags(error)}"), err=True)
        sys.exit(2)
    except OSError as error:  # a full disk, a folder that may not be read
        typer.echo(harmless(f"error: {error}"), err=True)
        sys.exit(2)
    except MemoryError as error:
        typer.echo(harmless(f"error: {NO_MEMORY}" + (f" ({error})" if str(error) else "")), err=True)
        sys.exit(2)
    except RuntimeError as error:  # JAX's own is one, and its compiler says so in words only
        if not any(word in str(error) for word in OUT_OF_MEMORY):
            raise
        typer.echo(f"error: {NO_MEMORY}", err=True)
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
    """Train LEAP+, LEAP and NCDE on bundled physics data, compare with the baselines, write a report."""
    from leapcde.cli import demo as module

    found = module.demo(list(range(seed, seed + seeds)), epochs=epochs, verbose=int(not (quiet or as_json)))
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
def evaluate(
    run: RunFolder,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Newer data with the columns that training saw; default the run's own test data.", metavar="[FILE]..."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw how often probabilities of classes come true: a PNG file.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Test a trained run again, on its own data or on newer, beside the baselines."""
    from leapcde.estimators.run import baseline_metrics, judged, open_run

    if files:
        return _evaluate_files(run, files, plot, as_json)
    if open_run(run)[2]["train"].get("final"):
        seen = f"the model of {run} was trained again on all data (--final), its test data among it"
        raise InputError(f"{seen}; the numbers of its test are in result.json. Give newer data as FILE")
    fitted, data = _open(run, data_dir)
    _plot_reliability(fitted, data.test, plot)
    beside = {name: of["test"] for name, of in baseline_metrics(data, fitted.preprocessor).items()}
    found = {"test": judged(fitted, data)["test"], **beside}
    return print_json(found) if as_json else print_metrics(found)


@command(app)
def predict(
    run: RunFolder,
    files: Annotated[
        list[Path],
        typer.Argument(
            help="CSV or Parquet with the columns that training saw; several files, or a folder.", metavar="FILE..."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write a CSV, or a .parquet file, instead of printing.")] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Add intervals, or sets of classes, that hold the truth so often: 0.9.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler whose workers answer, part by part.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict for new series in a file; the target column is not needed."""
    from leapcde.cli.source import read_new
    from leapcde.estimators.cluster import answers_of, connected
    from leapcde.estimators.predictions import for_spreadsheets, predictions_table, write_predictions
    from leapcde.estimators.run import MODEL, files_of, open_run
    from leapcde.files import check_apart

    request, estimator, _ = open_run(run)
    if request.columns is None:
        raise InputError(f"this run was trained on {request.data!r}, not on a file; predict in Python with leapcde.load")
    if out is not None:
        check_apart(out, [*files, *files_of(run)])
    data = read_new(files, request.columns, with_target=False)
    with nullcontext() if cluster is None else connected(cluster) as client:
        how = {"coverage": coverage, "outputs": None if client is None else answers_of(client, run / MODEL)}
        if out is None:
            table = predictions_table(estimator, data, **how)
            if as_json:
                return print_json({"predictions": table.to_dict("records")})
            return typer.echo(harmless(for_spreadsheets(table).to_csv(index=False)), nl=False)
        count = write_predictions(estimator, data, out, **how)
    if as_json:
        return print_json({"file": out, "count": count})
    if not quiet:
        typer.echo(f"{count} predictions: {out}", err=True)


@command(app)
def explain(
    run: RunFolder,
    sample: Annotated[list[int] | None, typer.Option(help="Test sample to show; repeatable.")] = None,
    channel: Annotated[list[str] | None, typer.Option(help="Channel to show; repeatable; default the most important.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures; default RUN/explain.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw X against the learned path Y with its speed, as PNG and as one HTML page."""
    from leapcde.explain.explanation import explain as draw

    fitted, data = _open(run, data_dir)
    files = draw(
        fitted,
        data.test,
        out or run / "explain",
        samples=sample or [0, 1, 2][: len(data.test)],
        channels=channel or [],
    )
    if as_json:
        return print_json({"files": [str(file) for file in files]})
    if not quiet:
        typer.echo("\n".join(str(file) for file in files))


@command(app)
def models(as_json: Json = False) -> None:
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
def doctor(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show versions, devices, optional packages and the data sets that were found."""
    from leapcde.cli.doctor import examine

    found = examine(data_dir)
    if as_json:
        return print_json(found)
    for section, items in found.items():
        typer.echo(section)
        for key, value in items.items():
            typer.echo(f"  {key}: {value}")


def _plot_reliability(fitted: Any, series: Any, path: Path | None) -> None:
    if path is not None:
        from leapcde.explain.explanation import reliability_figure
        from leapcde.explain.plots import save_png

        save_png(reliability_figure(fitted, series)[0], path)


def _evaluate_files(run: Path, files: list[Path], plot: Path | None, as_json: bool) -> None:
    from leapcde.cli.source import load_data, read_new
    from leapcde.estimators.run import evaluate_new, open_run, told_coverage

    request, estimator, settings = open_run(run)
    if request.columns is None:
        raise InputError(f"this run was trained on {request.data!r}, not on a file; score newer data in Python")
    table = read_new(files, request.columns, with_target=True)
    try:
        data = load_data(request)
    except LeapError as error:
        warnings.warn(f"without baselines, which learn from the run's own data: {error.what}", LeapWarning, stacklevel=2)
        data = None
    if plot is not None:
        _plot_reliability(estimator.fitted_, estimator._training_series(table, None), plot)
    found = evaluate_new(estimator, table, data, final=bool(settings["train"].get("final")))
    if as_json:
        about = {"coverage of 90 % intervals": found.coverage, "seen": found.seen or None}
        return print_json({**found.metrics, **about})
    print_metrics(found.metrics)
    for line in ("" if found.coverage is None else told_coverage(found.coverage), found.seen):
        if line:
            typer.echo(line)
    return None


def _open(run: Path, data_dir: Path | None):
    """The fitted model of a run, and its data."""
    from dataclasses import replace

    from leapcde.cli.source import load_data
    from leapcde.estimators.run import open_run

    request, estimator, _ = open_run(run)
    request = replace(request, data_dir=str(data_dir)) if data_dir else request
    return estimator.fitted_, load_data(request)


if __name__ == "__main__":
    main()

"""`leapcde reproduce`, `rerun`, `collect`, `report` and `compare`: the paper's tables and figures, and their proof."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leapcde.cli.fit import (
    Horizon,
    Id,
    Known,
    Split,
    Static,
    Stride,
    Target,
    Task,
    Time,
    TimeFormat,
    Values,
    Weights,
    Window,
    make_estimator,
)
from leapcde.cli.options import DataDir, Json, Quiet, command, names, print_json, print_splits, print_table
from leapcde.cli.request import file_request
from leapcde.errors import TrainingError

if TYPE_CHECKING:
    from leapcde.data.dataset import DataRequest

FILE_MODELS = ("leap+", "gru-d", "ncde")  # that are compared on a file if none are named


def add_commands(app: typer.Typer) -> None:
    """Register them."""
    command(app)(reproduce)
    command(app)(rerun)
    command(app)(collect)
    command(app)(report)
    command(app)(compare)


def reproduce(
    name: Annotated[
        str, typer.Argument(help="A table, a figure, 'all', or a .toml file; without one, the names are listed.")
    ] = "",
    budget: Annotated[str, typer.Option(help="full (the paper's), standard (two cores) or smoke (minutes).")] = "standard",
    out: Annotated[Path | None, typer.Option(help="Folder for records, tables, figures; default reproduction/BUDGET.")] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Run only this model for now (repeat for more); tables show all that was run."),
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Run only this column, by its heading, for now (repeat for more).")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Run so many of the seeds only, for now.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at a time, one process and thread each.")] = 1,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler whose workers run the cells.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cells and how long they will take; run nothing.")
    ] = False,
    toml: Annotated[
        bool, typer.Option("--toml", help="Print the whole config as TOML, to change and give back as NAME.")
    ] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make a table or figure of the paper, or all of them; kill it whenever you like, the same command goes on.

    Example: leapcde reproduce character --budget standard --model leap --model ncde --seeds 1 --jobs 2
    """
    from leapcde_paper import studies
    from leapcde_paper.reproduce import ask, cells_of, parts
    from leapcde_paper.reproduce import reproduce as make
    from leapcde_paper.run.experiment import to_toml

    if not name:
        return _list(studies.STUDIES, as_json)
    asked = ask(name, budget, None if data_dir is None else str(data_dir))
    budget = asked.experiments[0].budget if asked.experiments else budget
    out = out or Path("reproduction") / budget
    if toml:
        return typer.echo("\n".join(to_toml(one) for one in asked.experiments), nl=False)
    if not quiet and not as_json:
        for line in asked.missing:
            typer.echo(f"note: {line}", err=True)
    only = parts(asked.experiments, model or (), seeds, column or ())
    if dry_run:
        return _dry_run(cells_of(only), out, max(jobs, 1), as_json)
    from leapcde_paper.run.live import watch_sweep

    with watch_sweep(quiet=quiet or as_json) as on_progress:
        swept, files = make(asked.experiments, out, only=only, jobs=jobs, cluster=cluster, on_progress=on_progress)
    if as_json:
        found = {"records": len(swept.records), "failed": [failure._asdict() for failure in swept.failures]}
        print_json({"budget": budget, **found, "missing": asked.missing, "files": [str(file) for file in files]})
    elif not quiet:
        for file in files:
            if file.suffix == ".md":
                typer.echo(file.read_text(encoding="utf-8"))
        typer.echo(f"{len(swept.records)} cells, {len(files)} files: {out}; 'leapcde report {out}' makes a page of them")
    if swept.failures:
        problems = [f"{failure.name}: {failure.message}" for failure in swept.failures]
        raise TrainingError("some cells failed; the tables are made without them", problems)


def rerun(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RECORD...", help="Records: a file, or FOLDER/NAME with how its name begins.")
    ],
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the cells of records again and compare every figure bit for bit; nothing is kept.

    Example: leapcde rerun results/standard/character-trajectories-30-gru-112
    """
    from leapcde_paper.reproduce import again, records_of
    from leapcde_paper.run.live import watch_sweep

    found = []
    for old in records_of(paths):
        with watch_sweep(quiet=quiet or as_json) as on_progress:
            found.append(again(old, None if data_dir is None else str(data_dir), on_progress=on_progress))
    if as_json:
        print_json({"cells": found})
    elif not quiet:
        yes = lambda one: "yes" if one["same"] else "no"
        rows = [
            [one["cell"], one["metric"], str(one["recorded"]), str(one["now"]), yes(one), ", ".join(one["changed"])]
            for one in found
        ]
        print_table(["cell", "metric", "recorded", "now", "same bits", "what differs around it"], rows)
    other = [one["cell"] for one in found if not one["same"]]
    if other:
        raise TrainingError("not the same figures", other)


def collect(
    folder: Annotated[Path, typer.Argument(help="A folder that 'leapcde reproduce' filled.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fold the records of a folder, two files a cell, into three Parquet files; tables and figures stay what they are.

    Example: leapcde collect results/standard
    """
    from leapcde_paper.reproduce import collect as fold

    count = fold(folder)
    if as_json:
        return print_json({"collected": count, "folder": str(folder)})
    if not quiet:
        typer.echo(f"{count} records collected: {folder}")


def report(
    folder: Annotated[Path, typer.Argument(help="A folder that 'leapcde reproduce' filled.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The page, .html or .md (with drawings in a folder beside it); default FOLDER/report.html."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one page: all tables and figures, the paths, and the paper against ours. As HTML it is self-contained."""
    from leapcde_paper.report.page import write_page
    from leapcde_paper.report.text import write_text_page

    out = out or folder / "report.html"
    page = (write_text_page if out.suffix == ".md" else write_page)(folder, out)
    if as_json:
        return print_json({"page": str(page), "bytes": page.stat().st_size})
    if not quiet:
        typer.echo(f"report: {page}")


def _list(known: dict, as_json: bool) -> None:
    if as_json:
        return print_json({"names": {name: {"kind": study.kind, "title": study.title} for name, study in known.items()}})
    print_table(["name", "kind"], [[name, study.kind] for name, study in known.items()])
    typer.echo("\n" + "\n".join(f"{name}: {study.title}" for name, study in known.items()) + "\n\nall: every one of them")


def _dry_run(cells: list, out: Path, jobs: int, as_json: bool) -> None:
    from leapcde_paper.run.estimate import estimate, words
    from leapcde_paper.run.records import read_all
    from leapcde_paper.run.sweep import identify

    todo = identify(cells)
    known = read_all(out) if out.is_dir() else []
    there = {record["name"] for record in known}
    waiting = [job for job in todo if job.name not in there]
    found = estimate(waiting, known)
    rows = [{"cell": job.name, "seconds": seconds} for job, seconds in zip(waiting, found.seconds, strict=True)]
    if as_json:
        return print_json(
            {"cells": rows, "done": len(todo) - len(waiting), "seconds": found.total / jobs, "guessed": found.guessed}
        )
    print_table(["cell", "estimate"], [[row["cell"], words(row["seconds"])] for row in rows])
    guess = f"; {found.guessed} of them guessed, as no record tells their speed" if found.guessed else ""
    left = f"{len(waiting)} cells to run, {len(todo) - len(waiting)} done"
    typer.echo(f"{left}; about {words(found.total / jobs)} with {jobs} jobs{guess}")


def compare(
    data: Annotated[str, typer.Argument(help="A data set ('leapcde data list' shows them), or a file as for 'fit'.")],
    out: Annotated[Path, typer.Option(help="Folder for the records; finished cells found there are not run again.")],
    models: Annotated[
        str, typer.Option(help="Models, comma-separated; default the paper's thirteen, of a file leap+,gru-d,ncde.")
    ] = "",
    id: Id = None,
    time: Time = None,
    time_format: TimeFormat = None,
    target: Target = None,
    values: Values = "",
    static: Static = "",
    weights: Weights = None,
    horizon: Horizon = None,
    window: Window = None,
    stride: Stride = None,
    split: Split = None,
    known: Known = "",
    task: Task = None,
    drop: Annotated[float, typer.Option(help="Share of time points to forget, 0 to 1.")] = 0.0,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=5, help="How many seeds; default 3 (the paper's), of a file 1.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs of each run; default 40, of a file as 'fit' chooses.")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate at the start; default 0.002, for the RNN 0.0005.")
    ] = None,
    weight_penalty: Annotated[float, typer.Option(help="Times Σ‖θ‖ of what each model regularises.")] = 0.003,
    jobs: Annotated[int, typer.Option(min=1, help="Cells at a time, one process and thread each.")] = 1,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train models side by side and print the table: a data set at the paper's sizes and with equal training, a file as
    'fit' would, beside the baselines. Kill it whenever you like, the same command goes on.

    Example: leapcde compare visits.csv --id patient --time hour --target sepsis --models leap+,gru-d --out compared
    """
    from leapcde.datasets.registry import is_name

    if not is_name(data):
        columns = (id, time, target, values, static, weights)
        asked = file_request([Path(data)], columns, horizon, window, task, drop, time_format, split, stride, known)
        given = {"epochs": epochs, "learning_rate": learning_rate}
        chosen = names(models) or FILE_MODELS
        return _compare_file(asked, out, chosen, seeds or 1, given, quiet=quiet, as_json=as_json)
    settings = {"epochs": epochs or 40, "weight_penalty": weight_penalty}
    where = None if data_dir is None else str(data_dir)
    return _compare_set(data, out, names(models), seeds or 3, drop, learning_rate, settings, where, jobs, quiet, as_json)


def _compare_set(
    data: str,
    out: Path,
    models: Sequence[str],
    seeds: int,
    drop: float,
    rate: float | None,
    settings: dict[str, Any],
    data_dir: str | None,
    jobs: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Models at the paper's sizes and with equal training."""
    from leapcde.training.config import TrainConfig
    from leapcde.training.track.progress import watch_count
    from leapcde_paper import presets
    from leapcde_paper.compare import compare as compare_all
    from leapcde_paper.paper_numbers import LABELS
    from leapcde_paper.run.cell import CellConfig
    from leapcde_paper.tables.table import model_rows

    chosen = models or tuple(LABELS)
    rates = {name: presets.usual_rate(name) if rate is None else rate for name in chosen}
    trains = [
        (name, TrainConfig(seed=s, learning_rate=rates[name], **settings))
        for name in chosen
        for s in presets.seeds(data)[:seeds]
    ]
    configs = [CellConfig(data, name, drop, presets.sizes(data, name), train=t, data_dir=data_dir) for name, t in trains]
    with watch_count("cells", len(configs), quiet=quiet or as_json) as progress:
        records = compare_all(configs, out, jobs=jobs, on_cells=progress)
    rows = model_rows(records)
    if as_json:
        return print_json({"rows": rows})
    print_table(["model", rows[0]["metric"], "s / epoch", "parameters", "paper"], [_compared(row) for row in rows])


def _compare_file(
    asked: DataRequest, out: Path, models: Sequence[str], seeds: int, given: dict[str, Any], *, quiet: bool, as_json: bool
) -> None:
    from leapcde.cli.source import first_load
    from leapcde.estimators.several.compare import compare_models
    from leapcde.training.track.progress import watch_count

    request, data = first_load(asked)
    estimator = make_estimator(data.task, models[0], request, None, **{k: v for k, v in given.items() if v is not None})
    with watch_count("runs", len(models) * seeds, quiet=quiet or as_json) as progress:
        many = {"models": models, "request": request, "seeds": range(seeds)}
        found = compare_models(estimator, data, out, **many, on_run=progress)
    if as_json:
        return print_json({"folder": str(out), **found})
    print_splits({**found["models"], **found["baselines"]}, found["metric"])
    typer.echo(f"runs: {out}")


def _compared(row: dict[str, Any]) -> list[str]:
    paper = "" if row["paper"] is None else "{:.3f} ± {:.3f}".format(*row["paper"])
    seconds = "" if row["seconds_per_epoch"] is None else f"{row['seconds_per_epoch']:.1f}"
    return [row["model"], f"{row['mean']:.3f} ± {row['std']:.3f}", seconds, f"{row['parameters']:,}", paper]

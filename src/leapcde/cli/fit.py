"""Commands for people with a file of their own: `fit` trains on it, `tune` searches for settings first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

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
    Schedule,
    Seed,
    TimeChannel,
    command,
    do_run,
    name_values,
    names,
    print_json,
    print_table,
)
from leapcde.errors import InputError

fit_app = typer.Typer()
File = Annotated[Path, typer.Argument(help="CSV, TSV or Parquet: one row for each sample and time, cells may be empty.")]
Id = Annotated[str | None, typer.Option(help="Column that tells the samples apart.")]
Time = Annotated[str | None, typer.Option(help="Column with the times: numbers or dates.")]
Target = Annotated[str | None, typer.Option(help="Column to predict, one value a sample.")]
Values = Annotated[str, typer.Option(help="Value columns, comma-separated; default all others.")]
Static = Annotated[str, typer.Option(help="Static columns, comma-separated.")]
Horizon = Annotated[
    str | None,
    typer.Option(
        help="Forecast all value columns: so many rows ahead (10), or at times after the last one (0.5,1,2; of dates, seconds)."
    ),
]
Window = Annotated[int | None, typer.Option(min=1, help="Forecast from so many points; default from the data.")]
Task = Annotated[str | None, typer.Option(help="classification or regression, if the guess is wrong.")]


@command(fit_app)
def fit(
    file: File,
    model: ModelName = "leap",
    out: Out = None,
    id: Id = None,
    time: Time = None,
    target: Target = None,
    values: Values = "",
    static: Static = "",
    horizon: Horizon = None,
    window: Window = None,
    task: Task = None,
    drop: Drop = 0.0,
    epochs: Epochs = None,
    batch: BatchSize = None,
    rate: Rate = None,
    schedule: Schedule = None,
    patience: Patience = None,
    weight_penalty: Penalty = None,
    noise: Noise = None,
    balanced: Balanced = True,
    path: PathName = "linear",
    time_channel: TimeChannel = True,
    intensity: Intensity = False,
    option: ModelOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Train on your own file. What you do not set is chosen from the data's shape; the run folder holds every choice.

    70 % of the samples train, 15 % choose the weights, 15 % test. Kill it whenever you like, the same command goes on.

    Example: leapcde fit visits.csv --id patient --time hour --target sepsis --intensity
    """
    from leapcde.cli.own import own_run
    from leapcde.paths.batch import Recipe

    training = {"epochs": epochs, "batch_size": batch, "learning_rate": rate, "schedule": schedule, "patience": patience}
    training |= {"class_weight": "balanced" if balanced else None, "weight_penalty": weight_penalty, "noise": noise}
    training["seed"] = seed
    columns = _columns(file, id, time, target, values, static, window, horizon, task)
    parts = {"options": name_values(option or [], "--option", "hidden=64"), "recipe": Recipe(path, time_channel, intensity)}
    config, loaded = own_run(_asked(file, columns, model=model, drop=drop, **parts), training)
    do_run(config, loaded, out or Path("runs") / f"{file.stem}-{model}-{seed}", quiet=quiet, as_json=as_json)


@command(fit_app)
def tune(
    data: Annotated[str, typer.Argument(help="CSV, TSV or Parquet as for 'fit', or a data set ('leapcde data list').")],
    model: ModelName = "leap",
    out: Annotated[Path | None, typer.Option(help="Folder of the study; default tuning/FILE-MODEL.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try in all, those of an earlier start included.")] = 30,
    hours: Annotated[float | None, typer.Option(min=0, help="Begin no trial after so many hours.")] = None,
    id: Id = None,
    time: Time = None,
    target: Target = None,
    values: Values = "",
    static: Static = "",
    horizon: Horizon = None,
    window: Window = None,
    task: Task = None,
    drop: Drop = 0.0,
    epochs: Epochs = None,
    paper: Annotated[bool, typer.Option("--paper", help="Search the values of the paper's appendix.")] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Search for settings with Optuna, judged on the validation data alone; then train and test the best once.

    The study is a journal file: stop whenever you like, the same command goes on. Trials that fall behind are pruned.

    Example: leapcde tune visits.csv --id patient --time hour --target sepsis --trials 50
    """
    from leapcde.cli.own import own_run
    from leapcde.cli.plugins import presets
    from leapcde.cli.run import RunConfig
    from leapcde.cli.tune import tune as search
    from leapcde.datasets.registry import is_name
    from leapcde.paths.batch import Recipe
    from leapcde.training.progress import watch_count

    if is_name(data):
        asked = RunConfig(data, model, drop, data_dir=None if data_dir is None else str(data_dir))
    else:
        columns = _columns(Path(data), id, time, target, values, static, window, horizon, task)
        asked = _asked(Path(data), columns, model=model, drop=drop, recipe=Recipe("linear"))
    config, loaded = own_run(asked, {"epochs": epochs, "seed": seed, "class_weight": "balanced"})
    folder = out or Path("tuning") / f"{Path(data).stem.replace(':', '-')}-{model}"
    with watch_count(f"trials of {model}", trials, quiet=quiet or as_json) as progress:
        limits = {"trials": trials, "seconds": None if hours is None else 3600 * hours}
        space = presets("paper").space(data, model) if paper else None
        study = search(config, loaded, folder, space=space, progress=progress, **limits)
    if as_json:
        return print_json({"study": str(folder), **study._asdict()})
    rows = [[str(row["number"]), f"{row['value']:.4f}", str(row["settings"])] for row in study.best_trials]
    print_table(["trial", f"validation {study.metric}", "settings"], rows)
    typer.echo(f"{study.finished} trials finished, {study.pruned} pruned; best settings trained and tested: {study.run}")
    typer.echo(f"test {study.metric}: {study.test[study.metric]:.4f}")


def _asked(file: Path, columns: Any, **settings) -> Any:
    from leapcde.cli.run import RunConfig, digest_of

    path = str(file.resolve())
    return RunConfig(data=path, columns=columns, digest=digest_of(path), **settings)


def _columns(file: Path, id, time, target, values, static, window, horizon, task) -> Any:
    from leapcde.data.files import Columns

    if not file.exists():
        raise InputError(f"there is no file {file}; a data set by name is trained with 'leapcde train'")
    if id is None or time is None:
        raise InputError("a file needs --id and --time, the columns that tell samples apart and give the times")
    return Columns(id, time, target, names(values), names(static), window, _horizon(horizon), task)


def _horizon(text: str | None) -> int | tuple[float, ...] | None:
    """One whole number counts rows; anything else lists times."""
    if text is None:
        return None
    try:
        found = int(text) if text.strip().isdigit() else tuple(float(part) for part in names(text))
    except ValueError:
        found = ()
    if not found:
        raise InputError(f"--horizon {text}: give a number of rows, 1 or more, or times after the last one, such as 0.5,1,2")
    return found

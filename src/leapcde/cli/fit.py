"""Commands that train: `fit` on a file, `train` on a data set by name, `tune` to search for settings first.

Each reads data, makes an estimator and calls it; whatever is chosen or checked is the estimator's business.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leapcde import DEFAULT_MODEL, RACE
from leapcde.cli.options import (
    BatchSize,
    ClassWeight,
    DataDir,
    DatasetOption,
    Drop,
    Ensemble,
    Epochs,
    Final,
    Intensity,
    Interpolation,
    Json,
    LearningRate,
    ModelName,
    ModelOption,
    Noise,
    Out,
    Patience,
    Penalty,
    Quiet,
    RacedModel,
    Schedule,
    Seed,
    TimeLimit,
    command,
    event_or_target,
    name_values,
    print_json,
    print_race,
    print_splits,
    print_table,
    read_seconds,
)
from leapcde.cli.request import file_request, set_request
from leapcde.errors import LeapWarning, choose

if TYPE_CHECKING:
    from leapcde.data.dataset import DataRequest, Dataset
    from leapcde.estimators.base import Estimator

FEW = 10  # samples of a part from which nothing much can be told
fit_app = typer.Typer()
Files = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, TSV or Parquet: one row for each sample and time, cells may be empty. Several files, or a folder, are one.",
        metavar="FILE...",
    ),
]
Id = Annotated[str | None, typer.Option(help="Column that tells the samples apart; a single series to forecast has none.")]
Time = Annotated[str | None, typer.Option(help="Column with the times: numbers or dates.")]
TimeFormat = Annotated[
    str | None, typer.Option(help="How times are written, if not in one way only: '%d/%m/%Y %H:%M'; needed for 03/04/2024.")
]
Target = Annotated[
    str | None, typer.Option(help="Column to predict, one value a sample, or several; of forecasts, channels; comma-separated.")
]
Event = Annotated[str | None, typer.Option(help="Column that is 1 where an event was seen and 0 where not; with --duration.")]
Duration = Annotated[str | None, typer.Option(help="Column with the time from a sample's last row to its event or last look.")]
TargetPer = Annotated[
    str, typer.Option(help="sample, or row: the target changes within a sample, and every row has an answer of its own.")
]
Known = Annotated[str, typer.Option(help="Channels whose future is known when forecasts are asked for, comma-separated.")]
Values = Annotated[str, typer.Option(help="Value columns, comma-separated; default all others.")]
Static = Annotated[str, typer.Option(help="Static columns, comma-separated.")]
Weights = Annotated[str | None, typer.Option(help="Column that says how much each sample counts; default all the same.")]
Horizon = Annotated[
    str | None,
    typer.Option(
        help="Forecast value columns: so many rows ahead (10), or at times after the last one (0.5,1,2; of dates, seconds)."
    ),
]
Window = Annotated[int | None, typer.Option(min=1, help="Forecast from so many points; default from the data.")]
Stride = Annotated[
    int | None,
    typer.Option(min=1, help="Rows from window to window; default random starts, fresh in every epoch, and all for the test."),
]
Split = Annotated[
    str | None,
    typer.Option(
        help="time (default for forecasts: the test comes last), sequence, random (default for all else), group:COLUMN."
    ),
]
Task = Annotated[
    str | None,
    typer.Option(help="classification or regression, if the guess is wrong; labels: several --target columns of yes and no."),
]
Paper = Annotated[bool, typer.Option("--paper", help="The paper's settings; nothing is chosen from the data.")]


@command(fit_app)
def fit(
    files: Files,
    model: RacedModel = RACE,
    out: Out = None,
    id: Id = None,
    time: Time = None,
    time_format: TimeFormat = None,
    target: Target = None,
    event: Event = None,
    duration: Duration = None,
    target_per: TargetPer = "sample",
    values: Values = "",
    static: Static = "",
    weights: Weights = None,
    horizon: Horizon = None,
    window: Window = None,
    stride: Stride = None,
    split: Split = None,
    known: Known = "",
    task: Task = None,
    drop: Drop = 0.0,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    schedule: Schedule = None,
    patience: Patience = None,
    weight_penalty: Penalty = None,
    noise: Noise = None,
    class_weight: ClassWeight = None,
    interpolation: Interpolation = None,
    intensity: Intensity = False,
    option: ModelOption = None,
    ensemble: Ensemble = 1,
    time_limit: TimeLimit = "5m",
    final: Final = False,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Train on your own file: a race of a few models and baselines, unless you name a --model.

    What you do not set is chosen from the data's shape; the run folder holds every choice, and the table of the race.

    70 % of the data trains, 15 % chooses the weights, 15 % tests: of forecasts the latest rows. Kill it whenever you like,
    the same command goes on. On several machines: LEAPCDE_PROCESSES=ADDRESS:PORT,COUNT,INDEX, or auto on Slurm.

    Example: leapcde fit visits.csv --id patient --time hour --target sepsis --intensity
    """
    from leapcde.cli.source import first_load

    target, task = event_or_target(event, duration, target, horizon, task)
    columns = (id, time, target, values, static, weights)
    asked = file_request(files, columns, horizon, window, task, drop, time_format, split, stride, known, target_per)
    params = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "interpolation": interpolation}
    params |= {"intensity": intensity, "patience": patience, "seed": seed, "verbose": int(not (quiet or as_json))}
    params |= {"ensemble": ensemble, "time_limit": read_seconds(time_limit)}
    training = {"schedule": schedule, "weight_penalty": weight_penalty, "noise": noise}
    _check_class_weight(class_weight)
    request, data = first_load(asked, quiet=quiet or as_json)
    estimator = make_estimator(
        data.task, model, request, class_weight, training=_given(training), options=_options(option), **_given(params)
    )
    train_run(estimator, data, request, out or Path("runs") / f"{files[0].stem}-{model}-{seed}", final=final, as_json=as_json)


@command(fit_app)
def train(
    data: Annotated[str, typer.Argument(help="A data set ('leapcde data list') or a .ts file. For a table of yours: 'fit'.")],
    model: ModelName = "leap",
    out: Out = None,
    drop: Drop = 0.0,
    epochs: Epochs = None,
    batch_size: BatchSize = None,
    learning_rate: LearningRate = None,
    schedule: Schedule = None,
    patience: Patience = None,
    weight_penalty: Penalty = None,
    noise: Noise = None,
    class_weight: ClassWeight = None,
    interpolation: Interpolation = None,
    intensity: Intensity = False,
    paper: Paper = False,
    option: ModelOption = None,
    dataset_option: DatasetOption = None,
    data_dir: DataDir = None,
    ensemble: Ensemble = 1,
    time_limit: TimeLimit = "5m",
    final: Final = False,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Train a model on a data set by name; kill it whenever you like, the same command goes on where it was.

    Example: leapcde train character-trajectories --drop 0.3
    """
    from leapcde.cli.source import first_load

    params = {"epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "interpolation": interpolation}
    params |= {"intensity": intensity, "patience": patience, "seed": seed, "verbose": int(not (quiet or as_json))}
    params |= {"ensemble": ensemble, "time_limit": read_seconds(time_limit)}
    training = {"schedule": schedule, "weight_penalty": weight_penalty, "noise": noise}
    settings = {"training": _given(training), "options": _options(option)}
    _check_class_weight(class_weight)
    asked = set_request(data, drop, data_dir, dataset_option)
    if paper:
        settings = paper_settings(data, model, settings)
        params["interpolation"], class_weight = interpolation or "natural", class_weight or "none"
    request, loaded = first_load(asked, quiet=quiet or as_json)
    params["target_per"] = "row" if loaded.train.per_row else None
    estimator = make_estimator(loaded.task, model, request, class_weight, **settings, **_given(params))
    folder = out or Path("runs") / f"{Path(data).stem.replace(':', '-')}-{model}-{seed}"
    train_run(estimator, loaded, request, folder, final=final, as_json=as_json)


@command(fit_app)
def tune(
    data: Annotated[str, typer.Argument(help="CSV, TSV or Parquet as for 'fit', or a data set ('leapcde data list').")],
    model: ModelName = DEFAULT_MODEL,
    out: Annotated[Path | None, typer.Option(help="Folder of the study; default tuning/FILE-MODEL.")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Settings to try in all, those of an earlier start included.")] = 30,
    hours: Annotated[float | None, typer.Option(min=0, help="Begin no trial after so many hours.")] = None,
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
    drop: Drop = 0.0,
    epochs: Epochs = None,
    paper: Annotated[bool, typer.Option("--paper", help="The values of the paper's appendix; name its --model.")] = False,
    dataset_option: DatasetOption = None,
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    seed: Seed = 0,
) -> None:
    """Search for settings with Optuna, judged on the validation data alone; then train and test the best once.

    The study is a journal file: stop whenever you like, the same command goes on. Trials that fall behind are pruned.

    Example: leapcde tune visits.csv --id patient --time hour --target sepsis --trials 50
    """
    from leapcde.cli.plugins import presets
    from leapcde.cli.source import first_load
    from leapcde.datasets.registry import is_name
    from leapcde.estimators.tune import tune as search
    from leapcde.training.track.progress import watch_count

    if is_name(data):
        asked = set_request(data, drop, data_dir, dataset_option)
    else:
        columns = (id, time, target, values, static, weights)
        asked = file_request([Path(data)], columns, horizon, window, task, drop, time_format, split, stride, known)
    request, loaded = first_load(asked, quiet=quiet or as_json)
    estimator = make_estimator(loaded.task, model, request, None, epochs=epochs, seed=seed)
    folder = out or Path("tuning") / f"{Path(data).stem.replace(':', '-')}-{model}"
    space = presets("paper").space(data, model) if paper else None
    with watch_count(f"trials of {model}", trials, quiet=quiet or as_json) as progress:
        limits = {"trials": trials, "seconds": None if hours is None else 3600 * hours}
        study = search(estimator, loaded, folder, request=request, space=space, progress=progress, **limits)
    if as_json:
        return print_json({"study": str(folder), **study._asdict()})
    rows = [[str(row["number"]), f"{row['value']:.4f}", str(row["settings"])] for row in study.best_trials]
    print_table(["trial", f"validation {study.metric}", "settings"], rows)
    typer.echo(f"{study.finished} trials finished, {study.pruned} pruned; best settings trained and tested: {study.run}")
    typer.echo(f"test {study.metric}: {study.test[study.metric]:.4f}")


def make_estimator(task: str, model: str, request: DataRequest, class_weight: str | None, **params: Any) -> Estimator:
    """The estimator of a task that reads what the request names."""
    from leapcde.estimators.load import ESTIMATORS

    if task in ("classification", "labels"):
        params["class_weight"] = None if class_weight == "none" else "balanced"
    if task == "forecasting" and request.horizon is not None:
        params |= {"horizon": request.horizon, "window": request.window, "stride": request.stride}
        params |= {"target": request.forecast, "known": request.known}
    if request.columns is not None:
        columns = replace(
            request.columns, weights=None, categories=None, time_format=None
        ).to_json()  # which are the file's business
        params |= {key: value for key, value in columns.items() if task != "forecasting" or key != "target"}
    made = ESTIMATORS[task]().set_params(model=model, **params)
    # The validation data calibrates the intervals of a run: nothing more is held out for that.
    return made.set_params(calibration=0.0) if "calibration" in made.get_params() else made


def train_run(
    estimator: Estimator, data: Dataset, request: DataRequest, folder: Path, *, as_json: bool, final: bool = False
) -> None:
    """Train a run, and print its numbers."""
    from leapcde.estimators.run import FINAL, run, told_coverage

    result = run(estimator, data, request=request, folder=folder, final=final)
    _note_few(data)
    if as_json:
        about = {"parameters": result.parameters, "baselines": result.baselines, "ahead": result.ahead or None}
        about |= {"split": data.options.get("split"), "coverage of 90 % intervals": result.coverage}
        about |= {"final": final, "growth": result.growth or None} | ({} if result.race is None else {"race": result.race})
        return print_json({"run": str(folder), "metric": result.metric, **result.metrics, **about})
    if "split" in data.options and request.columns is not None:
        typer.echo(f"split: {data.options['split']}")
    if result.race is not None:
        print_race(result.race, result.metric)
    print_splits({estimator.model: result.metrics, **result.baselines}, result.metric)
    if result.coverage is not None:
        typer.echo(told_coverage(result.coverage))
    for line in (result.growth, result.ahead, FINAL if final else ""):
        if line:
            typer.echo(line)
    typer.echo(f"{result.stopped}; {result.parameters:,} parameters; {result.seconds:.0f} s\nrun: {folder}")


def paper_settings(data: str, model: str, given: dict[str, Any]) -> dict[str, Any]:
    """The paper's settings for a data set, with those given put in; a whole TrainConfig, so that nothing else is chosen."""
    from leapcde.cli.plugins import presets
    from leapcde.training.config import TrainConfig

    paper = presets("paper")
    training = TrainConfig(**{**paper.paper_training(data), **given["training"]})
    return {"training": training, "options": {**paper.paper_options(data, model), **given["options"]}}


def _note_few(data: Dataset) -> None:
    counts = {name: len(part) for name, part in data.parts.items()}
    if min(counts["validation"], counts["test"]) < FEW:
        parts = f"{counts['train']} train, {counts['validation']} choose the weights, {counts['test']} test"
        message = f"too few samples to judge a model by: {parts}. These numbers are a matter of luck"
        warnings.warn(message, LeapWarning, stacklevel=3)


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _options(option: list[str] | None) -> dict[str, Any]:
    return name_values(option or [], "--option", "hidden=64")


def _check_class_weight(given: str | None) -> None:
    choose("class-weight", given or "balanced", ("balanced", "none"))

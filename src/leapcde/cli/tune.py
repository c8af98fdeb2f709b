"""Search for settings with Optuna: a journal that survives a kill, pruning, and the validation data as the only judge."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from leapcde.cli.run import RunConfig, run, trainer_of
from leapcde.data.dataset import Dataset
from leapcde.errors import InputError, LeapWarning, SolveError, TrainingError
from leapcde.files import json_text, write_text
from leapcde.models.registry import options_of
from leapcde.paths.interpolation import interpolation_of
from leapcde.training.metrics import LOWER_IS_BETTER

JOURNAL, CONFIG, BEST = "study.journal", "study.json", "best"
SHOWN = 5
Space = dict[str, tuple[Any, ...]]  # values to choose from, by name
TRAINING = ("learning_rate", "weight_penalty")  # names in a space that are not options of the model
SIZES = {"hidden": (12, 96), "width": (24, 160), "depth": (1, 4)}


class Study(NamedTuple):
    metric: str
    finished: int
    pruned: int
    best_trials: list[dict[str, Any]]  # the best first
    test: dict[str, float]  # of the best, trained again and tested once
    run: str  # its folder


def tune(
    config: RunConfig,
    data: Dataset,
    folder: Path,
    *,
    trials: int,
    space: Space | None = None,
    seconds: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Study:
    """Try settings until `trials` are done, then run the best one in `folder/best`. Goes on with what is there.

    `space` lists the values to choose from, by name (`presets.space` has the paper's); by default, sizes, rate and path.
    """
    study, metric = search(config, data, folder, trials=trials, space=space, seconds=seconds, progress=progress)
    return _finish(study, config, data, folder, metric, space)


def search(
    config: RunConfig,
    data: Dataset,
    folder: Path,
    *,
    trials: int,
    space: Space | None = None,
    first: Sequence[dict[str, Any]] = (),
    seconds: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[optuna.Study, str]:
    """Trials judged by the validation data, and by which metric; test data is not looked at. `first` are tried first."""
    _bind(folder, config, space)
    metric = trainer_of(config, data).metric
    study = _open(folder, metric, config.train.seed)
    for settings in first:
        study.enqueue_trial(settings, skip_if_exists=True)
    progress(_done(study))

    def objective(trial: optuna.Trial) -> float:
        return _try(trial, suggested(config, trial, space), data, metric)

    def count(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        progress(_done(study))
        if _done(study) >= trials:
            study.stop()

    left = trials - _done(study)
    if left > 0:
        study.optimize(objective, n_trials=left, timeout=seconds, callbacks=[count], catch=(TrainingError, SolveError))
    return study, metric


def suggested(config: RunConfig, trial: optuna.Trial | optuna.trial.FrozenTrial, space: Space | None = None) -> RunConfig:
    """The config with a trial's settings: those of `space`, or rate, path, intensity, and those sizes that the model has."""
    if space is not None:
        chosen = {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
        train = {name: chosen.pop(name) for name in TRAINING if name in chosen}
        return replace(config, options={**config.options, **chosen}, train=replace(config.train, **train))
    known = options_of(config.model)
    options: dict[str, Any] = {
        name: trial.suggest_int(name, *bounds, log=name != "depth") for name, bounds in SIZES.items() if name in known
    }
    if "alpha" in known:
        options["alpha"] = trial.suggest_float("alpha", 1e-4, 10.0, log=True)
    train = replace(config.train, learning_rate=trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True))
    interpolation = trial.suggest_categorical("path", ["natural", "linear", "rectilinear"])
    recipe = replace(
        config.recipe, interpolation=interpolation, intensity=trial.suggest_categorical("intensity", [False, True])
    )
    if interpolation_of(interpolation).causal:  # a path to stream along, which has no steps (decision 10)
        options |= dict.fromkeys({"steps", "encoder_steps"} & known.keys())
    return replace(config, options={**config.options, **options}, train=train, recipe=recipe)


def _try(trial: optuna.Trial, config: RunConfig, data: Dataset, metric: str) -> float:
    def report(row: dict[str, float]) -> None:
        trial.report(row[metric], int(row["epoch"]))
        if trial.should_prune():
            raise optuna.TrialPruned

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)  # said once, when the first trainer was made
        _, trained = trainer_of(config, data).fit(on_epoch=report)
    return trained.history.best(metric)[metric]


def _open(folder: Path, metric: str, seed: int) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    direction = "minimize" if metric in LOWER_IS_BETTER else "maximize"
    # Pruning begins when there is something to compare with: five whole trials, five epochs into this one.
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=5)
    study = optuna.create_study(storage=storage, study_name="leapcde", direction=direction, pruner=pruner, load_if_exists=True)
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    return study


def _bind(folder: Path, config: RunConfig, space: Space | None) -> None:
    """A folder belongs to one question; another one's trials are never mixed in."""
    text = json.dumps({**config.to_json(), "space": space}, indent=2)
    path = folder / CONFIG
    if path.exists():
        if json.loads(path.read_text(encoding="utf-8")) != json.loads(text):
            raise InputError(f"{folder} holds a study of other data or settings; give another --out, or remove that folder")
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty and not a study; give another --out")
    else:
        write_text(path, text)


def _done(study: optuna.Study) -> int:
    return sum(trial.state.is_finished() for trial in study.trials)


def _finish(study: optuna.Study, config: RunConfig, data: Dataset, folder: Path, metric: str, space: Space | None) -> Study:
    whole = [trial for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
    if not whole:
        raise TrainingError("no trial finished: each one diverged or was stopped; try more trials, or more hours")
    order = sorted(whole, key=lambda trial: trial.value or 0.0, reverse=metric not in LOWER_IS_BETTER)
    result = run(suggested(config, order[0], space), data, folder=folder / BEST)
    pruned = sum(trial.state == optuna.trial.TrialState.PRUNED for trial in study.trials)
    rows = [{"number": trial.number, "value": trial.value, "settings": trial.params} for trial in order[:SHOWN]]
    found = Study(metric, len(whole), pruned, rows, result.metrics["test"], str(folder / BEST))
    write_text(folder / "best.json", json_text(found._asdict(), indent=2))
    return found

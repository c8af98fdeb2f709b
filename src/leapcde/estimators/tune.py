"""Search for settings with Optuna: a journal that survives a kill, pruning, and the validation data as the only judge."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from leapcde.data.dataset import DataRequest, Dataset
from leapcde.errors import CheckpointError, InputError, LeapWarning, SolveError, TrainingError, need
from leapcde.estimators.base import Estimator
from leapcde.estimators.rows import known_part
from leapcde.estimators.run import run
from leapcde.files import alone, free_for, json_text, write_text
from leapcde.models.registry import options_of
from leapcde.paths.interpolation import INTERPOLATIONS
from leapcde.training.config import TrainConfig, plain
from leapcde.training.history import History
from leapcde.training.metrics import LOWER_IS_BETTER, main_metric

if TYPE_CHECKING:
    import optuna

JOURNAL, CONFIG, BEST = "study.journal", "study.json", "best"
SHOWN = 5
Space = dict[str, tuple[Any, ...]]  # values to choose from, by name
SIZES = {"hidden": (12, 96), "width": (24, 160), "depth": (1, 4)}


class Study(NamedTuple):
    """What a search found."""

    metric: str
    finished: int
    pruned: int
    best_trials: list[dict[str, Any]]  # the best first
    test: dict[str, float]  # of the best, trained again and tested once
    run: str  # its folder


def tune(
    estimator: Estimator,
    data: Dataset,
    folder: Path,
    *,
    trials: int,
    request: DataRequest | None = None,
    space: Space | None = None,
    seconds: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Study:
    """Try settings until `trials` are done, then run the best one in `folder/best`. Goes on with what is there.

    Parameters
    ----------
    estimator : Estimator
        With the settings that all trials share.
    data, request : Dataset, DataRequest
        As for `run`; the test part is looked at once, after the search.
    folder : Path
        Of the study. It belongs to one estimator and one data set.
    trials, seconds : int, float
        When to stop: after so many trials, those of an earlier start included; begin none after so many seconds.
    space : dict, optional
        Values to choose from, by name of an option or parameter; by default sizes, learning rate and interpolation.
    progress : callable
        Called with the number of trials done.

    Returns
    -------
    Study
    """
    study, metric = search(
        estimator, data, folder, trials=trials, request=request, space=space, seconds=seconds, progress=progress
    )
    return _finish(study, estimator, data, folder, metric, space, request)


def search(
    estimator: Estimator,
    data: Dataset,
    folder: Path,
    *,
    trials: int,
    request: DataRequest | None = None,
    space: Space | None = None,
    first: Sequence[dict[str, Any]] = (),
    seconds: float | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[optuna.Study, str]:
    """Trials judged by the validation data, and by which metric; test data is not looked at. `first` are tried first."""
    need("optuna", "tune")
    _bind(folder, estimator, request, space)
    with alone(folder):
        return _search(estimator, data, folder, trials, space, first, seconds, progress)


def _search(
    estimator: Estimator,
    data: Dataset,
    folder: Path,
    trials: int,
    space: Space | None,
    first: Sequence[dict[str, Any]],
    seconds: float | None,
    progress: Callable[[int], None],
) -> tuple[optuna.Study, str]:
    metric = main_metric(data.task, len(np.unique(known_part(data.train))) if data.task == "classification" else 0)
    study = _open(folder, metric, estimator.seed)
    for settings in first:
        study.enqueue_trial(settings, skip_if_exists=True)
    progress(_done(study))

    began = time.monotonic()
    try:
        # Asked and told by hand: a trial that is stopped has not been made, and Optuna's own loop would report it as failed.
        while _done(study) < trials and (seconds is None or time.monotonic() - began < seconds):
            trial = study.ask()
            study.tell(trial, **_outcome(trial, suggested(estimator, trial, space), data, metric))
            progress(_done(study))
    except OSError as error:
        message = f"cannot write {folder / JOURNAL}: {error.strerror or error}; the same command goes on from there"
        raise InputError(message) from error
    return study, metric


def suggested(estimator: Estimator, trial: optuna.Trial | optuna.trial.FrozenTrial, space: Space | None = None) -> Estimator:
    """A fresh estimator with a trial's settings: those of `space`, or rate, interpolation, intensity and sizes."""
    if space is not None:
        chosen = {name: trial.suggest_categorical(name, list(values)) for name, values in space.items()}
        return _with(estimator, chosen)
    known = options_of(estimator.model)
    chosen: dict[str, Any] = {
        name: trial.suggest_int(name, *bounds, log=name != "depth") for name, bounds in SIZES.items() if name in known
    }
    if "alpha" in known:
        chosen["alpha"] = trial.suggest_float("alpha", 1e-4, 10.0, log=True)
    chosen["learning_rate"] = trial.suggest_float("learning_rate", 3e-4, 1e-2, log=True)
    chosen["interpolation"] = trial.suggest_categorical("interpolation", ["natural", "linear", "rectilinear"])
    chosen["intensity"] = trial.suggest_categorical("intensity", [False, True])
    if INTERPOLATIONS[chosen["interpolation"]].causal:  # a path to stream along, which has no steps (decision 10)
        chosen |= dict.fromkeys({"steps", "encoder_steps"} & known.keys())
    return _with(estimator, chosen)


def _with(estimator: Estimator, chosen: dict[str, Any]) -> Estimator:
    """Settings by name go where they belong: parameters of the estimator, fields of its training, options of its model."""
    params = {name: value for name, value in chosen.items() if name in estimator.get_params()}
    fields = {name: value for name, value in chosen.items() if name in TrainConfig.__dataclass_fields__ and name not in params}
    options = {name: value for name, value in chosen.items() if name not in {**params, **fields}}
    if fields:
        params["training"] = {**(estimator.training or {}), **fields}  # pyright: ignore[reportGeneralTypeIssues]
    made: Any = clone(estimator)
    return made.set_params(**params, options={**(estimator.options or {}), **options})


def _outcome(trial: optuna.Trial, estimator: Estimator, data: Dataset, metric: str) -> dict[str, Any]:
    """What a trial came to, as Optuna is told: its value, or that it was not worth going on, or that it diverged."""
    states, pruned = need("optuna", "tune").trial.TrialState, need("optuna", "tune").TrialPruned

    def report(row: dict[str, float]) -> None:
        trial.report(row[metric], int(row["epoch"]))
        if trial.should_prune():
            raise pruned

    try:
        with warnings.catch_warnings():
            if trial.number:
                warnings.simplefilter("ignore", LeapWarning)  # said once, in the first trial
            estimator.fit(data.to_fit, validation=data.validation, callbacks=[report])
    except pruned:
        return {"state": states.PRUNED}
    except (TrainingError, SolveError):
        return {"state": states.FAIL}
    value = History(estimator.history_).best(metric)[metric]
    return {"values": value} if np.isfinite(value) else {"state": states.FAIL}


def _open(folder: Path, metric: str, seed: int) -> optuna.Study:
    optuna = need("optuna", "tune")
    journal = need("optuna.storages.journal", "tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    _mend(folder / JOURNAL)
    for lock in folder.glob(f"{JOURNAL}.lock*"):  # of a killed process: Optuna would wait half a minute for it
        lock.unlink(missing_ok=True)
    storage = optuna.storages.JournalStorage(journal.JournalFileBackend(str(folder / JOURNAL)))
    direction = "minimize" if metric in LOWER_IS_BETTER else "maximize"
    # Pruning begins when there is something to compare with: five whole trials, five epochs into this one.
    pruner = optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=5)
    study = optuna.create_study(storage=storage, study_name="leapcde", direction=direction, pruner=pruner, load_if_exists=True)
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
    return study


def _mend(journal: Path) -> None:
    """A full disk or a kill may leave half a line, behind which no line can be read: the journal ends before it."""
    if not journal.exists():
        return
    whole = journal.read_bytes()
    good = 0
    for line in whole.splitlines(keepends=True):
        try:
            if not line.endswith(b"\n") or not isinstance(json.loads(line), dict):
                break
        except (ValueError, RecursionError):
            break
        good += len(line)
    if good < len(whole):
        os.truncate(journal, good)
        message = f"{journal} was cut short by a full disk or a kill: the study goes on from its last whole line"
        warnings.warn(message, LeapWarning, stacklevel=4)


def _bind(folder: Path, estimator: Estimator, request: DataRequest | None, space: Space | None) -> None:
    """A folder belongs to one question; another one's trials are never mixed in."""
    params = {key: plain(value) for key, value in estimator.get_params().items() if key != "verbose"}
    asked = {} if request is None else request.to_json()
    text = json.dumps({"task": estimator.task, **asked, "estimator": params, "space": space}, indent=2)
    path = folder / CONFIG
    if path.exists():
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged ({error}); remove {folder}, or give another --out") from None
        if known != json.loads(text):
            raise InputError(f"{folder} holds a study of other data or settings; give another --out, or remove that folder")
    elif not free_for(path):
        raise InputError(f"{folder} is not empty and not a study; give another --out")
    else:
        write_text(path, text)


def _done(study: optuna.Study) -> int:
    return sum(trial.state.is_finished() for trial in study.trials)


def _finish(
    study: optuna.Study,
    estimator: Estimator,
    data: Dataset,
    folder: Path,
    metric: str,
    space: Space | None,
    request: DataRequest | None,
) -> Study:
    states = need("optuna", "tune").trial.TrialState
    whole = [trial for trial in study.trials if trial.state == states.COMPLETE]
    if not whole:
        raise TrainingError("no trial finished: each one diverged or was stopped; try more trials, or more hours")
    order = sorted(whole, key=lambda trial: trial.value or 0.0, reverse=metric not in LOWER_IS_BETTER)
    result = run(suggested(estimator, order[0], space), data, request=request, folder=folder / BEST)
    pruned = sum(trial.state == states.PRUNED for trial in study.trials)
    rows = [{"number": trial.number, "value": trial.value, "settings": trial.params} for trial in order[:SHOWN]]
    found = Study(metric, len(whole), pruned, rows, result.metrics["test"], str(folder / BEST))
    write_text(folder / "best.json", json_text(found._asdict(), indent=2))
    return found

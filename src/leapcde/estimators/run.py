"""One run: an estimator is trained on a data set, tested once, and everything about it lies in one folder.

config.json           which data, which settings; written before the first epoch
training.safetensors  what a killed training goes on from
model.safetensors     the estimator, as `leapcde.load` reads it
result.json           metrics by split, baselines, history
race.csv              of model "auto": how each candidate did; race/ holds them, and what a killed race goes on from
card.md               the same for people: data, metrics, baselines, calibration, limits
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leapcde import RACE, __version__
from leapcde.baselines.fitted import fit_baselines, kinds_of
from leapcde.data.dataset import DataRequest, Dataset
from leapcde.data.dates import told_time
from leapcde.data.drop import without_empty_rows
from leapcde.data.series import Series, join
from leapcde.errors import CheckpointError, InputError
from leapcde.estimators.base import Estimator
from leapcde.estimators.certainty.growth import told_growth
from leapcde.estimators.certainty.intervals import Conformal
from leapcde.estimators.export.card import card_text
from leapcde.estimators.load import load
from leapcde.estimators.rows import known_part
from leapcde.estimators.several.final import refit
from leapcde.estimators.several.race import race_csv
from leapcde.files import alone, free_for, json_text, write_text
from leapcde.training.fitted import Fitted
from leapcde.training.metrics import better, softmax
from leapcde.training.preprocess import Preprocessor, check_labels
from leapcde.training.track.callbacks import Callback

CONFIG, MODEL, TRAINING, RESULT = "config.json", "model.safetensors", "training.safetensors", "result.json"
TABLE = "race.csv"
FINAL = "the model was trained again on all data after the test; the metrics are those of the model before that"
CARD = "card.md"
COVERAGE = 0.9  # of the intervals whose coverage of the test data is told
NEAR = 0.03  # how far from it needs no explanation


class Result(NamedTuple):
    """A trained run in numbers."""

    estimator: Estimator
    metric: str
    metrics: dict[str, dict[str, float]]  # by split
    baselines: dict[str, dict[str, dict[str, float]]]  # by name and split
    coverage: float | None  # of intervals that promise 90 %; None for classes and risks
    parameters: int
    seconds: float
    stopped: str
    race: list[dict[str, Any]] | None = None  # of model "auto": a row for each candidate
    growth: str = ""  # of forecasts: a sentence, if errors grow over the data

    @property
    def ahead(self) -> str:
        """A sentence, if a baseline is better than the model on the validation data; else nothing."""
        best, mine = None, self.metrics["validation"][self.metric]
        for name, of in self.baselines.items():
            if better(self.metric, found := of["validation"][self.metric], mine):
                best, mine = (name, found), found
        if best is None:
            return ""
        title = kinds_of(self.estimator.fitted_.preprocessor)[best[0]].title
        against = f"{best[1]:.4g} against {self.metrics['validation'][self.metric]:.4g}"
        choice = "the race did not choose it" if self.estimator.model == RACE else "--model auto may choose it"
        return f"A baseline is ahead on validation data: {title}, {self.metric} {against}; {choice}."


def run(
    estimator: Estimator,
    data: Dataset,
    *,
    request: DataRequest | None = None,
    folder: Path | None = None,
    callbacks: Sequence[Any] = (),
    final: bool = False,
) -> Result:
    """Train an estimator, judge it on the validation and the test data, and keep everything in a folder.

    Parameters
    ----------
    estimator : Estimator
        With the settings that are asked for; it is trained in place.
    data : Dataset
        Weights are chosen by its validation part, which also calibrates intervals.
    request : DataRequest, optional
        How to find the same data again; it becomes part of what the folder is bound to.
    folder : Path, optional
        A run that is there already goes on from where it was, if it has the same data and settings.
    callbacks : sequence, optional
        See `Estimator.fit`.
    final : bool
        Train what is kept again on all data after the test. The numbers stay those of the test.

    Returns
    -------
    Result
    """
    known = [] if data.task != "classification" else np.unique(known_part(data.train)).tolist()

    class Start(Callback):
        def on_start(self, settings: dict[str, Any]) -> None:
            if known and data.test.target is not None:
                check_labels(known_part(data.test), known)  # must fail now, not after hours
            if final:
                settings = {**settings, "train": {**settings["train"], "final": True}}
            if folder is not None:
                _bind(folder, {**({} if request is None else request.to_json()), "model": estimator.model, **settings})
                claims.enter_context(alone(folder))

    checkpoint = None if folder is None else folder / TRAINING
    with ExitStack() as claims:
        estimator.fit(data.to_fit, validation=data.validation, checkpoint=checkpoint, callbacks=[Start(), *callbacks])
        result = _judged(estimator, data)
        if final:
            refit(estimator, join(list(data.parts.values())), folder)
        if folder is not None:
            _write(folder, result, data)
    return result


def _write(folder: Path, result: Result, data: Dataset) -> None:
    """The model, its numbers, and both for people."""
    result.estimator.save(folder / MODEL)
    summary = _summary(folder, result, data)
    write_text(folder / RESULT, json_text(summary, indent=2))
    write_text(folder / CARD, card_text(summary, result.estimator.fitted_, __version__))
    if result.race is not None:
        write_text(folder / TABLE, race_csv(result.race))


def open_run(folder: Path) -> tuple[DataRequest, Estimator, dict[str, Any]]:
    """A finished run: which data it is about, the trained estimator, and the settings of its training.

    >>> open_run(Path("nowhere"))
    Traceback (most recent call last):
    leapcde.errors.InputError: there is no run folder nowhere; 'leapcde fit' and 'leapcde train' make one
    """
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}; 'leapcde fit' and 'leapcde train' make one")
    config = _read_config(folder)
    if not (folder / MODEL).exists():
        raise CheckpointError(f"the training of {folder} is not finished: repeat the command that made it to go on with it")
    try:
        settings = {key: config.pop(key) for key in ("model", "options", "recipe", "train")}
        request = DataRequest.from_json(config)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / CONFIG} is damaged ({error})") from None
    return request, load(folder / MODEL), settings


class Evaluation(NamedTuple):
    """A run on new data."""

    metrics: dict[str, dict[str, float]]  # of the model, and of each baseline
    coverage: float | None  # of intervals that promise 90 %; None where there are none
    seen: str  # a sentence, if the model knows some of the data; else nothing


def evaluate_new(estimator: Estimator, table: Any, data: Dataset | None = None, *, final: bool = False) -> Evaluation:
    """Metrics on new data with targets, of the model and of baselines that learned from the run's own `data`; how often
    intervals hold the truth; and whether the data is new at all. `final` says that all of `data` trained the model."""
    series = estimator._training_series(table, None)
    estimator._check_target(series)
    fitted = estimator.fitted_
    outputs = fitted.outputs(replace(series, target=None))
    found, seen = {"model": fitted.judge(outputs, series)}, ""
    if data is not None:
        seen = told_seen(series, data, final=final)
        beside = fit_baselines(data.train, data.validation, fitted.preprocessor)
        found |= {name: one.evaluate(series) for name, one in beside.items()}
    conformal = getattr(estimator, "conformal_", None)
    if conformal is None:
        return Evaluation(found, None, seen)
    truth = fitted.preprocessor.asked(np.asarray(series.target, float))
    return Evaluation(found, _coverage(estimator, truth, fitted.preprocessor.decode(outputs), series), seen)


def told_seen(series: Series, data: Dataset, *, final: bool = False) -> str:
    """What of new data trained the model or chose its weights, in words; nothing if none did.

    Of forecasts, windows whose future is older than the end of the training data: they, or their neighbours, were seen.
    """
    if data.task == "forecasting":
        ends, last = series.times[series.offsets[1:] - 1], float(data.to_fit.times.max())
        if not data.options.get("split", "").startswith("by time: rows") or not (ends < last).any():
            return ""
        share, until = float(np.mean(ends < last)), told_time(last)
        return f"{share:.0%} of the forecasts are of times until {until}, which trained the model: these errors flatter it"
    new = _contents(series)
    count = {name: sum(one in known for one in new) for name, part in data.parts.items() if (known := set(_contents(part)))}
    trained, chose = (sum(count.values()), 0) if final else (count["train"], count["validation"])
    if not trained + chose:
        return ""
    more = "" if not chose else f" and {chose} chose its weights"
    return f"{trained} of {len(series)} samples trained the model{more}: these numbers flatter it; its test is in {RESULT}"


def _contents(series: Series) -> list[bytes]:
    """Each sample as bytes, by which it is known again: without rows that say nothing, which splitting leaves out."""
    series = without_empty_rows(series)
    samples = (series.sample(i) for i in range(len(series)))
    return [np.asarray(times - times[0], float).tobytes() + np.asarray(rows, float).tobytes() for times, rows in samples]


def _coverage(estimator: Estimator, truth: np.ndarray, said: np.ndarray, series: Series) -> float:
    """How often intervals that promise 90 % hold the truth."""
    low, high = estimator.around(said, COVERAGE, series)
    return float(np.mean(((low <= truth) & (truth <= high))[~np.isnan(truth)]))


def told_coverage(covered: float) -> str:
    """What intervals held, in words; and why, if it is not what they promise.

    >>> told_coverage(0.9)
    '90 % intervals hold 90.0 % of the values tested'
    """
    said = f"{COVERAGE:.0%} intervals hold {covered:.1%} of the values tested".replace("%", " %")
    if abs(covered - COVERAGE) <= NEAR:
        return said
    larger, width = ("larger", "narrow") if covered < COVERAGE else ("smaller", "wide")
    return f"{said}: too {width}, because errors are {larger} there than on the data from which intervals were learned"


def baseline_metrics(data: Dataset, preprocessor: Preprocessor) -> dict[str, dict[str, dict[str, float]]]:
    """Metrics of the baselines by name and split: what needs no neural network, and seconds."""
    return {name: judged(one, data) for name, one in fit_baselines(data.train, data.validation, preprocessor).items()}


def judged(fitted: Fitted, data: Dataset, outputs: dict[str, np.ndarray] | None = None) -> dict[str, dict[str, float]]:
    """Metrics on the validation and the test data, with those that only this data has; `outputs` are what was said of them."""
    parts = {"validation": data.validation, "test": data.test}
    outputs = {name: fitted.outputs(part) for name, part in parts.items()} if outputs is None else outputs
    found = {name: fitted.judge(outputs[name], part) for name, part in parts.items()}
    if data.more is not None:
        said = {name: softmax(rows.astype(np.float64)) for name, rows in outputs.items()}
        for name, part in parts.items():
            found[name] |= data.more(data.validation, said["validation"], part, said[name])
    return found


def _judged(estimator: Estimator, data: Dataset) -> Result:
    """Each split is predicted once. Intervals are made of errors on the validation data, which chose the weights: their
    coverage of the test data says how well they hold. Those that are kept for forecasts know the test data's errors too:
    they are the latest ones."""
    fitted, covered = estimator.fitted_, None
    parts = {"validation": data.validation, "test": data.test}
    outputs = {name: fitted.outputs(part) for name, part in parts.items()}
    if data.task not in ("classification", "labels", "survival") and not data.test.per_row:
        truth = {name: fitted.preprocessor.asked(np.asarray(part.target, float)) for name, part in parts.items()}
        said = {name: fitted.preprocessor.decode(rows) for name, rows in outputs.items()}
        rough = {name: estimator._rough(part) for name, part in parts.items()}
        estimator.conformal_ = Conformal.learn(truth["validation"], said["validation"], rough["validation"])
        covered = _coverage(estimator, truth["test"], said["test"], data.test)
        if data.task == "forecasting":
            both = (np.concatenate([np.asarray(of["validation"]), np.asarray(of["test"])]) for of in (truth, said, rough))
            estimator.conformal_ = Conformal.learn(*both)
    metrics = judged(fitted, data, outputs)
    seconds = sum(row["seconds"] for row in estimator.history_)
    beside, growth = baseline_metrics(data, fitted.preprocessor), told_growth(data, fitted.preprocessor)
    size = fitted.parameters
    raced = estimator.race_ if estimator.model == RACE else None
    return Result(estimator, fitted.metric, metrics, beside, covered, size, seconds, estimator.stopped_, raced, growth)


def _summary(folder: Path, result: Result, data: Dataset) -> dict[str, Any]:
    config = _read_config(folder)
    return {
        "config": config,
        "dataset_options": data.options,
        "samples": {name: len(part) for name, part in data.parts.items()},
        "metric": result.metric,
        "metrics": result.metrics,
        "baselines": result.baselines,
        "ahead": result.ahead or None,
        "coverage of 90 % intervals": result.coverage,
        **({"growth": result.growth} if result.growth else {}),
        "parameters": result.parameters,
        "seconds": result.seconds,
        "stopped": result.stopped,
        **({"final": FINAL} if config["train"].get("final") else {}),
        **({} if result.race is None else {"race": result.race}),
        "history": result.estimator.history_,
    }


def files_of(run: Path) -> list[Path]:
    """What makes a run, given its folder or the file of its model: nothing else may be written in its place."""
    return [run / name for name in (CONFIG, MODEL, TRAINING, RESULT, TABLE, CARD)] if run.is_dir() else [run]


def _bind(folder: Path, config: dict[str, Any]) -> None:
    """A folder belongs to one data set and one set of settings; another one's results are never overwritten."""
    text = json_text(config, indent=2)
    if (folder / CONFIG).exists():
        if _read_config(folder) != json.loads(text):
            raise InputError(f"{folder} holds a run with other settings; give another --out, or remove that folder")
    elif not free_for(folder / CONFIG):
        raise InputError(f"{folder} is not empty and not a run folder; give another --out")
    else:
        write_text(folder / CONFIG, text)


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is not a run folder: it has no {CONFIG}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged ({error})") from None

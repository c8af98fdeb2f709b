"""LeapClassifier, LeapRegressor, LeapForecaster: any model of the registry for series as people have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags
from sklearn.utils.multiclass import type_of_target

from .checkpoint import load_file
from .errors import CheckpointError, InputError, Problems
from .estimator import Estimator, interval, store
from .inputs import read
from .intervals import Conformal
from .predictor import Frame, Predictor
from .prepare import hold_out
from .series import Series
from .train import Fitted, TrainConfig
from .windowing import Horizon, auto_window, cut_windows, in_steps, last_window


class LeapClassifier(Estimator):
    """Classify series, each with its own times, length and holes.

    Parameters: `model` is any name of `leapcde models`, `options` its options (the rest is chosen from the data's
    shape). `interpolation` ("linear", "natural", "hermite", "rectilinear"), `time_channel` and `intensity` say how X is made;
    use intensity where being measured tells something. `epochs`, `batch`, `rate` and `training` (other fields of
    `TrainConfig`) are chosen when None. `validation` is the share held out to choose weights. `class_weight` is
    "balanced", None, or {class: weight}; `pos_weight` weighs the second of two classes. `layout="channels_first"`
    reads aeon's arrays. For tables, `id`, `time`, `target`, `values` and `static` are names of columns.

    >>> rng = np.random.default_rng(0)
    >>> X = [(np.sort(rng.random(n)), rng.normal(size=(n, 2)) + n % 2) for n in range(4, 24)]
    >>> y = ["odd" if len(t) % 2 else "even" for t, _ in X]
    >>> classifier = LeapClassifier("gru", options={"hidden": 4}, epochs=2).fit(X, y)
    >>> classifier.predict_proba(X[:3]).shape, classifier.classes_.tolist()
    ((3, 2), ['even', 'odd'])
    """

    task = "classification"
    class_weight: Any
    pos_weight: float | None

    def __init__(
        self,
        model: str = "leap",
        *,
        options: dict[str, Any] | None = None,
        interpolation: str = "linear",
        time_channel: bool = True,
        intensity: bool = False,
        epochs: int | None = None,
        batch: int | None = None,
        rate: float | None = None,
        training: dict[str, Any] | None = None,
        validation: float = 0.15,
        class_weight: Any = "balanced",
        pos_weight: float | None = None,
        layout: str = "channels_last",
        id: str | None = None,
        time: str | None = None,
        target: str | None = None,
        values: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        store(self, locals())

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities, columns in the order of `classes_`. With class weights they are those of a reweighed population."""
        series = self._new_series(X)
        return self.predictor_.predict_proba(series)

    def decision_function(self, X) -> np.ndarray:
        """Class scores before the softmax; for two classes, the second's lead over the first."""
        series = self._new_series(X)
        raw = self.predictor_.raw(series)
        return raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

    def _check_target(self, series: Series) -> None:
        kind = type_of_target(series.target)
        if kind not in ("binary", "multiclass"):
            raise InputError(f"Unknown label type: {kind}. Classes are text or whole numbers; use LeapRegressor for numbers")

    def _hold_out(self, series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
        return hold_out(series, share, labels=np.asarray(series.target), seed=seed)

    def _weighted(self, config: TrainConfig, frame: Frame, series: Series) -> TrainConfig:
        if self.class_weight == "balanced" and self.pos_weight is None:
            # Counted here and not in training, because a part of the data need not show every class.
            counts = np.bincount(frame.encode_target(np.asarray(series.target)), minlength=len(frame.classes))
            weights = counts.sum() / ((counts > 0).sum() * np.maximum(counts, 1))
            return replace(config, class_weight=tuple(np.where(counts, weights, 1.0)))
        return replace(config, class_weight=_class_weight(self.class_weight, self.pos_weight, frame.classes))

    def _keep(self, predictor: Predictor, fitted: Fitted | None = None) -> None:
        super()._keep(predictor, fitted)
        self.classes_ = np.array(predictor.frame.classes)

    def _score(self, series: Series) -> float:
        return float(accuracy_score(np.asarray(series.target), self.predictor_.predict(replace(series, target=None))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags


class LeapRegressor(Estimator):
    """Predict one number from each series. Parameters as in `LeapClassifier`; `calibration` holds out a share of the
    data for `predict_interval`.

    >>> rng = np.random.default_rng(0)
    >>> X = [(np.arange(n), rng.normal(size=(n, 2)) + n) for n in range(4, 24)]
    >>> regressor = LeapRegressor("gru", options={"hidden": 4}, epochs=2).fit(X, [len(t) for t, _ in X])
    >>> regressor.predict(X[:3]).shape
    (3,)
    """

    task = "regression"

    def __init__(
        self,
        model: str = "leap",
        *,
        options: dict[str, Any] | None = None,
        interpolation: str = "linear",
        time_channel: bool = True,
        intensity: bool = False,
        epochs: int | None = None,
        batch: int | None = None,
        rate: float | None = None,
        training: dict[str, Any] | None = None,
        validation: float = 0.15,
        calibration: float = 0.0,
        layout: str = "channels_last",
        id: str | None = None,
        time: str | None = None,
        target: str | None = None,
        values: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        store(self, locals())

    def predict_interval(self, X, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that hold the truth with this probability; needs `calibration` above 0."""
        return interval(self, X, coverage)

    def _check_target(self, series: Series) -> None:
        if np.asarray(series.target).ndim != 1:
            raise InputError(f"y has shape {np.asarray(series.target).shape}; LeapRegressor predicts one number a sample")

    def _score(self, series: Series) -> float:
        truth = np.asarray(series.target, float)
        return float(r2_score(truth, self.predictor_.predict(replace(series, target=None))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags


class LeapForecaster(Estimator):
    """Forecast all channels of each series. `fit(X)` takes whole sequences and cuts windows of them.

    `horizon` is a number of steps (the observations that follow, for evenly sampled series), or a list of times after
    the last observation, for uneven ones. `window` is how many observations a forecast looks back on; None chooses from
    the data. `calibration` is the share of sequences held out for `predict_interval`. Ready-made windows are given
    as X with y of shape (sample, step, channel). Other parameters as in `LeapClassifier`.

    >>> X = np.sin(np.arange(40.0)[None, :, None] / 3 + np.arange(8.0)[:, None, None])
    >>> forecaster = LeapForecaster("gru", horizon=[0.5, 2.0], options={"hidden": 4}, epochs=2).fit(X)
    >>> forecaster.predict(X).shape
    (8, 2, 1)
    """

    task = "forecasting"
    horizon: Horizon
    window: int | None
    stride: int | None
    window_: int | None

    def __init__(
        self,
        model: str = "leap",
        *,
        horizon: Horizon = 10,
        window: int | None = None,
        stride: int | None = None,
        options: dict[str, Any] | None = None,
        interpolation: str = "linear",
        time_channel: bool = True,
        intensity: bool = False,
        epochs: int | None = None,
        batch: int | None = None,
        rate: float | None = None,
        training: dict[str, Any] | None = None,
        validation: float = 0.15,
        calibration: float = 0.15,
        layout: str = "channels_last",
        id: str | None = None,
        time: str | None = None,
        values: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        warm_start: bool = False,
        random_state: Any = 0,
        verbose: int = 0,
    ):
        store(self, locals())

    def predict_interval(self, X, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (sample, step, channel), that hold the truth with this probability."""
        return interval(self, X, coverage)

    def forecast_times(self, X) -> np.ndarray:
        """The times for which `predict` answers, (sample, step): steps are one typical gap long."""
        series = self._new_series(X)
        frame = self.predictor_.frame
        ahead = np.arange(1, frame.spec.output[0] + 1) * frame.scaler.time_unit
        if self.window_ is not None and not in_steps(self.horizon):
            ahead = np.asarray(self.horizon, float)
        return series.times[series.offsets[1:] - 1, None] + ahead

    def _training_series(self, X, y, *, settle: bool = False) -> Series:
        series = read(X, y, self._form())
        given = series.target is not None
        if settle:
            self.window_ = None if given else self.window or auto_window(series, self.horizon)
        return series if given else cut_windows(series, self.window_, self.horizon, self.stride)

    def _new_series(self, X) -> Series:
        return last_window(super()._new_series(X), self.window_)

    def _check_target(self, series: Series) -> None:
        shape, channels = np.asarray(series.target).shape, series.values.shape[1]
        if len(shape) != 3 or shape[2] != channels:
            raise InputError(f"y has shape {shape}; future values are (sample, step, channel), here with {channels} channels")

    def _score(self, series: Series) -> float:
        scale = self.predictor_.frame.scaler.scale
        truth = scale(np.asarray(series.target))
        error = scale(self.predictor_.predict(replace(series, target=None))) - truth
        return 1 - float(np.nanmean(error**2) / np.nanmean((truth - np.nanmean(truth, 0)) ** 2))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = False
        return tags


ESTIMATORS: dict[str, type[Estimator]] = {
    "classification": LeapClassifier,
    "regression": LeapRegressor,
    "forecasting": LeapForecaster,
}


def load(path: Path | str) -> Estimator:
    """Read what an estimator's `save`, `Predictor.save` or `leapcde fit` wrote (a file, or a run folder).

    >>> load("nowhere.safetensors")
    Traceback (most recent call last):
    leapcde.errors.CheckpointError: there is no file nowhere.safetensors
    """
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    arrays, about = load_file(path, "model")
    predictor = Predictor.restore(path, arrays, about)
    frame, kept = predictor.frame, about.get("estimator", {})
    recipe = {"interpolation": frame.recipe.scheme, "time_channel": frame.recipe.time, "intensity": frame.recipe.intensity}
    made = ESTIMATORS[frame.task]().set_params(model=predictor.name, options=predictor.options, **recipe)
    try:
        made.set_params(**kept.get("params", {}))
    except ValueError as error:
        raise CheckpointError(f"{path} was written by another version of leapcde ({error})") from None
    made._keep(predictor)
    errors = arrays.get("conformal/['errors']")
    made.conformal_ = None if errors is None else Conformal(errors)
    if isinstance(made, LeapForecaster):
        made.window_ = kept.get("window")
    return made


def _class_weight(weight: Any, positive: float | None, classes: tuple[Any, ...]) -> Any:
    """What `TrainConfig` takes: "balanced", None, or a weight for each class in its order."""
    if positive is not None:
        if len(classes) != 2:
            raise InputError(f"pos_weight is for two classes, here are {len(classes)}; use class_weight={{class: weight}}")
        return (1.0, positive)
    if not isinstance(weight, dict):
        return weight
    problems = Problems()
    for label in set(weight) - set(classes):
        problems.add(f"no class {label!r}; there are: {', '.join(map(str, classes))}")
    problems.raise_if_any("class_weight cannot be used")
    return tuple(float(weight.get(label, 1.0)) for label in classes)

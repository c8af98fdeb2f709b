"""What the estimators share: the scikit-learn contract, from data as people have it to a trained `FittedModel`.

An estimator stores its parameters, reads data into a `Series`, takes settings from the data's shape where none are
given, and hands everything to the same `Trainer` that the command line uses. What it learned is its `fitted_`.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from leapcde.data.forms import Form, read
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import hold_out
from leapcde.errors import InputError, LeapWarning, Problems
from leapcde.estimators.intervals import Conformal
from leapcde.explain import attribution
from leapcde.explain.explanation import Explanation, explanation
from leapcde.models.registry import build
from leapcde.paths.batch import Recipe
from leapcde.training import defaults as auto
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel, Trainer
from leapcde.training.loop import Trained
from leapcde.training.preprocess import Preprocessor
from leapcde.training.progress import note, watch_training

if TYPE_CHECKING:
    from leapcde.estimators.stream import Stream


class Estimator(BaseEstimator):
    """What the three estimators share. Abstract: use LeapClassifier, LeapRegressor or LeapForecaster."""

    task: str
    model: str
    options: dict[str, Any] | None
    training: dict[str, Any] | None
    warm_start: bool
    verbose: int
    fitted_: FittedModel  # what was learned, once trained
    conformal_: Conformal | None

    # Fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X, y=None, *, validation: Any = None):
        """Learn from series and their targets. `validation` is (X, y), or a Series, instead of a share of the data."""
        series = self._training_series(X, y, settle=True)
        self._check_target(series)
        calibration = None
        if self._calibration():
            series, calibration = self._hold_out(series, self._calibration(), seed=1)
        if validation is not None:
            given = validation if isinstance(validation, tuple) and len(validation) == 2 else (validation, None)
            held = self._training_series(*given)
        else:
            series, held = self._hold_out(series, self.get_params()["validation"], seed=0)
        self._learn(series, held, fresh=not (self.warm_start and hasattr(self, "fitted_")))
        self.conformal_ = None if calibration is None else self._calibrate(calibration)
        return self

    def partial_fit(self, X, y=None, classes: Sequence[Any] | None = None):
        """One more pass over new data from where training stands, with the scaling of the first call.

        `classes` names all classes there will be, in the first call of a classifier. The optimiser starts afresh.
        """
        fresh = not hasattr(self, "fitted_")
        series = self._training_series(X, y, settle=fresh)
        self._check_target(series)
        self._learn(series, series, fresh=fresh, classes=classes, epochs=1)
        return self

    def _learn(self, series: Series, held: Series | None, *, fresh: bool, classes=None, epochs: int | None = None) -> None:
        given = {} if epochs is None else {"epochs": epochs, "schedule": "constant", "patience": None}
        trainer = self._trainer(series, held, fresh, classes, given)
        if self.verbose:
            _tell_cost(trainer, series.lengths)
        with watch_training(self.model, trainer.config.epochs, trainer.metric, quiet=not self.verbose) as hooks:
            self._keep(*trainer.fit(**hooks._asdict()))

    def _trainer(self, series: Series, held: Series | None, fresh: bool, classes, given: dict[str, Any]) -> Trainer:
        params = self.get_params()
        config = self._config(len(series), given)
        if fresh:
            recipe = Recipe(params["interpolation"], params["time_channel"], params["intensity"])
            preprocessor = Preprocessor.learn(
                series, self.task, recipe, tuple(np.asarray([] if classes is None else classes).tolist())
            )
            shape = (preprocessor.spec.channels, series.lengths, config.batch_size)
            suited = auto.model_options(self.model, *shape, task=self.task, interpolation=recipe.interpolation)
            options = {**suited, **(self.options or {})}
            model = build(self.model, preprocessor.spec, seed=config.seed, **options)
        else:
            preprocessor, options, model = self.fitted_.preprocessor, self.fitted_.options, self.fitted_.model
        config = self._weighted(config, preprocessor, series)
        if held is None:
            held = series
            message = f"{len(series)} samples are too few to hold any out: weights are chosen on the training data"
            if params["validation"]:
                warnings.warn(message, LeapWarning, stacklevel=4)
        return Trainer(preprocessor, model, self.model, options, preprocessor.encode(series), preprocessor.encode(held), config)

    def _config(self, samples: int, given: dict[str, Any]) -> TrainConfig:
        params = self.get_params()
        mine = {key: params[key] for key in ("epochs", "batch_size", "learning_rate") if params[key] is not None}
        settings = {
            **auto.training_options(samples, self.task),
            "stop_on": "validation",
            "seed": _seed(params["random_state"]),
        }
        try:
            return TrainConfig(**{**settings, **mine, **(self.training or {}), **given})
        except TypeError as error:
            raise InputError(f"training: {error}; it takes the fields of leapcde.TrainConfig") from None

    def _weighted(self, config: TrainConfig, preprocessor: Preprocessor, series: Series) -> TrainConfig:
        return config

    def _keep(self, fitted: FittedModel, trained: Trained | None = None) -> None:
        self.fitted_ = fitted
        if trained is not None:
            self.history_, self.n_iter_, self.stopped_ = trained.history.rows, len(trained.history.rows), trained.stopped
        channels = fitted.preprocessor.channels
        self.n_features_in_ = len(channels)
        if any(name != f"x{c}" for c, name in enumerate(channels)):
            self.feature_names_in_ = np.array(channels, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    # Reading ------------------------------------------------------------------------------------------------------

    def _form(self) -> Form:
        params = self.get_params()
        names = ("id", "time", "values", "target", "static")
        return Form(params["layout"], **{name: params.get(name) for name in names})

    def _training_series(self, X, y, *, settle: bool = False) -> Series:
        """Series with targets. `settle` fixes what the first look at the data decides, such as a forecaster's window."""
        series = read(X, y, self._form())
        if series.target is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give one entry a sample, "
                "a Series with a target, or the name of a table's column as target="
            )
        return series

    def _new_series(self, X) -> Series:
        """What is predicted from: read and checked against what training saw."""
        check_is_fitted(self, "fitted_")
        series = replace(read(X, form=self._form(), with_target=False), target=None)
        self.fitted_.preprocessor.check(series)
        return series

    @abstractmethod
    def _check_target(self, series: Series) -> None: ...

    def _hold_out(self, series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
        return hold_out(series, share, by_id=True, seed=seed)

    def _calibration(self) -> float:
        return self.get_params().get("calibration") or 0.0

    def _calibrate(self, series: Series) -> Conformal:
        predicted = self.fitted_.predict(series)
        return Conformal.learn(np.asarray(series.target, float).reshape(predicted.shape), predicted)

    # Answering ----------------------------------------------------------------------------------------------------

    def predict(self, X) -> np.ndarray:
        """Labels, numbers, or future values (sample, step, channel), in the units of the data."""
        series = self._new_series(X)
        return self.fitted_.predict(series)

    def predict_at(self, X, times: Any = None) -> np.ndarray | list[np.ndarray]:
        """The learned path at times within each sample, for filling in what is missing: (sample, time, channel).

        `times` is shared (time,) or per sample (sample, time). Without it, the path is read at each sample's own times,
        and the answer is a list of (time, channel) arrays.
        """
        series = self._new_series(X)
        lengths = series.lengths
        if times is None:
            own = series.times[series.offsets[:-1, None] + np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)]
            found = self.fitted_.path_at(series, own)
            return [rows[:n] for rows, n in zip(found, lengths, strict=True)]
        return self.fitted_.path_at(series, _times_within(series, times))

    def path(self, X, queries: int = 200) -> dict[str, np.ndarray]:
        """X, Y and dY/dt of each sample on an even grid of times, in the units of the data; see `FittedModel.path`."""
        series = self._new_series(X)
        return self.fitted_.path(series, queries)

    def explain(self, X, *, of: Any = None, steps: int = 32) -> Explanation:
        """How much each observation moved the answer (integrated gradients), and where the learned path stands still.

        `of` picks the answer: a class, or (step, channel) of a forecast; the predicted class and the mean by default.
        """
        series = self._new_series(X)
        return explanation(self.fitted_, series, of=of, steps=steps)

    def permutation_importance(self, X, y=None, *, repeats: int = 5, random_state: Any = 0) -> dict[str, tuple[float, float]]:
        """How much the score falls when a channel's observed values are shuffled: {channel: (mean, deviation)}."""
        check_is_fitted(self, "fitted_")
        series = self._training_series(X, y)
        return attribution.permutation_importance(
            self._score, series, self.fitted_.preprocessor, repeats=repeats, seed=_seed(random_state)
        )

    def stream(self, static: Any = None) -> Stream:
        """Answers while observations arrive: `push(t, x)`, then `predict()` at any moment. Needs a causal path."""
        from leapcde.estimators.stream import open_stream

        check_is_fitted(self, "fitted_")
        return open_stream(self.fitted_, window=getattr(self, "window_", None), static=static)

    def score(self, X, y=None) -> float:
        """Accuracy of a classifier; R² of a regressor or forecaster."""
        check_is_fitted(self, "fitted_")
        return self._score(self._training_series(X, y))

    @abstractmethod
    def _score(self, series: Series) -> float: ...

    # Keeping ------------------------------------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write everything into one safetensors file, which `leapcde.load` reads on any device."""
        check_is_fitted(self, "fitted_")
        about = {"class": type(self).__name__, "params": plain(self.get_params()), "window": getattr(self, "window_", None)}
        conformal = getattr(self, "conformal_", None)
        arrays = {} if conformal is None else {"conformal": {"errors": conformal.errors}}
        self.fitted_.save(path, about={"estimator": about}, arrays=arrays)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def interval(estimator: Estimator, X, coverage: float) -> tuple[np.ndarray, np.ndarray]:
    """Conformal intervals around an estimator's predictions."""
    predicted = estimator.predict(X)
    conformal = getattr(estimator, "conformal_", None)
    if conformal is None:
        raise InputError("no data was held out for intervals: fit again with calibration=0.15, or more")
    return conformal.around(predicted, coverage)


def store(estimator: Estimator, given: dict[str, Any]) -> None:
    """A constructor's arguments as attributes, as they are: scikit-learn's `clone` asks for that."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


def plain(value: Any) -> Any:
    """Parameters as JSON can hold them; a generator of random numbers, which it cannot, is forgotten."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (str, int, float, bool)) else None


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise InputError(f"random_state: {error}") from None


def _tell_cost(trainer: Trainer, lengths: np.ndarray) -> None:
    config = trainer.config
    seconds = auto.training_seconds(trainer.model, lengths, config)
    if seconds >= auto.LONG:
        note(
            f"{trainer.name}: {len(lengths)} series of {lengths.mean():.0f} points on average, up to {config.epochs} epochs; "
            f"about {auto.told(seconds)} if it does not stop early. Fewer epochs=, or a smaller options= hidden, cost less."
        )


def _times_within(series: Series, times: Any) -> np.ndarray:
    """Query times as (sample, query), each within its sample."""
    read_times = as_series([(np.ravel(row), np.zeros(np.size(row))) for row in np.atleast_2d(np.asarray(times))])
    clock = read_times.times.reshape(len(read_times), -1)
    if len(clock) not in (1, len(series)):
        raise InputError(f"times: {len(clock)} rows for {len(series)} samples; give one row for each, or one for all")
    clock = np.broadcast_to(clock, (len(series), clock.shape[1]))
    starts, ends = series.times[series.offsets[:-1]], series.times[series.offsets[1:] - 1]
    problems = Problems()
    for i in np.flatnonzero((clock[:, 0] < starts) | (clock[:, -1] > ends)):
        problems.add(
            f"sample {i}: it lasts from {starts[i]:g} to {ends[i]:g}; the times asked from {clock[i, 0]:g} to {clock[i, -1]:g}"
        )
    problems.raise_if_any("the learned path exists within each sample only; LeapForecaster looks beyond its end")
    return clock

"""LeapForecaster: the values to come, in steps or at times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import RegressorTags

from leapcde import DEFAULT_MODEL
from leapcde.data.inputs import read
from leapcde.data.series import Series
from leapcde.data.windows import Horizon, auto_window, cut_windows, in_steps, last_window
from leapcde.errors import InputError
from leapcde.estimators.base import Estimator
from leapcde.training.config import TrainConfig


class LeapForecaster(Estimator):
    """Forecast all channels of each series. `fit(X)` takes whole sequences and cuts windows of them.

    Ready-made windows are given as X, with y of shape (sample, step, channel).

    Parameters
    ----------
    model : str, default "leap+"
        A name of `leapcde models`; "leap" is the paper's. "auto" races a few of them and the baselines on the data that
        is held out, and answers with the best or an average.
    horizon : int or sequence of float, default 10
        A number of steps (the observations that follow, for evenly sampled series), or times after the last
        observation, for uneven ones.
    window : int, optional
        How many observations a forecast looks back on; chosen from the data if None.
    stride : int, optional
        From the start of one training window to the next; half a horizon if None.
    options : dict, optional
        Options of the model; the others are chosen from the data's shape.
    interpolation : str, default "linear"
        How X goes through the observations: "linear", "natural", or causal, for streams: "hermite", "rectilinear".
    intensity : bool, default False
        Whether counts of observations are channels of X: for data in which being measured tells something.
    epochs : int, optional
        At most so many passes over the data; chosen from the number of samples if None.
    batch_size : int, optional
        Samples a step; chosen if None.
    learning_rate : float, optional
        The highest rate of the schedule; chosen if None.
    training : dict or TrainConfig, optional
        Other fields of `leapcde.TrainConfig`. A whole TrainConfig is taken as it is, and so are `options`: then nothing is
        chosen from the data but what other parameters say.
    validation : float, default 0.15
        The share of the data that is held out to choose the weights, unless `fit` is given other data for it.
    calibration : float, default 0.15
        The share of the sequences that is held out for `predict_interval`.
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    values : sequence of str, optional
        For tables: the columns that are channels; all that are nothing else if None.
    static : sequence of str, optional
        For tables: columns with one value a sample that is known beforehand, such as age.
    ensemble : int, default 1
        How many models are trained, each from a seed of its own; the answer is their average.
    time_limit : float, default 300
        Of model "auto": after so many seconds no other candidate is begun; those that would take longer are left out.
    warm_start : bool, default False
        Whether another `fit` goes on from the weights that are there.
    seed : int, default 0
        Of everything random. None draws one, a RandomState is drawn from.
    verbose : int, default 0
        1 shows progress on standard error.

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
        model: str = DEFAULT_MODEL,
        *,
        horizon: Horizon = 10,
        window: int | None = None,
        stride: int | None = None,
        options: dict[str, Any] | None = None,
        interpolation: str = "linear",
        intensity: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        training: dict[str, Any] | TrainConfig | None = None,
        validation: float = 0.15,
        calibration: float = 0.15,
        id: str | None = None,
        time: str | None = None,
        values: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        ensemble: int = 1,
        time_limit: float = 300.0,
        warm_start: bool = False,
        seed: Any = 0,
        verbose: int = 0,
    ):
        self.model = model
        self.horizon = horizon
        self.window = window
        self.stride = stride
        self.options = options
        self.interpolation = interpolation
        self.intensity = intensity
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.validation = validation
        self.calibration = calibration
        self.id = id
        self.time = time
        self.values = values
        self.static = static
        self.ensemble = ensemble
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.seed = seed
        self.verbose = verbose

    def predict_interval(self, X, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (sample, step, channel), that hold the truth with this probability."""
        return self.around(self.predict(X), coverage)

    def forecast_times(self, X) -> np.ndarray:
        """The times for which `predict` answers, (sample, step): steps are one typical gap long."""
        series = self._new_series(X)
        preprocessor = self.fitted_.preprocessor
        ahead = np.arange(1, preprocessor.spec.output[0] + 1) * preprocessor.scaler.time_unit
        if self._ahead():
            ahead = np.asarray(self._ahead())
        return series.times[series.offsets[1:] - 1, None] + ahead

    def _training_series(self, X, y, *, settle: bool = False) -> Series:
        series = read(X, y, columns=self._columns())
        given = series.target is not None
        if settle:
            self.window_ = self.window if given or self.window else auto_window(series, self.horizon)
        return series if given else cut_windows(series, self.window_, self.horizon, self.stride)

    def _ahead(self) -> tuple[float, ...]:
        listed = self.window_ is not None and not in_steps(self.horizon)
        return tuple(map(float, np.atleast_1d(self.horizon))) if listed else ()

    def _new_series(self, X) -> Series:
        return last_window(super()._new_series(X), self.window_)

    def _check_target(self, series: Series) -> None:
        shape, channels = np.asarray(series.target).shape, series.values.shape[1]
        if len(shape) != 3 or shape[2] != channels:
            raise InputError(f"y has shape {shape}; future values are (sample, step, channel), here with {channels} channels")

    def _score(self, series: Series) -> float:
        scale = self.fitted_.preprocessor.scaler.scale
        truth = scale(np.asarray(series.target))
        error = scale(self.fitted_.predict(replace(series, target=None))) - truth
        known = ~np.isnan(truth)  # of a channel that is never observed nothing is
        mean = np.where(known, truth, 0.0).sum(0) / np.maximum(known.sum(0), 1)
        return 1 - float(np.nanmean(error**2) / np.nanmean((truth - mean) ** 2))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = False
        return tags

"""LeapForecaster: the values to come, in steps or at times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import RegressorTags

from leapcde.data.forms import read
from leapcde.data.series import Series
from leapcde.data.windows import Horizon, auto_window, cut_windows, in_steps, last_window
from leapcde.errors import InputError
from leapcde.estimators.base import Estimator, interval, store


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
        batch_size: int | None = None,
        learning_rate: float | None = None,
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
        preprocessor = self.fitted_.preprocessor
        ahead = np.arange(1, preprocessor.spec.output[0] + 1) * preprocessor.scaler.time_unit
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
        scale = self.fitted_.preprocessor.scaler.scale
        truth = scale(np.asarray(series.target))
        error = scale(self.fitted_.predict(replace(series, target=None))) - truth
        return 1 - float(np.nanmean(error**2) / np.nanmean((truth - np.nanmean(truth, 0)) ** 2))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = False
        return tags

"""LeapRegressor: one number from each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import RegressorTags

from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.estimators.base import Estimator, interval, store


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
        batch_size: int | None = None,
        learning_rate: float | None = None,
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
        return float(r2_score(truth, self.fitted_.predict(replace(series, target=None))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        return tags

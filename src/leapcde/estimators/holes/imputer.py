"""LeapImputer: holes of series, filled by a learned path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin

from leapcde.data.inputs import times_within
from leapcde.data.series import Series
from leapcde.estimators.holes.asked import own_times
from leapcde.estimators.holes.base import PathEstimator
from leapcde.estimators.holes.forms import in_form_of
from leapcde.training.config import TrainConfig


class LeapImputer(TransformerMixin, PathEstimator):
    """Fill what is missing of series, each with its own times and length, with the learned path of LEAP+; no labels needed.

    Training hides observations and asks for them. At the end of `fit`, the path is asked for observations of held-out
    samples, beside straight lines, natural cubic splines, backward Hermite curves and the last value; each channel is
    filled by what was best there. What was observed is never changed.

    Parameters
    ----------
    options : dict, optional
        Options of "leap+" that concern its path: `path_width`, `beta`.
    interpolation : str, optional
        What the path corrects: "linear", "natural", "hermite" or "rectilinear"; the better of the first two if None.
    epochs : int, optional
        At most so many passes over the data; chosen from the number of samples if None.
    batch_size : int, optional
        Samples a step; chosen if None.
    learning_rate : float, optional
        The highest rate of the schedule; chosen if None.
    training : dict or TrainConfig, optional
        Other fields of `leapcde.TrainConfig`; `hide` and `hide_values` say how much is hidden. A whole TrainConfig is
        taken as it is.
    validation : float, default 0.15
        The share of the samples that is held out to choose the weights and to measure errors.
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    values : sequence of str, optional
        For tables: the columns that are channels; all that are nothing else if None.
    seed : int, default 0
        Of everything random. None draws one, a RandomState is drawn from.
    verbose : int, default 0
        1 shows progress on standard error.

    Attributes
    ----------
    errors_ : dict
        Mean squared error at hidden observations of held-out samples, in standardised units: "learned", "straight line",
        "natural cubic", "hermite", "last value", and "chosen", which is what fills.
    channel_errors_ : dict
        The same for each channel.
    chosen_ : dict
        For each channel, which of them fills it.

    >>> rng = np.random.default_rng(0)
    >>> X = np.sin(np.linspace(0, 6, 20) + rng.normal(size=(40, 1)))
    >>> X[rng.random(X.shape) < 0.3] = np.nan
    >>> imputer = LeapImputer(epochs=2, interpolation="linear").fit(X)
    >>> bool(np.isnan(imputer.transform(X)[:, :15]).any()), imputer.errors_["straight line"] < imputer.errors_["last value"]
    (False, True)
    """

    def __init__(
        self,
        *,
        options: dict[str, Any] | None = None,
        interpolation: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        training: dict[str, Any] | TrainConfig | None = None,
        validation: float = 0.15,
        id: str | None = None,
        time: str | None = None,
        values: Sequence[str] | None = None,
        seed: Any = 0,
        verbose: int = 0,
    ):
        self.options = options
        self.interpolation = interpolation
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.training = training
        self.validation = validation
        self.id = id
        self.time = time
        self.values = values
        self.seed = seed
        self.verbose = verbose

    def fit(self, X, y=None):
        """Learn the path of series in any form that estimators take; `y` is not looked at.

        Returns
        -------
        self
        """
        self._learn(self._series(X))
        return self

    def transform(self, X) -> Any:
        """The same series with what is missing filled in.

        Arrays, lists of arrays or (times, values), and tables come back in their own form, a `Series` and anything else
        as a `Series`. Rows at the end of an array's sample that are NaN in every channel are padding, and stay.
        """
        series = self._new_series(X)
        filled, _ = self._filled(series)
        return in_form_of(X, series, filled, self._columns())

    def spread(self, X) -> Any:
        """How far off each filled value may be, in the form of `transform`: about 68 % lie nearer to the truth. 0 where
        it was observed."""
        series = self._new_series(X)
        _, spread = self._filled(series)
        return in_form_of(X, series, spread, self._columns())

    def predict_at(self, X, times: Any = None, *, spread: bool = False) -> Any:
        """The path at any times within each sample: (sample, time, channel).

        Parameters
        ----------
        X
            Series in any form that estimators take.
        times : array, optional
            Shared (time,) or per sample (sample, time). Without it, the path is read at each sample's own times, and the
            answer is a list of (time, channel) arrays.
        spread : bool, default False
            Whether to return (path, spread) instead.
        """
        series = self._new_series(X)
        if times is None:
            found = [self._cut(part, series) for part in self._path(series, own_times(series))]
        else:
            found = self._path(series, times_within(series, times, 0.0))
        return tuple(found) if spread else found[0]

    def _filled(self, series: Series) -> tuple[np.ndarray, np.ndarray]:
        """Values with nothing missing, and their spread."""
        missing = np.isnan(series.values)
        if not missing.any():
            return series.values.copy(), np.zeros(series.values.shape)
        path, spread = (np.concatenate(self._cut(part, series)) for part in self._path(series, own_times(series)))
        return np.where(missing, path, series.values), np.where(missing, spread, 0.0)

    @staticmethod
    def _cut(found: np.ndarray, series: Series) -> list[np.ndarray]:
        return [rows[:n] for rows, n in zip(found, series.lengths, strict=True)]

"""LeapDetector: observations that do not fit to the others around them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError, LeapWarning
from leapcde.estimators.holes.base import PathEstimator
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel

FOLDS = 5  # each row is asked for while every fifth one is hidden


class LeapDetector(PathEstimator):
    """Find observations that lie far from the path which the *others* of their series give; no labels needed.

    The score of an observation is its distance from the learned path of LEAP+ when its row is hidden, in units of the
    path's own spread there: far in a gap is less strange than far between close neighbours. Scores of held-out samples say
    from which score on an observation does not fit (split conformal prediction). An outlier pulls the path towards itself,
    so the others are asked again without those that did not fit.

    Parameters
    ----------
    false_alarms : float, default 0.01
        The share of ordinary observations for which an alarm is accepted.
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
        Other fields of `leapcde.TrainConfig`. A whole TrainConfig is taken as it is.
    validation : float, default 0.15
        The share of the samples that is held out to choose the weights and to set the bounds.
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
    threshold_ : array
        For each channel, the score from which on an observation does not fit.
    errors_, channel_errors_, chosen_ : dict
        As of `LeapImputer`: how well the path knows what was hidden.

    >>> rng = np.random.default_rng(0)
    >>> X = np.sin(np.linspace(0, 6, 20) + rng.normal(size=(60, 1)))
    >>> detector = LeapDetector(epochs=2, validation=0.3).fit(X)
    >>> X[0, 7] += 3
    >>> int(detector.score_samples(X)[0].argmax()), bool(detector.predict(X)[0][7, 0])
    (7, True)
    """

    threshold_: np.ndarray
    first_: np.ndarray  # the same when nothing was left out yet

    def __init__(
        self,
        *,
        false_alarms: float = 0.01,
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
        self.false_alarms = false_alarms
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
        """Learn the path, and bounds, of series in any form that estimators take; `y` is not looked at.

        Returns
        -------
        self
        """
        if not 0 < self.false_alarms < 1:
            raise InputError(f"false_alarms {self.false_alarms}: give a share between 0 and 1, such as 0.01")
        held = self._learn(self._series(X))
        first = self._scores(held)
        self.first_ = bounds(first, self.false_alarms)
        self.threshold_ = bounds(self._again(held, first), self.false_alarms)
        if np.isinf(self.threshold_).any():
            count = int((~np.isnan(first)).sum())
            message = f"{count} held-out observations are too few for so rare false alarms ({self.false_alarms:g}): "
            warnings.warn(message + "there will be no alarm; hold out more, or allow more of them", LeapWarning, stacklevel=2)
        return self

    def score_samples(self, X) -> list[np.ndarray]:
        """How far each observation lies from the path of the others, in spreads: a (row, channel) array for each sample.

        The higher, the stranger; NaN where nothing was observed.
        """
        series = self._new_series(X)
        return _each(self._again(series, self._scores(series)), series)

    def predict(self, X) -> list[np.ndarray]:
        """Whether each observation does not fit: a (row, channel) array of booleans for each sample."""
        return [scores > self.threshold_ for scores in self.score_samples(X)]

    def _again(self, series: Series, scores: np.ndarray) -> np.ndarray:
        """The scores when what did not fit was left out, so that nobody is judged by it."""
        strange = scores > self.first_
        return self._scores(series, strange) if strange.any() else scores

    def _scores(self, series: Series, without: np.ndarray | None = None) -> np.ndarray:
        """(row, channel): distance from the path in spreads, when every fifth row is hidden, and what is left out."""
        values = series.values if without is None else np.where(without, np.nan, series.values)
        found = np.full(values.shape, np.nan)
        position = np.arange(len(values)) - series.offsets[series.owner]
        for fold in range(min(FOLDS, int(series.lengths.max()))):
            mine = position % FOLDS == fold
            seen = replace(series, values=np.where(mine[:, None], np.nan, values))
            steps = fold + FOLDS * np.arange(-(-(int(series.lengths.max()) - fold) // FOLDS))
            inside = steps < series.lengths[:, None]
            rows = series.offsets[:-1, None] + np.minimum(steps, series.lengths[:, None] - 1)
            Y, spread = self._path(seen, series.times[rows])
            found[rows[inside]] = np.abs(series.values[rows] - Y)[inside] / spread[inside]
        return found

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "threshold": self.threshold_, "first": self.first_}

    def restore(self, fitted: FittedModel, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
        super().restore(fitted, arrays, about)
        self.threshold_, self.first_ = (arrays[f"path/['{name}']"] for name in ("threshold", "first"))


def bounds(scores: np.ndarray, rate: float) -> np.ndarray:
    """For each channel, the score that a share `rate` of ordinary observations exceeds: the ⌈(n + 1)(1 − rate)⌉-th of n.

    A channel with too few observations for a bound of its own has that of all together.

    >>> bounds(np.arange(1.0, 20.0)[:, None], 0.1).tolist()
    [18.0]
    """
    everybody = _bound(scores.ravel(), rate)
    own = [_bound(scores[:, c], rate) for c in range(scores.shape[1])]
    return np.array([everybody if np.isinf(one) else one for one in own])


def _bound(scores: np.ndarray, rate: float) -> float:
    scores = np.sort(scores[~np.isnan(scores)])
    rank = int(np.ceil((len(scores) + 1) * (1 - rate) - 1e-9))
    return float(scores[rank - 1]) if 0 < rank <= len(scores) else np.inf


def _each(rows: np.ndarray, series: Series) -> list[np.ndarray]:
    return [rows[a:b] for a, b in zip(series.offsets, series.offsets[1:], strict=False)]

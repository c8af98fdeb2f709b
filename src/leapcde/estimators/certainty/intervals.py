"""Prediction intervals by split conformal prediction: how far off were predictions on data that training never saw?

If new samples come from where the held-out ones came from, an interval of 90 % covers at least 90 % of the truths on
average, whatever the model. Windows of one sequence resemble each other, which makes the figure rougher, not biased.

Time does not stand still, though: noise grows and shrinks. So errors of forecasts are compared with how rough the window
is that they come from, where that does no harm, and an interval is as wide as the window of its forecast asks for
(decision 18).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.training.preprocess import Preprocessor

HARM = 1.25  # times as much spread of log errors is too much to pay for windows' roughness
RANGE = (0.1, 10.0)  # of the usual roughness: beyond it, nothing was learned


@dataclass(frozen=True, eq=False)
class Conformal:
    """Absolute errors on held-out data, sorted along the samples; NaN (truth unknown) last.

    >>> Conformal.learn(np.arange(9.0), np.zeros(9)).margin(0.8)
    array(7.)
    """

    errors: np.ndarray  # (samples, ...), those of forecasts against how rough their windows are
    usual: np.ndarray | None = None  # (channels,), the usual roughness; NaN where windows say nothing about errors

    @classmethod
    def learn(cls, truth: np.ndarray, predicted: np.ndarray, rough: np.ndarray | None = None) -> Conformal:
        """`rough` is that of each forecast's window, (sample, channel); none for anything else."""
        errors = np.abs(np.asarray(truth, float) - predicted)
        usual = None if rough is None else _usual(errors, rough)
        return cls(np.sort(errors / _times_usual(rough, usual), axis=0), usual)

    def margin(self, coverage: float) -> np.ndarray:
        """Half the width of the interval, for every output: the ⌈(n + 1) coverage⌉-th smallest error of n."""
        if not isinstance(coverage, (int, float, np.number)) or not 0 < coverage < 1:
            raise InputError(f"coverage {coverage}: give a share between 0 and 1, such as 0.9")
        count = (~np.isnan(self.errors)).sum(0)
        rank = np.ceil((count + 1) * coverage - 1e-9).astype(int)
        found = np.take_along_axis(self.errors, np.clip(rank - 1, 0, len(self.errors) - 1)[None], 0)[0]
        return np.where(rank <= count, found, np.inf)

    def around(self, predicted: np.ndarray, coverage: float, rough: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends; infinite where too little was held out for so high a coverage."""
        margin = self.margin(coverage) * _times_usual(rough, self.usual)
        return predicted - margin, predicted + margin

    def checked(self, preprocessor: Preprocessor) -> Conformal:
        """Itself, if it fits what a model with this preprocessor answers; what no data could have taught is an error."""
        said = preprocessor.decode(np.zeros((1, *preprocessor.spec.output), np.float32))
        channels = (len(preprocessor.channels),), (len(preprocessor.forecast),)
        if self.errors.shape[1:] != said.shape[1:] or (self.usual is not None and self.usual.shape not in channels):
            raise InputError(f"errors of shape {self.errors.shape[1:]} for answers of shape {said.shape[1:]}")
        if (self.errors < 0).any() or (np.diff(self.errors, axis=0) < 0).any():
            raise InputError("errors on held-out data that are negative or not in order")
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """As a file holds them."""
        return {"errors": self.errors} | ({} if self.usual is None else {"usual": self.usual})


def roughness(series: Series) -> np.ndarray:
    """How far each channel of a sample lies from the line between its neighbours, on average: (sample, channel).

    NaN where there are not three observations.

    >>> from leapcde.data.read import as_series
    >>> roughness(as_series([[0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 2.0]])).ravel().tolist()
    [1.0, 0.0, nan]
    """
    found = np.full((len(series), series.values.shape[1]), np.nan)
    owner = series.owner
    for c in range(found.shape[1]):
        rows = np.flatnonzero(~np.isnan(series.values[:, c]))
        t, x, of = series.times[rows], series.values[rows, c].astype(float), owner[rows]
        together = of[2:] == of[:-2]
        share = (t[1:-1] - t[:-2]) / np.where(together, t[2:] - t[:-2], 1.0)
        away = np.abs(x[1:-1] - (x[:-2] + share * (x[2:] - x[:-2])))[together]
        count = np.bincount(of[2:][together], minlength=len(series))
        total = np.bincount(of[2:][together], weights=away, minlength=len(series))
        found[:, c] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def _usual(errors: np.ndarray, rough: np.ndarray) -> np.ndarray:
    """The median roughness of each channel, NaN where errors of rough windows are not larger: then it is better not asked."""
    usual = np.full(rough.shape[1], np.nan)
    for c in range(rough.shape[1]):
        there = (rough[:, c] > 0) & ~np.isnan(errors[:, :, c]).all(1)
        if there.sum() < 10:
            continue
        size = np.log(np.maximum(np.nanmean(errors[there, :, c], axis=1), 1e-300))
        if np.var(size - np.log(rough[there, c])) <= HARM * np.var(size):
            usual[c] = np.median(rough[there, c])
    return usual


def _times_usual(rough: np.ndarray | None, usual: np.ndarray | None) -> Any:
    """How many times as rough as usual each window is, (sample, 1, channel); 1 where that is not asked or not known."""
    if rough is None or usual is None:
        return 1.0
    return np.clip(np.nan_to_num(rough / usual, nan=1.0), *RANGE)[:, None]

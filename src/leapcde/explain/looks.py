"""What an estimator can be asked about the samples it sees: their learned path, values in their holes, what counted."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from leapcde.data.inputs import times_within
from leapcde.data.series import Series
from leapcde.errors import LeapWarning
from leapcde.explain.explanation import Explanation, explanation
from leapcde.explain.filling import Errors, choose_paths, fill, in_words, path_errors
from leapcde.explain.summary import summary
from leapcde.training.fitted import Fitted


class LooksInside(ABC):
    """The part of the estimators that looks into a fitted model."""

    _task: str  # of a classifier, `fit` sees in the targets which it is
    fitted_: Fitted

    @property
    def task(self) -> str:
        """What is asked for: classification, labels, regression, survival or forecasting."""
        return self._task

    @abstractmethod
    def _new_series(self, X) -> Series:
        """Data read and checked against what training saw."""

    @abstractmethod
    def _learned(self) -> dict[str, Any]:
        """Fitted attributes that JSON can hold."""

    def predict_at(self, X, times: Any = None) -> np.ndarray | list[np.ndarray]:
        """Values at times within each sample, for filling in what is missing: (sample, time, channel).

        They are those of the learned path, but for channels of which a straight line or the last value was nearer to
        observations that were hidden in the validation data: these have that (`path_error_` has the numbers).
        A forecaster whose path goes on ("leap+") answers for times beyond the end too, up to its horizon.
        `times` is shared (time,) or per sample (sample, time). Without it, each sample is read at its own times,
        and the answer is a list of (time, channel) arrays.
        """
        series = self._new_series(X)
        lengths, errors = series.lengths, self.path_error_
        self._tell_simple(choose_paths(errors))
        if times is None:
            own = series.times[series.offsets[:-1, None] + np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)]
            found = fill(self.fitted_, series, own, errors)
            return [rows[:n] for rows, n in zip(found, lengths, strict=True)]
        return fill(self.fitted_, series, times_within(series, times, self.fitted_.reach), errors)

    @property
    def path_error_(self) -> Errors | None:
        """How far paths were from hidden observations of the validation data: {channel: {"learned": …, "last value": …, …}}.

        In the units of the data. None if the model learns no path, or nothing was held out. Computed when first asked for.
        """
        check_is_fitted(self, "fitted_")
        held = vars(self).pop("_held", None)
        if held is not None and self.fitted_.has_path:
            self._path_error = path_errors(self.fitted_, held)
        return getattr(self, "_path_error", None)

    def _tell_simple(self, chosen: dict[str, str]) -> None:
        if chosen and not getattr(self, "_told", False):
            self._told = True
            some = ", ".join(f"{channel} ({name})" for channel, name in list(chosen.items())[:5])
            rest = f" and {len(chosen) - 5} more" if len(chosen) > 5 else ""
            message = (
                f"the learned path was no better at hidden observations than a simple one, which is used instead: {some}{rest}"
            )
            warnings.warn(message, LeapWarning, stacklevel=3)

    def path(self, X, queries: int = 200) -> dict[str, np.ndarray]:
        """X, Y and dY/dt of each sample on an even grid of times, in the units of the data; see `FittedModel.path`."""
        series = self._new_series(X)
        return self.fitted_.path(series, queries)

    def explain(self, X, *, of: Any = None, steps: int = 32) -> Explanation:
        """How much each observation moved the answer (integrated gradients), and where the learned path stands still.

        `of` picks the answer: a class, one of several targets, or (step, channel) of a forecast; by default the predicted
        class, or the mean.
        """
        series = self._new_series(X)
        return explanation(self.fitted_, series, of=of, steps=steps)

    def summary(self) -> str:
        """What was learned, in a few lines: the model, the data, how training went, validation metrics, calibration."""
        check_is_fitted(self, "fitted_")
        learned = self._learned()
        known = {name: learned[name] for name in ("sizes", "history", "stopped") if name in learned}
        return summary(f"{type(self).__name__}, {self.task}", self.fitted_, **known, more=self._more())

    def _more(self) -> dict[str, str]:
        """Further lines of the summary."""
        conformal, holes = getattr(self, "conformal_", None), in_words(self.path_error_)
        found = {} if conformal is None else {"intervals": f"from errors on {len(conformal.errors)} samples"}
        return {**found, "holes": holes} if holes else found

    def __getstate__(self):
        """No data goes into a pickle: what is made of it is made first."""
        if hasattr(self, "fitted_"):
            _ = self.path_error_
        return super().__getstate__()

"""LeapForecaster: the values to come, in steps or at times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import RegressorTags
from sklearn.utils.validation import check_is_fitted

from leapcde import DEFAULT_MODEL
from leapcde.data.columns import Columns, as_trained
from leapcde.data.inputs import sequences
from leapcde.data.series import Series, counting
from leapcde.data.split import Divided, hold_out, hold_out_groups, split_in_time
from leapcde.data.windows import (
    Horizon,
    auto_window,
    check_counts,
    cut_windows,
    focused,
    in_steps,
    known_ahead,
    last_window,
    roles,
    training_windows,
)
from leapcde.errors import InputError, choose
from leapcde.estimators.base import Estimator
from leapcde.estimators.certainty.intervals import roughness
from leapcde.training.config import TrainConfig
from leapcde.training.preprocess import Preprocessor


class LeapForecaster(Estimator):
    """Forecast channels of each series. `fit(X)` takes whole sequences, or a single long one, and cuts windows of them.

    A single series is a table without an id, a pair (times, values), or an array (time, channel) or (time,).
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
        Rows from the start of one window to the start of the next. If None, windows start at random rows that are others
        in every epoch, and at all rows (or 2,000 that are spread over them) where models are judged.
    split : "time" or "sequence", optional
        How data is held out for `validation` and `calibration`: the latest rows of all sequences, or whole sequences.
        By time if None and if sequences are long enough for it.
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
    patience : int, optional
        Stop after so many epochs without a lower validation loss; chosen from the number of epochs if None.
    training : dict or TrainConfig, optional
        Other fields of `leapcde.TrainConfig`. A whole TrainConfig is taken as it is, and so are `options`: then nothing is
        chosen from the data but what other parameters say.
    validation : float, default 0.15
        The share of the data that is held out to choose the weights, unless `fit` is given other data for it.
    calibration : float, default 0.15
        The share of the data, the latest, that is held out for `predict_interval`.
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    target : sequence of str, optional
        The channels that are forecast; all (but those that are `known`) if None. All channels are looked at.
    known : sequence of str, optional
        Channels whose future is known, such as holidays. Their values go on beyond the last of the others, for all of
        the horizon, when they are predicted from.
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

    _task = "forecasting"
    horizon: Horizon
    window: int | None
    stride: int | None
    split: str | None
    target: Sequence[str] | str | None
    known: Sequence[str] | str | None
    window_: int | None
    split_: str | None  # how data was held out, once trained on sequences

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        horizon: Horizon = 10,
        window: int | None = None,
        stride: int | None = None,
        split: str | None = None,
        options: dict[str, Any] | None = None,
        interpolation: str = "linear",
        intensity: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        training: dict[str, Any] | TrainConfig | None = None,
        validation: float = 0.15,
        calibration: float = 0.15,
        id: str | None = None,
        time: str | None = None,
        target: Sequence[str] | str | None = None,
        known: Sequence[str] | str | None = None,
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
        self.split = split
        self.options = options
        self.interpolation = interpolation
        self.intensity = intensity
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.training = training
        self.validation = validation
        self.calibration = calibration
        self.id = id
        self.time = time
        self.target = target
        self.known = known
        self.values = values
        self.static = static
        self.ensemble = ensemble
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.seed = seed
        self.verbose = verbose

    def predict_interval(self, X, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, each (sample, step, channel), that hold the truth with this probability."""
        series = self._new_series(X)
        return self.around(self.fitted_.predict(series), coverage, series)

    def forecast_times(self, X) -> np.ndarray:
        """The times for which `predict` answers, (sample, step): steps are one typical gap long."""
        series = self._new_series(X)
        preprocessor = self.fitted_.preprocessor
        ahead = np.arange(1, preprocessor.spec.output[0] + 1) * preprocessor.scaler.time_unit
        if self._ahead():
            ahead = np.asarray(self._ahead())
        return series.times[series.offsets[1:] - 1, None] + ahead

    def _training_series(self, X, y, *, settle: bool = False, **more) -> Series:
        series = self._read(X, y, settle=settle, **more)
        given = series.target is not None
        if settle:
            self.window_ = self.window if given or self.window else auto_window(series, self.horizon)
        return self._ready(series) if given else self._cut(series)

    def _cut(self, series: Series) -> Series:
        """Windows that judge."""
        return focused(cut_windows(series, self.window_, self.horizon, self.stride), *self._roles(series.channels))

    def _ready(self, series: Series) -> Series:
        """Windows that came with what follows them: of all channels, or of those that are to be forecast."""
        targets, known = self._roles(series.channels)
        if known and series.static is None:
            raise InputError("known= is for whole sequences, of which windows are cut: give them without y")
        y, channels = np.asarray(series.target), series.values.shape[1]
        if targets and y.ndim == 3 and y.shape[2] == len(targets) != channels:
            whole = np.full((*y.shape[:2], channels), np.nan)
            whole[:, :, list(targets)] = y
            series = replace(series, target=whole)
        self._check_target(series)
        return focused(series, targets)

    def _roles(self, channels: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        listed = lambda names: [names] if isinstance(names, str) else list(names or ())
        for given in (self.target, self.known):
            if given is not None and not isinstance(given, Iterable):
                raise InputError(f"target= and known= are names of channels, not {given!r}")
        return roles(channels, listed(self.target), listed(self.known))

    def _columns(self) -> Columns:
        return Columns(self.id, self.time, None, tuple(self.values or ()), tuple(self.static or ()))  # its targets are channels

    def _own(self, preprocessor: Preprocessor) -> Preprocessor:
        return replace(preprocessor, targets=self._roles(preprocessor.channels)[0])

    def _read(self, X, y=None, **more) -> Series:
        rows = self.horizon if in_steps(self.horizon) else 0
        X = sequences(X, shortest=int(np.max(rows)) + 2) if y is None else X
        found = super()._read(X, y, **more)
        if found.target is not None and found.per_row:
            raise InputError(
                "targets per row are for LeapClassifier and LeapRegressor; forecasts are of channels: give no target"
            )
        return found

    def _divided(self, X, y, validation: Any, *, sample_weight: Any = None, groups: Any = None) -> Divided:
        series = counting(self._read(X, y, settle=True, sample_weight=sample_weight, groups=groups))
        self.split_ = None
        if series.target is not None:
            return super()._divided(series, None, validation, groups=None if groups is None else series.ids)
        whole, held, calibration = as_trained(*self._held_out(series, validation is None, groups is not None))
        assert self.window_ is not None
        targets, known = self._roles(series.channels)
        windows, fresh = training_windows(whole, self.window_, self.horizon, self.stride)
        fresh = None if fresh is None else replace(fresh, targets=targets, known=known)
        cut = lambda part: None if part is None else self._cut(part)
        held = cut(held) if validation is None else self._given(validation, whole.categories)
        return Divided(focused(windows, targets, known), held, cut(calibration), fresh)

    def _held_out(self, series: Series, choose_too: bool, grouped: bool) -> tuple[Series, Series | None, Series | None]:
        """Sequences for training, for the choice of weights and for intervals; settles the window."""
        choose("split", self.split or "time", ("time", "sequence"))
        check_counts(window=self.window, stride=self.stride)
        later = (self.validation if choose_too else 0.0, self._calibration())
        if not any(later) or self.split == "sequence" or grouped:
            return self._whole_sequences(series, later, hold_out_groups if grouped else partial(hold_out, by_id=True))
        found = split_in_time(series, self.horizon, window=self.window, shares=(1 - sum(later), *later))
        if found.missing and self.split is None:
            return self._whole_sequences(series, later, partial(hold_out, by_id=True))
        if found.missing:
            raise InputError(f"the sequences cannot be split by time, {found.missing}; shorten horizon= or window=")
        self.window_, self.split_ = found.window, "time"
        train, held, calibration = found.parts
        assert train is not None
        return train, held, calibration

    def _whole_sequences(self, series: Series, later: tuple[float, float], part) -> tuple[Series, Series | None, Series | None]:
        self.window_, self.split_ = self.window or auto_window(series, self.horizon), "sequence"
        rest, calibration = part(series, later[1], seed=1)
        train, held = part(rest, later[0], seed=0)
        return train, held, calibration

    def _ahead(self) -> tuple[float, ...]:
        listed = self.window_ is not None and not in_steps(self.horizon)
        return tuple(map(float, np.atleast_1d(self.horizon))) if listed else ()

    def _new_series(self, X) -> Series:
        check_is_fitted(self, "fitted_")
        if self.window_ is not None:  # it was trained on whole sequences
            X = sequences(X, channels=self.n_features_in_)
        series = replace(super()._read(X, with_target=False), target=None)
        preprocessor = self.fitted_.preprocessor
        _, known = self._roles(preprocessor.channels)
        # Windows that were cut already have what is known ahead among their statics.
        if known and (0 if series.static is None else series.static.shape[1]) < preprocessor.spec.static:
            series = known_ahead(series, self.horizon, known)
        preprocessor.check(series)
        return last_window(series, self.window_)

    def _rough(self, series: Series) -> np.ndarray | None:
        return self.fitted_.preprocessor.asked(roughness(series)[:, None])[:, 0]

    def _check_target(self, series: Series) -> None:
        shape, channels = np.asarray(series.target).shape, series.values.shape[1]
        if len(shape) != 3 or shape[2] != channels:
            raise InputError(f"y has shape {shape}; future values are (sample, step, channel), here with {channels} channels")

    def _score(self, series: Series) -> float:
        preprocessor = self.fitted_.preprocessor
        truth = preprocessor.asked(preprocessor.scaler.scale(np.asarray(series.target)))
        error = preprocessor.asked(self.fitted_.raw(replace(series, target=None))) - truth
        known = ~np.isnan(truth)  # of a channel that is never observed nothing is
        each = known * (np.ones(1) if series.weights is None else series.weights)[:, None, None]
        mean = np.where(known, each * truth, 0.0).sum(0) / np.where(known.any(0), each.sum(0), 1)
        return 1 - float(np.nansum(each * error**2) / np.nansum(each * (truth - mean) ** 2))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = False
        return tags

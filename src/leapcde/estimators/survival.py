"""LeapSurvival: when an event will come after each series, learned also from those of whom that is not known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from leapcde import DEFAULT_MODEL
from leapcde.baselines.fitted import Baseline
from leapcde.data.columns import Columns
from leapcde.data.inputs import check_event_times, event_times
from leapcde.data.series import Series
from leapcde.data.split import hold_out
from leapcde.errors import InputError, LeapWarning
from leapcde.estimators.base import Estimator
from leapcde.estimators.certainty.calibrate import calibrated_hazards
from leapcde.training.config import TrainConfig
from leapcde.training.events.bins import Bins
from leapcde.training.events.metrics import concordance
from leapcde.training.fitted import Fitted
from leapcde.training.loop import Trained

MOSTLY = 0.9  # of samples whose duration is how long they last, from which a mistake is likely


class LeapSurvival(Estimator):
    """Predict when an event comes after each series, each with its own times, length and holes.

    Time to the event counts from each sample's last row: a series is what is known when the question is asked. Of samples
    without an event it is known until when there was none (they are censored), and that is learned from too. `y` is a
    structured array (event, time) as scikit-survival has it, or rows of (event, time), event being 0 or 1.

    The model says how many times the hazard of each bin of time is that of the training data; bins hold about equally
    many events, ten or more, and are at most twenty. On the data that is held out these ratios are calibrated.

    Parameters
    ----------
    model : str, default "leap+"
        A name of `leapcde models`; "leap" is the paper's. "auto" races a few of them and the baselines on the data that
        is held out, and answers with the best or an average.
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
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    target : (str, str), optional
        For tables: the column that says whether the event was seen, 0 or 1, and the one with the duration: from each
        sample's last row to the event, or to when it was last known that there was none. One value a sample each.
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

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5, 1)).cumsum(1)
    >>> time = rng.exponential(np.exp(-X[:, -1, 0]))
    >>> survival = LeapSurvival("gru", options={"hidden": 4}, epochs=2).fit(X, np.stack([time < 2, np.minimum(time, 2)], 1))
    >>> survival.predict(X[:3]).shape, survival.predict_survival_function(X[:3], [0.5, 1.0]).shape
    ((3,), (3, 2))
    """

    _task = "survival"
    target: Sequence[str] | None
    times_: np.ndarray  # where bins of time end

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        options: dict[str, Any] | None = None,
        interpolation: str = "linear",
        intensity: bool = False,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int | None = None,
        training: dict[str, Any] | TrainConfig | None = None,
        validation: float = 0.15,
        id: str | None = None,
        time: str | None = None,
        target: Sequence[str] | None = None,
        values: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        ensemble: int = 1,
        time_limit: float = 300.0,
        warm_start: bool = False,
        seed: Any = 0,
        verbose: int = 0,
    ):
        self.model = model
        self.options = options
        self.interpolation = interpolation
        self.intensity = intensity
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.training = training
        self.validation = validation
        self.id = id
        self.time = time
        self.target = target
        self.values = values
        self.static = static
        self.ensemble = ensemble
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.seed = seed
        self.verbose = verbose

    def predict(self, X) -> np.ndarray:
        """The risk of each sample: higher where the event comes sooner. 0 is that of the training data on average.

        It is the logarithm of how many times the hazard is that of the training data, averaged over the bins of time.
        """
        return super().predict(X)

    def predict_survival_function(self, X, times: Any = None) -> np.ndarray:
        """How probable it is that the event has not come so long after each sample's last row: (sample, time).

        `times` is (time,), by default `times_`, where the bins end. Beyond the last event of the training data the hazard
        goes on as it was; that is a guess, and a warning.
        """
        series = self._new_series(X)
        asked = self._times(times)
        return self._bins.survival(self.fitted_.raw(series), asked)

    def predict_quantile(self, X, share: float = 0.5) -> np.ndarray:
        """The time by which this share of samples like each has had the event; the median by default: (sample,).

        Infinity where that is later than the last event of the training data.
        """
        if not 0 < share < 1:
            raise InputError(f"share {share}: give a number between 0 and 1, such as 0.5 for the median")
        series = self._new_series(X)
        return self._bins.quantile(self.fitted_.raw(series), share)

    @property
    def _bins(self) -> Bins:
        assert self.fitted_.preprocessor.bins is not None
        return self.fitted_.preprocessor.bins

    def _times(self, times: Any) -> np.ndarray:
        if times is None:
            return self.times_
        try:
            asked = np.atleast_1d(np.asarray(times, float))
        except (TypeError, ValueError):
            raise InputError(f"times: {times!r} are no numbers; give times after a sample's last row, 0 or more") from None
        if asked.ndim != 1 or not (asked >= 0).all():
            raise InputError("times: give a list of times after a sample's last row, 0 or more")
        if asked.size and asked.max() > self.times_[-1]:
            message = f"times up to {asked.max():g}: training saw no event after {self.times_[-1]:g}; beyond it is a guess"
            warnings.warn(message, LeapWarning, stacklevel=3)
        return asked

    def _columns(self) -> Columns:
        if self.target is not None and (isinstance(self.target, str) or len(self.target) != 2):
            raise InputError(f"target={self.target!r}: name two columns, the event (0 or 1) and the duration")
        return super()._columns()

    def _training_series(self, X, y, *, settle: bool = False, **more) -> Series:
        series = super()._training_series(X, None if y is None else event_times(y), settle=settle, **more)
        check_event_times(series)
        return series

    def _check_target(self, series: Series) -> None:
        """A series that goes on until the event gives it away: a mistake that makes every number look wonderful."""
        time = np.asarray(series.target, float)[:, 1]
        lasts = series.times[series.offsets[1:] - 1] - series.times[series.offsets[:-1]]
        if np.mean(np.isclose(lasts, time) & (time > 0)) > MOSTLY:
            message = (
                "durations are how long the samples last; they are to count from each sample's last row. Cut the samples "
                "where the question is to be asked, and take what was cut off their durations"
            )
            warnings.warn(message, LeapWarning, stacklevel=5)

    def _hold_out(self, series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
        if series.ids is not None and len(np.unique(series.ids)) < len(series):
            return super()._hold_out(series, share, seed)
        return hold_out(series, share, labels=np.asarray(series.target)[:, 0], seed=seed)

    def _settle(self, config: TrainConfig | None, held: Series | None, said: np.ndarray | None = None) -> np.ndarray | None:
        """Calibrate on what was held out: see `estimators/certainty/calibrate.py`."""
        self.fitted_ = calibrated_hazards(self.fitted_, held, members=config is None)
        return None

    def _calibrated(self, baseline: Baseline, series: Series, held: Series) -> tuple[Fitted, np.ndarray | None]:
        return calibrated_hazards(baseline, held), None

    def _keep(self, fitted: Fitted, trained: Trained | None = None) -> None:
        super()._keep(fitted, trained)
        self.times_ = np.array(self._bins.edges)

    def _score(self, series: Series) -> float:
        target = np.asarray(series.target, float)
        return concordance(target[:, 0] > 0, target[:, 1], self.fitted_.predict(series), series.weights)

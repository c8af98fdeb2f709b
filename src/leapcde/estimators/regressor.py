"""LeapRegressor: a number, or several, from each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import RegressorTags

from leapcde import DEFAULT_MODEL
from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.estimators.base import Estimator
from leapcde.estimators.rows import known_pairs, known_part, not_of_rows
from leapcde.training.config import TrainConfig


class LeapRegressor(Estimator):
    """Predict a number from each series, each with its own times, length and holes; or several, with y (sample, number).

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
    calibration : float, default 0
        The share of the data that is held out for `predict_interval`.
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    target : str or sequence of str, optional
        For tables: the column that is predicted, one value a sample; or several.
    target_per : "sample" or "row", default "sample"
        "row" if every row has a target of its own: `y` is then a list of arrays with one value a row, NaN where there is none,
        and so are answers. Nothing looks ahead; "leap+" and the recurrent models can do it.
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
    >>> X = [(np.arange(n), rng.normal(size=(n, 2)) + n) for n in range(4, 24)]
    >>> regressor = LeapRegressor("gru", options={"hidden": 4}, epochs=2).fit(X, [len(t) for t, _ in X])
    >>> regressor.predict(X[:3]).shape
    (3,)
    """

    _task = "regression"

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
        calibration: float = 0.0,
        id: str | None = None,
        time: str | None = None,
        target: str | Sequence[str] | None = None,
        target_per: str = "sample",
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
        self.calibration = calibration
        self.id = id
        self.time = time
        self.target = target
        self.target_per = target_per
        self.values = values
        self.static = static
        self.ensemble = ensemble
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.seed = seed
        self.verbose = verbose

    def predict_interval(self, X, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends that hold the truth with this probability; needs `calibration` above 0."""
        not_of_rows(self._per, "predict_interval", "leave it out")
        series = self._new_series(X)
        return self.around(self.fitted_.predict(series), coverage, series)

    def _check_target(self, series: Series) -> None:
        target = known_part(series)
        if self.calibration:
            not_of_rows(self._per, f"calibration={self.calibration}", "leave it out")
        if target.ndim not in (1, 2):
            raise InputError(f"y has shape {target.shape}; LeapRegressor predicts numbers: give (sample,), or (sample, number)")
        if target.dtype.kind == "f" and not np.isfinite(target).all():
            wrong = int(np.argmin(np.isfinite(target).reshape(len(target), -1).all(1)))
            raise InputError(f"y: the target of sample {wrong} is not finite; every sample needs one")

    def _score(self, series: Series) -> float:
        from sklearn.metrics import r2_score

        truth, said, each = known_pairs(self.fitted_.predict(replace(series, target=None)), series)
        return float(r2_score(truth.astype(float), said, sample_weight=each))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.multi_output = True
        return tags

"""LeapClassifier: a class for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import type_of_target

from leapcde import DEFAULT_MODEL
from leapcde.data.series import Series
from leapcde.data.split import hold_out
from leapcde.errors import InputError, Problems
from leapcde.estimators.base import Estimator
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel
from leapcde.training.loop import Trained
from leapcde.training.preprocess import Preprocessor


class LeapClassifier(Estimator):
    """Classify series, each with its own times, length and holes.

    Parameters
    ----------
    model : str, default "leap+"
        A name of `leapcde models`; "leap" is the paper's, and can be streamed.
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
    class_weight : "balanced", None, dict or float, default "balanced"
        How much classes count in the loss: by how rare they are, all the same, {class: weight}, or, of two classes, the
        weight of the second.
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    target : str, optional
        For tables: the column that is predicted, one value a sample.
    values : sequence of str, optional
        For tables: the columns that are channels; all that are nothing else if None.
    static : sequence of str, optional
        For tables: columns with one value a sample that is known beforehand, such as age.
    warm_start : bool, default False
        Whether another `fit` goes on from the weights that are there.
    seed : int, default 0
        Of everything random. None draws one, a RandomState is drawn from.
    verbose : int, default 0
        1 shows progress on standard error.

    >>> rng = np.random.default_rng(0)
    >>> X = [(np.sort(rng.random(n)), rng.normal(size=(n, 2)) + n % 2) for n in range(4, 24)]
    >>> y = ["odd" if len(t) % 2 else "even" for t, _ in X]
    >>> classifier = LeapClassifier("gru", options={"hidden": 4}, epochs=2).fit(X, y)
    >>> classifier.predict_proba(X[:3]).shape, classifier.classes_.tolist()
    ((3, 2), ['even', 'odd'])
    """

    task = "classification"
    class_weight: str | dict[Any, float] | float | None

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
        training: dict[str, Any] | TrainConfig | None = None,
        validation: float = 0.15,
        class_weight: str | dict[Any, float] | float | None = "balanced",
        id: str | None = None,
        time: str | None = None,
        target: str | None = None,
        values: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
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
        self.training = training
        self.validation = validation
        self.class_weight = class_weight
        self.id = id
        self.time = time
        self.target = target
        self.values = values
        self.static = static
        self.warm_start = warm_start
        self.seed = seed
        self.verbose = verbose

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities, columns in the order of `classes_`. With class weights they are those of a reweighed population."""
        series = self._new_series(X)
        return self.fitted_.predict_proba(series)

    def decision_function(self, X) -> np.ndarray:
        """Class scores before the softmax; for two classes, the second's lead over the first."""
        series = self._new_series(X)
        raw = self.fitted_.raw(series)
        return raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

    def _check_target(self, series: Series) -> None:
        kind = type_of_target(series.target)
        if kind not in ("binary", "multiclass"):
            raise InputError(f"Unknown label type: {kind}. Classes are text or whole numbers; use LeapRegressor for numbers")

    def _hold_out(self, series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
        return hold_out(series, share, labels=np.asarray(series.target), seed=seed)

    def _weighted(self, config: TrainConfig, preprocessor: Preprocessor, series: Series) -> TrainConfig:
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            # Counted here and not in training, because a part of the data need not show every class.
            counts = np.bincount(preprocessor.encode_target(np.asarray(series.target)), minlength=len(preprocessor.classes))
            weights = counts.sum() / ((counts > 0).sum() * np.maximum(counts, 1))
            return replace(config, class_weight=tuple(np.where(counts, weights, 1.0)))
        return replace(config, class_weight=_class_weight(self.class_weight, preprocessor.classes))

    def _keep(self, fitted: FittedModel, trained: Trained | None = None) -> None:
        super()._keep(fitted, trained)
        self.classes_ = np.array(fitted.preprocessor.classes)

    def _score(self, series: Series) -> float:
        return float(accuracy_score(np.asarray(series.target), self.fitted_.predict(replace(series, target=None))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags


def _class_weight(weight: Any, classes: tuple[Any, ...]) -> Any:
    """What `TrainConfig` takes: "balanced", None, or a weight for each class in its order."""
    if isinstance(weight, (int, float)):
        if len(classes) != 2:
            raise InputError(f"class_weight {weight} is for two classes, here are {len(classes)}; give {{class: weight}}")
        return (1.0, float(weight))
    if not isinstance(weight, dict):
        return weight
    problems = Problems()
    for label in set(weight) - set(classes):
        problems.add(f"no class {label!r}; there are: {', '.join(map(str, classes))}")
    problems.raise_if_any("class_weight cannot be used")
    return tuple(float(weight.get(label, 1.0)) for label in classes)

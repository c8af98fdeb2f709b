"""LeapClassifier: a class for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import type_of_target

from leapcde.data.series import Series
from leapcde.data.split import hold_out
from leapcde.errors import InputError, Problems
from leapcde.estimators.base import Estimator, store
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel
from leapcde.training.loop import Trained
from leapcde.training.preprocess import Preprocessor


class LeapClassifier(Estimator):
    """Classify series, each with its own times, length and holes.

    Parameters: `model` is any name of `leapcde models`, `options` its options (the rest is chosen from the data's
    shape). `interpolation` ("linear", "natural", "hermite", "rectilinear"), `time_channel` and `intensity` say how X is made;
    use intensity where being measured tells something. `epochs`, `batch`, `rate` and `training` (other fields of
    `TrainConfig`) are chosen when None. `validation` is the share held out to choose weights. `class_weight` is
    "balanced", None, or {class: weight}; `pos_weight` weighs the second of two classes. `layout="channels_first"`
    reads aeon's arrays. For tables, `id`, `time`, `target`, `values` and `static` are names of columns.

    >>> rng = np.random.default_rng(0)
    >>> X = [(np.sort(rng.random(n)), rng.normal(size=(n, 2)) + n % 2) for n in range(4, 24)]
    >>> y = ["odd" if len(t) % 2 else "even" for t, _ in X]
    >>> classifier = LeapClassifier("gru", options={"hidden": 4}, epochs=2).fit(X, y)
    >>> classifier.predict_proba(X[:3]).shape, classifier.classes_.tolist()
    ((3, 2), ['even', 'odd'])
    """

    task = "classification"
    class_weight: Any
    pos_weight: float | None

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
        class_weight: Any = "balanced",
        pos_weight: float | None = None,
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
        if self.class_weight == "balanced" and self.pos_weight is None:
            # Counted here and not in training, because a part of the data need not show every class.
            counts = np.bincount(preprocessor.encode_target(np.asarray(series.target)), minlength=len(preprocessor.classes))
            weights = counts.sum() / ((counts > 0).sum() * np.maximum(counts, 1))
            return replace(config, class_weight=tuple(np.where(counts, weights, 1.0)))
        return replace(config, class_weight=_class_weight(self.class_weight, self.pos_weight, preprocessor.classes))

    def _keep(self, fitted: FittedModel, trained: Trained | None = None) -> None:
        super()._keep(fitted, trained)
        self.classes_ = np.array(fitted.preprocessor.classes)

    def _score(self, series: Series) -> float:
        return float(accuracy_score(np.asarray(series.target), self.fitted_.predict(replace(series, target=None))))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags


def _class_weight(weight: Any, positive: float | None, classes: tuple[Any, ...]) -> Any:
    """What `TrainConfig` takes: "balanced", None, or a weight for each class in its order."""
    if positive is not None:
        if len(classes) != 2:
            raise InputError(f"pos_weight is for two classes, here are {len(classes)}; use class_weight={{class: weight}}")
        return (1.0, positive)
    if not isinstance(weight, dict):
        return weight
    problems = Problems()
    for label in set(weight) - set(classes):
        problems.add(f"no class {label!r}; there are: {', '.join(map(str, classes))}")
    problems.raise_if_any("class_weight cannot be used")
    return tuple(float(weight.get(label, 1.0)) for label in classes)

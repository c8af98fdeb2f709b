"""LeapClassifier: a class for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import ClassifierTags
from sklearn.utils.multiclass import type_of_target

from leapcde import DEFAULT_MODEL
from leapcde.baselines.fitted import FOLDS, Baseline, cross_fitted
from leapcde.data.series import Series
from leapcde.data.split import hold_out, sample_labels
from leapcde.errors import InputError, Problems
from leapcde.estimators.base import Estimator
from leapcde.estimators.certainty.calibrate import ClassSets, Evidence, calibrated, known_shift
from leapcde.estimators.rows import by_sample, known_pairs, known_part, not_of_rows
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import Fitted
from leapcde.training.loop import Trained
from leapcde.training.metrics import softmax
from leapcde.training.preprocess import Preprocessor, check_truths
from leapcde.training.step import label_weights

FEW = 1000  # training samples up to which baselines of a race are calibrated by cross-fitting too; it takes seconds


class LeapClassifier(Estimator):
    """Classify series, each with its own times, length and holes.

    With y (sample, label) of 0 and 1, any number of the labels may be true of a sample: each has a probability of its own,
    `predict_proba` and `predict` answer (sample, label), and `classes_` are their names.

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
    class_weight : "balanced", None, dict or float, default "balanced"
        How much classes count in the loss: by how rare they are, all the same, {class: weight}, or, of two classes, the
        weight of the second. Of labels, how much those that are true count: {label: weight}, or one weight for all. What
        training weighs is undone in `predict_proba`.
    id : str, optional
        For tables: the column that tells the samples apart.
    time : str, optional
        For tables: the column with the times, numbers or dates.
    target : str or sequence of str, optional
        For tables: the column that is predicted, one value a sample; several columns of 0 and 1 (true and false) are labels.
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
    >>> X = [(np.sort(rng.random(n)), rng.normal(size=(n, 2)) + n % 2) for n in range(4, 24)]
    >>> y = ["odd" if len(t) % 2 else "even" for t, _ in X]
    >>> classifier = LeapClassifier("gru", options={"hidden": 4}, epochs=2).fit(X, y)
    >>> classifier.predict_proba(X[:3]).shape, classifier.classes_.tolist()
    ((3, 2), ['even', 'odd'])
    """

    _task = "classification"
    class_weight: str | dict[Any, float] | float | None
    sets_: ClassSets | None

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
        class_weight: str | dict[Any, float] | float | None = "balanced",
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
        self.class_weight = class_weight
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

    def predict_proba(self, X) -> Any:
        """Probabilities, columns in the order of `classes_`: frequencies, calibrated on the data that was held out.

        Class weights are undone, so that a rare class is as rare as it is. `predict` answers with the most probable class.
        With `target_per="row"`, a list of (row, class) arrays.
        """
        series = self._new_series(X)
        return by_sample(self.fitted_.predict_proba(series), self.fitted_, series)

    def predict_set(self, X, coverage: float = 0.9) -> list[np.ndarray]:
        """Classes of which one is the true one so often, the most probable first; several where the model is unsure. None of
        labels, which need none: each has a probability.

        Of every class's samples, a share of `coverage` has a set that holds it (split conformal prediction). What was
        held out to choose the weights sets the bounds; a class with too few samples there has those of all together.

        >>> X = np.random.default_rng(0).normal(size=(60, 5, 1)) + np.arange(60)[:, None, None] % 2
        >>> classifier = LeapClassifier("gru", options={"hidden": 4}, epochs=2, validation=0.4).fit(X, np.arange(60) % 2)
        >>> [len(some) > 0 for some in classifier.predict_set(X[:3], coverage=0.8)]
        [True, True, True]
        """
        not_of_rows(self._per, "predict_set", "predict_proba has the probabilities")
        return self.sets_around(self.predict_proba(X), coverage)

    def sets_around(self, probability: np.ndarray, coverage: float) -> list[np.ndarray]:
        """Sets of classes for probabilities that are there already."""
        inside = self._sets().of(probability, coverage)
        order = np.argsort(-probability, axis=1, kind="stable")
        return [self.classes_[row[kept[row]]] for row, kept in zip(order, inside, strict=True)]

    def _sets(self) -> ClassSets:
        sets = getattr(self, "sets_", None)
        if self.task == "labels":
            raise InputError("sets are of classes, of which one is true; labels have a probability each: use predict_proba")
        not_of_rows(self._per, "a set of classes", "predict_proba has the probabilities")
        if sets is None:
            raise InputError("no data was held out for sets of classes: fit again with validation=0.15, or more samples")
        return sets

    def decision_function(self, X) -> Any:
        """Class scores whose softmax `predict_proba` is; for two classes, the second's lead over the first; for labels, log
        odds."""
        series = self._new_series(X)
        raw = self.fitted_.raw(series)
        raw = raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 and self.task == "classification" else raw
        return by_sample(raw, self.fitted_, series)

    def _check_target(self, series: Series) -> None:
        target = np.asarray(series.target)
        if target.ndim == 2:
            check_truths(target)
            return
        kind = type_of_target(known_part(series))
        if kind not in ("binary", "multiclass"):
            raise InputError(f"Unknown label type: {kind}. Classes are text or whole numbers; use LeapRegressor for numbers")

    def _see_task(self, series: Series) -> None:
        self._task = "labels" if np.asarray(series.target).ndim == 2 else "classification"

    def _hold_out(self, series: Series, share: float, seed: int) -> tuple[Series, Series | None]:
        return hold_out(series, share, labels=sample_labels(series), seed=seed)

    def _weighted(self, config: TrainConfig, preprocessor: Preprocessor, series: Series) -> TrainConfig:
        if self.task == "labels":
            return replace(config, class_weight=_label_weight(self.class_weight, preprocessor, series))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            # Counted here and not in training, because a part of the data need not show every class.
            _, labels, each = preprocessor.known(np.asarray(series.target), series)
            counts = np.bincount(labels, weights=each, minlength=len(preprocessor.classes))
            weights = counts.sum() / ((counts > 0).sum() * np.where(counts > 0, counts, 1))
            return replace(config, class_weight=tuple(np.where(counts, weights, 1.0)))
        return replace(config, class_weight=_class_weight(self.class_weight, preprocessor.classes))

    def _settle(self, config: TrainConfig | None, held: Series | None, said: np.ndarray | None = None) -> np.ndarray | None:
        """Undo the class weights, and calibrate on what was held out: see `estimators/certainty/calibrate.py`."""
        scores, self.sets_ = said, None
        if scores is None:
            self.fitted_, scores = calibrated(self.fitted_, held, None if config is None else self._known_shift(config))
        if held is not None and self.task == "classification" and not held.per_row:
            labels = self.fitted_.preprocessor.encode_target(np.asarray(held.target))
            self.sets_ = ClassSets.learn(softmax(scores), labels)
        return scores

    def _known_shift(self, config: TrainConfig) -> np.ndarray:
        """What undoes the weights of training: of labels, their log odds are too large by the logarithm of their weight."""
        if self.task == "classification":
            return known_shift(config.class_weight, len(self.classes_))
        return -np.log(np.ones(len(self.classes_)) if config.class_weight is None else np.asarray(config.class_weight, float))

    def _calibrated(self, baseline: Baseline, series: Series, held: Series) -> tuple[Fitted, np.ndarray | None]:
        """Calibrated also by what it says of training data when cross-fitted, where there is little validation data."""
        more, of = None, baseline.preprocessor
        if len(series) <= FEW and not series.per_row and _enough(series):
            truth = of.encode_target(np.asarray(series.target))
            more = Evidence(cross_fitted(baseline, series, held), truth, series.weights)
        return calibrated(baseline, held, np.zeros(of.spec.output), more)

    def _arrays(self) -> dict[str, dict[str, np.ndarray]]:
        sets = getattr(self, "sets_", None)
        return {} if sets is None else {"sets": {"probability": sets.probability, "labels": sets.labels}}

    def _restore(self, arrays: dict[str, np.ndarray], learned: dict[str, Any]) -> None:
        super()._restore(arrays, learned)
        probability, labels = (arrays.get(f"sets/['{name}']") for name in ("probability", "labels"))
        found = None if probability is None or labels is None else ClassSets(probability, labels, len(self.classes_))
        self.sets_ = found

    def _keep(self, fitted: Fitted, trained: Trained | None = None) -> None:
        super()._keep(fitted, trained)
        self._task = fitted.preprocessor.task
        self.classes_ = np.array(fitted.preprocessor.classes or fitted.preprocessor.target_names)

    def _score(self, series: Series) -> float:
        from sklearn.metrics import accuracy_score

        truth, said, each = known_pairs(self.fitted_.predict(replace(series, target=None)), series)
        truth = check_truths(truth, len(self.classes_)) if self.task == "labels" else truth
        return float(accuracy_score(truth, said, sample_weight=each))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=True)
        return tags


def _enough(series: Series) -> bool:
    """Whether every part of cross-fitting leaves samples of every class, or with and without every label, to learn from."""
    target = np.asarray(series.target)
    columns = [target] if target.ndim == 1 else list(target.T)
    return min(int(np.unique(column, return_counts=True)[1].min()) for column in columns) >= 2 * FOLDS


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


def _label_weight(weight: Any, preprocessor: Preprocessor, series: Series) -> tuple[float, ...] | None:
    """How much a label that is true counts, for each label in its order."""
    names = preprocessor.target_names
    if isinstance(weight, str) and weight == "balanced":
        return tuple(label_weights(preprocessor.encode_target(np.asarray(series.target)), series.weights).tolist())
    if isinstance(weight, (int, float)):
        return (float(weight),) * len(names)
    return _class_weight(weight, names)

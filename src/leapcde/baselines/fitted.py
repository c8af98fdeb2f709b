"""Every baseline by name, and one that has learned: arrays, and what answers with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leapcde.baselines import forecasts, running, survival, tabular
from leapcde.baselines.summary import features
from leapcde.baselines.trees import Arrays, check_trees
from leapcde.data.series import Series, known_targets
from leapcde.data.split import folds, strata
from leapcde.errors import CheckpointError, choose
from leapcde.files import DAMAGE
from leapcde.training.calibration import Calibration, header_calibration, read_calibration
from leapcde.training.fitted import Fitted
from leapcde.training.preprocess import Preprocessor

FOLDS = 5  # of `cross_fitted`


class Kind(NamedTuple):
    """How a baseline learns, and how it answers in the words of a preprocessor: class scores, or standardised values."""

    title: str
    learn: Callable[..., Arrays]  # of training data, validation data, a preprocessor and a seed
    answer: Callable[[Series, Preprocessor, Arrays], np.ndarray]


KINDS: dict[str, dict[str, Kind]] = {
    "classification": {
        "class-prior": Kind("the class prior", tabular.class_prior, tabular.constant),
        "logistic-regression": Kind("logistic regression on summaries", tabular.logistic, tabular.linear_classes),
        "boosted-trees": Kind("boosted trees on summaries", tabular.trees_for_classes, tabular.tree_classes),
        "extra-trees": Kind("extra-trees on summaries", tabular.forest_for_classes, tabular.forest_classes),
    },
    "labels": {
        "class-prior": Kind("the class prior", *tabular.of_labels(tabular.class_prior, tabular.constant)),
        "logistic-regression": Kind(
            "logistic regression on summaries", *tabular.of_labels(tabular.logistic, tabular.linear_classes)
        ),
        "boosted-trees": Kind(
            "boosted trees on summaries", *tabular.of_labels(tabular.trees_for_classes, tabular.tree_classes)
        ),
        "extra-trees": Kind("extra-trees on summaries", *tabular.of_labels(tabular.forest_for_classes, tabular.forest_classes)),
    },
    "regression": {
        "mean": Kind("the mean", tabular.mean_target, tabular.constant),
        "ridge": Kind("a ridge on summaries", tabular.ridge_number, tabular.linear_number),
        "boosted-trees": Kind("boosted trees on summaries", tabular.trees_for_numbers, tabular.tree_numbers),
        "extra-trees": Kind("extra-trees on summaries", tabular.forest_for_numbers, tabular.forest_numbers),
    },
    "survival": {
        "kaplan-meier": Kind("Kaplan–Meier, the same for all", survival.kaplan_meier_curve, tabular.constant),
        "cox": Kind("a Cox model on summaries", survival.cox, survival.linear_hazards),
        "boosted-trees": Kind("boosted trees on summaries", survival.trees_for_hazards, survival.tree_hazards),
    },
    "forecasting": {
        "last-value": Kind("the last value", forecasts.nothing, forecasts.last_value),
        "linear-trend": Kind("the line through the last two values", forecasts.nothing, forecasts.linear_trend),
        "last-season": Kind("the value a season before", forecasts.find_season, forecasts.last_season),
        "ridge": Kind("a ridge on the window", forecasts.ridge_on_window, forecasts.ridge_forecast),
    },
}


ROW_KINDS: dict[str, dict[str, Kind]] = {  # of answers after each row
    "classification": {
        "class-prior": Kind("the class prior", running.class_prior, running.constant),
        "boosted-trees": Kind("boosted trees on running summaries", running.trees_for_classes, running.tree_classes),
    },
    "regression": {
        "mean": Kind("the mean", running.mean_target, running.constant),
        "boosted-trees": Kind("boosted trees on running summaries", running.trees_for_numbers, running.tree_numbers),
    },
}


def kinds_of(of: Preprocessor) -> dict[str, Kind]:
    """The baselines of what a preprocessor prepares."""
    return (ROW_KINDS if of.spec.each_row else KINDS)[of.task]


@dataclass(frozen=True, eq=False)
class Baseline(Fitted):
    """A baseline that has learned."""

    preprocessor: Preprocessor
    name: str
    arrays: Arrays
    options: dict[str, Any] = field(default_factory=dict)
    calibration: Calibration | None = None

    def outputs(self, series: Series) -> np.ndarray:
        kind = kinds_of(self.preprocessor)[self.name]
        return self.calibrated(kind.answer(series, self.preprocessor, self.arrays))

    @property
    def parameters(self) -> int:
        return sum(array.size for array in self.arrays.values() if array.dtype.kind == "f")

    def header(self) -> dict[str, Any]:
        return {"baseline": self.name, "preprocessor": self.preprocessor.to_json(), **header_calibration(self.calibration)}

    def trees(self) -> dict[str, Any]:
        return {"baseline": self.arrays}

    @classmethod
    def restore(cls, path: Path, arrays: Arrays, about: dict[str, Any]) -> Baseline:
        """From what `load_file` found in a file."""
        try:
            preprocessor = Preprocessor.from_json(about["preprocessor"])
            calibration = read_calibration(about, preprocessor.spec.output[0])
            choose("baseline", about["baseline"], kinds_of(preprocessor))
        except DAMAGE as error:
            raise CheckpointError(f"{path} has a damaged header ({error})") from None
        own = {key[len("baseline/['") : -2]: array for key, array in arrays.items() if key.startswith("baseline/")}
        made = cls(preprocessor, about["baseline"], own, calibration=calibration)
        try:
            some, each_row = _some(preprocessor), preprocessor.spec.each_row
            for one in tabular.apart(own):
                check_trees(one, (running.running_features if each_row else features)(some).shape[1])
            said = made.outputs(some)
            if said.shape != (2 if each_row else 1, *preprocessor.spec.output):
                raise TypeError(f"answers of shape {said.shape[1:]}")
        except DAMAGE as error:
            raise CheckpointError(f"{path}: the arrays of its baseline do not belong together ({error})") from None
        return made

    @property
    def title(self) -> str:
        """What it is, in words."""
        title = kinds_of(self.preprocessor)[self.name].title
        return f"{title} ({int(self.arrays['season'])} steps)" if "season" in self.arrays else title


def _some(preprocessor: Preprocessor) -> Series:
    """A sample of two rows, all at the mean of training, to see whether a baseline answers."""
    scaler = preprocessor.scaler
    static = np.array([scaler.static_mean]) if preprocessor.spec.static else None
    times = np.array([0.0, scaler.time_unit])
    return Series(times, np.tile(scaler.mean, (2, 1)), np.array([0, 2]), preprocessor.channels, static=static)


def baselines_for(task: str) -> list[str]:
    """Names of the baselines that can do a task.

    >>> baselines_for("forecasting")
    ['last-value', 'linear-trend', 'last-season', 'ridge']
    """
    return list(KINDS[task])


def fit_baseline(name: str, train: Series, validation: Series, preprocessor: Preprocessor, *, seed: int = 0) -> Baseline:
    """One baseline from training data; what has a strength takes the one that is best on validation data.

    >>> from leapcde.data.read import as_series
    >>> from leapcde.paths.batch import Recipe
    >>> series = as_series(np.arange(60.0).reshape(20, 3), target=np.arange(20.0))
    >>> found = fit_baseline("ridge", series, series, Preprocessor.learn(series, "regression", Recipe()))
    >>> found.predict(series).round(1)[:3].tolist()
    [0.0, 1.0, 2.0]
    """
    kinds = kinds_of(preprocessor)
    choose("baseline", name, kinds)
    return Baseline(preprocessor, name, kinds[name].learn(train, validation, preprocessor, seed))


def cross_fitted(one: Baseline, train: Series, validation: Series, *, seed: int = 0) -> np.ndarray:
    """What a baseline says of its own training data, each sample by one that learned without its part of it."""
    of = one.preprocessor
    truth = of.encode_target(np.asarray(train.target))
    part = folds(train, strata(truth), FOLDS, seed=seed)
    found = np.empty((len(train), *of.spec.output))
    for number in np.unique(part):
        rest, own = train.take(np.flatnonzero(part != number)), np.flatnonzero(part == number)
        found[own] = fit_baseline(one.name, rest, validation, of, seed=seed).outputs(train.take(own))
    return found


def refit_baseline(old: Baseline, everything: Series, preprocessor: Preprocessor, *, seed: int = 0) -> Baseline:
    """A baseline that learns again from all data, with the strength and the calibration that it has."""
    found = [(float(one["strength"]),) for one in tabular.apart(old.arrays) if "strength" in one]
    kept = {"strengths": found if preprocessor.task == "labels" else found[0]} if found else {}
    arrays = kinds_of(preprocessor)[old.name].learn(everything, everything, preprocessor, seed, **kept)
    return Baseline(preprocessor, old.name, arrays, calibration=old.calibration)


def fit_baselines(train: Series, validation: Series, preprocessor: Preprocessor, *, seed: int = 0) -> dict[str, Baseline]:
    """All baselines of the preprocessor's task, by name; the last season only where there is one, and nothing but the class
    prior where all samples are of one class."""
    names = list(kinds_of(preprocessor))
    labels = np.asarray(train.target)
    labels = labels[known_targets(labels)] if train.per_row else labels
    if preprocessor.task == "classification" and len(np.unique(labels)) < 2:
        names = ["class-prior"]
    made = (fit_baseline(name, train, validation, preprocessor, seed=seed) for name in names)
    return {one.name: one for one in made if one.arrays.get("season", np.array(1)) > 0}

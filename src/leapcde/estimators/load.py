"""A saved model -> the estimator it came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leapcde.ensemble.fitted import restore_fitted
from leapcde.errors import CheckpointError
from leapcde.estimators.base import Estimator
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.holes.base import PathEstimator
from leapcde.estimators.holes.detector import LeapDetector
from leapcde.estimators.holes.imputer import LeapImputer
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.survival import LeapSurvival
from leapcde.files import load_file, names_damage
from leapcde.training.config import TrainConfig

ESTIMATORS: dict[str, type[Estimator]] = {
    "classification": LeapClassifier,
    "labels": LeapClassifier,
    "regression": LeapRegressor,
    "forecasting": LeapForecaster,
    "survival": LeapSurvival,
}
# What learns a path without labels, by name: they share a task.
PATHS: dict[str, type[PathEstimator]] = {"LeapImputer": LeapImputer, "LeapDetector": LeapDetector}
# Parameters that older files hold. A fitted model knows its recipe, and `as_series` takes the order of axes.
FORMER = ("layout", "time_channel")


@names_damage
def load(path: Path | str) -> Any:
    """Read what an estimator's `save`, `FittedModel.save` or `leapcde fit` wrote (a file, or a run folder).

    >>> load("nowhere.safetensors")
    Traceback (most recent call last):
    leapcde.errors.CheckpointError: there is no file nowhere.safetensors
    """
    path = Path(path)
    path = path / "model.safetensors" if path.is_dir() else path
    arrays, about = load_file(path, "model")
    fitted = restore_fitted(path, arrays, about)
    preprocessor, kept = fitted.preprocessor, about.get("estimator", {})
    if kept.get("class") in PATHS:
        path_estimator = _with_params(PATHS[kept["class"]](), kept, path)
        path_estimator.restore(fitted, arrays, kept)
        return path_estimator
    recipe = {"interpolation": preprocessor.recipe.interpolation, "intensity": preprocessor.recipe.intensity}
    made = ESTIMATORS[preprocessor.task]().set_params(model=fitted.name, options=fitted.options, **recipe)
    _with_params(made, kept, path)
    made._keep(fitted)
    made._restore(arrays, kept.get("learned", {}))
    if isinstance(made, LeapForecaster):
        made.window_ = kept.get("window")
    return made


def _with_params(made: Any, kept: dict[str, Any], path: Path) -> Any:
    """An estimator with the parameters that a file holds."""
    params = {name: value for name, value in kept.get("params", {}).items() if name not in FORMER}
    if isinstance(params.get("training"), dict) and "exactly" in params["training"]:
        params["training"] = TrainConfig(**params["training"]["exactly"])
    try:
        return made.set_params(**params)
    except ValueError as error:
        raise CheckpointError(f"{path} was written by another version of leapcde ({error})") from None

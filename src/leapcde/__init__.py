"""leapcde: learnable paths in neural controlled differential equations, for irregular time series.

Public names are loaded when first used, so that `import leapcde` and `leapcde --help` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leapcde.data.drop import drop
    from leapcde.data.read import as_series, from_table
    from leapcde.data.series import Series
    from leapcde.data.split import split
    from leapcde.data.windows import windows
    from leapcde.errors import LeapError, LeapWarning
    from leapcde.estimators.classifier import LeapClassifier
    from leapcde.estimators.contract import check_estimator
    from leapcde.estimators.forecaster import LeapForecaster
    from leapcde.estimators.holes.detector import LeapDetector
    from leapcde.estimators.holes.imputer import LeapImputer
    from leapcde.estimators.load import load
    from leapcde.estimators.regressor import LeapRegressor
    from leapcde.estimators.survival import LeapSurvival
    from leapcde.models.registry import build, register
    from leapcde.training.config import TrainConfig

__version__ = "0.1.0"
DEFAULT_MODEL = "leap+"  # of estimators and `tune`; here, because the command line must not import JAX to know it
RACE = "auto"  # the name of no model: a race of a few; the default of `fit`

_WHERE = {
    "LeapClassifier": "estimators.classifier",
    "LeapDetector": "estimators.holes.detector",
    "LeapError": "errors",
    "LeapForecaster": "estimators.forecaster",
    "LeapImputer": "estimators.holes.imputer",
    "LeapRegressor": "estimators.regressor",
    "LeapSurvival": "estimators.survival",
    "LeapWarning": "errors",
    "Series": "data.series",
    "TrainConfig": "training.config",
    "as_series": "data.read",
    "build": "models.registry",
    "check_estimator": "estimators.contract",
    "drop": "data.drop",
    "from_table": "data.read",
    "load": "estimators.load",
    "register": "models.registry",
    "split": "data.split",
    "windows": "data.windows",
}
__all__ = [
    "LeapClassifier",
    "LeapDetector",
    "LeapError",
    "LeapForecaster",
    "LeapImputer",
    "LeapRegressor",
    "LeapSurvival",
    "LeapWarning",
    "Series",
    "TrainConfig",
    "as_series",
    "build",
    "check_estimator",
    "drop",
    "from_table",
    "load",
    "register",
    "split",
    "windows",
]


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'leapcde' has no attribute {name!r}")
    return getattr(importlib.import_module(f"leapcde.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

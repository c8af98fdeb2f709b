"""leapcde: learnable paths in neural controlled differential equations, for irregular time series.

Public names are loaded when first used, so that `import leapcde` and `leapcde --help` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batches import Batch, Recipe, make_buckets
    from .checks import check_estimator
    from .errors import CheckpointError, InputError, LeapError, LeapWarning, SolveError, TrainingError
    from .estimators import LeapClassifier, LeapForecaster, LeapRegressor, load
    from .explain import Explanation
    from .models import Spec, build, count_parameters
    from .paths import Path, fit_path
    from .predictor import Frame, Predictor, learn
    from .prepare import Scaler, drop, pad, split
    from .series import Series, as_series, from_table
    from .solve import Solver
    from .stream import Stream
    from .train import Fitted, History, TrainConfig, fit
    from .windowing import windows

_WHERE = {
    "batches": ("Batch", "Recipe", "make_buckets"),
    "checks": ("check_estimator",),
    "errors": ("CheckpointError", "InputError", "LeapError", "LeapWarning", "SolveError", "TrainingError"),
    "estimators": ("LeapClassifier", "LeapForecaster", "LeapRegressor", "load"),
    "explain": ("Explanation",),
    "models": ("Spec", "build", "count_parameters"),
    "paths": ("Path", "fit_path"),
    "predictor": ("Frame", "Predictor", "learn"),
    "prepare": ("Scaler", "drop", "pad", "split"),
    "series": ("Series", "as_series", "from_table"),
    "solve": ("Solver",),
    "stream": ("Stream",),
    "train": ("Fitted", "History", "TrainConfig", "fit"),
    "windowing": ("windows",),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "CheckpointError",
    "Explanation",
    "Fitted",
    "Frame",
    "History",
    "InputError",
    "LeapClassifier",
    "LeapError",
    "LeapForecaster",
    "LeapRegressor",
    "LeapWarning",
    "Path",
    "Predictor",
    "Recipe",
    "Scaler",
    "Series",
    "SolveError",
    "Solver",
    "Spec",
    "Stream",
    "TrainConfig",
    "TrainingError",
    "as_series",
    "build",
    "check_estimator",
    "count_parameters",
    "drop",
    "fit",
    "fit_path",
    "from_table",
    "learn",
    "load",
    "make_buckets",
    "pad",
    "split",
    "windows",
]


def __getattr__(name: str):
    if name not in _MODULE:
        raise AttributeError(f"module 'leapcde' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

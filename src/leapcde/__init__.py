"""leapcde: learnable paths in neural controlled differential equations, for irregular time series.

Public names are loaded when first used, so that `import leapcde` and `leapcde --help` cost nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batches import Batch, Recipe, make_buckets
    from .errors import CheckpointError, InputError, LeapError, LeapWarning, SolveError, TrainingError
    from .models import Spec, build, count_parameters
    from .paths import Path, fit_path
    from .predictor import Frame, Predictor, learn
    from .prepare import Scaler, drop, pad, split, windows
    from .series import Series, as_series, from_table
    from .solve import Solver, solve
    from .train import Fitted, History, TrainConfig, fit

_WHERE = {
    "batches": ("Batch", "Recipe", "make_buckets"),
    "errors": ("CheckpointError", "InputError", "LeapError", "LeapWarning", "SolveError", "TrainingError"),
    "models": ("Spec", "build", "count_parameters"),
    "paths": ("Path", "fit_path"),
    "predictor": ("Frame", "Predictor", "learn"),
    "prepare": ("Scaler", "drop", "pad", "split", "windows"),
    "series": ("Series", "as_series", "from_table"),
    "solve": ("Solver", "solve"),
    "train": ("Fitted", "History", "TrainConfig", "fit"),
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "CheckpointError",
    "Fitted",
    "Frame",
    "History",
    "InputError",
    "LeapError",
    "LeapWarning",
    "Path",
    "Predictor",
    "Recipe",
    "Scaler",
    "Series",
    "SolveError",
    "Solver",
    "Spec",
    "TrainConfig",
    "TrainingError",
    "as_series",
    "build",
    "count_parameters",
    "drop",
    "fit",
    "fit_path",
    "from_table",
    "learn",
    "make_buckets",
    "pad",
    "solve",
    "split",
    "windows",
]


def __getattr__(name: str):
    if name not in _MODULE:
        raise AttributeError(f"module 'leapcde' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

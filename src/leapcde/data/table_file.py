"""A user's own CSV or Parquet file in long form: one row an observation time, one column a channel."""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.columns import Columns, as_trained, read_columns
from leapcde.data.dataset import Dataset
from leapcde.data.delimited import read_table
from leapcde.data.drop import drop
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.data.windows import Horizon, auto_window, cut_windows
from leapcde.errors import InputError, LeapWarning, choose

FEW_CLASSES = 20


def load(
    path: Path,
    columns: Columns,
    *,
    horizon: Horizon | None = None,
    window: int | None = None,
    task: str | None = None,
    drop_rate: float = 0.0,
) -> Dataset:
    """Read, check, split: 70 / 15 / 15 % of the ids, stratified by class where there are classes.

    With `horizon` (rows ahead, or times after the last one), the task is forecasting from `window` rows; else the
    target column decides, or `task`.
    """
    series = read(path, columns)
    made: dict[str, Any] = {"file": path.name, "drop": drop_rate, "split": "70/15/15 by id"}
    if horizon is not None:
        length = window or auto_window(series, horizon)
        if window is None:
            warnings.warn(f"no --window given: forecasting from the last {length} points", LeapWarning, stacklevel=2)
        cut = drop(cut_windows(series, length, horizon), drop_rate)
        made |= {"window": length, "horizon": horizon}
        train, validation, test = as_trained(*split(cut, by_id=True))
        return Dataset(path.stem, "forecasting", train, validation, test, made)
    if series.target is None:
        raise InputError("name a --target column to classify or regress, or a --horizon to forecast")
    task = task or guess_task(series.target)
    choose("task", task, ("classification", "regression"))
    labels = series.target if task == "classification" and series.target.ndim == 1 else None
    train, validation, test = as_trained(*split(drop(series, drop_rate), labels=labels))
    return Dataset(path.stem, task, train, validation, test, made)


def read(path: Path, columns: Columns, *, with_target: bool = True) -> Series:
    """The file as one `Series`, with nothing split or dropped."""
    return read_columns(read_table(path, columns), columns, with_target=with_target)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, by which a run knows its data again."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def guess_task(target: np.ndarray) -> str:
    """Text, whole numbers and few values are classes; anything else is a number to predict. Several targets that are all 0 or
    1 are labels.

    >>> guess_task(np.array([0.0, 1.0, 1.0])), guess_task(np.linspace(0.0, 1.0, 50))
    ('classification', 'regression')
    """
    if target.dtype.kind not in "fiu":
        return "classification"
    if target.ndim > 1:
        return "classification" if np.isin(target, (0, 1)).all() else "regression"
    whole = bool(np.all(target == np.round(target)))
    return "classification" if whole and len(np.unique(target)) <= FEW_CLASSES else "regression"

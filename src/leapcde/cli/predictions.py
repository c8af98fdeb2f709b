"""Predictions for a user's file as a table: one row a sample, or one row a sample and step ahead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from leapcde.cli.run import RunConfig
from leapcde.data import files as table_file
from leapcde.data.series import Series
from leapcde.data.windows import in_steps, last_window
from leapcde.errors import InputError
from leapcde.estimators.intervals import Conformal
from leapcde.training.fitted import FittedModel
from leapcde.training.metrics import softmax


def predictions_table(
    config: RunConfig, fitted: FittedModel, file: Path, *, conformal: Conformal | None = None, coverage: float | None = None
) -> pd.DataFrame:
    """Read the file with the columns of training, and predict; with `coverage`, also the ends of intervals."""
    if coverage is not None and conformal is None:
        raise InputError("intervals exist for numbers and forecasts; classes have probabilities instead")
    if config.columns is None:
        raise InputError(f"this run was trained on {config.data!r}, not on a file; predict in Python with FittedModel.load")
    # Name the value columns that training used: a new file may lack the target, or carry other columns.
    columns = replace(config.columns, values=fitted.preprocessor.channels)
    series = table_file.read(file, columns, with_target=False)
    if fitted.preprocessor.task == "forecasting":
        return _forecast_table(fitted, last_window(series, columns.window), columns, conformal, coverage)
    raw = fitted.raw(series)
    table = pd.DataFrame({columns.id: series.ids, "prediction": fitted.preprocessor.decode(raw)})
    if fitted.preprocessor.task == "classification":
        for name, column in zip(fitted.preprocessor.classes, softmax(raw.astype(np.float64)).T, strict=True):
            table[f"p({name})"] = column
    elif coverage is not None and conformal is not None:
        table["lower"], table["upper"] = conformal.around(fitted.preprocessor.decode(raw), coverage)
    return table


def _forecast_table(
    fitted: FittedModel, series: Series, columns: table_file.Columns, conformal: Conformal | None, coverage: float | None
) -> pd.DataFrame:
    values = fitted.predict(series)
    samples, rows, _ = values.shape
    assert columns.horizon is not None  # a forecaster's columns name one
    when = ("step", np.arange(1, rows + 1)) if in_steps(columns.horizon) else ("after", np.asarray(columns.horizon))
    table = pd.DataFrame({columns.id: np.repeat(np.asarray(series.ids), rows), when[0]: np.tile(when[1], samples)})
    for c, name in enumerate(fitted.preprocessor.channels):
        table[name] = values[:, :, c].ravel()
    if coverage is not None and conformal is not None:
        for end, ends in zip(("lower", "upper"), conformal.around(values, coverage), strict=True):
            for c, name in enumerate(fitted.preprocessor.channels):
                table[f"{name} {end}"] = ends[:, :, c].ravel()
    return table

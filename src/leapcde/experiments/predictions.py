"""Predictions for a user's file as a table: one row a sample, or one row a sample and step ahead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..datasets import table_file
from ..errors import InputError
from ..intervals import Conformal
from ..metrics import softmax
from ..predictor import Predictor
from ..prepare import last_window
from ..series import Series
from .run import RunConfig


def predictions_table(
    config: RunConfig, predictor: Predictor, file: Path, *, conformal: Conformal | None = None, coverage: float | None = None
) -> pd.DataFrame:
    """Read the file with the columns of training, and predict; with `coverage`, also the ends of intervals."""
    if coverage is not None and conformal is None:
        raise InputError("intervals exist for numbers and forecasts; classes have probabilities instead")
    if config.columns is None:
        raise InputError(f"this run was trained on {config.data!r}, not on a file; predict in Python with Predictor.load")
    # Name the value columns that training used: a new file may lack the target, or carry other columns.
    columns = replace(config.columns, values=predictor.frame.channels)
    series = table_file.read(file, columns, with_target=False)
    if predictor.frame.task == "forecasting":
        return _forecast_table(predictor, last_window(series, columns.window), columns.id, conformal, coverage)
    raw = predictor.raw(series)
    table = pd.DataFrame({columns.id: series.ids, "prediction": predictor.frame.decode(raw)})
    if predictor.frame.task == "classification":
        for name, column in zip(predictor.frame.classes, softmax(raw.astype(np.float64)).T, strict=True):
            table[f"p({name})"] = column
    elif coverage is not None and conformal is not None:
        table["lower"], table["upper"] = conformal.around(predictor.frame.decode(raw), coverage)
    return table


def _forecast_table(predictor: Predictor, series: Series, id: str, conformal: Conformal | None, coverage) -> pd.DataFrame:
    values = predictor.predict(series)
    samples, horizon, _ = values.shape
    steps = np.tile(np.arange(1, horizon + 1), samples)
    table = pd.DataFrame({id: np.repeat(np.asarray(series.ids), horizon), "step": steps})
    for c, name in enumerate(predictor.frame.channels):
        table[name] = values[:, :, c].ravel()
    if coverage is not None and conformal is not None:
        for end, ends in zip(("lower", "upper"), conformal.around(values, coverage), strict=True):
            for c, name in enumerate(predictor.frame.channels):
                table[f"{name} {end}"] = ends[:, :, c].ravel()
    return table

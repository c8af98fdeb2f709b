"""Values of a `Series` back into the form in which somebody gave it: arrays, lists, tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from leapcde.data.columns import Columns, read_columns
from leapcde.data.series import Series

ROW = "row of the table"  # as a channel, while a table is read: where each row of the series came from


def in_form_of(X: Any, series: Series, values: np.ndarray, columns: Columns) -> Any:
    """`values` (row, channel) of the series that was read from X, as X is: a copy in which they stand.

    What has a form of its own for samples and times (arrays, lists, tables of pandas and polars) keeps it; anything else
    becomes a `Series`.

    >>> from leapcde.data.read import as_series
    >>> X = [[1.0, float("nan"), 3.0], [4.0]]
    >>> [list(map(float, sample)) for sample in in_form_of(X, as_series(X), np.array([[1.0], [2.0], [3.0], [4.0]]), Columns())]
    [[1.0, 2.0, 3.0], [4.0]]
    """
    if hasattr(X, "dims") or isinstance(X, Series):
        return replace(series, values=values)
    if hasattr(X, "columns"):
        return _table(X, series, values, columns)
    if hasattr(X, "ndim"):
        return _array(np.array(X, float), series, values)
    if isinstance(X, (list, tuple)) and not any(isinstance(sample, Series) for sample in X):
        return [_sample(sample, values[a:b]) for sample, a, b in zip(X, series.offsets, series.offsets[1:], strict=False)]
    if hasattr(X, "__array__"):  # what only says how to become an array
        return _array(np.array(X, float), series, values)
    return replace(series, values=values)


def _array(found: np.ndarray, series: Series, values: np.ndarray) -> np.ndarray:
    """Rows at the end of a sample that are NaN in every channel are padding, and stay."""
    rows = np.arange(len(values)) - series.offsets[series.owner]
    found[series.owner, rows] = values if found.ndim == 3 else values[:, 0]
    return found


def _sample(given: Any, values: np.ndarray) -> Any:
    if isinstance(given, tuple) and len(given) == 2:
        return given[0], _sample(given[1], values)
    return values[:, 0].copy() if np.ndim(given) == 1 else values.copy()


def _table(table: Any, series: Series, values: np.ndarray, columns: Columns) -> Any:
    polars = hasattr(table, "with_columns")
    index = np.arange(float(len(table)))
    if polars:
        import polars as pl

        numbered = table.with_columns(pl.Series(ROW, index))
    else:
        numbered = table.assign(**{ROW: index})
    rows = read_columns(numbered, replace(columns, values=(*series.channels, ROW)), with_target=False).values[:, -1].astype(int)
    placed = np.empty_like(values)
    placed[rows] = values
    new = {name: placed[:, c] for c, name in enumerate(series.channels)}
    return table.with_columns(**new) if polars else table.assign(**new)

"""What people hand in, tables and lists and dates -> arrays of numbers; what cannot be read becomes a named problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from leapcde.errors import InputError, Problems


def table_cells(table: Any) -> dict[str, np.ndarray]:
    """The columns of a pandas or polars table by name."""
    if not hasattr(table, "__len__") or not hasattr(table, "columns"):
        raise InputError(f"cannot read a table from {type(table).__name__}: give a pandas or polars DataFrame")
    names = [str(column) for column in table.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"cannot read the table: several columns are called {', '.join(map(repr, twice))}; rename them")
    if len(table) == 0:
        raise InputError("cannot read the table: it has no rows")
    return {name: np.asarray(table[column].to_numpy()) for name, column in zip(names, table.columns, strict=True)}


def value_columns(columns: list[str], named: list[str], values: Sequence[str] | None) -> list[str]:
    """The value columns: those given, or all that are not named as something else."""
    problems = Problems()
    asked = [*named, *(values or [])]
    for column in dict.fromkeys(asked):
        if column not in columns:
            problems.add(f"no column {column!r}; the table has: {', '.join(columns)}")
        elif asked.count(column) > 1:
            problems.add(f"column {column!r} is named twice; a column is one of id, time, value, target, static")
    channels = list(values) if values else [c for c in columns if c not in named]
    if not channels:
        problems.add("no column is left for the values")
    problems.raise_if_any("cannot read the table")
    return channels


def number_columns(cells: dict[str, np.ndarray], names: Sequence[str], problems: Problems) -> np.ndarray:
    """Number columns side by side; an unreadable one is a problem and stays empty."""
    fix = "encode it as numbers, name it as target, or leave it out"
    matrix = np.full((len(next(iter(cells.values()))), len(names)), np.nan)
    for c, name in enumerate(names):
        column = numbers(cells[name], f"column {name!r}", problems, fix, text_ok=False)
        matrix[:, c] = np.nan if column is None else column
    return matrix


def static_features(values: Any, problems: Problems) -> np.ndarray | None:
    array = numbers(values, "static", problems, "give a row of numbers for each sample")
    array = None if array is None else np.atleast_1d(array)
    return None if array is None else array.reshape(len(array), int(np.prod(array.shape[1:])))


def numbers(values: Any, where: str, problems: Problems, fix: str, *, text_ok: bool = True) -> np.ndarray | None:
    """A float array, or None: text and other non-numbers become a problem instead of an exception."""
    try:
        array = np.asarray(values)
        if array.dtype == np.float32:
            return array
        if array.dtype.kind in "Mmc" or (array.dtype.kind in "US" and not text_ok):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        problems.add(f"{where}: {_what_else(values)}; {fix}")
        return None


def _what_else(values: Any) -> str:
    """What stands where numbers should: the first text that is no number, or rows of different lengths."""
    try:
        cells = list(np.ravel(np.asarray(values, dtype=object)))
    except ValueError:
        cells = [()]
    if any(isinstance(cell, (list, tuple, np.ndarray)) for cell in cells):
        return "rows of different lengths"
    text = [cell for cell in cells if isinstance(cell, str)]
    wrong = [cell for cell in text if is_missing(pd.to_numeric(cell, errors="coerce"))] or text
    return f"text ({wrong[0]!r})" if wrong else "values that are not numbers"


def seconds_or_numbers(values: Any, where: str, problems: Problems) -> np.ndarray | None:
    """Times as numbers; dates and durations become seconds."""
    found = _seconds(values)
    if found is None:
        found = numbers(values, where, problems, "give times as numbers or dates such as 2024-05-01 10:00", text_ok=False)
    return None if found is None else np.atleast_1d(found).astype(np.float64)


def _seconds(values: Any) -> np.ndarray | None:
    """Seconds, if the values are dates (also with time zones, or as text such as 2024-05-01) or durations."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "OU" and numbers(array, "", Problems(), "") is None:
            dates = pd.to_datetime(array.ravel(), format="ISO8601", utc=True)
            array = dates.to_numpy("datetime64[us]").reshape(array.shape)
    except (TypeError, ValueError):
        return None
    if array.dtype.kind not in "Mm":
        return None
    count = array.astype(f"{array.dtype.kind}8[us]").astype(np.int64)
    return np.where(np.isnat(array), np.nan, count / 1e6)


def target_column(values: Any, where: str, problems: Problems) -> np.ndarray | None:
    """A target as people give it: numbers stay numbers, anything else becomes text labels."""
    try:
        array = np.atleast_1d(np.asarray(values))
    except ValueError:
        problems.add(f"{where}: entries of different shapes; give one label, number or (step, channel) array a sample")
        return None
    empty = is_missing(array)
    # Only what is forecast, which has more than one dimension, may be partly unknown.
    if empty.any() and (array.ndim == 1 or array.dtype == object):
        problems.add(f"{where}: empty in row {int(np.argmax(empty))}; every sample needs one, leave out those without")
        return None
    return array.astype(str) if array.dtype == object else array


def is_missing(values: Any) -> np.ndarray:
    return np.asarray(pd.isna(values))

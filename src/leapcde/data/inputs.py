"""Every form in which an estimator takes data -> `Series`: what `as_series` reads, tables, xarray."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from leapcde.data.columns import Columns, read_columns
from leapcde.data.parse import is_missing, unmasked
from leapcde.data.read import as_series
from leapcde.data.series import Series, check, join, name_of
from leapcde.errors import InputError, Problems

EVENT_TIMES = "give a structured array (event, time) as scikit-survival has it, or rows of (event, time)"


def read(
    data: Any,
    target: Any = None,
    *,
    columns: Columns | None = None,
    with_target: bool = True,
    sample_weight: Any = None,
    groups: Any = None,
    target_per: str = "sample",
) -> Series:
    """Any accepted form as one checked `Series`. `target` is one entry a sample, in the order of the samples; with
    `target_per="row"`, an array of one entry a row.

    So are `sample_weight` and `groups`: samples of one group are then samples of one id.

    `columns` names the columns of a table or the dimensions of xarray data.

    >>> read([as_series([[1.0, 2.0]]), as_series([[3.0]])]).lengths.tolist()
    [2, 1]
    """
    series = _series(data, columns or Columns(), with_target)
    if target is None and sample_weight is None and groups is None:
        return check(series) if isinstance(data, Series) else series
    given = None
    if target is not None:
        given = list(target) if target_per == "row" and hasattr(target, "__len__") else _flat(target)
    series = as_series(series, target=given, weights=_plain(sample_weight), target_per=target_per)
    if target is not None:
        series = replace(series, target_names=tuple(map(str, getattr(target, "columns", ()))))
    return series if groups is None else replace(series, ids=_groups(groups, series))


def sequences(data: Any, *, shortest: int = 0, channels: int | None = None) -> Any:
    """A single series, in a form that can be nothing else, as a list of one; all else as it is.

    That is a pair (times, values), an array (time,), and an array (time, channel): with so many `channels`, or with
    fewer columns than the `shortest` series has rows, since they cannot be its times then.

    >>> len(sequences(np.ones((500, 3)), shortest=12)), len(sequences(np.ones((500, 30)), shortest=12))
    (1, 500)
    """
    if isinstance(data, tuple) and len(data) == 2:
        clock, values = (tuple(np.shape(part)) for part in data)
        return [data] if len(clock) == 1 and len(values) in (1, 2) and clock[0] == values[0] > 1 else data
    if isinstance(data, (list, tuple, Series)) or hasattr(data, "columns") or hasattr(data, "dims"):
        return data
    shape = getattr(data, "shape", ())
    single = len(shape) == 1 or (len(shape) == 2 and (shape[1] == channels or shape[1] < shortest))
    return [data] if single else data


def _series(data: Any, columns: Columns, with_target: bool) -> Series:
    if isinstance(data, Series):
        return data
    if hasattr(data, "dims") and hasattr(data, "coords"):
        return _from_xarray(data, columns)
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        return read_columns(data, columns, with_target=with_target)
    if isinstance(data, (list, tuple)) and data and all(isinstance(item, Series) for item in data):
        return join(data)
    if not hasattr(data, "__len__") and hasattr(data, "__array__"):
        data = np.asarray(data)
    data = unmasked(data)
    kind = getattr(getattr(data, "dtype", None), "kind", "")
    if kind == "O":
        data = _as_numbers(data)
    if kind == "c":
        raise InputError("Complex data not supported: give numbers, the real and the imaginary part as channels of their own")
    if hasattr(data, "toarray"):
        raise InputError("sparse matrices cannot be read: zeros in them are not missing values; give a dense array with NaN")
    return as_series(data)


def _as_numbers(data: Any) -> Any:
    """An array of objects that are numbers, as numbers; else as it is, for `as_series` to say what is wrong."""
    try:
        return np.asarray(data).astype(float)
    except (TypeError, ValueError, OverflowError):
        return data


def _from_xarray(data: Any, columns: Columns) -> Series:
    """A DataArray over (sample, time[, channel]) in any order, or a Dataset whose variables are the channels."""
    if hasattr(data, "data_vars"):
        data = data[list(columns.values)] if columns.values else data
        data = data.to_array("channel")
    clock = columns.time or "time"
    if clock not in data.dims or not 2 <= len(data.dims) <= 3:
        raise InputError(
            f"cannot read series from xarray dimensions {tuple(data.dims)}: two or three are needed, one of them {clock!r}; "
            "name the one that holds time and the one that tells samples apart: time=, id="
        )
    others = [dim for dim in data.dims if dim != clock]
    sample = columns.id or next((dim for dim in others if dim != "channel"), others[0])
    if sample not in others:
        raise InputError(f"there is no dimension {sample!r}; there are: {', '.join(map(str, data.dims))}")
    channel = [dim for dim in others if dim != sample]
    array = data.transpose(sample, clock, *channel)
    names = [str(name) for name in array[channel[0]].values] if channel and channel[0] in array.coords else None
    times = array[clock].values if clock in array.coords else None
    series = as_series(array.values, times=times)
    ids = array[sample].values if sample in array.coords else None
    return replace(series, channels=tuple(names) if names else series.channels, ids=ids)


def _plain(array: Any) -> Any:
    return array.to_numpy() if hasattr(array, "to_numpy") else array


def _groups(groups: Any, series: Series) -> np.ndarray:
    found = np.asarray(_plain(groups))
    if found.shape != (len(series),):
        raise InputError(f"groups: of shape {found.shape} for {len(series)} samples; give one for each")
    if is_missing(found).any():
        raise InputError(f"groups: sample {int(np.argmax(is_missing(found)))} has none; give one for each sample")
    return found.astype(str) if found.dtype == object else found


def _flat(target: Any) -> Any:
    """A target given as one column, as scikit-learn allows, is one number a sample."""
    array = _plain(target)
    shape = getattr(array, "shape", ())
    if len(shape) != 2 or shape[1] != 1:
        return array
    message = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
    warnings.warn(message, DataConversionWarning, stacklevel=4)  # in scikit-learn's words, for its tools
    return array.ravel() if isinstance(array, np.ma.MaskedArray) else np.asarray(array).ravel()


def times_within(series: Series, times: Any, reach: float) -> np.ndarray:
    """Query times as (sample, query), each within its sample, or so far beyond its end as its path goes on.

    >>> times_within(as_series([([0, 2], [1.0, 2.0])]), [0.5, 1.0], 0.0).tolist()
    [[0.5, 1.0]]
    """
    read_times = as_series([(np.ravel(row), np.zeros(np.size(row))) for row in np.atleast_2d(np.asarray(times))])
    clock = read_times.times.reshape(len(read_times), -1)
    if len(clock) not in (1, len(series)):
        raise InputError(f"times: {len(clock)} rows for {len(series)} samples; give one row for each, or one for all")
    clock = np.broadcast_to(clock, (len(series), clock.shape[1]))
    starts, ends = series.times[series.offsets[:-1]], series.times[series.offsets[1:] - 1]
    problems = Problems()
    ends = ends + reach * (1 + 1e-6)  # times are counted in gaps, which rounds
    for i in np.flatnonzero((clock[:, 0] < starts) | (clock[:, -1] > ends)):
        problems.add(
            f"sample {i}: its path goes from {starts[i]:g} to {ends[i]:g}, the times asked from {clock[i, 0]:g} to "
            f"{clock[i, -1]:g}"
        )
    why = "the path goes on up to the horizon" if reach else "LeapForecaster('leap+') looks beyond its end"
    problems.raise_if_any(f"the learned path exists within each sample only; {why}")
    return clock


def event_times(y: Any) -> np.ndarray:
    """Times to an event in any form that people have, as rows of (event, time).

    A structured array, where the field of truths is the event whatever its name; rows; or a table with two columns.

    >>> event_times(np.array([(True, 2.5), (False, 4.0)], dtype=[("dead", bool), ("days", float)])).tolist()
    [[1.0, 2.5], [0.0, 4.0]]
    """
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        truths = [name for name in names if y.dtype[name].kind == "b"]
        if len(names) != 2 or len(truths) != 1:
            raise InputError(f"y has the fields {', '.join(names)}; {EVENT_TIMES}: one field of truths, one of times")
        other = next(name for name in names if name not in truths)
        return np.stack([np.asarray(y[truths[0]], float), _floats(y[other])], 1)
    table = y.to_numpy() if hasattr(y, "to_numpy") else unmasked(y)
    try:
        rows = np.asarray(table)
    except ValueError:
        raise InputError(f"y: rows of different lengths; {EVENT_TIMES}") from None
    if rows.ndim != 2 or rows.shape[1] != 2:
        raise InputError(f"y has shape {rows.shape}; {EVENT_TIMES}")
    found = np.stack([_floats(rows[:, 0]), _floats(rows[:, 1])], 1)
    if not np.isin(found[:, 0], (0, 1)).all() and np.isin(found[:, 1], (0, 1)).all():
        raise InputError("y has the times first; give rows of (event, time), in this order")
    return found


def _floats(column: Any) -> np.ndarray:
    try:
        return np.asarray(column).astype(float)
    except (TypeError, ValueError):
        raise InputError(f"y holds what is no number; {EVENT_TIMES}") from None


def check_event_times(series: Series) -> np.ndarray:
    """The target as rows of (event, time), or one error that lists what is wrong with it."""
    target = np.asarray(series.target)
    if target.ndim != 2 or target.shape[1] != 2 or target.dtype.kind not in "fiub":
        raise InputError(f"y has shape {target.shape}; {EVENT_TIMES}")
    problems = Problems()
    for i in np.flatnonzero(~np.isin(target[:, 0], (0, 1))):
        problems.add(f"{name_of(series, i)}: its event is {target[i, 0]:g}; 1 says that it was seen, 0 that it was not")
    for i in np.flatnonzero(~(np.isfinite(target[:, 1]) & (target[:, 1] >= 0))):
        problems.add(f"{name_of(series, i)}: its duration is {target[i, 1]:g}; give how long after its last row, 0 or more")
    problems.raise_if_any("times to an event cannot be used")
    return np.asarray(target, float)

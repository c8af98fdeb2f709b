"""Every form in which an estimator takes data -> `Series`: what `as_series` reads, tables, xarray, channels first."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning

from leapcde.data.read import as_series, from_table
from leapcde.data.series import Series, check, join
from leapcde.errors import InputError, choose

LAYOUTS = ("channels_last", "channels_first")


@dataclass(frozen=True)
class Form:
    """How to read what is given: the order of axes in arrays, the columns of a table, the dimensions of xarray data."""

    layout: str = "channels_last"
    id: str | None = None
    time: str | None = None
    values: Sequence[str] | None = None
    target: str | None = None
    static: Sequence[str] | None = None


def read(data: Any, target: Any = None, form: Form | None = None, *, with_target: bool = True) -> Series:
    """Any accepted form as one checked `Series`. `target` is one entry a sample, in the order of the samples.

    >>> read(np.ones((4, 3, 10)), form=Form(layout="channels_first")).values.shape
    (40, 3)
    >>> read([as_series([[1.0, 2.0]]), as_series([[3.0]])]).lengths.tolist()
    [2, 1]
    """
    form = form or Form()
    choose("layout", form.layout, LAYOUTS)
    series = _series(data, form, with_target)
    if target is None:
        return check(series) if isinstance(data, Series) else series
    return as_series(series, target=_flat(target))


def _series(data: Any, form: Form, with_target: bool) -> Series:
    if isinstance(data, Series):
        return data
    if hasattr(data, "dims") and hasattr(data, "coords"):
        return _from_xarray(data, form)
    if hasattr(data, "columns"):
        return _from_table(data, form, with_target)
    if isinstance(data, (list, tuple)) and data and all(isinstance(item, Series) for item in data):
        return join(data)
    if not hasattr(data, "__len__") and hasattr(data, "__array__"):
        data = np.asarray(data)
    kind = getattr(getattr(data, "dtype", None), "kind", "")
    if kind == "O":
        data = _as_numbers(data)
    if kind == "c":
        raise InputError("Complex data not supported: give numbers, the real and the imaginary part as channels of their own")
    if hasattr(data, "toarray"):
        raise InputError("sparse matrices cannot be read: zeros in them are not missing values; give a dense array with NaN")
    return as_series(_channels_last(data) if form.layout == "channels_first" else data)


def _as_numbers(data: Any) -> Any:
    """An array of objects that are numbers, as numbers; else as it is, for `as_series` to say what is wrong."""
    try:
        return np.asarray(data).astype(float)
    except (TypeError, ValueError):
        return data


def _channels_last(data: Any) -> Any:
    """(case, channel, time) arrays, or lists of (channel, time) arrays, with or without times, turned around."""
    if hasattr(data, "ndim"):
        return np.swapaxes(np.asarray(data), 1, 2) if data.ndim == 3 else data
    if not isinstance(data, (list, tuple)):
        return data
    return [(item[0], _turned(item[1])) if isinstance(item, tuple) and len(item) == 2 else _turned(item) for item in data]


def _turned(values: Any) -> Any:
    try:
        array = np.asarray(values)
    except ValueError:
        return values  # rows of different lengths: `as_series` says so, with the sample
    return array.T if array.ndim == 2 else array


def _from_table(table: Any, form: Form, with_target: bool) -> Series:
    if form.id is None or form.time is None:
        raise InputError(
            "a table needs the names of its columns: give id= (what tells the samples apart) and time= to the estimator, "
            "and target= for what is predicted"
        )
    columns = [str(column) for column in table.columns]
    named = {form.id, form.time, form.target, *(form.static or ())}
    values = form.values or [column for column in columns if column not in named]
    target = form.target if with_target else None
    return from_table(table, id=form.id, time=form.time, values=values, target=target, static=tuple(form.static or ()))


def _from_xarray(data: Any, form: Form) -> Series:
    """A DataArray over (sample, time[, channel]) in any order, or a Dataset whose variables are the channels."""
    if hasattr(data, "data_vars"):
        data = data[list(form.values)] if form.values else data
        data = data.to_array("channel")
    clock = form.time or "time"
    if clock not in data.dims or not 2 <= len(data.dims) <= 3:
        raise InputError(
            f"cannot read series from xarray dimensions {tuple(data.dims)}: two or three are needed, one of them {clock!r}; "
            "name the one that holds time with time=, the one that tells samples apart with id="
        )
    others = [dim for dim in data.dims if dim != clock]
    sample = form.id or next((dim for dim in others if dim != "channel"), others[0])
    if sample not in others:
        raise InputError(f"there is no dimension {sample!r}; there are: {', '.join(map(str, data.dims))}")
    channel = [dim for dim in others if dim != sample]
    array = data.transpose(sample, clock, *channel)
    names = [str(name) for name in array[channel[0]].values] if channel and channel[0] in array.coords else None
    times = array[clock].values if clock in array.coords else None
    series = as_series(array.values, times=times)
    ids = array[sample].values if sample in array.coords else None
    return replace(series, channels=tuple(names) if names else series.channels, ids=ids)


def _flat(target: Any) -> Any:
    """A target given as one column, as scikit-learn allows, is one number a sample."""
    array = target.to_numpy() if hasattr(target, "to_numpy") else target
    shape = getattr(array, "shape", ())
    if len(shape) != 2 or shape[1] != 1:
        return array
    message = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
    warnings.warn(message, DataConversionWarning, stacklevel=4)  # in scikit-learn's words, for its tools
    return np.asarray(array).ravel()

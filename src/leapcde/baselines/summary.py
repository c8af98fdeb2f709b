"""Series as plain tables: summaries of each channel, and the last steps on an even grid."""

from __future__ import annotations

import numpy as np

from leapcde.data.scale import Scaler
from leapcde.data.series import Series

BASIC = ("count", "mean", "lowest", "highest", "last")
ALL = (*BASIC, "first", "deviation", "slope", "age")


def summary(series: Series, of: tuple[str, ...] = BASIC) -> np.ndarray:
    """Numbers about each channel of each sample, NaN where it was never observed: (sample, number and channel).

    Parameters
    ----------
    series : Series
        In the units of the data.
    of : tuple of str
        Some of "count" (of observations), "mean", "lowest", "highest", "last", "first", "deviation", "slope" (of the line
        through the observations, by least squares) and "age" (from the last observation to the sample's end).

    >>> from leapcde.data.read import as_series
    >>> summary(as_series([([0, 1, 2], [[1.0], [5.0], [3.0]])])).tolist()
    [[3.0, 3.0, 1.0, 5.0, 3.0]]
    """
    return np.concatenate([_summary(part, of) for part in series.blocks()])


def features(series: Series) -> np.ndarray:
    """All that is summarised of a sample: of its channels, how long it lasts, its number of rows, and its statics.

    >>> from leapcde.data.read import as_series
    >>> features(as_series([([0, 1, 3], [[1.0], [5.0], [3.0]])])).round(2).tolist()
    [[3.0, 3.0, 1.0, 5.0, 3.0, 1.0, 1.63, 0.43, 0.0, 3.0, 3.0]]
    """
    last, first = series.times[series.offsets[1:] - 1], series.times[series.offsets[:-1]]
    parts = [summary(series, ALL), (last - first)[:, None], series.lengths[:, None]]
    return np.concatenate([*parts, *([] if series.static is None else [series.static])], axis=1).astype(float)


def last_values(series: Series) -> np.ndarray:
    """Each channel's last observed value, NaN where there is none."""
    return np.concatenate([_picked(part, _rows(part, first=False), part.values) for part in series.blocks()])


def _summary(series: Series, of: tuple[str, ...]) -> np.ndarray:
    made = {**_extremes(series), **_moments(series), **_ends(series)}
    return np.concatenate([made[name] for name in of], axis=1)


def on_grid(series: Series, scaler: Scaler, steps: int) -> np.ndarray:
    """Standardised values in the last `steps` typical gaps up to each sample's end, NaN where nothing was observed there.

    Of two rows nearest to the same point the later one stays.

    >>> from leapcde.data.read import as_series
    >>> series = as_series([([0, 1, 3], [-1.0, 0.0, 1.0])])
    >>> on_grid(series, Scaler((0.0,), (1.0,), 1.0), 3)[0, :, 0].tolist()
    [0.0, nan, 1.0]
    """
    ends = np.repeat(series.times[series.offsets[1:] - 1], series.lengths)
    step = steps - 1 - np.round((ends - series.times) / scaler.time_unit).astype(int)
    owner, kept = series.owner, step >= 0
    found = np.full((len(series), steps, series.values.shape[1]), np.nan, np.float32)
    for c, column in enumerate(scaler.scale(series.values).T):
        there = kept & ~np.isnan(column)
        found[owner[there], step[there], c] = column[there]
    return found


def carried(values: np.ndarray) -> np.ndarray:
    """Along the second axis, what is missing has the value before it, and before the first one that one's; 0 if there is none.

    >>> carried(np.array([[[np.nan], [1.0], [np.nan]]]))[0, :, 0].tolist()
    [1.0, 1.0, 1.0]
    """
    steps = np.arange(values.shape[1])[None, :, None]
    seen = ~np.isnan(values)
    before = np.maximum.accumulate(np.where(seen, steps, -1), axis=1)
    index = np.where(before >= 0, before, seen.argmax(1)[:, None])
    return np.nan_to_num(np.take_along_axis(values, index, axis=1))


def _extremes(series: Series) -> dict[str, np.ndarray]:
    starts, seen = series.offsets[:-1], ~np.isnan(series.values)
    count = np.add.reduceat(seen, starts, axis=0)
    over = lambda how, fill: how.reduceat(np.where(seen, series.values, fill), starts, axis=0)
    known = np.where(count > 0, 1.0, np.nan)
    mean = over(np.add, 0.0) / np.maximum(count, 1) * known
    low, high = over(np.minimum, np.inf) * known, over(np.maximum, -np.inf) * known
    return {"count": count, "mean": mean, "lowest": low, "highest": high}


def _moments(series: Series) -> dict[str, np.ndarray]:
    """Deviation and slope, around each sample's own means: squares of large numbers would lose them."""
    starts, owner, seen = series.offsets[:-1], series.owner, ~np.isnan(series.values)
    count = np.maximum(np.add.reduceat(seen, starts, axis=0), 1)
    mean = lambda array: np.add.reduceat(np.where(seen, array, 0.0), starts, axis=0) / count
    clock = np.where(seen, series.times[:, None] - series.times[starts][owner][:, None], 0.0)
    value, time = (np.where(seen, array - mean(array)[owner], 0.0) for array in (series.values, clock))
    spread = mean(time**2)
    slope = np.where(spread > 0, mean(time * value) / np.where(spread > 0, spread, 1.0), 0.0)
    known = np.where(np.logical_or.reduceat(seen, starts, axis=0), 1.0, np.nan)
    return {"deviation": np.sqrt(mean(value**2)) * known, "slope": slope * known}


def _ends(series: Series) -> dict[str, np.ndarray]:
    newest, clock = _rows(series, first=False), np.broadcast_to(series.times[:, None], series.values.shape)
    ends = series.times[series.offsets[1:] - 1, None]
    oldest = _rows(series, first=True)
    found = {"last": _picked(series, newest, series.values), "first": _picked(series, oldest, series.values)}
    return {**found, "age": ends - _picked(series, newest, clock)}


def _rows(series: Series, *, first: bool) -> np.ndarray:
    """The row of each channel's first or last observation in each sample, -1 where there is none."""
    numbers, seen = np.arange(len(series.times))[:, None], ~np.isnan(series.values)
    if not first:
        return np.maximum.reduceat(np.where(seen, numbers, -1), series.offsets[:-1], axis=0)
    found = np.minimum.reduceat(np.where(seen, numbers, len(numbers)), series.offsets[:-1], axis=0)
    return np.where(found < len(numbers), found, -1)


def _picked(series: Series, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(rows >= 0, np.take_along_axis(values, np.maximum(rows, 0), axis=0), np.nan)

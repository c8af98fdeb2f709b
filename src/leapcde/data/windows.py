"""Forecasting: whole sequences -> windows to look back on, and what follows them, in steps or at times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leapcde.data.scale import Scaler
from leapcde.data.series import Series
from leapcde.errors import InputError

MOST = 2**31  # observations; no sequence has more
Horizon = int | Sequence[float]  # so many observations, or times after the last one


def windows(series: Series, length: int, horizon: int, *, stride: int = 1) -> Series:
    """Cut each sequence into inputs of `length` observations and targets of the `horizon` observations that follow.

    Windows of one sequence share its id, so that `split` can keep them on one side.

    >>> from leapcde.data.read import as_series
    >>> cut = windows(as_series(np.ones((2, 100, 14))), 50, 10, stride=10)
    >>> len(cut), cut.target.shape
    (10, (10, 10, 14))
    """
    if min(length, horizon, stride) < 1:
        raise InputError(f"window {length}, horizon {horizon}, stride {stride}: each must be at least 1")
    counts = np.maximum(0, (series.lengths - length - horizon) // stride + 1)
    if counts.sum() == 0:
        longest = int(series.lengths.max())
        raise InputError(f"no sequence is long enough: a window needs {length} + {horizon} points, the longest has {longest}")
    origin = np.repeat(np.arange(len(series)), counts)
    nth = np.arange(len(origin)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = series.offsets[origin] + nth * stride
    rows = starts[:, None] + np.arange(length)
    future = starts[:, None] + length + np.arange(horizon)
    return replace(
        series,
        times=series.times[rows].ravel(),
        values=series.values[rows].reshape(-1, series.values.shape[1]),
        offsets=np.arange(len(origin) + 1) * length,
        target=series.values[future],
        static=None if series.static is None else series.static[origin],
        ids=(np.arange(len(series)) if series.ids is None else series.ids)[origin],
    )


def windows_at(series: Series, length: int, offsets: np.ndarray, *, stride: int = 1) -> Series:
    """Cut each sequence into inputs of `length` observations and targets at so much time after each input's last one.

    Targets lie on the line between the observations around them; where there are none around, they are unknown (NaN).

    >>> from leapcde.data.read import as_series
    >>> windows_at(as_series([([0, 1, 3, 7], [0.0, 1.0, 3.0, 7.0])]), 2, np.array([1.0, 4.0])).target[:, :, 0].tolist()
    [[2.0, 5.0], [4.0, 7.0]]
    """
    if not len(offsets) or not (np.diff(offsets) > 0).all() or not (np.isfinite(offsets).all() and offsets[0] > 0):
        raise InputError(f"horizon {offsets.tolist()}: give increasing times, all after the last observation (above 0)")
    cut = windows(series, length, 1, stride=stride)
    ends = cut.times[cut.offsets[1:] - 1]
    counts = np.maximum(0, (series.lengths - length - 1) // stride + 1)  # of windows, which stand in the order of sequences
    first = np.cumsum(counts) - counts
    target = np.full((len(cut), len(offsets), series.values.shape[1]), np.nan)
    for i in range(len(series)):
        mine = slice(first[i], first[i] + counts[i])
        times, values = series.sample(i)
        for c in range(values.shape[1]):
            seen = ~np.isnan(values[:, c])
            if seen.any():
                asked = ends[mine, None] + offsets
                target[mine, :, c] = np.interp(asked, times[seen], values[seen, c], left=np.nan, right=np.nan)
    unknown = offsets[np.isnan(target).all((0, 2))]
    if len(unknown):
        raise InputError(
            f"horizon {', '.join(f'{offset:g}' for offset in unknown)}: no sequence goes on so long after a window of {length} "
            "observations, so there is nothing to learn from; leave these times out, or shorten the window"
        )
    return replace(cut, target=target).take(np.flatnonzero(~np.isnan(target).all((1, 2))))


def last_window(series: Series, length: int | None) -> Series:
    """The last `length` rows of each sample.

    >>> from leapcde.data.read import as_series
    >>> last_window(as_series([[1.0, 2.0, 3.0], [4.0]]), 2).values[:, 0].tolist()
    [2.0, 3.0, 4.0]
    """
    if length is None:
        return series
    position = np.arange(len(series.times)) - np.repeat(series.offsets[:-1], series.lengths)
    return series.keep_rows(position >= np.repeat(series.lengths - length, series.lengths))


def cut_windows(series: Series, window: int | None, horizon: Horizon, stride: int | None = None) -> Series:
    """Windows of sequences with what follows them, in steps or at times; windows half a horizon apart by default."""
    _check_counts(window=window, stride=stride)
    length = int(series.lengths.max()) if window is None else window
    rows = _rows(series, horizon)
    stride = stride or max(1, rows // 2)
    if in_steps(horizon):
        return windows(series, length, rows, stride=stride)
    return windows_at(series, length, np.asarray(horizon, float), stride=stride)


def auto_window(series: Series, horizon: Horizon) -> int:
    """As much past as three quarters of the sequences allow, at most 100 points.

    >>> from leapcde.data.read import as_series
    >>> auto_window(as_series(np.ones((3, 50, 1))), 10)
    40
    """
    rows = _rows(series, horizon)
    window = int(min(np.quantile(series.lengths, 0.25) - rows, 100))
    if window < 2:
        raise InputError(
            f"sequences are too short for a horizon of {horizon}: a quarter has {rows + 2} points or fewer; "
            "shorten the horizon, or give window="
        )
    return window


def in_steps(horizon: Horizon) -> bool:
    """Whether a horizon counts observations; else it lists times.

    >>> in_steps(10), in_steps([0.5, 2.0])
    (True, False)
    """
    return isinstance(horizon, (int, np.integer)) and not isinstance(horizon, bool)


def _rows(series: Series, horizon: Horizon) -> int:
    """How many observations a horizon spans, typically."""
    if in_steps(horizon):
        _check_counts(horizon=horizon)
        return int(horizon)  # pyright: ignore[reportArgumentType]
    try:
        furthest = float(np.max(np.asarray(horizon, float)))
        if np.ndim(horizon) != 1 or not np.isfinite(furthest):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"horizon {horizon!r}: give a number of steps, or a list of times after the last observation"
        ) from None
    return max(1, int(np.ceil(furthest / Scaler.fit(series).time_unit)))


def _check_counts(**counts: Any) -> None:
    for name, count in counts.items():
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if count is not None and not (whole and count < MOST):
            raise InputError(f"{name} {str(count)[:20]}: give a whole number of observations")

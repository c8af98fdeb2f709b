"""Forecasting: whole sequences -> windows to look back on, and what follows them, in steps or at times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leapcde.data.dates import told_time
from leapcde.data.scale import Scaler
from leapcde.data.series import Series, name_of
from leapcde.errors import InputError, Problems, meant

MOST = 2**31  # observations; no sequence has more
Horizon = int | Sequence[float]  # so many observations, or times after the last one
MOST_TO_JUDGE = 2000  # windows by which a model is judged: more say little else
A_TRAINING = (1000, 10_000)  # windows of an epoch, at least and at most, if there are so many


def windows(series: Series, length: int, horizon: int, *, stride: int = 1) -> Series:
    """Cut each sequence into inputs of `length` observations and targets of the `horizon` observations that follow.

    Windows of one sequence share its id, so that `split` can keep them on one side.

    >>> from leapcde.data.read import as_series
    >>> cut = windows(as_series(np.ones((2, 100, 14))), 50, 10, stride=10)
    >>> len(cut), cut.target.shape
    (10, (10, 10, 14))
    """
    return windows_from(series, window_starts(series, length, horizon, stride=stride), length, horizon)


def windows_at(series: Series, length: int, offsets: np.ndarray, *, stride: int = 1) -> Series:
    """Cut each sequence into inputs of `length` observations and targets at so much time after each input's last one.

    Targets lie on the line between the observations around them; where there are none around, they are unknown (NaN).

    >>> from leapcde.data.read import as_series
    >>> windows_at(as_series([([0, 1, 3, 7], [0.0, 1.0, 3.0, 7.0])]), 2, np.array([1.0, 4.0])).target[:, :, 0].tolist()
    [[2.0, 5.0], [4.0, 7.0]]
    """
    _check_offsets(offsets)
    cut = windows_from(series, window_starts(series, length, 1, stride=stride), length, tuple(map(float, offsets)))
    return _known(cut, length, offsets)


def window_starts(series: Series, length: int, rows: int, *, stride: int = 1) -> np.ndarray:
    """Rows of the series at which a window starts that `rows` rows of its sequence follow; every `stride`-th of a sequence.

    >>> from leapcde.data.read import as_series
    >>> window_starts(as_series(np.ones((2, 6, 1))), 3, 2).tolist()
    [0, 1, 6, 7]
    """
    if min(length, rows, stride) < 1:
        raise InputError(f"window {length}, horizon {rows}, stride {stride}: each must be at least 1")
    counts = np.maximum(0, (series.lengths - length - rows) // stride + 1)
    if counts.sum() == 0:
        longest = int(series.lengths.max())
        raise InputError(f"no sequence is long enough: a window needs {length} + {rows} points, the longest has {longest}")
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(series.offsets[:-1], counts) + nth * stride


def windows_from(series: Series, starts: np.ndarray, length: int, horizon: Horizon) -> Series:
    """The windows that start at these rows, with what follows them, in steps or at times (NaN where that is unknown)."""
    origin = np.searchsorted(series.offsets, starts, side="right") - 1
    rows = starts[:, None] + np.arange(length)
    if isinstance(horizon, (int, np.integer)):
        target = series.values[starts[:, None] + length + np.arange(horizon)]
    else:
        asked = series.times[starts + length - 1][:, None] + np.asarray(horizon, float)
        target = _values_at(series, origin, asked)
    return replace(
        series,
        times=series.times[rows].ravel(),
        values=series.values[rows].reshape(-1, series.values.shape[1]),
        offsets=np.arange(len(origin) + 1) * length,
        target=target,
        static=None if series.static is None else series.static[origin],
        ids=(np.arange(len(series)) if series.ids is None else series.ids)[origin],
        weights=None if series.weights is None else series.weights[origin],
    )


def focused(cut: Series, targets: Sequence[int] = (), known: Sequence[int] = ()) -> Series:
    """Windows of which only some channels are to be forecast (the others' future is unknown), and some are known ahead:
    their future values are statics. All channels are to be forecast where none are named.

    >>> from leapcde.data.read import as_series
    >>> cut = focused(windows(as_series(np.arange(12.0).reshape(1, 6, 2)), 3, 2), targets=[0], known=[1])
    >>> cut.target[0].tolist(), cut.static[0].tolist()
    ([[6.0, nan], [8.0, nan]], [7.0, 9.0])
    """
    target = np.asarray(cut.target)
    if len(known):
        ahead = target[:, :, list(known)].reshape(len(cut), -1)
        cut = replace(cut, static=ahead if cut.static is None else np.concatenate([cut.static, ahead], 1))
    if len(targets):
        asked = np.isin(np.arange(target.shape[2]), targets)
        cut = replace(cut, target=np.where(asked, target, np.nan))
    return cut


def roles(channels: Sequence[str], target: Sequence[str], known: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Numbers of the channels that are forecast, nothing if all are, and of those that are known ahead.

    >>> roles(["load", "heat", "holiday"], [], ["holiday"])
    ((0, 1), (2,))
    """
    problems, names = Problems(), list(channels)
    for name in dict.fromkeys([*target, *known]):
        if name not in names:
            problems.add(f"no channel {name!r}; {meant(name, names)}there are: {', '.join(names)}")
        elif name in target and name in known:
            problems.add(f"channel {name!r} cannot be known ahead and be forecast: name it once")
    if known and len(set(known)) >= len(names):
        problems.add("all channels are known ahead: nothing is left to forecast")
    problems.raise_if_any("these channels cannot be forecast")
    asked = list(target) or ([name for name in names if name not in known] if known else [])
    return tuple(names.index(name) for name in asked), tuple(names.index(name) for name in known)


def known_ahead(series: Series, horizon: Horizon, known: Sequence[int]) -> Series:
    """Samples up to their last row on which anything but the channels known ahead was observed, and these channels'
    values at what is asked after it as statics.

    >>> from leapcde.data.read import as_series
    >>> found = known_ahead(as_series([([0, 1, 2, 3], [[1, 5], [2, 6], [np.nan, 7], [np.nan, 8]])]), 2, [1])
    >>> found.lengths.tolist(), found.static.tolist()
    ([2], [[7.0, 8.0]])
    """
    others = [c for c in range(series.values.shape[1]) if c not in known]
    seen = np.asarray(~np.isnan(series.values[:, others]).all(1))
    ends = np.maximum.reduceat(np.where(seen, np.arange(len(seen)), -1), series.offsets[:-1])
    ends = np.where(ends < 0, series.offsets[:-1], ends)
    asked, problems = len(horizon) if isinstance(horizon, Sequence) else int(horizon), Problems()
    ahead = np.full((len(series), asked, len(known)), np.nan)
    for i, (end, stop) in enumerate(zip(ends, series.offsets[1:], strict=True)):
        last = told_time(float(series.times[stop - 1]))
        if in_steps(horizon):
            ahead[i, : stop - end - 1] = series.values[end + 1 : stop][:asked, known]
            missing = asked - (stop - end - 1)
            lacks = f"{missing} of {asked} rows are missing after {last}" if missing > 0 else ""
        else:
            when = series.times[end] + np.asarray(horizon, float)
            ahead[i] = _values_at(series, np.array([i]), when[None])[0][:, known]
            lacks = (
                f"they end at {last}, and are asked until {told_time(when[-1])}" if when[-1] > series.times[stop - 1] else ""
            )
        if lacks:
            names = ", ".join(series.channels[c] for c in known)
            problems.add(f"{name_of(series, i)}: {lacks}; give {names} for all of the horizon, the others empty")
    problems.raise_if_any("what is known ahead ends too early")
    owner, flat = series.owner, ahead.reshape(len(series), -1)
    kept = series.keep_rows(np.arange(len(seen)) <= ends[owner])
    return replace(kept, static=flat if series.static is None else np.concatenate([series.static, flat], 1))


def _values_at(series: Series, origin: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Values of sequences `origin`, which rise, at the times asked of each: on the line between observations."""
    found = np.full((*asked.shape, series.values.shape[1]), np.nan)
    for i in np.unique(origin):
        mine = slice(*np.searchsorted(origin, [i, i + 1]))
        times, values = series.sample(int(i))
        for c in range(values.shape[1]):
            seen = ~np.isnan(values[:, c])
            if seen.any():
                found[mine, :, c] = np.interp(asked[mine], times[seen], values[seen, c], left=np.nan, right=np.nan)
    return found


def _check_offsets(offsets: np.ndarray) -> None:
    if not len(offsets) or not (np.diff(offsets) > 0).all() or not (np.isfinite(offsets).all() and offsets[0] > 0):
        raise InputError(f"horizon {offsets.tolist()}: give increasing times, all after the last observation (above 0)")


def _known(cut: Series, length: int, offsets: np.ndarray) -> Series:
    """The windows of which something that follows is known; a time of which nothing is known is an error."""
    empty = np.isnan(np.asarray(cut.target))
    unknown = offsets[empty.all((0, 2))]
    if len(unknown):
        raise InputError(
            f"horizon {', '.join(f'{offset:g}' for offset in unknown)}: no sequence goes on so long after a window of {length} "
            "observations, so there is nothing to learn from; leave these times out, or shorten the window"
        )
    return cut.take(np.flatnonzero(~empty.all((1, 2))))


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


def cut_windows(
    series: Series, window: int | None, horizon: Horizon, stride: int | None = None, most: int = MOST_TO_JUDGE
) -> Series:
    """Windows of sequences with what follows them, in steps or at times: every `stride` rows, or every one if there are at
    most so many, else so many that are spread evenly over the rows and over every cycle of them.

    >>> from leapcde.data.read import as_series
    >>> len(cut_windows(as_series(np.ones((1, 9000, 1))), 24, 6)), len(cut_windows(as_series(np.ones((1, 90, 1))), 24, 6))
    (2000, 61)
    """
    check_counts(window=window, stride=stride)
    length = int(series.lengths.max()) if window is None else window
    starts = window_starts(series, length, _rows_needed(horizon), stride=stride or 1)
    if stride is None and len(starts) > most:
        starts = starts[spread(len(starts), most)]
    cut = windows_from(series, starts, length, horizon)
    return cut if in_steps(horizon) else _known(cut, length, np.asarray(horizon, float))


def spread(total: int, count: int, seed: Sequence[int] = (0,)) -> np.ndarray:
    """So many of the numbers below `total`: one of each `count`-th part, at a random place in it.

    Steps that are all alike would meet a daily cycle at the same few hours.

    >>> len(set(spread(24_000, 1000) % 24))
    24
    """
    place = np.random.default_rng(list(seed)).random(count)
    return ((np.arange(count) + place) * (total / count)).astype(int)


@dataclass(frozen=True, eq=False)
class FreshWindows:
    """Windows of sequences that start elsewhere in every epoch: as many in each, from the seed and the epoch's number.

    >>> from leapcde.data.read import as_series
    >>> fresh = FreshWindows(as_series(np.arange(9000.0)[None, :, None]), 24, 6, 100)
    >>> len(fresh(0, 1)), (fresh(0, 1).values == fresh(0, 2).values).all()
    (100, np.False_)
    """

    series: Series
    length: int
    horizon: Horizon
    count: int
    targets: tuple[int, ...] = ()  # channels, see `focused`
    known: tuple[int, ...] = ()

    def __call__(self, seed: int, epoch: int) -> Series:
        starts = window_starts(self.series, self.length, _rows_needed(self.horizon))
        starts = starts[spread(len(starts), self.count, (seed, epoch))]
        return focused(windows_from(self.series, starts, self.length, self.horizon), self.targets, self.known)


def training_windows(
    series: Series, length: int, horizon: Horizon, stride: int | None = None
) -> tuple[Series, FreshWindows | None]:
    """Windows to look at once, and where there are more, those of every epoch: so many that half a horizon lies between
    them, or 1,000 if that is more, or 10,000 if that is less. With a stride, they are what it says."""
    if stride is not None:
        return cut_windows(series, length, horizon, stride), None
    total = len(window_starts(series, length, _rows_needed(horizon)))
    count = int(np.clip(2 * total // max(2, horizon_rows(series, horizon)), *A_TRAINING))
    fresh = FreshWindows(series, length, horizon, count) if total > count else None
    return cut_windows(series, length, horizon, most=count), fresh


def auto_window(series: Series, horizon: Horizon) -> int:
    """As much past as three quarters of the sequences allow, at most 100 points.

    >>> from leapcde.data.read import as_series
    >>> auto_window(as_series(np.ones((3, 50, 1))), 10)
    40
    """
    rows = horizon_rows(series, horizon)
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


def horizon_rows(series: Series, horizon: Horizon) -> int:
    """How many observations a horizon spans, typically.

    >>> from leapcde.data.read import as_series
    >>> horizon_rows(as_series([([0, 2, 4], [1.0, 2.0, 3.0])]), [1.0, 5.0])
    3
    """
    if in_steps(horizon):
        check_counts(horizon=horizon)
        return int(horizon)  # pyright: ignore[reportArgumentType]
    furthest = float(np.max(_times_ahead(horizon)))
    return max(1, int(np.ceil(furthest / Scaler.fit(series).time_unit)))


def check_counts(**counts: Any) -> None:
    """Numbers of observations must be whole, and none that no sequence has.

    >>> check_counts(window=24, stride=None)
    """
    for name, count in counts.items():
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if count is not None and not (whole and 0 <= count < MOST):
            raise InputError(f"{name} {str(count)[:20]}: give a whole number of observations")


def _rows_needed(horizon: Horizon) -> int:
    """Rows that must follow a window; of what is asked at times, a part may be unknown."""
    if in_steps(horizon):
        check_counts(horizon=horizon)
        return int(horizon)  # pyright: ignore[reportArgumentType]
    _check_offsets(_times_ahead(horizon))
    return 1


def _times_ahead(horizon: Horizon) -> np.ndarray:
    try:
        found = np.asarray(horizon, float)
        if found.ndim != 1 or not found.size or not np.isfinite(found).all():
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"horizon {str(horizon)[:40]}: give a number of steps, or a list of times after the last observation"
        ) from None
    return found

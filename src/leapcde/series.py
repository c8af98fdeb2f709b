"""Series: ragged, irregular, partly missing multivariate time series, validated once.

All samples lie end to end in flat arrays; `offsets` says where each begins. Nothing is padded here, so a data set
costs what its observations cost, and everything below is vectorised over all samples at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .errors import InputError, Problems


@dataclass(frozen=True, eq=False)
class Series:
    """M samples, each with its own times and values (NaN = not observed). Make one with `as_series` or `from_table`.

    >>> series = as_series([([0, 1, 3], [[1, 2], [3, float("nan")], [5, 6]]), ([0, 2], [[7, 8], [9, 10]])])
    >>> len(series), series.channels, series.lengths.tolist()
    (2, ('x0', 'x1'), [3, 2])
    >>> series.sample(1)[0].tolist()
    [0.0, 2.0]
    """

    times: np.ndarray  # (rows,)
    values: np.ndarray  # (rows, channels), NaN where nothing was observed
    offsets: np.ndarray  # (samples + 1,)
    channels: tuple[str, ...]
    target: np.ndarray | None = None  # (samples, ...): labels, numbers, or future values (horizon, channels)
    static: np.ndarray | None = None  # (samples, features), NaN allowed
    ids: np.ndarray | None = None  # (samples,): a patient, a sequence; windows of one sequence share its id

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """The sample to which each row belongs."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def sample(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of one sample."""
        rows = slice(self.offsets[i], self.offsets[i + 1])
        return self.times[rows], self.values[rows]

    def take(self, samples: Sequence[int] | np.ndarray) -> Series:
        """The given samples, in the given order."""
        samples = np.asarray(samples)
        if samples.dtype == bool:
            samples = np.flatnonzero(samples)
        lengths = self.lengths[samples]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[samples] - offsets[:-1], lengths)
        pick = lambda array: None if array is None else array[samples]  # noqa: E731
        return replace(
            self,
            times=self.times[rows],
            values=self.values[rows],
            offsets=offsets,
            target=pick(self.target),
            static=pick(self.static),
            ids=pick(self.ids),
        )

    def keep_rows(self, keep: np.ndarray) -> Series:
        """Only the rows where `keep` is true; samples stay, possibly shorter."""
        counts = np.add.reduceat(keep, self.offsets[:-1]) if len(keep) else np.zeros(len(self), int)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return replace(self, times=self.times[keep], values=self.values[keep], offsets=offsets)


def as_series(
    data: Any,
    *,
    times: Any = None,
    target: Any = None,
    static: Any = None,
    channels: Sequence[str] | None = None,
) -> Series:
    """Make a `Series` from what people have.

    `data` is one of: a `Series`; a list of `(times, values)` pairs; a list of 2-D arrays (time, channel), or of 1-D
    arrays for one channel; a 3-D array (sample, time, channel) with NaN, or a 2-D array (sample, time). For arrays,
    `times` may be shared (time,) or per sample (sample, time), and rows at the end of a sample that are NaN in every
    channel are padding. Without times, observations count 0, 1, 2, …

    >>> as_series(np.ones((4, 10, 3))).lengths.tolist()
    [10, 10, 10, 10]
    """
    if isinstance(data, Series):
        series = data
    else:
        pairs = _pairs(data, times)
        if not pairs:
            raise InputError("there are no samples: the data is empty")
        series = _join(pairs, channels)
    if target is not None:
        series = replace(series, target=_column(target, "target"))
    if static is not None:
        series = replace(series, static=_numbers(static, "static", Problems()).reshape(len(series), -1))
    return check(series)


def from_table(
    table: Any,
    *,
    id: str,
    time: str,
    values: Sequence[str] | None = None,
    target: str | None = None,
    static: Sequence[str] = (),
) -> Series:
    """Make a `Series` from a long table (pandas or polars): one row an observation time, one column a channel.

    Rows may come in any order. `target` and `static` columns hold one value a sample, repeated on its rows.
    Dates and times become seconds.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"patient": [1, 1, 2], "hour": [0, 2, 0], "hr": [80, None, 95], "sick": [0, 0, 1]})
    >>> series = from_table(table, id="patient", time="hour", target="sick")
    >>> series.channels, series.lengths.tolist(), series.target.tolist()
    (('hr',), [2, 1], [0, 1])
    """
    columns = [str(column) for column in table.columns]
    named = [id, time, *static, *([target] if target else []), *(values or [])]
    problems = Problems()
    for column in dict.fromkeys(named):
        if column not in columns:
            problems.add(f"no column {column!r}; the table has: {', '.join(columns)}")
    problems.raise_if_any("cannot read the table")
    if len(table) == 0:
        raise InputError("cannot read the table: it has no rows")
    channels = list(values) if values else [c for c in columns if c not in named]
    if not channels:
        raise InputError("cannot read the table: no column is left for the values")

    keys = np.asarray(table[id].to_numpy())
    missing = _missing(keys)
    if missing.any():
        raise InputError(f"cannot read the table: column {id!r} is empty in row {int(np.argmax(missing))}")
    clock = _clock(np.asarray(table[time].to_numpy()), time, problems)
    matrix = np.stack([_numbers(table[c].to_numpy(), f"column {c!r}", problems, text_ok=False) for c in channels], 1)
    extra = [_numbers(table[c].to_numpy(), f"column {c!r}", problems, text_ok=False) for c in static]
    problems.raise_if_any("cannot read the table")

    ids, owner = np.unique(keys.astype(str) if keys.dtype == object else keys, return_inverse=True)
    order = np.lexsort((clock, owner))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(ids)))])
    series = Series(clock[order], matrix[order], offsets, tuple(channels), ids=ids)
    if target:
        column = _column(table[target].to_numpy(), target)[order]
        series = replace(series, target=_one_each(column, series, target, problems))
    if extra:
        columns_of = [_one_each(c[order], series, name, problems) for c, name in zip(extra, static, strict=True)]
        series = replace(series, static=np.stack(columns_of, 1))
    problems.raise_if_any("cannot read the table")
    return check(series)


def check(series: Series) -> Series:
    """Return the series if it is sound; otherwise raise one error that lists every problem.

    >>> check(as_series([([0, 1], [1.0, 2.0])])).lengths.tolist()
    [2]
    """
    problems = Problems()
    name = lambda i: f"sample {i}" if series.ids is None else f"sample {i} (id {series.ids[i]})"  # noqa: E731
    for i in np.flatnonzero(series.lengths == 0):
        problems.add(f"{name(i)}: no observations; leave the sample out")
    owner = series.owner
    bad = ~np.isfinite(series.times)
    for row in _first_rows(bad, owner):
        problems.add(f"{name(owner[row])}: time {series.times[row]} at position {_position(series, row)}; times must be finite")
    same = owner[1:] == owner[:-1]
    gap = np.diff(series.times)
    for row in _first_rows(same & (gap < 0), owner[1:]):
        problems.add(
            f"{name(owner[row])}: times go backwards at position {_position(series, row + 1)} "
            f"({series.times[row]:g} then {series.times[row + 1]:g}); sort each sample by time"
        )
    for row in _first_rows(same & (gap == 0), owner[1:]):
        problems.add(
            f"{name(owner[row])}: time {series.times[row]:g} appears twice at position {_position(series, row + 1)}; merge such rows"
        )
    infinite = np.isinf(series.values)
    for row in _first_rows(infinite.any(1), owner):
        channel = series.channels[int(np.argmax(infinite[row]))]
        problems.add(
            f"{name(owner[row])}, channel {channel!r}: infinite value at position {_position(series, row)}; use NaN for missing"
        )
    for label, array in (("target", series.target), ("static", series.static)):
        if array is not None and len(array) != len(series):
            problems.add(f"{label}: {len(array)} entries for {len(series)} samples; give one for each")
    if series.static is not None and np.isinf(series.static).any():
        problems.add("static: infinite value; use NaN for missing")
    problems.raise_if_any("the series cannot be used")
    return series


def _pairs(data: Any, times: Any) -> list[tuple[Any, Any]]:
    """Bring every accepted form to a list of (times or None, values)."""
    if hasattr(data, "columns"):
        raise InputError("a table needs column names: use leapcde.from_table(table, id=…, time=…)")
    if isinstance(data, (str, bytes, dict)) or not hasattr(data, "__len__"):
        raise InputError(f"cannot read series from {type(data).__name__}: give a list of (times, values), or an array")
    if hasattr(data, "ndim"):
        return _split_array(np.asarray(data), times)
    if times is not None:
        if len(times) != len(data):
            raise InputError(f"times: {len(times)} entries for {len(data)} samples; give one for each")
        return list(zip(times, data, strict=True))
    return [(item[0], item[1]) if isinstance(item, tuple) and len(item) == 2 else (None, item) for item in data]


def _split_array(array: np.ndarray, times: Any) -> list[tuple[Any, Any]]:
    if array.ndim not in (2, 3):
        raise InputError(f"cannot read series from a {array.ndim}-D array: give (sample, time, channel) or (sample, time)")
    array = array[..., None] if array.ndim == 2 else array
    if array.size == 0:
        raise InputError(f"there are no observations: the array has shape {array.shape}")
    if array.dtype.kind not in "fiub":
        raise InputError(f"the array holds {array.dtype} values; give numbers, with NaN for missing")
    samples, length, _ = array.shape
    clock = np.arange(length, dtype=float) if times is None else _numbers(times, "times", Problems())
    if clock.shape not in ((length,), (samples, length)):
        raise InputError(f"times has shape {clock.shape}; expected ({length},) or ({samples}, {length})")
    clock = np.broadcast_to(clock, (samples, length))
    observed = ~np.isnan(array.astype(float, copy=False)).all(2)
    ends = length - np.argmax(observed[:, ::-1], axis=1)
    # A sample without a single observation keeps its rows: it is the path's business to call it constant.
    ends = np.where(observed.any(1), ends, length)
    return [(clock[i, : ends[i]], array[i, : ends[i]]) for i in range(samples)]


def _join(pairs: list[tuple[Any, Any]], channels: Sequence[str] | None) -> Series:
    problems = Problems()
    clocks, blocks = [], []
    for i, (clock, block) in enumerate(pairs):
        block = _numbers(block, f"sample {i}", problems)
        block = block[:, None] if block.ndim == 1 else block
        clock = np.arange(len(block), dtype=float) if clock is None else _clock(np.asarray(clock), f"sample {i}", problems)
        if block.ndim != 2:
            problems.add(f"sample {i}: values have shape {block.shape}; give (time, channel)")
        elif clock.shape != (len(block),):
            problems.add(f"sample {i}: {clock.size} times for {len(block)} rows of values; give one time a row")
        clocks.append(clock)
        blocks.append(block)
    width = len(channels) if channels is not None else next((b.shape[1] for b in blocks if b.ndim == 2 and b.size), 1)
    for i, block in enumerate(blocks):
        if block.ndim == 2 and block.size and block.shape[1] != width:
            problems.add(f"sample {i}: {block.shape[1]} channels, expected {width} as in the others")
    problems.raise_if_any("the series cannot be used")
    names = tuple(channels) if channels is not None else tuple(f"x{c}" for c in range(width))
    offsets = np.concatenate([[0], np.cumsum([len(b) for b in blocks])])
    blocks = [b.reshape(len(b), width) for b in blocks]
    return Series(np.concatenate(clocks), np.concatenate(blocks), offsets, names)


def _numbers(values: Any, where: str, problems: Problems, *, text_ok: bool = True) -> np.ndarray:
    """A float array; text and other non-numbers become a problem instead of an exception."""
    try:
        array = np.asarray(values)
        if array.dtype == np.float32:
            return array
        if array.dtype.kind == "M" or (array.dtype.kind in "US" and not text_ok):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        text = next((v for v in np.ravel(np.asarray(values, dtype=object)) if isinstance(v, str)), None)
        shown = f"text ({text!r})" if text is not None else "values that are not numbers"
        problems.add(f"{where}: {shown}; encode it as numbers, name it as target, or leave it out")
        return np.zeros(np.shape(np.asarray(values, dtype=object)))


def _clock(values: np.ndarray, where: str, problems: Problems) -> np.ndarray:
    if values.dtype.kind == "M":
        seconds = values.astype("datetime64[ns]").astype(np.int64) / 1e9
        return np.where(np.isnat(values), np.nan, seconds)
    return np.atleast_1d(_numbers(values, f"{where} (times)", problems, text_ok=False)).astype(np.float64)


def _column(values: Any, name: str) -> np.ndarray:
    """A target as people give it: numbers stay numbers, anything else becomes text labels."""
    array = np.asarray(values)
    if array.dtype == object:
        if _missing(array).any():
            raise InputError(f"target {name!r} is empty in row {int(np.argmax(_missing(array)))}; every sample needs one")
        array = array.astype(str)
    return array


def _one_each(column: np.ndarray, series: Series, name: str, problems: Problems) -> np.ndarray:
    """One value a sample from a column that repeats it on every row."""
    first = column[series.offsets[:-1]]
    again = np.repeat(first, series.lengths)
    differs = (column != again) & ~(_missing(column) & _missing(again))
    for row in _first_rows(differs, series.owner):
        sample = series.ids[series.owner[row]] if series.ids is not None else series.owner[row]
        problems.add(f"column {name!r} changes within sample {sample}; it must hold one value a sample")
    return first


def _missing(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype == object:
        return np.array([v is None or v != v for v in array.ravel()]).reshape(array.shape)
    return np.zeros(array.shape, bool)


def _first_rows(bad: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The first bad row of each sample that has one: one line a sample is enough to find the rest."""
    rows = np.flatnonzero(bad)
    return rows[np.unique(owner[rows], return_index=True)[1]]


def _position(series: Series, row: int) -> int:
    return int(row - series.offsets[series.owner[row]])

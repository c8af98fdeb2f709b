"""Series: ragged, irregular, partly missing multivariate time series, validated once.

All samples lie end to end in flat arrays; `offsets` says where each begins. Nothing is padded here, so a data set
costs what its observations cost, and everything below is vectorised over all samples at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex

import numpy as np

from leapcde.data.store.mapped import alike, is_mapped, let_go
from leapcde.errors import SHOWN, InputError, Problems

BLOCK = 2**16  # rows
EACH = ("target", "static", "ids", "weights")  # what a series has for each sample; a target may be one of each row


def blocks(offsets: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """(first, stop) of samples that lie one after the other and have at most so many rows together, or are one.

    >>> list(blocks(np.array([0, 2, 4, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    first = 0
    while first < len(offsets) - 1:
        stop = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        yield first, (stop := max(stop, first + 1))
        first = stop


def join(parts: Sequence[Series]) -> Series:
    """Samples of several series, one after the other. All must have the same channels and kinds of features.

    >>> from leapcde.data.read import as_series
    >>> join([as_series([[1.0, 2.0]]), as_series([[3.0]])]).values[:, 0].tolist()
    [1.0, 2.0, 3.0]
    """
    first, problems = parts[0], Problems()
    for i, part in enumerate(parts):
        if part.channels != first.channels:
            problems.add(f"part {i}: channels {', '.join(part.channels)}; part 0 has {', '.join(first.channels)}")
        if part.categories != first.categories:
            problems.add(f"part {i}: has other categories than part 0; read both with the same categories=")
        if part.per_row != first.per_row:
            problems.add(f"part {i}: has targets per {part.target_per}, part 0 per {first.target_per}")
        for name in ("target", "static", "weights"):
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                problems.add(f"part {i}: {name} is given for some parts only; give it for all or none")
    problems.raise_if_any("the series cannot be joined")
    each = {name: [getattr(part, name) for part in parts] for name in EACH}
    whole = {name: None if any(a is None for a in arrays) else np.concatenate(arrays) for name, arrays in each.items()}
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([part.lengths for part in parts]))])
    times, values = (np.concatenate([getattr(part, name) for part in parts]) for name in ("times", "values"))
    return replace(first, times=times, values=values, offsets=offsets, **whole)


@dataclass(frozen=True, eq=False, repr=False)
class Series:
    """M samples, each with its own times and values (NaN = not observed). Make one with `as_series` or `from_table`.

    >>> from leapcde.data.read import as_series
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
    target: np.ndarray | None = None  # (samples, ...): labels, numbers, or future values (horizon, channels); see `target_per`
    static: np.ndarray | None = None  # (samples, features), NaN allowed
    ids: np.ndarray | None = None  # (samples,): a patient, a sequence; windows of one sequence share its id
    weights: np.ndarray | None = None  # (samples,): how much each counts; all the same without
    static_names: tuple[str, ...] = ()  # of the features, where they have any
    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of columns that are channels or statics "sex=f"
    target_names: tuple[str, ...] = ()  # names of several targets, where they have any
    target_per: str = "sample"  # or "row": then the target is (rows,), NaN or "" where a row has none

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """The sample to which each row belongs."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def per_row(self) -> bool:
        """Whether every row has a target of its own."""
        return self.target_per == "row"

    @property
    def target_weights(self) -> np.ndarray | None:
        """How much each target counts: as much as its sample."""
        return np.repeat(self.weights, self.lengths) if self.per_row and self.weights is not None else self.weights

    @property
    def missing(self) -> float:
        """The share of values that are missing."""
        return sum(int(np.isnan(part.values).sum()) for part in self.blocks()) / max(self.values.size, 1)

    def sample(self, i: SupportsIndex) -> tuple[np.ndarray, np.ndarray]:
        """Times and values of one sample."""
        i = range(len(self))[i]
        rows = slice(self.offsets[i], self.offsets[i + 1])
        return self.times[rows], self.values[rows]

    def __getitem__(self, i: Any) -> Series:
        """One sample or some: by a number, a slice, numbers, or a yes or no for each.

        >>> from leapcde.data.read import as_series
        >>> series = as_series(np.zeros((5, 4, 2)))
        >>> len(series[-1]), len(series[:3]), len(series[[0, 4]]), len(series[np.arange(5) > 2])
        (1, 3, 2, 2)
        """
        if isinstance(i, slice):
            return self.take(np.arange(len(self))[i])
        index = np.asarray(i)
        if index.shape == (len(self),) and index.dtype == bool:
            return self.take(np.flatnonzero(index))
        if index.ndim > 1 or (index.size and index.dtype.kind not in "iu"):
            raise InputError(f"series[{i!r}]: give a number, a slice, numbers, or a yes or no for each of {len(self)} samples")
        return self.take([range(len(self))[k] for k in np.atleast_1d(index).tolist()])  # scikit-learn picks one by one

    def __repr__(self) -> str:
        least, most = (int(self.lengths.min()), int(self.lengths.max())) if len(self) else (0, 0)
        names = ", ".join(self.channels[:SHOWN]) + (", …" if len(self.channels) > SHOWN else "")
        target = "no target" if self.target is None else f"a target of each {self.target_per}"
        rows = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        return f"Series({len(self):,} samples of {rows} rows, {len(self.channels)} channels ({names}), {target})"

    def part(self, first: int, stop: int) -> Series:
        """Samples that lie one after the other; nothing is copied."""
        rows = slice(int(self.offsets[first]), int(self.offsets[stop]))
        each = {name: getattr(self, name) for name in EACH}
        at = {name: rows if self._of_rows(name) else slice(first, stop) for name in EACH}
        each = {name: None if array is None else array[at[name]] for name, array in each.items()}
        offsets = self.offsets[first : stop + 1] - self.offsets[first]
        return replace(self, times=self.times[rows], values=self.values[rows], offsets=offsets, **each)

    def blocks(self, rows: int | None = None) -> Iterator[Series]:
        """All samples, in parts of about so many rows: what is made of each need not be in memory for all."""
        for first, stop in blocks(self.offsets, rows or BLOCK):
            yield self.part(first, stop)
            let_go(self.times, self.values)

    def take(self, samples: Sequence[int] | np.ndarray) -> Series:
        """The given samples, in the given order."""
        index = np.asarray(samples)
        samples = np.arange(len(self))[index if index.size else index.astype(int)]
        lengths = self.lengths[samples]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        times, values = (alike(array, (int(offsets[-1]), *array.shape[1:])) for array in (self.times, self.values))
        # An index of all rows would be large too; and of a file much more is mapped around what is asked for here and there.
        for first, stop in blocks(offsets, BLOCK // 16 if is_mapped(self.values) else BLOCK):
            here = slice(int(offsets[first]), int(offsets[stop]))
            moved = self.offsets[samples[first:stop]] - offsets[first:stop]
            rows = np.arange(here.start, here.stop) + np.repeat(moved, lengths[first:stop])
            times[here], values[here] = self.times[rows], self.values[rows]
            let_go(self.times, self.values, times, values)
        each = {name: getattr(self, name) for name in EACH}
        each = {name: None if array is None else array[samples] for name, array in each.items() if not self._of_rows(name)}
        if self.per_row and self.target is not None:
            each["target"] = self.target[np.arange(offsets[-1]) + np.repeat(self.offsets[samples] - offsets[:-1], lengths)]
        return replace(self, times=times, values=values, offsets=offsets, **each)

    def _of_rows(self, name: str) -> bool:
        """Whether there is one of each row, and not of each sample."""
        return name == "target" and self.per_row

    def keep_rows(self, keep: np.ndarray) -> Series:
        """Only the rows where `keep` is true; samples stay, possibly shorter."""
        counts = np.add.reduceat(keep, self.offsets[:-1]) if len(keep) else np.zeros(len(self), int)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        times, values = (alike(array, (int(offsets[-1]), *array.shape[1:])) for array in (self.times, self.values))
        for first, stop in blocks(self.offsets, BLOCK):
            rows = slice(int(self.offsets[first]), int(self.offsets[stop]))
            here, kept = slice(int(offsets[first]), int(offsets[stop])), keep[rows]
            times[here], values[here] = self.times[rows][kept], self.values[rows][kept]
            let_go(self.times, self.values, times, values)
        target = self.target[keep] if self.per_row and self.target is not None else self.target
        return replace(self, times=times, values=values, offsets=offsets, target=target)


def check(series: Series) -> Series:
    """Return the series if it is sound; otherwise raise one error that lists every problem.

    >>> from leapcde.data.read import as_series
    >>> check(as_series([([0, 1], [1.0, 2.0])])).lengths.tolist()
    [2]
    """
    return check_and_raise(series, Problems(), "the series cannot be used")


def check_and_raise(series: Series, problems: Problems, what: str, row_name: Callable[[int], str] | None = None) -> Series:
    """Add what is wrong with the series to the problems found while reading it, and raise if there are any.

    `row_name` says what a row of the series is called where it came from.
    """
    for i in np.flatnonzero(series.lengths == 0):
        problems.add(f"{name_of(series, i)}: no observations; leave the sample out")
    if not (series.lengths.all() and all(map(_is_sound, series.blocks()))):
        _check_rows(series, problems, row_name)
    _check_each(series, problems)
    problems.raise_if_any(what)
    return series


def _is_sound(part: Series) -> bool:
    """Whether nothing is wrong with the rows of a part."""
    if not np.isfinite(part.times).all() or np.isinf(part.values).any():
        return False
    later = np.diff(part.times) > 0
    later[part.offsets[1:-1] - 1] = True
    return bool(later.all())


def _check_rows(series: Series, problems: Problems, row_name: Callable[[int], str] | None) -> None:
    at = lambda row: f"position {_position(series, row)}" + ("" if row_name is None else f" ({row_name(int(row))})")
    _check_times(series, problems, at)
    infinite, owner = np.asarray(np.isinf(series.values)), series.owner
    for row in first_rows(infinite.any(1), owner):
        channel = series.channels[int(np.argmax(infinite[row]))]
        where = f"{name_of(series, owner[row])}, channel {channel!r}"
        problems.add(f"{where}: infinite value at {at(row)}; use NaN for missing")


def _check_each(series: Series, problems: Problems) -> None:
    for label, array in (("target", series.target), ("static", series.static), ("weights", series.weights)):
        count, what = (len(series.times), "rows") if label == "target" and series.per_row else (len(series), "samples")
        if array is not None and len(array) != count:
            problems.add(f"{label}: {len(array)} entries for {count} {what}; give one for each")
    if series.static is not None and np.isinf(series.static).any():
        row = int(np.argmax(np.isinf(series.static).any(1)))
        problems.add(f"static: infinite value for sample {row}; use NaN for missing")
    if series.weights is not None:
        _check_weights(series, problems)


def known_targets(target: np.ndarray) -> np.ndarray:
    """Where there is a target: rows without one have NaN, or no text.

    >>> known_targets(np.array([1.0, np.nan])).tolist(), known_targets(np.array(["", "ill"])).tolist()
    ([True, False], [False, True])
    """
    if target.dtype.kind == "f":
        return ~np.isnan(target)
    return target != "" if target.dtype.kind == "U" else np.ones(len(target), bool)


def uneven(weights: np.ndarray | None) -> np.ndarray | None:
    """The weights of samples, or None where all count the same: then nothing is to be weighed.

    >>> uneven(np.ones(3)), uneven(np.array([1.0, 2.0])).tolist()
    (None, [1.0, 2.0])
    """
    return None if weights is None or bool(np.all(weights == weights[0])) else weights


def counting(series: Series) -> Series:
    """Without samples of weight 0, which are to be as if they were not there; without weights that are all the same."""
    if series.weights is None:
        return series
    kept = series if np.all(series.weights > 0) else series.take(np.flatnonzero(series.weights > 0))
    return replace(kept, weights=uneven(kept.weights))


def _check_weights(series: Series, problems: Problems) -> None:
    weights = np.asarray(series.weights)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    for i in np.flatnonzero(wrong)[:1] if weights.ndim == 1 else ():
        where = name_of(series, i) if i < len(series) else f"entry {i}"
        more = f", and {wrong.sum() - 1} others are none" if wrong.sum() > 1 else ""
        problems.add(f"weights: {where} has {weights[i]:g}{more}; a weight is a number, 0 or larger")
    if weights.ndim != 1:
        problems.add(f"weights: of shape {weights.shape}; give one number a sample")
    elif len(weights) and not weights.any():
        problems.add("weights: all are zero, so no sample counts; leave them out, or give some above 0")


def _check_times(series: Series, problems: Problems, at: Callable[[Any], str]) -> None:
    times, owner = series.times, series.owner
    bad = np.asarray(~np.isfinite(times))
    for row in first_rows(bad, owner):
        what = f"time {times[row]} at {at(row)}"
        problems.add(f"{name_of(series, owner[row])}: {what}; times must be finite")
    same = (owner[1:] == owner[:-1]) & ~bad[1:] & ~bad[:-1]
    gap = np.diff(np.where(bad, 0.0, times))
    for row in first_rows(same & (gap < 0), owner[1:]):
        what = f"times go backwards at {at(row + 1)} ({times[row]:.12g} then {times[row + 1]:.12g})"
        problems.add(f"{name_of(series, owner[row])}: {what}; sort each sample by time")
    for row in first_rows(same & (gap == 0), owner[1:]):
        what = f"time {times[row]:.12g} appears twice at {at(row + 1)}"
        problems.add(f"{name_of(series, owner[row])}: {what}; merge such rows")


def name_of(series: Series, i: Any) -> str:
    return f"sample {i}" if series.ids is None else f"sample {i} (id {series.ids[i]})"


def first_rows(bad: Any, owner: np.ndarray) -> np.ndarray:
    """The first bad row of each sample that has one: one line a sample is enough to find the rest."""
    rows = np.flatnonzero(bad)
    return rows[np.unique(owner[rows], return_index=True)[1]]


def _position(series: Series, row: np.integer) -> int:
    return int(row - series.offsets[series.owner[row]])

"""From validated series to padded arrays: scaling, dropping, splits, padding.

Everything random takes its own seed, and everything learned (means, deviations, the unit of time) is learned from
training data only, in `Scaler.fit`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from .errors import InputError, choose
from .series import Series

BLOCK = 2**16  # rows


@dataclass(frozen=True)
class Scaler:
    """Mean and deviation of each channel, and the typical gap between observations. Learned from training data only.

    >>> from leapcde.series import as_series
    >>> scaler = Scaler.fit(as_series([([0, 2, 4], [1.0, 2.0, 3.0])]))
    >>> scaler.mean, scaler.time_unit
    ((2.0,), 2.0)
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    time_unit: float
    static_mean: tuple[float, ...] = ()
    static_std: tuple[float, ...] = ()

    @classmethod
    def fit(cls, series: Series) -> Scaler:
        mean, std = _moments(series.values)
        s_mean, s_std = _moments(series.static) if series.static is not None else ((), ())
        return cls(mean, std, _typical_gap(series), s_mean, s_std)

    def apply(self, series: Series) -> Series:
        """Standardised values; times in typical gaps since each sample's start; missing statics at their mean."""
        starts = np.repeat(series.times[series.offsets[:-1]], series.lengths)
        static = None
        if series.static is not None:
            static = (series.static - np.array(self.static_mean)) / np.array(self.static_std)
            static = np.nan_to_num(static).astype(np.float32)
        return replace(
            series,
            values=self.scale(series.values),
            times=(series.times - starts) / self.time_unit,
            static=static,
        )

    def scale(self, values: np.ndarray) -> np.ndarray:
        """In double precision, and block by block: a whole data set in doubles would be the largest thing in memory."""
        scaled, mean, std = np.empty(values.shape, np.float32), np.array(self.mean), np.array(self.std)
        for start in range(0, len(values), BLOCK):
            scaled[start : start + BLOCK] = (values[start : start + BLOCK] - mean) / std
        return scaled

    def unscale(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64) * np.array(self.std) + np.array(self.mean)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scaler:
        lists = {key: tuple(value) for key, value in data.items() if key != "time_unit"}
        return cls(time_unit=data["time_unit"], **lists)


class Padded(NamedTuple):
    """A batch of samples brought to one length by repeating each sample's last time, with nothing observed there."""

    times: Any  # (batch, length) in typical gaps since the sample's start
    values: Any  # (batch, length, channels), 0 where not observed
    mask: Any  # (batch, length, channels), 1 where observed
    last: Any  # (batch, channels), each channel's last observed value, 0 if there is none
    static: Any  # (batch, features), possibly of width 0
    target: Any  # (batch, ...) or None

    @property
    def length(self) -> int:
        return self.times.shape[1]


def drop(series: Series, rate: float, *, seed: int = 56789, what: Literal["times", "values"] = "times") -> Series:
    """Forget a fixed share of each sample: whole time points, or single values.

    Time points without any observation left are removed, except the first and last of each sample: they keep the
    window in which the sample was watched, so that a forecaster still knows from when it forecasts.

    >>> from leapcde.series import as_series
    >>> drop(as_series(np.ones((1, 10, 2))), 0.5).values[:, 0].tolist().count(1.0)
    5
    """
    if not 0 <= rate < 1:
        raise InputError(f"drop rate {rate}: give a share from 0 up to, but not including, 1")
    choose("kind of dropping", what, ("times", "values"))
    generator = np.random.default_rng(seed)
    width = 1 if what == "times" else series.values.shape[1]
    noise = generator.random((len(series.times), width))
    # Rank the noise within each sample: the int(rate * n) lowest ranks go, so the share is exact for every sample.
    owner = series.owner
    rank = np.empty_like(noise, dtype=np.int64)
    for c in range(width):
        order = np.lexsort((noise[:, c], owner))
        rank[order, c] = np.arange(len(owner)) - series.offsets[owner[order]]
    gone = rank < (rate * series.lengths).astype(int)[owner][:, None]
    return without_empty_rows(replace(series, values=np.where(gone, np.nan, series.values)))


def without_empty_rows(series: Series) -> Series:
    """Remove inner time points at which no channel was observed; each sample's first and last stay."""
    keep = np.logical_not(np.isnan(series.values).all(1))
    keep[series.offsets[:-1]] = True
    keep[series.offsets[1:] - 1] = True
    return series.keep_rows(keep)


def hold_out(
    series: Series, share: float, *, labels: np.ndarray | None = None, by_id: bool = False, seed: int = 0
) -> tuple[Series, Series | None]:
    """(what is left, what is held out): a random share, of every class where `labels` are given, of whole ids if `by_id`.

    None is held out where there is too little; a class with fewer than four samples is never taken from training.

    >>> from leapcde.series import as_series
    >>> [len(part) for part in hold_out(as_series(np.ones((20, 5, 1))), 0.15)]
    [17, 3]
    """
    if not 0 <= share < 1:
        raise InputError(f"share {share} to hold out: give a number from 0 up to, but not including, 1")
    generator = np.random.default_rng(seed)
    groups = np.zeros(len(series)) if labels is None else labels
    if by_id and series.ids is not None:
        held = _whole_ids(series.ids, share, generator)
    else:
        parts = [generator.permutation(np.flatnonzero(groups == group)) for group in np.unique(groups)]
        held = np.concatenate([part[: round(share * len(part)) if len(part) >= 4 else 0] for part in parts])
    if not len(held):
        return series, None
    keep = np.setdiff1d(np.arange(len(series)), held)
    return series.take(keep), series.take(np.sort(held))


def _whole_ids(ids: np.ndarray, share: float, generator: np.random.Generator) -> np.ndarray:
    """Samples of randomly chosen ids; of fewer than four ids, the last samples of each, which are the latest windows."""
    names = np.unique(ids)
    if len(names) >= 4:
        return np.flatnonzero(np.isin(ids, generator.permutation(names)[: max(1, round(share * len(names)))] if share else []))
    mine = [np.flatnonzero(ids == name) for name in names]
    return np.concatenate([part[len(part) - round(share * len(part)) :] for part in mine])


def split(
    series: Series, *, labels: np.ndarray | None = None, by_id: bool = False, ordered: bool = False
) -> tuple[Series, Series, Series]:
    """70 / 15 / 15 % for training, validation and test. The split never depends on the seed of a run.

    `labels` stratifies; `by_id` keeps all samples of an id together; `ordered` cuts by the order of ids.

    >>> from leapcde.series import as_series
    >>> tuple(len(part) for part in split(as_series(np.ones((100, 5, 1)))))
    (70, 15, 15)
    """
    if len(series) < 3:
        raise InputError(f"{len(series)} samples cannot be split into training, validation and test; give at least 3")
    if by_id or ordered:
        parts = _split_by_id(series, ordered)
    else:
        everything = np.arange(len(series))
        size, strata = _train_size(len(series)), _strata(labels, everything, 0.3)
        train, rest = train_test_split(everything, train_size=size, random_state=0, stratify=strata)
        val, test = train_test_split(rest, train_size=0.5, random_state=1, stratify=_strata(labels, np.asarray(rest), 0.5))
        parts = [train, val, test]
    train, val, test = (series.take(part) for part in parts)
    return train, val, test


def pad(series: Series, length: int | None = None) -> Padded:
    """Bring samples to one length (the longest, or `length`), all at once. `series` is scaled already.

    >>> from leapcde.series import as_series
    >>> pad(as_series([([0, 1], [5.0, 6.0]), ([0], [7.0])])).times.tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    lengths = series.lengths
    length = int(lengths.max()) if length is None else length
    step = np.minimum(np.arange(length), lengths[:, None] - 1)
    rows = series.offsets[:-1, None] + step
    inside = np.arange(length) < lengths[:, None]
    values = series.values[rows]
    mask = inside[..., None] & ~np.isnan(values)
    values = np.where(mask, values, 0.0).astype(np.float32)
    at = length - 1 - np.argmax(mask[:, ::-1], axis=1)
    last = np.where(mask.any(1), np.take_along_axis(values, at[:, None], 1)[:, 0], 0.0)
    static = np.zeros((len(series), 0), np.float32) if series.static is None else series.static
    return Padded(
        times=series.times[rows].astype(np.float32),
        values=values,
        mask=mask.astype(np.float32),
        last=last.astype(np.float32),
        static=static.astype(np.float32),
        target=series.target,
    )


def buckets(lengths: np.ndarray, most: int = 4, waste: float = 1.15) -> list[tuple[int, np.ndarray]]:
    """Group samples by length: (padded length, samples) for as few groups as keep the padding below `waste`.

    >>> [(length, len(samples)) for length, samples in buckets(np.array([10] * 50 + [100] * 50))]
    [(10, 50), (100, 50)]
    """
    order = np.argsort(lengths, kind="stable")
    groups: list[np.ndarray] = []
    for count in range(1, most + 1):
        groups = [group for group in np.array_split(order, count) if len(group)]
        if sum(len(g) * lengths[g[-1]] for g in groups) <= waste * lengths.sum():
            break
    merged: dict[int, list[np.ndarray]] = {}
    for group in groups:
        merged.setdefault(int(lengths[group[-1]]), []).append(group)
    return [(length, np.sort(np.concatenate(parts))) for length, parts in merged.items()]


def _moments(values: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    seen = ~np.isnan(values)
    if np.abs(values, where=seen, out=np.zeros(values.shape)).max(initial=0.0) > 1e150:
        raise InputError("values above 1e150 are too large to be standardised; use other units, or NaN if they mean nothing")
    count = np.maximum(seen.sum(0), 1)
    filled = np.where(seen, values, 0.0).astype(np.float64)
    mean = filled.sum(0) / count
    std = np.sqrt((np.where(seen, filled - mean, 0.0) ** 2).sum(0) / count)
    # A constant channel carries no scale of its own; dividing by one leaves it at zero. What counts as constant is
    # relative: a channel in small units, such as farads, varies too.
    std = np.where(std <= 1e-12 * np.abs(mean), 1.0, std)
    return tuple(map(float, mean)), tuple(map(float, std))


def _typical_gap(series: Series) -> float:
    same = np.diff(series.owner) == 0
    gaps = np.diff(series.times)[same]
    return float(np.median(gaps)) if len(gaps) else 1.0


def _train_size(count: int) -> int:
    """70 %, rounded down; of very few, one each stays for validation and test."""
    return min(int(0.7 * count), count - 2)


def _strata(labels: np.ndarray | None, samples: np.ndarray, share: float) -> np.ndarray | None:
    """Labels to stratify by, or None where a class is too rare to be on both sides."""
    if labels is None:
        return None
    _, counts = np.unique(labels[samples], return_counts=True)
    fits = counts.min() >= 2 and len(counts) <= min(share, 1 - share) * len(samples)
    return labels[samples] if fits else None


def _split_by_id(series: Series, ordered: bool) -> list[np.ndarray]:
    ids = np.arange(len(series)) if series.ids is None else series.ids
    names = np.unique(ids)
    if len(names) < 3:
        raise InputError(f"{len(names)} sequences cannot be split by sequence; give at least 3")
    if ordered:
        first = min(round(0.7 * len(names)), len(names) - 2)
        second = min(max(round(0.85 * len(names)), first + 1), len(names) - 1)
        cuts = np.split(names, [first, second])
        return [np.flatnonzero(np.isin(ids, cut)) for cut in cuts]
    everything = np.arange(len(series))
    size = _train_size(len(names))
    train, rest = next(GroupShuffleSplit(1, train_size=size, random_state=0).split(everything, groups=ids))
    val, test = next(GroupShuffleSplit(1, train_size=0.5, random_state=1).split(rest, groups=ids[rest]))
    return [train, rest[val], rest[test]]

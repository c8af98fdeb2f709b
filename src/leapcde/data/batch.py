"""Ragged samples -> one padded block, in groups of similar length."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from leapcde.data.series import Series


class Padded(NamedTuple):
    """A batch of samples brought to one length by repeating each sample's last time, with nothing observed there."""

    times: Any  # (batch, length) in typical gaps since the sample's start
    values: Any  # (batch, length, channels), 0 where not observed
    mask: Any  # (batch, length, channels), 1 where observed
    last: Any  # (batch, channels), each channel's last observed value, 0 if there is none
    static: Any  # (batch, features), possibly of width 0
    target: Any  # (batch, ...) or None; where each row has one (batch, length, ...), -1 or NaN where there is none
    weights: Any = None  # (batch,): how much each sample counts, or None

    @property
    def length(self) -> int:
        return self.times.shape[1]


def pad(series: Series, length: int | None = None) -> Padded:
    """Bring samples to one length (the longest, or `length`), all at once. `series` is scaled already.

    >>> from leapcde.data.read import as_series
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
        target=_padded_target(series, rows, inside),
        weights=None if series.weights is None else series.weights.astype(np.float32),
    )


def _padded_target(series: Series, rows: np.ndarray, inside: np.ndarray) -> np.ndarray | None:
    """Targets of samples as they are; those of rows as values are, with none where there is no row."""
    if series.target is None or not series.per_row:
        return series.target
    found = series.target[rows]
    found[~inside] = np.nan if found.dtype.kind == "f" else -1
    return found


WASTE = 1.15  # how much longer padding may make samples on average, before one more length is compiled
FEW_ROWS, FEW_WASTE = 50_000, 2.0  # rows up to which they may be so much longer, in `tight_buckets`
MOST_ENDS = 256  # lengths that `tight_buckets` looks at


def buckets(lengths: np.ndarray, most: int = 4, waste: float = WASTE) -> list[tuple[int, np.ndarray]]:
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


def tight_buckets(lengths: np.ndarray, most: int = 4, waste: float = WASTE) -> list[tuple[int, np.ndarray]]:
    """As `buckets`, but groups end where padding is least, not where each has as many samples.

    Where a few samples are far longer than the others, as stays in a hospital are, a quarter of all would be padded to the
    longest of them. Where there are few rows, padding costs less than compiling.

    >>> [(length, len(samples)) for length, samples in tight_buckets(np.array([40] * 9_000 + [50] * 9_000 + [300] * 90))]
    [(50, 18000), (300, 90)]
    """
    ends, counts = _few_lengths(lengths)
    allowed = lengths.sum() * (waste if lengths.sum() > FEW_ROWS else max(waste, FEW_WASTE))
    below = np.concatenate([[0], np.cumsum(counts)])
    one = (ends * (below[1:] - below[:-1, None])).astype(float)  # (first, last): padded rows of a group of these lengths
    one[np.tri(len(ends), k=-1, dtype=bool)] = np.inf
    cost, cuts = one[0], [[i] for i in range(len(ends))]  # up to each length: the padded rows, and the ends of the groups
    while len(cuts[-1]) < min(most, len(ends)) and cost[-1] > allowed:
        more = np.vstack([np.full(len(ends), np.inf), cost[:-1, None] + one[1:]])  # (where the last group starts, its end)
        start, cost = more.argmin(0), more.min(0)
        cuts = [[*cuts[start[i] - 1], i] for i in range(len(ends))]
    chosen = ends[cuts[-1]]
    group = np.searchsorted(chosen, lengths)
    return [(int(length), np.flatnonzero(group == i)) for i, length in enumerate(chosen)]


def _few_lengths(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lengths at which groups may end, and how many samples each stands for: all that there are, or some of very many."""
    ends = np.unique(lengths)
    if len(ends) > MOST_ENDS:
        ends = ends[np.linspace(0, len(ends) - 1, MOST_ENDS).astype(int)]
    return ends, np.bincount(np.searchsorted(ends, lengths), minlength=len(ends))

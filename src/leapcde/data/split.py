"""Which samples train, which choose, which test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from leapcde.data.dates import told_time
from leapcde.data.series import Series, known_targets
from leapcde.data.windows import FreshWindows, Horizon, auto_window, horizon_rows
from leapcde.errors import InputError

DRAWS = 50  # random choices of groups to hold out, of which the one with the best balance of classes is taken
SHARES = (0.7, 0.15, 0.15)  # of training, validation and test
FEW = 10  # sequences, of which a part is too few to train on all of time: the window is to fit the training part


def hold_out(
    series: Series, share: float, *, labels: np.ndarray | None = None, by_id: bool = False, seed: int = 0
) -> tuple[Series, Series | None]:
    """(what is left, what is held out): a random share, of every class where `labels` are given, of whole ids if `by_id`.

    None is held out where there is too little; a class with fewer than four samples is never taken from training.

    >>> from leapcde.data.read import as_series
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


def folds(series: Series, labels: np.ndarray, count: int, *, seed: int = 0) -> np.ndarray:
    """The number of the part, below `count`, of each sample: as many of every class in each, and all samples of an id in one.

    >>> from leapcde.data.read import as_series
    >>> folds(as_series(np.ones((6, 5, 1))), np.array([0, 1, 0, 1, 0, 1]), 3).tolist()
    [2, 0, 1, 2, 0, 1]
    """
    ids = np.arange(len(series)) if series.ids is None else np.asarray(series.ids)
    _, first, owner = np.unique(ids, return_index=True, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(first))
    order = order[np.argsort(labels[first][order], kind="stable")]
    part = np.empty(len(first), int)
    part[order] = np.arange(len(first)) % count
    return part[owner.reshape(-1)]


def strata(target: Any) -> np.ndarray:
    """Classes as they are; of rows of labels, the rarest that each has."""
    found = np.asarray(target)
    return found if found.ndim == 1 else rarest(found)


def rarest(labels: np.ndarray) -> np.ndarray:
    """Of rows of 0 and 1, which is the rarest label that each has, from 1; 0 where it has none. To stratify by.

    >>> rarest(np.array([[1, 0], [1, 1], [0, 0], [1, 0]])).tolist()
    [1, 2, 0, 1]
    """
    order = np.argsort(labels.sum(0), kind="stable")
    has = labels[:, order] > 0
    return np.where(has.any(1), order[has.argmax(1)] + 1, 0)


def sample_labels(series: Series) -> np.ndarray:
    """What to stratify samples by: their class, or the rarest of their labels or of the classes of their rows.

    >>> from leapcde.data.read import as_series
    >>> sample_labels(as_series([[1, 2, 3], [4, 5, 6]], target=[[0, 0, 1], [0, 0, np.nan]], target_per="row")).tolist()
    [1, 0]
    """
    target = np.asarray(series.target)
    if not series.per_row:
        return strata(target)
    there = known_targets(target)
    _, number, counts = np.unique(target[there], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")  # the commonest first
    place = np.zeros(len(target), int)
    place[there] = np.argsort(order)[number]
    return np.maximum.reduceat(place, series.offsets[:-1])


def hold_out_groups(series: Series, share: float, *, by_class: bool = False, seed: int = 0) -> tuple[Series, Series | None]:
    """(what is left, what is held out), without a group on both sides; ids are the groups.

    Of some random choices of groups, that with the nearest to the share asked for of all samples, and of each class
    if `by_class`.

    >>> from dataclasses import replace
    >>> from leapcde.data.read import as_series
    >>> visits = replace(as_series(np.ones((20, 5, 1))), ids=np.repeat(np.arange(5), 4))
    >>> [sorted(set(part.ids.tolist())) for part in hold_out_groups(visits, 0.2)]
    [[0, 1, 3, 4], [2]]
    """
    if not 0 <= share < 1:
        raise InputError(f"share {share} to hold out: give a number from 0 up to, but not including, 1")
    if share == 0:
        return series, None
    names, group = np.unique(np.asarray(series.ids), return_inverse=True)
    if len(names) < 2:
        raise InputError(f"groups: all samples are of one group ({names[0]}), so none can be held out; give no groups")
    labels = sample_labels(series) if by_class else np.zeros(len(series))
    classes = np.unique(labels, return_inverse=True)[1].reshape(-1)
    count = np.zeros((len(names), classes.max() + 1))
    np.add.at(count, (group, classes), 1)
    generator, size = np.random.default_rng(seed), max(1, min(round(share * len(names)), len(names) - 1))
    tried = [generator.permutation(len(names))[:size] for _ in range(DRAWS)]
    off = lambda chosen: np.abs(count[chosen].sum(0) / count.sum(0) - share).max()
    held = np.isin(group, min(tried, key=off))
    return series.take(np.flatnonzero(~held)), series.take(np.flatnonzero(held))


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

    >>> from leapcde.data.read import as_series
    >>> tuple(len(part) for part in split(as_series(np.ones((100, 5, 1)))))
    (70, 15, 15)
    """
    if len(series) < 3:
        raise InputError(
            f"too few samples: {len(series)} samples cannot be split into training, validation and test; give at least 3"
        )
    if by_id or ordered:
        parts = _split_by_id(series, ordered)
    else:
        from sklearn.model_selection import train_test_split

        everything = np.arange(len(series))
        size, strata = _train_size(len(series)), _strata(labels, everything, 0.3)
        train, rest = train_test_split(everything, train_size=size, random_state=0, stratify=strata)
        val, test = train_test_split(rest, train_size=0.5, random_state=1, stratify=_strata(labels, np.asarray(rest), 0.5))
        parts = [train, val, test]
    train, val, test = (series.take(part) for part in parts)
    return train, val, test


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
    from sklearn.model_selection import GroupShuffleSplit

    everything = np.arange(len(series))
    size = _train_size(len(names))
    train, rest = next(GroupShuffleSplit(1, train_size=size, random_state=0).split(everything, groups=ids))
    val, test = next(GroupShuffleSplit(1, train_size=0.5, random_state=1).split(rest, groups=ids[rest]))
    return [train, rest[val], rest[test]]


class Divided(NamedTuple):
    """Data for training, for the choice of weights and for intervals; and windows that are others in every epoch."""

    train: Series
    validation: Series | None
    calibration: Series | None
    fresh: FreshWindows | None = None


class InTime(NamedTuple):
    """Parts of sequences that follow each other in time, the window that fits them, and what there is to say about it."""

    parts: list[Series | None]  # whole sequences; nothing for a share of 0
    window: int
    cuts: np.ndarray | None  # times at which all sequences are cut; nothing where each has a clock of its own
    missing: str  # why there are no such parts; nothing if there are


def split_in_time(series: Series, horizon: Horizon, *, window: int | None = None, shares: Sequence[float] = SHARES) -> InTime:
    """Cut sequences to be forecast into parts that follow each other in time.

    What is forecast lies wholly in its own part; a window may look back on rows of the part before. Sequences on one
    clock (dates) are cut at the same times, others each after the same share of its rows.

    >>> from leapcde.data.read import as_series
    >>> found = split_in_time(as_series(np.arange(1000.0)[None, :, None]), 10, window=50)
    >>> [(int(part.times[0]), int(part.times[-1])) for part in found.parts]
    [(0, 699), (650, 849), (800, 999)]
    """
    rows, length = horizon_rows(series, horizon), window or auto_window(series, horizon)
    if window is None and len(series) < FEW:
        length = max(2, min(length, (int(shares[0] * np.quantile(series.lengths, 0.25)) - rows) // 2))
    edges = np.cumsum(shares)[:-1]
    cuts = _common_cuts(series, edges) if len(series) == 1 or on_one_clock(series) else None
    before = _rows_before(series, edges, cuts)
    parts = [_part(series, early, late, length) if share else None for share, (early, late) in zip(shares, before, strict=True)]
    short = [part is None or bool((part.lengths < length + rows).all()) for part in parts]
    missing = any(lacks and share for lacks, share in zip(short, shares, strict=True))
    smallest = min(share for share in shares if share)
    why = f"too short: the last {smallest:.0%} must hold {rows} rows, and the first {shares[0]:.0%} {length} + {rows}"
    return InTime(parts, length, cuts, why if missing else "")


def on_one_clock(series: Series) -> bool:
    """Whether times of different samples can be compared, as dates can; hours since each one's start cannot.

    >>> from leapcde.data.read import as_series
    >>> on_one_clock(as_series([([0, 5], [1, 2]), ([1, 4], [1, 2])])), on_one_clock(as_series([([2019, 2024], [1, 2])]))
    (False, True)
    """
    starts, ends = series.times[series.offsets[:-1]], series.times[series.offsets[1:] - 1]
    return bool(np.median(np.abs(starts) - (ends - starts)) > 0)


def told_in_time(found: InTime, names: Sequence[str] = ("train", "choose the weights", "test")) -> str:
    """How sequences were split, in words."""
    if found.cuts is None:
        shares = ("the first 70 % of each sequence", "the next 15 %", "the last 15 %")
        return "by time: " + ", ".join(f"{share} {name}" for share, name in zip(shares, names, strict=True))
    early, late = (told_time(float(cut)) for cut in found.cuts)
    return f"by time: rows before {early} {names[0]}, rows before {late} {names[1]}, later ones {names[2]}"


def split_by_start(series: Series) -> tuple[Series, Series, Series]:
    """70 / 15 / 15 % for training, validation and test in the order in which samples start.

    >>> from leapcde.data.read import as_series
    >>> found = split_by_start(as_series([([day, day + 1], [1.0, 2.0]) for day in range(19999, 20019)][::-1]))
    >>> [sorted(part.times[::2].astype(int).tolist()) for part in found[1:]]
    [[20013, 20014, 20015], [20016, 20017, 20018]]
    """
    starts = series.times[series.offsets[:-1]]
    if len(series) < 3 or not np.ptp(starts) > 0:
        raise InputError("the split by time needs samples on one clock, such as dates: these all start at the same time")
    order = np.argsort(starts, kind="stable")
    early, late = _train_size(len(series)), max(_train_size(len(series)) + 1, round(0.85 * len(series)))
    train, val, test = (series.take(np.sort(part)) for part in np.split(order, [early, min(late, len(series) - 1)]))
    return train, val, test


def split_by_group(series: Series, groups: np.ndarray) -> tuple[Series, Series, Series]:
    """About 70 / 15 / 15 % of the groups, with all samples of a group on one side.

    >>> from leapcde.data.read import as_series
    >>> parts = split_by_group(as_series(np.ones((40, 5, 1))), np.arange(40) // 4)
    >>> [len(part) for part in parts]
    [28, 4, 8]
    """
    if len(np.unique(groups)) < 3:
        raise InputError(f"{len(np.unique(groups))} groups cannot be split into training, validation and test; give at least 3")
    train, val, test = (series.take(part) for part in _split_by_id(replace(series, ids=groups), ordered=False))
    return train, val, test


def _common_cuts(series: Series, edges: np.ndarray) -> np.ndarray:
    """Times before which these shares of all rows lie."""
    return np.sort(series.times)[(edges * len(series.times) + 1e-9).astype(int).clip(max=len(series.times) - 1)]


def _rows_before(series: Series, edges: np.ndarray, cuts: np.ndarray | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """(first, last + 1) own row of each sequence in each part."""
    if cuts is None:
        inner = [np.floor(edge * series.lengths + 1e-9).astype(int) for edge in edges]
    else:
        inner = [np.add.reduceat(series.times < cut, series.offsets[:-1], dtype=int) for cut in cuts]
    ends = [np.zeros(len(series), int), *inner, series.lengths]
    return list(pairwise(ends))


def _part(series: Series, early: np.ndarray, late: np.ndarray, back: int) -> Series | None:
    """Rows `early` to `late` of each sequence, with so many before them to look back on; sequences without own rows go."""
    mine = np.flatnonzero(late > early)
    if not len(mine):
        return None
    some, early, late = series.take(mine), early[mine], late[mine]
    place = np.arange(len(some.times)) - np.repeat(some.offsets[:-1], some.lengths)
    from_row, to_row = (np.repeat(edge, some.lengths) for edge in (np.maximum(early - back, 0), late))
    return some.keep_rows((place >= from_row) & (place < to_row))

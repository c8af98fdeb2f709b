"""Which samples train, which choose, which test."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, train_test_split

from leapcde.data.series import Series
from leapcde.errors import InputError

DRAWS = 50  # random choices of groups to hold out, of which the one with the best balance of classes is taken


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


def hold_out_groups(
    series: Series, share: float, *, labels: np.ndarray | None = None, seed: int = 0
) -> tuple[Series, Series | None]:
    """(what is left, what is held out), without a group on both sides; ids are the groups.

    Of some random choices of groups, that with the nearest to the share asked for of all samples, and of each class
    where `labels` are given.

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
    classes = np.zeros(len(series), int) if labels is None else np.unique(labels, return_inverse=True)[1].reshape(-1)
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

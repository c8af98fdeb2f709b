"""Classes and numbers after each row, from summaries of the rows so far: nothing in them looks ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from leapcde.baselines.tabular import apart, class_scores, side_by_side
from leapcde.baselines.trees import Arrays, first_rounds, fit_trees, sums
from leapcde.data.series import Series, known_targets, uneven
from leapcde.training.metrics import measure
from leapcde.training.preprocess import Preprocessor

MOST = 150_000_000  # cells of the table that trees learn from: neighbouring rows tell the same, and memory is not endless
BLOCK = 100_000  # rows whose summaries are made at once
ROUNDS = (25, 50, 100, 200)  # of boosted trees; those that are best on validation samples are taken
JUDGED = 50_000  # rows of validation samples that choose the rounds


def running_features(series: Series) -> np.ndarray:
    """What `summary.features` says of a sample, of the rows up to each: (row, number). NaN for a channel not yet observed.

    That is, of each channel: how many observations, their mean, lowest, highest, last, first, deviation and slope, and how
    old the last is; then how long the sample has lasted, in how many rows, and its statics.

    >>> from leapcde.data.read import as_series
    >>> running_features(as_series([([0, 1, 3], [[1.0], [5.0], [3.0]])])).round(2)[:, :5].tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0], [2.0, 3.0, 1.0, 5.0, 5.0], [3.0, 3.0, 1.0, 5.0, 3.0]]
    """
    owner, channels = series.owner, series.values.shape[1]
    wide = 0 if series.static is None else series.static.shape[1]
    found = np.empty((len(owner), 9 * channels + 2 + wide), np.float32)
    for c in range(channels):
        found[:, c : 9 * channels : channels] = _channel(series, owner, series.values[:, c].astype(float))
    starts = series.offsets[:-1][owner]
    found[:, 9 * channels] = series.times - series.times[starts]
    found[:, 9 * channels + 1] = np.arange(len(owner)) - starts + 1
    if series.static is not None:
        found[:, 9 * channels + 2 :] = series.static[owner]
    return found


def class_prior(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    _, labels, weights = of.known(np.zeros(len(train.times)), train)
    each = None if weights is None else weights / weights.mean()
    counts = np.bincount(labels, weights=each, minlength=of.spec.output[0])
    return {"answer": np.log((counts + 1) / (counts + 1).sum()).astype(np.float32)}


def mean_target(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    _, target, weights = of.known(np.zeros(len(train.times)), train)
    return {"answer": np.average(target, axis=0, weights=weights).astype(np.float32)}


def constant(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return np.broadcast_to(found["answer"], (len(series.times), *found["answer"].shape)).copy()


def trees_for_classes(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=ROUNDS) -> Arrays:
    """Rounds are chosen on whole samples: rows held out at random are known from their neighbours, and would stop nothing."""
    x, y, each = _table(train, of)
    grown = fit_trees(x, y, classes=of.spec.output[0], seed=seed, weights=each, rounds=int(max(strengths)))
    return _best([first_rounds(grown, int(rounds)) for rounds in strengths], validation, of)


def tree_classes(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return np.concatenate([class_scores(found, running_features(part), of) for part in _blocks(series)])


def trees_for_numbers(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=ROUNDS) -> Arrays:
    """As `trees_for_classes`, with as many rounds for each number."""
    x, y, each = _table(train, of)
    grown = [fit_trees(x, column, seed=seed, weights=each, rounds=int(max(strengths))) for column in y.T]
    tried = [side_by_side([first_rounds(one, int(rounds)) for one in grown]) for rounds in strengths]
    return _best(tried, validation, of)


def tree_numbers(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    return np.concatenate([_numbers(running_features(part), found) for part in _blocks(series)])


def _numbers(table: np.ndarray, found: Arrays) -> np.ndarray:
    return np.concatenate([sums(one, table) for one in apart(found)], axis=1)


def _best(tried: list[Arrays], validation: Series, of: Preprocessor) -> Arrays:
    """The one whose loss on validation rows is lowest; of those that are as good, the smallest."""
    if len(tried) == 1:
        return tried[0]
    x, y, each = _table(validation, of, JUDGED)
    if of.task == "classification":
        return min(tried, key=lambda found: measure(of.task, class_scores(found, x, of), y, each)["loss"])
    return min(tried, key=lambda found: measure(of.task, _numbers(x, found), y, each)["mse"])


def _table(train: Series, of: Preprocessor, most: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Summaries, targets and weights of rows that have a target, spread evenly over all where they are too many."""
    there = np.flatnonzero(known_targets(np.asarray(train.target)))
    most = most or max(1, MOST // (9 * train.values.shape[1] + 2))
    kept = there if len(there) <= most else there[np.linspace(0, len(there) - 1, most).astype(int)]
    parts, first = [], 0
    for part in _blocks(train):
        inside = kept[(kept >= first) & (kept < first + len(part.times))]
        parts.append(running_features(part)[inside - first])
        first += len(part.times)
    weights = train.target_weights
    weights = None if weights is None else uneven(weights[kept])
    target = of.encode_target(np.asarray(train.target)[kept])
    return np.concatenate(parts), target, None if weights is None else weights / weights.mean()


def _blocks(series: Series) -> Iterator[Series]:
    """All samples, in parts of about so many rows."""
    cuts = np.unique(np.searchsorted(series.offsets, np.arange(0, series.offsets[-1], BLOCK)))
    for part in np.split(np.arange(len(series)), cuts[1:-1] if len(cuts) > 2 else cuts[1:]):
        if len(part):
            yield series.take(part)


def _channel(series: Series, owner: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The summaries of one channel at every row: (row, 9), in the order of `summary.ALL`."""
    seen, rows, starts = ~np.isnan(x), np.arange(len(x)), series.offsets[:-1]
    last = np.maximum.accumulate(np.where(seen, rows, -1))
    there = last >= starts[owner]
    first = np.minimum.reduceat(np.where(seen, rows, len(x)), starts)[owner]
    first = np.where(there, first, 0)
    total = lambda a: _so_far(np.where(seen, a, 0.0), starts, owner)
    count = total(1.0)
    mean = lambda a: total(a) / np.maximum(count, 1)
    # Around each sample's first observation: sums of large numbers would lose what is small.
    d, t = np.where(seen, x - x[first], 0.0), np.where(seen, series.times - series.times[first], 0.0)
    d_mean, t_mean = mean(d), mean(t)
    spread = np.maximum(mean(t * t) - t_mean**2, 0.0)
    some = spread > 1e-9 * np.maximum(t_mean**2, 1e-300)
    slope = np.where(some, (mean(t * d) - t_mean * d_mean) / np.where(some, spread, 1.0), 0.0)
    deviation = np.sqrt(np.maximum(mean(d * d) - d_mean**2, 0.0))
    low, high = -_highest(-x, seen, owner), _highest(x, seen, owner)
    age = series.times - series.times[last]
    found = [x[first] + d_mean, low, high, x[last], x[first], deviation, slope, age]
    return np.stack([count, *(np.where(there, one, np.nan) for one in found)], axis=1)


def _so_far(a: np.ndarray, starts: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The sum of each sample's rows up to each."""
    total = np.concatenate([[0.0], np.cumsum(a)])
    return total[1:] - total[starts][owner]


def _highest(x: np.ndarray, seen: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The highest observation of each sample up to each row: by ranks, above which the number of the sample counts."""
    values = np.unique(x[seen])
    if not len(values):
        return x
    rank = np.where(seen, np.searchsorted(values, np.where(seen, x, values[0])), -1) + 1
    step = len(values) + 1
    found = np.maximum.accumulate(owner * step + rank) - owner * step
    return values[np.maximum(found - 1, 0)]

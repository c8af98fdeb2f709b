"""Tests: the paper's paired t-test, one that respects overlapping windows, and ranks over data sets.

Windows cut with stride one share all but one of their points, so their errors are not independent, and a t-test over windows
claims far too much. The bootstrap beside it draws whole sequences, which are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

RESAMPLES = 10_000
LEVEL = 0.05


class Paired(NamedTuple):
    """One-sided: small p says that `ours` has the smaller error."""

    t: float
    p: float
    df: int


class Boot(NamedTuple):
    difference: float  # mean error of ours minus the other's
    low: float  # 95 % interval
    high: float
    p: float  # one-sided
    clusters: int


class Ranks(NamedTuple):
    average: dict[str, float]  # 1 is best
    critical_difference: float  # two models whose ranks differ by less are not significantly different (Nemenyi)
    friedman_p: float
    wilcoxon_p: dict[tuple[str, str], float]  # two-sided, by pairs
    sets: int


class Lead(NamedTuple):
    difference: float  # score of ours minus the other's
    low: float  # 95 % interval
    high: float
    samples: int


def lead(metric: str, truth: np.ndarray, ours: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> Lead:
    """How far `ours` is ahead in accuracy or AUROC on the same samples; both are one array a seed: class scores, or what
    they come to, the class (accuracy) or the score of the second of two (AUROC).

    The interval is for other samples of the same kind. An AUROC is a mean over positives of how many negatives lie below,
    and over negatives of how many positives lie above: its variance is the sum of both means' (DeLong).

    >>> sure, unsure = np.array([[0, 1], [1, 0], [0, 1]]), np.array([[1, 0], [1, 0], [0, 1]])
    >>> round(lead("accuracy", np.array([1, 0, 1]), [sure], [unsure]).difference, 3)
    0.333
    """
    a, b = (
        [np.mean(part, axis=0) for part in zip(*(_parts(metric, truth, s) for s in all), strict=True)] for all in (ours, other)
    )
    differences = [x - y for x, y in zip(a, b, strict=True)]
    middle, variance = float(differences[0].mean()), sum(d.var(ddof=1) / len(d) for d in differences)
    half = float(stats.norm.ppf(1 - LEVEL / 2) * np.sqrt(variance))
    return Lead(middle, middle - half, middle + half, len(truth))


def error_lead(ours: Sequence[np.ndarray], other: Sequence[np.ndarray], clusters: np.ndarray, *, seed: int = 0) -> Lead:
    """By how large a share of the other's mean squared error `ours` is below it; both are errors, one array a seed.

    The interval draws whole clusters (sequences) with replacement.

    >>> errors, sequence = np.arange(1.0, 13.0)[:, None], np.repeat(np.arange(4), 3)
    >>> round(error_lead([errors], [2 * errors], sequence).low, 3)
    0.75
    """
    _, owner = np.unique(clusters, return_inverse=True)
    squares = lambda all: np.mean([np.bincount(owner, (one.astype(float) ** 2).mean(1)) for one in all], axis=0)
    a, b = squares(ours), squares(other)
    draws = np.random.default_rng(seed).integers(len(a), size=(RESAMPLES, len(a)))
    low, high = np.quantile(1 - a[draws].sum(1) / b[draws].sum(1), [LEVEL / 2, 1 - LEVEL / 2])
    return Lead(float(1 - a.sum() / b.sum()), float(low), float(high), len(owner))


def _parts(metric: str, truth: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    """Numbers by sample whose mean is the metric: of all samples, or of positives and, the other way round, negatives."""
    if metric == "accuracy":
        return [((scores if scores.ndim == 1 else scores.argmax(1)) == truth).astype(float)]
    score = scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]
    positive, negative = np.sort(score[truth == 1]), np.sort(score[truth == 0])
    below = lambda some, of: (np.searchsorted(of, some, "left") + np.searchsorted(of, some, "right")) / (2 * len(of))
    return [below(score[truth == 1], negative), 1 - below(score[truth == 0], positive)]


def paired_t(ours: np.ndarray, other: np.ndarray) -> Paired:
    """The paper's test: H₀ E_ours ≥ E_other against H₁ E_ours < E_other, over windows taken as independent.

    >>> paired_t(np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.4, 3.6])).df
    2
    """
    ours, other = np.asarray(ours, float), np.asarray(other, float)  # in single precision the smallest p would be 0
    if np.ptp(ours - other) <= 1e-9 * np.abs(ours - other).max():  # no spread to measure the difference by
        return Paired(float("nan"), float("nan"), len(ours) - 1)
    found = stats.ttest_rel(ours, other, alternative="less")
    return Paired(float(found.statistic), float(found.pvalue), len(ours) - 1)


def cluster_bootstrap(ours: np.ndarray, other: np.ndarray, clusters: np.ndarray, *, seed: int = 0) -> Boot:
    """The mean difference, with whole clusters (sequences) drawn with replacement.

    >>> errors, sequence = np.arange(12.0), np.repeat(np.arange(4), 3)
    >>> cluster_bootstrap(errors, errors + 1, sequence).difference
    -1.0
    """
    _, owner = np.unique(clusters, return_inverse=True)
    sums, sizes = np.bincount(owner, ours - other), np.bincount(owner)
    draws = np.random.default_rng(seed).integers(len(sizes), size=(RESAMPLES, len(sizes)))
    means = sums[draws].sum(1) / sizes[draws].sum(1)
    low, high = np.quantile(means, [0.025, 0.975])
    p = (1 + np.count_nonzero(means >= 0)) / (1 + RESAMPLES)
    return Boot(float(sums.sum() / sizes.sum()), float(low), float(high), float(p), len(sizes))


def same_as_best(best: Sequence[float], other: Sequence[float]) -> bool | None:
    """Whether two rows are not significantly different (paired t-test over seeds, p ≥ 0.05); None with too few seeds.

    A row with one score, which no seed can change, is compared with every seed of the other.

    >>> same_as_best([0.99, 0.98, 0.985], [0.5, 0.52, 0.51]), same_as_best([0.9], [0.8])
    (False, None)
    """
    a, b = (
        np.broadcast_arrays(np.asarray(best, float), np.asarray(other, float))
        if 1 in (len(best), len(other))
        else (best, other)
    )
    if len(a) != len(b) or len(a) < 3:  # of two differences a test says nothing
        return None
    difference = np.asarray(a) - np.asarray(b)
    if np.ptp(difference) <= 1e-9 * max(abs(difference)):  # no spread to measure it by
        return not difference.any()
    return bool(stats.ttest_1samp(difference, 0.0).pvalue >= LEVEL)  # pyright: ignore[reportAttributeAccessIssue]


def ranks(scores: dict[str, Sequence[float]], higher_is_better: Sequence[bool]) -> Ranks:
    """Average ranks of models over data sets, with the Friedman, Nemenyi and Wilcoxon tests. `scores` is by model and set.

    >>> found = ranks({"a": [0.9, 0.8, 0.9], "b": [0.8, 0.7, 0.6], "c": [0.7, 0.9, 0.5]}, [True, True, True])
    >>> found.average["a"], found.sets
    (1.3333333333333333, 3)
    """
    names, table = list(scores), np.array([scores[name] for name in scores], float)
    signed = np.where(np.asarray(higher_is_better), -table, table)
    average = stats.rankdata(signed, axis=0).mean(1)
    k, n = table.shape
    q = stats.studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2) if k > 1 else float("nan")
    enough = k > 2 and n > 1
    friedman = float(stats.friedmanchisquare(*signed).pvalue) if enough else float("nan")
    pairs = {(a, b): _wilcoxon(signed[i] - signed[j]) for i, a in enumerate(names) for j, b in enumerate(names) if i < j}
    difference = float(q * np.sqrt(k * (k + 1) / (6 * n)))
    return Ranks(dict(zip(names, map(float, average), strict=True)), difference, friedman, pairs, n)


def _wilcoxon(difference: np.ndarray) -> float:
    if not difference.any():
        return 1.0
    how = "exact" if len(difference) < 25 else "auto"
    return float(stats.wilcoxon(difference, method=how).pvalue)  # pyright: ignore[reportAttributeAccessIssue]

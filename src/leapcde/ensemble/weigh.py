"""Which candidates answer, and with which weights: judged by what they say of data that did not train them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_softmax

from leapcde.training.events import metrics as events

DRAWS = 500  # times that the validation samples are drawn again
SELDOM = 0.05  # share of these that a candidate must have won to have a say
BLOCKS = 30  # of neighbouring windows, which resemble each other: errors of forecasts are judged by the means of these


def losses(task: str, outputs: np.ndarray, target: np.ndarray) -> np.ndarray:
    """How wrong an answer is about each sample: −log p of the true class (of labels, on average), the mean squared error
    of what is known, or of times to an event −log-likelihood.

    >>> losses("regression", np.array([[1.0], [2.0]]), np.array([[1.0], [4.0]])).tolist()
    [0.0, 4.0]
    """
    if task == "classification":
        return -log_softmax(outputs.astype(np.float64), axis=-1)[np.arange(len(target)), target]
    if task == "labels":
        scores = outputs.astype(np.float64)
        return np.logaddexp(0.0, np.where(target > 0, -scores, scores)).mean(1)
    if task == "survival":
        return events.losses(outputs, target)
    squares = ((outputs.astype(np.float64) - target) ** 2).reshape(len(target), -1)
    known = ~np.isnan(squares)
    return np.where(known, squares, 0.0).sum(1) / np.maximum(known.sum(1), 1)


def standard_error(task: str, values: np.ndarray) -> float:
    """Of the mean of numbers about samples; of forecasts, from means of neighbouring windows.

    >>> round(standard_error("regression", np.array([0.0, 1.0, 0.0, 1.0])), 3)
    0.289
    """
    if task == "forecasting" and len(values) > 2 * BLOCKS:
        values = np.array([part.mean() for part in np.array_split(values, BLOCKS)])
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")


def of_samples(values: np.ndarray, owner: np.ndarray | None) -> np.ndarray:
    """Numbers about rows as numbers about the samples that own them, with the same mean: rows of a sample are alike.

    >>> of_samples(np.array([1.0, 1.0, 4.0]), np.array([0, 0, 1])).tolist(), of_samples(np.ones(2), None).tolist()
    ([1.3333333333333333, 2.6666666666666665], [1.0, 1.0])
    """
    if owner is None:
        return values
    place = np.unique(owner, return_inverse=True)[1]
    return np.bincount(place, weights=values) * (place.max() + 1) / len(values)


def weigh(
    task: str,
    outputs: Sequence[np.ndarray],
    target: np.ndarray,
    sample_weight: np.ndarray | None = None,
    owner: np.ndarray | None = None,
) -> np.ndarray:
    """Weights of candidates: how often each would have been the best, had other samples been held out.

    The samples are drawn again, with repeats, many times; of forecasts, blocks of neighbouring windows. With many samples
    one candidate wins every time and is the answer. With few, those that cannot be told apart share it: then their
    average is the safer answer. A candidate that seldom wins is left out. The same data gives the same weights.
    Where each row has an answer, `owner` says to which sample it belongs, and samples are drawn.

    >>> truth = np.arange(40.0)[:, None]
    >>> weigh("regression", [truth + 1, truth + 3, truth - 1 + 1e-9], truth).tolist()
    [0.0, 0.0, 1.0]
    """
    each = 1.0 if sample_weight is None else sample_weight
    wrong = np.stack([of_samples(each * losses(task, rows, target), owner) for rows in outputs])
    count = wrong.shape[1]
    blocks = np.array_split(np.arange(count), min(BLOCKS, count) if task == "forecasting" else count)
    means = np.stack([wrong[:, block].mean(1) for block in blocks], axis=1)
    drawn = np.random.default_rng(0).multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=DRAWS)
    wins = np.bincount((drawn @ means.T).argmin(1), minlength=len(outputs)) / DRAWS
    kept = np.where(wins < SELDOM, 0.0, wins)
    return kept / kept.sum() if kept.any() else (wins == wins.max()) / np.sum(wins == wins.max())

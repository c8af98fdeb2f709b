"""Whether the noise of what is forecast grows over the data: then errors do, and a test says less than what comes after it."""

from __future__ import annotations

import warnings

import numpy as np

from leapcde.data.dataset import Dataset
from leapcde.data.series import Series
from leapcde.estimators.certainty.intervals import roughness
from leapcde.training.preprocess import Preprocessor

BLOCKS, FEWEST = 30, 12  # neighbouring windows whose mean is one point; how many of these tell of a trend
SURE = 3.0  # standard errors from which a trend is no accident
MATTERS = 0.05  # growth until the next fifth of time that is worth a sentence
NEXT = 0.2  # of the time of the data


def told_growth(data: Dataset, of: Preprocessor) -> str:
    """A sentence, if what is forecast becomes rougher over all parts of the data; else nothing (decision 27).

    Errors of a test of one month are too few to show it. The roughness of all windows is not, and it needs no model, so that
    training data tells as much of it as the test.
    """
    if data.task != "forecasting" or not data.options.get("split", "").startswith("by time"):
        return ""
    parts = [(part.times[part.offsets[1:] - 1], _rough(part, of)) for part in data.parts.values()]
    times, rough = (np.concatenate(found) for found in zip(*parts, strict=True))
    slope, error = trend(times, rough)
    if not slope > SURE * error:
        return ""
    length = float(times.max() - times.min())
    ahead = float(times.max()) + NEXT / 2 * length - float(np.mean(parts[-1][0]))
    more = np.exp(2 * slope * ahead) - 1  # of squares
    if more < MATTERS:
        return ""
    noisier = f"{np.exp(slope * length):.1f} times as noisy at its end as at its start"
    return f"Errors grow over your data ({noisier}): expect about {more:.0%} more than in the test in the next fifth of time."


def trend(times: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """How fast the logarithm of mean sizes rises with time, and the standard error of that; nothing of too few.

    >>> slope, error = trend(np.arange(600.0), np.exp(np.arange(600) / 300) * np.tile([0.9, 1.1], 300))
    >>> round(600 * slope, 2), error < 1e-4
    (2.0, True)
    """
    known = ~np.isnan(sizes)
    times, sizes = times[known], sizes[known]
    order = np.argsort(times, kind="stable")
    blocks = np.array_split(order, max(1, min(BLOCKS, len(order))))
    x, y = (np.array([values[block].mean() for block in blocks if len(block)]) for values in (times, sizes))
    x, y = x[y > 0], np.log(y[y > 0])
    if len(x) < FEWEST or not np.ptp(x) > 0:
        return 0.0, np.inf
    away = x - x.mean()
    slope = float(away @ y / (away @ away))
    rest = y - y.mean() - slope * away
    return slope, float(np.sqrt(rest @ rest / (len(x) - 2) / (away @ away)))


def _rough(part: Series, of: Preprocessor) -> np.ndarray:
    """How rough each window is, in deviations, on average over the channels that are forecast."""
    found = of.asked(roughness(part)[:, None])[:, 0] / of.asked(np.array(of.scaler.std)[None, None])[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a window in which nothing was observed often enough
        return np.nanmean(found, axis=1)

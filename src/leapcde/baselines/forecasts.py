"""What is to come, from what was: the last value, the line on, the last season, and a ridge on the window."""

from __future__ import annotations

import numpy as np

from leapcde.baselines.summary import carried, features, last_values, on_grid
from leapcde.baselines.tabular import PENALTIES, best_ridge, learn_scale, sample_weights, scaled, thinned
from leapcde.baselines.trees import Arrays
from leapcde.data.series import Series
from leapcde.training.preprocess import Preprocessor

WIDEST = 1500  # values of a window that the ridge looks at: the latest of them
LONGEST = 500  # steps among which a season is sought
CLEAR = 0.3  # correlation with the season before from which there is one
GUESSES = 5  # times that unknown targets of the ridge are guessed anew
BLOCK = 2000  # windows that are laid out at once


def nothing(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    return {}


def last_value(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    """Each channel stays where it was last seen."""
    last = _last(series, of)
    return np.repeat(last[:, None], of.spec.output[0], axis=1)


def linear_trend(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    """Each channel goes on along the line through its last two observations, one typical gap a step."""
    values, numbers = of.scaler.scale(series.values), np.arange(len(series.times))[:, None]
    clock = np.broadcast_to(of.scaler.apply(series).times[:, None], values.shape)
    rows = np.where(~np.isnan(values), numbers, -1)
    newest = np.maximum.reduceat(rows, series.offsets[:-1], axis=0)
    before = np.maximum.reduceat(np.where(rows < newest[series.owner], rows, -1), series.offsets[:-1], axis=0)
    pick = lambda array, at: np.take_along_axis(array, np.maximum(at, 0), axis=0)
    gap, rise = pick(clock, newest) - pick(clock, before), pick(values, newest) - pick(values, before)
    slope = np.where(before >= 0, rise / np.where(gap > 0, gap, 1.0), 0.0)
    since = clock[series.offsets[1:] - 1] - pick(clock, newest)
    ahead = since[:, None] + np.arange(1, of.spec.output[0] + 1)[:, None]
    return (_last(series, of)[:, None] + slope[:, None] * ahead).astype(np.float32)


def find_season(train: Series, validation: Series, of: Preprocessor, seed: int) -> Arrays:
    """The season of the training windows in typical gaps, by autocorrelation; 0 if there is none."""
    some, longest = thinned(train, BLOCK), _steps(train, of, LONGEST)
    values = on_grid(some, of.scaler, longest).astype(float)
    future = of.scaler.scale(np.asarray(some.target)) if _same_channels(some) else np.zeros((len(some), 0, values.shape[2]))
    return {"season": np.array(season(np.concatenate([values, future], axis=1), longest))}


def season(values: np.ndarray, longest: int) -> int:
    """The lag, 2 to `longest`, at whose peak (sample, step, channel) resembles itself most; 0 if none is clear.

    >>> season(np.sin(np.arange(60) * 2 * np.pi / 12)[None, :, None], 40)
    12
    """
    steps = values.shape[1]
    at = np.array([_resemblance(values, lag) for lag in range(min(longest, steps - 2) + 2)])
    middle = at[1:-1]
    peaks = np.flatnonzero((middle > at[:-2]) & (middle >= at[2:]) & (middle > CLEAR)) + 1
    peaks = peaks[peaks >= 2]
    if not len(peaks):
        return 0
    best = at[peaks].max()
    return int(peaks[at[peaks] >= best - 0.02][0])  # of a season and its multiples, the season


def last_season(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    """Each channel is where it was a season before."""
    length, horizon = int(found["season"]), of.spec.output[0]
    if length == 0:
        return last_value(series, of, found)
    back = carried(on_grid(series, of.scaler, length))
    return back[:, np.arange(horizon) % length]


def ridge_on_window(train: Series, validation: Series, of: Preprocessor, seed: int, strengths=PENALTIES) -> Arrays:
    """How far each channel moves from its last value, by ridge regression; its penalty is the best on validation data."""
    shape = {"steps": np.array(_steps(train, of, max(2, WIDEST // train.values.shape[1])))}
    some, judge = thinned(train), thinned(validation)
    scale = learn_scale(_window(some, of, shape))
    x, x_val = (scaled(_window(part, of, shape), scale) for part in (some, judge))
    y, y_val = (_moves(part, of) for part in (some, judge))
    known = ~np.isnan(y)
    y, known = np.where(known.any(0), y, 0.0), known | ~known.any(0)  # a channel that is not to be forecast
    mean = np.where(known, y, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    judged = x_val, y_val, sample_weights(some), sample_weights(judge), strengths
    found = best_ridge(x, np.where(known, y, mean), *judged)
    for _ in range(0 if known.all() else GUESSES):  # unknown targets are what was said of them before
        found = best_ridge(x, np.where(known, y, x @ found["weights"] + found["start"]), *judged)
    return {**shape, **scale, **found}


def ridge_forecast(series: Series, of: Preprocessor, found: Arrays) -> np.ndarray:
    answers = []
    for start in range(0, len(series), BLOCK):
        part = series.take(np.arange(start, min(start + BLOCK, len(series))))
        moved = scaled(_window(part, of, found), found) @ found["weights"] + found["start"]
        answers.append(_last(part, of)[:, None] + moved.reshape(len(part), *of.spec.output))
    return np.concatenate(answers).astype(np.float32)


def _window(series: Series, of: Preprocessor, shape: Arrays) -> np.ndarray:
    """The last steps of each window against its last values, those, and how old they are; statics as they are."""
    last = _last(series, of)
    grid = carried(on_grid(series, of.scaler, int(shape["steps"]))) - last[:, None]
    count = series.values.shape[1]
    rest = features(series)[:, 8 * count :]  # the ages of the last values, how long the window lasts, its rows, its statics
    return np.concatenate([grid.reshape(len(series), -1), last, rest], axis=1)


def _moves(series: Series, of: Preprocessor) -> np.ndarray:
    """What is to be forecast, as (sample, step and channel) from the last value."""
    return (of.encode_target(np.asarray(series.target)) - _last(series, of)[:, None]).reshape(len(series), -1)


def _last(series: Series, of: Preprocessor) -> np.ndarray:
    return np.nan_to_num(of.scaler.scale(last_values(series)))


def _steps(train: Series, of: Preprocessor, most: int) -> int:
    """How many typical gaps a window spans, its first row included."""
    return int(np.clip(round(of.spec.span) + 1, 2, most))


def _same_channels(series: Series) -> bool:
    return np.asarray(series.target).shape[2] == series.values.shape[1]


def _resemblance(values: np.ndarray, lag: int) -> float:
    early, late = values[:, : values.shape[1] - lag], values[:, lag:]
    both = ~np.isnan(early) & ~np.isnan(late)
    a, b = early[both], late[both]
    size = np.sqrt(np.sum(a**2) * np.sum(b**2))
    return float(np.sum(a * b) / size) if size > 0 else 0.0

"""Filling holes no worse than anybody could: the learned path where it was better on hidden observations, else a simple one.

Whether a learned path fills holes well is a matter of the channel: a laboratory value that is measured twice a day may be
told best by its last value. So observations of the validation data are hidden and asked for, channel by channel.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.explain.hidden import LEARNED, hide_rows
from leapcde.training.fitted import Fitted

SHARE = 0.3  # of the rows, that are hidden
MOST = 256  # samples to learn this from: their error is known well enough, and in a second
LINE, LAST = "straight line", "last value"
Errors = dict[str, dict[str, float]]


def some_samples(held: Series | None) -> Series | None:
    """As many of the held-out samples as are needed, without their targets."""
    if held is None:
        return None
    even = np.unique(np.linspace(0, len(held) - 1, min(len(held), MOST)).astype(int))
    return replace(held.take(even), target=None)


def path_errors(fitted: Fitted, held: Series, *, seed: int = 0) -> Errors | None:
    """Root mean squared errors at hidden observations, in the units of the data; None where nothing can be hidden.

    Parameters
    ----------
    fitted : Fitted
        With a learned path.
    held : Series
        Samples that did not train it; 30 % of their rows are hidden, never the first or last.

    Returns
    -------
    dict
        {channel: {"learned": …, "straight line": …, "last value": …, "count": hidden observations}}, without channels of
        which nothing was hidden.
    """
    try:
        seen, times, truth = hide_rows(held, SHARE, seed)
    except InputError:
        return None
    mean = np.array(fitted.preprocessor.scaler.mean)
    paths = {LEARNED: fitted.path_at(seen, times)}
    paths |= {name: simple_path(seen, times, name, mean) for name in (LINE, LAST)}
    found: Errors = {}
    for c, channel in enumerate(held.channels):
        there = ~np.isnan(truth[..., c])
        if there.any():
            error = {name: float(np.sqrt(np.mean((path[..., c] - truth[..., c])[there] ** 2))) for name, path in paths.items()}
            found[channel] = {**error, "count": int(there.sum())}
    return found or None


def choose_paths(errors: Errors | None) -> dict[str, str]:
    """{channel: the simple path that was better than the learned one}.

    >>> choose_paths({"hr": {"learned": 2.0, "straight line": 1.5, "last value": 1.0, "count": 9}})
    {'hr': 'last value'}
    """
    best = {channel: min((LINE, LAST), key=error.__getitem__) for channel, error in (errors or {}).items()}
    return {channel: name for channel, name in best.items() if (errors or {})[channel][name] < (errors or {})[channel][LEARNED]}


def fill(fitted: Fitted, series: Series, times: np.ndarray, errors: Errors | None) -> np.ndarray:
    """The learned path at the times asked (sample, query); channels that a simple path fills better have that, up to the
    end of each sample. What comes after is a forecast, of which hidden observations say nothing."""
    found = fitted.path_at(series, times)
    chosen = choose_paths(errors)
    ends = series.times[series.offsets[1:] - 1, None]
    for name in set(chosen.values()):
        mine = [c for c, channel in enumerate(series.channels) if chosen.get(channel) == name]
        simple = simple_path(series, times, name, np.array(fitted.preprocessor.scaler.mean), mine)
        found[..., mine] = np.where((times <= ends)[..., None], simple[..., mine], found[..., mine])
    return found


def simple_path(
    series: Series, times: np.ndarray, name: str, mean: np.ndarray, channels: list[int] | None = None
) -> np.ndarray:
    """Straight lines between observations, or the last value before; the mean where a sample has none of a channel.

    Before the first observation it is the first, and after the last the last.

    >>> from leapcde.data.read import as_series
    >>> one = as_series([([0, 2, 4], [1.0, 5.0, 5.0])])
    >>> [simple_path(one, np.array([[1.0]]), name, np.zeros(1)).item() for name in (LINE, LAST)]
    [3.0, 1.0]
    """
    found = np.broadcast_to(mean, (*times.shape, len(mean))).copy()
    for i in range(len(series)):
        t, x = series.sample(i)
        for c in range(len(mean)) if channels is None else channels:
            seen = ~np.isnan(x[:, c])
            if seen.any():
                known, values = t[seen], x[seen, c]
                place = np.maximum(np.searchsorted(known, times[i], side="right") - 1, 0)
                found[i, :, c] = np.interp(times[i], known, values) if name == LINE else values[place]
    return found


def in_words(errors: Errors | None) -> str:
    """For how many channels the learned path is used, and how much better it is there; nothing where it is not known."""
    if not errors:
        return ""
    chosen = choose_paths(errors)
    kept = [error for channel, error in errors.items() if channel not in chosen]
    text = f"the learned path fills {len(kept)} of {len(errors)} channels best"
    if kept:
        share = np.median([error[LEARNED] / max(min(error[LINE], error[LAST]), 1e-12) for error in kept])
        text += f" (there, its error is {share:.2f} × that of the best simple path, median)"
    return text

"""How well a learned path fills in what it did not see: observations are hidden from it, and asked for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import equinox as eqx
import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.paths.batch import Recipe
from leapcde.training.fitted import Fitted

CLASSICAL = {"straight line": "linear", "natural cubic": "natural", "hermite": "hermite", "last value": "rectilinear"}
LEARNED = "learned"


def hidden_errors(fitted: Fitted, series: Series, *, share: float = 0.3, seed: int = 0) -> dict[str, float]:
    """Mean squared error at hidden observations, in standardised units: of the learned path, and of four interpolations.

    **Arguments:** `share` of each sample's rows is hidden, but never its first or last; which ones depends on `seed` only.

    **Returns:** {"learned": …, "straight line": …, "natural cubic": …, "hermite": …, "last value": …}.

    >>> from leapcde import LeapClassifier, as_series
    >>> X = np.random.default_rng(0).normal(size=(20, 12, 2)).cumsum(1)
    >>> quick = LeapClassifier("leap+", options={"hidden": 4}, epochs=1).fit(X, np.arange(20) % 2)
    >>> found = hidden_errors(quick.fitted_, as_series(X))
    >>> found["straight line"] < found["last value"]
    True
    """
    seen, times, truth = hide_rows(series, share, seed)
    scaler = fitted.preprocessor.scaler
    wanted = scaler.scale(truth)
    found = {LEARNED: scaler.scale(fitted.path_at(seen, times))}
    found |= {name: np.empty_like(wanted) for name in CLASSICAL}
    asked = ((times - seen.times[seen.offsets[:-1], None]) / scaler.time_unit).astype(np.float32)
    data = fitted.preprocessor.encode(replace(seen, target=None))
    for samples, batch in (part for bucket in data for part in bucket.batches()):
        for name, path in CLASSICAL.items():
            found[name][samples] = np.asarray(_interpolated(batch.obs, asked[samples], path))
    return {name: float(np.nanmean((path - wanted) ** 2)) for name, path in found.items()}


def hide_rows(series: Series, share: float, seed: int, *, what: str = "rows") -> tuple[Series, np.ndarray, np.ndarray]:
    """The series without some rows, the times of these rows (sample, row) and what was hidden then, NaN where nothing was.

    `what="values"` hides single observations of rows instead.
    """
    there = np.asarray(~np.isnan(series.values).all(1))
    rows = [start + np.flatnonzero(there[start:end])[1:-1] for start, end in pairwise(series.offsets)]
    width = 1 if what == "rows" else series.values.shape[1]
    gone = (np.random.default_rng(seed).random((len(series.times), width)) < share) & ~np.isnan(series.values)
    chance = np.asarray(gone.any(1))
    rows = [inner[chance[inner]] for inner in rows]
    most = max(map(len, rows), default=0)
    if not most:
        raise InputError("nothing to hide: no sample has three rows with observations")
    values = series.values.copy()
    times = np.repeat(series.times[series.offsets[:-1], None], most, 1)  # filled up with the start, where nothing is asked
    truth = np.full((len(series), most, values.shape[1]), np.nan)
    for i, row in enumerate(rows):
        times[i, : len(row)], truth[i, : len(row)] = series.times[row], np.where(gone[row], values[row], np.nan)
        values[row] = np.where(gone[row], np.nan, values[row])
    return replace(series, values=values), times, truth


@eqx.filter_jit
def _interpolated(obs, t, interpolation: str):
    return Recipe(interpolation).path(obs).evaluate(t)[..., -obs.values.shape[-1] :]

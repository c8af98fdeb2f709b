"""Forgetting observations on purpose, as the paper's experiments do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leapcde.data.series import Series
from leapcde.errors import InputError, choose


def drop(series: Series, rate: float, *, seed: int = 56789, what: str = "times") -> Series:
    """Forget a fixed share of each sample: whole time points (`what="times"`), or single values ("values").

    Time points without any observation left are removed, except the first and last of each sample: they keep the
    window in which the sample was watched, so that a forecaster still knows from when it forecasts.

    >>> from leapcde.data.read import as_series
    >>> drop(as_series(np.ones((1, 10, 2))), 0.5).values[:, 0].tolist().count(1.0)
    5
    """
    if not 0 <= rate < 1:
        raise InputError(f"drop rate {rate}: give a share from 0 up to, but not including, 1")
    choose("kind of dropping", what, ("times", "values"))
    if rate == 0:
        return without_empty_rows(series)
    generator = np.random.default_rng(seed)
    width = 1 if what == "times" else series.values.shape[1]
    noise = generator.random((len(series.times), width))
    # Rank the noise within each sample: the int(rate * n) lowest ranks go, so the share is exact for every sample.
    owner = series.owner
    rank = np.empty_like(noise, dtype=np.int64)
    for c in range(width):
        order = np.lexsort((noise[:, c], owner))
        rank[order, c] = np.arange(len(owner)) - series.offsets[owner[order]]
    gone = rank < (rate * series.lengths).astype(int)[owner][:, None]
    return without_empty_rows(replace(series, values=np.where(gone, np.nan, series.values)))


def without_empty_rows(series: Series) -> Series:
    """Remove inner time points at which no channel was observed; each sample's first and last stay."""
    keep = np.concatenate([~np.isnan(part.values).all(1) for part in series.blocks()] or [np.zeros(0, bool)])
    keep[series.offsets[:-1]] = True
    keep[series.offsets[1:] - 1] = True
    return series if keep.all() else series.keep_rows(keep)

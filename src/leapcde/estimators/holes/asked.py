"""Questions with known answers: observations of a series are hidden, and paths are asked for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from leapcde.data.series import Series
from leapcde.explain.hidden import CLASSICAL, LEARNED, hide_rows
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.ragged import Bucket, taken
from leapcde.training.preprocess import Preprocessor

TASK = "imputation"
SHARE = 0.15  # of the observations is hidden to choose by and to report: more would be another kind of holes
ROUND = 8  # to a multiple of which rows and queries are filled up, so that few shapes are compiled
CHUNK = 256  # samples that are answered at once
NAMES = (LEARNED, *CLASSICAL)


@dataclass(frozen=True)
class Asked:
    """What is seen of a series, when it is asked for, and what was hidden then; all as a model has them, standardised."""

    data: list[Bucket]
    times: np.ndarray  # (sample, query), in typical gaps since the sample's start
    truth: np.ndarray  # (sample, query, channel), NaN where nothing was hidden

    @classmethod
    def of(cls, preprocessor: Preprocessor, series: Series, *, what: str, seed: int) -> Asked:
        """`what` is hidden: "rows", single "values", or the "ends" of samples."""
        seen, times, truth = hide_ends(series) if what == "ends" else hide_rows(series, SHARE, seed, what=what)
        return cls(*questions(preprocessor, seen, times), preprocessor.scaler.scale(truth))

    def loss(self, model: Any) -> dict[str, float]:
        """The error of a path while it is trained."""
        return {"val_loss": float(np.nanmean((learned(model, self.data, self.times)[0] - self.truth) ** 2))}

    def errors(self, path: np.ndarray) -> np.ndarray:
        """Mean squared error of each channel; NaN of one of which nothing was hidden."""
        off, there = (path - self.truth) ** 2, ~np.isnan(self.truth)
        count = there.sum((0, 1))
        return np.where(count > 0, np.where(there, off, 0.0).sum((0, 1)) / np.maximum(count, 1), np.nan)


def hide_ends(series: Series) -> tuple[Series, np.ndarray, np.ndarray]:
    """As `hide_rows`: without the first and the last row of each sample that has three or more with observations."""
    there = np.flatnonzero(~np.isnan(series.values).all(1))
    count = np.bincount(series.owner[there], minlength=len(series))
    start = np.cumsum(count) - count
    values, truth = series.values.copy(), np.full((len(series), 2, series.values.shape[1]), np.nan)
    times = np.repeat(series.times[series.offsets[:-1], None], 2, 1)
    some = np.flatnonzero(count >= 3)
    for column, rows in enumerate((there[start[some]], there[start[some] + count[some] - 1])):
        times[some, column], truth[some, column] = series.times[rows], series.values[rows]
        values[rows] = np.nan
    return replace(series, values=values), times, truth


def questions(preprocessor: Preprocessor, series: Series, times: np.ndarray) -> tuple[list[Bucket], np.ndarray]:
    """What is seen, and the times asked (sample, query), as a model has them."""
    starts = series.times[series.offsets[:-1], None]
    bare = replace(series, target=None, static=None)
    return preprocessor.encode(bare, round_to=ROUND), ((times - starts) / preprocessor.scaler.time_unit).astype(np.float32)


def own_times(series: Series) -> np.ndarray:
    """Each sample's own times, (sample, row), the last one repeated where others are longer."""
    lengths = series.lengths
    return series.times[series.offsets[:-1, None] + np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)]


def path_of(model: Any, name: str, data: list[Bucket], times: np.ndarray) -> np.ndarray:
    """The path of a name of `NAMES` at the times asked: (sample, query, channel), standardised."""
    if name == LEARNED:
        return learned(model, data, times)[0]
    return _answers(lambda batch, t: (_classical(batch, t, CLASSICAL[name]),), data, times)[0]


def learned(model: Any, data: list[Bucket], times: np.ndarray) -> list[np.ndarray]:
    """Y and log s at the times asked, and how far each channel's observations are away where all lie on one side; else 0."""
    return _answers(lambda batch, t: _learned(model, batch, t), data, times)


def _answers(ask: Callable[[Batch, np.ndarray], tuple], data: list[Bucket], times: np.ndarray) -> list[np.ndarray]:
    """Chunk by chunk: what is looked up around each time is many times larger than the answer."""
    found: list[np.ndarray] = []
    queries = times.shape[1]
    times = np.pad(times, ((0, 0), (0, -queries % ROUND)), mode="edge")
    for samples, rows, index in (part for bucket in data for part in bucket.chunks(CHUNK)):
        filled = samples[np.minimum(np.arange(len(index)), len(samples) - 1)]
        parts = ask(taken(rows, index), times[filled])
        found = found or [np.empty((len(times), *part.shape[1:]), np.float32) for part in parts]
        for whole, part in zip(found, parts, strict=True):
            whole[samples] = np.asarray(part)[: len(samples)]
    return [whole[:, :queries] for whole in found]


@eqx.filter_jit
def _learned(model: Any, batch: Batch, t: Any) -> tuple:
    times, seen = batch.obs.times[..., None], batch.obs.mask > 0
    first, last = jnp.where(seen, times, jnp.inf).min(1), jnp.where(seen, times, -jnp.inf).max(1)
    beyond = jnp.maximum(first[:, None] - t[..., None], t[..., None] - last[:, None])
    return *model.Y(batch, t)[:2], jnp.maximum(beyond, 0.0)


@eqx.filter_jit
def _classical(batch: Batch, t: Any, interpolation: str) -> Any:
    return Recipe(interpolation).path(batch.obs).evaluate(t)[..., -batch.obs.values.shape[-1] :]

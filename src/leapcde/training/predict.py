"""Answers of a model for all samples of a data set, chunk by chunk."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import numpy as np

from leapcde.compiled import Form
from leapcde.data.batch import Padded, pad
from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.models.base import Model
from leapcde.models.each_row import RowModel
from leapcde.paths.batch import Batch, Bucket, few_sizes
from leapcde.solve.adaptive import solve_error


def predict(model: Model, data: list[Bucket], *, chunk: int = 256) -> np.ndarray:
    """Raw predictions for every sample, or every row, in the order of the series."""
    places = row_places(data) if isinstance(model, RowModel) else [bucket.samples for bucket in data]
    result: np.ndarray | None = None
    for bucket, place in zip(data, places, strict=True):
        count = len(bucket.samples)
        size = min(chunk, few_sizes(count))
        for start in range(0, count, size):
            # The last chunk is filled up with repeats, so that one shape is compiled.
            index = np.minimum(np.arange(start, start + size), count - 1)
            part = np.asarray(checked(_predict, model, bucket.batch, index))[: count - start]
            to = place[start : start + size]
            if result is None:
                total = sum(int((one >= 0).sum()) for one in places)
                result = np.empty((total, *part.shape[to.ndim :]), part.dtype)
            result[to[to >= 0]] = part[to >= 0]
    if result is None:
        raise InputError("there is nothing to predict: no samples")
    return result


def row_places(data: list[Bucket]) -> list[np.ndarray]:
    """Of each bucket, where its padded rows (sample, length) stand among the rows of the series; -1 for padding."""
    lengths = np.zeros(sum(len(bucket.samples) for bucket in data), int)
    for bucket in data:
        lengths[bucket.samples] = bucket.lengths
    starts, found = np.cumsum(lengths) - lengths, []
    for bucket in data:
        step, mine = np.arange(bucket.batch.obs.length), bucket.samples
        found.append(np.where(step < lengths[mine, None], starts[mine, None] + step, -1))
    return found


def targets(data: list[Bucket]) -> np.ndarray:
    """The targets in the order of the series, of each sample or of each row."""
    return _in_order(data, [bucket.batch.obs.target for bucket in data])


def target_weights(data: list[Bucket]) -> np.ndarray | None:
    """How much each target counts, in the order of the series; None where all count the same."""
    weights = [bucket.batch.obs.weights for bucket in data]
    if weights[0] is None:
        return None
    if data[0].per_row:
        weights = [np.repeat(w[:, None], bucket.batch.obs.length, 1) for w, bucket in zip(weights, data, strict=True)]
    return _in_order(data, weights)


def known(target: np.ndarray) -> np.ndarray:
    """Which targets are there, of those as a loss wants them: rows may have none, which is -1 or NaN.

    >>> known(np.array([0, -1])).tolist()
    [True, False]
    """
    missing = target < 0 if target.dtype.kind in "iu" else np.isnan(target)
    return np.logical_not(np.asarray(missing).reshape(len(target), -1).all(1))


def _in_order(data: list[Bucket], parts: list) -> np.ndarray:
    places = row_places(data) if data[0].per_row else [bucket.samples for bucket in data]
    order = np.concatenate([place[place >= 0] for place in places])
    kept = [np.asarray(part)[place >= 0] for part, place in zip(parts, places, strict=True)]
    return np.concatenate(kept)[np.argsort(order)]


def checked(function, *args):
    """Call a compiled function; a failed adaptive solve becomes a `SolveError` with the fix."""
    try:
        return function(*args)
    except eqx.EquinoxRuntimeError as error:
        raise solve_error(error) from None


@eqx.filter_jit
def _predict(model: Model, data: Batch, index):
    return model(data.take(index)).prediction


FEW, ROUND_TO = 8, 8  # samples up to which one call answers; rows to which lengths are rounded for new data


def answer(form: Form, arrays: list, scaled: Series) -> np.ndarray:
    """Raw predictions for a few samples by one call of one program, which makes the path too.

    Of a single sample, the calls of `make_buckets` and `predict` take longer than the answer. `form` is of (model, recipe).
    """
    longest = int(scaled.lengths.max())
    obs = pad(scaled, -(-longest // ROUND_TO) * ROUND_TO if longest > 1 else 1)
    count = len(obs.times)
    repeated = np.minimum(np.arange(few_sizes(count)), count - 1)  # so that few shapes are compiled
    try:
        return np.asarray(_answer(form, arrays, jax.tree.map(lambda array: array[repeated], obs)))[:count]
    except jax.errors.JaxRuntimeError as error:
        raise solve_error(error) from None


@partial(jax.jit, static_argnums=0)
def _answer(form: Form, arrays: list, obs: Padded):
    model, recipe = form.together(arrays)
    return model(Batch(obs, recipe.path(obs))).prediction

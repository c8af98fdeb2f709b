"""Answers of a model for all samples of a data set, chunk by chunk."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import numpy as np

from leapcde.compiled import Form, program
from leapcde.data.batch import Padded, pad
from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.models.base import Model
from leapcde.models.each_row import RowModel
from leapcde.paths.batch import Batch
from leapcde.paths.ragged import CHUNK, Bucket, Rows, few_sizes
from leapcde.solve.adaptive import solve_error

FEW, ROUND_TO = 8, 8  # samples up to which one call answers; rows to which lengths are rounded for new data


def predict(model: Model, data: list[Bucket], *, chunk: int = CHUNK) -> np.ndarray:
    """Raw predictions for every sample, or every row, in the order of the series."""
    each_row, result = isinstance(model, RowModel), None
    total = int(data[0].ragged.lengths.sum()) if each_row and data else sum(len(bucket.samples) for bucket in data)
    for bucket in data:
        for samples, rows, index in bucket.chunks(chunk):
            part = np.asarray(checked(program(_predict, model.many_kernels), model, rows, index))[: len(samples)]
            place = row_places(bucket, samples) if each_row else samples
            if result is None:
                result = np.empty((total, *part.shape[place.ndim :]), part.dtype)
            result[place[place >= 0]] = part[place >= 0]
    if result is None:
        raise InputError("there is nothing to predict: no samples")
    return result


def row_places(bucket: Bucket, samples: np.ndarray) -> np.ndarray:
    """Where the padded rows (sample, length) of some samples stand among the rows of the series; -1 for padding."""
    lengths = bucket.ragged.lengths
    starts, step = np.cumsum(lengths) - lengths, np.arange(bucket.length)
    return np.where(step < lengths[samples, None], starts[samples, None] + step, -1)


def targets(data: list[Bucket]) -> np.ndarray:
    """The targets in the order of the series, of each sample or of each row."""
    return np.asarray(data[0].ragged.target)


def target_weights(data: list[Bucket]) -> np.ndarray | None:
    """How much each target counts, in the order of the series; None where all count the same."""
    ragged = data[0].ragged
    if ragged.weights is None or not ragged.per_row:
        return ragged.weights
    return np.repeat(ragged.weights, ragged.lengths)


def known(target: np.ndarray) -> np.ndarray:
    """Which targets are there, of those as a loss wants them: rows may have none, which is -1 or NaN.

    >>> known(np.array([0, -1])).tolist()
    [True, False]
    """
    missing = target < 0 if target.dtype.kind in "iu" else np.isnan(target)
    return np.logical_not(np.asarray(missing).reshape(len(target), -1).all(1))


def checked(function, *args):
    """Call a compiled function; a failed adaptive solve becomes a `SolveError` with the fix."""
    try:
        return function(*args)
    except eqx.EquinoxRuntimeError as error:
        raise solve_error(error) from None


def _predict(model: Model, rows: Rows, index):
    return model(rows.take(index)).prediction


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

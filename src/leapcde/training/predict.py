"""Answers of a model for all samples of a data set, chunk by chunk."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from leapcde.errors import InputError
from leapcde.models.base import Model
from leapcde.paths.ragged import CHUNK, Bucket, Rows
from leapcde.solve.adaptive import solve_error


def predict(model: Model, data: list[Bucket], *, chunk: int = CHUNK) -> np.ndarray:
    """Raw predictions for every sample, in the order of the series."""
    total = sum(len(bucket.samples) for bucket in data)
    result: np.ndarray | None = None
    for bucket in data:
        for samples, rows, index in bucket.chunks(chunk):
            part = np.asarray(checked(_predict, model, rows, index))[: len(samples)]
            if result is None:
                result = np.empty((total, *part.shape[1:]), part.dtype)
            result[samples] = part
    if result is None:
        raise InputError("there is nothing to predict: no samples")
    return result


def targets(data: list[Bucket]) -> np.ndarray:
    """The targets in the order of the series."""
    return np.asarray(data[0].ragged.target)


def sample_weights(data: list[Bucket]) -> np.ndarray | None:
    """How much each sample counts, in the order of the series; None where all count the same."""
    return data[0].ragged.weights


def checked(function, *args):
    """Call a compiled function; a failed adaptive solve becomes a `SolveError` with the fix."""
    try:
        return function(*args)
    except eqx.EquinoxRuntimeError as error:
        raise solve_error(error) from None


@eqx.filter_jit
def _predict(model: Model, rows: Rows, index):
    return model(rows.take(index)).prediction

"""A trained model as one pure function of arrays.

All that `predict` does is inside: rows without observations, scaling, the path X, the model, calibrated probabilities,
units of the answer. What differs is that numbers are single precision from the start: count times from near zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from leapcde.data.batch import Padded
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import forward_fill
from leapcde.training.events.bins import FAR, Bins
from leapcde.training.fitted import FittedModel
from leapcde.training.preprocess import Preprocessor

Function = Callable[..., Any]


def exported(fitted: FittedModel) -> Function:
    """`predict` as a pure function of single-precision arrays.

    Parameters
    ----------
    fitted : FittedModel
        Of any estimator: its `fitted_`.

    Returns
    -------
    callable
        Takes times (sample, row), values (sample, row, channel) with NaN for missing, and static (sample, feature) if
        training had any. A row whose time is NaN is padding; there may be some at the end of a sample. Gives probabilities
        (sample, class), numbers (sample,), forecasts (sample, step, channel) or survival (sample, end of a bin).

    >>> from leapcde import LeapRegressor
    >>> X = np.random.default_rng(0).normal(size=(20, 6, 2))
    >>> quick = LeapRegressor("gru", options={"hidden": 4}, epochs=1).fit(X, X.sum((1, 2)))
    >>> answer = exported(quick.fitted_)(np.tile(np.arange(6.0), (20, 1)), X)
    >>> bool(np.allclose(answer, quick.predict(X), atol=1e-5))
    True
    """
    return jax.vmap(of_one(fitted))  # models may ask for the length of a batch, which is not known yet: each sees one sample


def of_one(fitted: FittedModel) -> Function:
    """The same for one sample: times (row,), values (row, channel), static (feature,)."""
    preprocessor, model = fitted.preprocessor, fitted.model

    def one(*sample):
        obs = encoded(preprocessor, *(jnp.asarray(a, jnp.float32)[None] for a in sample))
        return _decoded(fitted, model(Batch(obs, preprocessor.recipe.path(obs))).prediction)[0]

    return one


def encoded(preprocessor: Preprocessor, times, values, static=None) -> Padded:
    """What `Preprocessor.encode` makes of a series, from padded arrays and as arithmetic of arrays."""
    scaler = preprocessor.scaler
    real, position = ~jnp.isnan(times), jnp.arange(times.shape[1])
    final = jnp.sum(real, 1, keepdims=True) - 1
    seen = ~jnp.isnan(values) & real[..., None]
    # Rows without observations are left out, but not a sample's first and last: they say from when to when it was watched.
    kept = real & (seen.any(-1) | (position == 0) | (position == final))
    order = jnp.argsort(jnp.where(kept, position, position + times.shape[1]), axis=1)
    pick = lambda a: jnp.take_along_axis(a, order.reshape(*order.shape, *[1] * (a.ndim - 2)), 1)
    elapsed = jnp.where(kept, times - times[:, :1], 0.0) / np.float32(scaler.time_unit)
    elapsed = lax.cummax(pick(elapsed), axis=1)  # padding repeats the last time
    mask = pick(seen & kept[..., None]).astype(jnp.float32)
    mean, std = np.array(scaler.mean, np.float32), np.array(scaler.std, np.float32)
    if scaler.low:
        values = jnp.clip(values, np.array(scaler.low, np.float32), np.array(scaler.high, np.float32))
    scaled = pick(jnp.where(seen, (jnp.where(seen, values, mean) - mean) / std, 0.0)) * mask
    return Padded(elapsed, scaled, mask, forward_fill(scaled, mask)[:, -1], _static(preprocessor, static, len(times)), None)


def _static(preprocessor: Preprocessor, static, samples: int):
    if not preprocessor.spec.static:
        return jnp.zeros((samples, 0), jnp.float32)
    scaler = preprocessor.scaler
    mean, std = np.array(scaler.static_mean, np.float32), np.array(scaler.static_std, np.float32)
    scaled = (jnp.asarray(static, jnp.float32) - mean) / std
    return jnp.where(jnp.isnan(scaled), 0.0, scaled)


def _decoded(fitted: FittedModel, raw):
    preprocessor, calibration = fitted.preprocessor, fitted.calibration
    if calibration is not None:
        raw = raw / np.array(calibration.temperature, np.float32) + np.array(calibration.bias, np.float32)
    if preprocessor.task == "classification":
        return jax.nn.softmax(raw, -1)
    if preprocessor.task == "labels":
        return jax.nn.sigmoid(raw)
    if preprocessor.bins is not None:
        return _survival(preprocessor.bins, raw)
    if preprocessor.task == "forecasting":
        found = raw * np.array(preprocessor.scaler.std, np.float32) + np.array(preprocessor.scaler.mean, np.float32)
        return found[..., np.array(preprocessor.targets)] if preprocessor.targets else found
    found = raw * np.array(preprocessor.target_std, np.float32) + np.array(preprocessor.target_mean, np.float32)
    return found if preprocessor.target_names else found[:, 0]


def _survival(bins: Bins, log_ratio):
    """At the end of each bin; sums by a product of matrices, which every format knows."""
    usual = np.exp(bins.log_hazard) * np.diff(bins.edges, prepend=0.0)
    happened = jnp.exp(jnp.clip(log_ratio, -FAR, FAR)) * usual.astype(np.float32)
    return jnp.exp(-happened @ np.triu(np.ones((len(bins), len(bins)), np.float32)))

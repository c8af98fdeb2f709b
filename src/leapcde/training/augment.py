"""What training may do to a batch before the model sees it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import interpolation_of
from leapcde.paths.path import two_knots
from leapcde.paths.transform import add_channels, with_linear


def noisy(batch: Batch, deviation: float, key) -> Batch:
    """The batch as it would be with Gaussian errors in its observations: the rows, and X by what the errors add to it."""
    obs, X = batch
    errors = deviation * jax.random.normal(key, obs.values.shape, obs.values.dtype) * obs.mask
    rows = two_knots(obs.times), two_knots(errors), two_knots(obs.mask, fill=0.0)
    added = interpolation_of(X.interpolation).of_errors(*rows)
    skip = X.values.shape[-1] - obs.values.shape[-1]  # time and counts know no error
    still = with_linear(added, jnp.zeros((*added.values.shape[:2], skip), added.values.dtype))
    seen = obs._replace(values=obs.values + errors, last=obs.last + added.values[:, -1])
    return Batch(seen, add_channels(X, still))

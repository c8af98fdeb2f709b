"""What training may do to a batch before the model sees it."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import fit_path
from leapcde.paths.transform import add_channels, with_linear


def noisy(batch: Batch, deviation: float, key) -> Batch:
    """The batch as it would be with Gaussian errors in its observations: the rows, and X by the lines between the errors."""
    obs, X = batch
    errors = obs._replace(values=deviation * jax.random.normal(key, obs.values.shape, obs.values.dtype) * obs.mask)
    # A rectilinear X has a knot between any two rows; every other X has its knots where the rows are.
    interpolation = "rectilinear" if X.times.shape[1] > max(obs.times.shape[1], 2) else "linear"
    lines, skip = fit_path(errors, interpolation, time_channel=False), X.values.shape[-1] - obs.values.shape[-1]
    still = with_linear(lines, jnp.zeros((*lines.values.shape[:2], skip), lines.values.dtype))
    seen = obs._replace(values=obs.values + errors.values, last=obs.last + lines.values[:, -1])
    return Batch(seen, add_channels(X, still))

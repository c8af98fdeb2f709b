"""Noise in training: what a step sees is what it would see had the observations been off by it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leapcde.data.batch import pad
from leapcde.data.read import as_series
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.interpolation import INTERPOLATIONS
from leapcde.training.augment import noisy


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_noise_is_as_if_observations_had_errors(interpolation):
    """Rows without a value, channels never seen, single rows and padding included."""
    nan = np.nan
    rows = [([0, 1, 3, 4], [[1, nan, nan], [2, 5, nan], [nan, 1, nan], [4, 2, nan]]), ([2], [[1, 2, 3]])]
    obs = jax.tree.map(jnp.asarray, pad(as_series([(np.array(t, float), np.array(x, float)) for t, x in rows]), 6))
    recipe = Recipe(interpolation, intensity=True)
    batch = Batch(obs, recipe.path(obs))
    seen = noisy(batch, 0.5, jax.random.key(1))
    errors = np.asarray(seen.obs.values - obs.values)
    assert (errors[np.asarray(obs.mask) == 0] == 0).all() and (errors[np.asarray(obs.mask) > 0] != 0).all()
    again = recipe.path(seen.obs)
    if interpolation in ("linear", "rectilinear"):
        for ours, theirs in zip(jax.tree.leaves(seen.X), jax.tree.leaves(again), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-5)
    else:  # a curve and the lines between its errors: through the same points
        at = np.where(np.asarray(obs.mask) > 0)
        np.testing.assert_allclose(seen.X.values[..., -3:][at], again.values[..., -3:][at], atol=1e-5)
        lines = Recipe("linear").path(obs._replace(values=jnp.asarray(errors)))
        mean = lambda path: np.asarray(path.evaluate(jnp.array([[0.5], [2.0]])))[..., -3:]
        np.testing.assert_allclose(mean(seen.X), mean(batch.X) + mean(lines), atol=1e-5)
    assert (np.asarray(seen.X.values)[..., :-3] == np.asarray(batch.X.values)[..., :-3]).all()  # time and counts know no error
    np.testing.assert_allclose(seen.obs.last, last_seen(seen.obs), atol=1e-6)
    assert not np.array_equal(seen.obs.values, noisy(batch, 0.5, jax.random.key(2)).obs.values)


def last_seen(obs):
    """Each channel's last observed value, one at a time."""
    found = np.zeros(obs.last.shape)
    for sample, values in enumerate(np.asarray(obs.values)):
        for channel in range(values.shape[1]):
            seen = np.flatnonzero(np.asarray(obs.mask)[sample, :, channel])
            found[sample, channel] = values[seen[-1], channel] if len(seen) else 0.0
    return found


def test_noise_is_of_the_size_asked_for():
    obs = jax.tree.map(jnp.asarray, pad(as_series(np.zeros((50, 40, 3)))))
    seen = noisy(Batch(obs, Recipe("linear").path(obs)), 0.7, jax.random.key(0))
    assert abs(float(seen.obs.values.std()) - 0.7) < 0.03 and abs(float(seen.obs.values.mean())) < 0.03

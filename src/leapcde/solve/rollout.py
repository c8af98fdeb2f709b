"""The linear equation that training data follow best, in closed form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from leapcde.paths.batch import Batch

MOST = 1.5  # typical gaps: rows that lie further apart tell little of a rate


def least_squares(train: Iterable[Batch], ahead: Sequence[float], penalty: float = 1e-6):
    """A, b of x_{i+1} ≈ x_i + (x_i A + b) gap, from all rows and targets that follow each other and are all there.

    Targets lie `ahead` of a sample's end.
    """
    AA, AB = np.zeros((1, 1)), np.zeros((1, 1))
    for batch in train:
        obs = jax.tree.map(np.asarray, batch.obs)
        t = np.concatenate([obs.times, obs.times[:, -1:] + np.asarray(ahead, obs.times.dtype)], 1)
        x = np.concatenate([obs.values, np.nan_to_num(obs.target)], 1)
        there = np.concatenate([obs.mask, ~np.isnan(obs.target)], 1).min(-1) > 0
        gap = np.diff(t, axis=1)
        use = there[:, :-1] & there[:, 1:] & (gap > 0) & (gap < MOST)
        a = np.concatenate([x[:, :-1][use], np.ones((use.sum(), 1))], 1).astype(np.float64)
        AA, AB = AA + a.T @ a, AB + a.T @ ((x[:, 1:] - x[:, :-1])[use] / gap[use][:, None])
    ridge = penalty * np.trace(AA) + 1e-12  # without a single pair of rows, A = 0 and b = 0
    found = np.linalg.solve(AA + ridge * np.eye(len(AA)), AB).astype(np.float32)
    return jnp.asarray(found[:-1]), jnp.asarray(found[-1])

"""Linear recurrences, one number of the state at a time: what a diagonal linear equation is between knots."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax


def linear_scan(keep, add, *, causal: bool):
    """z_k = keep_k z_{k−1} + add_k along the first axis, from z = 0; half of the channels from the end unless `causal`.

    >>> linear_scan(jnp.full((3, 1, 1), 0.5), jnp.ones((3, 1, 1)), causal=True).ravel().tolist()
    [1.0, 1.5, 1.75]
    """

    def step(z, now):
        z = now[0] * z + now[1]
        return z, z

    def run(part: slice, reverse: bool):
        rows = keep[..., part], add[..., part]
        return lax.scan(step, jnp.zeros_like(rows[1][0]), rows, reverse=reverse)[1]

    if causal:
        return run(slice(None), False)
    half = keep.shape[-1] // 2
    return jnp.concatenate([run(slice(half), False), run(slice(half, None), True)], -1)

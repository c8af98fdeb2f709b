"""A part of a computation that XLA compiles by itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def apart(f, *args):
    """f(*args), with its arguments and its results as arrays in memory.

    XLA on CPU fuses what leads to an array into every use of it, and computes all of it again there, gathers and
    exponentials too; it removes `lax.optimization_barrier` before it does. It does not look into the branches of a
    condition, so here is one that always holds, for NaN too: a divergence must not be hidden.

    >>> apart(jnp.exp, jnp.array([jnp.nan, 0.0])).tolist()
    [nan, 1.0]
    """
    first = next(a for a in jax.tree.leaves(args) if jnp.issubdtype(a.dtype, jnp.floating))
    like = jax.eval_shape(f, *args)
    nothing = lambda *_: jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), like)
    return lax.cond(~(jnp.ravel(first)[0] > jnp.inf), f, nothing, *args)

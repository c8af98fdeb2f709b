"""How long ago each channel was last observed, and how long it all took, as a network can use it: any curve of time."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from leapcde.nn.dense import Dense
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import forward_fill

AGES = 12  # places at which a curve of a channel's age may turn: even in its logarithm, since what is old matters less
LONG = 24  # and one of the duration: even


class Ages(eqx.Module):
    """q = silu(W_q [hats of each channel's age, hats of the duration, log counts, last values, statics]).

    A layer of hat functions is any piecewise linear curve. The logarithm of an age, which the path sees, cannot say
    "between six and nine hours ago": on PhysioNet Sepsis that was what boosted trees knew and LEAP+ did not (decision 28).
    That an observation was made is never hidden, only what it was.
    """

    W: Dense
    span: float = eqx.field(static=True)  # of the longest training sample, in typical gaps

    def __init__(self, values: int, static: int, state: int, *, span: float, key):
        self.W = Dense(values * (AGES + 2) + LONG + static, state, key=key, gain=3**0.5)
        self.span = span

    def __call__(self, batch: Batch) -> Float[Array, "batch state"]:
        """At the end of each sample."""
        obs, made = batch.obs, batch.made
        newest = jnp.max(jnp.where(made > 0, obs.times[..., None], 0.0), 1)
        return self.at(obs.times[:, -1:], newest, made.sum(1), obs.last, obs.static)

    def each(self, batch: Batch) -> Float[Array, "rows batch state"]:
        """At each row, of the rows so far."""
        obs, made, t = batch.obs, batch.made, batch.obs.times[..., None]
        newest = lax.cummax(jnp.where(made > 0, t, 0.0), axis=1)
        static = jnp.broadcast_to(obs.static[:, None], (*obs.times.shape, obs.static.shape[-1]))
        found = self.at(t, newest, jnp.cumsum(made, 1), forward_fill(obs.values, obs.mask), static)
        return jnp.moveaxis(found, 1, 0)

    def at(self, t, newest, count, last, static):
        """At times t (..., 1), from when and how often each channel was observed until then, and its last value."""
        age = hats(jnp.log1p(t - newest), jnp.log1p(self.span), AGES) * (count > 0)[..., None]
        long = hats(t[..., 0], self.span, LONG)
        inputs = [age.reshape(*count.shape[:-1], -1), long, jnp.log1p(count), last, static]
        return jax.nn.silu(self.W(jnp.concatenate(inputs, -1)))


def hats(x, top, count: int):
    """Functions of x with one peak of 1 each, at `count` even places from 0 to `top`, and 0 from its neighbours on.

    >>> hats(jnp.array([0.25, 9.0]), 1.0, 3).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """
    place = jnp.clip(x / top, 0, 1) * (count - 1)
    return jnp.maximum(0.0, 1 - jnp.abs(place[..., None] - jnp.arange(count)))

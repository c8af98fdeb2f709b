"""The observations around a time, channel by channel: their values, how far they are, how many there are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from leapcde.data.batch import Padded


def around(obs: Padded, t, count: int, *, causal: bool):
    """Values, gaps and presence of each channel's `count` observations before t (batch, times), then as many after.

    Each is (batch, times, 2 count, channels). If `causal`, there is nothing after.
    """
    find = lambda side: jax.vmap(lambda rows, t: jnp.searchsorted(rows, t, side=side))(obs.times, t)
    i, j = jnp.clip(find("right") - 1, 0), jnp.minimum(find("left"), obs.times.shape[1] - 1)
    pick = lambda found, i: [jnp.take_along_axis(a, i[..., None, None], 1) for a in found]
    sides = pick(latest(obs, count), i), pick(latest(obs, count, reverse=True), j)
    s, x, there = (jnp.concatenate(parts, 2) for parts in zip(*sides, strict=True))
    if causal:
        there = there.at[:, :, count:].set(False)
    return x, jnp.abs(t[:, :, None, None] - s), there


def latest(obs: Padded, count: int, *, reverse: bool = False):
    """At every row, times and values of each channel's `count` latest observations, its own first, and whether there
    were so many: (batch, rows, count, channels). From the end if `reverse`."""
    rows = jnp.broadcast_to(obs.times[..., None], obs.values.shape), obs.values, obs.mask

    def step(held, row):
        held = with_row(held, row)
        return held, held

    empty = jnp.zeros((len(obs.values), count, obs.values.shape[-1]), obs.values.dtype)
    first = tuple(jnp.moveaxis(row, 1, 0) for row in rows)
    _, found = lax.scan(step, (empty,) * 3, first, reverse=reverse)
    t, x, there = (jnp.moveaxis(a, 0, 1) for a in found)
    return t, x, there > 0


def with_row(held, row):
    """The latest observations of each channel, (batch, count, channels), when one more row came: its time, value and mask."""
    pushed = (jnp.concatenate([new[:, None], h[:, :-1]], 1) for new, h in zip(row, held, strict=True))
    return tuple(jnp.where(row[2][:, None] > 0, new, h) for new, h in zip(pushed, held, strict=True))


def counted(obs: Padded, t):
    """How many observations of each channel lie nearest to each of the times t (batch, times)."""
    middle, total = (t[:, 1:] + t[:, :-1]) / 2, jnp.cumsum(obs.mask, 1)
    i = jax.vmap(lambda rows, t: jnp.searchsorted(rows, t, side="right"))(obs.times, middle)
    so_far = jnp.take_along_axis(jnp.pad(total, ((0, 0), (1, 0), (0, 0))), i[..., None], 1)
    return jnp.diff(jnp.concatenate([so_far, total[:, -1:]], 1), axis=1, prepend=0.0)

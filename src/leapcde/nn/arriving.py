"""LEAP+ when rows arrive one at a time: step by step what `models/leap_plus.py` does with all of them, if it is causal.

`model` is a `LeapPlus` everywhere; its parts are used, and nothing of it is imported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from leapcde.nn.blocks import rms
from leapcde.paths.batch import Batch
from leapcde.paths.neighbours import with_row


class Arrived(NamedTuple):
    """What a stream carries from row to row."""

    held: Any  # each channel's latest observations: times, values, and whether there are so many
    counts: Any  # of each channel's observations
    near: Any  # (Y, dY) at the last knots
    blocks: list  # of each block, what κ spans, and z
    read: tuple  # how many rows; end, sum and maximum of rms(uᴸ)


def nothing(model: Any, samples: int, near: int) -> Arrived:
    """Before the first row."""
    C, dtype = model.values, model.norm.dtype
    held = tuple(jnp.zeros((samples, model.Y.side, C), dtype) for _ in range(3))
    still = jnp.zeros((samples, model.norm.size), dtype)
    blocks = [block.nothing(samples) for block in model.blocks]
    read = jnp.zeros(()), still, still, still - jnp.inf
    return Arrived(held, held[0][:, 0], jnp.zeros((near, samples, 2 * C), dtype), blocks, read)


def arrive(model: Any, state: Arrived, batch: Batch, row: int) -> Arrived:
    """When one more row is there."""
    obs, C = batch.obs, model.values
    t, x, mask = obs.times[:, row, None], obs.values[:, row], obs.mask[:, row]
    held = with_row(state.held, (jnp.broadcast_to(t, x.shape), x, mask))
    times, x, there = (jnp.concatenate([a, 0 * a], 1)[:, None] for a in held)
    Xt = model.Y.held(x, there)
    seen = model.Y.mixed(Xt, Xt, x, jnp.abs(t[..., None, None] - times), there > 0)
    Y, *more = (a[:, 0] for a in seen)
    count, _, total, most = state.read
    dY = jnp.where(count > 0, Y - state.near[-1, :, :C], 0.0)
    near = jnp.concatenate([state.near[1:], jnp.concatenate([Y, dY], -1)[None]])
    u = model.W(jnp.concatenate([*near, jnp.log1p(mask), *more, t / model.span, obs.static], -1))
    blocks = []
    for block, before in zip(model.blocks, state.blocks, strict=True):
        after, added = block.arrive(before, u)
        u = u + added
        blocks.append(after)
    end = rms(u, model.norm)
    return Arrived(held, state.counts + mask, near, blocks, (count + 1, end, total + end, jnp.maximum(most, end)))


def read(model: Any, state: Arrived, batch: Batch):
    """What the answer is read from: [end, mean, max] of the rows so far and, if the model reads ages, these."""
    rows, end, total, most = state.read
    z = jnp.concatenate([end, total / rows, most], -1)[:, : model.read]
    if model.ages is None:
        return z
    newest, last, t = state.held[0][:, 0], state.held[1][:, 0], batch.obs.times[:, -1:]
    return jnp.concatenate([z, model.ages.at(t, newest, state.counts, last, batch.obs.static)], -1)

"""Paths made of paths: clocks, means over steps, other paces, more channels."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float

from leapcde.paths.path import CubicPath, join_linear, two_knots


def clock_path(times: Float[Array, "batch length"], pace: float, steps: int | None) -> CubicPath:
    """Scaled time since each sample's start as a path of one channel: what drives an ordinary differential equation.

    Its knots are the observations, or `steps` equal steps from the sample's start to its end.
    """
    times = (times - times[:, :1]) * pace
    if steps is not None:
        times = times[:, -1:] * jnp.linspace(0.0, 1.0, steps + 1, dtype=times.dtype)
    times = two_knots(times)
    return join_linear(times, times[..., None])


def with_linear(path: CubicPath, extra) -> CubicPath:
    """The path with channels before its own that are linear between the knots."""
    slope = jnp.diff(extra, axis=1)
    join = lambda a, b: jnp.concatenate([a, b], -1)
    return replace(path, values=join(extra, path.values), left=join(slope, path.left), right=join(slope, path.right))


def resampled(path: CubicPath, clock: CubicPath, pace: float) -> CubicPath:
    """The path at the knots of a clock that starts with it and runs `pace` times as fast, linear between them."""
    return join_linear(clock.times, path.evaluate(path.times[:, :1] + clock.times / pace))


def averaged(path: CubicPath, clock: CubicPath) -> CubicPath:
    """The path at the knots of a clock of equal steps, linear between them, with X the mean over a step around each knot.

    X itself at so few points would be whatever its noise is there; its mean is what it does.
    """
    start, end = path.times[:, :1], path.times[:, -1:]
    t, half = start + clock.times, (end - start) / (2 * (clock.times.shape[1] - 1))
    low, high = jnp.maximum(t - half, start), jnp.minimum(t + half, end)
    width = (high - low)[..., None]
    mean = (path.integral(high) - path.integral(low)) / jnp.where(width > 0, width, 1.0)
    return join_linear(clock.times, jnp.where(width > 0, mean, path.evaluate(t)))


def paced(path: CubicPath, pace: float) -> CubicPath:
    """The path whose first channel, time, runs `pace` times as fast."""
    slow = lambda array: array * jnp.ones(array.shape[-1], array.dtype).at[0].set(pace)
    return replace(path, values=slow(path.values), left=slow(path.left), right=slow(path.right))


def add_channels(path: CubicPath, other: CubicPath, skip: int = 0) -> CubicPath:
    """The sum of a path and another one with the same knots, without the other's first channels."""
    add = lambda a, b: a + b[..., skip:]
    parts = {name: add(getattr(path, name), getattr(other, name)) for name in ("values", "left", "right")}
    return replace(path, **parts)

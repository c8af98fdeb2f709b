"""Natural cubic splines, each channel through its own observed points, batched."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from leapcde.paths.interpolation import Interpolation, register_interpolation
from leapcde.paths.neighbours import observed, so_far
from leapcde.paths.path import CubicPath, take_rows


@register_interpolation
class Natural(Interpolation):
    """Natural cubic splines, each channel through its own observed points, cut at every knot of the sample.

    A cubic restricted to part of its piece is still a cubic, so its values and slopes at the knots carry all of it.
    """

    name = "natural"

    def fit(self, times, values, mask) -> CubicPath:
        points = observed(times, values, mask)
        return _cut_at_knots(times, mask, points, _natural_curvature(*points))


def _natural_curvature(clock, x):
    """Second derivatives at the observed points: a diagonally dominant tridiagonal system, solved by one sweep each way.

    Repeated points (padding) have gap zero; their rows become M = 0, which is also the natural end condition.
    """
    gap = jnp.diff(clock, axis=1)
    rate = jnp.where(gap > 0, jnp.diff(x, axis=1) / jnp.where(gap > 0, gap, 1.0), 0.0)
    inner = (gap[:, :-1] > 0) & (gap[:, 1:] > 0)
    low, high = jnp.where(inner, gap[:, :-1], 0.0), jnp.where(inner, gap[:, 1:], 0.0)
    middle = jnp.where(inner, 2 * (gap[:, :-1] + gap[:, 1:]), 1.0)
    right = jnp.where(inner, 6 * (rate[:, 1:] - rate[:, :-1]), 0.0)
    rows = tuple(jnp.moveaxis(a, 1, 0) for a in (low, middle, high, right))
    zero = jnp.zeros_like(x[:, 0])

    def down(carry, row):
        c, d = carry
        a, b, c_next, r = row
        scale = 1 / (b - a * c)
        new = (c_next * scale, (r - a * d) * scale)
        return new, new

    def up(m, row):
        c, d = row
        m = d - c * m
        return m, m

    _, swept = lax.scan(down, (zero, zero), rows)
    _, inside = lax.scan(up, zero, swept, reverse=True)
    inside = jnp.moveaxis(inside, 0, 1)
    return jnp.concatenate([zero[:, None], inside, zero[:, None]], 1)


def _cut_at_knots(times, mask, points, curvature) -> CubicPath:
    """The splines as a path with a knot at every row of the sample."""
    clock, x = points
    seen = mask > 0
    # The spline piece that contains knot i is the one after the observations counted up to it.
    count = so_far(seen.astype(jnp.int32))
    total = count[:, -1:]
    index = jnp.clip(count - 1, 0, jnp.maximum(total - 2, 0))
    pick = lambda a, shift: take_rows(a, index + shift)
    t0, t1, x0, x1, m0, m1 = (pick(a, s) for a in (clock, x, curvature) for s in (0, 1))
    gap = t1 - t0
    safe = jnp.where(gap > 0, gap, 1.0)
    t = times[..., None]
    a, b = (t1 - t) / safe, (t - t0) / safe
    value = a * x0 + b * x1 + ((a**3 - a) * m0 + (b**3 - b) * m1) * gap**2 / 6
    speed = (x1 - x0) / safe + ((3 * b**2 - 1) * m1 - (3 * a**2 - 1) * m0) * gap / 6
    # Outside a channel's own observations it is held; at its first and last one the slope has two sides.
    within = (gap > 0) & (t >= clock[:, :1]) & (t <= clock[:, -1:])
    # (Two knots may share a time once it is in single precision; then the piece has no length and its value is x0.)
    held = jnp.where(t <= clock[:, :1], x[:, :1], jnp.where(t >= clock[:, -1:], x[:, -1:], x0))
    value = jnp.where(total > 0, jnp.where(within, value, held), 0.0)
    return _pieces(times, value, jnp.where(within, speed, 0.0), clock)


def _pieces(times, value, speed, clock) -> CubicPath:
    """Values and speeds at the knots as a path that stands still outside each channel's own observations."""
    step = jnp.diff(times, axis=1)[..., None]
    starts, ends = times[:, :-1, None], times[:, 1:, None]
    moving = (starts >= clock[:, :1]) & (ends <= clock[:, -1:])
    side = lambda slope: jnp.where(moving, slope * step, 0.0)
    return CubicPath(times, value, side(speed[:, :-1]), side(speed[:, 1:]))

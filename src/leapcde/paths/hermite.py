"""Cubic pieces whose slope at a knot is the difference quotient *before* it, so nothing later is needed."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from leapcde.paths.interpolation import CausalInterpolation, forward_fill, register_interpolation
from leapcde.paths.path import CubicPath


class Memory(NamedTuple):
    """Of the rows so far, each (batch, channels)."""

    values: Any  # last observed ones; 0 before there are any
    speed: Any  # dX/dt over the last gap
    moved: Any  # has there been a gap?


@register_interpolation
class Hermite(CausalInterpolation):
    """Backward-difference cubics (Morrill et al., 2021): causal and smooth. The last observed value is held."""

    name = "hermite"

    def fit(self, times, values, mask) -> CubicPath:
        filled = forward_fill(values, mask)
        gap = jnp.diff(times, axis=1)[..., None]
        rise = jnp.diff(filled, axis=1)
        # dX/ds = dX/dt * gap; the first piece has no past and is linear.
        left = jnp.concatenate([rise[:, :1], _speed(rise, gap)[:, :-1] * gap[:, 1:]], 1)
        return CubicPath(times, filled, left, rise)

    def begin(self, values, mask) -> Memory:
        return Memory(jnp.where(mask > 0, values, 0.0), jnp.zeros_like(values), jnp.zeros(values.shape, bool))

    def extend(self, memory: Memory, times, values, mask) -> tuple[CubicPath, Memory]:
        filled = jnp.where(mask > 0, values, memory.values)
        gap, rise = jnp.diff(times, axis=1), filled - memory.values
        left = jnp.where(memory.moved, memory.speed * gap, rise)
        piece = CubicPath(times, jnp.stack([memory.values, filled], 1), left[:, None], rise[:, None])
        return piece, Memory(filled, _speed(rise, gap), jnp.ones_like(memory.moved))


def _speed(rise, gap):
    """dX/dt; 0 on padding, where no time passes."""
    return jnp.where(gap > 0, rise / jnp.where(gap > 0, gap, 1.0), 0.0)

"""Time moves first with the values held, then the values jump with time held: 2n - 1 knots."""

from __future__ import annotations

import jax.numpy as jnp

from leapcde.paths.interpolation import CausalInterpolation, forward_fill, register_interpolation
from leapcde.paths.path import CubicPath, join_linear


@register_interpolation
class Rectilinear(CausalInterpolation):
    """The last observed value is held until the next row, and changes there at once (Morrill et al., 2021)."""

    name = "rectilinear"
    jumps = True

    def fit(self, times, values, mask) -> CubicPath:
        return join_linear(jnp.repeat(times, 2, axis=1)[:, 1:], self.at_knots(forward_fill(values, mask)))

    def at_knots(self, rows):
        return jnp.repeat(rows, 2, axis=1)[:, :-1]

    def of_errors(self, times, errors, mask) -> CubicPath:
        return self.fit(times, errors, mask)

    def begin(self, values, mask):
        """The last observed values."""
        return jnp.where(mask > 0, values, 0.0)

    def extend(self, memory, times, values, mask) -> tuple[CubicPath, jnp.ndarray]:
        filled = jnp.where(mask > 0, values, memory)
        rows = jnp.stack([memory, filled], 1)
        return join_linear(jnp.repeat(times, 2, axis=1)[:, 1:], self.at_knots(rows)), filled

"""Straight lines between the observations of each channel."""

from __future__ import annotations

from leapcde.paths.interpolation import Interpolation, bridge, register_interpolation
from leapcde.paths.path import CubicPath, join_linear


@register_interpolation
class Linear(Interpolation):
    """Straight lines between each channel's own observations; held before the first and after the last."""

    name = "linear"

    def fit(self, times, values, mask) -> CubicPath:
        return join_linear(times, bridge(times, values, mask))

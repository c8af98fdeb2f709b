"""A path that grows while rows arrive: the pieces that each new row adds, and what must be remembered for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from leapcde.paths.batch import Recipe
from leapcde.paths.interpolation import CausalInterpolation, interpolation_of, with_extra_channels
from leapcde.paths.path import CubicPath, join_linear


class Grown(NamedTuple):
    """What is known of the rows so far."""

    time: Any  # (batch,), of the last row
    values: Any  # (batch, channels), last observed ones; 0 (the training mean) before there are any
    seen: Any  # (batch, channels), 1 where a channel was observed before
    count: Any  # (batch, channels), observations so far
    memory: Any  # of the interpolation


def begin_path(recipe: Recipe, time, values, mask) -> Grown:
    """From the first row: its time (batch,), and its values and mask (batch, channels)."""
    kind = interpolation_of(recipe.interpolation)
    memory = kind.begin(values, mask) if isinstance(kind, CausalInterpolation) else None
    return Grown(time, jnp.where(mask > 0, values, 0.0), mask, mask, memory)


def extend_path(recipe: Recipe, grown: Grown, time, values, mask) -> tuple[CubicPath, Grown]:
    """The pieces of X between the last row and a new one, with all channels of the recipe, and what is known now.

    Other than causal interpolations have no such pieces. Models that read no path are given straight lines there.
    """
    kind = interpolation_of(recipe.interpolation)
    times, filled = jnp.stack([grown.time, time], 1), jnp.where(mask > 0, values, grown.values)
    count = grown.count + mask
    if isinstance(kind, CausalInterpolation):
        piece, memory = kind.extend(grown.memory, times, values, mask)
    else:
        kind, memory = interpolation_of("linear"), None
        piece = join_linear(times, jnp.stack([grown.values, filled], 1))
    counts = jnp.stack([grown.count, count], 1) if recipe.intensity else None
    piece = with_extra_channels(piece, kind, counts, time_channel=recipe.time_channel)
    return piece, Grown(time, filled, jnp.maximum(grown.seen, mask), count, memory)

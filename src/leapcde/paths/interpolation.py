"""Observations -> a continuous path X, differentiable and batched: what an interpolation is, and all of them by name.

A new one is a class in a file of its own: `@register_interpolation` makes its name known wherever a name is taken
(docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
from jax import lax

from leapcde.data.batch import Padded
from leapcde.errors import choose
from leapcde.paths.path import CubicPath, join_linear, take_rows, two_knots
from leapcde.paths.transform import with_linear


class Interpolation(ABC):
    """How a path runs through observations. Subclasses are final; one that can be streamed is a `CausalInterpolation`.

    All arrays are of a batch: `times` is (batch, rows), `values` and `mask` are (batch, rows, channels), with 1 in the
    mask where a value was observed and 0 in the values where none was. Padding repeats the last time and observes nothing;
    the path must stand still there.
    """

    name: ClassVar[str]
    causal: ClassVar[bool] = False  # does the path up to a row stay as it is when later rows arrive?
    jumps: ClassVar[bool] = False  # does the path change while time stands still?

    @abstractmethod
    def fit(self, times, values, mask) -> CubicPath:
        """The path through the observations; a channel that was never observed is constant 0."""

    def at_knots(self, rows):
        """Something known at each row, such as counts of observations, (batch, rows, any), at each knot of the path.

        The same, for a path that has its knots where the rows are.
        """
        return rows

    def of_errors(self, times, errors, mask) -> CubicPath:
        """What errors of the observations add to the path, for noise in training: straight lines between them."""
        return join_linear(times, bridge(times, errors, mask))


class CausalInterpolation(Interpolation):
    """An interpolation whose path never changes in its past, so that it can grow row by row. Subclasses are final."""

    causal = True

    @abstractmethod
    def begin(self, values, mask) -> Any:
        """What must be remembered of the first row, (batch, channels): a pytree of arrays whose shapes stay the same."""

    @abstractmethod
    def extend(self, memory: Any, times, values, mask) -> tuple[CubicPath, Any]:
        """The pieces of the path between the last row and a new one, and what is to be remembered now.

        `times` is (batch, 2), the last and the new one; `values` and `mask` are of the new row, (batch, channels). The
        pieces are those that `fit` puts between the two rows when it sees the whole series.
        """


INTERPOLATIONS: dict[str, Interpolation] = {}
Kind = TypeVar("Kind", bound=Interpolation)


def register_interpolation(kind: type[Kind]) -> type[Kind]:
    """Make an interpolation known by its name. A decorator for a subclass of `Interpolation`; returns the class.

    >>> INTERPOLATIONS["hermite"].causal, INTERPOLATIONS["natural"].causal
    (True, False)
    """
    INTERPOLATIONS[kind.name] = kind()
    return kind


def interpolation_of(name: str) -> Interpolation:
    """The interpolation of this name; the error for another one lists them all.

    >>> interpolation_of("rectilinear").jumps
    True
    """
    choose("interpolation", name, INTERPOLATIONS)
    return INTERPOLATIONS[name]


def fit_path(obs: Padded, interpolation: str = "natural", *, time_channel: bool = True, intensity: bool = False) -> CubicPath:
    """The path X through the observations, with channels in the order time, intensity, values.

    `intensity` adds each channel's running count of observations. Both extra kinds are linear between knots.

    >>> from leapcde.data.batch import pad
    >>> from leapcde.data.read import as_series
    >>> obs = pad(as_series([([0, 1, 3], [1.0, float("nan"), 4.0])]))
    >>> fit_path(obs, "linear").values[0, :, 1].tolist()
    [1.0, 2.0, 4.0]
    """
    kind = interpolation_of(interpolation)
    times, mask = two_knots(jnp.asarray(obs.times)), two_knots(jnp.asarray(obs.mask), fill=0.0)
    path = kind.fit(times, two_knots(jnp.asarray(obs.values)), mask)
    counts = jnp.cumsum(mask, axis=1) if intensity else None
    return with_extra_channels(path, kind, counts, time_channel=time_channel)


def with_extra_channels(path: CubicPath, kind: Interpolation, counts, *, time_channel: bool) -> CubicPath:
    """The path with time and the counts of observations at each row (None: without them) before its own channels."""
    extra = [path.times[..., None]] if time_channel else []
    if counts is not None:
        extra.append(kind.at_knots(counts))
    return replace(with_linear(path, jnp.concatenate(extra, -1)) if extra else path, interpolation=kind.name)


def channel_count(values: int, *, time_channel: bool, intensity: bool) -> int:
    """How many channels `fit_path` gives for so many value channels."""
    return int(time_channel) + values * (1 + int(intensity))


# What interpolations are made of -----------------------------------------------------------------------------------------


def neighbours(mask):
    """Index of the nearest observed row at or before, and at or after, each row (-1 and length where there is none)."""
    length = mask.shape[1]
    index = jnp.arange(length)[None, :, None]
    before = lax.cummax(jnp.where(mask > 0, index, -1), axis=1)
    after = lax.cummin(jnp.where(mask > 0, index, length), axis=1, reverse=True)
    return before, after


def forward_fill(values, mask):
    """The last observed value of each channel; 0 (the training mean) before the first, because the future is not known."""
    before, _ = neighbours(mask)
    return jnp.where(before < 0, 0.0, take_rows(values, before))


def bridge(times, values, mask):
    """Linear interpolation per channel over its own observed rows; held constant before the first and after the last."""
    before, after = neighbours(mask)
    first, last = jnp.where(before < 0, after, before), jnp.where(after >= mask.shape[1], before, after)
    clock = jnp.broadcast_to(times[..., None], values.shape)
    t0, t1 = take_rows(clock, first), take_rows(clock, last)
    share = jnp.where(t1 > t0, (clock - t0) / jnp.where(t1 > t0, t1 - t0, 1.0), 0.0)
    filled = (1 - share) * take_rows(values, first) + share * take_rows(values, last)
    return jnp.where(mask.sum(1, keepdims=True) > 0, filled, 0.0)

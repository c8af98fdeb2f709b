"""Observations -> a continuous path X, differentiable and batched."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from leapcde.data.batch import Padded
from leapcde.errors import choose
from leapcde.paths.natural import natural
from leapcde.paths.path import CubicPath, join_linear, take_rows, two_knots
from leapcde.paths.transform import with_linear

CAUSAL = ("hermite", "rectilinear")  # never change in their past when observations arrive
INTERPOLATIONS: tuple[str, ...] = ("natural", "linear", *CAUSAL)


def fit_path(obs: Padded, interpolation: str = "natural", *, time_channel: bool = True, intensity: bool = False) -> CubicPath:
    """The path X through the observations, with channels in the order time, intensity, values.

    `intensity` adds each channel's running count of observations. Both extra kinds are linear between knots.

    >>> from leapcde.data.batch import pad
    >>> from leapcde.data.read import as_series
    >>> obs = pad(as_series([([0, 1, 3], [1.0, float("nan"), 4.0])]))
    >>> fit_path(obs, "linear").values[0, :, 1].tolist()
    [1.0, 2.0, 4.0]
    """
    choose("interpolation", interpolation, INTERPOLATIONS)
    times, mask = jnp.asarray(obs.times), jnp.asarray(obs.mask)
    path = _FIT[interpolation](two_knots(times), two_knots(jnp.asarray(obs.values)), two_knots(mask, fill=0.0))
    extra = []
    if time_channel:
        extra.append(path.times[..., None])
    if intensity:
        count = jnp.cumsum(two_knots(mask, fill=0.0), axis=1)
        extra.append(_rectified(count) if interpolation == "rectilinear" else count)
    return with_linear(path, jnp.concatenate(extra, -1)) if extra else path


def channel_count(values: int, *, time_channel: bool, intensity: bool) -> int:
    """How many channels `fit_path` gives for so many value channels."""
    return int(time_channel) + values * (1 + int(intensity))


def neighbours(mask):
    """Index of the nearest observed row at or before, and at or after, each row (-1 and length where there is none)."""
    length = mask.shape[1]
    index = jnp.arange(length)[None, :, None]
    before = lax.cummax(jnp.where(mask > 0, index, -1), axis=1)
    after = lax.cummin(jnp.where(mask > 0, index, length), axis=1, reverse=True)
    return before, after


def _linear(times, values, mask) -> CubicPath:
    return join_linear(times, _bridge(times, values, mask))


def _bridge(times, values, mask):
    """Linear interpolation per channel over its own observed rows; held constant before the first and after the last."""
    before, after = neighbours(mask)
    first, last = jnp.where(before < 0, after, before), jnp.where(after >= mask.shape[1], before, after)
    clock = jnp.broadcast_to(times[..., None], values.shape)
    t0, t1 = take_rows(clock, first), take_rows(clock, last)
    share = jnp.where(t1 > t0, (clock - t0) / jnp.where(t1 > t0, t1 - t0, 1.0), 0.0)
    filled = (1 - share) * take_rows(values, first) + share * take_rows(values, last)
    return jnp.where(mask.sum(1, keepdims=True) > 0, filled, 0.0)


def forward_fill(values, mask):
    """The last observed value of each channel; 0 (the training mean) before the first, because the future is not known."""
    before, _ = neighbours(mask)
    return jnp.where(before < 0, 0.0, take_rows(values, before))


def _hermite(times, values, mask) -> CubicPath:
    """Cubic pieces whose slope at a knot is the difference quotient *before* it, so nothing later is needed."""
    filled = forward_fill(values, mask)
    gap = jnp.diff(times, axis=1)[..., None]
    rise = jnp.diff(filled, axis=1)
    rate = jnp.where(gap > 0, rise / jnp.where(gap > 0, gap, 1.0), 0.0)
    # dX/ds = dX/dt * gap; the first piece has no past and is linear.
    left = jnp.concatenate([rise[:, :1], rate[:, :-1] * gap[:, 1:]], 1)
    return CubicPath(times, filled, left, rise)


def _rectilinear(times, values, mask) -> CubicPath:
    """Time moves first with the values held, then the values jump with time held: 2n - 1 knots."""
    held = _rectified(forward_fill(values, mask))
    return join_linear(jnp.repeat(times, 2, axis=1)[:, 1:], held)


def _rectified(values):
    return jnp.repeat(values, 2, axis=1)[:, :-1]


_FIT = {"natural": natural, "linear": _linear, "hermite": _hermite, "rectilinear": _rectilinear}

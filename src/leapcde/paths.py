"""Observations -> a continuous path X, differentiable and batched.

Every scheme ends in the same thing: knots, values at the knots, and the two slopes of each piece. One cubic Hermite
formula then evaluates all of them. Slopes are per unit of *knot time* s (s = i at knot i): a controlled differential
equation does not care how fast its path is run through, so the gaps between time stamps never reach the solver, and
repeating the last knot (padding) adds pieces that do not move at all.
"""

from __future__ import annotations

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from .errors import choose
from .prepare import Padded

Scheme = Literal["natural", "linear", "hermite", "rectilinear"]
CAUSAL = ("hermite", "rectilinear")  # never change in their past when observations arrive
SCHEMES: tuple[str, ...] = ("natural", "linear", *CAUSAL)


class Path(eqx.Module):
    """A batch of piecewise cubic paths. `left` and `right` are the slopes dX/ds at both ends of each piece."""

    times: Float[Array, "batch knots"]
    values: Float[Array, "batch knots channels"]
    left: Float[Array, "batch knots-1 channels"]
    right: Float[Array, "batch knots-1 channels"]

    def piece(self, index, u) -> Float[Array, ...]:
        """X inside piece `index` (a slice or an array of one per sample and query), at share `u` of it."""
        x0, x1, d0, d1 = self._ends(index)
        h00, h01 = (1 + 2 * u) * (1 - u) ** 2, u**2 * (3 - 2 * u)
        return h00 * x0 + u * (1 - u) ** 2 * d0 + h01 * x1 - u**2 * (1 - u) * d1

    def slope(self, index, u) -> Float[Array, ...]:
        """dX/ds inside piece `index`, at share `u` of it."""
        x0, x1, d0, d1 = self._ends(index)
        return 6 * u * (1 - u) * (x1 - x0) + (1 - u) * (1 - 3 * u) * d0 + u * (3 * u - 2) * d1

    def controls(self, nodes: tuple[float, ...], substeps: int = 1) -> Float[Array, "steps stages batch channels"]:
        """dX/ds where a Runge–Kutta method with these nodes looks, all steps at once: the solver only reads them."""
        return _at_stages(lambda u: self.slope(slice(None), u), nodes, substeps)

    def evaluate(self, t: Float[Array, "batch queries"]) -> Float[Array, "batch queries channels"]:
        """X at real times; constant outside the knots. Where X jumps (rectilinear), the value after the jump."""
        index, u, _ = self._locate(t, "right")
        return self.piece(index, u)

    def integral(self, t: Float[Array, "batch queries"]) -> Float[Array, "batch queries channels"]:
        """∫ X dt from the first knot to real times between the knots."""
        gaps = jnp.diff(self.times, axis=1)[..., None]
        whole = jnp.cumsum(gaps * self._area(slice(None), 1.0), axis=1)
        index, u, gap = self._locate(t, "right")
        return _take(jnp.pad(whole, ((0, 0), (1, 0), (0, 0))), index) + gap * self._area(index, u)

    def derivative(self, t: Float[Array, "batch queries"]) -> Float[Array, "batch queries channels"]:
        """dX/dt at real times; zero outside the knots."""
        index, u, gap = self._locate(t, "left")
        inside = (t >= self.times[:, :1]) & (t <= self.times[:, -1:])
        safe = jnp.where(gap > 0, gap, 1.0)
        return jnp.where((gap > 0) & inside[..., None], self.slope(index, u) / safe, 0.0)

    def _area(self, index, u) -> Float[Array, ...]:
        """∫ X ds over the first share `u` of piece `index`."""
        x0, x1, d0, d1 = self._ends(index)
        passed = u**3 - u**4 / 2
        return (u - passed) * x0 + (u**2 / 2 - 2 * u**3 / 3 + u**4 / 4) * d0 + passed * x1 + (u**4 / 4 - u**3 / 3) * d1

    def _ends(self, index):
        if isinstance(index, slice):
            return self.values[:, :-1], self.values[:, 1:], self.left, self.right
        pick = lambda a: jnp.take_along_axis(a, index, axis=1)
        return pick(self.values), jnp.take_along_axis(self.values, index + 1, axis=1), pick(self.left), pick(self.right)

    def _locate(self, t, side: str):
        """The piece of each query, the share of it that has passed, and its length. `side` decides at a knot."""
        search = jax.vmap(lambda knots, q: jnp.searchsorted(knots, q, side=side))
        index = jnp.clip(search(self.times, t) - 1, 0, self.times.shape[1] - 2)[..., None]
        t0 = jnp.take_along_axis(self.times[..., None], index, axis=1)
        t1 = jnp.take_along_axis(self.times[..., None], index + 1, axis=1)
        gap, t = t1 - t0, t[..., None]
        u = jnp.where(gap > 0, (t - t0) / jnp.where(gap > 0, gap, 1.0), (t >= t1).astype(t.dtype))
        return index, jnp.clip(u, 0.0, 1.0), gap


class WithValues(eqx.Module):
    """A path as a drive that also tells where it is: what a solver reads is the pair (dX/ds, X)."""

    path: Path

    @property
    def times(self) -> Float[Array, "batch knots"]:
        return self.path.times

    def slope(self, index, u):
        return self.path.slope(index, u), self.path.piece(index, u)

    def controls(self, nodes: tuple[float, ...], substeps: int = 1):
        values = _at_stages(lambda u: self.path.piece(slice(None), u), nodes, substeps)
        return self.path.controls(nodes, substeps), values


def _at_stages(look, nodes: tuple[float, ...], substeps: int):
    """`look(share of a piece)` wherever a method with these nodes looks, as (steps, stages, batch, channels)."""
    at = [[(k + c) / substeps for c in nodes] for k in range(substeps)]
    found = jnp.stack([jnp.stack([look(u) for u in row]) for row in at])
    # (substeps, stages, batch, pieces, channels) -> (pieces * substeps, stages, batch, channels)
    found = jnp.moveaxis(found, 3, 0)
    return found.reshape(-1, *found.shape[2:])


def fit_path(obs: Padded, scheme: str = "natural", *, time: bool = True, intensity: bool = False) -> Path:
    """The path X through the observations, with channels in the order time, intensity, values.

    `intensity` adds each channel's running count of observations. Both extra kinds are linear between knots.

    >>> from leapcde.prepare import pad
    >>> from leapcde.series import as_series
    >>> obs = pad(as_series([([0, 1, 3], [1.0, float("nan"), 4.0])]))
    >>> fit_path(obs, "linear").values[0, :, 1].tolist()
    [1.0, 2.0, 4.0]
    """
    choose("path", scheme, SCHEMES)
    times, mask = jnp.asarray(obs.times), jnp.asarray(obs.mask)
    path = _FIT[scheme](_two_knots(times), _two_knots(jnp.asarray(obs.values)), _two_knots(mask, fill=0.0))
    extra = []
    if time:
        extra.append(path.times[..., None])
    if intensity:
        count = jnp.cumsum(_two_knots(mask, fill=0.0), axis=1)
        extra.append(_rectified(count) if scheme == "rectilinear" else count)
    return with_linear(path, jnp.concatenate(extra, -1)) if extra else path


def channel_count(values: int, *, time: bool, intensity: bool) -> int:
    """How many channels `fit_path` gives for so many value channels."""
    return int(time) + values * (1 + int(intensity))


def join_linear(times, values) -> Path:
    """The path that is linear between knots."""
    slope = jnp.diff(values, axis=1)
    return Path(times, values, slope, slope)


def clock_path(times: Float[Array, "batch length"], rate: float, steps: int | None) -> Path:
    """Scaled time since each sample's start as a path of one channel: what drives an ordinary differential equation.

    Its knots are the observations, or `steps` equal steps from the sample's start to its end.
    """
    times = (times - times[:, :1]) * rate
    if steps is not None:
        times = times[:, -1:] * jnp.linspace(0.0, 1.0, steps + 1, dtype=times.dtype)
    times = _two_knots(times)
    return join_linear(times, times[..., None])


def _two_knots(array, fill=None):
    """A path needs a piece to live on; a single observation is padded like any other short sample."""
    if array.shape[1] > 1:
        return array
    again = array if fill is None else jnp.full_like(array, fill)
    return jnp.concatenate([array, again], 1)


def with_linear(path: Path, extra) -> Path:
    """The path with channels before its own that are linear between the knots."""
    slope = jnp.diff(extra, axis=1)
    join = lambda a, b: jnp.concatenate([a, b], -1)
    return Path(path.times, join(extra, path.values), join(slope, path.left), join(slope, path.right))


def resampled(path: Path, clock: Path, rate: float) -> Path:
    """The path at the knots of a clock that starts with it and runs `rate` times as fast, linear between them."""
    return join_linear(clock.times, path.evaluate(path.times[:, :1] + clock.times / rate))


def averaged(path: Path, clock: Path) -> Path:
    """The path at the knots of a clock of equal steps, linear between them, with X the mean over a step around each knot.

    X itself at so few points would be whatever its noise is there; its mean is what it does.
    """
    start, end = path.times[:, :1], path.times[:, -1:]
    t, half = start + clock.times, (end - start) / (2 * (clock.times.shape[1] - 1))
    low, high = jnp.maximum(t - half, start), jnp.minimum(t + half, end)
    width = (high - low)[..., None]
    mean = (path.integral(high) - path.integral(low)) / jnp.where(width > 0, width, 1.0)
    return join_linear(clock.times, jnp.where(width > 0, mean, path.evaluate(t)))


def paced(path: Path, pace: float) -> Path:
    """The path whose first channel, time, runs `pace` times as fast."""
    slow = lambda array: array * jnp.ones(array.shape[-1], array.dtype).at[0].set(pace)
    return Path(path.times, slow(path.values), slow(path.left), slow(path.right))


def add_channels(path: Path, other: Path, skip: int = 0) -> Path:
    """The sum of a path and another one with the same knots, without the other's first channels."""
    add = lambda a, b: a + b[..., skip:]
    return Path(path.times, add(path.values, other.values), add(path.left, other.left), add(path.right, other.right))


def neighbours(mask):
    """Index of the nearest observed row at or before, and at or after, each row (-1 and length where there is none)."""
    length = mask.shape[1]
    index = jnp.arange(length)[None, :, None]
    before = lax.cummax(jnp.where(mask > 0, index, -1), axis=1)
    after = lax.cummin(jnp.where(mask > 0, index, length), axis=1, reverse=True)
    return before, after


def _take(array, index):
    return jnp.take_along_axis(array, jnp.clip(index, 0, array.shape[1] - 1), axis=1)


def _linear(times, values, mask) -> Path:
    return join_linear(times, _bridge(times, values, mask))


def _bridge(times, values, mask):
    """Linear interpolation per channel over its own observed rows; held constant before the first and after the last."""
    before, after = neighbours(mask)
    first, last = jnp.where(before < 0, after, before), jnp.where(after >= mask.shape[1], before, after)
    clock = jnp.broadcast_to(times[..., None], values.shape)
    t0, t1 = _take(clock, first), _take(clock, last)
    share = jnp.where(t1 > t0, (clock - t0) / jnp.where(t1 > t0, t1 - t0, 1.0), 0.0)
    filled = (1 - share) * _take(values, first) + share * _take(values, last)
    return jnp.where(mask.sum(1, keepdims=True) > 0, filled, 0.0)


def forward_fill(values, mask):
    """The last observed value of each channel; 0 (the training mean) before the first, because the future is not known."""
    before, _ = neighbours(mask)
    return jnp.where(before < 0, 0.0, _take(values, before))


def _hermite(times, values, mask) -> Path:
    """Cubic pieces whose slope at a knot is the difference quotient *before* it, so nothing later is needed."""
    filled = forward_fill(values, mask)
    gap = jnp.diff(times, axis=1)[..., None]
    rise = jnp.diff(filled, axis=1)
    rate = jnp.where(gap > 0, rise / jnp.where(gap > 0, gap, 1.0), 0.0)
    # dX/ds = dX/dt * gap; the first piece has no past and is linear.
    left = jnp.concatenate([rise[:, :1], rate[:, :-1] * gap[:, 1:]], 1)
    return Path(times, filled, left, rise)


def _rectilinear(times, values, mask) -> Path:
    """Time moves first with the values held, then the values jump with time held: 2n - 1 knots."""
    held = _rectified(forward_fill(values, mask))
    return join_linear(jnp.repeat(times, 2, axis=1)[:, 1:], held)


def _rectified(values):
    return jnp.repeat(values, 2, axis=1)[:, :-1]


def _natural(times, values, mask) -> Path:
    """Natural cubic splines, each channel through its own observed points, cut at every knot of the sample.

    A cubic restricted to part of its piece is still a cubic, so its values and slopes at the knots carry all of it.
    """
    points = _observed_points(times, values, mask)
    curvature = _natural_curvature(*points)
    return _cut_at_knots(times, mask, points, curvature)


def _observed_points(times, values, mask):
    """Each channel's observed points moved to the front, the last one repeated behind: (clock, x), both (B, n, C)."""
    order = jnp.argsort(mask <= 0, axis=1, stable=True)
    count = mask.sum(1, keepdims=True).astype(jnp.int32)
    index = jnp.take_along_axis(order, jnp.minimum(jnp.arange(mask.shape[1])[None, :, None], jnp.maximum(count - 1, 0)), axis=1)
    clock = jnp.broadcast_to(times[..., None], values.shape)
    return jnp.take_along_axis(clock, index, axis=1), jnp.take_along_axis(values * (mask > 0), index, axis=1)


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


def _cut_at_knots(times, mask, points, curvature) -> Path:
    clock, x = points
    seen = mask > 0
    # The spline piece that contains knot i is the one after the observations counted up to it.
    count = jnp.cumsum(seen, axis=1)
    total = count[:, -1:]
    index = jnp.clip(count - 1, 0, jnp.maximum(total - 2, 0))
    pick = lambda a, shift: _take(a, index + shift)
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


def _pieces(times, value, speed, clock) -> Path:
    step = jnp.diff(times, axis=1)[..., None]
    starts, ends = times[:, :-1, None], times[:, 1:, None]
    moving = (starts >= clock[:, :1]) & (ends <= clock[:, -1:])
    side = lambda slope: jnp.where(moving, slope * step, 0.0)
    return Path(times, value, side(speed[:, :-1]), side(speed[:, 1:]))


_FIT = {"natural": _natural, "linear": _linear, "hermite": _hermite, "rectilinear": _rectilinear}

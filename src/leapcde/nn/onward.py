"""A path that goes on where observations end: the solution of a learned equation that starts at an observation."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from leapcde.nn.dense import Dense
from leapcde.nn.fields import Flow
from leapcde.paths.batch import Batch
from leapcde.paths.neighbours import latest
from leapcde.paths.path import CubicPath, join_linear
from leapcde.solve.rollout import least_squares

SPARE = 4  # steps for the gap between the last observation and the end
STARTS = 4  # observations of a sample at which a training step starts the path again


class Onward(eqx.Module):
    """dh = f(h) dt with h = [Y, c], from h(t_L) = [x_L, φ(x_L, slopes before, z)] at an observation."""

    φ: Dense
    f: Flow
    values: int = eqx.field(static=True)
    side: int = eqx.field(static=True)  # observations of each channel that φ sees

    def __init__(self, values: int, side: int, z: int, *, size: int, width: int, keys):
        φ = Dense(side * values, size, key=keys[0])  # of z nothing at first: the last rows say most
        self.φ = eqx.tree_at(lambda φ: φ.weight, φ, jnp.pad(φ.weight, ((0, z), (0, 0))))
        self.f = Flow(values + size, width, key=keys[1])
        self.values, self.side = values, side

    def __call__(self, batch: Batch, z: Float[Array, "batch state"], ahead, reach: float) -> Float[Array, "batch times values"]:
        """Y `ahead` of the end of each sample, (times,) or (batch, times) in typical gaps, up to `reach`."""
        return self.go_on([a[:, -1] for a in latest(batch.obs, self.side)], batch.obs.times[:, -1:], z, ahead, reach)

    def go_on(self, last, end, z: Float[Array, "batch state"], ahead, reach: float) -> Float[Array, "batch times values"]:
        """The same, from the latest observations of each channel (times, values, there)."""
        t_L, steps = jnp.max(last[0][:, 0], -1, keepdims=True), ceil(reach) + SPARE
        dt = jnp.maximum(1.0, (end - t_L + reach) / steps)
        return self.path(self.h(last, z), dt, steps).evaluate(end - t_L + ahead)

    def h(self, last, z=None) -> Float[Array, "batch state"]:
        """h at an observation, from the latest of each channel (times, values, there), and from z where it is known."""
        t, x, there = last
        slopes = jnp.where(there > 0, (x[:, :1] - x) / jnp.maximum(t[:, :1] - t, 1e-3), 0.0)[:, 1:]
        known = jnp.concatenate([x[:, 0], slopes.reshape(len(x), -1)], -1)
        z = jnp.zeros((len(x), len(self.φ.weight) - known.shape[-1]), x.dtype) if z is None else z
        return jnp.concatenate([x[:, 0], self.φ(jnp.concatenate([known, z], -1))], -1)

    def path(self, h: Float[Array, "batch state"], dt, steps: int) -> CubicPath:
        """Y from h on, in so many steps of Euler's method."""
        move = lambda h, _: (h + dt * self.f(h), h[:, : self.values])
        _, Y = lax.scan(move, h, None, length=steps + 1)
        t = jnp.broadcast_to(dt * jnp.arange(steps + 1.0), (len(h), steps + 1))
        return join_linear(t, jnp.moveaxis(Y, 0, 1))

    def error(self, batch: Batch, ahead: tuple[float, ...], key) -> Float[Array, ""]:
        """mean ‖Y − x‖² at the rows after some observations at which the path starts, not knowing of anything later."""
        obs, reach = batch.obs, ceil(ahead[-1])
        times, x, mask = with_target(batch, ahead)
        some = jax.random.uniform(key, obs.times.shape) * (0.5 + obs.mask.max(-1))
        s = lax.top_k(some, min(STARTS, some.shape[1]))[1]
        each = lambda a, i: jnp.take_along_axis(a, i.reshape(*i.shape, *[1] * (a.ndim - 2)), 1)
        flat = lambda a: a.reshape(-1, *a.shape[2:])
        last = [flat(each(a, s)) for a in latest(obs, self.side)]
        Y = self.path(self.h(last), jnp.ones(()), reach)
        after = jnp.minimum(s[..., None] + 1 + jnp.arange(reach), times.shape[1] - 1).reshape(len(s), -1)
        x, mask = (each(a, after).reshape(s.size, reach, -1) for a in (x, mask))
        since = each(times, after).reshape(s.size, reach) - flat(each(obs.times, s))[:, None]
        mask = mask * ((since > 0) & (since <= reach))[..., None]
        return jnp.sum(mask * (Y.evaluate(since) - x) ** 2) / jnp.maximum(mask.sum(), 1)

    def linear(self, train: Iterable[Batch], ahead: tuple[float, ...]) -> Onward:
        """With A, b such that x_{i+1} ≈ x_i + (x_i A + b)(t_{i+1} − t_i) on the training rows; if not trained yet."""
        if self.f.A.any():
            return self
        (A, b), C = least_squares(train, ahead), self.values
        A, b = self.f.A.at[:C, :C].set(A), self.f.b.at[:C].set(b)
        return eqx.tree_at(lambda onward: (onward.f.A, onward.f.b), self, (A, b))


def with_target(batch: Batch, ahead: tuple[float, ...]):
    """Times, values and mask of all rows, hidden ones too, and behind them of those that are to be forecast."""
    obs, hidden, join = batch.obs, batch.hidden, lambda a, b: jnp.concatenate([a, b], 1)
    values, mask = obs.values if hidden is None else hidden.values, batch.made
    known = ~jnp.isnan(obs.target)
    values = join(values, jnp.where(known, obs.target, 0.0))
    return (
        join(obs.times, obs.times[:, -1:] + jnp.asarray(ahead, obs.times.dtype)),
        values,
        join(mask, known.astype(mask.dtype)),
    )

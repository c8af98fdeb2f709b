"""A batch of piecewise cubic paths: knots, values at the knots, and the two slopes of each piece.

One cubic Hermite formula evaluates every interpolation. Slopes are per unit of *knot time* s (s = i at knot i): a controlled
differential equation does not care how fast its path is run through, so the gaps between time stamps never reach the
solver, and repeating the last knot (padding) adds pieces that do not move at all.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class CubicPath(eqx.Module):
    """A batch of piecewise cubic paths. `left` and `right` are the slopes dX/ds at both ends of each piece."""

    times: Float[Array, "batch knots"]
    values: Float[Array, "batch knots channels"]
    left: Float[Array, "batch knots-1 channels"]
    right: Float[Array, "batch knots-1 channels"]
    interpolation: str = eqx.field(static=True, default="linear")  # by which it was made of rows

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
        return take_rows(jnp.pad(whole, ((0, 0), (1, 0), (0, 0))), index) + gap * self._area(index, u)

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
        pick = lambda a, shift=0: jnp.take_along_axis(a, index + shift, axis=1, mode="promise_in_bounds")
        return pick(self.values), pick(self.values, 1), pick(self.left), pick(self.right)

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

    path: CubicPath

    @property
    def times(self) -> Float[Array, "batch knots"]:
        return self.path.times

    def slope(self, index, u):
        """(dX/ds, X) inside piece `index`, at share `u` of it."""
        return self.path.slope(index, u), self.path.piece(index, u)

    def controls(self, nodes: tuple[float, ...], substeps: int = 1):
        """(dX/ds, X) where a Runge–Kutta method with these nodes looks."""
        values = _at_stages(lambda u: self.path.piece(slice(None), u), nodes, substeps)
        return self.path.controls(nodes, substeps), values


def _at_stages(look, nodes: tuple[float, ...], substeps: int):
    """`look(share of a piece)` wherever a method with these nodes looks, as (steps, stages, batch, channels)."""
    at = [[(k + c) / substeps for c in nodes] for k in range(substeps)]
    found = jnp.stack([jnp.stack([look(u) for u in row]) for row in at])
    # (substeps, stages, batch, pieces, channels) -> (pieces * substeps, stages, batch, channels)
    found = jnp.moveaxis(found, 3, 0)
    return found.reshape(-1, *found.shape[2:])


def join_linear(times, values) -> CubicPath:
    """The path that is linear between knots."""
    slope = jnp.diff(values, axis=1)
    return CubicPath(times, values, slope, slope)


def two_knots(array, fill=None):
    """A path needs a piece to live on; a single observation is padded like any other short sample."""
    if array.shape[1] > 1:
        return array
    again = array if fill is None else jnp.full_like(array, fill)
    return jnp.concatenate([array, again], 1)


def take_rows(array, index):
    """Rows of (batch, rows, channels) by an index of each sample and channel; beyond the ends, the end."""
    return jnp.take_along_axis(array, jnp.clip(index, 0, array.shape[1] - 1), axis=1, mode="promise_in_bounds")

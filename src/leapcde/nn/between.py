"""A path through observations: between them a mixture of interpolations, learned by filling in what was hidden."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from leapcde.nn.dense import MLP
from leapcde.paths.apart import apart
from leapcde.paths.batch import Batch, Hidden
from leapcde.paths.neighbours import around


class Between(eqx.Module):
    """Y(t) = X + r (Σ_j w_j (c_j − X) + d v), channel by channel; see `models/leap_plus.py`."""

    m: MLP
    values: int = eqx.field(static=True)
    side: int = eqx.field(static=True)  # observations before, and after, that m sees
    span: float = eqx.field(static=True)
    learned: bool = eqx.field(static=True)  # False: Y = X
    causal: bool = eqx.field(static=True)  # nothing after t is looked at

    def __init__(self, values: int, side: int, *, width: int, span: float, learned: bool, causal: bool, key):
        sizes = (4 * side * values, width, width, 6 * values)
        self.m = MLP(sizes, ("silu", "silu", "none"), key=key)
        self.values, self.side, self.span, self.learned, self.causal = values, side, span, learned, causal

    def __call__(self, batch: Batch, t, X=None):
        """Y(t), log s(t) and the logarithms of the gaps before and after t, each (batch, times, channels).

        `X` is what Y corrects, where that is not X(t) itself but its mean around t.
        """
        x, gap, there = around(batch.obs, t, self.side, causal=self.causal)
        Xt = self.held(x, there) if self.causal else batch.X.evaluate(t)[..., -self.values :]
        return apart(lambda self, *a: self.mixed(*a), self, Xt, Xt if X is None else X, x, gap, there)

    def held(self, x, there):
        """Each channel's last value: X, where nothing may look ahead."""
        return jnp.where(there[:, :, 0] > 0, x[:, :, 0], 0.0)

    def mixed(self, Xt, base, x, gap, there):
        """The same, from X(t), what is corrected, and the observations around t (batch, times, 2 side, channels)."""
        x = jnp.where(there, x - Xt[:, :, None], 0.0)  # all relative to X
        gap = jnp.where(there, gap, 4 * self.span)
        before, after, g0, g1 = x[:, :, 0], x[:, :, self.side], gap[:, :, 0], gap[:, :, self.side]
        gaps = jnp.log1p(g0), jnp.log1p(g1)
        if not self.learned:
            return base, jnp.zeros_like(Xt), *gaps
        line = (g1 * before + g0 * after) / jnp.maximum(g0 + g1, 1e-6)
        line = jnp.where(there[:, :, 0] & there[:, :, self.side], line, 0.0)
        known = (a.reshape(*Xt.shape[:2], -1) for a in (x, jnp.log1p(gap)))
        *w, v, log_s = jnp.split(self.m.of_parts(*known), 6, -1)
        c = [line, before, after, -Xt]
        r, d = 1 - jnp.exp(-jnp.minimum(g0, g1)), deviation(c[:3]) + 1e-3
        mixed = sum(share * one for share, one in zip(shares(w), c, strict=True))
        return base + r * (mixed + d * v), jnp.log(d * r + 1e-3) + log_s, *gaps

    def error(self, batch: Batch, hidden: Hidden, key, asked: int, beta: float) -> Float[Array, ""]:
        """At up to so many of a sample's rows that were hidden: the error of Y in units of that of X, and β times −log p."""
        some = jax.random.uniform(key, batch.obs.times.shape) * (0.5 + hidden.mask.max(-1))
        index = lax.top_k(some, min(asked, some.shape[1]))[1]
        t = jnp.take_along_axis(batch.obs.times, index, 1)
        x, mask = (jnp.take_along_axis(a, index[..., None], 1) for a in hidden)
        Y, log_s, *_ = self(batch, t)
        far = lambda path: jnp.sum(mask * (path - x) ** 2)
        relative = far(Y) / (far(batch.X.evaluate(t)[..., -self.values :]) + 1e-6)
        off = lax.stop_gradient(Y - x) ** 2 * jnp.exp(-2 * log_s)
        log_p = jnp.sum(mask * (-2 * jnp.log1p(off / 3) - log_s)) / jnp.maximum(mask.sum(), 1)
        return relative - beta * log_p


def shares(w: list) -> list:
    """Softmax of w and X's own 2, without X's. A list: XLA adds up along a short axis slowly."""
    most = lax.stop_gradient(jnp.maximum(2.0, jax.tree.reduce(jnp.maximum, w)))  # which cancels out, and so does its slope
    w = [jnp.exp(x - most) for x in w]
    total = 1 / (sum(w) + jnp.exp(2.0 - most))
    return [x * total for x in w]


def deviation(c: list):
    """How far some values and zero are apart."""
    mean = sum(c) / (len(c) + 1)
    squares = mean**2 + sum((x - mean) ** 2 for x in c)
    return jnp.sqrt(squares / (len(c) + 1) + 1e-12)  # whose slope at zero is finite

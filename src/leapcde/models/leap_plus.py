"""LEAP+: a path learned by filling in what was hidden, and gated linear equations that it drives.

Ours, not the paper's. It keeps LEAP's idea (a learned path Y, tied to the observations, drives z)
and drops its bottleneck, a whole sample through h(0): as in the paper's ĥ(t_i) = x_{i−1} + ∫ f,
the path starts again at every observation.

Between observations, channel by channel, with the gaps t − t₋ and t₊ − t to those around t,

    Y(t) = X + r (Σ_j w_j (c_j − X) + d v)          r = 1 − exp(−min(t − t₋, t₊ − t))
    [w, v, log s] = m(values and gaps of three observations before t and three after)

mixes candidates c_j (straight line, value before, value after, mean, and X itself) in shares
w = softmax, with a correction v in units of their disagreement d. Y(t_i) = x_i where x_i is seen;
s(t) says how far off Y is. In training it answers to *hidden* observations, and to nothing else:

    L_Y = α (Σ ‖Y − x‖² / Σ ‖X − x‖² − β log p(x; Y, s))       (eq. 11; p: Student's t₃)

Where it is to forecast, the path goes on beyond its last observation, at t_L:

    dh = f(h) dt,  h = [Y, c]                       h(t_L) = [x_L, φ(x_L, slopes before, z)]
    f(h) = h A + b + W₃ silu(W₂ [sin; silu](W₁ h))  W₃ = 0 at the start

and in training it starts at earlier observations too, without z, and answers to the rows that
follow: α mean ‖Y − x‖² joins L_Y. A and b are least squares on training rows if `linear_start`:
untrained, Y is the linear rollout.
Y drives z, at knots s_0 … s_K that are even in a sample's own time, or at the rows themselves:

    u⁰_k = W [(Y, dY) at three knots, log density of observations, log s, gaps, duration, statics]
    uˡ   = uˡ⁻¹ + W_o (z ⊙ silu(W_g a))             a = κ ∗ rms(uˡ⁻¹), a kernel for each channel
    z_k  = (1 − λ_k) z_{k−1} + √λ_k W_v a_k         λ = σ(W_λ a)

Half of z runs from the start and half from the end; if `causal`, all of it from the start, and
nothing looks ahead. What is read is [end, mean, max] of rms(uᴸ) over the knots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from leapcde.models.base import Model, Output, Spec, make_head
from leapcde.models.options import Share, Whole, option
from leapcde.models.registry import register
from leapcde.nn.blocks import Block, dropped, pooled, rms, shifted
from leapcde.nn.dense import MLP, Dense
from leapcde.nn.heads import Head
from leapcde.nn.onward import Onward
from leapcde.paths.batch import Batch, Hidden
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.neighbours import around, counted
from leapcde.paths.path import CubicPath, join_linear, two_knots
from leapcde.paths.transform import averaged, clock_path

NEAR = 3  # knots of Y that the first layer sees around each
SIDE = 3  # observations before, and after, that the path looks at
ASKED = 32  # hidden rows of a sample at which a step asks for Y
DRAWN = 8  # points of every gap at which Y is drawn


@dataclass(frozen=True)
class LeapPlusOptions:
    hidden: int = option(48, "size of u and z")
    depth: int = option(3, "blocks of kernel and equation")
    kernel: int = option(7, "knots that κ spans")
    path_width: int = option(80, "of m's hidden layers")
    knots: Whole = option(0, "even in each sample's own time; 0: the rows themselves")
    flow: int = option(64, "size of c, in forecasting")
    flow_width: int = option(192, "of f's hidden layers, in forecasting")
    alpha: float = option(1.0, "weight of the path's error at what is hidden, and at what follows")
    beta: float = option(0.1, "weight of the path's spread")
    learned: bool = option(True, "False: Y = X, which stands still beyond its end")
    causal: bool = option(False, "nothing looks ahead; X must be causal too")
    linear_start: bool = option(False, "A and b start as least squares on the training rows")
    dropout: Share = option(0.1, "share of z's channels left out in a training step")


@register(
    "leap+",
    summary="a path learned by filling in what is hidden drives gated linear equations",
    reference="ours; not in the paper",
    tags=("continuous", "path", "learned-path"),
    variant=True,
    revision=4,  # 1 and 2 were LEAP with Y = X + m(h); 3 started its path at the last row only
)
class LeapPlus(Model):
    m: MLP
    W: Dense
    blocks: list[Block]
    norm: Float[Array, " state"]
    onward: Onward | None  # of forecasts; other tasks have a head
    head: Head | None

    values: int = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    span: float = eqx.field(static=True)
    options: LeapPlusOptions = eqx.field(static=True)

    Options = LeapPlusOptions
    waste: ClassVar[float] = 2.0  # knots are as many in a long sample: padding costs little

    def __init__(self, spec: Spec, options: LeapPlusOptions, *, key):
        o, C, keys = options, spec.values, iter(jax.random.split(key, options.depth + 6))
        sizes = (4 * SIDE * C, o.path_width, o.path_width, 6 * C)
        self.m = MLP(sizes, ("silu", "silu", "none"), key=next(keys))
        inputs = 2 * NEAR * C + 4 * C + 1 + spec.static
        self.W = Dense(inputs, o.hidden, key=next(keys), gain=3**0.5)
        new_block = lambda: Block(o.hidden, key=next(keys), kernel=o.kernel, causal=o.causal)
        self.blocks = [new_block() for _ in range(o.depth)]
        self.norm = jnp.ones(o.hidden)
        forecasts, first, second = spec.task == "forecasting" and o.learned, next(keys), next(keys)
        flow = {"size": o.flow, "width": o.flow_width, "keys": (first, second)}
        self.onward = Onward(C, SIDE, 3 * o.hidden, **flow) if forecasts else None
        head = {"key": second, "anchored": True}
        self.head = None if forecasts else make_head(spec, 3 * o.hidden, **head)
        self.values, self.horizon, self.options = C, spec.output[0], options
        self.span = max(spec.span, 1e-12)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        keys = [None] * 3 if key is None else list(jax.random.split(key, 3))
        z = dropped(self.z(batch, keys[0]), self.options.dropout, keys[2])
        if self.head is not None:
            return Output(self.head(z, batch.obs), self.L_Y(batch, keys[1]))
        assert self.onward is not None
        return Output(self.onward(batch, z, self.horizon), self.L_Y(batch, keys[1]))

    def Y(self, batch: Batch, t, X=None):
        """Y(t), log s(t) and the logarithms of the gaps before and after t.

        `X` is what Y corrects, where that is not X(t) itself but its mean around t.
        """
        Xt = batch.X.evaluate(t)[..., -self.values :]
        base = Xt if X is None else X
        x, gap, there = around(batch.obs, t, SIDE, causal=self.options.causal)
        x = jnp.where(there, x - Xt[:, :, None], 0.0)  # all relative to X
        gap = jnp.where(there, gap, 4 * self.span)
        before, after, g0, g1 = x[:, :, 0], x[:, :, SIDE], gap[:, :, 0], gap[:, :, SIDE]
        gaps = jnp.log1p(g0), jnp.log1p(g1)
        if not self.options.learned:
            return base, jnp.zeros_like(Xt), *gaps
        line = (g1 * before + g0 * after) / jnp.maximum(g0 + g1, 1e-6)
        line = jnp.where(there[:, :, 0] & there[:, :, SIDE], line, 0.0)
        inputs = jnp.concatenate([x, jnp.log1p(gap)], -2).reshape(*t.shape, -1)
        *w, v, log_s = jnp.split(self.m(inputs), 6, -1)
        c = [line, before, after, -Xt]
        r, d = 1 - jnp.exp(-jnp.minimum(g0, g1)), deviation(c[:3]) + 1e-3
        mixed = sum(share * one for share, one in zip(shares(w), c, strict=True))
        return base + r * (mixed + d * v), jnp.log(d * r + 1e-3) + log_s, *gaps

    def L_Y(self, batch: Batch, key):
        """Eq. 11, in training: at what was hidden between observations, and at what follows."""
        if key is None or not self.options.learned:
            return jnp.zeros(())
        L = 0.0 if batch.hidden is None else self.L_between(batch, batch.hidden, key)
        L += 0.0 if self.onward is None else self.onward.error(batch, self.horizon, key)
        return self.options.alpha * jnp.asarray(L)

    def L_between(self, batch: Batch, hidden: Hidden, key):
        """At some of the rows that were hidden, in units of the error of X there."""
        some = jax.random.uniform(key, batch.obs.times.shape) * (0.5 + hidden.mask.max(-1))
        index = lax.top_k(some, min(ASKED, some.shape[1]))[1]
        t = jnp.take_along_axis(batch.obs.times, index, 1)
        x, mask = (jnp.take_along_axis(a, index[..., None], 1) for a in hidden)
        Y, log_s, *_ = self.Y(batch, t)
        far = lambda path: jnp.sum(mask * (path - x) ** 2)
        relative = far(Y) / (far(batch.X.evaluate(t)[..., -self.values :]) + 1e-6)
        off = lax.stop_gradient(Y - x) ** 2 * jnp.exp(-2 * log_s)
        log_p = jnp.sum(mask * (-2 * jnp.log1p(off / 3) - log_s)) / jnp.maximum(mask.sum(), 1)
        return relative - self.options.beta * log_p

    def z(self, batch: Batch, key):
        """What z knows in the end: its last state, mean and maximum over the knots."""
        obs, o = batch.obs, self.options
        if o.knots:
            clock = clock_path(obs.times, 1.0, o.knots)
            t, valid = obs.times[:, :1] + clock.times, jnp.ones((1, 1, 1))
            X = averaged(batch.X, clock).values[..., -self.values :]
        else:  # padding stands still in time
            t, X = obs.times, None
            valid = jnp.diff(t, axis=1, prepend=t[:, :1] - 1)[..., None] > 0
        # m learns from what is hidden and not from the task; observations count all the same.
        untaught = eqx.tree_at(lambda model: model.m, self, lax.stop_gradient(self.m))
        seen = jnp.log1p(counted(obs, t)), *untaught.Y(batch, t, X)
        # From here on the knots come first: all that runs along them is cheapest so.
        valid, density, Y, *more = (jnp.moveaxis(a, 1, 0) for a in (valid.astype(t.dtype), *seen))
        dY = jnp.diff(Y, axis=0, prepend=Y[:1])
        near = shifted(jnp.concatenate([Y, dY], -1) * valid, NEAR, causal=o.causal)
        still = jnp.concatenate([obs.times[:, -1:] / self.span, obs.static], -1)
        still = jnp.broadcast_to(still, (*Y.shape[:2], still.shape[-1]))
        u = self.W(jnp.concatenate([*near, density, *more, still], -1))
        keys = [None] * o.depth if key is None else jax.random.split(key, o.depth)
        for block, k in zip(self.blocks, keys, strict=True):
            u = u + dropped(block(u, valid, o.causal), o.dropout, k)
        return pooled(rms(u, self.norm), valid)

    def learned_at(self, batch: Batch, t):
        """Y at times within the samples."""
        return self.Y(batch, t)[0]

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations, with straight lines between points of every gap."""
        t = batch.obs.times
        between = t[:, :-1, None] + jnp.diff(t, axis=1)[..., None] * jnp.arange(DRAWN) / DRAWN
        t = two_knots(jnp.concatenate([between.reshape(len(t), -1), t[:, -1:]], 1))
        return join_linear(t, self.Y(batch, t)[0])

    def started(self, train: list[Batch]) -> LeapPlus:
        """Where it is asked for, with the closed form of the linear part of f."""
        if self.onward is None or not self.options.linear_start:
            return self
        return eqx.tree_at(lambda model: model.onward, self, self.onward.linear(train))

    def regularised(self):
        return self.blocks

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return (
            "'leap+' needs the whole path X for its answer, so it cannot be streamed; "
            "fit with model='leap' and a causal path (interpolation='hermite' or 'rectilinear') for that"
        )


def shares(w: list) -> list:
    """Softmax of w and X's own 2, without X's. A list: XLA adds up along a short axis slowly."""
    most = jnp.maximum(2.0, jax.tree.reduce(jnp.maximum, w))
    w = [jnp.exp(x - most) for x in w]
    total = sum(w) + jnp.exp(2.0 - most)
    return [x / total for x in w]


def deviation(c: list):
    """How far some values and zero are apart."""
    mean = sum(c) / (len(c) + 1)
    squares = mean**2 + sum((x - mean) ** 2 for x in c)
    return jnp.sqrt(squares / (len(c) + 1) + 1e-12)  # whose slope at zero is finite

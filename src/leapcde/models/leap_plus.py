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
from leapcde.nn.fields import Flow
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch, Hidden
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.neighbours import around, counted, latest
from leapcde.paths.path import CubicPath, join_linear, two_knots
from leapcde.paths.transform import averaged, clock_path
from leapcde.solve.rollout import least_squares

NEAR = 3  # knots of Y that the first layer sees around each
SIDE = 3  # observations before, and after, that the path looks at
ASKED = 32  # hidden rows of a sample at which a step asks for Y
STARTS = 4  # observations of a sample at which a step starts the path again
SPARE = 4  # steps of the flow for the gap between the last observation and the end
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
    φ: Dense | None  # forecasting has φ and f, other tasks have a head
    f: Flow | None
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
        forecasts = spec.task == "forecasting" and o.learned
        φ = Dense(SIDE * C, o.flow, key=next(keys))  # of z nothing at first: the last rows say most
        φ = eqx.tree_at(lambda φ: φ.weight, φ, jnp.pad(φ.weight, ((0, 3 * o.hidden), (0, 0))))
        self.φ = φ if forecasts else None
        self.f = Flow(C + o.flow, o.flow_width, key=next(keys)) if forecasts else None
        self.head = None if forecasts else make_head(spec, 3 * o.hidden, key=next(keys), anchored=True)
        self.values, self.horizon, self.options = C, spec.output[0], options
        self.span = max(spec.span, 1e-12)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        keys = [None] * 3 if key is None else list(jax.random.split(key, 3))
        z = dropped(self.z(batch, keys[0]), self.options.dropout, keys[2])
        answer = self.forecast(batch, z) if self.head is None else self.head(z, batch.obs)
        return Output(answer, self.L_Y(batch, keys[1]))

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
        """Eq. 11, in training: at what was hidden between observations, and at what follows them."""
        L = jnp.zeros(())
        if key is not None and self.options.learned and batch.hidden is not None:
            L += self.L_between(batch, batch.hidden, key)
        if key is not None and self.f is not None:
            L += self.L_onward(batch, key)
        return self.options.alpha * L

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

    def L_onward(self, batch: Batch, key):
        """At the rows after some observations: there the path started again, and knew of nothing later."""
        obs, steps = batch.obs, self.horizon
        times, x, mask = with_target(batch)
        some = jax.random.uniform(key, obs.times.shape) * (0.5 + obs.mask.max(-1))
        s = lax.top_k(some, min(STARTS, some.shape[1]))[1]
        each = lambda a, index: jnp.take_along_axis(a, index.reshape(*index.shape, *[1] * (a.ndim - 2)), 1)
        flat = lambda a: a.reshape(-1, *a.shape[2:])
        last = [flat(each(a, s)) for a in latest(obs, SIDE)]
        Y = self.onward(self.h(last, None), jnp.ones(()), steps)
        after = jnp.minimum(s[..., None] + 1 + jnp.arange(steps), times.shape[1] - 1).reshape(len(s), -1)
        x, mask = (each(a, after).reshape(s.size, steps, -1) for a in (x, mask))
        since = each(times, after).reshape(s.size, steps) - flat(each(obs.times, s))[:, None]
        mask = mask * ((since > 0) & (since <= steps))[..., None]
        return jnp.sum(mask * (Y.evaluate(since) - x) ** 2) / jnp.maximum(mask.sum(), 1)

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

    def forecast(self, batch: Batch, z):
        """Y at 1, …, horizon typical gaps after the end: the flow from the last observed row."""
        obs, steps = batch.obs, self.horizon + SPARE
        seen, end = obs.mask.max(-1) > 0, obs.times[:, -1:]
        t_L = jnp.max(jnp.where(seen, obs.times, obs.times[:, :1]), 1, keepdims=True)
        dt = jnp.maximum(1.0, (end - t_L + self.horizon) / steps)
        Y = self.onward(self.h([a[:, -1] for a in latest(obs, SIDE)], z), dt, steps)
        return Y.evaluate(end - t_L + 1.0 + jnp.arange(self.horizon))

    def h(self, last, z):
        """h at an observation, from the latest of each channel (times, values, there), and from z if it is known."""
        assert self.φ is not None
        t, x, there = last
        slopes = jnp.where(there, (x[:, :1] - x) / jnp.maximum(t[:, :1] - t, 1e-3), 0.0)[:, 1:]
        z = jnp.zeros((len(x), 3 * self.options.hidden), x.dtype) if z is None else z
        c = self.φ(jnp.concatenate([x[:, 0], slopes.reshape(len(x), -1), z], -1))
        return jnp.concatenate([x[:, 0], c], -1)

    def onward(self, h, dt, steps: int) -> CubicPath:
        """Y from h on, in so many steps of Euler's method."""
        f = self.f
        assert f is not None
        move = lambda h, _: (h + dt * f(h), h[:, : self.values])
        _, Y = lax.scan(move, h, None, length=steps + 1)
        t = jnp.broadcast_to(dt * jnp.arange(steps + 1.0), (len(h), steps + 1))
        return join_linear(t, jnp.moveaxis(Y, 0, 1))

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
        """With A, b such that x_{i+1} ≈ x_i + (x_i A + b)(t_{i+1} − t_i) on the training rows."""
        if self.f is None or not self.options.linear_start or self.f.A.any():  # or trained already
            return self
        (A, b), C = least_squares(train), self.values
        A, b = self.f.A.at[:C, :C].set(A), self.f.b.at[:C].set(b)
        return eqx.tree_at(lambda model: (model.f.A, model.f.b), self, (A, b))

    def regularised(self):
        return self.blocks

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return (
            "'leap+' needs the whole path X for its answer, so it cannot be streamed; "
            "fit with model='leap' and a causal path (interpolation='hermite' or 'rectilinear') for that"
        )


def with_target(batch: Batch):
    """Times, values and mask of all rows, hidden ones too, and behind them of those to be forecast."""
    obs, hidden, join = batch.obs, batch.hidden, lambda a, b: jnp.concatenate([a, b], 1)
    values, mask = (obs.values, obs.mask) if hidden is None else (hidden.values, obs.mask + hidden.mask)
    known = ~jnp.isnan(obs.target)
    ahead = obs.times[:, -1:] + 1.0 + jnp.arange(obs.target.shape[1])
    values = join(values, jnp.where(known, obs.target, 0.0))
    return join(obs.times, ahead), values, join(mask, known.astype(mask.dtype))


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

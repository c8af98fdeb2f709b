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

Half of z runs from the start and half from the end. What is read is [end, mean, max] of rms(uᴸ) and,
if `ages`, how long ago each channel was last observed and how long it all took:

    q    = silu(W_q [hats(log age), hats(duration), log counts, last values, statics])

If `causal`, nothing looks ahead: X holds each channel's last value, Y knows what was before t, the
knots are the rows and all of z runs from the start; then it can be streamed, a row at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from leapcde.nn.ages import Ages
from leapcde.nn.arriving import Arrived, arrive, nothing, read
from leapcde.nn.between import Between
from leapcde.nn.blocks import Block, dropped, pooled, rms, running, shifted
from leapcde.nn.dense import Dense
from leapcde.nn.heads import Head
from leapcde.nn.onward import Onward
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.neighbours import counted
from leapcde.paths.path import CubicPath, join_linear, two_knots
from leapcde.paths.transform import averaged, clock_path

NEAR = 3  # knots of Y that the first layer sees around each
SIDE = 3  # observations before, and after, that the path looks at
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
    causal: bool = option(False, "nothing looks ahead, and it can be streamed; knots are the rows")
    linear_start: bool = option(False, "A and b start as least squares on the training rows")
    ages: bool = option(False, "q is read too: of use where rows are incomplete; never in forecasting")
    asked: int = option(32, "hidden rows of a sample at which a step asks for Y")
    pooling: bool = option(True, "False: only the end of u is read, not its mean and maximum")
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
    Y: Between
    W: Dense
    blocks: list[Block]
    norm: Float[Array, " state"]
    ages: Ages | None
    onward: Onward | None  # of forecasts; other tasks have a head
    head: Head | None

    values: int = eqx.field(static=True)
    read: int = eqx.field(static=True)  # how much of [end, mean, max] is
    ahead: tuple[float, ...] = eqx.field(static=True)  # typical gaps from the end to each forecast
    span: float = eqx.field(static=True)
    options: LeapPlusOptions = eqx.field(static=True)

    Options = LeapPlusOptions
    waste: ClassVar[float] = 2.0  # knots are as many in a long sample: padding costs little
    many_kernels: ClassVar[bool] = True

    def __init__(self, spec: Spec, options: LeapPlusOptions, *, key):
        o, C, keys = options, spec.values, iter(jax.random.split(key, options.depth + 6))
        self.span = max(spec.span, 1e-12)
        path = {"width": o.path_width, "span": self.span, "learned": o.learned, "causal": o.causal}
        self.Y = Between(C, SIDE, **path, key=next(keys))
        inputs = 2 * NEAR * C + 4 * C + 1 + spec.static
        self.W = Dense(inputs, o.hidden, key=next(keys), gain=3**0.5)
        new_block = lambda: Block(o.hidden, key=next(keys), kernel=o.kernel, causal=o.causal)
        self.blocks = [new_block() for _ in range(o.depth)]
        self.norm = jnp.ones(o.hidden)
        self.read = 3 * o.hidden if o.pooling else o.hidden
        forecasts, first, second = spec.task == "forecasting" and o.learned, next(keys), next(keys)
        aged = o.ages and not forecasts
        self.ages = Ages(C, spec.static, o.hidden, span=self.span, key=first) if aged else None
        flow = {"size": o.flow, "width": o.flow_width, "keys": (first, second)}
        self.onward = Onward(C, SIDE, self.read, **flow) if forecasts else None
        head = {"key": second, "anchored": True}
        self.head = None if forecasts else make_head(spec, self.read + o.hidden * aged, **head)
        self.values, self.ahead, self.options = C, spec.asked, options

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        keys = [None] * 3 if key is None else list(jax.random.split(key, 3))
        z = dropped(self.z(batch, keys[0]), self.options.dropout, keys[2])
        if self.head is not None:
            return Output(self.head(z, batch.obs), self.L_Y(batch, keys[1]))
        assert self.onward is not None
        return Output(self.onward(batch, z, jnp.asarray(self.ahead), self.reach), self.L_Y(batch, keys[1]))

    def L_Y(self, batch: Batch, key):
        """Eq. 11, in training: at what was hidden between observations, and at what follows."""
        o = self.options
        if key is None or not o.learned:
            return jnp.zeros(())
        L = 0.0 if batch.hidden is None else self.Y.error(batch, batch.hidden, key, o.asked, o.beta)
        L += 0.0 if self.onward is None else self.onward.error(batch, self.ahead, key)
        return o.alpha * jnp.asarray(L)

    def z(self, batch: Batch, key):
        """What z knows in the end: its last state, mean and maximum over the knots."""
        z = pooled(*self.u(batch, key))[:, : self.read]
        return z if self.ages is None else jnp.concatenate([z, self.ages(batch)], -1)

    def each(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        """The answer after each row, if `causal`: what is read there is what `answer` reads when it arrives."""
        assert self.head is not None
        head, keys = self.head, [None] * 3 if key is None else list(jax.random.split(key, 3))
        z = running(*self.u(batch, keys[0]))[..., : self.read]
        z = z if self.ages is None else jnp.concatenate([z, self.ages.each(batch)], -1)
        z = dropped(z, self.options.dropout, keys[2])
        return Output(jnp.moveaxis(jax.vmap(lambda z: head(z, batch.obs))(z), 0, 1), self.L_Y(batch, keys[1]))

    def u(self, batch: Batch, key):
        """rms(uᴸ) at every knot, (knots, batch, state), and which of them count."""
        obs, o = batch.obs, self.options
        t, X, valid = self.knots(batch)
        # Y learns from what is hidden and not from the task; observations count all the same.
        seen = jnp.log1p(counted(obs, t)), *lax.stop_gradient(self.Y)(batch, t, X)
        # From here on the knots come first: all that runs along them is cheapest so.
        valid, density, Y, *more = (jnp.moveaxis(a, 1, 0) for a in (valid.astype(t.dtype), *seen))
        dY = jnp.diff(Y, axis=0, prepend=Y[:1])
        near = shifted(jnp.concatenate([Y, dY], -1) * valid, NEAR, causal=o.causal)
        now = t.T if o.causal else obs.times[:, -1]  # who may look ahead knows how long it all takes
        now = jnp.broadcast_to(now / self.span, Y.shape[:2])[..., None]
        static = jnp.broadcast_to(obs.static, (*Y.shape[:2], obs.static.shape[-1]))
        u = self.W(jnp.concatenate([*near, density, *more, now, static], -1))
        keys = [None] * o.depth if key is None else jax.random.split(key, o.depth)
        for block, k in zip(self.blocks, keys, strict=True):
            u = u + dropped(block(u, valid, o.causal), o.dropout, k)
        return rms(u, self.norm), valid

    def knots(self, batch: Batch):
        """Times of the knots, the mean of X around each where they are not the rows, and which of them count."""
        t = batch.obs.times
        if not self.options.knots or self.options.causal:  # padding stands still in time
            return t, None, jnp.diff(t, axis=1, prepend=t[:, :1] - 1)[..., None] > 0
        clock = clock_path(t, 1.0, self.options.knots)
        X = averaged(batch.X, clock).values[..., -self.values :]
        return t[:, :1] + clock.times, X, jnp.ones((1, 1, 1))

    @property
    def reach(self) -> float:
        """How far the path goes on beyond the end of a sample, in typical gaps."""
        return 0.0 if self.onward is None else self.ahead[-1]

    def learned_at(self, batch: Batch, t):
        """Y at any times: between the observations, and beyond them where the path goes on."""
        Y, end = self.Y(batch, t)[0], batch.obs.times[:, -1:]
        if self.onward is None:
            return Y
        beyond = self.onward(batch, self.z(batch, None), jnp.maximum(t - end, 0.0), self.reach)
        return jnp.where((t > end)[..., None], beyond, Y)

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations, with straight lines between points of every gap."""
        t = batch.obs.times
        between = t[:, :-1, None] + jnp.diff(t, axis=1)[..., None] * jnp.arange(DRAWN) / DRAWN
        t = two_knots(jnp.concatenate([between.reshape(len(t), -1), t[:, -1:]], 1))
        return join_linear(t, self.Y(batch, t)[0])

    def started(self, train: Iterable[Batch]) -> LeapPlus:
        """Where it is asked for, with the closed form of the linear part of f."""
        if self.onward is None or not self.options.linear_start:
            return self
        return eqx.tree_at(lambda model: model.onward, self, self.onward.linear(train, self.ahead))

    def regularised(self):
        return self.blocks

    # Streaming, one row at a time, if `causal` ------------------------------------------------

    def begin(self, batch: Batch) -> Arrived:
        return arrive(self, nothing(self, len(batch.obs.values), NEAR), batch, 0)

    def advance(self, state: Arrived, batch: Batch) -> Arrived:
        return arrive(self, state, batch, 1)

    def answer(self, state: Arrived, batch: Batch):
        z, t = read(self, state, batch), batch.obs.times[:, -1:]
        if self.head is not None:
            return self.head(z, batch.obs)
        assert self.onward is not None
        return self.onward.go_on(state.held, t, z, jnp.asarray(self.ahead), self.reach)

    def streaming_problem(self, interpolation: Interpolation) -> str:
        if self.options.causal:
            return ""
        return (
            "'leap+' looks at the whole series, so it cannot be streamed; fit with "
            "options={'causal': True} for one that never looks ahead (--option causal=true)"
        )

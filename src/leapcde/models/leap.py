"""LEAP: a learnable path in neural controlled differential equations (Jhin, Jo et al., AAAI-23).

The whole method, top to bottom, in the paper's letters. A path X through the observations drives an encoder e; its
last state starts an ordinary differential equation h, whose image Y = m(h) is the path the model has *learned*;
Y then drives z, and the prediction is read from z at the sample's end.

    eq. 4   dz = g(z) dY             z(0) = φ_z(X(0))
    eq. 5    Y = m(h)                dim Y = dim X
    eq. 6   dh = f(h, t) dt          h(0) = φ_h(e(t_N))
    eq. 7   de = k(e) dX             e(0) = φ_e(X(0))
    eq. 8   dz = g(z) J_m(h) f dt    (eqs. 4 to 6 in one, by the chain rule)
    eqs. 9, 10   the joint system [z, h] and its initial values
    eqs. 11, 12  L_Y = α‖Y(t_i) − x_i‖² − β log p(ĥ(t_i)), the density by Hutchinson's estimator

Time for h is real time, scaled so that the longest sample of the data set lasts `decoder_span` units.
`leap+` is ours, not the paper's: Y = X + m(h), so that z sees the observations and h learns what to change.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.errors import InputError, choose
from leapcde.models.base import Course, Model, Output, Positive, Spec, make_head, make_solver
from leapcde.nn.dense import MLP, Dense
from leapcde.nn.fields import CDEField, ODEField, swinging
from leapcde.nn.heads import Head
from leapcde.nn.losses import path_loss
from leapcde.paths.batch import Batch
from leapcde.paths.path import CubicPath, join_linear
from leapcde.paths.transform import add_channels, clock_path, resampled, with_linear
from leapcde.solve.integrate import solution_path, solve
from leapcde.solve.solver import Solver
from leapcde.solve.trace import PROBES, draw_probe, value_and_divergence


class Leap(Model):
    φ_e: Dense
    k: CDEField
    φ_h: Dense
    f: ODEField
    m: Dense | MLP
    φ_z: Dense
    g: CDEField
    head: Head

    alpha: float = eqx.field(static=True)
    beta: float = eqx.field(static=True)
    probe: str = eqx.field(static=True)
    density: str = eqx.field(static=True)
    tie: str = eqx.field(static=True)
    steps: int | None = eqx.field(static=True)
    pace: float = eqx.field(static=True)
    values: int = eqx.field(static=True)
    residual: bool = eqx.field(static=True)
    course: Course = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    def __init__(
        self,
        spec: Spec,
        *,
        key,
        residual: bool,  # leap+: Y = X + m(h)
        swings: float | None = None,  # of the fastest oscillator h starts as; 0: f random; None: 4 or steps/4, forecasting: 0
        hidden: int = 48,  # D_h, the size of e, h and z
        width: int = 64,  # of k and g
        depth: int = 2,  # hidden layers of k and g
        activation: str = "relu",  # of k
        g_depth: int | None = None,  # hidden layers of g, if not `depth`
        g_activation: str | None = None,  # of g, if not `activation`
        linear_first: bool = False,  # k and g: no activation behind the first layer, as the paper's tables print it
        f_width: int = 128,
        timed: bool = False,  # f(h, t) instead of f(h)
        mapping: str = "linear",  # m: "linear" (J_m = W) or "mlp"
        alpha: float | None = None,  # how closely Y follows the observations; None: 1, 3/dim x if less, 0.001 in forecasting
        beta: float = 1e-6,  # weight of the log-density; 0 is the paper's "LEAP without likelihood"
        probe: str = "rademacher",  # ε: "rademacher", "gaussian", or "exact" for the true trace
        density: str = "trajectory",  # ĥ starts at h(t_{i−1}); "restart": at the preimage of x_{i−1} under m
        tie: str = "values",  # what Y is compared with: observed "values", or "all" channels of X
        decoder_steps: int | None = 24,  # steps of the joint solve; None steps at every knot, as the paper does
        decoder_span: Positive = 10.0,
        time_span: Positive | None = 10.0,  # of X's time channel, for the longest sample; None: a unit for each typical gap
        encoder_steps: int | None = None,  # equal steps of the encoder; None steps at every knot
        anchored: bool = True,  # forecasts start from the last observed value
        solver: str = "midpoint",
        solver_options: dict[str, Any] | None = None,
    ):
        choose("mapping", mapping, ("linear", "mlp"))
        choose("density", density, ("trajectory", "restart"))
        choose("tie", tie, ("values", "all"))
        choose("probe", probe, PROBES)
        if density == "restart" and mapping != "linear":
            raise InputError("density 'restart' needs the preimage of m: use mapping='linear', or density='trajectory'")
        D, C, start = hidden, spec.channels, spec.channels + spec.static
        keys = iter(jax.random.split(key, 8))
        cde = {"width": width, "linear_first": linear_first}
        self.φ_e = Dense(start, D, key=next(keys))
        # A straight Y tells z only where it ends: so h starts as oscillators, and m large (decision 9).
        swings = (0.0 if spec.task == "forecasting" else min(4.0, (decoder_steps or 16) / 4)) if swings is None else swings
        self.k = CDEField(D, C, depth=depth, activation=activation, key=next(keys), **cde)
        self.φ_h = Dense(D, D, key=next(keys))
        self.f = swinging(ODEField(D, width=f_width, timed=timed, key=next(keys)), swings * 2 * jnp.pi / decoder_span)
        linear, m = mapping == "linear", next(keys)
        self.m = Dense(D, C, gain=3.0 if swings else 1.0, key=m) if linear else MLP((D, D, C), ("tanh", "none"), key=m)
        self.φ_z = Dense(start, D, key=next(keys))
        self.g = CDEField(D, C, depth=g_depth or depth, activation=g_activation or activation, key=next(keys), **cde)
        self.head = make_head(spec, D, key=next(keys), anchored=anchored)
        alpha = (1e-3 if spec.task == "forecasting" else min(1.0, 3 / spec.values)) if alpha is None else alpha
        self.alpha, self.beta, self.probe, self.density, self.tie = float(alpha), float(beta), probe, density, tie
        self.steps, self.pace, self.values = decoder_steps, decoder_span / max(spec.span, 1e-12), spec.values
        self.residual, self.course = residual, Course.of(spec, time_span, encoder_steps)
        self.solver = make_solver(solver, solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        batch = self.course(batch)
        h, z, log_density, drive = self.solve(batch, key)
        penalty = jnp.zeros(()) if key is None else self.L_Y(batch, self.Y(h, drive), log_density, key)
        return Output(self.head(z, batch.obs), penalty)

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations."""
        h, _, _, drive = self.solve(self.course(batch), None)
        Y = self.Y(h, drive)
        return CubicPath(Y.times / self.pace, Y.values, Y.left, Y.right)

    def regularised(self):
        return self.k, self.f, self.g

    def solve(self, batch: Batch, key):
        """Encoder, then the joint decoder: h at every knot of its drive, z and ∫ tr(∂f/∂h) dt at the end."""
        e0 = self.φ_e(batch.start)
        e, _ = solve(self.k, e0, self.course.path(batch), self.solver)  # eq. 7
        h0, z0 = self.φ_h(e), self.φ_z(batch.start)  # eq. 10
        clock = clock_path(batch.obs.times, self.pace, self.steps)
        drive = with_linear(resampled(batch.X, clock, self.pace), clock.values) if self.residual else clock
        along = key is not None and self.beta != 0 and self.density == "trajectory"
        probe = draw_probe(key, h0.shape, self.probe, h0.dtype) if along else None
        zero = jnp.zeros_like(h0[:, 0])

        def joint(state, moved):  # eq. 9, and eq. 12's integral as one more component
            (h, z, _, t), dt = state, moved[:, :1]
            f, trace = value_and_divergence(lambda h: self.f(h, t), h, probe) if along else (self.f(h, t), zero)
            dY = self.J_m(h, f) * dt + (moved[:, 1:] if self.residual else 0)
            return f * dt, self.g(z, dY), trace * dt[:, 0], dt  # eq. 8

        start = (h0, z0, zero, jnp.zeros_like(h0[:, :1]))
        (_, z, integral, _), h = solve(joint, start, drive, self.solver, save=lambda state: state[0])
        return h, z, integral, drive

    def J_m(self, h, f):
        """J_m(h) f, which is W f for a linear m."""
        return jax.jvp(self.m, (h,), (f,))[1]

    def Y(self, h, drive: CubicPath) -> CubicPath:
        """Y = m(h) as a path: values m(h) and slopes J_m(h) f at the decoder's steps, cubic between them (eq. 5)."""
        t = jnp.moveaxis(drive.values[..., :1], 1, 0)
        Y = solution_path(drive.times, self.m(h), self.J_m(h, self.f(h, t)))
        return add_channels(Y, drive, skip=1) if self.residual else Y

    def L_Y(self, batch: Batch, Y: CubicPath, integral, key):
        """Eqs. 11 and 12, at the observed times and channels."""
        obs = batch.obs
        trained = Y.evaluate((obs.times - obs.times[:, :1]) * self.pace)
        if self.density == "restart" and self.beta != 0:
            integral = self.restarted(batch, key)
        if self.tie == "values":
            trained, x, mask = trained[..., -self.values :], obs.values, obs.mask
        else:
            x = batch.X.evaluate(obs.times)
            extra = jnp.broadcast_to(obs.mask.max(-1, keepdims=True), (*obs.times.shape, x.shape[-1] - self.values))
            mask = jnp.concatenate([extra, obs.mask], -1)
        return path_loss(trained, x, mask, integral, alpha=self.alpha, beta=self.beta)

    def restarted(self, batch: Batch, key):
        """Σ_i ∫ tr(∂f/∂h) over [t_{i−1}, t_i], each started at the minimum-norm preimage of X(t_{i−1}) under m.

        The paper's ĥ(t_i) = x_{i−1} + ∫ f does not type-check when dim h ≠ dim x; this is the nearest thing that does.
        All intervals of all samples are one batch.
        """
        times = (batch.obs.times - batch.obs.times[:, :1]) * self.pace
        B, N = times.shape[0], times.shape[1] - 1
        if N == 0:  # single observations have no intervals
            return jnp.zeros(B, times.dtype)
        x = batch.X.evaluate(batch.obs.times)[:, :-1]
        assert isinstance(self.m, Dense)  # __init__ asked for it
        W, b = self.m.weight, self.m(jnp.zeros_like(self.m.weight[:, 0]))
        h0 = ((x - b) @ jnp.linalg.pinv(W)).reshape(B * N, len(W))
        ends = jnp.stack([times[:, :-1], times[:, 1:]], -1).reshape(B * N, 2)
        probe = draw_probe(key, h0.shape, self.probe, h0.dtype)

        def field(state, dt):
            h, _, t = state
            f, trace = value_and_divergence(lambda h: self.f(h, t), h, probe)
            return f * dt, trace * dt[:, 0], dt

        start = (h0, jnp.zeros_like(h0[:, 0]), ends[:, :1])
        (_, integral, _), _ = solve(field, start, join_linear(ends, ends[..., None]), self.solver)
        return integral.reshape(B, N).sum(1)

"""LEAP: a learnable path in neural controlled differential equations (Jhin, Jo et al., AAAI-23).

The whole method, top to bottom, in the paper's letters. A path X through the observations drives
an encoder e; its last state starts an ordinary differential equation h, whose image Y = m(h) is
the path that the model has *learned*; Y then drives z, and the prediction is read from z at the
sample's end.

    eq. 4   dz = g(z) dY             z(0) = φ_z(X(0))
    eq. 5    Y = m(h)                dim Y = dim X
    eq. 6   dh = f(h) dt             h(0) = φ_h(e(t_N))
    eq. 7   de = k(e) dX             e(0) = φ_e(X(0))
    eq. 8   dz = g(z) J_m(h) f dt    (eqs. 4 to 6 in one, by the chain rule)
    eqs. 9, 10   the joint system [z, h] and its initial values
    eqs. 11, 12  L_Y = α‖Y(t_i) − x_i‖² − β log p(ĥ(t_i)), the density by Hutchinson's estimator

m is linear, as in the paper's experiments, so J_m is its matrix W. Time for h is real time, scaled
so that the longest sample of the data set lasts `decoder_span` units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.errors import choose
from leapcde.models.base import Course, Model, Output, Spec, driven_problem, make_head, make_solver
from leapcde.models.options import Positive, option
from leapcde.models.registry import register
from leapcde.nn.dense import Dense
from leapcde.nn.fields import CDEField, ODEField, swinging
from leapcde.nn.heads import Head
from leapcde.nn.losses import path_loss
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.path import CubicPath
from leapcde.paths.transform import clock_path
from leapcde.solve.integrate import solution_path, solve
from leapcde.solve.solver import Solver
from leapcde.solve.trace import PROBES, draw_probe, value_and_divergence


@dataclass(frozen=True)
class LeapOptions:
    hidden: int = option(48, "D_h, the size of e, h and z")
    width: int = option(64, "of the hidden layers of k and g")
    depth: int = option(2, "hidden layers of k and g")
    activation: str = option("relu", "of k")
    g_depth: int | None = option(None, "hidden layers of g, if not `depth`")
    g_activation: str | None = option(None, "of g, if not `activation`")
    linear_first: bool = option(False, "k and g: first layer without activation (paper's tables)")
    f_width: int = option(128, "of f's hidden layer")
    swings: float | None = option(None, "turns of h's fastest oscillator; 0: f starts random")
    alpha: float | None = option(None, "how closely Y follows x; None: by task and dim x")
    beta: float = option(1e-6, "of the log-density; 0 is the paper's LEAP without likelihood")
    probe: str = option("rademacher", "ε: 'rademacher', 'gaussian', or 'exact' for the true trace")
    decoder_steps: int | None = option(24, "of the joint solve; None: at every knot (the paper)")
    decoder_span: Positive = option(10.0, "units of h's time that the longest sample lasts")
    time_span: Positive | None = option(10.0, "longest sample in X's time channel; None: unscaled")
    encoder_steps: int | None = option(None, "equal steps of the encoder; None: at every knot")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, …")


@register(
    "leap",
    summary="a learned path drives a CDE",
    reference="Jhin, Jo et al., AAAI 2023",
    tags=("continuous", "path", "learned-path"),
    revision=3,  # 2: h starts as oscillators; all three fields are regularised. 3: `time_span`
)
class Leap(Model):
    φ_e: Dense
    k: CDEField
    φ_h: Dense
    f: ODEField
    m: Dense
    φ_z: Dense
    g: CDEField
    head: Head

    alpha: float = eqx.field(static=True)
    beta: float = eqx.field(static=True)
    probe: str = eqx.field(static=True)
    steps: int | None = eqx.field(static=True)  # of the decoder
    pace: float = eqx.field(static=True)  # of the decoder's time
    values: int = eqx.field(static=True)  # dim x: the last channels of X and Y
    course: Course = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = LeapOptions

    def __init__(self, spec: Spec, options: LeapOptions, *, key):
        choose("probe", options.probe, PROBES)
        o, forecasting = options, spec.task == "forecasting"
        D, C, start = o.hidden, spec.channels, spec.channels + spec.static
        g_depth, g_activation = o.g_depth or o.depth, o.g_activation or o.activation
        # A straight Y tells z only where it ends: h starts as oscillators, m large (decision 9).
        usual = 0.0 if forecasting else min(4.0, (o.decoder_steps or 16) / 4)
        swings = usual if o.swings is None else o.swings
        layers: dict[str, Any] = {"width": o.width, "linear_first": o.linear_first}
        keys = iter(jax.random.split(key, 8))
        self.φ_e = Dense(start, D, key=next(keys))
        self.k = CDEField(D, C, depth=o.depth, activation=o.activation, key=next(keys), **layers)
        self.φ_h = Dense(D, D, key=next(keys))
        f = ODEField(D, width=o.f_width, key=next(keys))
        self.f = swinging(f, swings * 2 * jnp.pi / o.decoder_span)
        self.m = Dense(D, C, gain=3.0 if swings else 1.0, key=next(keys))
        self.φ_z = Dense(start, D, key=next(keys))
        self.g = CDEField(D, C, depth=g_depth, activation=g_activation, key=next(keys), **layers)
        self.head = make_head(spec, D, key=next(keys), anchored=o.anchored)
        alpha = 1e-3 if forecasting else min(1.0, 3 / spec.values)
        self.alpha, self.beta = float(alpha if o.alpha is None else o.alpha), float(o.beta)
        self.probe, self.steps, self.values = o.probe, o.decoder_steps, spec.values
        self.pace = o.decoder_span / max(spec.span, 1e-12)
        self.course = Course.of(spec, o.time_span, o.encoder_steps)
        self.solver = make_solver(o.solver, o.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        batch = self.course(batch)
        h, z, integral, clock = self.decode(self.encode(batch), batch, key)
        penalty = jnp.zeros(()) if key is None else self.L_Y(batch, self.Y(h, clock), integral)
        return Output(self.head(z, batch.obs), penalty)

    def encode(self, batch: Batch):
        """e(t_N), driven by X (eq. 7)."""
        return solve(self.k, self.φ_e(batch.start), self.course.path(batch), self.solver)[0]

    def decode(self, e, batch: Batch, key):
        """h at every step, z and ∫ tr(∂f/∂h) dt at the end, and the clock of the steps."""
        h0, z0 = self.φ_h(e), self.φ_z(batch.start)  # eq. 10
        clock, move = clock_path(batch.obs.times, self.pace, self.steps), self.mover(h0, key)

        def joint(state, dt):  # eq. 9, and eq. 12's integral as one more component
            h, z, _ = state
            dh, dY, trace = move(h, dt)
            return dh, self.g(z, dY), trace

        start = (h0, z0, jnp.zeros_like(h0[:, 0]))
        (_, z, integral), h = solve(joint, start, clock, self.solver, save=lambda state: state[0])
        return h, z, integral, clock

    def mover(self, h0, key):
        """(h, dt) -> dh = f dt (eq. 6), dY = J_m f dt (eq. 8) and tr(∂f/∂h) dt, 0 if not asked."""
        asked = key is not None and self.beta != 0
        probe = draw_probe(key, h0.shape, self.probe, h0.dtype) if asked else None  # once a solve

        def move(h, dt):
            unasked = jnp.zeros_like(h[:, 0])
            f, trace = value_and_divergence(self.f, h, probe) if asked else (self.f(h), unasked)
            return f * dt, self.J_m(f) * dt, trace * dt[:, 0]

        return move

    def J_m(self, f):
        """J_m f = W f: what moves h by f moves Y = m(h) by so much."""
        return f @ self.m.weight

    def Y(self, h, clock: CubicPath) -> CubicPath:
        """Y = m(h) (eq. 5), with slopes J_m f, at the decoder's steps; cubic between them."""
        return solution_path(clock.times, self.m(h), self.J_m(self.f(h)))

    def L_Y(self, batch: Batch, Y: CubicPath, integral):
        """Eqs. 11 and 12, at the observed times and channels."""
        obs = batch.obs
        at_rows = Y.evaluate((obs.times - obs.times[:, :1]) * self.pace)[..., -self.values :]
        seen, α, β = (obs.values, obs.mask), self.alpha, self.beta
        return path_loss(at_rows, *seen, integral, alpha=α, beta=β)

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations."""
        batch = self.course(batch)
        h, _, _, clock = self.decode(self.encode(batch), batch, None)
        Y = self.Y(h, clock)
        return CubicPath(Y.times / self.pace, Y.values, Y.left, Y.right)

    def regularised(self):
        return self.k, self.f, self.g

    # One observation at a time (`Streamable`): e is carried, the decoder runs when asked.

    def begin(self, batch: Batch):
        return self.φ_e(self.course(batch).start)

    def advance(self, e, batch: Batch):
        return solve(self.k, e, self.course(batch).X, self.solver)[0]

    def answer(self, e, batch: Batch):
        _, z, _, _ = self.decode(e, self.course(batch), None)
        return self.head(z, batch.obs)

    def streaming_problem(self, interpolation: Interpolation) -> str:
        problem = driven_problem(interpolation, self.course, self.solver, "encoder_steps")
        if problem or self.steps is not None:
            return problem
        return "decoder_steps=None: each row costs more than the last; fit with decoder_steps=24"

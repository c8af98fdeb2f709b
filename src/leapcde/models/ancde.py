"""ANCDE: attention decides how much of the path a neural CDE sees (Jhin et al., ICDM 2021).

    dh = f(h) dX                         h(0) = φ_h(X(0)), one entry a channel
    a  = σ(τ h)  (element-wise)    or    a = σ(τ (w·h + b))  (time-wise)
    Y  = a ⊙ X,   dY = a ⊙ dX + da ⊙ X   (the exact derivative of the product)
    dz = g(z) dY                         z(0) = φ_z(Y(0))

Hard attention rounds a to 0 or 1 and takes the slope of the soft one (straight through); τ is its temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.errors import choose
from leapcde.models.base import Course, Model, Output, Spec, make_head, make_solver
from leapcde.models.options import Positive, option
from leapcde.models.registry import register
from leapcde.nn.dense import Dense
from leapcde.nn.fields import CDEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.path import WithValues
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


@dataclass(frozen=True)
class ANCDEOptions:
    hidden: int = option(48, "size of z")
    width: int = option(64, "of the hidden layers of g")
    depth: int = option(2, "hidden layers of g")
    attention: str = option("elementwise", "or 'timewise': one weight for all channels")
    attention_width: int = option(20, "of the hidden layers of f")
    attention_depth: int = option(2, "hidden layers of f")
    hard: bool = option(False, "round the attention to 0 or 1")
    temperature: float = option(1.0, "τ")
    time_span: Positive | None = option(10.0, "of X's time channel, for the longest sample; None: a unit a typical gap")
    steps: int | None = option(None, "equal steps of the solve; None steps at every knot")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, atol, max_steps")


@register(
    "ancde",
    summary="attention decides how much of the path a CDE sees",
    reference="Jhin et al., ICDM 2021",
    tags=("continuous", "path", "attention"),
    revision=2,  # `time_span`
)
class ANCDE(Model):
    φ_h: Dense
    f: CDEField
    score: Dense | None  # h -> one score for all channels; none when attention is element-wise
    φ_z: Dense
    g: CDEField
    head: Head
    hard: bool = eqx.field(static=True)
    temperature: float = eqx.field(static=True)
    course: Course = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = ANCDEOptions

    def __init__(self, spec: Spec, options: ANCDEOptions, *, key):
        choose("attention", options.attention, ("elementwise", "timewise"))
        keys = iter(jax.random.split(key, 6))
        C, D, o = spec.channels, options.hidden, options
        self.φ_h = Dense(C + spec.static, C, key=next(keys))
        # A small gain: a saturated attention does not learn.
        self.f = CDEField(C, C, width=o.attention_width, depth=o.attention_depth, gain=0.1, key=next(keys))
        score = Dense(C, 1, key=next(keys))
        self.score = score if o.attention == "timewise" else None
        self.φ_z = Dense(C + spec.static, D, key=next(keys))
        self.g = CDEField(D, C, width=o.width, depth=o.depth, key=next(keys))
        self.head = make_head(spec, D, key=next(keys), anchored=o.anchored)
        self.hard, self.temperature = o.hard, float(o.temperature)
        self.course, self.solver = Course.of(spec, o.time_span, o.steps), make_solver(o.solver, o.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        batch = self.course(batch)
        h0 = self.φ_h(batch.start)
        a0, _ = self.attend(h0, h0)
        z0 = self.φ_z(jnp.concatenate([a0 * batch.X.values[:, 0], batch.obs.static], -1))

        def field(state, control):
            (h, z), (dX, X) = state, control
            dh = self.f(h, dX)
            a, da = self.attend(h, dh)
            return dh, self.g(z, a * dX + da * X)

        (_, z), _ = solve(field, (h0, z0), WithValues(self.course.path(batch)), self.solver)
        return Output(self.head(z, batch.obs), jnp.zeros(()))

    def regularised(self):
        return self.g

    def attend(self, h, dh):
        """a and da, for a state h that moves by dh."""
        scores = lambda h: self.temperature * (h if self.score is None else self.score(h))
        soft, da = jax.jvp(lambda h: jax.nn.sigmoid(scores(h)), (h,), (dh,))
        if not self.hard:
            return soft, da
        return soft + jax.lax.stop_gradient(jnp.round(soft) - soft), da

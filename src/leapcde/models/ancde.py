"""ANCDE: attention decides how much of the path a neural CDE sees (Jhin et al., ICDM 2021).

    dh = f(h) dX                         h(0) = φ_h(X(0)), one entry a channel
    a  = σ(τ h)  (element-wise)    or    a = σ(τ (w·h + b))  (time-wise)
    Y  = a ⊙ X,   dY = a ⊙ dX + da ⊙ X   (the exact derivative of the product)
    dz = g(z) dY                         z(0) = φ_z(Y(0))

Hard attention rounds a to 0 or 1 and takes the slope of the soft one (straight through); τ is its temperature.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.errors import choose
from leapcde.models.base import Course, Model, Output, Positive, Spec, make_head, make_solver
from leapcde.nn.dense import Dense
from leapcde.nn.fields import CDEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.path import WithValues
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


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

    def __init__(
        self,
        spec: Spec,
        *,
        key,
        hidden: int = 48,  # of z
        width: int = 64,  # of g
        depth: int = 2,  # hidden layers of g
        attention: str = "elementwise",  # or "timewise": one weight for all channels
        attention_width: int = 20,  # of f
        attention_depth: int = 2,  # hidden layers of f
        hard: bool = False,
        temperature: float = 1.0,
        time_span: Positive | None = 10.0,  # of X's time channel, for the longest sample; None: a unit for each typical gap
        steps: int | None = None,  # equal steps of the solve; None steps at every knot
        anchored: bool = True,
        solver: str = "midpoint",
        solver_options: dict[str, Any] | None = None,
    ):
        choose("attention", attention, ("elementwise", "timewise"))
        keys = iter(jax.random.split(key, 6))
        C = spec.channels
        self.φ_h = Dense(C + spec.static, C, key=next(keys))
        # A small gain: a saturated attention does not learn.
        self.f = CDEField(C, C, width=attention_width, depth=attention_depth, gain=0.1, key=next(keys))
        score = Dense(C, 1, key=next(keys))
        self.score = score if attention == "timewise" else None
        self.φ_z = Dense(C + spec.static, hidden, key=next(keys))
        self.g = CDEField(hidden, C, width=width, depth=depth, key=next(keys))
        self.head = make_head(spec, hidden, key=next(keys), anchored=anchored)
        self.hard, self.temperature = hard, float(temperature)
        self.course, self.solver = Course.of(spec, time_span, steps), make_solver(solver, solver_options)

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

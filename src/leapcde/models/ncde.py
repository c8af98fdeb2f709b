"""NCDE: a neural controlled differential equation driven by the path X (Kidger et al., NeurIPS 2020).

dz = g(z) dX     z(0) = φ_z(X(0))
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.models.base import Course, Model, Output, Positive, Spec, make_head, make_solver
from leapcde.nn.dense import Dense
from leapcde.nn.fields import CDEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


class NeuralCDE(Model):
    φ_z: Dense
    g: CDEField
    head: Head
    course: Course = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    def __init__(
        self,
        spec: Spec,
        *,
        key,
        hidden: int = 48,
        width: int = 64,
        depth: int = 2,
        activation: str = "relu",
        linear_first: bool = False,
        time_span: Positive | None = 10.0,  # of X's time channel, for the longest sample; None: a unit for each typical gap
        steps: int | None = None,  # equal steps of the solve; None steps at every knot
        anchored: bool = True,
        solver: str = "midpoint",
        solver_options: dict[str, Any] | None = None,
    ):
        a, b, c = jax.random.split(key, 3)
        self.φ_z = Dense(spec.channels + spec.static, hidden, key=a)
        self.g = CDEField(
            hidden, spec.channels, width=width, depth=depth, activation=activation, linear_first=linear_first, key=b
        )
        self.head = make_head(spec, hidden, key=c, anchored=anchored)
        self.course, self.solver = Course.of(spec, time_span, steps), make_solver(solver, solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        batch = self.course(batch)
        z, _ = solve(self.g, self.φ_z(batch.start), self.course.path(batch), self.solver)
        return Output(self.head(z, batch.obs), jnp.zeros(()))

    def regularised(self):
        return self.g

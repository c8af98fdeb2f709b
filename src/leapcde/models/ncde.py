"""NCDE: a neural controlled differential equation driven by the path X (Kidger et al., NeurIPS 2020).

dz = g(z) dX     z(0) = φ_z(X(0))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.models.base import Course, Model, Output, Spec, driven_problem, make_head, make_solver
from leapcde.models.options import Positive, option
from leapcde.models.registry import register
from leapcde.nn.dense import Dense
from leapcde.nn.fields import CDEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import Interpolation
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


@dataclass(frozen=True)
class NCDEOptions:
    hidden: int = option(48, "size of z")
    width: int = option(64, "of the hidden layers of g")
    depth: int = option(2, "hidden layers of g")
    activation: str = option("relu", "of g")
    linear_first: bool = option(False, "no activation behind g's first layer, as the paper's tables print it")
    time_span: Positive | None = option(10.0, "of X's time channel, for the longest sample; None: a unit a typical gap")
    steps: int | None = option(None, "equal steps of the solve; None steps at every knot")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, atol, max_steps")


@register(
    "ncde",
    summary="the interpolated path drives a CDE",
    reference="Kidger et al., NeurIPS 2020",
    tags=("continuous", "path"),
    revision=2,  # `time_span`
)
class NeuralCDE(Model):
    φ_z: Dense
    g: CDEField
    head: Head
    course: Course = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = NCDEOptions

    def __init__(self, spec: Spec, options: NCDEOptions, *, key):
        a, b, c = jax.random.split(key, 3)
        layers = {"width": options.width, "depth": options.depth, "activation": options.activation}
        self.φ_z = Dense(spec.channels + spec.static, options.hidden, key=a)
        self.g = CDEField(options.hidden, spec.channels, **layers, linear_first=options.linear_first, key=b)
        self.head = make_head(spec, options.hidden, key=c, anchored=options.anchored)
        self.course = Course.of(spec, options.time_span, options.steps)
        self.solver = make_solver(options.solver, options.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        batch = self.course(batch)
        z, _ = solve(self.g, self.φ_z(batch.start), self.course.path(batch), self.solver)
        return Output(self.head(z, batch.obs), jnp.zeros(()))

    def regularised(self):
        return self.g

    # One observation at a time (`Streamable`): z is carried along the pieces of X.

    def begin(self, batch: Batch):
        return self.φ_z(self.course(batch).start)

    def advance(self, z, batch: Batch):
        return solve(self.g, z, self.course(batch).X, self.solver)[0]

    def answer(self, z, batch: Batch):
        return self.head(z, batch.obs)

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return driven_problem(interpolation, self.course, self.solver, "steps")

"""GRU-ODE: the gated recurrent unit as a differential equation (De Brouwer et al., NeurIPS 2019; Jordan et al., 2021).

    dh/dt = (1 − u) ⊙ (c − h)      r, u = σ(W X(t) + U h + b)      c = tanh(W_c X(t) + b_c + U_c (r ⊙ h))

The gates read the *value* of the path, and t is real time: neither a channel of the data nor the path's speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.models.base import Model, Output, Spec, make_head, make_solver
from leapcde.models.options import option
from leapcde.models.registry import register
from leapcde.nn.dense import Dense
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.path import WithValues
from leapcde.paths.transform import with_linear
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


@dataclass(frozen=True)
class GRUODEOptions:
    hidden: int = option(48, "size of h")
    # The state forgets in about one unit of time, so long steps overshoot.
    pace: float = option(0.25, "units of time in a typical gap")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, atol, max_steps")


@register(
    "gru-ode",
    summary="GRU gates as a vector field",
    reference="De Brouwer et al., NeurIPS 2019; Jordan et al., 2021",
    tags=("continuous", "path"),
)
class GRUODE(Model):
    φ_h: Dense
    W: Dense
    U: Dense
    U_c: Dense
    head: Head
    pace: float = eqx.field(static=True)
    time: bool = eqx.field(static=True)
    values: int = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = GRUODEOptions

    def __init__(self, spec: Spec, options: GRUODEOptions, *, key):
        a, b, c, d, e = jax.random.split(key, 5)
        D = options.hidden
        self.time, self.values = spec.recipe.time_channel, spec.values
        inputs = spec.channels - int(self.time)
        self.φ_h = Dense(inputs + spec.static, D, key=a)
        self.W = Dense(inputs, 3 * D, key=b)
        self.U = Dense(D, 2 * D, key=c, bias=False)
        self.U_c = Dense(D, D, key=d, bias=False)
        self.head = make_head(spec, D, key=e, anchored=options.anchored)
        self.pace = float(options.pace)
        self.solver = make_solver(options.solver, options.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        X = batch.X
        time = (X.times - X.times[:, :1])[..., None] * self.pace
        start = jnp.concatenate([self.seen(X.values[:, 0]), batch.obs.static], -1)

        def field(h, control):
            speed, value = control
            return self.field(h, self.seen(value[:, 1:])) * speed[:, :1]

        h, _ = solve(field, jnp.tanh(self.φ_h(start)), WithValues(with_linear(X, time)), self.solver)
        return Output(self.head(h, batch.obs), jnp.zeros(()))

    def field(self, h, x):
        """dh/dt"""
        of_r, of_u, of_c = jnp.split(self.W(x), 3, -1)
        r, u = jnp.split(jax.nn.sigmoid(jnp.concatenate([of_r, of_u], -1) + self.U(h)), 2, -1)
        return (1 - u) * (jnp.tanh(of_c + self.U_c(r * h)) - h)

    def seen(self, X):
        """What the gates read of the path: its values, the logarithm of its observation counts, never its time."""
        X = X[:, int(self.time) :]
        counts, values = X[:, : -self.values], X[:, -self.values :]
        return jnp.concatenate([jnp.log1p(counts), values], -1)

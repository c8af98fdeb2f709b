"""ODE-RNN: the state follows an ODE between observations and a GRU update at them (Rubanova et al., NeurIPS 2019).

dh/dt = f(h)  over each gap,      h ← GRU(h, [x, m])  at each observation, missing entries at the mean
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.models.base import Model, Output, Spec, make_head, make_solver, solver_problem, start_state
from leapcde.models.options import option
from leapcde.models.registry import register
from leapcde.nn.cells import GRUCell, over_rows
from leapcde.nn.dense import Dense
from leapcde.nn.fields import ODEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.path import join_linear
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


class JumpODE(eqx.Module):
    """The recurrence itself, which Latent-ODE runs backwards in time."""

    f: ODEField
    cell: GRUCell
    augment: int = eqx.field(static=True)  # dimensions that start at zero after each observation

    def __init__(self, inputs: int, size: int, *, width: int, depth: int, augment: int = 0, key):
        a, b = jax.random.split(key)
        self.f = ODEField(size + augment, width=width, depth=depth, activation="tanh", key=a)
        self.cell = GRUCell(inputs, size, key=b)
        self.augment = augment

    def __call__(self, h, gaps, rows, seen, solver: Solver):
        """From state `h` over all rows; `gaps` is the time before each row, negative when time runs backwards."""
        extra = jnp.zeros((len(h), self.augment), h.dtype)

        def evolve(state, gap):
            return solve(lambda y, dt: self.f(y) * dt, state, over_gap(gap), solver)[0]

        def update(state, row):
            return jnp.concatenate([self.cell.step(state[:, : h.shape[1]], row), extra], -1)

        start = jnp.concatenate([h, extra], -1)
        end = over_rows(update, start, self.cell.inputs(rows), seen, gaps=gaps, evolve=evolve)
        return end[:, : h.shape[1]]


@dataclass(frozen=True)
class ODERNNOptions:
    hidden: int = option(48, "size of h")
    width: int = option(64, "of the hidden layers of f")
    depth: int = option(2, "hidden layers of f")
    span: float = option(10.0, "units of time that the longest sample lasts")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, atol, max_steps")


RUBANOVA = "Rubanova, Chen, Duvenaud, NeurIPS 2019"


@register("ode-rnn", summary="an ODE between observations, a GRU at them", reference=RUBANOVA, tags=("continuous", "jumps"))
class ODERNN(Model):
    φ_0: Dense
    jump: JumpODE
    head: Head
    pace: float = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = ODERNNOptions

    def __init__(self, spec: Spec, options: ODERNNOptions, *, key):
        a, b, c = jax.random.split(key, 3)
        self.φ_0 = start_state(spec, options.hidden, key=a)
        self.jump = JumpODE(2 * spec.values, options.hidden, width=options.width, depth=options.depth, key=b)
        self.head = make_head(spec, options.hidden, key=c, anchored=options.anchored)
        self.pace = options.span / max(spec.span, 1e-12)
        self.solver = make_solver(options.solver, options.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        return Output(self.answer(self.begin(batch), batch), jnp.zeros(()))

    # One observation at a time (`Streamable`).

    def begin(self, batch: Batch):
        gaps = jnp.diff(batch.obs.times, axis=1, prepend=batch.obs.times[:, :1]) * self.pace
        return self.jump(self.φ_0(batch.obs.static), gaps, rows_of(batch), batch.obs.mask.max(-1), self.solver)

    def advance(self, h, batch: Batch):
        gaps = jnp.diff(batch.obs.times, axis=1) * self.pace
        return self.jump(h, gaps, rows_of(batch)[:, 1:], batch.obs.mask[:, 1:].max(-1), self.solver)

    def answer(self, h, batch: Batch):
        return self.head(h, batch.obs)

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return solver_problem(self.solver)

    def regularised(self):
        return self.jump


def rows_of(batch: Batch):
    """Values (0, the mean, where missing) and mask of each row."""
    return jnp.concatenate([batch.obs.values, batch.obs.mask], -1)


def over_gap(gap):
    """The clock of one gap a sample: a path of one piece."""
    ends = jnp.stack([jnp.zeros_like(gap), gap], 1)
    return join_linear(ends, ends[..., None])

"""ACE-NODE: a state and the attention on itself evolve together (Jhin et al., KDD 2021).

dh/dt = f(h′),  da/dt = g(a, h)                          over each gap, for each sample
h′ = h softmax(a)ᵀ  (pairwise, a is D × D)   or   h′ = h ⊙ σ(a)  (element-wise, a has D entries)
h ← GRU(h, [x, m])                                       at each observation
a(0) = h(0) h(0)ᵀ   or   h(0) ⊙ h(0)                     (how the state's entries go together at the start)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.errors import choose
from leapcde.models.base import Model, Output, Spec, make_head, make_solver
from leapcde.models.ode_rnn import over_gap, rows_of
from leapcde.models.options import option
from leapcde.models.registry import register
from leapcde.nn.cells import GRUCell, over_rows
from leapcde.nn.dense import MLP, Dense
from leapcde.nn.fields import ODEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver


@dataclass(frozen=True)
class ACENODEOptions:
    hidden: int = option(32, "size of h")
    width: int = option(64, "of the hidden layers of f and g")
    depth: int = option(2, "hidden layers of f")
    attention: str = option("elementwise", "or 'pairwise', whose a has hidden² entries")
    span: float = option(10.0, "units of time that the longest sample lasts")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, atol, max_steps")


@register(
    "ace-node",
    summary="state and attention evolve together",
    reference="Jhin et al., KDD 2021",
    tags=("continuous", "jumps", "attention"),
)
class ACENODE(Model):
    φ_h: Dense
    f: ODEField
    g: MLP
    cell: GRUCell
    head: Head
    attention: str = eqx.field(static=True)
    pace: float = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = ACENODEOptions

    def __init__(self, spec: Spec, options: ACENODEOptions, *, key):
        choose("attention", options.attention, ("pairwise", "elementwise"))
        a, b, c, d, e = jax.random.split(key, 5)
        D, width = options.hidden, options.width
        size = D**2 if options.attention == "pairwise" else D
        self.φ_h = Dense(spec.channels + spec.static, D, key=a)
        self.f = ODEField(D, width=width, depth=options.depth, activation="tanh", key=b)
        self.g = MLP((size + D, width, size), ("tanh", "tanh"), key=c)
        self.cell = GRUCell(2 * spec.values, D, key=d)
        self.head = make_head(spec, D, key=e, anchored=options.anchored)
        self.attention = options.attention
        self.pace = options.span / max(spec.span, 1e-12)
        self.solver = make_solver(options.solver, options.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        obs = batch.obs
        h = jnp.tanh(self.φ_h(batch.start))
        gaps = jnp.diff(obs.times, axis=1, prepend=obs.times[:, :1]) * self.pace
        update = lambda state, row: (self.cell.step(state[0], row), state[1])
        rows = self.cell.inputs(rows_of(batch))
        h, _ = over_rows(update, (h, self.first(h)), rows, obs.mask.max(-1), gaps=gaps, evolve=self.evolve)
        return Output(self.head(h, obs), jnp.zeros(()))

    def regularised(self):
        return self.f, self.g

    def first(self, h):
        """a(0)"""
        return (h[:, :, None] * h[:, None, :]).reshape(len(h), -1) if self.attention == "pairwise" else h * h

    def attend(self, h, a):
        """h′"""
        if self.attention == "elementwise":
            return h * jax.nn.sigmoid(a)
        weights = jax.nn.softmax(a.reshape(*h.shape, h.shape[-1]), -1)
        return jnp.sum(weights * h[:, None, :], -1)

    def evolve(self, state, gap):
        def field(state, dt):
            h, a = state
            return self.f(self.attend(h, a)) * dt, self.g(jnp.concatenate([a, h], -1)) * dt

        return solve(field, state, over_gap(gap), self.solver)[0]

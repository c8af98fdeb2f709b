"""The same NCDE as a Diffrax user writes it: one sample's solve, vmapped."""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from problems import RATE, Problem

from leapcde.nn.losses import cross_entropy


def predict(model, batch, adjoint):
    def one(start, values, left, right):
        def rate(s, z, _):
            i = jnp.clip(jnp.floor(s).astype(int), 0, len(left) - 1)
            u, x0, x1 = s - i, values[i], values[i + 1]
            dX = 6 * u * (1 - u) * (x1 - x0) + (1 - u) * (1 - 3 * u) * left[i] + u * (3 * u - 2) * right[i]
            return model.g(z, dX)

        steps, term = len(left), diffrax.ODETerm(rate)
        ends = {"t0": 0.0, "t1": float(steps), "dt0": 1.0, "max_steps": steps}
        solution = diffrax.diffeqsolve(term, diffrax.Midpoint(), y0=model.φ_z(start), adjoint=adjoint, **ends)
        return model.head.layer(solution.ys[0])

    return jax.vmap(one)(batch.start, batch.X.values, batch.X.left, batch.X.right)


class Peer:
    def __init__(self, p: Problem, adjoint):
        loss = lambda model, batch, labels: cross_entropy(predict(model, batch, adjoint), labels)
        optimiser = optax.adam(RATE)

        def update(model, state, batch, labels):
            _, slope = eqx.filter_value_and_grad(loss)(model, batch, labels)
            updates, state = optimiser.update(slope, state)
            return eqx.apply_updates(model, updates), state

        self.p, self.update = p, eqx.filter_jit(update)
        self.held = (p.model, optimiser.init(eqx.filter(p.model, eqx.is_inexact_array)))
        self._gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))
        self._forward = eqx.filter_jit(lambda model, batch: predict(model, batch, adjoint))

    def gradient(self):
        value, slope = self._gradient(self.p.model, self.p.batch, self.p.labels)
        return float(value), self.ours(slope)

    def ours(self, slope):
        return [np.asarray(leaf) for leaf in jax.tree.leaves(slope)]

    def step(self):
        self.held = self.update(*self.held, self.p.batch, self.p.labels)
        jax.block_until_ready(self.held)

    def forward(self):
        return np.asarray(self._forward(self.p.model, self.p.batch))


PEERS = {
    "Diffrax, RecursiveCheckpointAdjoint (its default)": lambda p: Peer(p, diffrax.RecursiveCheckpointAdjoint()),
    "Diffrax, DirectAdjoint": lambda p: Peer(p, diffrax.DirectAdjoint()),
}

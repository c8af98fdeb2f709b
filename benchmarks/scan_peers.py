"""A diagonal scan as people would use it instead: LinOSS of discretax, where that package is installed.

It asks for Python 3.12 exactly, so `make bench` has it there only.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from discretax.encoder import LinearEncoder
from discretax.heads import ClassificationHead
from discretax.models import LinOSS
from problems import CLASSES, RATE, Problem

from leapcde.nn.losses import cross_entropy

BLOCKS = 3  # as many as LEAP+ has


def answers(model, state, rows, key):
    """Class scores of all samples, and the new statistics of the layers that keep some."""
    one = jax.vmap(lambda x, k: model(x, state, key=k), axis_name="batch", out_axes=(0, None))
    return one(rows, jax.random.split(key, len(rows)))


class Peer:
    """LinOSS of this size on the rows of a problem."""

    def __init__(self, p: Problem, hidden: int):
        obs = p.batch.obs
        self.rows, self.labels, self.key = jnp.concatenate([obs.times[..., None], obs.values], -1), p.labels, p.key
        a, b, c = jax.random.split(p.key, 3)
        make = lambda: eqx.nn.Sequential(
            [
                LinearEncoder(in_features=self.rows.shape[-1], out_features=hidden, key=a),
                LinOSS(hidden_dim=hidden, num_blocks=BLOCKS, state_dim=hidden, key=b),
                ClassificationHead(in_features=hidden, out_features=CLASSES, key=c),
            ]
        )
        model, state = eqx.nn.make_with_state(make)()
        optimiser = optax.adam(RATE)

        def loss(model, state, rows, labels, key):
            scores, state = answers(model, state, rows, key)
            return cross_entropy(scores, labels), state

        def update(model, state, kept, *data):
            (_, state), slope = eqx.filter_value_and_grad(loss, has_aux=True)(model, state, *data)
            updates, kept = optimiser.update(slope, kept)
            return eqx.apply_updates(model, updates), state, kept

        self.update, self.still = eqx.filter_jit(update), eqx.nn.inference_mode(model)
        self.held = model, state, optimiser.init(eqx.filter(model, eqx.is_inexact_array))
        self._forward = eqx.filter_jit(lambda model, state, rows, key: answers(model, state, rows, key)[0])

    def step(self):
        self.held = self.update(*self.held, self.rows, self.labels, self.key)
        jax.block_until_ready(eqx.filter(self.held, eqx.is_array))

    def forward(self):
        return jax.block_until_ready(self._forward(self.still, self.held[1], self.rows, self.key))

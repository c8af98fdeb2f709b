"""Recurrent cells against Equinox's and against their equations in NumPy."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leapcde.nn.cells import CELLS, GRUCell, LSTMCell, RNNCell, over_rows

pytestmark = pytest.mark.usefixtures("x64")
U, H = np.random.default_rng(0).normal(size=(5, 3)), np.random.default_rng(1).normal(size=(5, 4))


def stepped(cell, state):
    return cell.step(state, cell.inputs(jnp.asarray(U)))


def test_gru_equals_equinox():
    ours = eqx.tree_at(lambda c: c.b_h, GRUCell(3, 4, key=jax.random.key(0)), jnp.arange(4.0))
    theirs = eqx.nn.GRUCell(3, 4, key=jax.random.key(1))
    weights = (ours.W.weight.T, ours.U.weight.T, ours.W.bias, ours.b_h)
    theirs = eqx.tree_at(lambda c: (c.weight_ih, c.weight_hh, c.bias, c.bias_n), theirs, weights)
    np.testing.assert_allclose(stepped(ours, jnp.asarray(H)), jax.vmap(theirs)(U, H), atol=1e-12)


def test_lstm_equals_equinox():
    ours = LSTMCell(3, 4, key=jax.random.key(0))
    theirs = eqx.nn.LSTMCell(3, 4, key=jax.random.key(1))
    weights = (ours.W.weight.T, ours.U.weight.T, ours.W.bias)
    theirs = eqx.tree_at(lambda c: (c.weight_ih, c.weight_hh, c.bias), theirs, weights)
    state = (jnp.asarray(H), jnp.asarray(H[::-1]))
    for ours_part, theirs_part in zip(stepped(ours, state), jax.vmap(theirs)(U, state), strict=True):
        np.testing.assert_allclose(ours_part, theirs_part, atol=1e-12)


def test_rnn_equals_its_equation():
    cell = RNNCell(3, 4, key=jax.random.key(0))
    W, b, V = (np.asarray(a) for a in (cell.W.weight, cell.W.bias, cell.U.weight))
    np.testing.assert_allclose(stepped(cell, jnp.asarray(H)), np.tanh(U @ W + b + H @ V), atol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_weights_start_orthogonal(name):
    weight = np.asarray(CELLS[name](3, 4, key=jax.random.key(0)).U.weight)
    for block in np.split(weight, weight.shape[1] // 4, axis=1):
        np.testing.assert_allclose(block.T @ block, np.eye(4), atol=1e-6)


def test_rows_without_observation_leave_the_state_but_not_the_flow():
    """The update waits for an observation; what happens between observations does not."""
    rows, seen = jnp.ones((2, 4, 1)), jnp.array([[1.0, 0, 1, 0], [0, 0, 0, 1]])
    gaps = jnp.array([[0.0, 1, 2, 3], [0, 0, 0, 10]])
    add = lambda h, x: h + x
    np.testing.assert_array_equal(over_rows(add, jnp.zeros((2, 1)), rows, seen), [[2.0], [1.0]])
    moved = over_rows(add, jnp.zeros((2, 1)), rows, seen, gaps=gaps, evolve=lambda h, gap: h + 100 * gap[:, None])
    np.testing.assert_array_equal(moved, [[602.0], [1001.0]])

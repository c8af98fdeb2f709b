"""Recurrent cells, and the one loop over observations that they share.

A cell splits its work: `inputs` turns all rows of a batch into gate inputs by one matmul, `step` is what must be done
row after row. The state stands still where a row holds no observation, so padding never reaches it, and the state at
the end is the state at the sample's own last observation.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from leapcde.nn.dense import Dense


class RecurrentCell(eqx.Module):
    """Subclasses are final."""

    @abstractmethod
    def inputs(self, u: Float[Array, "*rows inputs"]) -> Float[Array, "*rows gates"]: ...

    @abstractmethod
    def step(self, state: Any, gates: Float[Array, "batch gates"]) -> Any: ...

    def start(self, h: Float[Array, "batch state"]) -> Any:
        """The whole state that has `h` as its visible part."""
        return h

    def read(self, state: Any) -> Float[Array, "batch state"]:
        """The visible part of the state."""
        return state


def recurrent(size: int, gates: int, *, key) -> Dense:
    """Orthogonal weights for each gate: they neither shrink nor stretch the state, so early rows are not forgotten."""
    blocks = [jax.nn.initializers.orthogonal()(k, (size, size)) for k in jax.random.split(key, gates)]
    return eqx.tree_at(lambda d: d.weight, Dense(size, gates * size, key=key, bias=False), jnp.concatenate(blocks, 1))


class RNNCell(RecurrentCell):
    """h ← tanh(W u + U h + b)

    U starts as the identity and W small, so that the state begins as a slow sum of its inputs (Le et al., 2015).
    Started like the gated cells it forgets within a few rows, and 40 epochs do not teach it otherwise.
    """

    W: Dense
    U: Dense

    def __init__(self, inputs: int, size: int, *, key):
        a, b = jax.random.split(key)
        self.W, self.U = Dense(inputs, size, key=a), Dense(size, size, key=b, bias=False)
        start = (0.15 * self.W.weight, jnp.zeros(size), jnp.eye(size))
        self.W, self.U = eqx.tree_at(lambda c: (c[0].weight, c[0].bias, c[1].weight), (self.W, self.U), start)

    def inputs(self, u):
        return self.W(u)

    def step(self, state, gates):
        return jnp.tanh(gates + self.U(state))


class LSTMCell(RecurrentCell):
    """i, f, o = σ(·), g = tanh(·) of W u + U h + b;  c ← f ⊙ c + i ⊙ g;  h ← o ⊙ tanh(c)"""

    W: Dense
    U: Dense

    def __init__(self, inputs: int, size: int, *, key):
        a, b = jax.random.split(key)
        self.W, self.U = Dense(inputs, 4 * size, key=a), recurrent(size, 4, key=b)

    def inputs(self, u):
        return self.W(u)

    def start(self, h):
        return h, jnp.zeros_like(h)

    def read(self, state):
        return state[0]

    def step(self, state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + self.U(h), 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c


class GRUCell(RecurrentCell):
    """r, z = σ(W u + U h + b);  n = tanh(W_n u + b_n + r ⊙ (U_n h + b_h));  h ← (1 − z) ⊙ n + z ⊙ h"""

    W: Dense
    U: Dense
    b_h: Float[Array, " size"]

    def __init__(self, inputs: int, size: int, *, key):
        a, b = jax.random.split(key)
        self.W, self.U = Dense(inputs, 3 * size, key=a), recurrent(size, 3, key=b)
        self.b_h = jnp.zeros(size)

    def inputs(self, u):
        return self.W(u)

    def step(self, state, gates):
        from_u, from_h = jnp.split(gates, 3, -1), jnp.split(self.U(state), 3, -1)
        r, z = (jax.nn.sigmoid(a + b) for a, b in zip(from_u[:2], from_h[:2], strict=True))
        n = jnp.tanh(from_u[2] + r * (from_h[2] + self.b_h))
        return (1 - z) * n + z * state


CELLS: dict[str, type[RecurrentCell]] = {"rnn": RNNCell, "lstm": LSTMCell, "gru": GRUCell}


def over_rows(
    update: Callable[[Any, Any], Any],
    state: Any,
    rows: Any,
    seen: Float[Array, "batch length"],
    *,
    evolve: Callable[[Any, Any], Any] | None = None,
    gaps: Float[Array, "batch length"] | None = None,
) -> Any:
    """`update(state, row)` at every row where something was seen, first to last; returns the state at the end.

    The leaves of `rows` are (batch, length, …). With `evolve`, the state first moves over the gap before each row.

    >>> rows = jnp.ones((2, 3, 1))
    >>> seen = jnp.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    >>> over_rows(lambda h, x: h + x, jnp.zeros((2, 1)), rows, seen)[:, 0].tolist()
    [3.0, 1.0]
    """

    def step(state, now):
        gap, row, is_seen = now
        return _where_seen(update, state if evolve is None else evolve(state, gap), row, is_seen), None

    by_row = jax.tree.map(lambda a: jnp.moveaxis(a, 1, 0), (seen if gaps is None else gaps, rows, seen))
    return lax.scan(step, state, by_row)[0]


def after_rows(update: Callable[[Any, Any], Any], state: Any, rows: Any, seen: Float[Array, "batch length"]) -> Any:
    """As `over_rows`, but the state after each row: its leaves are (length, batch, …).

    >>> after_rows(lambda h, x: h + x, jnp.zeros((1, 1)), jnp.ones((1, 3, 1)), jnp.array([[1.0, 0.0, 1.0]]))[:, 0, 0].tolist()
    [1.0, 1.0, 2.0]
    """

    def step(state, now):
        state = _where_seen(update, state, *now)
        return state, state

    return lax.scan(step, state, jax.tree.map(lambda a: jnp.moveaxis(a, 1, 0), (rows, seen)))[1]


def _where_seen(update, state, row, is_seen):
    choose = lambda new, old: jnp.where(is_seen[:, None] > 0, new, old)
    return jax.tree.map(choose, update(state, row), state)

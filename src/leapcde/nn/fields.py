"""Vector fields: the networks that say how a state moves. All work on whole batches, one matmul a layer."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leapcde.nn.dense import MLP, Dense


@jax.custom_vjp
def drive(
    weight: Float[Array, "inputs outputs"], bias: Float[Array, " outputs"], u: Float[Array, "*batch inputs"], dX
) -> Float[Array, "*batch state"]:
    """tanh(u W + b) dX: the last layer of a matrix field, whose outputs are a column of the matrix for each control.

    The matrix is the largest thing in a solve. Kept for the backward pass it would fill the memory, and reading it back
    takes longer than the one product that makes it again (docs/decisions/0007).
    """
    control = dX.shape[-1]
    if control > FEW_COLUMNS:
        return jnp.sum(_matrix(weight, bias, u, dX) * dX[..., None], axis=-2)
    # Column by column: XLA adds up along an axis number by number, but whole columns with vector instructions.
    parts = zip(*(jnp.split(a, control, axis=-1) for a in (u @ weight, bias, dX)), strict=True)
    return sum(jnp.tanh(column + b) * dx for column, b, dx in parts)  # pyright: ignore[reportReturnType]


FEW_COLUMNS = 16  # a line of the program for each; with more, compiling takes longer than is gained


def _matrix(weight, bias, u, dX):
    """(*batch, control, state)"""
    return jnp.tanh(u @ weight + bias).reshape(*dX.shape, -1)


def _drive_forward(weight, bias, u, dX):
    return drive(weight, bias, u, dX), (weight, bias, u, dX)


def _drive_backward(kept, slope):
    weight, bias, u, dX = kept
    matrix, along = _matrix(weight, bias, u, dX), slope[..., None, :]
    to_dX = jnp.sum(matrix * along, axis=-1)
    δ = (along * dX[..., None] * (1 - matrix**2)).reshape(*u.shape[:-1], -1)
    inputs, rows = (a.reshape(-1, a.shape[-1]) for a in (u, δ))
    return inputs.T @ rows, jnp.ones(len(rows), rows.dtype) @ rows, δ @ weight.T, to_dX


drive.defvjp(_drive_forward, _drive_backward)


class CDEField(eqx.Module):
    """A matrix field applied to a control: z, dX -> tanh(MLP(z)) dX, with `depth` hidden layers.

    `linear_first` leaves the first layer without activation, as the paper's tables print it. `gain` scales the last
    layer's weights at the start: a small field keeps the state small along a long path.
    """

    net: MLP  # its outputs are the columns of the matrix, one after the other

    def __init__(
        self,
        state: int,
        control: int,
        *,
        width: int,
        depth: int,
        key,
        activation: str = "relu",
        linear_first: bool = False,
        gain: float = 1.0,
    ):
        hidden = ("none" if linear_first else activation, *[activation] * (depth - 1))
        sizes = (state, *[width] * depth, state * control)
        net = MLP(sizes, (*hidden[:depth], "tanh"), key=key)
        self.net = eqx.tree_at(lambda net: net.layers[-1].weight, net, replace_fn=lambda weight: gain * weight)

    def __call__(self, z: Float[Array, "*batch state"], dX: Float[Array, "*batch control"]) -> Float[Array, "*batch state"]:
        last = self.net.layers[-1]
        return drive(last.weight, last.bias, self.net.hidden(z), dX)


class ODEField(eqx.Module):
    """h -> dh/dt: `depth` hidden ReLU layers and a tanh, so that the state moves at most at unit speed."""

    net: MLP

    def __init__(self, state: int, *, width: int, key, depth: int = 1, activation: str = "relu"):
        self.net = MLP((state, *[width] * depth, state), (*[activation] * depth, "tanh"), key=key)

    def __call__(self, h: Float[Array, "*batch state"]) -> Float[Array, "*batch state"]:
        return self.net(h)


REST = 0.3  # how strongly the units that make no oscillator start, against the usual


def swinging(f: ODEField, fastest: float) -> ODEField:
    """`f` (one hidden ReLU layer) with other weights to start with: entries of the state are pairs that swing,
    dh = tanh(A h) dt, each pair at its own speed, evenly spread up to `fastest` radians a unit of time (0: `f` itself).

    relu(x) − relu(−x) = x, so two units of the layer make one linear one. As many pairs swing as the layer can hold; units
    that are left stay random.
    """
    if not fastest:
        return f
    first, last = f.net.layers
    state, width = last.weight.shape[1], last.weight.shape[0]
    pairs = min(state, width // 2) // 2
    held = 2 * pairs
    speeds = fastest * (jnp.arange(pairs) + 0.5) / max(pairs, 1)
    A = jnp.zeros((held, state), last.weight.dtype)
    even = 2 * jnp.arange(pairs)
    A = A.at[even, even + 1].set(speeds).at[even + 1, even].set(-speeds)
    entries = jnp.eye(len(first.weight), held, dtype=first.weight.dtype)
    used = jnp.arange(width) < 2 * held
    into = jnp.concatenate([entries, -entries, first.weight[:, 2 * held :]], 1)
    out = jnp.concatenate([A, -A, REST * last.weight[2 * held :]])
    biases = jax.tree.map(jnp.zeros_like, last.bias), jax.tree.map(lambda b: jnp.where(used, 0, b), first.bias)
    where = lambda f: [f.net.layers[0].weight, f.net.layers[1].weight, f.net.layers[1].bias, f.net.layers[0].bias]
    return eqx.tree_at(where, f, [into, out, *biases])


class Flow(eqx.Module):
    """f(h) = h A + b + W₃ silu(W₂ [sin; silu](W₁ h)), with A, b and W₃ zero at the start: what flows stands still."""

    A: Float[Array, "state state"]
    b: Float[Array, " state"]
    W1: Dense
    W2: Dense
    W3: Dense

    def __init__(self, state: int, width: int, *, key):
        k = jax.random.split(key, 3)
        self.A, self.b = jnp.zeros((state, state)), jnp.zeros(state)
        W1 = Dense(state, width, key=k[0], gain=3**0.5)
        phases = jax.random.uniform(k[2], (width,), minval=-1.0)
        self.W1 = eqx.tree_at(lambda W: W.bias, W1, phases)
        self.W2 = Dense(width, width, key=k[1], gain=3**0.5)
        self.W3 = jax.tree.map(jnp.zeros_like, Dense(width, state, key=key))

    def __call__(self, h: Float[Array, "*batch state"]) -> Float[Array, "*batch state"]:
        a, b = jnp.split(self.W1(h), [len(self.W2.weight) // 2], -1)
        u = jnp.concatenate([jnp.sin(a), jax.nn.silu(b)], -1)
        return h @ self.A + self.b + self.W3(jax.nn.silu(self.W2(u)))

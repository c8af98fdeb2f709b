"""Layers: x W + b, and several of them with activations between."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leapcde.errors import choose

ACTIVATIONS: dict[str, Callable] = {
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "none": lambda x: x,
}


class Dense(eqx.Module):
    """x W + b for x of any leading shape; weights start uniform in ±1/sqrt(inputs), times `gain`.

    >>> Dense(3, 2, key=jax.random.key(0))(jnp.ones((5, 3))).shape
    (5, 2)
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None

    def __init__(self, inputs: int, outputs: int, *, key, bias: bool = True, gain: float = 1.0):
        w, b = jax.random.split(key)
        bound = 1 / max(inputs, 1) ** 0.5
        self.weight = gain * jax.random.uniform(w, (inputs, outputs), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(b, (outputs,), minval=-bound, maxval=bound) if bias else None

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class MLP(eqx.Module):
    """Layers of `sizes`, each followed by its activation: `MLP((40, 100, 100, 160), ("relu", "relu", "tanh"))`."""

    layers: tuple[Dense, ...]
    activations: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], activations: tuple[str, ...], *, key):
        for name in activations:
            choose("activation", name, ACTIVATIONS)
        pairs = list(pairwise(sizes))
        keys = jax.random.split(key, len(pairs))
        self.layers = tuple(Dense(i, o, key=k) for (i, o), k in zip(pairs, keys, strict=True))
        self.activations = activations

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        return ACTIVATIONS[self.activations[-1]](self.layers[-1](self.hidden(x)))

    def hidden(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch width"]:
        """All layers but the last."""
        for layer, name in zip(self.layers[:-1], self.activations[:-1], strict=True):
            x = ACTIVATIONS[name](layer(x))
        return x

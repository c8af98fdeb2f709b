"""Layers: x W + b, and several of them with activations between."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import accumulate, pairwise
from math import prod
from operator import add

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
        return self.of_parts(x)

    def of_parts(self, *parts) -> Float[Array, "*batch outputs"]:
        """Of inputs that lie one behind the other, without joining them: XLA on CPU joins slowly what it has just computed."""
        ends = list(accumulate(part.shape[-1] for part in parts))
        W = jnp.split(self.weight, ends[:-1])
        y = reduce(add, (flat(part) @ w for part, w in zip(parts, W, strict=True)))
        return (y if self.bias is None else y + self.bias).reshape(*parts[0].shape[:-1], y.shape[-1])


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
        return self.of_parts(x)

    def of_parts(self, *parts) -> Float[Array, "*batch outputs"]:
        """Of inputs that lie one behind the other, as `Dense.of_parts`."""
        return ACTIVATIONS[self.activations[-1]](self.layers[-1](self.hidden(*parts)))

    def hidden(self, *parts) -> Float[Array, "*batch width"]:
        """All layers but the last."""
        for layer, name in zip(self.layers[:-1], self.activations[:-1], strict=True):
            parts = (ACTIVATIONS[name](layer.of_parts(*parts)),)
        return parts[0]


def flat(x: Float[Array, "*batch inputs"]) -> Float[Array, "rows inputs"]:
    """All rows on one axis: so the gradient of W sums over them in a third of the time that XLA needs for two axes."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])

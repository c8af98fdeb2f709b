"""From the last state to what was asked: class scores, a number, or the values to come."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leapcde.data.batch import Padded
from leapcde.nn.dense import Dense


class Head(eqx.Module):
    """One fully connected layer whose output has the shape of the target.

    `anchored` adds each channel's last observed value to a forecast, so that the layer learns the change from it, and
    starts at no change: what is trained begins as the last-value forecast. The paper's layer is the plain one.
    """

    layer: Dense
    shape: tuple[int, ...] = eqx.field(static=True)
    anchored: bool = eqx.field(static=True)

    def __init__(self, state: int, shape: tuple[int, ...], *, key, anchored: bool = False):
        size = 1
        for n in shape:
            size *= n
        layer = Dense(state, size, key=key)
        self.layer = jax.tree.map(jnp.zeros_like, layer) if anchored else layer
        self.shape = shape
        self.anchored = anchored

    def __call__(self, z: Float[Array, "batch state"], obs: Padded) -> Float[Array, "batch ..."]:
        y = self.layer(z).reshape(len(z), *self.shape)
        return y + obs.last[:, None, :] if self.anchored else y

"""Layers along the knots of a path: a local kernel, a gated linear equation, and what they are made of.

Knots come first here, (knots, batch, state): all that runs along them is cheapest so.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from leapcde.nn.dense import Dense
from leapcde.solve.scan import linear_scan


class Block(eqx.Module):
    """A local kernel, a gated linear equation along the knots, a gate.

    z_k = (1 − λ_k) z_{k−1} + √λ_k W_v a_k with λ = σ(W_λ a) and a = κ ∗ rms(u); the answer is W_o (z ⊙ silu(W_g a)).
    """

    norm: Float[Array, " state"]
    κ: Float[Array, "width state"]
    W: Dense  # W_λ, W_v and W_g at once
    W_o: Dense

    def __init__(self, state: int, *, key, kernel: int, causal: bool):
        a, b, c = jax.random.split(key, 3)
        self.norm, self.κ = jnp.ones(state), jax.random.normal(c, (kernel, state)) * kernel**-0.5
        W, ways = Dense(state, 3 * state, key=a, gain=3**0.5), (state,) if causal else (state // 2, state - state // 2)
        decays = jnp.concatenate([jnp.linspace(-4.0, 1.0, size) for size in ways])  # slow to fast, each way
        self.W = eqx.tree_at(lambda W: W.bias, W, W.bias.at[:state].set(decays))  # pyright: ignore[reportOptionalMemberAccess]
        self.W_o = Dense(state, state, key=b, gain=0.5)

    def __call__(self, u: Float[Array, "knots batch state"], valid, causal: bool) -> Float[Array, "knots batch state"]:
        λ, v, gate = self.gates(shifted(rms(u, self.norm) * valid, len(self.κ), causal=causal))
        λ = λ * valid  # behind a sample's end, z stands still
        z = linear_scan(1 - λ, jnp.sqrt(λ + 1e-12) * v * valid, causal=causal)
        return self.W_o(z * jax.nn.silu(gate))

    def arrive(self, state: tuple, u: Float[Array, "batch state"]) -> tuple[tuple, Float[Array, "batch state"]]:
        """One more knot, from rms(u) of those before and z, which `nothing` begins with; as `__call__`, if causal."""
        before, z = state
        near = jnp.concatenate([before, rms(u, self.norm)[None]])
        λ, v, gate = self.gates(list(near))
        z = (1 - λ) * z + jnp.sqrt(λ + 1e-12) * v
        return (near[1:], z), self.W_o(z * jax.nn.silu(gate))

    def nothing(self, batch: int) -> tuple:
        """The state before the first knot."""
        width, size = self.κ.shape
        return jnp.zeros((width - 1, batch, size), self.κ.dtype), jnp.zeros((batch, size), self.κ.dtype)

    def gates(self, near: list):
        """λ, W_v a and W_g a, from rms(u) at the knots that κ spans."""
        a = sum((x * w for x, w in zip(near, self.κ, strict=True)), start=jnp.zeros(()))
        λ, v, gate = jnp.split(self.W(a), 3, -1)
        return jax.nn.sigmoid(λ), v, gate


def shifted(x, width: int, *, causal: bool) -> list:
    """x at `width` knots around each (up to each, if `causal`); zero beyond the ends."""
    before = width - 1 if causal else width // 2
    padded = jnp.pad(x, ((before, width - 1 - before), (0, 0), (0, 0)))
    return [padded[j : j + len(x)] for j in range(width)]


def rms(x, weight):
    """x in units of its own size, times a weight for each channel."""
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5) * weight


def dropped(x, rate: float, key):
    """x with a share of its channels left out in training, at all knots: no other knot tells them."""
    if key is None or not rate:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape[-2:]), x / (1 - rate), 0)


def running(u: Float[Array, "knots batch state"], valid) -> Float[Array, "knots batch three_states"]:
    """At every knot, `pooled` of those up to it: [u, mean so far, maximum so far]."""
    valid = jnp.broadcast_to(valid, (*u.shape[:2], 1))
    mean = jnp.cumsum(u * valid, 0) / jnp.maximum(jnp.cumsum(valid, 0), 1)
    return jnp.concatenate([u, mean, lax.cummax(jnp.where(valid > 0, u, -jnp.inf), axis=0)], -1)


def pooled(u: Float[Array, "knots batch state"], valid) -> Float[Array, "batch three_states"]:
    """[end, mean, maximum] of u over each sample's own knots, those where `valid` is 1."""
    valid = jnp.broadcast_to(valid, (*u.shape[:2], 1))
    count = valid.sum(0)
    end = jnp.take_along_axis(u, count.astype(int)[None] - 1, 0)[0]
    most = jnp.max(jnp.where(valid > 0, u, -jnp.inf), 0)
    return jnp.concatenate([end, jnp.sum(u * valid, 0) / count, most], -1)

"""The divergence tr(∂f/∂h), exact or by Hutchinson's estimator (the paper's eq. 12 and appendix)."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from leapcde.errors import choose

PROBES = ("rademacher", "gaussian", "exact")


def draw_probe(key, shape: tuple[int, ...], kind: str, dtype=jnp.float32):
    """ε with mean 0 and covariance I, drawn once per solve; None when the trace is exact.

    >>> sorted(set(draw_probe(jax.random.key(0), (100,), "rademacher").tolist()))
    [-1.0, 1.0]
    """
    choose("probe", kind, PROBES)
    if kind == "rademacher":
        return jax.random.rademacher(key, shape, dtype)
    return jax.random.normal(key, shape, dtype) if kind == "gaussian" else None


def value_and_divergence(f: Callable, h, probe):
    """f(h) and, for each sample, εᵀ(∂f/∂h)ε; the exact trace when `probe` is None.

    >>> value_and_divergence(lambda h: 2.0 * h, jnp.ones((1, 3)), None)[1].tolist()
    [6.0]
    """
    if probe is not None:
        value, pushed = jax.jvp(f, (h,), (probe,))
        return value, jnp.sum(probe * pushed, -1)
    size = h.shape[-1]
    along = lambda e: jnp.sum(jax.jvp(f, (h,), (jnp.broadcast_to(e, h.shape),))[1] * e, -1)
    return f(h), jax.vmap(along)(jnp.eye(size, dtype=h.dtype)).sum(0)

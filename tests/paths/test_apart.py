"""What is compiled apart is what it would be otherwise, and so is its gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from leapcde.nn.dense import Dense
from leapcde.paths.apart import apart
from leapcde.paths.neighbours import so_far


def test_the_same_value_and_gradient():
    x = jnp.linspace(0.1, 2.0, 12).reshape(3, 4)
    f = lambda x, seen: jnp.where(seen, jnp.sin(x) * x, 0.0)
    plain, cut = (jax.value_and_grad(lambda x, g=g: g(x, x > 0.5).sum()) for g in (f, lambda *a: apart(f, *a)))
    for a, b in zip(plain(x), cut(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_what_is_not_finite_stays_so():
    """A divergence must not be hidden."""
    for x in (jnp.nan, jnp.inf, -jnp.inf):
        np.testing.assert_array_equal(apart(lambda x: x + 1, jnp.array([x, 1.0])), [x + 1, 2.0])


def test_counts_so_far_are_cumulative_sums():
    counts = np.random.default_rng(0).integers(0, 3, (2, 7, 3))
    np.testing.assert_array_equal(so_far(counts), counts.cumsum(1))


def test_a_layer_of_parts_is_the_layer_of_all():
    layer, rng = Dense(7, 3, key=jax.random.key(0)), np.random.default_rng(0)
    a, b = (jnp.asarray(rng.normal(size=(2, 5, size)), jnp.float32) for size in (4, 3))
    whole = np.concatenate([a, b], -1) @ np.asarray(layer.weight) + np.asarray(layer.bias)
    np.testing.assert_allclose(layer.of_parts(a, b), whole, atol=1e-6)
    np.testing.assert_allclose(layer(jnp.concatenate([a, b], -1)), whole, atol=1e-6)


def test_what_is_compiled_apart_is_still_apart():
    """The condition that keeps XLA from fusing it must be one that XLA cannot see through."""
    twice = jax.jit(lambda x: apart(jnp.exp, x).sum() + apart(jnp.exp, 2 * x).max())
    assert twice.lower(jnp.ones((4, 4))).compile().as_text().count("conditional(") == 2

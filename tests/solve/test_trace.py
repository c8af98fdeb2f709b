from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leapcde.errors import InputError
from leapcde.nn.fields import ODEField
from leapcde.paths.path import join_linear
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver
from leapcde.solve.trace import draw_probe, value_and_divergence

pytestmark = pytest.mark.usefixtures("x64")


def field(size=4):
    net = ODEField(size, width=16, activation="tanh", key=jax.random.key(1))
    net = jax.tree.map(lambda a: 2 * a.astype(jnp.float64) if hasattr(a, "dtype") else a, net)
    return net


def test_exact_trace_equals_the_jacobian():
    f, h = field(), jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)))
    value, trace = value_and_divergence(f, h, None)
    np.testing.assert_allclose(trace, [jnp.trace(jax.jacobian(lambda x: f(x[None])[0])(row)) for row in h], atol=1e-12)
    np.testing.assert_allclose(value, f(h), atol=1e-12)


@pytest.mark.parametrize("kind", ["rademacher", "gaussian"])
def test_hutchinson_is_unbiased(kind):
    f, h = field(), jnp.asarray(np.random.default_rng(0).normal(size=(1, 4)))
    many = jnp.repeat(h, 40_000, axis=0)
    noise = draw_probe(jax.random.key(3), many.shape, kind).astype(jnp.float64)
    estimates = np.asarray(value_and_divergence(f, many, noise)[1])
    exact = float(value_and_divergence(f, h, None)[1][0])
    standard_error = estimates.std() / np.sqrt(len(estimates))
    assert abs(estimates.mean() - exact) < 4 * standard_error
    assert standard_error < 0.05
    np.testing.assert_allclose(np.cov(np.asarray(noise).T), np.eye(4), atol=0.05)


def test_integrated_trace_is_the_log_determinant_of_the_flow():
    """Liouville: log det ∂h(T)/∂h(0) = ∫ tr(∂f/∂h) dt, the identity behind the paper's eq. 12."""
    f = field()
    clock = jnp.linspace(0.0, 1.5, 41)[None]
    drive = join_linear(clock, clock[..., None])

    def flow(h0):
        def joint(state, dt):
            value, trace = value_and_divergence(f, state[0], None)
            return value * dt, trace * dt[:, 0]

        (h, integral), _ = solve(joint, (h0[None], jnp.zeros((1,))), drive, Solver("rk4"))
        return h[0], integral[0]

    h0 = jnp.asarray(np.random.default_rng(2).normal(size=4))
    sign, logdet = np.linalg.slogdet(np.asarray(jax.jacobian(lambda h: flow(h)[0])(h0)))
    assert sign > 0
    assert abs(logdet) > 0.05
    np.testing.assert_allclose(flow(h0)[1], logdet, atol=1e-6)


def test_unknown_noise():
    with pytest.raises(InputError, match="uniform"):
        draw_probe(jax.random.key(0), (2,), "uniform")

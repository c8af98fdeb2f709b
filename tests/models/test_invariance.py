"""What a prediction must not depend on, for every model, on real series."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import awake
from leapcde.data.read import as_series
from leapcde.datasets.registry import load
from leapcde.models.registry import MODELS, build, options_of
from leapcde.paths.batch import Recipe
from leapcde.paths.path import join_linear
from leapcde.paths.ragged import make_buckets
from leapcde.solve.integrate import solve
from leapcde.solve.solver import Solver
from leapcde.training.fitted import FittedModel
from leapcde.training.predict import predict
from leapcde.training.preprocess import Preprocessor

CLOSE = {"atol": 2e-5, "rtol": 1e-4}
# LEAP but for its penalty, Latent-ODE but for its size, and the GRU with other gates: asked in the slow tests.
SAME = {"leap:restart", "augmented-ode", "rnn", "lstm"}
NAMES = [name for name in MODELS if not name.startswith(("layers+", "ages+"))]
ALL = [pytest.param(name, marks=pytest.mark.slow) if name in SAME else name for name in NAMES]
FEW = ("leap+", "leap", "gru-d")  # of each kind of cost one


@pytest.fixture(scope="module")
def hopper():
    return load("hopper", drop_rate=0.3).test.take(range(24))


# The other variants are wrappers of these; tests/test_contract.py compares a sample alone, among others and padded for all.
@pytest.fixture(scope="module", params=ALL)
def fitted(request, hopper):
    return built(request.param, hopper)


def built(name: str, hopper) -> FittedModel:
    preprocessor = Preprocessor.learn(hopper, "forecasting", Recipe())
    options = {key: 8 for key in ("hidden", "width", "latent") if key in options_of(name)}
    return FittedModel(preprocessor, awake(build(name, preprocessor.spec, seed=1, **options)), name, options)


def test_padding(fitted, hopper):
    scaled = fitted.preprocessor.scaler.apply(replace(hopper, target=None))
    near, far = (make_buckets(scaled, fitted.preprocessor.recipe, round_to=r) for r in (1, 64))
    assert near[0].batch.obs.length < far[0].batch.obs.length == 64
    np.testing.assert_allclose(predict(fitted.model, near), predict(fitted.model, far), **CLOSE)


def test_batch_order(fitted, hopper):
    whole = fitted.raw(hopper)
    order = np.random.default_rng(0).permutation(24)
    np.testing.assert_allclose(fitted.raw(hopper.take(order)), whole[order], **CLOSE)


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in NAMES])
def test_batch_size(name, hopper):
    """Other sizes are other programs: of every model in the slow tests; tests/estimators/test_contract.py asks all of them
    for a sample alone."""
    fitted = built(name, hopper)
    whole = fitted.raw(hopper)
    alone = np.concatenate([fitted.raw(hopper.take([i])) for i in (0, 11)])
    np.testing.assert_allclose(alone, whole[[0, 11]], **CLOSE)
    np.testing.assert_allclose(predict(fitted.model, fitted.preprocessor.encode(hopper), chunk=7), whole, **CLOSE)


@pytest.mark.parametrize("shift", [-1000.0, 0.1, 12345.0])
def test_shifting_time(fitted, hopper, shift):
    """Even each sample by another amount: a sample's clock starts with it."""
    moved = replace(hopper, times=hopper.times + shift * (1 + hopper.owner))
    np.testing.assert_allclose(fitted.raw(moved), fitted.raw(hopper), atol=1e-3, rtol=1e-3)


@given(seed=st.integers(0, 100))
def test_ncde_without_time_cannot_see_how_fast_time_runs(seed):
    """A controlled differential equation is invariant under reparametrisation; with a time channel it is not."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(5, 12, 2))
    warped = np.cumsum(rng.uniform(0.1, 3.0, (5, 12)), 1)
    for time, same in ((False, True), (True, False)):
        preprocessor = Preprocessor.learn(
            as_series(values, target=np.arange(5) % 2), "classification", Recipe("linear", time_channel=time)
        )
        model = build("ncde", preprocessor.spec, hidden=8, width=8)
        first, second = (
            predict(model, make_buckets(as_series(values, times=t), preprocessor.recipe)) for t in (np.arange(12.0), warped)
        )
        assert np.allclose(first, second, atol=1e-5) == same


def test_order_of_values_matters(fitted, hopper):
    """A check of the checks: predictions do depend on what was observed."""
    changed = replace(hopper, values=hopper.values[::-1])
    assert not np.allclose(fitted.raw(changed), fitted.raw(hopper), atol=1e-2)


# --- the paper's well-posedness: the solution moves with its input no more than the Lipschitz bound allows --------


def lipschitz(net) -> float:
    return float(np.prod([np.linalg.norm(np.asarray(layer.weight), 2) for layer in net.layers]))


def variation(values) -> np.ndarray:
    """Total variation of each sample's piecewise linear path."""
    return np.linalg.norm(np.diff(np.asarray(values), axis=1), axis=-1).sum(1)


def small(model):
    return jax.tree.map(lambda a: 0.5 * a if eqx.is_inexact_array(a) else a, model)


@eqx.filter_jit
def end_of(g, z, X):
    return solve(g, z, X, Solver("rk4", substeps=4))[0]


@eqx.filter_jit
def decoded(model, h, z):
    """Eq. 9 from given initial values, over two units of time."""
    t = jnp.tile(jnp.linspace(0.0, 2.0, 25), (len(h), 1))

    def joint(state, dt):
        h, z = state
        f = model.f(h)
        return f * dt, model.g(z, model.J_m(f) * dt)

    return solve(joint, (h, z), join_linear(t, t[..., None]), Solver("rk4"))[0]


@given(seed=st.integers(0, 1000), size=st.sampled_from([1e-2, 0.3]))
def test_cde_moves_no_more_than_its_bound(seed, size):
    """|Δz(T)| ≤ (|Δz(0)| + M ‖ΔX‖) exp(L ‖X‖), with M = sup‖g‖, L its Lipschitz constant, ‖·‖ total variation."""
    rng = np.random.default_rng(seed)
    preprocessor = Preprocessor.learn(
        as_series(rng.normal(size=(4, 9, 2)), target=np.arange(4) % 2), "classification", Recipe()
    )
    g = small(build("ncde", preprocessor.spec, hidden=5, width=6, seed=seed)).g
    t = jnp.tile(jnp.arange(9.0), (4, 1))
    X = rng.normal(size=(4, 9, 3)).astype(np.float32) * 0.3
    X2 = X + size * rng.normal(size=X.shape).astype(np.float32)
    z = rng.normal(size=(4, 5)).astype(np.float32)
    z2 = z + size * rng.normal(size=z.shape).astype(np.float32)
    end, end2 = (np.asarray(end_of(g, jnp.asarray(a), join_linear(t, jnp.asarray(b)))) for a, b in ((z, X), (z2, X2)))
    M, L = np.sqrt(5 * 3), lipschitz(g.net)
    bound = (np.linalg.norm(z - z2, axis=1) + M * variation(X - X2)) * np.exp(L * variation(X))
    moved = np.linalg.norm(end - end2, axis=1)
    assert np.all(moved <= bound * 1.001)
    assert np.all(moved > 1e-6)


@given(seed=st.integers(0, 1000), size=st.sampled_from([1e-2, 0.3]))
def test_leap_decoder_moves_no_more_than_its_bound(seed, size):
    """The joint system of h and z: Grönwall for h, then the bound above with Y = m(h) as the control."""
    rng = np.random.default_rng(seed)
    preprocessor = Preprocessor.learn(
        as_series(rng.normal(size=(4, 9, 2)), target=np.arange(4) % 2), "classification", Recipe()
    )
    model = small(build("leap", preprocessor.spec, hidden=5, width=6, f_width=6, decoder_span=2.0, seed=seed))
    h, z = (rng.normal(size=(4, 5)).astype(np.float32) for _ in range(2))
    h2, z2 = (a + size * rng.normal(size=a.shape).astype(np.float32) for a in (h, z))
    (H, Z), (H2, Z2) = (decoded(model, jnp.asarray(a), jnp.asarray(b)) for a, b in ((h, z), (h2, z2)))
    T, W, Lf, Lg = 2.0, np.linalg.norm(np.asarray(model.m.weight), 2), lipschitz(model.f.net), lipschitz(model.g.net)
    dh, dz = np.linalg.norm(h - h2, axis=1), np.linalg.norm(z - z2, axis=1)
    assert np.all(np.linalg.norm(H - H2, axis=1) <= dh * np.exp(Lf * T) * 1.001)
    dY = W * dh * (np.exp(Lf * T) - 1)  # total variation of Y − Y'
    bound = (dz + np.sqrt(5 * 3) * dY) * np.exp(Lg * W * np.sqrt(5) * T)
    moved = np.linalg.norm(Z - Z2, axis=1)
    assert np.all(moved <= bound * 1.001)
    assert np.all(moved > 1e-6)

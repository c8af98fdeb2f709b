"""LEAP against an oracle written from the paper: SciPy's splines and integrator, NumPy's matrices, one sample at a time."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from test_paths import fit_path, observations

from leapcde.errors import InputError
from leapcde.models.base import Spec
from leapcde.models.registry import build
from leapcde.nn.losses import weight_norms
from leapcde.paths.batch import Batch

pytestmark = pytest.mark.usefixtures("x64")
SPEC = Spec("classification", values=3, channels=4, output=(5,), span=16.0)
SMALL = {"hidden": 6, "width": 7, "depth": 2, "f_width": 9, "alpha": 0.7, "beta": 0.3, "activation": "tanh", "time_span": 4.0}
PACE = SMALL["time_span"] / SPEC.span  # of the time channel
FINE = {"decoder_steps": 200, "solver": "rk4", "solver_options": {"substeps": 16}}


def batch_of(seed=0) -> Batch:
    obs = observations(seed, keep=0.6, gaps=(0.5, 1.5))
    obs = obs._replace(times=obs.times - obs.times[:, :1], static=np.zeros((4, 0)))
    obs = jax.tree.map(jnp.asarray, obs._replace(last=jnp.zeros((4, 3)), target=jnp.arange(4)))
    return Batch(obs, fit_path(obs, "natural"))


def double(model):
    return jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, model)


def model_of(name="leap", **options):
    model = build(name, SPEC, seed=3, **{**SMALL, **FINE, "swings": 0.0, **options})
    # Larger weights than at the start of training, so that no term of the equations is negligible.
    return jax.tree.map(lambda a: 1.5 * a if eqx.is_inexact_array(a) else a, double(model))


@eqx.filter_jit
def run(model, batch, key=None):
    return model(batch, key=key)


def dense(layer, x):
    return x @ np.asarray(layer.weight) + np.asarray(layer.bias)


def matrix(field, z):
    for layer in field.net.layers[:-1]:
        z = np.tanh(dense(layer, z))
    return np.tanh(dense(field.net.layers[-1], z)).reshape(4, 6).T  # column by column


def f_of(model, h):
    first, second = model.f.net.layers
    return np.tanh(dense(second, np.maximum(dense(first, h), 0)))


def trace_of(model, h):
    """tr ∂f/∂h by hand: diag(1 − f²) W2ᵀ diag(relu') W1ᵀ."""
    first, second = (np.asarray(layer.weight) for layer in model.f.net.layers)
    active = (dense(model.f.net.layers[0], h) > 0).astype(float)
    jacobian = (first * active) @ second * (1 - f_of(model, h) ** 2)
    return np.trace(jacobian)


def spline_of(t, x):
    """Value and slope of one channel's natural spline, held constant outside its observations."""
    if len(t) < 2:
        return (lambda q: x[0] if len(x) else 0.0), (lambda q: 0.0)
    spline = CubicSpline(t, x, bc_type="natural")
    return (lambda q: spline(np.clip(q, t[0], t[-1]))), (lambda q: spline(q, 1) * (t[0] <= q <= t[-1]))


def encoded(model, batch, b):
    """X of sample b as a function of time, and e at its end (eq. 7)."""
    t, mask = np.asarray(batch.obs.times[b]), np.asarray(batch.obs.mask[b]) > 0
    x = np.asarray(batch.obs.values[b])
    splines = [spline_of(t[mask[:, c]], x[mask[:, c], c]) for c in range(3)]
    X = lambda q: np.array([PACE * q, *[value(q) for value, _ in splines]])
    dX = lambda q: np.array([PACE, *[slope(q) for _, slope in splines]])
    e = dense(model.φ_e, X(t[0]))
    for a, z in pairwise(t):  # knot by knot: held channels have corners there
        e = solve_ivp(lambda q, e: matrix(model.k, e) @ dX(q), (a, z), e, rtol=1e-9, atol=1e-10).y[:, -1]
    return X, e


def oracle(model, batch, b):
    """Eqs. 4–10 for sample b, and the pieces of eqs. 11, 12."""
    t, mask = np.asarray(batch.obs.times[b]), np.asarray(batch.obs.mask[b]) > 0
    x = np.asarray(batch.obs.values[b])
    X, e = encoded(model, batch, b)
    W, X0 = np.asarray(model.m.weight), X(t[0])

    def joint(q, s):
        h, z = s[:6], s[6:12]
        f = f_of(model, h)
        return [*f, *(matrix(model.g, z) @ (f @ W)), trace_of(model, h)]

    start = [*dense(model.φ_h, e), *dense(model.φ_z, X0), 0.0]
    tau = t * model.pace
    s = solve_ivp(joint, (0, tau[-1]), start, t_eval=tau, rtol=1e-9, atol=1e-10, max_step=0.02).y
    Y = dense(model.m, s[:6].T)
    N = mask.any(1).sum()
    squared = ((Y[:, 1:] - x)[mask] ** 2).sum() / N
    return {
        "z": s[6:12, -1],
        "Y": Y,
        "squared": squared,
        "trace": s[12, -1] / N,
        "logits": dense(model.head.layer, s[6:12, -1]),
    }


@pytest.fixture(scope="module")
def case():
    with jax.enable_x64(True):
        batch, model = batch_of(), model_of(probe="exact")
        return batch, model, [oracle(model, batch, b) for b in range(4)]


@pytest.mark.parametrize(("hidden", "f_width"), [(6, 12), (7, 20), (6, 9), (1, 4)])
def test_h_starts_as_oscillators(hidden, f_width):
    """dh = tanh(A h) for the pairs that the hidden layer can hold, the fastest less than `swings` times round in the span."""
    model = double(build("leap", SPEC, hidden=hidden, f_width=f_width, swings=3.0, decoder_span=5.0))
    pairs = min(hidden, f_width // 2) // 2
    held = 2 * pairs
    A = np.zeros((hidden, hidden))
    for j in range(pairs):
        speed = 2 * np.pi * 3.0 / 5.0 * (j + 0.5) / pairs
        A[2 * j, 2 * j + 1], A[2 * j + 1, 2 * j] = speed, -speed
    h = np.random.default_rng(0).normal(size=(8, hidden))
    first, last = model.f.net.layers
    rest = np.maximum(dense(first, h)[:, 2 * held :], 0) @ np.asarray(last.weight)[2 * held :]
    found = np.arctanh(np.asarray(model.f(jnp.asarray(h))))
    np.testing.assert_allclose(found, h @ A + rest, atol=1e-4)
    assert np.abs(np.asarray(last.weight)[2 * held :]).sum() > 0 or f_width == 2 * held


def test_without_swings_f_starts_random():
    ahead = replace(SPEC, task="forecasting", output=(2, 3))
    by_default = [build("leap", spec, hidden=4, f_width=8).f.net.layers[-1].weight for spec in (SPEC, ahead)]
    assert [np.count_nonzero(weight) for weight in by_default] == [8, 32]  # forecasters do not swing unless asked to
    plain, swung = (build("leap", SPEC, hidden=4, f_width=8, swings=swings) for swings in (0.0, 4.0))
    weights = [np.asarray(model.f.net.layers[-1].weight) for model in (plain, swung)]
    assert np.count_nonzero(weights[0]) == weights[0].size and np.count_nonzero(weights[1]) == 8  # two pairs, both signs
    for name, gain in (("φ_h", 1.0), ("m", 3.0)):
        np.testing.assert_allclose(getattr(swung, name).weight, gain * getattr(plain, name).weight, rtol=1e-6)


@pytest.mark.parametrize(("option", "value", "wanted"), [("decoder_span", 0.0, "above 0"), ("swings", np.nan, "at least 0")])
def test_a_start_that_cannot_be_is_refused(option, value, wanted):
    with pytest.raises(InputError, match=f"{option}={value}: give a number {'of ' * (option == 'swings')}{wanted}"):
        build("leap", SPEC, **{option: value})


def test_no_oscillator_is_faster_than_four_steps():
    few, told = (build("leap", SPEC, hidden=4, f_width=8, decoder_steps=4, swings=swings) for swings in (None, 1.0))
    assert jax.tree.all(jax.tree.map(np.array_equal, eqx.filter(few, eqx.is_array), eqx.filter(told, eqx.is_array)))


def test_the_weight_penalty_reaches_every_field():
    model = build("leap", SPEC, hidden=4, f_width=8)
    slopes = eqx.filter_grad(lambda model: weight_norms(model.regularised()))(model)
    touched = {name for name in ("φ_e", "k", "φ_h", "f", "m", "φ_z", "g", "head") if _any_slope(getattr(slopes, name))}
    assert touched == {"k", "f", "g"}


@pytest.mark.parametrize(
    ("values", "task", "alpha"), [(2, "classification", 1.0), (20, "regression", 0.15), (20, "forecasting", 1e-3)]
)
def test_many_channels_are_followed_less_closely(values, task, alpha):
    """‖Y − x‖² is a sum over channels: with α = 1 it drowns the task's loss where there are many."""
    spec = Spec(task, values=values, channels=values + 1, output=(3, values) if task == "forecasting" else (3,), span=16.0)
    made = eqx.filter_eval_shape(lambda: build("leap", spec, hidden=4, f_width=8))
    assert made.alpha == pytest.approx(alpha)


def _any_slope(part) -> bool:
    return any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(eqx.filter(part, eqx.is_inexact_array)))


def test_joint_solve_and_prediction(case):
    batch, model, want = case
    paced = model.course(batch)
    _, z, _, _ = eqx.filter_jit(model.decode)(model.encode(paced), paced, None)
    np.testing.assert_allclose(z, [w["z"] for w in want], atol=1e-5)
    np.testing.assert_allclose(run(model, batch).prediction, [w["logits"] for w in want], atol=1e-5)


def test_learned_path(case):
    batch, model, want = case
    Y = eqx.filter_jit(model.learned_path)(batch)
    np.testing.assert_allclose(Y.evaluate(batch.obs.times), [w["Y"] for w in want], atol=1e-5)
    t = batch.obs.times[:, 1:-1]
    numeric = (Y.evaluate(t + 1e-5) - Y.evaluate(t - 1e-5)) / 2e-5
    np.testing.assert_allclose(Y.derivative(t), numeric, atol=1e-5)


def test_both_parts_of_L_Y(case):
    batch, model, want = case
    key = jax.random.key(0)
    only = lambda alpha, beta: run(model_of(probe="exact", alpha=alpha, beta=beta), batch, key).penalty
    np.testing.assert_allclose(only(1.0, 0.0), np.mean([w["squared"] for w in want]), rtol=1e-4)
    np.testing.assert_allclose(only(0.0, 1.0), np.mean([w["trace"] for w in want]), rtol=1e-3)
    both = 0.7 * np.mean([w["squared"] for w in want]) + 0.3 * np.mean([w["trace"] for w in want])
    np.testing.assert_allclose(run(model, batch, key).penalty, both, rtol=1e-3)


def test_hutchinson_noise_averages_to_the_exact_trace(case):
    batch, _, want = case
    noisy = model_of(alpha=0.0, beta=1.0, decoder_steps=20, solver_options={"substeps": 1})
    penalties = jax.jit(jax.vmap(lambda key: noisy(batch, key=key).penalty))(jax.random.split(jax.random.key(0), 400))
    exact = np.mean([w["trace"] for w in want])
    assert abs(penalties.mean() - exact) < 4 * penalties.std() / 20 + 1e-3


def test_restart_density_against_an_oracle():
    """Each interval starts at the minimum-norm preimage of X(t_{i−1}), so that m maps it back onto X."""
    batch = batch_of(1)
    restart = model_of("leap:restart", probe="exact", solver_options={"substeps": 200})  # relu: the trace has jumps
    model = restart.leap
    W, b = np.asarray(model.m.weight), np.asarray(model.m.bias)
    X = np.asarray(batch.X.evaluate(batch.obs.times))
    times = np.asarray(batch.obs.times) * model.pace
    want = []
    for j in range(4):
        total = 0.0
        for i in range(1, times.shape[1]):
            h0 = np.linalg.lstsq(W.T, X[j, i - 1] - b, rcond=None)[0]
            np.testing.assert_allclose(h0 @ W + b, X[j, i - 1], atol=1e-8)
            rate = lambda q, s: [*f_of(model, s[:6]), trace_of(model, s[:6])]
            total += solve_ivp(rate, (times[j, i - 1], times[j, i]), [*h0, 0.0], max_step=0.01).y[6, -1]
        want.append(total)
    found = eqx.filter_jit(restart.restarted)(batch, jax.random.key(0))
    np.testing.assert_allclose(found, want, rtol=2e-3, atol=2e-3)


def test_restart_changes_the_density_and_nothing_else():
    """The penalty is α's part of LEAP's and β/N times the sum of the restarted integrals; predictions are LEAP's."""
    batch, key, coarse = batch_of(1), jax.random.key(0), {"decoder_steps": 6, "solver_options": {"substeps": 1}}
    restart, without = model_of("leap:restart", **coarse), model_of(beta=0.0, **coarse)
    rows = np.asarray(batch.obs.mask).max(-1).sum(-1)
    integral = np.asarray(eqx.filter_jit(lambda r, b: r.restarted(r.leap.course(b), key))(restart, batch))
    want = run(without, batch, key).penalty + 0.3 * np.mean(integral / rows)
    np.testing.assert_allclose(run(restart, batch, key).penalty, want, rtol=1e-9)
    np.testing.assert_array_equal(run(restart, batch).prediction, run(without, batch).prediction)


def test_gradients_equal_finite_differences():
    batch = batch_of(2)
    model = model_of(decoder_steps=6, solver_options={"substeps": 1})
    params, static = eqx.partition(model, eqx.is_inexact_array)
    key = jax.random.key(1)

    def loss(p):
        prediction, penalty = eqx.combine(p, static)(batch, key=key)
        return jnp.sum(prediction**2) + penalty

    loss = jax.jit(loss)
    gradient = jax.jit(jax.grad(loss))(params)
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), params)
        forth, back = (jax.tree.map(lambda p, d, s=s: p + s * d, params, step) for s in (1e-6, -1e-6))
        numeric = float(loss(forth) - loss(back)) / 2e-6
        exact = sum(float(jnp.sum(g * d)) for g, d in zip(jax.tree.leaves(gradient), jax.tree.leaves(step), strict=True))
        np.testing.assert_allclose(exact, numeric, rtol=1e-4)


def test_alpha_term_reaches_f_m_k_and_phi_h():
    """In the released code this gradient is zero: Y goes through a file on the way to the loss."""
    batch, model = batch_of(), model_of(beta=0.0, decoder_steps=6, solver_options={"substeps": 1})
    gradient = eqx.filter_jit(eqx.filter_grad(lambda m: m(batch, key=jax.random.key(0)).penalty))(model)
    for part in ("f", "m", "k", "φ_h", "φ_e"):
        norms = [float(jnp.linalg.norm(g)) for g in jax.tree.leaves(getattr(gradient, part))]
        assert min(norms) > 0, part
    assert all(float(jnp.abs(g).max()) == 0 for g in jax.tree.leaves(gradient.g))


@pytest.mark.parametrize(
    "options",
    [
        {"name": "leap:restart"},
        pytest.param({"probe": "gaussian"}, marks=pytest.mark.slow),
        pytest.param({"decoder_steps": None}, marks=pytest.mark.slow),
        pytest.param({"solver": "adaptive-tsit5", "solver_options": {}}, marks=pytest.mark.slow),
        pytest.param({"linear_first": True, "g_depth": 3, "g_activation": "elu"}, marks=pytest.mark.slow),
    ],
    ids=lambda o: ",".join(map(str, o)),
)
def test_every_option_gives_finite_gradients(options):
    base = {**SMALL, "decoder_steps": 6, "solver": "midpoint"}
    name = options.get("name", "leap")
    model, batch = build(name, SPEC, **{**base, **{key: value for key, value in options.items() if key != "name"}}), batch_of()

    def loss(model):
        prediction, penalty = model(batch, key=jax.random.key(0))
        return jnp.sum(prediction**2) + penalty

    gradient = eqx.filter_jit(eqx.filter_grad(loss))(double(model))
    leaves = jax.tree.leaves(gradient)
    assert all(bool(jnp.isfinite(g).all()) for g in leaves)
    assert all(float(jnp.abs(g).max()) > 0 for g in leaves)


def test_steps_at_every_knot_converge_to_the_fine_grid(case):
    batch, model, _ = case
    coarse = model_of(probe="exact", decoder_steps=None)
    np.testing.assert_allclose(run(coarse, batch).prediction, run(model, batch).prediction, atol=1e-5)
    found, fine = (one.learned_path(batch).evaluate(batch.obs.times) for one in (coarse, model))
    assert jnp.abs(found - fine).max() < 2e-6 * jnp.abs(fine).max()


@pytest.mark.parametrize("name", ["leap", "leap:restart"])
def test_a_single_observation(name):
    batch = jax.tree.map(lambda a: a[:, :1] if a.ndim > 1 and a.shape[1] == 17 else a, batch_of().obs)
    batch = Batch(batch, fit_path(batch, "natural"))
    model = double(build(name, SPEC, **{**SMALL, "decoder_steps": 4}))
    gradient = eqx.filter_jit(eqx.filter_grad(lambda m: jnp.sum(m(batch, key=jax.random.key(0)).prediction ** 2)))(model)
    assert all(bool(jnp.isfinite(g).all()) for g in jax.tree.leaves(gradient))


def test_unknown_options_are_listed():
    with pytest.raises(InputError, match=r"'hiden'.*hidden"):
        build("leap", SPEC, hiden=3)

"""Each baseline against its published equations: NumPy and SciPy, one sample and one observation at a time."""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from test_leap import spline_of
from test_paths import fit_path, observations

from leapcde.models.base import Spec
from leapcde.models.registry import build
from leapcde.paths.batch import Batch, Recipe

pytestmark = pytest.mark.usefixtures("x64")
SPEC = Spec("classification", values=3, channels=4, output=(5,), static=2, span=16.0)
FINE = {"solver": "rk4", "solver_options": {"substeps": 8}}
SPAN = 4.0
PACE = 10.0 / SPEC.span  # of the time channel of X


def batch_of(spec=SPEC, seed=0, **how) -> Batch:
    """Missing values, statics, two rows without any observation, padding."""
    obs = observations(seed, **{"keep": 0.6, "gaps": (0.5, 1.5), "padding": 2, "length": 12, **how})
    rng = np.random.default_rng(seed)
    mask = np.array(obs.mask)
    mask[:, [4, 11]] = 0.0
    obs = obs._replace(times=obs.times - obs.times[:, :1], mask=mask, values=obs.values * mask)
    obs = obs._replace(static=rng.normal(size=(4, spec.static)), last=rng.normal(size=(4, 3)), target=np.arange(4))
    obs = jax.tree.map(jnp.asarray, obs)
    return Batch(obs, fit_path(obs, "natural", intensity=spec.recipe.intensity))


def model_of(name, spec=SPEC, **options):
    model = build(name, spec, seed=3, **options)
    larger = lambda a: 1.5 * a.astype(jnp.float64) if eqx.is_inexact_array(a) else a
    return jax.tree.map(larger, model)


@eqx.filter_jit
def run(model, batch, key=None, epoch=0.0):
    return model(batch, key=key, epoch=epoch)


# --- pieces of the oracles --------------------------------------------------------------------------------------


def σ(x):
    return 1 / (1 + np.exp(-x))


def dense(layer, x):
    y = x @ np.asarray(layer.weight)
    return y if layer.bias is None else y + np.asarray(layer.bias)


def net(mlp, x):
    acts = {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0), "none": lambda a: a}
    for layer, name in zip(mlp.layers, mlp.activations, strict=True):
        x = acts[name](dense(layer, x))
    return x


def gru(cell, h, u):
    n = len(h)
    W, b, U = (np.asarray(a) for a in (cell.W.weight, cell.W.bias, cell.U.weight))
    part = lambda k: (u @ W + b)[k * n : (k + 1) * n]
    from_h = lambda k: (h @ U)[k * n : (k + 1) * n]
    r, z = σ(part(0) + from_h(0)), σ(part(1) + from_h(1))
    candidate = np.tanh(part(2) + r * (from_h(2) + np.asarray(cell.b_h)))
    return (1 - z) * candidate + z * h


def flow(f, y, start, end):
    if start == end:
        return y
    return solve_ivp(lambda t, y: f(y), (start, end), y, rtol=1e-9, atol=1e-11).y[:, -1]


class Seen:
    """One sample's observations, with what is known at each row found by walking through them."""

    def __init__(self, batch: Batch, b: int):
        obs = batch.obs
        self.t, self.static = np.asarray(obs.times[b]), np.asarray(obs.static[b])
        self.x, self.m = np.asarray(obs.values[b]), np.asarray(obs.mask[b])
        self.rows = [i for i in range(len(self.t)) if self.m[i].any()]

    def walk(self):
        """(row, last known values, time since each channel was seen) at rows with an observation."""
        known, at = np.zeros(self.x.shape[1]), np.full(self.x.shape[1], self.t[0])
        for i in self.rows:
            δ, seen = self.t[i] - at, self.m[i] > 0
            before = known.copy()
            known, at = np.where(seen, self.x[i], known), np.where(seen, self.t[i], at)
            yield i, known, before, δ


def assert_equal(model, batch, oracle, **tolerance):
    got = np.asarray(run(model, batch).prediction)
    want = np.stack([dense(model.head.layer, oracle(model, Seen(batch, b))) for b in range(4)])
    np.testing.assert_allclose(got, want, **{"atol": 1e-8, **tolerance})


# --- recurrent networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru", "gru-dt"])
def test_recurrent(name):
    def oracle(model, seen):
        h = dense(model.φ_0, seen.static)
        c = np.zeros_like(h)
        W, V = model.cell.W, np.asarray(model.cell.U.weight)
        for i, known, _, δ in seen.walk():
            u = np.concatenate([known, seen.m[i], *([np.log1p(δ)] if name == "gru-dt" else [])])
            if name == "rnn":
                h = np.tanh(dense(W, u) + h @ V)
            elif name == "lstm":
                a = (dense(W, u) + h @ V).reshape(4, -1)
                c = σ(a[1]) * c + σ(a[0]) * np.tanh(a[2])
                h = σ(a[3]) * np.tanh(c)
            else:
                h = gru(model.cell, h, u)
        return h

    assert_equal(model_of(name, hidden=6), batch_of(), oracle)


def test_gru_d():
    def oracle(model, seen):
        h = dense(model.φ_0, seen.static)
        for i, _, before, δ in seen.walk():
            γ_x = np.exp(-np.maximum(0, np.asarray(model.w_x) * δ + np.asarray(model.b_x)))
            γ_h = np.exp(-np.maximum(0, dense(model.W_h, δ)))
            x = seen.m[i] * seen.x[i] + (1 - seen.m[i]) * γ_x * before
            h = gru(model.cell, γ_h * h, np.concatenate([x, seen.m[i]]))
        return h

    model = model_of("gru-d", hidden=6)
    model = eqx.tree_at(lambda m: (m.b_x, m.W_h.bias), model, (jnp.array([0.3, -0.1, 0.0]), jnp.linspace(-0.5, 0.5, 6)))
    assert_equal(model, batch_of(), oracle)


def test_gru_d_without_gaps_is_a_gru_with_masks():
    """Everything observed, no time between observations: nothing fades."""
    batch = batch_of(keep=1.1)
    obs = batch.obs._replace(mask=jnp.ones_like(batch.obs.mask), times=jnp.zeros_like(batch.obs.times))
    grud, gru = model_of("gru-d", hidden=6), model_of("gru", hidden=6)
    gru = eqx.tree_at(lambda m: (m.φ_0, m.cell, m.head), gru, (grud.φ_0, grud.cell, grud.head))
    still = batch._replace(obs=obs)
    np.testing.assert_allclose(run(grud, still).prediction, run(gru, still).prediction, atol=1e-12)
    moving = still._replace(obs=obs._replace(times=batch.obs.times))
    assert not np.allclose(run(grud, moving).prediction, run(gru, moving).prediction, atol=1e-3)


# --- differential equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("intensity", [False, True])
def test_gru_ode(intensity):
    spec = Spec("classification", 3, 7 if intensity else 4, (5,), static=2, span=16.0, recipe=Recipe(intensity=intensity))
    batch = batch_of(spec)

    def oracle(model, seen):
        splines = [spline_of(seen.t[seen.m[:, c] > 0], seen.x[seen.m[:, c] > 0, c])[0] for c in range(3)]
        end = np.argmax(seen.t)  # padding repeats the last time
        counts = np.cumsum(seen.m, 0)[: end + 1]

        def look(t):
            value = np.array([s(t) for s in splines])
            n = [np.log1p(np.interp(t, seen.t[: end + 1], counts[:, c])) for c in range(3)]
            return np.concatenate([n, value]) if intensity else value

        h = np.tanh(dense(model.φ_h, np.concatenate([look(0.0), seen.static])))
        W, b, U, U_c = (np.asarray(a) for a in (model.W.weight, model.W.bias, model.U.weight, model.U_c.weight))

        def field(τ, h):
            a = look(τ * 16.0 / SPAN) @ W + b
            r, u = σ(a[:6] + h @ U[:, :6]), σ(a[6:12] + h @ U[:, 6:])
            return (1 - u) * (np.tanh(a[12:] + (r * h) @ U_c) - h)

        for i in range(end):
            part = (seen.t[i] * SPAN / 16.0, seen.t[i + 1] * SPAN / 16.0)
            h = solve_ivp(field, part, h, rtol=1e-9, atol=1e-11).y[:, -1]
        return h

    assert_equal(model_of("gru-ode", spec, hidden=6, pace=SPAN / 16, **FINE), batch, oracle, atol=1e-5)


def test_ode_rnn():
    def oracle(model, seen):
        h, now = dense(model.φ_0, seen.static), 0.0
        for i in seen.rows:
            h = flow(lambda h: net(model.jump.f.net, h), h, now, seen.t[i] * SPAN / 16)
            now = seen.t[i] * SPAN / 16
            h = gru(model.jump.cell, h, np.concatenate([seen.x[i], seen.m[i]]))
        return flow(lambda h: net(model.jump.f.net, h), h, now, seen.t[-1] * SPAN / 16)

    assert_equal(model_of("ode-rnn", hidden=6, width=5, span=SPAN, **FINE), batch_of(), oracle, atol=1e-6)


@pytest.mark.parametrize("attention", ["pairwise", "elementwise"])
def test_ace_node(attention):
    batch = batch_of()

    def oracle(model, seen):
        start = np.array([spline_of(seen.t[seen.m[:, c] > 0], seen.x[seen.m[:, c] > 0, c])[0](0.0) for c in range(3)])
        h = np.tanh(dense(model.φ_h, np.concatenate([[0.0], start, seen.static])))
        a = np.outer(h, h).ravel() if attention == "pairwise" else h**2

        def field(y):
            h, a = y[:6], y[6:]
            if attention == "pairwise":
                e = np.exp(a.reshape(6, 6))
                attended = (e / e.sum(1, keepdims=True)) @ h
            else:
                attended = h * σ(a)
            return np.concatenate([net(model.f.net, attended), net(model.g, np.concatenate([a, h]))])

        y, now = np.concatenate([h, a]), 0.0
        for i in seen.rows:
            y, now = flow(field, y, now, seen.t[i] * SPAN / 16), seen.t[i] * SPAN / 16
            y = np.concatenate([gru(model.cell, y[:6], np.concatenate([seen.x[i], seen.m[i]])), y[6:]])
        return flow(field, y, now, seen.t[-1] * SPAN / 16)[:6]

    model = model_of("ace-node", hidden=6, width=5, attention=attention, span=SPAN, **FINE)
    assert_equal(model, batch, oracle, atol=1e-6)


# --- Latent-ODE ---------------------------------------------------------------------------------------------------

LATENT = {"hidden": 6, "latent": 3, "width": 5, "span": SPAN, "samples": 2, "elbo": 0.7, "kl_epochs": 8.0, **FINE}


def recognised(model, seen, augment):
    """μ and log σ from a walk backwards in time."""
    f = lambda y: net(model.recognition.f.net, y)
    h, now = dense(model.φ_0, seen.static), seen.t[-1] * SPAN / 16
    for i in reversed(seen.rows):
        h = flow(f, np.concatenate([h, np.zeros(augment)]), now, seen.t[i] * SPAN / 16)[:6]
        now = seen.t[i] * SPAN / 16
        h = gru(model.recognition.cell, h, np.concatenate([seen.x[i], seen.m[i]]))
    h = flow(f, np.concatenate([h, np.zeros(augment)]), now, 0.0)[:6]
    return np.split(dense(model.moments, h), 2)


def negative_elbo(model, seen, μ, log_σ, draws, weight, augment):
    error = 0.0
    for ε in draws:
        z, now = np.concatenate([μ + np.exp(log_σ) * ε, np.zeros(augment)]), 0.0
        for i in range(len(seen.t)):
            z, now = flow(lambda z: net(model.f.net, z), z, now, seen.t[i] * SPAN / 16), seen.t[i] * SPAN / 16
            error += np.sum(seen.m[i] * (seen.x[i] - dense(model.decoder, z)) ** 2) / (2 * 0.1**2)
    variance = np.exp(2 * log_σ)
    kl = np.sum(0.5 * (variance + μ**2 - 1 - np.log(variance)))
    return (error / len(draws) + weight * kl) / seen.m.sum()


@pytest.mark.parametrize(("name", "augment"), [("latent-ode", 0), pytest.param("augmented-ode", 2, marks=pytest.mark.slow)])
def test_latent_ode(name, augment):
    options = {} if name == "latent-ode" else {"augment": augment}
    model, batch, key = model_of(name, decoder_steps=None, **LATENT, **options), batch_of(), jax.random.key(5)
    draws = np.asarray(jax.random.normal(key, (2, 4, 3), jnp.float64))
    got, plain = run(model, batch, key, 4.0), run(model, batch)
    losses = []
    for b in range(4):
        seen = Seen(batch, b)
        μ, log_σ = recognised(model, seen, augment)
        z0 = (μ + np.exp(log_σ) * draws[:, b]).mean(0)
        np.testing.assert_allclose(got.prediction[b], dense(model.head.layer, z0), atol=1e-6)
        np.testing.assert_allclose(plain.prediction[b], dense(model.head.layer, μ), atol=1e-6)
        losses.append(negative_elbo(model, seen, μ, log_σ, draws[:, b], 4.0 / 8.0, augment))
    np.testing.assert_allclose(got.penalty, 0.7 * np.mean(losses), rtol=1e-5)
    assert plain.penalty == 0.0


def test_kl_grows_with_the_epoch_and_then_stays():
    model, batch, key = model_of("latent-ode", **LATENT), batch_of(), jax.random.key(5)
    start, half, full, later = (float(run(model, batch, key, e).penalty) for e in (0.0, 4.0, 8.0, 80.0))
    assert full == later
    np.testing.assert_allclose(half - start, (full - start) / 2, rtol=1e-6)
    assert full > start


@pytest.mark.parametrize("anchored", [False, True])
def test_latent_ode_forecasts_by_decoding_beyond_the_window(anchored):
    spec = Spec("forecasting", 3, 4, (4, 3), static=2, span=16.0)
    model, batch = model_of("augmented-ode", spec, augment=2, anchored=anchored, **LATENT), batch_of(spec)
    got = np.asarray(run(model, batch).prediction)
    for b in range(4):
        seen = Seen(batch, b)
        z = np.concatenate([recognised(model, seen, 2)[0], np.zeros(2)])
        z = flow(lambda z: net(model.f.net, z), z, 0.0, seen.t[-1] * SPAN / 16)
        before = dense(model.decoder, z)
        for j in range(4):
            z = flow(lambda z: net(model.f.net, z), z, 0.0, float(model.step_ahead) * SPAN / 16)
            x = dense(model.decoder, z)
            want = np.asarray(batch.obs.last[b]) + x - before if anchored else x
            np.testing.assert_allclose(got[b, j], want, atol=1e-5)


@pytest.mark.slow
def test_augmented_ode_without_extra_dimensions_is_latent_ode():
    plain, augmented, batch = model_of("latent-ode", **LATENT), model_of("augmented-ode", augment=0, **LATENT), batch_of()
    key = jax.random.key(0)
    for a, b in zip(run(plain, batch, key, 3.0), run(augmented, batch, key, 3.0), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.allclose(run(model_of("augmented-ode", augment=1, **LATENT), batch).prediction, run(plain, batch).prediction)


# --- ANCDE --------------------------------------------------------------------------------------------------------

TOP = {"hidden": 6, "width": 7, "depth": 2}


def attention_of(model, h):
    scores = h if model.score is None else dense(model.score, h)
    return σ(model.temperature * scores)


@pytest.mark.parametrize("attention", ["elementwise", pytest.param("timewise", marks=pytest.mark.slow)])
def test_ancde(attention):
    """The oracle draws Y = a ⊙ X on a fine grid, puts a spline through it and lets *that* drive z: no product rule."""
    batch = batch_of()

    def oracle(model, seen):
        pairs = [spline_of(seen.t[seen.m[:, c] > 0], seen.x[seen.m[:, c] > 0, c]) for c in range(3)]
        X = lambda t: np.concatenate([[PACE * t], [p[0](t) for p in pairs]])
        dX = lambda t: np.concatenate([[PACE], [p[1](t) for p in pairs]])
        h = dense(model.φ_h, np.concatenate([X(0.0), seen.static]))
        z = dense(model.φ_z, np.concatenate([attention_of(model, h) * X(0.0), seen.static]))
        knots = np.unique(seen.t)
        for start, end in pairwise(knots):
            inside = lambda t, s=start, e=end: np.clip(t, s + 1e-12, e - 1e-12)  # splines have two slopes at their ends
            f = lambda t, h, i=inside: net(model.f.net, h).reshape(4, 4).T @ dX(i(t))
            found = solve_ivp(f, (start, end), h, rtol=1e-10, atol=1e-12, dense_output=True)
            grid = np.linspace(start, end, 60)
            Y = CubicSpline(grid, [attention_of(model, found.sol(t)) * X(t) for t in grid])
            g = lambda t, z, Y=Y: net(model.g.net, z).reshape(4, 6).T @ Y(t, 1)
            h, z = found.y[:, -1], solve_ivp(g, (start, end), z, rtol=1e-9, atol=1e-11).y[:, -1]
        return z

    model = model_of("ancde", attention=attention, temperature=2.0, **TOP, solver="rk4", solver_options={"substeps": 64})
    assert_equal(model, batch, oracle, atol=2e-4)


def test_ancde_with_attention_one_is_ncde():
    ancde, ncde, batch = model_of("ancde", **TOP), model_of("ncde", **TOP), batch_of()
    ncde = eqx.tree_at(lambda m: (m.φ_z, m.g, m.head), ncde, (ancde.φ_z, ancde.g, ancde.head))
    assert not np.allclose(run(ancde, batch).prediction, run(ncde, batch).prediction, atol=1e-3)
    open_wide = eqx.tree_at(lambda m: m.φ_h.bias, ancde, ancde.φ_h.bias + 200.0)
    np.testing.assert_allclose(run(open_wide, batch).prediction, run(ncde, batch).prediction, atol=1e-12)


def test_hard_attention_is_zero_or_one_with_the_soft_slope():
    hard = model_of("ancde", hard=True, temperature=3.0, **TOP)
    soft = model_of("ancde", temperature=3.0, **TOP)
    h, dh = jnp.linspace(-2.0, 2.0, 8).reshape(2, 4), jnp.ones((2, 4))
    a, da = hard.attend(h, dh)
    np.testing.assert_allclose(a, h > 0, atol=1e-12)
    np.testing.assert_allclose(da, soft.attend(h, dh)[1], atol=1e-12)
    slope = lambda model: jax.grad(lambda h: model.attend(h, dh)[0].sum())(h)
    np.testing.assert_allclose(slope(hard), slope(soft), atol=1e-12)
    np.testing.assert_allclose(slope(soft), 3.0 * σ(3 * h) * (1 - σ(3 * h)), atol=1e-12)


# --- learnable layers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gru-ode", *[pytest.param(name, marks=pytest.mark.slow) for name in ("ode-rnn", "ncde")]])
def test_learnable_layers_change_what_was_seen_and_nothing_else(name):
    batch = batch_of()
    model = model_of(f"layers+{name}", hidden=6)
    values = net(model.layers, np.asarray(batch.obs.values)) * np.asarray(batch.obs.mask)
    obs = batch.obs._replace(values=jnp.asarray(values))
    want = run(model.model, Batch(obs, fit_path(obs, "natural"))).prediction
    np.testing.assert_allclose(run(model, batch).prediction, want, atol=1e-10)
    assert type(model.model) is type(build(name, SPEC))


# --- ages ----------------------------------------------------------------------------------------------------------


def test_with_ages_a_model_answers_as_ever_and_a_layer_on_ages_is_added():
    """What LEAP+ reads of ages, offered to others; the ages themselves have their oracle in test_leap_plus.py."""
    model, batch = model_of("ages+gru", hidden=6), batch_of()
    own = np.asarray(run(model.model, batch).prediction)
    ages = np.asarray(model.ages(batch)) @ np.asarray(model.layer.weight) + np.asarray(model.layer.bias)
    np.testing.assert_allclose(run(model, batch).prediction, own + ages, atol=1e-10)
    assert np.abs(ages).max() > 1e-3

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from test_paths import observations

from leapcde.errors import InputError, SolveError
from leapcde.nn.fields import CDEField
from leapcde.paths.interpolation import fit_path
from leapcde.paths.path import join_linear
from leapcde.solve.adaptive import ADAPTIVE, solve_error
from leapcde.solve.integrate import solution_path, solve
from leapcde.solve.runge_kutta import TABLEAUX, runge_kutta_step
from leapcde.solve.solver import Solver

pytestmark = pytest.mark.usefixtures("x64")


def double(tree):
    return jax.tree.map(lambda a: a.astype(jnp.float64) if eqx.is_inexact_array(a) else a, tree)


def problem(seed=0, interpolation="natural"):
    X = fit_path(observations(seed, keep=0.8, gaps=(0.5, 1.5)), interpolation)
    field = double(CDEField(5, 4, width=8, depth=2, activation="tanh", key=jax.random.key(seed)))
    y0 = jnp.asarray(np.random.default_rng(seed).normal(size=(4, 5)))
    return field, y0, X


@pytest.mark.parametrize("name", TABLEAUX)
def test_tableau_is_consistent(name):
    tableau = TABLEAUX[name]
    assert np.isclose(sum(tableau.b), 1)
    for row, node in zip(tableau.a, tableau.c, strict=True):
        assert np.isclose(sum(row), node)


@pytest.mark.parametrize("name", TABLEAUX)
def test_order_of_convergence(name):
    """Error against the step on y' = y cos t: the slope in log-log is the order."""
    tableau = TABLEAUX[name]
    errors = []
    counts = (16, 32, 64)
    for n in counts:
        h = 2.0 / n
        y = jnp.ones((1,))
        for i in range(n):
            t = np.array([i * h + c * h for c in tableau.c])
            y = runge_kutta_step(tableau, lambda y, t: y * jnp.cos(t), y, t, h)
        errors.append(abs(float(y[0]) - np.exp(np.sin(2.0))))
    order = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert abs(order - tableau.order) < 0.35, errors


@pytest.mark.parametrize(
    "interpolation", ["natural", *[pytest.param(name, marks=pytest.mark.slow) for name in ("rectilinear", "hermite", "linear")]]
)
def test_cde_equals_diffrax_on_irregular_knots(interpolation):
    """Diffrax solves each sample on its own, with its own control term, from our path's derivative."""
    field, y0, X = problem(1, interpolation)
    ours, _ = solve(field, y0, X, Solver("rk4", substeps=24))

    def one(b):
        def rate(s, y, _):
            i = jnp.clip(jnp.floor(s).astype(int), 0, X.left.shape[1] - 1)
            return field(y[None], X.slope(jnp.full((4, 1, 1), i), s - i)[b : b + 1, 0])[0]

        knots = jnp.arange(X.times.shape[1], dtype=float)
        control = diffrax.ClipStepSizeController(diffrax.PIDController(rtol=1e-9, atol=1e-9), jump_ts=knots)
        end = float(len(knots) - 1)
        term, solver = diffrax.ODETerm(rate), diffrax.Tsit5()
        return diffrax.diffeqsolve(term, solver, 0.0, end, 0.01, y0[b], stepsize_controller=control, max_steps=20000).ys[0]

    np.testing.assert_allclose(ours, jnp.stack([one(b) for b in range(4)]), atol=1e-5)


@pytest.mark.parametrize("method", ADAPTIVE)
def test_adaptive_agrees_with_fixed(method):
    field, y0, X = problem(2)
    fixed, at_knots = solve(field, y0, X, Solver("dopri5", substeps=8), save=lambda y: y)
    adaptive, also = solve(field, y0, X, Solver(method, rtol=1e-8, atol=1e-8), save=lambda y: y)
    np.testing.assert_allclose(adaptive, fixed, atol=1e-5)
    np.testing.assert_allclose(also, at_knots, atol=1e-5)


def test_adaptive_failure_says_the_fix():
    field, y0, X = problem(3)
    with pytest.raises(Exception, match="max_steps") as caught:
        eqx.filter_jit(lambda: solve(field, y0, X, Solver("adaptive-tsit5", max_steps=3)))()
    error = solve_error(caught.value)
    assert isinstance(error, SolveError)
    assert "loosen rtol" in str(error)


def test_saved_states_are_those_at_the_knots():
    field, y0, X = problem(4)
    end, saved = solve(field, y0, X, Solver("rk4", substeps=3), save=lambda y: y)
    assert saved.shape == (17, 4, 5)
    assert np.array_equal(saved[0], y0)
    assert np.array_equal(saved[-1], end)
    half = jax.tree.map(lambda a: a[:, :9] if a.shape[1] == 17 else a[:, :8], X)
    np.testing.assert_allclose(saved[8], solve(field, y0, half, Solver("rk4", substeps=3))[0], atol=1e-12)


def test_checkpointing_changes_no_gradient():
    field, y0, X = problem(5)
    loss = lambda f, keep: jnp.sum(solve(f, y0, X, Solver("rk4", checkpoint=keep))[0] ** 2)
    for a, b in zip(*(jax.tree.leaves(eqx.filter_grad(loss)(field, keep)) for keep in (False, True)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_a_solution_is_a_path():
    """Dense output of a pendulum against SciPy, between the steps; halving the steps divides the error by about 16."""
    rate = lambda y: jnp.stack([y[..., 1], -jnp.sin(y[..., 0])], -1)
    queries = np.linspace(0, 6, 97)
    exact = solve_ivp(lambda t, y: [y[1], -np.sin(y[0])], (0, 6), [1.0, 0.0], t_eval=queries, rtol=1e-11, atol=1e-11).y.T

    def error(steps):
        clock = jnp.linspace(0.0, 6.0, steps + 1)[None]
        drive = join_linear(clock, clock[..., None])
        start = jnp.array([[1.0, 0.0]])
        _, states = solve(lambda y, dt: rate(y) * dt, start, drive, Solver("dopri5"), save=lambda y: y)
        return np.abs(solution_path(clock, states, rate(states)).evaluate(jnp.asarray(queries[None]))[0] - exact).max()

    assert error(24) < 2e-4
    assert error(12) / error(24) > 10


@pytest.mark.parametrize("bad", [{"method": "rk5"}, {"substeps": 0}])
def test_bad_solver_settings(bad):
    with pytest.raises(InputError):
        Solver(**bad)

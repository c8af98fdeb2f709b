"""Solving dz = field(z) dX for a whole batch: Runge–Kutta by one scan, or adaptive steps through Diffrax.

There is one solver loop in this package. An ordinary differential equation is the same thing driven by time: its
path is the clock of each sample, so every sample has its own step sizes and padding (a clock that stands still)
costs nothing but idle steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from leapcde.paths.path import CubicPath
from leapcde.solve.adaptive import solve_adaptive
from leapcde.solve.runge_kutta import solve_fixed
from leapcde.solve.solver import Drive, Field, Solver


def solve(field: Field, y0: Any, X: Drive, solver: Solver, *, save: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
    """Solve dy = field(y, dX) along X. Returns the state at the end, and `save(state)` at every knot (knots first).

    >>> X = CubicPath(jnp.array([[0.0, 1.0]]), jnp.array([[[0.0], [1.0]]]), jnp.ones((1, 1, 1)), jnp.ones((1, 1, 1)))
    >>> end, _ = solve(lambda y, dX: y * dX, jnp.ones((1, 1)), X, Solver("rk4", substeps=10))
    >>> bool(abs(end[0, 0] - jnp.e) < 1e-4)
    True
    """
    run = solve_adaptive if solver.adaptive else solve_fixed
    return run(field, y0, X, solver, save or (lambda y: None))


def solution_path(times, states, rates) -> CubicPath:
    """A solution as a path: `states` and their time derivatives `rates`, both (knots, batch, size), joined by cubics."""
    values, speed = jnp.moveaxis(states, 0, 1), jnp.moveaxis(rates, 0, 1)
    gap = jnp.diff(times, axis=1)[..., None]
    return CubicPath(times, values, speed[:, :-1] * gap, speed[:, 1:] * gap)

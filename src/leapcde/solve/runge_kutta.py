"""Runge–Kutta methods on the pieces of a path: one scan over precomputed controls."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from leapcde.solve.solver import Drive, Field, Solver


class Tableau(NamedTuple):
    """A Runge–Kutta method: stage weights `a`, result weights `b`, nodes `c`."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    order: int


TABLEAUX = {
    "euler": Tableau(((),), (1.0,), (0.0,), 1),
    "midpoint": Tableau(((), (1 / 2,)), (0.0, 1.0), (0.0, 1 / 2), 2),
    "heun": Tableau(((), (1.0,)), (1 / 2, 1 / 2), (0.0, 1.0), 2),
    "rk4": Tableau(((), (1 / 2,), (0, 1 / 2), (0, 0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.0, 1 / 2, 1 / 2, 1.0), 4),
    "rk4-3/8": Tableau(
        ((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8), (0.0, 1 / 3, 2 / 3, 1.0), 4
    ),
    "dopri5": Tableau(
        (
            (),
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        ),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
        (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
        5,
    ),
}


def runge_kutta_step(tableau: Tableau, field: Field, y: Any, controls: Any, h: float) -> Any:
    """One step of size h; the leaves of `controls` hold the control at each stage."""
    slopes: list[Any] = []
    for j, row in enumerate(tableau.a):
        slopes.append(field(_advance(y, slopes, row, h), jax.tree.map(itemgetter(j), controls)))
    return _advance(y, slopes, tableau.b, h)


def _advance(y, slopes, weights, h):
    used = [(w * h, k) for w, k in zip(weights, slopes, strict=True) if w]
    if not used:
        return y
    return jax.tree.map(lambda y, *ks: y + sum(w * k for (w, _), k in zip(used, ks, strict=True)), y, *[k for _, k in used])


def solve_fixed(field: Field, y0, X: Drive, solver: Solver, save):
    """One step a piece of X, or `substeps` of them: the state at the end, and `save(state)` at every knot."""
    tableau = TABLEAUX[solver.method]
    h = 1.0 / solver.substeps

    def step(y, controls):
        return runge_kutta_step(tableau, field, y, controls, h), save(y)

    body = jax.checkpoint(step) if solver.checkpoint else step
    end, saved = lax.scan(body, y0, X.controls(tableau.c, solver.substeps))
    saved = jax.tree.map(lambda a: a[:: solver.substeps], saved)
    return end, jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), saved, save(end))

"""Solving dz = field(z) dX for a whole batch: Runge–Kutta by one scan, or adaptive steps through Diffrax.

There is one solver loop in this package. An ordinary differential equation is the same thing driven by time: its
path is the clock of each sample, so every sample has its own step sizes and padding (a clock that stands still)
costs nothing but idle steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .errors import InputError, SolveError, choose
from .paths import Path, WithValues

Field = Callable[[Any, Any], Any]  # (state, control) -> d state/ds; leaves are (batch, ...)
Drive = Path | WithValues  # the control is dX/ds, or the pair (dX/ds, X)


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
ADAPTIVE = {"adaptive-tsit5": diffrax.Tsit5, "adaptive-dopri5": diffrax.Dopri5}
METHODS = (*TABLEAUX, *ADAPTIVE)


@dataclass(frozen=True)
class Solver:
    """How to solve. Fixed methods take `substeps` steps a piece of the path; adaptive ones obey the tolerances.

    >>> Solver("rk4").substeps
    1
    """

    method: str = "midpoint"
    substeps: int = 1
    checkpoint: bool = False  # recompute each step in the backward pass: less memory, more time
    rtol: float = 1e-4
    atol: float = 1e-6
    max_steps: int = 4096

    def __post_init__(self):
        choose("solver", self.method, METHODS)
        if self.substeps < 1:
            raise InputError(f"substeps {self.substeps}: give at least 1")


def solve(field: Field, y0: Any, X: Drive, solver: Solver, *, save: Callable[[Any], Any] | None = None) -> tuple[Any, Any]:
    """Solve dy = field(y, dX) along X. Returns the state at the end, and `save(state)` at every knot (knots first).

    >>> X = Path(jnp.array([[0.0, 1.0]]), jnp.array([[[0.0], [1.0]]]), jnp.ones((1, 1, 1)), jnp.ones((1, 1, 1)))
    >>> end, _ = solve(lambda y, dX: y * dX, jnp.ones((1, 1)), X, Solver("rk4", substeps=10))
    >>> bool(abs(end[0, 0] - jnp.e) < 1e-4)
    True
    """
    run = _adaptive if solver.method in ADAPTIVE else _fixed
    return run(field, y0, X, solver, save or (lambda y: None))


def solution_path(times, states, rates) -> Path:
    """A solution as a path: `states` and their time derivatives `rates`, both (knots, batch, size), joined by cubics."""
    values, speed = jnp.moveaxis(states, 0, 1), jnp.moveaxis(rates, 0, 1)
    gap = jnp.diff(times, axis=1)[..., None]
    return Path(times, values, speed[:, :-1] * gap, speed[:, 1:] * gap)


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


def _fixed(field: Field, y0, X: Drive, solver: Solver, save):
    tableau = TABLEAUX[solver.method]
    h = 1.0 / solver.substeps

    def step(y, controls):
        return runge_kutta_step(tableau, field, y, controls, h), save(y)

    body = jax.checkpoint(step) if solver.checkpoint else step
    end, saved = lax.scan(body, y0, X.controls(tableau.c, solver.substeps))
    saved = jax.tree.map(lambda a: a[:: solver.substeps], saved)
    return end, jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), saved, save(end))


def _adaptive(field: Field, y0, X: Drive, solver: Solver, save):
    pieces = X.times.shape[1] - 1

    def rate(s, y, _):
        i = jnp.clip(jnp.floor(s).astype(int), 0, pieces - 1)
        where = jnp.full((X.times.shape[0], 1, 1), i)
        return field(y, jax.tree.map(lambda a: a[:, 0], X.slope(where, s - i)))

    knots = jnp.arange(pieces + 1, dtype=X.times.dtype)
    control = diffrax.PIDController(rtol=solver.rtol, atol=solver.atol)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(rate),
        ADAPTIVE[solver.method](),
        t0=0.0,
        t1=float(pieces),
        dt0=None,
        y0=y0,
        saveat=diffrax.SaveAt(subs=[diffrax.SubSaveAt(t1=True), diffrax.SubSaveAt(ts=knots, fn=lambda t, y, a: save(y))]),
        # Where pieces meet, dX/ds may jump; stepping over that would waste rejected steps.
        stepsize_controller=diffrax.ClipStepSizeController(control, jump_ts=knots[1:-1]) if pieces > 1 else control,
        max_steps=solver.max_steps,
        throw=False,
    )
    ends, saved = solution.ys  # pyright: ignore[reportGeneralTypeIssues]
    failed = solution.result != diffrax.RESULTS.successful
    end = jax.tree.map(lambda a: eqx.error_if(a[0], failed, _ADVICE), ends)
    return end, saved


_ADVICE = (
    "leapcde: the adaptive solve did not reach the end. Raise max_steps, loosen rtol and atol, or use a fixed method "
    "such as solver='rk4'. A field that grows without bound (values not standardised, rate too high) also does this."
)


def solve_error(error: Exception) -> Exception:
    """The run-time failure of a compiled adaptive solve as a `SolveError`; other errors as they are."""
    ours = "the adaptive solve did not reach the end" in str(error)
    return SolveError(_ADVICE.removeprefix("leapcde: ")) if ours else error

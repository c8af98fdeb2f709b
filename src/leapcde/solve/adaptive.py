"""Adaptive steps, through Diffrax."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from leapcde.errors import SolveError
from leapcde.solve.solver import ADAPTIVE, Drive, Field, Solver


def solve_adaptive(field: Field, y0, X: Drive, solver: Solver, save):
    """As many steps as the tolerances ask for, the same for all samples of a batch; otherwise as `solve_fixed`."""
    import diffrax  # half a second that only adaptive steps need

    methods: dict[str, Any] = dict(zip(ADAPTIVE, (diffrax.Tsit5, diffrax.Dopri5), strict=True))
    pieces = X.times.shape[1] - 1

    def rate(s, y, _):
        i = jnp.clip(jnp.floor(s).astype(int), 0, pieces - 1)
        where = jnp.full((X.times.shape[0], 1, 1), i)
        return field(y, jax.tree.map(lambda a: a[:, 0], X.slope(where, s - i)))

    knots = jnp.arange(pieces + 1, dtype=X.times.dtype)
    control = diffrax.PIDController(rtol=solver.rtol, atol=solver.atol)
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(rate),
        methods[solver.method](),
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

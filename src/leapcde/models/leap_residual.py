"""The present `leap+`, which is ours and not the paper's: Y = X + m(h), so that z sees the observations and h learns
what to change. X is taken at the decoder's steps, and is linear between them.
"""

from __future__ import annotations

import jax.numpy as jnp

from leapcde.models.base import Model, Output, Spec
from leapcde.models.leap import Leap, LeapOptions
from leapcde.models.registry import register
from leapcde.paths.batch import Batch
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.path import CubicPath
from leapcde.paths.transform import add_channels, clock_path, resampled, with_linear
from leapcde.solve.integrate import solve


@register(
    "leap+",
    summary="LEAP whose path is the observed one plus what it learned",
    reference="ours; not in the paper",
    tags=("continuous", "path", "learned-path"),
    fixed={"swings": 0.0},  # m(h) is only what to change: it starts small
    variant=True,
    revision=2,
)
class ResidualLeap(Model):
    leap: Leap

    Options = LeapOptions

    def __init__(self, spec: Spec, options: LeapOptions, *, key):
        self.leap = Leap(spec, options, key=key)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        batch = self.leap.course(batch)
        h, z, integral, drive = self.decode(batch, key)
        penalty = jnp.zeros(()) if key is None else self.leap.L_Y(batch, self.Y(h, drive), integral)
        return Output(self.leap.head(z, batch.obs), penalty)

    def decode(self, batch: Batch, key):
        """As LEAP's, but z is driven by dX + dY; the drive is the clock and X beside it."""
        leap = self.leap
        h0, z0 = leap.φ_h(leap.encode(batch)), leap.φ_z(batch.start)
        clock, move = clock_path(batch.obs.times, leap.pace, leap.steps), leap.mover(h0, key)
        drive = with_linear(resampled(batch.X, clock, leap.pace), clock.values)

        def joint(state, moved):
            (h, z, _), dt, dX = state, moved[:, :1], moved[:, 1:]
            dh, dY, trace = move(h, dt)
            return dh, leap.g(z, dY + dX), trace

        start = (h0, z0, jnp.zeros_like(h0[:, 0]))
        (_, z, integral), h = solve(joint, start, drive, leap.solver, save=lambda state: state[0])
        return h, z, integral, drive

    def Y(self, h, drive: CubicPath) -> CubicPath:
        """Y = X + m(h)"""
        return add_channels(self.leap.Y(h, drive), drive, skip=1)

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations."""
        h, _, _, drive = self.decode(self.leap.course(batch), None)
        Y = self.Y(h, drive)
        return CubicPath(Y.times / self.leap.pace, Y.values, Y.left, Y.right)

    def regularised(self):
        return self.leap.regularised()

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return "'leap+' needs the whole path X for its answer, so it cannot be streamed; 'leap' can"

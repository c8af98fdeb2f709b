"""Latent-ODE and Augmented-ODE: a variational autoencoder whose latent state follows an ODE (Rubanova et al., NeurIPS 2019;
Dupont et al., NeurIPS 2019).

    recognition   an ODE-RNN backwards in time, from the last observation to the first, gives q(z_0) = N(μ, σ²)
    generation    dz/dt = f(z),  x̂(t) = decoder(z(t))
    ELBO          E_q[log N(x | x̂, noise²)] − w(epoch) KL(q ‖ N(0, 1)),  w growing from 0 to 1

Classes and numbers are read from z_0. Forecasts are decoded: the latent state simply goes on beyond the window.
Augmented-ODE appends zero dimensions to the state of both differential equations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leapcde.models.base import Model, Output, Spec, make_head, make_solver, start_state
from leapcde.models.ode_rnn import RUBANOVA, JumpODE, rows_of
from leapcde.models.options import Whole, option
from leapcde.models.registry import register
from leapcde.nn.dense import Dense
from leapcde.nn.fields import ODEField
from leapcde.nn.heads import Head
from leapcde.paths.batch import Batch
from leapcde.paths.path import CubicPath, join_linear
from leapcde.paths.transform import clock_path
from leapcde.solve.integrate import solution_path, solve
from leapcde.solve.solver import Solver


@dataclass(frozen=True)
class LatentODEOptions:
    hidden: int = option(48, "size of the recognition network's state")
    latent: int = option(24, "dimensions of z")
    width: int = option(64, "of the hidden layers of both fields")
    depth: int = option(2, "hidden layers of both fields")
    augment: Whole = option(5, "zero dimensions appended to the state of both equations")
    elbo: float = option(0.02, "weight of the negative ELBO, per observed value, in the loss")
    deviation: float = option(0.1, "of the observations around x̂, in standardised units")
    kl_epochs: float = option(10.0, "epochs over which the KL term grows to its full weight")
    samples: int = option(3, "draws of z_0 a training step")
    decoder_steps: int | None = option(24, "steps of the generating solve; None steps at every observation")
    span: float = option(10.0, "units of time that the longest sample lasts")
    anchored: bool = option(True, "forecasts start from the last observed value")
    solver: str = option("midpoint", "method of the solves")
    solver_options: dict[str, Any] | None = option(None, "substeps, checkpoint, rtol, atol, max_steps")


class LatentODE(Model):
    φ_0: Dense
    recognition: JumpODE
    moments: Dense
    f: ODEField
    decoder: Dense
    head: Head | None  # none in forecasting
    step_ahead: Float[Array, ""] | None  # typical gaps between forecast rows, learned: the data does not tell

    augment: int = eqx.field(static=True)
    elbo: float = eqx.field(static=True)
    deviation: float = eqx.field(static=True)
    kl_epochs: float = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    steps: int | None = eqx.field(static=True)
    anchored: bool = eqx.field(static=True)
    pace: float = eqx.field(static=True)
    horizon: int = eqx.field(static=True)
    solver: Solver = eqx.field(static=True)

    Options = LatentODEOptions

    def __init__(self, spec: Spec, options: LatentODEOptions, *, key):
        keys, o = iter(jax.random.split(key, 6)), options
        forecasting, size = spec.task == "forecasting", o.latent + o.augment
        layers: dict[str, Any] = {"width": o.width, "depth": o.depth}
        self.φ_0 = start_state(spec, o.hidden, key=next(keys))
        self.recognition = JumpODE(2 * spec.values, o.hidden, augment=o.augment, key=next(keys), **layers)
        self.moments = Dense(o.hidden, 2 * o.latent, key=next(keys))
        self.f = ODEField(size, activation="tanh", key=next(keys), **layers)
        self.decoder = Dense(size, spec.values, key=next(keys))
        self.head = None if forecasting else make_head(spec, o.latent, key=next(keys), anchored=False)
        self.step_ahead = jnp.ones(()) if forecasting else None
        self.augment, self.samples, self.steps, self.anchored = o.augment, o.samples, o.decoder_steps, o.anchored
        self.elbo, self.deviation, self.kl_epochs = float(o.elbo), float(o.deviation), float(o.kl_epochs)
        self.pace, self.horizon = o.span / max(spec.span, 1e-12), spec.output[0] if forecasting else 0
        self.solver = make_solver(o.solver, o.solver_options)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        μ, log_σ = self.recognise(batch)
        if key is None:
            z0 = μ[None]  # (samples, batch, latent)
            z = None if self.head is not None else self.generate(batch, z0)
            return Output(self.predict(batch, z0, z), jnp.zeros(()))
        z0 = μ + jnp.exp(log_σ) * jax.random.normal(key, (self.samples, *μ.shape), μ.dtype)
        z = self.generate(batch, z0)  # one solve for the past, which the ELBO wants, and the future
        return Output(self.predict(batch, z0, z), self.elbo * self.negative_elbo(batch, z, μ, log_σ, epoch))

    def recognise(self, batch: Batch):
        """μ and log σ of z_0, from an ODE-RNN that meets the last observation first."""
        obs, back = batch.obs, slice(None, None, -1)
        gaps = jnp.diff(obs.times[:, back], axis=1, prepend=obs.times[:, -1:]) * self.pace
        rows, seen = rows_of(batch)[:, back], obs.mask.max(-1)[:, back]
        h = self.recognition(self.φ_0(obs.static), gaps, rows, seen, self.solver)
        return jnp.split(self.moments(h), 2, -1)

    def predict(self, batch: Batch, z0, z: CubicPath | None):
        """The mean over draws: scores from z_0, or what is decoded beyond the window."""
        if self.head is not None:
            return self.head(z0.mean(0), batch.obs)
        assert z is not None  # __call__ solved for it
        x = self.decoder(z.values[:, -self.horizon - 1 :])
        x = x.reshape(*z0.shape[:2], *x.shape[1:]).mean(0)
        return batch.obs.last[:, None] + x[:, 1:] - x[:, :1] if self.anchored else x[:, 1:]

    def generate(self, batch: Batch, z0) -> CubicPath:
        """z as a path of samples · batch rows over the window and, in forecasting, `horizon` rows beyond it."""
        draws, flat = len(z0), z0.reshape(-1, z0.shape[-1])
        flat = jnp.concatenate([flat, jnp.zeros((len(flat), self.augment), flat.dtype)], -1)
        times = clock_path(batch.obs.times, self.pace, self.steps).times
        if self.step_ahead is not None:
            ahead = self.step_ahead * self.pace * jnp.arange(1, self.horizon + 1, dtype=z0.dtype)
            times = jnp.concatenate([times, times[:, -1:] + ahead], 1)
        times = jnp.tile(times, (draws, 1))
        clock = join_linear(times, times[..., None])
        _, z = solve(lambda z, dt: self.f(z) * dt, flat, clock, self.solver, save=lambda z: z)
        return solution_path(times, z, self.f(z))

    def negative_elbo(self, batch: Batch, z: CubicPath, μ, log_σ, epoch):
        """Per observed value, without the constant of the normal density."""
        obs = batch.obs
        times = jnp.tile((obs.times - obs.times[:, :1]) * self.pace, (self.samples, 1))
        x = self.decoder(z.evaluate(times)).reshape(self.samples, *obs.values.shape)
        error = jnp.sum(obs.mask * (obs.values - x) ** 2, axis=(2, 3)).mean(0) / (2 * self.deviation**2)
        kl = 0.5 * jnp.sum(μ**2 + jnp.exp(2 * log_σ) - 1 - 2 * log_σ, -1)
        weight = jnp.clip(epoch / max(self.kl_epochs, 1e-9), 0.0, 1.0)
        return jnp.mean((error + weight * kl) / jnp.maximum(obs.mask.sum((1, 2)), 1.0))


_GENERATIVE = ("continuous", "jumps", "generative")
register(
    "latent-ode",
    summary="a variational autoencoder with an ODE in its latent space",
    reference=RUBANOVA,
    tags=_GENERATIVE,
    fixed={"augment": 0},
)(LatentODE)
register(
    "augmented-ode",
    summary="Latent-ODE with zero dimensions appended",
    reference="Dupont, Doucet, Teh, NeurIPS 2019",
    tags=_GENERATIVE,
)(LatentODE)

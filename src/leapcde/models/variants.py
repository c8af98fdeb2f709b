"""Variants that the paper's studies need. `models/leap.py` is the method of its experiments.

`leap:restart` takes eq. 12 at its word: ĥ(t_i) = x_{i−1} + ∫ f starts anew at every observation. As written this does not
type-check when dim h ≠ dim x; the nearest thing that does starts at the minimum-norm preimage of X(t_{i−1}) under m. LEAP
itself goes on from h(t_{i−1}), so that its integrals add up to one along the whole trajectory.

`layers+…` puts learnable layers ahead of a model, the ablation that asks whether any learned change of the input would do:
x′_i = x_i's row through a point-wise network, D_x → D_x; then the path through x′, and the model, as ever.

`ages+…` lets a model read what LEAP+ reads of ages and duration: is it this, or is it LEAP+?

`leap+:gru-ode` puts GRU-ODE where LEAP+ has its gated linear equations, on the same learned path: which of the two does it?
"""

from __future__ import annotations

import math
from dataclasses import field, make_dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from leapcde.models.base import Model, Output, Spec
from leapcde.models.gru_ode import GRUODE, GRUODEOptions
from leapcde.models.leap import Leap, LeapOptions
from leapcde.models.leap_plus import LeapPlus, LeapPlusOptions
from leapcde.models.options import option
from leapcde.models.registry import MODELS, register
from leapcde.nn.ages import Ages
from leapcde.nn.dense import MLP, Dense
from leapcde.nn.losses import path_loss
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.interpolation import Interpolation
from leapcde.paths.path import CubicPath, join_linear, two_knots
from leapcde.solve.integrate import solve
from leapcde.solve.trace import draw_probe, value_and_divergence


@register(
    "leap:restart",
    summary="LEAP whose density starts anew at every observation",
    reference="Jhin, Jo et al., AAAI 2023, eq. 12",
    tags=("continuous", "path", "learned-path"),
    variant=True,
    revision=3,
)
class RestartLeap(Model):
    leap: Leap  # without the density, which is added here
    beta: float = eqx.field(static=True)

    Options = LeapOptions

    def __init__(self, spec: Spec, options: LeapOptions, *, key):
        self.leap = Leap(spec, replace(options, beta=0.0), key=key)
        self.beta = float(options.beta)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        prediction, penalty = self.leap(batch, key=key, epoch=epoch)
        if key is None or self.beta == 0:
            return Output(prediction, penalty)
        obs, integral = batch.obs, self.restarted(self.leap.course(batch), key)
        density = path_loss(obs.values, obs.values, obs.mask, integral, alpha=0.0, beta=self.beta)
        return Output(prediction, penalty + density)

    def restarted(self, batch: Batch, key):
        """Σ_i ∫ tr(∂f/∂h) over [t_{i−1}, t_i], each started at the preimage of X(t_{i−1}): all intervals in one batch."""
        leap = self.leap
        times = (batch.obs.times - batch.obs.times[:, :1]) * leap.pace
        B, N = times.shape[0], times.shape[1] - 1
        if N == 0:  # single observations have no intervals
            return jnp.zeros(B, times.dtype)
        h0 = self.preimage(batch.X.evaluate(batch.obs.times)[:, :-1]).reshape(B * N, -1)
        ends = jnp.stack([times[:, :-1], times[:, 1:]], -1).reshape(B * N, 2)
        probe = draw_probe(key, h0.shape, leap.probe, h0.dtype)

        def field(state, dt):
            f, trace = value_and_divergence(leap.f, state[0], probe)
            return f * dt, trace * dt[:, 0]

        start = (h0, jnp.zeros_like(h0[:, 0]))
        (_, integral), _ = solve(field, start, join_linear(ends, ends[..., None]), leap.solver)
        return integral.reshape(B, N).sum(1)

    def preimage(self, x):
        """The smallest h with m(h) = x."""
        W, b = self.leap.m.weight, self.leap.m(jnp.zeros_like(self.leap.m.weight[:, 0]))
        return (x - b) @ jnp.linalg.pinv(W)

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations."""
        return self.leap.learned_path(batch)

    def regularised(self):
        return self.leap.regularised()

    # Predictions are LEAP's, and so is streaming.

    def begin(self, batch: Batch):
        return self.leap.begin(batch)

    def advance(self, e, batch: Batch):
        return self.leap.advance(e, batch)

    def answer(self, e, batch: Batch):
        return self.leap.answer(e, batch)

    def streaming_problem(self, interpolation: Interpolation) -> str:
        return self.leap.streaming_problem(interpolation)


@register(
    "leap+:gru-ode",
    summary="GRU-ODE on LEAP+'s learned path",
    reference="ablation of leap+",
    tags=("continuous", "path", "learned-path"),
    variant=True,
)
class GRUODEOnPath(Model):
    path: LeapPlus
    gru: GRUODE

    Options = LeapPlusOptions

    def __init__(self, spec: Spec, options: LeapPlusOptions, *, key):
        a, b = jax.random.split(key)
        path, unread = LeapPlus(spec, replace(options, depth=0), key=a), ("W", "norm", "head", "onward")
        parts = lambda model: [getattr(model, name) for name in unread]
        self.path = eqx.tree_at(parts, path, [None] * len(unread), is_leaf=lambda leaf: leaf is None)
        self.gru = GRUODE(spec, GRUODEOptions(hidden=2 * options.hidden), key=b)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        t, X, _ = self.path.knots(batch)
        Y = lax.stop_gradient(self.path.Y)(batch, t, X)[0]  # as in LEAP+, it learns from what is hidden
        along = jnp.concatenate([batch.X.evaluate(t)[..., : -self.path.values], Y], -1)
        prediction = self.gru(Batch(batch.obs, join_linear(*map(two_knots, (t, along))))).prediction
        return Output(prediction, self.path.L_Y(batch, key))

    def learned_path(self, batch: Batch) -> CubicPath:
        """Y, in the time of the observations."""
        return self.path.learned_path(batch)

    def regularised(self):
        return self.gru


class LearnableLayers(Model):
    layers: MLP
    model: Model
    recipe: Recipe = eqx.field(static=True)

    def __init__(self, spec: Spec, options: Any, *, key):
        a, b = jax.random.split(key)
        sizes = (spec.values, *[options.layer_width] * options.layer_depth, spec.values)
        self.layers = MLP(sizes, (*["relu"] * options.layer_depth, "none"), key=a)
        self.model = MODELS[options.of].make(spec, options, key=b)  # pyright: ignore[reportCallIssue]
        self.recipe = spec.recipe

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        # What was missing stays missing: the network fills nothing in, it changes what was seen.
        obs = batch.obs._replace(values=self.layers(batch.obs.values) * batch.obs.mask)
        return self.model(Batch(obs, self.recipe.path(obs)), key=key, epoch=epoch)

    def regularised(self):
        return self.model.regularised()


class WithAges(Model):
    """A layer that reads [z, q] is the sum of one that reads z, the model's own, and one that reads q."""

    model: Model
    ages: Ages
    layer: Dense

    def __init__(self, spec: Spec, options: Any, *, key):
        a, b, c = jax.random.split(key, 3)
        self.model = MODELS[options.of].make(spec, options, key=a)  # pyright: ignore[reportCallIssue]
        self.ages = Ages(spec.values, spec.static, options.ages_width, span=max(spec.span, 1e-12), key=b)
        self.layer = Dense(options.ages_width, math.prod(spec.output), key=c)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        prediction, penalty = self.model(batch, key=key, epoch=epoch)
        return Output(prediction + self.layer(self.ages(batch)).reshape(prediction.shape), penalty)

    def regularised(self):
        return self.model.regularised()


LAYERS: list[Any] = [
    ("layer_width", int, option(64, "of the learnable layers")),
    ("layer_depth", int, option(2, "hidden learnable layers")),
]
WIDTH: list[Any] = [("ages_width", int, option(48, "how many numbers about ages are read"))]


def put_around(kind: type[Model], prefix: str, of: str, own: list[Any], summary: str, reference: str) -> None:
    """Register a model around a registered one: its options, and some of its own."""
    info = MODELS[of]
    fields: list[Any] = [("of", str, field(default=of)), *own]
    register(
        f"{prefix}+{of}",
        options=make_dataclass("AroundOptions", fields, bases=(info.options,), frozen=True),
        summary=summary.format(of),
        reference=reference,
        tags=info.tags,
        fixed={**info.fixed, "of": of},
        variant=True,
        revision=info.revision,
    )(kind)


for _name in ("gru-ode", "ode-rnn", "ncde"):
    _about = "a learned point-wise change of the input ahead of {}", "ablation of Jhin, Jo et al., AAAI 2023"
    put_around(LearnableLayers, "layers", _name, LAYERS, *_about)
for _name in ("gru", "latent-ode", "ace-node", "leap"):
    put_around(WithAges, "ages", _name, WIDTH, "{} that also reads ages, as leap+ does", "ablation of leap+")

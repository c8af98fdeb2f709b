"""What needs no learning: the rows that every table must beat."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from leapcde.models.base import Model, Output, Spec
from leapcde.paths.batch import Batch


class Constant(Model):
    """The same answer for everybody: the class prior, or the mean of the targets."""

    answer: Float[Array, ...]

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        return Output(jnp.broadcast_to(self.answer, (len(batch.obs.last), *self.answer.shape)), jnp.zeros(()))


class LastValue(Model):
    """Each channel stays where it was last seen."""

    horizon: int = eqx.field(static=True)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        last = batch.obs.last
        return Output(jnp.broadcast_to(last[:, None], (last.shape[0], self.horizon, last.shape[1])), jnp.zeros(()))


class LinearTrend(Model):
    """Each channel goes on along the line through its last two observations, one typical gap a step."""

    horizon: int = eqx.field(static=True)

    def __call__(self, batch: Batch, *, key=None, epoch=0.0) -> Output:
        obs = batch.obs
        index = jnp.where(obs.mask > 0, jnp.arange(obs.mask.shape[1])[None, :, None], -1)
        newest = index.max(1, keepdims=True)
        before = jnp.where(index < newest, index, -1).max(1, keepdims=True)
        pick = lambda a, i: jnp.take_along_axis(a, jnp.maximum(i, 0), axis=1)
        clock = jnp.broadcast_to(obs.times[..., None], obs.values.shape)
        gap = pick(clock, newest) - pick(clock, before)
        rise = pick(obs.values, newest) - pick(obs.values, before)
        slope = jnp.where(before >= 0, rise / jnp.where(gap > 0, gap, 1.0), 0.0)
        ahead = obs.times[:, -1:, None] - pick(clock, newest) + jnp.arange(1, self.horizon + 1)[None, :, None]
        return Output(obs.last[:, None] + slope * ahead, jnp.zeros(()))


def class_prior(spec: Spec, target: np.ndarray) -> Constant:
    counts = np.bincount(target, minlength=spec.output[0])
    return Constant(jnp.log(jnp.asarray((counts + 1) / (counts + 1).sum(), jnp.float32)))


def mean_target(spec: Spec, target: np.ndarray) -> Constant:
    return Constant(jnp.asarray(np.nanmean(target, axis=0), jnp.float32).reshape(spec.output))


BASELINES = {
    "class-prior": ("classification", class_prior),
    "mean": ("regression", mean_target),
    "last-value": ("forecasting", lambda spec, target: LastValue(spec.output[0])),
    "linear-trend": ("forecasting", lambda spec, target: LinearTrend(spec.output[0])),
}


def fit_baseline(name: str, spec: Spec, target: np.ndarray) -> Model:
    """The naive model `name` from the (encoded or scaled) training targets."""
    return BASELINES[name][1](spec, target)


def baselines_for(task: str) -> list[str]:
    """Names of the naive models that can do a task.

    >>> baselines_for("forecasting")
    ['last-value', 'linear-trend']
    """
    return [name for name, (kind, _) in BASELINES.items() if kind == task]

"""One step of the optimiser: the loss of a batch, its gradient, new weights; and many of them in one compiled scan."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from leapcde.nn.losses import cross_entropy, mean_squared_error, weight_norms
from leapcde.paths.batch import Batch, Bucket
from leapcde.training.augment import noisy
from leapcde.training.config import TrainConfig
from leapcde.training.devices import spread
from leapcde.training.predict import targets


class State(NamedTuple):
    params: Any
    optimiser: Any


def task_loss(task: str, prediction, target, weights=None):
    """L_task: cross-entropy for classes, mean squared error for numbers."""
    return cross_entropy(prediction, target, weights) if task == "classification" else mean_squared_error(prediction, target)


class Step(NamedTuple):
    """What a compiled step depends on. Seeds, rates and epochs are not in it, so that they compile nothing again."""

    static: Any
    task: str
    weight_penalty: float
    noise: float
    optimiser: optax.GradientTransformation
    weights: Any

    def loss(self, params, batch: Batch, key, epoch):
        model = eqx.combine(params, self.static)
        seen = noisy(batch, self.noise, jax.random.fold_in(key, 1)) if self.noise else batch
        prediction, penalty = model(spread(seen), key=key, epoch=epoch)
        loss = task_loss(self.task, prediction, batch.obs.target, self.weights)
        total = loss + penalty
        if self.weight_penalty:
            total = total + self.weight_penalty * weight_norms(model.regularised())
        return total, jnp.stack([loss, total])


@eqx.filter_jit
def run_steps(step: Step, state: State, data: Batch, order, rates, epochs, key, numbers):
    """Steps over minibatches of one bucket: one dispatch, whatever their number."""

    def one(state: State, now):
        index, rate, epoch, number = now
        mine = jax.random.fold_in(key, number)
        gradient, losses = jax.grad(step.loss, has_aux=True)(state.params, data.take(index), mine, epoch)
        updates, optimiser = step.optimiser.update(gradient, state.optimiser, state.params)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        return State(params, optimiser), losses

    return lax.scan(one, state, (order, rates, epochs, numbers))


@cache
def make_optimiser(name: str, weight_decay: float, clip: float | None) -> optax.GradientTransformation:
    """Adam without its rate: the rate of every step is an argument, so that schedules need no state.

    Cached because a fresh one is a fresh set of functions, which would compile the step again.
    """
    parts = [] if clip is None else [optax.clip_by_global_norm(clip)]
    parts.append(optax.scale_by_adam())
    if name == "adamw":
        parts.append(optax.add_decayed_weights(weight_decay))
    return optax.chain(*parts)


def class_weights(task: str, train: list[Bucket], config: TrainConfig):
    if config.class_weight is None or task != "classification":
        return None
    if isinstance(config.class_weight, tuple):
        return jnp.asarray(config.class_weight, jnp.float32)
    counts = np.bincount(targets(train))
    return jnp.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)), jnp.float32)

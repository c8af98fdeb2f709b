"""One step of the optimiser: the loss of a batch, its gradient, new weights; and many of them in one compiled scan."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax

from leapcde.compiled import program
from leapcde.errors import InputError
from leapcde.models.base import Model
from leapcde.nn.losses import (
    cross_entropy,
    hazard_loss,
    label_entropy,
    mean_squared_error,
    row_cross_entropy,
    weight_norms,
)
from leapcde.paths.batch import Batch
from leapcde.paths.ragged import Bucket, Rows
from leapcde.training.augment import Augment, earlier, joined, noisy
from leapcde.training.config import TrainConfig
from leapcde.training.devices import spread
from leapcde.training.predict import known, target_weights, targets


class State(NamedTuple):
    params: Any
    optimiser: Any
    average: Any = None  # of params over steps, where one is asked for

    @property
    def kept(self):
        """The weights that are validated, and kept if they are the best."""
        return self.params if self.average is None else self.average


def task_loss(task: str, prediction, target, weights=None, smoothing: float = 0.0, each=None):
    """L_task: cross-entropy for classes and labels, mean squared error for numbers, −log-likelihood for times to an event;
    `each` is the weight of each sample.

    Nothing where the path is all there is to learn.
    """
    if task == "imputation":
        return jnp.zeros(())
    if task == "classification" and target.ndim == 2:
        return row_cross_entropy(prediction, target, weights, smoothing, each)
    if task == "classification":
        return cross_entropy(prediction, target, weights, smoothing, each)
    if task == "labels":
        return label_entropy(prediction, target, weights, each)
    if task == "survival":
        return hazard_loss(prediction, target, each)
    return mean_squared_error(prediction, target, each)


class Step(NamedTuple):
    """What a compiled step depends on. Seeds, rates and epochs are not in it, so that they compile nothing again."""

    static: Any
    task: str
    weight_penalty: float
    noise: float
    optimiser: optax.GradientTransformation
    weights: Any
    augment: Augment
    in_window: float
    smoothing: float
    ema: float
    accumulate: int

    def loss(self, params, batch: Batch, key, epoch):
        model = eqx.combine(params, self.static)
        seen = noisy(batch, self.noise, jax.random.fold_in(key, 1)) if self.noise else batch
        if self.in_window:
            seen = joined(seen, earlier(seen, self.augment.recipe, jax.random.fold_in(key, 2)))
        target, each = seen.obs.target, seen.obs.weights
        seen = self.augment(seen, jax.random.fold_in(key, 3))
        prediction, penalty = model(spread(seen), key=key, epoch=epoch)
        own = len(batch.obs.times)  # what comes behind are earlier rows
        first, behind = (None, None) if each is None else (each[:own], each[own:])
        loss = task_loss(self.task, prediction[:own], target[:own], self.weights, self.smoothing, first)
        total = loss + penalty
        if self.in_window:
            total = total + self.in_window * task_loss(self.task, prediction[own:], target[own:], each=behind)
        if self.weight_penalty:
            total = total + self.weight_penalty * weight_norms(model.regularised())
        return total, jnp.stack([loss, total])


def run_steps(step: Step, state: State, *given) -> tuple[State, Array]:
    """What `take_steps` does, by the program for this kind of model."""
    return program(take_steps, step.static.many_kernels)(step, state, *given)


def take_steps(step: Step, state: State, rows: Rows | Batch, order, rates, epochs, key, numbers, count):
    """The first `count` of the steps over minibatches of one bucket: one dispatch, and one program whatever their count."""

    def one(i, so_far):
        state, losses = so_far
        index, rate, epoch, number = (a[i] for a in (order, rates, epochs, numbers))
        gradient, found = _gradient(step, state.params, rows, index, jax.random.fold_in(key, number), epoch)
        updates, optimiser = step.optimiser.update(gradient, state.optimiser, state.params)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        decay = step.ema * jnp.minimum(1.0, epoch)  # the first weights are forgotten within the first epoch
        average = jax.tree.map(lambda a, p: decay * a + (1 - decay) * p, state.average, params) if step.ema else None
        return State(params, optimiser, average), losses.at[i].set(found)

    order, rates, epochs, numbers = map(jnp.asarray, (order, rates, epochs, numbers))
    return lax.fori_loop(0, count, one, (state, jnp.zeros((len(order), 2), rates.dtype)))


def _gradient(step: Step, params, rows: Rows | Batch, index, key, epoch):
    """The gradient of a step and its losses, in equal parts where they are asked for: their mean is that of the whole."""
    slope = jax.grad(step.loss, has_aux=True)
    if step.accumulate == 1 or len(index) % step.accumulate:
        return slope(params, rows.take(index), key, epoch)
    parts = index.reshape(step.accumulate, -1)
    one = lambda part: slope(params, rows.take(part[0]), jax.random.fold_in(key, part[1]), epoch)
    return jax.tree.map(lambda a: a.mean(0), lax.map(one, (parts, jnp.arange(step.accumulate))))


def make_step(model: Model, task: str, train: list[Bucket], config: TrainConfig) -> tuple[Step, State]:
    """What the compiled step depends on, and the state it starts from."""
    if config.in_window and task != "forecasting":
        raise InputError(f"in_window {config.in_window}: only forecasts can be asked for at earlier rows; leave it out")
    params, static = eqx.partition(model, eqx.is_inexact_array)
    optimiser = make_optimiser(config.optimizer, config.weight_decay, config.clip)
    step = Step(
        static=static,
        task=task,
        weight_penalty=config.weight_penalty,
        noise=config.noise,
        optimiser=optimiser,
        weights=class_weights(task, train, config),
        augment=Augment(config.hide, config.spans, config.warp, config.channel_drop, train[0].recipe, config.hide_values),
        in_window=config.in_window,
        smoothing=config.label_smoothing,
        ema=config.ema,
        accumulate=config.accumulate,
    )
    return step, State(params, optimiser.init(params), params if config.ema else None)


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
    if config.class_weight is None or task not in ("classification", "labels"):
        return None
    if isinstance(config.class_weight, tuple):
        return jnp.asarray(config.class_weight, jnp.float32)
    if task == "labels":
        return jnp.asarray(label_weights(targets(train), target_weights(train)), jnp.float32)
    labels, each = targets(train), target_weights(train)
    there = known(labels)
    counts = np.bincount(labels[there], weights=None if each is None else each[there])
    return jnp.asarray(counts.sum() / (len(counts) * np.where(counts > 0, counts, 1)), jnp.float32)


def label_weights(labels: np.ndarray, each: np.ndarray | None = None) -> np.ndarray:
    """How much a 1 of each label counts, so that all of them count as much as its 0s; 1 where it has one value only.

    >>> label_weights(np.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [1.0, 1.0]
    """
    share = np.average(labels, axis=0, weights=each)
    return np.where((share > 0) & (share < 1), (1 - share) / np.where(share > 0, share, 1.0), 1.0)


def evened(data: list[Bucket], weights) -> list[Bucket]:
    """Weights of samples such that they, times those of their classes, are 1 on average over all data."""
    each, ragged = target_weights(data), data[0].ragged
    if each is None or ragged.weights is None:
        return data
    labels = targets(data)
    shares = (each if weights is None else each * _class_shares(np.asarray(weights), labels))[known(labels)]
    ragged = ragged.with_weights(ragged.weights / np.float32(shares.mean()))
    return [bucket._replace(ragged=ragged) for bucket in data]


def _class_shares(weights: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """How much each sample counts by its class, or on average over its labels."""
    return weights[truth] if truth.ndim == 1 else np.where(truth > 0, weights, 1.0).mean(1)

"""Training (the paper's Algorithm 1): minimise L = L_task + L_Y on the training data, keep the best on validation.

A run is a function of (model, data, config): the same seed gives the same bits, also when the process was killed and
resumed. What varies from epoch to epoch (order, noise, rate) is computed from the epoch's number and the history,
so a checkpoint holds weights, optimiser state and history, and nothing else.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from .batches import Batch, Bucket, few_sizes, noisy
from .checkpoint import load_file, restore, save_file
from .devices import spread
from .errors import CheckpointError, InputError, LeapWarning, SolveError, TrainingError, choose
from .losses import cross_entropy, mean_squared_error, weight_norms
from .metrics import better, measure
from .models.base import Model
from .solve import solve_error

MOST_HALVINGS = 3
PLATEAU = 5  # epochs without a better training loss before the plateau schedule halves the rate


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a run besides the model and the data."""

    epochs: int = 60
    batch: int = 32
    rate: float = 1e-3
    schedule: str = "cosine"  # or "constant", "plateau"
    optimizer: str = "adam"  # or "adamw"
    weight_decay: float = 0.0  # adamw only
    clip: float | None = 1.0  # largest norm of the gradient
    weight_penalty: float = 0.0  # times Σ‖θ‖ of the model's regularised part; never in a reported metric
    noise: float = 0.0  # of fresh Gaussian errors in the observations of every step, in deviations of their channel
    patience: int | None = None  # stop after so many epochs without a better loss
    stop_on: str = "train"  # whose loss: "train" (the paper's appendix) or "validation"
    class_weight: str | tuple[float, ...] | None = None  # or "balanced", or a weight for each class in its order
    seed: int = 0

    def __post_init__(self):
        choose("schedule", self.schedule, ("constant", "cosine", "plateau"))
        choose("optimizer", self.optimizer, ("adam", "adamw"))
        choose("stop_on", self.stop_on, ("train", "validation"))
        if isinstance(self.class_weight, (tuple, list)):
            object.__setattr__(self, "class_weight", tuple(map(float, self.class_weight)))  # JSON knows lists only
            if not all(0 < weight < np.inf for weight in self.class_weight or ()):
                raise InputError(f"class weights {self.class_weight}: each must be a positive number")
        else:
            choose("class_weight", self.class_weight or "none", ("none", "balanced"))
        if self.epochs < 1 or self.batch < 1 or not self.rate > 0:
            raise InputError(f"epochs {self.epochs}, batch {self.batch}, rate {self.rate}: each must be positive")
        if self.patience is not None and self.patience < 1:
            raise InputError(f"patience {self.patience}: give at least 1 epoch, or leave it out")
        if self.weight_penalty < 0 or self.weight_decay < 0 or (self.clip is not None and not self.clip > 0):
            raise InputError("weight_penalty and weight_decay must not be negative, clip must be positive or None")
        if not 0 <= self.noise < np.inf:
            raise InputError(f"noise {self.noise}: give a number that is not negative")

    def to_json(self) -> dict[str, Any]:
        """Without noise where there is none: runs from before it could be had stay what they were, by name too."""
        return {key: value for key, value in asdict(self).items() if key != "noise" or value}


@dataclass
class History:
    """One row an epoch: epoch, train_loss, train_total, val_loss (classes weighed as in training), metrics of the validation
    data, rate, seconds on the wall and of the processor."""

    rows: list[dict[str, float]] = field(default_factory=list)

    def column(self, name: str) -> list[float]:
        return [row[name] for row in self.rows]

    def best(self, metric: str) -> dict[str, float]:
        """The epoch whose weights are kept: best by the metric, of equals the one with the lowest validation loss."""
        best = self.rows[0]
        for row in self.rows[1:]:
            equal = row[metric] == best[metric] and row["val_loss"] < best["val_loss"]
            score = None if np.isnan(best[metric]) else best[metric]
            best = row if equal or better(metric, row[metric], score) else best
        return best

    def stale(self, name: str) -> int:
        """How many epochs have passed since the lowest value of a column.

        >>> History([{"loss": 0.5}, {"loss": np.nan}, {"loss": 0.4}]).stale("loss")
        0
        """
        values = np.nan_to_num(self.column(name), nan=np.inf)  # an epoch without a loss is not the lowest
        return len(values) - 1 - int(np.argmin(values)) if len(values) else 0


class State(NamedTuple):
    params: Any
    optimiser: Any


class Fitted(NamedTuple):
    model: Model  # with the weights that were best on the validation data
    history: History
    stopped: str  # why training ended


def fit(
    model: Model,
    task: str,
    train: list[Bucket],
    validation: list[Bucket],
    config: TrainConfig,
    *,
    metric: str,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    on_step: Callable[[int, int], None] | None = None,
    checkpoint: Path | None = None,
) -> Fitted:
    """Train, choosing weights by `metric` on the validation data. With `checkpoint`, go on from it if it is there."""
    params, static = eqx.partition(model, eqx.is_inexact_array)
    optimiser = _optimiser(config.optimizer, config.weight_decay, config.clip)
    step = _Step(static, task, config.weight_penalty, config.noise, optimiser, _class_weights(task, train, config))
    state, best = State(params, optimiser.init(params)), params
    history, halvings = History(), 0
    if checkpoint is not None and checkpoint.exists():
        state, best, history, halvings = _resume(checkpoint, config, state)
    metric = _usable(metric, task, validation)
    stopped = ""
    while not stopped and not (stopped := _finished(config, history)):
        began, worked = time.perf_counter(), time.process_time()
        new, row = _epoch(step, config, state, train, history, halvings, on_step)
        if row is None:
            halvings += 1
            if halvings > MOST_HALVINGS:
                stopped = _give_up(config, history)
            continue
        state = new
        row.update(_validate(eqx.combine(state.params, static), task, validation, step.weights))
        row |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}
        history.rows.append(row)
        if history.best(metric) is row:
            best = state.params
        if checkpoint is not None:
            _save(checkpoint, config, state, best, history, halvings)
        if on_epoch is not None:
            on_epoch(row)
    return Fitted(eqx.combine(best, static), history, stopped)


def predict(model: Model, data: list[Bucket], *, chunk: int = 256) -> np.ndarray:
    """Raw predictions for every sample, in the order of the series."""
    total = sum(len(bucket.samples) for bucket in data)
    result: np.ndarray | None = None
    for bucket in data:
        count = len(bucket.samples)
        size = min(chunk, few_sizes(count))
        for start in range(0, count, size):
            # The last chunk is filled up with repeats, so that one shape is compiled.
            index = np.minimum(np.arange(start, start + size), count - 1)
            part = np.asarray(checked(_predict, model, bucket.batch, index))[: count - start]
            if result is None:
                result = np.empty((total, *part.shape[1:]), part.dtype)
            result[bucket.samples[start : start + size]] = part
    if result is None:
        raise InputError("there is nothing to predict: no samples")
    return result


def compiled_steps(model: Model, task: str, train: list[Bucket], config: TrainConfig) -> list[Any]:
    """The compiled training step of each bucket, as `fit` runs it; after a `fit`, nothing is compiled again."""
    params, static = eqx.partition(model, eqx.is_inexact_array)
    optimiser = _optimiser(config.optimizer, config.weight_decay, config.clip)
    step = _Step(static, task, config.weight_penalty, config.noise, optimiser, _class_weights(task, train, config))
    found = []
    for bucket, order in dict(_plan(train, config, 0)).items():
        when, numbers = np.zeros(len(order), np.float32), np.arange(len(order))
        start = State(params, optimiser.init(params))
        given = (step, start, train[bucket].batch, order, when, when, jax.random.key(0), numbers)
        lowered = _segment.lower(*given)  # pyright: ignore[reportFunctionMemberAccess]
        found.append(lowered.compile().compiled)
    return found


def targets(data: list[Bucket]) -> np.ndarray:
    """The targets in the order of the series."""
    order = np.concatenate([bucket.samples for bucket in data])
    return np.concatenate([np.asarray(bucket.batch.obs.target) for bucket in data])[np.argsort(order)]


def task_loss(task: str, prediction, target, weights=None):
    """L_task: cross-entropy for classes, mean squared error for numbers."""
    return cross_entropy(prediction, target, weights) if task == "classification" else mean_squared_error(prediction, target)


class _Step(NamedTuple):
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


def _epoch(step: _Step, config: TrainConfig, state: State, train: list[Bucket], history: History, halvings: int, on_step):
    """One pass over the training data. The row is None if the loss was not finite."""
    epoch = len(history.rows)
    plan = _plan(train, config, epoch)
    steps = sum(len(order) for _, order in plan)
    rates = _rates(config, history, epoch, steps) * 0.5**halvings
    key = jax.random.fold_in(jax.random.key(config.seed), epoch)
    losses, done = [], 0
    for bucket, order in plan:
        part = slice(done, done + len(order))
        rate, when = (a[part].astype(np.float32) for a in (rates, epoch + np.arange(steps) / steps))
        try:
            state, found = _segment(step, state, train[bucket].batch, order, rate, when, key, np.arange(part.start, part.stop))
        except eqx.EquinoxRuntimeError as error:
            if isinstance(solve_error(error), SolveError):
                return state, None  # an adaptive solve that blew up is divergence: roll back, halve the rate
            raise
        losses.append(np.asarray(found))
        done = part.stop
        if on_step is not None:
            on_step(done, steps)
    loss, total = np.concatenate(losses).mean(0)
    # The weights too: a last step with a finite loss and an infinite gradient would leave nothing to roll back to.
    if not np.isfinite(total) or not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)):
        return state, None
    row = {"epoch": epoch, "train_loss": float(loss), "train_total": float(total)}
    return state, {**row, "rate": float(rates[-1]), "halvings": halvings}


@eqx.filter_jit
def _segment(step: _Step, state: State, data: Batch, order, rates, epochs, key, numbers):
    """Steps over minibatches of one bucket: one dispatch, whatever their number."""

    def one(state: State, now):
        index, rate, epoch, number = now
        mine = jax.random.fold_in(key, number)
        gradient, losses = jax.grad(step.loss, has_aux=True)(state.params, data.take(index), mine, epoch)
        updates, optimiser = step.optimiser.update(gradient, state.optimiser, state.params)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        return State(params, optimiser), losses

    return lax.scan(one, state, (order, rates, epochs, numbers))


def checked(function, *args):
    """Call a compiled function; a failed adaptive solve becomes a `SolveError` with the fix."""
    try:
        return function(*args)
    except eqx.EquinoxRuntimeError as error:
        raise solve_error(error) from None


@eqx.filter_jit
def _predict(model: Model, data: Batch, index):
    return model(data.take(index)).prediction


@cache
def _optimiser(name: str, weight_decay: float, clip: float | None) -> optax.GradientTransformation:
    """Adam without its rate: the rate of every step is an argument, so that schedules need no state.

    Cached because a fresh one is a fresh set of functions, which would compile the step again.
    """
    parts = [] if clip is None else [optax.clip_by_global_norm(clip)]
    parts.append(optax.scale_by_adam())
    if name == "adamw":
        parts.append(optax.add_decayed_weights(weight_decay))
    return optax.chain(*parts)


def _plan(train: list[Bucket], config: TrainConfig, epoch: int) -> list[tuple[int, np.ndarray]]:
    """Which samples make up which step: (bucket, (steps, batch)) pieces, shuffled by seed and epoch.

    One bucket is one piece, a single scan. Several are cut into single steps and mixed, because length often tells
    the class and an optimiser should not see one length after the other. A last batch that is not full is filled up
    with samples from the first, so that every sample is used in every epoch and one shape is compiled.
    """
    generator = np.random.default_rng([config.seed, epoch])
    pieces = []
    for b, bucket in enumerate(train):
        count = len(bucket.samples)
        size = min(config.batch, count)
        order = np.resize(generator.permutation(count), (-(-count // size), size))
        pieces += [(b, order)] if len(train) == 1 else [(b, row[None]) for row in order]
    return [pieces[i] for i in generator.permutation(len(pieces))]


def _rates(config: TrainConfig, history: History, epoch: int, steps: int) -> np.ndarray:
    if config.schedule == "cosine":
        share = (epoch + np.arange(steps) / steps) / config.epochs
        return config.rate * 0.5 * (1 + np.cos(np.pi * share))
    if config.schedule == "plateau":
        return np.full(steps, config.rate * 0.5 ** _plateaus(history.column("train_loss")))
    return np.full(steps, config.rate)


def _plateaus(losses: list[float]) -> int:
    """How often the loss failed to improve for `PLATEAU` epochs in a row."""
    found, best, waited = 0, np.inf, 0
    for loss in losses:
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == PLATEAU:
            found, waited = found + 1, 0
    return found


def _finished(config: TrainConfig, history: History) -> str:
    if len(history.rows) >= config.epochs:
        return f"all {config.epochs} epochs done"
    watched = "train_loss" if config.stop_on == "train" else "val_loss"
    if config.patience is not None and history.stale(watched) >= config.patience:
        return f"{watched} did not improve for {config.patience} epochs"
    return ""


def _usable(metric: str, task: str, validation: list[Bucket]) -> str:
    """The metric by which weights are chosen: the loss where the metric cannot be computed, as with a single class."""
    if task != "classification" or metric == "accuracy" or len(np.unique(targets(validation))) > 1:
        return metric
    message = f"the validation data holds one class only, so {metric} is undefined; weights are chosen by the loss"
    warnings.warn(message, LeapWarning, stacklevel=3)
    return "val_loss"


def _give_up(config: TrainConfig, history: History) -> str:
    message = (
        f"training diverged in epoch {len(history.rows) + 1}: the loss was not finite, even with the rate halved "
        f"{MOST_HALVINGS} times; lower the rate (now {config.rate:g}), or check the data for extreme values"
    )
    if not history.rows:
        raise TrainingError(message)
    warnings.warn(f"{message}. The best weights so far are kept.", LeapWarning, stacklevel=3)
    return message


def _validate(model: Model, task: str, data: list[Bucket], weights) -> dict[str, float]:
    predicted, truth = predict(model, data), targets(data)
    found = measure(task, predicted, truth)
    loss = found["loss" if task == "classification" else "mse"]
    if weights is not None:  # what is watched must be what is trained, or patience ends too soon
        loss = float(cross_entropy(jnp.asarray(predicted), jnp.asarray(truth), weights))
    return {"val_loss": loss, **found}


def _class_weights(task: str, train: list[Bucket], config: TrainConfig):
    if config.class_weight is None or task != "classification":
        return None
    if isinstance(config.class_weight, tuple):
        return jnp.asarray(config.class_weight, jnp.float32)
    counts = np.bincount(targets(train))
    return jnp.asarray(counts.sum() / (len(counts) * np.maximum(counts, 1)), jnp.float32)


def _save(path: Path, config: TrainConfig, state: State, best, history: History, halvings: int) -> None:
    about = {"config": config.to_json(), "history": history.rows, "halvings": halvings}
    save_file(path, "training", {"state": state, "best": best}, about)


def _resume(path: Path, config: TrainConfig, like: State) -> tuple[State, Any, History, int]:
    arrays, about = load_file(path, "training")
    before, now = ({**c, "epochs": 0} for c in (about["config"], json.loads(json.dumps(config.to_json()))))
    if before != now or (config.schedule == "cosine" and about["config"]["epochs"] != config.epochs):
        raise CheckpointError(f"{path} was made with other settings; use another run folder, or the same settings")
    state, best = restore("state", like, arrays, path), restore("best", like.params, arrays, path)
    return state, best, History(about["history"]), about["halvings"]

"""Training (the paper's Algorithm 1): minimise L = L_task + L_Y on the training data, keep the best on validation.

A run is a function of (model, data, config): the same seed gives the same bits, also when the process was killed and
resumed. What varies from epoch to epoch (order, noise, rate, windows) is computed from the epoch's number and the history,
so a checkpoint holds weights, optimiser state and history, and nothing else.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.compiled import program
from leapcde.data.store.mapped import trim
from leapcde.errors import LeapWarning, SolveError, TrainingError
from leapcde.models.base import Model
from leapcde.paths.ragged import Bucket, ahead
from leapcde.solve.adaptive import solve_error
from leapcde.training.checkpoint import is_there, resume, save_checkpoint
from leapcde.training.config import TrainConfig
from leapcde.training.devices import check_together, everywhere, here
from leapcde.training.history import History
from leapcde.training.metrics import measure
from leapcde.training.predict import known, predict, target_weights, targets
from leapcde.training.schedule import dispatches, rates
from leapcde.training.step import State, Step, evened, make_step, run_steps, take_steps, task_loss

MOST_HALVINGS = 3


class Trained(NamedTuple):
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
    on_epoch: Callable[[dict[str, float]], Any] | None = None,  # True ends training
    on_step: Callable[[int, int], None] | None = None,
    checkpoint: Path | None = None,
    validate: Callable[[Model], dict[str, float]] | None = None,  # what judges weights instead of predictions
    renewed: Callable[[int], list[Bucket]] | None = None,
) -> Trained:
    """Train, choosing weights by `metric` on the validation data. With `checkpoint`, go on from it if it is there.

    `renewed` gives the training data of an epoch by its number, where it is not the same in all.
    """
    step, state = make_step(model.started(batch for bucket in train for _, batch in bucket.batches()), task, train, config)
    train = evened(train, step.weights)
    best = state.params
    history, halvings = History(), 0
    if checkpoint is not None and is_there(checkpoint):
        state, best, history, halvings = resume(checkpoint, config, state)
    check_together(len(history.rows))
    trim()
    step, state, best = everywhere((step, state, best))
    metric = _usable(metric, task, validation)
    stopped = ""
    while not stopped and not (stopped := _finished(config, history)):
        began, worked = time.perf_counter(), time.process_time()
        data = train if renewed is None else evened(renewed(len(history.rows)), step.weights)
        new, row = _epoch(step, config, state, data, history, halvings, on_step)
        if row is None:
            halvings += 1
            if halvings > MOST_HALVINGS:
                stopped = _give_up(config, history)
            continue
        state = new
        if not history.rows:
            trim()  # what compiling left
        current = eqx.combine(here(state.kept), step.static)
        row.update(_validate(current, task, validation, step.weights) if validate is None else validate(current))
        row |= {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}
        history.rows.append(row)
        if history.best(metric) is row:
            best = state.kept
        if checkpoint is not None:
            save_checkpoint(checkpoint, config, state, best, history, halvings)
        if on_epoch is not None and on_epoch(row) is True:
            stopped = f"a callback stopped it after {len(history.rows)} epochs"
    return Trained(eqx.combine(here(best), step.static), history, stopped)


def compiled_steps(model: Model, task: str, train: list[Bucket], config: TrainConfig) -> list[Any]:
    """The compiled training step of each bucket, as `fit` runs it; after a `fit`, nothing is compiled again."""
    step, start = make_step(model, task, train, config)
    found = []
    for call in {call.bucket: call for call in dispatches(train, config, 0)}.values():
        rows, order = train[call.bucket].read(call.order)
        when, numbers = np.zeros(len(order), np.float32), np.arange(len(order))
        given = (step, start, rows, order, when, when, jax.random.key(0), numbers, np.int32(call.steps))
        lowered = program(take_steps, step.static.many_kernels).lower(*given)
        found.append(lowered.compile().compiled)
    return found


def _epoch(step: Step, config: TrainConfig, state: State, train: list[Bucket], history: History, halvings: int, on_step):
    """One pass over the training data. The row is None if the loss was not finite."""
    epoch = len(history.rows)
    calls = dispatches(train, config, epoch)
    steps = calls[-1].first + calls[-1].steps
    pace = rates(config, history, epoch, steps) * 0.5**halvings
    key = jax.random.fold_in(jax.random.key(config.seed), epoch)
    losses = []
    reads = (train[call.bucket].read(call.order) for call in calls)
    for call, (rows, order) in zip(calls, ahead(reads), strict=True):
        numbers = np.minimum(call.first + np.arange(len(order)), steps - 1)
        rate, when = (a[numbers].astype(np.float32) for a in (pace, epoch + np.arange(steps) / steps))
        try:
            given = everywhere((rows, order, rate, when, key, numbers, np.int32(call.steps)))
            state, found = run_steps(step, state, *given)
        except eqx.EquinoxRuntimeError as error:
            if isinstance(solve_error(error), SolveError):
                return state, None  # an adaptive solve that blew up is divergence: roll back, halve the rate
            raise
        losses.append(np.asarray(found)[: call.steps])
        if on_step is not None:
            on_step(call.first + call.steps, steps)
    loss, total = np.concatenate(losses).mean(0)
    # The weights too: a last step with a finite loss and an infinite gradient would leave nothing to roll back to.
    if not np.isfinite(total) or not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)):
        return state, None
    row = {"epoch": epoch, "train_loss": float(loss), "train_total": float(total)}
    return state, {**row, "learning_rate": float(pace[-1]), "halvings": halvings}


def _finished(config: TrainConfig, history: History) -> str:
    if len(history.rows) >= config.epochs:
        return f"all {config.epochs} epochs done"
    watched = "train_loss" if config.stop_on == "train" else "val_loss"
    if config.patience is not None and history.stale(watched) >= config.patience:
        return f"{watched} did not improve for {config.patience} epochs"
    return ""


def _usable(metric: str, task: str, validation: list[Bucket]) -> str:
    """The metric by which weights are chosen: the loss where the metric cannot be computed, as with a single class."""
    if metric == "accuracy" or task not in ("classification", "labels"):
        return metric
    truth = targets(validation)
    truth = truth[known(truth)]  # of rows, some have none
    if (truth != truth[:1]).any():
        return metric
    message = f"the validation data holds one class only, so {metric} is undefined; weights are chosen by the loss"
    warnings.warn(message, LeapWarning, stacklevel=3)
    return "val_loss"


def _give_up(config: TrainConfig, history: History) -> str:
    message = (
        f"training diverged in epoch {len(history.rows) + 1}: the loss was not finite, even with the rate halved "
        f"{MOST_HALVINGS} times; lower the rate (now {config.learning_rate:g}), or check the data for extreme values"
    )
    if not history.rows:
        raise TrainingError(message)
    warnings.warn(f"{message}. The best weights so far are kept.", LeapWarning, stacklevel=3)
    return message


def _validate(model: Model, task: str, data: list[Bucket], weights) -> dict[str, float]:
    predicted, truth, shares = predict(model, data), targets(data), target_weights(data)
    there = known(truth)  # a row may have no target
    predicted, truth = predicted[there], truth[there]
    found = measure(task, predicted, truth, None if shares is None else shares[there])
    loss = found["loss" if "loss" in found else "mse"]
    if weights is not None:  # what is watched must be what is trained, or patience ends too soon
        each = target_weights(evened(data, weights))
        each = None if each is None else jnp.asarray(each[there])
        loss = float(task_loss(task, jnp.asarray(predicted), jnp.asarray(truth), weights, each=each))
    return {"val_loss": loss, **found}

"""Which samples make up which step of an epoch, and the learning rate of each step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leapcde.paths.ragged import Bucket
from leapcde.training.config import TrainConfig
from leapcde.training.history import History

PLATEAU = 5  # epochs without a better training loss before the plateau schedule halves the rate


def plan(train: list[Bucket], config: TrainConfig, epoch: int) -> list[tuple[int, np.ndarray]]:
    """Which samples make up which step: (bucket, (steps, batch)) pieces, shuffled by seed and epoch.

    One bucket is one piece, a single scan. Several are cut into single steps and mixed, because length often tells
    the class and an optimiser should not see one length after the other. A last batch that is not full is filled up
    with samples from the first, so that every sample is used in every epoch and one shape is compiled.
    """
    generator = np.random.default_rng([config.seed, epoch])
    pieces = []
    for b, bucket in enumerate(train):
        count = len(bucket.samples)
        size = min(config.batch_size, count)
        order = np.resize(generator.permutation(count), (-(-count // size), size))
        pieces += [(b, order)] if len(train) == 1 else [(b, row[None]) for row in order]
    return [pieces[i] for i in generator.permutation(len(pieces))]


class Dispatch(NamedTuple):
    """Steps that one call of a compiled program makes."""

    bucket: int
    order: np.ndarray  # (steps, batch): samples of the bucket; what stands behind the last step only fills up
    first: int  # the number of the first step in its epoch
    steps: int


def dispatches(train: list[Bucket], config: TrainConfig, epoch: int) -> list[Dispatch]:
    """The steps of an epoch in calls of so many that their rows can be read together; all calls of a bucket are of one
    shape."""
    made, done = [], 0
    for b, order in plan(train, config, epoch):
        most = min(len(order), train[b].most_steps(order.shape[1]))
        for start in range(0, len(order), most):
            count = min(most, len(order) - start)
            index = np.minimum(np.arange(start, start + most), len(order) - 1)
            made.append(Dispatch(b, order[index], done + start, count))
        done += len(order)
    return made


def rates(config: TrainConfig, history: History, epoch: int, steps: int) -> np.ndarray:
    """The learning rate of each step of an epoch: that of the schedule, rising from 0 while training warms up."""
    done = epoch + (1 + np.arange(steps)) / steps
    return _scheduled(config, history, epoch, steps) * (np.minimum(1, done / config.warmup) if config.warmup else 1.0)


def _scheduled(config: TrainConfig, history: History, epoch: int, steps: int) -> np.ndarray:
    if config.schedule == "cosine":
        share = (epoch + np.arange(steps) / steps) / config.epochs
        return config.learning_rate * 0.5 * (1 + np.cos(np.pi * share))
    if config.schedule == "plateau":
        return np.full(steps, config.learning_rate * 0.5 ** _plateaus(history.column("train_loss")))
    return np.full(steps, config.learning_rate)


def _plateaus(losses: list[float]) -> int:
    """How often the loss failed to improve for `PLATEAU` epochs in a row."""
    found, best, waited = 0, np.inf, 0
    for loss in losses:
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited == PLATEAU:
            found, waited = found + 1, 0
    return found

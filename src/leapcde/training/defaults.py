"""Settings from the shape of the data: model size, steps, batch, epochs, and what training will cost."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from leapcde.models.base import Model
from leapcde.models.registry import count_parameters, options_of
from leapcde.paths.interpolation import interpolation_of
from leapcde.training.config import TrainConfig
from leapcde.training.track.progress import note

FEW = 500  # samples, of which so few steps are made that each may be longer
PENALTY = 0.003  # of classifiers, which overfit without one (decision 9)
UPDATES = 1700  # how many steps of the optimiser a run should have, if time allows
MANY, STEPS = 128, 64  # rows from which a series is followed in so many steps
MEMORY = 2e9  # bytes that one training step may keep for its backward pass before it recomputes them instead
PLUS_ROWS, PLUS_KNOTS = 48, 32  # rows from which LEAP+ follows a series at so many knots
PLUS_HOLES = 0.1  # share of the values of rows that are missing, from which it says something when each was last measured
PLUS_FEW = 4000  # windows, of which a linear equation is learned better in closed form
PLUS_ANY = {"learning_rate": 3e-3, "weight_penalty": 0.0, "optimizer": "adamw", "weight_decay": 0.02, "ema": 0.99}
PLUS_TRAINING = {  # of LEAP+, by task, from trials on validation data of classes and forecasts; none of numbers (decision 16)
    "classification": {**PLUS_ANY, "hide": 0.3, "warp": 0.2, "channel_drop": 0.1},
    "labels": {**PLUS_ANY, "hide": 0.3, "warp": 0.2, "channel_drop": 0.1},  # as of classes; not tried by themselves
    "regression": {**PLUS_ANY, "hide": 0.3},  # unwarped: a number may depend on when
    "forecasting": {**PLUS_ANY, "hide": 0.2, "warmup": 1.0},
    "survival": {**PLUS_ANY, "hide": 0.3},
    "imputation": {**PLUS_ANY, "hide": 0.5, "hide_values": 0.1},
}
PLUS_UPDATES = 4000  # of forecasts from many windows, which go on learning where others have learned all they can
PATH_UPDATES = 6000  # of a path alone, whose steps cost little
LONG = 20.0  # seconds of training from which a person wants to know before


def model_options(
    name: str, channels: int, lengths: np.ndarray, batch: int, *, task: str, interpolation: str, holes: float = 0.0
) -> dict[str, Any]:
    """Options of a model for data of this shape; only those which the model has.

    `holes` is the share of the values of its rows that are missing.
    A controlled field has hidden x channels outputs at every step: with many channels, hidden must be smaller.
    A long series is followed in fewer steps than it has rows, unless it is to be forecast or streamed (decision 10).

    >>> model_options("ncde", 4, np.array([50, 100]), 32, task="classification", interpolation="natural")
    {'hidden': 40, 'width': 100, 'depth': 3}
    >>> model_options("ncde", 4, np.array([9, 99_999]), 32, task="classification", interpolation="natural")
    {'hidden': 40, 'width': 100, 'depth': 3, 'steps': 64}
    """
    if name == "leap+":
        return _plus_options(lengths, task, holes)
    known = options_of(name)
    wide = channels > 32
    found: dict[str, Any] = {"hidden": 32 if wide else 40, "width": 64 if wide else 100, "depth": 2 if wide else 3}
    rows = float(lengths.max())
    if rows > MANY and task != "forecasting" and not interpolation_of(interpolation).causal:
        found |= {"steps": STEPS, "encoder_steps": STEPS}
        rows = STEPS if known.keys() & {"steps", "encoder_steps"} else rows
    kept = rows * batch * 4 * 2 * (found["hidden"] * channels + found["width"] * found["depth"])
    if kept > MEMORY:
        found["solver_options"] = {"checkpoint": True}
    return {key: value for key, value in found.items() if key in known}


def _plus_options(lengths: np.ndarray, task: str, holes: float) -> dict[str, Any]:
    """Options of LEAP+: knots where rows are many; ages where they are incomplete; forecasts of few windows start as the
    linear rollout; filling holes needs no z."""
    if task == "imputation":
        return {"hidden": 1, "depth": 1, "kernel": 1}
    knots = {"knots": PLUS_KNOTS if lengths.max() > PLUS_ROWS else 0}
    if task != "forecasting":
        return {**knots, "ages": True, "asked": 16} if holes > PLUS_HOLES else knots
    few = len(lengths) < PLUS_FEW
    return {**knots, "linear_start": few, "dropout": 0.3 if few else 0.0}


def training_options(samples: int, task: str, model: str = "leap") -> dict[str, Any]:
    """Batch, epochs, patience, the highest rate of the cosine schedule and the weight penalty for so many training samples,
    and what else training does for a model.

    >>> training_options(1700, "classification")
    {'batch_size': 32, 'epochs': 31, 'patience': 8, 'learning_rate': 0.002, 'weight_penalty': 0.003}
    """
    batch = int(np.clip(2 ** np.floor(np.log2(max(samples, 1) / 40 + 1e-9)), 8, 128))
    steps = -(-samples // batch)
    epochs = int(np.clip(UPDATES // steps, 20, 150))
    found = {
        "batch_size": batch,
        "epochs": epochs,
        "patience": max(8, epochs // 4),
        "learning_rate": 4e-3 if samples < FEW else 2e-3,
    }
    found |= {"weight_penalty": PENALTY if task in ("classification", "labels") else 0.0}
    return {**found, **_plus_training(samples, task, steps)} if model == "leap+" else found


def _plus_training(samples: int, task: str, steps: int) -> dict[str, Any]:
    own = PLUS_TRAINING[task]
    if task == "imputation":
        epochs = int(np.clip(PATH_UPDATES // steps, 20, 300))
        return {**own, "epochs": epochs, "patience": max(8, epochs // 4)}
    if task != "forecasting":
        return own
    if samples < PLUS_FEW:
        return {**own, "learning_rate": 2e-3}
    return {**own, "epochs": int(np.clip(PLUS_UPDATES // steps, 20, 150))}


def training_seconds(model: Model, lengths: np.ndarray, config: TrainConfig) -> float:
    """A rough forecast of how long training takes: the products it needs, at the speed of this machine.

    It knows nothing of the model but its size and that it goes once along each series, so it can be off by a factor of three.
    """
    weights = count_parameters(model)
    stages, passes = 2, 3  # evaluations of the field a step; forward and twice as much backward
    products = 2.0 * weights * float(lengths.sum()) * stages * passes * config.epochs
    return products / _products_a_second(weights, config.batch_size)


def told(seconds: float) -> str:
    """A duration in words.

    >>> told(42), told(300), told(9000)
    ('42 seconds', '5 minutes', '2.5 hours')
    """
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _products_a_second(weights: int, batch: int) -> float:
    """How many products of a (batch, n) with an (n, n) matrix of so many weights this machine does in a second."""
    size = int(np.clip(np.sqrt(weights), 16, 1024))
    a, b = jnp.ones((max(batch, 1), size)), jnp.ones((size, size))
    run = jax.jit(lambda a, b: jax.lax.fori_loop(0, 50, lambda i, a: jnp.tanh(a @ b), a))
    run(a, b).block_until_ready()
    began = time.perf_counter()
    run(a, b).block_until_ready()
    return 50 * 2.0 * a.shape[0] * size**2 / max(time.perf_counter() - began, 1e-9)


def tell_cost(name: str, model: Model, lengths: np.ndarray, config: TrainConfig) -> None:
    """A line about how long a training will take, if that is long."""
    seconds = training_seconds(model, lengths, config)
    if seconds >= LONG:
        note(
            f"{name}: {len(lengths)} series of {lengths.mean():.0f} points on average, up to {config.epochs} epochs; "
            f"about {told(seconds)} if it does not stop early. Fewer epochs, or a smaller option hidden, cost less."
        )

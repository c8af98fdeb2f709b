"""The shapes that are timed, with data and weights for all libraries, and our own training step on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.data.read import as_series
from leapcde.models.base import Spec
from leapcde.models.leap import Leap
from leapcde.models.registry import build
from leapcde.nn.losses import cross_entropy
from leapcde.paths.batch import Batch, Recipe
from leapcde.paths.ragged import make_buckets
from leapcde.solve.runge_kutta import TABLEAUX
from leapcde.solve.trace import draw_probe
from leapcde.training.augment import Augment
from leapcde.training.step import State, Step, make_optimiser, run_steps
from leapcde_paper import budgets

# The paper's batch, length × channels of X (time among them), D_h, width and hidden layers of its fields.
SHAPES: dict[str, dict[str, Any]] = {
    "character-trajectories": {"batch": 32, "length": 182, "values": 3, "hidden": 40, "width": 100, "depth": 3},
    "mujoco": {"batch": 1024, "length": 50, "values": 13, "hidden": 80, "width": 50, "depth": 5},
    "speech": {"batch": 256, "length": 161, "values": 20, "hidden": 90, "width": 40, "depth": 4},
    "sepsis": {"batch": 256, "length": 72, "values": 34, "hidden": 49, "width": 39, "depth": 3, "intensity": True},
    "tiny": {"batch": 4, "length": 9, "values": 2, "hidden": 4, "width": 4, "depth": 1},  # for the tests
}
DATA = {"speech": "speech-commands", "tiny": "character-trajectories"}  # whose settings of LEAP+ a shape has, by another name
CLASSES, RATE = 10, 1e-3


class Problem(NamedTuple):
    batch: Batch
    labels: np.ndarray
    model: Any
    key: Any  # of LEAP's noise, and of what LEAP+ hides
    augment: Augment = Augment()  # of LEAP+, whose path learns from what is hidden


def problem(
    model: str,
    *,
    batch: int,
    length: int,
    values: int,
    hidden: int,
    width: int,
    depth: int,
    intensity: bool = False,
    **options,
) -> Problem:
    """Random walks, random labels, and a model as it starts. The same for every library.

    The time channel runs as the others let it run, a unit a row, whatever the pace of our default.
    """
    recipe = Recipe(intensity=intensity)
    data, labels = _data(batch, length, values)
    spec = Spec("classification", values, recipe.channels(values), (CLASSES,), span=length - 1.0)
    built = build(model, spec, hidden=hidden, width=width, depth=depth, time_span=None, **options)
    return Problem(make_buckets(as_series(data), recipe)[0].batch, labels, built, jax.random.key(1))


def leap_plus(shape: str) -> Problem:
    """The same data for LEAP+, with the sizes and the training of its records: what is hidden, X fitted again in each step."""
    batch, length, values = (SHAPES[shape][name] for name in ("batch", "length", "values"))
    config = budgets.config(budgets.budget("standard"), DATA.get(shape, shape), 0.0, "leap+", {}, {})
    data, labels = _data(batch, length, values)
    spec = Spec("classification", values, config.recipe.channels(values), (CLASSES,), span=length - 1.0, recipe=config.recipe)
    hides = {name: getattr(config.train, name) for name in ("hide", "spans", "warp", "channel_drop", "hide_values")}
    built, made = build("leap+", spec, **config.options), make_buckets(as_series(data), config.recipe)[0].batch
    return Problem(made, labels, built, jax.random.key(1), Augment(**hides, recipe=config.recipe))


def _data(batch: int, length: int, values: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    data = generator.normal(size=(batch, length, values)).cumsum(1) / length**0.5
    return data, generator.integers(CLASSES, size=batch)


def noise(p: Problem):
    """LEAP's ε for the batch."""
    return draw_probe(p.key, (len(p.labels), p.model.φ_h.weight.shape[1]), p.model.probe)


def loss(model, batch: Batch, labels, key, augment: Augment):
    prediction, penalty = model(augment(batch, jax.random.fold_in(key, 3)), key=key, epoch=0.0)  # as in training
    return cross_entropy(prediction, labels) + penalty


@eqx.filter_jit
def gradient(model, batch: Batch, labels, key, augment: Augment):
    return eqx.filter_value_and_grad(loss)(model, batch, labels, key, augment)


@eqx.filter_jit
def forward(model, batch: Batch):
    return model(batch).prediction


STEPS = 4  # of ours in a call


def training(p: Problem):
    """A function that makes `STEPS` steps of Adam in a call, by the trainer's own loop, which makes up to 64.

    Each step takes the samples in another order and hides other rows, so that nothing can be computed once for all.
    """
    params, static = eqx.partition(p.model, eqx.is_inexact_array)
    optimiser = make_optimiser("adam", 0.0, None)
    neutral = {"weight_penalty": 0.0, "noise": 0.0, "weights": None, "in_window": 0.0, "smoothing": 0.0, "ema": 0.0}
    step = Step(static, "classification", optimiser=optimiser, augment=p.augment, accumulate=1, **neutral)
    data = p.batch._replace(obs=p.batch.obs._replace(target=jnp.asarray(p.labels)))
    generator, held = np.random.default_rng(0), [State(params, optimiser.init(params))]
    rates, epochs = np.full(STEPS, RATE, np.float32), np.zeros(STEPS, np.float32)

    def steps():
        order = np.stack([generator.permutation(len(p.labels)) for _ in range(STEPS)])
        held[0], _ = run_steps(step, held[0], data, order, rates, epochs, p.key, np.arange(STEPS), STEPS)
        jax.block_until_ready(held[0].params)

    steps.steps = STEPS  # pyright: ignore[reportFunctionMemberAccess]
    return steps


MATMUL = 2 * 1024**3  # operations of the product whose rate is the yardstick


def matmul():
    """The product of two large matrices, the most that the machine does in a second."""
    a, multiply = jnp.ones((1024, 1024)), jax.jit(jnp.matmul)
    return lambda: jax.block_until_ready(multiply(a, a))


def flops(p: Problem) -> float:
    """Operations in the products of a training step without any that are done twice: three times the forward pass."""
    steps, stages = p.batch.X.values.shape[1] - 1, len(TABLEAUX[p.model.solver.method].b)
    per_sample = 2 * stages * steps * sum(layer.weight.size for layer in p.model.g.net.layers)
    if isinstance(p.model, Leap):  # its decoder steps as often, with f and its directional derivative beside g
        k, f = (sum(layer.weight.size for layer in field.net.layers) for field in (p.model.k, p.model.f))
        per_sample += 2 * stages * steps * (k + 2 * f)
    return 3.0 * per_sample * len(p.labels)

"""Several devices change how fast a step is, not what it computes; and a guard of the work that a step does."""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.models.base import Spec
from leapcde.models.registry import build
from leapcde.nn.fields import FEW_COLUMNS, drive
from leapcde.paths.batch import Recipe
from leapcde.paths.ragged import make_buckets
from leapcde.training.config import TrainConfig
from leapcde.training.devices import meet_others
from leapcde.training.fitted import train_model

PLACES = os.pathsep.join([os.path.dirname(__file__), *sys.path])
SIZES = {"hidden": 6, "width": 8, "depth": 1}


def made(model: str, batch: int, length: int = 7, **options):
    values = np.random.default_rng(0).normal(size=(batch, length, 3)).cumsum(1)
    spec = Spec("classification", 3, 4, (5,), span=length - 1.0)
    return make_buckets(as_series(values), Recipe())[0].batch, build(model, spec, **{**SIZES, **options})


def slope(function, model, batch):
    """The gradient of a loss that sees every prediction and the penalty."""

    def loss(model):
        prediction, penalty = function(model, batch)
        return jnp.sum(jnp.sin(prediction)) + 100 * penalty

    return eqx.filter_jit(eqx.filter_grad(loss))(model)


TWO = """
import jax, numpy as np
from test_devices import made, slope
from leapcde.training import devices
batch, model = made("ncde", 8)
assert jax.device_count() == 2
assert len(jax.jit(devices.spread)(batch).X.values.sharding.device_set) == 2
key = jax.random.key(0)
one = slope(lambda m, b: m(b, key=key, epoch=0.0), model, batch)
two = slope(lambda m, b: m(devices.spread(b), key=key, epoch=0.0), model, batch)
for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(a).max())
odd, _ = made("ncde", 7)
assert len(jax.jit(devices.spread)(odd).X.values.sharding.device_set) == 1
"""


def test_two_devices_give_the_gradient_of_one():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": PLACES, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", TWO], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


TOGETHER = """
import json, sys
import jax, numpy as np
from test_devices import made, slope
from leapcde.training import devices
assert devices.meet_others() == jax.device_count() == 2
batch, model = made("ncde", 8)
key = jax.random.key(0)
one = slope(lambda m, b: m(b, key=key, epoch=0.0), model, batch)
batch, model, key = devices.everywhere((batch, model, key))
two = slope(lambda m, b: m(devices.spread(b), key=key, epoch=0.0), model, batch)
for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * np.abs(a).max())
from test_devices import trained_weights
np.savez(sys.argv[1], *trained_weights())
"""


def trained_weights() -> list[np.ndarray]:
    """Of a model after two epochs in batches that two devices can share."""
    series = as_series(np.random.default_rng(0).normal(size=(16, 7, 3)).cumsum(1), target=np.arange(16) % 2)
    config = TrainConfig(epochs=2, batch_size=8, seed=3)
    settings = {"task": "classification", "model": "ncde", "options": SIZES, "config": config}
    fitted, trained = train_model(series, series, **settings)
    assert len(trained.history.rows) == 2
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(fitted.model, eqx.is_inexact_array))]


@pytest.mark.slow
def test_two_processes_give_the_gradient_and_the_weights_of_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = {**os.environ, "PYTHONPATH": PLACES, "JAX_PLATFORMS": "cpu"}
    command = lambda i: [sys.executable, "-c", TOGETHER, str(tmp_path / f"{i}.npz")]
    asked = lambda i: {**env, "LEAPCDE_PROCESSES": f"{address},2,{i}"}
    both = [subprocess.Popen(command(i), env=asked(i), stderr=subprocess.PIPE, text=True) for i in range(2)]
    told = [one.communicate()[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    first, second = (list(np.load(tmp_path / f"{i}.npz").values()) for i in range(2))
    for a, b, c in zip(first, second, trained_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("asked", ["here", "10.0.0.1:1234,2", "10.0.0.1:1234,2,2", "10.0.0.1,2,0", "10.0.0.1:1,two,0"])
def test_where_processes_meet_is_checked(asked, monkeypatch):
    monkeypatch.setenv("LEAPCDE_PROCESSES", asked)
    with pytest.raises(InputError, match="LEAPCDE_PROCESSES"):
        meet_others()


@pytest.mark.parametrize("control", [1, 3, FEW_COLUMNS, FEW_COLUMNS + 1])
def test_drive_is_the_matrix_times_the_control_with_its_gradients(control, x64):
    """The fast product against the plain one, on both sides of the number of columns where its program changes."""
    draw = np.random.default_rng(0).normal
    given = tuple(jnp.asarray(draw(size=shape)) for shape in ((4, 5 * control), (5 * control,), (6, 4), (6, control)))

    def plain(weight, bias, u, dX):
        matrix = jnp.tanh(u @ weight + bias).reshape(6, control, 5)
        return jnp.einsum("bcs,bc->bs", matrix, dX)

    def both(function):
        slopes = jax.grad(lambda *inputs: jnp.sum(jnp.sin(function(*inputs))), argnums=(0, 1, 2, 3))(*given)
        return [function(*given), *slopes]

    for mine, theirs in zip(both(drive), both(plain), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


# XLA's own count for the gradient on the shape of Character Trajectories; it counts the body of a loop once. Seconds
# depend on the machine, these do not: a change that raises them makes training slower everywhere. (flops, bytes, temporary)
WORK = {"ncde": (18.2e6, 40e6, 20e6), "leap": (113e6, 76e6, 29e6)}


@pytest.mark.parametrize("model", WORK)
def test_a_training_step_does_no_more_work_than_it_did(model, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    problems = importlib.import_module("problems")
    p = problems.problem(
        model, **problems.SHAPES["character-trajectories"], **({} if model == "ncde" else {"decoder_steps": 32})
    )
    compiled = problems.gradient.lower(p.model, p.batch, p.labels, p.key, p.augment).compile().compiled
    counted = compiled.cost_analysis()
    found = (counted["flops"], counted["bytes accessed"], compiled.memory_analysis().temp_size_in_bytes)
    assert all(a <= b for a, b in zip(found, WORK[model], strict=True)), found
    # NCDE: two stages of a step forward, twice as much backward, and the last layer once more; nothing else of that size.
    layers = [2 * layer.weight.size * len(p.labels) for layer in p.model.g.net.layers]
    assert model != "ncde" or found[0] < 1.05 * 2 * (3 * sum(layers) + layers[-1])

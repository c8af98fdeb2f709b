"""What every model in the registry must do, LEAP included. A new model is tested by being registered."""

from __future__ import annotations

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import awake
from leapcde.baselines.fitted import fit_baseline
from leapcde.data.batch import pad
from leapcde.data.drop import drop, without_empty_rows
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.data.windows import windows
from leapcde.datasets import character_trajectories, hopper
from leapcde.datasets.registry import load
from leapcde.errors import InputError
from leapcde.models.base import Spec
from leapcde.models.registry import MODELS, build, count_parameters, options_of
from leapcde.paths.batch import Batch, Recipe
from leapcde.training.augment import Augment
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel, train_model
from leapcde.training.predict import predict
from leapcde.training.preprocess import Preprocessor
from leapcde.training.step import task_loss

pytestmark = pytest.mark.filterwarnings("ignore:never observed")  # the hard samples below are meant to be hard
# (Latent dimensions: a linear decoder of fewer than the 14 channels of Hopper cannot move them all.)
SMALL = {"hidden": 12, "width": 16, "latent": 24, "f_width": 16, "decoder_steps": 8, "attention_width": 8, "layer_width": 16}
PAPER = ("rnn", "lstm", "gru", "gru-dt", "gru-d", "gru-ode", "ode-rnn", "latent-ode", "augmented-ode", "ace-node")
# LEAP but for its penalty: the same programs again, so it is asked in the slow tests.
# The same programs as others, and a layer: asked in the slow tests.
SLOW = {name for name in MODELS if name.startswith(("layers+", "ages+"))} - {"layers+gru-ode", "ages+gru"} | {"leap:restart"}
ALL = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]

LONG = ("leap+", "leap", "ncde", "gru-d", "ode-rnn")  # one of each way to go along a series; the others in the slow tests


def small(name: str, **more) -> dict:
    return {key: value for key, value in {**SMALL, **more}.items() if key in options_of(name)}


def test_the_papers_thirteen_and_its_ablations_are_there():
    assert {*PAPER, "ncde", "ancde", "leap"} == {name for name, info in MODELS.items() if not info.variant}
    assert {name for name, info in MODELS.items() if info.variant} == {
        "leap+",
        "leap+:gru-ode",
        "leap:restart",
        *(f"layers+{of}" for of in ("gru-ode", "ode-rnn", "ncde")),
        *(f"ages+{of}" for of in ("gru", "latent-ode", "ace-node", "leap")),
    }


# --- shapes, without computing anything --------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classification", "regression", "forecasting"])  # the others have the shape of classes
@pytest.mark.parametrize("name", ALL)
def test_shape_of_every_task_with_and_without_statics_and_extra_channels(name, task):
    output = {"classification": (5,), "regression": (1,), "forecasting": (4, 3)}[task]
    for recipe, static in ((Recipe(), 2), (Recipe("rectilinear", time_channel=False, intensity=True), 0)):
        series = as_series(np.ones((3, 7, 3)), static=np.ones((3, static)) if static else None, target=np.arange(3))
        preprocessor = Preprocessor.learn(series, "classification", recipe)
        spec = replace(preprocessor.spec, task=task, output=output)
        batch = preprocessor.encode(series)[0].batch
        if task == "forecasting":  # training knows what is to be forecast
            batch = batch._replace(obs=batch.obs._replace(target=jnp.zeros((3, *output))))
        for key in (None, jax.random.key(0)):
            run = lambda key=key, spec=spec, batch=batch: build(name, spec, **small(name))(batch, key=key, epoch=1.0)
            found = eqx.filter_eval_shape(run)
            assert found.prediction.shape == (3, *output)
            assert found.penalty.shape == ()


@pytest.mark.parametrize("name", ALL)
def test_options_are_checked(name):
    spec = Spec("classification", 3, 4, (5,))
    with pytest.raises(InputError, match="no option 'nonsense'"):
        build(name, spec, nonsense=1)
    with pytest.raises(InputError, match="hidden=0"):
        build(name, spec, hidden=0)
    assert not {"cell", "deltas", "of"} & set(options_of(name))


# --- hard input ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hard() -> Series:
    """Real movements, mistreated: lengths 1 to 100, missing values, a channel never seen, rows with nothing, statics."""
    array = hopper.bundled()[:12, :, :4]
    rng = np.random.default_rng(0)
    samples = []
    for i, n in enumerate([1, 2, 3, 5, 9, 20, 33, 50, 70, 88, 97, 100]):
        values = np.where(rng.random((n, 4)) < 0.4, np.nan, array[i, :n])
        values[0, 0] = array[i, 0, 0]
        if i % 2:
            values[:, 1] = np.nan  # never seen
        if n > 10:
            values[4:7] = np.nan  # nothing at all
        samples.append((np.cumsum(rng.exponential(size=n)), values))
    return as_series(samples, static=rng.normal(size=(12, 2)), target=np.arange(12) % 3)


@pytest.fixture(scope="module", params=ALL)
def fitted(request, hard) -> FittedModel:
    preprocessor = Preprocessor.learn(hard, "classification", Recipe(intensity=True))
    name, options = request.param, small(request.param)
    return FittedModel(preprocessor, build(name, preprocessor.spec, seed=1, **options), name, options)


def gradient_of(model, batch, task="classification"):
    def loss(model):
        prediction, penalty = model(batch, key=jax.random.key(0), epoch=5.0)
        return task_loss(task, prediction, batch.obs.target) + penalty

    return eqx.filter_jit(eqx.filter_grad(loss))(model)


def dead(gradient) -> list[str]:
    """Parameters that the loss does not move."""
    leaves = jax.tree_util.tree_leaves_with_path(gradient)
    return [jax.tree_util.keystr(key) for key, leaf in leaves if leaf.size and not np.any(np.asarray(leaf))]


def one_batch(preprocessor: Preprocessor, series: Series):
    """All samples in one shape, whatever their lengths."""
    scaled = preprocessor.scaler.apply(without_empty_rows(series))
    obs = pad(replace(scaled, target=preprocessor.encode_target(np.asarray(series.target))))
    obs = jax.tree.map(jnp.asarray, obs)
    return Batch(obs, preprocessor.recipe.path(obs))


def some_hidden(preprocessor: Preprocessor, batch: Batch) -> Batch:
    """As a training step may have it: a learned path may be taught by what was hidden alone."""
    return Augment(hide=0.5, recipe=preprocessor.recipe)(batch, jax.random.key(0))


def test_ragged_missing_and_single_observations(fitted, hard):
    """Predictions are finite, and each sample's is the same alone, among others, and behind more padding."""
    batch = one_batch(fitted.preprocessor, hard)
    together = np.asarray(eqx.filter_jit(fitted.model)(batch).prediction)
    assert np.isfinite(together).all()
    for i in (0, 5):
        alone = fitted.raw(hard.take([i]))
        np.testing.assert_allclose(alone[0], together[i], atol=2e-4, rtol=1e-3)


def test_gradients_reach_every_parameter_and_are_finite(fitted, hard):
    gradient = gradient_of(fitted.model, some_hidden(fitted.preprocessor, one_batch(fitted.preprocessor, hard)))
    assert dead(gradient) == []
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_save_and_load(fitted, hard, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    loaded = FittedModel.load(tmp_path / "model.safetensors")
    assert loaded.options == fitted.options and loaded.preprocessor == fitted.preprocessor
    pairs = zip(jax.tree.leaves(fitted.model), jax.tree.leaves(loaded.model), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    one = hard.take([8])
    np.testing.assert_array_equal(loaded.raw(one), fitted.raw(one))
    assert count_parameters(loaded.model) == count_parameters(fitted.model)


@pytest.mark.parametrize("name", ["latent-ode", "augmented-ode", "leap", "leap+", "gru-d"])
def test_gradients_reach_every_parameter_in_forecasting(name):
    cut = drop(windows(as_series(hopper.bundled()[:8, :40]), 30, 5), 0.4, what="values")
    preprocessor = Preprocessor.learn(cut, "forecasting", Recipe())
    batch = some_hidden(preprocessor, preprocessor.encode(cut.take(range(16)))[0].batch)
    assert dead(gradient_of(awake(build(name, preprocessor.spec, **small(name))), batch, "forecasting")) == []


@pytest.mark.parametrize("name", ["leap", "leap+", "gru-d", "latent-ode"])
def test_a_forecaster_that_has_learned_nothing_stands_still(name):
    """It starts as the last-value forecast, which is hard to beat."""
    cut = drop(windows(as_series(hopper.bundled()[:4, :40]), 30, 5), 0.4, what="values")
    preprocessor = Preprocessor.learn(cut, "forecasting", Recipe())
    model, buckets = build(name, preprocessor.spec, **small(name)), preprocessor.encode(cut)
    last = fit_baseline("last-value", cut, cut, preprocessor).outputs(cut)
    assert np.array_equal(predict(model, buckets), last) == (name != "latent-ode")  # which decodes its own change


@pytest.mark.parametrize("name", [name if name in LONG else pytest.param(name, marks=pytest.mark.slow) for name in MODELS])
def test_five_hundred_rows(name):
    """A long series neither overflows nor drowns its first rows' statics."""
    walk = np.cumsum(np.random.default_rng(0).normal(size=(2, 500, 2)), 1)
    series = as_series(walk, target=np.arange(2))
    preprocessor = Preprocessor.learn(series, "classification", Recipe())
    assert np.isfinite(predict(build(name, preprocessor.spec, **small(name)), preprocessor.encode(series))).all()


# --- learning ------------------------------------------------------------------------------------------------------

# Learning takes time: `make test` teaches letters to LEAP (forecasts are README's example), `make test-slow` to all.
KINDS = ("leap",)
LEARNERS = [pytest.param(name, marks=[] if name in KINDS else [pytest.mark.slow]) for name in MODELS]
FORECASTERS = [pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
LEARN = {"latent-ode": {"learning_rate": 1e-2}, "augmented-ode": {"learning_rate": 1e-2}}


@pytest.fixture(scope="module")
def letters(data_dir) -> tuple[Series, Series, Series]:
    """Four letters of Character Trajectories: the first 88 time points, every fourth of them, 30 % of those dropped.

    One length, so that each model compiles once.
    """
    series = character_trajectories.load(data_dir)
    labels, long = np.asarray(series.target), series.lengths >= 88
    chosen = np.concatenate([np.flatnonzero((labels == label) & long)[:60] for label in ("1", "2", "5", "12")])
    few = series.take(chosen)
    row = np.arange(len(few.times)) - np.repeat(few.offsets[:-1], few.lengths)
    thin = drop(few.keep_rows((row % 4 == 0) & (row < 88)), 0.3)
    return split(thin, labels=np.asarray(thin.target))


def trained(name: str, parts, task: str, **config):
    settings = {"epochs": 60, "batch_size": 16, "learning_rate": 5e-3, "seed": 1, **LEARN.get(name, {}), **config}
    return train_model(
        parts[0], parts[1], task=task, model=name, options=small(name, hidden=16), config=TrainConfig(**settings)
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_learns_letters_and_the_same_seed_gives_the_same_bits(name, letters):
    fitted, result = trained(name, letters, "classification")
    accuracy = fitted.evaluate(letters[2])["accuracy"]
    assert accuracy >= 0.6, f"{name}: {accuracy:.2f}, chance is 0.25"
    again, repeated = trained(name, letters, "classification")
    assert [row["train_total"] for row in repeated.history.rows] == [row["train_total"] for row in result.history.rows]
    assert np.array_equal(fitted.raw(letters[2]), again.raw(letters[2]))


@pytest.mark.parametrize("name", FORECASTERS)
def test_forecasts_better_than_the_last_value(name):
    data = load("hopper", drop_rate=0.3)
    train, validation, test = data.train.take(range(1600)), data.validation.take(range(256)), data.test.take(range(256))
    fitted, _ = trained(name, (train, validation), "forecasting", epochs=12, batch_size=32)
    last = fit_baseline("last-value", train, validation, fitted.preprocessor)
    ours, naive = fitted.evaluate(test)["mse"], last.evaluate(test)["mse"]
    assert ours < 0.9 * naive, f"{name}: {ours:.4f}, last value {naive:.4f}"

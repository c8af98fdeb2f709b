from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import leapcde.training.loop as train_module
import leapcde.training.step as step_module
from leapcde.data.read import as_series
from leapcde.datasets.registry import load
from leapcde.errors import CheckpointError, InputError, LeapWarning, SolveError, TrainingError
from leapcde.models.registry import build
from leapcde.nn.losses import cross_entropy, path_loss, weight_norms
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel, train_model
from leapcde.training.history import History
from leapcde.training.loop import fit
from leapcde.training.metrics import measure
from leapcde.training.predict import predict, targets
from leapcde.training.preprocess import Preprocessor
from leapcde.training.schedule import _plateaus, plan, rates

TINY = {"hidden": 6, "width": 8}


@pytest.fixture(scope="module")
def task():
    """Real physics, small: 96 Hopper windows to learn from."""
    data = load("hopper", drop_rate=0.3)
    train, validation = data.train.take(range(96)), data.validation.take(range(40))
    preprocessor = Preprocessor.learn(train, "forecasting", Recipe())
    return preprocessor, preprocessor.encode(train), preprocessor.encode(validation)


def leaves(model):
    return jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))


def same_bits(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(leaves(a), leaves(b), strict=True))


def run(task, model="leap", **settings):
    preprocessor, train, validation = task
    extra = {key: settings.pop(key) for key in ("checkpoint", "on_epoch") if key in settings}
    config = TrainConfig(**{"epochs": 3, "batch_size": 16, "learning_rate": 3e-3, **settings})
    made = build(model, preprocessor.spec, seed=config.seed, **TINY, **({"decoder_steps": 6} if model == "leap" else {}))
    return fit(made, "forecasting", train, validation, config, metric="mse", **extra)


@pytest.fixture(scope="module")
def three_epochs(task):
    return run(task)


def test_learns_and_keeps_the_best_weights(task, three_epochs):
    _, _, validation = task
    losses = three_epochs.history.column("train_loss")
    assert losses[-1] < losses[0]
    found = np.mean((predict(three_epochs.model, validation) - targets(validation)) ** 2)
    np.testing.assert_allclose(found, min(three_epochs.history.column("mse")), rtol=1e-5)
    assert three_epochs.stopped == "all 3 epochs done"


def test_same_seed_same_bits_other_seed_other_bits(task, three_epochs):
    assert same_bits(run(task).model, three_epochs.model)
    assert not same_bits(run(task, seed=1).model, three_epochs.model)


def test_resume_is_bit_identical(task, three_epochs, tmp_path):
    class Stop(Exception):
        pass

    def stop(row):
        if row["epoch"] == 1:
            raise Stop

    path = tmp_path / "training.safetensors"
    with pytest.raises(Stop):
        run(task, checkpoint=path, on_epoch=stop)
    resumed = run(task, checkpoint=path)
    assert same_bits(resumed.model, three_epochs.model)
    assert resumed.history.column("train_loss") == three_epochs.history.column("train_loss")
    again = run(task, checkpoint=path)  # nothing left to do
    assert same_bits(again.model, three_epochs.model)


def test_resume_refuses_other_settings(task, tmp_path):
    path = tmp_path / "training.safetensors"
    run(task, "ncde", epochs=1, checkpoint=path)
    with pytest.raises(CheckpointError, match="other settings"):
        run(task, "ncde", epochs=1, learning_rate=1e-4, checkpoint=path)


COMMAND = [sys.executable, "-m", "leapcde", "train", "hopper", "--model", "ncde", "--quiet", "--epochs", "4"]
COMMAND += ["--batch-size", "64", "--drop", "0.5", "-o", "hidden=4", "-o", "width=4", "-o", "depth=1", "--out"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("whole") / "run"
    subprocess.run([*COMMAND, str(folder)], check=True, stdout=subprocess.DEVNULL)
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow  # `make test` kills sweeps (test_sweep.py), whose cells resume in the same way
@pytest.mark.parametrize("after", ["config.json", "training.safetensors"])
def test_kill_9_and_resume_gives_the_same_weights(tmp_path, undisturbed, after):
    """Killed in the first epoch, or after it, then run again with the same command: the same file, byte by byte."""
    folder = tmp_path / "run"
    killed = subprocess.Popen([*COMMAND, str(folder)])
    while not (folder / after).exists() and killed.poll() is None:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (folder / "model.safetensors").exists()
    subprocess.run([*COMMAND, str(folder)], check=True, stdout=subprocess.DEVNULL)
    assert (folder / "model.safetensors").read_bytes() == undisturbed


def test_training_step_is_traced_once(task, monkeypatch):
    """Epochs, new orders, keys and rates must not compile anything again."""
    _, train, _ = task
    traced = []
    original = step_module.task_loss
    monkeypatch.setattr(step_module, "task_loss", lambda *args: traced.append(1) or original(*args))
    run(task, "ncde", epochs=4, schedule="cosine", batch_size=13)
    assert len(train) == 1
    # One trace of the scan's body for its type, one inside the gradient at most.
    assert len(traced) <= 2


def test_divergence_rolls_back_and_gives_up_with_a_message(task):
    with pytest.raises(TrainingError, match="lower the rate"):
        run(task, "ncde", learning_rate=1e30, clip=None)


def test_divergence_later_keeps_the_best(task, monkeypatch):
    original, tried = train_module._epoch, []

    def broken(step, config, state, train, history, halvings, on_step):
        if len(history.rows) == 2:
            tried.append(halvings)
            return state, None
        return original(step, config, state, train, history, halvings, on_step)

    monkeypatch.setattr(train_module, "_epoch", broken)
    with pytest.warns(LeapWarning, match="best weights so far are kept"):
        trained = run(task, "ncde", epochs=5)
    assert tried == [0, 1, 2, 3]
    assert len(trained.history.rows) == 2
    assert all(np.isfinite(leaf).all() for leaf in leaves(trained.model))


def test_halved_rate_is_used_after_a_rollback(task, monkeypatch):
    original, failed = train_module._epoch, []

    def once(step, config, state, train, history, halvings, on_step):
        if len(history.rows) == 1 and not failed:
            failed.append(True)
            return state, None
        return original(step, config, state, train, history, halvings, on_step)

    monkeypatch.setattr(train_module, "_epoch", once)
    rates = run(task, "ncde", schedule="constant").history.column("learning_rate")
    assert rates == pytest.approx([3e-3, 1.5e-3, 1.5e-3])


def test_patience_stops_on_the_loss_named(task):
    trained = run(task, "ncde", epochs=50, patience=2, learning_rate=1e-12, schedule="constant", stop_on="validation")
    assert "val_loss did not improve for 2 epochs" in trained.stopped
    assert len(trained.history.rows) < 50


def test_schedules():
    config = TrainConfig(epochs=10, learning_rate=1.0, schedule="cosine")
    assert rates(config, History(), 0, 4)[0] == 1.0
    assert rates(config, History(), 9, 4)[-1] < 0.01
    assert np.all(np.diff(rates(config, History(), 3, 100)) < 0)
    assert _plateaus([3, 2, 1]) == 0
    assert _plateaus([1, 2, 2, 2, 2, 2]) == 1
    flat = History([{"train_loss": 1.0}] * 6)
    assert rates(replace(config, schedule="plateau"), flat, 6, 2).tolist() == [0.5, 0.5]
    assert rates(replace(config, schedule="constant"), flat, 6, 2).tolist() == [1.0, 1.0]


def test_plan_uses_every_sample(task):
    _, train, _ = task
    pieces = plan(train, TrainConfig(batch_size=10), 0)
    used = np.concatenate([order.ravel() for _, order in pieces])
    assert len(used) == 100
    assert len(np.unique(used)) == 96
    assert not np.array_equal(used, np.concatenate([o.ravel() for _, o in plan(train, TrainConfig(batch_size=10), 1)]))


def test_one_class_in_validation_falls_back_to_the_loss(tmp_path):
    rng = np.random.default_rng(0)
    label = np.arange(24) % 2
    train = as_series(rng.normal(size=(24, 6, 1)) + label[:, None, None], target=label)
    validation = train.take(np.flatnonzero(label == 1))
    options, path = {"hidden": 4, "width": 4}, tmp_path / "training.safetensors"
    config = TrainConfig(epochs=3, learning_rate=1e-2)
    start = build("ncde", Preprocessor.learn(train, "classification", Recipe()).spec, seed=0, **options)
    for _ in range(2):  # the second time from its checkpoint
        with pytest.warns(LeapWarning, match="one class only"):
            _, trained = train_model(
                train, validation, task="classification", model="ncde", options=options, config=config, checkpoint=path
            )
        assert not same_bits(trained.model, start)


def test_infinite_weights_are_divergence_even_with_a_finite_loss(task, monkeypatch):
    """The last step of an epoch may spoil the weights without any loss having seen them."""
    original = train_module.run_steps

    def spoiled(*args):
        state, losses = original(*args)
        return state._replace(params=jax.tree.map(lambda a: a * np.inf, state.params)), losses

    monkeypatch.setattr(train_module, "run_steps", spoiled)
    with pytest.raises(TrainingError, match="lower the rate"):
        run(task, "ncde")


def test_scores_that_are_not_finite_are_no_metric():
    found = measure("classification", np.full((3, 4), np.nan), np.array([0, 0, 1]))
    assert all(np.isnan(value) for value in found.values())


def test_failed_adaptive_solve_is_a_clear_error(task):
    preprocessor, _, validation = task
    model = build("ncde", preprocessor.spec, **TINY, solver="adaptive-tsit5", solver_options={"max_steps": 2})
    with pytest.raises(SolveError, match="max_steps"):
        predict(model, validation)
    one = as_series(np.zeros((1, 5, len(preprocessor.channels))))
    with pytest.raises(SolveError, match="max_steps"):  # of few samples, whose program is another
        FittedModel(preprocessor, model, "ncde", {}).new_outputs(one)


def test_regression_is_measured_in_the_units_of_the_target():
    rng = np.random.default_rng(0)
    series = as_series(rng.normal(size=(30, 5, 1)), target=1000 + 100 * rng.normal(size=30))
    fitted, _ = train_model(series, series, task="regression", model="ncde", options=TINY, config=TrainConfig(epochs=1))
    error = fitted.predict(series) - series.target
    np.testing.assert_allclose(fitted.evaluate(series)["mae"], np.abs(error).mean(), rtol=1e-3)
    np.testing.assert_allclose(fitted.evaluate(series)["mse"], (error**2).mean(), rtol=1e-3)


def test_bursts_that_single_precision_cannot_tell_apart_are_reported():
    times = np.concatenate([day * 86_400 + np.arange(20) * 0.01 for day in range(6)])
    series = as_series([(times, np.linspace(1, 2, 120))] * 4, target=np.arange(4) % 2)
    preprocessor = Preprocessor.learn(series, "classification", Recipe())
    with pytest.warns(LeapWarning, match="too close"):
        path = preprocessor.encode(series)[0].batch.X
    # Still a ramp: knots that share a time share a value near their own, not the channel's last one.
    assert (
        np.abs(np.asarray(path.values[0, :, 1]) - preprocessor.scaler.scale(np.linspace(1, 2, 120)[:, None])[:, 0]).max() < 0.7
    )


def test_rows_without_observations_change_nothing():
    """Training drops such rows; a file at prediction time may have them again."""
    plain = as_series([([0.0, 1.0, 3.0], [1.0, 2.0, 0.0])] * 4, target=np.arange(4) % 2)
    holes = as_series([([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, np.nan, 0.0])] * 4)
    preprocessor = Preprocessor.learn(plain, "classification", Recipe("hermite"))
    fitted = FittedModel(preprocessor, build("ncde", preprocessor.spec, **TINY), "ncde", TINY)
    assert np.array_equal(fitted.raw(plain), fitted.raw(holes))


def test_weight_penalty_changes_training_but_no_metric(task):
    plain, heavy = run(task, "ncde", weight_penalty=0.0), run(task, "ncde", weight_penalty=1.0)
    assert weight_norms(heavy.model.regularised()) < weight_norms(plain.model.regularised())
    row = heavy.history.rows[-1]
    assert row["train_total"] > row["train_loss"] + 1
    assert row["val_loss"] == row["mse"]


def test_noise_in_training_reaches_the_weights_and_no_prediction(task):
    plain, shaken, again = run(task, "ncde"), run(task, "ncde", noise=0.5), run(task, "ncde", noise=0.5)
    assert not same_bits(plain.model, shaken.model) and same_bits(shaken.model, again.model)
    row = shaken.history.best("mse")  # of the validation data as it is
    np.testing.assert_allclose(np.mean((predict(shaken.model, task[2]) - targets(task[2])) ** 2), row["mse"], rtol=1e-5)


def test_a_config_without_noise_is_written_as_before_there_was_any():
    assert "noise" not in TrainConfig().to_json() and TrainConfig(**TrainConfig().to_json()) == TrainConfig()
    assert TrainConfig(**TrainConfig(noise=0.3).to_json()).noise == 0.3


def test_adamw_decays_weights(task):
    adam, adamw = run(task, "ncde"), run(task, "ncde", optimizer="adamw", weight_decay=10.0)
    assert weight_norms(adamw.model) < weight_norms(adam.model)


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
        {"learning_rate": -1},
        {"learning_rate": float("nan")},
        {"schedule": "linear"},
        {"optimizer": "sgd"},
        {"patience": 0},
        {"clip": -1},
        {"noise": -0.1},
        {"noise": float("nan")},
    ],
)
def test_bad_settings(bad):
    with pytest.raises(InputError):
        TrainConfig(**bad)


def test_class_weights_balance_the_loss():
    logits, labels = jnp.array([[2.0, 0.0]] * 9 + [[2.0, 0.0]]), jnp.array([0] * 9 + [1])
    weights = jnp.array([10 / 18, 10 / 2])
    per_class = -jax.nn.log_softmax(logits[0])
    np.testing.assert_allclose(cross_entropy(logits, labels, weights), per_class.mean(), rtol=1e-6)


def test_path_loss_against_a_loop():
    rng = np.random.default_rng(0)
    Y, x = rng.normal(size=(2, 3, 5, 2)).astype(np.float32)
    mask = (rng.random((3, 5, 2)) < 0.6).astype(np.float32)
    trace = rng.normal(size=3).astype(np.float32)
    want = 0.0
    for j in range(3):
        rows = [i for i in range(5) if mask[j, i].any()]
        total = sum(0.2 * (Y[j, i, c] - x[j, i, c]) ** 2 for i in rows for c in range(2) if mask[j, i, c])
        want += (total + 0.4 * trace[j]) / len(rows) / 3
    np.testing.assert_allclose(path_loss(*map(jnp.asarray, (Y, x, mask, trace)), alpha=0.2, beta=0.4), want, rtol=1e-5)


def test_save_and_load_give_the_same_bits(task, three_epochs, tmp_path):
    preprocessor, _, _ = task
    data = load("hopper", drop_rate=0.3).test.take(range(5))
    options = {**TINY, "decoder_steps": 6}
    saved = FittedModel(preprocessor, three_epochs.model, "leap", options)
    saved.save(tmp_path / "m.safetensors")
    loaded = FittedModel.load(tmp_path / "m.safetensors")
    assert loaded.preprocessor == preprocessor
    assert np.array_equal(loaded.predict(data), saved.predict(data))
    for key, value in saved.path(data).items():
        assert np.array_equal(value, loaded.path(data)[key])

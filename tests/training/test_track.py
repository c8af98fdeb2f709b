"""Following a training: callbacks that stop it, fail, or write elsewhere; lines where no terminal is; summaries."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from leapcde import load
from leapcde.errors import InputError, MissingDependencyError
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.training.fitted import FittedModel
from leapcde.training.track import Callback, MLflow, TensorBoard, progress

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 6, 2)), np.arange(24.0)
SMALL = {"model": "gru", "options": {"hidden": 4}, "epochs": 4}


class Log(Callback):
    """Writes down what it is told."""

    def __init__(self, answer=None, at: int = 1):
        self.answer, self.at = answer, at
        self.started, self.rows, self.ended = [], [], []

    def on_start(self, settings):
        self.started.append(settings)

    def on_epoch(self, row):
        self.rows.append(row)
        if row["epoch"] == self.at:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    def on_end(self, outcome):
        self.ended.append(outcome)


@pytest.fixture(scope="module")
def whole():
    log = Log()
    return LeapRegressor(**SMALL).fit(X, Y, callbacks=[log]), log


def test_callbacks_see_start_epochs_and_end(whole):
    one, log = whole
    assert log.rows == one.history_ and len(log.rows) == 4
    assert log.started[0]["train"]["epochs"] == 4 and log.started[0]["options"]["hidden"] == 4
    (end,) = log.ended
    assert end["failed"] is False and end["stopped"] == one.stopped_ == "all 4 epochs done"
    assert end["best"]["mse"] == min(row["mse"] for row in log.rows)


@pytest.mark.parametrize("answer", [True, "stop", np.True_])
def test_an_answer_ends_training_cleanly(answer, whole):
    """With the weights that training for so many epochs would have; other callbacks are told as well."""
    first, second = Log(answer), Log()
    one = LeapRegressor(**SMALL).fit(X, Y, callbacks=[first, second])
    assert one.n_iter_ == 2 and one.stopped_ == "a callback stopped it after 2 epochs"
    assert len(second.rows) == 2 and second.ended == first.ended and not first.ended[0]["failed"]
    assert [row["mse"] for row in one.history_] == [row["mse"] for row in whole[0].history_[:2]]
    assert np.isfinite(one.predict(X)).all()


@pytest.mark.parametrize("answer", [None, False, 1, "go on", [True], {"a": 1}])
def test_other_answers_are_no_stop(answer):
    assert LeapRegressor(**SMALL).set_params(epochs=2).fit(X, Y, callbacks=[Log(answer, at=0)]).n_iter_ == 2


@pytest.mark.parametrize("error", [RuntimeError("disk full"), KeyboardInterrupt()])
def test_after_an_exception_training_goes_on_with_the_same_bits(error, whole, tmp_path):
    path, log, other = tmp_path / "training.safetensors", Log(error), Log()
    if isinstance(error, KeyboardInterrupt):
        log.on_epoch = lambda row: (_ for _ in ()).throw(error) if row["epoch"] == 1 else None
    one = LeapRegressor(**SMALL)
    with pytest.raises(type(error)):
        one.fit(X, Y, checkpoint=path, callbacks=[log, other])
    assert other.ended[0]["failed"] and type(error).__name__ in other.ended[0]["stopped"]
    with pytest.raises(NotFittedError):
        one.predict(X)
    resumed = LeapRegressor(**SMALL).fit(X, Y, checkpoint=path)
    np.testing.assert_array_equal(resumed.predict(X), whole[0].predict(X))


def test_functions_and_objects_with_one_method_are_callbacks():
    rows, started = [], []
    LeapRegressor(**SMALL).set_params(epochs=1).fit(X, Y, callbacks=[rows.append, SimpleNamespace(on_start=started.append)])
    assert len(rows) == len(started) == 1


@pytest.mark.parametrize("wrong", [3, "mlflow", Log, object()])
def test_what_is_no_callback_is_refused_before_training(wrong):
    watching = Log()
    with pytest.raises(InputError, match="on_start, on_epoch, on_end"):
        LeapRegressor(**SMALL).fit(X, Y, callbacks=[watching, wrong])
    assert not watching.started


# Trackers


class Client:
    """As much of MLflow's client as is used."""

    def __init__(self, tracking_uri=None):
        self.uri, self.calls = tracking_uri, []

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return f"number of {name}"

    def create_run(self, experiment, run_name=None):
        self.calls.append(("run", experiment, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def __getattr__(self, name):
        return lambda *args, **more: self.calls.append((name, *args, *more.values()))


class Writer:
    """As much of TensorBoard's writer as is used."""

    def __init__(self, folder):
        self.folder, self.points, self.open = folder, [], True

    def add_scalar(self, tag, value, step):
        self.points.append((tag, value, step))

    def flush(self):
        pass

    def close(self):
        self.open = False


def test_mlflow_has_settings_curves_and_the_end(monkeypatch):
    module = ModuleType("mlflow")
    module.MlflowClient = Client
    monkeypatch.setitem(sys.modules, "mlflow", module)
    kept = MLflow("falls", name="first", uri="sqlite:///x.db")
    one = LeapRegressor(**SMALL).set_params(epochs=2).fit(X, Y, callbacks=[kept])
    calls = kept.client.calls
    assert kept.client.uri == "sqlite:///x.db" and calls[0] == ("run", "number of falls", "first")
    assert ("log_param", "r1", "train.epochs", "2") in calls
    assert [call[3:] for call in calls if call[:3] == ("log_metric", "r1", "mse")] == [
        (row["mse"], i) for i, row in enumerate(one.history_)
    ]
    assert calls[-1] == ("set_terminated", "r1", "FINISHED")
    with pytest.raises(RuntimeError):
        LeapRegressor(**SMALL).fit(X, Y, callbacks=[kept, Log(RuntimeError("no"), at=0)])
    assert kept.client.calls[-1] == ("set_terminated", "r1", "FAILED")


def test_tensorboard_has_a_point_an_epoch_and_is_closed(monkeypatch, tmp_path):
    module = ModuleType("tensorboard.summary")
    module.Writer = Writer
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "tensorboard.summary", module)
    kept = TensorBoard(tmp_path / "curves")
    one = LeapRegressor(**SMALL).set_params(epochs=2).fit(X, Y, callbacks=[kept])
    assert [point for point in kept.writer.points if point[0] == "val_loss"] == [
        ("val_loss", row["val_loss"], i) for i, row in enumerate(one.history_)
    ]
    assert not kept.writer.open and not {"epoch", "seconds"} & {tag for tag, *_ in kept.writer.points}


@pytest.mark.parametrize(("module", "make"), [("mlflow", MLflow), ("tensorboard.summary", lambda: TensorBoard("x"))])
def test_trackers_say_what_to_install(monkeypatch, module, make):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=r"leapcde\[track\]"):
        make()


# Progress without a terminal


def watched(seconds: float, epochs: int = 5, monkeypatch=None) -> list[str]:
    """What is written of a training whose epochs take so many seconds each."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with redirect_stderr(io.StringIO()) as err, progress.watch_training("leap+", epochs, "mse", quiet=False) as hooks:
        for epoch in range(epochs):
            for done in (1, 2):
                now[0] += seconds / 2
                hooks.on_step(done, 2)
            hooks.on_epoch({"epoch": epoch, "train_loss": 0.5, "mse": 1.0, "learning_rate": 1e-3})
    return err.getvalue().splitlines()


def test_lines_are_ten_seconds_apart_besides_first_and_last(monkeypatch):
    fast = watched(0.1, monkeypatch=monkeypatch)
    assert fast[0] == "leap+: up to 5 epochs; compiling …" and len(fast) == 3
    assert fast[1].startswith("leap+: epoch 1 of 5, loss 0.5000  val mse 1.0000") and fast[2].startswith(
        "leap+: 5 epochs in 0:00"
    )
    slow = watched(12.0, monkeypatch=monkeypatch)
    assert [line for line in slow if "epoch 3 of 5" in line] and len(slow) <= 2 + 60 / 10 + 1
    assert any("step" in line for line in watched(40.0, monkeypatch=monkeypatch))
    assert not any("\x1b" in line or "━" in line for line in fast + slow)


def test_a_terminal_has_a_bar(monkeypatch):
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    lines = watched(0.1, monkeypatch=monkeypatch)
    assert not any("compiling …" in line and line.startswith("leap+: ") for line in lines)


def test_counts_and_downloads_in_lines(monkeypatch):
    with redirect_stderr(io.StringIO()) as err:
        with progress.watch_count("cells", 3, quiet=False) as tell:
            [tell(done) for done in (1, 2, 3)]
        with progress.watch_bytes(quiet=False) as watch:
            watch("a.zip")(5_000_000, 5_000_000)
    assert err.getvalue().splitlines() == ["cells: 3 to do", "cells: 3 of 3, 0:00", "a.zip: 5.0 of 5.0 MB"]


def test_verbose_0_is_silent(capfd):
    LeapRegressor(**SMALL).set_params(epochs=1).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    LeapRegressor(**SMALL).set_params(epochs=1, verbose=1).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("gru: up to 1 epochs; compiling")


# Summaries, and what a loaded model knows


def test_patience_is_a_parameter():
    one = LeapRegressor(**SMALL).set_params(epochs=60, patience=1, learning_rate=0.5).fit(X, Y)
    assert one.n_iter_ < 60 and one.stopped_ == "val_loss did not improve for 1 epochs"
    with pytest.raises(InputError, match="patience 0"):
        LeapRegressor(**SMALL, patience=0).fit(X, Y)


def test_a_loaded_model_knows_what_the_fitted_one_does(tmp_path):
    table = np.array([(i, t, *RNG.normal(size=2), "ab"[i % 2]) for i in range(24) for t in range(5)], object)
    frame = __import__("pandas").DataFrame(table, columns=["id", "t", "hr", "o2", "y"]).astype({"hr": float, "o2": float})
    classes = LeapClassifier(**SMALL, id="id", time="t", target="y").fit(frame)
    future = LeapForecaster(**SMALL, horizon=2).fit(RNG.normal(size=(8, 20, 1)))
    for one in (classes, future):
        one.save(tmp_path / "a.safetensors")
        again = load(tmp_path / "a.safetensors")
        names = {name for name in vars(one) if name.endswith("_")}
        assert names <= set(vars(again)), names - set(vars(again))
        assert again.n_iter_ == one.n_iter_ == 4 and again.stopped_ == one.stopped_ and again.sizes_ == one.sizes_
        assert [row["val_loss"] for row in again.history_] == [row["val_loss"] for row in one.history_]
        assert again.summary() == one.summary()
        again.save(tmp_path / "b.safetensors")
        assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert again.window_ == future.window_ and list(load(tmp_path / "a.safetensors").get_params()) == list(future.get_params())


def test_a_file_that_holds_no_history_loads_and_is_summed_up(whole, tmp_path):
    """As files from before there was one, and those of `FittedModel.save`."""
    whole[0].fitted_.save(tmp_path / "old.safetensors")
    again = load(tmp_path / "old.safetensors")
    np.testing.assert_array_equal(again.predict(X), whole[0].predict(X))
    assert "gru" in again.summary() and "epochs" not in again.summary()


def test_summary_in_words(whole):
    text = whole[0].summary()
    assert text.startswith("LeapRegressor, regression\n")
    for words in ("gru, ", " parameters", "2 channels (x0, x1)", "20 samples train, 4 choose the weights", "6 to 6 rows",
                  "4 epochs, the best is number", "all 4 epochs done", "mse "):  # fmt: skip
        assert words in text, text
    with pytest.raises(NotFittedError):
        LeapRegressor().summary()


def test_reprs_are_short(whole):
    assert repr(LeapRegressor(**SMALL)) == "LeapRegressor(epochs=4, model='gru', options={'hidden': 4})"
    assert repr(whole[0].fitted_).startswith("FittedModel('gru', regression, 2 channels, ")
    assert isinstance(whole[0].fitted_, FittedModel)

"""The scikit-learn face: the contract, and scikit-learn's own tools around it.

Compiling takes longer than training here, so most tests share one tiny model and one shape of data.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import leapcde
from leapcde.data.read import as_series
from leapcde.datasets import hopper
from leapcde.errors import CheckpointError, InputError, LeapWarning
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.contract import check_estimator
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde.training.defaults import told
from leapcde.training.fitted import FittedModel, new_model, train_model
from samples import falls, table_of

TINY = {"hidden": 8}
QUICK = {"options": TINY, "interpolation": "linear", "epochs": 4, "batch_size": 16, "learning_rate": 0.02}
CLASSES = ["falls", "rises"]


@pytest.fixture(scope="module")
def pairs():
    return falls()


@pytest.fixture(scope="module")
def labels(pairs):
    return np.array(CLASSES)[(pairs[1] > np.median(pairs[1])).astype(int)]


@pytest.fixture(scope="module")
def classifier(pairs, labels):
    return LeapClassifier("gru", **{**QUICK, "epochs": 60}).fit(pairs[0], labels)


def test_tables_from_fit_to_predict(pairs, labels):
    table = table_of(pairs[0]).assign(label=np.repeat(labels, 16), weight=np.repeat(np.arange(48.0), 16))
    columns = {"id": "id", "time": "t", "target": "label", "static": ["weight"]}
    named = LeapClassifier("gru", **columns, **QUICK).fit(table)
    assert named.feature_names_in_.tolist() == ["height", "angle"] and named.n_features_in_ == 2
    assert named.fitted_.preprocessor.spec.static == 1
    new = table.drop(columns="label")
    assert named.predict(new).tolist() == named.predict(pl.from_pandas(new)).tolist()
    with pytest.raises(InputError, match="trained on 2"):
        named.predict(new.drop(columns="angle"))
    with pytest.raises(InputError, match="no column 'name'"):
        LeapClassifier("gru", **{**columns, "id": "name"}, **QUICK).fit(table)


# The contract


def test_learns_and_answers(classifier, pairs, labels):
    assert classifier.score(pairs[0], labels) > 0.8
    assert classifier.classes_.tolist() == CLASSES and classifier.n_features_in_ == 2 and classifier.n_iter_ <= 60
    assert not hasattr(classifier, "feature_names_in_")
    found = classifier.predict_proba(pairs[0])
    assert found.shape == (48, 2) and found.sum(1) == pytest.approx(np.ones(48))
    lead = classifier.decision_function(pairs[0])
    assert np.array_equal(np.array(CLASSES)[(lead > 0).astype(int)], classifier.predict(pairs[0]))


def test_silent_unless_asked(pairs, labels, capfd):
    quiet = LeapClassifier("gru", **QUICK).fit(pairs[0], labels)
    assert capfd.readouterr() == ("", "")
    loud = LeapClassifier("gru", verbose=1, **QUICK).fit(pairs[0], labels)
    out, err = capfd.readouterr()
    assert out == "" and "gru: up to 4 epochs" in err and "4 epochs in" in err
    assert np.array_equal(quiet.predict_proba(pairs[0]), loud.predict_proba(pairs[0]))


def test_cost_is_told_before_long_training(pairs, labels, capfd, monkeypatch):
    monkeypatch.setattr("leapcde.training.defaults.LONG", 0.0)
    LeapClassifier("gru", verbose=1, **QUICK).fit(pairs[0], labels)
    assert "48 series" not in capfd.readouterr().err.partition("about")[2]
    assert told(100) == "2 minutes"


def test_constructor_stores_and_nothing_else():
    one = LeapClassifier("nowhere", epochs=-3, interpolation="?")
    assert one.get_params()["epochs"] == -3 and set(vars(one)) == set(one.get_params())
    again = clone(one.set_params(model="leap", epochs=2))
    assert again.get_params() == one.get_params() and is_classifier(one)
    assert is_regressor(LeapRegressor()) and is_regressor(LeapForecaster())
    with pytest.raises(NotFittedError):
        again.predict(np.ones((2, 3, 1)))


def test_pickle_and_save_and_load(classifier, pairs, tmp_path):
    expected = classifier.predict_proba(pairs[0])
    assert np.array_equal(pickle.loads(pickle.dumps(classifier)).predict_proba(pairs[0]), expected)
    classifier.save(tmp_path / "a.safetensors")
    loaded = leapcde.load(tmp_path / "a.safetensors")
    assert type(loaded) is LeapClassifier and np.array_equal(loaded.predict_proba(pairs[0]), expected)
    assert loaded.get_params() == classifier.get_params() and loaded.classes_.tolist() == CLASSES
    assert np.array_equal(FittedModel.load(tmp_path / "a.safetensors").predict_proba(as_series(pairs[0])), expected)
    classifier.fitted_.save(tmp_path / "b.safetensors")  # a fitted model alone is enough for an estimator
    assert np.array_equal(leapcde.load(tmp_path / "b.safetensors").predict_proba(pairs[0]), expected)


def test_files_from_when_estimators_had_more_parameters(pairs, labels, tmp_path):
    recipe = Recipe("linear", time_channel=False)
    series = as_series(pairs[0], target=labels)
    fitted = new_model(series, task="classification", model="gru", options=QUICK["options"], recipe=recipe, seed=0)
    for more in ({"layout": "channels_first", "time_channel": False}, {"speed": 3}):
        about = {"class": "LeapClassifier", "params": {"epochs": 3, **more}}
        fitted.save(tmp_path / "a.safetensors", about={"estimator": about})
        if "speed" in more:
            with pytest.raises(CheckpointError, match="another version of leapcde"):
                leapcde.load(tmp_path / "a.safetensors")
        else:
            loaded = leapcde.load(tmp_path / "a.safetensors")
            assert loaded.epochs == 3 and loaded.fitted_.preprocessor.recipe == recipe
            assert np.array_equal(loaded.predict_proba(pairs[0]), fitted.predict_proba(as_series(pairs[0])))


def test_warm_start_and_partial_fit_go_on(pairs, labels):
    X, _ = pairs
    one = LeapClassifier("gru", warm_start=True, **QUICK).fit(X, labels)
    first = one.history_[-1]["train_loss"]
    assert one.fit(X, labels).history_[0]["train_loss"] < first * 1.05
    part = LeapClassifier("gru", **QUICK)
    for _ in range(3):
        part.partial_fit(X[:24], labels[:24], classes=[*CLASSES, "stays"])
    assert part.classes_.tolist() == [*CLASSES, "stays"] and part.predict_proba(X).shape == (48, 3)
    with pytest.raises(InputError, match="did not see: flies"):
        part.partial_fit(X[:2], ["flies", "falls"])


def as_trained(one: LeapClassifier) -> LeapClassifier:
    """What training alone made, before the calibration."""
    one.fitted_ = replace(one.fitted_, calibration=None)
    return one


def test_class_weights(pairs, labels):
    X, few = pairs[0][:24], np.where(np.arange(24) < 20, "falls", "rises")
    share = lambda **more: as_trained(LeapClassifier("gru", **{**QUICK, **more}).fit(X, few)).predict_proba(X)[:, 1].mean()
    plain = share(class_weight=None)
    assert share() > plain + 0.1  # balanced by default
    assert share(class_weight={"rises": 50.0}) > plain + 0.2 and share(class_weight=50.0) > plain + 0.2
    three = np.array(["a", "b", "c"] * 8)
    with pytest.raises(InputError, match="is for two classes, here are 3"):
        LeapClassifier("gru", class_weight=2.0, **QUICK).fit(X, three)
    for weight, words in [({"rise": 2.0}, "no class 'rise'"), ({"rises": -1.0}, "positive"), ("heavy", "no class_weight")]:
        with pytest.raises(InputError, match=words):
            share(class_weight=weight)


def test_the_loss_that_patience_watches_is_the_one_that_is_trained(pairs):
    X, few = pairs[0][:24], np.where(np.arange(24) < 20, "falls", "rises")
    trained = LeapClassifier("gru", **{**QUICK, "epochs": 1}, validation=0.0, class_weight={"rises": 9.0}).fit(X, few)
    loss = np.logaddexp(0, np.where(few == "rises", -1, 1) * as_trained(trained).decision_function(X))
    (row,) = trained.history_
    assert row["loss"] == pytest.approx(loss.mean(), rel=1e-5)
    assert row["val_loss"] == pytest.approx(np.average(loss, weights=np.where(few == "rises", 9, 1)), rel=1e-5)


def test_own_validation_data_and_too_few_to_hold_out(pairs, labels):
    X, _ = pairs
    one = LeapClassifier("gru", **QUICK).fit(X[:40], labels[:40], validation=(X[40:], labels[40:]))
    other = one.fitted_.evaluate(as_series(X[40:], target=labels[40:]))
    assert one.history_[-1]["val_loss"] == pytest.approx(other["loss"], rel=1e-3) or len(one.history_) > 1
    with pytest.warns(LeapWarning, match="too few to hold any out"):
        LeapClassifier("gru", **QUICK).fit(X[:4], ["a", "a", "b", "b"])


def test_predicting_far_beyond_the_trained_times_warns(classifier, pairs):
    far = [(t * 100, x) for t, x in pairs[0][:2]]
    with pytest.warns(LeapWarning, match="unit of time"):
        classifier.predict(far)


def test_a_whole_config_is_taken_as_it_is(pairs, labels, tmp_path):
    """The estimator and `train_model` are one way to train: the same settings give the same bits."""
    config = TrainConfig(epochs=2, batch_size=16, learning_rate=0.02, seed=3)
    train, held = as_series(pairs[0][:40], target=labels[:40]), as_series(pairs[0][40:], target=labels[40:])
    started, rows = [], []
    one = LeapClassifier("gru", options=TINY, training=config, class_weight=None, seed=3)
    started_by = SimpleNamespace(on_start=started.append)
    one.fit(train, validation=held, checkpoint=tmp_path / "t.safetensors", callbacks=[started_by, rows.append])
    parts = {"task": "classification", "model": "gru", "options": TINY, "recipe": Recipe("linear")}
    fitted, trained = train_model(train, held, config=config, **parts)
    assert np.array_equal(as_trained(one).fitted_.raw(held), fitted.raw(held)) and one.stopped_ == trained.stopped
    assert started == [{"options": TINY, "recipe": Recipe("linear").to_json(), "train": config.to_json()}]
    assert rows == one.history_ and (tmp_path / "t.safetensors").exists()
    one.save(tmp_path / "a.safetensors")
    assert leapcde.load(tmp_path / "a.safetensors").training == config


# scikit-learn's tools


def test_pipeline_and_cross_validation(pairs, labels):
    X, _ = pairs
    one = make_pipeline(FunctionTransformer(lambda X: [(2 * t, x) for t, x in X]), LeapClassifier("gru", **QUICK))
    scores = cross_val_score(one, X, labels, cv=2, error_score="raise")
    assert scores.shape == (2,) and (scores >= 0).all()
    # A Series keeps its static features when scikit-learn picks samples from it.
    series = as_series(X, target=labels, static=np.arange(48.0)[:, None])
    assert cross_val_score(LeapClassifier("gru", **QUICK), series, labels, cv=2, error_score="raise").shape == (2,)


@pytest.mark.slow
def test_grid_search_in_two_processes(pairs, labels):
    grid = {"learning_rate": [1e-9, 0.02]}
    search = GridSearchCV(LeapClassifier("gru", **{**QUICK, "epochs": 20}), grid, cv=2, n_jobs=2, error_score="raise")
    assert search.fit(pairs[0], labels).best_params_ == {"learning_rate": 0.02}


def test_calibration(pairs, labels):
    one = CalibratedClassifierCV(LeapClassifier("gru", **QUICK), cv=2).fit(pairs[0], labels)
    assert one.predict_proba(pairs[0]).sum(1) == pytest.approx(np.ones(48))


# Regression and forecasting


def test_regression_with_intervals(pairs, tmp_path):
    X, speed = pairs
    one = LeapRegressor("gru", calibration=0.3, **{**QUICK, "epochs": 60}).fit(X, speed)
    assert one.score(X, speed) > 0.3
    low, high = one.predict_interval(X, 0.8)
    assert ((low <= speed) & (speed <= high)).mean() > 0.6 and np.ptp(high - low) == pytest.approx(0)
    one.save(tmp_path / "a.safetensors")
    assert np.array_equal(leapcde.load(tmp_path / "a.safetensors").predict_interval(X, 0.8)[0], low)
    assert np.isinf(one.predict_interval(X[:1], 0.999)[0]).all()  # too few were held out to promise that much
    with pytest.raises(InputError, match=r"calibration=0\.15"):
        LeapRegressor("gru", **QUICK).fit(X, speed).predict_interval(X)


def test_forecast_in_steps_and_at_times():
    X = hopper.bundled()[:24, :40, :2].astype(float)
    steps = LeapForecaster("gru", horizon=4, **{**QUICK, "epochs": 20}).fit(X)
    assert steps.window_ == 36 and steps.predict(X).shape == (24, 4, 2)
    low, high = steps.predict_interval(X, 0.5)
    assert low.shape == high.shape == (24, 4, 2) and (low < high).all()
    assert steps.forecast_times(X)[0].tolist() == [40, 41, 42, 43]
    times = LeapForecaster("gru", horizon=[0.5, 3.0], window=20, **QUICK).fit(X)
    assert times.predict(X).shape == (24, 2, 2) and times.forecast_times(X)[0].tolist() == [39.5, 42.0]
    assert times.score(X) <= 1 and np.isfinite(cross_val_score(times, X, cv=2, error_score="raise")).all()


def test_a_single_long_sequence_can_be_forecast():
    X = np.sin(np.arange(200.0) / 5)[None, :, None]
    one = LeapForecaster("gru", horizon=3, window=12, **{**QUICK, "epochs": 20}).fit(X)
    assert one.score(X) > 0.5 and one.conformal_ is not None


def test_forecasts_of_ready_windows(pairs):
    X = hopper.bundled()[:24, :16, :2].astype(float)
    y = hopper.bundled()[:24, 16:19, :2].astype(float)
    assert LeapForecaster("gru", **QUICK).fit(X, y).predict(X).shape == (24, 3, 2)
    with pytest.raises(InputError, match="sample, step, channel"):
        LeapForecaster("gru", **QUICK).fit(X, y[:, :, 0])
    with pytest.raises(InputError, match="give increasing times"):
        LeapForecaster("gru", horizon=[2.0, 1.0], **QUICK).fit(X)
    with pytest.raises(InputError, match="too short"):
        LeapForecaster("gru", horizon=15, **QUICK).fit(X)


# Third parties


class Forgetful(LeapClassifier):
    """Breaks two promises."""

    def fit(self, X, y=None, **more):
        super().fit(X, y)
        self.epochs = 7
        return self

    def predict(self, X):
        return np.array(["falls"])


def test_check_estimator_finds_what_is_wrong():
    with pytest.raises(leapcde.LeapError) as caught:
        check_estimator(Forgetful("gru", **{**QUICK, "epochs": 1}))
    broken = {problem.partition(":")[0] for problem in caught.value.problems}
    assert {"parameters_are_kept", "one_answer_a_sample", "wrong_channels_are_refused"} <= broken
    assert "answers_do_not_depend_on_the_company" not in broken


@pytest.mark.parametrize("make", [LeapRegressor, pytest.param(LeapForecaster, marks=pytest.mark.slow)])
def test_check_estimator_passes_ours(make):
    more = {"horizon": 3, "window": 12} if make is LeapForecaster else {}
    assert "it_survives_pickling" in check_estimator(make("gru", **QUICK, **more))

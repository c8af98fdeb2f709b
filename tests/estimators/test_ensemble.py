"""Ensembles against their members alone, and how members and candidates are weighed."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import leapcde
from leapcde.data.read import as_series
from leapcde.ensemble.fitted import FittedEnsemble, mix
from leapcde.ensemble.weigh import losses, standard_error, weigh
from leapcde.errors import CheckpointError, InputError, LeapWarning
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.several.members import member_seeds
from leapcde.files import load_file, save_file
from leapcde.training.metrics import softmax

TINY = {"options": {"hidden": 4}, "epochs": 2}


def walks(count: int = 60, seed: int = 0) -> tuple[leapcde.Series, np.ndarray]:
    """Random walks, and where their first channel ends."""
    values = np.random.default_rng(seed).normal(size=(count, 6, 2)).cumsum(1)
    return as_series(values), values[:, -1, 0]


@pytest.fixture(scope="module")
def numbers() -> tuple[LeapRegressor, leapcde.Series, np.ndarray]:
    X, y = walks()
    return LeapRegressor("gru", ensemble=3, calibration=0.2, **TINY).fit(X, y), X, y


@pytest.fixture(scope="module")
def classes() -> tuple[LeapClassifier, leapcde.Series, np.ndarray]:
    X, y = walks()
    label = np.where(y > 0, "up", "down")
    return LeapClassifier("leap+", ensemble=2, options={"hidden": 4, "causal": True}, epochs=1).fit(X, label), X, label


# Ensembles --------------------------------------------------------------------------------------------------------------


def test_an_ensemble_is_the_mean_of_its_members_trained_alone(numbers):
    together, X, y = numbers
    alone = [LeapRegressor("gru", seed=s, calibration=0.2, **TINY).fit(X, y).predict(X) for s in member_seeds(0, 3)]
    assert not np.allclose(alone[0], alone[1])
    np.testing.assert_allclose(together.predict(X), np.mean(alone, 0), rtol=1e-5)
    assert [row["member"] for row in together.history_] == [0, 0, 1, 1, 2, 2] and together.n_iter_ == 6
    low, high = together.predict_interval(X, coverage=0.8)
    assert np.mean((low <= y) & (y <= high)) > 0.5


def test_classes_average_probabilities_and_are_calibrated_together(classes):
    together, X, _ = classes
    fitted = together.fitted_
    mean = np.mean([softmax(one.outputs(X)) for one in fitted.members], 0)
    np.testing.assert_allclose(softmax(fitted.calibration(np.log(mean))), together.predict_proba(X), rtol=1e-5)
    assert fitted.calibration.temperature != 1 and all(one.calibration is not None for one in fitted.members)
    assert {len(some) for some in together.predict_set(X, coverage=0.8)} <= {1, 2}


@pytest.mark.parametrize("which", ["numbers", "classes"])
def test_a_file_holds_all_members(which, request, tmp_path):
    made, X, _ = request.getfixturevalue(which)
    made.save(tmp_path / "model.safetensors")
    again = leapcde.load(tmp_path / "model.safetensors")
    assert again.predict(X).tolist() == made.predict(X).tolist() and again.get_params() == made.get_params()
    assert again.fitted_.parameters == made.fitted_.parameters == sum(one.parameters for one in made.fitted_.members)


@pytest.mark.parametrize(
    ("key", "value"),
    [("weights", [1.0]), ("weights", [0.5, -0.5, 1.0]), ("members", []), ("members", [{}, {}, {}]), ("weights", "abc")],
)
def test_a_damaged_member_is_told(numbers, tmp_path, key, value):
    path = tmp_path / "model.safetensors"
    numbers[0].save(path)
    arrays, about = load_file(path, "model")
    save_file(path, "model", {"": arrays}, {**about, key: value})
    with pytest.raises(CheckpointError, match="damaged header"):
        leapcde.load(path)


def test_a_missing_array_is_told(numbers, tmp_path):
    path = tmp_path / "model.safetensors"
    numbers[0].save(path)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"member1/model", b"member9/model"))
    with pytest.raises(CheckpointError):
        leapcde.load(path)


def test_a_killed_ensemble_goes_on_bit_for_bit(numbers, tmp_path):
    whole, X, y = numbers
    seen = []

    def kill(row):
        seen.append(row)
        if len(seen) == 3:  # in the second member
            raise KeyboardInterrupt

    one = lambda: LeapRegressor("gru", ensemble=3, calibration=0.2, **TINY)
    with pytest.raises(KeyboardInterrupt):
        one().fit(X, y, checkpoint=tmp_path / "t.safetensors", callbacks=[kill])
    again = one().fit(X, y, checkpoint=tmp_path / "t.safetensors", callbacks=[seen.append])
    assert len(seen) == 6 and again.predict(X).tolist() == whole.predict(X).tolist()


def test_paths_explanations_and_streams_are_means(classes):
    together, X, _ = classes
    members = [replace(together.fitted_, members=(one,), weights=(1.0,)) for one in together.fitted_.members]
    few = X.take(np.arange(3))
    times = np.array([0.5, 2.5])
    at = np.tile(times, (3, 1))
    want = np.mean([one.path_at(few, at) for one in members], 0)
    np.testing.assert_allclose(together.fitted_.path_at(few, at), want, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)  # after one epoch a simple path is often the better one
        assert together.predict_at(few, times).shape == (3, 2, 2)
    np.testing.assert_allclose(together.path(few)["Y"], np.mean([one.path(few)["Y"] for one in members], 0), rtol=1e-5)
    found = together.explain(few, steps=4)
    assert found.by_channel.shape == (3, 2) and found.attribution.change.shape == (3,)
    stream = together.stream()
    for row, t in zip(few.sample(0)[1], few.sample(0)[0], strict=True):
        stream.push(float(t), row)
    np.testing.assert_allclose(stream.predict_proba(), together.predict_proba(few)[0], rtol=1e-4)


def test_members_go_on_with_new_data(numbers):
    _, X, y = numbers
    one = LeapRegressor("gru", ensemble=2, **TINY).partial_fit(X, y)
    before = one.predict(X)
    one.partial_fit(X, y)
    assert isinstance(one.fitted_, FittedEnsemble) and not np.allclose(before, one.predict(X))
    with pytest.raises(InputError, match="2 members were trained before"):
        one.set_params(ensemble=3).partial_fit(X, y)


@pytest.mark.parametrize("count", [0, -1, True])
def test_an_ensemble_of_nothing_is_told(count):
    X, y = walks(20)
    with pytest.raises(InputError, match="how many members"):
        LeapRegressor("gru", ensemble=count, **TINY).fit(X, y)


# Weights -----------------------------------------------------------------------------------------------------------------


def test_weights_follow_the_validation_data():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(400, 1))
    noisy = lambda size, seed: truth + size * np.random.default_rng(seed).normal(size=truth.shape)
    assert weigh("regression", [noisy(1.0, 1), noisy(0.1, 2), noisy(2.0, 3)], truth).tolist() == [0, 1, 0]
    few = weigh("regression", [noisy(1.0, i)[:12] for i in range(4)], truth[:12])
    assert few.sum() == pytest.approx(1) and np.sum(few > 0) >= 2 and all(w == 0 or w >= 0.05 for w in few)
    assert weigh("regression", [noisy(1.0, i)[:12] for i in range(4)], truth[:12]).tolist() == few.tolist()
    assert weigh("regression", [truth, truth], truth).tolist() == [1, 0]  # of equals, the first


def test_unknown_future_values_do_not_count():
    target = np.array([[[1.0], [np.nan]], [[2.0], [4.0]]])
    assert losses("forecasting", np.zeros((2, 2, 1)), target).tolist() == [1.0, 10.0]
    assert standard_error("forecasting", np.array([1.0])) == float("inf")


def test_the_mean_of_probabilities_loses_no_more_than_the_mean_loss():
    rng = np.random.default_rng(0)
    scores, target = rng.normal(size=(3, 50, 4)) * 9, rng.integers(0, 4, 50)
    alone = np.mean([losses("classification", one, target) for one in scores], 0)
    together = losses("classification", mix("classification", list(scores), [0.2, 0.3, 0.5]), target)
    assert together.mean() < alone.mean() and np.isfinite(together).all()

"""What does not fit: spikes are found, ordinary observations raise as many alarms as was allowed, and forms of input agree."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import leapcde
from leapcde import LeapDetector, LeapWarning, as_series
from leapcde.errors import LeapError
from leapcde.estimators.holes.detector import bounds, highest_around

TINY = {"options": {"path_width": 8}, "interpolation": "natural", "epochs": 4, "validation": 0.4}


def waves(samples: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    phase, t = rng.uniform(0, 6, (samples, 1)), np.linspace(0, 6, 24)
    X = np.stack([np.sin(t + phase), 5 + 3 * np.sin(t + phase - 0.5)], -1) + rng.normal(scale=0.02, size=(samples, 24, 2))
    holes = rng.random(X.shape) < 0.1
    holes[:, -1] = False  # what is empty at the end is padding
    return np.where(holes, np.nan, X)


@pytest.fixture(scope="module")
def detector():
    return LeapDetector(false_alarms=0.05, **TINY).fit(waves(80, 0))


@pytest.fixture(scope="module")
def spiked():
    X, rng = waves(60, 1), np.random.default_rng(2)
    strange = (rng.random(X.shape) < 0.015) & ~np.isnan(X)
    return X + strange * np.array([1.5, 4.5]) * rng.choice([-1, 1], X.shape), strange


def test_spikes_score_highest(detector, spiked):
    X, strange = spiked
    scores = np.stack(detector.score_samples(X))
    seen = ~np.isnan(X)
    np.testing.assert_array_equal(np.isnan(scores), ~seen)
    assert roc_auc_score(strange[seen], scores[seen]) > 0.9
    found = np.stack(detector.predict(X))
    assert found.dtype == bool and not found[~seen].any()
    np.testing.assert_array_equal(found[seen], (scores > detector.threshold_)[seen])
    assert found[strange].mean() > 0.8


def test_ordinary_observations_alarm_as_often_as_allowed(detector):
    X = waves(200, 3)
    found = np.stack(detector.predict(X))
    rate = found[~np.isnan(X)].mean()
    assert 0.02 < rate < 0.1, rate


def test_neighbours_of_a_spike_are_not_blamed(detector):
    t = np.linspace(0, 6, 24) + np.arange(30.0)[:, None]
    X = np.stack([np.sin(t), 5 + 3 * np.sin(t - 0.5)], -1)
    clean = np.stack(detector.predict(X))
    X[:, 11, 0] += 2.0
    found = np.stack(detector.predict(X))
    assert found[:, 11, 0].all()
    others = np.ones(24, bool)
    others[11] = False
    assert found[:, others].sum() <= clean[:, others].sum() + 5


def test_an_observation_has_no_say_in_its_own_path(detector):
    """However far it is moved, the others of its row and its own path stay: the score grows by the distance."""
    X = waves(5, 5)
    X[0, 8] = [0.0, 5.0]
    series = as_series(X)
    one = detector._scores(series).reshape(5, 24, 2)
    X[0, 8, 0] = 1e3
    two = detector._scores(as_series(X)).reshape(5, 24, 2)
    assert two[0, 8, 0] > 100 * one[0, 8, 0]
    assert two[0, 8, 1] == one[0, 8, 1]


def test_bounds_are_ranks_channel_by_channel():
    scores = np.stack([np.arange(1.0, 100.0), np.r_[np.arange(10.0, 13.0), np.full(96, np.nan)]], 1)
    own, shared = bounds(scores, 0.1)
    assert own == 90.0  # the ⌈100 · 0.9⌉-th of 99
    assert shared == np.sort(np.r_[np.arange(1.0, 100.0), 10, 11, 12])[int(np.ceil(103 * 0.9)) - 1]
    assert np.isinf(bounds(np.ones((5, 1)), 0.01)).all()


def test_files_hold_everything(detector, spiked, tmp_path):
    detector.save(tmp_path / "detector.safetensors")
    loaded = leapcde.load(tmp_path / "detector.safetensors")
    assert isinstance(loaded, LeapDetector) and loaded.get_params() == detector.get_params()
    for again in (loaded, pickle.loads(pickle.dumps(detector))):
        for a, b in zip(again.score_samples(spiked[0]), detector.score_samples(spiked[0]), strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(loaded.threshold_, detector.threshold_)


def test_ragged_series_and_single_rows(detector, spiked):
    X = [(np.arange(n, dtype=float), spiked[0][i, :n]) for i, n in enumerate((24, 7, 1, 3))]
    found = detector.score_samples(X)
    assert [len(scores) for scores in found] == [24, 7, 1, 3]
    np.testing.assert_allclose(found[0], detector.score_samples(spiked[0][:1])[0], rtol=1e-3, atol=1e-3)


def test_mistakes_are_one_clear_error(spiked):
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(LeapError, match="false_alarms"):
            LeapDetector(false_alarms=wrong).fit(spiked[0])
    with pytest.raises(LeapError, match="three rows"):
        LeapDetector().fit(np.ones((5, 2, 1)))


def test_too_little_for_rare_alarms_is_said():
    with pytest.warns(LeapWarning, match="too few for so rare false alarms"):
        few = LeapDetector(false_alarms=1e-5, **{**TINY, "epochs": 1}).fit(waves(20, 0))
    assert not np.stack(few.predict(waves(20, 1))).any()


def test_the_highest_around_by_hand():
    series = as_series([(np.arange(6.0), np.ones((6, 1))), (np.arange(2.0), np.ones((2, 1)))])
    scores = np.array([1.0, 2.0, np.nan, 9.0, 3.0, 1.0, 5.0, 4.0])[:, None]
    found = highest_around(scores, series)[:, 0]
    np.testing.assert_array_equal(found, [9.0, 9.0, -np.inf, 9.0, 9.0, 9.0, 5.0, 5.0])


def test_a_spike_keeps_the_score_that_it_had(detector, spiked):
    """Leaving its neighbours out would leave a hole around it, in which nothing is strange."""
    X, strange = spiked
    first, again = detector._scores(as_series(X)), np.concatenate(detector.score_samples(X))
    alone = (strange.sum(1, keepdims=True) == 1) & strange & (first.reshape(X.shape) > 3 * detector.first_)
    assert alone.sum() > 5
    np.testing.assert_array_equal(again.reshape(X.shape)[alone], first.reshape(X.shape)[alone])

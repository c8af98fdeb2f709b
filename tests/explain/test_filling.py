"""Holes: filled by whatever was nearest to hidden observations, and how near that is, is told."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from leapcde import load
from leapcde.data.read import as_series
from leapcde.errors import LeapWarning
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.explain import filling
from leapcde.explain.filling import LAST, LINE, MOST, choose_paths, fill, path_errors, simple_path, some_samples
from leapcde.explain.hidden import LEARNED, hidden_errors

OPTIONS = {"hidden": 4, "depth": 1, "path_width": 4}


def walks(count: int = 20, rows: int = 9):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(count, rows, 2)).cumsum(1) * [1.0, 50.0]
    X[:, 1:-1][rng.random((count, rows - 2, 2)) < 0.3] = np.nan
    return X


@pytest.fixture(scope="module")
def one():
    return LeapRegressor("leap+", options=OPTIONS, epochs=1, validation=0.4).fit(walks(), np.arange(20.0))


def judged(one, **channels):
    """The estimator as if hidden observations had shown these errors."""
    again = pickle.loads(pickle.dumps(one))
    again._path_error = {
        channel: dict(zip((LEARNED, LINE, LAST, "count"), errors, strict=True)) for channel, errors in channels.items()
    }
    return again


def test_errors_by_channel_are_those_over_all_taken_apart(one):
    series = as_series(walks())
    found = path_errors(one.fitted_, series)
    whole, std = hidden_errors(one.fitted_, series), np.array(one.fitted_.preprocessor.scaler.std)
    counts = np.array([found[c]["count"] for c in ("x0", "x1")])
    for name in (LEARNED, LINE, LAST):
        each = np.array([found[c][name] for c in ("x0", "x1")]) / std
        assert np.sum(counts * each**2) / counts.sum() == pytest.approx(whole[name], rel=1e-3), name


def test_the_better_path_fills_each_channel(one):
    X = as_series(walks())
    times = np.tile([[0.5, 3.2, 8.0]], (20, 1))
    learned = one.fitted_.path_at(X, times)
    mixed = judged(one, x0=(1.0, 2.0, 3.0, 9), x1=(3.0, 2.0, 1.0, 9))
    with pytest.warns(LeapWarning, match=r"which is used instead: x1 \(last value\)$"):
        found = mixed.predict_at(X, times)
    np.testing.assert_array_equal(found[..., 0], learned[..., 0])
    for i in range(20):
        t, x = X.sample(i)
        seen = ~np.isnan(x[:, 1])
        assert found[i, :, 1].tolist() == [x[seen & (t <= q), 1][-1] for q in times[i]]
    np.testing.assert_array_equal(mixed.predict_at(X, times), found)  # told once
    line = judged(one, x0=(3.0, 2.0, 3.0, 9))
    with pytest.warns(LeapWarning, match="x0"):
        filled = np.concatenate(line.predict_at(X))
    whole = np.concatenate([np.interp(*_of(X, i)) for i in range(20)])
    assert filled[:, 0] == pytest.approx(whole)


def _of(X, i):
    t, x = X.sample(i)
    seen = ~np.isnan(x[:, 0])
    return t, t[seen], x[seen, 0]


def test_equal_errors_keep_the_learned_path():
    assert choose_paths({"a": {LEARNED: 1.0, LINE: 1.0, LAST: 1.0, "count": 3}}) == {} == choose_paths(None)


def test_beyond_the_end_the_forecast_stays(one):
    X = walks(8, 30)
    future = LeapForecaster("leap+", horizon=3, window=8, options=OPTIONS, epochs=1, calibration=0.0).fit(X)
    series = future._new_series(as_series(X))
    times = series.times[series.offsets[1:] - 1, None] + np.array([[-0.5, 0.0, 1.5]])
    bad = {channel: {LEARNED: 9.0, LINE: 1.0, LAST: 2.0, "count": 5} for channel in ("x0", "x1")}
    found, learned = fill(future.fitted_, series, times, bad), future.fitted_.path_at(series, times)
    np.testing.assert_array_equal(found[:, 2], learned[:, 2])
    assert not np.array_equal(found[:, 0], learned[:, 0])


def test_a_channel_that_a_sample_never_shows_is_at_the_mean():
    series = as_series([([0.0, 1.0], [[np.nan, 1.0], [np.nan, 2.0]])])
    assert simple_path(series, np.array([[0.5]]), LINE, np.array([7.0, 0.0])).tolist() == [[[7.0, 1.5]]]


def test_numbers_are_kept_and_data_is_not(one, tmp_path, monkeypatch):
    fresh = LeapRegressor("leap+", options=OPTIONS, epochs=1, validation=0.4).fit(walks(), np.arange(20.0))
    assert fresh._held is not None and fresh._held.target is None
    again = pickle.loads(pickle.dumps(fresh))
    assert not hasattr(again, "_held") and again.path_error_ == fresh.path_error_ == one.path_error_ != None  # noqa: E711
    fresh.save(tmp_path / "a.safetensors")
    monkeypatch.setattr(filling, "hide_rows", pytest.fail)  # nothing is computed again
    loaded = load(tmp_path / "a.safetensors")
    assert loaded.path_error_ == fresh.path_error_ and "holes" in loaded.summary() and loaded.summary() == fresh.summary()


def test_without_a_path_or_validation_data_nothing_is_known():
    plain = LeapRegressor("gru", options={"hidden": 4}, epochs=1).fit(walks(), np.arange(20.0))
    assert plain.path_error_ is None and "holes" not in plain.summary()
    nothing = LeapRegressor("leap+", options=OPTIONS, epochs=1, validation=0.0).fit(walks(), np.arange(20.0))
    assert nothing.path_error_ is None
    assert len(nothing.predict_at(walks()[:2])) == 2  # the learned path, and no word


def test_two_rows_leave_nothing_to_hide(one):
    assert path_errors(one.fitted_, as_series(walks(5, 2))) is None


def test_few_samples_are_enough():
    many = as_series(np.ones((1000, 3, 1)), target=np.arange(1000.0))
    assert len(some_samples(many)) == MOST and some_samples(None) is None
    assert len(some_samples(replace(many, ids=None).take([0, 1]))) == 2

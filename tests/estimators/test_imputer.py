"""Holes filled by a learned path: what was seen stays, forms come back, errors are those of NumPy, the spread holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import leapcde
from leapcde import LeapImputer, as_series
from leapcde.errors import InputError, LeapError
from leapcde.estimators.holes.asked import NAMES, SHARE, Asked, hide_ends, own_times, path_of, questions
from leapcde.estimators.holes.base import kind_of_holes
from leapcde.explain.hidden import hide_rows

TINY = {"options": {"path_width": 8}, "interpolation": "linear", "epochs": 2}


@pytest.fixture(scope="module")
def waves():
    """Two channels, the second the first one later; of each a third is missing."""
    rng = np.random.default_rng(0)
    phase, t = rng.uniform(0, 6, (60, 1)), np.linspace(0, 6, 24)
    truth = np.stack([np.sin(t + phase), 5 + 3 * np.sin(t + phase - 0.5)], -1)
    holes = rng.random(truth.shape) < 0.33
    holes[:, [0, -1]] = False
    return truth, np.where(holes, np.nan, truth)


@pytest.fixture(scope="module")
def imputer(waves):
    return LeapImputer(**TINY).fit(waves[1])


def test_what_was_seen_stays_and_nothing_is_missing(imputer, waves):
    _, X = waves
    before = X.copy()
    filled, spread = imputer.transform(X), imputer.spread(X)
    np.testing.assert_array_equal(X, before)
    seen = ~np.isnan(X)
    np.testing.assert_array_equal(filled[seen], X[seen])
    assert np.isfinite(filled).all() and (spread[seen] == 0).all() and (spread[~seen] > 0).all()


def test_filled_values_are_the_path_at_their_times(imputer, waves):
    X = waves[1]
    at_rows, spread = imputer.predict_at(X, np.arange(24.0), spread=True)
    np.testing.assert_allclose(imputer.transform(X)[np.isnan(X)], at_rows[np.isnan(X)], rtol=1e-6)
    np.testing.assert_allclose(imputer.spread(X)[np.isnan(X)], spread[np.isnan(X)], rtol=1e-6)
    own = imputer.predict_at(X)
    np.testing.assert_allclose(np.stack(own), at_rows, rtol=1e-6)
    between = imputer.predict_at(X, [0.5, 7.25])
    assert between.shape == (60, 2, 2) and np.isfinite(between).all()


def test_every_form_comes_back(imputer, waves):
    X = waves[1]
    want = imputer.transform(X)
    t = np.arange(24.0)
    pairs = imputer.transform([(t, x) for x in X])
    assert all(a is t for a, _ in pairs)
    np.testing.assert_allclose(np.stack([x for _, x in pairs]), want, rtol=1e-6)
    np.testing.assert_allclose(np.stack(imputer.transform(list(X))), want, rtol=1e-6)
    series = as_series(X, target=np.arange(60), static=np.ones((60, 1)))
    found = imputer.transform(series)
    assert isinstance(found, leapcde.Series) and found.channels == series.channels
    np.testing.assert_allclose(found.values, want.reshape(-1, 2), rtol=1e-6)


def long_table(X: np.ndarray) -> pd.DataFrame:
    n, rows, _ = X.shape
    columns = {"who": np.repeat([f"s{i:02d}" for i in range(n)], rows), "when": np.tile(np.arange(rows), n)}
    table = pd.DataFrame({**columns, "a": X[..., 0].ravel(), "b": X[..., 1].ravel(), "note": "text"})
    return table.sample(frac=1, random_state=0)  # in any order


def test_tables_keep_their_rows_and_other_columns(waves):
    X = waves[1]
    table = long_table(X)
    imputer = LeapImputer(id="who", time="when", values=["a", "b"], **TINY).fit(table)
    filled = imputer.transform(table)
    assert (
        filled.index.equals(table.index)
        and list(filled.columns) == list(table.columns)
        and not filled[["a", "b"]].isna().any(axis=None)
    )
    pd.testing.assert_frame_equal(filled[["who", "when", "note"]], table[["who", "when", "note"]])
    want = imputer.transform(as_series(X, channels=["a", "b"])).values
    np.testing.assert_allclose(filled.sort_values(["who", "when"])[["a", "b"]].to_numpy(), want, rtol=1e-6)
    of_polars = imputer.transform(pl.from_pandas(table))
    np.testing.assert_array_equal(of_polars["b"].to_numpy(), filled["b"].to_numpy())


def test_padding_of_arrays_stays(imputer, waves):
    X = waves[1].copy()
    X[3, 9], X[3, 10:] = 1.0, np.nan
    filled = imputer.transform(X)
    assert np.isnan(filled[3, 10:]).all() and np.isfinite(filled[3, :10]).all() and np.isfinite(filled[4]).all()


def test_one_channel_as_a_2d_array_and_lists(waves):
    X = waves[1][..., 0]
    imputer = LeapImputer(**TINY).fit(X)
    assert imputer.transform(X).shape == X.shape and imputer.transform(list(X))[0].shape == (24,)


def test_reported_errors_are_those_of_numpy(imputer, waves):
    """Straight lines and last values at what is hidden, by hand."""
    preprocessor = imputer.fitted_.preprocessor
    series = as_series(waves[1])
    asked = Asked.of(preprocessor, series, what="values", seed=3)
    seen, times, truth = hide_rows(series, SHARE, 3, what="values")
    line, last = np.empty_like(truth), np.empty_like(truth)
    for i in range(len(series)):
        t, x = seen.sample(i)
        for c in range(2):
            there = ~np.isnan(x[:, c])
            line[i, :, c] = np.interp(times[i], t[there], x[there, c])
            last[i, :, c] = x[there, c][np.searchsorted(t[there], times[i], side="right") - 1]
    std = np.array(preprocessor.scaler.std)
    for name, path in (("straight line", line), ("last value", last)):
        found = asked.errors(path_of(None, name, asked.data, asked.times))
        np.testing.assert_allclose(found, np.nanmean(((path - truth) / std) ** 2, (0, 1)), rtol=1e-3)
    assert set(imputer.errors_) == {*NAMES, "chosen"}
    for name, error in imputer.channel_errors_.items():
        low, high = error.min(), error.max()
        assert low <= imputer.errors_[name] <= high


def test_each_channel_has_what_is_best_for_it(imputer, waves):
    """A channel whose learned path is made bad falls back to an interpolation; one where it is best keeps it."""
    series, preprocessor = as_series(waves[1]), imputer.fitted_.preprocessor
    asked = Asked.of(preprocessor, series, what="values", seed=0)
    copy = clone(imputer)
    copy._keep(imputer.fitted_)
    error = {name: np.array([1.0, 1.0]) for name in NAMES} | {"learned": np.array([0.5, 2.0]), "hermite": np.array([2.0, 0.5])}
    copy._errors = lambda asked: error
    copy._choose(asked)
    assert copy.chosen_ == {"x0": "learned", "x1": "hermite"}
    Y, _ = copy._read(asked.data, asked.times)
    np.testing.assert_array_equal(Y[..., 1], path_of(None, "hermite", asked.data, asked.times)[..., 1])
    np.testing.assert_array_equal(Y[..., 0], path_of(imputer.fitted_.model, "learned", asked.data, asked.times)[..., 0])


def test_the_spread_holds_for_two_thirds(waves):
    truth, X = waves
    imputer = LeapImputer(**{**TINY, "epochs": 8}, validation=0.4).fit(X)
    holes = np.isnan(X)
    near = np.abs(imputer.transform(X) - truth)[holes] < imputer.spread(X)[holes]
    assert 0.6 < near.mean() < 0.85


def test_holes_say_what_training_hides():
    whole = np.ones((3, 6, 2))
    rows, values = whole.copy(), whole.copy()
    rows[:, 2], values[:, 2, 0] = np.nan, np.nan
    assert kind_of_holes(as_series(whole)) == kind_of_holes(as_series(rows)) == "rows"
    assert kind_of_holes(as_series(values)) == "values"
    config = LeapImputer()._config(100, "values")
    assert config.hide_values > LeapImputer()._config(100, "rows").hide_values
    assert LeapImputer(training={"hide_values": 0.7})._config(100, "values").hide_values == 0.7


def test_hidden_values_are_single_ones(waves):
    series = as_series(waves[1])
    seen, times, truth = hide_rows(series, 0.3, 0, what="values")
    hidden = ~np.isnan(series.values) & np.isnan(seen.values)
    assert hidden.sum() == (~np.isnan(truth)).sum()
    partly = hidden.any(1) & ~np.isnan(seen.values).all(1)
    assert partly.sum() > 100  # rows of which something is left
    assert times.shape == truth.shape[:2]


def test_the_same_seed_gives_the_same_bits_and_files_hold_everything(imputer, waves, tmp_path):
    X = waves[1]
    again = LeapImputer(**TINY).fit(X)
    assert again.errors_ == imputer.errors_
    np.testing.assert_array_equal(again.transform(X), imputer.transform(X))
    imputer.save(tmp_path / "imputer.safetensors")
    loaded = leapcde.load(tmp_path / "imputer.safetensors")
    assert isinstance(loaded, LeapImputer) and loaded.get_params() == imputer.get_params()
    assert loaded.errors_ == imputer.errors_ and loaded.chosen_ == imputer.chosen_
    np.testing.assert_array_equal(loaded.transform(X), imputer.transform(X))
    np.testing.assert_array_equal(loaded.spread(X), imputer.spread(X))


def test_before_a_classifier_in_a_pipeline(waves):
    X, y = waves[1], np.arange(60) % 2
    quick = leapcde.LeapClassifier("gru", options={"hidden": 4}, epochs=1)
    assert make_pipeline(LeapImputer(**TINY), quick).fit(X, y).predict(X).shape == (60,)


def test_a_hidden_row_far_away_changes_nothing_here(imputer, waves):
    """Company and order do not matter."""
    X = waves[1]
    whole = imputer.transform(X)
    np.testing.assert_allclose(imputer.transform(X[[7, 2]]), whole[[7, 2]], atol=1e-5)
    later = imputer.transform([(np.arange(24.0) + 1e4, x) for x in X[:3]])
    np.testing.assert_allclose(np.stack([x for _, x in later]), whole[:3], atol=1e-3)


def test_path_of_is_what_questions_ask(imputer, waves):
    series = as_series(waves[1])
    data, times = questions(imputer.fitted_.preprocessor, series, own_times(series))
    Y = imputer.fitted_.preprocessor.scaler.unscale(path_of(imputer.fitted_.model, "learned", data, times))
    np.testing.assert_allclose(
        Y, imputer.fitted_.path_at(replace(series, target=None), own_times(series)), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    ("params", "X", "words"),
    [
        ({}, np.ones((5, 2, 1)), "three rows"),
        ({"training": {"hidden": 1}}, np.ones((5, 6, 1)), "TrainConfig"),
        ({"interpolation": "cubic"}, np.ones((5, 6, 1)), "no interpolation 'cubic'"),
        ({"options": {"width": 3}}, np.ones((5, 6, 1)), "no option 'width'"),
        ({"epochs": 0}, np.ones((5, 6, 1)), "epochs 0"),
        ({"seed": "x"}, np.ones((5, 6, 1)), "seed"),
        ({}, [([1.0, 0.0], [[1.0], [2.0]])], "backwards"),
        ({}, pd.DataFrame({"a": [1.0]}), "id="),
    ],
)
def test_mistakes_are_one_clear_error(params, X, words):
    with pytest.raises(LeapError, match=words):
        LeapImputer(**params).fit(X)


def test_mistakes_after_training(imputer, waves):
    with pytest.raises(NotFittedError):
        LeapImputer().transform(waves[1])
    with pytest.raises(InputError, match="3 channels"):
        imputer.transform(np.ones((2, 5, 3)))
    with pytest.raises(InputError, match="exists within each sample"):
        imputer.predict_at(waves[1], [-1.0, 30.0])


def test_ends_are_hidden_by_hand():
    X = [([0.0, 1.0, 2.0, 3.0], [[np.nan], [1.0], [2.0], [3.0]]), ([0.0, 1.0], [[1.0], [2.0]])]
    seen, times, truth = hide_ends(as_series(X))
    np.testing.assert_array_equal(seen.values[:, 0], [np.nan, np.nan, 2.0, np.nan, 1.0, 2.0])
    np.testing.assert_array_equal(times[0], [1.0, 3.0])
    np.testing.assert_array_equal(truth[..., 0], [[1.0, 3.0], [np.nan, np.nan]])


def test_before_the_first_and_after_the_last_observation(imputer, waves):
    """Nobody knows much there: the spread grows with the distance, up to the channel's deviation, and never shrinks."""
    X = waves[1][:4].copy()
    X[:, :4, 0], X[:, 18:, 1], X[1, :, 1] = np.nan, np.nan, np.nan
    filled, spread = imputer.transform(X), imputer.spread(X)
    assert np.isfinite(filled).all()
    std = np.array(imputer.fitted_.preprocessor.scaler.std)
    for rows, c in ((slice(3, None, -1), 0), (slice(18, None), 1)):
        assert (np.diff(spread[0, rows, c]) >= -1e-9).all() and spread[0, rows, c].min() >= imputer.ends_["spread"][c] * std[
            c
        ] * 0.999
    assert spread[1, 0, 1] >= 0.99 * std[1]  # never observed

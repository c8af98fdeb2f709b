"""Paths asked for what was hidden from them, against interpolation by hand."""

from __future__ import annotations

import numpy as np
import pytest

from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.explain.hidden import CLASSICAL, LEARNED, hidden_errors, hide_rows
from leapcde.paths.batch import Recipe
from leapcde.training.fitted import new_model


@pytest.fixture(scope="module")
def ragged():
    rng = np.random.default_rng(0)
    samples = []
    for n in (5, 9, 14, 2, 11):
        values = rng.normal(size=(n, 2)).cumsum(0)
        values[1:-1][rng.random((n - 2, 2)) < 0.3] = np.nan
        samples.append((np.cumsum(rng.uniform(0.5, 2.0, n)), values))
    return as_series(samples, target=np.arange(5) % 2)


@pytest.fixture(scope="module")
def untrained(ragged):
    options = {"hidden": 4, "depth": 1, "path_width": 4}
    return new_model(ragged, task="classification", model="leap+", options=options, recipe=Recipe("linear"), seed=0)


def test_rows_between_the_ends_are_hidden_and_a_seed_says_which(ragged):
    seen, times, truth = hide_rows(ragged, 0.5, seed=3)
    for i in range(len(ragged)):
        t, x = ragged.sample(i)
        _, left = seen.sample(i)
        gone = np.isnan(left).all(1) & ~np.isnan(x).all(1)
        assert not gone[0] and not gone[-1]
        asked = ~np.isnan(truth[i]).all(1)
        np.testing.assert_array_equal(times[i][asked], t[gone])
        np.testing.assert_array_equal(truth[i][asked], x[gone])
        np.testing.assert_array_equal(left[~gone], x[~gone])
    again = hide_rows(ragged, 0.5, seed=3)[1]
    np.testing.assert_array_equal(again, times)
    assert not np.array_equal(hide_rows(ragged, 0.5, seed=4)[0].values, seen.values, equal_nan=True)


def test_errors_are_those_of_numpy_and_of_the_path(untrained, ragged):
    found = hidden_errors(untrained, ragged, share=0.5, seed=3)
    assert set(found) == {LEARNED, *CLASSICAL}
    seen, times, truth = hide_rows(ragged, 0.5, seed=3)
    std = np.array(untrained.preprocessor.scaler.std)
    line, last = [], []
    for i in range(len(ragged)):
        t, x = seen.sample(i)
        for q, wanted in zip(times[i], truth[i], strict=True):
            for c in np.flatnonzero(~np.isnan(wanted)):
                there = ~np.isnan(x[:, c])
                line.append((np.interp(q, t[there], x[there, c]) - wanted[c]) / std[c])
                last.append((x[there & (t <= q), c][-1] - wanted[c]) / std[c])
    assert len(line) > 10
    assert found["straight line"] == pytest.approx(np.mean(np.square(line)), rel=1e-4)
    assert found["last value"] == pytest.approx(np.mean(np.square(last)), rel=1e-4)
    own = (untrained.path_at(seen, times) - truth) / std
    assert found[LEARNED] == pytest.approx(np.nanmean(own**2), rel=1e-4)
    assert found[LEARNED] != pytest.approx(found["straight line"], rel=1e-3)


def test_nothing_to_hide(untrained):
    with pytest.raises(InputError, match="three rows"):
        hidden_errors(untrained, as_series(np.ones((4, 2, 2))))

"""Baselines against other people's implementations and plain loops, on series with holes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge

from leapcde.baselines import forecasts, tabular
from leapcde.baselines.fitted import KINDS, baselines_for, fit_baseline, fit_baselines
from leapcde.baselines.summary import ALL, carried, features, on_grid, summary
from leapcde.baselines.trees import HOLDS_OUT, forest_arrays, means, of_known_columns, sums, tree_arrays
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.windows import windows
from leapcde.datasets.registry import load
from leapcde.errors import InputError
from leapcde.paths.batch import Recipe
from leapcde.training.preprocess import Preprocessor

pytestmark = pytest.mark.filterwarnings("ignore:never observed")


def ragged(count: int, seed: int = 0, *, task: str = "classification") -> Series:
    """Uneven times, holes, a channel that some never see, a static; the target shows in level, slope and length."""
    rng = np.random.default_rng(seed)
    pairs, label = [], rng.integers(0, 3, count)
    for kind in label:
        t = 100.0 + np.cumsum(rng.exponential(size=rng.integers(3, 12)))
        values = rng.normal(size=(len(t), 3)) + np.array([kind, 0.3 * kind, 0.0]) * (t - 100)[:, None]
        values[rng.random(values.shape) < 0.3] = np.nan
        values[0, 0] = 1.0
        pairs.append((t, values))
    target = label if task == "classification" else 2.0 * label + rng.normal(size=count)
    return as_series(pairs, static=rng.normal(size=(count, 1)), target=target)


def learned(series: Series, task: str) -> Preprocessor:
    return Preprocessor.learn(series, task, Recipe())


def test_summaries_against_pandas():
    series = ragged(12)
    found = summary(series, ALL).reshape(12, len(ALL), 3)
    for i in range(12):
        t, values = series.sample(i)
        for c in range(3):
            column = pd.Series(values[:, c], index=t)
            seen = column.dropna()
            if seen.empty:
                assert found[i, 0, c] == 0 and np.isnan(found[i, 1:, c]).all()
                continue
            slope = np.polyfit(seen.index - t[0], seen, 1)[0] if len(seen) > 1 else 0.0
            want = [seen.size, seen.mean(), seen.min(), seen.max(), seen.iloc[-1], seen.iloc[0], seen.std(ddof=0), slope]
            np.testing.assert_allclose(found[i, :, c], [*want, t[-1] - seen.index[-1]], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_trees_as_arrays_say_what_scikit_learn_says(classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) * np.isnan(x[:, 2])
    new = np.where(rng.random((50, 5)) < 0.2, np.nan, rng.normal(size=(50, 5)))
    if not classes:
        model = HistGradientBoostingRegressor().fit(x, y)
        np.testing.assert_allclose(sums(tree_arrays(model), new)[:, 0], model.predict(new), rtol=1e-9)
        return
    model = HistGradientBoostingClassifier().fit(x, np.digitize(y, [-0.5, 0.5][: classes - 1]))
    raw = model.decision_function(new)
    np.testing.assert_allclose(sums(tree_arrays(model, classes), new), raw.reshape(50, -1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_forests_as_arrays_say_what_scikit_learn_says(classes):
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(60, 4)), rng.normal(size=(30, 4))
    y = x[:, 0] + x[:, 1]
    if not classes:
        model = ExtraTreesRegressor(20).fit(x, y)
        np.testing.assert_allclose(means(forest_arrays(model), new)[:, 0], model.predict(new), rtol=1e-5)
        return
    label = np.digitize(y, [-0.5, 0.5][: classes - 1]) + 1  # of class 0 nothing was seen
    model = ExtraTreesClassifier(20).fit(x, label)
    found = means(forest_arrays(model, classes + 1), new)
    np.testing.assert_allclose(found[:, 1:], model.predict_proba(new), atol=1e-6)
    assert not found[:, 0].any()


def test_a_ridge_does_not_leave_the_range_of_its_targets_by_far():
    train = ragged(100, task="regression")
    far = replace(train, values=train.values * 1e3)
    found = fit_baseline("ridge", train, train, learned(train, "regression")).predict(far)
    low, high = np.min(train.target), np.max(train.target)
    room = 0.25 * (high - low)
    assert low - room - 1e-6 <= found.min() and found.max() <= high + room + 1e-6 and np.ptp(found) > 0


def test_logistic_regression_is_scikit_learns():
    train, validation = ragged(200), ragged(80, 1)
    of = learned(train, "classification")
    found = fit_baseline("logistic-regression", train, validation, of)
    x = features(train)
    mean, std = np.nanmean(x, 0), np.nanstd(x, 0)
    plain = lambda series: np.clip(np.nan_to_num((features(series) - mean) / np.where(std > 0, std, 1.0)), -10, 10)
    models = [LogisticRegression(C=c, max_iter=200).fit(plain(train), train.target) for c in tabular.STRENGTHS]
    losses = [-np.mean(m.predict_log_proba(plain(validation))[np.arange(80), validation.target]) for m in models]
    best = models[int(np.argmin(losses))]
    np.testing.assert_allclose(found.predict_proba(validation), best.predict_proba(plain(validation)), atol=1e-6)


def test_ridge_is_scikit_learns_with_the_best_penalty():
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(40, 60)), rng.normal(size=(30, 60))
    weights = rng.normal(size=(60, 2))
    y, y_new = x @ weights + 5 + rng.normal(size=(40, 2)), new @ weights + 5
    found = tabular.best_ridge(x, y, new, y_new)
    models = [Ridge(alpha=float(p)).fit(x, y) for p in tabular.PENALTIES]
    best = min(models, key=lambda m: float(np.mean((m.predict(new) - y_new) ** 2)))
    np.testing.assert_allclose(new @ found["weights"] + found["start"], best.predict(new), rtol=1e-6)


def test_classes_and_numbers_are_learned():
    """On new samples each beats the one that looks at nothing, and not by luck."""
    for task, metric, sign in (("classification", "accuracy", 1), ("regression", "mse", -1)):
        train, validation, test = (ragged(n, seed, task=task) for seed, n in enumerate((300, 60, 300)))
        found = fit_baselines(train, validation, learned(train, task))
        assert list(found) == baselines_for(task)
        plain, *rest = (one.evaluate(test)[metric] for one in found.values())
        assert all(sign * (score - plain) > 0.2 for score in rest), (task, plain, rest)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_channel_that_nobody_has_observed(task):
    """scikit-learn's trees stop at a column without a single value."""
    train = ragged(60, task=task)
    train = replace(train, values=np.where([True, True, False], train.values, np.nan))
    for one in fit_baselines(train, train, learned(train, task)).values():
        assert np.isfinite(one.outputs(train)).all()


def test_columns_that_hold_nearly_nothing():
    """Of many rows scikit-learn holds a tenth out, and with them perhaps all that a column has."""
    table = np.full((HOLDS_OUT + 1, 3), np.nan)
    table[:, 0], table[:3, 1], table[:20, 2] = 1.0, 2.0, 3.0
    assert (of_known_columns(table)[:, 1] == 0).all() and np.isnan(of_known_columns(table)[20:, 2]).all()
    assert of_known_columns(table[:100])[0, 1] == 2.0 and np.isnan(of_known_columns(table[:100])[50, 1])
    only = np.where(np.arange(100) < 20, 0.0, 1.0)  # who counts nothing shows nothing
    assert (of_known_columns(table[:100], only)[:, 2] == 0).all()


def test_a_class_that_training_does_not_show():
    """As the classes of a first part of the data: nothing breaks, and nobody expects it."""
    series = ragged(100)
    part = series.take(np.flatnonzero(np.asarray(series.target) != 1))
    of = Preprocessor.learn(part, "classification", Recipe(), (0, 1, 2))
    for one in fit_baselines(part, part, of).values():
        p = one.predict_proba(series)
        assert p.shape == (100, 3) and p[:, 1].max() < 0.05 and p.sum(1) == pytest.approx(1.0, abs=1e-6)
    one = series.take(np.flatnonzero(np.asarray(series.target) == 1))
    assert list(fit_baselines(one, one, of)) == ["class-prior"]


def cycles(length: int, *, period: int = 12, noise: float = 0.1) -> Series:
    rng = np.random.default_rng(0)
    t = np.arange(400)
    values = np.stack([np.sin(2 * np.pi * t / period), 3 * np.cos(2 * np.pi * t / period) + 7], 1)
    return windows(as_series([(t.astype(float), values + noise * rng.normal(size=values.shape))]), length, 6)


def test_the_season_is_found_and_repeated():
    cut = cycles(30)
    found = fit_baseline("last-season", cut, cut, learned(cut, "forecasting"))
    assert found.arrays["season"] == 12 and found.title == "the value a season before (12 steps)"
    for i in (0, 100):
        assert found.predict(cut.take([i]))[0] == pytest.approx(cut.sample(i)[1][-12:-6], abs=1e-5)
    few = cut.keep_rows(np.random.default_rng(1).random(len(cut.times)) < 0.6)  # holes do not hide it
    assert fit_baseline("last-season", few, few, learned(few, "forecasting")).arrays["season"] == 12


def test_where_there_is_no_season_none_is_named():
    walk = np.cumsum(np.random.default_rng(0).normal(size=(30, 60, 1)), 1)
    cut = windows(as_series(walk), 40, 5)
    assert "last-season" not in fit_baselines(cut, cut, learned(cut, "forecasting"))
    short = cycles(8)  # a window that does not hold a season cannot repeat one
    of = learned(short, "forecasting")
    assert forecasts.find_season(short, short, of, 0)["season"] <= 8


def test_last_value_and_line_against_a_loop():
    data = load("hopper", drop_rate=0.3).train.take(range(40))
    of = learned(data, "forecasting")
    last, trend = (fit_baseline(name, data, data, of).predict(data) for name in ("last-value", "linear-trend"))
    unit = of.scaler.time_unit
    for b in range(5):
        t, values = data.sample(b)
        for c in range(3):
            assert last[b, :, c] == pytest.approx(values[-1, c], abs=1e-5)
            line = np.polyfit(t[-2:], values[-2:, c], 1)
            np.testing.assert_allclose(trend[b, :, c], np.polyval(line, t[-1] + unit * np.arange(1, 11)), atol=1e-3)


def test_a_ridge_on_the_window_knows_waves():
    """A wave's next value is a linear function of its window; on Hopper it beats the last value as well."""
    cut = cycles(30)
    train, rest = cut.take(range(200)), cut.take(range(240, len(cut)))
    found = {name: one.evaluate(rest)["mse"] for name, one in fit_baselines(train, rest, learned(train, "forecasting")).items()}
    assert found["ridge"] < 0.9 * found["last-season"] < 0.2 * found["last-value"]
    data = load("hopper", drop_rate=0.3)
    train, test = data.train.take(range(0, 2000, 4)), data.test.take(range(200))
    of = learned(train, "forecasting")
    ridge, last = (fit_baseline(name, train, data.validation, of).evaluate(test)["mse"] for name in ("ridge", "last-value"))
    assert ridge < 0.8 * last


def test_unknown_futures_and_empty_windows():
    cut = cycles(20)
    target = np.asarray(cut.target).copy()
    target[::3, 2:, 1] = np.nan
    holed = Series(cut.times, cut.values, cut.offsets, cut.channels, target=target)
    for one in fit_baselines(holed, holed, learned(holed, "forecasting")).values():
        assert np.isfinite(one.outputs(holed)).all()
        assert one.evaluate(holed)["mse"] < 0.05 or one.name not in ("ridge", "last-season")
        nothing = as_series([([0.0], [[np.nan, np.nan]])])
        assert np.isfinite(one.outputs(nothing)).all()


def test_grid_and_carry():
    series = as_series([([0.0, 1.1, 1.9, 5.0], [[1.0], [2.0], [np.nan], [4.0]])])
    of = learned(as_series(np.arange(12.0).reshape(1, 12), target=np.zeros((1, 1, 1))), "forecasting")
    grid = on_grid(series, of.scaler, 6)
    unscaled = of.scaler.unscale(grid)[0, :, 0]
    np.testing.assert_allclose(unscaled, [1, 2, np.nan, np.nan, np.nan, 4], atol=1e-6)
    assert carried(unscaled[None, :, None])[0, :, 0] == pytest.approx([1, 2, 2, 2, 2, 4])


def test_an_unknown_baseline():
    series = ragged(20)
    with pytest.raises(InputError, match="no baseline 'ridge'"):
        fit_baseline("ridge", series, series, learned(series, "classification"))
    assert set(KINDS) == {"classification", "labels", "regression", "forecasting", "survival"}

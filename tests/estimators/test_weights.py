"""Samples that count more than others, and groups of samples that stay together."""

from __future__ import annotations

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_validate

from command import COLUMNS, fails, leapcde
from leapcde.baselines.fitted import fit_baseline
from leapcde.data import windows as fresh_windows
from leapcde.data.read import as_series, from_table
from leapcde.data.series import join
from leapcde.data.split import hold_out_groups
from leapcde.data.windows import windows
from leapcde.errors import InputError
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.several import members
from leapcde.nn.losses import cross_entropy, mean_squared_error
from leapcde.training.metrics import frequencies, measure

QUICK = {"options": {"hidden": 4}, "epochs": 2, "batch_size": 16}
COUNT = 40
TRUE = np.arange(COUNT) % 2


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(COUNT, 6, 1)) + TRUE[:, None, None]


@pytest.fixture(scope="module")
def times():
    """How often each sample is there: whole numbers, so that weights can be compared with repeats."""
    return np.random.default_rng(1).integers(1, 5, COUNT)


# What is computed with them


def test_losses_weigh_as_repeats_do(times):
    rng = np.random.default_rng(0)
    scores, labels, classes = rng.normal(size=(COUNT, 3)), rng.integers(3, size=COUNT), jnp.array([1.0, 3.0, 0.5])
    often = np.repeat(np.arange(COUNT), times)
    repeated = cross_entropy(jnp.array(scores[often]), jnp.array(labels[often]), classes)
    share = times * np.asarray(classes)[labels]
    weighed = cross_entropy(jnp.array(scores), jnp.array(labels), classes, each=jnp.array(times / share.mean()))
    np.testing.assert_allclose(weighed, repeated, rtol=1e-5)
    numbers = rng.normal(size=(COUNT, 2))
    repeated = mean_squared_error(jnp.array(scores[often, :2]), jnp.array(numbers[often]))
    weighed = mean_squared_error(jnp.array(scores[:, :2]), jnp.array(numbers), jnp.array(times / times.mean()))
    np.testing.assert_allclose(weighed, repeated, rtol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_metrics_weigh_as_repeats_do(times, classes):
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=(COUNT, classes)), rng.integers(classes, size=COUNT)
    often = np.repeat(np.arange(COUNT), times)
    weighed, repeated = (
        measure("classification", scores, labels, times),
        measure("classification", scores[often], labels[often]),
    )
    assert weighed == pytest.approx(repeated) and len(weighed) == (4 if classes == 2 else 2)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert frequencies(p, labels, times)["brier"] == pytest.approx(frequencies(p[often], labels[often])["brier"])
    assert frequencies(p, labels, 3.0 * np.ones(COUNT)) == frequencies(p, labels)
    future = np.where(rng.random((COUNT, 3, 2)) < 0.2, np.nan, rng.normal(size=(COUNT, 3, 2)))
    said = rng.normal(size=future.shape)
    for task, truth, answer in (("forecasting", future, said), ("regression", scores[:, :1], said[:, 0, :1])):
        assert measure(task, answer, truth, times) == pytest.approx(measure(task, answer[often], truth[often]))


@pytest.mark.parametrize(("task", "name"), [("classification", "class-prior"), ("regression", "mean")])
def test_baselines_weigh_as_repeats_do(X, times, task, name):
    from leapcde.paths.batch import Recipe
    from leapcde.training.preprocess import Preprocessor

    target = TRUE if task == "classification" else X[:, 0, 0]
    series, often = as_series(X, target=target), np.repeat(np.arange(COUNT), times)
    of = Preprocessor.learn(series, task, Recipe())
    weighed = fit_baseline(name, replace(series, weights=times.astype(float)), series, of).outputs(series)
    repeated = fit_baseline(name, series.take(often), series, of).outputs(series)
    np.testing.assert_allclose(weighed, repeated, atol=0.02 if task == "classification" else 1e-5)
    assert np.abs(weighed - fit_baseline(name, series, series, of).outputs(series)).max() > 0.01


def test_trained_baselines_look_at_weights(X):
    """Samples that contradict all others win if they count enough."""
    from leapcde.paths.batch import Recipe
    from leapcde.training.preprocess import Preprocessor

    odd = np.arange(COUNT) < 10
    for task, names in (
        ("classification", ("logistic-regression", "boosted-trees")),
        ("regression", ("ridge", "boosted-trees")),
    ):
        level = X.mean((1, 2)) > 0.5
        target = np.where(odd, ~level, level).astype(int if task == "classification" else float)
        series = as_series(X, target=target, weights=np.where(odd, 100.0, 1.0))
        of = Preprocessor.learn(series, task, Recipe())
        for name in names:
            said = [fit_baseline(name, one, one, of).evaluate(series) for one in (series, replace(series, weights=None))]
            metric = "loss" if task == "classification" else "mse"
            assert said[0][metric] < said[1][metric], (task, name)


# Estimators


def raw(estimator, X):
    return estimator.fitted_.outputs(as_series(X))


@pytest.mark.parametrize("make", [LeapClassifier, LeapRegressor, LeapForecaster])
def test_equal_weights_change_no_bit_and_zero_is_absence(X, make):
    y = None if make is LeapForecaster else TRUE if make is LeapClassifier else X[:, 0, 0] + 1
    settings = {**QUICK, "horizon": 1, "window": 4} if make is LeapForecaster else QUICK
    fit = lambda X, y, **more: raw(make("gru", **settings).fit(X, y, **more), X[:, :4])
    plain = fit(X, y)
    for same in (np.ones(COUNT), np.full(COUNT, 7)):
        np.testing.assert_array_equal(fit(X, y, sample_weight=same), plain)
    zero = np.where(np.arange(COUNT) < 8, 0.0, 1.0)
    some = lambda array: None if array is None else array[8:]
    left_out = fit(X[8:], some(y))
    zeroed = make("gru", **settings).fit(X, y, sample_weight=zero)
    np.testing.assert_array_equal(raw(zeroed, X[8:, :4]), left_out)
    other = fit(X, y, sample_weight=1 + np.arange(COUNT))
    assert np.abs(other - plain).max() > 1e-4


@pytest.mark.parametrize("make", [LeapClassifier, LeapRegressor])
def test_training_listens_to_weights(make):
    """Half of the samples say the opposite of the others: those that count more are right."""
    level = np.arange(80) % 2
    X = 2.0 * level[:, None, None] + np.random.default_rng(0).normal(size=(80, 4, 1)) / 5
    opposite = np.arange(80) < 40
    y = np.where(opposite, 1 - level, level)
    model = make("gru", options={"hidden": 8}, epochs=25, learning_rate=0.05)
    follow = []
    for weight in (np.where(opposite, 9.0, 1.0), np.where(opposite, 1.0, 9.0)):
        said = model.fit(X, y, sample_weight=weight).predict(X)
        follow.append(float(np.mean((said > 0.5) == level)))
    assert follow[0] < 0.1 and follow[1] > 0.9


def test_probabilities_are_weighted_frequencies():
    """Where X says nothing, a class of half the samples that count three times has a probability of three quarters."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4, 1)), rng.permutation(np.arange(200) % 2)
    model = LeapClassifier("gru", **QUICK, validation=0.3).fit(X, y, sample_weight=1.0 + 2.0 * y)
    assert abs(model.predict_proba(X)[:, 1].mean() - 0.75) < 0.06
    assert abs(LeapClassifier("gru", **QUICK, validation=0.3).fit(X, y).predict_proba(X)[:, 1].mean() - 0.5) < 0.06


def test_scores_and_given_validation_data(X, times):
    model = LeapClassifier("gru", **QUICK).fit(X, TRUE, validation=(X, TRUE, times))
    expected = measure("classification", raw(replace_calibration(model), X), TRUE, times)
    best = max(model.history_, key=lambda row: row["auroc"])
    assert best["auroc"] == pytest.approx(expected["auroc"])
    assert model.score(X, TRUE, sample_weight=times) == accuracy_score(TRUE, model.predict(X), sample_weight=times)
    y = X[:, 0, 0]
    number = LeapRegressor("gru", **QUICK).fit(X, y)
    assert number.score(X, y, sample_weight=times) == pytest.approx(r2_score(y, number.predict(X), sample_weight=times))
    forecaster = LeapForecaster("gru", horizon=1, window=5, calibration=0.0, **QUICK).fit(X)
    often = np.repeat(np.arange(COUNT), times)
    assert forecaster.score(X, sample_weight=times) == pytest.approx(forecaster.score(X[often]))
    once_more = LeapClassifier("gru", **QUICK).partial_fit(X, TRUE, sample_weight=times)
    assert np.abs(raw(once_more, X) - raw(LeapClassifier("gru", **QUICK).partial_fit(X, TRUE), X)).max() > 1e-6


def replace_calibration(model):
    model.fitted_ = replace(model.fitted_, calibration=None)
    return model


def test_windows_that_are_others_in_every_epoch_keep_weights(X, monkeypatch):
    monkeypatch.setattr(fresh_windows, "A_TRAINING", (10, 20))
    sequences = np.concatenate(list(X)).reshape(6, 40, 1)
    fit = lambda **more: LeapForecaster("gru", horizon=1, window=5, **QUICK).fit(sequences, **more)
    plain, ones = (raw(model, X[:, :5]) for model in (fit(), fit(sample_weight=np.ones(6))))
    np.testing.assert_array_equal(ones, plain)
    assert np.abs(raw(fit(sample_weight=[1, 1, 1, 1, 1, 9]), X[:, :5]) - plain).max() > 1e-5


def test_windows_and_joined_parts_keep_weights():
    series = as_series(np.ones((2, 6, 1)), weights=[1.0, 3.0])
    assert windows(series, 3, 1).weights.tolist() == [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]
    assert join([series[1], series[0]]).weights.tolist() == [3.0, 1.0]
    with pytest.raises(InputError, match="weights is given for some parts only"):
        join([series, replace(series, weights=None)])


WRONG = {
    "unknown": (np.where(TRUE, np.nan, 1.0), "weights: sample 1 has nan, and 19 others are none; a weight is a number"),
    "negative": (np.where(np.arange(COUNT) == 3, -1.0, 1.0), "weights: sample 3 has -1; a weight is a number, 0 or larger"),
    "infinite": (np.where(np.arange(COUNT) == 3, np.inf, 1.0), "weights: sample 3 has inf"),
    "nothing counts": (np.zeros(COUNT), "weights: all are zero"),
    "too few": (np.ones(3), "weights: 3 entries for 40 samples; give one for each"),
    "a table": (np.ones((COUNT, 2)), r"weights: of shape \(40, 2\); give one number a sample"),
    "text": (["heavy"] * COUNT, r"weights: text \('heavy'\); give one number a sample"),
}


@pytest.mark.parametrize("given", WRONG)
def test_wrong_weights(X, given):
    weights, message = WRONG[given]
    for make, y in ((LeapClassifier, TRUE), (LeapRegressor, X[:, 0, 0]), (LeapForecaster, None)):
        with pytest.raises(InputError, match=message) as caught:
            make("gru", **QUICK).fit(X, y, sample_weight=weights)
        assert len(caught.value.problems) == 1


# Groups


@given(st.integers(2, 30), st.integers(0, 5), st.floats(0.05, 0.6))
def test_no_group_is_on_both_sides(count, seed, share):
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.concatenate([np.arange(count), rng.integers(count, size=3 * count)]))
    series = replace(as_series(np.ones((len(groups), 2, 1)), target=rng.integers(2, size=len(groups))), ids=groups)
    for by_class in (False, True):
        left, held = hold_out_groups(series, share, by_class=by_class, seed=seed)
        assert set(left.ids) | set(held.ids) == set(groups) and not set(left.ids) & set(held.ids)
    assert hold_out_groups(series, 0.0)[1] is None


def test_groups_held_out_have_all_classes():
    """Four of twenty patients are ill at all their visits: some of them are held out, and some are not."""
    patient = np.repeat(np.arange(20), 5)
    series = replace(as_series(np.ones((100, 2, 1)), target=(patient < 4).astype(int)), ids=patient)
    for seed in range(5):
        left, held = hold_out_groups(series, 0.25, by_class=True, seed=seed)
        assert (held.ids < 4).any() and (left.ids < 4).any()


@pytest.mark.parametrize("make", [LeapClassifier, LeapRegressor, LeapForecaster])
def test_estimators_hold_whole_groups_out(X, make, monkeypatch):
    seen = {}
    whole = members.train_further

    def keep(start, train, held, *rest, **more):
        seen.update(train=train, held=held)
        return whole(start, train, held, *rest, **more)

    monkeypatch.setattr(members, "train_further", keep)
    groups = np.array([f"patient {i % 9}" for i in range(COUNT)], dtype=object)
    y = None if make is LeapForecaster else TRUE if make is LeapClassifier else X[:, 0, 0]
    settings = {**QUICK, "horizon": 1, "window": 4} if make is LeapForecaster else QUICK
    make("gru", **settings, validation=0.3).fit(X, y, groups=groups)
    train, held = (set(seen[name].ids) for name in ("train", "held"))
    assert train and held and not train & held and train | held <= set(groups)


def test_wrong_groups(X):
    model = LeapClassifier("gru", **QUICK)
    with pytest.raises(InputError, match=r"groups: of shape \(3,\) for 40 samples"):
        model.fit(X, TRUE, groups=[1, 2, 3])
    with pytest.raises(InputError, match="all samples are of one group"):
        model.fit(X, TRUE, groups=["a"] * COUNT)
    with pytest.raises(InputError, match="groups: sample 2 has none"):
        model.fit(X, TRUE, groups=np.where(np.arange(COUNT) == 2, np.nan, 1.0))


# scikit-learn's tools


def test_metadata_routing(X, times, monkeypatch):
    got = []
    whole = LeapClassifier.fit
    spy = lambda self, X, y=None, *, sample_weight=None, groups=None, **more: (
        got.append((np.asarray(sample_weight), np.asarray(groups))),
        whole(self, X, y, sample_weight=sample_weight, groups=groups, **more),
    )[1]
    groups = np.arange(COUNT) % 10
    with sklearn.config_context(enable_metadata_routing=True):
        model = LeapClassifier("gru", **QUICK).set_fit_request(sample_weight=True, groups=True)
        model.set_score_request(sample_weight=True)
        monkeypatch.setattr(LeapClassifier, "fit", spy)
        params = {"sample_weight": times, "groups": groups}
        found = cross_validate(model, X, TRUE, cv=2, params=params)
        assert len(got) == 2 and sum(len(weight) for weight, _ in got) == COUNT
        assert sorted(np.concatenate([weight for weight, _ in got])) == sorted(times)
        assert np.isfinite(found["test_score"]).all()
        search = GridSearchCV(model, {"learning_rate": [0.01, 0.02]}, cv=2).fit(X, TRUE, **params)
        assert search.best_params_["learning_rate"] in (0.01, 0.02) and len(got[-1][0]) == COUNT
        assert set(got[-1][1]) == set(groups)


# Tables and the command line


def test_tables(table):
    columns = {"id": "seq", "time": "t", "values": ["height", "angle"], "target": "label"}
    heavy = table.assign(weight=table["seq"].str[1:].astype(int) + 1.0)
    series = from_table(heavy, **columns, weights="weight")
    assert series.weights.tolist() == list(np.arange(60) + 1.0) and series.channels == ("height", "angle")
    assert from_table(heavy.drop(columns=["note", "later"]), id="seq", time="t", target="label", weights="weight").channels == (
        "height",
        "angle",
    )


GRU = ("--model", "gru", "--epochs", "2", "-o", "hidden=4")


def test_command(place, table, tmp_path):
    heavy = table.assign(weight=1.0 + (table["label"] == "falls"), one=1.0)
    heavy.to_csv(tmp_path / "heavy.csv", index=False)
    fit = ["fit", tmp_path / "heavy.csv", *COLUMNS, "--target", "label", *GRU]
    plain, ones, more = (
        leapcde(*fit, *given, "--out", tmp_path / name, "--json").json
        for name, given in {"plain": [], "one": ["--weights", "one"], "more": ["--weights", "weight"]}.items()
    )
    same = ("validation", "test", "baselines")
    assert {key: plain[key] for key in same} == {key: ones[key] for key in same}
    assert more["test"] != plain["test"] and more["baselines"]["class-prior"] != plain["baselines"]["class-prior"]
    config = json.loads((tmp_path / "more" / "config.json").read_text())
    assert config["columns"]["weights"] == "weight" and config["columns"]["values"] == ["height", "angle"]
    assert "weights" not in json.loads((tmp_path / "plain" / "config.json").read_text())["columns"]
    assert leapcde("evaluate", tmp_path / "more", "--json").json["test"] == more["test"]
    new = tmp_path / "new.csv"
    table.drop(columns="label").to_csv(new, index=False)  # without weights either
    assert leapcde("predict", tmp_path / "more", new, "--json").code == 0


BAD = {
    "negative": (lambda t: t.assign(w=-1.0), ("weights: sample 0 (id s00) has -1", "0 or larger")),
    "missing": (lambda t: t.assign(w=np.where(t["seq"] == "s03", np.nan, 1.0)), ("sample 3 (id s03) has nan",)),
    "changing": (lambda t: t.assign(w=t["t"]), ("column 'w' changes within the sample", "row 3 of the file")),
    "all zero": (lambda t: t.assign(w=0), ("weights: all are zero",)),
    "text": (lambda t: t.assign(w="much"), ("column 'w'", "text ('much')")),
    "no such column": (lambda t: t, ("no column 'w'",)),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_columns(table, tmp_path, what):
    change, words = BAD[what]
    change(table).to_csv(tmp_path / "bad.csv", index=False)
    fit = ["fit", tmp_path / "bad.csv", *COLUMNS, "--target", "label", "--weights", "w", "--out", tmp_path / "run"]
    fails(tmp_path, *fit, words=words)

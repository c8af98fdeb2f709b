"""An answer after each row: equal to a stream and to every prefix alone, learned from the rows that have a target."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import awake
from leapcde import LeapClassifier, LeapForecaster, LeapRegressor, as_series, check_estimator, from_table, load
from leapcde.baselines import running
from leapcde.baselines.fitted import fit_baseline, refit_baseline
from leapcde.baselines.summary import features
from leapcde.data.batch import pad
from leapcde.data.series import join
from leapcde.data.split import sample_labels
from leapcde.ensemble.weigh import weigh
from leapcde.errors import InputError
from leapcde.estimators.export.files import export
from leapcde.estimators.stream import open_stream
from leapcde.models.registry import answer_rows, build
from leapcde.nn.losses import cross_entropy, mean_squared_error, row_cross_entropy
from leapcde.paths.batch import Recipe
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel
from leapcde.training.loop import fit as train
from leapcde.training.metrics import measure, softmax
from leapcde.training.predict import known, predict, target_weights, targets
from leapcde.training.preprocess import Preprocessor

SMALL = {"leap+": {"hidden": 6, "depth": 1, "path_width": 4}, "gru-d": {"hidden": 4}}
pytestmark = pytest.mark.filterwarnings("ignore:never observed", "ignore:the learned path was no better")


def some(count: int = 16, seed: int = 0, weights=None):
    """Ragged samples with holes, empty rows, statics, and a label in most rows: whether a channel that is seen is above 0."""
    rng = np.random.default_rng(seed)
    pairs, labels = [], []
    for _ in range(count):
        n = int(rng.integers(4, 9))
        values = rng.normal(size=(n, 2)).cumsum(0)
        label = (values[:, 0] > 0).astype(float)
        label[rng.random(n) < 0.2] = np.nan
        values[:, 1][rng.random(n) < 0.5] = np.nan
        values[rng.random(n) < 0.2] = np.nan
        pairs.append((np.sort(rng.choice(40, n, replace=False)) * 0.5 + 3, values))
        labels.append(label)
    static = rng.normal(size=(count, 1))
    return as_series(pairs, target=labels, static=static, weights=weights, target_per="row")


@pytest.fixture(scope="module")
def data():
    return some()


@pytest.fixture(scope="module")
def trained(data):
    return LeapClassifier(target_per="row", options=SMALL["leap+"], epochs=2).fit(data)


def as_pairs(series, i: int, rows: int | None = None):
    times, values = series.sample(i)
    return as_series([(times[:rows], values[:rows])], static=series.static[[i]])


# The same numbers however they are asked for


@pytest.mark.parametrize("model", ["leap+", "gru-d", "lstm"])
def test_one_pass_equals_a_stream_and_every_prefix(data, model):
    preprocessor = Preprocessor.learn(data, "classification", Recipe("linear"))
    options = SMALL.get(model, {"hidden": 4}) | ({"causal": True, "ages": True} if model == "leap+" else {})
    fitted = FittedModel(preprocessor, awake(build(model, preprocessor.spec, seed=1, **options)), model, options)
    whole = fitted.outputs(data)
    assert whole.shape == (len(data.times), 2) and np.ptp(whole, axis=0).min() > 1e-3
    i = 5
    said = whole[data.offsets[i] : data.offsets[i + 1]]
    live = open_stream(fitted, static=data.static[i])
    for row, (t, x) in enumerate(zip(*data.sample(i), strict=True)):
        assert np.abs(live.push(t, x).raw() - said[row]).max() < 1e-5
    prefixes = preprocessor.encode(join([as_pairs(data, i, rows) for rows in range(1, len(said) + 1)]), waste=np.inf)
    each = predict(fitted.model, prefixes)
    ends = np.cumsum(np.arange(1, len(said) + 1)) - 1
    assert np.abs(each[ends] - said).max() < 1e-5
    # The model that answers once a sample says the same of each prefix, by its own code.
    alone = awake(build(model, replace(preprocessor.spec, each_row=False), seed=1, **options))
    assert np.abs(predict(alone, prefixes) - said).max() < 1e-5


def test_the_estimator_answers_in_lists_and_what_comes_later_changes_nothing(trained, data):
    said = trained.predict_proba(data)
    assert [len(one) for one in said] == data.lengths.tolist() and trained.classes_.tolist() == [0, 1]
    assert all((one.argmax(1) == label).all() for one, label in zip(said, trained.predict(data), strict=True))
    assert len(trained.decision_function(data)[3]) == data.lengths[3]
    changed = as_pairs(data, 2)
    changed.values[-2:] = 50.0
    assert trained.predict_proba(changed)[0][:-2] == pytest.approx(said[2][:-2], abs=1e-6)
    live = trained.stream(static=data.static[2])
    for row, (t, x) in enumerate(zip(*data.sample(2), strict=True)):
        assert live.push(t, x).predict_proba() == pytest.approx(said[2][row], abs=1e-5)


def test_saved_and_loaded(trained, data, tmp_path):
    trained.save(tmp_path / "rows.safetensors")
    again = load(tmp_path / "rows.safetensors")
    assert again.target_per == "row"
    assert all((a == b).all() for a, b in zip(again.predict_proba(data), trained.predict_proba(data), strict=True))
    assert len(trained.predict_at(data)) == len(data)


# What is learned from


def test_the_loss_is_that_of_the_rows_with_a_label(data):
    rng, encoded = np.random.default_rng(0), Preprocessor.learn(data, "classification", Recipe()).encode(data)
    labels = np.asarray(encoded[0].batch.obs.target)
    scores, weights = rng.normal(size=(*labels.shape, 2)).astype(np.float32), jnp.array([1.0, 3.0])
    loss = lambda *of, **more: float(row_cross_entropy(jnp.asarray(scores), jnp.asarray(labels), *of, **more))
    there = labels >= 0
    assert 0 < there.sum() < (np.asarray(encoded[0].batch.obs.mask).max(-1) > 0).sum() + len(labels)
    flat = jnp.asarray(scores[there]), jnp.asarray(labels[there])
    for more in ({}, {"weights": weights}, {"weights": weights, "smoothing": 0.1}):
        assert loss(**more) == pytest.approx(float(cross_entropy(*flat, **more)), rel=1e-5)
    each = rng.random(len(labels)).astype(np.float32)
    by_row = jnp.asarray(np.repeat(each[:, None], labels.shape[1], 1)[there])
    found = loss(weights, each=jnp.asarray(each))
    assert found == pytest.approx(float(cross_entropy(*flat, weights, each=by_row)), rel=1e-5)
    scores[~there] = 1e6  # what is said where there is no label does not matter
    assert loss(weights, each=jnp.asarray(each)) == pytest.approx(found, rel=1e-5)


@given(st.integers(0, 10_000))
def test_targets_are_padded_and_come_back_in_order(seed):
    series = some(9, seed, weights=np.random.default_rng(seed).random(9) + 0.1)
    data = Preprocessor.learn(series, "regression", Recipe()).encode(series, waste=1.0)
    mean, std = np.nanmean(series.target), np.nanstd(series.target)
    np.testing.assert_allclose(targets(data)[:, 0] * std + mean, series.target, atol=1e-5)
    np.testing.assert_allclose(target_weights(data), np.repeat(series.weights, series.lengths), rtol=1e-6)
    assert (known(targets(data)) == ~np.isnan(series.target)).all()
    padded = np.asarray(data[0].batch.obs.target)
    step = np.arange(padded.shape[1]) >= series.lengths[data[0].samples, None]
    assert np.isnan(padded[step]).all()
    error = mean_squared_error(jnp.zeros(padded.shape), jnp.asarray(padded))
    assert error == pytest.approx(float(np.nanmean(padded**2)), rel=1e-4)


def test_sample_weights_count_rows_as_repeats_do(data):
    """A sample of weight 2 trains as one that is there twice, and a sample of weight 0 as none."""
    each = np.where(np.arange(16) < 4, 2.0, np.where(np.arange(16) < 8, 0.0, 1.0))
    weighted, twice = replace(data, weights=each), data.take([*range(4), *range(4), *range(8, 16)])
    quick = {"options": {"hidden": 4}, "target_per": "row", "class_weight": None, "training": {"schedule": "constant"}}
    fit = lambda series, size: LeapClassifier("gru", **quick, epochs=3, batch_size=size).fit(series, validation=data)
    a, b = fit(weighted, 12), fit(twice, 16)
    assert a.history_[0]["train_loss"] == pytest.approx(b.history_[0]["train_loss"], rel=0.1)
    whole = join([data] * 1)
    judged = a.fitted_.evaluate(replace(whole, weights=each))
    said, there = a.fitted_.outputs(data), ~np.isnan(data.target)
    by_hand = measure("classification", said[there], data.target[there].astype(int), np.repeat(each, data.lengths)[there])
    assert judged["auroc"] == pytest.approx(by_hand["auroc"])


def test_training_learns_what_rows_show():
    series = some(120, 3)
    classifier = LeapClassifier("gru", target_per="row", options={"hidden": 8}, epochs=25, learning_rate=0.02).fit(series)
    fresh = some(60, 4)
    metrics = classifier.fitted_.evaluate(fresh)
    assert metrics["auroc"] > 0.85 and metrics["ece"] < 0.15
    said, there = np.concatenate(classifier.predict(fresh)), ~np.isnan(fresh.target)
    assert classifier.score(fresh) == pytest.approx(np.mean(said[there] == fresh.target[there]))
    assert metrics["accuracy"] == pytest.approx(classifier.score(fresh))
    probability = np.concatenate(classifier.predict_proba(fresh))[there]
    assert abs(probability[:, 1].mean() - np.nanmean(fresh.target)) < 0.15  # balanced weights are undone


def test_numbers_and_the_contract():
    series = some(24, 5)
    number = replace(series, target=np.where(np.isnan(series.target), np.nan, series.times))
    regressor = LeapRegressor("gru", target_per="row", options={"hidden": 4}, epochs=1).fit(number)
    assert [len(one) for one in regressor.predict(number)] == number.lengths.tolist()
    there = ~np.isnan(number.target)
    error = np.concatenate(regressor.predict(number))[there] - number.target[there]
    assert regressor.fitted_.evaluate(number)["mse"] == pytest.approx(np.mean(error**2), rel=1e-5)
    check_estimator(LeapClassifier("gru", target_per="row", options={"hidden": 4}, epochs=1))


def test_a_killed_training_goes_on_with_the_same_bits(data, tmp_path):
    preprocessor = Preprocessor.learn(data, "classification", Recipe())
    encoded, model = preprocessor.encode(data), build("gru", preprocessor.spec, hidden=4)
    config, where = TrainConfig(epochs=3), tmp_path / "training.safetensors"
    run = lambda **more: train(model, "classification", encoded, encoded, config, metric="auroc", **more)
    whole = run()
    run(checkpoint=where, on_epoch=lambda row: row["epoch"] == 1)
    again = run(checkpoint=where)
    same = lambda rows: [{k: v for k, v in row.items() if "seconds" not in k} for row in rows]
    assert same(again.history.rows) == same(whole.history.rows)


# Splits, tables, baselines


def test_samples_stay_whole_and_splits_know_the_rare_class():
    series = as_series(np.ones((40, 3, 1)), target=[[0, 0, int(i % 8 == 0)] for i in range(40)], target_per="row")
    assert sample_labels(series).tolist() == [int(i % 8 == 0) for i in range(40)]
    rest, held = LeapClassifier(target_per="row")._hold_out(series, 0.4, 0)
    assert len(rest) + len(held) == 40 and sample_labels(held).sum() == 2
    kept = series.keep_rows(np.tile([True, False, True], 40))
    assert kept.target.tolist() == [0, 1] + [0, 0] * 7 + kept.target.tolist()[16:]
    assert pad(series.take([8, 1])).target.tolist() == [[0, 0, 1], [0, 0, 0]]


def test_a_table_with_a_target_in_each_row():
    table = pd.DataFrame({"id": ["b", "a", "a", "b"], "t": [1, 2, 1, 0], "x": 1.0, "state": ["on", None, "off", "on"]})
    series = from_table(table, id="id", time="t", target="state", target_per="row")
    assert series.target.tolist() == ["off", "", "on", "on"] and series.per_row
    numbers = from_table(table.assign(state=[1, None, 0, 1]), id="id", time="t", target="state", target_per="row")
    np.testing.assert_array_equal(numbers.target, [0, np.nan, 1, 1])


@given(st.integers(0, 10_000))
def test_running_summaries_are_summaries_of_each_prefix(seed):
    series = some(5, seed)
    prefixes = join([as_pairs(series, i, rows) for i in range(5) for rows in range(1, series.lengths[i] + 1)])
    found, expected = running.running_features(series), features(prefixes)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_trees_on_running_summaries(data, monkeypatch):
    preprocessor = Preprocessor.learn(data, "classification", Recipe())
    trees = fit_baseline("boosted-trees", data, data, preprocessor)
    whole = trees.outputs(data)
    monkeypatch.setattr(running, "BLOCK", 10)
    np.testing.assert_array_equal(trees.outputs(data), whole)
    assert trees.title == "boosted trees on running summaries"
    assert softmax(fit_baseline("class-prior", data, data, preprocessor).outputs(data))[0, 1] == pytest.approx(
        (np.nansum(data.target) + 1) / ((~np.isnan(data.target)).sum() + 2)
    )


def test_rounds_of_trees_are_chosen_on_whole_samples():
    """Labels that belong to a sample and to nothing in it: its rows are learned by heart, and that helps nobody else."""
    rng = np.random.default_rng(0)
    rows = lambda n: [np.cumsum(rng.normal(size=(20, 2)), 0) for _ in range(n)]
    series = lambda n, y: as_series(rows(n), target=y, target_per="row")
    train, held = (series(60, list(np.repeat(rng.integers(0, 2, (60, 1)), 20, axis=1))) for _ in range(2))
    preprocessor = Preprocessor.learn(train, "classification", Recipe())
    found = fit_baseline("boosted-trees", train, held, preprocessor)
    assert found.arrays["strength"] == len(found.arrays["feature"]) == running.ROUNDS[0]
    again = refit_baseline(found, train, preprocessor)  # as many rounds, although its rows would like more
    np.testing.assert_array_equal(again.outputs(held), found.outputs(held))
    at_once = fit_baseline("boosted-trees", train, train, preprocessor)
    assert at_once.arrays["strength"] == running.ROUNDS[-1]
    numbers = Preprocessor.learn(train, "regression", Recipe())
    assert fit_baseline("boosted-trees", train, held, numbers).arrays["strength"] == running.ROUNDS[0]


def test_a_race_draws_samples_and_not_rows():
    """Rows that repeat each other say no more than one of them."""
    rng, owner = np.random.default_rng(3), np.repeat(np.arange(8), 50)
    few = [rng.normal(0, 1, (8, 1)), rng.normal(0, 1, (8, 1))]
    once = weigh("regression", few, np.zeros((8, 1)))
    many = [one[owner] for one in few]
    assert weigh("regression", many, np.zeros((400, 1)), owner=owner) == pytest.approx(once)
    assert once.min() > 0.05 and weigh("regression", many, np.zeros((400, 1))).max() == 1  # rows alone would be sure


# One clear error


def test_mistakes_have_one_error(data, trained):
    X, y = [data.sample(i) for i in range(16)], np.split(data.target, data.offsets[1:-1])
    rows = LeapClassifier(target_per="row", epochs=1)
    short = [*y[:3], y[3][:-1], *y[4:]]
    for fit, words in {
        "wrong length": (lambda: rows.fit(X, short), "target of sample 3: .* values for .* rows"),
        "too few": (lambda: rows.fit(X, y[:-1]), "15 entries for 16 samples"),
        "one a sample": (lambda: rows.fit(X, np.arange(16) % 2), "list of arrays with one value a row"),
        "not asked for": (lambda: LeapClassifier(epochs=1).fit(X, y), "target_per='row'"),
        "per row, not asked for": (lambda: LeapClassifier(epochs=1).fit(data), "give target_per='row'"),
        "constant": (lambda: rows.fit(X, [np.ones(len(one)) for one in y]), "1.0 in every row"),
        "none": (lambda: rows.fit(X, [np.full(len(one), np.nan) for one in y]), "empty in all rows"),
        "unknown": (lambda: LeapClassifier(target_per="hour").fit(X, y), "there is no target_per 'hour'"),
        "looks ahead": (
            lambda: LeapClassifier(target_per="row", options={"causal": False}).fit(X, y),
            "must not look ahead",
        ),
        "cannot": (lambda: LeapClassifier("ncde", target_per="row").fit(X, y), "these can: .*gru-d, leap\\+"),
        "sets": (lambda: trained.predict_set(X), "predict_set is not for answers after each row"),
        "attribution": (lambda: trained.explain(data), "one answer a sample"),
        "export": (lambda: export(trained, "x.bin", format="stablehlo", length=4), "cannot be exported yet"),
        "intervals": (
            lambda: LeapRegressor("gru", target_per="row", calibration=0.2).fit(X, y),
            "calibration=0.2 is not for answers after each row",
        ),
        "forecasts": (lambda: LeapForecaster(horizon=2).fit(data), "forecasts are of channels"),
        "other targets": (
            lambda: trained.fitted_.evaluate(as_series(replace(data, target_per="sample"), target=np.arange(16))),
            "trained on one per row",
        ),
    }.values():
        with pytest.raises(InputError, match=words):
            fit()
    assert "leap+" in answer_rows()

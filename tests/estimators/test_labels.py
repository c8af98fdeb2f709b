"""Labels, of which any number may be true of a sample: losses and metrics against slow ones, estimators, files, bad input."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score

import leapcde
from command import fails
from command import leapcde as command
from leapcde.baselines import tabular
from leapcde.baselines.fitted import fit_baseline, refit_baseline
from leapcde.baselines.summary import features
from leapcde.baselines.tabular import learn_scale, scaled
from leapcde.data.dataset import Dataset
from leapcde.data.drop import without_empty_rows
from leapcde.data.read import as_series
from leapcde.data.split import folds, rarest
from leapcde.ensemble.fitted import mix
from leapcde.ensemble.weigh import losses
from leapcde.errors import InputError
from leapcde.estimators.certainty.calibrate import Evidence, judged_by_others, learn_calibration, learn_from
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.run import told_seen
from leapcde.estimators.several import race as racing
from leapcde.estimators.several.race import Candidate
from leapcde.nn.losses import label_entropy
from leapcde.paths.batch import Recipe
from leapcde.training.metrics import measure
from leapcde.training.preprocess import Preprocessor
from leapcde.training.step import label_weights

NAMES = ["sick", "tired", "old"]
GRU = {"options": {"hidden": 4}, "epochs": 3}


def drawn(count: int = 90, seed: int = 0) -> tuple[leapcde.Series, np.ndarray]:
    """Ragged samples; each label moves a channel of its own, the last one is rare."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((count, 3)) < [0.5, 0.4, 0.25]).astype(int)
    pairs = []
    for row in truth:
        length = int(rng.integers(4, 8))
        pairs.append((np.sort(rng.random(length)), rng.normal(size=(length, 3)) + 2.5 * row))
    return as_series(pairs), truth


@pytest.fixture(scope="module")
def trained() -> tuple[LeapClassifier, leapcde.Series, np.ndarray]:
    X, y = drawn()
    return LeapClassifier("gru", **{**GRU, "epochs": 20}).fit(X, y), X, y


def test_the_loss_is_scikit_learns_and_weights_count_what_is_true():
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=(20, 3)), (rng.random((20, 3)) < 0.4).astype(float)
    weights, each = np.array([1.0, 3.0, 0.5]), rng.random(20)
    want = np.mean([log_loss(truth[:, j], expit(scores[:, j])) for j in range(3)])
    found = lambda *more, **by: float(label_entropy(jnp.asarray(scores), jnp.asarray(truth), *more, **by))
    assert found() == pytest.approx(want, rel=1e-5)
    share = np.where(truth > 0, weights, 1.0)
    slow = -np.where(truth > 0, np.log(expit(scores)), np.log(expit(-scores)))
    assert found(jnp.asarray(weights)) == pytest.approx((share * slow).sum() / share.sum(), rel=1e-5)
    want = (each[:, None] * share * slow).mean()
    assert found(jnp.asarray(weights), each=jnp.asarray(each)) == pytest.approx(want, rel=1e-5)
    np.testing.assert_allclose(losses("labels", scores, truth), slow.mean(1))
    assert (label_weights(truth) * truth.sum(0)).tolist() == pytest.approx((1 - truth).sum(0).tolist())


def test_metrics_are_scikit_learns_means_over_labels():
    rng = np.random.default_rng(1)
    truth = (rng.random((80, 3)) < 0.4).astype(np.float32)
    scores, weights = rng.normal(size=(80, 3)) + truth, rng.random(80) + 0.5
    found = measure("labels", scores, truth, weights)
    each = lambda how, said: np.mean([how(truth[:, j], said[:, j], sample_weight=weights) for j in range(3)])
    assert found["auroc"] == pytest.approx(each(roc_auc_score, scores))
    assert found["auprc"] == pytest.approx(each(average_precision_score, scores))
    assert found["brier"] == pytest.approx(each(brier_score_loss, expit(scores)))
    right = ((scores > 0) == truth).all(1)
    assert found["accuracy"] == pytest.approx(np.average(right, weights=weights))
    truth[:, 0] = 1  # of a label that all have, no AUROC is known: the mean is over the others
    rest = np.mean([roc_auc_score(truth[:, j], scores[:, j]) for j in (1, 2)])
    assert measure("labels", scores, truth)["auroc"] == pytest.approx(rest)
    assert np.isnan(measure("labels", scores * np.nan, truth)["auroc"])


def test_probabilities_are_mixed_and_calibrated_label_by_label():
    rng = np.random.default_rng(2)
    scores = [rng.normal(size=(4, 3)) for _ in range(2)]
    want = 0.3 * expit(scores[0]) + 0.7 * expit(scores[1])
    np.testing.assert_allclose(expit(mix("labels", scores, [0.3, 0.7])), want)
    X, truth = drawn(200)
    said = 3.0 * (truth - 0.5 + rng.normal(size=truth.shape))
    found = learn_from(Evidence(said, truth), np.array([0.0, 0.4, 0.0]))
    two = learn_calibration(np.stack([0 * said[:, 1], said[:, 1]], 1), truth[:, 1], np.array([-0.2, 0.2]))
    assert np.array(found.temperature)[1] == pytest.approx(two.temperature)
    np.testing.assert_allclose(found(said)[:, 1], said[:, 1] / two.temperature + two.bias[1] - two.bias[0])
    part = folds(X, rarest(truth), 5)
    others = learn_from(Evidence(said, truth).take(part != 2), np.zeros(3))
    judged = judged_by_others(X, Evidence(said, truth), np.zeros(3))
    np.testing.assert_allclose(judged[part == 2], others(said[part == 2]))


def test_a_baseline_of_labels_is_one_of_two_classes_for_each():
    X, y = drawn(120)
    train = as_series(X, target=y)
    of = Preprocessor.learn(train, "labels", Recipe())
    found = fit_baseline("logistic-regression", train, train, of)
    table = scaled(features(X), learn_scale(features(X)))
    parts = tabular.apart(found.arrays)
    for j, one in enumerate(parts):
        model = LogisticRegression(C=float(one["strength"]), max_iter=200).fit(table, y[:, j])
        np.testing.assert_allclose(found.outputs(X)[:, j], model.decision_function(table), rtol=1e-6, atol=1e-9)
    again = refit_baseline(found, train, of)
    assert [one["strength"] for one in tabular.apart(again.arrays)] == [one["strength"] for one in parts]


def test_an_estimator_answers_for_every_label(trained, tmp_path):
    fitted, X, y = trained
    p = fitted.predict_proba(X)
    assert p.shape == y.shape and fitted.task == "labels" and fitted.classes_.tolist() == ["y0", "y1", "y2"]
    assert (
        fitted.predict(X).tolist() == (p > 0.5).astype(int).tolist() == (fitted.decision_function(X) > 0).astype(int).tolist()
    )
    assert fitted.score(X, y) == pytest.approx(np.mean((fitted.predict(X) == y).all(1)))
    judged = fitted.fitted_.evaluate(as_series(X, target=y))
    assert judged["auroc"] > 0.8 and judged["auroc(y1)"] == pytest.approx(roc_auc_score(y[:, 1], p[:, 1]))
    assert judged["brier"] < 0.2 and "3 labels" in fitted.summary()
    fitted.save(tmp_path / "model.safetensors")
    again = leapcde.load(tmp_path / "model.safetensors")
    assert again.predict_proba(X).tolist() == p.tolist() and again.task == "labels" and "labels" in repr(again.fitted_)
    found = fitted.explain(X.take([0, 1]), of="y1", steps=4)
    assert found.unit == "added to the score of y1"
    with pytest.raises(InputError, match="sets are of classes"):
        fitted.predict_set(X)


def test_class_weights_of_labels_are_undone():
    """Without held-out data nothing else is calibrated: what is left is the exact shift."""
    X, y = drawn(60)
    plain, heavy = (
        LeapClassifier("gru", validation=0.0, class_weight=w, **GRU).fit(X, y).fitted_.calibration for w in (None, {"y1": 4.0})
    )
    assert plain.bias == (0.0, 0.0, 0.0) and heavy.bias == pytest.approx((0.0, -np.log(4.0), 0.0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda y: y + 1, "is 2; labels are 0 or 1"),
        (lambda y: np.where(y, "a", "b"), "not text"),
        (lambda y: np.where(np.arange(3) == 1, 1, y), "y1 is 1 in every training sample"),
        (lambda y: y[:, :, None], "Unknown label type"),
        (lambda y: y * np.nan, "labels are 0 or 1|missing|finite|NaN"),
    ],
)
def test_what_is_no_label_is_told(wrong, message):
    X, y = drawn(20)
    with pytest.raises(InputError, match=message):
        LeapClassifier("gru", **GRU).fit(X, wrong(y))


def test_a_file_of_labels_from_race_to_prediction(tmp_path, monkeypatch):
    """Yes and no, true and false, 1 and 0 are all labels; but only if they are asked for. Known samples are told."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(racing, "CANDIDATES", [Candidate("gru", {"model": "gru", "options": {"hidden": 4}})])
    X, y = drawn(80)
    words = [np.where(y[:, 0], "yes", "no"), np.where(y[:, 1], "true", "false"), y[:, 2]]
    table = pd.DataFrame(X.values, columns=["a", "b", "c"]).assign(id=X.owner, t=X.times)
    table = table.assign(**{name: word[X.owner] for name, word in zip(NAMES, words, strict=True)})
    table.to_csv("f.csv", index=False)
    asked = ["fit", "f.csv", "--id", "id", "--time", "t", "--epochs", "1", "--target"]
    fails(
        tmp_path, *asked, "sick,tired,old", "--out", "no", words=("--task 'labels'", "--task 'regression'", "sick, tired, old")
    )
    fails(tmp_path, *asked, "sick", "--task", "labels", "--out", "no", words=("several columns",))
    table.assign(old=2 * y[:, 2][X.owner]).to_csv("odd.csv", index=False)
    fails(tmp_path, asked[0], "odd.csv", *asked[2:], "sick,old", "--task", "labels", words=("column 'old' holds 2",))
    found = command(*asked, "sick,tired,old", "--task", "labels", "--json", "--out", "run").json
    assert found["metric"] == "auroc" and {"auroc", "accuracy", "brier", "auroc(tired)"} <= found["test"].keys()
    assert list(found["baselines"]) == ["class-prior", "logistic-regression", "boosted-trees", "extra-trees"]
    rows = pd.DataFrame(command("predict", "run", "f.csv", "--json").json["predictions"])
    assert list(rows) == ["id", *NAMES, *(f"p({name})" for name in NAMES)] and rows[NAMES].isin([0, 1]).all().all()
    later = command("evaluate", "run", "f.csv", "--json").json
    assert later["model"]["auroc"] > 0.8 and later["seen"].startswith("56 of 80 samples trained the model and 12 chose")
    assert later["seen"] in command("evaluate", "run", "f.csv").out
    fresh, truth = drawn(30, seed=7)
    new = pd.DataFrame(fresh.values, columns=["a", "b", "c"]).assign(id=fresh.owner, t=fresh.times)
    new.assign(**dict(zip(NAMES, truth[fresh.owner].T, strict=True))).to_csv("new.csv", index=False)
    assert command("evaluate", "run", "new.csv", "--json").json["seen"] is None


def test_samples_are_known_again_also_with_rows_that_say_nothing():
    """What was split has no empty rows; the file that it came from does."""
    values = np.random.default_rng(0).normal(size=(6, 5, 2))
    values[:, 2] = np.nan
    whole = as_series(values, target=np.arange(6) % 2)
    split = without_empty_rows(whole)
    parts = [split.take([0, 1, 2]), split.take([3]), split.take([4, 5])]
    said = told_seen(whole, Dataset("a file", "classification", *parts))
    assert said.startswith("3 of 6 samples trained the model and 1 chose its weights")
    assert told_seen(as_series(values + 1.0), Dataset("a file", "classification", *parts)) == ""


def test_fitting_adds_no_public_attributes(trained):
    """As scikit-learn asks, whose check of it is slow."""
    added = set(vars(trained[0])) - set(trained[0].get_params())
    assert added and all(name.startswith("_") or name.endswith("_") for name in added)

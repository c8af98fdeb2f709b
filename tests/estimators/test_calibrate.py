"""Probabilities that are frequencies: the correction against simulated truth, sets against their promise, and whole models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import FixedThresholdClassifier

import leapcde
from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.estimators.certainty.calibrate import ClassSets, known_shift, learn_calibration
from leapcde.estimators.classifier import LeapClassifier
from leapcde.training.calibration import Calibration
from leapcde.training.metrics import frequencies, reliability

WEIGHTS = (0.4, 1.0, 6.0)


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """True probabilities of three classes, the last of them rare, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = special.softmax(rng.normal(size=(count, 3)) * 1.5 + [2.0, 1.0, -1.5], axis=1)
    return p, (rng.random((count, 1)) > p.cumsum(1)).sum(1)


def test_class_weights_are_undone_exactly():
    p, _ = drawn(50)
    learned = np.log(p * WEIGHTS)  # what the weighted cross-entropy is least for
    found = special.softmax(Calibration(1.0, tuple(known_shift(WEIGHTS, 3).tolist()))(learned), axis=1)
    np.testing.assert_allclose(found, p, rtol=1e-12)
    assert known_shift(None, 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_too_sure_and_too_unsure_models_are_put_right(temperature):
    p, labels = drawn(20_000)
    score = temperature * (np.log(p) + np.log(WEIGHTS))  # evidence and prior both blown up
    found = learn_calibration(score, labels, known_shift(WEIGHTS, 3))
    assert found.temperature == pytest.approx(temperature, rel=0.05)
    np.testing.assert_allclose(special.softmax(found(score), 1), p, atol=0.03)
    fresh_p, fresh = drawn(20_000, seed=1)
    said = special.softmax(found(temperature * np.log(fresh_p * WEIGHTS)), 1)
    assert frequencies(said, fresh)["ece"] < 0.015
    assert said[:, 2].mean() == pytest.approx(np.mean(fresh == 2), abs=0.005)  # the rare class is as rare as it is


def test_a_sample_counts_by_its_weight():
    p, labels = drawn(3000)
    times = np.random.default_rng(0).integers(0, 3, len(labels))
    weighted = learn_calibration(3 * np.log(p), labels, np.zeros(3), sample_weight=times * 7.0)
    repeated = learn_calibration(3 * np.repeat(np.log(p), times, 0), np.repeat(labels, times), np.zeros(3))
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=0.01)


def test_few_held_out_samples_do_not_make_it_sure_of_itself():
    score = np.array([[2.0, -2.0], [-2.0, 2.0]] * 3)
    found = learn_calibration(score, np.array([0, 1] * 3), np.zeros(2))  # all right: no temperature is too low for them
    assert 0.5 < found.temperature <= 1
    strange = learn_calibration(np.full((4, 2), np.nan), np.array([0, 1, 0, 1]), np.array([0.5, -0.5]))
    assert strange == Calibration(1.0, (0.5, -0.5))
    only_one = learn_calibration(np.zeros((9, 2)), np.zeros(9, int), np.zeros(2))  # a class that was not held out
    assert np.isfinite(only_one.bias).all() and only_one.bias[0] < 1


def slow_ece(said: np.ndarray, came: np.ndarray, bins: int = 15) -> float:
    """Equal-mass bins, one after the other, where no two probabilities are the same."""
    order = np.argsort(said)
    parts = np.split(order, [int(np.ceil(len(said) * k / bins)) for k in range(1, bins)])
    return sum(abs(said[part].mean() - came[part].mean()) * len(part) for part in parts) / len(said)


def test_calibration_error_and_brier_score_against_slow_ones():
    p, labels = drawn(1000)
    found = frequencies(p, labels)
    assert found["ece"] == pytest.approx(slow_ece(p.max(1), p.argmax(1) == labels), abs=1e-12)
    assert found["brier"] == pytest.approx(sum(((p[:, c] - (labels == c)) ** 2).mean() for c in range(3)))
    two = np.stack([1 - p[:, 2], p[:, 2]], 1)
    rare = (labels == 2).astype(int)
    assert frequencies(two, rare)["ece"] == pytest.approx(slow_ece(two[:, 1], rare), abs=1e-12)
    assert frequencies(two, rare)["brier"] == pytest.approx(brier_score_loss(rare, two[:, 1]))
    assert frequencies(np.eye(3)[(labels + 1) % 3], labels)["ece"] == 1  # sure and wrong
    said, came, count = reliability(two, rare)
    assert len(said) == 15 and count.sum() == 1000 and (np.diff(said) > 0).all() and (came @ count) == pytest.approx(rare.sum())
    assert all(np.isnan(value) for value in frequencies(np.full((2, 2), np.nan), np.array([0, 1])).values())


def test_sets_hold_every_class_as_often_as_they_say():
    """Over many draws of few held-out samples the coverage of a class is ⌈0.8 (n + 1)⌉ / (n + 1) for a continuous score."""
    covered = []
    for seed in range(300):
        p, labels = drawn(400, seed)
        sets = ClassSets.learn(p[:100], labels[:100])
        inside = p[100:] >= sets.bounds(0.8)  # without the most probable class, which only adds
        covered.append([inside[labels[100:] == c, c].mean() for c in range(3)])
    mean, error = np.nanmean(covered, axis=0), np.nanstd(covered, axis=0) / np.sqrt(300)
    assert (mean[:2] > 0.8 - 3 * error[:2]).all() and (mean[:2] < 0.84 + 3 * error[:2]).all()


def test_bounds_of_rare_classes_are_those_of_all():
    p = np.linspace(0.01, 1, 100)
    sets = ClassSets(p, np.where(np.arange(100) < 3, 1, 0), 2)
    own, shared = sets.bounds(0.9)
    assert own == np.sort(p[3:])[::-1][int(np.ceil(98 * 0.9)) - 1] and shared == np.sort(p)[::-1][int(np.ceil(101 * 0.9)) - 1]
    assert ClassSets(p[:3], np.zeros(3, int), 2).bounds(0.9).tolist() == [0, 0]  # too few: every class is possible
    assert sets.of(np.array([[0.004, 0.003]]), 0.9).tolist() == [[True, False]]  # a set is never empty
    for coverage in (0.0, 1.0, 90.0):
        with pytest.raises(InputError, match="between 0 and 1"):
            sets.bounds(coverage)


def rare(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Short series, their labels, of which about one in nine is 'ill', and the true probability of it."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=count)
    p = special.expit(1.6 * level - 2.8)
    X = level[:, None, None] + 0.05 * rng.normal(size=(count, 3, 1))
    return X, np.where(rng.random(count) < p, "ill", "well"), p


@pytest.fixture(scope="module", params=["balanced", None])
def weighed(request) -> LeapClassifier:
    X, y, _ = rare(1600, 0)
    settings = {"options": {"hidden": 8}, "epochs": 12, "learning_rate": 0.02, "interpolation": "hermite"}
    return LeapClassifier("gru", **settings, class_weight=request.param, validation=0.4).fit(X, y)


def test_probabilities_are_frequencies_with_and_without_class_weights(weighed):
    X, y, p = rare(6000, 1)
    said = weighed.predict_proba(X)
    assert weighed.classes_.tolist() == ["ill", "well"]
    found = weighed.fitted_.evaluate(as_series(X, target=y))
    assert found["ece"] < 0.025 and said[:, 0].mean() == pytest.approx(p.mean(), abs=0.02)
    assert found["brier"] < 1.03 * np.mean((p - (y == "ill")) ** 2)
    assert np.array_equal(weighed.predict(X), weighed.classes_[said.argmax(1)])
    lead = weighed.decision_function(X)
    np.testing.assert_allclose(special.expit(lead), said[:, 1], rtol=1e-9)


def test_without_the_correction_a_rare_class_is_inflated(weighed):
    X, _, p = rare(2000, 1)
    raw = weighed.fitted_.model  # as trained
    plain = LeapClassifier("gru")
    plain._keep(type(weighed.fitted_)(weighed.fitted_.preprocessor, raw, "gru", weighed.fitted_.options))
    inflated = plain.predict_proba(X)[:, 0].mean() / p.mean()
    assert (inflated > 2) == (weighed.class_weight == "balanced")


def test_sets_of_a_trained_model_on_fresh_data(weighed):
    X, y, _ = rare(6000, 2)
    sets = weighed.predict_set(X, coverage=0.8)
    held = np.array([label in some for label, some in zip(y, sets, strict=True)])
    for name in ("ill", "well"):
        few = np.sum(weighed.sets_.labels == weighed.classes_.tolist().index(name))
        error = np.sqrt(0.16 / few + 0.16 / np.sum(y == name))  # of the bound, and of what is counted here
        assert held[y == name].mean() > 0.8 - 3 * error
    assert {tuple(some) for some in sets} >= {("well",), ("well", "ill")}  # the most probable first
    assert {len(some) for some in weighed.predict_set(X, coverage=0.999)} == {2}


def test_all_roads_lead_to_the_same_probabilities(weighed, tmp_path):
    X, _, _ = rare(5, 3)
    weighed.save(tmp_path / "model.safetensors")
    again = leapcde.load(tmp_path / "model.safetensors")
    assert np.array_equal(again.predict_proba(X), weighed.predict_proba(X))
    assert [some.tolist() for some in again.predict_set(X)] == [some.tolist() for some in weighed.predict_set(X)]
    stream = weighed.stream()
    for t, x in enumerate(X[0]):
        stream.push(float(t), x)
    np.testing.assert_allclose(stream.predict_proba(), weighed.predict_proba(X[:1])[0], rtol=1e-4)


def test_a_threshold_of_ones_own(weighed):
    """Those for whom a missed case costs more than a false alarm use scikit-learn's wrapper, and no parameter of ours."""
    X, y, _ = rare(1000, 4)
    careful = FixedThresholdClassifier(
        FrozenEstimator(weighed), threshold=0.1, pos_label="ill", response_method="predict_proba"
    )
    said = careful.fit(X, y).predict(X)
    assert np.array_equal(said == "ill", weighed.predict_proba(X)[:, 0] >= 0.1)
    assert np.mean(said[y == "ill"] == "ill") > np.mean(weighed.predict(X)[y == "ill"] == "ill")


def test_nothing_held_out_means_no_sets_but_weights_are_undone():
    X, y, _ = rare(300, 0)
    one = LeapClassifier("gru", options={"hidden": 4}, epochs=1, validation=0.0).fit(X, y)
    assert one.fitted_.calibration.temperature == 1 and one.predict_proba(X)[:, 0].mean() < 0.3
    with pytest.raises(InputError, match="no data was held out"):
        one.predict_set(X)
    one.partial_fit(X, y)
    assert one.sets_ is None and one.fitted_.calibration.bias[0] < 0

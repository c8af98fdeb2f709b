"""Looking inside: the learned path at any time, what counted, intervals that cover, and mistakes that are told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import awake
from leapcde.data.drop import without_empty_rows
from leapcde.data.read import as_series
from leapcde.data.split import hold_out
from leapcde.data.windows import windows_at
from leapcde.datasets import hopper
from leapcde.errors import InputError, LeapError, LeapWarning
from leapcde.estimators.certainty.intervals import Conformal
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.regressor import LeapRegressor
from leapcde.explain.attribution import attribute
from leapcde.explain.explanation import MEASURED
from leapcde.models.registry import build
from leapcde.paths.batch import Batch, Recipe
from leapcde.training.fitted import FittedModel
from leapcde.training.preprocess import Preprocessor

TINY = {"hidden": 4, "width": 4, "depth": 1}
PLUS = {"hidden": 4, "depth": 1, "path_width": 4, "flow": 4, "flow_width": 4}
LEAP = {**TINY, "f_width": 4, "decoder_steps": 4}
QUICK = {"options": TINY, "interpolation": "linear", "epochs": 1, "batch_size": 16}


def falls(count: int = 24, rows: int = 12):
    rng = np.random.default_rng(0)
    values = hopper.bundled()[:count, : 2 * rows : 2, [1, 2]].astype(float)
    values[:, 1:][rng.random((count, rows - 1, 2)) < 0.2] = np.nan
    return as_series(values, target=np.arange(count) % 3, channels=("height", "angle"), static=rng.normal(size=(count, 1)))


def by_path(one):
    """Fills holes with the learned path, however bad it is; see tests/explain/test_filling.py for the rest."""
    one._held = None
    return one


@pytest.fixture(scope="module")
def leap():
    return by_path(LeapClassifier("leap", options=LEAP, interpolation="linear", epochs=1, batch_size=16).fit(falls()))


@pytest.fixture(scope="module")
def plus():
    return by_path(LeapClassifier("leap+", options=PLUS, interpolation="linear", epochs=1, batch_size=16).fit(falls()))


# The learned path


@pytest.mark.parametrize("name", ["leap", "plus"])
def test_path_at_times(name, request):
    leap, series = request.getfixturevalue(name), falls().take([0, 5])
    grid = leap.path(series, 9)
    assert leap.predict_at(series, grid["t"]) == pytest.approx(grid["Y"], rel=1e-4, abs=1e-4)
    shared = leap.predict_at(series, [0.5, 3.0])
    assert shared.shape == (2, 2, 2)
    own = leap.predict_at(series)
    assert [len(rows) for rows in own] == series.lengths.tolist()
    assert own[1][3] == pytest.approx(leap.predict_at(series, [series.sample(1)[0][3]])[1, 0], rel=1e-5)
    with pytest.raises(InputError, match="sample 0: its path goes from 0 to 10"):
        leap.predict_at(series, [3.0, 12.0])
    with pytest.raises(InputError, match="3 rows for 2 samples"):
        leap.predict_at(series, np.ones((3, 1)))


def test_the_path_of_leap_plus_passes_through_what_was_observed(plus):
    series = falls()
    found, there = np.concatenate(plus.predict_at(series)), ~np.isnan(series.values)
    assert found[there] == pytest.approx(series.values[there], abs=1e-4)
    path = plus.path(series, 30)
    assert path["Y"].shape == path["dY"].shape == (24, 30, 2) and path["speed"].shape == (24, 30)


def test_a_model_without_a_learned_path_says_so():
    preprocessor = Preprocessor.learn(falls(), "classification", Recipe("linear"))
    plain = FittedModel(preprocessor, build("ncde", preprocessor.spec, **TINY), "ncde", TINY)
    with pytest.raises(InputError, match="'ncde' does not learn a path; 'leap\\+' and 'leap' do"):
        plain.path_at(falls(), np.zeros((24, 1)))


# What counted


@pytest.mark.parametrize("task", ["classification", "forecasting"])
@pytest.mark.parametrize(("name", "options"), [("ncde", {**TINY, "activation": "tanh"}), ("leap+", PLUS)])
def test_importance_adds_up_to_the_change(task, name, options):
    """Completeness, the theorem behind integrated gradients; also through an anchored head, and with static features."""
    series = falls()
    if task == "forecasting":
        series = as_series(series, target=np.zeros((24, 3, 2)))
    preprocessor = Preprocessor.learn(series, task, Recipe("natural", intensity=True))
    fitted = FittedModel(preprocessor, awake(build(name, preprocessor.spec, **options)), name, options)
    # Y is mixed by how far observations disagree, which bends sharply where all are near 0: more steps are needed.
    found = attribute(fitted, series.take([0, 3, 5]), steps=64 if name == "ncde" else 1024)
    sums = [np.nansum(found.values[a:b]) for a, b in zip(found.series.offsets[:-1], found.series.offsets[1:], strict=True)]
    assert found.change == pytest.approx(sums + found.static.sum(1), rel=1e-2, abs=1e-3)
    assert np.abs(found.change).min() > 1e-3
    assert np.array_equal(np.isnan(found.values), np.isnan(found.series.values))


def test_explanation_as_arrays_plots_and_a_page(leap, tmp_path):
    series = falls().take([0, 5])
    found = leap.explain(series, of=1, steps=4)
    assert found.by_channel.shape == (2, 2) and len(found.calm) == 2 and found.unit == "added to the score of 1"
    assert [rows.shape for rows in found.importance] == [(len(t), 2) for t in found.times]
    assert found.plot(1).axes and found.plot_importance(0, ["angle"]).axes
    page = found.html(tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.count("<img") == 4 and "integrated gradients" in page
    for of, words in [(7, "no class 7"), ((0, "height"), "no class")]:
        with pytest.raises(InputError, match=words):
            leap.explain(series, of=of)


def test_what_was_never_measured_is_said_and_not_drawn(plus, tmp_path):
    series = falls().take([0, 5])
    values = np.array(series.values)
    values[: series.lengths[0], 0] = np.nan
    series = replace(series, values=values)
    with pytest.warns(LeapWarning, match="never observed"):
        found = plus.explain(series, steps=2)
    assert found.most_important(0) == ["angle"] and set(found.most_important(1)) == {"height", "angle"}
    assert [axis.get_ylabel() for axis in found.plot(0).axes] == ["angle", "‖dY/dt‖"]
    first, second = (found.plot_importance(0).axes[-1].get_xlim(), found.plot(0).axes[-1].get_xlim())
    assert first == pytest.approx(second, abs=0.1)  # one axis of time
    page = found.html(tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.count("Never measured in this sample, and not drawn: height.") == 1 and "probability" in page
    parts = dict(found.contributions(0))
    assert "height" not in parts and {"angle", "static 0", MEASURED} == set(parts)
    assert found.in_words(0).startswith("What was added to the score of the predicted class, the most first: ")


def test_being_measured_is_the_step_from_nothing_to_the_mean(plus):
    """f(mean, measured as here) − f(mean, never measured), by two plain calls of the model."""
    series, preprocessor = falls().take([0]), plus.fitted_.preprocessor
    (bucket,) = preprocessor.encode(replace(without_empty_rows(series), target=None))
    obs = bucket.batch.obs
    mean = obs._replace(values=0 * obs.values, last=0 * obs.last, static=0 * obs.static)
    scores = [
        np.asarray(plus.fitted_.model(Batch(one, preprocessor.recipe.path(one))).prediction)[0]
        for one in (mean, mean._replace(mask=0 * obs.mask))
    ]
    lead = [(score[1] - (score[0] + score[2]) / 2) / plus.fitted_.calibration.temperature for score in scores]
    found = attribute(plus.fitted_, series, of=1, steps=2).measured
    assert found == pytest.approx([lead[0] - lead[1]], rel=1e-3, abs=1e-5) and abs(found[0]) > 1e-4


def test_permutation_importance_finds_the_channel_that_counts():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6, 2))
    y = (X[:, :, 1].mean(1) > 0).astype(int)
    one = LeapClassifier(
        "ncde", options=TINY, interpolation="linear", epochs=60, batch_size=16, learning_rate=0.02, validation=0.0
    ).fit(X, y)
    found = one.permutation_importance(X, y, repeats=2)
    assert list(found) == ["x0", "x1"] and found["x1"][0] > 0.2 and found["x1"][0] > found["x0"][0] + 0.1


# Intervals


def test_ninety_percent_intervals_cover_87_to_93_percent_of_hopper():
    """On sequences that neither training nor calibration saw; a poor model has wide intervals, but they cover."""
    data = hopper.bundled()[:, :60].astype(float)
    one = LeapForecaster("ncde", horizon=10, window=50, stride=10, calibration=0.3, **QUICK).fit(data[:1000])
    low, high = one.predict_interval(data[1000:, :50], 0.9)
    truth = data[1000:, 50:]
    covered = (low <= truth) & (truth <= high)
    assert 0.87 <= covered.mean() <= 0.93
    assert covered.mean((0, 1)).min() > 0.84  # every channel, and
    assert covered.mean((0, 2)).min() > 0.84  # every step


@given(st.integers(5, 60), st.floats(0.05, 0.95), st.integers(0, 1000))
def test_conformal_margin_is_the_smallest_that_covers_enough(count, coverage, seed):
    errors = np.random.default_rng(seed).normal(size=count)
    margin = Conformal.learn(errors, np.zeros(count)).margin(coverage)
    inside = (np.abs(errors) <= margin).sum()
    assert inside >= min(coverage * (count + 1), count) - 1e-6 or np.isinf(margin)
    assert np.isinf(margin) or inside <= np.ceil((count + 1) * coverage)


def test_unknown_truths_do_not_count():
    known = Conformal.learn(np.array([1.0, 2.0, 3.0, np.nan]), np.zeros(4))
    assert known.margin(0.5) == 2.0 and np.isinf(known.margin(0.9))


# Windows at times, and what is held out


def test_targets_at_times_lie_between_observations_or_are_unknown():
    series = as_series([([0.0, 1, 2, 10], [[0.0, 5], [1, np.nan], [2, np.nan], [10, np.nan]])])
    cut = windows_at(series, 2, np.array([0.5, 3.0, 8.5]))
    assert cut.target[0, :, 0].tolist() == [1.5, 4.0, 9.5] and np.isnan(cut.target[1, 2, 0])
    assert np.isnan(cut.target[:, :, 1]).all()
    with pytest.raises(InputError, match="horizon 20: no sequence goes on so long"):
        windows_at(series, 2, np.array([0.5, 20.0]))


def test_hold_out_keeps_rare_classes_and_whole_sequences():
    labels = np.array(["a"] * 20 + ["b"] * 20 + ["c"] * 2)
    kept, held = hold_out(as_series(np.ones((42, 3, 1)), target=labels), 0.15, labels=labels)
    assert sorted(held.target.tolist()) == ["a"] * 3 + ["b"] * 3 and (kept.target == "c").sum() == 2
    series = as_series(np.ones((40, 3, 1)), target=np.zeros(40))
    object.__setattr__(series, "ids", np.repeat(np.arange(10), 4))
    kept, held = hold_out(series, 0.2, by_id=True)
    assert not set(kept.ids.tolist()) & set(held.ids.tolist()) and len(held) == 8


# Adversarial: every case is a clear error, or an answer

LABELS = [0, 1] * 4
GOOD = np.random.default_rng(0).normal(size=(8, 6, 2))
NAN = np.full((8, 6, 2), np.nan)
BAD_FITS = {
    "no data": ([], [], "there are no samples"),
    "a number": (3.0, [1], "cannot read series from float"),
    "text": ("abc", ["a"], "cannot read series from str"),
    "a dictionary": ({"a": 1}, [1], "cannot read series from dict"),
    "None": (None, None, "cannot read series from NoneType"),
    "an empty array": (np.ones((0, 5, 2)), [], "there are no observations"),
    "four dimensions": (np.ones((2, 3, 4, 5)), [0, 1], "4-D array"),
    "text in an array": (np.full((8, 3, 1), "a"), LABELS, "give numbers"),
    "complex numbers": (np.ones((8, 3, 1)) * 1j, LABELS, "give numbers"),
    "infinite values": (np.where(np.arange(6)[None, :, None] == 3, np.inf, GOOD), LABELS, "infinite value at position 3"),
    "times backwards": ([([1, 0], np.ones((2, 1)))] * 8, LABELS, "times go backwards"),
    "a time twice": ([([0, 0], np.ones((2, 1)))] * 8, LABELS, "appears twice"),
    "no time": ([([0, np.nan], np.ones((2, 1)))] * 8, LABELS, "times must be finite"),
    "more times than rows": ([([0, 1, 2], np.ones((2, 1)))] * 8, LABELS, "3 times for 2 rows"),
    "channels that differ": ([np.ones((2, 1)), np.ones((2, 3))] * 4, LABELS, "channels, expected"),
    "an empty sample": ([np.ones((2, 1)), np.ones((0, 1))] * 4, LABELS, "no observations"),
    "too few labels": (GOOD, [0, 1], "2 entries for 8 samples"),
    "no labels": (GOOD, None, "requires y to be passed"),
    "one class": (GOOD, [1] * 8, "at least two classes"),
    "a missing label": (GOOD, ["a", None] * 4, "every sample needs one"),
    "numbers as labels": (GOOD, np.linspace(0, 1, 8) + 0.01, "Unknown label type: continuous"),
    "labels in a matrix": (GOOD, np.ones((8, 3)), "labels that cannot be learned"),
    "values too large to square": (GOOD * 1e200, LABELS, "too large"),
}


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_data_is_refused_with_the_reason(name):
    X, y, words = BAD_FITS[name]
    with pytest.raises(LeapError, match=words):
        LeapClassifier("ncde", **QUICK).fit(X, y)


BAD_SETTINGS = {
    "model": ({"model": "oracle"}, "no model 'oracle'"),
    "interpolation": ({"interpolation": "cubic"}, "no interpolation 'cubic'"),
    "an option": ({"options": {"hiden": 3}}, "no option 'hiden'"),
    "a size": ({"options": {"hidden": 0}}, "whole number above 0"),
    "epochs": ({"epochs": 0}, "epochs 0"),
    "learning_rate": ({"learning_rate": -1.0}, "learning_rate -1"),
    "a training setting": ({"training": {"speed": 3}}, "fields of leapcde.TrainConfig"),
    "validation": ({"validation": 1.5}, "share 1.5"),
    "seed": ({"seed": "x"}, "seed: "),
    "class_weight": ({"class_weight": -2.0}, "positive"),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused_at_fit(name):
    settings, words = BAD_SETTINGS[name]
    with pytest.raises(LeapError, match=words):
        LeapClassifier(**{"model": "ncde", **QUICK, **settings}).fit(GOOD, LABELS)


@pytest.fixture(scope="module")
def small():
    return LeapRegressor("ncde", options=TINY, interpolation="linear", epochs=1, validation=0.0).fit(GOOD, np.arange(8.0))


@pytest.mark.filterwarnings("ignore:never observed", "ignore:.*last up to", "ignore:.*deviations away", "ignore:overflow")
@pytest.mark.parametrize(
    ("X", "words"),
    [
        (NAN[:1], ""),  # nothing observed at all: the answer to a series at the training mean
        (GOOD[:1, :1], ""),
        (np.zeros((1, 6, 2)), ""),
        (GOOD[:1] * 1e6, ""),
        (GOOD[:1] * 1e60, "deviations away from what training saw"),
        (GOOD[:1, :, :1], "trained on 2"),
        ([], "no samples"),
        ([([3, 1], GOOD[0, :2])], "backwards"),
        (as_series(GOOD[:1], static=[[1.0]]), "static features"),
        (as_series(GOOD[:1], channels=("a", "b")), "training saw x0, x1"),
    ],
)
def test_what_is_predicted_from(small, X, words):
    if words:
        with pytest.raises(LeapError, match=words):
            small.predict(X)
    else:
        assert np.isfinite(small.predict(X)).all()


def test_values_far_from_all_that_training_saw_are_noted(small):
    with pytest.warns(LeapWarning, match="channel 'x1' is 1[.]03e[+]30 deviations away"):
        small.predict(GOOD[:1] * 0 + [1.0, 1e30])


@pytest.mark.filterwarnings("ignore:.*last up to")
def test_a_million_observations(small):
    t = np.arange(1_000_000.0)
    answer = small.predict([(t, np.stack([np.sin(t), np.cos(t)], 1))])
    assert np.isfinite(answer).all() and answer.shape == (1,)


def test_a_constant_channel_and_one_never_observed():
    X = GOOD.copy()
    X[:, :, 0] = 3.0
    one = LeapRegressor("ncde", options=TINY, interpolation="linear", epochs=1, validation=0.0).fit(X, np.arange(8.0))
    assert np.isfinite(one.predict(X)).all()


@pytest.mark.filterwarnings("ignore:never observed", "ignore:.*last up to", "ignore:.*too close", "ignore:.*deviations away")
@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.one_of(st.none(), st.floats(-1e3, 1e3)), st.one_of(st.none(), st.floats(-1e3, 1e3))),
        min_size=1,
        max_size=8,
    )
)
def test_any_series_gets_a_number_unless_its_times_are_wrong(small, rows):
    t = np.array([row[0] for row in rows])
    x = np.array([[np.nan if cell is None else cell for cell in row[1:]] for row in rows])
    if (np.diff(t) <= 0).any():
        with pytest.raises(LeapError, match=r"backwards|appears twice"):
            small.predict([(t, x)])
    else:
        assert np.isfinite(small.predict([(t, x)])).all()

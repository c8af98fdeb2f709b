"""The utility of hourly alarms, against hand-computed cases and a slow oracle; and Sepsis with a label in each hour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde.data.read import as_series
from leapcde.datasets import sepsis, sepsis_hourly
from leapcde.datasets._io import cache
from leapcde.datasets.alarms import alarm_metrics, best_threshold, gains, utility
from leapcde.datasets.registry import load
from leapcde.errors import InputError
from leapcde.estimators.classifier import LeapClassifier


def stays(labels: list[list[int]]):
    pairs = [(np.arange(len(row)) + 1.0, np.zeros(len(row))) for row in labels]
    return as_series(pairs, target=[np.array(row, float) for row in labels], target_per="row")


def worth(label: list[int], alarm: list[bool]) -> float:
    """The rules of the challenge for one patient, hour by hour."""
    ill = 1 in label
    sepsis_at = label.index(1) + 6 if ill else None
    total = 0.0
    for hour, sounds in enumerate(alarm):
        if sepsis_at is None:
            total += -0.05 if sounds else 0.0
            continue
        since = hour - sepsis_at
        if since > 3:
            continue
        if sounds and since <= -6:
            total += max(-0.05, (since + 12) / 6)  # from 0, twelve hours before, to 1
        elif sounds:
            total += (3 - since) / 9  # back to 0 at three hours after
        elif since > -6:
            total += -2 * (since + 6) / 9  # down to -2 at three hours after
    return total


def slow(labels: list[list[int]], alarms: list[list[bool]]) -> float:
    perfect, silent = [], []
    for row in labels:
        at = row.index(1) + 6 if 1 in row else None
        perfect.append([at is not None and -12 <= hour - at <= 3 for hour in range(len(row))])
        silent.append([False] * len(row))
    total = lambda choice: sum(worth(row, one) for row, one in zip(labels, choice, strict=True))
    return (total(alarms) - total(silent)) / (total(perfect) - total(silent))


LABELS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 45)).map(lambda size: [int(h >= size[1]) for h in range(size[0])]),
    min_size=1,
    max_size=6,
)


@given(LABELS, st.integers(0, 1000))
def test_equals_the_slow_rules_and_the_best_threshold_is_the_best(labels, seed):
    series, probability = stays(labels), np.random.default_rng(seed).integers(0, 9, sum(map(len, labels))) / 8
    parts = np.split(probability >= 0.5, series.offsets[1:-1])
    found = utility(series, probability >= 0.5)
    if not any(1 in row for row in labels):
        assert np.isnan(found)
        return
    assert found == pytest.approx(slow(labels, [part.tolist() for part in parts]), abs=1e-9)
    best = best_threshold(series, probability)
    tried = [utility(series, probability >= threshold) for threshold in [*np.unique(probability), np.inf]]
    assert utility(series, probability >= best) == pytest.approx(max(tried), abs=1e-12)


def test_by_hand():
    # Sepsis in hour 26: the first positive label is six hours before, in hour 20.
    one = stays([[0] * 19 + [1] * 11])
    found = gains(one)
    hour = {
        name: dict(zip(one.times.astype(int).tolist(), part.tolist(), strict=True)) for name, part in found._asdict().items()
    }
    assert [hour["alarm"][h] for h in (1, 13, 14, 17, 20, 23, 29, 30)] == pytest.approx([-0.05, -0.05, 0, 0.5, 1, 2 / 3, 0, 0])
    assert [hour["silence"][h] for h in (1, 20, 23, 29, 30)] == pytest.approx([0, 0, -2 / 3, -2, 0])
    assert [h for h in range(1, 31) if hour["best"][h]] == list(range(14, 30))
    well = stays([[0] * 5])
    assert gains(well).alarm.tolist() == [-0.05] * 5 and gains(well).silence.tolist() == [0] * 5
    both = stays([[0] * 19 + [1] * 11, [0] * 5])
    assert utility(both, np.zeros(35, bool)) == 0 and utility(both, gains(both).best) == 1
    # Perfect but for five false alarms: 0.25 of what there is to gain, which is Σ rising + Σ (falling - silence).
    gain = sum(k / 6 for k in range(7)) + sum((3 - s) / 9 + 2 * (s + 6) / 9 for s in range(-5, 4))
    assert utility(both, gains(both).best | (np.arange(35) >= 30)) == pytest.approx(1 - 0.25 / gain)


def test_the_threshold_comes_from_validation_data():
    validation, test = stays([[0] * 8 + [1] * 8, [0] * 9]), stays([[0] * 8 + [1] * 8])
    said = np.stack([1 - np.append(np.linspace(0, 1, 16), np.zeros(9)), np.append(np.linspace(0, 1, 16), np.zeros(9))], 1)
    found = alarm_metrics(validation, said, test, np.full((16, 2), 0.5))
    assert found["threshold"] == best_threshold(validation, said[:, 1]) < 0.5 and found["utility"] > 0.5
    with pytest.raises(InputError, match="labels per row"):
        utility(as_series([[1.0, 2.0]], target=[1]), np.ones(2, bool))


# The data


def test_labels_are_those_of_the_files(tmp_path):
    from test_sepsis import make

    make(tmp_path)
    series = sepsis_hourly.read(tmp_path, sepsis_hourly.Options()).series
    whole = sepsis.read(tmp_path, sepsis.Options(hours=10**6, statics=True)).series
    assert series.per_row and series.ids.tolist() == whole.ids.tolist()
    np.testing.assert_array_equal(series.times, whole.times)
    ever = np.maximum.reduceat(np.nan_to_num(series.target), series.offsets[:-1])
    assert ever.tolist() == whole.target.tolist()
    late = np.flatnonzero(np.isnan(series.target))  # the empty rows in hour 1
    assert set(late) <= set(series.offsets[:-1]) and np.isnan(series.values[late]).all() and (series.times[late] == 1).all()
    record = sepsis_hourly.read(tmp_path, sepsis_hourly.Options(start="record")).series
    assert not np.isnan(record.target).any() and np.array_equal(record.target, series.target[~np.isnan(series.target)])
    short = sepsis_hourly.read(tmp_path, sepsis_hourly.Options(hours=9)).series
    assert short.times.max() == 9 and short.ids.tolist() == ["p000001", "p000002"]


@pytest.mark.slow
def test_the_whole_challenge(data_dir):
    home = Path(data_dir)
    arrays, _ = cache.prepared("sepsis", sepsis.files(home), {"version": sepsis.VERSION}, home, lambda: sepsis.prepare(home))
    series = sepsis_hourly.select(arrays, sepsis_hourly.Options(start="record"))
    assert (len(series), len(series.times), int(series.target.sum())) == (40_336, 1_552_210, 27_916)
    assert (np.diff(series.times)[np.diff(series.owner) == 0] == 1).all()  # so that hours are rows


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:never observed")  # laboratory values, in most stays
def test_streams_of_real_stays_give_the_answers_to_every_prefix(data_dir):
    data = load("sepsis-hourly", data_dir=data_dir)
    order = np.random.default_rng(0).permutation(len(data.train))
    train, held = data.train.take(order[:80]), data.train.take(order[80:120])
    new = data.test.take(np.flatnonzero(data.test.lengths < 60)[:8])
    classifier = LeapClassifier(target_per="row", options={"hidden": 8, "path_width": 8}, epochs=1).fit(train, validation=held)
    for i, said in enumerate(classifier.predict_proba(new)):
        stream = classifier.stream(static=None if new.static is None else new.static[i])
        streamed = [stream.push(t, x).predict_proba() for t, x in zip(*new.sample(i), strict=True)]
        np.testing.assert_allclose(np.reshape(streamed, said.shape), said, atol=1e-5)
    whole = classifier.predict_proba(new)[0]
    for rows in (1, 2, 9, len(whole) - 1):  # what comes later changes nothing
        begun = new.take([0]).keep_rows(np.arange(len(whole)) < rows)
        np.testing.assert_allclose(classifier.predict_proba(begun)[0], whole[:rows], atol=1e-5)

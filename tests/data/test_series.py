"""Series: every accepted form is the same series, and every mistake is one error that names all of it."""

from __future__ import annotations

import pickle
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde.data.read import as_series
from leapcde.data.series import Series, check
from leapcde.errors import SHOWN, InputError
from samples import INF, NAN, TIMES, VALUES, fits, problems, same

FIRST = ([0, 1], [[1, 2], [3, 4]])


def wanted(times=TIMES) -> Series:
    rows = np.concatenate([np.array(v) for v in VALUES])
    return Series(np.concatenate([np.array(t) for t in times]), rows, np.array([0, 3, 5]), ("x0", "x1"))


# Accepted forms


def test_pairs():
    same(as_series(list(zip(TIMES, VALUES, strict=True))), wanted())
    same(as_series([(np.array(t), np.array(v)) for t, v in zip(TIMES, VALUES, strict=True)]), wanted())
    same(as_series([np.array(v) for v in VALUES], times=TIMES), wanted())
    same(as_series(as_series(VALUES, times=TIMES)), wanted())


def padded(fill=NAN) -> np.ndarray:
    array = np.full((2, 4, 2), fill)
    for i, block in enumerate(VALUES):
        array[i, : len(block)] = block
    return array


def test_array_with_times_of_each_sample():
    same(as_series(padded(), times=np.array([[*TIMES[0], 9.0], [*TIMES[1], 5.0, 6.0]])), wanted())


def test_array_with_shared_times():
    same(as_series(padded(), times=[0.0, 1.0, 2.5, 7.0]), wanted([[0.0, 1.0, 2.5], [0.0, 1.0]]))


def test_array_and_list_without_times_count():
    counted = wanted([[0.0, 1.0, 2.0], [0.0, 1.0]])
    same(as_series(padded()), counted)
    same(as_series(VALUES), counted)
    same(as_series([np.array(v) for v in VALUES]), counted)


def test_one_channel():
    long = Series(
        np.array([0.0, 1.0, 2.0, 0.0, 1.0]), np.array([[1.0], [NAN], [3.0], [4.0], [5.0]]), np.array([0, 3, 5]), ("x0",)
    )
    same(as_series([[1.0, NAN, 3.0], [4.0, 5.0]]), long)
    same(as_series([np.array([1.0, NAN, 3.0]), np.array([4, 5])]), long)
    same(as_series(np.array([[1.0, NAN, 3.0], [4.0, 5.0, NAN]])), long)


def test_inner_empty_rows_are_kept_and_a_sample_without_any_value_keeps_its_rows():
    array = np.full((2, 4, 1), NAN)
    array[0, [0, 2]] = 1.0
    assert as_series(array).lengths.tolist() == [3, 4]


def test_whole_numbers_single_precision_and_truth_values():
    assert as_series(np.ones((1, 2, 1), np.int64)).values.dtype == np.float64
    assert as_series(np.ones((1, 2, 1), np.float32)).values.dtype == np.float32
    assert as_series(np.ones((1, 2, 1), bool)).values.tolist() == [[1.0], [1.0]]
    assert as_series([[1, None, 3]]).values[1, 0] != as_series([[1, None, 3]]).values[1, 0]


def test_dates_as_times_in_every_form():
    days = ["2024-05-01", "2024-05-02", "2024-05-04"]
    forms = [np.array(days, "datetime64[D]"), pd.to_datetime(days), pd.to_datetime(days).tz_localize("UTC"), days]
    forms.append([datetime.fromisoformat(day) for day in days])
    for form in forms:
        series = as_series([(form, [1.0, 2.0, 3.0])])
        assert (series.times - series.times[0]).tolist() == [0.0, 86400.0, 259200.0]
        assert series.times[0] == datetime.fromisoformat("2024-05-01T00:00+00:00").timestamp()
        same(as_series(np.array([[[1.0], [2.0], [3.0]]]), times=np.asarray(form)), series)
    assert as_series([(np.array([0, 90], "m8[m]"), [1.0, 2.0])]).times.tolist() == [0.0, 5400.0]
    summer = as_series([(["2024-03-31T01:00+01:00", "2024-03-31T03:00+02:00"], [1.0, 2.0])])  # clocks go forward between
    assert np.diff(summer.times).tolist() == [3600.0]
    far = as_series([(np.array(["1500-01-01", "3000-01-01"], "M8[D]"), [1.0, 2.0])])  # no overflow of nanoseconds
    assert far.times[1] - far.times[0] > 4e10


def test_targets_and_static():
    series = as_series(VALUES, target=["a", "b"], static=[[1.0, NAN], [2.0, 3.0]], channels=("hr", "bp"))
    assert series.channels == ("hr", "bp") and series.target.tolist() == ["a", "b"] and series.static.shape == (2, 2)
    assert as_series(VALUES, static=[1, 2]).static.tolist() == [[1.0], [2.0]]
    assert as_series(VALUES, target=np.array(["a", "b"], object)).target.dtype.kind == "U"
    assert as_series(VALUES, target=np.full((2, 3, 2), NAN)).target.shape == (2, 3, 2)  # forecasts may be partly unknown
    assert as_series(VALUES[:1], target=3, static=4).target.tolist() == [3]


# Mistakes in series


def test_times():
    bad = [FIRST, ([0, 2, 1], [[1, 2]] * 3), ([3, 3], [[1, 2]] * 2), ([0, NAN], [[1, 2]] * 2), ([0, INF, INF], [[1, 2]] * 3)]
    fits(
        problems(bad),
        ("sample 3", "time nan", "position 1", "finite"),
        ("sample 4", "time inf", "position 1", "finite"),
        ("sample 1", "backwards", "position 2", "(2 then 1)", "sort"),
        ("sample 2", "time 3 appears twice", "position 1", "merge"),
    )


def test_dates_are_shown_whole():
    fits(problems([(pd.to_datetime(["2024-05-02", "2024-05-01"]), [1, 2])]), ("(1714608000 then 1714521600)",))


def test_values():
    bad = [FIRST, ([0, 1], [[1, -INF], [INF, 1]]), ([0], [[1, 2, 3]]), ([], []), ([0, 1, 2], [[1, 2]] * 2)]
    fits(
        problems(bad, channels=("hr", "bp")),
        ("sample 4", "3 times for 2 rows", "one time a row"),
        ("sample 2", "3 channels, expected 2"),
        ("sample 3", "no observations", "leave"),
        ("sample 1", "channel 'bp'", "infinite", "position 0", "NaN"),
    )


def test_one_odd_sample_is_named_and_not_all_the_others():
    fits(problems([np.ones((3, 4)), np.ones((3, 2)), np.ones((3, 2))]), ("sample 0", "4 channels, expected 2", "others"))


def test_everything_at_once():
    bad = [
        (["a", "b"], [1.0, 2.0]),
        ([0, 1], ["one", 2.0]),
        ([1, 0], [1.0, INF]),
        np.ones((2, 2, 2)),
        np.ones((2, 0)),
        5.0,
        None,
    ]
    found = problems(bad, target=[1, 2, 3], static=["x"] * 7)
    fits(
        found,
        ("times of sample 0", "text ('a')", "numbers or dates"),
        ("sample 1", "text ('one')", "numbers"),
        ("sample 3", "shape (2, 2, 2)", "(time, channel)"),
        ("sample 4", "shape (2, 0)", "(time, channel)"),
        ("sample 5", "shape ()", "(time, channel)"),
        ("sample 6", "shape ()", "(time, channel)"),
        ("static", "text ('x')", "numbers"),
        ("sample 2", "backwards", "sort"),
        ("sample 2", "channel 'x0'", "infinite", "NaN"),
        ("target", "3 entries for 7 samples", "one for each"),
    )


def test_rows_of_different_lengths():
    for ragged in ([[1, 2], [3]], [np.zeros((2, 3)), np.zeros((2, 4))], [[1, [2]], [3, 4]]):
        fits(problems([FIRST, ragged]), ("sample 1", "rows of different lengths", "a row of numbers for each time"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": [1]}, ("dict", "list of (times, values)")),
        ("1,2,3", ("str", "list of (times, values)")),
        (None, ("NoneType", "list of (times, values)")),
        (True, ("bool", "list of (times, values)")),
        (3.5, ("float", "list of (times, values)")),
        ((x for x in ()), ("generator", "list of (times, values)")),
        ([], ("no samples",)),
        (np.array(3.0), ("0-D", "(sample, time, channel)")),
        (np.ones(3), ("1-D", "(sample, time, channel)")),
        (np.ones((1, 2, 3, 4)), ("4-D", "(sample, time, channel)")),
        (np.array([np.ones(2), np.ones(3)], object), ("1-D", "list of arrays")),
        (np.array([["1", "2"]]), ("<U1", "numbers")),
        (np.array([[1, None]]), ("object", "numbers")),
        (np.ones((2, 0, 3)), ("no observations", "(2, 0, 3)")),
        (pd.DataFrame({"a": [1]}), ("from_table",)),
        (pl.DataFrame({"a": [1]}), ("from_table",)),
    ],
)
def test_wrong_types(data, words):
    fits(problems(data), words)


@pytest.mark.parametrize("item", [1, "ab", True, None, {"a": 1}, 2.5])
def test_lists_of_wrong_things(item):
    fits(problems([FIRST, item]), ("sample 1",))


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([0, 1], ("times has shape (2,)", "(3,) or (2, 3)")),
        (["a", "b", "c"], ("times", "text ('a')", "dates")),
        ([[0, 1, 2], [0, 1]], ("times", "rows of different lengths")),
    ],
)
def test_wrong_times_of_an_array(times, words):
    fits(problems(np.ones((2, 3, 1)), times=times), words)


@pytest.mark.parametrize("times", [5, [[0, 1]]])
def test_wrong_times_of_a_list(times):
    fits(problems([[1.0, 2.0], [3.0, 4.0]], times=times), ("times", "for 2 samples", "one for each"))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"target": [1]}, ("target", "1 entries for 2")),
        ({"target": 1}, ("target", "1 entries for 2")),
        ({"target": ["a", None]}, ("target", "empty in row 1", "every sample")),
        ({"target": [1.0, NAN]}, ("target", "empty in row 1", "every sample")),
        ({"target": [[1, 2], [3]]}, ("target", "different shapes")),
        ({"static": [1, 2, 3]}, ("static", "3 entries for 2")),
        ({"static": []}, ("static", "0 entries for 2")),
        ({"static": ["a", "b"]}, ("static", "text ('a')")),
        ({"static": [[1.0], [INF]]}, ("static", "infinite", "sample 1", "NaN")),
        ({"static": [[1], [1, 2]]}, ("static", "rows of different lengths")),
    ],
)
def test_wrong_targets_and_static(extra, words):
    fits(problems(VALUES, **extra), words)


def test_check_of_a_series_made_by_hand():
    good = as_series(VALUES)
    assert check(good) is good
    bad = Series(np.array([1.0, 0.0]), np.ones((2, 1)), np.array([0, 2]), ("a",), ids=np.array(["p7"]))
    fits(problems(bad, make=check), ("sample 0 (id p7)", "backwards"))


def test_long_lists_are_cut_in_the_message_only():
    found = problems([([1, 0], [1, 2])] * (SHOWN + 5))
    assert len(found) == SHOWN + 5
    with pytest.raises(InputError, match=r"and 5 more") as caught:
        as_series([([1, 0], [1, 2])] * (SHOWN + 5))
    assert str(caught.value).count("\n") == SHOWN + 1
    assert pickle.loads(pickle.dumps(caught.value)).problems == found


# Samples


lengths = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def numbered(lengths: list[int], channels: int = 2) -> Series:
    blocks = [100.0 * i + np.arange(n * channels, dtype=float).reshape(n, channels) for i, n in enumerate(lengths)]
    clocks = [np.arange(n) * (i + 1.0) for i, n in enumerate(lengths)]
    return as_series(list(zip(clocks, blocks, strict=True)), target=np.arange(len(lengths)), static=np.arange(len(lengths)))


@given(lengths, st.randoms())
def test_taking_a_permutation_and_back(lengths, random):
    series = numbered(lengths)
    order = list(range(len(series)))
    random.shuffle(order)
    moved = series.take(order)
    for new, old in enumerate(order):
        np.testing.assert_array_equal(moved.sample(new)[1], series.sample(old)[1])
    assert moved.target.tolist() == order
    same(moved.take(np.argsort(order)), series)


@given(lengths, st.integers(1, 3))
def test_ragged_round_trip(lengths, channels):
    series = numbered(lengths, channels)
    assert series.lengths.tolist() == lengths and series.owner.tolist() == np.repeat(np.arange(len(lengths)), lengths).tolist()
    again = as_series([series.sample(i) for i in range(len(series))], target=series.target, static=series.static)
    same(again, series)


@given(lengths, st.data())
def test_keeping_rows(lengths, data):
    series = numbered(lengths)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=sum(lengths), max_size=sum(lengths))))
    left = series.keep_rows(keep)
    assert len(left) == len(series)
    for i in range(len(series)):
        inside = keep[series.offsets[i] : series.offsets[i + 1]]
        np.testing.assert_array_equal(left.sample(i)[1], series.sample(i)[1][inside])


def test_samples_from_the_end_by_mask_and_none():
    series = numbered([3, 1, 2])
    same(series.take([-1, 0]), series.take([2, 0]))
    same(series.take(np.array([True, False, True])), series.take([0, 2]))
    np.testing.assert_array_equal(series.sample(-1)[1], series.sample(2)[1])
    assert len(series.take([])) == 0 and series.take([]).values.shape == (0, 2)
    for wrong in (3, -4):
        with pytest.raises(IndexError):
            series.take([wrong])
        with pytest.raises(IndexError):
            series.sample(wrong)


@pytest.mark.parametrize("odd", ["a", 1.5, [[0]], [1.0], np.array([True, False]), 5, [0, -6], None, (0, "a"), {}])
def test_wrong_indices(odd):
    with pytest.raises((InputError, IndexError)):
        as_series(np.zeros((5, 4, 2)))[odd]


def test_no_samples_at_all_are_no_error():
    series = as_series(np.zeros((5, 4, 2)))
    assert len(series[[]]) == len(series[:0]) == len(series[np.zeros(5, dtype=bool)]) == 0
    assert repr(series) == "Series(5 samples of 4 rows, 2 channels (x0, x1), no target)"
    assert repr(series[[]]) == "Series(0 samples of 0 rows, 2 channels (x0, x1), no target)"

"""Preparation: what is learned comes from training data only, what is random is exact and seeded, nothing gets lost."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde.data.batch import FEW_ROWS, buckets, pad, tight_buckets
from leapcde.data.drop import drop, without_empty_rows
from leapcde.data.read import as_series
from leapcde.data.scale import Scaler
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.data.windows import windows
from leapcde.errors import InputError

NAN = np.nan
lengths = st.lists(st.integers(1, 12), min_size=1, max_size=8)
rates = st.floats(0, 1, exclude_max=True)


def ragged(lengths: list[int], channels: int = 2, missing: float = 0.3, seed: int = 0) -> Series:
    """Random samples of the given lengths; every sample has its own gaps and keeps at least one value."""
    rng = np.random.default_rng(seed)
    pairs = []
    for n in lengths:
        values = rng.normal(3, 2, (n, channels))
        values[rng.random(values.shape) < missing] = NAN
        values[rng.integers(n), rng.integers(channels)] = 1.5
        pairs.append((np.cumsum(rng.uniform(0.1, 2, n)), values))
    return as_series(pairs, target=np.arange(len(lengths)), static=rng.normal(size=(len(lengths), 2)))


# Scaling


def test_scaler_learns_mean_deviation_and_typical_gap_ignoring_missing():
    series = as_series(
        [([0, 2, 4, 10], [[1, 5], [NAN, 5], [3, 5], [NAN, NAN]]), ([7, 8], [[5, NAN], [7, 5]])], static=[[1], [NAN]]
    )
    scaler = Scaler.fit(series)
    assert scaler.mean == (4.0, 5.0) and scaler.std == (np.std([1, 3, 5, 7]), 1.0)  # a constant channel has no scale
    assert scaler.time_unit == 2.0  # the median of 2, 2, 6 and 1; the gap between samples is none
    assert scaler.static_mean == (1.0,) and scaler.static_std == (1.0,)
    scaled = scaler.apply(series)
    np.testing.assert_allclose(scaled.times, [0, 1, 2, 5, 0, 0.5])
    assert (scaled.values[~np.isnan(scaled.values[:, 1]), 1] == 0).all() and scaled.values.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(scaled.values), np.isnan(series.values))
    assert scaled.static.tolist() == [[0.0], [0.0]]  # a missing static stands at the mean


def test_scaler_knows_training_data_only():
    series = ragged([5, 6, 7, 8])
    train, rest = series.take([0, 1]), series.take([2, 3])
    scaler = Scaler.fit(train)
    np.testing.assert_allclose(np.nanmean(scaler.apply(train).values, 0), 0, atol=1e-6)
    np.testing.assert_allclose(np.nanstd(scaler.apply(train).values, 0), 1, rtol=1e-5)
    shifted = replace(rest, values=rest.values + 1000)
    np.testing.assert_allclose(scaler.apply(shifted).values, (shifted.values - scaler.mean) / scaler.std, rtol=1e-6)
    assert Scaler.fit(series) != scaler


@given(lengths, st.integers(0, 99), st.floats(0, 1))
def test_scaler_round_trip(lengths, seed, missing):
    series = ragged(lengths, missing=missing, seed=seed)
    scaler = Scaler.fit(series)
    np.testing.assert_allclose(scaler.unscale(scaler.scale(series.values)), series.values, rtol=1e-5, atol=1e-5)
    assert Scaler.from_json(scaler.to_json()) == scaler and all(s > 0 for s in (*scaler.std, scaler.time_unit))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-9, 1e9, -3.0])
def test_constant_channels_stay_near_zero(value):
    scaler = Scaler.fit(as_series(np.full((50, 7, 1), value)))
    assert scaler.std == (1.0,) and abs(scaler.scale(np.array([[value]]))[0, 0]) < 1e-6


@pytest.mark.parametrize("unit", [1e-6, 1e-15, 1e12])
def test_variation_is_scaled_whatever_the_unit(unit):
    values = unit * np.arange(10.0).reshape(1, 10, 1)
    assert Scaler.fit(as_series(values)).std[0] == pytest.approx(values.std())


def test_channels_and_samples_with_nothing_to_learn_from():
    scaler = Scaler.fit(as_series([[[1.0, NAN]], [[2.0, NAN]]]))
    assert scaler.mean[1] == 0 and scaler.std[1] == 1 and scaler.time_unit == 1.0


# Dropping


@given(lengths, rates, st.integers(0, 5))
def test_drop_is_exact_for_every_sample_and_keeps_the_ends(lengths, rate, seed):
    series = ragged(lengths, missing=0.0)
    left = drop(series, rate, seed=seed)
    assert len(left) == len(series)
    for i, n in enumerate(lengths):
        (before, values), (after, kept) = series.sample(i), left.sample(i)
        seen = ~np.isnan(kept).all(1)
        assert seen.sum() == n - int(rate * n)  # as many as asked for, ends included
        assert after[0] == before[0] and after[-1] == before[-1]
        assert seen[1:-1].all()  # inner rows without a value are gone
        np.testing.assert_array_equal(kept[seen], values[np.isin(before, after[seen])])


@given(lengths, rates)
def test_drop_of_values_is_exact_for_every_sample_and_channel(lengths, rate):
    series = ragged(lengths, channels=3, missing=0.0)
    left = drop(series, rate, what="values")
    for i, n in enumerate(lengths):
        kept = left.sample(i)[1]
        assert (~np.isnan(kept)).sum(0).tolist() == [n - int(rate * n)] * 3
        assert set(kept[~np.isnan(kept)]) <= set(series.sample(i)[1].ravel())


def test_dropping_values_treats_channels_apart_and_times_together():
    series = ragged([40], missing=0.0)
    apart, together = (np.isnan(drop(series, 0.5, what=what).values) for what in ("values", "times"))
    assert (apart[:, 0] != apart[:, 1]).any() and (together[:, 0] == together[:, 1]).all()


def test_drop_is_seeded():
    series = ragged([30, 20])
    again = [drop(series, 0.4, seed=seed).values for seed in (1, 1, 2)]
    np.testing.assert_array_equal(again[0], again[1])
    assert again[0].shape != again[2].shape or not np.array_equal(again[0], again[2], equal_nan=True)


def test_drop_of_a_sample_does_not_depend_on_those_behind_it():
    series = ragged([30, 20, 25])
    alone, among = drop(series.take([0, 1]), 0.5), drop(series, 0.5)
    for i in range(2):
        np.testing.assert_array_equal(alone.sample(i)[1], among.sample(i)[1])


def test_drop_nothing_changes_nothing():
    series = ragged([5, 1], missing=0.0)
    np.testing.assert_array_equal(drop(series, 0.0).values, series.values)


def test_drop_reaches_every_position():
    gone = np.zeros(6, int)
    for seed in range(60):
        left = drop(as_series(np.ones((1, 6, 1))), 0.34, seed=seed)
        gone += ~np.isin(np.arange(6.0), left.times[~np.isnan(left.values[:, 0])])
    assert gone.sum() == 120 and gone.min() > 8


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2, NAN])
def test_wrong_rates(rate):
    with pytest.raises(InputError, match="from 0 up to"):
        drop(ragged([3]), rate)


def test_wrong_kind_of_dropping():
    with pytest.raises(InputError, match="times, values"):
        drop(ragged([3]), 0.1, what="channels")


def test_empty_rows_go_except_the_ends():
    series = without_empty_rows(as_series([([0, 1, 2, 3], [NAN, NAN, 5.0, NAN]), ([0, 1, 2], [NAN, NAN, NAN]), ([4], [NAN])]))
    assert [series.sample(i)[0].tolist() for i in range(3)] == [[0, 2, 3], [0, 2], [4]]


# Windows


def windows_slowly(series: Series, length: int, horizon: int, stride: int):
    found = []
    for i in range(len(series)):
        times, values = series.sample(i)
        start = 0
        while start + length + horizon <= len(times):
            end = start + length
            found.append((times[start:end], values[start:end], values[end : end + horizon], i))
            start += stride
    return found


@given(lengths, st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_windows_against_a_loop(lengths, length, horizon, stride):
    series = ragged(lengths)
    expected = windows_slowly(series, length, horizon, stride)
    if not expected:
        with pytest.raises(InputError, match="no sequence is long enough"):
            windows(series, length, horizon, stride=stride)
        return
    cut = windows(series, length, horizon, stride=stride)
    assert len(cut) == len(expected)
    for i, (times, values, future, origin) in enumerate(expected):
        np.testing.assert_array_equal(cut.sample(i)[0], times)
        np.testing.assert_array_equal(cut.sample(i)[1], values)
        np.testing.assert_array_equal(cut.target[i], future)
        np.testing.assert_array_equal(cut.static[i], series.static[origin])
        assert cut.ids[i] == origin


def test_windows_keep_the_names_of_sequences():
    named = replace(ragged([6, 5]), ids=np.array(["a", "b"]))
    assert windows(named, 3, 2).ids.tolist() == ["a", "a", "b"]


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_wrong_windows(wrong):
    with pytest.raises(InputError, match="at least 1"):
        windows(ragged([5]), *wrong[:2], stride=wrong[2])


def test_too_long_windows_say_how_long_sequences_are():
    with pytest.raises(InputError, match=r"10 \+ 5 points, the longest has 7"):
        windows(ragged([7, 3]), 10, 5)


# Splits


def numbered(count: int, ids=None) -> Series:
    series = as_series(np.ones((count, 2, 1)), target=np.arange(count))
    return series if ids is None else replace(series, ids=np.asarray(ids))


def members(parts) -> list[list[int]]:
    return [part.target.tolist() for part in parts]


@pytest.mark.parametrize("how", [{}, {"by_id": True}, {"ordered": True}])
@pytest.mark.parametrize("count", [3, 4, 5, 6, 7, 10, 60, 101])
def test_split_sizes_and_every_sample_once(count, how):
    parts = members(split(numbered(count), **how))
    assert sorted(chain(*parts)) == list(range(count))
    assert all(parts) and len(parts[0]) == pytest.approx(0.7 * count, abs=1.5)
    assert abs(len(parts[1]) - len(parts[2])) <= 1
    assert parts == members(split(numbered(count), **how))  # there is no seed


def test_split_mixes():
    train, _, _ = members(split(numbered(100)))
    assert train != sorted(train) and max(train) > 90


def test_split_keeps_shares_of_classes():
    labels = np.array(["rare"] * 20 + ["often"] * 180)
    for part, rare in zip(split(numbered(200), labels=labels), (14, 3, 3), strict=True):
        assert (labels[part.target] == "rare").sum() == rare
    assert len(split(numbered(5), labels=np.array(list("abcde")))[0]) == 3  # classes too rare to stratify


@given(st.lists(st.integers(0, 9), min_size=3, max_size=40), st.booleans())
def test_split_by_id_never_shares_an_id(ids, ordered):
    series = numbered(len(ids), ids)
    if len(set(ids)) < 3:
        with pytest.raises(InputError, match="at least 3"):
            split(series, by_id=True, ordered=ordered)
        return
    parts = split(series, by_id=True, ordered=ordered)
    assert sorted(chain(*members(parts))) == list(range(len(ids)))
    groups = [set(part.ids.tolist()) for part in parts]
    assert all(groups) and not groups[0] & groups[1] and not (groups[0] | groups[1]) & groups[2]
    if ordered:
        assert max(groups[0]) < min(groups[1]) and max(groups[1]) < min(groups[2])


def test_too_few_samples():
    with pytest.raises(InputError, match=r"2 samples cannot be split.*at least 3"):
        split(numbered(2))


# Padding


@given(lengths, st.integers(0, 5), st.integers(0, 9))
def test_padding_against_a_loop(lengths, extra, seed):
    series = ragged(lengths, missing=0.5, seed=seed)
    padded = pad(series, max(lengths) + extra)
    assert padded.values.shape == (len(lengths), max(lengths) + extra, 2)
    for i, n in enumerate(lengths):
        times, values = series.sample(i)
        np.testing.assert_array_equal(padded.times[i, :n], times.astype(np.float32))
        assert (padded.times[i, n:] == padded.times[i, n - 1]).all() and (padded.mask[i, n:] == 0).all()
        np.testing.assert_array_equal(padded.mask[i, :n], ~np.isnan(values))
        np.testing.assert_array_equal(padded.values[i, :n], np.nan_to_num(values).astype(np.float32))
        for c in range(2):
            seen = values[~np.isnan(values[:, c]), c]
            assert padded.last[i, c] == (np.float32(seen[-1]) if len(seen) else 0)
    assert (padded.values[padded.mask == 0] == 0).all()
    np.testing.assert_array_equal(padded.static, series.static.astype(np.float32))


def test_padding_does_not_change_what_is_there():
    series = ragged([3, 7, 5])
    short, long = pad(series), pad(series, 20)
    np.testing.assert_array_equal(short.last, long.last)
    np.testing.assert_array_equal(short.values, long.values[:, :7])
    assert short.target is series.target and pad(replace(series, static=None)).static.shape == (3, 0)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(1, 5), st.floats(1.0, 2.0))
def test_buckets_hold_every_sample_once_with_little_padding(lengths, most, waste):
    lengths = np.array(lengths)
    found = buckets(lengths, most, waste)
    assert sorted(np.concatenate([samples for _, samples in found]).tolist()) == list(range(len(lengths)))
    assert len(found) <= most and len({length for length, _ in found}) == len(found)
    for length, samples in found:
        assert lengths[samples].max() == length and (np.diff(samples) > 0).all()
    padded = sum(length * len(samples) for length, samples in found)
    assert padded <= lengths.max() * len(lengths)
    if len(found) > 1:  # more groups than one only because one wastes too much
        assert lengths.max() * len(lengths) > waste * lengths.sum()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 4))
def test_tight_buckets_pad_least_and_are_as_few_as_may_be(lengths, most):
    lengths = np.array(lengths) * FEW_ROWS  # many rows
    found = tight_buckets(lengths, most)
    assert sorted(np.concatenate([samples for _, samples in found]).tolist()) == list(range(len(lengths)))
    ends = np.unique(lengths)
    tried = lambda n: (np.array([*some, ends[-1]]) for some in combinations(ends[:-1], n - 1))
    least = lambda n: min(int(one[np.searchsorted(one, lengths)].sum()) for one in tried(n))
    assert sum(length * len(samples) for length, samples in found) == least(len(found)) and len(found) <= most
    assert len(found) == 1 or least(len(found) - 1) > 1.15 * lengths.sum()


def test_tight_buckets_of_few_rows_and_of_many_lengths():
    assert len(tight_buckets(np.arange(12, 31))) == 1  # padding so few costs less than compiling
    lengths = np.arange(1, 2001)
    found = tight_buckets(lengths)
    assert found[-1][0] == 2000 and sum(length * len(samples) for length, samples in found) < 1.3 * lengths.sum()


def test_buckets_are_few_where_lengths_are_alike_and_save_much_where_they_are_not():
    assert len(buckets(np.full(100, 50))) == 1
    assert len(buckets(np.random.default_rng(0).integers(95, 101, 500))) == 1
    lengths = np.random.default_rng(0).integers(10, 201, 2000)
    found = buckets(lengths)
    assert sum(length * len(samples) for length, samples in found) < 1.3 * lengths.sum()  # one group would need 1.9

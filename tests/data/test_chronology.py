"""Splits in time and windows of every phase: nothing of later parts is in earlier ones, and every hour is met."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde.data import table_file
from leapcde.data.columns import Columns
from leapcde.data.dataset import FORMER, DataRequest
from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import on_one_clock, split, split_by_group, split_by_start, split_in_time, told_in_time
from leapcde.data.windows import FreshWindows, cut_windows, spread, training_windows, window_starts, windows
from leapcde.errors import InputError
from samples import same


def numbered(lengths: list[int], starts: list[float] | None = None) -> Series:
    """Sequences whose values are the numbers of all rows, so that a window tells where it is from."""
    at = np.cumsum([0, *lengths])
    starts = [0.0] * len(lengths) if starts is None else starts
    return as_series([(start + np.arange(n), np.arange(k, k + n)) for n, k, start in zip(lengths, at, starts, strict=False)])


def rows(cut: Series | None, horizon: int) -> tuple[set[int], set[int]]:
    """Rows that windows look at, and rows that they forecast."""
    if cut is None:
        return set(), set()
    return set(cut.values.ravel().astype(int)), set(np.asarray(cut.target).ravel().astype(int))


# Parts that follow each other


@given(
    lengths=st.lists(st.integers(20, 120), min_size=1, max_size=5),
    window=st.integers(1, 8),
    horizon=st.integers(1, 3),
    clock=st.sampled_from([None, [1000.0, 1010.0, 990.0, 1050.0, 1000.0]]),
)
def test_what_is_forecast_lies_in_its_own_part(lengths, window, horizon, clock):
    series = numbered(lengths, clock)
    found = split_in_time(series, horizon, window=window)
    if found.missing:
        return
    looked, forecast = zip(*(rows(cut_windows(part, window, horizon), horizon) for part in found.parts), strict=True)
    for early, late in ((0, 1), (0, 2), (1, 2)):
        assert not (looked[early] | forecast[early]) & forecast[late]  # nothing that is judged was seen before
    time_of = dict(enumerate(series.times))
    if found.cuts is not None:
        assert max(time_of[r] for r in looked[0] | forecast[0]) < found.cuts[0] <= min(time_of[r] for r in forecast[1])
        assert max(time_of[r] for r in forecast[1]) < found.cuts[1] <= min(time_of[r] for r in forecast[2])
    # Every row after the cut that can be forecast is: windows look back across it.
    owner = dict(enumerate(series.owner))
    for r in forecast[2]:
        assert set(range(r, series.offsets[owner[r] + 1])) <= forecast[2]


def test_dates_are_cut_at_one_time_and_other_clocks_at_one_share():
    together = split_in_time(numbered([100, 100], [5000.0, 5050.0]), 2, window=5)
    assert on_one_clock(numbered([100, 100], [5000.0, 5050.0])) and together.cuts is not None
    ends = [part.times[part.offsets[1:] - 1].tolist() for part in together.parts]
    assert ends[0] == [5094, 5094] and ends[1] == [5099, 5119] and ends[2] == [5149]  # the first sequence is over by then
    apart = split_in_time(numbered([100, 200]), 2, window=5)
    assert apart.cuts is None and [part.lengths.tolist() for part in apart.parts] == [[70, 140], [20, 35], [20, 35]]
    assert told_in_time(apart).startswith("by time: the first 70 % of each sequence train")


def test_samples_that_begin_later_test_though_none_is_cut():
    """Short stays on one calendar: whole ones before, between and after the cuts."""
    found = split_in_time(numbered([12] * 100, [10_000.0 + 20 * i for i in range(100)]), 3, window=9)
    assert not found.missing and sum(len(cut_windows(part, 9, 3)) for part in found.parts) >= 98


@pytest.mark.parametrize(("lengths", "horizon"), [([60] * 30, 10), ([30], 10)])
def test_short_sequences_cannot_be_cut(lengths, horizon):
    found = split_in_time(numbered(lengths), horizon)
    assert "too short" in found.missing and f"{horizon} rows" in found.missing


def test_horizons_in_time_do_not_look_across_the_cut():
    found = split_in_time(numbered([400]), [0.5, 3.0], window=10)
    train, validation, _ = (cut_windows(part, 10, [0.5, 3.0]) for part in found.parts)
    assert np.nanmax(train.target) <= 279 and np.nanmin(validation.target) > 279


# Windows of every phase


@given(count=st.integers(1, 3000), times=st.integers(1, 40), cycle=st.sampled_from([7, 12, 24, 60]))
def test_spread_meets_every_phase_of_any_cycle(count, times, cycle):
    found = spread(count * times, count)
    assert len(set(found)) == count and found.min() >= 0 and found.max() < count * times
    if count >= 40 * cycle and times > 1:
        share = np.bincount(found % cycle, minlength=cycle) / count
        assert share.min() > 0.3 / cycle and share.max() < 2 / cycle


def test_a_step_of_half_a_day_would_meet_two_hours():
    """What was wrong before, and what is right now, on a year of hours."""
    year = numbered([24 * 365])
    hours = lambda cut: set(cut.values[cut.offsets[:-1], 0].astype(int) % 24)
    assert len(hours(windows(year, 100, 24, stride=12))) == 2
    assert len(hours(cut_windows(year, 100, 24))) == 24
    train, fresh = training_windows(year, 100, 24)
    assert fresh is not None and len(hours(train)) == len(hours(fresh(0, 0))) == 24
    same(training_windows(year, 100, 24, 12)[0], windows(year, 100, 24, stride=12))  # a stride means what it says
    assert training_windows(year, 100, 24, 12)[1] is None


def test_fresh_windows_come_from_seed_and_epoch():
    fresh = FreshWindows(numbered([500, 800]), 20, 5, 100)
    first = fresh(3, 0)
    same(first, fresh(3, 0))
    starts = lambda cut: cut.values[cut.offsets[:-1], 0].astype(int).tolist()
    assert len({tuple(starts(fresh(seed, epoch))) for seed in (0, 1) for epoch in (0, 1, 2)}) == 6
    everywhere = set(window_starts(fresh.series, 20, 5))
    assert set().union(*(starts(fresh(0, epoch)) for epoch in range(200))) == everywhere  # every window has its turn
    for cut in (first, fresh(0, 7)):
        assert len(cut) == 100 == len(set(starts(cut)))
        same(cut, windows(fresh.series, 20, 5).take([sorted(everywhere).index(at) for at in starts(cut)]))


# Splits of samples


def test_samples_are_split_by_when_they_start_and_by_group():
    rng = np.random.default_rng(0)
    series = as_series([(day + np.arange(3.0), rng.normal(size=3)) for day in rng.permutation(100) + 500.0])
    parts = split_by_start(series)
    starts = [part.times[part.offsets[:-1]] for part in parts]
    assert [len(part) for part in parts] == [70, 15, 15]
    assert starts[0].max() < starts[1].min() and starts[1].max() < starts[2].min()
    with pytest.raises(InputError, match="all start at the same time"):
        split_by_start(numbered([5] * 9))
    groups = np.arange(100) % 10
    sides = [set(groups[np.searchsorted(np.arange(100), part.ids)]) for part in split_by_group(_named(series), groups)]
    assert sum(map(len, sides)) == 10 == len(set().union(*sides)) and min(map(len, sides)) >= 1
    with pytest.raises(InputError, match="2 groups cannot be split"):
        split_by_group(series, groups % 2)


def _named(series: Series) -> Series:
    return replace(series, ids=np.arange(len(series)))


# Files


@pytest.fixture
def visits(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": np.repeat(np.arange(60), 4), "t": np.tile(np.arange(4.0), 60), "x": rng.normal(size=240)})
    frame["clinic"] = np.where(frame["who"] % 6 < 5, "c" + (frame["who"] % 6).astype(str), "other")
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(frame["who"] * 3 + frame["t"], "D")
    frame["ill"] = frame["who"] % 2
    frame.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def test_the_split_of_a_file_is_named(visits):
    of = lambda time, **more: table_file.load(visits, Columns("who", time, "ill", more.pop("values", ("x",))), **more)
    assert of("t").options["split"] == "70/15/15 % at random, of every class"
    by_time = of("when", split="time")
    assert by_time.options["split"].startswith("by time: samples that start before 2024-05-06 train, before 2024-06-02")
    assert by_time.train.ids.max() < by_time.validation.ids.min() and by_time.validation.ids.max() < by_time.test.ids.min()
    grouped = table_file.load(visits, Columns("who", "t", "ill", ("x",)), split="group:clinic")
    sides = [set(part.ids % 6) for part in grouped.parts.values()]
    assert sum(map(len, sides)) == 6 and grouped.options["split"].startswith("by clinic") and grouped.train.channels == ("x",)
    numbers = pd.read_csv(visits).drop(columns=["when"]).assign(clinic=lambda f: f["who"] % 6)
    numbers.to_csv(visits, index=False)
    assert of("t", values=(), split="group:clinic").train.channels == ("x",)  # a group is no channel


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"split": "tiem"}, "no split 'tiem'; did you mean 'time'"),
        ({"split": "group"}, "group:clinic"),
        ({"split": "time:clinic"}, "only a split by group names a column"),
        ({"split": "group:clinc"}, "no column 'clinc'; did you mean 'clinic'"),
        ({"split": "group:when"}, "column 'when' changes within the sample"),
        ({"split": "time"}, "all start at the same time"),
        ({"split": "sequence"}, "is for forecasts"),
        ({"split": "random", "horizon": 1}, "by time or by sequence"),
        ({"split": "time", "horizon": 2}, "cannot be split by time"),
    ],
)
def test_splits_that_cannot_be(visits, asked, words):
    target = None if "horizon" in asked else "ill"
    with pytest.raises(InputError, match=words):
        table_file.load(visits, Columns("who", "t", target, ("x",)), **asked)


def test_runs_from_before_keep_their_split(visits):
    """A config.json without `split` is of windows half a horizon apart, in whole sequences at random."""
    table = pd.read_csv(visits)
    long = pd.concat([table.assign(t=table["t"] + 4 * k) for k in range(10)])
    long.to_csv(visits, index=False)
    columns = Columns("who", "t", None, ("x",))
    old = {**DataRequest(str(visits), 0.0, columns, 4, 8).to_json()}
    assert "split" not in old and "stride" not in old
    request = DataRequest.from_json(json.loads(json.dumps(old)))
    assert request.split == FORMER
    data = table_file.load(visits, columns, horizon=4, window=8, split=request.split)
    expected = split(windows(table_file.read(visits, columns), 8, 4, stride=2), by_id=True)
    for part, before in zip(data.parts.values(), expected, strict=True):
        same(part, before)
    assert DataRequest.from_json({**old, "split": "time", "stride": 3}).split == "time"
    assert DataRequest.from_json({**old, "horizon": None}).split is None


def test_one_long_series_has_no_id(tmp_path):
    hours = pd.date_range("2024-01-01", periods=1000, freq="h")
    pd.DataFrame({"when": hours, "load": np.sin(np.arange(1000) / 4)}).to_csv(tmp_path / "a.csv", index=False)
    data = table_file.load(tmp_path / "a.csv", Columns(None, "when"), horizon=24, window=48)
    assert data.options["split"] == (
        "by time: rows before 2024-01-30 04:00:00 train, rows before 2024-02-05 10:00:00 choose the weights, later ones test"
    )
    assert data.sequences is None and len(data.train) == 700 - 48 - 24 + 1 and len(data.test) == 150 - 24 + 1
    longer = table_file.load(tmp_path / "a.csv", Columns(None, "when"), horizon=24, window=48, stride=7)
    assert longer.sequences is None and len(longer.train) == (700 - 48 - 24) // 7 + 1
    with pytest.raises(InputError, match="cannot be split by time, too short"):
        table_file.load(tmp_path / "a.csv", Columns(None, "when"), horizon=200, window=48)

"""Input as people have it: every form is the same series."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import xarray as xr

from leapcde.data.columns import Columns
from leapcde.data.inputs import read
from leapcde.data.read import as_series
from leapcde.data.series import join
from leapcde.errors import InputError
from samples import falls, table_of


@pytest.fixture(scope="module")
def pairs():
    return falls()


def xarray_of(samples, **dims) -> xr.DataArray:
    times = np.unique(np.concatenate([t for t, _ in samples]))
    array = np.full((len(times), 2, len(samples)), np.nan)
    for i, (t, x) in enumerate(samples):
        array[np.searchsorted(times, t), :, i] = x
    return xr.DataArray(array, dims=("time", "channel", "case"), coords={"time": times, "channel": ["height", "angle"]})


IDS = {"columns": Columns("id", "t")}
FORMS = {
    "pairs": (lambda s: s, {}),
    "series": (lambda s: as_series(s), {}),
    "list of series": (lambda s: [as_series(s)[i] for i in range(len(s))], {}),
    "pairs, channels first": (lambda s: as_series([(t, x.T) for t, x in s], layout="channels_first"), {}),
    "pandas": (lambda s: table_of(s).sample(frac=1, random_state=0), IDS),
    "polars": (lambda s: pl.from_pandas(table_of(s)), {"columns": Columns("id", "t", values=("height", "angle"))}),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_same_series(name, pairs):
    make, how = FORMS[name]
    found, expected = read(make(pairs[0]), **how), as_series(pairs[0])
    assert np.array_equal(found.times, expected.times) and np.array_equal(found.values, expected.values, equal_nan=True)
    assert np.array_equal(found.offsets, expected.offsets)


def test_arrays_with_channels_first_and_aeon_lists():
    array = np.random.default_rng(0).normal(size=(3, 2, 7))
    expected = read(np.swapaxes(array, 1, 2))
    first = {"layout": "channels_first"}
    for data in (array, list(array), tuple(array), array.tolist()):
        assert np.array_equal(as_series(data, **first).values, expected.values)
    assert as_series([array[0], array[1][:, :4]], **first).lengths.tolist() == [7, 4]
    assert as_series(array[:, 0], **first).lengths.tolist() == [7, 7, 7]  # (sample, time): one channel
    clock = np.arange(7) * 0.5
    for data in (array, list(array)):
        found = as_series(data, times=np.tile(clock, (3, 1)), target=[0, 1, 0], channels=("a", "b"), **first)
        assert np.array_equal(found.times, np.tile(clock, 3)) and np.array_equal(found.values, expected.values)
        assert found.channels == ("a", "b") and found.target.tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="sample 1"):
        as_series([array[0], [[1.0, 2.0], [3.0]]], **first)


def test_xarray(pairs):
    data = xarray_of(pairs[0])
    found = read(data)
    assert found.channels == ("height", "angle") and len(found) == 48
    for i in (0, 17):
        t, x = found.sample(i)
        seen = ~np.isnan(x).all(1)
        rows = ~np.isnan(pairs[0][i][1]).all(1)
        assert np.array_equal(t[seen], pairs[0][i][0][rows])
        assert np.array_equal(x[seen], pairs[0][i][1][rows], equal_nan=True)
    split = xr.Dataset({"height": data.sel(channel="height", drop=True), "angle": data.sel(channel="angle", drop=True)})
    assert np.array_equal(read(split).values, found.values, equal_nan=True)
    named = data.rename(time="clock", case="fall")
    assert np.array_equal(read(named, columns=Columns(time="clock", id="fall")).values, found.values, equal_nan=True)
    with pytest.raises(InputError, match="one of them 'time'"):
        read(named)


def test_mistakes_in_the_form(pairs):
    with pytest.raises(InputError, match="no layout 'columns'"):
        as_series(pairs[0], layout="columns")
    with pytest.raises(InputError, match="give id="):
        read(table_of(pairs[0]))
    one = as_series(pairs[0][:2])
    with pytest.raises(InputError, match="part 1: channels a, b"):
        join([one, as_series(pairs[0][:1], channels=("a", "b"))])

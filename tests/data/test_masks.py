"""NumPy's masks mean missing: NaN among values, an error where something must be there."""

from __future__ import annotations

import numpy as np
import pytest

from leapcde import LeapClassifier, as_series
from leapcde.data.inputs import read
from leapcde.errors import InputError

WILD = 999.0


def masked(shape=(4, 6, 2), kind: type = float) -> np.ma.MaskedArray:
    values = np.random.default_rng(0).normal(size=shape).astype(kind) if kind is float else np.ones(shape, kind)
    values.flat[3] = WILD
    return np.ma.masked_array(values, mask=values == WILD)


@pytest.mark.parametrize("kind", [float, np.float32, int])
def test_values_under_a_mask_are_missing(kind):
    given = masked(kind=kind)
    for found in (
        as_series(given),
        read(given),
        as_series(list(given)),
        as_series([(np.arange(6), sample) for sample in given]),
        as_series([list(sample) for sample in given]),
        as_series(np.swapaxes(given, 1, 2), layout="channels_first"),
        as_series(list(np.swapaxes(given, 1, 2)), layout="channels_first"),
    ):
        assert np.isnan(found.values[1, 1]) and np.isnan(found.values).sum() == 1 and WILD not in found.values


MUST = {
    "times of all": lambda: as_series(np.ones((4, 6)), times=masked((6,))),
    "times of each": lambda: as_series(np.ones((4, 6)), times=masked((4, 6))),
    "times of a sample": lambda: as_series([(masked((6,)), np.ones(6))]),
    "targets": lambda: as_series(np.ones((4, 6)), target=masked((4,))),
    "text targets": lambda: as_series(np.ones((4, 6)), target=np.ma.masked_array(list("abcd"), mask=[0, 0, 0, 1])),
    "targets as a column": lambda: read(np.ones((4, 6)), np.ma.masked_array(np.arange(4.0), mask=[0, 0, 0, 1])),
    "statics": lambda: as_series(np.ones((4, 6)), static=masked((4, 2))),
}


@pytest.mark.parametrize("what", MUST)
def test_what_must_be_there(what):
    with pytest.raises(InputError, match="masked at position 3"):
        MUST[what]()


def test_a_mask_over_nothing_is_no_mask():
    plain = np.random.default_rng(0).normal(size=(4, 6))
    times, target = np.ma.masked_array(np.arange(6.0)), np.ma.masked_array([0, 1, 0, 1], mask=False)
    found = as_series(np.ma.masked_array(plain), times=times, target=target)
    np.testing.assert_array_equal(found.values[:, 0], plain.ravel())
    assert found.target is not None and found.target.tolist() == [0, 1, 0, 1]


def test_fit_refuses_masked_targets():
    with pytest.raises(InputError, match="target: masked at position 1"):
        LeapClassifier("ncde").fit(masked(), np.ma.masked_array([0, 1, 0, 1], mask=[0, 1, 0, 0]))

"""One wild value in training data: it does not set the scale, it is named, and data without one is scaled as ever."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde import LeapClassifier, LeapForecaster, as_series
from leapcde.data.scale import Scaler
from leapcde.data.series import Series
from leapcde.datasets import registry
from leapcde.errors import LeapWarning


def with_wild(size: float, samples: int = 20) -> Series:
    values = np.random.default_rng(0).normal(size=(samples, 15, 2))
    values[3, 7, 1] = size
    return as_series(values, channels=["hr", "bp"])


CLEAN = with_wild(0.0)


@pytest.mark.parametrize("size", [1e3, -1e5, 1e9, 1e120])
def test_a_wild_value_is_named_and_does_not_count(size):
    with pytest.warns(LeapWarning, match=r"channel 'bp': .* in sample 3, position 7 would set the scale"):
        found = Scaler.fit(with_wild(size), robust=True)
    expected = Scaler.fit(CLEAN)
    assert found.mean[0] == expected.mean[0] and found.std[0] == expected.std[0]
    np.testing.assert_allclose((found.mean[1], found.std[1]), (expected.mean[1], expected.std[1]), atol=0.02)
    scaled = found.apply(with_wild(size)).values
    assert np.abs(scaled).max() < 10 and np.isfinite(scaled).all()
    assert Scaler.from_json(found.to_json()) == found


@pytest.mark.parametrize("size", [1e9, -3e3])
def test_the_scale_of_before_was_ruined(size):
    assert Scaler.fit(with_wild(size)).std[1] > 50


@given(
    st.sampled_from(["normal", "uniform", "exponential", "standard_t", "lognormal", "integers", "binomial"]), st.integers(0, 50)
)
def test_data_without_a_slip_is_scaled_as_ever(kind, seed):
    rng = np.random.default_rng(seed)
    draw = {"standard_t": (3,), "integers": (0, 5), "binomial": (1, 0.01)}.get(kind, ())
    values = getattr(rng, kind)(*draw, size=(20, 15, 2)).astype(float)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 0] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Scaler.fit(as_series(values), robust=True) == Scaler.fit(as_series(values))


def test_rare_events_and_constant_channels_are_no_slips():
    rare, same = np.zeros((20, 15, 1)), np.ones((20, 15, 1))
    rare[5, 5] = same[5, 5] = 100.0
    for values in (rare, same, rare * np.nan):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert Scaler.fit(as_series(values), robust=True) == Scaler.fit(as_series(values))


@pytest.mark.parametrize("name", ["character-trajectories", "speech-commands", "hopper"])
def test_real_data_is_scaled_as_ever(name, data_dir):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)
        train = registry.load(name, data_dir=data_dir, **({"words": "all"} if name == "speech-commands" else {})).train
        assert Scaler.fit(train, robust=True) == Scaler.fit(train)


def spoiled(train: Series, size: float) -> Series:
    """One wild value a channel, in samples of its own."""
    values = np.array(train.values)
    for c in range(values.shape[1]):
        values[int(train.offsets[3 * c]) + 2, c] = size
    return Series(train.times, values, train.offsets, train.channels, train.target, train.static, train.ids)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e3, 1e9])
def test_characters_are_told_apart_as_well(size, data_dir):
    data = registry.load("character-trajectories", data_dir=data_dir)
    found = {}
    for name, train in (("clean", data.train), ("spoiled", spoiled(data.train, size))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeapWarning)
            fitted = LeapClassifier("gru", epochs=8, options={"hidden": 32}).fit(train, validation=data.validation)
            found[name] = fitted.fitted_.evaluate(data.test)["accuracy"]
    error = np.sqrt(found["clean"] * (1 - found["clean"]) / len(data.test))
    assert found["spoiled"] > found["clean"] - max(error, 0.01), found


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e3, 1e9])
def test_hopper_is_forecast_as_well(size):
    data = registry.load("hopper")
    train, validation, test = data.train, data.validation, data.test
    found = {}
    for name, given_train in (("clean", train), ("spoiled", spoiled(train, size))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeapWarning)
            model = LeapForecaster("gru", epochs=3, options={"hidden": 32}, horizon=10, calibration=0.0)
            model.fit(given_train, validation=validation)
            target = np.asarray(test.target)
            error = ((model.fitted_.predict(test) - target) / np.nanstd(train.values, 0)) ** 2
            found[name] = error.reshape(len(target), -1).mean(1)
    deviation = found["clean"].std() / np.sqrt(len(found["clean"]))
    assert found["spoiled"].mean() < found["clean"].mean() + deviation

"""Streaming: the answer after each push is the batch answer on the same prefix, and nothing grows."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from leapcde import InputError, LeapClassifier, LeapForecaster, LeapRegressor, as_series, stream
from leapcde.models.base import Streamable

SMALL = {"hidden": 5, "width": 6, "depth": 1}
LENGTH = 12


@pytest.fixture(scope="module")
def data():
    """24 samples with uneven times, holes, rows without anything, and two static features."""
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(24):
        times = np.sort(rng.choice(60, LENGTH, replace=False)) * 0.5 + 7
        values = rng.normal(size=(LENGTH, 3)).cumsum(0) + [0, 50, -3]
        values[rng.random((LENGTH, 3)) < 0.4] = np.nan
        values[rng.choice(LENGTH, 3, replace=False)] = np.nan
        samples.append((times, values))
    return as_series(samples, target=np.arange(24) % 3, static=rng.normal(size=(24, 2)))


def prefix(series, sample: int, rows: int):
    times, values = series.sample(sample)
    return as_series([(times[:rows], values[:rows])], static=series.static[[sample]])


@pytest.mark.parametrize("intensity", [False, True])
@pytest.mark.parametrize("path", ["hermite", "rectilinear"])
@pytest.mark.parametrize("model", ["leap", "ncde"])
@pytest.mark.filterwarnings("ignore:never observed")
def test_equals_batch_at_every_prefix(data, model, path, intensity):
    fitted = LeapClassifier(model, path=path, intensity=intensity, options=SMALL, epochs=1, rate=0.02).fit(data)
    for sample in (0, 5):
        live = fitted.stream(static=data.static[sample])
        times, values = data.sample(sample)
        for row in range(LENGTH):
            live.push(times[row], values[row])
            batch = prefix(data, sample, row + 1)
            assert np.abs(live.predict_proba() - fitted.predict_proba(batch)[0]).max() < 1e-5
            assert live.predict() == fitted.predict(batch)[0] and len(live) == row + 1


@pytest.mark.filterwarnings("ignore:never observed")
def test_state_has_one_shape_and_one_compilation(data):
    fitted = LeapClassifier(path="hermite", options=SMALL, epochs=1).fit(data)
    live = fitted.stream(static=[0.0, 0.0])
    live.push(0, [1.0, 2.0, 3.0]).push(1, [1.0, 2.0, 3.0]).predict()
    shapes = jax.tree.map(np.shape, live.carry)
    compiled = stream._push._cached._cache_size(), stream._read._cached._cache_size()
    for t in range(2, 300):
        live.push(t, [np.sin(t), np.nan, t % 7])
    live.predict()
    assert jax.tree.map(np.shape, live.carry) == shapes
    assert (stream._push._cached._cache_size(), stream._read._cached._cache_size()) == compiled


@pytest.mark.filterwarnings("ignore:never observed")
def test_regression_dates_and_mistakes(data):
    fitted = LeapRegressor("ncde", path="rectilinear", options=SMALL, epochs=1).fit(data, np.arange(24.0))
    with pytest.raises(InputError, match="trained on 2 static features, 0 are given"):
        fitted.stream()
    live = fitted.stream(static=[0.0, np.nan])
    with pytest.raises(InputError, match="nothing was pushed"):
        live.predict()
    live.push(np.datetime64("2024-05-01T00:00:00"), [1, 2, None])
    live.push("2024-05-01T00:00:03", [1.0, 2.0, 3.0])
    before = live.predict()
    assert isinstance(before, float)
    for t, x, words in [
        (1, [1.0, 2.0, 3.0], "does not come after"),
        (np.inf, [1.0, 2.0, 3.0], "finite"),
        (2e9, [1.0, 2.0], "3 values"),
        (2e9, [[1.0, 2.0, 3.0]] * 2, "1 times for 2 rows"),
        (2e9, [1.0, np.inf, 3.0], "infinite"),
        (2e9, np.array([1.0, np.inf, 3.0]), "finite"),
        (2e9, ["a", 1, 2], "text"),
    ]:
        with pytest.raises(InputError, match=words):
            live.push(t, x)
    assert live.predict() == before and len(live) == 2
    with pytest.raises(InputError, match="classification only"):
        live.predict_proba()


def test_refuses_what_is_not_causal(data):
    plain = as_series([data.sample(i) for i in range(24)], target=data.target)
    for options, words in [
        ({"path": "natural"}, "path='hermite'"),
        ({"path": "linear"}, "path='hermite'"),
        ({"path": "hermite", "options": {**SMALL, "decoder_steps": None}}, "decoder_steps=24"),
        ({"path": "hermite", "options": {**SMALL, "solver": "adaptive-tsit5"}}, "fixed solver"),
    ]:
        fitted = LeapClassifier(**{"options": SMALL, **options}, epochs=1).fit(plain)
        with pytest.raises(InputError, match=words):
            fitted.stream()


def test_a_forecaster_streams_its_window():
    """Any path: the last `window` rows are kept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 30, 2)).cumsum(1)
    fitted = LeapForecaster("ncde", horizon=3, window=8, options=SMALL, epochs=1).fit(X)
    live = fitted.stream()
    for row in range(20):
        live.push(row, X[0, row])
        if row in (0, 5, 19):
            assert live.predict() == pytest.approx(fitted.predict(X[:1, : row + 1])[0], abs=1e-5)
    assert len(live.kept) == 8


@pytest.mark.filterwarnings("ignore:never observed")
def test_a_model_may_bring_its_own_protocol(data):
    """`Streamable`: begin, advance, answer. Here a model that counts what it saw."""
    fitted = LeapClassifier("ncde", path="hermite", options=SMALL, epochs=1).fit(data)

    class Counting(type(fitted.predictor_.model)):
        def begin(self, batch):
            return batch.obs.mask[:, 0].sum(-1)

        def advance(self, state, batch):
            return state + batch.obs.mask[:, 1].sum(-1)

        def answer(self, state, batch):
            return state[:, None] * np.ones((1, 3)) + batch.obs.times[:, -1:] * np.array([[0, 1, 0]])

    model = object.__new__(Counting)
    for name, value in vars(fitted.predictor_.model).items():
        object.__setattr__(model, name, value)
    assert isinstance(model, Streamable) and not isinstance(fitted.predictor_.model, Streamable)
    live = stream.CarriedStream(type(fitted.predictor_)(fitted.predictor_.frame, model, "counting", {}), [0.0, 0.0])
    times, values = data.sample(3)
    for row in range(LENGTH):
        live.push(times[row], values[row])
        seen = np.isfinite(values[: row + 1]).sum()
        passed = (times[row] - times[0]) / fitted.predictor_.frame.scaler.time_unit
        assert live.raw()[0] == pytest.approx([seen, seen + passed, seen])

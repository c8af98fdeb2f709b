"""Streaming: the answer after each push is the batch answer on the same prefix, and nothing grows."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from conftest import awake
from leapcde.data.drop import without_empty_rows
from leapcde.data.read import as_series
from leapcde.data.windows import last_window, windows
from leapcde.errors import InputError
from leapcde.estimators import stream
from leapcde.estimators.classifier import LeapClassifier
from leapcde.models.base import Streamable
from leapcde.models.registry import build, options_of
from leapcde.paths.batch import Recipe
from leapcde.paths.ragged import make_buckets
from leapcde.training import loop as training
from leapcde.training.fitted import FittedModel
from leapcde.training.preprocess import Preprocessor

SMALL = {"hidden": 5, "width": 6, "depth": 1}
LENGTH = 12

pytestmark = pytest.mark.filterwarnings("ignore:never observed")


@pytest.fixture(scope="module")
def data():
    """24 samples with uneven times, holes, rows without anything, and two static features."""
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(24):
        times = np.sort(rng.choice(60, LENGTH, replace=False)) * 0.5 + 7
        values = rng.normal([0, 5, -3], 1, (LENGTH, 3)).cumsum(0)
        values[rng.random((LENGTH, 3)) < 0.4] = np.nan
        values[rng.choice(LENGTH, 3, replace=False)] = np.nan
        samples.append((times, values))
    return as_series(samples, target=np.arange(24) % 3, static=rng.normal(size=(24, 2)))


def untrained(
    series, model: str = "ncde", recipe: Recipe | None = None, task: str = "classification", **options
) -> FittedModel:
    """A model with the weights it starts with: streaming does not care how good they are, and compiling is slow."""
    preprocessor = Preprocessor.learn(series, task, recipe or Recipe("hermite"))
    sizes = {name: size for name, size in SMALL.items() if name in options_of(model)}
    return FittedModel(preprocessor, awake(build(model, preprocessor.spec, seed=1, **{**sizes, **options})), model, options)


def prefixes(series, sample: int):
    """Every prefix of a sample as a sample."""
    times, values = series.sample(sample)
    rows = range(1, len(times) + 1)
    return as_series([(times[:n], values[:n]) for n in rows], static=np.repeat(series.static[[sample]], len(times), 0))


@pytest.mark.parametrize(
    ("model", "recipe"),
    [
        ("leap", Recipe("hermite", intensity=True)),
        ("leap", Recipe("rectilinear")),
        ("ncde", Recipe("hermite", time_channel=False)),
        ("ncde", Recipe("rectilinear", intensity=True)),
        ("lstm", Recipe("natural")),
        ("gru-dt", Recipe("linear")),
        ("gru-d", Recipe("natural", intensity=True)),
        ("ode-rnn", Recipe("linear")),
        ("leap:restart", Recipe("hermite")),
        ("leap+", Recipe("linear", intensity=True)),
    ],
)
def test_equals_batch_at_every_prefix(data, model, recipe):
    fitted = untrained(data, model, recipe, **({"causal": True, "knots": 7, "ages": True} if model == "leap+" else {}))
    for sample in (0, 5):
        scaled = fitted.preprocessor.scaler.apply(without_empty_rows(prefixes(data, sample)))
        expected = training.predict(fitted.model, make_buckets(scaled, recipe, round_to=LENGTH, waste=np.inf))
        live = stream.open_stream(fitted, static=data.static[sample])
        assert np.ptp(expected, axis=0).min() > 1e-3  # there is something to follow
        for row, (t, x) in enumerate(zip(*data.sample(sample), strict=True)):
            live.push(t, x)
            assert np.abs(live.raw() - expected[row]).max() < 1e-5
            assert len(live) == row + 1


def test_the_estimator_streams_what_it_predicts(data):
    trained = LeapClassifier("ncde", interpolation="hermite", options=SMALL, epochs=1).fit(data)
    live = trained.stream(static=data.static[0])
    for t, x in zip(*data.sample(0), strict=True):
        live.push(t, x)
    assert live.predict_proba() == pytest.approx(trained.predict_proba(data[0])[0], abs=1e-5)
    assert live.predict() == trained.predict(data[0])[0]


def test_state_has_one_shape_and_one_compilation(data):
    live = stream.open_stream(untrained(data, "leap"), static=[0.0, 0.0])
    live.push(0, [1.0, 2.0, 3.0]).push(1, [1.0, 2.0, 3.0]).predict()
    shapes = jax.tree.map(np.shape, live.carry)
    compiled = stream._push._cache_size(), stream._read._cache_size()
    for t in range(2, 300):
        live.push(t, [np.sin(t), np.nan, t % 7])
    live.predict()
    assert jax.tree.map(np.shape, live.carry) == shapes
    assert (stream._push._cache_size(), stream._read._cache_size()) == compiled


def test_regression_dates_and_mistakes(data):
    fitted = untrained(data, "ncde", Recipe("hermite", time_channel=False), "regression")
    with pytest.raises(InputError, match="trained on 2 static features, 0 are given"):
        stream.open_stream(fitted)
    live = stream.open_stream(fitted, static=[0.0, np.nan])
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
    for recipe, options, words in [
        (Recipe("natural"), {}, "interpolation='hermite'"),
        (Recipe("linear"), {}, "interpolation='hermite'"),
        (Recipe("hermite"), {"decoder_steps": None}, "decoder_steps=24"),
        (Recipe("hermite"), {"solver": "adaptive-tsit5"}, "fixed solver"),
        (Recipe("hermite"), {"encoder_steps": 8}, "encoder_steps=None"),
    ]:
        with pytest.raises(InputError, match=words):
            stream.open_stream(untrained(data, "leap", recipe, **options), static=[0.0, 0.0])
    with pytest.raises(InputError, match="trained with steps=None"):
        stream.open_stream(untrained(data, "ncde", steps=8), static=[0.0, 0.0])
    with pytest.raises(InputError, match="fixed solver"):
        stream.open_stream(untrained(data, "ode-rnn", solver="adaptive-tsit5"), static=[0.0, 0.0])
    with pytest.raises(InputError, match=r"options=\{'causal': True\}"):
        stream.open_stream(untrained(data, "leap+"), static=[0.0, 0.0])
    with pytest.raises(InputError, match=r"'latent-ode' cannot be streamed; these can: .*'gru'.*'ncde', 'leap'"):
        stream.open_stream(untrained(data, "latent-ode"), static=[0.0, 0.0])


def test_a_forecaster_streams_its_window():
    """Any path: the last `window` rows are kept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 30, 2)).cumsum(1)
    series = windows(as_series(X), 8, 3)
    fitted = untrained(series, "ncde", Recipe("natural"), "forecasting")
    live = stream.open_stream(fitted, window=8)
    for row in range(20):
        live.push(row, X[0, row])
        if row in (5, 19):
            batch = as_series([(np.arange(row + 1.0), X[0, : row + 1])])
            assert live.predict() == pytest.approx(fitted.predict(last_window(batch, 8))[0], abs=1e-5)
    assert len(live.kept) == 8


def test_a_forecast_goes_on_from_what_was_carried():
    """LEAP+ carries what its path starts from: no window is kept, and all rows so far count."""
    X = np.random.default_rng(0).normal(size=(6, 30, 2)).cumsum(1)
    X[:, ::3, 0] = np.nan
    fitted = untrained(windows(as_series(X), 20, 3), "leap+", Recipe("linear"), "forecasting", causal=True)
    live = stream.open_stream(fitted)
    for row in range(20):
        live.push(row, X[0, row])
        if row in (0, 5, 19):
            batch = as_series([(np.arange(row + 1.0), X[0, : row + 1])])
            assert live.predict() == pytest.approx(fitted.predict(batch)[0], abs=1e-5)


def test_a_model_may_bring_its_own_protocol(data):
    """`Streamable`: begin, advance, answer. Here a model that counts what it saw."""
    plain = untrained(data, "gru-ode")

    class Counting(type(plain.model)):
        def begin(self, batch):
            return batch.obs.mask[:, 0].sum(-1)

        def advance(self, state, batch):
            return state + batch.obs.mask[:, 1].sum(-1)

        def answer(self, state, batch):
            return state[:, None] * np.ones((1, 3)) + batch.obs.times[:, -1:] * np.array([[0, 1, 0]])

    model = object.__new__(Counting)
    for name, value in vars(plain.model).items():
        object.__setattr__(model, name, value)
    assert isinstance(model, Streamable) and not isinstance(plain.model, Streamable)
    live = stream.CarriedStream(FittedModel(plain.preprocessor, model, "counting", {}), [0.0, 0.0])
    times, values = data.sample(3)
    for row in range(LENGTH):
        live.push(times[row], values[row])
        seen = np.isfinite(values[: row + 1]).sum()
        passed = (times[row] - times[0]) / plain.preprocessor.scaler.time_unit
        assert live.raw()[0] == pytest.approx([seen, seen + passed, seen])

"""What a newcomer gets: estimators with nothing set, and everything that they promise, on small series with holes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import leapcde
from leapcde.cli import fit as commands
from leapcde.data.read import as_series
from leapcde.errors import InputError
from leapcde.estimators.base import Estimator
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.contract import check_estimator
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.load import ESTIMATORS
from leapcde.estimators.regressor import LeapRegressor

ROWS = 14
pytestmark = pytest.mark.filterwarnings("ignore:never observed")


def waves(count: int = 40) -> tuple[leapcde.Series, np.ndarray]:
    """Waves of two speeds, shown by two of three channels at uneven times, with a static feature; and their speeds."""
    rng = np.random.default_rng(0)
    speed, pairs = np.where(np.arange(count) % 2, 0.9, 0.4), []
    for one in speed:
        t = np.sort(rng.choice(30, ROWS, replace=False)).astype(float)
        phase = one * t + rng.uniform(0, 6)
        values = np.stack([np.sin(phase), np.cos(phase), np.full(ROWS, np.nan)], 1)  # the third is never observed
        values[1:][rng.random((ROWS - 1, 3)) < 0.2] = np.nan
        pairs.append((t, values))
    return as_series(pairs, static=rng.normal(size=(count, 1))), speed


def trained(task: str) -> tuple[Estimator, leapcde.Series]:
    """Nothing is set but what a task needs to be one: intervals of numbers need data to be held out."""
    X, speed = waves()
    if task == "classification":
        return LeapClassifier().fit(X, np.where(speed > 0.5, "fast", "slow")), X
    if task == "regression":
        return LeapRegressor(calibration=0.3).fit(X, speed), X
    clock = np.arange(30.0)[None, :] * speed[:, None] + np.arange(len(speed))[:, None]
    X = as_series(np.stack([np.sin(clock), np.cos(clock), np.full(clock.shape, np.nan)], -1))
    return LeapForecaster().fit(X), X


# Each trains with nothing set, for up to half a minute, and is asked in the slow tests. In the fast ones README's example
# forecasts with nothing set, and tests/cli/test_cli.py tells classes apart.
LATER = [pytest.param(task, marks=pytest.mark.slow) for task in ("classification", "regression", "forecasting")]


@pytest.fixture(scope="module", params=LATER)
def fitted(request):
    return trained(request.param)


def test_one_name_for_the_default_everywhere():
    assert leapcde.DEFAULT_MODEL == "leap+"
    assert inspect.signature(commands.fit).parameters["model"].default == leapcde.RACE == "auto"
    for make in (*ESTIMATORS.values(), commands.tune):
        assert inspect.signature(make).parameters["model"].default == leapcde.DEFAULT_MODEL
    assert all(f'model : str, default "{leapcde.DEFAULT_MODEL}"' in inspect.getdoc(make) for make in ESTIMATORS.values())
    assert inspect.signature(commands.train).parameters["model"].default == "leap"  # the paper's


def test_it_learns(fitted):
    one, X = fitted
    speed = waves()[1]
    target = {"classification": np.where(speed > 0.5, "fast", "slow"), "regression": speed, "forecasting": None}[one.task]
    assert one.fitted_.name == "leap+" and one.score(X, target) > 0.6


@pytest.mark.filterwarnings("ignore:the learned path was further off")
def test_it_answers_and_looks_inside(fitted):
    one, X = fitted
    few = X.take([0, 3])
    assert one.predict(few).shape == {"forecasting": (2, 10, 3)}.get(one.task, (2,))
    filled, values = np.concatenate(one.predict_at(few)), one._new_series(few).values  # a forecaster looks at its window only
    seen = ~np.isnan(values)
    assert np.isfinite(filled).all() and filled[seen] == pytest.approx(values[seen], abs=1e-3)  # Y passes through them
    path = one.path(few, 20)
    assert path["Y"].shape == (2, 20, 3) and all(np.isfinite(array).all() for array in path.values())
    why = one.explain(few, steps=4)
    assert why.by_channel.shape == (2, 3) and np.abs(why.by_channel[:, :2]).min() > 0
    assert np.nan_to_num(why.by_channel[:, 2]).tolist() == [0.0, 0.0]


def test_it_has_intervals(fitted):
    one, X = fitted
    if one.task == "classification":
        return
    low, high = one.predict_interval(X, 0.5)
    assert low.shape == one.predict(X).shape and (low < high)[..., :2].all()


def test_it_is_saved_and_loaded(fitted, tmp_path):
    one, X = fitted
    one.save(tmp_path / "one.safetensors")
    again = leapcde.load(tmp_path / "one.safetensors")
    assert again.model == "leap+" and np.array_equal(again.predict(X), one.predict(X))


def test_one_observation_or_none_is_enough(fitted):
    one, X = fitted
    static = None if X.static is None else X.static[:2]
    hard = as_series([([0.0], [[1.0, np.nan, np.nan]]), ([0.0, 1.0], np.full((2, 3), np.nan))], static=static)
    assert np.isfinite(one.fitted_.raw(hard)).all() and len(one.predict(hard)) == 2


def test_it_says_how_to_get_a_stream(fitted):
    """A forecaster keeps its window and streams; the others name the model that does."""
    one, X = fitted
    if one.task == "forecasting":
        live = one.stream()
        for t, x in zip(*X.sample(0), strict=True):
            live.push(t, x)
        assert live.predict() == pytest.approx(one.predict(X.take([0]))[0], abs=1e-4)
        return
    with pytest.raises(InputError, match=r"fit with options=\{'causal': True\}"):
        one.stream(static=[0.0])


SLOW = [pytest.param(make, marks=pytest.mark.slow) for make in (LeapRegressor, LeapForecaster)]


@pytest.mark.parametrize("make", [LeapClassifier, *SLOW])
def test_the_contract_holds(make):
    more = {"horizon": 3, "window": 12} if make is LeapForecaster else {}
    assert "it_survives_pickling" in check_estimator(make(epochs=2, **more))

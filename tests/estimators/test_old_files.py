"""Files that an earlier commit wrote (ff5812f, by tests/data_files/README.md) load, and answer as they did then."""

from __future__ import annotations

import numpy as np
import pytest

import leapcde
from conftest import ROOT
from leapcde import LeapClassifier, LeapForecaster

FOLDER = ROOT / "tests" / "data_files"


@pytest.fixture(scope="module")
def answers():
    return np.load(FOLDER / "answers-ff5812f.npz")


def test_a_classifier(answers):
    one = leapcde.load(FOLDER / "classifier-ff5812f.safetensors")
    assert isinstance(one, LeapClassifier) and one.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(one.predict_proba(answers["X"]), answers["probability"], atol=1e-5)
    np.testing.assert_allclose(np.stack(one.predict_at(answers["X"])), answers["path"], atol=1e-4)


def test_a_forecaster(answers):
    one = leapcde.load(FOLDER / "forecaster-ff5812f.safetensors")
    X = np.nan_to_num(answers["X"][:, :4])
    assert isinstance(one, LeapForecaster) and one.window_ == 4
    np.testing.assert_allclose(one.predict(X), answers["forecast"], atol=1e-4)
    np.testing.assert_allclose(one.predict_interval(X)[0], answers["low"], atol=1e-4)

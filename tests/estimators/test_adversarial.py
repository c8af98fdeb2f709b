"""Nonsense given to what fills holes, finds what does not fit, or waits for an event: one clear error, before any training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from leapcde import LeapDetector, LeapImputer, LeapSurvival
from leapcde.errors import LeapError

ROWS = np.random.default_rng(0).normal(size=(12, 5, 2))
NONSENSE = {
    "nothing": None,
    "text": "series",
    "a dictionary": {"a": [1.0]},
    "no samples": [],
    "no rows": np.zeros((12, 0, 2)),
    "no channels": np.zeros((12, 5, 0)),
    "one number": np.array(5.0),
    "four dimensions": np.zeros((2, 3, 4, 5)),
    "complex numbers": ROWS + 1j,
    "text for numbers": np.full((12, 5), "a"),
    "objects": np.array([[{}, 1.0, 2.0]] * 12, dtype=object),
    "a sparse matrix": sparse.eye(12, format="csr"),
    "infinity": np.where(np.arange(12)[:, None, None] == 3, np.inf, ROWS),
    "times that go back": [(np.array([0.0, 2.0, 1.0]), np.ones((3, 2)))] * 12,
    "times that are missing": [(np.array([0.0, np.nan, 1.0]), np.ones((3, 2)))] * 12,
    "other numbers of channels": [ROWS[i, :, : 1 + i % 2] for i in range(12)],
    "fewer times than rows": [(np.arange(4.0), ROWS[i]) for i in range(12)],
    "a table without an id": pd.DataFrame({"a": np.arange(12.0)}),
}
SETTINGS = [
    ({"epochs": 0}, "epochs"),
    ({"batch_size": -1}, "batch_size"),
    ({"learning_rate": float("nan")}, "learning_rate"),
    ({"options": {"nonsense": 1}}, "no option 'nonsense'"),
    ({"interpolation": "cubic"}, "cubic"),
    ({"validation": 1.5}, "1.5"),
    ({"training": {"nonsense": 1}}, "nonsense"),
    ({"seed": "x"}, "seed"),
]
KINDS = [LeapImputer, LeapDetector, LeapSurvival]
Y = np.stack([np.arange(12) % 2, 1.0 + np.arange(12)], 1)


def fitted(make, X, **settings):
    one = make(**{"epochs": 1, **settings})
    return one.fit(X, Y) if make is LeapSurvival else one.fit(X)


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused(make, what):
    with pytest.raises(LeapError) as caught:
        fitted(make, NONSENSE[what])
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize(("settings", "words"), SETTINGS, ids=lambda part: next(iter(part)) if isinstance(part, dict) else "")
def test_settings_that_make_no_sense_are_refused(make, settings, words):
    with pytest.raises(LeapError, match=words):
        fitted(make, ROWS, **settings)

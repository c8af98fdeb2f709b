"""Other people's checks: scikit-learn's where they make sense for series, aeon's through a thin adapter."""

from __future__ import annotations

import inspect
import warnings

import pytest
from aeon.classification.base import BaseClassifier
from aeon.testing.estimator_checking import check_estimator as aeon_check
from sklearn.utils.estimator_checks import check_estimator as sklearn_check

from leapcde.data.read import as_series
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.regressor import LeapRegressor

pytestmark = pytest.mark.slow  # a hundred fits of other shapes: compiling them takes minutes

TINY = {"hidden": 4, "width": 4, "depth": 1}

# scikit-learn's samples are rows of one table: (sample, feature). Here a 2-D array is (sample, time), so its second axis is a
# length, which may differ from sample to sample, and not a number of features, which may not.
TABLE_ONLY = {
    "check_n_features_in": "n_features_in_ counts channels, and a 2-D array has one, whatever its length",
    "check_n_features_in_after_fitting": "series may be longer or shorter when predicted from",
    "check_estimators_partial_fit_n_features": "series may be longer or shorter in another part of the data",
    "check_estimators_empty_data_messages": "an array without columns is one without times: refused in other words",
    "check_classifier_data_not_an_array": "a table of features is refused: tables are long here, and need id=",
    "check_regressor_data_not_an_array": "the same",
    "check_fit2d_predict1d": "refused in other words",
    "check_dtype_object": "a dictionary among the numbers is refused, but with a ValueError",
    "check_classifiers_train": "wants a trained model; one epoch with four states is quick, not good",
    "check_class_weight_classifiers": "the same; test_class_weights looks at a trained one",
    "check_regressors_train": "the same",
    "check_sample_weights_pandas_series": "its X is a table of features",
    "check_sample_weight_equivalence_on_dense_data": "repeats make other batches, and other batches another course of training",
}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(monkeypatch):
    needless = set(TABLE_ONLY)
    for make in (LeapClassifier, LeapRegressor):
        # It gives constructors values of any type, which they must store: only `fit` may refuse them.
        monkeypatch.setattr(make, "__init__", inspect.unwrap(make.__init__))
        one = make("ncde", options=TINY, epochs=1, validation=0.0)
        found = sklearn_check(one, on_fail=None, on_skip=None, expected_failed_checks=TABLE_ONLY)
        assert not {row["check_name"]: str(row["exception"]) for row in found if row["status"] == "failed"}
        needless -= {row["check_name"] for row in found if row["status"] == "xfail"}
        passed = {row["check_name"] for row in found if row["status"] == "passed"}
        assert {"check_fit_idempotent", "check_estimators_pickle", "check_dict_unchanged"} <= passed and len(passed) >= 30
    assert not needless, "these checks pass by now; take them off the list"


class AeonLeap(BaseClassifier):
    """The whole adapter: aeon's collections are channels first."""

    _tags = {  # noqa: RUF012
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
        "X_inner_type": ["np-list", "numpy3D"],
    }

    def __init__(self, options=None, epochs=None, random_state=None):
        self.options = options
        self.epochs = epochs
        self.random_state = random_state
        super().__init__()

    def _fit(self, X, y):
        seed = 0 if self.random_state is None else self.random_state
        settings = {"interpolation": "linear", "options": self.options, "epochs": self.epochs, "seed": seed}
        self.leap_ = LeapClassifier("ncde", **settings).fit(as_series(X, layout="channels_first"), y)
        return self

    def _predict(self, X):
        return self.leap_.predict(as_series(X, layout="channels_first"))

    def _predict_proba(self, X):
        return self.leap_.predict_proba(as_series(X, layout="channels_first"))

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"options": TINY, "epochs": 1}


@pytest.mark.filterwarnings("ignore")
def test_aeon():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = aeon_check(AeonLeap, raise_exceptions=True)
    assert len(found) >= 15 and set(found.values()) == {"PASSED"}

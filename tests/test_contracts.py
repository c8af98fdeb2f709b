"""Other people's checks: scikit-learn's where they make sense for series, aeon's through a thin adapter."""

from __future__ import annotations

import warnings

import pytest
from aeon.classification.base import BaseClassifier
from aeon.testing.estimator_checking import check_estimator as aeon_check
from sklearn.utils.estimator_checks import check_estimator as sklearn_check

from leapcde import LeapClassifier, LeapRegressor

TINY = {"hidden": 4, "width": 4, "depth": 1}

# scikit-learn's samples are rows of one table: (sample, feature). Here a 2-D array is (sample, time), so its second axis is a
# length, which may differ from sample to sample, and not a number of features, which may not.
TABLE_ONLY = {
    "check_n_features_in": "a 2-D array has one channel, whatever its length",
    "check_n_features_in_after_fitting": "series may be longer or shorter when predicted from",
    "check_estimators_partial_fit_n_features": "the same",
    "check_dataframe_column_names_consistency": "a table is long here, and needs the names of its id and time columns",
    "check_fit2d_1feature": "one point of time is a series: it is fitted, as the check allows, but with a note",
    "check_fit2d_1sample": "refused with another message than the check looks for",
    "check_fit1d": "a list of numbers is refused with another message than the check looks for",
    "check_estimators_empty_data_messages": "an array of no features is an array of no times: refused with another message",
    "check_estimators_nan_inf": "NaN is a missing value, not a mistake; infinity is refused",
    "check_estimator_sparse_array": "a sparse zero is a value, not a hole; refused with our own error",
    "check_estimator_sparse_matrix": "the same",
    "check_complex_data": "refused with another message than the check looks for",
    "check_dtype_object": "refused with another message than the check looks for",
    "check_classifiers_train": "wants other lengths to be refused",
    "check_regressors_train": "wants R² > 0.5 on the same",
    "check_classifiers_one_label": "one class is refused",
    "check_supervised_y_2d": "a column as y is taken without a warning",
    "check_supervised_y_no_nan": "refused with another message than the check looks for",
    "check_requires_y_none": "warns where the message differs",
    "check_readonly_memmap_input": "needs writeable joblib temporary files",
    "check_estimators_dtypes": "integers 0 to 20 make the same series; the check's random table has 1e5 long rows",
}


@pytest.mark.parametrize("make", [LeapClassifier, LeapRegressor])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(make):
    one = make("ncde", options=TINY, interpolation="linear", epochs=1, validation=0.0)
    found = sklearn_check(one, on_fail=None, on_skip=None, expected_failed_checks=TABLE_ONLY)
    failed = {row["check_name"]: str(row["exception"]) for row in found if row["status"] == "failed"}
    assert not failed
    passed = {row["check_name"] for row in found if row["status"] == "passed"}
    assert {"check_fit_idempotent", "check_estimators_pickle", "check_dict_unchanged", "check_get_params_invariance"} <= passed
    assert len(passed) >= 25


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
        self.leap_ = LeapClassifier(
            "ncde", layout="channels_first", interpolation="linear", options=self.options, epochs=self.epochs, random_state=seed
        ).fit(X, y)
        return self

    def _predict(self, X):
        return self.leap_.predict(X)

    def _predict_proba(self, X):
        return self.leap_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"options": TINY, "epochs": 1}


@pytest.mark.filterwarnings("ignore")
def test_aeon():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = aeon_check(AeonLeap, raise_exceptions=True)
    assert len(found) >= 15 and set(found.values()) == {"PASSED"}

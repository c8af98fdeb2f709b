"""Other people's checks: scikit-learn's where they make sense for series, aeon's through a thin adapter."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from aeon.anomaly_detection.series.base import BaseSeriesAnomalyDetector
from aeon.classification.base import BaseClassifier
from aeon.regression.base import BaseRegressor
from aeon.testing.estimator_checking import check_estimator as aeon_check
from aeon.transformations.collection.base import BaseCollectionTransformer
from sklearn.utils import column_or_1d
from sklearn.utils.estimator_checks import check_estimator as sklearn_check

from leapcde.data.read import as_series
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.holes.detector import LeapDetector
from leapcde.estimators.holes.imputer import LeapImputer
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.survival import LeapSurvival

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

# Whether it passes is for the compiler to say.
LAST_BITS = {
    "check_methods_subset_invariance": "asks for 1e-7, and single precision has seven digits; tests/models compare batches"
}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn(monkeypatch):
    needless = set(TABLE_ONLY)
    for make in (LeapClassifier, LeapRegressor):
        # It gives constructors values of any type, which they must store: only `fit` may refuse them.
        monkeypatch.setattr(make, "__init__", inspect.unwrap(make.__init__))
        one = make("ncde", options=TINY, epochs=1, validation=0.0)
        found = sklearn_check(one, on_fail=None, on_skip=None, expected_failed_checks=TABLE_ONLY | LAST_BITS)
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


# What has no labels, or labels of its own kind ------------------------------------------------------------------------

TWO_ROWS = "its samples have one or two features, which are rows: nothing can be hidden between them, and that is said"
HOLES = {
    "check_n_features_in_after_fitting": "series may be longer or shorter later",
    "check_transformer_general": "the same, and the rest of it passes: fit and transform at once are one after the other",
    "check_transformer_data_not_an_array": "what was given as a list comes back as one, and has no shape",
    "check_estimators_empty_data_messages": "an array without columns is one without times: refused in other words",
    "check_dtype_object": "a dictionary among the numbers is refused, but with a ValueError",
    "check_fit2d_predict1d": "refused in other words",
    **dict.fromkeys(
        (
            "check_estimators_overwrite_params",
            "check_estimators_fit_returns_self",
            "check_readonly_memmap_input",
            "check_fit2d_1feature",
            "check_fit_idempotent",
            "check_fit_check_is_fitted",
            "check_n_features_in",
        ),
        TWO_ROWS,
    ),
}
LISTS = "it compares scores as one array; of an array that ends in NaN they are a list, because that is padding"
SCORES = {"check_estimators_pickle": f"{LISTS}; test_detector.py compares what was pickled", **HOLES}


class Observed(LeapSurvival):
    """Everybody has an event, at a time that scikit-learn's number is brought to: its checks know one number a sample."""

    def fit(self, X, y=None, sample_weight=None):
        return super().fit(X, self._events(y), sample_weight=sample_weight)

    def partial_fit(self, X, y=None, sample_weight=None):
        return super().partial_fit(X, self._events(y), sample_weight=sample_weight)

    def _events(self, y):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        return np.stack([np.ones(len(y)), np.unique(y, return_inverse=True)[1] + 1.0], 1)

    def score(self, X, y=None, sample_weight=None):
        return super().score(X, np.stack([np.ones(len(y)), np.asarray(y, float) - np.min(y)], 1), sample_weight=sample_weight)


QUICK_PATH = {"options": {"path_width": 4}, "interpolation": "linear", "epochs": 1, "validation": 0.0}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [LeapImputer, LeapDetector, Observed], ids=lambda make: make.__name__)
def test_scikit_learn_without_labels_and_with_events(make, monkeypatch):
    monkeypatch.setattr(make, "__init__", inspect.unwrap(make.__init__))
    settings = {"model": "gru", "options": {"hidden": 4}, "epochs": 1, "validation": 0.0} if make is Observed else QUICK_PATH
    known = {Observed: TABLE_ONLY, LeapImputer: HOLES, LeapDetector: SCORES}[make]
    found = sklearn_check(make(**settings), on_fail=None, on_skip=None, expected_failed_checks=known)
    assert not {row["check_name"]: str(row["exception"]) for row in found if row["status"] == "failed"}
    passed = {row["check_name"] for row in found if row["status"] == "passed"}
    assert {"check_dict_unchanged", "check_estimators_dtypes", "check_parameters_default_constructible"} <= passed
    assert ("check_estimators_pickle" in passed) == (make is not LeapDetector) and len(passed) >= 20


class AeonSurvival(BaseRegressor):
    """aeon has no times to an event: everybody has one, and the number that is predicted is minus the risk."""

    _tags = AeonLeap._tags

    def __init__(self, epochs=None):
        self.epochs = epochs
        super().__init__()

    def _fit(self, X, y):
        rank = np.unique(y, return_inverse=True)[1] + 1.0
        settings = {"options": {"hidden": 4}, "epochs": self.epochs}
        self.leap_ = LeapSurvival("gru", **settings).fit(
            as_series(X, layout="channels_first"), np.stack([np.ones(len(y)), rank], 1)
        )
        return self

    def _predict(self, X):
        return -self.leap_.predict(as_series(X, layout="channels_first"))

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"epochs": 1}


class AeonImputer(BaseCollectionTransformer):
    """Holes of a collection filled."""

    _tags = {  # noqa: RUF012
        "capability:multivariate": True,
        "capability:missing_values": True,
        "removes_missing_values": True,
        "fit_is_empty": False,
        "X_inner_type": "numpy3D",
    }

    def __init__(self, epochs=None):
        self.epochs = epochs
        super().__init__()

    def _fit(self, X, y=None):
        self.leap_ = LeapImputer(**{**QUICK_PATH, "epochs": self.epochs}).fit(np.swapaxes(X, 1, 2))
        return self

    def _transform(self, X, y=None):
        return np.swapaxes(self.leap_.transform(np.swapaxes(X, 1, 2)), 1, 2)

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"epochs": 1}


class AeonDetector(BaseSeriesAnomalyDetector):
    """One score for each time of one series: the highest of its channels. The series is cut into samples to learn from."""

    _tags = {  # noqa: RUF012
        "capability:univariate": True,
        "capability:multivariate": True,
        "fit_is_empty": False,
        "requires_y": False,
        "anomaly_output_type": "anomaly_scores",
        "learning_type:unsupervised": True,
    }

    def __init__(self, epochs=None):
        self.epochs = epochs
        super().__init__(axis=0)

    def _fit(self, X, y=None):
        rows = np.asarray(X, float).reshape(len(X), -1)
        self.leap_ = LeapDetector(**{**QUICK_PATH, "epochs": self.epochs}).fit(np.array_split(rows, max(1, len(rows) // 10)))
        return self

    def _predict(self, X):
        rows = np.asarray(X, float).reshape(len(X), -1)
        return np.nanmax(self.leap_.score_samples([rows])[0], axis=1)

    @classmethod
    def _get_test_params(cls, parameter_set="default"):
        return {"epochs": 1}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [AeonSurvival, AeonImputer, AeonDetector], ids=lambda make: make.__name__)
def test_aeon_without_labels_and_with_events(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = aeon_check(make, raise_exceptions=False)
    assert {name: str(said) for name, said in found.items() if said != "PASSED"} == {} and len(found) >= 8

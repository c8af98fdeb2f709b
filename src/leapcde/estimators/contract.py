"""What an estimator must do to be at home here, as checks that anybody can run on their own.

They cover what scikit-learn's `check_estimator` cannot ask, because its samples are rows of one table: ragged series,
uneven times, missing values. An estimator is an object with `fit` and `predict` that takes lists of (times, values).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.errors import LeapError

SAMPLES = 20


def check_estimator(estimator: Any) -> list[str]:
    """Run every check on clones of an estimator; returns the names of those passed, or raises one error with all failures.

    Settings that make it quick (few epochs, a small model) are yours to choose.

    >>> from leapcde import LeapClassifier
    >>> quick = LeapClassifier("gru", options={"hidden": 4}, epochs=1)
    >>> len(check_estimator(quick)) == len(CHECKS)
    True
    """
    data = _data(_kind(estimator), getattr(estimator, "target_per", "sample"))
    problems, passed = [], []
    try:
        trained = _fit(clone(estimator), data)
    except Exception as error:
        raise LeapError(f"{type(estimator).__name__} cannot be trained on ragged series with holes: {_said(error)}") from error
    for check in CHECKS:
        try:
            check(estimator, trained, data)
            passed.append(check.__name__)
        except Exception as error:  # whatever a third party's code raises is a finding
            problems.append(f"{check.__name__}: {_said(error)}")
    if problems:
        raise LeapError(f"{type(estimator).__name__} fails {len(problems)} of {len(CHECKS)} checks", problems)
    return passed


def parameters_are_kept(estimator, trained, data) -> None:
    """The constructor stores what it is given, `fit` leaves it alone, and a clone has the same."""
    copy: Any = clone(estimator)
    settings = lambda one: {name: repr(value) for name, value in one.get_params().items()}
    _same(settings(estimator), settings(trained), "fit changed parameters")
    _same(settings(estimator), settings(copy), "a clone has other parameters")


def one_answer_a_sample(estimator, trained, data) -> None:
    found = trained.predict(data)
    _same(len(found), SAMPLES, "predict gives another number of answers than there are samples")
    if data.per_row:
        _same([len(one) for one in found], data.lengths.tolist(), "predict gives another number of answers than there are rows")


def the_same_seed_gives_the_same_answers(estimator, trained, data) -> None:
    _close(_answers(_fit(clone(estimator), data), data), _answers(trained, data), 0.0, "fitting twice gives different answers")


def answers_do_not_depend_on_the_company(estimator, trained, data) -> None:
    """Alone, in another order, or beside a longer sample that changes the padding: a sample has one answer."""
    whole = _answers(trained, data)
    _close(_answers(trained, data.take([3])), whole[3:4], 1e-4, "a sample alone gets another answer")
    order = np.arange(SAMPLES)[::-1]
    _close(_answers(trained, data.take(order)), whole[::-1], 1e-4, "another order gives other answers")


def the_zero_of_time_does_not_matter(estimator, trained, data) -> None:
    later = [(times + 1000.0, values) for times, values in (data.sample(i) for i in range(SAMPLES))]
    _close(
        _answers(trained, as_series(later)), _answers(trained, data), 1e-3, "answers change when all times are later by 1000"
    )


def input_is_left_alone(estimator, trained, data) -> None:
    pairs = [tuple(array.copy() for array in data.sample(i)) for i in range(SAMPLES)]
    trained.predict(pairs)
    for i, (times, values) in enumerate(pairs):
        if not (np.array_equal(times, data.sample(i)[0]) and np.array_equal(values, data.sample(i)[1], equal_nan=True)):
            raise AssertionError(f"predict changed sample {i} in place")


def a_single_observation_is_enough(estimator, trained, data) -> None:
    answer = np.asarray(trained.predict([(np.array([0.0]), np.array([[1.0, 2.0]]))]))
    _same(len(answer), 1, "a sample of one observation gets no answer")


def wrong_channels_are_refused(estimator, trained, data) -> None:
    try:
        trained.predict([(np.arange(3.0), np.ones((3, 5)))])
    except ValueError:
        return
    raise AssertionError("predict takes 5 channels, after training on 2")


def backward_times_are_refused(estimator, trained, data) -> None:
    try:
        trained.predict([(np.array([1.0, 0.0]), np.ones((2, 2)))])
    except ValueError:
        return
    raise AssertionError("predict takes times that go backwards")


def it_survives_pickling(estimator, trained, data) -> None:
    _close(
        _answers(pickle.loads(pickle.dumps(trained)), data), _answers(trained, data), 0.0, "a pickled copy answers otherwise"
    )


def probabilities_add_up(estimator, trained, data) -> None:
    if not hasattr(trained, "predict_proba"):
        return
    flat = np.concatenate if data.per_row else np.asarray
    found, said = flat(trained.predict_proba(data)), flat(trained.predict(data))
    count = len(data.times) if data.per_row else SAMPLES
    _same(found.shape, (count, len(trained.classes_)), "predict_proba has another shape than (samples, classes)")
    _close([found.sum(1)], [np.ones(count)], 1e-6, "probabilities do not add up to one")
    _same(np.asarray(trained.classes_)[found.argmax(1)].tolist(), said.tolist(), "predict is not the likeliest class")


CHECKS: tuple[Callable[[Any, Any, Series], None], ...] = (
    parameters_are_kept,
    one_answer_a_sample,
    the_same_seed_gives_the_same_answers,
    answers_do_not_depend_on_the_company,
    the_zero_of_time_does_not_matter,
    input_is_left_alone,
    a_single_observation_is_enough,
    wrong_channels_are_refused,
    backward_times_are_refused,
    it_survives_pickling,
    probabilities_add_up,
)


def _kind(estimator: Any) -> str:
    task = getattr(estimator, "task", None)
    return str(task or estimator.__sklearn_tags__().estimator_type)


def _data(kind: str, per: str = "sample") -> Series:
    """Twenty ragged series with holes and a target of this kind. Every channel is seen once in each, so that nobody warns."""
    rng = np.random.default_rng(0)
    pairs = []
    for i in range(SAMPLES):
        length = 24 + i % 3 if kind == "forecasting" else 4 + i % 5
        values = rng.normal(size=(length, 2)).cumsum(0) + i % 2
        values[1:][rng.random((length - 1, 2)) < 0.3] = np.nan
        pairs.append((np.sort(rng.choice(4 * length, length, replace=False)) / 2, values))
    target = None if kind == "forecasting" else np.arange(SAMPLES) % 2
    series = as_series(pairs)
    if kind == "survival":
        return as_series(series, target=np.stack([np.arange(SAMPLES) % 2, 1.0 + np.arange(SAMPLES)], 1))
    if per == "row":
        each = [(np.arange(len(t)) + i) % 2 + (0.5 if kind.startswith("regress") else 0) for i, (t, _) in enumerate(pairs)]
        return as_series(series, target=each, target_per="row")
    return series if target is None else as_series(series, target=target + (0.5 if kind.startswith("regress") else 0))


def _fit(estimator: Any, data: Series) -> Any:
    pairs = [data.sample(i) for i in range(SAMPLES)]
    if data.target is None:
        return estimator.fit(pairs)
    return estimator.fit(pairs, np.split(data.target, data.offsets[1:-1]) if data.per_row else data.target)


def _answers(trained: Any, data: Series) -> list[np.ndarray]:
    """Numbers to compare, sample by sample: probabilities where there are any."""
    answer = trained.predict_proba if hasattr(trained, "predict_proba") else trained.predict
    return [np.asarray(one) for one in answer([data.sample(i) for i in range(len(data))])]


def _same(a: Any, b: Any, problem: str) -> None:
    if a != b:
        raise AssertionError(f"{problem}: {a} and {b}")


def _close(a: list[np.ndarray], b: list[np.ndarray], tolerance: float, problem: str) -> None:
    alike = [one.shape for one in a] == [one.shape for one in b]
    if not alike or not all(np.abs(one - other).max() <= tolerance for one, other in zip(a, b, strict=True)):
        raise AssertionError(problem)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]

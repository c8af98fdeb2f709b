"""A LeapError or a result, never another exception, whatever is handed to whatever is public.

Types are not checked here, as they are in other tests, because users have no such checks: `tests/test_faults.py` runs this
file in a process of its own, `make test-faults` with more examples (LEAPCDE_EXAMPLES times as many).
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import leapcde
from command import leapcde as command
from leapcde import LeapClassifier, LeapForecaster, LeapRegressor, TrainConfig, as_series, from_table
from leapcde.errors import InputError, LeapError, LeapWarning
from leapcde.models.base import Spec
from leapcde.models.registry import build

MORE = int(os.environ.get("LEAPCDE_EXAMPLES", "1"))
SEEDED = "LEAPCDE_EXAMPLES" not in os.environ  # the same examples in every `make test`


def examples(count: int) -> settings:
    return settings(
        max_examples=count * MORE, deadline=None, derandomize=SEEDED, database=None, suppress_health_check=list(HealthCheck)
    )


HUGE = 10**400
TABLE = pd.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "a": [1.0, 2, 3, 4], "y": [0, 0, 1, 1]})
SMALL: Any = {"options": {"hidden": 2, "width": 2, "depth": 1}, "epochs": 1}
X, y = np.random.default_rng(0).normal(size=(8, 6, 2)), np.arange(8) % 2

NUMBERS = st.floats() | st.integers() | st.booleans() | st.sampled_from([HUGE, -HUGE, 2**63, 1e308, -0.0])
ODD = (
    st.none()
    | NUMBERS
    | st.text(max_size=4)
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.complex_numbers()
)
ARRAYS = hnp.arrays(
    st.sampled_from([float, np.float32, int, bool, object, "U3", "M8[s]", complex]),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
)
MASKED = st.tuples(hnp.arrays(float, (2, 3)), hnp.arrays(bool, (2, 3))).map(lambda pair: np.ma.masked_array(*pair))
ANY = st.recursive(
    ODD | ARRAYS | MASKED,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
        | st.lists(inner, max_size=3).map(iter)
        | st.lists(inner, max_size=3).map(lambda items: pd.Series(items, dtype=object))
        | st.sets(st.integers(), max_size=2)
    ),
    max_leaves=6,
)


def fine(call, *args, **named) -> Any:
    with warnings.catch_warnings(), suppress(LeapError):
        warnings.simplefilter("ignore")
        return call(*args, **named)


@examples(60)
@example(np.array("hr"), None, None, None)
@given(ANY, ANY, ANY, ANY)
def test_series(data, times, target, static):
    fine(as_series, data)
    fine(as_series, data, times=times, target=target, static=static)
    fine(as_series, X, times=times)
    fine(as_series, X, target=target)
    fine(as_series, X, static=static)
    fine(as_series, X, channels=data)
    fine(as_series, [(times, data)])


@examples(30)
@example([None, 10**400], "t")
@example([None, 10**400], "a")
@given(st.lists(ANY, min_size=2, max_size=2), st.sampled_from(["id", "t", "a", "y"]))
def test_tables(cells, name):
    table = TABLE.astype(object).iloc[:2].copy()
    table[name] = pd.Series(cells, table.index, dtype=object)
    fine(from_table, table, id="id", time="t", target="y")
    fine(from_table, table, id="id", time="t", static=["y"], time_format="%d.%m.%Y")
    fine(from_table, cells[0], id="id", time="t")


def test_arrow_tables_are_tables():
    expected = from_table(TABLE, id="id", time="t", target="y")
    for given_table in (pa.Table.from_pandas(TABLE), pa.RecordBatch.from_pandas(TABLE), pl.from_pandas(TABLE)):
        found = from_table(given_table, id="id", time="t", target="y")
        np.testing.assert_array_equal(found.values, expected.values)
        assert found.channels == expected.channels == ("a",)


CELLS = {
    "tuples as ids": {"id": [(1, 2), (1, 2), (3, 4), (3, 4)]},
    "lists as ids": {"id": [[1], [1], [2], [2, 3]]},
}


@pytest.mark.parametrize("name", CELLS)
def test_odd_ids_tell_apart(name):
    assert len(from_table(TABLE.assign(**CELLS[name]), id="id", time="t")) == 2 + (name == "lists as ids")


def test_structs_are_no_numbers():
    with pytest.raises(InputError, match="'a': several numbers in a cell"):
        from_table(pl.DataFrame({"id": [0, 0], "t": [0, 1], "a": [{"x": 1}, {"x": 2}]}), id="id", time="t")


FIELDS = sorted(TrainConfig.__dataclass_fields__)


@examples(60)
@given(st.sampled_from(FIELDS), ANY)
def test_training_settings(name, value):
    fine(lambda: TrainConfig(**{name: value}))


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 1.5), ("batch_size", 1.5), ("seed", 2**32), ("seed", 10**24), ("learning_rate", HUGE)]
)
def test_settings_that_are_no_such_numbers(name, value):
    with pytest.raises(InputError, match=name):
        TrainConfig(**{name: value})


OPTIONS = ["hidden", "depth", "activation", "time_span", "solver", "solver_options", "anchored", "more"]


@examples(50)
@given(
    st.sampled_from(OPTIONS),
    ODD | st.dictionaries(st.sampled_from(["substeps", "rtol"]), ODD, max_size=2) | st.lists(NUMBERS, max_size=2),
)
def test_options_of_a_model(name, value):
    if not (isinstance(value, int) and not isinstance(value, bool) and 50 < value < 2**31):  # which would be built
        fine(build, "ncde", Spec("classification", 3, 4, (2,)), **{name: value})


HORIZONS = [
    float("nan"),
    float("inf"),
    1.5,
    HUGE,
    [float("nan")],
    [float("inf")],
    [HUGE],
    [],
    "x",
    None,
    [1, "a"],
    [[1.0]],
    True,
    0,
    -1,
]


@pytest.mark.parametrize("horizon", HORIZONS, ids=lambda value: str(value)[:12])
def test_horizons(horizon):
    with pytest.raises(LeapError):
        LeapForecaster("ncde", horizon=horizon, **SMALL).fit(X)


@pytest.mark.parametrize("name", ["window", "stride"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.5, HUGE, "x", -1], ids=lambda value: str(value)[:12])
def test_windows(name, value):
    with pytest.raises(LeapError):
        LeapForecaster("ncde", horizon=1, **SMALL).set_params(**{name: value}).fit(X)


ESTIMATORS = {
    "options": [1],
    "training": {"epochs": "x"},
    "seed": 10**24,
    "intensity": "x",
    "interpolation": 5,
    "model": 5,
    "batch_size": 1.5,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_of_estimators(name):
    with pytest.raises(LeapError):
        LeapRegressor(**{"model": "ncde", **SMALL, name: ESTIMATORS[name]}).fit(X, y)


@pytest.fixture(scope="module")
def fitted() -> LeapClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeapWarning)
        return LeapClassifier("ncde", interpolation="hermite", **SMALL).fit(X, y)


@examples(60)
@given(ANY)
def test_predict(fitted, data):
    fine(fitted.predict, data)


@examples(60)
@given(ANY, ANY)
def test_push(fitted, t, x):
    stream = fitted.stream()
    fine(stream.push, t, x)
    fine(stream.push, t, np.zeros(2))
    fine(stream.push, 0, x)
    fine(fitted.stream, x)


@examples(50)
@given(st.text(max_size=10) | st.binary(max_size=10) | st.none() | st.integers())
def test_load(name):
    fine(leapcde.load, name)


MISTAKES: dict[str, Any] = {
    "a list as a column": lambda one: from_table(TABLE, id="id", time="t", weights=["a"]),  # pyright: ignore
    "a number as channels": lambda one: LeapForecaster("ncde", horizon=1, target=5, **SMALL).fit(X),  # pyright: ignore
    "a function as callbacks": lambda one: LeapClassifier("ncde", **SMALL).fit(X, y, callbacks=print),  # pyright: ignore
    "a coverage in words": lambda one: one.predict_set(X, "x"),
    "a list of coverages": lambda one: one.predict_set(X, [0.9]),
    "a share of members": lambda one: LeapClassifier("ncde", ensemble=1.5, **SMALL).fit(X, y),  # pyright: ignore
    "members without end": lambda one: LeapClassifier("ncde", ensemble=HUGE, **SMALL).fit(X, y),
    "a time limit in words": lambda one: LeapClassifier("auto", time_limit="5m").fit(X, y),  # pyright: ignore
    "weights in words": lambda one: LeapClassifier("ncde", **SMALL).fit(X, y, sample_weight=["a"] * 8),
    "groups of nobody": lambda one: LeapClassifier("ncde", **SMALL).fit(X, y, groups=5),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_what_is_newer(fitted, name):
    with pytest.raises(LeapError):
        MISTAKES[name](fitted)


# The command line


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("option", ["--option", "--dataset-option"])
def test_deep_json_in_options(option):
    answer = command("train", "mujoco", option, f"hidden={DEEP}", "--epochs", "1")
    assert answer.code == 2 and "Traceback" not in answer.err


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
@pytest.mark.parametrize("content", [DEEP, "{}", "", "[]", json.dumps({"data": HUGE}), "\0"])
def test_damaged_run_folders(file, content, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("")
    (tmp_path / file).write_text(content)
    for args in (("evaluate", tmp_path), ("predict", tmp_path, tmp_path / "a.csv"), ("explain", tmp_path)):
        answer = command(*args)
        assert answer.code == 2 and answer.err.startswith("error: "), answer


ARGS = st.sampled_from(
    ["fit", "a.csv", "--id", "id", "--time", "t", "--target", "y", "--horizon", "nan", "--seed", str(10**24), "--epochs", "1.5"]
)


@examples(30)
@given(st.lists(ARGS | st.text(max_size=5).filter(lambda text: "\0" not in text), max_size=8))
def test_any_command(tmp_path_factory, args):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("empty"))
        answer = command(*args)
    assert answer.code in (0, 2) and "Traceback" not in answer.err, (args, answer)

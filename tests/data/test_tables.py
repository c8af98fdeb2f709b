"""Tables: any order and any kind of column is the same series, and every mistake in one is listed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from leapcde.data.columns import Columns
from leapcde.data.read import as_series, from_table
from leapcde.data.series import Series
from leapcde.errors import InputError
from samples import INF, NAN, TIMES, VALUES, fits, problems, same


def table(**changes) -> pd.DataFrame:
    rows = pd.DataFrame(
        {
            "who": ["b", "b", "a", "a", "a"],
            "when": [0.5, 4.0, 0.0, 1.0, 2.5],
            "x0": [7.0, NAN, 1.0, 3.0, 5.0],
            "x1": [8.0, 10.0, 2.0, NAN, 6.0],
            "age": [60, 60, 50, 50, 50],
            "ill": ["yes", "yes", "no", "no", "no"],
        }
    )
    return rows.assign(**changes)


def read(preprocessor, **changes) -> Series:
    return from_table(preprocessor, **{"id": "who", "time": "when", "target": "ill", "static": ["age"], **changes})


@pytest.mark.parametrize("seed", range(4))
def test_table_in_any_order_from_pandas_and_polars(seed):
    shuffled = table().sample(frac=1, random_state=seed)
    for preprocessor in (shuffled, pl.from_pandas(shuffled), shuffled.convert_dtypes()):
        expected = as_series(list(zip(TIMES, VALUES, strict=True)), target=["no", "yes"], static=[[50], [60]])
        same(read(preprocessor), replace(expected, ids=np.array(["a", "b"])))


def test_table_columns_by_choice_and_whole_number_names():
    assert read(table(), values=["x1"]).channels == ("x1",)
    assert read(table().drop(columns="ill"), target=None, static=[]).channels == ("x0", "x1", "age")
    plain = pd.DataFrame([[1, 0, 5.0], [1, 1, 6.0]])
    assert from_table(plain, id="0", time="1").values.ravel().tolist() == [5.0, 6.0]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_table_with_dates(zone):
    dates = pd.to_datetime(["2024-05-01 00:00", "2024-05-01 00:01", "2024-05-01 00:00", "2024-05-02 00:00", "2024-05-03 00:00"])
    preprocessor = table(when=dates if zone is None else dates.tz_localize(zone))
    series = read(preprocessor.sample(frac=1, random_state=1))
    assert np.diff(series.sample(1)[0]).tolist() == [60.0] and np.diff(series.sample(0)[0]).tolist() == [86400.0] * 2
    same(read(pl.from_pandas(preprocessor)), series)
    if zone is None:
        same(read(preprocessor.assign(when=preprocessor["when"].astype(str))), series)  # as a CSV file has them


def test_table_with_missing_values_in_nullable_columns():
    preprocessor = table().convert_dtypes()
    assert preprocessor["x0"].isna().any() and preprocessor["x0"].dtype == "Int64"
    same(read(preprocessor), read(table()))


def test_static_may_be_missing():
    assert np.isnan(read(table(age=[NAN, NAN, 50, 50, 50])).static[1, 0])
    assert read(table(age=[60, NAN, NAN, 50, NAN])).static.ravel().tolist() == [50, 60]  # written once, on any row
    with pytest.raises(InputError, match="'age' changes within the sample"):
        read(table(age=[60, NAN, 50, NAN, 51]))


# Mistakes in tables


def test_table_lists_everything_at_once():
    preprocessor = table(when=[4.0, 4.0, 0.0, 1.0, INF], ill=["yes", "no", "no", "no", "no"], age=[60, 60, 50, 51, 50])
    preprocessor["x0"] = ["7", "8", "low", "3", "5"]
    preprocessor.loc[3, "x1"] = -INF
    fits(
        problems(preprocessor, make=read),
        ("column 'x0'", "text ('low')", "encode", "leave it out"),
        ("sample 1 (id b)", "'ill'", "changes", "one value a sample"),
        ("sample 0 (id a)", "'age'", "changes", "one value a sample"),
        ("sample 0 (id a)", "time inf", "position 2", "finite"),
        ("sample 1 (id b)", "time 4 appears twice", "merge"),
        ("sample 0 (id a)", "channel 'x1'", "infinite", "position 1"),
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"who": ["b", None, "a", "a", "a"]}, ("column 'who'", "row 1", "id")),
        ({"who": [1, 1, NAN, 2, 2]}, ("column 'who'", "row 2", "id")),
        ({"who": pd.array([1, 1, None, 2, 2], "Int64")}, ("column 'who'", "row 2", "id")),
        ({"who": pd.to_datetime(["2024-01-01", None, "2024-01-01", "2024-01-01", "2024-01-01"])}, ("column 'who'", "row 1")),
        ({"ill": ["yes", "yes", None, None, None]}, ("column 'ill'", "row 2", "every sample")),
        ({"ill": [1.0, 1.0, 0.0, 0.0, NAN]}, ("column 'ill'", "row 4", "every sample")),
        ({"ill": pd.array([1, 1, None, 0, 0], "Int64")}, ("column 'ill'", "row 2", "every sample")),
        ({"when": ["soon", "later", "0", "1", "2"]}, ("column 'when'", "text ('soon')", "dates")),
        ({"when": [0.5, NAN, 0, 1, 2]}, ("sample 1 (id b)", "time nan", "finite")),
        (
            {"when": pd.to_datetime(["2024-01-01", None, "2024-01-01", "2024-01-02", "2024-01-03"])},
            ("sample 1 (id b)", "time nan"),
        ),
        ({"x1": pd.to_datetime(["2024-01-01"] * 5)}, ("column 'x1'", "not numbers")),
        ({"x1": [1j] * 5}, ("column 'x1'", "not numbers")),
        ({"age": ["old", "old", "44", "44", "44"]}, ("column 'age'", "text ('old')")),
        ({"age": [INF, INF, 1, 1, 1]}, ("static", "infinite", "NaN")),
    ],
)
def test_wrong_cells(changes, words):
    fits(problems(table(**changes), make=read), words)


def test_missing_columns_are_all_named():
    fits(
        problems(table(), make=read, id="patient", target="sick", values=["x0", "x9"]),
        ("no column 'patient'", "the table has: who, when, x0"),
        ("no column 'sick'",),
        ("no column 'x9'",),
    )


def test_a_column_is_one_thing_only():
    fits(problems(table(), make=read, time="who"), ("'who'", "named twice"))
    fits(problems(table(), make=read, values=["x0", "ill"]), ("'ill'", "named twice"))  # the target would leak


def test_tables_that_are_none():
    fits(problems(table()[:0], make=read), ("no rows",))
    fits(problems(table()[["who", "when", "age", "ill"]], make=read), ("no column is left",))
    fits(problems(pd.concat([table(), table()[["x0"]]], axis=1), make=read), ("several columns", "'x0'", "rename"))
    for wrong in (None, {"who": [1]}, [1], "file.csv", np.ones((2, 2)), table()["x0"], pl.from_pandas(table()).lazy()):
        fits(problems(wrong, make=read), (type(wrong).__name__, "pandas or polars"))


def test_columns_of_a_dictionary():
    assert Columns.of({"id": "who", "static": ["age"]}) == Columns("who", static=("age",))
    with pytest.raises(InputError, match="it takes id, time, target"):
        Columns.of({"who": "x"})

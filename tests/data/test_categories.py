"""Text in a table: a channel or a static of 0 and 1 for each category, known from training, saved with the model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from command import SMALL, fails, leapcde
from leapcde.data.columns import Columns, as_trained, columns_of
from leapcde.data.parse import MOST_CATEGORIES
from leapcde.data.read import from_table
from leapcde.data.series import join
from leapcde.errors import InputError, LeapWarning
from leapcde.estimators.classifier import LeapClassifier
from leapcde.estimators.forecaster import LeapForecaster
from leapcde.estimators.load import load

NAN = np.nan
KEYS = {"id": "id", "time": "t"}
WARDS = ("er", "icu", "ward")


@pytest.fixture
def visits() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": [1, 1, 1, 2, 2],
            "t": [0, 1, 2, 0, 1],
            "heart": [80.0, NAN, 90.0, 70.0, 71.0],
            "ward": ["er", None, "icu", "er", "ward"],
            "sex": ["f", None, "f", "m", "m"],
            "tube": [True, None, False, None, True],
        }
    )


def test_text_is_one_column_for_each_category(visits):
    series = from_table(visits, **KEYS, values=["heart", "ward", "tube"], static=["sex"])
    assert series.channels == ("heart", "ward=er", "ward=icu", "ward=ward", "tube")
    expected = [[80, 1, 0, 0, 1], [NAN, NAN, NAN, NAN, NAN], [90, 0, 1, 0, 0], [70, 1, 0, 0, NAN], [71, 0, 0, 1, 1]]
    np.testing.assert_array_equal(series.values, expected)
    assert series.static_names == ("sex=f", "sex=m") and series.static.tolist() == [[1, 0], [0, 1]]
    assert series.categories == {"ward": WARDS, "sex": ("f", "m")}
    assert columns_of(series) == ("heart", "ward", "tube")


def test_every_kind_of_table_says_the_same(visits):
    plain = from_table(visits, **KEYS, static=["sex"])
    typed = visits.astype({"ward": "category", "sex": "string", "tube": "boolean"})
    polar = pl.from_pandas(visits).with_columns(pl.col("ward").cast(pl.Categorical))
    for table in (typed, polar, visits.assign(ward=visits["ward"].map({"er": " er", "icu": "icu ", "ward": "ward"}))):
        found = from_table(table, **KEYS, static=["sex"])
        assert found.channels == plain.channels and found.categories == plain.categories
        np.testing.assert_array_equal(found.values, plain.values)
        np.testing.assert_array_equal(found.static, plain.static)


def test_numbers_that_a_table_calls_categories(visits):
    table = visits.assign(bed=pd.Categorical([3, 3, 12, None, 3]))[["id", "t", "bed"]]
    series = from_table(table, **KEYS)
    assert series.channels == ("bed=12", "bed=3") and np.isnan(series.values[3]).all()
    again = from_table(table.assign(bed=[3.0, 3.0, 12.0, NAN, 3.0]), **KEYS, categories=series.categories)
    np.testing.assert_array_equal(again.values, series.values)


def test_new_data_is_read_as_training_data_was(visits):
    known = from_table(visits, **KEYS, static=["sex"]).categories
    new = visits.iloc[3:].assign(ward=["icu", "cellar"], sex="x")
    with pytest.warns(LeapWarning) as told:
        series = from_table(new, **KEYS, static=["sex"], categories=known)
    assert series.values[:, 1:4].tolist() == [[0, 1, 0], [0, 0, 0]] and series.static.tolist() == [[0, 0]]
    words = [str(one.message) for one in told]
    unseen = "column 'ward': categories that training did not see, in 1 rows: cellar"
    assert words[0] == f"{unseen}; they count as none of those known (er, icu, ward)"
    assert "column 'sex'" in words[1] and "x" in words[1]
    nothing = from_table(visits.assign(ward=NAN), **KEYS, static=["sex"], categories=known)
    assert np.isnan(nothing.values[:, 1:4]).all()
    many = visits.assign(ward=[f"w{i}" for i in range(5)])
    with pytest.warns(LeapWarning, match="in 5 rows: w0, w1, w2, w3, w4"):
        from_table(many, **KEYS, static=["sex"], categories=known)


def test_a_slip_in_a_column_of_numbers_stays_an_error(visits):
    for cells in (["80", "n/a", "90", "70", "71"], ["calm", "calm", "calm", "calm", "7"], ["1,5", "low", "low", "low", "low"]):
        with pytest.raises(InputError, match=r"column 'heart': text \('"):
            from_table(visits.assign(heart=cells), **KEYS)
    with pytest.raises(InputError, match="column 'ward'"):  # known as numbers
        from_table(visits, **KEYS, categories={"sex": ("f", "m")})
    with pytest.raises(InputError, match="values that are not numbers"):
        from_table(visits.assign(heart=pd.Timestamp("2024-01-01")), **KEYS)


def test_too_many_and_changing():
    many = pd.DataFrame({"id": 1, "t": np.arange(60), "note": [f"text {i}" for i in range(60)], "x": 1.0})
    with pytest.raises(InputError, match="column 'note': 60 different texts, such as 'text 0'; at most 50") as caught:
        from_table(many, **KEYS)
    assert len(caught.value.problems) == 1 and "Leave it out" in caught.value.problems[0]
    assert len(from_table(many.head(MOST_CATEGORIES), **KEYS).channels) == MOST_CATEGORIES + 1
    changing = pd.DataFrame({"id": [1, 1], "t": [0, 1], "sex": ["f", "m"], "x": 1.0})
    with pytest.raises(InputError, match="column 'sex' changes within the sample") as caught:
        from_table(changing, **KEYS, static=["sex"])
    assert len(caught.value.problems) == 1


def test_parts_with_other_categories_are_not_joined(visits):
    one, two = (from_table(visits.assign(sex=sex), **KEYS, static=["sex"]) for sex in ("f", "m"))
    with pytest.raises(InputError, match="part 1: has other categories than part 0"):
        join([one, two])


def test_what_only_held_out_data_has_counts_as_none(visits):
    series = from_table(visits.astype({"tube": "boolean"}), **KEYS, static=["sex"])
    with pytest.warns(LeapWarning, match="only held-out data has count as none of the others: sex=m, ward=ward"):
        train, test = as_trained(series.take([0]), series.take([1]))
    assert train.channels == test.channels == ("heart", "ward=er", "ward=icu", "tube")
    assert train.static_names == test.static_names == ("sex=f",) and test.static.tolist() == [[0]]
    assert train.categories == {"ward": ("er", "icu"), "sex": ("f",)}
    assert as_trained(series, None) == [series, None]


def test_columns_keep_them():
    columns = Columns("id", "t", categories={"ward": ("a", "b")})
    assert Columns.of(json.loads(json.dumps(columns.to_json()))) == columns
    assert "categories" not in Columns("id", "t").to_json()


# Models


def patients(count: int = 60) -> pd.DataFrame:
    """Who is ill is told by the ward alone."""
    rng = np.random.default_rng(0)
    parts = []
    for i in range(count):
        ward = ("icu", "hall", "er")[i % 3]
        rows = {"id": f"p{i:02d}", "t": np.arange(5.0), "heart": rng.normal(size=5), "ward": ward, "sex": "fm"[i % 2]}
        parts.append(pd.DataFrame(rows).assign(ill="yes" if ward == "icu" else "no"))
    return pd.concat(parts, ignore_index=True)


def test_estimators_learn_from_categories_and_remember_them(tmp_path):
    table = patients()
    settings = {"options": {"hidden": 8}, "epochs": 20, "batch_size": 16, "learning_rate": 0.05}
    how = {"id": "id", "time": "t", "target": "ill", "values": ["heart", "ward"], "static": ["sex"]}
    model = LeapClassifier("gru", **settings, **how).fit(table, validation=(table.iloc[:150], None))
    assert model.feature_names_in_.tolist() == ["heart", "ward=er", "ward=hall", "ward=icu"]
    assert model.score(table) == 1.0
    model.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    some = table[table["ward"] == "icu"].head(10).drop(columns="ill")  # one category alone
    np.testing.assert_array_equal(again.predict(some), ["yes", "yes"])
    with pytest.warns(LeapWarning, match="column 'ward': categories that training did not see, in 10 rows: cellar"):
        again.predict(some.assign(ward="cellar"))
    importance = again.permutation_importance(table, repeats=1)
    assert list(importance) == ["heart", "ward=er", "ward=hall", "ward=icu", "sex=f", "sex=m"]
    assert again.set_params(epochs=1).fit(table.assign(ward=table["ward"].replace("er", "attic"))).feature_names_in_[1] == (
        "ward=attic"
    )


def test_forecasts_from_tables_with_text():
    table = patients(8).drop(columns=["ill", "sex"])
    table = pd.concat([table.assign(t=table["t"] + 5 * k) for k in range(4)]).assign(state="on")
    table.loc[(table["id"] == "p00") & (table["t"] > 17), "state"] = "off"  # late, where it is held out
    model = LeapForecaster("gru", horizon=2, window=3, options={"hidden": 4}, epochs=1, **KEYS)
    with pytest.warns(LeapWarning) as told:
        model.fit(table)
    assert ["text was read as categories: ward" in str(told[0].message), "state=off" in str(told[1].message)] == [True, True]
    assert model.feature_names_in_.tolist() == ["heart", "ward=er", "ward=hall", "ward=icu", "state=on"]
    assert model.predict(table[table["t"] < 17]).shape == (8, 2, 5)


def test_command(tmp_path):
    table = patients()
    table.to_csv(tmp_path / "visits.csv", index=False)
    fit = ["fit", tmp_path / "visits.csv", "--id", "id", "--time", "t", "--target", "ill", "--static", "sex", "--model", "gru"]
    fit += [*SMALL[:-4], "--out", tmp_path / "run"]
    told = leapcde(*fit)
    assert told.code == 0 and "note: text was read as categories: ward (er, hall, icu). If that is not meant" in told.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["columns"]["values"] == ["heart", "ward"] and config["columns"]["static"] == ["sex"]
    assert config["columns"]["categories"] == {"ward": ["er", "hall", "icu"], "sex": ["f", "m"]}
    assert leapcde(*fit).code == 0  # the same run again
    assert leapcde("evaluate", tmp_path / "run", "--json").code == 0
    table.drop(columns="ill").replace({"ward": {"er": "cellar"}}).to_csv(tmp_path / "new.csv", index=False)
    said = leapcde("predict", tmp_path / "run", tmp_path / "new.csv")
    assert said.code == 0 and said.err.count("note: ") == 1
    assert "note: column 'ward': categories that training did not see, in 100 rows: cellar" in said.err
    table.assign(note=[f"n{i}" for i in range(len(table))]).to_csv(tmp_path / "many.csv", index=False)
    many = ["fit", tmp_path / "many.csv", *fit[2:-1], tmp_path / "other"]
    fails(tmp_path, *many, words=("column 'note': 300 different texts", "--values"))
    table.assign(heart=table["heart"].astype(str).where(table.index != 7, "7O")).to_csv(tmp_path / "slip.csv", index=False)
    fails(tmp_path, "fit", tmp_path / "slip.csv", *many[2:], words=("column 'heart': text ('7O') in row 9 of the file",))

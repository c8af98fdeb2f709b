"""Several targets: numbers in their own units, each with its own error, interval and name."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from command import COLUMNS, SMALL, fails, leapcde
from leapcde.baselines.fitted import baselines_for
from leapcde.data.read import as_series, from_table
from leapcde.data.table_file import guess_task
from leapcde.errors import InputError
from leapcde.estimators.load import load
from leapcde.estimators.regressor import LeapRegressor
from leapcde.training.preprocess import Preprocessor

QUICK = {"options": {"hidden": 8}, "epochs": 30, "batch_size": 16, "learning_rate": 0.03}
NAMES = ("level", "tilt")


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(80, 6, 2)).cumsum(1)


@pytest.fixture(scope="module")
def y(X):
    """Two targets, the second a million times larger than the first."""
    return np.stack([X[:, -1, 0], 1e6 * X[:, -1, 1] + 5e6], 1)


@pytest.fixture(scope="module")
def regressor(X, y):
    return LeapRegressor("gru", **QUICK, calibration=0.2).fit(X, pd.DataFrame(y, columns=NAMES))


def test_each_target_is_learned_in_its_own_units(X, y, regressor):
    said = regressor.predict(X)
    assert said.shape == y.shape and regressor.fitted_.preprocessor.target_names == NAMES
    each = r2_score(y, said, multioutput="raw_values")
    assert (each > 0.5).all() and regressor.score(X, y) == pytest.approx(each.mean())
    found = regressor.fitted_.evaluate(as_series(X, target=y))
    for j, name in enumerate(NAMES):
        assert found[f"mse({name})"] == pytest.approx(mean_squared_error(y[:, j], said[:, j]), rel=1e-4)
        assert found[f"mae({name})"] == pytest.approx(mean_absolute_error(y[:, j], said[:, j]), rel=1e-4)
    std = np.array(regressor.fitted_.preprocessor.target_std)
    assert found["mse"] == pytest.approx((((said - y) / std) ** 2).mean(), rel=1e-4)


def test_intervals_of_each(X, y, regressor):
    low, high = regressor.predict_interval(X, 0.8)
    assert low.shape == y.shape and ((low < y) & (y < high)).mean(0).min() > 0.6
    width = (high - low)[0]
    assert 1e4 < width[1] / width[0] < 1e8


def test_saved_and_loaded(X, regressor, tmp_path):
    regressor.save(tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(X), regressor.predict(X))
    assert again.fitted_.preprocessor.target_names == NAMES
    np.testing.assert_array_equal(again.predict_interval(X)[0], regressor.predict_interval(X)[0])


def test_files_of_before_have_one_number_and_no_names(X, y):
    one = LeapRegressor("gru", **{**QUICK, "epochs": 1}).fit(X, y[:, 0])
    kept = one.fitted_.preprocessor.to_json()
    assert isinstance(kept["target_mean"], float)
    kept.pop("target_names")
    before = Preprocessor.from_json(json.loads(json.dumps(kept)))
    assert before == one.fitted_.preprocessor and one.predict(X).shape == (80,)


def test_explained_by_name(X, regressor):
    for name, channel in zip(NAMES, (0, 1), strict=True):
        found = regressor.explain(X[:4], of=name, steps=8)
        assert found.unit == f"added to {name}"
        assert (found.by_channel.argmax(1) == channel).mean() > 0.5
    assert "mean" in regressor.explain(X[:2], steps=4).unit
    with pytest.raises(InputError, match="no target 'height'; there are: level, tilt"):
        regressor.explain(X[:2], of="height")


def test_one_column_stays_one_number(X, y):
    table = table_of(X, y)
    one = LeapRegressor("gru", **{**QUICK, "epochs": 1}, id="id", time="t", target=["level"], values=["x0", "x1"])
    assert one.fit(table).predict(table).shape == (80,)


def table_of(X, y) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"id": i, "t": np.arange(6.0), "x0": x[:, 0], "x1": x[:, 1], **dict(zip(NAMES, row, strict=True))})
        for i, (x, row) in enumerate(zip(X, y, strict=True))
    ]
    return pd.concat(parts, ignore_index=True)


def test_tables(X, y):
    series = from_table(table_of(X, y), id="id", time="t", target=NAMES)
    assert series.channels == ("x0", "x1") and series.target_names == NAMES
    np.testing.assert_allclose(series.target, y)
    assert guess_task(series.target) == "regression" and guess_task(np.eye(3)) == "labels"


def test_wrong_targets(X, y, regressor):
    with pytest.raises(InputError, match="y has 3 numbers a sample; training saw 2"):
        regressor.fitted_.evaluate(as_series(X, target=np.ones((80, 3))))
    with pytest.raises(InputError, match="the target of sample 7 is not finite"):
        LeapRegressor("gru", **QUICK).fit(X, np.where(np.arange(80)[:, None] == 7, np.nan, y))
    with pytest.raises(InputError, match=r"y has shape \(80, 2, 2\)"):
        LeapRegressor("gru", **QUICK).fit(X, np.ones((80, 2, 2)))


def test_command(table, tmp_path):
    several = table.assign(sooner=table.groupby("seq")["height"].transform("last") * 1000)
    several.to_csv(tmp_path / "falls.csv", index=False)
    target = ["--target", "later,sooner"]
    fit = ["fit", tmp_path / "falls.csv", *COLUMNS, *target, "--model", "gru", *SMALL[:-4]]
    found = leapcde(*fit, "--out", tmp_path / "run", "--json").json
    assert set(found["test"]) == {"mse", "mae", "mse(later)", "mae(later)", "mse(sooner)", "mae(sooner)"}
    assert set(found["baselines"]) == set(baselines_for("regression"))
    for name, of in found["baselines"].items():
        assert set(of["test"]) == set(found["test"]), name
    assert found["baselines"]["ridge"]["test"]["mse(sooner)"] < found["baselines"]["mean"]["test"]["mse(sooner)"]
    new = tmp_path / "new.csv"
    several.drop(columns=["later", "sooner"]).to_csv(new, index=False)
    leapcde("predict", tmp_path / "run", new, "--coverage", "0.8", "--out", tmp_path / "said.csv")
    said = pd.read_csv(tmp_path / "said.csv")
    assert list(said) == ["seq", "later", "later lower", "later upper", "sooner", "sooner lower", "sooner upper"]
    assert len(said) == 60 and (said["later lower"] <= said["later upper"]).all()
    assert leapcde("evaluate", tmp_path / "run", "--json").json["test"] == found["test"]


BAD = {
    "text": (lambda t: t, "later,label", ("column 'label'", "text ('rises')")),
    "changing": (lambda t: t, "later,angle", ("column 'angle' changes within the sample",)),
    "unknown": (lambda t: t, "later,sooner", ("no column 'sooner'",)),
    "labels": (
        lambda t: t.assign(a=(t["label"] == "falls").astype(int), b=t["label"] == "rises"),
        "a,b",
        ("the targets (a, b) are all 0 or 1", "--task 'labels'", "--task 'regression'"),
    ),
    "twice": (lambda t: t, "later,later", ("column 'later' is named twice",)),
    "empty": (
        lambda t: t.assign(one=np.where(t["seq"] == "s04", np.nan, 1.5)),
        "later,one",
        ("column 'one': empty for sample 4 (id s04)", "every sample needs one"),
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_columns(table, tmp_path, what):
    change, target, words = BAD[what]
    change(table).to_csv(tmp_path / "bad.csv", index=False)
    columns = ["--id", "seq", "--time", "t", "--values", "height"]
    fails(tmp_path, "fit", tmp_path / "bad.csv", *columns, "--target", target, "--out", tmp_path / "run", words=words)

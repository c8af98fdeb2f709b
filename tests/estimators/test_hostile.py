"""Files of races, ensembles and baselines whose writer knew how to make a digest; folders that somebody damaged or is using."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file as save_plain

import leapcde
from command import leapcde as command
from leapcde.baselines.fitted import baselines_for, fit_baseline
from leapcde.data.dataset import DataRequest
from leapcde.data.read import as_series, from_table
from leapcde.data.scale import Scaler
from leapcde.ensemble.fitted import FittedEnsemble
from leapcde.errors import CheckpointError, InputError, LeapError, LeapWarning
from leapcde.estimators.certainty.intervals import Conformal
from leapcde.estimators.regressor import LeapRegressor
from leapcde.estimators.several import race as racing
from leapcde.estimators.several.compare import _finished
from leapcde.estimators.tune import JOURNAL, _open
from leapcde.files import alone, digest, load_file
from leapcde.paths.batch import Recipe
from leapcde.training.calibration import Calibration
from leapcde.training.fitted import Fitted
from leapcde.training.preprocess import Preprocessor

Change = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]


def series(task: str = "classification"):
    values = np.random.default_rng(0).normal(size=(24, 5, 2))
    if task == "forecasting":
        return as_series(values).__class__(**{**as_series(values).__dict__, "target": values[:, :3]})
    return as_series(values, target=np.arange(24) % 2 if task == "classification" else values[:, 0, 0])


def baseline(name: str, task: str = "classification") -> Fitted:
    found = fit_baseline(name, series(task), series(task), Preprocessor.learn(series(task), task, Recipe()))
    return found.with_calibration(Calibration(2.0, (0.1, 0.2)) if task == "classification" else None)


def rewritten(path: Path, change: Change) -> Path:
    """Another header and other arrays, under a digest that fits."""
    arrays, about = load_file(path, "model")
    arrays, about = {name: np.array(a) for name, a in arrays.items()}, json.loads(json.dumps(about))
    change(about, arrays)
    about["digest"] = digest(arrays, about)
    save_plain(arrays, path, {"leapcde": json.dumps(about)})
    return path


def of(*keys: Any, to: Any) -> Change:
    def change(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        place: Any = about
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return change


def filled(end: str, value: float) -> Change:
    """Every number of an array by the end of its name."""

    def change(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        [name] = [name for name in arrays if name.endswith(f"['{end}']")]
        arrays[name] = np.full_like(arrays[name], value)

    return change


def without(end: str) -> Change:
    def change(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for name in [name for name in arrays if name.endswith(f"['{end}']")]:
            del arrays[name]

    return change


@pytest.mark.parametrize("task", ["classification", "regression", "forecasting"])
def test_every_baseline_loads(task, tmp_path):
    for name in baselines_for(task):
        one = baseline(name, task)
        one.save(tmp_path / "a")
        np.testing.assert_array_equal(leapcde.load(tmp_path / "a").fitted_.outputs(series(task)), one.outputs(series(task)))


TREES = {
    "trees without end": filled("depth", 10**9),
    "nodes that are not there": filled("left", 10**6),
    "inputs that are not there": filled("feature", 10**6),
    "no thresholds": without("threshold"),
    "no arrays": lambda about, arrays: [arrays.pop(name) for name in list(arrays) if len(arrays) > 1],
    "no such baseline": of("baseline", to="oracle"),
    "a baseline of another task": of("baseline", to="ridge"),
    "a temperature of nothing": of("calibration", "temperature", to=0.0),
    "a temperature that is no number": of("calibration", "temperature", to=float("nan")),
    "a bias too many": of("calibration", "bias", to=[0.0, 0.0, 0.0]),
    "limits that are no numbers": of("preprocessor", "scaler", "low", to=[float("nan")] * 2),
}


@pytest.fixture(scope="module")
def forest(tmp_path_factory) -> bytes:
    baseline("extra-trees").save(tmp_path_factory.mktemp("forest") / "a")
    return next(tmp_path_factory.getbasetemp().glob("forest*/a")).read_bytes()


@pytest.mark.parametrize("name", TREES)
def test_baselines_that_make_no_sense(name, forest, tmp_path):
    (tmp_path / "a").write_bytes(forest)
    with pytest.raises(LeapError) as caught:
        leapcde.load(rewritten(tmp_path / "a", TREES[name]))
    assert str(tmp_path / "a") in str(caught.value)


MEMBERS = {
    "a weight that is no number": of("weights", to=[1.0, float("nan")]),
    "weights of more than all": of("weights", to=[1.0, 1.0]),
    "a weight too few": of("weights", to=[1.0]),
    "weights in words": of("weights", to="much"),
    "no members": of("members", to=[]),
    "members in words": of("members", to=["a", "b"]),
    "other classes": of("members", 1, "preprocessor", "classes", to=["x", "y"]),
    "other channels": of("members", 1, "preprocessor", "channels", to=["x", "y"]),
    "a member without its arrays": lambda about, arrays: [arrays.pop(n) for n in list(arrays) if n.startswith("member1/")],
}


@pytest.mark.parametrize("name", MEMBERS)
def test_ensembles_that_make_no_sense(name, tmp_path):
    FittedEnsemble.of([baseline("class-prior"), baseline("logistic-regression")], [0.25, 0.75]).save(tmp_path / "a")
    with pytest.raises(LeapError) as caught:
        leapcde.load(rewritten(tmp_path / "a", MEMBERS[name]))
    assert str(tmp_path / "a") in str(caught.value)


@pytest.mark.parametrize("errors", [np.ones((5, 3)), -np.ones(5), np.arange(5.0)[::-1]])
def test_intervals_that_no_data_taught(errors):
    preprocessor = Preprocessor.learn(series("regression"), "regression", Recipe())
    assert Conformal(np.arange(5.0)).checked(preprocessor)
    with pytest.raises(InputError, match="errors"):
        Conformal(errors).checked(preprocessor)


def test_limits_of_a_scale_are_in_order():
    good = Scaler((0.0,), (1.0,), 1.0, low=(-1.0,), high=(1.0,)).to_json()
    assert Scaler.from_json(good).low == (-1.0,)
    with pytest.raises(InputError):
        Scaler.from_json({**good, "high": [float("nan")]})


# Folders --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def short(monkeypatch):
    """A race of the baselines alone."""
    monkeypatch.setattr(racing, "CANDIDATES", ())


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"why": "", "seconds": 1, "history": 3}', "[" * 10**5])
def test_a_candidate_whose_files_are_damaged_runs_again(damage, short, tmp_path):
    race = lambda: LeapRegressor("auto").fit(series("regression"), checkpoint=tmp_path / "t.safetensors")
    whole = race().predict(series("regression"))
    (tmp_path / "race" / "ridge.json").write_text(damage)
    with pytest.warns(LeapWarning, match="ridge runs again"):
        assert race().predict(series("regression")).tolist() == whole.tolist()
    model = tmp_path / "race" / "mean.safetensors"
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.warns(LeapWarning, match="mean runs again"):
        assert race().predict(series("regression")).tolist() == whole.tolist()


@pytest.mark.parametrize("limit", ["5m", None, float("nan"), True])
def test_time_limits_that_are_none(limit, short):
    with pytest.raises(InputError, match="time_limit"):
        LeapRegressor("auto").set_params(time_limit=limit).fit(series("regression"))


@pytest.mark.parametrize("content", ["", "[", "3"])
def test_compared_runs_that_are_damaged(content, tmp_path):
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"config.json is damaged .* remove"):
        _finished(tmp_path, DataRequest("a.csv"))


def test_a_folder_is_worked_in_by_one_process(tmp_path):
    rng, rows = np.random.default_rng(0), 60
    table = {"id": np.repeat(np.arange(20), 3), "t": np.tile(np.arange(3), 20), "a": rng.normal(size=rows)}
    pd.DataFrame({**table, "y": np.repeat(np.arange(20) % 2, 3)}).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "run").mkdir()
    with alone(tmp_path / "run"):
        where = ["--id", "id", "--time", "t", "--target", "y", "--out", tmp_path / "run"]
        for words in (["fit", tmp_path / "a.csv", "--model", "gru"], ["fit", tmp_path / "a.csv"]):
            answer = command(*words, *where)
            assert answer.code == 2 and "another process is at work in" in answer.err
            assert [file.name for file in (tmp_path / "run").iterdir()] == ["config.json"]
            (tmp_path / "run" / "config.json").unlink()
    with alone(tmp_path / "run"), alone(tmp_path):
        pass  # again, and another one beside it


def test_a_study_does_not_wait_for_the_dead(tmp_path):
    """Optuna's lock is a file that a killed process leaves: half a minute was lost, and its warnings were printed."""
    pytest.importorskip("optuna")
    os.symlink(tmp_path / JOURNAL, tmp_path / f"{JOURNAL}.lock")
    study = _open(tmp_path, "auroc", 0)
    assert not (tmp_path / f"{JOURNAL}.lock").is_symlink() and study.trials == []


@pytest.mark.parametrize("count", [10**9, 10**400])
def test_ensembles_without_end(count):
    """Their seeds alone would fill the memory."""
    with pytest.raises(InputError, match=r"ensemble 10+: give how many members it has, 1 to 1000"):
        LeapRegressor("gru").set_params(ensemble=count).fit(series("regression"))


TABLE = pd.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "a": [1.0, 2, 3, 4], "w": ["x", "y", "x", "y"], "y": [0, 0, 1, 1]})


def test_a_category_and_a_column_of_one_name():
    """Two channels called 'w=x' were made, and only the first could be asked for by its name."""
    assert from_table(TABLE, id="id", time="t", target="y").channels == ("a", "w=x", "w=y")
    with pytest.raises(InputError, match="two channels would be called 'w=x'"):
        from_table(TABLE.assign(**{"w=x": 1.0}), id="id", time="t", target="y")

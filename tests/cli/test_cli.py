"""The command line: from a file to predictions and pictures."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from typer.main import get_command

from command import COLUMNS, LEAP, SMALL, Answer, fails, leapcde
from leapcde import DEFAULT_MODEL
from leapcde.baselines.fitted import baselines_for
from leapcde.cli.main import app
from leapcde.datasets import hopper
from leapcde.estimators.load import load
from leapcde.training import loop as training

pytestmark = pytest.mark.usefixtures("elsewhere")

COMMANDS = ("demo", "fit", "tune", "train", "compare", "evaluate", "predict", "explain", "models", "doctor", "data")
COMMANDS += ("export", "reproduce", "collect", "rerun", "report")


@pytest.fixture(scope="module")
def regression(place) -> tuple[Path, Answer]:
    run = place / "regression"
    return run, leapcde("fit", place / "falls.csv", *COLUMNS, "--target", "later", *LEAP, "--out", run, "--quiet")


@pytest.fixture(scope="module")
def forecasting(place) -> tuple[Path, Answer]:
    run = place / "forecasting"
    return run, leapcde("fit", place / "falls.csv", *COLUMNS, "--horizon", 4, *LEAP, "--out", run)


# From a file to predictions


def test_nothing_is_set(place):
    """What a newcomer types: the default model, with settings from the data's shape."""
    file = place / "falls.csv"
    trained = leapcde("fit", file, *COLUMNS, "--target", "label", "--model", "leap+", "--json").json
    run = Path("runs/falls-leap+-0")
    assert trained["run"] == str(run) and trained["test"]["auroc"] > 0.6
    settings = json.loads((run / "config.json").read_text())
    assert settings["model"] == DEFAULT_MODEL == "leap+" and settings["train"]["hide"] > 0  # from which its path is learned
    found = leapcde("evaluate", run, "--json").json
    assert found["test"] == trained["test"]
    rows = leapcde("predict", run, file, "--json").json["predictions"]
    assert len(rows) == 60 and {row["prediction"] for row in rows} <= {"falls", "rises"}
    assert leapcde("explain", run, "--sample", 0).code == 0
    assert "the path that the model learned" in explained(run / "explain", [0])


def test_classification(classification, place, table, tmp_path):
    run, trained = classification
    assert trained["run"] == str(run) and trained["metric"] == "auroc" and trained["parameters"] > 0
    assert sorted(p.name for p in run.iterdir()) == [
        "card.md",
        "config.json",
        "model.safetensors",
        "result.json",
        "training.older.safetensors",
        "training.safetensors",
    ]
    found = leapcde("evaluate", run, "--json").json
    assert found["test"] == trained["test"] and set(found) == {"test", *baselines_for("classification")}
    new = table.drop(columns="label").sample(frac=1, random_state=0)  # no target, other columns, any order
    new.to_csv("new.csv", index=False)
    rows = leapcde("predict", run, "new.csv", "--json").json["predictions"]
    assert [row["seq"] for row in rows] == [f"s{i:02d}" for i in range(60)]
    assert {row["prediction"] for row in rows} <= {"falls", "rises"}
    for row in rows:
        assert row["p(falls)"] + row["p(rises)"] == pytest.approx(1)
        assert row["prediction"] == ("falls" if row["p(falls)"] > 0.5 else "rises")
    told = leapcde("predict", run, place / "falls.csv")
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(told.out)), pd.DataFrame(rows))
    assert told.err == ""


def test_regression(regression, place):
    run, trained = regression
    assert trained.code == 0 and trained.err == "" and "all 2 epochs done" in trained.out and f"run: {run}" in trained.out
    result = json.loads((run / "result.json").read_text())
    losses = [row["train_loss"] for row in result["history"]]
    assert losses[1] < losses[0] and result["samples"] == {"train": 42, "validation": 9, "test": 9}
    printed = leapcde("evaluate", run)
    for numbers in (result["metrics"]["test"], *(of["test"] for of in result["baselines"].values())):
        assert f"{numbers['mse']:.4f}" in printed.out
    assert set(result["baselines"]) == set(baselines_for("regression"))
    wrote = leapcde("predict", run, place / "falls.csv", "--out", "deep/er/out.csv")
    assert (wrote.code, wrote.out) == (0, "") and "60 predictions" in wrote.err
    assert leapcde("predict", run, place / "falls.csv", "--out", "again.csv", "-q") == (0, "", "")
    found = pd.read_csv("deep/er/out.csv")
    told = leapcde("predict", run, place / "falls.csv", "--out", "again.csv", "--json")
    assert told.json == {"file": "again.csv", "count": 60}
    assert Path("again.csv").read_bytes() == Path("deep/er/out.csv").read_bytes()
    assert list(found) == ["seq", "prediction"] and len(found) == 60
    # In the units of the data, not standardised: heights after the fall lie near -1.
    assert found["prediction"].mean() == pytest.approx(pd.read_csv(place / "falls.csv")["later"].mean(), abs=0.5)


def test_forecasting(forecasting, table):
    run, trained = forecasting
    assert trained.code == 0 and "note: no --window given: forecasting from the last 14 points" in trained.err
    assert json.loads((run / "config.json").read_text())["window"] == 14
    found = leapcde("evaluate", run, "--json").json
    assert set(found) == {"test", "last-value", "linear-trend", "ridge"}
    table.to_csv("a.csv", index=False)
    leapcde("predict", run, "a.csv", "--out", "a-out.csv")
    predicted = pd.read_csv("a-out.csv")
    assert list(predicted) == ["seq", "step", "height", "angle"] and len(predicted) == 240
    assert predicted["step"][:5].tolist() == [1, 2, 3, 4, 1]
    # Only the last 14 points of a series are looked at, as in training.
    age = table.groupby("seq").cumcount(ascending=False)
    table[age < 14].to_csv("b.csv", index=False)
    leapcde("predict", run, "b.csv", "--out", "b-out.csv")
    pd.testing.assert_frame_equal(pd.read_csv("b-out.csv"), predicted)


def test_forecasting_at_times(place):
    """Rows are 0.02 apart: times between and at them, and one that no sequence reaches."""
    settings = ["--model", "gru", "-o", "hidden=4", "--epochs", 1, "--window", 8, "--noise", 0.1]
    given = ["fit", place / "falls.csv", *COLUMNS, *settings]
    found = leapcde(*given, "--horizon", "0.03,0.1", "--out", "run", "--json").json
    assert found["metric"] == "mse" and load("run").horizon == [0.03, 0.1]
    assert json.loads(Path("run/config.json").read_text())["train"]["noise"] == 0.1
    table = pd.DataFrame(leapcde("predict", "run", place / "falls.csv", "--coverage", 0.8, "--json").json["predictions"])
    assert table["after"][:3].tolist() == [0.03, 0.1, 0.03] and len(table) == 120
    assert (table["height lower"] < table["height"]).all()
    for wrong in ("soon", "0", "-1,2", "0.1,0.05", ",", "0.1,0.4"):
        answer = leapcde(*given, "--horizon", wrong, "--out", "other")
        assert answer.code == 2 and "horizon" in answer.err and not Path("other").exists(), wrong


def explained(folder: Path, samples: list[int]) -> str:
    """The page about these samples, after a look at the files."""
    names = [f"sample-{i}.png" for i in samples]
    assert sorted(p.name for p in folder.iterdir()) == ["explain.html", *names]
    assert all((folder / name).read_bytes().startswith(b"\x89PNG") for name in names)
    page = (folder / "explain.html").read_text(encoding="utf-8")
    # A picture of the paths and one of what counted, for each sample.
    assert page.count('src="data:image/png;base64,') == page.count("src=") == page.count("<img") == 2 * len(samples)
    assert not any(mark in page for mark in ("://", "<script", "<link", "@import", "url(", "href="))
    return page


def test_probabilities_against_frequencies(classification, regression, place, tmp_path):
    run, picture = classification[0], tmp_path / "reliability.png"
    answer = leapcde("evaluate", run, "--plot", picture)
    assert answer.code == 0 and picture.read_bytes().startswith(b"\x89PNG")
    assert {"brier", "auprc", "ece"} <= set(answer.out.splitlines()[0].split())
    fails(tmp_path, "evaluate", run, "--plot", tmp_path / "a.txt", words=("ends in .png",))
    fails(
        tmp_path, "evaluate", regression[0], "--plot", tmp_path / "a.png", words=("reliability is about classes", "regression")
    )


def test_explain_goes_into_the_run_by_default(classification):
    run, _ = classification
    answer = leapcde("explain", run)
    assert answer.code == 0 and answer.out.splitlines()[-1] == str(run / "explain" / "explain.html")
    page = explained(run / "explain", [0, 1, 2])
    assert page.count("Predicted: ") == page.count("(probability ") == page.count("; true: ") == 3


@pytest.mark.parametrize("task", ["regression", "forecasting"])
def test_explain(request, task):
    run, _ = request.getfixturevalue(task)
    picked = ["--sample", 1, "--sample", 4, "--sample", 7, "--channel", "angle"]
    answer = leapcde("explain", run, *picked, "--out", "why", "--json")
    assert answer.json == {"files": ["why/sample-1.png", "why/sample-4.png", "why/sample-7.png", "why/explain.html"]}
    assert ("Forecast of 4 steps" if task == "forecasting" else "Predicted: ") in explained(Path("why"), [1, 4, 7])


def test_same_command_twice_does_not_train_again(classification, place):
    run, trained = classification
    before = {name: (run / name).read_bytes() for name in ("model.safetensors", "training.safetensors", "config.json")}
    history = json.loads((run / "result.json").read_text())["history"]
    with mock.patch.object(training, "_epoch", side_effect=AssertionError("trained again")):
        again = leapcde("fit", place / "falls.csv", *COLUMNS, "--target", "label", *LEAP, "--out", run, "--json").json
    assert again == trained and json.loads((run / "result.json").read_text())["history"] == history
    assert before == {name: (run / name).read_bytes() for name in before}


def test_a_stopped_run_goes_on_to_the_same_numbers(place, monkeypatch):
    """Also with static features, dates in text, and Parquet."""
    table = pd.read_csv(place / "falls.csv")
    table["t"] = (pd.Timestamp("2024-05-01") + pd.to_timedelta(table["t"], unit="s")).astype(str)
    table["start"] = table.groupby("seq")["height"].transform("first").fillna(0.0)
    table.to_parquet("falls.parquet")
    command = ["fit", "falls.parquet", *COLUMNS, "--target", "later", "--static", "start", "--model", "ncde", *SMALL]
    whole = leapcde(*command, "--out", "whole", "--json").json
    save = training.save_checkpoint

    def stop(*args):
        save(*args)
        raise KeyboardInterrupt

    with mock.patch.object(training, "save_checkpoint", stop):
        stopped = leapcde(*command, "--out", "stopped", "--json")
    assert stopped.code == 130 and "the same command goes on" in stopped.err and "Traceback" not in stopped.err
    assert sorted(p.name for p in Path("stopped").iterdir()) == ["config.json", "training.safetensors"]
    resumed = leapcde(*command, "--out", "stopped", "--json").json
    assert {**resumed, "run": ""} == {**whole, "run": ""}
    assert Path("stopped/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    answer = leapcde("explain", "whole", "--sample", 2)  # a model without a learned path: what counted, and no path
    page = Path("whole/explain/explain.html").read_text(encoding="utf-8")
    assert answer.code == 0 and "integrated gradients" in page and "the path that the model learned" not in page


# What is there


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["data", "make"]])
def test_help(command):
    answer = leapcde(*command, "--help")
    assert answer.code == 0 and "Usage:" in answer.out and answer.err == ""


def test_every_command_is_known_here():
    assert set(get_command(app).commands) == set(COMMANDS)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.slow  # what it prints is tested in test_compare.py
def test_compare_prints_a_row_a_model_and_does_nothing_twice(tmp_path):
    ask = ("compare", "hopper", "--models", "rnn", "--seeds", 1, "--epochs", 1, "--out", tmp_path)
    [row] = leapcde(*ask, "--json").json["rows"]
    assert row["model"] == "rnn" and row["parameters"] == 62_960
    again = leapcde(*ask)
    assert again.code == 0 and f"{row['mean']:.3f}" in again.out
    wrong = leapcde("compare", "hopper", "--models", "lsmt", "--out", tmp_path)
    assert wrong.code == 2 and "no model 'lsmt'" in wrong.err


def test_the_installed_command_answers_at_once():
    """That is: without importing what takes seconds."""
    ran = subprocess.run([Path(sys.executable).with_name("leapcde"), "--help"], capture_output=True, text=True, check=True)
    assert all(name in ran.stdout for name in COMMANDS)
    heavy = "import sys, leapcde.cli.main; slow = {'jax', 'pandas', 'sklearn', 'matplotlib', 'optuna', 'dm_control'}"
    heavy += "; print(*slow & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert ran.stdout == "\n"


def test_the_installed_command_fails_without_a_traceback():
    command = [Path(sys.executable).with_name("leapcde"), "data", "make", "walker", "--out", "a.npy"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "error: cannot make 'walker'; 'mujoco' can be made\n"


def test_models():
    rows = leapcde("models", "--json").json["models"]
    assert {"leap", "ncde"} <= {row["name"] for row in rows}
    assert all(row["options"]["hidden"] and row["summary"] and row["tasks"] for row in rows)
    assert "hidden=48" in leapcde("models").out


def test_doctor(data_dir):
    found = leapcde("doctor", "--json").json
    assert found["data"]["hopper"] == "10000 samples" and "no file" in found["data"]["character-trajectories"]
    assert found["versions"]["leapcde"] != "missing" and found["devices"]
    assert "character-trajectories: 2858 samples" in leapcde("doctor", "--data-dir", data_dir).out


def test_data_make():
    pytest.importorskip("dm_control")
    assert leapcde("data", "make", "mujoco", "--out", "a.npy", "--count", 2, "--json").json["count"] == 2
    assert hopper.load("a.npy").shape == (2, 100, 14)


def test_numbers_that_json_does_not_know(classification, place):
    """One class in the test data has no AUROC: null, and not the NaN that strict readers refuse."""
    run, _ = classification
    shutil.copytree(run, "run")
    table = pd.read_csv(place / "falls.csv").assign(label="falls")
    table.to_csv("one.csv", index=False)
    config = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps({**config, "data": str(Path("one.csv").resolve()), "digest": None}))
    assert leapcde("evaluate", "run", "--json").json["test"]["auroc"] is None


def test_a_run_is_bound_to_the_file_it_was_trained_on(classification, place):
    """Another split of a changed file could put training samples into the test."""
    run, _ = classification
    shutil.copytree(run, "run")
    config = json.loads(Path("run/config.json").read_text())
    table = pd.read_csv(place / "falls.csv")
    table.iloc[:-1].to_csv("shorter.csv", index=False)
    Path("run/config.json").write_text(json.dumps({**config, "data": str(Path("shorter.csv").resolve())}))
    fails(Path("run"), "evaluate", "run", words=("has changed since",))


def test_as_a_module_and_its_version():
    ran = subprocess.run([sys.executable, "-m", "leapcde", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"leapcde {version('leapcde')}\n"


def test_a_file_as_a_spreadsheet_writes_it(place, table):
    """Semicolons, decimal commas and days before months: the same run as from the plain file, and predict reads it too."""
    days = pd.to_datetime("2024-01-01") + pd.to_timedelta((table["t"] * 50).round().astype(int), "D")
    plain = table.assign(t=days.dt.strftime("%Y-%m-%d"))
    plain.to_csv("plain.csv", index=False)
    plain.assign(t=days.dt.strftime("%d/%m/%Y")).to_csv("sheet.csv", index=False, sep=";", decimal=",")
    gru = ["--target", "label", "--model", "gru", "-o", "hidden=4", "--epochs", 1]
    first = leapcde("fit", "plain.csv", *COLUMNS, *gru, "--out", "first", "--json").json
    told = leapcde("fit", "sheet.csv", *COLUMNS, *gru, "--time-format", "%d/%m/%Y", "--out", "second")
    assert "note: numbers with decimal commas were read as such, in: height, angle" in told.err
    assert "note: too few samples to judge a model by: 42 train" in told.err
    same = leapcde("evaluate", "second", "--json").json
    assert same["test"] == first["test"]
    rows = [leapcde("predict", run, f"{file}.csv", "--json").json for run, file in (("first", "plain"), ("second", "sheet"))]
    assert rows[0] == rows[1]

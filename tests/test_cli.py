"""The command line: from a file to predictions and pictures, and one clear message for every mistake."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file as save_foreign
from typer.main import get_command

from leapcde import train as training
from leapcde.cli import app, main
from leapcde.datasets import hopper
from leapcde.estimators import load

COLUMNS = ["--id", "seq", "--time", "t", "--values", "height,angle"]
# Compiling takes longer than training here: one length of series, one layer, the simplest path.
SMALL = [
    "--path",
    "linear",
    "--epochs",
    "2",
    "--batch",
    "8",
    "--rate",
    "0.02",
    "-o",
    "hidden=8",
    "-o",
    "width=8",
    "-o",
    "depth=1",
]
LEAP = [*SMALL, "-o", "f_width=8", "-o", "decoder_steps=4", "-o", "beta=0.0"]
COMMANDS = ("demo", "fit", "tune", "train", "compare", "evaluate", "predict", "explain", "models", "doctor", "data")
COMMANDS += ("reproduce", "rerun", "report")


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        """The one JSON object on standard output, as a strict reader sees it."""
        assert self.code == 0 and self.out.count("\n") == 1, self
        return json.loads(self.out, parse_constant=pytest.fail)


def leapcde(*args) -> Answer:
    """Run the command line in this process, as the installed command does."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["leapcde", *map(str, args)]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as caught,
    ):
        main()
    return Answer(caught.value.code or 0, out.getvalue(), err.getvalue())


def contents(folder: Path) -> dict[str, str]:
    return {str(p): hashlib.md5(p.read_bytes()).hexdigest() if p.is_file() else "" for p in sorted(folder.rglob("*"))}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """60 falls of Hopper, 18 to 20 points, at each of which one of two channels is missing."""
    rng = np.random.default_rng(0)
    parts = []
    for i, sequence in enumerate(hopper.bundled()[:60]):
        n = 18 + i % 3
        values = sequence[: 4 * n : 4, [1, 2]].astype(float)
        values[np.arange(n), rng.integers(2, size=n)] = np.nan
        part = pd.DataFrame({"seq": f"s{i:02d}", "t": 0.02 * np.arange(n), "height": values[:, 0], "angle": values[:, 1]})
        parts.append(part.assign(label="falls" if sequence[20, 8] < -1 else "rises", later=float(sequence[-1, 1]), note="text"))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory, table) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    table.to_csv(folder / "falls.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def classification(place) -> tuple[Path, dict]:
    run = place / "classification"
    return run, leapcde("fit", place / "falls.csv", *COLUMNS, "--target", "label", *LEAP, "--out", run, "--json").json


@pytest.fixture(scope="module")
def regression(place) -> tuple[Path, Answer]:
    run = place / "regression"
    return run, leapcde("fit", place / "falls.csv", *COLUMNS, "--target", "later", *LEAP, "--out", run, "--quiet")


@pytest.fixture(scope="module")
def forecasting(place) -> tuple[Path, Answer]:
    run = place / "forecasting"
    return run, leapcde("fit", place / "falls.csv", *COLUMNS, "--horizon", 4, *LEAP, "--out", run)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> Path:
    """Every test runs in an empty folder, so that nothing can be written unseen, and without data of the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAPCDE_DATA", raising=False)
    return tmp_path


# From a file to predictions


def test_classification(classification, place, table, tmp_path):
    run, trained = classification
    assert trained["run"] == str(run) and trained["metric"] == "auroc" and trained["parameters"] > 0
    assert sorted(p.name for p in run.iterdir()) == ["config.json", "model.safetensors", "result.json", "training.safetensors"]
    found = leapcde("evaluate", run, "--json").json
    assert found["test"] == trained["test"] and set(found) == {"test", "class-prior"}
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
    assert "no frequencies" in told.err  # classes were weighed


def test_regression(regression, place):
    run, trained = regression
    assert trained.code == 0 and trained.err == "" and "all 2 epochs done" in trained.out and f"run: {run}" in trained.out
    result = json.loads((run / "result.json").read_text())
    losses = [row["train_loss"] for row in result["history"]]
    assert losses[1] < losses[0] and result["samples"] == {"train": 42, "validation": 9, "test": 9}
    printed = leapcde("evaluate", run)
    assert f"{result['metrics']['test']['mse']:.4f}" in printed.out and f"{result['naive']['mean']['mse']:.4f}" in printed.out
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
    assert json.loads((run / "config.json").read_text())["columns"]["window"] == 14
    found = leapcde("evaluate", run, "--json").json
    assert set(found) == {"test", "last-value", "linear-trend"}
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
    settings = ["--model", "gru", "-o", "hidden=4", "--epochs", 1, "--window", 8]
    given = ["fit", place / "falls.csv", *COLUMNS, *settings]
    found = leapcde(*given, "--horizon", "0.03,0.1", "--out", "run", "--json").json
    assert found["metric"] == "mse" and load("run").horizon == [0.03, 0.1]
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


def test_explain_goes_into_the_run_by_default(classification):
    run, _ = classification
    answer = leapcde("explain", run)
    assert answer.code == 0 and answer.out.splitlines()[-1] == str(run / "explain" / "explain.html")
    page = explained(run / "explain", [0, 1, 2])
    assert page.count("Predicted: ") == page.count("(true: ") == 3


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
    save = training._save

    def stop(*args):
        save(*args)
        raise KeyboardInterrupt

    with mock.patch.object(training, "_save", stop):
        stopped = leapcde(*command, "--out", "stopped", "--json")
    assert stopped.code == 130 and "the same command goes on" in stopped.err and "Traceback" not in stopped.err
    assert sorted(p.name for p in Path("stopped").iterdir()) == ["config.json", "training.safetensors"]
    resumed = leapcde(*command, "--out", "stopped", "--json").json
    assert {**resumed, "run": ""} == {**whole, "run": ""}
    assert Path("stopped/model.safetensors").read_bytes() == Path("whole/model.safetensors").read_bytes()
    answer = leapcde("explain", "whole", "--sample", 2)  # a model without a learned path: what counted, and no path
    page = Path("whole/explain/explain.html").read_text(encoding="utf-8")
    assert answer.code == 0 and "integrated gradients" in page and "the path that LEAP learned" not in page


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
    heavy = "import sys, leapcde.cli; print(*{'jax', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules))"
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


# Mistakes


def fails(folder: Path, *args, words: tuple[str, ...]) -> None:
    """Exit code 2, one message with these words, nothing on standard output, nothing written."""
    before = contents(folder)
    for more in ([], ["--json"]):
        answer = leapcde(*args, *more)
        assert answer.code == 2 and answer.out == "", answer
        lines = answer.err.strip().splitlines()
        assert lines[0].startswith("error: ") and not any(line.startswith("error:") for line in lines[1:]), answer.err
        assert "Traceback" not in answer.err
        assert all(word in answer.err for word in words), (answer.err, words)
        assert contents(folder) == before


def fit(*more) -> list[str]:
    return ["fit", "a.csv", "--id", "seq", "--time", "t", *more]


def changed(table: pd.DataFrame, **columns) -> pd.DataFrame:
    return table[["seq", "t", "height", "angle", "label"]].assign(**columns)


def cell(table: pd.DataFrame, column: str, value) -> pd.Series:
    return table[column].astype(object).where(table.index != 5, value)


TABLES = {
    "a text column": (lambda t: changed(t, note="calm"), ("column 'note'", "text ('calm')", "leave it out")),
    "one text cell": (lambda t: changed(t, height=cell(t, "height", "n.a.?")), ("column 'height'", "text ('n.a.?')")),
    "a time twice": (lambda t: changed(t, t=t["t"].where(t.index != 1, 0.0)), ("sample 0 (id s00)", "time 0 appears twice")),
    "no time": (lambda t: changed(t, t=t["t"].where(t.index != 5)), ("sample 0 (id s00)", "time nan")),
    "times in words": (lambda t: changed(t, t="noon"), ("column 't'", "text ('noon')", "numbers or dates")),
    "no id": (lambda t: changed(t, seq=t["seq"].where(t.index != 5)), ("column 'seq'", "row 5")),
    "no target": (lambda t: changed(t, label=t["label"].where(t.index != 5)), ("column 'label'", "row 5")),
    "two targets": (lambda t: changed(t, label=cell(t, "label", "rises?")), ("id s00", "column 'label' changes within")),
    "one class": (lambda t: changed(t, label="falls"), ("every training sample has the class", "falls")),
    "an infinite value": (lambda t: changed(t, angle=t["angle"].where(t.index != 5, np.inf)), ("id s00", "channel 'angle'")),
    "no rows": (lambda t: changed(t)[:0], ("no rows",)),
    "two series": (lambda t: changed(t)[t["seq"] < "s02"], ("2 samples cannot be split", "at least 3")),
    "no id column": (lambda t: changed(t).drop(columns="seq"), ("no column 'seq'", "the table has: t, height")),
    "no value column": (lambda t: t[["seq", "t", "label"]], ("no column is left for the values",)),
}


@pytest.mark.parametrize("name", TABLES)
def test_wrong_tables(name, table, tmp_path):
    make, words = TABLES[name]
    make(table).to_csv("a.csv", index=False)
    fails(tmp_path, *fit("--target", "label"), words=words)


def test_all_that_is_wrong_with_a_table_in_one_message(table, tmp_path):
    bad = changed(table, note="calm", t=table["t"].where(table.index != 1, 0.0), label=cell(table, "label", "rises?"))
    bad.to_csv("a.csv", index=False)
    fails(tmp_path, *fit("--target", "label"), words=("column 'note'", "appears twice", "column 'label' changes"))


FILES = {
    "an empty file": (b"", ("cannot read", "a.csv")),
    "bytes": (bytes(range(256)) * 20, ("cannot read", "a.csv")),
    "a pickle": (pickle.dumps({"a": [1]}), ("a.csv",)),
    "ragged lines": (b"seq,t,height\n1,2\n1,2,3,4,5\n", ("cannot read", "line 3")),
    "semicolons": (b"seq;t;height\n1;0;2\n", ("one column only", "semicolons", "commas")),
    "one column": (b"seq\n1\n2\n", ("one column only", "'seq'")),
}


@pytest.mark.parametrize("name", FILES)
def test_unreadable_files(name, tmp_path):
    content, words = FILES[name]
    Path("a.csv").write_bytes(content)
    fails(tmp_path, *fit("--target", "label"), words=words)


def test_unreadable_parquet_and_no_file(tmp_path):
    Path("a.parquet").write_bytes(b"PAR1 but not really")
    Path("folder.csv").mkdir()
    same = ["--id", "seq", "--time", "t", "--target", "label"]
    fails(tmp_path, "fit", "a.parquet", *same, words=("cannot read", "a.parquet"))
    fails(tmp_path, "fit", "b.csv", *same, words=("no file b.csv", "leapcde train"))
    fails(tmp_path, "train", "b.csv", words=("'b.csv' is not a data set", "leapcde data list"))
    fails(tmp_path, "train", "a.parquet", words=("not a data set", "leapcde fit"))
    fails(tmp_path, "fit", "folder.csv", *same, words=("there is no file", "folder.csv"))
    fails(tmp_path, "fit", "a.parquet", words=("--id and --time",))


OPTIONS = {
    "no target": ([], ("--target", "--horizon")),
    "unknown target": (["--target", "sick"], ("no column 'sick'",)),
    "unknown value": (["--target", "label", "--values", "height,heigth"], ("no column 'heigth'",)),
    "target as value": (["--target", "label", "--values", "height,label"], ("'label' is named twice",)),
    "unknown model": (["--target", "label", "--model", "lsmt"], ("no model 'lsmt'", "lstm", "leap")),
    "unknown option": (["--target", "label", "-o", "hiden=8"], ("no option 'hiden'", "hidden")),
    "option without value": (["--target", "label", "-o", "hidden"], ("'hidden'", "name=value")),
    "drop": (["--target", "label", "--drop", "2"], ("drop rate 2",)),
    "path": (["--target", "label", "--path", "cubic"], ("no path 'cubic'", "natural")),
    "schedule": (["--target", "label", "--schedule", "step"], ("no schedule 'step'", "cosine")),
    "epochs": (["--target", "label", "--epochs", "0"], ("epochs 0", "positive")),
    "task": (["--target", "label", "--task", "ranking"], ("no task 'ranking'", "classification, regression")),
    "words as numbers": (["--target", "label", "--task", "regression"], ("regression needs numbers", "classification")),
    "horizon": (["--horizon", "500"], ("too short for a horizon of 500",)),
    "window": (["--horizon", "3", "--window", "500"], ("no sequence is long enough", "the longest has 20")),
    "out is a file": (["--target", "label", "--out", "a.csv"], ("a.csv", "another --out")),
    "out is full": (["--target", "label", "--out", "full"], ("full", "not empty", "another --out")),
    "out below a file": (["--target", "label", "--out", "a.csv/run", "--model", "ncde", *SMALL], ("cannot write", "a.csv/run")),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_wrong_options(name, table, tmp_path):
    more, words = OPTIONS[name]
    changed(table).to_csv("a.csv", index=False)
    Path("full").mkdir()
    Path("full/precious.txt").write_text("mine")
    fails(tmp_path, *fit(*(["--values", "height,angle"] if "--values" not in more else []), *more), words=words)


def test_a_label_that_only_the_test_data_has_is_found_before_training(table, tmp_path):
    rare = next(i for i in range(60) if _is_test(table, f"s{i:02d}"))
    changed(table, label=table["label"].where(table["seq"] != f"s{rare:02d}", "odd")).to_csv("a.csv", index=False)
    with mock.patch.object(training, "_epoch", side_effect=AssertionError("trained in vain")):
        fails(tmp_path, *fit("--target", "label", *SMALL, "--model", "ncde"), words=("training did not see: odd",))


def _is_test(table: pd.DataFrame, name: str) -> bool:
    """Whether a series goes to the test data when its label is unique."""
    from leapcde.datasets import table_file

    changed(table, label=table["label"].where(table["seq"] != name, "odd")).to_csv("try.csv", index=False)
    data = table_file.load(Path("try.csv"), table_file.Columns("seq", "t", "label", ("height", "angle")))
    return name in data.test.ids


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["train"], "Missing argument"),
        (["fit"], "Missing argument"),
        (["fit", "a.csv", "--seed", "-1"], "--seed"),
        (["fit", "a.csv", "--colour", "red"], "--colour"),
        (["train", "hopper", "--target", "label"], "--target"),
        (["paint"], "paint"),
    ],
)
def test_wrong_usage(args, word):
    answer = leapcde(*args)
    assert answer.code == 2 and answer.out == "" and word in answer.err and "Traceback" not in answer.err


@pytest.mark.parametrize("command", ["evaluate", "explain", "predict"])
def test_no_run_folder(command, tmp_path, place):
    file = [place / "falls.csv"] if command == "predict" else []
    fails(tmp_path, command, "nowhere", *file, words=("no run folder nowhere", "leapcde fit"))
    Path("empty").mkdir()
    fails(tmp_path, command, "empty", *file, words=("empty is not a run folder", "config.json"))


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def text(content: str):
    return lambda path: path.write_text(content)


DAMAGE = {
    "truncated weights": ("model.safetensors", truncated, ("model.safetensors", "truncated")),
    "empty weights": ("model.safetensors", text(""), ("model.safetensors", "truncated")),
    "no weights": ("model.safetensors", Path.unlink, ("not finished", "repeat")),
    "foreign weights": ("model.safetensors", lambda p: save_foreign({"a": np.ones(2)}, p), ("leapcde did not write it",)),
    "other weights": ("model.safetensors", lambda p: shutil.copy(p.with_name("training.safetensors"), p), ("'model' file",)),
    "cut config": ("config.json", truncated, ("config.json", "damaged")),
    "config of another kind": ("config.json", text("[1, 2]"), ("config.json", "damaged")),
    "config with less": ("config.json", text("{}"), ("config.json", "damaged")),
    "config in binary": ("config.json", lambda p: p.write_bytes(b"\xff\xfe\x00"), ("config.json", "damaged")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_run_folders(name, classification, tmp_path):
    file, damage, words = DAMAGE[name]
    shutil.copytree(classification[0], "run")
    damage(Path("run") / file)
    fails(tmp_path, "evaluate", "run", words=words)


def test_damaged_training_state(classification, place, tmp_path):
    shutil.copytree(classification[0], "run")
    truncated(Path("run/training.safetensors"))
    command = ["fit", place / "falls.csv", *COLUMNS, "--target", "label", *LEAP, "--out", "run"]
    fails(tmp_path, *command, words=("training.safetensors", "truncated"))


def test_other_settings_in_the_same_folder(classification, place):
    run, _ = classification
    command = ["fit", place / "falls.csv", *COLUMNS, "--target", "label", *LEAP, "--out", run]
    for other in (["--seed", "5"], ["--epochs", "3"], ["-o", "hidden=9"], ["--drop", "0.2"], ["--intensity"]):
        fails(run, *command, *other, words=("holds a run with other settings", "another --out"))


def test_wrong_files_to_predict(classification, table, tmp_path):
    run, _ = classification
    table.drop(columns="angle").to_csv("few.csv", index=False)
    changed(table, angle="calm").to_csv("text.csv", index=False)
    for file, words in (
        ("few.csv", ("no column 'angle'", "the table has")),
        ("text.csv", ("column 'angle'", "text ('calm')")),
        ("none.csv", ("there is no file none.csv",)),
    ):
        fails(tmp_path, "predict", run, file, "--out", "out.csv", words=words)
    table.to_csv("good.csv", index=False)
    fails(tmp_path, "predict", run, "good.csv", "--out", tmp_path, words=("cannot write",))


def test_predicting_for_a_named_data_set_says_how(classification, tmp_path):
    shutil.copytree(classification[0], "run")
    config = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps({**config, "data": "hopper", "columns": None}))
    fails(tmp_path, "predict", "run", "a.csv", words=("trained on 'hopper'", "Predictor.load"))


def test_wrong_samples_and_channels_to_explain(classification, tmp_path):
    run, _ = classification
    out = ["--out", "why"]
    fails(tmp_path, "explain", run, *out, "--sample", 99, "--sample", -1, words=("no sample 99, -1", "0 to 8"))
    fails(tmp_path, "explain", run, *out, "--channel", "speed", "--channel", "x", words=("'speed'", "'x'", "height, angle"))


def test_moved_data(classification, tmp_path):
    shutil.copytree(classification[0], "run")
    config = json.loads(Path("run/config.json").read_text())
    Path("run/config.json").write_text(json.dumps({**config, "data": "/gone/falls.csv"}))
    fails(tmp_path, "evaluate", "run", words=("there is no file /gone/falls.csv",))


def test_no_data_folder(classification, tmp_path):
    for command in (["train", "hopper"], ["doctor"]):
        fails(tmp_path, *command, "--data-dir", "nowhere", words=("no data directory nowhere",))
    fails(tmp_path, "train", "character-trajectories", words=("CharacterTrajectories.zip", "LEAPCDE_DATA"))


def test_data_that_cannot_be_made(tmp_path):
    fails(tmp_path, "data", "make", "walker", "--out", "a.npy", words=("'walker'", "'mujoco'"))
    fails(tmp_path, "data", "make", "mujoco", "--out", "a.txt", words=(".npy", ".npz"))


def test_as_a_module_and_its_version():
    ran = subprocess.run([sys.executable, "-m", "leapcde", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"leapcde {version('leapcde')}\n"

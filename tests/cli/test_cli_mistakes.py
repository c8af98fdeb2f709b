"""The command line: one clear message for every mistake, and nothing lost or half done."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file as save_foreign

from command import COLUMNS, LEAP, SMALL, fails, leapcde
from leapcde.training import loop as training

pytestmark = pytest.mark.usefixtures("elsewhere")


def fit(*more) -> list[str]:
    return ["fit", "a.csv", "--id", "seq", "--time", "t", *more]


def changed(table: pd.DataFrame, **columns) -> pd.DataFrame:
    return table[["seq", "t", "height", "angle", "label"]].assign(**columns)


def cell(table: pd.DataFrame, column: str, value) -> pd.Series:
    return table[column].astype(object).where(table.index != 5, value)


def dated(table: pd.DataFrame, form: str) -> pd.Series:
    """The times as days of January 2024, of which there are no more than twelve in a sample."""
    day = (table["t"] * 50).round().astype(int) % 12
    month = (table["t"] * 50).round().astype(int) // 12
    return pd.to_datetime({"year": 2024, "month": month + 1, "day": day + 1}).dt.strftime(form)


def notes(table) -> list[str]:
    """Another text in every row."""
    return [f"note {i}" for i in range(len(table))]


TABLES = {
    "a column of free text": (lambda t: changed(t, note=notes(t)), ("column 'note': 1140 different texts", "Leave it out")),
    "one text cell": (lambda t: changed(t, height=cell(t, "height", "n.a.?")), ("column 'height'", "text ('n.a.?')")),
    "a time twice": (lambda t: changed(t, t=t["t"].where(t.index != 1, 0.0)), ("sample 0 (id s00)", "time 0 appears twice")),
    "no time": (lambda t: changed(t, t=t["t"].where(t.index != 5)), ("sample 0 (id s00)", "time nan")),
    "times in words": (lambda t: changed(t, t="noon"), ("column 't'", "text ('noon')", "numbers or dates")),
    "times that may be two dates": (
        lambda t: changed(t, t=dated(t, "%d/%m/%Y")),
        ("column 't'", "'02/01/2024' in row 3 of the file", "(--time-format '%d/%m/%Y')", "(--time-format '%m/%d/%Y')"),
    ),
    "some times with a zone": (
        lambda t: changed(t, t=dated(t, "%Y-%m-%d %H:%M").where(t.index != 5, "2024-01-06 00:00+02:00")),
        ("column 't'", "row 2 of the file has no time zone, row 7 of the file has one"),
    ),
    "no id": (lambda t: changed(t, seq=t["seq"].where(t.index != 5)), ("column 'seq'", "row 7 of the file")),
    "no target": (lambda t: changed(t, label=t["label"].where(t.index != 5)), ("column 'label'", "row 7 of the file")),
    "two targets": (lambda t: changed(t, label=cell(t, "label", "rises?")), ("id s00", "column 'label' changes within")),
    "one class": (lambda t: changed(t, label="falls"), ("every training sample has the class", "falls")),
    "an infinite value": (lambda t: changed(t, angle=t["angle"].where(t.index != 5, np.inf)), ("id s00", "channel 'angle'")),
    "no rows": (lambda t: changed(t)[:0], ("no rows",)),
    "two series": (lambda t: changed(t)[t["seq"] < "s02"], ("too few samples: 2 samples cannot be split", "at least 3")),
    "three series": (lambda t: changed(t)[t["seq"] < "s03"], ("too few samples: 1 for training",)),
    "no id column": (lambda t: changed(t).drop(columns="seq"), ("no column 'seq'", "the table has: t, height")),
    "no value column": (lambda t: t[["seq", "t", "label"]], ("no column is left for the values",)),
}


@pytest.mark.parametrize("name", TABLES)
def test_wrong_tables(name, table, tmp_path):
    make, words = TABLES[name]
    make(table).to_csv("a.csv", index=False)
    fails(tmp_path, *fit("--target", "label"), words=words)


def test_all_that_is_wrong_with_a_table_in_one_message(table, tmp_path):
    bad = changed(table, note=notes(table), t=table["t"].where(table.index != 1, 0.0), label=cell(table, "label", "rises?"))
    bad.to_csv("a.csv", index=False)
    fails(tmp_path, *fit("--target", "label"), words=("column 'note'", "appears twice", "column 'label' changes"))


FILES = {
    "an empty file": (b"", ("cannot read", "a.csv")),
    "bytes": (bytes(range(256)) * 20, ("cannot read", "a.csv")),
    "a pickle": (pickle.dumps({"a": [1]}), ("a.csv",)),
    "ragged lines": (b"seq,t,height\n1,2\n1,2,3,4,5\n", ("cannot read", "row 3 of the file")),
    "semicolons": (b"seq;t;height\n1;0;2\n", ("no column 'label'", "the table has: seq, t, height")),
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
    fails(tmp_path, "fit", "a.parqet", *same, words=("no file a.parqet; did you mean 'a.parquet'?",))
    fails(tmp_path, "train", "b.csv", words=("'b.csv' is not a data set", "leapcde data list"))
    fails(tmp_path, "train", "Sepsi", words=("'Sepsi' is not a data set; did you mean 'sepsis'?",))
    fails(tmp_path, "train", "a.parquet", words=("not a data set", "leapcde fit"))
    fails(tmp_path, "fit", "folder.csv", *same, words=("folder.csv holds no tables",))
    fails(tmp_path, "fit", "a.parquet", words=("--id and --time",))


def test_a_time_format_that_does_not_fit(table, tmp_path):
    changed(table, t=dated(table, "%d/%m/%Y")).to_csv("a.csv", index=False)
    words = ("column 't'", "'01/01/2024' in row 2 of the file", "does not fit --time-format '%d.%m.%Y'", "%d day")
    fails(tmp_path, *fit("--target", "label", "--time-format", "%d.%m.%Y"), words=words)
    fails(tmp_path, *fit("--target", "label", "--time-format", "%d/%J"), words=("--time-format '%d/%J' cannot be read",))


OPTIONS = {
    "no target": ([], ("--target", "--horizon")),
    "unknown target": (["--target", "lable"], ("no column 'lable'; did you mean 'label'?",)),
    "unknown value": (["--target", "label", "--values", "height,heigth"], ("no column 'heigth'",)),
    "target as value": (["--target", "label", "--values", "height,label"], ("'label' is named twice",)),
    "unknown model": (["--target", "label", "--model", "lsmt"], ("no model 'lsmt'; did you mean 'lstm'?", "leap")),
    "unknown option": (["--target", "label", "--model", "leap+", "-o", "hiden=8"], ("no option 'hiden'", "hidden")),
    "option without value": (["--target", "label", "-o", "hidden"], ("'hidden'", "name=value")),
    "drop": (["--target", "label", "--drop", "2"], ("drop rate 2",)),
    "interpolation": (["--target", "label", "--interpolation", "cubic"], ("no interpolation 'cubic'", "natural")),
    "class weight": (["--target", "label", "--class-weight", "heavy"], ("no class-weight 'heavy'", "balanced, none")),
    "schedule": (["--target", "label", "--schedule", "step"], ("no schedule 'step'", "cosine")),
    "noise": (["--target", "label", "--noise", "-1"], ("noise -1", "not negative")),
    "epochs": (["--target", "label", "--epochs", "0"], ("epochs 0", "positive")),
    "task": (["--target", "label", "--task", "ranking"], ("no task 'ranking'", "classification, labels, regression, survival")),
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
    from leapcde.data import table_file
    from leapcde.data.columns import Columns

    changed(table, label=table["label"].where(table["seq"] != name, "odd")).to_csv("try.csv", index=False)
    data = table_file.load(Path("try.csv"), Columns("seq", "t", "label", ("height", "angle")))
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
        (["evalute", "run"], "evaluate"),
        (["fit", "a.csv", "--tagret", "label"], "--target"),
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
    for kept in ("training", "training.older"):  # with one of them left, training goes on
        truncated(Path(f"run/{kept}.safetensors"))
    command = ["fit", place / "falls.csv", *COLUMNS, "--target", "label", *LEAP, "--out", "run", "--quiet"]
    fails(tmp_path, *command, words=("training.safetensors", "both damaged", "remove them"))


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
    fails(tmp_path, "predict", "run", "a.csv", words=("trained on 'hopper'", "leapcde.load"))


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

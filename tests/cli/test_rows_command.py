"""`--target-per row`: a line for each row, a run folder as for other tasks, and one clear error for what cannot be."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from command import COLUMNS, leapcde

QUICK = ["--model", "gru", "-o", "hidden=4", "--epochs", "2", "--batch-size", "8"]


@pytest.fixture(scope="module")
def falls(place, table):
    """Whether it sinks before the next row; of the last row nobody knows."""
    height = table.sort_values(["seq", "t"]).groupby("seq")["angle"]
    later = height.transform(lambda row: row.ffill().fillna(0).shift(-1))
    now = height.transform(lambda row: row.ffill().fillna(0))
    sinks = pd.Series(np.where(later.isna(), None, np.where(later < now, "sinks", "rises")), index=table.index)
    table.assign(sinks=sinks).drop(columns=["label", "later", "note"]).to_csv(place / "rows.csv", index=False)
    return place / "rows.csv"


@pytest.fixture(scope="module")
def run(falls, place):
    folder = place / "rows"
    command = ["fit", falls, *COLUMNS, "--target", "sinks", "--target-per", "row", *QUICK, "--out", folder]
    found = leapcde(*command, "--json").json
    again = leapcde(*command, "--json").json  # which is finished
    assert again["test"] == found["test"]
    return folder, found


def test_a_run_in_numbers(run):
    folder, found = run
    assert set(found["baselines"]) == {"class-prior", "boosted-trees"} and found["metric"] == "auroc"
    assert {"accuracy", "auroc", "auprc", "brier", "ece"} <= set(found["test"])
    assert json.loads((folder / "config.json").read_text())["columns"]["target_per"] == "row"
    card = (folder / "card.md").read_text()
    assert "baseline: boosted-trees" in card and "An answer after each row" in card
    evaluated = leapcde("evaluate", folder, "--json").json
    assert evaluated["test"]["auroc"] == pytest.approx(found["test"]["auroc"], abs=1e-6)


def test_a_line_for_each_row_and_pictures(run, falls, tmp_path):
    folder, _ = run
    assert leapcde("predict", folder, falls, "--out", tmp_path / "said.csv").code == 0
    said, given = pd.read_csv(tmp_path / "said.csv"), pd.read_csv(falls).sort_values(["seq", "t"])
    assert said["seq"].tolist() == given["seq"].tolist() and said["t"].tolist() == given["t"].tolist()
    assert np.allclose(said["p(rises)"] + said["p(sinks)"], 1, atol=1e-6)
    newer = leapcde("evaluate", folder, falls, "--json").json
    assert newer["model"]["auroc"] > 0.4 and newer["coverage of 90 % intervals"] is None
    assert leapcde("explain", folder, "--sample", "1", "--out", tmp_path / "explain").code == 0
    assert {file.name for file in (tmp_path / "explain").iterdir()} == {"sample-1.png", "explain.html"}


def test_mistakes(run, falls, tmp_path):
    folder, _ = run
    fit = lambda *more: leapcde("fit", falls, *COLUMNS, "--target", "sinks", *more, "--out", tmp_path / "none")
    for answer, words in {
        "not asked for": (fit(*QUICK), "--target-per 'row'"),
        "forecasts": (fit("--target-per", "row", "--horizon", "3", "--target", "angle", *QUICK), "classes and numbers"),
        "unknown": (fit("--target-per", "hour", *QUICK), "there is no target-per 'hour'"),
        "cannot": (fit("--target-per", "row", "--model", "leap", "--epochs", "1"), "cannot answer after each row"),
        "coverage": (leapcde("predict", folder, falls, "--coverage", "0.9"), "not for answers after each row"),
    }.values():
        assert answer.code == 2 and words in answer.err and "Traceback" not in answer.err, answer
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_a_race(falls, tmp_path):
    quick = ["--target-per", "row", "--epochs", "2", "--out", tmp_path / "race"]
    found = leapcde("fit", falls, *COLUMNS, "--target", "sinks", *quick, "--json").json
    assert [row["candidate"] for row in found["race"]] == ["class-prior", "boosted-trees", "leap+", "gru-d"]
    assert sum(row["weight"] for row in found["race"]) == pytest.approx(1)

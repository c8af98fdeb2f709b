"""`leapcde reproduce` and `report`, from scratch on real data with the smoke budget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from command import leapcde
from leapcde.models.registry import MODELS
from leapcde_paper.run.records import read_all
from leapcde_paper.studies import STUDIES, names

MINE = """
name = "mine"
title = "Mine"
kind = "table"
budget = "own"
[[settings]]
row = "ridge"
column = "Hopper"
data = "hopper"
model = "ridge"
seeds = [0]
samples = 40
length = 12
"""


def test_smoke_makes_tables_a_figure_and_the_page(tmp_path, data_dir, monkeypatch):
    """On all four data sets, and again, which runs nothing. Every table and figure: `make test-slow`."""
    monkeypatch.setenv("LEAPCDE_DATA", str(data_dir))
    for name in ("sepsis", "paths"):
        made = leapcde("reproduce", name, "--budget", "smoke", "--out", tmp_path, "--json").json
        assert made["failed"] == [] and made["missing"] == [] and made["budget"] == "smoke"
        assert {Path(file).stem for file in made["files"]} == {name} and len(made["files"]) > 2
    text = (tmp_path / "tables" / "sepsis.md").read_text()
    assert all(f"| {row} |" in text for row in ("LEAP", "NCDE", "GRU", "class prior"))
    found = read_all(tmp_path)
    assert {record["dataset"] for record in found} == {"character-trajectories", "speech-commands", "sepsis", "mujoco-as-run"}
    again = leapcde("reproduce", "paths", "--budget", "smoke", "--out", tmp_path, "--dry-run")
    assert again.out.splitlines()[-1].startswith("0 cells to run, 8 done")
    assert leapcde("report", tmp_path, "--json").json["bytes"] > 200_000
    leapcde("report", tmp_path, "--out", tmp_path / "all.md")
    text = (tmp_path / "all.md").read_text()
    assert "![X against the learned path Y, by channel](all/paths.svg)" in text and (tmp_path / "all" / "paths.svg").exists()
    assert "### PhysioNet Sepsis, test AUROC" in text and "## The paper against ours" in text


def test_a_record_proves_itself(tmp_path):
    """The cell runs again to the last bit; a figure that was touched is found out, and nothing is written."""
    trained = (
        MINE.replace('model = "ridge"', 'model = "gru"') + "[settings.options]\nhidden = 3\n[settings.train]\nepochs = 2\n"
    )
    (tmp_path / "mine.toml").write_text(trained)
    leapcde("reproduce", tmp_path / "mine.toml", "--out", tmp_path / "out", "--json")
    record = next((tmp_path / "out" / "records").glob("*.json"))
    before = sorted(tmp_path.rglob("*"))
    (same,) = leapcde("rerun", record, "--json").json["cells"]
    assert same["same"] and same["recorded"] == same["now"] and same["changed"] == [] and sorted(tmp_path.rglob("*")) == before
    with mock.patch.dict(MODELS, gru=replace(MODELS["gru"], revision=2)):
        assert leapcde("rerun", record, "--json").json["cells"][0]["changed"] == ["revision of the model"]
    name, text, arrays = record.stem, record.read_text(), record.with_suffix(".safetensors").read_bytes()
    assert leapcde("collect", tmp_path / "out", "--json").json["collected"] == 1 and not record.exists()
    (same,) = leapcde("rerun", tmp_path / "out" / name[:-4], "--json").json["cells"]  # how its name begins is enough
    assert same["same"] and same["cell"] == name and same["changed"] == []
    record.write_text(text)
    record.with_suffix(".safetensors").write_bytes(arrays)
    kept = json.loads(record.read_text())
    kept["metrics"]["validation"]["mse"] = np.nextafter(kept["metrics"]["validation"]["mse"], 1.0)
    record.write_text(json.dumps(kept))
    touched = leapcde("rerun", record, "--quiet")
    assert touched.code == 2 and "not the same figures" in touched.err
    (tmp_path / "package.json").write_text('{"name": "mine"}')  # somebody's file: left as it is
    wrong = leapcde("rerun", record, tmp_path / "package.json", tmp_path / "none.json")
    assert wrong.code == 2 and "package.json: it lacks schema" in wrong.err and "none.json" in wrong.err
    assert (tmp_path / "package.json").exists() and "cells" not in wrong.err  # nothing was run


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or os.cpu_count() < 2, reason="needs two cores and a way to hide one")
def test_a_cell_has_the_same_bits_on_one_core_and_on_two(tmp_path, data_dir, monkeypatch):
    """XLA compiles other programs for other numbers of cores; training makes much of a last bit."""
    monkeypatch.setenv("LEAPCDE_DATA", str(data_dir))
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # a lazy compiler makes one program for all
    trained = MINE.replace('"ridge"', '"rnn"').replace('data = "hopper"', 'data = "character-trajectories"')
    trained = (
        trained.replace("samples = 40\nlength = 12\n", "") + "[settings.options]\nhidden = 40\n[settings.train]\nepochs = 1\n"
    )
    (tmp_path / "mine.toml").write_text(trained)
    figures = []
    for cores in ({0}, {0, 1}):
        out = tmp_path / str(len(cores))
        ask = [sys.executable, "-m", "leapcde", "reproduce", str(tmp_path / "mine.toml"), "--out", str(out), "--quiet"]
        confined = f"import os; os.sched_setaffinity(0, {cores}); os.execv({ask[0]!r}, {ask!r})"  # no fork of this process
        subprocess.run([sys.executable, "-c", confined], check=True, timeout=300)
        (record,) = read_all(out)
        figures.append([record["metrics"], [row["train_loss"] for row in record["history"]]])
    assert figures[0] == figures[1]


@pytest.mark.slow
def test_smoke_makes_every_table_and_figure(tmp_path, data_dir, monkeypatch):
    """All of it: data, cells, records, tables, figures and the page; and again, which runs nothing."""
    monkeypatch.setenv("LEAPCDE_DATA", str(data_dir))
    ask = ("reproduce", "all", "--budget", "smoke", "--out", tmp_path)
    plan = leapcde(*ask, "--dry-run", "--json").json
    made = leapcde(*ask, "--json").json
    assert made["failed"] == [] and made["budget"] == "smoke"
    assert len(made["missing"]) == 1 and made["missing"][0].startswith("mujoco is left out")  # 10,000 have to be simulated
    assert made["records"] == len(plan["cells"]) > 80 and plan["done"] == 0 and plan["seconds"] > 0
    for name, study in STUDIES.items():
        if name == "simulations":
            continue
        place = "tables" if study.kind == "table" else "figures"
        kinds = ("md", "tex", "html") if study.kind == "table" else ("png", "svg")
        for kind in kinds:
            assert (tmp_path / place / f"{name}.{kind}").stat().st_size > 300, (name, kind)
    for name in ("character", "mujoco", "speech", "sepsis", "regular"):
        text = (tmp_path / "tables" / f"{name}.md").read_text()
        assert "Budget smoke" in text and "| LEAP |" in text and "| NCDE |" in text and "| GRU |" in text
        assert "class prior" in text or "last value" in text
    found = read_all(tmp_path)
    paper = {"character-trajectories", "speech-commands", "sepsis", "mujoco-as-run"}
    assert {record["dataset"] for record in found} == {*paper, "uea:BasicMotions"}
    assert all(np.isfinite(record["metrics"]["test"][record["metric"]]) for record in found)
    assert sum(len(chart["series"]) for chart in json.loads((tmp_path / "figures" / "umap.json").read_text())["charts"]) == 8

    again = leapcde(*ask, "--dry-run")
    assert again.out.splitlines()[-1].startswith(f"0 cells to run, {len(found)} done")
    page = leapcde("report", tmp_path, "--json").json
    assert page["bytes"] > 200_000


def test_names_are_listed_and_configs_printed(tmp_path):
    listed = leapcde("reproduce", "--json").json["names"]
    assert list(listed) == names()
    text = leapcde("reproduce").out
    assert "sepsis" in text and "all: every one of them" in text
    for args, said in ((("reproduce", "tabel"), "no table or figure 'tabel'"), (("report", tmp_path), "holds no records")):
        wrong = leapcde(*args)
        assert wrong.code == 2 and said in wrong.err


def test_a_config_of_ones_own_is_run_from_toml(tmp_path):
    """What --toml prints can be changed and given back."""
    (tmp_path / "mine.toml").write_text(MINE)
    found = leapcde("reproduce", tmp_path / "mine.toml", "--out", tmp_path / "out")
    assert found.code == 0 and "| ridge | 0.405 |" in found.out and "Budget own: settings of its own" in found.out
    printed = leapcde("reproduce", tmp_path / "mine.toml", "--toml")
    assert 'model = "ridge"' in printed.out and "[settings.train]" in printed.out
    (tmp_path / "bad.toml").write_text(MINE.replace('model = "ridge"', 'model = "rigde"'))
    wrong = leapcde("reproduce", tmp_path / "bad.toml", "--out", tmp_path / "out")
    assert wrong.code == 2 and "no model 'rigde'" in wrong.err


def test_a_column_can_be_run_alone(tmp_path):
    head, run = MINE.split("[[settings]]")
    other = run.replace('"Hopper"', '"30 %"').replace("seeds", "drop = 0.3\nseeds")
    (tmp_path / "mine.toml").write_text(f"{head}[[settings]]{run}[[settings]]{other}")
    ask = ("reproduce", tmp_path / "mine.toml", "--out", tmp_path / "out", "--dry-run")
    assert "2 cells to run" in leapcde(*ask).out
    assert "hopper-30" in leapcde(*ask, "--column", "30 %").out and "1 cells to run" in leapcde(*ask, "--column", "30 %").out
    wrong = leapcde(*ask, "--column", "hoper")
    assert wrong.code == 2 and "no column of these tables 'hoper'; did you mean 'Hopper'?" in wrong.err


def test_a_table_can_be_run_in_parts(tmp_path):
    """One model now, the other later: what was run before stays in the table."""
    head, run = MINE.split("[[settings]]")
    other = run.replace("ridge", "last-value").replace("seeds = [0]", "seeds = [0, 1]")
    (tmp_path / "mine.toml").write_text(f"{head}[[settings]]{run}[[settings]]{other}")
    ask = ("reproduce", tmp_path / "mine.toml", "--out", tmp_path / "out")
    assert "1 cells to run" in leapcde(*ask, "--model", "last-value", "--seeds", 1, "--dry-run").out
    first = leapcde(*ask, "--model", "ridge").out
    assert "| ridge | 0.405 |" in first and "| last-value | – |" in first
    second = leapcde(*ask, "--model", "last-value", "--seeds", 1).out
    assert "| ridge | **0.405** |" in second and "| last-value | – |" not in second and len(read_all(tmp_path / "out")) == 2
    other = next((tmp_path / "out" / "records").glob("*ridge*.json"))  # a record of the same cell with other data is not shown
    record = json.loads(other.read_text()) | {"metrics": {"test": {"mse": 9.0}, "validation": {"mse": 9.0}}}
    (tmp_path / "out" / "records" / "z.json").write_text(json.dumps(record))
    assert "| ridge | **0.405** |" in leapcde(*ask).out
    wrong = leapcde(*ask, "--model", "rigde")
    assert wrong.code == 2 and "'rigde'" in wrong.err and "last-value, ridge" in wrong.err


@pytest.mark.parametrize("name", ["character", "sepsis"])
def test_presets_print_as_toml(name, data_dir):
    printed = leapcde("reproduce", name, "--budget", "full", "--toml", "--data-dir", data_dir).out
    first = tomllib.loads(printed)["settings"][0]
    assert first["seeds"][0] == 112 and first["train"]["patience"] == 50 and first["train"]["clip"] == "none"

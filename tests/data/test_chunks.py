"""Tables that are read in chunks: the series they are, made once, from files of which each may be broken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command import leapcde
from leapcde.data import table_file
from leapcde.data.columns import Columns, columns_of, read_columns
from leapcde.data.series import Series
from leapcde.data.store import build
from leapcde.errors import InputError, LeapWarning
from leapcde.paths import ragged

COLUMNS = Columns("who", "t", "sick", static=("sex", "age"))


def table(seed=0, samples=30) -> pd.DataFrame:
    """Rows of all samples, mixed up: numbers with holes, whole numbers, yes and no, categories, text as ids."""
    rng = np.random.default_rng(seed)
    parts = []
    for i in rng.permutation(samples):
        n = int(rng.integers(2, 9))
        part = pd.DataFrame({"who": f"p{i:03d}", "t": np.cumsum(rng.integers(1, 5, n)), "a": rng.normal(size=n) + i % 2})
        part["b"] = np.where(rng.random(n) < 0.5, np.nan, rng.integers(0, 9, n))
        part["state"] = rng.choice(["on", "off", None], n)
        parts.append(part.assign(sex="fm"[i % 2], age=float(i), sick="no" if i % 3 else "yes"))
    return pd.concat(parts).sample(frac=1, random_state=seed).reset_index(drop=True)


def files(folder: Path, rows: pd.DataFrame, count=3, suffix="parquet") -> list[Path]:
    folder.mkdir(exist_ok=True)
    paths = []
    for k, index in enumerate(np.array_split(np.arange(len(rows)), count)):
        paths.append(folder / f"part-{k}.{suffix}")
        part = rows.iloc[index]
        part.to_parquet(paths[-1]) if suffix == "parquet" else part.to_csv(paths[-1], index=False)
    return paths


def equal(a: Series, b: Series) -> None:
    for name in ("times", "values", "offsets", "target", "static", "ids"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.channels, a.categories, a.static_names) == (b.channels, b.categories, b.static_names)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """Pieces of a dozen rows, and a cache of this test's own."""
    monkeypatch.setenv("LEAPCDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "PIECE", 12 * 8 * 8)


def stored(paths, columns=COLUMNS) -> Series:
    return table_file.read_input(paths, columns)


@pytest.mark.filterwarnings("ignore:text was read as categories")
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_rows_scattered_over_files_are_the_series_of_the_whole_table(tmp_path, suffix):
    rows = table()
    if suffix == "csv":  # ids and labels that are numbers, and one that is written so that it is none
        rows = rows.assign(who=rows["who"].str.slice(1).astype(int).astype(str).replace("7", "007"))
        rows["sick"] = (rows["sick"] == "yes").astype(int)
        rows.to_csv(tmp_path / "whole.csv", index=False)
        whole = table_file.read(tmp_path / "whole.csv", COLUMNS)
    else:
        whole = read_columns(rows, COLUMNS)
    done: list[tuple[int, int]] = []
    paths = files(tmp_path / "parts", rows, suffix=suffix)
    found = build.stored_series(paths, COLUMNS, ["a"], progress=lambda *now: done.append(now))
    equal(found, whole)
    assert found.target.dtype == whole.target.dtype and isinstance(found.values, np.memmap)
    assert done[-1] == (2 * len(rows), 2 * len(rows)) and sorted(done) == done
    names = {path.name for path in (tmp_path / "cache" / "stores").iterdir() if path.is_dir()}
    assert names == {Path(found.values.filename).parent.name}


@pytest.mark.filterwarnings("ignore:text was read as categories")
def test_a_store_is_made_once_and_again_when_it_is_damaged(tmp_path, monkeypatch):
    paths = files(tmp_path / "parts", table())
    whole = stored(paths)
    with monkeypatch.context() as patch:
        patch.setattr(build._Build, "run", lambda self: pytest.fail("made again"))
        equal(stored(paths), whole)
        settled = replace(COLUMNS, values=columns_of(whole), categories=whole.categories)
        equal(stored(paths, settled), whole)  # as a run asks for it again
    (values,) = (tmp_path / "cache").rglob("values.npy")
    raw = values.read_bytes()
    values.unlink()  # the first one is mapped still
    values.write_bytes(raw[:-8])
    with pytest.warns(LeapWarning, match=r"was damaged \(values.npy is damaged\); it is made again"):
        equal(stored(paths), whole)
    files(tmp_path / "parts", table(seed=1))
    assert len(stored(paths).values) != len(whole.values)  # other content, another store
    assert sum(path.is_dir() for path in (tmp_path / "cache" / "stores").iterdir()) == 2


@pytest.mark.filterwarnings("ignore:text was read as categories")
def test_where_nothing_is_kept_the_store_goes_with_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("LEAPCDE_CACHE", "off")
    equal(stored(files(tmp_path / "parts", table())), read_columns(table(), COLUMNS))
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


@pytest.mark.filterwarnings("ignore:text was read as categories")
def test_bad_files_are_named_and_nothing_is_lost(tmp_path):
    paths = files(tmp_path / "parts", table())
    before = {path: path.read_bytes() for path in paths}
    paths[1].write_bytes(before[paths[1]][:-40])
    pd.read_parquet(paths[2]).drop(columns="a").to_parquet(paths[2])
    with pytest.raises(InputError, match="nothing was stored") as error:
        stored(paths)
    assert "part-1.parquet" in str(error.value) and "part-2.parquet: no column 'a'" in str(error.value)
    paths[1].write_bytes(before[paths[1]])
    raw = bytearray(before[paths[2]])
    raw[8:200] = bytes(192)  # inside, where no footer tells
    paths[2].write_bytes(raw)
    with pytest.raises(InputError, match=r"cannot read .*part-2\.parquet"):
        stored(paths)
    paths[2].write_bytes(before[paths[2]])
    assert not list((tmp_path / "cache").rglob("*.parquet")) and len(stored(paths)) == 30


def test_a_bad_cell_is_named_with_its_file_and_row(tmp_path):
    rows = table().drop(columns="state")
    paths = files(tmp_path / "parts", rows, suffix="csv")
    lines = paths[1].read_text().splitlines()
    cells = lines[4].split(",")
    lines[4] = ",".join([*cells[:2], "broken", *cells[3:]])
    paths[1].write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"column 'a': text \('broken'\) in row 5 of .*part-1.csv"):
        stored(paths)
    lines[4] = ",".join(cells[:-1])
    paths[1].write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"part-1.csv: row 5 of the file has 6 fields, the header has 7"):
        stored(paths)


def test_a_folder_without_tables_and_files_without_ids_are_refused(tmp_path):
    with pytest.raises(InputError, match="holds no tables"):
        table_file.tables(tmp_path)
    with pytest.raises(InputError, match="need id= and time="):
        stored(files(tmp_path / "parts", table()), Columns(time="t"))


@pytest.mark.filterwarnings("ignore")
def test_a_folder_is_trained_predicted_and_evaluated_as_one_file_is(tmp_path, monkeypatch):
    """Also with nothing on the device: the same bits."""
    monkeypatch.chdir(tmp_path)
    rows = table(samples=40)
    files(tmp_path / "parts", rows)
    rows.to_parquet("whole.parquet")
    how = ["--id", "who", "--time", "t", "--target", "sick", "--static", "sex,age", "--model", "gru", "-o", "hidden=4"]
    how += ["--epochs", "2", "--batch-size", "8", "--interpolation", "linear", "--json"]
    one = leapcde("fit", "whole.parquet", *how, "--out", "one").json
    monkeypatch.setattr(ragged, "ON_DEVICE", 0)
    many = leapcde("fit", *sorted(Path("parts").iterdir()), *how, "--out", "many").json
    assert {**one, "run": ""} == {**many, "run": ""}
    assert leapcde("predict", "one", "whole.parquet", "--out", "one.csv").code == 0
    monkeypatch.setattr("leapcde.data.series.BLOCK", 60)
    assert leapcde("predict", "many", "parts", "--out", "many.csv").code == 0
    assert leapcde("predict", "many", "parts", "--out", "many.parquet").code == 0
    a, b = pd.read_csv("one.csv"), pd.read_csv("many.csv")  # of which batches had other sizes: the last bits differ
    assert (a["who"] == b["who"]).all() and (a["prediction"] == b["prediction"]).all()
    np.testing.assert_allclose(a["p(yes)"], b["p(yes)"], rtol=1e-4)
    pd.testing.assert_frame_equal(pd.read_parquet("many.parquet"), pd.read_csv("many.csv"), check_dtype=False)
    assert leapcde("evaluate", "one", "whole.parquet", "--json").json == leapcde("evaluate", "many", "parts", "--json").json


@pytest.mark.parametrize("content", [b"", b"..", b"../mine", b"/", b"\xff", b"store"])
def test_a_damaged_note_on_where_a_store_lies_removes_nothing(content, tmp_path):
    """A folder that it names would be taken for a damaged store, removed, and made again."""
    home, mine = tmp_path / "stores", tmp_path / "mine" / "thesis.txt"
    for folder in (home / "store", mine.parent):
        folder.mkdir(parents=True)
    mine.write_text("ten years")
    (home / "0123456789abcdef.same").write_bytes(content)
    assert build._same(home / "0123456789abcdef.same", "0123456789abcdef") == "0123456789abcdef"
    assert build._same(home / "none.same", "none") == "none"


def test_only_files_of_a_folder_are_tables(tmp_path):
    """A pipe would be waited for without end, a folder cannot be read."""
    (tmp_path / "a.csv").write_text("id,time,x\n")
    (tmp_path / "b.csv").mkdir()
    os.mkfifo(tmp_path / "c.csv")
    assert build.tables_at(tmp_path) == [tmp_path / "a.csv"]

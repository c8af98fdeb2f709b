"""Files that are not what they seem: each is read rightly or refused in one message; nothing is shifted, cut or merged."""

from __future__ import annotations

import bz2
import gzip
import lzma
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leapcde.data.columns import Columns
from leapcde.data.delimited import read_table
from leapcde.data.table_file import guess_task, read
from leapcde.errors import InputError, LeapWarning

COLUMNS = Columns("id", "time")
GOOD = "id,time,a,b\n0,0,100.5,0.4\n0,1,101.5,0.5\n1,0,102.5,0.6\n"


def put(folder: Path, text: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refuses(path: Path, *words: str, columns: Columns = COLUMNS) -> None:
    with pytest.raises(InputError) as caught:
        read(path, columns)
    assert all(word in str(caught.value) for word in words), str(caught.value)


# Fields


def test_an_empty_field_behind_each_row_shifts_nothing(tmp_path):
    path = put(tmp_path, GOOD.replace("\n", ",\n").replace("a,b,", "a,b", 1))
    with pytest.warns(LeapWarning, match="3 rows end with an empty field"):
        found = read(path, COLUMNS)
    np.testing.assert_array_equal(found.values, read(put(tmp_path, GOOD, "b.csv"), COLUMNS).values)
    assert found.ids is not None and found.ids.tolist() == [0, 1]


def test_a_separator_at_the_end_of_each_line_is_no_channel(tmp_path):
    assert read(put(tmp_path, GOOD.replace("\n", ",\n")), COLUMNS).channels == ("a", "b")


@pytest.mark.parametrize("row", ["0,1,101.5,0.5,7", "0,1,101.5", "0", '0,1,"101.5,0.5'])
def test_a_row_with_another_number_of_fields(row, tmp_path):
    path = put(tmp_path, GOOD.replace("0,1,101.5,0.5", row))
    refuses(path, "row 3 of the file has", "the header has 4")


def test_all_rows_with_another_number_of_fields(tmp_path):
    refuses(put(tmp_path, GOOD.replace("id,time", "time", 1)), "row 2 of the file has 4 fields, the header has 3")
    many = "id,time,a,b\n" + "0,0,1\n" * 50
    refuses(put(tmp_path, many), "row 2 of", "and 50 have not")


def test_rows_after_blank_and_folded_ones_keep_their_numbers(tmp_path):
    text = 'id,time,a,note\n\n0,0,1,"two\nlines"\n  \n0,1,x,z\n'
    refuses(put(tmp_path, text), "'x'", "row 6 of the file", columns=Columns("id", "time", values=("a",)))


def test_two_columns_of_one_name(tmp_path):
    refuses(put(tmp_path, GOOD.replace("a,b", "a,a")), "several columns are called 'a'")


def test_a_nul_byte_does_not_cut_a_cell(tmp_path):
    refuses(put(tmp_path, GOOD.replace("101.5", "10\x001.5")), "row 3 of the file holds a NUL byte")


def test_a_number_of_400_digits(tmp_path):
    refuses(put(tmp_path, GOOD.replace("101.5", "9" * 400)), "infinite value at position 1 (row 3 of the file)")
    whole = "id,time,a\n0,0,1\n0,1,2\n"
    refuses(put(tmp_path, whole.replace("2", "9" * 400)), "digits")
    refuses(put(tmp_path, whole.replace("0,1,", "0," + "9" * 400 + ",")), "digits")


# Identities


def test_ids_are_told_apart_as_they_are_written(tmp_path):
    text = "id,time,a,y\n007,0,1,01\n007,1,2,01\n7,0,3,1\n07,0,4,1\n"
    found = read(put(tmp_path, text), Columns("id", "time", "y"))
    assert found.ids is not None and found.ids.tolist() == ["007", "07", "7"]
    assert found.target is not None and found.target.tolist() == ["01", "1", "1"]


def test_ids_are_not_read_by_chunks(tmp_path):
    """What is read of a large file at once must not decide what an id is."""
    ids = [f"{i % 2_000:06d}" for i in range(200_000)]
    for i in (70_000, 150_001, 199_999):
        ids[i] = "A0"
    text = "id,time,a\n" + "".join(f"{name},{i},1\n" for i, name in enumerate(ids))
    found = read(put(tmp_path, text), COLUMNS)
    assert len(found) == 2_001 == len(set(ids)) and set(map(str, np.asarray(found.ids))) == set(ids)


def test_groups_are_not_read_by_chunks(tmp_path):
    """A group that is 7 in one part of a file and 007 in another would be on both sides of a split."""
    groups = [f"{i % 50:03d}" for i in range(60_000)]
    groups[-5] = "A0"
    text = "id,time,a,ward\n" + "".join(f"{i},0,1,{name}\n" for i, name in enumerate(groups))
    assert set(read_table(put(tmp_path, text), COLUMNS)["ward"]) == set(groups)


@given(st.lists(st.from_regex(r"[-+]?0{0,2}[0-9]{1,3}(\.[0-9])?|[A-C ]?[0-9]", fullmatch=True), min_size=1, max_size=8))
def test_as_many_samples_as_ids(tmp_path_factory, ids):
    path = tmp_path_factory.mktemp("ids") / "a.csv"
    path.write_text("id,time,a\n" + "".join(f"{name},{i},1\n" for i, name in enumerate(ids)))
    found = read(path, COLUMNS)
    stripped = len({name.strip() for name in ids})
    assert stripped <= len(found) <= len(set(ids))


@pytest.mark.parametrize(
    ("cells", "kind", "task"),
    [
        (["0", "1", "1"], "i", "classification"),
        (["0.5", "1", "2.25"], "f", "regression"),
        (["True", "False", "True"], "b", "classification"),
        (["yes", "no", "no"], "U", "classification"),
        (["1", "x", "2"], "U", "classification"),
        (["01", "02", "10"], "U", "classification"),
    ],
)
def test_targets_are_what_they_were(cells, kind, task, tmp_path):
    text = "id,time,a,y\n" + "".join(f"{i},{k},1,{cell}\n" for i, cell in enumerate(cells) for k in range(2))
    found = read(put(tmp_path, text), Columns("id", "time", "y")).target
    assert found is not None and found.dtype.kind == kind and guess_task(found) == task
    assert found.astype(float).tolist() == list(map(float, cells)) if kind in "if" else len(found) == 3


def test_a_target_on_some_rows_only(tmp_path):
    text = "id,time,a,y\n0,0,1,\n0,1,1,3\n1,0,1,4\n"
    with pytest.raises(InputError, match="'y': empty in row 2"):
        read(put(tmp_path, text), Columns("id", "time", "y"))


def test_ids_that_are_numbers_stay_in_their_order(tmp_path):
    """A run's split depends on it."""
    for ids in ([10, 9, 1], [10.5, 9.5, 1.5], [-1, 0, 5]):
        text = "id,time,a\n" + "".join(f"{name},0,1\n" for name in ids)
        assert np.asarray(read(put(tmp_path, text), COLUMNS).ids).tolist() == sorted(ids)


# Packed, and what claims to be


@pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.bz2", "a.txt.XZ", "a.zip", "a.TSV"])
def test_packed_files(name, tmp_path):
    text = (GOOD.replace(",", "\t") if "tsv" in name.lower() else GOOD).encode()
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}.get(name.lower().rpartition(".")[2], bytes)
    path = put(tmp_path, pack(text), name)
    if name == "a.zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.csv", text)
    np.testing.assert_array_equal(read(path, COLUMNS).values, read(put(tmp_path, GOOD, "good.csv"), COLUMNS).values)


def test_parquet_by_its_short_name(tmp_path):
    table = read_table(put(tmp_path, GOOD), COLUMNS)
    table.to_parquet(tmp_path / "a.pq")
    np.testing.assert_array_equal(read(tmp_path / "a.pq", COLUMNS).values, read(tmp_path / "a.csv", COLUMNS).values)


@pytest.mark.parametrize(
    "name", ["a.zip", "a.csv.gz", "a.csv.bz2", "a.csv.xz", "a.csv.zst", "a.tar", "a.tar.gz", "a.parquet", "a.pq"]
)
@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04" + bytes(30), GOOD.encode(), gzip.compress(GOOD.encode() * 40)[:60]],
    ids=["empty", "half-a-zip", "text", "half-a-gz"],
)
def test_files_that_are_not_what_their_name_says(name, content, tmp_path):
    refuses(put(tmp_path, content, name), f"cannot read {tmp_path / name}")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_file_cut_anywhere(pack, tmp_path):
    whole = pack(("id,time,a\n" + "".join(f"0,{i},{i * i}\n" for i in range(300))).encode())
    name = {gzip.compress: "a.gz", bz2.compress: "a.bz2", lzma.compress: "a.xz"}[pack]
    for cut in range(0, len(whole), 7):
        refuses(put(tmp_path, whole[:cut], name), "cannot read")


def test_a_zip_of_several_tables(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", GOOD)
        archive.writestr("b.csv", GOOD)
    refuses(tmp_path / "a.zip", "it holds 2 files")


ANYTHING = st.binary(max_size=80) | st.text(max_size=80).map(str.encode)


@given(ANYTHING, st.sampled_from(["csv", "tsv", "gz", "xz", "zip", "parquet"]))
def test_an_error_of_ours_or_a_table(tmp_path_factory, content, ending):
    path = tmp_path_factory.mktemp("any") / f"a.{ending}"
    path.write_bytes(content)
    with warnings.catch_warnings(), suppress(InputError):
        warnings.simplefilter("ignore", LeapWarning)
        assert isinstance(read_table(path, COLUMNS), pd.DataFrame)

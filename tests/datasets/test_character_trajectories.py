"""CharacterTrajectories and its file format: the real archive reads right, and broken files say where."""

from __future__ import annotations

import time
import warnings
import zipfile

import numpy as np
import pytest

from leapcde.datasets import character_trajectories as letters
from leapcde.datasets._io.ts_file import parse_ts, read_ts
from leapcde.errors import InputError, LeapWarning

HEADER = "@problemName T\n@timeStamps false\n@univariate false\n@dimensions 2\n@classLabel true a b\n@data\n"
CASES = "0,0,1,2,0:0,0,3,0,0:0,0,0,4,0:1\n5,6:7,8:9,10:2\n"
THREE = "@dimensions 3\n@classLabel true 1 2\n@data\n"


@pytest.fixture(scope="module")
def read_once() -> dict:
    """Keeps the archive between tests: data_dir may belong to one test only, the archive need not be read again."""
    return {}


@pytest.fixture
def series(data_dir, read_once):
    if "series" not in read_once:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            read_once["series"] = letters.load(data_dir)
    return read_once["series"]


def make_zip(folder, train=THREE + CASES, test=THREE + CASES, inside=""):
    path = folder / letters.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in zip(letters.PARTS, (train, test), strict=True):
            if text is not None:
                archive.writestr(inside + name, text)
        archive.writestr("__MACOSX/._" + letters.PARTS[0], b"\x00\xff")
    return path


def read(folder):
    with pytest.warns(LeapWarning, match="2858"):
        return letters.load(folder)


# The real archive


def test_real_archive(series):
    assert len(series) == 2858 and series.channels == ("x", "y", "force")
    assert (series.lengths.min(), series.lengths.max()) == (60, 182)
    labels, counts = np.unique(series.target, return_counts=True)
    assert set(labels) == {str(i) for i in range(1, 21)} and counts.min() > 100
    assert np.isfinite(series.values).all()
    first_rows = series.offsets[:-1]
    assert (series.times[first_rows] == 0).all() and (series.times[series.offsets[1:] - 1] == series.lengths - 1).all()


def test_real_archive_has_no_row_that_stripping_could_mistake_for_padding(series):
    assert (series.values != 0).any(axis=1).all()


def test_real_archive_with_padding_put_back_reads_the_same(series):
    rng = np.random.default_rng(0)
    for i in rng.choice(len(series), 50, replace=False):
        values = series.sample(i)[1]
        padded = np.pad(values, ((rng.integers(0, 20), rng.integers(0, 20)), (0, 0)))
        np.testing.assert_array_equal(letters.strip_padding(padded), values)


def test_real_archive_is_fast(data_dir):
    begin = time.process_time()
    letters.load(data_dir)
    assert time.process_time() - begin < 4  # about 0.7 s; four leaves room for a busy machine


# The loader


def test_padding_is_stripped_at_the_ends_only(tmp_path):
    make_zip(tmp_path)
    series = read(tmp_path)
    assert series.lengths.tolist() == [2, 2, 2, 2] and series.target.tolist() == ["1", "2", "1", "2"]
    np.testing.assert_array_equal(series.sample(0)[1], [[1, 3, 0], [2, 0, 4]])
    np.testing.assert_array_equal(series.sample(0)[0], [0, 1])


def test_train_comes_before_test(tmp_path):
    make_zip(tmp_path, test=THREE + "1:1:1:2\n", inside="CharacterTrajectories/")
    assert read(tmp_path).target.tolist() == ["1", "2", "2"]


def test_stripping_keeps_missing_values_and_inner_zeros():
    values = np.array([[0, 0], [np.nan, 0], [0, 0], [1, 0], [0, 0.0]])
    np.testing.assert_array_equal(letters.strip_padding(values), values[1:4])
    assert letters.strip_padding(np.zeros((3, 2))).shape == (0, 2)


def test_missing_file_says_where_and_how(tmp_path):
    with pytest.raises(InputError) as caught:
        letters.load(tmp_path)
    for word in (str(tmp_path / letters.FILE), "timeseriesclassification.com", "LEAPCDE_DATA", "--data-dir"):
        assert word in str(caught.value)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_truncated_zip(tmp_path, keep):
    path = make_zip(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(InputError, match=r"CharacterTrajectories\.zip.*download it again"):
        letters.load(tmp_path)


def test_damaged_zip(tmp_path):
    path = make_zip(tmp_path)
    content = bytearray(path.read_bytes())
    content[70:90] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"CharacterTrajectories\.zip"):
        letters.load(tmp_path)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (None, "has no CharacterTrajectories_TRAIN.ts"),
        (HEADER + "1:2:a\n", "2 dimensions, expected 3"),
        ("@dimensions 3\n@classLabel false\n@data\n1:2:3\n", "no class labels"),
        (THREE + "1:1:1:1\n0,0:0,0:0,0:2\n", "case 2 holds nothing but zeros"),
        (THREE + "1:1:x:1\n", r"CharacterTrajectories_TRAIN\.ts, line 4: dimension 3: 'x' is not a number"),
    ],
)
def test_wrong_members(tmp_path, train, message):
    make_zip(tmp_path, train=train)
    with pytest.raises(InputError, match=message):
        letters.load(tmp_path)


# The file format


def test_unequal_lengths_missing_values_and_labels():
    values, labels = parse_ts("# note\n" + HEADER + "1,2,?:4, NaN,6 : a\n\n7e-1:-8:b\n")
    np.testing.assert_array_equal(values[0], [[1, 4], [2, np.nan], [np.nan, 6]])
    np.testing.assert_array_equal(values[1], [[0.7, -8]])
    assert labels.tolist() == ["a", "b"] and labels.dtype.kind == "U"


def test_spelling_of_headers_line_ends_and_byte_order_mark_do_not_matter():
    text = "\ufeff" + HEADER.lower().replace("\n", "\r\n") + "1:2:a\r\n"
    values, labels = parse_ts(text.encode("utf-8"))
    assert values[0].tolist() == [[1, 2]] and labels.tolist() == ["a"]


def test_without_labels():
    values, labels = parse_ts("@classLabel false\n@data\n1,2:3,4\n")
    assert labels is None and values[0].shape == (2, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        ("@dimensions 2\n", "no @data"),
        (HEADER, r"no cases after @data \(line 6\)"),
        ("1,2:3,4:a\n", "line 1: expected a header line"),
        ("@dimensions two\n@data\n1:2:a\n", "line 1: @dimensions needs"),
        ("@timeStamps true\n@data\n(0,1):a\n", "line 1: files with time stamps"),
        (HEADER + "1:2:3:a\n", "line 7: 3 dimensions, expected 2"),
        ("@univariate true\n@data\n1:2:a\n", "line 3: 2 dimensions, expected 1"),
        ("@data\n1:2:a\n1:a\n", "line 3: 1 dimensions, expected 2"),
        (HEADER + "1:2:c\n", "line 7: class label 'c' is not among"),
        (HEADER + "1,2:3,4\n", "line 7: class label '3,4' is not among"),
        (HEADER + "1,2:3,4:\n", "line 7: no class label"),
        (HEADER + "1,2:3:a\n", "line 7: dimensions have 2, 1 values"),
        (HEADER + "1,2:3,four:a\n", "line 7: dimension 2: 'four' is not a number"),
        (HEADER + "1,2:3,:a\n", "line 7: dimension 2: '' is not a number"),
        (HEADER + "1,2::a\n", "line 7: dimension 2 has no values"),
        (HEADER.encode() + b"\xff:1:a\n", "line 7: not UTF-8"),
    ],
)
def test_broken_files_say_where(text, message):
    with pytest.raises(InputError, match=message) as caught:
        parse_ts(text, "some.ts")
    assert "some.ts" in str(caught.value)


def test_every_problem_is_shown():
    with pytest.raises(InputError) as caught:
        parse_ts(HEADER + "1:x:a\n1:2:b\n1:2:c\n")
    assert len(caught.value.problems) == 2


def test_reading_a_path(tmp_path):
    path = tmp_path / "some.ts"
    path.write_text(HEADER + "1:2:a\n", encoding="utf-8")
    assert read_ts(path).labels.tolist() == ["a"]
    with pytest.raises(InputError, match=r"none\.ts"):
        read_ts(tmp_path / "none.ts")

"""PhysioNet Sepsis 2019: the real zips give the published figures, and broken files say which line is wrong."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from leapcde.data.series import check
from leapcde.datasets import sepsis
from leapcde.datasets._io import cache
from leapcde.datasets._io.psv_files import read_tables
from leapcde.errors import InputError

HEAD = "|".join(sepsis.COLUMNS)


def row(hour: int, label: int = 0, heart: str = "80", age: str = "50") -> str:
    return "|".join([heart, *["NaN"] * 33, age, "1", "NaN", "NaN", "-3.5", str(hour), str(label)])


def text(*rows: str, head: str = HEAD) -> str:
    return "\n".join([head, *rows]) + "\n"


def make(folder: Path, a: dict[str, str] | None = None, b: dict[str, str] | None = None) -> Path:
    """Two zips in the official layout; by default four patients."""
    plain = text(*[row(hour) for hour in range(1, 6)])
    late = text(*[row(hour, int(hour > 6), heart=str(hour)) for hour in (5, 6, 9)])
    a = a or {"p000001": plain, "p000002": late}
    b = b or {"p100001": text(row(1), row(2)), "p100002": text(*[row(hour, int(hour > 75)) for hour in range(70, 80)])}
    home = folder / "sepsis"
    home.mkdir(parents=True, exist_ok=True)
    for name, files in zip(sepsis.SETS, (a, b), strict=True):
        with zipfile.ZipFile(home / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for patient, content in files.items():
                archive.writestr(f"{name}/{patient}.psv", content)
    return folder


@pytest.fixture(scope="module")
def kept() -> dict:
    return {}


@pytest.fixture
def real(data_dir, kept):
    if "arrays" not in kept:
        home = Path(data_dir)
        kept["arrays"], _ = cache.prepared(
            "sepsis", sepsis.files(home), {"version": sepsis.VERSION}, home, lambda: sepsis.prepare(home)
        )
    return kept["arrays"]


# The real files


def test_real_files_have_the_published_figures(real):
    series = check(sepsis.select(real, sepsis.Options()))
    assert len(series) == 40_333 and series.target.sum() == 2_188
    assert series.channels == sepsis.CHANNELS and len(series.channels) == 34
    assert series.times.min() == 1 and series.times.max() == 72
    gone = set(np.asarray(real["ids"]).tolist()) - set(series.ids.tolist())
    assert gone == {"p010482", "p010919", "p013634"}
    assert series.values.dtype == np.float32 and np.nanmin(series.values[:, sepsis.CHANNELS.index("FiO2")]) == -50


def test_late_records_keep_their_hours(real):
    admission, record = (sepsis.select(real, sepsis.Options(start=start)) for start in ("admission", "record"))
    first = record.times[record.offsets[:-1]]
    assert (first > 1).sum() == 8_793 - 3  # three of them start after hour 72
    assert (admission.times[admission.offsets[:-1]] == 1).all()
    i = int(np.argmax(first == 5))
    hours, values = admission.sample(i)
    assert hours[:2].tolist() == [1, 5] and np.isnan(values[0]).all()
    np.testing.assert_array_equal(hours[1:], record.sample(i)[0])
    np.testing.assert_array_equal(values[1:], record.sample(i)[1])


def test_one_real_record_by_hand(real, data_dir):
    """Parsed without any of our code: the csv module and float."""
    import csv
    import io

    with zipfile.ZipFile(Path(data_dir) / "sepsis" / "training_setB.zip") as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read("training_setB/p100123.psv").decode()), delimiter="|"))
    series = sepsis.select(real, sepsis.Options(start="record", statics=True))
    i = int(np.flatnonzero(series.ids == "p100123")[0])
    hours, values = series.sample(i)
    kept = [r for r in rows if float(r["ICULOS"]) <= 72]
    np.testing.assert_array_equal(hours, [float(r["ICULOS"]) for r in kept])
    np.testing.assert_array_equal(values, np.array([[float(r[c]) for c in sepsis.CHANNELS] for r in kept], np.float32))
    np.testing.assert_array_equal(series.static[i], np.array([float(rows[0][c]) for c in sepsis.STATIC], np.float32))
    assert series.target[i] == max(int(r["SepsisLabel"]) for r in kept)


def test_prepared_file_gives_the_same_and_is_mapped(real, data_dir, prepared_files):
    def never():
        raise AssertionError("parsed again")

    home = Path(data_dir)
    again, notes = cache.prepared("sepsis", sepsis.files(home), {"version": sepsis.VERSION}, home, never)
    assert isinstance(again["values"], np.memmap) and notes["records"] == 40_336
    assert np.array_equal(again["values"], real["values"], equal_nan=True) and np.array_equal(again["ids"], real["ids"])


# What the paper does


def test_hours_labels_and_short_records(tmp_path):
    make(tmp_path)
    series = sepsis.read(tmp_path, sepsis.Options()).series
    # p100001 has two rows and goes; of p100002 hours 70 to 72 stay, and its sepsis comes later than that
    assert series.ids.tolist() == ["p000001", "p000002", "p100002"] and series.target.tolist() == [0, 1, 0]
    assert [series.sample(i)[0].tolist() for i in (1, 2)] == [[1, 5, 6, 9], [1, 70, 71, 72]]
    longer = sepsis.read(tmp_path, sepsis.Options(hours=100, start="record")).series
    assert longer.lengths.tolist() == [5, 3, 10] and longer.target.tolist() == [0, 1, 1]
    shorter = sepsis.read(tmp_path, sepsis.Options(hours=8)).series
    assert shorter.ids.tolist() == ["p000001"] and shorter.static is None


def test_statics_are_those_of_the_first_row(tmp_path):
    make(tmp_path)
    static = sepsis.read(tmp_path, sepsis.Options(statics=True)).series.static
    np.testing.assert_array_equal(static[0], [50, 1, np.nan, np.nan, -3.5])


def test_folders_read_as_zips_do(tmp_path):
    make(tmp_path)
    packed = sepsis.read(tmp_path, sepsis.Options()).series
    for name in sepsis.SETS:
        path = tmp_path / "sepsis" / f"{name}.zip"
        with zipfile.ZipFile(path) as archive:
            archive.extractall(tmp_path / "sepsis")
        path.unlink()
    plain = sepsis.read(tmp_path, sepsis.Options()).series
    assert np.array_equal(packed.values, plain.values, equal_nan=True) and packed.ids.tolist() == plain.ids.tolist()


def test_line_ends_and_empty_cells_do_not_matter(tmp_path):
    odd = text(*[row(hour, heart="") for hour in (1, 2, 3)]).replace("\n", "\r\n").rstrip()
    series = sepsis.read(make(tmp_path, a={"p000001": odd}), sepsis.Options()).series
    assert np.isnan(series.sample(0)[1]).all() and series.sample(0)[0].tolist() == [1, 2, 3]


# Broken files

FINE = [row(hour) for hour in (1, 2, 3)]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", 1, "the file is empty"),
        ("\n\n", 1, "the file is empty"),
        (HEAD + "\n", 1, "no rows follow the header"),
        (text(*FINE, head=HEAD.replace("|HR", "").replace("HR|", "")), 1, "no column 'HR'"),
        (text(*FINE, head=HEAD + "|Extra"), 1, "unknown 'Extra'"),
        (text(*FINE).replace("|", ","), 1, "separated by commas"),
        (text(*FINE).replace("|", "\t"), 1, "separated by tabs"),
        (text(*FINE, head="|".join(reversed(sepsis.COLUMNS))), 1, "another order"),
        (text(row(1), row(2)[:-4], row(3)), 3, "39 cells, expected 41"),
        (text(row(1), row(2) + "|7", row(3)), 3, "42 cells, expected 41"),
        (text(row(1), "", row(2), row(3)), 3, "1 cells, expected 41"),
        (text(row(1), row(2, heart="high"), row(3)), 3, "column 'HR': 'high' is not a finite number"),
        (text(row(1), row(2, heart="inf"), row(3)), 3, "'inf' is not a finite number"),
        (text(row(1), row(2, heart="1e99"), row(3)), 3, "'1e99' is not a finite number"),
        (text(row(1), row(2, heart='"80"'), row(3)), 3, "is not a finite number"),
        (text(row(1), row(3), row(2)), 4, "ICULOS is 2"),
        (text(row(1), row(2), row(2)), 4, "ICULOS is 2"),
        (text(row(0), row(1), row(2)), 2, "ICULOS is 0"),
        (text(row(1), row(2).replace("|2|0", "|2.5|0"), row(3)), 3, "ICULOS is 2.5"),
        (text(row(1), row(2).replace("|2|0", "|NaN|0"), row(3)), 3, "ICULOS is nan"),
        (text(row(1), row(2, label=2), row(3)), 3, "SepsisLabel is 2"),
        (text(row(1), row(2, heart="8\xe9"), row(3)), 3, "not plain text"),
    ],
)
def test_broken_records_say_where(tmp_path, prepared_files, content, line, message):
    home = make(tmp_path, b={"p100001": text(*FINE), "p100002": content, "p100003": text(*FINE)})
    before = sorted(prepared_files.glob("*"))
    with pytest.raises(InputError) as caught:
        sepsis.read(home, sepsis.Options())
    assert f"training_setB.zip/training_setB/p100002.psv, line {line}: " in str(caught.value)
    assert message in str(caught.value) and len(caught.value.problems) == 1
    assert sorted(prepared_files.glob("*")) == before


def test_all_broken_files_are_listed():
    with pytest.raises(InputError) as caught:
        read_tables([("a", b"x|y\n1|2|3"), ("b", b"x|y\n1|2"), ("c", b"")], ["x", "y"])
    assert [p.split(":")[0] for p in caught.value.problems] == ["a, line 2", "c, line 1"]


@pytest.mark.parametrize("keep", [0.0, 0.4, 0.97])
def test_truncated_zip(tmp_path, keep):
    path = make(tmp_path) / "sepsis" / "training_setB.zip"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(InputError, match=r"training_setB\.zip.*download it again"):
        sepsis.read(tmp_path, sepsis.Options())


def test_damaged_member(tmp_path):
    path = make(tmp_path) / "sepsis" / "training_setB.zip"
    content = bytearray(path.read_bytes())
    content[60:80] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"training_setB\.zip"):
        sepsis.read(tmp_path, sepsis.Options())


def test_names_that_point_outside(tmp_path):
    make(tmp_path, b={"../../p100001": text(*FINE)})
    with pytest.raises(InputError, match=r"training_setB\.zip: the name 'training_setB/\.\./\.\./p100001\.psv' points outside"):
        sepsis.read(tmp_path, sepsis.Options())


def test_missing_sets_doubled_and_swapped_records(tmp_path):
    with pytest.raises(InputError, match=r"data fetch sepsis") as caught:
        sepsis.read(tmp_path, sepsis.Options())
    assert len(caught.value.problems) == 2
    with pytest.raises(InputError, match="there twice: p000001"):
        sepsis.read(make(tmp_path / "twice", b={"p000001": text(*FINE)}), sepsis.Options())
    with pytest.raises(InputError, match="swapped"):
        sepsis.read(make(tmp_path / "swapped", a={"p100009": text(*FINE)}), sepsis.Options())
    home = make(tmp_path / "none")
    with zipfile.ZipFile(home / "sepsis" / "training_setA.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    with pytest.raises(InputError, match=r"no \.psv files"):
        sepsis.read(home, sepsis.Options())

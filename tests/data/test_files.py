"""Files and dates as people have them: read if that can be done in one way only, refused with the row if not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from leapcde.data.columns import Columns
from leapcde.data.dates import seconds_or_numbers
from leapcde.data.delimited import read_table, sniff
from leapcde.data.read import from_table
from leapcde.data.table_file import read
from leapcde.errors import InputError, LeapWarning, Problems, choose
from samples import fits, problems, same

COLUMNS = Columns("who", "when", "ill")
PLAIN = pd.DataFrame(
    {"who": [1, 1, 2, 2], "when": [0.0, 1.5, 0.25, 3.0], "hr": [80.5, np.nan, 95.25, 1234.5], "ill": ["no", "no", "yes", "yes"]}
)


def written(folder: Path, table: pd.DataFrame, **how) -> Path:
    path = folder / "a.csv"
    table.to_csv(path, index=False, **how)
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_separator(separator, tmp_path):
    same(read(written(tmp_path, PLAIN, sep=separator), COLUMNS), from_table(PLAIN, id="who", time="when", target="ill"))


def test_the_separator_is_what_splits_all_lines_alike(tmp_path):
    for text, mark in (
        ("time;pressure, mmHg\n1;2\n3;4\n", ";"),
        ("a,b\n'x;y',2\n", ","),
        ('a,b\n"x;y;z",2\n', ","),
        ("\ufeffa;b\n1,5;2,5\n1,5;2,5\n", ";"),
        ("a|b;c|d\n1|2|3\n", "|"),
    ):
        (tmp_path / "a.csv").write_text(text, encoding="utf-8")
        assert sniff(tmp_path / "a.csv") == mark


def test_decimal_commas_are_read_and_said(tmp_path):
    path = written(tmp_path, PLAIN, sep=";", decimal=",")
    with pytest.warns(LeapWarning, match="decimal commas were read as such, in: when, hr"):
        series = read(path, COLUMNS)
    same(series, from_table(PLAIN, id="who", time="when", target="ill"))


@pytest.mark.parametrize(
    ("cells", "numbers", "said"),
    [
        (["1,5", "2", "-3,25e2"], [1.5, 2, -325], "decimal commas"),
        (["1.234,5", "7", "8"], [1234.5, 7, 8], "decimal commas"),
        (["1,234.5", "7", "12"], [1234.5, 7, 12], "commas between thousands"),
        (["1,234,567", "", "7"], [1234567, np.nan, 7], "commas between thousands"),
    ],
)
def test_commas_in_numbers(cells, numbers, said, tmp_path):
    (tmp_path / "a.csv").write_text("a;b\n" + "".join(f"1;{cell}\n" for cell in cells))
    with pytest.warns(LeapWarning, match=said):
        np.testing.assert_array_equal(read_table(tmp_path / "a.csv")["b"], numbers)


def test_one_column_settles_how_commas_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("a;b;c\n1;1,234;0,5\n1;2,345;1,5\n")
    with pytest.warns(LeapWarning, match="decimal commas"):
        assert read_table(tmp_path / "a.csv")["b"].tolist() == [1.234, 2.345]


def test_commas_that_may_be_two_things_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("who;when;hr\n1;0;1,234\n1;1;2,345\n")
    fits(
        problems(tmp_path / "a.csv", Columns("who", "when"), make=read),
        ("column 'hr'", "text ('1,234') in row 2 of the file", "with a point"),
    )


def test_a_wrong_cell_among_decimal_commas_is_the_one_named(tmp_path):
    (tmp_path / "a.csv").write_text("who;when;hr\n1;0;1,5\n1;1;n/k\n\n1;2;2,5\n1;3;3,5\n")
    with pytest.warns(LeapWarning, match="decimal commas"):
        fits(
            problems(tmp_path / "a.csv", Columns("who", "when"), make=read),
            ("column 'hr'", "text ('n/k') in row 3 of the file"),
        )


def test_rows_are_those_of_the_file(tmp_path):
    (tmp_path / "a.csv").write_text("who,when,hr,ill\n\n1,0,1,no\n1,0,2,no\n\n,3,4,yes\n2,1,inf,yes\n2,2,1,no\n")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "a.csv", COLUMNS)
    fits(caught.value.problems, ("column 'who'", "empty in row 6 of the file"))
    (tmp_path / "a.csv").write_text("who,when,hr,ill\n\n1,0,1,no\n1,0,2,no\n\n2,1,inf,yes\n2,2,1,no\n")
    fits(
        problems(tmp_path / "a.csv", COLUMNS, make=read),
        ("id 2", "'ill' changes", "row 7 of the file"),
        ("id 1", "appears twice", "row 4 of the file"),
        ("id 2", "infinite", "row 6 of the file"),
    )


def test_rows_of_a_table_are_called_by_its_index():
    table = PLAIN.assign(hr=["80", "x", "95", "12"])
    shuffled = table.set_index(pd.Index([40, 30, 20, 10]))
    fits(problems(shuffled, make=from_table, id="who", time="when", target="ill"), ("column 'hr'", "text ('x') in row 30"))


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes("who,when,größe\n1,0,2\n".encode("latin-1"))
    fits(problems(tmp_path / "a.csv", make=read_table), ("not text in UTF-8", "save it so"))


# Dates

MOMENTS = [dt.datetime(2024, 4, 3, 9, 5), dt.datetime(2024, 4, 13, 21, 30), dt.datetime(2024, 12, 1)]
SECONDS = [moment.replace(tzinfo=dt.UTC).timestamp() for moment in MOMENTS]


def seconds(cells, **how) -> np.ndarray:
    found = Problems()
    answer = seconds_or_numbers(cells, "column 'when'", found, **how)
    found.raise_if_any("no")
    return answer


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y/%m/%d %H:%M",
        "%Y.%m.%d %H:%M",
        "%d.%m.%Y %H:%M",
        "%d.%m.%y %H:%M:%S",
        "%d/%m/%Y %H:%M",
        "%m/%d/%Y %I:%M %p",
        "%m/%d/%y %H:%M",
        "%d-%m-%Y %H:%M:%S.%f",
        "%d %b %Y %H:%M",
        "%B %d, %Y %H:%M",
        "%d-%b-%Y %H:%M",
        "%d-%b-%YT%H:%M",
    ],
)
def test_dates_in_many_formats(form):
    cells = np.array([*(moment.strftime(form) for moment in MOMENTS), None], object)
    np.testing.assert_array_equal(seconds(cells), [*SECONDS, np.nan])
    np.testing.assert_array_equal(seconds(cells[:3].astype(str)), SECONDS)
    np.testing.assert_array_equal(seconds(cells, time_format=form), [*SECONDS, np.nan])


def test_day_or_month_first_must_be_told():
    cells = ["03/04/2024", "05/06/2024"]
    with pytest.raises(InputError) as caught:
        seconds(cells, row_name=lambda i: f"row {i + 2} of the file")
    fits(
        caught.value.problems,
        ("'03/04/2024' in row 2 of the file", "2024-04-03 (time_format='%d/%m/%Y')", "2024-03-04 (time_format='%m/%d/%Y')"),
    )
    for form, day in (("%d/%m/%Y", "2024-04-03"), ("%m/%d/%Y", "2024-03-04")):
        assert seconds(cells, time_format=form)[0] == pd.Timestamp(day).timestamp()
    same_either_way = seconds(["01/01/2024", "02/02/2024"])
    assert np.diff(same_either_way).tolist() == [32 * 86400.0]


@pytest.mark.parametrize(
    ("cells", "form", "words"),
    [
        (["03/04/2024", "13/04/2024"], "%m/%d/%Y", ("'13/04/2024' in position 1", "time_format='%m/%d/%Y'", "%d day")),
        (["03/04/2024"], "DD/MM/YYYY", ("'03/04/2024'", "time_format='DD/MM/YYYY'", "%d day, %m month")),
        (["03/04/2024"], "%d/%Q", ("time_format='%d/%Q' cannot be read", "bad directive", "%d day")),
        ([20240101, 20241301], "%Y%m%d", ("'20241301' in position 1",)),
        (["2024-05-01", "soon"], None, ("text ('soon')", "position 1", "2024-05-01 10:00")),
        (["13.05.2024", "14.05.2024", "?"], None, ("text ('?')", "position 2")),
        (["2024-05-01 10:00Z", "2024-05-01 11:00"], None, ("position 1 has no time zone", "position 0 has one")),
        (["2024-05-01 10:00+02:00", "2024-05-01 11:00-0500"], None, ("mixed time zones", "UTC-5", "UTC+2")),
        ([MOMENTS[0], MOMENTS[1].replace(tzinfo=dt.UTC)], None, ("position 0 has no time zone",)),
    ],
)
def test_times_that_cannot_be_read(cells, form, words):
    with pytest.raises(InputError) as caught:
        seconds(np.array(cells, object), time_format=form)
    fits(caught.value.problems, words)


def test_zones_become_utc_and_that_is_said():
    berlin = [moment.replace(tzinfo=ZoneInfo("Europe/Berlin")) for moment in MOMENTS]
    expected = [moment.timestamp() for moment in berlin]
    for cells in ([moment.isoformat() for moment in berlin], [moment.strftime("%d.%m.%Y %H:%M %z") for moment in berlin]):
        with pytest.warns(LeapWarning, match=r"times in UTC\+1 and UTC\+2 are read as UTC"):
            np.testing.assert_array_equal(seconds(cells, row_name=str), expected)
    np.testing.assert_array_equal(
        seconds(np.array(berlin, object), row_name=str), expected
    )  # they carry their zone; nothing to say
    np.testing.assert_array_equal(seconds([m.strftime("%Y-%m-%d %H:%M UTC") for m in MOMENTS]), SECONDS)


def test_dates_without_marks_are_numbers_unless_a_format_is_given():
    table = PLAIN[:2].assign(when=[20240501, 20240601])
    with pytest.warns(LeapWarning, match="20240501 is read as a number; if it is a date, say time_format='%Y%m%d'"):
        assert from_table(table, id="who", time="when", target="ill").times.tolist() == [20240501, 20240601]
    dated = from_table(table, id="who", time="when", target="ill", time_format="%Y%m%d")
    assert np.diff(dated.times).tolist() == [31 * 86400]
    assert np.isnan(seconds(np.array([20240501, np.nan]), time_format="%Y%m%d")).tolist() == [False, True]
    from_table(PLAIN[:2].assign(when=[20240501, 20249901]), id="who", time="when", target="ill")  # no date: nothing is said


def test_a_file_with_a_time_format(tmp_path):
    table = PLAIN.assign(when=["03/04/2024", "05/04/2024", "01/02/2024", "02/02/2024"])
    path = written(tmp_path, table)
    days = lambda **how: np.diff(read(path, Columns("who", "when", "ill", **how)).times)[[0, 2]] / 86400
    assert days(time_format="%d/%m/%Y").tolist() == [2, 1] and days(time_format="%m/%d/%Y").tolist() == [61, 31]
    fits(problems(path, Columns("who", "when", "ill"), make=read), ("'03/04/2024' in row 2 of the file", "say which"))
    assert "time_format" not in Columns("who").to_json()
    assert Columns.of(Columns("who", time_format="%d").to_json()).time_format == "%d"


def test_did_you_mean():
    fits(problems(PLAIN, make=from_table, id="Who", time="whn"), ("'Who'; did you mean 'who'?",), ("did you mean 'when'?",))
    with pytest.raises(InputError, match="did you mean 'lstm'"):
        choose("model", "lsmt", ["gru", "lstm"])

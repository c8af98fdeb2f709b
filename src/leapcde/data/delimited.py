"""Files of rows and columns as people have them: whatever separates the columns, whatever marks the decimals."""

from __future__ import annotations

import csv
import mmap
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leapcde.data.columns import Columns
from leapcde.data.dates import seconds_or_numbers
from leapcde.data.parse import COMMA, FILE_ROW, row_names
from leapcde.errors import InputError, LeapWarning, Problems, need

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
LOOK = 2**16  # bytes from which the separator is guessed
DECIMAL = r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][-+]?\d+)?"  # 1.234,5
THOUSANDS = r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d+)?"  # 1,234.5


def read_table(path: Path, columns: Columns | None = None) -> Any:
    """A file with columns separated by commas, semicolons, tabs or bars, or a Parquet file, as a pandas table.

    Its index holds the rows of the file, for messages. Where `columns` has a time format, its times are seconds.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        if path.suffix == ".parquet":
            need("pyarrow", "parquet")
            table = pd.read_parquet(path)
        else:
            table = _read_text(path)
    except UnicodeDecodeError:
        raise InputError(f"cannot read {path}: it is not text in UTF-8; save it so, or as Parquet") from None
    except (ValueError, OSError) as error:  # pandas' parser errors are ValueErrors
        raise InputError(f"cannot read {path}: {error}") from None
    if len(table.columns) == 1:
        raise InputError(
            f"cannot read {path}: it has one column only ({str(table.columns[0])!r}); "
            f"columns are separated by {', '.join(SEPARATORS.values())}"
        )
    return _with_times(table, columns)


def _read_text(path: Path) -> Any:
    separator = sniff(path)
    table = _without_commas(pd.read_csv(path, sep=separator))
    table.index = pd.Index(_rows(path, len(table)), name=FILE_ROW)
    return table


def sniff(path: Path) -> str:
    """What separates the columns: what splits the first line and splits most others into as many."""
    with path.open("rb") as file:
        text = file.read(LOOK)
    lines = [line for line in text.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    lines = lines[: max(1, len(lines) - 1)] if len(text) == LOOK else lines  # the last one is cut
    return max(SEPARATORS, key=lambda mark: _fit(lines, mark))


def _fit(lines: list[str], mark: str) -> tuple[float, int]:
    """How many lines have as many cells as the first, and how many cells that is; nothing if it is one."""
    try:
        counts = [len(row) for row in csv.reader(lines, delimiter=mark)]
    except csv.Error:
        counts = []
    if not counts or counts[0] < 2:
        return 0.0, 0
    return Counter(counts)[counts[0]] / len(counts), counts[0]


def _rows(path: Path, count: int) -> np.ndarray:
    """The row of the file from which each row of the table comes: pandas skips those that are blank."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        blank = re.search(rb"(?:^|\n)[ \t\r]*\n", data) is not None
    if not blank:
        return np.arange(2, count + 2)
    with path.open("rb") as file:
        rows = [number for number, line in enumerate(file, 1) if line.strip()]
    return np.array(rows[1 : count + 1]) if len(rows) > count else np.arange(2, count + 2)


def _without_commas(table: Any) -> Any:
    """Numbers with commas as numbers, where all of the file can be read in one way only; else they stay text."""
    marked = {name: ways for name in table.columns if (ways := _ways(table[name]))}
    common = set.intersection(*marked.values()) if marked else set()
    if len(common) != 1:
        return table
    form = common.pop()
    for name in marked:
        table[name] = _plain(table[name], form)
    what = "decimal commas" if form == DECIMAL else "commas between thousands"
    message = f"numbers with {what} were read as such, in: {', '.join(map(str, marked))}"
    warnings.warn(message, LeapWarning, stacklevel=5)
    return table


def _ways(column: Any) -> set[str]:
    """In which ways the commas of a column, of which most cells are such numbers, can be read."""
    if pd.api.types.is_numeric_dtype(column):
        return set()
    cells = column.dropna().astype(str).str.strip()
    with_comma = cells[cells.str.fullmatch(COMMA)]
    if with_comma.empty:
        return set()
    ways = {form for form in (DECIMAL, THOUSANDS) if with_comma.str.fullmatch(form).all()}
    return {form for form in ways if cells.str.fullmatch(form).mean() > 0.5}


def _plain(column: Any, form: str) -> Any:
    """Numbers in the way that computers write them; text stays as it is."""
    drop, point = (".", ",") if form == DECIMAL else (",", ".")
    text = column.astype("string").str.strip()
    plain = text.str.replace(drop, "", regex=False).str.replace(point, ".", regex=False)
    plain = plain.where(text.str.fullmatch(form).fillna(False).astype(bool), text)
    found: Any = pd.to_numeric(plain, errors="coerce")
    whole = bool(found.isna().eq(column.isna()).all())
    return found.astype(float) if whole else plain.astype(object).where(plain.notna(), np.nan)


def _with_times(table: Any, columns: Columns | None) -> Any:
    if columns is None or columns.time_format is None or columns.time not in table.columns:
        return table
    problems, cells = Problems(), table[columns.time].to_numpy()
    how = {"time_format": columns.time_format, "row_name": row_names(table)}
    times = seconds_or_numbers(cells, f"column {columns.time!r}", problems, **how)
    problems.raise_if_any("cannot read the table")
    return table.assign(**{str(columns.time): times})

"""Files of rows and columns as people have them: whatever separates the columns, whatever marks the decimals."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import warnings
import zipfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leapcde.data.columns import Columns
from leapcde.data.dates import seconds_or_numbers
from leapcde.data.parse import COMMA, FILE_ROW, row_names
from leapcde.errors import SHOWN, InputError, LeapError, LeapWarning, Problems, need

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
PACKED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
OTHER_PACKED = (".zst", ".tar", ".tgz", ".7z", ".rar")
PARQUET = (".parquet", ".pq")
# Whatever else breaks while a file is read: the parser's own errors are ValueErrors.
BROKEN = (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, csv.Error, NotImplementedError)
LOOK = 2**16  # bytes from which the separator is guessed
DECIMAL = r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?(?:[eE][-+]?\d+)?"  # 1.234,5
THOUSANDS = r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d+)?"  # 1,234.5
YES_NO = {word: word.lower() == "true" for word in ("True", "TRUE", "true", "False", "FALSE", "false")}


def read_table(path: Path, columns: Columns | None = None) -> Any:
    """A file with columns separated by commas, semicolons, tabs or bars, packed or not, or a Parquet file, as a pandas table.

    Its index holds the rows of the file, for messages. Where `columns` has a time format, its times are seconds. Ids are text,
    or numbers where that is how the numbers are written: 7 and 007 are two.
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        if path.suffix.lower() in PARQUET:
            need("pyarrow", "parquet")
            table = pd.read_parquet(path)
        else:
            table = _read_text(path, columns or Columns())
    except LeapError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"cannot read {path}: it is not text in UTF-8; save it so, or as Parquet") from None
    except OverflowError:
        raise InputError(f"cannot read {path}: a whole number in it has more digits than any number can have here") from None
    except BROKEN as error:
        raise InputError(f"cannot read {path}: {str(error).strip() or 'it is cut short or damaged'}") from None
    if len(table.columns) == 1:
        raise InputError(f"cannot read {path}: it has one column only ({str(table.columns[0])!r})")
    return with_times(table, columns)


def _read_text(path: Path, columns: Columns) -> Any:
    separator = sniff(path)
    names, rows = look(path, separator)
    called = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
    # Identities are read as they are written, each once: as numbers, 007 would be 7.
    kept: Any = {name: "category" for name in (columns.id, columns.target) if name in called}
    # Whole columns at once: in chunks, groups and categories such as 007 would be numbers here and text there.
    how: dict[str, Any] = {"header": 0, "names": called, "index_col": False, "usecols": range(len(names)), "dtype": kept}
    how["low_memory"] = False
    with opened(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # text among numbers: said with its row, where it matters
        table = pd.read_csv(file, sep=separator, encoding="utf-8-sig", **how)
    if len(rows) == len(table):
        table.index = pd.Index(rows, name=FILE_ROW)
    if not names[-1] and table.iloc[:, -1].isna().all():  # every line ends with a separator, the header too
        table = table.iloc[:, :-1]
    table = _without_commas(table, columns.id)
    for name in kept.keys() & set(table.columns):
        if isinstance(table[name].dtype, pd.CategoricalDtype):
            table[name] = (identities if name == columns.id else labels)(table[name])
    return table


def opened(path: Path) -> Any:
    """The bytes of a file, unpacked on the way."""
    suffix = path.suffix.lower()
    if suffix in OTHER_PACKED or path.name.lower().endswith((".tar.gz", ".tar.bz2", ".tar.xz")):
        raise InputError(f"cannot read {path}: unpack it first; {', '.join(PACKED)} and .zip are read as they are")
    if suffix != ".zip":
        return PACKED.get(suffix, lambda file: file.open("rb"))(path)
    archive = zipfile.ZipFile(path)
    inside = [name for name in archive.namelist() if not name.endswith("/")]
    if len(inside) != 1:
        raise InputError(f"cannot read {path}: it holds {len(inside)} files; a .zip with one table in it can be read")
    return archive.open(inside[0])


def sniff(path: Path) -> str:
    """What separates the columns: what splits the first line and splits most others into as many."""
    with opened(path) as file:
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


def look(path: Path, separator: str, *, count: bool = True) -> tuple[list[str], np.ndarray]:
    """The header, and the row of the file from which each row of the table comes, unless they are too many to `count`.

    Each must have as many fields as the header: a parser would fill up or shift what is there without a word.
    """
    wrong, many, behind, rows = Problems(), 0, 0, array("q")
    with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        records = _records(text, separator)
        names = _header(next(records, (0, []))[1])
        for row, cells in records:
            if count:
                rows.append(row)
            if len(cells) == len(names):
                continue
            if len(cells) > len(names) and not any(map(str.strip, cells[len(names) :])):
                behind += 1
            elif (many := many + 1) <= SHOWN:
                wrong.add(f"row {row} of the file has {len(cells)} fields, the header has {len(names)}")
    wrong.raise_if_any(f"cannot read {path}: rows must have as many fields as the header, and {many} have not")
    if behind:
        noted = f"{behind} rows end with an empty field that the header does not name; it is left out"
        warnings.warn(noted, LeapWarning, stacklevel=5)
    return names, np.frombuffer(rows, np.int64) if rows else np.zeros(0, np.int64)


def _records(text: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of the file that are not blank, by their numbers."""
    reader, row = csv.reader(_lines(text), delimiter=separator), 1
    for cells in reader:
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield row, cells
        row = reader.line_num + 1


def _lines(text: Iterable[str]) -> Iterator[str]:
    for row, line in enumerate(text, 1):
        if "\0" in line:  # a parser would take what stands before it for the whole cell
            raise ValueError(f"row {row} of the file holds a NUL byte; the file is damaged, or not text in UTF-8")
        yield line


def _header(names: list[str]) -> list[str]:
    if not names:
        raise ValueError("it is empty")
    if len(names) == 1:
        known = ", ".join(SEPARATORS.values())
        raise ValueError(f"it has one column only ({names[0]!r}); columns are separated by {known}")
    twice = [name for name, count in Counter(names).items() if name and count > 1]
    if twice:
        raise ValueError(f"several columns are called {', '.join(map(repr, twice))}; rename them")
    return names


def identities(column: Any) -> Any:
    """Ids as numbers where the numbers, written out, are the ids; else as text: nothing is merged, no zero is lost."""
    texts = column.cat.categories
    for kind in (np.int64, np.float64):
        with suppress(ValueError, OverflowError):
            found = texts.str.strip().astype(kind)
            if (found.astype(str) == texts.str.strip()).all() and found.is_unique:
                return _each(column, found)
    return _each(column, texts.astype(object))


def labels(column: Any) -> Any:
    """Targets as numbers, or yes and no, where they are such; 01 is a name."""
    texts = column.cat.categories
    named = texts.str.fullmatch(r"\s*[+-]?0\d+\s*").any()
    with suppress(ValueError, TypeError, OverflowError):
        found: Any = pd.Index([]) if named else pd.to_numeric(texts)
        if len(found) and found.dtype.kind in "iuf":
            return _each(column, found)
    if len(texts) and set(texts) <= YES_NO.keys() and column.notna().all():
        return _each(column, texts.map(YES_NO))
    return _each(column, texts.astype(object))


def _each(column: Any, of: Any) -> Any:
    """The column with other words for its categories; missing where it was."""
    codes, missing = column.cat.codes.to_numpy(), column.isna().to_numpy()
    if not len(of):
        return pd.Series(np.full(len(column), np.nan), column.index)
    cells = of.to_numpy()[codes]
    if missing.any():
        cells = cells.astype(float if cells.dtype.kind in "iuf" else object)
        cells[missing] = np.nan
    return pd.Series(cells, column.index, dtype=cells.dtype)


def _without_commas(table: Any, id: str | None) -> Any:
    """Numbers with commas as numbers, where all of the file can be read in one way only; else, and as ids, they stay text."""
    marked = {name: ways for name in table.columns if name != id and (ways := _ways(table[name]))}
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


def with_times(table: Any, columns: Columns | None) -> Any:
    if columns is None or columns.time_format is None or columns.time not in table.columns:
        return table
    problems, cells = Problems(), table[columns.time].to_numpy()
    how = {"time_format": columns.time_format, "row_name": row_names(table)}
    times = seconds_or_numbers(cells, f"column {columns.time!r}", problems, **how)
    problems.raise_if_any("cannot read the table")
    return table.assign(**{str(columns.time): times})

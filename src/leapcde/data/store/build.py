"""Tables larger than memory -> a store: files are read in chunks, and rows of one id may lie anywhere in them.

Three passes: which ids there are and how many rows each has; rows into pieces, each with all rows of some ids; each piece,
which fits in memory, as any table is read. The store has the files' content and the names of columns in its name, so it is
made once; one that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leapcde.data.columns import Columns, columns_of, named_columns, note_categories, read_columns
from leapcde.data.delimited import BROKEN, PARQUET, identities, labels, look, opened, sniff, with_times
from leapcde.data.parse import ROW_NAME, categories_of, is_missing
from leapcde.data.series import Series
from leapcde.data.store.files import VERSION, open_store, writing
from leapcde.errors import InputError, LeapError, LeapWarning, Problems, need
from leapcde.files import cache_root, clear, unfinished, write_text

PIECE, PIECES = 32 * 2**20, 128  # bytes of numbers that are read at once; pieces at most
SIZE = 256 * 2**20  # bytes of a file from which it is read in chunks
TABLES = (".parquet", ".pq", ".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".zip")
MOST = 1000  # different texts of a column that are remembered: none with so many is a category
FILE, ROW = "file of leapcde", "row of leapcde"  # columns of pieces that no table has
Progress = Callable[[int, int], None]


def tables_at(path: Path) -> list[Path]:
    """The files that a path means: itself, or the tables of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    named = (file for file in path.rglob("*") if file.suffix.lower() in TABLES and not file.name.startswith((".", "_")))
    found = sorted(file for file in named if file.is_file())  # a pipe of that name would be waited for without end
    if not found:
        raise InputError(f"{path} holds no tables; it must have files such as .parquet or .csv")
    return found


def are_large(paths: Sequence[Path]) -> bool:
    """Whether tables are to be read in chunks: several always are."""
    return len(paths) > 1 or (paths[0].is_file() and paths[0].stat().st_size > SIZE)


def stored_series(
    paths: Sequence[Path],
    columns: Columns,
    digests: Sequence[str],
    *,
    with_target: bool = True,
    progress: Progress | None = None,
) -> Series:
    """The series of tables with these digests from its store, which is made if it is not there or damaged.

    `progress` is called with the rows that are done, of how many.
    """
    if columns.id is None or columns.time is None:
        raise InputError("several files, or one that is too large to be read at once, need id= and time=: the names of columns")
    key = lambda columns: _key([VERSION, list(digests), columns.to_json(), with_target])
    home, name = _home(), key(columns)
    folder = home / _same(home / f"{name}.same", name)
    if folder.is_dir():
        try:
            return open_store(folder)
        except ValueError as error:
            warnings.warn(f"{folder} was damaged ({error}); it is made again", LeapWarning, stacklevel=3)
    _Build(list(paths), columns, with_target, folder, progress or (lambda done, total: None)).run()
    found = open_store(folder)
    settled = key(replace(columns, values=columns_of(found), categories=found.categories or None))
    if settled != folder.name:
        write_text(home / f"{settled}.same", folder.name)
    return found


def _same(file: Path, name: str) -> str:
    """Under which name a store lies: what a run asks for after its first look, which chose all columns, is the same one.

    The file may be damaged, and the folder that it names may be removed and made again: it must be the name of a store.
    """
    with suppress(OSError, UnicodeDecodeError):
        found = file.read_text(encoding="utf-8")
        return found if re.fullmatch("[0-9a-f]{16}", found) else name
    return name


def _key(about: Any) -> str:
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _home() -> Path:
    """The folder of stores: in the user's cache, or, where nothing is to be kept, gone with the process."""
    root = cache_root()
    return Path(_passing().name) if root is None else root / "stores"


@cache
def _passing() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="leapcde-stores-")


class Counts:
    """Counts by name that are added up now and then, and not each time: there may be millions of names."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.names, self.before = 0, 0

    def add(self, part: Any) -> None:
        self.parts.append(part)
        self.names += len(part)
        if self.names > 2 * self.before + 10**6:
            self.parts = [self.sum()]
            self.names = self.before = len(self.parts[0])

    def sum(self) -> Any:
        whole = pd.concat(self.parts) if self.parts else pd.Series(dtype=np.int64)
        return whole.groupby(level=0, sort=False).sum()


class _Build:
    """One store in the making."""

    def __init__(self, paths: list[Path], columns: Columns, with_target: bool, folder: Path, progress: Progress):
        self.paths, self.columns, self.with_target = paths, columns, with_target
        self.folder, self.progress = folder, progress
        self.names = self._names()
        self.rows = max(1, PIECE // (8 * len(self.names)))  # of a chunk, and of a piece

    def run(self) -> None:
        place = self.folder.with_name(f"{self.folder.name}.pieces")
        pieces = unfinished(place)
        clear(place)
        try:
            ids, counts = self._ids()
            most = max(self.rows, int(counts.sum()) // PIECES)  # rows of a piece; it takes a few times its size in memory
            part_of = (np.cumsum(counts) - counts) // most
            kinds = self._cut(ids, part_of, int(counts.sum()), pieces)
            self._join(ids, int(counts.sum()), pieces, kinds)
        finally:
            shutil.rmtree(pieces, ignore_errors=True)

    def _names(self) -> list[str]:
        """The columns of the first file; others must have them too. All files that cannot be opened are named at once."""
        problems, first = Problems(), None
        for path in self.paths:
            try:
                names = _header(path)
            except LeapError as error:
                problems.found += [f"{path}: {problem}" for problem in error.problems] or [error.what]
                continue
            first = first or names
            if missing := [name for name in first if name not in names]:
                problems.add(f"{path}: no column {', '.join(map(repr, missing))}; {self.paths[0]} has it")
        problems.raise_if_any("the tables cannot be read together; nothing was stored")
        found = first or []
        asked = {*named_columns(self.columns), *self.columns.values} - {None}
        if absent := sorted(
            str(name) for name in asked if name not in found and (self.with_target or not self._is_given(name))
        ):
            raise InputError(f"no column {', '.join(map(repr, absent))}; the tables have: {', '.join(found)}")
        return [name for name in found if not self.columns.values or name in asked]

    def _is_given(self, name: Any) -> bool:
        """Whether a column is only there in training."""
        target = self.columns.target
        return name == self.columns.weights or name in ((target,) if isinstance(target, str) else target or ())

    def _chunks(self, only: list[str] | None = None) -> Iterator[tuple[int, int, Any]]:
        """(file, number of the first row, chunk) of all files."""
        for k, path in enumerate(self.paths):
            first = 0
            for chunk in _read(path, only or self.names, self.columns, self.rows):
                yield k, first, chunk
                first += len(chunk)

    def _ids(self) -> tuple[Any, np.ndarray]:
        """The ids that there are, sorted as text is where they are text, and how many rows each has."""
        found, texts, id = Counts(), False, str(self.columns.id)
        for k, first, chunk in self._chunks([id]):
            column = chunk[id]
            if (empty := is_missing(column)).any():
                row = self._row(k, first + int(np.argmax(empty)))
                raise InputError("cannot read the tables", [f"column {id!r}: empty in {row}; every row needs an id"])
            found.add(column.value_counts(sort=False))
            texts |= self.paths[k].suffix.lower() not in PARQUET
        total = found.sum()
        if not len(total):
            raise InputError("cannot read the tables: they have no rows")
        keys = total.index
        if texts:
            keys = keys.astype(str)
            ids = np.asarray(identities(pd.Series(pd.Categorical(keys, categories=keys))))
        else:
            ids = np.asarray(keys.astype(str) if any(isinstance(key, str) for key in keys) else keys.infer_objects())
        order = np.argsort(ids, kind="stable")
        return pd.Series(ids[order], index=keys[order]), total.to_numpy().astype(np.int64)[order]

    def _cut(self, ids: Any, part_of: np.ndarray, total: int, pieces: Path) -> dict[str, tuple[str, ...]]:
        """All rows into pieces by their ids; the categories of columns of text."""
        text: dict[str, set[Any]] = {}
        numbers: set[str] = set()
        done, text_ids = 0, ids.index.inferred_type == "string"
        for n, (k, first, chunk) in enumerate(self._chunks()):
            keys = chunk[self.columns.id]
            part = part_of[ids.index.get_indexer(keys.astype(str) if text_ids else keys)]
            for name in chunk.columns:
                _note_text(chunk[name], name, text, numbers)
            chunk = chunk.assign(**{FILE: k, ROW: np.arange(first, first + len(chunk))})
            for p in np.unique(part):
                path = pieces / str(p) / f"{n:09d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                chunk[part == p].to_parquet(path, index=False)
            done += len(chunk)
            self.progress(done, 2 * total)
        found = {name: categories_of(np.array(sorted(map(str, cells)), object)) for name, cells in text.items()}
        other = named_columns(self.columns) - set(self.columns.static)
        return {name: kinds for name, kinds in found.items() if kinds and name not in numbers | other}

    def _join(self, ids: Any, total: int, pieces: Path, kinds: dict[str, tuple[str, ...]]) -> None:
        """Each piece as any table is read, one behind the other."""
        named = named_columns(self.columns)
        values = self.columns.values or tuple(name for name in self.names if name not in named)
        known = kinds if self.columns.categories is None else self.columns.categories
        columns, done, one = replace(self.columns, values=values, categories=known), 0, isinstance(self.columns.target, str)
        text = any(path.suffix.lower() not in PARQUET for path in self.paths)
        settle = (lambda target: np.asarray(labels(pd.Series(target).astype("category")))) if text and one else None
        with writing(self.folder, total, settle) as writer:
            for piece in sorted(pieces.iterdir(), key=lambda path: int(path.name)):
                table = pd.concat([pd.read_parquet(path) for path in sorted(piece.iterdir())], ignore_index=True)
                part = read_columns(self._table(table, ids), columns, with_target=self.with_target)
                writer.add(part)
                shutil.rmtree(piece)
                done += len(table)
                self.progress(total + done, 2 * total)
        if self.columns.categories is None and not self.columns.values:
            note_categories(known, self.columns)

    def _table(self, table: Any, ids: Any) -> Any:
        """A piece as a table, whose rows have the names of their files."""
        files, rows = table.pop(FILE).to_numpy(), table.pop(ROW).to_numpy()
        keys = table[self.columns.id]
        table[self.columns.id] = ids.loc[keys.astype(str) if ids.index.inferred_type == "string" else keys].to_numpy()
        table = with_times(table, self.columns)
        table.attrs[ROW_NAME] = lambda i: self._row(int(files[i]), int(rows[i]))
        return table

    def _row(self, k: int, row: int) -> str:
        """How a row is called: of text, the header is row 1."""
        path = self.paths[k]
        return f"row {row if path.suffix.lower() in PARQUET else row + 2} of {path}"


def _header(path: Path) -> list[str]:
    if path.suffix.lower() not in PARQUET:
        return _checked(path, lambda: look(path, sniff(path), count=False)[0])
    with _checked(path, lambda: need("pyarrow.parquet", "parquet").ParquetFile(path)) as source:
        return list(source.schema_arrow.names)


def _read(path: Path, names: list[str], columns: Columns, rows: int) -> Iterator[Any]:
    """Some columns of a file, so many rows at a time."""
    with ExitStack() as stack:
        if path.suffix.lower() in PARQUET:
            source = stack.enter_context(need("pyarrow.parquet", "parquet").ParquetFile(path))
            chunks = (batch.to_pandas() for batch in source.iter_batches(rows, columns=names))
        else:
            need("pyarrow", "parquet")  # for the pieces
            kept: Any = {name: str for name in (columns.id, columns.target) if name in names}
            how: dict[str, Any] = {"usecols": names, "dtype": kept, "chunksize": rows, "low_memory": False}
            file = stack.enter_context(opened(path))
            chunks = stack.enter_context(pd.read_csv(file, sep=sniff(path), encoding="utf-8-sig", **how))
        following = iter(chunks)
        while (chunk := _checked(path, lambda: next(following, None))) is not None:
            yield chunk[names]


def _checked(path: Path, read: Callable[[], Any]) -> Any:
    """What is read of a file; whatever goes wrong names the file."""
    try:
        return read()
    except LeapError:
        raise
    except BROKEN as error:
        what = str(error).strip() or "it is cut short or damaged"
        raise InputError(f"cannot read {path}: {what}. Nothing was stored; the other files are as they were") from None


def _note_text(column: Any, name: str, text: dict[str, set[Any]], numbers: set[str]) -> None:
    """Remember what a chunk says of a column: its texts, or that it has numbers."""
    if pd.api.types.is_numeric_dtype(column):
        if column.notna().any():
            numbers.add(name)
        return
    seen = text.setdefault(name, set())
    if len(seen) <= MOST:
        seen.update(pd.unique(column.dropna()).tolist())

"""Collected records: three Parquet files in place of two files a cell. A row a cell, a row an epoch, a row an array.

`cells.parquet` has what is asked for often as columns, and the rest as JSON; a float is the same to the last bit when it is
read again. `arrays.parquet` holds truths once for all cells of the same data.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.errors import CheckpointError, need
from leapcde.files import DAMAGE, atomic, json_text

CELLS, HISTORY, ARRAYS = "cells.parquet", "history.parquet", "arrays.parquet"
PLAIN = ("name", "dataset", "drop", "model", "seed", "budget", "metric", "parameters", "seconds", "stopped", "samples")
PLAIN += ("length", "paths", "commit", "data_hash", "key", "id", "schema")
SHARED = ("truth", "sequence")  # the same for all cells with the same data
Record = dict[str, Any]
Arrays = dict[str, np.ndarray]


def read_records(folder: Path) -> list[Record]:
    """The records that were collected in a folder, in the order of their names."""
    path = folder / CELLS
    return list(_records(folder, _stamp(path)).values()) if path.exists() else []


def read_record(folder: Path, name: str) -> Record | None:
    """One of them."""
    path = folder / CELLS
    return _records(folder, _stamp(path)).get(name) if path.exists() else None


def read_arrays(folder: Path, record: Record) -> Arrays:
    """The arrays of a record, with what it shares with all cells of the same data."""
    path = folder / ARRAYS
    there = _arrays(folder, _stamp(path)) if path.exists() else {}
    mine = there.get(record["id"], {})
    return {**there.get(record["data_hash"], {}), **mine} if mine else {}


def write(folder: Path, found: dict[str, tuple[Record, Arrays]]) -> None:
    """Write records and their arrays by name. The cells come last: one that is listed has all that belongs to it."""
    ordered = dict(sorted(found.items()))
    rows = [row for record, arrays in ordered.values() for row in _array_rows(record, arrays)]
    write_rows(folder / ARRAYS, list({(row["of"], row["array"]): row for row in rows}.values()))
    epochs = [{"id": record["id"], **_numbers(row)} for record, _ in ordered.values() for row in record["history"]]
    write_rows(folder / HISTORY, epochs)
    write_rows(folder / CELLS, [_row(record) for record, _ in ordered.values()])


def _row(record: Record) -> dict[str, Any]:
    rest = {key: value for key, value in record.items() if key not in (*PLAIN, "history", "arrays")}
    return {key: record[key] for key in PLAIN} | {key: json_text(value) for key, value in rest.items()}


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """What JSON calls null was not a number; in a column, null is what the row does not have."""
    return {key: math.nan if value is None else value for key, value in row.items()}


def _array_rows(record: Record, arrays: Arrays) -> list[dict[str, Any]]:
    of = lambda name: record["data_hash"] if name in SHARED else record["id"]
    about = lambda array: {"dtype": str(array.dtype), "shape": list(array.shape), "values": array.tobytes()}
    return [{"of": of(name), "array": name, **about(np.ascontiguousarray(array))} for name, array in arrays.items()]


@lru_cache(maxsize=4)
def _records(folder: Path, stamp: tuple[int, int]) -> dict[str, Record]:
    epochs: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(folder / HISTORY):
        epochs.setdefault(row.pop("id"), []).append(_history(row))
    try:
        rows = [_record(row) for row in read_rows(folder / CELLS)]
    except DAMAGE as error:
        raise _damaged(folder / CELLS, error) from None
    return {row["name"]: {**row, "history": epochs.get(row["id"], []), "arrays": ARRAYS} for row in rows}


def _record(row: dict[str, Any]) -> Record:
    rest = {key: json.loads(value) for key, value in row.items() if key not in PLAIN and value is not None}
    return {**{key: row[key] for key in PLAIN}, **rest}


def _history(row: dict[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in row.items() if value is not None}
    return {key: None if value != value else value for key, value in known.items()}


@lru_cache(maxsize=4)
def _arrays(folder: Path, stamp: tuple[int, int]) -> dict[str, Arrays]:
    found: dict[str, Arrays] = {}
    for row in read_rows(folder / ARRAYS):
        array = np.frombuffer(row["values"], row["dtype"]).reshape(row["shape"])
        found.setdefault(row["of"], {})[row["array"]] = array
    return found


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a Parquet file; none if there is no file."""
    if not path.exists():
        return []
    reader = need("pyarrow.parquet", "parquet")
    try:
        return reader.read_table(path, page_checksum_verification=True).to_pylist()
    except (ValueError, OSError, MemoryError) as error:  # Arrow's own are such
        raise _damaged(path, error) from None


def _damaged(path: Path, error: BaseException) -> CheckpointError:
    if isinstance(error, CheckpointError):
        return error
    why = " ".join(str(error).split())
    return CheckpointError(f"{path} is damaged ({why}); take a copy of it, or remove it and run its cells again")


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rows as a Parquet file, written whole or not at all."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    table = need("pyarrow", "parquet").table({name: [row.get(name) for row in rows] for name in names})
    with atomic(path) as temporary:
        need("pyarrow.parquet", "parquet").write_table(
            table, temporary, compression="zstd", compression_level=19, write_page_checksum=True
        )


def _stamp(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_mtime_ns, about.st_size

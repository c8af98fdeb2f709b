"""A series as a folder of plain .npy files and a header: mapped when it is opened, and never believed unchecked.

A store is written under another name and renamed when it is whole. The header holds a checksum of every array; what was
cut short, overwritten or half-written is not opened. Nothing in it is ever run: there are no pickles.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.series import EACH, Series
from leapcde.data.store.mapped import let_go
from leapcde.errors import InputError
from leapcde.files import clear, unfinished

HEADER, VERSION = "store.json", 1
NAMES = ("channels", "static_names", "target_names", "categories")  # of a series, what JSON can hold
OTHERS = ("offsets", *EACH)  # arrays that are loaded
BLOCK = 2**24  # bytes that are checked at once


Settle = Callable[[np.ndarray], np.ndarray]


class Writer:
    """A store that grows part by part. `rows` are all there will be."""

    def __init__(self, folder: Path, rows: int, settle: Settle | None = None):
        self.folder, self.rows, self.done, self.settle = folder, rows, 0, settle
        self.parts: list[Series] = []  # without their rows
        self.times: Any = None
        self.values: Any = None

    def add(self, part: Series) -> None:
        """Samples behind those that are there."""
        if self.times is None:
            made = lambda name, like: np.lib.format.open_memmap(
                self.folder / f"{name}.npy", "w+", like.dtype, (self.rows, *like.shape[1:])
            )
            self.times, self.values = made("times", part.times), made("values", part.values)
        here = slice(self.done, self.done + len(part.times))
        self.times[here], self.values[here] = part.times, part.values
        let_go(self.times, self.values)
        self.done = here.stop
        self.parts.append(_without_rows(part))

    def finish(self) -> None:
        """Write what there is one of for each sample, and the header."""
        if self.done != self.rows:
            raise InputError(f"{self.rows} rows were to be stored, and {self.done} were")
        first = self.parts[0]
        each = {name: [getattr(part, name) for part in self.parts] for name in EACH}
        arrays = {name: np.concatenate(of) for name, of in each.items() if of[0] is not None}
        if self.settle is not None and "target" in arrays:
            arrays["target"] = self.settle(arrays["target"])
        lengths = np.concatenate([part.lengths for part in self.parts])
        arrays["offsets"] = np.concatenate([[0], np.cumsum(lengths)])
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", _plain(array), allow_pickle=False)
        for mapped in (self.times, self.values):
            mapped.flush()
        self.times = self.values = None
        sums = {name: _checksum(self.folder / f"{name}.npy") for name in ("times", "values", *arrays)}
        header = {"version": VERSION, "crc32": sums, **{name: getattr(first, name) for name in (*NAMES, "target_per")}}
        header["digest"] = _digest(header)
        (self.folder / HEADER).write_text(json.dumps(header), encoding="utf-8")


@contextmanager
def writing(folder: Path, rows: int, settle: Settle | None = None) -> Iterator[Writer]:
    """A writer whose store is there, under its name, only if the block succeeds. `settle` has the last word on targets."""
    temporary = unfinished(folder)
    clear(folder)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        writer = Writer(temporary, rows, settle)
        yield writer
        writer.finish()
        shutil.rmtree(folder, ignore_errors=True)
        _put(temporary, folder)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(made: Path, folder: Path) -> None:
    try:
        os.replace(made, folder)
    except OSError:
        if not (folder / HEADER).is_file():  # else another process made the same in the meantime
            raise


def open_store(folder: Path) -> Series:
    """The series of a store, with its rows mapped. A ValueError says what is damaged."""
    try:
        header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        told = header.pop("digest")
        if header["version"] != VERSION or told != _digest(header):
            raise ValueError(f"{HEADER} is damaged")
        sums = dict(header["crc32"])
        for name, crc in sums.items():
            if _checksum(folder / f"{name}.npy") != crc:
                raise ValueError(f"{name}.npy is damaged")
        mapped = {name: np.load(folder / f"{name}.npy", "r", allow_pickle=False) for name in ("times", "values")}
        rest: dict[str, Any] = {name: np.load(folder / f"{name}.npy", allow_pickle=False) for name in sums if name in OTHERS}
        names: dict[str, Any] = {name: tuple(header[name]) for name in NAMES if name != "categories"}
        kinds = {name: tuple(of) for name, of in header["categories"].items()}
        return Series(**mapped, **rest, **names, categories=kinds, target_per=header["target_per"])
    except (OSError, KeyError, TypeError, AttributeError, EOFError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None


def _without_rows(part: Series) -> Series:
    return replace(part, times=part.times[:0].copy(), values=part.values[:0].copy())


def _plain(array: np.ndarray) -> np.ndarray:
    return array.astype(str) if array.dtype == object else array


def _checksum(path: Path) -> int:
    found = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            found = zlib.crc32(block, found)
    return found


def _digest(header: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(header, sort_keys=True).encode())

"""The data of a cell, made small where its budget asks for it, and the hash of all its numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import lru_cache

import numpy as np

from leapcde.data.dataset import Dataset
from leapcde.data.series import Series
from leapcde.data.windows import last_window
from leapcde.datasets.registry import load
from leapcde_paper.run.cell import Cell, CellConfig


def cell_data(cell: Cell) -> Dataset:
    """The data of a cell, made small if its budget asks for it. The last one is kept, as cells of
    one data set follow each other; so are small ones, which cost no memory."""
    asked = {key: value for key, value in cell.config.to_json().items() if key in ("data", "drop", "dataset_options")}
    if cell.samples is None and cell.length is None:
        return _loaded(json.dumps(asked), cell.config.data_dir)
    return _shrunk(json.dumps(asked), cell.config.data_dir, cell.samples, cell.length)


@lru_cache(maxsize=1)
def _loaded(asked: str, data_dir: str | None) -> Dataset:
    config = CellConfig(**json.loads(asked))
    return load(config.data, data_dir=data_dir, drop_rate=config.drop, **config.dataset_options)


@lru_cache(maxsize=16)
def _shrunk(asked: str, data_dir: str | None, samples: int | None, length: int | None) -> Dataset:
    data, half = _loaded(asked, data_dir), None if samples is None else -(-samples // 2)
    some = {"train": _some(data.train, samples, length), "validation": _some(data.validation, half, length)}
    return replace(data, **some, test=_some(data.test, half, length))


def _some(series: Series, count: int | None, length: int | None) -> Series:
    """So many samples, all classes among them, each with its last `length` rows, which are then a unit of time apart."""
    if count is not None:
        series = series.take(_pick(series, count))
    if length is None:
        return series
    short = last_window(series, length)
    return replace(short, times=np.concatenate([np.arange(float(n)) for n in short.lengths]))


def _pick(series: Series, count: int) -> np.ndarray:
    target = np.asarray(series.target)
    if target.ndim > 1 or target.dtype.kind == "f":
        return np.unique(np.linspace(0, len(series) - 1, min(count, len(series))).round().astype(int))
    # By turns from each class: how many of its class come before a sample decides when it is its turn.
    _, label = np.unique(target, return_inverse=True)
    order = np.argsort(label, kind="stable")
    turn = np.empty(len(label), int)
    turn[order] = np.arange(len(label)) - np.searchsorted(label[order], label[order])
    return np.sort(np.lexsort((label, turn))[:count])


def hash_of(data: Dataset) -> str:
    """SHA-256 of all numbers a model can see: times, values, targets and statics of the three parts.

    >>> from leapcde.datasets.registry import load
    >>> hash_of(load("hopper")) == hash_of(load("hopper", drop_rate=0.3))
    False
    """
    found = hashlib.sha256(data.task.encode())
    for part in data.parts.values():
        for array in (part.offsets, part.times, part.values, part.target, part.static):
            if array is not None:
                array = np.ascontiguousarray(array)
                found.update(f"{array.dtype.kind}{array.shape}".encode())
                found.update(json.dumps(array.tolist()).encode() if array.dtype.kind in "OU" else array.tobytes())
    return found.hexdigest()

"""One cell, from its settings to its record: data, training or an honest row, numbers and arrays.

Everything here runs in a worker, on one thread. A cell that has its record is not run again; one that was killed goes
on from its last epoch; while one runs, a lock on its file keeps every other process away from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.cli.run import CONFIG, MODEL, RESULT, TRAINING, Result, RunConfig, load_data, run
from leapcde.data.dataset import Dataset
from leapcde.data.series import Series
from leapcde.data.windows import last_window
from leapcde.errors import CheckpointError, InputError
from leapcde.training.fitted import FittedModel
from leapcde.training.metrics import main_metric, measure
from leapcde.training.predict import predict
from leapcde.training.preprocess import Preprocessor
from leapcde_paper import baselines as honesty
from leapcde_paper.run import memory, records
from leapcde_paper.run.config import Cell, public
from leapcde_paper.run.records import Arrays, Record

SHOWN, QUERIES = 6, 100  # test samples whose paths are kept, and points of each
PROJECTED, EVERY = 100, 4  # test samples of which every fourth point is kept, for pictures of all paths at once
CELLS, LOCKS = "cells", "locks"
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def run_cell(cell: Cell, data_hash: str, folder: Path) -> Record:
    """The record of a cell: read if it is there, made if not, and waited for if another process is at it."""
    identity = cell.identity(data_hash)
    name = cell.name(identity)
    path = folder / records.FOLDER / f"{name}.json"
    with locked(folder / LOCKS / name):
        found = records.read(path)
        if found is not None:
            return found
        compute_on_one_thread()
        data = cell_data(cell)
        if hash_of(data) != data_hash:
            raise InputError(
                f"the data of {cell.config.data} differs between the sweep and this worker; give all the same files"
            )
        memory.forget_peak()
        made, arrays = _work(cell, data, folder / CELLS / name)
        made |= {"name": name, "arrays": f"{name}.safetensors" if arrays else None}
        made["memory"] |= {"process_bytes": memory.process_bytes()}
        record = records.make(cell, data_hash, made)
        records.write(folder, name, record, arrays)
        _tidy(folder, name)
        return json.loads(path.read_text(encoding="utf-8"))


def compute_on_one_thread() -> None:
    """Must come before the first computation of the process. Two threads fighting for a core help nobody, and XLA
    compiles other programs, with other last bits, for other numbers of cores: so it is told that there is one."""
    from threadpoolctl import threadpool_limits

    os.environ["PJRT_NPROC"] = "1"

    flags = os.environ.get("XLA_FLAGS", "")
    if ONE_THREAD not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
    threadpool_limits(1)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process, however it ends. Systems without file locks run one sweep a folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(path: Path) -> bool:
    """Whether some process holds the lock of a cell."""
    try:
        import fcntl

        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False


def cell_data(cell: Cell) -> Dataset:
    """The data of a cell, made small if its budget asks for it. The last one is kept, as cells of
    one data set follow each other; so are small ones, which cost no memory."""
    config = public(cell.config)
    asked = {key: config[key] for key in ("data", "drop", "dataset_options", "columns", "digest")}
    if cell.samples is None and cell.length is None:
        return _loaded(json.dumps(asked), cell.config.data_dir)
    return _shrunk(json.dumps(asked), cell.config.data_dir, cell.samples, cell.length)


@lru_cache(maxsize=1)
def _loaded(asked: str, data_dir: str | None) -> Dataset:
    return load_data(RunConfig.from_json({**json.loads(asked), "recipe": {}, "train": {}, "data_dir": data_dir}))


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


def _work(cell: Cell, data: Dataset, home: Path) -> tuple[dict[str, Any], Arrays]:
    """What goes into the record, and the arrays beside it."""
    began, config = time.process_time(), cell.config
    if honesty.is_honest(config.model):
        preprocessor, raw = honesty.scores(config.model, data, config.recipe, config.train.seed)
        more = {"history": [], "parameters": None, "stopped": "", "memory": {"step_bytes": None}}
        more["seconds"] = time.process_time() - began
        arrays: Arrays = {}
    else:
        result = _resumed(replace(config, data_dir=None), data, home)
        preprocessor, fitted = result.fitted.preprocessor, result.fitted
        raw = {name: predict(fitted.model, preprocessor.encode(data.parts[name])) for name in ("validation", "test")}
        more = {"history": result.history.rows, "parameters": result.parameters, "stopped": result.stopped}
        more |= {"seconds": result.seconds, "memory": {"step_bytes": memory.step_bytes(result.trainer)}}
        arrays = paths_of(fitted, data.test) if cell.paths and hasattr(fitted.model, "learned_path") else {}
    metrics = {name: metrics_of(preprocessor, raw[name], data.parts[name]) for name in raw}
    sizes = {name: len(part) for name, part in data.parts.items()}
    about = {"metric": main_metric(data.task, len(preprocessor.classes)), "metrics": metrics, "protocol": data.options}
    return {**about, "split_sizes": sizes, "channels": list(preprocessor.channels), **more}, arrays | errors_of(
        preprocessor, raw["test"], data.test
    )


def _resumed(config: RunConfig, data: Dataset, home: Path) -> Result:
    """A run that goes on from its checkpoint, or from nothing where what a kill left behind is of no use."""
    if home.exists() and not (home / CONFIG).exists():
        shutil.rmtree(home)  # killed before it wrote what it was
    try:
        return run(config, data, folder=home)
    except CheckpointError:
        shutil.rmtree(home)
        return run(config, data, folder=home)


def metrics_of(preprocessor: Preprocessor, raw: np.ndarray, series: Series) -> dict[str, float]:
    """All metrics; of a forecast also the MSE in the data's own units, which is what papers print."""
    truth = preprocessor.encode_target(np.asarray(series.target))
    found = measure(preprocessor.task, raw, truth)
    if preprocessor.task == "forecasting":
        far = preprocessor.scaler.unscale(raw) - np.asarray(series.target)
        found["mse_units"] = float(np.nanmean(far**2))
    return found


def errors_of(preprocessor: Preprocessor, raw: np.ndarray, series: Series) -> Arrays:
    """What tests by sample need: class scores and truth, or the L² norm of each window's error at each step, in its units."""
    truth = preprocessor.encode_target(np.asarray(series.target))
    if preprocessor.task != "forecasting":
        return {"scores": np.asarray(raw, np.float32), "truth": truth}
    far = preprocessor.scaler.unscale(raw) - np.asarray(series.target)
    ids = np.arange(len(series)) if series.ids is None else np.unique(series.ids, return_inverse=True)[1]
    return {"error": np.linalg.norm(far, axis=-1), "sequence": np.asarray(ids, np.int64)}


def paths_of(fitted: FittedModel, series: Series) -> Arrays:
    """X, Y and dY/dt of a few test samples with what was observed of them (NaN behind the shorter ones), and, more
    coarsely and in standardised units, X and Y of many."""
    some = series.take(np.arange(min(PROJECTED, len(series))))
    found = fitted.path(some, QUERIES)
    scaler = fitted.preprocessor.scaler
    coarse = {f"many_{key}": scaler.scale(found[key][:, ::EVERY]).astype(np.float16) for key in ("X", "Y")}
    kept = {f"path_{key}": np.asarray(found[key][:SHOWN], np.float32) for key in ("t", "X", "Y", "dY")}
    return {**kept, **coarse, **_seen(some.take(np.arange(min(SHOWN, len(some)))))}


def _seen(some: Series) -> Arrays:
    longest = int(some.lengths.max())
    times = np.full((len(some), longest), np.nan, np.float32)
    values = np.full((len(some), longest, len(some.channels)), np.nan, np.float32)
    for i, length in enumerate(some.lengths):
        times[i, :length], values[i, :length] = some.sample(i)
    return {"path_seen_t": times, "path_seen": values}


def _tidy(folder: Path, name: str) -> None:
    """The weights of a finished cell stay, for figures and `leapcde explain`; its checkpoint and what kills left go."""
    home = folder / CELLS / name
    for left in [*home.glob(".*.tmp"), *(folder / records.FOLDER).glob(f".{name}.*.tmp")]:
        left.unlink(missing_ok=True)
    if (home / MODEL).exists() and (home / RESULT).exists():
        (home / TRAINING).unlink(missing_ok=True)

"""One cell, from its settings to its record: data, training or a baseline, numbers and arrays.

Everything here runs in a worker, on one thread. A cell that has its record is not run again; one that was killed goes
on from its last epoch; while one runs, a lock on its file keeps every other process away from it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from leapcde.data.dataset import Dataset
from leapcde.data.series import Series
from leapcde.errors import CheckpointError, InputError
from leapcde.explain.hidden import hidden_errors
from leapcde.models.registry import count_parameters
from leapcde.training.checkpoint import remove
from leapcde.training.fitted import FittedModel, train_model
from leapcde.training.loop import Trained
from leapcde.training.metrics import main_metric, measure
from leapcde.training.preprocess import Preprocessor
from leapcde_paper.baselines import is_baseline, scores
from leapcde_paper.run import memory, records
from leapcde_paper.run.cell import Cell, CellConfig
from leapcde_paper.run.data import cell_data, hash_of
from leapcde_paper.run.records import Arrays, Record

MODEL, TRAINING = "model.safetensors", "training.safetensors"  # of a cell's folder: the weights, and the checkpoint
SHOWN, QUERIES = 6, 100  # test samples whose paths are kept, and points of each
PROJECTED, EVERY = 100, 4  # test samples of which every fourth point is kept, for pictures of all paths at once
CELLS, LOCKS = "cells", "locks"
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"


def run_cell(cell: Cell, data_hash: str, folder: Path) -> Record:
    """The record of a cell: read if it is there, made if not, and waited for if another process is at it."""
    name = cell.name(cell.identity(data_hash))
    with locked(folder / LOCKS / name):
        found = records.find(folder, name)
        return _make(cell, data_hash, folder, name) if found is None else found


def _make(cell: Cell, data_hash: str, folder: Path, name: str) -> Record:
    compute_on_one_thread()
    data = cell_data(cell)
    if hash_of(data) != data_hash:
        raise InputError(f"the data of {cell.config.data} differs between the sweep and this worker; give all the same files")
    memory.forget_peak()
    made, arrays = _work(cell, data, folder / CELLS / name)
    made |= {"name": name, "arrays": f"{name}.safetensors" if arrays else None}
    made["memory"] |= {"process_bytes": memory.process_bytes()}
    records.write(folder, name, records.make(cell, data_hash, made), arrays)
    tidy_cell(folder, name)
    return records.parse(folder / records.FOLDER / f"{name}.json")


def compute_on_one_thread() -> None:
    """Must come before the first computation of the process. Two threads fighting for a core help nobody, and XLA
    compiles other programs, with other last bits, for other numbers of cores: so it is told that there is one."""
    from threadpoolctl import threadpool_limits

    os.environ["PJRT_NPROC"] = "1"

    flags = os.environ.get("XLA_FLAGS", "")
    if ONE_THREAD not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {ONE_THREAD}".strip()
    threadpool_limits(1)


def locked(path: Path) -> FileLock:
    """A lock to hold while a cell runs; it ends with the process, however that ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path)


def is_running(path: Path) -> bool:
    """Whether some process holds the lock of a cell."""
    if not path.exists():
        return False
    try:
        with FileLock(path, blocking=False):
            return False
    except Timeout:
        return True


def _work(cell: Cell, data: Dataset, home: Path) -> tuple[dict[str, Any], Arrays]:
    """What goes into the record, and the arrays beside it. Each split is predicted once."""
    found = (_baseline if is_baseline(cell.config.model) else _training)(cell, data, home)
    preprocessor, raw = found.preprocessor, found.raw
    metrics = {name: metrics_of(preprocessor, raw[name], data.parts[name]) for name in raw}
    about = {"metric": main_metric(data.task, len(preprocessor.classes)), "metrics": metrics, "dataset_options": data.options}
    about |= {"split_sizes": {name: len(part) for name, part in data.parts.items()}, "channels": list(preprocessor.channels)}
    return {**about, **found.about}, found.paths | answers_of(preprocessor, raw["test"], data.test)


class _Found(NamedTuple):
    preprocessor: Preprocessor
    raw: dict[str, np.ndarray]  # predictions by split
    about: dict[str, Any]  # what the record says of the training
    paths: Arrays


def _baseline(cell: Cell, data: Dataset, home: Path) -> _Found:
    began = time.process_time()
    preprocessor, raw = scores(cell.config.model, data, cell.config.recipe, cell.config.train.seed)
    about = {"history": [], "parameters": None, "stopped": "", "memory": {"step_bytes": None}}
    return _Found(preprocessor, raw, {**about, "seconds": time.process_time() - began}, {})


def _training(cell: Cell, data: Dataset, home: Path) -> _Found:
    fitted, trained = _resumed(cell.config, data, home / TRAINING)
    fitted.save(home / MODEL)
    preprocessor = fitted.preprocessor
    raw = {name: fitted.outputs(data.parts[name]) for name in ("validation", "test")}
    rows = trained.history.rows
    about = {"history": rows, "parameters": count_parameters(fitted.model), "stopped": trained.stopped}
    about |= {"seconds": sum(row["seconds"] for row in rows)}
    about |= {"memory": {"step_bytes": memory.step_bytes(fitted, data.train, cell.config.train)}}
    learns = cell.paths and hasattr(fitted.model, "learned_path")
    if learns or hasattr(fitted.model, "learned_at"):
        about["hidden"] = hidden_errors(fitted, data.test)
    return _Found(preprocessor, raw, about, paths_of(fitted, data.test) if learns else {})


def _resumed(config: CellConfig, data: Dataset, checkpoint: Path) -> tuple[FittedModel, Trained]:
    """A training that goes on from its checkpoint, or from nothing where what a kill left behind is of no use."""
    parts = {"task": data.task, "model": config.model, "options": config.options, "recipe": config.recipe}
    train = partial(train_model, data.train, data.validation, **parts, config=config.train, checkpoint=checkpoint)
    try:
        return train()
    except CheckpointError:
        remove(checkpoint)
        return train()


def metrics_of(preprocessor: Preprocessor, raw: np.ndarray, series: Series) -> dict[str, float]:
    """All metrics; of a forecast also the MSE in the data's own units, which is what papers print."""
    truth = preprocessor.encode_target(np.asarray(series.target))
    found = measure(preprocessor.task, raw, truth)
    if preprocessor.task == "forecasting":
        far = preprocessor.scaler.unscale(raw) - np.asarray(series.target)
        found["mse_units"] = float(np.nanmean(far**2))
    return found


def answers_of(preprocessor: Preprocessor, raw: np.ndarray, series: Series) -> Arrays:
    """What tests by sample need, and no more: the score of the second of two classes, the class of several, or the L² norm of
    each window's error at each step, in its units; and the truth, or the sequence that a window is cut from."""
    truth = preprocessor.encode_target(np.asarray(series.target))
    if preprocessor.task != "forecasting":
        answer = raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw.argmax(1).astype(np.int16)
        return {"answer": answer, "truth": truth.astype(np.int16)}
    far = preprocessor.scaler.unscale(raw) - np.asarray(series.target)
    ids = np.arange(len(series)) if series.ids is None else np.unique(series.ids, return_inverse=True)[1]
    return {"error": np.linalg.norm(far, axis=-1).astype(np.float32), "sequence": np.asarray(ids, np.int32)}


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


def tidy(folder: Path, finished: Container[str]) -> None:
    """What a sweep left of cells that had their records when it was killed."""
    for checkpoint in (folder / CELLS).glob(f"*/{Path(TRAINING).stem}*"):
        if checkpoint.parent.name in finished:
            tidy_cell(folder, checkpoint.parent.name)


def tidy_cell(folder: Path, name: str) -> None:
    """The weights of a finished cell stay, for who wants to look into it; its checkpoint and what kills left go."""
    home = folder / CELLS / name
    for left in [*home.glob(".*.tmp"), *(folder / records.FOLDER).glob(f".{name}.*.tmp")]:
        left.unlink(missing_ok=True)
    remove(home / TRAINING)

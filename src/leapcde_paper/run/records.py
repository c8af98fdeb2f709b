"""Records: one JSON a finished cell, and beside it a small file of arrays where figures and tests need more than numbers.

Records are written whole, once, and never changed. One that cannot be read is reported, put aside, and its cell is run again.
`collect` folds them into a few Parquet files; whoever reads a folder sees both.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from leapcde.errors import InputError, LeapWarning
from leapcde.files import json_text, load_file, save_file, write_text
from leapcde_paper.run import collected
from leapcde_paper.run.cell import Cell

SCHEMA = 3
FOLDER, ARRAYS = "records", "arrays"
LIBRARIES = ("leapcde", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scikit-learn")
KEYS = ("schema", "id", "key", "dataset", "drop", "model", "seed", "budget", "metric", "metrics", "history", "config")
KEYS += ("parameters", "memory", "seconds", "versions", "commit", "data_hash")


Record = dict[str, Any]
Arrays = dict[str, np.ndarray]


def make(cell: Cell, data_hash: str, found: dict[str, Any]) -> Record:
    """The record of a cell from what was found out by running it."""
    config, identity = cell.config, cell.identity(data_hash)
    head = {"schema": SCHEMA, "id": identity, "key": cell.key, "dataset": config.data, "drop": config.drop}
    head |= {"model": config.model, "seed": config.train.seed, "budget": cell.budget}
    about = {"versions": versions(), "commit": commit(), "hardware": hardware(), "data_hash": data_hash}
    return {**head, **found, **cell.to_json(), **about}


def write(folder: Path, name: str, record: Record, arrays: Arrays) -> None:
    """The arrays first: a record is only there when everything is."""
    if arrays:
        save_file(folder / FOLDER / f"{name}.safetensors", ARRAYS, {ARRAYS: arrays}, {})
    write_text(folder / FOLDER / f"{name}.json", json_text(record))


def read(path: Path) -> Record | None:
    """A record, or None if there is none. A damaged one is put aside with a warning, so that its cell is run again."""
    try:
        return parse(path)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        return _put_aside(path, error)


def parse(path: Path) -> Record:
    """A record, or the error that says why the file is none; the file stays as it is."""
    record = json.loads(path.read_text(encoding="utf-8"))
    missing = [key for key in KEYS if key not in record]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return record


def find(folder: Path, name: str) -> Record | None:
    """The record of a cell in a folder, on its own or collected; None if there is none."""
    return read(folder / FOLDER / f"{name}.json") or collected.read_record(folder, name)


def read_all(folder: Path) -> list[Record]:
    """All records of a folder, in the order of their names."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; 'leapcde reproduce' makes one")
    alone = {path.stem: record for path in (folder / FOLDER).glob("*.json") if (record := read(path)) is not None}
    there = {record["name"]: record for record in collected.read_records(folder)}
    return [record for _, record in sorted({**there, **alone}.items())]


def arrays(folder: Path, record: Record) -> Arrays:
    """The arrays that belong to a record; empty if there are none."""
    if not record.get("arrays"):
        return {}
    if record["arrays"] == collected.ARRAYS:
        return collected.read_arrays(folder, record)
    found, _ = load_file(folder / FOLDER / record["arrays"], ARRAYS)
    return {key.removeprefix(f"{ARRAYS}/")[2:-2]: value for key, value in found.items()}


def collect(folder: Path, keep: Callable[[Record, Arrays], Arrays] = lambda record, arrays: arrays) -> int:
    """Fold the records that lie alone into the collected ones, of their arrays what `keep` says; how many there were.

    The files go when everything is written: a kill in between leaves records in both forms, which are the same.
    """
    with FileLock(folder / f".{collected.CELLS}.lock"):
        alone = [path for path in (folder / FOLDER).glob("*.json") if read(path) is not None]
        every = {record["name"]: (record, keep(record, arrays(folder, record))) for record in read_all(folder)}
        collected.write(folder, every)
        for path in alone:
            path.unlink()
            path.with_suffix(".safetensors").unlink(missing_ok=True)
    (folder / f".{collected.CELLS}.lock").unlink(missing_ok=True)
    return len(alone)


@cache
def versions() -> dict[str, str]:
    """Of the libraries that decide numbers, and the flags of the compiler, which do too."""
    found = {library: version(library) for library in LIBRARIES}
    return {**found, "python": platform.python_version(), "xla_flags": os.environ.get("XLA_FLAGS", "")}


@cache
def commit() -> str | None:
    """The commit of the source tree, with a + if it has changes; None where leapcde is not run from one."""
    home = Path(__file__).parent
    try:
        ask = ["git", "-C", str(home), "describe", "--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
        done = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
        inside = subprocess.run(
            ["git", "-C", str(home), "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if inside.returncode == 0 else None


@cache
def hardware() -> dict[str, Any]:
    """The processor by its name and, where the system tells them, its family and model: virtual machines call different
    ones by one name, and XLA compiles other programs for them, with other last bits."""
    told = _processor()
    name = told.get("model name") or platform.processor() or platform.machine()
    kind = {key: told[word] for key, word in {"family": "cpu family", "model": "model"}.items() if word in told}
    return {"machine": platform.machine(), "cores": os.cpu_count(), "processor": name, **kind}


def _processor() -> dict[str, str]:
    """What Linux says of the first one."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _put_aside(path: Path, error: Exception) -> None:
    aside = path.with_suffix(".corrupt")
    os.replace(path, aside)
    warnings.warn(
        f"record {path.name} is damaged ({error}); kept as {aside.name}, its cell is run again", LeapWarning, stacklevel=4
    )

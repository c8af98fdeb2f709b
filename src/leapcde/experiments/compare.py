"""Models side by side on one data set: every model once a seed, one record a cell, and the table made of the records.

A cell that has its record is not run again; one that was interrupted goes on from its last epoch. So the same command
starts, resumes, extends and prints a comparison.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import json_text, write_text
from ..datasets import Dataset
from ..errors import CheckpointError
from . import paper
from .run import RunConfig, load_data, run, summary

LIBRARIES = ("leapcde", "jax", "equinox", "optax", "diffrax", "numpy")


def compare(
    configs: Sequence[RunConfig], folder: Path, *, jobs: int = 1, on_cells: Callable[[int], None] | None = None
) -> list[dict[str, Any]]:
    """Run every config that has no record in `folder` yet, `jobs` at a time; the records of all, in order.

    `on_cells` is told how many are finished.
    """
    from joblib import Parallel, delayed

    found = {name_of(config): read_record(folder, config) for config in configs}
    waiting = [config for config in configs if found[name_of(config)] is None]
    # More than one job: a process each, which computes on one thread; two threads fighting for a core help nobody.
    work = Parallel(n_jobs=jobs, return_as="generator_unordered") if jobs > 1 else None
    tasks: Iterator[dict[str, Any]] | Any = (
        (run_cell(config, folder) for config in waiting)
        if work is None
        else work(delayed(_alone)(config, folder) for config in waiting)
    )
    for record in tasks:
        found[record["name"]] = record
        if on_cells is not None:
            on_cells(sum(record is not None for record in found.values()))
    return [record for record in found.values() if record is not None]


def run_cell(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Train one cell in its own run folder below `folder/cells`, and leave its record in `folder`."""
    name = name_of(config)
    data = load_data(config)
    result = run(config, data, folder=folder / "cells" / name)
    record = record_of(name, config, summary(config, result, data), data)
    write_text(folder / f"{name}.json", json_text(record))
    return record


def record_of(name: str, config: RunConfig, found: dict[str, Any], data: Dataset) -> dict[str, Any]:
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    versions = {library: version(library) for library in LIBRARIES}
    keys = {"name": name, "dataset": data.name, "drop": config.drop, "model": config.model, "seed": config.train.seed}
    return {**keys, **found, "config": public(config), "versions": versions, "hardware": machine}


def public(config: RunConfig) -> dict[str, Any]:
    """A config without the data's place on this machine, which is nobody's business."""
    return replace(config, data_dir=None).to_json()


def read_record(folder: Path, config: RunConfig) -> dict[str, Any] | None:
    """The record of a finished cell; one that was made with other settings is an error, never overwritten."""
    path = folder / f"{name_of(config)}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        # Through RunConfig, so that a setting that came later has its default in older records.
        same = RunConfig.from_json(record["config"]) == RunConfig.from_json(json.loads(json.dumps(public(config))))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); remove it to run its cell again") from None
    if not same:
        raise CheckpointError(f"{path} was made with other settings; give another --out, or remove it")
    return record


def name_of(config: RunConfig) -> str:
    """A cell's file name.

    >>> name_of(RunConfig("hopper", "gru-d", drop=0.3))
    'hopper-30-gru-d-0'
    """
    return f"{Path(config.data).stem.replace(':', '-')}-{round(100 * config.drop)}-{config.model}-{config.train.seed}"


def table_of(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a model: test metric as mean and deviation over seeds, seconds an epoch, parameters, the paper's figure."""
    rows = []
    for model in dict.fromkeys(record["model"] for record in records):
        mine = [record for record in records if record["model"] == model]
        metric, first = mine[0]["metric"], mine[0]
        scores = [record["metrics"]["test"][metric] for record in mine]
        seconds = [row["cpu_seconds"] for record in mine for row in record["history"][1:]]
        rows.append(
            {
                "model": model,
                "metric": metric,
                "mean": float(np.mean(scores)),
                "std": float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0,
                "lowest": min(scores),
                "seeds": len(scores),
                "seconds_per_epoch": float(np.median(seconds)) if seconds else None,
                "parameters": first["parameters"],
                "paper": paper.figure(first["dataset"], first["drop"], model),
            }
        )
    return rows


def _alone(config: RunConfig, folder: Path) -> dict[str, Any]:
    """A cell in a worker process. The flag must be set before the first computation of the process."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return run_cell(config, folder)

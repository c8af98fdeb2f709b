"""Data sets by name, from raw files to training, validation and test series. One file a data set."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, choose
from ..prepare import drop, split, windows
from ..series import Series, as_series
from . import character_trajectories, hopper


@dataclass(frozen=True)
class Dataset:
    """A task on data, split. `protocol` names every choice made on the way; it is kept in each run's record."""

    name: str
    task: str
    train: Series
    validation: Series
    test: Series
    protocol: dict[str, Any] = field(default_factory=dict)


def load(name: str, *, data_dir: Path | str | None = None, drop_rate: float = 0.0) -> Dataset:
    """Load a data set with a share of its time points dropped. Splits and drops never depend on a run's seed.

    >>> load("hopper", drop_rate=0.3).train.target.shape[1:]
    (10, 14)
    """
    choose("data set", name, DATASETS)
    return DATASETS[name](find_data_dir(data_dir), drop_rate)


def find_data_dir(data_dir: Path | str | None = None) -> Path:
    """The directory given, or LEAPCDE_DATA, or ./data."""
    found = Path(data_dir or os.environ.get("LEAPCDE_DATA") or "data")
    if data_dir and not found.is_dir():
        raise InputError(f"there is no data directory {found}")
    return found


def _hopper(data_dir: Path, drop_rate: float) -> Dataset:
    """The bundled simulations."""
    return _forecast_hopper("hopper", hopper.bundled(), drop_rate)


def _mujoco(data_dir: Path, drop_rate: float) -> Dataset:
    """As many simulations as `leapcde data make mujoco --out DATA_DIR/mujoco/hopper.npy` made."""
    return _forecast_hopper("mujoco", hopper.load(data_dir / "mujoco" / "hopper.npy"), drop_rate)


def _forecast_hopper(name: str, array: np.ndarray, drop_rate: float) -> Dataset:
    """50 steps in, 10 out, five windows a sequence, never one sequence in two splits."""
    cut = windows(as_series(array, channels=hopper.CHANNELS), 50, 10, stride=10)
    parts = split(drop(cut, drop_rate), by_id=True)
    protocol = {"sequences": len(array), "window": 50, "horizon": 10, "stride": 10, "drop": drop_rate}
    return Dataset(name, "forecasting", *parts, {**protocol, "split": "70/15/15 by sequence"})


def _character_trajectories(data_dir: Path, drop_rate: float) -> Dataset:
    """2,858 pen trajectories at their own lengths, stratified 70/15/15."""
    series = drop(character_trajectories.load(data_dir), drop_rate)
    parts = split(series, labels=np.asarray(series.target))
    protocol = {"lengths": "own", "drop": drop_rate, "split": "70/15/15 stratified"}
    return Dataset("character-trajectories", "classification", *parts, protocol)


DATASETS: dict[str, Callable[[Path, float], Dataset]] = {
    "hopper": _hopper,
    "mujoco": _mujoco,
    "character-trajectories": _character_trajectories,
}

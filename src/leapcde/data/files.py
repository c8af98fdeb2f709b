"""A user's own CSV or Parquet file in long form: one row an observation time, one column a channel."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.dataset import Dataset
from leapcde.data.drop import drop
from leapcde.data.read import from_table
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.data.windows import auto_window, cut_windows
from leapcde.errors import InputError, LeapWarning, choose, need

FEW_CLASSES = 20


@dataclass(frozen=True)
class Columns:
    """Which column is what. With `horizon`, the task is forecasting; else `target` decides."""

    id: str
    time: str
    target: str | None = None
    values: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    window: int | None = None
    horizon: int | tuple[float, ...] | None = None  # observations ahead, or times after the last one
    task: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Columns:
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})


def load(path: Path, columns: Columns, *, drop_rate: float = 0.0) -> Dataset:
    """Read, check, split: 70 / 15 / 15 % of the ids, stratified by class where there are classes."""
    series = read(path, columns)
    protocol: dict[str, Any] = {"file": path.name, "drop": drop_rate, "split": "70/15/15 by id"}
    if columns.horizon is not None:
        window = columns.window or auto_window(series, columns.horizon)
        if columns.window is None:
            warnings.warn(f"no --window given: forecasting from the last {window} points", LeapWarning, stacklevel=2)
        cut = drop(cut_windows(series, window, columns.horizon), drop_rate)
        protocol |= {"window": window, "horizon": columns.horizon}
        return Dataset(path.stem, "forecasting", *split(cut, by_id=True), protocol)
    if series.target is None:
        raise InputError("name a --target column to classify or regress, or a --horizon to forecast")
    task = columns.task or guess_task(series.target)
    choose("task", task, ("classification", "regression"))
    labels = series.target if task == "classification" else None
    return Dataset(path.stem, task, *split(drop(series, drop_rate), labels=labels), protocol)


def read(path: Path, columns: Columns, *, with_target: bool = True) -> Series:
    """The file as one `Series`, with nothing split or dropped."""
    table = _read_table(path)
    target = columns.target if with_target else None
    values = columns.values
    if not values:
        skip = {columns.id, columns.time, *columns.static, columns.target}
        values = tuple(str(c) for c in table.columns if str(c) not in skip)
    return from_table(table, id=columns.id, time=columns.time, values=values, target=target, static=columns.static)


def guess_task(target: np.ndarray) -> str:
    """Text, whole numbers and few values are classes; anything else is a number to predict.

    >>> guess_task(np.array([0.0, 1.0, 1.0])), guess_task(np.linspace(0.0, 1.0, 50))
    ('classification', 'regression')
    """
    if target.dtype.kind not in "fiu":
        return "classification"
    whole = bool(np.all(target == np.round(target)))
    return "classification" if whole and len(np.unique(target)) <= FEW_CLASSES else "regression"


def _read_table(path: Path):
    pandas = need("pandas", "")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        if path.suffix == ".parquet":
            need("pyarrow", "parquet")
            return pandas.read_parquet(path)
        table = pandas.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",")
    except (ValueError, OSError) as error:  # pandas' parser errors are ValueErrors
        raise InputError(f"cannot read {path}: {error}") from None
    if len(table.columns) == 1:
        name = str(table.columns[0])
        hint = "; it looks separated by semicolons, write commas" if ";" in name else ""
        raise InputError(f"cannot read {path}: it has one column only ({name!r}){hint}")
    return table

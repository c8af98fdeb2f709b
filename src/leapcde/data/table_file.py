"""A user's own CSV or Parquet file in long form: one row an observation time, one column a channel."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.columns import Columns, as_trained, columns_of, named_columns, read_columns
from leapcde.data.dataset import FORMER, Dataset
from leapcde.data.dates import told_time
from leapcde.data.delimited import read_table
from leapcde.data.drop import drop
from leapcde.data.inputs import check_event_times
from leapcde.data.series import Series, known_targets
from leapcde.data.split import InTime, sample_labels, split, split_by_group, split_by_start, split_in_time, told_in_time
from leapcde.data.store.build import Progress, are_large, stored_series, tables_at
from leapcde.data.windows import (
    Horizon,
    auto_window,
    cut_windows,
    focused,
    horizon_rows,
    in_steps,
    roles,
    training_windows,
    window_starts,
)
from leapcde.errors import InputError, LeapWarning, Problems, choose

FEW_CLASSES = 20
SPLITS = ("time", "sequence", "random", "group")
Parts = tuple[Series, Series, Series]


def load(
    path: Path,
    columns: Columns,
    *,
    horizon: Horizon | None = None,
    window: int | None = None,
    task: str | None = None,
    drop_rate: float = 0.0,
    split: str | None = None,
    stride: int | None = None,
    forecast: Sequence[str] | None = None,
    known: Sequence[str] | None = None,
    more: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Dataset:
    """Read, check, split: 70 / 15 / 15 % for training, validation and test.

    With `horizon` (rows ahead, or times after the last one), the task is forecasting from `window` rows, at every
    `stride`-th row if one is given, of the channels `forecast` (all if None) and with the future of those `known`; else
    the target column decides, or `task`.

    `split` is "time" (the default of forecasts: what is tested comes last), "sequence" (whole sequences at random),
    "random" (samples, stratified by class; the default of all else), or "group:COLUMN" (no group on both sides).

    `path` may be a folder of tables, and `more` names others that belong to it: several files, or a large one, are read in
    chunks into a store (`data/store`), while `progress` is told how far it is.
    """
    how, _, group = (split or "").partition(":")
    if split != FORMER:
        _check_split(split, group, horizon)
    series, groups = _series_and_groups(tables(path, more), columns, group, progress)
    made: dict[str, Any] = {"file": path.name, "drop": drop_rate}
    if horizon is not None:
        _check_forecast(columns)
        asked = (forecast or (), known or ())
        roles(series.channels, *asked)  # or an error
        windows = {"horizon": horizon, "window": window, "stride": stride, "how": how, "groups": groups, "group": group}
        return _forecasts(path.stem, series, drop_rate, made, asked, **windows)
    if series.target is None:
        raise InputError("name a --target column to classify or regress, or a --horizon to forecast")
    task = _task(series, task)
    labels = None if task in ("regression", "survival") else sample_labels(series)
    if task == "survival":
        labels = check_event_times(series)[:, 0]
    parts, told = _split_samples(drop(series, drop_rate), how, labels, groups, group)
    train, validation, test = as_trained(*parts)
    return Dataset(path.stem, task, train, validation, test, {**made, "split": told})


def _task(series: Series, asked: str | None) -> str:
    """The task that is asked for, or what the targets tell."""
    target = np.asarray(series.target)
    target = target[known_targets(target)] if series.per_row else target
    if asked is None and (asked := guess_task(target)) == "labels":
        names = ", ".join(series.target_names)
        raise InputError(
            f"the targets ({names}) are all 0 or 1, which can be meant in two ways: give task='labels' for the probability of "
            "each, or task='regression' to predict them as numbers"
        )
    choose("task", asked, ("classification", "labels", "regression", "survival"))
    asked = "labels" if asked == "classification" and target.ndim > 1 else asked
    if asked == "labels":
        _check_labels(target, series.target_names)
    return asked


def _check_labels(target: np.ndarray, names: Sequence[str]) -> None:
    if target.ndim == 1:
        raise InputError("task 'labels' is about several columns: name them as target=, with commas; one is a classification")
    problems = Problems()
    for name, column in zip(names, target.T, strict=True):
        if not np.isin(column, (0, 1)).all():
            wrong = column[~np.isin(column, (0, 1))][0]
            problems.add(f"column {name!r} holds {wrong:g}; a label is 0 or 1, true or false, yes or no")
    problems.raise_if_any("the targets are no labels")


def read(path: Path, columns: Columns, *, with_target: bool = True) -> Series:
    """The file as one `Series`, with nothing split or dropped."""
    return read_columns(read_table(path, columns), columns, with_target=with_target)


def tables(path: Path, more: Sequence[Path] = ()) -> list[Path]:
    """All files of some paths, of which some may be folders."""
    return [file for one in (path, *more) for file in tables_at(one)]


def read_input(paths: Sequence[Path], columns: Columns, *, with_target: bool = True, progress: Progress | None = None) -> Any:
    """A file as a table; several, or a large one, as a `Series` whose rows lie in a store."""
    if not are_large(paths):
        return read_table(paths[0], columns)
    return stored_series(paths, columns, list(map(digest, paths)), with_target=with_target, progress=progress)


def _series_and_groups(paths: list[Path], columns: Columns, group: str, progress: Progress | None):
    """What the files hold, and the group of each sample where samples are split by group."""
    if group and are_large(paths):
        raise InputError(
            "split 'group:COLUMN': files that are read in chunks cannot be split by group yet; name the groups as --id, "
            "or give one file that fits in memory"
        )
    data = read_input(paths, columns, progress=progress)
    if isinstance(data, Series):
        return data, None
    series = read_columns(data, _without(columns, data, group))
    return series, _groups(data, columns, group, series) if group else None


def _check_split(split: str | None, group: str, horizon: Horizon | None) -> None:
    if split is None:
        return
    how = split.partition(":")[0]
    choose("split", how, SPLITS)
    if (how == "group") != bool(group):
        raise InputError(f"split {split!r}: only a split by group names a column, as in split='group:clinic'")
    if horizon is not None and how == "random":
        raise InputError("split 'random': windows of one sequence are alike, so forecasts are split by time or by sequence")
    if horizon is None and how == "sequence":
        raise InputError("split 'sequence' is for forecasts; samples are split at random, by time or by group:COLUMN")


def _check_forecast(columns: Columns) -> None:
    if columns.target_per == "row":
        raise InputError("target_per='row' is for classes and numbers; forecasts (horizon=) are asked for at every row already")


def _without(columns: Columns, table: Any, group: str) -> Columns:
    """The columns without one that tells groups apart, which is no channel."""
    if not group or columns.values:
        return columns
    named = {*named_columns(columns), group}
    return replace(columns, values=tuple(str(name) for name in table.columns if str(name) not in named))


def _groups(table: Any, columns: Columns, group: str, series: Series) -> np.ndarray:
    """The group of each sample: a column that holds one value a sample."""
    known = {"values": columns_of(series), "categories": series.categories, "static": (), "weights": None, "target_per": None}
    found = read_columns(table, replace(columns, target=group, **known))
    return np.asarray(found.target)


def _split_samples(series: Series, how: str, labels, groups, group: str) -> tuple[Parts, str]:
    """Training, validation and test samples, and how they were chosen."""
    if how == "time":
        parts = split_by_start(series)
        early, late = (told_time(float(part.times[part.offsets[:-1]].min())) for part in parts[1:])
        return parts, f"by time: samples that start before {early} train, before {late} choose the weights, later ones test"
    if groups is not None:
        return split_by_group(series, groups), f"by {group}: all samples of one on one side"
    return split(series, labels=labels), "70/15/15 % at random" + ("" if labels is None else ", of every class")


def _forecasts(
    name: str, series: Series, drop_rate: float, made: dict, asked, *, horizon, window, stride, **split_by
) -> Dataset:
    """Windows for training, validation and test, in sequences that are split first."""
    sequences, length, told = _split_sequences(series, horizon, window, **split_by)
    train, validation, test = as_trained(*sequences)
    if window is None:
        warnings.warn(f"no --window given: forecasting from the last {length} points", LeapWarning, stacklevel=4)
    if split_by["how"] == FORMER:
        stride = max(1, horizon_rows(series, horizon) // 2)
    windows, fresh = training_windows(train, length, horizon, stride)
    parts = [windows, *(cut_windows(part, length, horizon, stride) for part in (validation, test))]
    made |= {"window": length, "horizon": horizon, "stride": stride, "split": told}
    chosen = roles(train.channels, *asked)
    cut = [drop(focused(part, *chosen), drop_rate) for part in parts]
    return Dataset(name, "forecasting", *cut, options=made, sequences=None if fresh is None or drop_rate else train)


def _split_sequences(series: Series, horizon, window, *, how: str, groups, group: str) -> tuple[Parts, int, str]:
    """Sequences for training, validation and test, the window, and how they were split."""
    found = None if how not in ("", "time") else split_in_time(series, horizon, window=window)
    if found is not None and not found.missing:
        return _all_there(found), found.window, told_in_time(found)
    if found is not None and (how == "time" or len(series) < 3):
        fix = "shorten horizon= or window=" + ("" if len(series) < 3 else ", or split by sequence")
        raise InputError(f"the sequences cannot be split by time, {found.missing}; {fix}")
    length = window or auto_window(series, horizon)
    needed = length + (horizon if in_steps(horizon) else 1)
    window_starts(series, length, needed - length)  # or an error
    enough = np.flatnonzero(series.lengths >= needed)
    some = series.take(enough)
    if groups is not None:
        return split_by_group(some, groups[enough]), length, f"by {group}: all sequences of one on one side"
    parts = split(some, by_id=True)
    told = f"by sequence: {len(parts[0])} train, {len(parts[1])} choose the weights, {len(parts[2])} test"
    return parts, length, told if found is None else f"{told} (to be split by time they are {found.missing})"


def _all_there(found: InTime) -> Parts:
    train, validation, test = (part for part in found.parts if part is not None)
    return train, validation, test


def digest(path: Path, more: Sequence[Path] = ()) -> str:
    """SHA-256 of a file's bytes, by which a run knows its data again; of several files, that of theirs."""
    if more or path.is_dir():
        return hashlib.sha256("\n".join(map(digest, tables(path, more))).encode()).hexdigest()
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    state = path.stat()
    return _digest(path, state.st_size, state.st_mtime_ns)


@cache
def _digest(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def guess_task(target: np.ndarray) -> str:
    """Text, whole numbers and few values are classes; anything else is a number to predict. Several targets that are all 0 or
    1 are labels.

    >>> guess_task(np.array([0.0, 1.0, 1.0])), guess_task(np.linspace(0.0, 1.0, 50))
    ('classification', 'regression')
    """
    if target.dtype.kind not in "fiu":
        return "classification"
    if target.ndim > 1:
        return "labels" if np.isin(target, (0, 1)).all() else "regression"
    whole = bool(np.all(target == np.round(target)))
    return "classification" if whole and len(np.unique(target)) <= FEW_CLASSES else "regression"

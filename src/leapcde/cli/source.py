"""Which data a command is about: a data set by name, or a file with named columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from leapcde.data import table_file
from leapcde.data.columns import columns_of
from leapcde.data.dataset import DataRequest, Dataset
from leapcde.datasets import registry
from leapcde.errors import InputError


def load_data(request: DataRequest) -> Dataset:
    """The data of a request; a file that has changed since is refused."""
    if request.digest is not None and request.digest != table_file.digest(Path(request.data)):
        raise InputError(f"{request.data} has changed since this run was trained; its split would be another one. Train again")
    return _read(request)


def first_load(request: DataRequest) -> tuple[DataRequest, Dataset]:
    """The data, and the request with what it settled: the file's digest, its value columns, the window of forecasts."""
    if Path(request.data).is_file():
        path = Path(request.data).resolve()
        request = replace(request, data=str(path), digest=table_file.digest(path))
    data = _read(request)
    if request.columns is not None:
        known = {"values": columns_of(data.train), "categories": data.train.categories or None}
        by_time = "time" if data.options["split"].startswith("by time") else "sequence"
        split = request.split or (None if request.horizon is None else by_time)
        columns = replace(request.columns, **known)
        request = replace(request, columns=columns, window=data.options.get("window"), split=split)
    return request, data


def _read(request: DataRequest) -> Dataset:
    if request.columns is not None:
        how = {name: getattr(request, name) for name in ("horizon", "window", "task", "split", "stride", "forecast", "known")}
        how["drop_rate"] = request.drop
        return table_file.load(Path(request.data), request.columns, **how)
    return registry.load(request.data, data_dir=request.data_dir, drop_rate=request.drop, **request.dataset_options)

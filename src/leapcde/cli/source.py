"""Which data a command is about: a data set by name, or a file with named columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from leapcde.data import table_file
from leapcde.data.columns import Columns, columns_of
from leapcde.data.dataset import DataRequest, Dataset
from leapcde.datasets import registry
from leapcde.errors import InputError
from leapcde.training.track.progress import watch_count


def load_data(request: DataRequest) -> Dataset:
    """The data of a request; a file that has changed since is refused."""
    if request.digest is not None and request.digest != table_file.digest(Path(request.data), _more(request)):
        raise InputError(f"{request.data} has changed since this run was trained; its split would be another one. Train again")
    return _read(request)


def read_new(files: Sequence[Path], columns: Columns, *, with_target: bool) -> Any:
    """Newer data in the columns of a run: a table, or a `Series` where it is large."""
    if not with_target:
        columns = replace(columns, target=None, weights=None)
    with watch_reading() as progress:
        found = table_file.tables(files[0], files[1:])
        return table_file.read_input(found, columns, with_target=with_target, progress=progress)


def _more(request: DataRequest) -> list[Path]:
    return [Path(file) for file in request.more or ()]


@contextmanager
def watch_reading(*, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """What a person sees while files are read in chunks."""
    with ExitStack() as stack:
        told: list[Callable[[int], None]] = []

        def progress(done: int, total: int) -> None:
            if not told:
                told.append(stack.enter_context(watch_count("reading rows, twice", total, quiet=quiet)))
            told[0](done)

        yield progress


def first_load(request: DataRequest, *, quiet: bool = False) -> tuple[DataRequest, Dataset]:
    """The data, and the request with what it settled: the file's digest, its value columns, the window of forecasts."""
    if Path(request.data).is_file() or (request.columns is not None and Path(request.data).is_dir()):
        path = Path(request.data).resolve()
        request = replace(request, data=str(path), digest=table_file.digest(path, _more(request)))
    data = _read(request, quiet)
    if request.columns is not None:
        known = {"values": columns_of(data.train), "categories": data.train.categories or None}
        by_time = "time" if data.options["split"].startswith("by time") else "sequence"
        split = request.split or (None if request.horizon is None else by_time)
        columns = replace(request.columns, **known)
        request = replace(request, columns=columns, window=data.options.get("window"), split=split)
    return request, data


def _read(request: DataRequest, quiet: bool = False) -> Dataset:
    if request.columns is not None:
        how = {name: getattr(request, name) for name in ("horizon", "window", "task", "split", "stride", "forecast", "known")}
        how |= {"drop_rate": request.drop, "more": _more(request)}
        with watch_reading(quiet=quiet) as progress:
            return table_file.load(Path(request.data), request.columns, progress=progress, **how)
    return registry.load(request.data, data_dir=request.data_dir, drop_rate=request.drop, **request.dataset_options)

"""Any `.ts` file of the UEA/UCR archive: `uea:NAME` below DATA_DIR/uea, or the path of one file.

NAME is read from NAME.zip, or from NAME_TRAIN.ts and NAME_TEST.ts, in DATA_DIR/uea or DATA_DIR/uea/NAME; if neither is
there, from the few problems that the package aeon brings along, where it is installed. By default both parts are pooled and
split anew, as the paper does; `split=archive` keeps the archive's TEST and takes the validation data from its TRAIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import train_test_split

from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.datasets._io.archive import open_zip
from leapcde.datasets._io.cache import Made, prepared
from leapcde.datasets._io.ts_file import UEA, parse_ts
from leapcde.datasets.registry import Family, register_family
from leapcde.datasets.source import About, Download, Parts, Read, Source
from leapcde.errors import InputError

FOLDER = "uea"
VERSION = 1
ABOUT = About(
    "the UEA/UCR archive",
    "see the data set's page in the archive",
    "Bagnall et al., The UEA multivariate time series classification archive, 2018, arXiv:1811.00075",
    "https://www.timeseriesclassification.com",
)


@dataclass(frozen=True)
class Options:
    split: Literal["stratified", "archive"] = "stratified"


def archive_source(name: str) -> Source:
    """`uea:NAME` as a data set.

    >>> archive_source("uea:BasicMotions").downloads[0].place.as_posix()
    'uea/BasicMotions.zip'
    """
    problem = name.removeprefix("uea:")
    if not problem or not all(letter.isalnum() or letter in "-_" for letter in problem):
        raise InputError(f"{name!r}: write uea:NAME with the archive's name of a problem, such as uea:BasicMotions")
    return Source(
        name,
        task="",
        options=Options,
        files=lambda data_dir, options: _files(data_dir, problem),
        read=lambda data_dir, options: _read(problem, _files(data_dir, problem), data_dir),
        about=ABOUT,
        downloads=(Download(f"{UEA}/{problem}.zip", Path(FOLDER, f"{problem}.zip")),),
        split=_split,
    )


def file_source(name: str) -> Source:
    """One `.ts` file as a data set."""
    path = Path(name)
    return Source(
        name,
        task="",
        files=lambda data_dir, options: [_there(path)],
        read=lambda data_dir, options: _read(path.stem, [_there(path)], data_dir),
        about=ABOUT,
        split=_split_new,
    )


def _files(data_dir: Path, problem: str) -> list[Path]:
    homes = [data_dir / FOLDER, data_dir / FOLDER / problem, *_aeon(problem)]
    for home in homes:
        if (home / f"{problem}.zip").is_file():
            return [home / f"{problem}.zip"]
    for home in homes:
        pair = [home / f"{problem}_{part}.ts" for part in ("TRAIN", "TEST")]
        if any(file.is_file() for file in pair):
            return [_there(file) for file in pair]
    raise InputError(f"no {problem}.zip and no {problem}_TRAIN.ts in {homes[0]}; try 'leapcde data fetch uea:{problem}'")


def _aeon(problem: str) -> list[Path]:
    """Where aeon keeps a problem, if it is installed."""
    spec = find_spec("aeon")
    return [] if spec is None else [Path(place, "datasets", "data", problem) for place in spec.submodule_search_locations or ()]


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    return path


def _read(problem: str, files: list[Path], data_dir: Path) -> Read:
    arrays, notes = prepared(f"uea-{problem}", files, {"version": VERSION}, data_dir, lambda: _prepare(problem, files))
    names = tuple(f"x{c}" for c in range(arrays["values"].shape[1]))
    series = Series(arrays["times"], arrays["values"], arrays["offsets"], names, arrays["target"], ids=arrays["ids"])
    return Read(series, notes)


def _prepare(problem: str, files: list[Path]) -> Made:
    parts = [parse_ts(text, where) for where, text in _texts(problem, files)]
    labels = [part.labels for part in parts if part.labels is not None]
    if len(labels) < len(parts):
        raise InputError(f"{files[0]} has no labels; there is nothing to learn (a line '@classLabel true …' is missing?)")
    widths = {part.values[0].shape[1] for part in parts}
    if len(widths) > 1:
        raise InputError(f"{files[0]}: TRAIN and TEST have {' and '.join(map(str, sorted(widths)))} dimensions")
    series = as_series([block for part in parts for block in part.values], target=np.concatenate(labels))
    places = [f"{where} {i}" for where, part in zip(("train", "test"), parts, strict=False) for i in range(len(part.values))]
    arrays = {"times": series.times, "values": series.values, "offsets": series.offsets}
    task = "regression" if labels[0].dtype.kind == "f" else "classification"
    return {**arrays, "target": np.asarray(series.target), "ids": np.array(places)}, {"task": task}


def _texts(problem: str, files: list[Path]) -> list[tuple[str, bytes]]:
    if files[0].suffix != ".zip":
        return [(str(file), file.read_bytes()) for file in files]
    with open_zip(files[0]) as archive:
        found = {Path(member).name: member for member in archive.namelist() if not member.startswith("__MACOSX")}
        names = [f"{problem}_{part}.ts" for part in ("TRAIN", "TEST")]
        missing = [name for name in names if name not in found]
        if missing:
            raise InputError(f"{files[0]} has no {missing[0]}; it holds: {', '.join(sorted(found)) or 'nothing'}")
        return [(f"{files[0]}/{name}", archive.read(found[name])) for name in names]


def _split_new(series: Series, options: Any) -> Parts:
    labels = np.asarray(series.target)
    return split(series, labels=None if labels.dtype.kind == "f" else labels)


def _split(series: Series, options: Options) -> Parts:
    if options.split != "archive":
        return _split_new(series, options)
    ids = np.asarray(series.ids)
    first = np.flatnonzero(np.char.startswith(ids, "train"))
    labels = np.asarray(series.target)[first]
    common = labels.dtype.kind != "f" and np.unique(labels, return_counts=True)[1].min() >= 2
    few = len(np.unique(labels)) > 0.15 * len(first)
    train, validation = train_test_split(first, test_size=0.15, random_state=0, stratify=labels if common and not few else None)
    return series.take(train), series.take(validation), series.take(np.flatnonzero(np.char.startswith(ids, "test")))


register_family(Family("uea:NAME", lambda name: name.startswith("uea:"), archive_source))
register_family(Family("the path of a .ts file", lambda name: name.endswith(".ts"), file_source))

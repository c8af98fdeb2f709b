"""Every data set by its name. A data set is one file that ends in `register_dataset(Source(...))`.

Files of this folder are found by themselves; so are those of installed packages that name a module under the entry
point `leapcde.datasets`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import warnings
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from leapcde.data.dataset import Dataset
from leapcde.datasets._io.cache import uncached
from leapcde.datasets.source import Source
from leapcde.errors import InputError, LeapError, LeapWarning, meant

SMALL = 10_000_000  # bytes; what takes no time to read
ENTRY_POINTS = "leapcde.datasets"
DATASETS: dict[str, Source] = {}
FAMILIES: list[Family] = []


class Family(NamedTuple):
    """Data sets that are too many to list: `form` shows how their names look, `make` makes the source of a name."""

    form: str
    fits: Callable[[str], bool]
    make: Callable[[str], Source]


def register_dataset(source: Source) -> Source:
    """Make a data set known by its name, to `load` and to the command line.

    **Arguments:** `source`, the data set. **Returns** it. A name that is taken is an error.

    >>> register_dataset(DATASETS["hopper"])
    Traceback (most recent call last):
    leapcde.errors.InputError: there is a data set 'hopper' already; choose another name
    """
    if is_name(source.name):
        raise InputError(f"there is a data set {source.name!r} already; choose another name")
    DATASETS[source.name] = source
    return source


def register_family(family: Family) -> Family:
    """Make known what names of a form stand for, such as `uea:NAME`. Returns the family."""
    FAMILIES.append(family)
    return family


def discover() -> None:
    """Import what registers data sets: the files of this folder, and what installed packages offer."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package}.{module.name}")
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # a stranger's package must not take ours down
            warnings.warn(f"the data set {point.name!r} ({point.value}) cannot be used: {error}", LeapWarning, stacklevel=2)


def load(
    name: str,
    *,
    data_dir: Path | str | None = None,
    drop_rate: Any = 0.0,  # a number; anything else ends in our error, also where types are checked
    drop_what: str = "times",
    **options: Any,
) -> Dataset:
    """Load a data set with a share of its time points dropped. Splits and drops never depend on a run's seed.

    **Arguments:** `name` is one of `DATASETS`, `uea:NAME`, or the path of a `.ts` file; `data_dir` holds its files
    (default: LEAPCDE_DATA, or ./data); `drop_rate` is the share that is dropped of "times" or "values" (`drop_what`);
    `options` are those of the data set (`dataset_options_of` lists them).
    **Returns** a `Dataset`; its `options` name every option, also those left at their defaults.

    >>> load("hopper", drop_rate=0.3).train.target.shape[1:]
    (10, 14)
    >>> load("hopper", sequences=20, horizon=5).options["horizon"]
    5
    """
    return source_of(name).load(find_data_dir(data_dir), drop_rate, drop_what, options)


def source_of(name: str) -> Source:
    """The data set of that name; the error lists the names there are.

    >>> source_of("sepsis").task
    'classification'
    """
    if name in DATASETS:
        return DATASETS[name]
    for family in FAMILIES:
        if family.fits(name):
            return family.make(name)
    known = ", ".join([*DATASETS, *(family.form for family in FAMILIES)])
    raise InputError(f"there is no data set {name!r}; {meant(name, DATASETS)}choose one of: {known}")


def is_name(name: str) -> bool:
    """Whether `load` knows what to do with a name; other files are tables.

    >>> is_name("hopper"), is_name("uea:Epilepsy"), is_name("visits.csv")
    (True, True, False)
    """
    return name in DATASETS or any(family.fits(name) for family in FAMILIES)


def state(name: str, data_dir: Path | str | None = None) -> str:
    """What is there of a data set, without preparing anything: files are looked for, small ones are read.

    >>> state("hopper")
    '10000 samples'
    """
    source, where = source_of(name), find_data_dir(data_dir)
    try:
        files = source.files(where, source.options())
        size = sum(file.stat().st_size for file in files if file.is_file())
        if size >= SMALL or any(file.is_dir() for file in files):
            return f"found ({', '.join(file.name for file in files)}; {size / 1e6:.0f} MB)"
        with uncached():
            return f"{sum(len(part) for part in load(name, data_dir=data_dir).parts.values())} samples"
    except LeapError as error:
        return f"not found ({error.what})"


def find_data_dir(data_dir: Path | str | None = None) -> Path:
    """The directory given, or LEAPCDE_DATA, or ./data."""
    found = Path(data_dir or os.environ.get("LEAPCDE_DATA") or "data")
    if data_dir and not found.is_dir():
        raise InputError(f"there is no data directory {found}")
    return found

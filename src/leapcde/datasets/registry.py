"""Data sets by name, from raw files to training, validation and test series. One file a data set."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from leapcde.data.dataset import Dataset
from leapcde.datasets import character_trajectories, mujoco, sepsis, speech_commands, uea
from leapcde.datasets._io.cache import uncached
from leapcde.datasets.source import Source
from leapcde.errors import InputError, LeapError

SMALL = 10_000_000  # bytes; what takes no time to read
DATASETS: dict[str, Source] = {
    source.name: source
    for source in (
        mujoco.BUNDLED,
        mujoco.SOURCE,
        mujoco.AS_RUN_SOURCE,
        character_trajectories.SOURCE,
        speech_commands.SOURCE,
        sepsis.SOURCE,
    )
}


def load(
    name: str, *, data_dir: Path | str | None = None, drop_rate: float = 0.0, drop_what: str = "times", **options: Any
) -> Dataset:
    """Load a data set with a share of its time points dropped. Splits and drops never depend on a run's seed.

    `name` is one of `DATASETS`, `uea:NAME`, or the path of a `.ts` file. `options` are those of the data set
    (`dataset_options_of` lists them); all that were made are in `protocol`.

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
    if name.startswith("uea:") or name.endswith(".ts"):
        return uea.source_of(name)
    known = ", ".join([*DATASETS, "uea:NAME"])
    raise InputError(f"there is no data set {name!r}; choose one of: {known}, or give the path of a .ts file")


def is_name(name: str) -> bool:
    """Whether `load` knows what to do with a name; other files are tables.

    >>> is_name("hopper"), is_name("uea:Epilepsy"), is_name("visits.csv")
    (True, True, False)
    """
    return name in DATASETS or name.startswith("uea:") or name.endswith(".ts")


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

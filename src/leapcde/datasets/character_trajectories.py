"""CharacterTrajectories (UEA): pen tip velocity and force while one of 20 letters is written; 2,858 samples.

The archive's TRAIN and TEST parts are pooled, because the published results split anew. The archive's file changed
in November 2023: zeros that pad the original recordings came back. Both versions are read, and rows at the start and
the end in which every channel is exactly zero are removed. That needs no limit: in the version without padding no
such row exists at all, so no real observation can be lost.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.datasets._io.archive import open_zip
from leapcde.datasets._io.cache import Made, prepared
from leapcde.datasets._io.ts_file import UEA, Cases, parse_ts
from leapcde.datasets.registry import register_dataset
from leapcde.datasets.source import About, Download, PublishedNumber, Read, Source
from leapcde.errors import InputError, LeapWarning

CHANNELS = ("x", "y", "force")
FILE = Path("character_trajectories", "CharacterTrajectories.zip")
PARTS = ("CharacterTrajectories_TRAIN.ts", "CharacterTrajectories_TEST.ts")
SAMPLES, SHORTEST, LONGEST = 2858, 60, 182  # the 2018 archive, which the published results use
VERSION = 1


@dataclass(frozen=True)
class Options:
    lengths: Literal["own", "padded"] = "own"  # padded: the last value is repeated up to the longest, as in the paper


def load(data_dir: str | Path) -> Series:
    """Read the zip below `data_dir`: all samples, TRAIN then TEST, with the letters ('1' … '20') as target.

    >>> len(load("data"))  # doctest: +SKIP
    2858
    """
    path = files(Path(data_dir))[0]
    series = _parse(path)
    _compare(series, path)
    return series


def files(data_dir: Path, options: Any = None) -> list[Path]:
    path = data_dir / FILE
    if not path.is_file():
        raise InputError(
            f"no file {path}; get it with 'leapcde data fetch character-trajectories', download it from "
            f"timeseriesclassification.com, or set the directory that holds {FILE} with LEAPCDE_DATA or --data-dir"
        )
    return [path]


def read(data_dir: Path, options: Options) -> Read:
    path = files(data_dir)[0]
    arrays, notes = prepared("character-trajectories", [path], {"version": VERSION}, data_dir, lambda: _prepare(path))
    series = Series(arrays["times"], arrays["values"], arrays["offsets"], CHANNELS, arrays["target"])
    _compare(series, path)
    return Read(series if options.lengths == "own" else padded(series), notes)


def padded(series: Series) -> Series:
    """Every sample as long as the longest, its last values repeated."""
    longest = int(series.lengths.max())
    rows = series.offsets[:-1, None] + np.minimum(np.arange(longest), series.lengths[:, None] - 1)
    times = np.tile(np.arange(longest, dtype=float), len(series))
    offsets = np.arange(len(series) + 1) * longest
    return Series(times, series.values[rows.ravel()], offsets, series.channels, series.target)


def _prepare(path: Path) -> Made:
    series = _parse(path)
    arrays = {"times": series.times, "values": series.values, "offsets": series.offsets, "target": np.asarray(series.target)}
    return arrays, {}


def _parse(path: Path) -> Series:
    parts = [_part(path, text, name) for name, text in _members(path).items()]
    blocks = [block for part in parts for block in part.values]
    return as_series(blocks, target=np.concatenate([np.asarray(part.labels) for part in parts]), channels=CHANNELS)


def strip_padding(values: np.ndarray) -> np.ndarray:
    """Without the leading and trailing rows in which all channels are exactly zero.

    >>> strip_padding(np.array([[0, 0], [1, 0], [0, 0], [2, 3], [0, 0]])).tolist()
    [[1, 0], [0, 0], [2, 3]]
    """
    used = np.flatnonzero((values != 0).any(axis=1))  # NaN != 0, so missing values count as real
    return values[used[0] : used[-1] + 1] if len(used) else values[:0]


def _members(path: Path) -> dict[str, bytes]:
    """The two texts in the zip, by name."""
    with open_zip(path) as archive:
        found = {Path(member).name: member for member in archive.namelist()}  # some zips have a folder inside
        return {name: archive.read(_named(found, name, path)) for name in PARTS}


def _named(found: dict[str, str], name: str, path: Path) -> str:
    if name not in found:
        raise InputError(f"{path} has no {name}; it holds: {', '.join(sorted(found)) or 'nothing'}")
    return found[name]


def _part(path: Path, text: bytes, name: str) -> Cases:
    where = f"{path}/{name}"
    cases = parse_ts(text, where)
    if cases.labels is None:
        raise InputError(f"{where} has no class labels; the line '@classLabel true …' is missing")
    blocks = [strip_padding(block) for block in cases.values]
    for i, block in enumerate(blocks):
        if block.shape[1] != len(CHANNELS):
            raise InputError(f"{where}: {block.shape[1]} dimensions, expected {len(CHANNELS)} ({', '.join(CHANNELS)})")
        if not len(block):
            raise InputError(f"{where}: case {i + 1} holds nothing but zeros; download the file again")
    return Cases(blocks, cases.labels)


def _compare(series: Series, path: Path) -> None:
    """Warn when the file is not the one that the published results use."""
    shortest, longest = int(series.lengths.min()), int(series.lengths.max())
    if (len(series), shortest, longest) != (SAMPLES, SHORTEST, LONGEST):
        warnings.warn(
            f"{path}: {len(series)} samples of length {shortest} to {longest}; the archive of 2018 has {SAMPLES} of "
            f"length {SHORTEST} to {LONGEST}, so results will not compare with published ones",
            LeapWarning,
            stacklevel=4,
        )


SOURCE = register_dataset(
    Source(
        name="character-trajectories",
        task="classification",
        options=Options,
        files=files,
        downloads=(Download(f"{UEA}/{FILE.name}", FILE),),
        read=read,
        about=About(
            title="CharacterTrajectories (UEA): pen tips writing 20 letters",
            licence="Creative Commons Attribution 4.0 (UCI repository)",
            citation="Williams, Toussaint and Storkey, Extracting Motion Primitives from Natural Handwriting Data, ICANN 2006; "
            "Bagnall et al., The UEA multivariate time series classification archive, 2018, arXiv:1811.00075",
            page="https://www.timeseriesclassification.com/description.php?Dataset=CharacterTrajectories",
            figures=(
                PublishedNumber("samples", SAMPLES, len),
                PublishedNumber("classes", 20, lambda series: len(np.unique(np.asarray(series.target)))),
                PublishedNumber("shortest", SHORTEST, lambda series: int(series.lengths.min())),
                PublishedNumber("longest", LONGEST, lambda series: int(series.lengths.max())),
                PublishedNumber("channels", 3, lambda series: len(series.channels)),
            ),
        ),
    )
)

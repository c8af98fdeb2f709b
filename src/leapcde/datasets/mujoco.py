"""Forecasting a falling Hopper: 50 steps in, 10 out. Three sources, and never a sequence in two splits.

`hopper` is the bundled 2,000 simulations, `mujoco` the 10,000 of the paper's text, which `leapcde data make mujoco` simulates.
`mujoco-as-run` is the array of 100 sequences that the paper's released code reads: its windows overlap in all but one
step, so the split goes by sequence, in order, as there. Its values are scaled to (x - min) / max of a larger set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.read import as_series
from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.data.windows import windows
from leapcde.datasets import hopper
from leapcde.datasets._io.cache import digest
from leapcde.datasets.registry import register_dataset
from leapcde.datasets.source import About, Parts, PublishedNumber, Read, Source
from leapcde.errors import InputError, MissingDependencyError

MADE, AS_RUN = Path("mujoco", "hopper.npy"), Path("mujoco", "mujoco_as_run.npy")
SEQUENCES, STEPS = 10_000, 100
AGAIN = 50  # sequences that a check simulates


@dataclass(frozen=True)
class Options:
    window: int = 50
    horizon: int = 10
    stride: int = 10  # from one window to the next
    sequences: int | None = None  # the first so many; all if not given


@dataclass(frozen=True)
class AsRunOptions:
    window: int = 50
    horizon: int = 10
    stride: int = 1


def cut(series: Series, options: Options) -> Series:
    return windows(series, options.window, options.horizon, stride=options.stride)


def cut_as_run(series: Series, options: AsRunOptions) -> Series:
    """Without the last possible window of each sequence: the released code counts one too few, so its test set has 600."""
    keep = np.ones(len(series.times), bool)
    keep[series.offsets[1:] - 1] = False
    return windows(series.keep_rows(keep), options.window, options.horizon, stride=options.stride)


def by_sequence(series: Series, options: Any) -> Parts:
    return split(series, by_id=True)


def in_order(series: Series, options: Any) -> Parts:
    return split(series, ordered=True)


def _read_bundled(data_dir: Path, options: Options) -> Read:
    return _some(hopper.bundled(), options.sequences)


def _read_made(data_dir: Path, options: Options) -> Read:
    path = _file(data_dir)
    found = _some(hopper.load(path), options.sequences)
    return Read(found.series, {**found.notes, "sha256": {path.name: digest(path)}})


def _read_as_run(data_dir: Path, options: AsRunOptions) -> Read:
    [path] = _files_as_run(data_dir)
    found = _some(hopper.load(path), None)
    return Read(found.series, {**found.notes, "units": "(x - min) / max", "sha256": {path.name: digest(path)}})


def checks(data_dir: Path, options: Options) -> Iterator[tuple[str, bool | None, str]]:
    """Simulate the first sequences again: with the seed of `leapcde data make` they must be the same bytes."""
    what = "the first sequences are those of seed 0, byte for byte"
    path = _file(data_dir)
    if path.suffix == ".npz":
        yield what, None, f"not compared: {path.name} is rounded"
        return
    array = hopper.load(path)
    try:
        again = hopper.simulate(min(AGAIN, len(array)), steps=array.shape[1])
    except MissingDependencyError as error:
        yield what, None, f"not compared: {error.what}"
        return
    same = array[: len(again)].tobytes() == again.tobytes()
    far = float(np.abs(array[: len(again)] - again).max())
    why = "another seed, or another processor or version of MuJoCo"
    yield what, True if same else None, f"{len(again)} simulated again" + ("" if same else f", up to {far:.2g} apart: {why}")


def _some(array: np.ndarray, count: int | None) -> Read:
    if count is not None and count > len(array):
        raise InputError(f"option sequences={count}: there are only {len(array)}; make more, or ask for fewer")
    array = array[:count]
    return Read(as_series(array, channels=hopper.CHANNELS), {"sequences": len(array)})


def _file(data_dir: Path) -> Path:
    """The simulations, exact (.npy) or rounded (.npz)."""
    small = data_dir / MADE.with_suffix(".npz")
    return small if small.is_file() and not (data_dir / MADE).is_file() else data_dir / MADE


def _files_made(data_dir: Path, options: Any = None) -> list[Path]:
    path = _file(data_dir)
    if not path.is_file():
        raise InputError(f"no file {path}; make it with: leapcde data make mujoco --out {path}")
    return [path]


def _files_as_run(data_dir: Path, options: Any = None) -> list[Path]:
    if not (data_dir / AS_RUN).is_file():
        raise InputError(
            f"no file {data_dir / AS_RUN}; take it from the paper's released code (its mujoco.npy, 100 × 100 × 14)"
        )
    return [data_dir / AS_RUN]


def _figures(sequences: int, why: str = "") -> tuple[PublishedNumber, ...]:
    return (
        PublishedNumber("sequences", sequences, len, why),
        PublishedNumber("steps", STEPS, lambda series: int(series.lengths.max())),
        PublishedNumber("channels", len(hopper.CHANNELS), lambda series: len(series.channels)),
    )


_CITE = (
    "Tassa et al., DeepMind Control Suite, arXiv:1801.00690, 2018; Rubanova et al., Latent Ordinary Differential Equations "
    "for Irregularly-Sampled Time Series, NeurIPS 2019 (the recipe of the simulation)"
)
_COMMON: dict[str, Any] = {"task": "forecasting", "split_name": "70/15/15 by sequence"}

BUNDLED = register_dataset(
    Source(
        name="hopper",
        options=Options,
        read=_read_bundled,
        cut=cut,
        split=by_sequence,
        about=About(
            "2,000 simulations of a falling Hopper, bundled",
            "Apache-2.0, as the rest of leapcde",
            _CITE,
            how_to_get="it comes with leapcde",
            figures=_figures(SEQUENCES, "the paper's text has 10,000; these 2,000 are the first of them, rounded, to be small"),
        ),
        **_COMMON,
    )
)
SOURCE = register_dataset(
    Source(
        name="mujoco",
        options=Options,
        files=_files_made,
        read=_read_made,
        cut=cut,
        split=by_sequence,
        checks=checks,
        about=About(
            "10,000 simulations of a falling Hopper",
            "yours: you simulate them",
            _CITE,
            figures=_figures(SEQUENCES),
            how_to_get="simulate it: leapcde data make mujoco --out DATA_DIR/mujoco/hopper.npy",
        ),
        **_COMMON,
    )
)
AS_RUN_SOURCE = register_dataset(
    Source(
        name="mujoco-as-run",
        options=AsRunOptions,
        files=_files_as_run,
        read=_read_as_run,
        cut=cut_as_run,
        split=in_order,
        about=About(
            "the 100 sequences that the paper's released code reads",
            "none is stated where it is published",
            _CITE,
            how_to_get="take mujoco.npy from the paper's released code and save it as DATA_DIR/mujoco/mujoco_as_run.npy",
            figures=(
                *_figures(100),
                PublishedNumber(
                    "sequences in the paper's text", SEQUENCES, len, "the text says 10,000, the released array holds 100"
                ),
            ),
        ),
        task="forecasting",
        split_name="70/15/15 by sequence, in order",
    )
)

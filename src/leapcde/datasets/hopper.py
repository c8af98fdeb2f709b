"""MuJoCo Hopper: simulate the forecasting data, keep it small on disk, ship a part of it.

Hopper falls freely from a random state (dm_control's hopper/stand, no control) and 7 positions and 7 velocities are
recorded every 5 ms. Simulating needs the `mujoco` extra; the shipped 2,000 sequences do not, so that examples and
tests run everywhere. They are rounded to a fixed grid and stored as second differences along time: motion is smooth,
so these are small numbers that compress well. The grid does not depend on the data, so a sequence is stored the same
whatever lies next to it.
"""

from __future__ import annotations

import logging
import operator
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import IO, Any

import numpy as np

from leapcde.errors import InputError, need
from leapcde.files import atomic

JOINTS = ("rootx", "rootz", "rooty", "waist", "hip", "knee", "ankle")
CHANNELS = tuple(f"{kind} {joint}" for kind in ("qpos", "qvel") for joint in JOINTS)
STEP = np.repeat([2.0**-12, 2.0**-9], len(JOINTS))  # powers of two: the rounded values are exact in float32
BUNDLE = "hopper.npz"
TRIES = 100


def simulate(count: Any, *, steps: int = 100, seed: int = 0, progress: Callable[[int], None] | None = None) -> np.ndarray:
    """Simulate `count` sequences: float32 (count, steps, 14). `progress` is told how many are done.

    Sequence i depends on `seed` and i alone, so a longer run begins with the shorter one.

    >>> simulate(2, steps=5).shape  # doctest: +SKIP
    (2, 5, 14)
    """
    count, steps = _whole("count", count, 1), _whole("steps", steps, 1)
    seed = _whole("seed", seed, 0)
    out = np.empty((count, steps, len(CHANNELS)), np.float32)
    with _quiet():
        physics, failure = _hopper()
        for i in range(count):
            out[i] = _stable_sequence(physics, failure, steps, np.random.default_rng([seed, i]))
            if progress is not None:
                progress(i + 1)
    return out


def make(
    path: str | Path, count: int, seed: int = 0, progress: Callable[[int], None] | None = None, *, steps: int = 100
) -> None:
    """Simulate and write to `path` (.npy as simulated, .npz rounded and small). The shipped file is 2,000 with seed 0.

    >>> make("hopper.npz", 2000)  # doctest: +SKIP
    """
    file_kind(Path(path))  # a wrong name must fail before the simulation, not after it
    write(path, simulate(count, steps=steps, seed=seed, progress=progress))


def quantise(array: np.ndarray) -> dict[str, np.ndarray]:
    """Round to the grid and difference twice along time: `deltas` int32 (channel, sample, time) and `step` (channel,).

    >>> quantise(np.zeros((1, 4, 14)))["deltas"].shape
    (14, 1, 4)
    """
    array = _checked(array, "the array")
    codes = np.rint(array.transpose(2, 0, 1) / STEP[:, None, None])
    if np.abs(codes).max() >= 2**29:  # a second difference is at most four times as large, and must fit 32 bits
        raise InputError(f"values up to {np.abs(array).max():g} are too large to round; write .npy instead")
    codes, zero = codes.astype(np.int32), np.int32(0)
    return {"deltas": np.diff(np.diff(codes, prepend=zero), prepend=zero), "step": STEP.copy()}


def restore(parts: dict[str, np.ndarray]) -> np.ndarray:
    """Undo `quantise`, up to the rounding: float32 (sample, time, channel).

    >>> restore(quantise(np.full((1, 3, 14), 0.5))).max()
    np.float32(0.5)
    """
    codes = np.cumsum(np.cumsum(parts["deltas"], axis=2, dtype=np.int32), axis=2, dtype=np.int32)
    values = codes * parts["step"][:, None, None]
    return np.ascontiguousarray(values.transpose(1, 2, 0), dtype=np.float32)


def write(path: str | Path, array: np.ndarray) -> None:
    """Write `.npy` (float32) or `.npz` (rounded, small). The file appears whole or not at all.

    >>> write("sequences.npz", simulate(10))  # doctest: +SKIP
    """
    path = Path(path)
    if file_kind(path) == ".npz":
        save_bundle(path, array)
    else:
        array = _checked(array, "the array").astype(np.float32)
        _replace(path, lambda file: np.save(file, array, allow_pickle=False))


def save_bundle(path: str | Path, array: np.ndarray) -> None:
    """Write the rounded form, whatever the name of the file.

    >>> save_bundle("hopper.npz", simulate(2000))  # doctest: +SKIP
    """
    parts = quantise(array)
    _replace(Path(path), lambda file: np.savez_compressed(file, allow_pickle=False, **parts))


def load(path: str | Path) -> np.ndarray:
    """Read what `write` wrote, or any `.npy` of shape (sample, time, 14): float32.

    >>> load("sequences.npz").shape  # doctest: +SKIP
    (10, 100, 14)
    """
    path = Path(path)
    file_kind(path)
    if not path.is_file():
        raise InputError(f"no file {path}; make it with: leapcde data make mujoco --out {path}")
    with path.open("rb") as file:
        return _read(file, str(path))


def bundled() -> np.ndarray:
    """The shipped sequences, float32 (2000, 100, 14): `simulate(2000)` rounded.

    >>> bundled().shape
    (2000, 100, 14)
    """
    source = resources.files("leapcde.datasets").joinpath(BUNDLE)
    if not source.is_file():
        raise InputError(f"{BUNDLE} is missing from the installed package; reinstall leapcde")
    with source.open("rb") as file:
        return _read(file, BUNDLE)


def _whole(name: str, value: Any, least: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} is {value!r}; give a whole number") from None
    if number < least:
        raise InputError(f"{name} is {number}; it must be at least {least}")
    return number


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep dm_control's warnings (sent through the 'absl' logger) from the screen, only as long as we simulate."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _hopper() -> tuple[Any, type[Exception]]:
    """The physics, and the error that it raises when a simulation explodes."""
    os.environ.setdefault("MUJOCO_GL", "disabled")  # nothing is drawn; without this the import looks for a display
    suite = need("dm_control.suite", "mujoco")
    control = need("dm_control.rl.control", "mujoco")
    return suite.load("hopper", "stand").physics, control.PhysicsError


def _stable_sequence(physics: Any, failure: type[Exception], steps: int, rng: np.random.Generator) -> np.ndarray:
    """One sequence. A start that overlaps the floor can explode; then the next draw of the same generator is taken."""
    for _ in range(TRIES):
        try:
            states = _sequence(physics, steps, rng)
        except failure:
            continue
        if np.isfinite(states).all():
            return states
    raise InputError(f"the simulation exploded {TRIES} times in a row; try another seed")


def _sequence(physics: Any, steps: int, rng: np.random.Generator) -> np.ndarray:
    half = len(JOINTS)
    states = np.empty((steps, 2 * half))
    with physics.reset_context():  # also clears what the solver remembers of the sequence before
        physics.data.qpos[:2] = rng.uniform(0, 0.5, 2)
        physics.data.qpos[2:] = rng.uniform(-2, 2, half - 2)
        physics.data.qvel[:] = rng.uniform(-5, 5, half)
    for t in range(steps):
        if t:  # the first recorded state is the start itself
            physics.step()
        states[t, :half] = physics.data.qpos
        states[t, half:] = physics.data.qvel
    return states


def _checked(array: np.ndarray, where: str) -> np.ndarray:
    array = np.asarray(array)
    if array.ndim != 3 or array.shape[2] != len(CHANNELS) or array.size == 0:
        raise InputError(f"{where} has shape {array.shape}; expected (sample, time, {len(CHANNELS)})")
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise InputError(f"{where} holds values that are not finite numbers; leave those sequences out")
    return array


def file_kind(path: Path) -> str:
    """How a file of simulations is written, by its name.

    >>> file_kind(Path("hopper.npz"))
    '.npz'
    """
    if path.suffix not in (".npy", ".npz"):
        raise InputError(f"cannot use {path}: the name must end in .npy (float32) or .npz (rounded, small)")
    return path.suffix


def _replace(path: Path, write_to: Callable[[IO[bytes]], None]) -> None:
    with atomic(path) as temporary, temporary.open("wb") as file:
        write_to(file)


def _read(file: IO[bytes], name: str) -> np.ndarray:
    try:
        found = np.load(file, allow_pickle=False)
        array = found if isinstance(found, np.ndarray) else restore(_parts(found))
    except (OSError, ValueError, KeyError, EOFError, IndexError, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {name}: truncated, or not a file that leapcde wrote ({error})") from error
    return _checked(array, name).astype(np.float32, copy=False)


def _parts(found: Any) -> dict[str, np.ndarray]:
    parts = {key: found[key] for key in ("deltas", "step")}
    if parts["deltas"].ndim != 3 or parts["step"].shape != parts["deltas"].shape[:1]:
        raise ValueError("its arrays do not fit together")
    return parts

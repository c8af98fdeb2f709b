"""Ragged samples -> batches: what is asked for is gathered, padded and given its path X inside a compiled program.

The data set stays as it is: flat rows, and where each sample's begin. What fits lives on the device as a whole; what does
not is read sample by sample from where the series lies, such as a store on disk. A compiled program does not know which.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.data.batch import WASTE, Padded, buckets, tight_buckets
from leapcde.data.series import Series
from leapcde.errors import LeapWarning
from leapcde.paths.batch import Batch, Recipe

ON_DEVICE = 512 * 2**20  # bytes of rows up to which a data set lives on the device as a whole
AT_ONCE, MOST_STEPS = 32 * 2**20, 64  # bytes of rows, and minibatches, that are read together at most
CHUNK = 256  # samples of which a batch is made at once where all are wanted

Read = TypeVar("Read")


class Rows(eqx.Module):
    """Samples end to end, as a compiled program has them. `take` makes a batch of some of them."""

    times: Any  # (rows,) in typical gaps since the sample's start
    values: Any  # (rows, channels), NaN where nothing was observed
    starts: Any  # (samples,): the first row of each
    counts: Any  # (samples,): how many rows it has
    static: Any  # (samples, features), possibly of width 0
    target: Any  # (samples, ...) or None; (rows, ...) if `per_row`
    weights: Any  # (samples,) or None
    length: int = eqx.field(static=True)  # to which samples are padded
    recipe: Recipe = eqx.field(static=True)  # of X
    per_row: bool = eqx.field(static=True, default=False)

    def take(self, index) -> Batch:
        """The samples of this index, padded, with their path."""
        obs = self.padded(index)
        return Batch(obs, self.recipe.path(obs))

    def padded(self, index) -> Padded:
        """The samples of this index, brought to one length as by `data.batch.pad`."""
        place, count = jnp.arange(self.length), self.counts[index][:, None]
        rows = self.starts[index][:, None] + jnp.minimum(place, count - 1)
        values = self.values[rows]
        seen = (place < count)[..., None] & ~jnp.isnan(values)
        values = jnp.where(seen, values, 0.0)
        newest = jnp.max(jnp.where(seen, place[:, None], 0), 1, keepdims=True)  # the first row, where nothing was: 0
        each = lambda array: None if array is None else array[index]
        target = self.row_targets(rows, place < count) if self.per_row else each(self.target)
        return Padded(
            times=self.times[rows],
            values=values,
            mask=seen.astype(values.dtype),
            last=jnp.take_along_axis(values, newest, 1)[:, 0],
            static=self.static[index],
            target=target,
            weights=each(self.weights),
        )

    def row_targets(self, rows, inside):
        """Those of rows, with none where there is no row."""
        if self.target is None:
            return None
        found = self.target[rows]
        inside = inside.reshape(*inside.shape, *[1] * (found.ndim - 2))
        return jnp.where(inside, found, jnp.nan if jnp.issubdtype(found.dtype, jnp.floating) else -1)


@dataclass(frozen=True, eq=False)
class Ragged(ABC):
    """All samples of a series, ready to be read, and what there is one of for each. Subclasses are final."""

    lengths: np.ndarray  # (samples,)
    channels: int
    static: np.ndarray  # (samples, features)
    target: np.ndarray | None
    weights: np.ndarray | None
    per_row: bool  # whether there is a target of each row, and not of each sample

    @abstractmethod
    def read(self, samples: np.ndarray, length: int, recipe: Recipe) -> tuple[Rows, np.ndarray]:
        """Rows that hold at least these samples (of any shape), and which of theirs they are."""

    def with_weights(self, weights: np.ndarray) -> Ragged:
        """The same samples, of which each counts so much."""
        return replace(self, weights=weights)

    @property
    def each(self) -> tuple[Any, ...]:
        """Static features, target and weight of each sample."""
        return self.static, self.target, self.weights


@dataclass(frozen=True, eq=False)
class OnDevice(Ragged):
    """A data set that lives on the device as a whole."""

    times: Any
    values: Any

    def read(self, samples: np.ndarray, length: int, recipe: Recipe) -> tuple[Rows, np.ndarray]:
        how = {"length": length, "recipe": recipe, "per_row": self.per_row}
        return Rows(self.times, self.values, *self._samples, **how), samples

    @cached_property
    def _samples(self) -> tuple[Any, ...]:
        starts = np.cumsum(self.lengths) - self.lengths
        return tuple(map(_to_device, (starts.astype(np.int32), self.lengths.astype(np.int32), *self.each)))


@dataclass(frozen=True, eq=False)
class Elsewhere(Ragged):
    """A data set of which the samples that are asked for are read and scaled each time."""

    series: Series
    scaled: Callable[[Series], Series]

    def read(self, samples: np.ndarray, length: int, recipe: Recipe) -> tuple[Rows, np.ndarray]:
        asked = samples.ravel()
        part = self.scaled(self.series.take(asked))
        room = asked.size * length  # for the longest samples there may be, so that one shape is compiled
        times, values = np.zeros(room, np.float32), np.zeros((room, self.channels), np.float32)
        times[: len(part.times)], values[: len(part.times)] = part.times, part.values
        static, target, weights = (None if array is None else array[asked] for array in (self.static, None, self.weights))
        if self.target is not None:
            target = _filled(part.target, room) if self.per_row else self.target[asked]
        found = (times, values, part.offsets[:-1].astype(np.int32), part.lengths.astype(np.int32), static, target, weights)
        how = {"length": length, "recipe": recipe, "per_row": self.per_row}
        return Rows(*map(_to_device, found), **how), np.arange(asked.size).reshape(samples.shape)


def _filled(target: Any, room: int) -> np.ndarray:
    """Targets of rows, with as much behind them as there is room; `Rows` looks at none of it."""
    found = np.zeros((room, *target.shape[1:]), target.dtype)
    found[: len(target)] = target
    return found


class Bucket(NamedTuple):
    """Samples of similar length, which are padded to one length."""

    ragged: Ragged
    samples: np.ndarray  # where they stand in the series
    length: int
    recipe: Recipe

    def read(self, order: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Rows that hold at least the bucket's samples `order` (of any shape), and which of theirs they are."""
        return self.ragged.read(self.samples[order], self.length, self.recipe)

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[np.ndarray, Rows, np.ndarray]]:
        """The samples of the series in each chunk, the rows that hold them, and which of theirs they are.

        The last chunk is filled up with repeats, so that one shape is compiled.
        """
        count = len(self.samples)
        size = min(size, few_sizes(count))
        for start in range(0, count, size):
            order = np.minimum(np.arange(start, start + size), count - 1)
            yield self.samples[start : start + size], *self.read(order)

    def batches(self, size: int = CHUNK) -> Iterator[tuple[np.ndarray, Batch]]:
        """The samples of the series in each chunk, and the batch that they are."""
        for samples, rows, index in self.chunks(size):
            yield samples, taken(rows, index[: len(samples)])

    @property
    def batch(self) -> Batch:
        """All samples as one batch: for a few."""
        return taken(*self.read(np.arange(len(self.samples))))

    def most_steps(self, batch_size: int) -> int:
        """How many minibatches are read together: a power of two, the same wherever the data set lies."""
        size = 4 * batch_size * self.length * (1 + self.ragged.channels)
        return min(MOST_STEPS, few_sizes(AT_ONCE // size + 1) // 2 or 1)


def make_buckets(
    series: Series,
    recipe: Recipe,
    *,
    scaled: Callable[[Series], Series] = lambda series: series,
    round_to: int = 1,
    waste: float = WASTE,
    tight: bool = False,
) -> list[Bucket]:
    """All samples of a series, grouped by length so that little is padded and few shapes are compiled.

    `scaled` is what happens to every block of samples before a model sees them. `round_to` rounds lengths up: for prediction
    on ever-changing data, where a new length means a new compilation. `tight` groups where padding is least.
    """
    ragged = make_ragged(series, scaled)
    up = lambda length: -(-length // round_to) * round_to if length > 1 else 1
    groups = (tight_buckets if tight else buckets)(ragged.lengths, waste=waste)
    return [Bucket(ragged, samples, up(length), recipe) for length, samples in groups]


def make_ragged(series: Series, scaled: Callable[[Series], Series]) -> Ragged:
    """The series on the device if it fits, block by block on its way there; else as it lies."""
    rows, channels = series.values.shape
    fits = 4 * rows * (1 + channels) <= ON_DEVICE
    times, values = _room(rows if fits else 0), _room(rows if fits else 0, channels)
    lengths, static, done, merged = [], [], 0, 0
    for block in series.blocks():
        part = scaled(block)
        lengths.append(part.lengths)
        static.append(np.zeros((len(part), 0)) if part.static is None else part.static)
        merged += _coarse(part)
        if fits:
            here = slice(done, done := done + len(part.times))
            times[here], values[here] = part.times, part.values
    _warn_coarse(merged)
    weights = None if series.weights is None else series.weights.astype(np.float32)
    each = (np.concatenate(static).astype(np.float32), series.target, weights, series.per_row)
    if not fits:
        return Elsewhere(np.concatenate(lengths), channels, *each, series, scaled)
    on_device = (jax.device_put(array[:done], may_alias=True) for array in (times, values))
    return OnDevice(np.concatenate(lengths), channels, *each, *on_device)


@eqx.filter_jit
def taken(rows: Rows, index) -> Batch:
    """The samples of this index as a batch."""
    return rows.take(index)


def _to_device(array: np.ndarray | None) -> Any:
    return None if array is None else jnp.asarray(array)


def _room(*shape: int) -> np.ndarray:
    """Room for numbers that a device which is this machine takes as they lie: it begins where vectors may begin."""
    size = 4 * math.prod(shape)
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(np.float32).reshape(shape)


def _coarse(scaled: Series) -> int:
    """How many times single precision, which the device has, does not tell from the one before."""
    same = np.diff(scaled.owner) == 0
    return int((same & (np.diff(scaled.times) > 0) & (np.diff(scaled.times.astype(np.float32)) == 0)).sum())


def _warn_coarse(merged: int) -> None:
    if merged:
        message = f"{merged} pairs of times are too close, so far from their sample's start, to be told apart; "
        warnings.warn(message + "split such samples, or thin out their bursts", LeapWarning, stacklevel=5)


def few_sizes(count: int) -> int:
    """The next power of two: what is filled up to it compiles for a few sizes only, whatever counts come along.

    >>> [few_sizes(count) for count in (1, 3, 64, 65)]
    [1, 4, 64, 128]
    """
    return 1 << (count - 1).bit_length()


def ahead(reads: Iterator[Read], count: int = 2) -> Iterator[Read]:
    """What is read, of which so much is read beforehand by a thread of its own: a step need not wait for a disk."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, reads, None) for _ in range(count))
        while (found := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, reads, None))
            yield found

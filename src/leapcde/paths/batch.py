"""Scaled series -> what a model eats: padded observations and the path X, in groups of similar length, on the device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from leapcde.data.batch import WASTE, Padded, buckets, pad
from leapcde.data.series import Series
from leapcde.errors import InputError
from leapcde.paths.interpolation import channel_count, fit_path, interpolation_of
from leapcde.paths.path import CubicPath

MOST_AT_ONCE = 5_000_000  # values whose path is fitted in one go; Sepsis has more, the bundled data less


@dataclass(frozen=True)
class Recipe:
    """How the path X is made of the observations.

    >>> Recipe(intensity=True).channels(34)
    69
    """

    interpolation: str = "natural"
    time_channel: bool = True  # time as a channel
    intensity: bool = False  # each channel's running count of observations as a channel

    def __post_init__(self):
        interpolation_of(self.interpolation)
        for name in ("time_channel", "intensity"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InputError(f"{name} {getattr(self, name)!r}: give True or False")

    def channels(self, values: int) -> int:
        """How many channels X has for so many channels of the series."""
        return channel_count(values, time_channel=self.time_channel, intensity=self.intensity)

    def path(self, obs: Padded) -> CubicPath:
        """X through the observations."""
        return fit_path(obs, self.interpolation, time_channel=self.time_channel, intensity=self.intensity)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Hidden(NamedTuple):
    """What a training step hid of the observations, row by row: a learned path may be asked for it."""

    values: Any  # (batch, length, channels)
    mask: Any  # (batch, length, channels), 1 where an observation was hidden


class Batch(NamedTuple):
    """The observations, padded, and the path X through them."""

    obs: Padded
    X: CubicPath
    hidden: Hidden | None = None  # in training, where rows are hidden

    @property
    def start(self):
        """X(0), with the static features behind it: what initial values are made of."""
        return jnp.concatenate([self.X.values[:, 0], self.obs.static], -1)

    @property
    def made(self):
        """(batch, length, channels): 1 where an observation was made, whether or not a training step hides what it was."""
        return self.obs.mask if self.hidden is None else self.obs.mask + self.hidden.mask

    def take(self, index) -> Batch:
        """The samples of this index."""
        return jax.tree.map(lambda array: array[index], self)


class Bucket(NamedTuple):
    """Samples of similar length as one batch, and where they stand in the series."""

    batch: Batch
    samples: np.ndarray


def make_buckets(series: Series, recipe: Recipe, *, round_to: int = 1, waste: float = WASTE) -> list[Bucket]:
    """All samples of a scaled series, grouped by length so that little is padded and few shapes are compiled.

    `round_to` rounds lengths up: for prediction on ever-changing data, where a new length means a new compilation.
    """
    made = []
    for length, samples in buckets(series.lengths, waste=waste):
        length = -(-length // round_to) * round_to if length > 1 else 1
        obs = pad(series.take(samples), length)
        X = _path(obs._replace(target=None), recipe)
        made.append(Bucket(Batch(jax.tree.map(jnp.asarray, obs), X), samples))
    return made


def _path(obs: Padded, recipe: Recipe) -> CubicPath:
    """The path, fitted block by block where the data is large: fitting needs many times the memory of its result."""
    count = len(obs.times)
    block = min(max(1, MOST_AT_ONCE * count // max(obs.values.size, 1)), few_sizes(count))
    whole: list[np.ndarray] = []
    for start in range(0, count, block):
        # The last block is filled up with repeats, so that one shape is compiled.
        index = np.minimum(np.arange(start, start + block), count - 1)
        parts = jax.tree.leaves(_fit(jax.tree.map(lambda array: array[index], obs), recipe))  # noqa: B023
        whole = whole or [np.empty((count, *part.shape[1:]), part.dtype) for part in parts]
        for out, part in zip(whole, parts, strict=True):
            out[start : start + block] = np.asarray(part)[: count - start]
    parts = (jnp.asarray(whole.pop(0)) for _ in range(4))  # pop: each part is let go of as soon as it is copied
    return CubicPath(*parts, interpolation=recipe.interpolation)


def few_sizes(count: int) -> int:
    """The next power of two: what is filled up to it compiles for a few sizes only, whatever counts come along.

    >>> [few_sizes(count) for count in (1, 3, 64, 65)]
    [1, 4, 64, 128]
    """
    return 1 << (count - 1).bit_length()


@eqx.filter_jit
def _fit(obs: Padded, recipe: Recipe) -> CubicPath:
    return recipe.path(obs)

"""Scaled series -> what a model eats: padded observations and the path X, in groups of similar length, on the device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .errors import choose
from .paths import SCHEMES, Path, channel_count, fit_path
from .prepare import Padded, buckets, pad
from .series import Series


@dataclass(frozen=True)
class Recipe:
    """How the path X is made of the observations.

    >>> Recipe(intensity=True).channels(34)
    69
    """

    scheme: str = "natural"
    time: bool = True  # time as a channel
    intensity: bool = False  # each channel's running count of observations as a channel

    def __post_init__(self):
        choose("path", self.scheme, SCHEMES)

    def channels(self, values: int) -> int:
        return channel_count(values, time=self.time, intensity=self.intensity)

    def path(self, obs: Padded) -> Path:
        return fit_path(obs, self.scheme, time=self.time, intensity=self.intensity)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Batch(NamedTuple):
    """The observations, padded, and the path X through them."""

    obs: Padded
    X: Path

    @property
    def start(self):
        """X(0), with the static features behind it: what initial values are made of."""
        return jnp.concatenate([self.X.values[:, 0], self.obs.static], -1)

    def take(self, index) -> Batch:
        return jax.tree.map(lambda array: array[index], self)


class Bucket(NamedTuple):
    """Samples of similar length as one batch, and where they stand in the series."""

    batch: Batch
    samples: np.ndarray


def make_buckets(series: Series, recipe: Recipe, *, round_to: int = 1) -> list[Bucket]:
    """All samples of a scaled series, grouped by length so that little is padded and few shapes are compiled.

    `round_to` rounds lengths up: for prediction on ever-changing data, where a new length means a new compilation.
    """
    made = []
    for length, samples in buckets(series.lengths):
        length = -(-length // round_to) * round_to if length > 1 else 1
        obs = pad(series.take(samples), length)
        obs = obs._replace(target=None if obs.target is None else jnp.asarray(obs.target))
        obs = jax.tree.map(jnp.asarray, obs)
        made.append(Bucket(Batch(obs, _fit(obs._replace(target=None), recipe)), samples))
    return made


@eqx.filter_jit
def _fit(obs: Padded, recipe: Recipe) -> Path:
    return recipe.path(obs)

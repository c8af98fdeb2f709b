"""What a model eats: observations of a batch, padded, and the path X through them; and how X is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from leapcde.data.batch import Padded
from leapcde.errors import InputError
from leapcde.paths.interpolation import channel_count, fit_path, interpolation_of
from leapcde.paths.path import CubicPath


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

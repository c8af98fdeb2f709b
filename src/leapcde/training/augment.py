"""What training may do to a batch before the model sees it: any model, because nothing of a model is in it.

Each is a pure function of a batch and a key. What is changed of the observations is changed in X too, which is fitted
again by its recipe; a model that does not look at X pays nothing for that, because the compiler leaves it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from leapcde.data.batch import Padded
from leapcde.paths.batch import Batch, Hidden, Recipe
from leapcde.paths.interpolation import interpolation_of
from leapcde.paths.path import take_rows, two_knots
from leapcde.paths.transform import add_channels, with_linear

SPANS = 2  # spans of time that `hide` takes out of a sample
SAME = 0.25  # typical gaps within which two times are the same, for `earlier`


@dataclass(frozen=True)
class Augment:
    """What is done to a batch in a training step. Neutral by default; a compiled step depends on it."""

    hide: float = 0.0  # up to so large a share of each sample's rows is hidden
    spans: float = 0.0  # and two spans of up to so large a share of its time
    warp: float = 0.0  # how unevenly time may run
    channel_drop: float = 0.0  # share of channels of which a sample shows nothing
    recipe: Recipe = field(default_factory=Recipe)  # of X
    hide_values: float = 0.0  # up to so large a share of each sample's single observations is hidden, besides its rows

    def __call__(self, batch: Batch, key) -> Batch:
        if not (self.hide or self.spans or self.warp or self.channel_drop or self.hide_values):
            return batch
        obs, (a, b, c) = batch.obs, jax.random.split(key, 3)
        if self.warp:
            obs = obs._replace(times=warped(obs.times, self.warp, a))
        if self.channel_drop and obs.mask.shape[-1] > 1:  # of a single channel nothing would be left
            obs = masked(obs, drop_channels(obs.mask, self.channel_drop, b))
        seen = obs
        if self.hide or self.spans:
            seen = masked(obs, obs.mask * visible(obs, self.hide, self.spans, c))
        if self.hide_values:
            seen = masked(seen, thinned(seen.mask, self.hide_values, jax.random.fold_in(c, 1)))
        return Batch(seen, self.recipe.path(seen), Hidden(obs.values, obs.mask - seen.mask))


def masked(obs: Padded, mask) -> Padded:
    """The observations of which only those of `mask` were made; rows and their times stay."""
    values = obs.values * mask
    newest = jnp.max(jnp.where(mask > 0, jnp.arange(mask.shape[1])[:, None], 0), 1, keepdims=True)
    return obs._replace(values=values, mask=mask, last=take_rows(values, newest)[:, 0])  # 0 where nothing was


def visible(obs: Padded, rows: float, spans: float, key):
    """(batch, length, 1): 0 where a row is hidden. Each sample's first and last rows with an observation always stay."""
    a, b, c = jax.random.split(key, 3)
    (B, N), T = obs.times.shape, obs.times[:, -1:]
    seen = jax.random.uniform(b, (B, N)) >= rows * jax.random.uniform(a, (B, 1))
    for k in jax.random.split(c, SPANS):
        s, w = jax.random.split(k)
        width = spans * T * jax.random.uniform(w, (B, 1))
        start = jax.random.uniform(s, (B, 1)) * (T - width)
        seen &= ~((obs.times > start) & (obs.times < start + width))
    there = obs.mask.max(-1) > 0
    first, last = jnp.argmax(there, 1), N - 1 - jnp.argmax(there[:, ::-1], 1)
    stays = (jnp.arange(N) == first[:, None]) | (jnp.arange(N) == last[:, None])
    return (seen | stays)[..., None].astype(obs.mask.dtype)


def thinned(mask, most: float, key):
    """The mask without up to so large a share of each sample's single observations."""
    a, b = jax.random.split(key)
    share = most * jax.random.uniform(a, (len(mask), 1, 1))
    return mask * (jax.random.uniform(b, mask.shape) >= share)


def warped(times, most: float, key):
    """Time that runs unevenly: a random increasing change of it that keeps both ends."""
    a, b = jnp.exp(most * jax.random.uniform(key, (2, len(times), 1), minval=-1.0, maxval=1.0))
    T = jnp.maximum(times[:, -1:], 1e-9)
    return T * (1 - (1 - jnp.clip(times / T, 0, 1) ** a) ** b)


def drop_channels(mask, share: float, key):
    """The mask with whole channels of samples set to unobserved."""
    return mask * jax.random.bernoulli(key, 1 - share, (len(mask), 1, mask.shape[-1])).astype(mask.dtype)


def earlier(batch: Batch, recipe: Recipe, key) -> Batch:
    """A forecasting batch as it was at a random earlier row, with what then followed as its target.

    A target is a unit of time (a typical gap) after the other; it is unknown (NaN) where no row lies at its time.
    """
    obs, N = batch.obs, batch.obs.times.shape[1]
    index, seen, H = jnp.arange(N), obs.mask.max(-1) > 0, obs.target.shape[1]
    last = jnp.max(jnp.where(seen, index, 0), 1, keepdims=True)
    cut = jnp.argmax(jax.random.uniform(key, seen.shape) * (seen & (index < last)), 1)[:, None]
    now, kept = jnp.take_along_axis(obs.times, cut, 1), index <= cut
    past = masked(obs, obs.mask * kept[..., None])._replace(times=jnp.where(kept, obs.times, now))

    ahead = 1.0 + jnp.arange(H, dtype=obs.times.dtype)
    known = ~jnp.isnan(obs.target)
    join = lambda a, b: jnp.concatenate([a, b], 1)
    times = join(obs.times, obs.times[:, -1:] + ahead)
    there = join(obs.mask, known.astype(obs.mask.dtype))
    values = join(obs.values, jnp.where(known, obs.target, 0.0))
    hit = (jnp.abs(times[:, None] - (now + ahead)[..., None]) < SAME).astype(values.dtype)  # (batch, horizon, rows)
    count = hit @ there
    target = jnp.where(count > 0, hit @ (values * there) / jnp.maximum(count, 1), jnp.nan)
    past = past._replace(target=target)
    return Batch(past, recipe.path(past))


def joined(a: Batch, b: Batch) -> Batch:
    """Two batches as one."""
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), a, b)


def noisy(batch: Batch, deviation: float, key) -> Batch:
    """The batch as it would be with Gaussian errors in its observations: the rows, and X by what the errors add to it."""
    obs, X = batch.obs, batch.X
    errors = deviation * jax.random.normal(key, obs.values.shape, obs.values.dtype) * obs.mask
    rows = two_knots(obs.times), two_knots(errors), two_knots(obs.mask, fill=0.0)
    added = interpolation_of(X.interpolation).of_errors(*rows)
    skip = X.values.shape[-1] - obs.values.shape[-1]  # time and counts know no error
    still = with_linear(added, jnp.zeros((*added.values.shape[:2], skip), added.values.dtype))
    seen = obs._replace(values=obs.values + errors, last=obs.last + added.values[:, -1])
    return Batch(seen, add_channels(X, still))

"""How a batch meets the hardware: in tiles that fit a processor's cache, or spread over several devices."""

from __future__ import annotations

import jax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from .batches import Batch
from .models.base import Model, Output

# Samples that a processor works on at a time. What a stage of a solve computes for them stays in its cache, which is
# worth a third of the time with a batch of 1,024 (docs/decisions/0007).
TILE = 128


def apply(model: Model, batch: Batch, *, key, epoch) -> Output:
    """The model on a batch while training: spread over the devices there are, or tile by tile on a single processor."""
    count = len(batch.obs.times)
    if jax.device_count() > 1:
        return model(spread(batch), key=key, epoch=epoch)
    if jax.default_backend() != "cpu" or count <= TILE or count % TILE:
        return model(batch, key=key, epoch=epoch)
    tiles = jax.tree.map(lambda a: a.reshape(count // TILE, TILE, *a.shape[1:]), batch)
    keys = jax.random.split(key, count // TILE)
    prediction, penalty = lax.map(lambda tile: model(tile[0], key=tile[1], epoch=epoch), (tiles, keys))
    return Output(prediction.reshape(count, *prediction.shape[2:]), penalty.mean())


def spread(batch: Batch) -> Batch:
    """Each device gets an equal share of the samples; a batch that cannot be shared equally stays on one."""
    if len(batch.obs.times) % jax.device_count():
        return batch
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    return lax.with_sharding_constraint(batch, NamedSharding(mesh, PartitionSpec("batch")))

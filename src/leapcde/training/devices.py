"""How a batch meets the hardware: spread over several devices where there are some."""

from __future__ import annotations

import jax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from leapcde.paths.batch import Batch


def spread(batch: Batch) -> Batch:
    """Each device gets an equal share of the samples; a batch that cannot be shared equally stays on one."""
    if jax.device_count() == 1 or len(batch.obs.times) % jax.device_count():
        return batch
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    return lax.with_sharding_constraint(batch, NamedSharding(mesh, PartitionSpec("batch")))

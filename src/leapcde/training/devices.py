"""How a batch meets the hardware: spread over several devices where there are some, of one process or of several."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from leapcde.errors import InputError, TrainingError
from leapcde.paths.batch import Batch

PROCESSES = "LEAPCDE_PROCESSES"  # "ADDRESS:PORT,COUNT,INDEX", or "auto" where a scheduler such as Slurm knows
ARRAYS = (jax.Array, np.ndarray)


def meet_others() -> int:
    """Meet the other processes of this training if the environment names some; how many there are.

    To be called before JAX computes anything; later calls change nothing.

    >>> meet_others()
    1
    """
    asked = os.environ.get(PROCESSES, "")
    if asked and not jax.distributed.is_initialized():
        try:
            jax.distributed.initialize(**_meeting(asked))
        except (RuntimeError, ValueError) as error:
            raise InputError(f"{PROCESSES}={asked}: the processes did not meet ({error})") from None
    return jax.process_count()


def _meeting(asked: str) -> dict[str, Any]:
    """Where processes meet, how many they are, and which of them this is; nothing where JAX finds that out.

    >>> _meeting("10.0.0.1:1234,4,0")
    {'coordinator_address': '10.0.0.1:1234', 'num_processes': 4, 'process_id': 0}
    """
    if asked == "auto":
        return {}
    address, *numbers = asked.split(",")
    if len(numbers) != 2 or not all(number.strip().isdigit() for number in numbers) or ":" not in address:
        raise InputError(f"{PROCESSES}={asked}: write ADDRESS:PORT,COUNT,INDEX, such as 10.0.0.1:1234,4,0, or auto")
    count, index = map(int, numbers)
    if not index < count:
        raise InputError(f"{PROCESSES}={asked}: of {count} processes the last has index {count - 1}")
    return {"coordinator_address": address, "num_processes": count, "process_id": index}


def spread(batch: Batch) -> Batch:
    """Each device gets an equal share of the samples; a batch that cannot be shared equally stays on one."""
    if jax.device_count() == 1 or len(batch.obs.times) % jax.device_count():
        return batch
    return lax.with_sharding_constraint(batch, NamedSharding(_all_devices(), PartitionSpec("batch")))


def everywhere(tree: Any) -> Any:
    """What every process holds, as arrays that all devices hold; as it is where there is one process."""
    if jax.process_count() == 1:
        return tree
    copied = NamedSharding(_all_devices(), PartitionSpec())

    def put(leaf: Any) -> Any:
        if not isinstance(leaf, ARRAYS) or getattr(leaf, "sharding", None) == copied:
            return leaf
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.jit(jax.random.wrap_key_data)(put(jax.random.key_data(leaf)))
        return jax.device_put(np.asarray(leaf), copied)  # from the host: one process cannot send to devices of another

    return jax.tree.map(put, tree)


def here(tree: Any) -> Any:
    """The other way round: arrays of this process alone."""
    if jax.process_count() == 1:
        return tree
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)) if isinstance(leaf, ARRAYS) else leaf, tree)


def check_together(epochs: int) -> None:
    """Processes that go on from checkpoints must be equally far, or they would wait for each other for ever."""
    if jax.process_count() > 1:
        found = np.asarray(multihost_utils.process_allgather(np.array(epochs))).tolist()
        if len(set(found)) > 1:
            told = ", ".join(map(str, found))
            raise TrainingError(f"the checkpoints of the processes are of different epochs ({told}); remove them, or copy one")


def _all_devices() -> Mesh:
    return jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))

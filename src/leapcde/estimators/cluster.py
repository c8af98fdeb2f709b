"""Answers of a trained model from the workers of a Dask cluster: samples in parts, each answered by whoever is free."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.series import Series
from leapcde.ensemble.fitted import restore_fitted
from leapcde.errors import InputError, need
from leapcde.files import load_file
from leapcde.training.fitted import Fitted

FEWEST = 64  # samples of a part: fewer would be sent for longer than they are answered
TURNS = 4  # parts for each worker, so that a slow one holds up little


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the Dask scheduler at an address, which is let go of in the end."""
    distributed = need("distributed", "cluster")
    if not address.strip():
        raise InputError("the address of the Dask scheduler is empty; give one such as tcp://HOST:8786")
    try:
        client = distributed.Client(address, timeout=20, set_as_default=False)
    except Exception as error:  # Dask has many words for an address that is none
        raise InputError(f"no Dask scheduler answers at {address!r} ({error}); start one with 'dask scheduler'") from None
    with client:
        yield client


def answers_of(client: Any, model: Path) -> Callable[[Series], np.ndarray]:
    """`Fitted.new_outputs` of a saved model, by the workers of a cluster; they need leapcde, and nothing of this machine.

    A worker that is lost costs its part, which another one answers.
    """
    content = model.read_bytes()

    def outputs(series: Series) -> np.ndarray:
        workers = len(client.scheduler_info(n_workers=-1)["workers"])
        if not workers:
            raise InputError("the Dask scheduler has no workers; start some with 'dask worker ADDRESS --nthreads 1'")
        parts = np.array_split(np.arange(len(series)), _parts(len(series), workers))
        sent = [client.submit(_answer, content, series.take(part), pure=False) for part in parts]
        return np.concatenate(client.gather(sent))

    return outputs


def _parts(samples: int, workers: int) -> int:
    """
    >>> _parts(10, 2), _parts(1_000, 2), _parts(100_000, 2)
    (1, 8, 8)
    """
    return max(1, min(samples // FEWEST, TURNS * workers))


def _answer(content: bytes, series: Series) -> np.ndarray:
    """On a worker."""
    return _loaded(hashlib.sha256(content).hexdigest(), content).new_outputs(replace(series, target=None))


@lru_cache(maxsize=2)
def _loaded(digest: str, content: bytes) -> Fitted:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(content)
        return restore_fitted(path, *load_file(path, "model"))

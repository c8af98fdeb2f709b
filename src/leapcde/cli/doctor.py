"""What is installed, what it runs on, and which data sets are there."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from leapcde.datasets import registry as datasets
from leapcde.datasets._io.cache import cache_folder

NEEDED = ("leapcde", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "scikit-learn", "pandas", "safetensors")
OPTIONAL = {"matplotlib": "plot", "dm_control": "mujoco", "mujoco": "mujoco", "librosa": "audio", "pyarrow": "parquet"}


def examine(data_dir: Path | None = None) -> dict[str, dict[str, Any]]:
    """Versions, devices and data as one nested dictionary."""
    versions = {name: _version(name) or "missing" for name in NEEDED}
    extras = {name: _version(name) or f"missing; pip install 'leapcde[{extra}]'" for name, extra in OPTIONAL.items()}
    where = datasets.find_data_dir(data_dir)
    devices = {str(device): device.platform for device in jax.devices()}
    return {
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "versions": versions,
        "optional": extras,
        "devices": devices,
        "data": {
            "directory": str(where),
            "prepared files": str(cache_folder(where) or "off"),
            **{n: datasets.state(n, data_dir) for n in datasets.DATASETS},
        },
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

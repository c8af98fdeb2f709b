"""What is installed, what it runs on, and which data sets are there."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from leapcde.compiled import compiled_folder
from leapcde.datasets import registry as datasets
from leapcde.datasets._io.cache import cache_folder

NEEDED = ("leapcde", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "scikit-learn", "pandas", "safetensors")
EXTRAS = {
    "plot": ("matplotlib", "umap-learn"),
    "tune": ("optuna",),
    "parquet": ("pyarrow",),
    "cluster": ("dask",),
    "mujoco": ("dm_control", "mujoco"),
    "audio": ("librosa", "soundfile"),
    "rocket": ("aeon",),
    "track": ("mlflow-skinny", "sqlalchemy", "alembic", "tensorboard"),
    "bench": ("torch", "torchcde"),
    "export": ("jax2onnx", "onnxruntime", "flatbuffers"),
    "survival": ("scikit-survival",),
    "docs": ("mkdocs-material", "mkdocstrings"),
}


def examine(data_dir: Path | None = None) -> dict[str, dict[str, Any]]:
    """Versions, devices and data as one nested dictionary; nothing is loaded or prepared."""
    where = datasets.find_data_dir(data_dir)
    return {
        "machine": {"python": platform.python_version(), "system": platform.platform()},
        "versions": {name: _version(name) or "missing" for name in NEEDED},
        "optional": {name: _version(name) or _hint(extra) for extra, names in EXTRAS.items() for name in names},
        "compiled programs": {"folder": str(compiled_folder() or "not kept by leapcde")},
        "devices": {str(device): device.platform for device in jax.devices()},
        "data": {
            "directory": str(where),
            "prepared files": str(cache_folder(where) or "off"),
            **{name: datasets.state(name, data_dir) for name in datasets.DATASETS},
        },
    }


def _hint(extra: str) -> str:
    return f"missing; pip install 'leapcde[{extra}]'"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None

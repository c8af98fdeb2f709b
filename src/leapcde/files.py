"""Files that outlive a process: safetensors with a JSON header, versioned, written whole or not at all, never pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from platformdirs import user_cache_path
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from leapcde.errors import CheckpointError, InputError

VERSION = 1


def cache_root() -> Path | None:
    """Where files that can be made again are kept: LEAPCDE_CACHE, else the user's cache directory; None if that is "off"."""
    asked = os.environ.get("LEAPCDE_CACHE", "")
    if asked.lower() == "off":
        return None
    return Path(asked) if asked else user_cache_path("leapcde", appauthor=False, opinion=False)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary name that becomes `path` only if the block succeeds: a killed process leaves the old file whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(data: Any, indent: int | None = None) -> str:
    """JSON that every reader accepts: NaN and infinity, which JSON does not know, are null.

    >>> json_text({"auroc": float("nan"), "file": Path("a")})
    '{"auroc": null, "file": "a"}'
    """
    return json.dumps(_finite(data), indent=indent, default=str, allow_nan=False)


def save_file(path: Path, kind: str, trees: dict[str, Any], about: dict[str, Any]) -> None:
    """Write named pytrees of arrays and a JSON description as one file."""
    arrays = {f"{name}/{key}": value for name, tree in trees.items() for key, value in _flatten(tree).items()}
    header = {"leapcde": json.dumps({"version": VERSION, "kind": kind, **about})}
    with atomic(path) as temporary, open(temporary, "wb") as file:
        file.write(save(arrays, header))
        file.flush()
        os.fsync(file.fileno())


def load_file(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_file` wrote: the arrays by name, and the description."""
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder; give a file")
    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get("leapcde")
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"there is no file {path}") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is truncated or not a leapcde file ({error})") from None
    if header is None:
        raise CheckpointError(f"{path} holds weights, but leapcde did not write it")
    return arrays, _about(path, kind, header)


def restore(name: str, like: Any, arrays: dict[str, np.ndarray], path: Path) -> Any:
    """The pytree `like` with its arrays replaced by those saved under `name`."""
    flat, structure = jax.tree_util.tree_flatten_with_path(like, is_leaf=lambda x: x is None)
    leaves = []
    for keys, leaf in flat:
        if not _is_array(leaf):
            leaves.append(leaf)
            continue
        key = f"{name}/{jax.tree_util.keystr(keys)}"
        found = arrays.get(key)
        if found is None or found.shape != leaf.shape:
            what = "is missing" if found is None else f"has shape {found.shape}, expected {leaf.shape}"
            raise CheckpointError(f"{path} does not fit this model: {key} {what}")
        leaves.append(jnp.asarray(found, leaf.dtype))
    return jax.tree_util.tree_unflatten(structure, leaves)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _about(path: Path, kind: str, header: str) -> dict[str, Any]:
    try:
        about = json.loads(header)
        version, found = int(about["version"]), about["kind"]
    except (ValueError, KeyError, TypeError, OverflowError):
        raise CheckpointError(f"{path} has a damaged header") from None
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer leapcde (format {version}, this one reads {VERSION}); upgrade leapcde"
        )
    if found != kind:
        raise CheckpointError(f"{path} is a {found!r} file; a {kind!r} file is needed")
    return about


def _flatten(tree: Any) -> dict[str, np.ndarray]:
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(keys): np.asarray(leaf, order="C") for keys, leaf in flat if _is_array(leaf)}


def _is_array(leaf: Any) -> bool:
    return (eqx.is_array_like(leaf) and hasattr(leaf, "shape")) or isinstance(leaf, jax.ShapeDtypeStruct)

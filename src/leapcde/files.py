"""Files that outlive a process: safetensors with a JSON header, versioned, written whole or not at all, never pickled."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from platformdirs import user_cache_path
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from safetensors.numpy import save_file as save_from_memory

from leapcde.errors import CheckpointError, InputError, LeapError

VERSION = 2  # since 2, a file holds a digest of all that is in it
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError)
MOST, DEEPEST = 10**6, 64  # what a number in a header may be, whatever arrays are stored with it
LARGE = 2**25  # bytes of arrays that are not copied to be written
Load = TypeVar("Load", bound=Callable[..., Any])


def cache_root() -> Path | None:
    """Where files that can be made again are kept: LEAPCDE_CACHE, else the user's cache directory; None if that is "off"."""
    asked = os.environ.get("LEAPCDE_CACHE", "")
    if asked.lower() == "off":
        return None
    return Path(asked) if asked else user_cache_path("leapcde", appauthor=False, opinion=False)


@contextmanager
def atomic(path: Path, *, older: Path | None = None) -> Iterator[Path]:
    """A temporary name that becomes `path` only if the block succeeds: a killed process leaves the old file whole.

    What was at `path` before goes to `older`, if that is given. What killed processes left is cleared away.
    """
    temporary = unfinished(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path)
        yield temporary
        if older is not None and path.exists():
            os.replace(path, older)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Work in a folder that no other process works in; the claim ends with the process, however that ends.

    It is a lock on the folder itself, so that nothing is left behind. Where there are no locks, nobody is kept out.
    """
    handle = None
    try:
        with suppress(ImportError, PermissionError, NotADirectoryError):
            import fcntl

            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)  # pyright: ignore[reportArgumentType]
        raise InputError(f"another process is at work in {folder}; wait for it, or give another --out") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def free_for(path: Path) -> bool:
    """Whether a folder may begin with this file: it is not there, or holds only what was left of a first try at it."""
    folder, left = path.parent, re.compile(rf"\.{re.escape(path.name)}\..*\.tmp")
    return not folder.exists() or (folder.is_dir() and all(left.fullmatch(one.name) for one in folder.iterdir()))


def check_apart(out: Path, read: Iterable[Path]) -> None:
    """What is written must not take the place of what is read."""
    for path in read:
        within = path.is_dir() and path.resolve() in out.resolve().parents
        if out.exists() and path.exists() and (within or os.path.samefile(out, path)):
            raise InputError(f"{out} is what is read here, and would be lost; give another --out")


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def json_text(data: Any, indent: int | None = None) -> str:
    """JSON that every reader accepts: NaN and infinity, which JSON does not know, are null.

    >>> json_text({"auroc": float("nan"), "file": Path("a")})
    '{"auroc": null, "file": "a"}'
    """
    return json.dumps(_finite(data), indent=indent, default=str, allow_nan=False)


def save_file(path: Path, kind: str, trees: dict[str, Any], about: dict[str, Any], *, older: Path | None = None) -> None:
    """Write named pytrees of arrays and a JSON description as one file; what was there before goes to `older`."""
    arrays = {f"{name}/{key}": value for name, tree in trees.items() for key, value in _flatten(tree).items()}
    header = json.loads(json.dumps({"version": VERSION, "kind": kind, **about}))
    header["digest"] = digest(arrays, header)
    with atomic(path, older=older) as temporary:
        _write(temporary, arrays, {"leapcde": json.dumps(header)})


def _write(path: Path, arrays: dict[str, np.ndarray], about: dict[str, str]) -> None:
    """Large arrays go into the file from where they lie; of small ones there are copies first."""
    large = sum(array.nbytes for array in arrays.values()) > LARGE
    if large:
        try:
            save_from_memory(arrays, path, about)
        except SafetensorError as error:
            raise OSError(str(error)) from error
    with open(path, "rb+" if large else "wb") as file:
        file.write(b"" if large else save(arrays, about))
        file.flush()
        os.fsync(file.fileno())


def load_file(path: Path, kind: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_file` wrote: the arrays by name, and the description. What has changed since is an error."""
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder; give a file")
    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get("leapcde")
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"there is no file {path}") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is truncated or not a leapcde file ({error})") from None
    if header is None:
        raise CheckpointError(f"{path} holds weights, but leapcde did not write it")
    about = _about(path, kind, header)
    told = about.pop("digest", None)
    if told is None and about["version"] == 1:  # files from before there were digests
        return arrays, about
    if told != digest(arrays, about):
        raise CheckpointError(f"{path} is damaged: its content is not what was saved; take a copy of it, or train again")
    return arrays, about


def digest(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> str:
    """Of all that a file holds: names, types, shapes and bits of its arrays, and its description.

    >>> digest({"a": np.zeros(2)}, {}) == digest({"a": np.zeros((2, 1))}, {})
    False
    """
    found = hashlib.sha256(json.dumps(header).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(json.dumps([name, str(array.dtype), arrays[name].shape]).encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()


def names_damage(load: Load) -> Load:
    """A decorator for what loads a file, given first: a header that makes no sense is one error with the file's name."""

    @functools.wraps(load)
    def loaded(path: Any, *rest: Any) -> Any:
        try:
            return load(path, *rest)
        except InputError as error:
            raise CheckpointError(f"{path} has a damaged header: {error.what}", error.problems) from None
        except LeapError:
            raise
        except DAMAGE as error:
            raise CheckpointError(f"{path} has a damaged header ({type(error).__name__}: {error})") from error

    return loaded  # pyright: ignore[reportReturnType]


def check_sizes(header: Any, arrays: dict[str, np.ndarray], path: Path) -> None:
    """A header may not ask for more than the arrays stored beside it can fill: nothing is built before that is known."""
    most = max(MOST, sum(array.size for array in arrays.values()))
    wrong = [
        f"{name} {value}"
        for name, value in _numbers(header, "")
        if abs(value) > (_deepest(arrays) if "depth" in name else most)
    ]
    if wrong:
        raise CheckpointError(f"{path} has a damaged header: its arrays are too small for {', '.join(wrong[:5])}")


def _deepest(arrays: dict[str, np.ndarray]) -> int:
    return max(DEEPEST, len(arrays))


def _numbers(value: Any, name: str) -> Iterator[tuple[str, int]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, name)
    elif isinstance(value, int):
        yield name, value


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
        if found is None or found.shape != leaf.shape or found.dtype.kind != np.dtype(leaf.dtype).kind:
            what = (
                "is missing"
                if found is None
                else f"has shape {found.shape} of {found.dtype}, expected {leaf.shape} of {leaf.dtype}"
            )
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
    except DAMAGE:
        raise CheckpointError(f"{path} has a damaged header") from None
    if version < 1:
        raise CheckpointError(f"{path} has a damaged header")
    if version > VERSION:
        raise CheckpointError(
            f"{path} was written by a newer leapcde (format {version}, this one reads {VERSION}); upgrade leapcde"
        )
    if found != kind:
        raise CheckpointError(f"{path} is a {found!r} file; a {kind!r} file is needed")
    return about


def _mine(path: Path) -> str:
    """How names of unfinished files begin; other machines, whose processes cannot be seen here, have other ones."""
    return f".{path.name}.{platform.node()}-"


def unfinished(path: Path) -> Path:
    """What a file or a folder is called while this process makes it."""
    return path.with_name(f"{_mine(path)}{os.getpid()}.tmp")


def clear(path: Path) -> None:
    """Remove what writers of this file or folder left behind when they were killed; those that still run keep theirs."""
    for left in path.parent.glob(f"{glob.escape(_mine(path))}*.tmp"):
        pid = left.name.removeprefix(_mine(path)).removesuffix(".tmp")
        if pid.isdecimal() and not _runs(int(pid)):
            with suppress(OSError):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to somebody else
        return True
    return True


def _flatten(tree: Any) -> dict[str, np.ndarray]:
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(keys): np.asarray(leaf, order="C") for keys, leaf in flat if _is_array(leaf)}


def _is_array(leaf: Any) -> bool:
    return (eqx.is_array_like(leaf) and hasattr(leaf, "shape")) or isinstance(leaf, jax.ShapeDtypeStruct)

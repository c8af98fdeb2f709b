"""Prepared data: parsed once, kept as one file of plain arrays, memory-mapped ever after.

A prepared file belongs to the content of its source, to the version of the code that parsed it and to the settings
that went into parsing; when one of them changes, it is simply not found. Every array carries a checksum, and a file
that does not hold what it promises is built again. Files lie in DATA_DIR/prepared where that can be written, else in
the user's cache directory; LEAPCDE_CACHE names another folder, or switches this off ("off"). They can be deleted at
any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np

from leapcde.data.store.mapped import let_go
from leapcde.errors import InputError, LeapError, LeapWarning
from leapcde.files import cache_root, save_file, write_text

Arrays = dict[str, np.ndarray]
Made = tuple[Arrays, dict[str, Any]]  # arrays, and notes that JSON can hold
KIND = "prepared"
_OFF: ContextVar[bool] = ContextVar("uncached", default=False)
BIG = 2**28  # from this size on, a file is hashed again only when its size or time of change differ


def prepared(name: str, files: Sequence[Path], settings: dict[str, Any], data_dir: Path, make: Callable[[], Made]) -> Made:
    """What `make` makes of the files, from the cache if it is there. The notes hold the files' digests as `sha256`."""
    folder = cache_folder(data_dir)
    source = {file.name: digest(file, folder) for file in files}
    if folder is None:
        arrays, notes = make()
        return arrays, {**notes, "sha256": source}
    path = folder / f"{name}-{_key(source, settings)}.safetensors"
    found = _look(path)
    if found is None:
        arrays, notes = make()
        found = arrays, {**notes, "sha256": source}
        _keep(path, *found)
    return found


def cache_folder(data_dir: Path) -> Path | None:
    """Where prepared files lie; None if nothing is to be kept."""
    root = cache_root()
    if root is None or _OFF.get():
        return None
    if os.environ.get("LEAPCDE_CACHE"):
        return root
    # The mode is asked too, because a superuser may write where nobody should.
    if data_dir.is_dir() and os.access(data_dir, os.W_OK) and data_dir.stat().st_mode & 0o222:
        return data_dir / "prepared"
    return root


@contextmanager
def uncached() -> Iterator[None]:
    """Prepare without keeping anything, for those who only look."""
    token = _OFF.set(True)
    try:
        yield
    finally:
        _OFF.reset(token)


def digest(path: Path, folder: Path | None = None) -> str:
    """SHA-256 of a file's content; of a folder's file names, sizes and times of change."""
    try:
        if path.is_dir():
            return hashlib.sha256(json.dumps(_listing(path)).encode()).hexdigest()
        if folder is not None and path.stat().st_size >= BIG:
            return _digest_once(path, folder)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def write(path: Path, arrays: Arrays, notes: dict[str, Any]) -> None:
    """One safetensors file, whole or not at all. Text becomes bytes, which the format can hold."""
    text = [key for key, array in arrays.items() if array.dtype.kind == "U"]
    plain = {key: _as_bytes(array) if key in text else np.ascontiguousarray(array) for key, array in arrays.items()}
    sums = {key: _crc32(array) for key, array in plain.items()}
    forms = {key: [_NAMES.get(array.dtype.str.lstrip("<|"), ""), list(array.shape)] for key, array in plain.items()}
    save_file(
        path, KIND, {KIND: plain}, {"notes": notes, "text": text, "crc32": sums, "whole": _whole(notes, text, sums, forms)}
    )


def read(path: Path) -> Made:
    """Memory-mapped arrays and notes; a ValueError or KeyError if the file is damaged."""
    mapped = np.memmap(path, mode="r")
    size = int(mapped[:8].view("<u8")[0])
    header = json.loads(bytes(mapped[8 : 8 + size]))
    about = json.loads(header["__metadata__"]["leapcde"])
    found, forms = {}, {}
    for key, crc in about["crc32"].items():
        entry = header[f"{KIND}/['{key}']"]
        start, stop = (8 + size + offset for offset in entry["data_offsets"])
        if stop > len(mapped) or _crc32(mapped[start:stop]) != crc:
            raise ValueError(f"{key} is damaged")
        let_go(mapped)  # of which all was read to check it
        array = mapped[start:stop].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        found[key] = _as_text(array) if key in about["text"] else array
        forms[key] = [entry["dtype"], entry["shape"]]
    if about.get("whole", (now := _whole(about["notes"], about["text"], about["crc32"], forms))) != now:
        raise ValueError("its description is damaged")
    return found, about["notes"]


_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}
_NAMES = {kind.lstrip("<"): name for name, kind in _DTYPES.items()}


def _whole(notes: Any, text: list[str], sums: dict[str, int], forms: dict[str, Any]) -> int:
    """A sum over the description, which says what the arrays' bytes mean; files from before have none."""
    return zlib.crc32(json.dumps([notes, text, sums, forms], sort_keys=True).encode())


def _crc32(array: np.ndarray) -> int:
    return zlib.crc32(array.data)


def _look(path: Path) -> Made | None:
    if not path.is_file():
        return None
    try:
        return read(path)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, OSError, RecursionError) as error:
        warnings.warn(f"{path} was damaged ({error}); it is made again", LeapWarning, stacklevel=4)
        return None


def _keep(path: Path, arrays: Arrays, notes: dict[str, Any]) -> None:
    try:
        write(path, arrays, notes)
    except LeapError as error:
        message = f"{error.what}; the data is prepared anew each time (LEAPCDE_CACHE names another folder)"
        warnings.warn(message, LeapWarning, stacklevel=4)


def _key(source: dict[str, str], settings: dict[str, Any]) -> str:
    text = json.dumps([sorted(source.values()), settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_once(path: Path, folder: Path) -> str:
    """The digest of a big file, remembered beside the prepared data for as long as the file does not change."""
    state = path.stat()
    seen = [str(path.resolve()), state.st_size, state.st_mtime_ns]
    memory = folder / f"digest-{hashlib.sha256(seen[0].encode()).hexdigest()[:16]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(memory.read_text(encoding="utf-8"))
        if known["file"] == seen:
            return str(known["sha256"])
    found = digest(path)
    with suppress(LeapError):  # a folder that cannot be written costs time, not the answer
        write_text(memory, json.dumps({"file": seen, "sha256": found}))
    return found


def _listing(folder: Path) -> list[list[Any]]:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    states = [file.stat() for file in files]
    return [[str(f.relative_to(folder)), s.st_size, s.st_mtime_ns] for f, s in zip(files, states, strict=True)]


def _as_bytes(text: np.ndarray) -> np.ndarray:
    coded = np.char.encode(text, "utf-8")
    return np.ascontiguousarray(coded).view(np.uint8).reshape(len(text), max(coded.dtype.itemsize, 1))


def _as_text(raw: np.ndarray) -> np.ndarray:
    width = raw.shape[1]
    return np.char.decode(np.ascontiguousarray(raw).view(f"S{width}").reshape(len(raw)), "utf-8")

"""Arrays that lie in files and not in memory: what is made of large ones lies in files again."""

from __future__ import annotations

import ctypes
import mmap
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from typing import IO, Any

import numpy as np

LARGE = 2**24  # bytes from which something made of a mapped array is mapped too


def is_mapped(array: Any) -> bool:
    """Whether an array, or what it is a part of, lies in a file."""
    return _file_of(array) is not None


def alike(like: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Room for what is made of an array: in memory, or in a file without a name where the array is mapped and this is large.

    The file is gone when nobody holds the array, also if the process is killed.

    >>> is_mapped(alike(np.zeros(3), (10**8,)))
    False
    """
    if not is_mapped(like) or int(np.prod(shape)) * like.itemsize < LARGE:
        return np.empty(shape, like.dtype)
    with tempfile.TemporaryFile() as file:  # the mapping outlives the name and the handle
        return np.memmap(file, like.dtype, "w+", shape=shape)


def let_go(*arrays: Any) -> None:
    """Give back the memory of what was read or written of mapped arrays; it stays in their files."""
    for array in arrays:
        mapped = _file_of(array)
        if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def trim() -> None:
    """Give back what was freed: the C library keeps it, and reading tables or compiling leaves much of it."""
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _file_of(array: Any) -> mmap.mmap | None:
    while array is not None:
        if isinstance(array, mmap.mmap):
            return array
        array = getattr(array, "_mmap", None) or getattr(array, "base", None)
    return None


def end_to_end(parts: Iterable[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The arrays of all parts by name, end to end in files without names: only one part at a time is in memory.

    >>> end_to_end({"a": np.arange(n)} for n in (1, 2))["a"].tolist()
    [0, 0, 1]
    """
    files: dict[str, tuple[IO[bytes], np.ndarray]] = {}
    with ExitStack() as stack:
        for part in parts:
            for name, array in part.items():
                if name not in files:
                    files[name] = stack.enter_context(tempfile.TemporaryFile()), array[:0].copy()
                files[name][0].write(np.ascontiguousarray(array, files[name][1].dtype).data)
        for file, _ in files.values():
            file.flush()
        return {name: np.memmap(file, like.dtype, "r").reshape(-1, *like.shape[1:]) for name, (file, like) in files.items()}

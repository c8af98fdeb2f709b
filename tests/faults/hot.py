"""Forks of a process in which JAX is at work already: a run costs tenths of a second, because nothing is traced or loaded anew.

XLA hands pieces of a larger program to a pool of threads, and threads do not survive a fork: the first such piece would wait
forever. So the one function that hands them over is overwritten, in memory, by one that does the piece at once. That needs
Linux on x86-64 and a jaxlib that names its functions; elsewhere forks are made before JAX begins, which costs seconds each.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import struct
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from server import ended, forked

# void xla::cpu::ThreadPoolTaskRunner::operator()(std::function<void()>)
RUNNER = b"_ZN3xla3cpu20ThreadPoolTaskRunnerclESt8functionIFvvEE"
# mov rdi, rsi; jmp [rsi + 24]: call what the std::function holds, with what it holds.
AT_ONCE = bytes.fromhex("4889f7ff6618")
SYMBOLS = 2  # the kind of an ELF section that holds them, in such rows
ROW = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("part", "<u2"), ("value", "<u8"), ("size", "<u8")])
PAGE = mmap.PAGESIZE
# One thread compiles, and calls return when they are done.
FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_cpu_parallel_codegen_split_count=1"


PATIENCE = 1200.0  # seconds without any work after which a whole session hangs


class Section(NamedTuple):
    kind: int
    start: int
    size: int
    link: int


def session(place: Path, rehearsal: Callable[[], None], work: Callable[[], Any]) -> Any:
    """What `work` returns. Its forks cost little: they come from a process that has done the rehearsal."""
    address = runner()

    def job() -> Any:
        _without_threads(address)
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
            rehearsal()
        return work()

    return apart(place, job) if address else work()


def apart(place: Path, work: Callable[[], Any]) -> Any:
    """What `work` returns in a fork, by way of JSON."""
    place.mkdir(parents=True, exist_ok=True)
    answer, told = place / "answer.json", place / "told.txt"
    told.unlink(missing_ok=True)

    def job() -> None:
        try:
            answer.write_text(json.dumps(work()))
            os._exit(0)
        except BaseException:
            told.write_text(traceback.format_exc())
            os._exit(1)

    code, _ = ended(forked(job), PATIENCE)
    if code:
        raise RuntimeError(f"exit code {code}: {told.read_text()[-3000:] if told.exists() else 'without a word'}")
    return json.loads(answer.read_text())


def _without_threads(address: int) -> None:
    """JAX computes and compiles in the thread that asks for it, here and in all forks of this process."""
    import jax
    from jax._src.interpreters import mlir

    jax.config.update("jax_cpu_enable_async_dispatch", False)
    mlir.JaxIrContext.set_thread_pool = lambda self, pool: self.enable_multithreading(False)
    _overwrite(address, AT_ONCE)


def runner() -> int:
    """The address of the function that hands pieces of a program to threads; 0 where it cannot be replaced."""
    import jaxlib

    library = Path(str(jaxlib.__file__)).parent / "libjax_common.so"
    if sys.platform != "linux" or platform.machine() != "x86_64" or not library.exists():
        return 0
    offset, base = symbol(library, RUNNER), loaded_at(library)
    return base + offset if base and offset else 0


def symbol(library: Path, name: bytes) -> int:
    """Where a function is in a library; 0 if its table of names does not have it."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        sections = _sections(data)
        for one in sections:
            if one.kind != SYMBOLS:
                continue
            names = sections[one.link]
            at = data.find(b"\0" + name + b"\0", names.start, names.start + names.size)
            if at < 0:
                continue
            table = np.frombuffer(data, ROW, one.size // ROW.itemsize, one.start)
            found = table["value"][table["name"] == at + 1 - names.start]
            value = int(found[0]) if len(found) else 0
            del table, found  # they look into the file that is about to be closed
            return value
    return 0


def _sections(data: mmap.mmap) -> list[Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    each, count = struct.unpack_from("<HH", data, 0x3A)
    found = []
    for i in range(count):
        _, kind, _, _, offset, size, link = struct.unpack_from("<IIQQQQI", data, start + i * each)
        found.append(Section(kind, offset, size, link))
    return found


def loaded_at(library: Path) -> int:
    """The address at which this process has a library; 0 if it has not."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        where, _, offset, *_, path = line.split()
        if path == str(library) and int(offset, 16) == 0:
            return int(where.split("-")[0], 16)
    return 0


def _overwrite(address: int, code: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    start = address // PAGE * PAGE
    size = (address + len(code) - start + PAGE - 1) // PAGE * PAGE
    everything, read_and_run = 7, 5
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), everything):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    ctypes.memmove(address, code, len(code))
    libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), read_and_run)

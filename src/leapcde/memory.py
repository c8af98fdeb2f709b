"""Whether a process may have the memory that JAX needs. Where it gets none XLA ends the process, without a word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from leapcde.errors import LeapError

MEGABYTE = 2**20
# What a process has in the end that trains a small model, and what must be left of it in any case; measured (decision 26).
ADDRESSES, RESIDENT, LEFT = 2100 * MEGABYTE, 640 * MEGABYTE, 128 * MEGABYTE
STATUS, GROUP, GROUPS = Path("/proc/self/status"), Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


class NotEnoughMemory(LeapError, MemoryError):
    """A limit leaves too little to compile and compute in."""


def need_memory() -> None:
    """Raise one error where a limit of this process or of its container cannot be enough; nothing elsewhere than on Linux.

    >>> need_memory()
    """
    for limit, used, whole, name, fix in _limits():
        if limit < whole or limit - used < LEFT:
            raise NotEnoughMemory(
                f"there is not enough memory: {name} is {limit // MEGABYTE:,} MB, of which {used // MEGABYTE:,} MB are in use; "
                f"{max(whole, used + LEFT) // MEGABYTE:,} MB or more are needed: {fix}"
            )


def _limits() -> Iterator[tuple[int, int, int, str, str]]:
    """Each limit there is: its bytes, those in use, those of a whole run, its name, and how to raise it."""
    with suppress(ImportError, OSError, ValueError, KeyError, IndexError):
        import resource

        addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
        if addresses != resource.RLIM_INFINITY:
            sizes = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
            used = int(sizes["VmSize"].split()[0]) * 1024
            yield addresses, used, ADDRESSES, "the limit of this process", "ulimit -v unlimited"
    with suppress(OSError, ValueError, KeyError, IndexError):
        own = next(line for line in GROUP.read_text().splitlines() if line.startswith("0::"))
        folder = GROUPS / own[3:].lstrip("/")
        limit = int((folder / "memory.max").read_text())  # "max", no number, where there is none
        files = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        used = int((folder / "memory.current").read_text()) - int(files["inactive_file"])  # pages that can be had back
        yield limit, used, RESIDENT, "the limit of this container", "give it more"

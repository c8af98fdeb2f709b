"""Compiled programs outlive the process: JAX's compilation cache in the user's cache directory (decision 20).

Estimators switch it on before they compile for the first time; importing leapcde changes nothing. Who has set a cache
of JAX's, or switched it off, keeps what was set. LEAPCDE_CACHE names another folder, or switches this off ("off").
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import equinox as eqx
import filelock
import jax
from jax.experimental.compilation_cache import compilation_cache

from leapcde.files import cache_root
from leapcde.memory import need_memory

MOST_BYTES = 2**29  # what was not used for longest goes first
WORTH = 0.1  # seconds of compiling from which a program is kept


def compiled_folder() -> Path | None:
    """Where programs of ours are kept; None if they are not, because somebody has said so or has a cache of JAX's."""
    root = cache_root()
    if root is None or not _setting("enable_compilation_cache"):
        return None
    folder = root / "compiled" / _processor()
    return folder if _setting("compilation_cache_dir") in (None, str(folder)) else None


def prepare_to_compute() -> None:
    """What estimators do first: see that there is memory, and let JAX keep what it compiles."""
    need_memory()
    keep_compiled()


def keep_compiled() -> Path | None:
    """Let JAX keep what it compiles from now on. Returns the folder, or None if nothing of ours is kept.

    Never fails: in a folder that cannot be written, or that others could write programs into, nothing is kept.
    """
    folder, config = compiled_folder(), jax.config
    if folder is None or _setting("compilation_cache_dir") == str(folder):
        return folder
    if not _prepared(folder):
        return None
    if _setting("compilation_cache_max_size") == -1:
        config.update("jax_compilation_cache_max_size", MOST_BYTES)
    if _setting("persistent_cache_min_compile_time_secs") == 1.0:  # nobody has changed it
        config.update("jax_persistent_cache_min_compile_time_secs", WORTH)
    config.update("jax_compilation_cache_dir", str(folder))
    compilation_cache.reset_cache()  # what was compiled before has settled that there is none
    return folder


@cache
def program(function: Callable[..., Any], many_kernels: bool) -> Any:
    """The compiled function. One of very many small kernels is compiled by other emitters of XLA, in a sixth of the memory
    (decision 29)."""
    options = _emitters() if many_kernels else None
    return eqx.filter_jit(function, compiler_options=options)  # pyright: ignore[reportCallIssue]


@cache
def _emitters() -> dict[str, Any] | None:
    """None where this XLA has only one kind."""
    options = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda: 0, compiler_options=options)()
    except jax.errors.JaxRuntimeError:
        return None
    return options


def _setting(name: str) -> Any:
    return getattr(jax.config, f"jax_{name}")


def _prepared(folder: Path) -> bool:
    """Whether the folder is there, is ours alone to write, and holds no entry that a killed process left half written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
        # Programs that somebody else put there would be run as ours.
        if about.st_mode & 0o022 or (hasattr(os, "getuid") and about.st_uid != os.getuid()):
            return False
        with filelock.FileLock(folder / ".lockfile", timeout=1.0):  # the lock of JAX's own reads and writes
            for entry in folder.glob("*-cache"):
                if not entry.with_name(f"{entry.name.removesuffix('-cache')}-atime").exists():
                    with suppress(OSError):
                        entry.unlink()
    except (OSError, filelock.Timeout):
        return False
    return True


@cache
def _processor() -> str:
    """A name for this kind of processor: machines that share a home directory must not share programs."""
    found = [platform.system(), platform.machine(), platform.processor()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        found += sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:12]


class Form:
    """What a program depends on besides numbers: a model without its arrays, and whatever goes with it.

    To take a model apart and to compare its parts at every call, as `eqx.filter_jit` does, costs more than a small program
    takes: here both are done once, and the form is a static argument of `jax.jit`.
    """

    def __init__(self, tree: Any):
        arrays, rest = eqx.partition(tree, eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        self.key = (tuple(leaves), structure, jax.tree.structure(arrays))
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Form) and self.key == other.key)

    def together(self, arrays: list) -> Any:
        """What was taken apart, with these arrays."""
        leaves, structure, of_arrays = self.key
        return eqx.combine(jax.tree.unflatten(of_arrays, arrays), jax.tree.unflatten(structure, leaves))


def take_apart(tree: Any) -> tuple[Form, list]:
    """The form of a tree, and its arrays.

    >>> form, arrays = take_apart((jax.numpy.ones(2), "text"))
    >>> len(arrays), form.together([3.0])
    (1, (3.0, 'text'))
    """
    return _first(Form(tree)), jax.tree.leaves(eqx.filter(tree, eqx.is_array))


@lru_cache(maxsize=64)
def _first(form: Form) -> Form:
    """The first of all that are equal: an object is compared with itself in no time."""
    return form

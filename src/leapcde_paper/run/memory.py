"""What a cell needs of memory: XLA's own count for the compiled training step, and the peak of the process."""

from __future__ import annotations

import gc
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import jax

from leapcde.data.series import Series
from leapcde.training.config import TrainConfig
from leapcde.training.fitted import FittedModel
from leapcde.training.loop import compiled_steps

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MAPS, MOST_MAPS = Path("/proc/self/maps"), 20_000  # Linux allows a process 65,530 by default


def forget_programs() -> None:
    """Let go of compiled programs when there are many. Each holds some of the process's memory maps, and a process that
    has no more of them crashes in the middle of a compilation: long sweeps and long test runs get there."""
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def step_bytes(fitted: FittedModel, train: Series, config: TrainConfig) -> int:
    """Bytes of the compiled training step, the largest of its buckets: arguments, results and what lies between them.

    Asked in the process that has trained, this costs next to nothing: the step is compiled already.
    """
    own = fitted.preprocessor
    steps = compiled_steps(fitted.model, own.task, fitted.encode(train), config)
    return max(_total(step.memory_analysis()) for step in steps)


def forget_peak() -> None:
    """Start the count of the process anew, where the system can (Linux)."""
    with suppress(OSError):
        CLEAR.write_text("5")


def process_bytes() -> int:
    """The most memory that this process has held, since `forget_peak` where the system can tell, else ever.

    >>> process_bytes() > 1_000_000
    True
    """
    with suppress(OSError, TypeError):
        found = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text())
        return int(found[1]) * 1024  # pyright: ignore[reportOptionalSubscript]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _total(stats) -> int:
    parts = stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    return parts - stats.alias_size_in_bytes

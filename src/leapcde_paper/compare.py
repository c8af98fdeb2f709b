"""`leapcde compare`: models side by side on one data set, as a sweep of cells, and the table made of their records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leapcde.errors import TrainingError
from leapcde_paper.run.cell import Cell, CellConfig
from leapcde_paper.run.sweep import sweep

BUDGET = "own"  # the command's own epochs and rate, not one of the budgets


def compare(
    configs: Sequence[CellConfig], folder: Path, *, jobs: int = 1, on_cells: Callable[[int], None] | None = None
) -> list[dict[str, Any]]:
    """Run every config that has no record in `folder` yet, `jobs` at a time; the records of all, in order.

    `on_cells` is told how many are finished.
    """
    tell = None if on_cells is None else lambda progress: on_cells(len(progress.done))
    swept = sweep([Cell(config, BUDGET) for config in configs], folder, jobs=jobs, on_progress=tell)
    if swept.failures:
        raise TrainingError("some cells failed", [f"{failure.name}: {failure.message}" for failure in swept.failures])
    return swept.records

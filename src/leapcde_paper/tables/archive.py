"""Many data sets by few models: a row a data set and share dropped, a column a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leapcde_paper.run.experiment import Experiment
from leapcde_paper.tables.render import Grid, Text, made, score
from leapcde_paper.tables.table import Found, table

NOTE = (
    "± is the deviation over seeds. Bold: the best mean, and those not significantly different from it (paired t-test over "
    "seeds, p ≥ 0.05)."
)


def archive(experiment: Experiment, found: Found, folder: Path) -> dict[str, Any]:
    """The table of any experiment; only how it is laid out differs."""
    return table(experiment, found)


def by_problem(columns: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The mean over all shares dropped, by problem and row; a row counts for a problem of which it has them all.

    >>> columns = [{"label": f"GunPoint, {x} %", "cells": {"GRU": {"scores": [1], "mean": x}}} for x in (0, 30)]
    >>> by_problem(columns)
    {'GunPoint': {'GRU': 15.0}}
    """
    problems: dict[str, list[dict[str, Any]]] = {}
    for column in columns:
        problems.setdefault(column["label"].split(",")[0], []).append(column["cells"])
    means = lambda row, cells: [one[row]["mean"] for one in cells if one[row] and one[row]["scores"]]
    return {
        problem: {row: float(np.mean(found)) for row in cells[0] if len(found := means(row, cells)) == len(cells)}
        for problem, cells in problems.items()
    }


def archive_grid(found: dict[str, Any]) -> Grid:
    """One row a column of the table."""
    rows = [
        [Text(column["label"]), *(_score(column["cells"].get(row)) for row in found["rows"])] for column in found["columns"]
    ]
    notes = [f"Budget {found['budget']}. {made(found)}", NOTE, *([found["note"]] if found["note"] else [])]
    return Grid(found["name"], found["title"], ["problem, rows dropped", *found["rows"]], rows, notes)


def _score(cell: dict[str, Any] | None) -> Text:
    return Text("–") if cell is None else score(cell)

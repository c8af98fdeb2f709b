"""Many data sets by few models: a row a data set and share dropped, a column a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def archive_grid(found: dict[str, Any]) -> Grid:
    """One row a column of the table."""
    rows = [
        [Text(column["label"]), *(_score(column["cells"].get(row)) for row in found["rows"])] for column in found["columns"]
    ]
    notes = [f"Budget {found['budget']}. {made(found)}", NOTE, *([found["note"]] if found["note"] else [])]
    return Grid(found["name"], found["title"], ["problem, rows dropped", *found["rows"]], rows, notes)


def _score(cell: dict[str, Any] | None) -> Text:
    return Text("–") if cell is None else score(cell)
